//! `acl.util`: memory of Python as addresses and back, and threads.

use crate::{
    arguments::{Callable, Number, Numbers},
    interpreter::without_gil,
};
use pyo3::{
    exceptions::{PyDeprecationWarning, PyTypeError, PyValueError},
    ffi::{self, c_str},
    prelude::*,
    types::{PyBytes, PyList},
};
use std::{
    collections::HashSet,
    ffi::CStr,
    ptr::null_mut,
    sync::{Mutex, PoisonError},
};

/// What a wrong thread gets.
const INVALID_PARAM: i32 = 100000;

/// The address of the bytes, good while the caller keeps them.
#[pyfunction(name = "bytes_to_ptr")]
pub(crate) fn util_bytes_to_ptr(data: Bound<'_, PyBytes>) -> usize {
    data.as_bytes().as_ptr() as usize
}

/// A copy of memory that the process can read.
#[pyfunction(name = "ptr_to_bytes")]
pub(crate) fn util_ptr_to_bytes(
    py: Python<'_>,
    ptr: Number<usize>,
    size: Number<usize>,
) -> PyResult<Bound<'_, PyBytes>> {
    check_range(ptr.0, size.0)?;
    // SAFETY: the lock is held; the size is not negative, and null asks for a buffer with nothing in it.
    let bytes: Bound<'_, PyBytes> = unsafe {
        let buffer = ffi::PyBytes_FromStringAndSize(std::ptr::null(), size.0 as isize);
        Bound::from_owned_ptr_or_err(py, buffer)?.cast_into_unchecked()
    };
    let buffer = bytes.as_bytes().as_ptr() as usize;
    if size.0 != 0 {
        without_gil(py, || {
            // SAFETY: the buffer is as large, and nobody else knows of it; the caller vouches for the memory, as pyACL
            // asks.
            unsafe { std::ptr::copy_nonoverlapping(ptr.0 as *const u8, buffer as *mut u8, size.0) }
        });
    }
    Ok(bytes)
}

/// Fails for a range that no memory can be at.
fn check_range(ptr: usize, size: usize) -> PyResult<()> {
    let fits = isize::try_from(size).is_ok() && ptr.checked_add(size).is_some();
    match size == 0 || (ptr != 0 && fits) {
        true => Ok(()),
        false => Err(PyValueError::new_err(format!(
            "there are no {size} bytes at {ptr:#x}: pass an address and a size of memory"
        ))),
    }
}

fn deprecated(py: Python<'_>, text: &CStr) -> PyResult<()> {
    PyErr::warn(py, &py.get_type::<PyDeprecationWarning>(), text, 1)
}

fn not_an_array(_: PyErr) -> PyErr {
    PyTypeError::new_err("argument 'array': it must be a numpy array")
}

/// The address of a numpy array's data.
fn array_address(array: &Bound<'_, PyAny>) -> PyResult<usize> {
    let data = |interface: Bound<'_, PyAny>| interface.get_item("data")?.get_item(0)?.extract();
    array.getattr("__array_interface__").and_then(data).map_err(not_an_array)
}

/// The address of a contiguous array.
#[pyfunction(name = "numpy_to_ptr")]
pub(crate) fn util_numpy_to_ptr(py: Python<'_>, array: Bound<'_, PyAny>) -> PyResult<usize> {
    deprecated(
        py,
        c_str!(
            "acl.util.numpy_to_ptr is deprecated: use acl.util.bytes_to_ptr with array.tobytes()"
        ),
    )?;
    let address = array_address(&array)?;
    let flags = array.getattr("flags").and_then(|flags| flags.get_item("C_CONTIGUOUS"));
    match flags.and_then(|flag| flag.extract()).map_err(not_an_array)? {
        true => Ok(address),
        false => Err(PyValueError::new_err(
            "argument 'array': it is not contiguous: use numpy_contiguous_to_ptr",
        )),
    }
}

