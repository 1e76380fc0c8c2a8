//! Losses of two tensors, element by element and then reduced; and their gradients.
//!
//! Workspace: a loss that is reduced holds its elements in the type computed in (4 bytes each, 8 for `double`),
//! and the parts of their sum as `ReduceSum` does. So does a binary cross entropy with weights, reduced or not.

use super::reduction_plan::{Axes, ReductionPlan};
use crate::call::Call;
use crate::error::{Error, Result};
use crate::infer::Infer;
use crate::plan::{Memory, Operand, Plan, Scratch};
use crate::table::ArgSource::{A, Attr, No, O};
use crate::table::{ArgSource, AttrDefault, Node, Row, aclnn, node};
use cairn_tensor::kernels::constant::Constant;
use cairn_tensor::kernels::element::Element;
use cairn_tensor::kernels::fold;
use cairn_tensor::kernels::map::{map2, map3};
use cairn_tensor::kernels::math::Real;
use cairn_tensor::kernels::number::Number;
use cairn_tensor::{DType, Dims, Layout, Scalar, View, ViewMut, broadcast, with_real};

/// How the losses of elements become the result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reduction {
    /// The losses themselves.
    None,
    /// Their mean.
    Mean,
    /// Their sum.
    Sum,
}

/// The reduction that a number (0, 1, 2) or a text names.
pub fn reduction(call: &Call<'_>, at: usize) -> Result<Reduction> {
    let text = call.text(at).unwrap_or("number").to_owned();
    let number = if text == "number" { call.int(at)? } else { -1 };
    match (number, text.as_str()) {
        (0, _) | (_, "none") => Ok(Reduction::None),
        (1, _) | (_, "mean" | "") => Ok(Reduction::Mean),
        (2, _) | (_, "sum") => Ok(Reduction::Sum),
        _ => {
            let (name, value) = (call.parameter(at), call.arg(at));
            Err(Error::invalid(format!(
                "{name} is {value:?}: expected 0 (none), 1 (mean) or 2 (sum)"
            )))
        }
    }
}

/// Losses of an element `x` and its target.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Square,
    Absolute,
    /// Smooth L1, with the parameter beta.
    Smooth,
    /// Kullback-Leibler divergence; `x` is a logarithm.
    Divergence,
    /// The same, where the target is a logarithm too.
    DivergenceOfLogarithm,
    /// Soft margin.
    Margin,
}

impl Kind {
    #[inline(always)]
    fn loss<C: Real>(self, x: C, target: C, beta: C) -> C {
        let difference = x.sub(target);
        match self {
            Kind::Square => difference.mul(difference),
            Kind::Absolute => Number::abs(difference),
            Kind::Smooth => {
                let magnitude = Number::abs(difference);
                let half = C::of(0.5);
                if magnitude < beta {
                    half.mul(magnitude).mul(magnitude).div(beta)
                } else {
                    magnitude.sub(half.mul(beta))
                }
            }
            Kind::Divergence if target == C::ZERO => C::ZERO.sub(target.mul(x)),
            Kind::Divergence => target.mul(Real::ln(target)).sub(target.mul(x)),
            Kind::DivergenceOfLogarithm => Real::exp(target).mul(target.sub(x)),
            Kind::Margin => Real::ln_1p(Real::exp(C::ZERO.sub(x.mul(target)))),
        }
    }

    #[inline(always)]
    fn gradient<C: Real>(self, x: C, target: C, beta: C) -> C {
        let difference = x.sub(target);
        match self {
            Kind::Square => difference.add(difference),
            Kind::Absolute => difference.sign(),
            Kind::Smooth if Number::abs(difference) < beta => difference.div(beta),
            Kind::Smooth => difference.sign(),
            Kind::Divergence => C::ZERO.sub(target),
            Kind::DivergenceOfLogarithm => C::ZERO.sub(Real::exp(target)),
            Kind::Margin => {
                let z = Real::exp(C::ZERO.sub(x.mul(target)));
                C::ZERO.sub(target.mul(z).div(z.add(C::ONE)))
            }
        }
    }
}

/// Where losses of elements go: to the output, or to the workspace, to be summed.
#[derive(Clone, Copy)]
pub struct Losses {
    out: Operand,
    buffer: Option<(Scratch, ReductionPlan)>,
    divisor: f64,
}

