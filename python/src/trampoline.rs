//! The Rust side of `trampoline.cpp`, through which C calls allocators written in Python.
//!
//! A callable that raises, or returns what is no block or address, has no memory to give: C gets null, and the first
//! error of each callable is shown with its traceback by `sys.unraisablehook`; an interrupt is for the main thread, after
//! the call. Nothing is called when the interpreter
//! ends; blocks that come back then are let be.

use crate::{
    interpreter,
    seats::{self, CALLBACKS},
};
use pyo3::ffi;

unsafe extern "C" {
    fn cairn_acl_seats() -> usize;
    fn cairn_acl_functions(seat: usize) -> *const [usize; CALLBACKS];
    fn cairn_acl_inside(seat: usize) -> usize;
}

/// How many callbacks of a seat run now, or wait for the interpreter's lock.
pub(crate) fn inside(seat: usize) -> usize {
    // SAFETY: the table has an entry for each seat.
    unsafe { cairn_acl_inside(seat) }
}

/// How many sets of functions there are.
pub(crate) fn count() -> usize {
    // SAFETY: takes nothing.
    unsafe { cairn_acl_seats() }
}

/// The functions that C is given for a seat; those of no seat fail, and say why.
pub(crate) fn functions(seat: Option<usize>) -> [usize; CALLBACKS] {
    let seat = seat.unwrap_or(count());
    // SAFETY: the table has one entry more than there are seats, and stays.
    unsafe { *cairn_acl_functions(seat) }
}

#[unsafe(no_mangle)]
extern "C" fn cairn_acl_lives() -> bool {
    interpreter::lives()
}

/// A new reference to a callable, or null. The interpreter's lock is held.
#[unsafe(no_mangle)]
extern "C" fn cairn_acl_callable(seat: usize, which: usize) -> *mut ffi::PyObject {
    seats::callable(seat, which)
}

#[unsafe(no_mangle)]
extern "C" fn cairn_acl_first(seat: usize, which: usize) -> bool {
    seats::is_first_error(seat, which)
}

#[unsafe(no_mangle)]
extern "C" fn cairn_acl_taken(seat: usize, block: usize) {
    seats::taken(seat, block);
}

#[unsafe(no_mangle)]
extern "C" fn cairn_acl_given(seat: usize, block: usize) {
    seats::given(seat, block);
}

#[unsafe(no_mangle)]
extern "C" fn cairn_acl_postpone(seat: usize) -> bool {
    seats::postpone_interrupt(seat)
}

#[unsafe(no_mangle)]
extern "C" fn cairn_acl_over(seat: usize) -> bool {
    seats::over(seat)
}

/// A reference for the caller to drop, or null.
#[unsafe(no_mangle)]
extern "C" fn cairn_acl_dropped() -> *mut ffi::PyObject {
    seats::dropped()
}
