//! Devices.

use crate::abi;
use crate::door::{self, entry, runtime, write};
use crate::process::{config, started};
use crate::trampoline::UserFunction;
use cairn_runtime::error::{Code, Error, Result};
use cairn_runtime::soc;
use std::ffi::{c_char, c_void};
use std::time::Duration;

/// A timeout of the user in milliseconds: -1 is for ever.
pub fn limit(timeout: i32) -> Result<Option<Duration>> {
    match timeout {
        -1 => Ok(None),
        0.. => Ok(Some(Duration::from_millis(timeout as u64))),
        _ => {
            Err(Error::refused(format!("timeout {timeout}: expected milliseconds, or -1 for ever")))
        }
    }
}

entry! {
    /// How many devices this process sees.
    fn aclrtGetDeviceCount(count: *mut u32) {
        // SAFETY: null or valid for writes of the count.
        unsafe { write(count, "count", config()?.visible.len() as u32) }
    }

    /// Makes a device the calling thread's.
    fn aclrtSetDevice(id: i32) {
        runtime()?.set_device(i64::from(id)).map(drop)
    }

    /// Undoes one `aclrtSetDevice`.
    fn aclrtResetDevice(id: i32) {
        runtime()?.reset_device(i64::from(id), false)
    }

    /// Undoes all of them.
    fn aclrtResetDeviceForce(id: i32) {
        runtime()?.reset_device(i64::from(id), true)
    }

    /// The calling thread's device.
    fn aclrtGetDevice(id: *mut i32) {
        door::not_null(id, "deviceId")?;
        if cairn_runtime::host::context() == 0 {
            return Err(Error::no_context());
        }
        // SAFETY: not null; valid for writes of the id.
        unsafe { write(id, "deviceId", runtime()?.current_device()? as i32) }
    }

    /// Whether a feature is there.
    fn aclrtGetDeviceCapability(id: i32, feature: abi::aclrtDevFeatureType, value: *mut i32) {
        machine_id(i64::from(id))?;
        match feature {
            abi::ACL_FEATURE_TSCPU_TASK_UPDATE_SUPPORT_AIC_AIV | abi::ACL_FEATURE_SYSTEM_MEMQ_EVENT_CROSS_DEV => {
                // SAFETY: null or valid for writes of the value.
                unsafe { write(value, "value", abi::ACL_DEV_FEATURE_NOT_SUPPORT as i32) }
            }
            other => Err(Error::refused(format!("feature {other}: expected 1 or 21"))),
        }
    }

    /// A property of the SoC.
    fn aclGetDeviceCapability(id: u32, info: abi::aclDeviceInfo, value: *mut i64) {
        machine_id(i64::from(id))?;
        let chip = soc::chip(&config()?.soc);
        let result = match info {
            abi::ACL_DEVICE_INFO_AI_CORE_NUM => chip.cubes,
            abi::ACL_DEVICE_INFO_VECTOR_CORE_NUM => chip.vectors,
            abi::ACL_DEVICE_INFO_L2_SIZE => chip.l2,
            other => return Err(Error::invalid(format!("device info {other}: expected 0 to 2"))),
        };
        // SAFETY: null or valid for writes of the value.
        unsafe { write(value, "value", result) }
    }

    /// An attribute of a device.
    fn aclrtGetDeviceInfo(id: u32, attribute: abi::aclrtDevAttr, value: *mut i64) {
        let result = attribute_of(i64::from(id), attribute)?;
        // SAFETY: null or valid for writes of the value.
        unsafe { write(value, "value", result) }
    }

    /// What tells a device from all others.
    fn aclrtDeviceGetUuid(id: i32, uuid: *mut abi::aclrtUuid) {
        let bytes = cairn_runtime::machine::device_uuid(machine_id(i64::from(id))?);
        // SAFETY: null or valid for writes of the identifier.
        unsafe { write(uuid, "uuid", abi::aclrtUuid { bytes: bytes.map(|byte| byte as c_char) }) }
    }

    /// Free and total memory of the calling thread's device.
    fn aclrtGetMemInfo(attribute: abi::aclrtMemAttr, free: *mut usize, total: *mut usize) {
        if attribute > abi::ACL_MEM_P2P_HUGE1G {
            return Err(Error::invalid(format!("memory attribute {attribute}: expected 0 to {}", abi::ACL_MEM_P2P_HUGE1G)));
        }
        door::not_null(free, "free")?;
        door::not_null(total, "total")?;
        let runtime = runtime()?;
        let device = runtime.current_device()?;
        let figures = match has_memory(attribute, runtime.shared.config.has_hbm()) {
            true => runtime.shared.memory.info(device),
            false => (0, 0),
        };
        // SAFETY: not null; valid for writes of the figures.
        unsafe {
            write(free, "free", figures.0 as usize)?;
            write(total, "total", figures.1 as usize)
        }
    }

    /// Whether a device can reach the memory of another.
    fn aclrtDeviceCanAccessPeer(can: *mut i32, id: i32, peer: i32) {
        machine_id(i64::from(id))?;
        machine_id(i64::from(peer))?;
        if id == peer {
            return Err(Error::invalid(format!("device {id} is no peer of itself")));
        }
        // SAFETY: null or valid for writes of the answer.
        unsafe { write(can, "canAccessPeer", 1) }
    }

    /// Lets the calling thread's device reach the memory of another.
    fn aclrtDeviceEnablePeerAccess(peer: i32, flags: u32) {
        if flags != 0 {
            return Err(Error::invalid(format!("flags {flags}: they must be 0")));
        }
        let (device, peer) = current_and_peer(peer)?;
        runtime()?.shared.memory.set_peer(device, peer, true);
        Ok(())
    }

    /// Ends that.
    fn aclrtDeviceDisablePeerAccess(peer: i32) {
        let (device, peer) = current_and_peer(peer)?;
        match runtime()?.shared.memory.set_peer(device, peer, false) {
            true => Ok(()),
            false => Err(Error::refused(format!("device {device} has no access to device {peer} to disable"))),
        }
    }

    /// Whether a device may reach the memory of another now.
    fn aclrtDevicePeerAccessStatus(id: i32, peer: i32, status: *mut i32) {
        let runtime = runtime()?;
        let (id, peer) = (runtime.device(i64::from(id))?.id, runtime.device(i64::from(peer))?.id);
        if id == peer {
            return Err(Error::invalid(format!("device {id} is no peer of itself")));
        }
        // SAFETY: null or valid for writes of the status.
        unsafe { write(status, "status", i32::from(runtime.shared.memory.is_peer(id, peer))) }
    }

    /// Waits for all work of the calling thread's device.
    fn aclrtSynchronizeDevice() {
        let runtime = runtime()?;
        runtime.synchronize_device(runtime.device(i64::from(runtime.current_device()?))?, None)
    }

    /// The same with a limit.
    fn aclrtSynchronizeDeviceWithTimeout(timeout: i32) {
        let (runtime, limit) = (runtime()?, limit(timeout)?);
        runtime.synchronize_device(runtime.device(i64::from(runtime.current_device()?))?, limit)
    }

    /// Calls back when devices are set and reset; null takes the callback away.
    fn aclrtRegDeviceStateCallback(name: *const c_char, callback: abi::aclrtDeviceStateCallback, args: *mut c_void) {
        // SAFETY: null or a C string.
        let name = unsafe { door::string(name, "regName") }?;
        match callback {
            None => runtime()?.device_callbacks.unregister(&name),
            Some(function) => {
                let callback = UserFunction { function: function as *const c_void, argument: args };
                runtime()?.device_callbacks.register(&name, callback.of_devices())
            }
        }
    }

    /// Whether a device is healthy: always.
    fn aclrtQueryDeviceStatus(id: i32, status: *mut abi::aclrtDeviceStatus) {
        machine_id(i64::from(id))?;
        // SAFETY: null or valid for writes of the status.
        unsafe { write(status, "deviceStatus", abi::ACL_RT_DEVICE_STATUS_NORMAL) }
    }

    /// The process id outside of any container, as far as we can see: our own.
    fn aclrtDeviceGetBareTgid(pid: *mut i32) {
        // SAFETY: null or valid for writes of the id.
        unsafe { write(pid, "pid", std::process::id() as i32) }
    }

    /// From the user's id to the machine's.
    fn aclrtGetLogicDevIdByUserDevId(user: i32, logic: *mut i32) { to_machine(user, logic) }
    /// From the user's id to the machine's.
    fn aclrtGetPhyDevIdByUserDevId(user: i32, phy: *mut i32) { to_machine(user, phy) }
    /// From the machine's id to the user's.
    fn aclrtGetUserDevIdByLogicDevId(logic: i32, user: *mut i32) { to_user(logic, user) }
    /// From the machine's id to the user's.
    fn aclrtGetUserDevIdByPhyDevId(phy: i32, user: *mut i32) { to_user(phy, user) }
    /// Logical and physical ids of the machine are the same.
    fn aclrtGetPhyDevIdByLogicDevId(logic: i32, phy: *mut i32) { same_id(logic, phy) }
    /// Logical and physical ids of the machine are the same.
    fn aclrtGetLogicDevIdByPhyDevId(phy: i32, logic: *mut i32) { same_id(phy, logic) }

    /// Seconds a stream waits for an event when the call says nothing; 0 is for ever.
    fn aclrtSetOpWaitTimeout(timeout: u32) {
        let runtime = runtime()?;
        runtime.current_context()?;
        runtime.set_wait_limit(timeout);
        Ok(())
    }
}

