//! One layer of LSTM in one direction, by IR name, and its gradients.

use super::by_name::*;
use super::layer::{Kind, Layer, LayerScratch, Sizes, Source, Target};
use crate::call::Call;
use crate::error::Result;
use crate::infer::Infer;
use crate::plan::{Operand, Plan};
use crate::table::ArgSource::{A, Attr, No, O};
use crate::table::{AttrDefault, Node, node};
use cairn_tensor::Layout;

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

/// Where both weights are one tensor, the outputs have the states after each step, otherwise those after the last.
fn lstm(call: &mut Call<'_>) -> Result<Plan> {
    CHOICES.iter().try_for_each(|choice| expect_choice(call, *choice))?;
    UNUSED.into_iter().try_for_each(|at| expect_unused(call, at))?;
    let (order, reversed) = (lstm_order(call, ORDER)?, reversed(call, DIRECTION)?);
    let forget = call.float(FORGET)? as f32;
    let sizes = sizes(call, Kind::Lstm, 0, 1)?;
    let Sizes { steps, rows, hidden, .. } = sizes;
    let mut outputs = [None; 8];
    let has_joint_weights = !call.has(2);
    for (index, output) in outputs.iter_mut().enumerate() {
        let only_last = !has_joint_weights && matches!(index, 1 | 2);
        let count = if only_last { 1 } else { steps };
        *output = out(call, Y + index, &[count, rows, hidden])?;
    }
    let outs: Vec<&Operand> = outputs.iter().flatten().collect();
    let inputs = input_size(call)?;
    let x = read_real(call, 0, &[steps, rows, inputs], &outs)?;
    let weights = weights(call, &sizes, inputs, &outs)?;
    let bias = optional(call, B, &[4 * hidden], &outs)?;
    let first = [state(call, FIRST, &sizes, &outs)?, state(call, FIRST + 1, &sizes, &outs)?];
    let lengths = lengths(call, LENGTHS, &sizes, &outs)?;
    if rows == 0 {
        return call.nothing();
    }
    let scratch = LayerScratch::new(call, &sizes, lengths.is_some(), false);
    let mut layer = Layer::new(call, &scratch, Source::Tensor(x), weights[0], weights[1], order);
    layer.reversed = reversed;
    layer.forget = forget;
    layer.bias = [bias, None];
    layer.first = first;
    let [y, h, c, i, j, f, o, tanh] = outputs;
    layer.y = y.map(Target::Tensor);
    match has_joint_weights {
        true => layer.states = [h, c],
        false => {
            layer.last = [h, c].map(|out| out.map(|out| out.with_layout(out.layout().at(0, 0))))
        }
    }
    layer.saved = [i, j, f, o];
    layer.tanh = tanh;
    let name = call.parameter(LENGTHS);
    call.plan(move |memory| {
        let reads = [Some(x), Some(weights[0]), Some(weights[1]), bias, first[0], first[1]];
        reads.iter().flatten().for_each(|read| read.prepare(memory));
        fill_active(memory, &scratch, &lengths, name)?;
        layer.run(memory, &scratch, &sizes);
        Ok(())
    })
}

/// The outputs of a layer: y and what is saved like the bias, or else like the input; the hidden state like the input.
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
// and of both last states, four gates, the hyperbolic tangent, lengths, inputs that are not supported.
const GRAD_FIRST: usize = 4;
const GRAD_STATES: usize = 6;
const DY: usize = 8;
const LAST: usize = 9;
const GATES: usize = 11;
const TANH: usize = 15;
const GRAD_LENGTHS: usize = 16;
const GRAD_UNUSED: std::ops::Range<usize> = 17..21;
// Then the gradients of weights (both, where they are one tensor), of weights of the hidden state, of the bias, of x, of states.
const DW: usize = 21;
const DWH: usize = 22;
const DB: usize = 23;
const DX: usize = 24;
const DFIRST: usize = 25;
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
    GRAD_CHOICES.iter().try_for_each(|choice| expect_choice(call, *choice))?;
    GRAD_UNUSED.into_iter().try_for_each(|at| expect_unused(call, at))?;
    let (order, reversed) = (lstm_order(call, GRAD_ORDER)?, reversed(call, GRAD_DIRECTION)?);
    let sizes = sizes(call, Kind::Lstm, 0, 1)?;
    let Sizes { steps, rows, hidden, .. } = sizes;
    let (inputs, columns) = (input_size(call)?, 4 * hidden);
    let dweights = match call.has(2) {
        true => {
            let dinput_weights = out(call, DW, &[inputs, columns])?;
            [dinput_weights, out(call, DWH, &[hidden, columns])?]
        }
        false => match out(call, DW, &[inputs + hidden, columns])? {
            Some(both) => [
                Some(both.with_layout(both.sliced(0, 0, inputs, 1))),
                Some(both.with_layout(both.sliced(0, inputs, hidden, 1))),
            ],
            None => [None; 2],
        },
    };
    let dbias = out(call, DB, &[columns])?;
    let dx = out(call, DX, &[steps, rows, inputs])?;
    let dfirst = [state_out(call, DFIRST, &sizes)?, state_out(call, DFIRST + 1, &sizes)?];
    let all = [dweights[0], dweights[1], dbias, dx, dfirst[0], dfirst[1]];
    let outs: Vec<&Operand> = all.iter().flatten().collect();
    let x = read_real(call, 0, &[steps, rows, inputs], &outs)?;
    let weights = weights(call, &sizes, inputs, &outs)?;
    let mut reads = vec![x, weights[0], weights[1]];
    let mut states = [None; 2];
    let mut first = [None; 2];
    let mut last = [None; 2];
    let dims = [steps, rows, hidden];
    for index in 0..2 {
        states[index] = Some(read_real(call, GRAD_STATES + index, &dims, &outs)?);
        first[index] = state(call, GRAD_FIRST + index, &sizes, &outs)?;
        last[index] = state(call, LAST + index, &sizes, &outs)?;
    }
    let mut saved = [x; 4];
    for (index, saved) in saved.iter_mut().enumerate() {
        *saved = read_real(call, GATES + index, &dims, &outs)?;
    }
    let dy = optional(call, DY, &dims, &outs)?;
    let tanh = optional(call, TANH, &dims, &outs)?;
    let lengths = lengths(call, GRAD_LENGTHS, &sizes, &outs)?;
    reads.extend(saved.iter().chain(states.iter().flatten()).chain(first.iter().flatten()));
    reads.extend(last.iter().flatten().chain(&dy).chain(&tanh));
    let tensors = GradientTensors {
        reversed,
        order,
        x,
        weights,
        saved,
        states,
        tanh,
        first,
        dy,
        last,
        dx,
        dfirst,
        dweights,
        dbias: [dbias, None],
    };
    plan_gradients(call, sizes, tensors, reads, lengths, GRAD_LENGTHS)
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

