//! How much keys matter, backwards: the gradients of the values of chosen keys, and those of the divergence between how much keys
//! matter and what attention gives them.
//!
//! Workspace: the gradient of the keys in `f32`; for divergences also, for as many queries as are computed together, how much
//! each key matters and what attention gives it, and the divergence of each query.

use super::sequences::{Arrangement, LocatedSequences, SequenceArguments, Sequences};
use super::sparse::{Chosen, statistics};
use super::{TYPES, as_rows, expect_only, three};
use crate::call::Call;
use crate::error::{Error, Fault, Result};
use crate::family::inputs::UnaliasedInput;
use crate::plan::{Memory, Operand, Plan};
use cairn_tensor::kernels::access::{PositionAccess, PositionAccessMut};
use cairn_tensor::kernels::copy::copy;
use cairn_tensor::kernels::index_gradients::{Index, IndexGradients, divergence, index_gradients};
use cairn_tensor::kernels::map::fill_scalar;
use cairn_tensor::kernels::selected_attention::{MOST_FEATURES, Selected, importance};
use cairn_tensor::{DType, Layout, Scalar, View, ViewMut};

/// Queries that are computed together.
const CHUNK: usize = 64;

/// What windows may be: they do not count in the modes there are.
const WIDTHS: &[i64] = &[i32::MAX as i64, i64::MAX];

/// Queries, keys and weights of the index, as rows.
#[derive(Clone, Copy)]
struct IndexInputs {
    query: UnaliasedInput,
    key: UnaliasedInput,
    weights: UnaliasedInput,
    queries: usize,
    key_heads: usize,
}

impl IndexInputs {
    /// Reads queries, keys and weights.
    fn read(call: &mut Call<'_>, at: [usize; 3], outs: &[&Operand]) -> Result<IndexInputs> {
        let [query, key, weights] =
            [call.read(at[0], outs)?, call.read(at[1], outs)?, call.read(at[2], outs)?];
        call.expect_dtype(at[0], &query, TYPES)?;
        call.expect_same(at[1], &key, at[0], &query)?;
        call.expect_dtype(at[2], &weights, &[query.dtype, DType::Float])?;
        let (query_rows, key_rows) = (as_rows(call, at[0], &query)?, as_rows(call, at[1], &key)?);
        let [queries, heads, features] = three(call, at[0], query_rows.dims())?;
        let [_, key_heads, key_features] = three(call, at[1], key_rows.dims())?;
        let fits = key_heads > 0 && heads.is_multiple_of(key_heads) && key_features == features;
        if !fits || features > MOST_FEATURES {
            let (a, b) = (call.parameter(at[0]), call.parameter(at[1]));
            return Err(Error::invalid(format!(
                "{a} has {heads} heads of {features}, {b} {key_heads} of {key_features}"
            )));
        }
        call.expect_dims(at[2], &weights, &query.dims()[..query.rank() - 1])?;
        let Some(weight_rows) = weights.reshaped(&[queries, heads]) else {
            let name = call.parameter(at[2]);
            return Err(Error::invalid(format!("{name} ({}) has no rows in order", *weights)));
        };
        Ok(IndexInputs {
            query: query.with_layout(query_rows),
            key: key.with_layout(key_rows),
            weights: weights.with_layout(weight_rows),
            queries,
            key_heads,
        })
    }

    /// Fails unless keys have one head.
    fn expect_one_key_head(&self, call: &Call<'_>, at: usize) -> Result<()> {
        if self.key_heads == 1 {
            return Ok(());
        }
        let (name, have) = (call.parameter(at), self.key_heads);
        Err(Error::invalid(format!("{name} has {have} heads: expected 1")))
    }

    fn views<'a>(&self, memory: &Memory<'a>) -> Index<'a> {
        Index {
            query: self.query.view(memory),
            key: self.key.view(memory),
            weights: self.weights.view(memory),
        }
    }
}

/// Where the gradients of [`IndexInputs`] go.
#[derive(Clone, Copy)]
struct IndexTargets {
    query: Operand,
    key: Operand,
    weights: Operand,
}

impl IndexTargets {
    fn read(call: &mut Call<'_>, at: [usize; 3]) -> Result<IndexTargets> {
        Ok(IndexTargets {
            query: call.output(at[0])?,
            key: call.output(at[1])?,
            weights: call.output(at[2])?,
        })
    }

