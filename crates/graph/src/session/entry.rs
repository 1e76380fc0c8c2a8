//! One graph of a session: added, compiled, loaded; and the bases that the application set.

use super::loaded::{LoadRequest, LoadedGraph};
use super::options::Options;
use crate::compile::variable::first_variable;
use crate::custom::CustomOperators;
use crate::executable::{Bases, CompileOptions, Executable, FixedBase};
use crate::failure::{Failure, Result, Status};
use crate::ir::{Desc, Graph};
use cairn_runtime::Runtime;
use cairn_runtime::host::HostThread;
use cairn_runtime::lock::{Condvar, Mutex, MutexGuard, Rank};
use cairn_runtime::memory::external::ALIGNMENT;
use cairn_runtime::memory::{AddressInfo, describe};
use std::sync::Arc;

/// A graph that its author may still change, shared with the session.
pub type SharedGraph = Arc<Mutex<Graph>>;

/// Memory that the application may provide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Base {
    /// For constants.
    Const,
    /// For all feature memory.
    Feature,
    /// For the fixed part of it.
    Fixed,
    /// For the rest of it.
    Refreshable,
}

/// How a graph was run before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// `RunGraph`, `RunGraphAsync`.
    Host,
    /// On a stream of the caller.
    Stream,
}

/// A graph of a session.
pub struct Entry {
    /// The runtime.
    pub runtime: &'static Runtime,
    /// The device it runs on.
    pub device: u32,
    /// Its id.
    pub id: u32,
    /// What the user calls it, for messages.
    pub label: Arc<str>,
    /// Its options, over those of the session.
    pub options: Options,
    graph: SharedGraph,
    custom: Arc<CustomOperators>,
    stage: Mutex<Stage>,
    changed: Condvar,
}

/// How far a graph has come.
#[derive(Default)]
struct Stage {
    /// The thread that compiles or loads it now.
    busy: Option<u64>,
    /// Runs that are being submitted.
    runs: usize,
    compiled: Option<Arc<Executable>>,
    loaded: Option<Arc<LoadedGraph>>,
    bases: Bases,
    mode: Option<Mode>,
    removed: bool,
}

impl Entry {
    /// A graph that was added.
    pub fn new(
        runtime: &'static Runtime,
        device: u32,
        id: u32,
        graph: SharedGraph,
        options: Options,
        custom: Arc<CustomOperators>,
    ) -> Entry {
        let name = graph.lock().name.clone();
        let label = match name.is_empty() {
            true => format!("graph {id}").into(),
            false => format!("graph {id} ({name})").into(),
        };
        let stage = Mutex::new(Rank::Stage, Stage::default());
        let changed = Condvar::new();
        Entry { runtime, device, id, label, options, graph, custom, stage, changed }
    }

    fn fail<T>(&self, status: Status, text: &str) -> Result<T> {
        Err(Failure::new(status, format!("{} {text}", self.label)))
    }

