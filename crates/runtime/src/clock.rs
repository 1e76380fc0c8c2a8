//! One clock type, two instances.
//!
//! A [`Clock`] says how far each stream is known to have come. [`Progress`] is the instance
//! `finished`: what has completed. The instance `ordered` is a [`Clock`] per stream and per host
//! thread: what events and synchronization have ordered before it.
//!
//! ```text
//!            stream 0      stream 1      stream 2
//! finished      17             4             0        a fact of the machine, advances by itself
//! ordered(2)    12             -             9        a fact of the program, advances by waits and synchronizes
//! ```
//!
//! Memory last used at epoch `e` may be reused on stream B when `finished` or `ordered(B)` covers
//! `e`; an access that `ordered` does not cover is a race even if `finished` happens to.

use crate::lock::{Mutex, Rank};
use crate::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use crate::sync::{Arc, Weak};
pub use cairn_pool::clock::{Clock, Epoch, StreamIndex};

/// The instance `finished`, and beside it what was submitted. One pair of cache lines a stream, so
/// that a submitting thread and the worker do not share one. Readers take no lock.
pub struct Progress {
    counters: Box<[TaskCounters]>,
    ordered: Box<[Mutex<StreamOrder>]>,
    /// See [`Progress::order`].
    order: AtomicU64,
    /// A bit for each index in use.
    open_bits: Box<[AtomicU64]>,
    /// One more than the highest index that was ever in use.
    index_end: AtomicUsize,
    /// Threads that run tasks.
    running: AtomicUsize,
    /// Threads of the user that wait for a stream.
    waiting: AtomicUsize,
    indexes: Mutex<Indexes>,
}

struct Indexes {
    next: StreamIndex,
    free: Vec<StreamIndex>,
    queues: Vec<Weak<dyn TaskQueue>>,
}

/// A queue of tasks, as the quarantine sees it.
pub trait TaskQueue: Send + Sync {
    /// The index of its stream, and the device.
    fn place(&self) -> (StreamIndex, u32);

    /// Adds the memory that its queued tasks name.
    fn collect(&self, memory: &mut QueuedMemory);
}

/// The memory that queued tasks name as read or written.
#[derive(Default)]
pub struct QueuedMemory {
    /// First and one past the last address, in any order, until [`QueuedMemory::merge_ranges`] sorts and joins them.
    pub ranges: Vec<(usize, usize)>,
    /// A user function is queued or running: it may read any host memory.
    pub host_function: bool,
    /// A queue was locked: its tasks may name any memory.
    pub unknown: bool,
}

impl QueuedMemory {
    fn merge_ranges(&mut self) {
        self.ranges.sort_unstable();
        let mut merged: Vec<(usize, usize)> = Vec::new();
        for &(start, end) in &self.ranges {
            match merged.last_mut() {
                Some(last) if start <= last.1 => last.1 = last.1.max(end),
                _ => merged.push((start, end)),
            }
        }
        self.ranges = merged;
    }

    /// True if a queued task may touch the range.
    pub fn touches(&self, start: usize, end: usize) -> bool {
        let after = self.ranges.partition_point(|&(_, e)| e <= start);
        self.unknown || self.ranges.get(after).is_some_and(|&(s, _)| s < end)
    }
}

/// What a stream's next task is ordered after, and the number of the order under which that was learned.
#[derive(Default)]
struct StreamOrder {
    order: u64,
    clock: Clock,
}

/// The numbers of the last tasks of a stream.
#[derive(Default)]
struct TaskCounters {
    submitted: Padded,
    finished: Padded,
}

/// A counter on a cache line of its own.
#[derive(Default)]
#[repr(align(64))]
struct Padded(AtomicU64);

impl Progress {
    /// A table for this many live streams.
    pub fn new(streams: usize) -> Progress {
        Progress {
            counters: (0..streams).map(|_| TaskCounters::default()).collect(),
            ordered: (0..streams)
                .map(|_| Mutex::new(Rank::Ordered, StreamOrder::default()))
                .collect(),
            order: AtomicU64::new(0),
            open_bits: (0..streams.div_ceil(64)).map(|_| AtomicU64::new(0)).collect(),
            index_end: AtomicUsize::new(0),
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
            None if indexes.next as usize == self.counters.len() => return None,
            None => {
                indexes.next += 1;
                self.index_end.store(indexes.next as usize, Ordering::Release);
                indexes.next - 1
            }
        };
        self.open_bits[index as usize / 64].fetch_or(1 << (index % 64), Ordering::SeqCst);
        Some(index)
    }

    /// Makes a queue known to [`Progress::queued_memory`].
    pub fn attach(&self, queue: Weak<dyn TaskQueue>) {
        let mut indexes = self.indexes.lock();
        if indexes.queues.len() == indexes.queues.capacity() {
            indexes.queues.retain(|q| q.strong_count() > 0);
        }
        indexes.queues.push(queue);
    }

    /// The queues of all streams. Call it, and drop them, without a lock: the last reference to a stream may be dropped.
    pub fn queues(&self) -> Vec<Arc<dyn TaskQueue>> {
        self.indexes.lock().queues.iter().filter_map(Weak::upgrade).collect()
    }

