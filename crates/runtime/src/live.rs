//! Live figures: what each process holds on each device, readable from outside.
//!
//! A process that opens a device keeps one page in a file named after its process id. It stores
//! figures there with plain relaxed stores; `npu-smi` reads the files of all processes of the same
//! user. Nothing waits for anything, and nothing here can fail a program: without a page the
//! figures are simply not shown.
//!
//! ```text
//! $XDG_RUNTIME_DIR/cairn/4711      (or /tmp/cairn-1000/4711)
//!
//!    0  magic  version  pid  start time  pid namespace  devices
//!   48  command name
//!  128  device 0: capacity  used  waiting  streams  active
//!  192  device 1: ...
//! 1152  claimed  limit id  max total  communicators: bytes claimed under a limit that is shared with other processes, the id of
//!       the limit, and what all claims under it may reach together (memory/claims.rs); communicators that it has joined
//! 4096  what the process says of streams, pools, allocators and communicators when somebody asks (details.rs)
//! ```
//!
//! The folder must be ours, private (0700) and no link; a file that outlived its process is recognised by
//! the start time that it carries, and whoever reads it removes it.

pub mod details;

use std::{
    ffi::OsStr,
    fs, io,
    os::fd::{AsFd, OwnedFd},
    path::{Path, PathBuf},
    ptr::NonNull,
    sync::atomic::{
        AtomicU32, AtomicU64,
        Ordering::{Relaxed, SeqCst},
    },
};

use rustix::{
    fs::{AtFlags, CWD, Mode, OFlags},
    io::Errno,
    mm::{MapFlags, ProtFlags},
    process::{geteuid, getpid},
};

/// The most devices that a page has room for.
pub const MAX_DEVICES: usize = 16;

const MAGIC: u64 = u64::from_le_bytes(*b"CAIRNLIV");
const VERSION: u64 = 3;
const PAGE: usize = 4096;
/// The page, and what `details.rs` keeps after it.
const FILE: usize = 5 * PAGE;
const NAME_AT: usize = 48;
const NAME_LEN: usize = 64;
const DEVICES_AT: usize = 128;
const DEVICE_LEN: usize = 64;
const CLAIM_AT: usize = DEVICES_AT + MAX_DEVICES * DEVICE_LEN;
const LIMIT_ID_AT: usize = CLAIM_AT + 8;
const MAX_TOTAL_AT: usize = CLAIM_AT + 16;
const COMMUNICATORS_AT: usize = CLAIM_AT + 24;

/// One word per figure, in the order of the file.
#[derive(Clone, Copy)]
enum Figure {
    Capacity,
    Used,
    Waiting,
    Streams,
    Active,
}

/// This process's page. Setters may be called from any thread and cost one store.
///
/// Device numbers are physical, before `ASCEND_RT_VISIBLE_DEVICES`; a number beyond the page is
/// ignored. Dropping the page, or [`remove`](Self::remove), deletes the file; the mapping itself
/// stays valid until the drop. A forked child leaves its parent's file alone.
#[derive(Debug)]
pub struct LivePage {
    words: Words,
    folder: OwnedFd,
    pid: i32,
}

impl LivePage {
    /// Makes this process's page for `devices` devices, all inactive. `None` when the folder or the
    /// file cannot be had; the reason does not matter to a program, so it is not reported.
    pub fn create(devices: usize) -> Option<LivePage> {
        candidates().iter().find_map(|path| {
            // Another process may have taken the unfinished file for one that a dead process left: then once more.
            Self::create_in(path, devices).or_else(|_| Self::create_in(path, devices)).ok()
        })
    }

    fn create_in(path: &Path, devices: usize) -> io::Result<LivePage> {
        let folder = open_folder(path, true)?;
        remove_unfinished(&folder, path);
        let pid = getpid().as_raw_pid();
        let temporary = format!(".{pid}.new");
        let flags =
            OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let open = || rustix::fs::openat(&folder, &temporary, flags, Mode::RUSR | Mode::WUSR);
        let file = match open() {
            Err(Errno::EXIST) => {
                rustix::fs::unlinkat(&folder, &temporary, AtFlags::empty())?;
                open()?
            }
            other => other?,
        };
        let mapped =
            write_header(&file, pid, devices).and_then(|()| Words::map(&file)).and_then(|words| {
                rustix::fs::renameat(&folder, &temporary, &folder, pid.to_string())?;
                Ok(words)
            });
        match mapped {
            Ok(words) => Ok(LivePage { words, folder, pid }),
            Err(error) => {
                let _ = rustix::fs::unlinkat(&folder, &temporary, AtFlags::empty());
                Err(error)
            }
        }
    }

