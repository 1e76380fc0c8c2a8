//! One clock type, two instances.
//!
//! A [`Clock`] says how far each stream is known to have come. [`Progress`] is the instance
//! `finished`: what has completed. The instance `ordered` is a [`Clock`] per stream and per host
//! thread: what events and synchronization have ordered before it.
//!
//! ```text
//!            stream 0      stream 1      stream 2
//! finished      17             4             0        a fact of the machine, moves by itself
//! ordered(2)    12             -             9        a fact of the program, moves by wait and sync
//! ```
//!
//! Memory last used at epoch `e` may be reused on stream B when `finished` or `ordered(B)` covers
//! `e`; an access that `ordered` does not cover is a race even if `finished` happens to.

use crate::lock::{Mutex, Rank};
use crate::sync::Weak;
use crate::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
pub use cairn_pool::clock::{Clock, Epoch, StreamIndex};

/// The instance `finished`, and beside it what was submitted. One pair of cache lines a stream, so
/// that a submitting thread and the worker do not share one. Readers take no lock.
pub struct Progress {
    lines: Box<[Line]>,
    ordered: Box<[Mutex<StreamOrder>]>,
    order: AtomicU64,
    open: Box<[AtomicU64]>,
    highest: AtomicUsize,
    running: AtomicUsize,
    waiting: AtomicUsize,
    indexes: Mutex<Indexes>,
}

struct Indexes {
    next: StreamIndex,
    free: Vec<StreamIndex>,
    queues: Vec<Weak<dyn TaskQueue>>,
}

/// A queue of tasks, as far as memory has to know.
pub trait TaskQueue: Send + Sync {
    /// Adds what its queued tasks hold.
    fn collect(&self, held: &mut QueuedMemory);
}

/// The memory that queued tasks hold.
#[derive(Default)]
pub struct QueuedMemory {
    /// First and one past the last address, in any order, until [`QueuedMemory::merge_ranges`] sorts and joins them.
    pub ranges: Vec<(usize, usize)>,
    /// A user function is queued or running: it may read any host memory.
    pub host_function: bool,
    /// A queue could not be looked at without waiting.
    pub unknown: bool,
}

impl QueuedMemory {
    fn merge_ranges(&mut self) {
        self.ranges.sort_unstable();
        let mut joined: Vec<(usize, usize)> = Vec::new();
        for &(start, end) in &self.ranges {
            match joined.last_mut() {
                Some(last) if start <= last.1 => last.1 = last.1.max(end),
                _ => joined.push((start, end)),
            }
        }
        self.ranges = joined;
    }

    /// True if a queued task may touch the range.
    pub fn touches(&self, start: usize, end: usize) -> bool {
        let after = self.ranges.partition_point(|&(_, e)| e <= start);
        self.unknown || self.ranges.get(after).is_some_and(|&(s, _)| s < end)
    }
}

/// What a stream's next task is ordered after, and the order under which that was learned.
#[derive(Default)]
struct StreamOrder {
    order: u64,
    clock: Clock,
}

#[derive(Default)]
struct Line {
    submitted: Padded,
    finished: Padded,
}

#[derive(Default)]
#[repr(align(64))]
struct Padded(AtomicU64);

impl Progress {
    /// A table for this many live streams.
    pub fn new(streams: usize) -> Progress {
        Progress {
            lines: (0..streams).map(|_| Line::default()).collect(),
            ordered: (0..streams)
                .map(|_| Mutex::new(Rank::Ordered, StreamOrder::default()))
                .collect(),
            order: AtomicU64::new(0),
            open: (0..streams.div_ceil(64)).map(|_| AtomicU64::new(0)).collect(),
            highest: AtomicUsize::new(0),
            running: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
            indexes: Mutex::new(
                Rank::Handles,
                Indexes { next: 0, free: Vec::new(), queues: Vec::new() },
            ),
        }
    }

    /// An index for a new stream; `None` when the table is full.
    pub fn open(&self) -> Option<StreamIndex> {
        let mut indexes = self.indexes.lock();
        let index = match indexes.free.pop() {
            Some(index) => index,
            None if indexes.next as usize == self.lines.len() => return None,
            None => {
                indexes.next += 1;
                self.highest.store(indexes.next as usize, Ordering::Release);
                indexes.next - 1
            }
        };
        self.open[index as usize / 64].fetch_or(1 << (index % 64), Ordering::SeqCst);
        Some(index)
    }

    /// Makes a queue known to [`Progress::held`].
    pub fn attach(&self, queue: Weak<dyn TaskQueue>) {
        let mut indexes = self.indexes.lock();
        if indexes.queues.len() == indexes.queues.capacity() {
            indexes.queues.retain(|q| q.strong_count() > 0);
        }
        indexes.queues.push(queue);
    }

    /// What the queued tasks of all streams hold. Slow: looks at every one. Hold no lock: the last
    /// reference to a stream may end here.
    pub fn held(&self) -> QueuedMemory {
        let queues: Vec<_> = self.indexes.lock().queues.iter().filter_map(Weak::upgrade).collect();
        let mut held = QueuedMemory::default();
        queues.iter().for_each(|queue| queue.collect(&mut held));
        held.merge_ranges();
        held
    }

    /// Gives the index back. All its tasks are finished.
    pub fn close(&self, index: StreamIndex) {
        debug_assert_eq!(self.submitted(index), self.finished(index));
        self.open[index as usize / 64].fetch_and(!(1 << (index % 64)), Ordering::SeqCst);
        self.indexes.lock().free.push(index);
    }

