//! Normalisation by channels: batch norm and group norm, with their gradients.
//!
//! Both scale each channel of each sample: `y = x * scale + shift`, where `scale = rstd * weight` and `rstd` is one over the
//! standard deviation. Workspace: the statistics, scales and shifts in the type computed in, and for gradients one number
//! for each element.

use super::norm_shape::{
    broadcast_to, norm_shape, optional, optional_output, reshaped, squeeze_reduced,
};
use super::reduction_plan::{Axes, ReductionPlan, single_result};
use crate::call::Call;
use crate::error::{Error, Result};
use crate::infer::Infer;
use crate::plan::{Operand, Plan, Scratch};
use crate::table::ArgSource::{A, Attr, B, I, No, O};
use crate::table::{ArgSource, AttrDefault, Node, Row, aclnn, node};
use cairn_tensor::kernels::constant::Constant;
use cairn_tensor::kernels::copy::copy;
use cairn_tensor::kernels::fold::{self, Moments};
use cairn_tensor::kernels::map::{map1, map2, map3};
use cairn_tensor::kernels::math::Real;
use cairn_tensor::kernels::number::Number;
use cairn_tensor::{DType, Layout, Scalar, with_real};

/// Forward. Arguments: x, weight, bias, running mean, running variance, training, momentum, epsilon, samples
/// (-1: batch norm), channels, positions, groups, y, saved mean, saved rstd, initial running mean and variance, whether y is
/// activated (`y * sigmoid(factor * y)`), the factor, whether the variance is saved in place of rstd, the order of dimensions.
fn forward(call: &mut Call<'_>) -> Result<Plan> {
    let (x, y) = (call.tensor(0)?, call.output(12)?);
    call.expect_dims(12, &y, x.dims())?;
    let (x, y) = (channels_second(call, x)?, channels_second(call, y)?);
    let shape = norm_shape(call, 8, (0, &x))?;
    let affine = [optional(call, 1, &shape.channels())?, optional(call, 2, &shape.channels())?];
    let training = call.flag_or(5, true)?;
    let mut running = [None; 2];
    for (slot, at) in running.iter_mut().zip([3, 4]) {
        if call.has(at) {
            let written = training || call.has(at + 12);
            let one = if written { call.inout(at)? } else { call.tensor(at)? };
            *slot = Some(reshaped(call, at, one, &shape.statistics())?);
        }
    }
    let mut initial_running = [None; 2];
    for (slot, at) in initial_running.iter_mut().zip([15, 16]) {
        *slot = optional(call, at, &shape.statistics())?;
    }
    if !training && running.iter().any(Option::is_none) {
        let (mean, variance) = (call.parameter(3), call.parameter(4));
        return Err(Error::Null(format!(
            "{mean} and {variance} are required when training is false"
        )));
    }
    let (momentum, epsilon) = (call.scalar_or(6, 0.0)?.as_f64(), call.float(7)?);
    let (activated, factor) = (call.flag_or(17, false)?, call.scalar_or(18, 1.0)?.as_f64());
    let saves_variance = call.flag_or(19, false)?;
    // With a momentum of 1 nothing of the running statistics is left, and they may hold anything.
    let replaces_running = momentum == 1.0 && initial_running.iter().all(Option::is_none);
    let statistics = shape.statistics();
    let saved = [optional_output(call, 13, &statistics)?, optional_output(call, 14, &statistics)?];
    let x = call.reshaped_input(x, &shape.dims, &[&y]);
    let y = call.reshaped_output(y, &shape.dims);
    let dtype = if x.layout().dtype == DType::Double { DType::Double } else { DType::Float };
    let [mean, rstd] = [0; 2].map(|_| call.scratch(dtype, &statistics));
    let variance = call.scratch(dtype, &statistics);
    let [scale, shift] = [0; 2].map(|_| call.scratch(dtype, &shape.scales()));
    let reduction_plan = with_real!(dtype, C => call.plan_reduction(&x.layout(), &shape.axes(), &fold::moments::<C>()));
    let count = shape.count() as f64;
    call.plan_real(move |memory| {
        let (view, out) = (x.view(memory), y.out(memory));
        let [mean, rstd, variance, scale, shift] =
            [mean, rstd, variance, scale, shift].map(|one| memory.scratch(&one));
        let parallel = memory.parallel;
        for (from, to) in initial_running.iter().zip(&running) {
            if let (Some(from), Some(to)) = (from, to) {
                copy(parallel, memory.out(to), memory.view(from));
            }
        }
        with_real!(dtype, C => {
            if training {
                let axes = shape.axes();
                let outs = (squeeze_reduced(mean, &axes), Some(squeeze_reduced(variance, &axes)));
                reduction_plan.run(memory, view, fold::moments::<C>(), outs, |all: Moments| {
                    (all.mean, all.squares / all.count)
                });
                if let [Some(old_mean), Some(old_variance)] = running {
                    let (keep, take) = (C::of(1.0 - momentum), C::of(momentum));
                    let unbiased = C::of(momentum * count / (count - 1.0));
                    let (old_mean, old_variance) = (memory.out(&old_mean), memory.out(&old_variance));
                    if replaces_running {
                        copy(parallel, old_mean, mean.view());
                        copy(parallel, old_variance, variance.view());
                    }
                    map2(parallel, old_mean, old_mean.view(), mean.view(), move |old: C, new: C| {
                        old.mul(keep).add(new.mul(take))
                    });
                    map2(parallel, old_variance, old_variance.view(), variance.view(), move |old: C, new: C| {
                        old.mul(keep).add(new.mul(unbiased))
                    });
                }
            } else if let [Some(old_mean), Some(old_variance)] = running {
                copy(parallel, mean, memory.view(&old_mean));
                copy(parallel, variance, memory.view(&old_variance));
            }
            let epsilon = C::of(epsilon);
            map1(parallel, rstd, variance.view(), move |v: C| C::ONE.div(Real::sqrt(v.add(epsilon))));
            let rstd_or_variance = if saves_variance { variance } else { rstd };
            for (from, to) in [mean, rstd_or_variance].iter().zip(&saved) {
                if let Some(to) = to {
                    copy(parallel, memory.out(to), from.view());
                }
            }
            let [one, zero] = [1.0, 0.0].map(|value| Constant::new(Scalar::from(value)));
            let dims = shape.scales();
            let [weight, bias] = affine.map(|one| one.map(|one| broadcast_to(memory.view(&one), &dims)));
            let (weight, bias) = (weight.unwrap_or(one.view(&dims)), bias.unwrap_or(zero.view(&dims)));
            map2(parallel, scale, broadcast_to(rstd.view(), &dims), weight, |s: C, w: C| s.mul(w));
            map3(parallel, shift, bias, broadcast_to(mean.view(), &dims), scale.view(), |b: C, m: C, s: C| {
                b.sub(m.mul(s))
            });
            let (scale, shift) = (broadcast_to(scale.view(), &shape.dims), broadcast_to(shift.view(), &shape.dims));
            let factor = C::of(factor);
            match activated {
                false => map3(parallel, out, view, scale, shift, |x: C, s: C, h: C| x.mul(s).add(h)),
                true => map3(parallel, out, view, scale, shift, move |x: C, s: C, h: C| {
                    let y = x.mul(s).add(h);
                    y.div(C::ONE.add(Real::exp(y.mul(factor).neg())))
                }),
            }
        });
        y.write_back(memory);
        Ok(())
    })
}

