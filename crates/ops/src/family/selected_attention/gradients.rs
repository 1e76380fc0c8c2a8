//! The gradients of attention to chosen keys.
//!
//! Workspace: the gradients of queries, keys and values in `f32`, rotary features after the others.

use super::sequences::{Arrangement, SequenceArguments, Sequences};
use super::sparse::{Chosen, statistics};
use super::{TYPES, as_rows, three};
use crate::call::Call;
use crate::error::{Error, Result};
use crate::plan::Plan;
use cairn_tensor::kernels::access::PositionAccess;
use cairn_tensor::kernels::copy::copy;
use cairn_tensor::kernels::map::{fill_scalar, map2};
use cairn_tensor::kernels::selected_attention::{
    MOST_FEATURES, Selected, SelectedGradients, gradients,
};
use cairn_tensor::{DType, Scalar, View, ViewMut};

// Arguments: query, key, value (absent: the keys), chosen, gradient, out, greatest products, sums, lengths of queries and of keys,
// rotary queries and keys, scale, size of a block, layout, mode, two windows, whether results have to be the same in each run (they
// are), gradients of query, key, value, rotary queries and keys.
const ROTARY: [usize; 2] = [10, 11];
const OUTS: [usize; 5] = [19, 20, 21, 22, 23];

/// Some of the features of each row.
fn part(from: ViewMut<'_>, start: usize, length: usize) -> View<'_> {
    let layout = from.layout().sliced(2, start, length, 1);
    from.view().with_layout(layout).expect("features of each row")
}

/// See the top of the file for the arguments.
pub(super) fn attention_gradients(call: &mut Call<'_>) -> Result<Plan> {
    let is_merged = !call.has(2);
    let has_rotary = call.has(ROTARY[0]);
    if call.has(ROTARY[1]) != has_rotary {
        let [a, b] = ROTARY.map(|at| call.parameter(at));
        return Err(Error::invalid(format!("{a} and {b}: expected both, or neither")));
    }
    if is_merged && call.has(OUTS[2]) {
        let (name, value) = (call.parameter(OUTS[2]), call.parameter(2));
        return Err(Error::invalid(format!(
            "{name} is there, but {value} is not: the gradient of keys has that of values in it"
        )));
    }
    let mut targets = Vec::new();
    for (place, at) in OUTS.into_iter().enumerate() {
        let is_wanted = match place {
            2 => !is_merged,
            3 | 4 => has_rotary,
            _ => true,
        };
        targets.push(if is_wanted { Some(call.output(at)?) } else { None });
    }
    let outs: Vec<_> = targets.iter().flatten().copied().collect();
    let outs: Vec<_> = outs.iter().collect();
    let (query, key) = (call.read(0, &outs)?, call.read(1, &outs)?);
    call.expect_dtype(0, &query, TYPES)?;
    call.expect_same(1, &key, 0, &query)?;
    let value_at = if is_merged { 1 } else { 2 };
    let value = call.read(value_at, &outs)?;
    call.expect_same(value_at, &value, 0, &query)?;
    call.expect_dims(value_at, &value, key.dims())?;
    let at = SequenceArguments {
        lengths: [8, 9],
        table: None,
        layouts: [14, 14],
        paged: "PA_BSND",
        bounds: false,
        mode: 15,
        windows: [16, 17],
        widths: &[i32::MAX as i64, i64::MAX],
    };
    let sequences = Sequences::read(call, &at, &query, &key, &outs)?;
    let (query_rows, key_rows) = (as_rows(call, 0, &query)?, as_rows(call, 1, &key)?);
    let value_rows = as_rows(call, value_at, &value)?;
    let [queries, heads, features] = three(call, 0, query_rows.dims())?;
    let [rows, key_heads, key_features] = three(call, 1, key_rows.dims())?;
    if key_heads == 0 || !heads.is_multiple_of(key_heads) || key_features != features {
        let (a, b) = (call.parameter(0), call.parameter(1));
        return Err(Error::invalid(format!(
            "{a} has {heads} heads of {features}, {b} {key_heads} of {key_features}"
        )));
    }
    let rotary = match has_rotary {
        false => None,
        true => {
            let [a, b] = [call.read(ROTARY[0], &outs)?, call.read(ROTARY[1], &outs)?];
            let mut both = Vec::new();
            for (at, one) in ROTARY.into_iter().zip([&a, &b]) {
                call.expect_same(at, one, 0, &query)?;
                both.push(as_rows(call, at, one)?);
            }
            let more = both[0].dims()[2];
            call.expect_dims(ROTARY[0], &both[0], &[queries, heads, more])?;
            call.expect_dims(ROTARY[1], &both[1], &[rows, key_heads, more])?;
            Some((a.with_layout(both[0]), b.with_layout(both[1]), more))
        }
    };
    let more = rotary.map_or(0, |(.., more)| more);
    if features + more > MOST_FEATURES {
        return Err(Error::invalid(format!(
            "{features} and {more} features: expected at most {MOST_FEATURES}"
        )));
    }
    let (grad, out) = (call.read(4, &outs)?, call.read(5, &outs)?);
    for (at, one) in [(4, &grad), (5, &out)] {
        call.expect_same(at, one, 0, &query)?;
        call.expect_dims(at, one, query.dims())?;
    }
    let (grad_rows, out_rows) = (as_rows(call, 4, &grad)?, as_rows(call, 5, &out)?);
    let chosen = Chosen::read(call, [3, 13], [queries, key_heads], &outs)?;
    let group = heads / key_heads;
    let (greatest, sums) = (call.read(6, &outs)?, call.read(7, &outs)?);
    let sizes = [queries, key_heads, group];
    let greatest_rows = statistics(call, 6, &greatest, &sequences, sizes)?;
    let sum_rows = statistics(call, 7, &sums, &sequences, sizes)?;
    let mut target_rows = Vec::new();
    for (at, target) in OUTS.into_iter().zip(&targets) {
        let Some(target) = target else {
            target_rows.push(None);
            continue;
        };
        let like = match at - OUTS[0] {
            0 => *query,
            1 | 2 => *key,
            3 => call.layout(ROTARY[0])?,
            _ => call.layout(ROTARY[1])?,
        };
        call.expect_dims(at, target, like.dims())?;
        call.expect_same(at, target, 0, &query)?;
        target_rows.push(Some(target.with_layout(as_rows(call, at, target.layout())?)));
    }
    for one in [&key, &value] {
        one.touch_by_index(call);
    }
    if let Some((_, key, _)) = &rotary {
        key.touch_by_index(call);
    }
    let scale = call.float(12)? as f32;
    let all = features + more;
    let scratch = [
        call.scratch(DType::Float, &[queries, heads, all]),
        call.scratch(DType::Float, &[rows, key_heads, all]),
        call.scratch(DType::Float, &[rows, key_heads, features]),
    ];
    let (steps, is_packed) = (sequences.query_steps.max(1), sequences.query == Arrangement::Packed);
    call.plan(move |memory| {
        let located = sequences.locate(memory);
        located.check()?;
        chosen.check(memory, &located)?;
        let parallel = memory.parallel;
        let [to_query, to_key, to_value] = scratch.map(|one| memory.scratch(&one));
        [to_key, to_value].iter().for_each(|one| fill_scalar(parallel, *one, Scalar::from(0)));
        let tensors = Selected {
            query: query.with_layout(query_rows).view(memory),
            key: key.with_layout(key_rows).view(memory),
            value: value.with_layout(value_rows).view(memory),
            rotary: rotary.map(|(query, key, _)| (query.view(memory), key.view(memory))),
            scale,
        };
        let given = SelectedGradients {
            out: out.with_layout(out_rows).view(memory),
            grad: grad.with_layout(grad_rows).view(memory),
            query: to_query,
            key: to_key,
            value: to_value,
        };
        let greatest = PositionAccess::new(greatest.with_layout(greatest_rows).view(memory));
        let sums = PositionAccess::new(sums.with_layout(sum_rows).view(memory));
        let stats = |query: usize, head: usize| {
            let (key_head, member) = (head / group, head % group);
            match is_packed {
                true => {
                    let at = [query, key_head, member];
                    (greatest.get(&at), sums.get(&at))
                }
                false => {
                    let at = [query / steps, query % steps, key_head, member];
                    (greatest.get(&at), sums.get(&at))
                }
            }
        };
        gradients(parallel, &tensors, &given, stats, chosen.rows(memory, &located));
        let sources = [
            part(to_query, 0, features),
            part(to_key, 0, features),
            to_value.view(),
            part(to_query, features, more),
            part(to_key, features, more),
        ];
        for (place, (target, from)) in target_rows.iter().zip(sources).enumerate() {
            let Some(target) = target else { continue };
            let target = memory.out(target);
            match is_merged && place == 1 {
                true => map2(parallel, target, from, to_value.view(), |x: f32, y: f32| x + y),
                false => copy(parallel, target, from),
            }
        }
        Ok(())
    })
}
