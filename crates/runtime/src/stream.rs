//! Streams: queues of tasks that run in order, asynchronously to the host.
//!
//! ```text
//!  submit ──> pending ──> batch ──> body      Idle ── submit ──> Ready ── claim ──> Running
//!  (host threads,         (whoever owns        ^                  ^                    │
//!   under one lock)        the stream)         └── nothing left ──┼────────────────────┤
//!                                                                 └─ unpark ─ Parked <─┘ event, host function
//! ```
//!
//! A stream has no thread. Whoever moves it from Ready to Running owns it: a worker, or a host
//! thread that waits for it. Ownership is the state, so a stream never runs in two places.

use crate::clock::{Clock, Epoch, QueuedMemory, StreamIndex, TaskQueue};
use crate::error::{Code, Error, Result};
use crate::event::Capture;
use crate::host::{self, HostThread};
use crate::lock::{Condvar, Mutex, Rank};
use crate::overflow::StreamOverflow;
use crate::record::{Event, Kind};
use crate::shared::Shared;
use crate::sync::Arc;
use crate::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use crate::task::{Body, Task, Wait};
use std::collections::VecDeque;

mod context_failure;
mod emit;
mod parked;
mod running;
mod settings;
mod spec;
mod wait;

pub use context_failure::ContextFailure;
pub use settings::StreamSettings;
pub use spec::{FailureMode, StreamSpec, flag};

const IDLE: u8 = 0;
const READY: u8 = 1;
const RUNNING: u8 = 2;
const PARKED: u8 = 3;

/// A stream. Shared by handles, queues and waiters; its index is released with the last of them.
pub struct Stream {
    /// The number of the stream on the clocks; also what `aclrtStreamGetId` gives.
    pub index: StreamIndex,
    /// How it was made.
    pub spec: StreamSpec,
    shared: Arc<Shared>,
    state: AtomicU8,
    /// True while it is in the run queue; under that queue's lock.
    pub(crate) queued: AtomicBool,
    /// True once a thread has begun to destroy it.
    pub(crate) ending: AtomicBool,
    submit: Mutex<Submit>,
    batch: Mutex<VecDeque<Task>>,
    /// Tasks up to this one are dropped, not run.
    dropped_to: AtomicU64,
    /// The wait that it was parked in has timed out.
    timed_out: AtomicBool,
    /// See [`Stream::give_up_waits`].
    gives_up: AtomicBool,
    failure_mode: AtomicU8,
    failed: AtomicBool,
    failure: Mutex<Option<Error>>,
    /// What happens to results that are too large.
    pub overflow: StreamOverflow,
    /// What the program may change.
    pub settings: StreamSettings,
    /// The first task that a thread sleeps for; `u64::MAX` when none does.
    awaited: AtomicU64,
    done_lock: Mutex<()>,
    done: Condvar,
}

/// The submission side of a stream.
struct Submit {
    pending: VecDeque<Task>,
    /// What the next task is ordered after, and the number of that order ([`Progress::order`](crate::clock::Progress::order)).
    ordered: Clock,
    order: u64,
    /// The clock of a host thread that was joined last: [`HostThread::clock_version`].
    observed: (usize, u64),
    closed: bool,
}

/// What a thread that runs a stream does with a task that may block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Blocking {
    /// Parks the stream and lets another thread wait.
    Parks,
    /// Runs it: the thread waits for this very stream.
    Waits,
}

const MODE_UNSET: u8 = 255;

