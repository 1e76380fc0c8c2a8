//! Normalisation of a sum of two tensors, in one operator: layer norm, root-mean-square norm and deep norm of the sum; and
//! the gradients.
//!
//! Workspace: without an output for the sum, as many numbers of the type computed in as it has elements; a gradient
//! takes twice as many, and what the gradients of weights take in [`super::norm`].

use super::norm::{Rows, rows};
use super::reduction_plan::{Axes, single_result};
use super::reshaped::{ReshapedInput, ReshapedOutput};
use crate::call::Call;
use crate::error::{Error, Result};
use crate::infer::Infer;
use crate::plan::{Memory, Operand, Plan, Scratch};
use crate::table::ArgSource::{A, Attr, B, No, O};
use crate::table::{AttrDefault, Node, Row, aclnn, node};
use cairn_tensor::kernels::constant::Constant;
use cairn_tensor::kernels::copy::copy;
use cairn_tensor::kernels::element::Element;
use cairn_tensor::kernels::fold;
use cairn_tensor::kernels::map::{map1, map2, map3};
use cairn_tensor::kernels::math::Real;
use cairn_tensor::kernels::norm::{Affine, Norm, normalise, normalise_backward, parts};
use cairn_tensor::kernels::number::Number;
use cairn_tensor::{DType, Layout, Scalar, View, ViewMut, with_real};

const REAL: &[DType] = &[DType::Float, DType::Float16, DType::Bf16];

/// Where the sum goes.
enum SumTarget {
    Out(Box<ReshapedOutput>),
    Scratch(Scratch),
}

impl SumTarget {
    fn out<'m>(&self, memory: &Memory<'m>) -> ViewMut<'m> {
        match self {
            SumTarget::Out(out) => out.out(memory),
            SumTarget::Scratch(scratch) => memory.scratch(scratch),
        }
    }
}

/// `alpha * x1 + x2 + bias`, as rows.
struct RowSum {
    x1: ReshapedInput,
    x2: ReshapedInput,
    bias: Option<ReshapedInput>,
    alpha: f64,
    rows: Rows,
}

impl RowSum {
    fn run(&self, memory: &Memory<'_>, to: ViewMut<'_>) {
        let (x1, x2, alpha) = (self.x1.view(memory), self.x2.view(memory), self.alpha);
        with_real!(to.dtype(), C => {
            let alpha = C::of(alpha);
            match &self.bias {
                None => map2(memory.parallel, to, x1, x2, move |a: C, b: C| alpha.mul(a).add(b)),
                Some(bias) => {
                    let bias = bias.view(memory);
                    let bias = bias.with_layout(bias.broadcast_to(&self.rows).expect("as was checked"));
                    let bias = bias.expect("the same elements");
                    map3(memory.parallel, to, x1, x2, bias, move |a: C, b: C, c: C| {
                        alpha.mul(a).add(b).add(c)
                    });
                }
            }
        });
    }
}

/// Fails unless a tensor has the sizes of `x` and one of the types of this family.
fn expect_like(call: &Call<'_>, at: usize, one: &Layout, x: &Layout) -> Result<()> {
    call.expect_dims(at, one, x.dims())?;
    call.expect_dtype(at, one, REAL)
}

