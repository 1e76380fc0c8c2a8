//! The files and boundaries that `ARCHITECTURE.md` describes.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, ensure};

/// The crates of the engine, which must not use C interfaces: doors translate for them.
const ENGINE: [&str; 7] = ["sync", "pool", "tensor", "ops", "runtime", "exec", "graph"];

/// Words of an interface in C.
const C_WORDS: [&str; 4] = ["extern \"C\"", "CString", "CStr", "c_char"];

/// Folders without files of the repository.
const IGNORED_FOLDERS: [&str; 2] = ["target", ".git"];

/// Every file that `ARCHITECTURE.md` names is there.
pub fn named_files_exist(root: &Path) -> Result<()> {
    let text = fs::read_to_string(root.join("ARCHITECTURE.md"))?;
    let mut files = Vec::new();
    walk(root, &mut files)?;
    let exists = |name: &str| files.iter().any(|file| file.ends_with(name));
    let named: Vec<&str> = text.split('`').skip(1).step_by(2).filter(|n| is_file(n)).collect();
    ensure!(named.len() > 50, "only {} files were found in the text", named.len());
    let missing: Vec<&str> = named.into_iter().filter(|name| !exists(name)).collect();
    ensure!(missing.is_empty(), "ARCHITECTURE.md names files that are not there: {missing:?}");
    Ok(())
}

/// Whether a text between two backquotes is the path of one file.
fn is_file(name: &str) -> bool {
    let endings = [".rs", ".txt", ".h", ".cpp", ".py", ".md", ".c", ".cc"];
    !name.contains(['{', ' ', '*', '<']) && endings.iter().any(|ending| name.ends_with(ending))
}

/// No file of the engine knows C, but for calls of the system.
pub fn engine_knows_no_c(root: &Path) -> Result<()> {
    let mut violations = Vec::new();
    for name in ENGINE {
        let mut files = Vec::new();
        walk(&root.join("crates").join(name).join("src"), &mut files)?;
        ensure!(!files.is_empty(), "crates/{name}/src has no files");
        for file in files {
            let text = fs::read_to_string(&file)?;
            let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().starts_with("//"));
            let bad = lines.filter(|(_, line)| C_WORDS.iter().any(|word| line.contains(word)));
            violations.extend(bad.map(|(index, _)| format!("{}:{}", file.display(), index + 1)));
        }
    }
    ensure!(violations.is_empty(), "the engine knows C: {violations:?}");
    Ok(())
}

fn walk(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    let entries = fs::read_dir(folder).with_context(|| format!("no {}", folder.display()))?;
    for entry in entries {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        match path.is_dir() {
            true if IGNORED_FOLDERS.contains(&name.as_str()) => {}
            true => walk(&path, files)?,
            false => files.push(path),
        }
    }
    Ok(())
}
