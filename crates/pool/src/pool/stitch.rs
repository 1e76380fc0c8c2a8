//! Stitching: pages of several holes, put side by side at new addresses, become one block.
//!
//! ```text
//! before    |#A#|  hole 1  |#B#| hole 2 |#C#|   hole 3   |#D#|          each hole is too small for the block
//!                  │ pages       │              │
//! after     |#A#|- - - - - |#B#|- - - - |#C#|- - - |hole |#D#|   ...   |  1   |  2  | 3 |fresh|
//!                no memory                                             └────── the block ──────┘
//! ```
//!
//! Nothing is copied and nobody waits. From then on the new range is memory like any other: it is kept, cut, merged with
//! its neighbours, and its pages may move on into another block. A page is at one place only, as far as the pool is
//! concerned; so every figure and every rule of order holds as before.
//!
//! **When.** Before the pool grows, but not with every block: a lane has a credit ([`LaneState::has_credit`]). When nothing else helps,
//! always.
//!
//! **Order.** The stream may use holes that it may use anyway, finished or not, if the source keeps the old addresses
//! usable for tasks that were submitted; these addresses wait in [`Vacating`] until the tasks are done. Of a source that does not,
//! only memory that nobody uses is moved.

use super::{Pool, Root};
use crate::clock::{Clock, Epoch};
use crate::lane::{Lane, LaneState, Placed};
use crate::progress::{Progress, SegmentSource, StitchRequest, Stitching};
use crate::tlsf::BlockId;
use smallvec::{SmallVec, smallvec};
use std::ops::Range;

/// Pieces whose old addresses wait; with more, only memory that nobody uses is moved.
const MAX_VACATING: usize = 4096;
/// A pool of which more than this share of what is live is free earns no credit: there stitching did not help, and each stitch
/// cuts memory that lies in one piece.
const MAX_FREE_SHARE: u64 = 8;
/// A block keeps the rest of its last page, if pages are no larger than this.
const SMALL_PAGE: u64 = 64 << 10;

/// Old addresses of moved pages, which tasks may use up to these epochs.
pub(super) struct Vacating {
    range: Range<u64>,
    uses: Clock,
}

/// A hole of a lane, or of the root. No lock is held: it may have changed, so whoever takes it checks it again.
#[derive(Clone)]
struct Part<'a> {
    range: Range<u64>,
    /// `None` for the root.
    lane: Option<&'a Lane>,
    id: BlockId,
}

/// Holes that lie side by side, or as much of them as is in `range`.
#[derive(Clone)]
struct Run<'a> {
    range: Range<u64>,
    parts: SmallVec<[Part<'a>; 1]>,
}

/// A part of a hole that was taken out, and the last task of its lane when it was freed.
struct TakenPart<'a> {
    range: Range<u64>,
    lane: Option<&'a Lane>,
    freed_seq: u64,
}

/// What was taken out of holes, and the tasks that may still use it.
#[derive(Default)]
struct Taken<'a> {
    parts: Vec<TakenPart<'a>>,
    runs: Vec<Vacating>,
}

impl<'a> Run<'a> {
    fn bytes(&self) -> u64 {
        self.range.end - self.range.start
    }

    /// The part from the first multiple of `align` on.
    fn aligned_to(mut self, align: u64) -> Option<Run<'a>> {
        self.range.start = self.range.start.checked_next_multiple_of(align)?;
        (self.range.start < self.range.end).then_some(self)
    }

    /// The whole pages of it, if there are enough.
    fn pages(mut self, how: &Stitching) -> Option<Run<'a>> {
        self.range.start = self.range.start.next_multiple_of(how.page);
        self.range.end = self.range.end / how.page * how.page;
        (self.range.start < self.range.end && self.bytes() >= how.min_piece).then_some(self)
    }
}

impl<P: Progress, S: SegmentSource> Pool<P, S> {
    /// The page of a source that stitches large ones: where blocks lie then decides what can be moved.
    pub(super) fn large_page(&self) -> Option<u64> {
        self.source.stitching().map(|how| how.page).filter(|&page| page > SMALL_PAGE)
    }

    /// [`Pool::stitch`], unless the lane did that often lately.
    pub(super) fn stitch_if_it_pays(
        &self,
        root: &mut Root,
        lane: &Lane,
        bytes: u64,
        align: u64,
    ) -> Option<Placed> {
        self.source.stitching().filter(|how| bytes >= how.min_block)?;
        let live: u64 = self.lanes().map(|lane| lane.lock().live()).sum();
        let is_tight = root.reserved <= live.saturating_add(live / MAX_FREE_SHARE);
        if !lane.lock().has_credit(is_tight) {
            return None;
        }
        let stitched = root.stitched;
        let placed = self.stitch(root, lane, bytes, align);
        if root.stitched > stitched {
            lane.lock().spend_credit();
        }
        placed
    }

