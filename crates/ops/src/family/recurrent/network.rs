//! Recurrent networks of several layers and directions, and their gradients.
//!
//! As documented, dropout between layers is not applied, whatever its probability.

use super::super::inputs::UnaliasedInput;
use super::layer::{Gradients, Kind, Layer, LayerScratch, Sizes, Source, Target, zeros};
use crate::call::Call;
use crate::error::{Error, Fault, Outcome, Result};
use crate::plan::{Memory, Operand, Plan, Scratch};
use crate::table::{Row, aclnn};
use cairn_tensor::kernels::copy::copy;
use cairn_tensor::kernels::recurrent::mark_by_sizes;
use cairn_tensor::{DType, Layout};

const TYPES: &[DType] = &[DType::Float, DType::Float16];

/// The index of each argument of a function.
struct ArgIndices {
    kind: Kind,
    input: usize,
    params: usize,
    states: usize,
    sizes: usize,
    bias: usize,
    layers: usize,
    bidirectional: usize,
    batch_first: usize,
    /// Of an LSTM its four gates; of a GRU reset gate, update gate, candidate, and what the reset gate is multiplied by.
    saved: [usize; 4],
    /// The states after each step.
    after: [usize; 2],
    /// The hyperbolic tangent of the cell state.
    tanh: usize,
}

const LSTM: ArgIndices = ArgIndices {
    kind: Kind::Lstm,
    input: 0,
    params: 1,
    states: 2,
    sizes: 3,
    bias: 4,
    layers: 5,
    bidirectional: 8,
    batch_first: 9,
    saved: [13, 14, 15, 16],
    after: [17, 18],
    tanh: 19,
};

const LSTM_BACKWARD: ArgIndices = ArgIndices {
    kind: Kind::Lstm,
    input: 0,
    params: 2,
    states: 1,
    sizes: 13,
    bias: 14,
    layers: 15,
    bidirectional: 18,
    batch_first: 19,
    saved: [6, 7, 8, 9],
    after: [10, 11],
    tanh: 12,
};

const GRU: ArgIndices = ArgIndices {
    kind: Kind::Gru,
    input: 0,
    params: 1,
    states: 2,
    sizes: 3,
    bias: 4,
    layers: 5,
    bidirectional: 8,
    batch_first: 9,
    saved: [12, 13, 14, 15],
    after: [16, usize::MAX],
    tanh: usize::MAX,
};

const GRU_BACKWARD: ArgIndices = ArgIndices {
    kind: Kind::Gru,
    input: 0,
    params: 1,
    states: 2,
    sizes: 10,
    bias: 11,
    layers: 12,
    bidirectional: 13,
    batch_first: 14,
    saved: [5, 6, 7, 8],
    after: [9, usize::MAX],
    tanh: usize::MAX,
};

/// The blocks of weights: for an LSTM where input gate, candidate, forget gate and output gate are, for a GRU reset gate,
/// update gate and candidate.
fn order(kind: Kind) -> [usize; 4] {
    match kind {
        Kind::Lstm => [0, 2, 1, 3],
        Kind::Gru => [0, 1, 2, 3],
    }
}

/// A network: its sizes, and its input, weights and states, checked.
struct Network {
    sizes: Sizes,
    layers: usize,
    directions: usize,
    dtype: DType,
    batch_first: bool,
    /// Steps by rows by inputs.
    x: UnaliasedInput,
    /// Of each layer and direction: both weights, blocks by inputs and blocks by hidden; both biases.
    params: Vec<([UnaliasedInput; 2], [Option<UnaliasedInput>; 2])>,
    /// The states before the first step: layers and directions by rows by hidden.
    first: [Option<UnaliasedInput>; 2],
    /// How many rows take part in each step.
    row_counts: Option<UnaliasedInput>,
}

