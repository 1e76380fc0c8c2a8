//! The gradients of activations: functions of the gradient of the output, and of input or output.

use super::activation::{CUBIC, ROOT, SELU, uses_tanh};
use super::formula::{Formula, complex, number, real};
use crate::call::Call;
use crate::error::{Error, Result};
use crate::infer::Infer;
use crate::plan::{Operand, Plan};
use crate::table::ArgSource::{A, Attr, B, I, O};
use crate::table::{ArgSource, AttrDefault, Node, Row, aclnn, node};
use cairn_tensor::kernels::math::Real;
use cairn_tensor::kernels::number::Number;
use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI};

const THRESHOLD: Formula<2> =
    number!(|g, x; threshold = 0.0| if x <= threshold { C::ZERO } else { g });
const SIGMOID: Formula<2> =
    real!(|g, y| g.mul(C::ONE.sub(y)).mul(y)).with_complex(complex!(|g, y| g * (y - y * y).conj()));
const TANH: Formula<2> =
    real!(|g, y| g.mul(C::ONE.sub(y.mul(y)))).with_complex(complex!(|g, y| g - g * (y * y).conj()));
const GELU: Formula<2> = real!(|g, x| {
    let cdf = C::of(0.5).mul(C::ONE.add(x.mul(C::of(FRAC_1_SQRT_2)).erf()));
    let density = x.mul(x).mul(C::of(-0.5)).exp().mul(C::of(FRAC_2_SQRT_PI * FRAC_1_SQRT_2 * 0.5));
    g.mul(cdf.add(x.mul(density)))
});
const GELU_TANH: Formula<2> = real!(|g, x| {
    let square = x.mul(x);
    let inner = x.add(C::of(CUBIC).mul(square).mul(x)).mul(C::of(ROOT));
    let t = inner.tanh();
    let inner_derivative = C::of(ROOT).mul(C::ONE.add(C::of(3.0 * CUBIC).mul(square)));
    let first_term = C::of(0.5).mul(C::ONE.add(t));
    let second_term = C::of(0.5).mul(x).mul(C::ONE.sub(t.mul(t))).mul(inner_derivative);
    g.mul(first_term.add(second_term))
});
const FAST_GELU: Formula<2> = real!(|g, x| {
    let s = x.mul(C::of(1.702)).sigmoid();
    g.mul(s).mul(C::ONE.add(x.mul(C::of(1.702)).mul(C::ONE.sub(s))))
});
const SWISH: Formula<2> = real!(|g, x; beta = 1.0| {
    let s = x.mul(beta).sigmoid();
    g.mul(s).mul(C::ONE.add(beta.mul(x).mul(C::ONE.sub(s))))
});
const LEAKY_RELU: Formula<2> =
    real!(|g, x; slope = 0.01, _is_result = 0.0| if x > C::ZERO { g } else { g.mul(slope) });
