//! The steps of a command of xtask: programs whose output is shown as it comes and whose tests are counted; and the report of a run of several
//! steps, with the time that each took.

use std::{
    io::{BufRead, BufReader, Write},
    ops::AddAssign,
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};

/// How many tests passed, failed and were skipped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub passed: u64,
    pub failed: u64,
    pub skipped: u64,
}

impl Counts {
    /// One thing that went wrong outside of any test.
    pub const FAILURE: Counts = Counts { passed: 0, failed: 1, skipped: 0 };
}

impl std::fmt::Display for Counts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped)
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Counts) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

/// A run of several steps, each announced, timed and counted.
#[derive(Default)]
pub struct Report {
    steps: Vec<(String, Counts, Duration)>,
    only: Vec<String>,
}

impl Report {
    /// Runs only the steps whose names contain one of these; all of them if there are none.
    pub fn of(only: Vec<String>) -> Report {
        Report { only, ..Report::default() }
    }

    /// Whether a step runs.
    pub fn has(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|part| name.contains(part))
    }

    /// Runs a step if it is asked for, also after a failed one. A step that cannot run at all counts as one failure.
    pub fn step(&mut self, name: &str, body: impl FnOnce() -> Result<Counts>) {
        if self.has(name) {
            self.required_step(name, body);
        }
    }

    /// Runs a step that others need.
    pub fn required_step(&mut self, name: &str, body: impl FnOnce() -> Result<Counts>) {
        announce(name);
        let start = Instant::now();
        let counts = body().unwrap_or_else(|error| {
            println!("{error:#}");
            Counts::FAILURE
        });
        let time = start.elapsed();
        println!("{name}: {counts} in {}", minutes(time));
        self.steps.push((name.into(), counts, time));
    }

    /// Prints what each step took and counted, and `N passed, N failed, N skipped` as the last line. The process
    /// exits with 1 when anything failed.
    pub fn finish(self) -> Result<()> {
        ensure!(!self.steps.is_empty(), "no step has {:?} in its name", self.only);
        announce("steps");
        let (mut total, mut time) = (Counts::default(), Duration::ZERO);
        for (name, counts, took) in &self.steps {
            println!("{name:28} {:>8}  {counts}", minutes(*took));
            total += *counts;
            time += *took;
        }
        println!("{:28} {:>8}\n\n{total}", "all", minutes(time));
        if total.failed > 0 {
            std::process::exit(1);
        }
        Ok(())
    }
}

/// Minutes and seconds, `3:07`.
fn minutes(time: Duration) -> String {
    let seconds = time.as_secs_f64().round() as u64;
    format!("{}:{:02}", seconds / 60, seconds % 60)
}

/// Announces a step on a line of its own.
pub fn announce(what: &str) {
    println!("\n--- {what}");
    let _ = std::io::stdout().flush();
}

/// A cargo command in the repository, with the cargo that runs us.
pub fn cargo(root: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments).current_dir(root);
    // Set by the `cargo run` around us; left in place, every crate that looks at them is rebuilt.
    for (name, _) in std::env::vars_os() {
        let name_text = name.to_string_lossy();
        if name_text.starts_with("CARGO_PKG_") || name_text.starts_with("CARGO_MANIFEST_") {
            command.env_remove(&name);
        }
    }
    command
}

/// Runs the command and fails when it does, naming it.
pub fn run(command: &mut Command) -> Result<()> {
    let status =
        command.status().with_context(|| format!("cannot start {}", command_text(command)))?;
    if !status.success() {
        bail!("{} failed: {status}", command_text(command));
    }
    Ok(())
}

/// Runs the command, shows its standard output, and counts the tests that it reports.
///
/// A command that fails without having reported a failed test counts as one failure: something
/// else went wrong, such as a build. So does one that reports no test at all.
pub fn run_and_count(command: &mut Command) -> Result<Counts> {
    run_and_count_to(command, &mut std::io::stdout())
}

/// As [`run_and_count`] for two commands at a time. What the second prints is shown when the first is done.
pub fn run_and_count_both(first: &mut Command, second: &mut Command) -> [Result<Counts>; 2] {
    run_and_count_both_to(first, second, &mut std::io::stdout())
}

fn run_and_count_both_to(
    first: &mut Command,
    second: &mut Command,
    out: &mut impl Write,
) -> [Result<Counts>; 2] {
    std::thread::scope(|scope| {
        let second_thread = scope.spawn(|| {
            let mut printed = Vec::new();
            let counts = run_and_count_to(second, &mut printed);
            (counts, printed)
        });
        let first = run_and_count_to(first, out);
        let (second, printed) = second_thread.join().expect("counting does not panic");
        let write = out.write_all(&printed).map_err(Into::into);
        [first, write.and(second)]
    })
}

