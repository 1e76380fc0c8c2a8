//! The only place that touches the bytes of the user, after [`super::Memory`] has checked them.

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
