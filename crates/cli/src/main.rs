//! The `cairn` command: runs programs on the toolkit around it, says what is wrong, and, called as
//! `npu-smi`, answers as that does.

#![forbid(unsafe_code)]

mod cann;
mod doctor;
mod elf;
mod environment;
mod run;
mod smi;
mod toolkit;

use std::{ffi::OsString, io::Write, path::Path, process::ExitCode};

use clap::{Parser, Subcommand};

/// Run programs for Ascend devices on this CPU.
#[derive(Parser)]
#[command(name = "cairn", version, arg_required_else_help = true, disable_help_subcommand = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run a program on the toolkit, as after `source set_env.sh`
    Run {
        /// The program and its arguments
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
        program: Vec<OsString>,
    },
    /// Print the environment as shell commands: eval "$(cairn env)"
    Env,
    /// Check toolkit, environment and machine, and what the given libraries need; reads files only
    Doctor(doctor::Arguments),
}

fn main() -> ExitCode {
    let program_name = std::env::args_os().next().unwrap_or_default();
    if Path::new(&program_name).file_name().is_some_and(|name| name == "npu-smi") {
        return smi::main();
    }
    let result = match Arguments::parse().command {
        Command::Run { program } => run::run(&program),
        Command::Env => environment::print(),
        Command::Doctor(arguments) => doctor::run(&arguments),
    };
    result.unwrap_or_else(|error| {
        eprintln!("cairn: {error:#}");
        ExitCode::FAILURE
    })
}

/// Prints an answer; a reader that went away, as `head` does, is no failure.
fn show(text: &str) {
    let _ = std::io::stdout().write_all(text.as_bytes());
}