impl Call<'_> {
    /// The output of losses of these sizes.
    pub fn losses(&mut self, at: usize, dims: &[usize], reduction: Reduction) -> Result<Losses> {
        let out = self.output(at)?;
        let dims = Dims::new(dims);
        let divisor =
            if reduction == Reduction::Mean { dims.iter().product::<usize>() as f64 } else { 1.0 };
        if reduction == Reduction::None {
            self.expect_dims(at, &out, &dims)?;
            return Ok(Losses { out, buffer: None, divisor });
        }
        if out.count() != 1 {
            let (name, have) = (self.parameter(at), out.dims());
            return Err(Error::invalid(format!(
                "{name} has the sizes {have:?}: expected one element"
            )));
        }
        let out = out.with_layout(out.reshaped(&[]).unwrap_or(*out.layout()));
        let buffer = with_real!(out.dtype, C => {
            let buffer = self.scratch(C::DTYPE, &dims);
            let reduction_plan = self.plan_reduction(&buffer, &Axes::filled(dims.len(), true), &fold::sum::<C>());
            (buffer, reduction_plan)
        });
        Ok(Losses { out, buffer: Some(buffer), divisor })
    }
}

impl Losses {
    /// Runs `compute` on the buffer for the losses of the elements, then reduces them to the output.
    pub fn run(&self, memory: &Memory<'_>, compute: impl FnOnce(ViewMut<'_>)) {
        let out = memory.out(&self.out);
        let Some((buffer, reduction_plan)) = &self.buffer else {
            return compute(out);
        };
        let unreduced = memory.scratch(buffer);
        compute(unreduced);
        with_real!(out.dtype(), C => {
            let divisor = C::of(self.divisor);
            let end = |sum: C| (sum.div(divisor), false);
            reduction_plan.run(memory, unreduced.view(), fold::sum::<C>(), (out, None), end)
        });
    }
}

/// A view broadcast to these sizes.
fn broadcast_to<'v>(view: View<'v>, dims: &[usize]) -> View<'v> {
    view.with_layout(view.broadcast_to(dims).expect("sizes were checked"))
        .expect("the same elements")
}

/// The sizes that two arguments broadcast to.
fn broadcast_dims(
    call: &Call<'_>,
    first: usize,
    a: &Layout,
    second: usize,
    b: &Layout,
) -> Result<Dims> {
    broadcast(a.dims(), b.dims()).ok_or_else(|| {
        let (first, second) = (call.parameter(first), call.parameter(second));
        let (a, b) = (a.dims(), b.dims());
        Error::invalid(format!("{first} {a:?} and {second} {b:?} do not broadcast together"))
    })
}

/// Whether the losses of a divergence are summed and divided by the number of batches, which is the first size.
fn is_mean_of_batches(call: &Call<'_>, at: usize, kind: Kind) -> bool {
    matches!(kind, Kind::Divergence | Kind::DivergenceOfLogarithm)
        && call.text(at).is_ok_and(|text| text == "batchmean")
}

fn batches(dims: &[usize]) -> f64 {
    dims.first().map_or(1.0, |size| *size as f64)
}

/// The loss of each element. Arguments: x, target, reduction, beta (1 when absent), out.
fn loss(call: &mut Call<'_>, kind: Kind) -> Result<Plan> {
    let (x, target) = (call.tensor(0)?, call.tensor(1)?);
    let dims = broadcast_dims(call, 0, &x, 1, &target)?;
    let beta = call.scalar_or(3, 1.0)?.as_f64();
    let losses = if is_mean_of_batches(call, 2, kind) {
        Losses { divisor: batches(&dims), ..call.losses(4, &dims, Reduction::Sum)? }
    } else {
        call.losses(4, &dims, reduction(call, 2)?)?
    };
    let (x, target) =
        (call.in_place_input(x, &[&losses.out]), call.in_place_input(target, &[&losses.out]));
    call.plan_real(move |memory| {
        let (x, target) =
            (broadcast_to(x.view(memory), &dims), broadcast_to(target.view(memory), &dims));
        losses.run(memory, |unreduced| {
            with_real!(unreduced.dtype(), C => {
                let beta = C::of(beta);
                map2(memory.parallel, unreduced, x, target, move |x: C, t: C| kind.loss(x, t, beta))
            });
        });
        Ok(())
    })
}

