//! Events: points in streams that other streams and host threads wait for.
//!
//! Each record makes a [`Capture`]; a wait binds to the capture that is current when it is
//! submitted, so recording again never moves an earlier wait. A stream that waits is parked in the
//! capture and costs no thread.
//!
//! ```text
//! record(e, A)           wait(B, e)                 record(e, A) again
//!   e.current = c1         B: Wait(c1)                e.current = c2, B still waits for c1
//! ```
//!
//! A plain event ([`Kind::Plain`]) has a capture before it is recorded: that is not bound to a stream
//! yet; waits bind to it all the same, and the next record fills it.

use crate::clock::{Clock, Epoch};
use crate::error::{Code, Error, Result};
use crate::host::{self, HostThread};
use crate::ipc::shared_event::{SharedEvent, SharedRecord};
use crate::lock::{Mutex, Rank};
use crate::record::SyncObject;
use crate::shared::Shared;
use crate::stream::Stream;
use crate::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use crate::sync::{Arc, Weak, now_ns};
use crate::task::{Body, Task, Wait};
use std::sync::OnceLock;
use std::time::Duration;

/// Event flags of CANN.
pub mod flag {
    /// May be waited for by streams.
    pub const SYNC: u32 = 1;
    /// Captures the progress of a stream.
    pub const CAPTURE_STREAM_PROGRESS: u32 = 2;
    /// Carries a time.
    pub const TIME_LINE: u32 = 8;
    /// Used between streams only.
    pub const DEVICE_USE_ONLY: u32 = 16;
    /// Recorded outside of a captured graph in which it is waited for; outside of graphs as SYNC.
    pub const EXTERNAL: u32 = 32;
    /// Either of these may be waited for by streams.
    pub(super) const ORDERING: u32 = SYNC | EXTERNAL;
    /// Shared between processes.
    pub const IPC: u32 = 64;
    /// Every flag there is.
    pub const ALL: u32 =
        SYNC | CAPTURE_STREAM_PROGRESS | TIME_LINE | DEVICE_USE_ONLY | EXTERNAL | IPC;
}

/// One recording of an event. Complete when its record task has run.
#[derive(Default)]
pub struct Capture {
    done: AtomicBool,
    time_ns: AtomicU64,
    point: OnceLock<RecordPoint>,
    parked: ParkedStreams,
}

/// Where a record stands: its stream and task, and what it is ordered after.
struct RecordPoint {
    stream: Weak<Stream>,
    shared: Arc<Shared>,
    /// [`Stream::key`] of the stream.
    key: u64,
    record: Epoch,
    clock: Clock,
    order: u64,
}

impl RecordPoint {
    /// What is known to be finished once the capture is complete. The record itself counts as finished only a moment
    /// later, so this has the tasks before it.
    fn known(&self) -> Clock {
        let mut known = self.shared.progress.finished_of(&self.clock);
        if let Some(seq) = self.record.seq.checked_sub(1).filter(|seq| *seq > 0) {
            known.raise(Epoch { seq, ..self.record });
        }
        known
    }
}

/// Streams that wait for a capture, with the number of their waits.
struct ParkedStreams(Mutex<Vec<(Arc<Stream>, u64)>>);

impl Default for ParkedStreams {
    fn default() -> ParkedStreams {
        ParkedStreams(Mutex::new(Rank::Capture, Vec::new()))
    }
}

impl Capture {
    /// Fills in where the record task stands. Called once, under the stream's submission lock.
    pub(crate) fn bind(
        &self,
        stream: &Arc<Stream>,
        shared: &Arc<Shared>,
        seq: u64,
        clock: Clock,
        order: u64,
    ) {
        let (key, shared) = (stream.key(), shared.clone());
        let record = Epoch { stream: stream.index, seq };
        let point =
            RecordPoint { stream: Arc::downgrade(stream), shared, key, record, clock, order };
        assert!(self.point.set(point).is_ok(), "a capture is recorded once");
    }

    /// True once the record task has run.
    pub fn is_done(&self) -> bool {
        self.done.load(Ordering::SeqCst)
    }

    /// True once a record was submitted.
    pub fn is_bound(&self) -> bool {
        self.point.get().is_some()
    }

    /// The record, once it was submitted.
    pub fn record(&self) -> Option<Epoch> {
        self.point.get().map(|point| point.record)
    }

    /// What is ordered before whoever waits for this capture; `None` while it is unrecorded, and when it
    /// was recorded under another order.
    pub fn clock(&self, order: u64) -> Option<&Clock> {
        self.point.get().filter(|point| point.order == order).map(|point| &point.clock)
    }

