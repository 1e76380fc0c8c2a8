//! GRU: layers with a reset gate, an update gate and a candidate, where the reset gate comes after the product.

use super::lstm::{part, previous};
use super::{Recurrence, fetch, floats, floats_to_read, put};
use crate::kernels::math::{sigmoid, tanh};
use crate::kernels::matmul::matmul;
use crate::kernels::strip::{STRIP, runs_here};
use crate::parallel::Parallel;
use crate::{Scalar, View, ViewMut};

/// One layer in one direction. Unless stated otherwise, tensors are by steps, rows and elements of the hidden state.
pub struct Gru<'a> {
    /// The steps.
    pub recurrence: Recurrence<'a>,
    /// The products of inputs and weights, `f32`, contiguous, with three blocks in a row; they are overwritten.
    pub gates: ViewMut<'a>,
    /// Scratch for the products of one step's hidden states, `f32`, contiguous, rows by three blocks.
    pub products: ViewMut<'a>,
    /// The weights of the hidden state, `f32`, hidden by three blocks.
    pub weights: View<'a>,
    /// What is added to the products of inputs and to those of hidden states, `f32`, contiguous, 2 by three blocks.
    pub bias: View<'a>,
    /// Which block is the reset gate, the update gate, the candidate.
    pub order: [usize; 3],
    /// The hidden state before the first step, and after the last: `f32`, contiguous, rows by hidden.
    pub state: ViewMut<'a>,
    /// What the layer puts out.
    pub y: Option<ViewMut<'a>>,
    /// The hidden state after each step.
    pub states: Option<ViewMut<'a>>,
    /// Reset gate, update gate, candidate, and what the reset gate is multiplied by.
    pub saved: [Option<ViewMut<'a>>; 4],
}

/// Runs a layer.
pub fn gru(parallel: &dyn Parallel, task: &Gru<'_>) {
    let recurrence = task.recurrence;
    let (rows, hidden) = (recurrence.rows, recurrence.hidden);
    for step in recurrence.order() {
        let (one, zero) = (Scalar::from(1.0), Scalar::from(0.0));
        matmul(parallel, task.products, task.state.view(), task.weights, one, zero, None);
        recurrence.each_row(parallel, 3, |row| {
            let active = recurrence.is_active(step, row);
            for start in (0..hidden).step_by(STRIP) {
                let length = (hidden - start).min(STRIP);
                let position = [step, row, start];
                let first = (step * rows + row) * 3 * hidden + start;
                let gate = task.order.map(|at| floats(&task.gates, first + at * hidden, length));
                let from = row * 3 * hidden + start;
                let hidden_products =
                    task.order.map(|at| floats(&task.products, from + at * hidden, length));
                let bias = |which: usize| {
                    task.order.map(|at| {
                        floats_to_read(&task.bias, (which * 3 + at) * hidden + start, length)
                    })
                };
                let h = floats(&task.state, row * hidden + start, length);
                let mut out = [0.0; STRIP];
                let out = &mut out[..length];
                let [r, z, n] = gate;
                let [hr, hz, hn] = hidden_products;
                activate_gates([r, z, n], [hr, hz, hn], [bias(0), bias(1)], h, out);
                for (saved, gate) in task.saved.iter().zip([&*r, z, n, hn]) {
                    put(saved, &position, gate);
                }
                match active {
                    true => h.copy_from_slice(out),
                    false => out.fill(0.0),
                }
                put(&task.y, &position, out);
                put(&task.states, &position, h);
            }
        });
    }
}

/// Gates from their products, in place; the product of the candidate with its bias, in place; and the next state.
fn activate_gates(
    gates: [&mut [f32]; 3],
    hidden_products: [&mut [f32]; 3],
    bias: [[&[f32]; 3]; 2],
    h: &[f32],
    out: &mut [f32],
) {
    #[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2,fma,f16c"))]
    fn with_avx2(
        gates: [&mut [f32]; 3],
        hidden_products: [&mut [f32]; 3],
        bias: [[&[f32]; 3]; 2],
        h: &[f32],
        out: &mut [f32],
    ) {
        let length = h.len();
        let [r, z, n] = gates.map(|one| &mut one[..length]);
        let [hr, hz, hn] = hidden_products.map(|one| &mut one[..length]);
        let [
            [input_bias_r, input_bias_z, input_bias_n],
            [hidden_bias_r, hidden_bias_z, hidden_bias_n],
        ] = bias.map(|biases| biases.map(|one| &one[..length]));
        let out = &mut out[..length];
        for at in 0..length {
            hn[at] += hidden_bias_n[at];
            r[at] = sigmoid(r[at] + input_bias_r[at] + hr[at] + hidden_bias_r[at]);
            z[at] = sigmoid(z[at] + input_bias_z[at] + hz[at] + hidden_bias_z[at]);
            n[at] = tanh(r[at].mul_add(hn[at], n[at] + input_bias_n[at]));
            out[at] = z[at].mul_add(h[at] - n[at], n[at]);
        }
    }
    assert!(runs_here(), "this processor lacks AVX2, FMA or F16C");
    // SAFETY: this processor has the three features.
    #[allow(unused_unsafe)]
    unsafe {
        with_avx2(gates, hidden_products, bias, h, out)
    }
}

