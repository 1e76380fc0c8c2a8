//! Where bytes come from: one reserved address range, made usable from its start as it is needed.

use std::io;
use std::path::Path;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicU64, Ordering::*};

use super::protected;
use crate::record::event::MemoryKind;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::mm::{
    Advice, MapFlags, MprotectFlags, ProtFlags, madvise, mmap, mmap_anonymous, mprotect, munmap,
};
use rustix::process::{Resource, getrlimit};

/// Bytes become usable in multiples of this, the size of a huge page.
pub const STEP: u64 = 2 << 20;

/// [`Source::reserve`] fails if it gets less than this (or less than requested, if that is smaller).
pub const MIN_RESERVED: u64 = 64 << 20;

const GIB: u64 = 1 << 30;

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
    file: Option<OwnedFd>,
    /// Where the bytes are, if the addresses are protected.
    bytes: Option<NonNull<u8>>,
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
            Backing::File => file = Some(back_by_file(base, size)?),
            Backing::Protected => {
                let elsewhere = reserve_range(size)?;
                let distance = elsewhere.as_ptr().addr().wrapping_sub(base.as_ptr().addr());
                if !protected::add(base.as_ptr().addr(), size as usize, distance) {
                    return Err(io::Error::other("too many ranges of protected memory"));
                }
                bytes = Some(elsewhere);
            }
        }
        let source = Source { base, reserved: size, committed: AtomicU64::new(0), file, bytes };
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
        self.advise(start, end.saturating_sub(start), Advice::LinuxHugepage)
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
        // Pages of a file are freed only by removing them from the file.
        let advice = if self.file.is_some() { Advice::LinuxRemove } else { Advice::LinuxDontNeed };
        self.advise(start, end - start, advice)
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

/// Explains "out of memory" of the kernel: whether the number of maps or the memory was the limit.
fn explain_error(error: io::Error, what: &str, bytes: u64) -> io::Error {
    if error.raw_os_error() != Some(libc::ENOMEM) {
        return error;
    }
    let maps =
        std::fs::read_to_string("/proc/self/maps").map_or(0, |text| text.lines().count() as u64);
    let limit = read(Path::new("/proc/sys/vm/max_map_count"))
        .and_then(|text| number(&text))
        .unwrap_or(u64::MAX);
    let reason = if maps.saturating_add(8) >= limit {
        format!("the process has {maps} memory maps, and vm.max_map_count is {limit}")
    } else {
        format!(
            "the kernel has no memory for it (overcommit or ulimit -d; {maps} of {limit} maps are in use)"
        )
    };
    io::Error::new(io::ErrorKind::OutOfMemory, format!("{what}, {bytes} bytes: {reason}"))
}

/// When the kernel uses huge pages for anonymous memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HugePages {
    /// Wherever it can.
    Always,
    /// Only where [`Source::advise_huge`] asked for them.
    Madvise,
    /// Nowhere.
    Never,
    /// The kernel does not say.
    Unknown,
}

/// The machine's setting, read anew with each call.
pub fn huge_page_mode() -> HugePages {
    read(Path::new("/sys/kernel/mm/transparent_hugepage/enabled"))
        .map_or(HugePages::Unknown, |text| parse_huge_pages(&text))
}

/// The word in brackets.
fn parse_huge_pages(text: &str) -> HugePages {
    match text.split(['[', ']']).nth(1) {
        Some("always") => HugePages::Always,
        Some("madvise") => HugePages::Madvise,
        Some("never") => HugePages::Never,
        _ => HugePages::Unknown,
    }
}

/// Bytes that this process may use from now on: the least of what the machine has available,
/// what each of its control groups (both versions, up to the root) has left, and `ulimit -v` and
/// `-d`. As in the kernel's own estimate, file pages that a group has not used lately count as
/// available. 1 GiB if the kernel says nothing. Reads some files: call it once.
///
/// Under `ulimit -v` a [`Source`] may have been granted less: the lesser of the two counts.
pub fn machine_available() -> u64 {
    machine_limit().bytes.min(process_limit())
}

/// What `ulimit -v` and `-d` leave to this process alone.
pub fn process_limit() -> u64 {
    limit(Resource::As).min(limit(Resource::Data))
}

/// The limit that this process meets first among those that it shares with other processes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedLimit {
    /// The same for all processes under it: the folder of a control group, or `machine`.
    pub name: String,
    /// Bytes that are left under it.
    pub bytes: u64,
}

/// The machine, or the control group with the least memory left, as [`machine_available`] sees it.
pub fn machine_limit() -> SharedLimit {
    tightest(&read)
}

fn limit(resource: Resource) -> u64 {
    getrlimit(resource).current.unwrap_or(u64::MAX)
}

/// The name of the limit that is the machine itself.
const MACHINE: &str = "machine";

type Read<'a> = &'a dyn Fn(&Path) -> Option<String>;

fn read(path: &Path) -> Option<String> {
    std::fs::read_to_string(path).ok()
}

