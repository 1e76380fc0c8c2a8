//! The pools of the process, one for each device.

use crate::acl::{self, Acl, Handle, acl};
use crate::alive;
use crate::events::{self, CompletionTracker, StreamProgress};
use crate::memory::Memory;
use crate::process;
use crate::queue;
use crate::retired::RetiredBlocks;
use crate::settings;
use crate::streams::{self, FreePath, StreamSlot};
use crate::visit::{self, Visit};
use cairn_pool::{Figures, GRANULE, Pool};
use cairn_sync::lock::{Mutex, Rank};
use std::ffi::{CString, c_void};
use std::ops::Range;
use std::ptr::null_mut;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

/// The most devices that a process can have.
pub const DEVICES: usize = 64;

static OPEN: [AtomicPtr<Device>; DEVICES] =
    [const { AtomicPtr::new(std::ptr::null_mut()) }; DEVICES];
/// Held while a pool is made, and while one is emptied after a reset.
static CHANGING: Mutex<()> = Mutex::new(Rank::Process, ());
/// Held in [`Device::sweep`], so that what it finds out of a stream is still true when it vacates the slot.
static SWEEPING: Mutex<()> = Mutex::new(Rank::Device, ());

/// A device and its pool. Never dropped: any thread may be using it. A reset of the device empties the
/// pool, which stays in use.
pub struct Device {
    /// ACL's number.
    pub id: i32,
    /// How blocks of cairn_malloc are freed.
    pub torch_free_path: FreePath,
    /// Its memory.
    pub pool: Pool<StreamProgress, Memory>,
    /// Blocks that were held when the device was reset.
    pub retired: RetiredBlocks,
    figures_at_reset: Mutex<Figures>,
}

