//! Which parts of an arena belong to pools.

use crate::lock::{Mutex, Rank};
use std::collections::BTreeMap;
use std::ops::Range;

/// The ranges of an arena that pools have, by pool. Neighbours of one pool are one range.
pub struct Lent(Mutex<BTreeMap<u64, (u64, u32)>>);

impl Default for Lent {
    fn default() -> Lent {
        Lent(Mutex::new(Rank::Lent, BTreeMap::new()))
    }
}

impl Lent {
    /// The range around an offset, and the number of its pool.
    pub fn find(&self, offset: u64) -> Option<(Range<u64>, u32)> {
        let lent = self.0.lock();
        let (&start, &(end, pool)) = lent.range(..=offset).next_back()?;
        (offset < end).then_some((start..end, pool))
    }

    /// A range is now the pool's.
    pub fn add(&self, range: Range<u64>, pool: u32) {
        let mut lent = self.0.lock();
        let Range { mut start, mut end } = range;
        if let Some((&before, &(last, owner))) = lent.range(..start).next_back()
            && (last, owner) == (start, pool)
        {
            start = before;
        }
        if let Some(&(last, owner)) = lent.get(&end)
            && owner == pool
        {
            lent.remove(&end);
            end = last;
        }
        lent.insert(start, (end, pool));
    }

    /// A range is no pool's any more. It lies inside one that was.
    pub fn remove(&self, range: Range<u64>) {
        let mut lent = self.0.lock();
        let around = lent.range(..=range.start).next_back().map(|(&start, &of)| (start, of));
        let Some((start, (end, pool))) = around.filter(|(_, (end, _))| range.end <= *end) else {
            return;
        };
        lent.remove(&start);
        if start < range.start {
            lent.insert(start, (range.start, pool));
        }
        if range.end < end {
            lent.insert(range.end, (end, pool));
        }
    }

    /// Everything that a pool has, for the end of the pool; it has nothing then.
    pub fn remove_all(&self, pool: u32) -> Vec<Range<u64>> {
        let mut lent = self.0.lock();
        let of =
            |(&start, &(end, owner)): (&u64, &(u64, u32))| (owner == pool).then_some(start..end);
        let ranges: Vec<_> = lent.iter().filter_map(of).collect();
        lent.retain(|_, (_, owner)| *owner != pool);
        ranges
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    #[test]
    fn ranges_join_split_and_end() {
        let lent = Lent::default();
        lent.add(0..10, 1);
        lent.add(20..30, 1);
        lent.add(10..20, 1);
        lent.add(30..40, 2);
        assert_eq!(lent.find(5), Some((0..30, 1)));
        assert_eq!(lent.find(30), Some((30..40, 2)));
        assert_eq!(lent.find(40), None);
        lent.remove(8..12);
        assert_eq!((lent.find(8), lent.find(11)), (None, None));
        assert_eq!((lent.find(7), lent.find(12)), (Some((0..8, 1)), Some((12..30, 1))));
        assert_eq!(lent.remove_all(1), [0..8, 12..30]);
        assert_eq!((lent.find(0), lent.find(33)), (None, Some((30..40, 2))));
    }
}
