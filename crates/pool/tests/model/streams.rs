//! Streams without work of their own.

use super::STREAMS;
use cairn_pool::Progress;
use cairn_pool::clock::{Clock, Epoch, StreamIndex};
use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Streams whose work ends when somebody says so.
#[derive(Default)]
pub struct Streams {
    submitted: [AtomicU64; STREAMS],
    finished: [AtomicU64; STREAMS],
    ordered: [[AtomicU64; STREAMS]; STREAMS],
    waits: [Mutex<VecDeque<Wait>>; STREAMS],
}

/// Work `seq` of a stream waits for another stream's.
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

    fn is_ordered(&self, on: StreamIndex, epoch: Epoch) -> bool {
        self.ordered[on as usize][epoch.stream as usize].load(Relaxed) >= epoch.seq
    }
}

impl Streams {
    /// Gives a stream work.
    pub fn submit(&self, stream: usize) {
        self.submitted[stream].fetch_add(1, Relaxed);
    }

    /// Lets this many quarters of a stream's open work end, as far as what it waits for is done.
    pub fn finish(&self, stream: usize, share: u64) {
        let (submitted, finished) = (&self.submitted[stream], &self.finished[stream]);
        let open = submitted.load(Relaxed) - finished.load(Relaxed);
        let mut to = finished.load(Relaxed) + open * share / 4;
        let mut waits = self.waits[stream].lock().unwrap();
        while let Some(wait) = waits.front().filter(|wait| wait.seq <= to) {
            if self.finished(wait.epoch.stream) < wait.epoch.seq {
                to = wait.seq - 1;
                break;
            }
            waits.pop_front();
        }
        finished.store(to, Relaxed);
    }

    /// Lets all work end.
    pub fn finish_all(&self) {
        while !self.is_idle() {
            (0..STREAMS).for_each(|stream| self.finish(stream, 4));
        }
    }

    /// True if there is no open work.
    pub fn is_idle(&self) -> bool {
        (0..STREAMS as u32).all(|stream| self.finished(stream) == self.submitted(stream))
    }

    /// Stream `on` waits for all that `of` was given so far, and for what that was ordered after.
    pub fn order(&self, on: usize, of: usize) {
        self.submit(on);
        let epoch = Epoch { stream: of as u32, seq: self.submitted[of].load(Relaxed) };
        let seq = self.submitted[on].load(Relaxed);
        self.waits[on].lock().unwrap().push_back(Wait { seq, epoch });
        for through in 0..STREAMS {
            let known = match through == of {
                true => self.submitted[of].load(Relaxed),
                false => self.ordered[of][through].load(Relaxed),
            };
            self.ordered[on][through].fetch_max(known, Relaxed);
        }
    }

    /// True if what is given to a stream from now on runs after all these points.
    pub fn may_use(&self, on: StreamIndex, clock: &Clock) -> bool {
        clock
            .epochs()
            .iter()
            .all(|&e| e.stream == on || self.finished(e.stream) >= e.seq || self.is_ordered(on, e))
    }
}
