//! Updates of parts of the tensors of a list, each at its own index along one dimension.

use super::inputs::UnaliasedInput;
use crate::call::Call;
use crate::error::{Error, Fault, Result};
use crate::plan::{Memory, Operand, Plan};
use crate::table::{Row, aclnn};
use cairn_tensor::DType;
use cairn_tensor::kernels::access::PositionAccess;
use cairn_tensor::kernels::copy::copy;

/// Where each update goes.
struct Destinations {
    index: UnaliasedInput,
    mask: Option<UnaliasedInput>,
    /// The size of the tensors along the dimension.
    size: usize,
    /// The size of the updates along the dimension.
    max_length: usize,
    name: &'static str,
}

impl Destinations {
    /// The start and the length of the update of a tensor: none where the mask is 0. Fails for an index outside the tensor.
    fn start_and_length(
        &self,
        memory: &Memory<'_>,
        at: usize,
    ) -> std::result::Result<(usize, usize), Fault> {
        let is_enabled = self
            .mask
            .is_none_or(|mask| PositionAccess::new(mask.prepared(memory)).get::<i64>(&[at]) != 0);
        if !is_enabled {
            return Ok((0, 0));
        }
        let (index, name) = (PositionAccess::new(self.index.prepared(memory)), self.name);
        let (start, length) = match self.index.rank() {
            1 => (index.get::<i64>(&[at]), self.max_length as i64),
            _ => (index.get::<i64>(&[at, 0]), index.get::<i64>(&[at, 1])),
        };
        if !(0..=self.max_length as i64).contains(&length) {
            let max_length = self.max_length;
            return Err(Fault(format!("{name}[{at}, 1] = {length} is outside 0 to {max_length}")));
        }
        let last = self.size as i64 - length;
        if !(0..=last).contains(&start) {
            return Err(Fault(format!(
                "{name}[{at}] = {start} is outside 0 to {last}, for an update of length {length}"
            )));
        }
        Ok((start as usize, length as usize))
    }
}

/// Arguments: tensors, index, updates, mask, how values are combined, dimension of the updates.
fn scatter_list(call: &mut Call<'_>) -> Result<Plan> {
    let tensors: Vec<Operand> = call.inouts(0)?;
    let mode = call.text(4)?;
    if !matches!(mode, "" | "update") {
        let name = call.parameter(4);
        return Err(Error::invalid(format!("{name} = {mode:?}: expected \"update\"")));
    }
    let outs: Vec<&Operand> = tensors.iter().collect();
    let (index, updates) = (call.read_index(1, &outs)?, call.read_by_index(2, &outs)?);
    let Some(first) = tensors.first() else {
        let name = call.parameter(0);
        return Err(Error::invalid(format!("{name} has no tensors")));
    };
    let axis = call.dim(5, updates.rank())?;
    let wrong_axis = || {
        let (name, axis) = (call.parameter(5), call.int(5).unwrap_or_default());
        Error::invalid(format!("{name} = {axis} is the dimension of the tensors in the list"))
    };
    let axis = axis.checked_sub(1).ok_or_else(wrong_axis)?;
    for tensor in &tensors {
        call.expect_dims(0, tensor, first.dims())?;
        call.expect_same(2, &updates, 0, tensor)?;
    }
    let (count, dims) = (tensors.len(), updates.dims());
    let fits = dims.len() == first.rank() + 1
        && dims[0] == count
        && dims[1..].iter().zip(first.dims()).enumerate().all(|(at, (have, size))| match at {
            at if at == axis => have <= size,
            _ => have == size,
        });
    if !fits {
        let (name, other, sizes) = (call.parameter(2), call.parameter(0), first.dims());
        return Err(Error::invalid(format!(
            "{name} has the sizes {dims:?}, which {count} tensors {sizes:?} of {other} do not take along dimension {axis}"
        )));
    }
    match index.dims() {
        [rows] | [rows, 2] if *rows == count => (),
        have => {
            let name = call.parameter(1);
            return Err(Error::invalid(format!(
                "{name} has the sizes {have:?}: expected [{count}] or [{count}, 2]"
            )));
        }
    }
    let mask = match call.has(3) {
        false => None,
        true => {
            let mask = call.read(3, &outs)?;
            call.expect_dtype(3, &mask, &[DType::Uint8])?;
            call.expect_dims(3, &mask, &[count])?;
            Some(mask)
        }
    };
    tensors.iter().for_each(|tensor| call.touch_by_index(tensor));
    let (size, max_length) = (first.dims()[axis], dims[1 + axis]);
    let destinations = Destinations { index, mask, size, max_length, name: call.parameter(1) };
    call.plan(move |memory| {
        destinations.index.prepare(memory);
        updates.prepare(memory);
        if let Some(mask) = &destinations.mask {
            mask.prepare(memory);
        }
        (0..tensors.len())
            .try_for_each(|at| destinations.start_and_length(memory, at).map(|_| ()))?;
        for (at, tensor) in tensors.iter().enumerate() {
            let (start, length) = destinations.start_and_length(memory, at)?;
            let part = tensor.with_layout(tensor.sliced(axis, start, length, 1));
            let from = updates.with_layout(updates.at(0, at).sliced(axis, 0, length, 1));
            copy(memory.parallel, memory.out(&part), from.prepared(memory));
        }
        Ok(())
    })
}

/// The rows of this family.
pub const ROWS: &[Row] = &[aclnn("ScatterList", scatter_list)];
