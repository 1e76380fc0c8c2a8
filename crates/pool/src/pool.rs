//! The stream-ordered pool.

mod search;
mod stitch;

use crate::clock::{Clock, Epoch, StreamIndex};
use crate::figures::{Figures, Owner};
use crate::lane::{Lane, LaneState, Placed, Total};
use crate::lanes::Lanes;
use crate::offset_table::OffsetTable;
use crate::progress::{Progress, SegmentSource};
use crate::tlsf::{Grant, Tlsf};
use cairn_sync::lock::{LightGuard, Mutex, Rank};
use stitch::Vacating;

/// A pool of memory for streams.
///
/// ```text
///  allocate(s), free(s)             stream 0      stream 1      stream 2
///    │  one lock, the lane's      ┌─────────┐   ┌─────────┐   ┌─────────┐   a lane each: blocks, holes
///    └──────────────────────────> │  lane   │   │  lane   │   │  lane   │   with epochs, a quick list
///                                 └──┬───▲──┘   └─────────┘   └─────────┘
///  found nothing: the root's lock    │   │ ranges move, never more than needed
///                                 ┌──▼───┴──────────────────────────────┐
///                                 │ root: holes of no lane              │ <── extend, release ──> source
///                                 └─────────────────────────────────────┘
/// ```
///
/// **Order.** A block freed on its own stream may be used there again at once. On stream B it may when
/// the free and every recorded use are finished, or the program ordered them before B. The pool itself
/// never waits: it returns [`Outcome::Wait`] with what to wait for.
///
/// **Search.** The lane of the stream; the root; what other lanes freed and the stream may use; adjacent holes of
/// all of these together; more from the source, within the budget. So the pool grows only when no free
/// memory that may be used fits.
///
/// **Threads.** Any, at any time. Threads on different streams do not meet but on the slow path.
/// **Cost.** A block of a size that was freed last costs a lock and a few loads, whatever its size.
pub struct Pool<P, S> {
    progress: P,
    source: S,
    offset_table: OffsetTable,
    total: Total,
    lanes: Lanes,
    root: Mutex<Root>,
}

/// What belongs to no lane. No stream uses any of it.
struct Root {
    tlsf: Tlsf,
    budget: u64,
    reserved: u64,
    peak_reserved: u64,
    /// The most that was reserved since the peak of what is live was reset; that peak is estimated, and never more.
    most_reserved: u64,
    lanes: usize,
    /// Where the last range from the source ends; at first no offset at all.
    end: u64,
    /// Old addresses of moved pages.
    vacating: Vec<Vacating>,
    /// Bytes that were stitched, ever.
    stitched: u64,
}

impl Root {
    /// More is reserved now.
    fn note_reserved(&mut self) {
        self.peak_reserved = self.peak_reserved.max(self.reserved);
        self.most_reserved = self.most_reserved.max(self.reserved);
    }
}

/// A held block, and its lane, locked.
struct LiveBlock<'a> {
    lane: &'a Lane,
    state: LightGuard<'a, LaneState>,
    grant: Grant,
    bytes: u64,
}

/// How a request ended. Only `Ready` is memory; the others say what would help.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A block: where it begins, and how long it is.
    Ready {
        /// Its first byte.
        offset: u64,
        /// The request rounded up to whole granules.
        size: u64,
    },
    /// Nothing now; freed memory that might do waits for these points.
    Wait(Clock),
    /// The source has no more; the message says why.
    Exhausted(String),
    /// The budget has no room, and nothing that was freed would make some.
    OverBudget,
}

/// Why a block was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockError {
    /// No block of this pool ever began there.
    Unknown,
    /// One did, but it was given back.
    NotLive,
}

impl From<Placed> for Outcome {
    #[inline]
    fn from(placed: Placed) -> Outcome {
        Outcome::Ready { offset: placed.offset, size: placed.size }
    }
}

impl<P: Progress, S: SegmentSource> Pool<P, S> {
    /// An empty pool that never has more than `budget` bytes from its source.
    pub fn new(progress: P, source: S, budget: u64) -> Pool<P, S> {
        let root = Root {
            tlsf: Tlsf::new(),
            budget,
            reserved: 0,
            peak_reserved: 0,
            most_reserved: 0,
            lanes: 0,
            end: u64::MAX,
            vacating: Vec::new(),
            stitched: 0,
        };
        Pool {
            progress,
            source,
            offset_table: OffsetTable::default(),
            total: Total::default(),
            lanes: Lanes::new(),
            root: Mutex::new(Rank::Root, root),
        }
    }

    /// How it learns the progress of streams.
    pub fn progress(&self) -> &P {
        &self.progress
    }

    /// Where its memory comes from.
    pub fn source(&self) -> &S {
        &self.source
    }

