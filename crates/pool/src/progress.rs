//! What a pool needs to know: how far streams have come, and where memory comes from.

use crate::clock::{Epoch, StreamIndex};
use std::ops::Range;

/// How far streams have come. Called on every slow path and on every free, from any thread, with a
/// lane of the pool locked: an implementation must not call back into the pool.
pub trait Progress: Send + Sync {
    /// The number of the last task submitted to a stream: what a free on it now has to wait for.
    fn submitted(&self, stream: StreamIndex) -> u64;

    /// The number of the last task of a stream that is known to be finished.
    fn finished(&self, stream: StreamIndex) -> u64;

    /// True if whatever is submitted to `stream` from now on runs after `epoch`, because the program
    /// ordered it so. Epochs of `stream` itself are not asked for: they always are.
    fn is_ordered(&self, stream: StreamIndex, epoch: Epoch) -> bool;

    /// Another stream wants memory that was freed on this one. An implementation that has to do something
    /// to learn of a stream's progress (record an event, say) begins now.
    fn start_query(&self, stream: StreamIndex) {
        let _ = stream;
    }
}

/// Where a pool's memory is made. Offsets are the source's own: from a base, or plain addresses.
pub trait SegmentSource: Send + Sync {
    /// Makes at least this many more bytes usable (a multiple of the granule), where possible next
    /// to what came before. The text says why not.
    fn extend(&self, bytes: u64) -> Result<Range<u64>, String>;

    /// Takes back bytes that are in no block; returns the ranges inside that are no longer the pool's.
    fn release(&self, range: Range<u64>) -> Vec<Range<u64>>;

    /// True if the next range usually begins where the last one ends, so that a hole there need only be
    /// made larger.
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

    fn is_ordered(&self, stream: StreamIndex, epoch: Epoch) -> bool {
        (**self).is_ordered(stream, epoch)
    }

    fn start_query(&self, stream: StreamIndex) {
        (**self).start_query(stream);
    }
}
