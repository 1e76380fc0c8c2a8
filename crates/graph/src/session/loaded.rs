//! A graph with its memory on a device.

use super::compiled::{Compiled, Kind};
use super::entry::{Bases, Entry};
use super::options::Options;
use super::variables::{Variable, Variables};
use crate::failure::{Failure, Result};
use crate::run::memory::{Class, Taking};
use crate::run::named::Named;
use crate::run::pass::{Constants, Ranges};
use cairn_exec::Upload;
use cairn_runtime::event::{Event, Kind as EventKind};
use cairn_runtime::lock::{Mutex, MutexGuard, Rank};
use cairn_runtime::memory::pool::Pooled;
use cairn_runtime::memory::supply::{Lease, Supply};
use cairn_runtime::stream::Stream;
use cairn_runtime::task::{Place, Span, Spans, Task};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// How a graph is loaded.
pub struct Loading<'a> {
    /// Where: the memory is taken for it, and the constants are brought there on it.
    pub stream: &'a Arc<Stream>,
    /// What the user registered there.
    pub external: Option<Arc<dyn Supply>>,
    /// The variables of the session.
    pub variables: &'a Variables,
    /// Options of the call; those of the graph come before them.
    pub options: &'a Options,
}

/// A graph that is loaded: const memory, and of a static graph fixed and feature memory.
pub struct Loaded {
    /// What was compiled.
    pub compiled: Arc<Compiled>,
    /// Inputs that may lie on the host.
    pub host_inputs: BTreeSet<usize>,
    /// The variables it names.
    pub variables: Vec<Arc<Variable>>,
    frozen: Mutex<BTreeMap<usize, Option<usize>>>,
    /// The event behind the load.
    ready: Event,
    loaded_on: u32,
    runs: Mutex<Runs>,
}

/// Memory of a loaded graph, and the order of its runs.
#[derive(Default)]
pub struct Runs {
    constants: Spot,
    fixed: Spot,
    feature: Spot,
    /// Where fixed memory was computed.
    initialised_at: usize,
    /// Whose feature memory the last run had, and where.
    pub last_feature: Option<(usize, usize)>,
    last: Option<Arc<Stream>>,
}

/// A piece of memory.
#[derive(Default)]
enum Spot {
    /// None yet.
    #[default]
    Nowhere,
    /// The application's.
    Theirs(usize),
    /// Taken from a supply.
    Taken(Lease),
}

impl Spot {
    fn address(&self) -> Option<usize> {
        match self {
            Spot::Nowhere => None,
            Spot::Theirs(address) => Some(*address),
            Spot::Taken(lease) => Some(lease.address()),
        }
    }
}

/// What every pass has besides inputs and outputs.
pub struct Ground {
    /// Const memory.
    pub constants: usize,
    /// Fixed memory; `None` if it lies behind the refreshable part.
    pub fixed: Option<usize>,
    /// Feature memory; `None` if each run takes its own.
    pub feature: Option<usize>,
}

