//! `cairn summary`: what a record says about memory and time.

mod communicators;
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
    /// The records; of several ranks, how long each waited for the others is known
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The summary of a record as JSON; `open` opens it, as often as needed.
pub fn of<S: Source>(open: impl Fn() -> Result<Reader<S>>) -> Result<Value> {
    let mut summaries = [figures::summarize(open)?];
    find_waits(&mut summaries);
    Ok(json::value(&summaries[0]))
}

/// Prints the summaries of records.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let files: Vec<_> =
        arguments.files.iter().flat_map(|file| [file.clone(), file.clone()]).collect();
    let progress = Progress::of_files(&files);
    let summarize = |file: &PathBuf| figures::summarize(|| progress.open(file));
    let mut summaries = arguments.files.iter().map(summarize).collect::<Result<Vec<_>>>()?;
    drop(progress);
    find_waits(&mut summaries);
    show(&match arguments.json {
        true => json::render(&summaries),
        false => summaries.iter().map(text::render).collect::<Vec<_>>().join("\n"),
    });
    Ok(ExitCode::SUCCESS)
}

/// Finds out how long ranks waited for each other, as far as they are there.
fn find_waits(summaries: &mut [figures::Summary]) {
    let mut ranks: Vec<_> = (summaries.iter_mut())
        .flat_map(|figures::Summary { header, communicators, .. }| {
            communicators.iter_mut().map(|it| (header.machine.as_str(), it))
        })
        .collect();
    communicators::find_waits(&mut ranks);
}
