//! The options of loads and runs in `acl.mdl`: their types depend on which option it is.

use crate::{
    arguments::{Number, integer, string},
    c_function,
    interpreter::without_gil,
};
use pyo3::{exceptions::PyTypeError, prelude::*, types::PyString};
use std::ffi::{CString, c_void};

/// The priority of a model.
const PRIORITY: i32 = 0;
/// The path of a model.
const PATH: i32 = 2;
/// The folder of external weights.
const WEIGHT_PATH: i32 = 14;
/// Whether the model is loaded without its graph.
const WITHOUT_GRAPH: i32 = 28;

/// The value of an option, as C takes it.
enum OptionValue {
    Int(i32),
    /// A number of bytes or things, or an address.
    Word(u64),
    Path(CString),
}

/// Reads the value of an option of a load. The folder of weights may be a str, or the address of one of C.
fn option_value(attr: i32, value: &Bound<'_, PyAny>) -> PyResult<OptionValue> {
    let what = "argument 'value': it";
    match attr {
        PRIORITY | WITHOUT_GRAPH => integer(value, what).map(OptionValue::Int),
        PATH => string(value, what).map(OptionValue::Path),
        WEIGHT_PATH if value.is_instance_of::<PyString>() => {
            string(value, what).map(OptionValue::Path)
        }
        _ => integer(value, what).map(OptionValue::Word),
    }
}

/// Calls aclmdlSetConfigOpt.
#[pyfunction(name = "set_config_opt")]
pub(crate) fn mdl_set_config_opt(
    py: Python<'_>,
    handle: Number<usize>,
    attr: Number<i32>,
    value: Bound<'_, PyAny>,
) -> PyResult<i32> {
    let value = option_value(attr.0, &value)?;
    let set = c_function!(aclmdlSetConfigOpt: fn(usize, i32, *const c_void, usize) -> i32);
    Ok(without_gil(py, || {
        let path_pointer = match &value {
            OptionValue::Path(path) => path.as_ptr(),
            _ => std::ptr::null(),
        };
        let (place, bytes): (*const c_void, usize) = match &value {
            OptionValue::Int(number) => ((&raw const *number).cast(), size_of::<i32>()),
            OptionValue::Word(number) => ((&raw const *number).cast(), size_of::<u64>()),
            OptionValue::Path(_) => ((&raw const path_pointer).cast(), size_of::<usize>()),
        };
        // SAFETY: the place has as many bytes and is there for the call; C copies paths.
        unsafe { set(handle.0, attr.0, place, bytes) }
    }))
}

/// Calls aclmdlSetExecConfigOpt. The value has 32 bits, signed or not: -1 and 2^32 - 1 are the same.
#[pyfunction(name = "set_exec_config_opt")]
pub(crate) fn mdl_set_exec_config_opt(
    py: Python<'_>,
    handle: Number<usize>,
    attr: Number<i32>,
    value: Bound<'_, PyAny>,
) -> PyResult<i32> {
    let number: i64 = integer(&value, "argument 'value': it")?;
    let (low, high) = (i64::from(i32::MIN), i64::from(u32::MAX));
    if !(low..=high).contains(&number) {
        return Err(PyTypeError::new_err(format!(
            "argument 'value': it must be an int from {low} to {high}, not {number}"
        )));
    }
    let word = number as i32;
    let set = c_function!(aclmdlSetExecConfigOpt: fn(usize, i32, *const i32, usize) -> i32);
    // SAFETY: the number is there for the call.
    Ok(without_gil(py, || unsafe { set(handle.0, attr.0, &word, size_of::<i32>()) }))
}
