//! The C++ functions that call the user and stop exceptions.

use crate::process;
use cairn_runtime::callbacks::StateFunction;
use cairn_runtime::error::{Code, Error};
use cairn_runtime::memory::external::CallbackException;
use cairn_runtime::task::HostFunction;
use std::ffi::{CStr, c_char, c_void};
use std::sync::Arc;

/// Takes a formatted line: level, function, file, line, text.
pub type LogSink = unsafe extern "C" fn(u32, *const c_char, *const c_char, u32, *const c_char);

pub use crate::ge::abi::CairnCallContext as CallContext;

/// Calls a function of the user's allocator. `call` gives what a trampoline gives: false after an exception, whose
/// text the context has. If the function ends its thread, `on_exit` is called in its place and this never returns. If it
/// forked, the call fails in the child: a worker may have held a lock, and no worker is there to release it.
pub fn call_user(
    on_exit: &dyn Fn(),
    call: impl FnOnce(&CallContext) -> bool,
) -> Result<(), CallbackException> {
    let mut text = [0 as c_char; 1024];
    let (message, message_size) = (text.as_mut_ptr(), text.len());
    let has_returned = with_exit(on_exit, |on_exit, context| {
        call(&CallContext { on_exit: Some(on_exit), context, message, message_size })
    });
    if process::forked() {
        return Err(CallbackException("it forked, and a child has no devices".into()));
    }
    if has_returned {
        return Ok(());
    }
    // SAFETY: trampolines end what they write with a NUL, and nothing written is an empty text.
    let text = unsafe { CStr::from_ptr(text.as_ptr()) };
    Err(CallbackException(text.to_string_lossy().into_owned()))
}

/// A function with its context, as trampolines take what they call when a user function ends its thread.
type OnExit = unsafe extern "C" fn(context: *const c_void);

/// Hands `on_exit` to a trampoline, which calls it at most while `call` runs.
fn with_exit<T>(on_exit: &dyn Fn(), call: impl FnOnce(OnExit, *const c_void) -> T) -> T {
    unsafe extern "C" fn forward(context: *const c_void) {
        // SAFETY: the context is the reference below, on a frame that is still there.
        (unsafe { &*context.cast::<&dyn Fn()>() })();
    }
    call(forward, std::ptr::from_ref(&on_exit).cast())
}

/// A user function and its argument, which it hands over to whichever thread calls it.
#[derive(Clone, Copy)]
pub struct UserFunction {
    /// The function.
    pub function: *const c_void,
    /// What it is called with.
    pub argument: *mut c_void,
}

// SAFETY: the user passes function and argument for calls from other threads; both are only carried there.
unsafe impl Send for UserFunction {}
// SAFETY: as above.
unsafe impl Sync for UserFunction {}

impl HostFunction for UserFunction {
    fn call(&self, on_exit: &dyn Fn()) -> Result<(), Error> {
        let UserFunction { function, argument } = *self;
        let has_returned = with_exit(on_exit, |on_exit, context| {
            // SAFETY: the user passed the function as one that takes this argument.
            unsafe { cairn_call_host_function(function, argument, on_exit, context) }
        });
        let text = || {
            format!(
                "the host function at {function:p} threw a C++ exception (argument {argument:p})"
            )
        };
        if has_returned { Ok(()) } else { Err(Error::new(Code::Internal, text())) }
    }
}

/// How a state callback is called: function, subject, state, argument, and whom to call if it ends its thread.
type StateCaller =
    unsafe extern "C" fn(*const c_void, usize, u32, *mut c_void, OnExit, *const c_void) -> bool;

impl UserFunction {
    /// The function as a callback of streams; its type must be `aclrtStreamStateCallback`.
    pub fn of_streams(self) -> StateFunction {
        self.of_states(cairn_call_stream_state)
    }

    /// The function as a callback of devices; its type must be `aclrtDeviceStateCallback`.
    pub fn of_devices(self) -> StateFunction {
        self.of_states(cairn_call_device_state)
    }

    /// The function as a callback of communicators; its type must be `HcclCommStateCallback`.
    pub fn of_communicators(self) -> StateFunction {
        self.of_states(cairn_call_communicator_state)
    }

    /// The function as a callback that `caller` calls.
    fn of_states(self, caller: StateCaller) -> StateFunction {
        Arc::new(move |subject, state, on_exit| {
            let UserFunction { function, argument } = { self };
            with_exit(on_exit, |on_exit, context| {
                // SAFETY: the user passed the function as one of the type that `caller` calls.
                unsafe { caller(function, subject, state, argument, on_exit, context) }
            })
        })
    }
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
        call_context: *const CallContext,
    ) -> bool;
    /// Calls `void *function(void *object, size_t bytes, void *near)`.
    pub fn cairn_call_allocator_advise(
        function: *const c_void,
        object: *mut c_void,
        bytes: usize,
        near: *mut c_void,
        block: *mut *mut c_void,
        call_context: *const CallContext,
    ) -> bool;
    /// Calls `void *function(void *block)`.
    pub fn cairn_call_allocator_address(
        function: *const c_void,
        block: *mut c_void,
        address: *mut *mut c_void,
        call_context: *const CallContext,
    ) -> bool;
    /// Calls `void function(void *object, void *block)`.
    pub fn cairn_call_allocator_free(
        function: *const c_void,
        object: *mut c_void,
        block: *mut c_void,
        call_context: *const CallContext,
    ) -> bool;
    /// Calls `void function(void *)`.
    pub fn cairn_call_host_function(
        function: *const c_void,
        argument: *mut c_void,
        on_exit: OnExit,
        context: *const c_void,
    ) -> bool;
    /// Calls a stream state callback.
    pub fn cairn_call_stream_state(
        function: *const c_void,
        stream: usize,
        state: u32,
        argument: *mut c_void,
        on_exit: OnExit,
        context: *const c_void,
    ) -> bool;
    /// Calls a communicator state callback; its result has no effect.
    pub fn cairn_call_communicator_state(
        function: *const c_void,
        communicator: usize,
        state: u32,
        argument: *mut c_void,
        on_exit: OnExit,
        context: *const c_void,
    ) -> bool;
    /// Calls a device state callback.
    pub fn cairn_call_device_state(
        function: *const c_void,
        device: usize,
        state: u32,
        argument: *mut c_void,
        on_exit: OnExit,
        context: *const c_void,
    ) -> bool;
    /// The body of `aclAppLog`.
    pub fn cairn_app_log_variadic();
    /// Whether `aclAppLog` has anything to do.
    pub static mut cairn_app_log_enabled: Option<extern "C" fn(level: u32) -> bool>;
    /// Where `aclAppLog` leaves the formatted text.
    pub static mut cairn_app_log: Option<LogSink>;
}
