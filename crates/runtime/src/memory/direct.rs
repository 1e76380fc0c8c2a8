//! The memory of a device as `aclrtMalloc` and `aclrtFree` know it, as a [`Allocator`],
//! and the layers over it.

use super::allocator::{Allocator, RawBlock};
use super::arena::Arena;
use super::layer::{Books, Layers};
use super::raw::Extent;
use super::request::Request;
use super::{Inside, Memory, wrong_free};
use crate::error::Result;
use crate::stream::Stream;
use crate::sync::Arc;

/// Blocks straight from the arena of a device. They belong to no stream: a block that is taken is idle,
/// one that is given back goes to the quarantine, and is poisoned when it leaves that.
pub struct Direct<'a> {
    memory: &'a Memory,
    device: u32,
}

impl Direct<'_> {
    fn arena(&self) -> &Arena {
        &self.memory.devices[self.device as usize]
    }
}

impl Allocator for Direct<'_> {
    fn name(&self) -> String {
        format!("the memory of device {}", self.device)
    }

    fn allocate(&self, request: &Request, _: Option<&Arc<Stream>>) -> Result<RawBlock> {
        let address = self.memory.allocate_in(self.arena(), *request)?;
        Ok(RawBlock { address, bytes: request.bytes, token: 0, poison: None })
    }

    fn free(&self, block: RawBlock, _: Option<&Arc<Stream>>) -> Result<()> {
        let retired = self
            .arena()
            .offset(block.address)
            .is_some_and(|offset| self.arena().retire(offset, block.poison));
        match retired {
            true => Ok(()),
            false => {
                Err(wrong_free(block.address, self.memory.locate(block.address), "device memory"))
            }
        }
    }

    fn extent(&self, address: usize, bytes: usize) -> Option<Extent> {
        self.arena().extent(address, bytes)
    }
}

/// What lies over the memory of devices.
impl Memory {
    /// The memory of a device as a allocator, without layers.
    pub fn direct(&self, device: u32) -> Direct<'_> {
        Direct { memory: self, device }
    }

    /// A allocator of a device under the layers that `CAIRN_MEMORY` asks for, which all supplies of the
    /// device share; as it is where it asks for none.
    pub fn wrap(&self, device: u32, source: Arc<dyn Allocator>) -> Arc<dyn Allocator> {
        match &self.layers {
            Some(layers) => layers.of_device(device).wrap(source),
            None => source,
        }
    }

    /// An allocator of the user under layers of its own.
    pub fn wrap_external(&self, source: Arc<dyn Allocator>) -> Arc<dyn Allocator> {
        match &self.layers {
            Some(layers) => layers.wrap_external(source),
            None => source,
        }
    }

    /// What the stats layers of a device have counted, outermost first; empty where there are none.
    pub fn books(&self, device: u32) -> Vec<Books> {
        self.layers.as_ref().map_or(Vec::new(), |layers| layers.of_device(device).books())
    }

    /// What layers find wrong with the blocks that are out now: a text for each.
    pub fn inspect(&self) -> Vec<String> {
        self.layers.as_ref().map_or(Vec::new(), Layers::inspect)
    }

    /// The last words of the layers, when the process ends. Empty if they have nothing to say.
    pub fn report(&self) -> String {
        self.layers.as_ref().map_or(String::new(), Layers::report)
    }

    /// Bytes of the devices, whoever holds them: for supplies that lie inside.
    pub fn extent(&self, address: usize, bytes: usize) -> Option<Extent> {
        self.devices.iter().find_map(|arena| arena.extent(address, bytes))
    }

    /// Gives a block back through the layers; its owner has let it go.
    pub(super) fn give(&self, layers: &Layers, device: u32, block: Inside) -> Result<()> {
        let block = RawBlock { address: block.start, bytes: block.bytes, token: 0, poison: None };
        layers.of_device(device).over(&self.direct(device)).free(block, None)
    }
}
