//! How far streams have come, learned from ACL without waiting.
//!
//! ```text
//!  frees     f f   f       f f          each carries the tick that it happened in
//!  tick    1 1 1 1 1 | 2 2 2 2 | 3
//!  events            E1        E2       recorded after everything that was submitted
//!                                       before the tick went up: once E1 is complete, tick 1
//!                                       is finished
//! ```
//!
//! A query (asking whether the stream is idle, or else recording an event) is started only when another stream wants
//! the memory ([`Progress::start_query`]), and one at a time for a stream. Frees through a caller's queue
//! ([`FreePath::Queued`]) are known to be finished only by the program's call, [`on_synchronize`].

use crate::acl::{self, Acl, Handle, acl};
use crate::process;
use crate::streams::{self, FreePath, StreamSlot};
use crate::visit::Visit;
use cairn_pool::Progress;
use cairn_pool::clock::{Clock, Epoch, StreamIndex};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::time::{Duration, Instant};

/// The ticks of a stream for one free path: how many are past, and how many of them are finished.
#[derive(Default)]
pub struct Ticks {
    past: AtomicU64,
    finished: AtomicU64,
}

impl Ticks {
    /// The tick that frees happen in now. Whatever this thread gave to a stream before must be seen by
    /// whoever ends the tick later: that takes a full fence, which on x86-64 the pool's lock, taken just
    /// before, already is.
    #[inline]
    fn now(&self) -> u64 {
        if cfg!(not(target_arch = "x86_64")) {
            fence(Ordering::SeqCst);
        }
        self.past.load(Ordering::SeqCst) + 1
    }

    /// Ends the tick and returns its number.
    fn end_tick(&self) -> u64 {
        self.past.fetch_add(1, Ordering::SeqCst) + 1
    }

    fn finish(&self, tick: u64) {
        self.finished.fetch_max(tick, Ordering::AcqRel);
    }

    fn finished(&self) -> u64 {
        self.finished.load(Ordering::Acquire)
    }
}

/// The finished tick of a stream that is destroyed and has finished: no tick is later. Set and reset under the lock of
/// the stream's tracker.
const ALL_TICKS: u64 = u64::MAX;

/// How the completion of a stream's tasks is learned: its context, and the event that was recorded last.
pub struct CompletionTracker {
    /// The stream's context; null when the stream must not be queried.
    context: Handle,
    /// The stream is destroyed, or about to be.
    ending: bool,
    event: Handle,
    event_context: Handle,
    /// The tick that is finished when the event is complete; 0 when no event is pending.
    tick: u64,
}

// SAFETY: handles of ACL may be used by any thread.
unsafe impl Send for CompletionTracker {}

impl Default for CompletionTracker {
    /// For a stream that must not be queried.
    fn default() -> CompletionTracker {
        let null: Handle = null_mut();
        CompletionTracker {
            context: null,
            ending: false,
            event: null,
            event_context: null,
            tick: 0,
        }
    }
}

impl CompletionTracker {
    /// For a live stream of this context.
    pub fn in_context(context: Handle) -> CompletionTracker {
        CompletionTracker { context, ..CompletionTracker::default() }
    }

    /// False if only the program can know when the stream has finished: it must not be queried, or it is
    /// destroyed and no event was recorded before.
    fn can_query(&self) -> bool {
        !self.context.is_null() && (!self.ending || self.tick != 0)
    }

    /// Tracks a new stream from now on, with the event of the one before.
    pub fn restart(&mut self, new: CompletionTracker) {
        let (event, event_context) = (self.event, self.event_context);
        *self = CompletionTracker { event, event_context, ..new };
    }
}

impl StreamSlot {
    /// Starts to find out whether what was freed so far is finished, unless that is under way.
    fn start_query(&self, acl: &Acl) {
        let mut tracker = self.tracker.lock();
        if !tracker.ending {
            self.poll_event(acl, &mut tracker);
            self.query_or_record(acl, &mut tracker);
        }
    }

    /// Starts the last query of a stream that is about to be destroyed.
    pub(crate) fn start_last_query(&self, acl: &Acl) {
        let mut tracker = self.tracker.lock();
        (tracker.ending, tracker.tick) = (true, 0);
        if process::may_call() {
            self.query_or_record(acl, &mut tracker);
        }
    }

    /// True for a stream that is destroyed, or about to be.
    pub fn is_ending(&self) -> bool {
        self.tracker.lock().ending
    }

    /// True if the stream is destroyed and has finished with everything that was freed by this path.
    pub fn is_over(&self, free_path: FreePath) -> bool {
        finished(self.index(free_path)) == ALL_TICKS
    }