impl Stream {
    /// A new, idle stream; fails when the process has no index left.
    pub fn new(shared: &Arc<Shared>, spec: StreamSpec) -> Result<Arc<Stream>> {
        let index = shared.progress.open().ok_or_else(|| {
            Error::new(
                Code::NoStreamResource,
                "this process has no stream index left: destroy some streams",
            )
        })?;
        let stream = Arc::new(Stream {
            index,
            shared: shared.clone(),
            state: AtomicU8::new(IDLE),
            queued: AtomicBool::new(false),
            ending: AtomicBool::new(false),
            submit: Mutex::new(
                Rank::Submit,
                Submit {
                    pending: VecDeque::new(),
                    ordered: Clock::new(),
                    order: shared.progress.order(),
                    observed: (0, 0),
                    closed: false,
                },
            ),
            batch: Mutex::new(Rank::Batch, VecDeque::new()),
            dropped_to: AtomicU64::new(0),
            timed_out: AtomicBool::new(false),
            gives_up: AtomicBool::new(false),
            failure_mode: AtomicU8::new(MODE_UNSET),
            failed: AtomicBool::new(false),
            failure: Mutex::new(Rank::Failure, None),
            overflow: StreamOverflow::default(),
            settings: StreamSettings::new(&spec),
            spec,
            awaited: AtomicU64::new(u64::MAX),
            done_lock: Mutex::new(Rank::Done, ()),
            done: Condvar::new(),
        });
        let weak = Arc::downgrade(&stream);
        shared.progress.attach(weak);
        Ok(stream)
    }

    /// What was attached to the process of the stream: [`Shared::attach`].
    pub fn attachment<T: std::any::Any + Send + Sync>(&self) -> Option<std::sync::Arc<T>> {
        self.shared.attachment()
    }

    /// Identifies the stream in this process; never 0, which thread-locals use for none.
    pub fn key(&self) -> u64 {
        u64::from(self.index) + 1
    }

    /// Adds a task at the end and returns at once.
    pub fn submit(self: &Arc<Stream>, task: Task) -> Result<u64> {
        self.push(|_, _, _| task)
    }

    /// Adds a task at the end that takes a microsecond or two. An idle stream that nobody waits for has it run by
    /// the calling thread before this returns: waking a worker would take longer. Never inside a callback of an
    /// allocator or a host function.
    pub fn submit_short(self: &Arc<Stream>, task: Task) -> Result<u64> {
        let seq = self.append(|_, _, _| task)?;
        let may_run = host::may_help() && host::host_function_of() == 0;
        if may_run && self.awaited.load(Ordering::SeqCst) == u64::MAX && self.claim_idle(seq) {
            self.run(Some(seq), Blocking::Parks);
        } else {
            self.make_ready();
        }
        Ok(seq)
    }

    /// Adds a task at the end and returns when it is done, also on streams that synchronize does not
    /// wait for. What failed is left for synchronize.
    pub fn submit_and_wait(self: &Arc<Stream>, task: Task) -> Result<()> {
        self.check_may_wait(task.name)?;
        let seq = self.push(|_, _, _| task)?;
        self.wait_ordered(seq, None);
        Ok(())
    }

    /// Adds the record of an event.
    pub(crate) fn submit_record(
        self: &Arc<Stream>,
        event: u32,
        capture: Arc<Capture>,
    ) -> Result<u64> {
        self.push(|seq, ordered, order| {
            let epoch = Epoch { stream: self.index, seq };
            let mut clock = ordered.clone();
            clock.raise(epoch);
            capture.bind(self, &self.shared, seq, clock, order);
            self.spine().emit(Kind::Record, || Event::Record { event, epoch });
            Task::bare("aclrtRecordEvent", Body::Record(capture))
        })
    }

    /// Adds the wait for an event.
    pub(crate) fn submit_wait(
        self: &Arc<Stream>,
        name: &'static str,
        event: u32,
        wait: Wait,
    ) -> Result<()> {
        self.push(|seq, ordered, order| {
            if let Some(clock) = wait.capture.clock(order) {
                ordered.join(clock);
            }
            let epoch = Epoch { stream: self.index, seq };
            let record = || wait.capture.record();
            self.spine().emit(Kind::Wait, || Event::Wait { event, record: record(), epoch });
            Task::bare(name, Body::Wait(wait))
        })
        .map(|_| ())
    }

