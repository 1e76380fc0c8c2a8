//! Tokens put in the order of their experts, and how many each expert has.
//!
//! Workspace: a key with its index for each slot of a token.

use crate::call::Call;
use crate::error::{Error, Fault, Result};
use crate::family::inputs::UnaliasedInput;
use crate::family::sorting::overwritten_workspace;
use crate::infer::Infer;
use crate::plan::{Memory, Operand, Plan, Scratch};
use crate::table::ArgSource::{A, Attr, O};
use crate::table::{AttrDefault, Node, Row, aclnn, node};
use cairn_tensor::kernels::access::{PositionAccess, PositionAccessMut};
use cairn_tensor::kernels::moe::order::{Accepted, ExpertOrder, OrderFault, SLOT_BYTES};
use cairn_tensor::kernels::moe::rows::{RowSource, place};
use cairn_tensor::kernels::order::Overwritten;
use cairn_tensor::{DType, Layout, ViewMut};

const TYPES: &[DType] = &[DType::Float, DType::Float16, DType::Bf16];

/// Slots and their experts: the numbers of experts that each token is given to.
#[derive(Clone, Copy)]
pub(super) struct Slots {
    pub(super) experts: UnaliasedInput,
    pub(super) tokens: usize,
    pub(super) each: usize,
    entries: Scratch,
    name: &'static str,
}

impl Slots {
    /// Reads the experts of `tokens` tokens, a row for each, or one number for each.
    pub(super) fn read(
        call: &mut Call<'_>,
        at: usize,
        tokens: usize,
        outs: &[&Operand],
    ) -> Result<Slots> {
        let read = call.read(at, outs)?;
        call.expect_dtype(at, &read, &[DType::Int32, DType::Int64])?;
        let each = match read.dims() {
            [rows] if *rows == tokens => 1,
            [rows, each] if *rows == tokens => *each,
            dims => {
                let name = call.parameter(at);
                return Err(Error::invalid(format!(
                    "{name} has the sizes {dims:?}: expected a row for each of {tokens} tokens"
                )));
            }
        };
        let layout = if read.rank() == 1 { read.with(1) } else { *read };
        let entries = call.scratch(DType::Uint8, &[tokens.saturating_mul(each), SLOT_BYTES]);
        let name = call.parameter(at);
        Ok(Slots { experts: read.with_layout(layout), tokens, each, entries, name })
    }

    pub(super) fn count(&self) -> usize {
        self.tokens * self.each
    }

    /// The slots in the order of their experts.
    pub(super) fn sort<'a>(
        &self,
        memory: &Memory<'a>,
        accepted: &Accepted,
    ) -> std::result::Result<ExpertOrder<'a>, Fault> {
        let scratch = memory.scratch(&self.entries);
        ExpertOrder::sort(scratch, self.experts.view(memory), accepted).map_err(|fault| match fault
        {
            OrderFault::Overwritten => overwritten_workspace(Overwritten),
            OrderFault::Expert(slot, value) => {
                let (Accepted::Only(range) | Accepted::Active(range)) = accepted;
                let (name, at) = (self.name, [slot / self.each, slot % self.each]);
                let (low, high) = (range.start, range.end - 1);
                Fault(format!("{name}{at:?} = {value} is outside {low} to {high}"))
            }
        })
    }
}

/// Every expert that has a number.
pub(super) fn any_expert() -> Accepted {
    Accepted::Only(i64::from(i32::MIN)..i64::from(i32::MAX))
}

/// Reads a number that is not negative, or is -1.
fn count_at(call: &Call<'_>, at: usize) -> Result<Option<usize>> {
    match call.int(at)? {
        -1 => Ok(None),
        value => usize::try_from(value).map(Some).map_err(|_| {
            let name = call.parameter(at);
            Error::invalid(format!("{name} = {value} is negative"))
        }),
    }
}

/// A tensor of two dimensions: its sizes.
fn token_dims(call: &Call<'_>, at: usize, x: &Layout) -> Result<[usize; 2]> {
    match x.dims() {
        [rows, columns] => Ok([*rows, *columns]),
        dims => {
            let name = call.parameter(at);
            Err(Error::invalid(format!("{name} has the sizes {dims:?}: expected 2 dimensions")))
        }
    }
}

