//! Comparisons, logic, and logic of bits.

use super::formula::{ComplexFormula, Formula, Kind, KnownFunction, complex, number, test};
use super::unsigned::{self, unsigned_or};
use crate::call::Call;
use crate::error::{Error, Result};
use crate::infer::Infer;
use crate::plan::Plan;
use crate::table::ArgSource::{A, Attr, O};
use crate::table::{ArgSource, AttrDefault, Node, Row, aclnn, node};
use cairn_tensor::kernels::compare::equal;
use cairn_tensor::kernels::map::fill;
use cairn_tensor::kernels::math::Real;
use cairn_tensor::kernels::number::Number;
use cairn_tensor::{DType, Layout, with_number};

const EQ: Formula<2> = test!(|x, y| x == y).with_complex(complex!(-> bool |x, y| x == y));
const NE: Formula<2> = test!(|x, y| x != y).with_complex(complex!(-> bool |x, y| x != y));
const GT: Formula<2> = test!(|x, y| x > y);
const GE: Formula<2> = test!(|x, y| x >= y);
const LT: Formula<2> = test!(|x, y| x < y);
const LE: Formula<2> = test!(|x, y| x <= y);

/// Logic of two inputs, each of which is true where it is not zero, whatever its type.
macro_rules! logic {
    (|$x:ident, $y:ident| $body:expr) => {
        Formula::<2> {
            kind: Kind::Logical,
            defaults: &[],
            run: |_, args, _| args.map::<bool, bool, bool>(|$x, $y| $body),
            complex: Some(ComplexFormula {
                has_complex_results: false,
                run: |_, args, _| args.map::<bool, bool, bool>(|$x, $y| $body),
            }),
            known: None,
        }
    };
}

const LOGICAL_AND: Formula<2> = logic!(|x, y| x & y);
const LOGICAL_OR: Formula<2> = logic!(|x, y| x | y);
const LOGICAL_XOR: Formula<2> = logic!(|x, y| x ^ y);

/// A formula of the bits of integers and booleans.
macro_rules! bits {
    (|$x:ident, $y:ident| $body:expr) => {
        Formula::<2> {
            kind: Kind::AsOutput,
            defaults: &[],
            run: |_, args, _| args.map::<i64, i64, i64>(|$x, $y| $body),
            complex: None,
            known: None,
        }
    };
}

const BITWISE_AND: Formula<2> = bits!(|x, y| x & y);
const BITWISE_OR: Formula<2> = bits!(|x, y| x | y);
const BITWISE_XOR: Formula<2> = bits!(|x, y| x ^ y);
const LEFT_SHIFT: Formula<2> = bits!(|x, y| if (0..64).contains(&y) { x << y } else { 0 });
const RIGHT_SHIFT: Formula<2> = bits!(|x, y| if (0..64).contains(&y) { x >> y } else { x >> 63 });
const GCD: Formula<2> = bits!(|x, y| gcd(x.unsigned_abs(), y.unsigned_abs()));

fn gcd(mut x: u64, mut y: u64) -> i64 {
    while y != 0 {
        (x, y) = (y, x % y);
    }
    x as i64
}

/// Plans a formula of bits; fails for real numbers.
fn bitwise(call: &mut Call<'_>, formula: &Formula<2>) -> Result<Plan> {
    for at in 0..2 {
        let input = call.input(at)?;
        if input.dtype().is_floating() {
            let (name, dtype) = (call.parameter(at), input.dtype());
            return Err(Error::invalid(format!(
                "{name} is of type {dtype}: expected integers or booleans"
            )));
        }
    }
    formula.plan(call)
}

