//! Which blocks pools have handed out: a flat side table over the range of an arena.

use super::tlsf::GRANULE;
use super::word_table::WordTable;
use std::io;
use std::sync::atomic::Ordering::*;

/// In a record: its owner holds the block. The bits above are its bytes.
const HELD: u64 = 1;

/// A block of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolBlock {
    /// Offset of its first byte.
    pub start: u64,
    /// Bytes of its owner.
    pub bytes: u64,
    /// False once it was freed; its bytes may be part of a hole by now.
    pub held: bool,
}

/// The blocks of all pools of an arena, by offset of their first byte for the user.
///
/// **Threads.** Nobody takes a lock. A record is written by whoever holds the block, so two threads never write one at
/// the same time; a reader sees a block as it is or was a moment ago. **Cost.** A load and a store for each block that
/// is allocated or freed. A look-up walks back over the starts of freed blocks; it is for error messages and checkers.
pub struct PoolBlocks {
    /// One for each granule; 0 where no block began since the memory came to a pool.
    records: WordTable,
    /// A bit for each granule whose record was ever written.
    starts: WordTable,
    /// A bit for each word of `starts` that is not zero.
    start_words: WordTable,
}

impl PoolBlocks {
    /// For offsets below `range_bytes`. Fails if the kernel refuses the address space.
    pub fn new(range_bytes: u64) -> io::Result<PoolBlocks> {
        let granules = range_bytes.div_ceil(GRANULE).max(1) as usize;
        Ok(PoolBlocks {
            records: WordTable::reserve(granules)?,
            starts: WordTable::reserve(granules.div_ceil(64))?,
            start_words: WordTable::reserve(granules.div_ceil(64 * 64))?,
        })
    }

    /// Records that this block is held now.
    #[inline]
    pub fn hold(&self, offset: u64, bytes: u64) {
        let granule = (offset / GRANULE) as usize;
        let record = &self.records[granule];
        let before = record.load(Relaxed);
        record.store(bytes << 1 | HELD, Release);
        if before == 0 {
            self.add_start(granule);
        }
    }

    /// Records that the block is freed; called before the pool may reuse it. Does nothing where no block can begin.
    #[inline]
    pub fn free(&self, offset: u64) {
        let granule = (offset / GRANULE) as usize;
        if let Some(record) = self.records.get(granule).filter(|_| offset.is_multiple_of(GRANULE)) {
            record.store(record.load(Relaxed) & !HELD, Release);
        }
    }

    /// Bytes of the block that began at this offset last; 0 if none did.
    pub fn bytes(&self, offset: u64) -> u64 {
        self.records.get((offset / GRANULE) as usize).map_or(0, |record| record.load(Acquire) >> 1)
    }

    #[cold]
    fn add_start(&self, granule: usize) {
        self.starts[granule / 64].fetch_or(1 << (granule % 64), AcqRel);
        self.start_words[granule / 4096].fetch_or(1 << (granule / 64 % 64), AcqRel);
    }

    /// Forgets the blocks of memory that belongs to no pool any more.
    pub fn clear(&self, range: std::ops::Range<u64>) {
        let first = range.start / GRANULE;
        let mut after = range.end.div_ceil(GRANULE);
        while let Some(granule) = self.last_start(first as usize, after as usize) {
            self.records[granule].store(0, Release);
            after = granule as u64;
        }
    }

    /// The block that contains an offset, in memory of a pool that begins at `from`: a held one, else the last one that
    /// was freed.
    pub fn find(&self, from: u64, offset: u64) -> Option<PoolBlock> {
        let (first, mut after) = ((from / GRANULE) as usize, (offset / GRANULE) as usize + 1);
        let mut freed = None;
        while let Some(granule) = self.last_start(first, after) {
            let record = self.records[granule].load(Acquire);
            let (start, bytes, held) = (granule as u64 * GRANULE, record >> 1, record & HELD != 0);
            let block = (offset - start < bytes).then_some(PoolBlock { start, bytes, held });
            if held {
                return block.or(freed);
            }
            freed = freed.or(block);
            after = granule;
        }
        freed
    }

