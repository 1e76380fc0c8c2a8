//! Segments: what a pool takes of an arena, and gives back in parts.

use super::{Allocation, Arena, Attempt, GRANULE, Inner, POOL, ReuseCondition};
use std::ops::Range;

impl Arena {
    /// Makes a segment of whole granules for a pool. It counts as live until [`Arena::end_segment`].
    pub fn segment(&self, bytes: u64, pool: u32) -> std::result::Result<Range<u64>, Attempt> {
        let mut inner = self.inner.lock();
        self.release_quarantined(&mut inner, ReuseCondition::Synchronized, u64::MAX);
        if bytes > self.capacity - inner.live || bytes > self.budget.available() {
            return Err(Attempt::Exhausted);
        }
        let free = (self.capacity - inner.live).saturating_sub(inner.waiting());
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
        inner.raise_peaks();
        let range = inner.tlsf.take_out(grant.id).expect("granted just now");
        self.add_segment(range.clone(), POOL | pool);
        self.emit_usage(&inner);
        Ok(range)
    }

    /// Takes back a part of a pool's segments in which no block is; its pages go back to the operating system.
    pub fn end_segment(&self, range: Range<u64>) {
        let mut inner = self.inner.lock();
        self.remove_segment(&range);
        self.free_segment(&mut inner, range);
        self.emit_usage(&inner);
    }

    /// All segments of a pool; adjacent ones as one range.
    pub fn segments_of(&self, pool: u32) -> Vec<Range<u64>> {
        let _inner = self.inner.lock();
        let segments = self.ranges.all().filter(|found| found.tag == POOL | pool);
        segments.map(|found| found.start..found.start + found.size).collect()
    }

    /// Adds a segment to the range table, merged with its neighbours, which readers find at every moment.
    pub(super) fn add_segment(&self, range: Range<u64>, tag: u32) {
        let is_of_pool = |found: &Allocation| found.tag == tag;
        let before =
            range.start.checked_sub(1).and_then(|last| self.ranges.find(last)).filter(is_of_pool);
        let after = self.ranges.find(range.end).filter(is_of_pool);
        let end = after.map_or(range.end, |found| found.start + found.size);
        match before {
            Some(found) => _ = self.ranges.resize(found.start, end - found.start),
            None => self.ranges.insert(range.start, end - range.start, tag),
        }
        if let Some(found) = after {
            self.ranges.remove(found.start);
        }
    }

    /// Removes a part of a segment from the range table; readers find the rest at every moment.
    pub(super) fn remove_segment(&self, range: &Range<u64>) {
        let Some(found) = self.ranges.find(range.start).filter(|f| f.tag & POOL != 0) else {
            return;
        };
        let end = found.start + found.size;
        match (found.start < range.start, range.end < end) {
            (false, false) => _ = self.ranges.remove(found.start),
            (false, true) => _ = self.ranges.cut_front(found.start, range.end - range.start),
            (true, has_rest) => {
                if has_rest {
                    self.ranges.insert(range.end, end - range.end, found.tag);
                }
                self.ranges.resize(found.start, range.start - found.start);
            }
        }
        self.blocks.clear(range.clone());
    }

    /// Makes a range of a pool free memory of the arena.
    pub(super) fn free_segment(&self, inner: &mut Inner, range: Range<u64>) {
        let bytes = range.end - range.start;
        if let Err(error) = self.source.release(range.start, bytes) {
            log::warn!("{}: free memory stays resident: {error}", self.name);
        }
        inner.live -= bytes;
        inner.pooled -= bytes;
        inner.tlsf.add(range.clone(), 0);
        self.restore_pages(inner, range);
        self.budget.give(bytes);
    }
}