/// The squares of differences, of which the first dimension is summed or averaged. Arguments: x, target, reduction, out.
fn square_by_first(call: &mut Call<'_>) -> Result<Plan> {
    let (x, target) = (call.tensor(0)?, call.tensor(1)?);
    let dims = broadcast_dims(call, 0, &x, 1, &target)?;
    let kind = reduction(call, 2)?;
    if kind == Reduction::None || dims.is_empty() {
        return loss(call, Kind::Square);
    }
    let axes: Axes = (0..dims.len()).map(|at| at == 0).collect();
    let out = call.reduced_output(4, &dims, &axes, false)?;
    call.expect_castable(4, DType::Float, &out)?;
    let (x, target) = (call.in_place_input(x, &[&out]), call.in_place_input(target, &[&out]));
    let (buffer, reduction_plan) = with_real!(out.dtype, C => {
        let buffer = call.scratch(C::DTYPE, &dims);
        (buffer, call.plan_reduction(&buffer, &axes, &fold::sum::<C>()))
    });
    let divisor = if kind == Reduction::Mean { dims[0] as f64 } else { 1.0 };
    call.plan_real(move |memory| {
        let (x, target) =
            (broadcast_to(x.view(memory), &dims), broadcast_to(target.view(memory), &dims));
        let (buffer, out) = (memory.scratch(&buffer), memory.out(&out));
        with_real!(out.dtype(), C => {
            map2(memory.parallel, buffer, x, target, |x: C, t: C| Kind::Square.loss(x, t, C::ONE));
            let divisor = C::of(divisor);
            let end = |sum: C| (sum.div(divisor), false);
            reduction_plan.run(memory, buffer.view(), fold::sum::<C>(), (out, None), end);
        });
        Ok(())
    })
}

/// The gradient for x. Arguments: grad, x, target, reduction, beta (1 when absent), out.
fn loss_backward(call: &mut Call<'_>, kind: Kind) -> Result<Plan> {
    let (grad, x, target) = (call.tensor(0)?, call.tensor(1)?, call.tensor(2)?);
    let dims = broadcast_dims(call, 1, &x, 2, &target)?;
    let out = call.output(5)?;
    call.expect_dims(5, &out, &dims)?;
    let (name, grad_dims) = (call.parameter(0), grad.dims().to_vec());
    if grad.broadcast_to(&dims).is_none() {
        return Err(Error::invalid(format!("{name} {grad_dims:?} does not broadcast to {dims:?}")));
    }
    let beta = call.scalar_or(4, 1.0)?.as_f64();
    let factor = if is_mean_of_batches(call, 3, kind) {
        1.0 / batches(&dims).max(1.0)
    } else if reduction(call, 3)? == Reduction::Mean {
        1.0 / dims.iter().product::<usize>().max(1) as f64
    } else {
        1.0
    };
    let sources = [grad, x, target].map(|one| call.in_place_input(one, &[&out]));
    call.plan_real(move |memory| {
        let [grad, x, target] = sources.map(|one| broadcast_to(one.view(memory), &dims));
        let out = memory.out(&out);
        with_real!(out.dtype(), C => {
            let (beta, factor) = (C::of(beta), C::of(factor));
            map3(memory.parallel, out, grad, x, target, move |grad: C, x: C, t: C| {
                kind.gradient(x, t, beta).mul(factor).mul(grad)
            })
        });
        Ok(())
    })
}

/// The gradient for the target of a divergence. Arguments: grad, x, target, reduction, whether the target is a
/// logarithm, out.
fn divergence_target_gradient(call: &mut Call<'_>) -> Result<Plan> {
    let is_logarithm = call.flag(4)?;
    plan_target_gradient(call, [0, 1, 2, 3, 5], move |x, t| match is_logarithm {
        true => t.exp() * (t - x + 1.0),
        false => t.ln() - x + 1.0,
    })
}

