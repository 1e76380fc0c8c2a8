//! The pools of the process, one a device.

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

/// Devices a process can have.
pub const DEVICES: usize = 64;

static OPEN: [AtomicPtr<Device>; DEVICES] =
    [const { AtomicPtr::new(std::ptr::null_mut()) }; DEVICES];
/// Held while a pool is made, and while one is emptied after a reset.
static CHANGING: Mutex<()> = Mutex::new(Rank::Process, ());
/// Held by whoever clears away after streams: what one has seen must not change before it acts on it.
static SWEEPING: Mutex<()> = Mutex::new(Rank::Device, ());

/// A device and its pool. Never dropped: any thread may be inside. A reset of the device empties the
/// pool, and the same one goes on.
pub struct Device {
    /// ACL's number.
    pub id: i32,
    /// The free_path that cairn_malloc and cairn_free are.
    pub torch_free_path: FreePath,
    /// Its memory.
    pub pool: Pool<StreamProgress, Memory>,
    /// What was out when the device was reset.
    pub retired: RetiredBlocks,
    before: Mutex<Figures>,
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
        process::watch();
        settings::get();
        listen(acl);
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
            before: Mutex::new(Rank::Outstanding, Figures::default()),
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
        let before = *self.before.lock();
        let now = self.pool.figures();
        Figures {
            taken: now.taken - before.taken,
            freed: now.freed - before.freed,
            failed: now.failed - before.failed,
            ..now
        }
    }

    /// The device was reset: its memory is gone, and what was out is lost. Looks at every place where a
    /// lost block may begin.
    fn retire_memory(&self) {
        let _changing = CHANGING.lock();
        let gone = self.pool.source().forget_all();
        self.pool.progress().set_over(true);
        let mut lost = Vec::new();
        while self.pool.figures().reserved > 0 {
            for range in &gone {
                self.take_out(range.clone(), &mut lost);
            }
            self.pool.trim(0);
        }
        self.retired.add(lost);
        alive::clear();
        events::forget(self.id);
        self.pool.set_budget(u64::MAX);
        self.pool.reset_peak();
        *self.before.lock() = self.pool.figures();
        self.pool.progress().set_over(false);
        self.pool.source().begin();
    }

    /// Frees what is held of a range.
    fn take_out(&self, range: Range<u64>, lost: &mut Vec<(u64, u64)>) {
        let mut held = self.pool.figures().blocks;
        let mut at = range.start;
        while at < range.end && held > 0 {
            let taken = self.pool.find(at);
            if let Some((bytes, owner)) = taken
                && self.pool.free(at, owner).is_ok()
            {
                lost.push((at, bytes));
                held -= 1;
            }
            at += taken.map_or(GRANULE, |(bytes, _)| bytes);
        }
    }

    /// The stream of a request, with a place in the table from now on. Null is the default stream of
    /// the current context if that is one of this device, else of the device's own.
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

    /// A stream that was seen before and is of this device. Any other must not be touched: it may be
    /// gone.
    pub fn known(&self, handle: Handle) -> Option<&'static StreamSlot> {
        let handle = match handle.is_null() {
            true if process::may_call() => self.default_stream().ok()?,
            _ => handle,
        };
        streams::find(handle).filter(|stream| stream.device() == self.id)
    }

    /// A stream of this device that was never seen but lives for certain; it has a place from now on.
    pub fn newly_known(&self, handle: Handle) -> Option<&'static StreamSlot> {
        let lives = handle.is_null() || alive::has(handle);
        (lives && process::may_call()).then(|| self.stream(handle).ok()).flatten()
    }

    /// The stream that a held block was taken for, if that is gone: then the block is freed as if on it.
    pub fn late_owner(&self, address: u64) -> Option<&'static StreamSlot> {
        let (_, owner) = self.pool.find(address)?;
        Some(streams::by_index(owner).0).filter(|stream| stream.is_ending())
    }

    /// Goes to the device, for whatever may take memory from ACL or give it back.
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

    /// Lets go of streams that were destroyed: what they freed is for all, and when nothing of theirs
    /// is held, their place is too.
    pub fn sweep(&self) {
        let Some(_alone) = SWEEPING.try_lock() else { return };
        let ending = streams::of_device(self.id).filter(|stream| stream.is_ending());
        for stream in ending {
            let id = stream.id();
            let empty = |free_path| {
                let figures = self.pool.figures_of(stream.index(free_path));
                figures.is_none_or(|of| of.blocks == 0 && of.reserved == 0)
            };
            let [direct, queued] = [FreePath::Direct, FreePath::Queued].map(|free_path| {
                let over = stream.is_over(free_path);
                if over {
                    self.pool.retire(stream.index(free_path));
                }
                (over, empty(free_path))
            });
            if direct == (true, true) && queued.1 {
                stream.vacate(id);
            }
        }
    }

    fn default_stream(&self) -> Result<Handle, String> {
        let acl = acl()?;
        let ask = acl.aclrtCtxGetCurrentDefaultStream.ok_or(
            "this ACL does not say which stream NULL is (aclrtCtxGetCurrentDefaultStream): name one",
        )?;
        let _visit = Visit::to_device(acl, self.id, self.pool.source().home())?;
        let mut stream = null_mut();
        // SAFETY: the handle goes to a place of ours.
        match unsafe { ask(&mut stream) } {
            0 if !stream.is_null() => Ok(stream),
            code => Err(format!("aclrtCtxGetCurrentDefaultStream returned {code}")),
        }
    }

    /// How the progress of a new stream can be learned: only if its end will be announced, and it is
    /// known which context it is of, and it is not of a kind that counts as done whatever it does.
    fn tracker_of(&self, acl: &Acl, handle: Handle) -> Result<CompletionTracker, String> {
        let _visit = Visit::to_device(acl, self.id, self.pool.source().home())?;
        let mut flags = 0;
        let captured = events::is_captured(acl, handle);
        match if captured { Ok(false) } else { events::is_idle(acl, handle) } {
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
        let possible = listen(acl)
            && acl.aclrtRecordEvent.is_some()
            && acl.aclrtQueryEventStatus.is_some()
            && flags & acl::SPECIAL_STREAM == 0;
        Ok(visit::current(acl)
            .filter(|_| possible)
            .map_or_else(CompletionTracker::default, CompletionTracker::of))
    }
}

