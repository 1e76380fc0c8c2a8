//! The event spine: everything that happens is emitted in one place, once, to whoever listens.
//!
//! ```text
//!  memory, streams, events,          Spine                  sinks
//!  allocators, graphs   ── emit ──>  one mask a kind  ──>   the text trace, npu-smi's page,
//!                                    (0: nobody, one load)  the recorder, the checker, the profiler
//! ```

pub mod debug_log;
pub mod event;
pub mod file;
mod live_communicators;
mod live_details;
pub mod live_figures;
mod mapped;
pub mod recorder;
pub mod site;
pub mod stack;
pub mod trace;

pub use cairn_record::access::{self, Access, Mode, Overlap};
pub use event::{Change, Event, Kind, SyncObject};
pub use site::Site;

use crate::clock::Clock;
use crate::error::{Code, Error, Result};
use crate::host::HostThread;
use crate::sync::atomic::{AtomicU32, Ordering};
use crate::sync::{Arc, now_ns};
use std::cell::OnceCell;
use std::sync::OnceLock;

/// How many sinks a process may have.
const SINKS: usize = 16;

/// When, on which thread and in which call of the program something happened. Looked up when a sink asks: clock and
/// site cost more than what the cheapest sinks do.
#[derive(Debug)]
pub struct Stamp {
    is_outside: bool,
    time_ns: OnceCell<u64>,
}

impl Stamp {
    fn new(is_outside: bool) -> Stamp {
        Stamp { is_outside, time_ns: OnceCell::new() }
    }

    /// Nanoseconds of the monotonic clock, the same for every sink of the event.
    pub fn time_ns(&self) -> u64 {
        *self.time_ns.get_or_init(now_ns)
    }

    /// The kernel's number of the thread.
    pub fn thread(&self) -> u64 {
        HostThread::current().number()
    }

    /// The call: what this thread is inside of, unless the event belongs to no call.
    pub fn site(&self) -> Site {
        if self.is_outside { Site::NONE } else { site::keep() }
    }
}

/// A subscriber to events.
///
/// It is called where the event happens, on the thread that made it, perhaps with locks of the engine held: it takes
/// no lock but its own, of rank `Record` or later, calls nothing of the engine but what an event borrows, and is quick.
pub trait Sink: Send + Sync {
    /// Something happened.
    fn event(&self, stamp: &Stamp, event: &Event<'_>);

    /// Writes out what it has buffered.
    fn flush(&self) {}
}

/// The place where events are emitted. One per process.
pub struct Spine {
    /// The sinks of each kind, a bit each.
    masks: [AtomicU32; Kind::COUNT],
    /// The sinks of any of the kinds that a task causes.
    of_tasks: AtomicU32,
    sinks: [OnceLock<Arc<dyn Sink>>; SINKS],
    sink_count: AtomicU32,
    subscription_version: AtomicU32,
}

/// A sink's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listener(u32);

impl Default for Spine {
    fn default() -> Spine {
        Spine {
            masks: std::array::from_fn(|_| AtomicU32::new(0)),
            of_tasks: AtomicU32::new(0),
            sinks: std::array::from_fn(|_| OnceLock::new()),
            sink_count: AtomicU32::new(0),
            subscription_version: AtomicU32::new(1),
        }
    }
}

impl Spine {
    /// Adds a sink for these kinds. It stays for the life of the process; [`Spine::listen`] may silence it.
    pub fn subscribe(&self, sink: Arc<dyn Sink>, kinds: &[Kind]) -> Result<Listener> {
        let number = self.sink_count.fetch_add(1, Ordering::AcqRel);
        let slot = self.sinks.get(number as usize).ok_or_else(|| {
            self.sink_count.fetch_sub(1, Ordering::AcqRel);
            Error::new(Code::RtInternal, format!("{SINKS} sinks listen already"))
        })?;
        assert!(slot.set(sink).is_ok(), "a slot is taken once");
        let listener = Listener(number);
        self.listen(listener, kinds);
        Ok(listener)
    }

    /// From now on a sink gets these kinds and no others.
    pub fn listen(&self, listener: Listener, kinds: &[Kind]) {
        let bit = 1 << listener.0;
        let set_bit = |mask: &AtomicU32, is_on: bool| match is_on {
            true => mask.fetch_or(bit, Ordering::AcqRel),
            false => mask.fetch_and(!bit, Ordering::AcqRel),
        };
        let set = |kind: Kind| set_bit(&self.masks[kind as usize], kinds.contains(&kind));
        set_bit(&self.of_tasks, kinds.iter().any(|kind| Kind::OF_TASKS.contains(kind)));
        Kind::ALL.into_iter().filter(|kind| *kind != Kind::Run).for_each(|kind| _ = set(kind));
        // No listener gets a run before the version says that its plan has to be emitted again.
        self.subscription_version.fetch_add(1, Ordering::AcqRel);
        set(Kind::Run);
    }

    /// Changes, never to 0, whenever a sink subscribes or changes its kinds. What is emitted once for many events
    /// (the plan of a graph) is emitted again when this has changed, so that later listeners get it too.
    pub fn subscription_version(&self) -> u32 {
        self.subscription_version.load(Ordering::Acquire)
    }

