//! `cargo xtask test`: every test of the project once, step by step, and one line of totals. What takes longer, such as
//! products of types and layouts, is in [`crate::deep`].

use std::{path::Path, process::Command};

use anyhow::{Context, Result};

use crate::{
    coverage, data,
    step::{self, Counts, Report, cargo, run_and_count, run_and_count_both},
    toolkit::{self, Build},
    venv,
};

/// How many schedules shuttle tries for each model, with each of its two ways to choose them.
const SCHEDULES: &str = "200";

/// The seed of proptest's inputs, so that the same commit passes or fails in every run; [`crate::deep`] draws new ones. One in the
/// environment is kept.
const SEED: (&str, &str) = ("PROPTEST_RNG_SEED", "20261118");

/// A test that another test runs, in a process of its own.
const RUN_BY_ANOTHER: &str = "source::tests::under_a_limit";

/// Runs every step, also after a failed one, and ends with `N passed, N failed, N skipped`. The process exits with 1
/// when anything failed.
pub fn run(root: &Path, torch: bool) -> Result<()> {
    let counters = coverage::folder(root)?;
    let with_counters = |mut command: Command| {
        command.env(coverage::VARIABLE, &counters);
        command
    };
    let mut report = Report::default();
    report.step("build", || step::run(&mut build(root)).map(|()| Counts::default()));
    report.step("unit tests", || {
        let mut units = with_counters(units(root)?);
        if std::env::var_os(SEED.0).is_none() {
            units.env(SEED.0, SEED.1);
        }
        run_and_count(&mut units)
    });
    report.step("models of concurrency", || run_and_count(&mut models(root, SCHEDULES)));
    let mut assembled = None;
    report.step("toolkit", || {
        assembled = Some(toolkit::assemble(root, &toolkit::test_dir(root), Build::Dev)?);
        Ok(Counts::default())
    });
    if let Some(toolkit) = assembled {
        report.step("programs on the toolkit", || {
            run_and_count(&mut with_counters(programs(root, &toolkit)?))
        });
        report.step("python on the toolkit", || {
            let python = venv::for_module(root)?;
            run_and_count(with_counters(pytest(root, &toolkit, &python)?).arg("tests/py"))
        });
        report.step("onnxruntime on the toolkit", || {
            let python = venv::onnxruntime(root)?;
            run_and_count(with_counters(pytest(root, &toolkit, &python)?).arg("tests/ort"))
        });
        if torch {
            report.step("torch on the toolkit", || {
                let [first, second, alone] = torch_tests(root, &toolkit)?.map(with_counters);
                torch_counts([first, second], alone)
            });
        }
    }
    report.step("coverage", || {
        coverage::update(root, &counters, coverage::Run::Part).map(|()| Counts::default())
    });
    report.finish()
}

/// Builds everything that the other steps need, in one go and one profile. They select the whole workspace too: cargo
/// would build crates again for a selection in which dependencies have other features.
pub fn build(root: &Path) -> Command {
    cargo(root, &["build", "--workspace", "--lib", "--bins", "--tests"])
}

/// The tests in Rust. Those that need the data folder are ignored without it.
pub fn units(root: &Path) -> Result<Command> {
    let mut command =
        cargo(root, &["test", "--workspace", "--exclude", "cairn-tests", "--no-fail-fast"]);
    command.args(["--", "--skip", RUN_BY_ANOTHER]);
    data::set_variable(&mut command, root)?;
    command.env("CAIRN_ONNX_NODES", venv::onnx_node_tests(root)?);
    if data::folder(root)?.is_some() {
        command.arg("--include-ignored");
    }
    Ok(command)
}

/// The shuttle models, with this many schedules each.
pub fn models(root: &Path, schedules: &str) -> Command {
    let mut command = cargo(root, &["test", "--workspace", "--test", "models*", "--no-fail-fast"]);
    command.args(["--features", "cairn-pool/shuttle,cairn-runtime/shuttle"]);
    command.env("CAIRN_SHUTTLE_ITERATIONS", schedules);
    command
}