    /// The memory that the queued tasks of all streams name. Slow: it walks all of them. Call it without a lock: the last
    /// reference to a stream may be dropped here.
    pub fn queued_memory(&self) -> QueuedMemory {
        let queues = self.queues();
        let mut memory = QueuedMemory::default();
        queues.iter().for_each(|queue| queue.collect(&mut memory));
        memory.merge_ranges();
        memory
    }

    /// Gives the index back. All its tasks are finished.
    pub fn close(&self, index: StreamIndex) {
        debug_assert_eq!(self.submitted(index), self.finished(index));
        self.open_bits[index as usize / 64].fetch_and(!(1 << (index % 64)), Ordering::SeqCst);
        self.indexes.lock().free.push(index);
    }

    /// The indexes in use.
    fn open_indexes(&self) -> impl Iterator<Item = StreamIndex> {
        let words = self.index_end.load(Ordering::Acquire).div_ceil(64);
        (0..words).flat_map(|word| {
            let mut bits = self.open_bits[word].load(Ordering::SeqCst);
            std::iter::from_fn(move || {
                let bit = (bits != 0).then(|| bits.trailing_zeros())?;
                bits &= bits - 1;
                Some(word as u32 * 64 + bit)
            })
        })
    }

    /// The last task submitted to the stream.
    pub fn submitted(&self, index: StreamIndex) -> u64 {
        self.counters[index as usize].submitted.0.load(Ordering::SeqCst)
    }

    /// The last task of the stream that is done.
    pub fn finished(&self, index: StreamIndex) -> u64 {
        self.counters[index as usize].finished.0.load(Ordering::SeqCst)
    }

    /// The number of the current order. What is known of the order of streams was learned under a number, and does not
    /// hold under another.
    pub fn order(&self) -> u64 {
        self.order.load(Ordering::SeqCst)
    }

    /// A wait that orders tasks was aborted or timed out, so they run without it. What was ordered after it, directly or
    /// not, no longer is. This is rare, so everything known of the order is forgotten, by a new number. Called before the
    /// stream goes on.
    pub(crate) fn break_order(&self) {
        self.order.fetch_add(1, Ordering::SeqCst);
    }

    /// Publishes what the next task of a stream is ordered after, and the number of that order. The waits that order it
    /// so are submitted.
    pub(crate) fn set_ordered(&self, index: StreamIndex, order: u64, clock: &Clock) {
        let mut ordered = self.ordered[index as usize].lock();
        ordered.order = order;
        ordered.clock.clone_from(clock);
    }

    /// True if what is submitted to the stream from now on is ordered after `epoch`.
    pub fn is_ordered(&self, stream: StreamIndex, epoch: Epoch) -> bool {
        let ordered = self.ordered[stream as usize].lock();
        ordered.clock.covers(epoch) && ordered.order == self.order()
    }

    /// The finished epochs of a clock. They stay finished whatever becomes of the order.
    pub fn finished_of(&self, clock: &Clock) -> Clock {
        let mut finished = clock.clone();
        finished.retain(|epoch| self.covers(epoch));
        finished
    }

    pub(crate) fn set_submitted(&self, index: StreamIndex, seq: u64) {
        self.counters[index as usize].submitted.0.store(seq, Ordering::SeqCst);
    }

    pub(crate) fn set_finished(&self, index: StreamIndex, seq: u64) {
        self.counters[index as usize].finished.0.store(seq, Ordering::SeqCst);
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

    /// True if a user thread waits for a stream. It may be the one that empties a task queue of the program
    /// (torch_npu has one): what is in that queue is not submitted meanwhile.
    pub fn has_waiting_thread(&self) -> bool {
        self.waiting.load(Ordering::SeqCst) > 0
    }

    /// True if the epoch is finished.
    pub fn covers(&self, epoch: Epoch) -> bool {
        self.finished(epoch.stream) >= epoch.seq
    }

    /// True if every epoch of the clock is finished.
    pub fn covers_all(&self, clock: &Clock) -> bool {
        clock.epochs().iter().all(|&e| self.covers(e))
    }

    /// The last submitted task of every stream that has unfinished ones: what a free must wait for.
    pub fn tails(&self) -> Clock {
        let mut clock = Clock::new();
        for index in self.open_indexes() {
            let finished = self.finished(index);
            let seq = self.submitted(index);
            if finished < seq {
                clock.raise(Epoch { stream: index, seq });
            }
        }
        clock
    }

    /// The numbers of all submitted and of all finished tasks: equal when every stream is idle, unchanged while nothing
    /// is submitted or finishes.
    pub fn totals(&self) -> (u64, u64) {
        let mut totals = (0, 0);
        for index in 0..self.index_end.load(Ordering::Acquire) as u32 {
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
    fn queued_ranges_are_found_whatever_their_order() {
        let mut memory = QueuedMemory {
            ranges: vec![(50, 60), (10, 20), (15, 30), (30, 31)],
            ..QueuedMemory::default()
        };
        memory.merge_ranges();
        for address in 0..70 {
            let inside = (10..31).contains(&address) || (50..60).contains(&address);
            assert_eq!(memory.touches(address, address + 1), inside, "{address}");
        }
        assert!(memory.touches(0, 11) && !memory.touches(0, 10) && memory.touches(31, 51));
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