    /// Serves a request with pages of holes, and with fresh ones as far as those are not enough. `None` if the source cannot, or it
    /// does not pay, or the budget is too small.
    pub(super) fn stitch(
        &self,
        root: &mut Root,
        lane: &Lane,
        bytes: u64,
        align: u64,
    ) -> Option<Placed> {
        let mut how = self.source.stitching()?;
        let size = bytes.max(1).checked_next_multiple_of(how.page)?;
        if size < how.min_block || align > how.page {
            return None;
        }
        self.vacate_finished(root);
        how.keeps_addresses &= root.vacating.len() < MAX_VACATING;
        let mut others = runs(self.movable_holes(root, lane, &how));
        let pages_after = |tail: &Run<'_>| (bytes - tail.bytes()).next_multiple_of(how.page);
        let tail = match how.extends_end {
            true => others.iter().find(|run| run.range.end == root.end).cloned(),
            false => None,
        };
        let tail = tail.and_then(|tail| tail.aligned_to(align));
        let tail = tail.filter(|tail| tail.bytes() < bytes && pages_after(tail) < size);
        let Some(tail) = tail else {
            return self.stitch_runs(root, lane, others, None, (bytes, size), &how);
        };
        others.retain(|run| run.range.end != root.end);
        let need = pages_after(&tail);
        self.stitch_runs(root, lane, others, Some(tail), (bytes, need), &how).or_else(|| {
            // Where nothing can be put right after the last memory, its pages move like others.
            let all = runs(self.movable_holes(root, lane, &how));
            self.stitch_runs(root, lane, all, None, (bytes, size), &how)
        })
    }

