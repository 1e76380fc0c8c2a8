//! Allocation and free of blocks, for both ways to free ([`FreePath`]).

use crate::acl::Handle;
use crate::devices::Device;
use crate::events;
use crate::process;
use crate::refusal;
use crate::settings;
use crate::streams::{self, FreePath, StreamSlot};
use crate::text;
use cairn_pool::{BlockError, GRANULE, Outcome};
use std::ffi::c_void;
use std::ptr::null_mut;
use std::time::Instant;

/// The function that was called, and how its blocks are freed.
#[derive(Clone, Copy)]
pub struct Caller {
    /// The name, for messages.
    pub function: &'static str,
    /// `None` for torch_npu's functions: the device's `torch_free_path`.
    pub free_path: Option<FreePath>,
}

/// A block of `size` bytes; null for 0 bytes and after a failure.
#[inline(always)]
pub fn allocate(caller: Caller, size: u64, device: i32, handle: Handle) -> *mut c_void {
    if process::forked() || size == 0 {
        return null_mut();
    }
    let mut outcome = None;
    if let Some(device) = Device::find_open(device)
        && let Some(stream) = streams::find(handle).filter(|stream| stream.device() == device.id)
    {
        let index = stream.index(caller.free_path.unwrap_or(device.torch_free_path));
        match device.pool.allocate(size, GRANULE, index) {
            Outcome::Ready { offset, .. } => return offset as *mut c_void,
            refused => outcome = Some(refused),
        }
    }
    allocate_slowly(caller, size, device, handle, outcome)
}

#[cold]
#[inline(never)]
fn allocate_slowly(
    caller: Caller,
    size: u64,
    device: i32,
    handle: Handle,
    outcome: Option<Outcome>,
) -> *mut c_void {
    let target = Device::open(device).and_then(|device| Ok((device, device.stream(handle)?)));
    let block = target.and_then(|(device, stream)| {
        let visit = process::may_call().then(|| device.visit()).transpose()?;
        // The attempt was made on another device, where ACL could not be asked for memory: it does not count.
        let set_device = visit.as_ref().is_some_and(|visit| visit.set_device);
        let outcome = outcome.filter(|_| !set_device);
        allocate_or_wait(
            device,
            size,
            stream,
            caller.free_path.unwrap_or(device.torch_free_path),
            outcome,
        )
    });
    block.unwrap_or_else(|reason| {
        text::fail(caller.function, &reason);
        null_mut()
    })
}

/// Tries until nothing helps any more: waits for streams, gives unused memory back to ACL.
fn allocate_or_wait(
    device: &Device,
    size: u64,
    stream: &StreamSlot,
    free_path: FreePath,
    outcome: Option<Outcome>,
) -> Result<*mut c_void, String> {
    let attempt = || device.pool.allocate(size, GRANULE, stream.index(free_path));
    let mut outcome = outcome.unwrap_or_else(attempt);
    let end = Instant::now() + settings::get().longest_wait;
    let mut trimmed = false;
    loop {
        let retry = match &outcome {
            Outcome::Ready { offset, .. } => return Ok(*offset as *mut c_void),
            Outcome::Wait(clock) => events::wait(clock, end),
            Outcome::Exhausted(_) | Outcome::OverBudget => {
                !std::mem::replace(&mut trimmed, true) && trim(device, 0) > 0
            }
        };
        if !retry {
            return Err(refusal::explain(device, size, stream, free_path, &outcome));
        }
        outcome = attempt();
    }
}

/// Gives memory that nobody may still use back to ACL until `keep` bytes are left.
pub fn trim(device: &Device, keep: u64) -> u64 {
    device.sweep();
    events::start_queries(device.id);
    let _visit = device.visit();
    device.pool.trim(keep)
}

/// Frees a block. `size` is the size that the caller claims, if it does. False after an error.
#[inline(always)]
pub fn free(
    caller: Caller,
    block: *mut c_void,
    size: Option<u64>,
    device: i32,
    handle: Handle,
) -> bool {
    if process::forked() {
        return false;
    }
    if block.is_null() {
        return true;
    }
    if let Some(device) = Device::find_open(device)
        && device.retired.is_empty()
        && let Some(stream) = streams::find(handle).filter(|stream| stream.device() == device.id)
    {
        let index = stream.index(caller.free_path.unwrap_or(device.torch_free_path));
        let freed = device.pool.free(block as u64, index);
        if let Ok(bytes) = freed
            && size.is_none_or(|size| matches_size(size, bytes))
        {
            return true;
        }
        return check_free(caller, block, size, device, freed);
    }
    free_slowly(caller, block, size, device, handle)
}

