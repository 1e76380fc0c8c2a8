//! Tokens of a mixture of experts on their way to the ranks that have their experts, and back.
//!
//! Every rank has as many experts, in the order of their numbers. A rank receives its tokens sorted by expert, then by
//! the rank that they come from, then by their place there. What dispatch writes for combine is, as documented, nobody else's
//! business: here it is how many tokens came so far, expert by expert and rank by rank (`epRecvCounts`); `expandIdx` and
//! `assistInfoForCombine` stay as they are. Ranks with shared experts, experts that compute nothing (`zeroExpertNum` and others), tensor
//! parallel groups and quantised tokens are refused.
//!
//! Workspace: the tokens in the order in which they travel, and the counts.

use super::PackedInput;
use crate::call::Call;
use crate::error::{Error, Fault, Outcome, Result};
use crate::group::{Group, Message};
use crate::plan::{Memory, Operand, Plan, Scratch};
use crate::table::ArgSource::{A, I, No};
use crate::table::{Row, aclnn};
use cairn_tensor::kernels::copy::copy;
use cairn_tensor::kernels::map::{map1, map2};
use cairn_tensor::{DType, Layout, View, ViewMut};
use std::cell::Cell;
use std::ops::Range;

// Arguments of both functions.
const X: usize = 0;
const IDS: usize = 1;
const MASK: usize = 2;
const GROUP: usize = 3;
const SIZE: usize = 4;
const RANK: usize = 5;
const EXPERTS: usize = 6;
const TP_SIZE: usize = 7;
const SHARED_RANKS: usize = 8;
const QUANT_MODE: usize = 9;
const EP_COUNTS: usize = 10;
const OUT: usize = 11;
// Of dispatch: how tokens are counted, and the counts. Of combine: weights, and what shared experts computed.
const NUMS_TYPE: usize = 12;
const NUMS: usize = 13;
const WEIGHTS: usize = 12;
const SHARED: usize = 13;
/// What must be absent, or 0.
const REFUSED: Range<usize> = 14..22;

const TYPES: &[DType] = &[DType::Float16, DType::Bf16, DType::Float];

/// Integers in memory.
#[derive(Clone, Copy)]
struct Ints<'a>(&'a [Cell<u8>]);

impl Ints<'_> {
    fn get(self, at: usize) -> i32 {
        let bytes = &self.0[at * 4..][..4];
        i32::from_ne_bytes(std::array::from_fn(|byte| bytes[byte].get()))
    }

    fn set(self, at: usize, value: i32) {
        let bytes = &self.0[at * 4..][..4];
        bytes.iter().zip(value.to_ne_bytes()).for_each(|(cell, byte)| cell.set(byte));
    }
}

/// Who has which experts, and which slots of the tokens of this rank go anywhere. A slot is a token's choice of one expert.
#[derive(Clone, Copy)]
struct Routing {
    ids: PackedInput,
    mask: Option<PackedInput>,
    /// Where each of the experts' slots begin among all slots, in the order in which they travel; one more than experts.
    starts: Scratch,
    /// For each slot its place in that order; -1 for one that goes nowhere.
    places: Scratch,
    tokens: usize,
    choices: usize,
    size: usize,
    experts: usize,
}

impl Routing {
    fn new(call: &mut Call<'_>) -> Result<Routing> {
        for at in REFUSED {
            let is_set = match call.arg(at) {
                crate::argument::Arg::Int(value) => *value != 0,
                _ => call.has(at),
            };
            if is_set {
                return Err(Error::invalid(format!("{} is not supported", call.parameter(at))));
            }
        }
        for (at, allowed) in [(TP_SIZE, 0..=1), (SHARED_RANKS, 0..=0), (QUANT_MODE, 0..=0)] {
            let value = call.int_or(at, 0)?;
            if !allowed.contains(&value) {
                let (name, last) = (call.parameter(at), allowed.end());
                return Err(Error::invalid(format!("{name} = {value}: expected at most {last}")));
            }
        }
        let ids = call.packed_input(IDS)?;
        call.expect_dtype(IDS, &ids, &[DType::Int32])?;
        let (size, experts) = (call.ranks(SIZE)?, call.ranks(EXPERTS)?);
        if ids.rank() != 2 || !experts.is_multiple_of(size) {
            let (name, of) = (call.parameter(IDS), call.parameter(EXPERTS));
            return Err(Error::invalid(format!(
                "{name} ({}), {of} = {experts}: expected tokens by choices, and experts in equal numbers on {size} ranks",
                ids.layout()
            )));
        }
        let (tokens, choices) = (ids.dims()[0], ids.dims()[1]);
        let mask = match call.has(MASK) {
            false => None,
            true => {
                let mask = call.packed_input(MASK)?;
                call.expect_dtype(MASK, &mask, &[DType::Bool])?;
                if mask.dims() != [tokens] && mask.dims() != [tokens, choices] {
                    let (name, dims) = (call.parameter(MASK), mask.dims());
                    return Err(Error::invalid(format!(
                        "{name} has the sizes {dims:?}: expected [{tokens}] or [{tokens}, {choices}]"
                    )));
                }
                Some(mask)
            }
        };
        let starts = call.scratch(DType::Int32, &[experts + 1]);
        let places = call.scratch(DType::Int32, &[tokens * choices]);
        Ok(Routing { ids, mask, starts, places, tokens, choices, size, experts })
    }

