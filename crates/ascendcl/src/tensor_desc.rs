//! `aclTensorDesc`: what a tensor looks like, without its data, behind a handle.
//!
//! A description knows two views of one tensor. The *origin* is the one in the source framework; the
//! getters show it. The *storage* is what lies in memory, where that differs. Threads may share a
//! description; a call sees it before or after another, never in between.

mod description;

use crate::abi::*;
use crate::door::{entry, not_null, runtime, value_entry, write};
use cairn_runtime::error::{Error, Result};
use cairn_tensor::{DType, Format};
pub use description::{Description, TensorDesc, copied, is_open};
use description::{MAX_DIMS, UNKNOWN_RANK, element, shape};
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr::null_mut;
use std::sync::Arc;

/// The description behind a handle of the user.
pub fn find(handle: *const aclTensorDesc, parameter: &str) -> Result<Arc<TensorDesc>> {
    not_null(handle, parameter)?;
    runtime()?.handles.get(handle as usize)
}

/// The shape that a setter takes; null is refused even for a scalar, as in the original.
///
/// # Safety
/// `dims` is null or points to `count` readable values.
unsafe fn required_shape(dims: *const i64, count: c_int) -> Result<Vec<i64>> {
    not_null(dims, "dims")?;
    // SAFETY: as the caller vouches.
    unsafe { shape(dims, count) }
}

value_entry! {
    /// A description with a copy of `dims`.
    fn aclCreateTensorDesc(dtype: aclDataType, count: c_int, dims: *const i64, format: aclFormat)
        -> *mut aclTensorDesc, else null_mut(),
    {
        let known = DType::from_number(dtype)
            .ok_or_else(|| Error::invalid(format!("dataType = {dtype} is no aclDataType")))?;
        // SAFETY: the caller passes `count` dimensions.
        let dims = unsafe { shape(dims, count) }?;
        Description::new(known, dims, Format(format)).into_handle()
    }

    /// Destroys a description; null is fine.
    fn aclDestroyTensorDesc(desc: *const aclTensorDesc) -> (), else (), {
        if !desc.is_null() {
            runtime()?.handles.remove::<TensorDesc>(desc as usize)?;
        }
        Ok(())
    }

    /// The address that a failed operator's report holds; other descriptions have none.
    fn aclGetTensorDescAddress(desc: *const aclTensorDesc) -> *mut c_void, else null_mut(), {
        find(desc, "desc")?;
        Ok(null_mut())
    }

    /// The description itself for index 0: there are no descriptions of several tensors yet.
    fn aclGetTensorDescByIndex(desc: *mut aclTensorDesc, index: usize)
        -> *mut aclTensorDesc, else null_mut(),
    {
        find(desc, "desc")?;
        element(&[desc], index, "tensors")
    }

    /// One dimension of the origin.
    fn aclGetTensorDescDim(desc: *const aclTensorDesc, index: usize) -> i64, else -1, {
        find(desc, "desc")?.lock().dim(index)
    }

    /// The number of elements; 0 while a dimension is unknown.
    fn aclGetTensorDescElementCount(desc: *const aclTensorDesc) -> usize, else 0, {
        find(desc, "desc")?.lock().count()
    }

    /// The origin's format.
    fn aclGetTensorDescFormat(desc: *const aclTensorDesc)
        -> aclFormat, else ACL_FORMAT_UNDEFINED,
    {
        Ok(find(desc, "desc")?.lock().format.0)
    }

    /// The name; valid until the next is set or the description is destroyed.
    fn aclGetTensorDescName(desc: *mut aclTensorDesc) -> *const c_char, else c"".as_ptr(), {
        Ok(find(desc, "desc")?.lock().name.as_ptr())
    }

    /// The number of the origin's dimensions, or ACL_UNKNOWN_RANK.
    fn aclGetTensorDescNumDims(desc: *const aclTensorDesc) -> usize, else 0, {
        let desc = find(desc, "desc")?;
        let state = desc.lock();
        let unknown = state.dims == [UNKNOWN_RANK];
        Ok(if unknown { ACL_UNKNOWN_RANK as usize } else { state.dims.len() })
    }

    /// Bytes of the data, packed where elements share a byte; 0 while they are unknown.
    fn aclGetTensorDescSize(desc: *const aclTensorDesc) -> usize, else 0, {
        find(desc, "desc")?.lock().size()
    }

    /// The type of the elements.
    fn aclGetTensorDescType(desc: *const aclTensorDesc) -> aclDataType, else ACL_DT_UNDEFINED, {
        Ok(find(desc, "desc")?.lock().dtype.number())
    }

    /// Sets the name to a copy; null empties it.
    fn aclSetTensorDescName(desc: *mut aclTensorDesc, name: *const c_char) -> (), else (), {
        let desc = find(desc, "desc")?;
        let name = if name.is_null() {
            CString::default()
        } else {
            // SAFETY: not null, and the caller passes a NUL-terminated string.
            unsafe { CStr::from_ptr(name) }.to_owned()
        };
        desc.lock().name = name;
        Ok(())
    }
}