const ELU: Formula<2> = real!(|g, x; alpha = 1.0, scale = 1.0, input_scale = 1.0, is_result = 0.0| {
    let scaled_alpha = alpha.mul(scale);
    let derivative = match is_result == C::ZERO {
        true => scaled_alpha.mul(x.mul(input_scale).exp()),
        false => x.add(scaled_alpha),
    };
    if x <= C::ZERO { g.mul(input_scale).mul(derivative) } else { g.mul(scale) }
});
/// From the output y of SELU.
const SELU_FROM_OUTPUT: Formula<2> = real!(|g, y| {
    let (scaled_alpha, scale) = (C::of(SELU.0 * SELU.1), C::of(SELU.1));
    if y < C::ZERO { g.mul(y.add(scaled_alpha)) } else { g.mul(scale) }
});
const SOFTPLUS: Formula<2> = real!(|g, x; beta = 1.0, threshold = 20.0| {
    let scaled = x.mul(beta);
    if scaled > threshold { g } else { g.mul(scaled.sigmoid()) }
});
const MISH: Formula<2> = real!(|g, x| {
    let t = x.exp().ln_1p().tanh();
    g.mul(t.add(x.mul(x.sigmoid()).mul(C::ONE.sub(t.mul(t)))))
});
/// At -3 and 3 the derivative is that of the part between them.
const HARDSWISH: Formula<2> = real!(|g, x| {
    let three = C::of(3.0);
    let inside = g.mul(x.div(three).add(C::of(0.5)));
    let lower = if x < three.neg() { C::ZERO } else { inside };
    if x > three { g } else { lower }
});
/// At -3 and 3 the derivative is that of the parts outside them.
const HARDSWISH_OPEN: Formula<2> = real!(|g, x| {
    let three = C::of(3.0);
    let inside = g.mul(x.div(three).add(C::of(0.5)));
    let lower = if x <= three.neg() { C::ZERO } else { inside };
    if x < three { lower } else { g }
});
const HARDSIGMOID: Formula<2> = real!(|g, x; alpha = 0.16666666, beta = 0.5| {
    let y = x.mul(alpha).add(beta);
    if y > C::ZERO && y < C::ONE { g.mul(alpha) } else { C::ZERO }
});
const HARDTANH: Formula<2> = real!(|g, x; low = (-1.0), high = 1.0| {
    if x <= low || x >= high { C::ZERO } else { g }
});
const LOG_SIGMOID: Formula<2> = real!(|g, x| g.mul(x.neg().sigmoid()));
const SHRINK: Formula<2> = real!(|g, x; lambda = 0.5| {
    if x >= lambda.neg() && x <= lambda { C::ZERO } else { g }
});
const SOFTSIGN: Formula<2> = real!(|g, x| {
    let denominator = C::ONE.add(x.abs());
    g.div(denominator.mul(denominator))
});
const LOGIT: Formula<2> = real!(|x, g; eps = (-1.0)| {
    let (low, high) = if eps < C::ZERO { (C::ZERO, C::ONE) } else { (eps, C::ONE.sub(eps)) };
    let inside = g.div(x.mul(C::ONE.sub(x)));
    let outside = if eps < C::ZERO { C::of(f64::NAN) } else { C::ZERO };
    if x < low || x > high { outside } else { inside }
});
const SQRT: Formula<2> = real!(|y, g| g.mul(C::of(0.5)).div(y));
const ATAN: Formula<2> = real!(|x, g| g.div(C::ONE.add(x.mul(x))));
const ASINH: Formula<2> = real!(|y, g| g.div(y.cosh()));

/// GELU, exact or in its tanh form. Arguments: g, x, approximation (0 or "none", 1 or "tanh"), out.
fn gelu(call: &mut Call<'_>) -> Result<Plan> {
    let formula = if uses_tanh(call, 2)? { GELU_TANH } else { GELU };
    formula.plan_at(call, [0, 1], &[], 3)
}

/// The weight of a PReLU, with the dimensions of x: it broadcasts along all but the channels.
pub fn by_channel(call: &Call<'_>, x: &Operand, weight: Operand) -> Result<Operand> {
    let channels = if x.rank() > 1 { x.dims()[1] } else { 1 };
    let count = weight.count();
    let mut dims = vec![1; x.rank()];
    if count != 1 {
        if count != channels {
            let (name, x_dims) = (call.parameter(1), x.dims());
            return Err(Error::invalid(format!(
                "{name} has {count} elements: expected 1 or {channels}, the channels of {x_dims:?}"
            )));
        }
        dims[1] = channels;
    }
    let layout = weight.reshaped(&dims).ok_or_else(|| {
        Error::invalid(format!("{} ({}) must be contiguous", call.parameter(1), *weight))
    })?;
    Ok(weight.with_layout(layout))
}

const BINARY: &[ArgSource] = &[A(0), A(1), O(0)];

