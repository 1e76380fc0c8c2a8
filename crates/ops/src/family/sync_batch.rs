//! Batch norm in steps: statistics, statistics of several devices combined, elements by their channel, and the gradients.
//!
//! Workspace: numbers for each channel, and for gradients one number for each element, in the type computed in.

use super::norm_shape::{
    NormShape, broadcast_to, optional, optional_output, reshaped, squeeze_reduced,
};
use super::reduction_plan::single_result;
use crate::call::Call;
use crate::error::{Error, Result};
use crate::infer::Infer;
use crate::plan::{Operand, Plan};
use crate::table::ArgSource::{A, Attr, B, No, O};
use crate::table::{ArgSource, AttrDefault, Node, Row, aclnn, node};
use cairn_tensor::kernels::access::{OffsetAccess, OffsetAccessMut};
use cairn_tensor::kernels::constant::Constant;
use cairn_tensor::kernels::copy::copy;
use cairn_tensor::kernels::fold::{self, Moments};
use cairn_tensor::kernels::map::{map1, map2, map3};
use cairn_tensor::kernels::math::Real;
use cairn_tensor::kernels::number::Number;
use cairn_tensor::{DType, Layout, Scalar, with_real};

/// The types of elements.
pub(super) const REALS: &[DType] = &[DType::Float, DType::Float16, DType::Bf16, DType::Double];

/// A tensor by samples, channels and positions.
pub(super) fn norm_shape(call: &Call<'_>, at: usize, x: &Layout) -> Result<NormShape> {
    call.expect_dtype(at, x, REALS)?;
    let [samples, channels, positions @ ..] = x.dims() else {
        let (name, dims) = (call.parameter(at), x.dims());
        return Err(Error::invalid(format!("{name} {dims:?} has no dimension of channels")));
    };
    Ok(NormShape { dims: [*samples, *channels, 1, positions.iter().product()], batch: true })
}

/// The type to compute in.
pub(super) fn compute_dtype(x: &Layout) -> DType {
    if x.dtype == DType::Double { DType::Double } else { DType::Float }
}

/// A number for each channel.
pub(super) fn channels(call: &mut Call<'_>, at: usize, shape: &NormShape) -> Result<Operand> {
    let one = call.tensor(at)?;
    reshaped(call, at, one, &shape.channels())
}

fn channels_out(call: &mut Call<'_>, at: usize, shape: &NormShape) -> Result<Operand> {
    let one = call.output(at)?;
    reshaped(call, at, one, &shape.channels())
}

/// Two numbers of each channel from its moments: mean and rstd (one over the standard deviation), or sum and sum
/// of squares. Arguments: x, epsilon, first, second, whether they are sums.
fn stats(call: &mut Call<'_>) -> Result<Plan> {
    let x = call.tensor(0)?;
    let shape = norm_shape(call, 0, &x)?;
    let sums = call.flag_or(4, false)?;
    let epsilon = if sums { 0.0 } else { call.float(1)? };
    let (first, second) = (channels_out(call, 2, &shape)?, channels_out(call, 3, &shape)?);
    let dtype = compute_dtype(&x);
    let x = call.reshaped_input(x, &shape.dims, &[&first, &second]);
    let reduction_plan = with_real!(dtype, C => call.plan_reduction(&x.layout(), &shape.axes(), &fold::moments::<C>()));
    call.plan_real(move |memory| {
        let axes = shape.axes();
        let [first, second] = [first, second].map(|one| squeeze_reduced(memory.out(&one), &axes));
        with_real!(dtype, C => {
            reduction_plan.run(memory, x.view(memory), fold::moments::<C>(), (first, Some(second)), |all: Moments| {
                match sums {
                    true => (all.mean * all.count, all.squares + all.mean * all.mean * all.count),
                    false => (all.mean, 1.0 / (all.squares / all.count + epsilon).sqrt()),
                }
            });
        });
        Ok(())
    })
}

