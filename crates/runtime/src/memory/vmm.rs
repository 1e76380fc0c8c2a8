//! Virtual memory: addresses and physical memory apart, and put together piece by piece.
//!
//! ```text
//!  reserve ──> addresses of the window (window.rs)
//!                 │ map: a piece (tables.rs)      tasks find runs of pieces (runs.rs)
//!  allocate ──> bytes of a memory file (store.rs), behind a handle (physical.rs)
//! ```
//!
//! **Unmap.** It takes effect at once, for the program and for tasks that are submitted later: figures, errors and the handle
//! say so. Tasks that were submitted before see the memory as it was (view.rs), and when they are done its pages go. Whatever
//! the program does, no task faults, and neither an unmap nor a map waits for what is queued.

mod accesses;
mod mapping;
mod physical;
mod reservations;
mod runs;
mod store;
mod tables;
mod unmapping;
mod view;
mod window;

pub(super) use physical::PhysicalParts;
pub use physical::{Pages, Physical, PhysicalSpec, Place};
pub use store::{FileRange, ForeignRange, ForeignStore, Store};
pub(super) use tables::PhysicalEntry;
pub use view::View;
pub use window::{PAGE, WINDOW};

use crate::clock::Progress;
use crate::error::{Code, Error, Result};
use crate::lock::{Mutex, Rank};
use crate::memory::arena::Arena;
use crate::memory::budget::Budget;
use crate::memory::locate::{AddressBlock, BlockKind};
use crate::memory::process_file::explain_file_error;
use crate::record::Spine;
use crate::record::event::MemoryKind;
use crate::sync::Arc;
use crate::sync::atomic::{AtomicUsize, Ordering};
use accesses::Accesses;
use physical::Bytes;
use rustix::fd::AsRawFd;
use std::ops::Range;
use std::sync::OnceLock;
use std::time::Duration;
use tables::Tables;
use window::Window;

/// Numbers of physical memory begin here, where no address is.
const FIRST_ID: usize = 1 << 60;

/// All virtual memory of the process. Costs nothing until the first reservation.
///
/// **Threads.** Any. Lookups take no lock, but for those of pieces.
pub struct VirtualMemory {
    window: OnceLock<Window>,
    tables: Mutex<Tables>,
    stores: Vec<OnceLock<Arc<Store>>>,
    accesses: Accesses,
    next_id: AtomicUsize,
    /// Pieces that were unmapped and that tasks may see.
    waiting: AtomicUsize,
    /// A wait that takes longer is logged.
    log_after: Duration,
    is_protected: bool,
    progress: Arc<Progress>,
    budget: Arc<Budget>,
    spine: Arc<Spine>,
}

/// A mapped piece.
#[derive(Clone)]
pub struct PieceInfo {
    /// First byte.
    pub start: usize,
    /// How many.
    pub bytes: u64,
    /// What is mapped there.
    pub physical: Arc<Physical>,
}

/// What the driver refuses (507899).
fn busy(text: String) -> Error {
    Error::new(Code::Driver, text)
}

fn range_of(start: usize, bytes: u64) -> Range<usize> {
    start..start.saturating_add(bytes as usize)
}

fn memory_kind(place: Place) -> MemoryKind {
    match place {
        Place::Device(device) => MemoryKind::Mapped { device },
        Place::Host => MemoryKind::Pinned,
    }
}

impl VirtualMemory {
    /// For this many devices. Waits that take longer than `log_after` are logged.
    pub fn new(
        devices: usize,
        is_protected: bool,
        log_after: Duration,
        progress: Arc<Progress>,
        budget: Arc<Budget>,
        spine: Arc<Spine>,
    ) -> VirtualMemory {
        VirtualMemory {
            window: OnceLock::new(),
            tables: Mutex::new(Rank::Virtual, Tables::default()),
            stores: (0..=devices).map(|_| OnceLock::new()).collect(),
            accesses: Accesses::default(),
            next_id: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
            log_after,
            is_protected,
            progress,
            budget,
            spine,
        }
    }

    /// Makes sure that the process may have some more memory maps; the reason if not.
    pub fn expect_maps(&self) -> std::result::Result<(), String> {
        mapping::take_maps(&mut self.tables.lock())
    }

    /// Takes back what other processes held after it was freed here, as far as they let go of it. Costs a load for each device
    /// without a memory file.
    pub fn collect_lent(&self) {
        for store in self.stores.iter().filter_map(OnceLock::get) {
            store.lent();
        }
    }