    /// The same as rows, where each is like its input.
    fn as_rows(self, call: &Call<'_>, at: [usize; 3], inputs: [usize; 3]) -> Result<IndexTargets> {
        for (one, (at, input)) in
            [&self.query, &self.key, &self.weights].into_iter().zip(at.into_iter().zip(inputs))
        {
            let like = call.layout(input)?;
            call.expect_dims(at, one, like.dims())?;
            call.expect_same(at, one, input, &like)?;
        }
        let (query, key) =
            (as_rows(call, at[0], self.query.layout())?, as_rows(call, at[1], self.key.layout())?);
        let Some(weights) = self.weights.layout().reshaped(&query.dims()[..2]) else {
            let name = call.parameter(at[2]);
            return Err(Error::invalid(format!("{name} has no rows in order")));
        };
        Ok(IndexTargets {
            query: self.query.with_layout(query),
            key: self.key.with_layout(key),
            weights: self.weights.with_layout(weights),
        })
    }

    fn outs<'a>(&self, memory: &Memory<'a>, key: ViewMut<'a>) -> IndexGradients<'a> {
        fill_scalar(memory.parallel, key, Scalar::from(0));
        IndexGradients { query: memory.out(&self.query), key, weights: memory.out(&self.weights) }
    }
}

/// A tensor with a number for each chosen key, as queries, heads of keys, numbers; heads may be left out where there is one.
fn numbers(
    call: &mut Call<'_>,
    at: usize,
    [queries, key_heads]: [usize; 2],
    outs: &[&Operand],
) -> Result<UnaliasedInput> {
    let read = call.read(at, outs)?;
    let count = read.dims().last().copied().unwrap_or(0);
    let rows = read.reshaped(&[queries, key_heads, count]).filter(|_| read.rank() >= 2);
    rows.map(|rows| read.with_layout(rows)).ok_or_else(|| {
        let (name, dims) = (call.parameter(at), read.dims());
        Error::invalid(format!(
            "{name} has the sizes {dims:?}: expected {queries} rows of {key_heads} heads"
        ))
    })
}

/// Arguments: query, key, gradient of the values, chosen, weights, lengths of queries and of keys, heads (not read), layout, mode,
/// two windows, whether results have to be the same in each run (they are), gradients of query, key, weights.
pub(super) fn gradients(call: &mut Call<'_>) -> Result<Plan> {
    let (inputs, targets_at) = ([0, 1, 4], [13, 14, 15]);
    let targets = IndexTargets::read(call, targets_at)?;
    let outs = [&targets.query, &targets.key, &targets.weights];
    let index = IndexInputs::read(call, inputs, &outs)?;
    let (query, key) = (call.layout(0)?, call.layout(1)?);
    let at = SequenceArguments {
        lengths: [5, 6],
        table: None,
        layouts: [8, 8],
        paged: "PA_BSND",
        bounds: false,
        mode: 9,
        windows: [10, 11],
        widths: WIDTHS,
    };
    let sequences = Sequences::read(call, &at, &query, &key, &outs)?;
    let sizes = [index.queries, index.key_heads];
    let (grad, chosen) = (numbers(call, 2, sizes, &outs)?, numbers(call, 3, sizes, &outs)?);
    call.expect_dtype(2, &grad, &[query.dtype, DType::Float])?;
    call.expect_dtype(3, &chosen, &[DType::Int32])?;
    call.expect_dims(2, &grad, chosen.dims())?;
    let targets = targets.as_rows(call, targets_at, inputs)?;
    let scratch = call.scratch(DType::Float, targets.key.dims());
    index.key.touch_by_index(call);
    let name = call.parameter(3);
    call.plan(move |memory| {
        let located = sequences.locate(memory);
        located.check()?;
        let numbers = PositionAccess::new(chosen.view(memory));
        let &[queries, key_heads, count] = chosen.dims() else { return Ok(()) };
        for query in 0..queries {
            let Some((at, _)) = located.visible(query) else { continue };
            let (first, last) = located.keys(at);
            for (head, place) in
                (0..key_heads).flat_map(|head| (0..count).map(move |at| (head, at)))
            {
                let value: i64 = numbers.get(&[query, head, place]);
                if value < -1 || value >= last - first {
                    let last = last - first - 1;
                    return Err(Fault(format!(
                        "{name}[{query}, {head}, {place}] = {value} is outside -1 to {last}"
                    )));
                }
            }
        }
        let rows = |query: usize, head: usize, number: usize| {
            let (at, _) = located.visible(query)?;
            let key = usize::try_from(numbers.get::<i64>(&[query, head, number])).ok();
            Some(key.map(|key| located.row(at, key)))
        };
        let grad = grad.view(memory);
        let sums = memory.scratch(&scratch);
        let into = targets.outs(memory, sums);
        index_gradients(memory.parallel, &index.views(memory), &into, (0, grad), rows);
        copy(memory.parallel, memory.out(&targets.key), sums.view());
        Ok(())
    })
}

