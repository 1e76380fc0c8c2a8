//! The gradients of attention.

use super::panel::{Lane, Panel, Softmax, lanes, sink_score};
use super::scores::TILE_SCRATCH;
use super::{
    Attention, KEYS, LANES, PANELS, Sizes, WORKERS, offset_of, put, rows_of, split_scratch,
};
use crate::kernels::access::PositionAccessMut;
use crate::kernels::math::exp_below;
use crate::kernels::small_product::{GRAIN, Left, Rows, Shape, product};
use crate::kernels::strip::{load_one, runs_here};
use crate::kernels::transpose::transpose;
use crate::parallel::Parallel;
use crate::{Dims, View, ViewMut};
use std::ops::Range;

impl Sizes {
    /// Features, and values' features, each rounded up to whole vectors.
    fn padded(&self) -> [usize; 2] {
        [self.features.next_multiple_of(GRAIN), self.width.next_multiple_of(GRAIN)]
    }

    /// Queries of the panels that are computed together.
    fn queries_at_once(&self) -> usize {
        PANELS.min(self.queries.div_ceil(LANES)) * LANES
    }

    /// Elements of each part of a worker's scratch, in the order of `group_gradients`.
    fn backward_parts(&self) -> [usize; 12] {
        let (queries_at_once, tile, [features, width]) =
            (self.queries_at_once(), self.tile(), self.padded());
        [
            self.keys * features,
            self.keys * width,
            tile * self.features,
            tile * self.width,
            queries_at_once * features,
            queries_at_once * width,
            queries_at_once * self.features,
            queries_at_once * self.width,
            queries_at_once * self.features,
            tile * LANES,
            tile * LANES,
            TILE_SCRATCH.max(LANES * self.features.max(self.width)),
        ]
    }
}

/// The sizes of the `f32` scratch that [`backward`] needs.
pub fn backward_scratch(sizes: &Sizes) -> Dims {
    let units = sizes.batches * sizes.groups;
    Dims::new(&[units.min(WORKERS), sizes.backward_parts().iter().sum()])
}

/// What the backward needs besides the task itself, and where it writes. Sizes as those of the tensors named.
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
    assert!(runs_here(), "this processor lacks AVX2, FMA or F16C");
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
            // SAFETY: this processor has what kernels are compiled for.
            #[allow(unused_unsafe)]
            unsafe {
                group_gradients(
                    task,
                    to,
                    worker_scratch,
                    [unit / sizes.groups, unit % sizes.groups],
                );
            }
        }
    };
    match workers {
        0 => (),
        1 => worker(0),
        _ => parallel.run(workers, &worker),
    }
}

/// The backward state of a panel of queries.
struct PanelBackward {
    panel: Panel,
    /// The greatest score of each query, and 1 over the sum of exponentials.
    greatest: Lane,
    factors: Lane,
    /// The sum of the weights' gradients, each times its weight.
    delta: Lane,
    /// The softmax and the sum of products, where they must be computed.
    softmax: Softmax,
    products: Lane,
}

/// Queries and gradients of the result, as they are (padded), and transposed, panel by panel.
struct Operands<'s> {
    queries: &'s mut [f32],
    grads: &'s mut [f32],
    transposed_queries: &'s mut [f32],
    transposed_grads: &'s mut [f32],
}

/// Scores (or weights) of a panel with a tile, and the gradients of weights (or of plain products).
struct Scores<'s> {
    weights: &'s mut [Lane],
    score_grads: &'s mut [Lane],
    tile_scratch: &'s mut [f32],
}