/// `y = (x - mean) * rstd * weight + bias` by channel. Arguments: x, weight, bias, mean, rstd or variance, epsilon, y,
/// whether the variance is passed, not rstd.
fn normalise_elements(call: &mut Call<'_>) -> Result<Plan> {
    let (x, y) = (call.tensor(0)?, call.output(6)?);
    let shape = norm_shape(call, 0, &x)?;
    call.expect_dims(6, &y, x.dims())?;
    call.expect_dtype(6, &y, REALS)?;
    let sizes = shape.channels();
    let weight = optional(call, 1, &sizes)?;
    let bias = optional(call, 2, &sizes)?;
    let mean = optional(call, 3, &sizes)?;
    let rstd_or_variance = channels(call, 4, &shape)?;
    let (epsilon, is_variance) = (call.scalar_or(5, 0.0)?.as_f64(), call.flag(7)?);
    let dtype = compute_dtype(&x);
    let x = call.reshaped_input(x, &shape.dims, &[&y]);
    let y = call.reshaped_output(y, &shape.dims);
    let [scales, shifts] = [0; 2].map(|_| call.scratch(dtype, &sizes));
    call.plan_real(move |memory| {
        let parallel = memory.parallel;
        let (x, out) = (x.view(memory), y.out(memory));
        let [scales, shifts] = [scales, shifts].map(|one| memory.scratch(&one));
        let [one, zero] = [1.0, 0.0].map(|value| Constant::new(Scalar::from(value)));
        let [weight, bias, mean] = [weight, bias, mean].map(|one| one.map(|one| memory.view(&one)));
        let weight = weight.unwrap_or(one.view(&sizes));
        let (bias, mean) = (bias.unwrap_or(zero.view(&sizes)), mean.unwrap_or(zero.view(&sizes)));
        with_real!(dtype, C => {
            let epsilon = C::of(epsilon);
            map2(parallel, scales, memory.view(&rstd_or_variance), weight, move |s: C, w: C| match is_variance {
                true => w.div(Real::sqrt(s.add(epsilon))),
                false => s.mul(w),
            });
            map3(parallel, shifts, bias, mean, scales.view(), |b: C, m: C, s: C| b.sub(m.mul(s)));
            let (scales, shifts) = (broadcast_to(scales.view(), &shape.dims), broadcast_to(shifts.view(), &shape.dims));
            map3(parallel, out, x, scales, shifts, |x: C, s: C, h: C| x.mul(s).add(h));
        });
        y.write_back(memory);
        Ok(())
    })
}