/// How much the keys of the queries from `first` on matter, as many queries as `scores` has.
fn importance_from<'a>(
    memory: &Memory<'_>,
    scores: ViewMut<'a>,
    index: &Index<'a>,
    first: usize,
    rows: impl Fn(usize, usize, usize) -> Option<Option<usize>> + Sync,
) {
    let length = scores.dims()[0];
    let part = |view: View<'a>| {
        let layout = view.layout().sliced(0, first, length, 1);
        view.with_layout(layout).expect("queries")
    };
    let (query, weights) = (part(index.query), part(index.weights));
    let shifted = |at: usize, head: usize, number: usize| rows(first + at, head, number);
    importance(memory.parallel, scores, query, index.key, weights, shifted);
}

/// Every key that a query may see.
fn every_key<'a>(
    located: &'a LocatedSequences<'_>,
) -> impl Fn(usize, usize, usize) -> Option<Option<usize>> + Sync + 'a {
    |query, _, number| {
        let (at, seen) = located.visible(query)?;
        (number < seen).then(|| Some(located.row(at, number)))
    }
}

/// Numbers of each query: with batches in front and one head, or one head and tokens.
fn number_rows(
    call: &Call<'_>,
    at: usize,
    one: &Layout,
    sequences: &Sequences,
    queries: usize,
) -> Result<Layout> {
    call.expect_dtype(at, one, &[DType::Float])?;
    match sequences.query {
        Arrangement::Packed => call.expect_dims(at, one, &[1, queries])?,
        _ => call.expect_dims(at, one, &[sequences.count, 1, sequences.query_steps])?,
    }
    one.reshaped(&[queries]).ok_or_else(|| {
        let name = call.parameter(at);
        Error::invalid(format!("{name} ({one}) has no rows in order"))
    })
}

/// The first rows of a part of the workspace.
fn rows_of<'a>(memory: &Memory<'a>, scratch: &crate::plan::Scratch, length: usize) -> ViewMut<'a> {
    let view = memory.scratch(scratch);
    let layout = view.layout().sliced(0, 0, length, 1);
    view.with_layout(layout).expect("no more than a chunk")
}

/// Arguments: query, key, weights, lengths of queries and of keys, layout, mode, two windows, greatest number, sum of
/// exponentials.
pub(super) fn statistics_of_all(call: &mut Call<'_>) -> Result<Plan> {
    let (greatest, sums) = (call.output(9)?, call.output(10)?);
    let outs = [&greatest, &sums];
    expect_only(call, 6, &[3])?;
    let index = IndexInputs::read(call, [0, 1, 2], &outs)?;
    index.expect_one_key_head(call, 1)?;
    let (query, key) = (call.layout(0)?, call.layout(1)?);
    let at = SequenceArguments {
        lengths: [3, 4],
        table: None,
        layouts: [5, 5],
        paged: "PA_BSND",
        bounds: false,
        mode: 6,
        windows: [7, 8],
        widths: &[i64::MAX],
    };
    let sequences = Sequences::read(call, &at, &query, &key, &outs)?;
    let queries = index.queries;
    let greatest_rows = number_rows(call, 9, greatest.layout(), &sequences, queries)?;
    let sum_rows = number_rows(call, 10, sums.layout(), &sequences, queries)?;
    let most = sequences.most_keys();
    let scores = call.scratch(DType::Float, &[queries.min(CHUNK), 1, most]);
    index.key.touch_by_index(call);
    call.plan(move |memory| {
        let located = sequences.locate(memory);
        located.check()?;
        let views = index.views(memory);
        let targets = [greatest.with_layout(greatest_rows), sums.with_layout(sum_rows)]
            .map(|one| PositionAccessMut::new(memory.out(&one)));
        for first in (0..queries).step_by(CHUNK) {
            let length = CHUNK.min(queries - first);
            let scores = rows_of(memory, &scores, length);
            importance_from(memory, scores, &views, first, every_key(&located));
            let scores = PositionAccess::new(scores.view());
            for at in 0..length {
                let seen = located.visible(first + at).map_or(0, |(_, seen)| seen);
                let all = || (0..seen).map(|number| scores.get::<f32>(&[at, 0, number]));
                let most = all().fold(f32::NEG_INFINITY, f32::max);
                targets[0].set(&[first + at], most);
                targets[1].set(&[first + at], all().map(|one| (one - most).exp()).sum::<f32>());
            }
        }
        Ok(())
    })
}

