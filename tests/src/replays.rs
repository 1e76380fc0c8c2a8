//! `cairn replay` and `cairn diff` on a toolkit, and the pool's repository of `examples/ci`.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Result, ensure};

use crate::{
    pools,
    program::Program,
    run::{Outcome, run},
    toolkit::{Toolkit, limit, root},
};

/// A pool that does what its functions say, and one that does not.
const CRASHING: &str = "\
#include <stdlib.h>
#include <unistd.h>
void *my_malloc(long size, int device, void *stream) { (void)device, (void)stream; return size == 77 ? (abort(), NULL) : NULL; }
void my_free(void *ptr, long size, int device, void *stream) { (void)ptr, (void)size, (void)device, (void)stream; }
void *hang(long size, int device, void *stream) { (void)size, (void)device, (void)stream; for (;;) pause(); }
";

/// An empty folder for one trial.
struct Trial<'a> {
    toolkit: &'a Toolkit,
    folder: PathBuf,
}

impl<'a> Trial<'a> {
    fn new(toolkit: &'a Toolkit, name: &str) -> Result<Trial<'a>> {
        let folder = toolkit.scratch.join(format!("replay-{name}"));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder)?;
        Ok(Trial { toolkit, folder })
    }

    fn cairn(&self, words: &[&str]) -> Result<Outcome> {
        let mut command = self.toolkit.bare(self.toolkit.dir.join("bin/cairn"));
        command.args(words).current_dir(&self.folder);
        run(&mut command, &self.folder.with_extension("log"), limit())
    }

    /// Records a program that has an allocator on a stream; with a word it takes 8 MiB besides.
    fn record(&self, file: &str, words: &[&str]) -> Result<()> {
        let source = root().join("tests/c/support/replay.c");
        let program = Program::read("support", source)?.build(self.toolkit)?;
        let program = program.display().to_string();
        self.cairn(&[&["record", "-o", file, "--", &program], words].concat())?.expect(0)?;
        Ok(())
    }

    fn write(&self, name: &str, text: &str) -> Result<()> {
        Ok(fs::write(self.folder.join(name), text)?)
    }
}

fn library(toolkit: &Toolkit, name: &str) -> Result<String> {
    let library = pools::compile(toolkit, &root().join("tests/pools").join(name))?;
    Ok(library.display().to_string())
}

/// A record and a trace on every kind of allocator.
pub fn allocators(toolkit: &Toolkit) -> Result<()> {
    let trial = Trial::new(toolkit, "allocators")?;
    trial.record("run.cairn", &["more"])?;
    let (torch, acl) = (library(toolkit, "right.c")?, library(toolkit, "right_acl.c")?);
    let ge = library(toolkit, "cairn_ge.cc")?;
    let specs = [
        "cairn".to_owned(),
        "malloc".into(),
        format!("so:{torch}"),
        format!("acl:{acl}:make"),
        format!("ge:{ge}:make"),
    ];
    let mut words = vec!["replay", "run.cairn", "--json", "--write-trace", "run.trc"];
    specs.iter().for_each(|spec| words.extend(["--allocator", spec]));
    let text = trial.cairn(&words)?.expect(0)?;
    ensure!(text.contains("asked of the program's allocators"), "{text}");
    ensure!(text.contains("\"taken\": 20"), "{text}");
    for spec in &specs {
        let start = format!("\"allocator\": \"{spec}\"");
        ensure!(text.contains(&start), "no {spec} in\n{text}");
    }
    ensure!(text.matches("\"failures\": 0").count() == specs.len(), "{text}");
    ensure!(text.matches("\"peak_live\": 5096").count() == specs.len() + 1, "{text}");
    ensure!(text.matches("\"median_ns\"").count() == 2 * specs.len(), "{text}");

    let trace = fs::read_to_string(trial.folder.join("run.trc"))?;
    ensure!(trace.starts_with("a 0 1000\na 1 4096\nf "), "{trace}");
    let text = trial.cairn(&["replay", "run.trc", "--allocator", &specs[2]])?.expect(0)?;
    ensure!(text.contains("run.trc: 20 blocks taken and 20 given back on 1 stream"), "{text}");
    let text = trial.cairn(&["replay", "run.cairn", "--requests", "device"])?.expect(0)?;
    ensure!(text.contains("what the program took from devices"), "{text}");
    let text = trial.cairn(&["replay", "run.cairn", "--requests", "pool"])?.expect(1)?;
    ensure!(text.contains("run.cairn has no requests of the kind"), "{text}");
    Ok(())
}

