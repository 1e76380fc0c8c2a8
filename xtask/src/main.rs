//! The project's commands: `cargo xtask` lists them.

mod bench;
mod cache;
mod comm;
mod coverage;
mod data;
mod deep;
mod demo;
mod fuzz;
mod ge_runner;
mod r#gen;
mod gloo;
mod lint;
mod pyacl;
mod step;
mod test;
mod timeline;
mod toolkit;
mod venv;

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::{CommandFactory, Parser, Subcommand};

/// The commands of Cairn's developers.
#[derive(Parser)]
#[command(bin_name = "cargo xtask", disable_help_subcommand = true)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Task>,
}

#[derive(Subcommand)]
enum Task {
    /// Run the demo on the toolkit and draw its timeline
    Demo,
    /// Run every test; ends with one line `N passed, N failed, N skipped`
    Test {
        /// Leave out the tests that need torch and torch_npu
        #[arg(long)]
        no_torch: bool,
    },
    /// Build and assemble the toolkit folder
    Toolkit {
        /// The build that tests use, with assertions, in target/test-toolkit
        #[arg(long)]
        dev: bool,
        /// Where to; target/toolkit when not given
        dir: Option<PathBuf>,
    },
    /// Run the benchmarks, or the one named
    Bench {
        /// Which benchmark
        name: Option<String>,
        /// Of `ops`: only the rows whose names contain this
        #[arg(long, value_name = "TEXT")]
        only: Option<String>,
        /// Of `ops`: processor time of the process instead of elapsed time, for a machine that is busy with other work
        #[arg(long)]
        processor_time: bool,
    },
    /// Write the generated sources again
    Gen {
        /// Write nothing; fail when a file is not what it would be
        #[arg(long)]
        check: bool,
        /// Only those of the operators: quick, and needs no libclang
        #[arg(long)]
        operators: bool,
    },
    /// Check format, clippy, dependencies and shell syntax
    Lint,
    /// Make or find the pinned Python environment and print its interpreter
    Venv {
        /// The one with onnxruntime-cann instead of torch
        #[arg(long)]
        ort: bool,
    },
    /// Every test with all types, layouts and schedules; fuzzing, sanitizers; says what it skipped
    Deep {
        /// Only steps with this in their names, such as `torch` or `fuzzing`; may be repeated
        #[arg(long, value_name = "STEP")]
        only: Vec<String>,
    },
}

fn main() -> Result<()> {
    let root = root();
    let Some(command) = Arguments::parse().command else {
        return Ok(Arguments::command().print_help()?);
    };
    match command {
        Task::Demo => demo::run(&root),
        Task::Test { no_torch } => test::run(&root, !no_torch),
        Task::Toolkit { dev, dir } => {
            let (usual, build) = match dev {
                true => (toolkit::test_dir(&root), toolkit::Build::Dev),
                false => (toolkit::default_dir(&root), toolkit::Build::Release),
            };
            let dir = dir.unwrap_or(usual);
            println!("{}", toolkit::assemble(&root, &dir, build)?.display());
            Ok(())
        }
        Task::Bench { name, only, processor_time } => {
            bench::run(&root, name.as_deref(), &bench::Rows { only, processor_time })
        }
        Task::Gen { check, operators: true } => r#gen::operators(&root, check),
        Task::Gen { check, operators: false } => r#gen::run(&root, check),
        Task::Lint => lint::run(&root),
        Task::Venv { ort } => venv::run(&root, ort),
        Task::Deep { only } => deep::run(&root, only),
    }
}

/// The root of the repository: the folder above this package. Cargo tells it anew at every run; what
/// was true when this program was compiled may be another checkout that shares the target folder.
fn root() -> PathBuf {
    let compiled = || env!("CARGO_MANIFEST_DIR").into();
    let package = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(compiled);
    let package = PathBuf::from(package);
    package.parent().expect("xtask lies in the repository").to_path_buf()
}

/// Cargo's output folder: `CARGO_TARGET_DIR`, else `target`.
fn target_dir(root: &Path) -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR").filter(|dir| !dir.is_empty()) {
        Some(dir) => std::path::absolute(&dir).unwrap_or_else(|_| dir.into()),
        None => root.join("target"),
    }
}