impl Network {
    /// Reads the arguments that both directions of time have, not aliasing `outs`.
    fn new(call: &mut Call<'_>, arg_indices: &ArgIndices, outs: &[Operand]) -> Result<Network> {
        let outs: Vec<&Operand> = outs.iter().collect();
        let (kind, blocks) = (arg_indices.kind, arg_indices.kind.blocks());
        let x = call.read(arg_indices.input, &outs)?;
        call.expect_dtype(arg_indices.input, &x, TYPES)?;
        let (has_bias, bidirectional) =
            (call.flag(arg_indices.bias)?, call.flag(arg_indices.bidirectional)?);
        let batch_first = call.flag(arg_indices.batch_first)?;
        let directions = if bidirectional { 2 } else { 1 };
        let layers = call.int(arg_indices.layers)?;
        let tensors_per_direction = if has_bias { 4 } else { 2 };
        let name = call.parameter(arg_indices.layers);
        let per_layer = (tensors_per_direction * directions) as i64;
        let count = call.tensors(arg_indices.params)?.len();
        if layers < 1 || layers.checked_mul(per_layer) != Some(count as i64) {
            let list = call.parameter(arg_indices.params);
            return Err(Error::invalid(format!(
                "{name} = {layers}: expected at least 1, and {list} has {count} tensors, {per_layer} for each layer"
            )));
        }
        let layers = layers as usize;
        let row_counts = row_counts(call, arg_indices, &outs)?;
        let x = by_steps(call, arg_indices.input, x, row_counts.as_ref(), batch_first)?;
        let (steps, rows, inputs) = (x.dims()[0], x.dims()[1], x.dims()[2]);
        let mut reads = Vec::with_capacity(count);
        for operand in call.tensors(arg_indices.params)? {
            reads.push(call.unaliased(operand, &outs));
        }
        let hidden = if reads[1].rank() == 2 { reads[1].dims()[1] } else { 0 };
        let columns = hidden.checked_mul(blocks).filter(|columns| *columns > 0);
        let (Some(columns), true) = (columns, steps > 0 && inputs > 0) else {
            let (have, name) = (*reads[1], call.parameter(arg_indices.params));
            return Err(Error::invalid(format!(
                "{name}[1] is {have}, and there are {steps} steps of {inputs} inputs: each must be at least 1"
            )));
        };
        let mut params = Vec::new();
        for (at, group) in reads.chunks_exact(tensors_per_direction).enumerate() {
            let inputs = if at < directions { inputs } else { directions * hidden };
            let expected: [&[usize]; 4] =
                [&[columns, inputs], &[columns, hidden], &[columns], &[columns]];
            for (index, (one, dims)) in group.iter().zip(expected).enumerate() {
                if one.dims() != dims || one.dtype != x.dtype {
                    let (name, index, dtype) = (
                        call.parameter(arg_indices.params),
                        at * tensors_per_direction + index,
                        x.dtype,
                    );
                    let (have, want) = (**one, Layout::contiguous(dtype, dims));
                    return Err(Error::invalid(format!(
                        "{name}[{index}] is {have}: expected {want}"
                    )));
                }
            }
            params.push(([group[0], group[1]], [group.get(2).copied(), group.get(3).copied()]));
        }
        let sizes = Sizes { kind, steps, rows, hidden };
        let mut network = Network {
            sizes,
            layers,
            directions,
            dtype: x.dtype,
            batch_first,
            x,
            params,
            first: [None; 2],
            row_counts,
        };
        network.first = network.states(call, arg_indices.states, &outs)?;
        Ok(network)
    }

    /// How many layers there are, each direction counted.
    fn layer_directions(&self) -> usize {
        self.layers * self.directions
    }

    fn state_dims(&self) -> [usize; 3] {
        [self.layer_directions(), self.sizes.rows, self.sizes.hidden]
    }

    /// The states before the first step, if they are there: one tensor, or a list of two.
    fn states(
        &self,
        call: &mut Call<'_>,
        at: usize,
        outs: &[&Operand],
    ) -> Result<[Option<UnaliasedInput>; 2]> {
        if !call.has(at) {
            return Ok([None; 2]);
        }
        let operands = match self.sizes.kind {
            Kind::Lstm => call.tensors(at)?,
            Kind::Gru => vec![call.tensor(at)?],
        };
        let mut states = [None; 2];
        if operands.len() != self.sizes.kind.states() && !operands.is_empty() {
            let (name, have) = (call.parameter(at), operands.len());
            return Err(Error::invalid(format!("{name} has {have} tensors: expected 2")));
        }
        for (state, operand) in states.iter_mut().zip(operands) {
            self.expect(call, at, &operand, &self.state_dims())?;
            *state = Some(call.unaliased(operand, outs));
        }
        Ok(states)
    }

    /// Fails unless a tensor has these sizes and the network's type.
    fn expect(&self, call: &Call<'_>, at: usize, one: &Layout, dims: &[usize]) -> Result<()> {
        call.expect_dims(at, one, dims)?;
        call.expect_dtype(at, one, &[self.dtype])
    }