    /// Takes `bytes` (none counts as one) at a multiple of `align`, a power of two, for use on `stream`.
    ///
    /// # Panics
    /// If the stream is beyond the 262,144 that a pool has room for.
    #[inline]
    pub fn allocate(&self, bytes: u64, align: u64, stream: StreamIndex) -> Outcome {
        if let Some(lane) = self.lane(stream) {
            let mut state = lane.lock();
            if self.may_use_lane(lane, &mut state)
                && let Some(placed) =
                    lane.take(&mut state, bytes, align, &self.offset_table, &self.total)
            {
                return placed.into();
            }
        }
        self.allocate_slowly(bytes, align, stream)
    }

    /// Gives a block back that was used on `stream` last; returns its size. What was submitted to that
    /// stream, to the block's own and to those recorded, up to now, may still use it.
    #[inline]
    pub fn free(&self, offset: u64, stream: StreamIndex) -> Result<u64, BlockError> {
        if let Some(lane) = self.lane(stream) {
            let freed_seq = || self.progress.submitted(stream);
            if let Some(size) = lane.lock().free_quick(offset, freed_seq, &self.total) {
                return Ok(size);
            }
        }
        self.free_slowly(offset, stream)
    }

    #[cold]
    #[inline(never)]
    fn free_slowly(&self, offset: u64, stream: StreamIndex) -> Result<u64, BlockError> {
        let LiveBlock { lane, mut state, grant, bytes } = self.live_block(offset)?;
        let freed_seq = self.progress.submitted(lane.stream);
        let mut others = Clock::new();
        let uses = state.start_free(grant, bytes, &self.total);
        for other in uses.into_iter().chain([stream]).filter(|&other| other != lane.stream) {
            others.raise(Epoch { stream: other, seq: self.progress.submitted(other) });
        }
        match others.epochs().iter().all(|&epoch| self.is_done(epoch)) {
            true => state.free_now(grant, freed_seq),
            false => state.free_after(grant, freed_seq, others),
        }
        Ok(grant.size)
    }

    /// Says that work on another stream uses a held block: when it is freed, what was submitted to that
    /// stream by then is waited for too.
    pub fn record_use(&self, offset: u64, stream: StreamIndex) -> Result<(), BlockError> {
        let LiveBlock { lane, mut state, grant, .. } = self.live_block(offset)?;
        if stream != lane.stream {
            state.record_use(grant.id, stream);
        }
        Ok(())
    }

    /// The size of a held block, and the stream it was taken for.
    pub fn find(&self, offset: u64) -> Option<(u64, StreamIndex)> {
        let block = self.live_block(offset).ok()?;
        Some((block.grant.size, block.lane.stream))
    }

    /// True if the held block was taken for this stream and no use elsewhere was recorded.
    pub fn is_only_of(&self, offset: u64, stream: StreamIndex) -> bool {
        self.live_block(offset).is_ok_and(|LiveBlock { lane, state, grant, .. }| {
            lane.stream == stream && !state.is_used_elsewhere(grant.id)
        })
    }

    /// Gives free memory back to the source until it has at most `keep` bytes from there; returns how
    /// much. Memory that some stream may still use stays.
    pub fn trim(&self, keep: u64) -> u64 {
        let mut root = self.root.lock();
        self.reclaim_all(&mut root);
        self.vacate_finished(&mut root);
        self.release(&mut root, keep)
    }

    /// The stream is gone and all its work done: what it freed is for everybody now. Its index may be
    /// used again.
    pub fn retire(&self, stream: StreamIndex) {
        let Some(lane) = self.lane(stream) else { return };
        let mut root = self.root.lock();
        let ranges = {
            let mut state = lane.lock();
            self.reclaim_lane(&mut state);
            match state.pending_uses().epochs().is_empty() {
                true => state.tlsf.take_out_holes(|_| true),
                false => Vec::new(),
            }
        };
        ranges.into_iter().for_each(|range| root.tlsf.add(range, 0));
    }

    /// The most bytes that it may have from its source.
    pub fn budget(&self) -> u64 {
        self.root.lock().budget
    }

    /// Changes the budget; what is over it is given back as far as it is free.
    pub fn set_budget(&self, budget: u64) {
        self.root.lock().budget = budget;
        self.trim(budget);
    }