impl Device {
    /// The device, if its pool is there already.
    #[inline]
    pub fn find_open(id: i32) -> Option<&'static Device> {
        let open = OPEN.get(usize::try_from(id).ok()?)?;
        // SAFETY: null, or a device, and devices live as long as the process.
        unsafe { open.load(Ordering::Acquire).as_ref() }
    }

    /// The device; its pool is made on first use.
    pub fn open(id: i32) -> Result<&'static Device, String> {
        if let Some(device) = Device::find_open(id) {
            return Ok(device);
        }
        let acl = acl()?;
        process::register_handlers();
        settings::get();
        register_callbacks(acl);
        let mut count = 0;
        // SAFETY: the number goes to a place of ours.
        let code = unsafe { (acl.aclrtGetDeviceCount)(&mut count) };
        if code != 0 {
            return Err(format!("aclrtGetDeviceCount returned {code}"));
        }
        let slot = usize::try_from(id).ok().filter(|&at| at < DEVICES.min(count as usize));
        let slot = slot.ok_or_else(|| format!("device {id}: there are {count}, from 0"))?;
        let _making = CHANGING.lock();
        if let Some(device) = Device::find_open(id) {
            return Ok(device);
        }
        let device = Box::leak(Box::new(Device {
            id,
            torch_free_path: queue::free_path(),
            pool: Pool::new(StreamProgress::default(), Memory::new(id), u64::MAX),
            retired: RetiredBlocks::default(),
            figures_at_reset: Mutex::new(Rank::Outstanding, Figures::default()),
        }));
        OPEN[slot].store(device, Ordering::Release);
        Ok(device)
    }

    /// All that are open.
    pub fn all() -> impl Iterator<Item = &'static Device> {
        (0..DEVICES as i32).filter_map(Device::find_open)
    }

    /// The device that holds a block; `None` for any other address.
    pub fn holding(address: u64) -> Option<&'static Device> {
        Device::all().find(|device| device.pool.find(address).is_some())
    }

    /// The figures of the pool since the device was last reset.
    pub fn figures(&self) -> Figures {
        let figures_at_reset = *self.figures_at_reset.lock();
        let now = self.pool.figures();
        Figures {
            taken: now.taken - figures_at_reset.taken,
            freed: now.freed - figures_at_reset.freed,
            failed: now.failed - figures_at_reset.failed,
            ..now
        }
    }

    /// Empties the pool after a reset of the device, whose memory is gone. Held blocks are retired: every granule where
    /// one may begin is looked at.
    fn retire_memory(&self) {
        let _changing = CHANGING.lock();
        let ranges = self.pool.source().forget_all();
        self.pool.progress().set_memory_gone(true);
        let mut retired = Vec::new();
        while self.pool.figures().reserved > 0 {
            for range in &ranges {
                self.retire_range(range.clone(), &mut retired);
            }
            self.pool.trim(0);
        }
        self.retired.add(retired);
        alive::clear();
        events::forget(self.id);
        self.pool.set_budget(u64::MAX);
        self.pool.reset_peak();
        *self.figures_at_reset.lock() = self.pool.figures();
        self.pool.progress().set_memory_gone(false);
        self.pool.source().restart();
    }

    /// Frees the held blocks of a range, and appends them to `retired`.
    fn retire_range(&self, range: Range<u64>, retired: &mut Vec<(u64, u64)>) {
        let mut held = self.pool.figures().blocks;
        let mut offset = range.start;
        while offset < range.end && held > 0 {
            let block = self.pool.find(offset);
            if let Some((bytes, owner)) = block
                && self.pool.free(offset, owner).is_ok()
            {
                retired.push((offset, bytes));
                held -= 1;
            }
            offset += block.map_or(GRANULE, |(bytes, _)| bytes);
        }
    }

    /// The stream of a request, which has a slot from now on. Null is the default stream of the current
    /// context if that is of this device, else of the device's own context.
    pub fn stream(&self, handle: Handle) -> Result<&'static StreamSlot, String> {
        let handle = if handle.is_null() { self.default_stream()? } else { handle };
        let stream = match streams::find(handle) {
            Some(stream) => stream,
            None => {
                self.sweep();
                streams::add(handle, self.id, self.tracker_of(acl()?, handle)?)?
            }
        };
        match stream.device() == self.id {
            true => Ok(stream),
            false => {
                let (id, other) = (self.id, stream.device());
                Err(format!("stream {handle:?} is of device {other}, not of device {id}"))
            }
        }
    }

    /// A stream of this device that has a slot. ACL must not be asked about any other: it may be
    /// destroyed.
    pub fn find_stream(&self, handle: Handle) -> Option<&'static StreamSlot> {
        let handle = match handle.is_null() {
            true if process::may_call() => self.default_stream().ok()?,
            _ => handle,
        };
        streams::find(handle).filter(|stream| stream.device() == self.id)
    }

    /// A stream of this device that has no slot yet but certainly exists; it has one from now on.
    pub fn add_if_alive(&self, handle: Handle) -> Option<&'static StreamSlot> {
        let is_alive = handle.is_null() || alive::has(handle);
        (is_alive && process::may_call()).then(|| self.stream(handle).ok()).flatten()
    }

    /// The stream that a held block was allocated for, if that is destroyed: the block is then freed on its slot.
    pub fn ended_owner(&self, address: u64) -> Option<&'static StreamSlot> {
        let (_, owner) = self.pool.find(address)?;
        Some(streams::by_index(owner).0).filter(|stream| stream.is_ending())
    }

    /// Enters the device, for whatever may take memory from ACL or give it back.
    pub fn visit(&self) -> Result<Visit<'static>, String> {
        match process::may_call() {
            true => Visit::to_device(acl()?, self.id, self.pool.source().home()),
            false => Err("the process is ending".into()),
        }
    }

    /// Total and free bytes that ACL reports.
    pub fn capacity(&self) -> Result<(u64, u64), String> {
        let _visit = self.visit()?;
        let acl = acl()?;
        let (mut free, mut total) = (0, 0);
        // SAFETY: both numbers go to places of ours.
        let code = unsafe { (acl.aclrtGetMemInfo)(acl::HBM, &mut free, &mut total) };
        match code {
            0 => Ok((total as u64, free as u64)),
            code => Err(format!("aclrtGetMemInfo returned {code}")),
        }
    }

    /// Cleans up after destroyed streams: what they freed is for all streams, and when no block of theirs
    /// is held, their slots are vacant.
    pub fn sweep(&self) {
        let Some(_sweeping) = SWEEPING.try_lock() else { return };
        let ending = streams::of_device(self.id).filter(|stream| stream.is_ending());
        for stream in ending {
            let id = stream.id();
            let is_empty = |free_path| {
                let figures = self.pool.figures_of(stream.index(free_path));
                figures.is_none_or(|figures| figures.blocks == 0 && figures.reserved == 0)
            };
            let [direct, queued] = [FreePath::Direct, FreePath::Queued].map(|free_path| {
                let is_over = stream.is_over(free_path);
                if is_over {
                    self.pool.retire(stream.index(free_path));
                }
                (is_over, is_empty(free_path))
            });
            let ((direct_over, direct_empty), (_, queued_empty)) = (direct, queued);
            if direct_over && direct_empty && queued_empty {
                stream.vacate(id);
            }
        }
    }

    fn default_stream(&self) -> Result<Handle, String> {
        let acl = acl()?;
        let get = acl.aclrtCtxGetCurrentDefaultStream.ok_or(
            "this ACL does not say which stream NULL is (aclrtCtxGetCurrentDefaultStream): name one",
        )?;
        let _visit = Visit::to_device(acl, self.id, self.pool.source().home())?;
        let mut stream = null_mut();
        // SAFETY: the handle goes to a place of ours.
        match unsafe { get(&mut stream) } {
            0 if !stream.is_null() => Ok(stream),
            code => Err(format!("aclrtCtxGetCurrentDefaultStream returned {code}")),
        }
    }

    /// How the progress of a new stream can be learned: only if ACL will report its end, and its context is
    /// known, and it is not of a kind that a query always reports as complete.
    fn tracker_of(&self, acl: &Acl, handle: Handle) -> Result<CompletionTracker, String> {
        let _visit = Visit::to_device(acl, self.id, self.pool.source().home())?;
        let mut flags = 0;
        let is_captured = events::is_captured(acl, handle);
        match if is_captured { Ok(false) } else { events::is_idle(acl, handle) } {
            Ok(_) => {}
            Err(code @ (100000 | 107000 | 107003 | 107017)) => {
                return Err(format!(
                    "stream {handle:?} is none of device {0} in the current context \
                     (aclrtStreamQuery returned {code}): pass a stream of device {0} that is not \
                     destroyed, and let the thread that uses it first be in the context it was made in \
                     (aclrtSetCurrentContext)",
                    self.id
                ));
            }
            Err(_) => return Ok(CompletionTracker::default()),
        }
        if let Some(get) = acl.aclrtStreamGetFlags {
            // SAFETY: the stream is live, and the flags go to a place of ours.
            unsafe { get(handle, &mut flags) };
        }
        let can_query = register_callbacks(acl)
            && acl.aclrtRecordEvent.is_some()
            && acl.aclrtQueryEventStatus.is_some()
            && flags & acl::SPECIAL_STREAM == 0;
        Ok(visit::current(acl)
            .filter(|_| can_query)
            .map_or_else(CompletionTracker::default, CompletionTracker::in_context))
    }
}

