//! A page of words that several processes map.

use super::process::{find_open, has_open, is_alive};
use crate::error::{Code, Error, Result};
use crate::memory::sharing::{Export, Key, KeyEnd, SIGNALS, SharedKind, Sharing};
use crate::memory::system_limits::explain_error;
use crate::memory::vmm::{FileRange, ForeignRange};
use rustix::fd::{AsRawFd, BorrowedFd};
use rustix::fs::fstat;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};
use std::ptr::NonNull;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Bytes of a cell: a page, so that each process maps just this one.
pub const BYTES: usize = 4096;

/// A page of words in a memory file, mapped here. It is zero when it is made; it lives as long as a process has it.
///
/// **Threads.** Any; only atomics touch it.
pub struct Cell {
    words: NonNull<AtomicU64>,
    backing: Backing,
    key: OnceLock<Key>,
    /// Which file the page lies in.
    file: (u64, u64),
    /// The process that was last seen to have the file open, and the descriptor there.
    seen: AtomicU64,
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

/// Maps a page of a file; the page, and which file it is.
fn map(file: BorrowedFd<'_>, offset: u64) -> Result<(NonNull<AtomicU64>, (u64, u64))> {
    let stat = fstat(file).map_err(|error| {
        Error::new(Code::MemoryAllocation, format!("a shared page cannot be found: {error}"))
    })?;
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping at an address of the kernel's choice overlaps nothing.
    let start =
        unsafe { mmap(std::ptr::null_mut(), BYTES, access, MapFlags::SHARED, file, offset) };
    let start = start.map_err(|error| {
        let error = explain_error(error.into(), "mapping a shared page", BYTES as u64);
        Error::new(Code::MemoryAllocation, error.to_string())
    })?;
    // SAFETY: mapped just now; no contents change.
    let _ = unsafe { madvise(start, BYTES, Advice::LinuxDontFork) };
    let words = NonNull::new(start.cast())
        .ok_or_else(|| Error::new(Code::MemoryAllocation, "a shared page has no address"))?;
    Ok((words, (stat.st_dev, stat.st_ino)))
}

impl Cell {
    /// A new cell of this process.
    pub fn new(sharing: &Sharing) -> Result<Cell> {
        let range = sharing.signals()?.take(BYTES as u64, BYTES as u64).map_err(|error| {
            Error::new(Code::MemoryAllocation, format!("no shared page: {error}"))
        })?;
        let mapped = map(range.file(), range.offset())?;
        Ok(Cell::of(mapped, Backing::Own(range)))
    }

    /// The cell that another process exported.
    pub fn open(sharing: &Sharing, key: Key, kind: SharedKind) -> Result<Cell> {
        let import = sharing.open(key, kind)?;
        let range = sharing.hold(&import)?.pop();
        let range = range.filter(|range| range.bytes() == BYTES as u64);
        let range = range.ok_or_else(|| Error::refused(format!("key {key} names no page")))?;
        let mapped = map(range.file(), range.offset())?;
        let cell = Cell::of(mapped, Backing::Foreign { _range: range });
        let _ = cell.key.set(key);
        Ok(cell)
    }

    fn of((words, file): (NonNull<AtomicU64>, (u64, u64)), backing: Backing) -> Cell {
        Cell { words, backing, key: OnceLock::new(), file, seen: AtomicU64::new(0) }
    }

    /// True while a process has the cell, or another one of the same file: one that has ended has not, nor one that goes on as
    /// another program, nor a later one of its number. Costs a system call or two while that is so.
    pub fn is_used_by(&self, pid: u32) -> bool {
        let seen = self.seen.load(Relaxed);
        if (seen >> 32) as u32 == pid && has_open(pid, seen as u32, self.file) {
            return true;
        }
        match find_open(pid, SIGNALS, self.file) {
            Ok(Some(descriptor)) => {
                self.seen.store(u64::from(pid) << 32 | u64::from(descriptor), Relaxed);
                true
            }
            Ok(None) => false,
            Err(_) => is_alive(pid),
        }
    }

    /// True if this process made it.
    pub fn is_own(&self) -> bool {
        matches!(self.backing, Backing::Own(_))
    }

    /// The process that made it; `None` before it was exported.
    pub fn key(&self) -> Option<Key> {
        self.key.get().copied()
    }

    /// The key under which other processes open it; the same each time. Who may open it is as the last call says.
    pub fn export(&self, sharing: &Sharing, kind: SharedKind, is_open: bool) -> Result<Key> {
        if let Some(&key) = self.key.get() {
            if self.is_own() {
                sharing.set_open(key, kind, is_open)?;
            }
            return Ok(key);
        }
        let Backing::Own(range) = &self.backing else {
            return Err(Error::refused("what another process made is not for this one to export"));
        };
        let extents = vec![(range.offset(), BYTES as u64)];
        let file = range.file().as_raw_fd();
        let key = sharing.export(&Export { kind, is_open, file, extents, device: 0, shift: 0 })?;
        match self.key.set(key) {
            Ok(()) => Ok(key),
            Err(_) => {
                sharing.close(key, kind, KeyEnd::Closed)?;
                Ok(*self.key.get().unwrap_or(&key))
            }
        }
    }

    /// Ends its key, if this process made one.
    pub fn close(&self, sharing: &Sharing, kind: SharedKind) {
        if self.is_own()
            && let Some(key) = self.key.get()
            && let Err(error) = sharing.close(*key, kind, KeyEnd::Closed)
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