    /// One state of all layers and directions, if it is there.
    fn state(
        &self,
        call: &mut Call<'_>,
        at: usize,
        outs: &[&Operand],
    ) -> Result<Option<UnaliasedInput>> {
        let Some(operand) = call.optional(at)? else { return Ok(None) };
        self.expect(call, at, &operand, &self.state_dims())?;
        Ok(Some(call.unaliased(operand, outs)))
    }

    /// The layout of a tensor with the network's output of each step, as steps by rows by elements.
    fn sequence(
        &self,
        call: &Call<'_>,
        at: usize,
        layout: &Layout,
        columns: usize,
    ) -> Result<Layout> {
        let Sizes { steps, rows, .. } = self.sizes;
        let transposed = self.batch_first && self.row_counts.is_none();
        let dims = if transposed { [rows, steps, columns] } else { [steps, rows, columns] };
        let by_steps = match layout.rank() {
            2 if self.row_counts.is_some() && layout.dims() == [steps * rows, columns] => {
                split_steps(layout, steps, rows)
            }
            _ => {
                self.expect(call, at, layout, &dims)?;
                if transposed { layout.transposed(0, 1) } else { *layout }
            }
        };
        call.expect_dtype(at, layout, &[self.dtype])?;
        Ok(by_steps)
    }

    /// A list with a tensor for each layer and direction, by steps, rows and hidden; as they are.
    fn expect_list(&self, call: &Call<'_>, at: usize, list: &[Operand]) -> Result<()> {
        if list.len() != self.layer_directions() {
            let (name, have, want) = (call.parameter(at), list.len(), self.layer_directions());
            return Err(Error::invalid(format!("{name} has {have} tensors: expected {want}")));
        }
        let Sizes { steps, rows, hidden, .. } = self.sizes;
        list.iter().try_for_each(|one| self.expect(call, at, one, &[steps, rows, hidden]))
    }

    /// Writes which rows take part in each step.
    fn fill_active(&self, memory: &Memory<'_>, scratch: &LayerScratch, parameter: &str) -> Outcome {
        let (Some(counts), Some(active)) = (&self.row_counts, &scratch.active) else {
            return Ok(());
        };
        let result = mark_by_sizes(memory.scratch(active), counts.prepared(memory));
        result.map_err(|(step, size)| {
            let rows = self.sizes.rows;
            Fault(format!(
                "{parameter}[{step}] = {size}: expected {rows} first, then the same or less, and at least 1"
            ))
        })
    }

    /// Copies what has to be copied, before anything is written.
    fn prepare(&self, memory: &Memory<'_>) {
        let params = self
            .params
            .iter()
            .flat_map(|(weights, bias)| weights.iter().chain(bias.iter().flatten()));
        let others =
            [&self.x].into_iter().chain(self.first.iter().flatten()).chain(&self.row_counts);
        params.chain(others).for_each(|read| read.prepare(memory));
    }
}

/// The first dimension split into steps and rows.
fn split_steps(layout: &Layout, steps: usize, rows: usize) -> Layout {
    let (stride, last) = (layout.strides()[0], layout.strides()[1]);
    let dims = [steps, rows, layout.dims()[1]];
    Layout::strided(layout.dtype, &dims, &[stride * rows as isize, stride, last], layout.offset)
}

/// How many rows take part in each step, where the caller says so.
fn row_counts(
    call: &mut Call<'_>,
    arg_indices: &ArgIndices,
    outs: &[&Operand],
) -> Result<Option<UnaliasedInput>> {
    let at = arg_indices.sizes;
    if !call.has(at) || call.layout(at)?.count() == 0 {
        return Ok(None);
    }
    let counts = call.read(at, outs)?;
    let name = call.parameter(at);
    if arg_indices.kind == Kind::Gru {
        let have = *counts;
        return Err(Error::invalid(format!(
            "{name} ({have}) is not taken yet: rows of several lengths are documented as not supported"
        )));
    }
    call.expect_dtype(at, &counts, &[DType::Int64])?;
    match counts.rank() {
        1 => Ok(Some(counts)),
        _ => Err(Error::invalid(format!("{name} ({}) must have one dimension", *counts))),
    }
}

