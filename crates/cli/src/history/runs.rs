//! Tasks: when they were submitted, when they ran, how they ended.

use cairn_record::{
    Entry, Epoch, Name, Site,
    entry::{Happening, Outcome, TaskKind},
};
use rustc_hash::FxHashMap;

/// A task.
#[derive(Clone, Debug)]
pub struct TaskRun {
    pub epoch: Epoch,
    pub name: Name,
    pub kind: TaskKind,
    pub site: Site,
    pub submitted_ns: u64,
    pub began_ns: Option<u64>,
    pub ended_ns: Option<u64>,
    pub outcome: Option<Outcome>,
    /// The plan of the static graph that it runs.
    pub plan: Option<u64>,
    /// Bytes that it reads and writes, as its accesses say.
    pub touched: u64,
}

/// All tasks, in the order in which they were submitted.
#[derive(Default)]
pub struct Runs {
    tasks: Vec<TaskRun>,
    /// Where a task is in the list. The number of a stream that ended may be used again, but its tasks go on counting.
    index: FxHashMap<(u32, u64), usize>,
    last: FxHashMap<u32, u64>,
    /// Plans of tasks that are submitted next.
    plans: FxHashMap<(u32, u64), u64>,
}

impl Runs {
    /// All tasks, in the order in which they were submitted.
    pub fn tasks(&self) -> &[TaskRun] {
        &self.tasks
    }

    /// A task.
    pub fn get(&self, epoch: Epoch) -> Option<&TaskRun> {
        self.index.get(&(epoch.stream, epoch.seq)).map(|at| &self.tasks[*at])
    }

    /// The last task that a stream was given so far.
    pub fn last_of(&self, stream: u32) -> Option<Epoch> {
        self.last.get(&stream).map(|seq| Epoch { stream, seq: *seq })
    }

    pub(super) fn submit(&mut self, entry: &Entry<'static>) {
        let Happening::Submit { stream, seq, name, task, accesses, .. } = &entry.happening else {
            return;
        };
        let key = (*stream, *seq);
        let bytes = accesses.iter().map(|access| {
            let (start, end) = access.bounds();
            end.saturating_sub(start)
        });
        self.last.insert(*stream, *seq);
        self.index.insert(key, self.tasks.len());
        self.tasks.push(TaskRun {
            epoch: Epoch { stream: *stream, seq: *seq },
            name: name.clone(),
            kind: *task,
            site: entry.site.clone(),
            submitted_ns: entry.time_ns,
            began_ns: None,
            ended_ns: None,
            outcome: None,
            plan: self.plans.remove(&key),
            touched: bytes.sum(),
        });
    }

    pub(super) fn start(&mut self, stream: u32, seq: u64, time_ns: u64) {
        if let Some(at) = self.index.get(&(stream, seq)) {
            self.tasks[*at].began_ns = Some(time_ns);
        }
    }

    pub(super) fn end(
        &mut self,
        stream: u32,
        seq: u64,
        began_ns: u64,
        ended_ns: u64,
        outcome: Outcome,
    ) {
        if let Some(at) = self.index.get(&(stream, seq)) {
            let task = &mut self.tasks[*at];
            task.began_ns = (outcome != Outcome::Dropped).then_some(began_ns);
            task.ended_ns = Some(ended_ns);
            task.outcome = Some(outcome);
        }
    }

    pub(super) fn set_plan(&mut self, stream: u32, seq: u64, plan: u64) {
        match self.index.get(&(stream, seq)) {
            Some(at) => self.tasks[*at].plan = Some(plan),
            None => _ = self.plans.insert((stream, seq), plan),
        }
    }
}
