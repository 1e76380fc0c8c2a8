//! The part of a pool for one stream: blocks that are held, holes, and freed blocks that wait for other streams.

use crate::clock::{Clock, Epoch, StreamIndex};
use crate::figures::Figures;
use crate::offset_table::OffsetTable;
use crate::quick::{FreeBlock, QuickList};
use crate::starts::Starts;
use crate::tlsf::{BlockId, GRANULE, Grant, Tlsf};
use cairn_sync::lock::{LightGuard, LightMutex, Rank};
use cairn_sync::sync::atomic::{AtomicU64, Ordering};
use smallvec::SmallVec;
use std::collections::{HashMap, VecDeque};
use std::ops::Range;

/// The `note` of a block is the bytes that were requested, or this once it was freed and is not a hole yet.
const FREED: u64 = u64::MAX;
/// `counted` of a lane that is the only one: the total is then unused.
const NOT_COUNTED: u64 = u64::MAX;
/// A lane may stitch this often in a row, and once more for each of these many blocks that it takes: new memory is better than
/// pages that move with every block.
const MAX_CREDIT: u64 = 512;
const BLOCKS_PER_CREDIT: u64 = 1024;
/// Lanes are counted in steps of this many bytes, so that few allocations touch the total.
const COUNT_STEP: u64 = 1 << 20;

/// The lane of one stream of a pool.
pub(crate) struct Lane {
    pub stream: StreamIndex,
    state: LightMutex<LaneState>,
}

/// A block that was handed out: where it begins, and how long it is.
#[derive(Clone, Copy)]
pub(crate) struct Placed {
    pub offset: u64,
    pub size: u64,
}

/// Live bytes in all lanes, and their peak.
#[derive(Default)]
pub(crate) struct Total {
    live: AtomicU64,
    peak: AtomicU64,
}

/// What a lane has, under its lock. Blocks that were freed may be in three places:
///
/// ```text
/// free on the lane's own stream ──> quick (a few of a size)  ──> hole with the epoch of the free
/// free elsewhere, or used there ──> waiting, until that is ordered or done ──> hole
/// ```
///
/// A hole may be used again on the lane's stream at once; elsewhere when its epoch is ordered or done.
///
/// **Pending uses.** A lane may get memory that another stream is still using, if the program ordered that use before
/// the lane's stream. `pending_uses` holds the epochs of these uses. Until they finish, only streams ordered after
/// them may take memory from this lane, because an abort can undo the order.
pub(crate) struct LaneState {
    pub tlsf: Tlsf,
    quick: QuickList,
    starts: Starts,
    waiting: VecDeque<WaitingBlock>,
    uses: HashMap<BlockId, SmallVec<[StreamIndex; 2]>>,
    pending_uses: Clock,
    counts: Figures,
    /// Blocks of two pages and more begin at a page, where that is possible, so that they share fewer.
    page: u64,
    /// How often it may stitch now, and how many blocks it had taken when that was last raised.
    credit: u64,
    credited_blocks: u64,
    /// Bytes of this lane that [`Total`] counts as live, up to two `COUNT_STEP` more than are; or `NOT_COUNTED`.
    counted: u64,
}

/// A freed block that other streams may still use, up to the epochs `others`.
#[derive(Clone)]
struct WaitingBlock {
    id: BlockId,
    size: u64,
    freed_seq: u64,
    others: Clock,
}

impl WaitingBlock {
    fn free_block(&self) -> FreeBlock {
        FreeBlock { id: self.id, freed_seq: self.freed_seq }
    }
}

impl Lane {
    pub fn new(stream: StreamIndex) -> Lane {
        let state = LaneState {
            tlsf: Tlsf::new(),
            quick: QuickList::new(),
            starts: Starts::new(),
            waiting: VecDeque::new(),
            uses: HashMap::new(),
            pending_uses: Clock::new(),
            counts: Figures::default(),
            page: u64::MAX,
            credit: MAX_CREDIT,
            credited_blocks: 0,
            counted: NOT_COUNTED,
        };
        Lane { stream, state: LightMutex::new(Rank::Lane, state) }
    }

