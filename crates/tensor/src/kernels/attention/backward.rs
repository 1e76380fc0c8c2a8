//! The gradients of attention.

use super::{Attention, Sizes, WORKERS, Wide, cut, offset_of, product};
use crate::kernels::access::PositionAccessMut;
use crate::kernels::math::exp;
use crate::kernels::matmul::dot_strips;
use crate::kernels::strip::{load_one, store, vectorised};
use crate::parallel::Parallel;
use crate::{Dims, View, ViewMut};

impl Sizes {
    fn backward_parts(&self) -> [usize; 10] {
        let (tile, keys) = (self.tile(), self.keys);
        [
            keys * self.features,
            keys * self.width,
            keys * self.features,
            keys * self.width,
            tile * self.features,
            tile * self.width,
            tile * self.width,
            tile * self.features,
            tile * keys,
            tile * keys,
        ]
    }
}

/// The sizes of the `f32` scratch that [`backward`] wants.
pub fn backward_scratch(sizes: &Sizes) -> Dims {
    let units = sizes.batches * sizes.groups;
    Dims::new(&[units.min(WORKERS), sizes.backward_parts().iter().sum()])
}

/// What the way back needs beside the task itself, and where it goes. Sizes as those of the tensors named.
pub struct Gradients<'a> {
    /// The gradient of the result.
    pub grad: View<'a>,
    /// The result; without it, what is needed of it is computed again.
    pub result: Option<View<'a>>,
    /// The greatest score and the sum of exponentials of each query, as [`super::forward`] wrote them; computed
    /// when they are absent.
    pub softmax_stats: Option<(View<'a>, View<'a>)>,
    /// The gradient of the queries.
    pub query: ViewMut<'a>,
    /// The gradient of the keys.
    pub key: ViewMut<'a>,
    /// The gradient of the values.
    pub value: ViewMut<'a>,
    /// The gradients of the sinks, a part of each from each batch: batches, heads.
    pub sink: Option<ViewMut<'a>>,
}

/// The gradients of queries, keys and values.
pub fn backward(
    parallel: &dyn Parallel,
    task: &Attention<'_>,
    to: &Gradients<'_>,
    scratch: ViewMut<'_>,
) {
    let sizes = task.sizes();
    let (workers, size) = (scratch.dims()[0], scratch.dims()[1]);
    let units = sizes.batches * sizes.groups;
    let worker = |worker: usize| {
        // SAFETY: each worker has a row of the scratch of its own, which is aligned.
        let worker_scratch = unsafe {
            let first = scratch.first_mut().cast::<f32>().add(worker * size);
            std::slice::from_raw_parts_mut(first, size)
        };
        for unit in (worker..units).step_by(workers) {
            group(task, &sizes, to, worker_scratch, unit / sizes.groups, unit % sizes.groups);
        }
    };
    match workers {
        1 => worker(0),
        _ => parallel.run(workers, &worker),
    }
}

