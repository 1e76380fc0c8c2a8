//! ReLUs with a slope below zero that is learned or drawn: the gradients of PReLU, and RReLU.

use super::activation_grad::by_channel;
use super::elementwise::Input;
use super::reduction_plan::{Axes, single_result};
use crate::call::Call;
use crate::error::{Error, Result};
use crate::infer::Infer;
use crate::plan::Plan;
use crate::table::ArgSource::{A, No, O};
use crate::table::{Node, Row, aclnn, node};
use cairn_tensor::kernels::element::Element;
use cairn_tensor::kernels::fold;
use cairn_tensor::kernels::map::{map1, map2, map3};
use cairn_tensor::kernels::math::Real;
use cairn_tensor::kernels::number::Number;
use cairn_tensor::kernels::random::uniform;
use cairn_tensor::{DType, Layout, with_real};

const REAL: &[DType] = &[DType::Float, DType::Float16, DType::Bf16, DType::Double];

/// Arguments: gradient, x, weight, gradient of x, gradient of the weight.
fn prelu_backward(call: &mut Call<'_>) -> Result<Plan> {
    let (dx, dweight) = (call.output(3)?, call.output(4)?);
    let (grad, x) = (call.read(0, &[&dx, &dweight])?, call.read(1, &[&dx, &dweight])?);
    for (at, one) in [(0, *grad), (1, *x), (3, *dx.layout()), (4, *dweight.layout())] {
        call.expect_dtype(at, &one, REAL)?;
    }
    call.expect_dims(0, &grad, x.dims())?;
    call.expect_dims(3, &dx, x.dims())?;
    let (weight, x_operand) = (call.tensor(2)?, call.tensor(1)?);
    call.expect_dtype(2, &weight, REAL)?;
    call.expect_dims(4, &dweight, weight.dims())?;
    let slopes = by_channel(call, &x_operand, weight)?;
    let has_one_slope = weight.count() == 1;
    let axes: Axes = (0..x.rank()).map(|at| has_one_slope || at != 1).collect();
    let dweight_dims: &[usize] = if has_one_slope { &[] } else { &[weight.count()] };
    let dweight_out =
        dweight.reshaped(dweight_dims).map(|layout| dweight.with_layout(layout)).ok_or_else(
            || Error::invalid(format!("{} ({}) must be contiguous", call.parameter(4), *dweight)),
        )?;
    let slopes = call.without_overlap(Input::Tensor(slopes), &dx);
    let dtype = with_real!(x.dtype, C => C::DTYPE);
    let scratch = call.scratch(dtype, x.dims());
    let reduction_plan =
        with_real!(dtype, C => call.plan_reduction(&scratch, &axes, &fold::sum::<C>()));
    call.plan(move |memory| {
        let (grad, x, scratch) = (grad.view(memory), x.view(memory), memory.scratch(&scratch));
        slopes.prepare(memory);
        with_real!(dtype, C => {
            map2(memory.parallel, scratch, grad, x, |g: C, x: C| if x > C::ZERO { C::ZERO } else { g.mul(x) });
            reduction_plan.run(memory, scratch.view(), fold::sum::<C>(), (memory.out(&dweight_out), None), single_result);
            slopes.with(memory, x.dims(), |slopes| {
                map3(memory.parallel, memory.out(&dx), grad, x, slopes, |g: C, x: C, w: C| {
                    if x > C::ZERO { g } else { g.mul(w) }
                });
            });
        });
        Ok(())
    })
}

/// Arguments: x, noise, lower, upper, whether it trains, seed, offset, -, out.
fn random_relu(call: &mut Call<'_>) -> Result<Plan> {
    let (out, x) = (call.output(8)?, call.tensor(0)?);
    let training = call.flag(4)?;
    call.expect_dtype(0, &x, REAL)?;
    call.expect_dtype(8, &out, REAL)?;
    call.expect_dims(8, &out, x.dims())?;
    let (lower, upper) = (call.scalar(2)?.as_f64(), call.scalar(3)?.as_f64());
    if !(lower.is_finite() && upper.is_finite() && lower <= upper) {
        let (low, high) = (call.parameter(2), call.parameter(3));
        return Err(Error::invalid(format!("{low} = {lower} and {high} = {upper} are no range")));
    }
    let training_noise = match training {
        false => None,
        true => {
            let noise = call.output(1)?;
            call.expect_dims(1, &noise, x.dims())?;
            call.expect_dtype(1, &noise, REAL)?;
            Some((noise, call.generator(5)?))
        }
    };
    let x = call.in_place_input(x, &[&out]);
    call.plan(move |memory| {
        let x = x.view(memory);
        let out = memory.out(&out);
        with_real!(x.dtype(), C => match &training_noise {
            None => {
                let slope = C::of((lower + upper) / 2.0);
                map1(memory.parallel, out, x, move |x: C| if x > C::ZERO { x } else { x.mul(slope) });
            }
            Some((noise, generator)) => {
                let noise = memory.out(noise);
                uniform(memory.parallel, noise, generator.philox(memory), lower, upper);
                map2(memory.parallel, noise, noise.view(), x, |r: C, x: C| if x > C::ZERO { C::ONE } else { r });
                map2(memory.parallel, out, x, noise.view(), |x: C, r: C| x.mul(r));
            }
        });
        Ok(())
    })
}

/// The rows of this family.
pub const ROWS: &[Row] = &[
    aclnn("PreluBackward", prelu_backward),
    aclnn("RReluWithNoise", random_relu).with_args(&[
        A(0),
        A(1),
        A(2),
        A(3),
        A(4),
        A(5),
        A(6),
        No,
        A(7),
    ]),
    aclnn("InplaceRReluWithNoise", random_relu).with_args(&[
        A(0),
        A(1),
        A(2),
        A(3),
        A(4),
        A(5),
        A(6),
        No,
        A(0),
    ]),
];

fn infer_gradients(call: &Call<'_>) -> Result<Vec<Layout>> {
    Ok(vec![call.layout(1)?.packed(), call.layout(2)?.packed()])
}

/// The operators of this family by IR name.
pub const NODES: &[Node] = &[node(
    "PReluGrad",
    &["grads", "features", "weights"],
    &["dx", "da"],
    Infer::By(infer_gradients),
    prelu_backward,
    &[A(0), A(1), A(2), O(0), O(1)],
)];