impl Loaded {
    /// Takes memory for a compiled graph and fills it.
    pub fn new(
        entry: &Entry,
        compiled: &Arc<Compiled>,
        how: &Loading<'_>,
        bases: Bases,
    ) -> Result<Loaded> {
        let options = entry.options.over(how.options);
        let count = compiled.inputs.len();
        let of_graph = |failure: Failure| failure.within(&entry.label);
        let host_inputs = options.host_inputs(count).map_err(of_graph)?;
        let frozen = options.frozen_inputs(count).map_err(of_graph)?;
        if let Some(both) = frozen.keys().find(|at| host_inputs.contains(*at)) {
            return Err(Failure::invalid(format!(
                "input {both} of {} is both frozen and on the host: it can be one of them",
                entry.label
            )));
        }
        for at in frozen.keys() {
            let desc = &compiled.inputs[*at].1;
            if !desc.is_known() || desc.dims.contains(&0) {
                return Err(Failure::invalid(format!(
                    "input {at} of {} is {desc}: a frozen input has known sizes above 0",
                    entry.label
                )));
            }
        }
        let variables = (how.variables)
            .hold(entry.runtime, how.stream, &compiled.variables)
            .map_err(|failure| failure.within(&entry.label))?;
        let built_in = || Pooled::built_in(&entry.runtime.shared, entry.device);
        let supply = how.external.clone().unwrap_or_else(built_in);
        let taking = Taking { supply: &supply, stream: how.stream, graph: entry.id };
        let mut runs = Runs { last: Some(how.stream.clone()), ..Runs::default() };
        let ready = Event::new(0, EventKind::Ex, 1)?;
        runs.take(compiled, &taking, &bases)?;
        runs.fill(compiled, how.stream)?;
        ready.record(how.stream)?;
        Ok(Loaded {
            compiled: compiled.clone(),
            host_inputs,
            variables,
            frozen: Mutex::new(Rank::Runs, frozen),
            ready,
            loaded_on: how.stream.index,
            runs: Mutex::new(Rank::Runs, runs),
        })
    }

    /// The memory and the order of runs; held while a run is submitted, and not while memory is taken.
    pub fn runs(&self) -> MutexGuard<'_, Runs> {
        self.runs.lock()
    }

    /// Lets what follows on a stream come behind what the graph needs: its load, and its last run if both
    /// use the same memory.
    pub fn order(&self, runs: &mut Runs, stream: &Arc<Stream>, shares: bool) -> Result<()> {
        if shares {
            if let Some(last) = runs.last.replace(stream.clone()) {
                order_after(&last, stream)?;
            }
        } else if stream.index != self.loaded_on {
            self.ready.wait_as("graph order", stream, Duration::ZERO)?;
        }
        Ok(())
    }

    /// Keeps the address of a frozen input that has none yet: a run with it was submitted.
    pub fn freeze(&self, at: usize, address: usize) {
        if let Some(place) = self.frozen.lock().get_mut(&at) {
            place.get_or_insert(address);
        }
    }

    /// Fails for an input that is frozen elsewhere.
    pub fn check_frozen(&self, at: usize, address: usize) -> Result<()> {
        let Some(Some(known)) = self.frozen.lock().get(&at).copied() else { return Ok(()) };
        match known == address {
            true => Ok(()),
            false => Err(Failure::invalid(format!(
                "input {at} of {} is frozen at {known:#x} (ge.exec.frozenInputIndexes), and is given at {address:#x}",
                self.compiled.label
            ))),
        }
    }

    /// Takes over bases that were set after the load.
    pub fn rebase(&self, bases: &Bases) {
        let mut runs = self.runs.lock();
        let Some(address) = bases.feature.or(bases.refreshable) else { return };
        let before = std::mem::replace(&mut runs.feature, Spot::Theirs(address));
        drop(runs);
        drop(before);
    }

    /// Gives all memory back, on this thread.
    pub fn unload(&self) {
        let mut runs = self.runs.lock();
        let last = runs.last.take();
        let spots = [
            std::mem::take(&mut runs.constants),
            std::mem::take(&mut runs.feature),
            std::mem::take(&mut runs.fixed),
        ];
        drop(runs);
        for spot in spots {
            let Spot::Taken(mut lease) = spot else { continue };
            if let Some(stream) = &last {
                lease.moves_to(stream);
            }
            drop(lease);
        }
    }
}

