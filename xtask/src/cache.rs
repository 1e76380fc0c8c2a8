//! Where downloaded tools and environments are kept between runs and worktrees.

use std::{ffi::OsString, path::PathBuf};

use anyhow::{Context, Result};

/// The cache folder of this user; made if it is not there.
pub fn folder() -> Result<PathBuf> {
    let get = std::env::var_os;
    let folder = cache_dir(get("CAIRN_CACHE"), get("XDG_CACHE_HOME"), get("HOME"))?;
    std::fs::create_dir_all(&folder)
        .with_context(|| format!("cannot make {}", folder.display()))?;
    Ok(folder)
}

/// The cache folder: `$CAIRN_CACHE`, else `$XDG_CACHE_HOME/cairn`, else `$HOME/.cache/cairn`. Empty means unset, and a
/// relative `XDG_CACHE_HOME` does not count, as its specification has it.
fn cache_dir(
    cairn: Option<OsString>,
    xdg: Option<OsString>,
    home: Option<OsString>,
) -> Result<PathBuf> {
    let set = |value: Option<OsString>| value.filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(dir) = set(cairn) {
        return std::path::absolute(&dir).with_context(|| format!("CAIRN_CACHE={}", dir.display()));
    }
    if let Some(dir) = set(xdg).filter(|dir| dir.is_absolute()) {
        return Ok(dir.join("cairn"));
    }
    let home = set(home).context("no cache folder: set HOME, XDG_CACHE_HOME or CAIRN_CACHE")?;
    Ok(home.join(".cache/cairn"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn cache_folder_in_order_of_precedence() {
        let dir = |cairn: &str, xdg: &str, home: &str| {
            cache_dir(Some(cairn.into()), Some(xdg.into()), Some(home.into()))
        };
        assert_eq!(dir("/c", "/x", "/h").unwrap(), Path::new("/c"));
        assert_eq!(dir("", "/x", "/h").unwrap(), Path::new("/x/cairn"));
        assert_eq!(dir("", "x", "/h").unwrap(), Path::new("/h/.cache/cairn"));
        assert_eq!(dir("", "", "/h").unwrap(), Path::new("/h/.cache/cairn"));
        assert!(dir("c", "", "/h").unwrap().is_absolute());
        assert!(cache_dir(None, None, None).unwrap_err().to_string().contains("CAIRN_CACHE"));
    }
}