/// The input as steps by rows by elements.
fn by_steps(
    call: &Call<'_>,
    at: usize,
    x: UnaliasedInput,
    counts: Option<&UnaliasedInput>,
    batch_first: bool,
) -> Result<UnaliasedInput> {
    let wrong = |why: String| Err(Error::invalid(format!("{} ({}) {why}", call.parameter(at), *x)));
    match counts {
        None if x.rank() != 3 => wrong("must have three dimensions".into()),
        None if batch_first => Ok(x.with_layout(x.transposed(0, 1))),
        None => Ok(x),
        Some(counts) => {
            let steps = counts.count();
            if x.rank() != 2 || !x.dims()[0].is_multiple_of(steps) {
                return wrong(format!(
                    "must have two dimensions, the first a multiple of {steps} steps"
                ));
            }
            Ok(x.with_layout(split_steps(&x, steps, x.dims()[0] / steps)))
        }
    }
}

/// Part `at` of the first dimension.
fn part(read: &Option<UnaliasedInput>, at: usize) -> Option<UnaliasedInput> {
    read.map(|read| read.with_layout(read.layout().at(0, at)))
}

impl UnaliasedInput {
    fn layout(&self) -> Layout {
        **self
    }
}

/// The tensors of several lists in one.
fn concatenated(lists: &[&[Operand]]) -> Vec<Operand> {
    lists.iter().flat_map(|list| list.iter().copied()).collect()
}

/// See [`ArgIndices`]; then `train` at 7, and outputs at 10: y, the last states, and the lists.
fn forward(call: &mut Call<'_>, arg_indices: &'static ArgIndices) -> Result<Plan> {
    const TRAIN: usize = 7;
    const OUT: usize = 10;
    let states = arg_indices.kind.states();
    let train = call.flag(TRAIN)?;
    let out = call.output(OUT)?;
    let mut last = [None; 2];
    for (index, last) in last.iter_mut().take(states).enumerate() {
        *last = Some(call.output(OUT + 1 + index)?);
    }
    let mut lists: [Vec<Operand>; 7] = Default::default();
    let list_indices: Vec<usize> = (arg_indices.saved.iter().chain(&arg_indices.after[..states]))
        .chain((arg_indices.kind == Kind::Lstm).then_some(&arg_indices.tanh))
        .copied()
        .collect();
    if train {
        for (list, at) in lists.iter_mut().zip(&list_indices) {
            *list = call.outputs(*at)?;
        }
    }
    let last_outs: Vec<Operand> = last.iter().flatten().copied().collect();
    let mut outs = concatenated(&[&[out], &last_outs]);
    lists.iter().for_each(|list| outs.extend(list));
    let network = Network::new(call, arg_indices, &outs)?;
    let Sizes { steps, rows, hidden, .. } = network.sizes;
    let layout = network.sequence(call, OUT, &out, network.directions * hidden)?;
    let out = out.with_layout(layout);
    for (index, last) in last.iter().flatten().enumerate() {
        network.expect(call, OUT + 1 + index, last, &network.state_dims())?;
    }
    if train {
        for (list, at) in lists.iter().zip(&list_indices) {
            network.expect_list(call, *at, list)?;
        }
    }
    if rows == 0 {
        return call.nothing();
    }
    let scratch = LayerScratch::new(call, &network.sizes, network.row_counts.is_some(), false);
    let mut layers = Vec::with_capacity(network.layer_directions());
    let mut layer_input = Source::Tensor(network.x);
    for layer in 0..network.layers {
        let dims = [steps, rows, network.directions * hidden];
        let layer_output = (layer + 1 < network.layers).then(|| call.scratch(network.dtype, &dims));
        for direction in 0..network.directions {
            let at = layer * network.directions + direction;
            let (weights, bias) = network.params[at];
            let transposed = weights.map(|one| one.with_layout(one.transposed(0, 1)));
            let mut planned = Layer::new(
                call,
                &scratch,
                layer_input,
                transposed[0],
                transposed[1],
                order(arg_indices.kind),
            );
            let own_columns = |layout: &Layout| layout.sliced(2, direction * hidden, hidden, 1);
            planned.reversed = direction == 1;
            planned.bias = bias;
            planned.first = [part(&network.first[0], at), part(&network.first[1], at)];
            planned.y = Some(match &layer_output {
                Some(scratch) => Target::Scratch(*scratch, own_columns(scratch)),
                None => Target::Tensor(out.with_layout(own_columns(&out))),
            });
            planned.last = last.map(|last| last.map(|one| one.with_layout(one.layout().at(0, at))));
            if train {
                let one = |index: usize| lists[index].get(at).copied();
                planned.saved = [one(0), one(1), one(2), one(3)];
                planned.states = [one(4), if states == 2 { one(5) } else { None }];
                planned.tanh = if states == 2 { one(6) } else { None };
            }
            layers.push(planned);
        }
        if let Some(scratch) = layer_output {
            layer_input = Source::Scratch(scratch, *scratch);
        }
    }
    let name = call.parameter(arg_indices.sizes);
    call.plan(move |memory| {
        network.prepare(memory);
        network.fill_active(memory, &scratch, name)?;
        layers.iter().for_each(|layer| layer.run(memory, &scratch, &network.sizes));
        Ok(())
    })
}