entry! {
    /// The range of one dimension, as it was set.
    fn aclGetTensorDescDimRange(
        desc: *const aclTensorDesc,
        index: usize,
        capacity: usize,
        range: *mut i64,
    ) {
        let desc = find(desc, "desc")?;
        not_null(range, "dimRange")?;
        let found = element(&desc.lock().shape_range, index, "dimension ranges")?;
        if capacity < found.len() {
            return Err(Error::invalid(format!("dimRangeNum = {capacity}: a range takes 2")));
        }
        // SAFETY: the caller has room for `capacity` numbers, which are two at least.
        unsafe { write(range.cast::<[i64; 2]>(), "dimRange", found) }
    }

    /// One dimension of the origin, with a code.
    fn aclGetTensorDescDimV2(desc: *const aclTensorDesc, index: usize, dim: *mut i64) {
        let found = find(desc, "desc")?.lock().dim(index);
        not_null(dim, "dimSize")?;
        // SAFETY: the caller passes room for one number.
        unsafe { write(dim, "dimSize", found?) }
    }

    /// Makes the tensor a constant with a copy of the host data.
    fn aclSetTensorConst(desc: *mut aclTensorDesc, data: *mut c_void, length: usize) {
        let desc = find(desc, "desc")?;
        not_null(data, "dataBuffer")?;
        if length == 0 {
            return Err(Error::invalid("length = 0: a constant has data"));
        }
        // SAFETY: the caller passes `length` bytes.
        let data = unsafe { copied(data.cast::<u8>(), length, "dataBuffer") }?;
        desc.lock().constant = Some(Arc::new(data));
        Ok(())
    }

    /// Names the variable-length input that the tensor is a part of.
    fn aclSetTensorDynamicInput(desc: *mut aclTensorDesc, name: *const c_char) {
        let desc = find(desc, "desc")?;
        not_null(name, "dynamicInputName")?;
        // SAFETY: not null, and the caller passes a NUL-terminated string.
        let name = unsafe { CStr::from_ptr(name) }.to_owned();
        desc.lock().dynamic_input = Some(name);
        Ok(())
    }

    /// Sets the format in memory.
    fn aclSetTensorFormat(desc: *mut aclTensorDesc, format: aclFormat) {
        find(desc, "desc")?.lock().storage_format = Some(Format(format));
        Ok(())
    }

    /// Sets the origin's format.
    fn aclSetTensorOriginFormat(desc: *mut aclTensorDesc, format: aclFormat) {
        find(desc, "desc")?.lock().format = Format(format);
        Ok(())
    }

    /// Sets the origin's shape.
    fn aclSetTensorOriginShape(desc: *mut aclTensorDesc, count: c_int, dims: *const i64) {
        let desc = find(desc, "desc")?;
        // SAFETY: the caller passes `count` dimensions.
        desc.lock().dims = unsafe { required_shape(dims, count) }?;
        Ok(())
    }

    /// Tells where the data will be.
    fn aclSetTensorPlaceMent(desc: *mut aclTensorDesc, placement: aclMemType) {
        let desc = find(desc, "desc")?;
        if placement > ACL_MEMTYPE_HOST_COMPILE_INDEPENDENT {
            return Err(Error::invalid(format!("memType = {placement} is outside 0 to 2")));
        }
        desc.lock().placement = placement;
        Ok(())
    }

    /// Sets the shape in memory.
    fn aclSetTensorShape(desc: *mut aclTensorDesc, count: c_int, dims: *const i64) {
        let desc = find(desc, "desc")?;
        // SAFETY: the caller passes `count` dimensions.
        desc.lock().storage_dims = Some(unsafe { required_shape(dims, count) }?);
        Ok(())
    }

    /// Sets the least and greatest value of each dimension.
    fn aclSetTensorShapeRange(desc: *mut aclTensorDesc, count: usize, ranges: *mut [i64; 2]) {
        let desc = find(desc, "desc")?;
        if count > MAX_DIMS {
            return Err(Error::invalid(format!("dimsCount = {count} is over {MAX_DIMS}")));
        }
        // SAFETY: the caller passes `count` ranges.
        let ranges = unsafe { copied(ranges.cast_const(), count, "dimsRange") }?;
        desc.lock().shape_range = ranges;
        Ok(())
    }

    /// The older name of aclSetTensorFormat.
    fn aclSetTensorStorageFormat(desc: *mut aclTensorDesc, format: aclFormat) {
        find(desc, "desc")?.lock().storage_format = Some(Format(format));
        Ok(())
    }

    /// The older name of aclSetTensorShape.
    fn aclSetTensorStorageShape(desc: *mut aclTensorDesc, count: c_int, dims: *const i64) {
        let desc = find(desc, "desc")?;
        // SAFETY: the caller passes `count` dimensions.
        desc.lock().storage_dims = Some(unsafe { required_shape(dims, count) }?);
        Ok(())
    }

    /// Sets the least and greatest value of each element; a greatest of -1 after a least of 0 or more is none.
    fn aclSetTensorValueRange(desc: *mut aclTensorDesc, count: usize, ranges: *mut [i64; 2]) {
        let desc = find(desc, "desc")?;
        // SAFETY: the caller passes `count` ranges.
        let ranges = unsafe { copied(ranges.cast_const(), count, "valueRange") }?;
        if let Some(at) = ranges.iter().position(|range| range[0] > range[1] && !is_open(range)) {
            let range = ranges[at];
            return Err(Error::invalid(format!("valueRange[{at}] = {range:?}: the first is the least value")));
        }
        desc.lock().value_range = ranges;
        Ok(())
    }

    /// A new description of the type and shape in another format; null in `to` after a failure.
    fn aclTransTensorDescFormat(
        from: *const aclTensorDesc,
        format: aclFormat,
        to: *mut *mut aclTensorDesc,
    ) {
        let from = find(from, "srcDesc")?;
        // SAFETY: the caller passes room for one handle.
        unsafe { write(to, "dstDesc", null_mut()) }?;
        let reordered = from.lock().reordered(Format(format));
        // SAFETY: as above.
        unsafe { write(to, "dstDesc", reordered?.into_handle()?) }
    }
}
