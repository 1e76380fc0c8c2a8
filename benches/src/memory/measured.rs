//! How much memory an allocator has reserved, so that allocators can be compared by it.

use super::c_door::{CDoor, Plugin};
use super::candidate::Candidate;
use super::peers::ort;
use super::pool::{CairnPool, VirtualMemory};
use super::runtime_pool::RuntimePool;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// An allocator on one stream that reports how much it has reserved.
pub trait MeasuredAllocator {
    /// Takes the block with this number.
    fn take(&mut self, block: usize, bytes: u64);

    /// Gives it back.
    fn free(&mut self, block: usize);

    /// The most bytes that were ever reserved.
    fn peak_reserved(&self) -> u64;

    /// Bytes that are reserved now.
    fn reserved(&self) -> u64;
}

/// Keeps the blocks of a [`Candidate`], and asks it what it has reserved, now and at its peak.
pub struct CountedAllocator<C: Candidate> {
    /// The allocator.
    pub allocator: C,
    blocks: HashMap<usize, (C::Block, u64)>,
    reserved: fn(&C) -> (u64, u64),
}

impl<C: Candidate> CountedAllocator<C> {
    fn new(allocator: C, reserved: fn(&C) -> (u64, u64)) -> CountedAllocator<C> {
        CountedAllocator { allocator, blocks: HashMap::new(), reserved }
    }
}

impl CountedAllocator<CairnPool> {
    /// Where the live blocks lie, and how long they are.
    pub fn live_blocks(&self) -> impl Iterator<Item = (u64, u64)> {
        self.blocks.values().copied()
    }

    /// Our pool.
    pub fn pool() -> CountedAllocator<CairnPool> {
        CountedAllocator::pool_over(VirtualMemory::plain())
    }

    /// The same over this memory.
    pub fn pool_over(memory: VirtualMemory) -> CountedAllocator<CairnPool> {
        CountedAllocator::new(CairnPool::over(memory), |pool| {
            let figures = pool.figures();
            (figures.reserved, figures.peak_reserved)
        })
    }
}

impl CountedAllocator<RuntimePool> {
    /// The pool inside the runtime.
    pub fn runtime(pool: RuntimePool) -> CountedAllocator<RuntimePool> {
        CountedAllocator::new(pool, RuntimePool::reserved)
    }
}

impl CountedAllocator<CDoor> {
    /// The standalone pool, which other traces may have used before.
    pub fn standalone(plugin: &Arc<Plugin>) -> CountedAllocator<CDoor> {
        plugin.restart();
        CountedAllocator::new(CDoor(plugin.clone()), |door| door.0.reserved())
    }
}

impl CountedAllocator<ort::Arena> {
    /// ONNX Runtime's, which gives nothing back by itself.
    pub fn ort(arena: ort::Arena) -> CountedAllocator<ort::Arena> {
        CountedAllocator::new(arena, |arena| (arena.reserved(), arena.reserved()))
    }
}

impl<C: Candidate> MeasuredAllocator for CountedAllocator<C> {
    fn take(&mut self, block: usize, bytes: u64) {
        let allocation = self.allocator.allocate(bytes as usize, 0);
        self.blocks.insert(block, (allocation, bytes));
    }

    fn free(&mut self, block: usize) {
        let (allocation, bytes) = self.blocks.remove(&block).expect("a trace frees what it took");
        self.allocator.free(allocation, bytes as usize, 0);
    }

    fn peak_reserved(&self) -> u64 {
        (self.reserved)(&self.allocator).1
    }

    fn reserved(&self) -> u64 {
        (self.reserved)(&self.allocator).0
    }
}

/// The unit of the allocators that only do arithmetic on offsets.
const UNIT: u64 = 512;

/// offset-allocator in a range that is assumed to grow: what it reserved is the highest offset it ever used.
#[cfg(feature = "peers")]
pub struct Offsets {
    inner: offset_allocator::Allocator,
    blocks: HashMap<usize, offset_allocator::Allocation>,
    end: u64,
}

