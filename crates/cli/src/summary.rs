//! `cairn summary`: what a record says about memory and time.

pub mod counts;
pub mod figures;
mod json;
mod text;

#[cfg(test)]
mod tests;

use std::{path::PathBuf, process::ExitCode};

use anyhow::Result;
use cairn_record::{Reader, reader::Source};
use serde_json::Value;

use crate::{progress::Progress, show};

/// What `cairn summary` takes.
#[derive(clap::Args)]
pub struct Arguments {
    /// The record
    file: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The summary of a record as JSON; `open` opens it, as often as needed.
pub fn of<S: Source>(open: impl Fn() -> Result<Reader<S>>) -> Result<Value> {
    Ok(json::value(&figures::summarize(open)?))
}

/// Prints the summary of a record.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let file = &arguments.file;
    let progress = Progress::of_files(&[file.clone(), file.clone()]);
    let summary = figures::summarize(|| progress.open(file))?;
    drop(progress);
    show(&match arguments.json {
        true => json::render(&summary),
        false => text::render(&summary),
    });
    Ok(ExitCode::SUCCESS)
}
