//! The blocks of users' allocators that Cairn holds: which bytes, whose, for which stream.

use super::external::Reason;
use crate::clock::StreamIndex;
use crate::lock::{Mutex, Rank};
use crate::sync::atomic::{AtomicUsize, Ordering};
use std::collections::{BTreeMap, HashMap};

/// A block of a user's allocator that Cairn holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutstandingBlock {
    /// Identifies the allocator as long as a block of it is outstanding.
    pub maker: usize,
    /// The user's object.
    pub object: usize,
    /// The user's handle of the block.
    pub block: usize,
    /// First byte of the block.
    pub address: usize,
    /// Bytes that were asked for, the padding of layers included.
    pub bytes: usize,
    /// The device it is on.
    pub device: u32,
    /// The stream it was taken for.
    pub stream: Option<StreamIndex>,
    /// Why it was taken.
    pub reason: Reason,
}

impl OutstandingBlock {
    fn end(&self) -> usize {
        self.address + self.bytes
    }
}

/// Why a block cannot be added: the user's allocator handed outstanding memory out again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overlap {
    /// The same block is outstanding.
    Block(OutstandingBlock),
    /// A block with some of the same bytes is outstanding.
    Bytes(OutstandingBlock),
}

/// How much memory of one object is outstanding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockCount {
    /// How many blocks.
    pub blocks: usize,
    /// Their bytes.
    pub bytes: usize,
}

/// What one object was asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// What is outstanding.
    pub live: BlockCount,
    /// The most bytes that were outstanding.
    pub peak: usize,
    /// Blocks that were ever added.
    pub taken: u64,
    /// Blocks that were ever removed.
    pub freed: u64,
    /// The device of the last block.
    pub device: u32,
}

/// Above this many objects, the traffic of those that have nothing outstanding is forgotten.
const MAX_IDLE_OBJECTS: usize = 64;

/// All outstanding blocks of users' allocators. No two share a byte, and no block is in it twice.
/// One short lock; no function of the user runs under it.
pub struct Outstanding {
    tables: Mutex<Tables>,
    /// Lookups cost nothing while there are none.
    count: AtomicUsize,
}

#[derive(Default)]
struct Tables {
    by_address: BTreeMap<usize, OutstandingBlock>,
    by_block: HashMap<(usize, usize), usize>,
    traffic: BTreeMap<usize, Traffic>,
}

impl Default for Outstanding {
    fn default() -> Outstanding {
        let tables = Mutex::new(Rank::Outstanding, Tables::default());
        Outstanding { tables, count: AtomicUsize::new(0) }
    }
}

impl Tables {
    fn overlapping(&self, block: &OutstandingBlock) -> Option<OutstandingBlock> {
        let (_, before) = self.by_address.range(..block.end()).next_back()?;
        (before.end() > block.address).then_some(*before)
    }

    fn count_added(&mut self, block: &OutstandingBlock) {
        if self.traffic.len() >= MAX_IDLE_OBJECTS && !self.traffic.contains_key(&block.object) {
            self.traffic.retain(|_, traffic| traffic.live.blocks > 0);
        }
        let traffic = self.traffic.entry(block.object).or_default();
        traffic.live.blocks += 1;
        traffic.live.bytes += block.bytes;
        traffic.peak = traffic.peak.max(traffic.live.bytes);
        traffic.taken += 1;
        traffic.device = block.device;
    }

    fn count_removed(&mut self, block: &OutstandingBlock) {
        let traffic = self.traffic.entry(block.object).or_default();
        traffic.live.blocks = traffic.live.blocks.saturating_sub(1);
        traffic.live.bytes = traffic.live.bytes.saturating_sub(block.bytes);
        traffic.freed += 1;
    }

    fn count_by_object<'a>(
        blocks: impl Iterator<Item = &'a OutstandingBlock>,
    ) -> BTreeMap<usize, BlockCount> {
        let mut counts = BTreeMap::<usize, BlockCount>::new();
        for block in blocks {
            let count = counts.entry(block.object).or_default();
            count.blocks += 1;
            count.bytes += block.bytes;
        }
        counts
    }
}

impl Outstanding {
    /// The allocator's block, if it is outstanding.
    pub fn find(&self, maker: usize, block: usize) -> Option<OutstandingBlock> {
        let tables = self.tables.lock();
        tables.by_address.get(tables.by_block.get(&(maker, block))?).copied()
    }

    /// Adds a block, unless it or its bytes are outstanding already.
    pub fn add(&self, block: OutstandingBlock) -> Result<(), Overlap> {
        let mut tables = self.tables.lock();
        if let Some(address) = tables.by_block.get(&(block.maker, block.block)) {
            return Err(Overlap::Block(tables.by_address[address]));
        }
        if let Some(other) = tables.overlapping(&block) {
            return Err(Overlap::Bytes(other));
        }
        tables.by_block.insert((block.maker, block.block), block.address);
        tables.by_address.insert(block.address, block);
        tables.count_added(&block);
        self.count.store(tables.by_address.len(), Ordering::Release);
        Ok(())
    }

