//! Functions whose arguments or results do not fit the table: structs, which are dicts in Python (empty after an
//! error), lists and strings that C fills, and functions of C.

use crate::{
    arguments::{Callable, Number, Numbers, Text, integer, items, text},
    c_function,
    interpreter::without_gil,
};
use pyo3::{
    exceptions::{PyTypeError, PyValueError},
    prelude::*,
    types::PyDict,
};
use std::ffi::{CString, c_char};

/// A device, or the host, as the header lays it out.
#[repr(C)]
#[derive(Default)]
pub(crate) struct Location {
    /// The number of the device.
    pub id: u32,
    /// Device or host.
    pub kind: i32,
}

/// The code for a feature that is not supported.
pub(crate) const FEATURE_NOT_SUPPORTED: i32 = 207000;

/// The size of the text of a version.
const VERSION_BYTES: usize = 128;

/// Calls aclsysGetCANNVersion.
#[pyfunction(name = "get_cann_version")]
pub(crate) fn acl_get_cann_version(
    py: Python<'_>,
    name: Number<i32>,
) -> PyResult<(Bound<'_, PyDict>, i32)> {
    #[repr(C)]
    struct Version {
        version: [c_char; VERSION_BYTES],
        parts: [[c_char; 64]; 4],
        reserved: [c_char; VERSION_BYTES],
    }
    let mut found =
        Version { version: [0; VERSION_BYTES], parts: [[0; 64]; 4], reserved: [0; VERSION_BYTES] };
    // SAFETY: the place has the layout of the header's struct.
    let ret = without_gil(py, || unsafe {
        c_function!(aclsysGetCANNVersion: fn(i32, *mut Version) -> i32)(name.0, &mut found)
    });
    let dict = PyDict::new(py);
    if ret == 0 {
        dict.set_item("version", text(found.version.as_ptr()))?;
        let names = ["major_version", "minor_version", "release_version", "patch_version"];
        for (name, part) in names.iter().zip(&found.parts) {
            dict.set_item(name, text(part.as_ptr()))?;
        }
        dict.set_item("reserved", text(found.reserved.as_ptr()))?;
    }
    Ok((dict, ret))
}

/// Calls aclsysGetVersionStr.
#[pyfunction(name = "get_version_str")]
pub(crate) fn acl_get_version_str(py: Python<'_>, pkg_name: Text) -> (Option<String>, i32) {
    let mut found = [0 as c_char; 2 * VERSION_BYTES];
    let get = c_function!(aclsysGetVersionStr: fn(*const c_char, *mut c_char) -> i32);
    // SAFETY: the name ends with a NUL; the place is larger than any version.
    let ret = without_gil(py, || unsafe { get(pkg_name.0.as_ptr(), found.as_mut_ptr()) });
    (text(found.as_ptr()), ret)
}

/// Calls aclGetCannAttributeList.
#[pyfunction(name = "get_cann_attribute_list")]
pub(crate) fn acl_get_cann_attribute_list(py: Python<'_>) -> (Vec<i32>, usize, i32) {
    let get = c_function!(aclGetCannAttributeList: fn(*mut *const i32, *mut usize) -> i32);
    without_gil(py, || {
        let (mut list, mut count) = (std::ptr::null::<i32>(), 0);
        // SAFETY: the places are there for the call.
        let ret = unsafe { get(&mut list, &mut count) };
        if ret != 0 || list.is_null() {
            return (Vec::new(), 0, ret);
        }
        // SAFETY: the library told where the list is and how long; it stays for good.
        (unsafe { std::slice::from_raw_parts(list, count) }.to_vec(), count, ret)
    })
}

/// Writes a line to the log of the runtime, with the function and line of the caller.
#[pyfunction(name = "app_log")]
pub(crate) fn acl_app_log(py: Python<'_>, level: Number<i32>, msg: Text) -> PyResult<()> {
    type Log = unsafe extern "C" fn(i32, *const c_char, *const c_char, u32, *const c_char, ...);
    let frame = py.import("sys")?.call_method0("_getframe")?;
    let code = frame.getattr("f_code")?;
    let code_attribute = |name: &str| -> PyResult<CString> {
        Ok(CString::new(code.getattr(name)?.extract::<String>()?)?)
    };
    let (function, file) = (code_attribute("co_name")?, code_attribute("co_filename")?);
    let line = frame.getattr("f_lineno")?.extract::<Option<u32>>()?.unwrap_or(0);
    // SAFETY: the library exports this name with this signature.
    let log = unsafe { std::mem::transmute::<usize, Log>(crate::library::c_functions().aclAppLog) };
    without_gil(py, || {
        let (function, file, msg) = (function.as_ptr(), file.as_ptr(), msg.0.as_ptr());
        // SAFETY: every text ends with a NUL, and the format takes one text.
        unsafe { log(level.0, function, file, line, c"%s".as_ptr(), msg) };
    });
    Ok(())
}

