//! A pool over a source without memory, and a reference to check it against: for each granule, whether it is held,
//! and which tasks use it.

use crate::device::{Device, STREAMS};
use cairn_pool::clock::{Clock, Epoch, StreamIndex};
use cairn_pool::{GRANULE, Outcome, Pool, SegmentSource};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::{Arc, Mutex};

/// The pool and the device of one execution of a model.
pub struct PoolModel {
    /// The streams.
    pub device: Arc<Device>,
    /// The pool.
    pub pool: Pool<Arc<Device>, Granules>,
    reference: Mutex<BTreeMap<u64, Granule>>,
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

/// A source that knows which granules it gave.
#[derive(Default)]
pub struct Granules(Mutex<SourceState>);

#[derive(Default)]
struct SourceState {
    end: u64,
    granules: BTreeSet<u64>,
}

impl SegmentSource for Granules {
    fn extend(&self, bytes: u64) -> Result<Range<u64>, String> {
        let mut state = self.0.lock().unwrap();
        let range = state.end..state.end + bytes;
        state.end = range.end;
        state.granules.extend(range.clone().step_by(GRANULE as usize));
        Ok(range)
    }

    fn release(&self, range: Range<u64>) -> Vec<Range<u64>> {
        let mut state = self.0.lock().unwrap();
        for granule in range.clone().step_by(GRANULE as usize) {
            assert!(state.granules.remove(&granule), "{granule} was released before");
        }
        vec![range]
    }
}

impl Granules {
    fn has(&self, granule: u64) -> bool {
        self.0.lock().unwrap().granules.contains(&granule)
    }
}

impl ModelBlock {
    fn granules(&self) -> impl Iterator<Item = u64> + use<> {
        (self.offset..self.offset + self.size).step_by(GRANULE as usize)
    }
}

impl PoolModel {
    /// An empty pool with this budget.
    pub fn new(budget: u64) -> PoolModel {
        let device = Arc::new(Device::default());
        let pool = Pool::new(device.clone(), Granules::default(), budget);
        PoolModel { device, pool, reference: Mutex::default() }
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
        for offset in block.granules() {
            assert!(self.pool.source().has(offset), "{offset} is not backed");
            let granule = reference.entry(offset).or_default();
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
        let mut reference = self.reference.lock().unwrap();
        for granule in block.granules() {
            reference.get_mut(&granule).expect("held").uses.raise(epoch);
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
        for granule in block.granules() {
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
        assert!(self.pool.source().0.lock().unwrap().granules.is_empty());
    }
}
