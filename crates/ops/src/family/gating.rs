//! Gated linear units: one half of a tensor, activated, times the other; and their gradients.

use super::activation::{CUBIC, ROOT, uses_tanh};
use crate::call::Call;
use crate::error::{Error, Result};
use crate::infer::Infer;
use crate::plan::Plan;
use crate::table::ArgSource::{A, Attr, B, I, No, O};
use crate::table::{ArgSource, AttrDefault, Node, Row, aclnn, node};
use cairn_tensor::kernels::map::{map1, map2, map3};
use cairn_tensor::kernels::math::Real;
use cairn_tensor::kernels::number::Number;
use cairn_tensor::{DType, Layout, View, with_real};
use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI};

const REAL: &[DType] = &[DType::Float, DType::Float16, DType::Bf16, DType::Double];

/// The activation of one half.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Gate {
    Sigmoid,
    Swish,
    Gelu,
    GeluTanh,
}

impl Gate {
    #[inline(always)]
    fn value<C: Real>(self, x: C) -> C {
        match self {
            Gate::Sigmoid => x.sigmoid(),
            Gate::Swish => x.mul(x.sigmoid()),
            Gate::Gelu => {
                let one_plus_erf = C::ONE.add(x.mul(C::of(FRAC_1_SQRT_2)).erf());
                x.mul(C::of(0.5)).mul(one_plus_erf)
            }
            Gate::GeluTanh => {
                let inner = x.add(C::of(CUBIC).mul(x).mul(x).mul(x)).mul(C::of(ROOT));
                C::of(0.5).mul(x).mul(C::ONE.add(inner.tanh()))
            }
        }
    }

    /// The derivative of [`Gate::value`].
    #[inline(always)]
    fn derivative<C: Real>(self, x: C) -> C {
        match self {
            Gate::Sigmoid => {
                let s = x.sigmoid();
                s.mul(C::ONE.sub(s))
            }
            Gate::Swish => {
                let s = x.sigmoid();
                s.mul(C::ONE.add(x.mul(C::ONE.sub(s))))
            }
            Gate::Gelu => {
                let cdf = C::of(0.5).mul(C::ONE.add(x.mul(C::of(FRAC_1_SQRT_2)).erf()));
                let density = x.mul(x).mul(C::of(-0.5)).exp();
                cdf.add(x.mul(density).mul(C::of(FRAC_2_SQRT_PI * FRAC_1_SQRT_2 * 0.5)))
            }
            Gate::GeluTanh => {
                let square = x.mul(x);
                let t = x.add(C::of(CUBIC).mul(square).mul(x)).mul(C::of(ROOT)).tanh();
                let inner_derivative = C::of(ROOT).mul(C::ONE.add(C::of(3.0 * CUBIC).mul(square)));
                let first_term = C::of(0.5).mul(C::ONE.add(t));
                first_term.add(C::of(0.5).mul(x).mul(C::ONE.sub(t.mul(t))).mul(inner_derivative))
            }
        }
    }
}

/// Runs `$body` with `$gate` a constant, so that each gate has a loop of its own.
macro_rules! with_gate {
    ($kind:expr, $gate:ident => $body:expr) => {
        match $kind {
            Gate::Sigmoid => {
                const $gate: Gate = Gate::Sigmoid;
                $body
            }
            Gate::Swish => {
                const $gate: Gate = Gate::Swish;
                $body
            }
            Gate::Gelu => {
                const $gate: Gate = Gate::Gelu;
                $body
            }
            Gate::GeluTanh => {
                const $gate: Gate = Gate::GeluTanh;
                $body
            }
        }
    };
}

/// The gate of a row: for a GELU, argument `at` says whether tanh approximates it.
fn gate(call: &Call<'_>, kind: Gate, at: usize) -> Result<Gate> {
    match kind {
        Gate::Gelu if uses_tanh(call, at)? => Ok(Gate::GeluTanh),
        other => Ok(other),
    }
}

/// The dimension that is halved, and the sizes of a half. `x` and `dim` are the indices of the arguments.
fn halved(call: &Call<'_>, x: usize, layout: &Layout, dim: usize) -> Result<(usize, Vec<usize>)> {
    let at = call.dim(dim, layout.rank())?;
    let mut dims = layout.dims().to_vec();
    match dims.get_mut(at) {
        Some(size) if size.is_multiple_of(2) => *size /= 2,
        _ => {
            let (name, dims, dim) = (call.parameter(x), layout.dims(), call.parameter(dim));
            return Err(Error::invalid(format!(
                "{name} has the sizes {dims:?}, of which dimension {at} ({dim}) is not even"
            )));
        }
    }
    Ok((at, dims))
}