    fn experts_of_a_rank(&self) -> usize {
        self.experts / self.size
    }

    /// Works out the place of every slot. Fails for an expert that does not exist.
    fn prepare(&self, memory: &Memory<'_>) -> Outcome {
        let ids = Ints(self.ids.bytes(memory));
        let mask = self.mask.map(|mask| (mask.bytes(memory), mask.rank() == 2));
        let (starts, places) = (self.starts(memory), Ints(memory.scratch_bytes(&self.places)));
        (0..=self.experts).for_each(|expert| starts.set(expert, 0));
        let is_active = |slot: usize| match mask {
            None => true,
            Some((mask, true)) => mask[slot].get() != 0,
            Some((mask, false)) => mask[slot / self.choices].get() != 0,
        };
        let slots = self.tokens * self.choices;
        for slot in 0..slots {
            if !is_active(slot) {
                continue;
            }
            let id = ids.get(slot);
            let Some(expert) = usize::try_from(id).ok().filter(|id| *id < self.experts) else {
                let (token, choice) = (slot / self.choices, slot % self.choices);
                return Err(Fault(format!(
                    "expert {id} of token {token}, choice {choice}: there are {} experts",
                    self.experts
                )));
            };
            starts.set(expert + 1, starts.get(expert + 1) + 1);
        }
        for expert in 0..self.experts {
            starts.set(expert + 1, starts.get(expert + 1) + starts.get(expert));
        }
        for slot in 0..slots {
            match is_active(slot) {
                false => places.set(slot, -1),
                true => {
                    let expert = ids.get(slot) as usize;
                    places.set(slot, starts.get(expert));
                    starts.set(expert, starts.get(expert) + 1);
                }
            }
        }
        // Every start has moved to the end of its expert, which is the next one's start.
        for expert in (1..=self.experts).rev() {
            starts.set(expert, starts.get(expert - 1));
        }
        starts.set(0, 0);
        Ok(())
    }

    fn starts<'a>(&self, memory: &Memory<'a>) -> Ints<'a> {
        Ints(memory.scratch_bytes(&self.starts))
    }

    /// The place of a slot, if it goes anywhere.
    fn place(&self, memory: &Memory<'_>, slot: usize) -> Option<usize> {
        usize::try_from(Ints(memory.scratch_bytes(&self.places)).get(slot)).ok()
    }

    /// The slots that belong to the experts of a rank, in the order in which they travel.
    fn slots_of(&self, memory: &Memory<'_>, rank: usize) -> Range<usize> {
        let (starts, each) = (self.starts(memory), self.experts_of_a_rank());
        starts.get(rank * each) as usize..starts.get((rank + 1) * each) as usize
    }
}

/// One row of a contiguous matrix.
fn row(matrix: &Layout, at: usize) -> Layout {
    matrix.at(0, at)
}

/// The ranges of rows as messages, one for each rank.
fn messages<'a>(
    bytes: &'a [Cell<u8>],
    row_bytes: usize,
    rows: impl Iterator<Item = Range<usize>>,
) -> Vec<Message<'a>> {
    rows.enumerate()
        .map(|(rank, rows)| Message {
            rank,
            bytes: &bytes[rows.start * row_bytes..rows.end * row_bytes],
        })
        .collect()
}