/// Arguments: x, numbers of slots, experts, active tokens, expanded x, places, sorted experts.
fn first_version(call: &mut Call<'_>) -> Result<Plan> {
    let (expanded, places, sorted) = (call.output(4)?, call.output(5)?, call.output(6)?);
    let outs = [&expanded, &places, &sorted];
    let x = call.read_by_index(0, &outs)?;
    call.expect_dtype(0, &x, TYPES)?;
    let [tokens, columns] = token_dims(call, 0, &x)?;
    let slots = Slots::read(call, 2, tokens, &outs)?;
    call.expect_dtype(2, &slots.experts, &[DType::Int32])?;
    let numbers = call.read(1, &outs)?;
    call.expect_dtype(1, &numbers, &[DType::Int32])?;
    call.expect_dims(1, &numbers, &[tokens, slots.each])?;
    let active = count_at(call, 3)?.unwrap_or(tokens);
    let rows = active.min(tokens) * slots.each;
    call.expect_dims(4, &expanded, &[rows, columns])?;
    call.expect_same(4, &expanded, 0, &x)?;
    for (at, out) in [(5, &places), (6, &sorted)] {
        call.expect_dims(at, out, &[slots.count()])?;
        call.expect_dtype(at, out, &[DType::Int32])?;
    }
    call.touch_by_index(&places);
    let name = call.parameter(1);
    call.plan(move |memory| {
        let order = slots.sort(memory, &any_expert())?;
        let (count, each) = (slots.count(), slots.each);
        let numbers = PositionAccess::new(numbers.view(memory));
        let number = |slot: usize| numbers.get::<i64>(&[slot / each, slot % each]);
        if let Some(slot) = (0..count).find(|slot| !(0..count as i64).contains(&number(*slot))) {
            let (at, value) = ([slot / each, slot % each], number(slot));
            let last = count as i64 - 1;
            return Err(Fault(format!("{name}{at:?} = {value} is outside 0 to {last}")));
        }
        let (places, sorted) = (
            PositionAccessMut::new(memory.out(&places)),
            PositionAccessMut::new(memory.out(&sorted)),
        );
        for at in 0..count {
            let number = (number(order.slot(at)).max(0) as usize).min(count - 1);
            places.set(&[number], at as i64);
            sorted.set(&[at], order.expert(at));
        }
        place(memory.parallel, memory.out(&expanded), x.view(memory), |at| {
            let number = number(order.slot(at)).max(0) as usize;
            RowSource::Row(number % tokens)
        });
        Ok(())
    })
}

/// How many slots experts have, in the form that is wanted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Counts {
    Ends,
    Lengths,
    Pairs,
}

/// What the two later versions have in common.
struct Routing {
    x: UnaliasedInput,
    slots: Slots,
    expanded: Operand,
    places: Operand,
    /// A number for each expert, in the form that is wanted.
    counts: Option<(Operand, Counts)>,
    /// A number for each token that goes with it, and where it goes.
    scales: Option<(UnaliasedInput, Operand)>,
    /// The experts that count; the slots of others are left out.
    accepted: Accepted,
    /// The slots of each expert, where all experts have the same number.
    capacity: Option<usize>,
    /// Places are written in the order of experts rather than of slots.
    by_place: bool,
}

