//! Normalisation of the last dimensions: layer norm and root-mean-square norm, with their gradients.
//!
//! Workspace: a gradient of weights or biases of `n` numbers over `m` rows takes `2 * p * n` numbers of the type
//! computed in, `p = min(32, m, m * n / 32768)` and at least 1. Tensors that cannot be reshaped to rows without a copy
//! are copied there too.

use super::reduction_plan::{Axes, single_result};
use crate::argument::Arg;
use crate::call::Call;
use crate::error::{Error, Result};
use crate::infer::Infer;
use crate::plan::{Operand, Plan};
use crate::table::ArgSource::{A, Attr, No, O};
use crate::table::{AttrDefault, Node, Row, aclnn, node};
use cairn_tensor::kernels::element::Element;
use cairn_tensor::kernels::fold;
use cairn_tensor::kernels::map::map1;
use cairn_tensor::kernels::math::Real;
use cairn_tensor::kernels::norm::{Affine, Norm, normalise, normalise_backward, parts, variances};
use cairn_tensor::{DType, Layout, with_real};

const REALS: &[DType] = &[DType::Float, DType::Float16, DType::Bf16, DType::Double];

/// How many rows there are, and how many elements each has.
pub type Rows = [usize; 2];

/// The rows of `x` whose last dimensions have the sizes `shape`.
pub fn rows(call: &Call<'_>, at: usize, x: &Layout, shape: &[usize]) -> Result<Rows> {
    match x.rank().checked_sub(shape.len()) {
        Some(before) if x.dims()[before..] == *shape => {
            Ok([x.dims()[..before].iter().product(), shape.iter().product()])
        }
        _ => {
            let (name, dims) = (call.parameter(at), x.dims());
            Err(Error::invalid(format!(
                "{name} has the sizes {dims:?}, which do not end in {shape:?}"
            )))
        }
    }
}

impl Call<'_> {
    /// A tensor with one number for each row, broadcast to the sizes of the rows.
    pub fn by_row(&self, at: usize, operand: Operand, rows: Rows) -> Result<Operand> {
        let layout = operand.reshaped(&[rows[0], 1]).and_then(|one| one.broadcast_to(&rows));
        layout.map(|layout| operand.with_layout(layout)).ok_or_else(|| {
            let (name, layout) = (self.parameter(at), *operand.layout());
            let strides = layout.strides();
            Error::invalid(format!(
                "{name} ({layout}, strides {strides:?}) is no row of {} numbers",
                rows[0]
            ))
        })
    }

    /// A tensor with one number for each element of a row.
    pub fn by_column(&self, at: usize, operand: Operand, rows: Rows) -> Result<Operand> {
        operand.reshaped(&[rows[1]]).map(|layout| operand.with_layout(layout)).ok_or_else(|| {
            let (name, layout) = (self.parameter(at), *operand.layout());
            Error::invalid(format!("{name} ({layout}) is no row of {} numbers", rows[1]))
        })
    }
}

/// Fails unless a tensor has one number for each element of a row.
fn expect_column(call: &Call<'_>, at: usize, operand: &Operand, rows: Rows) -> Result<()> {
    if operand.count() == rows[1] {
        return Ok(());
    }
    let (name, layout) = (call.parameter(at), *operand.layout());
    Err(Error::invalid(format!("{name} ({layout}) is no row of {} numbers", rows[1])))
}

/// The sizes to normalise: a list, or those of the weights.
fn shape(call: &Call<'_>, list: usize, weight: usize) -> Result<Vec<usize>> {
    if !call.has(list) {
        return Ok(call.layout(weight)?.dims().to_vec());
    }
    let sizes = call.ints(list)?;
    sizes.iter().map(|size| usize::try_from(*size)).collect::<std::result::Result<_, _>>().map_err(
        |_| {
            let name = call.parameter(list);
            Error::invalid(format!("{name} = {sizes:?} has a negative size"))
        },
    )
}

/// What is kept of how far the elements of a row are apart.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Spread {
    /// 1 over the root of variance and epsilon.
    ReciprocalRoot,
    /// The variance alone.
    Variance,
}