impl Runs {
    /// Takes the memory that the application did not bring.
    fn take(&mut self, compiled: &Compiled, taking: &Taking<'_>, bases: &Bases) -> Result<()> {
        let is_static = compiled.is_static();
        self.constants = match bases.constants {
            Some(address) => Spot::Theirs(address),
            None if is_static => {
                Spot::Taken(taking.take(Class::Const, None, compiled.const_size())?)
            }
            None => match compiled.const_bytes() {
                0 => Spot::Nowhere,
                bytes => Spot::Taken(taking.take(Class::Const, None, bytes)?),
            },
        };
        if !is_static {
            return Ok(());
        }
        let app_feature = bases.feature.is_some();
        let fixed_apart = compiled.fixed_bytes() > 0
            && !app_feature
            && match bases.fixed {
                Some(None) => false,
                Some(Some(_)) => true,
                None => compiled.keeps_fixed_apart || bases.refreshable.is_some(),
            };
        if fixed_apart {
            self.fixed = match bases.fixed {
                Some(Some(address)) => Spot::Theirs(address),
                _ => Spot::Taken(taking.take(Class::Fixed, None, compiled.fixed_bytes())?),
            };
        }
        self.feature = match bases.feature.or(bases.refreshable) {
            Some(address) => Spot::Theirs(address),
            None if compiled.is_refreshable => Spot::Nowhere,
            None => {
                let size =
                    if fixed_apart { compiled.refreshable_size() } else { compiled.feature_size() };
                Spot::Taken(taking.take(Class::Feature, None, size)?)
            }
        };
        Ok(())
    }

    /// Brings the constants there, and computes what depends on them alone.
    fn fill(&mut self, compiled: &Compiled, stream: &Arc<Stream>) -> Result<()> {
        let place = Place::Device(stream.spec.device);
        let Some(address) = self.constants.address() else { return Ok(()) };
        if compiled.const_bytes() > 0 {
            let bytes = compiled.const_bytes() as usize;
            let writes: Spans = [Span { address, bytes, place }].into_iter().collect();
            let body = match &compiled.kind {
                Kind::Static { program, .. } => {
                    Named::body(Constants(program.clone()), &compiled.label, "constants")
                }
                Kind::Dynamic { flow, .. } => {
                    let mut all = vec![0; bytes];
                    for (start, bytes) in &flow.constants {
                        let start = *start as usize;
                        all[start..start + bytes.len()].copy_from_slice(bytes);
                    }
                    Named::body(Upload(all.into()), &compiled.label, "constants")
                }
            };
            stream.submit(Task { name: "graph constants", reads: Spans::new(), writes, body })?;
        }
        let ground = self.ground(compiled);
        if let (Some(fixed), Kind::Static { .. }) = (ground.fixed, &compiled.kind) {
            self.initialise(compiled, stream, fixed)?;
        }
        Ok(())
    }

    /// Where the graph's memory is.
    pub fn ground(&self, compiled: &Compiled) -> Ground {
        let feature = self.feature.address();
        let inside = || Some(feature? + compiled.refreshable_bytes() as usize);
        let fixed = self.fixed.address().or_else(inside);
        Ground { constants: self.constants.address().unwrap_or(0), fixed, feature }
    }

    /// Computes what depends on constants alone, unless that was done at this address.
    pub fn initialise(
        &mut self,
        compiled: &Compiled,
        stream: &Arc<Stream>,
        fixed: usize,
    ) -> Result<()> {
        let Kind::Static { init, .. } = &compiled.kind else { return Ok(()) };
        if init.is_empty() || self.initialised_at == fixed {
            return Ok(());
        }
        let constants = self.constants.address().unwrap_or(0);
        init.submit(stream, &Ranges { constants, fixed, ..Ranges::default() })?;
        self.initialised_at = fixed;
        Ok(())
    }

    /// What was computed from constants is not there any more.
    pub fn forget_fixed(&mut self) {
        self.initialised_at = 0;
    }

    /// Whether runs share feature memory.
    pub fn shares(&self) -> bool {
        self.feature.address().is_some()
    }
}

/// Lets what comes on a stream wait for what was submitted on another.
pub fn order_after(last: &Arc<Stream>, stream: &Arc<Stream>) -> Result<()> {
    if last.index != stream.index {
        let event = Event::new(0, EventKind::Ex, 1)?;
        if event.record(last).is_ok() {
            event.wait_as("graph order", stream, Duration::ZERO)?;
        }
    }
    Ok(())
}
