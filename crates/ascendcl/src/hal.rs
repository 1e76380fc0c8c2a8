//! The driver: functions of `libascend_hal.so` that need no runtime.

use std::ffi::c_int;

const SUCCESS: c_int = 0;
/// `DRV_ERROR_INVALID_VALUE`.
const INVALID: c_int = 3;

/// How many devices the machine has, whatever this process may see of them. It starts nothing, and works
/// in any process: torch_npu asks it before it forks.
///
/// # Safety
/// `count` is null or points to writable memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn drvGetDevNum(count: *mut u32) -> c_int {
    let Ok(devices) = cairn_runtime::config::device_count() else { return INVALID };
    if count.is_null() {
        return INVALID;
    }
    // SAFETY: not null, and the caller vouches for the rest.
    unsafe { count.write_unaligned(devices as u32) };
    SUCCESS
}
