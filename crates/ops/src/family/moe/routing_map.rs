//! Tokens copied for each expert that a map of tokens and experts names, and summed again.
//!
//! Without a capacity every token has as many slots as rows of the permuted tensor are for it; slots that a token does not use
//! have the place -1. With a capacity every expert has as many rows, and the number of each row's token is its place.
//!
//! Workspace: where the rows of each expert begin.

use crate::call::Call;
use crate::error::{Error, Fault, Outcome, Result};
use crate::family::inputs::UnaliasedInput;
use crate::plan::{Memory, Operand, Plan};
use crate::table::{Row, aclnn};
use cairn_tensor::kernels::access::{PositionAccess, PositionAccessMut};
use cairn_tensor::kernels::map::fill_scalar;
use cairn_tensor::kernels::moe::rows::{RowSource, place};
use cairn_tensor::kernels::moe::sums::combine;
use cairn_tensor::{DType, Scalar};

const TYPES: &[DType] = &[DType::Float, DType::Float16, DType::Bf16];

/// A map of tokens and experts: which tokens an expert gets.
#[derive(Clone, Copy)]
pub(super) struct RoutingMap {
    pub(super) read: UnaliasedInput,
    pub(super) tokens: usize,
    pub(super) experts: usize,
}

impl RoutingMap {
    pub(super) fn read(call: &mut Call<'_>, at: usize, outs: &[&Operand]) -> Result<RoutingMap> {
        let read = call.read(at, outs)?;
        call.expect_dtype(at, &read, &[DType::Bool, DType::Int8])?;
        let &[tokens, experts] = read.dims() else {
            let (name, dims) = (call.parameter(at), read.dims());
            return Err(Error::invalid(format!("{name} has the sizes {dims:?}: expected 2")));
        };
        Ok(RoutingMap { read, tokens, experts })
    }

    /// Whether an expert gets a token.
    pub(super) fn flags<'a>(
        &self,
        memory: &Memory<'a>,
    ) -> impl Fn(usize, usize) -> bool + Sync + use<'a> {
        let access = PositionAccess::new(self.read.view(memory));
        move |token, expert| access.get::<bool>(&[token, expert])
    }
}

/// Weights of tokens and experts, if they are there.
pub(super) fn weights(
    call: &mut Call<'_>,
    at: usize,
    dims: [usize; 2],
    dtype: DType,
    outs: &[&Operand],
) -> Result<Option<UnaliasedInput>> {
    if !call.has(at) {
        return Ok(None);
    }
    let read = call.read(at, outs)?;
    let types: &[DType] =
        if dtype == DType::Bf16 { &[DType::Bf16, DType::Float] } else { &[dtype] };
    call.expect_dtype(at, &read, types)?;
    call.expect_dims(at, &read, &dims)?;
    Ok(Some(read))
}

/// A number of rows that is not negative.
pub(super) fn rows_at(call: &Call<'_>, at: usize) -> Result<usize> {
    let value = call.int(at)?;
    usize::try_from(value).map_err(|_| {
        let name = call.parameter(at);
        Error::invalid(format!("{name} = {value} is negative"))
    })
}

/// Calls `visit` with token, expert and row of all that the map names, expert by expert.
pub(super) fn each_row(
    map: &RoutingMap,
    flags: &impl Fn(usize, usize) -> bool,
    mut visit: impl FnMut(usize, usize, usize),
) -> usize {
    let mut row = 0;
    for expert in 0..map.experts {
        for token in (0..map.tokens).filter(|token| flags(*token, expert)) {
            visit(token, expert, row);
            row += 1;
        }
    }
    row
}