/// The gradients of one head of keys and values, and of the queries' heads that share it.
#[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2,fma,f16c"))]
fn group_gradients(task: &Attention<'_>, to: &Gradients<'_>, scratch: &mut [f32], at: [usize; 2]) {
    let sizes = task.sizes();
    let [key_grads, value_grads, keys, values, rest @ ..] =
        split_scratch(scratch, sizes.backward_parts());
    let [
        queries,
        grads,
        transposed_queries,
        transposed_grads,
        query_grads,
        weights,
        score_grads,
        tile_scratch,
    ] = rest;
    let mut operands = Operands { queries, grads, transposed_queries, transposed_grads };
    let (weights, score_grads) = (weights.as_chunks_mut().0, score_grads.as_chunks_mut().0);
    let mut scores = Scores { weights, score_grads, tile_scratch };
    key_grads.fill(0.0);
    value_grads.fill(0.0);
    let heads = sizes.heads_of_group();
    for head in at[1] * heads..(at[1] + 1) * heads {
        let mut sink_grad = 0f32;
        for first in (0..sizes.queries).step_by(sizes.queries_at_once().max(1)) {
            let rows = first..(first + sizes.queries_at_once()).min(sizes.queries);
            let head = [at[0], head];
            let mut panels = [const { None }; PANELS];
            for (number, slot) in panels.iter_mut().enumerate() {
                let first = rows.start + number * LANES;
                if first < rows.end {
                    let rows = first..(first + LANES).min(rows.end);
                    *slot = Some(operands.panel(task, to, head, rows, number, scores.tile_scratch));
                }
            }
            if to.softmax_stats.is_none() || to.result.is_none() {
                each_tile(
                    task,
                    &mut panels,
                    at,
                    keys,
                    values,
                    |number, state, tile, keys, values| {
                        operands.products(
                            &sizes,
                            number,
                            state,
                            tile.len(),
                            keys,
                            values,
                            &mut scores,
                        );
                        state.accumulate_stats(task, &tile, &mut scores);
                    },
                );
                panels.iter_mut().flatten().for_each(|state| state.finish_stats(to));
            }
            query_grads.fill(0.0);
            each_tile(task, &mut panels, at, keys, values, |number, state, tile, keys, values| {
                operands.products(&sizes, number, state, tile.len(), keys, values, &mut scores);
                state.score_gradients(task, &tile, &mut scores);
                let query_grads = &mut query_grads[number * LANES * sizes.features..];
                operands.add_grads_of_queries_and_keys(
                    &sizes,
                    number,
                    state,
                    &tile,
                    keys,
                    (query_grads, key_grads),
                    &scores,
                );
                let count = tile.len();
                task.apply_dropout(
                    &state.panel,
                    &tile,
                    &mut scores.weights[..count],
                    scores.tile_scratch,
                );
                operands.add_grad_of_values(&sizes, number, state, &tile, value_grads, &scores);
            });
            for (number, state) in panels.iter().flatten().enumerate() {
                let from = query_grads[number * LANES * sizes.features..].as_ptr();
                let (count, first) = (state.panel.count(), state.panel.queries.start);
                let lines = &mut *scores.tile_scratch;
                // SAFETY: the lines hold the gradients of a panel.
                unsafe {
                    transpose(
                        lines.as_mut_ptr(),
                        sizes.features,
                        from,
                        LANES,
                        count,
                        sizes.features,
                    );
                }
                let (lines, at) = ((&*lines, sizes.features), [head[0], head[1], first]);
                put(&to.query, at, lines, count, sizes.features);
                sink_grad += state.sink_gradient(task);
            }
        }
        if let Some(sink) = to.sink {
            PositionAccessMut::new(sink).set(&[at[0], head], -sink_grad);
        }
    }
    let [features, width] = sizes.padded();
    put(&to.key, [at[0], at[1], 0], (key_grads, features), sizes.keys, sizes.features);
    put(&to.value, [at[0], at[1], 0], (value_grads, width), sizes.keys, sizes.width);
}

/// Calls `body` for each panel and each tile of keys that count in it, with the keys and values of the tile.
#[inline(always)]
fn each_tile(
    task: &Attention<'_>,
    panels: &mut [Option<PanelBackward>; PANELS],
    at: [usize; 2],
    keys: &mut [f32],
    values: &mut [f32],
    mut body: impl FnMut(usize, &mut PanelBackward, Range<usize>, Left, Left),
) {
    let ranges = || panels.iter().flatten().map(|state| state.panel.keys.clone());
    let not_empty = || ranges().filter(|keys| !keys.is_empty());
    let first = not_empty().map(|keys| keys.start).min().unwrap_or(0);
    let end = not_empty().map(|keys| keys.end).max().unwrap_or(0);
    for start in (first..end).step_by(KEYS) {
        let tile = start..(start + KEYS).min(end);
        // SAFETY: the rows are inside the views, and the scratch holds a tile.
        let (keys, values) = unsafe {
            (
                rows_of(&task.key, at, tile.clone(), keys).left(),
                rows_of(&task.value, at, tile.clone(), values).left(),
            )
        };
        for (number, state) in panels.iter_mut().flatten().enumerate() {
            let keys_of_panel =
                start.max(state.panel.keys.start)..tile.end.min(state.panel.keys.end);
            if keys_of_panel.is_empty() {
                continue;
            }
            let skipped = (keys_of_panel.start - start) as isize;
            let from =
                |rows: Left| Left { first: rows.first.wrapping_offset(skipped * rows.row), ..rows };
            body(number, state, keys_of_panel, from(keys), from(values));
        }
    }
}

