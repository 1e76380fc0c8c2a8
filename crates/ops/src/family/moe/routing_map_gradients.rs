//! The gradients of copying tokens by a map of tokens and experts, and of summing them again.
//!
//! Workspace: where the rows of each token begin and which they are, or the slot that each row belongs to.

use super::routing_map::{Numbers, RoutingMap, each_row, rows_at, sort_by_token, weights};
use crate::call::Call;
use crate::error::{Error, Result};
use crate::plan::{Plan, Scratch};
use crate::table::{Row, aclnn};
use cairn_tensor::kernels::access::{PositionAccess, PositionAccessMut};
use cairn_tensor::kernels::map::fill_scalar;
use cairn_tensor::kernels::moe::sums::{combine, dots, scale};
use cairn_tensor::{DType, Scalar};

const TYPES: &[DType] = &[DType::Float, DType::Float16, DType::Bf16];

/// The expert of each slot of each token: its first, its second, and so on, by the map.
fn expert_of_slot(
    map: &RoutingMap,
    flags: &impl Fn(usize, usize) -> bool,
    token: usize,
    slot: usize,
) -> Option<usize> {
    (0..map.experts).filter(|expert| flags(token, *expert)).nth(slot)
}

/// Arguments: gradient of the permuted tokens, of the permuted weights, places, map, experts, tokens, whether experts have a
/// capacity, out of tokens, out of weights.
fn permute_gradients(call: &mut Call<'_>) -> Result<Plan> {
    let out = call.output(7)?;
    let weights_out = if call.has(1) { Some(call.output(8)?) } else { None };
    let mut outs = vec![&out];
    outs.extend(&weights_out);
    let grad = call.read_by_index(0, &outs)?;
    call.expect_dtype(0, &grad, TYPES)?;
    call.expect_same(7, &out, 0, &grad)?;
    let (experts, count) = (rows_at(call, 4)?, rows_at(call, 5)?);
    let &[rows, columns] = grad.dims() else {
        let (name, dims) = (call.parameter(0), grad.dims());
        return Err(Error::invalid(format!("{name} has the sizes {dims:?}: expected 2")));
    };
    call.expect_dims(7, &out, &[count, columns])?;
    let has_capacity = call.flag(6)?;
    let divisor = if has_capacity { experts } else { count };
    let each = rows.checked_div(divisor).unwrap_or(0);
    if each * divisor != rows {
        let name = call.parameter(0);
        return Err(Error::invalid(format!("{name} has {rows} rows, no multiple of {divisor}")));
    }
    let valid = if has_capacity { (0, count) } else { (-1, rows) };
    let places = Numbers::read(call, 2, rows, valid, &outs)?;
    let (mut map, mut weight_grad) = (None, None);
    if let Some(out) = &weights_out {
        let read = call.read(1, &outs)?;
        call.expect_dims(1, &read, &[rows])?;
        call.expect_dims(8, out, &[count, experts])?;
        call.expect_same(8, out, 1, &read)?;
        weight_grad = Some(read);
        if !has_capacity {
            let read = RoutingMap::read(call, 3, &outs)?;
            call.expect_dims(3, &read.read, &[count, experts])?;
            map = Some(read);
        }
    }
    let order = call.scratch(DType::Int32, &[rows]);
    let starts = call.scratch(DType::Int32, &[count + 1]);
    call.plan(move |memory| {
        places.check(memory)?;
        let (parallel, place) = (memory.parallel, places.numbers(memory));
        if let (Some(out), Some(read)) = (&weights_out, &weight_grad) {
            let from = PositionAccess::new(read.view(memory));
            let target = memory.out(out);
            fill_scalar(parallel, target, Scalar::from(0));
            let to = PositionAccessMut::new(target);
            match &map {
                Some(map) => {
                    let flags = map.flags(memory);
                    each_row(map, &flags, |token, expert, row| {
                        if row < rows {
                            to.set(&[token, expert], from.get::<f32>(&[row]));
                        }
                    });
                }
                None => (0..rows).for_each(|row| {
                    if let Some(token) = place(row) {
                        to.set(&[token, row / each.max(1)], from.get::<f32>(&[row]));
                    }
                }),
            }
        }
        let (order, starts) = (memory.scratch(&order), memory.scratch(&starts));
        if has_capacity {
            sort_by_token(memory, order, starts, rows, count, &|row| place(row));
        }
        let (order, starts) =
            (PositionAccess::new(order.view()), PositionAccess::new(starts.view()));
        let first_of = |token: usize| (starts.get::<i64>(&[token]).max(0) as usize).min(rows);
        let grad = PositionAccess::new(grad.view(memory));
        let terms = match has_capacity {
            true => (0..count).map(|one| first_of(one + 1) - first_of(one)).max().unwrap_or(0),
            false => each,
        };
        let term = |token: usize, slot: usize, first: usize, strip: &mut [f32]| {
            let row = match has_capacity {
                true => {
                    let at = first_of(token) + slot;
                    if at >= first_of(token + 1) {
                        return None;
                    }
                    (order.get::<i64>(&[at]).max(0) as usize).min(rows - 1)
                }
                false => place(token * each + slot)?,
            };
            grad.line(&[row, first], strip);
            Some(1.0)
        };
        combine(parallel, memory.out(&out), terms, |_, _, _| {}, term);
        Ok(())
    })
}

