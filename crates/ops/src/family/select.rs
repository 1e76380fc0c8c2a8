//! One of two values at each position.

use super::formula::{ComplexFormula, Formula, Kind};
use crate::argument::Arg;
use crate::call::Call;
use crate::error::{Error, Result};
use crate::infer::Infer;
use crate::plan::Plan;
use crate::table::ArgSource::{A, O};
use crate::table::{Node, Row, aclnn, node};
use cairn_tensor::{Layout, broadcast, promote, with_complex, with_number};

/// `x` where the condition is other than zero, else `y`. Inputs: condition, x, y.
pub const WHERE: Formula<3> = Formula {
    kind: Kind::AsOutput,
    defaults: &[],
    run: |dtype, args, _| {
        with_number!(dtype, C => {
            args.map::<bool, C, C, C>(|condition, x, y| if condition { x } else { y })
        });
    },
    complex: Some(ComplexFormula {
        has_complex_results: false,
        run: |dtype, args, _| {
            with_complex!(dtype, C => {
                args.map::<bool, C, C, C>(|condition, x, y| if condition { x } else { y })
            });
        },
    }),
    known: None,
};

/// What the three broadcast to, of the type that the values promote to.
fn infer_selected(call: &Call<'_>) -> Result<Vec<Layout>> {
    let (condition, x, y) = (call.layout(0)?, call.layout(1)?, call.layout(2)?);
    let dims = broadcast(x.dims(), y.dims()).and_then(|dims| broadcast(&dims, condition.dims()));
    match (dims, promote(x.dtype, y.dtype)) {
        (Some(dims), Some(dtype)) => Ok(vec![Layout::contiguous(dtype, &dims)]),
        _ => Err(Error::invalid(format!("{condition}, {x} and {y} do not broadcast together"))),
    }
}

/// Plans [`WHERE`]; fails where tensors promote to a type that cannot be cast to the output's. A number may lose digits.
fn where_select(call: &mut Call<'_>) -> Result<Plan> {
    if let (Arg::Tensor(x), Arg::Tensor(y)) = (call.arg(1), call.arg(2)) {
        let (x, y) = (x.layout.dtype, y.layout.dtype);
        call.expect_castable(3, promote(x, y).unwrap_or(x), &call.layout(3)?)?;
    }
    WHERE.plan(call)
}

/// As the tensor that is filled.
fn infer_filled(call: &Call<'_>) -> Result<Vec<Layout>> {
    Ok(vec![call.layout(2)?.packed()])
}

/// The rows of this family.
pub const ROWS: &[Row] = &[
    aclnn("SWhere", where_select),
    aclnn("InplaceMaskedFillScalar", where_select).with_args(&[A(1), A(2), A(0), A(0)]),
    aclnn("InplaceMaskedFillTensor", where_select).with_args(&[A(1), A(2), A(0), A(0)]),
];

/// The operators of this family by IR name.
pub const NODES: &[Node] = &[
    node(
        "SelectV2",
        &["condition", "then", "else"],
        &["result"],
        Infer::By(infer_selected),
        where_select,
        &[A(0), A(1), A(2), O(0)],
    )
    .elementwise(),
    node(
        "Select",
        &["condition", "x1", "x2"],
        &["y"],
        Infer::By(infer_selected),
        where_select,
        &[A(0), A(1), A(2), O(0)],
    )
    .elementwise(),
    node(
        "MaskedFill",
        &["x", "mask", "value"],
        &["y"],
        Infer::By(infer_filled),
        where_select,
        &[A(1), A(2), A(0), O(0)],
    )
    .elementwise(),
];
