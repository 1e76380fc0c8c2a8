//! Searches for inputs that break something: libFuzzer over the targets of `tests/fuzz`.
//!
//! No nightly and no cargo-fuzz: the stable compiler puts coverage into the code when LLVM is asked
//! to, and `libfuzzer-sys` brings the rest. What is found on the way stays in `target/fuzz`, as the
//! start of the next search; an input that fails is named.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result};

use crate::{
    step::{self, Counts, cargo},
    target_dir,
};

/// Changes how long each target is searched.
const VARIABLE: &str = "CAIRN_FUZZ_SECONDS";
const SECONDS: u64 = 120;
/// Name and longest input of each target.
const TARGETS: [(&str, u32); 10] = [
    ("aipp", 1000),
    ("ge_model", 4000),
    ("meeting", 5000),
    ("om", 4000),
    ("onnx", 4000),
    ("pool", 2000),
    ("record", 2000),
    ("shapes", 300),
    ("spec", 200),
    ("trace", 2000),
];
const FLAGS: [&str; 8] = [
    "--cfg=fuzzing",
    "-Ccodegen-units=1",
    "-Cdebug-assertions",
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
];

/// Builds every target and searches each for a while.
pub fn run(root: &Path) -> Result<Counts> {
    let seconds = match std::env::var(VARIABLE) {
        Ok(text) => text.parse().with_context(|| format!("{VARIABLE}={text} is no number"))?,
        Err(_) => SECONDS,
    };
    let programs = build(root)?;
    let mut counts = Counts::default();
    for (target, max_length) in TARGETS {
        let mut search = search(root, &programs, target, max_length, seconds)?;
        match step::run(&mut search) {
            Ok(()) => counts.passed += 1,
            Err(error) => {
                println!("{error:#}; see {}", findings(root).display());
                counts.failed += 1;
            }
        }
    }
    Ok(counts)
}

/// The folder with the instrumented programs.
fn build(root: &Path) -> Result<PathBuf> {
    let folder = target_dir(root).join("fuzz");
    let triple = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let mut command = cargo(root, &["build", "--release", "-p", "cairn-fuzz", "--bins"]);
    command.args(["--features", "libfuzzer", "--target", &triple]);
    command.env("CARGO_TARGET_DIR", &folder).env("RUSTFLAGS", FLAGS.join(" "));
    step::run(command.env("CARGO_PROFILE_RELEASE_LTO", "off"))?;
    Ok(folder.join(triple).join("release"))
}

fn search(
    root: &Path,
    programs: &Path,
    target: &str,
    max_length: u32,
    seconds: u64,
) -> Result<Command> {
    let sources = root.join("tests/fuzz");
    let corpus = target_dir(root).join("fuzz/corpus").join(target);
    fs::create_dir_all(&corpus)?;
    fs::create_dir_all(findings(root))?;
    let mut command = Command::new(programs.join(format!("fuzz-{target}")));
    command.arg(format!("-max_total_time={seconds}")).arg(format!("-max_len={max_length}"));
    command.args(["-timeout=20", "-verbosity=0", "-print_final_stats=1"]);
    command.arg(format!("-artifact_prefix={}/{target}-", findings(root).display()));
    let dictionary = sources.join(format!("{target}.dict"));
    if dictionary.exists() {
        command.arg(format!("-dict={}", dictionary.display()));
    }
    command.arg(corpus).arg(sources.join("corpus").join(target));
    Ok(command)
}

/// Where inputs that fail are kept.
fn findings(root: &Path) -> PathBuf {
    target_dir(root).join("fuzz/findings")
}
