//! A record as lives and runs: which block lived when, which task ran when, who waited for whom.
//!
//! It is read once, in the order of time. What pictures show ([`crate::report`], [`crate::timeline`],
//! [`crate::snapshot`], [`crate::flame`]) is made of this. All times are nanoseconds after the beginning of the record.

mod lives;
mod runs;
#[cfg(test)]
mod tests;

pub use lives::{BlockLife, Lives};
pub use runs::{Runs, TaskRun};

use std::{collections::BTreeMap, path::Path};

use anyhow::Result;
use cairn_record::{
    Entry, Epoch, Name, Reader,
    entry::{Callback, Change, Collective, Communicator, Frame, Happening, Owner, SyncObject},
    layout::Header,
    reader::{Damage, Source},
};

use crate::{gaps, progress::Progress};

/// A wait of a stream for a record on a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    /// The task that records.
    pub record: Epoch,
    /// The task that waits.
    pub wait: Epoch,
    /// The event's id; `u32::MAX` for one of the engine itself.
    pub event: u32,
}

/// A host thread that waited.
#[derive(Clone, Debug)]
pub struct HostWait {
    pub thread: u64,
    pub what: SyncObject,
    pub call: Name,
    pub began_ns: u64,
    pub ended_ns: u64,
}

/// A call of a user's allocator.
#[derive(Clone, Debug)]
pub struct HostCallback {
    pub thread: u64,
    pub callback: Callback,
    pub call: Name,
    pub began_ns: u64,
    pub ended_ns: u64,
}

/// What a device said of its memory.
#[derive(Clone, Copy, Debug)]
pub struct Usage {
    pub device: u32,
    pub time_ns: u64,
    /// Bytes that are live, padding included.
    pub used: u64,
    /// Bytes that are freed and kept intact for tasks.
    pub quarantined: u64,
}

/// A mark of the program, or a range that it named.
#[derive(Clone, Debug)]
pub struct Mark {
    pub text: String,
    pub began_ns: u64,
    /// That of the beginning for a mark; `None` for a range without an end.
    pub ended_ns: Option<u64>,
}

/// All of a record.
#[derive(Default)]
pub struct History {
    pub header: Header,
    /// When the last entry was made.
    pub end_ns: u64,
    pub entries: u64,
    pub ended_in_order: bool,
    pub lives: Lives,
    pub runs: Runs,
    pub edges: Vec<Edge>,
    pub waits: Vec<HostWait>,
    pub callbacks: Vec<HostCallback>,
    pub usage: Vec<Usage>,
    /// The bytes that each device has.
    pub devices: BTreeMap<u32, u64>,
    /// The devices of streams.
    pub streams: BTreeMap<u32, u32>,
    /// In the order in which they began.
    pub marks: Vec<Mark>,
    /// Ranges that have not ended, by their ids: places among the marks.
    open_ranges: BTreeMap<u64, usize>,
    /// How the user calls loaded graphs.
    pub labels: BTreeMap<u64, String>,
    /// Nodes of each plan of a static graph.
    pub plans: BTreeMap<u64, Vec<String>>,
    pub stacks: BTreeMap<u32, Vec<Frame>>,
    /// Ends of communicators that this process had, by their ids.
    pub communicators: BTreeMap<u64, Communicator>,
    /// Operators of communicators, in the order of their calls.
    pub collectives: Vec<Collective>,
    pub damage: Vec<Damage>,
}

impl History {
    /// Reads a record; an error names the file. What the record lacks is printed.
    pub fn open(path: &Path, progress: &Progress) -> Result<History> {
        let reader = progress.open(path)?;
        let is_cut_short = reader.is_cut_short();
        let history = History::read(reader);
        for gap in gaps::describe(history.entries, &history.damage, is_cut_short) {
            eprintln!("cairn: {}: {gap}", path.display());
        }
        Ok(history)
    }

    /// Reads all entries.
    pub fn read<S: Source>(mut reader: Reader<S>) -> History {
        let mut history = History { header: reader.header().clone(), ..History::default() };
        let start_ns = history.header.start_ns;
        for mut entry in reader.by_ref() {
            entry.time_ns = entry.time_ns.saturating_sub(start_ns);
            history.add(&entry, start_ns);
        }
        history.damage = reader.damage().to_vec();
        history.lives.finish(&history.runs);
        history
    }

