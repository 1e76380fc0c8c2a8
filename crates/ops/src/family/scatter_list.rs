//! Updates to the batches of a tensor, or to the tensors of a list, each to a place of its own along one dimension.

use super::inputs::UnaliasedInput;
use super::scattering::origin;
use crate::argument::Arg;
use crate::call::Call;
use crate::error::{Error, Fault, Result};
use crate::infer::Infer;
use crate::plan::{Memory, Operand, Plan};
use crate::table::ArgSource::{A, Attr, No, O, Outs, Rest};
use crate::table::{AttrDefault, Node, Row, aclnn, node};
use cairn_tensor::kernels::access::PositionAccess;
use cairn_tensor::kernels::copy::copy;
use cairn_tensor::{DType, Layout};

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

/// Fails unless updates replace what is there, by one of these names.
fn expect_update(call: &Call<'_>, at: usize, names: &[&str]) -> Result<()> {
    if !call.has(at) || names.contains(&call.text(at)?) {
        return Ok(());
    }
    let (name, how) = (call.parameter(at), call.text(at)?);
    Err(Error::invalid(format!("{name} = {how:?}: expected \"update\"")))
}

/// A tensor of a list after its update: the tensor itself, or another that starts as a copy of it.
struct Updated {
    from: Option<UnaliasedInput>,
    out: Operand,
}

impl Updated {
    /// Arguments `at`: the tensors; `outs_at`: what they become, in place where it is absent.
    fn read(call: &mut Call<'_>, at: usize, outs_at: usize) -> Result<Vec<Updated>> {
        if !call.has(outs_at) {
            let tensors = call.inouts(at)?;
            tensors.iter().for_each(|tensor| call.touch_by_index(tensor));
            return Ok(tensors.into_iter().map(|out| Updated { from: None, out }).collect());
        }
        let (tensors, outs) = (call.tensors(at)?, call.outputs(outs_at)?);
        if tensors.len() != outs.len() {
            let (name, count, others) = (call.parameter(outs_at), outs.len(), tensors.len());
            return Err(Error::invalid(format!("{name} has {count} outputs for {others} inputs")));
        }
        let is_same =
            |a: &Operand, out: &Operand| a.address == out.address && *a.layout() == *out.layout();
        if tensors.iter().zip(&outs).any(|(a, out)| is_same(a, out)) {
            call.inouts(outs_at)?;
        }
        let mut updated = Vec::new();
        for (number, (a, out)) in tensors.iter().zip(&outs).enumerate() {
            call.expect_dims(outs_at, out, a.dims())?;
            call.expect_same(outs_at, out, at, a)?;
            let others = outs.iter().enumerate().filter(|(other, _)| *other != number);
            let is_apart = others.clone().all(|(_, other)| !call.shares(a, other));
            if is_same(a, out) && is_apart {
                call.touch_by_index(a);
                call.touch_by_index(out);
                updated.push(Updated { from: None, out: *out });
                continue;
            }
            let mut apart: Vec<&Operand> = others.map(|(_, other)| other).collect();
            if call.has_partial_overlap(a, out) {
                apart.push(out);
            }
            updated.push(Updated { from: Some(call.unaliased(*a, &apart)), out: *out });
        }
        Ok(updated)
    }
}

