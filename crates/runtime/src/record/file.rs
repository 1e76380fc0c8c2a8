//! The file of a record while it is written: mapped, so that what was written is there whatever becomes of the process.
//!
//! Threads take segments of the file ([`cairn_record::layout`]) and write into them without a lock. The file grows
//! by pieces whose disk space is there before anybody writes into them: a full disk is an error when it grows, never a
//! signal when a byte is stored.

use crate::error::{Code, Error, Result};
use crate::lock::{Mutex, Rank};
use crate::sync::now_ns;
use cairn_record::layout::*;
use rustix::fs::{FallocateFlags, fallocate};
use rustix::mm::{MapFlags, ProtFlags, mmap};
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// How many names are tried for a process whose file exists.
const MAX_NAMES: usize = 1000;

/// What to record, from the environment (`CAIRN_RECORD`, `CAIRN_RECORD_SESSION`, `CAIRN_RECORD_STACKS`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordSettings {
    /// The file.
    pub path: String,
    /// What the processes of one `cairn record` have in common: none of them overwrites the file of another. Empty without it.
    pub session: String,
    /// Stacks are taken too.
    pub stacks: bool,
}

/// A record that this process writes.
pub struct RecordFile {
    path: PathBuf,
    inode: (u64, u64),
    growth: Mutex<Growth>,
    /// The record has ended: the disk is full, or the file is gone.
    ended: AtomicBool,
    chains: AtomicU32,
}

struct Growth {
    file: File,
    /// Where the next segment begins.
    next: u64,
    /// Where the file ends.
    end: u64,
    /// The mapping of the last piece.
    piece: *mut u8,
}

// SAFETY: the pointer is to a mapping of this process that is never unmapped.
unsafe impl Send for Growth {}

/// A segment that one thread writes into.
pub struct SegmentWriter {
    base: *mut u8,
    used: usize,
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
        };
        file.write_all(&header.encode()).map_err(fail)?;
        let metadata = file.metadata().map_err(fail)?;
        let end = HEADER_BYTES as u64;
        let growth = Growth { file, next: end, end, piece: std::ptr::null_mut() };
        Ok(RecordFile {
            path: std::path::absolute(&path).unwrap_or(path),
            inode: (metadata.dev(), metadata.ino()),
            growth: Mutex::new(Rank::Trace, growth),
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

    /// An empty segment; `None` when the record has ended. The first failure is reported in the log.
    pub fn segment(&self, chain: u32, ordinal: u32, thread: u64) -> Option<SegmentWriter> {
        let mut growth = self.growth.lock();
        if self.ended() {
            return None;
        }
        if growth.next == growth.end
            && let Err(error) = self.grow(&mut growth)
        {
            self.ended.store(true, Ordering::Relaxed);
            log::warn!("the record {} ends here: {error}", self.path.display());
            return None;
        }
        let index = (growth.next - HEADER_BYTES as u64) / SEGMENT_BYTES as u64;
        let offset = index as usize % PIECE_SEGMENTS * SEGMENT_BYTES;
        growth.next += SEGMENT_BYTES as u64;
        // SAFETY: the segment lies inside of the last piece, which is mapped.
        let base = unsafe { growth.piece.add(offset) };
        let header = Segment { chain, ordinal, thread, used: 0 }.encode();
        // SAFETY: nobody else has this segment.
        unsafe { base.copy_from_nonoverlapping(header.as_ptr(), header.len()) };
        Some(SegmentWriter { base, used: 0 })
    }

    /// Makes the file longer by a piece, and maps that.
    fn grow(&self, growth: &mut Growth) -> io::Result<()> {
        self.check_descriptor(growth)?;
        let bytes = PIECE_SEGMENTS * SEGMENT_BYTES;
        // Beyond this limit the kernel would send a signal that ends the program.
        let limit = rustix::process::getrlimit(rustix::process::Resource::Fsize).current;
        if limit.is_some_and(|limit| growth.end + bytes as u64 > limit) {
            return Err(rustix::io::Errno::FBIG.into());
        }
        match fallocate(&growth.file, FallocateFlags::empty(), growth.end, bytes as u64) {
            Ok(()) => {}
            Err(rustix::io::Errno::OPNOTSUPP) => write_zeros(&growth.file, growth.end, bytes)?,
            Err(error) => return Err(error.into()),
        }
        // SAFETY: a new mapping at an address that the kernel chooses. Others may cut the file off, which is their affair.
        let piece = unsafe {
            mmap(
                std::ptr::null_mut(),
                bytes,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                &growth.file,
                growth.end,
            )?
        };
        growth.piece = piece.cast();
        growth.end += bytes as u64;
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
        if growth.next < growth.end && self.check_descriptor(&mut growth).is_ok() {
            // A hole, and no shorter file: threads may still take these segments.
            let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            let _ = fallocate(&growth.file, hole, growth.next, growth.end - growth.next);
        }
    }
}

impl SegmentWriter {
    /// Bytes that still fit.
    pub fn room(&self) -> usize {
        PAYLOAD_BYTES - self.used
    }

    /// Stores bytes that fit. They count once [`SegmentWriter::publish`] was called.
    pub fn write(&mut self, bytes: &[u8]) {
        assert!(bytes.len() <= self.room(), "{} bytes for {}", bytes.len(), self.room());
        // SAFETY: they fit into the segment, which this thread alone writes.
        unsafe {
            let to = self.base.add(SEGMENT_HEADER_BYTES + self.used);
            to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        }
        self.used += bytes.len();
    }

    /// Makes what was written count.
    pub fn publish(&self) {
        // SAFETY: four bytes of the header, aligned, which this thread alone writes.
        let used = unsafe { AtomicU32::from_ptr(self.base.add(USED_OFFSET).cast()) };
        used.store(self.used as u32, Ordering::Release);
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

fn write_zeros(file: &File, from: u64, bytes: usize) -> io::Result<()> {
    use std::os::unix::fs::FileExt;
    file.write_all_at(&vec![0; bytes], from)
}

/// The command that runs, its arguments apart by spaces.
fn command_line() -> String {
    let bytes = std::fs::read("/proc/self/cmdline").unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    text.split('\0').filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
}