/// Arguments: x1, x2, weight, bias of the norm or absent, bias of the sum or absent, alpha or absent, epsilon, y, mean
/// or absent, rstd or absent, sum or absent, whether the sum is requested, y once more (of another type) or absent.
fn forward(call: &mut Call<'_>, norm: Norm) -> Result<Plan> {
    let (x1, x2) = (call.tensor(0)?, call.tensor(1)?);
    call.expect_dtype(0, &x1, REAL)?;
    expect_like(call, 1, &x2, &x1)?;
    let weight = call.tensor(2)?;
    call.expect_dtype(2, &weight, REAL)?;
    let rows = rows(call, 0, &x1, weight.dims())?;
    let weight = call.by_column(2, weight, rows)?;
    let bias = match call.optional(3)? {
        Some(bias) => Some(call.by_column(3, bias, rows)?),
        None => None,
    };
    let (alpha, epsilon) = (call.scalar_or(5, 1.0)?.as_f64(), call.float(6)?);
    let y = call.output(7)?;
    expect_like(call, 7, &y, &x1)?;
    let mut saved = [None; 2];
    for (slot, at) in saved.iter_mut().zip([8, 9]) {
        if call.has(at) {
            let one = call.output(at)?;
            *slot = Some(call.by_row(at, one, rows)?);
        }
    }
    let sum = if call.has(10) && call.flag_or(11, true)? { Some(call.output(10)?) } else { None };
    let second_y = call.optional_output(12)?;
    for (at, one) in [(10, &sum), (12, &second_y)] {
        if let Some(one) = one {
            expect_like(call, at, one, &x1)?;
        }
    }
    let outs: Vec<&Operand> =
        [Some(&y), sum.as_ref(), second_y.as_ref()].into_iter().flatten().collect();
    let sum_bias = match call.optional(4)? {
        None => None,
        Some(sum_bias) if sum_bias.dims() == x1.dims() => {
            Some(call.reshaped_input(sum_bias, &rows, &outs))
        }
        Some(sum_bias) => {
            let sum_bias = call.by_column(4, sum_bias, rows)?;
            Some(call.reshaped_input(sum_bias, &[1, rows[1]], &outs))
        }
    };
    let row_sum = RowSum {
        x1: call.reshaped_input(x1, &rows, &outs),
        x2: call.reshaped_input(x2, &rows, &outs),
        bias: sum_bias,
        alpha,
        rows,
    };
    let sum_target = match sum {
        Some(sum) => SumTarget::Out(Box::new(call.reshaped_output(sum, &rows))),
        None => with_real!(x1.dtype, C => SumTarget::Scratch(call.scratch(C::DTYPE, &rows))),
    };
    let y_rows = call.reshaped_output(y, &rows);
    call.plan_real(move |memory| {
        if rows[0] == 0 || rows[1] == 0 {
            return Ok(());
        }
        let sum = sum_target.out(memory);
        row_sum.run(memory, sum);
        let affine =
            Affine { weight: Some(memory.view(&weight)), bias: bias.map(|one| memory.view(&one)) };
        let [mean, rstd] = saved.map(|one| one.map(|one| memory.out(&one)));
        with_real!(x1.dtype, C => {
            normalise::<C>(memory.parallel, norm, y_rows.out(memory), sum.view(), affine, mean, rstd, epsilon)
        });
        y_rows.write_back(memory);
        if let SumTarget::Out(out) = &sum_target {
            out.write_back(memory);
        }
        if let Some(second_y) = &second_y {
            copy(memory.parallel, memory.out(second_y), memory.view(&y));
        }
        Ok(())
    })
}