/// The address of the array, or of a contiguous copy, and what it holds.
#[pyfunction(name = "numpy_contiguous_to_ptr")]
pub(crate) fn util_numpy_contiguous_to_ptr<'py>(
    py: Python<'py>,
    array: Bound<'py, PyAny>,
) -> PyResult<(usize, Bound<'py, PyAny>)> {
    deprecated(
        py,
        c_str!(
            "acl.util.numpy_contiguous_to_ptr is deprecated: use acl.util.bytes_to_ptr with array.tobytes()"
        ),
    )?;
    array_address(&array)?;
    let contiguous = py.import("numpy")?.call_method1("ascontiguousarray", (array,))?;
    Ok((array_address(&contiguous)?, contiguous))
}

/// An array over memory, without a copy: good while the memory is there.
#[pyfunction(name = "ptr_to_numpy")]
pub(crate) fn util_ptr_to_numpy<'py>(
    py: Python<'py>,
    ptr: Number<usize>,
    shape: Numbers<usize>,
    npy_type: Number<i32>,
) -> PyResult<Bound<'py, PyAny>> {
    deprecated(
        py,
        c_str!(
            "acl.util.ptr_to_numpy is deprecated: use numpy.frombuffer with acl.util.ptr_to_bytes"
        ),
    )?;
    let numpy = py.import("numpy")?;
    let codes: String = numpy.getattr("typecodes")?.get_item("All")?.extract()?;
    let mut dtype = None;
    for code in codes.chars() {
        let candidate = numpy.getattr("dtype")?.call1((code.to_string(),))?;
        if candidate.getattr("num")?.extract::<i32>()? == npy_type.0
            && candidate.getattr("itemsize")?.extract::<usize>()? > 0
        {
            dtype = Some(candidate);
            break;
        }
    }
    let dtype = dtype
        .ok_or_else(|| PyValueError::new_err(format!("numpy has no type number {}", npy_type.0)))?;
    let mut size: usize = dtype.getattr("itemsize")?.extract()?;
    for extent in &shape.0 {
        size = size.saturating_mul(*extent);
    }
    check_range(ptr.0, size)?;
    let ctypes = py.import("ctypes")?;
    let bytes = ctypes.getattr("c_char")?.mul(size)?;
    let memory = match size {
        0 => bytes.call0()?,
        _ => bytes.call_method1("from_address", (ptr.0,))?,
    };
    numpy.call_method1("frombuffer", (memory, dtype))?.call_method1("reshape", (shape.0,))
}

/// The threads that nobody has stopped, each with its process: a child of fork has none of its parent's.
static THREADS: Mutex<Option<HashSet<(u32, usize)>>> = Mutex::new(None);

/// Reads or changes the set of threads.
fn with_threads<R>(change: impl FnOnce(&mut HashSet<(u32, usize)>) -> R) -> R {
    change(THREADS.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_default())
}

unsafe extern "C" {
    fn cairn_acl_start(
        func: *mut ffi::PyObject,
        args: *mut ffi::PyObject,
        thread: *mut libc::pthread_t,
    ) -> i32;
}

/// Starts a thread that calls `func(args)`.
#[pyfunction(name = "start_thread")]
pub(crate) fn util_start_thread(func: Callable, args: Bound<'_, PyList>) -> (usize, i32) {
    let mut thread: libc::pthread_t = 0;
    // SAFETY: the interpreter's lock is held, and the place is there for the call.
    let ret = unsafe { cairn_acl_start(func.0.as_ptr(), args.as_ptr(), &mut thread) };
    if ret != 0 {
        return (0, ret);
    }
    with_threads(|threads| threads.insert((std::process::id(), thread as usize)));
    (thread as usize, 0)
}

/// Waits until a thread of `start_thread` is done. A thread cannot wait for itself.
#[pyfunction(name = "stop_thread")]
pub(crate) fn util_stop_thread(py: Python<'_>, thread_id: Number<usize>) -> i32 {
    let thread = thread_id.0 as libc::pthread_t;
    // SAFETY: takes nothing.
    let is_current = unsafe { libc::pthread_self() } == thread;
    if is_current || !with_threads(|threads| threads.remove(&(std::process::id(), thread_id.0))) {
        return INVALID_PARAM;
    }
    // SAFETY: the thread was started here and nobody else joins it.
    without_gil(py, || unsafe { libc::pthread_join(thread, null_mut()) })
}
