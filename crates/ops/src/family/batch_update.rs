//! The last step of a batch norm in training: elements normalised by the sums of their channels, and the running mean and
//! variance.
//!
//! Workspace: four numbers for each channel, in the type computed in.

use super::norm_shape::{broadcast_to, optional, optional_output, reshaped};
use super::sync_batch::{REALS, channels, compute_dtype, norm_shape};
use crate::call::Call;
use crate::error::{Error, Result};
use crate::infer::Infer;
use crate::plan::Plan;
use crate::table::ArgSource::{A, Attr, B, No, O};
use crate::table::{ArgSource, AttrDefault, Node, node};
use cairn_tensor::kernels::copy::copy;
use cairn_tensor::kernels::map::{map1, map2, map3};
use cairn_tensor::kernels::math::Real;
use cairn_tensor::kernels::number::Number;
use cairn_tensor::{Layout, with_real};

/// Arguments: x, sums, sums of squares, scale, offset, running mean and variance before (both or none), momentum,
/// epsilon, y, running mean and variance after, mean and variance of the batch, the same once more, whether the first
/// variance of the batch is the one without bias.
fn update(call: &mut Call<'_>) -> Result<Plan> {
    let (x, y) = (call.tensor(0)?, call.output(9)?);
    let shape = norm_shape(call, 0, &x)?;
    call.expect_dims(9, &y, x.dims())?;
    call.expect_dtype(9, &y, REALS)?;
    if x.count() == 0 {
        let (name, dims) = (call.parameter(0), x.dims());
        return Err(Error::invalid(format!("{name} {dims:?} has no elements")));
    }
    let [sums, squares, scale, offset] = [
        channels(call, 1, &shape)?,
        channels(call, 2, &shape)?,
        channels(call, 3, &shape)?,
        channels(call, 4, &shape)?,
    ];
    let sizes = shape.channels();
    let running_before = [optional(call, 5, &sizes)?, optional(call, 6, &sizes)?];
    let factor = if running_before[0].is_some() { call.float(7)? } else { 0.0 };
    let epsilon = call.float(8)?;
    let mut running_after = [None; 2];
    for (slot, at) in running_after.iter_mut().zip([10, 11]) {
        if running_before[0].is_some() {
            let one = call.output(at)?;
            *slot = Some(reshaped(call, at, one, &sizes)?);
        }
    }
    let mut saved = [None; 4];
    for (slot, at) in saved.iter_mut().zip(12..) {
        *slot = optional_output(call, at, &sizes)?;
    }
    let unbiased = call.flag(16)?;
    let dtype = compute_dtype(&x);
    let count = shape.count() as f64;
    let bessel_factor = if count > 1.0 { count / (count - 1.0) } else { 0.0 };
    let x = call.reshaped_input(x, &shape.dims, &[&y]);
    let y = call.reshaped_output(y, &shape.dims);
    let [means, variances, scales, shifts] = [0; 4].map(|_| call.scratch(dtype, &sizes));
    call.plan_real(move |memory| {
        let parallel = memory.parallel;
        let (x, out) = (x.view(memory), y.out(memory));
        let [means, variances, scales, shifts] =
            [means, variances, scales, shifts].map(|one| memory.scratch(&one));
        with_real!(dtype, C => {
            let (inverse_count, epsilon, bessel_factor) = (C::of(1.0 / count), C::of(epsilon), C::of(bessel_factor));
            map1(parallel, means, memory.view(&sums), move |s: C| s.mul(inverse_count));
            map2(parallel, variances, memory.view(&squares), means.view(), move |s: C, m: C| {
                let variance = s.mul(inverse_count).sub(m.mul(m));
                // Rounding may leave the variance of a constant channel below 0. NaN stays.
                if variance < C::ZERO { C::ZERO } else { variance }
            });
            map2(parallel, scales, variances.view(), memory.view(&scale), move |v: C, w: C| {
                w.div(Real::sqrt(v.add(epsilon)))
            });
            map3(parallel, shifts, memory.view(&offset), means.view(), scales.view(), |b: C, m: C, s: C| {
                b.sub(m.mul(s))
            });
            let (keep, take) = (C::of(1.0 - factor), C::of(factor));
            for (at, correction) in [(0, C::ONE), (1, bessel_factor)] {
                if let (Some(before), Some(after)) = (&running_before[at], &running_after[at]) {
                    let new = if at == 0 { means } else { variances };
                    map2(parallel, memory.out(after), memory.view(before), new.view(), move |old: C, new: C| {
                        old.mul(keep).add(new.mul(correction).mul(take))
                    });
                }
            }
            for (at, output) in saved.iter().enumerate() {
                let Some(output) = output else { continue };
                match at {
                    1 if unbiased => map1(parallel, memory.out(output), variances.view(), move |v: C| v.mul(bessel_factor)),
                    1 | 3 => copy(parallel, memory.out(output), variances.view()),
                    _ => copy(parallel, memory.out(output), means.view()),
                }
            }
            let (scales, shifts) = (broadcast_to(scales.view(), &shape.dims), broadcast_to(shifts.view(), &shape.dims));
            map3(parallel, out, x, scales, shifts, |x: C, s: C, h: C| x.mul(s).add(h));
        });
        y.write_back(memory);
        Ok(())
    })
}

/// An output like x, then `per_channel` outputs with a number for each channel.
fn infer_outputs(call: &Call<'_>, per_channel: usize) -> Result<Vec<Layout>> {
    let (x, sums) = (call.layout(0)?.packed(), call.layout(1)?.packed());
    Ok(std::iter::once(x).chain(std::iter::repeat_n(sums, per_channel)).collect())
}

const EPSILON: ArgSource = Attr("epsilon", AttrDefault::Required);
const FACTOR: ArgSource = Attr("factor", AttrDefault::Required);

/// The operators of this family by IR name.
pub const NODES: &[Node] = &[
    node(
        "BNTrainingUpdate",
        &["x", "sum", "square_sum", "scale", "offset", "mean", "variance"],
        &["y", "mean", "variance", "batch_mean", "batch_variance"],
        Infer::By(|call| infer_outputs(call, 4)),
        update,
        &[
            A(0),
            A(1),
            A(2),
            A(3),
            A(4),
            A(5),
            A(6),
            FACTOR,
            EPSILON,
            O(0),
            O(1),
            O(2),
            O(3),
            O(4),
            No,
            No,
            B(false),
        ],
    ),
    node(
        "BNTrainingUpdateV2",
        &["x", "sum", "square_sum", "scale", "offset"],
        &["y", "batch_mean", "batch_variance"],
        Infer::By(|call| infer_outputs(call, 2)),
        update,
        &[
            A(0),
            A(1),
            A(2),
            A(3),
            A(4),
            No,
            No,
            No,
            EPSILON,
            O(0),
            No,
            No,
            O(1),
            O(2),
            No,
            No,
            B(false),
        ],
    ),
    node(
        "BNTrainingUpdateV3",
        &["x", "sum", "square_sum", "scale", "offset"],
        &["y", "batch_mean", "batch_variance", "reserve_1", "reserve_2"],
        Infer::By(|call| infer_outputs(call, 4)),
        update,
        &[
            A(0),
            A(1),
            A(2),
            A(3),
            A(4),
            No,
            No,
            No,
            EPSILON,
            O(0),
            No,
            No,
            O(1),
            O(2),
            O(3),
            O(4),
            B(true),
        ],
    ),
];
