//! Layers over any [`Allocator`]: each sees every request and every free, may enlarge or
//! refuse a request and inspect a freed block, and passes both on to what lies below it.
//!
//! How a request passes them is in [`super::funnel`].

mod fault;
pub mod fault_spec;
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
pub use stats::{Figures, Statistics, Stats};

use super::allocator::{Allocator, RawBlock};
use super::request::Request;
use crate::error::Result;
use crate::stream::Stream;
use crate::sync::Arc;

/// One layer. Its state may be shared by several stacks: all allocators of a device share theirs.
///
/// Layers count the user's bytes of a block, which are the same for all of them, without the padding that a layer
/// adds.
pub trait Layer: Send + Sync {
    /// What the spec string calls it.
    fn name(&self) -> &'static str;

    /// Gets a block from `below`. After a failure there is none.
    fn allocate(&self, request: &Request<'_>, below: &dyn Allocator) -> Result<RawBlock>;

    /// Frees a block to `below`, also if there is a problem with it.
    fn free(
        &self,
        block: RawBlock,
        stream: Option<&Arc<Stream>>,
        below: &dyn Allocator,
    ) -> Result<()>;

    /// One message for each problem with a live block.
    fn inspect(&self) -> Vec<String> {
        Vec::new()
    }

    /// Inspects the live blocks at addresses that are about to be released; one message for each problem. The blocks
    /// may still be freed later.
    fn inspect_before_release(&self, is_released: &dyn Fn(usize) -> bool) -> Vec<String> {
        let _ = is_released;
        Vec::new()
    }

    /// What it has counted, if it counts.
    fn statistics(&self) -> Option<Statistics> {
        None
    }
}

impl<L: Layer + ?Sized> Layer for Arc<L> {
    fn name(&self) -> &'static str {
        (**self).name()
    }

    fn allocate(&self, request: &Request<'_>, below: &dyn Allocator) -> Result<RawBlock> {
        (**self).allocate(request, below)
    }

    fn free(
        &self,
        block: RawBlock,
        stream: Option<&Arc<Stream>>,
        below: &dyn Allocator,
    ) -> Result<()> {
        (**self).free(block, stream, below)
    }

    fn inspect(&self) -> Vec<String> {
        (**self).inspect()
    }

    fn inspect_before_release(&self, is_released: &dyn Fn(usize) -> bool) -> Vec<String> {
        (**self).inspect_before_release(is_released)
    }

    fn statistics(&self) -> Option<Statistics> {
        (**self).statistics()
    }
}

/// A layer of the program that made the runtime, outermost over memory of every kind: also over the segments of
/// pools, which have no layer of a [`Spec`] because their blocks do. It is called there with locks of the engine
/// held, so it takes none but those of rank `Record` and later.
#[derive(Clone)]
pub struct Observer(pub Arc<dyn Layer>);

impl std::fmt::Debug for Observer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0.name())
    }
}

impl PartialEq for Observer {
    fn eq(&self, other: &Observer) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Observer {}

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

    /// The layers, outermost first.
    pub fn layers(&self) -> &[Box<dyn Layer>] {
        &self.layers
    }

    /// One message for each problem with a live block.
    pub fn inspect(&self) -> Vec<String> {
        self.layers.iter().flat_map(|layer| layer.inspect()).collect()
    }

    /// Inspects the live blocks in memory that is about to be released; one message for each problem.
    pub fn inspect_before_release(&self, is_released: &dyn Fn(usize) -> bool) -> Vec<String> {
        self.layers.iter().flat_map(|layer| layer.inspect_before_release(is_released)).collect()
    }

    /// What each layer that counts has counted, outermost first.
    pub fn statistics(&self) -> Vec<Statistics> {
        self.layers.iter().filter_map(|layer| layer.statistics()).collect()
    }

    /// True if no allocator uses these layers any more.
    fn is_unused(&self) -> bool {
        Arc::strong_count(&self.layers) == 1
    }
}