/// The halves of a tensor: the one that is activated, which is the first if `is_first_activated`, and the other.
fn halves<'v>(view: View<'v>, dim: usize, is_first_activated: bool) -> (View<'v>, View<'v>) {
    let size = view.dims()[dim] / 2;
    let part =
        |start| view.with_layout(view.layout().sliced(dim, start, size, 1)).expect("a half of it");
    if is_first_activated { (part(0), part(size)) } else { (part(size), part(0)) }
}

/// Arguments: x, dimension, whether tanh approximates a GELU, whether the first half is activated, out, activated half or
/// absent.
fn forward(call: &mut Call<'_>, kind: Gate) -> Result<Plan> {
    let gate = gate(call, kind, 2)?;
    let (out, activated) = (call.output(4)?, call.optional_output(5)?);
    let x = call.tensor(0)?;
    call.expect_dtype(0, &x, REAL)?;
    let (dim, dims) = halved(call, 0, &x, 1)?;
    let is_first_activated = call.flag(3)?;
    for (at, one) in [(4, Some(&out)), (5, activated.as_ref())] {
        if let Some(one) = one {
            call.expect_dims(at, one, &dims)?;
            call.expect_dtype(at, one, REAL)?;
        }
    }
    let outs: Vec<_> = [Some(&out), activated.as_ref()].into_iter().flatten().collect();
    let x = call.unaliased(x, &outs);
    call.plan(move |memory| {
        let (gated, other) = halves(x.view(memory), dim, is_first_activated);
        let out = memory.out(&out);
        with_real!(x.dtype, C => with_gate!(gate, GATE => {
            if let Some(activated) = &activated {
                map1(memory.parallel, memory.out(activated), gated, |x: C| GATE.value(x));
            }
            map2(memory.parallel, out, gated, other, |x: C, y: C| GATE.value(x).mul(y));
        }));
        Ok(())
    })
}

/// Arguments: gradient, x, activated half or absent, dimension, whether tanh approximates a GELU, whether the first half
/// is activated, out.
fn backward(call: &mut Call<'_>, kind: Gate) -> Result<Plan> {
    let gate = gate(call, kind, 4)?;
    let out = call.output(6)?;
    let (grad, x) = (call.read(0, &[&out])?, call.read(1, &[&out])?);
    let activated = if call.has(2) { Some(call.read(2, &[&out])?) } else { None };
    call.expect_dtype(1, &x, REAL)?;
    let (dim, dims) = halved(call, 1, &x, 3)?;
    let is_first_activated = call.flag(5)?;
    call.expect_dims(0, &grad, &dims)?;
    call.expect_dtype(0, &grad, REAL)?;
    call.expect_dims(6, &out, x.dims())?;
    call.expect_dtype(6, &out, REAL)?;
    if let Some(activated) = &activated {
        call.expect_dims(2, activated, &dims)?;
        call.expect_dtype(2, activated, REAL)?;
    }
    call.plan(move |memory| {
        let (gated, other) = halves(x.view(memory), dim, is_first_activated);
        let grad = grad.view(memory);
        let activated = activated.map(|one| one.view(memory));
        let out = memory.out(&out);
        let size = out.dims()[dim] / 2;
        let half =
            |start| out.with_layout(out.layout().sliced(dim, start, size, 1)).expect("a half");
        let (to_gated, to_other) =
            if is_first_activated { (half(0), half(size)) } else { (half(size), half(0)) };
        with_real!(x.dtype, C => with_gate!(gate, GATE => {
            map3(memory.parallel, to_gated, grad, gated, other, |g: C, x: C, y: C| {
                g.mul(y).mul(GATE.derivative(x))
            });
            match activated {
                Some(activated) => {
                    map2(memory.parallel, to_other, grad, activated, |g: C, a: C| g.mul(a));
                }
                None => {
                    map2(memory.parallel, to_other, grad, gated, |g: C, x: C| g.mul(GATE.value(x)));
                }
            }
        }));
        Ok(())
    })
}

