//! The stream-ordered pool.

use crate::clock::{Clock, Epoch, StreamIndex};
use crate::figures::{Figures, Owner};
use crate::ground::Ground;
use crate::index::unset;
use crate::lane::{Inner, Lane, Total};
use crate::piece::{Piece, side_by_side};
use crate::progress::{Backing, Progress};
use crate::tlsf::{GRANULE, Grant, Tlsf};
use cairn_sync::lock::{Mutex, MutexGuard, Rank};
use cairn_sync::sync::atomic::{AtomicUsize, Ordering};
use std::ops::{Range, RangeInclusive};
use std::sync::OnceLock;

/// Streams a pool has room for, in shelves of this many.
const SHELF: usize = 256;
const SHELVES: usize = 1024;
type Shelf = Box<[OnceLock<Box<Lane>>; SHELF]>;
/// What a lane takes from the common stock beyond its need, if there is more: as much again, within these.
const HELPING: RangeInclusive<u64> = 64 << 10..=1 << 20;

/// A pool of memory for streams.
///
/// ```text
///  allocate(s), free(s)             stream 0      stream 1      stream 2
///    │  one lock, the lane's      ┌─────────┐   ┌─────────┐   ┌─────────┐   a lane each: blocks, holes
///    └──────────────────────────> │  lane   │   │  lane   │   │  lane   │   with epochs, a quick list
///                                 └──┬───▲──┘   └─────────┘   └─────────┘
///  found nothing: the root's lock    │   │ ranges move, never more than needed
///                                 ┌──▼───┴──────────────────────────────┐
///                                 │ root: holes that are nobody's       │ <── extend, release ──> backing
///                                 └─────────────────────────────────────┘
/// ```
///
/// **Order.** A block freed on its own stream may be used there again at once. On stream B it may when
/// `finished`, or what the program ordered before B, covers the free and every recorded use. The pool
/// waits for nothing: it says [`Outcome::Wait`] and for what.
///
/// **Search.** The lane of the stream; the root; what other lanes freed and B may have; all of that
/// together, merged; more from the backing, within the budget. So the pool grows only when no free
/// memory that may be used fits.
///
/// **Threads.** Any, at any time. Threads on different streams do not meet but on the slow path.
/// **Cost.** A block of a size that was freed last costs a lock and a few loads, whatever its size.
pub struct Pool<P, B> {
    progress: P,
    backing: B,
    ground: Ground,
    total: Total,
    shelves: Box<[OnceLock<Shelf>; SHELVES]>,
    highest: AtomicUsize,
    root: Mutex<Root>,
}

/// What belongs to no lane. All of it is done with.
struct Root {
    tlsf: Tlsf,
    budget: u64,
    reserved: u64,
    peak_reserved: u64,
    lanes: usize,
    end: u64,
}

/// A held block, and the lane that it is of, locked.
struct Held<'a> {
    lane: &'a Lane,
    inner: MutexGuard<'a, Inner>,
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
    /// The backing has no more; the text says why.
    Exhausted(String),
    /// The budget has no room, and nothing that was freed would make some.
    OverBudget,
}

/// Why a block was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// No block of this pool ever began there.
    Unknown,
    /// One did, but it was given back.
    NotHeld,
}

impl From<Grant> for Outcome {
    fn from(grant: Grant) -> Outcome {
        Outcome::Ready { offset: grant.offset, size: grant.size }
    }
}

impl<P: Progress, B: Backing> Pool<P, B> {
    /// An empty pool that never has more than `budget` bytes from its backing.
    pub fn new(progress: P, backing: B, budget: u64) -> Pool<P, B> {
        let root = Root {
            tlsf: Tlsf::new(),
            budget,
            reserved: 0,
            peak_reserved: 0,
            lanes: 0,
            end: u64::MAX,
        };
        Pool {
            progress,
            backing,
            ground: Ground::default(),
            total: Total::default(),
            shelves: unset(),
            highest: AtomicUsize::new(0),
            root: Mutex::new(Rank::Root, root),
        }
    }

    /// What it was given to know the streams by.
    pub fn progress(&self) -> &P {
        &self.progress
    }

    /// What its memory is made by.
    pub fn backing(&self) -> &B {
        &self.backing
    }

