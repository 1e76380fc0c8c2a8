//! Streams that count tasks and run none.

use super::STREAMS;
use cairn_pool::Progress;
use cairn_pool::clock::{Clock, Epoch, StreamIndex};
use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Streams whose tasks finish when the test says so.
#[derive(Default)]
pub struct Streams {
    submitted: [AtomicU64; STREAMS],
    finished: [AtomicU64; STREAMS],
    ordered: [[AtomicU64; STREAMS]; STREAMS],
    waits: [Mutex<VecDeque<Wait>>; STREAMS],
}

/// Task `seq` of a stream waits for a task of another stream.
struct Wait {
    seq: u64,
    epoch: Epoch,
}

impl Progress for Streams {
    fn submitted(&self, stream: StreamIndex) -> u64 {
        self.submitted[stream as usize].load(Relaxed)
    }

    fn finished(&self, stream: StreamIndex) -> u64 {
        self.finished[stream as usize].load(Relaxed)
    }

    fn is_ordered(&self, stream: StreamIndex, epoch: Epoch) -> bool {
        self.ordered[stream as usize][epoch.stream as usize].load(Relaxed) >= epoch.seq
    }
}

impl Streams {
    /// Submits a task to a stream.
    pub fn submit(&self, stream: usize) {
        self.submitted[stream].fetch_add(1, Relaxed);
    }

    /// Lets this many quarters of a stream's unfinished tasks finish, up to the first that waits for another stream.
    pub fn finish(&self, stream: usize, quarters: u64) {
        let (submitted, finished) = (&self.submitted[stream], &self.finished[stream]);
        let unfinished = submitted.load(Relaxed) - finished.load(Relaxed);
        let mut last = finished.load(Relaxed) + unfinished * quarters / 4;
        let mut waits = self.waits[stream].lock().unwrap();
        while let Some(wait) = waits.front().filter(|wait| wait.seq <= last) {
            if self.finished(wait.epoch.stream) < wait.epoch.seq {
                last = wait.seq - 1;
                break;
            }
            waits.pop_front();
        }
        finished.store(last, Relaxed);
    }

    /// Drops a stream's unfinished tasks, waits for other streams among them.
    #[allow(dead_code, reason = "not every test aborts")]
    pub fn abort(&self, stream: usize) {
        self.waits[stream].lock().unwrap().clear();
        self.finish(stream, 4);
    }

    /// Lets all tasks finish.
    pub fn finish_all(&self) {
        while !self.is_idle() {
            (0..STREAMS).for_each(|stream| self.finish(stream, 4));
        }
    }

    /// True if all tasks have finished.
    pub fn is_idle(&self) -> bool {
        (0..STREAMS as u32).all(|stream| self.finished(stream) == self.submitted(stream))
    }

    /// Lets stream `waiter` wait for all tasks of `awaited` so far, and for what those are ordered after.
    pub fn order(&self, waiter: usize, awaited: usize) {
        self.submit(waiter);
        let epoch = Epoch { stream: awaited as u32, seq: self.submitted[awaited].load(Relaxed) };
        let seq = self.submitted[waiter].load(Relaxed);
        self.waits[waiter].lock().unwrap().push_back(Wait { seq, epoch });
        for other in 0..STREAMS {
            let seq_of_other = match other == awaited {
                true => self.submitted[awaited].load(Relaxed),
                false => self.ordered[awaited][other].load(Relaxed),
            };
            self.ordered[waiter][other].fetch_max(seq_of_other, Relaxed);
        }
    }

    /// True if what is submitted to a stream from now on runs after all these epochs.
    pub fn may_use(&self, stream: StreamIndex, clock: &Clock) -> bool {
        clock.epochs().iter().all(|&e| {
            e.stream == stream || self.finished(e.stream) >= e.seq || self.is_ordered(stream, e)
        })
    }
}
