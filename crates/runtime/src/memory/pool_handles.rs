//! Pools by handle.

use super::pool::StreamPool;
use crate::Runtime;
use crate::error::{Code, Error, Result};
use crate::handle::HandleObject;
use crate::sync::Arc;

impl HandleObject for StreamPool {
    const KIND: &'static str = "memory pool";
}

/// Pools by handle.
impl Runtime {
    /// A new pool over the memory of a device that is open; it takes at most this many bytes, and gives
    /// back all that it has free whenever a stream of the device is synchronized. Returns its handle.
    pub fn create_pool(&self, device: i64, max_bytes: u64) -> Result<usize> {
        self.current_context()?;
        let device = self.device(device)?;
        if device.streams().is_empty() {
            let text = format!("device {0} is not set: call aclrtSetDevice({0}) first", device.id);
            return Err(Error::refused(text));
        }
        let memory = &self.shared.memory;
        let pool = memory.create_pool(device.id, max_bytes);
        memory.set_release_above(&pool, 0);
        self.handles.insert(pool.clone()).inspect_err(|_| memory.end_pool(&pool))
    }

    /// The pool behind a handle.
    pub fn pool(&self, handle: usize) -> Result<Arc<StreamPool>> {
        let pool = self.handles.get::<StreamPool>(handle)?;
        match pool.has_ended() {
            false => Ok(pool),
            true => Err(Error::new(
                Code::InvalidHandle,
                format!("the memory pool {handle:#x} ended when device {} was reset", pool.device),
            )),
        }
    }

    /// Ends a handle. The pool allocates no more blocks; it ends when the last one is freed and what was
    /// submitted before that has finished.
    pub fn destroy_pool(&self, handle: usize) -> Result<()> {
        let checked = self.pool(handle);
        let pool = self.handles.remove::<StreamPool>(handle)?;
        checked?;
        self.shared.memory.close_pool(&pool);
        Ok(())
    }
}
