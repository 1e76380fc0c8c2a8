//! The gradients of tokens that are put in the order of their experts, and of the results of experts summed.
//!
//! Workspace: a number for each row of the expanded tensor, the slot that it belongs to.

use super::places::{Places, as_rows, check_experts, has_range, matrix, refuse_padded, row_range};
use crate::call::Call;
use crate::error::{Error, Result};
use crate::family::inputs::UnaliasedInput;
use crate::plan::Plan;
use cairn_tensor::kernels::access::{PositionAccess, PositionAccessMut};
use cairn_tensor::kernels::map::fill_scalar;
use cairn_tensor::kernels::moe::sums::{add_row, combine, dots, scale};
use cairn_tensor::{DType, Scalar};
use std::ops::Range;

const TYPES: &[DType] = &[DType::Float, DType::Float16, DType::Bf16];

/// The gradient of tokens that were put in the order of their experts: the sum of what their slots got. Arguments: gradient,
/// places, slots of each token, mode, active slots, out; then perhaps which rows of all the gradient has, the gradient of the numbers
/// that went with the rows, out.
pub(super) fn expanding_gradient(call: &mut Call<'_>) -> Result<Plan> {
    let out = call.output(5)?;
    let has_numbers = has_range(call, 6) && call.has(7);
    let numbers_out = if has_numbers { Some(call.output(8)?) } else { None };
    let mut outs = vec![&out];
    outs.extend(&numbers_out);
    let grad = call.read_by_index(0, &outs)?;
    call.expect_dtype(0, &grad, TYPES)?;
    call.expect_same(5, &out, 0, &grad)?;
    let may_lack = call.flag(3)?;
    let rows = as_rows(call, 0, &grad)?;
    let each = call.int(2)?;
    let Some(each) = usize::try_from(each).ok().filter(|each| *each > 0) else {
        let name = call.parameter(2);
        return Err(Error::invalid(format!("{name} = {each}: expected a number above 0")));
    };
    let places = call.read(1, &outs)?;
    call.expect_dtype(1, &places, &[DType::Int32])?;
    let &[count] = places.dims() else {
        let (name, dims) = (call.parameter(1), places.dims());
        return Err(Error::invalid(format!(
            "{name} has the sizes {dims:?}: expected one dimension"
        )));
    };
    let active = call.int_or(4, 0)?;
    if !may_lack && active > 0 && rows.dims()[0] as i64 != active {
        let (name, have) = (call.parameter(0), rows.dims()[0]);
        return Err(Error::invalid(format!("{name} has {have} rows: expected {active}")));
    }
    if !count.is_multiple_of(each) {
        let name = call.parameter(1);
        return Err(Error::invalid(format!("{name} has {count} numbers, no multiple of {each}")));
    }
    let tokens = count / each;
    call.expect_dims(5, &out, &[tokens, rows.dims()[1]])?;
    let range = row_range(call, 6, (0, &rows), count)?;
    let limit = range.as_ref().map_or(rows.dims()[0], Range::len);
    let numbers = match &numbers_out {
        Some(out) => {
            let read = call.read_by_index(7, &outs)?;
            call.expect_dtype(7, &read, TYPES)?;
            call.expect_dims(7, &read, &[read.count()])?;
            row_range(call, 6, (7, &read), count)?;
            call.expect_dims(8, out, &[tokens, each])?;
            call.expect_dtype(8, out, TYPES)?;
            Some((read, *out))
        }
        None => None,
    };
    let places = Places {
        read: places,
        tokens,
        each,
        by_column: false,
        may_lack,
        limit: if may_lack { limit } else { count },
        start: range.map_or(0, |range| range.start),
        name: call.parameter(1),
    };
    let grad = grad.with_layout(rows);
    call.plan(move |memory| {
        places.check(memory)?;
        let grad = PositionAccess::new(grad.view(memory));
        let row = places.rows(memory, limit);
        if let Some((numbers, out)) = numbers {
            let (from, to) = (
                PositionAccess::new(numbers.view(memory)),
                PositionAccessMut::new(memory.out(&out)),
            );
            for slot in 0..count {
                let (token, slot) = (slot / each, slot % each);
                let number = row(token, slot).map_or(0.0, |row| from.get::<f32>(&[row]));
                to.set(&[token, slot], number);
            }
        }
        combine(
            memory.parallel,
            memory.out(&out),
            each,
            |_, _, _| {},
            |token, slot, first, strip| {
                grad.line(&[row(token, slot)?, first], strip);
                Some(1.0)
            },
        );
        Ok(())
    })
}