    /// The slot is vacated: the next stream in it goes on with the ticks of this one.
    pub(crate) fn reuse_ticks(&self) {
        let mut tracker = self.tracker.lock();
        tracker.restart(CompletionTracker::default());
        self.has_event.store(false, Ordering::Release);
        for ticks in &self.ticks {
            if ticks.finished() == ALL_TICKS {
                ticks.finished.store(ticks.end_tick(), Ordering::Release);
            }
        }
    }

    /// Ends the tick; it is finished if the stream is idle, else an event is recorded for it.
    fn query_or_record(&self, acl: &Acl, tracker: &mut CompletionTracker) {
        if tracker.tick != 0 || tracker.context.is_null() || is_captured(acl, self.handle()) {
            return;
        }
        let _visit = match Visit::to_context(acl, tracker.context) {
            Ok(visit) => visit,
            Err(code) => return self.lose_context(tracker, code),
        };
        let ticks = &self.ticks[FreePath::Direct as usize];
        let tick = ticks.end_tick();
        if is_idle(acl, self.handle()) == Ok(true) {
            ticks.finish(if tracker.ending { ALL_TICKS } else { tick });
        } else if record_event(acl, tracker, self.handle()) {
            tracker.tick = tick;
            self.has_event.store(true, Ordering::Release);
        }
    }

    /// The context cannot be entered. If it was destroyed, so was the stream: ACL does not report the end of a default
    /// stream, but it ends with its context, which waits for it.
    fn lose_context(&self, tracker: &mut CompletionTracker, code: acl::Code) {
        tracker.context = null_mut();
        if acl::NO_SUCH_CONTEXT.contains(&code) {
            tracker.ending = true;
            self.unregister();
            self.ticks[FreePath::Direct as usize].finish(ALL_TICKS);
        }
    }

    /// Checks whether the pending event is complete.
    fn poll_event(&self, acl: &Acl, tracker: &mut CompletionTracker) {
        let (Some(query), false) = (acl.aclrtQueryEventStatus, tracker.tick == 0) else { return };
        let _visit = match Visit::to_context(acl, tracker.event_context) {
            Ok(visit) => visit,
            Err(code) => return self.lose_context(tracker, code),
        };
        let mut status = 0;
        // SAFETY: the event is ours and the status goes to a place of ours.
        if unsafe { query(tracker.event, &mut status) } == 0 && status == acl::EVENT_COMPLETE {
            let tick = std::mem::take(&mut tracker.tick);
            self.ticks[FreePath::Direct as usize].finish(if tracker.ending {
                ALL_TICKS
            } else {
                tick
            });
            self.has_event.store(false, Ordering::Release);
        }
    }
}

/// True for a stream that is being captured into a graph: it must not be queried.
pub fn is_captured(acl: &Acl, stream: Handle) -> bool {
    let Some(info) = acl.aclmdlRICaptureGetInfo else { return false };
    let (mut status, mut model) = (0, null_mut());
    // SAFETY: the caller has a live stream, and the results go to places of ours.
    unsafe { info(stream, &mut status, &mut model) == 0 && status != 0 }
}

/// Whether all tasks of a stream are finished; the code if ACL does not say. Called in the stream's context.
pub fn is_idle(acl: &Acl, stream: Handle) -> Result<bool, acl::Code> {
    let Some(query) = acl.aclrtStreamQuery else { return Ok(false) };
    let mut status = u32::MAX;
    // SAFETY: the caller has a live stream, and the status goes to a place of ours.
    match unsafe { query(stream, &mut status) } {
        0 => Ok(status == acl::STREAM_COMPLETE),
        code => Err(code),
    }
}

/// Records the stream's event, which is made on first use. Called in the stream's context.
fn record_event(acl: &Acl, tracker: &mut CompletionTracker, stream: Handle) -> bool {
    if tracker.event_context != tracker.context && !tracker.event.is_null() {
        if let (Some(destroy), Ok(_visit)) =
            (acl.aclrtDestroyEvent, Visit::to_context(acl, tracker.event_context))
        {
            // SAFETY: the event is ours, its context lives, and nobody waits for it.
            unsafe { destroy(tracker.event) };
        }
        tracker.event = null_mut();
    }
    if tracker.event.is_null() {
        let create = acl.aclrtCreateEventExWithFlag.or(acl.aclrtCreateEventWithFlag);
        let Some(create) = create else { return false };
        // SAFETY: the handle goes to a place of ours.
        if unsafe { create(&mut tracker.event, acl::STREAM_PROGRESS) } != 0 {
            tracker.event = null_mut();
            return false;
        }
        tracker.event_context = tracker.context;
    }
    // SAFETY: the event is ours; the stream is live: its end is reported under the same lock.
    acl.aclrtRecordEvent.is_some_and(|record| unsafe { record(tracker.event, stream) } == 0)
}

