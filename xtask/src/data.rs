//! The data folder: facts about CANN and recorded data that lie outside of the repository.
//!
//! `CAIRN_DATA` names its root, which holds `facts/` and `data/`; without the variable it is `../shared` beside the
//! repository, if that is there. What needs it is skipped without it, and counted as skipped.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Result, ensure};

/// The variable that names the folder, for us and for the tests.
pub const VARIABLE: &str = "CAIRN_DATA";

/// The folder, absolute; `None` when there is none. A variable that names no such folder is an error.
pub fn folder(root: &Path) -> Result<Option<PathBuf>> {
    find(std::env::var_os(VARIABLE), root)
}

fn find(value: Option<OsString>, root: &Path) -> Result<Option<PathBuf>> {
    let is_data_folder =
        |folder: &Path| folder.join("facts").is_dir() && folder.join("data").is_dir();
    if let Some(value) = value.filter(|value| !value.is_empty()) {
        let folder = PathBuf::from(value);
        ensure!(
            is_data_folder(&folder),
            "{VARIABLE}={}: there are no folders `facts` and `data` in it",
            folder.display()
        );
        return Ok(Some(folder.canonicalize()?));
    }
    let sibling = root.join("../shared");
    Ok(if is_data_folder(&sibling) { Some(sibling.canonicalize()?) } else { None })
}

/// A table of facts, if it is there.
#[cfg(feature = "table")]
pub fn facts(root: &Path, name: &str) -> Result<Option<PathBuf>> {
    let file = folder(root)?.map(|folder| folder.join("facts").join(name));
    Ok(file.filter(|file| file.exists()))
}

/// Sets the variable for a command of the tests, or removes it when there is no folder.
pub fn set_variable(command: &mut Command, root: &Path) -> Result<()> {
    match folder(root)? {
        Some(folder) => command.env(VARIABLE, folder),
        None => command.env_remove(VARIABLE),
    };
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn the_variable_comes_before_the_neighbour() {
        let dir = std::env::temp_dir().join(format!("cairn-data-{}", std::process::id()));
        for folder in ["root", "shared/facts", "shared/data", "other/facts", "other/data", "wrong"]
        {
            fs::create_dir_all(dir.join(folder)).unwrap();
        }
        let dir = dir.canonicalize().unwrap();
        let root = dir.join("root");
        let value = |name: &str| Some(dir.join(name).into_os_string());
        assert_eq!(find(None, &root).unwrap(), Some(dir.join("shared")));
        assert_eq!(find(Some(OsString::new()), &root).unwrap(), Some(dir.join("shared")));
        assert_eq!(find(value("other"), &root).unwrap(), Some(dir.join("other")));
        assert!(
            find(value("wrong"), &root).unwrap_err().to_string().contains("wrong: there are no")
        );
        fs::remove_dir_all(dir.join("shared")).unwrap();
        assert_eq!(find(None, &root).unwrap(), None);
        fs::remove_dir_all(dir).unwrap();
    }
}
