//! `cargo xtask bench python`: calls from Python beside the same calls from C, as ratios.

use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context, Result, ensure};
use serde_json::json;

use crate::{step, venv};

/// Nanoseconds a call, by what is called.
type Figures = BTreeMap<String, f64>;

/// Runs both programs, prints nanoseconds and ratios, and writes them to `python.json` in `out`.
pub fn measure(root: &Path, toolkit: &Path, out: &Path) -> Result<()> {
    fs::create_dir_all(out)?;
    let folder = root.join("benches/python");
    let program = out.join("python-calls");
    let mut compile = Command::new("gcc");
    compile.args(["-O2", "-o"]).arg(&program).arg(folder.join("calls.c"));
    compile.arg("-I").arg(toolkit.join("include")).arg("-L").arg(toolkit.join("lib64"));
    step::run(compile.arg("-lascendcl"))?;
    let python = venv::ensure(root)?;
    let in_c = figures(toolkit, &[program.as_path()])?;
    let in_python = figures(toolkit, &[python.as_path(), &folder.join("calls.py")])?;
    let mut report = serde_json::Map::new();
    println!("{:24} {:>12} {:>12} {:>8}", "nanoseconds a call", "C", "Python", "ratio");
    let mut compare = |name: &str, c: f64, python: f64| {
        println!("{name:24} {c:12.0} {python:12.0} {:8.2}", python / c);
        report.insert(name.into(), json!({"c_ns": c, "python_ns": python, "ratio": python / c}));
    };
    for (name, c) in &in_c {
        let python =
            in_python.get(name).with_context(|| format!("calls.py does not report {name}"))?;
        compare(name, *c, *python);
    }
    let callbacks = |measured: &Figures| measured["sort_with_allocator"] - measured["sort"];
    match (callbacks(&in_c), callbacks(&in_python)) {
        (c, python) if c > 0.0 && python > 0.0 => compare("three callbacks", c, python),
        (c, python) => println!(
            "three callbacks cannot be distinguished from noise: {c:.0} ns in C, {python:.0} ns in Python; \
             measure on an idle machine"
        ),
    }
    fs::write(out.join("python.json"), serde_json::to_string_pretty(&report)?)?;
    Ok(())
}

fn figures(toolkit: &Path, words: &[&Path]) -> Result<Figures> {
    let mut command = Command::new(toolkit.join("bin/cairn"));
    command.args(["run", "--"]).args(words).stderr(Stdio::inherit());
    let output = command.output().with_context(|| format!("cannot start {command:?}"))?;
    ensure!(output.status.success(), "{command:?} failed: {}", output.status);
    let text = String::from_utf8(output.stdout)?;
    let mut measured = Figures::new();
    for line in text.lines() {
        let (name, number) =
            line.split_once(' ').with_context(|| format!("no figure in {line:?}"))?;
        measured.insert(name.into(), number.parse()?);
    }
    ensure!(
        measured.contains_key("sort") && measured.contains_key("sort_with_allocator"),
        "{command:?} reported too little"
    );
    Ok(measured)
}
