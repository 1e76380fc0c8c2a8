//! Statistics of a pool.

use crate::clock::StreamIndex;

/// Figures of one stream of a pool, or of the whole pool. Bytes are in whole granules, except `requested`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Bytes in blocks that are held.
    pub live: u64,
    /// Bytes that were asked for, of those.
    pub requested: u64,
    /// The most that was live since the last reset. Exact for a stream, and for a pool that one
    /// stream uses; else it may be over by up to 2 MiB a stream.
    pub peak: u64,
    /// Bytes the pool has from its source, or those of them that belong to the stream.
    pub reserved: u64,
    /// The most that was reserved since the last reset.
    pub peak_reserved: u64,
    /// Freed bytes that other streams may not use yet.
    pub waiting: u64,
    /// The largest piece that is free now.
    pub largest_hole: u64,
    /// Blocks that are held.
    pub blocks: u64,
    /// Blocks taken, ever.
    pub taken: u64,
    /// Blocks given back, ever.
    pub freed: u64,
    /// Requests that found nothing.
    pub failed: u64,
    /// Bytes of blocks that were stitched from holes, ever; of the whole pool only.
    pub stitched: u64,
}

/// Who holds how much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The stream that the blocks were taken for.
    pub stream: StreamIndex,
    /// Bytes it holds.
    pub live: u64,
    /// In how many blocks.
    pub blocks: u64,
}
