//! The negative log-likelihood loss, and its gradient.

use super::loss::{Reduction, reduction};
use crate::call::Call;
use crate::error::{Error, Fault, Result};
use crate::infer::Infer;
use crate::plan::{Operand, Plan};
use crate::table::ArgSource::{A, Attr, O};
use crate::table::{ArgSource, AttrDefault, Node, Row, aclnn, node};
use cairn_tensor::kernels::loss::{Classes, NoClass, likelihood, likelihood_backward};
use cairn_tensor::kernels::map::fill_scalar;
use cairn_tensor::kernels::peek::first;
use cairn_tensor::{DType, Layout, Scalar};

/// A tensor of [classes], [positions, classes] or [batch, classes, ..] with the classes last.
fn classes_last(call: &Call<'_>, at: usize, x: &Operand) -> Result<Operand> {
    let rank = x.rank();
    if rank == 0 {
        let name = call.parameter(at);
        return Err(Error::invalid(format!("{name} has no dimension of classes")));
    }
    let classes = rank.min(2) - 1;
    let order: Vec<usize> = (0..rank).filter(|at| *at != classes).chain([classes]).collect();
    Ok(x.with_layout(x.layout().permuted(&order)))
}

/// The fault of a target that is out of range.
fn no_such_class(parameter: &str, classes: usize, wrong: NoClass) -> Fault {
    let NoClass { index, position } = wrong;
    Fault(format!(
        "{parameter} has the class {index} at position {position}, outside 0 to {}",
        classes as i64 - 1
    ))
}

/// Fails unless target and weight fit `x`, whose classes are last.
fn expect_fit(
    call: &Call<'_>,
    x: &Operand,
    target: (usize, &Operand),
    weight: Option<(usize, &Operand)>,
) -> Result<()> {
    let (positions, classes) = x.dims().split_at(x.rank() - 1);
    let has_one_target = positions.is_empty() && target.1.count() == 1;
    if !has_one_target {
        call.expect_dims(target.0, target.1, positions)?;
    }
    call.expect_dtype(target.0, target.1, &[DType::Int64, DType::Int32, DType::Uint8])?;
    match weight {
        Some((at, weight)) => call.expect_dims(at, weight, classes),
        None => Ok(()),
    }
}

/// Target positions as `x` has them: a single target may have one dimension.
fn positions(target: Operand, x: &Operand) -> Operand {
    target.with_layout(target.reshaped(&x.dims()[..x.rank() - 1]).unwrap_or(*target.layout()))
}

/// Arguments: x, target, weight or absent, reduction, ignored target, out, sum of weights or absent.
fn forward(call: &mut Call<'_>) -> Result<Plan> {
    let (x, target, weight) = (call.tensor(0)?, call.tensor(1)?, call.optional(2)?);
    [Some(x), weight].iter().flatten().for_each(|one| call.touch_by_index(one));
    let x = classes_last(call, 0, &x)?;
    expect_fit(call, &x, (1, &target), weight.as_ref().map(|weight| (2, weight)))?;
    let target = positions(target, &x);
    let kind = reduction(call, 3)?;
    let ignored = call.int_or(4, -100)?;
    let (out, total) = (call.output(5)?, call.optional_output(6)?);
    let name = call.parameter(1);
    let out = match kind {
        Reduction::None => positions(out, &x),
        _ if out.count() == 1 => out,
        _ => {
            let (name, have) = (call.parameter(5), out.dims());
            return Err(Error::invalid(format!(
                "{name} has the sizes {have:?}: expected one element"
            )));
        }
    };
    if kind == Reduction::None {
        call.expect_dims(5, &out, target.dims())?;
    }
    call.plan_real(move |memory| {
        let weight = weight.map(|weight| memory.view(&weight));
        let classes = Classes { target: memory.view(&target), weight, ignored };
        let (view, to) = (memory.view(&x), memory.out(&out));
        let unreduced = (kind == Reduction::None).then_some(to);
        let (losses, weights) = likelihood(view, classes, unreduced)
            .map_err(|wrong| no_such_class(name, view.dims()[view.rank() - 1], wrong))?;
        match kind {
            Reduction::None => {}
            Reduction::Mean => fill_scalar(memory.parallel, to, Scalar::from(losses / weights)),
            Reduction::Sum => fill_scalar(memory.parallel, to, Scalar::from(losses)),
        }
        if let Some(total) = &total {
            let weights = if kind == Reduction::None { 0.0 } else { weights };
            fill_scalar(memory.parallel, memory.out(total), Scalar::from(weights));
        }
        Ok(())
    })
}

