//! `aclTensorList`, `aclScalarList`: lists that own what is in them, behind handles.

use super::scalar::Scalar;
use super::tensor::Tensor;
use super::{nn_entry, nn_not_null, values};
use crate::abi::{aclScalar, aclScalarList, aclTensor, aclTensorList};
use crate::door::{runtime, value_entry, write};
use cairn_runtime::error::{Error, Result};
use cairn_runtime::handle::HandleObject;
use std::ptr::null_mut;
use std::sync::Arc;

/// What a list handle names: each member with its own handle; `None` for null.
pub struct List<T>(pub Vec<Option<(usize, Arc<T>)>>);

impl HandleObject for List<Tensor> {
    const KIND: &'static str = "list of tensors";
}

impl HandleObject for List<Scalar> {
    const KIND: &'static str = "list of scalars";
}

fn create<T: HandleObject>(members: impl ExactSizeIterator<Item = usize>) -> Result<usize>
where
    List<T>: HandleObject,
{
    let runtime = runtime()?;
    let member = |(at, handle): (usize, usize)| match handle {
        0 => Ok(None),
        _ => match runtime.handles.get::<T>(handle) {
            Ok(object) => Ok(Some((handle, object))),
            Err(error) => Err(Error { text: format!("value[{at}]: {}", error.text), ..error }),
        },
    };
    let members: Result<_> = members.enumerate().map(member).collect();
    runtime.handles.insert(Arc::new(List(members?)))
}

/// The list behind a handle of the user.
pub fn find<T: HandleObject>(handle: usize, parameter: &str) -> Result<Arc<List<T>>>
where
    List<T>: HandleObject,
{
    nn_not_null(handle as *const u8, parameter)?;
    runtime()?.handles.get(handle)
}

/// Destroys the list and its members; a member that was destroyed before is no matter.
fn destroy<T: HandleObject>(handle: usize) -> Result<()>
where
    List<T>: HandleObject,
{
    if handle == 0 {
        return Ok(());
    }
    let handles = &runtime()?.handles;
    for (handle, _) in handles.remove::<List<T>>(handle)?.0.iter().flatten() {
        let _ = handles.remove::<T>(*handle);
    }
    Ok(())
}

fn size<T: HandleObject>(handle: usize, parameter: &str, size: *mut u64) -> Result<()>
where
    List<T>: HandleObject,
{
    let list = find::<T>(handle, parameter)?;
    nn_not_null(size, "size")?;
    // SAFETY: not null; the user passes room for one number.
    unsafe { write(size, "size", list.0.len() as u64) }
}

value_entry! {
    /// A list of tensors, which it owns.
    fn aclCreateTensorList(value: *const *const aclTensor, count: u64)
        -> *mut aclTensorList, else null_mut(),
    {
        // SAFETY: the caller passes this many.
        let members = unsafe { values(value, count, "value") }?.map(|handle| handle as usize);
        Ok(create::<Tensor>(members)? as *mut aclTensorList)
    }

    /// A list of scalars, which it owns.
    fn aclCreateScalarList(value: *const *const aclScalar, count: u64)
        -> *mut aclScalarList, else null_mut(),
    {
        // SAFETY: the caller passes this many.
        let members = unsafe { values(value, count, "value") }?.map(|handle| handle as usize);
        Ok(create::<Scalar>(members)? as *mut aclScalarList)
    }
}

nn_entry! {
    /// Destroys a list and its tensors; null is fine.
    fn aclDestroyTensorList(list: *const aclTensorList) {
        destroy::<Tensor>(list as usize)
    }

    /// Destroys a list and its scalars; null is fine.
    fn aclDestroyScalarList(list: *const aclScalarList) {
        destroy::<Scalar>(list as usize)
    }

    /// How many there are.
    fn aclGetTensorListSize(list: *const aclTensorList, count: *mut u64) {
        size::<Tensor>(list as usize, "tensorList", count)
    }

    /// How many there are.
    fn aclGetScalarListSize(list: *const aclScalarList, count: *mut u64) {
        size::<Scalar>(list as usize, "scalarList", count)
    }
}
