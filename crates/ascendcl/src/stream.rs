//! Streams.

use crate::abi::{self, aclrtStreamConfigHandle};
use crate::device::limit;
use crate::door::{self, Handle, entry, out_entry, runtime, value_entry, write};
use crate::trampoline::UserFunction;
use cairn_runtime::error::{Code, Error, Result};
use cairn_runtime::stream::Stream;
use cairn_runtime::worker::PRIORITIES;
use std::collections::BTreeSet;
use std::ffi::{c_char, c_void};
use std::sync::{Arc, Mutex};

/// A stream of any context; null is not taken.
fn explicit(stream: Handle) -> Result<Arc<Stream>> {
    door::not_null(stream, "stream")?;
    runtime()?.handles.get::<Stream>(stream as usize)
}

/// A stream of any context; null is the default stream.
fn any(stream: Handle) -> Result<Arc<Stream>> {
    match stream.is_null() {
        true => runtime()?.stream(0),
        false => explicit(stream),
    }
}

out_entry! {
    /// A new stream.
    fn aclrtCreateStream(stream = "stream") {
        runtime()?.create_stream(0, 0)
    }

    /// A new stream with flags. CANN ignores the priority here, and so do we.
    fn aclrtCreateStreamWithConfig(stream = "stream", _priority: u32, flag: u32) {
        runtime()?.create_stream(0, flag)
    }

    /// A new stream as the configuration says.
    fn aclrtCreateStreamV2(stream = "stream", config: *const aclrtStreamConfigHandle) {
        let (flag, priority) = with_config(config, |config| Ok((config.flag, config.priority)))?;
        let flags = u32::try_from(flag).map_err(|_| Error::refused(format!("stream flag {flag:#x}")))?;
        runtime()?.create_stream(priority, flags)
    }
}

