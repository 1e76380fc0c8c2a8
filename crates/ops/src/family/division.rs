//! Quotients and remainders.

use super::complex::quotient;
use super::formula::{Formula, Kind, complex, number, real};
use super::unsigned::{self, unsigned_or};
use crate::call::Call;
use crate::error::{Error, Result};
use crate::infer::Infer;
use crate::plan::Plan;
use crate::table::ArgSource::{A, O};
use crate::table::{ArgSource, Node, Row, aclnn, node};
use cairn_tensor::kernels::math::Real;
use cairn_tensor::kernels::number::Number;
use cairn_tensor::{DType, with_number};
use half::{bf16, f16};

/// The true quotient, always real.
pub const DIV: Formula<2> = real!(|x, y| x.div(y)).with_complex(complex!(|x, y| quotient(x, y)));
/// The quotient rounded towards zero. Half types round it to their precision first, as PyTorch does.
const DIV_TRUNC: Formula<2> = Formula {
    kind: Kind::Number,
    defaults: &[],
    run: |dtype, args, _| match dtype {
        DType::Bf16 => args.map::<f32, f32, f32>(|x, y| bf16::from_f32(x.div(y)).to_f32().trunc()),
        DType::Float16 => {
            args.map::<f32, f32, f32>(|x, y| f16::from_f32(x.div(y)).to_f32().trunc())
        }
        _ => with_number!(dtype, C => args.map::<C, C, C>(|x, y| x.div_trunc(y))),
    },
    complex: None,
    known: None,
};
const DIV_FLOOR: Formula<2> = number!(|x, y| x.div_floor(y));
/// x - y floor(x / y); of an integer by zero, x.
const REMAINDER: Formula<2> = Formula {
    kind: Kind::Number,
    defaults: &[],
    run: |dtype, args, _| match dtype.is_floating() {
        true => with_number!(dtype, C => args.map::<C, C, C>(|x, y| x.rem_floor(y))),
        false => args.map::<i64, i64, i64>(|x, y| if y == 0 { x } else { x.rem_floor(y) }),
    },
    complex: None,
    known: None,
};
const FMOD: Formula<2> = number!(|x, y| x.rem_trunc(y));

/// The quotient, rounded by mode. Arguments: a, b, mode (0: none, 1: towards zero, 2: down), out.
fn div_mode(call: &mut Call<'_>) -> Result<Plan> {
    let formula = match call.int(2)? {
        0 => DIV,
        1 => DIV_TRUNC,
        2 => DIV_FLOOR,
        mode => {
            let name = call.parameter(2);
            return Err(Error::invalid(format!(
                "{name} = {mode}: expected 0 (as it is), 1 (towards zero) or 2 (down)"
            )));
        }
    };
    Formula { defaults: &[0.0], ..formula }.plan(call)
}

/// The quotient of two integers is rounded towards zero, as `Div` by IR name has it.
fn div_node(call: &mut Call<'_>) -> Result<Plan> {
    let is_integer = |dtype: DType| !dtype.is_floating() && !dtype.is_complex();
    match !is_integer(call.input(0)?.dtype()) || !is_integer(call.input(1)?.dtype()) {
        true => DIV.plan(call),
        false => truncate_div(call),
    }
}

fn truncate_div(call: &mut Call<'_>) -> Result<Plan> {
    unsigned_or(call, &unsigned::DIV, |c| DIV_TRUNC.plan(c))
}

fn floor_div(call: &mut Call<'_>) -> Result<Plan> {
    unsigned_or(call, &unsigned::DIV, |c| DIV_FLOOR.plan(c))
}

fn floor_mod(call: &mut Call<'_>) -> Result<Plan> {
    unsigned_or(call, &unsigned::REMAINDER, |c| REMAINDER.plan(c))
}

fn fmod(call: &mut Call<'_>) -> Result<Plan> {
    unsigned_or(call, &unsigned::FMOD, |c| FMOD.plan(c))
}

const SELF: &[ArgSource] = &[A(0), A(1), A(0)];
const SELF_MODE: &[ArgSource] = &[A(0), A(1), A(2), A(0)];
const BINARY: &[ArgSource] = &[A(0), A(1), O(0)];

/// The rows of this family.
pub const ROWS: &[Row] = &[
    aclnn("Div", |c| DIV.plan(c)),
    aclnn("Divs", |c| DIV.plan(c)),
    aclnn("InplaceDiv", |c| DIV.plan(c)).with_args(SELF),
    aclnn("InplaceDivs", |c| DIV.plan(c)).with_args(SELF),
    aclnn("DivMod", div_mode),
    aclnn("DivMods", div_mode),
    aclnn("DivV3", div_mode),
    aclnn("InplaceDivMod", div_mode).with_args(SELF_MODE),
    aclnn("InplaceDivMods", div_mode).with_args(SELF_MODE),
    aclnn("FloorDivide", |c| DIV_FLOOR.plan(c)),
    aclnn("FloorDivides", |c| DIV_FLOOR.plan(c)),
    aclnn("InplaceFloorDivide", |c| DIV_FLOOR.plan(c)).with_args(SELF),
    aclnn("InplaceFloorDivides", |c| DIV_FLOOR.plan(c)).with_args(SELF),
    aclnn("RemainderTensorTensor", |c| REMAINDER.plan(c)),
    aclnn("RemainderTensorScalar", |c| REMAINDER.plan(c)),
    aclnn("RemainderScalarTensor", |c| REMAINDER.plan(c)),
    aclnn("InplaceRemainderTensorTensor", |c| REMAINDER.plan(c)).with_args(SELF),
    aclnn("InplaceRemainderTensorScalar", |c| REMAINDER.plan(c)).with_args(SELF),
    aclnn("FmodTensor", |c| FMOD.plan(c)),
    aclnn("FmodScalar", |c| FMOD.plan(c)),
    aclnn("InplaceFmodTensor", |c| FMOD.plan(c)).with_args(SELF),
    aclnn("InplaceFmodScalar", |c| FMOD.plan(c)).with_args(SELF),
];

/// The operators of this family by IR name.
pub const NODES: &[Node] = &[
    node("Div", &["x1", "x2"], &["y"], Infer::Broadcast(0, 1), div_node, BINARY).elementwise(),
    node("RealDiv", &["x1", "x2"], &["y"], Infer::Broadcast(0, 1), div_node, BINARY).elementwise(),
    node("FloorDiv", &["x1", "x2"], &["y"], Infer::Broadcast(0, 1), floor_div, BINARY)
        .elementwise(),
    node("FloorMod", &["x1", "x2"], &["y"], Infer::Broadcast(0, 1), floor_mod, BINARY)
        .elementwise(),
    node("Mod", &["x1", "x2"], &["y"], Infer::Broadcast(0, 1), fmod, BINARY).elementwise(),
    node("TruncateDiv", &["x1", "x2"], &["y"], Infer::Broadcast(0, 1), truncate_div, BINARY)
        .elementwise(),
];
