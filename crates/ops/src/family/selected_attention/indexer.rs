//! The keys that matter most to each query.
//!
//! Workspace, for as many queries as are computed together: how much each key matters, a key with its index for each of those,
//! and the chosen ones with their numbers.

use super::sequences::{SequenceArguments, Sequences};
use super::{TYPES, as_rows, expect_only, three};
use crate::argument::Arg;
use crate::call::Call;
use crate::error::{Error, Result};
use crate::family::sorting::overwritten_workspace;
use crate::plan::Plan;
use cairn_tensor::DType;
use cairn_tensor::kernels::access::{PositionAccess, PositionAccessMut};
use cairn_tensor::kernels::order::entry_bytes;
use cairn_tensor::kernels::selected_attention::{MOST_FEATURES, importance};
use cairn_tensor::kernels::sort::{Ranked, Selection, ordered};

/// Queries that keys are chosen for together.
const CHUNK: usize = 64;

/// Arguments: query, key, weights, lengths of queries, lengths of keys, table, layouts of queries and keys, how many are chosen,
/// mode, two windows, whether values are wanted, numbers, values.
pub(super) fn choose(call: &mut Call<'_>) -> Result<Plan> {
    let at = SequenceArguments {
        lengths: [3, 4],
        table: Some(5),
        layouts: [6, 7],
        paged: "PA_BSND",
        bounds: false,
        mode: 9,
        windows: [10, 11],
        widths: &[i64::MAX],
    };
    choose_from(call, &at, None)
}

/// Arguments: as of [`choose`], where whether values are wanted is a number, and lengths of packed sequences begin with a 0; then lengths
/// of queries that count, of keys that count, remainders of compressed keys, what is added to numbers, how many keys are compressed to one.
pub(super) fn choose_of_compressed(call: &mut Call<'_>) -> Result<Plan> {
    for at in [15, 18] {
        if call.has(at) && call.layout(at)?.count() > 0 {
            let name = call.parameter(at);
            return Err(Error::invalid(format!(
                "{name} is there: the function's documentation does not support it on this model"
            )));
        }
    }
    let is_paged = call.text(7)? == "PA_BBND";
    for (at, layout_at) in [(3, 6), (4, 7)] {
        if call.has(at) && call.text(layout_at)? != "TND" {
            let (name, layout) = (call.parameter(at), call.parameter(layout_at));
            let have = call.text(layout_at)?;
            return Err(Error::invalid(format!("{name} is there, but {layout} = {have:?}")));
        }
    }
    if call.has(16) && !is_paged {
        let (name, layout) = (call.parameter(16), call.parameter(7));
        return Err(Error::invalid(format!("{name} is there, but {layout} is not PA_BBND")));
    }
    let (ratio, mode) = (call.int(19)?, call.int(9)?);
    if ratio < 1 || (ratio > 1 && mode == 3) {
        let (name, mode_name) = (call.parameter(19), call.parameter(9));
        return Err(Error::invalid(match ratio {
            ..1 => format!("{name} = {ratio}: expected a number above 0"),
            _ => format!(
                "{name} = {ratio} with {mode_name} = 3: the function's documentation does not say which compressed keys a \
                 query may see"
            ),
        }));
    }
    let wanted = expect_only(call, 12, &[0, 1])? == 1;
    call.replace(12, Arg::Flag(wanted));
    let at = SequenceArguments {
        lengths: [3, if is_paged { 16 } else { 4 }],
        table: Some(5),
        layouts: [6, 7],
        paged: "PA_BBND",
        bounds: true,
        mode: 9,
        windows: [10, 11],
        widths: &[i64::MAX],
    };
    choose_from(call, &at, Some(DType::Float))
}

