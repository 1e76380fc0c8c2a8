//! The process of a rank before it is the program: it ends with `cairn`, however that ends.

use std::{ffi::OsString, process::ExitCode};

use anyhow::{Context, Result};
use rustix::process::{Signal, getppid, set_parent_process_death_signal};

use crate::run;

/// What the hidden command takes.
#[derive(clap::Args)]
pub struct Arguments {
    /// The process that started it
    #[arg(long)]
    parent: i32,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    program: Vec<OsString>,
}

/// Becomes the program, which the kernel kills when `cairn` ends without having ended it; the wish outlives `exec`.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    set_parent_process_death_signal(Some(Signal::KILL)).context("PR_SET_PDEATHSIG")?;
    // It may have ended before that.
    if getppid().map(|parent| parent.as_raw_pid()) != Some(arguments.parent) {
        return Ok(ExitCode::FAILURE);
    }
    run::run(&arguments.program)
}
