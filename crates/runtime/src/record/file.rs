//! The file of a record while it is written.
//!
//! Threads take segments of the file ([`cairn_record::layout`]) and write into them without a lock ([`super::mapped`]). The file grows
//! by pieces whose disk space is there before anybody writes into them: a full disk is an error when it grows, never a
//! signal when a byte is stored.
//!
//! Where another process reads the record meanwhile and gives back what it has read (`cairn check`), threads wait for it when
//! it falls too far behind: the file then takes no more disk than that, however long the program runs.

use crate::error::{Code, Error, Result};
use crate::lock::{Mutex, Rank};
use crate::sync::now_ns;
use cairn_record::layout::*;
use rustix::fs::{FallocateFlags, fallocate};
use rustix::process::{Pid, test_kill_process};
use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::mapped::{EmptySegment, HeaderPage, PIECE_BYTES, SegmentWriter};

/// How many names are tried for a process whose file exists.
const MAX_NAMES: usize = 1000;

/// For how long a reader may do nothing before nobody waits for it any more.
const MAX_WAIT: Duration = Duration::from_secs(30);

/// What to record, from the environment (`CAIRN_RECORD`, `CAIRN_RECORD_SESSION`, `CAIRN_RECORD_STACKS`, `CAIRN_RECORD_BACKLOG`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordSettings {
    /// The file.
    pub path: String,
    /// What the processes of one `cairn record` have in common: none of them overwrites the file of another. Empty without it.
    pub session: String,
    /// Stacks are taken too.
    pub stacks: bool,
    /// How many bytes a process that reads the record meanwhile may be behind before threads wait for it; 0: nobody waits.
    pub backlog: u64,
}

/// A record that this process writes.
pub struct RecordFile {
    path: PathBuf,
    inode: (u64, u64),
    header: HeaderPage,
    growth: Mutex<Growth>,
    /// Segments that threads have taken.
    taken: AtomicU64,
    /// How many of them a reader may be behind.
    backlog: u64,
    /// Nobody waits for the reader any more.
    is_alone: AtomicBool,
    /// The record has ended: the disk is full, or the file is gone.
    ended: AtomicBool,
    chains: AtomicU32,
}

struct Growth {
    file: File,
    /// Where the file ends.
    end: u64,
    /// The rest of the last piece.
    free: VecDeque<EmptySegment>,
}

impl RecordFile {
    /// Creates the file. A record that exists is overwritten, unless a process of the same session wrote it: then this one takes
    /// the name with its own number appended. Anything else that exists is left alone, and is an error.
    pub fn create(settings: &RecordSettings) -> Result<RecordFile> {
        let fail = |error: io::Error| {
            let path = &settings.path;
            Error::new(Code::InvalidFile, format!("CAIRN_RECORD={path} cannot be written: {error}"))
        };
        let (mut file, path) = open_unused(settings).map_err(fail)?;
        let header = Header {
            pid: std::process::id(),
            start_ns: now_ns(),
            start_unix_ns: SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(0, |since| since.as_nanos() as u64),
            command: command_line(),
            session: settings.session.clone(),
            machine: machine(),
        };
        file.write_all(&header.encode()).map_err(fail)?;
        let metadata = file.metadata().map_err(fail)?;
        let header = HeaderPage::map(&file).map_err(fail)?;
        let growth = Growth { file, end: HEADER_BYTES as u64, free: VecDeque::new() };
        Ok(RecordFile {
            path: std::path::absolute(&path).unwrap_or(path),
            inode: (metadata.dev(), metadata.ino()),
            header,
            growth: Mutex::new(Rank::Trace, growth),
            taken: AtomicU64::new(0),
            backlog: settings.backlog.div_ceil(SEGMENT_BYTES as u64),
            is_alone: AtomicBool::new(settings.backlog == 0),
            ended: AtomicBool::new(false),
            chains: AtomicU32::new(0),
        })
    }

    /// Whether anything more can be written.
    pub fn ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    /// A number for the chain of a thread.
    pub fn new_chain(&self) -> u32 {
        self.chains.fetch_add(1, Ordering::Relaxed)
    }

    /// A segment for a thread, which makes an entry if `is_busy`; `None` when the record has ended. The first failure is
    /// reported in the log.
    pub fn segment(&self, header: Segment, is_busy: bool) -> Option<SegmentWriter> {
        let mut growth = self.growth.lock();
        if self.ended() {
            return None;
        }
        if growth.free.is_empty()
            && let Err(error) = self.grow(&mut growth)
        {
            self.ended.store(true, Ordering::Relaxed);
            self.header.mark_cut_short();
            log::warn!("the record {} ends here: {error}", self.path.display());
            return None;
        }
        self.taken.fetch_add(1, Ordering::Relaxed);
        // Begun with the lock held: a reader finds segments in the order of the file.
        growth.free.pop_front().map(|segment| segment.begin(header, is_busy))
    }