/// Arguments: x, shape or absent, weight or absent, bias or absent, epsilon, y, mean or absent, spread or absent.
fn forward(call: &mut Call<'_>, norm: Norm, kept: Spread) -> Result<Plan> {
    let x = call.tensor(0)?;
    let rows = rows(call, 0, &x, &shape(call, 1, 2)?)?;
    let y = call.output(5)?;
    call.expect_dims(5, &y, x.dims())?;
    let epsilon = call.float(4)?;
    let mut affine = [None; 2];
    for (slot, at) in affine.iter_mut().zip([2, 3]) {
        *slot = match call.optional(at)? {
            Some(one) => {
                call.expect_dtype(at, &one, REALS)?;
                expect_column(call, at, &one, rows)?;
                Some(call.reshaped_input(one, &rows[1..], &[&y]))
            }
            None => None,
        };
    }
    let mut saved = [None; 2];
    for (slot, at) in saved.iter_mut().zip([6, 7]) {
        *slot = match call.optional_output(at)? {
            Some(one) => Some(call.by_row(at, one, rows)?),
            None => None,
        };
    }
    let x = call.reshaped_input(x, &rows, &[&y]);
    let y = call.reshaped_output(y, &rows);
    call.plan_real(move |memory| {
        if rows[1] == 0 {
            return Ok(());
        }
        let [weight, bias] = affine.map(|one| one.map(|one| one.view(memory)));
        let [mean, spread] = saved.map(|one| one.map(|one| memory.out(&one)));
        let (view, out, affine) = (x.view(memory), y.out(memory), Affine { weight, bias });
        with_real!(view.dtype(), C => {
            let rstd = match (kept, spread) {
                (Spread::Variance, Some(variance)) => {
                    variances::<C>(memory.parallel, variance, view);
                    None
                }
                _ => spread,
            };
            normalise::<C>(memory.parallel, norm, out, view, affine, mean, rstd, epsilon)
        });
        y.write_back(memory);
        Ok(())
    })
}

/// What is added to a variance that a gradient gets without the epsilon of its forward: by the type of x.
fn epsilon_of_variance(x: DType) -> f64 {
    if matches!(x, DType::Float16 | DType::Bf16) { 1e-5 } else { 1e-12 }
}

/// Arguments: dy, x, shape or absent, mean or absent, spread, weight or absent, which gradients are requested or
/// absent, dx, dweight, dbias.
fn backward(call: &mut Call<'_>, norm: Norm, kept: Spread) -> Result<Plan> {
    let (dy, x) = (call.tensor(0)?, call.tensor(1)?);
    call.expect_dims(0, &dy, x.dims())?;
    let rows = rows(call, 1, &x, &shape(call, 2, 5)?)?;
    let requested = if call.has(6) { call.flags(6)? } else { vec![true; 3] };
    let is_requested = |at: usize| requested.get(at).copied().unwrap_or(true);
    let mean = match norm {
        Norm::Layer => {
            let mean = call.tensor(3)?;
            Some(call.by_row(3, mean, rows)?)
        }
        Norm::RootMeanSquare => None,
    };
    let rstd = call.tensor(4)?;
    let computed = match kept {
        Spread::ReciprocalRoot => None,
        Spread::Variance => {
            call.expect_dtype(4, &rstd, REALS)?;
            call.by_row(4, rstd, rows)?;
            let column = rstd.reshaped(&[rows[0], 1]).expect("one number for each row");
            let dtype = with_real!(x.dtype, C => C::DTYPE);
            let epsilon = epsilon_of_variance(x.dtype);
            Some((rstd.with_layout(column), call.scratch(dtype, &[rows[0], 1]), epsilon))
        }
    };
    let rstd = call.by_row(4, rstd, rows)?;
    let weight = match call.optional(5)? {
        Some(weight) => {
            expect_column(call, 5, &weight, rows)?;
            Some(weight)
        }
        None => None,
    };
    let dx = if call.has(7) && is_requested(0) { Some(call.output(7)?) } else { None };
    if let Some(dx) = &dx {
        call.expect_dims(7, dx, x.dims())?;
    }
    let mut grads = [None; 2];
    for (slot, at) in grads.iter_mut().zip([8, 9]) {
        if call.has(at) && is_requested(at - 7) {
            let out = call.output(at)?;
            expect_column(call, at, &out, rows)?;
            *slot = Some(call.reshaped_output(out, &rows[1..]));
        }
    }
    let outs: Vec<&Operand> = dx.iter().collect();
    let (dy, x) = (call.reshaped_input(dy, &rows, &outs), call.reshaped_input(x, &rows, &outs));
    let weight = weight.map(|weight| call.reshaped_input(weight, &rows[1..], &outs));
    let dx = dx.map(|dx| call.reshaped_output(dx, &rows));
    let count = parts(rows[0], rows[1]);
    let sums = with_real!(x.layout().dtype, C => call.scratch(C::DTYPE, &[2, count, rows[1]]));
    let one_sum = Layout::contiguous(sums.dtype, &[count, rows[1]]);
    let axes = Axes::new(&[true, false]);
    let reduction_plan =
        with_real!(sums.dtype, C => call.plan_reduction(&one_sum, &axes, &fold::sum::<C>()));
    call.plan_real(move |memory| {
        let (dy, x, sums) = (dy.view(memory), x.view(memory), memory.scratch(&sums));
        let mean = mean.map(|mean| memory.view(&mean));
        let rstd = match &computed {
            None => memory.view(&rstd),
            Some((variance, roots, epsilon)) => {
                let (variance, roots) = (memory.view(variance), memory.scratch(roots));
                with_real!(roots.dtype(), C => {
                    let epsilon = C::of(*epsilon);
                    map1(memory.parallel, roots, variance, move |v: C| (v + epsilon).sqrt().recip());
                });
                let wide = roots.broadcast_to(&rows).expect("a column");
                roots.view().with_layout(wide).expect("the same elements")
            }
        };
        let weight = weight.map(|weight| weight.view(memory));
        let out = dx.map(|dx| dx.out(memory));
        with_real!(sums.dtype(), C => {
            normalise_backward::<C>(memory.parallel, norm, out, dy, x, mean, rstd, weight, sums);
            for (which, grad) in grads.iter().enumerate() {
                if let Some(grad) = grad {
                    let part = sums.view().with_layout(sums.layout().at(0, which)).expect("a half of it");
                    reduction_plan.run(memory, part, fold::sum::<C>(), (grad.out(memory), None), single_result);
                    grad.write_back(memory);
                }
            }
        });
        if let Some(dx) = &dx {
            dx.write_back(memory);
        }
        Ok(())
    })
}

