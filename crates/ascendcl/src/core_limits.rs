//! Limits of cores, overflow, details of errors and memory: what a CPU keeps and reports.

use crate::abi;
use crate::built_in_tasks::put;
use crate::copy_forms::Closure;
use crate::door::{self, Handle, entry, runtime, write};
use cairn_runtime::error::{Error, Result};
use cairn_runtime::soc;
use cairn_runtime::task::{Body, Location, Span, Task};
use std::ffi::c_char;
use std::sync::Arc;

/// Bytes of the overflow status.
const STATUS_BYTES: usize = 64;

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

    /// Writes the overflow status of the process in stream order: 1 in its first four bytes if a result was too large on a
    /// stream that saturates and checks.
    fn aclrtGetOverflowStatus(address: Handle, size: usize, stream: Handle) {
        door::not_null(address, "outputAddr")?;
        if size != STATUS_BYTES {
            return Err(Error::refused(format!("outputSize {size}: the status has {STATUS_BYTES} bytes")));
        }
        let runtime = runtime()?;
        let stream = runtime.stream(stream as usize)?;
        let location = Location::Device(stream.spec.device);
        let to = Span { address: address as usize, bytes: STATUS_BYTES, location };
        let (shared, name) = (runtime.shared.clone(), "aclrtGetOverflowStatus");
        let work = move || {
            let mut status = [0u8; STATUS_BYTES];
            status[0] = u8::from(shared.overflow.is_raised());
            put(name, &shared.memory, to.address, &status)
        };
        let writes = [to].into_iter().collect();
        stream.submit(Task { name, reads: Default::default(), writes, body: Body::Work(Arc::new(Closure(work))) }).map(drop)
    }

    /// Clears the overflow status of the process in stream order.
    fn aclrtResetOverflowStatus(stream: Handle) {
        let runtime = runtime()?;
        let stream = runtime.stream(stream as usize)?;
        let shared = runtime.shared.clone();
        let work = move || {
            shared.overflow.reset();
            Ok(())
        };
        let body = Body::Work(Arc::new(Closure(work)));
        stream.submit(Task { name: "aclrtResetOverflowStatus", reads: Default::default(), writes: Default::default(), body }).map(drop)
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

    /// How long an operator may run; they are not stopped here.
    fn aclrtSetOpExecuteTimeOutV2(timeout: u64, actual: *mut u64) {
        door::not_null(actual, "actualTimeout")?;
        runtime()?.current_context()?;
        // SAFETY: not null; valid for writes of the number.
        unsafe { write(actual, "actualTimeout", timeout) }
    }

    /// A hint about the cache.
    fn aclrtCmoAsync(source: Handle, size: usize, type_: abi::aclrtCmoType, stream: Handle) {
        door::not_null(source, "src")?;
        if size == 0 {
            return Err(Error::invalid("size 0: it must be positive"));
        }
        if type_ > abi::ACL_RT_CMO_TYPE_FLUSH {
            return Err(Error::invalid(format!("cmoType {type_}: expected 0 to 3")));
        }
        let runtime = runtime()?;
        runtime.stream(stream as usize).map(drop)
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
