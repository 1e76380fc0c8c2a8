//! `cargo xtask test`: every test of the project, step by step, and one line of totals.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::Result;

use crate::{
    coverage,
    step::{Counts, announce, cargo, counted, counted_both},
    target_dir, toolkit,
};

/// Runs every step, also after a failed one, and ends with `N passed, N failed, N skipped`. A step that cannot
/// run at all counts as one failure. The process exits with 1 when anything failed.
pub fn run(root: &Path, torch: bool) -> Result<()> {
    let counters = target_dir(root).join("coverage");
    let _ = fs::remove_dir_all(&counters);
    fs::create_dir_all(&counters)?;
    let mut total = Counts::default();
    let mut add = |result: Result<Counts>| {
        total += result.unwrap_or_else(|error| {
            println!("{error:#}");
            Counts::FAILURE
        });
    };
    let with_counters = |mut command: Command| {
        command.env("CAIRN_COVERAGE", &counters);
        command
    };

    announce("unit tests");
    let units = cargo(root, &["test", "--workspace", "--exclude", "cairn-tests", "--no-fail-fast"]);
    add(counted(&mut with_counters(units)));
    announce("models of concurrency");
    add(counted(&mut models(root)));
    announce("toolkit");
    match toolkit::assemble(root, &toolkit::default_dir(root)) {
        Err(error) => add(Err(error)),
        Ok(toolkit) => {
            announce("programs on the toolkit");
            add(counted(&mut with_counters(programs(root, &toolkit))));
            if torch {
                announce("python on the toolkit");
                let python = pytest(root, &toolkit).map(|mut command| {
                    command.arg("tests/py");
                    command
                });
                add(python.and_then(|command| counted(&mut with_counters(command))));
                announce("torch on the toolkit");
                match torch_tests(root, &toolkit) {
                    Err(error) => add(Err(error)),
                    Ok(parts) => {
                        let [mut first, mut second, mut alone] = parts.map(with_counters);
                        for result in counted_both(&mut first, &mut second) {
                            add(result);
                        }
                        add(counted(&mut alone));
                    }
                }
            }
        }
    }
    announce("coverage");
    let whole = if torch { coverage::Run::Whole } else { coverage::Run::Part };
    if let Err(error) = coverage::update(root, &counters, whole) {
        add(Err(error));
    }
    println!("\n{total}");
    if total.failed > 0 {
        std::process::exit(1);
    }
    Ok(())
}

/// The shuttle models, in a target folder of their own: the feature changes every lock, and sharing
/// the folder would rebuild the world twice a run.
pub fn models(root: &Path) -> Command {
    let mut command = cargo(root, &["test", "-p", "cairn-pool", "-p", "cairn-runtime"]);
    command.args(["--features", "shuttle", "--test", "models*", "--no-fail-fast"]);
    command.env("CARGO_TARGET_DIR", target_dir(root).join("shuttle"));
    command
}

/// The C and C++ programs, which find the toolkit by `CAIRN_TOOLKIT`.
pub fn programs(root: &Path, toolkit: &Path) -> Command {
    let mut command = cargo(root, &["test", "-p", "cairn-tests", "--no-fail-fast"]);
    command.env("CAIRN_TOOLKIT", toolkit);
    command
}

/// Leaves no memory free, on purpose, and so depends on when torch_npu's own threads get a core.
const ALONE: &str = "tests/torch/test_operators_on_freed_memory.py";

/// About half of the torch tests, by the time they take: those that run programs with allocators of the user, which
/// share what they compile.
const WITH_ALLOCATORS: [&str; 4] = [
    "tests/torch/test_pluggable.py",
    "tests/torch/test_pool.py",
    "tests/torch/test_use_after_free.py",
    "tests/torch/test_user_allocators.py",
];

/// pytest on the toolkit; the caller says what of.
fn pytest(root: &Path, toolkit: &Path) -> Result<Command> {
    let python: PathBuf = crate::venv::ensure(root)?;
    let mut command = Command::new(toolkit.join("bin/cairn"));
    command.args(["run", "--"]).arg(&python).args(["-m", "pytest", "-q"]);
    command.current_dir(root).env("CAIRN_TOOLKIT", toolkit).env("PYTHONDONTWRITEBYTECODE", "1");
    let facts = root.join("../shared/facts");
    if std::env::var_os("CAIRN_DATA").is_none() && facts.exists() {
        command.env("CAIRN_DATA", facts.canonicalize()?);
    }
    Ok(command)
}

/// The torch tests: two processes side by side, since most of their time one core would do nothing, and one alone.
fn torch_tests(root: &Path, toolkit: &Path) -> Result<[Command; 3]> {
    let start = || pytest(root, toolkit);
    let (mut others, mut with_allocators, mut alone) = (start()?, start()?, start()?);
    others.arg("tests/torch").args(WITH_ALLOCATORS.map(|file| format!("--ignore={file}")));
    others.arg(format!("--ignore={ALONE}"));
    with_allocators.args(WITH_ALLOCATORS);
    alone.arg(ALONE);
    Ok([others, with_allocators, alone])
}