/// The gradient for the target; `derivative` is that of the loss by the target, for each x and target. Indices: grad, x,
/// target, reduction, out.
fn plan_target_gradient(
    call: &mut Call<'_>,
    [grad, x, target, kind, out]: [usize; 5],
    derivative: impl Fn(f64, f64) -> f64 + Copy + Send + Sync + 'static,
) -> Result<Plan> {
    let (at, name) = (out, call.parameter(grad));
    let (grad, x, target) = (call.tensor(grad)?, call.tensor(x)?, call.tensor(target)?);
    let dims = broadcast_dims(call, 1, &x, 2, &target)?;
    let out = call.output(at)?;
    call.expect_dims(at, &out, &dims)?;
    call.expect_castable(at, DType::Float, &out)?;
    if grad.broadcast_to(&dims).is_none() {
        let have = grad.dims();
        return Err(Error::invalid(format!("{name} {have:?} does not broadcast to {dims:?}")));
    }
    let mean = reduction(call, kind)? == Reduction::Mean;
    let factor = if mean { 1.0 / dims.iter().product::<usize>().max(1) as f64 } else { 1.0 };
    let sources = [grad, x, target].map(|one| call.in_place_input(one, &[&out]));
    call.plan_real(move |memory| {
        let [grad, x, target] = sources.map(|one| broadcast_to(one.view(memory), &dims));
        map3(memory.parallel, memory.out(&out), grad, x, target, move |g: f64, x: f64, t: f64| {
            g * factor * derivative(x, t)
        });
        Ok(())
    })
}

/// The gradient for the target of binary cross entropy of logits. Arguments: grad, x, target, weight or absent, weight
/// of positive targets or absent, reduction, out.
fn logits_target_gradient(call: &mut Call<'_>) -> Result<Plan> {
    let (grad, x, target) = (call.tensor(0)?, call.tensor(1)?, call.tensor(2)?);
    let dims = broadcast_dims(call, 1, &x, 2, &target)?;
    let out = call.output(6)?;
    call.expect_dims(6, &out, &dims)?;
    call.expect_castable(6, DType::Float, &out)?;
    let (weight, positive) = (call.optional(3)?, call.optional(4)?);
    for (at, one) in [(0, Some(&grad)), (3, weight.as_ref()), (4, positive.as_ref())] {
        if let Some(layout) = one.filter(|one| one.broadcast_to(&dims).is_none()) {
            let (name, have) = (call.parameter(at), layout.dims());
            return Err(Error::invalid(format!("{name} {have:?} does not broadcast to {dims:?}")));
        }
    }
    let mean = reduction(call, 5)? == Reduction::Mean;
    let factor = if mean { 1.0 / dims.iter().product::<usize>().max(1) as f64 } else { 1.0 };
    let (grad, x) = (call.in_place_input(grad, &[&out]), call.in_place_input(x, &[&out]));
    let others = [weight, positive].map(|one| one.map(|one| call.in_place_input(one, &[&out])));
    let scratch = with_real!(out.dtype, C => call.scratch(C::DTYPE, &dims));
    call.plan_real(move |memory| {
        let (grad, x) = (broadcast_to(grad.view(memory), &dims), broadcast_to(x.view(memory), &dims));
        let one = Constant::new(Scalar::from(1.0));
        let [weight, positive] = others
            .map(|other| other.map_or(one.view(&dims), |other| broadcast_to(other.view(memory), &dims)));
        let scratch = memory.scratch(&scratch);
        with_real!(scratch.dtype(), C => {
            let factor = C::of(factor);
            map2(memory.parallel, scratch, x, positive, |x: C, p: C| {
                let softplus = Real::ln_1p(Real::exp(C::ZERO.sub(Number::abs(x)))).sub(x.least(C::ZERO));
                p.sub(C::ONE).mul(softplus).sub(x)
            });
            map3(memory.parallel, memory.out(&out), scratch.view(), weight, grad, move |d: C, w: C, g: C| {
                d.mul(w).mul(g).mul(factor)
            });
        });
        Ok(())
    })
}

macro_rules! losses {
    ($($forward:ident, $backward:ident, $kind:expr;)*) => {$(
        fn $forward(call: &mut Call<'_>) -> Result<Plan> {
            loss(call, $kind)
        }
        fn $backward(call: &mut Call<'_>) -> Result<Plan> {
            loss_backward(call, $kind)
        }
    )*};
}