/// Calls aclGetTensorDescDimRange.
#[pyfunction(name = "get_tensor_desc_dim_range")]
pub(crate) fn acl_get_tensor_desc_dim_range(
    py: Python<'_>,
    desc: Number<usize>,
    index: Number<usize>,
    dim_range_num: Number<usize>,
) -> PyResult<(Vec<i64>, i32)> {
    if dim_range_num.0 > 4096 {
        return Err(PyValueError::new_err(format!(
            "dim_range_num is {}: at most 4096",
            dim_range_num.0
        )));
    }
    let mut range = vec![0; dim_range_num.0];
    let get = c_function!(aclGetTensorDescDimRange: fn(usize, usize, usize, *mut i64) -> i32);
    // SAFETY: the buffer holds as many as the length says.
    let ret =
        without_gil(py, || unsafe { get(desc.0, index.0, dim_range_num.0, range.as_mut_ptr()) });
    Ok((if ret == 0 { range } else { Vec::new() }, ret))
}

/// The name and width in bytes of what an attribute of a stream is.
fn stream_attribute(attr: i32) -> Option<(&'static str, usize)> {
    match attr {
        1 => Some(("failureMode", 8)),
        2 => Some(("overflowSwitch", 4)),
        3 => Some(("userCustomTag", 4)),
        4 => Some(("cacheOpInfoSwitch", 4)),
        5 => Some(("streamPriority", 4)),
        _ => None,
    }
}

/// Calls aclrtSetStreamAttribute.
#[pyfunction(name = "set_stream_attribute")]
pub(crate) fn rt_set_stream_attribute(
    py: Python<'_>,
    stream: Number<usize>,
    attr: Number<i32>,
    value: Bound<'_, PyDict>,
) -> PyResult<i32> {
    let mut words = [0u64; 2];
    if let Some((name, width)) = stream_attribute(attr.0) {
        check_keys(&value, "argument 'value': the dict", &[name])?;
        let (item, context) = (
            field(&value, "argument 'value': the dict", name)?,
            format!("argument 'value': '{name}'"),
        );
        words[0] = match width {
            8 => integer(&item, &context)?,
            _ => u64::from(integer::<u32>(&item, &context)?),
        };
    }
    let set = c_function!(aclrtSetStreamAttribute: fn(usize, i32, *const [u64; 2]) -> i32);
    // SAFETY: the place has the size and alignment of the header's union.
    Ok(without_gil(py, || unsafe { set(stream.0, attr.0, &words) }))
}

/// Calls aclrtGetStreamAttribute.
#[pyfunction(name = "get_stream_attribute")]
pub(crate) fn rt_get_stream_attribute(
    py: Python<'_>,
    stream: Number<usize>,
    attr: Number<i32>,
) -> PyResult<(Bound<'_, PyDict>, i32)> {
    let mut found = [0u64; 2];
    let get = c_function!(aclrtGetStreamAttribute: fn(usize, i32, *mut [u64; 2]) -> i32);
    // SAFETY: the place has the size and alignment of the header's union.
    let ret = without_gil(py, || unsafe { get(stream.0, attr.0, &mut found) });
    let dict = PyDict::new(py);
    if let Some((name, width)) = stream_attribute(attr.0).filter(|_| ret == 0) {
        let bytes = found[0].to_ne_bytes();
        let value = match width {
            8 => found[0],
            _ => u64::from(u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])),
        };
        dict.set_item(name, value)?;
    }
    Ok((dict, ret))
}

/// The item of a dict, which must be there.
pub(crate) fn field<'py>(
    dict: &Bound<'py, PyDict>,
    context: &str,
    name: &str,
) -> PyResult<Bound<'py, PyAny>> {
    let missing = || PyTypeError::new_err(format!("{context} needs '{name}'"));
    dict.get_item(name)?.ok_or_else(missing)
}

/// An attribute of a configured allocation, as the header lays it out.
#[repr(C)]
struct MallocAttribute {
    attr: i32,
    value: [u8; 8],
}

/// A configuration, as the header lays it out.
#[repr(C)]
struct MallocConfig {
    attrs: *const MallocAttribute,
    count: usize,
}