#[cfg(feature = "peers")]
impl Offsets {
    /// An empty range of 64 GiB.
    pub fn new() -> Offsets {
        let inner = offset_allocator::Allocator::new(((64u64 << 30) / UNIT) as u32);
        Offsets { inner, blocks: HashMap::new(), end: 0 }
    }
}

#[cfg(feature = "peers")]
impl MeasuredAllocator for Offsets {
    fn take(&mut self, block: usize, bytes: u64) {
        let units = bytes.div_ceil(UNIT).max(1);
        let allocation = self.inner.allocate(units as u32).expect("the range has room");
        self.end = self.end.max(u64::from(allocation.offset) + units);
        self.blocks.insert(block, allocation);
    }

    fn free(&mut self, block: usize) {
        self.inner.free(self.blocks.remove(&block).expect("a trace frees what it took"));
    }

    fn peak_reserved(&self) -> u64 {
        self.end * UNIT
    }

    fn reserved(&self) -> u64 {
        self.end * UNIT
    }
}

/// The smallest hole that fits, in a range that grows: slow, and about the best that can be done
/// without knowing the future.
#[derive(Default)]
pub struct BestFit {
    by_start: BTreeMap<u64, u64>,
    by_size: BTreeSet<(u64, u64)>,
    blocks: HashMap<usize, (u64, u64)>,
    end: u64,
}

impl BestFit {
    fn remove(&mut self, start: u64, size: u64) {
        self.by_start.remove(&start);
        self.by_size.remove(&(size, start));
    }

    fn insert(&mut self, start: u64, size: u64) {
        self.by_start.insert(start, size);
        self.by_size.insert((size, start));
    }
}

impl MeasuredAllocator for BestFit {
    fn take(&mut self, block: usize, bytes: u64) {
        let size = bytes.max(1).next_multiple_of(UNIT);
        let start = match self.by_size.range((size, 0)..).next().copied() {
            Some((hole, start)) => {
                self.remove(start, hole);
                if hole > size {
                    self.insert(start + size, hole - size);
                }
                start
            }
            None => {
                let last = self.by_start.last_key_value().map(|(&start, &size)| (start, size));
                let start = match last.filter(|(start, size)| start + size == self.end) {
                    Some((start, hole)) => {
                        self.remove(start, hole);
                        start
                    }
                    None => self.end,
                };
                self.end = start + size;
                start
            }
        };
        self.blocks.insert(block, (start, size));
    }

    fn free(&mut self, block: usize) {
        let (mut start, mut size) = self.blocks.remove(&block).expect("a trace frees what it took");
        if let Some((&before, &hole)) = self.by_start.range(..start).next_back()
            && before + hole == start
        {
            self.remove(before, hole);
            (start, size) = (before, size + hole);
        }
        if let Some(&hole) = self.by_start.get(&(start + size)) {
            self.remove(start + size, hole);
            size += hole;
        }
        self.insert(start, size);
    }

    fn peak_reserved(&self) -> u64 {
        self.end
    }

    fn reserved(&self) -> u64 {
        self.end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn best_fit_takes_the_smallest_hole_and_merges() {
        let mut best_fit = BestFit::default();
        for (block, units) in [4, 1, 2, 1, 8].into_iter().enumerate() {
            best_fit.take(block, units * UNIT);
        }
        best_fit.free(0);
        best_fit.free(2);
        best_fit.take(5, 2 * UNIT);
        assert_eq!(best_fit.blocks[&5], (5 * UNIT, 2 * UNIT));
        best_fit.free(1);
        best_fit.free(5);
        assert_eq!(best_fit.by_start.iter().collect::<Vec<_>>(), [(&0, &(7 * UNIT))]);
        best_fit.free(4);
        best_fit.take(6, 9 * UNIT);
        assert_eq!((best_fit.blocks[&6].0, best_fit.peak_reserved()), (8 * UNIT, 17 * UNIT));
    }
}