/// The choice, with values of a type, or that of the queries.
fn choose_from(
    call: &mut Call<'_>,
    at: &SequenceArguments,
    value_type: Option<DType>,
) -> Result<Plan> {
    let numbers = call.output(13)?;
    let values = match call.flag(12)? {
        true => Some(call.output(14)?),
        false => None,
    };
    let mut outs = vec![&numbers];
    outs.extend(&values);
    let (query, key, weights) = (call.read(0, &outs)?, call.read(1, &outs)?, call.read(2, &outs)?);
    call.expect_dtype(0, &query, TYPES)?;
    call.expect_same(1, &key, 0, &query)?;
    call.expect_dtype(2, &weights, &[query.dtype, DType::Float])?;
    let sequences = Sequences::read(call, at, &query, &key, &outs)?;
    let (query_rows, key_rows) = (as_rows(call, 0, &query)?, as_rows(call, 1, &key)?);
    let [queries, heads, features] = three(call, 0, query_rows.dims())?;
    let [_, key_heads, key_features] = three(call, 1, key_rows.dims())?;
    if key_heads == 0
        || !heads.is_multiple_of(key_heads)
        || key_features != features
        || features > MOST_FEATURES
    {
        let (a, b) = (call.parameter(0), call.parameter(1));
        return Err(Error::invalid(format!(
            "{a} has {heads} heads of {features}, {b} {key_heads} of {key_features}"
        )));
    }
    call.expect_dims(2, &weights, &query.dims()[..query.rank() - 1])?;
    let Some(weight_rows) = weights.reshaped(&[queries, heads]) else {
        let name = call.parameter(2);
        return Err(Error::invalid(format!("{name} ({}) has no rows in order", *weights)));
    };
    let count = call.int(8)?;
    let Some(count) = usize::try_from(count).ok().filter(|count| *count > 0) else {
        let name = call.parameter(8);
        return Err(Error::invalid(format!("{name} = {count}: expected a number above 0")));
    };
    let mut dims = cairn_tensor::Dims::new(&query.dims()[..query.rank() - 2]);
    dims.push(key_heads);
    dims.push(count);
    call.expect_dims(13, &numbers, &dims)?;
    call.expect_dtype(13, &numbers, &[DType::Int32])?;
    let number_rows = as_rows(call, 13, numbers.layout())?;
    let value_rows = match &values {
        Some(values) => {
            call.expect_dims(14, values, &dims)?;
            call.expect_dtype(14, values, &[value_type.unwrap_or(query.dtype)])?;
            Some(as_rows(call, 14, values.layout())?)
        }
        None => None,
    };
    key.touch_by_index(call);
    let most = sequences.most_keys();
    let (chunk, kept) = (queries.min(CHUNK), count.min(most));
    let scores = call.scratch(DType::Float, &[chunk, key_heads, most]);
    let best = call.scratch(DType::Float, &[chunk, key_heads, kept]);
    let best_numbers = call.scratch(DType::Int32, &[chunk, key_heads, kept]);
    let bytes = chunk * key_heads * most * entry_bytes(DType::Float, most);
    let entries = call.scratch(DType::Uint8, &[bytes]);
    call.plan(move |memory| {
        let located = sequences.locate(memory);
        located.check()?;
        let parallel = memory.parallel;
        let query = query.with_layout(query_rows).view(memory);
        let key = key.with_layout(key_rows).view(memory);
        let weights = weights.with_layout(weight_rows).view(memory);
        let to = PositionAccessMut::new(memory.out(&numbers.with_layout(number_rows)));
        let to_values = values
            .zip(value_rows)
            .map(|(one, rows)| PositionAccessMut::new(memory.out(&one.with_layout(rows))));
        for first in (0..queries).step_by(CHUNK) {
            let length = CHUNK.min(queries - first);
            let part = |scratch| {
                let view: cairn_tensor::ViewMut<'_> = memory.scratch(scratch);
                let layout = view.layout().sliced(0, 0, length, 1);
                view.with_layout(layout).expect("no more than a chunk")
            };
            let (scores, best, best_numbers) = (part(&scores), part(&best), part(&best_numbers));
            let slice = |view: &cairn_tensor::View<'_>| view.layout().sliced(0, first, length, 1);
            let (queries, factors) = (
                query.with_layout(slice(&query)).expect("queries"),
                weights.with_layout(slice(&weights)).expect("weights"),
            );
            let rows = |at: usize, _: usize, number: usize| {
                let (sequence, seen) = located.visible(first + at)?;
                (number < seen).then(|| Some(located.row(sequence, number)))
            };
            importance(parallel, scores, queries, key, factors, rows);
            let ranked = Ranked {
                values: Some(best),
                indices: Some(best_numbers),
                scratch: memory.scratch(&entries),
            };
            ordered(parallel, scores.view(), 2, true, Selection::First(kept), &ranked)
                .map_err(overwritten_workspace)?;
            let (best, best_numbers) =
                (PositionAccess::new(best.view()), PositionAccess::new(best_numbers.view()));
            for at in 0..length {
                let seen = located.visible(first + at).map_or(0, |(_, seen)| seen);
                for head in 0..key_heads {
                    for place in 0..count {
                        let position = [first + at, head, place];
                        let is_there = place < kept.min(seen);
                        let number = match is_there {
                            true => best_numbers.get::<i64>(&[at, head, place]),
                            false => -1,
                        };
                        to.set(&position, number);
                        if let Some(values) = &to_values {
                            let value = match is_there {
                                true => best.get::<f32>(&[at, head, place]),
                                false => f32::NEG_INFINITY,
                            };
                            values.set(&position, value);
                        }
                    }
                }
            }
        }
        Ok(())
    })
}
