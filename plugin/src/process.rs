//! The life of the process: what a fork and its end mean for the pool.

use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

static FORKED: AtomicBool = AtomicBool::new(false);
static ENDING: AtomicBool = AtomicBool::new(false);

/// Asks to be notified of forks and of the end. Called when the first pool is made.
pub fn watch() {
    static WATCHED: Once = Once::new();
    WATCHED.call_once(|| {
        // SAFETY: both handlers are plain functions of a library that is never unloaded, and only
        // touch atomics, which is allowed in a forked child.
        unsafe {
            libc::pthread_atfork(None, None, Some(in_child));
            libc::atexit(at_end);
        }
    });
}

/// True in a child of a process that had a pool: locks may be held by threads that are not there.
#[inline]
pub fn forked() -> bool {
    FORKED.load(Ordering::Relaxed)
}

/// True while ACL may be asked for things.
pub fn may_call() -> bool {
    !forked() && !ENDING.load(Ordering::Acquire)
}

extern "C" fn in_child() {
    FORKED.store(true, Ordering::Relaxed);
}

extern "C" fn at_end() {
    ENDING.store(true, Ordering::Release);
}
