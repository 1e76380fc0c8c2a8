//! The engine of Cairn: devices, contexts, streams, events, tasks, clocks and memory of a CPU that
//! behaves as an Ascend device. It knows nothing of C: doors (`ascendcl`) translate to it.
//!
//! Start reading at [`Runtime`], then [`stream`], then [`memory`].

pub mod callbacks;
pub mod clock;
pub mod config;
pub mod context;
pub mod core_limits;
mod cores;
pub mod device;
pub mod error;
pub mod event;
pub mod handle;
pub mod host;
mod host_access;
pub mod ipc;
pub mod live;
pub mod logs;
pub mod machine;
pub mod memory;
pub mod overflow;
pub mod parallel;
pub mod record;
pub mod shared;
pub mod signals;
pub mod soc;
pub mod stream;
pub mod task;
mod virtual_memory;
pub mod worker;

pub use cairn_sync::{lock, sync};

use clock::{Clock, Epoch};
use config::Config;
use context::Context;
use device::Device;
use error::{Code, Error, Result};
use event::{Event, Kind};
use handle::{HandleObject, Table};
use host::HostThread;
use memory::registry::Registry;
use record::SyncObject;
use shared::Shared;
use std::time::{Duration, Instant};
use stream::{FailureMode, Stream};
use sync::Arc;
use sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};

/// Streams a device has room for, as on A2 and A3 parts.
pub const STREAMS_PER_DEVICE: usize = 1984;

/// Events a process has room for.
pub const EVENTS: u32 = 65536;

impl HandleObject for Stream {
    const KIND: &'static str = "stream";
}
impl HandleObject for Event {
    const KIND: &'static str = "event";
}
impl HandleObject for Context {
    const KIND: &'static str = "context";
}

/// The engine of one process: its devices and what the user made on them, by handle.
pub struct Runtime {
    /// Clocks, workers, memory.
    pub shared: Arc<Shared>,
    /// Handles the user holds; doors add objects of their own.
    pub handles: Table,
    /// How many cores operators may use, and what else is only kept and reported.
    pub core_limits: core_limits::CoreLimits,
    /// Users' allocators, by stream.
    pub allocators: Registry,
    /// Called when streams are created or end.
    pub stream_callbacks: callbacks::Callbacks<callbacks::StreamSubject>,
    /// Called when devices are opened or closed.
    pub device_callbacks: callbacks::Callbacks<callbacks::DeviceSubject>,
    devices: Vec<Device>,
    default_device: AtomicI32,
    next_event: AtomicU32,
    live_events: AtomicU32,
    next_notify: AtomicU32,
    live_notifies: AtomicU32,
    watcher: Arc<ipc::Watcher>,
    wait_limit_s: AtomicU32,
    op_limit_us: AtomicU64,
}

impl Runtime {
    /// Starts the workers of a new runtime.
    pub fn start(config: Config) -> Result<Runtime> {
        let workers = config.workers;
        let runtime = Runtime::without_workers(config)?;
        runtime.shared.scheduler.start(workers).map_err(|e| {
            Error::new(Code::RtInternal, format!("cannot start {workers} worker threads: {e}"))
        })?;
        runtime.shared.start_live_details();
        Ok(runtime)
    }

    fn without_workers(config: Config) -> Result<Runtime> {
        let count = config.visible.len();
        let shared = Shared::new(config, (STREAMS_PER_DEVICE + 64) * count.max(1) * 2)?;
        Ok(Runtime {
            devices: (0..count as u32).map(Device::new).collect(),
            allocators: Registry::new(&shared),
            handles: Table::reserve(shared.spine.clone())?,
            shared,
            core_limits: Default::default(),
            stream_callbacks: Default::default(),
            device_callbacks: Default::default(),
            default_device: AtomicI32::new(-1),
            next_event: AtomicU32::new(0),
            live_events: AtomicU32::new(0),
            next_notify: AtomicU32::new(0),
            live_notifies: AtomicU32::new(0),
            watcher: Arc::default(),
            wait_limit_s: AtomicU32::new(0),
            op_limit_us: AtomicU64::new(u64::MAX),
        })
    }

    /// The devices this process sees.
    pub fn devices(&self) -> &[Device] {
        &self.devices
    }

    /// The device with this id of the user.
    pub fn device(&self, id: i64) -> Result<&Device> {
        usize::try_from(id)
            .ok()
            .and_then(|index| self.devices.get(index))
            .ok_or_else(|| Error::device(id, self.devices.len()))
    }

