//! A graph with its memory on a device.

use super::compile::{Executable, Kind};
use crate::failure::{Failure, Result};
use crate::run::graph_kernel::GraphKernel;
use crate::run::memory::{CallersMemory, CallersRange, CallersUse, MemorySource};
use crate::run::pass::{LoadedPass, RegionAddresses};
use crate::run::report::{self, PlanReport};
use crate::run::upload::ConstantUpload;
use cairn_exec::Target;
use cairn_runtime::error::Code;
use cairn_runtime::event::Event;
use cairn_runtime::lock::{Mutex, MutexGuard, Rank};
use cairn_runtime::memory::allocator::Block;
use cairn_runtime::memory::purpose::Purpose;
use cairn_runtime::record::{self, Spine};
use cairn_runtime::stream::Stream;
use cairn_runtime::task::{Location, Span, Spans, Task};
use std::sync::Arc;
use std::time::Duration;

/// Memory that the caller provides, by its first byte. It belongs to the caller, and stays valid until the unload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bases {
    /// For constants.
    pub constants: Option<usize>,
    /// For all feature memory.
    pub feature: Option<usize>,
    /// For the fixed part.
    pub fixed: Option<FixedBase>,
    /// For the rest.
    pub refreshable: Option<usize>,
}

/// What the caller decided about fixed feature memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FixedBase {
    /// It is at this address.
    Address(usize),
    /// It is not allocated separately, but as a part of the feature memory.
    InFeature,
}

/// How an executable is loaded.
#[derive(Clone, Copy, Debug, Default)]
pub struct LoadOptions<'a> {
    /// The number that allocators see (`cairn/reason.h`).
    pub id: u32,
    /// Memory that is not taken from the target's allocator.
    pub bases: Bases,
    /// Bytes of const memory to take at least: others that share it want as much.
    pub const_bytes: u64,
    /// Bytes of feature memory to take at least.
    pub feature_bytes: u64,
    /// Memory of the program that is known to be in use: no block of an allocator may overlap it.
    pub in_use: &'a [CallersRange],
    /// Whether the executable is not loaded again: its constants need not be kept.
    pub is_last: bool,
}

/// A loaded executable with its const memory and, if it is static, fixed and feature memory.
///
/// **Threads.** Any number may run it at a time; runs that share memory are ordered between streams. No lock is held
/// while an allocator is called. **Its end.** [`LoadedExecutable::unload`] or the drop give its memory back, on that
/// thread and without waiting: queued tasks keep the plan alive, and the memory is given back in the order of the
/// stream that ran it last.
pub struct LoadedExecutable {
    /// The executable this was loaded from.
    pub executable: Arc<Executable>,
    /// The number that allocators see.
    pub id: u32,
    /// Process-wide unique id of this load, used in the record.
    pub serial: u64,
    /// The device of its memory.
    pub device: u32,
    /// What its runs do, as reported.
    pub(crate) plans: Plans,
    /// The event after the load.
    ready: Event,
    /// The index of the stream that it was loaded on.
    load_stream: u32,
    /// The task that uploads the constants, and its stream: for runs that call custom operators, which may read constants
    /// themselves, unordered with the stream.
    pub(crate) constants_task: Option<(Arc<Stream>, u64)>,
    state: Mutex<LoadState>,
}

/// What the runs of a loaded graph do.
pub(crate) enum Plans {
    /// One task that runs all steps.
    Static {
        /// The steps that need constants alone.
        init: Arc<LoadedPass>,
        /// The steps of every run.
        steps: Arc<LoadedPass>,
    },
    /// A task for each node.
    Dynamic(PlanReport),
}

/// The memory of a loaded graph, and the order of its runs.
#[derive(Default)]
pub(crate) struct LoadState {
    constants: RegionMemory,
    fixed: RegionMemory,
    feature: RegionMemory,
    /// The address at which fixed memory was computed; 0 if it was not.
    initialised_at: usize,
    /// The feature memory of the last run.
    pub last_feature: Option<LastFeature>,
    /// The stream of the last run that used the graph's own memory; at first that of the load.
    last: Option<Arc<Stream>>,
    /// Other streams with runs that shared only read-only memory: constants.
    readers: Vec<Arc<Stream>>,
    /// Runs that are being submitted: while there are any, no memory is given back.
    active: usize,
    /// Memory that was replaced meanwhile.
    replaced: Vec<RegionMemory>,
    is_unloaded: bool,
}

/// Feature memory that a run took for itself.
#[derive(Clone, Copy)]
pub(crate) struct LastFeature {
    /// The address of the allocator that made it, which only tells it from others.
    pub allocator: usize,
    /// Its first byte.
    pub address: usize,
}

