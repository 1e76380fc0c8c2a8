//! The interpreter's lock around calls of C, its end, and children of its process.

use pyo3::{ffi, prelude::*};
use std::{
    ffi::{CStr, c_void},
    sync::{
        OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
};

unsafe extern "C" {
    fn cairn_acl_resume(thread: *mut c_void);
}

/// What a forked child gets from everything that needs a device.
const INTERNAL_ERROR: i32 = 507000;

/// [`is_running`] for `trampoline.cpp`.
#[unsafe(no_mangle)]
extern "C" fn cairn_acl_is_running() -> bool {
    is_running()
}

/// Whether Python may be called. The stable ABI of old versions does not tell when the interpreter is on its way out;
/// their library does.
pub(crate) fn is_running() -> bool {
    type IsFinalizing = unsafe extern "C" fn() -> i32;
    static IS_FINALIZING: OnceLock<Option<IsFinalizing>> = OnceLock::new();
    let find = |name: &CStr| {
        // SAFETY: the name ends with a NUL.
        let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
        // SAFETY: both names are functions without parameters that return an int.
        (!found.is_null())
            .then(|| unsafe { std::mem::transmute::<*mut c_void, IsFinalizing>(found) })
    };
    let is_finalizing = IS_FINALIZING
        .get_or_init(|| find(c"Py_IsFinalizing").or_else(|| find(c"_Py_IsFinalizing")));
    // SAFETY: both may be called at any time, by any thread.
    unsafe { ffi::Py_IsInitialized() != 0 && is_finalizing.is_none_or(|call| call() == 0) }
}

/// Releases the interpreter's lock until it is dropped.
///
/// A thread that comes back when the interpreter ends stays here: Python would end it in the middle of Rust.
struct GilRelease(*mut ffi::PyThreadState);

impl Drop for GilRelease {
    fn drop(&mut self) {
        while !is_running() {
            std::thread::park();
        }
        // SAFETY: this thread released the lock. If Python ends the thread instead, it stays there.
        unsafe { cairn_acl_resume(self.0.cast()) };
    }
}

/// Runs `call`, which does not use Python, while other Python threads may run. The thread that ends the
/// interpreter keeps the lock.
///
/// pyo3 does not know that the lock is released: it would take it back itself.
pub(crate) fn without_gil<R: Send>(_: Python<'_>, call: impl FnOnce() -> R + Send) -> R {
    if !is_running() {
        return call();
    }
    // SAFETY: this thread has the lock.
    let _released = GilRelease(unsafe { ffi::PyEval_SaveThread() });
    call()
}

static FORKS: AtomicUsize = AtomicUsize::new(0);

/// Counts forks from now on.
pub(crate) fn watch_forks() {
    extern "C" fn count() {
        FORKS.fetch_add(1, Ordering::Relaxed);
    }
    // SAFETY: the function stays, as this library does, and only counts.
    unsafe { libc::pthread_atfork(None, None, Some(count)) };
}

/// Runs a call that may call back, while other Python threads may run. In a child that a callback forked nothing is
/// executed, and the code says so.
pub(crate) fn without_gil_checking_fork(py: Python<'_>, call: impl FnOnce() -> i32 + Send) -> i32 {
    let forks = FORKS.load(Ordering::Relaxed);
    let ret = without_gil(py, call);
    if FORKS.load(Ordering::Relaxed) == forks { ret } else { INTERNAL_ERROR }
}
