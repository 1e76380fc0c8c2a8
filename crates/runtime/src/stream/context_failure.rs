//! The failure that ends all streams of one context.

use super::Stream;
use crate::clock::{Epoch, Progress};
use crate::error::Error;
use crate::event::Capture;
use crate::lock::{Mutex, Rank};
use crate::sync::{Arc, Weak};
use crate::worker::Scheduler;
use std::sync::OnceLock;

/// The failure that the streams of one context share: one in a stream with failure mode STOP ends them all.
pub struct ContextFailure {
    failure: OnceLock<Error>,
    parked: Mutex<Vec<ParkedWait>>,
}

/// A wait of a stream that is, or was, parked in a capture.
pub(super) struct ParkedWait {
    pub stream: Weak<Stream>,
    pub epoch: Epoch,
    pub capture: Arc<Capture>,
}

impl Default for ContextFailure {
    fn default() -> ContextFailure {
        ContextFailure { failure: OnceLock::new(), parked: Mutex::new(Rank::Failure, Vec::new()) }
    }
}

impl ContextFailure {
    /// The failure that ended the context, if any.
    pub fn failure(&self) -> Option<&Error> {
        self.failure.get()
    }

    /// Registers a parked wait, which the end of the context has to end.
    pub(super) fn add_parked(&self, parked: ParkedWait, progress: &Progress) {
        let mut all = self.parked.lock();
        if all.len() == all.capacity() {
            all.retain(|p| !progress.covers(p.epoch));
        }
        all.push(parked);
    }

    /// Ends the context: its parked streams are unparked, to drop their tasks.
    pub(super) fn end_streams(&self, failure: Error, scheduler: &Scheduler) {
        if self.failure.set(failure).is_err() {
            return;
        }
        let parked = std::mem::take(&mut *self.parked.lock());
        for ParkedWait { stream, epoch, capture } in parked {
            match stream.upgrade() {
                Some(stream) if capture.remove_parked(&stream, epoch.seq) => stream.unpark(),
                // Not parked any more. If this is the last to hold it, it must not end here, where
                // the failing stream's batch is locked.
                Some(stream) => scheduler.push(stream),
                None => {}
            }
        }
    }
}