/// `dx = (dy - sum_dy / n - (x - mean) * k) * rstd * weight` by channel, where `k = rstd^2 * sum(dy * (x - mean)) / n`.
/// Arguments: dy, x, mean, rstd or variance, weight, sums of dy, sums of `dy * (x - mean)`, counts, dx, epsilon, whether
/// the variance is passed, not rstd (then the second sums were multiplied by rstd already, and n is the number of
/// elements), whether sums were divided by n already.
fn elementwise_backward(call: &mut Call<'_>) -> Result<Plan> {
    let (dy, x, dx) = (call.tensor(0)?, call.tensor(1)?, call.output(8)?);
    let shape = norm_shape(call, 1, &x)?;
    call.expect_dims(0, &dy, x.dims())?;
    call.expect_dims(8, &dx, x.dims())?;
    call.expect_dtype(0, &dy, REALS)?;
    call.expect_dtype(8, &dx, REALS)?;
    let sizes = shape.channels();
    let (mean, rstd_or_variance) = (channels(call, 2, &shape)?, channels(call, 3, &shape)?);
    let weight = optional(call, 4, &sizes)?;
    let (sums, products) = (channels(call, 5, &shape)?, channels(call, 6, &shape)?);
    let counts = call.optional(7)?;
    let counts = match counts {
        Some(counts) => {
            call.expect_dtype(7, &counts, &[DType::Int32, DType::Int64, DType::Float])?;
            Some(reshaped(call, 7, counts, &[counts.count()])?)
        }
        None => None,
    };
    let (epsilon, is_variance) = (call.scalar_or(9, 0.0)?.as_f64(), call.flag_or(10, false)?);
    let default_count = if call.flag_or(11, false)? { 1.0 } else { shape.count() as f64 };
    let dtype = compute_dtype(&x);
    let (dy, x) =
        (call.reshaped_input(dy, &shape.dims, &[&dx]), call.reshaped_input(x, &shape.dims, &[&dx]));
    let dx = call.reshaped_output(dx, &shape.dims);
    let buffer = call.scratch(dtype, &shape.dims);
    let [scales, x_factors, mean_dys] = [0; 3].map(|_| call.scratch(dtype, &sizes));
    let counts_f64 = counts.map(|counts| call.scratch(DType::Double, counts.dims()));
    call.plan_real(move |memory| {
        let parallel = memory.parallel;
        let (dy, x, out) = (dy.view(memory), x.view(memory), dx.out(memory));
        let [buffer, scales, x_factors, mean_dys] = [buffer, scales, x_factors, mean_dys].map(|one| memory.scratch(&one));
        let count = match (&counts, &counts_f64) {
            (Some(counts), Some(counts_f64)) => {
                let counts_f64 = memory.scratch(counts_f64);
                copy(parallel, counts_f64, memory.view(counts));
                let cells = OffsetAccess::<f64>::new(counts_f64.view());
                (0..counts_f64.count() as isize).map(|at| cells.get(at)).sum()
            }
            _ => default_count,
        };
        let one = Constant::new(Scalar::from(1.0));
        let weight = weight.map_or(one.view(&sizes), |weight| memory.view(&weight));
        with_real!(dtype, C => {
            let (epsilon, inverse_count) = (C::of(epsilon), C::of(1.0 / count));
            map1(parallel, scales, memory.view(&rstd_or_variance), move |s: C| match is_variance {
                true => C::ONE.div(Real::sqrt(s.add(epsilon))),
                false => s,
            });
            map2(parallel, x_factors, scales.view(), memory.view(&products), move |s: C, p: C| {
                let factor = s.mul(p).mul(inverse_count);
                if is_variance { factor } else { s.mul(factor) }
            });
            map1(parallel, mean_dys, memory.view(&sums), move |s: C| s.mul(inverse_count));
            map2(parallel, scales, scales.view(), weight, |s: C, w: C| s.mul(w));
            let mean = broadcast_to(memory.view(&mean), &shape.dims);
            let (x_factors, mean_dys) = (broadcast_to(x_factors.view(), &shape.dims), broadcast_to(mean_dys.view(), &shape.dims));
            map3(parallel, buffer, x, mean, x_factors, |x: C, m: C, k: C| x.sub(m).mul(k));
            map3(parallel, buffer, dy, buffer.view(), mean_dys, |g: C, t: C, s: C| g.sub(s).sub(t));
            map2(parallel, out, buffer.view(), broadcast_to(scales.view(), &shape.dims), |t: C, s: C| t.mul(s));
        });
        dx.write_back(memory);
        Ok(())
    })
}

/// Sums of dy and of `dy * (x - mean)`. Arguments: dy, x, mean, rstd or variance, sums, products, gradient of the weight,
/// gradient of the bias, epsilon, whether the variance is passed, not rstd, which of them are
/// requested: sums, gradient of the weight, gradient of the bias.
fn reduce_backward(call: &mut Call<'_>) -> Result<Plan> {
    let (dy, x) = (call.tensor(0)?, call.tensor(1)?);
    let shape = norm_shape(call, 1, &x)?;
    call.expect_dims(0, &dy, x.dims())?;
    call.expect_dtype(0, &dy, REALS)?;
    let sizes = shape.channels();
    let (mean, rstd_or_variance) = (channels(call, 2, &shape)?, channels(call, 3, &shape)?);
    let mut outs = [None; 4];
    for (i, out) in outs.iter_mut().enumerate() {
        let requested = call.flag_or([10, 10, 11, 12][i], true)?;
        if requested {
            *out = optional_output(call, 4 + i, &sizes)?;
        }
    }
    let (epsilon, is_variance) = (call.scalar_or(8, 0.0)?.as_f64(), call.flag_or(9, false)?);
    let dtype = compute_dtype(&x);
    let (dy, x) =
        (call.reshaped_input(dy, &shape.dims, &[]), call.reshaped_input(x, &shape.dims, &[]));
    let buffer = call.scratch(dtype, &shape.dims);
    let [sums, products, scales] = [0; 3].map(|_| call.scratch(dtype, &sizes));
    let plans = with_real!(dtype, C => [
        call.plan_reduction(&dy.layout(), &shape.axes(), &fold::sum::<C>()),
        call.plan_reduction(&buffer, &shape.axes(), &fold::sum::<C>()),
    ]);
    call.plan_real(move |memory| {
        let parallel = memory.parallel;
        let (dy, x) = (dy.view(memory), x.view(memory));
        let [buffer, sums, products, scales] = [buffer, sums, products, scales].map(|one| memory.scratch(&one));
        with_real!(dtype, C => {
            let (axes, fold, epsilon) = (shape.axes(), fold::sum::<C>(), C::of(epsilon));
            map3(parallel, buffer, x, broadcast_to(memory.view(&mean), &shape.dims), dy, |x: C, m: C, g: C| x.sub(m).mul(g));
            plans[0].run(memory, dy, fold, (squeeze_reduced(sums, &axes), None), single_result);
            plans[1].run(memory, buffer.view(), fold, (squeeze_reduced(products, &axes), None), single_result);
            map2(parallel, scales, memory.view(&rstd_or_variance), products.view(), move |s: C, p: C| match is_variance {
                true => p.div(Real::sqrt(s.add(epsilon))),
                false => p.mul(s),
            });
            for (out, from) in outs.iter().zip([sums, products, scales, sums]) {
                if let Some(out) = out {
                    copy(parallel, memory.out(out), from.view());
                }
            }
        });
        Ok(())
    })
}

