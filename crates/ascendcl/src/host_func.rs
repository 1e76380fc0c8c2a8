//! Functions of the user that run in stream order on the host.

use crate::abi;
use crate::door::{Handle, entry, runtime};
use crate::trampoline::UserFunction;
use cairn_runtime::error::Error;
use cairn_runtime::task::{Body, Task};
use std::ffi::c_void;
use std::sync::Arc;

entry! {
    /// Runs a function at its place in the stream, which waits for it.
    fn aclrtLaunchHostFunc(stream: Handle, function: abi::aclrtHostFunc, args: *mut c_void) {
        let function = function.ok_or_else(|| Error::null("fn"))?;
        let body = Body::Host(Arc::new(UserFunction { function: function as *const c_void, argument: args }));
        runtime()?.stream(stream as usize)?.submit(Task::bare("aclrtLaunchHostFunc", body)).map(drop)
    }
}
