//! What a program has done so far, as far as rules need it.

use crate::blocks::{Block, Blocks};
use crate::moment::{Moment, Preparation, Submission, Task, Touch};
use crate::program_order::ProgramOrder;
use crate::shadow::Shadow;
use crate::written::Written;
use cairn_record::entry::{Change, Domain, Happening, MemoryKind, StepPlan, TaskKind};
use cairn_record::{Access, Clock, Entry, Epoch, Site, StreamIndex};
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

/// A handle that the program has.
#[derive(Debug)]
pub struct Object {
    /// What it stands for.
    pub kind: cairn_record::Name,
    /// The call that made it.
    pub site: Site,
    /// When.
    pub time_ns: u64,
}

/// What is known of a user's allocator.
#[derive(Debug, Default)]
pub struct UserAllocator {
    /// The last task of each stream that touched its blocks.
    pub last_use: BTreeMap<StreamIndex, Rc<Task>>,
}

/// A loaded graph.
#[derive(Debug)]
pub struct LoadedGraph {
    /// What the user calls it.
    pub label: Rc<str>,
    /// The call that loaded it.
    pub site: Site,
    /// The call that unloaded it, and when.
    pub unloaded: Option<(Site, u64)>,
}

/// A plan of a loaded graph, ready to be read.
struct Plan {
    label: Rc<str>,
    loaded: u64,
    /// The steps' accesses, with the step's name.
    steps: Vec<(u32, Access, Rc<str>)>,
}

/// A run of a static graph that was announced; its submit comes next.
struct Run {
    plan: u64,
    regions: Vec<usize>,
}

/// The state. Rules read it; entries change it, after the rules have looked.
#[derive(Default)]
pub struct State {
    /// Device memory, pinned and registered memory, segments of pools.
    pub allocations: Blocks,
    /// Blocks of Cairn's pools.
    pub pool_blocks: Blocks,
    /// Blocks of users' allocators.
    pub user_blocks: Blocks,
    /// Who touched which bytes.
    pub shadow: Shadow,
    /// Which bytes of device memory nobody wrote yet.
    pub written: Written,
    /// What the program knows to be finished, on whatever thread it learned that.
    pub known: Clock,
    /// The allocators of the user, by object.
    pub allocators: BTreeMap<usize, UserAllocator>,
    /// Which allocator is registered where, and the call that did.
    pub registered: BTreeMap<(Domain, StreamIndex), (usize, Site)>,
    /// Handles of the program.
    pub objects: BTreeMap<u64, Object>,
    /// Communicators, by their ids: their names, the calls that made them, and when.
    pub communicators: BTreeMap<u64, (String, Site, u64)>,
    /// Streams, with the calls that made them.
    pub streams: BTreeMap<StreamIndex, Site>,
    /// Contexts, with the calls that made them.
    pub contexts: BTreeMap<u64, Site>,
    /// Blocks that ended with the pool or the device they lay in, and were never given back.
    pub lost_blocks: Vec<Rc<Block>>,
    /// Streams and contexts that ended with their device: what they were, and the calls that made them.
    pub lost_handles: Vec<(&'static str, Site)>,
    /// The last call on each stream that registrations of a domain serve: an execution, or the load of a graph.
    pub executed: BTreeMap<(Domain, StreamIndex), Site>,
    /// Graphs that were loaded, by the number of the load.
    pub graphs: BTreeMap<u64, LoadedGraph>,
    /// The last task of each model that ran, by its plan.
    pub model_runs: HashMap<u64, Rc<Task>>,
    /// What the program itself has ordered.
    pub program_order: ProgramOrder,
    plans: HashMap<u64, Plan>,
    /// Bytes of the devices.
    capacities: BTreeMap<u32, u64>,
    /// Tasks whose submit comes next.
    prepared: HashMap<(StreamIndex, u64), Preparation>,
    /// The model that runs on a stream, while its tasks are submitted.
    running_models: HashMap<StreamIndex, u64>,
    runs: HashMap<(StreamIndex, u64), Run>,
    host_functions: HashMap<(StreamIndex, u64), Clock>,
}

impl State {
    /// What the entry means, before it changes anything.
    pub fn prepare<'a>(&mut self, entry: &'a Entry<'static>) -> Moment<'a> {
        let Happening::Submit { stream, seq, name, task, accesses, ordered, .. } = &entry.happening
        else {
            return Moment::Other(entry);
        };
        let run = self.runs.remove(&(*stream, *seq));
        let plan = run.as_ref().and_then(|run| self.plans.get(&run.plan));
        let task_info = Rc::new(Task {
            epoch: Epoch { stream: *stream, seq: *seq },
            name: name.clone(),
            site: entry.site.clone(),
            thread: entry.thread,
            time_ns: entry.time_ns,
            graph: plan.map(|plan| plan.label.clone()),
            preparation: self.prepared.remove(&(*stream, *seq)),
        });
        let touch = |access: Access, step: Option<Rc<str>>| {
            Rc::new(Touch { task: task_info.clone(), access, step })
        };
        let touches = match (&run, plan) {
            (Some(run), Some(plan)) if !plan.steps.is_empty() => (plan.steps.iter())
                .filter_map(|(region, access, step)| {
                    let base = *run.regions.get(*region as usize)?;
                    let address = base.wrapping_add(access.address);
                    Some(touch(Access { address, ..access.clone() }, Some(step.clone())))
                })
                .collect(),
            _ => accesses.iter().map(|access| touch(access.clone(), None)).collect(),
        };
        let ordered = ordered.clone().into_owned();
        Moment::Submit(entry, Submission { task: task_info, touches, ordered, kind: *task })
    }

