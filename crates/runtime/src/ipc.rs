//! Events and notifies that processes share: words in a page that all of them map.
//!
//! ```text
//!  exporter                 page of a memory file              importer
//!  record ── task ────────> record 7 is done  <─────────────── watcher.rs: completes the capture
//!                                                              in which a stream waits
//! ```
//!
//! No thread of a stream waits: a stream that waits for another process is parked, and one thread of the process watches
//! for all of them, while there are any.

mod cell;
pub mod notify;
mod process;
pub mod shared_event;
mod watcher;

pub use cell::Cell;
pub use watcher::Watcher;

use crate::Runtime;
use crate::error::Result;
use crate::event::Event;
use crate::memory::sharing::{Key, SharedKind};
use crate::sync::Arc;
use crate::sync::atomic::Ordering;
use shared_event::SharedEvent;

impl Runtime {
    /// A new event that other processes can open.
    pub(crate) fn make_shared_event(&self, id: u32) -> Result<Event> {
        let cell = Cell::new(self.shared.memory.sharing())?;
        Ok(Event::shared(id, SharedEvent::new(cell, self.watcher.clone())))
    }

    /// The key of such an event.
    pub fn export_event(&self, handle: usize) -> Result<Key> {
        let event = self.event(handle)?;
        event.require_shared()?.export(self.shared.memory.sharing())
    }

    /// A handle of an event of another process.
    pub fn open_event(&self, key: Key) -> Result<usize> {
        self.current_context()?;
        let cell = Cell::open(self.shared.memory.sharing(), key, SharedKind::Event)?;
        let id = self.next_event.fetch_add(1, Ordering::Relaxed);
        let shared = SharedEvent::new(cell, self.watcher.clone());
        let handle = self.handles.insert(Arc::new(Event::shared(id, shared)))?;
        self.live_events.fetch_add(1, Ordering::Relaxed);
        Ok(handle)
    }
}
