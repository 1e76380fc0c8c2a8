//! `cargo xtask bench`: our figures beside the peers', in one run; JSON under `target/bench/`.

mod ops;
mod python;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};

use crate::{
    step::{self, announce, cargo},
    target_dir, toolkit, venv,
};

const BENCHES: [&str; 4] = ["runtime", "memory", "ops", "python"];

/// Runs the named bench, or all.
pub fn run(root: &Path, name: Option<&str>) -> Result<()> {
    if let Some(name) = name
        && !BENCHES.contains(&name)
    {
        bail!("no bench is named {name}: there are {}", BENCHES.join(", "));
    }
    let toolkit = toolkit::assemble(root, &toolkit::default_dir(root))?;
    let out = target_dir(root).join("bench");
    for bench in BENCHES.iter().filter(|b| name.is_none_or(|n| n == **b)) {
        announce(&format!("bench {bench}"));
        match *bench {
            "ops" => ops::measure(root, &toolkit, &out)?,
            "python" => python::measure(root, &toolkit, &out)?,
            _ => {
                let mut command = command(root, bench);
                step::run(command.env("CAIRN_TOOLKIT", &toolkit).env("CAIRN_BENCH_OUT", &out))?;
            }
        }
        println!("figures in {}", out.join(format!("{bench}.json")).display());
    }
    Ok(())
}

fn command(root: &Path, bench: &str) -> Command {
    let mut arguments = vec!["run", "--quiet", "--release", "-p", "cairn-benches"];
    if bench == "memory" {
        arguments.extend(["--features", "peers"]);
    }
    arguments.extend(["--", bench]);
    let mut command = cargo(root, &arguments);
    if bench == "memory" {
        // Some of the peers' build scripts take line tables for a debug build, and keep assertions in.
        for name in ["CFLAGS", "CXXFLAGS"] {
            let mut flags = std::env::var_os(name).unwrap_or_default();
            flags.push(" -DNDEBUG");
            command.env(name, flags);
        }
        match onnxruntime(root) {
            Ok(library) => drop(command.env("CAIRN_ONNXRUNTIME", library)),
            Err(error) => println!("without onnxruntime: {error:#}"),
        }
    }
    command
}

/// The library in the pinned wheel.
fn onnxruntime(root: &Path) -> Result<PathBuf> {
    let python = venv::environment(None, &root.join("benches/requirements-nodeps.txt"))?;
    let lib = python.parent().and_then(Path::parent).context("an environment")?.join("lib");
    let is_library = |path: &PathBuf| {
        path.file_name().is_some_and(|n| n.to_string_lossy().starts_with("libonnxruntime.so"))
    };
    for version in fs::read_dir(&lib).with_context(|| format!("cannot read {}", lib.display()))? {
        let folder = version?.path().join("site-packages/onnxruntime/capi");
        let Ok(entries) = fs::read_dir(&folder) else { continue };
        if let Some(path) = entries.filter_map(|e| e.ok().map(|e| e.path())).find(is_library) {
            return Ok(path);
        }
    }
    bail!("no libonnxruntime.so below {}", lib.display())
}
