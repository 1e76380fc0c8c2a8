//! The threads that share one kernel: whoever runs the task, and workers that have nothing else to do.

use crate::cores;
use crate::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use crate::sync::{spin_loop, thread};
use std::panic::{AssertUnwindSafe, catch_unwind};

// Bits of `Parallel::state`.
const TAKEN: usize = 1;
const OPEN: usize = 2;
/// One helper; the bits from here on count them.
const HELPER: usize = 4;

/// A place where one kernel at a time offers its parts to idle workers.
///
/// Whoever offers works through the parts itself and never waits for help to come; it only waits for
/// helpers that are inside a part. A second kernel that comes meanwhile runs alone. Parts are the same
/// either way, so results do not depend on who was free.
#[derive(Default)]
pub struct Parallel {
    /// [`TAKEN`] by a kernel, [`OPEN`] to helpers, and [`HELPER`] times those inside.
    state: AtomicUsize,
    /// The address of the [`ParallelJob`] while a kernel has this.
    job: AtomicUsize,
    /// How many helpers may be inside at once.
    max_helpers: AtomicUsize,
}

/// A kernel, and the number of its next part.
struct ParallelJob<'a> {
    body: &'a (dyn Fn(usize) + Sync),
    parts: usize,
    next: AtomicUsize,
    panicked: AtomicBool,
    /// The core of the thread that offers.
    core: usize,
}

impl ParallelJob<'_> {
    /// Takes parts until none is left.
    fn work(&self) {
        loop {
            let part = self.next.fetch_add(1, Ordering::Relaxed);
            if part >= self.parts {
                return;
            }
            if catch_unwind(AssertUnwindSafe(|| (self.body)(part))).is_err() {
                self.panicked.store(true, Ordering::Relaxed);
            }
        }
    }
}

impl Parallel {
    /// Calls `body` once for each number below `parts`, on this thread and on at most `helpers` idle workers; `wake`
    /// wakes them. Returns when all parts are done.
    ///
    /// # Panics
    /// If `body` did.
    pub fn run(
        &self,
        parts: usize,
        helpers: usize,
        body: &(dyn Fn(usize) + Sync),
        wake: impl FnOnce(),
    ) {
        let is_shared = parts > 1
            && helpers > 0
            && self.state.compare_exchange(0, TAKEN, Ordering::Acquire, Ordering::Relaxed).is_ok();
        if !is_shared {
            return (0..parts).for_each(body);
        }
        let (next, panicked) = (AtomicUsize::new(0), AtomicBool::new(false));
        let job = ParallelJob { body, parts, next, panicked, core: cores::current() };
        self.max_helpers.store(helpers, Ordering::Relaxed);
        self.job.store(std::ptr::from_ref(&job) as usize, Ordering::Relaxed);
        self.state.store(TAKEN | OPEN, Ordering::SeqCst);
        wake();
        job.work();
        self.state.fetch_and(!OPEN, Ordering::AcqRel);
        let mut rounds = 0u32;
        while self.state.load(Ordering::Acquire) != TAKEN {
            rounds += 1;
            if rounds.is_multiple_of(512) {
                thread::yield_now();
            }
            spin_loop();
        }
        self.state.store(0, Ordering::Release);
        assert!(!job.panicked.load(Ordering::Relaxed), "a part of a kernel panicked");
    }

    /// Whether a kernel offers parts to one more helper.
    pub fn has_work(&self) -> bool {
        self.takes_helper(self.state.load(Ordering::SeqCst))
    }

    fn takes_helper(&self, state: usize) -> bool {
        state & OPEN != 0 && state / HELPER < self.max_helpers.load(Ordering::Relaxed)
    }

    /// Works through parts that a kernel offers, if one does. True if it did.
    pub fn help(&self) -> bool {
        let mut state = self.state.load(Ordering::Acquire);
        loop {
            if !self.takes_helper(state) {
                return false;
            }
            let (success, failure) = (Ordering::Acquire, Ordering::Acquire);
            match self.state.compare_exchange_weak(state, state + HELPER, success, failure) {
                Ok(_) => break,
                Err(current) => state = current,
            }
        }
        let job = self.job.load(Ordering::Relaxed) as *const ParallelJob<'_>;
        // SAFETY: the kernel keeps its job until the helpers counted in `state` have left.
        let job = unsafe { &*job };
        cores::move_off(job.core);
        job.work();
        self.state.fetch_sub(HELPER, Ordering::Release);
        true
    }
}
