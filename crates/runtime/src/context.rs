//! Contexts: a device as one part of a program sees it, with streams of its own.

use crate::Runtime;
use crate::STREAMS_PER_DEVICE;
use crate::callbacks::StreamState;
use crate::error::{Code, Error, Result};
use crate::host;
use crate::lock::{Mutex, Rank};
use crate::record::{Change, Event, Kind};
use crate::stream::{ContextFailure, Stream, StreamSpec, flag};
use crate::sync::Arc;
use crate::sync::atomic::Ordering;
use crate::worker::PRIORITIES;
use std::sync::OnceLock;

/// A context. The primary one belongs to its device and is shared by all threads that set it.
pub struct Context {
    /// The device.
    pub device: u32,
    /// True for the one that `aclrtSetDevice` makes.
    pub primary: bool,
    /// The stream that a null handle means.
    pub default_stream: Arc<Stream>,
    handle: usize,
    default_handle: OnceLock<usize>,
    context_failure: Arc<ContextFailure>,
    /// `None` once the context ends: no stream can be added then.
    streams: Mutex<Option<Streams>>,
    params: Mutex<[Option<i64>; 4]>,
}

/// The streams that the user made, with their handles.
type Streams = Vec<(usize, Arc<Stream>)>;

impl Context {
    /// The user's handle.
    pub fn handle(&self) -> usize {
        self.handle
    }

    /// The user's handle of the default stream.
    pub fn default_handle(&self) -> usize {
        *self.default_handle.get().expect("set when the context was made")
    }

    /// Its streams, the default one first.
    pub fn streams(&self) -> Vec<Arc<Stream>> {
        let mut all = vec![self.default_stream.clone()];
        all.extend(self.streams.lock().iter().flatten().map(|(_, s)| s.clone()));
        all
    }

    /// How many streams the user made in it.
    pub fn stream_count(&self) -> usize {
        self.streams.lock().as_ref().map_or(0, Vec::len)
    }

    /// A system parameter of this context.
    pub fn param(&self, opt: usize) -> Option<i64> {
        self.params.lock()[opt]
    }

    /// Sets a system parameter of this context.
    pub fn set_param(&self, opt: usize, value: i64) {
        self.params.lock()[opt] = Some(value);
    }
}

impl Runtime {
    /// A new context with its default stream.
    pub(crate) fn make_context(&self, device: u32, primary: bool) -> Result<Arc<Context>> {
        let context = self.handles.insert_with(|handle| {
            let context_failure = Arc::<ContextFailure>::default();
            let spec = StreamSpec {
                device,
                context: handle as u64,
                context_failure: context_failure.clone(),
                priority: 0,
                flags: 0,
            };
            Ok(Arc::new(Context {
                device,
                primary,
                default_stream: Stream::new(&self.shared, spec)?,
                handle,
                default_handle: OnceLock::new(),
                context_failure,
                streams: Mutex::new(Rank::Context, Some(Vec::new())),
                params: Mutex::new(Rank::Context, [None; 4]),
            }))
        })?;
        let default_handle = self.handles.insert(context.default_stream.clone())?;
        context
            .default_handle
            .set(default_handle)
            .expect("a new context has no default stream yet");
        Ok(context)
    }

    /// Emits that a context and its default stream were created, on a device that has `count` streams of the user.
    pub(crate) fn emit_context(&self, context: &Context, count: usize) {
        let (handle, device) = (context.handle as u64, context.device);
        let change = Change::Created;
        let event = || Event::Context { context: handle, device, change };
        self.shared.spine.emit(Kind::Context, event);
        self.emit_stream(&context.default_stream, change, count);
    }

    fn emit_stream(&self, stream: &Stream, change: Change, count: usize) {
        let (index, device, context) = (stream.index, stream.spec.device, stream.spec.context);
        let event = || Event::Stream { stream: index, device, context, change, count };
        self.shared.spine.emit(Kind::Stream, event);
    }

    /// Ends a context that its device no longer lists: waits for its streams and removes all its handles. With `force` streams
    /// wait for nobody else.
    pub(crate) fn end_context(&self, context: &Context, force: bool) {
        let streams = context.streams.lock().take().unwrap_or_default();
        if force {
            let waiting = streams.iter().map(|(_, stream)| stream);
            waiting.chain([&context.default_stream]).for_each(|stream| stream.give_up_waits());
        }
        let count = self.devices[context.device as usize].stream_count();
        for (handle, stream) in &streams {
            if !stream.ending.swap(true, Ordering::SeqCst) {
                self.stream_callbacks.call(*handle, StreamState::DestroyPre);
            }
            if self.handles.remove::<Stream>(*handle).is_ok() {
                let _ = stream.close(true);
                self.emit_stream(stream, Change::Destroyed, count);
                self.allocators.stream_ended(*handle, stream);
            }
        }
        context.default_stream.ending.store(true, Ordering::SeqCst);
        let _ = context.default_stream.close(true);
        let _ = self.handles.remove::<Stream>(context.default_handle());
        self.emit_stream(&context.default_stream, Change::Destroyed, count);
        self.allocators.stream_ended(context.default_handle(), &context.default_stream);
        let _ = self.handles.remove::<Context>(context.handle);
        let (handle, device) = (context.handle as u64, context.device);
        let change = Change::Destroyed;
        let event = || Event::Context { context: handle, device, change };
        self.shared.spine.emit(Kind::Context, event);
    }

