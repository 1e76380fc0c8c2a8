//! `cargo xtask bench`: our figures beside the peers', in one run; JSON under `target/bench/`.

mod comm;
mod modes;
mod ops;
mod python;
mod record;
mod sharing;

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

const BENCHES: [&str; 9] =
    ["runtime", "memory", "ops", "python", "record", "sharing", "graph", "models", "comm"];

/// Which rows `bench ops` measures, and how.
#[derive(Default)]
pub struct Rows {
    /// Those whose names contain this, instead of all.
    pub only: Option<String>,
    /// By the processor time of the process instead of elapsed time.
    pub processor_time: bool,
}

/// Runs the named bench, or all.
pub fn run(root: &Path, name: Option<&str>, rows: &Rows) -> Result<()> {
    if let Some(name) = name
        && !BENCHES.contains(&name)
    {
        bail!("no bench is named {name}: there are {}", BENCHES.join(", "));
    }
    if (rows.only.is_some() || rows.processor_time) && name != Some("ops") {
        bail!("--only and --processor-time are options of the bench ops");
    }
    let toolkit = toolkit::assemble(root, &toolkit::default_dir(root), toolkit::Build::Release)?;
    let out = target_dir(root).join("bench");
    for bench in BENCHES.iter().filter(|b| name.is_none_or(|n| n == **b)) {
        announce(&format!("bench {bench}"));
        match *bench {
            "ops" => {
                let figures = ops::measure(root, &toolkit, &out, rows)?;
                println!("figures in {}", figures.display());
                continue;
            }
            "python" => python::measure(root, &toolkit, &out)?,
            "models" => models(root, &toolkit, &out)?,
            "sharing" => sharing::measure(root, &toolkit, &out)?,
            "comm" => comm::measure(root, &toolkit, &out)?,
            _ => {
                let mut command = command(root, bench);
                step::run(command.env("CAIRN_TOOLKIT", &toolkit).env("CAIRN_BENCH_OUT", &out))?;
                if *bench == "record" {
                    record::measure(root, &toolkit, &out)?;
                }
            }
        }
        println!("figures in {}", out.join(format!("{bench}.json")).display());
    }
    Ok(())
}

fn command(root: &Path, bench: &str) -> Command {
    let mut arguments = vec!["run", "--quiet", "--release", "-p", "cairn-benches"];
    match bench {
        "memory" => arguments.extend(["--features", "peers"]),
        "graph" => arguments.extend(["--features", "graphs"]),
        _ => {}
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
    }
    if bench == "graph" {
        match tract(root) {
            Ok(program) => drop(command.env("CAIRN_BENCH_TRACT", program)),
            Err(error) => println!("without tract: {error:#}"),
        }
        match venv::ensure(root) {
            Ok(python) => drop(command.env("CAIRN_BENCH_PYTHON", python)),
            Err(error) => println!("without PyTorch: {error:#}"),
        }
    }
    if matches!(bench, "memory" | "graph") {
        match onnxruntime(root) {
            Ok(library) => drop(command.env("CAIRN_ONNXRUNTIME", library)),
            Err(error) => println!("without onnxruntime: {error:#}"),
        }
    }
    command
}

/// Writes the models on first use, and runs them here and in ONNX Runtime.
fn models(root: &Path, toolkit: &Path, out: &Path) -> Result<()> {
    let folder = out.join("models");
    let mut export = Command::new(venv::ensure(root)?);
    export.arg(root.join("benches/models/export.py")).arg(&folder);
    step::run(export.env("TORCH_DEVICE_BACKEND_AUTOLOAD", "0"))?;
    let mut command = command(root, "models");
    command.env("CAIRN_ONNXRUNTIME", onnxruntime(root)?).env("CAIRN_BENCH_MODELS", &folder);
    step::run(command.env("CAIRN_TOOLKIT", toolkit).env("CAIRN_BENCH_OUT", out))
}

/// The program that runs chains in tract; built on first use, which takes some minutes.
fn tract(root: &Path) -> Result<PathBuf> {
    let build = ["build", "--quiet", "--profile", "peer", "-p", "cairn-benches"];
    step::run(cargo(root, &build).args(["--features", "tract", "--bin", "tract-chain"]))?;
    Ok(target_dir(root).join("peer/tract-chain"))
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
