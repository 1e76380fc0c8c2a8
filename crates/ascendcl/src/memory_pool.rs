//! Stream-ordered memory pools.

use crate::abi;
use crate::door::{Handle, entry, not_null, out_entry, runtime};
use cairn_runtime::error::{Error, Result};
use cairn_runtime::memory::pool::StreamPool;
use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// `maxSize` is rounded up to a multiple of this.
const LIMIT_GRANULARITY: u64 = 2 << 20;

/// The pool behind a handle of the user.
fn pool(handle: Handle) -> Result<Arc<StreamPool>> {
    not_null(handle, "memPool")?;
    runtime()?.pool(handle as usize)
}

/// Checks what a pool is to be; gives its device and the most that it may take.
fn check_props(props: *const abi::aclrtMemPoolProps) -> Result<(i64, u64)> {
    not_null(props, "poolProps")?;
    // SAFETY: not null; the user passes this struct.
    let props = unsafe { props.read_unaligned() };
    if props.allocType != abi::ACL_MEM_ALLOCATION_TYPE_PINNED {
        return Err(Error::invalid(format!(
            "poolProps->allocType {}: expected ACL_MEM_ALLOCATION_TYPE_PINNED (0)",
            props.allocType
        )));
    }
    let handles = [abi::ACL_MEM_HANDLE_TYPE_NONE, abi::ACL_MEM_HANDLE_TYPE_POSIX];
    if !handles.contains(&props.handleType) {
        return Err(Error::invalid(format!(
            "poolProps->handleType {}: expected ACL_MEM_HANDLE_TYPE_NONE (0) or ACL_MEM_HANDLE_TYPE_POSIX (2)",
            props.handleType
        )));
    }
    if props.location.type_ != abi::ACL_MEM_LOCATION_TYPE_DEVICE {
        return Err(Error::invalid(format!(
            "poolProps->location.type {}: expected ACL_MEM_LOCATION_TYPE_DEVICE (1)",
            props.location.type_
        )));
    }
    if let Some(at) = props.reserved.iter().position(|&byte| byte != 0) {
        return Err(Error::invalid(format!(
            "poolProps->reserved[{at}] is {}: all of it must be 0",
            props.reserved[at]
        )));
    }
    let max_bytes = match props.maxSize as u64 {
        0 => u64::MAX,
        bytes => bytes.checked_next_multiple_of(LIMIT_GRANULARITY).unwrap_or(u64::MAX),
    };
    Ok((i64::from(props.location.id), max_bytes))
}

/// A value of the user for an attribute.
///
/// # Safety
/// `value` points to a number of the attribute's type.
unsafe fn read<T>(value: *const c_void) -> T {
    // SAFETY: the caller vouches for it.
    unsafe { value.cast::<T>().read_unaligned() }
}

/// A boolean of the user.
fn switch(attribute: &str, value: u32) -> Result<bool> {
    match value {
        0 | 1 => Ok(value == 1),
        _ => Err(Error::refused(format!("{attribute} {value}: expected 0 (off) or 1 (on)"))),
    }
}

/// Checks a new value of a peak: it can only be reset.
fn check_reset(attribute: &str, value: u64) -> Result<()> {
    match value {
        0 => Ok(()),
        _ => Err(Error::refused(format!("{attribute} {value}: it can only be set to 0"))),
    }
}

/// The failure to set an attribute that can only be read.
fn read_only(attribute: &str) -> Result<()> {
    Err(Error::refused(format!("{attribute} can only be read")))
}

fn unknown(attribute: u32) -> Error {
    Error::refused(format!("attribute {attribute}: expected 1 to 8"))
}

/// Sets an attribute.
///
/// # Safety
/// `value` points to a number of the attribute's type.
unsafe fn set(pool: &StreamPool, attribute: u32, value: *const c_void) -> Result<()> {
    // SAFETY: the caller vouches for the type of the number.
    let (flag, number) = unsafe {
        match attribute {
            1..=3 => (read::<u32>(value), 0),
            4..=8 => (0, read::<u64>(value)),
            _ => return Err(unknown(attribute)),
        }
    };
    match attribute {
        abi::ACL_RT_MEM_POOL_REUSE_FOLLOW_EVENT_DEPENDENCIES => {
            pool.follow_events(switch("ACL_RT_MEM_POOL_REUSE_FOLLOW_EVENT_DEPENDENCIES", flag)?);
        }
        abi::ACL_RT_MEM_POOL_REUSE_ALLOW_OPPORTUNISTIC => {
            pool.opportunistic
                .store(switch("ACL_RT_MEM_POOL_REUSE_ALLOW_OPPORTUNISTIC", flag)?, Relaxed);
        }
        abi::ACL_RT_MEM_POOL_REUSE_ALLOW_INTERNAL_DEPENDENCIES => {
            pool.internal_waits
                .store(switch("ACL_RT_MEM_POOL_REUSE_ALLOW_INTERNAL_DEPENDENCIES", flag)?, Relaxed);
        }
        abi::ACL_RT_MEM_POOL_ATTR_RELEASE_THRESHOLD => {
            runtime()?.shared.memory.set_release_above(pool, number);
        }
        abi::ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_HIGH => {
            check_reset("ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_HIGH", number)?;
            pool.reset_peak_reserved();
        }
        abi::ACL_RT_MEM_POOL_ATTR_USED_MEM_HIGH => {
            check_reset("ACL_RT_MEM_POOL_ATTR_USED_MEM_HIGH", number)?;
            pool.reset_peak_live();
        }
        abi::ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_CURRENT => {
            read_only("ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_CURRENT")?
        }
        _ => read_only("ACL_RT_MEM_POOL_ATTR_USED_MEM_CURRENT")?,
    }
    Ok(())
}

