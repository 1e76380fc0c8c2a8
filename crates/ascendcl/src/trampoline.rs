//! The C++ functions that call the user and stop exceptions.

use cairn_runtime::memory::external::Thrown;
use std::ffi::{CStr, c_char, c_void};

/// Takes a formatted line: level, function, file, line, text.
pub type LogSink = unsafe extern "C" fn(u32, *const c_char, *const c_char, u32, *const c_char);

pub use crate::ge::abi::CairnGuard as Guard;

/// Calls a function of the user's allocator. `call` gives what a trampoline gives: false after an exception, whose
/// text the guard has. If the function ends its thread, `left` is called in its place and this never returns.
pub fn guarded(left: &dyn Fn(), call: impl FnOnce(&Guard) -> bool) -> Result<(), Thrown> {
    unsafe extern "C" fn forward(context: *const c_void) {
        // SAFETY: the context is the reference below, on a frame that is still there.
        (unsafe { &*context.cast::<&dyn Fn()>() })();
    }
    let mut said = [0 as c_char; 256];
    let guard = Guard {
        left: Some(forward),
        context: std::ptr::from_ref(&left).cast(),
        said: said.as_mut_ptr(),
        room: said.len(),
    };
    if call(&guard) {
        return Ok(());
    }
    // SAFETY: trampolines end what they write with a NUL, and nothing written is an empty text.
    let text = unsafe { CStr::from_ptr(said.as_ptr()) };
    Err(Thrown(text.to_string_lossy().into_owned()))
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
        left: unsafe extern "C" fn(context: *const c_void),
        context: *const c_void,
    ) -> bool;
    /// Calls a device state callback.
    pub fn cairn_call_device_state(
        function: *const c_void,
        device: usize,
        state: u32,
        argument: *mut c_void,
        left: unsafe extern "C" fn(context: *const c_void),
        context: *const c_void,
    ) -> bool;
    /// The body of `aclAppLog`.
    pub fn cairn_app_log_variadic();
    /// Whether `aclAppLog` has anything to do.
    pub static mut cairn_app_log_enabled: Option<extern "C" fn(level: u32) -> bool>;
    /// Where `aclAppLog` leaves the formatted text.
    pub static mut cairn_app_log: Option<LogSink>;
}