/// A tensor with its channels as the second dimension: where the order of dimensions (argument 20) has them last, as a view.
fn channels_second(call: &Call<'_>, operand: Operand) -> Result<Operand> {
    let (text, rank) = (call.text(20)?, operand.rank());
    match text {
        "" | "NCHW" | "NCDHW" => Ok(operand),
        "NHWC" | "NDHWC" if rank >= 2 => {
            let order: Vec<usize> = [0, rank - 1].into_iter().chain(1..rank - 1).collect();
            let layout = operand.permuted(&order);
            Ok(operand.with_layout(layout))
        }
        "NHWC" | "NDHWC" => Ok(operand),
        _ => {
            let name = call.parameter(20);
            Err(Error::invalid(format!(
                "{name} = {text:?}: expected \"NCHW\", \"NHWC\", \"NCDHW\" or \"NDHWC\""
            )))
        }
    }
}

/// Backward. Arguments: dy, x, weight, running mean, running variance, saved mean, saved rstd, training,
/// epsilon, which gradients are requested, samples (-1: batch norm), channels, positions, groups, dx, dweight, dbias, the bias
/// and the factor of an activation (`y * sigmoid(factor * y)`), if there was one, whether dweight and dbias are requested.
fn backward(call: &mut Call<'_>) -> Result<Plan> {
    let (dy, x) = (call.tensor(0)?, call.tensor(1)?);
    call.expect_dims(0, &dy, x.dims())?;
    let shape = norm_shape(call, 10, (1, &x))?;
    let statistics = shape.statistics();
    let training = call.flag_or(7, true)?;
    let (mean_at, rstd_or_variance_at) = if training { (5, 6) } else { (3, 4) };
    let mean = call.tensor(mean_at)?;
    let mean = reshaped(call, mean_at, mean, &statistics)?;
    let rstd_or_variance = call.tensor(rstd_or_variance_at)?;
    let rstd_or_variance = reshaped(call, rstd_or_variance_at, rstd_or_variance, &statistics)?;
    let epsilon = call.scalar_or(8, 0.0)?.as_f64();
    let weight = optional(call, 2, &shape.channels())?;
    let requested = if call.has(9) { call.flags(9)? } else { vec![true; 3] };
    let is_requested = |at: usize| requested.get(at).copied().unwrap_or(true);
    let dx = if is_requested(0) { call.optional_output(14)? } else { None };
    if let Some(dx) = &dx {
        call.expect_dims(14, dx, x.dims())?;
    }
    let mut grads = [None; 2];
    for (slot, at) in grads.iter_mut().zip([15, 16]) {
        if is_requested(at - 14) && call.flag_or(at + 4, true)? {
            *slot = optional_output(call, at, &shape.channels())?;
        }
    }
    let bias = optional(call, 17, &shape.channels())?;
    let factor = if call.has(18) { Some(call.float(18)?) } else { None };
    let written = dx.unwrap_or(x);
    let (dy, x) = (
        call.reshaped_input(dy, &shape.dims, &[&written]),
        call.reshaped_input(x, &shape.dims, &[&written]),
    );
    let dx = dx.map(|dx| call.reshaped_output(dx, &shape.dims));
    let dtype = if x.layout().dtype == DType::Double { DType::Double } else { DType::Float };
    let buffer = call.scratch(dtype, &shape.dims);
    let activation = factor.map(|factor| (factor, call.scratch(dtype, &shape.dims)));
    let layout = activation.map_or(dy.layout(), |(_, scratch)| *scratch);
    let [means, rstd] = [0; 2].map(|_| call.scratch(dtype, &statistics));
    let by_channel = [shape.dims[0], shape.dims[1], shape.dims[2], 1];
    let [channel_sums, channel_products] = [0; 2].map(|_| call.scratch(dtype, &by_channel));
    let channel_buffer = call.scratch(dtype, &by_channel);
    let [group_sums, group_products] = [0; 2].map(|_| call.scratch(dtype, &statistics));
    let positions = Axes::new(&[false, false, false, true]);
    let samples = Axes::new(&[true, false, false, true]);
    let plans: [ReductionPlan; 4] = with_real!(dtype, C => {
        let sum = fold::sum::<C>();
        [
            call.plan_reduction(&layout, &positions, &sum),
            call.plan_reduction(&buffer, &positions, &sum),
            call.plan_reduction(&channel_sums, &samples, &sum),
            call.plan_reduction(&channel_sums, &shape.axes(), &sum),
        ]
    });
    let count = shape.count() as f64;
    call.plan_real(move |memory| {
        let (dy, x) = (dy.view(memory), x.view(memory));
        let scratch = |one: Scratch| memory.scratch(&one);
        let (buffer, means, rstd) = (scratch(buffer), scratch(means), scratch(rstd));
        let (channel_sums, channel_products, channel_buffer) = (scratch(channel_sums), scratch(channel_products), scratch(channel_buffer));
        let (group_sums, group_products) = (scratch(group_sums), scratch(group_products));
        let parallel = memory.parallel;
        with_real!(dtype, C => {
            let fold = fold::sum::<C>();
            copy(parallel, means, memory.view(&mean));
            match training {
                true => copy(parallel, rstd, memory.view(&rstd_or_variance)),
                false => {
                    let epsilon = C::of(epsilon);
                    map1(parallel, rstd, memory.view(&rstd_or_variance), move |v: C| {
                        C::ONE.div(Real::sqrt(v.add(epsilon)))
                    });
                }
            }
            let (mean, rstd) = (broadcast_to(means.view(), &shape.dims), broadcast_to(rstd.view(), &shape.dims));
            map3(parallel, buffer, x, mean, rstd, |x: C, m: C, s: C| x.sub(m).mul(s));
            let mut dy = dy;
            if let Some((factor, scratch)) = &activation {
                let (pre_activation, factor) = (memory.scratch(scratch), C::of(*factor));
                let [one, zero] = [1.0, 0.0].map(|value| Constant::new(Scalar::from(value)));
                let channels = shape.channels();
                let weight = weight.map_or(one.view(&channels), |weight| memory.view(&weight));
                let bias = bias.map_or(zero.view(&channels), |bias| memory.view(&bias));
                let (weight, bias) = (broadcast_to(weight, &shape.dims), broadcast_to(bias, &shape.dims));
                map3(parallel, pre_activation, buffer.view(), weight, bias, |x: C, w: C, b: C| x.mul(w).add(b));
                map2(parallel, pre_activation, pre_activation.view(), dy, move |y: C, g: C| {
                    let scaled = y.mul(factor);
                    let sigmoid = C::ONE.div(C::ONE.add(Real::exp(scaled.neg())));
                    g.mul(sigmoid).mul(C::ONE.add(scaled.mul(C::ONE.sub(sigmoid))))
                });
                dy = pre_activation.view();
            }
            map2(parallel, buffer, buffer.view(), dy, |x: C, g: C| x.mul(g));
            plans[0].run(memory, dy, fold, (squeeze_reduced(channel_sums, &positions), None), single_result);
            plans[1].run(memory, buffer.view(), fold, (squeeze_reduced(channel_products, &positions), None), single_result);
            for (from, to) in [channel_products, channel_sums].iter().zip(&grads) {
                if let Some(to) = to {
                    let to = squeeze_reduced(memory.out(to), &samples);
                    plans[2].run(memory, from.view(), fold, (to, None), single_result);
                }
            }
            let Some(dx) = &dx else {
                return Ok(());
            };
            let one = Constant::new(Scalar::from(1.0));
            let weight = weight.map_or(one.view(&by_channel), |w| broadcast_to(memory.view(&w), &by_channel));
            let out = dx.out(memory);

            if training {
                for (from, to) in [(channel_sums, group_sums), (channel_products, group_products)] {
                    map2(parallel, channel_buffer, from.view(), weight, |s: C, w: C| s.mul(w));
                    let to = squeeze_reduced(to, &shape.axes());
                    plans[3].run(memory, channel_buffer.view(), fold, (to, None), single_result);
                }
                map3(parallel, buffer, x, mean, rstd, |x: C, m: C, s: C| x.sub(m).mul(s));
                let inverse_count = C::of(1.0 / count.max(1.0));
                let (group_sums, group_products) = (broadcast_to(group_sums.view(), &shape.dims), broadcast_to(group_products.view(), &shape.dims));
                map3(parallel, buffer, buffer.view(), group_products, group_sums, move |x: C, p: C, t: C| {
                    x.mul(p).add(t).mul(inverse_count)
                });
            } else {
                cairn_tensor::kernels::map::fill(parallel, buffer, C::ZERO);
            }
            copy(parallel, channel_buffer, weight);
            let weights = broadcast_to(channel_buffer.view(), &shape.dims);
            map3(parallel, buffer, buffer.view(), dy, weights, |mean: C, g: C, w: C| g.mul(w).sub(mean));
            map2(parallel, out, buffer.view(), rstd, |g: C, s: C| g.mul(s));
            dx.write_back(memory);
        });
        Ok(())
    })
}

