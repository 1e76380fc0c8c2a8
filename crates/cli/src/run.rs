//! `cairn run`: replaces this process by a program in the toolkit's environment.

use std::{
    ffi::OsString,
    io::ErrorKind,
    os::unix::process::CommandExt,
    process::{Command, ExitCode},
};

use anyhow::Result;

use crate::{environment, toolkit::Toolkit};

/// Runs the program; returns only when it could not be started, with the shell's code for that.
pub fn run(program: &[OsString]) -> Result<ExitCode> {
    let variables =
        environment::variables(&Toolkit::of_current_exe()?, |name| std::env::var_os(name));
    let (name, arguments) = program.split_first().expect("required by the parser");
    let error = Command::new(name).args(arguments).envs(variables).exec();
    let code = if error.kind() == ErrorKind::NotFound { 127 } else { 126 };
    eprintln!("cairn: cannot run {}: {error}", name.to_string_lossy());
    Ok(ExitCode::from(code))
}