/// A library that crashes, hangs or is not there ends nobody else; a small device refuses requests; bad files are named.
pub fn failures(toolkit: &Toolkit) -> Result<()> {
    let trial = Trial::new(toolkit, "failures")?;
    trial.write("pool.c", CRASHING)?;
    let mut command = toolkit.bare("gcc");
    command.args(["-shared", "-fPIC", "pool.c", "-o", "pool.so"]).current_dir(&trial.folder);
    run(&mut command, &trial.folder.with_extension("compile"), limit())?.expect(0)?;
    trial.write("two.trc", "a 0 100\na 1 77\nf 0\nf 1\n")?;
    let crash = ["replay", "two.trc", "--allocator", "so:pool.so", "--allocator", "cairn"];
    let text = trial.cairn(&crash)?.expect(1)?;
    ensure!(text.contains("so:pool.so: the process crashed (SIGABRT)"), "{text}");
    ensure!(
        text.lines().any(|line| line.starts_with("  cairn ") && line.ends_with(" 0")),
        "{text}"
    );
    let hang = ["replay", "two.trc", "--idle-limit", "1", "--allocator", "so:pool.so:hang:my_free"];
    let text = trial.cairn(&hang)?.expect(1)?;
    ensure!(text.contains("the process hangs: every thread waits"), "{text}");
    let text = trial.cairn(&["replay", "two.trc", "--allocator", "so:none.so"])?.expect(1)?;
    ensure!(text.contains("none.so cannot be loaded"), "{text}");
    let text = trial.cairn(&["replay", "two.trc", "--allocator", "so:pool.so:a:b"])?.expect(1)?;
    ensure!(text.contains("it has no function a"), "{text}");

    trial.write("large.trc", "a 0 40000000\na 1 40000000\nf 0\na 2 40000000\n")?;
    let small = ["replay", "large.trc", "--device-memory", "64mib", "--allocator"];
    let text = trial.cairn(&[&small[..], &["cairn"]].concat())?.expect(0)?;
    ensure!(
        text.contains("first failure: request 2 for 40000000 bytes: the pool gave null"),
        "{text}"
    );
    let right = format!("so:{}", library(toolkit, "right.c")?);
    let words = [&small[..], &[right.as_str(), "--fail-above", "9"]].concat();
    let text = trial.cairn(&words)?.expect(1)?;
    ensure!(text.contains("right.so: 1 requests failed"), "{text}");

    trial.write("text", "mine\n")?;
    for (words, reason) in [
        (
            ["replay", "text"],
            "text is neither a record (`cairn record` makes one) nor a plain trace: line 1",
        ),
        (["replay", "none"], "none cannot be read: No such file"),
        (["replay", "."], "cannot read ."),
    ] {
        let text = trial.cairn(&words)?.expect(1)?;
        ensure!(text.contains(reason), "{text}");
    }
    let text = trial.cairn(&["replay", "two.trc", "--allocator", "jemalloc"])?.expect(2)?;
    ensure!(text.contains("`jemalloc` is no allocator; there are cairn, malloc"), "{text}");
    Ok(())
}

/// Two records; the exit code is 1 for a peak that is too high, and 2 for a file that cannot be read.
pub fn diff(toolkit: &Toolkit) -> Result<()> {
    let trial = Trial::new(toolkit, "diff")?;
    trial.record("a.cairn", &[])?;
    trial.record("b.cairn", &["more"])?;
    let text = trial.cairn(&["diff", "a.cairn", "a.cairn", "--fail-above", "0"])?.expect(0)?;
    ensure!(text.contains("no device's peak is higher by more than 0 B"), "{text}");
    let text = trial.cairn(&["diff", "a.cairn", "b.cairn"])?.expect(0)?;
    ensure!(text.contains("Device 0: peak ") && text.contains("aclrtMalloc"), "{text}");
    let text = trial.cairn(&["diff", "a.cairn", "b.cairn", "--fail-above", "5%"])?.expect(1)?;
    ensure!(
        text.contains("the peak is higher by 8.00 MiB, and more than 5 % is too much"),
        "{text}"
    );
    trial.cairn(&["diff", "b.cairn", "a.cairn", "--fail-above", "5%"])?.expect(0)?;
    trial.cairn(&["diff", "a.cairn", "b.cairn", "--fail-above", "16mib"])?.expect(0)?;
    let words = ["diff", "a.cairn", "b.cairn", "--fail-above", "1mib", "--json"];
    let text = trial.cairn(&words)?.expect(1)?;
    ensure!(text.contains("\"exceeding\": [\n    0\n  ]"), "{text}");
    trial.write("text", "mine\n")?;
    let text = trial.cairn(&["diff", "a.cairn", "text"])?.expect(2)?;
    ensure!(text.contains("text is not a record"), "{text}");
    trial.cairn(&["diff", "none", "a.cairn"])?.expect(2)?;
    let text = trial.cairn(&["diff", "a.cairn", "b.cairn", "--fail-above", "much"])?.expect(2)?;
    ensure!(text.contains("`much` is neither a part"), "{text}");
    Ok(())
}

/// The repository of a pool checks itself, for the first time and once more.
pub fn ci(toolkit: &Toolkit) -> Result<()> {
    let trial = Trial::new(toolkit, "ci")?;
    let script = root().join("examples/ci/check.sh").display().to_string();
    let build = trial.folder.join("build");
    let words = ["run", "--", "sh", &script, &build.display().to_string()];
    let text = trial.cairn(&words)?.expect(0)?;
    for part in ["20 of 20 clauses are kept", "18 of 18 clauses are kept", "this one is the first"]
    {
        ensure!(text.contains(part), "no {part:?} in\n{text}");
    }
    ensure!(fs::read_to_string(build.join("pool-acl.xml"))?.contains("failures=\"0\""), "{text}");
    let text = trial.cairn(&words)?.expect(0)?;
    ensure!(text.contains("no device's peak is higher by more than 5 %"), "{text}");
    is_workflow(&root().join("examples/ci/.github/workflows/pool.yml"))
}

/// The workflow runs the script.
fn is_workflow(path: &Path) -> Result<()> {
    let text = fs::read_to_string(path)?;
    ensure!(text.contains("sh check.sh") && text.contains("cargo xtask toolkit"), "{text}");
    Ok(())
}
