//! One address range with an allocator on it: the memory of a device, or pinned host memory.

use super::budget::Budget;
use super::locate::{AddressBlock, Part};
use super::pool_blocks::{PoolBlock, PoolBlocks};
use super::quarantine::{Entry, Quarantine, ReuseCondition};
use super::ranges::{Allocation, Ranges, State};
use super::raw::Extent;
use super::request::{HugePageRequest, Request};
use super::source::{Backing, STEP, Source};
use super::tlsf::{GRANULE, Grant, Tlsf};
use crate::clock::{Clock, Progress, QueuedMemory};
use crate::error::{Code, Error, Result};
use crate::host::{HostThread, Ticket};
use crate::lock::{Mutex, MutexGuard, Rank};
use crate::record::event::MemoryKind;
use crate::record::{Event, Kind, Spine};
use crate::sync::Arc;
use cairn_pool::granule_table::GranuleTable;
use std::ops::Range;

/// Freed blocks that may wait in a quarantine, however small they are.
const MAX_WAITING: usize = 1 << 16;
/// Free bytes that may stay resident before they go back to the operating system.
const DIRTY: u64 = 256 << 20;
/// Smaller holes are not worth a system call.
const WORTH_RELEASING: u64 = 64 << 10;
/// In the tag of a range: made with huge pages in mind. The bits above count the granules in front.
const HUGE: u32 = 1;
/// In the tag of a range: it is the memory of the pool whose number the other bits are.
const POOL: u32 = 1 << 31;

/// How an attempt to allocate ended.
pub enum Attempt {
    /// The address.
    Taken(usize),
    /// The quarantine holds more than it should: some of it has to leave first.
    QuarantineFull,
    /// It would fit if quarantined blocks left.
    Waiting,
    /// It does not fit, whatever leaves.
    Exhausted,
    /// The kernel refused; the message says why.
    Refused(String),
    /// The pool that was asked may take no more than this.
    OverLimit(u64),
}

/// Memory with one base address. Threads may call anything at any time; lookups take no lock.
pub struct Arena {
    /// Whose memory it is.
    pub kind: MemoryKind,
    /// What the user calls it: "device 0", "pinned host memory".
    pub name: String,
    /// The most bytes that may be live.
    pub capacity: u64,
    source: Arc<Source>,
    ranges: Ranges,
    blocks: Arc<PoolBlocks>,
    quarantine_limit: u64,
    progress: Arc<Progress>,
    budget: Arc<Budget>,
    spine: Arc<Spine>,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    tlsf: Tlsf,
    /// The id of the block that begins at an offset, plus 1.
    index: GranuleTable,
    quarantine: Quarantine,
    live: u64,
    pooled: u64,
    peak: u64,
    dirty: u64,
}

impl Inner {
    fn take(&mut self, bytes: u64, align: u64) -> Option<Grant> {
        let grant = self.tlsf.alloc(bytes, align)?;
        self.index.set(grant.offset, u64::from(grant.id) + 1);
        Some(grant)
    }

    fn block(&self, offset: u64) -> Option<Grant> {
        let id = self.index.get(offset).checked_sub(1)?;
        self.tlsf.get(id as u32).filter(|block| block.offset == offset)
    }

    fn give(&mut self, offset: u64) -> Option<u64> {
        self.tlsf.free(self.block(offset)?.id, 0)
    }
}

/// Figures of an arena.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Bytes in live allocations, and those that pools have.
    pub live: u64,
    /// Bytes that pools have.
    pub pooled: u64,
    /// Freed bytes that wait in the quarantine.
    pub waiting: u64,
    /// The most that was ever live.
    pub peak: u64,
    /// The most that can be allocated in one piece.
    pub largest_hole: u64,
}

