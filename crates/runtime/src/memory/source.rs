//! Where bytes come from: one reserved address range, made usable from its start as it is needed.

use crate::sync::Arc;
use std::io;
use std::ops::Range;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicU64, Ordering::*};

use super::advised_pages::AdvisedPages;
use super::moved_pages::MovedPages;
use super::process_file::ProcessFile;
use super::protected;
use super::relocation::move_to_file;
use super::shared_pages::SharedPages;
use super::system_limits::{explain_error, limit, max_maps};
use super::vmm::Store;
use crate::record::event::MemoryKind;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::mm::{
    Advice, MapFlags, MprotectFlags, ProtFlags, madvise, mmap, mmap_anonymous, mprotect, munmap,
};
use rustix::process::Resource;

use moving::RemapCall;

/// Bytes become usable in multiples of this, the size of a huge page.
pub const STEP: u64 = 2 << 20;

/// [`Source::reserve`] fails if it gets less than this (or less than requested, if that is smaller).
pub const MIN_RESERVED: u64 = 64 << 20;

const GIB: u64 = 1 << 30;

mod moving;

/// A contiguous range of addresses that belongs to this process for as long as the source lives.
///
/// ```text
/// base                 committed                             reserved
///  |  readable, writable  |   no access: a stray pointer faults  |
///  |----- grow_to ------->|
/// ```
///
/// Reserving costs address space only; memory is used when first touched, and given back by
/// `release`. A child of `fork` does not have the range, and core dumps leave it out. The base is
/// a multiple of 2 MiB, and of 1 GiB if the range is at least that long.
///
/// **Threads.** Any, at any time. **Cost.** A system call in everything but the three getters.
#[derive(Debug)]
pub struct Source {
    base: NonNull<u8>,
    reserved: u64,
    committed: AtomicU64,
    file: Option<ProcessFile>,
    /// Where the bytes are, if the addresses are protected.
    bytes: Option<NonNull<u8>>,
    /// What was moved into memory files, to be shared with other processes.
    shared: SharedPages,
    /// What was moved from elsewhere in the source.
    moved: MovedPages,
    /// Where huge pages were asked for.
    advised: AdvisedPages,
    /// How the kernel is asked to move pages; tests have it refuse.
    remap: RemapCall,
}

/// What backs the addresses of a [`Source`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backing {
    /// Private pages, huge ones where the system gives them. Nobody else can map them.
    Anonymous,
    /// A memory file, which can be mapped a second time, here or in another process. Its pages are small unless the
    /// administrator allows huge ones in shared memory, which few do: first use costs several times as much, and
    /// scattered reads up to twice.
    File,
    /// Private pages at other addresses: those of the source can never be touched ([`super::protected`]).
    Protected,
}

impl Backing {
    /// The backing of memory of this kind: the one place that decides it. A kind that has to be mapped twice or
    /// shared from the start gets a file; what is shared later is moved into one then.
    pub fn of(kind: MemoryKind, is_protected: bool) -> Backing {
        match kind {
            MemoryKind::Device(_) if is_protected => Backing::Protected,
            MemoryKind::Mapped { .. } => Backing::File,
            MemoryKind::Device(_)
            | MemoryKind::Pinned
            | MemoryKind::Registered
            | MemoryKind::PoolSegment { .. }
            | MemoryKind::PoolBlock { .. }
            | MemoryKind::External { .. } => Backing::Anonymous,
        }
    }
}

/// Puts a memory file of `size` bytes behind a reserved range.
fn back_by_file(base: NonNull<u8>, size: u64) -> io::Result<OwnedFd> {
    let file = memfd_create("cairn", MemfdFlags::CLOEXEC)?;
    ftruncate(&file, size)?;
    let flags = MapFlags::SHARED | MapFlags::NORESERVE | MapFlags::FIXED;
    // SAFETY: the range was reserved just now and is nobody else's; the new mapping takes its place.
    unsafe { mmap(base.as_ptr().cast(), size as usize, ProtFlags::empty(), flags, &file, 0)? };
    Ok(file)
}