/// Asks to be notified when streams are destroyed and devices reset. True if that will be so.
fn listen(acl: &Acl) -> bool {
    static ASKED: Once = Once::new();
    static LISTENING: AtomicBool = AtomicBool::new(false);
    ASKED.call_once(|| {
        let name = CString::new(format!("cairn_pool_{:p}", &OPEN)).unwrap_or_default();
        let streams = acl.aclrtRegStreamStateCallback.is_some_and(|register| {
            // SAFETY: the function belongs to a library that is never unloaded.
            unsafe { register(name.as_ptr(), on_stream, null_mut()) == 0 }
        });
        if let Some(register) = acl.aclrtRegDeviceStateCallback {
            // SAFETY: the function belongs to a library that is never unloaded.
            unsafe { register(name.as_ptr(), on_device, null_mut()) };
        }
        LISTENING.store(streams, Ordering::Release);
    });
    LISTENING.load(Ordering::Acquire)
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

/// A reset that left the device's own context alive only took a count down.
unsafe extern "C" fn on_device(id: i32, state: u32, _: *mut c_void) {
    let (Some(device), Ok(acl)) = (Device::find_open(id), acl()) else { return };
    if state != acl::DEVICE_RESET_POST || !process::may_call() {
        return;
    }
    let mut active = 0;
    // SAFETY: ACL wants null for the flags; the answer goes to a place of ours.
    let alive = acl
        .aclrtGetPrimaryCtxState
        .is_some_and(|state| unsafe { state(id, null_mut(), &mut active) } == 0 && active != 0);
    if !alive {
        device.retire_memory();
    }
}