/// Combines the statistics of several devices. Arguments: means and rstds, or sums and sums of squares (a row for each
/// device), counts, running mean, running variance, momentum, epsilon, mean, rstd, whether they are sums, initial running
/// mean and variance.
fn gather_stats(call: &mut Call<'_>) -> Result<Plan> {
    let (first, second, counts) = (call.tensor(0)?, call.tensor(1)?, call.tensor(2)?);
    call.expect_dtype(0, &first, REALS)?;
    call.expect_dtype(1, &second, REALS)?;
    call.expect_dtype(
        2,
        &counts,
        &[DType::Int32, DType::Int64, DType::Float, DType::Float16, DType::Bf16],
    )?;
    let [devices, width] = *first.dims() else {
        let (name, dims) = (call.parameter(0), first.dims());
        return Err(Error::invalid(format!("{name} {dims:?}: expected a row for each device")));
    };
    call.expect_dims(1, &second, first.dims())?;
    let counts = reshaped(call, 2, counts, &[devices])?;
    let mut running = [None; 2];
    let mut initial_running = [None; 2];
    for i in 0..2 {
        if call.has(10 + i) {
            initial_running[i] = optional(call, 10 + i, &[width])?;
            running[i] = optional_output(call, 3 + i, &[width])?;
        } else if call.has(3 + i) {
            let one = call.inout(3 + i)?;
            running[i] = Some(reshaped(call, 3 + i, one, &[width])?);
        }
    }
    let (momentum, epsilon) = (call.float(5)?, call.float(6)?);
    let mut outs = [call.output(7)?, call.output(8)?];
    for (i, out) in outs.iter_mut().enumerate() {
        *out = reshaped(call, 7 + i, *out, &[width])?;
    }
    let sums = call.flag_or(9, false)?;
    let [a, b] = [0; 2].map(|_| call.scratch(DType::Double, &[devices, width]));
    let n = call.scratch(DType::Double, &[devices]);
    let running_f64 = [0; 2].map(|_| call.scratch(DType::Double, &[width]));
    let results_f64 = [0; 2].map(|_| call.scratch(DType::Double, &[width]));
    call.plan_real(move |memory| {
        let parallel = memory.parallel;
        let [a, b, n] = [a, b, n].map(|one| memory.scratch(&one));
        let (running_f64, results_f64) = (
            running_f64.map(|one| memory.scratch(&one)),
            results_f64.map(|one| memory.scratch(&one)),
        );
        for (to, from) in [(a, &first), (b, &second), (n, &counts)] {
            copy(parallel, to, memory.view(from));
        }
        for i in 0..2 {
            let from = initial_running[i].or(running[i]);
            if let Some(from) = from {
                copy(parallel, running_f64[i], memory.view(&from));
            }
        }
        let [a, b, n] = [a, b, n].map(|one| OffsetAccess::<f64>::new(one.view()));
        let (running_values, results) = (
            running_f64.map(OffsetAccessMut::<f64>::new),
            results_f64.map(OffsetAccessMut::<f64>::new),
        );
        let total: f64 = (0..devices as isize).map(|device| n.get(device)).sum();
        for channel in 0..width as isize {
            let mut all = Moments::default();
            let (mut sum, mut squares) = (0.0, 0.0);
            for device in 0..devices as isize {
                let (x, y) = (
                    a.get(device * width as isize + channel),
                    b.get(device * width as isize + channel),
                );
                let count = n.get(device);
                match sums {
                    true => (sum, squares) = (sum + x, squares + y),
                    false => {
                        let variance = 1.0 / (y * y) - epsilon;
                        all = all.with(Moments { count, mean: x, squares: variance * count });
                    }
                }
            }
            let (mean, variance) = match sums {
                true => (sum / total, squares / total - (sum / total) * (sum / total)),
                false => (all.mean, all.squares / total),
            };
            // Rounding may leave the variance of a constant channel below 0. NaN stays.
            let variance = if variance < 0.0 { 0.0 } else { variance };
            results[0].set(channel, mean);
            results[1].set(channel, 1.0 / (variance + epsilon).sqrt());
            let unbiased = if total > 1.0 { variance * total / (total - 1.0) } else { variance };
            for (old, value) in running_values.iter().zip([mean, unbiased]) {
                old.set(channel, old.get(channel) * (1.0 - momentum) + value * momentum);
            }
        }
        for i in 0..2 {
            copy(parallel, memory.out(&outs[i]), results_f64[i].view());
            if let Some(running) = &running[i] {
                copy(parallel, memory.out(running), running_f64[i].view());
            }
        }
        Ok(())
    })
}