/// See [`ArgIndices`]; then the gradients of y and of the last states at 3, and outputs at `outputs`: gradients of
/// the input, of the first states and of the parameters.
fn backward(call: &mut Call<'_>, arg_indices: &'static ArgIndices, outputs: usize) -> Result<Plan> {
    const DY: usize = 3;
    let states = arg_indices.kind.states();
    let dx = call.output(outputs)?;
    let mut dfirst = [None; 2];
    for (index, to) in dfirst.iter_mut().take(states).enumerate() {
        *to = Some(call.output(outputs + 1 + index)?);
    }
    let dparams_at = outputs + 1 + states;
    let dparams = call.outputs(dparams_at)?;
    let first_outs: Vec<Operand> = dfirst.iter().flatten().copied().collect();
    let outs = concatenated(&[&[dx], &first_outs, &dparams]);
    let network = Network::new(call, arg_indices, &outs)?;
    let outs: Vec<&Operand> = outs.iter().collect();
    let Sizes { steps, rows, hidden, .. } = network.sizes;
    let dy = match call.optional(DY)? {
        None => None,
        Some(operand) => {
            let read = call.unaliased(operand, &outs);
            let layout = network.sequence(call, DY, &read, network.directions * hidden)?;
            Some(read.with_layout(layout))
        }
    };
    let mut last = [None; 2];
    for (index, last) in last.iter_mut().take(states).enumerate() {
        *last = network.state(call, DY + 1 + index, &outs)?;
    }
    let inputs = network.x.dims()[2];
    let layout = match network.row_counts {
        Some(_) if dx.dims() == [steps * rows, inputs] => split_steps(&dx, steps, rows),
        _ => network.sequence(call, outputs, &dx, inputs)?,
    };
    call.expect_dtype(outputs, &dx, &[network.dtype])?;
    let dx = dx.with_layout(layout);
    for (index, to) in dfirst.iter().flatten().enumerate() {
        network.expect(call, outputs + 1 + index, to, &network.state_dims())?;
    }
    let tensors_per_direction = expect_like_params(call, &network, dparams_at, &dparams)?;
    let list = |call: &mut Call<'_>, at: usize| -> Result<Vec<UnaliasedInput>> {
        let operands = call.tensors(at)?;
        network.expect_list(call, at, &operands)?;
        Ok(operands.into_iter().map(|one| call.unaliased(one, &outs)).collect())
    };
    let mut saved = Vec::with_capacity(4);
    for at in arg_indices.saved {
        saved.push(list(call, at)?);
    }
    let hidden_states = list(call, arg_indices.after[0])?;
    let (cells, tanhs) = match arg_indices.kind {
        Kind::Lstm => (list(call, arg_indices.after[1])?, list(call, arg_indices.tanh)?),
        Kind::Gru => (Vec::new(), Vec::new()),
    };
    let mut reads: Vec<UnaliasedInput> = saved.iter().flatten().copied().collect();
    reads.extend(hidden_states.iter().chain(&cells).chain(&tanhs).chain(&dy));
    reads.extend(last.iter().flatten());
    if rows == 0 {
        return zeros(call, dparams);
    }
    let scratch = LayerScratch::new(call, &network.sizes, network.row_counts.is_some(), true);
    let mut copies: Vec<(UnaliasedInput, Scratch, Layout)> = Vec::new();
    let mut layers = Vec::with_capacity(network.layer_directions());
    let mut dy = dy.map(Source::Tensor);
    let mut input_dx = None;
    for layer in (0..network.layers).rev() {
        let input_columns = if layer == 0 { inputs } else { network.directions * hidden };
        let x = match (layer, network.directions) {
            (0, _) => Source::Tensor(network.x),
            (_, 1) => Source::Tensor(hidden_states[layer - 1]),
            _ => {
                let both = call.scratch(network.dtype, &[steps, rows, input_columns]);
                for direction in 0..2 {
                    let part = both.sliced(2, direction * hidden, hidden, 1);
                    copies.push((hidden_states[(layer - 1) * 2 + direction], both, part));
                }
                Source::Scratch(both, *both)
            }
        };
        let layer_dx = call.scratch(DType::Float, &[steps, rows, input_columns]);
        for direction in 0..network.directions {
            let at = layer * network.directions + direction;
            let (weights, _) = network.params[at];
            let gates = [0, 1, 2, 3].map(|gate: usize| saved[gate][at]);
            let states = [Some(hidden_states[at]), cells.get(at).copied()];
            let mut planned =
                Gradients::new(x, weights[0], weights[1], order(arg_indices.kind), gates, states);
            planned.reversed = direction == 1;
            planned.tanh = tanhs.get(at).copied();
            planned.first = [part(&network.first[0], at), part(&network.first[1], at)];
            planned.last = [part(&last[0], at), part(&last[1], at)];
            planned.dy = dy.map(|dy| {
                let own_columns = dy.layout().sliced(2, direction * hidden, hidden, 1);
                match dy {
                    Source::Tensor(read) => Source::Tensor(read.with_layout(own_columns)),
                    Source::Scratch(scratch, _) => Source::Scratch(scratch, own_columns),
                }
            });
            planned.dx = Some((Target::Scratch(layer_dx, *layer_dx), direction == 1));
            planned.dfirst = dfirst.map(|to| to.map(|one| one.with_layout(one.layout().at(0, at))));
            let own_params = &dparams[at * tensors_per_direction..(at + 1) * tensors_per_direction];
            planned.dweights = [Some(own_params[0]), Some(own_params[1])];
            planned.dbias = [own_params.get(2).copied(), own_params.get(3).copied()];
            planned.take_scratch(call, &network.sizes, scratch.active.is_some());
            layers.push(planned);
        }
        dy = Some(Source::Scratch(layer_dx, *layer_dx));
        input_dx = Some(layer_dx);
    }
    let name = call.parameter(arg_indices.sizes);
    call.plan(move |memory| {
        network.prepare(memory);
        reads.iter().for_each(|read| read.prepare(memory));
        network.fill_active(memory, &scratch, name)?;
        for (from, scratch, part) in &copies {
            let to = memory.scratch(scratch).with_layout(*part).expect("a part of the scratch");
            copy(memory.parallel, to, from.prepared(memory));
        }
        layers.iter().for_each(|layer| layer.run(memory, &scratch, &network.sizes));
        if let Some(scratch) = &input_dx {
            copy(memory.parallel, memory.out(&dx), memory.scratch(scratch).view());
        }
        Ok(())
    })
}

