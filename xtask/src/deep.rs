//! `cargo xtask deep`: what takes too long for every day, on the toolkit as users get it. It prints what it skipped,
//! and why. `docs/testing.md` keeps the totals of its runs.

use std::{
    path::Path,
    process::{Command, Stdio},
};

use anyhow::Result;

use crate::{
    coverage, fuzz,
    step::{Counts, Report, announce, cargo, run_and_count},
    target_dir, test,
    toolkit::{self, Build},
    venv,
};

/// How many schedules shuttle tries for each model here, with each of its two ways to choose them.
const SCHEDULES: &str = "5000";

/// Inputs that proptest tries for each property; its default is 256.
const PROPERTIES: &str = "2000";

/// The steps that need the toolkit.
const ON_TOOLKIT: [&str; 7] = [
    "programs on the toolkit",
    "python on the toolkit",
    "torch on the toolkit",
    "public examples on the toolkit",
    "onnxruntime on the toolkit",
    "pages in a browser",
    "torch under the checker",
];

/// Asks tests for all they have: every type and layout, long stress.
const DEEP: (&str, &str) = ("CAIRN_TESTS", "deep");

/// Runs every test with all types, layouts and schedules on the release build, fuzzing, the thread sanitizer and miri;
/// ends as [`test::run`] does. `only` has parts of the names of the steps to run; without any, all run.
pub fn run(root: &Path, only: Vec<String>) -> Result<()> {
    let mut skipped = Vec::new();
    let is_whole = only.is_empty();
    let mut report = Report::of(only);
    let counters = coverage::folder(root)?;
    let deep = |mut command: Command| {
        command.env(DEEP.0, DEEP.1).env(coverage::VARIABLE, &counters);
        command
    };
    report.step("unit tests", || {
        run_and_count(deep(test::units(root)?).env("PROPTEST_CASES", PROPERTIES))
    });
    report.step("kernels without AVX-512", || {
        let features = ["--features", "without_avx512"];
        run_and_count(cargo(root, &["test", "-p", "cairn-tensor", "--no-fail-fast"]).args(features))
    });
    report.step("models of concurrency", || run_and_count(&mut test::models(root, SCHEDULES)));
    let mut assembled = None;
    if ON_TOOLKIT.iter().any(|name| report.has(name)) {
        report.required_step("toolkit", || {
            assembled = Some(toolkit::assemble(root, &toolkit::default_dir(root), Build::Release)?);
            Ok(Counts::default())
        });
    }
    if let Some(toolkit) = assembled {
        report.step(ON_TOOLKIT[0], || run_and_count(&mut deep(test::programs(root, &toolkit)?)));
        report.step(ON_TOOLKIT[1], || {
            let python = venv::for_module(root)?;
            run_and_count(deep(test::pytest(root, &toolkit, &python)?).arg("tests/py"))
        });
        report.step(ON_TOOLKIT[2], || {
            let [first, second, alone] = test::torch_tests(root, &toolkit)?.map(deep);
            test::torch_counts([first, second], alone)
        });
        report.step(ON_TOOLKIT[4], || {
            let python = venv::onnxruntime(root)?;
            run_and_count(deep(test::pytest(root, &toolkit, &python)?).arg("tests/ort"))
        });
        if succeeds(Command::new("chromedriver").arg("--version")) {
            report.step(ON_TOOLKIT[5], || {
                let python = venv::for_module(root)?;
                let mut pages = deep(test::pytest(root, &toolkit, &python)?);
                run_and_count(pages.args(["tests/page", "-s"]))
            });
        } else if report.has(ON_TOOLKIT[5]) {
            skipped.push("pages in a browser: there is no chromedriver (`apt-get install chromium chromium-driver`)");
        }
        report.step(ON_TOOLKIT[6], || {
            let mut total = Counts::default();
            for queue in ["0", "1", "2"] {
                announce(&format!("torch under the checker, TASK_QUEUE_ENABLE={queue}"));
                for file in test::checked_files(root)? {
                    let mut tests = test::checked_torch(root, &toolkit, &file)?;
                    total += run_and_count(tests.env("TASK_QUEUE_ENABLE", queue))?;
                }
            }
            Ok(total)
        });
        report.step(ON_TOOLKIT[3], || run_and_count(&mut public_examples(root, &toolkit)?));
    }
    if is_whole {
        report.step("coverage", || {
            coverage::update(root, &counters, coverage::Run::Whole).map(|()| Counts::default())
        });
    }
    report.step("fuzzing", || fuzz::run(root));
    report.step("thread sanitizer", || {
        let rebuild_std = sysroot()
            .is_some_and(|path| path.join("lib/rustlib/src/rust/library/Cargo.lock").exists());
        if !rebuild_std {
            skipped.push("thread sanitizer with a rebuilt std: `rustup component add rust-src` first (ran without; its reports are hints)");
        }
        run_and_count(&mut sanitizer(root, rebuild_std))
    });
    if !report.has("miri") {
        // Not asked for.
    } else if succeeds(&mut cargo(root, &["miri", "--version"])) {
        report.step("miri", || {
            let mut miri = cargo(
                root,
                &["miri", "test", "-p", "cairn-runtime", "-p", "cairn-tensor", "--lib"],
            );
            miri.env("MIRIFLAGS", "-Zmiri-disable-isolation");
            run_and_count(miri.env("CARGO_TARGET_DIR", target_dir(root).join("miri")))
        });
    } else {
        skipped.push("miri: this toolchain has none (it comes with nightly)");
    }
    if !skipped.is_empty() {
        announce("skipped");
        skipped.iter().for_each(|reason| println!("{reason}"));
    }
    report.finish()
}