/// The calling thread's device, and a peer that is another one.
fn current_and_peer(peer: i32) -> Result<(u32, u32)> {
    let runtime = runtime()?;
    let (device, peer) = (runtime.current_device()?, runtime.device(i64::from(peer))?.id);
    match device == peer {
        true => Err(Error::invalid(format!("device {device} is no peer of itself"))),
        false => Ok((device, peer)),
    }
}

/// The machine's id of a device that this process sees. Starts nothing.
fn machine_id(user: i64) -> Result<usize> {
    let visible = &config()?.visible;
    let found = usize::try_from(user).ok().and_then(|at| visible.get(at).copied());
    found.ok_or_else(|| Error::device(user, visible.len()))
}

/// Writes the machine's id of a device of the user.
fn to_machine(user: i32, out: *mut i32) -> Result<()> {
    let machine = machine_id(i64::from(user))?;
    // SAFETY: null or valid for writes of the id.
    unsafe { write(out, "the id", machine as i32) }
}

/// Writes the user's id of a device of the machine.
fn to_user(machine: i32, out: *mut i32) -> Result<()> {
    let visible = &config()?.visible;
    let found = visible.iter().position(|&m| m as i64 == i64::from(machine)).ok_or_else(|| {
        Error::new(
            Code::InvalidDeviceId,
            format!("device {machine} of the machine is not visible to this process"),
        )
    })?;
    // SAFETY: null or valid for writes of the id.
    unsafe { write(out, "the id", found as i32) }
}

