//! A child process in which a user's library runs: started, limited, and what became of it.

use std::{
    ffi::OsString,
    fs::{self, File},
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::{Child, ExitStatus, Stdio},
    sync::atomic::{AtomicUsize, Ordering},
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use serde_json::Value;

use super::spec::AllocatorSpec;
use crate::{private_folder::PrivateFolder, run};

/// Ticks of the processor's time (10 ms) that a child may use in that time and still be stuck.
const IDLE_TICKS: u64 = 3;
/// How often a child is looked at.
const LOOK: Duration = Duration::from_millis(2);
/// How much of what a child printed is kept.
const OUTPUT_BYTES: usize = 4000;

/// What a child does.
pub struct Work<'a> {
    /// The allocator that it loads.
    pub spec: &'a AllocatorSpec,
    /// The words of its job, after those that all have.
    pub words: Vec<OsString>,
    /// Variables of its environment, over those that all have.
    pub variables: Vec<(&'static str, String)>,
    /// Whether its run is recorded.
    pub is_recorded: bool,
    /// How long it may take.
    pub limits: Limits,
}

/// How long a child may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// In all.
    pub time: Duration,
    /// Without any use of the processor.
    pub idle: Duration,
}

impl Limits {
    /// For options in seconds.
    pub fn of_seconds(time: u64, idle: u64) -> Limits {
        Limits { time: Duration::from_secs(time), idle: Duration::from_secs(idle) }
    }
}

/// A limit in seconds, of an option.
pub fn parse_seconds(text: &str) -> Result<u64, String> {
    let seconds = text.parse::<u64>().ok().filter(|seconds| *seconds > 0);
    seconds.ok_or_else(|| format!("`{text}` is no number of seconds from 1 on"))
}

/// How a child ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// By itself, with this code.
    Exited(i32),
    /// By a signal.
    Signal(i32),
    /// It was killed: it took longer than this.
    TimedOut(Duration),
    /// It was killed: every thread waited, and nothing happened any more.
    Stuck,
}

impl std::fmt::Display for Ending {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Ending::Exited(code) => write!(f, "the process ended with code {code}"),
            Ending::Signal(signal) => write!(f, "the process crashed ({})", signal_name(*signal)),
            Ending::TimedOut(limit) => {
                write!(f, "the process was not done after {} s, and was ended", limit.as_secs())
            }
            Ending::Stuck => {
                write!(f, "the process hangs: every thread waits, and nobody is left to go on")
            }
        }
    }
}

/// What became of a child.
pub struct Report {
    /// How it ended.
    pub ending: Ending,
    /// What it reported; `None` if it did not come so far.
    pub result: Option<Value>,
    /// The last of what it printed.
    pub output: String,
    /// Its record.
    pub record: PathBuf,
}

impl Report {
    /// How it ended, with the last that it printed.
    pub fn describe_ending(&self) -> String {
        match self.output.lines().last() {
            Some(line) => format!("{}; it printed: {line}", self.ending),
            None => self.ending.to_string(),
        }
    }
}

/// Settings of the user that would change what is found out.
const REMOVED: [&str; 8] = [
    "ASCEND_RT_VISIBLE_DEVICES",
    "CAIRN_DEVICES",
    "CAIRN_DEVICE_MEMORY",
    "CAIRN_MEMORY",
    "CAIRN_QUARANTINE",
    "CAIRN_RECORD",
    "CAIRN_RECORD_STACKS",
    "CAIRN_TRACE",
];

