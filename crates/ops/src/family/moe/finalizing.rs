//! The results of a token's experts summed with their weights.

use super::finalizing_gradients::{
    expanding_gradient, gradients, permute_gradient, unpermute_gradients,
};
use super::places::{Places, as_rows, check_experts, matrix, refuse_padded, row_range};
use crate::call::Call;
use crate::error::{Error, Result};
use crate::family::inputs::UnaliasedInput;
use crate::infer::Infer;
use crate::plan::Plan;
use crate::table::ArgSource::{A, Attr, I, No, O};
use crate::table::{ArgSource, AttrDefault, Node, Row, aclnn, node};
use cairn_tensor::kernels::access::PositionAccess;
use cairn_tensor::kernels::moe::sums::{add_row, combine};
use cairn_tensor::{DType, Layout};
use std::ops::Range;

const TYPES: &[DType] = &[DType::Float, DType::Float16, DType::Bf16];

// Arguments: expanded x, places, x1, x2, bias, weights, experts, x, alpha1, alpha2, v, mode, ranges of experts that give
// nothing, the token and a constant, slots of each token, out.
const EXPANDED: usize = 0;
const PLACES: usize = 1;
const ADDED: [usize; 2] = [2, 3];
const BIAS: usize = 4;
const WEIGHTS: usize = 5;
const EXPERTS: usize = 6;
const X: usize = 7;
const ALPHAS: [usize; 2] = [8, 9];
const V: usize = 10;
const MODE: usize = 11;
const RANGES: [usize; 3] = [12, 13, 14];
const SLOTS: usize = 15;
const OUT: usize = 16;
/// After what [`unpermute`] has: which rows of all the expanded tensor has.
const ROW_RANGE: usize = 18;

/// A range of experts, empty when it is absent.
fn expert_range(call: &Call<'_>, at: usize) -> Result<Range<i64>> {
    let values = if call.has(at) { call.ints(at)? } else { Vec::new() };
    match values[..] {
        [] => Ok(0..0),
        [start, end] if (0..=end).contains(&start) => Ok(start..end),
        _ => {
            let name = call.parameter(at);
            Err(Error::invalid(format!("{name} = {values:?} is no range of experts")))
        }
    }
}

