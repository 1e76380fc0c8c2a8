//! How the pool finds memory beyond what a lane has at hand, and gives it back.

use super::{Outcome, PAGE, PAGES, Pool, Root};
use crate::clock::{Clock, Epoch, StreamIndex};
use crate::granule_table::empty_cells;
use crate::lane::Lane;
use crate::piece::{Piece, side_by_side};
use crate::progress::{Progress, SegmentSource};
use crate::tlsf::{GRANULE, Grant};
use cairn_sync::lock::MutexGuard;
use cairn_sync::sync::atomic::Ordering;
use std::ops::{Range, RangeInclusive};

/// What a lane takes from the common stock beyond its need, if there is more: as much again, within these.
const HELPING: RangeInclusive<u64> = 64 << 10..=1 << 20;

impl<P: Progress, B: SegmentSource> Pool<P, B> {
    #[cold]
    #[inline(never)]
    pub(super) fn allocate_slowly(&self, bytes: u64, align: u64, stream: StreamIndex) -> Outcome {
        if let Some(grant) = self.take_finished(bytes, align, stream) {
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
    fn take_finished(&self, bytes: u64, align: u64, stream: StreamIndex) -> Option<Grant> {
        let lane = self.lane(stream)?;
        let mut state = lane.lock();
        let more = state.reclaim_first(|epoch| self.is_done(epoch));
        if !more || !self.is_clear(lane, &mut state) {
            return None;
        }
        lane.take(&mut state, bytes, align, &self.offset_table, &self.total)
    }

    /// Looks everywhere. The error is what the source said, if it was asked.
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
    /// this began is what to wait for; what they had is found. A source that refused is not asked again.
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
            Err(_) if free >= bytes && !clock.epochs().is_empty() => Outcome::Wait(clock),
            Err(Some(reason)) => Outcome::Exhausted(reason),
            Err(None) => Outcome::OverBudget,
        }
    }

    /// The lane of a stream, made if it is the first time.
    fn open(&self, root: &mut MutexGuard<'_, Root>, stream: StreamIndex) -> &Lane {
        let page = self
            .pages
            .get(stream as usize / PAGE)
            .unwrap_or_else(|| panic!("stream {stream}: a pool has room for {}", PAGE * PAGES))
            .get_or_init(empty_cells);
        let mut fresh = false;
        let lane = page[stream as usize % PAGE].get_or_init(|| {
            fresh = true;
            Box::new(Lane::new(stream))
        });
        if fresh {
            root.lanes += 1;
            self.highest.fetch_max(stream as usize + 1, Ordering::AcqRel);
            if root.lanes > 1 {
                self.lanes().for_each(|lane| lane.lock().start_counting(&self.total));
            }
        }
        lane
    }

    /// Looks everywhere but in the source.
    fn search(&self, root: &mut Root, lane: &Lane, bytes: u64, align: u64) -> Option<Grant> {
        let found = self.search_own(lane, bytes, align);
        if found.is_some() {
            return found;
        }
        let (range, pending_uses) = match self.cut_from_root(root, bytes, align) {
            Some(range) => (range, Clock::new()),
            None if root.lanes == 1 && root.tlsf.total() == 0 => return None,
            None => match self.cut_from_others(lane, bytes, align) {
                Some(found) => found,
                None => (self.join_up(root, bytes, align)?, Clock::new()),
            },
        };
        let mut state = lane.lock();
        lane.add_and_take(&mut state, range, &pending_uses, bytes, &self.offset_table, &self.total)
    }