fn layer(call: &mut Call<'_>) -> Result<Plan> {
    forward(call, Norm::Layer, Spread::ReciprocalRoot)
}

fn layer_backward(call: &mut Call<'_>) -> Result<Plan> {
    backward(call, Norm::Layer, Spread::ReciprocalRoot)
}

fn layer_backward_by_variance(call: &mut Call<'_>) -> Result<Plan> {
    backward(call, Norm::Layer, Spread::Variance)
}

fn root_mean_square(call: &mut Call<'_>) -> Result<Plan> {
    forward(call, Norm::RootMeanSquare, Spread::ReciprocalRoot)
}

fn root_mean_square_backward(call: &mut Call<'_>) -> Result<Plan> {
    backward(call, Norm::RootMeanSquare, Spread::ReciprocalRoot)
}

/// The sizes that are normalised, from the dimension at which they begin. Weights begin at the same one.
fn sizes_from_axis(call: &Call<'_>, axis: usize, weights_axis: usize) -> Result<Vec<usize>> {
    let x = call.layout(0)?;
    let (from, weights_from) = (call.dim(axis, x.rank())?, call.dim(weights_axis, x.rank())?);
    if from != weights_from {
        let (axis, weights_axis) = (call.parameter(axis), call.parameter(weights_axis));
        return Err(Error::invalid(format!(
            "{axis} = {from} but {weights_axis} = {weights_from}: weights of other dimensions than the normalised \
             ones are not supported"
        )));
    }
    Ok(x.dims().get(from..).unwrap_or(&[]).to_vec())
}

/// Arguments: as of [`forward`], with the dimension at which the sizes begin in place of them, and then that of the
/// weights.
fn layer_from_axis(call: &mut Call<'_>, kept: Spread) -> Result<Plan> {
    let sizes = sizes_from_axis(call, 1, 8)?;
    call.replace(1, Arg::Ints(sizes.iter().map(|size| *size as i64).collect()));
    forward(call, Norm::Layer, kept)
}

/// The rows of this family.
pub const ROWS: &[Row] = &[
    aclnn("LayerNorm", layer),
    aclnn("LayerNormWithImplMode", layer),
    aclnn("FastLayerNorm", layer),
    aclnn("LayerNormBackward", layer_backward).with_args(&[
        A(0),
        A(1),
        A(2),
        A(3),
        A(4),
        A(5),
        A(7),
        A(8),
        A(9),
        A(10),
    ]),
    aclnn("RmsNorm", root_mean_square).with_args(&[A(0), No, A(1), No, A(2), A(3), No, A(4)]),
    aclnn("RmsNormGrad", root_mean_square_backward).with_args(&[
        A(0),
        A(1),
        No,
        No,
        A(2),
        A(3),
        No,
        A(4),
        A(5),
        No,
    ]),
];

