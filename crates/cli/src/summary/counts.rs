//! How often things happened, and how long they took.

use std::collections::BTreeMap;

use cairn_record::{
    Epoch, Name,
    entry::{Change, Entry, Happening, MemoryKind, Outcome, SyncObject, UserCall},
};
use rustc_hash::FxHashMap;

/// How often, how long in all, and the longest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    pub count: u64,
    pub total_ns: u64,
    pub longest_ns: u64,
}

impl Times {
    fn add(&mut self, ns: u64) {
        self.count += 1;
        self.total_ns += ns;
        self.longest_ns = self.longest_ns.max(ns);
    }
}

/// Allocations and frees of one kind of memory.
#[derive(Clone, Copy, Debug, Default)]
pub struct Traffic {
    pub allocations: u64,
    pub frees: u64,
    pub bytes: u64,
}

/// Tasks of one name.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tasks {
    pub submitted: u64,
    pub failed: u64,
    pub dropped: u64,
    pub run: Times,
}

/// Everything that is counted.
#[derive(Default)]
pub struct Counts {
    pub entries: u64,
    pub traffic: BTreeMap<&'static str, Traffic>,
    pub tasks: BTreeMap<Name, Tasks>,
    /// By what happened: "streams created", ..
    pub happenings: BTreeMap<&'static str, u64>,
    /// By the user's object and the function.
    pub callbacks: BTreeMap<(usize, &'static str), Times>,
    /// By what was waited for and the call.
    pub waits: BTreeMap<(&'static str, Name), Times>,
    /// Tasks that have not ended, by their place.
    pending: FxHashMap<(u32, u64), Name>,
    pub ended_in_order: bool,
}

/// Which memory, in a word.
pub fn kind_name(kind: MemoryKind) -> &'static str {
    match kind {
        MemoryKind::Device(_) => "device",
        MemoryKind::Pinned => "pinned host",
        MemoryKind::Registered => "registered host",
        MemoryKind::PoolSegment { .. } => "pool segment",
        MemoryKind::PoolBlock { .. } => "pool block",
        MemoryKind::Mapped { .. } => "mapped",
        MemoryKind::External { .. } => "user allocator",
    }
}

impl Counts {
    /// Counts an entry.
    pub fn add(&mut self, entry: &Entry<'_>) {
        self.entries += 1;
        match &entry.happening {
            Happening::Alloc { kind, bytes, .. } => {
                let traffic = self.traffic.entry(kind_name(*kind)).or_default();
                traffic.allocations += 1;
                traffic.bytes += bytes;
            }
            Happening::Free { kind, .. } => {
                self.traffic.entry(kind_name(*kind)).or_default().frees += 1;
            }
            Happening::Submit { stream, seq, name, .. } => {
                self.tasks.entry(name.clone()).or_default().submitted += 1;
                self.pending.insert((*stream, *seq), name.clone());
            }
            Happening::End { stream, seq, began_ns, outcome } => {
                let ns = entry.time_ns.saturating_sub(*began_ns);
                self.end_task(Epoch { stream: *stream, seq: *seq }, ns, *outcome);
            }
            Happening::Callback(callback) => {
                let function = match callback.request {
                    UserCall::Alloc(_) => "alloc",
                    UserCall::Advise(..) => "allocAdvise",
                    UserCall::Address(_) => "getAddrFromBlock",
                    UserCall::Free(_) => "free",
                };
                let ns = entry.time_ns.saturating_sub(callback.began_ns);
                self.callbacks.entry((callback.object, function)).or_default().add(ns);
            }
            Happening::Synchronize { what, began_ns, .. } => {
                let what = match what {
                    SyncObject::Stream(_) => "stream",
                    SyncObject::Event(_) => "event",
                    SyncObject::Device(_) => "device",
                };
                let ns = entry.time_ns.saturating_sub(*began_ns);
                self.waits.entry((what, entry.site.entry.clone())).or_default().add(ns);
            }
            Happening::Exit => self.ended_in_order = true,
            other => {
                if let Some(what) = what_happened(other) {
                    *self.happenings.entry(what).or_default() += 1;
                }
            }
        }
    }

    fn end_task(&mut self, task: Epoch, ns: u64, outcome: Outcome) {
        let Some(name) = self.pending.remove(&(task.stream, task.seq)) else { return };
        let tasks = self.tasks.entry(name).or_default();
        match outcome {
            Outcome::Dropped => tasks.dropped += 1,
            Outcome::Failed => tasks.failed += 1,
            Outcome::Done => {}
        }
        if outcome != Outcome::Dropped {
            tasks.run.add(ns);
        }
    }

    /// Tasks that were submitted and have not ended.
    pub fn unfinished(&self) -> usize {
        self.pending.len()
    }
}

/// What is counted without more detail.
fn what_happened(happening: &Happening<'_>) -> Option<&'static str> {
    Some(match happening {
        Happening::Record { .. } => "events recorded",
        Happening::Wait { .. } => "events waited for on streams",
        Happening::Complete { .. } => "queries answered \"complete\"",
        Happening::Stream { change: Change::Created, .. } => "streams created",
        Happening::Context { change: Change::Created, .. } => "contexts created",
        Happening::Register { change: Change::Created, .. } => "allocators registered",
        Happening::Load(_) => "plans of graphs loaded",
        Happening::Run { .. } => "runs of graphs",
        Happening::Touch { .. } => "copies by the host",
        Happening::HostFault { .. } => "touches of device memory by the program",
        Happening::Reusable { .. } => "freed blocks that became reusable",
        Happening::Object { change: Change::Created, .. } => "handles created",
        Happening::Stack { .. } => "stacks",
        _ => return None,
    })
}
