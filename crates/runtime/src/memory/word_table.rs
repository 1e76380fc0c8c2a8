//! Tables that take memory only where they are written.

use std::io;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

/// Zeroed words in pages of their own, backed when first written. Unmapped on drop.
pub struct WordTable {
    words: NonNull<AtomicU64>,
    len: usize,
}

// SAFETY: the mapping belongs to the table alone, and is reached only through shared atomics.
unsafe impl Send for WordTable {}
// SAFETY: as above.
unsafe impl Sync for WordTable {}

impl WordTable {
    /// A table of `len` words. Fails if the kernel refuses the addresses.
    pub fn reserve(len: usize) -> io::Result<Self> {
        let (prot, flags) =
            (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::NORESERVE);
        // SAFETY: a new anonymous mapping at an address of the kernel's choice overlaps nothing.
        let base = unsafe { mmap_anonymous(std::ptr::null_mut(), 8 * len, prot, flags)? };
        let table =
            Self { words: NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?, len };
        // SAFETY: the range is ours and the advice changes no contents. Sparse use wants small pages;
        // a kernel without huge pages refuses, which is as good.
        let _ = unsafe { madvise(base, 8 * len, Advice::LinuxNoHugepage) };
        Ok(table)
    }
}

impl Deref for WordTable {
    type Target = [AtomicU64];

    fn deref(&self) -> &[AtomicU64] {
        // SAFETY: `words` maps `len` readable and writable words until drop; the kernel zeroed them,
        // any bits are a valid `AtomicU64`, and nobody writes them otherwise.
        unsafe { std::slice::from_raw_parts(self.words.as_ptr(), self.len) }
    }
}

impl Drop for WordTable {
    fn drop(&mut self) {
        // SAFETY: mapped by `reserve` with this length; borrows of it ended with `self`.
        let _ = unsafe { munmap(self.words.as_ptr().cast(), 8 * self.len) };
    }
}
