//! Memory files, which end with their process: a child of `fork` has nothing of them.

use super::system_limits::limit;
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use rustix::process::Resource;
use std::fs::File;
use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, Ordering::SeqCst};

/// Where no descriptor is noted.
const NONE: RawFd = -1;
const IN_CHUNK: usize = 64;

/// Descriptors of this process that its children close, and where more of them are. Nothing is ever removed but the numbers:
/// a child reads it whatever other threads of its parent did at the time.
struct Chunk {
    descriptors: [AtomicI32; IN_CHUNK],
    next: OnceLock<Box<Chunk>>,
}

static FIRST: Chunk = Chunk::new();

impl Chunk {
    const fn new() -> Chunk {
        Chunk { descriptors: [const { AtomicI32::new(NONE) }; IN_CHUNK], next: OnceLock::new() }
    }
}

/// Fails where the system would end the process for a file of this size (`ulimit -f`).
pub fn expect_room(bytes: u64) -> io::Result<()> {
    match limit(Resource::Fsize) {
        limit if limit < bytes => {
            let text = format!("ulimit -f allows files of {limit} bytes, and it takes {bytes}");
            Err(io::Error::new(io::ErrorKind::FileTooLarge, text))
        }
        _ => Ok(()),
    }
}

/// Whether so much may be appended to a file: the system would end the process otherwise.
pub fn has_room(file: &File, bytes: u64) -> bool {
    match limit(Resource::Fsize) {
        u64::MAX => true,
        limit => {
            file.metadata().is_ok_and(|metadata| metadata.len().saturating_add(bytes) <= limit)
        }
    }
}

/// What the system says when it gives no file, or writes no more to one; with the limit that was met.
pub fn explain_file_error(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::EMFILE) => format!("{error} (ulimit -n)"),
        Some(libc::EFBIG) => format!("{error} (ulimit -f)"),
        _ => error.to_string(),
    }
}

/// A file that is open in this process alone: a child of `fork` closes it, if [`close_in_child`] runs there. Its memory would
/// live on with the child otherwise, and so would locks on it.
///
/// **Threads.** Any.
#[derive(Debug)]
pub struct ProcessFile {
    file: OwnedFd,
    noted: &'static AtomicI32,
}

impl ProcessFile {
    /// Notes a file.
    pub fn new(file: OwnedFd) -> ProcessFile {
        let (mut chunk, descriptor) = (&FIRST, file.as_raw_fd());
        loop {
            let take =
                |slot: &&AtomicI32| slot.compare_exchange(NONE, descriptor, SeqCst, SeqCst).is_ok();
            if let Some(noted) = chunk.descriptors.iter().find(take) {
                return ProcessFile { file, noted };
            }
            chunk = chunk.next.get_or_init(|| Box::new(Chunk::new()));
        }
    }
}

impl AsFd for ProcessFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl AsRawFd for ProcessFile {
    fn as_raw_fd(&self) -> RawFd {
        self.file.as_raw_fd()
    }
}

impl Drop for ProcessFile {
    fn drop(&mut self) {
        self.noted.store(NONE, SeqCst);
    }
}

/// Closes what the parent of this process noted. For handlers of `pthread_atfork`: takes no lock and allocates nothing.
///
/// # Safety
/// This is a child that was forked just now, and nothing of the runtime is used here from now on.
pub unsafe fn close_in_child() {
    let mut chunk = Some(&FIRST);
    while let Some(Chunk { descriptors, next }) = chunk {
        for descriptor in descriptors {
            let descriptor = descriptor.swap(NONE, SeqCst);
            if descriptor != NONE {
                // SAFETY: whoever owns it in the parent does nothing here, as the caller vouches.
                unsafe { libc::close(descriptor) };
            }
        }
        chunk = next.get().map(|next| &**next);
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;
    use rustix::fs::{MemfdFlags, memfd_create};

    fn noted(file: &ProcessFile) -> bool {
        let descriptor = file.as_raw_fd();
        let mut chunk = Some(&FIRST);
        while let Some(Chunk { descriptors, next }) = chunk {
            if descriptors.iter().any(|noted| noted.load(SeqCst) == descriptor) {
                return true;
            }
            chunk = next.get().map(|next| &**next);
        }
        false
    }

    #[test]
    fn a_file_is_noted_while_it_is_open_however_many_there_are() {
        let open = || ProcessFile::new(memfd_create("cairn-test", MemfdFlags::CLOEXEC).unwrap());
        let mut files: Vec<_> = (0..5 * IN_CHUNK).map(|_| open()).collect();
        assert!(files.iter().all(noted));
        let slots: Vec<_> = files.iter().map(|file| std::ptr::from_ref(file.noted)).collect();
        files.truncate(7);
        assert!(files.iter().all(noted));
        let again: Vec<_> = (0..2 * IN_CHUNK).map(|_| open()).collect();
        assert!(again.iter().all(|file| slots.contains(&std::ptr::from_ref(file.noted))));
    }
}
