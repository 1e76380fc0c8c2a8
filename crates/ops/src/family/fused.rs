//! Sums of products, and linear interpolation.

use super::arithmetic::{ADD, SUB};
use super::complex::quotient;
use super::formula::{Formula, complex, number, real};
use crate::call::Call;
use crate::error::{Error, Result};
use crate::infer::Infer;
use crate::table::ArgSource::{A, Attr, O};
use crate::table::{ArgSource, AttrDefault, Node, Row, aclnn, node};
use cairn_tensor::kernels::math::Real;
use cairn_tensor::kernels::number::Number;
use cairn_tensor::{Layout, broadcast};

/// x + value y z.
pub const ADDCMUL: Formula<3> = number!(|x, y, z; value = 1.0| x.add(value.mul(y).mul(z)))
    .with_complex(complex!(|x, y, z; value| x + value * y * z));
/// x + value y / z.
pub const ADDCDIV: Formula<3> = real!(|x, y, z; value = 1.0| x.add(value.mul(y).div(z)))
    .with_complex(complex!(|x, y, z; value| x + value * quotient(y, z)));
/// x + weight (y - x), with one weight.
pub const LERP: Formula<2> = real!(|x, y; weight = 0.5| lerp(x, y, weight));
/// x + weight (y - x), with a weight for each element.
pub const LERP_BY: Formula<3> = real!(|x, y, weight| lerp(x, y, weight));
const ADD_RELU: Formula<2> = number!(|x, y; alpha = 1.0| x.add(alpha.mul(y)).greatest(C::ZERO));

/// x + weight (y - x), exactly x for a weight of 0 and y for 1.
#[inline(always)]
fn lerp<C: Real>(x: C, y: C, weight: C) -> C {
    let difference = y.sub(x);
    let from_x = x.add(weight.mul(difference));
    let from_y = y.sub(difference.mul(C::ONE.sub(weight)));
    if weight.abs() < C::of(0.5) { from_x } else { from_y }
}

/// What all three inputs broadcast to, of the first one's type.
fn infer_broadcast_of_three(call: &Call<'_>) -> Result<Vec<Layout>> {
    let (x, y, z) = (call.layout(0)?, call.layout(1)?, call.layout(2)?);
    match broadcast(x.dims(), y.dims()).and_then(|dims| broadcast(&dims, z.dims())) {
        Some(dims) => Ok(vec![Layout::contiguous(x.dtype, &dims)]),
        None => Err(Error::invalid(format!("{x}, {y} and {z} do not broadcast together"))),
    }
}

const SELF_3: &[ArgSource] = &[A(0), A(1), A(2), A(3), A(0)];
const SELF_2: &[ArgSource] = &[A(0), A(1), A(2), A(0)];

/// The rows of this family.
pub const ROWS: &[Row] = &[
    aclnn("Addcmul", |c| ADDCMUL.plan(c)),
    aclnn("InplaceAddcmul", |c| ADDCMUL.plan(c)).with_args(SELF_3),
    aclnn("Addcdiv", |c| ADDCDIV.plan(c)),
    aclnn("InplaceAddcdiv", |c| ADDCDIV.plan(c)).with_args(SELF_3),
    aclnn("Lerp", |c| LERP_BY.plan(c)),
    aclnn("InplaceLerp", |c| LERP_BY.plan(c)).with_args(SELF_2),
    aclnn("Lerps", |c| LERP.plan(c)),
    aclnn("InplaceLerps", |c| LERP.plan(c)).with_args(SELF_2),
    aclnn("AddRelu", |c| ADD_RELU.plan(c)),
    aclnn("InplaceAddRelu", |c| ADD_RELU.plan(c)).with_args(SELF_2),
];

/// The operators of this family by IR name.
pub const NODES: &[Node] = &[
    node(
        "Addcmul",
        &["input_data", "x1", "x2", "value"],
        &["y"],
        Infer::By(infer_broadcast_of_three),
        |c| ADDCMUL.plan(c),
        &[A(0), A(1), A(2), A(3), O(0)],
    )
    .elementwise(),
    node(
        "Addcdiv",
        &["input_data", "x1", "x2", "value"],
        &["y"],
        Infer::By(infer_broadcast_of_three),
        |c| ADDCDIV.plan(c),
        &[A(0), A(1), A(2), A(3), O(0)],
    )
    .elementwise(),
    node(
        "Lerp",
        &["start", "end", "weight"],
        &["y"],
        Infer::By(infer_broadcast_of_three),
        |c| LERP_BY.plan(c),
        &[A(0), A(1), A(2), O(0)],
    )
    .elementwise(),
    node(
        "Axpy",
        &["x1", "x2"],
        &["y"],
        Infer::Broadcast(0, 1),
        |c| ADD.plan(c),
        &[A(0), A(1), Attr("alpha", AttrDefault::Required), O(0)],
    )
    .elementwise(),
    node(
        "AxpyV2",
        &["x1", "x2", "alpha"],
        &["y"],
        Infer::Broadcast(0, 1),
        |c| ADD.plan(c),
        &[A(0), A(1), A(2), O(0)],
    )
    .elementwise(),
    node(
        "Sxpy",
        &["x1", "x2", "alpha?"],
        &["y"],
        Infer::Broadcast(0, 1),
        |c| SUB.plan(c),
        &[A(0), A(1), A(2), O(0)],
    )
    .elementwise(),
    node(
        "Muls",
        &["x"],
        &["y"],
        Infer::Like(0),
        |c| MULS.plan(c),
        &[A(0), Attr("value", AttrDefault::Required), O(0)],
    )
    .elementwise(),
];

const MULS: Formula<1> = number!(|x; value = 1.0| x.mul(value));
