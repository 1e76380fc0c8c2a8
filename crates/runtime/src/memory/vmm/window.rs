//! The addresses of virtual memory: reserved, backed and given back by the kernel.

use crate::memory::protected;
use crate::memory::ranges::Ranges;
use crate::memory::system_limits::explain_error;
use rustix::fd::BorrowedFd;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous, munmap};
use std::ffi::c_void;
use std::io;
use std::ops::Range;

/// Reservations lie here, as on devices.
pub const WINDOW: Range<usize> = 16 << 40..24 << 40;
/// Pieces begin at multiples of this.
pub const PAGE: u64 = 2 << 20;
/// Where the bytes lie if the addresses are protected: this much further on.
const DISTANCE: usize = 8 << 40;

/// The window of addresses, and which parts of it tasks may touch.
///
/// ```text
///  16 TiB                                                          24 TiB
///   │   ┌── reservation ───────────────┐     ┌── reservation ──┐     │
///   │   │ piece │ piece │ no access    │     │   │ piece │     │     │
///       └── run ────────┘                        └─ run ─┘
/// ```
///
/// A run is what `runs` has: neighbouring pieces of one reservation and one owner, as one allocation, because a tensor
/// may lie across them.
///
/// **Threads.** Lookups in `runs` take no lock; whoever calls the rest holds the lock of the tables.
pub struct Window {
    /// Runs, by offset from the start of the window; the tag is the owner's.
    pub runs: Ranges,
    is_protected: bool,
}

impl Window {
    /// Nothing is reserved yet. With `is_protected` programs cannot touch memory of devices here.
    pub fn new(is_protected: bool) -> io::Result<Window> {
        let runs = Ranges::with_granule((WINDOW.end - WINDOW.start) as u64, PAGE)?;
        if is_protected && !protected::add(WINDOW.start, WINDOW.end - WINDOW.start, DISTANCE) {
            return Err(io::Error::other("too many ranges of protected memory"));
        }
        Ok(Window { runs, is_protected })
    }

    /// Reserves addresses. False if something is there already.
    pub fn reserve(&self, start: usize, bytes: u64) -> io::Result<bool> {
        for (number, at) in self.places(start).enumerate() {
            match no_access(at, bytes, MapFlags::FIXED_NOREPLACE) {
                Ok(got) if got == at => {}
                outcome => {
                    if let Ok(elsewhere) = outcome {
                        unmap(elsewhere, bytes);
                    }
                    if number > 0 {
                        unmap(start, bytes);
                    }
                    return match outcome {
                        Err(error) if error.raw_os_error() != Some(libc::EEXIST) => Err(error),
                        _ => Ok(false),
                    };
                }
            }
        }
        Ok(true)
    }

    /// Gives addresses back.
    pub fn release(&self, start: usize, bytes: u64) {
        self.places(start).for_each(|at| unmap(at, bytes));
    }

    /// Puts bytes of a file at reserved addresses, in the place of what is there. `is_device`: they are a device's.
    pub fn back(
        &self,
        start: usize,
        bytes: u64,
        (file, offset): (BorrowedFd<'_>, u64),
        is_device: bool,
    ) -> io::Result<()> {
        let skipped = usize::from(self.is_protected && is_device);
        let mut places = self.places(start).skip(skipped);
        places.try_for_each(|at| back_at(at, bytes, (file, offset)))
    }

    /// Takes the bytes away; the addresses stay reserved.
    pub fn clear(&self, start: usize, bytes: u64) -> io::Result<()> {
        for at in self.places(start) {
            no_access(at, bytes, MapFlags::FIXED)
                .map_err(|error| explain_error(error, "unmapping memory", bytes))?;
        }
        Ok(())
    }

    /// The address, and where its byte is if it is protected.
    fn places(&self, start: usize) -> impl Iterator<Item = usize> + use<> {
        [Some(start), self.is_protected.then_some(start + DISTANCE)].into_iter().flatten()
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        if self.is_protected {
            protected::remove(WINDOW.start);
        }
    }
}

/// Addresses, of the kernel's choice, at which bytes are mapped once more: for one task, which finds others at their own
/// addresses. They are given back with the drop.
pub struct Alias {
    /// What they stand for.
    range: Range<usize>,
    start: usize,
}

impl Alias {
    /// Addresses that stand for a range; nothing is there yet.
    pub fn new(range: Range<usize>) -> io::Result<Alias> {
        let start = no_access(0, (range.end - range.start) as u64, MapFlags::empty())
            .map_err(|error| explain_error(error, "mapping memory", range.len() as u64))?;
        Ok(Alias { range, start })
    }

