//! The C++ functions that call the user and stop exceptions.

use std::ffi::c_void;

unsafe extern "C" {
    /// Calls `void function(void *)`.
    pub fn cairn_call_host_function(function: *const c_void, argument: *mut c_void) -> bool;
    /// Calls a stream state callback.
    pub fn cairn_call_stream_state(
        function: *const c_void,
        stream: usize,
        state: u32,
        argument: *mut c_void,
    ) -> bool;
    /// Calls a device state callback.
    pub fn cairn_call_device_state(
        function: *const c_void,
        device: usize,
        state: u32,
        argument: *mut c_void,
    ) -> bool;
    /// The body of `aclAppLog`.
    pub fn cairn_app_log_variadic();
}
