//! A folder for files that nobody else can read.

use std::{
    fs::{self, DirBuilder},
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

use crate::recorded_run::unique;

/// A folder of this run; removed at the end.
pub struct PrivateFolder(PathBuf);

impl PrivateFolder {
    pub fn create() -> Result<PrivateFolder> {
        let path = std::env::temp_dir().join(format!("cairn-{}", unique()));
        let created = DirBuilder::new().mode(0o700).create(&path);
        created.with_context(|| format!("cannot create {}", path.display()))?;
        Ok(PrivateFolder(std::path::absolute(&path)?))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for PrivateFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