    /// Appends the task that `task` makes, given its number, what it is ordered after, and the number of that order.
    fn push(self: &Arc<Stream>, task: impl FnOnce(u64, &mut Clock, u64) -> Task) -> Result<u64> {
        let seq = self.append(task)?;
        self.make_ready();
        Ok(seq)
    }

    /// The same, but does not make the stream ready to run.
    fn append(&self, task: impl FnOnce(u64, &mut Clock, u64) -> Task) -> Result<u64> {
        if let Some(failure) = self.spec.context_failure.failure() {
            return Err(failure.clone());
        }
        let host = HostThread::current();
        let mut submit = self.submit.lock();
        if submit.closed {
            return Err(self.closed_error());
        }
        let progress = &self.shared.progress;
        let order = progress.order();
        if submit.order != order {
            submit.ordered = Clock::new();
            (submit.order, submit.observed) = (order, (0, 0));
        }
        let version = host.clock_version();
        let mut changed = submit.observed != version;
        if changed {
            host.join_into(&mut submit.ordered);
            submit.observed = version;
        }
        let seq = progress.submitted(self.index) + 1;
        let task = task(seq, &mut submit.ordered, order);
        changed |= matches!(task.body, Body::Wait(_));
        self.emit_submit(&task, seq, &submit.ordered);
        submit.pending.push_back(task);
        progress.set_submitted(self.index, seq);
        if changed {
            progress.set_ordered(self.index, order, &submit.ordered);
        }
        drop(submit);
        Ok(seq)
    }

    /// Lets a worker take a stream that was idle and has a task.
    fn make_ready(self: &Arc<Stream>) {
        if self.state.load(Ordering::SeqCst) == IDLE && self.transition(IDLE, READY) {
            self.shared.scheduler.push(self.clone());
        }
    }

    /// Claims an idle stream whose next task is `seq`; the caller then calls [`Stream::run`]. False if other threads
    /// have to run it.
    fn claim_idle(self: &Arc<Stream>, seq: u64) -> bool {
        if self.state.load(Ordering::SeqCst) != IDLE || !self.transition(IDLE, RUNNING) {
            return false;
        }
        let is_next = self.shared.progress.finished(self.index) + 1 == seq;
        if !is_next {
            // Tasks of other threads come first, which may be long, or ours has run already.
            self.yield_turn();
        }
        is_next
    }