/// The rows of this family.
pub const ROWS: &[Row] = &[
    aclnn("ThresholdBackward", |c| THRESHOLD.plan(c)),
    aclnn("ReluGradV4", |c| THRESHOLD.plan(c)),
    aclnn("SigmoidBackward", |c| SIGMOID.plan(c)),
    aclnn("TanhBackward", |c| TANH.plan(c)),
    aclnn("GeluBackward", |c| GELU_TANH.plan(c)),
    aclnn("GeluBackwardV2", gelu),
    aclnn("FastGeluBackward", |c| FAST_GELU.plan(c)),
    aclnn("SiluBackward", |c| SWISH.plan_at(c, [0, 1], &[], 2)),
    aclnn("SwishBackward", |c| SWISH.plan(c)),
    aclnn("LeakyReluBackward", |c| LEAKY_RELU.plan(c)),
    aclnn("EluBackward", |c| ELU.plan(c)).with_args(&[A(0), A(5), A(1), A(2), A(3), A(4), A(6)]),
    aclnn("SeluBackward", |c| SELU_FROM_OUTPUT.plan(c)),
    aclnn("SoftplusBackward", |c| SOFTPLUS.plan(c)),
    aclnn("MishBackward", |c| MISH.plan(c)),
    aclnn("HardswishBackward", |c| HARDSWISH.plan(c)),
    aclnn("HardswishBackwardV2", |c| HARDSWISH_OPEN.plan(c)),
    aclnn("HardsigmoidBackward", |c| HARDSIGMOID.plan_at(c, [0, 1], &[], 2)),
    aclnn("HardtanhBackward", |c| HARDTANH.plan(c)),
    aclnn("LogSigmoidBackward", |c| LOG_SIGMOID.plan(c)).with_args(&[A(0), A(1), A(3)]),
    aclnn("SoftshrinkBackward", |c| SHRINK.plan(c)),
    aclnn("HardshrinkBackward", |c| SHRINK.plan(c)),
    aclnn("SoftsignBackward", |c| SOFTSIGN.plan(c)),
    aclnn("LogitGrad", |c| LOGIT.plan(c)),
    aclnn("SqrtBackward", |c| SQRT.plan(c)),
    aclnn("AtanGrad", |c| ATAN.plan(c)),
    aclnn("AsinhGrad", |c| ASINH.plan(c)),
];