/// Arguments: tensors, index, updates, mask, how values meet, dimension of the updates, what the tensors become (absent: in
/// place).
fn scatter_list(call: &mut Call<'_>) -> Result<Plan> {
    expect_update(call, 4, &["", "update"])?;
    let tensors = Updated::read(call, 0, 6)?;
    let outs: Vec<Operand> = tensors.iter().map(|one| one.out).collect();
    let outs: Vec<&Operand> = outs.iter().collect();
    let (index, updates) = (call.read_index(1, &outs)?, call.read_by_index(2, &outs)?);
    let Some(&first) = outs.first() else {
        let name = call.parameter(0);
        return Err(Error::invalid(format!("{name} has no tensors")));
    };
    let axis = call.dim(5, updates.rank())?;
    let wrong_axis = || {
        let (name, axis) = (call.parameter(5), call.int(5).unwrap_or_default());
        Error::invalid(format!("{name} = {axis} is the dimension of the tensors in the list"))
    };
    let axis = axis.checked_sub(1).ok_or_else(wrong_axis)?;
    for tensor in &outs {
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
    let (size, max_length) = (first.dims()[axis], dims[1 + axis]);
    let destinations = Destinations { index, mask, size, max_length, name: call.parameter(1) };
    call.plan(move |memory| {
        destinations.index.prepare(memory);
        updates.prepare(memory);
        if let Some(mask) = &destinations.mask {
            mask.prepare(memory);
        }
        tensors.iter().flat_map(|one| &one.from).for_each(|from| from.prepare(memory));
        (0..tensors.len())
            .try_for_each(|at| destinations.start_and_length(memory, at).map(|_| ()))?;
        for (at, Updated { from, out }) in tensors.iter().enumerate() {
            if let Some(from) = from {
                copy(memory.parallel, memory.out(out), from.prepared(memory));
            }
            let (start, length) = destinations.start_and_length(memory, at)?;
            let part = out.with_layout(out.sliced(axis, start, length, 1));
            let update = updates.with_layout(updates.at(0, at).sliced(axis, 0, length, 1));
            copy(memory.parallel, memory.out(&part), update.prepared(memory));
        }
        Ok(())
    })
}

/// How many of the inputs of `ScatterList` are its tensors: after them come index and updates, and perhaps a mask. The
/// updates have the type of the tensors, so that types tell whether there is one.
fn listed(call: &Call<'_>) -> Result<usize> {
    let Arg::Tensors(inputs) = call.arg(0) else {
        return Err(Error::invalid("the inputs are no list"));
    };
    let dtype = |at: usize| inputs[at].layout.dtype;
    let after = match inputs.len() {
        count if count >= 3 => {
            let is_index = matches!(dtype(count - 2), DType::Int32 | DType::Int64);
            if is_index && dtype(count - 1) == dtype(0) { 2 } else { 3 }
        }
        _ => 2,
    };
    match inputs.len().checked_sub(after) {
        Some(count) if count > 0 => Ok(count),
        _ => {
            let count = inputs.len();
            Err(Error::invalid(format!(
                "{count} inputs; expected a list of tensors, then indice, updates and perhaps mask"
            )))
        }
    }
}

/// As [`scatter_list`], where one list has all inputs.
fn scatter_list_by_name(call: &mut Call<'_>) -> Result<Plan> {
    let count = listed(call)?;
    let Arg::Tensors(inputs) = call.arg(0) else { unreachable!("it was counted") };
    match inputs.len() - count {
        3 => call.move_last(0, 3),
        _ => call.replace(3, Arg::Absent),
    }
    call.move_last(0, 2);
    call.move_last(0, 1);
    scatter_list(call)
}

fn infer_list(call: &Call<'_>) -> Result<Vec<Layout>> {
    let count = listed(call)?;
    let Arg::Tensors(inputs) = call.arg(0) else { unreachable!("it was counted") };
    Ok(inputs[..count].iter().map(|one| one.layout.packed()).collect())
}

/// Where the updates of a tensor begin: an index for each batch, or pairs of a batch and an index.
struct Starts {
    index: UnaliasedInput,
    batches: usize,
    last: usize,
    name: &'static str,
}

impl Starts {
    /// The batch of an update and where it begins there. Fails for one that is outside.
    fn of(&self, memory: &Memory<'_>, at: usize) -> std::result::Result<(usize, usize), Fault> {
        let (index, name) = (PositionAccess::new(self.index.prepared(memory)), self.name);
        let inside = |value: i64, end: usize| usize::try_from(value).ok().filter(|one| *one < end);
        let (batch, start) = match self.index.rank() {
            1 => (at, index.get::<i64>(&[at])),
            _ => {
                let batch = index.get::<i64>(&[at, 0]);
                let Some(inside) = inside(batch, self.batches) else {
                    let last = self.batches as i64 - 1;
                    return Err(Fault(format!("{name}[{at}, 0] = {batch} is outside 0 to {last}")));
                };
                (inside, index.get::<i64>(&[at, 1]))
            }
        };
        match inside(start, self.last + 1) {
            Some(start) => Ok((batch, start)),
            None => {
                let last = self.last;
                Err(Fault(format!("{name}[{at}] = {start} is outside 0 to {last}")))
            }
        }
    }
}

/// Updates a part of each batch, or of those that pairs name, from an index on. Arguments: data, indices, updates,
/// dimension, how values meet, out.
fn scatter_update(call: &mut Call<'_>) -> Result<Plan> {
    expect_update(call, 4, &["none", "update"])?;
    let (from, out) = origin(call, 0, 5)?;
    if from.is_none() {
        call.touch_by_index(&out);
    }
    let (index, updates) = (call.read(1, &[&out])?, call.read(2, &[&out])?);
    call.expect_dtype(1, &index, &[DType::Int32, DType::Int64])?;
    call.expect_same(5, &out, 2, &updates)?;
    let dim = call.dim(3, out.rank())?;
    let rows = match index.dims() {
        [rows] if *rows == out.dims()[0] => Some(*rows),
        [rows, 2] => Some(*rows),
        _ => None,
    };
    let fits = updates.rank() == out.rank()
        && dim > 0
        && rows == Some(updates.dims()[0])
        && (1..out.rank()).all(|at| match at == dim {
            true => updates.dims()[at] <= out.dims()[at],
            false => updates.dims()[at] == out.dims()[at],
        });
    if !fits {
        return Err(Error::invalid(format!(
            "{} ({}) at {} ({}) along dimension {dim} does not go with {} ({}): expected an index for each batch, or pairs of a batch and an index, and a dimension after the first",
            call.parameter(2),
            *updates,
            call.parameter(1),
            *index,
            call.parameter(0),
            out.layout()
        )));
    }
    let (length, most) = (updates.dims()[dim], out.dims()[dim]);
    let starts =
        Starts { index, batches: out.dims()[0], last: most - length, name: call.parameter(1) };
    call.plan(move |memory| {
        starts.index.prepare(memory);
        updates.prepare(memory);
        let count = updates.dims()[0];
        (0..count).try_for_each(|at| starts.of(memory, at).map(|_| ()))?;
        if let Some(from) = &from {
            copy(memory.parallel, memory.out(&out), from.view(memory));
        }
        for at in 0..count {
            let (batch, start) = starts.of(memory, at)?;
            let to = out.with_layout(out.layout().sliced(dim, start, length, 1).at(0, batch));
            let update = updates.with_layout(updates.at(0, at));
            copy(memory.parallel, memory.out(&to), update.prepared(memory));
        }
        Ok(())
    })
}

/// The rows of this family.
pub const ROWS: &[Row] = &[
    aclnn("ScatterList", scatter_list),
    aclnn("InplaceScatterUpdate", scatter_update).with_args(&[A(0), A(1), A(2), A(3), No, A(0)]),
];

/// The operators of this family by IR name.
pub const NODES: &[Node] = &[
    node(
        "Scatter",
        &["var", "indices", "updates"],
        &["var"],
        Infer::Like(0),
        scatter_update,
        &[
            A(0),
            A(1),
            A(2),
            Attr("axis", AttrDefault::Int(0)),
            Attr("reduce", AttrDefault::Required),
            O(0),
        ],
    )
    .writes_first(),
    node(
        "ScatterList",
        &["var[]", "indice", "updates", "mask?"],
        &["var[]"],
        Infer::By(infer_list),
        scatter_list_by_name,
        &[
            Rest(0),
            A(1),
            A(2),
            A(3),
            Attr("reduce", AttrDefault::Text("update")),
            Attr("axis", AttrDefault::Int(-2)),
            Outs(0),
        ],
    )
    .writes_first(),
];
