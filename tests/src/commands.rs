//! `cairn run`, `cairn doctor`, `npu-smi` and `atc` on a toolkit.

use std::{
    fs,
    io::{BufRead, BufReader},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::Stdio,
};

use anyhow::{Context, Result, ensure};

use crate::{
    program::Program,
    run::{Outcome, run, wait},
    toolkit::{Toolkit, limit, root},
};

/// Runs a command of the toolkit.
fn call(toolkit: &Toolkit, name: &str, arguments: &[&str]) -> Result<Outcome> {
    fs::create_dir_all(&toolkit.scratch)?;
    let mut command = toolkit.bare(toolkit.dir.join("bin").join(name));
    command.args(arguments);
    let log = format!("{name}-{}.log", arguments.join("-").replace(['/', ' '], "_"));
    run(&mut command, &toolkit.scratch.join(log.chars().take(200).collect::<String>()), limit())
}

/// A program of `tests/c/support`.
fn support(name: &str) -> Result<Program> {
    Program::read("support", root().join("tests/c/support").join(name))
}

/// `cairn run` gives a program the toolkit, its arguments and its exit status.
pub fn cairn_run(toolkit: &Toolkit) -> Result<()> {
    let program = support("first.c")?.build(toolkit)?;
    let output = call(toolkit, "cairn", &["run", "--", &program.display().to_string()])?;
    let output = output.expect(0)?;
    ensure!(output.contains("2 devices"), "{output}");
    let script = "echo \"home=$ASCEND_HOME_PATH 1=$1\"; exit 7";
    let output = call(toolkit, "cairn", &["run", "--", "sh", "-c", script, "sh", "--flag"])?;
    let output = output.expect(7)?;
    let expected = format!("home={} 1=--flag", toolkit.dir.display());
    ensure!(output.contains(&expected), "expected {expected}\n{output}");
    let output = call(toolkit, "cairn", &["run", "--", "/no/such/program"])?;
    ensure!(output.status.is_some_and(|status| !status.success()), "it ran?\n{}", output.output);
    ensure!(output.output.contains("/no/such/program"), "{}", output.output);
    Ok(())
}

/// `npu-smi info -l` lists the devices, `-t board` describes one, a wrong id is refused.
pub fn smi_list(toolkit: &Toolkit) -> Result<()> {
    let list = call(toolkit, "npu-smi", &["info", "-l"])?.expect(0)?;
    let count = list.lines().find(|line| line.contains("Total Count")).unwrap_or_default();
    ensure!(count.trim_end().ends_with(": 2"), "{list}");
    ensure!(list.matches("NPU ID").count() == 2, "{list}");
    let board = call(toolkit, "npu-smi", &["info", "-t", "board", "-i", "1"])?.expect(0)?;
    ensure!(board.contains("NPU ID") && board.contains(": 1"), "{board}");
    call(toolkit, "npu-smi", &["info", "-t", "board", "-i", "9"])?.expect(1)?;
    Ok(())
}

/// A program that has 1 GiB of device 1 is in the table of processes while it runs.
pub fn smi_live(toolkit: &Toolkit) -> Result<()> {
    let program = support("hold.c")?.build(toolkit)?;
    let mut command = toolkit.clean(&program);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .context("cannot start the program that holds memory")?;
    let pid = child.id().to_string();
    let mut line = String::new();
    let output = child.stdout.take().context("the program has an output")?;
    BufReader::new(output).read_line(&mut line)?;
    let table = call(toolkit, "npu-smi", &["info"]).and_then(|outcome| outcome.expect(0));
    drop(child.stdin.take());
    let status = wait(&mut child, limit())?;
    ensure!(line.trim() == "READY", "the program said: {line}");
    ensure!(status.is_some_and(|status| status.success()), "the program ended with {status:?}");

    let table = table?;
    let rows = process_rows(&table, &pid);
    ensure!(!rows.is_empty(), "no row for process {pid}\n{table}");
    let memory: Vec<_> = rows.iter().filter(|(npu, _)| *npu == 1).map(|(_, mib)| *mib).collect();
    ensure!(memory.len() == 1, "process {pid} is not on device 1\n{table}");
    ensure!((1024..1100).contains(&memory[0]), "process {pid} holds {} MB\n{table}", memory[0]);
    let after = call(toolkit, "npu-smi", &["info"])?.expect(0)?;
    ensure!(process_rows(&after, &pid).is_empty(), "process {pid} is still there\n{after}");
    Ok(())
}