impl Routing {
    fn plan(self, call: &mut Call<'_>) -> Result<Plan> {
        let Routing { x, slots, expanded, places, counts, scales, accepted, capacity, by_place } =
            self;
        call.touch_by_index(&places);
        call.touch_by_index(&expanded);
        if let Some((_, out)) = &scales {
            call.touch_by_index(out);
        }
        call.plan(move |memory| {
            let order = slots.sort(memory, &accepted)?;
            let (Accepted::Only(range) | Accepted::Active(range)) = &accepted;
            if let Some((out, kind)) = &counts {
                let out = memory.out(out);
                match kind {
                    Counts::Pairs => order.count_pairs(out),
                    kind => order.count(out, range.start, *kind == Counts::Ends),
                }
            }
            write_places(memory.out(&places), &order, capacity, by_place);
            let each = slots.each;
            let source = |row: usize| match capacity {
                None if row < order.active() => RowSource::Row(order.slot(row) / each),
                None => RowSource::Keep,
                Some(capacity) => {
                    let slots = order.places((row / capacity) as i64);
                    match slots.start + row % capacity {
                        at if at < slots.end => RowSource::Row(order.slot(at) / each),
                        _ => RowSource::Zeros,
                    }
                }
            };
            place(memory.parallel, memory.out(&expanded), x.view(memory), source);
            if let Some((scales, out)) = &scales {
                place(memory.parallel, memory.out(out), scales.view(memory), source);
            }
            Ok(())
        })
    }
}

/// Writes for each slot the row of the expanded tensor that it goes to, or -1; with `by_place` for each row its slot.
fn write_places(
    out: ViewMut<'_>,
    order: &ExpertOrder<'_>,
    capacity: Option<usize>,
    by_place: bool,
) {
    let to = PositionAccessMut::new(out);
    let (mut expert, mut first) = (i64::MIN, 0);
    for at in 0..order.len() {
        let is_active = at < order.active();
        if by_place {
            if is_active {
                to.set(&[at], order.slot(at) as i64);
            }
            continue;
        }
        let row = match capacity {
            _ if !is_active => -1,
            None => at as i64,
            Some(capacity) => {
                if order.expert(at) != expert {
                    (expert, first) = (order.expert(at), at);
                }
                match at - first {
                    slot if slot < capacity => expert * capacity as i64 + slot as i64,
                    _ => -1,
                }
            }
        };
        to.set(&[order.slot(at)], row);
    }
}

/// The rows that the expanded tensor has without a capacity.
fn expanded_rows(active: Option<usize>, slots: usize) -> usize {
    match active {
        None | Some(0) => slots,
        Some(active) => active.min(slots),
    }
}

/// Checks the expanded tensor and returns it with its rows in one dimension, and the capacity of experts.
fn expand(
    call: &Call<'_>,
    [at, active_at, capacity_at, mode_at]: [usize; 4],
    (expanded, experts, tokens, slots, columns): (Operand, usize, usize, usize, usize),
) -> Result<(Operand, Option<usize>)> {
    match call.int(mode_at)? {
        0 => {
            let rows = expanded_rows(count_at(call, active_at)?, slots);
            call.expect_dims(at, &expanded, &[rows, columns])?;
            Ok((expanded, None))
        }
        1 => {
            let capacity = call.int(capacity_at)?;
            let valid = usize::try_from(capacity).ok().filter(|one| *one > 0 && *one <= tokens);
            let (Some(capacity), true) = (valid, experts > 0) else {
                let name = call.parameter(capacity_at);
                return Err(Error::invalid(format!(
                    "{name} = {capacity} of {experts} experts: expected 1 to {tokens}, and experts"
                )));
            };
            call.expect_dims(at, &expanded, &[experts, capacity, columns])?;
            let layout = expanded.reshaped(&[experts * capacity, columns]);
            let layout = layout.ok_or_else(|| {
                let name = call.parameter(at);
                Error::invalid(format!("{name} ({}) has no rows in order", expanded.layout()))
            })?;
            Ok((expanded.with_layout(layout), Some(capacity)))
        }
        other => {
            let name = call.parameter(mode_at);
            Err(Error::invalid(format!("{name} = {other}: expected 0 or 1")))
        }
    }
}