    #[inline]
    pub fn lock(&self) -> LightGuard<'_, LaneState> {
        self.state.lock()
    }

    /// Takes a block from the quick list or a hole of this lane.
    #[inline]
    pub fn take(
        &self,
        state: &mut LaneState,
        bytes: u64,
        align: u64,
        offset_table: &OffsetTable,
        total: &Total,
    ) -> Option<Placed> {
        let granules = bytes.div_ceil(GRANULE).max(1);
        let offset = match state.take_quick(granules, bytes, align) {
            Some(offset) => {
                state.count_allocation(granules * GRANULE, bytes, total);
                offset
            }
            None => self.take_from_hole(state, bytes, align, offset_table, total)?,
        };
        Some(Placed { offset, size: granules * GRANULE })
    }

    /// Adds a range whose start has the block's alignment, allocates the block there and frees the rest.
    /// `pending_uses` are added to the lane's.
    pub fn add_and_take(
        &self,
        state: &mut LaneState,
        range: Range<u64>,
        pending_uses: &Clock,
        bytes: u64,
        offset_table: &OffsetTable,
        total: &Total,
    ) -> Option<Placed> {
        let uses = (pending_uses, 0);
        self.add_stitched(state, range, uses, (bytes, bytes), offset_table, total)
    }

    /// Adds a range that was stitched, as a block of `bytes` bytes that keeps `size` of it; the rest is free. `pending_uses` are
    /// added to the lane's; the lane's stream itself may use the range up to task `freed_seq`.
    pub fn add_stitched(
        &self,
        state: &mut LaneState,
        range: Range<u64>,
        (pending_uses, freed_seq): (&Clock, u64),
        (bytes, size): (u64, u64),
        offset_table: &OffsetTable,
        total: &Total,
    ) -> Option<Placed> {
        offset_table.set_stream(range.clone(), self.stream);
        let block = state.tlsf.add_live(range)?;
        if let Some(rest) = state.tlsf.split(block.id, size) {
            state.tlsf.free(rest.id, freed_seq);
        }
        state.pending_uses.join(pending_uses);
        state.counts.peak_reserved = state.counts.peak_reserved.max(state.tlsf.total());
        self.register_block(state, block.id, bytes, offset_table, total)
    }

    /// Registers a live block: in the offset table, among the starts and in the counts.
    fn register_block(
        &self,
        state: &mut LaneState,
        id: BlockId,
        bytes: u64,
        offset_table: &OffsetTable,
        total: &Total,
    ) -> Option<Placed> {
        let (grant, note) = state.tlsf.get_mut(id)?;
        *note = bytes;
        offset_table.add_block_start(grant.offset);
        state.starts.add(grant.offset, id);
        state.count_allocation(grant.size, bytes, total);
        Some(Placed { offset: grant.offset, size: grant.size })
    }

    /// Takes a block from a hole of this lane; returns where it begins.
    #[inline(never)]
    fn take_from_hole(
        &self,
        state: &mut LaneState,
        bytes: u64,
        align: u64,
        offset_table: &OffsetTable,
        total: &Total,
    ) -> Option<u64> {
        let LaneState { tlsf, starts, page, .. } = state;
        let mut wanted = if bytes / 2 >= *page { align.max(*page) } else { align };
        let grant = loop {
            let found = tlsf.alloc_with(bytes, wanted, bytes, |id, offset| {
                offset_table.add_block_start(offset);
                starts.add(offset, id);
            });
            if let Some(grant) = found {
                break grant;
            }
            if wanted == align {
                return None;
            }
            wanted = align;
        };
        state.count_allocation(grant.size, bytes, total);
        Some(grant.offset)
    }
}

impl Total {
    pub fn peak(&self) -> u64 {
        self.peak.load(Ordering::Relaxed)
    }

