//! What the nodes of recurrent layers have in common: attributes that are checked, gate orders, lengths, gradients.

use super::super::inputs::UnaliasedInput;
use super::layer::{Gradients, Kind, LayerScratch, Sizes, Source, Target, zeros};
use crate::argument::Arg;
use crate::call::Call;
use crate::error::{Error, Fault, Outcome, Result};
use crate::plan::{Memory, Operand, Plan};
use cairn_tensor::kernels::copy::copy;
use cairn_tensor::kernels::recurrent::mark_by_lengths;
use cairn_tensor::{DType, Layout};

pub const TYPES: &[DType] = &[DType::Float, DType::Float16, DType::Bf16];

/// An attribute with the values that are taken, the first of which is its default.
pub type Choice = (usize, &'static [&'static str]);

/// Fails unless an attribute is absent or has one of these values, written as text.
pub fn expect_choice(call: &Call<'_>, (at, allowed): Choice) -> Result<()> {
    let value = match call.arg(at) {
        Arg::Absent => return Ok(()),
        Arg::Text(text) => text.to_string(),
        Arg::Int(value) => value.to_string(),
        Arg::Flag(value) => value.to_string(),
        _ => call.float(at)?.to_string(),
    };
    if allowed.contains(&value.as_str()) {
        return Ok(());
    }
    let (name, allowed) = (call.parameter(at), allowed.join(", "));
    Err(Error::invalid(format!("{name} = {value}: expected {allowed}")))
}

/// Fails when an input that is not supported (peepholes, masks of dropout) has more than a placeholder in it.
pub fn expect_unused(call: &Call<'_>, at: usize) -> Result<()> {
    match call.arg(at) {
        Arg::Tensor(tensor) if tensor.layout.rank() > 0 && tensor.layout.count() > 0 => {
            let (name, layout) = (call.parameter(at), tensor.layout);
            Err(Error::invalid(format!("{name} ({layout}) is not taken; leave it out")))
        }
        _ => Ok(()),
    }
}

/// Where the blocks of an LSTM are: input gate, candidate, forget gate, output gate.
pub fn lstm_order(call: &Call<'_>, at: usize) -> Result<[usize; 4]> {
    match call.text(at)? {
        "" | "ijfo" => Ok([0, 1, 2, 3]),
        "ifjo" | "ifco" => Ok([0, 2, 1, 3]),
        other => {
            let name = call.parameter(at);
            Err(Error::invalid(format!("{name} = {other}: ijfo, ifjo and ifco are known")))
        }
    }
}

/// Where the blocks of a GRU are: reset gate, update gate, candidate.
pub fn gru_order(call: &Call<'_>, at: usize) -> Result<[usize; 4]> {
    match call.text(at)? {
        "" | "zrh" => Ok([1, 0, 2, 3]),
        "rzh" => Ok([0, 1, 2, 3]),
        other => {
            let name = call.parameter(at);
            Err(Error::invalid(format!("{name} = {other}: zrh and rzh are known")))
        }
    }
}

/// Whether steps are taken from the last to the first.
pub fn reversed(call: &Call<'_>, at: usize) -> Result<bool> {
    match call.text(at)? {
        "" | "UNIDIRECTIONAL" => Ok(false),
        "REDIRECTIONAL" => Ok(true),
        other => {
            let name = call.parameter(at);
            Err(Error::invalid(format!(
                "{name} = {other}: UNIDIRECTIONAL and REDIRECTIONAL are known"
            )))
        }
    }
}

/// Which rows take part in each step.
#[derive(Clone, Copy)]
pub enum Lengths {
    /// How many steps each row has.
    Counts(UnaliasedInput),
    /// Not 0 where a row takes part: steps by rows by anything, of which the first counts.
    Mask(UnaliasedInput),
}

/// The rows that take part, where the caller passes them. A tensor without dimensions is a placeholder.
pub fn lengths(
    call: &mut Call<'_>,
    at: usize,
    sizes: &Sizes,
    outs: &[&Operand],
) -> Result<Option<Lengths>> {
    if !call.has(at) || call.layout(at)?.rank() == 0 || call.layout(at)?.count() == 0 {
        return Ok(None);
    }
    let read = call.read(at, outs)?;
    let Sizes { steps, rows, .. } = *sizes;
    match (read.dtype, read.dims()) {
        (DType::Int32, [one]) if *one == rows => Ok(Some(Lengths::Counts(read))),
        (dtype, [a, b, _]) if [*a, *b] == [steps, rows] && TYPES.contains(&dtype) => {
            Ok(Some(Lengths::Mask(read.with_layout(read.at(2, 0)))))
        }
        _ => {
            let (name, have) = (call.parameter(at), *read);
            Err(Error::invalid(format!(
                "{name} is {have}: expected int32[{rows}], or a mask [{steps}, {rows}, n] of reals"
            )))
        }
    }
}

