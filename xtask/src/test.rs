//! `cargo xtask test`: every test of the project, step by step, and one line of totals.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::Result;

use crate::{
    coverage,
    step::{Counts, announce, cargo, counted},
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
                announce("torch on the toolkit");
                add(pytest(root, &toolkit).and_then(|command| counted(&mut with_counters(command))));
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

fn pytest(root: &Path, toolkit: &Path) -> Result<Command> {
    let python: PathBuf = crate::venv::ensure(root)?;
    let mut command = Command::new(toolkit.join("bin/cairn"));
    command.args(["run", "--"]).arg(python).args(["-m", "pytest", "tests/torch", "-q"]);
    command.current_dir(root).env("CAIRN_TOOLKIT", toolkit).env("PYTHONDONTWRITEBYTECODE", "1");
    Ok(command)
}