/// The vendor's example programs of aclnn functions, from the folder that `CAIRN_EXAMPLES` names; skipped without it.
fn public_examples(root: &Path, toolkit: &Path) -> Result<Command> {
    let mut command = Command::new(toolkit.join("bin/cairn"));
    command.args(["run", "--"]).arg(venv::ensure(root)?).arg("tests/public/run.py");
    command.arg(target_dir(root).join("public")).current_dir(root);
    command.env("CAIRN_TOOLKIT", toolkit).env("PYTHONDONTWRITEBYTECODE", "1");
    // The programs are compared with PyTorch's CPU alone.
    command.env("TORCH_DEVICE_BACKEND_AUTOLOAD", "0");
    Ok(command)
}

/// The runtime's tests under the thread sanitizer. Without a rebuilt std, what std does inside is
/// invisible to it: it then reports std's own locks and threads as races, so reports are shown and
/// fail nothing. Tests that limit the address space cannot run: the sanitizer needs all of it.
fn sanitizer(root: &Path, rebuild_std: bool) -> Command {
    let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let mut command =
        cargo(root, &["test", "-p", "cairn-runtime", "--lib", "--tests", "--no-fail-fast"]);
    command.args(["--target", &target]);
    let mut flags = "-Zsanitizer=thread".to_string();
    if rebuild_std {
        command.arg("-Zbuild-std");
    } else {
        flags.push_str(" -Cunsafe-allow-abi-mismatch=sanitizer");
        command.env("TSAN_OPTIONS", "exitcode=0");
    }
    command.args(["--", "--skip", "under_a_limit"]);
    command.env("RUSTC_BOOTSTRAP", "1").env("RUSTFLAGS", flags);
    command.env("CARGO_TARGET_DIR", target_dir(root).join("tsan"));
    command
}

fn sysroot() -> Option<std::path::PathBuf> {
    let output = Command::new("rustc").args(["--print", "sysroot"]).output().ok()?;
    Some(String::from_utf8(output.stdout).ok()?.trim().into())
}

fn succeeds(command: &mut Command) -> bool {
    command
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}