    /// Waits while a reader of this record is too far behind. The thread must not be busy: the reader could not go on.
    pub fn wait_for_reader(&self) {
        if self.is_alone.load(Ordering::Relaxed) {
            return;
        }
        let (mut consumed, mut since) = (self.header.consumed(), Instant::now());
        while self.taken.load(Ordering::Relaxed).saturating_sub(consumed) > self.backlog {
            if !self.has_reader() || since.elapsed() > MAX_WAIT {
                self.is_alone.store(true, Ordering::Relaxed);
                let path = self.path.display();
                return log::warn!(
                    "nobody reads the record {path} any more: it grows from here on"
                );
            }
            std::thread::sleep(Duration::from_micros(200));
            let now = self.header.consumed();
            if now != consumed {
                (consumed, since) = (now, Instant::now());
            }
        }
    }

    /// Whether the process that reads this record lives; also before it has begun.
    fn has_reader(&self) -> bool {
        let reader = Pid::from_raw(self.header.reader() as i32);
        reader.is_none_or(|pid| test_kill_process(pid) != Err(rustix::io::Errno::SRCH))
    }

    /// Makes the file longer by a piece, and maps that.
    fn grow(&self, growth: &mut Growth) -> io::Result<()> {
        self.check_descriptor(growth)?;
        // Beyond this limit the kernel would send a signal that ends the program.
        let limit = rustix::process::getrlimit(rustix::process::Resource::Fsize).current;
        if limit.is_some_and(|limit| growth.end + PIECE_BYTES as u64 > limit) {
            return Err(rustix::io::Errno::FBIG.into());
        }
        match fallocate(&growth.file, FallocateFlags::empty(), growth.end, PIECE_BYTES as u64) {
            Ok(()) => {}
            Err(rustix::io::Errno::OPNOTSUPP) => write_zeros(&growth.file, growth.end)?,
            Err(error) => return Err(error.into()),
        }
        growth.free.extend(EmptySegment::map_piece(&growth.file, growth.end)?);
        growth.end += PIECE_BYTES as u64;
        Ok(())
    }

    /// A program may have closed our descriptor, and the number may be another file's by now: then the file is opened again.
    fn check_descriptor(&self, growth: &mut Growth) -> io::Result<()> {
        let is_ours = |file: &File| {
            file.metadata().is_ok_and(|metadata| (metadata.dev(), metadata.ino()) == self.inode)
        };
        if is_ours(&growth.file) {
            return Ok(());
        }
        let file = options().open(&self.path)?;
        if !is_ours(&file) {
            return Err(io::Error::new(ErrorKind::NotFound, "the file was replaced"));
        }
        // The old number is not ours to close.
        std::mem::forget(std::mem::replace(&mut growth.file, file));
        Ok(())
    }

    /// Gives back the disk space of the last piece that nobody took, at the end of the process.
    pub fn trim(&self) {
        let mut growth = self.growth.lock();
        let unused = (growth.free.len() * SEGMENT_BYTES) as u64;
        if unused > 0 && self.check_descriptor(&mut growth).is_ok() {
            // A hole, and no shorter file: threads may still take these segments.
            let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            let _ = fallocate(&growth.file, hole, growth.end - unused, unused);
        }
    }
}

fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600);
    options.custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC | libc::O_NONBLOCK);
    options
}

/// Opens the file that this process may write.
fn open_unused(settings: &RecordSettings) -> io::Result<(File, PathBuf)> {
    let path = Path::new(&settings.path);
    for attempt in 0..MAX_NAMES {
        let path = match attempt {
            0 => path.to_path_buf(),
            1 => format!("{}.{}", settings.path, std::process::id()).into(),
            _ => format!("{}.{}.{attempt}", settings.path, std::process::id()).into(),
        };
        match options().create_new(true).open(&path) {
            Ok(file) => return Ok((file, path)),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
        let file = options().open(&path)?;
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(io::Error::new(ErrorKind::InvalidInput, "it is not a file"));
        }
        let header = read_header(&file);
        if metadata.len() > 0 && matches!(header, Err(HeaderError::Foreign)) {
            let text = "it exists and is not a record";
            return Err(io::Error::new(ErrorKind::AlreadyExists, text));
        }
        let is_of_session = header
            .is_ok_and(|header| !header.session.is_empty() && header.session == settings.session);
        if !is_of_session {
            file.set_len(0)?;
            return Ok((file, path));
        }
    }
    Err(io::Error::new(ErrorKind::AlreadyExists, "its processes have too many files already"))
}

/// The header of a file that exists.
fn read_header(file: &File) -> std::result::Result<Header, HeaderError> {
    let mut header = vec![0; HEADER_BYTES];
    let count = cairn_record::reader::Source::read_at(file, 0, &mut header).unwrap_or(0);
    Header::decode(&header[..count])
}

fn write_zeros(file: &File, from: u64) -> io::Result<()> {
    use std::os::unix::fs::FileExt;
    file.write_all_at(&vec![0; PIECE_BYTES], from)
}

/// The command that runs, its arguments apart by spaces.
fn command_line() -> String {
    let bytes = std::fs::read("/proc/self/cmdline").unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    text.split('\0').filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
}

/// What processes with the same monotonic clock have in common: the kernel's name of its own start, and the namespace of clocks.
fn machine() -> String {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let clocks = std::fs::read_link("/proc/self/ns/time").unwrap_or_default();
    match boot.trim() {
        "" => String::new(),
        boot => format!("{boot} {}", clocks.display()),
    }
}
