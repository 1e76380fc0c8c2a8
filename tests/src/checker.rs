//! `cairn check` as a command: its options and exit codes, findings while a program runs, and programs that end in other ways
//! than in order. What each rule finds is in [`crate::checks`].

use std::{
    fs,
    io::{BufRead, BufReader},
    os::unix::fs::MetadataExt,
    path::PathBuf,
    process::{Command, Stdio},
    sync::OnceLock,
    time::Duration,
};

use anyhow::{Context, Result, anyhow, ensure};

use crate::{
    program::Program,
    run::{Outcome, run, wait},
    toolkit::{Toolkit, limit, root},
};

/// An empty folder for one trial, and the program that is checked.
struct Trial<'a> {
    toolkit: &'a Toolkit,
    folder: PathBuf,
    program: String,
}

impl<'a> Trial<'a> {
    fn new(toolkit: &'a Toolkit, name: &str) -> Result<Trial<'a>> {
        let folder = toolkit.scratch.join(format!("checker-{name}"));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(folder.join("tmp"))?;
        Ok(Trial { toolkit, folder, program: program()?.build(toolkit)?.display().to_string() })
    }

    /// `cairn check` in the folder, with its records below it.
    fn command(&self, options: &[&str]) -> Command {
        let mut command = self.toolkit.bare(self.toolkit.dir.join("bin/cairn"));
        command.arg("check").args(options).current_dir(&self.folder);
        command.env("TMPDIR", self.folder.join("tmp"));
        command
    }

    fn run(&self, command: &mut Command) -> Result<Outcome> {
        let outcome = run(command, &self.folder.with_extension("log"), limit())?;
        let left = fs::read_dir(self.folder.join("tmp"))?.count();
        ensure!(left == 0, "{left} folders are left in TMPDIR\n{}", outcome.output);
        Ok(outcome)
    }

    /// Checks the program doing `what`.
    fn check(&self, options: &[&str], what: &str) -> Result<Outcome> {
        self.run(self.command(options).args(["--", &self.program, what]))
    }
}

/// The program, which all trials share, so that it is compiled once.
fn program() -> Result<&'static Program> {
    static PROGRAM: OnceLock<Result<Program, String>> = OnceLock::new();
    let read = || {
        let source = root().join("tests/c/support/checked.c");
        Program::read("support", source).map_err(|error| format!("{error:#}"))
    };
    PROGRAM.get_or_init(read).as_ref().map_err(|error| anyhow!("{error}"))
}

fn contains(text: &str, parts: &[&str]) -> Result<()> {
    for part in parts {
        ensure!(text.contains(part), "no {part:?} in\n{text}");
    }
    Ok(())
}

/// Exit codes, tools, suppressions and their mistakes, JSON.
pub fn options(toolkit: &Toolkit) -> Result<()> {
    let trial = Trial::new(toolkit, "options")?;
    contains(&trial.check(&[], "nothing")?.expect(0)?, &["cairn check: no findings"])?;
    contains(&trial.check(&[], "race")?.expect(1)?, &["error[order]", "1 error, 0 notes"])?;
    trial.check(&["--error-exitcode", "7"], "race")?.expect(7)?;
    trial.check(&["--error-exitcode", "0"], "race")?.expect(0)?;
    trial.check(&[], "no such thing")?.expect(2)?;
    trial.check(&["--tool=leak,init"], "race")?.expect(0)?;
    let text = trial.check(&["--tool=ordr"], "race")?.expect(2)?;
    contains(&text, &["no tool is named `ordr`: there are contract, order, memory, leak, init"])?;

    fs::write(trial.folder.join("known"), "# of another team\norder: aclrtMemsetAsync\n")?;
    let text = trial.check(&["--suppress", "known"], "race")?.expect(0)?;
    contains(&text, &["no findings", "1 suppressed"])?;
    ensure!(!text.contains("error[order]"), "{text}");
    fs::write(trial.folder.join("mistake"), "leak\nordr: aclrtMemsetAsync\n")?;
    let text = trial.check(&["--suppress", "mistake"], "race")?.expect(1)?;
    contains(&text, &["mistake: line 2: no rule is named `ordr`"])?;
    contains(&trial.check(&["--suppress", "none"], "race")?.expect(1)?, &["cannot read none"])?;

    trial.check(&["--json", "found.json"], "race")?.expect(1)?;
    let json = fs::read_to_string(trial.folder.join("found.json"))?;
    contains(&json, &["\"rule\": \"order\"", "\"errors\": 1", "\"incomplete\": false"])?;
    let text = trial.run(trial.command(&["--"]).arg("true"))?.expect(0)?;
    contains(&text, &["used no device"])?;
    trial.run(trial.command(&["--"]).arg("/no/such/program"))?.expect(127)?;
    trial.run(&mut trial.command(&[]))?.expect(2)?;
    Ok(())
}

