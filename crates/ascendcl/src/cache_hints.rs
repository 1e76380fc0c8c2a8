//! Hints about the caches of a device: checked, and without effect, as a CPU keeps its caches itself.

use crate::abi;
use crate::door::{self, Handle, entry, runtime, write};
use cairn_exec::device_tasks::write_bytes;
use cairn_runtime::error::{Error, Result};
use cairn_runtime::task::Location;
use std::ffi::c_void;

/// Bytes of the description of a range: its address, and how many bytes it has.
const DESC_BYTES: usize = 16;

fn check_range(address: Handle, size: usize, argument: &str) -> Result<()> {
    door::not_null(address, argument)?;
    match size {
        0 => Err(Error::invalid("size 0: it must be positive")),
        _ => runtime()?.current_context().map(drop),
    }
}

fn check_kind(kind: abi::aclrtCmoType, last: abi::aclrtCmoType) -> Result<()> {
    match kind > last {
        true => Err(Error::invalid(format!("cmoType {kind}: expected 0 to {last}"))),
        false => Ok(()),
    }
}

entry! {
    /// A hint for a range, in stream order.
    fn aclrtCmoAsync(source: Handle, size: usize, type_: abi::aclrtCmoType, stream: Handle) {
        check_range(source, size, "src")?;
        check_kind(type_, abi::ACL_RT_CMO_TYPE_FLUSH)?;
        runtime()?.stream(stream as usize).map(drop)
    }

    /// Bytes of a description of a range.
    fn aclrtCmoGetDescSize(size: *mut usize) {
        door::not_null(size, "size")?;
        // SAFETY: not null; valid for writes of the size.
        unsafe { write(size, "size", DESC_BYTES) }
    }

    /// Describes a range in device memory.
    fn aclrtCmoSetDesc(desc: Handle, source: Handle, size: usize) {
        check_range(desc, DESC_BYTES, "cmoDesc")?;
        check_range(source, size, "src")?;
        let mut bytes = [0u8; DESC_BYTES];
        bytes[..8].copy_from_slice(&(source as usize).to_le_bytes());
        bytes[8..].copy_from_slice(&size.to_le_bytes());
        let to = (desc as usize, Location::AnyDevice);
        write_bytes("aclrtCmoSetDesc", &runtime()?.shared.memory, to, &bytes)
    }

    /// A hint for the range that is described: only to fetch it.
    fn aclrtCmoAsyncWithDesc(desc: Handle, type_: abi::aclrtCmoType, stream: Handle, reserve: *const c_void) {
        check_range(desc, DESC_BYTES, "cmoDesc")?;
        check_kind(type_, abi::ACL_RT_CMO_TYPE_PREFETCH)?;
        if !reserve.is_null() {
            return Err(Error::refused("reserve must be null"));
        }
        runtime()?.stream(stream as usize).map(drop)
    }

    /// Nothing is in a cache that memory has not.
    fn aclrtMemFlush(address: Handle, size: usize) {
        check_range(address, size, "devPtr")
    }

    /// The same.
    fn aclrtMemInvalidate(address: Handle, size: usize) {
        check_range(address, size, "devPtr")
    }
}