    /// Changes the state; false if it was not `from`.
    fn transition(&self, from: u8, to: u8) -> bool {
        self.state.compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// Takes a ready stream; the caller then calls [`Stream::run`].
    pub(crate) fn claim(&self) -> bool {
        self.transition(READY, RUNNING)
    }

    /// Called by the owner, under the lock of the capture that keeps the stream.
    pub(crate) fn set_parked(&self) {
        self.state.store(PARKED, Ordering::SeqCst);
    }

    /// Makes a parked stream ready again.
    pub(crate) fn unpark(self: Arc<Stream>) {
        if self.transition(PARKED, READY) {
            let scheduler = &self.shared.clone().scheduler;
            scheduler.push(self);
        }
    }

    fn is_dropped(&self, seq: u64) -> bool {
        seq <= self.dropped_to.load(Ordering::SeqCst)
            || self.spec.context_failure.failure().is_some()
    }

    /// Handles the failure of a task: logs and stores it, and in mode Stop ends the context.
    fn fail(&self, error: Error) {
        log::error!("stream {}: {}", self.index, error.text);
        if self.failure_mode.load(Ordering::SeqCst) == FailureMode::Stop as u8 {
            self.shared.progress.break_order();
            self.spec.context_failure.end_streams(error.clone(), &self.shared.scheduler);
        }
        self.store_failure(error);
    }

    /// Keeps a failure for the next synchronize, unless there is an earlier one.
    fn store_failure(&self, error: Error) {
        let mut failure = self.failure.lock();
        if failure.is_none() {
            *failure = Some(error);
            self.failed.store(true, Ordering::SeqCst);
        }
    }

    /// The first failure since the last call, or the one that ended the context.
    pub fn take_failure(&self) -> Option<Error> {
        if let Some(failure) = self.spec.context_failure.failure() {
            return Some(failure.clone());
        }
        match self.failed.load(Ordering::SeqCst) {
            true => {
                let mut failure = self.failure.lock();
                self.failed.store(false, Ordering::SeqCst);
                failure.take()
            }
            false => None,
        }
    }

    /// Sets what happens after a failure; false if that was set before.
    pub fn set_failure_mode(&self, mode: FailureMode) -> bool {
        self.failure_mode
            .compare_exchange(MODE_UNSET, mode as u8, Ordering::SeqCst, Ordering::SeqCst)
            .is_ok()
    }

    /// What happens after a failure.
    pub fn failure_mode(&self) -> FailureMode {
        match self.failure_mode.load(Ordering::SeqCst) {
            1 => FailureMode::Stop,
            _ => FailureMode::Continue,
        }
    }

    /// What the stream's next task is ordered after.
    pub fn ordered(&self) -> Clock {
        self.submit.lock().ordered.clone()
    }

    /// Drops what is queued; the task that runs goes on. The next synchronize reports the abort, once.
    pub fn abort(self: &Arc<Stream>) {
        self.store_failure(Error::new(
            Code::StreamAbort,
            format!("stream {} was aborted", self.index),
        ));
        self.drop_queued();
    }

    /// Refuses further tasks. With `wait`, returns when all are done; without, drops what is queued.
    pub fn close(self: &Arc<Stream>, wait: bool) -> Result<()> {
        if wait && host::host_function_of() == self.key() {
            return Err(Error::refused(format!(
                "stream {} was asked to be destroyed from its own host function, which it would wait for without end; aclrtDestroyStreamForce does not wait",
                self.index
            )));
        }
        self.submit.lock().closed = true;
        if wait {
            self.wait_ordered(self.shared.progress.submitted(self.index), None);
        } else {
            self.drop_queued();
        }
        Ok(())
    }

    /// Drops all tasks that are queued, also a wait that the stream is parked in.
    fn drop_queued(self: &Arc<Stream>) {
        {
            // No wait is submitted between these.
            let _submit = self.submit.lock();
            self.shared.progress.break_order();
            let seq = self.shared.progress.submitted(self.index);
            self.dropped_to.fetch_max(seq, Ordering::SeqCst);
        }
        self.unpark_from(|_| true);
    }

    /// True once task `seq` is done.
    pub(crate) fn has_finished(&self, seq: u64) -> bool {
        self.shared.progress.finished(self.index) >= seq
    }

    fn closed_error(&self) -> Error {
        Error::new(Code::InvalidHandle, format!("stream {} has been destroyed", self.index))
    }
}

impl TaskQueue for Stream {
    fn place(&self) -> (StreamIndex, u32) {
        (self.index, self.spec.device)
    }

    fn collect(&self, memory: &mut QueuedMemory) {
        let (Some(batch), Some(submit)) = (self.batch.try_lock(), self.submit.try_lock()) else {
            memory.unknown = true;
            return;
        };
        for task in batch.iter().chain(&submit.pending) {
            memory.host_function |= matches!(task.body, Body::Host(_));
            let spans = task.reads.iter().chain(&task.writes);
            memory.ranges.extend(spans.map(|s| (s.address, s.address.saturating_add(s.bytes))));
        }
        // The one that runs now has left the queue.
        memory.host_function |= self.state.load(Ordering::SeqCst) == PARKED
            && !matches!(batch.front().map(|t| &t.body), Some(Body::Wait(_) | Body::Exchange(_)));
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let progress = &self.shared.progress;
        for task in self.batch.lock().drain(..).chain(self.submit.lock().pending.drain(..)) {
            if let Body::Record(capture) = task.body {
                capture.complete();
            }
        }
        progress.set_finished(self.index, progress.submitted(self.index));
        progress.set_ordered(self.index, 0, &Clock::new());
        progress.close(self.index);
    }
}