#[cold]
#[inline(never)]
fn free_slowly(
    caller: Caller,
    block: *mut c_void,
    size: Option<u64>,
    device: i32,
    handle: Handle,
) -> bool {
    let Some(device) = Device::find_open(device) else {
        text::fail(caller.function, &describe_foreign(block, device));
        return false;
    };
    let stream = device.find_stream(handle);
    let stream =
        stream.or_else(|| device.ended_owner(block as u64).filter(|s| s.handle() == handle));
    let stream = stream.or_else(|| device.add_if_alive(handle));
    if let Some(is_valid) = free_retired(caller, block, size, device, stream) {
        return is_valid;
    }
    free_on(caller, block, size, device, stream)
        && (stream.is_some()
            || (handle.is_null() && !process::may_call())
            || {
                let id = device.id;
                let reason = format!(
                    "block {block:?} was freed on stream {handle:?}, which the pool of device {id} does not \
             know; its memory waits for cairn_pool_synchronized({id})"
                );
                text::fail(caller.function, &reason);
                false
            })
}

/// Frees a block that was held when the device was reset; false after an error. `None` if there is no such block, or if
/// the free may as well be for a newer block at the same address: then nothing distinguishes the two.
pub fn free_retired(
    caller: Caller,
    block: *mut c_void,
    size: Option<u64>,
    device: &Device,
    stream: Option<&'static StreamSlot>,
) -> Option<bool> {
    let retired_bytes = device.retired.find(block as u64)?;
    let current_bytes = device.pool.find(block as u64).map(|(bytes, _)| bytes);
    let size_matches =
        current_bytes.is_some_and(|bytes| size.is_none_or(|size| matches_size(size, bytes)));
    if size_matches && stream.is_some() {
        return None;
    }
    device.retired.remove(block as u64);
    if let Some(bytes) = current_bytes {
        let claimed = size.map_or(String::new(), |size| format!(" as {} bytes", size as i64));
        let reason = match size_matches {
            true => "the stream of the free is none that lives",
            false => "its size is another",
        };
        let reason = format!(
            "block {block:?} was freed{claimed}, but {reason}: that is the block of {retired_bytes} bytes which went \
             when device {} was reset. The one of {bytes} bytes that lies there now stays; forget blocks \
             when you reset their device",
            device.id
        );
        text::fail(caller.function, &reason);
    }
    Some(current_bytes.is_none())
}

/// Frees a block on a stream; `None` is a stream that is destroyed or unknown.
pub fn free_on(
    caller: Caller,
    block: *mut c_void,
    size: Option<u64>,
    device: &Device,
    stream: Option<&'static StreamSlot>,
) -> bool {
    let free_path = caller.free_path.unwrap_or(device.torch_free_path);
    match stream.map_or_else(|| streams::placeholder(device.id), Ok) {
        Ok(stream) => {
            let freed = device.pool.free(block as u64, stream.index(free_path));
            check_free(caller, block, size, device, freed)
        }
        Err(reason) => {
            text::fail(caller.function, &reason);
            false
        }
    }
}

/// Reports a free that went wrong; true if it did not.
#[cold]
#[inline(never)]
fn check_free(
    caller: Caller,
    block: *mut c_void,
    size: Option<u64>,
    device: &Device,
    freed: Result<u64, BlockError>,
) -> bool {
    let reason = match (freed, size) {
        (Ok(bytes), Some(size)) if !matches_size(size, bytes) => {
            let size = size as i64;
            format!("block {block:?} was freed as {size} bytes, but it has {bytes}; it is free now")
        }
        (Ok(_), _) => return true,
        (Err(BlockError::NotLive), _) => {
            format!("block {block:?} of device {} is not held: it was freed before", device.id)
        }
        (Err(BlockError::Unknown), _) => describe_foreign(block, device.id),
    };
    text::fail(caller.function, &reason);
    false
}

/// The message for an address that is no block of this device.
fn describe_foreign(block: *mut c_void, device: i32) -> String {
    match Device::holding(block as u64) {
        Some(other) => format!("block {block:?} is of device {}, not of device {device}", other.id),
        None => format!("{block:?} is no block of the pool of device {device}"),
    }
}

/// True if a request of `size` bytes gets a block of `bytes`.
fn matches_size(size: u64, bytes: u64) -> bool {
    size.max(1).checked_next_multiple_of(GRANULE) == Some(bytes)
}
