//! What a pool needs to know: how far streams have come, and where memory comes from.

use crate::clock::{Epoch, StreamIndex};
use std::ops::Range;

/// How far streams have come. Called on every slow path and on every free, from any thread, with a
/// lane of the pool locked: an implementation must not call back into the pool.
pub trait Progress: Send + Sync {
    /// The number of the last work given to a stream: what a free on it now has to wait for.
    fn submitted(&self, stream: StreamIndex) -> u64;

    /// The number of the last work of a stream that is known to be done.
    fn finished(&self, stream: StreamIndex) -> u64;

    /// True if whatever is given to stream `on` from now on runs after `epoch`, because the program
    /// ordered it so. Work of `on` itself need not be considered: the pool knows.
    fn is_ordered(&self, on: StreamIndex, epoch: Epoch) -> bool;

    /// Somebody else would have liked memory that was freed on this stream: whoever has to do
    /// something to learn of its progress may begin now.
    fn prove(&self, stream: StreamIndex) {
        let _ = stream;
    }
}

/// Where a pool's memory is made. Offsets are the source's own: from a base, or plain addresses.
pub trait SegmentSource: Send + Sync {
    /// Makes at least this many more bytes usable (a multiple of the granule), where possible next
    /// to what came before. The text says why not.
    fn extend(&self, bytes: u64) -> Result<Range<u64>, String>;

    /// Takes back bytes that are nobody's; the ranges returned lie inside and are gone for the pool.
    fn release(&self, range: Range<u64>) -> Vec<Range<u64>>;

    /// True if what is made next usually lies after what was made last, so that a hole there need only
    /// be made larger.
    fn is_contiguous(&self) -> bool {
        true
    }
}

impl<P: Progress + ?Sized> Progress for std::sync::Arc<P> {
    fn submitted(&self, stream: StreamIndex) -> u64 {
        (**self).submitted(stream)
    }

    fn finished(&self, stream: StreamIndex) -> u64 {
        (**self).finished(stream)
    }

    fn is_ordered(&self, on: StreamIndex, epoch: Epoch) -> bool {
        (**self).is_ordered(on, epoch)
    }

    fn prove(&self, stream: StreamIndex) {
        (**self).prove(stream);
    }
}
