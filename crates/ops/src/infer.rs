//! The sizes and types of outputs, from those of inputs.

use crate::call::Call;
use crate::error::{Error, Result};
use cairn_tensor::{DType, Layout, broadcast, promote};

/// How an operator's outputs follow from its inputs. A call under inference has its outputs absent.
#[derive(Clone, Copy)]
pub enum Infer {
    /// One output like this input.
    Like(usize),
    /// One output of the sizes these two broadcast to and the type both promote to.
    Broadcast(usize, usize),
    /// As before, of booleans.
    Compare(usize, usize),
    /// What this function returns.
    By(fn(&Call<'_>) -> Result<Vec<Layout>>),
}

impl Infer {
    /// The outputs, contiguous; an error when no memory could hold one.
    pub fn outputs(self, call: &Call<'_>) -> Result<Vec<Layout>> {
        let outputs = match self {
            Infer::Like(at) => vec![call.layout(at)?.packed()],
            Infer::Broadcast(a, b) => vec![broadcast_layout(call, a, b)?],
            Infer::Compare(a, b) => {
                vec![Layout::contiguous(DType::Bool, broadcast_layout(call, a, b)?.dims())]
            }
            Infer::By(function) => function(call)?,
        };
        match outputs.iter().position(|one| !one.fits()) {
            Some(at) => {
                let layout = outputs[at];
                Err(Error::invalid(format!("output {at} would be {layout}, which no memory holds")))
            }
            None => Ok(outputs),
        }
    }
}

/// The layout of the sizes that two arguments broadcast to, of the type both promote to.
fn broadcast_layout(call: &Call<'_>, a: usize, b: usize) -> Result<Layout> {
    let (x, y) = (call.layout(a)?, call.layout(b)?);
    let dims = broadcast(x.dims(), y.dims());
    match (dims, promote(x.dtype, y.dtype)) {
        (Some(dims), Some(dtype)) => Ok(Layout::contiguous(dtype, &dims)),
        _ => {
            let (a, b) = (call.parameter(a), call.parameter(b));
            Err(Error::invalid(format!("{a} ({x}) and {b} ({y}) do not broadcast together")))
        }
    }
}
