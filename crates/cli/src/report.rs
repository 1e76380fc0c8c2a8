//! `cairn report`: one page about a record, without network: memory over time, a map of addresses, streams, findings.
//!
//! ```text
//!  History ── data.rs ──> Columns (columns.rs: numbers, packed) ┐
//!  Checker ── findings.rs ─────────────────────────────────────┼──> page/*.html, *.css, *.js ──> PAGE.html
//!  Summary ── summary/json.rs ─────────────────────────────────┘
//! ```
//!
//! The page draws what is visible and nothing else, so a record of a million events opens as fast as a small one.

mod columns;
mod data;
mod findings;
mod page;
#[cfg(test)]
mod tests;

use std::{io::Write, path::PathBuf, process::ExitCode};

use anyhow::{Context, Result};

use crate::{history::History, output, progress::Progress, summary};

/// What `cairn report` takes.
#[derive(clap::Args)]
pub struct Arguments {
    /// The record
    file: PathBuf,
    /// The page; RECORD.html when not given
    #[arg(short, long, value_name = "PAGE")]
    output: Option<PathBuf>,
}

/// Writes the page and says where it is.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let path = &arguments.file;
    let output = arguments.output.clone().unwrap_or_else(|| path.with_extension("html"));
    // For the history, twice for the summary, and for the checker.
    let progress = Progress::of_files(&[path.clone(), path.clone(), path.clone(), path.clone()]);
    let history = History::open(path, &progress)?;
    let summary = summary::of(|| progress.open(path))?;
    let findings = findings::of(progress.open(path)?, &history);
    drop(progress);
    let page = page::render(&data::collect(&history), &summary, &findings);
    output::create(&output, std::slice::from_ref(path))?
        .write_all(page.as_bytes())
        .with_context(|| format!("cannot write {}", output.display()))?;
    println!("{}: {} entries; open it in a browser", output.display(), history.entries);
    Ok(ExitCode::SUCCESS)
}
