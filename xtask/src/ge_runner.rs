//! `libge_runner.so`: `cpp/` without `comm/` compiled against `libascendcl.so`.
//!
//! The library has the old string ABI (`_GLIBCXX_USE_CXX11_ABI=0`); what is in `cpp/string_abi` is compiled with the new one too. It has no
//! SONAME, is never unloaded, finds `libascendcl.so` beside it, and calls its own functions directly: programs bring
//! inline copies of some of them. Objects that are newer than their sources are kept.

use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::SystemTime,
};

use anyhow::{Context, Result, anyhow};

use crate::{comm, step, target_dir, toolkit::files_under};

/// The name of a library that torch_npu looks for in `LD_PRELOAD`.
pub const KERNEL_HOOK: &str = "libascend_kernel_hook.so";

const FLAGS: [&str; 6] = ["-std=c++17", "-O2", "-Wall", "-Wextra", "-fPIC", "-DCAIRN_GE_RUNNER"];

/// One source under one string ABI.
struct Unit {
    source: PathBuf,
    new_strings: bool,
    object: PathBuf,
}

/// Compiles what is not up to date; needs nothing of `libascendcl.so`.
pub fn compile(root: &Path) -> Result<()> {
    let out = folder(root);
    fs::create_dir_all(&out)?;
    let units = units(root, &out)?;
    let newest = newest_header(root)?;
    let outdated: Vec<&Unit> = units.iter().filter(|unit| !unit.is_newer_than(newest)).collect();
    compile_all(root, &compiler(), &outdated)
}

/// Links what [`compile`] made with `libascendcl.so` in `lib64`; returns the path of the library.
pub fn link(root: &Path, lib64: &Path) -> Result<PathBuf> {
    let out = folder(root);
    let library = out.join("libge_runner.so");
    let mut link = Command::new(compiler());
    let objects = units(root, &out)?.into_iter().map(|unit| unit.object);
    link.arg("-shared").args(objects).arg("-o").arg(&library);
    link.arg("-L").arg(lib64).args(["-Wl,-Bsymbolic-functions", "-Wl,--no-as-needed"]);
    link.args(["-lascendcl", "-Wl,-z,nodelete", "-Wl,-rpath,$ORIGIN"]);
    step::run(&mut link)?;
    Ok(library)
}

/// Compiles the command `atc`, which is a call of `libascendcl.so`; returns its path. It takes the library of its own
/// toolkit, whatever `LD_LIBRARY_PATH` says.
pub fn link_atc(root: &Path, lib64: &Path) -> Result<PathBuf> {
    let command = folder(root).join("atc");
    let mut link = Command::new(compiler());
    link.args(FLAGS).arg(root.join("cpp/tools/atc.cc")).arg("-o").arg(&command);
    link.arg("-L").arg(lib64).args(["-lascendcl", "-Wl,--disable-new-dtags"]);
    link.arg("-Wl,-rpath,$ORIGIN/../lib64");
    step::run(&mut link)?;
    Ok(command)
}

/// Compiles the library whose name in `LD_PRELOAD` lets torch_npu say which tensor has which memory; returns its path.
/// There is nothing in it.
pub fn link_kernel_hook(root: &Path) -> Result<PathBuf> {
    let library = folder(root).join(KERNEL_HOOK);
    let mut link = Command::new(compiler());
    link.args(["-shared", "-nostdlib", "-o"]).arg(&library).args(["-x", "c++", "/dev/null"]);
    step::run(&mut link)?;
    Ok(library)
}

fn folder(root: &Path) -> PathBuf {
    target_dir(root).join("cpp")
}

fn compiler() -> OsString {
    std::env::var_os("CXX").unwrap_or_else(|| "g++".into())
}

fn units(root: &Path, out: &Path) -> Result<Vec<Unit>> {
    let folder = root.join("cpp");
    let mut units = Vec::new();
    for source in files_under(&folder)? {
        let is_source = source.extension().is_some_and(|extension| extension == "cpp");
        if !is_source || source.starts_with(root.join(comm::SOURCES)) {
            continue;
        }
        let name = source.strip_prefix(&folder)?.to_string_lossy().replace(['/', '.'], "-");
        let takes_strings = source.starts_with(folder.join("string_abi"));
        for new_strings in [false, true].into_iter().filter(|new| takes_strings || !new) {
            let object = out.join(format!("{name}-{}.o", u8::from(new_strings)));
            units.push(Unit { source: source.clone(), new_strings, object });
        }
    }
    Ok(units)
}

/// When a header, or what this file says, last changed.
fn newest_header(root: &Path) -> Result<SystemTime> {
    let mut newest = fs::metadata(root.join("xtask/src/ge_runner.rs"))?.modified()?;
    for folder in [
        "cpp",
        "include/exe_graph",
        "include/ge",
        "include/graph",
        "include/parser",
        "include/register",
    ] {
        for file in files_under(&root.join(folder))? {
            let is_header = file.extension().is_some_and(|extension| extension == "h");
            if is_header && !file.starts_with(root.join(comm::SOURCES)) {
                newest = newest.max(fs::metadata(&file)?.modified()?);
            }
        }
    }
    Ok(newest)
}

impl Unit {
    fn is_newer_than(&self, headers: SystemTime) -> bool {
        let changed = |path: &Path| fs::metadata(path).and_then(|data| data.modified());
        match (changed(&self.object), changed(&self.source)) {
            (Ok(object), Ok(source)) => object > source && object > headers,
            _ => false,
        }
    }

    fn compile(&self, root: &Path, compiler: &OsString) -> Result<()> {
        let mut command = Command::new(compiler);
        command.args(FLAGS);
        command.arg(format!("-D_GLIBCXX_USE_CXX11_ABI={}", u8::from(self.new_strings)));
        command.arg("-I").arg(root.join("include"));
        command.arg("-c").arg(&self.source).arg("-o").arg(&self.object);
        let output = command.output().with_context(|| format!("cannot run {compiler:?}"))?;
        eprint!("{}", String::from_utf8_lossy(&output.stderr));
        if output.status.success() {
            return Ok(());
        }
        let _ = fs::remove_file(&self.object);
        Err(anyhow!("{} does not compile", self.source.display()))
    }
}

/// Compiles on as many threads as there are cores.
fn compile_all(root: &Path, compiler: &OsString, units: &[&Unit]) -> Result<()> {
    let threads = std::thread::available_parallelism().map_or(1, |count| count.get());
    let (next, failed) = (AtomicUsize::new(0), Mutex::new(None));
    std::thread::scope(|scope| {
        for _ in 0..threads.min(units.len()) {
            scope.spawn(|| {
                while let Some(unit) = units.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Err(error) = unit.compile(root, compiler) {
                        *failed.lock().expect("no thread panics while it holds the lock") =
                            Some(error);
                    }
                }
            });
        }
    });
    failed.into_inner().expect("no thread panics while it holds the lock").map_or(Ok(()), Err)
}
