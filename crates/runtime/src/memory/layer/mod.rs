//! Layers over any [`Allocator`]: each sees every block that is taken and given back, may enlarge or
//! refuse the one and inspect the other, and asks whatever lies below it for the memory.
//!
//! ```text
//!  take ──> limit ──> guard ──> stats ──> device memory, pool, or an allocator of the user
//!           refuses   adds      counts
//!                     canaries
//! ```

mod fault;
mod guard;
mod limit;
mod process;
pub mod spec;
mod stats;

pub use fault::Fault;
pub use guard::{CANARY, Guard, POISON};
pub use limit::Limit;
pub use process::Layers;
pub use spec::Spec;
pub use stats::{Books, Figures, Stats};

use super::allocator::{Allocator, RawBlock};
use super::raw::Extent;
use super::request::Request;
use crate::error::Result;
use crate::stream::Stream;
use crate::sync::Arc;

/// One layer. Its state may be shared by several stacks: all supplies of a device share theirs.
///
/// It counts the user's bytes of a block, which every layer sees alike; the room that a layer adds
/// around them counts nowhere but in the memory below.
pub trait Layer: Send + Sync {
    /// What the spec string calls it.
    fn name(&self) -> &'static str;

    /// Takes a block from `below`. A failure leaves nothing taken.
    fn allocate(
        &self,
        request: &Request,
        stream: Option<&Arc<Stream>>,
        below: &dyn Allocator,
    ) -> Result<RawBlock>;

    /// Gives a block back to `below`, whatever it has found out about it.
    fn free(
        &self,
        block: RawBlock,
        stream: Option<&Arc<Stream>>,
        below: &dyn Allocator,
    ) -> Result<()>;

    /// What is wrong with the blocks that are out now: a text for each.
    fn inspect(&self) -> Vec<String> {
        Vec::new()
    }

    /// The memory at these addresses is about to go, and the blocks there that are still out with it:
    /// a last look at them. They may come back later all the same.
    fn end(&self, gone: &dyn Fn(usize) -> bool) -> Vec<String> {
        let _ = gone;
        Vec::new()
    }

    /// What it has counted, if it counts.
    fn books(&self) -> Option<Books> {
        None
    }
}

/// Layers in their order, outermost first. Clones share the same layers.
#[derive(Clone)]
pub struct Stack {
    layers: Arc<[Box<dyn Layer>]>,
}

impl Stack {
    /// These layers, outermost first.
    pub fn new(layers: Vec<Box<dyn Layer>>) -> Stack {
        Stack { layers: layers.into() }
    }

    /// The layers over a source that the caller holds.
    pub fn over<'a>(&'a self, source: &'a dyn Allocator) -> Over<'a> {
        Over { layers: &self.layers, source }
    }

    /// The layers over a source, as one allocator.
    pub fn wrap(&self, source: Arc<dyn Allocator>) -> Arc<dyn Allocator> {
        Arc::new(Layered { stack: self.clone(), source })
    }

    /// What is wrong with the blocks that are out now: a text for each.
    pub fn inspect(&self) -> Vec<String> {
        self.layers.iter().flat_map(|layer| layer.inspect()).collect()
    }

    /// The memory at these addresses is about to go: what was wrong with blocks there that are out.
    pub fn end(&self, gone: &dyn Fn(usize) -> bool) -> Vec<String> {
        self.layers.iter().flat_map(|layer| layer.end(gone)).collect()
    }

    /// What each layer that counts has counted, outermost first.
    pub fn books(&self) -> Vec<Books> {
        self.layers.iter().filter_map(|layer| layer.books()).collect()
    }

    /// True if no allocator uses these layers any more.
    fn is_alone(&self) -> bool {
        Arc::strong_count(&self.layers) == 1
    }
}

/// A allocator under layers, and owner of both.
struct Layered {
    stack: Stack,
    source: Arc<dyn Allocator>,
}

impl Allocator for Layered {
    fn name(&self) -> String {
        self.source.name()
    }

    fn allocate(&self, request: &Request, stream: Option<&Arc<Stream>>) -> Result<RawBlock> {
        self.stack.over(&*self.source).allocate(request, stream)
    }

    fn free(&self, block: RawBlock, stream: Option<&Arc<Stream>>) -> Result<()> {
        self.stack.over(&*self.source).free(block, stream)
    }

    fn extent(&self, address: usize, bytes: usize) -> Option<Extent> {
        self.source.extent(address, bytes)
    }
}

/// Some layers over a source: a whole stack, or what lies below one of its layers.
pub struct Over<'a> {
    layers: &'a [Box<dyn Layer>],
    source: &'a dyn Allocator,
}

impl Allocator for Over<'_> {
    fn name(&self) -> String {
        self.source.name()
    }

    fn allocate(&self, request: &Request, stream: Option<&Arc<Stream>>) -> Result<RawBlock> {
        match self.layers.split_first() {
            Some((first, layers)) => first.allocate(request, stream, &Over { layers, ..*self }),
            None => self.source.allocate(request, stream),
        }
    }

    fn free(&self, block: RawBlock, stream: Option<&Arc<Stream>>) -> Result<()> {
        match self.layers.split_first() {
            Some((first, layers)) => first.free(block, stream, &Over { layers, ..*self }),
            None => self.source.free(block, stream),
        }
    }

    fn extent(&self, address: usize, bytes: usize) -> Option<Extent> {
        self.source.extent(address, bytes)
    }
}
