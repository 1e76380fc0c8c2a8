//! Arguments of quantised calls, which are refused.

use crate::argument::Arg;
use crate::call::Call;
use crate::error::{Error, Result};

/// Whether an argument brings elements: neither null, nor an empty tensor, nor a list of such.
pub(super) fn brings_elements(call: &Call<'_>, at: usize) -> bool {
    match call.arg(at) {
        Arg::Tensor(tensor) => tensor.layout.count() > 0,
        Arg::Tensors(list) => list.iter().any(|one| one.layout.count() > 0),
        _ => false,
    }
}

/// Fails if one of these arguments, which only quantised calls have, brings elements.
pub(super) fn refuse_quantised(call: &Call<'_>, arguments: &[usize]) -> Result<()> {
    match arguments.iter().find(|at| brings_elements(call, **at)) {
        None => Ok(()),
        Some(at) => {
            let name = call.parameter(*at);
            Err(Error::invalid(format!("{name} is there: quantised calls are not supported")))
        }
    }
}