/// The memory of one region.
#[derive(Default)]
enum RegionMemory {
    /// None yet.
    #[default]
    None,
    /// The caller's: address and bytes.
    Callers(usize, u64),
    /// Taken from an allocator.
    Block(Block),
}

impl RegionMemory {
    fn address(&self) -> Option<usize> {
        match self {
            RegionMemory::None => None,
            RegionMemory::Callers(address, _) => Some(*address),
            RegionMemory::Block(block) => Some(block.address()),
        }
    }

    /// A block will be freed in the order of this stream.
    fn set_free_stream(&mut self, stream: &Arc<Stream>) {
        if let RegionMemory::Block(block) = self {
            block.set_free_stream(stream);
        }
    }
}

/// Addresses of the memory regions that every run uses besides inputs and outputs.
pub(crate) struct Regions {
    /// Const memory.
    pub constants: usize,
    /// Fixed memory; `None` if it follows the refreshable part.
    pub fixed: Option<usize>,
    /// Feature memory; `None` if each run takes its own.
    pub feature: Option<usize>,
}

impl Executable {
    /// Takes memory for the graph from the target's allocator, and fills it on the target's stream.
    pub fn load(
        self: &Arc<Executable>,
        target: &Target<'_>,
        options: &LoadOptions<'_>,
    ) -> Result<LoadedExecutable> {
        let stream = &target.stream;
        let mut callers = CallersMemory::default();
        callers.extend(options.in_use.iter().copied());
        let mut state = LoadState { last: Some(stream.clone()), ..LoadState::default() };
        state.set_bases(self, &options.bases);
        callers.extend(state.callers_ranges());
        let serial = report::next_id();
        let source = MemorySource { target, graph: options.id, loaded: serial, callers };
        state.take(self, &source, options)?;
        let plans = match &self.kind {
            Kind::Static { init, steps, .. } => Plans::Static {
                init: LoadedPass::new(init, serial),
                steps: LoadedPass::new(steps, serial),
            },
            Kind::Dynamic { .. } => Plans::Dynamic(PlanReport::new(serial)),
        };
        let mut loaded = LoadedExecutable {
            executable: self.clone(),
            id: options.id,
            serial,
            device: target.device(),
            plans,
            ready: Event::internal(),
            load_stream: stream.index,
            constants_task: None,
            state: Mutex::new(Rank::Runs, state),
        };
        loaded.emit(stream.spine());
        let upload_seq = loaded.fill(stream, options.is_last)?;
        loaded.ready.record(stream)?;
        if matches!(&self.kind, Kind::Dynamic { flow, .. } if flow.has_custom_operators()) {
            loaded.constants_task = upload_seq.map(|seq| (stream.clone(), seq));
        }
        Ok(loaded)
    }

    /// The task that uploads the constants.
    fn upload(&self, address: usize, device: u32, is_last: bool) -> Task {
        let mut kept = self.constants.lock();
        let constants = if is_last { std::mem::take(&mut *kept) } else { kept.clone() };
        let bytes = self.const_bytes() as usize;
        let to = Span { address, bytes, location: Location::Device(device) };
        Task {
            name: "graph constants",
            reads: Spans::new(),
            writes: [to].into_iter().collect(),
            body: GraphKernel::body(ConstantUpload::new(constants), &self.label, "constants"),
        }
    }
}

impl LoadedExecutable {
    /// Emits the plans of its runs.
    fn emit(&self, spine: &Spine) {
        match &self.plans {
            Plans::Static { init, steps } => {
                if !init.is_empty() {
                    init.emit_load(spine);
                }
                steps.emit_load(spine);
            }
            Plans::Dynamic(report) => report.emit_load(spine, &self.executable.label, Vec::new),
        }
    }

    /// Uploads the constants, and computes what depends on them alone. Returns the number of the task that uploads
    /// them.
    fn fill(&self, stream: &Arc<Stream>, is_last: bool) -> Result<Option<u64>> {
        let executable = &self.executable;
        let mut state = self.state.lock();
        let Some(address) = state.constants.address() else { return Ok(None) };
        let mut upload_seq = None;
        if executable.const_bytes() > 0 {
            upload_seq = Some(stream.submit(executable.upload(address, self.device, is_last))?);
        }
        let fixed = state.regions(executable).fixed;
        if let (Some(fixed), Plans::Static { init, .. }) = (fixed, &self.plans) {
            state.initialise(init, stream, fixed)?;
        }
        Ok(upload_seq)
    }

