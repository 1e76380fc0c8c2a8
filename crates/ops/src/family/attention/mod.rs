//! Attention as one operator, and its gradients: of batches with the same lengths, and of sequences of different lengths
//! that lie one after the other.
//!
//! Workspace: what the kernels need for the largest piece of work; features of two tensors, joined; a number
//! for each batch and head where sinks have gradients.

mod arguments;
mod bound;
mod features;
mod inference;
mod merging;
mod rows;

pub use inference::{NODES as INFERENCE_NODES, ROWS as INFERENCE_ROWS};
pub use merging::{NODES as MERGING_NODES, ROWS as MERGING_ROWS};
pub use rows::{NODES, ROWS};

use super::reduction_plan::Axes;
use crate::call::Call;
use crate::error::{Error, Fault, Outcome, Result};
use crate::plan::{Operand, Plan};
use arguments::*;
use bound::{Bound, Piece, resized};
use cairn_tensor::kernels::attention::{
    Gradients, backward, backward_scratch, forward, forward_scratch,
};
use cairn_tensor::kernels::fold;
use cairn_tensor::kernels::map::fill_scalar;
use cairn_tensor::{DType, Layout, Scalar, ViewMut};
use features::Features;

/// The greatest scores or the sums of all queries.
#[derive(Clone, Copy)]
struct SoftmaxStats {
    operand: Operand,
    /// They are ordered sequence by sequence, and in each head by head.
    by_heads: bool,
}

impl SoftmaxStats {
    /// Of batches: batches, heads, queries, repeats. Of sequences: tokens, heads, repeats; or the same elements sequence
    /// by sequence as heads, tokens, repeats, whatever the sizes say.
    fn new(
        call: &Call<'_>,
        at: usize,
        operand: Option<Operand>,
        bound: &Bound,
    ) -> Result<Option<SoftmaxStats>> {
        let Some(operand) = operand.filter(|one| one.count() > 0) else {
            return Ok(None);
        };
        let query = bound.query.layout();
        let form = call.text(STATS_FORM)?;
        if !matches!(form, "" | "same_as_input") {
            let name = call.parameter(STATS_FORM);
            return Err(Error::invalid(format!(
                "{name} = {form:?}: an empty text and same_as_input are known"
            )));
        }
        let by_heads = bound.packed && form.is_empty();
        let [first, second] = [query.dims()[0], query.dims()[1]];
        let fits = match bound.packed {
            true if by_heads => {
                let sizes = [[first, second], [second, first]];
                operand.rank() == 3
                    && sizes.iter().any(|sizes| operand.dims()[..2] == *sizes)
                    && operand.is_contiguous()
            }
            true => operand.rank() == 3 && operand.dims()[..2] == [first, second],
            false => operand.rank() == 4 && operand.dims()[..3] == query.dims()[..3],
        };
        if fits && operand.dtype == DType::Float {
            return Ok(Some(SoftmaxStats { operand, by_heads }));
        }
        let (name, layout, expected) = (call.parameter(at), operand.layout(), query.dims());
        let expected = &expected[..expected.len() - 1];
        Err(Error::invalid(format!("{name} is {layout}: expected float of {expected:?} and 8")))
    }

    /// Those of one piece of work: batches, heads, queries, repeats.
    fn of(&self, bound: &Bound, piece: &Piece) -> Operand {
        if !self.by_heads {
            return self.operand.with_layout(bound.part_of(&self.operand, &piece.queries));
        }
        let (heads, queries, repeats) = (bound.heads, piece.sizes.queries, self.operand.dims()[2]);
        let strides = [0, (queries * repeats) as isize, repeats as isize, 1];
        let start = self.operand.offset + (piece.queries.start * heads * repeats) as isize;
        let dims = [1, heads, queries, repeats];
        self.operand.with_layout(Layout::strided(self.operand.dtype, &dims, &strides, start))
    }
}

/// Scratch of `f32` can be used when it is aligned to whole elements.
pub(super) fn check_scratch(scratch: &ViewMut<'_>) -> Outcome {
    match scratch.count() == 0 || scratch.address().is_multiple_of(align_of::<f32>()) {
        true => Ok(()),
        false => Err(Fault(format!("the workspace at {:#x} is not aligned", scratch.address()))),
    }
}

/// Fails when tensors of 8 bits have scales.
fn expect_no_scales(call: &Call<'_>, first: usize) -> Result<()> {
    match (first..first + 5).find(|at| call.has(*at)) {
        None => Ok(()),
        Some(at) => {
            let name = call.parameter(at);
            Err(Error::invalid(format!("{name}: tensors of 8 bits with scales are not known here")))
        }
    }
}

