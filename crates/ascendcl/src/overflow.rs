//! Overflow: what results that are too large become, and the status that tells of them.

use crate::abi;
use crate::door::{self, Handle, entry, runtime, write};
use cairn_exec::device_tasks::{read_bytes, work, write_bytes};
use cairn_runtime::error::{Error, Result};
use cairn_runtime::shared::Shared;
use cairn_runtime::soc;
use cairn_runtime::task::{Location, Span, Spans, Task};

/// Bytes of the overflow status.
const STATUS_BYTES: usize = 64;

/// Submits the task that writes the status.
fn write_status(
    name: &'static str,
    address: Handle,
    size: u64,
    stream: Handle,
    by_pointer: bool,
) -> Result<()> {
    door::not_null(address, "outputAddr")?;
    if size != STATUS_BYTES as u64 {
        let text = format!("outputSize {size}: the status has {STATUS_BYTES} bytes");
        return Err(Error::refused(text));
    }
    let runtime = runtime()?;
    let stream = runtime.stream(stream as usize)?;
    let (shared, address) = (runtime.shared.clone(), address as usize);
    let bytes = if by_pointer { size_of::<usize>() } else { STATUS_BYTES };
    let location = Location::Device(stream.spec.device);
    let span = Span { address, bytes, location };
    let [mut reads, mut writes] = [Spans::default(), Spans::default()];
    if by_pointer { &mut reads } else { &mut writes }.push(span);
    let body = work(move || {
        let at = match by_pointer {
            true => usize::from_le_bytes(read_bytes(name, &shared.memory, address)?),
            false => address,
        };
        write_bytes(name, &shared.memory, (at, location), &status(&shared))
    });
    stream.submit(Task { name, reads, writes, body }).map(drop)
}

/// The status: 1 in its first four bytes if a result was too large on a stream that saturates and checks.
fn status(shared: &Shared) -> [u8; STATUS_BYTES] {
    let mut status = [0u8; STATUS_BYTES];
    status[0] = u8::from(shared.overflow.is_raised());
    status
}

/// Submits the task that clears the status.
fn clear_status(name: &'static str, stream: Handle) -> Result<()> {
    let runtime = runtime()?;
    let stream = runtime.stream(stream as usize)?;
    let shared = runtime.shared.clone();
    let body = work(move || {
        shared.overflow.reset();
        Ok(())
    });
    let task = Task { name, reads: Spans::default(), writes: Spans::default(), body };
    stream.submit(task).map(drop)
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
        write_status("aclrtGetOverflowStatus", address, size as u64, stream, false)
    }

    /// The same.
    fn aclrtGetFloatOverflowStatus(address: Handle, size: u64, stream: Handle) {
        write_status("aclrtGetFloatOverflowStatus", address, size, stream, false)
    }

    /// The same; on chips of the A2 and A3 families to the address that is at `address`. There is one mode of checking.
    fn aclrtNpuGetFloatOverFlowStatus(address: Handle, size: u64, _mode: u32, stream: Handle) {
        let by_pointer = soc::overflow_status_is_behind_a_pointer(&runtime()?.shared.config.soc);
        write_status("aclrtNpuGetFloatOverFlowStatus", address, size, stream, by_pointer)
    }

    /// Clears the overflow status of the process in stream order.
    fn aclrtResetOverflowStatus(stream: Handle) {
        clear_status("aclrtResetOverflowStatus", stream)
    }

    /// The same.
    fn aclrtResetFloatOverflowStatus(stream: Handle) {
        clear_status("aclrtResetFloatOverflowStatus", stream)
    }

    /// The same.
    fn aclrtNpuClearFloatOverFlowStatus(_mode: u32, stream: Handle) {
        clear_status("aclrtNpuClearFloatOverFlowStatus", stream)
    }
}