/// What each attribute of an allocation is called, by number.
const MALLOC_VALUES: [&str; 4] = ["rsv", "moduleId", "deviceId", "vaFlag"];

/// Fails if a dict has other keys than these.
pub(crate) fn check_keys(dict: &Bound<'_, PyDict>, context: &str, names: &[&str]) -> PyResult<()> {
    for key in dict.keys() {
        if !key.extract::<String>().is_ok_and(|key| names.contains(&key.as_str())) {
            let names = names.join("', '");
            return Err(PyTypeError::new_err(format!(
                "{context} has the key {}, and may have '{names}'",
                key.repr()?
            )));
        }
    }
    Ok(())
}

/// Reads `{'numAttrs': n, 'attrs': [{'attr': kind, 'value': {'moduleId' or 'deviceId' or 'vaFlag' or 'rsv': int}}]}`.
fn attributes(cfg: &Bound<'_, PyDict>) -> PyResult<Vec<MallocAttribute>> {
    let context = "argument 'cfg':";
    check_keys(cfg, "argument 'cfg': the dict", &["numAttrs", "attrs"])?;
    if cfg.is_empty() {
        return Ok(Vec::new());
    }
    let list = field(cfg, "argument 'cfg': the dict", "attrs")?;
    let count: usize = integer(
        &field(cfg, "argument 'cfg': the dict", "numAttrs")?,
        &format!("{context} 'numAttrs'"),
    )?;
    let list = items(&list, &format!("{context} 'attrs'"), malloc_attribute)?;
    match count == list.len() {
        true => Ok(list),
        false => Err(PyTypeError::new_err(format!(
            "{context} 'numAttrs' is {count} and 'attrs' has {} items",
            list.len()
        ))),
    }
}

/// Reads a dict.
pub(crate) fn dict<'py>(value: &Bound<'py, PyAny>, what: &str) -> PyResult<Bound<'py, PyDict>> {
    let wrong = |_| PyTypeError::new_err(format!("{what} must be a dict"));
    value.cast::<PyDict>().cloned().map_err(wrong)
}

fn malloc_attribute(item: &Bound<'_, PyAny>, context: &str) -> PyResult<MallocAttribute> {
    let item = dict(item, context)?;
    check_keys(&item, context, &["attr", "value"])?;
    let attr: i32 =
        integer(&field(&item, "argument 'cfg': the dict", "attr")?, &format!("{context}, 'attr'"))?;
    let context = format!("{context}, 'value'");
    let value = dict(&field(&item, "argument 'cfg': the dict", "value")?, &context)?;
    let value_name = usize::try_from(attr).ok().and_then(|attr| MALLOC_VALUES.get(attr)).copied();
    let mut bytes = [0; 8];
    if let Some(name) = value_name {
        check_keys(&value, &context, &[name])?;
        let (value, context) =
            (field(&value, "argument 'cfg': the dict", name)?, format!("{context}, '{name}'"));
        match name {
            "moduleId" => {
                bytes[..2].copy_from_slice(&integer::<u16>(&value, &context)?.to_ne_bytes())
            }
            "rsv" => bytes = integer::<u64>(&value, &context)?.to_ne_bytes(),
            _ => bytes[..4].copy_from_slice(&integer::<u32>(&value, &context)?.to_ne_bytes()),
        }
    }
    Ok(MallocAttribute { attr, value: bytes })
}

/// Calls aclrtMallocWithCfg; an empty dict is no configuration.
#[pyfunction(name = "malloc_with_cfg")]
pub(crate) fn rt_malloc_with_cfg(
    py: Python<'_>,
    size: Number<usize>,
    policy: Number<i32>,
    cfg: Bound<'_, PyDict>,
) -> PyResult<(usize, i32)> {
    let attributes = attributes(&cfg)?;
    let mut found = 0;
    let malloc =
        c_function!(aclrtMallocWithCfg: fn(*mut usize, usize, i32, *const MallocConfig) -> i32);
    let ret = without_gil(py, || {
        let config = MallocConfig { attrs: attributes.as_ptr(), count: attributes.len() };
        let config = if attributes.is_empty() { std::ptr::null() } else { &raw const config };
        // SAFETY: the places are there for the call and laid out as in the header.
        unsafe { malloc(&mut found, size.0, policy.0, config) }
    });
    Ok((found, ret))
}

