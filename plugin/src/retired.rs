//! Blocks that were out when their device was reset: they went with it, but whoever has one may still
//! give it back, and by then another block may lie at its address.

use cairn_sync::lock::{Mutex, Rank};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

/// The most blocks that are remembered of a device.
const MAX_BLOCKS: usize = 1 << 16;

/// The lost blocks of a device, by address, with their sizes. Beyond 65,536 those of older resets are
/// forgotten first.
pub struct RetiredBlocks {
    any: AtomicBool,
    blocks: Mutex<BTreeMap<u64, u64>>,
}

impl Default for RetiredBlocks {
    fn default() -> RetiredBlocks {
        let blocks = Mutex::new(Rank::Outstanding, BTreeMap::new());
        RetiredBlocks { any: AtomicBool::new(false), blocks }
    }
}

impl RetiredBlocks {
    /// True when there is nothing to look for. One load.
    #[inline]
    pub fn is_empty(&self) -> bool {
        !self.any.load(Ordering::Acquire)
    }

    /// The blocks of one reset.
    pub fn add(&self, lost: Vec<(u64, u64)>) {
        let mut blocks = self.blocks.lock();
        if blocks.len() + lost.len() > MAX_BLOCKS {
            blocks.clear();
        }
        blocks.extend(lost.into_iter().take(MAX_BLOCKS));
        self.any.store(!blocks.is_empty(), Ordering::Release);
    }

    /// The size of the lost block that began here.
    pub fn find(&self, address: u64) -> Option<u64> {
        if self.is_empty() {
            return None;
        }
        self.blocks.lock().get(&address).copied()
    }

    /// The lost block was given back. False if there is none.
    pub fn remove(&self, address: u64) -> bool {
        if self.is_empty() {
            return false;
        }
        let mut blocks = self.blocks.lock();
        let known = blocks.remove(&address).is_some();
        self.any.store(!blocks.is_empty(), Ordering::Release);
        known
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_block_is_given_back_once() {
        let retired = RetiredBlocks::default();
        assert!(retired.is_empty() && !retired.remove(512));
        retired.add(vec![(512, 1024), (4096, 512)]);
        assert_eq!((retired.find(512), retired.find(1024)), (Some(1024), None));
        assert!(retired.remove(512) && !retired.remove(512) && !retired.is_empty());
        assert!(retired.remove(4096) && retired.is_empty());
    }

    #[test]
    fn resets_without_end_are_remembered_in_bounded_room() {
        let retired = RetiredBlocks::default();
        for reset in 0..5 {
            let at = |n: u64| ((reset * (1 << 20) + n) * 512, 512);
            retired.add((0..MAX_BLOCKS as u64 / 2 + 1).map(at).collect());
            assert!(retired.blocks.lock().len() <= MAX_BLOCKS);
            assert_eq!(retired.find(at(7).0), Some(512), "of reset {reset}");
        }
    }
}
