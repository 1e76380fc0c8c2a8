//! The crate rlsf behind a mutex: TLSF with headers inside the memory. It writes into what it
//! manages, so it could not serve a device; it shows what TLSF costs.

use super::{ALIGNMENT, Address};
use crate::memory::candidate::Candidate;
use parking_lot::Mutex;
use std::alloc::Layout;
use std::ptr::{NonNull, null_mut};

/// The range: 16 GiB of addresses, of which only headers are ever touched.
const BYTES: usize = 16 << 30;

type Inner = rlsf::Tlsf<'static, u32, u32, 30, 32>;

/// One TLSF over one mapping, one lock.
pub struct Rlsf {
    inner: Mutex<Inner>,
    range: Address,
}

impl Rlsf {
    /// Maps an empty range.
    pub fn new() -> Rlsf {
        // SAFETY: a new private mapping at an address that the kernel chooses.
        let range = unsafe {
            libc::mmap(
                null_mut(),
                BYTES,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        assert_ne!(range, libc::MAP_FAILED, "no {BYTES} bytes of addresses");
        let mut inner = Inner::new();
        let start = NonNull::new(range.cast::<u8>()).expect("a mapping is not at zero");
        // SAFETY: the mapping is ours alone, and goes only after `inner` is used for the last time.
        unsafe { inner.insert_free_block_ptr(NonNull::slice_from_raw_parts(start, BYTES)) };
        Rlsf { inner: Mutex::new(inner), range: Address(range as usize) }
    }
}

impl Drop for Rlsf {
    fn drop(&mut self) {
        // SAFETY: the mapping made by `new`; nobody else holds it.
        unsafe { libc::munmap(self.range.pointer(), BYTES) };
    }
}

impl Candidate for Rlsf {
    type Block = Address;

    #[inline]
    fn allocate(&self, bytes: usize, _: usize) -> Address {
        let layout = Layout::from_size_align(bytes, ALIGNMENT).expect("a size that exists");
        let found = self.inner.lock().allocate(layout).expect("the range has room");
        Address(found.as_ptr() as usize)
    }

    #[inline]
    fn free(&self, block: Address, _: usize, _: usize) {
        let address = NonNull::new(block.pointer().cast()).expect("a block is not at zero");
        // SAFETY: the address came from `allocate` with this alignment, and a workload frees each
        // block once.
        unsafe { self.inner.lock().deallocate(address, ALIGNMENT) };
    }
}
