//! The one function of HCCL that works without a communicator: its settings.

use crate::process;
use std::ffi::c_int;
use std::sync::atomic::{AtomicI32, Ordering};

const SUCCESS: c_int = 0;
const PARAMETER: c_int = 1;
const INTERNAL: c_int = 4;

/// The setting `HCCL_DETERMINISTIC`: all that a program can set today.
static DETERMINISTIC: AtomicI32 = AtomicI32::new(0);

/// Sets an option of collective communication; kept until there is any. `value` is the C union, of
/// which every member is an `int32_t`.
#[unsafe(no_mangle)]
pub extern "C" fn HcclSetConfig(config: c_int, value: i32) -> c_int {
    if process::forked() {
        return INTERNAL;
    }
    if config != 0 {
        crate::message::keep(
            "HcclSetConfig",
            PARAMETER,
            &format!("setting {config}: expected 0 (deterministic)"),
        );
        return PARAMETER;
    }
    DETERMINISTIC.store(value, Ordering::Relaxed);
    SUCCESS
}
