//! Softmax, its logarithm, and their gradients.

use crate::call::Call;
use crate::error::{Error, Result};
use crate::infer::Infer;
use crate::plan::Plan;
use crate::table::ArgSource::{A, Attr, O};
use crate::table::{ArgSource, AttrDefault, Node, Row, aclnn, node};
use cairn_tensor::kernels::softmax::{softmax, softmax_backward};
use cairn_tensor::{DType, with_real};

const REAL: &[DType] = &[DType::Float, DType::Float16, DType::Bf16, DType::Double];

/// The one dimension that a number or a list names.
fn single_dim(call: &Call<'_>, at: usize, rank: usize) -> Result<usize> {
    match call.ints(at)?[..] {
        [dim] => call.wrap(at, dim, rank),
        ref dims => {
            let name = call.parameter(at);
            Err(Error::invalid(format!("{name} = {dims:?}: expected one dimension")))
        }
    }
}

/// Arguments: a, dim, out.
fn forward<const LOG: bool>(call: &mut Call<'_>) -> Result<Plan> {
    let (a, out) = (call.tensor(0)?, call.output(2)?);
    call.expect_dtype(2, &out, REAL)?;
    call.expect_dims(2, &out, a.dims())?;
    let dim = single_dim(call, 1, a.rank())?;
    let a = call.in_place_input(a, &[&out]);
    call.plan_real(move |memory| {
        let (a, out) = (a.view(memory), memory.out(&out));
        with_real!(out.dtype(), C => softmax::<C>(memory.parallel, out, a, dim, LOG));
        Ok(())
    })
}

/// Arguments: grad, y, dim, out.
fn backward<const LOG: bool>(call: &mut Call<'_>) -> Result<Plan> {
    let (grad, y, out) = (call.tensor(0)?, call.tensor(1)?, call.output(3)?);
    call.expect_dtype(3, &out, REAL)?;
    call.expect_dims(1, &y, grad.dims())?;
    call.expect_dims(3, &out, grad.dims())?;
    let dim = single_dim(call, 2, grad.rank())?;
    let (grad, y) = (call.in_place_input(grad, &[&out]), call.in_place_input(y, &[&out]));
    call.plan_real(move |memory| {
        let (grad, y, out) = (grad.view(memory), y.view(memory), memory.out(&out));
        let is_double = grad.dtype() == DType::Double;
        with_real!(if is_double { DType::Double } else { DType::Float }, C => {
            softmax_backward::<C>(memory.parallel, out, grad, y, dim, LOG)
        });
        Ok(())
    })
}

/// The rows of this family.
pub const ROWS: &[Row] = &[
    aclnn("Softmax", forward::<false>),
    aclnn("LogSoftmax", forward::<true>),
    aclnn("SoftmaxBackward", backward::<false>),
    aclnn("LogSoftmaxBackward", backward::<true>),
];

const AXES: ArgSource = Attr("axes", AttrDefault::Ints(&[-1]));

/// The operators of this family by IR name.
pub const NODES: &[Node] = &[
    node("SoftmaxV2", &["x"], &["y"], Infer::Like(0), forward::<false>, &[A(0), AXES, O(0)]),
    node(
        "LogSoftmaxV2",
        &["logits"],
        &["logsoftmax"],
        Infer::Like(0),
        forward::<true>,
        &[A(0), AXES, O(0)],
    ),
    node(
        "SoftmaxGrad",
        &["softmax", "grad_softmax"],
        &["grad_x"],
        Infer::Like(0),
        backward::<false>,
        &[A(1), A(0), AXES, O(0)],
    ),
    node(
        "LogSoftmaxGrad",
        &["grad", "x"],
        &["y"],
        Infer::Like(0),
        backward::<true>,
        &[A(0), A(1), Attr("axis", AttrDefault::Ints(&[-1])), O(0)],
    ),
];