/// The gradients of one head of keys and values, and of the queries' heads that share it.
fn group(
    task: &Attention<'_>,
    sizes: &Sizes,
    to: &Gradients<'_>,
    worker_scratch: &mut [f32],
    batch: usize,
    group: usize,
) {
    let [keys, values, to_keys, to_values, query, grad, result, to_query, weights, slopes] =
        cut(worker_scratch, sizes.backward_parts());
    // SAFETY: batch and head are inside the views, and the scratch has room for them.
    let (keys, values) = unsafe {
        (
            Wide::of(&task.key, batch, group, 0..sizes.keys, keys),
            Wide::of(&task.value, batch, group, 0..sizes.keys, values),
        )
    };
    to_keys.fill(0.0);
    to_values.fill(0.0);
    let heads = sizes.heads_of_group();
    for head in group * heads..(group + 1) * heads {
        let mut lost = 0f32;
        for first in (0..sizes.queries).step_by(sizes.tile().max(1)) {
            let rows = first..(first + sizes.tile()).min(sizes.queries);
            let count = rows.len();
            // SAFETY: as above; the rows of the gradients belong to this unit alone.
            unsafe {
                let query = Wide::of(&task.query, batch, head, rows.clone(), query);
                let grad = Wide::of(&to.grad, batch, head, rows.clone(), grad);
                let result =
                    to.result.map(|view| Wide::of(&view, batch, head, rows.clone(), result));
                let shape = (count, sizes.keys, sizes.features);
                product(shape, weights, query, keys.transposed(), false);
                let shape = (count, sizes.keys, sizes.width);
                product(shape, slopes, grad, values.transposed(), false);
                for row in 0..count {
                    let at = [batch, head, first + row];
                    let weights = &mut weights[row * sizes.keys..][..sizes.keys];
                    let slopes = &mut slopes[row * sizes.keys..][..sizes.keys];
                    let share = result.map(|result| {
                        let line = |wide: Wide, column: usize| {
                            let (down, across) = wide.strides;
                            let offset = row as isize * down + column as isize * across;
                            *wide.first.offset(offset)
                        };
                        (0..sizes.width).map(|at| line(grad, at) * line(result, at)).sum()
                    });
                    lost += vectorised(|| slope(task, to, at, weights, slopes, share));
                }
                let factors = Wide::packed(slopes, sizes.keys);
                let shape = (count, sizes.features, sizes.keys);
                product(shape, to_query, factors, keys, false);
                put(&to.query, [batch, head, first], to_query, count, sizes.features);
                let shape = (sizes.keys, sizes.features, count);
                product(shape, to_keys, factors.transposed(), query, true);
                for row in 0..count {
                    let at = [batch, head, first + row];
                    task.dropped(at, &mut weights[row * sizes.keys..][..sizes.keys]);
                }
                let weights = Wide::packed(weights, sizes.keys).transposed();
                let shape = (sizes.keys, sizes.width, count);
                product(shape, to_values, weights, grad, true);
            }
        }
        if let Some(sink) = to.sink {
            PositionAccessMut::new(sink).set(&[batch, head], -lost);
        }
    }
    put(&to.key, [batch, group, 0], to_keys, sizes.keys, sizes.features);
    put(&to.value, [batch, group, 0], to_values, sizes.keys, sizes.width);
}

/// Plain products of one query become its weights, and the gradients of those become the gradients of the plain
/// products. The result is what a sink takes of the sum of both.
#[inline(always)]
fn slope(
    task: &Attention<'_>,
    to: &Gradients<'_>,
    at: [usize; 3],
    weights: &mut [f32],
    slopes: &mut [f32],
    share: Option<f32>,
) -> f32 {
    task.score(at, weights);
    let sink = task.sink_score(at[1]);
    let (most, sum) = match &to.softmax_stats {
        Some((most, sum)) => (stat_at(most, at), stat_at(sum, at)),
        None => {
            let most = weights.iter().copied().fold(sink, f32::max);
            let sum: f32 = weights.iter().map(|score| exp(*score - most)).sum();
            (most, sum + if task.sink.is_some() { exp(sink - most) } else { 0.0 })
        }
    };
    let factor = if sum > 0.0 { 1.0 / sum } else { 0.0 };
    for weight in weights.iter_mut() {
        let score = *weight;
        let raised = exp(score - most) * factor;
        *weight = if score == f32::NEG_INFINITY { 0.0 } else { raised };
    }
    task.dropped(at, slopes);
    let share = share.unwrap_or_else(|| dot_strips(weights, slopes));
    for (slope, weight) in slopes.iter_mut().zip(weights) {
        *slope = *weight * (*slope - share) * task.scale;
    }
    if task.sink.is_some() { exp(sink - most) * factor * share } else { 0.0 }
}

/// The first number at a query.
fn stat_at(view: &View<'_>, at: [usize; 3]) -> f32 {
    // SAFETY: the position is inside the view.
    unsafe {
        let from = view.first().offset(offset_of(view, at) * view.item() as isize);
        load_one(view.dtype(), from)
    }
}

/// Stores rows one after the other.
fn put(view: &ViewMut<'_>, at: [usize; 3], from: &[f32], rows: usize, columns: usize) {
    for (row, line) in from.chunks_exact(columns.max(1)).take(rows).enumerate() {
        let offset = offset_of(view, [at[0], at[1], at[2] + row]) * view.item() as isize;
        // SAFETY: the rows are inside the view, and belong to the calling unit alone.
        unsafe {
            store(view.dtype(), view.first_mut().offset(offset), view.strides()[3], line);
        }
    }
}
