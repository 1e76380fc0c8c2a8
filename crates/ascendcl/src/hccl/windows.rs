//! Memory that a rank registers with its communicator, and windows that all ranks register together.
//!
//! A rank reaches the memory of another of its process by address; that of another process has none here.

use super::door::{array, communicator, entry, not_null, write};
use crate::abi::{HcclComm, HcclCommSymWindow};
use crate::door::{Handle, runtime};
use cairn_comm::{Communicator, Error, Result};
use cairn_runtime::handle::HandleObject;
use cairn_runtime::memory::{AddressInfo, describe};
use std::ffi::c_void;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The one flag that windows of all ranks take.
const SYMMETRIC: u32 = 1;

/// Memory that a rank registered.
struct Window {
    communicator: Arc<Communicator>,
    address: usize,
    bytes: u64,
    /// For a window of all ranks, how many the rank registered before it: the same on all ranks.
    number: Option<u64>,
}

impl HandleObject for Window {
    const KIND: &'static str = "window";
}

/// Every window with its handle, and how many windows of all ranks each rank has registered.
#[derive(Default)]
struct Windows {
    list: Vec<(usize, Arc<Window>)>,
    registered: Vec<(u64, u64)>,
}

static WINDOWS: Mutex<Option<Windows>> = Mutex::new(None);

/// The list while it is locked; a leaf.
fn locked() -> MutexGuard<'static, Option<Windows>> {
    WINDOWS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn with_windows<T>(body: impl FnOnce(&mut Windows) -> T) -> T {
    body(locked().get_or_insert_default())
}

/// Fails unless the range is live memory of the communicator's device.
fn check_memory(communicator: &Communicator, address: usize, bytes: u64) -> Result<()> {
    let info = runtime()?.shared.memory.enclosing(address);
    let is_inside = match &info {
        AddressInfo::Device(device, Some(block)) => {
            *device == communicator.device()
                && block.live
                && (address - block.start) as u64 <= block.bytes
                && bytes <= block.bytes - (address - block.start) as u64
        }
        _ => false,
    };
    match bytes > 0 && is_inside {
        true => Ok(()),
        false => Err(Error::parameter(format!(
            "{bytes} bytes at {}: expected memory of device {}",
            describe(address, &info),
            communicator.device()
        ))),
    }
}

fn register(comm: HcclComm, address: *mut c_void, bytes: u64, is_symmetric: bool) -> Result<usize> {
    let communicator = communicator(comm)?;
    not_null(address, "addr")?;
    let address = address as usize;
    check_memory(&communicator, address, bytes)?;
    let number =
        is_symmetric.then(|| with_windows(|windows| windows.next_number(communicator.id())));
    let window = Arc::new(Window { communicator, address, bytes, number });
    let handle = runtime()?.handles.insert(window.clone())?;
    with_windows(|windows| windows.list.push((handle, window)));
    Ok(handle)
}

impl Windows {
    fn next_number(&mut self, communicator: u64) -> u64 {
        match self.registered.iter_mut().find(|(id, _)| *id == communicator) {
            Some((_, count)) => {
                *count += 1;
                *count - 1
            }
            None => {
                self.registered.push((communicator, 1));
                0
            }
        }
    }
}

fn window(handle: Handle, name: &str) -> Result<Arc<Window>> {
    not_null(handle, name)?;
    let found = runtime()?.handles.get::<Window>(handle as usize);
    found.map_err(|error| Error::parameter(error.text).of(name))
}

fn deregister(handle: Handle, name: &str) -> Result<()> {
    not_null(handle, name)?;
    let removed = runtime()?.handles.remove::<Window>(handle as usize);
    removed.map_err(|error| Error::parameter(error.text).of(name))?;
    with_windows(|windows| windows.list.retain(|(known, _)| *known != handle as usize));
    Ok(())
}

/// Ends the windows of a communicator that ended.
pub fn forget(communicator: &Communicator) {
    let ended: Vec<_> = with_windows(|windows| {
        windows.registered.retain(|(id, _)| *id != communicator.id());
        let is_of = |window: &Arc<Window>| window.communicator.id() == communicator.id();
        windows.list.extract_if(.., |(_, window)| is_of(window)).collect()
    });
    for (handle, _) in ended {
        if let Ok(runtime) = runtime() {
            let _ = runtime.handles.remove::<Window>(handle);
        }
    }
}