    /// Takes `bytes` (none counts as one) at a multiple of `align`, a power of two, for use on `stream`.
    ///
    /// # Panics
    /// If the stream is beyond the 262,144 that a pool has room for.
    #[inline]
    pub fn allocate(&self, bytes: u64, align: u64, stream: StreamIndex) -> Outcome {
        if let Some(lane) = self.lane(stream) {
            let mut inner = lane.lock();
            if self.is_clear(lane, &mut inner)
                && let Some(grant) = lane.take(&mut inner, bytes, align, &self.ground, &self.total)
            {
                return grant.into();
            }
        }
        self.allocate_slowly(bytes, align, stream)
    }

    /// Gives a block back that was used on `stream` last; returns its size. What was submitted to that
    /// stream, to the block's own and to those recorded, up to now, may still use it.
    #[inline]
    pub fn free(&self, offset: u64, stream: StreamIndex) -> Result<u64, Wrong> {
        if let Some(lane) = self.lane(stream) {
            let stamp = || self.progress.submitted(stream);
            if let Some(size) = lane.lock().free_quick(offset, stamp, &self.total) {
                return Ok(size);
            }
        }
        self.free_slowly(offset, stream)
    }

    #[cold]
    #[inline(never)]
    fn free_slowly(&self, offset: u64, stream: StreamIndex) -> Result<u64, Wrong> {
        let Held { lane, mut inner, grant, bytes } = self.held(offset)?;
        let stamp = self.progress.submitted(lane.stream);
        let mut others = Clock::new();
        let uses = inner.end(grant, bytes, &self.total);
        for other in uses.into_iter().chain([stream]).filter(|&other| other != lane.stream) {
            others.raise(Epoch { stream: other, seq: self.progress.submitted(other) });
        }
        match others.marks().iter().all(|&epoch| self.is_done(epoch)) {
            true => inner.free_now(grant, stamp),
            false => inner.free_late(grant, stamp, others),
        }
        Ok(grant.size)
    }

    /// Says that work on another stream uses a held block: when it is freed, what was submitted to that
    /// stream by then is waited for too.
    pub fn record_use(&self, offset: u64, stream: StreamIndex) -> Result<(), Wrong> {
        let Held { lane, mut inner, grant, .. } = self.held(offset)?;
        if stream != lane.stream {
            inner.record_use(grant.id, stream);
        }
        Ok(())
    }

    /// The size of a held block, and the stream it was taken for.
    pub fn find(&self, offset: u64) -> Option<(u64, StreamIndex)> {
        let held = self.held(offset).ok()?;
        Some((held.grant.size, held.lane.stream))
    }

    /// True if the held block was taken for this stream and no use elsewhere was recorded.
    pub fn is_only_of(&self, offset: u64, stream: StreamIndex) -> bool {
        self.held(offset).is_ok_and(|Held { lane, inner, grant, .. }| {
            lane.stream == stream && !inner.is_used_elsewhere(grant.id)
        })
    }

    /// Gives free memory back to the backing until it has at most `keep` bytes from there; returns how
    /// much. Memory that some stream may still use stays.
    pub fn trim(&self, keep: u64) -> u64 {
        let mut root = self.root.lock();
        self.reclaim(&mut root);
        self.release(&mut root, keep)
    }

    /// The stream is gone and all its work done: what it freed is for everybody now. Its index may be
    /// used again.
    pub fn retire(&self, stream: StreamIndex) {
        let Some(lane) = self.lane(stream) else { return };
        let mut root = self.root.lock();
        let ranges = {
            let mut inner = lane.lock();
            self.gather(&mut inner);
            match inner.debts().marks().is_empty() {
                true => inner.tlsf.take_out_holes(|_| true),
                false => Vec::new(),
            }
        };
        ranges.into_iter().for_each(|range| root.tlsf.add(range, 0));
    }

