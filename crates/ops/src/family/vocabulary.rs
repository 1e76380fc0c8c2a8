//! The loss over a vocabulary that is split over several devices: the computations of one device.
//!
//! Workspace: the scores of all rows as `f32`, and the panels of their products.

use super::inputs::{UnaliasedInput, out_of_range};
use crate::call::Call;
use crate::error::{Error, Result};
use crate::plan::{Memory, Plan, Scratch};
use crate::table::{Row, aclnn};
use cairn_tensor::kernels::copy::copy;
use cairn_tensor::kernels::map::{map2, map3};
use cairn_tensor::kernels::math::Real;
use cairn_tensor::kernels::matmul::{matmul, panels};
use cairn_tensor::kernels::number::Number;
use cairn_tensor::kernels::vocabulary::{RowStats, VocabularyRange, row_stats, scores_gradient};
use cairn_tensor::{DType, Layout, Scalar, View, ViewMut};

const FLOATS: &[DType] = &[DType::Float16, DType::Bf16, DType::Float];

/// A planned product of two matrices, with scratch for its panels.
#[derive(Clone, Copy)]
struct Product(Option<Scratch>);

impl Product {
    fn new(call: &mut Call<'_>, out: &Layout, a: &Layout, b: &Layout) -> Product {
        let panels = if out.count() > 0 { panels(out, a, b) } else { None };
        Product(panels.map(|one| call.scratch(one.dtype(), &one.dims())))
    }

    fn run(&self, memory: &Memory<'_>, out: ViewMut<'_>, a: View<'_>, b: View<'_>) {
        let scratch = self.0.map(|one| memory.scratch(&one));
        matmul(memory.parallel, out, a, b, Scalar::from(1), Scalar::from(0), scratch);
    }
}

