//! Freed blocks of a lane that are not holes yet: the next request of their size gets them at once.

use crate::tlsf::{BlockId, GRANULE};

/// Sizes up to this many granules have a bin each.
const SMALL: usize = 64;
/// Blocks in a bin.
const DEPTH: usize = 8;

/// A few blocks of each small size, and the larger one that was freed last.
///
/// They do not merge with their neighbours, so the list is drained before the lane looks for memory elsewhere.
/// Keeping more of the larger ones would make some programs faster and let others reserve more memory.
pub(crate) struct QuickList {
    small: Box<[Bin; SMALL]>,
    large: Slot,
}

/// A freed block, and the number of the stream's last task when it was freed.
#[derive(Clone, Copy)]
pub(crate) struct FreeBlock {
    pub id: BlockId,
    pub freed_seq: u64,
}

/// Blocks of one size; `count` of them.
#[derive(Clone, Copy, Default)]
#[repr(align(64))]
struct Bin {
    count: u32,
    ids: [BlockId; DEPTH],
    freed_seqs: [u64; DEPTH],
}

/// A block of any size; none if `granules` is 0.
#[derive(Clone, Copy, Default)]
struct Slot {
    granules: u64,
    id: BlockId,
    freed_seq: u64,
}

impl QuickList {
    /// An empty list.
    pub fn new() -> QuickList {
        QuickList { small: Box::new([Bin::default(); SMALL]), large: Slot::default() }
    }

    /// The block of this size that was put here last.
    #[inline]
    pub fn take(&mut self, granules: u64) -> Option<BlockId> {
        if let Some(bin) = self.small.get_mut(granules as usize - 1) {
            let at = bin.count.checked_sub(1)?;
            bin.count = at;
            return Some(bin.ids[at as usize % DEPTH]);
        }
        if self.large.granules != granules {
            return None;
        }
        self.large.granules = 0;
        Some(self.large.id)
    }

    /// Keeps a freed block; returns one for which there is no more room.
    #[inline]
    pub fn put(&mut self, granules: u64, block: FreeBlock) -> Option<FreeBlock> {
        if let Some(bin) = self.small.get_mut(granules as usize - 1) {
            let at = bin.count as usize;
            if at == DEPTH {
                return Some(block);
            }
            (bin.ids[at], bin.freed_seqs[at]) = (block.id, block.freed_seq);
            bin.count += 1;
            return None;
        }
        let new = Slot { granules, id: block.id, freed_seq: block.freed_seq };
        let old = std::mem::replace(&mut self.large, new);
        (old.granules != 0).then_some(FreeBlock { id: old.id, freed_seq: old.freed_seq })
    }

    /// Removes all blocks, and passes each to `on_block`.
    pub fn drain(&mut self, mut on_block: impl FnMut(FreeBlock)) {
        for bin in self.small.iter_mut() {
            for at in 0..std::mem::take(&mut bin.count) as usize {
                on_block(FreeBlock { id: bin.ids[at], freed_seq: bin.freed_seqs[at] });
            }
        }
        if std::mem::take(&mut self.large.granules) != 0 {
            on_block(FreeBlock { id: self.large.id, freed_seq: self.large.freed_seq });
        }
    }

    /// The blocks as (bytes, `freed_seq`).
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64)> {
        let small = self.small.iter().zip(1..).flat_map(|(bin, granules)| {
            bin.freed_seqs[..bin.count as usize].iter().map(move |&freed_seq| (granules, freed_seq))
        });
        let large = Some(&self.large).filter(|slot| slot.granules != 0).into_iter();
        let all = small.chain(large.map(|slot| (slot.granules, slot.freed_seq)));
        all.map(|(granules, freed_seq)| (granules * GRANULE, freed_seq))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_gets_back_what_was_put_last_and_the_list_is_bounded() {
        let mut quick = QuickList::new();
        let block = |id: u32| FreeBlock { id, freed_seq: u64::from(id) * 10 };
        let mut put = |granules, id| quick.put(granules, block(id)).map(|f| (f.id, f.freed_seq));
        assert!((0..DEPTH as u32).all(|id| put(SMALL as u64, id).is_none()));
        assert_eq!(put(SMALL as u64, 77), Some((77, 770)));
        assert_eq!((put(1, 20), put(1000, 30), put(2000, 40)), (None, None, Some((30, 300))));
        assert_eq!((quick.take(1000), quick.take(2), quick.take(1)), (None, None, Some(20)));
        assert_eq!(quick.take(SMALL as u64), Some(DEPTH as u32 - 1));
        let bytes: u64 = quick.iter().map(|(bytes, _)| bytes).sum();
        assert_eq!(bytes, ((DEPTH - 1) * SMALL + 2000) as u64 * GRANULE);
        let mut left = Vec::new();
        quick.drain(|f| left.push((f.id, f.freed_seq)));
        assert_eq!((left.len(), left[0], left[DEPTH - 1]), (DEPTH, (0, 0), (40, 400)));
        assert_eq!(
            (quick.take(2000), quick.take(SMALL as u64), quick.iter().count()),
            (None, None, 0)
        );
    }
}