/// Registers for the creation and end of streams and for resets of devices. True if ACL will report the end of streams.
fn register_callbacks(acl: &Acl) -> bool {
    static REGISTERED: Once = Once::new();
    static REPORTS_STREAMS: AtomicBool = AtomicBool::new(false);
    REGISTERED.call_once(|| {
        let name = CString::new(format!("cairn_pool_{:p}", &OPEN)).unwrap_or_default();
        let streams = acl.aclrtRegStreamStateCallback.is_some_and(|register| {
            // SAFETY: the function belongs to a library that is never unloaded.
            unsafe { register(name.as_ptr(), on_stream, null_mut()) == 0 }
        });
        if let Some(register) = acl.aclrtRegDeviceStateCallback {
            // SAFETY: the function belongs to a library that is never unloaded.
            unsafe { register(name.as_ptr(), on_device, null_mut()) };
        }
        REPORTS_STREAMS.store(streams, Ordering::Release);
    });
    REPORTS_STREAMS.load(Ordering::Acquire)
}

unsafe extern "C" fn on_stream(handle: Handle, state: u32, _: *mut c_void) {
    if process::forked() {
        return;
    }
    match state {
        acl::STREAM_CREATE_POST => alive::add(handle),
        acl::STREAM_DESTROY_PRE => {
            alive::remove(handle);
            if let (Some(stream), Ok(acl)) = (streams::find(handle), acl()) {
                stream.begin_destroy(acl);
            }
        }
        _ => {}
    }
}

/// A reset after which the device's own context is still active only lowered its reference count.
unsafe extern "C" fn on_device(id: i32, state: u32, _: *mut c_void) {
    let (Some(device), Ok(acl)) = (Device::find_open(id), acl()) else { return };
    if state != acl::DEVICE_RESET_POST || !process::may_call() {
        return;
    }
    let mut active = 0;
    // SAFETY: ACL wants null for the flags; the answer goes to a place of ours.
    let is_active = acl
        .aclrtGetPrimaryCtxState
        .is_some_and(|state| unsafe { state(id, null_mut(), &mut active) } == 0 && active != 0);
    if !is_active {
        device.retire_memory();
    }
}