/// A record has the findings that its program had while it ran; other files are named.
pub fn of_a_record(toolkit: &Toolkit) -> Result<()> {
    let trial = Trial::new(toolkit, "record")?;
    let mut record = toolkit.bare(toolkit.dir.join("bin/cairn"));
    record.args(["record", "-o", "run.cairn", "--", &trial.program, "races"]);
    trial.run(record.current_dir(&trial.folder))?.expect(0)?;
    let of_record = trial.run(&mut trial.command(&["run.cairn"]))?.expect(1)?;
    let live = trial.check(&[], "races")?.expect(1)?;
    let rules = |text: &str| -> Vec<String> {
        text.lines().filter(|line| !line.starts_with(' ')).map(str::to_owned).collect()
    };
    ensure!(rules(&of_record) == rules(&live), "of the record:\n{of_record}\nlive:\n{live}");
    contains(&live, &["1000 times error[order]: streams 1 and 2 touch"])?;

    fs::write(trial.folder.join("text"), "mine")?;
    let text = trial.run(&mut trial.command(&["text"]))?.expect(1)?;
    contains(&text, &["text is not a record; to check a program: cairn check -- text"])?;
    let mut bytes = fs::read(trial.folder.join("run.cairn"))?;
    fs::write(trial.folder.join("short"), &bytes[..20_000])?;
    let text = trial.run(&mut trial.command(&["short"]))?.expect(1)?;
    contains(&text, &["findings about order are left out", "the check is incomplete"])?;
    bytes[8] = 9;
    fs::write(trial.folder.join("future"), &bytes)?;
    contains(&trial.run(&mut trial.command(&["future"]))?.expect(1)?, &["has version 9"])
}

/// A finding is reported while the program still runs.
pub fn while_it_runs(toolkit: &Toolkit) -> Result<()> {
    let trial = Trial::new(toolkit, "live")?;
    let mut command = trial.command(&["--", &trial.program, "wait"]);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    let lines = BufReader::new(child.stderr.take().context("it has an output")?).lines();
    let mut text = String::new();
    // The program ends when its input does: that is after the finding.
    let mut input = child.stdin.take();
    for line in lines {
        text += &line?;
        text += "\n";
        if text.contains("help: record an event") {
            input.take();
        }
    }
    ensure!(input.is_none(), "it ended before its input\n{text}");
    let status = wait(&mut child, limit())?;
    ensure!(status.and_then(|status| status.code()) == Some(1), "{status:?}\n{text}");
    contains(&text, &["error[order]", "1 error, 0 notes"])
}

/// The record of a long run takes no more disk than the checker may be behind.
pub fn short_records(toolkit: &Toolkit) -> Result<()> {
    let trial = Trial::new(toolkit, "disk")?;
    let mut command = trial.command(&["--", &trial.program, "long"]);
    command.env("CAIRN_RECORD_BACKLOG", "1mib");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    let (mut most, mut length) = (0, 0);
    let status = loop {
        for folder in fs::read_dir(trial.folder.join("tmp"))?.flatten() {
            for file in fs::read_dir(folder.path()).into_iter().flatten().flatten() {
                if let Ok(metadata) = file.metadata() {
                    most = most.max(metadata.blocks() * 512);
                    length = length.max(metadata.size());
                }
            }
        }
        if let Some(status) = child.try_wait()? {
            break status;
        }
        std::thread::sleep(Duration::from_millis(1));
    };
    let output = child.wait_with_output()?;
    let text = String::from_utf8_lossy(&output.stderr);
    ensure!(status.success(), "{status}\n{text}");
    contains(&text, &["no findings"])?;
    ensure!(length > 6 << 20, "the record had {length} bytes: too few to say anything");
    ensure!(most <= 4 << 20, "the record of {length} bytes took {most} bytes of disk");
    Ok(())
}

/// What a program did before it was killed is checked; that its end is missing is said, and is no error by itself.
pub fn killed(toolkit: &Toolkit) -> Result<()> {
    let trial = Trial::new(toolkit, "killed")?;
    let text = trial.check(&[], "kill")?.expect(1)?;
    contains(&text, &["error[order]", "the process did not end in order"])?;
    let text = trial.check(&[], "kill-right")?.expect(128 + 9)?;
    contains(&text, &["the process did not end in order", "no findings"])
}

/// Each process that the program starts is checked by itself.
pub fn children(toolkit: &Toolkit) -> Result<()> {
    let trial = Trial::new(toolkit, "children")?;
    let text = trial.check(&["--json", "found.json"], "children")?.expect(1)?;
    ensure!(text.matches("error[order]").count() == 2, "{text}");
    ensure!(text.matches("\nprocess ").count() >= 2, "whose findings are they?\n{text}");
    let json = fs::read_to_string(trial.folder.join("found.json"))?;
    ensure!(json.matches("\"rule\": \"order\"").count() == 2, "{json}");
    Ok(())
}

/// A program that closes all descriptors is checked to its end.
pub fn closed_descriptors(toolkit: &Toolkit) -> Result<()> {
    let trial = Trial::new(toolkit, "close")?;
    let text = trial.check(&["--tool=order,leak"], "close")?.expect(1)?;
    contains(&text, &["error[order]", "1 error, 0 notes"])?;
    ensure!(!text.contains("did not end in order"), "{text}");
    Ok(())
}

/// A record that cannot grow makes the check incomplete, which counts as an error.
pub fn full(toolkit: &Toolkit) -> Result<()> {
    let trial = Trial::new(toolkit, "full")?;
    let text = trial.check(&["--json", "found.json"], "full")?.expect(1)?;
    contains(&text, &["could not grow", "the check is incomplete, which counts as an error"])?;
    let json = fs::read_to_string(trial.folder.join("found.json"))?;
    contains(&json, &["\"incomplete\": true"])?;
    trial.check(&["--error-exitcode", "0"], "full")?.expect(0)?;
    Ok(())
}