/// The operators of this family by IR name.
pub const NODES: &[Node] = &[
    node(
        "ReluGrad",
        &["gradients", "features"],
        &["backprops"],
        Infer::Like(1),
        |c| THRESHOLD.plan_at(c, [0, 1], &[], 2),
        BINARY,
    )
    .elementwise(),
    node(
        "SigmoidGrad",
        &["y", "dy"],
        &["z"],
        Infer::Like(0),
        |c| SIGMOID.plan(c),
        &[A(1), A(0), O(0)],
    )
    .elementwise(),
    node("TanhGrad", &["y", "dy"], &["z"], Infer::Like(0), |c| TANH.plan(c), &[A(1), A(0), O(0)])
        .elementwise(),
    node("GeluGrad", &["dy", "x", "y"], &["z"], Infer::Like(1), gelu, &[A(0), A(1), I(1), O(0)])
        .elementwise(),
    node(
        "GeluGradV2",
        &["dy", "x"],
        &["z"],
        Infer::Like(1),
        gelu,
        &[A(0), A(1), Attr("approximate", AttrDefault::Text("none")), O(0)],
    )
    .elementwise(),
    node("FastGeluGrad", &["dy", "x"], &["z"], Infer::Like(1), |c| FAST_GELU.plan(c), BINARY)
        .elementwise(),
    node(
        "LeakyReluGrad",
        &["gradients", "features"],
        &["backprops"],
        Infer::Like(1),
        |c| LEAKY_RELU.plan(c),
        &[A(0), A(1), Attr("negative_slope", AttrDefault::Float(0.0)), B(false), O(0)],
    )
    .elementwise(),
    node(
        "EluGradV2",
        &["grads", "activations"],
        &["y"],
        Infer::Like(1),
        |c| ELU.plan(c),
        &[
            A(0),
            A(1),
            Attr("alpha", AttrDefault::Float(1.0)),
            Attr("scale", AttrDefault::Float(1.0)),
            Attr("input_scale", AttrDefault::Float(1.0)),
            Attr("is_result", AttrDefault::Flag(false)),
            O(0),
        ],
    )
    .elementwise(),
    node("MishGrad", &["grad", "x"], &["x_grad"], Infer::Like(1), |c| MISH.plan(c), BINARY)
        .elementwise(),
    node("HardSwishGrad", &["grad", "x"], &["y"], Infer::Like(1), |c| HARDSWISH.plan(c), BINARY)
        .elementwise(),
    node(
        "SwishGrad",
        &["grad", "x", "y"],
        &["grad_x"],
        Infer::Like(0),
        |c| SWISH.plan(c),
        &[A(0), A(1), Attr("scale", AttrDefault::Float(1.0)), O(0)],
    )
    .elementwise(),
    node(
        "HardSigmoidGrad",
        &["grads", "input_x"],
        &["y"],
        Infer::Like(1),
        |c| HARDSIGMOID.plan(c),
        &[
            A(0),
            A(1),
            Attr("alpha", AttrDefault::Float(0.166_666_66)),
            Attr("beta", AttrDefault::Float(0.5)),
            O(0),
        ],
    )
    .elementwise(),
    node(
        "HardtanhGrad",
        &["result", "grad"],
        &["y"],
        Infer::Like(0),
        |c| HARDTANH.plan(c),
        &[
            A(1),
            A(0),
            Attr("min_val", AttrDefault::Float(-1.0)),
            Attr("max_val", AttrDefault::Float(1.0)),
            O(0),
        ],
    )
    .elementwise(),
    node(
        "LogSigmoidGrad",
        &["grads", "features"],
        &["backprops"],
        Infer::Like(1),
        |c| LOG_SIGMOID.plan(c),
        BINARY,
    )
    .elementwise(),
    node(
        "ThresholdGradV2D",
        &["gradients", "features"],
        &["backprops"],
        Infer::Like(1),
        |c| THRESHOLD.plan(c),
        &[A(0), A(1), Attr("threshold", AttrDefault::Required), O(0)],
    )
    .elementwise(),
    node(
        "HardShrinkGrad",
        &["gradients", "features"],
        &["backprops"],
        Infer::Like(1),
        |c| SHRINK.plan(c),
        &[A(0), A(1), Attr("lambd", AttrDefault::Float(0.5)), O(0)],
    )
    .elementwise(),
    node(
        "SoftShrinkGrad",
        &["input_grad", "input_x"],
        &["output_y"],
        Infer::Like(1),
        |c| SHRINK.plan(c),
        &[A(0), A(1), Attr("lambd", AttrDefault::Float(0.5)), O(0)],
    )
    .elementwise(),
    node(
        "SeluGrad",
        &["gradients", "outputs"],
        &["y"],
        Infer::Like(1),
        |c| SELU_FROM_OUTPUT.plan(c),
        BINARY,
    )
    .elementwise(),
    node(
        "SiluGrad",
        &["dy", "x"],
        &["dx"],
        Infer::Like(1),
        |c| SWISH.plan_at(c, [0, 1], &[], 2),
        BINARY,
    )
    .elementwise(),
    node(
        "SoftplusV2Grad",
        &["input_gradients", "input_features"],
        &["output_backprops"],
        Infer::Like(1),
        |c| SOFTPLUS.plan(c),
        &[
            A(0),
            A(1),
            Attr("beta", AttrDefault::Float(1.0)),
            Attr("threshold", AttrDefault::Float(20.0)),
            O(0),
        ],
    )
    .elementwise(),
];
