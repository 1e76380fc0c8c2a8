//! `cargo xtask deep`: what takes too long for every day. It says what it skipped, and why.

use std::{
    path::Path,
    process::{Command, Stdio},
};

use anyhow::Result;

use crate::{
    fuzz,
    step::{Counts, announce, cargo, counted},
    target_dir, test, toolkit,
};

/// How many schedules shuttle tries per model here.
const SCHEDULES: &str = "5000";

/// Runs long stress, many schedules, fuzzing, the thread sanitizer and miri; exits with 1 when one failed.
pub fn run(root: &Path) -> Result<()> {
    let mut total = Counts::default();
    let mut skipped = Vec::new();
    let mut add = |result: Result<Counts>| {
        total += result.unwrap_or_else(|error| {
            println!("{error:#}");
            Counts::FAILURE
        });
    };

    announce("long stress");
    add(toolkit::assemble(root, &toolkit::default_dir(root))
        .and_then(|toolkit| counted(test::programs(root, &toolkit).env("CAIRN_STRESS", "long"))));

    announce("many schedules");
    add(counted(test::models(root).env("CAIRN_SHUTTLE_ITERATIONS", SCHEDULES)));

    announce("fuzzing");
    add(fuzz::run(root));

    announce("thread sanitizer");
    let rebuilt =
        sysroot().is_some_and(|path| path.join("lib/rustlib/src/rust/library/Cargo.lock").exists());
    if !rebuilt {
        skipped.push("thread sanitizer with a rebuilt std: `rustup component add rust-src` first (ran without; its reports are hints)");
    }
    add(counted(&mut sanitizer(root, rebuilt)));

    announce("miri");
    if answers(cargo(root, &["miri", "--version"])) {
        let mut miri =
            cargo(root, &["miri", "test", "-p", "cairn-runtime", "-p", "cairn-tensor", "--lib"]);
        miri.env("MIRIFLAGS", "-Zmiri-disable-isolation");
        add(counted(miri.env("CARGO_TARGET_DIR", target_dir(root).join("miri"))));
    } else {
        skipped.push("miri: this toolchain has none (it comes with nightly)");
    }

    announce("skipped");
    for reason in skipped {
        println!("{reason}");
    }
    println!("\n{total}");
    if total.failed > 0 {
        std::process::exit(1);
    }
    Ok(())
}

/// The runtime's tests under the thread sanitizer. Without a rebuilt std, what std does inside is
/// invisible to it: it then reports std's own locks and threads as races, so reports are shown and
/// fail nothing. Tests that limit the address space cannot run: the sanitizer needs all of it.
fn sanitizer(root: &Path, rebuilt: bool) -> Command {
    let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let mut command =
        cargo(root, &["test", "-p", "cairn-runtime", "--lib", "--tests", "--no-fail-fast"]);
    command.args(["--target", &target]);
    let mut flags = "-Zsanitizer=thread".to_string();
    if rebuilt {
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

fn answers(mut command: Command) -> bool {
    command
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}
