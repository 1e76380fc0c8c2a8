//! The results of a token's experts summed with their weights, and the gradients of that.
//!
//! Workspace of gradients: a number for each row of the expanded tensor, the slot that it belongs to.

use crate::call::Call;
use crate::error::{Error, Fault, Outcome, Result};
use crate::family::inputs::UnaliasedInput;
use crate::infer::Infer;
use crate::plan::{Memory, Operand, Plan};
use crate::table::ArgSource::{A, Attr, I, No, O};
use crate::table::{ArgSource, AttrDefault, Node, Row, aclnn, node};
use cairn_tensor::kernels::access::{PositionAccess, PositionAccessMut};
use cairn_tensor::kernels::map::fill_scalar;
use cairn_tensor::kernels::moe::sums::{add_row, combine, dots, scale};
use cairn_tensor::{DType, Layout, Scalar};
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

/// A tensor of places: the row of each slot, in the order of slots or in that of the numbers of slots.
#[derive(Clone, Copy)]
struct Places {
    read: UnaliasedInput,
    tokens: usize,
    each: usize,
    /// The first slot of every token, then the second, and so on.
    by_column: bool,
    /// -1 is a slot without a row.
    may_lack: bool,
    /// The places that there are.
    limit: usize,
    /// The place of the first row that is there.
    start: usize,
    name: &'static str,
}

impl Places {
    /// Where the place of a slot is.
    fn at(&self, token: usize, slot: usize) -> usize {
        if self.by_column { slot * self.tokens + token } else { token * self.each + slot }
    }

    /// Fails for a place out of range.
    fn check(&self, memory: &Memory<'_>) -> Outcome {
        let access = PositionAccess::new(self.read.view(memory));
        let low = if self.may_lack { -1 } else { 0 };
        for at in 0..self.tokens * self.each {
            let value: i64 = access.get(&[at]);
            if value < low || value >= self.limit as i64 {
                let (name, last) = (self.name, self.limit as i64 - 1);
                return Err(Fault(format!("{name}[{at}] = {value} is outside {low} to {last}")));
            }
        }
        Ok(())
    }

    /// The row of each slot, once they are checked; `rows` are there.
    fn rows<'a>(
        &self,
        memory: &Memory<'a>,
        rows: usize,
    ) -> impl Fn(usize, usize) -> Option<usize> + Sync + use<'a> {
        let (access, places) = (PositionAccess::new(self.read.prepared(memory)), *self);
        move |token, slot| {
            let value: i64 = access.get(&[places.at(token, slot)]);
            let row = usize::try_from(value).ok()?.checked_sub(places.start)?;
            (row < rows).then_some(row)
        }
    }
}

/// An input of two dimensions with these sizes, of one of these types, if it is there.
fn matrix(
    call: &mut Call<'_>,
    at: usize,
    dims: [usize; 2],
    types: &[DType],
    outs: &[&Operand],
) -> Result<Option<UnaliasedInput>> {
    if !call.has(at) {
        return Ok(None);
    }
    let read = call.read(at, outs)?;
    call.expect_dtype(at, &read, types)?;
    call.expect_dims(at, &read, &dims)?;
    Ok(Some(read))
}

/// A tensor of rows, as rows of two dimensions.
fn as_rows(call: &Call<'_>, at: usize, layout: &Layout) -> Result<Layout> {
    let rows = match layout.dims() {
        [_, _] => Some(*layout),
        [experts, capacity, columns] => layout.reshaped(&[experts * capacity, *columns]),
        _ => None,
    };
    rows.ok_or_else(|| {
        let name = call.parameter(at);
        Error::invalid(format!("{name} ({layout}): expected rows in two or three dimensions"))
    })
}

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

/// Which of `count` rows a tensor has that should have all: those from one number to another. Absent, it has all.
fn row_range(
    call: &Call<'_>,
    at: usize,
    rows: (usize, &Layout),
    count: usize,
) -> Result<Option<Range<usize>>> {
    let values = if call.has(at) { call.ints(at)? } else { Vec::new() };
    let range = match values[..] {
        [] => return Ok(None),
        [start, end] if (0..=end).contains(&start) && end <= count as i64 => {
            start as usize..end as usize
        }
        _ => {
            let name = call.parameter(at);
            return Err(Error::invalid(format!(
                "{name} = {values:?}: expected two numbers from 0 to {count}, the lesser first"
            )));
        }
    };
    let (rows_at, layout) = rows;
    if layout.dims()[0] < range.len() {
        let (name, have, want) = (call.parameter(rows_at), layout.dims()[0], range.len());
        return Err(Error::invalid(format!(
            "{name} has {have} rows: expected {want}, one for each place from {} to {}",
            range.start,
            range.end as i64 - 1
        )));
    }
    Ok(Some(range))
}

/// Checks experts against the number of biases.
fn check_experts(
    name: &str,
    experts: &PositionAccess<'_>,
    dims: [usize; 2],
    count: usize,
) -> Outcome {
    for token in 0..dims[0] {
        for slot in 0..dims[1] {
            let value: i64 = experts.get(&[token, slot]);
            if !(0..count as i64).contains(&value) {
                let last = count as i64 - 1;
                return Err(Fault(format!(
                    "{name}[{token}, {slot}] = {value} is outside 0 to {last}"
                )));
            }
        }
    }
    Ok(())
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

/// Fails for a mode that the documentation calls not supported.
pub(super) fn refuse_padded(call: &Call<'_>, at: usize) -> Result<()> {
    if !call.flag_or(at, false)? {
        return Ok(());
    }
    let name = call.parameter(at);
    Err(Error::invalid(format!("{name} = true: the function's documentation supports false only")))
}

/// The gradient of tokens that were put in the order of their experts: the sum of what their slots got. Arguments: gradient,
/// places, slots of each token, mode, active slots, out; then perhaps which rows of all the gradient has, the gradient of the numbers
/// that went with the rows, out.
fn expanding_gradient(call: &mut Call<'_>) -> Result<Plan> {
    let out = call.output(5)?;
    let has_numbers = call.has(6) && call.has(7);
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

/// The gradients of what [`finalize`] sums. Arguments: gradient, places, expanded x, weights, experts, bias, mode, out of the
/// expanded x, out of the weights; then perhaps which rows of all the expanded x has.
fn gradients(call: &mut Call<'_>) -> Result<Plan> {
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
