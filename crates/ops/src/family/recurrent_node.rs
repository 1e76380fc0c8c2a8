//! One layer of a recurrent network in one direction, by IR name, and its gradients.

use super::reading::Read;
use super::recurrent_layer::{Gradients, Kind, Layer, Room, Sizes, Source, Target};
use crate::argument::Arg;
use crate::call::Call;
use crate::error::{Error, Fault, Outcome, Result};
use crate::infer::Infer;
use crate::plan::{Memory, Operand, Plan};
use crate::table::Pick::{A, Attr, No, O};
use crate::table::{Default, Node, node};
use cairn_tensor::kernels::copy::copy;
use cairn_tensor::kernels::recurrent::mark_by_lengths;
use cairn_tensor::{DType, Layout};

const TYPES: &[DType] = &[DType::Float, DType::Float16, DType::Bf16];

/// An attribute with the values that are taken, the first of which is its default.
type Choice = (usize, &'static [&'static str]);

/// Fails unless an attribute is absent or has one of these values, written as text.
fn expect_among(call: &Call<'_>, (at, among): Choice) -> Result<()> {
    let value = match call.arg(at) {
        Arg::Absent => return Ok(()),
        Arg::Text(text) => text.to_string(),
        Arg::Int(value) => value.to_string(),
        Arg::Flag(value) => value.to_string(),
        _ => call.float(at)?.to_string(),
    };
    if among.contains(&value.as_str()) {
        return Ok(());
    }
    let (name, among) = (call.parameter(at), among.join(", "));
    Err(Error::invalid(format!("{name} = {value}: it takes {among}")))
}

/// Fails when an input of the kinds that are not taken (peepholes, masks of dropout) has more than a place holder in it.
fn expect_unused(call: &Call<'_>, at: usize) -> Result<()> {
    match call.arg(at) {
        Arg::Tensor(tensor) if tensor.layout.rank() > 0 && tensor.layout.count() > 0 => {
            let (name, layout) = (call.parameter(at), tensor.layout);
            Err(Error::invalid(format!("{name} ({layout}) is not taken; leave it out")))
        }
        _ => Ok(()),
    }
}