/// |x - y| <= absolute + relative |y|. Integers compare in `f64`.
const IS_CLOSE: Formula<2> = Formula {
    kind: Kind::Predicate,
    defaults: &[1e-5, 1e-8, 0.0],
    run: |dtype, args, numbers| {
        fn close<C: Real>(x: C, y: C, relative: C, absolute: C, nan: bool) -> bool {
            let difference = x.sub(y).abs();
            let is_near =
                difference.is_finite() & (difference <= absolute.add(relative.mul(y).abs()));
            (x == y) | is_near | (nan & x.is_nan() & y.is_nan())
        }
        let [relative, absolute] = [numbers[0].as_f64(), numbers[1].as_f64()];
        let nan = numbers[2].as_bool();
        if dtype.is_floating() && dtype != DType::Double {
            let (relative, absolute) = (relative as f32, absolute as f32);
            let f = move |x, y| close::<f32>(x, y, relative, absolute, nan);
            return args.map::<f32, f32, bool>(f);
        }
        args.map::<f64, f64, bool>(move |x, y| close::<f64>(x, y, relative, absolute, nan));
    },
    complex: None,
    known: None,
};

/// Whether two tensors have the same sizes and elements. Arguments: a, b, out.
fn equals(call: &mut Call<'_>) -> Result<Plan> {
    let (a, b, out) = (call.tensor(0)?, call.tensor(1)?, call.output(2)?);
    call.skip_cast_check(2);
    for (at, one) in [(0, &a), (1, &b), (2, &out)] {
        call.expect_arithmetic(at, one.dtype)?;
    }
    let dtype = super::formula::promote_all([a.dtype, b.dtype]).unwrap_or(a.dtype);
    call.plan(move |memory| {
        let same = a.dims() == b.dims() && {
            let (a, b) = (memory.view(&a), memory.view(&b));
            with_number!(dtype, C => equal::<C>(memory.parallel, a, b))
        };
        fill(memory.parallel, memory.out(&out), same);
        Ok(())
    })
}

/// The lesser of two.
pub const MINIMUM: Formula<2> = number!(|x, y| x.least(y)).known_as(KnownFunction::Least);
/// The greater of two.
pub const MAXIMUM: Formula<2> = number!(|x, y| x.greatest(y)).known_as(KnownFunction::Greatest);

const SELF: &[ArgSource] = &[A(0), A(1), A(0)];
const BINARY: &[ArgSource] = &[A(0), A(1), O(0)];

macro_rules! rows {
    ($([$($name:literal),*] [$($in_place:literal),*] => $function:expr;)*) => {
        &[$($(aclnn($name, $function),)* $(aclnn($in_place, $function).with_args(SELF),)*)*]
    };
}

/// The rows of this family.
#[rustfmt::skip]
pub const ROWS: &[Row] = rows! {
    ["EqTensor", "EqScalar"] ["InplaceEqTensor", "InplaceEqScalar"] => |c| EQ.plan(c);
    ["NeTensor", "NeScalar"] ["InplaceNeTensor", "InplaceNeScalar"] => |c| NE.plan(c);
    ["GtTensor", "GtScalar"] ["InplaceGtTensor", "InplaceGtScalar"] => |c| GT.plan(c);
    ["GeTensor", "GeScalar"] ["InplaceGeTensor", "InplaceGeScalar"] => |c| GE.plan(c);
    ["LtTensor", "LtScalar"] ["InplaceLtTensor", "InplaceLtScalar"] => |c| LT.plan(c);
    ["LeTensor", "LeScalar"] ["InplaceLeTensor", "InplaceLeScalar"] => |c| LE.plan(c);
    ["LogicalAnd"] ["InplaceLogicalAnd"] => |c| LOGICAL_AND.plan(c);
    ["LogicalOr"] ["InplaceLogicalOr"] => |c| LOGICAL_OR.plan(c);
    ["LogicalXor"] [] => |c| LOGICAL_XOR.plan(c);
    ["BitwiseAndTensor", "BitwiseAndScalar"] ["InplaceBitwiseAndTensor", "InplaceBitwiseAndScalar"] => |c| bitwise(c, &BITWISE_AND);
    ["BitwiseOrTensor", "BitwiseOrScalar"] ["InplaceBitwiseOrTensor", "InplaceBitwiseOrScalar"] => |c| bitwise(c, &BITWISE_OR);
    ["BitwiseXorTensor", "BitwiseXorScalar"] ["InplaceBitwiseXorTensor", "InplaceBitwiseXorScalar"] => |c| bitwise(c, &BITWISE_XOR);
    ["LeftShift", "LeftShifts"] [] => |c| bitwise(c, &LEFT_SHIFT);
    ["RightShift"] [] => |c| bitwise(c, &RIGHT_SHIFT);
    ["Gcd"] [] => |c| bitwise(c, &GCD);
    ["Maximum"] [] => |c| MAXIMUM.plan(c);
    ["Minimum"] [] => |c| MINIMUM.plan(c);
    ["IsClose"] [] => |c| IS_CLOSE.plan(c);
    ["Equal"] [] => equals;
};

