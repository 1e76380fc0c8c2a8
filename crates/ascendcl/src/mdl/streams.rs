//! Streams of models: each loaded model has one of its own, for its load and for runs without a stream of the caller.

use crate::door::runtime;
use cairn_runtime::Runtime;
use cairn_runtime::context::Context;
use cairn_runtime::error::{Code, Error, Result};
use cairn_runtime::host;
use cairn_runtime::stream::Stream;
use cairn_runtime::worker::PRIORITIES;
use std::sync::{Arc, Mutex, PoisonError};

/// Streams of unloaded models, by handle, which are not idle yet.
static RETIRED: Mutex<Vec<usize>> = Mutex::new(Vec::new());

/// The streams of one model in the context of its load: one for each priority that it has had.
pub struct ModelStreams {
    context: usize,
    handles: Mutex<[Option<usize>; PRIORITIES]>,
}

impl ModelStreams {
    /// No stream yet, in the calling thread's context.
    pub fn new(runtime: &Runtime) -> Result<ModelStreams> {
        let context = runtime.current_context()?.handle();
        Ok(ModelStreams { context, handles: Mutex::new([None; PRIORITIES]) })
    }

    /// The context; fails once it was destroyed, and the model's memory with it.
    pub fn expect_context(&self, runtime: &Runtime) -> Result<Arc<Context>> {
        runtime.handles.get::<Context>(self.context).map_err(|_| {
            Error::new(
                Code::ContextNull,
                format!(
                    "the context {:#x} in which the model was loaded is gone: load the model again",
                    self.context
                ),
            )
        })
    }

    /// The stream of this priority, created at its first use.
    pub fn stream(&self, runtime: &Runtime, priority: u32) -> Result<Arc<Stream>> {
        self.expect_context(runtime)?;
        let at = priority as usize % PRIORITIES;
        if let Some(handle) = self.handles()[at] {
            return runtime.handles.get(handle);
        }
        // No lock is held: this may call a callback of the user.
        let previous = host::context();
        host::set_context(self.context);
        let created = runtime.create_stream(priority, 0);
        host::set_context(previous);
        let created = created?;
        let kept = *self.handles()[at].get_or_insert(created);
        if kept != created {
            runtime.destroy_stream(created, true)?;
        }
        runtime.handles.get(kept)
    }

    fn handles(&self) -> std::sync::MutexGuard<'_, [Option<usize>; PRIORITIES]> {
        self.handles.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ModelStreams {
    /// Does not wait: memory of the model is freed in the order of these streams, which may wait for streams of the
    /// user.
    fn drop(&mut self) {
        let handles = *self.handles();
        retired().extend(handles.into_iter().flatten());
        destroy_idle();
    }
}

fn retired() -> std::sync::MutexGuard<'static, Vec<usize>> {
    RETIRED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Destroys the streams of unloaded models that are idle.
pub fn destroy_idle() {
    let Ok(runtime) = runtime() else { return };
    if runtime.shared.exiting() {
        return;
    }
    let mut done = Vec::new();
    retired().retain(|handle| match runtime.handles.get::<Stream>(*handle) {
        Ok(stream) if !stream.is_idle() => true,
        Ok(_) => {
            done.push(*handle);
            false
        }
        Err(_) => false,
    });
    for handle in done {
        if let Err(error) = runtime.destroy_stream(handle, true) {
            log::warn!("a stream of an unloaded model cannot be destroyed: {}", error.text);
        }
    }
}
