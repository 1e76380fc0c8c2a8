//! Overflow: what results that are too large become, and the status that tells of them.

use crate::abi;
use crate::door::{self, Handle, entry, runtime, write};
use cairn_exec::device_tasks::{STATUS_BYTES, clear_status, write_status};
use cairn_runtime::error::{Error, Result};
use cairn_runtime::soc;
use cairn_runtime::task::Location;

/// Submits the task that writes the status.
fn submit_write(
    name: &'static str,
    address: Handle,
    size: u64,
    stream: Handle,
    is_behind_a_pointer: bool,
) -> Result<()> {
    door::not_null(address, "outputAddr")?;
    if size != STATUS_BYTES as u64 {
        let text = format!("outputSize {size}: the status has {STATUS_BYTES} bytes");
        return Err(Error::refused(text));
    }
    let runtime = runtime()?;
    let stream = runtime.stream(stream as usize)?;
    let to = (address as usize, Location::Device(stream.spec.device));
    stream.submit(write_status(name, &runtime.shared, to, is_behind_a_pointer)).map(drop)
}

/// Submits the task that clears the status.
fn submit_clear(name: &'static str, stream: Handle) -> Result<()> {
    let runtime = runtime()?;
    let stream = runtime.stream(stream as usize)?;
    stream.submit(clear_status(name, &runtime.shared)).map(drop)
}

entry! {
    /// Sets how the process treats overflow of floating point numbers, on streams that are made from now on. It needs no device.
    fn aclrtSetDeviceSatMode(mode: abi::aclrtFloatOverflowMode) {
        cairn_runtime::logs::install();
        match mode {
            abi::ACL_RT_OVERFLOW_MODE_SATURATION | abi::ACL_RT_OVERFLOW_MODE_INFNAN => {}
            _ => {
                let text = format!("overflow mode {mode}: expected 0 (saturate) or 1 (inf and nan)");
                return Err(Error::refused(text));
            }
        }
        soc::set_overflow_mode(mode);
        Ok(())
    }

    /// How the process treats overflow of floating point numbers, as it was set.
    fn aclrtGetDeviceSatMode(mode: *mut abi::aclrtFloatOverflowMode) {
        // SAFETY: null or valid for writes of the mode.
        unsafe { write(mode, "mode", soc::overflow_mode()) }
    }

    /// Whether a stream that saturates raises the overflow status.
    fn aclrtSetStreamOverflowSwitch(stream: Handle, flag: u32) {
        if flag > 1 {
            return Err(Error::refused(format!("flag {flag}: expected 0 (off) or 1 (on)")));
        }
        let runtime = runtime()?;
        runtime.stream(stream as usize)?.overflow.set_checks(flag == 1);
        Ok(())
    }

    /// Whether a stream checks for overflow.
    fn aclrtGetStreamOverflowSwitch(stream: Handle, flag: *mut u32) {
        door::not_null(flag, "flag")?;
        let runtime = runtime()?;
        let checks = runtime.stream(stream as usize)?.overflow.checks();
        // SAFETY: not null; valid for writes of the flag.
        unsafe { write(flag, "flag", u32::from(checks)) }
    }

    /// Writes the overflow status of the process in stream order.
    fn aclrtGetOverflowStatus(address: Handle, size: usize, stream: Handle) {
        submit_write("aclrtGetOverflowStatus", address, size as u64, stream, false)
    }

    /// The same.
    fn aclrtGetFloatOverflowStatus(address: Handle, size: u64, stream: Handle) {
        submit_write("aclrtGetFloatOverflowStatus", address, size, stream, false)
    }

    /// The same; on chips of the A2 and A3 families to the address that is at `address`. There is one mode of checking.
    fn aclrtNpuGetFloatOverFlowStatus(address: Handle, size: u64, _mode: u32, stream: Handle) {
        let by_pointer = soc::overflow_status_is_behind_a_pointer(&runtime()?.shared.config.soc);
        submit_write("aclrtNpuGetFloatOverFlowStatus", address, size, stream, by_pointer)
    }

    /// Clears the overflow status of the process in stream order.
    fn aclrtResetOverflowStatus(stream: Handle) {
        submit_clear("aclrtResetOverflowStatus", stream)
    }

    /// The same.
    fn aclrtResetFloatOverflowStatus(stream: Handle) {
        submit_clear("aclrtResetFloatOverflowStatus", stream)
    }

    /// The same.
    fn aclrtNpuClearFloatOverFlowStatus(_mode: u32, stream: Handle) {
        submit_clear("aclrtNpuClearFloatOverFlowStatus", stream)
    }
}
