//! `--ranks` of `cairn run`, `cairn record` and `cairn check`: what ranks are given, how their output comes, how they end together;
//! records of several ranks; communicators in `npu-smi`.

use std::{
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::OnceLock,
    time::Instant,
};

use anyhow::{Context, Result, anyhow, ensure};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::{
    program::Program,
    run::{Outcome, run, wait},
    toolkit::{Toolkit, limit, root},
};

/// An empty folder for one trial.
struct Trial<'a> {
    toolkit: &'a Toolkit,
    folder: PathBuf,
}

impl<'a> Trial<'a> {
    fn new(toolkit: &'a Toolkit, name: &str) -> Result<Trial<'a>> {
        let folder = toolkit.scratch.join(format!("ranks-{name}"));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder)?;
        Ok(Trial { toolkit, folder })
    }

    fn cairn(&self, arguments: &[&str]) -> Command {
        let mut command = self.toolkit.bare(self.toolkit.dir.join("bin/cairn"));
        command.args(arguments).current_dir(&self.folder);
        command
    }

    fn run(&self, arguments: &[&str]) -> Result<Outcome> {
        run(&mut self.cairn(arguments), &self.folder.with_extension("log"), limit())
    }

    /// Runs a script of the shell as ranks.
    fn shell(&self, options: &[&str], script: &str) -> Result<Outcome> {
        self.run(&[&["run"], options, &["--", "sh", "-c", script]].concat())
    }