/// Arguments: tokens, map, weights, rows, whether experts have a capacity, permuted tokens, permuted weights, places.
fn permute(call: &mut Call<'_>) -> Result<Plan> {
    let (out, places) = (call.output(5)?, call.output(7)?);
    let weights_out = if call.has(2) { Some(call.output(6)?) } else { None };
    let mut outs = vec![&out, &places];
    outs.extend(&weights_out);
    let tokens = call.read_by_index(0, &outs)?;
    call.expect_dtype(0, &tokens, TYPES)?;
    call.expect_same(5, &out, 0, &tokens)?;
    let map = RoutingMap::read(call, 1, &outs)?;
    let &[count, columns] = tokens.dims() else {
        let (name, dims) = (call.parameter(0), tokens.dims());
        return Err(Error::invalid(format!("{name} has the sizes {dims:?}: expected 2")));
    };
    call.expect_dims(1, &map.read, &[count, map.experts])?;
    let has_capacity = call.flag(4)?;
    let divisor = if has_capacity { map.experts } else { count };
    let each = rows_at(call, 3)?.checked_div(divisor).unwrap_or(0);
    let rows = each * divisor;
    call.expect_dims(5, &out, &[rows, columns])?;
    call.expect_dims(7, &places, &[rows])?;
    call.expect_dtype(7, &places, &[DType::Int32])?;
    let weights = weights(call, 2, [count, map.experts], tokens.dtype, &outs)?;
    if let (Some(weights), Some(out)) = (&weights, &weights_out) {
        call.expect_dims(6, out, &[rows])?;
        call.expect_same(6, out, 2, weights)?;
    }
    let name = call.parameter(1);
    if has_capacity {
        return permute_with_capacity(
            call,
            map,
            each,
            (tokens, out),
            weights.zip(weights_out),
            places,
        );
    }
    let sources = call.scratch(DType::Int32, &[rows]);
    for one in [&out, &places].into_iter().chain(&weights_out) {
        call.touch_by_index(one);
    }
    call.plan(move |memory| {
        let flags = map.flags(memory);
        for token in 0..count {
            let used = (0..map.experts).filter(|expert| flags(token, *expert)).count();
            if used > each {
                return Err(Fault(format!(
                    "{name}[{token}] names {used} experts, but there are {each} rows for each token"
                )));
            }
        }
        let parallel = memory.parallel;
        let places = memory.out(&places);
        fill_scalar(parallel, places, Scalar::from(-1));
        let sources = memory.scratch(&sources);
        fill_scalar(parallel, sources, Scalar::from(-1));
        let (places, sources) = (PositionAccessMut::new(places), PositionAccessMut::new(sources));
        let weights = weights.zip(weights_out).map(|(from, to)| {
            (PositionAccess::new(from.view(memory)), PositionAccessMut::new(memory.out(&to)))
        });
        let known = places.positions();
        each_row(&map, &flags, |token, expert, row| {
            let slot = (0..each).find(|slot| known.get::<i64>(&[token * each + slot]) < 0);
            places.set(&[token * each + slot.unwrap_or(0)], row as i64);
            sources.set(&[row], token as i64);
            if let Some((from, to)) = &weights {
                to.set(&[row], from.get::<f32>(&[token, expert]));
            }
        });
        let sources = sources.positions();
        place(parallel, memory.out(&out), tokens.view(memory), |row| {
            match usize::try_from(sources.get::<i64>(&[row])) {
                Ok(token) => RowSource::Row(token.min(count - 1)),
                Err(_) => RowSource::Keep,
            }
        });
        Ok(())
    })
}

/// Every expert gets `capacity` tokens: first those that the map names, then the others, in their order.
fn permute_with_capacity(
    call: &mut Call<'_>,
    map: RoutingMap,
    capacity: usize,
    (tokens, out): (UnaliasedInput, Operand),
    weights: Option<(UnaliasedInput, Operand)>,
    places: Operand,
) -> Result<Plan> {
    if capacity > map.tokens {
        let (name, tokens) = (call.parameter(3), map.tokens);
        return Err(Error::invalid(format!(
            "{name} gives every expert {capacity} tokens, but there are {tokens}"
        )));
    }
    call.plan(move |memory| {
        let flags = map.flags(memory);
        let to = PositionAccessMut::new(memory.out(&places));
        for expert in 0..map.experts {
            let (named, others) = ((0..map.tokens), (0..map.tokens));
            let named = named.filter(|token| flags(*token, expert));
            let others = others.filter(|token| !flags(*token, expert));
            for (at, token) in named.chain(others).take(capacity).enumerate() {
                to.set(&[expert * capacity + at], token as i64);
            }
        }
        let known = to.positions();
        let token = |row: usize| (known.get::<i64>(&[row]).max(0) as usize).min(map.tokens - 1);
        if let Some((from, to)) = &weights {
            let (from, to) =
                (PositionAccess::new(from.view(memory)), PositionAccessMut::new(memory.out(to)));
            for row in 0..map.experts * capacity {
                to.set(&[row], from.get::<f32>(&[token(row), row / capacity]));
            }
        }
        place(memory.parallel, memory.out(&out), tokens.view(memory), |row| {
            RowSource::Row(token(row))
        });
        Ok(())
    })
}

/// Numbers of rows or tokens, one for each row.
#[derive(Clone, Copy)]
pub(super) struct Numbers {
    read: UnaliasedInput,
    low: i64,
    limit: usize,
    name: &'static str,
}

