//! `stats`: counts live bytes, their peak, allocations and frees, in all, by allocator and by purpose.

use super::Layer;
use crate::error::Result;
use crate::lock::{Mutex, Rank};
use crate::memory::allocator::{Allocator, RawBlock};
use crate::memory::purpose::Purpose;
use crate::memory::request::Request;
use crate::stream::Stream;
use crate::sync::Arc;
use std::collections::{BTreeMap, HashMap};
use std::fmt;

/// Figures of one allocator, or of several together. Bytes are the user's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Live bytes.
    pub live: u64,
    /// The most that were ever live at a time.
    pub peak: u64,
    /// Bytes of all blocks ever allocated.
    pub requested: u64,
    /// Live blocks.
    pub blocks: u64,
    /// Blocks ever allocated.
    pub takes: u64,
    /// Blocks ever freed.
    pub gives: u64,
    /// Requests that failed.
    pub failures: u64,
    /// The largest block ever allocated.
    pub largest: u64,
}

impl Figures {
    fn count_allocation(&mut self, bytes: u64) {
        self.live += bytes;
        self.blocks += 1;
        self.takes += 1;
        self.peak = self.peak.max(self.live);
        self.largest = self.largest.max(bytes);
        self.requested = self.requested.saturating_add(bytes);
    }

    fn count_free(&mut self, bytes: u64) {
        self.live = self.live.saturating_sub(bytes);
        self.blocks = self.blocks.saturating_sub(1);
        self.gives += 1;
    }

    /// Adds the figures of another allocator. Their peaks need not have been at the same time: the higher
    /// one stays.
    pub(super) fn add(&mut self, other: &Figures) {
        self.live += other.live;
        self.peak = self.peak.max(other.peak);
        self.requested = self.requested.saturating_add(other.requested);
        self.blocks += other.blocks;
        self.takes += other.takes;
        self.gives += other.gives;
        self.failures += other.failures;
        self.largest = self.largest.max(other.largest);
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "live {} bytes, blocks {}, peak {}, largest {}, taken {} ({} bytes), given back {}, failed {}",
            self.live,
            self.blocks,
            self.peak,
            self.largest,
            self.takes,
            self.requested,
            self.gives,
            self.failures
        )
    }
}

/// What a [`Stats`] has counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// All allocators together; its peak is of their sum.
    pub total: Figures,
    /// Each allocator by name.
    pub allocators: BTreeMap<String, Figures>,
    /// Each purpose.
    pub purposes: BTreeMap<Purpose, Figures>,
}

impl Statistics {
    fn count(&mut self, allocator: String, purpose: Purpose, change: impl Fn(&mut Figures)) {
        change(&mut self.total);
        change(self.allocators.entry(allocator).or_default());
        change(self.purposes.entry(purpose).or_default());
    }

    /// Adds the total and the purposes of another layer; allocators stay apart.
    pub(super) fn add(&mut self, other: &Statistics) {
        self.total.add(&other.total);
        for (purpose, figures) in &other.purposes {
            self.purposes.entry(*purpose).or_default().add(figures);
        }
    }
}

/// Counts the blocks that pass, exactly: one short lock a call, and look-ups by name and address.
pub struct Stats {
    counted: Mutex<Counted>,
}

#[derive(Default)]
struct Counted {
    statistics: Statistics,
    /// What live blocks are for, by address, if not for the program itself.
    purposes: HashMap<usize, Purpose>,
}

impl Default for Stats {
    fn default() -> Stats {
        Stats { counted: Mutex::new(Rank::Layer, Counted::default()) }
    }
}

impl Layer for Stats {
    fn name(&self) -> &'static str {
        "stats"
    }

    fn allocate(&self, request: &Request<'_>, below: &dyn Allocator) -> Result<RawBlock> {
        let (block, allocator, purpose) = (below.allocate(request), below.name(), request.purpose);
        let Counted { statistics, purposes } = &mut *self.counted.lock();
        statistics.count(allocator, purpose, |figures| match &block {
            Ok(block) => figures.count_allocation(block.bytes),
            Err(_) => figures.failures += 1,
        });
        if let Ok(block) = &block {
            // A block whose device was reset may have left its address here.
            match purpose {
                Purpose::User => purposes.remove(&block.address),
                _ => purposes.insert(block.address, purpose),
            };
        }
        block
    }

    fn free(
        &self,
        block: RawBlock,
        stream: Option<&Arc<Stream>>,
        below: &dyn Allocator,
    ) -> Result<()> {
        let allocator = below.name();
        {
            let Counted { statistics, purposes } = &mut *self.counted.lock();
            let purpose = purposes.remove(&block.address).unwrap_or_default();
            statistics.count(allocator, purpose, |figures| figures.count_free(block.bytes));
        }
        below.free(block, stream)
    }

    fn statistics(&self) -> Option<Statistics> {
        Some(self.counted.lock().statistics.clone())
    }
}
