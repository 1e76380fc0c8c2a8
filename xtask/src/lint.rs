//! `cargo xtask lint`: format, clippy, dependencies, shell syntax. Runs all, then fails if one did.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Result, bail};

use crate::step::{self, announce, cargo};

/// The cargo-deny that checks `deny.toml`.
const DENY: &str = "0.20.2";

/// Runs every check; an error names those that failed.
pub fn run(root: &Path) -> Result<()> {
    let mut failed = Vec::new();
    let mut check = |name: &'static str, result: Result<()>| {
        if let Err(error) = result {
            println!("{error:#}");
            failed.push(name);
        }
    };
    announce("format");
    check("fmt", step::run(&mut cargo(root, &["fmt", "--all", "--check"])));
    announce("clippy");
    check(
        "clippy",
        step::run(&mut cargo(
            root,
            &["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"],
        )),
    );
    let benches = ["clippy", "-p", "cairn-benches", "--features", "graphs,peers,tract"];
    let strict = ["--all-targets", "--", "-D", "warnings"];
    check("clippy of the benches", step::run(cargo(root, &benches).args(strict)));
    announce("dependencies");
    check("deny", deny(root));
    announce("shell");
    check("set_env.sh", shell(root));
    if !failed.is_empty() {
        bail!("lint: {} failed", failed.join(", "));
    }
    println!("lint: all clean");
    Ok(())
}

fn shell(root: &Path) -> Result<()> {
    for name in ["bash", "zsh", "dash"] {
        if Command::new(name).args(["-c", ":"]).status().is_err() {
            println!("{name} is not installed: skipped");
            continue;
        }
        step::run(Command::new(name).arg("-n").arg(root.join("toolkit/set_env.sh")))?;
    }
    Ok(())
}

fn deny(root: &Path) -> Result<()> {
    let mut command = Command::new(deny_program(root)?);
    step::run(command.args(["check", "bans", "licenses", "sources"]).current_dir(root))
}

/// The pinned cargo-deny, installed on first use into the user's cache folder.
fn deny_program(root: &Path) -> Result<PathBuf> {
    let home = crate::cache::folder()?.join(format!("cargo-deny-{DENY}"));
    let program = home.join("bin/cargo-deny");
    if !program.exists() {
        println!("installing cargo-deny {DENY}");
        let mut install = cargo(root, &["install", "--locked", "--root"]);
        step::run(install.arg(&home).arg(format!("cargo-deny@{DENY}")))?;
    }
    Ok(program)
}