/// Arguments: gradient, numbers of rows, tokens of rows, map, permuted tokens, weights, whether experts have a capacity, sizes
/// (not read), out of permuted tokens, out of weights.
fn unpermute_gradients(call: &mut Call<'_>) -> Result<Plan> {
    let out = call.output(8)?;
    let has_weights = call.has(5);
    let weights_out = if has_weights { Some(call.output(9)?) } else { None };
    let mut outs = vec![&out];
    outs.extend(&weights_out);
    let grad = call.read_by_index(0, &outs)?;
    call.expect_dtype(0, &grad, TYPES)?;
    call.expect_same(8, &out, 0, &grad)?;
    let (&[count, columns], &[rows, _]) = (grad.dims(), out.dims()) else {
        let (name, dims) = (call.parameter(0), grad.dims());
        return Err(Error::invalid(format!("{name} has the sizes {dims:?}: expected 2")));
    };
    call.expect_dims(8, &out, &[rows, columns])?;
    let has_capacity = call.flag(6)?;
    let numbers = Numbers::read(call, 1, rows, (-1, rows), &outs)?;
    // Without a capacity slots are in the order of tokens, and torch_npu passes the numbers of rows once more.
    let tokens = match has_capacity {
        true => Some(Numbers::read(call, 2, rows, (0, count), &outs)?),
        false => None,
    };
    let map = if has_weights { Some(RoutingMap::read(call, 3, &outs)?) } else { None };
    let experts = map.as_ref().map_or(1, |map| map.experts);
    let weights = weights(call, 5, [count, experts], grad.dtype, &outs)?;
    let permuted = match has_weights {
        true => {
            let read = call.read(4, &outs)?;
            call.expect_dims(4, &read, &[rows, columns])?;
            call.expect_same(4, &read, 0, &grad)?;
            Some(read)
        }
        false => None,
    };
    let divisor = if has_capacity { experts } else { count };
    let each = rows.checked_div(divisor).unwrap_or(0);
    if (has_weights || !has_capacity) && each * divisor != rows {
        let name = call.parameter(1);
        return Err(Error::invalid(format!("{name} has {rows} numbers, no multiple of {divisor}")));
    }
    if let (Some(out), Some(weights)) = (&weights_out, &weights) {
        call.expect_dims(9, out, &[count, experts])?;
        call.expect_same(9, out, 5, weights)?;
    }
    let owners: Scratch = call.scratch(DType::Int32, &[rows]);
    call.plan(move |memory| {
        numbers.check(memory)?;
        tokens.map_or(Ok(()), |tokens| tokens.check(memory))?;
        let (parallel, number) = (memory.parallel, numbers.numbers(memory));
        let given = tokens.map(|tokens| tokens.numbers(memory));
        let token = |at: usize| match &given {
            Some(given) => given(at),
            None => Some(at / each.max(1)),
        };
        let owner = memory.scratch(&owners);
        fill_scalar(parallel, owner, Scalar::from(-1));
        let owner = PositionAccessMut::new(owner);
        for at in 0..rows {
            if let Some(row) = number(at) {
                owner.set(&[row], at as i64);
            }
        }
        let owner = owner.positions();
        let at_of =
            |row: usize| usize::try_from(owner.get::<i64>(&[row])).ok().filter(|at| *at < rows);
        let flags = map.as_ref().map(|map| map.flags(memory));
        let expert_of = |at: usize, row: usize| match (&map, &flags) {
            (Some(_), _) if has_capacity => Some(row / each.max(1)),
            (Some(map), Some(flags)) => {
                expert_of_slot(map, flags, at / each.max(1), at % each.max(1))
            }
            _ => None,
        };
        let grad = grad.view(memory);
        let weights = weights.map(|read| PositionAccess::new(read.view(memory)));
        scale(parallel, memory.out(&out), grad, |row| {
            let at = at_of(row)?;
            let token = token(at)?;
            let weight = match &weights {
                Some(weights) => weights.get(&[token, expert_of(at, row)?]),
                None => 1.0,
            };
            Some((token, weight))
        });
        let (Some(out), Some(permuted)) = (&weights_out, &permuted) else { return Ok(()) };
        let target = memory.out(out);
        fill_scalar(parallel, target, Scalar::from(0));
        let (to, grad) = (PositionAccessMut::new(target), PositionAccess::new(grad));
        let permuted = PositionAccess::new(permuted.view(memory));
        let place_of = |row: usize| {
            let at = at_of(row)?;
            Some([token(at)?, expert_of(at, row)?])
        };
        let fill = |row: usize, first: usize, left: &mut [f32], right: &mut [f32]| {
            let Some([token, _]) = place_of(row) else { return false };
            permuted.line(&[row, first], left);
            grad.line(&[token, first], right);
            true
        };
        dots(parallel, rows, columns, fill, |row, sum| {
            if let Some(place) = place_of(row) {
                to.set(&place, sum);
            }
        });
        Ok(())
    })
}

/// The rows of this family.
pub const ROWS: &[Row] = &[
    aclnn("MoeTokenPermuteWithRoutingMapGrad", permute_gradients),
    aclnn("MoeTokenUnpermuteWithRoutingMapGrad", unpermute_gradients),
];
