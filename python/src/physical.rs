//! Physical memory, and who may share it.

use crate::{
    arguments::{Number, Numbers, integer},
    c_function,
    interpreter::without_gil,
    structs::{Location, check_keys, dict, field},
};
use pyo3::{prelude::*, types::PyDict};

/// What is to be allocated, as the header lays it out.
#[repr(C)]
struct Properties {
    handle: i32,
    allocation: i32,
    attr: i32,
    location: Location,
    reserve: u64,
}

/// Reads `{'handleType', 'allocationType', 'memAttr', 'location': {'id', 'type'}, 'reserve'}`, all ints.
fn properties(prop: &Bound<'_, PyDict>) -> PyResult<Properties> {
    let names = ["handleType", "allocationType", "memAttr", "location", "reserve"];
    let context = "argument 'prop':";
    check_keys(prop, "argument 'prop': the dict", &names)?;
    let number = |name: &str| {
        integer(&field(prop, "argument 'prop': the dict", name)?, &format!("{context} '{name}'"))
    };
    let reserve = integer(
        &field(prop, "argument 'prop': the dict", "reserve")?,
        "argument 'prop': 'reserve'",
    )?;
    let location = dict(
        &field(prop, "argument 'prop': the dict", "location")?,
        "argument 'prop': 'location'",
    )?;
    check_keys(&location, "argument 'prop': 'location'", &["id", "type"])?;
    let location = Location {
        id: integer(
            &field(&location, "argument 'prop': the dict", "id")?,
            "argument 'prop': 'location', 'id'",
        )?,
        kind: integer(
            &field(&location, "argument 'prop': the dict", "type")?,
            "argument 'prop': 'location', 'type'",
        )?,
    };
    Ok(Properties {
        handle: number("handleType")?,
        allocation: number("allocationType")?,
        attr: number("memAttr")?,
        location,
        reserve,
    })
}

/// Calls aclrtMallocPhysical.
#[pyfunction(name = "malloc_physical")]
pub(crate) fn rt_malloc_physical(
    py: Python<'_>,
    size: Number<usize>,
    prop: Bound<'_, PyDict>,
    flags: Number<u64>,
) -> PyResult<(usize, i32)> {
    let (prop, mut handle) = (properties(&prop)?, 0);
    let malloc =
        c_function!(aclrtMallocPhysical: fn(*mut usize, usize, *const Properties, u64) -> i32);
    // SAFETY: the places are there for the call and laid out as in the header.
    let ret = without_gil(py, || unsafe { malloc(&mut handle, size.0, &prop, flags.0) });
    Ok((handle, ret))
}

/// Calls aclrtMemSetPidToShareableHandle.
#[pyfunction(name = "mem_set_pid_to_shareable_handle")]
pub(crate) fn rt_mem_set_pid_to_shareable_handle(
    py: Python<'_>,
    shareable: Number<u64>,
    mut pids: Numbers<i32>,
) -> i32 {
    let set = c_function!(aclrtMemSetPidToShareableHandle: fn(u64, *mut i32, usize) -> i32);
    // SAFETY: the list is as long as their lengths say.
    without_gil(py, || unsafe { set(shareable.0, pids.0.as_mut_ptr(), pids.0.len()) })
}