    fn add(&mut self, entry: &Entry<'static>, start_ns: u64) {
        let time_ns = entry.time_ns;
        let since_start = |ns: u64| ns.saturating_sub(start_ns).min(time_ns);
        self.entries += 1;
        self.end_ns = self.end_ns.max(time_ns);
        self.lives.add(entry, &self.runs);
        match &entry.happening {
            Happening::Submit { stream, device, .. } => {
                self.streams.insert(*stream, *device);
                self.runs.submit(entry);
            }
            Happening::Start { stream, seq } => self.runs.start(*stream, *seq, time_ns),
            Happening::End { stream, seq, began_ns, outcome } => {
                self.runs.end(*stream, *seq, since_start(*began_ns), time_ns, *outcome);
            }
            Happening::Wait { event, record: Some(record), epoch } => {
                self.edges.push(Edge { record: *record, wait: *epoch, event: *event });
            }
            Happening::Synchronize { what, began_ns, .. } => self.waits.push(HostWait {
                thread: entry.thread,
                what: *what,
                call: entry.site.entry.clone(),
                began_ns: since_start(*began_ns),
                ended_ns: time_ns,
            }),
            Happening::Callback(callback) => self.callbacks.push(HostCallback {
                thread: entry.thread,
                callback: *callback,
                call: entry.site.entry.clone(),
                began_ns: since_start(callback.began_ns),
                ended_ns: time_ns,
            }),
            Happening::Usage { device, used, quarantined, capacity } => {
                self.devices.insert(*device, *capacity);
                self.usage.push(Usage {
                    device: *device,
                    time_ns,
                    used: *used,
                    quarantined: *quarantined,
                });
            }
            Happening::Device { device, change: Change::Created, capacity } => {
                self.devices.insert(*device, *capacity);
            }
            Happening::Stream { stream, device, change: Change::Created, .. } => {
                self.streams.insert(*stream, *device);
            }
            Happening::Mark { range, text, change: Change::Created } => {
                if *range != 0 {
                    self.open_ranges.insert(*range, self.marks.len());
                }
                let ended_ns = (*range == 0).then_some(time_ns);
                self.marks.push(Mark { text: text.to_string(), began_ns: time_ns, ended_ns });
            }
            Happening::Mark { range, change: Change::Destroyed, .. } => {
                if let Some(mark) = self.open_ranges.remove(range) {
                    self.marks[mark].ended_ns = Some(time_ns);
                }
            }
            Happening::Load(plan) => {
                self.labels.insert(plan.loaded, plan.label.clone());
                let nodes = plan.steps.iter().map(|step| step.node.clone()).collect();
                self.plans.insert(plan.id, nodes);
            }
            Happening::Run { plan, stream, seq: Some(seq), .. } => {
                self.runs.set_plan(*stream, *seq, *plan);
            }
            Happening::Stack { number, frames } => {
                self.stacks.insert(*number, frames.to_vec());
            }
            Happening::Communicator(communicator, Change::Created) => {
                self.communicators.insert(communicator.id, (**communicator).clone());
            }
            Happening::Collective(collective) => self.collectives.push((**collective).clone()),
            Happening::Exit => self.ended_in_order = true,
            _ => {}
        }
    }

    /// The rank of the process: that in its largest communicator.
    pub fn rank(&self) -> Option<u32> {
        let communicators = self.communicators.values();
        let largest = communicators.max_by_key(|it| (it.size, std::cmp::Reverse(it.id)))?;
        Some(largest.rank)
    }

    /// The graph and the operator of an owner, as far as they are known; empty for the program itself.
    pub fn owner_name(&self, owner: &Owner) -> String {
        let label = owner.loaded.and_then(|loaded| self.labels.get(&loaded));
        let label = label.filter(|label| !label.is_empty()).cloned();
        let graph = label.or_else(|| owner.graph.map(|graph| format!("graph {graph}")));
        match (graph, owner.operator.is_empty()) {
            (Some(graph), true) => graph,
            (Some(graph), false) => format!("{graph}: {}", owner.operator),
            (None, _) => owner.operator.to_string(),
        }
    }
}