    /// Completes the capture and unparks the streams that wait for it.
    pub(crate) fn complete(&self) {
        self.time_ns.store(now_ns(), Ordering::Release);
        let parked = {
            let mut parked = self.parked.0.lock();
            self.done.store(true, Ordering::SeqCst);
            std::mem::take(&mut *parked)
        };
        for (stream, _) in parked {
            stream.unpark();
        }
    }

    /// Parks a stream that its caller owns at its wait `seq`, unless the capture is complete. After
    /// `true` the stream belongs to whoever unparks it.
    pub(crate) fn park(&self, stream: &Arc<Stream>, seq: u64) -> bool {
        let mut parked = self.parked.0.lock();
        if self.is_done() {
            return false;
        }
        stream.set_parked();
        parked.push((stream.clone(), seq));
        true
    }

    /// Removes a parked stream without waking it; false if it is not parked here at its wait `seq`.
    pub(crate) fn remove_parked(&self, stream: &Arc<Stream>, seq: u64) -> bool {
        let mut parked = self.parked.0.lock();
        match parked.iter().position(|(s, wait)| Arc::ptr_eq(s, stream) && *wait == seq) {
            Some(index) => {
                parked.swap_remove(index);
                true
            }
            None => false,
        }
    }
}

/// How many waits for an event have not ended yet.
#[derive(Default)]
pub struct Waits(AtomicUsize);

impl Waits {
    pub(crate) fn begin_one(&self) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }

    pub(crate) fn end_one(&self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }

    /// True if all have ended.
    pub(crate) fn are_over(&self) -> bool {
        self.0.load(Ordering::Acquire) == 0
    }
}

/// Which functions made an event: they differ in what an unrecorded event means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `aclrtCreateEvent`, `aclrtCreateEventWithFlag`: unrecorded is not ready.
    Plain,
    /// `aclrtCreateEventExWithFlag`: unrecorded is complete.
    Ex,
}

/// The id of every event that the engine makes for itself.
pub const INTERNAL: u32 = u32::MAX;

/// An event of the user, or of the engine itself.
pub struct Event {
    /// A number for humans and `aclrtGetEventId`.
    pub id: u32,
    /// How it was made.
    pub kind: Kind,
    /// CANN's flags.
    pub flags: u32,
    current: Mutex<Option<Arc<Capture>>>,
    /// A reset follows waits for a record that is still to come: the event is unrecorded again once that is submitted. Under the lock of
    /// `current`.
    resets_next: AtomicBool,
    waits: Arc<Waits>,
    /// What other processes see of it, and the last record of this process there.
    shared: Option<(SharedEvent, AtomicU64)>,
}

impl Event {
    /// An unrecorded event. `flags` are of the user and are checked.
    pub fn new(id: u32, kind: Kind, flags: u32) -> Result<Event> {
        if flags == 0 || flags & !flag::ALL != 0 {
            return Err(Error::refused(format!(
                "event flag {flags:#x}: expected a combination of {:#x} (SYNC 1, CAPTURE_STREAM_PROGRESS 2, TIME_LINE 8, DEVICE_USE_ONLY 16, EXTERNAL 32)",
                flag::ALL
            )));
        }
        if flags & flag::IPC != 0 {
            return Err(Error::refused(format!(
                "event flag {flags:#x}: an event for other processes is made by aclrtCreateEventExWithFlag with flag 64 alone"
            )));
        }
        let current = (kind == Kind::Plain).then(Default::default);
        Ok(Event {
            id,
            kind,
            flags,
            current: Mutex::new(Rank::Event, current),
            resets_next: AtomicBool::new(false),
            waits: Default::default(),
            shared: None,
        })
    }

    /// An event that processes share.
    pub(crate) fn shared(id: u32, shared: SharedEvent) -> Event {
        Event {
            id,
            kind: Kind::Ex,
            flags: flag::IPC,
            current: Mutex::new(Rank::Event, None),
            resets_next: AtomicBool::new(false),
            waits: Default::default(),
            shared: Some((shared, AtomicU64::new(0))),
        }
    }

    /// The part that processes share; fails for an event that has none.
    pub(crate) fn require_shared(&self) -> Result<&SharedEvent> {
        self.shared.as_ref().map(|(shared, _)| shared).ok_or_else(|| {
            Error::refused(format!(
                "event {} was made with flag {:#x}: only one with flag 64 can go to another process",
                self.id, self.flags
            ))
        })
    }

