//! Functions of one tensor.

use super::complex::{reciprocal, sgn};
use super::formula::{Formula, Kind, SAME, complex, formula, number, real, test};
use super::unsigned::{self, unsigned_or};
use crate::call::Call;
use crate::error::Result;
use crate::infer::Infer;
use crate::plan::Plan;
use crate::table::ArgSource::{A, Attr, O};
use crate::table::{ArgSource, AttrDefault, Node, Row, aclnn, node};
use cairn_tensor::kernels::element::compute_type;
use cairn_tensor::kernels::math::{MAX_ANGLE, Real};
use cairn_tensor::kernels::number::Number;
use cairn_tensor::kernels::strip::vectorised;
use cairn_tensor::{DType, Layout, with_real};

/// A formula of angles: `$small` for strips without large ones, `$any` where one is very large.
macro_rules! trigonometric {
    ($small:ident, $any:ident) => {
        Formula::<1> {
            kind: Kind::Real,
            defaults: &[],
            run: |dtype, args, _| {
                fn run<C: Real>(x: &[C], to: &mut [C]) {
                    let limit = C::of(f64::from(MAX_ANGLE));
                    vectorised(|| {
                        let all_small = x.iter().fold(true, |all, x| all & (x.abs() <= limit));
                        if all_small {
                            to.iter_mut().zip(x).for_each(|(to, x)| *to = x.$small());
                        } else {
                            to.iter_mut().zip(x).for_each(|(to, x)| *to = x.$any());
                        }
                    });
                }
                with_real!(dtype, C => args.strips::<C, C>(&run::<C>))
            },
            complex: None,
            known: None,
        }
    };
}

/// -x.
pub const NEG: Formula<1> = number!(|x| x.neg()).with_complex(complex!(|x| -x));
/// |x|.
pub const ABS: Formula<1> = number!(|x| x.abs()).with_complex(complex!(-> real |x| x.norm()));
/// -1, 0 or 1.
pub const SIGN: Formula<1> = number!(|x| x.sign()).with_complex(complex!(|x| sgn(x)));
/// x * x.
pub const SQUARE: Formula<1> = number!(|x| x.mul(x)).with_complex(complex!(|x| x * x));
/// e^x.
pub const EXP: Formula<1> = real!(|x| x.exp()).with_complex(complex!(|x| x.exp()));
/// 2^x.
pub const EXP2: Formula<1> = real!(|x| x.exp2())
    .with_complex(complex!(|x| (x * <T as num_traits::FloatConst>::LN_2()).exp()));
/// e^x - 1.
pub const EXPM1: Formula<1> = real!(|x| x.expm1());
/// Natural logarithm.
pub const LOG: Formula<1> = real!(|x| x.ln()).with_complex(complex!(|x| x.ln()));
/// ln(1 + x).
pub const LOG1P: Formula<1> = real!(|x| x.ln_1p());
/// Logarithm to base 2.
pub const LOG2: Formula<1> =
    real!(|x| x.log2()).with_complex(complex!(|x| x.ln() / <T as num_traits::FloatConst>::LN_2()));
/// Logarithm to base 10.
pub const LOG10: Formula<1> = real!(|x| x.log10())
    .with_complex(complex!(|x| x.ln() / <T as num_traits::FloatConst>::LN_10()));
/// Square root.
pub const SQRT: Formula<1> = real!(|x| x.sqrt()).with_complex(complex!(|x| x.sqrt()));
/// 1 / sqrt(x).
pub const RSQRT: Formula<1> =
    real!(|x| C::ONE.div(x.sqrt())).with_complex(complex!(|x| reciprocal(x.sqrt())));
/// 1 / x.
pub const RECIPROCAL: Formula<1> =
    real!(|x| C::ONE.div(x)).with_complex(complex!(|x| reciprocal(x)));
