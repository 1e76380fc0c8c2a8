//! Attention over sequences of different lengths that lie one after the other: tokens, heads, features.
//!
//! Workspace: that of the longest sequence, in [`super::attention`].

use super::attention::{
    DROP, FORM, GRAD, GREATEST, KEEP, KEY, MASK, Masking, NOTED_GREATEST, NOTED_SUMS, OUT, QUERY,
    RESULT, SCALE, SHIFT, SPARSE, SUMS, TO_KEY, TO_QUERY, TO_SHIFT, TO_VALUE, VALUE, band,
    check_scratch, head_count,
};
use crate::call::Call;
use crate::error::{Error, Result};
use crate::plan::{Memory, Operand, Plan, Scratch};
use cairn_tensor::kernels::attention::{
    Attention, Gradients, Sizes, backward, backward_scratch, forward, forward_scratch,
};
use cairn_tensor::kernels::map::fill_scalar;
use cairn_tensor::{DType, Layout, Scalar, ViewMut};
use std::ops::Range;

/// The lengths of forward calls come after the other arguments: of queries, then of keys.
const LENGTHS: usize = 17;
/// As [`LENGTHS`], of backward calls.
const BACKWARD_LENGTHS: usize = 22;

/// The tokens of each sequence, from the positions where sequences end.
fn ranges(call: &Call<'_>, at: usize, tokens: usize) -> Result<Vec<Range<usize>>> {
    let ends = call.ints(at)?;
    let mut start = 0;
    let mut all = Vec::with_capacity(ends.len());
    for end in &ends {
        match usize::try_from(*end).ok().filter(|end| (start..=tokens).contains(end)) {
            Some(end) => all.push(start..end),
            None => {
                let name = call.parameter(at);
                return Err(Error::invalid(format!(
                    "{name} = {ends:?} are no ends of sequences among {tokens} tokens"
                )));
            }
        }
        start = all.last().map_or(0, |range| range.end);
    }
    Ok(all)
}

/// The tokens of one sequence as a batch: batches, heads, positions, features.
fn part(operand: Operand, range: &Range<usize>) -> Operand {
    let layout = operand.layout().sliced(0, range.start, range.len(), 1);
    operand.with_layout(layout.permuted(&[1, 0, 2]).with(0))
}

/// One sequence.
#[derive(Clone)]
struct Sequence {
    queries: Range<usize>,
    keys: Range<usize>,
    sizes: Sizes,
    mask: Option<Operand>,
    band: Option<(isize, isize)>,
}

/// The operands of both directions.
struct Bound {
    query: Operand,
    key: Operand,
    value: Operand,
    sequences: Vec<Sequence>,
    scale: f32,
}

impl Bound {
    fn new(call: &mut Call<'_>, lengths: usize) -> Result<Bound> {
        let form = call.text(FORM)?;
        if form != "TND" {
            let name = call.parameter(FORM);
            return Err(Error::invalid(format!("{name} = {form:?}: expected TND")));
        }
        let [query, key, value] = [call.tensor(QUERY)?, call.tensor(KEY)?, call.tensor(VALUE)?];
        for (at, one) in [(QUERY, &query), (KEY, &key), (VALUE, &value)] {
            call.expect_dtype(at, one, &[DType::Float, DType::Float16, DType::Bf16])?;
        }
        let heads = head_count(call)?;
        let fits = match (query.dims(), key.dims(), value.dims()) {
            (&[_, n, d], &[t, groups, e], &[u, g, _]) => {
                n == heads && d == e && t == u && groups == g && groups > 0 && n % groups == 0
            }
            _ => false,
        };
        if !fits {
            let names = [QUERY, KEY, VALUE].map(|at| call.parameter(at)).join(", ");
            let (q, k, v) = (query.dims(), key.dims(), value.dims());
            return Err(Error::invalid(format!(
                "{names} have the sizes {q:?}, {k:?}, {v:?} (tokens, heads, features), which do not fit {heads} heads"
            )));
        }
        if call.has(SHIFT) && call.layout(SHIFT)?.count() > 0 {
            let name = call.parameter(SHIFT);
            return Err(Error::invalid(format!(
                "{name}: no shift is known for sequences of different lengths"
            )));
        }
        let keep = if call.has(KEEP) { call.float(KEEP)? } else { 1.0 };
        if keep < 1.0 && call.has(DROP) {
            let (name, mask) = (call.parameter(KEEP), call.parameter(DROP));
            return Err(Error::invalid(format!(
                "{name} = {keep} with {mask}: no dropout is known for sequences of different lengths"
            )));
        }
        let queries = ranges(call, lengths, query.dims()[0])?;
        let keys = ranges(call, lengths + 1, key.dims()[0])?;
        if queries.len() != keys.len() {
            let (a, b) = (call.parameter(lengths), call.parameter(lengths + 1));
            let (have, want) = (keys.len(), queries.len());
            return Err(Error::invalid(format!("{a} has {want} sequences, {b} has {have}")));
        }
        let mask = call.optional(MASK)?.filter(|mask| mask.count() > 0);
        if let Some(mask) = &mask {
            call.expect_dtype(MASK, mask, &[DType::Bool, DType::Uint8, DType::Int8])?;
        }
        let mut sequences = Vec::with_capacity(queries.len());
        for (queries, keys) in queries.into_iter().zip(keys) {
            let sizes = Sizes {
                batches: 1,
                heads,
                groups: key.dims()[1],
                queries: queries.len(),
                keys: keys.len(),
                features: query.dims()[2],
                width: value.dims()[2],
            };
            let (mask, band) = masking(call, mask, &sizes)?;
            sequences.push(Sequence { queries, keys, sizes, mask, band });
        }
        Ok(Bound { query, key, value, sequences, scale: call.float(SCALE)? as f32 })
    }