fn transposed(view: View<'_>) -> View<'_> {
    view.with_layout(view.layout().transposed(0, 1)).expect("the same elements")
}

/// Inputs and weights, checked: rows and tokens with the same number of features.
fn factors(
    call: &mut Call<'_>,
    at: [usize; 2],
    outs: &[&crate::plan::Operand],
) -> Result<[UnaliasedInput; 2]> {
    let [input, weight] = [call.read(at[0], outs)?, call.read(at[1], outs)?];
    call.expect_dtype(at[0], &input, FLOATS)?;
    call.expect_same(at[1], &weight, at[0], &input)?;
    if input.rank() != 2 || weight.rank() != 2 || input.dims()[1] != weight.dims()[1] {
        let [a, b] = at.map(|at| call.parameter(at));
        let (x, y) = (input.dims(), weight.dims());
        return Err(Error::invalid(format!(
            "{a} and {b} have the sizes {x:?} and {y:?}: expected [rows, features] and [tokens, features]"
        )));
    }
    Ok([input, weight])
}

/// Arguments: input, weight, target, first and last token of this device, greatest scores, sums of exponentials, scores of
/// targets, bits of targets on other devices, indices of targets, scores or absent.
fn linear_online_max_sum(call: &mut Call<'_>) -> Result<Plan> {
    let mut outs = Vec::with_capacity(6);
    for at in 5..10 {
        outs.push(call.output(at)?);
    }
    let scores_out = call.optional_output(10)?;
    let all: Vec<_> = outs.iter().chain(&scores_out).collect();
    let [input, weight] = factors(call, [0, 1], &all)?;
    let target = call.read_index(2, &all)?;
    let range = VocabularyRange { first: call.int(3)?, last: call.int(4)? };
    let (rows, vocab_size) = (input.dims()[0], weight.dims()[0]);
    if vocab_size == 0 {
        let name = call.parameter(1);
        return Err(Error::invalid(format!("{name} has no tokens")));
    }
    if range.first < 0 || range.last < range.first || range.last - range.first >= vocab_size as i64
    {
        let (first, last) = (call.parameter(3), call.parameter(4));
        return Err(Error::invalid(format!(
            "{first} = {}, {last} = {}: expected a range of at most {vocab_size} tokens",
            range.first, range.last
        )));
    }
    call.expect_dims(2, &target, &[rows])?;
    for at in [5, 6, 7, 9] {
        call.expect_dims(at, &outs[at - 5], &[rows])?;
    }
    for at in 5..8 {
        call.expect_dtype(at, &outs[at - 5], &[DType::Float])?;
    }
    call.expect_dims(8, &outs[3], &[rows.div_ceil(8)])?;
    call.expect_dtype(8, &outs[3], &[DType::Uint8])?;
    call.expect_same(9, &outs[4], 2, &target)?;
    if let Some(out) = &scores_out {
        call.expect_dims(10, out, &[rows, vocab_size])?;
        call.expect_same(10, out, 0, &input)?;
    }
    let scores = call.scratch(DType::Float, &[rows, vocab_size]);
    let product = Product::new(call, &scores, &input, &weight.transposed(0, 1));
    let name = call.parameter(2);
    call.plan_real(move |memory| {
        let scratch = memory.scratch(&scores);
        product.run(memory, scratch, input.view(memory), transposed(weight.view(memory)));
        if let Some(out) = &scores_out {
            copy(memory.parallel, memory.out(out), scratch.view());
        }
        let [greatest, sums, predicted, outside, target_indices] =
            std::array::from_fn(|at| memory.out(&outs[at]));
        let stats = RowStats { greatest, sums, predicted, outside, target_indices };
        row_stats(memory.parallel, scratch.view(), target.view(memory), range, stats)
            .map_err(|bad| out_of_range(name, bad))
    })
}

/// Arguments: greatest scores, sums of exponentials, scores of targets, smoothing, two that are absent, logits or absent,
/// losses, softmax or absent.
fn loss(call: &mut Call<'_>) -> Result<Plan> {
    let (out, softmax) = (call.output(7)?, call.optional_output(8)?);
    let all: Vec<_> = [&out].into_iter().chain(&softmax).collect();
    let [greatest, sums, predicted] =
        [call.read(0, &all)?, call.read(1, &all)?, call.read(2, &all)?];
    expect_no_smoothing(call, 3)?;
    for at in [4, 5] {
        if call.has(at) {
            let name = call.parameter(at);
            return Err(Error::invalid(format!("{name}: it has to be null")));
        }
    }
    for (at, one) in [(0, &greatest), (1, &sums), (2, &predicted)] {
        call.expect_dtype(at, one, &[DType::Float])?;
        call.expect_dims(at, one, out.dims())?;
    }
    call.expect_dtype(7, &out, &[DType::Float])?;
    if out.rank() != 1 {
        let (name, dims) = (call.parameter(7), out.dims());
        return Err(Error::invalid(format!(
            "{name} has the sizes {dims:?}: expected one dimension"
        )));
    }
    let logits = match (&softmax, call.has(6)) {
        (Some(_), true) => Some(call.read(6, &all)?),
        (None, _) => None,
        (Some(_), false) => {
            let (name, other) = (call.parameter(6), call.parameter(8));
            return Err(Error::Null(format!("{name} is null: {other} is computed from it")));
        }
    };
    if let (Some(logits), Some(softmax)) = (&logits, &softmax) {
        call.expect_dtype(6, logits, FLOATS)?;
        call.expect_dtype(8, softmax, &[DType::Float])?;
        if logits.rank() != 2 || logits.dims()[0] != out.dims()[0] {
            let (name, dims, rows) = (call.parameter(6), logits.dims(), out.dims()[0]);
            return Err(Error::invalid(format!(
                "{name} has the sizes {dims:?}: expected {rows} rows"
            )));
        }
        call.expect_dims(8, softmax, logits.dims())?;
    }
    call.plan_real(move |memory| {
        let (sums, predicted) = (sums.view(memory), predicted.view(memory));
        let greatest = greatest.view(memory);
        let logits = logits.map(|one| one.view(memory));
        map2(memory.parallel, memory.out(&out), sums, predicted, |sum: f32, at: f32| {
            sum.ln().sub(at)
        });
        if let (Some(logits), Some(softmax)) = (logits, &softmax) {
            let expand = |view: View<'_>| {
                let column = view.layout().with(1).broadcast_to(logits.dims());
                column.expect("a column")
            };
            let (greatest_score, sums) =
                (greatest.with_layout(expand(greatest)), sums.with_layout(expand(sums)));
            let (greatest_score, sums) =
                (greatest_score.expect("a column"), sums.expect("a column"));
            let softmax = memory.out(softmax);
            map3(
                memory.parallel,
                softmax,
                logits,
                greatest_score,
                sums,
                |x: f32, greatest_score: f32, sum: f32| Real::exp(x.sub(greatest_score)) / sum,
            );
        }
        Ok(())
    })
}

/// Fails unless label smoothing is 0.
fn expect_no_smoothing(call: &Call<'_>, at: usize) -> Result<()> {
    match call.float(at)? {
        0.0 => Ok(()),
        other => {
            let name = call.parameter(at);
            Err(Error::invalid(format!("{name} = {other}: only 0 is supported")))
        }
    }
}

