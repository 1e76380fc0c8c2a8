//! Softmax of a scaled sum together with dropout, and the gradient.
//!
//! Workspace: numbers of the type computed in for each element; twice as many for the gradient.

use super::dropout::{bytes_of, is_mask_of_bytes};
use crate::call::Call;
use crate::error::{Error, Result};
use crate::infer::Infer;
use crate::plan::{Operand, Plan};
use crate::table::ArgSource::{A, Attr, O};
use crate::table::{AttrDefault, Node, node};
use cairn_tensor::kernels::map::{map1, map2};
use cairn_tensor::kernels::softmax::{softmax, softmax_backward};
use cairn_tensor::{DType, Layout};

const REALS: &[DType] = &[DType::Float, DType::Float16];

/// A mask at `at` with a byte for each element of these sizes.
fn mask(call: &mut Call<'_>, at: usize, dims: &[usize]) -> Result<Operand> {
    let mask = call.tensor(at)?;
    let count = dims.iter().product();
    let bytes = match mask.item() == 1 && is_mask_of_bytes(&mask, count) {
        true => bytes_of(&mask, dims),
        false => None,
    };
    bytes.map(|bytes| mask.with_layout(bytes)).ok_or_else(|| {
        let (name, dtype, have) = (call.parameter(at), mask.dtype, mask.dims());
        Error::invalid(format!(
            "{name} ({dtype}{have:?}) is not a mask of a contiguous byte for each of {count} elements"
        ))
    })
}

/// The factor of what stays, from the probability of staying at `at`.
fn factor(call: &Call<'_>, at: usize) -> Result<f32> {
    let keep = call.float(at)?;
    if !(0.0..=1.0).contains(&keep) {
        let name = call.parameter(at);
        return Err(Error::invalid(format!("{name} = {keep} is no probability from 0 to 1")));
    }
    Ok(if keep > 0.0 { (1.0 / keep) as f32 } else { 0.0 })
}

/// The one dimension that a list at `at` names.
fn axis(call: &Call<'_>, at: usize, x: &Layout) -> Result<usize> {
    match call.ints(at)?[..] {
        [axis] if x.rank() > 0 => call.wrap(at, axis, x.rank()),
        _ => {
            let (name, axes, dims) = (call.parameter(at), call.ints(at)?, x.dims());
            Err(Error::invalid(format!("{name} = {axes:?}: expected one dimension of {dims:?}")))
        }
    }
}

/// Arguments: x1, x2, mask, factor of x2, probability of staying, dimensions, softmax, what dropout leaves of it.
fn forward(call: &mut Call<'_>) -> Result<Plan> {
    let (first, second) = (call.tensor(0)?, call.tensor(1)?);
    let outs = [call.output(6)?, call.output(7)?];
    call.expect_dtype(0, &first, REALS)?;
    for (at, one) in [(1, &second), (6, &outs[0]), (7, &outs[1])] {
        call.expect_same(at, one, 0, &first)?;
        call.expect_dims(at, one, first.dims())?;
    }
    let (alpha, factor) = (call.float(3)? as f32, factor(call, 4)?);
    let dim = axis(call, 5, &first)?;
    let mask = mask(call, 2, first.dims())?;
    let [first, second] =
        [first, second].map(|one| call.in_place_input(one, &[&outs[0], &outs[1]]));
    let sums = call.scratch(DType::Float, mask.dims());
    call.plan_real(move |memory| {
        let (parallel, sums) = (memory.parallel, memory.scratch(&sums));
        let [shares, left] = outs.map(|out| memory.out(&out));
        map2(parallel, sums, first.view(memory), second.view(memory), move |a: f32, b: f32| {
            a + alpha * b
        });
        softmax::<f32>(parallel, shares, sums.view(), dim, false);
        map2(parallel, left, shares.view(), memory.view(&mask), move |y: f32, kept: bool| {
            if kept { y * factor } else { 0.0 }
        });
        Ok(())
    })
}

/// Arguments: gradient, mask, softmax, factor of x2, probability of staying, dimensions, gradient of x2.
fn backward(call: &mut Call<'_>) -> Result<Plan> {
    let (grad, shares, out) = (call.tensor(0)?, call.tensor(2)?, call.output(6)?);
    call.expect_dtype(0, &grad, REALS)?;
    for (at, one) in [(2, &shares), (6, &out)] {
        call.expect_same(at, one, 0, &grad)?;
        call.expect_dims(at, one, grad.dims())?;
    }
    let (alpha, factor) = (call.float(3)? as f32, factor(call, 4)?);
    let dim = axis(call, 5, &grad)?;
    let mask = mask(call, 1, grad.dims())?;
    let [grad, shares] = [grad, shares].map(|one| call.in_place_input(one, &[&out]));
    let scratch = [0; 2].map(|_| call.scratch(DType::Float, mask.dims()));
    call.plan_real(move |memory| {
        let (parallel, [left, slopes]) = (memory.parallel, scratch.map(|one| memory.scratch(&one)));
        map2(parallel, left, grad.view(memory), memory.view(&mask), move |g: f32, kept: bool| {
            if kept { g * factor } else { 0.0 }
        });
        softmax_backward::<f32>(parallel, slopes, left.view(), shares.view(memory), dim, false);
        map1(parallel, memory.out(&out), slopes.view(), move |d: f32| d * alpha);
        Ok(())
    })
}

fn infer_two(call: &Call<'_>) -> Result<Vec<Layout>> {
    Ok(vec![call.layout(0)?.packed(); 2])
}

/// The operators of this family by IR name.
pub const NODES: &[Node] = &[
    node(
        "AxpyWithSoftmaxAndDropOutDoMask",
        &["x1", "x2", "mask"],
        &["y1", "y2"],
        Infer::By(infer_two),
        forward,
        &[
            A(0),
            A(1),
            A(2),
            Attr("alpha", AttrDefault::Required),
            Attr("input_keep_prob", AttrDefault::Required),
            Attr("axis", AttrDefault::Ints(&[-1])),
            O(0),
            O(1),
        ],
    ),
    node(
        "DropoutWithMulsAndSoftmaxGrad",
        &["y_grad", "mask", "softmax_output"],
        &["x_grad"],
        Infer::Like(0),
        backward,
        &[
            A(0),
            A(1),
            A(2),
            Attr("alpha", AttrDefault::Required),
            Attr("input_keep_prob", AttrDefault::Required),
            Attr("axes", AttrDefault::Ints(&[-1])),
            O(0),
        ],
    ),
];
