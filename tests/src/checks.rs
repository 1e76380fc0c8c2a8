//! `cairn check` on the programs of `tests/check`: each breaks one rule, and its report is the file beside it; compiled
//! with `RIGHT` it has no findings. `CAIRN_BLESS=1` writes the reports again. A line `// tools: leak` at the top of a program
//! names the tools that it is checked with. Programs in `tests/check/right` have no findings.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

use anyhow::{Context, Result, anyhow, ensure};

use crate::{
    models,
    run::run,
    toolkit::{Toolkit, limit},
};

/// The programs that break a rule, by name.
pub fn all(root: &Path) -> Result<Vec<PathBuf>> {
    programs(&root.join("tests/check"))
}

/// The programs that look wrong and are right, by name.
pub fn right(root: &Path) -> Result<Vec<PathBuf>> {
    programs(&root.join("tests/check/right"))
}

fn programs(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut programs = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|ending| ending == "c" || ending == "cc") {
            programs.push(path);
        }
    }
    programs.sort();
    Ok(programs)
}

/// The report of the wrong program is the one beside it, and its right twin has none.
pub fn reports(toolkit: &Toolkit, source: &Path) -> Result<()> {
    let (wrong, right) = (check(toolkit, source, false)?, check(toolkit, source, true)?);
    ensure!(right.trim() == "cairn check: no findings", "the right program has findings:\n{right}");
    let golden = source.with_extension("txt");
    if env::var_os("CAIRN_BLESS").is_some() {
        fs::write(&golden, &wrong)?;
    }
    let expected = fs::read_to_string(&golden)
        .with_context(|| format!("no report in {}; CAIRN_BLESS=1 writes it", golden.display()))?;
    ensure!(wrong == expected, "expected:\n{expected}\nbut it is:\n{wrong}");
    Ok(())
}

/// A program of [`right`] has no findings.
pub fn has_no_findings(toolkit: &Toolkit, source: &Path) -> Result<()> {
    let report = check(toolkit, source, true)?;
    ensure!(report.trim() == "cairn check: no findings", "it has findings:\n{report}");
    Ok(())
}

/// Compiles and checks a program; its report without what differs from run to run.
fn check(toolkit: &Toolkit, source: &Path, right: bool) -> Result<String> {
    let stem = source.file_stem().unwrap_or_default().to_string_lossy();
    let suffix = if right { "-right" } else { "" };
    let is_cpp = source.extension().is_some_and(|ending| ending == "cc");
    fs::create_dir_all(&toolkit.scratch)?;
    let program = toolkit.scratch.join(format!("check-{stem}{suffix}"));
    let mut command = compiler(toolkit, is_cpp);
    if is_cpp {
        command.arg("-include").arg(precompiled(toolkit)?);
    }
    if right {
        command.arg("-DRIGHT");
    }
    command.arg(source).arg("-o").arg(&program).arg("-L").arg(toolkit.lib64());
    if is_cpp {
        command.args(["-lge_runner", "-lgraph"]);
    }
    command.arg("-lascendcl");
    run(&mut command, &program.with_extension("compile"), limit())?.expect(0)?;

    let report = program.with_extension("report");
    let mut command = toolkit.bare(toolkit.dir.join("bin/cairn"));
    command.args(["check", "--error-exitcode", "0"]);
    if let Some(tools) = tools(source)? {
        command.arg("--tool").arg(tools);
    }
    command.arg("--").arg(&program);
    command.env(models::VARIABLE, models::folder(&toolkit.scratch)?);
    let output = run(&mut command, &report, limit())?.expect(0)?;
    Ok(without_numbers(&without_foreign_frames(&output)))
}

/// The compiler with what all programs need.
fn compiler(toolkit: &Toolkit, is_cpp: bool) -> Command {
    let mut command = toolkit.bare(if is_cpp { "g++" } else { "gcc" });
    command.args(["-Wall", "-Wextra", "-Werror", "-O0", "-g", "-pthread", "-Winvalid-pch"]);
    if is_cpp {
        command.arg("-std=c++17");
    }
    command.arg("-I").arg(toolkit.include());
    command.arg("-I").arg(toolkit.dir.join("opp/built-in/op_graph/inc"));
    command
}

/// The headers that all programs of C++ include, compiled once: they take most of the time.
fn precompiled(toolkit: &Toolkit) -> Result<PathBuf> {
    static HEADER: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let compile = || -> Result<PathBuf> {
        fs::create_dir_all(&toolkit.scratch)?;
        let header = toolkit.scratch.join("check_headers.h");
        let names = ["ge/ge_api.h", "array_ops.h", "elewise_calculation_ops.h"];
        fs::write(&header, names.map(|name| format!("#include \"{name}\"\n")).concat())?;
        let mut command = compiler(toolkit, true);
        command
            .args(["-x", "c++-header"])
            .arg(&header)
            .arg("-o")
            .arg(header.with_extension("h.gch"));
        run(&mut command, &header.with_extension("compile"), limit())?.expect(0)?;
        Ok(header)
    };
    let header = HEADER.get_or_init(|| compile().map_err(|error| format!("{error:#}")));
    header.clone().map_err(|text| anyhow!("the headers do not compile: {text}"))
}

/// The tools that the first line names.
fn tools(source: &Path) -> Result<Option<String>> {
    let text = fs::read_to_string(source)?;
    let first = text.lines().next().unwrap_or_default();
    Ok(first.strip_prefix("// tools: ").map(str::to_owned))
}

/// Without frames of stacks that are not the program's.
fn without_foreign_frames(output: &str) -> String {
    let is_foreign_frame = |line: &str| {
        line.starts_with("        ") && !line.contains(".c:") && !line.contains(".cc:")
    };
    let lines = output.lines().filter(|line| !is_foreign_frame(line));
    lines.map(|line| format!("{line}\n")).collect()
}

/// The lines of a report, addresses and numbers of threads left out; what the program itself prints too.
pub(crate) fn without_numbers(output: &str) -> String {
    let lines = output.lines().filter(|line| !line.starts_with("aclop"));
    lines.map(|line| without_threads(&without_addresses(line)) + "\n").collect()
}

fn without_addresses(line: &str) -> String {
    let mut parts = line.split("0x");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        text += "0x..";
        text += part.trim_start_matches(|c: char| c.is_ascii_hexdigit());
    }
    text
}

fn without_threads(line: &str) -> String {
    let mut parts = line.split("thread ");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        text += "thread ";
        let rest = part.trim_start_matches(|c: char| c.is_ascii_digit());
        if rest.len() < part.len() {
            text += "N";
        }
        text += rest;
    }
    text
}
