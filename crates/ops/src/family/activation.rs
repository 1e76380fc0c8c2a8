//! Activations of neural networks. Their gradients are in `activation_grad`.

use super::complex::{reciprocal, tanh};
use super::formula::{Formula, KnownFunction, Parameters, complex, number, real};
use crate::call::Call;
use crate::error::{Error, Result};
use crate::infer::Infer;
use crate::plan::Plan;
use crate::table::ArgSource::{A, Attr, I, O};
use crate::table::{ArgSource, AttrDefault, Node, Row, aclnn, node};
use cairn_tensor::kernels::math::Real;
use cairn_tensor::kernels::number::Number;
use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI};

/// sqrt(2 / pi).
pub const ROOT: f64 = FRAC_2_SQRT_PI * FRAC_1_SQRT_2;
/// The coefficient of x^3 in the tanh approximation of GELU.
pub const CUBIC: f64 = 0.044_715;
/// The two constants of SELU.
pub const SELU: (f64, f64) = (1.673_263_242_354_377_2, 1.050_700_987_355_480_5);

const RELU: Formula<1> =
    number!(|x| if x < C::ZERO { C::ZERO } else { x }).known_as(KnownFunction::Relu);
/// 1 / (1 + e^-x).
pub const SIGMOID: Formula<1> = real!(|x| x.sigmoid()).with_complex(complex!(|x| {
    reciprocal((-x).exp() + num_complex::Complex::new(T::one(), T::zero()))
}));
/// Hyperbolic tangent.
pub const TANH: Formula<1> = real!(|x| x.tanh()).with_complex(complex!(|x| tanh(x)));
const GELU: Formula<1> = real!(|x| {
    let one_plus_erf = C::ONE.add(x.mul(C::of(FRAC_1_SQRT_2)).erf());
    x.mul(C::of(0.5)).mul(one_plus_erf)
});
/// x / 2 (1 + tanh(..)), as x times the sigmoid of twice the argument of tanh.
const GELU_TANH: Formula<1> = real!(|x| {
    let factor = x.mul(x).mul(C::of(-2.0 * ROOT * CUBIC)).add(C::of(-2.0 * ROOT));
    x.div(C::ONE.add(x.mul(factor).exp()))
});
const FAST_GELU: Formula<1> = real!(|x| x.mul(x.mul(C::of(1.702)).sigmoid()));
const SILU: Formula<1> = real!(|x| x.div(C::ONE.add(x.neg().exp())));
const SWISH: Formula<1> = real!(|x; beta = 1.0| x.mul(x.mul(beta).sigmoid()));
const LEAKY_RELU: Formula<1> = real!(|x; slope = 0.01| if x > C::ZERO { x } else { x.mul(slope) });
const ELU: Formula<1> = real!(|x; alpha = 1.0, scale = 1.0, input_scale = 1.0| {
    let negative = x.mul(input_scale).expm1().mul(alpha).mul(scale);
    if x <= C::ZERO { negative } else { x.mul(scale) }
});
const SELU_FORMULA: Formula<1> = real!(|x| {
    let (alpha, scale) = (C::of(SELU.0), C::of(SELU.1));
    if x <= C::ZERO { x.expm1().mul(alpha).mul(scale) } else { x.mul(scale) }
});
const CELU: Formula<1> = real!(|x; alpha = 1.0| {
    let negative = x.div(alpha).expm1().mul(alpha);
    if x <= C::ZERO { negative } else { x }
});
const SOFTPLUS: Formula<1> = real!(|x; beta = 1.0, threshold = 20.0| {
    let scaled = x.mul(beta);
    let softplus = scaled.exp().ln_1p().div(beta);
    if scaled > threshold { x } else { softplus }
});
const MISH: Formula<1> = real!(|x| x.mul(x.exp().ln_1p().tanh()));
const HARDSWISH: Formula<1> = real!(|x| {
    let six = C::of(6.0);
    x.mul(x.add(C::of(3.0)).greatest(C::ZERO).least(six)).div(six)
});
const HARDSIGMOID: Formula<1> = real!(|x| {
    let six = C::of(6.0);
    x.add(C::of(3.0)).greatest(C::ZERO).least(six).div(six)
});
/// min(max(alpha x + beta, 0), 1), as `HardSigmoid` by IR name has it.
const HARDSIGMOID_OF: Formula<1> = real!(|x; alpha = 0.16666666, beta = 0.5| {
    x.mul(alpha).add(beta).greatest(C::ZERO).least(C::ONE)
});
const HARDTANH: Formula<1> = number!(|x; low = (-1.0), high = 1.0| x.greatest(low).least(high));
const THRESHOLD: Formula<1> =
    number!(|x; threshold = 0.0, value = 0.0| if x <= threshold { value } else { x });
