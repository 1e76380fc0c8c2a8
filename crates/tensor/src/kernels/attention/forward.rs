//! Attention from queries, keys and values.

use super::panel::{Panel, Softmax, rescale};
use super::scores::TILE_SCRATCH;
use super::{Attention, LANES, PANELS, Sizes, WORKERS, offset_of, put, rows_of, split_scratch};
use crate::kernels::small_product::{GRAIN, Left, Rows, Shape, product};
use crate::kernels::strip::{runs_here, store};
use crate::kernels::transpose::transpose;
use crate::parallel::Parallel;
use crate::{Dims, ViewMut};
use std::ops::Range;

impl Sizes {
    /// Pieces of work: some panels of one head each.
    fn forward_units(&self) -> usize {
        self.batches * self.heads * self.queries.div_ceil(self.panels() * LANES)
    }

    /// Elements of transposed queries, results, keys, values, scores, lines, and scratch of a tile.
    fn forward_parts(&self) -> [usize; 7] {
        let (panels, tile) = (self.panels(), self.tile());
        [
            panels * LANES * self.features,
            panels * LANES * self.width,
            tile * self.features,
            tile * self.width,
            tile * LANES,
            LANES * self.features.max(self.width),
            TILE_SCRATCH,
        ]
    }
}

/// The sizes of the `f32` scratch that [`forward`] needs.
pub fn forward_scratch(sizes: &Sizes) -> Dims {
    Dims::new(&[sizes.forward_units().min(WORKERS), sizes.forward_parts().iter().sum()])
}

/// What [`forward`] writes.
#[derive(Clone, Copy)]
struct Outputs<'a> {
    out: ViewMut<'a>,
    greatest: Option<ViewMut<'a>>,
    sums: Option<ViewMut<'a>>,
}

/// Attention into `out`, of the queries' sizes with the values' features. The greatest score of each query, and
/// the sum of its scores' exponentials over that, go to every element of the last dimension of `greatest` and
/// `sums` (batches, heads, queries, any). A query without keys that count gives zeros.
pub fn forward(
    parallel: &dyn Parallel,
    task: &Attention<'_>,
    out: ViewMut<'_>,
    greatest: Option<ViewMut<'_>>,
    sums: Option<ViewMut<'_>>,
    scratch: ViewMut<'_>,
) {
    assert!(runs_here(), "this processor lacks AVX2, FMA or F16C");
    let sizes = task.sizes();
    let outputs = Outputs { out, greatest, sums };
    let (workers, size) = (scratch.dims()[0], scratch.dims()[1]);
    let (heads, queries) = (sizes.batches * sizes.heads, sizes.panels() * LANES);
    let (units, query_chunks) = (sizes.forward_units(), sizes.queries.div_ceil(queries));
    let worker = |worker: usize| {
        // SAFETY: each worker has a row of the scratch of its own, which is aligned.
        let worker_scratch = unsafe {
            let first = scratch.first_mut().cast::<f32>().add(worker * size);
            std::slice::from_raw_parts_mut(first, size)
        };
        for unit in (worker..units).step_by(workers) {
            // The last queries first: where each attends to those before it, they have the most to do.
            let (head, first) = (unit % heads, (query_chunks - 1 - unit / heads) * queries);
            let at = [head / sizes.heads, head % sizes.heads];
            let queries = first..(first + queries).min(sizes.queries);
            // SAFETY: this processor has what kernels are compiled for.
            #[allow(unused_unsafe)]
            unsafe {
                attend(task, &outputs, worker_scratch, at, queries);
            }
        }
    };
    match workers {
        0 => (),
        1 => worker(0),
        _ => parallel.run(workers, &worker),
    }
}