/// A matrix of tokens.
fn tokens(call: &Call<'_>, at: usize, operand: &Operand, dims: &[usize]) -> Result<()> {
    call.expect_dtype(at, operand, TYPES)?;
    call.expect_dims(at, operand, dims)
}

fn dispatch(call: &mut Call<'_>) -> Result<Plan> {
    let routing = Routing::new(call)?;
    let x = call.tensor(X)?;
    let width = x.dims().last().copied().unwrap_or(0);
    tokens(call, X, &x, &[routing.tokens, width])?;
    let out = call.output(OUT)?;
    let capacity = out.dims().first().copied().unwrap_or(0);
    tokens(call, OUT, &out, &[capacity, width])?;
    call.expect_same(OUT, &out, X, &x)?;
    let (each, size) = (routing.experts_of_a_rank(), routing.size);
    let (nums, counts) = (call.output(NUMS)?, call.output(EP_COUNTS)?);
    call.expect_dtype(NUMS, &nums, &[DType::Int64])?;
    call.expect_dims(NUMS, &nums, &[each])?;
    call.expect_dtype(EP_COUNTS, &counts, &[DType::Int32])?;
    if counts.count() < each * size || !counts.is_contiguous() || !nums.is_contiguous() {
        let name = call.parameter(EP_COUNTS);
        return Err(Error::invalid(format!(
            "{name} ({}): expected at least {} elements, one after the other",
            counts.layout(),
            each * size
        )));
    }
    let kind = call.int_or(NUMS_TYPE, 1)?;
    if !(0..=1).contains(&kind) {
        let name = call.parameter(NUMS_TYPE);
        return Err(Error::invalid(format!("{name} = {kind}: expected 0 or 1")));
    }
    let slots = routing.tokens * routing.choices;
    let sent = call.scratch(x.dtype, &[slots, width]);
    let received = call.scratch(x.dtype, &[capacity, width]);
    let sent_counts = call.scratch(DType::Int32, &[routing.experts]);
    let received_counts = call.scratch(DType::Int32, &[each * size]);
    let rank = usize::try_from(call.int(RANK)?).ok();
    let group = call.group_as(GROUP, Some(size), rank.or(Some(usize::MAX)))?;
    let row_bytes = width * x.item();
    let name = call.parameter(OUT);
    call.plan(move |memory| {
        let group = memory.groups[group];
        routing.prepare(memory)?;
        let starts = routing.starts(memory);
        let counted = Ints(memory.scratch_bytes(&sent_counts));
        for expert in 0..routing.experts {
            counted.set(expert, starts.get(expert + 1) - starts.get(expert));
        }
        let ranks = || (0..size).map(|rank| rank * each..(rank + 1) * each);
        let came = memory.scratch_bytes(&received_counts);
        group.exchange(
            &messages(memory.scratch_bytes(&sent_counts), 4, ranks()),
            &messages(came, 4, ranks()),
        )?;
        let came = Ints(came);
        let from =
            |rank: usize| (0..each).map(|at| came.get(rank * each + at) as usize).sum::<usize>();
        let total: usize = (0..size).map(from).sum();
        if total > capacity {
            return Err(Fault(format!("{total} tokens come, and {name} has room for {capacity}")));
        }
        for slot in 0..slots {
            if let Some(place) = routing.place(memory, slot) {
                let to = ViewMut::over(memory.scratch_bytes(&sent), row(&sent.layout, place));
                let token = memory.view_with_layout(&x, x.layout.at(0, slot / routing.choices));
                copy(memory.parallel, to.expect("a row"), token);
            }
        }
        let mut end = 0;
        let incoming = (0..size).map(|rank| {
            let start = end;
            end += from(rank);
            start..end
        });
        group.exchange(
            &messages(
                memory.scratch_bytes(&sent),
                row_bytes,
                (0..size).map(|rank| routing.slots_of(memory, rank)),
            ),
            &messages(memory.scratch_bytes(&received), row_bytes, incoming),
        )?;
        let written = Ints(memory.bytes(&counts));
        let mut next = 0;
        for expert in 0..each {
            let mut of_expert = 0;
            for rank in 0..size {
                let count = came.get(rank * each + expert) as usize;
                let before: usize = (0..rank).map(from).sum::<usize>()
                    + (0..expert).map(|at| came.get(rank * each + at) as usize).sum::<usize>();
                for at in 0..count {
                    let source = View::over(
                        memory.scratch_bytes(&received),
                        row(&received.layout, before + at),
                    );
                    let target = out.with_layout(out.layout.at(0, next + at));
                    copy(memory.parallel, memory.out(&target), source.expect("a row"));
                }
                next += count;
                of_expert += count;
                written.set(expert * size + rank, next as i32);
            }
            let value = if kind == 0 { next } else { of_expert } as i64;
            let cells = &memory.bytes(&nums)[expert * 8..][..8];
            cells.iter().zip(value.to_ne_bytes()).for_each(|(cell, byte)| cell.set(byte));
        }
        Ok(())
    })
}

