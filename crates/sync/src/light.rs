//! A raw mutex that belongs to a thread until another one wants it: until then neither lock nor unlock is an atomic step of the
//! processor, which costs as much as a search for a block. Later the lock is one, and the unlock a plain store.
//!
//! ```text
//!  owner:   nobody ──first lock──> a thread ──another one wants it──> ending ──not inside──> shared
//!
//!  lock by the owner           end of the ownership, by any other      lock, when it is shared
//!  inside = 1         (1)      owner = ending        (3)               held: 0 -> 1
//!  owner == me ?      (2)      membarrier            (4)
//!                              inside == 0 ? shared  (5)
//!
//!  unlock                      wait, after some spinning
//!  inside or held = 0 (6)      asleep = 1            (9)
//!  asleep == 0 ?      (7)      membarrier            (10)
//!  asleep = 0, wake   (8)      take it, or
//!                              sleep while asleep is 1  (11)
//! ```
//!
//! A processor may do (2) before others see (1), and (7) before they see (6). A membarrier makes every thread of the process pass a
//! barrier. If the owner passes (4) after (2), then (1) is visible at (5), and the ownership goes on until the owner leaves;
//! if before, (2) sees (3). If whoever unlocks passes (10) before (7), it sees (9) and wakes the waiter; if after, then (6) has
//! been visible since (10), and the waiter takes the lock. So whoever has to wait pays for the barriers (some microseconds), and
//! nobody else. `asleep` is 0 from the wake until the woken thread runs: unlocks in between wake nobody again. Who took the lock
//! after it slept leaves `asleep` set, as others may still sleep. Where the kernel has no such barrier the mutex is shared
//! from the beginning, and a waiter looks again every millisecond.
//!
//! `tests/light_model.rs` goes through every order in which these steps can happen, with stores that others see late.

use parking_lot::lock_api::{GuardNoSend, RawMutex};
use rustix::thread::{MembarrierCommand, futex, membarrier};
use std::hint::spin_loop;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering, compiler_fence};
use std::time::Duration;

/// Looks at the lock before a waiter sleeps; what a lane does under it takes tens of nanoseconds.
const SPINS: u32 = 100;
/// How long a waiter sleeps at most where there is no barrier.
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// No thread has locked it yet.
const NOBODY: usize = 0;
/// A thread that is not the owner wants it: the owner locks it no more as such.
const ENDING: usize = 1;
/// It belongs to no thread.
const SHARED: usize = 2;

/// The lock: see the module. Not fair: whoever comes first gets it, a waiter or not.
pub(crate) struct RawLight {
    /// A number of a thread, or one of those above.
    owner: AtomicUsize,
    /// 1 while the owner holds it as such, and for a moment when it tries to.
    inside: AtomicU32,
    /// 1 while somebody holds it when it is shared.
    held: AtomicU32,
    /// 1 if somebody may sleep whom nobody has woken.
    asleep: AtomicU32,
}

// SAFETY: it is held by the owner, between (2) and (6), as long as it is not shared, and it becomes shared when the owner is
// outside and can no longer get in; then `held` goes from 0 to 1 in one atomic step, for one thread at a time, and back to 0 by
// `unlock` alone.
unsafe impl RawMutex for RawLight {
    #[allow(clippy::declare_interior_mutable_const, reason = "how lock_api makes a mutex")]
    const INIT: RawLight = RawLight {
        owner: AtomicUsize::new(NOBODY),
        inside: AtomicU32::new(0),
        held: AtomicU32::new(0),
        asleep: AtomicU32::new(0),
    };

    type Guard = GuardNoSend;

    #[inline]
    fn lock(&self) -> GuardNoSend {
        if !self.take_as(this_thread()) {
            self.take_slowly();
        }
        GuardNoSend::default()
    }

    /// Also fails while it belongs to another thread.
    #[inline]
    fn try_lock(&self) -> Option<GuardNoSend> {
        self.take_as(this_thread()).then(GuardNoSend::default)
    }

