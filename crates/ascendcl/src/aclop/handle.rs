//! `aclopHandle`: an operator with its descriptions and attributes, to be run on buffers.

use super::call::{Call, buffers, descriptions, operator};
use super::execute::cast;
use crate::abi::{aclDataBuffer, aclTensorDesc, aclopAttr, aclopHandle, aclrtStream};
use crate::door::{entry, not_null, runtime, value_entry, write};
use cairn_exec::Shapes;
use cairn_runtime::error::Result;
use cairn_runtime::handle::HandleObject;
use std::ffi::{c_char, c_int};
use std::ptr::null_mut;
use std::sync::Arc;

/// What an operator handle names.
struct OperatorObject(Call);

impl HandleObject for OperatorObject {
    const KIND: &'static str = "operator handle";
}

/// Gives a call to the user; null after a failure.
///
/// # Safety
/// `handle` is null or points to writable memory.
unsafe fn give(handle: *mut *mut aclopHandle, make: impl FnOnce() -> Result<Call>) -> Result<()> {
    // SAFETY: as the caller vouches.
    unsafe { write(handle, "handle", null_mut()) }?;
    let created = runtime()?.handles.insert(Arc::new(OperatorObject(make()?)))?;
    // SAFETY: as the caller vouches.
    unsafe { write(handle, "handle", created as *mut aclopHandle) }
}

value_entry! {
    /// Forgets an operator; null is fine.
    fn aclopDestroyHandle(handle: *mut aclopHandle) -> (), else (), {
        if !handle.is_null() {
            runtime()?.handles.remove::<OperatorObject>(handle as usize)?;
        }
        Ok(())
    }
}

entry! {
    /// Remembers an operator.
    fn aclopCreateHandle(
        name: *const c_char,
        inputs: c_int,
        input_descs: *const *const aclTensorDesc,
        outputs: c_int,
        output_descs: *const *const aclTensorDesc,
        attributes: *const aclopAttr,
        handle: *mut *mut aclopHandle,
    ) {
        // SAFETY: the caller passes a name, lists of these lengths and a place, or null.
        unsafe {
            give(handle, || {
                let inputs = descriptions(input_descs, inputs, "inputDesc")?;
                let outputs = descriptions(output_descs, outputs, "outputDesc")?;
                Call::new(operator(name)?, &inputs, &outputs, attributes)
            })
        }
    }

    /// Remembers a conversion.
    fn aclopCreateHandleForCast(
        from: *mut aclTensorDesc,
        to: *mut aclTensorDesc,
        _truncate: u8,
        handle: *mut *mut aclopHandle,
    ) {
        // SAFETY: the caller passes a pointer to the handle, or null.
        unsafe { give(handle, || cast(from, to)) }
    }

    /// Submits a remembered operator.
    fn aclopExecWithHandle(
        handle: *mut aclopHandle,
        inputs: c_int,
        input_buffers: *const *const aclDataBuffer,
        outputs: c_int,
        output_buffers: *const *mut aclDataBuffer,
        stream: aclrtStream,
    ) {
        not_null(handle, "handle")?;
        let operator = runtime()?.handles.get::<OperatorObject>(handle as usize)?;
        // SAFETY: the caller passes lists of these lengths, or null.
        let (inputs, outputs) = unsafe {
            (buffers(input_buffers, inputs, "inputs")?, buffers(output_buffers.cast(), outputs, "outputs")?)
        };
        operator.0.run(&inputs, &outputs, stream, (Shapes::Known, &[]))
    }
}
