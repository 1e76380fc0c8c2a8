//! Engines in processes of their own: PyTorch in eager mode, and tract.
//!
//! Each line to such a process is a command, each line from it an answer in JSON: a number of nanoseconds, or
//! numbers. It times its runs itself, so the pipe is no part of them.

use super::compare::Engine;
use super::model::Model;
use serde_json::Value;
use std::cell::RefCell;
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Error, Result, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::rc::Rc;

/// A process with one model at a time. It ends when this is dropped.
pub struct Process {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    folder: PathBuf,
}

/// A process that several engines speak to.
pub type Peer = Rc<RefCell<Process>>;

impl Process {
    /// PyTorch on this many threads; `CAIRN_BENCH_PYTHON` names an interpreter that has it. Numbers go through
    /// files in `folder`.
    pub fn eager(folder: &Path, threads: usize) -> Result<Peer> {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("graph/eager.py");
        let mut command = Command::new(program_from("CAIRN_BENCH_PYTHON")?);
        command.arg(script).env("TORCH_DEVICE_BACKEND_AUTOLOAD", "0");
        command.env("OMP_NUM_THREADS", threads.to_string());
        Process::start(command, folder)
    }

    /// tract; `CAIRN_BENCH_TRACT` names the program.
    pub fn tract(folder: &Path) -> Result<Peer> {
        Process::start(Command::new(program_from("CAIRN_BENCH_TRACT")?), folder)
    }

    fn start(mut command: Command, folder: &Path) -> Result<Peer> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().expect("the pipe is open"));
        Ok(Rc::new(RefCell::new(Process { child, input, output, folder: folder.to_owned() })))
    }

    /// Loads a model in place of the last one: its kind, and its numbers in a file.
    pub fn load(&mut self, kind: &str, model: &Model) -> Result<Value> {
        let file = self.folder.join("graph-numbers.bin");
        std::fs::write(&file, model.input_and_weight_bytes())?;
        let answer = self.ask(&format!("load {kind} {}", file.display()));
        std::fs::remove_file(&file)?;
        answer
    }

    /// Writes one line to the process and reads its answer, one line of JSON.
    fn ask(&mut self, line: &str) -> Result<Value> {
        let input = self.input.as_mut().expect("the pipe is open");
        writeln!(input, "{line}")?;
        input.flush()?;
        let mut answer = String::new();
        self.output.read_line(&mut answer)?;
        serde_json::from_str(&answer)
            .map_err(|_| Error::other(format!("the answer to '{line}' is '{}'", answer.trim())))
    }
}

/// The path of a program, from a variable.
fn program_from(variable: &str) -> Result<OsString> {
    let program = std::env::var_os(variable).filter(|path| !path.is_empty());
    program.ok_or_else(|| Error::other(format!("{variable} does not name the program")))
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.input.take());
        if let Err(error) = self.child.wait() {
            eprintln!("a peer did not end: {error}");
        }
    }
}

/// The model that a process has.
pub struct RemoteModel(Peer);

impl RemoteModel {
    /// The model that is loaded there.
    pub fn new(process: &Peer) -> RemoteModel {
        RemoteModel(process.clone())
    }

    fn ask(&self, command: &str) -> Value {
        self.0.borrow_mut().ask(command).expect("the peer answers")
    }
}

impl Engine for RemoteModel {
    fn run(&mut self) {
        self.run_timed();
    }

    fn output(&mut self) -> Vec<f32> {
        let numbers = self.ask("output");
        let numbers = numbers.as_array().expect("the answer is an array").iter();
        numbers.map(|one| one.as_f64().expect("the value is a number") as f32).collect()
    }

    fn run_timed(&mut self) -> f64 {
        self.ask("run").as_f64().expect("the answer is in nanoseconds")
    }
}
