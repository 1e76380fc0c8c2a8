//! Attention for inference: a few queries of each of several sequences to the keys and values of a cache.
//!
//! Sequences have lengths of their own, and keys that lie in one tensor, in one for each sequence, or in the blocks of a
//! paged cache, after a prefix that all have in common ([`store`]). A unit of work is some rows of one group of heads of
//! one sequence, where a row is a query of one head: the heads of a group share its keys, so that decoding reads each
//! key once. Units with few rows multiply row by row ([`few`]), others by panels with a lane for each row ([`lanes`]).
//! Only blocks with keys that count are read.

mod few;
mod lanes;
mod store;
mod terms;

pub use store::{Blocks, Segment, Store};

use super::{LANES, PANELS, Slopes, WORKERS, split_scratch};
use crate::kernels::access::PositionAccess;
use crate::kernels::strip::{load, runs_here, store};
use crate::parallel::Parallel;
use crate::{Dims, View, ViewMut};
use few::FEW;
use std::ops::Range;
use terms::Row;

/// Keys of a tile.
const TILE: usize = 128;
/// Rows of a unit of panels are a multiple of this.
const HALF_PANEL: usize = LANES / 2;

/// One sequence: which queries it has, and where its keys are.
pub struct Sequence<'a> {
    /// Its index in the first dimension of queries, results, masks and shifts.
    pub batch: usize,
    /// The positions of its queries.
    pub queries: Range<usize>,
    /// Its keys, one segment after the other.
    pub segments: Vec<Segment<'a>>,
    /// The column of masks and shifts that belongs to its first key.
    pub first_column: usize,
    /// A key counts for a query only when its number minus the query's, both from 0 on, is in here.
    pub band: Option<(isize, isize)>,
}

impl Sequence<'_> {
    /// How many keys it has.
    pub fn keys(&self) -> usize {
        self.segments.iter().map(|one| one.length).sum()
    }
}

/// What is attended to, and how. Sizes of views: batches, heads, positions, features.
pub struct Inference<'a> {
    /// Queries, and more features of them.
    pub query: [Option<View<'a>>; 2],
    /// Where keys and values are.
    pub stores: &'a [Store<'a>],
    /// The sequences.
    pub sequences: &'a [Sequence<'a>],
    /// Added to each score after scaling: batches, heads, queries, keys (broadcast).
    pub shift: Option<View<'a>>,
    /// A multiple of the distance between key and query, added after scaling.
    pub slopes: Option<Slopes<'a>>,
    /// Scores that do not count, where it is not 0. Sizes as those of `shift`.
    pub mask: Option<View<'a>>,
    /// A score for each head that takes part in the softmax and has no value.
    pub sink: Option<View<'a>>,
    /// What scores are multiplied by.
    pub scale: f32,
    /// The results.
    pub out: ViewMut<'a>,
    /// The logarithm of each sum of exponentials, in the first element of the last dimension: infinity where no key counts.
    pub logarithms: Option<ViewMut<'a>>,
}

/// The sizes of a task, from which its units of work and their scratch follow.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    heads: usize,
    groups: usize,
    features: usize,
    width: usize,
    /// Rows of a unit, at most.
    rows: usize,
    units: usize,
}

impl Work {
    /// Of sequences with these numbers of queries. `groups` divides `heads`.
    pub fn new(
        [heads, groups]: [usize; 2],
        [features, width]: [usize; 2],
        queries: impl Iterator<Item = usize> + Clone,
    ) -> Work {
        let shared = heads / groups.max(1);
        let units = |rows: usize| {
            let chunks = |queries: usize| queries.saturating_mul(shared).div_ceil(rows);
            queries.clone().map(chunks).fold(0usize, usize::saturating_add).saturating_mul(groups)
        };
        let most = queries.clone().max().unwrap_or(0).saturating_mul(shared).max(1);
        let mut rows = most.min(PANELS * LANES);
        if rows > FEW {
            rows = rows.next_multiple_of(HALF_PANEL);
            while rows > HALF_PANEL && units(rows) < WORKERS {
                rows = (rows / 2).next_multiple_of(HALF_PANEL);
            }
        }
        Work { heads, groups, features, width, rows, units: units(rows) }
    }

    /// Elements of queries, results, keys, values, scores, lines, and terms of scores.
    fn parts(&self) -> [usize; 7] {
        let is_few = self.rows <= FEW;
        let rows = if is_few { self.rows } else { self.rows.next_multiple_of(LANES) };
        let at_once = if is_few { rows } else { LANES };
        [
            rows * self.features,
            rows * self.width,
            TILE * self.features,
            TILE * self.width,
            at_once * TILE,
            at_once * self.features.max(self.width).max(TILE),
            at_once * TILE,
        ]
    }

    /// The sizes of the `f32` scratch that [`infer`] needs.
    pub fn scratch(&self) -> Dims {
        Dims::new(&[self.units.min(WORKERS), self.parts().iter().sum()])
    }