impl Numbers {
    pub(super) fn read(
        call: &mut Call<'_>,
        at: usize,
        count: usize,
        (low, limit): (i64, usize),
        outs: &[&Operand],
    ) -> Result<Numbers> {
        let read = call.read(at, outs)?;
        call.expect_dtype(at, &read, &[DType::Int32])?;
        call.expect_dims(at, &read, &[count])?;
        Ok(Numbers { read, low, limit, name: call.parameter(at) })
    }

    /// Fails for one out of range.
    pub(super) fn check(&self, memory: &Memory<'_>) -> Outcome {
        let access = PositionAccess::new(self.read.view(memory));
        for at in 0..self.read.dims()[0] {
            let value: i64 = access.get(&[at]);
            if value < self.low || value >= self.limit as i64 {
                let (name, low, last) = (self.name, self.low, self.limit as i64 - 1);
                return Err(Fault(format!("{name}[{at}] = {value} is outside {low} to {last}")));
            }
        }
        Ok(())
    }

    /// The numbers, once they are checked; `None` for a negative one.
    pub(super) fn numbers<'a>(
        &self,
        memory: &Memory<'a>,
    ) -> impl Fn(usize) -> Option<usize> + Copy + Sync + use<'a> {
        let (access, limit) = (PositionAccess::new(self.read.prepared(memory)), self.limit);
        move |at| usize::try_from(access.get::<i64>(&[at])).ok().filter(|one| *one < limit)
    }
}

/// Writes the weights of all rows: slot by slot, or with a capacity row by row.
fn gather_weights(
    to: &PositionAccessMut<'_>,
    map: &RoutingMap,
    flags: &impl Fn(usize, usize) -> bool,
    weights: &PositionAccess<'_>,
    each: usize,
    token_of: Option<&dyn Fn(usize) -> Option<usize>>,
) {
    match token_of {
        Some(token_of) => (0..map.experts * each).for_each(|row| {
            let token = token_of(row).unwrap_or(0);
            to.set(&[row], weights.get::<f32>(&[token, row / each]));
        }),
        None => (0..map.tokens).for_each(|token| {
            let mut experts = (0..map.experts).filter(|expert| flags(token, *expert));
            for slot in 0..each {
                let weight = experts.next().map_or(0.0, |one| weights.get::<f32>(&[token, one]));
                to.set(&[token * each + slot], weight);
            }
        }),
    }
}

