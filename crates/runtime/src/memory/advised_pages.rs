//! For which pages of a source huge ones were asked for.

use crate::lock::{Mutex, Rank};
use std::collections::BTreeMap;
use std::ops::Range;

/// The ranges of one source, by offset. Pages that are put in the place of others there need the same advice: else the
/// kernel cannot join their map with its neighbours.
pub struct AdvisedPages(Mutex<BTreeMap<u64, u64>>);

impl std::fmt::Debug for AdvisedPages {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AdvisedPages").finish_non_exhaustive()
    }
}

impl Default for AdvisedPages {
    fn default() -> AdvisedPages {
        AdvisedPages(Mutex::new(Rank::AdvisedPages, BTreeMap::new()))
    }
}

impl AdvisedPages {
    /// They were asked for in this range.
    pub fn add(&self, range: Range<u64>) {
        let mut ranges = self.0.lock();
        let (mut start, mut end) = (range.start, range.end);
        while let Some((&from, &to)) =
            ranges.range(..=end).next_back().filter(|(_, to)| **to >= start)
        {
            if from <= start && end <= to && (from, to) != (start, end) {
                return;
            }
            ranges.remove(&from);
            (start, end) = (start.min(from), end.max(to));
        }
        ranges.insert(start, end);
    }

    /// The parts of a range for which they were.
    pub fn parts(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        let ranges = self.0.lock();
        let inside = ranges.range(..range.end).rev().take_while(|(_, end)| **end > range.start);
        inside.map(|(&start, &end)| start.max(range.start)..end.min(range.end)).collect()
    }

    /// Where such ranges begin and end inside a range.
    pub fn edges(&self, range: &Range<u64>) -> Vec<u64> {
        let parts = self.parts(range).into_iter();
        let edges = parts.flat_map(|part| [part.start, part.end]);
        edges.filter(|edge| (range.start + 1..range.end).contains(edge)).collect()
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    #[test]
    fn ranges_that_touch_are_one() {
        let advised = AdvisedPages::default();
        for range in [0..2, 8..10, 4..6, 2..4, 4..5, 20..30] {
            advised.add(range);
        }
        assert_eq!(advised.parts(&(0..100)), [20..30, 8..10, 0..6]);
        advised.add(1..9);
        assert_eq!(advised.parts(&(3..25)), [20..25, 3..10]);
        assert_eq!(advised.parts(&(10..20)), []);
        assert_eq!(advised.edges(&(0..25)), [20, 10]);
        assert_eq!(advised.edges(&(10..20)), []);
        assert_eq!(advised.0.lock().len(), 2);
    }
}
