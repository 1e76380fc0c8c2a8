//! `cairn record` and `cairn summary` on a toolkit, and records of programs that end in other ways than in order.

use std::{
    fs,
    io::{BufRead, BufReader},
    os::unix::{
        fs::{MetadataExt, PermissionsExt},
        process::{CommandExt, ExitStatusExt},
    },
    path::{Path, PathBuf},
    process::Stdio,
    sync::OnceLock,
};

use anyhow::{Context, Result, anyhow, ensure};
use cairn_record::{
    Entry, Reader,
    entry::{Frame, Happening},
};

use crate::{
    program::Program,
    run::{Outcome, run, wait},
    toolkit::{Toolkit, limit, root},
};

/// An empty folder for one trial, and the program that is recorded.
struct Trial<'a> {
    toolkit: &'a Toolkit,
    folder: PathBuf,
    program: PathBuf,
}

impl<'a> Trial<'a> {
    fn new(toolkit: &'a Toolkit, name: &str) -> Result<Trial<'a>> {
        let folder = toolkit.scratch.join(format!("record-{name}"));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder)?;
        let program = program()?.build(toolkit)?;
        Ok(Trial { toolkit, folder, program })
    }

    /// Runs `cairn` in the folder.
    fn cairn(&self, arguments: &[&str]) -> Result<Outcome> {
        let mut command = self.toolkit.bare(self.toolkit.dir.join("bin/cairn"));
        command.args(arguments).current_dir(&self.folder);
        command.env("ASCEND_SLOG_PRINT_TO_STDOUT", "1").env("ASCEND_GLOBAL_LOG_LEVEL", "2");
        run(&mut command, &self.folder.with_extension("log"), limit())
    }

    /// Records the program doing `what` in `run.cairn`.
    fn record(&self, what: &str) -> Result<Outcome> {
        let program = self.program.display().to_string();
        self.cairn(&["record", "-o", "run.cairn", "--", &program, what])
    }

    fn path(&self) -> PathBuf {
        self.folder.join("run.cairn")
    }

    /// All records in the folder, that of the first process first.
    fn files(&self) -> Result<Vec<PathBuf>> {
        let entries = fs::read_dir(&self.folder)?;
        let mut files: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
        files.sort();
        Ok(files)
    }
}

/// The program, which all trials share, so that it is compiled once.
fn program() -> Result<&'static Program> {
    static PROGRAM: OnceLock<Result<Program, String>> = OnceLock::new();
    let read = || {
        let source = root().join("tests/c/support/record.c");
        Program::read("support", source).map_err(|error| format!("{error:#}"))
    };
    PROGRAM.get_or_init(read).as_ref().map_err(|error| anyhow!("{error}"))
}

/// The entries of a record, which must have no damage.
fn read(path: &Path) -> Result<Vec<Entry<'static>>> {
    let mut reader = Reader::open(path).with_context(|| path.display().to_string())?;
    let entries = reader.by_ref().collect();
    ensure!(reader.damage().is_empty(), "{}: {:?}", path.display(), reader.damage());
    Ok(entries)
}

fn count(entries: &[Entry<'_>], is_counted: impl Fn(&Happening<'_>) -> bool) -> usize {
    entries.iter().filter(|entry| is_counted(&entry.happening)).count()
}

