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

/// How a source stitches: see [`SegmentSource::stitch`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stitching {
    /// Pieces are whole pages of this size, a power of two and a multiple of the granule, at multiples of it.
    pub page: u64,
    /// A smaller block is not worth it.
    pub min_block: u64,
    /// A smaller piece is not worth it.
    pub min_piece: u64,
    /// The most pieces in one range.
    pub max_pieces: usize,
    /// Tasks may use the old addresses of moved pages until [`SegmentSource::vacate`]. If not, only pages that nobody uses
    /// are moved.
    pub keeps_addresses: bool,
    /// It can put the new range right after the memory that it has, as if it were extended.
    pub extends_end: bool,
}

/// What is to be stitched: see [`SegmentSource::stitch`].
#[derive(Clone, Copy, Debug)]
pub struct StitchRequest<'a> {
    /// Whole pages that are in no block.
    pub pieces: &'a [Range<u64>],
    /// Bytes of new pages, after those of the pieces.
    pub fresh: u64,
    /// Where the new range must begin; anywhere if it is `None`.
    pub after: Option<u64>,
    /// Tasks that were submitted may still use the pieces, at their old addresses. What is submitted for the new range
    /// runs after them.
    pub in_use: bool,
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

    /// How it puts pages of several places side by side; `None` if it cannot, or not now.
    fn stitching(&self) -> Option<Stitching> {
        None
    }

    /// Moves the pages of pieces to a new range, in this order and side by side, and adds new pages at its end; there may be
    /// none of either. Blocks in the new range may be used at once; the old addresses belong to the source once they are
    /// given to [`SegmentSource::vacate`]. On failure nothing changes, and the text says why.
    fn stitch(&self, request: &StitchRequest<'_>) -> Result<Range<u64>, String> {
        let _ = request;
        Err("this source cannot stitch".into())
    }

    /// No task uses these addresses any more, whose pages were moved.
    fn vacate(&self, range: Range<u64>) {
        let _ = range;
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