/// Reads an attribute into `value`.
///
/// # Safety
/// `value` points to a place for a number of the attribute's type.
unsafe fn get(pool: &StreamPool, attribute: u32, value: *mut c_void) -> Result<()> {
    let flag = |is_on: bool| {
        // SAFETY: the caller vouches for the place.
        unsafe { value.cast::<u32>().write_unaligned(u32::from(is_on)) };
    };
    let number = |number: u64| {
        // SAFETY: the caller vouches for the place.
        unsafe { value.cast::<u64>().write_unaligned(number) };
    };
    match attribute {
        abi::ACL_RT_MEM_POOL_REUSE_FOLLOW_EVENT_DEPENDENCIES => flag(pool.follows_events()),
        abi::ACL_RT_MEM_POOL_REUSE_ALLOW_OPPORTUNISTIC => flag(pool.opportunistic.load(Relaxed)),
        abi::ACL_RT_MEM_POOL_REUSE_ALLOW_INTERNAL_DEPENDENCIES => {
            flag(pool.internal_waits.load(Relaxed));
        }
        abi::ACL_RT_MEM_POOL_ATTR_RELEASE_THRESHOLD => number(pool.release_above()),
        abi::ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_CURRENT => number(pool.figures().reserved),
        abi::ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_HIGH => number(pool.figures().peak_reserved),
        abi::ACL_RT_MEM_POOL_ATTR_USED_MEM_CURRENT => number(pool.figures().live),
        abi::ACL_RT_MEM_POOL_ATTR_USED_MEM_HIGH => number(pool.figures().peak),
        _ => return Err(unknown(attribute)),
    }
    Ok(())
}

out_entry! {
    /// A new pool.
    fn aclrtMemPoolCreate(mem_pool = "memPool", pool_props: *const abi::aclrtMemPoolProps) {
        let (device, max_bytes) = check_props(pool_props)?;
        runtime()?.create_pool(device, max_bytes)
    }

    /// A block for use on a stream.
    fn aclrtMemPoolMallocAsync(ptr = "ptr", size: usize, mem_pool: Handle, stream: Handle) {
        let pool = pool(mem_pool)?;
        if size == 0 {
            return Err(Error::invalid("size 0: it must be positive"));
        }
        let runtime = runtime()?;
        let stream = runtime.stream(stream as usize)?;
        let address = runtime.shared.memory.take_from(&pool, size as u64, &stream)?;
        log::debug!("{} gave {size} bytes at {address:#x} to stream {}", pool.name(), stream.index);
        Ok(address)
    }
}

entry! {
    /// Destroys a handle; the pool goes when its last block is freed.
    fn aclrtMemPoolDestroy(mem_pool: Handle) {
        not_null(mem_pool, "memPool")?;
        runtime()?.destroy_pool(mem_pool as usize)
    }

    /// Sets an attribute.
    fn aclrtMemPoolSetAttr(mem_pool: Handle, attr: abi::aclrtMemPoolAttr, value: Handle) {
        let pool = pool(mem_pool)?;
        not_null(value, "value")?;
        // SAFETY: not null; the header says which number is there.
        unsafe { set(&pool, attr, value) }
    }

    /// Reads an attribute into `value`.
    fn aclrtMemPoolGetAttr(mem_pool: Handle, attr: abi::aclrtMemPoolAttr, value: Handle) {
        let pool = pool(mem_pool)?;
        not_null(value, "value")?;
        // SAFETY: not null; the header says what there is a place for.
        unsafe { get(&pool, attr, value) }
    }

    /// Frees a block, in stream order.
    fn aclrtMemPoolFreeAsync(ptr: Handle, stream: Handle) {
        not_null(ptr, "ptr")?;
        let runtime = runtime()?;
        let stream = runtime.stream(stream as usize)?;
        runtime.shared.memory.give_back(ptr as usize, &stream)?;
        log::debug!("stream {} gave {ptr:p} back to its pool", stream.index);
        Ok(())
    }

    /// Gives free memory back to the device.
    fn aclrtMemPoolTrimTo(mem_pool: Handle, min_bytes_to_keep: usize) {
        let pool = pool(mem_pool)?;
        runtime()?.shared.memory.trim_pool(&pool, min_bytes_to_keep as u64);
        Ok(())
    }
}
