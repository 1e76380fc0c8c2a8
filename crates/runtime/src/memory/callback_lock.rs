//! The callback lock of a user's allocator. Users' pools are not thread safe, so calls into one are made
//! one thread at a time; the thread that is inside may come again, because a callback may call ACL.
//!
//! ```text
//!  thread 1 ── pass ──> alloc ── aclrtMalloc, an execution, ... ──> pass again: at once
//!  thread 2 ── pass ──> waits its turn, first come, first served; after some seconds it logs who is inside
//! ```
//!
//! A pool may wait in its alloc until another thread gives a block back, and on CANN nothing would hold that free back:
//! a free that has waited a while for an alloc to return is let in beside it, with a line in the log. Each time that
//! happens, later frees of the same allocator wait half as long, so that such a pool does not become too slow.

use super::external::UserCall;
use crate::clock::StreamIndex;
use crate::host::HostThread;
use crate::lock::{Condvar, Mutex, MutexGuard, Rank};
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{self, Arc, Weak, now_ns};
use crate::worker::Scheduler;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

/// A call that a thread makes under a callback lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Visit {
    /// The user's object.
    pub object: usize,
    /// Which function, with its arguments.
    pub request: UserCall,
    /// The stream that it is for.
    pub stream: Option<StreamIndex>,
}

impl fmt::Display for Visit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of the allocator {:#x}", self.request, self.object)?;
        match self.stream {
            Some(stream) => write!(f, " for stream {stream}"),
            None => Ok(()),
        }
    }
}

/// Lets one thread in at a time, first come, first served; the thread that is inside may enter again. No lock of the
/// engine is held while a thread is inside.
pub struct CallbackLock {
    state: Mutex<State>,
    changed: Condvar,
    limits: Limits,
}

/// How long calls into an allocator may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// After this a wait, or a callback that does not return, is logged.
    pub log: Duration,
    /// After this a free is let in beside an alloc that does not return.
    pub free: Duration,
}

/// How often the wait of frees is halved at most.
const HALVINGS: u32 = 8;

impl Limits {
    /// How long a free waits for an alloc of an allocator of which this many were let in before.
    fn free_after(&self, let_in: u32) -> Duration {
        self.free / (1 << let_in.min(HALVINGS))
    }
}

#[derive(Default)]
struct State {
    owner: Option<&'static HostThread>,
    /// The calls of the owner, the innermost last.
    visits: Vec<ActiveVisit>,
    /// Threads that were let in beside the owner, once for each visit.
    guests: Vec<&'static HostThread>,
    /// The next ticket.
    next: u64,
    /// The ticket whose turn it is.
    serving: u64,
    /// Tickets whose holders were let in before their turn.
    passed_over: BTreeSet<u64>,
    /// How many were let in before their turn so far.
    let_in: u32,
}

struct ActiveVisit {
    visit: Visit,
    since: u64,
    is_logged: bool,
}

impl State {
    fn is_owner(&self, thread: &'static HostThread) -> bool {
        self.owner.is_some_and(|owner| std::ptr::eq(owner, thread))
    }

    /// The index of a thread among the guests.
    fn guest(&self, thread: &'static HostThread) -> Option<usize> {
        self.guests.iter().position(|guest| std::ptr::eq(*guest, thread))
    }

    /// Whether the owner is in an alloc: it may wait there for a block to come back.
    fn is_in_alloc(&self) -> bool {
        let last = self.visits.last().map(|active| active.visit.request);
        matches!(last, Some(UserCall::Alloc(_) | UserCall::Advise(..)))
    }

    fn begin(&mut self, visit: Visit) {
        self.visits.push(ActiveVisit { visit, since: now_ns(), is_logged: false });
    }

    /// What the owner does, for a log line.
    fn describe_owner(&self) -> String {
        match (self.owner, self.visits.last()) {
            (Some(owner), Some(active)) => format!(
                "thread {} is inside, in {} for {}",
                owner.number(),
                active.visit,
                seconds(now_ns() - active.since)
            ),
            _ => "nobody is inside".into(),
        }
    }
}