/// Fails unless a list has tensors like the parameters; returns how many there are for each layer and direction.
fn expect_like_params(
    call: &Call<'_>,
    network: &Network,
    at: usize,
    list: &[Operand],
) -> Result<usize> {
    let params: Vec<&UnaliasedInput> = (network.params.iter())
        .flat_map(|(weights, bias)| weights.iter().chain(bias.iter().flatten()))
        .collect();
    let name = call.parameter(at);
    if params.len() != list.len() {
        let (have, want) = (list.len(), params.len());
        return Err(Error::invalid(format!("{name} has {have} tensors: expected {want}")));
    }
    for (index, (one, like)) in list.iter().zip(&params).enumerate() {
        if one.dims() != like.dims() || one.dtype != like.dtype {
            let (have, want) = (one.layout(), like.layout());
            return Err(Error::invalid(format!("{name}[{index}] is {have}: expected {want}")));
        }
    }
    Ok(params.len() / network.layer_directions())
}

/// Refuses a choice of gradients, which is documented as not supported; then as [`backward`].
fn lstm_backward(call: &mut Call<'_>) -> Result<Plan> {
    const MASK: usize = 20;
    if call.has(MASK) {
        let (mask, name) = (call.flags(MASK)?, call.parameter(MASK));
        if mask != [true; 4] {
            return Err(Error::invalid(format!(
                "{name} = {mask:?}: a choice of gradients is not taken; pass null or four times true"
            )));
        }
    }
    backward(call, &LSTM_BACKWARD, 21)
}

pub const ROWS: &[Row] = &[
    aclnn("LSTM", |c| forward(c, &LSTM)),
    aclnn("LstmBackward", lstm_backward),
    aclnn("GRU", |c| forward(c, &GRU)),
    aclnn("GRUBackward", |c| backward(c, &GRU_BACKWARD, 15)),
];
