//! How far streams have come, learned from ACL without waiting.
//!
//! ```text
//!  frees     f f   f       f f          each carries the tick that it happened in
//!  tick    1 1 1 1 1 | 2 2 2 2 | 3
//!  proofs            E1        E2       an event after everything that was submitted
//!                                       before the tick went up: once it is complete, tick 1
//!                                       is finished
//! ```
//!
//! A proof is begun only when another stream would like the memory ([`Progress::prove`]), and one at a
//! time for a stream. A stream that is idle needs no event. Frees through a caller's queue
//! ([`FreePath::Queued`]) are proven finished only by the program's call, [`on_synchronize`].

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

    /// Ends the tick and gives its number.
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

/// Every tick that ever comes: of a stream that is gone, and done. Set and reset under the lock of
/// the stream's tracker.
const FOR_EVER: u64 = u64::MAX;

/// What is known of a stream besides its handle, and the event that is under way.
pub struct CompletionTracker {
    /// The stream's context; null when nothing may be asked of the stream.
    context: Handle,
    ending: bool,
    event: Handle,
    event_context: Handle,
    /// The tick that the event proves; 0 when none is under way.
    tick: u64,
}

// SAFETY: handles of ACL may be used by any thread.
unsafe impl Send for CompletionTracker {}

impl Default for CompletionTracker {
    /// Of a stream that nothing may be asked of.
    fn default() -> CompletionTracker {
        let nothing = null_mut();
        CompletionTracker {
            context: nothing,
            ending: false,
            event: nothing,
            event_context: nothing,
            tick: 0,
        }
    }
}

impl CompletionTracker {
    /// Of a live stream of this context.
    pub fn of(context: Handle) -> CompletionTracker {
        CompletionTracker { context, ..CompletionTracker::default() }
    }

    /// False if only the program can know when the stream is done: nothing may be asked of it, or it is
    /// gone and no event was recorded in time.
    fn is_possible(&self) -> bool {
        !self.context.is_null() && (!self.ending || self.tick != 0)
    }

    /// Begins with a new stream. The event of the one before is kept for it.
    pub fn begin(&mut self, new: CompletionTracker) {
        let (event, event_context) = (self.event, self.event_context);
        *self = CompletionTracker { event, event_context, ..new };
    }
}

impl StreamSlot {
    /// Begins to prove that what was freed so far is done, unless that is under way.
    fn start_query(&self, acl: &Acl) {
        let mut tracker = self.tracker.lock();
        if !tracker.ending {
            self.poll_event(acl, &mut tracker);
            self.query_or_record(acl, &mut tracker);
        }
    }

    /// Begins the last proof of a stream that is about to be destroyed.
    pub(crate) fn start_last_query(&self, acl: &Acl) {
        let mut tracker = self.tracker.lock();
        (tracker.ending, tracker.tick) = (true, 0);
        if process::may_call() {
            self.query_or_record(acl, &mut tracker);
        }
    }

    /// True for a stream that is, or is about to be, destroyed.
    pub fn is_ending(&self) -> bool {
        self.tracker.lock().ending
    }

    /// True if the stream is gone and everything that was freed by this path is done.
    pub fn is_over(&self, free_path: FreePath) -> bool {
        finished(self.index(free_path)) == FOR_EVER
    }

    /// The stream is gone: the next one here begins where it stopped.
    pub(crate) fn reuse_ticks(&self) {
        let mut tracker = self.tracker.lock();
        tracker.begin(CompletionTracker::default());
        self.has_event.store(false, Ordering::Release);
        for ticks in &self.ticks {
            if ticks.finished() == FOR_EVER {
                ticks.finished.store(ticks.end_tick(), Ordering::Release);
            }
        }
    }

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
            ticks.finish(if tracker.ending { FOR_EVER } else { tick });
        } else if record(acl, tracker, self.handle()) {
            tracker.tick = tick;
            self.has_event.store(true, Ordering::Release);
        }
    }

    /// The context cannot be entered. If that is because it is no more, neither is the stream: a default
    /// stream ends without being announced, with its context, which waits for it.
    fn lose_context(&self, tracker: &mut CompletionTracker, code: acl::Code) {
        tracker.context = null_mut();
        if acl::NO_SUCH_CONTEXT.contains(&code) {
            tracker.ending = true;
            self.unregister();
            self.ticks[FreePath::Direct as usize].finish(FOR_EVER);
        }
    }

    /// Sees whether the event under way is complete.
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
                FOR_EVER
            } else {
                tick
            });
            self.has_event.store(false, Ordering::Release);
        }
    }
}