impl Operands<'_> {
    /// Loads a panel: its queries and gradients, and its softmax where the caller gave it.
    fn panel(
        &mut self,
        task: &Attention<'_>,
        to: &Gradients<'_>,
        head: [usize; 2],
        rows: Range<usize>,
        number: usize,
        lines: &mut [f32],
    ) -> PanelBackward {
        let sizes = task.sizes();
        let [features, width] = sizes.padded();
        let at = number * LANES;
        let queries = &mut self.queries[at * features..][..LANES * features];
        let grads = &mut self.grads[at * width..][..LANES * width];
        // SAFETY: the rows are inside the views, and the buffers hold those of a panel.
        let [mut greatest, mut factors, mut delta] = unsafe {
            let from = rows_of(&task.query, head, rows.clone(), lines);
            pad(from, queries, sizes.features, rows.len());
            let transposed = self.transposed_queries[at * sizes.features..].as_mut_ptr();
            transpose(transposed, LANES, from.first, from.pitch, sizes.features, rows.len());
            let from = rows_of(&to.grad, head, rows.clone(), lines);
            pad(from, grads, sizes.width, rows.len());
            let transposed = self.transposed_grads[at * sizes.width..].as_mut_ptr();
            transpose(transposed, LANES, from.first, from.pitch, sizes.width, rows.len());
            [[0f32; LANES]; 3]
        };
        for (lane, query) in rows.clone().enumerate() {
            if let Some((greatest_scores, sums)) = &to.softmax_stats {
                let at = [head[0], head[1], query];
                let sum = stat_at(sums, at);
                greatest[lane] = stat_at(greatest_scores, at);
                factors[lane] = if sum == 0.0 { 0.0 } else { 1.0 / sum };
            }
        }
        if let Some(result) = &to.result {
            // SAFETY: as above.
            let results = unsafe { rows_of(result, head, rows.clone(), lines) };
            for (lane, delta) in delta.iter_mut().enumerate().take(rows.len()) {
                // SAFETY: as above.
                let line = unsafe {
                    std::slice::from_raw_parts(results.first.add(lane * results.pitch), sizes.width)
                };
                *delta =
                    crate::kernels::matmul::dot_strips(&grads[lane * width..][..sizes.width], line);
            }
        }
        let softmax = Softmax::new(task, head[1]);
        let panel = Panel::new(task, head, rows);
        PanelBackward { panel, greatest, factors, delta, softmax, products: [0.0; LANES] }
    }

    /// The plain products of queries and keys, and of gradients and values.
    #[allow(clippy::too_many_arguments)]
    fn products(
        &self,
        sizes: &Sizes,
        number: usize,
        state: &PanelBackward,
        rows: usize,
        keys: Left,
        values: Left,
        scores: &mut Scores<'_>,
    ) {
        let columns = state.panel.count().next_multiple_of(GRAIN);
        let queries = &self.transposed_queries[number * LANES * sizes.features..];
        let grads = &self.transposed_grads[number * LANES * sizes.width..];
        let panel_rows = |from: &[f32]| Rows { first: from.as_ptr(), pitch: LANES };
        let lanes = |to: &mut [Lane]| Rows { first: to.as_mut_ptr().cast::<f32>(), pitch: LANES };
        // SAFETY: tile, panel and scores have these sizes.
        unsafe {
            let shape = Shape { rows, columns, depth: sizes.features, add: false };
            product(shape, keys, panel_rows(queries), lanes(scores.weights));
            let shape = Shape { rows, columns, depth: sizes.width, add: false };
            product(shape, values, panel_rows(grads), lanes(scores.score_grads));
        }
    }

    /// From gradients of plain products to those of queries (transposed) and keys, which are added up.
    #[allow(clippy::too_many_arguments)]
    fn add_grads_of_queries_and_keys(
        &self,
        sizes: &Sizes,
        number: usize,
        state: &PanelBackward,
        tile: &Range<usize>,
        keys: Left,
        (query_grads, key_grads): (&mut [f32], &mut [f32]),
        scores: &Scores<'_>,
    ) {
        let (count, padded) = (state.panel.count(), sizes.padded()[0]);
        let columns = count.next_multiple_of(GRAIN);
        let score_grads = Rows { first: scores.score_grads.as_ptr().cast::<f32>(), pitch: LANES };
        // SAFETY: tile, panel, score_grads and both gradients have these sizes.
        unsafe {
            let shape = Shape { rows: sizes.features, columns, depth: tile.len(), add: true };
            let to = Rows { first: query_grads.as_mut_ptr(), pitch: LANES };
            product(shape, keys.transposed(), score_grads, to);
            let shape = Shape { rows: tile.len(), columns: padded, depth: count, add: true };
            let queries = self.queries[number * LANES * padded..].as_ptr();
            let to = key_grads[tile.start * padded..].as_mut_ptr();
            let queries = Rows { first: queries, pitch: padded };
            product(shape, score_grads.left(), queries, Rows { first: to, pitch: padded });
        }
    }

    /// From gradients of the result to those of values, which are added up.
    fn add_grad_of_values(
        &self,
        sizes: &Sizes,
        number: usize,
        state: &PanelBackward,
        tile: &Range<usize>,
        value_grads: &mut [f32],
        scores: &Scores<'_>,
    ) {
        let (count, padded) = (state.panel.count(), sizes.padded()[1]);
        let weights = Rows { first: scores.weights.as_ptr().cast::<f32>(), pitch: LANES };
        let shape = Shape { rows: tile.len(), columns: padded, depth: count, add: true };
        let grads = Rows { first: self.grads[number * LANES * padded..].as_ptr(), pitch: padded };
        let to = value_grads[tile.start * padded..].as_mut_ptr();
        // SAFETY: tile, panel and weights have these sizes.
        unsafe { product(shape, weights.left(), grads, Rows { first: to, pitch: padded }) };
    }
}