losses! {
    square, square_backward, Kind::Square;
    absolute, absolute_backward, Kind::Absolute;
    smooth, smooth_backward, Kind::Smooth;
    margin, margin_backward, Kind::Margin;
}

/// The absolute loss by the power that has it. Arguments: those of [`absolute`], power.
fn absolute_by_power(call: &mut Call<'_>) -> Result<Plan> {
    match call.int(5)? {
        1 => absolute(call),
        p => Err(Error::invalid(format!("{} = {p}: only 1 is supported", call.parameter(5)))),
    }
}

fn divergence_kind(call: &Call<'_>, at: usize) -> Result<Kind> {
    Ok(if call.flag_or(at, false)? { Kind::DivergenceOfLogarithm } else { Kind::Divergence })
}

/// Arguments: x, target, reduction, -, out, whether the target is a logarithm.
fn divergence(call: &mut Call<'_>) -> Result<Plan> {
    let kind = divergence_kind(call, 5)?;
    loss(call, kind)
}

/// Arguments: grad, x, target, reduction, -, out, whether the target is a logarithm.
fn divergence_backward(call: &mut Call<'_>) -> Result<Plan> {
    let kind = divergence_kind(call, 6)?;
    loss_backward(call, kind)
}

/// The cross entropy of a probability; logarithms are at least -100.
#[inline(always)]
fn entropy<C: Real>(x: C, target: C) -> C {
    let floor = C::of(-100.0);
    let (log_p, log_not_p) =
        (Real::ln(x).greatest(floor), Real::ln_1p(C::ZERO.sub(x)).greatest(floor));
    target.sub(C::ONE).mul(log_not_p).sub(target.mul(log_p))
}

#[inline(always)]
fn entropy_gradient<C: Real>(x: C, target: C) -> C {
    let variance = C::ONE.sub(x).mul(x).greatest(C::of(1e-12));
    x.sub(target).div(variance)
}

/// The loss of a logit; `weight` is that of positive targets.
#[inline(always)]
fn logit<C: Real>(x: C, target: C, weight: C) -> C {
    let min = x.least(C::ZERO);
    let softplus = Real::ln_1p(Real::exp(C::ZERO.sub(Number::abs(x)))).sub(min);
    let scale = weight.sub(C::ONE).mul(target).add(C::ONE);
    C::ONE.sub(target).mul(x).add(scale.mul(softplus))
}

#[inline(always)]
fn logit_gradient<C: Real>(x: C, target: C, weight: C) -> C {
    let weighted = weight.mul(target);
    weighted.add(C::ONE).sub(target).mul(Real::sigmoid(x)).sub(weighted)
}

/// Binary cross entropy. Arguments: grad (absent: the loss itself), x, target, weight or absent, weight of
/// positive targets or absent, reduction, out.
fn cross_entropy(call: &mut Call<'_>, logits: bool) -> Result<Plan> {
    let (x, target) = (call.tensor(1)?, call.tensor(2)?);
    let dims = broadcast_dims(call, 1, &x, 2, &target)?;
    let grad = call.optional(0)?;
    let (weight, positive) = (call.optional(3)?, call.optional(4)?);
    for (at, one) in [(0, &grad), (3, &weight), (4, &positive)] {
        if let Some(layout) = one.as_ref().filter(|one| one.broadcast_to(&dims).is_none()) {
            let (name, have) = (call.parameter(at), layout.dims());
            return Err(Error::invalid(format!("{name} {have:?} does not broadcast to {dims:?}")));
        }
    }
    let kind = reduction(call, 5)?;
    let losses = call.losses(6, &dims, if grad.is_some() { Reduction::None } else { kind })?;
    let backward = grad.is_some();
    let mean = backward && kind == Reduction::Mean;
    let factor = if mean { 1.0 / dims.iter().product::<usize>().max(1) as f64 } else { 1.0 };
    let out = losses.out;
    let (x, target) = (call.in_place_input(x, &[&out]), call.in_place_input(target, &[&out]));
    let others =
        [weight, positive, grad].map(|one| one.map(|one| call.in_place_input(one, &[&out])));
    let scratch = with_real!(out.dtype, C => call.scratch(C::DTYPE, &dims));
    call.plan_real(move |memory| {
        let (x, target) = (broadcast_to(x.view(memory), &dims), broadcast_to(target.view(memory), &dims));
        let one = Constant::new(Scalar::from(1.0));
        let [weight, positive, grad] = others
            .map(|other| other.map_or(one.view(&dims), |other| broadcast_to(other.view(memory), &dims)));
        let scratch = memory.scratch(&scratch);
        with_real!(scratch.dtype(), C => {
            let factor = C::of(factor);
            match (logits, backward) {
                (true, false) => map3(memory.parallel, scratch, x, target, positive, logit::<C>),
                (true, true) => map3(memory.parallel, scratch, x, target, positive, logit_gradient::<C>),
                (false, false) => map2(memory.parallel, scratch, x, target, entropy::<C>),
                (false, true) => map2(memory.parallel, scratch, x, target, entropy_gradient::<C>),
            }
            losses.run(memory, |unreduced| {
                map3(memory.parallel, unreduced, scratch.view(), weight, grad, move |x: C, weight: C, grad: C| {
                    x.mul(weight).mul(grad).mul(factor)
                })
            });
        });
        Ok(())
    })
}