/// An output like x, and `count` outputs with a number for each row.
fn with_row_statistics(call: &Call<'_>, count: usize) -> Result<Vec<Layout>> {
    let (x, shape) = (call.layout(0)?, shape(call, 1, 2)?);
    let before = x.rank().saturating_sub(shape.len());
    let dims: Vec<usize> =
        x.dims().iter().enumerate().map(|(at, size)| if at < before { *size } else { 1 }).collect();
    let mut outs = vec![x.packed()];
    outs.extend(vec![Layout::contiguous(DType::Float, &dims); count]);
    Ok(outs)
}

/// One number for each row, of the type of x.
fn infer_from_axis(call: &Call<'_>) -> Result<Vec<Layout>> {
    let (x, normalised) = (call.layout(0)?, sizes_from_axis(call, 1, 8)?.len());
    let before = x.rank() - normalised;
    let mut dims = x.dims()[..before].to_vec();
    dims.resize(x.rank(), 1);
    let saved = Layout::contiguous(x.dtype, &dims);
    Ok(vec![x.packed(), saved, saved])
}

fn infer_gradients_like_weights(call: &Call<'_>) -> Result<Vec<Layout>> {
    let weight = call.layout(5)?.packed();
    Ok(vec![call.layout(1)?.packed(), weight, weight])
}

fn infer_mean_and_rstd(call: &Call<'_>) -> Result<Vec<Layout>> {
    with_row_statistics(call, 2)
}

fn infer_rstd(call: &Call<'_>) -> Result<Vec<Layout>> {
    with_row_statistics(call, 1)
}

fn infer_gradients(call: &Call<'_>) -> Result<Vec<Layout>> {
    let weight = Layout::contiguous(DType::Float, call.layout(5)?.dims());
    Ok(vec![call.layout(1)?.packed(), weight, weight])
}

fn infer_two_gradients(call: &Call<'_>) -> Result<Vec<Layout>> {
    infer_gradients(call).map(|outs| outs[..2].to_vec())
}

/// The operators of this family by IR name.
pub const NODES: &[Node] = &[
    node(
        "LayerNormV4",
        &["x", "normalized_shape", "gamma?", "beta?"],
        &["y", "mean", "rstd"],
        Infer::By(infer_mean_and_rstd),
        layer,
        &[A(0), A(1), A(2), A(3), Attr("epsilon", AttrDefault::Float(1e-5)), O(0), O(1), O(2)],
    )
    .needs_values(&[1]),
    node(
        "LayerNormGradV3",
        &["dy", "x", "rstd", "mean", "gamma"],
        &["pd_x", "pd_gamma", "pd_beta"],
        Infer::By(infer_gradients),
        layer_backward,
        &[A(0), A(1), No, A(3), A(2), A(4), No, O(0), O(1), O(2)],
    ),
    node(
        "RmsNorm",
        &["x", "gamma"],
        &["y", "rstd"],
        Infer::By(infer_rstd),
        root_mean_square,
        &[A(0), No, A(1), No, Attr("epsilon", AttrDefault::Float(1e-6)), O(0), No, O(1)],
    ),
    node(
        "RmsNormGrad",
        &["dy", "x", "rstd", "gamma"],
        &["dx", "dgamma"],
        Infer::By(infer_two_gradients),
        root_mean_square_backward,
        &[A(0), A(1), No, No, A(2), A(3), No, O(0), O(1), No],
    ),
    node(
        "LayerNorm",
        &["x", "gamma", "beta"],
        &["y", "mean", "variance"],
        Infer::By(infer_from_axis),
        |c| layer_from_axis(c, Spread::Variance),
        &[
            A(0),
            Attr("begin_norm_axis", AttrDefault::Int(0)),
            A(1),
            A(2),
            Attr("epsilon", AttrDefault::Float(1e-7)),
            O(0),
            O(1),
            O(2),
            Attr("begin_params_axis", AttrDefault::Int(0)),
        ],
    ),
    node(
        "LayerNormV3",
        &["x", "gamma", "beta"],
        &["y", "mean", "rstd"],
        Infer::By(infer_from_axis),
        |c| layer_from_axis(c, Spread::ReciprocalRoot),
        &[
            A(0),
            Attr("begin_norm_axis", AttrDefault::Int(0)),
            A(1),
            A(2),
            Attr("epsilon", AttrDefault::Float(1e-5)),
            O(0),
            O(1),
            O(2),
            Attr("begin_params_axis", AttrDefault::Int(0)),
        ],
    ),
    node(
        "LayerNormGrad",
        &["dy", "x", "variance", "mean", "gamma"],
        &["pd_x", "pd_gamma", "pd_beta"],
        Infer::By(infer_gradients_like_weights),
        layer_backward_by_variance,
        &[A(0), A(1), No, A(3), A(2), A(4), No, O(0), O(1), O(2)],
    ),
];
