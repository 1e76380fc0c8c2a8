//! `aclDataBuffer`: an address with a length, behind a handle. It owns no memory, and neither
//! address nor length is checked before an operator uses them: (NULL, 0) is an input that is absent.

use crate::abi::aclDataBuffer;
use crate::door::{entry, not_null, runtime, value_entry};
use cairn_runtime::error::Result;
use cairn_runtime::handle::HandleObject;
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::{Arc, Mutex, PoisonError};

/// What a buffer handle names.
pub struct DataBuffer(Mutex<Span>);

/// Where the data is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The first byte, in device or host memory; 0 for none.
    pub address: usize,
    /// Bytes.
    pub length: usize,
}

impl HandleObject for DataBuffer {
    const KIND: &'static str = "data buffer";
}

impl DataBuffer {
    /// Where the data is now.
    pub fn span(&self) -> Span {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Points it to other memory.
    pub fn set(&self, span: Span) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = span;
    }
}

/// The buffer behind a handle of the user.
pub fn find(handle: *const aclDataBuffer, parameter: &str) -> Result<Arc<DataBuffer>> {
    not_null(handle, parameter)?;
    runtime()?.handles.get(handle as usize)
}

value_entry! {
    /// A buffer over `size` bytes at `data`.
    fn aclCreateDataBuffer(data: *mut c_void, size: usize) -> *mut aclDataBuffer, else null_mut(), {
        let span = Span { address: data as usize, length: size };
        let handle = runtime()?.handles.insert(Arc::new(DataBuffer(Mutex::new(span))))?;
        Ok(handle as *mut aclDataBuffer)
    }

    /// The address that the buffer points to.
    fn aclGetDataBufferAddr(buffer: *const aclDataBuffer) -> *mut c_void, else null_mut(), {
        Ok(find(buffer, "dataBuffer")?.span().address as *mut c_void)
    }

    /// The lower 32 bits of the length, as the original has it; a loss is logged.
    fn aclGetDataBufferSize(buffer: *const aclDataBuffer) -> u32, else 0, {
        let length = find(buffer, "dataBuffer")?.span().length;
        if u32::try_from(length).is_err() {
            log::warn!(
                "aclGetDataBufferSize: {length} bytes do not fit 32 bits: \
                 use aclGetDataBufferSizeV2"
            );
        }
        Ok(length as u32)
    }

    /// The length of the buffer in bytes.
    fn aclGetDataBufferSizeV2(buffer: *const aclDataBuffer) -> usize, else 0, {
        Ok(find(buffer, "dataBuffer")?.span().length)
    }
}

entry! {
    /// Destroys the buffer, not the memory that it points to.
    fn aclDestroyDataBuffer(buffer: *const aclDataBuffer) {
        not_null(buffer, "dataBuffer")?;
        runtime()?.handles.remove::<DataBuffer>(buffer as usize)?;
        Ok(())
    }

    /// Points the buffer to other memory.
    fn aclUpdateDataBuffer(buffer: *mut aclDataBuffer, data: *mut c_void, size: usize) {
        find(buffer, "dataBuffer")?.set(Span { address: data as usize, length: size });
        Ok(())
    }
}