/// Tangent.
pub const TAN: Formula<1> = real!(|x| x.tan()).with_complex(complex!(|x| x.tan()));
/// Inverse sine.
pub const ASIN: Formula<1> = real!(|x| x.asin()).with_complex(complex!(|x| x.asin()));
/// Inverse cosine.
pub const ACOS: Formula<1> = real!(|x| x.acos()).with_complex(complex!(|x| x.acos()));
/// Inverse tangent.
pub const ATAN: Formula<1> = real!(|x| x.atan()).with_complex(complex!(|x| x.atan()));
/// Hyperbolic sine.
pub const SINH: Formula<1> = real!(|x| x.sinh()).with_complex(complex!(|x| x.sinh()));
/// Hyperbolic cosine.
pub const COSH: Formula<1> = real!(|x| x.cosh()).with_complex(complex!(|x| x.cosh()));
/// Inverse hyperbolic sine.
pub const ASINH: Formula<1> = real!(|x| x.asinh()).with_complex(complex!(|x| x.asinh()));
/// Inverse hyperbolic cosine.
pub const ACOSH: Formula<1> = real!(|x| x.acosh()).with_complex(complex!(|x| x.acosh()));
/// Inverse hyperbolic tangent.
pub const ATANH: Formula<1> = real!(|x| x.atanh()).with_complex(complex!(|x| x.atanh()));
/// Error function.
pub const ERF: Formula<1> = real!(|x| x.erf());
/// 1 - erf(x).
pub const ERFC: Formula<1> = real!(|x| x.erfc());
/// Inverse of the error function.
pub const ERFINV: Formula<1> = real!(|x| x.erfinv());
/// sin(pi x) / (pi x).
pub const SINC: Formula<1> = real!(|x| {
    let angle = x.mul(C::of(std::f64::consts::PI));
    if x == C::ZERO { C::ONE } else { angle.sin().div(angle) }
});
/// Sine.
pub const SIN: Formula<1> = trigonometric!(sin_near, sin).with_complex(complex!(|x| x.sin()));
/// Cosine.
pub const COS: Formula<1> = trigonometric!(cos_near, cos).with_complex(complex!(|x| x.cos()));

const FLOOR: Formula<1> = real!(|x| x.floor());
const CEIL: Formula<1> = real!(|x| x.ceil());
const ROUND: Formula<1> = real!(|x| x.round());
const TRUNC: Formula<1> = real!(|x| x.trunc());
const FRAC: Formula<1> = real!(|x| x.sub(x.trunc()));
const NAN_TO_NUM: Formula<1> = real!(|x; nan = 0.0, posinf = 3.4e38, neginf = (-3.4e38)| {
    let x = if x.is_nan() { nan } else { x };
    let x = if x == C::GREATEST { posinf } else { x };
    if x == C::LEAST { neginf } else { x }
});

/// Integers are all finite: they are copied.
fn nan_to_num(call: &mut Call<'_>) -> Result<Plan> {
    let (from, to) = (call.layout(0)?, call.layout(4)?);
    if from.dtype.is_floating() {
        return NAN_TO_NUM.plan(call);
    }
    call.expect_castable(4, from.dtype, &to)?;
    SAME.plan_at(call, [0], &[], 4)
}

/// x rounded at a decimal.
const ROUND_DECIMALS: Formula<1> = real!(|x; decimals = 0.0| {
    let scale = if decimals.abs().is_nan() { decimals } else { ten_to(decimals.abs()) };
    if decimals == C::ZERO {
        x.round()
    } else if decimals > C::ZERO {
        x.mul(scale).round().div(scale)
    } else {
        x.div(scale).round().mul(scale)
    }
});

/// y = base^(scale x + shift); a base that is not positive stands for e.
const EXP_OF: Formula<1> = real!(|x; base = (-1.0), scale = 1.0, shift = 0.0| {
    let power = x.mul(scale).add(shift);
    if base > C::ZERO { power.mul(base.ln()).exp() } else { power.exp() }
});

/// y = the logarithm of scale x + shift to a base; a base that is not positive stands for e.
const LOG_OF: Formula<1> = real!(|x; base = (-1.0), scale = 1.0, shift = 0.0| {
    let log = x.mul(scale).add(shift).ln();
    if base > C::ZERO { log.div(base.ln()) } else { log }
});