    /// Resets the peak to what is live now.
    pub fn reset_peak(&self) {
        self.peak.store(self.live.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Adds live bytes; the peak is then at least `min_peak`.
    fn add(&self, bytes: u64, min_peak: u64) {
        let live = self.live.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.peak.fetch_max(live.max(min_peak), Ordering::Relaxed);
    }
}

impl LaneState {
    /// Takes a block from the quick list; returns where it begins.
    #[inline]
    fn take_quick(&mut self, granules: u64, bytes: u64, align: u64) -> Option<u64> {
        if align > GRANULE {
            return None;
        }
        let (grant, note) = self.tlsf.get_mut(self.quick.take(granules)?)?;
        *note = bytes;
        Some(grant.offset)
    }

    #[inline]
    fn count_allocation(&mut self, size: u64, bytes: u64, total: &Total) {
        let counts = &mut self.counts;
        counts.live += size;
        counts.requested += bytes;
        counts.taken += 1;
        counts.peak = counts.peak.max(counts.live);
        if counts.live > self.counted {
            let increase = (counts.live - self.counted).next_multiple_of(COUNT_STEP);
            self.counted += increase;
            total.add(increase, 0);
        }
    }

    #[inline]
    fn count_free(&mut self, size: u64, bytes: u64, total: &Total) {
        let counts = &mut self.counts;
        counts.live -= size;
        counts.requested -= bytes;
        counts.freed += 1;
        if self.counted - counts.live >= 2 * COUNT_STEP && self.counted != NOT_COUNTED {
            let decrease = (self.counted - counts.live) / COUNT_STEP * COUNT_STEP - COUNT_STEP;
            self.counted -= decrease;
            total.live.fetch_sub(decrease, Ordering::Relaxed);
        }
    }

    /// Starts to count this lane in the total.
    pub fn start_counting(&mut self, total: &Total) {
        if self.counted == NOT_COUNTED {
            self.counted = self.counts.live.next_multiple_of(COUNT_STEP);
            total.add(self.counted, self.counts.peak);
        }
    }

    /// The block that begins at `offset`, held or freed.
    #[inline]
    fn find(&self, offset: u64) -> Option<BlockId> {
        let begins_there = |id| self.tlsf.get(id).is_some_and(|grant| grant.offset == offset);
        self.starts.find(offset, begins_there)
    }

    /// The held block that begins at `offset`, and the bytes that were asked for.
    pub fn find_held(&mut self, offset: u64) -> Option<(Grant, u64)> {
        let (grant, &mut bytes) = self.tlsf.get_mut(self.find(offset)?)?;
        (bytes != FREED).then_some((grant, bytes))
    }

    /// Turns a freed block into a hole.
    fn release(&mut self, block: FreeBlock) {
        if let Some(grant) = self.tlsf.free_block(block.id, block.freed_seq) {
            self.starts.remove(grant.offset, block.id);
        }
    }

    /// Frees the block at `offset` if only the lane's stream uses it, up to task `freed_seq()`; returns its size.
    /// `None` if no live block begins there, or another stream uses it.
    #[inline]
    pub fn free_quick(
        &mut self,
        offset: u64,
        freed_seq: impl FnOnce() -> u64,
        total: &Total,
    ) -> Option<u64> {
        let id = self.find(offset)?;
        if !self.uses.is_empty() && self.uses.contains_key(&id) {
            return None;
        }
        let (grant, note) = self.tlsf.get_mut(id)?;
        if *note == FREED {
            return None;
        }
        let bytes = std::mem::replace(note, FREED);
        self.count_free(grant.size, bytes, total);
        if let Some(block) =
            self.quick.put(grant.size / GRANULE, FreeBlock { id, freed_seq: freed_seq() })
        {
            self.release(block);
        }
        Some(grant.size)
    }

    /// Remembers that another stream uses a held block.
    pub fn record_use(&mut self, id: BlockId, stream: StreamIndex) {
        let uses = self.uses.entry(id).or_default();
        if !uses.contains(&stream) {
            uses.push(stream);
        }
    }

    /// True if a use of the block on another stream was recorded.
    pub fn is_used_elsewhere(&self, id: BlockId) -> bool {
        self.uses.contains_key(&id)
    }

    /// Marks a live block as freed, and returns the other streams that use it. Call [`LaneState::free_now`] or
    /// [`LaneState::free_after`] next.
    pub fn start_free(
        &mut self,
        grant: Grant,
        bytes: u64,
        total: &Total,
    ) -> SmallVec<[StreamIndex; 2]> {
        self.count_free(grant.size, bytes, total);
        if let Some((_, note)) = self.tlsf.get_mut(grant.id) {
            *note = FREED;
        }
        self.uses.remove(&grant.id).unwrap_or_default()
    }

    /// Turns a freed block into a hole: the lane's stream may use it at once, others after `freed_seq`.
    pub fn free_now(&mut self, grant: Grant, freed_seq: u64) {
        self.release(FreeBlock { id: grant.id, freed_seq });
    }

    /// Makes a freed block wait for these epochs of other streams.
    pub fn free_after(&mut self, grant: Grant, freed_seq: u64, others: Clock) {
        self.waiting.push_back(WaitingBlock { id: grant.id, size: grant.size, freed_seq, others });
    }

    /// The epochs of other streams that freed blocks wait for, and those of pending uses.
    pub fn awaited_epochs(&self) -> Clock {
        let mut clock = self.pending_uses.clone();
        self.waiting.iter().for_each(|w| clock.join(&w.others));
        clock
    }

    /// The uses that other streams have to finish before any stream may take memory of this lane.
    #[inline]
    pub fn pending_uses(&self) -> &Clock {
        &self.pending_uses
    }

    /// Forgets the pending uses that have finished.
    pub fn forget_finished_uses(&mut self, is_done: impl Fn(Epoch) -> bool) {
        self.pending_uses.retain(|epoch| !is_done(epoch));
    }

    /// Turns the blocks that have waited longest into holes, up to the first that is still used. True if there was any.
    pub fn reclaim_first(&mut self, is_done: impl Fn(Epoch) -> bool) -> bool {
        let before = self.waiting.len();
        let is_finished =
            |w: &mut WaitingBlock| w.others.epochs().iter().all(|&epoch| is_done(epoch));
        while let Some(waiting) = self.waiting.pop_front_if(is_finished) {
            self.release(waiting.free_block());
        }
        self.waiting.len() < before
    }

    /// Turns the blocks of the quick list into holes, and the waiting ones that no other stream uses any more.
    pub fn reclaim(&mut self, is_done: impl Fn(Epoch) -> bool) {
        let mut reclaimed = Vec::new();
        self.quick.drain(|block| reclaimed.push(block));
        self.waiting.retain(|w| {
            let is_used = w.others.epochs().iter().any(|&epoch| !is_done(epoch));
            if !is_used {
                reclaimed.push(w.free_block());
            }
            is_used
        });
        reclaimed.into_iter().for_each(|block| self.release(block));
    }

    /// Turns waiting blocks whose uses are ordered before the lane's stream into holes; these uses are pending from then on.
    pub fn reclaim_ordered(&mut self, is_ordered: impl Fn(&Clock) -> bool) {
        let (mut reclaimed, pending_uses) = (Vec::new(), &mut self.pending_uses);
        self.waiting.retain(|w| {
            let may_reuse = is_ordered(&w.others);
            if may_reuse {
                reclaimed.push(w.free_block());
                pending_uses.join(&w.others);
            }
            !may_reuse
        });
        reclaimed.into_iter().for_each(|block| self.release(block));
    }

    /// Removes a range that fits the request from this lane, for another stream. `can_use(freed_seq, uses)` says
    /// whether that stream may use memory that was freed at that task and used elsewhere up to that clock. Returns
    /// the range, and the uses that must finish before every stream may have it. A longer waiting block is split.
    pub fn take_for_other_stream(
        &mut self,
        lane_stream: StreamIndex,
        bytes: u64,
        align: u64,
        mut can_use: impl FnMut(u64, Option<&Clock>) -> bool,
    ) -> Option<(Range<u64>, Clock)> {
        let mut pending_uses = self.pending_uses.clone();
        if let Some((grant, seq)) =
            self.tlsf.alloc_where(bytes, align, |freed_seq| can_use(freed_seq, None))
        {
            pending_uses.raise(Epoch { stream: lane_stream, seq });
            return Some((self.tlsf.take_out(grant.id)?, pending_uses));
        }
        let fits = |w: &WaitingBlock| {
            let offset = self.tlsf.get(w.id).map_or(1, |g| g.offset);
            w.size >= bytes && offset.is_multiple_of(align) && can_use(w.freed_seq, Some(&w.others))
        };
        let at = self.waiting.iter().position(fits)?;
        let found = self.waiting.remove(at)?;
        let offset = self.tlsf.get(found.id)?.offset;
        self.starts.remove(offset, found.id);
        pending_uses.raise(Epoch { stream: lane_stream, seq: found.freed_seq });
        pending_uses.join(&found.others);
        if let Some(rest) = self.tlsf.split(found.id, bytes) {
            self.waiting.push_back(WaitingBlock { id: rest.id, size: rest.size, ..found.clone() });
        }
        Some((self.tlsf.take_out(found.id)?, pending_uses))
    }

    /// Bytes that were freed but are still in use, and the epochs that they wait for.
    pub fn unfinished(&self, stream: StreamIndex, is_done: impl Fn(Epoch) -> bool) -> (u64, Clock) {
        let (mut bytes, mut clock) = (0, self.pending_uses.clone());
        clock.retain(|epoch| !is_done(epoch));
        let has_pending_uses = !clock.epochs().is_empty();
        let mut add = |size: u64, freed_seq: u64, others: &[Epoch]| {
            let free_epoch = Epoch { stream, seq: freed_seq };
            let mut unfinished =
                others.iter().copied().chain([free_epoch]).filter(|&e| !is_done(e)).peekable();
            bytes += if has_pending_uses || unfinished.peek().is_some() { size } else { 0 };
            unfinished.for_each(|epoch| clock.raise(epoch));
        };
        self.tlsf.holes_unordered().for_each(|(size, freed_seq)| add(size, freed_seq, &[]));
        self.waiting.iter().for_each(|w| add(w.size, w.freed_seq, w.others.epochs()));
        self.quick.iter().for_each(|(size, freed_seq)| add(size, freed_seq, &[]));
        (bytes, clock)
    }

    /// True if anything that was freed is still in use. Call [`LaneState::reclaim`] first.
    pub fn has_unfinished(&self, finished: u64) -> bool {
        !self.waiting.is_empty()
            || !self.pending_uses.epochs().is_empty()
            || self.tlsf.holes_unordered().any(|(_, freed_seq)| freed_seq > finished)
    }

    /// Counts a request that found nothing.
    pub fn count_failure(&mut self) {
        self.counts.failed += 1;
    }

    /// Resets the peak of live bytes, and the counted bytes to what is live now.
    pub fn reset_peak_live(&mut self, total: &Total) {
        self.counts.peak = self.counts.live;
        if self.counted != NOT_COUNTED {
            total.live.fetch_sub(self.counted - self.counts.live, Ordering::Relaxed);
            self.counted = self.counts.live;
        }
    }

    /// Resets the peak of reserved bytes.
    pub fn reset_peak_reserved(&mut self) {
        self.counts.peak_reserved = self.tlsf.total();
    }

    /// The figures, except `waiting`.
    pub fn figures(&self) -> Figures {
        let reserved = self.tlsf.total();
        let quick = self.quick.iter().map(|(size, _)| size).max().unwrap_or(0);
        Figures {
            reserved,
            peak_reserved: self.counts.peak_reserved.max(reserved),
            blocks: self.counts.taken - self.counts.freed,
            largest_hole: self.tlsf.largest_hole().max(quick),
            ..self.counts
        }
    }

    /// Bytes in blocks that are held.
    pub fn live(&self) -> u64 {
        self.counts.live
    }

    /// True if it may stitch now. `earns`: the blocks that were taken since the last call count for new credit.
    pub fn has_credit(&mut self, earns: bool) -> bool {
        let earned = (self.counts.taken - self.credited_blocks) / BLOCKS_PER_CREDIT;
        self.credited_blocks += earned * BLOCKS_PER_CREDIT;
        if earns {
            self.credit = (self.credit + earned).min(MAX_CREDIT);
        }
        self.credit > 0
    }

    /// Uses up the right to stitch once, after pages were moved.
    pub fn spend_credit(&mut self) {
        self.credit = self.credit.saturating_sub(1);
    }

    /// From now on memory comes in large pages of this size, a power of two, if in any.
    pub fn set_page(&mut self, page: Option<u64>) {
        self.page = page.unwrap_or(u64::MAX);
    }

    /// Adds a range that no stream uses.
    pub fn add(&mut self, range: Range<u64>) {
        self.tlsf.add(range, 0);
        self.counts.peak_reserved = self.counts.peak_reserved.max(self.tlsf.total());
    }
}
