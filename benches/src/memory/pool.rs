//! Our pool through its Rust interface: streams are counters, memory is a range of numbers that nobody touches.

use super::candidate::{Candidate, StreamOrdered};
use cairn_pool::clock::{Epoch, StreamIndex};
use cairn_pool::{Figures, Outcome, Pool, Progress, SegmentSource};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Where the pool's blocks must begin: nothing beyond its own granule.
const ALIGN: u64 = 1;

/// The unit in which memory comes and goes: the pages of a CPU.
pub const PAGE: u64 = 4096;

/// How far two streams have come. A task of one is ordered before a task of the other only once it is finished.
#[derive(Default)]
pub struct Counters {
    submitted: [AtomicU64; 2],
    lag: AtomicU64,
}

impl Counters {
    /// Gives a task to a stream.
    pub fn submit(&self, stream: usize) {
        self.submitted[stream].fetch_add(1, Ordering::Relaxed);
    }

    /// From now on every stream is this many tasks behind; at first none.
    pub fn lag(&self, tasks: u64) {
        self.lag.store(tasks, Ordering::Relaxed);
    }
}

impl Progress for Counters {
    #[inline]
    fn submitted(&self, stream: StreamIndex) -> u64 {
        self.submitted[stream as usize].load(Ordering::Relaxed)
    }

    #[inline]
    fn finished(&self, stream: StreamIndex) -> u64 {
        self.submitted(stream).saturating_sub(self.lag.load(Ordering::Relaxed))
    }

    #[inline]
    fn is_ordered(&self, _: StreamIndex, _: Epoch) -> bool {
        false
    }
}

/// Memory as numbers: it grows at its end, and whole pages can be taken back anywhere.
#[derive(Default)]
pub struct VirtualMemory {
    end: AtomicU64,
}

impl SegmentSource for VirtualMemory {
    fn extend(&self, bytes: u64) -> Result<Range<u64>, String> {
        let bytes = bytes.next_multiple_of(PAGE);
        let start = self.end.fetch_add(bytes, Ordering::Relaxed);
        Ok(start..start + bytes)
    }

    fn release(&self, range: Range<u64>) -> Vec<Range<u64>> {
        let pages = range.start.next_multiple_of(PAGE)..range.end / PAGE * PAGE;
        if pages.is_empty() { Vec::new() } else { vec![pages] }
    }
}

/// The pool under test.
pub struct CairnPool {
    pool: Pool<Arc<Counters>, VirtualMemory>,
    /// Its streams.
    pub streams: Arc<Counters>,
}

impl CairnPool {
    /// An empty pool whose streams are idle.
    pub fn new() -> CairnPool {
        let streams = Arc::new(Counters::default());
        CairnPool { pool: Pool::new(streams.clone(), VirtualMemory::default(), u64::MAX), streams }
    }

    /// What the pool says of itself.
    pub fn figures(&self) -> Figures {
        self.pool.figures()
    }

    /// Gives back what is free.
    pub fn trim(&self) -> u64 {
        self.pool.trim(0)
    }
}

impl Candidate for CairnPool {
    type Block = u64;

    #[inline]
    fn allocate(&self, bytes: usize, stream: usize) -> u64 {
        match self.pool.allocate(bytes as u64, ALIGN, stream as StreamIndex) {
            Outcome::Ready { offset, .. } => offset,
            other => panic!("the pool could not allocate {bytes} bytes: {other:?}"),
        }
    }

    #[inline]
    fn free(&self, block: u64, _: usize, stream: usize) {
        self.pool.free(block, stream as StreamIndex).expect("a block of this pool");
    }
}

impl StreamOrdered for CairnPool {
    #[inline]
    fn record_use(&self, block: u64, stream: usize) {
        self.pool.record_use(block, stream as StreamIndex).expect("a block of this pool");
    }
}