/// Reserves addresses without access, aligned to a huge page, or to 1 GiB if there are as many.
fn reserve_range(size: u64) -> io::Result<NonNull<u8>> {
    let align = if size >= GIB { GIB } else { STEP };
    let padded = size
        .checked_add(align)
        .and_then(|w| usize::try_from(w).ok())
        .ok_or(io::ErrorKind::OutOfMemory)?;
    // SAFETY: a new anonymous mapping at an address of the kernel's choice overlaps nothing.
    let start = unsafe {
        mmap_anonymous(
            null_mut(),
            padded,
            ProtFlags::empty(),
            MapFlags::PRIVATE | MapFlags::NORESERVE,
        )?
    };
    let leading = start.align_offset(align as usize);
    let base = start.wrapping_byte_add(leading);
    // SAFETY: both ends lie in the mapping made above, outside of the part that is kept.
    unsafe {
        if leading > 0 {
            munmap(start, leading)?;
        }
        munmap(base.wrapping_byte_add(size as usize), padded - leading - size as usize)?;
    }
    Ok(NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?)
}

// SAFETY: the address range belongs to the source; its methods only talk to the kernel about it.
unsafe impl Send for Source {}
// SAFETY: as above; `committed` is atomic, and growing twice to the same end is harmless.
unsafe impl Sync for Source {}

impl Source {
    /// Reserves `bytes` (rounded up to 2 MiB) of addresses; under `ulimit -v` at most a sixth of that
    /// limit, if that is [`MIN_RESERVED`]: the heap, whose end is the end of the process, and stacks need
    /// addresses too. Where the kernel refuses, it asks for half, and so on down to [`MIN_RESERVED`]; and then
    /// takes half of what was granted. See [`reserved`](Self::reserved).
    pub fn reserve(bytes: u64, backing: Backing) -> io::Result<Source> {
        let round =
            |bytes: u64| bytes.max(1).checked_next_multiple_of(STEP).unwrap_or(u64::MAX - STEP + 1);
        let max_share = limit(Resource::As) / 6 / STEP * STEP;
        let requested = round(bytes).min(max_share.max(MIN_RESERVED));
        let mut size = requested;
        loop {
            match Self::reserve_exactly(size, backing) {
                Ok(source) if size == requested || size / 2 < MIN_RESERVED => return Ok(source),
                Ok(source) => {
                    drop(source);
                    return Self::reserve_exactly(round(size / 2), backing);
                }
                Err(error) if size / 2 < MIN_RESERVED => {
                    let text = format!(
                        "cannot reserve {requested} bytes of addresses, nor {size}: {error} (ulimit -v?)"
                    );
                    return Err(io::Error::new(error.kind(), text));
                }
                Err(_) => size = round(size / 2),
            }
        }
    }

    fn reserve_exactly(size: u64, backing: Backing) -> io::Result<Source> {
        let base = reserve_range(size)?;
        let (mut file, mut bytes) = (None, None);
        match backing {
            Backing::Anonymous => {}
            Backing::File => file = Some(ProcessFile::new(back_by_file(base, size)?)),
            Backing::Protected => {
                let elsewhere = reserve_range(size)?;
                let distance = elsewhere.as_ptr().addr().wrapping_sub(base.as_ptr().addr());
                if !protected::add(base.as_ptr().addr(), size as usize, distance) {
                    return Err(io::Error::other("too many ranges of protected memory"));
                }
                bytes = Some(elsewhere);
            }
        }
        let (committed, shared) = (AtomicU64::new(0), SharedPages::default());
        let (moved, advised) = (MovedPages::new(max_maps()), AdvisedPages::default());
        let (reserved, remap) = (size, moving::remap as RemapCall);
        let source =
            Source { base, reserved, committed, file, bytes, shared, moved, advised, remap };
        source.advise(0, size, Advice::LinuxDontFork)?;
        source.advise(0, size, Advice::LinuxDontDump)?;
        Ok(source)
    }