/// The C and C++ programs, and the engine that moves bytes between ranks; they find the toolkit by `CAIRN_TOOLKIT`.
pub fn programs(root: &Path, toolkit: &Path) -> Result<Command> {
    let mut command = cargo(root, &["test", "--workspace", "--no-fail-fast"]);
    command.args(["--test", "programs", "--test", "engine"]);
    command.env("CAIRN_TOOLKIT", toolkit);
    data::set_variable(&mut command, root)?;
    Ok(command)
}

/// Runs by itself: it leaves no memory free, on purpose, and so depends on when torch_npu's own threads get a core.
const ALONE: &str = "tests/torch/test_operators_on_freed_memory.py";

/// About half of the torch tests, by the time they take: those that run programs with user allocators, which
/// share what they compile, those of torchair, and the networks. Those that need none of it come first.
const SECOND_HALF: [&str; 6] = [
    "tests/torch/test_pool.py",
    "tests/torch/test_use_after_free.py",
    "tests/torch/test_user_allocators.py",
    "tests/torch/test_pluggable.py",
    "tests/torch/test_torchair.py",
    "tests/torch/test_models.py",
];

/// pytest on the toolkit; the caller says what of.
pub fn pytest(root: &Path, toolkit: &Path, python: &Path) -> Result<Command> {
    let mut command = Command::new(toolkit.join("bin/cairn"));
    command.args(["run", "--"]).arg(python).args(["-m", "pytest", "-q"]);
    command.current_dir(root).env("CAIRN_TOOLKIT", toolkit).env("PYTHONDONTWRITEBYTECODE", "1");
    data::set_variable(&mut command, root)?;
    Ok(command)
}

/// The torch tests: two processes side by side, since most of their time one core would do nothing, and one alone.
pub fn torch_tests(root: &Path, toolkit: &Path) -> Result<[Command; 3]> {
    let (python, onnxruntime) = (venv::ensure(root)?, venv::onnxruntime(root)?);
    let start = || -> Result<Command> {
        let mut command = pytest(root, toolkit, &python)?;
        command.env("CAIRN_ORT_PYTHON", &onnxruntime);
        Ok(command)
    };
    let (mut others, mut second_half, mut alone) = (start()?, start()?, start()?);
    others.arg("tests/torch").args(SECOND_HALF.map(|file| format!("--ignore={file}")));
    others.arg(format!("--ignore={ALONE}"));
    second_half.args(SECOND_HALF);
    alone.arg(ALONE);
    Ok([others, second_half, alone])
}

/// Torch tests that do on purpose what the checker reports, or are about what programs print and start.
const UNCHECKED: [&str; 7] = [
    ALONE,
    "tests/torch/test_check.py",
    "tests/torch/test_forks.py",
    "tests/torch/test_import.py",
    "tests/torch/test_pictures.py",
    "tests/torch/test_pluggable.py",
    "tests/torch/test_use_after_free.py",
];

/// The files of torch tests that run under `cairn check`.
pub fn checked_files(root: &Path) -> Result<Vec<String>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(root.join("tests/torch"))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        let path = format!("tests/torch/{name}");
        let is_test = name.starts_with("test_") && name.ends_with(".py");
        if is_test && !UNCHECKED.contains(&&*path) {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// A file of torch tests under `cairn check`: an error that it finds is one.
pub fn checked_torch(root: &Path, toolkit: &Path, file: &str) -> Result<Command> {
    let python = venv::ensure(root)?;
    let mut command = Command::new(toolkit.join("bin/cairn"));
    command.args(["check", "--error-exitcode", "9", "--"]).arg(&python);
    command.args(["-m", "pytest", "-q", file]);
    command.current_dir(root).env("CAIRN_TOOLKIT", toolkit).env("PYTHONDONTWRITEBYTECODE", "1");
    command.env("CAIRN_ORT_PYTHON", venv::onnxruntime(root)?);
    data::set_variable(&mut command, root)?;
    Ok(command)
}

/// Runs the commands of [`torch_tests`].
pub fn torch_counts([mut first, mut second]: [Command; 2], mut alone: Command) -> Result<Counts> {
    let mut total = Counts::default();
    let both = run_and_count_both(&mut first, &mut second);
    for counts in both.into_iter().chain([run_and_count(&mut alone)]) {
        total += counts.context("torch tests")?;
    }
    Ok(total)
}