impl Arena {
    /// Reserves addresses for it; bytes come with use. The first `skew` bytes stay unused: blocks of
    /// two arenas whose addresses agree in their lower bits slow each other down in the cache.
    pub fn new(
        kind: MemoryKind,
        capacity: u64,
        quarantine_limit: u64,
        skew: u64,
        progress: Arc<Progress>,
        budget: Arc<Budget>,
        spine: Arc<Spine>,
    ) -> Result<Arena> {
        let name = kind.to_string();
        let range = capacity.saturating_mul(4).max(1 << 30).next_power_of_two().min(1 << 39);
        let failed = |e| {
            Error::new(
                Code::MemoryAllocation,
                format!("no address range for {name}: {e}; is `ulimit -v` set?"),
            )
        };
        let source = Source::reserve(range, Backing::of(kind)).map_err(failed)?;
        let ranges = Ranges::new(source.reserved()).map_err(failed)?;
        let blocks = PoolBlocks::new(source.reserved()).map_err(failed)?;
        let mut inner = Inner::default();
        if skew > 0 {
            source.grow_to(skew).map_err(failed)?;
            inner.tlsf.grow(source.committed());
            inner.take(skew, GRANULE);
        }
        // A range cut short by `ulimit -v` bounds what can be had; half of it goes to alignment.
        let capacity = capacity.min((source.reserved() / 2) & !(STEP - 1));
        Ok(Arena {
            kind,
            name,
            capacity,
            source: Arc::new(source),
            ranges,
            blocks: Arc::new(blocks),
            quarantine_limit,
            progress,
            budget,
            spine,
            inner: Mutex::new(Rank::Arena, inner),
        })
    }

    /// The offset of an address in this arena.
    pub fn offset(&self, address: usize) -> Option<u64> {
        let offset = (address as u64).checked_sub(self.source.base() as u64)?;
        (offset < self.source.reserved()).then_some(offset)
    }

    /// The allocation that contains an offset, live or quarantined; inside a pool, all of the pool's
    /// memory around it: blocks there change hands before the tasks of their last owner have run.
    pub fn find(&self, offset: u64) -> Option<AddressBlock> {
        self.ranges.find(offset).map(|found| self.address_block(&found))
    }

    /// The number of the pool that has the memory at an offset.
    pub fn pool_at(&self, offset: u64) -> Option<u32> {
        let found = self.ranges.find(offset)?;
        (found.tag & POOL != 0).then_some(found.tag & !POOL)
    }

    /// The block of a pool around an address, if what [`Arena::find`] found there is a pool's memory.
    pub fn pool_block(&self, address: usize, around: &AddressBlock) -> Option<AddressBlock> {
        let Part::Segment { pool } = around.part else { return None };
        let from = self.offset(around.start)?;
        let PoolBlock { start, bytes, held } = self.blocks.find(from, self.offset(address)?)?;
        let (start, part) = (self.address(start), Part::Pool { pool });
        Some(AddressBlock { start, bytes, live: held, huge: false, part })
    }

    /// Where pools note their blocks.
    pub(super) fn blocks(&self) -> &Arc<PoolBlocks> {
        &self.blocks
    }

    /// The address at an offset.
    pub fn address(&self, offset: u64) -> usize {
        self.source.base() + offset as usize
    }

    fn address_block(&self, found: &Allocation) -> AddressBlock {
        AddressBlock {
            start: self.source.base() + found.start as usize,
            bytes: found.size,
            live: found.state == State::Live,
            huge: found.tag & (POOL | HUGE) == HUGE,
            part: match found.tag & POOL {
                0 => Part::Whole,
                _ => Part::Segment { pool: found.tag & !POOL },
            },
        }
    }

    /// Bytes of this arena, whoever holds them.
    pub fn extent(&self, address: usize, bytes: usize) -> Option<Extent> {
        Extent::new(&self.source, address, bytes)
    }

    /// The figures now.
    pub fn usage(&self) -> Usage {
        let inner = self.inner.lock();
        let free = self.capacity.saturating_sub(inner.live).min(self.budget.available());
        let growth = self.source.reserved() - inner.tlsf.end();
        Usage {
            live: inner.live,
            pooled: inner.pooled,
            waiting: inner.quarantine.bytes(),
            peak: inner.peak,
            largest_hole: free.min(inner.tlsf.largest_hole().max(growth)),
        }
    }

    /// Live and waiting bytes.
    pub fn held(&self) -> (u64, u64) {
        let inner = self.inner.lock();
        (inner.live, inner.quarantine.bytes())
    }

    /// Bytes an allocation may still get, quarantined ones counted as free.
    pub fn free_bytes(&self) -> u64 {
        let live = self.inner.lock().live;
        (self.capacity - live).min(self.budget.free())
    }