fn swiglu(call: &mut Call<'_>) -> Result<Plan> {
    forward(call, Gate::Swish)
}

fn swiglu_backward(call: &mut Call<'_>) -> Result<Plan> {
    backward(call, Gate::Swish)
}

fn geglu(call: &mut Call<'_>) -> Result<Plan> {
    forward(call, Gate::Gelu)
}

fn geglu_backward(call: &mut Call<'_>) -> Result<Plan> {
    backward(call, Gate::Gelu)
}

fn glu(call: &mut Call<'_>) -> Result<Plan> {
    forward(call, Gate::Sigmoid)
}

fn glu_backward(call: &mut Call<'_>) -> Result<Plan> {
    backward(call, Gate::Sigmoid)
}

/// The rows of this family.
pub const ROWS: &[Row] = &[
    aclnn("SwiGlu", swiglu).with_args(&[A(0), A(1), No, B(true), A(2)]),
    aclnn("SwiGluGrad", swiglu_backward).with_args(&[A(0), A(1), No, A(2), No, B(true), A(3)]),
    aclnn("Glu", glu).with_args(&[A(0), A(1), No, B(false), A(2)]),
    aclnn("GluBackward", glu_backward).with_args(&[A(0), A(1), No, A(2), No, B(false), A(3)]),
    aclnn("GeGlu", geglu).with_args(&[A(0), A(1), A(2), B(false), A(3), A(4)]),
    aclnn("GeGluV3", geglu).with_args(&[A(0), A(1), A(2), A(3), A(4), A(5)]),
    aclnn("GeGluBackward", geglu_backward).with_args(&[
        A(0),
        A(1),
        A(2),
        A(3),
        A(4),
        B(false),
        A(5),
    ]),
    aclnn("GeGluV3Backward", geglu_backward),
    aclnn("GeluMul", geglu).with_args(&[A(0), I(-1), A(1), B(true), A(2)]),
];

fn infer_one_half(call: &Call<'_>) -> Result<Vec<Layout>> {
    let x = call.layout(0)?;
    let (_, dims) = halved(call, 0, &x, 1)?;
    Ok(vec![Layout::contiguous(x.dtype, &dims)])
}

fn infer_two_halves(call: &Call<'_>) -> Result<Vec<Layout>> {
    let half = infer_one_half(call)?[0];
    Ok(vec![half, half])
}

const DIM: ArgSource = Attr("dim", AttrDefault::Int(-1));
const APPROXIMATE: ArgSource = Attr("approximate", AttrDefault::Int(1));
const ACTIVATE_LEFT: ArgSource = Attr("activate_left", AttrDefault::Flag(false));

/// The operators of this family by IR name.
pub const NODES: &[Node] = &[
    node(
        "SwiGlu",
        &["x"],
        &["y"],
        Infer::By(infer_one_half),
        swiglu,
        &[A(0), DIM, No, B(true), O(0)],
    ),
    node(
        "SwiGluGrad",
        &["y_grad", "x"],
        &["y"],
        Infer::Like(1),
        swiglu_backward,
        &[A(0), A(1), No, DIM, No, B(true), O(0)],
    ),
    node("GLU", &["x"], &["y"], Infer::By(infer_one_half), glu, &[A(0), DIM, No, B(false), O(0)]),
    node(
        "GLUGrad",
        &["y_grad", "x"],
        &["x_grad"],
        Infer::Like(1),
        glu_backward,
        &[A(0), A(1), No, DIM, No, B(false), O(0)],
    ),
    node(
        "GeGluV2",
        &["x"],
        &["y", "gelu"],
        Infer::By(infer_two_halves),
        geglu,
        &[A(0), DIM, APPROXIMATE, ACTIVATE_LEFT, O(0), O(1)],
    ),
    node(
        "GeGluGradV2",
        &["dy", "x", "gelu"],
        &["dx"],
        Infer::Like(1),
        geglu_backward,
        &[A(0), A(1), A(2), DIM, APPROXIMATE, ACTIVATE_LEFT, O(0)],
    ),
    node(
        "GeluMul",
        &["x"],
        &["y"],
        Infer::By(infer_one_half),
        geglu,
        &[A(0), I(-1), Attr("approximate", AttrDefault::Text("none")), B(true), O(0)],
    ),
];