    /// How much memory the device offers to this process, in bytes.
    pub fn set_capacity(&self, device: usize, bytes: u64) {
        self.set(device, Figure::Capacity, bytes);
    }

    /// How many bytes live allocations of this process hold.
    pub fn set_used(&self, device: usize, bytes: u64) {
        self.set(device, Figure::Used, bytes);
    }

    /// How many freed bytes wait in the quarantine.
    pub fn set_waiting(&self, device: usize, bytes: u64) {
        self.set(device, Figure::Waiting, bytes);
    }

    /// How many streams of this process live on the device.
    pub fn set_streams(&self, device: usize, count: u64) {
        self.set(device, Figure::Streams, count);
    }

    /// Whether this process has the device open.
    pub fn set_active(&self, device: usize, active: bool) {
        self.set(device, Figure::Active, active.into());
    }

    /// Which limit this process shares with others: an id, the same in all of them; and what all claims under it may reach
    /// together.
    pub fn set_limit(&self, limit_id: u64, max_total: u64) {
        self.word(MAX_TOTAL_AT).store(max_total, Relaxed);
        self.word(LIMIT_ID_AT).store(limit_id, Relaxed);
    }

    /// How many bytes of that limit this process claims. Others see it before they see anything that this
    /// thread stores later.
    pub fn set_claim(&self, bytes: u64) {
        self.word(CLAIM_AT).store(bytes, SeqCst);
    }

    /// How many communicators this process has joined and not left.
    pub fn set_communicators(&self, count: u64) {
        self.word(COMMUNICATORS_AT).store(count, Relaxed);
    }

    /// Deletes the file; nobody sees later stores. Safe to call more than once.
    pub fn remove(&self) {
        if getpid().as_raw_pid() == self.pid {
            let _ = rustix::fs::unlinkat(&self.folder, self.pid.to_string(), AtFlags::empty());
        }
    }

    fn set(&self, device: usize, figure: Figure, value: u64) {
        if device < MAX_DEVICES {
            let offset = DEVICES_AT + device * DEVICE_LEN + figure as usize * 8;
            self.word(offset).store(value, Relaxed);
        }
    }

    fn word(&self, at: usize) -> &AtomicU64 {
        self.words.word(at)
    }
}

impl Drop for LivePage {
    fn drop(&mut self) {
        self.remove();
    }
}

/// What one live process holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The process.
    pub pid: i32,
    /// Its command name, as the kernel knows it.
    pub name: String,
    /// One entry per physical device, in order.
    pub devices: Vec<DeviceFigures>,
    /// What it claims of the limit that it shares with others.
    pub claim: Claim,
    /// How many communicators it has; [`details`] tells which.
    pub communicators: u64,
}

/// What one process claims of a limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Claim {
    /// The id of the limit; 0 while the process has none.
    pub limit_id: u64,
    /// Bytes claimed.
    pub bytes: u64,
    /// What all claims may reach together.
    pub max_total: u64,
}

/// What one process holds on one device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceFigures {
    /// Bytes that the device offers.
    pub capacity: u64,
    /// Bytes in live allocations.
    pub used: u64,
    /// Freed bytes in the quarantine.
    pub waiting: u64,
    /// Live streams.
    pub streams: u64,
    /// Whether the process has the device open.
    pub active: bool,
}

/// The pages of all live processes of this user, by process id. Files of dead processes are removed.
pub fn read_all() -> Vec<Snapshot> {
    let mut all: Vec<_> =
        candidates().iter().filter_map(|path| read_folder(path).ok()).flatten().collect();
    all.sort_by_key(|snapshot| snapshot.pid);
    all.dedup_by_key(|snapshot| snapshot.pid);
    all
}

/// The claims of all other live processes of this user under a limit, each with what all may reach.
pub fn claims_of_others(limit_id: u64) -> Vec<(u64, u64)> {
    let own_pid = getpid().as_raw_pid();
    let others = read_all()
        .into_iter()
        .filter(|page| page.pid != own_pid && page.claim.limit_id == limit_id);
    others.map(|page| (page.claim.bytes, page.claim.max_total)).collect()
}