    /// The indexes in use.
    fn opened(&self) -> impl Iterator<Item = StreamIndex> {
        let words = self.highest.load(Ordering::Acquire).div_ceil(64);
        (0..words).flat_map(|word| {
            let mut bits = self.open[word].load(Ordering::SeqCst);
            std::iter::from_fn(move || {
                let bit = (bits != 0).then(|| bits.trailing_zeros())?;
                bits &= bits - 1;
                Some(word as u32 * 64 + bit)
            })
        })
    }

    /// The last task submitted to the stream.
    pub fn submitted(&self, index: StreamIndex) -> u64 {
        self.lines[index as usize].submitted.0.load(Ordering::SeqCst)
    }

    /// The last task of the stream that is done.
    pub fn finished(&self, index: StreamIndex) -> u64 {
        self.lines[index as usize].finished.0.load(Ordering::SeqCst)
    }

    /// The number of the present order. All that is known of the order of streams was learned under
    /// some number, and is void under another.
    pub fn order(&self) -> u64 {
        self.order.load(Ordering::SeqCst)
    }

    /// A wait that orders tasks will not hold them back after all: it was aborted, or ran out of time.
    /// Whoever came after it, directly or not, is not known any more to come after anything. Rare, so all
    /// that is known is forgotten. Called before the wait is let go.
    pub(crate) fn break_order(&self) {
        self.order.fetch_add(1, Ordering::SeqCst);
    }

    /// Publishes what the next task of a stream is ordered after, under which order. The tasks that say
    /// so are submitted.
    pub(crate) fn set_ordered(&self, index: StreamIndex, order: u64, clock: &Clock) {
        let mut ordered = self.ordered[index as usize].lock();
        ordered.order = order;
        ordered.clock.clone_from(clock);
    }

    /// True if what is submitted to the stream from now on is ordered after `epoch`.
    pub fn is_ordered(&self, on: StreamIndex, epoch: Epoch) -> bool {
        let ordered = self.ordered[on as usize].lock();
        ordered.clock.covers(epoch) && ordered.order == self.order()
    }

    /// What of a clock is done. That stays true whatever becomes of the order.
    pub fn done_of(&self, clock: &Clock) -> Clock {
        let mut done = clock.clone();
        done.retain(|epoch| self.covers(epoch));
        done
    }

    pub(crate) fn set_submitted(&self, index: StreamIndex, seq: u64) {
        self.lines[index as usize].submitted.0.store(seq, Ordering::SeqCst);
    }

    pub(crate) fn set_finished(&self, index: StreamIndex, seq: u64) {
        self.lines[index as usize].finished.0.store(seq, Ordering::SeqCst);
    }

    /// Counts a thread that runs tasks while `run` runs.
    pub(crate) fn while_running<T>(&self, run: impl FnOnce() -> T) -> T {
        self.running.fetch_add(1, Ordering::Relaxed);
        let result = run();
        self.running.fetch_sub(1, Ordering::Relaxed);
        result
    }

    /// True if a task, other than a user function, is being run somewhere.
    pub fn is_running(&self) -> bool {
        self.running.load(Ordering::Relaxed) > 0
    }

    /// Counts a user thread that waits for a stream while `wait` runs.
    pub(crate) fn while_waiting<T>(&self, wait: impl FnOnce() -> T) -> T {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let result = wait();
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        result
    }

    /// True if a user thread waits for a stream. It may be one that empties a queue of somebody
    /// else's: what is in that queue cannot reach us meanwhile.
    pub fn is_awaited(&self) -> bool {
        self.waiting.load(Ordering::SeqCst) > 0
    }

    /// True if the point has completed.
    pub fn covers(&self, epoch: Epoch) -> bool {
        self.finished(epoch.stream) >= epoch.seq
    }

    /// True if every point of the clock has completed.
    pub fn covers_all(&self, clock: &Clock) -> bool {
        clock.epochs().iter().all(|&e| self.covers(e))
    }

    /// The last submitted task of every stream that is not done: what a free must wait for.
    pub fn tails(&self) -> Clock {
        let mut clock = Clock::new();
        for index in self.opened() {
            let finished = self.finished(index);
            let seq = self.submitted(index);
            if finished < seq {
                clock.raise(Epoch { stream: index, seq });
            }
        }
        clock
    }

    /// Sums of all submitted and finished tasks: equal when every stream is idle, unchanged when
    /// nothing moved.
    pub fn totals(&self) -> (u64, u64) {
        let mut totals = (0, 0);
        for index in 0..self.highest.load(Ordering::Acquire) as u32 {
            totals.1 += self.finished(index);
            totals.0 += self.submitted(index);
        }
        totals
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    #[test]
    fn held_ranges_are_found_whatever_their_order() {
        let mut held = QueuedMemory {
            ranges: vec![(50, 60), (10, 20), (15, 30), (30, 31)],
            ..QueuedMemory::default()
        };
        held.merge_ranges();
        for at in 0..70 {
            let inside = (10..31).contains(&at) || (50..60).contains(&at);
            assert_eq!(held.touches(at, at + 1), inside, "{at}");
        }
        assert!(held.touches(0, 11) && !held.touches(0, 10) && held.touches(31, 51));
    }

    #[test]
    fn an_index_is_reused_and_its_sequence_goes_on() {
        let progress = Progress::new(2);
        let a = progress.open().unwrap();
        progress.set_submitted(a, 5);
        assert_eq!(progress.tails().epochs(), [Epoch { stream: a, seq: 5 }]);
        progress.set_finished(a, 5);
        assert!(progress.tails().epochs().is_empty());
        progress.close(a);
        assert_eq!(progress.open(), Some(a));
        assert_eq!(progress.submitted(a), 5);
        assert_eq!(progress.open(), Some(1));
        assert_eq!(progress.open(), None);
    }
}
