//! The slow path: how the pool finds memory beyond the holes of one lane, and gives it back.

use super::{Outcome, Pool, Root};
use crate::clock::{Clock, Epoch, StreamIndex};
use crate::lane::{Lane, Placed};
use crate::piece::{Piece, find_adjacent};
use crate::progress::{Progress, SegmentSource};
use crate::tlsf::GRANULE;
use cairn_sync::lock::MutexGuard;
use std::ops::{Range, RangeInclusive};

/// A lane that takes memory from the root gets more than it needs, if there is: as much again, within these bounds.
const EXTRA: RangeInclusive<u64> = 64 << 10..=1 << 20;

impl<P: Progress, S: SegmentSource> Pool<P, S> {
    #[cold]
    #[inline(never)]
    pub(super) fn allocate_slowly(&self, bytes: u64, align: u64, stream: StreamIndex) -> Outcome {
        if let Some(placed) = self.take_after_reclaim(bytes, align, stream) {
            return placed.into();
        }
        let mut root = self.root.lock();
        let lane = self.open_lane(&mut root, stream);
        let outcome = match self.search_or_grow(&mut root, lane, bytes, align) {
            Ok(placed) => return placed.into(),
            Err(refused) => self.retry(&mut root, lane, bytes, align, refused),
        };
        if !matches!(outcome, Outcome::Ready { .. }) {
            lane.lock().count_failure();
        }
        outcome
    }

    /// Takes a block from the stream's lane, if other streams have finished with some of its freed blocks.
    fn take_after_reclaim(&self, bytes: u64, align: u64, stream: StreamIndex) -> Option<Placed> {
        let lane = self.lane(stream)?;
        let mut state = lane.lock();
        let reclaimed = state.reclaim_first(|epoch| self.is_done(epoch));
        if !reclaimed || !self.may_use_lane(lane, &mut state) {
            return None;
        }
        lane.take(&mut state, bytes, align, &self.offset_table, &self.total)
    }

    /// Searches everywhere, then asks the source. The error is the reason of the source, if it was asked and refused.
    fn search_or_grow(
        &self,
        root: &mut Root,
        lane: &Lane,
        bytes: u64,
        align: u64,
    ) -> Result<Placed, Option<String>> {
        let found = self.search(root, lane, bytes, align);
        match found.or_else(|| self.stitch_if_it_pays(root, lane, bytes, align)) {
            Some(placed) => Ok(placed),
            None => self.grow(root, lane, bytes, align),
        }
    }

    /// Searches once more before it gives up, because streams have made progress meanwhile: what they had finished when
    /// this began is found, and the rest is what to wait for. A source that refused is not asked again.
    fn retry(
        &self,
        root: &mut Root,
        lane: &Lane,
        bytes: u64,
        align: u64,
        refused: Option<String>,
    ) -> Outcome {
        let (free, clock) = self.unfinished_of_all(root);
        let found = match refused {
            Some(reason) => {
                let found = self.search(root, lane, bytes, align);
                found.or_else(|| self.stitch(root, lane, bytes, align)).ok_or(Some(reason))
            }
            None => self
                .search_or_grow(root, lane, bytes, align)
                .or_else(|refused| self.stitch(root, lane, bytes, align).ok_or(refused)),
        };
        match found {
            Ok(placed) => placed.into(),
            Err(_) if free >= bytes && !clock.epochs().is_empty() => Outcome::Wait(clock),
            Err(Some(reason)) => Outcome::Exhausted(reason),
            Err(None) => Outcome::OverBudget,
        }
    }

    /// The lane of a stream, made on first use.
    fn open_lane(&self, root: &mut MutexGuard<'_, Root>, stream: StreamIndex) -> &Lane {
        let (lane, is_new) = self.lanes.open(stream);
        if is_new {
            let page = self.large_page();
            lane.lock().set_page(page);
            root.lanes += 1;
            if root.lanes > 1 {
                self.lanes().for_each(|lane| lane.lock().start_counting(&self.total));
            }
        }
        lane
    }

    /// Searches everywhere but in the source.
    fn search(&self, root: &mut Root, lane: &Lane, bytes: u64, align: u64) -> Option<Placed> {
        let found = self.search_lane(lane, bytes, align);
        if found.is_some() {
            return found;
        }
        let (range, pending_uses) = match self.take_from_root(root, bytes, align) {
            Some(range) => (range, Clock::new()),
            None if root.lanes == 1 && root.tlsf.total() == 0 => return None,
            None => match self.take_from_other_lanes(lane, bytes, align) {
                Some(found) => found,
                None => (self.take_adjacent(root, bytes, align)?, Clock::new()),
            },
        };
        let mut state = lane.lock();
        lane.add_and_take(&mut state, range, &pending_uses, bytes, &self.offset_table, &self.total)
    }

    /// Takes a block from the lane, after all that can be reclaimed is.
    fn search_lane(&self, lane: &Lane, bytes: u64, align: u64) -> Option<Placed> {
        let mut state = lane.lock();
        self.reclaim_lane(&mut state);
        if !self.may_use_lane(lane, &mut state) {
            return None;
        }
        lane.take(&mut state, bytes, align, &self.offset_table, &self.total).or_else(|| {
            state.reclaim_ordered(|clock| self.may_use(lane.stream, clock));
            lane.take(&mut state, bytes, align, &self.offset_table, &self.total)
        })
    }

    /// Takes a range for a block out of the root, with some extra if there is.
    fn take_from_root(&self, root: &mut Root, bytes: u64, align: u64) -> Option<Range<u64>> {
        let with_extra = bytes.saturating_add(extra(bytes));
        let grant = root.tlsf.alloc(with_extra, align).or_else(|| root.tlsf.alloc(bytes, align))?;
        root.tlsf.take_out(grant.id)
    }