fn read_folder(path: &Path) -> io::Result<Vec<Snapshot>> {
    let folder = open_folder(path, false)?;
    let mut found = Vec::new();
    for entry in fs::read_dir(path)?.flatten() {
        let name = entry.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse::<i32>().ok()) else {
            continue;
        };
        let Some(page) = read_page(&folder, &name) else { continue };
        match parse_page(&page, pid) {
            Page::Live(snapshot) => found.push(snapshot),
            Page::Foreign => {}
            Page::Dead => {
                let _ = rustix::fs::unlinkat(&folder, &name, AtFlags::empty());
            }
        }
    }
    Ok(found)
}

/// Removes what processes left that ended before their file was whole.
fn remove_unfinished(folder: &OwnedFd, path: &Path) {
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| name.strip_prefix('.')?.strip_suffix(".new"));
        let Some(pid) = pid.and_then(|pid| pid.parse::<i32>().ok()) else { continue };
        let is_dead = match read_page(folder, &name) {
            Some(page) => matches!(parse_page(&page, pid), Page::Dead),
            // Nothing in it says of which namespace the number is.
            None => start_time(&pid.to_string()).is_none(),
        };
        if is_dead {
            let _ = rustix::fs::unlinkat(folder, &name, AtFlags::empty());
        }
    }
}

/// The page in a file; `None` if there is none.
fn read_page(folder: &OwnedFd, name: &OsStr) -> Option<[u8; PAGE]> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = rustix::fs::openat(folder, name, flags, Mode::empty()).ok()?;
    let mut page = [0; PAGE];
    (rustix::io::pread(&file, &mut page, 0) == Ok(PAGE)).then_some(page)
}

/// What a file is.
enum Page {
    Live(Snapshot),
    /// Its process is gone, or its number belongs to another process by now.
    Dead,
    /// Of another version or process namespace: whether its process lives cannot be told.
    Foreign,
}

/// Reads a page that lies in a file named after this process.
fn parse_page(page: &[u8; PAGE], pid: i32) -> Page {
    let word = |at: usize| u64::from_ne_bytes(page[at..at + 8].try_into().unwrap());
    if word(0) != MAGIC || word(8) != VERSION || Some(word(32)) != namespace() {
        return Page::Foreign;
    }
    if word(16) != pid as u64 || start_time(&pid.to_string()) != Some(word(24)) {
        return Page::Dead;
    }
    let name = &page[NAME_AT..NAME_AT + NAME_LEN];
    let name = name.split(|&byte| byte == 0).next().unwrap_or_default();
    let devices = (0..(word(40) as usize).min(MAX_DEVICES)).map(|device| {
        let figure = |figure: Figure| word(DEVICES_AT + device * DEVICE_LEN + figure as usize * 8);
        DeviceFigures {
            capacity: figure(Figure::Capacity),
            used: figure(Figure::Used),
            waiting: figure(Figure::Waiting),
            streams: figure(Figure::Streams),
            active: figure(Figure::Active) != 0,
        }
    });
    Page::Live(Snapshot {
        pid,
        name: String::from_utf8_lossy(name).into_owned(),
        devices: devices.collect(),
        claim: Claim {
            limit_id: word(LIMIT_ID_AT),
            bytes: word(CLAIM_AT),
            max_total: word(MAX_TOTAL_AT),
        },
        communicators: word(COMMUNICATORS_AT),
    })
}

/// Writes the whole file, with its header: so a later store cannot fail because the disk is full.
fn write_header(file: &OwnedFd, pid: i32, devices: usize) -> io::Result<()> {
    let unknown = || io::Error::from(io::ErrorKind::NotFound);
    let mut page = [0; FILE];
    let header = [
        MAGIC,
        VERSION,
        pid as u64,
        start_time("self").ok_or_else(unknown)?,
        namespace().ok_or_else(unknown)?,
        devices.min(MAX_DEVICES) as u64,
    ];
    for (at, word) in header.iter().enumerate() {
        page[at * 8..at * 8 + 8].copy_from_slice(&word.to_ne_bytes());
    }
    let name = fs::read("/proc/self/comm")?;
    let name = name.trim_ascii_end();
    let length = name.len().min(NAME_LEN - 1);
    page[NAME_AT..NAME_AT + length].copy_from_slice(&name[..length]);
    match rustix::io::pwrite(file, &page, 0)? {
        FILE => Ok(()),
        _ => Err(io::ErrorKind::WriteZero.into()),
    }
}

/// The words of a live file, shared with the process that it belongs to.
#[derive(Debug)]
struct Words(NonNull<AtomicU64>);

// SAFETY: the file is only touched through atomics, and the mapping is unmapped only by the owner.
unsafe impl Send for Words {}
// SAFETY: as above.
unsafe impl Sync for Words {}

