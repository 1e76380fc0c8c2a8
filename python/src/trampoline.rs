//! The functions that C calls for an allocator written in Python.
//!
//! A callable that raises, or returns what is no block or address, has no memory to give: C gets null, and the error
//! is shown with its traceback by `sys.unraisablehook`, once for each text of an allocator. Nothing is called when the
//! interpreter ends; blocks that come back then are let be.

use crate::{
    allocator::{self, Allocator},
    arguments::pointer,
    interpreter::inside,
};
use pyo3::{exceptions::PyKeyboardInterrupt, ffi, prelude::*};
use std::{
    ffi::c_void,
    ptr::null_mut,
    sync::{Arc, PoisonError},
};

/// What C holds for a block: the user's own word for it, and who made it.
struct Block {
    allocator: Arc<Allocator>,
    word: usize,
}

/// Gives a block.
pub(crate) unsafe extern "C" fn alloc(key: *mut c_void, size: usize) -> *mut c_void {
    take(
        key,
        |py, allocator| allocator.alloc.bind(py).call1((allocator.object, size)),
        |allocator| &allocator.alloc,
    )
}

/// Gives a block, near an address if it can be.
pub(crate) unsafe extern "C" fn advise(
    key: *mut c_void,
    size: usize,
    near: *mut c_void,
) -> *mut c_void {
    take(
        key,
        |py, allocator| match &allocator.advise {
            Some(advise) => advise.bind(py).call1((allocator.object, size, near as usize)),
            None => allocator.alloc.bind(py).call1((allocator.object, size)),
        },
        |allocator| allocator.advise.as_ref().unwrap_or(&allocator.alloc),
    )
}

fn take(
    key: *mut c_void,
    call: impl for<'py> FnOnce(Python<'py>, &Allocator) -> PyResult<Bound<'py, PyAny>>,
    callable: impl FnOnce(&Allocator) -> &Py<PyAny>,
) -> *mut c_void {
    let given = inside(|py| {
        let allocator = allocator::find(key as usize)?;
        match call(py, &allocator).and_then(|block| pointer(&block, "the block that alloc returns"))
        {
            Ok(0) => None,
            Ok(word) => Some(Box::into_raw(Box::new(Block { allocator, word })) as usize),
            Err(error) => {
                show(py, &allocator, callable(&allocator), error);
                None
            }
        }
    });
    given.map_or(null_mut(), |block| block as *mut c_void)
}

/// Tells the address of a block.
pub(crate) unsafe extern "C" fn address(block: *mut c_void) -> *mut c_void {
    let told = inside(|py| {
        // SAFETY: C passes what `take` gave and `free` has not got back.
        let block = unsafe { &*block.cast::<Block>() };
        let (allocator, word) = (block.allocator.clone(), block.word);
        let callable = &allocator.address;
        match callable
            .bind(py)
            .call1((word,))
            .and_then(|found| pointer(&found, "the address of a block"))
        {
            Ok(address) => Some(address),
            Err(error) => {
                show(py, &allocator, callable, error);
                None
            }
        }
    });
    told.map_or(null_mut(), |address| address as *mut c_void)
}

/// Takes a block back.
pub(crate) unsafe extern "C" fn free(_key: *mut c_void, block: *mut c_void) {
    inside(|py| {
        // SAFETY: C gives back what `take` gave, once.
        let block = unsafe { Box::from_raw(block.cast::<Block>()) };
        let allocator = &block.allocator;
        if let Err(error) = allocator.free.bind(py).call1((allocator.object, block.word)) {
            show(py, allocator, &allocator.free, error);
        }
        Some(())
    });
}

/// Shows an error unless one with its text was shown. An interrupt is for the main thread, which gets it after the call.
fn show(py: Python<'_>, allocator: &Allocator, callable: &Py<PyAny>, error: PyErr) {
    if error.is_instance_of::<PyKeyboardInterrupt>(py) {
        // SAFETY: the interpreter's lock is held.
        unsafe { ffi::PyErr_SetInterrupt() };
        return;
    }
    let text = format!("{error} in {:p}", callable.as_ptr());
    let fresh = {
        let mut shown = allocator.shown.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh = !shown.contains(&text) && shown.len() < 64;
        if fresh {
            shown.push(text);
        }
        fresh
    };
    if fresh {
        error.write_unraisable(py, Some(callable.bind(py)));
    }
}