    /// Tries once, after letting go what is proven free. `patient` false ignores a full quarantine.
    pub fn attempt(&self, request: &Request<'_>, patient: bool) -> Attempt {
        let mut inner = self.inner.lock();
        self.release_quarantined(&mut inner, ReuseCondition::Synchronized, u64::MAX);
        let whole = request.whole().and_then(|whole| whole.checked_next_multiple_of(GRANULE));
        let Some(need) = whole else {
            return Attempt::Exhausted;
        };
        if need > self.capacity - inner.live || need > self.budget.available() {
            return Attempt::Exhausted;
        }
        let full = inner.quarantine.bytes() > self.quarantine_limit
            || inner.quarantine.blocks() > MAX_WAITING;
        if patient && full {
            return Attempt::QuarantineFull;
        }
        if need > self.capacity - inner.live - inner.quarantine.bytes() || !self.budget.take(need) {
            return Attempt::Waiting;
        }
        let attempt = self.take(&mut inner, request, need);
        match attempt {
            Attempt::Taken(_) => self.emit_usage(&inner),
            _ => self.budget.give(need),
        }
        attempt
    }

    fn take(&self, inner: &mut Inner, request: &Request<'_>, need: u64) -> Attempt {
        let grant = match self.find_room(inner, need, request.align) {
            Ok(grant) => grant,
            Err(attempt) => return attempt,
        };
        if request.huge != HugePageRequest::No
            && let Err(error) = self.source.advise_huge(grant.offset, grant.size)
            && request.huge == HugePageRequest::Required
        {
            inner.give(grant.offset);
            return Attempt::Refused(format!("the kernel says: {error}"));
        }
        inner.live += grant.size;
        inner.peak = inner.peak.max(inner.live);
        self.budget.correct(need, grant.size);
        let offset = grant.offset + request.front;
        let tag = if request.huge == HugePageRequest::No { 0 } else { HUGE };
        self.ranges.insert(offset, request.bytes, tag | ((request.front / GRANULE) as u32) << 1);
        Attempt::Taken(self.source.base() + offset as usize)
    }

    fn find_room(
        &self,
        inner: &mut Inner,
        need: u64,
        align: u64,
    ) -> std::result::Result<Grant, Attempt> {
        if let Some(grant) = inner.take(need, align) {
            return Ok(grant);
        }
        let growth = inner.tlsf.needed_growth(need, align);
        let end = inner.tlsf.end().checked_add(growth).filter(|&e| e <= self.source.reserved());
        let end = end.ok_or(Attempt::Waiting)?;
        self.source
            .grow_to(end)
            .map_err(|error| Attempt::Refused(format!("the kernel says: {error}")))?;
        let committed = self.source.committed().min(self.source.reserved());
        inner.tlsf.grow(committed.max(end) - inner.tlsf.end());
        inner.take(need, align).ok_or(Attempt::Waiting)
    }

    /// Makes a segment of whole granules for a pool. It counts as live until [`Arena::end_segment`].
    pub fn segment(&self, bytes: u64, pool: u32) -> std::result::Result<Range<u64>, Attempt> {
        let mut inner = self.inner.lock();
        self.release_quarantined(&mut inner, ReuseCondition::Synchronized, u64::MAX);
        if bytes > self.capacity - inner.live || bytes > self.budget.available() {
            return Err(Attempt::Exhausted);
        }
        let free = self.capacity - inner.live - inner.quarantine.bytes();
        if bytes > free || !self.budget.take(bytes) {
            return Err(Attempt::Waiting);
        }
        let grant = match self.find_room(&mut inner, bytes, GRANULE) {
            Ok(grant) => grant,
            Err(attempt) => {
                self.budget.give(bytes);
                return Err(attempt);
            }
        };
        self.budget.correct(bytes, grant.size);
        inner.live += grant.size;
        inner.pooled += grant.size;
        inner.peak = inner.peak.max(inner.live);
        let range = inner.tlsf.take_out(grant.id).expect("granted just now");
        self.enter_segment(range.clone(), POOL | pool);
        self.emit_usage(&inner);
        Ok(range)
    }

    /// Takes back a part of the segments of a pool that is nobody's now; its pages go back to the machine.
    pub fn end_segment(&self, range: Range<u64>) {
        let mut inner = self.inner.lock();
        self.leave_segment(&range);
        self.put_back(&mut inner, range);
        self.emit_usage(&inner);
    }