impl CallbackLock {
    /// A callback lock that nobody holds.
    pub fn new(limits: Limits) -> CallbackLock {
        CallbackLock {
            state: Mutex::new(Rank::CallbackLock, State::default()),
            changed: Condvar::new(),
            limits,
        }
    }

    /// Waits until no other thread is inside, then runs `inside`. A free waits no longer than its limit for an alloc.
    pub fn pass<T>(&self, visit: Visit, inside: impl FnOnce() -> T) -> T {
        self.enter(visit);
        let _guard = LeaveGuard(self);
        inside()
    }

    fn enter(&self, visit: Visit) {
        let thread = HostThread::current();
        let mut state = self.state.lock();
        if state.guest(thread).is_some() {
            state.guests.push(thread);
            return;
        }
        if !state.is_owner(thread) {
            let ticket = state.next;
            state.next += 1;
            if state.serving != ticket {
                state = self.wait(state, ticket, thread, &visit);
                if state.serving != ticket {
                    state.passed_over.insert(ticket);
                    state.guests.push(thread);
                    return;
                }
            }
            state.owner = Some(thread);
        }
        state.begin(visit);
        if state.visits.len() > 1 && state.is_in_alloc() && state.next - state.serving > 1 {
            // A free that waits counts its time against this alloc now.
            drop(state);
            self.changed.notify_all();
        }
    }

    /// Waits for a turn, or until a free may go before its turn.
    fn wait<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        ticket: u64,
        thread: &HostThread,
        visit: &Visit,
    ) -> MutexGuard<'a, State> {
        let arrived = now_ns();
        let mut log_after = self.limits.log;
        let is_free = matches!(visit.request, UserCall::Free(_));
        while state.serving != ticket {
            let waited = Duration::from_nanos(now_ns() - arrived);
            let mut left = log_after.saturating_sub(waited);
            if sync::REAL_TIME && is_free && state.is_in_alloc() {
                let alloc_since =
                    state.visits.last().map_or(arrived, |active| active.since.max(arrived));
                let waited_for_alloc = Duration::from_nanos(now_ns().saturating_sub(alloc_since));
                let free_left =
                    self.limits.free_after(state.let_in).saturating_sub(waited_for_alloc);
                if free_left.is_zero() {
                    if state.let_in < HALVINGS {
                        log_let_in(visit, thread, &state, waited);
                    }
                    state.let_in = state.let_in.saturating_add(1);
                    return state;
                }
                left = left.min(free_left);
            }
            if sync::REAL_TIME && left.is_zero() {
                let owner = state.describe_owner();
                drop(state);
                log::warn!(
                    "thread {} has waited {} for its turn with {visit}: {owner}. \
                     Calls into one allocator are made one at a time",
                    thread.number(),
                    seconds(waited.as_nanos() as u64)
                );
                log_after = log_after.saturating_mul(2);
                state = self.state.lock();
                continue;
            }
            self.changed.wait_for(&mut state, left);
        }
        state
    }

    fn leave(&self) {
        let mut state = self.state.lock();
        if let Some(index) = state.guest(HostThread::current()) {
            state.guests.swap_remove(index);
            return;
        }
        state.visits.pop();
        if state.visits.is_empty() {
            self.hand_over(state);
        } else if state.is_in_alloc() {
            // A free that waits may count its time against this alloc now.
            drop(state);
            self.changed.notify_all();
        }
    }

    /// Lets the next thread in.
    fn hand_over(&self, mut state: MutexGuard<'_, State>) {
        state.owner = None;
        state.serving += 1;
        while state.passed_over.first() == Some(&state.serving) {
            state.passed_over.pop_first();
            state.serving += 1;
        }
        let has_waiters = state.next != state.serving;
        drop(state);
        if has_waiters {
            self.changed.notify_all();
        }
    }

    /// The calling thread will never leave: if it is inside, the next one may enter.
    fn abandon(&self) {
        let mut state = self.state.lock();
        let thread = HostThread::current();
        state.guests.retain(|guest| !std::ptr::eq(*guest, thread));
        if state.is_owner(thread) {
            state.visits.clear();
            self.hand_over(state);
        }
    }

    /// True while a thread is inside. Logs, once, a callback that has been running for longer than the limit.
    fn check(&self) -> bool {
        let mut state = self.state.lock();
        let limit = self.limits.log.as_nanos() as u64;
        let (owner, is_held) = (state.describe_owner(), state.owner.is_some());
        let is_overdue = state.visits.last_mut().is_some_and(|b| {
            now_ns() - b.since >= limit && !std::mem::replace(&mut b.is_logged, true)
        });
        drop(state);
        if is_overdue {
            log::warn!("a user callback does not return: {owner}");
        }
        is_held
    }
}