const LOG_SIGMOID: Formula<1> = real!(|x| x.least(C::ZERO).sub(x.abs().neg().exp().ln_1p()));
const SOFTSHRINK: Formula<1> = real!(|x; lambda = 0.5| {
    let inside = if x < lambda.neg() { x.add(lambda) } else { x.mul(C::ZERO) };
    if x > lambda { x.sub(lambda) } else { inside }
});
const HARDSHRINK: Formula<1> =
    real!(|x; lambda = 0.5| if x >= lambda.neg() && x <= lambda { C::ZERO } else { x });
const SHRINK: Formula<1> = real!(|x; lambda = 0.5, bias = 0.0| {
    let inside = if x < lambda.neg() { x.add(bias) } else { C::ZERO };
    if x > lambda { x.sub(bias) } else { inside }
});
const SOFTSIGN: Formula<1> = real!(|x| x.div(C::ONE.add(x.abs())));
const LOGIT: Formula<1> = real!(|x; eps = (-1.0)| {
    let x = if eps < C::ZERO { x } else { x.greatest(eps).least(C::ONE.sub(eps)) };
    x.div(C::ONE.sub(x)).ln()
});
const PRELU: Formula<2> = real!(|x, weight| if x > C::ZERO { x } else { x.mul(weight) });

/// GELU, exact or in its tanh form. Arguments: x, approximation (0 or "none", 1 or "tanh"), y.
fn gelu(call: &mut Call<'_>) -> Result<Plan> {
    let formula = if uses_tanh(call, 1)? { GELU_TANH } else { GELU };
    formula.plan_at(call, [0], &[], 2)
}

/// Whether a GELU is to be in its tanh form.
pub fn uses_tanh(call: &Call<'_>, at: usize) -> Result<bool> {
    if let crate::argument::Arg::Int(number @ (0 | 1)) = call.arg(at) {
        return Ok(*number == 1);
    }
    match call.text(at)? {
        "none" | "" => Ok(false),
        "tanh" => Ok(true),
        other => {
            let name = call.parameter(at);
            Err(Error::invalid(format!("{name} = \"{other}\": expected \"none\" or \"tanh\"")))
        }
    }
}

/// The weight is a slope for each channel, or one for all. Arguments: x, weight, out.
fn prelu(call: &mut Call<'_>) -> Result<Plan> {
    let (x, weight, out) = (call.tensor(0)?, call.tensor(1)?, call.output(2)?);
    let weight = super::activation_grad::by_channel(call, &x, weight)?;
    let inputs = [super::elementwise::Input::Tensor(x), super::elementwise::Input::Tensor(weight)];
    PRELU.bind(call, inputs, Parameters::new(), out, 2)?.plan(call)
}

// In place: the output is the first argument.
const SELF: &[ArgSource] = &[A(0), A(0)];
const SELF_1: &[ArgSource] = &[A(0), A(1), A(0)];
const SELF_2: &[ArgSource] = &[A(0), A(1), A(2), A(0)];
const UNARY: &[ArgSource] = &[A(0), O(0)];