    /// Whether the program has ordered a submission after an epoch.
    pub fn is_ordered(&self, submission: &Submission, epoch: Epoch) -> bool {
        let own = submission.task.epoch;
        (epoch.stream == own.stream && epoch.seq < own.seq)
            || submission.ordered.covers(epoch)
            || self.known.covers(epoch)
    }

    /// Whether the program itself has ordered the next task of a stream after an epoch: what the engine orders for it does not count.
    pub fn is_ordered_by_program(&self, stream: StreamIndex, epoch: Epoch) -> bool {
        self.program_order.covers(stream, epoch) || self.known.covers(epoch)
    }

    /// The allocators of the user that handed out these bytes for this very stream. Another stream that reads a result is not
    /// served by them.
    pub fn served_objects(
        &self,
        stream: StreamIndex,
        start: usize,
        end: usize,
    ) -> impl Iterator<Item = usize> {
        (self.user_blocks.overlapping(start, end))
            .filter(move |block| block.stream == Some(stream))
            .filter_map(|block| match block.kind {
                MemoryKind::External { object, .. } => Some(object),
                _ => None,
            })
    }

    /// What the user calls the graph of a plan.
    pub fn plan_label(&self, plan: u64) -> Option<&str> {
        self.plans.get(&plan).map(|plan| &*plan.label)
    }

    /// Whether these bytes lie in memory that is watched.
    pub fn is_watched(&self, start: usize, end: usize) -> bool {
        self.allocations.overlapping(start, end).next().is_some()
    }

    /// What happened is taken into the state.
    pub fn advance(&mut self, moment: &Moment<'_>) {
        match moment {
            Moment::Submit(_, submission) => self.submitted(submission),
            Moment::Other(entry) => {
                self.program_order.advance(entry, &self.known);
                self.happened(entry);
            }
            Moment::End => {}
        }
    }

    fn submitted(&mut self, submission: &Submission) {
        let epoch = submission.task.epoch;
        self.executes(epoch.stream, &submission.task.site);
        // The engine's own events between runs belong to the call, too, but are no run.
        if submission.kind == TaskKind::Work
            && is_model_run(&submission.task.site)
            && let Some(plan) = self.running_models.get(&epoch.stream)
        {
            self.model_runs.insert(*plan, submission.task.clone());
        }
        if submission.kind == TaskKind::HostFunction {
            self.host_functions.insert((epoch.stream, epoch.seq), submission.ordered.clone());
        }
        for touch in &submission.touches {
            let (start, end) = touch.access.bounds();
            let (start, end) = (start as usize, end as usize);
            if self.is_watched(start, end) {
                self.shadow.remember(touch, &self.known);
            }
            // One that may write counts as written: rather miss than invent.
            if touch.access.mode.writes() {
                self.written.write(start, end);
            }
            let objects: Vec<usize> = self.served_objects(epoch.stream, start, end).collect();
            for object in objects {
                let allocator = self.allocators.entry(object).or_default();
                allocator.last_use.insert(epoch.stream, submission.task.clone());
            }
        }
    }