/// Arguments: x, experts, active slots, capacity, number of experts, mode, form of the counts, whether counts before the
/// capacity are wanted, expanded x, places, counts, counts before the capacity.
fn second_version(call: &mut Call<'_>) -> Result<Plan> {
    let (expanded, places) = (call.output(8)?, call.output(9)?);
    let mode = call.int(5)?;
    let form = match call.int(6)? {
        0 => None,
        1 => Some(Counts::Ends),
        2 => Some(Counts::Lengths),
        other => {
            let name = call.parameter(6);
            return Err(Error::invalid(format!("{name} = {other}: expected 0, 1 or 2")));
        }
    };
    let form = if mode == 0 { form } else { call.flag(7)?.then_some(Counts::Lengths) };
    let counts_at = if mode == 0 { 10 } else { 11 };
    let counts = form.map(|form| call.output(counts_at).map(|out| (out, form))).transpose()?;
    let mut outs = vec![&expanded, &places];
    outs.extend(counts.as_ref().map(|(out, _)| out));
    let x = call.read_by_index(0, &outs)?;
    call.expect_dtype(0, &x, TYPES)?;
    call.expect_same(8, &expanded, 0, &x)?;
    let [tokens, columns] = token_dims(call, 0, &x)?;
    let slots = Slots::read(call, 1, tokens, &outs)?;
    let experts = count_at(call, 4)?.unwrap_or(0);
    let (expanded, capacity) =
        expand(call, [8, 2, 3, 5], (expanded, experts, tokens, slots.count(), columns))?;
    call.expect_dims(9, &places, &[slots.count()])?;
    call.expect_dtype(9, &places, &[DType::Int32])?;
    if let Some((out, _)) = &counts {
        call.expect_dims(counts_at, out, &[experts])?;
        call.expect_dtype(counts_at, out, &[DType::Int32])?;
    }
    let accepted = match capacity.is_some() || counts.is_some() {
        true => Accepted::Only(0..experts as i64),
        false => Accepted::Only(0..i64::from(i32::MAX)),
    };
    let routing = Routing {
        x,
        slots,
        expanded,
        places,
        counts,
        scales: None,
        accepted,
        capacity,
        by_place: false,
    };
    routing.plan(call)
}

/// Arguments: x, experts, scales, offset, active slots, capacity, number of experts, mode, form of the counts, whether counts
/// are wanted, quantisation, range of experts, form of the places, expanded x, places, counts, expanded scales.
fn third_version(call: &mut Call<'_>) -> Result<Plan> {
    let quantisation = call.int(10)?;
    if quantisation != -1 {
        let name = call.parameter(10);
        return Err(Error::invalid(format!(
            "{name} = {quantisation}: quantised calls are not supported, only -1"
        )));
    }
    super::quantised::refuse_quantised(call, &[3])?;
    let (expanded, places) = (call.output(13)?, call.output(14)?);
    let mode = call.int(7)?;
    let form = match (mode, call.int(8)?) {
        (_, 1) => Counts::Lengths,
        (0, 0) => Counts::Ends,
        (0, 2) => Counts::Pairs,
        (_, other) => {
            let name = call.parameter(8);
            return Err(Error::invalid(format!(
                "{name} = {other}: expected 0, 1 or 2, and 1 with a capacity"
            )));
        }
    };
    let counts = match call.flag(9)? {
        true => Some((call.output(15)?, form)),
        false => None,
    };
    let has_scales = call.has(2);
    let scale_out = if has_scales { Some(call.output(16)?) } else { None };
    let mut outs = vec![&expanded, &places];
    outs.extend(counts.as_ref().map(|(out, _)| out));
    outs.extend(&scale_out);
    let x = call.read_by_index(0, &outs)?;
    call.expect_dtype(0, &x, TYPES)?;
    call.expect_same(13, &expanded, 0, &x)?;
    let [tokens, columns] = token_dims(call, 0, &x)?;
    let slots = Slots::read(call, 1, tokens, &outs)?;
    call.expect_dtype(1, &slots.experts, &[DType::Int32])?;
    let experts = count_at(call, 6)?.unwrap_or(0);
    let range = if call.has(11) { call.ints(11)? } else { Vec::new() };
    let range = match range[..] {
        [] => 0..experts as i64,
        [start, end] if start >= 0 && start <= end && end <= experts as i64 => start..end,
        _ => {
            let name = call.parameter(11);
            return Err(Error::invalid(format!(
                "{name} = {range:?} is no range of {experts} experts"
            )));
        }
    };
    let (expanded, capacity) =
        expand(call, [13, 4, 5, 7], (expanded, experts, tokens, slots.count(), columns))?;
    let by_place = match call.int(12)? {
        0 => false,
        1 if capacity.is_none() => true,
        other => {
            let name = call.parameter(12);
            return Err(Error::invalid(format!(
                "{name} = {other}: expected 0, or 1 where experts have no capacity"
            )));
        }
    };
    if capacity.is_some() && range != (0..experts as i64) {
        let name = call.parameter(11);
        return Err(Error::invalid(format!(
            "{name} = {range:?}: with a capacity all experts count"
        )));
    }
    call.expect_dims(14, &places, &[slots.count()])?;
    call.expect_dtype(14, &places, &[DType::Int32])?;
    if let Some((out, form)) = &counts {
        let pairs = [experts, 2];
        let dims = match form {
            Counts::Pairs => &pairs[..],
            _ => &[range.clone().count()],
        };
        call.expect_dims(15, out, dims)?;
        call.expect_dtype(15, out, &[DType::Int64])?;
    }
    let scales = match scale_out {
        None => None,
        Some(out) => {
            let scales = call.read_by_index(2, &outs)?;
            call.expect_dtype(2, &scales, &[DType::Float])?;
            call.expect_dims(2, &scales, &[tokens])?;
            call.expect_dtype(16, &out, &[DType::Float])?;
            let rows = expanded.dims()[0];
            let layout = out.reshaped(&[out.count(), 1]).filter(|_| out.count() >= rows);
            let Some(layout) = layout else {
                let name = call.parameter(16);
                return Err(Error::invalid(format!(
                    "{name} ({}) has no {rows} numbers",
                    out.layout()
                )));
            };
            Some((
                scales.with_layout(scales.with(1)),
                out.with_layout(layout.sliced(0, 0, rows, 1)),
            ))
        }
    };
    let strict = range == (0..experts as i64);
    let accepted = if strict { Accepted::Only(range) } else { Accepted::Active(range) };
    let routing =
        Routing { x, slots, expanded, places, counts, scales, accepted, capacity, by_place };
    routing.plan(call)
}