/// The rows of this family.
pub const ROWS: &[Row] = &[
    aclnn("Relu", |c| RELU.plan(c)),
    aclnn("InplaceRelu", |c| RELU.plan(c)).with_args(SELF),
    aclnn("Sigmoid", |c| SIGMOID.plan(c)),
    aclnn("InplaceSigmoid", |c| SIGMOID.plan(c)).with_args(SELF),
    aclnn("Tanh", |c| TANH.plan(c)),
    aclnn("InplaceTanh", |c| TANH.plan(c)).with_args(SELF),
    aclnn("Gelu", |c| GELU_TANH.plan(c)),
    aclnn("GeluV2", gelu),
    aclnn("FastGelu", |c| FAST_GELU.plan(c)),
    aclnn("FastGeluV2", |c| FAST_GELU.plan(c)),
    aclnn("Silu", |c| SILU.plan(c)),
    aclnn("Swish", |c| SWISH.plan(c)),
    aclnn("LeakyRelu", |c| LEAKY_RELU.plan(c)),
    aclnn("InplaceLeakyRelu", |c| LEAKY_RELU.plan(c)).with_args(SELF_1),
    aclnn("Elu", |c| ELU.plan(c)),
    aclnn("EluV2", |c| ELU.plan(c)),
    aclnn("InplaceElu", |c| ELU.plan(c)).with_args(&[A(0), A(1), A(2), A(3), A(0)]),
    aclnn("Selu", |c| SELU_FORMULA.plan(c)),
    aclnn("InplaceSelu", |c| SELU_FORMULA.plan(c)).with_args(SELF),
    aclnn("Celu", |c| CELU.plan(c)),
    aclnn("InplaceCelu", |c| CELU.plan(c)).with_args(SELF_1),
    aclnn("Softplus", |c| SOFTPLUS.plan(c)),
    aclnn("Mish", |c| MISH.plan(c)),
    aclnn("InplaceMish", |c| MISH.plan(c)).with_args(SELF),
    aclnn("Hardswish", |c| HARDSWISH.plan(c)),
    aclnn("InplaceHardswish", |c| HARDSWISH.plan(c)).with_args(SELF),
    aclnn("Hardsigmoid", |c| HARDSIGMOID.plan(c)),
    aclnn("HardsigmoidV2", |c| HARDSIGMOID.plan(c)),
    aclnn("InplaceHardsigmoid", |c| HARDSIGMOID.plan(c)).with_args(SELF),
    aclnn("InplaceHardsigmoidV2", |c| HARDSIGMOID.plan(c)).with_args(SELF),
    aclnn("Hardtanh", |c| HARDTANH.plan(c)),
    aclnn("InplaceHardtanh", |c| HARDTANH.plan(c)).with_args(SELF_2),
    aclnn("Threshold", |c| THRESHOLD.plan(c)),
    aclnn("ThresholdV2", |c| THRESHOLD.plan(c)),
    aclnn("InplaceThreshold", |c| THRESHOLD.plan(c)).with_args(SELF_2),
    aclnn("LogSigmoid", |c| LOG_SIGMOID.plan(c)),
    aclnn("LogSigmoidForward", |c| LOG_SIGMOID.plan(c)).with_args(&[A(0), A(1)]),
    aclnn("Softshrink", |c| SOFTSHRINK.plan(c)),
    aclnn("Hardshrink", |c| HARDSHRINK.plan(c)),
    aclnn("Shrink", |c| SHRINK.plan(c)),
    aclnn("Softsign", |c| SOFTSIGN.plan(c)),
    aclnn("Logit", |c| LOGIT.plan(c)),
    aclnn("Prelu", prelu),
];

macro_rules! nodes {
    ($($name:literal => $function:expr;)*) => {
        &[$(node($name, &["x"], &["y"], Infer::Like(0), $function, UNARY).elementwise(),)*]
    };
}

