//! Files that commands write.

use std::{
    fs::{self, File},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};

/// Creates a file, or empties the one that is there; never one of the files that are read.
pub fn create(path: &Path, inputs: &[PathBuf]) -> Result<File> {
    let id = |path: &Path| fs::metadata(path).ok().map(|data| (data.dev(), data.ino()));
    if let Some(input) = inputs.iter().find(|input| id(path).is_some() && id(input) == id(path)) {
        bail!("{} is the record itself: name another file with -o", input.display());
    }
    File::create(path).with_context(|| format!("cannot write {}", path.display()))
}
