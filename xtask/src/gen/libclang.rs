//! The shared library that bindgen loads.

#[cfg(not(feature = "gen"))]
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

/// The variable that tells bindgen the folder of libclang.
pub const VARIABLE: &str = "LIBCLANG_PATH";

#[cfg(not(feature = "gen"))]
const VERSION: &str = "18.1.1";

/// The folder with `libclang.so`: that of `LIBCLANG_PATH`, else one in the cache, which is made
/// with the help of `python3 -m venv` when it is not there.
#[cfg(not(feature = "gen"))]
pub fn folder() -> Result<PathBuf> {
    if let Some(folder) = std::env::var_os(VARIABLE) {
        return Ok(folder.into());
    }
    let home = crate::cache::folder()?.join(format!("libclang-{VERSION}"));
    if !home.exists() {
        let new_home = home.with_extension(format!("{}.new", std::process::id()));
        run_checked(Command::new("python3").args(["-m", "venv"]).arg(&new_home))?;
        run_checked(
            Command::new(new_home.join("bin/python"))
                .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"])
                .arg(format!("libclang=={VERSION}")),
        )?;
        if std::fs::rename(&new_home, &home).is_err() {
            std::fs::remove_dir_all(&new_home)?;
        }
    }
    find(&home)?.with_context(|| format!("no libclang.so below {}", home.display()))
}

#[cfg(not(feature = "gen"))]
fn find(folder: &Path) -> Result<Option<PathBuf>> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_name() == "libclang.so" {
            return Ok(Some(folder.to_path_buf()));
        }
        if entry.file_type()?.is_dir()
            && let Some(found) = find(&entry.path())?
        {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// Runs a command and fails when it does.
pub fn run_checked(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("cannot run {command:?}"))?;
    ensure!(status.success(), "{command:?}: {status}");
    Ok(())
}

/// The folder of the compiler's own headers (`stddef.h`), which the wheel does not have.
#[cfg(feature = "gen")]
pub fn gcc_headers() -> Result<PathBuf> {
    let output = Command::new("gcc").arg("-print-file-name=include").output()?;
    let folder = PathBuf::from(String::from_utf8(output.stdout)?.trim());
    ensure!(folder.join("stddef.h").exists(), "gcc does not say where its headers are");
    Ok(folder)
}