    /// The device that threads without one get implicitly; `None` for none.
    pub fn set_default_device(&self, id: Option<i32>) {
        self.default_device.store(id.unwrap_or(-1), Ordering::Release);
    }

    /// Seconds a stream waits for an event when the call says nothing; 0 is for ever.
    pub fn set_wait_limit(&self, seconds: u32) {
        self.wait_limit_s.store(seconds, Ordering::Release);
    }

    /// Microseconds that an operator may take, as the program says; `u64::MAX` is for ever. No operator is stopped.
    pub fn set_op_limit_us(&self, limit: u64) {
        self.op_limit_us.store(limit, Ordering::Release);
    }

    /// That limit.
    pub fn op_limit_us(&self) -> u64 {
        self.op_limit_us.load(Ordering::Acquire)
    }

    /// The context of the calling thread.
    pub fn current_context(&self) -> Result<Arc<Context>> {
        match host::context() {
            0 => match self.default_device.load(Ordering::Acquire) {
                id if id >= 0 => self.set_device(i64::from(id)),
                _ => Err(Error::no_context()),
            },
            handle => self.handles.get::<Context>(handle).map_err(|_| {
                Error::new(
                    Code::ContextNull,
                    format!("the current context {handle:#x} of this thread is gone: its device was reset or it was destroyed"),
                )
            }),
        }
    }

    /// The device of the calling thread.
    pub fn current_device(&self) -> Result<u32> {
        Ok(self.current_context()?.device)
    }

    /// A stream for use by the calling thread: 0 is the default stream of its context, another must
    /// belong to that context.
    pub fn stream(&self, handle: usize) -> Result<Arc<Stream>> {
        if handle == 0 {
            return Ok(self.current_context()?.default_stream.clone());
        }
        let stream = self.handles.get::<Stream>(handle)?;
        if stream.spec.context == host::context() as u64 {
            return Ok(stream);
        }
        let current = self.current_context()?;
        if stream.spec.context == current.handle() as u64 {
            return Ok(stream);
        }
        Err(Error::new(
            Code::StreamContext,
            format!(
                "stream {handle:#x} belongs to context {:#x} on device {}, the current context of this thread is {:#x} on device {}",
                stream.spec.context,
                stream.spec.device,
                current.handle(),
                current.device
            ),
        ))
    }

    /// A new event of the calling thread's context.
    pub fn create_event(&self, kind: Kind, flags: u32) -> Result<usize> {
        self.current_context()?;
        if self.events_left() == 0 {
            return Err(Error::new(
                Code::NoEventResource,
                format!("there are {EVENTS} events already: destroy some"),
            ));
        }
        let id = self.next_event.fetch_add(1, Ordering::Relaxed);
        let event = match (kind, flags) {
            (Kind::Ex, event::flag::IPC) => self.make_shared_event(id)?,
            _ => Event::new(id, kind, flags)?,
        };
        let handle = self.handles.insert(Arc::new(event))?;
        self.live_events.fetch_add(1, Ordering::Relaxed);
        Ok(handle)
    }

    /// Ends an event; what was submitted with it goes on.
    pub fn destroy_event(&self, handle: usize) -> Result<()> {
        let event = self.handles.remove::<Event>(handle)?;
        event.release_waiters();
        if let Ok(shared) = event.require_shared() {
            shared.close(self.shared.memory.sharing());
        }
        self.live_events.fetch_sub(1, Ordering::Relaxed);
        Ok(())
    }

    /// How many more events there may be.
    pub fn events_left(&self) -> u32 {
        EVENTS.saturating_sub(self.live_events.load(Ordering::Relaxed))
    }

    /// The event behind a handle.
    pub fn event(&self, handle: usize) -> Result<Arc<Event>> {
        self.event_named("event", handle)
    }

    /// The same for an argument with another name.
    pub fn event_named(&self, argument: &str, handle: usize) -> Result<Arc<Event>> {
        match handle {
            0 => Err(Error::null(argument)),
            handle => self.handles.get(handle),
        }
    }

    /// Lets a stream wait for an event; `None` takes the process's limit.
    pub fn wait_event(
        &self,
        stream: &Arc<Stream>,
        event: &Event,
        limit: Option<Duration>,
    ) -> Result<()> {
        let default_s = || u64::from(self.wait_limit_s.load(Ordering::Acquire));
        event.wait(stream, limit.unwrap_or_else(|| Duration::from_secs(default_s())))
    }

