//! `cargo xtask bench ops`: PyTorch's operators on `npu` beside its own on `cpu`.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::Rows;
use crate::{
    step::{announce, run},
    venv,
};

/// What one process measures.
enum Measurement {
    /// Calls on both sides.
    Calls,
    /// A tiny addition.
    Tiny,
    /// The same, with operators that do nothing.
    Idle,
}

/// Measures with one and two threads and writes `ops.json` below `out`, or `ops_rows.json` if only some rows were asked for. Returns
/// the file.
pub fn measure(root: &Path, toolkit: &Path, out: &Path, rows: &Rows) -> Result<PathBuf> {
    let python = venv::ensure(root)?;
    let folder = root.join("benches/ops");
    let build = out.join("ops");
    let custom = build.join("idle/op_api/lib");
    fs::create_dir_all(&custom).with_context(|| format!("cannot make {}", custom.display()))?;
    let include = format!("-I{}", toolkit.join("include").display());
    let lib = format!("-L{}", toolkit.join("lib64").display());
    let door = build.join("door.so");
    let mut gcc = Command::new("gcc");
    gcc.args(["-O2", "-shared", "-fPIC", &include, "-o"]).arg(&door);
    run(gcc.arg(folder.join("door.c")).args([lib.as_str(), "-lascendcl"]))?;
    let mut gcc = Command::new("gcc");
    gcc.args(["-O2", "-shared", "-fPIC", "-o"]).arg(custom.join("libcust_opapi.so"));
    run(gcc.arg(folder.join("idle.c")))?;
    let figures_of = |threads: usize, measurement: &Measurement| -> Result<Value> {
        let mut command = Command::new(toolkit.join("bin/cairn"));
        command.args(["run", "--"]).arg(&python).arg(folder.join("ops.py"));
        command.env("CAIRN_WORKERS", threads.to_string()).env("CAIRN_BENCH_DOOR", &door);
        if rows.processor_time {
            command.arg("--processor-time");
        }
        if let Some(only) = &rows.only {
            command.args(["--only", only]);
        }
        match measurement {
            Measurement::Calls => drop(command.env("TASK_QUEUE_ENABLE", "0")),
            Measurement::Tiny => drop(command.arg("--tiny")),
            Measurement::Idle => {
                command.arg("--tiny").env("ASCEND_CUSTOM_OPP_PATH", build.join("idle"));
            }
        }
        let output = command.output().context("cannot start python")?;
        let text = String::from_utf8_lossy(&output.stdout);
        let last = text.lines().last().unwrap_or_default();
        serde_json::from_str(last).with_context(|| {
            format!("ops.py failed: {text}{}", String::from_utf8_lossy(&output.stderr))
        })
    };
    let mut results = Vec::new();
    for threads in [1, 2] {
        announce(&format!("operators, {threads} thread(s)"));
        let mut figures = figures_of(threads, &Measurement::Calls)?;
        let measured = figures["rows"].as_array().map_or(&[][..], |rows| rows);
        if measured.is_empty() {
            bail!("no row of bench ops has {:?} in its name", rows.only.as_deref().unwrap_or(""));
        }
        for row in measured {
            let (ratio, goal) = (row["ratio"].as_f64().unwrap_or(f64::NAN), row["goal"].as_f64());
            let verdict = match goal {
                Some(goal) if ratio <= goal => format!("goal {goal}: met"),
                Some(goal) => format!("goal {goal}: not met"),
                None => String::new(),
            };
            println!(
                "{:34} npu {:10.1} us  cpu {:10.1} us  {ratio:5.2}x  {verdict}",
                row["name"].as_str().unwrap_or_default(),
                row["npu_us"].as_f64().unwrap_or(f64::NAN),
                row["cpu_us"].as_f64().unwrap_or(f64::NAN),
            );
        }
        if rows.only.is_some() {
            results.push(figures);
            continue;
        }
        let tiny = figures_of(threads, &Measurement::Tiny)?;
        let idle = figures_of(threads, &Measurement::Idle)?;
        let ns = |value: &Value| value["tiny_ns"].as_f64().unwrap_or(f64::NAN);
        let share = ns(&tiny) - ns(&idle);
        println!(
            "tiny x+y: {:.0} ns, {:.0} ns with operators that do nothing; our share {share:.0} ns (goal 1000)",
            ns(&tiny),
            ns(&idle)
        );
        figures["tiny_ns"] = tiny["tiny_ns"].clone();
        figures["idle_ns"] = idle["tiny_ns"].clone();
        figures["share_ns"] = json!(share);
        results.push(figures);
    }
    let file = out.join(if rows.only.is_some() { "ops_rows.json" } else { "ops.json" });
    fs::write(&file, serde_json::to_string_pretty(&results)?)
        .with_context(|| format!("cannot write {}", file.display()))?;
    Ok(file)
}