impl PanelBackward {
    /// Adds a tile of plain products to the softmax and the sum of products.
    #[inline(always)]
    fn accumulate_stats(
        &mut self,
        task: &Attention<'_>,
        tile: &Range<usize>,
        scores: &mut Scores<'_>,
    ) {
        let count = tile.len();
        let (weights, score_grads) =
            (&mut scores.weights[..count], &mut scores.score_grads[..count]);
        task.score(&self.panel, tile, weights, scores.tile_scratch);
        let factors = self.softmax.add_tile(weights);
        task.apply_dropout(&self.panel, tile, score_grads, scores.tile_scratch);
        let mut sums = [0f32; LANES];
        for (weights, score_grads) in weights.iter().zip(score_grads) {
            for lane in 0..LANES {
                sums[lane] += weights[lane] * score_grads[lane];
            }
        }
        for lane in 0..LANES {
            self.products[lane] = self.products[lane] * factors[lane] + sums[lane];
        }
    }

    /// Uses the computed softmax and delta, where the caller gave none.
    fn finish_stats(&mut self, to: &Gradients<'_>) {
        let factors = self.softmax.factors();
        if to.softmax_stats.is_none() {
            (self.greatest, self.factors) = (self.softmax.greatest, factors);
        }
        if to.result.is_none() {
            for (delta, (product, factor)) in
                self.delta.iter_mut().zip(self.products.iter().zip(factors))
            {
                *delta = product * factor;
            }
        }
    }

    /// Plain products become weights, and the gradients of those become the gradients of the plain products.
    #[inline(always)]
    fn score_gradients(&self, task: &Attention<'_>, tile: &Range<usize>, scores: &mut Scores<'_>) {
        let count = tile.len();
        let (weights, score_grads) =
            (&mut scores.weights[..count], &mut scores.score_grads[..count]);
        task.score(&self.panel, tile, weights, scores.tile_scratch);
        task.apply_dropout(&self.panel, tile, score_grads, scores.tile_scratch);
        let lanes = lanes();
        for (weights, score_grads) in weights.iter_mut().zip(score_grads) {
            let stats = self.greatest[..lanes].iter().zip(&self.factors[..lanes]);
            let stats = stats.zip(&self.delta[..lanes]);
            let pairs = weights[..lanes].iter_mut().zip(&mut score_grads[..lanes]);
            for ((weight, score_grad), ((greatest, factor), delta)) in pairs.zip(stats) {
                let exponent = *weight - greatest;
                let exponent = if exponent > 88.0 { 88.0 } else { exponent };
                let exponential = exp_below(exponent) * factor;
                *weight = if *weight == f32::NEG_INFINITY { 0.0 } else { exponential };
                *score_grad = *weight * (*score_grad - delta) * task.scale;
            }
        }
    }

    /// The gradient of the sink, without its sign.
    fn sink_gradient(&self, task: &Attention<'_>) -> f32 {
        if task.sink.is_none() {
            return 0.0;
        }
        let sink = sink_score(task, self.panel.head);
        let lane = |lane: usize| {
            crate::kernels::math::exp(sink - self.greatest[lane])
                * self.factors[lane]
                * self.delta[lane]
        };
        (0..self.panel.count()).map(lane).sum()
    }
}

/// Copies rows, with zeros after each as far as `into` goes.
///
/// # Safety
/// They have `columns` elements.
unsafe fn pad(from: Rows<*const f32>, into: &mut [f32], columns: usize, rows: usize) {
    let padded = columns.next_multiple_of(GRAIN);
    for (row, line) in into.chunks_exact_mut(padded.max(1)).take(rows).enumerate() {
        // SAFETY: as the caller guarantees.
        let from = unsafe { std::slice::from_raw_parts(from.first.add(row * from.pitch), columns) };
        line[..columns].copy_from_slice(from);
        line[columns..].fill(0.0);
    }
}

/// The first number at a query.
fn stat_at(view: &View<'_>, at: [usize; 3]) -> f32 {
    // SAFETY: the position is inside the view.
    unsafe {
        let from = view.first().offset(offset_of(view, at) * view.item() as isize);
        load_one(view.dtype(), from)
    }
}