    /// True if somebody listens to this kind.
    #[inline]
    pub fn has_listener(&self, kind: Kind) -> bool {
        self.masks[kind as usize].load(Ordering::Relaxed) != 0
    }

    /// True if somebody listens to what becomes of tasks ([`Kind::OF_TASKS`]).
    #[inline]
    pub fn has_listener_of_tasks(&self) -> bool {
        self.of_tasks.load(Ordering::Relaxed) != 0
    }

    /// Emits what `event` makes, if somebody listens to its kind.
    #[inline]
    pub fn emit<'a>(&self, kind: Kind, event: impl FnOnce() -> Event<'a>) {
        if self.has_listener(kind) {
            self.emit_to(Stamp::new(false), &event());
        }
    }

    /// Emits an event that belongs to no call of the program, whatever call this thread is inside of.
    #[cold]
    pub fn emit_outside(&self, event: &Event<'_>) {
        self.emit_to(Stamp::new(true), event);
    }

    fn emit_to(&self, stamp: Stamp, event: &Event<'_>) {
        let mut mask = self.masks[event.kind() as usize].load(Ordering::Acquire);
        while mask != 0 {
            let number = mask.trailing_zeros();
            mask &= mask - 1;
            if let Some(sink) = self.sinks[number as usize].get() {
                sink.event(&stamp, event);
            }
        }
    }

    /// The time at which a wait of the program begins, for [`Spine::emit_synchronize`]; 0, without a look at the clock, where
    /// nobody listens.
    #[inline]
    pub fn begin_wait(&self) -> u64 {
        if self.has_listener(Kind::Synchronize) { now_ns() } else { 0 }
    }

    /// Emits that the program waited for something since `began_ns` (0: it is not known since when): it now knows this to
    /// be finished.
    pub fn emit_synchronize(&self, what: SyncObject, began_ns: u64, known: &Clock) {
        self.emit(Kind::Synchronize, || {
            let began_ns = if began_ns == 0 { now_ns() } else { began_ns };
            Event::Synchronize { what, known, began_ns }
        });
    }

    /// Emits that a query of the program was answered "complete": it may rely on what `known` returns being finished.
    pub fn emit_complete(&self, what: SyncObject, known: impl FnOnce() -> Clock) {
        if self.has_listener(Kind::Complete) {
            let known = known();
            self.emit(Kind::Complete, || Event::Complete { what, known: &known });
        }
    }

    /// Lets every sink write out what it has buffered.
    pub fn flush(&self) {
        self.sinks.iter().filter_map(OnceLock::get).for_each(|sink| sink.flush());
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[derive(Default)]
    struct EventLog(Mutex<Vec<(Kind, &'static str)>>);

    impl Sink for EventLog {
        fn event(&self, stamp: &Stamp, event: &Event<'_>) {
            self.0.lock().unwrap().push((event.kind(), stamp.site().entry));
        }
    }

    #[test]
    fn a_sink_gets_its_kinds_with_the_site_of_the_call() {
        let spine = Spine::default();
        let start = || Event::Start { stream: 1, seq: 1 };
        spine.emit(Kind::Start, || panic!("nobody listens, so nobody makes the event"));
        let log = Arc::new(EventLog::default());
        let listener = spine.subscribe(log.clone(), &[Kind::Start]).unwrap();
        site::enter("outer", || {
            site::enter("inner", || spine.emit(Kind::Start, start));
            spine.emit(Kind::Start, start);
        });
        spine.emit(Kind::Touch, || panic!("no such kind is listened to"));
        spine.listen(listener, &[]);
        spine.emit(Kind::Start, || panic!("silenced"));
        let expected = [(Kind::Start, "inner"), (Kind::Start, "outer")];
        assert_eq!(*log.0.lock().unwrap(), expected);
    }

    #[test]
    fn a_kept_site_keeps_its_thread() {
        let kept = site::enter("first", site::keep);
        assert_eq!(kept.thread, HostThread::current().number());
        let other = std::thread::spawn(move || {
            site::enter("second", || site::with_site(kept, site::current))
        });
        assert_eq!(other.join().unwrap(), kept);
        assert_eq!((site::current(), site::keep()), (Site::NONE, Site::NONE));
    }

    #[test]
    fn the_version_changes_with_each_subscription() {
        let spine = Spine::default();
        let before = spine.subscription_version();
        let listener = spine.subscribe(Arc::new(EventLog::default()), &[Kind::Load]).unwrap();
        let between = spine.subscription_version();
        spine.listen(listener, &[Kind::Run]);
        assert!(before != between && between != spine.subscription_version());
    }

    #[test]
    fn kinds_are_numbered_in_the_order_of_the_list() {
        for (index, kind) in Kind::ALL.iter().enumerate() {
            assert_eq!(*kind as usize, index);
        }
    }

    #[test]
    fn one_sink_too_many_is_refused() {
        let spine = Spine::default();
        for _ in 0..SINKS {
            spine.subscribe(Arc::new(EventLog::default()), &[]).unwrap();
        }
        assert!(spine.subscribe(Arc::new(EventLog::default()), &[Kind::Start]).is_err());
        assert!(!spine.has_listener(Kind::Start));
    }
}
