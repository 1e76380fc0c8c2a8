//! What memory comes from: one trait for everything that makes blocks, and the block itself.

use super::raw::Extent;
use super::request::Request;
use crate::error::Result;
use crate::record::event::MemoryKind;
use crate::stream::Stream;
use crate::sync::Arc;
use crate::task::{Span, Task};

/// Something that makes blocks: the memory of a device, pinned memory, a pool, a user allocator; plain, or
/// under layers ([`Funnel`](super::funnel::Funnel)).
///
/// **Threads.** Any, at any time; an implementation serialises what has to be. **Callbacks** of the
/// user run on the calling thread, inside the call. **Asynchrony.** No call
/// waits for a stream, but for one that would else be out of memory.
pub trait Allocator: Send + Sync {
    /// What the user calls it, for error messages: `the pool of device 0`, `the user's allocator 0x..`.
    fn name(&self) -> String;

    /// Makes a block. Its address is what the user gets; `request.front` bytes before and `request.back` after
    /// belong to it.
    fn allocate(&self, request: &Request<'_>) -> Result<RawBlock>;

    /// Takes a block back that [`Allocator::allocate`] of the same allocator made. Work that was submitted to
    /// `stream` before may still use it.
    ///
    /// The block is the caller's no more, whatever comes back: an error is something that was found out
    /// about it, such as bytes written beside it.
    fn free(&self, block: RawBlock, stream: Option<&Arc<Stream>>) -> Result<()>;

    /// The bytes at an address of an outstanding block, or of the padding around it, for layers that write
    /// there. `None` where layers have no business.
    fn extent(&self, address: usize, bytes: usize) -> Option<Extent> {
        let _ = (address, bytes);
        None
    }

    /// What of a block a task on `stream` may overwrite before it goes back, where a layer wants it poisoned. `None` where
    /// that comes later, or must not be.
    fn to_poison(&self, block: &RawBlock, stream: &Stream) -> Option<Span> {
        let _ = (block, stream);
        None
    }

    /// Which memory a block is, and how many bytes of it are its owner's, for those who listen. `None` if it is no
    /// outstanding block of this allocator.
    fn kind_of(&self, block: &RawBlock) -> Option<(MemoryKind, u64)> {
        let _ = block;
        None
    }
}

impl<A: Allocator + ?Sized> Allocator for Arc<A> {
    fn name(&self) -> String {
        (**self).name()
    }

    fn allocate(&self, request: &Request<'_>) -> Result<RawBlock> {
        (**self).allocate(request)
    }

    fn free(&self, block: RawBlock, stream: Option<&Arc<Stream>>) -> Result<()> {
        (**self).free(block, stream)
    }

    fn extent(&self, address: usize, bytes: usize) -> Option<Extent> {
        (**self).extent(address, bytes)
    }

    fn to_poison(&self, block: &RawBlock, stream: &Stream) -> Option<Span> {
        (**self).to_poison(block, stream)
    }

    fn kind_of(&self, block: &RawBlock) -> Option<(MemoryKind, u64)> {
        (**self).kind_of(block)
    }
}

/// Memory that somebody holds, as makers and layers hand it to each other. Who gets one gives it back, once, to the
/// allocator it came from: see [`Block`].
#[derive(Debug, PartialEq, Eq)]
pub struct RawBlock {
    /// First byte for the user.
    pub address: usize,
    /// Bytes for the user.
    pub bytes: u64,
    /// The maker's own word for it; layers hand it on.
    pub token: usize,
    /// What a layer wants every byte to become when the memory really leaves.
    pub poison: Option<u8>,
}

impl RawBlock {
    /// A block as its maker hands it out.
    pub fn new(address: usize, bytes: u64, token: usize) -> RawBlock {
        RawBlock { address, bytes, token, poison: None }
    }
}

/// Overwrites bytes that are about to go back on a stream, in its order.
pub(super) fn poison(span: Span, value: u8, stream: &Arc<Stream>) {
    if let Err(error) = stream.submit(Task::fill("poison", span, value)) {
        log::warn!("{span} is not overwritten before it goes back: {}", error.text);
    }
}

/// A block and whoever made it. Keeps the maker alive, and gives the block back exactly once: by
/// [`Block::free`], or when it is dropped.
pub struct Block {
    raw: Option<RawBlock>,
    maker: Arc<dyn Allocator>,
    stream: Option<Arc<Stream>>,
}

impl Block {
    /// Gets a block from `maker`.
    pub fn allocate(maker: &Arc<dyn Allocator>, request: &Request<'_>) -> Result<Block> {
        let raw = maker.allocate(request)?;
        Ok(Block { raw: Some(raw), maker: maker.clone(), stream: request.stream.cloned() })
    }

    /// First byte for the user.
    pub fn address(&self) -> usize {
        self.raw.as_ref().map_or(0, |b| b.address)
    }

    /// Bytes for the user.
    pub fn bytes(&self) -> u64 {
        self.raw.as_ref().map_or(0, |b| b.bytes)
    }

    /// From now on the block is used on another stream, and is freed in the order of that stream.
    pub fn set_free_stream(&mut self, stream: &Arc<Stream>) {
        self.stream = Some(stream.clone());
    }

    /// Who made it.
    pub fn maker(&self) -> &Arc<dyn Allocator> {
        &self.maker
    }

    /// Gives the block back now, on this thread.
    pub fn free(mut self) -> Result<()> {
        match self.raw.take() {
            Some(block) => self.maker.free(block, self.stream.as_ref()),
            None => Ok(()),
        }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        if let Some(block) = self.raw.take()
            && let Err(error) = self.maker.free(block, self.stream.as_ref())
        {
            log::error!("{}: {}", self.maker.name(), error.text);
        }
    }
}
