//! Structs of `acl.mdl`: dicts in Python. After an error they have no entries, but their keys.

use crate::{
    arguments::{Callable, Index, Number, integer, items, string},
    c_function,
    interpreter::without_gil,
    structs::{FEATURE_NOT_SUPPORTED, check_keys, dict, field},
};
use pyo3::{
    Borrowed,
    exceptions::PyTypeError,
    prelude::*,
    types::{PyDict, PyList},
};
use std::ffi::{CStr, c_char};

/// The code for a wrong argument.
pub(crate) const INVALID_PARAM: i32 = 100000;

/// The most dimensions of a tensor, bytes of its name, and gears.
const MOST: usize = 128;

/// The most gears, and the most bytes of a name, that a call asks for.
const MOST_ASKED: usize = 4096;

/// `aclmdlIODims`: a name, and the size of each dimension.
#[repr(C)]
#[derive(Clone)]
pub(crate) struct Dims {
    name: [c_char; MOST],
    count: usize,
    sizes: [i64; MOST],
}

impl Default for Dims {
    fn default() -> Dims {
        Dims { name: [0; MOST], count: 0, sizes: [0; MOST] }
    }
}

/// The entries that C wrote.
fn written<T>(entries: &[T; MOST], count: usize) -> &[T] {
    &entries[..count.min(MOST)]
}

/// A text of C in a buffer, up to its NUL.
fn buffer_text(buffer: &[c_char]) -> String {
    let bytes: Vec<u8> = buffer.iter().map(|byte| *byte as u8).chain([0]).collect();
    let text = CStr::from_bytes_until_nul(&bytes).expect("a NUL was appended");
    text.to_string_lossy().into_owned()
}

impl<'py> IntoPyObject<'py> for &Dims {
    type Target = PyDict;
    type Output = Bound<'py, PyDict>;
    type Error = PyErr;

    fn into_pyobject(self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        dict.set_item("name", buffer_text(&self.name))?;
        dict.set_item("dimCount", self.count)?;
        dict.set_item("dims", written(&self.sizes, self.count))?;
        Ok(dict)
    }
}

impl<'py> IntoPyObject<'py> for Dims {
    type Target = PyDict;
    type Output = Bound<'py, PyDict>;
    type Error = PyErr;

    fn into_pyobject(self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        (&self).into_pyobject(py)
    }
}

/// Reads `{'dimCount': n, 'dims': [..]}`, with a 'name' or without.
impl<'py> FromPyObject<'_, 'py> for Dims {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let wrong = |text: String| PyTypeError::new_err(text);
        let given = dict(&value, "it")?;
        check_keys(&given, "the dict", &["name", "dimCount", "dims"])?;
        let mut dims = Dims::default();
        if let Some(name) = given.get_item("name")? {
            let name = string(&name, "'name'")?;
            let bytes = name.as_bytes();
            if bytes.len() >= MOST {
                return Err(wrong(format!(
                    "'name' has {} bytes: at most {}",
                    bytes.len(),
                    MOST - 1
                )));
            }
            for (to, from) in dims.name.iter_mut().zip(bytes) {
                *to = *from as c_char;
            }
        }
        dims.count = integer(&field(&given, "the dict", "dimCount")?, "'dimCount'")?;
        let sizes: Vec<i64> = items(&field(&given, "the dict", "dims")?, "'dims'", integer)?;
        if sizes.len() != dims.count {
            let (count, length) = (dims.count, sizes.len());
            return Err(wrong(format!("'dimCount' is {count} and 'dims' has {length} items")));
        }
        if sizes.len() > MOST {
            return Err(wrong(format!("'dims' has {} items: at most {MOST}", sizes.len())));
        }
        dims.sizes[..sizes.len()].copy_from_slice(&sizes);
        Ok(dims)
    }
}