entry! {
    /// Destroys a configuration made by `aclrtCreateStreamConfigHandle`.
    fn aclrtDestroyStreamConfigHandle(config: *mut aclrtStreamConfigHandle) {
        door::not_null(config, "handle")?;
        if !configs().remove(&(config as usize)) {
            return Err(Error::new(Code::InvalidHandle, format!("{config:p} is no stream configuration, or was destroyed before")));
        }
        // SAFETY: it was in the list, so it is a box of ours that was not freed yet.
        drop(unsafe { Box::from_raw(config) });
        Ok(())
    }

    /// Sets a part of a configuration.
    fn aclrtSetStreamConfigOpt(
        config: *mut aclrtStreamConfigHandle,
        attr: abi::aclrtStreamConfigAttr,
        value: *const c_void,
        size: usize,
    ) {
        with_config(config, |config| {
            door::not_null(value, "attrValue")?;
            let expected = match attr {
                abi::ACL_RT_STREAM_PRIORITY | abi::ACL_RT_STREAM_FLAG => 4,
                abi::ACL_RT_STREAM_WORK_ADDR_PTR | abi::ACL_RT_STREAM_WORK_SIZE => 8,
                other => return Err(Error::invalid(format!("stream attribute {other}: expected 0 to 3"))),
            };
            if size != expected && !(expected == 4 && size == 8) {
                return Err(Error::invalid(format!(
                    "valueSize {size} for stream attribute {attr}: expected {expected}"
                )));
            }
            let mut bytes = [0u8; 8];
            // SAFETY: the user says that `size` (4 or 8, checked above) bytes are at `value`.
            unsafe { value.cast::<u8>().copy_to_nonoverlapping(bytes.as_mut_ptr(), size) };
            let number = u64::from_le_bytes(bytes);
            match attr {
                abi::ACL_RT_STREAM_PRIORITY => config.priority = number as u32,
                abi::ACL_RT_STREAM_FLAG => config.flag = number as usize,
                abi::ACL_RT_STREAM_WORK_SIZE => config.workSize = number as usize,
                _ => config.workptr = number as usize as *mut c_void,
            }
            Ok(())
        })
    }

    /// Destroys a stream after its work.
    fn aclrtDestroyStream(stream: Handle) {
        door::not_null(stream, "stream")?;
        runtime()?.destroy_stream(stream as usize, true)
    }

    /// Destroys a stream and drops its work.
    fn aclrtDestroyStreamForce(stream: Handle) {
        door::not_null(stream, "stream")?;
        runtime()?.destroy_stream(stream as usize, false)
    }

    /// Whether a stream is done.
    fn aclrtStreamQuery(stream: Handle, status: *mut abi::aclrtStreamStatus) {
        door::not_null(status, "status")?;
        let idle = runtime()?.stream(stream as usize)?.query();
        let answer = if idle { abi::ACL_STREAM_STATUS_COMPLETE } else { abi::ACL_STREAM_STATUS_NOT_READY };
        // SAFETY: not null; valid for writes of the status.
        unsafe { write(status, "status", answer) }
    }

    /// Waits for a stream.
    fn aclrtSynchronizeStream(stream: Handle) {
        let runtime = runtime()?;
        runtime.synchronize(&runtime.stream(stream as usize)?, None)
    }

    /// Waits for a stream, not longer than the limit.
    fn aclrtSynchronizeStreamWithTimeout(stream: Handle, timeout: i32) {
        let (runtime, limit) = (runtime()?, limit(timeout)?);
        runtime.synchronize(&runtime.stream(stream as usize)?, limit)
    }

    /// The flags a stream was made with.
    fn aclrtStreamGetFlags(stream: Handle, flags: *mut u32) {
        // SAFETY: null or valid for writes of the flags.
        unsafe { write(flags, "flags", any(stream)?.spec.flags) }
    }

    /// The priority of a stream.
    fn aclrtStreamGetPriority(stream: Handle, priority: *mut u32) {
        // SAFETY: null or valid for writes of the priority.
        unsafe { write(priority, "priority", any(stream)?.settings.priority()) }
    }

    /// The number of a stream.
    fn aclrtStreamGetId(stream: Handle, id: *mut i32) {
        // SAFETY: null or valid for writes of the id.
        unsafe { write(id, "streamId", any(stream)?.index as i32) }
    }

    /// Sets what happens after a failed task; once.
    fn aclrtSetStreamFailureMode(stream: Handle, mode: u64) {
        runtime()?.set_failure_mode(&*explicit(stream)?, mode)
    }

    /// Sets an attribute of a stream.
    fn aclrtSetStreamAttribute(stream: Handle, attr: abi::aclrtStreamAttr, value: *mut abi::aclrtStreamAttrValue) {
        let stream = explicit(stream)?;
        door::not_null(value, "value")?;
        // SAFETY: not null; the user passes a value, all of whose fields are numbers.
        let number = u64::from(unsafe { (*value).reserve }[0]);
        match attr {
            // SAFETY: as above.
            abi::ACL_STREAM_ATTR_FAILURE_MODE => runtime()?.set_failure_mode(&stream, unsafe { (*value).failureMode })?,
            abi::ACL_STREAM_ATTR_FLOAT_OVERFLOW_CHECK => stream.overflow.set_checks(switch(attr, number)?),
            abi::ACL_STREAM_ATTR_USER_CUSTOM_TAG => stream.settings.set_tag(number as u32),
            abi::ACL_STREAM_ATTR_CACHE_OP_INFO => stream.settings.set_keeps_op_info(switch(attr, number)?),
            abi::ACL_STREAM_ATTR_PRIORITY if number < PRIORITIES as u64 => stream.settings.set_priority(number as u32),
            abi::ACL_STREAM_ATTR_PRIORITY => {
                return Err(Error::refused(format!("priority {number}: expected 0 to {}", PRIORITIES - 1)));
            }
            other => return Err(unknown_attribute(other)),
        }
        Ok(())
    }

    /// An attribute of a stream.
    fn aclrtGetStreamAttribute(stream: Handle, attr: abi::aclrtStreamAttr, value: *mut abi::aclrtStreamAttrValue) {
        let stream = any(stream)?;
        let mut answer = abi::aclrtStreamAttrValue { reserve: [0; 4] };
        match attr {
            abi::ACL_STREAM_ATTR_FAILURE_MODE => answer.failureMode = stream.failure_mode() as u64,
            abi::ACL_STREAM_ATTR_FLOAT_OVERFLOW_CHECK => answer.overflowSwitch = stream.overflow.checks().into(),
            abi::ACL_STREAM_ATTR_USER_CUSTOM_TAG => answer.userCustomTag = stream.settings.tag(),
            abi::ACL_STREAM_ATTR_CACHE_OP_INFO => answer.cacheOpInfoSwitch = stream.settings.keeps_op_info().into(),
            abi::ACL_STREAM_ATTR_PRIORITY => answer.streamPriority = stream.settings.priority(),
            other => return Err(unknown_attribute(other)),
        }
        // SAFETY: null or valid for writes of the value.
        unsafe { write(value, "value", answer) }
    }

    /// The range of priorities: 7 is served last, 0 first.
    fn aclrtDeviceGetStreamPriorityRange(least: *mut i32, greatest: *mut i32) {
        door::not_null(greatest, "greatestPriority")?;
        // SAFETY: null or valid for writes of the numbers.
        unsafe {
            write(least, "leastPriority", PRIORITIES as i32 - 1)?;
            write(greatest, "greatestPriority", 0)
        }
    }

    /// How many more streams the calling thread's device takes.
    fn aclrtGetStreamAvailableNum(count: *mut u32) {
        door::not_null(count, "streamCount")?;
        let runtime = runtime()?;
        let left = runtime.device(i64::from(runtime.current_device()?))?.streams_left();
        // SAFETY: not null; valid for writes of the count.
        unsafe { write(count, "streamCount", left as u32) }
    }

    /// Calls back when streams come and go; null takes the callback away.
    fn aclrtRegStreamStateCallback(name: *const c_char, callback: abi::aclrtStreamStateCallback, args: *mut c_void) {
        // SAFETY: null or a C string.
        let name = unsafe { door::string(name, "regName") }?;
        match callback {
            None => runtime()?.stream_callbacks.unregister(&name),
            Some(function) => {
                let callback = UserFunction { function: function as *const c_void, argument: args };
                runtime()?.stream_callbacks.register(&name, callback.of_streams())
            }
        }
    }

    /// Drops what is queued on a stream.
    fn aclrtStreamAbort(stream: Handle) {
        explicit(stream)?.abort();
        Ok(())
    }
}

