//! Capture of graphs: not there yet ([`crate::unsupported`]). What asks about it gets the truth.

use crate::abi;
use crate::door::{Handle, entry, runtime, write};
use cairn_runtime::error::Error;

entry! {
    /// Whether a stream captures, and into what: none does.
    fn aclmdlRICaptureGetInfo(stream: Handle, status: *mut abi::aclmdlRICaptureStatus, model: *mut abi::aclmdlRI) {
        if stream.is_null() || (status.is_null() && model.is_null()) {
            return Err(Error::invalid("stream, and status or modelRI, must not be null"));
        }
        runtime()?.stream(stream as usize)?;
        if !status.is_null() {
            // SAFETY: not null; valid for writes of the status.
            unsafe { write(status, "status", abi::ACL_MODEL_RI_CAPTURE_STATUS_NONE)? };
        }
        if !model.is_null() {
            // SAFETY: not null; valid for writes of the handle.
            unsafe { write(model, "modelRI", std::ptr::null_mut())? };
        }
        Ok(())
    }
}
