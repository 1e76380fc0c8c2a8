//! Physical memory that processes share: shareable handles.

use crate::abi;
use crate::door::{self, Handle, entry, runtime, write};
use cairn_runtime::error::{Error, Result};
use cairn_runtime::memory::raw;
use cairn_runtime::memory::sharing::{Key, SharedKind};
use std::ffi::c_void;

/// The most processes that one call names.
const MAX_PIDS: usize = 65535;
/// Bytes of a fabric handle; the first eight are the key.
const FABRIC: usize = 128;

/// The processes of a white list.
///
/// # Safety
/// `pids` is null or points to so many numbers.
pub unsafe fn pids(pids: *const i32, count: usize) -> Result<Vec<i32>> {
    door::not_null(pids, "pid")?;
    if count == 0 {
        return Err(Error::invalid("the list of processes is empty"));
    }
    if count > MAX_PIDS {
        return Err(Error::invalid(format!("{count} processes: at most {MAX_PIDS} may be named")));
    }
    // SAFETY: the caller vouches for it.
    let pids = unsafe { raw::copy_array(pids, count, "pid")? };
    match pids.iter().find(|&&pid| pid <= 0) {
        Some(pid) => Err(Error::refused(format!("pid {pid} is no process"))),
        None => Ok(pids),
    }
}

/// Whether any process may import.
fn is_open(flags: u64) -> Result<bool> {
    match flags {
        0 | 1 => Ok(flags == 1),
        _ => Err(Error::refused(format!("flags {flags}: expected 0 (white list) or 1 (open)"))),
    }
}

/// The key in a handle of the user.
///
/// # Safety
/// `handle` is null or points to a handle of the type.
unsafe fn read_key(handle: *const c_void, kind: abi::aclrtMemSharedHandleType) -> Result<Key> {
    door::not_null(handle, "shareableHandle")?;
    check_kind(kind)?;
    // SAFETY: not null; both types begin with the number.
    Ok(Key(unsafe { handle.cast::<u64>().read_unaligned() }))
}

fn check_kind(kind: abi::aclrtMemSharedHandleType) -> Result<()> {
    match kind {
        abi::ACL_MEM_SHARE_HANDLE_TYPE_DEFAULT | abi::ACL_MEM_SHARE_HANDLE_TYPE_FABRIC => Ok(()),
        other => {
            Err(Error::invalid(format!("shareType {other}: expected 1 (default) or 2 (fabric)")))
        }
    }
}

fn set_pids(key: Key, pids: &[i32]) -> Result<()> {
    runtime()?.shared.memory.sharing().allow(key, SharedKind::Physical, pids)
}

entry! {
    /// A number under which other processes import physical memory.
    fn aclrtMemExportToShareableHandle(handle: Handle, kind: abi::aclrtMemHandleType, flags: u64, shareable: *mut u64) {
        door::not_null(handle, "handle")?;
        door::not_null(shareable, "shareableHandle")?;
        if kind != abi::ACL_MEM_HANDLE_TYPE_NONE {
            return Err(Error::invalid(format!("handleType {kind}: it must be 0 (none)")));
        }
        let key = runtime()?.export_physical(handle as usize, is_open(flags)?)?;
        // SAFETY: not null; valid for writes of the number.
        unsafe { write(shareable, "shareableHandle", key.0) }
    }

    /// The same, as a number or a fabric handle.
    fn aclrtMemExportToShareableHandleV2(handle: Handle, flags: u64, kind: abi::aclrtMemSharedHandleType, shareable: *mut c_void) {
        door::not_null(handle, "handle")?;
        door::not_null(shareable, "shareableHandle")?;
        check_kind(kind)?;
        let key = runtime()?.export_physical(handle as usize, is_open(flags)?)?;
        if kind == abi::ACL_MEM_SHARE_HANDLE_TYPE_FABRIC {
            // SAFETY: not null; the user passes a fabric handle.
            unsafe { shareable.cast::<u8>().write_bytes(0, FABRIC) };
        }
        // SAFETY: not null; both types have room for the number.
        unsafe { write(shareable.cast::<u64>(), "shareableHandle", key.0) }
    }

    /// Names processes that may import.
    fn aclrtMemSetPidToShareableHandle(shareable: u64, list: *mut i32, count: usize) {
        // SAFETY: null or so many numbers of the user.
        set_pids(Key(shareable), &unsafe { pids(list, count)? })
    }

    /// The same.
    fn aclrtMemSetPidToShareableHandleV2(shareable: *mut c_void, kind: abi::aclrtMemSharedHandleType, list: *mut i32, count: usize) {
        // SAFETY: null or a handle of the type.
        let key = unsafe { read_key(shareable, kind)? };
        // SAFETY: null or so many numbers of the user.
        set_pids(key, &unsafe { pids(list, count)? })
    }

    /// Physical memory of another process.
    fn aclrtMemImportFromShareableHandle(shareable: u64, device: i32, handle: *mut Handle) {
        // SAFETY: null or valid for writes of the handle.
        unsafe { write(handle, "handle", std::ptr::null_mut())? };
        let imported = runtime()?.import_physical(Key(shareable), device, false)?;
        // SAFETY: not null; valid for writes of the handle.
        unsafe { write(handle, "handle", imported as Handle) }
    }

    /// The same, on the current device.
    fn aclrtMemImportFromShareableHandleV2(shareable: *mut c_void, kind: abi::aclrtMemSharedHandleType, flags: u64, handle: *mut Handle) {
        // SAFETY: null or valid for writes of the handle.
        unsafe { write(handle, "handle", std::ptr::null_mut())? };
        // SAFETY: null or a handle of the type.
        let key = unsafe { read_key(shareable, kind)? };
        if flags != 0 {
            return Err(Error::refused(format!("flags {flags}: it must be 0")));
        }
        let runtime = runtime()?;
        let device = runtime.current_device()? as i32;
        let imported = runtime.import_physical(key, device, true)?;
        // SAFETY: not null; valid for writes of the handle.
        unsafe { write(handle, "handle", imported as Handle) }
    }
}
