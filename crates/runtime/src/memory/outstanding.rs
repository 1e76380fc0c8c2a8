//! The blocks of users' allocators that are out: which bytes, whose, for which stream.

use super::external::Reason;
use crate::clock::StreamIndex;
use crate::lock::{Mutex, Rank};
use crate::sync::atomic::{AtomicUsize, Ordering};
use std::collections::{BTreeMap, HashMap};

/// A block of a user's allocator that Cairn holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutstandingBlock {
    /// Names the allocator, the same for its object and callbacks as long as a block of it is out.
    pub maker: usize,
    /// The user's object.
    pub object: usize,
    /// The user's word for the block.
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

/// Why a block cannot be taken: outstanding memory is handed out again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overlap {
    /// The same block is out.
    Block(OutstandingBlock),
    /// A block with some of the same bytes is out.
    Bytes(OutstandingBlock),
}

/// How much of one object's memory is out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockCount {
    /// How many blocks.
    pub blocks: usize,
    /// Their bytes.
    pub bytes: usize,
}

/// All blocks of users' allocators that are out. No two share a byte, and an allocator has no block
/// out twice. One short lock; nothing of the user runs under it.
pub struct Outstanding {
    tables: Mutex<Tables>,
    /// Lookups cost nothing while there are none.
    count: AtomicUsize,
}

#[derive(Default)]
struct Tables {
    by_address: BTreeMap<usize, OutstandingBlock>,
    by_block: HashMap<(usize, usize), usize>,
}

impl Default for Outstanding {
    fn default() -> Outstanding {
        let tables = Mutex::new(Rank::Outstanding, Tables::default());
        Outstanding { tables, count: AtomicUsize::new(0) }
    }
}

impl Tables {
    fn overlapping(&self, out: &OutstandingBlock) -> Option<OutstandingBlock> {
        let (_, before) = self.by_address.range(..out.end()).next_back()?;
        (before.end() > out.address).then_some(*before)
    }

    fn held<'a>(outs: impl Iterator<Item = &'a OutstandingBlock>) -> BTreeMap<usize, BlockCount> {
        let mut held = BTreeMap::<usize, BlockCount>::new();
        for out in outs {
            let of = held.entry(out.object).or_default();
            of.blocks += 1;
            of.bytes += out.bytes;
        }
        held
    }
}

impl Outstanding {
    /// The allocator's block, if it is out.
    pub fn find(&self, maker: usize, block: usize) -> Option<OutstandingBlock> {
        let tables = self.tables.lock();
        tables.by_address.get(tables.by_block.get(&(maker, block))?).copied()
    }

    /// Notes a block as out, unless that cannot be.
    pub fn add(&self, out: OutstandingBlock) -> Result<(), Overlap> {
        let mut tables = self.tables.lock();
        if let Some(address) = tables.by_block.get(&(out.maker, out.block)) {
            return Err(Overlap::Block(tables.by_address[address]));
        }
        if let Some(other) = tables.overlapping(&out) {
            return Err(Overlap::Bytes(other));
        }
        tables.by_block.insert((out.maker, out.block), out.address);
        tables.by_address.insert(out.address, out);
        self.count.store(tables.by_address.len(), Ordering::Release);
        Ok(())
    }

    /// The allocator's block goes back.
    pub fn remove(&self, maker: usize, block: usize) -> Option<OutstandingBlock> {
        let mut tables = self.tables.lock();
        let address = tables.by_block.remove(&(maker, block))?;
        let out = tables.by_address.remove(&address);
        self.count.store(tables.by_address.len(), Ordering::Release);
        out
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

    /// What is out for a stream, by object.
    pub fn of_stream(&self, stream: StreamIndex) -> BTreeMap<usize, BlockCount> {
        Tables::held(
            self.tables.lock().by_address.values().filter(|out| out.stream == Some(stream)),
        )
    }

    /// What is out, by object.
    pub fn all(&self) -> BTreeMap<usize, BlockCount> {
        Tables::held(self.tables.lock().by_address.values())
    }

    /// The memory of a device ends: what is out there is memory no more, and others may have its
    /// addresses. Tells how much that was, by object.
    pub fn write_off(&self, device: u32) -> BTreeMap<usize, BlockCount> {
        let mut tables = self.tables.lock();
        let gone: Vec<OutstandingBlock> =
            tables.by_address.values().filter(|out| out.device == device).copied().collect();
        for out in &gone {
            tables.by_address.remove(&out.address);
            tables.by_block.remove(&(out.maker, out.block));
        }
        self.count.store(tables.by_address.len(), Ordering::Release);
        Tables::held(gone.iter())
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    fn out(maker: usize, block: usize, address: usize, bytes: usize) -> OutstandingBlock {
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
        let first = out(1, 7, 100, 50);
        assert_eq!(outstanding.add(first), Ok(()));
        assert_eq!(outstanding.add(out(1, 7, 500, 10)), Err(Overlap::Block(first)));
        for (address, bytes) in [(100, 50), (149, 1), (51, 50), (0, 1000), (120, 5)] {
            let twice = out(2, 7, address, bytes);
            assert_eq!(outstanding.add(twice), Err(Overlap::Bytes(first)), "{address} {bytes}");
        }
        assert_eq!(outstanding.add(out(2, 7, 150, 10)), Ok(()));
        assert_eq!(outstanding.add(out(2, 8, 50, 50)), Ok(()));
        assert_eq!(outstanding.remove(1, 7), Some(first));
        assert_eq!(outstanding.remove(1, 7), None);
        assert_eq!(outstanding.add(out(1, 7, 120, 5)), Ok(()));
    }

    #[test]
    fn a_device_that_ends_takes_its_blocks_with_it() {
        let outstanding = Outstanding::default();
        outstanding.add(out(1, 7, 100, 50)).unwrap();
        outstanding.add(OutstandingBlock { device: 1, stream: None, ..out(1, 8, 200, 5) }).unwrap();
        assert_eq!(outstanding.of_stream(3)[&1], BlockCount { blocks: 1, bytes: 50 });
        assert_eq!(outstanding.all()[&1], BlockCount { blocks: 2, bytes: 55 });
        assert_eq!(outstanding.write_off(0)[&1], BlockCount { blocks: 1, bytes: 50 });
        assert!(outstanding.of_stream(3).is_empty() && outstanding.write_off(0).is_empty());
        assert_eq!(outstanding.find(1, 7), None);
        assert!(outstanding.find(1, 8).is_some());
    }
}