value_entry! {
    /// A configuration with the defaults.
    fn aclrtCreateStreamConfigHandle() -> *mut aclrtStreamConfigHandle, else std::ptr::null_mut(), {
        let config = Box::into_raw(Box::new(aclrtStreamConfigHandle {
            workptr: std::ptr::null_mut(), workSize: 0, flag: 0, priority: 0,
        }));
        configs().insert(config as usize);
        Ok(config)
    }
}

/// The configurations that we made; no others are accepted.
static CONFIGS: Mutex<BTreeSet<usize>> = Mutex::new(BTreeSet::new());

fn configs() -> std::sync::MutexGuard<'static, BTreeSet<usize>> {
    CONFIGS.lock().unwrap_or_else(|e| e.into_inner())
}

/// Reads or changes a configuration of ours; nobody destroys it meanwhile.
fn with_config<T>(
    config: *const aclrtStreamConfigHandle,
    body: impl FnOnce(&mut aclrtStreamConfigHandle) -> Result<T>,
) -> Result<T> {
    door::not_null(config, "handle")?;
    let configs = configs();
    if !configs.contains(&(config as usize)) {
        return Err(Error::new(
            Code::InvalidHandle,
            format!("{config:p} is no stream configuration, or was destroyed"),
        ));
    }
    // SAFETY: it is in the list, so it is a box of ours, and the list is locked.
    body(unsafe { &mut *config.cast_mut() })
}

/// The failure of an attribute that there is not.
fn unknown_attribute(attr: abi::aclrtStreamAttr) -> Error {
    Error::refused(format!("stream attribute {attr}: expected 1 to 5"))
}

/// The value of an attribute that is off or on.
fn switch(attr: abi::aclrtStreamAttr, value: u64) -> Result<bool> {
    match value {
        0 | 1 => Ok(value == 1),
        _ => {
            let text = format!("stream attribute {attr}: {value}, expected 0 (off) or 1 (on)");
            Err(Error::refused(text))
        }
    }
}