    fn search_own(&self, lane: &Lane, bytes: u64, align: u64) -> Option<Grant> {
        let mut state = lane.lock();
        self.reclaim_lane(&mut state);
        if !self.is_clear(lane, &mut state) {
            return None;
        }
        lane.take(&mut state, bytes, align, &self.offset_table, &self.total).or_else(|| {
            state.reclaim_ordered(|clock| self.may_use(lane.stream, clock));
            lane.take(&mut state, bytes, align, &self.offset_table, &self.total)
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
            let mut state = other.lock();
            self.reclaim_lane(&mut state);
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
            let found = match self.may_use(lane.stream, state.pending_uses()) {
                false => None,
                true => {
                    state.take_for_other_stream(other.stream, bytes, align, |freed_seq, others| {
                        is_ordered(freed_seq)
                            && others.is_none_or(|clock| self.may_use(lane.stream, clock))
                    })
                }
            };
            let wanted = found.is_none() && state.has_unfinished(finished);
            drop(state);
            if let Some((range, mut pending_uses)) = found {
                pending_uses.retain(|epoch| !self.is_done(epoch));
                return Some((range, pending_uses));
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
            let mut state = lane.lock();
            self.reclaim_lane(&mut state);
            if state.pending_uses().epochs().is_empty() {
                let holes = state.tlsf.holes_where(|freed_seq| freed_seq <= finished);
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
                self.reclaim_all(root);
                return self.cut_from_root(root, bytes, align);
            }
        }
        Some(whole)
    }

    /// Takes a piece out of a lane, if it is still a hole there and done with.
    fn take_done(&self, lane: &Lane, piece: &Piece<'_>) -> bool {
        let finished = self.progress.finished(lane.stream);
        let mut state = lane.lock();
        state.pending_uses().epochs().is_empty()
            && state.tlsf.freed_seq(piece.id).is_some_and(|freed_seq| freed_seq <= finished)
            && state.tlsf.take_out_of(piece.id, &piece.range)
    }

    /// Moves every hole that no stream uses any more from the lanes to the root.
    pub(super) fn reclaim_all(&self, root: &mut Root) {
        for lane in self.lanes() {
            let finished = self.progress.finished(lane.stream);
            let ranges = {
                let mut state = lane.lock();
                self.reclaim_lane(&mut state);
                match state.pending_uses().epochs().is_empty() {
                    true => state.tlsf.take_out_holes(|freed_seq| freed_seq <= finished),
                    false => Vec::new(),
                }
            };
            ranges.into_iter().for_each(|range| root.tlsf.add(range, 0));
        }
    }

    /// Gets more from the source.
    fn grow(
        &self,
        root: &mut Root,
        lane: &Lane,
        bytes: u64,
        align: u64,
    ) -> Result<Grant, Option<String>> {
        let need = bytes.max(1).checked_next_multiple_of(GRANULE).ok_or(None)?;
        let fits = |root: &Root, more: u64| {
            root.reserved.checked_add(more).is_some_and(|sum| sum <= root.budget)
        };
        if !fits(root, need) {
            self.reclaim_all(root);
            self.release(root, root.budget.saturating_sub(need));
        }
        let own = {
            let mut state = lane.lock();
            match self.is_clear(lane, &mut state) {
                true => state.tlsf.hole_at_end(root.end),
                false => 0,
            }
        };
        let common = root.tlsf.hole_at_end(root.end);
        let from = root.end - own.max(common);
        let padded = from.checked_next_multiple_of(align).and_then(|at| at.checked_add(need));
        let joins = from < root.end && self.source.is_contiguous();
        let short = padded.filter(|_| joins).and_then(|end| end.checked_sub(root.end));
        let whole = need.saturating_add(align.saturating_sub(GRANULE));
        let mut refused = None;
        for more in short.into_iter().filter(|&more| more > 0).chain([whole]) {
            if !fits(root, more) {
                continue;
            }
            match self.source.extend(more) {
                Err(reason) => refused = Some(reason),
                Ok(range) => {
                    root.reserved += range.end - range.start;
                    root.peak_reserved = root.peak_reserved.max(root.reserved);
                    let lengthens = own > 0 && range.start == root.end && more < whole;
                    root.end = range.end;
                    let mut state = lane.lock();
                    let is_clear = self.is_clear(lane, &mut state);
                    let (offset_table, total) = (&self.offset_table, &self.total);
                    let granted = if lengthens || (more >= need && align <= GRANULE && is_clear) {
                        // The lane keeps a little over; much more than it needs is for all.
                        let over = more.saturating_add(*HELPING.end());
                        let kept = match root.lanes {
                            1 => range.end,
                            _ => range.end.min(range.start.saturating_add(over)),
                        };
                        root.tlsf.add(kept..range.end, 0);
                        self.offset_table.set_stream(range.start..kept, lane.stream);
                        state.add(range.start..kept);
                        lane.take(&mut state, bytes, align, offset_table, total)
                    } else {
                        root.tlsf.add(range, 0);
                        self.cut_from_root(root, bytes, align).and_then(|piece| {
                            let pending_uses = Clock::new();
                            lane.add_and_take(
                                &mut state,
                                piece,
                                &pending_uses,
                                bytes,
                                offset_table,
                                total,
                            )
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
    pub(super) fn release(&self, root: &mut Root, keep: u64) -> u64 {
        let before = root.reserved;
        let holes: Vec<_> = root.tlsf.holes().map(|(at, size, _)| at..at + size).collect();
        for hole in holes.into_iter().rev() {
            let excess = root.reserved.saturating_sub(keep) / GRANULE * GRANULE;
            if excess == 0 {
                break;
            }
            let from = hole.end - excess.min(hole.end - hole.start);
            for gone in self.source.release(from..hole.end) {
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