impl Words {
    /// Maps a whole file.
    fn map(file: &OwnedFd) -> io::Result<Words> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a fresh mapping at an address of the kernel's choice touches no memory of ours. The
        // file is this user's alone (0600, in a 0700 folder), and its whole length is there.
        let start = unsafe {
            rustix::mm::mmap(std::ptr::null_mut(), FILE, protection, MapFlags::SHARED, file, 0)?
        };
        NonNull::new(start.cast()).map(Words).ok_or_else(|| io::ErrorKind::Other.into())
    }

    /// The word at an offset, a multiple of 8.
    fn word(&self, at: usize) -> &AtomicU64 {
        assert!(at < FILE);
        // SAFETY: the word lies within the file, which is mapped for as long as `self` lives; every
        // access to it is atomic.
        unsafe { self.0.add(at / 8).as_ref() }
    }

    /// The 32 bits at an offset, a multiple of 8, at which no whole word is used.
    fn half_word(&self, at: usize) -> &AtomicU32 {
        assert!(at < FILE);
        // SAFETY: as above; the address is a multiple of 8.
        unsafe { self.0.add(at / 8).cast().as_ref() }
    }
}

impl Drop for Words {
    fn drop(&mut self) {
        // SAFETY: the start of a mapping of this length made by `map`, and its owner gives it up.
        let _ = unsafe { rustix::mm::munmap(self.0.as_ptr().cast(), FILE) };
    }
}

/// Where pages may be, the preferred place first. A reader looks at all of them, because the
/// programs that it looks for may run with another environment.
fn candidates() -> Vec<PathBuf> {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let private = runtime.filter(|path| path.is_absolute()).map(|path| path.join("cairn"));
    let shared = PathBuf::from(format!("/tmp/cairn-{}", geteuid().as_raw()));
    private.into_iter().chain([shared]).collect()
}