/// A struct of C that is a count and entries: its names in Python, its Rust type, and the type of an entry.
macro_rules! counted {
    ($($(#[$doc:meta])* $name:ident = $count:literal $entries:literal [$entry:ty];)*) => {
        $(
            $(#[$doc])*
            #[repr(C)]
            pub(crate) struct $name {
                count: usize,
                entries: [$entry; MOST],
            }

            impl Default for $name {
                fn default() -> $name {
                    $name { count: 0, entries: [Default::default(); MOST] }
                }
            }

            impl<'py> IntoPyObject<'py> for $name {
                type Target = PyDict;
                type Output = Bound<'py, PyDict>;
                type Error = PyErr;

                fn into_pyobject(self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
                    let dict = PyDict::new(py);
                    dict.set_item($count, self.count)?;
                    dict.set_item($entries, written(&self.entries, self.count))?;
                    Ok(dict)
                }
            }
        )*
    };
}

counted! {
    /// `aclmdlIODimsRange`: the least and the greatest size of each dimension.
    DimRanges = "rangeCount" "range" [[i64; 2]];
    /// `aclmdlBatch`: batch sizes.
    Batches = "batchCount" "batch" [u64];
    /// `aclmdlHW`: heights and widths.
    ImageSizes = "hwCount" "hw" [[u64; 2]];
}

/// Calls aclmdlGetInputDynamicDims. The list has the gears of the model, also if more were asked for.
#[pyfunction(name = "get_input_dynamic_dims")]
pub(crate) fn mdl_get_input_dynamic_dims<'py>(
    py: Python<'py>,
    desc: Number<usize>,
    index: Index,
    gear_count: Number<usize>,
) -> PyResult<(Option<Bound<'py, PyList>>, i32)> {
    if gear_count.0 > MOST_ASKED {
        return Ok((None, INVALID_PARAM));
    }
    let mut gears = vec![Dims::default(); gear_count.0];
    let get = c_function!(aclmdlGetInputDynamicDims: fn(usize, usize, *mut Dims, usize) -> i32);
    // SAFETY: the buffer holds as many as the length says.
    let ret = without_gil(py, || unsafe { get(desc.0, index.0, gears.as_mut_ptr(), gear_count.0) });
    if ret != 0 {
        return Ok((None, ret));
    }
    let gears = gears.iter().filter(|gear| gear.count != 0);
    let list = gears.map(|gear| gear.into_pyobject(py)).collect::<PyResult<Vec<_>>>()?;
    Ok((Some(PyList::new(py, list)?), ret))
}

/// The name of an operator, its inputs and how many, its outputs and how many, and the code.
type OpDesc = (String, usize, usize, usize, usize, i32);

/// Calls aclmdlCreateAndGetOpDesc.
#[pyfunction(name = "create_and_get_op_desc")]
pub(crate) fn mdl_create_and_get_op_desc(
    py: Python<'_>,
    device_id: Number<u32>,
    stream_id: Number<u32>,
    task_id: Number<u32>,
    op_name_len: Number<usize>,
) -> OpDesc {
    if op_name_len.0 > MOST_ASKED {
        return (String::new(), 0, 0, 0, 0, INVALID_PARAM);
    }
    let mut name = vec![0 as c_char; op_name_len.0];
    let [mut inputs, mut input_count, mut outputs, mut output_count] = [0usize; 4];
    let create = c_function!(aclmdlCreateAndGetOpDesc: fn(u32, u32, u32, *mut c_char, usize, *mut usize, *mut usize, *mut usize, *mut usize) -> i32);
    let ret = without_gil(py, || {
        let (inputs, outputs) = (&raw mut inputs, &raw mut outputs);
        let (input_count, output_count) = (&raw mut input_count, &raw mut output_count);
        let (device, stream, task) = (device_id.0, stream_id.0, task_id.0);
        let (name, room) = (name.as_mut_ptr(), name.len());
        // SAFETY: the places are there for the call, and the buffer is as long as its length says.
        unsafe {
            create(device, stream, task, name, room, inputs, input_count, outputs, output_count)
        }
    });
    (buffer_text(&name), inputs, input_count, outputs, output_count, ret)
}

/// Calls acldumpRegCallback. There is no function of C behind a callable here: the one that C gets refuses.
#[pyfunction(name = "dump_reg_callback")]
pub(crate) fn mdl_dump_reg_callback(py: Python<'_>, func: Callable, flag: Number<i32>) -> i32 {
    extern "C" fn refuse() -> i32 {
        FEATURE_NOT_SUPPORTED
    }
    let _ = func;
    let register = c_function!(acldumpRegCallback: fn(extern "C" fn() -> i32, i32) -> i32);
    // SAFETY: the function looks at no argument.
    without_gil(py, || unsafe { register(refuse, flag.0) })
}