    /// Waits until no other thread compiles or loads the graph, and marks that this one does.
    fn mark_busy(&self) -> Result<BusyGuard<'_>> {
        let thread = HostThread::current().number();
        let mut stage = self.stage.lock();
        loop {
            if stage.removed {
                return self.fail(Status::NotExist, "was removed");
            }
            match stage.busy {
                None => {
                    stage.busy = Some(thread);
                    return Ok(BusyGuard(self));
                }
                Some(owner) if owner == thread => {
                    return self.fail(
                        Status::IsRunning,
                        "is being compiled or loaded by this very thread: an allocator cannot run it meanwhile",
                    );
                }
                Some(_) => self.changed.wait(&mut stage),
            }
        }
    }

    /// The compiled graph.
    pub fn compiled(&self) -> Result<Arc<Executable>> {
        match &self.stage.lock().compiled {
            Some(compiled) => Ok(compiled.clone()),
            None => self.fail(Status::NotBuilt, "is not compiled: call CompileGraph first"),
        }
    }

    /// Compiles, unless that was done. `inputs` replaces the descriptions of the inputs, unless it is empty.
    pub fn compile(&self, inputs: Vec<Desc>) -> Result<Arc<Executable>> {
        let busy = self.mark_busy()?;
        if let Some(compiled) = busy.stage().compiled.clone()
            && inputs.is_empty()
        {
            return Ok(compiled);
        }
        let is_same = |compiled: &Arc<Executable>| {
            let known = compiled.inputs.iter().map(|(_, desc)| (desc.dtype, &desc.dims));
            known.eq(inputs.iter().map(|desc| (desc.dtype, &desc.dims)))
        };
        if let Some(compiled) = busy.stage().compiled.clone().filter(is_same) {
            return Ok(compiled);
        }
        if busy.stage().loaded.is_some() {
            return self
                .fail(Status::Unsupported, "is loaded and cannot be compiled for other inputs");
        }
        let graph = self.graph.lock().clone();
        let (ins, outs) = (graph.inputs().len(), graph.outputs().len());
        let options = self.options.compile_options(ins, outs, inputs);
        let options = options.map_err(|failure| failure.in_context(&self.label))?;
        let options = CompileOptions { custom: self.custom.clone(), ..options };
        let compiled = Arc::new(Executable::compile(graph, self.label.clone(), options)?);
        busy.stage().compiled = Some(compiled.clone());
        Ok(compiled)
    }

    /// Fails for a graph that names variables of the session.
    pub fn check_no_variables(&self) -> Result<()> {
        match first_variable(&self.graph.lock()) {
            None => Ok(()),
            Some(name) => self.fail(
                Status::Failed,
                &format!(
                    "names the variable {name}: Session::CompileGraph takes no variables. Run it with RunGraph, RunGraphAsync or RunGraphWithStreamAsync, or compile it with GeSession::CompileGraph"
                ),
            ),
        }
    }

    /// Whether it is loaded.
    pub fn is_loaded(&self) -> bool {
        self.stage.lock().loaded.is_some()
    }

    /// The loaded graph.
    pub fn loaded(&self) -> Result<Arc<LoadedGraph>> {
        match &self.stage.lock().loaded {
            Some(loaded) => Ok(loaded.clone()),
            None => self.fail(Status::ParamInvalid, "is not loaded: call LoadGraph first"),
        }
    }

    /// Loads what is compiled. A graph that is loaded already stays so, or fails (`fails_if_loaded`).
    pub fn load(
        &self,
        request: &LoadRequest<'_>,
        fails_if_loaded: bool,
    ) -> Result<Arc<LoadedGraph>> {
        let busy = self.mark_busy()?;
        if let Some(loaded) = busy.stage().loaded.clone() {
            return match fails_if_loaded {
                false => Ok(loaded),
                true => self.fail(Status::Repeat, "is loaded already"),
            };
        }
        let compiled = match busy.stage().compiled.clone() {
            Some(compiled) => compiled,
            None => return self.fail(Status::NotBuilt, "is not compiled: call CompileGraph first"),
        };
        let bases = busy.stage().bases;
        let loaded = Arc::new(
            LoadedGraph::new(self, &compiled, request, bases)
                .map_err(|failure| failure.with_label(&self.label))?,
        );
        let mut stage = busy.stage();
        if stage.removed && stage.runs == 0 {
            drop(stage);
            loaded.loaded.unload();
            return self.fail(Status::NotExist, "was removed");
        }
        stage.loaded = Some(loaded.clone());
        Ok(loaded)
    }

    /// Sets how the graph is run; the other mode is refused from then on.
    pub fn set_run_mode(&self, mode: Mode) -> Result<()> {
        let mut stage = self.stage.lock();
        match stage.mode {
            Some(previous) if previous != mode => self.fail(
                Status::Failed,
                match mode {
                    Mode::Host => "E10062: was run on a stream before: RunGraph and RunGraphAsync cannot run it",
                    Mode::Stream => "E10062: was run by RunGraph or RunGraphAsync before, and cannot run on a stream",
                },
            ),
            _ => {
                stage.mode = Some(mode);
                Ok(())
            }
        }
    }

    /// Counts a run while it is submitted.
    pub fn begin_run(&self) -> Result<Running<'_>> {
        let mut stage = self.stage.lock();
        if stage.removed {
            return self.fail(Status::NotExist, "was removed");
        }
        stage.runs += 1;
        Ok(Running(self))
    }

    /// The bases that are set now.
    pub fn bases(&self) -> Bases {
        self.stage.lock().bases
    }

    /// Gives the graph's memory back, on this thread; while a run is being submitted, the thread that does so
    /// gives it back when it is done. The graph cannot be used afterwards.
    pub fn unload(&self) {
        let loaded = {
            let mut stage = self.stage.lock();
            stage.removed = true;
            if stage.runs == 0 { stage.loaded.take() } else { None }
        };
        self.changed.notify_all();
        if let Some(loaded) = loaded {
            loaded.loaded.unload();
        }
    }

    /// Sets memory that the application provides; gives a message if it will not be used. `memory_type` is a
    /// `ge::MemoryType`, where the caller named one.
    pub fn set_base(
        &self,
        base: Base,
        memory_type: Option<i32>,
        memory: usize,
        size: u64,
    ) -> Result<Option<String>> {
        let busy = self.mark_busy()?;
        let stage = busy.stage();
        if stage.runs > 0 {
            return self.fail(Status::IsRunning, "is running");
        }
        let Some(compiled) = stage.compiled.clone() else {
            return self.fail(Status::NotBuilt, "is not compiled: call CompileGraph first");
        };
        if !compiled.is_static() && base != Base::Fixed {
            return self.fail(
                Status::Failed,
                "has sizes that are not known: only static graphs take such memory",
            );
        }
        let (bases, is_loaded) = (stage.bases, stage.loaded.is_some());
        drop(stage);
        let new_bases =
            self.check_base(base, memory_type, memory, size, (&compiled, bases, is_loaded))?;
        let loaded = busy.stage().loaded.clone();
        busy.stage().bases = new_bases;
        if let Some(loaded) = loaded {
            loaded.loaded.rebase(&new_bases);
        }
        let is_unused = base == Base::Fixed && memory != 0 && new_bases == bases;
        Ok(is_unused.then(|| {
            format!("{} has no such fixed feature memory: what was set is not used", self.label)
        }))
    }

    /// The bases with this one; fails if it cannot be set.
    fn check_base(
        &self,
        base: Base,
        memory_type: Option<i32>,
        memory: usize,
        size: u64,
        (compiled, bases, is_loaded): (&Executable, Bases, bool),
    ) -> Result<Bases> {
        let mut new_bases = bases;
        match base {
            Base::Const => {
                if is_loaded {
                    return self
                        .fail(Status::Unsupported, "is loaded: const memory is set before that");
                }
                if bases.constants.is_some() {
                    return self.fail(Status::Repeat, "has const memory that was set before");
                }
                self.check_memory(memory, size, compiled.reported_const_bytes(), "const")?;
                new_bases.constants = Some(memory);
            }
            Base::Feature => {
                if bases.fixed.is_some() {
                    return self
                        .fail(Status::Unsupported, "has fixed feature memory that was set before");
                }
                if bases.refreshable.is_some() {
                    return self.fail(
                        Status::Unsupported,
                        "has refreshable feature memory that was set before",
                    );
                }
                self.check_movable(compiled, is_loaded, bases.feature.is_some())?;
                self.check_memory(memory, size, compiled.reported_feature_bytes(), "feature")?;
                new_bases.feature = Some(memory);
            }
            Base::Refreshable => {
                if bases.feature.is_some() {
                    return self
                        .fail(Status::Unsupported, "has feature memory that was set before");
                }
                self.check_movable(compiled, is_loaded, bases.refreshable.is_some())?;
                self.check_memory(
                    memory,
                    size,
                    compiled.reported_refreshable_bytes(),
                    "refreshable feature",
                )?;
                new_bases.refreshable = Some(memory);
            }
            Base::Fixed => {
                return self.check_fixed(memory_type, memory, size, (compiled, bases, is_loaded));
            }
        }
        Ok(new_bases)
    }

    /// As [`Entry::check_base`], for fixed feature memory.
    fn check_fixed(
        &self,
        memory_type: Option<i32>,
        memory: usize,
        size: u64,
        (compiled, bases, is_loaded): (&Executable, Bases, bool),
    ) -> Result<Bases> {
        let mut new_bases = bases;
        let kind = memory_type.unwrap_or(0);
        if !(0..=1).contains(&kind) {
            let text = format!("takes no memory of type {kind}: 0 is default, 1 is P2P");
            return self.fail(Status::ParamInvalid, &text);
        }
        if (memory == 0) != (size == 0) {
            let text = format!("is given {size} bytes of fixed feature memory at {memory:#x}");
            return self.fail(Status::ParamInvalid, &text);
        }
        if memory == 0 && kind == 1 {
            return self.fail(Status::ParamInvalid, "takes no null P2P memory");
        }
        if bases.feature.is_some() {
            return self.fail(Status::Unsupported, "has feature memory that was set before");
        }
        if bases.fixed.is_some() {
            return self.fail(Status::Repeat, "has fixed feature memory that was set before");
        }
        if kind == 1 || (compiled.fixed_bytes() == 0 && memory != 0) {
            return Ok(new_bases);
        }
        if is_loaded {
            return self
                .fail(Status::Unsupported, "is loaded: fixed feature memory is set before that");
        }
        if memory == 0 {
            new_bases.fixed = Some(FixedBase::InFeature);
            return Ok(new_bases);
        }
        self.check_memory(memory, size, compiled.fixed_bytes(), "fixed feature")?;
        new_bases.fixed = Some(FixedBase::Address(memory));
        Ok(new_bases)
    }

    /// Fails where feature memory cannot be set (again).
    fn check_movable(&self, compiled: &Executable, is_loaded: bool, is_set: bool) -> Result<()> {
        match (compiled.is_refreshable, is_loaded, is_set) {
            (true, ..) | (false, false, false) => Ok(()),
            (false, true, _) => self.fail(
                Status::Failed,
                "is loaded, and its feature memory stays where it is (ge.featureBaseRefreshable is not 1)",
            ),
            (false, false, true) => self.fail(Status::Repeat, "has feature memory that was set before"),
        }
    }

    /// Fails for memory that is not on the device, is too small or is not aligned.
    fn check_memory(&self, memory: usize, have: u64, want: u64, what: &str) -> Result<()> {
        if memory == 0 {
            return self
                .fail(Status::ParamInvalid, &format!("is given null for its {what} memory"));
        }
        if have < want {
            let text = format!("wants {want} bytes of {what} memory, and is given {have}");
            return self.fail(Status::ParamInvalid, &text);
        }
        match self.runtime.shared.memory.enclosing(memory) {
            AddressInfo::Device(device, Some(allocation))
                if device == self.device && allocation.live =>
            {
                let left = allocation.start as u64 + allocation.bytes - memory as u64;
                if left < want {
                    let text = format!(
                        "wants {want} bytes of {what} memory; {left} are left at {memory:#x}"
                    );
                    return self.fail(Status::ParamInvalid, &text);
                }
                match memory.is_multiple_of(ALIGNMENT) {
                    true => Ok(()),
                    false => {
                        let text = format!(
                            "is given {what} memory at {memory:#x}, which is no multiple of {ALIGNMENT}"
                        );
                        self.fail(Status::ParamInvalid, &text)
                    }
                }
            }
            info => {
                let text = format!(
                    "is given {what} memory that is {}, not memory of device {}",
                    describe(memory, &info),
                    self.device
                );
                self.fail(Status::ParamInvalid, &text)
            }
        }
    }
}

/// Marks that a thread compiles or loads a graph.
struct BusyGuard<'a>(&'a Entry);

impl BusyGuard<'_> {
    fn stage(&self) -> MutexGuard<'_, Stage> {
        self.0.stage.lock()
    }
}

impl Drop for BusyGuard<'_> {
    fn drop(&mut self) {
        self.0.stage.lock().busy = None;
        self.0.changed.notify_all();
    }
}

/// A run while it is submitted.
pub struct Running<'a>(&'a Entry);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let loaded = {
            let mut stage = self.0.stage.lock();
            stage.runs -= 1;
            if stage.removed && stage.runs == 0 { stage.loaded.take() } else { None }
        };
        if let Some(loaded) = loaded {
            loaded.loaded.unload();
        }
    }
}
