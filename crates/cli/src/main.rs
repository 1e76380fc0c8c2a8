//! The `cairn` command: runs programs on the toolkit around it, says what is wrong, and, called as
//! `npu-smi`, answers as that does.

#![deny(unsafe_code)]

mod bench;
mod blocks;
mod cann;
mod check;
mod diff;
mod doctor;
mod elf;
mod environment;
mod flame;
mod gaps;
mod history;
mod meetings;
mod moment;
mod output;
mod pooltest;
mod private_folder;
mod progress;
mod ranks;
mod record;
#[cfg(test)]
mod record_builder;
mod recorded_run;
mod replay;
mod report;
mod run;
mod smi;
mod snapshot;
mod summary;
mod symbols;
mod text;
mod timeline;
mod toolkit;
mod top;

use std::{
    ffi::OsString,
    io::Write,
    path::{Path, PathBuf},
    process::ExitCode,
};

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
        /// Record the run in this file, as `cairn record -o FILE` does
        #[arg(long, value_name = "FILE")]
        record: Option<PathBuf>,
        #[command(flatten)]
        ranks: ranks::RankOptions,
        /// The program and its arguments
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
        program: Vec<OsString>,
    },
    /// The part of `--ranks` that becomes the program
    #[command(hide = true)]
    RankStart(ranks::start::Arguments),
    /// Check whether a program keeps the contract of memory and order: docs/check.md
    Check(check::Arguments),
    /// Run a program and record everything that happens in a file
    Record(record::Arguments),
    /// Sum up a record: peaks and whose they are, counts, times
    Summary(summary::Arguments),
    /// Compare two records: peaks and whose they are, counts; for continuous integration too
    Diff(diff::Arguments),
    /// Run the requests of records and traces on other allocators: docs/replay.md
    Replay(replay::Arguments),
    /// Check whether a memory pool keeps the contract, clause by clause: docs/pooltest.md
    Pooltest(pooltest::Arguments),
    /// The part of `replay` and `pooltest` that runs users' libraries
    #[command(hide = true)]
    PoolBench(bench::job::Arguments),
    /// Show devices, processes, streams, pools and allocators, live
    Top(top::Arguments),
    /// Draw a record as one page for a browser: memory, addresses, streams, findings
    Report(report::Arguments),
    /// Draw records as a trace for Perfetto: streams, waits, callbacks, memory
    Timeline(timeline::Arguments),
    /// Write a record as a memory snapshot of PyTorch
    Snapshot(snapshot::Arguments),
    /// Print bytes at the peak by stack, as folded text
    Flame(flame::Arguments),
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
        Command::Run { record, ranks, program } => run_program(&program, &ranks, record.as_deref()),
        Command::RankStart(arguments) => ranks::start::run(&arguments),
        Command::Record(arguments) => record::run(&arguments),
        Command::Summary(arguments) => summary::run(&arguments),
        Command::Check(arguments) => check::run(&arguments),
        Command::Diff(arguments) => diff::run(&arguments),
        Command::Replay(arguments) => replay::run(&arguments),
        Command::Pooltest(arguments) => pooltest::run(&arguments),
        Command::PoolBench(arguments) => bench::job::run(&arguments),
        Command::Top(arguments) => top::run(&arguments),
        Command::Report(arguments) => report::run(&arguments),
        Command::Timeline(arguments) => timeline::run(&arguments),
        Command::Snapshot(arguments) => snapshot::run(&arguments),
        Command::Flame(arguments) => flame::run(&arguments),
        Command::Env => environment::print(),
        Command::Doctor(arguments) => doctor::run(&arguments),
    };
    result.unwrap_or_else(|error| {
        eprintln!("cairn: {error:#}");
        ExitCode::FAILURE
    })
}

/// `cairn run`.
fn run_program(
    program: &[OsString],
    ranks: &ranks::RankOptions,
    record: Option<&Path>,
) -> anyhow::Result<ExitCode> {
    match (ranks.job()?, record) {
        (job, Some(output)) => record::record(program, output, false, job.as_ref()),
        (Some(job), None) => ranks::run(&job, program),
        (None, None) => run::run(program),
    }
}

/// Prints an answer; a reader that went away, as `head` does, is no failure.
fn show(text: &str) {
    let mut out = std::io::stdout();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    if let Err(error) = written
        && error.kind() != std::io::ErrorKind::BrokenPipe
    {
        eprintln!("cairn: cannot write to standard output: {error}");
        std::process::exit(1);
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn options_are_consistent() {
        super::Arguments::command().debug_assert();
    }
}
