//! Allocations that processes share by key (`aclrtIpcMem*`).
//!
//! An export moves the pages of a block into the memory file of its device, in place; an import maps them at new addresses
//! of virtual memory. Neither happens under the lock of the tables, so that frees wait for none.

use super::Memory;
use super::locate::{AddressBlock, AddressInfo, BlockKind, describe};
use super::sharing::{Export, Import, Key, KeyEnd, MAX_EXTENTS, SharedKind};
use super::vmm::{Pages, Physical, PhysicalSpec, Place};
use crate::error::{Code, Error, Result};
use crate::lock::{Mutex, Rank};
use crate::sync::Arc;
use crate::sync::atomic::{AtomicUsize, Ordering};
use rustix::fd::AsRawFd;
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

/// What this process exports and imports by key.
pub struct IpcMemory {
    tables: Mutex<IpcTables>,
    /// How many keys there are.
    exported: AtomicUsize,
}

#[derive(Default)]
struct IpcTables {
    /// By address: those of one block follow each other. Whatever is exported lies in one block.
    exports: BTreeMap<(usize, Key), ExportedBlock>,
    addresses: HashMap<Key, usize>,
    imports: HashMap<Key, ImportedBlock>,
}

struct ExportedBlock {
    device: u32,
    /// The pages of the device's arena; `None` for a mapped piece.
    pages: Option<Range<u64>>,
}

#[derive(Clone)]
struct ImportedBlock {
    start: usize,
    address: usize,
    count: usize,
    physical: Arc<Physical>,
}

impl Default for IpcMemory {
    fn default() -> IpcMemory {
        let tables = Mutex::new(Rank::Ipc, IpcTables::default());
        IpcMemory { tables, exported: AtomicUsize::new(0) }
    }
}

impl IpcTables {
    fn remove_export(&mut self, key: Key) -> Option<ExportedBlock> {
        let address = self.addresses.remove(&key)?;
        self.exports.remove(&(address, key))
    }
}

impl Memory {
    /// A key under which other processes map `bytes` at `address`: those that are named, or all with `is_open`.
    pub fn export_memory(&self, address: usize, bytes: u64, is_open: bool) -> Result<Key> {
        let (device, kind) = self.exportable(address, bytes)?;
        let (extents, pages, shift) = match kind {
            BlockKind::Mapped => {
                let (extent, shift) = self.vmm.extent(address, bytes)?;
                (vec![extent], None, shift)
            }
            _ => {
                self.overtake_moves(address, bytes);
                let page = rustix::param::page_size() as u64;
                let arena = &self.devices[device as usize];
                let offset = arena.offset(address).unwrap_or_default();
                let pages = offset / page * page..(offset + bytes).next_multiple_of(page);
                let store = self.vmm.store(Place::Device(device))?;
                let refused = |reason: String| {
                    let text = format!("{bytes} bytes at {address:#x} cannot be shared: {reason}");
                    Error::new(Code::MemoryAllocation, text)
                };
                self.vmm.expect_maps().map_err(refused)?;
                let extents = arena.source().share(pages.clone(), &store);
                let extents = extents.map_err(|error| refused(error.to_string()))?;
                (extents, Some(pages), (offset % page) as u32)
            }
        };
        let block = ExportedBlock { device, pages };
        let key = (self.vmm.store(Place::Device(device))).and_then(|store| {
            if extents.len() > MAX_EXTENTS {
                return Err(Error::new(
                    Code::FeatureNotSupport,
                    format!(
                        "{bytes} bytes at {address:#x} lie in {} pieces, as parts of them were exported before, and a key stands for at most {MAX_EXTENTS}: close keys of the parts",
                        extents.len()
                    ),
                ));
            }
            let (kind, file) = (SharedKind::Memory, store.file().as_raw_fd());
            self.sharing.export(&Export { kind, is_open, file, extents, device, shift })
        });
        let key = key.inspect_err(|_| self.unshare(&block))?;
        let mut tables = self.ipc.tables.lock();
        tables.addresses.insert(key, address);
        tables.exports.insert((address, key), block);
        self.ipc.exported.store(tables.exports.len(), Ordering::SeqCst);
        drop(tables);
        // Another thread that freed it meanwhile may not have seen the key.
        self.exportable(address, bytes).inspect_err(|_| self.end_keys(&[key]))?;
        Ok(key)
    }

    /// The device and the kind of block in which all of a range lies that may be exported.
    fn exportable(&self, address: usize, bytes: u64) -> Result<(u32, BlockKind)> {
        let refused = |what: String| {
            let there = describe(address, &self.locate(address));
            Err(Error::refused(format!("{what} cannot be shared: it is {there}")))
        };
        let Some((device, block)) = self.innermost_block(address) else {
            return refused(format!("{address:#x}"));
        };
        if !block.live || bytes > block.start as u64 + block.bytes - address as u64 {
            return refused(format!("{bytes} bytes at {address:#x}"));
        }
        Ok((device, block.kind))
    }

    /// The allocation of a device around an address, the block of a pool, or the mapped piece.
    fn innermost_block(&self, address: usize) -> Option<(u32, AddressBlock)> {
        let AddressInfo::Device(device, Some(block)) = self.enclosing(address) else {
            return None;
        };
        let block = match block.kind {
            BlockKind::Mapped => self.vmm.block(address)?,
            BlockKind::Segment { .. } => {
                self.devices[device as usize].pool_block(address, &block)?
            }
            _ => block,
        };
        Some((device, block))
    }