    /// The address of the first byte.
    pub fn base(&self) -> usize {
        self.base.as_ptr().addr()
    }

    /// Bytes of addresses, a multiple of 2 MiB; may be less than was asked for.
    pub fn reserved(&self) -> u64 {
        self.reserved
    }

    /// Bytes from the base on that can be read and written.
    pub fn committed(&self) -> u64 {
        self.committed.load(Acquire)
    }

    /// The file that backs the addresses, offset for offset; `None` where there is none.
    pub fn file(&self) -> Option<BorrowedFd<'_>> {
        self.file.as_ref().map(AsFd::as_fd)
    }

    /// Makes the first `bytes` (rounded up to 2 MiB) readable and writable; never shrinks. On failure
    /// nothing changes, and the error says which limit was met.
    pub fn grow_to(&self, bytes: u64) -> io::Result<()> {
        let Some(end) = bytes.checked_next_multiple_of(STEP).filter(|&end| end <= self.reserved)
        else {
            let text = format!("{bytes} bytes do not fit in the {} reserved", self.reserved);
            return Err(io::Error::new(io::ErrorKind::OutOfMemory, text));
        };
        let start = self.committed();
        if end <= start {
            return Ok(());
        }
        let flags = MprotectFlags::READ | MprotectFlags::WRITE;
        // SAFETY: start..end lies in the reserved range; no access is taken from anyone.
        unsafe { mprotect(self.pointer(start), (end - start) as usize, flags) }
            .map_err(|error| explain_error(error.into(), "making memory usable", end - start))?;
        self.committed.fetch_max(end, AcqRel);
        Ok(())
    }

    /// Asks for huge pages in `offset..offset + len`, widened to whole pages. Fails where the kernel
    /// has none, or where the range is outside of the reserved one.
    pub fn advise_huge(&self, offset: u64, len: u64) -> io::Result<()> {
        let page = rustix::param::page_size() as u64;
        let start = offset / page * page;
        let end = offset.checked_add(len).map_or(u64::MAX, |end| end.next_multiple_of(page));
        self.advise(start, end.saturating_sub(start), Advice::LinuxHugepage)?;
        self.advised.add(start..end);
        Ok(())
    }

    /// Gives the memory of all whole pages inside `offset..offset + len` back to the machine; they
    /// stay usable and read as zero. No block may lie there.
    pub fn release(&self, offset: u64, len: u64) -> io::Result<()> {
        let page = rustix::param::page_size() as u64;
        let start = offset.checked_next_multiple_of(page).unwrap_or(u64::MAX);
        let end = offset.saturating_add(len) / page * page;
        if start >= end {
            return Ok(());
        }
        self.restore(start..end);
        if self.moved.overlaps(&(start..end)) && self.renew(start..end).is_ok() {
            return Ok(());
        }
        // Pages of a file are freed only by removing them from the file.
        let advice = if self.file.is_some() { Advice::LinuxRemove } else { Advice::LinuxDontNeed };
        self.advise(start, end - start, advice)
    }

    /// Puts ordinary pages in the place of those that were moved into a memory file for a key that is closed, as far as whole
    /// ones lie in `range`: then the kernel joins their maps with their neighbours'. No block may lie there.
    pub fn restore(&self, range: Range<u64>) {
        let page = rustix::param::page_size() as u64;
        let whole = range.start.next_multiple_of(page)..range.end / page * page;
        if whole.start >= whole.end || !self.shared.overlaps(&whole) {
            return;
        }
        let put = |offset, bytes| self.put_new_pages(offset..offset + bytes);
        if let Err(error) = self.shared.restore(&whole, put) {
            log::debug!("free memory stays in a memory file: {error}");
        }
    }

    /// True if any of these pages lies in a memory file, where it was moved to be shared.
    pub fn has_shared(&self, range: &Range<u64>) -> bool {
        self.shared.overlaps(range)
    }

    /// Puts new pages, which read as zero, in the place of pages that were moved there: then the kernel can merge their maps.
    fn renew(&self, range: Range<u64>) -> io::Result<()> {
        if self.file.is_some() || range.end > self.committed() || self.shared.overlaps(&range) {
            return Err(io::ErrorKind::Unsupported.into());
        }
        self.put_new_pages(range)
    }

    /// The same wherever nobody uses the range, which is usable memory that no file backs.
    fn put_new_pages(&self, range: Range<u64>) -> io::Result<()> {
        let (access, bytes) = (ProtFlags::READ | ProtFlags::WRITE, range.end - range.start);
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED;
        // SAFETY: the range is usable memory of this source, in which nobody has anything.
        unsafe { mmap_anonymous(self.pointer(range.start), bytes as usize, access, flags)? };
        self.advise_new_pages(range)
    }

    /// Makes new pages like those around them.
    fn advise_new_pages(&self, range: Range<u64>) -> io::Result<()> {
        let bytes = range.end - range.start;
        self.moved.remove(&range);
        self.advise(range.start, bytes, Advice::LinuxDontFork)?;
        self.advise(range.start, bytes, Advice::LinuxDontDump)?;
        for part in self.advised.parts(&range) {
            self.advise(part.start, part.end - part.start, Advice::LinuxHugepage)?;
        }
        Ok(())
    }

    /// Moves the whole pages of `range` into a memory file, as far as they are not in one, and says where they lie; one
    /// more key counts on it. Whoever uses them goes on meanwhile.
    pub fn share(&self, range: Range<u64>, store: &Arc<Store>) -> io::Result<Vec<(u64, u64)>> {
        if range.end > self.committed() {
            return Err(io::Error::other("no memory is there"));
        }
        self.shared.share(range, store, |offset, bytes, target, shift| {
            let (address, to) = (self.pointer(offset) as usize, target.offset() + shift);
            // SAFETY: committed memory of this source, which never unmaps it; the file range is kept by `shared`.
            unsafe { move_to_file(address, bytes as usize, target.file(), to) }
        })
    }

    /// One key fewer counts on these pages being where they are.
    pub fn unshare(&self, range: Range<u64>) {
        self.shared.unshare(range);
    }

    fn advise(&self, offset: u64, len: u64, advice: Advice) -> io::Result<()> {
        if offset.checked_add(len).is_none_or(|end| end > self.reserved) {
            let text = format!(
                "{len} bytes at offset {offset} are not inside the {} reserved",
                self.reserved
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        // SAFETY: the bytes are inside our range, and no Rust reference points there.
        unsafe { madvise(self.pointer(offset), len as usize, advice) }
            .map_err(|error| explain_error(error.into(), "advising the kernel", len))
    }

    /// Where the byte at an offset is.
    fn pointer(&self, offset: u64) -> *mut std::ffi::c_void {
        self.bytes.unwrap_or(self.base).as_ptr().wrapping_add(offset as usize).cast()
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        if self.bytes.is_some() {
            protected::remove(self.base());
        }
        for range in [Some(self.base), self.bytes].into_iter().flatten() {
            // SAFETY: the range was mapped by `reserve_range`; whoever drops it vouches that nobody uses it.
            let _ = unsafe { munmap(range.as_ptr().cast(), self.reserved as usize) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::system_limits::{HugePages, huge_page_mode, machine_available};
    use std::process::Command;

    const MIB: u64 = 1 << 20;

    fn poke(source: &Source, offset: u64, value: u8) {
        assert!(offset < source.committed());
        // SAFETY: committed memory of a source that only this test knows.
        unsafe { source.pointer(offset).cast::<u8>().write_volatile(value) }
    }

    fn peek(source: &Source, offset: u64) -> u8 {
        assert!(offset < source.committed());
        // SAFETY: as above.
        unsafe { source.pointer(offset).cast::<u8>().read_volatile() }
    }

    #[test]
    fn grows_releases_and_refuses() {
        for backing in [Backing::Anonymous, Backing::File] {
            grows_releases_and_refuses_on(backing);
        }
    }

    fn grows_releases_and_refuses_on(backing: Backing) {
        let source = Source::reserve(100 * MIB - 1, backing).unwrap();
        assert_eq!(
            (source.reserved(), source.committed(), source.base() as u64 % STEP),
            (100 * MIB, 0, 0)
        );
        source.grow_to(1).unwrap();
        assert_eq!(source.committed(), STEP);
        source.grow_to(100 * MIB).unwrap();
        source.grow_to(5).unwrap();
        assert_eq!(source.committed(), 100 * MIB);
        for offset in [0, 4096, 8192, 100 * MIB - 1] {
            poke(&source, offset, 7);
        }
        source.release(1, 3 * 4096 - 2).unwrap();
        assert_eq!(
            [0, 4096, 8192, 100 * MIB - 1].map(|offset| peek(&source, offset)),
            [7, 0, 7, 7]
        );
        source.release(1, 4096).unwrap();
        assert_eq!(peek(&source, 0), 7);

        let error = source.grow_to(100 * MIB + 1).unwrap_err();
        assert!(error.to_string().contains("104857600 reserved"), "{error}");
        assert!(source.grow_to(u64::MAX).is_err());
        assert!(source.release(99 * MIB, 2 * MIB).is_err());
        assert!(source.release(u64::MAX - 9, 9).is_ok());
        assert!(source.advise_huge(4, u64::MAX).is_err());
        if huge_page_mode() != HugePages::Unknown {
            source.advise_huge(3 * MIB, 2 * MIB).unwrap();
        }
    }

    #[test]
    fn a_file_shows_the_same_bytes_in_a_second_mapping() {
        let source = Source::reserve(4 * MIB, Backing::File).unwrap();
        source.grow_to(4 * MIB).unwrap();
        poke(&source, 3 * MIB, 9);
        let mut bytes = [0u8; 2];
        let read = rustix::io::pread(source.file().unwrap(), &mut bytes, 3 * MIB).unwrap();
        assert_eq!((read, bytes), (2, [9, 0]));
        source.release(0, 4 * MIB).unwrap();
        rustix::io::pread(source.file().unwrap(), &mut bytes, 3 * MIB).unwrap();
        assert_eq!((bytes, peek(&source, 3 * MIB)), ([0, 0], 0));
        assert!(Source::reserve(4 * MIB, Backing::Anonymous).unwrap().file().is_none());
    }

    #[test]
    fn is_not_in_children_and_core_dumps() {
        let source = Source::reserve(2 * GIB, Backing::Anonymous).unwrap();
        assert_eq!(source.base() as u64 % GIB, 0);
        source.grow_to(STEP).unwrap();
        let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let area = smaps.split_once(&format!("{:x}-", source.base())).expect("a map at the base").1;
        let flags = area.lines().find(|line| line.starts_with("VmFlags:")).unwrap();
        assert!(flags.contains(" dc") && flags.contains(" dd") && flags.contains(" nr"), "{flags}");
    }

    #[test]
    fn reserves_less_under_a_limit() {
        let program = std::env::current_exe().unwrap();
        let script = "ulimit -v 4194304; exec \"$0\" --ignored --exact --nocapture \"$1\"";
        let test = format!("{}::under_a_limit", module_path!().split_once("::").unwrap().1);
        let output =
            Command::new("sh").args(["-c", script]).arg(program).arg(test).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains("1 passed"), "{text}");
    }

    #[test]
    #[ignore = "run by reserves_less_under_a_limit"]
    fn under_a_limit() {
        let source = Source::reserve(512 * GIB, Backing::Anonymous).unwrap();
        assert!((MIN_RESERVED..=4 * GIB / 6).contains(&source.reserved()), "{}", source.reserved());
        source.grow_to(source.reserved()).unwrap();
        assert!(machine_available() <= 4 * GIB);
        let _rest = Source::reserve(256 * MIB, Backing::Anonymous).unwrap();
        let error = Source::reserve(u64::MAX, Backing::Anonymous);
        assert!(error.is_ok_and(|source| source.reserved() < 4 * GIB));
    }
}
