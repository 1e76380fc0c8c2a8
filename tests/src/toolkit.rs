//! The toolkit under test and the folders around it.

use std::{
    env,
    ffi::OsStr,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

/// The environment variables that a program under test inherits.
const INHERITED: [&str; 6] = ["PATH", "HOME", "TMPDIR", "LANG", "CAIRN_COVERAGE", "CAIRN_TESTS"];

/// A toolkit folder, and where to put what is built with it.
#[derive(Clone, Debug)]
pub struct Toolkit {
    /// The folder, absolute.
    pub dir: PathBuf,
    /// Where programs and logs go.
    pub scratch: PathBuf,
}

impl Toolkit {
    /// The toolkit that `CAIRN_TOOLKIT` names.
    pub fn from_env() -> Option<Toolkit> {
        let dir = PathBuf::from(env::var_os("CAIRN_TOOLKIT")?);
        let dir = dir.canonicalize().unwrap_or(dir);
        Some(Toolkit { dir, scratch: scratch() })
    }

    /// The folder of the libraries.
    pub fn lib64(&self) -> PathBuf {
        self.dir.join("lib64")
    }

    /// The folder of the headers.
    pub fn include(&self) -> PathBuf {
        self.dir.join("include")
    }

    /// A command with nothing in its environment that could change a result.
    pub fn bare(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.env_clear();
        for name in INHERITED {
            if let Some(value) = env::var_os(name) {
                command.env(name, value);
            }
        }
        command
    }

    /// The same with the toolkit's libraries in `LD_LIBRARY_PATH`.
    pub fn clean(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = self.bare(program);
        command.env("LD_LIBRARY_PATH", self.lib64());
        command
    }
}

/// The root of the repository.
pub fn root() -> PathBuf {
    let tests = env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    tests.parent().map(Path::to_path_buf).unwrap_or(tests)
}

/// `target/programs`, wherever the target folder of this build is.
pub fn scratch() -> PathBuf {
    let this = env::current_exe().unwrap_or_default();
    let target = this.ancestors().nth(3).map_or_else(|| root().join("target"), Path::to_path_buf);
    target.join("programs")
}

/// How long a program may take.
pub fn limit() -> Duration {
    let deep = env::var("CAIRN_TESTS").is_ok_and(|value| value == "deep");
    Duration::from_secs(if deep { 900 } else { 120 })
}
