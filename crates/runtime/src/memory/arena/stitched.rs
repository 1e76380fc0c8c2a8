//! Segments of a pool whose pages come from other segments of it.

use super::{Arena, Attempt, POOL, ReuseCondition};
use std::ops::Range;

/// The size of a page, and the alignment of stitched segments.
pub fn page() -> u64 {
    rustix::param::page_size() as u64
}

impl Arena {
    /// Makes a segment of `bytes` bytes for a pool, of which only `fresh` are more than the pool had: the others are moved there from
    /// segments that end by [`Arena::vacate`].
    pub fn stitched_segment(
        &self,
        bytes: u64,
        fresh: u64,
        pool: u32,
    ) -> std::result::Result<Range<u64>, Attempt> {
        let mut inner = self.inner.lock();
        self.release_quarantined(&mut inner, ReuseCondition::Synchronized, u64::MAX);
        let free = (self.capacity - inner.live).saturating_sub(inner.waiting());
        if fresh > free || !self.budget.take(fresh) {
            return Err(Attempt::Waiting);
        }
        let grant = self.find_room(&mut inner, bytes, page()).inspect_err(|_| {
            self.budget.give(fresh);
        })?;
        inner.live += fresh;
        inner.pooled += fresh;
        inner.raise_peaks();
        let range = inner.tlsf.take_out(grant.id).expect("granted just now");
        self.add_segment(range.clone(), POOL | pool);
        self.emit_usage(&inner);
        Ok(range)
    }

    /// Moves pages between segments of one pool; no block lies in either range.
    pub fn move_pages(&self, old: &Range<u64>, new: u64) {
        self.source.move_pages(old, new);
    }

    /// Ends a part of a segment whose pages were moved: its addresses are free.
    pub fn vacate(&self, range: Range<u64>) {
        let mut inner = self.inner.lock();
        self.remove_segment(&range);
        if let Err(error) = self.source.release(range.start, range.end - range.start) {
            log::warn!("{}: free memory stays resident: {error}", self.name);
        }
        inner.tlsf.add(range, 0);
    }
}