/// Arguments: dy, x1, x2, mean, rstd, weight, gradient that is added or absent, alpha or absent; the gradients of x1
/// (or of the sum), of x2 or absent, of weight and of bias.
fn backward(call: &mut Call<'_>) -> Result<Plan> {
    let (dy, x1, x2) = (call.tensor(0)?, call.tensor(1)?, call.tensor(2)?);
    call.expect_dtype(1, &x1, REAL)?;
    expect_like(call, 0, &dy, &x1)?;
    expect_like(call, 2, &x2, &x1)?;
    let (mean, rstd, weight) = (call.tensor(3)?, call.tensor(4)?, call.tensor(5)?);
    let rows = rows(call, 1, &x1, weight.dims())?;
    let weight = call.by_column(5, weight, rows)?;
    let (mean, rstd) = (call.by_row(3, mean, rows)?, call.by_row(4, rstd, rows)?);
    let dsum = call.optional(6)?;
    if let Some(dsum) = &dsum {
        expect_like(call, 6, dsum, &x1)?;
    }
    let alpha = call.scalar_or(7, 1.0)?.as_f64();
    let (dx1, dx2) = (call.output(8)?, call.optional_output(9)?);
    expect_like(call, 8, &dx1, &x1)?;
    if let Some(dx2) = &dx2 {
        expect_like(call, 9, dx2, &x1)?;
    }
    let mut grads = [None; 2];
    for (slot, at) in grads.iter_mut().zip([10, 11]) {
        let out = call.output(at)?;
        *slot = Some(call.by_column(at, out, rows)?);
    }
    let outs: Vec<&Operand> = [Some(&dx1), dx2.as_ref()].into_iter().flatten().collect();
    let dy = call.reshaped_input(dy, &rows, &outs);
    let dsum = dsum.map(|dsum| call.reshaped_input(dsum, &rows, &outs));
    let row_sum = RowSum {
        x1: call.reshaped_input(x1, &rows, &outs),
        x2: call.reshaped_input(x2, &rows, &outs),
        bias: None,
        alpha,
        rows,
    };
    let dx1 = call.reshaped_output(dx1, &rows);
    let dx2 = dx2.map(|dx2| call.reshaped_output(dx2, &rows));
    let dtype = with_real!(x1.dtype, C => C::DTYPE);
    let (sum, sum_grad) = (call.scratch(dtype, &rows), call.scratch(dtype, &rows));
    let count = parts(rows[0], rows[1]);
    let sums = call.scratch(dtype, &[2, count, rows[1]]);
    let one_sum = Layout::contiguous(dtype, &[count, rows[1]]);
    let axes = Axes::new(&[true, false]);
    let reduction_plan =
        with_real!(dtype, C => call.plan_reduction(&one_sum, &axes, &fold::sum::<C>()));
    call.plan_real(move |memory| {
        let (sum, sum_grad, sums) =
            (memory.scratch(&sum), memory.scratch(&sum_grad), memory.scratch(&sums));
        row_sum.run(memory, sum);
        let (dy, mean, rstd) = (dy.view(memory), memory.view(&mean), memory.view(&rstd));
        let (weight, parallel) = (memory.view(&weight), memory.parallel);
        let dsum = dsum.map(|dsum| dsum.view(memory));
        with_real!(dtype, C => {
            normalise_backward::<C>(
                parallel, Norm::Layer, Some(sum_grad), dy, sum.view(), Some(mean), rstd, Some(weight), sums,
            );
            for (which, grad) in grads.iter().enumerate() {
                if let Some(grad) = grad {
                    let part = sums.view().with_layout(sums.layout().at(0, which)).expect("a half of it");
                    reduction_plan.run(memory, part, fold::sum::<C>(), (memory.out(grad), None), single_result);
                }
            }
            let zero = Constant::new(Scalar::from(0.0));
            let dsum = dsum.unwrap_or(zero.view(&rows));
            let factor = C::of(alpha);
            map2(parallel, dx1.out(memory), sum_grad.view(), dsum, move |d: C, m: C| factor.mul(d).add(m));
            if let Some(dx2) = &dx2 {
                map1(parallel, dx2.out(memory), sum_grad.view(), |d: C| d);
                dx2.write_back(memory);
            }
        });
        dx1.write_back(memory);
        Ok(())
    })
}

