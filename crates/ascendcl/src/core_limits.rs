//! Limits of cores, details of errors and memory: what a CPU keeps and reports.

use crate::abi;
use crate::door::{self, Handle, entry, runtime, write};
use cairn_runtime::error::{Error, Result};
use cairn_runtime::soc;
use std::ffi::c_char;

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

    /// What went wrong on a device: nothing that is the device's.
    fn aclrtGetErrorVerbose(id: i32, info: *mut abi::aclrtErrorInfo) {
        door::not_null(info, "errorInfo")?;
        runtime()?.device(i64::from(id))?;
        // SAFETY: not null; the user passes this struct, of which zero is a value: no error.
        unsafe { info.write_bytes(0, 1) };
        Ok(())
    }

    /// Repairs nothing: nothing breaks.
    fn aclrtRepairError(id: i32, info: *const abi::aclrtErrorInfo) {
        door::not_null(info, "errorInfo")?;
        runtime()?.device(i64::from(id)).map(drop)
    }

    /// Ranges of memory that failed: none.
    fn aclrtGetMemUceInfo(id: i32, array: *mut abi::aclrtMemUceInfo, size: usize, count: *mut usize) {
        door::not_null(array, "memUceInfoArray")?;
        door::not_null(count, "retSize")?;
        if size == 0 {
            return Err(Error::invalid("arraySize 0: it must be positive"));
        }
        runtime()?.device(i64::from(id))?;
        // SAFETY: not null; valid for writes of the count.
        unsafe { write(count, "retSize", 0) }
    }

    /// Repairs such ranges: there are none.
    fn aclrtMemUceRepair(id: i32, array: *mut abi::aclrtMemUceInfo, size: usize) {
        door::not_null(array, "memUceInfoArray")?;
        if size == 0 {
            return Err(Error::invalid("arraySize 0: it must be positive"));
        }
        runtime()?.device(i64::from(id)).map(drop)
    }

    /// What the parts of the system use of a device's memory: blocks, pools, physical memory.
    fn aclrtGetMemUsageInfo(id: i32, infos: *mut abi::aclrtMemUsageInfo, room: usize, count: *mut usize) {
        door::not_null(infos, "memUsageInfo")?;
        door::not_null(count, "outputNum")?;
        if room == 0 {
            return Err(Error::invalid("inputNum 0: it must be positive"));
        }
        let runtime = runtime()?;
        let figures = runtime.shared.memory.usage_by_part(runtime.device(i64::from(id))?.id);
        let parts: Vec<_> = ["MALLOC", "POOL", "PHYSICAL"].into_iter().zip(figures).take(room).collect();
        for (at, (name, (current, peak))) in parts.iter().enumerate() {
            let mut info = abi::aclrtMemUsageInfo { name: [0; 32], curMemSize: *current, memPeakSize: *peak, reserved: [0; 8] };
            for (to, from) in info.name.iter_mut().zip(name.bytes()) {
                *to = from as c_char;
            }
            // SAFETY: the user says that `room` structs are there.
            unsafe { write(infos.add(at), "memUsageInfo", info)? };
        }
        // SAFETY: not null; valid for writes of the count.
        unsafe { write(count, "outputNum", parts.len()) }
    }

    /// Whether a unit of a device can reach host memory: all can.
    fn aclrtHostMemMapCapabilities(id: u32, unit: abi::aclrtHacType, answer: *mut abi::aclrtHostMemMapCapability) {
        door::not_null(answer, "capabilities")?;
        runtime()?.device(i64::from(id))?;
        if unit > abi::ACL_RT_HAC_TYPE_DVPP {
            return Err(Error::invalid(format!("hacType {unit}: expected 0 to 7")));
        }
        // SAFETY: not null; valid for writes of the answer.
        unsafe { write(answer, "capabilities", abi::ACL_RT_HOST_MEM_MAP_SUPPORTED) }
    }
}