    /// The memory file of a place, made with its first use. The caller holds no lock of a higher rank than that of tables.
    pub fn store(&self, place: Place) -> Result<Arc<Store>> {
        let (number, name) = match place {
            Place::Device(device) => (device as usize, format!("cairn-device-{device}")),
            Place::Host => (self.stores.len() - 1, "cairn-host".into()),
        };
        let _tables = self.tables.lock();
        if let Some(store) = self.stores[number].get() {
            return Ok(store.clone());
        }
        let store = Store::new(&name).map_err(|error| {
            Error::new(
                Code::MemoryAllocation,
                format!("no memory file for {place}: {}", explain_file_error(&error)),
            )
        })?;
        let store = Arc::new(store.charging(self.budget.clone()));
        Ok(self.stores[number].get_or_init(|| store).clone())
    }

    fn window(&self, _tables: &mut Tables) -> Result<&Window> {
        if let Some(window) = self.window.get() {
            return Ok(window);
        }
        let window = Window::new(self.is_protected).map_err(|error| {
            let text = format!("no tables for virtual memory: {error} (ulimit -v?)");
            Error::new(Code::MemoryAllocation, text)
        })?;
        Ok(self.window.get_or_init(|| window))
    }

    /// Bytes of a memory file that an arena accounts for; the reason if there are none.
    pub(super) fn make_parts(
        &self,
        store: &Arc<Store>,
        spec: &PhysicalSpec,
        arena: &Arc<Arena>,
    ) -> std::result::Result<PhysicalParts, String> {
        let align = PhysicalSpec::granularity(spec.place, spec.pages, false);
        let range = store.take(spec.bytes, align).map_err(|error| error.to_string())?;
        Ok(PhysicalParts::new(self.new_id(), Bytes::Own(range), spec.bytes, Some(arena.clone())))
    }

    fn new_id(&self) -> usize {
        FIRST_ID + self.next_id.fetch_add(1, Ordering::Relaxed) * 4096
    }

    /// Adds physical memory that was made just now: it has one reference.
    pub(super) fn add_physical(&self, spec: PhysicalSpec, parts: PhysicalParts) -> Arc<Physical> {
        self.add(Physical::new(spec, parts.id(), false), parts)
    }

    fn add(&self, physical: Physical, parts: PhysicalParts) -> Arc<Physical> {
        let physical = Arc::new(physical);
        let entry = PhysicalEntry::new(&physical, parts);
        self.tables.lock().physicals.insert(physical.id(), entry);
        physical
    }

    /// Adds memory of another process: it has one reference. `has_properties`: the program may ask what it is.
    pub fn import(
        &self,
        spec: PhysicalSpec,
        ranges: Vec<ForeignRange>,
        has_properties: bool,
    ) -> Arc<Physical> {
        let parts = PhysicalParts::new(self.new_id(), Bytes::Foreign(ranges), spec.bytes, None);
        let mut physical = Physical::new(spec, parts.id(), true);
        physical.has_properties = has_properties;
        self.add(physical, parts)
    }

    /// Gives one reference of the program back. True if it was the last one of all.
    pub(super) fn free_physical(&self, physical: &Physical) -> Result<Option<PhysicalEntry>> {
        let mut tables = self.tables.lock();
        let entry = held(&mut tables, physical)?;
        entry.holds -= 1;
        let ended = take_if_unused(&mut tables, physical);
        self.reap(&mut tables);
        Ok(ended)
    }

    /// Where the bytes of own physical memory lie: a descriptor of this process, and an offset in the file. Fails if it
    /// was exported before, or another process made it; `export` gives the number under which it is exported.
    pub(super) fn export(
        &self,
        physical: &Physical,
        export: impl FnOnce(i32, u64) -> Result<u64>,
    ) -> Result<u64> {
        if physical.is_imported {
            return Err(Error::refused(format!(
                "{:#x} was imported: only the process that made it can export it",
                physical.handle()
            )));
        }
        let mut tables = self.tables.lock();
        let entry = held(&mut tables, physical)?;
        if let Some(key) = entry.exported {
            return Err(busy(format!("{:#x} was exported before, as {key}", physical.handle())));
        }
        let parts = entry.bytes.parts(physical.spec.bytes);
        let &[(file, offset, _)] = &parts[..] else {
            return Err(busy(format!("{:#x} lies in several files", physical.handle())));
        };
        let key = export(file.as_raw_fd(), offset)?;
        entry.exported = Some(key);
        Ok(key)
    }