    /// All segments of a pool. Neighbours are one.
    pub fn segments_of(&self, pool: u32) -> Vec<Range<u64>> {
        let _serial = self.inner.lock();
        let own = self.ranges.all().filter(|found| found.tag == POOL | pool);
        own.map(|found| found.start..found.start + found.size).collect()
    }

    /// Notes a segment. Readers meet the memory of its neighbours at every moment.
    fn enter_segment(&self, range: Range<u64>, tag: u32) {
        let own = |found: &Allocation| found.tag == tag;
        let before = range.start.checked_sub(1).and_then(|at| self.ranges.find(at)).filter(own);
        let after = self.ranges.find(range.end).filter(own);
        let end = after.map_or(range.end, |found| found.start + found.size);
        match before {
            Some(found) => _ = self.ranges.resize(found.start, end - found.start),
            None => self.ranges.insert(range.start, end - range.start, tag),
        }
        if let Some(found) = after {
            self.ranges.remove(found.start);
        }
    }

    /// Forgets a part of a segment. Readers meet the rest of it at every moment.
    fn leave_segment(&self, range: &Range<u64>) {
        let Some(found) = self.ranges.find(range.start).filter(|f| f.tag & POOL != 0) else {
            return;
        };
        let end = found.start + found.size;
        match (found.start < range.start, range.end < end) {
            (false, false) => _ = self.ranges.remove(found.start),
            (false, true) => _ = self.ranges.cut_front(found.start, range.end - range.start),
            (true, rest) => {
                if rest {
                    self.ranges.insert(range.end, end - range.end, found.tag);
                }
                self.ranges.resize(found.start, range.start - found.start);
            }
        }
        self.blocks.clear(range.clone());
    }

    fn put_back(&self, inner: &mut Inner, range: Range<u64>) {
        let bytes = range.end - range.start;
        if let Err(error) = self.source.release(range.start, bytes) {
            log::warn!("{}: free memory stays resident: {error}", self.name);
        }
        inner.live -= bytes;
        inner.pooled -= bytes;
        inner.tlsf.add(range, 0);
        self.budget.give(bytes);
    }

    /// Starts the free of the live allocation that begins at `offset`; its bytes go to the quarantine. Returns false
    /// if somebody else ended it meanwhile.
    pub fn free(&self, offset: u64) -> bool {
        self.start_free(offset).is_some() && self.retire(offset, None)
    }

    /// Starts the free of the live allocation that begins at `offset` for its owner, without a lock; whoever gets it sees to it that
    /// [`Arena::retire`] follows. `None` if there is none, or somebody else was first.
    pub fn start_free(&self, offset: u64) -> Option<AddressBlock> {
        self.ranges.start_free(offset, POOL).map(|found| self.address_block(&found))
    }

    /// The same for every live allocation.
    pub fn start_free_all(&self) -> Vec<AddressBlock> {
        let _serial = self.inner.lock();
        let live: Vec<_> = self.ranges.all().filter(|f| f.state == State::Live).collect();
        live.iter().rev().filter_map(|found| self.start_free(found.start)).collect()
    }

    /// An allocation whose free has started goes to the quarantine, with the wish that its bytes become `poison` when they leave that; so
    /// does one that is still live. False if nothing held begins at `offset`.
    pub fn retire(&self, offset: u64, poison: Option<u8>) -> bool {
        let tails = self.progress.tails();
        let ticket = HostThread::current().ticket();
        let mut inner = self.inner.lock();
        let Some(found) = self.ranges.retire(offset, POOL) else { return false };
        self.quarantine(&mut inner, &found, poison, tails, ticket);
        self.release_quarantined(&mut inner, ReuseCondition::Synchronized, u64::MAX);
        self.emit_usage(&inner);
        true
    }

    fn quarantine(
        &self,
        inner: &mut Inner,
        found: &Allocation,
        poison: Option<u8>,
        tails: Clock,
        ticket: Ticket,
    ) {
        let front = u64::from(found.tag >> 1) * GRANULE;
        let offset = found.start - front;
        let bytes = inner.block(offset).expect("a live range is a live block").size;
        inner.live -= bytes;
        inner.quarantine.push(Entry { offset, front, bytes, poison, tails, ticket });
        self.budget.wait(bytes);
    }

