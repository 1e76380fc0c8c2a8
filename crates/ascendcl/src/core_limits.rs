//! Limits of cores, which a CPU keeps and reports.

use crate::abi;
use crate::door::{self, Handle, entry, runtime, write};
use cairn_runtime::error::{Error, Result};
use cairn_runtime::soc;

/// The kind of core by number.
fn kind(kind: abi::aclrtDevResLimitType) -> Result<usize> {
    match kind {
        abi::ACL_RT_DEV_RES_CUBE_CORE | abi::ACL_RT_DEV_RES_VECTOR_CORE => Ok(kind as usize),
        _ => Err(Error::refused(format!("type {kind}: expected 0 (cube) or 1 (vector)"))),
    }
}

/// How many cores of a kind the chip has.
fn cores(kind: usize) -> Result<u32> {
    let chip = soc::chip(&runtime()?.shared.config.soc);
    Ok([chip.cubes, chip.vectors][kind] as u32)
}

fn check_cores(kind: usize, value: u32) -> Result<()> {
    let all = cores(kind)?;
    match value {
        0 => Err(Error::refused("value 0: at least one core is needed")),
        _ if value > all => {
            Err(Error::refused(format!("value {value}: the device has {all} cores")))
        }
        _ => Ok(()),
    }
}

entry! {
    /// The limit of a device.
    fn aclrtGetDeviceResLimit(id: i32, type_: abi::aclrtDevResLimitType, value: *mut u32) {
        door::not_null(value, "value")?;
        let (runtime, kind) = (runtime()?, kind(type_)?);
        let limit = runtime.core_limits.device(runtime.device(i64::from(id))?.id, kind);
        // SAFETY: not null; valid for writes of the number.
        unsafe { write(value, "value", limit.map_or_else(|| cores(kind), Ok)?) }
    }

    /// Sets the limit of a device.
    fn aclrtSetDeviceResLimit(id: i32, type_: abi::aclrtDevResLimitType, value: u32) {
        let (runtime, kind) = (runtime()?, kind(type_)?);
        let device = runtime.device(i64::from(id))?.id;
        check_cores(kind, value)?;
        runtime.core_limits.set_device(device, kind, value);
        Ok(())
    }

    /// Forgets the limits of a device.
    fn aclrtResetDeviceResLimit(id: i32) {
        let runtime = runtime()?;
        runtime.core_limits.reset_device(runtime.device(i64::from(id))?.id);
        Ok(())
    }

    /// The limit of a stream.
    fn aclrtGetStreamResLimit(stream: Handle, type_: abi::aclrtDevResLimitType, value: *mut u32) {
        door::not_null(value, "value")?;
        let (runtime, kind) = (runtime()?, kind(type_)?);
        let limit = runtime.core_limits.stream(&*runtime.stream(stream as usize)?, kind);
        // SAFETY: not null; valid for writes of the number.
        unsafe { write(value, "value", limit.map_or_else(|| cores(kind), Ok)?) }
    }

    /// Sets the limit of a stream.
    fn aclrtSetStreamResLimit(stream: Handle, type_: abi::aclrtDevResLimitType, value: u32) {
        let (runtime, kind) = (runtime()?, kind(type_)?);
        let stream = runtime.stream(stream as usize)?;
        check_cores(kind, value)?;
        runtime.core_limits.set_stream(&stream, kind, value);
        Ok(())
    }

    /// Forgets the limits of a stream.
    fn aclrtResetStreamResLimit(stream: Handle) {
        let runtime = runtime()?;
        runtime.core_limits.reset_stream(&*runtime.stream(stream as usize)?);
        Ok(())
    }

    /// The calling thread uses the limits of a stream.
    fn aclrtUseStreamResInCurrentThread(stream: Handle) {
        let runtime = runtime()?;
        runtime.core_limits.use_in_thread(Some(&*runtime.stream(stream as usize)?));
        Ok(())
    }

    /// Undoes that.
    fn aclrtUnuseStreamResInCurrentThread(stream: Handle) {
        let runtime = runtime()?;
        runtime.stream(stream as usize)?;
        runtime.core_limits.use_in_thread(None);
        Ok(())
    }

    /// The limit for the calling thread.
    fn aclrtGetResInCurrentThread(type_: abi::aclrtDevResLimitType, value: *mut u32) {
        door::not_null(value, "value")?;
        let (runtime, kind) = (runtime()?, kind(type_)?);
        let limit = runtime.core_limits.in_thread(runtime.current_device()?, kind);
        // SAFETY: not null; valid for writes of the number.
        unsafe { write(value, "value", limit.map_or_else(|| cores(kind), Ok)?) }
    }
}