/// Arguments: permuted tokens, places, map, weights, whether experts have a capacity, sizes of the output, out, numbers of rows,
/// tokens of rows, weights of rows.
fn unpermute(call: &mut Call<'_>) -> Result<Plan> {
    let out = call.output(6)?;
    let has_weights = call.has(3);
    let (rows_out, tokens_out) = (call.optional_output(7)?, call.optional_output(8)?);
    let weights_out = match has_weights && call.has(9) {
        true => Some(call.output(9)?),
        false => None,
    };
    let mut outs = vec![&out];
    outs.extend(rows_out.iter().chain(&tokens_out).chain(&weights_out));
    let permuted = call.read_by_index(0, &outs)?;
    call.expect_dtype(0, &permuted, TYPES)?;
    call.expect_same(6, &out, 0, &permuted)?;
    let (&[rows, columns], &[count, _]) = (permuted.dims(), out.dims()) else {
        let (name, dims) = (call.parameter(0), permuted.dims());
        return Err(Error::invalid(format!("{name} has the sizes {dims:?}: expected 2")));
    };
    call.expect_dims(6, &out, &[count, columns])?;
    if call.has(5) {
        let sizes = call.sizes(5)?;
        call.expect_dims(6, &out, &sizes)?;
    }
    let has_capacity = call.flag(4)?;
    let map = if has_weights { Some(RoutingMap::read(call, 2, &outs)?) } else { None };
    let experts = map.as_ref().map_or(1, |map| map.experts);
    let weights = weights(call, 3, [count, experts], permuted.dtype, &outs)?;
    let divisor = if has_capacity { experts } else { count };
    let each = rows.checked_div(divisor).unwrap_or(0);
    if each * divisor != rows && (has_weights || !has_capacity) {
        let name = call.parameter(0);
        return Err(Error::invalid(format!("{name} has {rows} rows, no multiple of {divisor}")));
    }
    let valid = if has_capacity { (0, count) } else { (-1, rows) };
    let places = Numbers::read(call, 1, rows, valid, &outs)?;
    for (at, one) in [(7, &rows_out), (8, &tokens_out)] {
        if let Some(one) = one {
            call.expect_dims(at, one, &[rows])?;
            call.expect_dtype(at, one, &[DType::Int32])?;
        }
    }
    if let (Some(one), Some(weights)) = (&weights_out, &weights) {
        call.expect_dims(9, one, &[rows])?;
        call.expect_same(9, one, 3, weights)?;
    }
    let order = call.scratch(DType::Int32, &[rows]);
    let starts = call.scratch(DType::Int32, &[count + 1]);
    let row_weights = call.scratch(DType::Float, &[if has_weights { rows } else { 0 }]);
    call.plan(move |memory| {
        places.check(memory)?;
        let parallel = memory.parallel;
        let place = places.numbers(memory);
        let token = |row: usize| if has_capacity { place(row) } else { Some(row / each.max(1)) };
        let scratch = PositionAccessMut::new(memory.scratch(&row_weights));
        if let (Some(map), Some(weights)) = (&map, &weights) {
            let (flags, weights) = (map.flags(memory), PositionAccess::new(weights.view(memory)));
            let by_row: &dyn Fn(usize) -> Option<usize> = &token;
            let token_of = has_capacity.then_some(by_row);
            gather_weights(&scratch, map, &flags, &weights, each, token_of);
        }
        let weight_of = scratch.positions();
        let (order, starts) = (memory.scratch(&order), memory.scratch(&starts));
        if has_capacity {
            sort_by_token(memory, order, starts, rows, count, &token);
        }
        let (order, starts) =
            (PositionAccess::new(order.view()), PositionAccess::new(starts.view()));
        let sorted = |at: usize| (order.get::<i64>(&[at]).max(0) as usize).min(rows - 1);
        for at in 0..rows {
            let row = if has_capacity { sorted(at) } else { at };
            if let Some(out) = &rows_out {
                let number = match has_capacity {
                    true => row as i64,
                    false => place(at).map_or(-1, |one| one as i64),
                };
                PositionAccessMut::new(memory.out(out)).set(&[at], number);
            }
            if let Some(out) = &tokens_out {
                let number = token(row).unwrap_or(0) as i64;
                PositionAccessMut::new(memory.out(out)).set(&[at], number);
            }
            if let Some(out) = &weights_out {
                let weight: f32 = weight_of.get(&[at]);
                PositionAccessMut::new(memory.out(out)).set(&[at], weight);
            }
        }
        let permuted = PositionAccess::new(permuted.view(memory));
        let first_of = |token: usize| (starts.get::<i64>(&[token]).max(0) as usize).min(rows);
        let term = |token: usize, slot: usize, first: usize, strip: &mut [f32]| {
            let (row, weight_at) = match has_capacity {
                true => {
                    let at = first_of(token) + slot;
                    if at >= first_of(token + 1) {
                        return None;
                    }
                    (sorted(at), sorted(at))
                }
                false => (place(token * each + slot)?, token * each + slot),
            };
            permuted.line(&[row, first], strip);
            Some(if has_weights { weight_of.get(&[weight_at]) } else { 1.0 })
        };
        let terms = match has_capacity {
            true => (0..count).map(|one| first_of(one + 1) - first_of(one)).max().unwrap_or(0),
            false => each,
        };
        combine(parallel, memory.out(&out), terms, |_, _, _| {}, term);
        Ok(())
    })
}

/// Puts rows in the order of their tokens, by counting; `starts` has where those of each token begin, and their end.
pub(super) fn sort_by_token(
    memory: &Memory<'_>,
    order: cairn_tensor::ViewMut<'_>,
    starts: cairn_tensor::ViewMut<'_>,
    rows: usize,
    tokens: usize,
    token: &impl Fn(usize) -> Option<usize>,
) {
    fill_scalar(memory.parallel, starts, Scalar::from(0));
    let (order, starts) = (PositionAccessMut::new(order), PositionAccessMut::new(starts));
    let start = starts.positions();
    let add = |at: usize| starts.set(&[at], start.get::<i64>(&[at]) + 1);
    (0..rows).filter_map(token).for_each(|one| add(one + 1));
    for at in 1..=tokens {
        starts.set(&[at], start.get::<i64>(&[at]) + start.get::<i64>(&[at - 1]));
    }
    for row in 0..rows {
        let Some(one) = token(row) else { continue };
        let place = (start.get::<i64>(&[one]).max(0) as usize).min(rows - 1);
        order.set(&[place], row as i64);
        add(one);
    }
    for at in (1..=tokens).rev() {
        starts.set(&[at], start.get::<i64>(&[at - 1]));
    }
    if tokens > 0 {
        starts.set(&[0], 0i64);
    }
}

/// The rows of this family.
pub const ROWS: &[Row] = &[
    aclnn("MoeTokenPermuteWithRoutingMap", permute),
    aclnn("MoeTokenUnpermuteWithRoutingMap", unpermute),
];
