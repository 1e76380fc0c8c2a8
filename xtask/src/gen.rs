//! `cargo xtask gen`: what is derived from the table of operators, and from the C headers in `include/`.
//!
//! | file | content |
//! |---|---|
//! | `crates/ascendcl/aclnn.txt` | the signature of every operator of the table |
//! | `crates/ascendcl/src/aclnn/exports.rs` | the functions of every operator |
//! | `include/aclnnop/*.h` | their declarations |
//! | `cpp/operators.txt` | what the IR declares of every operator of the table |
//! | `opp/built-in/op_graph/inc/*.h` | a class for each |
//! | `crates/ascendcl/src/abi.rs` | types, constants, a type per function, the list of functions |
//! | `tests/golden/abi/values.csv` | every constant of the headers; existing rows are kept |
//! | `tests/golden/abi/sizes.csv` | every struct and union of the headers; likewise |
//!
//! The headers are read by bindgen, which needs libclang; the PyPI wheel of that name is put into
//! the user's cache folder once. bindgen and the operators are large, so they are dependencies only with the
//! features `gen` and `table`: a plain build of xtask runs itself again with each.

use std::path::Path;

use anyhow::Result;

#[cfg(feature = "gen")]
mod abi;
#[cfg(feature = "table")]
mod aclnn;
#[cfg(feature = "gen")]
mod golden;
mod libclang;
#[cfg(feature = "table")]
mod op_classes;

/// Writes what is derived from the table of operators.
#[cfg(feature = "table")]
pub fn operators(root: &Path, check: bool) -> Result<()> {
    let mut files = aclnn::files(root)?;
    let mut obsolete = aclnn::obsolete_files(root, &files)?;
    let classes = op_classes::files(root)?;
    obsolete.extend(op_classes::obsolete_files(root, &classes)?);
    files.extend(classes);
    for name in obsolete {
        anyhow::ensure!(!check, "{name} belongs to no operator: run `cargo xtask gen`");
        std::fs::remove_file(root.join(&name))?;
        println!("removed {name}");
    }
    files.iter().try_for_each(|(name, text)| write(root, name, text, check))
}

/// Writes what is derived from the table of operators.
#[cfg(not(feature = "table"))]
pub fn operators(root: &Path, check: bool) -> Result<()> {
    libclang::run_checked(&mut rerun_with_feature(root, "table", &["--operators"], check))
}

/// Writes the derived files below `root`. With `check`, writes nothing and fails if a file is
/// out of date.
#[cfg(not(feature = "gen"))]
pub fn run(root: &Path, check: bool) -> Result<()> {
    operators(root, check)?;
    let mut command = rerun_with_feature(root, "gen", &[], check);
    libclang::run_checked(command.env(libclang::VARIABLE, libclang::folder()?))
}

/// This command again, built with a feature.
#[cfg(not(all(feature = "gen", feature = "table")))]
fn rerun_with_feature(
    root: &Path,
    feature: &str,
    arguments: &[&str],
    check: bool,
) -> std::process::Command {
    let mut cargo = std::process::Command::new(env!("CARGO"));
    cargo
        .current_dir(root)
        .args(["run", "--quiet", "--package", "xtask", "--features", feature, "--", "gen"])
        .args(arguments)
        .args(check.then_some("--check"));
    cargo
}

#[cfg(feature = "gen")]
const VALUES: &str = "tests/golden/abi/values.csv";
#[cfg(feature = "gen")]
const SIZES: &str = "tests/golden/abi/sizes.csv";

/// Writes the derived files below `root`. With `check`, writes nothing and fails if a file is
/// out of date.
#[cfg(feature = "gen")]
pub fn run(root: &Path, check: bool) -> Result<()> {
    anyhow::ensure!(
        std::env::var_os(libclang::VARIABLE).is_some(),
        "run `cargo xtask gen`, which finds libclang"
    );
    let headers = abi::Headers::read(root)?;
    let files = [
        ("crates/ascendcl/src/abi.rs", headers.rust()?),
        ("crates/ascendcl/src/ge/abi.rs", abi::Headers::bridge(root)?.types("cpp/bridge.h")?),
        (VALUES, golden::extend(root, VALUES, &golden::values(&headers.items))?),
        (SIZES, golden::extend(root, SIZES, &golden::sizes(&headers.items))?),
    ];
    files.iter().try_for_each(|(name, text)| write(root, name, text, check))
}

/// Files of a folder that are there and would not be written.
#[cfg(feature = "table")]
fn obsolete_files(root: &Path, folder: &str, files: &[(String, String)]) -> Result<Vec<String>> {
    let mut obsolete = Vec::new();
    let Ok(entries) = std::fs::read_dir(root.join(folder)) else { return Ok(obsolete) };
    for entry in entries {
        let name = format!("{folder}/{}", entry?.file_name().to_string_lossy());
        if !files.iter().any(|(file, _)| *file == name) {
            obsolete.push(name);
        }
    }
    Ok(obsolete)
}

#[cfg(any(feature = "gen", feature = "table"))]
fn write(root: &Path, name: &str, text: &str, check: bool) -> Result<()> {
    let path = root.join(name);
    if std::fs::read_to_string(&path).is_ok_and(|old| old == text) {
        return Ok(());
    }
    anyhow::ensure!(!check, "{name} is not up to date: run `cargo xtask gen`");
    std::fs::create_dir_all(path.parent().expect("the path has a folder"))?;
    std::fs::write(&path, text)?;
    println!("wrote {name}");
    Ok(())
}
