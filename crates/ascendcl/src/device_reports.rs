//! What a device reports of itself: its errors, which a CPU has none of, and who has its memory.

use crate::abi;
use crate::door::{self, entry, runtime, write};
use cairn_runtime::error::Error;
use std::ffi::c_char;

entry! {
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
