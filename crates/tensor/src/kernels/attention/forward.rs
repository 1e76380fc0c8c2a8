//! Attention from queries, keys and values.

use super::{Attention, Sizes, WORKERS, Wide, cut, offset_of, product};
use crate::kernels::math::exp;
use crate::kernels::strip::{store, vectorised};
use crate::parallel::Parallel;
use crate::{Dims, View, ViewMut};

impl Sizes {
    /// Runs of queries of one head: one piece of work each.
    fn runs(&self) -> usize {
        let heads = (self.batches * self.heads).max(1);
        WORKERS.div_ceil(heads).min(self.queries.div_ceil(self.tile().max(1))).max(1)
    }

    fn forward_parts(&self) -> [usize; 5] {
        let tile = self.tile();
        [
            self.keys * self.features,
            self.keys * self.width,
            tile * self.features,
            tile * self.keys,
            tile * self.width,
        ]
    }
}

/// The sizes of the `f32` scratch that [`forward`] wants.
pub fn forward_scratch(sizes: &Sizes) -> Dims {
    let units = sizes.batches * sizes.heads * sizes.runs();
    Dims::new(&[units.min(WORKERS), sizes.forward_parts().iter().sum()])
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
    let sizes = task.sizes();
    let (runs, workers, size) = (sizes.runs(), scratch.dims()[0], scratch.dims()[1]);
    let units = sizes.batches * sizes.heads * runs;
    let worker = |worker: usize| {
        // SAFETY: each worker has a row of the scratch of its own, which is aligned.
        let worker_scratch = unsafe {
            let first = scratch.first_mut().cast::<f32>().add(worker * size);
            std::slice::from_raw_parts_mut(first, size)
        };
        for unit in (worker..units).step_by(workers) {
            let (head, run) = (unit / runs, unit % runs);
            let (batch, head) = (head / sizes.heads, head % sizes.heads);
            let queries = crate::parallel::share(sizes.queries, sizes.tile(), runs, run);
            let [keys, values, query, scores, results] = cut(worker_scratch, sizes.forward_parts());
            let group = head / sizes.heads_of_group();
            // SAFETY: batch, head and rows are inside the views, and the scratch has room for them.
            let (keys, values) = unsafe {
                (
                    Wide::of(&task.key, batch, group, 0..sizes.keys, keys),
                    Wide::of(&task.value, batch, group, 0..sizes.keys, values),
                )
            };
            for first in queries.clone().step_by(sizes.tile().max(1)) {
                let rows = first..(first + sizes.tile()).min(queries.end);
                // SAFETY: as above; the rows of `out` belong to this unit alone.
                unsafe {
                    let query = Wide::of(&task.query, batch, head, rows.clone(), query);
                    let shape = (rows.len(), sizes.keys, sizes.features);
                    product(shape, scores, query, keys.transposed(), false);
                    let mut totals = [0f32; super::QUERIES];
                    for (at, total) in rows.clone().zip(&mut totals) {
                        let row = &mut scores[(at - first) * sizes.keys..][..sizes.keys];
                        let (most, sum) = vectorised(|| softmax(task, [batch, head, at], row));
                        *total = sum;
                        write_stat(greatest, [batch, head, at], most);
                        write_stat(sums, [batch, head, at], sum);
                    }
                    let scores = Wide::packed(scores, sizes.keys);
                    let shape = (rows.len(), sizes.width, sizes.keys);
                    product(shape, results, scores, values, false);
                    for (at, total) in rows.clone().zip(totals) {
                        let row = &mut results[(at - first) * sizes.width..][..sizes.width];
                        let factor = if total > 0.0 { 1.0 / total } else { 0.0 };
                        row.iter_mut().for_each(|value| *value *= factor);
                        let offset = offset_of(&out, [batch, head, at]) * out.item() as isize;
                        store(out.dtype(), out.first_mut().offset(offset), out.strides()[3], row);
                    }
                }
            }
        }
    };
    match workers {
        1 => worker(0),
        _ => parallel.run(workers, &worker),
    }
}

/// Plain products of one query become exponentials of its scores, without those that are dropped; the greatest
/// score and the sum of all.
#[inline(always)]
fn softmax(task: &Attention<'_>, at: [usize; 3], row: &mut [f32]) -> (f32, f32) {
    task.score(at, row);
    let sink = task.sink_score(at[1]);
    let most = greatest_of(row).max(sink);
    if most == f32::NEG_INFINITY {
        row.fill(0.0);
        return (f32::MIN, 0.0);
    }
    let mut sums = [0f32; 16];
    let (chunks, rest) = row.as_chunks_mut::<16>();
    for chunk in chunks {
        for at in 0..16 {
            chunk[at] = exp(chunk[at] - most);
            sums[at] += chunk[at];
        }
    }
    let mut sum: f32 = sums.iter().sum();
    for score in rest {
        *score = exp(*score - most);
        sum += *score;
    }
    task.dropped(at, row);
    (most, sum + if task.sink.is_some() { exp(sink - most) } else { 0.0 })
}

#[inline(always)]
fn greatest_of(row: &[f32]) -> f32 {
    let mut most = [f32::NEG_INFINITY; 16];
    let (chunks, rest) = row.as_chunks::<16>();
    for chunk in chunks {
        for at in 0..16 {
            let (x, y) = (most[at], chunk[at]);
            most[at] = if y > x || y.is_nan() { y } else { x };
        }
    }
    let both = |x: f32, y: f32| if y > x || y.is_nan() { y } else { x };
    rest.iter().copied().fold(most.into_iter().fold(f32::NEG_INFINITY, both), both)
}

/// Writes a number to every element at a query.
fn write_stat(view: Option<ViewMut<'_>>, at: [usize; 3], value: f32) {
    let Some(view) = view else {
        return;
    };
    let line: View<'_> = *view;
    for last in 0..line.dims()[3] {
        let offset = offset_of(&line, at) + last as isize * line.strides()[3];
        // SAFETY: the position is inside the view, and belongs to this unit alone.
        unsafe {
            let to = view.first_mut().offset(offset * view.item() as isize);
            store(view.dtype(), to, 0, &[value]);
        }
    }
}
