//! A pool over a source without memory, and a reference to check it against: for each granule, whether it is held,
//! and which tasks use it.

use crate::device::{Device, STREAMS};
use cairn_pool::clock::{Clock, Epoch, StreamIndex};
use cairn_pool::{GRANULE, Outcome, Pool, Progress, SegmentSource, StitchRequest, Stitching};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex};

/// The pool and the device of one execution of a model.
pub struct PoolModel {
    /// The streams.
    pub device: Arc<Device>,
    /// The pool.
    pub pool: Pool<Arc<Device>, Granules>,
    /// By granule of memory.
    reference: Mutex<BTreeMap<u64, Granule>>,
    /// Tasks, and what they use: addresses, and the memory that was there.
    queued: Mutex<Vec<(Epoch, Vec<(u64, u64)>)>>,
}

/// A block that a modelled thread holds.
pub struct ModelBlock {
    /// Its first byte.
    pub offset: u64,
    size: u64,
}

#[derive(Default)]
struct Granule {
    held: bool,
    uses: Clock,
}

/// A source that knows which granule of memory is at which address. With `stitches` each of them is a page that can be moved.
#[derive(Default)]
pub struct Granules {
    state: Mutex<SourceState>,
    stitches: bool,
}

#[derive(Default)]
struct SourceState {
    end: u64,
    /// Granules of memory by address.
    granules: BTreeMap<u64, u64>,
    /// Old addresses of granules that were moved.
    old: BTreeMap<u64, u64>,
}

impl SegmentSource for Granules {
    fn extend(&self, bytes: u64) -> Result<Range<u64>, String> {
        let mut state = self.state.lock().unwrap();
        let range = state.end..state.end + bytes;
        state.end = range.end;
        state.granules.extend(range.clone().step_by(GRANULE as usize).map(|at| (at, at)));
        Ok(range)
    }

    fn release(&self, range: Range<u64>) -> Vec<Range<u64>> {
        let mut state = self.state.lock().unwrap();
        for granule in range.clone().step_by(GRANULE as usize) {
            assert!(state.granules.remove(&granule).is_some(), "{granule} was released before");
        }
        vec![range]
    }

    fn is_contiguous(&self) -> bool {
        !self.stitches
    }

    fn stitching(&self) -> Option<Stitching> {
        self.stitches.then_some(Stitching {
            page: GRANULE,
            min_block: 2 * GRANULE,
            min_piece: GRANULE,
            max_pieces: 8,
            keeps_addresses: true,
            extends_end: false,
        })
    }

    fn stitch(&self, request: &StitchRequest<'_>) -> Result<Range<u64>, String> {
        let mut state = self.state.lock().unwrap();
        let start = state.end;
        for address in
            request.pieces.iter().flat_map(|piece| piece.clone().step_by(GRANULE as usize))
        {
            let granule = state.granules.remove(&address).expect("a piece is backed");
            state.old.insert(address, granule);
            let new = state.end;
            state.granules.insert(new, granule);
            state.end += GRANULE;
        }
        drop(state);
        self.extend(request.fresh).map(|range| start..range.end)
    }

    fn vacate(&self, range: Range<u64>) {
        let mut state = self.state.lock().unwrap();
        for address in range.step_by(GRANULE as usize) {
            assert!(state.old.remove(&address).is_some(), "{address} was not moved");
        }
    }
}

impl Granules {
    /// The granule of memory at an address of a block.
    fn granule(&self, address: u64) -> u64 {
        let state = self.state.lock().unwrap();
        *state.granules.get(&address).unwrap_or_else(|| panic!("{address} is not backed"))
    }

    /// What a task finds at an address: memory that is there, or that was moved from there.
    fn at(&self, address: u64) -> Option<u64> {
        let state = self.state.lock().unwrap();
        state.granules.get(&address).or_else(|| state.old.get(&address)).copied()
    }
}

impl ModelBlock {
    fn addresses(&self) -> impl Iterator<Item = u64> + use<> {
        (self.offset..self.offset + self.size).step_by(GRANULE as usize)
    }
}

impl PoolModel {
    /// An empty pool with this budget.
    pub fn new(budget: u64) -> PoolModel {
        let device = Arc::new(Device::default());
        let pool = Pool::new(device.clone(), Granules::default(), budget);
        PoolModel { device, pool, reference: Mutex::default(), queued: Mutex::default() }
    }