    /// The most bytes that it may have from its backing.
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
            ..Figures::default()
        };
        for lane in self.lanes() {
            let of = self.figures_in(lane);
            sum.live += of.live;
            sum.requested += of.requested;
            sum.waiting += of.waiting;
            sum.blocks += of.blocks;
            sum.taken += of.taken;
            sum.freed += of.freed;
            sum.failed += of.failed;
            sum.largest_hole = sum.largest_hole.max(of.largest_hole);
            sum.peak = of.peak;
        }
        if root.lanes > 1 {
            sum.peak = self.total.peak().max(sum.live);
        }
        sum
    }

    /// The figures of one stream; `None` if it never took anything.
    pub fn figures_of(&self, stream: StreamIndex) -> Option<Figures> {
        self.lane(stream).map(|lane| self.figures_in(lane))
    }

    fn figures_in(&self, lane: &Lane) -> Figures {
        let inner = lane.lock();
        Figures { waiting: self.unfinished(lane, &inner).0, ..inner.figures() }
    }

    /// Forgets all peaks: they are what is live and reserved now.
    pub fn reset_peak(&self) {
        self.reset_peak_live();
        self.reset_peak_reserved();
    }

    /// Forgets how much was live.
    pub fn reset_peak_live(&self) {
        let _still = self.root.lock();
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
        let of = |lane: &Lane| {
            let figures = lane.lock().figures();
            Owner { stream: lane.stream, live: figures.live, blocks: figures.blocks }
        };
        let mut owners: Vec<Owner> = self.lanes().map(of).filter(|o| o.blocks > 0).collect();
        owners.sort_by_key(|owner| (std::cmp::Reverse(owner.live), owner.stream));
        owners
    }

    #[inline]
    fn lane(&self, stream: StreamIndex) -> Option<&Lane> {
        let shelf = self.shelves.get(stream as usize / SHELF)?.get()?;
        shelf[stream as usize % SHELF].get().map(|lane| &**lane)
    }

    fn lanes(&self) -> impl Iterator<Item = &Lane> {
        let highest = self.highest.load(Ordering::Acquire);
        (0..highest as StreamIndex).filter_map(|stream| self.lane(stream))
    }

    /// The held block that begins at an offset: most likely of the stream that got memory there last.
    fn held(&self, offset: u64) -> Result<Held<'_>, Wrong> {
        if !self.ground.has_begun(offset) {
            return Err(Wrong::Unknown);
        }
        let likely = self.ground.stream(offset).and_then(|stream| self.lane(stream));
        let find = |lane| {
            let mut inner = Lane::lock(lane);
            let (grant, bytes) = inner.held(offset)?;
            Some(Held { lane, inner, grant, bytes })
        };
        likely.into_iter().chain(self.lanes()).find_map(find).ok_or(Wrong::NotHeld)
    }

    /// True if whatever runs on `stream` from now on runs after all these points.
    fn may_use(&self, stream: StreamIndex, clock: &Clock) -> bool {
        clock.marks().iter().all(|&epoch| {
            epoch.stream == stream || self.is_done(epoch) || self.progress.is_ordered(stream, epoch)
        })
    }

    fn is_done(&self, epoch: Epoch) -> bool {
        self.progress.finished(epoch.stream) >= epoch.seq
    }

    fn unfinished(&self, lane: &Lane, inner: &Inner) -> (u64, Clock) {
        inner.unfinished(lane.stream, |epoch| self.is_done(epoch))
    }

    /// True if the lane's stream may use what the lane has.
    #[inline]
    fn is_clear(&self, lane: &Lane, inner: &mut Inner) -> bool {
        inner.debts().marks().is_empty() || self.settle(lane, inner)
    }

    #[cold]
    fn settle(&self, lane: &Lane, inner: &mut Inner) -> bool {
        inner.settle(|epoch| self.is_done(epoch));
        self.may_use(lane.stream, inner.debts())
    }

    /// Makes holes of all that a lane has and other streams are done with.
    fn gather(&self, inner: &mut Inner) {
        for &epoch in inner.awaited().marks() {
            if !self.is_done(epoch) {
                self.progress.prove(epoch.stream);
            }
        }
        inner.gather(|epoch| self.is_done(epoch));
        inner.settle(|epoch| self.is_done(epoch));
    }

    #[cold]
    #[inline(never)]
    fn allocate_slowly(&self, bytes: u64, align: u64, stream: StreamIndex) -> Outcome {
        if let Some(grant) = self.take_waited(bytes, align, stream) {
            return grant.into();
        }
        let mut root = self.root.lock();
        let lane = self.open(&mut root, stream);
        let outcome = match self.look(&mut root, lane, bytes, align) {
            Ok(grant) => return grant.into(),
            Err(refused) => self.look_again(&mut root, lane, bytes, align, refused),
        };
        if !matches!(outcome, Outcome::Ready { .. }) {
            lane.lock().count_failure();
        }
        outcome
    }

    /// Takes a block from what the stream's lane has, after others are done with some of it.
    fn take_waited(&self, bytes: u64, align: u64, stream: StreamIndex) -> Option<Grant> {
        let lane = self.lane(stream)?;
        let mut inner = lane.lock();
        let more = inner.gather_first(|epoch| self.is_done(epoch));
        if !more || !self.is_clear(lane, &mut inner) {
            return None;
        }
        lane.take(&mut inner, bytes, align, &self.ground, &self.total)
    }

    /// Looks everywhere. The error is what the backing said, if it was asked.
    fn look(
        &self,
        root: &mut Root,
        lane: &Lane,
        bytes: u64,
        align: u64,
    ) -> Result<Grant, Option<String>> {
        match self.search(root, lane, bytes, align) {
            Some(grant) => Ok(grant),
            None => self.grow(root, lane, bytes, align),
        }
    }

    /// Looks once more before it gives up: streams have gone on meanwhile. What they had not done when
    /// this began is what to wait for; what they had is found. A backing that refused is not asked again.
    fn look_again(
        &self,
        root: &mut Root,
        lane: &Lane,
        bytes: u64,
        align: u64,
        refused: Option<String>,
    ) -> Outcome {
        let (free, clock) = self.unfinished_of_all(root);
        let found = match refused {
            Some(reason) => self.search(root, lane, bytes, align).ok_or(Some(reason)),
            None => self.look(root, lane, bytes, align),
        };
        match found {
            Ok(grant) => grant.into(),
            Err(_) if free >= bytes && !clock.marks().is_empty() => Outcome::Wait(clock),
            Err(Some(reason)) => Outcome::Exhausted(reason),
            Err(None) => Outcome::OverBudget,
        }
    }

    /// The lane of a stream, made if it is the first time.
    fn open(&self, root: &mut MutexGuard<'_, Root>, stream: StreamIndex) -> &Lane {
        let shelf = self
            .shelves
            .get(stream as usize / SHELF)
            .unwrap_or_else(|| panic!("stream {stream}: a pool has room for {}", SHELF * SHELVES))
            .get_or_init(unset);
        let mut fresh = false;
        let lane = shelf[stream as usize % SHELF].get_or_init(|| {
            fresh = true;
            Box::new(Lane::new(stream))
        });
        if fresh {
            root.lanes += 1;
            self.highest.fetch_max(stream as usize + 1, Ordering::AcqRel);
            if root.lanes > 1 {
                self.lanes().for_each(|lane| lane.lock().count_in(&self.total));
            }
        }
        lane
    }

    /// Looks everywhere but in the backing.
    fn search(&self, root: &mut Root, lane: &Lane, bytes: u64, align: u64) -> Option<Grant> {
        let found = self.search_own(lane, bytes, align);
        if found.is_some() {
            return found;
        }
        let (range, owed) = match self.cut_from_root(root, bytes, align) {
            Some(range) => (range, Clock::new()),
            None if root.lanes == 1 && root.tlsf.total() == 0 => return None,
            None => match self.cut_from_others(lane, bytes, align) {
                Some(found) => found,
                None => (self.join_up(root, bytes, align)?, Clock::new()),
            },
        };
        let mut inner = lane.lock();
        lane.take_first(&mut inner, range, &owed, bytes, &self.ground, &self.total)
    }

    fn search_own(&self, lane: &Lane, bytes: u64, align: u64) -> Option<Grant> {
        let mut inner = lane.lock();
        self.gather(&mut inner);
        if !self.is_clear(lane, &mut inner) {
            return None;
        }
        lane.take(&mut inner, bytes, align, &self.ground, &self.total).or_else(|| {
            inner.gather_ordered(|clock| self.may_use(lane.stream, clock));
            lane.take(&mut inner, bytes, align, &self.ground, &self.total)
        })
    }

    fn cut_from_root(&self, root: &mut Root, bytes: u64, align: u64) -> Option<Range<u64>> {
        let more = bytes.saturating_add(helping(bytes));
        let grant = root.tlsf.alloc(more, align).or_else(|| root.tlsf.alloc(bytes, align))?;
        root.tlsf.take_out(grant.id)
    }

    fn cut_from_others(&self, lane: &Lane, bytes: u64, align: u64) -> Option<(Range<u64>, Clock)> {
        for other in self.lanes().filter(|other| other.stream != lane.stream) {
            let finished = self.progress.finished(other.stream);
            let mut inner = other.lock();
            self.gather(&mut inner);
            // What is ordered is so up to some point: few questions answer for all.
            let (mut ordered, mut unordered) = (finished, u64::MAX);
            let mut is_ordered = |seq: u64| {
                if seq > ordered && seq < unordered {
                    let epoch = Epoch { stream: other.stream, seq };
                    match self.progress.is_ordered(lane.stream, epoch) {
                        true => ordered = seq,
                        false => unordered = seq,
                    }
                }
                seq <= ordered
            };
            let found = match self.may_use(lane.stream, inner.debts()) {
                false => None,
                true => inner.cut(other.stream, bytes, align, |stamp, others| {
                    is_ordered(stamp) && others.is_none_or(|clock| self.may_use(lane.stream, clock))
                }),
            };
            let wanted = found.is_none() && inner.has_unfinished(finished);
            drop(inner);
            if let Some((range, mut owed)) = found {
                owed.retain(|epoch| !self.is_done(epoch));
                return Some((range, owed));
            }
            if wanted {
                self.progress.prove(other.stream);
            }
        }
        None
    }

    /// Room for a block where holes of several lanes meet. All of them are done with.
    fn join_up(&self, root: &mut Root, bytes: u64, align: u64) -> Option<Range<u64>> {
        let need = bytes.max(1).checked_next_multiple_of(GRANULE)?;
        let of_root = root.tlsf.holes_where(|_| true);
        let mut pieces: Vec<Piece> =
            of_root.map(|(id, range)| Piece { range, lane: None, id }).collect();
        for lane in self.lanes() {
            let finished = self.progress.finished(lane.stream);
            let mut inner = lane.lock();
            self.gather(&mut inner);
            if inner.debts().marks().is_empty() {
                let holes = inner.tlsf.holes_where(|stamp| stamp <= finished);
                pieces.extend(holes.map(|(id, range)| Piece { range, lane: Some(lane), id }));
            }
        }
        if pieces.iter().map(|p| p.range.end - p.range.start).sum::<u64>() < need {
            return None;
        }
        let pieces = side_by_side(pieces, need, align.max(GRANULE), helping(need))?;
        let mut whole = pieces.first()?.range.clone();
        whole.end = pieces.last()?.range.end;
        for (count, piece) in pieces.iter().enumerate() {
            let taken = match piece.lane {
                None => root.tlsf.take_out_of(piece.id, &piece.range),
                Some(lane) => self.take_done(lane, piece),
            };
            if !taken {
                pieces[..count].iter().for_each(|piece| root.tlsf.add(piece.range.clone(), 0));
                self.reclaim(root);
                return self.cut_from_root(root, bytes, align);
            }
        }
        Some(whole)
    }

    /// Takes a piece out of a lane, if it is still a hole there and done with.
    fn take_done(&self, lane: &Lane, piece: &Piece<'_>) -> bool {
        let finished = self.progress.finished(lane.stream);
        let mut inner = lane.lock();
        inner.debts().marks().is_empty()
            && inner.tlsf.stamp(piece.id).is_some_and(|stamp| stamp <= finished)
            && inner.tlsf.take_out_of(piece.id, &piece.range)
    }

    /// Moves every hole that is done with from the lanes to the root.
    fn reclaim(&self, root: &mut Root) {
        for lane in self.lanes() {
            let finished = self.progress.finished(lane.stream);
            let ranges = {
                let mut inner = lane.lock();
                self.gather(&mut inner);
                match inner.debts().marks().is_empty() {
                    true => inner.tlsf.take_out_holes(|stamp| stamp <= finished),
                    false => Vec::new(),
                }
            };
            ranges.into_iter().for_each(|range| root.tlsf.add(range, 0));
        }
    }

    /// Gets more from the backing.
    fn grow(
        &self,
        root: &mut Root,
        lane: &Lane,
        bytes: u64,
        align: u64,
    ) -> Result<Grant, Option<String>> {
        let need = bytes.max(1).checked_next_multiple_of(GRANULE).ok_or(None)?;
        let room = |root: &Root, more: u64| {
            root.reserved.checked_add(more).is_some_and(|sum| sum <= root.budget)
        };
        if !room(root, need) {
            self.reclaim(root);
            self.release(root, root.budget.saturating_sub(need));
        }
        let own = {
            let mut inner = lane.lock();
            match self.is_clear(lane, &mut inner) {
                true => inner.tlsf.hole_at_end(root.end),
                false => 0,
            }
        };
        let common = root.tlsf.hole_at_end(root.end);
        let from = root.end - own.max(common);
        let padded = from.checked_next_multiple_of(align).and_then(|at| at.checked_add(need));
        let joins = from < root.end && self.backing.is_contiguous();
        let short = padded.filter(|_| joins).and_then(|end| end.checked_sub(root.end));
        let whole = need.saturating_add(align.saturating_sub(GRANULE));
        let mut refused = None;
        for more in short.into_iter().filter(|&more| more > 0).chain([whole]) {
            if !room(root, more) {
                continue;
            }
            match self.backing.extend(more) {
                Err(reason) => refused = Some(reason),
                Ok(range) => {
                    root.reserved += range.end - range.start;
                    root.peak_reserved = root.peak_reserved.max(root.reserved);
                    let lengthens = own > 0 && range.start == root.end && more < whole;
                    root.end = range.end;
                    let mut inner = lane.lock();
                    let is_clear = self.is_clear(lane, &mut inner);
                    let (ground, total) = (&self.ground, &self.total);
                    let granted = if lengthens || (more >= need && align <= GRANULE && is_clear) {
                        // The lane keeps a little over; much more than it needs is for all.
                        let over = more.saturating_add(*HELPING.end());
                        let kept = match root.lanes {
                            1 => range.end,
                            _ => range.end.min(range.start.saturating_add(over)),
                        };
                        root.tlsf.add(kept..range.end, 0);
                        self.ground.settle(range.start..kept, lane.stream);
                        inner.add(range.start..kept);
                        lane.take(&mut inner, bytes, align, ground, total)
                    } else {
                        root.tlsf.add(range, 0);
                        self.cut_from_root(root, bytes, align).and_then(|piece| {
                            let owed = Clock::new();
                            lane.take_first(&mut inner, piece, &owed, bytes, ground, total)
                        })
                    };
                    if let Some(grant) = granted {
                        return Ok(grant);
                    }
                }
            }
        }
        Err(refused)
    }

    /// Bytes that are free, or will be, and the points that they wait for.
    fn unfinished_of_all(&self, root: &Root) -> (u64, Clock) {
        let mut free = root.tlsf.total();
        let mut clock = Clock::new();
        for lane in self.lanes() {
            let (bytes, unfinished) = self.unfinished(lane, &lane.lock());
            if bytes > 0 {
                self.progress.prove(lane.stream);
            }
            free += bytes;
            clock.join(&unfinished);
        }
        (free, clock)
    }

    /// Releases holes of the root, the highest first, until at most `keep` bytes are reserved.
    fn release(&self, root: &mut Root, keep: u64) -> u64 {
        let before = root.reserved;
        let holes: Vec<_> = root.tlsf.holes().map(|(at, size, _)| at..at + size).collect();
        for hole in holes.into_iter().rev() {
            let excess = root.reserved.saturating_sub(keep) / GRANULE * GRANULE;
            if excess == 0 {
                break;
            }
            let from = hole.end - excess.min(hole.end - hole.start);
            for gone in self.backing.release(from..hole.end) {
                root.reserved -= gone.end - gone.start;
                root.tlsf.take_out_range(gone);
            }
        }
        before - root.reserved
    }
}

/// What a lane gets beyond its need.
fn helping(bytes: u64) -> u64 {
    bytes.clamp(*HELPING.start(), *HELPING.end())
}
