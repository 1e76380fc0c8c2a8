//! A broken clause that a workload met, which need not be the one it was to check.

use std::fmt;

use anyhow::{Error, Result};

use crate::bench::pool::{Bench, Block, Refusal, Stream};

/// What was seen, and the clause that it breaks.
#[derive(Debug)]
pub struct Breach {
    pub clause: &'static str,
    /// What to do, where the clause's own lesson does not fit.
    pub lesson: Option<&'static str>,
    /// Whether it is so whatever else happens around it.
    is_of_itself: bool,
    text: String,
}

/// What to do about a request that was refused though there was room.
const REFUSED: &str = "The device has room for this request. A pool that takes large segments has to be content with less when aclrtMalloc refuses one, and gives null only when ACL has not even that.";

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Breach {}

/// An error that breaks a clause.
pub fn breach(clause: &'static str, text: String) -> Error {
    Breach { clause, lesson: None, is_of_itself: false, text }.into()
}

/// The same with a lesson of its own.
pub fn breach_with(clause: &'static str, lesson: &'static str, text: String) -> Error {
    Breach { clause, lesson: Some(lesson), is_of_itself: false, text }.into()
}

/// A request that was refused though nothing was in its way.
pub fn refused(bytes: u64, refusal: &Refusal) -> Error {
    let clause = match refusal {
        Refusal::Null => return refused_with_room("sizes", bytes),
        Refusal::Rejected(reason) if reason.contains("is not a multiple of") => "alignment",
        Refusal::Rejected(reason) if reason.contains("shares bytes with") => "overlap",
        Refusal::Rejected(_) => "sizes",
    };
    let is_of_itself = match refusal {
        Refusal::Rejected(reason) => {
            ["GetSize()", "is too short"].iter().any(|one| reason.contains(one))
        }
        Refusal::Null => false,
    };
    let text = format!("a request for {bytes} bytes: {refusal}");
    Breach { clause, lesson: None, is_of_itself, text }.into()
}

/// A request that was answered with null though the device has room.
pub fn refused_with_room(clause: &'static str, bytes: u64) -> Error {
    let text = format!("a request for {bytes} bytes: {}", Refusal::Null);
    breach_with(clause, REFUSED, text)
}

/// A block for a stream has to lie on its device.
pub fn check_place(bench: &Bench, stream: &Stream, block: &Block) -> Result<()> {
    match bench.misplacement(stream, block)? {
        Some(text) => Err(breach("devices", text)),
        None => Ok(()),
    }
}

/// The same error as one of another clause, unless it says that blocks overlap, or that one is short by its own account.
pub fn attribute(clause: &'static str, error: Error) -> Error {
    match error.downcast_ref::<Breach>() {
        Some(Breach { clause: "overlap", .. } | Breach { is_of_itself: true, .. }) => error,
        _ => breach(clause, format!("{error:#}")),
    }
}

/// Waits for a stream. Its tasks write no more than was asked for: one that fails found less.
pub fn wait(bench: &Bench, stream: &Stream) -> Result<()> {
    let waited = bench.acl().synchronize(stream.handle);
    waited.map_err(|error| breach("sizes", format!("a task cannot write its block: {error:#}")))
}