    #[inline]
    unsafe fn unlock(&self, _: GuardNoSend) {
        // Nobody has it when it is shared while the owner has it as such.
        let is_shared = self.held.load(Ordering::Relaxed) != 0;
        self.leave(if is_shared { &self.held } else { &self.inside });
    }

    fn is_locked(&self) -> bool {
        self.held.load(Ordering::Relaxed) != 0 || self.inside.load(Ordering::Relaxed) != 0
    }
}

impl RawLight {
    #[inline]
    fn take_as(&self, thread: usize) -> bool {
        match self.owner.load(Ordering::Relaxed) {
            // A thread that has it already waits for ever, as with any mutex.
            owner if owner == thread && self.inside.load(Ordering::Relaxed) == 0 => {
                self.inside.store(1, Ordering::Relaxed);
                compiler_fence(Ordering::SeqCst);
                if self.owner.load(Ordering::Relaxed) == thread {
                    return true;
                }
                self.leave(&self.inside);
                false
            }
            SHARED => self.take_shared(),
            _ => false,
        }
    }

    #[inline]
    fn take_shared(&self) -> bool {
        self.held.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    #[inline]
    fn leave(&self, word: &AtomicU32) {
        word.store(0, Ordering::Release);
        compiler_fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::Relaxed) != 0 {
            self.wake();
        }
    }

    #[cold]
    fn take_slowly(&self) {
        let thread = this_thread();
        if self.owner.load(Ordering::Relaxed) == NOBODY {
            let first = if has_barrier() { thread } else { SHARED };
            let _ =
                self.owner.compare_exchange(NOBODY, first, Ordering::Relaxed, Ordering::Relaxed);
            if self.take_as(thread) {
                return;
            }
        }
        for _ in 0..SPINS {
            spin_loop();
            let is_free = self.owner.load(Ordering::Relaxed) == SHARED
                && self.held.load(Ordering::Relaxed) == 0;
            if is_free && self.take_shared() {
                return;
            }
        }
        loop {
            let owner = self.owner.load(Ordering::SeqCst);
            if owner != SHARED {
                // From here on it is ending, or shared already.
                let _ =
                    self.owner.compare_exchange(owner, ENDING, Ordering::SeqCst, Ordering::SeqCst);
            }
            self.asleep.store(1, Ordering::SeqCst);
            let has_passed = barrier();
            if has_passed
                && self.owner.load(Ordering::SeqCst) == ENDING
                && self.inside.load(Ordering::Acquire) == 0
            {
                self.owner.store(SHARED, Ordering::SeqCst);
            }
            if self.owner.load(Ordering::SeqCst) == SHARED && self.take_shared() {
                return;
            }
            let limit = if has_passed { None } else { LOOK_AGAIN.try_into().ok() };
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

/// A number that this thread alone has, until it ends.
#[inline]
fn this_thread() -> usize {
    #[cfg(target_arch = "x86_64")]
    {
        let pointer: usize;
        // SAFETY: the ABI of x86-64 Linux keeps the address of the thread's own block there. A thread-local variable of a library
        // costs a call.
        unsafe {
            std::arch::asm!("mov {}, fs:0", out(reg) pointer, options(pure, readonly, nostack, preserves_flags));
        }
        pointer
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        thread_local!(static PLACE: u64 = const { 0 });
        PLACE.with(|place| std::ptr::from_ref(place).addr())
    }
}

/// Whether the kernel lets a thread pass barriers for all.
fn has_barrier() -> bool {
    static REGISTERED: OnceLock<bool> = OnceLock::new();
    let registered = || membarrier(MembarrierCommand::RegisterPrivateExpedited).is_ok();
    *REGISTERED.get_or_init(registered)
}

/// Lets every thread of the process that runs pass a barrier. False if the kernel cannot.
fn barrier() -> bool {
    has_barrier() && membarrier(MembarrierCommand::PrivateExpedited).is_ok()
}