/// The rows of this family.
pub const ROWS: &[Row] = &[
    aclnn("BatchNorm", forward).with_args(&[
        A(0),
        A(1),
        A(2),
        A(3),
        A(4),
        A(5),
        A(6),
        A(7),
        I(-1),
        No,
        No,
        No,
        A(8),
        A(9),
        A(10),
    ]),
    aclnn("GroupNormSilu", forward).with_args(&[
        A(0),
        A(1),
        A(2),
        No,
        No,
        No,
        No,
        A(4),
        No,
        No,
        No,
        A(3),
        A(5),
        A(6),
        A(7),
        No,
        No,
        B(true),
    ]),
    aclnn("GroupNormSiluV2", forward).with_args(&[
        A(0),
        A(1),
        A(2),
        No,
        No,
        No,
        No,
        A(4),
        No,
        No,
        No,
        A(3),
        A(6),
        A(7),
        A(8),
        No,
        No,
        A(5),
    ]),
    aclnn("GroupNorm", forward).with_args(&[
        A(0),
        A(1),
        A(2),
        No,
        No,
        No,
        No,
        A(7),
        A(3),
        A(4),
        A(5),
        A(6),
        A(8),
        A(9),
        A(10),
    ]),
    aclnn("BatchNormBackward", backward).with_args(&[
        A(0),
        A(1),
        A(2),
        A(3),
        A(4),
        A(5),
        A(6),
        A(7),
        A(8),
        A(9),
        I(-1),
        No,
        No,
        No,
        A(10),
        A(11),
        A(12),
    ]),
    aclnn("FastBatchNormBackward", backward).with_args(&[
        A(0),
        A(1),
        A(2),
        A(3),
        A(4),
        A(5),
        A(6),
        A(7),
        A(8),
        A(9),
        I(-1),
        No,
        No,
        No,
        A(11),
        A(12),
        A(13),
    ]),
    aclnn("GroupNormSwish", forward).with_args(&[
        A(0),
        A(1),
        A(2),
        No,
        No,
        No,
        No,
        A(5),
        No,
        No,
        No,
        A(3),
        A(8),
        A(9),
        A(10),
        No,
        No,
        A(6),
        A(7),
    ]),
    aclnn("GroupNormSwishGrad", backward).with_args(&[
        A(0),
        A(3),
        A(4),
        No,
        No,
        A(1),
        A(2),
        No,
        No,
        No,
        No,
        No,
        No,
        A(6),
        A(11),
        A(12),
        A(13),
        A(5),
        A(8),
        A(9),
        A(10),
    ]),
    aclnn("GroupNormBackward", backward).with_args(&[
        A(0),
        A(1),
        A(4),
        No,
        No,
        A(2),
        A(3),
        No,
        No,
        A(9),
        A(5),
        A(6),
        A(7),
        A(8),
        A(10),
        A(11),
        A(12),
    ]),
];