const IS_FINITE: Formula<1> = formula!(Predicate, Real, with_real, bool, |x| x.is_finite())
    .with_complex(complex!(-> bool |x| x.re.is_finite() && x.im.is_finite()));
const IS_INF: Formula<1> = formula!(Predicate, Real, with_real, bool, |x| x.abs() == C::GREATEST)
    .with_complex(complex!(-> bool |x| x.re.is_infinite() || x.im.is_infinite()));
const IS_POS_INF: Formula<1> = formula!(Predicate, Real, with_real, bool, |x| x == C::GREATEST);
const IS_NEG_INF: Formula<1> = formula!(Predicate, Real, with_real, bool, |x| x == C::LEAST);
const IS_NAN: Formula<1> = formula!(Predicate, Real, with_real, bool, |x| x.is_nan()).with_complex(
    complex!(-> bool |x| num_traits::Float::is_nan(x.re) || num_traits::Float::is_nan(x.im)),
);
const SIGNBIT: Formula<1> = formula!(Predicate, Real, with_real, bool, |x| x.is_negative());
const LOGICAL_NOT: Formula<1> = test!(|x| x == C::ZERO)
    .with_complex(complex!(-> bool |x| x == num_complex::Complex::default()));

const BITWISE_NOT: Formula<1> = Formula {
    kind: Kind::Predicate,
    defaults: &[],
    run: |dtype, args, _| match dtype {
        DType::Bool => args.map::<bool, bool>(|x| !x),
        _ => args.map::<i64, i64>(|x| !x),
    },
    complex: None,
    known: None,
};

/// 10 to a small whole power.
fn ten_to<C: Real>(power: C) -> C {
    C::of(10.0).power(power)
}

/// Plans a formula that leaves integers as they are.
fn plan_unless_integer(call: &mut Call<'_>, formula: &Formula<1>) -> Result<Plan> {
    let dtype = call.layout(0)?.dtype;
    let is_integer = !dtype.is_floating() && !dtype.is_complex();
    match is_integer && formula.defaults.is_empty() {
        true => SAME.plan(call),
        false => formula.plan(call),
    }
}

fn bitwise_not(call: &mut Call<'_>) -> Result<Plan> {
    let layout = call.layout(0)?;
    let allowed =
        [DType::Int8, DType::Uint8, DType::Int16, DType::Int32, DType::Int64, DType::Bool];
    call.expect_dtype(0, &layout, &allowed)?;
    call.expect_castable(1, call.layout(0)?.dtype, &call.layout(1)?)?;
    BITWISE_NOT.plan(call)
}

fn round_decimals(call: &mut Call<'_>) -> Result<Plan> {
    match call.layout(0)?.dtype.is_floating() || call.int(1)? < 0 {
        true => ROUND_DECIMALS.plan(call),
        false => Formula { defaults: &[0.0], ..SAME }.plan(call),
    }
}

/// Booleans of the input's sizes.
fn infer_booleans(call: &Call<'_>) -> Result<Vec<Layout>> {
    Ok(vec![Layout::contiguous(DType::Bool, call.layout(0)?.dims())])
}

/// The input's type where it is real; `float` for integers.
fn infer_reals(call: &Call<'_>) -> Result<Vec<Layout>> {
    let layout = call.layout(0)?.packed();
    let is_kept = layout.dtype.is_floating() || compute_type(layout.dtype).is_none();
    Ok(vec![if is_kept { layout } else { layout.with_dtype(DType::Float) }])
}

/// In place: the argument is input and output.
const SELF: &[ArgSource] = &[A(0), A(0)];
const UNARY: &[ArgSource] = &[A(0), O(0)];

macro_rules! rows {
    ($($name:literal $(, $in_place:literal)? => $function:expr;)*) => {
        &[$(aclnn($name, $function), $(aclnn($in_place, $function).with_args(SELF),)?)*]
    };
}

