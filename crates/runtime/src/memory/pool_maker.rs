//! Stream-ordered blocks of pools: for operators, and by address for the user.

use super::Memory;
use super::allocator::{Allocator, RawBlock};
use super::funnel::Funnel;
use super::locate::describe;
use super::pool::StreamPool;
use super::raw::Extent;
use super::request::Request;
use crate::error::{Error, Result};
use crate::record::event::MemoryKind;
use crate::record::{Event, Kind};
use crate::shared::Shared;
use crate::stream::Stream;
use crate::sync::Arc;
use crate::task::{Location, Span};
use std::ops::Deref;

/// A pool as a maker of blocks for streams, borrowed or owned. A block that is to be poisoned is filled in the order
/// of the stream that gives it back, if that is its own and nobody recorded a use elsewhere.
pub struct PoolMaker<M, P> {
    memory: M,
    pool: P,
}

impl PoolMaker<Arc<Memory>, Arc<StreamPool>> {
    /// The built-in pool of a device, under the layers that `CAIRN_MEMORY` asks for.
    pub fn built_in(shared: &Shared, device: u32) -> Arc<dyn Allocator> {
        let memory = shared.memory.clone();
        let pool = memory.built_in_pool(device);
        shared.memory.wrap(device, PoolMaker { memory, pool })
    }
}

impl<M: Deref<Target = Memory>, P: Deref<Target = StreamPool>> PoolMaker<M, P> {
    /// The stream of a request, which must have one.
    fn require_stream<'s>(&self, stream: Option<&'s Arc<Stream>>) -> Result<&'s Arc<Stream>> {
        stream.ok_or_else(|| {
            Error::refused(format!("{} serves streams, and none was named", self.pool.name()))
        })
    }
}

impl<M, P> Allocator for PoolMaker<M, P>
where
    M: Deref<Target = Memory> + Send + Sync,
    P: Deref<Target = StreamPool> + Send + Sync,
{
    fn name(&self) -> String {
        self.pool.name()
    }

    /// Waits for streams only if it would fail otherwise.
    #[inline]
    fn allocate(&self, request: &Request<'_>) -> Result<RawBlock> {
        let (memory, pool, stream) =
            (&*self.memory, &*self.pool, self.require_stream(request.stream)?);
        pool.check_open()?;
        let address =
            memory.retry_allocation(pool.arena(), request, |_| pool.attempt(request, stream));
        pool.check_not_ended()?;
        let address = address?;
        Ok(RawBlock::new(address, request.bytes, address - request.front as usize))
    }

    /// Without a stream only if the pool has ended, and then there is nothing to do.
    #[inline]
    fn free(&self, block: RawBlock, stream: Option<&Arc<Stream>>) -> Result<()> {
        let pool = &*self.pool;
        if stream.is_none() && pool.has_ended() {
            return Ok(());
        }
        let stream = self.require_stream(stream)?;
        pool.free(block.address, block.token, stream)
    }

    /// Only on the block's own stream: tasks that are still queued there need the bytes, and another stream may run
    /// ahead of them.
    fn to_poison(&self, block: &RawBlock, stream: &Stream) -> Option<Span> {
        let location = Location::Device(self.pool.device);
        let span = Span { address: block.address, bytes: block.bytes as usize, location };
        self.pool.is_only_of(block.token, stream).then_some(span)
    }

    fn extent(&self, address: usize, bytes: usize) -> Option<Extent> {
        self.pool.extent(address, bytes)
    }

    fn kind_of(&self, block: &RawBlock) -> Option<(MemoryKind, u64)> {
        let StreamPool { device, number, .. } = *self.pool;
        let kind = MemoryKind::PoolBlock { device, pool: number };
        match self.pool.has_ended() {
            // Its blocks ended with it; layers still know their sizes.
            true => (block.bytes > 0).then_some((kind, block.bytes)),
            false => Some((kind, self.pool.held_bytes(block.address, block.token)?)),
        }
    }
}

/// Blocks by address.
impl Memory {
    /// A pool as a maker of blocks, without layers.
    pub fn pool_maker<'a>(&'a self, pool: &'a StreamPool) -> PoolMaker<&'a Memory, &'a StreamPool> {
        PoolMaker { memory: self, pool }
    }

    /// Allocates a block of a user's pool for use on `stream`, through the layers of the device.
    pub fn take_from(&self, pool: &StreamPool, bytes: u64, stream: &Arc<Stream>) -> Result<usize> {
        let maker = self.pool_maker(pool);
        let funnel = Funnel::new(self.layers.device(pool.device), &maker, &self.spine);
        let block = funnel.allocate(&Request::bytes(bytes).on(stream))?;
        let address = block.address;
        if !funnel.is_bare() {
            self.pools.layered_blocks().insert(address, (pool.number, block));
        }
        Ok(address)
    }

    /// Gives the block of a user's pool that begins at `address` back, after what was submitted to
    /// `stream`.
    pub fn give_back(&self, address: usize, stream: &Arc<Stream>) -> Result<()> {
        self.give_back_block(address, stream).inspect_err(|error| {
            let reason = &error.text;
            self.spine.emit(Kind::WrongFree, || Event::WrongFree { address, reason });
        })
    }

    fn give_back_block(&self, address: usize, stream: &Arc<Stream>) -> Result<()> {
        let pool = self.pool_at(address).ok_or_else(|| {
            let description = describe(address, &self.locate(address));
            Error::refused(format!(
                "{address:#x} belongs to no memory pool: it is {description}; what aclrtMalloc gave goes back by aclrtFree"
            ))
        })?;
        if pool.built_in {
            return Err(pool.not_user_memory(address));
        }
        self.close_keys_of(address);
        let maker = self.pool_maker(&pool);
        let funnel = Funnel::new(self.layers.device(pool.device), &maker, &self.spine);
        let block = match funnel.is_bare() {
            true => RawBlock::new(address, 0, address),
            false => match self.pools.layered_blocks().remove(&address) {
                Some((_, block)) => block,
                None => return Err(pool.no_block_at(address)),
            },
        };
        let freed = funnel.free(block, Some(stream));
        self.finish_pool(&pool);
        freed
    }

    /// Removes the blocks of a pool that has ended from the layers.
    pub(super) fn remove_layered(&self, pool: &StreamPool) {
        let of_pool = |_: &usize, (number, _): &mut (u32, RawBlock)| *number == pool.number;
        let blocks: Vec<_> = self.pools.layered_blocks().extract_if(of_pool).collect();
        let maker = self.pool_maker(pool);
        let funnel = Funnel::new(self.layers.device(pool.device), &maker, &self.spine);
        for (_, (_, block)) in blocks {
            if let Err(error) = funnel.free(block, None) {
                log::error!("the end of {}: {}", pool.name(), error.text);
            }
        }
    }
}