    /// Takes a range for a block out of another lane, and the uses that are pending for it.
    fn take_from_other_lanes(
        &self,
        lane: &Lane,
        bytes: u64,
        align: u64,
    ) -> Option<(Range<u64>, Clock)> {
        for other in self.lanes().filter(|other| other.stream != lane.stream) {
            let finished = self.progress.finished(other.stream);
            let mut state = other.lock();
            self.reclaim_lane(&mut state);
            // Tasks of a stream are ordered up to some number: few questions answer for all.
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
            let has_waiting = found.is_none() && state.has_unfinished(finished);
            drop(state);
            if let Some((range, mut pending_uses)) = found {
                pending_uses.retain(|epoch| !self.is_done(epoch));
                return Some((range, pending_uses));
            }
            if has_waiting {
                self.progress.start_query(other.stream);
            }
        }
        None
    }

    /// Takes a range for a block where holes of several lanes lie side by side. No stream uses any of them.
    fn take_adjacent(&self, root: &mut Root, bytes: u64, align: u64) -> Option<Range<u64>> {
        let need = bytes.max(1).checked_next_multiple_of(GRANULE)?;
        let root_holes = root.tlsf.holes_where(|_| true);
        let mut pieces: Vec<Piece> =
            root_holes.map(|(id, range)| Piece { range, lane: None, id }).collect();
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
        let pieces = find_adjacent(pieces, need, align.max(GRANULE), extra(need))?;
        let range = pieces.first()?.range.start..pieces.last()?.range.end;
        for (count, piece) in pieces.iter().enumerate() {
            let taken = match piece.lane {
                None => root.tlsf.take_out_of(piece.id, &piece.range),
                Some(lane) => self.take_finished_piece(lane, piece),
            };
            if !taken {
                pieces[..count].iter().for_each(|piece| root.tlsf.add(piece.range.clone(), 0));
                self.reclaim_all(root);
                return self.take_from_root(root, bytes, align);
            }
        }
        Some(range)
    }

    /// Takes a piece out of a lane, if it is still a hole there and no stream uses it.
    fn take_finished_piece(&self, lane: &Lane, piece: &Piece<'_>) -> bool {
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
    ) -> Result<Placed, Option<String>> {
        let need = bytes.max(1).checked_next_multiple_of(GRANULE).ok_or(None)?;
        let fits = |root: &Root, more: u64| {
            root.reserved.checked_add(more).is_some_and(|sum| sum <= root.budget)
        };
        if !fits(root, need) {
            self.reclaim_all(root);
            self.release(root, root.budget.saturating_sub(need));
        }
        let lane_tail = {
            let mut state = lane.lock();
            match self.may_use_lane(lane, &mut state) {
                true => state.tlsf.hole_at_end(root.end),
                false => 0,
            }
        };
        let root_tail = root.tlsf.hole_at_end(root.end);
        let tail_start = root.end - lane_tail.max(root_tail);
        let block_end =
            tail_start.checked_next_multiple_of(align).and_then(|start| start.checked_add(need));
        let extends_tail = tail_start < root.end && self.source.is_contiguous();
        let missing = block_end.filter(|_| extends_tail).and_then(|end| end.checked_sub(root.end));
        // A block that saves no page by its tail is better off in whole pages.
        let page = self.large_page().unwrap_or(GRANULE);
        let missing = missing.filter(|more| more.div_ceil(page) < need.div_ceil(page));
        let full = need.saturating_add(align.saturating_sub(GRANULE));
        let mut refused = None;
        for more in missing.into_iter().filter(|&more| more > 0).chain([full]) {
            if !fits(root, more) {
                continue;
            }
            match self.source.extend(more) {
                Err(reason) => refused = Some(reason),
                Ok(range) => {
                    root.reserved += range.end - range.start;
                    root.note_reserved();
                    let extends_lane = lane_tail > 0 && range.start == root.end && more < full;
                    root.end = range.end;
                    let page = self.large_page();
                    let mut state = lane.lock();
                    state.set_page(page);
                    let may_use_lane = self.may_use_lane(lane, &mut state);
                    let (offset_table, total) = (&self.offset_table, &self.total);
                    let placed =
                        if extends_lane || (more >= need && align <= GRANULE && may_use_lane) {
                            // The lane keeps a little extra, or the rest of a large page; what is beyond goes to the root.
                            let most = more.saturating_add(page.unwrap_or(*EXTRA.end()));
                            let lane_end = match root.lanes {
                                1 => range.end,
                                _ => range.end.min(range.start.saturating_add(most)),
                            };
                            root.tlsf.add(lane_end..range.end, 0);
                            self.offset_table.set_stream(range.start..lane_end, lane.stream);
                            state.add(range.start..lane_end);
                            lane.take(&mut state, bytes, align, offset_table, total)
                        } else {
                            root.tlsf.add(range, 0);
                            self.take_from_root(root, bytes, align).and_then(|piece| {
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
                    if let Some(placed) = placed {
                        return Ok(placed);
                    }
                }
            }
        }
        Err(refused)
    }

    /// Bytes that are free, or will be, and the epochs that they wait for.
    fn unfinished_of_all(&self, root: &Root) -> (u64, Clock) {
        let mut free = root.tlsf.total();
        let mut clock = Clock::new();
        for lane in self.lanes() {
            let (bytes, unfinished) = self.unfinished(lane, &lane.lock());
            if bytes > 0 {
                self.progress.start_query(lane.stream);
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

/// The bytes that a lane gets beyond the `bytes` it needs.
fn extra(bytes: u64) -> u64 {
    bytes.clamp(*EXTRA.start(), *EXTRA.end())
}
