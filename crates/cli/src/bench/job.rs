//! What a child does: `cairn pool-bench`, a command for this program itself.

use std::{fs, path::PathBuf, process::ExitCode};

use anyhow::{Context, Result};
use cairn_record::trace::Trace;
use clap::Subcommand;
use serde_json::{Value, json};

use super::{pool::Bench, spec::AllocatorSpec};
use crate::{pooltest::checks, replay::rerun};

/// What `cairn pool-bench` takes.
#[derive(clap::Args)]
pub struct Arguments {
    /// The allocator
    #[arg(long)]
    allocator: AllocatorSpec,
    /// Gets what is found out, as JSON
    #[arg(long)]
    result: PathBuf,
    #[command(subcommand)]
    job: Job,
}

#[derive(Subcommand)]
enum Job {
    /// Rerun a trace
    Replay {
        /// The trace
        #[arg(long)]
        trace: PathBuf,
        /// Measure times, and nothing else
        #[arg(long)]
        timed: bool,
    },
    /// Check a clause
    Check {
        /// Its id
        clause: String,
        /// Of the random numbers
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
}

/// Does a job. The result is written before anything of the allocator is torn down.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    // Nobody waits for this process once its parent is gone.
    let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
    let result = perform(arguments);
    let is_done = result.is_ok();
    let value = result.unwrap_or_else(|error| json!({"error": format!("{error:#}")}));
    fs::write(&arguments.result, value.to_string()).context("cannot write the result")?;
    Ok(if is_done { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn perform(arguments: &Arguments) -> Result<Value> {
    match &arguments.job {
        Job::Replay { trace, timed } => {
            let trace = Trace::parse(&fs::read_to_string(trace)?)?;
            let bench = Bench::open(&arguments.allocator)?;
            match timed {
                true => rerun::measure_time(&bench, &trace),
                false => rerun::measure_memory(&bench, &trace),
            }
        }
        Job::Check { clause, seed } => {
            checks::perform(&arguments.allocator, clause, *seed, &arguments.result)
        }
    }
}