    /// Maps memory of another process for a device of this one; the same key gives the same address, as long as it holds.
    pub fn import_memory(&self, key: Key, device: u32) -> Result<usize> {
        let import = self.sharing.open(key, SharedKind::Memory)?;
        let again = || {
            let mut tables = self.ipc.tables.lock();
            let block = tables.imports.get_mut(&key)?;
            block.count += 1;
            Some(block.address)
        };
        if let Some(address) = again() {
            return Ok(address);
        }
        self.settle_shared();
        let block = self.map_import(&import, device)?;
        let mut tables = self.ipc.tables.lock();
        let address = match tables.imports.get_mut(&key) {
            None => {
                tables.imports.insert(key, block.clone());
                return Ok(block.address);
            }
            Some(earlier) => {
                earlier.count += 1;
                earlier.address
            }
        };
        drop(tables);
        self.end_import(&block)?;
        Ok(address)
    }

    fn map_import(&self, import: &Import, device: u32) -> Result<ImportedBlock> {
        let ranges = self.sharing.hold(import)?;
        let bytes = import.export.bytes();
        let start = self.vmm.reserve(bytes, None)?;
        let spec = PhysicalSpec { bytes, place: Place::Device(device), pages: Pages::Normal };
        let physical = self.vmm.import(spec, ranges, false);
        if let Err(error) = self.vmm.map_pages(start, bytes, &physical, true) {
            self.free_physical(&physical)?;
            self.vmm.release(start)?;
            return Err(error);
        }
        let address = start + import.export.shift as usize;
        Ok(ImportedBlock { start, address, count: 1, physical })
    }

    /// Ends all of it that has not ended; the first failure.
    fn end_import(&self, block: &ImportedBlock) -> Result<()> {
        let unmapped = self.unmap(block.start);
        let freed = self.free_physical(&block.physical).map(drop);
        unmapped.and(freed).and(self.vmm.release(block.start))
    }

    /// Ends the imports of a device that is being closed, or of all of them. Their addresses are free again.
    pub(super) fn end_imports(&self, device: Option<u32>) {
        let is_meant = |block: &ImportedBlock| {
            device.is_none_or(|device| block.physical.spec.place == Place::Device(device))
        };
        let mut tables = self.ipc.tables.lock();
        let ended: Vec<_> = tables.imports.extract_if(|_, block| is_meant(block)).collect();
        drop(tables);
        for (key, block) in ended {
            if let Err(error) = self.end_import(&block) {
                log::warn!("the import of key {key}: {}", error.text);
            }
        }
    }

    /// Ends an import, or in the exporting process the key.
    pub fn close_memory(&self, key: Key) -> Result<()> {
        let mut tables = self.ipc.tables.lock();
        if let Some(block) = tables.remove_export(key) {
            self.ipc.exported.store(tables.exports.len(), Ordering::SeqCst);
            drop(tables);
            return self.end_export(key, &block, KeyEnd::Closed);
        }
        let Some(block) = tables.imports.get_mut(&key) else {
            return Err(Error::new(
                Code::Driver,
                format!("key {key} is neither exported nor imported by this process"),
            ));
        };
        block.count -= 1;
        if block.count > 0 {
            return Ok(());
        }
        let block = tables.imports.remove(&key);
        drop(tables);
        block.map_or(Ok(()), |block| self.end_import(&block))
    }

    /// Nobody can import it from here on; then its pages may go.
    fn end_export(&self, key: Key, block: &ExportedBlock, end: KeyEnd) -> Result<()> {
        let closed = self.sharing.close(key, SharedKind::Memory, end);
        self.unshare(block);
        closed
    }

    fn unshare(&self, block: &ExportedBlock) {
        if let Some(pages) = &block.pages {
            self.devices[block.device as usize].source().unshare(pages.clone());
        }
    }

    /// The allocation around an address of a device is being freed, or its block of a pool, or the piece there unmapped: nobody
    /// can import it any more, nor any part of it. Costs a load where no key is out.
    #[inline]
    pub(super) fn close_keys_of(&self, address: usize) {
        if self.ipc.exported.load(Ordering::SeqCst) > 0 {
            self.close_keys_around(address);
        }
    }

    #[cold]
    fn close_keys_around(&self, address: usize) {
        let Some((_, block)) = self.innermost_block(address) else { return };
        if block.start != address || !block.live {
            return;
        }
        let end = block.start + block.bytes as usize;
        let keys: Vec<Key> = {
            let tables = self.ipc.tables.lock();
            let of_block = tables.exports.range((block.start, Key(0))..(end, Key(0)));
            of_block.map(|(&(_, key), _)| key).collect()
        };
        self.end_keys(&keys);
    }

    /// A device is being closed: nobody can import anything of it any more.
    pub(super) fn close_keys_of_device(&self, device: u32) {
        let keys: Vec<Key> = {
            let tables = self.ipc.tables.lock();
            let of_device = tables.exports.iter().filter(|(_, block)| block.device == device);
            of_device.map(|(&(_, key), _)| key).collect()
        };
        self.end_keys(&keys);
    }

    fn end_keys(&self, keys: &[Key]) {
        for &key in keys {
            let mut tables = self.ipc.tables.lock();
            let Some(block) = tables.remove_export(key) else { continue };
            self.ipc.exported.store(tables.exports.len(), Ordering::SeqCst);
            drop(tables);
            if let Err(error) = self.end_export(key, &block, KeyEnd::Freed) {
                log::warn!("the key {key} of memory that is freed: {}", error.text);
            }
        }
    }
}