/// The rows of this family.
pub const ROWS: &[Row] = &[
    aclnn("BatchNormStats", stats).with_args(&[A(0), A(1), A(2), A(3)]),
    aclnn("BatchNormReduce", stats).with_args(&[A(0), No, A(1), A(2), B(true)]),
    aclnn("BatchNormElemt", normalise_elements).with_args(&[
        A(0),
        A(1),
        A(2),
        A(3),
        A(4),
        A(5),
        A(6),
        B(false),
    ]),
    aclnn("BatchNormElemtBackward", elementwise_backward).with_args(&[
        A(0),
        A(1),
        A(2),
        A(3),
        A(4),
        A(5),
        A(6),
        A(7),
        A(8),
    ]),
    aclnn("BatchNormReduceBackward", reduce_backward).with_args(&[
        A(0),
        A(1),
        A(2),
        A(3),
        A(8),
        A(9),
        A(10),
        A(11),
        No,
        B(false),
        A(5),
        A(6),
        A(7),
    ]),
    aclnn("SyncBatchNormGatherStats", gather_stats).with_args(&[
        A(0),
        A(1),
        A(2),
        A(3),
        A(4),
        A(5),
        A(6),
        A(7),
        A(8),
        B(true),
    ]),
    aclnn("BatchNormGatherStatsWithCounts", gather_stats).with_args(&[
        A(1),
        A(2),
        A(7),
        A(3),
        A(4),
        A(5),
        A(6),
        A(8),
        A(9),
        B(false),
    ]),
];

const EPSILON: ArgSource = Attr("epsilon", AttrDefault::Float(0.0001));

/// Two outputs of `f32`, each with a number for each channel of argument 0.
fn infer_two_per_channel(call: &Call<'_>) -> Result<Vec<Layout>> {
    let x = call.layout(0)?;
    let one = Layout::contiguous(DType::Float, &[norm_shape(call, 0, &x)?.dims[1]]);
    Ok(vec![one, one])
}

/// Two outputs like arguments 10 and 11, twice.
fn infer_gathered_stats(call: &Call<'_>) -> Result<Vec<Layout>> {
    let (mean, variance) = (call.layout(10)?.packed(), call.layout(11)?.packed());
    Ok(vec![mean, variance, mean, variance])
}

/// The gradient of the weight from sums. Arguments: sums of dy, sums of `dy * x`, means, rstds, sums of
/// `dy * (x - mean)`, gradients of the weight.
fn weight_gradient(call: &mut Call<'_>) -> Result<Plan> {
    let outs = [call.output(4)?, call.output(5)?];
    let [sum_dy_xmu, gradient] = &outs;
    let mut inputs = Vec::with_capacity(4);
    for at in 0..4 {
        inputs.push(call.read(at, &[sum_dy_xmu, gradient])?);
        call.expect_dtype(at, &inputs[at], &[DType::Float, DType::Float16, DType::Bf16])?;
    }
    let [sums, products, mean, rstd] = inputs[..] else { unreachable!("four of them") };
    let expected = [(1, *products), (2, *mean), (3, *rstd), (4, **sum_dy_xmu), (5, **gradient)];
    for (at, one) in expected {
        call.expect_dims(at, &one, sums.dims())?;
        call.expect_same(at, &one, 0, &sums)?;
    }
    let (sum_dy_xmu, gradient) = (*sum_dy_xmu, *gradient);
    let sum_f32 = call.scratch(DType::Float, sums.dims());
    call.plan(move |memory| {
        let (parallel, sum_f32) = (memory.parallel, memory.scratch(&sum_f32));
        let (sums, products, mean) = (sums.view(memory), products.view(memory), mean.view(memory));
        map3(parallel, sum_f32, sums, products, mean, |sum: f32, product: f32, mean: f32| {
            product - sum * mean
        });
        let (rstd, sum_f32) = (rstd.view(memory), sum_f32.view());
        map2(parallel, memory.out(&gradient), sum_f32, rstd, |x: f32, rstd: f32| x * rstd);
        copy(parallel, memory.out(&sum_dy_xmu), sum_f32);
        Ok(())
    })
}