/// See the top of the file for the arguments.
fn finalize(call: &mut Call<'_>) -> Result<Plan> {
    let out = call.output(OUT)?;
    let expanded = call.read_by_index(EXPANDED, &[&out])?;
    call.expect_dtype(EXPANDED, &expanded, TYPES)?;
    call.expect_same(OUT, &out, EXPANDED, &expanded)?;
    let mode = call.int(MODE)?;
    if !(0..=3).contains(&mode) {
        let name = call.parameter(MODE);
        return Err(Error::invalid(format!("{name} = {mode} is outside 0 to 3")));
    }
    let rows = as_rows(call, EXPANDED, &expanded)?;
    let expanded = expanded.with_layout(rows);
    let &[tokens, columns] = out.dims() else {
        let (name, dims) = (call.parameter(OUT), out.dims());
        return Err(Error::invalid(format!("{name} has the sizes {dims:?}: expected 2")));
    };
    if columns != rows.dims()[1] {
        call.expect_dims(OUT, &out, &[tokens, rows.dims()[1]])?;
    }
    let given = call.int_or(SLOTS, 1)?;
    let each = match call.has(WEIGHTS) {
        true => call.layout(WEIGHTS)?.dims().get(1).copied().unwrap_or(1),
        false => usize::try_from(given).unwrap_or(1),
    };
    if given > 1 && given != each as i64 {
        let (name, weights) = (call.parameter(SLOTS), call.parameter(WEIGHTS));
        return Err(Error::invalid(format!("{name} = {given}, but {weights} has {each} columns")));
    }
    let outs = [&out];
    let dtype = [expanded.dtype];
    let weights = matrix(call, WEIGHTS, [tokens, each], TYPES, &outs)?;
    let experts = matrix(call, EXPERTS, [tokens, each], &[DType::Int32], &outs)?;
    let bias = match (call.has(BIAS), &experts) {
        (false, _) => None,
        (true, None) => {
            let (name, bias) = (call.parameter(EXPERTS), call.parameter(BIAS));
            return Err(Error::Null(format!("{name} is null, but {bias} is there")));
        }
        (true, Some(_)) => {
            let count = call.layout(BIAS)?.dims().first().copied().unwrap_or(0);
            matrix(call, BIAS, [count, columns], &dtype, &outs)?
        }
    };
    if let Some(bias) = &bias {
        bias.touch_by_index(call);
    }
    if call.has(ADDED[1]) && !call.has(ADDED[0]) {
        let (one, two) = (call.parameter(ADDED[0]), call.parameter(ADDED[1]));
        return Err(Error::Null(format!("{one} is null, but {two} is there")));
    }
    let added = [
        matrix(call, ADDED[0], [tokens, columns], &dtype, &outs)?,
        matrix(call, ADDED[1], [tokens, columns], &dtype, &outs)?,
    ];
    let ranges = [
        expert_range(call, RANGES[0])?,
        expert_range(call, RANGES[1])?,
        expert_range(call, RANGES[2])?,
    ];
    let special = ranges.iter().any(|range| !range.is_empty());
    let [nothing, copied, constant] = ranges;
    let x = match !copied.is_empty() || !constant.is_empty() {
        true => {
            let read = matrix(call, X, [tokens, columns], &dtype, &outs)?;
            Some(read.ok_or_else(|| Error::Null(format!("{} is null", call.parameter(X))))?)
        }
        false => None,
    };
    let mut constants = [None; 3];
    if !constant.is_empty() {
        let count = constant.clone().count();
        for (one, at) in constants.iter_mut().zip([ALPHAS[0], ALPHAS[1], V]) {
            let layout = call.layout(at)?;
            let dims = match layout.dims() {
                [_] => [count, 1],
                _ => [count, columns],
            };
            let read = call.read(at, &outs)?;
            call.expect_dtype(at, &read, &dtype)?;
            let shaped = read.reshaped(&dims).and_then(|one| one.broadcast_to(&[count, columns]));
            let Some(shaped) = shaped else {
                call.expect_dims(at, &read, &[count, columns])?;
                return call.nothing();
            };
            *one = Some(read.with_layout(shaped));
        }
    }
    if special && experts.is_none() {
        let name = call.parameter(EXPERTS);
        return Err(Error::Null(format!("{name} is null, but there are ranges of experts")));
    }
    let places = call.read(PLACES, &outs)?;
    call.expect_dtype(PLACES, &places, &[DType::Int32])?;
    call.expect_dims(PLACES, &places, &[tokens * each])?;
    let may_lack = mode % 2 == 1 || special;
    let range = row_range(call, ROW_RANGE, (EXPANDED, &rows), tokens * each)?;
    let limit = range.as_ref().map_or(rows.dims()[0], Range::len);
    let places = Places {
        read: places,
        tokens,
        each,
        by_column: mode < 2,
        may_lack,
        limit: if may_lack { limit } else { tokens * each },
        start: range.map_or(0, |range| range.start),
        name: call.parameter(PLACES),
    };
    let (experts_name, bias_count) =
        (call.parameter(EXPERTS), bias.as_ref().map_or(0, |bias| bias.dims()[0]));
    call.plan(move |memory| {
        let access = |read: UnaliasedInput| PositionAccess::new(read.view(memory));
        let (experts, bias, weights) = (experts.map(access), bias.map(access), weights.map(access));
        places.check(memory)?;
        if let (Some(experts), Some(_)) = (&experts, &bias) {
            check_experts(experts_name, experts, [tokens, each], bias_count)?;
        }
        let (added, x, constants) =
            (added.map(|one| one.map(access)), x.map(access), constants.map(|one| one.map(access)));
        let expanded = PositionAccess::new(expanded.view(memory));
        let row = places.rows(memory, limit);
        let start = |token: usize, first: usize, strip: &mut [f32]| {
            added.iter().flatten().for_each(|one| add_row(one, token, first, strip));
        };
        let term = |token: usize, slot: usize, first: usize, strip: &mut [f32]| {
            let expert = experts.as_ref().map(|experts| experts.get::<i64>(&[token, slot]));
            let is_in = |range: &Range<i64>| expert.filter(|expert| range.contains(expert));
            if is_in(&nothing).is_some() {
                return None;
            }
            match (is_in(&copied).or(is_in(&constant)), &x, row(token, slot)) {
                (Some(_), Some(x), _) => x.line(&[token, first], strip),
                (_, _, Some(row)) => expanded.line(&[row, first], strip),
                _ => strip.fill(0.0),
            }
            if let (Some(expert), [Some(a), Some(b), Some(v)]) = (is_in(&constant), &constants) {
                let at = (expert - constant.start) as usize;
                for (i, value) in strip.iter_mut().enumerate() {
                    let number = |one: &PositionAccess<'_>| one.get::<f32>(&[at, first + i]);
                    *value = number(a) * *value + number(b) * number(v);
                }
            }
            if let (Some(bias), Some(expert)) = (&bias, expert) {
                let expert = (expert.max(0) as usize).min(bias_count - 1);
                add_row(bias, expert, first, strip);
            }
            Some(weights.as_ref().map_or(1.0, |weights| weights.get(&[token, slot])))
        };
        combine(memory.parallel, memory.out(&out), each, start, term);
        Ok(())
    })
}

