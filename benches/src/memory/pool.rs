//! Our pool through its Rust interface: streams are counters, memory is a range of numbers that nobody touches.

use super::candidate::{Candidate, StreamOrdered};
use cairn_pool::clock::{Epoch, StreamIndex};
use cairn_pool::{Figures, Outcome, Pool, Progress, SegmentSource, StitchRequest, Stitching};
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
pub struct VirtualMemory {
    end: AtomicU64,
    /// The unit in which memory comes and goes.
    page: u64,
    stitching: Option<Stitching>,
}

impl VirtualMemory {
    /// Pages of a CPU.
    pub fn plain() -> VirtualMemory {
        VirtualMemory { end: AtomicU64::new(0), page: PAGE, stitching: None }
    }

    /// The same, and the pool stitches, as inside the runtime.
    pub fn small_pieces() -> VirtualMemory {
        let stitching = Stitching {
            page: PAGE,
            min_block: 64 << 10,
            min_piece: 16 << 10,
            max_pieces: 256,
            keeps_addresses: true,
            extends_end: false,
        };
        VirtualMemory { stitching: Some(stitching), ..VirtualMemory::plain() }
    }

    /// Pages of a device, and the pool stitches, as over the interface of ACL.
    pub fn large_pieces() -> VirtualMemory {
        let page = 2 << 20;
        let stitching = Stitching {
            page,
            min_block: page,
            min_piece: page,
            max_pieces: 1024,
            keeps_addresses: true,
            extends_end: true,
        };
        VirtualMemory { end: AtomicU64::new(0), page, stitching: Some(stitching) }
    }
}

impl SegmentSource for VirtualMemory {
    fn extend(&self, bytes: u64) -> Result<Range<u64>, String> {
        let bytes = bytes.next_multiple_of(self.page);
        let start = self.end.fetch_add(bytes, Ordering::Relaxed);
        Ok(start..start + bytes)
    }

    fn release(&self, range: Range<u64>) -> Vec<Range<u64>> {
        let pages = range.start.next_multiple_of(self.page)..range.end / self.page * self.page;
        if pages.is_empty() { Vec::new() } else { vec![pages] }
    }

    fn stitching(&self) -> Option<Stitching> {
        self.stitching
    }

    fn stitch(&self, request: &StitchRequest<'_>) -> Result<Range<u64>, String> {
        let StitchRequest { pieces, fresh, after, .. } = *request;
        let moved: u64 = pieces.iter().map(|piece| piece.end - piece.start).sum();
        let range = self.extend(moved + fresh)?;
        assert!(after.is_none_or(|after| range.start == after), "memory only grows at its end");
        Ok(range)
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
        CairnPool::over(VirtualMemory::plain())
    }

    /// The same over this memory.
    pub fn over(memory: VirtualMemory) -> CairnPool {
        let streams = Arc::new(Counters::default());
        CairnPool { pool: Pool::new(streams.clone(), memory, u64::MAX), streams }
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
