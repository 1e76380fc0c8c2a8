//! `aclIntArray`, `aclFloatArray`, `aclBoolArray`: lists of plain values, behind handles.

use super::{nn_entry, nn_not_null, values};
use crate::abi::{aclBoolArray, aclFloatArray, aclIntArray};
use crate::door::{runtime, value_entry, write};
use cairn_runtime::error::Result;
use cairn_runtime::handle::HandleObject;
use smallvec::SmallVec;
use std::ptr::null_mut;
use std::sync::Arc;

/// What an array handle names.
pub struct Array<T: Copy>(pub SmallVec<[T; 8]>);

impl HandleObject for Array<i64> {
    const KIND: &'static str = "list of integers";
}

impl HandleObject for Array<f32> {
    const KIND: &'static str = "list of numbers";
}

impl HandleObject for Array<bool> {
    const KIND: &'static str = "list of booleans";
}

/// Makes an array of what the user passes.
fn create<T: Copy>(items: impl ExactSizeIterator<Item = T>) -> Result<usize>
where
    Array<T>: HandleObject,
{
    runtime()?.handles.insert(Arc::new(Array(items.collect())))
}

/// The array behind a handle of the user.
pub fn find<T: Copy>(handle: usize, parameter: &str) -> Result<Arc<Array<T>>>
where
    Array<T>: HandleObject,
{
    nn_not_null(handle as *const u8, parameter)?;
    runtime()?.handles.get(handle)
}

fn destroy<T: Copy>(handle: usize) -> Result<()>
where
    Array<T>: HandleObject,
{
    if handle != 0 {
        runtime()?.handles.remove::<Array<T>>(handle)?;
    }
    Ok(())
}

fn size<T: Copy>(handle: usize, size: *mut u64) -> Result<()>
where
    Array<T>: HandleObject,
{
    let array = find::<T>(handle, "array")?;
    nn_not_null(size, "size")?;
    // SAFETY: not null; the user passes room for one number.
    unsafe { write(size, "size", array.0.len() as u64) }
}

value_entry! {
    /// A list with a copy of the integers.
    fn aclCreateIntArray(value: *const i64, count: u64) -> *mut aclIntArray, else null_mut(), {
        // SAFETY: the caller passes this many.
        Ok(create(unsafe { values(value, count, "value") }?)? as *mut aclIntArray)
    }

    /// A list with a copy of the numbers.
    fn aclCreateFloatArray(value: *const f32, count: u64) -> *mut aclFloatArray, else null_mut(), {
        // SAFETY: the caller passes this many.
        Ok(create(unsafe { values(value, count, "value") }?)? as *mut aclFloatArray)
    }

    /// A list with a copy of the booleans.
    fn aclCreateBoolArray(value: *const bool, count: u64) -> *mut aclBoolArray, else null_mut(), {
        // SAFETY: the caller passes this many; read as bytes, whatever they are.
        let bytes = unsafe { values(value.cast::<u8>(), count, "value") }?;
        Ok(create(bytes.map(|byte| byte != 0))? as *mut aclBoolArray)
    }
}

nn_entry! {
    /// Destroys a list; null is fine.
    fn aclDestroyIntArray(array: *const aclIntArray) {
        destroy::<i64>(array as usize)
    }

    /// Destroys a list; null is fine.
    fn aclDestroyFloatArray(array: *const aclFloatArray) {
        destroy::<f32>(array as usize)
    }

    /// Destroys a list; null is fine.
    fn aclDestroyBoolArray(array: *const aclBoolArray) {
        destroy::<bool>(array as usize)
    }

    /// How many there are.
    fn aclGetIntArraySize(array: *const aclIntArray, count: *mut u64) {
        size::<i64>(array as usize, count)
    }

    /// How many there are.
    fn aclGetFloatArraySize(array: *const aclFloatArray, count: *mut u64) {
        size::<f32>(array as usize, count)
    }

    /// How many there are.
    fn aclGetBoolArraySize(array: *const aclBoolArray, count: *mut u64) {
        size::<bool>(array as usize, count)
    }
}