/// A program that works on streams, with pool and allocator, says so when `cairn top` asks.
pub fn top(toolkit: &Toolkit) -> Result<()> {
    let program = support("busy.c")?.build(toolkit)?;
    let mut command = toolkit.clean(&program);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.process_group(0).spawn().context("cannot start the busy program")?;
    let pid = child.id().to_string();
    let mut line = String::new();
    let output = child.stdout.take().context("the program has an output")?;
    BufReader::new(output).read_line(&mut line)?;
    let ask = |words: &[&str]| call(toolkit, "cairn", words).and_then(|outcome| outcome.expect(0));
    let (text, json) = (ask(&["top", "--pid", &pid]), ask(&["top", "--json", "--pid", &pid]));
    drop(child.stdin.take());
    let status = wait(&mut child, limit())?;
    ensure!(line.trim() == "READY", "the program said: {line}");
    ensure!(status.is_some_and(|status| status.success()), "the program ended with {status:?}");

    let (text, json) = (text?, json?);
    let row = |start: &str| {
        let is_row =
            |line: &&str| line.starts_with(start) && line.split_whitespace().any(|w| w == pid);
        text.lines().find(is_row).with_context(|| format!("no row {start:?}\n{text}"))
    };
    ensure!(row("  support-busy")?.split_whitespace().rev().take(2).eq(["-", "3"]), "{text}");
    ensure!(row("  1 of device 1, built in ")?.contains("1.00 MiB"), "{text}");
    ensure!(row("  0x")?.split_whitespace().rev().take(3).eq(["2", "3", "1"]), "{text}");
    // A gate and two tasks after it wait; the stream of the pool is idle.
    ensure!(json.contains("\"answered\": true"), "{json}");
    ensure!(json.contains("\"submitted\": 3") && json.contains("\"finished\": 0"), "{json}");
    let text = call(toolkit, "cairn", &["top", "--once", "--pid", &pid])?.expect(1)?;
    ensure!(text.contains(&format!("no process {pid} uses a device")), "{text}");
    Ok(())
}

/// Device and megabytes of each row of the process table that names the process.
fn process_rows(table: &str, pid: &str) -> Vec<(u32, u64)> {
    let cells = |line: &str| -> Vec<String> {
        line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect()
    };
    let rows = table.lines().map(cells).filter(|row| row.len() == 4 && row[1] == pid);
    rows.filter_map(|row| {
        Some((row[0].split_whitespace().next()?.parse().ok()?, row[3].parse().ok()?))
    })
    .collect()
}

/// `cairn doctor` says which symbols a library lacks, and does not load it.
pub fn doctor(toolkit: &Toolkit) -> Result<()> {
    let mark = toolkit.scratch.join("doctor-loaded");
    let _ = fs::remove_file(&mark);
    let good = "extern int aclInit(const char *);\nint f(void) { return aclInit(0); }\n";
    let good = library(toolkit, "doctor_good", &mark, good)?;
    let bad = "extern int aclInit(const char *), aclFoo(void), HcclRawOpen(void), mine(void);\n\
               extern void *dlsym(void *, const char *);\n\
               int f(void) { return aclInit(0) + aclFoo() + HcclRawOpen() + mine() + !dlsym(0, \"aclrtBar\"); }\n";
    let bad = library(toolkit, "doctor_bad", &mark, bad)?;
    let good = good.display().to_string();
    let text = call(toolkit, "cairn", &["doctor", &good])?.output;
    let line = text.lines().find(|line| line.contains("doctor_good")).unwrap_or_default();
    ensure!(
        line.contains("of 1 symbols") && line.contains("1 work, 0 refuse, 0 are absent"),
        "{text}"
    );
    let text = call(toolkit, "cairn", &["doctor", &bad.display().to_string()])?.expect(1)?;
    ensure!(
        text.contains("of 3 symbols") && text.contains("1 work, 1 refuse, 1 are absent"),
        "{text}"
    );
    for name in ["aclFoo", "HcclRawOpen", "aclrtBar"] {
        ensure!(text.contains(name), "{name} is not reported\n{text}");
    }
    ensure!(!text.contains("mine") && !text.contains("aclInit"), "{text}");
    let text = call(toolkit, "cairn", &["doctor", "/no/such.so"])?.expect(1)?;
    ensure!(text.contains("/no/such.so"), "{text}");
    ensure!(!mark.exists(), "the doctor loaded a library");
    Ok(())
}

