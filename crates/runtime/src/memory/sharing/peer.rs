//! What other processes export, found through `/proc`.

use super::directory::{Directory, Export, Key, KeyEnd, NAME, SharedKind, SlotView};
use crate::error::{Code, Error, Result};
use crate::memory::vmm::{ForeignRange, ForeignStore};
use crate::sync::Arc;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Mode, OFlags, fstat, open as open_path};
use std::path::{Path, PathBuf};

/// Something that another process exports, as it was when it was opened.
pub struct Import {
    /// Its key.
    pub key: Key,
    /// What it is.
    pub export: Export,
    directory: OwnedFd,
}

/// A file of another process, opened for this one.
pub struct OpenedFile {
    /// The file.
    pub file: OwnedFd,
    /// Which file it is.
    pub inode: (u64, u64),
}

fn ended(pid: u32) -> Error {
    Directory::unknown(&format!("process {pid}, which exported it, has ended or shares nothing"))
}

impl SlotView<'_> {
    /// The error for a key that does not hold any more.
    fn ended(&self) -> Error {
        let pid = self.key.pid();
        Directory::unknown(&match self.end() {
            Some(KeyEnd::Freed) => format!("process {pid} has freed what it stood for"),
            Some(KeyEnd::Closed) => format!("process {pid} has closed it"),
            None => format!("process {pid} has closed it, or never made it"),
        })
    }
}

/// Opens what a key names.
pub fn open(key: Key, kind: SharedKind) -> Result<Import> {
    let pid = key.pid();
    if pid == 0 || pid > i32::MAX as u32 || key.nonce() == 0 {
        return Err(Error::refused(format!("{key} is no key that Cairn made")));
    }
    if pid == std::process::id() {
        return Err(Error::refused(format!(
            "{key} is a key of this process: it is for others to import"
        )));
    }
    let directory = find_directory(pid)?;
    let slot = SlotView { file: directory.as_fd(), key };
    let closed = || slot.ended();
    let (mut export, mut list) = slot.read()?.ok_or_else(closed)?;
    if export.kind != kind {
        return Err(Directory::unknown(&format!("it is of {}, not of {kind}", export.kind)));
    }
    let own_pid = std::process::id();
    while !export.is_open {
        let (before, is_listed) = (list, slot.lists(list, own_pid));
        (export, list) = slot.read()?.ok_or_else(closed)?;
        // Otherwise it was moved meanwhile: there may have been anything.
        if list != before {
            continue;
        }
        if is_listed? {
            break;
        }
        return Err(Error::new(
            Code::NotPermitted,
            format!(
                "process {pid} has not named process {own_pid} among those that may import {kind} {key}"
            ),
        ));
    }
    Ok(Import { key, export, directory })
}

/// The directory of another process.
fn find_directory(pid: u32) -> Result<OwnedFd> {
    let folder = PathBuf::from(format!("/proc/{pid}/fd"));
    let entries = std::fs::read_dir(&folder).map_err(|error| {
        match error.raw_os_error().map(rustix::io::Errno::from_raw_os_error) {
            Some(errno) => failed(pid, &folder, errno),
            None => ended(pid),
        }
    })?;
    let link = format!("/memfd:{NAME}");
    let path = entries
        .flatten()
        .map(|entry| entry.path())
        .find(|path| {
            std::fs::read_link(path)
                .is_ok_and(|target| target.to_string_lossy().split(' ').next() == Some(&link))
        })
        .ok_or_else(|| ended(pid))?;
    open_path(&path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
        .map_err(|error| failed(pid, &path, error))
}

fn failed(pid: u32, path: &Path, error: rustix::io::Errno) -> Error {
    match error {
        rustix::io::Errno::NOENT | rustix::io::Errno::SRCH => ended(pid),
        rustix::io::Errno::MFILE | rustix::io::Errno::NFILE => Error::new(
            Code::MemoryAllocation,
            format!("no descriptor for memory of process {pid}: {error} (ulimit -n)"),
        ),
        _ => Error::new(Code::NotPermitted, format!("{}: {error}", path.display())),
    }
}

impl Import {
    /// The file it lies in.
    pub fn open_file(&self) -> Result<OpenedFile> {
        let pid = self.key.pid();
        let path = PathBuf::from(format!("/proc/{pid}/fd/{}", self.export.file));
        let flags = OFlags::RDWR | OFlags::CLOEXEC;
        let file =
            open_path(&path, flags, Mode::empty()).map_err(|error| failed(pid, &path, error))?;
        let stat = fstat(&file).map_err(|error| failed(pid, &path, error))?;
        self.check()?;
        Ok(OpenedFile { file, inode: (stat.st_dev, stat.st_ino) })
    }

    /// Fails if the key does not hold any more.
    pub fn check(&self) -> Result<()> {
        let slot = SlotView { file: self.directory.as_fd(), key: self.key };
        let now = slot.read()?.map(|(now, _)| Export { is_open: self.export.is_open, ..now });
        match now.is_some_and(|now| now == self.export) {
            true => Ok(()),
            false => Err(slot.ended()),
        }
    }

    /// Holds the bytes in a file that was opened; they are what the key names.
    pub fn hold(&self, store: &Arc<ForeignStore>) -> Result<Vec<ForeignRange>> {
        let extents = self.export.extents.iter();
        let ranges = extents
            .map(|&(offset, bytes)| {
                store.hold(offset, bytes).map_err(|error| {
                    let pid = self.key.pid();
                    let text = format!("memory of process {pid} cannot be held: {error}");
                    Error::new(Code::MemoryAllocation, text)
                })
            })
            .collect::<Result<Vec<_>>>()?;
        self.check()?;
        Ok(ranges)
    }
}
