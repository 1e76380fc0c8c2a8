//! Files with models and their weights, in memory.

use bytes::Bytes;
use cairn_runtime::memory::mapped_file::MappedFile;
use std::cell::RefCell;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io;
use std::path::{Path, PathBuf};

/// Files below this size are read: mapping them would cost more.
const MIN_MAPPED: u64 = 64 << 10;

/// The bytes of a file. Those of a large one are mapped: they come into memory when they are read, and the file must not
/// become shorter as long as any of them are in use.
pub fn open_file(path: &Path) -> io::Result<Bytes> {
    let metadata = std::fs::metadata(path)?;
    if metadata.is_file()
        && metadata.len() >= MIN_MAPPED
        && let Ok(file) = MappedFile::open(path)
    {
        return Ok(Bytes::from_owner(file));
    }
    std::fs::read(path).map(Bytes::from)
}

/// Files that a model refers to, each opened once.
#[derive(Clone, Debug, Default)]
pub struct OpenFiles(RefCell<HashMap<PathBuf, Bytes>>);

impl OpenFiles {
    /// Some bytes of a file. An error begins with "its file".
    pub fn read(&self, path: &Path, offset: u64, bytes: usize) -> Result<Bytes, String> {
        let mut files = self.0.borrow_mut();
        let file =
            match files.entry(path.to_owned()) {
                Entry::Occupied(entry) => entry.into_mut(),
                Entry::Vacant(entry) => entry.insert(open_file(path).map_err(|error| {
                    format!("its file {} cannot be read: {error}", path.display())
                })?),
            };
        range_of(file, &path.display().to_string(), offset, bytes)
    }
}

/// Some bytes of a file that is called `name`. An error begins with "its file".
pub fn range_of(file: &Bytes, name: &str, offset: u64, bytes: usize) -> Result<Bytes, String> {
    let start = usize::try_from(offset).ok();
    let end = start.and_then(|start| start.checked_add(bytes)).filter(|end| *end <= file.len());
    match start.zip(end) {
        Some((start, end)) => Ok(file.slice(start..end)),
        None => Err(format!(
            "its file {name} has {} bytes; it needs {bytes} from byte {offset} on",
            file.len()
        )),
    }
}
