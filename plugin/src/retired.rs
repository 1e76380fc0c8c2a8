//! Blocks that were held when their device was reset. Their memory is gone, but their holders may still
//! free them, and by then another block may lie at the same address.

use cairn_sync::lock::{Mutex, Rank};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

/// The most blocks that are remembered for a device.
const MAX_BLOCKS: usize = 1 << 16;

/// The retired blocks of a device, by address, with their sizes. When there would be more than 65,536, those of
/// older resets are forgotten.
pub struct RetiredBlocks {
    has_any: AtomicBool,
    blocks: Mutex<BTreeMap<u64, u64>>,
}

impl Default for RetiredBlocks {
    fn default() -> RetiredBlocks {
        let blocks = Mutex::new(Rank::Outstanding, BTreeMap::new());
        RetiredBlocks { has_any: AtomicBool::new(false), blocks }
    }
}

impl RetiredBlocks {
    /// True when there is none. One load.
    #[inline]
    pub fn is_empty(&self) -> bool {
        !self.has_any.load(Ordering::Acquire)
    }

    /// Adds the blocks of one reset.
    pub fn add(&self, retired: Vec<(u64, u64)>) {
        let mut blocks = self.blocks.lock();
        if blocks.len() + retired.len() > MAX_BLOCKS {
            blocks.clear();
        }
        blocks.extend(retired.into_iter().take(MAX_BLOCKS));
        self.has_any.store(!blocks.is_empty(), Ordering::Release);
    }

    /// The size of the retired block at this address.
    pub fn find(&self, address: u64) -> Option<u64> {
        if self.is_empty() {
            return None;
        }
        self.blocks.lock().get(&address).copied()
    }

    /// Forgets a block that was freed now. False if there is none.
    pub fn remove(&self, address: u64) -> bool {
        if self.is_empty() {
            return false;
        }
        let mut blocks = self.blocks.lock();
        let was_there = blocks.remove(&address).is_some();
        self.has_any.store(!blocks.is_empty(), Ordering::Release);
        was_there
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_retired_block_is_freed_once() {
        let retired = RetiredBlocks::default();
        assert!(retired.is_empty() && !retired.remove(512));
        retired.add(vec![(512, 1024), (4096, 512)]);
        assert_eq!((retired.find(512), retired.find(1024)), (Some(1024), None));
        assert!(retired.remove(512) && !retired.remove(512) && !retired.is_empty());
        assert!(retired.remove(4096) && retired.is_empty());
    }

    #[test]
    fn any_number_of_resets_is_remembered_in_bounded_memory() {
        let retired = RetiredBlocks::default();
        for reset in 0..5 {
            let block = |n: u64| ((reset * (1 << 20) + n) * 512, 512);
            retired.add((0..MAX_BLOCKS as u64 / 2 + 1).map(block).collect());
            assert!(retired.blocks.lock().len() <= MAX_BLOCKS);
            assert_eq!(retired.find(block(7).0), Some(512), "of reset {reset}");
        }
    }
}