/// Arguments: gradient, input, weight, bits of targets outside, indices of targets, smoothing, greatest, sums and softmax or
/// absent, gradients of input and weight.
fn loss_gradient(call: &mut Call<'_>) -> Result<Plan> {
    let (input_grad, weight_grad) = (call.output(9)?, call.output(10)?);
    let all = [&input_grad, &weight_grad];
    let grad = call.read(0, &all)?;
    let [input, weight] = factors(call, [1, 2], &all)?;
    let (outside, target_indices) = (call.read(3, &all)?, call.read_index(4, &all)?);
    expect_no_smoothing(call, 5)?;
    let (rows, vocab_size) = (input.dims()[0], weight.dims()[0]);
    call.expect_dtype(0, &grad, &[DType::Float])?;
    call.expect_dims(0, &grad, &[rows])?;
    call.expect_dtype(3, &outside, &[DType::Uint8])?;
    if outside.rank() != 1 || outside.count().saturating_mul(8) < rows {
        let (name, dims) = (call.parameter(3), outside.dims());
        return Err(Error::invalid(format!("{name} has the sizes {dims:?}: expected {rows} bits")));
    }
    call.expect_dims(4, &target_indices, &[rows])?;
    call.expect_dims(9, &input_grad, input.dims())?;
    call.expect_dims(10, &weight_grad, weight.dims())?;
    call.expect_same(9, &input_grad, 1, &input)?;
    call.expect_same(10, &weight_grad, 2, &weight)?;
    let softmax = if call.has(8) { Some(call.read(8, &all)?) } else { None };
    let saved_stats = match &softmax {
        Some(softmax) => {
            call.expect_dims(8, softmax, &[rows, vocab_size])?;
            call.expect_dtype(8, softmax, &[DType::Float])?;
            None
        }
        None => {
            let saved_stats = [call.read(6, &all)?, call.read(7, &all)?];
            for (at, one) in [6, 7].into_iter().zip(&saved_stats) {
                call.expect_dims(at, one, &[rows])?;
                call.expect_dtype(at, one, &[DType::Float])?;
            }
            Some(saved_stats)
        }
    };
    let softmax_scratch = call.scratch(DType::Float, &[rows, vocab_size]);
    let scores_product =
        saved_stats.map(|_| Product::new(call, &softmax_scratch, &input, &weight.transposed(0, 1)));
    let input_grad_product = Product::new(call, &input_grad, &softmax_scratch, &weight);
    let weight_grad_product =
        Product::new(call, &weight_grad, &softmax_scratch.transposed(0, 1), &input);
    let name = call.parameter(4);
    call.plan_real(move |memory| {
        let scratch = memory.scratch(&softmax_scratch);
        let (input, weight) = (input.view(memory), weight.view(memory));
        match (&softmax, &saved_stats, &scores_product) {
            (None, Some([greatest_score, sums]), Some(scores_product)) => {
                scores_product.run(memory, scratch, input, transposed(weight));
                let column = |read: &UnaliasedInput| {
                    let view = read.view(memory);
                    let broadcast =
                        view.layout().with(1).broadcast_to(scratch.dims()).expect("a column");
                    view.with_layout(broadcast).expect("a column")
                };
                let (greatest_score, sums) = (column(greatest_score), column(sums));
                map3(
                    memory.parallel,
                    scratch,
                    scratch.view(),
                    greatest_score,
                    sums,
                    |x: f32, greatest_score: f32, sum: f32| Real::exp(x.sub(greatest_score)) / sum,
                );
            }
            (Some(softmax), ..) => copy(memory.parallel, scratch, softmax.view(memory)),
            _ => unreachable!("one of both is there"),
        }
        let (grad, outside, target_indices) =
            (grad.view(memory), outside.view(memory), target_indices.view(memory));
        scores_gradient(memory.parallel, scratch, grad, outside, target_indices)
            .map_err(|bad| out_of_range(name, bad))?;
        input_grad_product.run(memory, memory.out(&input_grad), scratch.view(), weight);
        weight_grad_product.run(
            memory,
            memory.out(&weight_grad),
            transposed(scratch.view()),
            input,
        );
        Ok(())
    })
}

/// The rows of this family.
pub const ROWS: &[Row] = &[
    aclnn("FusedLinearOnlineMaxSum", linear_online_max_sum),
    aclnn("FusedCrossEntropyLossWithMaxSum", loss),
    aclnn("FusedLinearCrossEntropyLossGrad", loss_gradient),
];