/// The rows that belong to an expert and a rank in what dispatch wrote, by the cumulated counts.
fn rows_of(
    counts: Ints<'_>,
    size: usize,
    capacity: usize,
    expert: usize,
    rank: usize,
) -> std::result::Result<Range<usize>, Fault> {
    let at = expert * size + rank;
    let (start, end) = (if at == 0 { 0 } else { counts.get(at - 1) }, counts.get(at));
    match (usize::try_from(start), usize::try_from(end)) {
        (Ok(start), Ok(end)) if start <= end && end <= capacity => Ok(start..end),
        _ => Err(Fault(format!(
            "epSendCounts has {start} and {end} at {at}: expected what dispatch wrote, for {capacity} tokens"
        ))),
    }
}

fn combine(call: &mut Call<'_>) -> Result<Plan> {
    let routing = Routing::new(call)?;
    let x = call.tensor(X)?;
    let (capacity, width) = match x.dims() {
        [capacity, width] => (*capacity, *width),
        dims => {
            let name = call.parameter(X);
            return Err(Error::invalid(format!(
                "{name} has the sizes {dims:?}: expected 2 dimensions"
            )));
        }
    };
    tokens(call, X, &x, &[capacity, width])?;
    let out = call.output(OUT)?;
    tokens(call, OUT, &out, &[routing.tokens, width])?;
    let weights = call.packed_input(WEIGHTS)?;
    call.expect_dtype(WEIGHTS, &weights, &[DType::Float])?;
    call.expect_dims(WEIGHTS, &weights, &[routing.tokens, routing.choices])?;
    let shared = match call.has(SHARED) {
        false => None,
        true => {
            let shared = call.read(SHARED, &[&out])?;
            call.expect_dtype(SHARED, &shared, TYPES)?;
            let Some(layout) = shared.reshaped(&[routing.tokens, width]) else {
                let (name, dims) = (call.parameter(SHARED), shared.dims());
                return Err(Error::invalid(format!(
                    "{name} has the sizes {dims:?}: expected [{}, {width}]",
                    routing.tokens
                )));
            };
            Some(shared.with_layout(layout))
        }
    };
    let counts = call.packed_input(EP_COUNTS)?;
    call.expect_dtype(EP_COUNTS, &counts, &[DType::Int32])?;
    let (each, size) = (routing.experts_of_a_rank(), routing.size);
    if counts.count() < each * size {
        let (name, have) = (call.parameter(EP_COUNTS), counts.count());
        return Err(Error::invalid(format!(
            "{name} has {have} elements: expected at least {}",
            each * size
        )));
    }
    let slots = routing.tokens * routing.choices;
    let sent = call.scratch(x.dtype, &[capacity, width]);
    let received = call.scratch(x.dtype, &[slots, width]);
    let sum = call.scratch(DType::Float, &[width]);
    let rank = usize::try_from(call.int(RANK)?).ok();
    let group = call.group_as(GROUP, Some(size), rank.or(Some(usize::MAX)))?;
    let row_bytes = width * x.item();
    call.plan(move |memory| {
        let group: &dyn Group = memory.groups[group];
        routing.prepare(memory)?;
        let counts = Ints(counts.bytes(memory));
        let mut outgoing = Vec::with_capacity(size);
        let mut next = 0;
        for rank in 0..size {
            let start = next;
            for expert in 0..each {
                for at in rows_of(counts, size, capacity, expert, rank)? {
                    let to = ViewMut::over(memory.scratch_bytes(&sent), row(&sent.layout, next));
                    let token = memory.view_with_layout(&x, x.layout.at(0, at));
                    copy(memory.parallel, to.expect("a row"), token);
                    next += 1;
                }
            }
            outgoing.push(start..next);
        }
        group.exchange(
            &messages(memory.scratch_bytes(&sent), row_bytes, outgoing.into_iter()),
            &messages(
                memory.scratch_bytes(&received),
                row_bytes,
                (0..size).map(|rank| routing.slots_of(memory, rank)),
            ),
        )?;
        let weights = weights.bytes(memory);
        let weight = |slot: usize| {
            let bytes = &weights[slot * 4..][..4];
            f32::from_ne_bytes(std::array::from_fn(|byte| bytes[byte].get()))
        };
        for token in 0..routing.tokens {
            let sum = memory.scratch(&sum);
            match &shared {
                None => map1(memory.parallel, sum, sum.view(), |_: f32| 0.0),
                Some(shared) => {
                    let layout = shared.at(0, token);
                    copy(memory.parallel, sum, shared.with_layout(layout).view(memory));
                }
            }
            for slot in token * routing.choices..(token + 1) * routing.choices {
                if let Some(place) = routing.place(memory, slot) {
                    let result =
                        View::over(memory.scratch_bytes(&received), row(&received.layout, place));
                    let weight = weight(slot);
                    map2(
                        memory.parallel,
                        sum,
                        sum.view(),
                        result.expect("a row"),
                        move |sum: f32, x: f32| weight.mul_add(x, sum),
                    );
                }
            }
            let target = out.with_layout(out.layout.at(0, token));
            copy(memory.parallel, memory.out(&target), sum.view());
        }
        Ok(())
    })
}