/// As [`finalize`], with the argument after its last, which says that experts have a capacity, and must not.
pub(super) fn unpermute(call: &mut Call<'_>) -> Result<Plan> {
    refuse_padded(call, OUT + 1)?;
    finalize(call)
}

#[rustfmt::skip]
const FINALIZE_V3: &[ArgSource] = &[
    A(0), A(1), A(2), A(3), A(4), A(5), A(6), A(7), A(8), A(9), A(10), A(11), A(12), A(13), A(14), I(1), A(15),
];

/// The rows of this family.
pub const ROWS: &[Row] = &[
    aclnn("MoeFinalizeRouting", finalize).with_args(&[
        A(0),
        A(5),
        A(1),
        A(2),
        A(3),
        A(4),
        A(6),
        No,
        No,
        No,
        No,
        I(0),
        No,
        No,
        No,
        I(1),
        A(7),
    ]),
    aclnn("MoeFinalizeRoutingV2", finalize).with_args(&[
        A(0),
        A(1),
        A(2),
        A(3),
        A(4),
        A(5),
        A(6),
        No,
        No,
        No,
        No,
        A(7),
        No,
        No,
        No,
        I(1),
        A(8),
    ]),
    aclnn("MoeFinalizeRoutingV3", finalize).with_args(FINALIZE_V3),
    aclnn("MoeFinalizeRoutingV4", finalize),
    aclnn("MoeFinalizeRoutingV2Grad", gradients).with_args(&[
        A(0),
        A(1),
        A(2),
        A(3),
        A(4),
        A(5),
        A(6),
        A(10),
        A(11),
    ]),
    aclnn("MoeInitRoutingV2Grad", expanding_gradient),
    aclnn("MoeTokenPermuteGrad", permute_gradient).with_args(&[A(0), A(1), A(2), A(3), I(0), A(4)]),
    aclnn("MoeTokenUnpermute", unpermute).with_args(&[
        A(0),
        A(1),
        No,
        No,
        No,
        A(2),
        No,
        No,
        No,
        No,
        No,
        I(2),
        No,
        No,
        No,
        I(1),
        A(5),
        A(3),
    ]),
    aclnn("MoeTokenUnpermuteGrad", unpermute_gradients).with_args(&[
        A(1),
        A(2),
        A(0),
        A(3),
        No,
        No,
        A(4),
        A(6),
        A(7),
    ]),
];

/// As many tokens as places are for, with the columns of the expanded tensor.
fn output(call: &Call<'_>) -> Result<Vec<Layout>> {
    let (expanded, places) = (call.layout(EXPANDED)?, call.layout(PLACES)?);
    let each = match call.has(WEIGHTS) {
        true => call.layout(WEIGHTS)?.dims().get(1).copied().unwrap_or(1),
        false => usize::try_from(call.int_or(SLOTS, 1)?).unwrap_or(1),
    };
    let columns = expanded.dims().last().copied().unwrap_or(0);
    Ok(vec![Layout::contiguous(expanded.dtype, &[places.count() / each.max(1), columns])])
}

/// The operators of this family by IR name.
pub const NODES: &[Node] = &[
    node(
        "MoeFinalizeRouting",
        &["expanded_x", "x1", "x2?", "bias", "scales", "expanded_row_idx", "expanded_expert_idx"],
        &["y"],
        Infer::By(output),
        finalize,
        &[A(0), A(5), A(1), A(2), A(3), A(4), A(6), No, No, No, No, I(0), No, No, No, I(1), O(0)],
    ),
    node(
        "MoeFinalizeRoutingV2",
        &["expanded_x", "expanded_row_idx", "x1?", "x2?", "bias?", "scales?", "expert_idx?"],
        &["y"],
        Infer::By(output),
        finalize,
        &[
            A(0),
            A(1),
            A(2),
            A(3),
            A(4),
            A(5),
            A(6),
            No,
            No,
            No,
            No,
            Attr("drop_pad_mode", AttrDefault::Int(0)),
            No,
            No,
            No,
            Attr("K", AttrDefault::Int(1)),
            O(0),
        ],
    ),
];