    /// Locks the state: held while a run is submitted, but not while memory is taken.
    pub(crate) fn state(&self) -> MutexGuard<'_, LoadState> {
        self.state.lock()
    }

    /// Keeps the memory while a run is submitted.
    pub(crate) fn begin_run(&self) -> Result<ActiveRun<'_>> {
        let mut state = self.state.lock();
        if state.is_unloaded {
            let text = format!("{} was unloaded", self.executable.label);
            return Err(Failure { code: Code::ModelId, ..Failure::failed(text) });
        }
        state.active += 1;
        Ok(ActiveRun(self))
    }

    /// Makes later work on `stream` wait for what the graph needs: its load, and its last run if both use the
    /// same memory.
    pub(crate) fn order(
        &self,
        state: &mut LoadState,
        stream: &Arc<Stream>,
        shares_feature: bool,
    ) -> Result<()> {
        if shares_feature {
            if let Some(last) = state.last.replace(stream.clone()) {
                order_after(&last, stream)?;
            }
        } else if stream.index != self.load_stream {
            self.ready.wait_as("graph order", stream, Duration::ZERO)?;
            state.readers.retain(|reader| reader.index != stream.index && !reader.is_idle());
            state.readers.push(stream.clone());
        }
        Ok(())
    }

    /// Uses bases that were set after the load. Memory that was taken before is given back as by
    /// [`LoadedExecutable::unload`].
    pub fn rebase(&self, bases: &Bases) {
        let executable = &self.executable;
        let callers_memory = match (bases.feature, bases.refreshable) {
            (Some(address), _) => RegionMemory::Callers(address, executable.feature_bytes()),
            (None, Some(address)) => RegionMemory::Callers(address, executable.refreshable_bytes()),
            (None, None) => return,
        };
        let mut state = self.state.lock();
        let previous = std::mem::replace(&mut state.feature, callers_memory);
        state.replaced.push(previous);
        self.give_back(state);
    }

    /// Where const and feature memory are, of those that it has.
    pub fn addresses(&self) -> (Option<usize>, Option<usize>) {
        let state = self.state.lock();
        (state.constants.address(), state.feature.address())
    }

    /// Makes later work on `stream` come after the last run, and counts as one: for others that use the same memory.
    pub fn follow(&self, stream: &Arc<Stream>) -> Result<()> {
        let mut state = self.state.lock();
        self.order(&mut state, stream, true)
    }

    /// Gives all memory back, on this thread; while a run is being submitted, the thread that does so gives it back
    /// when it is done. Queued work goes on; further runs fail.
    pub fn unload(&self) {
        let mut state = self.state.lock();
        if !state.is_unloaded {
            state.is_unloaded = true;
            self.give_back(state);
        }
    }

    /// Gives back what no run needs any more; nothing while a run is being submitted.
    fn give_back(&self, mut state: MutexGuard<'_, LoadState>) {
        if state.active > 0 {
            return;
        }
        let mut memories = std::mem::take(&mut state.replaced);
        if let Some(last) = &state.last {
            memories.iter_mut().for_each(|memory| memory.set_free_stream(last));
        }
        if state.is_unloaded {
            memories.extend(state.release(self.serial));
        }
        drop(state);
        drop(memories);
    }
}

/// A run while it is submitted.
pub(crate) struct ActiveRun<'a>(&'a LoadedExecutable);

impl Drop for ActiveRun<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.active -= 1;
        self.0.give_back(state);
    }
}

impl Drop for LoadedExecutable {
    fn drop(&mut self) {
        self.unload();
    }
}

impl LoadState {
    /// All memory, to be given back by whoever drops it without the lock, in the order of the last run's stream, which
    /// comes after every run. Emits, once, that the graph loaded under this number ends.
    fn release(&mut self, loaded: u64) -> [RegionMemory; 3] {
        let mut memories = [
            std::mem::take(&mut self.constants),
            std::mem::take(&mut self.feature),
            std::mem::take(&mut self.fixed),
        ];
        if let Some(mut last) = self.last.take() {
            last.spine().emit(record::Kind::Unload, || record::Event::Unload { loaded });
            for reader in self.readers.drain(..).filter(|reader| !reader.is_idle()) {
                // If the last stream can no longer be made to wait, it has finished; free in the reader's order
                // instead.
                if order_after(&reader, &last).is_err() {
                    last = reader;
                }
            }
            memories.iter_mut().for_each(|memory| memory.set_free_stream(&last));
        }
        memories
    }

    /// The graph's memory, with what each piece is for.
    fn memories(&self) -> [(Purpose, &RegionMemory); 3] {
        [
            (Purpose::Const, &self.constants),
            (Purpose::Feature, &self.feature),
            (Purpose::Fixed, &self.fixed),
        ]
    }

    /// Fails if memory that a user's allocator gave for the graph overlaps memory of the caller of a run.
    pub fn expect_disjoint(&self, callers: &CallersMemory) -> Result<()> {
        for (purpose, memory) in self.memories() {
            if let RegionMemory::Block(block) = memory {
                callers.expect_disjoint(purpose, &**block.maker(), block)?;
            }
        }
        Ok(())
    }