/// Binary cross entropy of probabilities.
fn probabilities(call: &mut Call<'_>) -> Result<Plan> {
    cross_entropy(call, false)
}

/// Binary cross entropy of logits.
fn logits(call: &mut Call<'_>) -> Result<Plan> {
    cross_entropy(call, true)
}

const LOSS: &[ArgSource] = &[A(0), A(1), A(2), No, A(3)];
const LOSS_BACKWARD: &[ArgSource] = &[A(0), A(1), A(2), A(3), No, A(4)];

/// The rows of this family.
pub const ROWS: &[Row] = &[
    aclnn("MseLoss", square).with_args(LOSS),
    aclnn("MseLossOut", square_by_first).with_args(LOSS),
    aclnn("MseLossBackward", square_backward).with_args(LOSS_BACKWARD),
    aclnn("L1Loss", absolute).with_args(LOSS),
    aclnn("L1LossBackward", absolute_backward).with_args(LOSS_BACKWARD),
    aclnn("SmoothL1Loss", smooth),
    aclnn("SmoothL1LossBackward", smooth_backward),
    aclnn("SoftMarginLoss", margin).with_args(LOSS),
    aclnn("SoftMarginLossBackward", margin_backward).with_args(LOSS_BACKWARD),
    aclnn("KlDiv", divergence).with_args(&[A(0), A(1), A(2), No, A(4), A(3)]),
    aclnn("KlDivBackward", divergence_backward).with_args(&[
        A(0),
        A(1),
        A(2),
        A(3),
        No,
        A(5),
        A(4),
    ]),
    aclnn("BinaryCrossEntropy", probabilities).with_args(&[No, A(0), A(1), A(2), No, A(3), A(4)]),
    aclnn("BinaryCrossEntropyBackward", probabilities).with_args(&[
        A(0),
        A(1),
        A(2),
        A(3),
        No,
        A(4),
        A(5),
    ]),
    aclnn("BinaryCrossEntropyWithLogits", logits).with_args(&[
        No,
        A(0),
        A(1),
        A(2),
        A(3),
        A(4),
        A(5),
    ]),
    aclnn("BinaryCrossEntropyWithLogitsBackward", logits),
    aclnn("BinaryCrossEntropyWithLogitsTargetBackward", logits_target_gradient),
    aclnn("KlDivTargetBackward", divergence_target_gradient),
];

const REDUCTION: ArgSource = Attr("reduction", AttrDefault::Text("mean"));

/// The loss of `x`, which stays as it is or becomes one number.
fn reduced_loss(x: &Layout, reduction: Reduction) -> Vec<Layout> {
    vec![match reduction {
        Reduction::None => x.packed(),
        _ => Layout::contiguous(x.dtype, &[]),
    }]
}

fn infer_reduced_loss(call: &Call<'_>) -> Result<Vec<Layout>> {
    Ok(reduced_loss(&call.layout(0)?, reduction(call, 2)?))
}

