//! The C++ functions that call the user and stop exceptions.

use std::ffi::{c_char, c_void};

/// Takes a formatted line: level, function, file, line, text.
pub type LogSink = unsafe extern "C" fn(u32, *const c_char, *const c_char, u32, *const c_char);

/// What happens to a callback that does not return a result.
#[repr(C)]
pub struct Guard {
    /// Called in its place when it ends its thread, which then stays parked.
    pub left: unsafe extern "C" fn(context: *const c_void),
    /// The argument of `left`.
    pub context: *const c_void,
    /// Where the text of an exception goes, with its NUL.
    pub said: *mut c_char,
    /// How long it may be.
    pub room: usize,
}

unsafe extern "C" {
    /// An array that the user ends with `delete[]`; null when there is no memory.
    pub fn cairn_new_numbers(count: usize) -> *mut i64;
    /// Calls `void *function(void *object, size_t bytes)`; false after an exception.
    pub fn cairn_call_allocator_alloc(
        function: *const c_void,
        object: *mut c_void,
        bytes: usize,
        block: *mut *mut c_void,
        guard: *const Guard,
    ) -> bool;
    /// Calls `void *function(void *object, size_t bytes, void *near)`.
    pub fn cairn_call_allocator_advise(
        function: *const c_void,
        object: *mut c_void,
        bytes: usize,
        near: *mut c_void,
        block: *mut *mut c_void,
        guard: *const Guard,
    ) -> bool;
    /// Calls `void *function(void *block)`.
    pub fn cairn_call_allocator_address(
        function: *const c_void,
        block: *mut c_void,
        address: *mut *mut c_void,
        guard: *const Guard,
    ) -> bool;
    /// Calls `void function(void *object, void *block)`.
    pub fn cairn_call_allocator_free(
        function: *const c_void,
        object: *mut c_void,
        block: *mut c_void,
        guard: *const Guard,
    ) -> bool;
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