/// Everything that was freed on the device so far is finished: the program waited for it.
pub fn on_synchronize(device: i32) {
    for stream in streams::of_device(device) {
        let tracker = stream.tracker.lock();
        for ticks in &stream.ticks {
            let tick = ticks.end_tick();
            ticks.finish(if tracker.ending { ALL_TICKS } else { tick });
        }
    }
}

/// The device was reset: its streams and events are destroyed and must not be queried.
pub fn forget(device: i32) {
    for stream in streams::of_device(device) {
        *stream.tracker.lock() = CompletionTracker::default();
        stream.vacate(stream.id());
    }
}

/// Starts a query of every stream of a device.
pub fn start_queries(device: i32) {
    streams::of_device(device).for_each(|s| start_query(s.index(FreePath::Direct)));
}

/// Waits until one more of the clock's epochs is finished. False if that takes until `end`, or if only the
/// program can know.
pub fn wait(clock: &Clock, end: Instant) -> bool {
    let is_unfinished = |epoch: &Epoch| finished(epoch.stream) < epoch.seq;
    let unfinished: Vec<Epoch> = clock.epochs().iter().copied().filter(is_unfinished).collect();
    let mut pause = Duration::from_micros(20);
    while Instant::now() < end && process::may_call() {
        if !unfinished.iter().all(is_unfinished) || unfinished.is_empty() {
            return true;
        }
        let can_query = |epoch: &&Epoch| {
            let (stream, free_path) = streams::by_index(epoch.stream);
            free_path == FreePath::Direct && stream.tracker.lock().can_query()
        };
        let queried =
            unfinished.iter().filter(can_query).map(|epoch| start_query(epoch.stream)).count();
        if queried == 0 {
            return false;
        }
        std::thread::sleep(pause);
        pause = (2 * pause).min(Duration::from_millis(1));
    }
    false
}

/// The last finished tick of a stream and a free path.
fn finished(stream: StreamIndex) -> u64 {
    let (stream, free_path) = streams::by_index(stream);
    if free_path == FreePath::Direct
        && stream.has_event.load(Ordering::Acquire)
        && process::may_call()
        && let (Ok(acl), Some(mut tracker)) = (acl(), stream.tracker.try_lock())
    {
        stream.poll_event(acl, &mut tracker);
    }
    stream.ticks[free_path as usize].finished()
}

/// Starts to find out whether a stream has finished with what was freed on it so far.
fn start_query(stream: StreamIndex) {
    let (stream, free_path) = streams::by_index(stream);
    if free_path == FreePath::Direct
        && process::may_call()
        && let Ok(acl) = acl()
    {
        stream.start_query(acl);
    }
}

/// A pool's view of all streams.
#[derive(Default)]
pub struct StreamProgress {
    /// The device was reset and the pool's memory is gone: no stream uses it any more.
    memory_gone: AtomicBool,
}

impl StreamProgress {
    /// Says whether the pool's memory is gone.
    pub fn set_memory_gone(&self, memory_gone: bool) {
        self.memory_gone.store(memory_gone, Ordering::Release);
    }
}

impl Progress for StreamProgress {
    #[inline]
    fn submitted(&self, stream: StreamIndex) -> u64 {
        let (stream, free_path) = streams::by_index(stream);
        stream.ticks[free_path as usize].now()
    }

    fn finished(&self, stream: StreamIndex) -> u64 {
        match self.memory_gone.load(Ordering::Acquire) {
            true => ALL_TICKS,
            false => finished(stream),
        }
    }

    /// ACL does not tell how a program orders streams. But the two free paths of one stream have indexes of their own:
    /// memory that was freed directly is free for tasks that come through the queue to the same stream, but not the
    /// other way round.
    fn is_ordered(&self, stream: StreamIndex, epoch: Epoch) -> bool {
        let (to, to_path) = streams::by_index(stream);
        let (from, from_path) = streams::by_index(epoch.stream);
        std::ptr::eq(to, from) && (to_path, from_path) == (FreePath::Queued, FreePath::Direct)
    }

    fn start_query(&self, stream: StreamIndex) {
        start_query(stream);
    }
}
