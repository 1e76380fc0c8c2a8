//! What operators, graphs and tensors take their memory from: one trait for everything that makes
//! blocks, and the block itself.

use super::raw::Extent;
use super::request::Request;
use crate::error::Result;
use crate::stream::Stream;
use crate::sync::Arc;

/// Something that blocks are taken from: the memory of a device, its pool, or an allocator of the
/// user; plain, or under layers.
///
/// **Threads.** Any, at any time; an implementation serialises what has to be. **Callbacks** of the
/// user run on the calling thread, inside the call. **Asynchrony.** No call
/// waits for a stream, but for one that would else be out of memory.
pub trait Allocator: Send + Sync {
    /// What the user calls it, for error texts: `the pool of device 0`, `the allocator 0x.. of stream 3`.
    fn name(&self) -> String;

    /// Takes a block for use on `stream` (`None`: by whoever holds it, on any stream). The block's
    /// address is what the user gets; `request.front` bytes before and `request.back` after belong to it.
    fn allocate(&self, request: &Request, stream: Option<&Arc<Stream>>) -> Result<RawBlock>;

    /// Gives a block back that [`Allocator::allocate`] of the same allocator made. Work that was submitted to
    /// `stream` before may still use it.
    ///
    /// The block is the caller's no more, whatever comes back: an error is something that was found out
    /// about it, such as bytes written beside it.
    fn free(&self, block: RawBlock, stream: Option<&Arc<Stream>>) -> Result<()>;

    /// The bytes at an address of a block that is out, or of the room around it, for layers that write
    /// there. `None` where layers have no business.
    fn extent(&self, address: usize, bytes: usize) -> Option<Extent> {
        let _ = (address, bytes);
        None
    }
}

/// Memory that somebody holds. Who takes one gives it back, once, to the allocator it came from: see
/// [`Block`].
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

/// A block and whoever made it. Keeps the maker alive, and gives the block back exactly once: by
/// [`Block::free`], or when it is dropped.
pub struct Block {
    block: Option<RawBlock>,
    maker: Arc<dyn Allocator>,
    stream: Option<Arc<Stream>>,
}

impl Block {
    /// Takes a block from `maker`.
    pub fn allocate(
        maker: &Arc<dyn Allocator>,
        request: &Request,
        stream: Option<&Arc<Stream>>,
    ) -> Result<Block> {
        let block = maker.allocate(request, stream)?;
        Ok(Block { block: Some(block), maker: maker.clone(), stream: stream.cloned() })
    }

    /// First byte for the user.
    pub fn address(&self) -> usize {
        self.block.as_ref().map_or(0, |b| b.address)
    }

    /// Bytes for the user.
    pub fn bytes(&self) -> u64 {
        self.block.as_ref().map_or(0, |b| b.bytes)
    }

    /// From now on it is used on another stream, and is given back there.
    pub fn moves_to(&mut self, stream: &Arc<Stream>) {
        self.stream = Some(stream.clone());
    }

    /// Who made it.
    pub fn maker(&self) -> &Arc<dyn Allocator> {
        &self.maker
    }

    /// Gives the block back now, on this thread.
    pub fn free(mut self) -> Result<()> {
        match self.block.take() {
            Some(block) => self.maker.free(block, self.stream.as_ref()),
            None => Ok(()),
        }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        if let Some(block) = self.block.take()
            && let Err(error) = self.maker.free(block, self.stream.as_ref())
        {
            log::error!("{}: {}", self.maker.name(), error.text);
        }
    }
}