/// Arguments: grad, x, target, weight or absent, reduction, ignored target, sum of weights, out.
fn backward(call: &mut Call<'_>) -> Result<Plan> {
    let (grad, target, weight) = (call.tensor(0)?, call.tensor(2)?, call.optional(3)?);
    weight.iter().for_each(|one| call.touch_by_index(one));
    let x = call.layout(1)?;
    let out = call.output(7)?;
    call.expect_dims(7, &out, x.dims())?;
    let out = classes_last(call, 7, &out)?;
    expect_fit(call, &out, (2, &target), weight.as_ref().map(|weight| (3, weight)))?;
    let target = positions(target, &out);
    let kind = reduction(call, 4)?;
    let ignored = call.int_or(5, -100)?;
    let total = call.optional(6)?;
    let name = call.parameter(2);
    let rows = &out.dims()[..out.rank() - 1];
    let has_one_target = grad.reshaped(&[]).and_then(|one| one.broadcast_to(rows));
    let grad = match grad.reshaped(rows).or(has_one_target) {
        Some(layout) => grad.with_layout(layout),
        None => {
            let (name, have) = (call.parameter(0), grad.dims());
            return Err(Error::invalid(format!(
                "{name} has the sizes {have:?}: expected {rows:?}"
            )));
        }
    };
    call.plan_real(move |memory| {
        let weight = weight.map(|weight| memory.view(&weight));
        let classes = Classes { target: memory.view(&target), weight, ignored };
        let to = memory.out(&out);
        fill_scalar(memory.parallel, to, Scalar::from(0.0));
        let factor = match (&total, kind) {
            (Some(total), Reduction::Mean) => {
                let total = first(memory.view(total)).map_or(1.0, Scalar::as_f64);
                1.0 / total
            }
            _ => 1.0,
        };
        likelihood_backward(to, classes, memory.view(&grad), factor)
            .map_err(|wrong| no_such_class(name, to.dims()[to.rank() - 1], wrong))
    })
}

/// The rows of this family.
pub const ROWS: &[Row] = &[
    aclnn("NLLLoss", forward),
    aclnn("NLLLoss2d", forward),
    aclnn("NLLLossBackward", backward),
    aclnn("NLLLoss2dBackward", backward),
];

const REDUCTION: ArgSource = Attr("reduction", AttrDefault::Text("mean"));
const IGNORE_INDEX: ArgSource = Attr("ignore_index", AttrDefault::Int(-100));

fn outputs(call: &Call<'_>) -> Result<Vec<Layout>> {
    let (x, target) = (call.layout(0)?, call.layout(1)?);
    let one = Layout::contiguous(x.dtype, &[]);
    Ok(match reduction(call, 3)? {
        Reduction::None => vec![target.packed().with_dtype(x.dtype), one],
        _ => vec![one, one],
    })
}

/// The operators of this family by IR name.
pub const NODES: &[Node] = &[
    node(
        "NLLLoss",
        &["x", "target", "weight?"],
        &["y", "total_weight"],
        Infer::By(outputs),
        forward,
        &[A(0), A(1), A(2), REDUCTION, IGNORE_INDEX, O(0), O(1)],
    ),
    node(
        "NLLLossGrad",
        &["x", "y_grad", "target", "weight", "total_weight"],
        &["x_grad"],
        Infer::Like(1),
        backward,
        &[A(1), A(0), A(2), A(3), REDUCTION, IGNORE_INDEX, A(4), O(0)],
    ),
];
