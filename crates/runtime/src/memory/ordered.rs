//! Stream-ordered memory as the user asks for it: pools by handle, their blocks by address.

use super::allocator::{Allocator, RawBlock};
use super::layer::Layers;
use super::pool::StreamPool;
use super::raw::Extent;
use super::request::Request;
use super::{Memory, describe};
use crate::Runtime;
use crate::error::{Code, Error, Result};
use crate::handle::Handled;
use crate::stream::Stream;
use crate::sync::Arc;
use crate::task::{Place, Span, Task};

impl Handled for StreamPool {
    const KIND: &'static str = "memory pool";
}

/// A pool as a allocator of blocks for streams. A block that is to be poisoned is filled in the order of
/// the stream that gives it back, if that is its own and nobody recorded a use elsewhere.
pub(super) struct Ordered<'a> {
    pub memory: &'a Memory,
    pub pool: &'a StreamPool,
}

impl Allocator for Ordered<'_> {
    fn name(&self) -> String {
        self.pool.name()
    }

    fn allocate(&self, request: &Request, stream: Option<&Arc<Stream>>) -> Result<RawBlock> {
        let address = self.memory.allocate_ordered(self.pool, request, self.named(stream)?)?;
        let token = address - request.front as usize;
        Ok(RawBlock { address, bytes: request.bytes, token, poison: None })
    }

    fn free(&self, block: RawBlock, stream: Option<&Arc<Stream>>) -> Result<()> {
        let stream = self.named(stream)?;
        // Another stream than the block's own may be ahead of it: what is queued there still wants the bytes.
        if let Some(value) = block.poison.filter(|_| self.pool.is_of(block.token, stream)) {
            let place = Place::Device(self.pool.device);
            let span = Span { address: block.address, bytes: block.bytes as usize, place };
            if let Err(error) = stream.submit(Task::fill("poison", span, value)) {
                log::warn!("{span} is not overwritten before it goes back: {}", error.text);
            }
        }
        self.pool.give(block.token, stream)
    }

    fn extent(&self, address: usize, bytes: usize) -> Option<Extent> {
        self.pool.extent(address, bytes)
    }
}

impl Ordered<'_> {
    fn named<'s>(&self, stream: Option<&'s Arc<Stream>>) -> Result<&'s Arc<Stream>> {
        stream.ok_or_else(|| {
            Error::refused(format!("{} serves streams, and none was named", self.name()))
        })
    }
}

/// Where blocks of a pool go that has ended under them: only the layers still want to know.
struct Ended<'a>(&'a StreamPool);

impl Allocator for Ended<'_> {
    fn name(&self) -> String {
        self.0.name()
    }

    fn allocate(&self, _: &Request, _: Option<&Arc<Stream>>) -> Result<RawBlock> {
        self.0.check().map(|()| unreachable!("only ended pools come here"))
    }

    fn free(&self, _: RawBlock, _: Option<&Arc<Stream>>) -> Result<()> {
        Ok(())
    }
}

/// Blocks by address.
impl Memory {
    /// Takes a block from a user's pool for use on `stream`, through the layers of the device.
    pub fn take_from(&self, pool: &StreamPool, bytes: u64, stream: &Arc<Stream>) -> Result<usize> {
        let request = Request::bytes(bytes);
        let Some(layers) = &self.layers else {
            return self.allocate_ordered(pool, &request, stream);
        };
        let ordered = Ordered { memory: self, pool };
        let block =
            layers.of_device(pool.device).over(&ordered).allocate(&request, Some(stream))?;
        let address = block.address;
        self.pools.layered().insert(address, (pool.number, block));
        Ok(address)
    }

    /// Gives the block of a user's pool that begins at `address` back, after what was submitted to
    /// `stream`.
    pub fn give_back(&self, address: usize, stream: &Arc<Stream>) -> Result<()> {
        let pool = self.pool_at(address).ok_or_else(|| {
            let what = describe(address, &self.locate(address));
            Error::refused(format!(
                "{address:#x} belongs to no memory pool: it is {what}; what aclrtMalloc gave goes back by aclrtFree"
            ))
        })?;
        if pool.built_in {
            return Err(pool.not_the_users(address));
        }
        let given = match &self.layers {
            None => pool.give(address, stream),
            Some(layers) => self.give_layered(layers, &pool, address, stream),
        };
        self.finish_pool(&pool);
        given
    }

    fn give_layered(
        &self,
        layers: &Layers,
        pool: &StreamPool,
        address: usize,
        stream: &Arc<Stream>,
    ) -> Result<()> {
        let held = self.pools.layered().remove(&address);
        let Some((_, block)) = held else { return Err(pool.no_block_at(address)) };
        let ordered = Ordered { memory: self, pool };
        layers.of_device(pool.device).over(&ordered).free(block, Some(stream))
    }

    /// A pool has ended: so have the blocks that layers know of.
    pub(super) fn write_off(&self, pool: &StreamPool) {
        let Some(layers) = &self.layers else { return };
        let of_pool = |_: &usize, (number, _): &mut (u32, RawBlock)| *number == pool.number;
        let gone: Vec<_> = self.pools.layered().extract_if(of_pool).collect();
        for (_, (_, block)) in gone {
            if let Err(error) = layers.of_device(pool.device).over(&Ended(pool)).free(block, None) {
                log::error!("the end of {}: {}", pool.name(), error.text);
            }
        }
    }
}

/// Pools by handle.
impl Runtime {
    /// A new pool over the memory of a device that is open; it takes at most so many bytes, and gives
    /// back all that it has free whenever a stream of the device is waited for. Returns its handle.
    pub fn create_pool(&self, device: i64, most: u64) -> Result<usize> {
        self.current_context()?;
        let device = self.device(device)?;
        if device.streams().is_empty() {
            let text = format!("device {0} is not set: call aclrtSetDevice({0}) first", device.id);
            return Err(Error::refused(text));
        }
        let memory = &self.shared.memory;
        let pool = memory.create_pool(device.id, most);
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

    /// Ends a handle. The pool gives no more blocks; it ends when the last one is back and what was
    /// submitted before that is done.
    pub fn destroy_pool(&self, handle: usize) -> Result<()> {
        let found = self.pool(handle);
        let pool = self.handles.remove::<StreamPool>(handle)?;
        found?;
        self.shared.memory.close_pool(&pool);
        Ok(())
    }
}