    /// Lets quarantined blocks go on the weaker condition until half of the limit, and `need` bytes, are
    /// there. True if anything left.
    pub fn release_quarantine(&self, need: u64) -> bool {
        let mut inner = self.inner.lock();
        let enough = need.max(self.excess(&inner));
        let left = self.release_quarantined(&mut inner, ReuseCondition::Quiet, enough);
        self.emit_usage(&inner);
        left > 0
    }

    /// The same for blocks that no queued task touches, whatever holds the streams up.
    pub fn release_untouched(&self, need: u64, held: &QueuedMemory) -> bool {
        let mut inner = self.inner.lock();
        let enough = need.max(self.excess(&inner));
        let taken = inner.quarantine.take_untouched(held, self.source.base(), enough);
        let any = !taken.is_empty();
        for entry in taken {
            self.release_entry(&mut inner, entry);
        }
        self.emit_usage(&inner);
        any
    }

    fn excess(&self, inner: &Inner) -> u64 {
        let waiting = inner.quarantine.bytes();
        match inner.quarantine.blocks() > MAX_WAITING {
            true => waiting / 2,
            false => waiting.saturating_sub(self.quarantine_limit / 2),
        }
    }

    fn release_quarantined(
        &self,
        inner: &mut MutexGuard<'_, Inner>,
        condition: ReuseCondition,
        enough: u64,
    ) -> u64 {
        let mut left = 0;
        while (left < enough || inner.quarantine.blocks() > MAX_WAITING)
            && let Some(entry) = inner.quarantine.pop(&self.progress, condition)
        {
            left += entry.bytes;
            self.release_entry(inner, entry);
        }
        left
    }

    fn release_entry(&self, inner: &mut Inner, entry: Entry) {
        let found = self.ranges.remove(entry.offset + entry.front);
        if let (Some(value), Some(found)) = (entry.poison, found) {
            let address = self.source.base() + found.start as usize;
            let extent = self.extent(address, found.size as usize);
            extent.expect("a block is in committed memory").fill(value);
        }
        if let Some(found) = found {
            let (address, bytes) = (self.address(found.start), found.size);
            let kind = self.kind;
            self.spine.emit(Kind::Reusable, || Event::Reusable { kind, address, bytes });
        }
        inner.give(entry.offset);
        self.budget.give_waiting(entry.bytes);
        inner.dirty += entry.bytes;
        if inner.dirty > DIRTY {
            self.release_holes(inner);
        }
    }

    fn release_holes(&self, inner: &mut Inner) {
        for (offset, bytes, _) in inner.tlsf.holes() {
            if bytes >= WORTH_RELEASING
                && let Err(error) = self.source.release(offset, bytes)
            {
                log::warn!("{}: free memory stays resident: {error}", self.name);
            }
        }
        inner.dirty = 0;
    }

    /// Ends every allocation: the device is closed. At once if nothing is queued anywhere; what other
    /// devices still have queued may reach into it, so then it goes by way of the quarantine.
    /// Returns how many were live.
    pub fn clear(&self) -> usize {
        let tails = self.progress.tails();
        let ticket = HostThread::current().ticket();
        let mut inner = self.inner.lock();
        let live: Vec<_> = self.ranges.all().filter(|f| f.state == State::Live).collect();
        let live: Vec<_> =
            live.iter().rev().filter_map(|f| self.ranges.retire(f.start, POOL)).collect();
        for found in &live {
            self.quarantine(&mut inner, found, None, tails.clone(), ticket);
        }
        if tails.epochs().is_empty() {
            while let Some(entry) = inner.quarantine.take_oldest() {
                self.release_entry(&mut inner, entry);
            }
            self.release_holes(&mut inner);
        }
        self.emit_usage(&inner);
        live.len()
    }

    /// Lets everything in the quarantine go.
    pub fn empty_quarantine(&self) {
        let mut inner = self.inner.lock();
        while let Some(entry) = inner.quarantine.take_oldest() {
            self.release_entry(&mut inner, entry);
        }
        self.emit_usage(&inner);
    }

    /// The figures changed. Emitted under the arena's lock: listeners see them in the order in which they held.
    #[inline]
    fn emit_usage(&self, inner: &Inner) {
        let MemoryKind::Device(device) = self.kind else { return };
        let (used, waiting) = (inner.live, inner.quarantine.bytes());
        let event = || Event::Usage { device, used, quarantined: waiting, capacity: self.capacity };
        self.spine.emit(Kind::Usage, event);
    }
}