    /// The last record, if another process made it.
    fn foreign_record(&self) -> Option<(&SharedEvent, SharedRecord)> {
        let (shared, own) = self.shared.as_ref()?;
        let last = shared.last()?;
        (last.number > own.load(Ordering::SeqCst)).then_some((shared, last))
    }

    /// An unrecorded event of the engine itself, for the order of its own tasks.
    pub fn internal() -> Event {
        Event::new(INTERNAL, Kind::Ex, flag::SYNC).expect("a flag that is taken")
    }

    /// Records the event at the end of the stream.
    pub fn record(&self, stream: &Arc<Stream>) -> Result<()> {
        let mut current = self.current.lock();
        let capture = match &*current {
            Some(c) if !c.is_bound() => c.clone(),
            _ => Arc::new(Capture::default()),
        };
        let shared = match &self.shared {
            Some((shared, own)) => Some((shared.begin_record(stream.key())?, own)),
            None => None,
        };
        stream.submit_record(self.id, capture.clone())?;
        let is_reset = self.resets_next.swap(false, Ordering::Relaxed);
        *current = Some(if is_reset { Default::default() } else { capture });
        if let Some((end, own)) = shared {
            own.store(end.number(), Ordering::SeqCst);
            stream.submit(Task::bare("aclrtRecordEvent", Body::Work(end)))?;
        }
        Ok(())
    }

    /// Lets the stream wait for the current capture; `limit` zero is for ever.
    pub fn wait(&self, stream: &Arc<Stream>, limit: Duration) -> Result<()> {
        self.wait_as("aclrtStreamWaitEvent", stream, limit)
    }

    /// The same; the task has this name.
    pub fn wait_as(&self, name: &'static str, stream: &Arc<Stream>, limit: Duration) -> Result<()> {
        if self.kind == Kind::Plain && self.flags & flag::ORDERING == 0 {
            return Err(Error::refused(format!(
                "event {} was made with flag {:#x}, without SYNC (1) or EXTERNAL (32): a stream cannot wait for it",
                self.id, self.flags
            )));
        }
        if let Some((shared, record)) = self.foreign_record() {
            let capture = Arc::new(Capture::default());
            let verdict = shared.watch(&capture, record);
            self.submit_wait(name, stream, capture, limit)?;
            return stream.submit(Task::bare(name, Body::Work(verdict))).map(drop);
        }
        let Some(capture) = self.current.lock().clone() else {
            return stream.submit(Task::bare(name, Body::Nothing)).map(|_| ());
        };
        self.submit_wait(name, stream, capture, limit)
    }

    fn submit_wait(
        &self,
        name: &'static str,
        stream: &Arc<Stream>,
        capture: Arc<Capture>,
        limit: Duration,
    ) -> Result<()> {
        self.waits.0.fetch_add(1, Ordering::AcqRel);
        let wait = Wait {
            capture,
            limit_ns: limit.as_nanos() as u64,
            waits: self.waits.clone(),
            reached_ns: AtomicU64::new(0),
        };
        stream.submit_wait(name, self.id, wait).inspect_err(|_| self.waits.end_one())
    }

    /// Makes the event unrecorded. Waits submitted before keep what they bound to; if that is a record still to come, the reset
    /// follows it.
    pub fn reset(&self, stream: &Arc<Stream>) -> Result<()> {
        self.require_plain("aclrtResetEvent")?;
        if self.flags & flag::ORDERING == 0 {
            return Err(Error::refused(format!(
                "event {} was made with flag {:#x}, without SYNC (1) or EXTERNAL (32): it cannot be reset",
                self.id, self.flags
            )));
        }
        let mut current = self.current.lock();
        stream.submit(Task::bare("aclrtResetEvent", Body::Nothing))?;
        match &*current {
            Some(capture) if capture.is_bound() => *current = Some(Default::default()),
            // Whoever else holds it is a wait.
            Some(capture) if Arc::strong_count(capture) > 1 => {
                self.resets_next.store(true, Ordering::Relaxed);
            }
            _ => {}
        }
        Ok(())
    }

    /// Called when the user destroys it: streams that wait for a record that can never come go on.
    pub(crate) fn release_waiters(&self) {
        if let Some(capture) = self.current.lock().take_if(|c| !c.is_bound()) {
            capture.complete();
        }
    }

