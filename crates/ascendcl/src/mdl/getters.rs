//! The getters of a description.

use super::description::{Described, TensorInfo, find};
use super::load::ORIGIN_NAMES;
use super::table;
use crate::abi::*;
use crate::door::{entry, not_null, string, value_entry, write};
use cairn_graph::offline::Gears;
use cairn_runtime::error::{Code, Error, Result};
use std::ffi::{CString, c_char};
use std::ptr::null;
use std::sync::Arc;

/// Inputs or outputs of a description.
type Side = fn(&Described) -> &[TensorInfo];

const INPUTS: Side = |described| &described.inputs;
const OUTPUTS: Side = |described| &described.outputs;

fn described(desc: *const aclmdlDesc) -> Result<Arc<Described>> {
    find(desc)?.described()
}

/// The tensor of an index.
fn tensor(described: &Described, side: Side, index: usize) -> Result<&TensorInfo> {
    let all = side(described);
    all.get(index).ok_or_else(|| {
        Error::invalid(format!("index = {index} is out of range: there are {} tensors", all.len()))
    })
}

/// Reads from a tensor.
fn read<T>(
    desc: *const aclmdlDesc,
    side: Side,
    index: usize,
    what: impl FnOnce(&TensorInfo) -> T,
) -> Result<T> {
    Ok(what(tensor(&*described(desc)?, side, index)?))
}

/// Writes the index of a tensor, by its name or its name in `aclmdlIODims`.
///
/// # Safety
/// `name` is null or a NUL-terminated string, `index` null or room for a number.
unsafe fn write_index(
    desc: *const aclmdlDesc,
    side: Side,
    name: *const c_char,
    index: *mut usize,
) -> Result<()> {
    let described = described(desc)?;
    // SAFETY: as the caller vouches.
    let name = unsafe { string(name, "name") }?;
    not_null(index, "index")?;
    let is = |one: &CString| one.as_bytes() == name.as_bytes();
    let all = side(&described);
    let found = all.iter().position(|one| is(&one.name) || is(one.listed_name()));
    let found = found.ok_or_else(|| {
        let names: Vec<String> = all.iter().map(|one| one.name.to_string_lossy().into()).collect();
        Error::invalid(format!("name = {name}: the names are {}", names.join(", ")))
    })?;
    // SAFETY: as the caller vouches.
    unsafe { write(index, "index", found) }
}

/// Writes a shape of a tensor.
///
/// # Safety
/// `dims` is null or points to writable memory.
unsafe fn write_dims(
    desc: *const aclmdlDesc,
    side: Side,
    index: usize,
    dims: *mut aclmdlIODims,
    which: impl FnOnce(&TensorInfo) -> &[i64],
) -> Result<()> {
    let described = described(desc)?;
    not_null(dims, "dims")?;
    let tensor = tensor(&described, side, index)?;
    // SAFETY: as the caller vouches.
    unsafe { write(dims, "dims", tensor.io_dims(which(tensor))?) }
}

value_entry! {
    /// The number of inputs.
    fn aclmdlGetNumInputs(desc: *mut aclmdlDesc) -> usize, else 0, {
        Ok(described(desc)?.inputs.len())
    }

    /// The number of outputs.
    fn aclmdlGetNumOutputs(desc: *mut aclmdlDesc) -> usize, else 0, {
        Ok(described(desc)?.outputs.len())
    }

    /// Bytes of an input.
    fn aclmdlGetInputSizeByIndex(desc: *mut aclmdlDesc, index: usize) -> usize, else 0, {
        read(desc, INPUTS, index, |one| one.bytes)
    }

    /// Bytes of an output.
    fn aclmdlGetOutputSizeByIndex(desc: *mut aclmdlDesc, index: usize) -> usize, else 0, {
        read(desc, OUTPUTS, index, |one| one.bytes)
    }

    /// The name of an input; valid until the description is refilled or destroyed.
    fn aclmdlGetInputNameByIndex(desc: *const aclmdlDesc, index: usize)
        -> *const c_char, else c"".as_ptr(),
    {
        read(desc, INPUTS, index, |one| one.name.as_ptr())
    }

    /// The name of an output; likewise.
    fn aclmdlGetOutputNameByIndex(desc: *const aclmdlDesc, index: usize)
        -> *const c_char, else c"".as_ptr(),
    {
        read(desc, OUTPUTS, index, |one| one.name.as_ptr())
    }

    /// The format of an input.
    fn aclmdlGetInputFormat(desc: *const aclmdlDesc, index: usize)
        -> aclFormat, else ACL_FORMAT_UNDEFINED,
    {
        read(desc, INPUTS, index, |one| one.format.0)
    }

    /// The format of an output.
    fn aclmdlGetOutputFormat(desc: *const aclmdlDesc, index: usize)
        -> aclFormat, else ACL_FORMAT_UNDEFINED,
    {
        read(desc, OUTPUTS, index, |one| one.format.0)
    }

    /// The element type of an input.
    fn aclmdlGetInputDataType(desc: *const aclmdlDesc, index: usize)
        -> aclDataType, else ACL_DT_UNDEFINED,
    {
        read(desc, INPUTS, index, |one| one.dtype.number())
    }

    /// The element type of an output.
    fn aclmdlGetOutputDataType(desc: *const aclmdlDesc, index: usize)
        -> aclDataType, else ACL_DT_UNDEFINED,
    {
        read(desc, OUTPUTS, index, |one| one.dtype.number())
    }

    /// The full name, by a name of `aclmdlIODims`.
    fn aclmdlGetTensorRealName(desc: *const aclmdlDesc, name: *const c_char)
        -> *const c_char, else null(),
    {
        let described = described(desc)?;
        // SAFETY: the caller passes a string or null.
        let name = unsafe { string(name, "name") }?;
        let is = |one: &CString| one.as_bytes() == name.as_bytes();
        let mut all = described.inputs.iter().chain(&described.outputs);
        let found = all.find(|one| is(&one.name) || is(one.listed_name()));
        match found {
            Some(one) => Ok(one.name.as_ptr()),
            None => Err(Error::invalid(format!("name = {name}: the model has no tensor of this name"))),
        }
    }

    /// The operators that an operator was fused from; empty if there are none.
    fn aclmdlGetOpAttr(desc: *mut aclmdlDesc, operator: *const c_char, attr: *const c_char)
        -> *const c_char, else null(),
    {
        let described = described(desc)?;
        // SAFETY: the caller passes strings or null.
        let (operator, attr) = unsafe { (string(operator, "opName")?, string(attr, "attr")?) };
        if attr != ORIGIN_NAMES {
            return Err(Error::invalid(format!("attr = {attr}: only {ORIGIN_NAMES} is known")));
        }
        if described.id == 0 {
            return Err(Error::invalid("modelDesc is of a model that is not loaded"));
        }
        Ok(described.origin_names.get(&operator).map_or(c"".as_ptr(), |names| names.as_ptr()))
    }
}

