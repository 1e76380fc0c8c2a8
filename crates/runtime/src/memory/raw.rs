//! The only place that touches the bytes of the user, after [`super::Memory`] has checked them.

use std::ffi::c_void;

/// A range that was checked for one task and may be touched until its end.
pub struct Bytes {
    address: usize,
    len: usize,
}

impl Bytes {
    /// # Safety
    /// `len` bytes at `address` are mapped and stay so while this exists. They may change under us:
    /// that is the user's race, and only moves of plain bytes are made here.
    pub unsafe fn new(address: usize, len: usize) -> Bytes {
        Bytes { address, len }
    }

    /// Copies all of `from` here; both have the same length and do not overlap.
    pub fn copy_from(&self, from: &Bytes) {
        assert_eq!(self.len, from.len);
        // SAFETY: both ranges were checked by whoever made them; plain bytes.
        unsafe {
            std::ptr::copy(from.address as *const u8, self.address as *mut u8, self.len);
        }
    }

    /// Sets every byte.
    pub fn fill(&self, value: u8) {
        // SAFETY: the range was checked by whoever made it; plain bytes.
        unsafe { std::ptr::write_bytes(self.address as *mut u8, value, self.len) };
    }
}

/// True if foreign host memory can be touched: mapped throughout, and readable at both ends. Costs a
/// system call or two; where the kernel forbids them, the user's word is taken.
pub fn reachable(address: usize, len: usize) -> bool {
    const PAGE: usize = 4096;
    if len == 0 {
        return true;
    }
    let Some(last) = address.checked_add(len - 1) else { return false };
    if address < PAGE || !both_ends_readable(address, last) {
        return false;
    }
    let (mut at, end) = (address & !(PAGE - 1), (last & !(PAGE - 1)) + PAGE);
    let mut pages = [0u8; 4096];
    while at < end {
        let bytes = (end - at).min(pages.len() * PAGE);
        // SAFETY: mincore reads no user memory, and has room for a byte a page.
        if unsafe { libc::mincore(at as *mut c_void, bytes, pages.as_mut_ptr()) } != 0 {
            return false;
        }
        at += bytes;
    }
    true
}

fn both_ends_readable(first: usize, last: usize) -> bool {
    let mut bytes = [0u8; 2];
    let into = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: 2 };
    let byte = |at: usize| libc::iovec { iov_base: at as *mut c_void, iov_len: 1 };
    let from = [byte(first), byte(last)];
    // SAFETY: the kernel copies two bytes into our array, and answers EFAULT where there are none.
    let got = unsafe { libc::process_vm_readv(libc::getpid(), &into, 1, from.as_ptr(), 2, 0) };
    got == 2
        || (got < 0
            && !matches!(std::io::Error::last_os_error().raw_os_error(), Some(libc::EFAULT)))
}
