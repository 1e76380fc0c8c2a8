//! `cairn run`: replaces this process by a program in the toolkit's environment.

use std::{
    ffi::OsString,
    io::{Error, ErrorKind},
    os::unix::process::CommandExt,
    process::{Command, ExitCode},
};

use anyhow::Result;

use crate::{environment, toolkit::Toolkit};

/// Runs the program; returns only when it could not be started, with the shell's code for that.
pub fn run(program: &[OsString]) -> Result<ExitCode> {
    let error = command(program)?.exec();
    Ok(not_started(program, &error))
}

/// The program in the toolkit's environment.
pub fn command(program: &[OsString]) -> Result<Command> {
    let variables =
        environment::variables(&Toolkit::of_current_exe()?, |name| std::env::var_os(name));
    let (name, arguments) = program.split_first().expect("required by the parser");
    let mut command = Command::new(name);
    command.args(arguments).envs(variables);
    Ok(command)
}

/// Says why the program was not started; the shell's code for that.
pub fn not_started(program: &[OsString], error: &Error) -> ExitCode {
    eprintln!("cairn: cannot run {}: {error}", program[0].to_string_lossy());
    ExitCode::from(if error.kind() == ErrorKind::NotFound { 127 } else { 126 })
}