const LAYER_OUTPUTS: &[&str] = &["y", "output_h", "output_c", "i", "j", "f", "o", "tanhc"];

/// The nodes of this family.
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
            Attr("direction", AttrDefault::Text("UNIDIRECTIONAL")),
            Attr("gate_order", AttrDefault::Text("ijfo")),
            Attr("forget_bias", AttrDefault::Float(0.0)),
            Attr("cell_type", AttrDefault::Text("LSTM")),
            Attr("cell_depth", AttrDefault::Int(1)),
            Attr("use_peephole", AttrDefault::Flag(false)),
            Attr("keep_prob", AttrDefault::Float(1.0)),
            Attr("cell_clip", AttrDefault::Float(-1.0)),
            Attr("num_proj", AttrDefault::Int(0)),
            Attr("time_major", AttrDefault::Flag(true)),
            Attr("activation", AttrDefault::Text("tanh")),
            No,
            No,
            No,
            Attr("is_training", AttrDefault::Flag(true)),
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
            Attr("direction", AttrDefault::Text("UNIDIRECTIONAL")),
            Attr("gate_order", AttrDefault::Text("ijfo")),
            Attr("forget_bias", AttrDefault::Float(0.0)),
            Attr("cell_type", AttrDefault::Text("LSTM")),
            Attr("cell_depth", AttrDefault::Int(1)),
            Attr("use_peephole", AttrDefault::Flag(false)),
            Attr("keep_prob", AttrDefault::Float(1.0)),
            Attr("cell_clip", AttrDefault::Float(-1.0)),
            Attr("num_proj", AttrDefault::Int(0)),
            Attr("time_major", AttrDefault::Flag(true)),
            Attr("activation", AttrDefault::Text("tanh")),
            Attr("recurrent_activation", AttrDefault::Text("sigmoid")),
            Attr("stateful", AttrDefault::Flag(false)),
            Attr("merge_mode", AttrDefault::Text("concat")),
            Attr("is_training", AttrDefault::Flag(true)),
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
            Attr("direction", AttrDefault::Text("UNIDIRECTIONAL")),
            Attr("gate_order", AttrDefault::Text("ijfo")),
            Attr("cell_type", AttrDefault::Text("LSTM")),
            Attr("cell_depth", AttrDefault::Int(0)),
            Attr("use_peephole", AttrDefault::Flag(false)),
            Attr("keep_prob", AttrDefault::Float(-1.0)),
            Attr("cell_clip", AttrDefault::Float(-1.0)),
            Attr("num_proj", AttrDefault::Int(0)),
            Attr("time_major", AttrDefault::Flag(true)),
            No,
            No,
            No,
            No,
            Attr("forget_bias", AttrDefault::Float(0.0)),
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
            Attr("direction", AttrDefault::Text("UNIDIRECTIONAL")),
            Attr("gate_order", AttrDefault::Text("ijfo")),
            Attr("cell_type", AttrDefault::Text("LSTM")),
            Attr("cell_depth", AttrDefault::Int(1)),
            Attr("use_peephole", AttrDefault::Flag(false)),
            Attr("keep_prob", AttrDefault::Float(1.0)),
            Attr("cell_clip", AttrDefault::Float(-1.0)),
            Attr("num_proj", AttrDefault::Int(0)),
            Attr("time_major", AttrDefault::Flag(true)),
            Attr("activation", AttrDefault::Text("tanh")),
            Attr("recurrent_activation", AttrDefault::Text("sigmoid")),
            Attr("stateful", AttrDefault::Flag(false)),
            Attr("merge_mode", AttrDefault::Text("concat")),
        ],
    ),
];
