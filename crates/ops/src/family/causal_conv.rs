//! Causal convolutions of each channel along a sequence, with a mask over their results, and their gradients.

use crate::call::Call;
use crate::error::{Error, Result};
use crate::family::inputs::UnaliasedInput;
use crate::infer::Infer;
use crate::plan::{Operand, Plan};
use crate::table::ArgSource::{A, O};
use crate::table::{Node, Row, aclnn, node};
use cairn_tensor::DType;
use cairn_tensor::kernels::causal;

const TYPES: &[DType] = &[DType::Float16, DType::Bf16];

/// The number of weights of a channel. There is no other.
const TAPS: usize = 3;

/// Reads the sequence, the weights and the mask at these indices.
fn read(
    call: &mut Call<'_>,
    [x, weights, mask]: [usize; 3],
    outs: &[&Operand],
) -> Result<(UnaliasedInput, UnaliasedInput, Option<UnaliasedInput>)> {
    let (sequence, taps) = (call.read(x, outs)?, call.read(weights, outs)?);
    call.expect_dtype(x, &sequence, TYPES)?;
    call.expect_same(weights, &taps, x, &sequence)?;
    let &[steps, batches, channels] = sequence.dims() else {
        let (name, dims) = (call.parameter(x), sequence.dims());
        return Err(Error::invalid(format!(
            "{name} has the sizes {dims:?}: expected steps, batches and channels"
        )));
    };
    call.expect_dims(weights, &taps, &[TAPS, channels])?;
    let mask = match call.has(mask) {
        false => None,
        true => {
            let read = call.read(mask, outs)?;
            call.expect_dtype(mask, &read, &[DType::Bool])?;
            call.expect_dims(mask, &read, &[batches, steps])?;
            Some(read)
        }
    };
    Ok((sequence, taps, mask))
}

/// Arguments: sequence, weights, mask, out.
fn forward(call: &mut Call<'_>) -> Result<Plan> {
    let out = call.output(3)?;
    let (x, weights, mask) = read(call, [0, 1, 2], &[&out])?;
    call.expect_dims(3, &out, x.dims())?;
    call.expect_same(3, &out, 0, &x)?;
    call.plan(move |memory| {
        let mask = mask.map(|mask| mask.view(memory));
        let (x, weights) = (x.view(memory), weights.view(memory));
        causal::forward(memory.parallel, memory.out(&out), x, weights, mask);
        Ok(())
    })
}

/// Arguments: gradient of the results, sequence, weights, mask, gradient of the sequence, gradient of the weights.
fn backward(call: &mut Call<'_>) -> Result<Plan> {
    let (dx, dweights) = (call.output(4)?, call.output(5)?);
    let outs = [&dx, &dweights];
    let (x, weights, mask) = read(call, [1, 2, 3], &outs)?;
    let grad = call.read(0, &outs)?;
    for (at, one, dims) in
        [(0, *grad, x.dims()), (4, *dx, x.dims()), (5, *dweights, weights.dims())]
    {
        call.expect_dims(at, &one, dims)?;
        call.expect_same(at, &one, 1, &x)?;
    }
    call.plan(move |memory| {
        let mask = mask.map(|mask| mask.view(memory));
        let (x, weights, grad) = (x.view(memory), weights.view(memory), grad.view(memory));
        causal::grad_of_sequence(memory.parallel, memory.out(&dx), grad, weights, mask);
        causal::grad_of_weights(memory.parallel, memory.out(&dweights), x, grad, mask);
        Ok(())
    })
}

/// The rows of this family.
pub const ROWS: &[Row] =
    &[aclnn("MaskedCausalConv1d", forward), aclnn("MaskedCausalConv1dBackward", backward)];

/// The operators of this family by IR name.
pub const NODES: &[Node] = &[node(
    "MaskedCausalConv1d",
    &["input", "weight", "mask?"],
    &["output"],
    Infer::Like(0),
    forward,
    &[A(0), A(1), A(2), O(0)],
)];