    /// Where bytes of a mapped piece lie in the file of their device, in whole pages, and how far after the start of those
    /// they begin.
    pub(super) fn extent(&self, address: usize, bytes: u64) -> Result<((u64, u64), u32)> {
        let tables = self.tables.lock();
        let page = rustix::param::page_size() as u64;
        let piece = tables.piece_in(&(address..address + 1)).filter(|(start, piece)| {
            !piece.physical.is_imported && bytes <= piece.bytes - (address - start) as u64
        });
        let found = piece.and_then(|(start, piece)| {
            let entry = tables.physicals.get(&piece.physical.id())?;
            let (_, offset, _) = *entry.bytes.parts(piece.bytes).first()?;
            Some(offset + (address - start) as u64)
        });
        let offset = found.ok_or_else(|| {
            Error::refused(format!(
                "{bytes} bytes at {address:#x} are not inside one mapped piece that this process made"
            ))
        })?;
        let first = offset / page * page;
        Ok(((first, (offset + bytes).next_multiple_of(page) - first), (offset - first) as u32))
    }

    /// References of the program and of mapped pieces; `None` if there is none any more.
    pub fn references(&self, physical: &Physical) -> Option<(u32, u32)> {
        self.tables.lock().physicals.get(&physical.id()).map(|entry| (entry.holds, entry.maps))
    }

    /// The piece around an address.
    pub fn piece(&self, address: usize) -> Option<PieceInfo> {
        let tables = self.tables.lock();
        let (start, piece) = tables.piece_in(&(address..address.checked_add(1)?))?;
        Some(PieceInfo { start, bytes: piece.bytes, physical: piece.physical.clone() })
    }

    /// The memory that is mapped at the start of a piece, with one more reference of the program.
    pub fn retain(&self, start: usize) -> Result<Arc<Physical>> {
        let mut tables = self.tables.lock();
        let physical = tables.pieces.get(&start).map(|piece| piece.physical.clone());
        let physical = physical
            .ok_or_else(|| busy(format!("{start:#x} is not the start of a mapped piece")))?;
        if let Some(entry) = tables.physicals.get_mut(&physical.id()) {
            entry.holds += 1;
        }
        Ok(physical)
    }

    /// True if the address is one of virtual memory: in a range that somebody reserved, or could.
    pub fn contains(&self, address: usize) -> bool {
        WINDOW.contains(&address) && self.window.get().is_some()
    }

    /// What tasks may touch around an address, and whose it is. Takes no lock.
    pub fn run(&self, address: usize) -> Option<(Place, AddressBlock)> {
        self.window.get()?.run(address)
    }

    /// The piece around an address, as a block.
    pub fn block(&self, address: usize) -> Option<AddressBlock> {
        let PieceInfo { start, bytes, .. } = self.piece(address)?;
        Some(AddressBlock { start, bytes, live: true, huge: true, kind: BlockKind::Mapped })
    }

    /// Ends pieces and physical memory of a kind, as when a device is closed.
    pub(super) fn clear(&self, is_meant: impl Fn(&Physical) -> bool) -> Vec<PhysicalEntry> {
        let mut tables = self.tables.lock();
        let pieces: Vec<_> = (tables.pieces.iter())
            .filter(|(_, piece)| is_meant(&piece.physical))
            .map(|(&start, _)| start)
            .collect();
        let mut ended: Vec<_> =
            pieces.into_iter().filter_map(|start| self.retire(&mut tables, start)).collect();
        let held: Vec<_> = (tables.physicals.iter())
            .filter(|(_, entry)| is_meant(entry.physical()))
            .map(|(&id, _)| id)
            .collect();
        ended.extend(held.iter().filter_map(|id| tables.physicals.remove(id)));
        self.reap(&mut tables);
        ended
    }
}

impl Drop for VirtualMemory {
    fn drop(&mut self) {
        let tables = self.tables.lock();
        for (&start, reservation) in &tables.reservations {
            if let Some(window) = self.window.get() {
                window.release(start, reservation.bytes);
            }
        }
        for entry in tables.physicals.values() {
            entry.bytes.retire();
        }
    }
}

/// The entry of physical memory that the program holds.
fn held<'a>(tables: &'a mut Tables, physical: &Physical) -> Result<&'a mut PhysicalEntry> {
    let handle = physical.handle();
    let freed = |reason: String| {
        Error::new(
            Code::InvalidHandle,
            format!("{handle:#x} is a handle of physical memory that was freed{reason}"),
        )
    };
    match tables.physicals.get_mut(&physical.id()) {
        None => Err(freed(String::new())),
        Some(entry) if entry.holds == 0 => {
            Err(freed(format!("; it ends when its {} mappings do", entry.maps)))
        }
        Some(entry) => Ok(entry),
    }
}

/// Takes an entry to which nothing refers any more.
fn take_if_unused(tables: &mut Tables, physical: &Physical) -> Option<PhysicalEntry> {
    let entry = tables.physicals.get(&physical.id())?;
    (entry.holds + entry.maps == 0).then(|| tables.physicals.remove(&physical.id())).flatten()
}
