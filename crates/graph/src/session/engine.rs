//! The engine of a process and its sessions.

use super::entry::{Entry, SharedGraph};
use super::options::{DeviceOption, Options};
use super::queue::RunQueue;
use super::variables::Variables;
use crate::custom::CustomOperators;
use crate::failure::{Failure, Result, Status};
use cairn_runtime::Runtime;
use cairn_runtime::host;
use cairn_runtime::lock::{Mutex, Rank};
use cairn_runtime::memory::external::UserAllocator;
use cairn_runtime::memory::registry::Domain;
use cairn_runtime::stream::Stream;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The graph engine of a process: started once, then it has sessions.
///
/// Any thread may call. No lock is held while a user's allocator is called.
pub struct Engine {
    state: Mutex<State>,
    pub(super) queue: RunQueue,
    /// Operators of the program's own, for graphs of every session.
    pub custom: Arc<CustomOperators>,
}

/// What changes while the engine runs.
struct State {
    options: Option<Options>,
    sessions: BTreeMap<u64, Arc<Session>>,
    /// The id of the next session.
    next: u64,
    /// Sessions with smaller ids ended with the engine.
    ended_before: u64,
    /// The devices that it has set, each with the handle of the default context that keeps it open.
    devices: BTreeMap<u32, (&'static Runtime, usize)>,
}

impl Default for Engine {
    fn default() -> Engine {
        let state = State {
            options: None,
            sessions: BTreeMap::new(),
            next: 1,
            ended_before: 0,
            devices: BTreeMap::new(),
        };
        Engine {
            state: Mutex::new(Rank::Engine, state),
            queue: RunQueue::default(),
            custom: Arc::default(),
        }
    }
}

impl Engine {
    /// Starts with options for all sessions. The device that they name becomes the calling thread's; without one the
    /// thread keeps what it has. A second call has no effect.
    pub fn start(&self, runtime: &'static Runtime, options: Options) -> Result<()> {
        if self.state.lock().options.is_some() {
            log::warn!("GEInitialize was called before: the first options stay");
            return Ok(());
        }
        if let Some(requested) = options.engine_device()? {
            self.set_device(runtime, requested.device)
                .map_err(|failure| of_device(&requested, failure))?;
        }
        self.state.lock().options.get_or_insert(options);
        Ok(())
    }

    /// Ends all sessions, on this thread, when the runs are over that were asked for without a stream, and releases
    /// the devices that it has set. Registrations of allocators stay: they belong to their streams.
    pub fn stop(&self) {
        let runtime = self.state.lock().sessions.values().next().map(|session| session.runtime);
        if let Some(runtime) = runtime {
            self.drain(runtime);
        }
        let (sessions, devices) = {
            let mut state = self.state.lock();
            state.options = None;
            state.ended_before = state.next;
            (std::mem::take(&mut state.sessions), std::mem::take(&mut state.devices))
        };
        sessions.values().for_each(|session| session.close());
        for (device, (runtime, context)) in devices {
            if !runtime.shared.exiting() && primary(runtime, device) == Some(context) {
                // Refused inside a callback of the device; it then stays open.
                let _ = runtime.reset_device(i64::from(device), false);
            }
        }
    }

    /// Makes a device the calling thread's, and keeps it open until the engine stops.
    fn set_device(&self, runtime: &'static Runtime, device: u32) -> Result<()> {
        let context = self.state.lock().devices.get(&device).map(|(_, context)| *context);
        if let Some(context) = context.filter(|context| primary(runtime, device) == Some(*context))
        {
            host::set_context(context);
            return Ok(());
        }
        let context = runtime.set_device(i64::from(device))?.handle();
        let previous = self.state.lock().devices.insert(device, (runtime, context));
        if previous.is_some_and(|(_, previous)| previous == context) {
            // Another thread was first: one reference is enough.
            runtime.reset_device(i64::from(device), false)?;
        }
        Ok(())
    }

    /// Waits for the runs without a stream, callbacks included; not once the process is exiting.
    fn drain(&self, runtime: &Runtime) {
        if !runtime.shared.exiting() {
            self.queue.drain();
        }
    }

    /// The engine's options; fails while it is not started.
    pub fn started(&self) -> Result<Options> {
        self.state.lock().options.clone().ok_or_else(|| {
            Failure::new(
                Status::NotInitialised,
                "E10062: the graph engine is not initialised: call GEInitialize first",
            )
        })
    }

    /// A new session; its id. Its device becomes the calling thread's: the one that the options name, else the thread's
    /// own, else device 0.
    pub fn open(&self, runtime: &'static Runtime, options: Options) -> Result<u64> {
        let options = options.with_defaults(&self.started()?);
        let device = match options.session_device()? {
            Some(requested) => {
                let set = self.set_device(runtime, requested.device);
                set.map_err(|failure| of_device(&requested, failure))?;
                requested.device
            }
            None => {
                let device = runtime.current_device().unwrap_or(0);
                self.set_device(runtime, device)?;
                device
            }
        };
        let mut state = self.state.lock();
        let id = state.next;
        state.next += 1;
        let graphs = Mutex::new(Rank::Session, BTreeMap::new());
        let own_stream = Mutex::new(Rank::Session, 0);
        let variables = Variables::default();
        let custom = self.custom.clone();
        let session =
            Session { id, device, runtime, options, graphs, own_stream, variables, custom };
        state.sessions.insert(id, Arc::new(session));
        Ok(id)
    }

