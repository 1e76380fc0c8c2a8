//! Contexts and system parameters.

use crate::abi;
use crate::door::{self, Handle, entry, out_entry, runtime, write};
use cairn_runtime::error::{Code, Error, Result};
use std::sync::atomic::{AtomicI64, Ordering};

/// Parameters of the process; 0 until they are set.
static PARAMS: [AtomicI64; 4] = [const { AtomicI64::new(0) }; 4];

/// The index of a parameter that there is.
fn param_index(opt: abi::aclSysParamOpt) -> Result<usize> {
    match opt as usize {
        at if at < PARAMS.len() => Ok(at),
        _ => Err(Error::refused(format!(
            "system parameter {opt}: expected 0 to {}",
            PARAMS.len() - 1
        ))),
    }
}

out_entry! {
    /// A new context on a device, current in the calling thread.
    fn aclrtCreateContext(context = "context", device: i32) {
        Ok(runtime()?.create_context(i64::from(device))?.handle())
    }
}

entry! {
    /// Destroys a context made by `aclrtCreateContext`.
    fn aclrtDestroyContext(context: Handle) {
        door::not_null(context, "context")?;
        runtime()?.destroy_context(context as usize)
    }

    /// Makes a context current on the calling thread.
    fn aclrtSetCurrentContext(context: Handle) {
        door::not_null(context, "context")?;
        runtime()?.set_current_context(context as usize)
    }

    /// The calling thread's context.
    fn aclrtGetCurrentContext(context: *mut Handle) {
        door::not_null(context, "context")?;
        let current = runtime()?.current_context()?;
        // SAFETY: not null; valid for writes of the handle.
        unsafe { write(context, "context", current.handle() as Handle) }
    }

    /// The handle of the stream that a null stream means.
    fn aclrtCtxGetCurrentDefaultStream(stream: *mut Handle) {
        door::not_null(stream, "stream")?;
        let current = runtime()?.current_context()?;
        // SAFETY: not null; valid for writes of the handle.
        unsafe { write(stream, "stream", current.default_handle() as Handle) }
    }

    /// Sets a parameter of the calling thread's context.
    fn aclrtCtxSetSysParamOpt(opt: abi::aclSysParamOpt, value: i64) {
        let at = param_index(opt)?;
        runtime()?.current_context()?.set_param(at, value);
        Ok(())
    }

    /// A parameter of the calling thread's context; it must have been set.
    fn aclrtCtxGetSysParamOpt(opt: abi::aclSysParamOpt, value: *mut i64) {
        let at = param_index(opt)?;
        door::not_null(value, "value")?;
        let param = runtime()?.current_context()?.param(at).ok_or_else(|| {
            Error::new(Code::SysParamNotSet, format!("system parameter {opt} was not set in this context"))
        })?;
        // SAFETY: not null; valid for writes of the value.
        unsafe { write(value, "value", param) }
    }

    /// Sets a parameter of the process.
    fn aclrtSetSysParamOpt(opt: abi::aclSysParamOpt, value: i64) {
        PARAMS[param_index(opt)?].store(value, Ordering::Release);
        Ok(())
    }

    /// A parameter of the process.
    fn aclrtGetSysParamOpt(opt: abi::aclSysParamOpt, value: *mut i64) {
        let at = param_index(opt)?;
        // SAFETY: null or valid for writes of the value.
        unsafe { write(value, "value", PARAMS[at].load(Ordering::Acquire)) }
    }

    /// Whether a device's primary context exists.
    fn aclrtGetPrimaryCtxState(device: i32, flags: *mut u32, active: *mut i32) {
        if !flags.is_null() {
            return Err(Error::invalid("the argument flags is reserved and must be null"));
        }
        door::not_null(active, "active")?;
        let is_active = runtime()?.is_primary_active(i64::from(device))?;
        // SAFETY: not null; valid for writes of the answer.
        unsafe { write(active, "active", i32::from(is_active)) }
    }
}
