//! What a pool knows about its offsets without locking a lane.

use crate::clock::StreamIndex;
use crate::granule_table::empty_cells;
use crate::tlsf::GRANULE;
use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

const LEAF_BITS: u32 = 14;
const MIDDLE_BITS: u32 = 12;
const TOP_BITS: u32 = 13;
/// Granules in a chunk, as a power of two.
const CHUNK_BITS: u32 = 7;

type Middle = Box<[OnceLock<Box<Leaf>>; 1 << MIDDLE_BITS]>;
type Top = Box<[OnceLock<Middle>; 1 << TOP_BITS]>;

/// Two things about 256 TiB of offsets: where a block ever began, a bit for each granule; and for each chunk
/// of 64 KiB the stream that got memory there last, which most of its blocks belong to.
///
/// Readers and writers take no lock. 2.5 KiB for every 8 MiB of which something is known.
pub(crate) struct OffsetTable {
    top: Top,
}

/// What is known of 8 MiB of offsets.
struct Leaf {
    block_starts: [AtomicU64; 1 << (LEAF_BITS - 6)],
    streams: [AtomicU32; 1 << (LEAF_BITS - CHUNK_BITS)],
}

impl Default for OffsetTable {
    fn default() -> Self {
        OffsetTable { top: empty_cells() }
    }
}

impl OffsetTable {
    /// True if a block ever began at this offset.
    pub fn has_block_start(&self, offset: u64) -> bool {
        let granule = offset / GRANULE;
        let leaf = self.leaf(granule).filter(|_| offset.is_multiple_of(GRANULE));
        leaf.is_some_and(|leaf| {
            leaf.block_starts[word_index(granule)].load(Ordering::Acquire) >> (granule % 64) & 1
                != 0
        })
    }

    /// Records that a block begins at this offset.
    ///
    /// # Panics
    /// If the offset is beyond the table.
    #[inline]
    pub fn add_block_start(&self, offset: u64) {
        let granule = offset / GRANULE;
        let leaf = self.leaf(granule).unwrap_or_else(|| self.new_leaf(granule));
        let (word, bit) = (&leaf.block_starts[word_index(granule)], 1 << (granule % 64));
        if word.load(Ordering::Relaxed) & bit == 0 {
            word.fetch_or(bit, Ordering::AcqRel);
        }
    }

    /// The stream that got memory around this offset last.
    pub fn stream(&self, offset: u64) -> Option<StreamIndex> {
        let leaf = self.leaf(offset / GRANULE)?;
        leaf.streams[chunk_index(offset / GRANULE)].load(Ordering::Acquire).checked_sub(1)
    }

    /// Records that a stream gets this memory.
    ///
    /// # Panics
    /// If the range is beyond the table.
    pub fn set_stream(&self, range: Range<u64>, stream: StreamIndex) {
        let granules = range.start / GRANULE..range.end.div_ceil(GRANULE);
        for chunk in (granules.start >> CHUNK_BITS)..granules.end.div_ceil(1 << CHUNK_BITS) {
            let granule = chunk << CHUNK_BITS;
            let leaf = self.leaf(granule).unwrap_or_else(|| self.new_leaf(granule));
            leaf.streams[chunk_index(granule)].store(stream + 1, Ordering::Release);
        }
    }

    #[inline]
    fn leaf(&self, granule: u64) -> Option<&Leaf> {
        let middle = self.top.get((granule >> (LEAF_BITS + MIDDLE_BITS)) as usize)?.get()?;
        middle[(granule >> LEAF_BITS) as usize & ((1 << MIDDLE_BITS) - 1)].get().map(|leaf| &**leaf)
    }

    #[cold]
    fn new_leaf(&self, granule: u64) -> &Leaf {
        let top = self.top.get((granule >> (LEAF_BITS + MIDDLE_BITS)) as usize);
        let top = top.unwrap_or_else(|| {
            panic!("offset {:#x} is beyond the pool's offset table", granule * GRANULE)
        });
        let middle = top.get_or_init(empty_cells);
        middle[(granule >> LEAF_BITS) as usize & ((1 << MIDDLE_BITS) - 1)].get_or_init(|| {
            Box::new(Leaf {
                block_starts: [const { AtomicU64::new(0) }; 1 << (LEAF_BITS - 6)],
                streams: [const { AtomicU32::new(0) }; 1 << (LEAF_BITS - CHUNK_BITS)],
            })
        })
    }
}

/// Which word of `block_starts` has the bit of a granule.
fn word_index(granule: u64) -> usize {
    (granule >> 6) as usize & ((1 << (LEAF_BITS - 6)) - 1)
}

/// Which entry of `streams` is for the chunk of a granule.
fn chunk_index(granule: u64) -> usize {
    (granule >> CHUNK_BITS) as usize & ((1 << (LEAF_BITS - CHUNK_BITS)) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn block_starts_are_remembered() {
        let offset_table = OffsetTable::default();
        let offsets = [0, 512, (8 << 20) - 512, 8 << 20, 1 << 40, (1 << 48) - 512];
        for offset in offsets {
            assert!(!offset_table.has_block_start(offset));
            offset_table.add_block_start(offset);
        }
        for offset in offsets {
            assert!(
                offset_table.has_block_start(offset) && !offset_table.has_block_start(offset + 1)
            );
        }
        assert!(
            !offset_table.has_block_start(1024)
                && !offset_table.has_block_start(1 << 48)
                && !offset_table.has_block_start(u64::MAX)
        );
    }

    #[test]
    fn the_last_stream_of_a_chunk_is_known() {
        let offset_table = OffsetTable::default();
        assert_eq!(offset_table.stream(0), None);
        offset_table.set_stream(60 << 10..(8 << 20) + 512, 3);
        offset_table.set_stream(1 << 20..2 << 20, 0);
        let stream_at = |kib: u64| offset_table.stream(kib << 10);
        assert_eq!(
            [
                stream_at(0),
                stream_at(64),
                stream_at(1023),
                stream_at(1024),
                stream_at(2047),
                stream_at(2048)
            ]
            .map(|s| s.unwrap()),
            [3, 3, 3, 0, 0, 3]
        );
        assert_eq!(
            (stream_at(8 << 10), stream_at((8 << 10) + 64), offset_table.stream(u64::MAX)),
            (Some(3), None, None)
        );
    }
}