    /// Fails for an [`Kind::Ex`] event: `function` takes only plain ones.
    pub fn require_plain(&self, function: &str) -> Result<()> {
        match self.kind {
            Kind::Plain => Ok(()),
            Kind::Ex => Err(Error::refused(format!(
                "event {} was made by aclrtCreateEventExWithFlag, which {function} does not take",
                self.id
            ))),
        }
    }

    /// True if the last record has completed, or an `Ex` event was never recorded. A `true` is emitted as an event: the
    /// program may rely on it. Fails if the process that made it ended before.
    pub fn is_complete(&self) -> Result<bool> {
        if let Some((shared, record)) = self.foreign_record() {
            return shared.query(record);
        }
        Ok(self.current.lock().as_ref().is_none_or(|capture| self.emit_complete(capture)))
    }

    /// True if every wait submitted so far has passed; emitted as above.
    pub fn waits_passed(&self) -> bool {
        let passed = self.waits.0.load(Ordering::Acquire) == 0;
        if passed && let Some(capture) = &*self.current.lock() {
            self.emit_complete(capture);
        }
        passed
    }

    /// Whether a capture is complete; emits an event if it is.
    fn emit_complete(&self, capture: &Capture) -> bool {
        let done = capture.is_done();
        if let Some(point) = capture.point.get().filter(|_| done) {
            point.shared.spine.emit_complete(SyncObject::Event(self.id), || point.known());
        }
        done
    }

    /// Blocks the calling thread until the last record has completed. False when `limit` passed.
    pub fn synchronize(&self, limit: Option<Duration>) -> Result<bool> {
        if let Some((shared, record)) = self.foreign_record() {
            return shared.wait(record, limit);
        }
        let Some(capture) = self.current.lock().clone() else { return Ok(true) };
        let Some(point) = capture.point.get() else { return Err(self.never_recorded()) };
        if !capture.is_done() && point.key == host::host_function_of() {
            return Err(Error::refused(format!(
                "event {} was recorded after the host function that was asked to wait for it, in the same stream",
                self.id
            )));
        }
        let host = HostThread::current();
        let began_ns = point.shared.spine.begin_wait();
        let done = host.synchronize(|| {
            capture.is_done()
                || point.stream.upgrade().is_none_or(|s| s.wait_finished(point.record.seq, limit))
        });
        if done {
            let known = point.known();
            host.join_clock(&known);
            point.shared.spine.emit_synchronize(SyncObject::Event(self.id), began_ns, &known);
        }
        Ok(done)
    }

    /// When the last record ran, on the monotonic clock. An answer is a query that answered "complete".
    pub fn time_ns(&self) -> Result<u64> {
        let current = self.current.lock().clone();
        let capture = current.filter(|c| c.is_bound()).ok_or_else(|| self.never_recorded())?;
        if self.flags & flag::TIME_LINE == 0 {
            return Err(Error::new(
                Code::EventTimestampInvalid,
                format!(
                    "event {} was made with flag {:#x}, without TIME_LINE (8)",
                    self.id, self.flags
                ),
            ));
        }
        if !self.emit_complete(&capture) {
            return Err(Error::new(
                Code::EventTimestampInvalid,
                format!("event {} has not completed yet: synchronize it first", self.id),
            ));
        }
        Ok(capture.time_ns.load(Ordering::Acquire))
    }

    fn never_recorded(&self) -> Error {
        Error::new(Code::RtInternal, format!("event {} was never recorded", self.id))
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::stream::StreamSpec;

    #[test]
    fn a_complete_record_means_that_tasks_before_it_are_finished() {
        let mut config = Config::from_lookup(|_| None, 1 << 30).unwrap();
        config.device_memory = 1 << 20;
        let shared = Shared::new(config, 4).unwrap();
        let context_failure = Arc::default();
        let spec = StreamSpec { device: 0, context: 0, context_failure, priority: 0, flags: 0 };
        let (a, b) = (Stream::new(&shared, spec.clone()), Stream::new(&shared, spec));
        let (a, b) = (a.unwrap(), b.unwrap());
        let before = a.submit(Task::bare("nothing", Body::Nothing)).unwrap();
        let event = Event::new(0, Kind::Ex, flag::SYNC).unwrap();
        event.record(&a).unwrap();
        // Its record has run, and does not count as finished yet.
        event.current.lock().as_ref().unwrap().complete();
        assert!(event.synchronize(None).unwrap());
        b.submit(Task::bare("nothing", Body::Nothing)).unwrap();
        assert!(b.ordered().covers(Epoch { stream: a.index, seq: before }));
    }
}