/// The operators of this family by IR name.
pub const NODES: &[Node] = nodes! {
    "Relu" => |c| RELU.plan(c);
    "Sigmoid" => |c| SIGMOID.plan(c);
    "Tanh" => |c| TANH.plan(c);
    "FastGelu" => |c| FAST_GELU.plan(c);
    "Mish" => |c| MISH.plan(c);
    "HardSwish" => |c| HARDSWISH.plan(c);
    "LogSigmoid" => |c| LOG_SIGMOID.plan(c);
    "Selu" => |c| SELU_FORMULA.plan(c);
    "Softsign" => |c| SOFTSIGN.plan(c);
    "Softplus" => |c| SOFTPLUS.plan_at(c, [0], &[], 1);
};

/// Operators by IR name with attributes or more inputs.
pub const MORE_NODES: &[Node] = &[
    node("Gelu", &["x"], &["y"], Infer::Like(0), gelu, &[A(0), I(1), O(0)]).elementwise(),
    node(
        "GeluV2",
        &["x"],
        &["y"],
        Infer::Like(0),
        gelu,
        &[A(0), Attr("approximate", AttrDefault::Text("none")), O(0)],
    )
    .elementwise(),
    node(
        "Swish",
        &["x"],
        &["y"],
        Infer::Like(0),
        |c| SWISH.plan(c),
        &[A(0), Attr("scale", AttrDefault::Float(1.0)), O(0)],
    )
    .elementwise(),
    node(
        "LeakyRelu",
        &["x"],
        &["y"],
        Infer::Like(0),
        |c| LEAKY_RELU.plan(c),
        &[A(0), Attr("negative_slope", AttrDefault::Float(0.0)), O(0)],
    )
    .elementwise(),
    node(
        "Elu",
        &["x"],
        &["y"],
        Infer::Like(0),
        |c| ELU.plan(c),
        &[
            A(0),
            Attr("alpha", AttrDefault::Float(1.0)),
            Attr("scale", AttrDefault::Float(1.0)),
            Attr("input_scale", AttrDefault::Float(1.0)),
            O(0),
        ],
    )
    .elementwise(),
    node(
        "HardSigmoid",
        &["input_x"],
        &["output_y"],
        Infer::Like(0),
        |c| HARDSIGMOID_OF.plan(c),
        &[
            A(0),
            Attr("alpha", AttrDefault::Float(0.166_666_66)),
            Attr("beta", AttrDefault::Float(0.5)),
            O(0),
        ],
    )
    .elementwise(),
    node(
        "ThresholdV2",
        &["x", "threshold", "value?"],
        &["y"],
        Infer::Like(0),
        |c| THRESHOLD.plan(c),
        &[A(0), A(1), A(2), O(0)],
    )
    .elementwise(),
    node(
        "ThresholdV2D",
        &["x"],
        &["y"],
        Infer::Like(0),
        |c| THRESHOLD.plan(c),
        &[
            A(0),
            Attr("threshold", AttrDefault::Required),
            Attr("value", AttrDefault::Required),
            O(0),
        ],
    )
    .elementwise(),
    node(
        "HardShrink",
        &["input_x"],
        &["output_y"],
        Infer::Like(0),
        |c| HARDSHRINK.plan(c),
        &[A(0), Attr("lambd", AttrDefault::Float(0.5)), O(0)],
    )
    .elementwise(),
    node(
        "SoftShrink",
        &["input_x"],
        &["output_y"],
        Infer::Like(0),
        |c| SOFTSHRINK.plan(c),
        &[A(0), Attr("lambd", AttrDefault::Float(0.5)), O(0)],
    )
    .elementwise(),
    node(
        "CeluV2",
        &["x"],
        &["y"],
        Infer::Like(0),
        |c| CELU.plan(c),
        &[A(0), Attr("alpha", AttrDefault::Float(1.0)), O(0)],
    )
    .elementwise(),
    node(
        "SoftplusV2",
        &["x"],
        &["y"],
        Infer::Like(0),
        |c| SOFTPLUS.plan(c),
        &[
            A(0),
            Attr("beta", AttrDefault::Float(1.0)),
            Attr("threshold", AttrDefault::Float(20.0)),
            O(0),
        ],
    )
    .elementwise(),
    node("PRelu", &["x", "weight"], &["y"], Infer::Like(0), prelu, &[A(0), A(1), O(0)]),
];
