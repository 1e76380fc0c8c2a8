//! The toolkit that this command belongs to: the folder above its `bin/`.

use std::{
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};

/// The library without contents whose name in `LD_PRELOAD` lets torch_npu say which tensor has which memory.
pub const KERNEL_HOOK: &str = "libascend_kernel_hook.so";

/// The files that hold code. Every other name in `lib64` is a link to one of them.
pub const REAL_LIBRARIES: [&str; 2] = ["libascendcl.so", "libge_runner.so"];

/// What distinguishes a file from others, whatever its names: device and inode. The loader goes by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileId {
    pub device: u64,
    pub inode: u64,
}

impl FileId {
    /// The file that `path` leads to.
    pub fn of(path: &Path) -> io::Result<FileId> {
        let data = fs::metadata(path)?;
        Ok(FileId { device: data.dev(), inode: data.ino() })
    }
}

/// A toolkit folder.
#[derive(Clone, Debug)]
pub struct Toolkit {
    root: PathBuf,
}

impl Toolkit {
    /// The toolkit whose `bin/` holds this very program. Where the environment names the same folder by another path,
    /// such as one through a link `latest`, that path stays.
    pub fn of_current_exe() -> Result<Toolkit> {
        let program = std::env::current_exe().context("cannot tell where this program lies")?;
        let root = program.parent().and_then(Path::parent).unwrap_or(Path::new("/"));
        let named = std::env::var_os("ASCEND_HOME_PATH").map(PathBuf::from);
        let is_same = |named: &PathBuf| FileId::of(named).ok() == FileId::of(root).ok();
        let toolkit = Toolkit::at(named.filter(is_same).as_deref().unwrap_or(root));
        if !toolkit.library(REAL_LIBRARIES[0]).exists() {
            bail!(
                "there is no toolkit around {}: make one with `cargo xtask toolkit` and use its bin/cairn",
                program.display()
            );
        }
        Ok(toolkit)
    }

    /// The toolkit in `root`, unchecked.
    pub fn at(root: &Path) -> Toolkit {
        Toolkit { root: root.to_path_buf() }
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    pub fn lib64(&self) -> PathBuf {
        self.root.join("lib64")
    }

    pub fn library(&self, name: &str) -> PathBuf {
        self.lib64().join(name)
    }

    /// The names of all libraries, sorted.
    pub fn libraries(&self) -> Result<Vec<String>> {
        let lib64 = self.lib64();
        let entries =
            fs::read_dir(&lib64).with_context(|| format!("cannot read {}", lib64.display()))?;
        let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
        let mut names: Vec<_> =
            names.filter(|name| name.starts_with("lib") && name.contains(".so")).collect();
        names.sort();
        Ok(names)
    }
}