/// Writes which rows take part in each step.
pub fn fill_active(
    memory: &Memory<'_>,
    scratch: &LayerScratch,
    lengths: &Option<Lengths>,
    name: &str,
) -> Outcome {
    let (Some(lengths), Some(active)) = (lengths, &scratch.active) else { return Ok(()) };
    match lengths {
        Lengths::Mask(mask) => {
            copy(memory.parallel, memory.scratch(active), mask.view(memory));
            Ok(())
        }
        Lengths::Counts(counts) => {
            let result = mark_by_lengths(memory.scratch(active), counts.view(memory));
            result.map_err(|(row, count)| {
                Fault(format!("{name}[{row}] = {count} is no number of steps"))
            })
        }
    }
}

/// The sizes that follow from an input (steps by rows by elements) and from the blocks of the weights.
pub fn sizes(call: &Call<'_>, kind: Kind, at: usize, weights: usize) -> Result<Sizes> {
    let (x, w) = (with_step_dim(&call.layout(at)?, &[1, 1, 1]), call.layout(weights)?);
    let columns = if w.rank() == 2 { w.dims()[1] } else { 0 };
    let hidden = columns / kind.blocks();
    if x.rank() != 3
        || x.dims()[0] == 0
        || x.dims()[2] == 0
        || hidden * kind.blocks() != columns
        || hidden == 0
    {
        let (x_name, name, blocks) = (call.parameter(at), call.parameter(weights), kind.blocks());
        return Err(Error::invalid(format!(
            "{x_name} is {x} and {name} is {w}: expected [steps, rows, inputs] and [.., {blocks} * hidden], not empty"
        )));
    }
    Ok(Sizes { kind, steps: x.dims()[0], rows: x.dims()[1], hidden })
}

/// How many elements the input of a step has.
pub fn input_size(call: &Call<'_>) -> Result<usize> {
    Ok(call.layout(0)?.dims().last().copied().unwrap_or(0))
}

/// With a dimension of 1 in front where one is expected and missing: a cell is a layer with one step.
pub fn with_step_dim(layout: &Layout, dims: &[usize]) -> Layout {
    let lacks_steps = layout.rank() == 2 && dims.len() == 3 && dims[0] == 1;
    if lacks_steps { layout.with(0) } else { *layout }
}

/// An input of real numbers with these sizes.
pub fn read_real(
    call: &mut Call<'_>,
    at: usize,
    dims: &[usize],
    outs: &[&Operand],
) -> Result<UnaliasedInput> {
    let read = call.read(at, outs)?;
    let read = read.with_layout(with_step_dim(&read, dims));
    call.expect_dims(at, &read, dims)?;
    call.expect_dtype(at, &read, TYPES)?;
    Ok(read)
}

/// As [`read_real`], if it is there.
pub fn optional(
    call: &mut Call<'_>,
    at: usize,
    dims: &[usize],
    outs: &[&Operand],
) -> Result<Option<UnaliasedInput>> {
    if call.has(at) { read_real(call, at, dims, outs).map(Some) } else { Ok(None) }
}

/// A state, rows by hidden, also with a dimension of 1 in front; if it is there.
pub fn state(
    call: &mut Call<'_>,
    at: usize,
    sizes: &Sizes,
    outs: &[&Operand],
) -> Result<Option<UnaliasedInput>> {
    if !call.has(at) {
        return Ok(None);
    }
    let read = call.read(at, outs)?;
    call.expect_dtype(at, &read, TYPES)?;
    Ok(Some(read.with_layout(state_layout(call, at, &read, sizes)?)))
}

/// The layout of a state without the dimension of 1 in front.
pub fn state_layout(call: &Call<'_>, at: usize, layout: &Layout, sizes: &Sizes) -> Result<Layout> {
    let dims = [sizes.rows, sizes.hidden];
    let bare = if layout.rank() == 3 && layout.dims()[0] == 1 { layout.at(0, 0) } else { *layout };
    call.expect_dims(at, &bare, &dims)?;
    Ok(bare)
}

/// An output, if it is there.
pub fn out(call: &mut Call<'_>, at: usize, dims: &[usize]) -> Result<Option<Operand>> {
    let Some(out) = call.optional_output(at)? else { return Ok(None) };
    let out = out.with_layout(with_step_dim(&out, dims));
    call.expect_dims(at, &out, dims)?;
    call.expect_dtype(at, &out, TYPES)?;
    Ok(Some(out))
}