/// The gradients of what [`super::finalizing`] sums. Arguments: gradient, places, expanded x, weights, experts, bias, mode, out of the
/// expanded x, out of the weights; then perhaps which rows of all the expanded x has.
pub(super) fn gradients(call: &mut Call<'_>) -> Result<Plan> {
    let expanded_out = call.output(7)?;
    let has_weights = call.has(3);
    let weights_out = if has_weights { Some(call.output(8)?) } else { None };
    let mut outs = vec![&expanded_out];
    outs.extend(&weights_out);
    let grad = call.read(0, &outs)?;
    call.expect_dtype(0, &grad, TYPES)?;
    call.expect_same(7, &expanded_out, 0, &grad)?;
    let &[tokens, columns] = grad.dims() else {
        let (name, dims) = (call.parameter(0), grad.dims());
        return Err(Error::invalid(format!("{name} has the sizes {dims:?}: expected 2")));
    };
    let may_lack = call.flag(6)?;
    let rows = as_rows(call, 7, expanded_out.layout())?;
    let limit = rows.dims()[0];
    if rows.dims()[1] != columns {
        call.expect_dims(7, &expanded_out, &[limit, columns])?;
    }
    let each = match has_weights {
        true => call.layout(3)?.dims().get(1).copied().unwrap_or(1),
        false => 1,
    };
    let weights = matrix(call, 3, [tokens, each], TYPES, &outs)?;
    let expanded = match has_weights {
        true => {
            let read = call.read_by_index(2, &outs)?;
            call.expect_same(2, &read, 0, &grad)?;
            call.expect_dims(2, &read, expanded_out.dims())?;
            let layout = as_rows(call, 2, &read)?;
            Some(read.with_layout(layout))
        }
        false => None,
    };
    let experts = matrix(call, 4, [tokens, each], &[DType::Int32], &outs)?;
    let bias = match call.has(5) && has_weights {
        true => {
            let count = call.layout(5)?.dims().first().copied().unwrap_or(0);
            matrix(call, 5, [count, columns], &[grad.dtype], &outs)?
        }
        false => None,
    };
    if bias.is_some() && experts.is_none() {
        let (name, bias) = (call.parameter(4), call.parameter(5));
        return Err(Error::Null(format!("{name} is null, but {bias} is there")));
    }
    if let (Some(out), Some(weights)) = (&weights_out, &weights) {
        call.expect_dims(8, out, &[tokens, each])?;
        call.expect_same(8, out, 3, weights)?;
    }
    let places = call.read(1, &outs)?;
    call.expect_dtype(1, &places, &[DType::Int32])?;
    call.expect_dims(1, &places, &[tokens * each])?;
    let range = row_range(call, 9, (7, &rows), tokens * each)?;
    let there = range.as_ref().map_or(limit, Range::len);
    let places = Places {
        read: places,
        tokens,
        each,
        by_column: false,
        may_lack,
        limit: if may_lack { limit } else { tokens * each },
        start: range.map_or(0, |range| range.start),
        name: call.parameter(1),
    };
    let owners = call.scratch(DType::Int32, &[limit]);
    let target = expanded_out.with_layout(rows);
    let (experts_name, bias_count) =
        (call.parameter(4), bias.as_ref().map_or(0, |bias| bias.dims()[0]));
    call.plan(move |memory| {
        let access = |read: UnaliasedInput| PositionAccess::new(read.view(memory));
        let (experts, bias, weights) = (experts.map(access), bias.map(access), weights.map(access));
        places.check(memory)?;
        if let (Some(experts), Some(_)) = (&experts, &bias) {
            check_experts(experts_name, experts, [tokens, each], bias_count)?;
        }
        let row = places.rows(memory, there);
        let (grad, parallel) = (grad.view(memory), memory.parallel);
        let owner = memory.scratch(&owners);
        fill_scalar(parallel, owner, Scalar::from(-1));
        let owner = PositionAccessMut::new(owner);
        for slot in 0..tokens * each {
            if let Some(row) = row(slot / each, slot % each) {
                owner.set(&[row], slot as i64);
            }
        }
        let owner = owner.positions();
        let expanded = expanded.map(|read| PositionAccess::new(read.view(memory)));
        scale(parallel, memory.out(&target), grad, |row| {
            let slot = usize::try_from(owner.get::<i64>(&[row])).ok()?.min(tokens * each - 1);
            let at = [slot / each, slot % each];
            Some((at[0], weights.as_ref().map_or(1.0, |weights| weights.get(&at))))
        });
        let (Some(out), Some(expanded)) = (&weights_out, &expanded) else { return Ok(()) };
        let (to, grad) = (PositionAccessMut::new(memory.out(out)), PositionAccess::new(grad));
        let fill = |at: usize, first: usize, left: &mut [f32], right: &mut [f32]| {
            let (token, slot) = (at / each, at % each);
            match row(token, slot) {
                Some(row) => expanded.line(&[row, first], left),
                None if bias.is_none() => return false,
                None => left.fill(0.0),
            }
            if let (Some(bias), Some(experts)) = (&bias, &experts) {
                let expert = experts.get::<i64>(&[token, slot]).max(0) as usize;
                add_row(bias, expert.min(bias_count - 1), first, left);
            }
            grad.line(&[token, first], right);
            true
        };
        dots(parallel, tokens * each, columns, fill, |at, sum| {
            to.set(&[at / each, at % each], sum);
        });
        Ok(())
    })
}

/// As [`gradients`], where the mode must be false.
pub(super) fn unpermute_gradients(call: &mut Call<'_>) -> Result<Plan> {
    refuse_padded(call, 6)?;
    gradients(call)
}

/// As [`expanding_gradient`], where the mode must be false.
pub(super) fn permute_gradient(call: &mut Call<'_>) -> Result<Plan> {
    refuse_padded(call, 3)?;
    expanding_gradient(call)
}
