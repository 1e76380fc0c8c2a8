//! Sharing between processes: what this one exports, and how it opens what others do.
//!
//! ```text
//!  exporter                                        importer
//!  directory.rs: a memory file of slots  <──────── peer.rs: /proc/<pid>/fd, the slot of the key, the file it names
//!     slot: kind, file, offset, bytes, who may
//! ```
//!
//! A key is a number: process, slot, and a random part, which tells a slot from the one that was there before and a
//! process from a later one of the same number. Nothing has a name in a file system: what nobody has open is gone, however
//! the processes end.

mod area;
mod directory;
mod held_parts;
mod peer;

pub use directory::{Export, Key, KeyEnd, MAX_EXTENTS, SharedKind};
pub use held_parts::HeldParts;
pub use peer::Import;

use crate::error::{Code, Error, Result};
use crate::lock::{Mutex, Rank};
use crate::memory::budget::Budget;
use crate::memory::process_file::explain_file_error;
use crate::memory::vmm::{ForeignRange, ForeignStore, Store};
use crate::sync::{Arc, Weak};
use directory::Directory;
use std::collections::HashMap;
use std::sync::OnceLock;

/// The name of the file with the pages of shared events and notifies; all that have one keep it open.
pub const SIGNALS: &str = "cairn-signals";

/// What this process exports and imports.
pub struct Sharing {
    directory: OnceLock<Directory>,
    signals: OnceLock<Arc<Store>>,
    /// Memory files of other processes that are in use, by device and inode.
    files: Mutex<HashMap<(u64, u64), Weak<ForeignStore>>>,
    budget: Arc<Budget>,
}

impl Sharing {
    /// Nothing yet. What was imported counts in the budget once its owner has ended.
    pub fn new(budget: Arc<Budget>) -> Sharing {
        Sharing {
            directory: OnceLock::new(),
            signals: OnceLock::new(),
            files: Mutex::new(Rank::Sharing, HashMap::new()),
            budget,
        }
    }

    /// Accounts for the memory of processes that have ended, as far as this one holds it and no other accounts for it.
    pub fn settle(&self) {
        let files: Vec<_> = self.files.lock().values().filter_map(Weak::upgrade).collect();
        files.iter().for_each(|file| file.settle());
    }

    /// Makes something known under a new key.
    pub fn export(&self, export: &Export) -> Result<Key> {
        if self.directory.get().is_none() {
            let _files = self.files.lock();
            if self.directory.get().is_none() {
                let _ = self.directory.set(Directory::new()?);
            }
        }
        self.own()?.add(export)
    }

    /// The file in which shared events and notifies have their pages.
    pub fn signals(&self) -> Result<Arc<Store>> {
        let _files = self.files.lock();
        if let Some(store) = self.signals.get() {
            return Ok(store.clone());
        }
        let store = Store::new(SIGNALS).map_err(|error| {
            let text = format!("no memory file for what is shared: {}", explain_file_error(&error));
            Error::new(Code::MemoryAllocation, text)
        })?;
        Ok(self.signals.get_or_init(|| Arc::new(store)).clone())
    }

    fn own(&self) -> Result<&Directory> {
        self.directory.get().ok_or_else(|| Directory::unknown("this process exported nothing"))
    }

    /// Adds processes to those that may import.
    pub fn allow(&self, key: Key, kind: SharedKind, pids: &[i32]) -> Result<()> {
        self.own()?.allow(key, kind, pids)
    }

    /// Lets any process import it from now on, or only those that are named.
    pub fn set_open(&self, key: Key, kind: SharedKind, is_open: bool) -> Result<()> {
        self.own()?.set_open(key, kind, is_open)
    }

    /// Ends a key of this process: nobody can import it any more.
    pub fn close(&self, key: Key, kind: SharedKind, end: KeyEnd) -> Result<()> {
        self.own()?.close(key, kind, end)
    }

    /// What another process exported under a key. Fails if that process has ended, has closed the key, or has not named
    /// this process.
    pub fn open(&self, key: Key, kind: SharedKind) -> Result<Import> {
        peer::open(key, kind)
    }

    /// The memory of an import, held: its owner does not reuse it while this lives.
    pub fn hold(&self, import: &Import) -> Result<Vec<ForeignRange>> {
        let fresh = import.open_file()?;
        let inode = fresh.inode;
        let store = {
            let mut files = self.files.lock();
            files.retain(|_, store| store.strong_count() > 0);
            match files.get(&inode).and_then(Weak::upgrade) {
                Some(store) => store,
                None => {
                    let store = Arc::new(ForeignStore::new(fresh.file, self.budget.clone()));
                    files.insert(inode, Arc::downgrade(&store));
                    store
                }
            }
        };
        import.hold(&store)
    }
}