macro_rules! nodes {
    ($($name:literal => $infer:ident, $function:expr;)*) => {
        &[$(node($name, &["x1", "x2"], &["y"], Infer::$infer(0, 1), $function, BINARY).elementwise(),)*]
    };
}

/// The operators of this family by IR name.
pub const NODES: &[Node] = nodes! {
    "Equal" => Compare, |c| unsigned_or(c, &unsigned::EQ, |c| EQ.plan(c));
    "NotEqual" => Compare, |c| unsigned_or(c, &unsigned::NE, |c| NE.plan(c));
    "Greater" => Compare, |c| unsigned_or(c, &unsigned::GT, |c| GT.plan(c));
    "GreaterEqual" => Compare, |c| unsigned_or(c, &unsigned::GE, |c| GE.plan(c));
    "Less" => Compare, |c| unsigned_or(c, &unsigned::LT, |c| LT.plan(c));
    "LessEqual" => Compare, |c| unsigned_or(c, &unsigned::LE, |c| LE.plan(c));
    "LogicalAnd" => Compare, |c| LOGICAL_AND.plan(c);
    "LogicalOr" => Compare, |c| LOGICAL_OR.plan(c);
    "LogicalXor" => Compare, |c| LOGICAL_XOR.plan(c);
    "BitwiseAnd" => Broadcast, |c| unsigned_or(c, &unsigned::AND, |c| bitwise(c, &BITWISE_AND));
    "BitwiseOr" => Broadcast, |c| unsigned_or(c, &unsigned::OR, |c| bitwise(c, &BITWISE_OR));
    "BitwiseXor" => Broadcast, |c| unsigned_or(c, &unsigned::XOR, |c| bitwise(c, &BITWISE_XOR));
    "LeftShift" => Broadcast, |c| unsigned_or(c, &unsigned::LEFT_SHIFT, |c| bitwise(c, &LEFT_SHIFT));
    "RightShift" => Broadcast, |c| unsigned_or(c, &unsigned::RIGHT_SHIFT, |c| bitwise(c, &RIGHT_SHIFT));
    "Maximum" => Broadcast, |c| unsigned_or(c, &unsigned::MAXIMUM, |c| MAXIMUM.plan(c));
    "Minimum" => Broadcast, |c| unsigned_or(c, &unsigned::MINIMUM, |c| MINIMUM.plan(c));
};

fn infer_answer(_: &Call<'_>) -> Result<Vec<Layout>> {
    Ok(vec![Layout::contiguous(DType::Bool, &[])])
}

/// Operators by IR name with attributes, or of whole tensors.
pub const MORE_NODES: &[Node] = &[
    node(
        "IsClose",
        &["x1", "x2"],
        &["y"],
        Infer::Compare(0, 1),
        |c| IS_CLOSE.plan(c),
        &[
            A(0),
            A(1),
            Attr("rtol", AttrDefault::Float(1e-5)),
            Attr("atol", AttrDefault::Float(1e-8)),
            Attr("equal_nan", AttrDefault::Flag(false)),
            O(0),
        ],
    )
    .elementwise(),
    node(
        "TensorEqual",
        &["input_x", "input_y"],
        &["output_z"],
        Infer::By(infer_answer),
        equals,
        BINARY,
    ),
];
