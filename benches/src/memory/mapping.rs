//! Virtual memory beside the system's own calls: a map and unmap of 2 MiB, and memory of another process.

use crate::measure::{Figure, Report, time_batches};
use cairn_runtime::Runtime;
use cairn_runtime::config::Config;
use cairn_runtime::memory::sharing::Key;
use cairn_runtime::memory::vmm::{PAGE, Pages, PhysicalSpec, Place};
use std::io::{Error, Read, Result, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;

const BATCHES: usize = 60;
const OPERATIONS: usize = 200;

/// Another process, which exports 2 MiB and has a memory file of the same size; it ends with this.
pub struct Exporter {
    pid: libc::pid_t,
    key: u64,
    file: u64,
    _end: OwnedFd,
}

impl Exporter {
    /// Starts it. No thread of this process may run yet.
    pub fn start() -> Result<Exporter> {
        let (mut from, to) = std::io::pipe()?;
        let (wait, end) = std::io::pipe()?;
        // SAFETY: no other thread runs, so the child may do as it likes.
        match unsafe { libc::fork() } {
            -1 => Err(Error::last_os_error()),
            0 => {
                drop((from, end));
                export(to, wait);
                // SAFETY: the child has nothing to clean up.
                unsafe { libc::_exit(0) }
            }
            pid => {
                drop((to, wait));
                let mut words = [0u8; 16];
                from.read_exact(&mut words)?;
                let word = |at: usize| {
                    u64::from_le_bytes(words[at..at + 8].try_into().expect("eight bytes"))
                };
                Ok(Exporter { pid, key: word(0), file: word(8), _end: end.into() })
            }
        }
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        // SAFETY: a child of this process.
        unsafe {
            libc::kill(self.pid, libc::SIGKILL);
            libc::waitpid(self.pid, std::ptr::null_mut(), 0);
        }
    }
}

fn start_runtime() -> Runtime {
    let config = Config::from_env().expect("the settings are valid");
    let runtime = Runtime::start(config).expect("the runtime starts");
    runtime.set_device(0).expect("device 0");
    runtime
}

fn spec() -> PhysicalSpec {
    PhysicalSpec { bytes: PAGE, place: Place::Device(0), pages: Pages::Huge }
}

/// What the exporter does: it sends a key and a descriptor, and waits for its end.
fn export(mut to: std::io::PipeWriter, mut wait: std::io::PipeReader) {
    let runtime = start_runtime();
    let handle = runtime.make_physical(spec()).expect("physical memory");
    let key = runtime.export_physical(handle, true).expect("a key");
    let file = memory_file();
    let words = [key.0.to_le_bytes(), (file.as_raw_fd() as u64).to_le_bytes()].concat();
    let _ = to.write_all(&words);
    let _ = wait.read(&mut [0]);
}

fn memory_file() -> OwnedFd {
    // SAFETY: a new file with a static name; the descriptor is this one's alone.
    unsafe {
        let file = libc::memfd_create(c"bench".as_ptr(), libc::MFD_CLOEXEC);
        assert!(file >= 0 && libc::ftruncate(file, PAGE as i64) == 0, "no memory file");
        OwnedFd::from_raw_fd(file)
    }
}

const FIXED: libc::c_int = libc::MAP_FIXED | libc::MAP_NORESERVE;

/// Addresses without memory: new ones, or in the place of what is there.
fn no_access(at: *mut libc::c_void, flags: libc::c_int) -> *mut libc::c_void {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | flags;
    // SAFETY: new addresses, or those that this bench took before.
    unsafe { libc::mmap(at, PAGE as usize, libc::PROT_NONE, flags, -1, 0) }
}

fn map_file(at: *mut libc::c_void, file: &OwnedFd) {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_SHARED | FIXED;
    // SAFETY: addresses that this bench took before.
    let mapped = unsafe { libc::mmap(at, PAGE as usize, access, flags, file.as_raw_fd(), 0) };
    assert_eq!(mapped, at, "a map failed");
}

fn time(mut operation: impl FnMut()) -> Figure {
    time_batches(BATCHES, OPERATIONS, || (), || (0..OPERATIONS).for_each(|_| operation()))
}

/// Measures all and writes `mapping.json` into `out`.
pub fn run(out: &Path, exporter: &Exporter) -> Result<()> {
    let runtime = start_runtime();
    let vmm = runtime.shared.memory.vmm();
    let mut report = Report::new();
    let start = vmm.reserve(PAGE, None).expect("addresses");
    let handle = runtime.make_physical(spec()).expect("physical memory");
    let physical = runtime.physical(handle).expect("a handle");
    let ours = time(|| {
        vmm.map(start, PAGE, &physical, true).expect("a map");
        runtime.unmap(start).expect("an unmap");
    });
    let (own, at) = (memory_file(), no_access(std::ptr::null_mut(), 0));
    let theirs = time(|| {
        map_file(at, &own);
        no_access(at, FIXED);
    });
    report.compare("map and unmap of 2 MiB", ours, "mmap", theirs, "");

    let ours = time(|| {
        let handle = runtime.import_physical(Key(exporter.key), 0, false).expect("an import");
        let physical = runtime.physical(handle).expect("a handle");
        vmm.map(start, PAGE, &physical, true).expect("a map");
        runtime.unmap(start).expect("an unmap");
        runtime.free_physical(handle).expect("a free");
    });
    let path = format!("/proc/{}/fd/{}", exporter.pid, exporter.file);
    let theirs = time(|| {
        let file = std::fs::OpenOptions::new().read(true).write(true).open(&path);
        map_file(at, &file.expect("the file of the exporter").into());
        no_access(at, FIXED);
    });
    report.compare("import of 2 MiB of another process", ours, "a memory file", theirs, "");
    report.write(&out.join("mapping.json"))
}
