//! `cairn report`, `timeline`, `snapshot` and `flame` on records of programs.

use std::{fs, path::PathBuf};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::{
    program::Program,
    run::{Outcome, run},
    toolkit::{Toolkit, limit, root},
};

/// A program that was recorded with stacks.
struct Recorded<'a> {
    toolkit: &'a Toolkit,
    folder: PathBuf,
}

impl<'a> Recorded<'a> {
    fn new(toolkit: &'a Toolkit, source: &str) -> Result<Recorded<'a>> {
        let name = source.replace(['/', '.'], "-");
        let folder = toolkit.scratch.join(format!("pictures-{name}"));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder)?;
        let group = source.split('/').nth(1).context("a folder of tests")?;
        let program = Program::read(group, root().join(source))?.build(toolkit)?;
        let recorded = Recorded { toolkit, folder };
        let program = program.display().to_string();
        recorded.cairn(&["record", "--stacks", "-o", "run.cairn", "--", &program])?.expect(0)?;
        Ok(recorded)
    }

    fn cairn(&self, arguments: &[&str]) -> Result<Outcome> {
        let mut command = self.toolkit.bare(self.toolkit.dir.join("bin/cairn"));
        command.args(arguments).current_dir(&self.folder);
        run(&mut command, &self.folder.with_extension("log"), limit())
    }

    fn read(&self, name: &str) -> Result<Vec<u8>> {
        fs::read(self.folder.join(name)).with_context(|| name.to_owned())
    }

    fn trace(&self) -> Result<Vec<Value>> {
        let text = self.cairn(&["timeline", "run.cairn"])?.expect(0)?;
        ensure!(text.contains("run.json: "), "{text}");
        let trace: Value = serde_json::from_slice(&self.read("run.json")?)?;
        Ok(trace["traceEvents"].as_array().context("a list of events")?.clone())
    }
}

/// Every command on a program with two streams, and on files that are no records.
pub fn commands(toolkit: &Toolkit) -> Result<()> {
    let recorded = Recorded::new(toolkit, "tests/check/order.c")?;
    let text = recorded.cairn(&["report", "run.cairn"])?.expect(0)?;
    ensure!(text.contains("run.html: "), "{text}");
    let page = String::from_utf8(recorded.read("run.html")?)?;
    ensure!(
        page.contains("touch the same bytes, and nothing orders them"),
        "no finding in the page"
    );

    let trace = recorded.trace()?;
    let count = |phase: &str| trace.iter().filter(|event| event["ph"] == phase).count();
    ensure!(count("X") >= 2 && count("C") >= 2, "{} slices, {} counters", count("X"), count("C"));

    let text = recorded.cairn(&["snapshot", "run.cairn", "--at", "peak"])?.expect(0)?;
    ensure!(text.contains("run.pickle: 1 segments"), "{text}");
    let text = recorded.cairn(&["flame", "run.cairn"])?.expect(0)?;
    let line = text.lines().find(|line| line.contains(";aclrtMalloc;"));
    ensure!(line.is_some_and(|line| line.contains("main") && line.ends_with(" 4128")), "{text}");
    recorded.cairn(&["flame", "run.cairn", "-o", "flame.txt", "--device", "0"])?.expect(0)?;
    ensure!(!recorded.read("flame.txt")?.is_empty(), "the file is empty");
    let text = recorded.cairn(&["flame", "run.cairn", "--device", "7"])?.expect(1)?;
    ensure!(text.contains("no device 7"), "{text}");
    let text = recorded.cairn(&["flame", "run.cairn", "--at", "noon"])?.expect(2)?;
    ensure!(text.contains("`noon` is not"), "{text}");

    fs::write(recorded.folder.join("text"), "mine")?;
    for command in ["report", "timeline", "snapshot", "flame"] {
        let text = recorded.cairn(&[command, "text"])?.expect(1)?;
        ensure!(text.contains("text is not a record"), "{command}: {text}");
        let text = recorded.cairn(&[command, "absent"])?.expect(1)?;
        ensure!(text.contains("absent cannot be read"), "{command}: {text}");
        let text = recorded.cairn(&[command, "."])?.expect(1)?;
        ensure!(text.contains(". is not a record"), "{command}: {text}");
        let text = recorded.cairn(&[command, "run.cairn", "-o", "run.cairn"])?.expect(1)?;
        ensure!(text.contains("run.cairn is the record itself"), "{command}: {text}");
    }
    fs::write(recorded.folder.join("cut.cairn"), &recorded.read("run.cairn")?[..4096])?;
    for command in ["report", "timeline", "snapshot", "flame", "summary"] {
        let text = recorded.cairn(&[command, "cut.cairn"])?.expect(0)?;
        ensure!(text.contains("the record has no entries"), "{command}: {text}");
    }
    let text =
        recorded.cairn(&["diff", "run.cairn", "cut.cairn", "--fail-above", "5%"])?.expect(2)?;
    ensure!(text.contains("what is missing may have been the peak"), "{text}");
    let text = recorded.cairn(&["check", "cut.cairn"])?.expect(1)?;
    ensure!(text.contains("nothing was checked"), "{text}");
    let text = recorded.cairn(&["report", "run.cairn", "-o", "absent/page.html"])?.expect(1)?;
    ensure!(text.contains("cannot write absent/page.html"), "{text}");
    Ok(())
}

/// Arrows lead from the records of events to the waits for them; marks and regions of the program are shown.
pub fn events_and_marks(toolkit: &Toolkit) -> Result<()> {
    let trace = Recorded::new(toolkit, "tests/check/right/pool_polls_events.c")?.trace()?;
    let ends = |phase: &str| trace.iter().filter(|event| event["ph"] == phase).count();
    ensure!(ends("s") == ends("f"), "{} arrows begin, {} end", ends("s"), ends("f"));

    let recorded = Recorded::new(toolkit, "tests/c/mstx.c")?;
    let trace = recorded.trace()?;
    let marks =
        trace.iter().filter(|event| event["ph"] == "b").filter_map(|event| event["name"].as_str());
    let marks: Vec<&str> = marks.collect();
    ensure!(marks == ["step", "pool: inner", "here", "pool: there"], "{marks:?}");
    recorded.cairn(&["report", "run.cairn"])?.expect(0)?;
    let page = String::from_utf8(recorded.read("run.html")?)?;
    ensure!(
        page.contains("tensor or region") && page.contains("pool: inner"),
        "no marks in the page"
    );
    Ok(())
}