    /// Waits for a stream and reports what failed in it.
    pub fn synchronize(&self, stream: &Arc<Stream>, limit: Option<Duration>) -> Result<()> {
        let spine = &self.shared.spine;
        let began_ns = spine.begin_wait();
        self.wait_for(stream, limit, |known| {
            spine.emit_synchronize(SyncObject::Stream(stream.index), began_ns, known)
        })
    }

    /// Waits for a stream; `on_finished` gets what the calling thread then knows to be finished.
    fn wait_for(
        &self,
        stream: &Arc<Stream>,
        limit: Option<Duration>,
        on_finished: impl FnOnce(&Clock),
    ) -> Result<()> {
        if let Some(known) = stream.wait_all(limit)? {
            on_finished(&known);
        } else {
            let text = match limit {
                Some(limit) => format!("stream {} was not done after {limit:?}", stream.index),
                None => format!("stream {} was not done, and the process is exiting", stream.index),
            };
            return Err(Error::new(Code::StreamSyncTimeout, text));
        }
        self.shared.memory.trim_to_thresholds(stream.spec.device);
        self.shared.memory.vmm().release_unmapped();
        stream.take_failure().map_or(Ok(()), Err)
    }

    /// Waits for all streams of a device and reports the first failure.
    pub fn synchronize_device(&self, device: &Device, limit: Option<Duration>) -> Result<()> {
        let deadline = limit.map(|l| Instant::now() + l);
        let mut first_failure = Ok(());
        let mut all = Clock::new();
        let began_ns = self.shared.spine.begin_wait();
        for stream in device.streams() {
            let left = deadline.map(|d| d.saturating_duration_since(Instant::now()));
            let waited = self.wait_for(&stream, left, |known| all.join(known));
            if first_failure.is_ok() {
                first_failure = waited;
            }
        }
        self.shared.spine.emit_synchronize(SyncObject::Device(device.id), began_ns, &all);
        first_failure
    }

    /// Waits until every task queued before the call, on any device, is done. A host function skips
    /// the stream that runs it. False if the limit passed.
    pub fn drain(&self, limit: Option<Duration>) -> bool {
        let deadline = limit.map(|l| Instant::now() + l);
        HostThread::current().synchronize(|| {
            self.devices.iter().filter(|device| !self.drain_device(device, deadline)).count() == 0
        })
    }

    /// The same for one device.
    fn drain_device(&self, device: &Device, deadline: Option<Instant>) -> bool {
        let mut known = Clock::new();
        let mut finished = true;
        let began_ns = self.shared.spine.begin_wait();
        for stream in device.streams() {
            if stream.key() == host::host_function_of() {
                continue;
            }
            let left = deadline.map(|d| d.saturating_duration_since(Instant::now()));
            let seq = self.shared.progress.submitted(stream.index);
            match stream.wait_finished(seq, left) {
                true if seq > 0 => known.raise(Epoch { stream: stream.index, seq }),
                true => {}
                false => {
                    log::warn!("stream {} still has work", stream.index);
                    finished = false;
                }
            }
        }
        HostThread::current().join_clock(&known);
        self.shared.spine.emit_synchronize(SyncObject::Device(device.id), began_ns, &known);
        finished
    }

    /// ACL is finalized: waits a bounded time for pending work, lets go of the memory of other processes, and releases freed
    /// memory.
    pub fn finalize(&self) {
        let is_idle = self.drain(Some(Duration::from_secs(2)));
        for handle in self.shared.memory.clear_imports() {
            self.end_physical(handle);
        }
        if is_idle {
            self.shared.memory.empty_quarantines();
        }
        self.shared.spine.flush();
    }

    /// Sets what happens to a stream after a failure; fails the second time.
    pub fn set_failure_mode(&self, stream: &Stream, mode: u64) -> Result<()> {
        let mode = match mode {
            0 => FailureMode::Continue,
            1 => FailureMode::Stop,
            other => {
                return Err(Error::refused(format!(
                    "failure mode {other}: expected 0 (continue) or 1 (stop)"
                )));
            }
        };
        match stream.set_failure_mode(mode) {
            true => Ok(()),
            false => Err(Error::refused(format!(
                "the failure mode of stream {} was set before: {:?}",
                stream.index,
                stream.failure_mode()
            ))),
        }
    }
}