    /// Starts a command whose output is read while it runs.
    fn start(&self, arguments: &[&str]) -> Result<(Child, impl Iterator<Item = String> + use<>)> {
        let mut command = self.cairn(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn()?;
        let lines = BufReader::new(child.stdout.take().context("it has an output")?).lines();
        Ok((child, lines.map_while(std::io::Result::ok)))
    }
}

/// The program with communicators, compiled once.
fn program(toolkit: &Toolkit) -> Result<String> {
    static PROGRAM: OnceLock<Result<Program, String>> = OnceLock::new();
    let read = || {
        let source = root().join("tests/c/support/ranks.c");
        Program::read("support", source).map_err(|error| format!("{error:#}"))
    };
    let program = PROGRAM.get_or_init(read).as_ref().map_err(|error| anyhow!("{error}"))?;
    Ok(program.build(toolkit)?.display().to_string())
}

fn contains(text: &str, parts: &[&str]) -> Result<()> {
    for part in parts {
        ensure!(text.contains(part), "no {part:?} in\n{text}");
    }
    Ok(())
}

fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

/// Ranks have the variables of launchers, whole lines with a prefix, and input for the first one; what cannot be is refused.
pub fn environment(toolkit: &Toolkit) -> Result<()> {
    let trial = Trial::new(toolkit, "environment")?;
    let script = "echo $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $RANK_ID/$RANK_SIZE $DEVICE_ID $CAIRN_DEVICES $MASTER_ADDR:$MASTER_PORT; \
                  printf 'no end' >&2; cat";
    let options = ["--ranks", "3", "--devices-per-rank", "2", "--master-port", "2400"];
    let text = trial.shell(&options, script)?.expect(0)?;
    let expected = |rank: u32| {
        let line = format!("{rank}/3 {rank}/3 {rank}/3 {} 6 127.0.0.1:2400", rank * 2);
        [format!("[{rank}] {line}"), format!("[{rank}] no end")]
    };
    let expected: Vec<String> = (0..3).flat_map(expected).collect();
    ensure!(sorted(&text) == expected, "{text}");

    let text = trial.run(&["run", "--ranks", "17", "--", "true"])?.expect(1)?;
    contains(&text, &["17 ranks with 1 devices each need 17 devices", "at most 16"])?;
    trial.run(&["run", "--ranks", "two", "--", "true"])?.expect(2)?;
    trial.run(&["run", "--grace", "1", "--", "true"])?.expect(2)?;
    let text = trial.run(&["run", "--ranks", "2", "--", "/no/such/program"])?.expect(127)?;
    contains(&text, &["] cairn: cannot run /no/such/program", "ended with code 127"])?;
    let text = trial.run(&["check", "--ranks", "2", "run.cairn"])?.expect(1)?;
    contains(&text, &["--ranks runs a program"])
}

/// When a rank fails the others end, by SIGTERM or, where they do not listen, by SIGKILL; so does what they started.
pub fn end_together(toolkit: &Toolkit) -> Result<()> {
    let trial = Trial::new(toolkit, "end")?;
    // Each waits until all are there.
    let meet = "touch $RANK; until [ -e 0 -a -e 1 -a -e 2 ]; do :; done; ";
    let script = format!("{meet}[ $RANK = 1 ] && exit 3; sleep 1000; echo woke up");
    let text = trial.shell(&["--ranks", "3"], &script)?.expect(3)?;
    contains(&text, &["cairn: rank 1 ended with code 3; ranks 0 and 2 were ended by SIGTERM"])?;
    ensure!(!text.contains("woke up"), "{text}");

    let trial = Trial::new(toolkit, "kill")?;
    let script =
        format!("trap '' TERM; {meet}[ $RANK = 2 ] && kill -9 $$; while :; do sleep 1000; done");
    let text = trial.shell(&["--ranks", "3", "--grace", "0"], &script)?.expect(137)?;
    let line = "cairn: rank 2 was ended by SIGKILL; ranks 0 and 1 were killed, 0 s after SIGTERM";
    contains(&text, &[line])
}

/// An interrupt reaches every rank, and each may end in its own way.
pub fn interrupted(toolkit: &Toolkit) -> Result<()> {
    let trial = Trial::new(toolkit, "interrupt")?;
    let script = "trap 'echo interrupted; exit 4' INT; echo ready; while :; do sleep 0.01; done";
    let (mut child, mut lines) = trial.start(&["run", "--ranks", "2", "--", "sh", "-c", script])?;
    let ready: Vec<String> = lines.by_ref().take(2).collect();
    kill_process(Pid::from_child(&child), Signal::INT)?;
    let rest: Vec<String> = lines.collect();
    let status = wait(&mut child, limit())?.context("it took too long")?;
    ensure!(ready.iter().all(|line| line.ends_with("ready")), "{ready:?}");
    ensure!(sorted(&rest.join("\n")) == ["[0] interrupted", "[1] interrupted"], "{rest:?}");
    ensure!(status.code() == Some(4), "{status}");
    Ok(())
}

/// Ranks do not outlive `cairn`, however that ends.
pub fn no_orphans(toolkit: &Toolkit) -> Result<()> {
    let trial = Trial::new(toolkit, "orphans")?;
    let script = "trap '' TERM INT HUP; echo $$; while :; do read line || sleep 0.01; done";
    let (mut child, mut lines) = trial.start(&["run", "--ranks", "2", "--", "sh", "-c", script])?;
    let pids: Vec<String> = lines.by_ref().take(2).collect();
    kill_process(Pid::from_child(&child), Signal::KILL)?;
    child.wait()?;
    let end = Instant::now() + limit();
    for line in &pids {
        let pid = line.split_whitespace().last().context("a process")?;
        let is_alive = || {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            stat.contains("(sh)") && !stat.contains(") Z")
        };
        while is_alive() {
            ensure!(Instant::now() < end, "process {pid} lives on");
            std::thread::yield_now();
        }
    }
    ensure!(pids.len() == 2, "{pids:?}");
    Ok(())
}

/// A record for each rank; timeline, summary and check of all.
pub fn records(toolkit: &Toolkit) -> Result<()> {
    let trial = Trial::new(toolkit, "records")?;
    let program = program(toolkit)?;
    // What an earlier run with more ranks left goes.
    let record = |ranks: &str| {
        let _ = fs::remove_file(trial.folder.join("root"));
        trial.run(&["record", "--ranks", ranks, "-o", "run.cairn", "--", &program])
    };
    record("3")?.expect(0)?;
    let text = record("2")?.expect(0)?;
    contains(&text, &["run.rank0.cairn: ", "run.rank1.cairn: "])?;
    let mut files: Vec<_> =
        fs::read_dir(&trial.folder)?.flatten().map(|entry| entry.file_name()).collect();
    files.sort();
    ensure!(files == ["root", "run.rank0.cairn", "run.rank1.cairn"], "{files:?}");
    let both = ["run.rank0.cairn", "run.rank1.cairn"];

    trial.run(&[&["timeline", "-o", "run.json"], &both[..]].concat())?.expect(0)?;
    let trace: Value = serde_json::from_str(&fs::read_to_string(trial.folder.join("run.json"))?)?;
    let events = trace["traceEvents"].as_array().context("events")?;
    let count = |phase: &str| {
        let is_one = |event: &&Value| event["cat"] == "collective" && event["ph"] == phase;
        events.iter().filter(is_one).count()
    };
    ensure!((count("s"), count("f")) == (3, 3), "{} arrows", count("s"));
    let names: Vec<&str> = (events.iter())
        .filter(|event| event["name"] == "process_name")
        .filter_map(|event| event["args"]["name"].as_str())
        .collect();
    for name in ["rank 0, run.rank0.cairn: device 0", "rank 1, run.rank1.cairn: device 1"] {
        ensure!(names.contains(&name), "{names:?}");
    }

    let text = trial.run(&[&["summary"], &both[..]].concat())?.expect(0)?;
    contains(&text, &["Communicators", "waiting for ranks", "world  0 of 2", "world  1 of 2"])?;
    let text = trial.run(&[&["summary", "--json"], &both[..]].concat())?.expect(0)?;
    let summaries: Value = serde_json::from_str(&text)?;
    let figures = &summaries[1]["communicators"][0];
    ensure!(figures["operators"] == 3 && figures["bytes"] == 3 * 4096, "{figures}");
    ensure!(figures["waited_ns"].is_u64(), "{figures}");
    let text = trial.run(&[&["check"], &both[..]].concat())?.expect(0)?;
    contains(&text, &["across ranks\ncairn check: no findings"])
}

/// `cairn check --ranks` names ranks that differ, and one that stops; the same from their records.
pub fn checked(toolkit: &Toolkit) -> Result<()> {
    let trial = Trial::new(toolkit, "checked")?;
    let program = program(toolkit)?;
    let check = |what: &str| {
        let _ = fs::remove_file(trial.folder.join("root"));
        trial.run(&["check", "--ranks", "2", "--", &program, what])
    };
    let text = check("")?.expect(0)?;
    contains(
        &text,
        &["rank 0, process ", "rank 1, process ", "across ranks\ncairn check: no findings"],
    )?;
    let text = check("differ")?.expect(1)?;
    let findings = [
        "across ranks\nerror[different-collectives]: ranks 0 and 1 of communicator world do not agree on HcclAllReduce",
        "  (1) rank 0, collective 3: HcclAllReduce of 1024 fp32, sum",
        "  (2) rank 1, collective 3: HcclAllReduce of 512 fp32, sum",
        "collectives 1 to 2 were the same on all of them",
        "(RANK=1)",
    ];
    contains(&text, &findings)?;
    contains(
        &check("stop")?.expect(1)?,
        &["error[missing-collective]: rank 1 of communicator world"],
    )?;

    let _ = fs::remove_file(trial.folder.join("root"));
    trial
        .run(&["run", "--ranks", "2", "--record", "run.cairn", "--", &program, "differ"])?
        .expect(0)?;
    let text = trial.run(&["check", "run.rank0.cairn", "run.rank1.cairn"])?.expect(1)?;
    contains(&text, &findings[..4])
}

/// `npu-smi info` and `cairn top` show the communicators of a job that runs.
pub fn shown(toolkit: &Toolkit) -> Result<()> {
    let trial = Trial::new(toolkit, "shown")?;
    let program = program(toolkit)?;
    let (mut child, mut lines) = trial.start(&["run", "--ranks", "2", "--", &program, "hold"])?;
    let ready: Vec<String> = lines.by_ref().take(2).collect();
    let mut smi = toolkit.bare(toolkit.dir.join("bin/npu-smi"));
    let smi = run(smi.arg("info"), &trial.folder.with_extension("smi"), limit())?.expect(0)?;
    let top = trial.run(&["top", "--once"])?.expect(0)?;
    kill_process(Pid::from_child(&child), Signal::TERM)?;
    wait(&mut child, limit())?.context("it took too long")?;
    ensure!(ready.len() == 2, "{ready:?}");
    contains(&smi, &["| NPU     Rank / Size ", "| 0       0    / 2 ", "| 1       1    / 2 "])?;
    ensure!(
        smi.lines().any(|line| line.contains("| world  ")
            && line.contains(" 3 ")
            && line.contains("idle")),
        "{smi}"
    );
    contains(&top, &["Communicators", "world on device 1"])
}

/// Whether the toolkit can connect ranks.
pub fn has_engine(toolkit: &Path) -> bool {
    toolkit.join("lib64/comm/libcairn_comm.so").exists()
}