    /// The last granule from `first` on and before `after` at which a block ever began.
    fn last_start(&self, first: usize, after: usize) -> Option<usize> {
        let mut at = after.checked_sub(1).filter(|&at| at >= first)?;
        let mut bits = self.starts.get(at / 64)?.load(Acquire) & (!0 >> (63 - at % 64));
        while bits == 0 {
            let word = self.last_word(first / 64, at / 64)?;
            at = word * 64 + 63;
            bits = self.starts[word].load(Acquire);
        }
        let granule = at / 64 * 64 + bits.ilog2() as usize;
        (granule >= first).then_some(granule)
    }

    /// The last word of `starts` from `first` on and before `after` that has a bit.
    fn last_word(&self, first: usize, after: usize) -> Option<usize> {
        let mut at = after.checked_sub(1).filter(|&at| at >= first)?;
        loop {
            let bits = self.start_words[at / 64].load(Acquire) & (!0 >> (63 - at % 64));
            if bits != 0 {
                let word = at / 64 * 64 + bits.ilog2() as usize;
                return (word >= first).then_some(word);
            }
            at = (at / 64 * 64).checked_sub(1).filter(|&at| at >= first)?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    const RANGE: u64 = 40_000 * GRANULE;

    #[test]
    fn a_held_block_hides_what_was_freed_under_it() {
        let blocks = PoolBlocks::new(RANGE).unwrap();
        let offset = |granule: u64| granule * GRANULE;
        let find = |at| blocks.find(offset(10), at).map(|b| (b.start / GRANULE, b.bytes, b.held));
        assert_eq!(find(offset(12)), None);
        blocks.hold(offset(12), 700);
        blocks.hold(offset(20), 512);
        assert_eq!((find(offset(13)), find(offset(13) + 188)), (Some((12, 700, true)), None));
        blocks.free(offset(20));
        assert_eq!(find(offset(20) + 5), Some((20, 512, false)));
        blocks.free(offset(12));
        blocks.hold(offset(11), 100 * GRANULE);
        assert_eq!(
            (find(offset(12)), find(offset(20))),
            (Some((11, 51200, true)), Some((11, 51200, true)))
        );
        assert_eq!(
            blocks.find(offset(12), offset(20)).map(|b| b.held),
            Some(false),
            "not before the segment"
        );
        blocks.clear(offset(0)..offset(30_000));
        assert_eq!((find(offset(12)), find(offset(20))), (None, None));
        blocks.free(u64::MAX);
    }

    proptest! {
        #[test]
        fn held_blocks_are_found_as_in_a_map(
            ops in prop::collection::vec((0u64..39_000, 1u64..2_000_000, any::<bool>()), 1..80),
            offsets in prop::collection::vec(0..RANGE, 1..40),
        ) {
            let (blocks, mut held) = (PoolBlocks::new(RANGE).unwrap(), BTreeMap::<u64, u64>::new());
            for (granule, bytes, free) in ops {
                let start = granule * GRANULE;
                let end = start + bytes;
                let before = held.range(..end).next_back();
                match before.map(|(&other, &bytes)| (other, other + bytes)) {
                    Some((other, last)) if last > start => {
                        if free {
                            held.remove(&other);
                            blocks.free(other);
                        }
                    }
                    _ => {
                        held.insert(start, bytes);
                        blocks.hold(start, bytes);
                    }
                }
            }
            for offset in offsets {
                let expected = held.range(..=offset).next_back();
                let expected = expected.filter(|(start, bytes)| offset - **start < **bytes);
                let found = blocks.find(0, offset).filter(|block| block.held);
                prop_assert_eq!(found.map(|b| (b.start, b.bytes)), expected.map(|(s, b)| (*s, *b)));
            }
        }
    }
}