entry! {
    /// The shape of an input.
    fn aclmdlGetInputDims(desc: *const aclmdlDesc, index: usize, dims: *mut aclmdlIODims) {
        // SAFETY: the caller passes room for the sizes, or null.
        unsafe { write_dims(desc, INPUTS, index, dims, |one| &one.dims) }
    }

    /// The shape of an input as the user passes it.
    fn aclmdlGetInputDimsV2(desc: *const aclmdlDesc, index: usize, dims: *mut aclmdlIODims) {
        // SAFETY: the caller passes room for the sizes, or null.
        unsafe { write_dims(desc, INPUTS, index, dims, |one| &one.fed_dims) }
    }

    /// The shape of an output.
    fn aclmdlGetOutputDims(desc: *const aclmdlDesc, index: usize, dims: *mut aclmdlIODims) {
        // SAFETY: the caller passes room for the sizes, or null.
        unsafe { write_dims(desc, OUTPUTS, index, dims, |one| &one.dims) }
    }

    /// The shape of an output in the gear set last.
    fn aclmdlGetCurOutputDims(desc: *const aclmdlDesc, index: usize, dims: *mut aclmdlIODims) {
        let described = described(desc)?;
        not_null(dims, "dims")?;
        let output = tensor(&described, OUTPUTS, index)?;
        let model = &described.model;
        if model.gears == Gears::None && output.dims.iter().any(|dim| *dim < 0) {
            return Err(Error::new(
                Code::ApiNotSupported,
                format!("output {index} has dimensions that each run decides: read its tensor description after a run"),
            ));
        }
        let gear = match model.gears {
            Gears::None => None,
            _ => table::find(described.id)?.gear(),
        };
        let known = gear.and_then(|gear| model.output_dims.get(gear)?.get(index));
        // SAFETY: not null; the caller passes room for the sizes.
        unsafe { write(dims, "dims", output.io_dims(known.unwrap_or(&output.dims))?) }
    }

    /// The ranges of the dimensions of an input.
    fn aclmdlGetInputDimsRange(
        desc: *const aclmdlDesc,
        index: usize,
        ranges: *mut aclmdlIODimsRange,
    ) {
        let described = described(desc)?;
        not_null(ranges, "dimsRange")?;
        let input = tensor(&described, INPUTS, index)?;
        let count = input.ranges.len();
        let mut filled = aclmdlIODimsRange { rangeCount: count, range: [[0; 2]; ACL_MAX_DIM_CNT as usize] };
        if count > filled.range.len() {
            return Err(Error::new(
                Code::StorageOverLimit,
                format!("the tensor has {count} dimensions: aclmdlIODimsRange has room for {ACL_MAX_DIM_CNT}"),
            ));
        }
        for (to, (low, high)) in filled.range.iter_mut().zip(&input.ranges) {
            *to = [*low, *high];
        }
        // SAFETY: not null; the caller passes room for the ranges.
        unsafe { write(ranges, "dimsRange", filled) }
    }

    /// The index of an input.
    fn aclmdlGetInputIndexByName(desc: *const aclmdlDesc, name: *const c_char, index: *mut usize) {
        // SAFETY: the caller passes a string and room for the index, or null.
        unsafe { write_index(desc, INPUTS, name, index) }
    }

    /// The index of an output.
    fn aclmdlGetOutputIndexByName(desc: *const aclmdlDesc, name: *const c_char, index: *mut usize) {
        // SAFETY: the caller passes a string and room for the index, or null.
        unsafe { write_index(desc, OUTPUTS, name, index) }
    }
}
