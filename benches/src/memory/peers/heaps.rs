//! General heaps with caches per thread: mimalloc, jemalloc, snmalloc.

use super::{ALIGNMENT, Address};
use crate::memory::candidate::Candidate;

/// mimalloc: `mi_malloc`, `mi_free`.
pub struct Mimalloc;

impl Candidate for Mimalloc {
    type Block = Address;

    #[inline]
    fn allocate(&self, bytes: usize, _: usize) -> Address {
        // SAFETY: any size may be asked for.
        Address::new(unsafe { libmimalloc_sys::mi_malloc(bytes) }, "mimalloc", bytes)
    }

    #[inline]
    fn free(&self, block: Address, _: usize, _: usize) {
        // SAFETY: the address came from `mi_malloc`, and a workload frees each block once.
        unsafe { libmimalloc_sys::mi_free(block.pointer()) }
    }
}

/// jemalloc: `mallocx`, and `sdallocx`, the free that is told the size.
pub struct Jemalloc;

impl Candidate for Jemalloc {
    type Block = Address;

    #[inline]
    fn allocate(&self, bytes: usize, _: usize) -> Address {
        // SAFETY: the size is not zero.
        Address::new(unsafe { tikv_jemalloc_sys::mallocx(bytes, 0) }, "jemalloc", bytes)
    }

    #[inline]
    fn free(&self, block: Address, bytes: usize, _: usize) {
        // SAFETY: the address came from `mallocx` with this size, and a workload frees each block once.
        unsafe { tikv_jemalloc_sys::sdallocx(block.pointer(), bytes, 0) }
    }
}

/// snmalloc: the pair that it offers to Rust, which is told size and alignment.
pub struct Snmalloc;

impl Candidate for Snmalloc {
    type Block = Address;

    #[inline]
    fn allocate(&self, bytes: usize, _: usize) -> Address {
        // SAFETY: the alignment is a power of two.
        let address = unsafe { snmalloc_sys::sn_rust_alloc(ALIGNMENT, bytes) };
        Address::new(address, "snmalloc", bytes)
    }

    #[inline]
    fn free(&self, block: Address, bytes: usize, _: usize) {
        // SAFETY: the address came from `sn_rust_alloc` with this size and alignment, and a workload
        // frees each block once.
        unsafe {
            snmalloc_sys::sn_rust_dealloc(block.pointer(), ALIGNMENT, bytes);
        }
    }
}