    /// Ends a session and its graphs, on this thread, when the runs are over that were asked for without a stream. What
    /// is queued on streams goes on. For a session that ended with the engine nothing is left to do.
    pub fn close(&self, id: u64) -> Result<()> {
        let known = self.state.lock().sessions.get(&id).cloned();
        if let Some(session) = known {
            self.drain(session.runtime);
        }
        let (session, ended_before) = {
            let mut state = self.state.lock();
            (state.sessions.remove(&id), state.ended_before)
        };
        match session {
            Some(session) => {
                session.close();
                Ok(())
            }
            None if id < ended_before => Ok(()),
            None => Err(no_session(id)),
        }
    }

    /// The session of an id.
    pub fn session(&self, id: u64) -> Result<Arc<Session>> {
        self.started()?;
        self.state.lock().sessions.get(&id).cloned().ok_or_else(|| no_session(id))
    }

    /// Registers an allocator on a stream, for graphs of every session. The last one wins. It belongs to the stream: it
    /// outlives the session and the engine, and ends with the stream at the latest.
    pub fn register(
        &self,
        session: u64,
        handle: usize,
        user: Option<Box<dyn UserAllocator>>,
    ) -> Result<()> {
        let session = self.session(session)?;
        if handle == 0 {
            return Err(Failure::failed("RegisterExternalAllocator: the stream is null"));
        }
        let Some(user) = user else {
            return Err(Failure::failed("RegisterExternalAllocator: the allocator is null"));
        };
        let runtime = session.runtime;
        let stream = runtime.handles.get::<Stream>(handle).map_err(|error| {
            Failure::failed(format!("RegisterExternalAllocator: {}", error.text))
        })?;
        let user_handle = user.identity().object;
        runtime.allocators.register(Domain::Ge, handle, &stream, user_handle, user)?;
        Ok(())
    }

    /// Ends what is registered on a stream, if anything is.
    pub fn unregister(&self, session: u64, handle: usize) -> Result<()> {
        let session = self.session(session)?;
        if handle == 0 {
            return Err(Failure::failed("UnregisterExternalAllocator: the stream is null"));
        }
        session.runtime.allocators.unregister(Domain::Ge, handle);
        Ok(())
    }
}

/// The handle of a device's default context, while the device is set.
fn primary(runtime: &Runtime, device: u32) -> Option<usize> {
    Some(runtime.device(i64::from(device)).ok()?.primary()?.handle())
}

/// The failure to set a device that an option asked for.
fn of_device(requested: &DeviceOption, failure: Failure) -> Failure {
    failure.in_context(format!("{}={}", requested.key, requested.device))
}

/// The failure of an id without a session.
fn no_session(id: u64) -> Failure {
    Failure::failed(format!(
        "E10062: session {id} does not exist: it was destroyed, or its constructor failed (the first error text says why)"
    ))
}

/// A session: graphs by id, on one device.
pub struct Session {
    /// Its number.
    pub id: u64,
    /// The device its graphs run on.
    pub device: u32,
    /// The runtime.
    pub runtime: &'static Runtime,
    /// Its options, over those of the engine.
    pub options: Options,
    graphs: Mutex<BTreeMap<u32, Arc<Entry>>>,
    /// The handle of the stream for runs without one of the user; 0 before the first.
    pub(super) own_stream: Mutex<usize>,
    pub(super) variables: Variables,
    custom: Arc<CustomOperators>,
}

impl Session {
    /// Adds a graph under an id that is free.
    pub fn add(&self, id: u32, graph: SharedGraph, options: Options) -> Result<()> {
        if graph.lock().is_empty() {
            return Err(Failure::failed(format!("graph {id} has no nodes")));
        }
        let options = options.with_defaults(&self.options);
        let custom = self.custom.clone();
        let entry = Arc::new(Entry::new(self.runtime, self.device, id, graph, options, custom));
        let mut graphs = self.graphs.lock();
        if graphs.contains_key(&id) {
            return Err(Failure::new(
                Status::AlreadyExist,
                format!("there is a graph with the id {id} already: remove it, or take another id"),
            ));
        }
        graphs.insert(id, entry);
        Ok(())
    }

    /// Removes a graph, on this thread. What is queued goes on.
    pub fn remove(&self, id: u32) -> Result<()> {
        let entry = self.graphs.lock().remove(&id).ok_or_else(|| self.unknown(id))?;
        entry.unload();
        Ok(())
    }

    /// The graph of an id.
    pub fn graph(&self, id: u32) -> Result<Arc<Entry>> {
        self.graphs.lock().get(&id).cloned().ok_or_else(|| self.unknown(id))
    }

    /// The failure of an id without a graph.
    fn unknown(&self, id: u32) -> Failure {
        Failure::new(
            Status::NotExist,
            format!(
                "E10062: session {} has no graph {id}: it was not added, or was removed",
                self.id
            ),
        )
    }

    fn close(&self) {
        let graphs = std::mem::take(&mut *self.graphs.lock());
        graphs.values().for_each(|entry| entry.unload());
        self.variables.clear();
        let handle = std::mem::take(&mut *self.own_stream.lock());
        if handle != 0 {
            // Gone already if the device was reset.
            let _ = self.runtime.destroy_stream(handle, true);
        }
    }

    /// Runs something with the session's device current on this thread.
    pub fn on_device<T>(&self, run: impl FnOnce() -> Result<T>) -> Result<T> {
        let previous = host::context();
        match primary(self.runtime, self.device) {
            Some(context) => host::set_context(context),
            None => drop(self.runtime.set_device(i64::from(self.device))?),
        }
        let result = run();
        host::set_context(previous);
        result
    }
}
