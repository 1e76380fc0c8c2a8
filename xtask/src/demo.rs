//! `cargo xtask demo`: a C++ program with its own pools and graphs on two streams, and the picture of its run.

use std::{fs, path::Path, process::Command};

use anyhow::{Context, Result, bail};

use crate::{
    step::{self, announce},
    target_dir, timeline, toolkit,
};

const SOURCE: &str = "examples/cpp/demo.cc";

/// Builds what it needs of the toolkit, compiles the program against it with lines for stacks, records it, draws what ran when, and ends with the page
/// of the record.
pub fn run(root: &Path) -> Result<()> {
    if !root.join(SOURCE).exists() {
        bail!("{SOURCE} is not there");
    }
    let out = target_dir(root).join("demo");
    fs::create_dir_all(&out)?;
    let toolkit = toolkit::assemble(root, &out.join("toolkit"), toolkit::Build::Demo)?;
    let (program, trace) = (out.join("demo"), out.join("trace.txt"));
    let _ = fs::remove_file(&trace);

    announce(&format!("g++ {SOURCE} -lge_runner -lgraph -lascendcl"));
    let mut compiler = Command::new(std::env::var_os("CXX").unwrap_or_else(|| "g++".into()));
    compiler
        .args(["-std=c++17", "-O1", "-g", "-Wall", SOURCE, "-o"])
        .arg(&program)
        .current_dir(root);
    compiler
        .arg("-I")
        .arg(toolkit.join("include"))
        .arg("-I")
        .arg(toolkit.join("opp/built-in/op_graph/inc"))
        .arg("-L")
        .arg(toolkit.join("lib64"))
        .args(["-lge_runner", "-lgraph", "-lascendcl"]);
    step::run(&mut compiler)?;

    let (record, page) = (out.join("demo.cairn"), out.join("demo.html"));
    let cairn = || {
        let mut command = Command::new(toolkit.join("bin/cairn"));
        command.current_dir(root);
        command
    };
    announce("cairn record -- demo");
    let mut demo = cairn();
    demo.args(["record", "--stacks", "-o"]).arg(&record).arg("--").arg(&program);
    step::run(demo.env("CAIRN_TRACE", &trace))?;

    announce("what ran when");
    let text = fs::read_to_string(&trace)
        .with_context(|| format!("the program left no {}", trace.display()))?;
    print!("{}", timeline::render(&timeline::parse(&text)?, 96));

    announce("cairn report: memory, addresses, streams");
    step::run(cairn().arg("report").arg(&record).arg("-o").arg(&page))?;
    Ok(())
}