/// True for a stream that is being captured into a graph: it must not be asked anything.
pub fn is_captured(acl: &Acl, stream: Handle) -> bool {
    let Some(info) = acl.aclmdlRICaptureGetInfo else { return false };
    let (mut status, mut model) = (0, null_mut());
    // SAFETY: the caller has a live stream, and the results go to places of ours.
    unsafe { info(stream, &mut status, &mut model) == 0 && status != 0 }
}

/// Whether a stream has nothing left to do; the code if ACL does not say. In the stream's context.
pub fn is_idle(acl: &Acl, stream: Handle) -> Result<bool, acl::Code> {
    let Some(query) = acl.aclrtStreamQuery else { return Ok(false) };
    let mut status = u32::MAX;
    // SAFETY: the caller has a live stream, and the status goes to a place of ours.
    match unsafe { query(stream, &mut status) } {
        0 => Ok(status == acl::STREAM_COMPLETE),
        code => Err(code),
    }
}

/// Records the stream's event, which is made on first use. In the stream's context.
fn record(acl: &Acl, tracker: &mut CompletionTracker, stream: Handle) -> bool {
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
        let make = acl.aclrtCreateEventExWithFlag.or(acl.aclrtCreateEventWithFlag);
        let Some(make) = make else { return false };
        // SAFETY: the handle goes to a place of ours.
        if unsafe { make(&mut tracker.event, acl::STREAM_PROGRESS) } != 0 {
            tracker.event = null_mut();
            return false;
        }
        tracker.event_context = tracker.context;
    }
    // SAFETY: the event is ours; the stream is live: its end is announced under the same lock.
    acl.aclrtRecordEvent.is_some_and(|record| unsafe { record(tracker.event, stream) } == 0)
}

/// Everything that was freed on the device so far is done: the program waited for it.
pub fn on_synchronize(device: i32) {
    for stream in streams::of_device(device) {
        let tracker = stream.tracker.lock();
        for ticks in &stream.ticks {
            let tick = ticks.end_tick();
            ticks.finish(if tracker.ending { FOR_EVER } else { tick });
        }
    }
}

/// The device was reset: its streams and events are no more, and nothing may be asked of them.
pub fn forget(device: i32) {
    for stream in streams::of_device(device) {
        *stream.tracker.lock() = CompletionTracker::default();
        stream.vacate(stream.id());
    }
}

/// Begins a proof for every stream of a device.
pub fn prove_all(device: i32) {
    streams::of_device(device).for_each(|s| prove(s.index(FreePath::Direct)));
}

/// Waits until one more of the clock's points is done. False if that takes until `end`, or if only the
/// program can know.
pub fn wait(clock: &Clock, end: Instant) -> bool {
    let is_open = |mark: &Epoch| finished(mark.stream) < mark.seq;
    let open: Vec<Epoch> = clock.epochs().iter().copied().filter(is_open).collect();
    let mut pause = Duration::from_micros(20);
    while Instant::now() < end && process::may_call() {
        if !open.iter().all(is_open) || open.is_empty() {
            return true;
        }
        let provable = |mark: &&Epoch| {
            let (stream, free_path) = streams::by_index(mark.stream);
            free_path == FreePath::Direct && stream.tracker.lock().is_possible()
        };
        let asked = open.iter().filter(provable).map(|mark| prove(mark.stream)).count();
        if asked == 0 {
            return false;
        }
        std::thread::sleep(pause);
        pause = (2 * pause).min(Duration::from_millis(1));
    }
    false
}

/// How far a stream has come.
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

/// Begins to prove what was freed on a stream so far.
fn prove(stream: StreamIndex) {
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
    /// The pool's memory is gone: whatever used it is done.
    over: AtomicBool,
}

impl StreamProgress {
    /// Says whether the pool's memory is gone.
    pub fn set_over(&self, over: bool) {
        self.over.store(over, Ordering::Release);
    }
}

impl Progress for StreamProgress {
    #[inline]
    fn submitted(&self, stream: StreamIndex) -> u64 {
        let (stream, free_path) = streams::by_index(stream);
        stream.ticks[free_path as usize].now()
    }

    fn finished(&self, stream: StreamIndex) -> u64 {
        match self.over.load(Ordering::Acquire) {
            true => FOR_EVER,
            false => finished(stream),
        }
    }

    /// ACL does not say what a program ordered. But what is put on a stream runs after what was on it:
    /// so a block freed after its last task may go through the queue to the same stream, though not
    /// the other way round.
    fn is_ordered(&self, on: StreamIndex, epoch: Epoch) -> bool {
        let ((to, free_path), (from, freed)) =
            (streams::by_index(on), streams::by_index(epoch.stream));
        std::ptr::eq(to, from) && (free_path, freed) == (FreePath::Queued, FreePath::Direct)
    }

    fn prove(&self, stream: StreamIndex) {
        prove(stream);
    }
}