/// Leaves when dropped.
struct LeaveGuard<'a>(&'a CallbackLock);

impl Drop for LeaveGuard<'_> {
    fn drop(&mut self) {
        self.0.leave();
    }
}

/// The callback locks of a process, one for each object of a user, whatever callbacks and streams it is
/// registered with: the object is the pool that is not thread safe.
///
/// While callbacks run, a worker checks now and then whether one of them has been running for too
/// long. That costs a callback one atomic load.
pub struct CallbackLocks {
    all: Mutex<BTreeMap<usize, Weak<CallbackLock>>>,
    has_monitor: AtomicBool,
    limits: Limits,
    scheduler: Arc<Scheduler>,
}

impl CallbackLocks {
    /// No lock yet.
    pub fn new(limits: Limits, scheduler: Arc<Scheduler>) -> Arc<CallbackLocks> {
        Arc::new(CallbackLocks {
            all: Mutex::new(Rank::CallbackLock, BTreeMap::new()),
            has_monitor: AtomicBool::new(false),
            limits,
            scheduler,
        })
    }

    /// The callback lock of the user's object.
    pub fn for_object(&self, object: usize) -> Arc<CallbackLock> {
        let mut all = self.all.lock();
        if let Some(existing) = all.get(&object).and_then(Weak::upgrade) {
            return existing;
        }
        all.retain(|_, lock| lock.strong_count() > 0);
        let new = Arc::new(CallbackLock::new(self.limits));
        all.insert(object, Arc::downgrade(&new));
        new
    }

    /// Called before a callback: a worker checks later whether it has returned.
    pub fn start_monitor(self: &Arc<CallbackLocks>) {
        if !sync::REAL_TIME
            || self.has_monitor.load(Ordering::Relaxed)
            || self.has_monitor.swap(true, Ordering::SeqCst)
        {
            return;
        }
        let locks = Arc::downgrade(self);
        self.scheduler.call_at(now_ns() + self.limits.log.as_nanos() as u64, move || {
            if let Some(locks) = locks.upgrade() {
                locks.check();
            }
        });
    }

    fn check(self: &Arc<CallbackLocks>) {
        self.has_monitor.store(false, Ordering::SeqCst);
        let all: Vec<_> = self.all.lock().values().filter_map(Weak::upgrade).collect();
        if all.iter().filter(|lock| lock.check()).count() > 0 {
            self.start_monitor();
        }
    }

    /// The calling thread will never return from the callbacks that it is in.
    pub fn abandon(&self) {
        let all: Vec<_> = self.all.lock().values().filter_map(Weak::upgrade).collect();
        all.iter().for_each(|lock| lock.abandon());
    }
}

/// Logs that a free is let in; as an error, because warnings are not logged by default.
fn log_let_in(visit: &Visit, thread: &HostThread, state: &State, waited: Duration) {
    log::error!(
        "{visit} is let in on thread {} although the allocator is busy ({}): after {} its alloc may be waiting for this very block. \
         On an NPU nothing serialises these calls; a pool for several threads needs a lock of its own{}",
        thread.number(),
        state.describe_owner(),
        seconds(waited.as_nanos() as u64),
        if state.let_in + 1 == HALVINGS {
            ". This happens again and again, and is not logged any more"
        } else {
            ""
        }
    );
}

fn seconds(ns: u64) -> String {
    format!("{:.3} s", ns as f64 / 1e9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_of_frees_halves_each_time_one_is_let_in() {
        let limits = Limits { log: Duration::MAX, free: Duration::from_millis(1024) };
        let waits: Vec<_> = (0..12).map(|n| limits.free_after(n).as_millis()).collect();
        assert_eq!(waits, [1024, 512, 256, 128, 64, 32, 16, 8, 4, 4, 4, 4]);
    }
}