/// Two outputs like argument 0.
fn infer_two_like_first(call: &Call<'_>) -> Result<Vec<Layout>> {
    let one = call.layout(0)?.packed();
    Ok(vec![one, one])
}

/// The operators of this family by IR name.
pub const NODES: &[Node] = &[
    node(
        "SyncBatchNormBackwardReduce",
        &["sum_dy", "sum_dy_dx_pad", "mean", "invert_std"],
        &["sum_dy_xmu", "y"],
        Infer::By(infer_two_like_first),
        weight_gradient,
        &[A(0), A(1), A(2), A(3), O(0), O(1)],
    ),
    node(
        "BNInfer",
        &["x", "scale", "offset", "mean", "variance"],
        &["y"],
        Infer::Like(0),
        normalise_elements,
        &[A(0), A(1), A(2), A(3), A(4), Attr("epsilon", AttrDefault::Required), O(0), B(true)],
    ),
    node(
        "BNInferGrad",
        &["grads", "scale", "batch_variance"],
        &["x_backprop"],
        Infer::Like(0),
        normalise_elements,
        &[A(0), A(1), No, No, A(2), EPSILON, O(0), B(true)],
    ),
    node(
        "BNTrainingReduce",
        &["x"],
        &["sum", "square_sum"],
        Infer::By(infer_two_per_channel),
        stats,
        &[A(0), No, O(0), O(1), B(true)],
    ),
    node(
        "BNTrainingUpdateGrad",
        &["grads", "x", "batch_mean", "batch_variance"],
        &["diff_scale", "diff_offset"],
        Infer::By(infer_two_per_channel),
        reduce_backward,
        &[A(0), A(1), A(2), A(3), No, No, O(0), O(1), EPSILON, B(true)],
    ),
    node(
        "BN3DTrainingUpdateGrad",
        &["grads", "x", "batch_mean", "batch_variance"],
        &["diff_scale", "diff_offset"],
        Infer::By(infer_two_per_channel),
        reduce_backward,
        &[A(0), A(1), A(2), A(3), No, No, O(0), O(1), EPSILON, B(true)],
    ),
    node(
        "BNTrainingReduceGrad",
        &["grads", "x", "diff_scale", "diff_offset", "scale", "batch_mean", "batch_variance"],
        &["y"],
        Infer::Like(0),
        elementwise_backward,
        &[A(0), A(1), A(5), A(6), A(4), A(3), A(2), No, O(0), EPSILON, B(true)],
    ),
    node(
        "SyncBatchNormBackwardElemt",
        &["grad_output", "save_input", "mean", "invstd", "weight", "mean_dy", "mean_dy_xmu"],
        &["grad_input"],
        Infer::Like(0),
        elementwise_backward,
        &[A(0), A(1), A(2), A(3), A(4), A(5), A(6), No, O(0), No, B(false), B(true)],
    ),
    node(
        "SyncBatchNormGatherStats",
        &["total_sum", "total_square_sum", "sample_count", "mean", "variance"],
        &["batch_mean", "batch_invstd", "mean", "variance"],
        Infer::By(infer_gathered_stats),
        gather_stats,
        &[
            A(0),
            A(1),
            A(2),
            O(2),
            O(3),
            Attr("momentum", AttrDefault::Float(0.1)),
            Attr("eps", AttrDefault::Float(0.00001)),
            O(0),
            O(1),
            B(true),
            A(3),
            A(4),
        ],
    ),
];
