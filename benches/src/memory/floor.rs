//! What the machine itself allows: a list per size class and stream, nothing shared, no lock, no
//! splitting and no coalescing. No program could use it; the others cost at least as much.

use super::candidate::Candidate;
use std::cell::UnsafeCell;

/// Four classes to each doubling.
const CLASSES: usize = 4 * usize::BITS as usize;

#[repr(align(128))]
struct Lists([UnsafeCell<Vec<u64>>; CLASSES]);

/// The lists of two streams. Each stream belongs to one thread at a time.
pub struct Floor {
    lists: [Lists; 2],
}

// SAFETY: a workload uses each stream from one thread at a time, and a stream's lists are touched by
// calls for that stream only.
unsafe impl Sync for Floor {}

impl Floor {
    /// Empty lists.
    pub fn new() -> Floor {
        let empty = || Lists([const { UnsafeCell::new(Vec::new()) }; CLASSES]);
        Floor { lists: [empty(), empty()] }
    }

    #[inline]
    fn list(&self, bytes: usize, stream: usize) -> *mut Vec<u64> {
        let doubling = bytes.ilog2() as usize;
        let class = 4 * doubling + ((bytes << 2 >> doubling) & 3);
        self.lists[stream].0[class].get()
    }
}

impl Candidate for Floor {
    type Block = u64;

    #[inline]
    fn allocate(&self, bytes: usize, stream: usize) -> u64 {
        // SAFETY: no other reference to the list lives; see `Sync` above.
        let list = unsafe { &mut *self.list(bytes, stream) };
        list.pop().unwrap_or(bytes as u64)
    }

    #[inline]
    fn free(&self, block: u64, bytes: usize, stream: usize) {
        // SAFETY: as in `allocate`.
        let list = unsafe { &mut *self.list(bytes, stream) };
        list.push(block);
    }
}