/// A shared library that leaves a mark when it is loaded.
fn library(toolkit: &Toolkit, name: &str, mark: &Path, body: &str) -> Result<PathBuf> {
    fs::create_dir_all(&toolkit.scratch)?;
    let source = toolkit.scratch.join(format!("{name}.c"));
    let path = toolkit.scratch.join(format!("{name}.so"));
    let text = format!(
        "#include <stdio.h>\n__attribute__((constructor)) static void mark(void)\n{{\n    \
         FILE *file = fopen(\"{}\", \"w\");\n    if (file)\n        fclose(file);\n}}\n{body}",
        mark.display()
    );
    fs::write(&source, text)?;
    let mut command = toolkit.bare("gcc");
    command.args(["-shared", "-fPIC"]).arg(&source).arg("-o").arg(&path);
    run(&mut command, &source.with_extension("log"), limit())?.expect(0)?;
    Ok(path)
}

/// `atc` converts a model whatever libraries are in the environment, and its status says whether it did.
pub fn atc(toolkit: &Toolkit) -> Result<()> {
    fs::create_dir_all(&toolkit.scratch)?;
    let model = toolkit.scratch.join("atc.onnx");
    fs::write(&model, negative_of_input())?;
    let output = toolkit.scratch.join("atc_net");
    let om = toolkit.scratch.join("atc_net.om");
    let _ = fs::remove_file(&om);
    let (model, output) =
        (format!("--model={}", model.display()), format!("--output={}", output.display()));
    let words = [model.as_str(), &output, "--framework=5", "--soc_version=Ascend310P3"];
    let text = call(toolkit, "atc", &words)?.expect(0)?;
    ensure!(text.contains("ATC start working now") && text.contains("ATC run success"), "{text}");
    ensure!(fs::read(&om)?.starts_with(b"IMOD"), "{} is no model", om.display());
    let text = call(toolkit, "atc", &["--mode=6", &format!("--om={}", om.display())])?.expect(0)?;
    ensure!(text.contains("Display Model Info start") && text.contains("Ascend310P3"), "{text}");
    let words = [words[0], words[1], words[2], words[3], "--input_shape=z:1"];
    let text = call(toolkit, "atc", &words)?.expect(255)?;
    ensure!(text.contains("ATC run failed") && text.contains("E10016"), "{text}");
    let text = call(toolkit, "atc", &["--no_such_flag=1"])?.expect(255)?;
    ensure!(text.contains("ERROR: ") && text.contains("--no_such_flag=1"), "{text}");
    call(toolkit, "atc", &["--help"])?.expect(0)?;
    Ok(())
}

/// A model of ONNX, field by field: y = -x, two elements.
fn negative_of_input() -> Vec<u8> {
    let field = |number: u8, bytes: &[u8]| [&[number << 3 | 2, bytes.len() as u8], bytes].concat();
    let number = |field: u8, value: u8| vec![field << 3, value];
    let value = |name: &[u8]| {
        let shape = field(2, &field(1, &number(1, 2)));
        let tensor = field(1, &[number(1, 1), shape].concat());
        [field(1, name), field(2, &tensor)].concat()
    };
    let node = [field(1, b"x"), field(2, b"y"), field(3, b"minus"), field(4, b"Neg")].concat();
    let graph = [field(1, &node), field(2, b"g"), field(11, &value(b"x")), field(12, &value(b"y"))]
        .concat();
    [number(1, 8), field(7, &graph), field(8, &number(2, 17))].concat()
}
