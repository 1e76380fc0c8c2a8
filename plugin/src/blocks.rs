//! Taking blocks and giving them back, for every free_path.

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

/// Who asks, and through which free_path; `None` is torch_npu's, whatever that is on the device.
#[derive(Clone, Copy)]
pub struct Caller {
    /// The function, for texts.
    pub function: &'static str,
    /// The free_path.
    pub free_path: Option<FreePath>,
}

/// A block of `size` bytes; null for none of them and after a failure.
#[inline(always)]
pub fn take(caller: Caller, size: u64, device: i32, handle: Handle) -> *mut c_void {
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
    take_slowly(caller, size, device, handle, outcome)
}

#[cold]
#[inline(never)]
fn take_slowly(
    caller: Caller,
    size: u64,
    device: i32,
    handle: Handle,
    outcome: Option<Outcome>,
) -> *mut c_void {
    let found = Device::open(device).and_then(|device| Ok((device, device.stream(handle)?)));
    let taken = found.and_then(|(device, stream)| {
        let visit = process::may_call().then(|| device.visit()).transpose()?;
        let was_elsewhere = visit.as_ref().is_some_and(|visit| visit.is_first);
        let outcome = outcome.filter(|_| !was_elsewhere);
        allocate_or_wait(
            device,
            size,
            stream,
            caller.free_path.unwrap_or(device.torch_free_path),
            outcome,
        )
    });
    taken.unwrap_or_else(|why| {
        text::fail(caller.function, &why);
        null_mut()
    })
}

/// Asks until there is nothing left to try: waits for streams, gives unused memory back to ACL.
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
        let again = match &outcome {
            Outcome::Ready { offset, .. } => return Ok(*offset as *mut c_void),
            Outcome::Wait(clock) => events::wait(clock, end),
            Outcome::Exhausted(_) | Outcome::OverBudget => {
                !std::mem::replace(&mut trimmed, true) && trim(device, 0) > 0
            }
        };
        if !again {
            return Err(refusal::explain(device, size, stream, free_path, &outcome));
        }
        outcome = attempt();
    }
}

/// Gives memory that nobody may still use back to ACL until `keep` bytes are left.
pub fn trim(device: &Device, keep: u64) -> u64 {
    device.sweep();
    events::prove_all(device.id);
    let _visit = device.visit();
    device.pool.trim(keep)
}

/// Takes a block back. `size` is what the caller believes. False after anything that is wrong.
#[inline(always)]
pub fn give(
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
            && size.is_none_or(|size| fits(size, bytes))
        {
            return true;
        }
        return judge(caller, block, size, device, freed);
    }
    give_slowly(caller, block, size, device, handle)
}

#[cold]
#[inline(never)]
fn give_slowly(
    caller: Caller,
    block: *mut c_void,
    size: Option<u64>,
    device: i32,
    handle: Handle,
) -> bool {
    let Some(device) = Device::find_open(device) else {
        text::fail(caller.function, &foreign(block, device));
        return false;
    };
    let known = device.known(handle);
    let known = known.or_else(|| device.late_owner(block as u64).filter(|s| s.handle() == handle));
    let known = known.or_else(|| device.newly_known(handle));
    if let Some(answer) = give_lost(caller, block, size, device, known) {
        return answer;
    }
    give_for(caller, block, size, device, known)
        && (known.is_some()
            || (handle.is_null() && !process::may_call())
            || {
                let id = device.id;
                let why = format!(
                    "block {block:?} was freed on stream {handle:?}, which the pool of device {id} does not \
             know; its memory waits for cairn_pool_synchronized({id})"
                );
                text::fail(caller.function, &why);
                false
            })
}

/// Takes back a block that was out when the device was reset. `None` if there is no such block, or if
/// the free may well be for the one that lies there now: then nothing tells the two apart.
pub fn give_lost(
    caller: Caller,
    block: *mut c_void,
    size: Option<u64>,
    device: &Device,
    stream: Option<&'static StreamSlot>,
) -> Option<bool> {
    let lost = device.retired.find(block as u64)?;
    let now = device.pool.find(block as u64).map(|(bytes, _)| bytes);
    let fitting = now.is_some_and(|bytes| size.is_none_or(|size| fits(size, bytes)));
    if fitting && stream.is_some() {
        return None;
    }
    device.retired.remove(block as u64);
    if let Some(bytes) = now {
        let as_what = size.map_or(String::new(), |size| format!(" as {} bytes", size as i64));
        let why = match fitting {
            true => "the stream of the free is none that lives",
            false => "its size is another",
        };
        let why = format!(
            "block {block:?} was freed{as_what}, but {why}: that is the block of {lost} bytes which went \
             when device {} was reset. The one of {bytes} bytes that lies there now stays; forget blocks \
             when you reset their device",
            device.id
        );
        text::fail(caller.function, &why);
    }
    Some(now.is_none())
}

/// Takes a block back from a stream; `None` is one that is gone, or unknown.
pub fn give_for(
    caller: Caller,
    block: *mut c_void,
    size: Option<u64>,
    device: &Device,
    stream: Option<&'static StreamSlot>,
) -> bool {
    let free_path = caller.free_path.unwrap_or(device.torch_free_path);
    match stream.map_or_else(|| streams::unknown(device.id), Ok) {
        Ok(stream) => {
            let freed = device.pool.free(block as u64, stream.index(free_path));
            judge(caller, block, size, device, freed)
        }
        Err(why) => {
            text::fail(caller.function, &why);
            false
        }
    }
}

#[cold]
#[inline(never)]
fn judge(
    caller: Caller,
    block: *mut c_void,
    size: Option<u64>,
    device: &Device,
    freed: Result<u64, BlockError>,
) -> bool {
    let why = match (freed, size) {
        (Ok(bytes), Some(size)) if !fits(size, bytes) => {
            let size = size as i64;
            format!("block {block:?} was freed as {size} bytes, but it has {bytes}; it is free now")
        }
        (Ok(_), _) => return true,
        (Err(BlockError::NotLive), _) => {
            format!("block {block:?} of device {} is not held: it was freed before", device.id)
        }
        (Err(BlockError::Unknown), _) => foreign(block, device.id),
    };
    text::fail(caller.function, &why);
    false
}

/// What an address is that is no block of this device.
fn foreign(block: *mut c_void, device: i32) -> String {
    match Device::holding(block as u64) {
        Some(other) => format!("block {block:?} is of device {}, not of device {device}", other.id),
        None => format!("{block:?} is no block of the pool of device {device}"),
    }
}

fn fits(size: u64, bytes: u64) -> bool {
    size.max(1).checked_next_multiple_of(GRANULE) == Some(bytes)
}
