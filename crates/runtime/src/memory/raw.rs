//! The only place that touches the bytes of the user, after [`super::Memory`] has checked them.

use super::protected;
use super::source::Source;
use super::writers;
use crate::error::{Code, Error, Result};
use crate::sync::Arc;
use crate::task::Span;
use crate::worker::Scheduler;
use std::cell::Cell;
use std::ffi::c_void;
use std::sync::atomic::AtomicBool;

/// A range that was checked for one task and may be touched until its end.
pub struct Bytes {
    address: usize,
    len: usize,
}

impl Bytes {
    /// # Safety
    /// `len` bytes at `address` are mapped and stay so while this exists. Other threads may change them:
    /// that is a race of the user's, and only plain bytes are copied here.
    pub unsafe fn new(address: usize, len: usize) -> Bytes {
        Bytes { address: protected::resolve(address), len }
    }

    /// Copies all of `from` here; both have the same length and do not overlap.
    pub fn copy_from(&self, from: &Bytes) {
        assert_eq!(self.len, from.len);
        if self.len == 0 {
            return;
        }
        // SAFETY: both ranges were checked by whoever made them; plain bytes.
        writers::write(|| unsafe {
            std::ptr::copy(from.address as *const u8, self.address as *mut u8, self.len);
        });
    }

    /// Sets every byte.
    pub fn fill(&self, value: u8) {
        // SAFETY: the range was checked by whoever made it; plain bytes.
        writers::write(|| unsafe {
            std::ptr::write_bytes(self.address as *mut u8, value, self.len);
        });
    }
}

/// What a kernel works on: the ranges of its task, checked, and the threads it may spread over.
pub struct TaskMemory<'a> {
    reads: &'a [Span],
    writes: &'a [Span],
    scheduler: &'a Scheduler,
    overflowed: Option<&'a AtomicBool>,
    overflow_status: &'a AtomicBool,
}

impl<'a> TaskMemory<'a> {
    /// # Safety
    /// All ranges are mapped and stay so while this exists. Other threads may change them: that is a race of the
    /// user's.
    pub unsafe fn new(
        reads: &'a [Span],
        writes: &'a [Span],
        scheduler: &'a Scheduler,
        overflowed: Option<&'a AtomicBool>,
        overflow_status: &'a AtomicBool,
    ) -> TaskMemory<'a> {
        TaskMemory { reads, writes, scheduler, overflowed, overflow_status }
    }

    /// The bytes of the range at an index of the task's reads.
    pub fn read(&self, index: usize) -> &'a [Cell<u8>] {
        cells(&self.reads[index])
    }

    /// The bytes of the range at an index of the task's writes.
    pub fn write(&self, index: usize) -> &'a [Cell<u8>] {
        cells(&self.writes[index])
    }

    /// Copies `from` to the range at an index of the task's writes, from `start` on.
    ///
    /// # Panics
    /// If it does not fit.
    pub fn copy_to_write(&self, index: usize, start: usize, from: &[u8]) {
        let to = &self.write(index)[start..start + from.len()];
        // SAFETY: a slice is mapped while it is borrowed, and the caller of `new` vouches for the range.
        let (to, from) = unsafe {
            (
                Bytes::new(to.as_ptr() as usize, to.len()),
                Bytes::new(from.as_ptr() as usize, from.len()),
            )
        };
        to.copy_from(&from);
    }

    /// Copies the range at an index of the task's reads to one of its writes.
    ///
    /// # Panics
    /// If they differ in length.
    pub fn copy(&self, write: usize, read: usize) {
        bytes(&self.writes[write]).copy_from(&bytes(&self.reads[read]));
    }

    /// A copy of the range at an index of the task's reads.
    pub fn copy_read(&self, read: usize) -> Vec<u8> {
        let mut copy = vec![0u8; self.reads[read].bytes];
        // SAFETY: a vector is mapped while it is borrowed, and this one is nobody else's.
        let to = unsafe { Bytes::new(copy.as_mut_ptr() as usize, copy.len()) };
        to.copy_from(&bytes(&self.reads[read]));
        copy
    }

    /// The threads it may spread over.
    pub fn scheduler(&self) -> &'a Scheduler {
        self.scheduler
    }

    /// In saturation mode, the flag that is set when a result was too large; `None` if infinities are results.
    pub fn overflowed(&self) -> Option<&'a AtomicBool> {
        self.overflowed
    }

    /// The overflow status of the process, on every stream.
    pub fn overflow_status(&self) -> &'a AtomicBool {
        self.overflow_status
    }
}

/// A range of a [`TaskMemory`], to be copied.
fn bytes(span: &Span) -> Bytes {
    // SAFETY: whoever made the task memory vouches for its ranges.
    unsafe { Bytes::new(span.address, span.bytes) }
}

/// A range of a [`TaskMemory`].
fn cells<'a>(span: &Span) -> &'a [Cell<u8>] {
    if span.bytes == 0 {
        return &[];
    }
    // SAFETY: whoever made the task memory vouches for its ranges; cells may change at any time.
    unsafe {
        let start = protected::resolve(span.address) as *const Cell<u8>;
        std::slice::from_raw_parts(start, span.bytes)
    }
}

/// Bytes of a [`Source`], which stay mapped as long as this exists. For layers, which write
/// beside the user's bytes, and for poison. Other threads may change them: that is a race of the user's,
/// and only plain bytes are copied here.
pub struct Extent {
    source: Arc<Source>,
    offset: u64,
    len: usize,
}

impl Extent {
    /// The `len` bytes at `address`, if the source has them all.
    pub fn new(source: &Arc<Source>, address: usize, len: usize) -> Option<Extent> {
        let offset = (address as u64).checked_sub(source.base() as u64)?;
        let end = offset.checked_add(len as u64)?;
        (end <= source.committed()).then(|| Extent { source: source.clone(), offset, len })
    }

