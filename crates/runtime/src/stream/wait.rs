//! Host threads that wait for a stream, and run its tasks themselves where they may.

use super::{Blocking, READY, Stream, flag};
use crate::clock::Clock;
use crate::error::{Code, Error, Result};
use crate::host::{self, HostThread};
use crate::sync::atomic::Ordering;
use crate::sync::{self, Arc};
use std::time::{Duration, Instant};

impl Stream {
    /// True if every task submitted so far is done.
    pub fn is_idle(&self) -> bool {
        let submitted = self.shared.progress.submitted(self.index);
        self.shared.progress.finished(self.index) >= submitted
    }

    /// The same for a query of the program: `true` is emitted as an event, because the program may rely on it.
    pub fn query(&self) -> bool {
        let submitted = self.shared.progress.submitted(self.index);
        let is_idle = self.has_finished(submitted);
        if is_idle {
            self.emit_complete(submitted);
        }
        is_idle
    }

    /// Waits for all that was submitted before the call. False when `limit` passed. Afterwards the
    /// calling thread is ordered after the stream.
    pub fn synchronize(self: &Arc<Stream>, limit: Option<Duration>) -> Result<bool> {
        let began_ns = self.shared.spine.begin_wait();
        let known = self.wait_all(limit)?;
        known.iter().for_each(|known| self.emit_synchronize(began_ns, known));
        Ok(known.is_some())
    }

    /// The same without an event; returns what the calling thread then knows to be finished, `None` when `limit` passed.
    pub(crate) fn wait_all(self: &Arc<Stream>, limit: Option<Duration>) -> Result<Option<Clock>> {
        if host::host_function_of() == self.key() {
            return Err(Error::refused(format!(
                "stream {} was asked to synchronize from its own host function, which it would wait for without end",
                self.index
            )));
        }
        if self.spec.flags & flag::NOT_WAITED_FOR != 0 {
            return Ok(Some(Clock::new()));
        }
        Ok(self.wait_known(self.shared.progress.submitted(self.index), limit))
    }

    /// Waits for one task, by the number that its submit gave; afterwards the calling thread is ordered after
    /// it. Later tasks are not waited for, and failures, also of this task, are left for synchronize. `name` is
    /// for the error message.
    pub fn wait_for_task(self: &Arc<Stream>, name: &str, seq: u64) -> Result<()> {
        self.check_may_wait(name)?;
        match self.wait_ordered(seq, None) {
            true => Ok(()),
            false => Err(Error::new(
                Code::StreamSyncTimeout,
                format!("{name} was not done on stream {}, and the process is exiting", self.index),
            )),
        }
    }

    /// Fails on a thread that runs a host function of this stream, which the stream itself waits for.
    pub(super) fn check_may_wait(&self, name: &str) -> Result<()> {
        match host::host_function_of() == self.key() {
            false => Ok(()),
            true => Err(Error::refused(format!(
                "{name}: stream {} was asked to finish it from its own host function, which it would wait for without end",
                self.index
            ))),
        }
    }

    /// Waits for a task; afterwards the calling thread is ordered after it.
    pub(super) fn wait_ordered(self: &Arc<Stream>, seq: u64, limit: Option<Duration>) -> bool {
        let began_ns = self.shared.spine.begin_wait();
        let known = self.wait_known(seq, limit);
        known.iter().for_each(|known| self.emit_synchronize(began_ns, known));
        known.is_some()
    }

    /// Waits for a task; returns what the calling thread then knows to be finished.
    fn wait_known(self: &Arc<Stream>, seq: u64, limit: Option<Duration>) -> Option<Clock> {
        let ordered = self.ordered();
        let host = HostThread::current();
        if !host.synchronize(|| self.wait_finished(seq, limit)) {
            return None;
        }
        if seq == 0 {
            return Some(Clock::new());
        }
        let known = self.known_after(&ordered, seq);
        host.join_clock(&known);
        Some(known)
    }

    /// Waits until task `seq` is done. The calling thread runs the stream's tasks itself where it
    /// may: never in a timed wait, never inside an allocator callback, never a host function.
    pub(crate) fn wait_finished(self: &Arc<Stream>, seq: u64, limit: Option<Duration>) -> bool {
        self.has_finished(seq) || self.shared.progress.while_waiting(|| self.wait_for(seq, limit))
    }

    fn wait_for(self: &Arc<Stream>, seq: u64, limit: Option<Duration>) -> bool {
        let progress = &self.shared.progress;
        let is_finished = || progress.finished(self.index) >= seq;
        let limit = limit.or_else(|| self.shared.max_wait_at_exit());
        let may_help = limit.is_none() && host::may_help();
        let deadline = limit.map(|l| Instant::now() + l);
        loop {
            if is_finished() {
                return true;
            }
            if may_help && self.claim() {
                self.shared.scheduler.as_active(|| self.run(Some(seq), Blocking::Waits));
                continue;
            }
            if self
                .shared
                .scheduler
                .spin(|| is_finished() || (may_help && self.state.load(Ordering::Relaxed) == READY))
            {
                continue;
            }
            let mut guard = self.done_lock.lock();
            loop {
                self.awaited.fetch_min(seq, Ordering::SeqCst);
                if is_finished() {
                    return true;
                }
                match deadline {
                    None => self.done.wait(&mut guard),
                    Some(deadline) => {
                        let left = deadline.saturating_duration_since(Instant::now());
                        if left.is_zero() || !sync::REAL_TIME {
                            return false;
                        }
                        self.done.wait_for(&mut guard, left);
                    }
                }
            }
        }
    }
}