/// Where each expert's slots end in a sorted list. Arguments: sorted experts, number of experts, out.
fn expert_tokens(call: &mut Call<'_>) -> Result<Plan> {
    let out = call.output(2)?;
    let experts = call.int(1)?;
    let Some(count) = usize::try_from(experts).ok().filter(|count| (1..=2048).contains(count))
    else {
        let name = call.parameter(1);
        return Err(Error::invalid(format!("{name} = {experts} is outside 1 to 2048")));
    };
    let sorted = call.read(0, &[&out])?;
    call.expect_dtype(0, &sorted, &[DType::Int32])?;
    call.expect_same(2, &out, 0, &sorted)?;
    call.expect_dims(2, &out, &[count])?;
    if sorted.rank() != 1 {
        let (name, dims) = (call.parameter(0), sorted.dims());
        return Err(Error::invalid(format!(
            "{name} has the sizes {dims:?}: expected one dimension"
        )));
    }
    let name = call.parameter(0);
    call.plan(move |memory| {
        let length = sorted.dims()[0];
        let sorted = PositionAccess::new(sorted.view(memory));
        let mut before = i64::MIN;
        for at in 0..length {
            let value: i64 = sorted.get(&[at]);
            if !(0..count as i64).contains(&value) {
                return Err(Fault(format!("{name}[{at}] = {value} is outside 0 to {}", count - 1)));
            }
            if value < before {
                return Err(Fault(format!(
                    "{name}[{at}] = {value} is less than the one before it"
                )));
            }
            before = value;
        }
        let (to, mut at) = (PositionAccessMut::new(memory.out(&out)), 0);
        for expert in 0..count {
            while at < length && sorted.get::<i64>(&[at]) <= expert as i64 {
                at += 1;
            }
            to.set(&[expert], at as i64);
        }
        Ok(())
    })
}

/// The rows of this family.
pub const ROWS: &[Row] = &[
    aclnn("MoeInitRouting", first_version),
    aclnn("MoeInitRoutingV2", second_version),
    aclnn("MoeInitRoutingV3", third_version),
    aclnn("MoeComputeExpertTokens", expert_tokens),
];

