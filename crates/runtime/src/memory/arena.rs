//! One address range with an allocator on it: the memory of a device, or pinned host memory.

use super::budget::Budget;
use super::locate::{AddressBlock, BlockKind};
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
use crate::sync::atomic::AtomicUsize;
use cairn_pool::granule_table::{GranuleTable, OutOfMemory};
use std::ops::Range;

mod physical;
mod segments;
mod stitched;

pub use stitched::page;

/// The most freed blocks in a quarantine.
const MAX_WAITING: usize = 1 << 16;
/// Free bytes that may stay resident before they go back to the operating system.
const MAX_DIRTY: u64 = 256 << 20;
/// Smaller holes are not worth a system call.
const MIN_RELEASE: u64 = 64 << 10;
/// In the tag of a range: huge pages were requested. The bits above count the granules of padding in front.
const HUGE: u32 = 1;
/// In the tag of a range: it is a segment of a pool, whose number is in the other bits.
const POOL: u32 = 1 << 31;

/// How an attempt to allocate ended.
pub enum Attempt {
    /// The address.
    Taken(usize),
    /// The quarantine is over its limit: some of it has to be released first.
    QuarantineFull,
    /// It would fit after quarantined blocks are released.
    Waiting,
    /// It does not fit, even with an empty quarantine.
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
    /// Moves of pages that streams have yet to make.
    pub(super) moves: AtomicUsize,
}

#[derive(Default)]
struct Inner {
    tlsf: Tlsf,
    /// The id of the block that begins at an offset, plus 1.
    index: GranuleTable,
    quarantine: Quarantine,
    live: u64,
    /// Bytes of segments, among `live`.
    pooled: u64,
    /// Bytes of physical memory, among `live`.
    physical: u64,
    peak: u64,
    /// The most that there ever was of each part: blocks, segments, physical memory.
    peaks: [u64; 3],
    /// Bytes freed since holes were last given back to the operating system.
    dirty: u64,
    /// Bytes of physical memory that its owners freed and that queued tasks may still touch.
    unmapping: u64,
}

impl Inner {
    /// Bytes that were freed and are not free yet.
    fn waiting(&self) -> u64 {
        self.quarantine.bytes() + self.unmapping
    }

    /// Live bytes of blocks, of segments, of physical memory.
    fn parts(&self) -> [u64; 3] {
        [self.live - self.pooled - self.physical, self.pooled, self.physical]
    }

    /// Something was taken.
    fn raise_peaks(&mut self) {
        self.peak = self.peak.max(self.live);
        let parts = self.parts();
        self.peaks = std::array::from_fn(|at| self.peaks[at].max(parts[at]));
    }

    fn take(&mut self, bytes: u64, align: u64) -> std::result::Result<Option<Grant>, OutOfMemory> {
        let Some(grant) = self.tlsf.alloc(bytes, align) else { return Ok(None) };
        if let Err(error) = self.index.set(grant.offset, u64::from(grant.id) + 1) {
            self.tlsf.free(grant.id, 0);
            return Err(error);
        }
        Ok(Some(grant))
    }

    fn block(&self, offset: u64) -> Option<Grant> {
        let id = self.index.get(offset).checked_sub(1)?;
        self.tlsf.get(id as u32).filter(|block| block.offset == offset)
    }