    /// Heads of queries that share a head of keys and values.
    fn shared(&self) -> usize {
        self.heads / self.groups.max(1)
    }
}

/// A unit of work: rows of one group of one sequence, with the worker's scratch for it.
struct Unit<'t, 's> {
    task: &'t Inference<'t>,
    work: &'t Work,
    sequence: &'t Sequence<'t>,
    group: usize,
    rows: Range<usize>,
    keys: usize,
    queries: &'s mut [f32],
    results: &'s mut [f32],
    key_lines: &'s mut [f32],
    value_lines: &'s mut [f32],
    scores: &'s mut [f32],
    lines: &'s mut [f32],
    terms: &'s mut [f32],
}

/// Attention of every sequence into `task.out`; queries of no sequence are left as they are. A query without keys that
/// count gives zeros. All blocks that segments name are inside their stores.
pub fn infer(parallel: &dyn Parallel, task: &Inference<'_>, work: &Work, scratch: ViewMut<'_>) {
    assert!(runs_here(), "this processor lacks AVX2, FMA or F16C");
    let (workers, size) = (scratch.dims()[0], scratch.dims()[1]);
    let worker = |worker: usize| {
        // SAFETY: each worker has a row of the scratch of its own, which is aligned.
        let mine = unsafe {
            let first = scratch.first_mut().cast::<f32>().add(worker * size);
            std::slice::from_raw_parts_mut(first, size)
        };
        let mut number = 0;
        for sequence in task.sequences {
            let (rows, keys) = (sequence.queries.len() * work.shared(), sequence.keys());
            // The last queries first: where each attends to those before it, they have the most to do.
            for chunk in (0..rows.div_ceil(work.rows)).rev() {
                for group in 0..work.groups {
                    number += 1;
                    if (number - 1) % workers != worker {
                        continue;
                    }
                    let start = chunk * work.rows;
                    let [queries, results, key_lines, value_lines, scores, lines, terms] =
                        split_scratch(mine, work.parts());
                    let unit = Unit {
                        task,
                        work,
                        sequence,
                        group,
                        rows: start..(start + work.rows).min(rows),
                        keys,
                        queries,
                        results,
                        key_lines,
                        value_lines,
                        scores,
                        lines,
                        terms,
                    };
                    // SAFETY: this processor has what kernels are compiled for.
                    #[allow(unused_unsafe)]
                    unsafe {
                        match work.rows <= FEW {
                            true => few::attend(unit),
                            false => lanes::attend(unit),
                        }
                    }
                }
            }
        }
    };
    match workers {
        0 => (),
        1 => worker(0),
        _ => parallel.run(workers, &worker),
    }
}

impl Unit<'_, '_> {
    /// Loads the features of a row's query.
    fn load_query(task: &Inference<'_>, row: &Row, batch: usize, line: &mut [f32]) {
        let mut rest = line;
        for part in task.query.iter().flatten() {
            let (line, tail) = rest.split_at_mut(part.dims()[3]);
            let offset = super::offset_of(part, [batch, row.head, row.query]);
            // SAFETY: the position is inside the view.
            unsafe {
                let from = part.first().offset(offset * part.item() as isize);
                load(part.dtype(), from, part.strides()[3], line);
            }
            rest = tail;
        }
    }

    /// Stores the result of a row, and the logarithm of its sum of exponentials.
    fn store_row(task: &Inference<'_>, row: &Row, batch: usize, line: &[f32], stats: (f32, f32)) {
        let at = [batch, row.head, row.query];
        let put = |view: &ViewMut<'_>, line: &[f32]| {
            let offset = super::offset_of(view, at) * view.item() as isize;
            // SAFETY: the position is inside the view, and this unit's alone.
            unsafe {
                store(view.dtype(), view.first_mut().offset(offset), view.strides()[3], line);
            }
        };
        put(&task.out, line);
        if let Some(logarithms) = &task.logarithms {
            let (greatest, sum) = stats;
            let value = if sum == 0.0 { f32::INFINITY } else { sum.ln() + greatest };
            put(logarithms, &[value]);
        }
    }

    /// The row at an index of the unit.
    fn row(&self, index: usize) -> Row {
        Row::new(self.sequence, self.work, self.group, self.rows.start + index, self.keys)
    }

    /// What the softmax of a head begins with: its greatest score so far and its sum of exponentials.
    fn first_stats(task: &Inference<'_>, head: usize) -> (f32, f32) {
        match task.sink.map(|sink| PositionAccess::new(sink).get::<f32>(&[head])) {
            None | Some(f32::NEG_INFINITY) => (f32::NEG_INFINITY, 0.0),
            Some(sink) if sink.is_nan() => (f32::NEG_INFINITY, sink),
            Some(sink) => (sink, 1.0),
        }
    }
}