/// See [`arguments`].
fn attention(call: &mut Call<'_>) -> Result<Plan> {
    expect_no_scales(call, SCALES)?;
    let bound = Bound::new(call)?;
    let out = call.output(OUT)?;
    let out = out.with_layout(by_heads(call, OUT, &out, bound.heads)?);
    let query = bound.query.layout();
    let mut dims = query.dims().to_vec();
    *dims.last_mut().expect("features") = *bound.value.dims().last().expect("features");
    call.expect_dims(OUT, &out, &dims)?;
    call.expect_number(OUT, &out)?;
    let (greatest, sums) = (call.optional_output(GREATEST)?, call.optional_output(SUMS)?);
    let greatest = SoftmaxStats::new(call, GREATEST, greatest, &bound)?;
    let sums = SoftmaxStats::new(call, SUMS, sums, &bound)?;
    bound.expect_apart(call, OUT, &out)?;
    if out.count() == 0 {
        return call.nothing();
    }
    let scratch = bound.scratch(call, forward_scratch);
    call.plan(move |memory| {
        let scratch = memory.scratch(&scratch);
        check_scratch(&scratch)?;
        bound.query.join(memory);
        bound.key.join(memory);
        if bound.packed {
            let stats = [greatest, sums].into_iter().flatten().map(|stats| stats.operand);
            for operand in stats.chain([out]) {
                fill_scalar(memory.parallel, memory.out(&operand), Scalar::from(0.0));
            }
        }
        for piece in &bound.pieces {
            if bound.packed && piece.is_empty() {
                continue;
            }
            let stats_out =
                |one: Option<SoftmaxStats>| one.map(|one| memory.out(&one.of(&bound, piece)));
            let piece_scratch = resized(scratch, &forward_scratch(&piece.sizes));
            let task = bound.task(memory, piece);
            let out = memory.out(&out.with_layout(bound.part_of(&out, &piece.queries)));
            forward(
                memory.parallel,
                &task,
                out,
                stats_out(greatest),
                stats_out(sums),
                piece_scratch,
            );
        }
        Ok(())
    })
}

/// A gradient of queries, keys or values; at `second_at` that of features in a second tensor.
fn gradient(
    call: &mut Call<'_>,
    bound: &Bound,
    (at, second_at): (usize, Option<usize>),
    like: &Layout,
    heads: usize,
) -> Result<Features> {
    let out = call.output(at)?;
    let out = out.with_layout(by_heads(call, at, &out, heads)?);
    call.expect_number(at, &out)?;
    bound.expect_apart(call, at, &out)?;
    let has_second = out.dims() != like.dims();
    let gradient = match second_at {
        Some(second_at) if has_second && call.has(second_at) => {
            let second = call.output(second_at)?;
            let second = second.with_layout(by_heads(call, second_at, &second, heads)?);
            bound.expect_apart(call, second_at, &second)?;
            Features::both(call, out, second_at, second)?
        }
        _ => Features::alone(out),
    };
    call.expect_dims(at, &gradient.layout(), like.dims())?;
    Ok(gradient)
}