    /// Where it begins.
    pub fn address(&self) -> usize {
        self.source.base() + self.offset as usize
    }

    /// How many bytes it has.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if it has none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Sets every byte.
    pub fn fill(&self, value: u8) {
        self.bytes().fill(value);
    }

    /// Copies `from` to the start.
    ///
    /// # Panics
    /// If it does not fit.
    pub fn write(&self, from: &[u8]) {
        assert!(from.len() <= self.len, "{} bytes into {}", from.len(), self.len);
        // SAFETY: a slice is mapped while it is borrowed.
        let from = unsafe { Bytes::new(from.as_ptr() as usize, from.len()) };
        Bytes { len: from.len, ..self.bytes() }.copy_from(&from);
    }

    /// What is there now.
    pub fn read(&self) -> Vec<u8> {
        let mut copy = vec![0u8; self.len];
        // SAFETY: a vector is mapped while it is borrowed, and this one is nobody else's.
        unsafe { Bytes::new(copy.as_mut_ptr() as usize, copy.len()) }.copy_from(&self.bytes());
        copy
    }

    fn bytes(&self) -> Bytes {
        // SAFETY: the source has these bytes committed, never takes them back, and is kept by `self`.
        unsafe { Bytes::new(self.address(), self.len) }
    }
}

/// What a task does with a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// It only reads it.
    Read,
    /// It overwrites all of it.
    Overwrite,
}

/// True if host memory of the program can be read or written: all of it is mapped, and both ends are readable or
/// writable. Costs a few system calls; true where the kernel forbids them. A range that is to be overwritten gets its
/// first and last byte rewritten, with the same values.
pub fn is_accessible(address: usize, len: usize, purpose: Use) -> bool {
    let page = rustix::param::page_size();
    if len == 0 {
        return true;
    }
    let Some(last) = address.checked_add(len - 1) else { return false };
    if address < page || !can_access_ends(address, last, purpose) {
        return false;
    }
    let (mut at, end) = (address & !(page - 1), (last & !(page - 1)) + page);
    let mut pages = [0u8; 4096];
    while end - at > 2 * page {
        let bytes = (end - at).min(pages.len() * page);
        // SAFETY: mincore reads no user memory, and has room for a byte a page.
        if unsafe { libc::mincore(at as *mut c_void, bytes, pages.as_mut_ptr()) } != 0 {
            return false;
        }
        at += bytes;
    }
    true
}

/// The most bytes that are copied from one argument.
const MAX_COPY_BYTES: usize = 1 << 40;

/// A copy of an array of the program; fails if it cannot be read. `name` is its name in error messages.
///
/// # Safety
/// `from` points to `count` values, of any alignment, which the program says are there.
pub unsafe fn copy_array<T: Copy>(from: *const T, count: usize, name: &str) -> Result<Vec<T>> {
    let mut copy: Vec<T> = Vec::new();
    let bytes = count.saturating_mul(size_of::<T>());
    expect_readable(from as usize, bytes, name)?;
    copy.try_reserve_exact(count).map_err(|_| {
        let text = format!("no host memory for the {bytes} bytes of {name}");
        Error::new(Code::MemoryAllocation, text)
    })?;
    // SAFETY: the caller vouches for the source, the reserve for the target, and they are apart.
    unsafe {
        std::ptr::copy_nonoverlapping(from.cast::<u8>(), copy.as_mut_ptr().cast::<u8>(), bytes);
        copy.set_len(count);
    }
    Ok(copy)
}

/// Fails if bytes of the program cannot be read. `name` is their name in error messages.
pub fn expect_readable(address: usize, bytes: usize, name: &str) -> Result<()> {
    if bytes > MAX_COPY_BYTES {
        return Err(Error::invalid(format!(
            "{name} has {bytes} bytes, more than {MAX_COPY_BYTES}"
        )));
    }
    match is_accessible(address, bytes, Use::Read) {
        true => Ok(()),
        false => {
            Err(Error::invalid(format!("{name}: no {bytes} bytes can be read at {address:#x}")))
        }
    }
}

/// As [`copy_array`], for plain bytes.
pub fn copy_bytes(address: usize, bytes: usize, name: &str) -> Result<Vec<u8>> {
    // SAFETY: any bytes are values, and whether they can be read is found out first.
    unsafe { copy_array(address as *const u8, bytes, name) }
}

/// Whether the first and the last byte can be read, or written.
fn can_access_ends(first: usize, last: usize, purpose: Use) -> bool {
    let mut bytes = [0u8; 2];
    let local = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: 2 };
    let byte = |at: usize| libc::iovec { iov_base: at as *mut c_void, iov_len: 1 };
    let remote = [byte(first), byte(last)];
    let is_forbidden =
        || !matches!(std::io::Error::last_os_error().raw_os_error(), Some(libc::EFAULT));
    // SAFETY: the kernel copies two bytes into our array, and answers EFAULT where there are none.
    let read = unsafe { libc::process_vm_readv(libc::getpid(), &local, 1, remote.as_ptr(), 2, 0) };
    if read != 2 {
        return read < 0 && is_forbidden();
    }
    if purpose == Use::Read {
        return true;
    }
    // SAFETY: the kernel copies the two bytes back to where they came from, into a range that the
    // caller is about to overwrite, and answers EFAULT where it may not.
    let written =
        unsafe { libc::process_vm_writev(libc::getpid(), &local, 1, remote.as_ptr(), 2, 0) };
    written == 2 || (written < 0 && is_forbidden())
}