/// Where the blocks of an LSTM are: input gate, candidate, forget gate, output gate.
fn lstm_order(call: &Call<'_>, at: usize) -> Result<[usize; 4]> {
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
fn gru_order(call: &Call<'_>, at: usize) -> Result<[usize; 4]> {
    match call.text(at)? {
        "" | "zrh" => Ok([1, 0, 2, 3]),
        "rzh" => Ok([0, 1, 2, 3]),
        other => {
            let name = call.parameter(at);
            Err(Error::invalid(format!("{name} = {other}: zrh and rzh are known")))
        }
    }
}

fn reversed(call: &Call<'_>, at: usize) -> Result<bool> {
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
enum Lengths {
    /// How many steps each row has.
    Counts(Read),
    /// Not 0 where a row takes part: steps by rows by anything, of which the first counts.
    Mask(Read),
}

/// The rows that take part, where the caller says so. A tensor without dimensions holds the place only.
fn lengths(
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

fn mark(memory: &Memory<'_>, room: &Room, lengths: &Option<Lengths>, name: &str) -> Outcome {
    let (Some(lengths), Some(active)) = (lengths, &room.active) else { return Ok(()) };
    match lengths {
        Lengths::Mask(mask) => {
            copy(memory.parallel, memory.scratch(active), mask.view(memory));
            Ok(())
        }
        Lengths::Counts(counts) => {
            let marked = mark_by_lengths(memory.scratch(active), counts.view(memory));
            marked.map_err(|(row, count)| {
                Fault(format!("{name}[{row}] = {count} is no number of steps"))
            })
        }
    }
}

/// The input as steps by rows by elements; with the sizes that follow from it and from the blocks of the weights.
fn sizes(call: &Call<'_>, kind: Kind, at: usize, weights: usize) -> Result<Sizes> {
    let (x, w) = (lifted(&call.layout(at)?, &[1, 1, 1]), call.layout(weights)?);
    let wide = if w.rank() == 2 { w.dims()[1] } else { 0 };
    let hidden = wide / kind.blocks();
    if x.rank() != 3
        || x.dims()[0] == 0
        || x.dims()[2] == 0
        || hidden * kind.blocks() != wide
        || hidden == 0
    {
        let (x_name, name, blocks) = (call.parameter(at), call.parameter(weights), kind.blocks());
        return Err(Error::invalid(format!(
            "{x_name} is {x} and {name} is {w}: expected [steps, rows, inputs] and [.., {blocks} * hidden], not empty"
        )));
    }
    Ok(Sizes { kind, steps: x.dims()[0], rows: x.dims()[1], hidden })
}

/// How many elements an input has.
fn inputs(call: &Call<'_>) -> Result<usize> {
    Ok(call.layout(0)?.dims().last().copied().unwrap_or(0))
}

/// With a dimension of 1 in front where one is expected and missing: a cell is a layer with one step.
fn lifted(layout: &Layout, dims: &[usize]) -> Layout {
    let lacks = layout.rank() == 2 && dims.len() == 3 && dims[0] == 1;
    if lacks { layout.with(0) } else { *layout }
}

fn real(call: &mut Call<'_>, at: usize, dims: &[usize], outs: &[&Operand]) -> Result<Read> {
    let read = call.read(at, outs)?;
    let read = read.with_layout(lifted(&read, dims));
    call.expect_dims(at, &read, dims)?;
    call.expect_dtype(at, &read, TYPES)?;
    Ok(read)
}

fn optional(
    call: &mut Call<'_>,
    at: usize,
    dims: &[usize],
    outs: &[&Operand],
) -> Result<Option<Read>> {
    if call.has(at) { real(call, at, dims, outs).map(Some) } else { Ok(None) }
}

/// A state, rows by hidden, also with a dimension of 1 in front; if it is there.
fn state(call: &mut Call<'_>, at: usize, sizes: &Sizes, outs: &[&Operand]) -> Result<Option<Read>> {
    if !call.has(at) {
        return Ok(None);
    }
    let read = call.read(at, outs)?;
    call.expect_dtype(at, &read, TYPES)?;
    Ok(Some(read.with_layout(bare_state(call, at, &read, sizes)?)))
}

fn bare_state(call: &Call<'_>, at: usize, layout: &Layout, sizes: &Sizes) -> Result<Layout> {
    let dims = [sizes.rows, sizes.hidden];
    let bare = if layout.rank() == 3 && layout.dims()[0] == 1 { layout.at(0, 0) } else { *layout };
    call.expect_dims(at, &bare, &dims)?;
    Ok(bare)
}

/// An output, if it is there.
fn out(call: &mut Call<'_>, at: usize, dims: &[usize]) -> Result<Option<Operand>> {
    let Some(out) = call.optional_output(at)? else { return Ok(None) };
    let out = out.with_layout(lifted(&out, dims));
    call.expect_dims(at, &out, dims)?;
    call.expect_dtype(at, &out, TYPES)?;
    Ok(Some(out))
}

/// An output for a state.
fn state_out(call: &mut Call<'_>, at: usize, sizes: &Sizes) -> Result<Option<Operand>> {
    let Some(out) = call.optional_output(at)? else { return Ok(None) };
    call.expect_dtype(at, &out, TYPES)?;
    Ok(Some(out.with_layout(bare_state(call, at, &out, sizes)?)))
}

/// Both weights of one tensor: those of inputs stand first.
fn split(
    call: &mut Call<'_>,
    at: usize,
    inputs: usize,
    hidden: usize,
    blocks: usize,
    outs: &[&Operand],
) -> Result<[Read; 2]> {
    let both = real(call, at, &[inputs + hidden, blocks * hidden], outs)?;
    Ok([
        both.with_layout(both.sliced(0, 0, inputs, 1)),
        both.with_layout(both.sliced(0, inputs, hidden, 1)),
    ])
}

/// Both weights: of one tensor where the second is absent.
fn weights(
    call: &mut Call<'_>,
    sizes: &Sizes,
    inputs: usize,
    outs: &[&Operand],
) -> Result<[Read; 2]> {
    let wide = sizes.kind.blocks() * sizes.hidden;
    if !call.has(2) {
        return split(call, 1, inputs, sizes.hidden, sizes.kind.blocks(), outs);
    }
    Ok([real(call, 1, &[inputs, wide], outs)?, real(call, 2, &[sizes.hidden, wide], outs)?])
}

// Arguments of a layer with cells: x, weights, weights of the hidden state, bias, lengths, two states, three peepholes and a mask.
const B: usize = 3;
const LENGTHS: usize = 4;
const FIRST: usize = 5;
const UNUSED: std::ops::Range<usize> = 7..11;
// Then y, both states, four gates, the hyperbolic tangent.
const Y: usize = 11;
// Then attributes.
const DIRECTION: usize = 19;
const ORDER: usize = 20;
const FORGET: usize = 21;
const CHOICES: &[Choice] = &[
    (22, &["LSTM"]),
    (23, &["1", "0"]),
    (24, &["false"]),
    (25, &["1", "-1"]),
    (26, &["-1"]),
    (27, &["0"]),
    (28, &["true"]),
    (29, &["tanh"]),
    (30, &["sigmoid"]),
    (31, &["false"]),
    (32, &["concat"]),
];

/// The states after each step are put out where both weights are one tensor, else those after the last.
fn lstm(call: &mut Call<'_>) -> Result<Plan> {
    CHOICES.iter().try_for_each(|choice| expect_among(call, *choice))?;
    UNUSED.into_iter().try_for_each(|at| expect_unused(call, at))?;
    let (order, reversed) = (lstm_order(call, ORDER)?, reversed(call, DIRECTION)?);
    let forget = call.float(FORGET)? as f32;
    let sizes = sizes(call, Kind::Lstm, 0, 1)?;
    let Sizes { steps, rows, hidden, .. } = sizes;
    let mut outputs = [None; 8];
    let whole = !call.has(2);
    for (place, output) in outputs.iter_mut().enumerate() {
        let only_last = !whole && matches!(place, 1 | 2);
        let count = if only_last { 1 } else { steps };
        *output = out(call, Y + place, &[count, rows, hidden])?;
    }
    let outs: Vec<&Operand> = outputs.iter().flatten().collect();
    let inputs = inputs(call)?;
    let x = real(call, 0, &[steps, rows, inputs], &outs)?;
    let weights = weights(call, &sizes, inputs, &outs)?;
    let bias = optional(call, B, &[4 * hidden], &outs)?;
    let first = [state(call, FIRST, &sizes, &outs)?, state(call, FIRST + 1, &sizes, &outs)?];
    let lengths = lengths(call, LENGTHS, &sizes, &outs)?;
    if rows == 0 {
        return call.nothing();
    }
    let room = Room::new(call, &sizes, lengths.is_some(), false);
    let mut layer = Layer::new(call, &room, Source::Tensor(x), weights[0], weights[1], order);
    layer.reversed = reversed;
    layer.forget = forget;
    layer.bias = [bias, None];
    layer.first = first;
    let [y, h, c, i, j, f, o, tanh] = outputs;
    layer.y = y.map(Target::Tensor);
    match whole {
        true => layer.states = [h, c],
        false => {
            layer.last = [h, c].map(|out| out.map(|out| out.with_layout(out.layout().at(0, 0))))
        }
    }
    layer.noted = [i, j, f, o];
    layer.tanh = tanh;
    let name = call.parameter(LENGTHS);
    call.plan(move |memory| {
        let reads = [Some(x), Some(weights[0]), Some(weights[1]), bias, first[0], first[1]];
        reads.iter().flatten().for_each(|read| read.prepare(memory));
        mark(memory, &room, &lengths, name)?;
        layer.run(memory, &room, &sizes);
        Ok(())
    })
}

/// The outputs of a layer: y and what is noted like the bias, or else like the input; the hidden state like the input.
fn lstm_outputs(call: &Call<'_>) -> Result<Vec<Layout>> {
    let sizes = sizes(call, Kind::Lstm, 0, 1)?;
    let x = call.layout(0)?.dtype;
    let dtype = if call.has(B) { call.layout(B)?.dtype } else { x };
    let one = |at: usize| {
        let only_last = call.has(2) && matches!(at, 1 | 2);
        let steps = if only_last { 1 } else { sizes.steps };
        let dims = [steps, sizes.rows, sizes.hidden];
        Layout::contiguous(if at == 1 { x } else { dtype }, &dims)
    };
    Ok((0..8).map(one).collect())
}

// Arguments of the gradients: x, weights, weights of the hidden state, -, two states, both after each step, the gradients of y
// and of both last states, four gates, the hyperbolic tangent, lengths, what is not taken.
const GRAD_FIRST: usize = 4;
const GRAD_STATES: usize = 6;
const ABOVE: usize = 8;
const LAST: usize = 9;
const GATES: usize = 11;
const TANH: usize = 15;
const GRAD_LENGTHS: usize = 16;
const GRAD_UNUSED: std::ops::Range<usize> = 17..21;
// Then the gradients of weights (both, where they are one tensor), of weights of the hidden state, of the bias, of x, of states.
const TO_W: usize = 21;
const TO_WH: usize = 22;
const TO_B: usize = 23;
const TO_X: usize = 24;
const TO_FIRST: usize = 25;
const GRAD_DIRECTION: usize = 27;
const GRAD_ORDER: usize = 28;
// torch_npu passes the type of the cell as a boolean here.
const GRAD_CHOICES: &[Choice] = &[
    (29, &["LSTM", "true"]),
    (30, &["1", "0"]),
    (31, &["false"]),
    (32, &["1", "-1"]),
    (33, &["-1"]),
    (34, &["0"]),
    (35, &["true"]),
    (36, &["tanh"]),
    (37, &["sigmoid"]),
    (38, &["false"]),
    (39, &["concat"]),
];

fn lstm_gradients(call: &mut Call<'_>) -> Result<Plan> {
    GRAD_CHOICES.iter().try_for_each(|choice| expect_among(call, *choice))?;
    GRAD_UNUSED.into_iter().try_for_each(|at| expect_unused(call, at))?;
    let (order, reversed) = (lstm_order(call, GRAD_ORDER)?, reversed(call, GRAD_DIRECTION)?);
    let sizes = sizes(call, Kind::Lstm, 0, 1)?;
    let Sizes { steps, rows, hidden, .. } = sizes;
    let (inputs, wide) = (inputs(call)?, 4 * hidden);
    let to_weights = match call.has(2) {
        true => {
            let inner = out(call, TO_W, &[inputs, wide])?;
            [inner, out(call, TO_WH, &[hidden, wide])?]
        }
        false => match out(call, TO_W, &[inputs + hidden, wide])? {
            Some(both) => [
                Some(both.with_layout(both.sliced(0, 0, inputs, 1))),
                Some(both.with_layout(both.sliced(0, inputs, hidden, 1))),
            ],
            None => [None; 2],
        },
    };
    let to_bias = out(call, TO_B, &[wide])?;
    let to_x = out(call, TO_X, &[steps, rows, inputs])?;
    let to_first = [state_out(call, TO_FIRST, &sizes)?, state_out(call, TO_FIRST + 1, &sizes)?];
    let all = [to_weights[0], to_weights[1], to_bias, to_x, to_first[0], to_first[1]];
    let outs: Vec<&Operand> = all.iter().flatten().collect();
    let x = real(call, 0, &[steps, rows, inputs], &outs)?;
    let weights = weights(call, &sizes, inputs, &outs)?;
    let mut reads = vec![x, weights[0], weights[1]];
    let mut states = [None; 2];
    let mut first = [None; 2];
    let mut last = [None; 2];
    let dims = [steps, rows, hidden];
    for place in 0..2 {
        states[place] = Some(real(call, GRAD_STATES + place, &dims, &outs)?);
        first[place] = state(call, GRAD_FIRST + place, &sizes, &outs)?;
        last[place] = state(call, LAST + place, &sizes, &outs)?;
    }
    let mut noted = [x; 4];
    for (place, noted) in noted.iter_mut().enumerate() {
        *noted = real(call, GATES + place, &dims, &outs)?;
    }
    let above = optional(call, ABOVE, &dims, &outs)?;
    let tanh = optional(call, TANH, &dims, &outs)?;
    let lengths = lengths(call, GRAD_LENGTHS, &sizes, &outs)?;
    reads.extend(noted.iter().chain(states.iter().flatten()).chain(first.iter().flatten()));
    reads.extend(last.iter().flatten().chain(&above).chain(&tanh));
    let task = Task {
        reversed,
        order,
        x,
        weights,
        noted,
        states,
        tanh,
        first,
        above,
        last,
        to_x,
        to_first,
        to_weights,
        to_bias: [to_bias, None],
    };
    run_gradients(call, sizes, task, reads, lengths, GRAD_LENGTHS)
}

/// The gradients of a layer, all read and checked.
struct Task {
    reversed: bool,
    order: [usize; 4],
    x: Read,
    /// Inputs by blocks, hidden by blocks.
    weights: [Read; 2],
    noted: [Read; 4],
    states: [Option<Read>; 2],
    tanh: Option<Read>,
    first: [Option<Read>; 2],
    above: Option<Read>,
    last: [Option<Read>; 2],
    to_x: Option<Operand>,
    to_first: [Option<Operand>; 2],
    to_weights: [Option<Operand>; 2],
    to_bias: [Option<Operand>; 2],
}

fn run_gradients(
    call: &mut Call<'_>,
    sizes: Sizes,
    task: Task,
    reads: Vec<Read>,
    lengths: Option<Lengths>,
    lengths_at: usize,
) -> Result<Plan> {
    if sizes.rows == 0 {
        return call.nothing();
    }
    let room = Room::new(call, &sizes, lengths.is_some(), true);
    let transposed = task.weights.map(|one| one.with_layout(one.transposed(0, 1)));
    let mut layer = Gradients::new(
        Source::Tensor(task.x),
        transposed[0],
        transposed[1],
        task.order,
        task.noted,
        task.states,
    );
    layer.reversed = task.reversed;
    layer.tanh = task.tanh;
    layer.first = task.first;
    layer.above = task.above.map(Source::Tensor);
    layer.last = task.last;
    layer.to_first = task.to_first;
    layer.to_weights =
        task.to_weights.map(|out| out.map(|out| out.with_layout(out.transposed(0, 1))));
    layer.to_bias = task.to_bias;
    let to_x = task.to_x.map(|out| (out, call.scratch(DType::Float, out.dims())));
    layer.to_x = to_x.map(|(_, room)| (Target::Room(room, *room), false));
    layer.take_scratch(call, &sizes);
    let name = call.parameter(lengths_at);
    call.plan(move |memory| {
        reads.iter().for_each(|read| read.prepare(memory));
        mark(memory, &room, &lengths, name)?;
        layer.run(memory, &room, &sizes);
        if let Some((out, room)) = &to_x {
            copy(memory.parallel, memory.out(out), memory.scratch(room).view());
        }
        Ok(())
    })
}

/// The gradients of weights, bias, input and states are like these.
fn lstm_gradient_outputs(call: &Call<'_>) -> Result<Vec<Layout>> {
    let sizes = sizes(call, Kind::Lstm, 0, 1)?;
    let (x, w) = (call.layout(0)?, call.layout(1)?);
    let bias = Layout::contiguous(w.dtype, &[4 * sizes.hidden]);
    let (h, c) = (call.layout(GRAD_FIRST)?.packed(), call.layout(GRAD_FIRST + 1)?.packed());
    let mut outputs = vec![w.packed()];
    if call.has(2) {
        outputs.push(call.layout(2)?.packed());
    }
    outputs.extend([bias, x.packed(), h, c]);
    Ok(outputs)
}

// Arguments of a layer without cells: x, both weights, both biases, lengths, state; then y, states, update, reset, candidate,
// what the reset gate is multiplied by; then attributes.
const GRU_B: usize = 3;
const GRU_LENGTHS: usize = 5;
const GRU_FIRST: usize = 6;
const GRU_Y: usize = 7;
const GRU_ORDER: usize = 13;
const GRU_CHOICES: &[Choice] = &[
    (15, &["1", "0"]),
    (16, &["1", "-1"]),
    (17, &["-1"]),
    (18, &["0"]),
    (19, &["true"]),
    (20, &["tanh"]),
    (21, &["true"]),
];

fn gru(call: &mut Call<'_>) -> Result<Plan> {
    GRU_CHOICES.iter().try_for_each(|choice| expect_among(call, *choice))?;
    let (order, reversed) = (gru_order(call, GRU_ORDER)?, reversed(call, GRU_ORDER + 1)?);
    let sizes = sizes(call, Kind::Gru, 0, 1)?;
    let Sizes { steps, rows, hidden, .. } = sizes;
    let mut outputs = [None; 6];
    for (place, output) in outputs.iter_mut().enumerate() {
        *output = out(call, GRU_Y + place, &[steps, rows, hidden])?;
    }
    let outs: Vec<&Operand> = outputs.iter().flatten().collect();
    let inputs = inputs(call)?;
    let x = real(call, 0, &[steps, rows, inputs], &outs)?;
    call.layout(2)?;
    let weights = weights(call, &sizes, inputs, &outs)?;
    let bias = [
        optional(call, GRU_B, &[3 * hidden], &outs)?,
        optional(call, GRU_B + 1, &[3 * hidden], &outs)?,
    ];
    let first = [state(call, GRU_FIRST, &sizes, &outs)?, None];
    let lengths = lengths(call, GRU_LENGTHS, &sizes, &outs)?;
    if rows == 0 {
        return call.nothing();
    }
    let room = Room::new(call, &sizes, lengths.is_some(), false);
    let mut layer = Layer::new(call, &room, Source::Tensor(x), weights[0], weights[1], order);
    layer.reversed = reversed;
    layer.bias = bias;
    layer.first = first;
    let [y, h, update, reset, candidate, product] = outputs;
    layer.y = y.map(Target::Tensor);
    layer.states = [h, None];
    layer.noted = [reset, update, candidate, product];
    let name = call.parameter(GRU_LENGTHS);
    call.plan(move |memory| {
        let reads = [Some(x), Some(weights[0]), Some(weights[1]), bias[0], bias[1], first[0]];
        reads.iter().flatten().for_each(|read| read.prepare(memory));
        mark(memory, &room, &lengths, name)?;
        layer.run(memory, &room, &sizes);
        Ok(())
    })
}

fn gru_outputs(call: &Call<'_>) -> Result<Vec<Layout>> {
    let sizes = sizes(call, Kind::Gru, 0, 1)?;
    let like = if call.has(GRU_B) { GRU_B } else { 0 };
    let dims = [sizes.steps, sizes.rows, sizes.hidden];
    Ok(vec![Layout::contiguous(call.layout(like)?.dtype, &dims); 6])
}

// Arguments of the gradients: x, both weights, -, state, states, the gradients of y and of the last state, update, reset,
// candidate, what the reset gate is multiplied by, lengths, what is not taken.
const GRU_GRAD_FIRST: usize = 4;
const GRU_GRAD_STATES: usize = 5;
const GRU_ABOVE: usize = 6;
const GRU_LAST: usize = 7;
const GRU_GATES: [usize; 4] = [9, 8, 10, 11];
const GRU_GRAD_LENGTHS: usize = 12;
const GRU_GRAD_UNUSED: usize = 13;
// Then the gradients of weights, biases, input, state; then attributes.
const GRU_TO: usize = 14;
const GRU_GRAD_ORDER: usize = 20;
const GRU_GRAD_CHOICES: &[Choice] = &[
    (22, &["1", "0"]),
    (23, &["1", "-1"]),
    (24, &["-1"]),
    (25, &["0"]),
    (26, &["true"]),
    (27, &["true"]),
    (28, &["no_bias", "single_bias", "double_bias"]),
];

fn gru_gradients(call: &mut Call<'_>) -> Result<Plan> {
    GRU_GRAD_CHOICES.iter().try_for_each(|choice| expect_among(call, *choice))?;
    expect_unused(call, GRU_GRAD_UNUSED)?;
    let order = gru_order(call, GRU_GRAD_ORDER)?;
    let reversed = reversed(call, GRU_GRAD_ORDER + 1)?;
    let sizes = sizes(call, Kind::Gru, 0, 1)?;
    let Sizes { steps, rows, hidden, .. } = sizes;
    let (inputs, wide) = (inputs(call)?, 3 * hidden);
    call.layout(2)?;
    let to_inputs = out(call, GRU_TO, &[inputs, wide])?;
    let to_weights = [to_inputs, out(call, GRU_TO + 1, &[hidden, wide])?];
    let to_first_bias = out(call, GRU_TO + 2, &[wide])?;
    let to_bias = [to_first_bias, out(call, GRU_TO + 3, &[wide])?];
    let to_x = out(call, GRU_TO + 4, &[steps, rows, inputs])?;
    let to_first = [state_out(call, GRU_TO + 5, &sizes)?, None];
    let all = [to_weights[0], to_weights[1], to_bias[0], to_bias[1], to_x, to_first[0]];
    let outs: Vec<&Operand> = all.iter().flatten().collect();
    let dims = [steps, rows, hidden];
    let x = real(call, 0, &[steps, rows, inputs], &outs)?;
    let weights = weights(call, &sizes, inputs, &outs)?;
    let states = [Some(real(call, GRU_GRAD_STATES, &dims, &outs)?), None];
    let first = [state(call, GRU_GRAD_FIRST, &sizes, &outs)?, None];
    let last = [state(call, GRU_LAST, &sizes, &outs)?, None];
    let mut noted = [x; 4];
    for (at, noted) in GRU_GATES.into_iter().zip(&mut noted) {
        *noted = real(call, at, &dims, &outs)?;
    }
    let above = optional(call, GRU_ABOVE, &dims, &outs)?;
    let lengths = lengths(call, GRU_GRAD_LENGTHS, &sizes, &outs)?;
    let mut reads = vec![x, weights[0], weights[1]];
    let parts = noted.iter().chain(states.iter().flatten()).chain(first.iter().flatten());
    reads.extend(parts.chain(last.iter().flatten()).chain(&above));
    let tanh = None;
    let task = Task {
        reversed,
        order,
        x,
        weights,
        noted,
        states,
        tanh,
        first,
        above,
        last,
        to_x,
        to_first,
        to_weights,
        to_bias,
    };
    run_gradients(call, sizes, task, reads, lengths, GRU_GRAD_LENGTHS)
}

fn gru_gradient_outputs(call: &Call<'_>) -> Result<Vec<Layout>> {
    let sizes = sizes(call, Kind::Gru, 0, 1)?;
    let (x, w) = (call.layout(0)?, call.layout(1)?);
    let bias = Layout::contiguous(w.dtype, &[3 * sizes.hidden]);
    let h = call.layout(GRU_GRAD_FIRST)?;
    Ok(vec![w.packed(), call.layout(2)?.packed(), bias, bias, x.packed(), h.packed()])
}

const LAYER_OUTPUTS: &[&str] = &["y", "output_h", "output_c", "i", "j", "f", "o", "tanhc"];

pub const NODES: &[Node] = &[
    node(
        "DynamicRNN",
        &["x", "w", "b", "seq_length?", "init_h?", "init_c?", "wci?", "wcf?", "wco?", "mask?"],
        LAYER_OUTPUTS,
        Infer::By(lstm_outputs),
        lstm,
        &[
            A(0),
            A(1),
            No,
            A(2),
            A(3),
            A(4),
            A(5),
            A(6),
            A(7),
            A(8),
            A(9),
            O(0),
            O(1),
            O(2),
            O(3),
            O(4),
            O(5),
            O(6),
            O(7),
            Attr("direction", Default::Text("UNIDIRECTIONAL")),
            Attr("gate_order", Default::Text("ijfo")),
            Attr("forget_bias", Default::Float(0.0)),
            Attr("cell_type", Default::Text("LSTM")),
            Attr("cell_depth", Default::Int(1)),
            Attr("use_peephole", Default::Flag(false)),
            Attr("keep_prob", Default::Float(1.0)),
            Attr("cell_clip", Default::Float(-1.0)),
            Attr("num_proj", Default::Int(0)),
            Attr("time_major", Default::Flag(true)),
            Attr("activation", Default::Text("tanh")),
            No,
            No,
            No,
            Attr("is_training", Default::Flag(true)),
        ],
    ),
    node(
        "DynamicRNNV2",
        &[
            "x",
            "weight_input",
            "weight_hidden",
            "b?",
            "seq_length?",
            "init_h?",
            "init_c?",
            "wci?",
            "wcf?",
            "wco?",
            "mask?",
        ],
        LAYER_OUTPUTS,
        Infer::By(lstm_outputs),
        lstm,
        &[
            A(0),
            A(1),
            A(2),
            A(3),
            A(4),
            A(5),
            A(6),
            A(7),
            A(8),
            A(9),
            A(10),
            O(0),
            O(1),
            O(2),
            O(3),
            O(4),
            O(5),
            O(6),
            O(7),
            Attr("direction", Default::Text("UNIDIRECTIONAL")),
            Attr("gate_order", Default::Text("ijfo")),
            Attr("forget_bias", Default::Float(0.0)),
            Attr("cell_type", Default::Text("LSTM")),
            Attr("cell_depth", Default::Int(1)),
            Attr("use_peephole", Default::Flag(false)),
            Attr("keep_prob", Default::Float(1.0)),
            Attr("cell_clip", Default::Float(-1.0)),
            Attr("num_proj", Default::Int(0)),
            Attr("time_major", Default::Flag(true)),
            Attr("activation", Default::Text("tanh")),
            Attr("recurrent_activation", Default::Text("sigmoid")),
            Attr("stateful", Default::Flag(false)),
            Attr("merge_mode", Default::Text("concat")),
            Attr("is_training", Default::Flag(true)),
        ],
    ),
    node(
        "DynamicRNNGrad",
        &[
            "x",
            "w",
            "b",
            "y",
            "init_h",
            "init_c",
            "h",
            "c",
            "dy",
            "dh",
            "dc",
            "i",
            "j",
            "f",
            "o",
            "tanhct?",
            "seq_length?",
            "mask?",
            "wci?",
            "wcf?",
            "wco?",
        ],
        &["dw", "db", "dx", "dh_prev", "dc_prev"],
        Infer::By(lstm_gradient_outputs),
        lstm_gradients,
        &[
            A(0),
            A(1),
            No,
            No,
            A(4),
            A(5),
            A(6),
            A(7),
            A(8),
            A(9),
            A(10),
            A(11),
            A(12),
            A(13),
            A(14),
            A(15),
            A(16),
            A(17),
            A(18),
            A(19),
            A(20),
            O(0),
            No,
            O(1),
            O(2),
            O(3),
            O(4),
            Attr("direction", Default::Text("UNIDIRECTIONAL")),
            Attr("gate_order", Default::Text("ijfo")),
            Attr("cell_type", Default::Text("LSTM")),
            Attr("cell_depth", Default::Int(0)),
            Attr("use_peephole", Default::Flag(false)),
            Attr("keep_prob", Default::Float(-1.0)),
            Attr("cell_clip", Default::Float(-1.0)),
            Attr("num_proj", Default::Int(0)),
            Attr("time_major", Default::Flag(true)),
            No,
            No,
            No,
            No,
            Attr("forget_bias", Default::Float(0.0)),
        ],
    ),
    node(
        "DynamicRNNV2Grad",
        &[
            "x",
            "w_x",
            "w_h",
            "y",
            "init_h",
            "init_c",
            "h",
            "c",
            "dy",
            "dh",
            "dc",
            "i",
            "j",
            "f",
            "o",
            "tanhct",
            "seq_length?",
            "wci?",
            "wcf?",
            "wco?",
            "mask?",
        ],
        &["dw_x", "dw_h", "db", "dx", "dh_prev", "dc_prev"],
        Infer::By(lstm_gradient_outputs),
        lstm_gradients,
        &[
            A(0),
            A(1),
            A(2),
            No,
            A(4),
            A(5),
            A(6),
            A(7),
            A(8),
            A(9),
            A(10),
            A(11),
            A(12),
            A(13),
            A(14),
            A(15),
            A(16),
            A(17),
            A(18),
            A(19),
            A(20),
            O(0),
            O(1),
            O(2),
            O(3),
            O(4),
            O(5),
            Attr("direction", Default::Text("UNIDIRECTIONAL")),
            Attr("gate_order", Default::Text("ijfo")),
            Attr("cell_type", Default::Text("LSTM")),
            Attr("cell_depth", Default::Int(1)),
            Attr("use_peephole", Default::Flag(false)),
            Attr("keep_prob", Default::Float(1.0)),
            Attr("cell_clip", Default::Float(-1.0)),
            Attr("num_proj", Default::Int(0)),
            Attr("time_major", Default::Flag(true)),
            Attr("activation", Default::Text("tanh")),
            Attr("recurrent_activation", Default::Text("sigmoid")),
            Attr("stateful", Default::Flag(false)),
            Attr("merge_mode", Default::Text("concat")),
        ],
    ),
    node(
        "DynamicGRUV2",
        &[
            "x",
            "weight_input",
            "weight_hidden",
            "bias_input?",
            "bias_hidden?",
            "seq_length?",
            "init_h?",
        ],
        &["y", "output_h", "update", "reset", "new", "hidden_new"],
        Infer::By(gru_outputs),
        gru,
        &[
            A(0),
            A(1),
            A(2),
            A(3),
            A(4),
            A(5),
            A(6),
            O(0),
            O(1),
            O(2),
            O(3),
            O(4),
            O(5),
            Attr("gate_order", Default::Text("zrh")),
            Attr("direction", Default::Text("UNIDIRECTIONAL")),
            Attr("cell_depth", Default::Int(1)),
            Attr("keep_prob", Default::Float(1.0)),
            Attr("cell_clip", Default::Float(-1.0)),
            Attr("num_proj", Default::Int(0)),
            Attr("time_major", Default::Flag(true)),
            Attr("activation", Default::Text("tanh")),
            Attr("reset_after", Default::Flag(true)),
            Attr("is_training", Default::Flag(true)),
        ],
    ),
    node(
        "DynamicGRUV2Grad",
        &[
            "x",
            "weight_input",
            "weight_hidden",
            "y",
            "init_h",
            "h",
            "dy",
            "dh",
            "update",
            "reset",
            "new",
            "hidden_new",
            "seq_length?",
            "mask?",
        ],
        &["dw_input", "dw_hidden", "db_input", "db_hidden", "dx", "dh_prev"],
        Infer::By(gru_gradient_outputs),
        gru_gradients,
        &[
            A(0),
            A(1),
            A(2),
            No,
            A(4),
            A(5),
            A(6),
            A(7),
            A(8),
            A(9),
            A(10),
            A(11),
            A(12),
            A(13),
            O(0),
            O(1),
            O(2),
            O(3),
            O(4),
            O(5),
            Attr("gate_order", Default::Text("zrh")),
            Attr("direction", Default::Text("UNIDIRECTIONAL")),
            Attr("cell_depth", Default::Int(0)),
            Attr("keep_prob", Default::Float(-1.0)),
            Attr("cell_clip", Default::Float(-1.0)),
            Attr("num_proj", Default::Int(0)),
            Attr("time_major", Default::Flag(true)),
            Attr("reset_after", Default::Flag(true)),
            Attr("bias_type", Default::None),
        ],
    ),
];
