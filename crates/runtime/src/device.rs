//! Devices: opened and closed by reference count, shared by the threads of the process.

use crate::Runtime;
use crate::STREAMS_PER_DEVICE;
use crate::callbacks::DeviceState;
use crate::context::Context;
use crate::error::{Code, Error, Result};
use crate::host;
use crate::lock::{Mutex, Rank};
use crate::memory::Memory;
use crate::memory::registry::Registry;
use crate::stream::Stream;
use crate::sync::Arc;
use crate::sync::atomic::{AtomicU32, Ordering};

/// A software device.
pub struct Device {
    /// The user's id, after `ASCEND_RT_VISIBLE_DEVICES`.
    pub id: u32,
    state: Mutex<State>,
    saturation: AtomicU32,
}

#[derive(Default)]
struct State {
    references: u64,
    primary: Option<Arc<Context>>,
    explicit: Vec<Arc<Context>>,
}

impl Device {
    pub(crate) fn new(id: u32) -> Device {
        Device {
            id,
            state: Mutex::new(Rank::Device, State::default()),
            saturation: AtomicU32::new(crate::soc::SATURATE_INF_NAN),
        }
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
        self.contexts().iter().map(|c| c.stream_count()).sum()
    }

    /// How many more streams it takes.
    pub fn streams_left(&self) -> usize {
        STREAMS_PER_DEVICE.saturating_sub(self.stream_count())
    }

    /// How overflow of floating point numbers is treated.
    pub fn saturation(&self) -> u32 {
        self.saturation.load(Ordering::Relaxed)
    }

    /// Sets how overflow of floating point numbers is treated.
    pub fn set_saturation(&self, mode: u32) {
        self.saturation.store(mode, Ordering::Relaxed);
    }

    fn contexts(&self) -> Vec<Arc<Context>> {
        let state = self.state.lock();
        state.primary.iter().chain(&state.explicit).cloned().collect()
    }

    pub(crate) fn add_context(&self, context: Arc<Context>) {
        self.state.lock().explicit.push(context);
    }

    pub(crate) fn remove_context(&self, context: &Arc<Context>) -> bool {
        let mut state = self.state.lock();
        let before = state.explicit.len();
        state.explicit.retain(|c| !Arc::ptr_eq(c, context));
        state.explicit.len() < before
    }

    /// Releases the memory of a device that nobody has open. If somebody opened it again meanwhile,
    /// everything stays.
    pub(crate) fn clear_if_closed(&self, memory: &Memory, allocators: &Registry) {
        let state = self.state.lock();
        if state.references == 0 && state.primary.is_none() && state.explicit.is_empty() {
            allocators.device_ends(self.id);
            memory.clear(self.id);
            memory.set_active(self.id, false);
        }
    }
}

impl Runtime {
    /// Opens a device for the calling thread and makes its primary context current.
    pub fn set_device(&self, id: i64) -> Result<Arc<Context>> {
        let device = self.device(id)?;
        self.device_callbacks.call(device.id, DeviceState::SetPre);
        let context = {
            let mut state = device.state.lock();
            let context = match &state.primary {
                Some(context) => context.clone(),
                None => self.make_context(device.id, true)?,
            };
            state.primary = Some(context.clone());
            state.references += 1;
            context
        };
        self.shared.memory.set_active(device.id, true);
        host::set_context(context.handle());
        self.device_callbacks.call(device.id, DeviceState::SetPost);
        Ok(context)
    }

    /// Undoes one [`Runtime::set_device`], or with `force` all of them. The last one waits for the
    /// device's work and ends the primary context.
    pub fn reset_device(&self, id: i64, force: bool) -> Result<()> {
        let device = self.device(id)?;
        let call = if force { "aclrtResetDeviceForce" } else { "aclrtResetDevice" };
        let unset = || {
            let text = format!("device {id} is not set: {call} has no aclrtSetDevice to undo");
            Error::new(Code::ContextNull, text)
        };
        let ends = {
            let state = device.state.lock();
            if state.references == 0 {
                return Err(unset());
            }
            state.primary.clone().filter(|_| force || state.references == 1)
        };
        if let Some(primary) = ends {
            self.refuse_from_inside(&primary, call)?;
        }
        self.device_callbacks.call(device.id, DeviceState::ResetPre);
        let last = {
            let mut state = device.state.lock();
            if state.references == 0 {
                return Err(unset());
            }
            state.references = if force { 0 } else { state.references - 1 };
            if state.references == 0 { state.primary.take() } else { None }
        };
        if let Some(primary) = last {
            self.end_context(&primary);
            device.clear_if_closed(&self.shared.memory, &self.allocators);
        }
        self.device_callbacks.call(device.id, DeviceState::ResetPost);
        Ok(())
    }

    /// True if the device's primary context exists.
    pub fn is_primary_active(&self, id: i64) -> Result<bool> {
        Ok(self.device(id)?.is_open())
    }
}
