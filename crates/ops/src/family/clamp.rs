//! Numbers kept between bounds.

use super::elementwise::Input;
use super::formula::{Formula, KnownFunction, number};
use super::unsigned::{self, unsigned_or};
use crate::call::Call;
use crate::error::Result;
use crate::infer::Infer;
use crate::plan::Plan;
use crate::table::ArgSource::{A, No, O};
use crate::table::{Node, Row, aclnn, node};
use cairn_tensor::kernels::number::Number;
use cairn_tensor::{DType, Scalar};

const CLAMP: Formula<1> = number!(|x; low = (f64::NEG_INFINITY), high = (f64::INFINITY)| {
    x.greatest(low).least(high)
});
const CLAMP_BY: Formula<3> =
    number!(|x, low, high| x.greatest(low).least(high)).known_as(KnownFunction::Clamp);

/// Bounds that are tensors, either absent. Arguments: x, low, high, out.
fn clamp_tensor(call: &mut Call<'_>) -> Result<Plan> {
    let mut limit = |at: usize, default: f64| match call.has(at) {
        true => call.input(at),
        false => Ok(Input::Scalar(match call.layout(0)?.dtype.is_floating() {
            true => default.into(),
            false => Scalar::from(if default < 0.0 { i64::MIN } else { i64::MAX }),
        })),
    };
    let (low, high) = (limit(1, f64::NEG_INFINITY)?, limit(2, f64::INFINITY)?);
    let (x, out) = (call.input(0)?, call.output(3)?);
    CLAMP_BY.bind(call, [x, low, high], Default::default(), out, 3)?.plan(call)
}

/// Bounds that are numbers, either absent. Arguments: x, low, high, out. A bound that the output's type cannot hold is
/// refused: a real one for integers.
fn clamp(call: &mut Call<'_>) -> Result<Plan> {
    let (x, out) = (call.layout(0)?, call.layout(3)?);
    for at in [1, 2] {
        if call.has(at) && x.dtype.is_integer() && matches!(call.scalar(at)?, Scalar::Float(..)) {
            call.expect_castable(3, DType::Float, &out)?;
        }
    }
    CLAMP.plan(call)
}

/// The rows of this family.
pub const ROWS: &[Row] = &[
    aclnn("Clamp", clamp),
    aclnn("ClampMin", clamp).with_args(&[A(0), A(1), No, A(2)]),
    aclnn("ClampMax", clamp).with_args(&[A(0), No, A(1), A(2)]),
    aclnn("InplaceClampMax", clamp).with_args(&[A(0), No, A(1), A(0)]),
    aclnn("ClampTensor", clamp_tensor),
    aclnn("ClampMinTensor", clamp_tensor).with_args(&[A(0), A(1), No, A(2)]),
    aclnn("ClampMaxTensor", clamp_tensor).with_args(&[A(0), No, A(1), A(2)]),
    aclnn("InplaceClampMinTensor", clamp_tensor).with_args(&[A(0), A(1), No, A(0)]),
    aclnn("InplaceClampMaxTensor", clamp_tensor).with_args(&[A(0), No, A(1), A(0)]),
];

/// The operators of this family by IR name.
pub const NODES: &[Node] = &[
    node(
        "ClipByValue",
        &["x", "clip_value_min", "clip_value_max"],
        &["y"],
        Infer::Like(0),
        |c| unsigned_or(c, &unsigned::CLAMP, clamp_tensor),
        &[A(0), A(1), A(2), O(0)],
    )
    .elementwise(),
    node(
        "ClipByValueV2",
        &["x", "clip_value_min", "clip_value_max"],
        &["y"],
        Infer::Like(0),
        |c| unsigned_or(c, &unsigned::CLAMP, clamp_tensor),
        &[A(0), A(1), A(2), O(0)],
    )
    .elementwise(),
];
