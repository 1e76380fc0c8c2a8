//! Files in memory, to read, whose pages come when they are wanted and go when they are done with.

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::Path;
use std::ptr::{NonNull, null_mut};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A file that is mapped into memory: its pages are the system's own copy of it.
///
/// **The file must not become shorter meanwhile**: touching what is no longer there ends the process, as with every
/// mapped file. [`fetch`] notices it without touching. A file that is replaced by another of the same name stays.
#[derive(Debug)]
pub struct MappedFile {
    /// `None` for an empty file, which cannot be mapped.
    first: Option<NonNull<u8>>,
    length: usize,
}

// SAFETY: an address and a length of pages that nobody writes, and that stay until the drop.
unsafe impl Send for MappedFile {}
// SAFETY: as above.
unsafe impl Sync for MappedFile {}

/// First address and length of each mapping of the process.
static MAPPINGS: Mutex<BTreeMap<usize, usize>> = Mutex::new(BTreeMap::new());

fn mappings() -> MutexGuard<'static, BTreeMap<usize, usize>> {
    MAPPINGS.lock().unwrap_or_else(PoisonError::into_inner)
}

impl MappedFile {
    /// Maps a regular file.
    pub fn open(path: &Path) -> io::Result<MappedFile> {
        let file = File::open(path)?;
        let length = file.metadata()?.len();
        let length = usize::try_from(length).map_err(|_| io::ErrorKind::FileTooLarge)?;
        if length == 0 {
            return Ok(MappedFile { first: None, length });
        }
        // SAFETY: a new mapping at an address of the kernel's choice overlaps nothing.
        let first = unsafe {
            mmap(null_mut(), length, ProtFlags::READ, MapFlags::PRIVATE, &file, 0)?.cast::<u8>()
        };
        mappings().insert(first as usize, length);
        Ok(MappedFile { first: NonNull::new(first), length })
    }
}

impl AsRef<[u8]> for MappedFile {
    fn as_ref(&self) -> &[u8] {
        match self.first {
            None => &[],
            // SAFETY: mapped, as long as this exists, and written by nobody of this process.
            Some(first) => unsafe { std::slice::from_raw_parts(first.as_ptr(), self.length) },
        }
    }
}

impl Drop for MappedFile {
    fn drop(&mut self) {
        if let Some(first) = self.first {
            mappings().remove(&(first.as_ptr() as usize));
            // SAFETY: the mapping is this one's, and whoever borrows from it borrows this.
            let _ = unsafe { munmap(first.as_ptr().cast(), self.length) };
        }
    }
}

/// Whether bytes are some of a mapped file.
fn is_mapped(bytes: &[u8]) -> bool {
    let (start, end) = (bytes.as_ptr() as usize, bytes.as_ptr() as usize + bytes.len());
    let mappings = mappings();
    let before = mappings.range(..=start).next_back();
    before.is_some_and(|(first, length)| end <= first + length)
}

/// Brings the pages of bytes of a mapped file into memory, at once. Fails if the file has become shorter. Other bytes are
/// left alone.
pub fn fetch(bytes: &[u8]) -> io::Result<()> {
    if bytes.is_empty() || !is_mapped(bytes) {
        return Ok(());
    }
    let page = rustix::param::page_size();
    let start = bytes.as_ptr() as usize / page * page;
    let length = bytes.as_ptr() as usize + bytes.len() - start;
    // SAFETY: pages of a mapping, which the borrowed bytes keep; they are read in, and nothing changes.
    match unsafe { madvise(start as *mut _, length, Advice::LinuxPopulateRead) } {
        Err(rustix::io::Errno::FAULT) => Err(io::ErrorKind::UnexpectedEof.into()),
        _ => Ok(()),
    }
}

/// Lets the whole pages among bytes of a mapped file go; they come again when somebody reads them. Other bytes are left
/// alone.
pub fn release(bytes: &[u8]) {
    let page = rustix::param::page_size();
    let start = (bytes.as_ptr() as usize).next_multiple_of(page);
    let end = (bytes.as_ptr() as usize + bytes.len()) / page * page;
    if start < end && is_mapped(bytes) {
        // SAFETY: whole pages of a mapping of a file that nobody writes: their bytes are the file's, before and after.
        let _ = unsafe { madvise(start as *mut _, end - start, Advice::LinuxDontNeed) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str, bytes: &[u8]) -> std::path::PathBuf {
        let path = std::env::temp_dir().join(format!("cairn-mapped-{name}-{}", std::process::id()));
        std::fs::write(&path, bytes).unwrap();
        path
    }

    /// How many bytes of it are in memory.
    fn resident(mapped: &MappedFile) -> usize {
        let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let first = format!("{:x}-", mapped.first.unwrap().as_ptr() as usize);
        let mut lines = smaps.lines().skip_while(|line| !line.starts_with(&first));
        let rss = lines.find_map(|line| line.strip_prefix("Rss:")?.trim().strip_suffix(" kB"));
        rss.unwrap().parse::<usize>().unwrap() << 10
    }

    #[test]
    fn pages_come_and_go_and_the_bytes_stay() {
        let all: Vec<u8> = (0..1 << 20).map(|at: usize| (at / 64) as u8).collect();
        let path = file("pages", &all);
        let mapped = MappedFile::open(&path).unwrap();
        let page = rustix::param::page_size();
        fetch(&mapped.as_ref()[page..]).unwrap();
        assert!(resident(&mapped) >= (1 << 20) - page);
        release(mapped.as_ref());
        assert_eq!(resident(&mapped), 0);
        assert_eq!(mapped.as_ref(), all);
        std::fs::remove_file(path).unwrap();
        assert_eq!(mapped.as_ref(), all);
    }

    #[test]
    fn other_memory_is_left_alone() {
        let bytes = vec![7u8; 1 << 20];
        fetch(&bytes).unwrap();
        release(&bytes);
        assert!(bytes.iter().all(|byte| *byte == 7));
    }

    #[test]
    fn a_file_that_became_shorter_is_noticed() {
        let path = file("short", &vec![1; 1 << 20]);
        let mapped = MappedFile::open(&path).unwrap();
        std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(1 << 12).unwrap();
        let error = fetch(mapped.as_ref()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn an_empty_file_is_empty() {
        let path = file("empty", b"");
        let mapped = MappedFile::open(&path).unwrap();
        assert_eq!(mapped.as_ref(), b"");
        release(mapped.as_ref());
        std::fs::remove_file(path).unwrap();
        assert!(MappedFile::open(Path::new("/nowhere/at/all")).is_err());
    }
}
