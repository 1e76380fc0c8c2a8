//! Which pages of a source were moved to where they are: each run of them is a map of the kernel's own.

use crate::lock::{Mutex, Rank};
use std::collections::BTreeMap;
use std::ops::Range;

/// The most maps that moved pages may have, as far as the system allows an eighth of its maps for them.
const MAX_MAPS: usize = 8192;

/// The runs of moved pages of one source, by offset. The kernel does not merge their maps, and moves only what lies in one;
/// so they are counted, and every move is cut where one ends.
pub struct MovedPages {
    /// Start to end.
    runs: Mutex<BTreeMap<u64, u64>>,
    max_maps: usize,
}

impl std::fmt::Debug for MovedPages {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MovedPages").finish_non_exhaustive()
    }
}

impl MovedPages {
    /// None yet; `limit` is how many maps a process may have.
    pub fn new(limit: u64) -> MovedPages {
        let runs = Mutex::new(Rank::MovedPages, BTreeMap::new());
        MovedPages { runs, max_maps: MAX_MAPS.min((limit / 8) as usize) }
    }

    /// True if there is room for another run.
    pub fn has_room(&self) -> bool {
        self.runs.lock().len() < self.max_maps
    }

    /// True if any of these pages was moved there.
    pub fn overlaps(&self, range: &Range<u64>) -> bool {
        let runs = self.runs.lock();
        runs.range(..range.end).next_back().is_some_and(|(_, &end)| end > range.start)
    }

    /// Where runs begin and end inside a range.
    pub fn edges(&self, range: &Range<u64>) -> Vec<u64> {
        let runs = self.runs.lock();
        let first = runs.range(..=range.start).next_back().map_or(range.start, |(&start, _)| start);
        let edges = runs.range(first..range.end).flat_map(|(&start, &end)| [start, end]);
        edges.filter(|edge| (range.start + 1..range.end).contains(edge)).collect()
    }

    /// These pages are one run now.
    pub fn add(&self, range: Range<u64>) {
        let mut runs = self.runs.lock();
        cut(&mut runs, &range);
        runs.insert(range.start, range.end);
    }

    /// These pages are ordinary ones again.
    pub fn remove(&self, range: &Range<u64>) {
        cut(&mut self.runs.lock(), range);
    }
}

/// A range in parts that end at these edges inside it.
pub fn parts(range: &Range<u64>, mut edges: Vec<u64>) -> Vec<Range<u64>> {
    edges.sort_unstable();
    edges.dedup();
    let starts = std::iter::once(range.start).chain(edges.iter().copied());
    let ends = edges.iter().copied().chain([range.end]);
    starts.zip(ends).map(|(start, end)| start..end).collect()
}

/// Takes a range out of the runs.
fn cut(runs: &mut BTreeMap<u64, u64>, range: &Range<u64>) {
    while let Some((&start, &end)) =
        runs.range(..range.end).next_back().filter(|(_, end)| **end > range.start)
    {
        runs.remove(&start);
        if range.end < end {
            runs.insert(range.end, end);
        }
        if start < range.start {
            runs.insert(start, range.start);
        }
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_cut_where_runs_begin_and_end() {
        let moved = MovedPages::new(24);
        let parts_of = |moved: &MovedPages, range| parts(&range, moved.edges(&range));
        assert_eq!(parts_of(&moved, 0..10), vec![Range { start: 0, end: 10 }]);
        moved.add(2..4);
        moved.add(4..6);
        assert_eq!(parts_of(&moved, 0..10), [0..2, 2..4, 4..6, 6..10]);
        assert_eq!(parts_of(&moved, 3..5), [3..4, 4..5]);
        assert_eq!(parts_of(&moved, 4..6).len(), 1);
        assert!(moved.overlaps(&(5..9)) && !moved.overlaps(&(6..9)) && !moved.overlaps(&(0..2)));
        assert!(moved.has_room());
        moved.add(20..30);
        assert!(!moved.has_room());
        moved.remove(&(3..25));
        assert_eq!(parts_of(&moved, 0..40), [0..2, 2..3, 3..25, 25..30, 30..40]);
        moved.add(0..40);
        assert_eq!(parts_of(&moved, 0..40).len(), 1);
        assert_eq!(parts(&(0..9), vec![7, 3, 7]), [0..3, 3..7, 7..9]);
    }
}