/// Where the arguments of a divergence are; query, key and those of the index are the first five.
struct DivergenceArguments {
    chosen: Option<usize>,
    statistics: [usize; 2],
    index_statistics: Option<[usize; 2]>,
    rotary: [usize; 2],
    lengths: [usize; 2],
    scale: usize,
    layout: usize,
    mode: usize,
    windows: [usize; 2],
    outs: [usize; 3],
    loss: usize,
}

/// Arguments: query, key, query, key and weights of the index, chosen, greatest products, sums, rotary queries and keys, lengths of
/// queries and of keys, scale, layout, mode, two windows, whether results have to be the same in each run (they are), gradients of
/// the index, loss, 1 (the size of a block).
pub(super) fn divergence_of_chosen(call: &mut Call<'_>) -> Result<Plan> {
    divergence_gradients(
        call,
        &DivergenceArguments {
            chosen: Some(5),
            statistics: [6, 7],
            index_statistics: None,
            rotary: [8, 9],
            lengths: [10, 11],
            scale: 12,
            layout: 13,
            mode: 14,
            windows: [15, 16],
            outs: [18, 19, 20],
            loss: 21,
        },
    )
}

/// As [`divergence_of_chosen`], of every key, with statistics of the index after those of the attention.
pub(super) fn divergence_of_all(call: &mut Call<'_>) -> Result<Plan> {
    divergence_gradients(
        call,
        &DivergenceArguments {
            chosen: None,
            statistics: [5, 6],
            index_statistics: Some([7, 8]),
            rotary: [9, 10],
            lengths: [11, 12],
            scale: 13,
            layout: 14,
            mode: 15,
            windows: [16, 17],
            outs: [18, 19, 20],
            loss: 21,
        },
    )
}

