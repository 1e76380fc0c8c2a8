//! Calls that end streams, and with them what is registered there.

use crate::{
    allocator::{ended, sweep},
    arguments::Number,
    interpreter::waiting,
    seats::{Registration, on_stream},
    twin,
};
use pyo3::prelude::*;

/// Calls aclFinalize.
#[pyfunction(name = "finalize")]
pub(crate) fn acl_finalize(py: Python<'_>) -> i32 {
    // SAFETY: takes nothing.
    let ret = waiting(py, || unsafe { twin!(aclFinalize: fn() -> i32)() });
    sweep(py);
    ret
}

/// Calls aclFinalizeReference.
#[pyfunction(name = "finalize_reference")]
pub(crate) fn acl_finalize_reference(py: Python<'_>) -> (u64, i32) {
    let mut count = 0;
    // SAFETY: the place is there for the call.
    let ret =
        waiting(py, || unsafe { twin!(aclFinalizeReference: fn(*mut u64) -> i32)(&mut count) });
    sweep(py);
    (count, ret)
}

macro_rules! ending {
    ($ident:ident, $name:literal, $twin:ident, $argument:ident: $kind:ty, $before:expr, $after:expr) => {
        #[doc = concat!("Calls ", stringify!($twin), ".")]
        #[pyfunction(name = $name)]
        pub(crate) fn $ident(py: Python<'_>, $argument: Number<$kind>) -> i32 {
            let before = $before($argument.0);
            // SAFETY: the library checks the handle or number.
            let ret = waiting(py, || unsafe { twin!($twin: fn($kind) -> i32)($argument.0) });
            $after(py, $argument.0, before, ret)
        }
    };
}

/// Looks for streams that have ended with their device or context.
fn swept<T>(py: Python<'_>, _: T, _: (), ret: i32) -> i32 {
    if ret == 0 {
        sweep(py);
    }
    ret
}

fn nothing<T>(_: T) {}

fn end_stream(_: Python<'_>, stream: usize, known: Option<Registration>, ret: i32) -> i32 {
    ended(stream, known, ret)
}

ending!(rt_reset_device, "reset_device", aclrtResetDevice, device_id: i32, nothing, swept);
ending!(rt_reset_device_force, "reset_device_force", aclrtResetDeviceForce, device_id: i32, nothing, swept);
ending!(rt_destroy_context, "destroy_context", aclrtDestroyContext, context: usize, nothing, swept);
ending!(rt_destroy_stream, "destroy_stream", aclrtDestroyStream, stream: usize, on_stream, end_stream);
ending!(rt_destroy_stream_force, "destroy_stream_force", aclrtDestroyStreamForce, stream: usize, on_stream, end_stream);