    fn happened(&mut self, entry: &Entry<'static>) {
        match &entry.happening {
            Happening::Alloc { kind, address, bytes, purpose, owner, stream } => {
                let block = Rc::new(Block {
                    kind: *kind,
                    address: *address,
                    bytes: *bytes,
                    purpose: *purpose,
                    owner: owner.clone(),
                    stream: *stream,
                    site: entry.site.clone(),
                    time_ns: entry.time_ns,
                    freed_before: self
                        .level(*kind)
                        .freed(*address, address.saturating_add(*bytes as usize)),
                });
                self.allocated(block);
            }
            Happening::Free { kind: MemoryKind::PoolSegment { .. }, address, bytes, .. } => {
                let part = *address..address.saturating_add(*bytes as usize);
                let is_inside = |block: &Block| block.overlaps(part.start, part.end);
                self.lost_blocks.extend(self.pool_blocks.take(is_inside));
                self.allocations.remove_part(part, &entry.site, entry.thread, entry.time_ns);
            }
            Happening::Free { kind, address, .. } => {
                let blocks = self.level(*kind);
                blocks.remove(*address, entry.site.clone(), entry.thread, entry.time_ns);
            }
            Happening::Start { stream, seq } => {
                // The program's own function runs: it knows that what its submit was ordered after is finished.
                if let Some(ordered) = self.host_functions.remove(&(*stream, *seq)) {
                    self.known.join(&ordered);
                    if *seq > 1 {
                        self.known.raise(Epoch { stream: *stream, seq: seq - 1 });
                    }
                }
            }
            Happening::Complete { known, .. } | Happening::Synchronize { known, .. } => {
                self.known.join(known);
            }
            Happening::Stream { stream, change, .. } => match change {
                Change::Created => _ = self.streams.insert(*stream, entry.site.clone()),
                Change::Destroyed => self.stream_ended(*stream, &entry.site),
            },
            Happening::Context { context, change, .. } => match change {
                Change::Created => _ = self.contexts.insert(*context, entry.site.clone()),
                Change::Destroyed => {
                    let made = self.contexts.remove(context);
                    if let Some(site) = made.filter(|_| !is_destroy(&entry.site)) {
                        self.lost_handles.push(("context", site));
                    }
                }
            },
            Happening::Device { device, change, capacity } => match change {
                Change::Created => {
                    self.capacities.insert(*device, *capacity);
                    let all: u64 = self.capacities.values().sum();
                    self.shadow.limit((all / 16) as usize);
                }
                Change::Destroyed => self.device_ended(*device),
            },
            Happening::Prepared { stream, seq, prepared_ns, accesses } => {
                let preparation =
                    Preparation { time_ns: *prepared_ns, accesses: *accesses as usize };
                self.prepared.insert((*stream, *seq), preparation);
            }
            Happening::Register { domain, stream, object, change } => match change {
                Change::Created => {
                    self.registered.insert((*domain, *stream), (*object, entry.site.clone()));
                    self.allocators.entry(*object).or_default();
                }
                Change::Destroyed => _ = self.registered.remove(&(*domain, *stream)),
            },
            Happening::Load(plan) => self.loaded(plan, entry),
            Happening::Unload { loaded } => {
                self.plans.retain(|_, plan| plan.loaded != *loaded);
                if let Some(graph) = self.graphs.get_mut(loaded) {
                    graph.unloaded = Some((entry.site.clone(), entry.time_ns));
                }
            }
            Happening::Run { plan, stream, seq, regions } => {
                if let Some(seq) = seq {
                    let run = Run { plan: *plan, regions: regions.to_vec() };
                    self.runs.insert((*stream, *seq), run);
                }
                self.executes(*stream, &entry.site);
                if is_model_run(&entry.site) {
                    self.running_models.insert(*stream, *plan);
                }
            }
            Happening::Object { kind, handle, change } => match change {
                Change::Created => {
                    let object = Object {
                        kind: kind.clone(),
                        site: entry.site.clone(),
                        time_ns: entry.time_ns,
                    };
                    self.objects.insert(*handle, object);
                }
                Change::Destroyed => _ = self.objects.remove(handle),
            },
            Happening::Communicator(communicator, change) => match change {
                Change::Created => {
                    let made = (communicator.name.clone(), entry.site.clone(), entry.time_ns);
                    self.communicators.insert(communicator.id, made);
                }
                Change::Destroyed => _ = self.communicators.remove(&communicator.id),
            },
            Happening::Touch { accesses, .. } => {
                // The host is one with what comes after it: tasks that are submitted later are ordered after its own accesses.
                for access in accesses.iter().filter(|access| access.mode.writes()) {
                    let (start, end) = access.bounds();
                    self.written.write(start as usize, end as usize);
                    if access.is_dense() {
                        self.shadow.forget(start as usize, end as usize);
                    }
                }
            }
            _ => {}
        }
    }