/// Attention of a few queries of one head.
#[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2,fma,f16c"))]
fn attend(
    task: &Attention<'_>,
    outputs: &Outputs<'_>,
    worker_scratch: &mut [f32],
    at: [usize; 2],
    queries: Range<usize>,
) {
    let sizes = task.sizes();
    let (features, width) = (sizes.features, sizes.width);
    let [transposed, results, keys, values, scores, lines, tile_scratch] =
        split_scratch(worker_scratch, sizes.forward_parts());
    let scores = scores.as_chunks_mut::<LANES>().0;
    let mut panels: [Option<(Panel, Softmax)>; PANELS] = [const { None }; PANELS];
    for (number, slot) in panels.iter_mut().enumerate() {
        let first = queries.start + number * LANES;
        if first >= queries.end {
            break;
        }
        let panel = Panel::new(task, at, first..(first + LANES).min(queries.end));
        // SAFETY: the rows are inside the view; lines and transposed queries hold those of a panel.
        unsafe {
            let rows = rows_of(&task.query, at, panel.queries.clone(), lines);
            let transposed = transposed[number * LANES * features..].as_mut_ptr();
            transpose(transposed, LANES, rows.first, rows.pitch, features, panel.count());
        }
        *slot = Some((panel, Softmax::new(task, at[1])));
    }
    results[..queries.len().div_ceil(LANES) * LANES * width].fill(0.0);
    let ranges = || panels.iter().flatten().map(|(panel, _)| panel.keys.clone());
    let not_empty = || ranges().filter(|keys| !keys.is_empty());
    let first = not_empty().map(|keys| keys.start).min().unwrap_or(0);
    let end = not_empty().map(|keys| keys.end).max().unwrap_or(0);
    let group = [at[0], at[1] / sizes.heads_of_group()];
    for start in (first..end).step_by(super::KEYS) {
        let tile = start..(start + super::KEYS).min(end);
        // SAFETY: the rows are inside the views, and the scratch holds a tile.
        let (keys, values) = unsafe {
            (
                rows_of(&task.key, group, tile.clone(), keys).left(),
                rows_of(&task.value, group, tile.clone(), values).left(),
            )
        };
        for (number, (panel, softmax)) in panels.iter_mut().flatten().enumerate() {
            let keys_of_panel = start.max(panel.keys.start)..tile.end.min(panel.keys.end);
            if keys_of_panel.is_empty() {
                continue;
            }
            let skipped = (keys_of_panel.start - start) as isize;
            let from =
                |rows: Left| Left { first: rows.first.wrapping_offset(skipped * rows.row), ..rows };
            let scores = &mut scores[..keys_of_panel.len()];
            let lanes = panel.count().next_multiple_of(GRAIN);
            let queries = transposed[number * LANES * features..].as_ptr();
            let results = &mut results[number * LANES * width..][..LANES * width];
            // SAFETY: the keys of the tile, the transposed queries and the scores have these sizes.
            unsafe {
                let shape = Shape {
                    rows: keys_of_panel.len(),
                    columns: lanes,
                    depth: features,
                    add: false,
                };
                let queries = Rows { first: queries, pitch: LANES };
                let out = Rows { first: scores.as_mut_ptr().cast(), pitch: LANES };
                product(shape, from(keys), queries, out);
            }
            task.score(panel, &keys_of_panel, scores, tile_scratch);
            let factors = softmax.add_tile(scores);
            task.apply_dropout(panel, &keys_of_panel, scores, tile_scratch);
            rescale(results, &factors);
            // SAFETY: as above.
            unsafe {
                let shape =
                    Shape { rows: width, columns: lanes, depth: keys_of_panel.len(), add: true };
                let scores = Rows { first: scores.as_ptr().cast(), pitch: LANES };
                let out = Rows { first: results.as_mut_ptr(), pitch: LANES };
                product(shape, from(values).transposed(), scores, out);
            }
        }
    }
    for (number, (panel, softmax)) in panels.iter().flatten().enumerate() {
        let results = &mut results[number * LANES * width..][..LANES * width];
        rescale(results, &softmax.factors());
        // SAFETY: the lines hold the results of a panel.
        unsafe {
            transpose(lines.as_mut_ptr(), width, results.as_ptr(), LANES, panel.count(), width);
        }
        let first = [at[0], at[1], panel.queries.start];
        put(&outputs.out, first, (lines, width), panel.count(), width);
        for (lane, query) in panel.queries.clone().enumerate() {
            let (greatest, sum) = softmax.stats(lane);
            write_stat(outputs.greatest, [at[0], at[1], query], greatest);
            write_stat(outputs.sums, [at[0], at[1], query], sum);
        }
    }
}

/// Writes a number to every element at a query.
fn write_stat(view: Option<ViewMut<'_>>, at: [usize; 3], value: f32) {
    let Some(view) = view else {
        return;
    };
    const STEP: usize = 8;
    let (count, stride) = (view.dims()[3], view.strides()[3]);
    for first in (0..count).step_by(STEP) {
        let offset = offset_of(&view, at) + first as isize * stride;
        // SAFETY: the positions are inside the view, and belong to this unit alone.
        unsafe {
            let to = view.first_mut().offset(offset * view.item() as isize);
            store(view.dtype(), to, stride, &[value; STEP][..(count - first).min(STEP)]);
        }
    }
}