    /// The same with memory that can be moved.
    pub fn with_stitching(budget: u64) -> PoolModel {
        let device = Arc::new(Device::default());
        let source = Granules { stitches: true, ..Granules::default() };
        let pool = Pool::new(device.clone(), source, budget);
        PoolModel { device, pool, reference: Mutex::default(), queued: Mutex::default() }
    }

    /// A block for a stream, if there is one now. Panics if a part of it is held already, or the stream
    /// is not ordered after all tasks that use it. An order that is dropped during the call still counts.
    pub fn take(&self, bytes: u64, stream: usize) -> Option<ModelBlock> {
        let before = self.device.state();
        let outcome = self.pool.allocate(bytes, GRANULE, stream as StreamIndex);
        let Outcome::Ready { offset, size } = outcome else {
            assert!(!matches!(outcome, Outcome::Exhausted(_)), "{outcome:?}");
            return None;
        };
        let block = ModelBlock { offset, size };
        let after = self.device.state();
        let mut reference = self.reference.lock().unwrap();
        for offset in block.addresses() {
            let granule = reference.entry(self.pool.source().granule(offset)).or_default();
            assert!(!granule.held, "{offset} is held twice");
            for &epoch in granule.uses.epochs() {
                let may = before.may_use(stream, epoch) || after.may_use(stream, epoch);
                assert!(may, "{offset} on stream {stream} before {epoch:?}");
            }
            granule.held = true;
        }
        Some(block)
    }

    /// Submits a task that uses a block.
    pub fn work(&self, block: &ModelBlock, stream: usize) {
        let epoch: Epoch = self.device.submit(stream);
        let memory = |at| (at, self.pool.source().granule(at));
        let used: Vec<_> = block.addresses().map(memory).collect();
        let mut reference = self.reference.lock().unwrap();
        for (_, granule) in &used {
            reference.get_mut(granule).expect("held").uses.raise(epoch);
        }
        self.queued.lock().unwrap().push((epoch, used));
    }

    /// Panics if memory was taken from a task that has not finished.
    pub fn check_queued(&self) {
        let unfinished = |epoch: &Epoch| self.device.finished(epoch.stream) < epoch.seq;
        let queued: Vec<_> = self.queued.lock().unwrap().clone();
        for (epoch, used) in queued {
            for (address, granule) in used {
                let state = self.pool.source().at(address);
                if unfinished(&epoch) {
                    assert_eq!(state, Some(granule), "{address} was taken from {epoch:?}");
                }
            }
        }
    }

    /// Submits a task on another stream that uses a block, and records the use in the pool.
    pub fn record_work(&self, block: &ModelBlock, stream: usize) {
        self.pool.record_use(block.offset, stream as StreamIndex).unwrap();
        self.work(block, stream);
    }

    /// Frees a block on a stream.
    pub fn free(&self, block: ModelBlock, stream: usize) {
        self.mark_free(&block);
        assert_eq!(self.pool.free(block.offset, stream as StreamIndex), Ok(block.size));
    }

    /// Records in the reference that nobody holds the block any more.
    pub fn mark_free(&self, block: &ModelBlock) {
        let mut reference = self.reference.lock().unwrap();
        for address in block.addresses() {
            let granule = self.pool.source().granule(address);
            reference.get_mut(&granule).expect("held").held = false;
        }
    }

    /// All blocks are freed: lets all tasks finish, and checks that all memory can be given back to the source.
    pub fn end(&self) {
        self.device.finish_all();
        let figures = self.pool.figures();
        assert_eq!((figures.live, figures.requested, figures.blocks), (0, 0, 0), "{figures:?}");
        assert_eq!(figures.waiting, 0, "{figures:?}");
        let figures_of =
            |stream: usize| self.pool.figures_of(stream as StreamIndex).unwrap_or_default();
        assert_eq!((0..STREAMS).map(|stream| figures_of(stream).live).sum::<u64>(), 0);
        assert_eq!(self.pool.trim(0), figures.reserved);
        let source = self.pool.source().state.lock().unwrap();
        assert!(source.granules.is_empty() && source.old.is_empty());
    }
}
