//! The interpreter's lock around calls that may wait, and its end.

use pyo3::prelude::*;
use std::{
    ffi::CStr,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::OnceLock,
};

/// Whether the interpreter is on its way out. The stable ABI of old versions does not tell; their library does.
pub(crate) fn finalizing() -> bool {
    type Ask = unsafe extern "C" fn() -> i32;
    static ASK: OnceLock<Option<Ask>> = OnceLock::new();
    let find = |name: &CStr| {
        // SAFETY: the name ends with a NUL.
        let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
        // SAFETY: both names are functions without parameters that return an int.
        (!found.is_null()).then(|| unsafe { std::mem::transmute::<*mut libc::c_void, Ask>(found) })
    };
    let ask = ASK.get_or_init(|| find(c"Py_IsFinalizing").or_else(|| find(c"_Py_IsFinalizing")));
    // SAFETY: may be called at any time, by any thread.
    ask.is_some_and(|ask| unsafe { ask() } != 0)
}

/// Runs `call` while other Python threads may run.
///
/// A thread that comes back when the interpreter ends stays here: taking its lock would end the thread in the middle
/// of Rust. The thread that ends the interpreter keeps the lock.
pub(crate) fn waiting<R: Send>(py: Python<'_>, call: impl FnOnce() -> R + Send) -> R {
    if finalizing() {
        return call();
    }
    py.detach(|| {
        let result = call();
        while finalizing() {
            std::thread::park();
        }
        result
    })
}

/// Runs `call` with the interpreter's lock on a thread that came through C; none when there is no interpreter any
/// more, or `call` gave up.
pub(crate) fn inside<R>(call: impl FnOnce(Python<'_>) -> Option<R>) -> Option<R> {
    if finalizing() {
        return None;
    }
    catch_unwind(AssertUnwindSafe(|| Python::try_attach(call).flatten())).ok().flatten()
}