macro_rules! nodes {
    ($($name:literal => $infer:expr, $function:expr;)*) => {
        &[$(node($name, &["x"], &["y"], $infer, $function, UNARY).elementwise(),)*]
    };
}

/// The rows of this family.
pub const ROWS: &[Row] = rows! {
    "Neg", "InplaceNeg" => |c| NEG.plan(c);
    "Abs" => |c| ABS.plan(c);
    "Sign" => |c| SIGN.plan(c);
    "Square" => |c| SQUARE.plan(c);
    "Exp", "InplaceExp" => |c| EXP.plan(c);
    "Exp2", "InplaceExp2" => |c| EXP2.plan(c);
    "Expm1", "InplaceExpm1" => |c| EXPM1.plan(c);
    "Log", "InplaceLog" => |c| LOG.plan(c);
    "Log1p", "InplaceLog1p" => |c| LOG1P.plan(c);
    "Log2", "InplaceLog2" => |c| LOG2.plan(c);
    "Log10", "InplaceLog10" => |c| LOG10.plan(c);
    "Sqrt", "InplaceSqrt" => |c| SQRT.plan(c);
    "Rsqrt", "InplaceRsqrt" => |c| RSQRT.plan(c);
    "Reciprocal", "InplaceReciprocal" => |c| RECIPROCAL.plan(c);
    "Sin", "InplaceSin" => |c| SIN.plan(c);
    "Cos", "InplaceCos" => |c| COS.plan(c);
    "Tan", "InplaceTan" => |c| TAN.plan(c);
    "Asin", "InplaceAsin" => |c| ASIN.plan(c);
    "Acos", "InplaceAcos" => |c| ACOS.plan(c);
    "Atan", "InplaceAtan" => |c| ATAN.plan(c);
    "Sinh", "InplaceSinh" => |c| SINH.plan(c);
    "Cosh", "InplaceCosh" => |c| COSH.plan(c);
    "Asinh", "InplaceAsinh" => |c| ASINH.plan(c);
    "Acosh", "InplaceAcosh" => |c| ACOSH.plan(c);
    "Atanh", "InplaceAtanh" => |c| ATANH.plan(c);
    "Erf", "InplaceErf" => |c| ERF.plan(c);
    "Erfc", "InplaceErfc" => |c| ERFC.plan(c);
    "Erfinv", "InplaceErfinv" => |c| ERFINV.plan(c);
    "Sinc", "InplaceSinc" => |c| SINC.plan(c);
    "Floor", "InplaceFloor" => |c| plan_unless_integer(c, &FLOOR);
    "Ceil", "InplaceCeil" => |c| plan_unless_integer(c, &CEIL);
    "Round", "InplaceRound" => |c| plan_unless_integer(c, &ROUND);
    "Trunc", "InplaceTrunc" => |c| plan_unless_integer(c, &TRUNC);
    "Frac", "InplaceFrac" => |c| FRAC.plan(c);
    "LogicalNot", "InplaceLogicalNot" => |c| LOGICAL_NOT.plan(c);
    "BitwiseNot" => bitwise_not;
    "IsFinite" => |c| IS_FINITE.plan(c);
    "IsInf" => |c| IS_INF.plan(c);
    "IsPosInf" => |c| IS_POS_INF.plan(c);
    "IsNegInf" => |c| IS_NEG_INF.plan(c);
    "Signbit" => |c| SIGNBIT.plan(c);
};

/// Rows with numbers besides the tensor.
pub const MORE: &[Row] = &[
    aclnn("RoundDecimals", round_decimals),
    aclnn("InplaceRoundDecimals", round_decimals).with_args(&[A(0), A(1), A(0)]),
    aclnn("NanToNum", nan_to_num),
    aclnn("InplaceNanToNum", nan_to_num).with_args(&[A(0), A(1), A(2), A(3), A(0)]),
];