const EPSILON: ArgSource = Attr("epsilon", AttrDefault::Float(1e-5));
const TRAINING: ArgSource = Attr("is_training", AttrDefault::Flag(true));
const GROUPS: ArgSource = Attr("num_groups", AttrDefault::Required);

/// Arguments: x, weight.
fn infer_batch_norm(call: &Call<'_>) -> Result<Vec<Layout>> {
    let (x, weight) = (call.layout(0)?.packed(), call.layout(1)?.packed());
    let statistics = weight.with_dtype(DType::Float);
    Ok(vec![x, statistics, statistics, statistics, statistics])
}

/// Arguments: x, .., groups at index 11.
fn infer_group_norm(call: &Call<'_>) -> Result<Vec<Layout>> {
    let x = call.layout(0)?;
    let shape = norm_shape(call, 8, (0, &x))?;
    let statistics = Layout::contiguous(x.dtype, &shape.dims[..2]);
    Ok(vec![x.packed(), statistics, statistics])
}

/// Arguments: dy, x, weight.
fn infer_gradients(call: &Call<'_>) -> Result<Vec<Layout>> {
    let (x, weight) = (call.layout(1)?.packed(), call.layout(2)?.packed());
    Ok(vec![x, weight, weight])
}

/// The operators of this family by IR name.
pub const NODES: &[Node] = &[
    node(
        "BatchNormV3",
        &["x", "weight", "bias", "running_mean", "running_var"],
        &["y", "running_mean", "running_var", "save_mean", "save_rstd"],
        Infer::By(infer_batch_norm),
        forward,
        &[
            A(0),
            A(1),
            A(2),
            O(1),
            O(2),
            TRAINING,
            Attr("momentum", AttrDefault::Float(0.1)),
            EPSILON,
            I(-1),
            No,
            No,
            No,
            O(0),
            O(3),
            O(4),
            A(3),
            A(4),
            No,
            No,
            B(true),
        ],
    ),
    node(
        "BatchNorm",
        &["x", "scale", "offset", "mean?", "variance?"],
        &["y", "batch_mean", "batch_variance", "reserve_space_1", "reserve_space_2"],
        Infer::By(infer_batch_norm),
        forward,
        &[
            A(0),
            A(1),
            A(2),
            O(1),
            O(2),
            TRAINING,
            Attr("exponential_avg_factor", AttrDefault::Float(1.0)),
            Attr("epsilon", AttrDefault::Float(1e-4)),
            I(-1),
            No,
            No,
            No,
            O(0),
            O(3),
            O(4),
            A(3),
            A(4),
            No,
            No,
            B(true),
            Attr("data_format", AttrDefault::Text("NHWC")),
        ],
    ),
    node(
        "BatchNormGradV3",
        &["dy", "x", "weight", "running_mean", "running_var", "save_mean", "save_rstd"],
        &["dx", "dweight", "dbias"],
        Infer::By(infer_gradients),
        backward,
        &[
            A(0),
            A(1),
            A(2),
            A(3),
            A(4),
            A(5),
            A(6),
            TRAINING,
            EPSILON,
            No,
            I(-1),
            No,
            No,
            No,
            O(0),
            O(1),
            O(2),
        ],
    ),
    node(
        "GroupNormV2",
        &["x", "gamma", "beta"],
        &["y", "mean", "rstd"],
        Infer::By(infer_group_norm),
        forward,
        &[
            A(0),
            A(1),
            A(2),
            No,
            No,
            No,
            No,
            Attr("eps", AttrDefault::Float(1e-5)),
            No,
            No,
            No,
            GROUPS,
            O(0),
            O(1),
            O(2),
        ],
    ),
    node(
        "GroupNorm",
        &["x", "gamma", "beta"],
        &["y", "mean", "variance"],
        Infer::By(infer_group_norm),
        forward,
        &[
            A(0),
            A(1),
            A(2),
            No,
            No,
            No,
            No,
            Attr("eps", AttrDefault::Float(0.0001)),
            No,
            No,
            No,
            GROUPS,
            O(0),
            O(1),
            O(2),
            No,
            No,
            No,
            No,
            B(true),
        ],
    ),
    node(
        "GroupNormSwish",
        &["x", "gamma", "beta"],
        &["y", "mean", "rstd"],
        Infer::By(infer_group_norm),
        forward,
        &[
            A(0),
            A(1),
            A(2),
            No,
            No,
            No,
            No,
            Attr("eps", AttrDefault::Float(0.00001)),
            No,
            No,
            No,
            GROUPS,
            O(0),
            O(1),
            O(2),
            No,
            No,
            Attr("activate_swish", AttrDefault::Flag(true)),
            Attr("swish_scale", AttrDefault::Float(1.0)),
        ],
    ),
    node(
        "GroupNormSilu",
        &["x", "gamma?", "beta?"],
        &["y", "mean", "rstd"],
        Infer::By(infer_group_norm),
        forward,
        &[
            A(0),
            A(1),
            A(2),
            No,
            No,
            No,
            No,
            Attr("eps", AttrDefault::Float(0.00001)),
            No,
            No,
            No,
            GROUPS,
            O(0),
            O(1),
            O(2),
            No,
            No,
            Attr("activate_silu", AttrDefault::Flag(true)),
        ],
    ),
    node(
        "GroupNormGrad",
        &["dy", "mean", "rstd", "x", "gamma"],
        &["dx", "dgamma", "dbeta"],
        Infer::By(infer_gradients),
        backward,
        &[A(0), A(3), A(4), No, No, A(1), A(2), No, No, No, No, No, No, GROUPS, O(0), O(1), O(2)],
    ),
];