fn run_and_count_to(command: &mut Command, out: &mut impl Write) -> Result<Counts> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start {}", command_text(command)))?;
    let mut counts = Counts::default();
    let mut lines = BufReader::new(child.stdout.take().expect("stdout is piped"));
    let mut line = Vec::new();
    while lines.read_until(b'\n', &mut line)? > 0 {
        out.write_all(&line)?;
        counts += parse_summary(&String::from_utf8_lossy(&line)).unwrap_or_default();
        line.clear();
    }
    let status = child.wait()?;
    if !status.success() && counts.failed == 0 {
        writeln!(out, "{} failed: {status}", command_text(command))?;
        counts.failed = 1;
    }
    if counts == Counts::default() {
        writeln!(out, "{} ran no test", command_text(command))?;
        counts.failed = 1;
    }
    Ok(counts)
}

/// What a summary line reports: libtest's `test result: ok. 3 passed; 1 failed; ...` or pytest's
/// `1 failed, 3 passed, 2 skipped in 0.42s`; `None` for any other line.
fn parse_summary(line: &str) -> Option<Counts> {
    let line = line.trim().trim_matches('=').trim();
    let summary = match line.strip_prefix("test result: ") {
        Some(rest) => rest.split_once(". ")?.1,
        None => {
            let (summary, time) = line.rsplit_once(" in ")?;
            time.split(['s', ' ']).next()?.parse::<f64>().ok()?;
            summary
        }
    };
    let mut counts = Counts::default();
    for part in summary.split([';', ',']) {
        let mut words = part.split_ascii_whitespace();
        let (Some(number), Some(kind)) = (words.next(), words.next()) else {
            continue;
        };
        let Ok(number) = number.parse::<u64>() else {
            continue;
        };
        match kind {
            "passed" => counts.passed += number,
            "failed" | "error" | "errors" => counts.failed += number,
            "ignored" | "skipped" => counts.skipped += number,
            _ => {}
        }
    }
    Some(counts)
}

/// The command as a person would type it, without its environment.
fn command_text(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_that_cannot_run_is_a_failure() {
        let mut report = Report::default();
        report.step("good", || Ok(Counts { passed: 2, failed: 0, skipped: 1 }));
        report.step("bad", || bail!("no compiler"));
        let counts: Vec<Counts> = report.steps.iter().map(|(_, counts, _)| *counts).collect();
        assert_eq!(counts, [Counts { passed: 2, failed: 0, skipped: 1 }, Counts::FAILURE]);
        assert_eq!(minutes(Duration::from_millis(187_400)), "3:07");
    }

    #[test]
    fn summaries_are_read() {
        let counts = |passed, failed, skipped| Some(Counts { passed, failed, skipped });
        let libtest = "test result: FAILED. 3 passed; 1 failed; 2 ignored; 0 measured; 0 filtered out; finished in 0.00s";
        assert_eq!(parse_summary(libtest), counts(3, 1, 2));
        assert_eq!(
            parse_summary("test result: ok. 7 passed; 0 failed; 0 ignored\n"),
            counts(7, 0, 0)
        );
        assert_eq!(parse_summary("1 failed, 30 passed, 2 skipped in 0.42s"), counts(30, 1, 2));
        assert_eq!(
            parse_summary("==== 5 passed, 1 error in 61.20s (0:01:01) ===="),
            counts(5, 1, 0)
        );
        assert_eq!(parse_summary("no tests ran in 0.01s"), counts(0, 0, 0));
        assert_eq!(parse_summary("test streams::order ... ok"), None);
        assert_eq!(parse_summary("copied 5 passed in time"), None);
    }

    #[test]
    fn a_failure_in_either_of_two_counts() {
        let echo = |text: &str| {
            let mut command = Command::new("echo");
            command.arg(text);
            command
        };
        let (mut good, mut bad) = (echo("3 passed in 1.0s"), echo("1 failed, 2 passed in 1.0s"));
        let mut printed = Vec::new();
        let both = run_and_count_both_to(&mut good, &mut bad, &mut printed).map(Result::unwrap);
        assert_eq!(both.map(|one| (one.passed, one.failed)), [(3, 0), (2, 1)]);
        assert_eq!(printed, b"3 passed in 1.0s\n1 failed, 2 passed in 1.0s\n");
        let mut silent = Command::new("false");
        let both = run_and_count_both_to(&mut good, &mut silent, &mut printed).map(Result::unwrap);
        assert_eq!(both[1], Counts::FAILURE);
        let mut none = Command::new("/nonexistent/program");
        let [first, second] = run_and_count_both_to(&mut none, &mut good, &mut printed);
        assert!(first.is_err() && second.unwrap().passed == 3);
    }

    #[test]
    fn a_silent_failure_counts() {
        assert_eq!(run_and_count(&mut Command::new("false")).unwrap(), Counts::FAILURE);
        assert_eq!(run_and_count(&mut Command::new("true")).unwrap(), Counts::FAILURE);
        assert!(run_and_count(&mut Command::new("/nonexistent/program")).is_err());
    }
}
