//! Sums, differences, products.

use super::formula::{Formula, KnownFunction, complex, number};
use super::unsigned::{self, unsigned_or};
use crate::call::Call;
use crate::error::Result;
use crate::infer::Infer;
use crate::plan::Plan;
use crate::table::ArgSource::{A, O};
use crate::table::{ArgSource, Node, Row, aclnn, node};
use cairn_tensor::kernels::number::Number;

/// x + alpha y.
pub const ADD: Formula<2> = number!(|x, y; alpha = 1.0| x.add(alpha.mul(y)))
    .with_complex(complex!(|x, y; alpha| x + alpha * y))
    .known_as(KnownFunction::Sum);
/// x - alpha y.
pub const SUB: Formula<2> = number!(|x, y; alpha = 1.0| x.sub(alpha.mul(y)))
    .with_complex(complex!(|x, y; alpha| x - alpha * y));
/// x y.
pub const MUL: Formula<2> = number!(|x, y| x.mul(y)).with_complex(complex!(|x, y| x * y));

// In place: the output is the first argument.
const SELF: &[ArgSource] = &[A(0), A(1), A(2), A(0)];
const SELF_MUL: &[ArgSource] = &[A(0), A(1), A(0)];
const SWAPPED: &[ArgSource] = &[A(1), A(0), A(2), A(3)];
const BINARY: &[ArgSource] = &[A(0), A(1), O(0)];

/// The rows of this family.
pub const ROWS: &[Row] = &[
    aclnn("Add", |c| ADD.plan(c)),
    aclnn("Adds", |c| ADD.plan(c)),
    aclnn("AddV3", |c| ADD.plan(c)),
    aclnn("InplaceAdd", |c| ADD.plan(c)).with_args(SELF),
    aclnn("InplaceAdds", |c| ADD.plan(c)).with_args(SELF),
    aclnn("Sub", |c| SUB.plan(c)),
    aclnn("Subs", |c| SUB.plan(c)),
    aclnn("InplaceSub", |c| SUB.plan(c)).with_args(SELF),
    aclnn("InplaceSubs", |c| SUB.plan(c)).with_args(SELF),
    aclnn("Rsub", |c| SUB.plan(c)).with_args(SWAPPED),
    aclnn("Rsubs", |c| SUB.plan(c)).with_args(SWAPPED),
    aclnn("Mul", |c| MUL.plan(c)),
    aclnn("Muls", |c| MUL.plan(c)),
    aclnn("InplaceMul", |c| MUL.plan(c)).with_args(SELF_MUL),
    aclnn("InplaceMuls", |c| MUL.plan(c)).with_args(SELF_MUL),
];

fn add(call: &mut Call<'_>) -> Result<Plan> {
    unsigned_or(call, &unsigned::ADD, |c| ADD.plan_at(c, [0, 1], &[], 2))
}

fn sub(call: &mut Call<'_>) -> Result<Plan> {
    unsigned_or(call, &unsigned::SUB, |c| SUB.plan_at(c, [0, 1], &[], 2))
}

fn mul(call: &mut Call<'_>) -> Result<Plan> {
    unsigned_or(call, &unsigned::MUL, |c| MUL.plan(c))
}

/// The operators of this family by IR name.
pub const NODES: &[Node] = &[
    node("Add", &["x1", "x2"], &["y"], Infer::Broadcast(0, 1), add, BINARY).elementwise(),
    node("Sub", &["x1", "x2"], &["y"], Infer::Broadcast(0, 1), sub, BINARY).elementwise(),
    node("AssignAdd", &["ref", "value"], &["ref"], Infer::Like(0), add, BINARY)
        .elementwise()
        .writes_first(),
    node("AssignSub", &["var", "value"], &["var"], Infer::Like(0), sub, BINARY)
        .elementwise()
        .writes_first(),
    node("Mul", &["x1", "x2"], &["y"], Infer::Broadcast(0, 1), mul, BINARY).elementwise(),
];
