//! A page of words that several processes map.

use crate::error::{Code, Error, Result};
use crate::memory::sharing::{Export, Key, SharedKind, Sharing};
use crate::memory::vmm::{FileRange, ForeignRange};
use rustix::fd::{AsRawFd, BorrowedFd};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};
use std::ptr::NonNull;
use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;

/// Bytes of a cell: a page, so that each process maps just this one.
pub const BYTES: usize = 4096;

/// A page of words in a memory file, mapped here. It is zero when it is made; it lives as long as a process has it.
///
/// **Threads.** Any; only atomics touch it.
pub struct Cell {
    words: NonNull<AtomicU64>,
    backing: Backing,
    key: OnceLock<Key>,
}

enum Backing {
    Own(FileRange),
    /// Held, and nothing more.
    Foreign {
        _range: ForeignRange,
    },
}

// SAFETY: the mapping belongs to the cell alone, and is reached only through shared atomics.
unsafe impl Send for Cell {}
// SAFETY: as above.
unsafe impl Sync for Cell {}

fn map(file: BorrowedFd<'_>, offset: u64) -> Result<NonNull<AtomicU64>> {
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping at an address of the kernel's choice overlaps nothing.
    let start =
        unsafe { mmap(std::ptr::null_mut(), BYTES, access, MapFlags::SHARED, file, offset) };
    let start = start.map_err(|error| {
        Error::new(Code::MemoryAllocation, format!("a shared page cannot be mapped: {error}"))
    })?;
    // SAFETY: mapped just now; no contents change.
    let _ = unsafe { madvise(start, BYTES, Advice::LinuxDontFork) };
    NonNull::new(start.cast())
        .ok_or_else(|| Error::new(Code::MemoryAllocation, "a shared page has no address"))
}

impl Cell {
    /// A new cell of this process.
    pub fn new(sharing: &Sharing) -> Result<Cell> {
        let range = sharing.signals()?.take(BYTES as u64, BYTES as u64).map_err(|error| {
            Error::new(Code::MemoryAllocation, format!("no shared page: {error}"))
        })?;
        let words = map(range.file(), range.offset())?;
        Ok(Cell { words, backing: Backing::Own(range), key: OnceLock::new() })
    }

    /// The cell that another process exported.
    pub fn open(sharing: &Sharing, key: Key, kind: SharedKind) -> Result<Cell> {
        let import = sharing.open(key, kind)?;
        let range = sharing.hold(&import)?.pop();
        let range = range.filter(|range| range.bytes() == BYTES as u64);
        let range = range.ok_or_else(|| Error::refused(format!("key {key} names no page")))?;
        let words = map(range.file(), range.offset())?;
        let cell =
            Cell { words, backing: Backing::Foreign { _range: range }, key: OnceLock::new() };
        let _ = cell.key.set(key);
        Ok(cell)
    }

    /// True if this process made it.
    pub fn is_own(&self) -> bool {
        matches!(self.backing, Backing::Own(_))
    }

    /// The process that made it; `None` before it was exported.
    pub fn key(&self) -> Option<Key> {
        self.key.get().copied()
    }

    /// The key under which other processes open it; the same each time.
    pub fn export(&self, sharing: &Sharing, kind: SharedKind, is_open: bool) -> Result<Key> {
        if let Some(key) = self.key.get() {
            return Ok(*key);
        }
        let Backing::Own(range) = &self.backing else {
            return Err(Error::refused("what another process made is not for this one to export"));
        };
        let extents = Export::one(range.offset(), BYTES as u64);
        let file = range.file().as_raw_fd();
        let key = sharing.export(&Export { kind, is_open, file, extents, device: 0, shift: 0 })?;
        match self.key.set(key) {
            Ok(()) => Ok(key),
            Err(_) => {
                sharing.close(key, kind)?;
                Ok(*self.key.get().unwrap_or(&key))
            }
        }
    }

    /// Ends its key, if this process made one.
    pub fn close(&self, sharing: &Sharing, kind: SharedKind) {
        if self.is_own()
            && let Some(key) = self.key.get()
            && let Err(error) = sharing.close(*key, kind)
        {
            log::debug!("{}", error.text);
        }
    }

    /// A word, by number.
    ///
    /// # Panics
    /// If the page has no such word.
    pub fn word(&self, number: usize) -> &AtomicU64 {
        assert!(number < BYTES / 8, "word {number} of a page");
        // SAFETY: the page is mapped until drop, and any bytes are a value of a word.
        unsafe { self.words.add(number).as_ref() }
    }
}

impl Drop for Cell {
    fn drop(&mut self) {
        // SAFETY: mapped by `map`; no reference outlives the cell.
        let _ = unsafe { munmap(self.words.as_ptr().cast(), BYTES) };
    }
}