fn memsets(entries: &[Entry<'_>]) -> usize {
    count(
        entries,
        |what| matches!(what, Happening::Submit { name, .. } if &**name == "aclrtMemsetAsync"),
    )
}

fn has_exit(entries: &[Entry<'_>]) -> bool {
    count(entries, |what| matches!(what, Happening::Exit)) == 1
}

/// `cairn record`, `cairn run --record` and `cairn summary`; what exists is overwritten only if it is a record.
pub fn commands(toolkit: &Toolkit) -> Result<()> {
    let trial = Trial::new(toolkit, "commands")?;
    let text = trial.record("steps")?.expect(0)?;
    ensure!(text.contains("run.cairn: ") && text.contains(" entries, "), "{text}");
    let entries = read(&trial.path())?;
    ensure!(memsets(&entries) == 100 && has_exit(&entries), "{} memsets", memsets(&entries));
    let mode = fs::metadata(trial.path())?.permissions().mode() & 0o777;
    ensure!(mode == 0o600, "its mode is {mode:o}");

    let text = trial.cairn(&["summary", "run.cairn"])?.expect(0)?;
    for part in [
        "ended in order",
        "Device 0: peak 4.0",
        "aclrtMalloc",
        "aclrtSynchronizeStream for a stream",
    ] {
        ensure!(text.contains(part), "no {part:?} in\n{text}");
    }
    let task = text.lines().find(|line| line.trim_start().starts_with("aclrtMemsetAsync"));
    ensure!(task.is_some_and(|line| line.contains(" 100 ")), "{text}");
    let text = trial.cairn(&["summary", "run.cairn", "--json"])?.expect(0)?;
    ensure!(
        text.contains("\"submitted\": 100") && text.contains("\"unfinished_tasks\": 0"),
        "{text}"
    );

    let program = trial.program.display().to_string();
    let text =
        trial.cairn(&["run", "--record", "other.cairn", "--", &program, "nonsense"])?.expect(2)?;
    ensure!(text.contains("other.cairn: "), "{text}");
    let text = trial.cairn(&["record", "--", "true"])?.expect(0)?;
    ensure!(text.contains("nothing was recorded"), "{text}");
    trial.cairn(&["record", "--", "/no/such/program"])?.expect(127)?;

    fs::write(trial.folder.join("text"), "mine")?;
    let text = trial.cairn(&["record", "-o", "text", "--", &program])?.expect(1)?;
    ensure!(text.contains("text exists and is not a record"), "{text}");
    ensure!(fs::read(trial.folder.join("text"))? == b"mine", "it was overwritten");
    std::os::unix::fs::symlink("text", trial.folder.join("link"))?;
    let text = trial.cairn(&["record", "-o", "link", "--", &program])?.expect(1)?;
    ensure!(text.contains("link cannot be overwritten"), "{text}");
    let text = trial.cairn(&["summary", "text"])?.expect(1)?;
    ensure!(text.contains("text is not a record"), "{text}");
    let mut bytes = fs::read(trial.path())?;
    bytes[8] = 9;
    fs::write(trial.folder.join("future"), &bytes)?;
    let text = trial.cairn(&["summary", "future"])?.expect(1)?;
    ensure!(text.contains("future has version 9"), "{text}");
    bytes[8] = 1;
    fs::write(trial.folder.join("short"), &bytes[..20_000])?;
    trial.cairn(&["summary", "short"])?.expect(0)?;
    Ok(())
}

/// A process that is killed leaves a record that ends between two entries.
pub fn killed(toolkit: &Toolkit) -> Result<()> {
    let trial = Trial::new(toolkit, "killed")?;
    for round in 0..5 {
        let _ = fs::remove_file(trial.path());
        let mut command = toolkit.clean(&trial.program);
        command.arg("endless").env("CAIRN_RECORD", trial.path());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.process_group(0).spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().context("it has an output")?).read_line(&mut line)?;
        child.kill()?;
        let status = wait(&mut child, limit())?;
        ensure!(status.and_then(|status| status.signal()) == Some(9), "{status:?}");
        ensure!(line.trim() == "READY", "the program said: {line}");
        let entries = read(&trial.path())?;
        ensure!(memsets(&entries) >= 1000, "round {round}: {} memsets", memsets(&entries));
        ensure!(!has_exit(&entries), "round {round}: it ended in order?");
    }
    let text = trial.cairn(&["summary", "run.cairn"])?.expect(0)?;
    ensure!(text.contains("did not end in order"), "{text}");
    Ok(())
}

/// The signal that ends a program ends `cairn record` too, after it said what was written.
pub fn ended_by_a_signal(toolkit: &Toolkit) -> Result<()> {
    let trial = Trial::new(toolkit, "signal")?;
    let outcome = trial.record("signal")?;
    ensure!(outcome.status.and_then(|status| status.signal()) == Some(15), "{}", outcome.output);
    ensure!(outcome.output.contains("run.cairn: "), "{}", outcome.output);
    ensure!(memsets(&read(&trial.path())?) == 100, "{}", outcome.output);
    Ok(())
}

/// A child of a fork writes nothing; a program that it executes has a file of its own; the next run removes both.
pub fn children(toolkit: &Toolkit) -> Result<()> {
    let trial = Trial::new(toolkit, "children")?;
    let text = trial.record("children")?.expect(0)?;
    let files = trial.files()?;
    ensure!(files.len() == 2, "{files:?}\n{text}");
    for (file, expected) in files.iter().zip([200, 100]) {
        let entries = read(file)?;
        ensure!(memsets(&entries) == expected && has_exit(&entries), "{}", file.display());
        ensure!(text.contains(&format!("{}: ", file.display())), "{text}");
    }
    trial.record("steps")?.expect(0)?;
    ensure!(trial.files()?.len() == 1, "{:?}", trial.files()?);
    Ok(())
}

/// A program that closes all descriptors is recorded to its end, and nothing is written into its own files.
pub fn closed_descriptors(toolkit: &Toolkit) -> Result<()> {
    let trial = Trial::new(toolkit, "close")?;
    trial.record("close")?.expect(0)?;
    let entries = read(&trial.path())?;
    ensure!(memsets(&entries) == 100_000, "{} memsets", memsets(&entries));
    Ok(())
}

/// A file that cannot grow ends the record with one warning, and not the program.
pub fn full(toolkit: &Toolkit) -> Result<()> {
    let trial = Trial::new(toolkit, "full")?;
    let text = trial.record("full")?.expect(0)?;
    ensure!(text.matches("ends here").count() == 1, "{text}");
    ensure!(text.contains("the end of the process is not in it"), "{text}");
    let entries = read(&trial.path())?;
    let (found, bytes) = (memsets(&entries), fs::metadata(trial.path())?.size());
    ensure!(found > 1000 && found < 200_000, "{found} memsets");
    ensure!(bytes <= 3 << 20, "{bytes} bytes");
    Ok(())
}

/// With `--stacks` a call has the frames of the program.
pub fn stacks(toolkit: &Toolkit) -> Result<()> {
    let trial = Trial::new(toolkit, "stacks")?;
    let program = trial.program.display().to_string();
    let words = ["record", "--stacks", "-o", "run.cairn", "--", &program, "steps"];
    trial.cairn(&words)?.expect(0)?;
    let entries = read(&trial.path())?;
    let alloc = entries.iter().find(|entry| {
        matches!(entry.happening, Happening::Alloc { .. }) && &*entry.site.entry == "aclrtMalloc"
    });
    let number = alloc.context("aclrtMalloc was not recorded")?.site.stack;
    let frames = entries.iter().find_map(|entry| match &entry.happening {
        Happening::Stack { number: other, frames } if *other == number => Some(frames.to_vec()),
        _ => None,
    });
    let frames = frames.with_context(|| format!("stack {number} is not in the record"))?;
    let is_of_program = |frame: &Frame| match frame {
        Frame::Native { module, .. } => Path::new(&**module) == trial.program,
        Frame::Python { .. } => false,
    };
    ensure!(frames.first().is_some_and(is_of_program), "the innermost frame of {frames:?}");
    ensure!(frames.iter().filter(|frame| is_of_program(frame)).count() >= 3, "{frames:?}");
    let text = trial.cairn(&["summary", "run.cairn"])?.expect(0)?;
    ensure!(text.contains("aclrtMalloc from take_memory"), "{text}");
    Ok(())
}
