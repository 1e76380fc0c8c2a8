//! Notifies: a flag that streams set, and that one stream at a time waits for and clears.

use super::cell::Cell;
use super::watcher::{Signal, Watcher};
use crate::Runtime;
use crate::error::{Code, Error, Result};
use crate::event::{Capture, INTERNAL, Waits};
use crate::handle::HandleObject;
use crate::memory::sharing::{Key, SharedKind};
use crate::stream::Stream;
use crate::sync::Arc;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::task::{Body, Task, Wait, Work};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

/// The word that is the flag.
const FLAG: usize = 0;
/// Notifies there may be.
const NOTIFIES: u32 = 8192;

/// A flag of one bit in a page that processes share. A record sets it; a wait blocks its stream until it is set, and clears
/// it. Two records before a wait count once.
pub struct Notify {
    /// A number for `aclrtGetNotifyId`.
    pub id: u32,
    cell: Arc<Cell>,
    watcher: Arc<Watcher>,
    /// Its handle was destroyed: who waits goes on.
    is_over: Arc<AtomicBool>,
}

impl HandleObject for Notify {
    const KIND: &'static str = "notify";
}

/// Sets the flag.
struct Set {
    cell: Arc<Cell>,
    watcher: Arc<Watcher>,
}

impl Work for Set {
    fn run(&self) -> Result<()> {
        self.cell.word(FLAG).store(1, SeqCst);
        self.watcher.poke();
        Ok(())
    }
}

/// The flag, taken by whoever sees it first.
struct Flag {
    cell: Arc<Cell>,
    /// The wait it is for; one that timed out takes nothing from the next.
    waits: Arc<Waits>,
    is_over: Arc<AtomicBool>,
    /// Why nobody watches for it.
    failure: OnceLock<Error>,
}

impl Signal for Flag {
    fn poll(&self, _: bool) -> bool {
        self.waits.are_over()
            || self.cell.word(FLAG).swap(0, SeqCst) == 1
            || self.is_over.load(SeqCst)
    }

    fn fail(&self, error: Error) {
        let _ = self.failure.set(error);
    }
}

/// What the wait comes to; runs after it.
impl Work for Flag {
    fn run(&self) -> Result<()> {
        self.failure.get().map_or(Ok(()), |failure| Err(failure.clone()))
    }
}

/// Begins to watch for the flag: its stream has come to the wait.
struct Arm {
    watcher: Arc<Watcher>,
    capture: Arc<Capture>,
    flag: Arc<Flag>,
}

impl Work for Arm {
    fn run(&self) -> Result<()> {
        self.watcher.watch(&self.capture, self.flag.clone())
    }
}

impl Notify {
    /// Sets the flag in stream order.
    pub fn record(&self, stream: &Arc<Stream>) -> Result<()> {
        let set = Set { cell: self.cell.clone(), watcher: self.watcher.clone() };
        stream.submit(Task::bare("aclrtRecordNotify", Body::Work(Arc::new(set)))).map(drop)
    }

    /// Lets the stream wait for the flag, and clears it; `limit` zero is for ever. Only the process that made it may.
    pub fn wait(&self, stream: &Arc<Stream>, limit: Duration) -> Result<()> {
        const NAME: &str = "aclrtWaitAndResetNotify";
        if !self.cell.is_own() {
            return Err(Error::refused(format!(
                "notify {} was imported: only the process that made it can wait for it",
                self.id
            )));
        }
        let capture = Arc::new(Capture::default());
        let waits = Arc::<Waits>::default();
        waits.begin_one();
        let (cell, is_over) = (self.cell.clone(), self.is_over.clone());
        let flag = Arc::new(Flag { cell, waits: waits.clone(), is_over, failure: OnceLock::new() });
        let (watcher, capture_of_arm) = (self.watcher.clone(), capture.clone());
        let arm = Arm { watcher, capture: capture_of_arm, flag: flag.clone() };
        stream.submit(Task::bare(NAME, Body::Work(Arc::new(arm))))?;
        let limit_ns = limit.as_nanos() as u64;
        let wait = Wait { capture, limit_ns, waits, reached_ns: AtomicU64::new(0) };
        stream.submit_wait(NAME, INTERNAL, wait)?;
        stream.submit(Task::bare(NAME, Body::Work(flag))).map(drop)
    }

    /// Clears the flag at once.
    pub fn reset(&self) {
        self.cell.word(FLAG).store(0, SeqCst);
    }
}

impl Runtime {
    /// A new notify.
    pub fn create_notify(&self) -> Result<usize> {
        self.current_context()?;
        if self.live_notifies.load(Ordering::Relaxed) >= NOTIFIES {
            let text = format!("there are {NOTIFIES} notifies already: destroy some");
            return Err(Error::new(Code::NoNotifyResource, text));
        }
        self.add_notify(Cell::new(self.shared.memory.sharing())?)
    }

    fn add_notify(&self, cell: Cell) -> Result<usize> {
        let id = self.next_notify.fetch_add(1, Ordering::Relaxed);
        let (cell, watcher, is_over) = (Arc::new(cell), self.watcher.clone(), Arc::default());
        let handle = self.handles.insert(Arc::new(Notify { id, cell, watcher, is_over }))?;
        self.live_notifies.fetch_add(1, Ordering::Relaxed);
        Ok(handle)
    }

    /// The notify behind a handle.
    pub fn notify(&self, handle: usize) -> Result<Arc<Notify>> {
        match handle {
            0 => Err(Error::null("notify")),
            handle => self.handles.get(handle),
        }
    }

    /// Ends a notify; streams that wait for it go on.
    pub fn destroy_notify(&self, handle: usize) -> Result<()> {
        let notify = self.handles.remove::<Notify>(handle)?;
        self.live_notifies.fetch_sub(1, Ordering::Relaxed);
        notify.is_over.store(true, SeqCst);
        notify.cell.close(self.shared.memory.sharing(), SharedKind::Notify);
        notify.watcher.poke();
        Ok(())
    }

    /// The key under which other processes import a notify; who may is as the last call says.
    pub fn export_notify(&self, handle: usize, is_open: bool) -> Result<Key> {
        let (notify, sharing) = (self.notify(handle)?, self.shared.memory.sharing());
        if !notify.cell.is_own() {
            return Err(Error::refused(format!(
                "notify {} was imported: only the process that made it can export it",
                notify.id
            )));
        }
        notify.cell.export(sharing, SharedKind::Notify, is_open)
    }

    /// Names processes that may import it; it was exported before.
    pub fn allow_notify(&self, handle: usize, pids: &[i32]) -> Result<()> {
        let notify = self.notify(handle)?;
        let key = notify.cell.key().ok_or_else(|| {
            Error::refused(format!("notify {} was not exported: it has no key", notify.id))
        })?;
        self.shared.memory.sharing().allow(key, SharedKind::Notify, pids)
    }

    /// A notify of another process.
    pub fn import_notify(&self, key: Key) -> Result<usize> {
        self.current_context()?;
        self.add_notify(Cell::open(self.shared.memory.sharing(), key, SharedKind::Notify)?)
    }
}