/// The gradients of one layer in one direction. Unless stated otherwise, tensors are by steps, rows and elements of the hidden
/// state.
pub struct GruGradients<'a> {
    /// The steps.
    pub recurrence: Recurrence<'a>,
    /// The weights of the hidden state, `f32`, three blocks by hidden.
    pub weights: View<'a>,
    /// Which block is the reset gate, the update gate, the candidate.
    pub order: [usize; 3],
    /// Reset gate, update gate, candidate, and what the reset gate is multiplied by.
    pub saved: [View<'a>; 4],
    /// The hidden state after each step.
    pub states: View<'a>,
    /// The hidden state before the first step, rows by hidden; zeros where absent.
    pub first: Option<View<'a>>,
    /// The gradient of what the layer puts out.
    pub y: Option<View<'a>>,
    /// The gradient of the state: after the last step on entry, before the first on return. `f32`, contiguous, rows by
    /// hidden.
    pub state: ViewMut<'a>,
    /// Gets the gradients of the products of inputs and of those of hidden states: `f32`, contiguous, with three blocks in a
    /// row.
    pub gates: [ViewMut<'a>; 2],
    /// Gets the hidden state before each step, `f32`, contiguous.
    pub before: ViewMut<'a>,
}

/// Computes the gradients, from the last step to the first.
pub fn gru_gradients(parallel: &dyn Parallel, task: &GruGradients<'_>) {
    let recurrence = task.recurrence;
    let (rows, hidden) = (recurrence.rows, recurrence.hidden);
    for step in recurrence.order().rev() {
        recurrence.each_row(parallel, 3, |row| {
            let active = recurrence.is_active(step, row);
            for start in (0..hidden).step_by(STRIP) {
                let length = (hidden - start).min(STRIP);
                let position = [step, row, start];
                let first = (step * rows + row) * 3 * hidden + start;
                let blocks = |which: usize| {
                    task.order.map(|at| floats(&task.gates[which], first + at * hidden, length))
                };
                let before = floats(&task.before, (step * rows + row) * hidden + start, length);
                if !active {
                    let all = blocks(0).into_iter().chain(blocks(1));
                    all.for_each(|gate| gate.fill(0.0));
                    before.fill(0.0);
                    continue;
                }
                let mut buffer = [[0.0f32; STRIP]; 5];
                let [r, z, n, hn, y_grad] = buffer.each_mut().map(|one| &mut one[..length]);
                for (view, into) in task.saved.iter().zip([&mut *r, z, n, hn]) {
                    fetch(view, &position, into);
                }
                previous(&recurrence, step, row, start, &task.states, &task.first, before);
                if let Some(view) = &task.y {
                    fetch(view, &position, y_grad);
                }
                let dh = floats(&task.state, row * hidden + start, length);
                dh.iter_mut().zip(&*y_grad).for_each(|(dh, y_grad)| *dh += y_grad);
                gate_gradients([r, z, n, hn, before], dh, blocks(0), blocks(1));
            }
        });
        let (gates, one) = (part(&task.gates[1], step), Scalar::from(1.0));
        matmul(parallel, task.state, gates.view(), task.weights, one, one, None);
    }
}

/// The gradients of both products' blocks, from reset gate, update gate, candidate, what the reset gate is multiplied by, the
/// state before, and the gradient of the state, which becomes its part of that of the state before.
fn gate_gradients(
    values: [&mut [f32]; 5],
    dh: &mut [f32],
    inputs: [&mut [f32]; 3],
    hidden_grads: [&mut [f32]; 3],
) {
    #[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2,fma,f16c"))]
    fn with_avx2(
        values: [&mut [f32]; 5],
        dh: &mut [f32],
        inputs: [&mut [f32]; 3],
        hidden_grads: [&mut [f32]; 3],
    ) {
        let length = dh.len();
        let [r, z, n, hn, previous] = values.map(|one| &one[..length]);
        let [dr, dz, dn] = inputs.map(|one| &mut one[..length]);
        let [dhr, dhz, dhn] = hidden_grads.map(|one| &mut one[..length]);
        for at in 0..length {
            let update = dh[at] * (previous[at] - n[at]) * z[at] * (1.0 - z[at]);
            let candidate = dh[at] * (1.0 - z[at]) * (1.0 - n[at] * n[at]);
            let reset = candidate * hn[at] * r[at] * (1.0 - r[at]);
            (dr[at], dhr[at]) = (reset, reset);
            (dz[at], dhz[at]) = (update, update);
            (dn[at], dhn[at]) = (candidate, candidate * r[at]);
            dh[at] *= z[at];
        }
    }
    assert!(runs_here(), "this processor lacks AVX2, FMA or F16C");
    // SAFETY: this processor has the three features.
    #[allow(unused_unsafe)]
    unsafe {
        with_avx2(values, dh, inputs, hidden_grads)
    }
}
