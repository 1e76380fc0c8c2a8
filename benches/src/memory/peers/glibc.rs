//! The C library: `malloc`, and `posix_memalign`, which torch's CPU allocator calls.

use super::Address;
use crate::memory::candidate::Candidate;

/// `malloc` and `free`.
pub struct Malloc;

impl Candidate for Malloc {
    type Block = Address;

    #[inline]
    fn allocate(&self, bytes: usize, _: usize) -> Address {
        // SAFETY: any size may be asked for.
        Address::new(unsafe { libc::malloc(bytes) }, "malloc", bytes)
    }

    #[inline]
    fn free(&self, block: Address, _: usize, _: usize) {
        // SAFETY: the address came from `malloc`, and a workload frees each block once.
        unsafe { libc::free(block.pointer()) }
    }
}

/// The alignment that torch asks for.
const CACHE_LINE: usize = 64;

/// `posix_memalign` and `free`.
pub struct Memalign;

impl Candidate for Memalign {
    type Block = Address;

    #[inline]
    fn allocate(&self, bytes: usize, _: usize) -> Address {
        let mut address = std::ptr::null_mut();
        // SAFETY: the alignment is a power of two, and the result goes to memory of ours.
        let code = unsafe { libc::posix_memalign(&mut address, CACHE_LINE, bytes) };
        assert_eq!(code, 0, "posix_memalign could not allocate {bytes} bytes");
        Address::new(address, "posix_memalign", bytes)
    }

    #[inline]
    fn free(&self, block: Address, _: usize, _: usize) {
        // SAFETY: the address came from `posix_memalign`, and a workload frees each block once.
        unsafe { libc::free(block.pointer()) }
    }
}