/// An output for a state.
pub fn state_out(call: &mut Call<'_>, at: usize, sizes: &Sizes) -> Result<Option<Operand>> {
    let Some(out) = call.optional_output(at)? else { return Ok(None) };
    call.expect_dtype(at, &out, TYPES)?;
    Ok(Some(out.with_layout(state_layout(call, at, &out, sizes)?)))
}

/// Both weights of one tensor: those of inputs come first.
pub fn split_weights(
    call: &mut Call<'_>,
    at: usize,
    inputs: usize,
    hidden: usize,
    blocks: usize,
    outs: &[&Operand],
) -> Result<[UnaliasedInput; 2]> {
    let both = read_real(call, at, &[inputs + hidden, blocks * hidden], outs)?;
    Ok([
        both.with_layout(both.sliced(0, 0, inputs, 1)),
        both.with_layout(both.sliced(0, inputs, hidden, 1)),
    ])
}

/// Both weights: of one tensor where the second is absent.
pub fn weights(
    call: &mut Call<'_>,
    sizes: &Sizes,
    inputs: usize,
    outs: &[&Operand],
) -> Result<[UnaliasedInput; 2]> {
    let columns = sizes.kind.blocks() * sizes.hidden;
    if !call.has(2) {
        return split_weights(call, 1, inputs, sizes.hidden, sizes.kind.blocks(), outs);
    }
    Ok([
        read_real(call, 1, &[inputs, columns], outs)?,
        read_real(call, 2, &[sizes.hidden, columns], outs)?,
    ])
}

/// The tensors for the gradients of a layer, all read and checked. See [`Gradients`].
pub struct GradientTensors {
    pub reversed: bool,
    pub order: [usize; 4],
    pub x: UnaliasedInput,
    /// Inputs by blocks, hidden by blocks.
    pub weights: [UnaliasedInput; 2],
    pub saved: [UnaliasedInput; 4],
    pub states: [Option<UnaliasedInput>; 2],
    pub tanh: Option<UnaliasedInput>,
    pub first: [Option<UnaliasedInput>; 2],
    pub dy: Option<UnaliasedInput>,
    pub last: [Option<UnaliasedInput>; 2],
    pub dx: Option<Operand>,
    pub dfirst: [Option<Operand>; 2],
    pub dweights: [Option<Operand>; 2],
    pub dbias: [Option<Operand>; 2],
}

/// The plan of the gradients of a layer. `reads` are all inputs.
pub fn plan_gradients(
    call: &mut Call<'_>,
    sizes: Sizes,
    tensors: GradientTensors,
    reads: Vec<UnaliasedInput>,
    lengths: Option<Lengths>,
    lengths_at: usize,
) -> Result<Plan> {
    if sizes.rows == 0 {
        let dparams = tensors.dweights.into_iter().chain(tensors.dbias);
        return zeros(call, dparams.flatten().collect());
    }
    let scratch = LayerScratch::new(call, &sizes, lengths.is_some(), true);
    let transposed = tensors.weights.map(|one| one.with_layout(one.transposed(0, 1)));
    let mut layer = Gradients::new(
        Source::Tensor(tensors.x),
        transposed[0],
        transposed[1],
        tensors.order,
        tensors.saved,
        tensors.states,
    );
    layer.reversed = tensors.reversed;
    layer.tanh = tensors.tanh;
    layer.first = tensors.first;
    layer.dy = tensors.dy.map(Source::Tensor);
    layer.last = tensors.last;
    layer.dfirst = tensors.dfirst;
    layer.dweights =
        tensors.dweights.map(|out| out.map(|out| out.with_layout(out.transposed(0, 1))));
    layer.dbias = tensors.dbias;
    let dx = tensors.dx.map(|out| (out, call.scratch(DType::Float, out.dims())));
    layer.dx = dx.map(|(_, scratch)| (Target::Scratch(scratch, *scratch), false));
    layer.take_scratch(call, &sizes, lengths.is_some());
    let name = call.parameter(lengths_at);
    call.plan(move |memory| {
        reads.iter().for_each(|read| read.prepare(memory));
        fill_active(memory, &scratch, &lengths, name)?;
        layer.run(memory, &scratch, &sizes);
        if let Some((out, scratch)) = &dx {
            copy(memory.parallel, memory.out(out), memory.scratch(scratch).view());
        }
        Ok(())
    })
}