/// Runs a child to its end, with its files in a folder.
pub fn run(folder: &PrivateFolder, work: &Work<'_>) -> Result<Report> {
    static CHILDREN: AtomicUsize = AtomicUsize::new(0);
    let number = CHILDREN.fetch_add(1, Ordering::Relaxed);
    let file = |ending: &str| folder.path().join(format!("child{number}.{ending}"));
    let (result, output, record) = (file("json"), file("output"), file("cairn"));
    let this = std::env::current_exe().context("cannot tell where this program lies")?;
    let mut words = vec![this.into_os_string(), "pool-bench".into()];
    words.extend(["--allocator".into(), work.spec.to_string().into()]);
    words.extend(["--result".into(), result.clone().into_os_string()]);
    words.extend(work.words.iter().cloned());
    let mut command = run::command(&words)?;
    REMOVED.iter().for_each(|name| _ = command.env_remove(name));
    command.env("CAIRN_HOST_MEMORY", unshared_memory(number));
    if work.is_recorded {
        command.env("CAIRN_RECORD", &record);
    }
    command.envs(work.variables.iter().map(|(name, value)| (name, value)));
    let log = File::create(&output).context("cannot write what a child prints")?;
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    let mut child = command.spawn().context("cannot start a process for the pool")?;
    let ending = wait(&mut child, work.limits)?;
    let text = fs::read(&result).ok();
    let printed = fs::read(&output).unwrap_or_default();
    let printed = &printed[printed.len().saturating_sub(OUTPUT_BYTES)..];
    Ok(Report {
        ending,
        result: text.and_then(|text| serde_json::from_slice(&text).ok()),
        output: String::from_utf8_lossy(printed).trim().to_owned(),
        record,
    })
}

/// A limit of host memory that no other process has: those that have the same one share it.
fn unshared_memory(number: usize) -> String {
    format!("{}kib", (1u64 << 31) + (u64::from(std::process::id()) << 10) + number as u64)
}

fn wait(child: &mut Child, limits: Limits) -> Result<Ending> {
    let (began, mut idle) = (Instant::now(), IdleTime::default());
    let process = PathBuf::from(format!("/proc/{}", child.id()));
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(ending(status));
        }
        let killed = match () {
            _ if began.elapsed() >= limits.time => Some(Ending::TimedOut(limits.time)),
            _ if idle.is_longer_than(limits.idle, &process) => Some(Ending::Stuck),
            _ => None,
        };
        if let Some(ending) = killed {
            let _ = child.kill();
            child.wait()?;
            return Ok(ending);
        }
        std::thread::sleep(LOOK);
    }
}

fn ending(status: ExitStatus) -> Ending {
    match (status.code(), status.signal()) {
        (Some(code), _) => Ending::Exited(code),
        (None, signal) => Ending::Signal(signal.unwrap_or(0)),
    }
}

/// Since when a process uses no processor.
#[derive(Default)]
struct IdleTime {
    since: Option<(Instant, u64)>,
    next_look: Option<Instant>,
}

impl IdleTime {
    fn is_longer_than(&mut self, limit: Duration, process: &Path) -> bool {
        let now = Instant::now();
        if self.next_look.is_some_and(|next| now < next) {
            return false;
        }
        self.next_look = Some(now + limit / 20);
        let Some(ticks) = used_ticks(process) else { return false };
        match self.since {
            Some((since, before))
                if ticks.saturating_sub(before) <= IDLE_TICKS && !is_runnable(process) =>
            {
                now.duration_since(since) >= limit
            }
            _ => {
                self.since = Some((now, ticks));
                false
            }
        }
    }
}

/// The fields of a line of `stat` after the name in brackets.
fn fields(stat: &str) -> impl Iterator<Item = &str> {
    stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_ascii_whitespace()
}

/// Processor time of all threads.
fn used_ticks(process: &Path) -> Option<u64> {
    let stat = fs::read_to_string(process.join("stat")).ok()?;
    let mut times = fields(&stat).skip(11).map_while(|field| field.parse::<u64>().ok());
    Some(times.next()? + times.next()?)
}

/// Whether a thread runs, wants to, or waits for a disk.
fn is_runnable(process: &Path) -> bool {
    let tasks = fs::read_dir(process.join("task")).into_iter().flatten().flatten();
    let stats = tasks.filter_map(|task| fs::read_to_string(task.path().join("stat")).ok());
    stats.into_iter().any(|stat| matches!(fields(&stat).next(), Some("R" | "D")))
}

fn signal_name(signal: i32) -> String {
    match signal_hook::low_level::signal_name(signal) {
        Some(name) => name.to_owned(),
        None => format!("signal {signal}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_a_second_at_least() {
        assert_eq!(parse_seconds("60"), Ok(60));
        for text in ["0", "-1", "1.5", "soon", ""] {
            let error = parse_seconds(text).unwrap_err();
            assert_eq!(error, format!("`{text}` is no number of seconds from 1 on"));
        }
    }
}
