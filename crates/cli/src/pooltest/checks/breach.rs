//! A broken clause that a workload met, which need not be the one it was to check.

use std::fmt;

use anyhow::{Error, Result};

use crate::bench::pool::{Bench, Refusal, Stream};

/// What was seen, and the clause that it breaks.
#[derive(Debug)]
pub struct Breach {
    pub clause: &'static str,
    text: String,
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Breach {}

/// An error that breaks a clause.
pub fn breach(clause: &'static str, text: String) -> Error {
    Breach { clause, text }.into()
}

/// A request that was refused though nothing was in its way.
pub fn refused(bytes: u64, refusal: &Refusal) -> Error {
    let clause = match refusal {
        Refusal::Rejected(reason) if reason.contains("is not a multiple of") => "alignment",
        Refusal::Rejected(reason) if reason.contains("shares bytes with") => "overlap",
        Refusal::Rejected(_) | Refusal::Null => "sizes",
    };
    breach(clause, format!("a request for {bytes} bytes: {refusal}"))
}

/// The same error as one of another clause, unless it says that blocks overlap.
pub fn attribute(clause: &'static str, error: Error) -> Error {
    match error.downcast_ref::<Breach>() {
        Some(Breach { clause: "overlap", .. }) => error,
        _ => breach(clause, format!("{error:#}")),
    }
}

/// Waits for a stream. Its tasks write no more than was asked for: one that fails found less.
pub fn wait(bench: &Bench, stream: &Stream) -> Result<()> {
    let waited = bench.acl().synchronize(stream.handle);
    waited.map_err(|error| breach("sizes", format!("a task cannot write its block: {error:#}")))
}
