//! Callables of Python in descriptors of allocators.
//!
//! ```text
//! descriptor ─┐
//!             ├─> Callable (trampoline.cpp) ─> the object of Python
//! registration┘   C calls it, compares it by its identity, and drops it when nobody needs it any more
//! ```
//!
//! A callable that raises, or returns what is no block or address, makes the execution fail with the text of its error;
//! the first error of each one that was set is shown with its traceback by `sys.unraisablehook`. An interrupt is for the
//! main thread, after the call. Nothing is called when the interpreter ends; blocks that come back then are not freed.

use crate::{
    arguments::{Callable, Number},
    interpreter::without_gil,
    library::c_functions,
};
use pyo3::{ffi, prelude::*};

/// How many functions an allocator has.
const FUNCTIONS: usize = 4;
/// The index of alloc, as `CairnFunction` in `cpp/bridge.h` has it.
const ALLOC: usize = 0;
/// The index of free.
const FREE: usize = 1;
/// The index of alloc advise.
const ADVISE: usize = 2;
/// The index of get address.
const ADDRESS: usize = 3;

/// What C knows of a stream. `StreamRegistration` in `trampoline.cpp`.
#[repr(C)]
#[derive(Default)]
struct StreamRegistration {
    desc: usize,
    object: usize,
    functions: [usize; FUNCTIONS],
    /// Addresses of Python's objects, each with a reference of ours.
    callables: [usize; FUNCTIONS],
}

unsafe extern "C" {
    /// Sets a callable; with 0 its reference has passed to the descriptor. Runs without the interpreter's lock.
    fn cairn_acl_set(
        set: usize,
        desc: usize,
        which: usize,
        function: usize,
        identity: *const [usize; 2],
    ) -> i32;
    /// Asks what is registered. Runs without the interpreter's lock.
    fn cairn_acl_get(get: usize, stream: usize, registration: *mut StreamRegistration) -> i32;
}

/// What distinguishes callables: the object, or for a bound method the function and the object that it is bound to, since
/// Python makes a new method at each look-up. What only looks like a method is itself.
fn identity(callable: &Bound<'_, PyAny>) -> [usize; 2] {
    let itself = [callable.as_ptr() as usize, 0];
    let method = callable.py().import("types").and_then(|types| types.getattr("MethodType"));
    if !method.is_ok_and(|method| callable.get_type().is(&method)) {
        return itself;
    }
    let part = |name| callable.getattr(name).map(|part| part.as_ptr() as usize);
    match (part("__func__"), part("__self__")) {
        (Ok(function), Ok(object)) => [function, object],
        _ => itself,
    }
}

/// Sets a callable in a descriptor; gives the code.
fn set(py: Python<'_>, desc: usize, which: usize, callable: Callable) -> i32 {
    let identity = identity(callable.0.bind(py));
    let function = callable.0.into_ptr() as usize;
    let set = c_functions().CairnAllocatorSetCallable;
    // SAFETY: `set` is the function of the bridge, which checks the handle; the rest is there for the call.
    let ret = without_gil(py, || unsafe { cairn_acl_set(set, desc, which, function, &identity) });
    if ret != 0 {
        // SAFETY: the reference of above, which C did not take.
        drop(unsafe { Py::<PyAny>::from_owned_ptr(py, function as *mut ffi::PyObject) });
    }
    ret
}

/// Sets `func(allocator, size)`, which returns a block, or None or 0 when it has none.
#[pyfunction(name = "allocator_set_alloc_func_to_desc")]
pub(crate) fn rt_allocator_set_alloc_func_to_desc(
    py: Python<'_>,
    desc: Number<usize>,
    func: Callable,
) -> i32 {
    set(py, desc.0, ALLOC, func)
}

/// Sets `func(allocator, block)`, which takes a block back.
#[pyfunction(name = "allocator_set_free_func_to_desc")]
pub(crate) fn rt_allocator_set_free_func_to_desc(
    py: Python<'_>,
    desc: Number<usize>,
    func: Callable,
) -> i32 {
    set(py, desc.0, FREE, func)
}

/// Sets `func(allocator, size, addr)`, which returns a block, near `addr` if it can.
#[pyfunction(name = "allocator_set_alloc_advise_func_to_desc")]
pub(crate) fn rt_allocator_set_alloc_advise_func_to_desc(
    py: Python<'_>,
    desc: Number<usize>,
    func: Callable,
) -> i32 {
    set(py, desc.0, ADVISE, func)
}

/// Sets `func(block)`, which returns the address of a block.
#[pyfunction(name = "allocator_set_get_addr_from_block_func_to_desc")]
pub(crate) fn rt_allocator_set_get_addr_from_block_func_to_desc(
    py: Python<'_>,
    desc: Number<usize>,
    func: Callable,
) -> i32 {
    set(py, desc.0, ADDRESS, func)
}

type Func<'py> = Option<Bound<'py, PyAny>>;

/// What is registered on a stream, as it was set; functions of C as their addresses.
#[pyfunction(name = "allocator_get_by_stream")]
pub(crate) fn rt_allocator_get_by_stream<'py>(
    py: Python<'py>,
    stream: Number<usize>,
) -> PyResult<(usize, usize, Func<'py>, Func<'py>, Func<'py>, Func<'py>, i32)> {
    let get = c_functions().CairnAllocatorGetByStream;
    let mut registration = StreamRegistration::default();
    // SAFETY: `get` is the function of the bridge, which checks the handle; the answer is there for the call.
    let ret = without_gil(py, || unsafe { cairn_acl_get(get, stream.0, &mut registration) });
    let mut functions: [Func<'py>; FUNCTIONS] = Default::default();
    for (index, function) in functions.iter_mut().enumerate() {
        let callable = registration.callables[index] as *mut ffi::PyObject;
        // SAFETY: null, or an object with a reference that is ours.
        *function = unsafe { Bound::from_owned_ptr_or_opt(py, callable) };
    }
    for (function, address) in functions.iter_mut().zip(registration.functions) {
        if address != 0 {
            *function = Some(address.into_pyobject(py)?.into_any());
        }
    }
    let [alloc, free, advise, address] = functions;
    Ok((registration.desc, registration.object, alloc, free, advise, address, ret))
}
