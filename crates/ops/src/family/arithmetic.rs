//! Sums, differences, products.

use super::elementwise::Input;
use crate::call::Call;
use crate::error::Result;
use crate::infer::Infer;
use crate::plan::Plan;
use crate::table::Pick::{A, No, O};
use crate::table::{Node, Row, aclnn, node};
use cairn_tensor::kernels::element::Compute;
use cairn_tensor::kernels::map::map2;
use cairn_tensor::kernels::number::Number;
use cairn_tensor::{Scalar, with_number};

/// `out = f(a, b, alpha)` in the type both promote to. Arguments: a, b, alpha (1 when absent), out.
macro_rules! scaled {
    ($name:ident, |$x:ident, $y:ident, $alpha:ident| $body:expr) => {
        fn $name(call: &mut Call<'_>) -> Result<Plan> {
            let (a, b) = (call.input(0)?, call.input(1)?);
            let alpha: Scalar = call.scalar_or(2, 1)?;
            let out = call.output(3)?;
            let dims = call.broadcast(&[(0, a), (1, b)], (3, &out))?;
            let dtype = call.promoted(&a, &b)?;
            let (a, b): (Input, Input) = (call.apart(a, &out), call.apart(b, &out));
            call.plan(move |memory| {
                a.prepare(memory);
                b.prepare(memory);
                a.with(memory, &dims, |a| {
                    b.with(memory, &dims, |b| {
                        with_number!(dtype, C => {
                            let $alpha = C::from_scalar(alpha);
                            map2::<C, C, C>(memory.team, memory.out(&out), a, b, |$x, $y| $body)
                        })
                    })
                });
                Ok(())
            })
        }
    };
}

scaled!(add, |x, y, alpha| x.add(alpha.mul(y)));
scaled!(sub, |x, y, alpha| x.sub(alpha.mul(y)));
scaled!(mul, |x, y, _alpha| x.mul(y));

/// The rows of this family.
pub const ROWS: &[Row] = &[
    aclnn("Add", add),
    aclnn("Adds", add),
    aclnn("InplaceAdd", add).picks(&[A(0), A(1), A(2), A(0)]),
    aclnn("InplaceAdds", add).picks(&[A(0), A(1), A(2), A(0)]),
    aclnn("Sub", sub),
    aclnn("Subs", sub),
    aclnn("InplaceSub", sub).picks(&[A(0), A(1), A(2), A(0)]),
    aclnn("InplaceSubs", sub).picks(&[A(0), A(1), A(2), A(0)]),
    aclnn("Rsub", sub).picks(&[A(1), A(0), A(2), A(3)]),
    aclnn("Rsubs", sub).picks(&[A(1), A(0), A(2), A(3)]),
    aclnn("Mul", mul).picks(&[A(0), A(1), No, A(2)]),
    aclnn("Muls", mul).picks(&[A(0), A(1), No, A(2)]),
    aclnn("InplaceMul", mul).picks(&[A(0), A(1), No, A(0)]),
    aclnn("InplaceMuls", mul).picks(&[A(0), A(1), No, A(0)]),
];

/// The operators of this family by IR name.
pub const NODES: &[Node] = &[
    node("Add", &["x1", "x2"], &["y"], Infer::Broadcast(0, 1), add, &[A(0), A(1), No, O(0)]),
    node("Sub", &["x1", "x2"], &["y"], Infer::Broadcast(0, 1), sub, &[A(0), A(1), No, O(0)]),
    node("Mul", &["x1", "x2"], &["y"], Infer::Broadcast(0, 1), mul, &[A(0), A(1), No, O(0)]),
];
