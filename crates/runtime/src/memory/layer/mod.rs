//! Layers over any [`Supply`]: each sees every block that is taken and given back, may enlarge or
//! refuse the one and inspect the other, and asks whatever lies below it for the memory.

use super::arena::Ask;
use super::supply::{Block, Supply};
use crate::error::Result;
use crate::stream::Stream;
use crate::sync::Arc;

/// One layer. Its state may be shared by several stacks: all supplies of a device share theirs.
pub trait Layer: Send + Sync {
    /// What the spec string calls it.
    fn name(&self) -> &'static str;

    /// Takes a block from `below`.
    fn take(&self, ask: &Ask, stream: Option<&Arc<Stream>>, below: &dyn Supply) -> Result<Block>;

    /// Gives a block back to `below`.
    fn give(&self, block: Block, stream: Option<&Arc<Stream>>, below: &dyn Supply) -> Result<()>;
}

/// A supply under layers, outermost first.
pub struct Layered {
    layers: Arc<[Box<dyn Layer>]>,
    source: Arc<dyn Supply>,
}

impl Layered {
    /// Puts layers over a source.
    pub fn new(layers: Arc<[Box<dyn Layer>]>, source: Arc<dyn Supply>) -> Layered {
        Layered { layers, source }
    }

    fn whole(&self) -> Rest<'_> {
        Rest { layers: &self.layers, source: &*self.source }
    }
}

impl Supply for Layered {
    fn name(&self) -> String {
        self.source.name()
    }

    fn take(&self, ask: &Ask, stream: Option<&Arc<Stream>>) -> Result<Block> {
        self.whole().take(ask, stream)
    }

    fn give(&self, block: Block, stream: Option<&Arc<Stream>>) -> Result<()> {
        self.whole().give(block, stream)
    }
}

/// What lies below some layer.
struct Rest<'a> {
    layers: &'a [Box<dyn Layer>],
    source: &'a dyn Supply,
}

impl Supply for Rest<'_> {
    fn name(&self) -> String {
        self.source.name()
    }

    fn take(&self, ask: &Ask, stream: Option<&Arc<Stream>>) -> Result<Block> {
        match self.layers.split_first() {
            Some((first, layers)) => first.take(ask, stream, &Rest { layers, ..*self }),
            None => self.source.take(ask, stream),
        }
    }

    fn give(&self, block: Block, stream: Option<&Arc<Stream>>) -> Result<()> {
        match self.layers.split_first() {
            Some((first, layers)) => first.give(block, stream, &Rest { layers, ..*self }),
            None => self.source.give(block, stream),
        }
    }
}
