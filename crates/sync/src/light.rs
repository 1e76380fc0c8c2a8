//! A raw mutex whose unlock is a plain store.
//!
//! A mutex that sleeps has to learn at its unlock whether somebody waits. Others put both facts into one word, which costs
//! an atomic read and write at the unlock, as much as the lock itself. Here they are two words:
//!
//! ```text
//!  unlock                          wait, after some spinning
//!  held = 0           (1)          asleep = 1               (4)
//!  asleep == 0 ?      (2)          membarrier               (5)   every thread of the process passes a barrier
//!  asleep = 0, wake   (3)          take it, or
//!                                  sleep while asleep is 1  (6)
//! ```
//!
//! A processor may do (2) before others see (1). If it passes the barrier (5) before (2), it sees (4) and wakes the waiter;
//! if after, then (1) has been visible since the barrier, and the waiter takes the lock. So the thread that waits pays for the
//! barrier (some microseconds), and the one that unlocks pays nothing. `asleep` is 0 from the wake until the woken thread runs:
//! unlocks in between wake nobody again. Who took the lock after it slept sets `asleep`, as others may still sleep.
//! Where the kernel has no such barrier a waiter looks again every millisecond.
//!
//! `tests/light.rs` goes through every order in which these steps can happen, with stores that others see late.

use parking_lot::lock_api::{GuardNoSend, RawMutex};
use rustix::thread::{MembarrierCommand, futex, membarrier};
use std::hint::spin_loop;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering, compiler_fence};
use std::time::Duration;

/// Looks at the lock before a waiter sleeps; what a lane does under it takes tens of nanoseconds.
const SPINS: u32 = 100;
/// How long a waiter sleeps at most where there is no barrier.
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// The lock: see the module. Not fair: whoever comes first gets it, a waiter or not.
pub(crate) struct RawLight {
    held: AtomicU32,
    /// 1 if somebody may sleep whom nobody has woken.
    asleep: AtomicU32,
}

// SAFETY: `held` goes from 0 to 1 in one atomic step, for one thread at a time, and back to 0 by `unlock` alone.
unsafe impl RawMutex for RawLight {
    #[allow(clippy::declare_interior_mutable_const, reason = "how lock_api makes a mutex")]
    const INIT: RawLight = RawLight { held: AtomicU32::new(0), asleep: AtomicU32::new(0) };

    type Guard = GuardNoSend;

    #[inline]
    fn lock(&self) -> GuardNoSend {
        if !self.take() {
            self.take_slowly();
        }
        GuardNoSend::default()
    }

    #[inline]
    fn try_lock(&self) -> Option<GuardNoSend> {
        self.take().then(GuardNoSend::default)
    }

    #[inline]
    unsafe fn unlock(&self, _: GuardNoSend) {
        self.held.store(0, Ordering::Release);
        compiler_fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::Relaxed) != 0 {
            self.wake();
        }
    }

    fn is_locked(&self) -> bool {
        self.held.load(Ordering::Relaxed) != 0
    }
}

impl RawLight {
    #[inline]
    fn take(&self) -> bool {
        self.held.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    #[cold]
    fn take_slowly(&self) {
        for _ in 0..SPINS {
            spin_loop();
            if self.held.load(Ordering::Relaxed) == 0 && self.take() {
                return;
            }
        }
        loop {
            self.asleep.store(1, Ordering::SeqCst);
            let limit = if barrier() { None } else { LOOK_AGAIN.try_into().ok() };
            if self.take() {
                return;
            }
            // Woken, interrupted, too late to sleep: the lock says what is the case.
            let _ = futex::wait(&self.asleep, futex::Flags::PRIVATE, 1, limit.as_ref());
        }
    }

    #[cold]
    fn wake(&self) {
        self.asleep.store(0, Ordering::SeqCst);
        // It only fails for an address that is none.
        let _ = futex::wake(&self.asleep, futex::Flags::PRIVATE, 1);
    }
}

/// Lets every thread of the process that runs pass a barrier. False if the kernel cannot.
fn barrier() -> bool {
    static REGISTERED: OnceLock<bool> = OnceLock::new();
    let registered = || membarrier(MembarrierCommand::RegisterPrivateExpedited).is_ok();
    *REGISTERED.get_or_init(registered) && membarrier(MembarrierCommand::PrivateExpedited).is_ok()
}
