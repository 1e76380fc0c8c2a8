//! Whole models by `aclmdlExecute`, compared with ONNX Runtime: time of a run, peak memory, time of a load, and `atc`
//! beside a session that saves its optimised model.
//!
//! Each engine runs a model in a process of its own ([`engine`]), which times itself; both are asked for runs in turns,
//! round after round, and the best run counts. Peak memory is the most that a process ever had (`VmHWM`) from its start to
//! the end of its runs.

mod engine;
mod onnxruntime;
mod ours;

pub use engine::serve;

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Error, Result, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Instant;

/// The models, with the goal of a run's time, in turns of this many rounds.
const MODELS: [(&str, f64, usize); 4] =
    [("resnet50", 1.05, 12), ("mobilenetv2", 1.05, 40), ("bert", 1.0, 6), ("gpt2", 1.05, 12)];

/// An engine with a model.
struct Process {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    load: f64,
}

impl Process {
    /// Starts an engine, which loads the model.
    fn start(engine: &str, folder: &Path, model: &str, threads: usize) -> Result<Process> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["models-engine", engine]).arg(folder).arg(model);
        command.arg(threads.to_string()).env("CAIRN_WORKERS", threads.to_string());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().expect("the pipe is open"));
        let mut process = Process { child, input, output, load: 0.0 };
        process.load = process.answer("the load")?;
        Ok(process)
    }

    fn answer(&mut self, what: &str) -> Result<f64> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        (line.trim().parse())
            .map_err(|_| Error::other(format!("the answer to {what} is '{}'", line.trim())))
    }

    fn ask(&mut self, command: &str) -> Result<f64> {
        writeln!(self.input.as_mut().expect("the pipe is open"), "{command}")?;
        self.answer(command)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.input.take());
        if let Err(error) = self.child.wait() {
            eprintln!("an engine did not end: {error}");
        }
    }
}

/// Runs the bench; `CAIRN_BENCH_MODELS` names the folder with the models, `CAIRN_BENCH_MODEL` one of them alone.
pub fn run(out: &Path) -> Result<()> {
    let folder = PathBuf::from(std::env::var_os("CAIRN_BENCH_MODELS").expect("a folder"));
    let only = std::env::var("CAIRN_BENCH_MODEL").ok();
    let mut rows = Vec::new();
    println!("{:<14}{:<12}{:>12}{:>14}{:>8}  goal", "", "", "ours", "onnxruntime", "ratio");
    for (model, goal, rounds) in MODELS {
        if only.as_deref().is_some_and(|only| only != model) {
            continue;
        }
        build(&folder, model, &mut rows)?;
        for threads in [1, 2] {
            compare(&folder, model, threads, (goal, rounds), &mut rows)?;
        }
    }
    std::fs::create_dir_all(out)?;
    std::fs::write(out.join("models.json"), serde_json::to_string_pretty(&rows)? + "\n")
}

/// One line of the table.
fn row(
    rows: &mut Vec<Value>,
    model: &str,
    what: &str,
    unit: &str,
    ours: f64,
    peer: f64,
    goal: f64,
) {
    let ratio = ours / peer;
    println!("{model:<14}{what:<12}{ours:>9.1} {unit}{peer:>11.1} {unit}{ratio:>8.2}  {goal}");
    rows.push(json!({
        "model": model, "what": what, "unit": unit, "ours": ours, "onnxruntime": peer, "ratio": ratio, "goal": goal,
    }));
}

/// Converts the model: `atc`, and a session that saves what it optimised.
fn build(folder: &Path, model: &str, rows: &mut Vec<Value>) -> Result<()> {
    let toolkit =
        PathBuf::from(std::env::var_os("CAIRN_TOOLKIT").expect("CAIRN_TOOLKIT names the toolkit"));
    let start = Instant::now();
    let status = Command::new(toolkit.join("bin/atc"))
        .arg(format!("--model={}", folder.join(format!("{model}.onnx")).display()))
        .arg(format!("--output={}", folder.join(model).display()))
        .args(["--framework=5", "--soc_version=Ascend910B3"])
        .stdout(Stdio::null())
        .status()?;
    let ours = start.elapsed().as_secs_f64() * 1e3;
    if !status.success() {
        return Err(Error::other(format!("atc of {model}: {status}")));
    }
    let start = Instant::now();
    drop(Process::start("onnxruntime-build", folder, model, 2)?);
    row(rows, model, "atc", "ms", ours, start.elapsed().as_secs_f64() * 1e3, 1.0);
    Ok(())
}

/// Runs the model on both engines, in turns.
fn compare(
    folder: &Path,
    model: &str,
    threads: usize,
    (goal, rounds): (f64, usize),
    rows: &mut Vec<Value>,
) -> Result<()> {
    const ENGINES: [&str; 2] = ["ours", "onnxruntime"];
    // Loads in turns too; the second time, both find their files in memory.
    let mut load = [f64::MAX; 2];
    let mut processes = Vec::new();
    for _ in 0..2 {
        processes.clear();
        for (engine, load) in ENGINES.iter().zip(&mut load) {
            let process = Process::start(engine, folder, model, threads)?;
            *load = load.min(process.load);
            processes.push(process);
        }
    }
    let (mut best, mut memory) = ([f64::MAX; 2], [0.0; 2]);
    for _ in 0..rounds {
        for (process, best) in processes.iter_mut().zip(&mut best) {
            for _ in 0..2 {
                *best = best.min(process.ask("run")?);
            }
        }
    }
    for (at, process) in processes.iter_mut().enumerate() {
        let error = process.ask("error")?;
        if error.is_nan() || error > 1e-3 {
            return Err(Error::other(format!("{model} of {} differs by {error}", ENGINES[at])));
        }
        memory[at] = process.ask("memory")?;
    }
    let mut add = |what: &str, unit, scale: f64, values: [f64; 2], goal| {
        let what = format!("{what}, {threads} t");
        row(rows, model, &what, unit, values[0] / scale, values[1] / scale, goal);
    };
    add("run", "ms", 1e6, best, goal);
    add("load", "ms", 1e6, load, 1.0);
    add("peak", "MB", 1e6, memory, 1.0);
    Ok(())
}