    /// Memory that the caller provided for the graph.
    pub fn callers_ranges(&self) -> impl Iterator<Item = CallersRange> {
        self.memories().into_iter().filter_map(|(purpose, memory)| match memory {
            RegionMemory::Callers(address, bytes) => {
                let (what, bytes) = (CallersUse::Base(purpose), *bytes as usize);
                Some(CallersRange { what, address: *address, bytes })
            }
            _ => None,
        })
    }

    /// Whether fixed memory is separate from the rest of a static graph's feature memory.
    fn has_separate_fixed(executable: &Executable, bases: &Bases) -> bool {
        executable.fixed_bytes() > 0
            && bases.feature.is_none()
            && match bases.fixed {
                Some(FixedBase::InFeature) => false,
                Some(FixedBase::Address(_)) => true,
                None => executable.has_separate_fixed || bases.refreshable.is_some(),
            }
    }

    /// Uses the memory that the caller provided.
    fn set_bases(&mut self, executable: &Executable, bases: &Bases) {
        let callers_memory = |address: Option<usize>, bytes| {
            address.map_or(RegionMemory::None, |address| RegionMemory::Callers(address, bytes))
        };
        self.constants = callers_memory(bases.constants, executable.const_bytes());
        if !executable.is_static() {
            return;
        }
        if LoadState::has_separate_fixed(executable, bases) {
            let address = match bases.fixed {
                Some(FixedBase::Address(address)) => Some(address),
                _ => None,
            };
            self.fixed = callers_memory(address, executable.fixed_bytes());
        }
        self.feature = match bases.feature {
            Some(_) => callers_memory(bases.feature, executable.feature_bytes()),
            None => callers_memory(bases.refreshable, executable.refreshable_bytes()),
        };
    }

    /// Takes the memory that the caller did not provide.
    fn take(
        &mut self,
        executable: &Executable,
        source: &MemorySource<'_>,
        options: &LoadOptions<'_>,
    ) -> Result<()> {
        let is_static = executable.is_static();
        let bases = &options.bases;
        let const_bytes =
            if is_static { executable.reported_const_bytes() } else { executable.const_bytes() };
        let const_bytes = const_bytes.max(options.const_bytes);
        if matches!(self.constants, RegionMemory::None) && const_bytes > 0 {
            self.constants = RegionMemory::Block(source.take(Purpose::Const, None, const_bytes)?);
        }
        if !is_static {
            return Ok(());
        }
        let separate_fixed = LoadState::has_separate_fixed(executable, bases);
        if separate_fixed && matches!(self.fixed, RegionMemory::None) {
            let bytes = executable.fixed_bytes();
            self.fixed = RegionMemory::Block(source.take(Purpose::Fixed, None, bytes)?);
        }
        if matches!(self.feature, RegionMemory::None) && !executable.is_refreshable {
            let bytes = match separate_fixed {
                true => executable.reported_refreshable_bytes(),
                false => executable.reported_feature_bytes(),
            };
            let bytes = bytes.max(options.feature_bytes);
            self.feature = RegionMemory::Block(source.take(Purpose::Feature, None, bytes)?);
        }
        Ok(())
    }

    /// Where the graph's memory is.
    pub fn regions(&self, executable: &Executable) -> Regions {
        let feature = self.feature.address();
        let fixed_in_feature = || Some(feature? + executable.refreshable_bytes() as usize);
        let fixed = self.fixed.address().or_else(fixed_in_feature);
        Regions { constants: self.constants.address().unwrap_or(0), fixed, feature }
    }

    /// Computes what depends on constants alone, unless it was already computed at this address.
    pub fn initialise(
        &mut self,
        init: &Arc<LoadedPass>,
        stream: &Arc<Stream>,
        fixed: usize,
    ) -> Result<()> {
        if init.is_empty() || self.initialised_at == fixed {
            return Ok(());
        }
        let constants = self.constants.address().unwrap_or(0);
        init.submit(stream, &RegionAddresses { constants, fixed, ..RegionAddresses::default() })?;
        self.initialised_at = fixed;
        Ok(())
    }

    /// What was computed from constants is no longer there.
    pub fn invalidate_fixed(&mut self) {
        self.initialised_at = 0;
    }

    /// Whether runs share feature memory.
    pub fn shares_feature(&self) -> bool {
        self.feature.address().is_some()
    }
}

/// Makes later work on `stream` wait for what was submitted on `last`.
pub(crate) fn order_after(last: &Arc<Stream>, stream: &Arc<Stream>) -> Result<()> {
    if last.index != stream.index {
        let event = Event::internal();
        if event.record(last).is_ok() {
            event.wait_as("graph order", stream, Duration::ZERO)?;
        }
    }
    Ok(())
}