/// See [`arguments`].
fn gradients(call: &mut Call<'_>) -> Result<Plan> {
    expect_no_scales(call, BACKWARD_SCALES)?;
    let bound = Bound::new(call)?;
    let query = bound.query.layout();
    let mut result_dims = query.dims().to_vec();
    *result_dims.last_mut().expect("features") = *bound.value.dims().last().expect("features");
    let grad = call.tensor(GRAD)?;
    let grad = grad.with_layout(by_heads(call, GRAD, &grad, bound.heads)?);
    call.expect_dims(GRAD, &grad, &result_dims)?;
    call.expect_number(GRAD, &grad)?;
    let result = match call.optional(RESULT)?.filter(|one| one.count() > 0) {
        None => None,
        Some(result) => {
            let result = result.with_layout(by_heads(call, RESULT, &result, bound.heads)?);
            call.expect_dims(RESULT, &result, &result_dims)?;
            call.expect_number(RESULT, &result)?;
            Some(result)
        }
    };
    let (greatest, sums) = (call.optional(SAVED_GREATEST)?, call.optional(SAVED_SUMS)?);
    let greatest = SoftmaxStats::new(call, SAVED_GREATEST, greatest, &bound)?;
    let stats = greatest.zip(SoftmaxStats::new(call, SAVED_SUMS, sums, &bound)?);
    let (key, value) = (bound.key.layout(), *bound.value.layout());
    let outputs = [
        gradient(call, &bound, (TO_QUERY, Some(TO_QUERY_ROPE)), &query, bound.heads)?,
        gradient(call, &bound, (TO_KEY, Some(TO_KEY_ROPE)), &key, bound.groups)?,
        gradient(call, &bound, (TO_VALUE, None), &value, bound.groups)?,
    ];
    let to_shift = call.optional_output(TO_SHIFT)?.filter(|one| one.count() > 0);
    let to_sink = match call.optional_output(TO_SINK)?.filter(|one| one.count() > 0) {
        Some(out) if bound.sink.is_some() => {
            call.expect_dims(TO_SINK, &out, &[bound.heads])?;
            call.expect_number(TO_SINK, &out)?;
            let parts = call.scratch(DType::Float, &[bound.batches(), bound.heads]);
            let axes: Axes = [true, false].into_iter().collect();
            let sum = call.plan_reduction(&parts, &axes, &fold::sum::<f32>());
            Some((out, parts, sum))
        }
        _ => None,
    };
    if grad.count() == 0 {
        let sink = to_sink.map(|(out, ..)| out);
        return call.plan(move |memory| {
            let zeros = |out: ViewMut<'_>| fill_scalar(memory.parallel, out, Scalar::from(0.0));
            outputs.iter().for_each(|one| one.fill(memory, Scalar::from(0.0)));
            to_shift.iter().chain(&sink).for_each(|one| zeros(memory.out(one)));
            Ok(())
        });
    }
    let scratch = bound.scratch(call, backward_scratch);
    call.plan(move |memory| {
        let scratch = memory.scratch(&scratch);
        check_scratch(&scratch)?;
        bound.query.join(memory);
        bound.key.join(memory);
        let sink_parts = to_sink.as_ref().map(|(_, parts, _)| memory.scratch(parts));
        let zeros = |out: ViewMut<'_>| fill_scalar(memory.parallel, out, Scalar::from(0.0));
        if bound.packed {
            outputs.iter().for_each(|one| zeros(one.out(memory, one.layout())));
            sink_parts.into_iter().for_each(zeros);
        }
        to_shift.iter().for_each(|one| zeros(memory.out(one)));
        for (at, piece) in bound.pieces.iter().enumerate() {
            if bound.packed && piece.is_empty() {
                continue;
            }
            let (queries, keys) = (&piece.queries, &piece.keys);
            let of = |one: &Operand| memory.view(&one.with_layout(bound.part_of(one, queries)));
            let stats_of = |one: &SoftmaxStats| memory.view(&one.of(&bound, piece));
            let gradient_out =
                |one: &Features, range| one.out(memory, bound.part_of(&one.layout(), range));
            let gradients = Gradients {
                grad: of(&grad),
                result: result.as_ref().map(of),
                softmax_stats: stats.as_ref().map(|(most, sum)| (stats_of(most), stats_of(sum))),
                query: gradient_out(&outputs[0], queries),
                key: gradient_out(&outputs[1], keys),
                value: gradient_out(&outputs[2], keys),
                sink: sink_parts.map(|sink_parts| match bound.packed {
                    true => sink_parts
                        .with_layout(sink_parts.layout().sliced(0, at, 1, 1))
                        .expect("a row"),
                    false => sink_parts,
                }),
            };
            let piece_scratch = resized(scratch, &backward_scratch(&piece.sizes));
            backward(memory.parallel, &bound.task(memory, piece), &gradients, piece_scratch);
        }
        outputs.iter().for_each(|one| one.write_back(memory));
        if let (Some((out, _, sum)), Some(sink_parts)) = (&to_sink, sink_parts) {
            let end = |sum: f32| (sum, sum);
            sum.run(memory, sink_parts.view(), fold::sum::<f32>(), (memory.out(out), None), end);
        }
        Ok(())
    })
}

fn infer_outputs(call: &Call<'_>) -> Result<Vec<Layout>> {
    let (query, key, value) = (call.layout(QUERY)?, call.layout(KEY)?, call.layout(VALUE)?);
    let heads = head_count(call)?;
    let query_by_heads = by_heads(call, QUERY, &query, heads)?;
    let groups = group_count(call, &query_by_heads, &key)?;
    let width = *by_heads(call, VALUE, &value, groups)?.dims().last().expect("features");
    let mut stats = query_by_heads.dims().to_vec();
    *stats.last_mut().expect("features") = 8;
    let stats = Layout::contiguous(DType::Float, &stats);
    let mut dims = query.dims().to_vec();
    if let Some(last) = dims.last_mut() {
        *last = if call.text(FORM)?.ends_with('H') { width * heads } else { width };
    }
    let none = Layout::contiguous(query.dtype, &[0]);
    Ok(vec![stats, stats, none, Layout::contiguous(query.dtype, &dims)])
}

fn infer_gradients(call: &Call<'_>) -> Result<Vec<Layout>> {
    let mut layouts: Vec<Layout> =
        [QUERY, KEY, VALUE].iter().map(|at| call.layout(*at)).collect::<Result<_>>()?;
    layouts.push(match call.has(SHIFT) {
        true => call.layout(SHIFT)?,
        false => Layout::contiguous(layouts[0].dtype, &[0]),
    });
    Ok(layouts.iter().map(Layout::packed).collect())
}
