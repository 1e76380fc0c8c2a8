//! `cargo xtask demo`: a C program on two devices and four streams, and the picture of its run.

use std::{fs, path::Path, process::Command};

use anyhow::{Context, Result, bail};

use crate::{
    step::{self, announce},
    target_dir, timeline, toolkit,
};

const SOURCE: &str = "examples/c/timeline.c";

/// Builds the toolkit, compiles the program against it, runs it with a trace, draws the trace.
pub fn run(root: &Path) -> Result<()> {
    if !root.join(SOURCE).exists() {
        bail!("{SOURCE} is not there");
    }
    let toolkit = toolkit::assemble(root, &toolkit::default_dir(root))?;
    let out = target_dir(root).join("demo");
    fs::create_dir_all(&out)?;
    let (program, trace) = (out.join("timeline"), out.join("trace.txt"));
    let _ = fs::remove_file(&trace);

    announce(&format!("gcc {SOURCE} -lascendcl"));
    let mut compiler = Command::new(std::env::var_os("CC").unwrap_or_else(|| "gcc".into()));
    compiler.args(["-O2", "-Wall", SOURCE, "-o"]).arg(&program).current_dir(root);
    compiler
        .arg("-I")
        .arg(toolkit.join("include"))
        .arg("-L")
        .arg(toolkit.join("lib64"))
        .arg("-lascendcl");
    step::run(&mut compiler)?;

    announce("cairn run -- timeline");
    let mut demo = Command::new(toolkit.join("bin/cairn"));
    step::run(demo.args(["run", "--"]).arg(&program).env("CAIRN_TRACE", &trace).current_dir(root))?;

    announce("what ran when");
    let text = fs::read_to_string(&trace)
        .with_context(|| format!("the program left no {}", trace.display()))?;
    print!("{}", timeline::render(&timeline::parse(&text)?, 96));
    Ok(())
}
