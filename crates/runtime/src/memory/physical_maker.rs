//! Physical memory through the funnel, and virtual memory as the rest of the engine calls it.

use super::Memory;
use super::allocator::{Allocator, RawBlock};
use super::arena::{Arena, Attempt};
use super::funnel::Funnel;
use super::layer::Stack;
use super::request::Request;
use super::sharing::{Export, Key, KeyEnd, SharedKind};
use super::vmm::{
    Pages, Physical, PhysicalEntry, PhysicalParts, PhysicalSpec, Place, VirtualMemory,
};
use crate::error::{Error, Result};
use crate::record::event::MemoryKind;
use crate::stream::Stream;
use crate::sync::Arc;
use std::sync::OnceLock;

/// Makes physical memory: accounted for by the arena of its place, in the memory file there. It has no address; layers
/// know it by a number.
struct PhysicalMaker<'a> {
    memory: &'a Memory,
    spec: PhysicalSpec,
    made: OnceLock<PhysicalParts>,
}

impl Allocator for PhysicalMaker<'_> {
    fn name(&self) -> String {
        format!("the physical memory of {}", self.spec.place)
    }

    fn allocate(&self, request: &Request<'_>) -> Result<RawBlock> {
        let (memory, bytes) = (self.memory, request.bytes);
        let arena = memory.arena_of(self.spec.place);
        let store = memory.vmm.store(self.spec.place)?;
        memory.retry_allocation(arena, request, |_| {
            memory.vmm.release_unmapped();
            match arena.take_physical(bytes) {
                Attempt::Taken(_) => {}
                refused => return refused,
            }
            match memory.vmm.make_parts(&store, &self.spec, arena) {
                Ok(parts) => {
                    let address = parts.id();
                    let _ = self.made.set(parts);
                    Attempt::Taken(address)
                }
                Err(reason) => {
                    arena.retire_physical(bytes);
                    arena.release_physical(bytes);
                    Attempt::Refused(reason)
                }
            }
        })?;
        let id = self.made.get().map_or(0, PhysicalParts::id);
        Ok(RawBlock::new(id, bytes, 0))
    }

    fn free(&self, block: RawBlock, _: Option<&Arc<Stream>>) -> Result<()> {
        self.memory.arena_of(self.spec.place).retire_physical(block.bytes);
        Ok(())
    }
}

/// Virtual memory.
impl Memory {
    /// Virtual memory: addresses and pieces.
    pub fn vmm(&self) -> &VirtualMemory {
        &self.vmm
    }

    fn arena_of(&self, place: Place) -> &Arc<Arena> {
        match place {
            Place::Device(device) => &self.devices[device as usize],
            Place::Host => &self.host,
        }
    }

    fn physical_stack(&self, place: Place) -> &Stack {
        match place {
            Place::Device(device) => self.stack(MemoryKind::Device(device)),
            Place::Host => self.stack(MemoryKind::Pinned),
        }
    }

    /// New physical memory, with one reference. Waits for freed memory only when there is no other way.
    pub fn make_physical(&self, spec: PhysicalSpec) -> Result<Arc<Physical>> {
        let granularity = PhysicalSpec::granularity(spec.place, spec.pages, true);
        if spec.bytes == 0 || !spec.bytes.is_multiple_of(granularity) {
            return Err(Error::refused(format!(
                "size {}: physical memory of {} comes in multiples of {granularity} bytes",
                spec.bytes, spec.place
            )));
        }
        let maker = PhysicalMaker { memory: self, spec, made: OnceLock::new() };
        let request = Request { align: granularity.max(512), ..Request::bytes(spec.bytes) };
        Funnel::new(self.physical_stack(spec.place), &maker, &self.spine).allocate(&request)?;
        let parts = maker.made.into_inner().ok_or_else(|| {
            Error::refused("a layer of CAIRN_MEMORY made no physical memory".to_string())
        })?;
        Ok(self.vmm.add_physical(spec, parts))
    }

    /// Gives one reference of the program back. True if handle and memory end with it.
    pub fn free_physical(&self, physical: &Physical) -> Result<bool> {
        let ended = self.vmm.free_physical(physical)?;
        Ok(ended.map(|entry| self.end_physical(entry)).is_some())
    }

    /// Unmaps the piece that begins at an address; keys of it end. The handle that ends with it, if one does.
    pub fn unmap(&self, start: usize) -> Result<Option<usize>> {
        self.close_keys_of(start);
        let ended = self.vmm.unmap(start)?;
        Ok(ended.map(|entry| self.end_physical(entry)))
    }

    /// Nothing of the program refers to it any more.
    fn end_physical(&self, entry: PhysicalEntry) -> usize {
        let physical = entry.physical();
        if let Some(key) = entry.exported
            && let Err(error) = self.sharing.close(Key(key), SharedKind::Physical, KeyEnd::Freed)
        {
            log::debug!("{}", error.text);
        }
        if !physical.is_imported {
            let place = physical.spec.place;
            let maker = PhysicalMaker { memory: self, spec: physical.spec, made: OnceLock::new() };
            let block = RawBlock::new(physical.id(), physical.spec.bytes, 0);
            let freed =
                Funnel::new(self.physical_stack(place), &maker, &self.spine).free(block, None);
            if let Err(error) = freed {
                log::error!("{}: {}", maker.name(), error.text);
            }
        }
        physical.handle()
    }

    /// A key under which other processes import physical memory: those that are named, or all with `is_open`.
    pub fn export_physical(&self, physical: &Physical, is_open: bool) -> Result<Key> {
        let device = match physical.spec.place {
            Place::Device(device) => device,
            Place::Host => u32::MAX,
        };
        let (kind, bytes) = (SharedKind::Physical, physical.spec.bytes);
        let key = self.vmm.export(physical, |file, offset| {
            let extents = vec![(offset, bytes)];
            let export = Export { kind, is_open, file, extents, device, shift: 0 };
            self.sharing.export(&export).map(|key| key.0)
        })?;
        Ok(Key(key))
    }

    /// Physical memory of another process, as memory of a device of this one, or of the host.
    pub fn import_physical(
        &self,
        key: Key,
        device: u32,
        has_properties: bool,
    ) -> Result<Arc<Physical>> {
        let import = self.sharing.open(key, SharedKind::Physical)?;
        let range = self.sharing.hold(&import)?;
        let place = match import.export.device {
            u32::MAX => Place::Host,
            _ => Place::Device(device),
        };
        let spec = PhysicalSpec { bytes: import.export.bytes(), place, pages: Pages::Huge };
        Ok(self.vmm.import(spec, range, has_properties))
    }

    /// Ends what a device that is being closed has of virtual memory; the handles that end with it.
    pub(super) fn clear_physical(&self, device: u32) -> Vec<usize> {
        let ended = self.vmm.clear(|physical| physical.spec.place == Place::Device(device));
        ended.into_iter().map(|entry| self.end_physical(entry)).collect()
    }

    /// Lets go of all memory of other processes; the handles that end with it.
    pub fn clear_imports(&self) -> Vec<usize> {
        self.end_imports(None);
        let ended = self.vmm.clear(|physical| physical.is_imported);
        ended.into_iter().map(|entry| self.end_physical(entry)).collect()
    }
}