    /// The figures of the whole pool. Locks every lane in turn.
    pub fn figures(&self) -> Figures {
        let root = self.root.lock();
        let mut sum = Figures {
            reserved: root.reserved,
            peak_reserved: root.peak_reserved,
            largest_hole: root.tlsf.largest_hole(),
            stitched: root.stitched,
            ..Figures::default()
        };
        for lane in self.lanes() {
            let figures = self.figures_in(lane);
            sum.live += figures.live;
            sum.requested += figures.requested;
            sum.waiting += figures.waiting;
            sum.blocks += figures.blocks;
            sum.taken += figures.taken;
            sum.freed += figures.freed;
            sum.failed += figures.failed;
            sum.largest_hole = sum.largest_hole.max(figures.largest_hole);
            sum.peak = figures.peak;
        }
        if root.lanes > 1 {
            sum.peak = self.total.peak().min(root.most_reserved).max(sum.live);
        }
        sum
    }

    /// The figures of one stream; `None` if it never took anything.
    pub fn figures_of(&self, stream: StreamIndex) -> Option<Figures> {
        self.lane(stream).map(|lane| self.figures_in(lane))
    }

    fn figures_in(&self, lane: &Lane) -> Figures {
        let state = lane.lock();
        Figures { waiting: self.unfinished(lane, &state).0, ..state.figures() }
    }

    /// Forgets all peaks: they are what is live and reserved now.
    pub fn reset_peak(&self) {
        self.reset_peak_live();
        self.reset_peak_reserved();
    }

    /// Forgets how much was live.
    pub fn reset_peak_live(&self) {
        let mut root = self.root.lock();
        root.most_reserved = root.reserved;
        self.lanes().for_each(|lane| lane.lock().reset_peak_live(&self.total));
        self.total.reset_peak();
    }

    /// Forgets how much was reserved.
    pub fn reset_peak_reserved(&self) {
        let mut root = self.root.lock();
        root.peak_reserved = root.reserved;
        self.lanes().for_each(|lane| lane.lock().reset_peak_reserved());
    }

    /// Who holds memory, the largest first.
    pub fn owners(&self) -> Vec<Owner> {
        let owner = |lane: &Lane| {
            let figures = lane.lock().figures();
            Owner { stream: lane.stream, live: figures.live, blocks: figures.blocks }
        };
        let mut owners: Vec<Owner> = self.lanes().map(owner).filter(|o| o.blocks > 0).collect();
        owners.sort_by_key(|owner| (std::cmp::Reverse(owner.live), owner.stream));
        owners
    }

    #[inline]
    fn lane(&self, stream: StreamIndex) -> Option<&Lane> {
        self.lanes.get(stream)
    }

    fn lanes(&self) -> impl Iterator<Item = &Lane> {
        self.lanes.iter()
    }

    /// The held block that begins at an offset: most likely of the stream that got memory there last.
    fn live_block(&self, offset: u64) -> Result<LiveBlock<'_>, BlockError> {
        if !self.offset_table.has_block_start(offset) {
            return Err(BlockError::Unknown);
        }
        let likely = self.offset_table.stream(offset).and_then(|stream| self.lane(stream));
        let find = |lane| {
            let mut state = Lane::lock(lane);
            let (grant, bytes) = state.find_held(offset)?;
            Some(LiveBlock { lane, state, grant, bytes })
        };
        likely.into_iter().chain(self.lanes()).find_map(find).ok_or(BlockError::NotLive)
    }

    /// True if whatever runs on `stream` from now on runs after all these points.
    fn may_use(&self, stream: StreamIndex, clock: &Clock) -> bool {
        clock.epochs().iter().all(|&epoch| {
            epoch.stream == stream || self.is_done(epoch) || self.progress.is_ordered(stream, epoch)
        })
    }

    fn is_done(&self, epoch: Epoch) -> bool {
        self.progress.finished(epoch.stream) >= epoch.seq
    }

    /// Bytes of a lane that were freed but are still in use, and the epochs that they wait for.
    fn unfinished(&self, lane: &Lane, state: &LaneState) -> (u64, Clock) {
        state.unfinished(lane.stream, |epoch| self.is_done(epoch))
    }

    /// True if the lane's stream may use what the lane has.
    #[inline]
    fn may_use_lane(&self, lane: &Lane, state: &mut LaneState) -> bool {
        state.pending_uses().epochs().is_empty() || self.may_use_after_check(lane, state)
    }

    /// The same, after finished uses are forgotten.
    #[cold]
    fn may_use_after_check(&self, lane: &Lane, state: &mut LaneState) -> bool {
        state.forget_finished_uses(|epoch| self.is_done(epoch));
        self.may_use(lane.stream, state.pending_uses())
    }

    /// Turns the freed blocks of a lane that no other stream uses any more into holes.
    fn reclaim_lane(&self, state: &mut LaneState) {
        for &epoch in state.awaited_epochs().epochs() {
            if !self.is_done(epoch) {
                self.progress.start_query(epoch.stream);
            }
        }
        state.reclaim(|epoch| self.is_done(epoch));
        state.forget_finished_uses(|epoch| self.is_done(epoch));
    }
}