/// The rows of this family.
pub const ROWS: &[Row] = &[
    aclnn("MoeDistributeDispatch", dispatch).with_args(&[
        A(0),
        A(1),
        A(3),
        A(5),
        A(6),
        A(7),
        A(8),
        A(10),
        A(14),
        A(15),
        A(22),
        A(18),
        A(17),
        A(21),
        A(2),
        A(12),
    ]),
    aclnn("MoeDistributeDispatchV2", dispatch).with_args(&[
        A(0),
        A(1),
        A(3),
        A(5),
        A(6),
        A(7),
        A(8),
        A(10),
        A(14),
        A(15),
        A(23),
        A(19),
        A(17),
        A(22),
        A(2),
        A(12),
    ]),
    aclnn("MoeDistributeDispatchV3", dispatch).with_args(&[
        A(0),
        A(1),
        A(3),
        A(6),
        A(7),
        A(8),
        A(9),
        A(11),
        A(15),
        A(16),
        A(27),
        A(23),
        A(18),
        A(26),
        A(2),
        A(13),
        A(5),
        A(20),
        A(21),
        A(22),
    ]),
    aclnn("MoeDistributeDispatchV4", dispatch).with_args(&[
        A(0),
        A(1),
        A(3),
        A(7),
        A(8),
        A(9),
        A(10),
        A(12),
        A(16),
        A(17),
        A(28),
        A(24),
        A(19),
        A(27),
        A(2),
        A(14),
        A(5),
        A(6),
        A(21),
        A(22),
        A(23),
    ]),
    aclnn("MoeDistributeCombine", combine).with_args(&[
        A(0),
        A(1),
        A(6),
        A(11),
        A(12),
        A(13),
        A(14),
        A(16),
        A(20),
        A(23),
        A(3),
        A(25),
        A(4),
        No,
        A(7),
        A(8),
        A(18),
    ]),
    aclnn("MoeDistributeCombineV2", combine).with_args(&[
        A(0),
        A(1),
        A(6),
        A(12),
        A(13),
        A(14),
        A(15),
        A(17),
        A(21),
        A(24),
        A(3),
        A(27),
        A(4),
        A(11),
        A(7),
        A(8),
        A(19),
    ]),
    aclnn("MoeDistributeCombineV3", combine).with_args(&[
        A(0),
        A(1),
        A(6),
        A(17),
        A(18),
        A(19),
        A(20),
        A(22),
        A(26),
        A(29),
        A(3),
        A(35),
        A(4),
        A(11),
        A(7),
        A(8),
        A(24),
        A(12),
        A(32),
        A(33),
        A(34),
        I(0),
    ]),
    aclnn("MoeDistributeCombineV4", combine).with_args(&[
        A(0),
        A(1),
        A(6),
        A(18),
        A(19),
        A(20),
        A(21),
        A(23),
        A(27),
        A(30),
        A(3),
        A(36),
        A(4),
        A(11),
        A(7),
        A(8),
        A(25),
        A(12),
        A(17),
        A(33),
        A(34),
        A(35),
    ]),
];