    /// A call works on a stream: it takes memory for it, or submits to it.
    fn executes(&mut self, stream: StreamIndex, site: &Site) {
        let domain = match &*site.entry {
            call if call.starts_with("aclop") || call.starts_with("aclmdl") => Domain::Acl,
            call if call.contains("Session::") => Domain::Ge,
            _ => return,
        };
        if self.executed.get(&(domain, stream)).is_none_or(|last| last != site) {
            self.executed.insert((domain, stream), site.clone());
        }
    }

    fn stream_ended(&mut self, stream: StreamIndex, site: &Site) {
        self.executed.retain(|(_, on), _| *on != stream);
        self.registered.retain(|(_, on), _| *on != stream);
        self.host_functions.retain(|(of, _), _| *of != stream);
        let made = self.streams.remove(&stream).filter(|made| !made.entry.is_empty());
        if let Some(made) = made.filter(|_| !is_destroy(site)) {
            self.lost_handles.push(("stream", made));
        }
    }

    /// What lies on a device ends with it.
    fn device_ended(&mut self, device: u32) {
        let is_there = |block: &Block| match block.kind {
            MemoryKind::Device(of)
            | MemoryKind::PoolSegment { device: of, .. }
            | MemoryKind::PoolBlock { device: of, .. }
            | MemoryKind::Mapped { device: of }
            | MemoryKind::External { device: of, .. } => of == device,
            MemoryKind::Pinned | MemoryKind::Registered => false,
        };
        for blocks in [&mut self.allocations, &mut self.pool_blocks, &mut self.user_blocks] {
            for block in blocks.take(is_there) {
                self.shadow.forget(block.address, block.end());
                self.lost_blocks.push(block);
            }
        }
    }

    fn level(&mut self, kind: MemoryKind) -> &mut Blocks {
        match kind {
            MemoryKind::PoolBlock { .. } => &mut self.pool_blocks,
            MemoryKind::External { .. } => &mut self.user_blocks,
            _ => &mut self.allocations,
        }
    }

    fn allocated(&mut self, block: Rc<Block>) {
        let (start, end) = (block.address, block.end());
        if let Some(stream) = block.stream {
            self.executes(stream, &block.site);
        }
        match block.kind {
            // The pool knows that what other streams did there is finished, or ordered; its own stream keeps its order.
            MemoryKind::PoolBlock { .. } => match block.stream {
                Some(stream) => self.shadow.forget_others(start, end, stream),
                None => self.shadow.forget(start, end),
            },
            // A user's allocator proves nothing: that is what is checked.
            MemoryKind::External { object, .. } => {
                self.allocators.entry(object).or_default();
            }
            _ => self.shadow.forget(start, end),
        }
        // Host memory is written by the program itself, unseen; const memory by the load.
        if matches!(block.kind, MemoryKind::Device(_) | MemoryKind::PoolBlock { .. }) {
            self.written.allocate(start, end);
        }
        self.level(block.kind).insert(block);
    }

    fn loaded(&mut self, plan: &StepPlan, entry: &Entry<'static>) {
        let label: Rc<str> = plan.label.as_str().into();
        let steps = (plan.steps.iter())
            .flat_map(|step| {
                let name: Rc<str> = step.node.as_str().into();
                step.accesses.iter().map(move |it| (it.region, it.access.clone(), name.clone()))
            })
            .collect();
        self.plans.insert(plan.id, Plan { label: label.clone(), loaded: plan.loaded, steps });
        let site = entry.site.clone();
        self.graphs.entry(plan.loaded).or_insert(LoadedGraph { label, site, unloaded: None });
    }
}

/// Whether a call destroys one thing that the program names.
fn is_destroy(site: &Site) -> bool {
    site.entry.starts_with("aclrtDestroy")
}

/// Whether a call runs a model.
fn is_model_run(site: &Site) -> bool {
    site.entry.starts_with("aclmdlExecute")
}
