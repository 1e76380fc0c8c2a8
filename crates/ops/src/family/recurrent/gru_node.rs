//! One layer of GRU in one direction, by IR name, and its gradients.

use super::by_name::*;
use super::layer::{Kind, Layer, LayerScratch, Sizes, Source, Target};
use crate::call::Call;
use crate::error::Result;
use crate::infer::Infer;
use crate::plan::{Operand, Plan};
use crate::table::ArgSource::{A, Attr, No, O};
use crate::table::{AttrDefault, Node, node};
use cairn_tensor::Layout;

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
    GRU_CHOICES.iter().try_for_each(|choice| expect_choice(call, *choice))?;
    let (order, reversed) = (gru_order(call, GRU_ORDER)?, reversed(call, GRU_ORDER + 1)?);
    let sizes = sizes(call, Kind::Gru, 0, 1)?;
    let Sizes { steps, rows, hidden, .. } = sizes;
    let mut outputs = [None; 6];
    for (index, output) in outputs.iter_mut().enumerate() {
        *output = out(call, GRU_Y + index, &[steps, rows, hidden])?;
    }
    let outs: Vec<&Operand> = outputs.iter().flatten().collect();
    let inputs = input_size(call)?;
    let x = read_real(call, 0, &[steps, rows, inputs], &outs)?;
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
    let scratch = LayerScratch::new(call, &sizes, lengths.is_some(), false);
    let mut layer = Layer::new(call, &scratch, Source::Tensor(x), weights[0], weights[1], order);
    layer.reversed = reversed;
    layer.bias = bias;
    layer.first = first;
    let [y, h, update, reset, candidate, product] = outputs;
    layer.y = y.map(Target::Tensor);
    layer.states = [h, None];
    layer.saved = [reset, update, candidate, product];
    let name = call.parameter(GRU_LENGTHS);
    call.plan(move |memory| {
        let reads = [Some(x), Some(weights[0]), Some(weights[1]), bias[0], bias[1], first[0]];
        reads.iter().flatten().for_each(|read| read.prepare(memory));
        fill_active(memory, &scratch, &lengths, name)?;
        layer.run(memory, &scratch, &sizes);
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
// candidate, what the reset gate is multiplied by, lengths, an input that is not supported.
const GRU_GRAD_FIRST: usize = 4;
const GRU_GRAD_STATES: usize = 5;
const GRU_DY: usize = 6;
const GRU_LAST: usize = 7;
const GRU_GATES: [usize; 4] = [9, 8, 10, 11];
const GRU_GRAD_LENGTHS: usize = 12;
const GRU_GRAD_UNUSED: usize = 13;
// Then the gradients of weights, biases, input, state; then attributes.
const GRU_GRADIENTS: usize = 14;
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
    GRU_GRAD_CHOICES.iter().try_for_each(|choice| expect_choice(call, *choice))?;
    expect_unused(call, GRU_GRAD_UNUSED)?;
    let order = gru_order(call, GRU_GRAD_ORDER)?;
    let reversed = reversed(call, GRU_GRAD_ORDER + 1)?;
    let sizes = sizes(call, Kind::Gru, 0, 1)?;
    let Sizes { steps, rows, hidden, .. } = sizes;
    let (inputs, columns) = (input_size(call)?, 3 * hidden);
    call.layout(2)?;
    let dinput_weights = out(call, GRU_GRADIENTS, &[inputs, columns])?;
    let dweights = [dinput_weights, out(call, GRU_GRADIENTS + 1, &[hidden, columns])?];
    let dinput_bias = out(call, GRU_GRADIENTS + 2, &[columns])?;
    let dbias = [dinput_bias, out(call, GRU_GRADIENTS + 3, &[columns])?];
    let dx = out(call, GRU_GRADIENTS + 4, &[steps, rows, inputs])?;
    let dfirst = [state_out(call, GRU_GRADIENTS + 5, &sizes)?, None];
    let all = [dweights[0], dweights[1], dbias[0], dbias[1], dx, dfirst[0]];
    let outs: Vec<&Operand> = all.iter().flatten().collect();
    let dims = [steps, rows, hidden];
    let x = read_real(call, 0, &[steps, rows, inputs], &outs)?;
    let weights = weights(call, &sizes, inputs, &outs)?;
    let states = [Some(read_real(call, GRU_GRAD_STATES, &dims, &outs)?), None];
    let first = [state(call, GRU_GRAD_FIRST, &sizes, &outs)?, None];
    let last = [state(call, GRU_LAST, &sizes, &outs)?, None];
    let mut saved = [x; 4];
    for (at, saved) in GRU_GATES.into_iter().zip(&mut saved) {
        *saved = read_real(call, at, &dims, &outs)?;
    }
    let dy = optional(call, GRU_DY, &dims, &outs)?;
    let lengths = lengths(call, GRU_GRAD_LENGTHS, &sizes, &outs)?;
    let mut reads = vec![x, weights[0], weights[1]];
    let parts = saved.iter().chain(states.iter().flatten()).chain(first.iter().flatten());
    reads.extend(parts.chain(last.iter().flatten()).chain(&dy));
    let tanh = None;
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
        dbias,
    };
    plan_gradients(call, sizes, tensors, reads, lengths, GRU_GRAD_LENGTHS)
}

fn gru_gradient_outputs(call: &Call<'_>) -> Result<Vec<Layout>> {
    let sizes = sizes(call, Kind::Gru, 0, 1)?;
    let (x, w) = (call.layout(0)?, call.layout(1)?);
    let bias = Layout::contiguous(w.dtype, &[3 * sizes.hidden]);
    let h = call.layout(GRU_GRAD_FIRST)?;
    Ok(vec![w.packed(), call.layout(2)?.packed(), bias, bias, x.packed(), h.packed()])
}

/// The nodes of this family.
pub const NODES: &[Node] = &[
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
            Attr("gate_order", AttrDefault::Text("zrh")),
            Attr("direction", AttrDefault::Text("UNIDIRECTIONAL")),
            Attr("cell_depth", AttrDefault::Int(1)),
            Attr("keep_prob", AttrDefault::Float(1.0)),
            Attr("cell_clip", AttrDefault::Float(-1.0)),
            Attr("num_proj", AttrDefault::Int(0)),
            Attr("time_major", AttrDefault::Flag(true)),
            Attr("activation", AttrDefault::Text("tanh")),
            Attr("reset_after", AttrDefault::Flag(true)),
            Attr("is_training", AttrDefault::Flag(true)),
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
            Attr("gate_order", AttrDefault::Text("zrh")),
            Attr("direction", AttrDefault::Text("UNIDIRECTIONAL")),
            Attr("cell_depth", AttrDefault::Int(0)),
            Attr("keep_prob", AttrDefault::Float(-1.0)),
            Attr("cell_clip", AttrDefault::Float(-1.0)),
            Attr("num_proj", AttrDefault::Int(0)),
            Attr("time_major", AttrDefault::Flag(true)),
            Attr("reset_after", AttrDefault::Flag(true)),
            Attr("bias_type", AttrDefault::None),
        ],
    ),
];
