//! Allocations that processes share by key (`aclrtIpcMem*`).
//!
//! An export moves the pages of a block into the memory file of its device, in place; an import maps them at new addresses
//! of virtual memory.

use super::Memory;
use super::locate::{AddressInfo, BlockKind, describe};
use super::sharing::{Export, Key, MAX_EXTENTS, SharedKind};
use super::vmm::{Pages, Physical, PhysicalSpec, Place};
use crate::error::{Code, Error, Result};
use crate::lock::{Mutex, Rank};
use crate::sync::Arc;
use crate::sync::atomic::{AtomicUsize, Ordering};
use rustix::fd::AsRawFd;
use std::collections::HashMap;
use std::ops::Range;

/// What this process exports and imports by key.
pub struct IpcMemory {
    tables: Mutex<IpcTables>,
    /// How many keys there are.
    exported: AtomicUsize,
}

#[derive(Default)]
struct IpcTables {
    exports: HashMap<Key, ExportedBlock>,
    imports: HashMap<Key, ImportedBlock>,
}

struct ExportedBlock {
    address: usize,
    /// The device and the pages of its arena; `None` for a mapped piece.
    pages: Option<(u32, Range<u64>)>,
}

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

impl Memory {
    /// A key under which other processes map `bytes` at `address`: those that are named, or all with `is_open`.
    pub fn export_memory(&self, address: usize, bytes: u64, is_open: bool) -> Result<Key> {
        let info = self.enclosing(address);
        let AddressInfo::Device(device, Some(block)) = info else {
            return Err(Error::refused(format!(
                "{address:#x} cannot be shared: it is {}",
                describe(address, &info)
            )));
        };
        let end = block.start as u64 + block.bytes;
        if !block.live || bytes > end - address as u64 {
            return Err(Error::refused(format!(
                "{bytes} bytes at {address:#x} cannot be shared: it is {}",
                describe(address, &self.locate(address))
            )));
        }
        let mut tables = self.ipc.tables.lock();
        let (extents, pages, shift) = match block.kind {
            BlockKind::Mapped => {
                let (extent, shift) = self.vmm.extent(address, bytes)?;
                (vec![extent], None, shift)
            }
            _ => {
                let page = rustix::param::page_size() as u64;
                let arena = &self.devices[device as usize];
                let offset = arena.offset(address).unwrap_or_default();
                let pages = offset / page * page..(offset + bytes).next_multiple_of(page);
                let store = self.vmm.store(Place::Device(device))?;
                let extents = arena.source().share(pages.clone(), &store).map_err(|error| {
                    let text = format!("{bytes} bytes at {address:#x} cannot be shared: {error}");
                    Error::new(Code::MemoryAllocation, text)
                })?;
                (extents, Some((device, pages)), (offset % page) as u32)
            }
        };
        let undo = |pages: &Option<(u32, Range<u64>)>| {
            if let Some((device, pages)) = pages {
                self.devices[*device as usize].source().unshare(pages.clone());
            }
        };
        if extents.len() > MAX_EXTENTS {
            undo(&pages);
            return Err(Error::new(
                Code::FeatureNotSupport,
                format!(
                    "{bytes} bytes at {address:#x} lie in {} pieces of other exports",
                    extents.len()
                ),
            ));
        }
        let file = self.vmm.store(Place::Device(device))?.file().as_raw_fd();
        let mut parts = [(0, 0); MAX_EXTENTS];
        parts[..extents.len()].copy_from_slice(&extents);
        let kind = SharedKind::Memory;
        let export = Export { kind, is_open, file, extents: parts, device, shift };
        let key = self.sharing.export(&export).inspect_err(|_| undo(&pages))?;
        tables.exports.insert(key, ExportedBlock { address, pages });
        self.ipc.exported.store(tables.exports.len(), Ordering::Release);
        Ok(key)
    }

    /// Maps memory of another process for a device of this one; the same key gives the same address.
    pub fn import_memory(&self, key: Key, device: u32) -> Result<usize> {
        let mut tables = self.ipc.tables.lock();
        if let Some(block) = tables.imports.get_mut(&key) {
            block.count += 1;
            return Ok(block.address);
        }
        let import = self.sharing.open(key, SharedKind::Memory)?;
        let ranges = self.sharing.hold(&import)?;
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
        tables.imports.insert(key, ImportedBlock { start, address, count: 1, physical });
        Ok(address)
    }

    /// Ends an import, or in the exporting process the key.
    pub fn close_memory(&self, key: Key) -> Result<()> {
        let mut tables = self.ipc.tables.lock();
        if tables.exports.contains_key(&key) {
            return self.close_export(&mut tables, key);
        }
        let Some(block) = tables.imports.get_mut(&key) else {
            return Err(Error::new(
                Code::Driver,
                format!("key {key} is neither exported nor imported by this process"),
            ));
        };
        block.count -= 1;
        if block.count == 0
            && let Some(block) = tables.imports.remove(&key)
        {
            self.unmap(block.start)?;
            self.free_physical(&block.physical)?;
            self.vmm.release(block.start)?;
        }
        Ok(())
    }

    fn close_export(&self, tables: &mut IpcTables, key: Key) -> Result<()> {
        let Some(block) = tables.exports.remove(&key) else { return Ok(()) };
        self.ipc.exported.store(tables.exports.len(), Ordering::Release);
        if let Some((device, pages)) = block.pages {
            self.devices[device as usize].source().unshare(pages);
        }
        self.sharing.close(key, SharedKind::Memory)
    }

    /// A block that begins at an address is being freed: nobody can import it any more. Costs a load where no key is out.
    pub(super) fn close_keys_of(&self, address: usize) {
        if self.ipc.exported.load(Ordering::Acquire) == 0 {
            return;
        }
        let mut tables = self.ipc.tables.lock();
        let of_block = tables.exports.iter().filter(|(_, block)| block.address == address);
        let keys: Vec<_> = of_block.map(|(key, _)| *key).collect();
        for key in keys {
            if let Err(error) = self.close_export(&mut tables, key) {
                log::warn!("the key {key} of {address:#x}, which is freed: {}", error.text);
            }
        }
    }
}
