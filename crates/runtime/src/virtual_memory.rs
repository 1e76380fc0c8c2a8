//! Virtual memory by handle, as the doors call it.

use crate::Runtime;
use crate::error::{Error, Result};
use crate::memory::AddressInfo;
use crate::memory::sharing::Key;
use crate::memory::vmm::{Physical, PhysicalSpec, Place};
use crate::sync::Arc;

impl Runtime {
    /// A handle of new physical memory.
    pub fn make_physical(&self, spec: PhysicalSpec) -> Result<usize> {
        if let Place::Device(device) = spec.place {
            self.device(i64::from(device))?;
        }
        let physical = self.shared.memory.make_physical(spec)?;
        self.add_physical(&physical)
    }

    /// A handle of physical memory that has none yet.
    fn add_physical(&self, physical: &Arc<Physical>) -> Result<usize> {
        let inserted = self.handles.insert_with(|handle| {
            physical.set_handle(handle);
            Ok(physical.clone())
        });
        match inserted {
            Ok(_) => Ok(physical.handle()),
            Err(error) => {
                self.shared.memory.free_physical(physical)?;
                Err(error)
            }
        }
    }

    /// The physical memory behind a handle.
    pub fn physical(&self, handle: usize) -> Result<Arc<Physical>> {
        match handle {
            0 => Err(Error::null("handle")),
            handle => self.handles.get(handle),
        }
    }

    /// Gives one reference back; with the last one of all the handle ends.
    pub fn free_physical(&self, handle: usize) -> Result<()> {
        let physical = self.physical(handle)?;
        if self.shared.memory.free_physical(&physical)? {
            self.end_physical(handle);
        }
        Ok(())
    }

    /// Unmaps the piece that begins at an address.
    pub fn unmap(&self, start: usize) -> Result<()> {
        if let Some(handle) = self.shared.memory.unmap(start)? {
            self.end_physical(handle);
        }
        Ok(())
    }

    /// The key of an export of physical memory.
    pub fn export_physical(&self, handle: usize, is_open: bool) -> Result<Key> {
        let physical = self.physical(handle)?;
        self.shared.memory.export_physical(&physical, is_open)
    }

    /// A handle of physical memory that another process exported. `has_properties`: the program may ask what it is.
    pub fn import_physical(&self, key: Key, device: i32, has_properties: bool) -> Result<usize> {
        let device = self.device(i64::from(device))?.id;
        let physical = self.shared.memory.import_physical(key, device, has_properties)?;
        self.add_physical(&physical)
    }

    /// Ends a handle whose memory ended.
    pub(crate) fn end_physical(&self, handle: usize) {
        if let Err(error) = self.handles.remove::<Physical>(handle) {
            log::debug!("{}", error.text);
        }
    }

    /// First byte and size of what an address lies in: a mapped piece, or a live block.
    pub fn address_range(&self, address: usize) -> Result<(usize, u64)> {
        let memory = &self.shared.memory;
        if let Some(piece) = memory.vmm().piece(address) {
            return Ok((piece.start, piece.bytes));
        }
        let info = memory.locate(address);
        match info {
            AddressInfo::Device(_, Some(block)) | AddressInfo::Pinned(Some(block))
                if block.live =>
            {
                Ok((block.start, block.bytes))
            }
            _ => Err(Error::refused(format!(
                "{address:#x} lies in no memory that ACL allocated or mapped: it is {}",
                crate::memory::describe(address, &info)
            ))),
        }
    }
}
