//! Forks and the end of the process, after which the pool must not call ACL.

use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

static FORKED: AtomicBool = AtomicBool::new(false);
static ENDING: AtomicBool = AtomicBool::new(false);

/// Registers for forks and the end of the process. Called when the first pool is made.
pub fn register_handlers() {
    static REGISTERED: Once = Once::new();
    REGISTERED.call_once(|| {
        // SAFETY: both handlers are plain functions of a library that is never unloaded, and only
        // touch atomics, which is allowed in a forked child.
        unsafe {
            libc::pthread_atfork(None, None, Some(in_child));
            libc::atexit(at_end);
        }
    });
}

/// True in a forked child of a process that had a pool: locks may be held by threads that do not exist in it.
#[inline]
pub fn forked() -> bool {
    FORKED.load(Ordering::Relaxed)
}

/// True while functions of ACL may be called.
pub fn may_call() -> bool {
    !forked() && !ENDING.load(Ordering::Acquire)
}

extern "C" fn in_child() {
    FORKED.store(true, Ordering::Relaxed);
}

extern "C" fn at_end() {
    ENDING.store(true, Ordering::Release);
}
