//! `cairn diff`: what changed between two records.

mod changes;
mod json;
mod text;

#[cfg(test)]
mod tests;

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    str::FromStr,
};

use anyhow::Result;
use cairn_runtime::config::parse_bytes;

use crate::{gaps, progress::Progress, show, summary::figures::summarize};
use changes::Changes;

/// The exit code when a file cannot be read, as other commands of this name have it: 1 says that there is a difference.
const TROUBLE: u8 = 2;

/// What `cairn diff` takes.
#[derive(clap::Args)]
pub struct Arguments {
    /// The record of the run before
    before: PathBuf,
    /// The record of the run after
    after: PathBuf,
    /// End with 1 if a device's peak is higher by more than this: a part, such as 5%, or a size, such as 64mib
    #[arg(long, value_name = "PERCENT|BYTES")]
    fail_above: Option<Threshold>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// How much more is too much.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Threshold {
    /// In hundredths of what it was.
    Percent(f64),
    /// In bytes.
    Bytes(u64),
}

impl FromStr for Threshold {
    type Err = String;

    fn from_str(text: &str) -> Result<Threshold, String> {
        let percent = |number: &str| {
            number
                .trim()
                .parse::<f64>()
                .ok()
                .filter(|percent| percent.is_finite() && *percent >= 0.0)
        };
        let threshold = match text.trim().strip_suffix('%') {
            Some(number) => percent(number).map(Threshold::Percent),
            None => parse_bytes(text).map(Threshold::Bytes),
        };
        threshold.ok_or_else(|| {
            format!("`{text}` is neither a part, such as 5%, nor a size, such as 64mib")
        })
    }
}

impl Threshold {
    /// Whether this is too much.
    pub fn is_exceeded(self, before: u64, after: u64) -> bool {
        let growth = after.saturating_sub(before);
        match self {
            Threshold::Percent(percent) => growth as f64 > before as f64 * percent / 100.0,
            Threshold::Bytes(bytes) => growth > bytes,
        }
    }
}

/// Compares two records.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let twice = |path: &PathBuf| [path.clone(), path.clone()];
    let files = [twice(&arguments.before), twice(&arguments.after)].concat();
    let progress = Progress::of_files(&files);
    let read = |path: &Path| summarize(|| progress.open(path));
    let read = (read(&arguments.before), read(&arguments.after));
    drop(progress);
    let (before, after) = match read {
        (Ok(before), Ok(after)) => (before, after),
        (Err(error), _) | (_, Err(error)) => {
            eprintln!("cairn: {error:#}");
            return Ok(ExitCode::from(TROUBLE));
        }
    };
    let mut has_gaps = false;
    for (path, summary) in [(&arguments.before, &before), (&arguments.after, &after)] {
        for gap in gaps::describe(summary.counts.entries, &summary.damage, summary.is_cut_short) {
            eprintln!("cairn: {}: {gap}", path.display());
            has_gaps = true;
        }
    }
    let name = |path: &Path| path.display().to_string();
    let changes = Changes {
        before: name(&arguments.before),
        after: name(&arguments.after),
        threshold: arguments.fail_above,
        ..Changes::between(&before, &after)
    };
    show(&match arguments.json {
        true => json::render(&changes),
        false => text::render(&changes),
    });
    if changes.exceeding().next().is_some() {
        return Ok(ExitCode::FAILURE);
    }
    Ok(match has_gaps && arguments.fail_above.is_some() {
        true => {
            eprintln!("cairn: what is missing may have been the peak");
            ExitCode::from(TROUBLE)
        }
        false => ExitCode::SUCCESS,
    })
}
