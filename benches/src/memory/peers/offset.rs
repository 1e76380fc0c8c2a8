//! The crate offset-allocator behind a mutex: offsets in one range, bins, coalescing, as for memory
//! that the allocator cannot touch. Units of 512 bytes, as device pools have.

use crate::memory::candidate::Candidate;
use offset_allocator::{Allocation, Allocator};
use parking_lot::Mutex;

/// Bytes in a unit.
pub const UNIT: usize = 512;

/// The range: 64 GiB. It is only numbers.
const UNITS: u32 = ((64usize << 30) / UNIT) as u32;

/// One allocator, one lock.
pub struct OffsetAllocator(Mutex<Allocator>);

impl OffsetAllocator {
    /// An empty range.
    pub fn new() -> OffsetAllocator {
        OffsetAllocator(Mutex::new(Allocator::new(UNITS)))
    }
}

impl Candidate for OffsetAllocator {
    type Block = Allocation;

    #[inline]
    fn allocate(&self, bytes: usize, _: usize) -> Allocation {
        let units = bytes.div_ceil(UNIT) as u32;
        self.0.lock().allocate(units).expect("the range has room")
    }

    #[inline]
    fn free(&self, block: Allocation, _: usize, _: usize) {
        self.0.lock().free(block);
    }
}
