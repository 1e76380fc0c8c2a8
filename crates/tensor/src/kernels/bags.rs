//! Embedding bags: rows of a table, reduced bag by bag.

use super::access::{PositionAccess, PositionAccessMut};
use super::indexed::BadIndex;
use super::strip::STRIP;
use crate::parallel::{Parallel, split};
use crate::{Dims, View, ViewMut};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// How the rows of one bag are reduced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BagMode {
    /// Their sum.
    Sum,
    /// Their mean.
    Mean,
    /// The greatest number of each column.
    Max,
}

/// Which rows of a table go into which bag.
#[derive(Clone, Copy)]
pub struct Bags<'v> {
    /// The table: rows, columns.
    pub table: View<'v>,
    /// The rows of all bags, one bag after the other.
    pub index: View<'v>,
    /// Where each bag begins among them; there may be one entry more than bags, and the last bag goes on to the last index
    /// all the same. Without, all bags have the same length.
    pub starts: Option<View<'v>>,
    /// How many bags.
    pub count: usize,
    /// What each row is multiplied by.
    pub weights: Option<View<'v>>,
    /// A row that counts in no bag.
    pub padding: Option<usize>,
    /// How rows are reduced.
    pub mode: BagMode,
}

/// Where results go. A tensor of other sizes than named here has no elements, and gets none.
#[derive(Clone, Copy)]
pub struct BagOutputs<'v> {
    /// A row for each bag.
    pub rows: ViewMut<'v>,
    /// The bag of each index.
    pub bags: ViewMut<'v>,
    /// How many rows count in each bag.
    pub lengths: ViewMut<'v>,
    /// Zeros, one for each bag; for [`BagMode::Max`] the row of the table that each result is from, 0 for a bag
    /// without rows.
    pub from: ViewMut<'v>,
}

/// Why bags cannot be filled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BadBag {
    /// An index is no row.
    Index(BadIndex),
    /// The start of a bag is before that of its neighbour, or outside of the indices; or the first is not 0.
    Start(usize, i64),
}

impl Bags<'_> {
    /// Where a bag begins among the indices; the end of the last one for one bag more.
    fn start(&self, bag: usize) -> i64 {
        let indices = self.index.count();
        match self.starts {
            Some(starts) if bag < self.count => PositionAccess::new(starts).get(&[bag]),
            Some(_) => indices as i64,
            None => (bag * indices / self.count.max(1)) as i64,
        }
    }

    /// Whether bags begin in order, inside the indices.
    fn check(&self) -> Result<(), BadBag> {
        let indices = self.index.count() as i64;
        let mut before = 0;
        let Some(starts) = self.starts else { return Ok(()) };
        for bag in 0..starts.count() {
            let start: i64 = PositionAccess::new(starts).get(&[bag]);
            if start < before || start > indices || (bag == 0 && self.count > 0 && start != 0) {
                return Err(BadBag::Start(bag, start));
            }
            before = start;
        }
        Ok(())
    }

    /// The row of the table that an index names.
    fn row(&self, at: usize) -> Option<usize> {
        let row: i64 = PositionAccess::new(self.index).get(&[at]);
        usize::try_from(row).ok().filter(|row| *row < self.table.dims()[0])
    }
}

/// Fills bags. Starts are checked before anything is written; an index that is no row counts in no bag, and the first
/// is reported.
pub fn fill_bags(
    parallel: &dyn Parallel,
    bags: &Bags<'_>,
    into: BagOutputs<'_>,
) -> Result<(), BadBag> {
    bags.check()?;
    let bad = AtomicUsize::new(usize::MAX);
    split(parallel, bags.count, 1, 1, |range| {
        for bag in range {
            fill_bag(bags, into, bag, &bad);
        }
    });
    match bad.load(Relaxed) {
        usize::MAX => Ok(()),
        at => Err(BadBag::Index(BadIndex {
            tensor: 0,
            position: Dims::new(&[at]),
            value: PositionAccess::new(bags.index).get(&[at]),
            valid: (0, bags.table.dims()[0] as i64 - 1),
        })),
    }
}

/// Fills one bag; writes the first index that is no row to `bad`.
fn fill_bag(bags: &Bags<'_>, into: BagOutputs<'_>, bag: usize, bad: &AtomicUsize) {
    let range = bags.start(bag) as usize..bags.start(bag + 1) as usize;
    let (table, weights) = (PositionAccess::new(bags.table), bags.weights.map(PositionAccess::new));
    let [rows, from] = [into.rows, into.from].map(PositionAccessMut::new);
    let mut length = 0i64;
    for at in range.clone() {
        if into.bags.count() > 0 {
            PositionAccessMut::new(into.bags).set(&[at], bag as i64);
        }
        match bags.row(at) {
            Some(row) => length += i64::from(Some(row) != bags.padding),
            None => _ = bad.fetch_min(at, Relaxed),
        }
    }
    PositionAccessMut::new(into.lengths).set(&[bag], length);
    let columns = bags.table.dims()[1];
    let is_max = bags.mode == BagMode::Max;
    if !is_max && into.from.count() > 0 {
        from.set(&[bag], 0i64);
    }
    let (mut results, mut line, mut sources) = ([0f32; STRIP], [0f32; STRIP], [0i64; STRIP]);
    for first in (0..columns).step_by(STRIP) {
        let width = (columns - first).min(STRIP);
        let (results, line, sources) =
            (&mut results[..width], &mut line[..width], &mut sources[..width]);
        results.fill(0.0);
        sources.fill(0);
        let mut is_first = true;
        for at in range.clone() {
            let Some(row) = bags.row(at).filter(|row| Some(*row) != bags.padding) else {
                continue;
            };
            table.line(&[row, first], line);
            if is_max {
                for ((best, from), value) in results.iter_mut().zip(&mut *sources).zip(&*line) {
                    if is_first || *value > *best {
                        (*best, *from) = (*value, row as i64);
                    }
                }
            } else {
                let factor: f32 = weights.map_or(1.0, |weights| weights.get(&[at]));
                results.iter_mut().zip(&*line).for_each(|(sum, value)| *sum += value * factor);
            }
            is_first = false;
        }
        if bags.mode == BagMode::Mean && length > 0 {
            results.iter_mut().for_each(|sum| *sum /= length as f32);
        }
        rows.put_line(&[bag, first], results);
        if is_max {
            from.put_line(&[bag, first], sources);
        }
    }
}
