//! Tokens copied for each of their experts, in the order of experts, all of them or those in a range of places.
//!
//! Workspace: a key with its index for each slot of a token.

use super::finalizing::unpermute;
use super::finalizing_gradients::{permute_gradient, unpermute_gradients};
use super::places::{has_range, place_range, refuse_padded};
use super::routing::{Slots, any_expert};
use crate::argument::Arg;
use crate::call::Call;
use crate::error::{Error, Result};
use crate::plan::Plan;
use crate::table::ArgSource::{A, I, No};
use crate::table::{ArgSource, Row, aclnn};
use cairn_tensor::kernels::access::{PositionAccess, PositionAccessMut};
use cairn_tensor::kernels::moe::rows::{RowSource, place};
use cairn_tensor::{DType, Layout};
use std::ops::Range;

const TYPES: &[DType] = &[DType::Float, DType::Float16, DType::Bf16, DType::Int8];
const REAL: &[DType] = &[DType::Float, DType::Float16, DType::Bf16];

/// A tensor with its rows in one dimension, as sizes of rows and columns.
fn rows_of(layout: &Layout) -> Option<Layout> {
    let (count, rest) = layout.dims().split_first().filter(|(_, rest)| !rest.is_empty())?;
    layout.reshaped(&[*count, rest.iter().product()])
}

/// The places of `count` whose rows are wanted.
fn wanted(call: &Call<'_>, count: usize) -> Result<Range<usize>> {
    if let Some(range) = place_range(call, 6, count)? {
        return Ok(range);
    }
    let kept = call.int(2)?;
    Ok(0..match kept {
        0 => count,
        1.. => count.min(kept as usize),
        _ => count.saturating_sub(kept.unsigned_abs() as usize),
    })
}

/// Arguments: tokens, experts, how many rows are kept, mode, permuted tokens, places; then perhaps which rows are kept instead, numbers
/// of the slots, and where those go.
fn permute(call: &mut Call<'_>) -> Result<Plan> {
    refuse_padded(call, 3)?;
    let (out, places) = (call.output(4)?, call.output(5)?);
    let has_numbers = has_range(call, 6) && call.has(7);
    let numbers_out = if has_numbers { Some(call.output(8)?) } else { None };
    let mut outs = vec![&out, &places];
    outs.extend(&numbers_out);
    let tokens = call.read_by_index(0, &outs)?;
    call.expect_dtype(0, &tokens, TYPES)?;
    call.expect_same(4, &out, 0, &tokens)?;
    let (Some(from), Some(to)) = (rows_of(&tokens), rows_of(out.layout())) else {
        let (name, layout) = (call.parameter(0), *tokens);
        return Err(Error::invalid(format!("{name} ({layout}) has no rows in order")));
    };
    let slots = Slots::read(call, 1, from.dims()[0], &outs)?;
    let count = slots.count();
    let range = wanted(call, count)?;
    if to.dims() != [range.len(), from.dims()[1]] {
        let (name, have, want) = (call.parameter(4), out.dims(), [range.len(), from.dims()[1]]);
        return Err(Error::invalid(format!(
            "{name} has the sizes {have:?}: expected rows {want:?}"
        )));
    }
    call.expect_dims(5, &places, &[count])?;
    call.expect_dtype(5, &places, &[DType::Int32])?;
    let numbers = match &numbers_out {
        Some(out) => {
            let read = call.read_by_index(7, &outs)?;
            call.expect_dtype(7, &read, REAL)?;
            call.expect_dims(7, &read, call.layout(1)?.dims())?;
            call.expect_dims(8, out, &[range.len()])?;
            call.expect_same(8, out, 0, &tokens)?;
            let layout = if read.rank() == 1 { read.with(1) } else { *read };
            Some((read.with_layout(layout), *out))
        }
        None => None,
    };
    let (tokens, out) = (tokens.with_layout(from), out.with_layout(to));
    call.plan(move |memory| {
        let order = slots.sort(memory, &any_expert())?;
        let to = PositionAccessMut::new(memory.out(&places));
        (0..count).for_each(|at| to.set(&[order.slot(at)], at as i64));
        let slot_of = |row: usize| order.slot(range.start + row);
        if let Some((numbers, out)) = &numbers {
            let (from, to) = (
                PositionAccess::new(numbers.view(memory)),
                PositionAccessMut::new(memory.out(out)),
            );
            for row in 0..range.len() {
                let slot = slot_of(row);
                to.set(&[row], from.get::<f32>(&[slot / slots.each, slot % slots.each]));
            }
        }
        place(memory.parallel, memory.out(&out), tokens.view(memory), |row| {
            RowSource::Row(slot_of(row) / slots.each)
        });
        Ok(())
    })
}

/// As [`permute`], with a mode after its places that must be the one without quantisation.
fn permute_unquantised(call: &mut Call<'_>) -> Result<Plan> {
    let mode = call.int(9)?;
    if mode != -1 {
        let name = call.parameter(9);
        return Err(Error::invalid(format!(
            "{name} = {mode}: expected -1, quantised calls are not supported"
        )));
    }
    permute(call)
}

/// As [`unpermute`], with which rows of all there are after its mode; without that, each token has one slot unless weights say
/// otherwise.
fn unpermute_part(call: &mut Call<'_>) -> Result<Plan> {
    if !has_range(call, 18) {
        call.replace(15, Arg::Int(1));
    }
    unpermute(call)
}

#[rustfmt::skip]
const UNPERMUTE_PART: &[ArgSource] = &[
    A(0), A(1), No, No, No, A(2), No, No, No, No, No, I(2), No, No, No, A(3), A(7), A(5), A(4),
];

/// The rows of this family.
pub const ROWS: &[Row] = &[
    aclnn("MoeTokenPermute", permute),
    aclnn("MoeTokenPermuteV2", permute_unquantised).with_args(&[
        A(0),
        A(1),
        A(2),
        A(3),
        A(5),
        A(6),
        No,
        No,
        No,
        A(4),
    ]),
    aclnn("MoeTokenPermuteWithEp", permute).with_args(&[
        A(0),
        A(1),
        A(4),
        A(5),
        A(6),
        A(7),
        A(3),
        A(2),
        A(8),
    ]),
    aclnn("MoeTokenPermuteWithEpGrad", permute_gradient).with_args(&[
        A(0),
        A(1),
        A(3),
        A(5),
        I(0),
        A(6),
        A(4),
        A(2),
        A(7),
    ]),
    aclnn("MoeTokenUnpermuteWithEp", unpermute_part).with_args(UNPERMUTE_PART),
    aclnn("MoeTokenUnpermuteWithEpGrad", unpermute_gradients).with_args(&[
        A(0),
        A(1),
        A(2),
        A(3),
        No,
        No,
        A(4),
        A(8),
        A(9),
        A(6),
    ]),
];