/// Root-mean-square norm whose weights are 1 more than those passed. Arguments: x, weight, epsilon, y, rstd.
fn gemma(call: &mut Call<'_>) -> Result<Plan> {
    let (x, weight, epsilon) = (call.tensor(0)?, call.tensor(1)?, call.float(2)?);
    let (y, rstd) = (call.output(3)?, call.output(4)?);
    call.expect_dtype(0, &x, REAL)?;
    expect_like(call, 3, &y, &x)?;
    call.expect_dtype(1, &weight, REAL)?;
    let rows = rows(call, 0, &x, weight.dims())?;
    let (weight, rstd) = (call.by_column(1, weight, rows)?, call.by_row(4, rstd, rows)?);
    let weights = with_real!(x.dtype, C => call.scratch(C::DTYPE, &[rows[1]]));
    let x = call.reshaped_input(x, &rows, &[&y]);
    let y = call.reshaped_output(y, &rows);
    call.plan_real(move |memory| {
        if rows[0] == 0 || rows[1] == 0 {
            return Ok(());
        }
        let weights = memory.scratch(&weights);
        let (view, out): (View<'_>, _) = (x.view(memory), y.out(memory));
        with_real!(view.dtype(), C => {
            map1(memory.parallel, weights, memory.view(&weight), |w: C| w.add(C::ONE));
            let affine = Affine { weight: Some(weights.view()), bias: None };
            let rstd = Some(memory.out(&rstd));
            normalise::<C>(memory.parallel, Norm::RootMeanSquare, out, view, affine, None, rstd, epsilon)
        });
        y.write_back(memory);
        Ok(())
    })
}

fn layer(call: &mut Call<'_>) -> Result<Plan> {
    forward(call, Norm::Layer)
}

fn root_mean_square(call: &mut Call<'_>) -> Result<Plan> {
    forward(call, Norm::RootMeanSquare)
}

/// The rows of this family.
pub const ROWS: &[Row] = &[
    aclnn("AddRmsNorm", root_mean_square).with_args(&[
        A(0),
        A(1),
        A(2),
        No,
        No,
        No,
        A(3),
        A(4),
        No,
        A(5),
        A(6),
    ]),
    aclnn("AddRmsNormCast", root_mean_square).with_args(&[
        A(0),
        A(1),
        A(2),
        No,
        No,
        No,
        A(3),
        A(4),
        No,
        A(6),
        A(7),
        B(true),
        A(5),
    ]),
    aclnn("InplaceAddRmsNorm", root_mean_square).with_args(&[
        A(0),
        A(1),
        A(2),
        No,
        No,
        No,
        A(3),
        A(0),
        No,
        A(4),
        A(1),
    ]),
    aclnn("GemmaRmsNorm", gemma),
    aclnn("AddLayerNorm", layer).with_args(&[
        A(0),
        A(1),
        A(2),
        A(3),
        A(4),
        No,
        A(5),
        A(7),
        A(8),
        A(9),
        A(10),
        A(6),
    ]),
    aclnn("AddLayerNormGrad", backward).with_args(&[
        A(0),
        A(1),
        A(2),
        A(4),
        A(3),
        A(5),
        A(6),
        No,
        A(7),
        No,
        A(8),
        A(9),
    ]),
    aclnn("DeepNorm", layer).with_args(&[A(0), A(1), A(3), A(2), No, A(4), A(5), A(8), A(6), A(7)]),
    aclnn("DeepNormGrad", backward).with_args(&[
        A(0),
        A(1),
        A(2),
        A(4),
        A(5),
        A(3),
        No,
        A(6),
        A(7),
        A(8),
        A(10),
        A(9),
    ]),
];

/// One number for each row of the first input, whose rows are those of the weight.
fn by_row(call: &Call<'_>, weight: usize) -> Result<Layout> {
    let (x, weight) = (call.layout(0)?, call.layout(weight)?);
    let before = x.rank().checked_sub(weight.rank()).ok_or_else(|| {
        Error::invalid(format!(
            "{} has more dimensions than {}",
            call.parameter(2),
            call.parameter(0)
        ))
    })?;
    let dims: Vec<usize> =
        x.dims().iter().enumerate().map(|(at, size)| if at < before { *size } else { 1 }).collect();
    Ok(Layout::contiguous(DType::Float, &dims))
}

fn rms_outputs(call: &Call<'_>) -> Result<Vec<Layout>> {
    let x = call.layout(0)?.packed();
    Ok(vec![x, by_row(call, 2)?, x])
}

fn cast_outputs(call: &Call<'_>) -> Result<Vec<Layout>> {
    let x = call.layout(0)?.packed();
    Ok(vec![x.with_dtype(DType::Float), x, by_row(call, 2)?, x])
}

fn gemma_outputs(call: &Call<'_>) -> Result<Vec<Layout>> {
    Ok(vec![call.layout(0)?.packed(), by_row(call, 1)?])
}

fn layer_outputs(call: &Call<'_>) -> Result<Vec<Layout>> {
    let (x, row) = (call.layout(0)?.packed(), by_row(call, 2)?);
    Ok(vec![x, row, row, x])
}

fn deep_outputs(call: &Call<'_>) -> Result<Vec<Layout>> {
    let row = by_row(call, 2)?;
    Ok(vec![row, row, call.layout(0)?.packed()])
}

fn infer_layer_gradients(call: &Call<'_>) -> Result<Vec<Layout>> {
    let weight = Layout::contiguous(DType::Float, call.layout(5)?.dims());
    Ok(vec![call.layout(1)?.packed(), weight, weight])
}

fn infer_deep_gradients(call: &Call<'_>) -> Result<Vec<Layout>> {
    let weight = Layout::contiguous(DType::Float, call.layout(5)?.dims());
    let x = call.layout(1)?.packed();
    Ok(vec![x, x, weight, weight])
}

/// The operators of this family by IR name.
pub const NODES: &[Node] = &[
    node(
        "AddRmsNorm",
        &["x1", "x2", "gamma"],
        &["y", "rstd", "x"],
        Infer::By(rms_outputs),
        root_mean_square,
        &[
            A(0),
            A(1),
            A(2),
            No,
            No,
            No,
            Attr("epsilon", AttrDefault::Float(1e-6)),
            O(0),
            No,
            O(1),
            O(2),
        ],
    ),
    node(
        "AddRmsNormCast",
        &["x1", "x2", "gamma"],
        &["y1", "y2", "rstd", "x"],
        Infer::By(cast_outputs),
        root_mean_square,
        &[
            A(0),
            A(1),
            A(2),
            No,
            No,
            No,
            Attr("epsilon", AttrDefault::Float(1e-6)),
            O(0),
            No,
            O(2),
            O(3),
            B(true),
            O(1),
        ],
    ),
    node(
        "GemmaRmsNorm",
        &["x", "gamma"],
        &["y", "rstd"],
        Infer::By(gemma_outputs),
        gemma,
        &[A(0), A(1), Attr("epsilon", AttrDefault::Float(1e-6)), O(0), O(1)],
    ),
    node(
        "AddLayerNorm",
        &["x1", "x2", "gamma", "beta", "bias?"],
        &["y", "mean", "rstd", "x"],
        Infer::By(layer_outputs),
        layer,
        &[
            A(0),
            A(1),
            A(2),
            A(3),
            A(4),
            No,
            Attr("epsilon", AttrDefault::Float(1e-5)),
            O(0),
            O(1),
            O(2),
            O(3),
            Attr("additional_output", AttrDefault::Flag(false)),
        ],
    ),
    node(
        "AddLayerNormGrad",
        &["dy", "x1", "x2", "rstd", "mean", "gamma", "dsum?"],
        &["dx", "dgamma", "dbeta"],
        Infer::By(infer_layer_gradients),
        backward,
        &[A(0), A(1), A(2), A(4), A(3), A(5), A(6), No, O(0), No, O(1), O(2)],
    ),
    node(
        "DeepNorm",
        &["x", "gx", "beta", "gamma"],
        &["mean", "rstd", "y"],
        Infer::By(deep_outputs),
        layer,
        &[
            A(0),
            A(1),
            A(3),
            A(2),
            No,
            Attr("alpha", AttrDefault::Float(0.3)),
            Attr("epsilon", AttrDefault::Float(1e-6)),
            O(2),
            O(0),
            O(1),
        ],
    ),
    node(
        "DeepNormGrad",
        &["dy", "x", "gx", "gamma", "mean", "rstd"],
        &["dx", "dgx", "dbeta", "dgamma"],
        Infer::By(infer_deep_gradients),
        backward,
        &[
            A(0),
            A(1),
            A(2),
            A(4),
            A(5),
            A(3),
            No,
            Attr("alpha", AttrDefault::Float(0.3)),
            O(0),
            O(1),
            O(3),
            O(2),
        ],
    ),
];
