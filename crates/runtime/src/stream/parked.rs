//! Waits in which a stream is parked, and what ends them.

use super::context_failure::ParkedWait;
use super::{PARKED, Stream};
use crate::clock::Epoch;
use crate::error::{Code, Error};
use crate::event::Capture;
use crate::sync::atomic::Ordering;
use crate::sync::{Arc, now_ns};
use crate::task::{Body, Wait};

impl Stream {
    /// Registers a wait that has just been parked, so that its timeout, an abort, or the end of its context ends it. The
    /// caller still holds the batch.
    pub(super) fn register_parked_wait(self: &Arc<Stream>, wait: &Wait, seq: u64) {
        let capture = wait.capture.clone();
        if wait.limit_ns > 0 {
            let deadline = now_ns() + wait.limit_ns;
            self.shared.scheduler.expire_wait_at(deadline, self.clone(), seq, capture.clone());
        }
        let (stream, epoch) = (Arc::downgrade(self), Epoch { stream: self.index, seq });
        self.spec
            .context_failure
            .add_parked(ParkedWait { stream, epoch, capture }, &self.shared.progress);
        // Whoever drops the queue either sees the stream parked, or is seen here.
        if (self.is_dropped(seq) || self.gives_up_on(wait)) && wait.capture.remove_parked(self, seq)
        {
            self.clone().unpark();
        }
    }

    /// From now on waits that no record of this process will end fail, as does the one that the stream is parked in: for events
    /// that were not recorded, for records of other processes, for notifies. Everything else runs.
    pub(crate) fn give_up_waits(self: &Arc<Stream>) {
        self.gives_up.store(true, Ordering::SeqCst);
        self.unpark_from(|wait| self.gives_up_on(wait));
    }

    pub(super) fn gives_up_on(&self, wait: &Wait) -> bool {
        let capture = &wait.capture;
        self.gives_up.load(Ordering::SeqCst) && !capture.is_bound() && !capture.is_done()
    }

    /// Lets the stream go on if it is parked in a wait of which this is true.
    pub(super) fn unpark_from(self: &Arc<Stream>, is_over: impl FnOnce(&Wait) -> bool) {
        if self.state.load(Ordering::SeqCst) == PARKED {
            let batch = self.batch.lock();
            let seq = self.shared.progress.finished(self.index) + 1;
            if let Some(Body::Wait(wait)) = batch.front().map(|t| &t.body)
                && is_over(wait)
                && wait.capture.remove_parked(self, seq)
            {
                self.clone().unpark();
            }
        }
    }

    /// The timer of a parked wait fired: the wait fails, unless it has ended.
    pub(crate) fn wait_expired(self: Arc<Stream>, seq: u64, capture: &Capture) {
        if capture.remove_parked(&self, seq) {
            self.timed_out.store(true, Ordering::SeqCst);
            self.unpark();
        }
    }

    pub(super) fn timeout_error(&self, wait: &Wait) -> Error {
        Error::new(
            Code::WaitTimeout,
            format!(
                "stream {} waited {:.3} s for an event that did not complete",
                self.index,
                wait.limit_ns as f64 / 1e9
            ),
        )
    }

    pub(super) fn given_up_error(&self) -> Error {
        let text = format!("stream {} waited for what nobody has recorded", self.index);
        Error::new(Code::StreamAbort, format!("{text}, and its device was reset by force"))
    }
}