    /// Fails on a thread that runs a host function of the context: a wait for the context would wait for that function, so
    /// for itself.
    pub(crate) fn check_not_in_host_function(&self, context: &Context, call: &str) -> Result<()> {
        let is_own_function = context.streams().iter().any(|s| s.key() == host::host_function_of());
        match is_own_function {
            false => Ok(()),
            true => Err(Error::refused(format!(
                "{call} was called from a host function of a stream that it would wait for without end"
            ))),
        }
    }

    /// A new explicit context, current in the calling thread.
    pub fn create_context(&self, device: i64) -> Result<Arc<Context>> {
        let context = self.open_context(self.device(device)?)?;
        host::set_context(context.handle);
        Ok(context)
    }

    /// Ends an explicit context.
    pub fn destroy_context(&self, handle: usize) -> Result<()> {
        let context = self.handles.get::<Context>(handle)?;
        if context.primary {
            return Err(Error::refused(format!(
                "context {handle:#x} is the default context of device {}: aclrtResetDevice ends it",
                context.device
            )));
        }
        self.check_not_in_host_function(&context, "aclrtDestroyContext")?;
        let device = &self.devices[context.device as usize];
        if !device.remove_context(&context) {
            return Err(Error::new(
                Code::InvalidHandle,
                format!("context {handle:#x} is being destroyed"),
            ));
        }
        self.end_context(&context, false);
        self.clear_if_closed(device);
        Ok(())
    }

    /// Makes a context current in the calling thread.
    pub fn set_current_context(&self, handle: usize) -> Result<()> {
        self.handles.get::<Context>(handle)?;
        host::set_context(handle);
        Ok(())
    }

    /// A new stream of the calling thread's context; returns its handle.
    pub fn create_stream(&self, priority: u32, flags: u32) -> Result<usize> {
        if priority as usize >= PRIORITIES {
            return Err(Error::refused(format!(
                "stream priority {priority}: expected 0 (highest) to 7"
            )));
        }
        if flags & !flag::ALL != 0 {
            return Err(Error::refused(format!(
                "stream flag {flags:#x}: expected a combination of {:#x}",
                flag::ALL
            )));
        }
        let context = self.current_context()?;
        let device = &self.devices[context.device as usize];
        if device.stream_count() >= STREAMS_PER_DEVICE {
            return Err(Error::new(
                Code::NoStreamResource,
                format!(
                    "device {} has {STREAMS_PER_DEVICE} streams already: destroy some",
                    device.id
                ),
            ));
        }
        let spec = StreamSpec {
            device: context.device,
            context: context.handle as u64,
            context_failure: context.context_failure.clone(),
            priority,
            flags,
        };
        let stream = Stream::new(&self.shared, spec)?;
        let handle = self.handles.insert(stream.clone())?;
        let is_added = match &mut *context.streams.lock() {
            Some(streams) => {
                streams.push((handle, stream.clone()));
                true
            }
            None => false,
        };
        if !is_added {
            self.handles.remove::<Stream>(handle)?;
            return Err(Error::no_context());
        }
        self.emit_stream(&stream, Change::Created, device.stream_count());
        self.stream_callbacks.call(handle, StreamState::CreatePost);
        Ok(handle)
    }

    /// Ends a stream. With `wait` its work is finished first; otherwise queued work is dropped.
    pub fn destroy_stream(&self, handle: usize, wait: bool) -> Result<()> {
        let stream = self.handles.get::<Stream>(handle)?;
        let context = self.handles.get::<Context>(stream.spec.context as usize).ok();
        if context.as_ref().is_some_and(|c| Arc::ptr_eq(&c.default_stream, &stream)) {
            return Err(Error::refused(format!(
                "stream {handle:#x} is the default stream of a context and ends with it"
            )));
        }
        if wait && host::host_function_of() == stream.key() {
            // Refuses: the stream would wait for itself.
            return stream.close(true);
        }
        if stream.ending.swap(true, Ordering::SeqCst) {
            let text = format!("stream {handle:#x} is being destroyed by another thread");
            return Err(Error::new(Code::InvalidHandle, text));
        }
        self.stream_callbacks.call(handle, StreamState::DestroyPre);
        let stream = self.handles.remove::<Stream>(handle)?;
        if let Some(context) = context
            && let Some(streams) = &mut *context.streams.lock()
        {
            streams.retain(|(h, _)| *h != handle);
        }
        let closed = stream.close(wait);
        let device = &self.devices[stream.spec.device as usize];
        self.emit_stream(&stream, Change::Destroyed, device.stream_count());
        self.allocators.stream_ended(handle, &stream);
        closed
    }
}