/// The limit with the least left, of the machine and its control groups; `read` reads files.
fn tightest(read: Read) -> SharedLimit {
    let machine = read(Path::new("/proc/meminfo"))
        .and_then(|text| Some(field(&text, "MemAvailable:")? << 10));
    let machine = machine.map(|bytes| SharedLimit { name: MACHINE.into(), bytes });
    let groups = read(Path::new("/proc/self/cgroup")).unwrap_or_default();
    let groups = groups.lines().filter_map(|line| group_left(read, line));
    let limits = machine.into_iter().chain(groups);
    let none = SharedLimit { name: MACHINE.into(), bytes: GIB };
    limits.min_by_key(|limit| limit.bytes).unwrap_or(none)
}

/// The group with the least left among that of one line of `/proc/self/cgroup` and those above it.
fn group_left(read: Read, line: &str) -> Option<SharedLimit> {
    let mut parts = line.splitn(3, ':').skip(1);
    let (controllers, path) = (parts.next()?, parts.next()?.trim_start_matches('/'));
    let (root, limit, usage, cached) = match controllers {
        "" => ("/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"),
        list if list.split(',').any(|c| c == "memory") => (
            "/sys/fs/cgroup/memory",
            "memory.limit_in_bytes",
            "memory.usage_in_bytes",
            "total_inactive_file",
        ),
        _ => return None,
    };
    let left = |group: &Path| {
        let limit = number(&read(&group.join(limit))?)?;
        let used = number(&read(&group.join(usage))?)?;
        let cached =
            read(&group.join("memory.stat")).and_then(|text| field(&text, cached)).unwrap_or(0);
        let bytes = limit.saturating_sub(used.saturating_sub(cached));
        Some(SharedLimit { name: group.to_string_lossy().into_owned(), bytes })
    };
    let own_group = Path::new(root).join(path);
    let groups = own_group.ancestors().take_while(|group| group.starts_with(root));
    groups.filter_map(left).min_by_key(|limit| limit.bytes)
}

/// A file that is one number; `max`, which means no limit, is none.
fn number(text: &str) -> Option<u64> {
    text.trim().parse().ok()
}

/// The number after `key` in lines of "key number [unit]".
fn field(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let mut words = line.split_ascii_whitespace();
        (words.next()? == key).then(|| words.next()?.parse().ok())?
    })
}

#[cfg(test)]
mod tests {
    use super::*;
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

    #[test]
    fn out_of_memory_names_the_limit() {
        let error =
            explain_error(io::Error::from_raw_os_error(libc::ENOMEM), "making memory usable", 42);
        assert_eq!(error.kind(), io::ErrorKind::OutOfMemory);
        assert!(
            error
                .to_string()
                .starts_with("making memory usable, 42 bytes: the kernel has no memory"),
            "{error}"
        );
        assert_eq!(
            explain_error(io::Error::from_raw_os_error(libc::EINVAL), "x", 1).raw_os_error(),
            Some(libc::EINVAL)
        );
    }

    #[test]
    fn settings_are_parsed() {
        assert_eq!(parse_huge_pages("[always] madvise never\n"), HugePages::Always);
        assert_eq!(parse_huge_pages("always [madvise] never\n"), HugePages::Madvise);
        assert_eq!(parse_huge_pages("always madvise [never]\n"), HugePages::Never);
        assert_eq!(parse_huge_pages(""), HugePages::Unknown);
        assert_eq!((number("max\n"), number("12\n")), (None, Some(12)));
        assert_eq!(field("MemTotal: 9 kB\nMemAvailable:   5 kB\n", "MemAvailable:"), Some(5));
        assert_eq!(field("inactive_file_x 9\nx", "inactive_file"), None);
    }

    fn available_with(files: &[(&str, &str)]) -> u64 {
        tightest_with(files).bytes
    }

    fn tightest_with(files: &[(&str, &str)]) -> SharedLimit {
        tightest(&|path: &Path| {
            files.iter().find(|(name, _)| path == Path::new(name)).map(|(_, text)| text.to_string())
        })
    }

    #[test]
    fn the_tightest_limit_counts() {
        let meminfo = ("/proc/meminfo", "MemTotal: 2000 kB\nMemAvailable: 1000 kB\n");
        assert_eq!(available_with(&[]), GIB);
        assert_eq!(available_with(&[meminfo]), 1000 << 10);

        let second = [
            meminfo,
            ("/proc/self/cgroup", "0::/a/b\n"),
            ("/sys/fs/cgroup/a/b/memory.max", "max\n"),
            ("/sys/fs/cgroup/a/b/memory.current", "1\n"),
            ("/sys/fs/cgroup/a/memory.max", "9000\n"),
            ("/sys/fs/cgroup/a/memory.current", "5000\n"),
            ("/sys/fs/cgroup/a/memory.stat", "anon 3\ninactive_file 500\n"),
        ];
        assert_eq!(available_with(&second), 4500);
        assert_eq!(tightest_with(&second).name, "/sys/fs/cgroup/a");
        assert_eq!(tightest_with(&[meminfo]).name, MACHINE);

        let first = [
            meminfo,
            ("/proc/self/cgroup", "4:cpu:/x\n3:hugetlb,memory:/docker/7\n0::/\n"),
            ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "7000\n"),
            ("/sys/fs/cgroup/memory/memory.usage_in_bytes", "8000\n"),
        ];
        assert_eq!(available_with(&first), 0);
        assert!(machine_available() > 0);
    }
}
