//! The funnel: the one way to a block of whatever kind.
//!
//! ```text
//!  request ──> limit ──> guard ──> stats ──> maker: device memory, pinned memory, a segment of a pool,
//!              refuses   adds      counts           a pool, or a user allocator
//!                        canaries
//!                                          emitted here: Alloc after it was made, Free before it takes effect
//! ```

use super::allocator::{self, Allocator, RawBlock};
use super::layer::{Layer, Stack};
use super::raw::Extent;
use super::request::Request;
use crate::error::Result;
use crate::record::event::MemoryKind;
use crate::record::{Event, Kind, Spine};
use crate::stream::Stream;
use crate::sync::Arc;

/// Some layers over a maker: a whole stack, or what lies below one of its layers. Without any layer it is the maker
/// itself, plus one load for each request, to see whether anybody listens.
pub struct Funnel<'a, M: ?Sized> {
    layers: &'a [Box<dyn Layer>],
    maker: &'a M,
    spine: &'a Spine,
}

impl<M: ?Sized> Clone for Funnel<'_, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M: ?Sized> Copy for Funnel<'_, M> {}

impl<'a, M: Allocator + ?Sized> Funnel<'a, M> {
    /// The layers of a stack over a maker.
    pub fn new(stack: &'a Stack, maker: &'a M, spine: &'a Spine) -> Funnel<'a, M> {
        Funnel { layers: stack.layers(), maker, spine }
    }

    /// True if there is no layer: a block is then as the maker made it.
    pub fn is_bare(&self) -> bool {
        self.layers.is_empty()
    }

    /// True if only the maker acts: there is no layer, and nobody listens to this kind of event. The caller may then use a
    /// shorter way to the maker.
    #[inline]
    pub fn is_direct(&self, kind: Kind) -> bool {
        self.is_bare() && !self.spine.has_listener(kind)
    }

    #[inline]
    fn allocate_from_maker(&self, request: &Request<'_>) -> Result<RawBlock> {
        let block = self.maker.allocate(request)?;
        if self.spine.has_listener(Kind::Alloc) {
            self.emit_made(request, &block);
        }
        Ok(block)
    }

    #[inline]
    fn free_to_maker(&self, block: RawBlock, stream: Option<&Arc<Stream>>) -> Result<()> {
        if let (Some(value), Some(stream)) = (block.poison, stream)
            && let Some(span) = self.maker.to_poison(&block, stream)
        {
            allocator::poison(span, value, stream);
        }
        if self.spine.has_listener(Kind::Free) {
            self.emit_freed(&block, stream);
        }
        self.maker.free(block, stream)
    }

    #[cold]
    fn emit_made(&self, request: &Request<'_>, block: &RawBlock) {
        if let Some((kind, bytes)) = self.maker.kind_of(block) {
            self.spine.emit(Kind::Alloc, || Event::Alloc {
                kind,
                address: block.address,
                bytes,
                purpose: request.purpose,
                owner: request.owner,
                stream: request.stream.map(|stream| stream.index),
            });
        }
    }

    #[cold]
    fn emit_freed(&self, block: &RawBlock, stream: Option<&Arc<Stream>>) {
        if let Some((kind, bytes)) = self.maker.kind_of(block) {
            let (address, stream) = (block.address, stream.map(|stream| stream.index));
            self.spine.emit(Kind::Free, || Event::Free { kind, address, bytes, stream });
        }
    }
}

impl<M: Allocator + ?Sized> Allocator for Funnel<'_, M> {
    fn name(&self) -> String {
        self.maker.name()
    }

    #[inline]
    fn allocate(&self, request: &Request<'_>) -> Result<RawBlock> {
        match self.layers.split_first() {
            None => self.allocate_from_maker(request),
            Some((first, layers)) => first.allocate(request, &Funnel { layers, ..*self }),
        }
    }

    #[inline]
    fn free(&self, block: RawBlock, stream: Option<&Arc<Stream>>) -> Result<()> {
        match self.layers.split_first() {
            None => self.free_to_maker(block, stream),
            Some((first, layers)) => first.free(block, stream, &Funnel { layers, ..*self }),
        }
    }

    fn extent(&self, address: usize, bytes: usize) -> Option<Extent> {
        self.maker.extent(address, bytes)
    }

    fn kind_of(&self, block: &RawBlock) -> Option<(MemoryKind, u64)> {
        self.maker.kind_of(block)
    }
}

/// A maker under layers; owns both.
pub struct LayeredAllocator<M> {
    stack: Stack,
    maker: M,
    spine: Arc<Spine>,
}

impl<M: Allocator> LayeredAllocator<M> {
    /// The layers of a stack over a maker.
    pub fn new(stack: Stack, maker: M, spine: Arc<Spine>) -> LayeredAllocator<M> {
        LayeredAllocator { stack, maker, spine }
    }

    fn funnel(&self) -> Funnel<'_, M> {
        Funnel::new(&self.stack, &self.maker, &self.spine)
    }
}

impl<M: Allocator> Allocator for LayeredAllocator<M> {
    fn name(&self) -> String {
        self.maker.name()
    }

    fn allocate(&self, request: &Request<'_>) -> Result<RawBlock> {
        self.funnel().allocate(request)
    }

    fn free(&self, block: RawBlock, stream: Option<&Arc<Stream>>) -> Result<()> {
        self.funnel().free(block, stream)
    }

    fn extent(&self, address: usize, bytes: usize) -> Option<Extent> {
        self.maker.extent(address, bytes)
    }

    fn kind_of(&self, block: &RawBlock) -> Option<(MemoryKind, u64)> {
        self.maker.kind_of(block)
    }
}