fn first_outputs(call: &Call<'_>) -> Result<Vec<Layout>> {
    let (x, experts) = (call.layout(0)?, call.layout(2)?);
    let [tokens, columns] = token_dims(call, 0, &x)?;
    let each = experts.dims().get(1).copied().unwrap_or(1);
    let active = count_at(call, 3)?.unwrap_or(tokens).min(tokens);
    let numbers = Layout::contiguous(DType::Int32, &[tokens.saturating_mul(each)]);
    let expanded = Layout::contiguous(x.dtype, &[active.saturating_mul(each), columns]);
    Ok(vec![expanded, numbers, numbers])
}

fn third_outputs(call: &Call<'_>) -> Result<Vec<Layout>> {
    let (x, experts) = (call.layout(0)?, call.layout(1)?);
    let [tokens, columns] = token_dims(call, 0, &x)?;
    let slots = tokens.saturating_mul(experts.dims().get(1).copied().unwrap_or(1));
    let number = count_at(call, 6)?.unwrap_or(0);
    let range = if call.has(11) { call.ints(11)? } else { Vec::new() };
    let counted = match range[..] {
        [start, end] => usize::try_from(end - start).unwrap_or(0),
        _ => number,
    };
    let expanded = match (call.int(7)?, count_at(call, 5)?) {
        (1, Some(capacity)) => Layout::contiguous(x.dtype, &[number, capacity, columns]),
        _ => Layout::contiguous(x.dtype, &[expanded_rows(count_at(call, 4)?, slots), columns]),
    };
    let rows = expanded.dims()[..expanded.rank() - 1].iter().product();
    let counts: &[usize] = if call.int(8)? == 2 { &[number, 2] } else { &[counted] };
    Ok(vec![
        expanded,
        Layout::contiguous(DType::Int32, &[slots]),
        Layout::contiguous(DType::Int64, counts),
        Layout::contiguous(DType::Float, &[rows]),
    ])
}

fn token_counts(call: &Call<'_>) -> Result<Vec<Layout>> {
    let count = usize::try_from(call.int(1)?).unwrap_or(0);
    Ok(vec![Layout::contiguous(call.layout(0)?.dtype, &[count])])
}

/// The operators of this family by IR name.
pub const NODES: &[Node] = &[
    node(
        "MoeInitRouting",
        &["x", "row_idx", "expert_idx"],
        &["expanded_x", "expanded_row_idx", "expanded_expert_idx"],
        Infer::By(first_outputs),
        first_version,
        &[A(0), A(1), A(2), Attr("active_num", AttrDefault::Required), O(0), O(1), O(2)],
    ),
    node(
        "MoeInitRoutingV3",
        &["x", "expert_idx", "scale?", "offset?"],
        &["expanded_x", "expanded_row_idx", "expert_tokens_count_or_cumsum", "expanded_scale"],
        Infer::By(third_outputs),
        third_version,
        &[
            A(0),
            A(1),
            A(2),
            A(3),
            Attr("active_num", AttrDefault::Int(-1)),
            Attr("expert_capacity", AttrDefault::Int(-1)),
            Attr("expert_num", AttrDefault::Int(-1)),
            Attr("drop_pad_mode", AttrDefault::Int(0)),
            Attr("expert_tokens_num_type", AttrDefault::Int(0)),
            Attr("expert_tokens_num_flag", AttrDefault::Flag(false)),
            Attr("quant_mode", AttrDefault::Int(-1)),
            Attr("active_expert_range", AttrDefault::Ints(&[])),
            Attr("row_idx_type", AttrDefault::Int(0)),
            O(0),
            O(1),
            O(2),
            O(3),
        ],
    ),
    node(
        "MoeComputeExpertTokens",
        &["sorted_experts"],
        &["total_rows_before_expert"],
        Infer::By(token_counts),
        expert_tokens,
        &[A(0), Attr("num_experts", AttrDefault::Required), O(0)],
    ),
];
