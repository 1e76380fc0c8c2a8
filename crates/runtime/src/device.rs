//! Devices: opened and closed by reference count, shared by the threads of the process.

use crate::Runtime;
use crate::STREAMS_PER_DEVICE;
use crate::callbacks::DeviceState;
use crate::context::Context;
use crate::error::{Code, Error, Result};
use crate::host;
use crate::lock::{Mutex, Rank};
use crate::record::{Change, Event, Kind};
use crate::stream::Stream;
use crate::sync::Arc;

/// A software device.
pub struct Device {
    /// The user's id, after `ASCEND_RT_VISIBLE_DEVICES`.
    pub id: u32,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    references: u64,
    primary: Option<Arc<Context>>,
    explicit: Vec<Arc<Context>>,
}

impl Device {
    pub(crate) fn new(id: u32) -> Device {
        Device { id, state: Mutex::new(Rank::Device, State::default()) }
    }

    /// True while a thread has set the device.
    pub fn is_open(&self) -> bool {
        self.state.lock().primary.is_some()
    }

    /// Its primary context, while the device is open.
    pub fn primary(&self) -> Option<Arc<Context>> {
        self.state.lock().primary.clone()
    }

    /// All its streams, of every context.
    pub fn streams(&self) -> Vec<Arc<Stream>> {
        self.contexts().iter().flat_map(|c| c.streams()).collect()
    }

    /// How many streams the user made on it.
    pub fn stream_count(&self) -> usize {
        self.state.lock().stream_count()
    }

    /// How many more streams it takes.
    pub fn streams_left(&self) -> usize {
        STREAMS_PER_DEVICE.saturating_sub(self.stream_count())
    }

    fn contexts(&self) -> Vec<Arc<Context>> {
        self.state.lock().contexts().cloned().collect()
    }

    /// Removes an explicit context; false if it was removed before.
    pub(crate) fn remove_context(&self, context: &Arc<Context>) -> bool {
        let mut state = self.state.lock();
        let before = state.explicit.len();
        state.explicit.retain(|c| !Arc::ptr_eq(c, context));
        state.explicit.len() < before
    }
}

impl State {
    fn contexts(&self) -> impl Iterator<Item = &Arc<Context>> {
        self.primary.iter().chain(&self.explicit)
    }

    fn is_closed(&self) -> bool {
        self.references == 0 && self.contexts().next().is_none()
    }

    fn stream_count(&self) -> usize {
        self.contexts().map(|context| context.stream_count()).sum()
    }
}

impl Runtime {
    fn emit_device(&self, device: &Device, change: Change) {
        let capacity = || self.shared.memory.info(device.id).1;
        let event = || Event::Device { device: device.id, change, capacity: capacity() };
        self.shared.spine.emit(Kind::Device, event);
    }

    /// Emits that a context was created, and before that that the device was opened if it was closed. Under the device's
    /// lock: nobody can use the context before.
    fn emit_opened(&self, device: &Device, state: &State, context: &Context) {
        if state.is_closed() {
            self.emit_device(device, Change::Created);
        }
        self.emit_context(context, state.stream_count());
    }

    /// A new explicit context of a device.
    pub(crate) fn open_context(&self, device: &Device) -> Result<Arc<Context>> {
        let mut state = device.state.lock();
        let context = self.make_context(device.id, false)?;
        self.emit_opened(device, &state, &context);
        state.explicit.push(context.clone());
        Ok(context)
    }

    /// Releases the memory of a device that nobody has open. If somebody opened it again meanwhile,
    /// everything stays.
    pub(crate) fn clear_if_closed(&self, device: &Device) {
        let state = device.state.lock();
        if state.is_closed() {
            self.allocators.device_ends(device.id);
            let handles = self.shared.memory.clear(device.id);
            handles.into_iter().for_each(|handle| self.end_physical(handle));
            self.emit_device(device, Change::Destroyed);
        }
    }

    /// Opens a device for the calling thread and makes its primary context current.
    pub fn set_device(&self, id: i64) -> Result<Arc<Context>> {
        let device = self.device(id)?;
        self.device_callbacks.call(device.id, DeviceState::SetPre);
        let context = {
            let mut state = device.state.lock();
            let context = match &state.primary {
                Some(context) => context.clone(),
                None => {
                    let context = self.make_context(device.id, true)?;
                    self.emit_opened(device, &state, &context);
                    context
                }
            };
            state.primary = Some(context.clone());
            state.references += 1;
            context
        };
        host::set_context(context.handle());
        self.device_callbacks.call(device.id, DeviceState::SetPost);
        Ok(context)
    }

    /// Undoes one [`Runtime::set_device`], or with `force` all of them. The last one waits for the
    /// device's work and ends the primary context; with `force` streams no longer wait for what nobody in this process recorded.
    pub fn reset_device(&self, id: i64, force: bool) -> Result<()> {
        let device = self.device(id)?;
        let call = if force { "aclrtResetDeviceForce" } else { "aclrtResetDevice" };
        let not_set = || {
            let text = format!("device {id} is not set: {call} has no aclrtSetDevice to undo");
            Error::new(Code::ContextNull, text)
        };
        let ending_context = {
            let state = device.state.lock();
            if state.references == 0 {
                return Err(not_set());
            }
            state.primary.clone().filter(|_| force || state.references == 1)
        };
        if let Some(primary) = ending_context {
            self.check_not_in_host_function(&primary, call)?;
        }
        self.device_callbacks.call(device.id, DeviceState::ResetPre);
        let ended_context = {
            let mut state = device.state.lock();
            if state.references == 0 {
                return Err(not_set());
            }
            state.references = if force { 0 } else { state.references - 1 };
            if state.references == 0 { state.primary.take() } else { None }
        };
        if let Some(primary) = ended_context {
            self.end_context(&primary, force);
            self.clear_if_closed(device);
        }
        self.device_callbacks.call(device.id, DeviceState::ResetPost);
        Ok(())
    }

    /// True if the device's primary context exists.
    pub fn is_primary_active(&self, id: i64) -> Result<bool> {
        Ok(self.device(id)?.is_open())
    }
}