    /// Puts bytes of a file where they stand for those at an address of the range.
    pub fn back(&self, at: usize, bytes: u64, file: (BorrowedFd<'_>, u64)) -> io::Result<()> {
        let inside = self.range.contains(&at) && bytes <= (self.range.end - at) as u64;
        assert!(inside, "{bytes} bytes at {at:#x} are not inside {:?}", self.range);
        back_at(self.start + (at - self.range.start), bytes, file)
    }

    /// Where the byte at an address is, if it is one of the range.
    pub fn place(&self, address: usize) -> Option<usize> {
        self.range.contains(&address).then(|| self.start + (address - self.range.start))
    }
}

impl Drop for Alias {
    fn drop(&mut self) {
        unmap(self.start, self.range.len() as u64);
    }
}

/// Puts bytes of a file at addresses that are reserved here.
fn back_at(at: usize, bytes: u64, (file, offset): (BorrowedFd<'_>, u64)) -> io::Result<()> {
    let (access, flags) = (
        ProtFlags::READ | ProtFlags::WRITE,
        MapFlags::SHARED | MapFlags::FIXED | MapFlags::NORESERVE,
    );
    // SAFETY: the addresses are reserved, so no memory of anybody else is there.
    let mapped = unsafe { mmap(pointer(at), bytes as usize, access, flags, file, offset) };
    mapped.map_err(|error| explain_error(error.into(), "mapping memory", bytes))?;
    advise(at, bytes);
    // SAFETY: as above. Where shared memory has no huge pages small ones are as good.
    let _ = unsafe { madvise(pointer(at), bytes as usize, Advice::LinuxHugepage) };
    Ok(())
}

fn pointer(address: usize) -> *mut c_void {
    std::ptr::with_exposed_provenance_mut(address)
}

/// Addresses that nobody can touch.
fn no_access(at: usize, bytes: u64, flags: MapFlags) -> io::Result<usize> {
    let flags = flags | MapFlags::PRIVATE | MapFlags::NORESERVE;
    // SAFETY: either nothing is replaced, or addresses that are reserved here.
    let got = unsafe { mmap_anonymous(pointer(at), bytes as usize, ProtFlags::empty(), flags)? };
    advise(got as usize, bytes);
    Ok(got as usize)
}

/// Children of `fork` do not have the range, and core dumps leave it out.
fn advise(at: usize, bytes: u64) {
    for advice in [Advice::LinuxDontFork, Advice::LinuxDontDump] {
        // SAFETY: the range was mapped just now; no contents change.
        if let Err(error) = unsafe { madvise(pointer(at), bytes as usize, advice) } {
            log::debug!("{bytes} bytes at {at:#x}: {error}");
        }
    }
}

fn unmap(at: usize, bytes: u64) {
    // SAFETY: the range is reserved here, and whoever releases it vouches that nobody uses it.
    if let Err(error) = unsafe { munmap(pointer(at), bytes as usize) } {
        log::warn!("{bytes} bytes of addresses at {at:#x} stay reserved: {error}");
    }
}

/// Where the last mapping of the process that overlaps the range ends; `None` if none does. Slow.
pub fn obstacle(range: &Range<usize>) -> Option<usize> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let number = |text| usize::from_str_radix(text, 16).ok();
    let ends = maps.lines().filter_map(|line| {
        let (start, end) = line.split_once(' ')?.0.split_once('-')?;
        let (start, end) = (number(start)?, number(end)?);
        (start < range.end && range.start < end).then_some(end)
    });
    ends.max()
}
