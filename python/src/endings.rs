//! Calls that end streams, and with them what is registered there.

use crate::{allocator::sweep, arguments::Number, interpreter::waiting, seats::forget, twin};
use pyo3::prelude::*;

/// Calls aclFinalize.
#[pyfunction(name = "finalize")]
pub(crate) fn acl_finalize(py: Python<'_>) -> i32 {
    // SAFETY: takes nothing.
    let ret = waiting(py, || unsafe { twin!(aclFinalize: fn() -> i32)() });
    sweep();
    ret
}

/// Calls aclFinalizeReference.
#[pyfunction(name = "finalize_reference")]
pub(crate) fn acl_finalize_reference(py: Python<'_>) -> (u64, i32) {
    let mut count = 0;
    // SAFETY: the place is there for the call.
    let ret =
        waiting(py, || unsafe { twin!(aclFinalizeReference: fn(*mut u64) -> i32)(&mut count) });
    sweep();
    (count, ret)
}

macro_rules! ending {
    ($ident:ident, $name:literal, $twin:ident, $argument:ident: $kind:ty, $after:expr) => {
        #[doc = concat!("Calls ", stringify!($twin), ".")]
        #[pyfunction(name = $name)]
        pub(crate) fn $ident(py: Python<'_>, $argument: Number<$kind>) -> i32 {
            // SAFETY: the library checks the handle or number.
            let ret = waiting(py, || unsafe { twin!($twin: fn($kind) -> i32)($argument.0) });
            if ret == 0 {
                $after;
            }
            ret
        }
    };
}

ending!(rt_reset_device, "reset_device", aclrtResetDevice, device_id: i32, sweep());
ending!(rt_reset_device_force, "reset_device_force", aclrtResetDeviceForce, device_id: i32, sweep());
ending!(rt_destroy_context, "destroy_context", aclrtDestroyContext, context: usize, sweep());
ending!(rt_destroy_stream, "destroy_stream", aclrtDestroyStream, stream: usize, forget(&[stream.0]));
ending!(rt_destroy_stream_force, "destroy_stream_force", aclrtDestroyStreamForce, stream: usize, forget(&[stream.0]));