/// Opens the folder, which must be a real folder of this user; others lose their rights to it.
fn open_folder(path: &Path, create: bool) -> io::Result<OwnedFd> {
    if create {
        match rustix::fs::mkdirat(CWD, path, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let folder = rustix::fs::openat(CWD, path, flags, Mode::empty())?;
    let stat = rustix::fs::fstat(folder.as_fd())?;
    if stat.st_uid != geteuid().as_raw() {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    if stat.st_mode & 0o077 != 0 {
        rustix::fs::fchmod(&folder, Mode::RWXU)?;
    }
    Ok(folder)
}

/// When the process started, in clock ticks since boot: the 22nd field of its `stat`; `None` once it
/// is gone or a zombie. The command name may contain anything, so fields are counted from its
/// closing bracket.
fn start_time(process: &str) -> Option<u64> {
    let stat = fs::read(format!("/proc/{process}/stat")).ok()?;
    let stat = String::from_utf8_lossy(&stat);
    let mut fields = stat[stat.rfind(')')? + 1..].split_ascii_whitespace();
    let is_alive = !matches!(fields.next()?, "Z" | "X");
    fields.nth(18)?.parse().ok().filter(|_| is_alive)
}

/// The pid namespace: process ids of another one mean nothing here.
fn namespace() -> Option<u64> {
    Some(rustix::fs::stat("/proc/self/ns/pid").ok()?.st_ino)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn temporary_folder(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("cairn-live-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        path
    }

    #[test]
    fn figures_are_read_and_removed() {
        let folder = temporary_folder("seen");
        let page = LivePage::create_in(&folder, 2).unwrap();
        page.set_capacity(1, 8 << 30);
        page.set_used(1, 1 << 30);
        page.set_waiting(1, 4096);
        page.set_streams(1, 3);
        page.set_active(1, true);
        page.set_communicators(4);
        page.set_used(MAX_DEVICES, 1);
        let all = read_folder(&folder).unwrap();
        assert_eq!(all.len(), 1);
        assert_eq!((all[0].pid, all[0].communicators), (std::process::id() as i32, 4));
        assert_eq!(all[0].name, fs::read_to_string("/proc/self/comm").unwrap().trim_end());
        let expected = DeviceFigures {
            capacity: 8 << 30,
            used: 1 << 30,
            waiting: 4096,
            streams: 3,
            active: true,
        };
        assert_eq!(all[0].devices, [DeviceFigures::default(), expected]);
        let mode =
            fs::metadata(folder.join(std::process::id().to_string())).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(fs::metadata(&folder).unwrap().permissions().mode() & 0o777, 0o700);
        drop(page);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn pages_of_dead_processes_and_reused_pids_are_removed() {
        let folder = temporary_folder("dead");
        let page = LivePage::create_in(&folder, 1).unwrap();
        let file = folder.join(std::process::id().to_string());
        let mut bytes = fs::read(&file).unwrap();
        let mut ended = std::process::Command::new("true").spawn().unwrap();
        ended.wait().unwrap();
        assert_eq!(start_time(&ended.id().to_string()), None);
        let dead = folder.join(ended.id().to_string());
        bytes[16..24].copy_from_slice(&u64::from(ended.id()).to_ne_bytes());
        fs::write(&dead, &bytes).unwrap();
        let reused = folder.join("1");
        bytes[16..24].copy_from_slice(&1u64.to_ne_bytes());
        bytes[24..32].copy_from_slice(&u64::MAX.to_ne_bytes());
        fs::write(&reused, &bytes).unwrap();
        let other_version = folder.join("2");
        bytes[8..16].copy_from_slice(&9u64.to_ne_bytes());
        fs::write(&other_version, &bytes).unwrap();
        fs::write(folder.join("3"), b"short").unwrap();
        assert_eq!(read_folder(&folder).unwrap().len(), 1);
        assert!(!dead.exists() && !reused.exists() && other_version.exists());
        drop(page);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn what_dead_processes_left_unfinished_is_removed_by_the_next_one() {
        let folder = temporary_folder("unfinished");
        let page = LivePage::create_in(&folder, 1).unwrap();
        let mut bytes = fs::read(folder.join(std::process::id().to_string())).unwrap();
        drop(page);
        let mut ended = std::process::Command::new("true").spawn().unwrap();
        ended.wait().unwrap();
        let mut alive =
            std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
        let left = |pid: u32| folder.join(format!(".{pid}.new"));
        // Ended at once, and while its file was written; the number of one belongs to another process by now.
        let number = |pid: u32| u64::from(pid).to_ne_bytes();
        for (contents, remains) in [(0, [false, true]), (bytes.len(), [false, false])] {
            for pid in [ended.id(), alive.id()] {
                bytes[16..24].copy_from_slice(&number(pid));
                fs::write(left(pid), &bytes[..contents]).unwrap();
            }
            LivePage::create_in(&folder, 1).unwrap();
            assert_eq!([left(ended.id()), left(alive.id())].map(|path| path.exists()), remains);
        }
        // In another namespace there may be a process of that number.
        bytes[32..40].copy_from_slice(&0u64.to_ne_bytes());
        fs::write(left(ended.id()), &bytes).unwrap();
        fs::write(folder.join(".new"), b"no process").unwrap();
        LivePage::create_in(&folder, 1).unwrap();
        assert!(left(ended.id()).exists() && folder.join(".new").exists());
        alive.kill().unwrap();
        alive.wait().unwrap();
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_linked_folder_is_refused_and_an_open_one_made_private() {
        let (folder, link) = (temporary_folder("loose"), temporary_folder("link"));
        fs::create_dir(&folder).unwrap();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
        let _ = fs::remove_file(&link);
        symlink(&folder, &link).unwrap();
        assert!(LivePage::create_in(&link, 1).is_err());
        assert!(read_folder(&link).is_err());
        LivePage::create_in(&folder, 1).unwrap();
        assert_eq!(fs::metadata(&folder).unwrap().permissions().mode() & 0o777, 0o700);
        fs::remove_file(link).unwrap();
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_stale_link_in_the_place_of_the_file_is_replaced() {
        let folder = temporary_folder("stale");
        fs::create_dir(&folder).unwrap();
        let victim = temporary_folder("victim");
        fs::write(&victim, b"keep").unwrap();
        for name in [std::process::id().to_string(), format!(".{}.new", std::process::id())] {
            symlink(&victim, folder.join(name)).unwrap();
        }
        let page = LivePage::create_in(&folder, 1).unwrap();
        assert_eq!(fs::read(&victim).unwrap(), b"keep");
        assert_eq!(read_folder(&folder).unwrap().len(), 1);
        page.remove();
        page.remove();
        page.set_used(0, 1);
        assert!(read_folder(&folder).unwrap().is_empty());
        fs::remove_file(victim).unwrap();
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn the_start_time_is_read_after_any_name() {
        assert_eq!(start_time("self"), start_time(&std::process::id().to_string()));
        assert!(start_time("self").unwrap() > 0);
        assert_eq!(start_time("0"), None);
    }
}