/// Writes the id itself, if there is such a device.
fn same_id(id: i32, out: *mut i32) -> Result<()> {
    let count = config()?.devices;
    if id < 0 || id as usize >= count {
        return Err(Error::device(i64::from(id), count));
    }
    // SAFETY: null or valid for writes of the id.
    unsafe { write(out, "the id", id) }
}

/// The value of a device attribute.
fn attribute_of(id: i64, attribute: abi::aclrtDevAttr) -> Result<i64> {
    let machine = machine_id(id)?;
    let config = config()?;
    let chip = soc::chip(&config.soc);
    Ok(match attribute {
        abi::ACL_DEV_ATTR_AICPU_CORE_NUM => chip.aicpus,
        abi::ACL_DEV_ATTR_AICORE_CORE_NUM | abi::ACL_DEV_ATTR_CUBE_CORE_NUM => chip.cubes,
        abi::ACL_DEV_ATTR_VECTOR_CORE_NUM => chip.vectors,
        abi::ACL_DEV_ATTR_WARP_SIZE => 32,
        abi::ACL_DEV_ATTR_MAX_THREAD_PER_VECTOR_CORE => 2048,
        abi::ACL_DEV_ATTR_UBUF_PER_VECTOR_CORE => chip.buffer,
        abi::ACL_DEV_ATTR_MAX_GRID_DIM_X..=abi::ACL_DEV_ATTR_MAX_BLOCK_PER_GRID => 65535,
        abi::ACL_DEV_ATTR_MAX_THREADS_PER_BLOCK..=abi::ACL_DEV_ATTR_MAX_BLOCK_DIM_Z => 2048,
        abi::ACL_DEV_ATTR_TOTAL_GLOBAL_MEM_SIZE => {
            let known = started().map(|runtime| runtime.shared.memory.info(id as u32).1);
            known.unwrap_or(config.device_memory) as i64
        }
        abi::ACL_DEV_ATTR_L2_CACHE_SIZE => chip.l2,
        abi::ACL_DEV_ATTR_SMP_ID => 0,
        abi::ACL_DEV_ATTR_PHY_CHIP_ID => machine as i64,
        abi::ACL_DEV_ATTR_SUPER_POD_DEVICE_ID..=abi::ACL_DEV_ATTR_SUPER_POD_ID => 0,
        abi::ACL_DEV_ATTR_CUST_OP_PRIVILEGE => 0,
        abi::ACL_DEV_ATTR_MAINBOARD_ID..=abi::ACL_DEV_ATTR_DEVICE_FORM_FACTOR => 0,
        abi::ACL_DEV_ATTR_IS_VIRTUAL => 1,
        abi::ACL_DEV_ATTR_NPU_ARCH => chip.arch,
        other => return Err(Error::refused(format!("no device attribute has the number {other}"))),
    })
}

/// Whether a device has memory of this kind.
fn has_memory(attribute: abi::aclrtMemAttr, hbm: bool) -> bool {
    let of_hbm = [
        abi::ACL_HBM_MEM,
        abi::ACL_HBM_MEM_HUGE,
        abi::ACL_HBM_MEM_NORMAL,
        abi::ACL_HBM_MEM_P2P_HUGE,
        abi::ACL_HBM_MEM_P2P_NORMAL,
    ];
    let of_ddr = [
        abi::ACL_DDR_MEM,
        abi::ACL_DDR_MEM_HUGE,
        abi::ACL_DDR_MEM_NORMAL,
        abi::ACL_DDR_MEM_P2P_HUGE,
        abi::ACL_DDR_MEM_P2P_NORMAL,
    ];
    let of_any =
        [abi::ACL_MEM_NORMAL, abi::ACL_MEM_HUGE, abi::ACL_MEM_P2P_NORMAL, abi::ACL_MEM_P2P_HUGE];
    of_any.contains(&attribute)
        || of_hbm.contains(&attribute)
        || (!hbm && of_ddr.contains(&attribute))
}
