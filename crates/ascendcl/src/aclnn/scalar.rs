//! `aclScalar`: a number with a type, behind a handle.

use super::{nn_entry, nn_not_null};
use crate::abi::{aclDataType, aclScalar};
use crate::door::{runtime, value_entry};
use cairn_runtime::error::{Error, Result};
use cairn_runtime::handle::HandleObject;
use cairn_tensor::DType;
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::Arc;

/// What a scalar handle names.
pub struct Scalar(pub cairn_tensor::Scalar);

impl HandleObject for Scalar {
    const KIND: &'static str = "scalar";
}

/// The scalar behind a handle of the user.
pub fn find(handle: *const aclScalar, parameter: &str) -> Result<Arc<Scalar>> {
    nn_not_null(handle, parameter)?;
    runtime()?.handles.get(handle as usize)
}

value_entry! {
    /// A scalar with a copy of the value.
    fn aclCreateScalar(value: *mut c_void, dtype: aclDataType) -> *mut aclScalar, else null_mut(), {
        nn_not_null(value, "value")?;
        let unknown = || Error::invalid(format!("dataType = {dtype}: there are no scalars of this type"));
        let element_type = DType::from_number(dtype).ok_or_else(unknown)?;
        let length = element_type.size_in_bytes().filter(|bytes| *bytes <= 16).ok_or_else(unknown)?;
        let mut bytes = [0; 16];
        // SAFETY: not null; the caller passes one value of the type.
        unsafe { value.cast::<u8>().copy_to_nonoverlapping(bytes.as_mut_ptr(), length) };
        let scalar = cairn_tensor::Scalar::read(&bytes[..length], element_type).ok_or_else(unknown)?;
        Ok(runtime()?.handles.insert(Arc::new(Scalar(scalar)))? as *mut aclScalar)
    }
}

nn_entry! {
    /// Destroys a scalar; null is fine.
    fn aclDestroyScalar(scalar: *const aclScalar) {
        if !scalar.is_null() {
            runtime()?.handles.remove::<Scalar>(scalar as usize)?;
        }
        Ok(())
    }
}
