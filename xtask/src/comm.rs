//! `libcairn_comm.so`: `cpp/comm/` compiled against Gloo, which moves bytes between ranks.
//!
//! In the toolkit it lies in `lib64/comm/` with Gloo and what Gloo needs, and finds them beside itself: its run path is of the old kind, which
//! also counts for what its dependencies need. Objects that are newer than their sources are kept.

use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::SystemTime,
};

use anyhow::Result;

use crate::{gloo, step, target_dir, toolkit::files_under};

/// The folder of the sources, which [`crate::ge_runner`] leaves out.
pub const SOURCES: &str = "cpp/comm";

const FLAGS: [&str; 6] = ["-std=c++17", "-O2", "-Wall", "-Wextra", "-fPIC", "-fvisibility=hidden"];

/// Compiles and links what is not up to date. The result is what the toolkit gets: files, and their names in it; nothing where there is no Gloo.
pub fn build(root: &Path) -> Result<Vec<(PathBuf, String)>> {
    let Some(gloo) = gloo::find(root)? else {
        return Ok(Vec::new());
    };
    let out = target_dir(root).join("comm");
    fs::create_dir_all(&out)?;
    let library = out.join("libcairn_comm.so");
    let (sources, newest_header) = sources(root)?;
    let (mut objects, mut newest_object) = (Vec::new(), newest_header);
    for source in &sources {
        let name =
            source.strip_prefix(root.join(SOURCES))?.to_string_lossy().replace(['/', '.'], "-");
        let object = out.join(format!("{name}.o"));
        if !is_newer(&object, changed(source)?.max(newest_header)) {
            let mut compile = Command::new(compiler());
            compile.args(FLAGS).arg("-isystem").arg(&gloo.include);
            compile.arg("-c").arg(source).arg("-o").arg(&object);
            step::run(&mut compile)?;
        }
        newest_object = newest_object.max(changed(&object)?);
        objects.push(object);
    }
    if !is_newer(&library, newest_object) {
        link(&objects, &gloo, &library)?;
    }
    let mut files = vec![(library, "lib64/comm/libcairn_comm.so".to_string())];
    files.extend(
        gloo.libraries.into_iter().map(|(name, path)| (path, format!("lib64/comm/{name}"))),
    );
    let licence = |(package, path)| (path, format!("lib64/comm/licences/{package}.txt"));
    files.extend(gloo.licences.into_iter().map(licence));
    Ok(files)
}

fn link(objects: &[PathBuf], gloo: &gloo::Gloo, library: &Path) -> Result<()> {
    let mut link = Command::new(compiler());
    link.arg("-shared").args(objects).arg(&gloo.libraries[0].1).arg("-o").arg(library);
    for (_, path) in &gloo.libraries {
        let mut search = OsString::from("-Wl,-rpath-link,");
        search.push(path.parent().unwrap_or(Path::new("/")));
        link.arg(search);
    }
    link.args([
        "-Wl,--no-undefined",
        "-Wl,-z,nodelete",
        "-Wl,--disable-new-dtags",
        "-Wl,-rpath,$ORIGIN",
    ]);
    step::run(&mut link)
}

/// The sources, and when a header of theirs, or what this file says, last changed.
fn sources(root: &Path) -> Result<(Vec<PathBuf>, SystemTime)> {
    let (mut sources, mut newest) = (Vec::new(), changed(&root.join("xtask/src/comm.rs"))?);
    for file in files_under(&root.join(SOURCES))? {
        match file.extension().and_then(|extension| extension.to_str()) {
            Some("cpp") => sources.push(file),
            Some("h") => newest = newest.max(changed(&file)?),
            _ => {}
        }
    }
    Ok((sources, newest))
}

fn compiler() -> OsString {
    std::env::var_os("CXX").unwrap_or_else(|| "g++".into())
}

fn changed(path: &Path) -> Result<SystemTime> {
    Ok(fs::metadata(path)?.modified()?)
}

fn is_newer(path: &Path, than: SystemTime) -> bool {
    changed(path).is_ok_and(|time| time > than)
}