    /// Puts `need` bytes of pages side by side, right after `tail` if there is one, of these runs as far as they have them; and makes
    /// a block of `bytes` bytes there.
    fn stitch_runs<'a>(
        &'a self,
        root: &mut Root,
        lane: &'a Lane,
        runs: Vec<Run<'a>>,
        tail: Option<Run<'a>>,
        (bytes, need): (u64, u64),
        how: &Stitching,
    ) -> Option<Placed> {
        let pages = runs.into_iter().filter_map(|run| run.pages(how)).collect();
        let chosen = choose(pages, need, how.max_pieces);
        if chosen.is_empty() && tail.is_none() {
            return None;
        }
        let fresh = need - chosen.iter().map(Run::bytes).sum::<u64>();
        if root.reserved.checked_add(fresh).is_none_or(|sum| sum > root.budget) {
            return None;
        }
        let after = tail.as_ref().map(|tail| tail.range.end);
        let mut taken = self.take_out(root, lane, tail.into_iter().chain(chosen), how)?;
        let moved = &taken.runs[usize::from(after.is_some())..];
        let pieces: Vec<_> = moved.iter().map(|run| run.range.clone()).collect();
        let in_use = moved.iter().any(|run| !run.uses.epochs().is_empty());
        let request = StitchRequest { pieces: &pieces, fresh, after, in_use };
        let Ok(mut range) = self.source.stitch(&request) else {
            self.give_back(root, taken.parts);
            return None;
        };
        root.reserved += fresh;
        root.note_reserved();
        root.end = root.end.max(range.end);
        root.stitched += need - fresh;
        let mut uses = Clock::new();
        taken.runs.iter().for_each(|run| uses.join(&run.uses));
        if after.is_some() {
            range.start = taken.runs.remove(0).range.start;
        }
        root.vacating.append(&mut taken.runs);
        self.vacate_finished(root);
        let size = if how.page <= SMALL_PAGE { range.end - range.start } else { bytes };
        self.take_stitched(lane, range, uses, (bytes, size))
    }

    /// Makes the new range a block of the lane, of `size` bytes; the rest is a hole.
    fn take_stitched(
        &self,
        lane: &Lane,
        range: Range<u64>,
        mut uses: Clock,
        (bytes, size): (u64, u64),
    ) -> Option<Placed> {
        let freed_seq = uses.get(lane.stream);
        uses.retain(|epoch| epoch.stream != lane.stream);
        let mut state = lane.lock();
        lane.add_stitched(
            &mut state,
            range,
            (&uses, freed_seq),
            (bytes, size),
            &self.offset_table,
            &self.total,
        )
    }

    /// Lets the source have old addresses that no task uses any more.
    pub(super) fn vacate_finished(&self, root: &mut Root) {
        root.vacating.retain_mut(|Vacating { range, uses }| {
            uses.retain(|epoch| !self.is_done(epoch));
            if uses.epochs().is_empty() {
                self.source.vacate(range.clone());
            }
            !uses.epochs().is_empty()
        });
    }

    /// All holes that the lane's stream may use, as far as they can be moved.
    fn movable_holes<'a>(&'a self, root: &Root, lane: &Lane, how: &Stitching) -> Vec<Part<'a>> {
        let holes = root.tlsf.holes_where(|_| true);
        let mut parts: Vec<_> = holes.map(|(id, range)| Part { range, lane: None, id }).collect();
        for owner in self.lanes() {
            let mut state = owner.lock();
            self.reclaim_lane(&mut state);
            let may_move = |seq| self.uses_of(lane, owner, &state, seq, how).is_some();
            let holes = state.tlsf.holes_where(may_move);
            parts.extend(holes.map(|(id, range)| Part { range, lane: Some(owner), id }));
        }
        parts
    }

    /// The unfinished uses of a hole, if the lane's stream may have its pages nevertheless.
    fn uses_of(
        &self,
        lane: &Lane,
        owner: &Lane,
        state: &LaneState,
        freed_seq: u64,
        how: &Stitching,
    ) -> Option<Clock> {
        let is_done = self.is_done(Epoch { stream: owner.stream, seq: freed_seq });
        if is_done && state.pending_uses().epochs().is_empty() {
            return Some(Clock::new());
        }
        let mut uses = state.pending_uses().clone();
        if freed_seq > 0 {
            uses.raise(Epoch { stream: owner.stream, seq: freed_seq });
        }
        uses.retain(|epoch| !self.is_done(epoch));
        let is_free =
            uses.epochs().is_empty() || (how.keeps_addresses && self.may_use(lane.stream, &uses));
        is_free.then_some(uses)
    }

    /// Takes runs out of their holes; all, or none if one of them is gone.
    fn take_out<'a>(
        &self,
        root: &mut Root,
        lane: &Lane,
        runs: impl Iterator<Item = Run<'a>>,
        how: &Stitching,
    ) -> Option<Taken<'a>> {
        let mut taken = Taken::default();
        for run in runs {
            let mut run_uses = Clock::new();
            for Part { range, lane: owner, id } in run.parts {
                let range = range.start.max(run.range.start)..range.end.min(run.range.end);
                if range.is_empty() {
                    continue;
                }
                let found = match owner {
                    None => root.tlsf.take_out_of(id, &range).then(|| (0, Clock::new())),
                    Some(owner) => {
                        let mut state = owner.lock();
                        let freed_seq = state.tlsf.freed_seq(id);
                        freed_seq
                            .and_then(|seq| {
                                Some((seq, self.uses_of(lane, owner, &state, seq, how)?))
                            })
                            .filter(|_| state.tlsf.take_out_of(id, &range))
                    }
                };
                let Some((freed_seq, uses)) = found else {
                    self.give_back(root, taken.parts);
                    return None;
                };
                run_uses.join(&uses);
                taken.parts.push(TakenPart { range, lane: owner, freed_seq });
            }
            taken.runs.push(Vacating { range: run.range, uses: run_uses });
        }
        Some(taken)
    }

    /// Makes what was taken out holes again.
    fn give_back(&self, root: &mut Root, parts: Vec<TakenPart<'_>>) {
        for TakenPart { range, lane, freed_seq } in parts {
            match lane {
                None => root.tlsf.add(range, 0),
                Some(lane) => lane.lock().tlsf.add(range, freed_seq),
            }
        }
    }
}

/// Holes that lie side by side, together.
fn runs(mut parts: Vec<Part<'_>>) -> Vec<Run<'_>> {
    parts.sort_unstable_by_key(|part| part.range.start);
    let mut runs: Vec<Run<'_>> = Vec::new();
    for part in parts {
        match runs.last_mut() {
            Some(run) if run.range.end == part.range.start => {
                run.range.end = part.range.end;
                run.parts.push(part);
            }
            _ => runs.push(Run { range: part.range.clone(), parts: smallvec![part] }),
        }
    }
    runs
}

/// As few runs as together have `need` bytes, the last one cut; or the `max` largest, if that is not enough.
fn choose(mut runs: Vec<Run<'_>>, need: u64, max: usize) -> Vec<Run<'_>> {
    runs.sort_unstable_by_key(|run| (run.bytes(), run.range.start));
    let mut chosen = Vec::new();
    let mut missing = need;
    while missing > 0
        && chosen.len() < max
        && let Some(largest) = runs.last()
    {
        let at = match largest.bytes() >= missing {
            true => runs.partition_point(|run| run.bytes() < missing),
            false => runs.len() - 1,
        };
        let mut run = runs.remove(at);
        run.range.end = run.range.end.min(run.range.start + missing);
        missing -= run.bytes();
        chosen.push(run);
    }
    chosen
}