entry! {
    /// Registers memory.
    fn HcclCommRegister(comm: HcclComm, address: *mut c_void, bytes: u64, handle: *mut *mut c_void, _flag: u32) {
        not_null(handle, "handle")?;
        let registered = register(comm, address, bytes, false)?;
        // SAFETY: not null; valid for writes of a handle.
        unsafe { write(handle, "handle", registered as Handle) }
    }

    /// Ends a registration of this communicator.
    fn HcclCommDeregister(comm: HcclComm, handle: *mut c_void) {
        let communicator = communicator(comm)?;
        if window(handle, "handle")?.communicator.id() != communicator.id() {
            return Err(Error::parameter(format!("{handle:p} is registered with another communicator")));
        }
        deregister(handle, "handle")
    }

    /// Tells peers of registered memory. Operators need no such knowledge here: it is checked, and that is all.
    fn HcclCommExchangeMem(comm: HcclComm, handle: *mut c_void, peers: *mut u32, count: u32) {
        let communicator = communicator(comm)?;
        window(handle, "windowHandle")?;
        if count > communicator.size() {
            return Err(Error::parameter(format!("peerRankNum is {count}: there are {} ranks", communicator.size())));
        }
        // SAFETY: null or `peerRankNum` ranks.
        let peers = unsafe { array(peers, count as usize, "peerRanks") }?;
        match peers.iter().find(|peer| **peer >= communicator.size()) {
            Some(peer) => Err(Error::parameter(format!("peerRanks has rank {peer}: there are {} ranks", communicator.size()))),
            None => Ok(()),
        }
    }

    /// Registers this rank's part of a window.
    fn HcclCommSymWinRegister(
        comm: HcclComm,
        address: *mut c_void,
        bytes: u64,
        handle: *mut HcclCommSymWindow,
        flag: u32,
    ) {
        not_null(handle, "winHandle")?;
        if flag != SYMMETRIC {
            return Err(Error::parameter(format!("flag {flag}: expected {SYMMETRIC}")));
        }
        let registered = register(comm, address, bytes, true)?;
        // SAFETY: not null; valid for writes of a handle.
        unsafe { write(handle, "winHandle", registered as Handle) }
    }

    /// Ends a window.
    fn HcclCommSymWinDeregister(handle: HcclCommSymWindow) {
        deregister(handle, "winHandle")
    }

    /// The window around a range.
    fn HcclCommSymWinGet(
        comm: HcclComm,
        address: *mut c_void,
        bytes: usize,
        handle: *mut HcclCommSymWindow,
        offset: *mut usize,
    ) {
        let communicator = communicator(comm)?.id();
        not_null(address, "ptr")?;
        not_null(handle, "winHandle")?;
        not_null(offset, "offset")?;
        let address = address as usize;
        let around = |window: &Window| {
            let distance = address.checked_sub(window.address)? as u64;
            let is_inside = distance.checked_add(bytes as u64)? <= window.bytes;
            (window.communicator.id() == communicator && window.number.is_some() && is_inside).then_some(distance)
        };
        let found = with_windows(|windows| {
            windows.list.iter().find_map(|(handle, window)| Some((*handle, around(window)?)))
        });
        let Some((found, distance)) = found else {
            return Err(Error::parameter(format!("{bytes} bytes at {address:#x} are in no window of this communicator")));
        };
        // SAFETY: neither is null; valid for writes.
        unsafe {
            write(handle, "winHandle", found as Handle)?;
            write(offset, "offset", distance as usize)
        }
    }

    /// The address of a peer's part of a window.
    fn HcclSymWinGetPeerPointer(handle: HcclCommSymWindow, offset: usize, peer: u32, pointer: *mut *mut c_void) {
        let window = window(handle, "winHandle")?;
        not_null(pointer, "ptr")?;
        let size = window.communicator.size();
        if peer >= size {
            return Err(Error::parameter(format!("peerRank {peer}: there are {size} ranks")));
        }
        let is_part = |other: &Window| {
            other.communicator.identity() == window.communicator.identity()
                && other.communicator.rank() == peer
                && other.number.is_some()
                && other.number == window.number
        };
        let part = with_windows(|windows| {
            windows.list.iter().find(|(_, other)| is_part(other)).map(|(_, other)| other.clone())
        });
        let part = part.ok_or_else(|| {
            Error::unsupported(format!("rank {peer} has registered no part of this window in this process: memory of other processes has no address here"))
        })?;
        if offset as u64 >= part.bytes {
            return Err(Error::parameter(format!("offset {offset}: rank {peer}'s part has {} bytes", part.bytes)));
        }
        // SAFETY: not null; valid for writes of an address.
        unsafe { write(pointer, "ptr", (part.address + offset) as *mut c_void) }
    }

    /// Device memory for windows.
    fn HcommMemAlloc(pointer: *mut *mut c_void, bytes: usize) {
        // SAFETY: null or valid for writes of an address.
        unsafe { write(pointer, "ptr", std::ptr::null_mut()) }?;
        if bytes == 0 {
            return Err(Error::parameter("size is 0: at least 1"));
        }
        let address = crate::memory::allocate_output(super::door::current_device()?, bytes)?;
        // SAFETY: not null; valid for writes of an address.
        unsafe { write(pointer, "ptr", address as *mut c_void) }
    }

    /// Frees it.
    fn HcommMemFree(pointer: *mut c_void) {
        not_null(pointer, "ptr")?;
        let freed = runtime()?.shared.memory.free(pointer as usize);
        freed.map_err(|error| Error::parameter(error.text))
    }
}
