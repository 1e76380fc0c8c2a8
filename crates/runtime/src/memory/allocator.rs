//! One trait for everything that makes blocks of memory, and the block itself.

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
/// **Threads.** Any, at any time; an implementation locks what it has to. **Callbacks** of the
/// user run on the calling thread, inside the call. **Asynchrony.** No call
/// waits for a stream, except one that would be out of memory otherwise.
pub trait Allocator: Send + Sync {
    /// What the user calls it, for error messages: `the pool of device 0`, `the user's allocator 0x..`.
    fn name(&self) -> String;

    /// Makes a block. Its address is what the user gets; `request.front` bytes before and `request.back` after
    /// belong to it.
    fn allocate(&self, request: &Request<'_>) -> Result<RawBlock>;

    /// Takes a block back that [`Allocator::allocate`] of the same allocator made. Work that was submitted to
    /// `stream` before may still use it.
    ///
    /// The block no longer belongs to the caller, also after an error: that reports a problem with the block, such as
    /// bytes written beside it.
    fn free(&self, block: RawBlock, stream: Option<&Arc<Stream>>) -> Result<()>;

    /// The bytes at an address of an outstanding block, or of the padding around it, for layers that write
    /// there. `None` where they cannot.
    fn extent(&self, address: usize, bytes: usize) -> Option<Extent> {
        let _ = (address, bytes);
        None
    }

    /// The bytes of a block that a task on `stream` may poison before the block is freed. `None` where they are poisoned
    /// later, or must not be.
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

/// A block as makers and layers pass it to each other. Its holder gives it back, once, to the allocator that it came
/// from: see [`Block`].
#[derive(Debug, PartialEq, Eq)]
pub struct RawBlock {
    /// First byte for the user.
    pub address: usize,
    /// Bytes for the user.
    pub bytes: u64,
    /// The maker's own handle of it; layers pass it on.
    pub token: usize,
    /// The value that a layer wants every byte to have when the memory is released.
    pub poison: Option<u8>,
}

impl RawBlock {
    /// A block as its maker hands it out.
    pub fn new(address: usize, bytes: u64, token: usize) -> RawBlock {
        RawBlock { address, bytes, token, poison: None }
    }
}

/// Submits a task that overwrites the bytes of a block that is about to be freed on the stream.
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