fn divergence_gradients(call: &mut Call<'_>, at: &DivergenceArguments) -> Result<Plan> {
    expect_only(call, at.mode, &[3])?;
    let targets = IndexTargets::read(call, at.outs)?;
    let loss = call.output(at.loss)?;
    call.expect_dtype(at.loss, &loss, &[DType::Float])?;
    call.expect_dims(at.loss, &loss, &[1])?;
    let outs = [&targets.query, &targets.key, &targets.weights, &loss];
    let index = IndexInputs::read(call, [2, 3, 4], &outs)?;
    index.expect_one_key_head(call, 3)?;
    let (query, key) = (call.read(0, &outs)?, call.read(1, &outs)?);
    call.expect_same(0, &query, 2, &index.query)?;
    call.expect_same(1, &key, 2, &index.query)?;
    let sequences = Sequences::read(
        call,
        &SequenceArguments {
            lengths: at.lengths,
            table: None,
            layouts: [at.layout, at.layout],
            paged: "PA_BSND",
            bounds: false,
            mode: at.mode,
            windows: at.windows,
            widths: WIDTHS,
        },
        &query,
        &key,
        &outs,
    )?;
    let (query_rows, key_rows) = (as_rows(call, 0, &query)?, as_rows(call, 1, &key)?);
    let [queries, heads, features] = three(call, 0, query_rows.dims())?;
    let [rows, key_heads, key_features] = three(call, 1, key_rows.dims())?;
    let fits = key_heads > 0 && heads.is_multiple_of(key_heads) && key_features == features;
    if !fits || index.queries != queries || index.key.dims()[0] != rows {
        let names = [0, 1, 2, 3].map(|at| call.parameter(at)).join(", ");
        let (have, of) = (index.queries, index.key.dims()[0]);
        return Err(Error::invalid(format!(
            "{names}: {queries} and {rows} rows, {have} and {of} in the index, with {heads} heads of {features} and \
             {key_heads} of {key_features}"
        )));
    }
    let rotary = match at.rotary.map(|at| call.has(at)) {
        [false, false] => None,
        _ => {
            let [a, b] = [call.read(at.rotary[0], &outs)?, call.read(at.rotary[1], &outs)?];
            let mut both = Vec::new();
            for (at, one) in at.rotary.into_iter().zip([&a, &b]) {
                call.expect_same(at, one, 0, &query)?;
                both.push(as_rows(call, at, one)?);
            }
            let more = both[0].dims()[2];
            call.expect_dims(at.rotary[0], &both[0], &[queries, heads, more])?;
            call.expect_dims(at.rotary[1], &both[1], &[rows, key_heads, more])?;
            Some((a.with_layout(both[0]), b.with_layout(both[1]), more))
        }
    };
    let all = features + rotary.map_or(0, |(.., more)| more);
    if all > MOST_FEATURES {
        return Err(Error::invalid(format!("{all} features: expected at most {MOST_FEATURES}")));
    }
    let group = heads / key_heads;
    let sizes = [queries, key_heads, group];
    let mut stats = Vec::new();
    for at in at.statistics {
        let read = call.read(at, &outs)?;
        let rows = statistics(call, at, &read, &sequences, sizes)?;
        stats.push(read.with_layout(rows));
    }
    let mut index_stats = Vec::new();
    for at in at.index_statistics.into_iter().flatten() {
        let read = call.read(at, &outs)?;
        let rows = number_rows(call, at, &read, &sequences, queries)?;
        index_stats.push(read.with_layout(rows));
    }
    let chosen = match at.chosen {
        Some(at) => Some(Chosen::of_keys(call, at, [queries, 1], &outs)?),
        None => None,
    };
    let most = chosen.as_ref().map_or_else(|| sequences.most_keys(), Chosen::count);
    let targets = targets.as_rows(call, at.outs, [2, 3, 4])?;
    for one in [&key, &index.key] {
        one.touch_by_index(call);
    }
    if let Some((_, key, _)) = &rotary {
        key.touch_by_index(call);
    }
    let scale = call.float(at.scale)? as f32;
    let key_sums = call.scratch(DType::Float, targets.key.dims());
    let chunk = queries.min(CHUNK);
    let scores = call.scratch(DType::Float, &[chunk, 1, most]);
    let shares = call.scratch(DType::Float, &[chunk, 1, most]);
    let losses = call.scratch(DType::Float, &[chunk]);
    let (steps, is_packed) = (sequences.query_steps.max(1), sequences.query == Arrangement::Packed);
    call.plan(move |memory| {
        let located = sequences.locate(memory);
        located.check()?;
        if let Some(chosen) = &chosen {
            chosen.check(memory, &located)?;
        }
        let chosen_rows = chosen.as_ref().map(|chosen| chosen.rows(memory, &located));
        let every = every_key(&located);
        let rows = |query: usize, head: usize, number: usize| match &chosen_rows {
            Some(rows) => rows(query, head, number),
            None => every(query, head, number),
        };
        let attention = Selected {
            query: query.with_layout(query_rows).view(memory),
            key: key.with_layout(key_rows).view(memory),
            value: key.with_layout(key_rows).prepared(memory),
            rotary: rotary.map(|(query, key, _)| (query.view(memory), key.view(memory))),
            scale,
        };
        let views = index.views(memory);
        let stats: Vec<_> = stats.iter().map(|one| PositionAccess::new(one.view(memory))).collect();
        let index_stats: Vec<_> =
            index_stats.iter().map(|one| PositionAccess::new(one.view(memory))).collect();
        let of_attention = |query: usize, head: usize| {
            let (key_head, member) = (head / group, head % group);
            let number = |one: &PositionAccess<'_>| -> f32 {
                match is_packed {
                    true => one.get(&[query, key_head, member]),
                    false => one.get(&[query / steps, query % steps, key_head, member]),
                }
            };
            (number(&stats[0]), number(&stats[1]))
        };
        let of_index = |query: usize| match &index_stats[..] {
            [most, sum] => Some((most.get::<f32>(&[query]), sum.get::<f32>(&[query]))),
            _ => None,
        };
        let key_sums = memory.scratch(&key_sums);
        let into = targets.outs(memory, key_sums);
        let mut total = 0f64;
        for first in (0..queries).step_by(CHUNK) {
            let length = CHUNK.min(queries - first);
            let scores = rows_of(memory, &scores, length);
            let losses = rows_of(memory, &losses, length);
            importance_from(memory, scores, &views, first, rows);
            let work = [scores, rows_of(memory, &shares, length), losses];
            divergence(memory.parallel, &attention, work, first, of_attention, of_index, rows);
            index_gradients(memory.parallel, &views, &into, (first, scores.view()), rows);
            let losses = PositionAccess::new(losses.view());
            total += (0..length).map(|at| f64::from(losses.get::<f32>(&[at]))).sum::<f64>();
        }
        copy(memory.parallel, memory.out(&targets.key), key_sums.view());
        PositionAccessMut::new(memory.out(&loss)).set(&[0], total as f32);
        Ok(())
    })
}
