//! Events in the log, at level debug: which call submitted which task, and what calls touched themselves.

use super::event::Event;
use super::{Kind, Sink, Site, Stamp};
use std::fmt;

/// Writes a line for each event that the program causes.
pub struct DebugLog;

/// The call that caused an event, for a log line.
struct By(Site);

impl fmt::Display for By {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.entry {
            "" => write!(f, "no call"),
            entry => write!(f, "{entry} on thread {}", self.0.thread),
        }
    }
}

impl DebugLog {
    /// What it listens to.
    pub const KINDS: [Kind; 2] = [Kind::Submit, Kind::Touch];
}

impl Sink for DebugLog {
    fn event(&self, stamp: &Stamp, event: &Event<'_>) {
        let by = By(stamp.site());
        match event {
            Event::Submit { stream, seq, task, .. } => {
                log::debug!("task {seq} of stream {stream} is {}, submitted by {by}", task.name);
            }
            Event::Touch { name, accesses } => {
                log::debug!("{name} touched {} ranges itself, for {by}", accesses.len());
            }
            _ => {}
        }
    }
}