    fn free(&mut self, offset: u64) -> Option<u64> {
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

/// What an arena is to be.
#[derive(Clone, Copy, Debug)]
pub struct ArenaSpec {
    /// Which memory it is.
    pub kind: MemoryKind,
    /// The most bytes that may be live.
    pub capacity: u64,
    /// Bytes of freed memory that are kept intact.
    pub quarantine_limit: u64,
    /// This many bytes at the start stay unused: blocks of two arenas whose addresses agree in their lower bits slow
    /// each other down in the cache.
    pub skew: u64,
    /// The program itself cannot touch device memory ([`super::protected`]).
    pub is_protected: bool,
}

impl Arena {
    /// Reserves addresses for it; bytes come with use.
    pub fn new(
        spec: ArenaSpec,
        progress: Arc<Progress>,
        budget: Arc<Budget>,
        spine: Arc<Spine>,
    ) -> Result<Arena> {
        let ArenaSpec { kind, capacity, quarantine_limit, skew, is_protected } = spec;
        let name = kind.to_string();
        let range = capacity.saturating_mul(4).max(1 << 30).next_power_of_two().min(1 << 39);
        let failed = |e| {
            Error::new(
                Code::MemoryAllocation,
                format!("no address range for {name}: {e}; is `ulimit -v` set?"),
            )
        };
        let source = Source::reserve(range, Backing::of(kind, is_protected)).map_err(failed)?;
        let ranges = Ranges::new(source.reserved()).map_err(failed)?;
        let blocks = PoolBlocks::new(source.reserved()).map_err(failed)?;
        let mut inner = Inner::default();
        if skew > 0 {
            source.grow_to(skew).map_err(failed)?;
            inner.tlsf.grow(source.committed());
            inner.take(skew, GRANULE).map_err(|e| failed(std::io::Error::other(e)))?;
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
            moves: AtomicUsize::new(0),
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
    pub fn pool_block(&self, address: usize, segment: &AddressBlock) -> Option<AddressBlock> {
        let BlockKind::Segment { pool } = segment.kind else { return None };
        let segment_start = self.offset(segment.start)?;
        let PoolBlock { start, bytes, held } =
            self.blocks.find(segment_start, self.offset(address)?)?;
        let (start, kind) = (self.address(start), BlockKind::Pool { pool });
        Some(AddressBlock { start, bytes, live: held, huge: false, kind })
    }

    /// The table in which pools record their blocks.
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
            kind: match found.tag & POOL {
                0 => BlockKind::Allocation,
                _ => BlockKind::Segment { pool: found.tag & !POOL },
            },
        }
    }

    /// Bytes of this arena, whoever holds them.
    pub fn extent(&self, address: usize, bytes: usize) -> Option<Extent> {
        Extent::new(&self.source, address, bytes)
    }

    /// Where addresses begin and which bytes are behind them.
    pub(super) fn source(&self) -> &Source {
        &self.source
    }

    /// The figures now.
    pub fn usage(&self) -> Usage {
        let inner = self.inner.lock();
        let free = self.capacity.saturating_sub(inner.live).min(self.budget.available());
        let growth = self.source.reserved() - inner.tlsf.end();
        Usage {
            live: inner.live,
            pooled: inner.pooled,
            waiting: inner.waiting(),
            peak: inner.peak,
            largest_hole: free.min(inner.tlsf.largest_hole().max(growth)),
        }
    }

    /// What the parts of it have, and the most they ever had: blocks, pools, physical memory.
    pub fn parts(&self) -> [(u64, u64); 3] {
        let inner = self.inner.lock();
        let parts = inner.parts();
        std::array::from_fn(|at| (parts[at], inner.peaks[at]))
    }

    /// Live and quarantined bytes.
    pub fn live_and_quarantined(&self) -> (u64, u64) {
        let inner = self.inner.lock();
        (inner.live, inner.waiting())
    }

    /// Bytes an allocation may still get, quarantined ones counted as free. What may leave the quarantine does so first: then it
    /// shows whether other processes hold it.
    pub fn free_bytes(&self) -> u64 {
        self.free_bytes_beside(0)
    }

    /// The same, if so many bytes of the budget were not in use.
    pub fn free_bytes_beside(&self, unused: u64) -> u64 {
        let mut inner = self.inner.lock();
        self.release_quarantined(&mut inner, ReuseCondition::Synchronized, u64::MAX);
        let live = inner.live;
        drop(inner);
        (self.capacity - live).min(self.budget.free() + unused)
    }

    /// Live bytes.
    pub fn live(&self) -> u64 {
        self.inner.lock().live
    }

    /// Tries once, after the quarantine has released what it may. Unless `respect_limit`, a full quarantine is no obstacle.
    pub fn attempt(&self, request: &Request<'_>, respect_limit: bool) -> Attempt {
        let mut inner = self.inner.lock();
        self.release_quarantined(&mut inner, ReuseCondition::Synchronized, u64::MAX);
        let need = request.padded_bytes().and_then(|bytes| bytes.checked_next_multiple_of(GRANULE));
        let Some(need) = need else {
            return Attempt::Exhausted;
        };
        if need > self.capacity - inner.live || need > self.budget.available() {
            return Attempt::Exhausted;
        }
        let full = inner.quarantine.bytes() > self.quarantine_limit
            || inner.quarantine.blocks() > MAX_WAITING;
        if respect_limit && full {
            return Attempt::QuarantineFull;
        }
        if need > (self.capacity - inner.live).saturating_sub(inner.waiting())
            || !self.budget.take(need)
        {
            return Attempt::Waiting;
        }
        let attempt = self.take(&mut inner, request, need);
        match attempt {
            Attempt::Taken(_) => self.emit_usage(&inner),
            _ => self.budget.give(need),
        }
        attempt
    }

    /// Allocates `need` bytes and records the range.
    fn take(&self, inner: &mut Inner, request: &Request<'_>, need: u64) -> Attempt {
        let grant = match self.find_room(inner, need, request.align) {
            Ok(grant) => grant,
            Err(attempt) => return attempt,
        };
        if request.huge != HugePageRequest::No
            && let Err(error) = self.source.advise_huge(grant.offset, grant.size)
            && request.huge == HugePageRequest::Required
        {
            inner.free(grant.offset);
            return Attempt::Refused(format!("the kernel says: {error}"));
        }
        inner.live += grant.size;
        inner.raise_peaks();
        self.budget.correct(need, grant.size);
        let offset = grant.offset + request.front;
        let tag = if request.huge == HugePageRequest::No { 0 } else { HUGE };
        self.ranges.insert(offset, request.bytes, tag | ((request.front / GRANULE) as u32) << 1);
        Attempt::Taken(self.source.base() + offset as usize)
    }

    /// Allocates in a hole, or grows the source.
    fn find_room(
        &self,
        inner: &mut Inner,
        need: u64,
        align: u64,
    ) -> std::result::Result<Grant, Attempt> {
        let no_table = |error| {
            Attempt::Refused(format!(
                "there is no memory for the table of blocks: {error} (ulimit -v, or the machine's memory)"
            ))
        };
        if let Some(grant) = inner.take(need, align).map_err(no_table)? {
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
        inner.take(need, align).map_err(no_table)?.ok_or(Attempt::Waiting)
    }

    /// Frees the live allocation that begins at `offset`: its bytes go to the quarantine. Returns false if another
    /// thread freed it meanwhile.
    pub fn free(&self, offset: u64) -> bool {
        self.start_free(offset).is_some() && self.retire(offset, None)
    }

    /// Starts to free the live allocation that begins at `offset`, without a lock; the caller calls [`Arena::retire`] later.
    /// `None` if there is none, or another thread was first.
    pub fn start_free(&self, offset: u64) -> Option<AddressBlock> {
        self.ranges.start_free(offset, POOL).map(|found| self.address_block(&found))
    }

    /// The same for every live allocation.
    pub fn start_free_all(&self) -> Vec<AddressBlock> {
        let _inner = self.inner.lock();
        let live: Vec<_> = self.ranges.all().filter(|f| f.state == State::Live).collect();
        live.iter().rev().filter_map(|found| self.start_free(found.start)).collect()
    }

    /// Puts an allocation that is live, or that was started to be freed, into the quarantine; its bytes are set to `poison` when they
    /// leave that. False if no such allocation begins at `offset`.
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

    /// Moves an allocation from live to the quarantine.
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
        self.budget.add_waiting(bytes);
    }

    /// Releases quarantined blocks on the weaker condition ([`ReuseCondition::Quiet`]) until the quarantine is down to half
    /// its limit and `need` bytes are released. True if any was.
    pub fn release_quarantine(&self, need: u64) -> bool {
        let mut inner = self.inner.lock();
        let enough = need.max(self.excess(&inner));
        let released = self.release_quarantined(&mut inner, ReuseCondition::Quiet, enough);
        self.emit_usage(&inner);
        released > 0
    }

    /// The same for blocks that no queued task touches, whatever blocks the streams.
    pub fn release_untouched(&self, need: u64, queued: &QueuedMemory) -> bool {
        let mut inner = self.inner.lock();
        let enough = need.max(self.excess(&inner));
        let taken = inner.quarantine.take_untouched(queued, self.source.base(), enough);
        let has_released = !taken.is_empty();
        for entry in taken {
            self.release_entry(&mut inner, entry);
        }
        self.emit_usage(&inner);
        has_released
    }

    /// Bytes to release so that the quarantine is down to half its limit.
    fn excess(&self, inner: &Inner) -> u64 {
        let waiting = inner.quarantine.bytes();
        match inner.quarantine.blocks() > MAX_WAITING {
            true => waiting / 2,
            false => waiting.saturating_sub(self.quarantine_limit / 2),
        }
    }

    /// Releases the oldest quarantined blocks that the condition holds for, until that is `enough`; returns the bytes.
    fn release_quarantined(
        &self,
        inner: &mut MutexGuard<'_, Inner>,
        condition: ReuseCondition,
        enough: u64,
    ) -> u64 {
        let mut released = 0;
        while (released < enough || inner.quarantine.blocks() > MAX_WAITING)
            && let Some(entry) = inner.quarantine.pop(&self.progress, condition)
        {
            released += entry.bytes;
            self.release_entry(inner, entry);
        }
        released
    }

    /// Makes a block that left the quarantine free memory, poisoned if requested.
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
        inner.free(entry.offset);
        self.restore_pages(inner, entry.offset..entry.offset + entry.bytes);
        self.budget.give_waiting(entry.bytes);
        inner.dirty += entry.bytes;
        if inner.dirty > MAX_DIRTY {
            self.release_holes(inner);
        }
    }

    /// Some memory became free: pages there that were exported, and lie in no block any more, are ordinary ones again.
    fn restore_pages(&self, inner: &Inner, freed: Range<u64>) {
        let page = page();
        let pages = freed.start / page * page..freed.end.next_multiple_of(page);
        if !self.source.has_shared(&pages) {
            return;
        }
        let mut holes = inner.tlsf.holes_where(|_| true).map(|(_, hole)| hole);
        if let Some(hole) = holes.find(|hole| hole.contains(&freed.start)) {
            self.source.restore(hole);
        }
    }

    /// Gives the pages of large holes back to the operating system.
    fn release_holes(&self, inner: &mut Inner) {
        for (offset, bytes, _) in inner.tlsf.holes() {
            if bytes >= MIN_RELEASE
                && let Err(error) = self.source.release(offset, bytes)
            {
                log::warn!("{}: free memory stays resident: {error}", self.name);
            }
        }
        inner.dirty = 0;
    }

    /// Ends every allocation: the device is closed. At once if nothing is queued anywhere; else by way of
    /// the quarantine, because queued tasks of other devices may touch it.
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

    /// Releases everything in the quarantine.
    pub fn empty_quarantine(&self) {
        let mut inner = self.inner.lock();
        while let Some(entry) = inner.quarantine.take_oldest() {
            self.release_entry(&mut inner, entry);
        }
        self.emit_usage(&inner);
    }

    /// Emits the figures after a change, under the arena's lock: so sinks get them in order.
    #[inline]
    fn emit_usage(&self, inner: &Inner) {
        let MemoryKind::Device(device) = self.kind else { return };
        let (used, waiting) = (inner.live, inner.waiting());
        let event = || Event::Usage { device, used, quarantined: waiting, capacity: self.capacity };
        self.spine.emit(Kind::Usage, event);
    }
}