/// The operators of this family by IR name.
pub const NODES: &[Node] = nodes! {
    "Neg" => Infer::Like(0), |c| NEG.plan(c);
    "Abs" => Infer::Like(0), |c| unsigned_or(c, &unsigned::ABS, |c| ABS.plan(c));
    "Sign" => Infer::Like(0), |c| unsigned_or(c, &unsigned::SIGN, |c| SIGN.plan(c));
    "Square" => Infer::Like(0), |c| SQUARE.plan(c);
    "Expm1" => Infer::By(infer_reals), |c| EXPM1.plan(c);
    "Log1p" => Infer::By(infer_reals), |c| LOG1P.plan(c);
    "Sqrt" => Infer::By(infer_reals), |c| SQRT.plan(c);
    "Rsqrt" => Infer::By(infer_reals), |c| RSQRT.plan(c);
    "Reciprocal" => Infer::By(infer_reals), |c| RECIPROCAL.plan(c);
    "Sin" => Infer::By(infer_reals), |c| SIN.plan(c);
    "Cos" => Infer::By(infer_reals), |c| COS.plan(c);
    "Tan" => Infer::By(infer_reals), |c| TAN.plan(c);
    "Asin" => Infer::By(infer_reals), |c| ASIN.plan(c);
    "Acos" => Infer::By(infer_reals), |c| ACOS.plan(c);
    "Atan" => Infer::By(infer_reals), |c| ATAN.plan(c);
    "Sinh" => Infer::By(infer_reals), |c| SINH.plan(c);
    "Cosh" => Infer::By(infer_reals), |c| COSH.plan(c);
    "Asinh" => Infer::By(infer_reals), |c| ASINH.plan(c);
    "Acosh" => Infer::By(infer_reals), |c| ACOSH.plan(c);
    "Atanh" => Infer::By(infer_reals), |c| ATANH.plan(c);
    "Erf" => Infer::By(infer_reals), |c| ERF.plan(c);
    "Erfc" => Infer::By(infer_reals), |c| ERFC.plan(c);
    "Erfinv" => Infer::By(infer_reals), |c| ERFINV.plan(c);
    "Floor" => Infer::Like(0), |c| plan_unless_integer(c, &FLOOR);
    "Ceil" => Infer::Like(0), |c| plan_unless_integer(c, &CEIL);
    "Round" => Infer::Like(0), |c| plan_unless_integer(c, &ROUND);
    "Trunc" => Infer::Like(0), |c| plan_unless_integer(c, &TRUNC);
    "LogicalNot" => Infer::By(infer_booleans), |c| LOGICAL_NOT.plan(c);
    "Invert" => Infer::Like(0), |c| unsigned_or(c, &unsigned::NOT, bitwise_not);
    "IsFinite" => Infer::By(infer_booleans), |c| IS_FINITE.plan(c);
    "IsInf" => Infer::By(infer_booleans), |c| IS_INF.plan(c);
    "IsNan" => Infer::By(infer_booleans), |c| IS_NAN.plan(c);
};

/// As [`EXP_OF`] and [`LOG_OF`] take them: x, base, scale, shift, y.
const OF_BASE: &[ArgSource] = &[
    A(0),
    Attr("base", AttrDefault::Float(-1.0)),
    Attr("scale", AttrDefault::Float(1.0)),
    Attr("shift", AttrDefault::Float(0.0)),
    O(0),
];

/// Operators by IR name with attributes.
pub const MORE_NODES: &[Node] = &[
    node("Exp", &["x"], &["y"], Infer::By(infer_reals), |c| EXP_OF.plan(c), OF_BASE).elementwise(),
    node("Log", &["x"], &["y"], Infer::By(infer_reals), |c| LOG_OF.plan(c), OF_BASE).elementwise(),
    node(
        "NanToNum",
        &["x"],
        &["y"],
        Infer::Like(0),
        nan_to_num,
        &[
            A(0),
            Attr("nan", AttrDefault::Float(0.0)),
            Attr("posinf", AttrDefault::Float(f32::MAX as f64)),
            Attr("neginf", AttrDefault::Float(f32::MIN as f64)),
            O(0),
        ],
    )
    .elementwise(),
];
