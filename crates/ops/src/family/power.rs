//! Powers, and other functions of two tensors.

use super::complex::{power, reciprocal};
use super::elementwise::Input;
use super::formula::{Formula, Kind, complex, number, real};
use super::unary::{RECIPROCAL, RSQRT, SQRT, SQUARE};
use super::unsigned::{self, unsigned_or};
use crate::call::Call;
use crate::error::{Error, Result};
use crate::infer::Infer;
use crate::plan::Plan;
use crate::table::ArgSource::{A, Attr, O};
use crate::table::{ArgSource, AttrDefault, Node, Row, aclnn, node};
use cairn_tensor::Scalar;
use cairn_tensor::kernels::math::Real;
use cairn_tensor::kernels::number::Number;

/// x to the power of y.
pub const POW: Formula<2> = number!(|x, y| x.power(y)).with_complex(complex!(|x, y| power(x, y)));
const CUBE: Formula<1> = number!(|x| x.mul(x).mul(x)).with_complex(complex!(|x| x * x * x));
const SQUARED_RECIPROCAL: Formula<1> =
    real!(|x| C::ONE.div(x.mul(x))).with_complex(complex!(|x| reciprocal(x * x)));
const ATAN2: Formula<2> = real!(|y, x| y.atan2(x));
const XLOGY: Formula<2> = real!(|x, y| {
    let product = x.mul(y.ln());
    let is_zero = x == C::ZERO && !y.is_nan();
    if is_zero { C::ZERO } else { product }
});
const XLOG1PY: Formula<2> = real!(|x, y| {
    let product = x.mul(y.ln_1p());
    let is_zero = x == C::ZERO && !y.is_nan();
    if is_zero { C::ZERO } else { product }
});
const LOGADDEXP: Formula<2> = real!(|x, y| {
    let max = x.greatest(y);
    let correction = x.sub(y).abs().neg().exp().ln_1p();
    if x == y && !x.is_finite() { x } else { max.add(correction) }
});
const LOGADDEXP2: Formula<2> = real!(|x, y| {
    let max = x.greatest(y);
    let correction = x.sub(y).abs().neg().exp2().ln_1p().mul(C::of(std::f64::consts::LOG2_E));
    if x == y && !x.is_finite() { x } else { max.add(correction) }
});
const HEAVISIDE: Formula<2> = number!(|x, y| {
    if x == C::ZERO {
        y
    } else if x < C::ZERO || x.is_nan() {
        C::ZERO
    } else {
        C::ONE
    }
});

/// A power whose exponent may be a scalar that has a shorter formula. Arguments: base, exponent, out.
fn pow(call: &mut Call<'_>) -> Result<Plan> {
    let (base, exponent) = (call.input(0)?, call.input(1)?);
    let (Input::Tensor(base), Input::Scalar(scalar)) = (base, exponent) else {
        return POW.plan(call);
    };
    let is_real = base.dtype.is_floating() || base.dtype.is_complex();
    if matches!(scalar, Scalar::Complex(..)) {
        return POW.plan(call);
    }
    let is_integer = !is_real && matches!(scalar, Scalar::Int(..));
    let formula = match scalar.as_f64() {
        2.0 if is_real || is_integer => SQUARE,
        3.0 if is_real || is_integer => CUBE,
        0.5 if is_real => SQRT,
        -0.5 if is_real => RSQRT,
        -1.0 if is_real => RECIPROCAL,
        -2.0 if is_real => SQUARED_RECIPROCAL,
        _ => return POW.plan(call),
    };
    Formula { defaults: &[0.0], kind: if is_real { Kind::Real } else { Kind::Number }, ..formula }
        .plan(call)
}

/// The logarithm of a sum of powers, to the base e (-1) or 2. Arguments: x, y, out, base, factor and term of the exponents.
fn log_add_exp(call: &mut Call<'_>) -> Result<Plan> {
    let [base, scale, shift] = [call.float(3)?, call.float(4)?, call.float(5)?];
    if scale != 1.0 || shift != 0.0 || (base != -1.0 && base != 2.0) {
        let [one, two, three] = [3, 4, 5].map(|at| call.parameter(at));
        return Err(Error::invalid(format!(
            "{one} = {base}, {two} = {scale} and {three} = {shift}: only base -1 or 2, 1 and 0 are supported"
        )));
    }
    let formula = if base == 2.0 { LOGADDEXP2 } else { LOGADDEXP };
    formula.plan_at(call, [0, 1], &[], 2)
}

const SELF: &[ArgSource] = &[A(0), A(1), A(0)];
const BINARY: &[ArgSource] = &[A(0), A(1), O(0)];

/// The rows of this family.
pub const ROWS: &[Row] = &[
    aclnn("PowTensorScalar", pow),
    aclnn("PowTensorTensor", |c| POW.plan(c)),
    aclnn("PowScalarTensor", |c| POW.plan(c)),
    aclnn("InplacePowTensorScalar", pow).with_args(SELF),
    aclnn("InplacePowTensorTensor", |c| POW.plan(c)).with_args(SELF),
    aclnn("Atan2", |c| ATAN2.plan(c)),
    aclnn("InplaceAtan2", |c| ATAN2.plan(c)).with_args(SELF),
    aclnn("XLogYTensor", |c| XLOGY.plan(c)),
    aclnn("XLogYScalarOther", |c| XLOGY.plan(c)),
    aclnn("XLogYScalarSelf", |c| XLOGY.plan(c)),
    aclnn("InplaceXLogYTensor", |c| XLOGY.plan(c)).with_args(SELF),
    aclnn("InplaceXLogYScalarOther", |c| XLOGY.plan(c)).with_args(SELF),
    aclnn("Xlog1py", |c| XLOG1PY.plan(c)),
    aclnn("LogAddExp", |c| LOGADDEXP.plan(c)),
    aclnn("LogAddExp2", |c| LOGADDEXP2.plan(c)),
    aclnn("Heaviside", |c| HEAVISIDE.plan(c)),
];

/// The operators of this family by IR name.
pub const NODES: &[Node] = &[
    node(
        "Pow",
        &["x1", "x2"],
        &["y"],
        Infer::Broadcast(0, 1),
        |c| unsigned_or(c, &unsigned::POW, |c| POW.plan(c)),
        BINARY,
    )
    .elementwise(),
    node("Atan2", &["x1", "x2"], &["y"], Infer::Broadcast(0, 1), |c| ATAN2.plan(c), BINARY)
        .elementwise(),
    node("Xlogy", &["x1", "x2"], &["y"], Infer::Broadcast(0, 1), |c| XLOGY.plan(c), BINARY)
        .elementwise(),
    node(
        "LogAddExp",
        &["x1", "x2"],
        &["y"],
        Infer::Broadcast(0, 1),
        log_add_exp,
        &[
            A(0),
            A(1),
            O(0),
            Attr("base", AttrDefault::Float(-1.0)),
            Attr("scale", AttrDefault::Float(1.0)),
            Attr("shift", AttrDefault::Float(0.0)),
        ],
    )
    .elementwise(),
];