    fn task<'a>(&self, memory: &Memory<'a>, sequence: &Sequence) -> Attention<'a> {
        Attention {
            query: memory.view(&part(self.query, &sequence.queries)),
            key: memory.view(&part(self.key, &sequence.keys)),
            value: memory.view(&part(self.value, &sequence.keys)),
            shift: None,
            shift_last: false,
            mask: sequence.mask.map(|one| memory.view(&one)),
            band: sequence.band,
            kept: None,
            keep: 1.0,
            scale: self.scale,
        }
    }

    fn expect_apart(&self, call: &Call<'_>, at: usize, out: &Operand) -> Result<()> {
        for (from, input) in [(QUERY, self.query), (KEY, self.key), (VALUE, self.value)] {
            if call.shares(&input, out) {
                let (to, from) = (call.parameter(at), call.parameter(from));
                return Err(Error::invalid(format!("{to} shares memory with {from}")));
            }
        }
        Ok(())
    }

    /// Scratch for the longest sequence.
    fn scratch(&self, call: &mut Call<'_>, of: impl Fn(&Sizes) -> Vec<usize>) -> Scratch {
        let count = |one: &Sequence| of(&one.sizes).iter().product::<usize>();
        let most = self.sequences.iter().map(count).max().unwrap_or(0);
        call.scratch(DType::Float, &[most])
    }
}

/// The scores of one sequence that count.
fn masking(call: &Call<'_>, mask: Option<Operand>, sizes: &Sizes) -> Result<Masking> {
    let Some(mask) = mask else {
        return Ok((None, None));
    };
    let (plain, band) = band(call, sizes)?;
    if !plain {
        return Ok((None, band));
    }
    let rank = mask.rank();
    let fits = rank >= 2
        && mask.dims()[..rank - 2].iter().all(|size| *size == 1)
        && mask.dims()[rank - 2] >= sizes.queries
        && mask.dims()[rank - 1] >= sizes.keys;
    if !fits {
        let (name, have, mode) = (call.parameter(MASK), mask.dims(), call.parameter(SPARSE));
        let (queries, keys) = (sizes.queries, sizes.keys);
        return Err(Error::invalid(format!(
            "{name} {have:?} does not cover {queries} queries and {keys} keys, as {mode} wants"
        )));
    }
    let mut layout = *mask.layout();
    (0..rank - 2).for_each(|_| layout = layout.without(0));
    let layout = layout.sliced(0, 0, sizes.queries, 1).sliced(1, 0, sizes.keys, 1);
    let wide = layout.broadcast_to(&[1, sizes.heads, sizes.queries, sizes.keys]);
    Ok((wide.map(|layout| mask.with_layout(layout)), band))
}

/// A part of the scratch with the sizes that one sequence wants.
fn of_sizes<'m>(whole: ViewMut<'m>, dims: &[usize]) -> ViewMut<'m> {
    whole.with_layout(Layout::contiguous(DType::Float, dims)).expect("room for the longest")
}

/// Greatest scores or sums: tokens, heads, any.
fn noted(
    call: &Call<'_>,
    at: usize,
    one: Option<Operand>,
    query: &Layout,
) -> Result<Option<Operand>> {
    let Some(one) = one.filter(|one| one.count() > 0) else {
        return Ok(None);
    };
    let fits = one.rank() == 3 && one.dims()[..2] == query.dims()[..2];
    if fits && one.dtype == DType::Float {
        return Ok(Some(one));
    }
    let (name, layout, tokens, heads) =
        (call.parameter(at), one.layout(), query.dims()[0], query.dims()[1]);
    Err(Error::invalid(format!("{name} is {layout}: expected float[{tokens}, {heads}, 8]")))
}

