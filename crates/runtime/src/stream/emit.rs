//! The events of a stream's tasks.

use super::Stream;
use crate::clock::{Clock, Epoch};
use crate::record::event::Outcome;
use crate::record::{Event, Kind, Spine, SyncObject};
use crate::sync::atomic::Ordering;
use crate::sync::now_ns;
use crate::task::{Body, Task};

impl Stream {
    /// Where every event is emitted.
    pub fn spine(&self) -> &Spine {
        &self.shared.spine
    }

    /// Emits a task that is about to be appended, under the submit lock: its start comes after that.
    #[inline]
    pub(super) fn emit_submit(&self, task: &Task, seq: u64, ordered: &Clock) {
        let spine = self.spine();
        if spine.has_listener_of_tasks() || matches!(task.body, Body::Exchange(_)) {
            self.emit_submit_to(spine, task, seq, ordered);
        }
    }

    #[cold]
    fn emit_submit_to(&self, spine: &Spine, task: &Task, seq: u64, ordered: &Clock) {
        let stream = self.index;
        let kernel = match &task.body {
            Body::Kernel(kernel) if spine.has_listener(Kind::Run) => Some(kernel),
            Body::Exchange(kernel) if spine.has_listener(Kind::Collective) => Some(kernel),
            _ => None,
        };
        if let Some(kernel) = kernel {
            kernel.emit_run(spine, Epoch { stream, seq }, &task.reads, &task.writes);
        }
        let device = self.spec.device;
        spine.emit(Kind::Submit, || Event::Submit { stream, device, seq, task, ordered });
    }

    /// Emits that a task begins; a wait begins once, however often the stream is resumed. Returns the time at which it began,
    /// 0 where nobody listens. The event has no site: running a task is no call of the program, whichever thread does it.
    pub(super) fn emit_start(&self, task: &Task, seq: u64) -> u64 {
        let spine = self.spine();
        if !spine.has_listener_of_tasks() {
            return 0;
        }
        let now = now_ns();
        if let Body::Wait(wait) = &task.body {
            match wait.reached_ns.load(Ordering::Relaxed) {
                0 => wait.reached_ns.store(now, Ordering::Relaxed),
                reached_ns => return reached_ns,
            }
        }
        if spine.has_listener(Kind::Start) {
            spine.emit_outside(&Event::Start { stream: self.index, seq });
        }
        now
    }

    /// Emits that a task has ended, before it counts as finished.
    pub(super) fn emit_end(
        &self,
        seq: u64,
        name: &'static str,
        task: Option<&Task>,
        began_ns: u64,
        outcome: Outcome,
    ) {
        let spine = self.spine();
        if spine.has_listener(Kind::End) {
            let (stream, device) = (self.index, self.spec.device);
            let began_ns = if began_ns == 0 { now_ns() } else { began_ns };
            spine.emit_outside(&Event::End { stream, device, seq, name, task, began_ns, outcome });
        }
    }

    /// Emits that a query of the program was answered: all tasks up to this one are finished.
    pub(super) fn emit_complete(&self, seq: u64) {
        let known = || self.known_after(&self.ordered(), seq);
        self.spine().emit_complete(SyncObject::Stream(self.index), known);
    }

    /// Emits that the program waited for the stream.
    pub(super) fn emit_synchronize(&self, began_ns: u64, known: &Clock) {
        self.spine().emit_synchronize(SyncObject::Stream(self.index), began_ns, known);
    }

    /// What is known to be finished once task `seq` is, which was ordered after `ordered`.
    pub(super) fn known_after(&self, ordered: &Clock, seq: u64) -> Clock {
        let mut clock = ordered.clone();
        if seq > 0 {
            clock.raise(Epoch { stream: self.index, seq });
        }
        self.shared.progress.finished_of(&clock)
    }
}