    /// Removes a block that is freed.
    pub fn remove(&self, maker: usize, block: usize) -> Option<OutstandingBlock> {
        let mut tables = self.tables.lock();
        let address = tables.by_block.remove(&(maker, block))?;
        let block = tables.by_address.remove(&address)?;
        tables.count_removed(&block);
        self.count.store(tables.by_address.len(), Ordering::Release);
        Some(block)
    }

    /// The block that contains an address.
    pub fn enclosing(&self, address: usize) -> Option<OutstandingBlock> {
        if self.count.load(Ordering::Acquire) == 0 {
            return None;
        }
        let tables = self.tables.lock();
        let (_, before) = tables.by_address.range(..=address).next_back()?;
        (address < before.end()).then_some(*before)
    }

    /// What is outstanding for a stream, by object.
    pub fn of_stream(&self, stream: StreamIndex) -> BTreeMap<usize, BlockCount> {
        Tables::count_by_object(
            self.tables.lock().by_address.values().filter(|block| block.stream == Some(stream)),
        )
    }

    /// What is outstanding, by object.
    pub fn all(&self) -> BTreeMap<usize, BlockCount> {
        Tables::count_by_object(self.tables.lock().by_address.values())
    }

    /// What each object was asked for, as far as it is remembered.
    pub fn traffic(&self) -> BTreeMap<usize, Traffic> {
        self.tables.lock().traffic.clone()
    }

    /// Removes the blocks of a device whose memory ends, because its addresses may be reused. Returns how much that was, by
    /// object.
    pub fn remove_device(&self, device: u32) -> BTreeMap<usize, BlockCount> {
        let mut tables = self.tables.lock();
        let removed: Vec<OutstandingBlock> =
            tables.by_address.values().filter(|block| block.device == device).copied().collect();
        for block in &removed {
            tables.by_address.remove(&block.address);
            tables.by_block.remove(&(block.maker, block.block));
            tables.count_removed(block);
        }
        self.count.store(tables.by_address.len(), Ordering::Release);
        Tables::count_by_object(removed.iter())
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    fn block(maker: usize, block: usize, address: usize, bytes: usize) -> OutstandingBlock {
        OutstandingBlock {
            maker,
            object: maker,
            block,
            address,
            bytes,
            device: 0,
            stream: Some(3),
            reason: Reason::default(),
        }
    }

    #[test]
    fn no_block_and_no_byte_is_out_twice() {
        let outstanding = Outstanding::default();
        let first = block(1, 7, 100, 50);
        assert_eq!(outstanding.add(first), Ok(()));
        assert_eq!(outstanding.add(block(1, 7, 500, 10)), Err(Overlap::Block(first)));
        for (address, bytes) in [(100, 50), (149, 1), (51, 50), (0, 1000), (120, 5)] {
            let twice = block(2, 7, address, bytes);
            assert_eq!(outstanding.add(twice), Err(Overlap::Bytes(first)), "{address} {bytes}");
        }
        assert_eq!(outstanding.add(block(2, 7, 150, 10)), Ok(()));
        assert_eq!(outstanding.add(block(2, 8, 50, 50)), Ok(()));
        assert_eq!(outstanding.remove(1, 7), Some(first));
        assert_eq!(outstanding.remove(1, 7), None);
        assert_eq!(outstanding.add(block(1, 7, 120, 5)), Ok(()));
    }

    #[test]
    fn a_device_that_ends_takes_its_blocks_with_it() {
        let outstanding = Outstanding::default();
        outstanding.add(block(1, 7, 100, 50)).unwrap();
        outstanding
            .add(OutstandingBlock { device: 1, stream: None, ..block(1, 8, 200, 5) })
            .unwrap();
        assert_eq!(outstanding.of_stream(3)[&1], BlockCount { blocks: 1, bytes: 50 });
        assert_eq!(outstanding.all()[&1], BlockCount { blocks: 2, bytes: 55 });
        assert_eq!(outstanding.remove_device(0)[&1], BlockCount { blocks: 1, bytes: 50 });
        assert!(outstanding.of_stream(3).is_empty() && outstanding.remove_device(0).is_empty());
        assert_eq!(outstanding.find(1, 7), None);
        assert!(outstanding.find(1, 8).is_some());
        let traffic = outstanding.traffic()[&1];
        assert_eq!(traffic.live, BlockCount { blocks: 1, bytes: 5 });
        assert_eq!((traffic.peak, traffic.taken, traffic.freed, traffic.device), (55, 2, 1, 1));
    }
}