/// The arguments of [`super::attention`], and the ends of the sequences of queries and keys.
pub(super) fn attention(call: &mut Call<'_>) -> Result<Plan> {
    let bound = Bound::new(call, LENGTHS)?;
    let out = call.output(OUT)?;
    let [tokens, heads] = [bound.query.dims()[0], bound.query.dims()[1]];
    call.expect_dims(OUT, &out, &[tokens, heads, bound.value.dims()[2]])?;
    call.expect_number(OUT, &out)?;
    bound.expect_apart(call, OUT, &out)?;
    let (greatest, sums) = (call.optional_output(GREATEST)?, call.optional_output(SUMS)?);
    let greatest = noted(call, GREATEST, greatest, &bound.query)?;
    let sums = noted(call, SUMS, sums, &bound.query)?;
    let scratch = bound.scratch(call, |sizes| forward_scratch(sizes).to_vec());
    call.plan(move |memory| {
        let scratch = memory.scratch(&scratch);
        check_scratch(&scratch)?;
        for whole in [Some(out), greatest, sums].into_iter().flatten() {
            fill_scalar(memory.parallel, memory.out(&whole), Scalar::from(0.0));
        }
        for sequence in &bound.sequences {
            if sequence.queries.is_empty() || sequence.keys.is_empty() {
                continue;
            }
            let of = |one: Operand| memory.out(&part(one, &sequence.queries));
            let room = of_sizes(scratch, &forward_scratch(&sequence.sizes));
            let task = bound.task(memory, sequence);
            forward(memory.parallel, &task, of(out), greatest.map(of), sums.map(of), room);
        }
        Ok(())
    })
}

/// The arguments of the gradients of [`super::attention`], and the ends of the sequences of queries and keys.
pub(super) fn gradients(call: &mut Call<'_>) -> Result<Plan> {
    let bound = Bound::new(call, BACKWARD_LENGTHS)?;
    let [tokens, heads] = [bound.query.dims()[0], bound.query.dims()[1]];
    let by_result = [tokens, heads, bound.value.dims()[2]];
    let grad = call.tensor(GRAD)?;
    call.expect_dims(GRAD, &grad, &by_result)?;
    call.expect_number(GRAD, &grad)?;
    let result = call.optional(RESULT)?.filter(|one| one.count() > 0);
    if let Some(result) = &result {
        call.expect_dims(RESULT, result, &by_result)?;
        call.expect_number(RESULT, result)?;
    }
    let (greatest, sums) = (call.optional(NOTED_GREATEST)?, call.optional(NOTED_SUMS)?);
    let greatest = noted(call, NOTED_GREATEST, greatest, &bound.query)?;
    let notes = greatest.zip(noted(call, NOTED_SUMS, sums, &bound.query)?);
    let mut outputs = [bound.query; 3];
    for (slot, (at, like)) in outputs.iter_mut().zip([
        (TO_QUERY, bound.query),
        (TO_KEY, bound.key),
        (TO_VALUE, bound.value),
    ]) {
        *slot = call.output(at)?;
        call.expect_dims(at, slot, like.dims())?;
        call.expect_number(at, slot)?;
        bound.expect_apart(call, at, slot)?;
    }
    let to_shift = call.optional_output(TO_SHIFT)?.filter(|one| one.count() > 0);
    let scratch = bound.scratch(call, |sizes| backward_scratch(sizes).to_vec());
    call.plan(move |memory| {
        let scratch = memory.scratch(&scratch);
        check_scratch(&scratch)?;
        for whole in outputs.into_iter().chain(to_shift) {
            fill_scalar(memory.parallel, memory.out(&whole), Scalar::from(0.0));
        }
        for sequence in &bound.sequences {
            if sequence.queries.is_empty() || sequence.keys.is_empty() {
                continue;
            }
            let (queries, keys) = (&sequence.queries, &sequence.keys);
            let of = |one: &Operand| memory.view(&part(*one, queries));
            let gradients = Gradients {
                grad: of(&grad),
                result: result.as_ref().map(of),
                noted: notes.as_ref().map(|(most, sum)| (of(most), of(sum))),
                query: memory.out(&part(outputs[0], queries)),
                key: memory.out(&part(outputs[1], keys)),
                value: memory.out(&part(outputs[2], keys)),
            };
            let room = of_sizes(scratch, &backward_scratch(&sequence.sizes));
            backward(memory.parallel, &bound.task(memory, sequence), &gradients, room);
        }
        Ok(())
    })
}