/// Calls aclrtMallocHostWithCfg; an empty dict is no configuration.
#[pyfunction(name = "malloc_host_with_cfg")]
pub(crate) fn rt_malloc_host_with_cfg(
    py: Python<'_>,
    size: Number<u64>,
    cfg: Bound<'_, PyDict>,
) -> PyResult<(usize, i32)> {
    let attributes = attributes(&cfg)?;
    let mut found = 0;
    let malloc =
        c_function!(aclrtMallocHostWithCfg: fn(*mut usize, u64, *const MallocConfig) -> i32);
    let ret = without_gil(py, || {
        let config = MallocConfig { attrs: attributes.as_ptr(), count: attributes.len() };
        let config = if attributes.is_empty() { std::ptr::null() } else { &raw const config };
        // SAFETY: the places are there for the call and laid out as in the header.
        unsafe { malloc(&mut found, size.0, config) }
    });
    Ok((found, ret))
}

/// Calls aclrtPointerGetAttributes.
#[pyfunction(name = "pointer_get_attributes")]
pub(crate) fn rt_pointer_get_attributes(
    py: Python<'_>,
    ptr: Number<usize>,
) -> PyResult<(Bound<'_, PyDict>, i32)> {
    #[repr(C)]
    #[derive(Default)]
    struct Attributes {
        location: Location,
        page_size: u32,
        rsv: [u32; 4],
    }
    let mut found = Attributes::default();
    // SAFETY: the place has the layout of the header's struct.
    let ret = without_gil(py, || unsafe {
        c_function!(aclrtPointerGetAttributes: fn(usize, *mut Attributes) -> i32)(ptr.0, &mut found)
    });
    let dict = PyDict::new(py);
    if ret == 0 {
        let location = PyDict::new(py);
        location.set_item("id", found.location.id)?;
        location.set_item("type", found.location.kind)?;
        dict.set_item("location", location)?;
        dict.set_item("page_size", found.page_size)?;
        dict.set_item("rsv", found.rsv.to_vec())?;
    }
    Ok((dict, ret))
}

/// Calls aclrtGetPrimaryCtxState. C reserves the flags and takes no place for them: they are 0.
#[pyfunction(name = "get_primary_ctx_state")]
pub(crate) fn rt_get_primary_ctx_state(py: Python<'_>, device_id: Number<i32>) -> (i32, u32, i32) {
    let mut active = 0;
    let get = c_function!(aclrtGetPrimaryCtxState: fn(i32, *mut u32, *mut i32) -> i32);
    // SAFETY: the place is there for the call.
    let ret = without_gil(py, || unsafe { get(device_id.0, std::ptr::null_mut(), &mut active) });
    (active, 0, ret)
}

/// Calls aclopInferShape.
#[pyfunction(name = "infer_shape")]
pub(crate) fn op_infer_shape(
    py: Python<'_>,
    op_type: Text,
    in_desc: Numbers<usize>,
    in_buf: Numbers<usize>,
    num_out: Number<i32>,
    out_desc: Numbers<usize>,
    attr: Number<usize>,
) -> PyResult<i32> {
    in_buf.matches("in_buf", &in_desc, "in_desc")?;
    if num_out.0 < 0 || num_out.0 as usize > out_desc.0.len() {
        return Err(PyValueError::new_err(format!(
            "num_out is {} and out_desc has {} items",
            num_out.0,
            out_desc.0.len()
        )));
    }
    let infer = c_function!(aclopInferShape: fn(*const c_char, i32, *const usize, *const usize, i32, *const usize, usize) -> i32);
    Ok(without_gil(py, || {
        let (inputs, buffers, outputs) =
            (in_desc.0.as_ptr(), in_buf.0.as_ptr(), out_desc.0.as_ptr());
        // SAFETY: the lists are as long as their lengths say; it checks the handles in them.
        unsafe {
            infer(op_type.0.as_ptr(), in_desc.count(), inputs, buffers, num_out.0, outputs, attr.0)
        }
    }))
}

/// Calls aclopRegisterCompileFunc. There is no function of C behind a callable here: the one that C gets refuses.
#[pyfunction(name = "register_compile_func")]
pub(crate) fn op_register_compile_func(py: Python<'_>, op_type: Text, func: Callable) -> i32 {
    extern "C" fn refuse() -> i32 {
        FEATURE_NOT_SUPPORTED
    }
    let _ = func;
    let register =
        c_function!(aclopRegisterCompileFunc: fn(*const c_char, extern "C" fn() -> i32) -> i32);
    // SAFETY: the name ends with a NUL, and the function looks at no argument.
    without_gil(py, || unsafe { register(op_type.0.as_ptr(), refuse) })
}
