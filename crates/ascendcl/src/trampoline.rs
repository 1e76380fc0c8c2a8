//! The C++ functions that call the user and stop exceptions.

use std::ffi::{c_char, c_void};

/// Takes a formatted line: level, function, file, line, text.
pub type LogSink = unsafe extern "C" fn(u32, *const c_char, *const c_char, u32, *const c_char);

unsafe extern "C" {
    /// Calls `void function(void *)`.
    pub fn cairn_call_host_function(
        function: *const c_void,
        argument: *mut c_void,
        left: unsafe extern "C" fn(context: *const c_void),
        context: *const c_void,
    ) -> bool;
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
    /// Whether `aclAppLog` has anything to do.
    pub static mut cairn_app_log_enabled: Option<extern "C" fn(level: u32) -> bool>;
    /// Where `aclAppLog` leaves the formatted text.
    pub static mut cairn_app_log: Option<LogSink>;
}