fn infer_divergence(call: &Call<'_>) -> Result<Vec<Layout>> {
    let by_batch = is_mean_of_batches(call, 2, Kind::Divergence);
    let reduction = if by_batch { Reduction::Sum } else { reduction(call, 2)? };
    Ok(reduced_loss(&call.layout(0)?, reduction))
}

fn infer_cross_entropy(call: &Call<'_>) -> Result<Vec<Layout>> {
    Ok(reduced_loss(&call.layout(1)?, reduction(call, 5)?))
}

const SIGMA: ArgSource = Attr("sigma", AttrDefault::Float(1.0));
const LOG_TARGET: ArgSource = Attr("log_target", AttrDefault::Flag(false));

/// The operators of this family by IR name.
pub const NODES: &[Node] = &[
    node(
        "MseLoss",
        &["predict", "label"],
        &["y"],
        Infer::By(infer_reduced_loss),
        square,
        &[A(0), A(1), REDUCTION, No, O(0)],
    ),
    node(
        "MseLossGrad",
        &["predict", "label", "dout"],
        &["y"],
        Infer::Like(1),
        square_backward,
        &[A(2), A(0), A(1), REDUCTION, No, O(0)],
    ),
    node(
        "LpLoss",
        &["predict", "label"],
        &["y"],
        Infer::By(infer_reduced_loss),
        absolute_by_power,
        &[A(0), A(1), REDUCTION, No, O(0), Attr("p", AttrDefault::Required)],
    ),
    node(
        "L1LossGrad",
        &["grads", "predict", "label"],
        &["y"],
        Infer::Like(1),
        absolute_backward,
        &[A(0), A(1), A(2), REDUCTION, No, O(0)],
    ),
    node(
        "SmoothL1LossV2",
        &["predict", "label"],
        &["loss"],
        Infer::By(infer_reduced_loss),
        smooth,
        &[A(0), A(1), REDUCTION, SIGMA, O(0)],
    ),
    node(
        "SmoothL1LossGradV2",
        &["predict", "label", "dout"],
        &["gradient"],
        Infer::Like(1),
        smooth_backward,
        &[A(2), A(0), A(1), REDUCTION, SIGMA, O(0)],
    ),
    node(
        "SoftMarginLoss",
        &["input_x", "input_y"],
        &["output_z"],
        Infer::By(infer_reduced_loss),
        margin,
        &[A(0), A(1), REDUCTION, No, O(0)],
    ),
    node(
        "SoftMarginLossGrad",
        &["predict", "label", "dout"],
        &["gradient"],
        Infer::Like(1),
        margin_backward,
        &[A(2), A(0), A(1), REDUCTION, No, O(0)],
    ),
    node(
        "KLDiv",
        &["x", "target"],
        &["y"],
        Infer::By(infer_divergence),
        divergence,
        &[A(0), A(1), Attr("reduction", AttrDefault::Required), No, O(0), LOG_TARGET],
    ),
    node(
        "KlDivLossGrad",
        &["grad", "input", "target"],
        &["y"],
        Infer::Like(1),
        divergence_backward,
        &[A(0), A(1), A(2), REDUCTION, No, O(0), LOG_TARGET],
    ),
    node(
        "BinaryCrossEntropy",
        &["x", "y", "weight?"],
        &["output"],
        Infer::By(infer_cross_entropy),
        probabilities,
        &[No, A(0), A(1), A(2), No, REDUCTION, O(0)],
    ),
    node(
        "BinaryCrossEntropyGrad",
        &["x", "y", "grad_output", "weight?"],
        &["output"],
        Infer::Like(1),
        probabilities,
        &[A(2), A(0), A(1), A(3), No, REDUCTION, O(0)],
    ),
    node(
        "SigmoidCrossEntropyWithLogitsV2",
        &["predict", "target", "weight?", "pos_weight?"],
        &["loss"],
        Infer::By(infer_cross_entropy),
        logits,
        &[No, A(0), A(1), A(2), A(3), REDUCTION, O(0)],
    ),
    node(
        "SigmoidCrossEntropyWithLogitsGradV2",
        &["predict", "target", "dout", "weight?", "pos_weight?"],
        &["gradient"],
        Infer::Like(1),
        logits,
        &[A(2), A(0), A(1), A(3), A(4), REDUCTION, O(0)],
    ),
];
