//! LSTM: layers and cells with an input gate, a candidate, a forget gate and an output gate.

use super::{Recurrence, fetch, floats, floats_to_read, put};
use crate::kernels::math::{sigmoid, tanh};
use crate::kernels::matmul::matmul;
use crate::kernels::strip::{STRIP, runs_here};
use crate::parallel::{Parallel, split};
use crate::{Scalar, View, ViewMut};

/// One layer in one direction. Unless stated otherwise, tensors are by steps, rows and elements of the hidden state.
pub struct Lstm<'a> {
    /// The steps.
    pub recurrence: Recurrence<'a>,
    /// The products of inputs and weights, `f32`, contiguous, with four blocks in a row; they are overwritten.
    pub gates: ViewMut<'a>,
    /// The weights of the hidden state, `f32`, hidden by four blocks.
    pub weights: View<'a>,
    /// What is added to the gates, `f32`, contiguous, four blocks.
    pub bias: View<'a>,
    /// Which block is the input gate, the candidate, the forget gate, the output gate.
    pub order: [usize; 4],
    /// Hidden state and cell state before the first step, and after the last: `f32`, contiguous, 2 by rows by hidden.
    pub state: ViewMut<'a>,
    /// What the layer puts out.
    pub y: Option<ViewMut<'a>>,
    /// Hidden state and cell state after each step.
    pub states: [Option<ViewMut<'a>>; 2],
    /// Input gate, candidate, forget gate, output gate.
    pub saved: [Option<ViewMut<'a>>; 4],
    /// The hyperbolic tangent of the cell state.
    pub tanh: Option<ViewMut<'a>>,
}

/// Runs a layer.
pub fn lstm(parallel: &dyn Parallel, task: &Lstm<'_>) {
    let recurrence = task.recurrence;
    let (rows, hidden) = (recurrence.rows, recurrence.hidden);
    let state = part(&task.state, 0);
    for step in recurrence.order() {
        let gates = part(&task.gates, step);
        let one = Scalar::from(1.0);
        matmul(parallel, gates, state.view(), task.weights, one, one, None);
        recurrence.each_row(parallel, 4, |row| {
            let active = recurrence.is_active(step, row);
            for start in (0..hidden).step_by(STRIP) {
                let length = (hidden - start).min(STRIP);
                let position = [step, row, start];
                let first = (step * rows + row) * 4 * hidden + start;
                let gate = task.order.map(|at| floats(&task.gates, first + at * hidden, length));
                let bias =
                    task.order.map(|at| floats_to_read(&task.bias, at * hidden + start, length));
                for (gate, bias) in gate.into_iter().zip(bias) {
                    gate.iter_mut().zip(bias).for_each(|(gate, bias)| *gate += bias);
                }
                let gate = task.order.map(|at| floats(&task.gates, first + at * hidden, length));
                let h = floats(&task.state, row * hidden + start, length);
                let c = floats(&task.state, (rows + row) * hidden + start, length);
                let (mut cell, mut tanh_c, mut out) = ([0.0; STRIP], [0.0; STRIP], [0.0; STRIP]);
                let (cell, tanh_c, out) =
                    (&mut cell[..length], &mut tanh_c[..length], &mut out[..length]);
                cell.copy_from_slice(c);
                let [i, j, f, o] = gate;
                activate_gates(i, j, f, o, cell, tanh_c, out);
                for (saved, gate) in task.saved.iter().zip([&*i, j, f, o]) {
                    put(saved, &position, gate);
                }
                put(&task.tanh, &position, tanh_c);
                match active {
                    true => {
                        c.copy_from_slice(cell);
                        h.copy_from_slice(out);
                    }
                    false => out.fill(0.0),
                }
                put(&task.y, &position, out);
                put(&task.states[0], &position, h);
                put(&task.states[1], &position, c);
            }
        });
    }
}

/// The functions of the gates, in place; `c` is the cell state, before and after; then its hyperbolic tangent,
/// and the hidden state.
#[allow(clippy::too_many_arguments)]
fn activate_gates(
    i: &mut [f32],
    j: &mut [f32],
    f: &mut [f32],
    o: &mut [f32],
    c: &mut [f32],
    tanh_c: &mut [f32],
    h: &mut [f32],
) {
    #[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2,fma,f16c"))]
    fn with_avx2([i, j, f, o, c, tanh_c, h]: [&mut [f32]; 7]) {
        let length = c.len();
        let (i, j, f) = (&mut i[..length], &mut j[..length], &mut f[..length]);
        let (o, tanh_c, h) = (&mut o[..length], &mut tanh_c[..length], &mut h[..length]);
        for at in 0..length {
            i[at] = sigmoid(i[at]);
            j[at] = tanh(j[at]);
            f[at] = sigmoid(f[at]);
            o[at] = sigmoid(o[at]);
            c[at] = f[at].mul_add(c[at], i[at] * j[at]);
            tanh_c[at] = tanh(c[at]);
            h[at] = o[at] * tanh_c[at];
        }
    }
    assert!(runs_here(), "this processor lacks AVX2, FMA or F16C");
    // SAFETY: this processor has the three features.
    #[allow(unused_unsafe)]
    unsafe {
        with_avx2([i, j, f, o, c, tanh_c, h])
    }
}

/// The gradients of one layer in one direction. Unless stated otherwise, tensors are by steps, rows and elements of the hidden
/// state.
pub struct LstmGradients<'a> {
    /// The steps.
    pub recurrence: Recurrence<'a>,
    /// The weights of the hidden state, `f32`, four blocks by hidden.
    pub weights: View<'a>,
    /// Which block is the input gate, the candidate, the forget gate, the output gate.
    pub order: [usize; 4],
    /// Input gate, candidate, forget gate, output gate.
    pub saved: [View<'a>; 4],
    /// Hidden state and cell state after each step.
    pub states: [View<'a>; 2],
    /// The hyperbolic tangent of the cell state; computed anew where it is absent.
    pub tanh: Option<View<'a>>,
    /// Hidden state and cell state before the first step, rows by hidden; zeros where absent.
    pub first: [Option<View<'a>>; 2],
    /// The gradient of what the layer puts out.
    pub y: Option<View<'a>>,
    /// The gradients of the states: after the last step on entry, before the first on return. `f32`, contiguous, 2 by rows
    /// by hidden.
    pub state: ViewMut<'a>,
    /// Gets the gradients of the gates before their functions: `f32`, contiguous, with four blocks in a row.
    pub gates: ViewMut<'a>,
    /// Gets the hidden state before each step, `f32`, contiguous.
    pub before: ViewMut<'a>,
}

/// Computes the gradients, from the last step to the first.
pub fn lstm_gradients(parallel: &dyn Parallel, task: &LstmGradients<'_>) {
    let recurrence = task.recurrence;
    let (rows, hidden) = (recurrence.rows, recurrence.hidden);
    let state = part(&task.state, 0);
    for step in recurrence.order().rev() {
        recurrence.each_row(parallel, 4, |row| {
            let active = recurrence.is_active(step, row);
            for start in (0..hidden).step_by(STRIP) {
                let length = (hidden - start).min(STRIP);
                let position = [step, row, start];
                let first = (step * rows + row) * 4 * hidden + start;
                let gates = task.order.map(|at| floats(&task.gates, first + at * hidden, length));
                let before = floats(&task.before, (step * rows + row) * hidden + start, length);
                if !active {
                    gates.into_iter().for_each(|gate| gate.fill(0.0));
                    before.fill(0.0);
                    continue;
                }
                let mut buffer = [[0.0f32; STRIP]; 7];
                let [i, j, f, o, tanh_c, previous_c, y_grad] =
                    buffer.each_mut().map(|one| &mut one[..length]);
                for (view, into) in task.saved.iter().zip([&mut *i, j, f, o]) {
                    fetch(view, &position, into);
                }
                match &task.tanh {
                    Some(view) => fetch(view, &position, tanh_c),
                    None => {
                        fetch(&task.states[1], &position, tanh_c);
                        tanh_c.iter_mut().for_each(|one| *one = tanh(*one));
                    }
                }
                previous(&recurrence, step, row, start, &task.states[0], &task.first[0], before);
                previous(
                    &recurrence,
                    step,
                    row,
                    start,
                    &task.states[1],
                    &task.first[1],
                    previous_c,
                );
                if let Some(view) = &task.y {
                    fetch(view, &position, y_grad);
                }
                let dh = floats(&task.state, row * hidden + start, length);
                let dc = floats(&task.state, (rows + row) * hidden + start, length);
                dh.iter_mut().zip(&*y_grad).for_each(|(dh, y_grad)| *dh += y_grad);
                gate_gradients([i, j, f, o, tanh_c, previous_c], [dh, dc], gates);
                dh.fill(0.0);
            }
        });
        let (gates, one) = (part(&task.gates, step), Scalar::from(1.0));
        matmul(parallel, state, gates.view(), task.weights, one, one, None);
    }
}

/// The state before a step.
pub(super) fn previous(
    recurrence: &Recurrence<'_>,
    step: usize,
    row: usize,
    start: usize,
    states: &View<'_>,
    first: &Option<View<'_>>,
    into: &mut [f32],
) {
    match (recurrence.before(step), first) {
        (Some(step), _) => fetch(states, &[step, row, start], into),
        (None, Some(first)) => fetch(first, &[row, start], into),
        (None, None) => into.fill(0.0),
    }
}

/// The gradients of the four gates before their functions, from gates, the hyperbolic tangent of the cell state, the cell
/// state before, and the gradients of both states; that of the cell state becomes that of the one before.
fn gate_gradients(values: [&mut [f32]; 6], [dh, dc]: [&mut [f32]; 2], gates: [&mut [f32]; 4]) {
    #[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2,fma,f16c"))]
    fn with_avx2(values: [&mut [f32]; 6], dh: &mut [f32], dc: &mut [f32], gates: [&mut [f32]; 4]) {
        let length = dh.len();
        let [i, j, f, o, tanh_c, previous_c] = values.map(|one| &one[..length]);
        let [di, dj, df, do_] = gates.map(|one| &mut one[..length]);
        let dc = &mut dc[..length];
        for at in 0..length {
            let cell_grad = (dh[at] * o[at]).mul_add(1.0 - tanh_c[at] * tanh_c[at], dc[at]);
            do_[at] = dh[at] * tanh_c[at] * o[at] * (1.0 - o[at]);
            di[at] = cell_grad * j[at] * i[at] * (1.0 - i[at]);
            df[at] = cell_grad * previous_c[at] * f[at] * (1.0 - f[at]);
            dj[at] = cell_grad * i[at] * (1.0 - j[at] * j[at]);
            dc[at] = cell_grad * f[at];
        }
    }
    assert!(runs_here(), "this processor lacks AVX2, FMA or F16C");
    // SAFETY: this processor has the three features.
    #[allow(unused_unsafe)]
    unsafe {
        with_avx2(values, dh, dc, gates)
    }
}

/// One step, whose products are computed already. Blocks are input gate, forget gate, candidate, output gate.
pub struct Cell<'a> {
    /// Products of input and of hidden state, rows by four blocks.
    pub products: [View<'a>; 2],
    /// What is added to them, four blocks.
    pub bias: [Option<View<'a>>; 2],
    /// The cell state before, rows by hidden.
    pub c: View<'a>,
    /// Hidden state and cell state after, rows by hidden.
    pub after: [ViewMut<'a>; 2],
    /// The gates, rows by four blocks.
    pub gates: ViewMut<'a>,
}

/// Blocks of a cell: input gate, candidate, forget gate, output gate.
const BLOCKS: [usize; 4] = [0, 2, 1, 3];

/// Runs a cell.
pub fn cell(parallel: &dyn Parallel, task: &Cell<'_>) {
    let (rows, hidden) = (task.c.dims()[0], task.c.dims()[1]);
    split(parallel, rows, 1, (super::LEAST / (4 * hidden.max(1))).max(1), |rows| {
        for row in rows {
            for start in (0..hidden).step_by(STRIP) {
                let length = (hidden - start).min(STRIP);
                let mut buffer = [[0.0f32; STRIP]; 8];
                let [i, j, f, o, c, tanh_c, h, one] =
                    buffer.each_mut().map(|one| &mut one[..length]);
                fetch(&task.c, &[row, start], c);
                for (block, gate) in BLOCKS.into_iter().zip([&mut *i, j, f, o]) {
                    let column = block * hidden + start;
                    fetch(&task.products[0], &[row, column], gate);
                    fetch(&task.products[1], &[row, column], one);
                    gate.iter_mut().zip(&*one).for_each(|(gate, one)| *gate += one);
                    for bias in task.bias.iter().flatten() {
                        fetch(bias, &[column], one);
                        gate.iter_mut().zip(&*one).for_each(|(gate, one)| *gate += one);
                    }
                }
                activate_gates(i, j, f, o, c, tanh_c, h);
                put(&Some(task.after[0]), &[row, start], h);
                put(&Some(task.after[1]), &[row, start], c);
                for (block, gate) in BLOCKS.into_iter().zip([&*i, j, f, o]) {
                    put(&Some(task.gates), &[row, block * hidden + start], gate);
                }
            }
        }
    });
}

/// The gradients of a [`Cell`].
pub struct CellGradients<'a> {
    /// Those of hidden state and cell state after; zeros where absent.
    pub after: [Option<View<'a>>; 2],
    /// The cell state before and after.
    pub cells: [View<'a>; 2],
    /// The gates.
    pub gates: View<'a>,
    /// Gets those of the products.
    pub products: ViewMut<'a>,
    /// Gets that of the cell state before.
    pub before: ViewMut<'a>,
    /// The gradients of the products once more, `f32`, contiguous, for [`super::column_sums`].
    pub sums: Option<ViewMut<'a>>,
}

/// Computes the gradients of a cell.
pub fn cell_gradients(parallel: &dyn Parallel, task: &CellGradients<'_>) {
    let (rows, hidden) = (task.cells[0].dims()[0], task.cells[0].dims()[1]);
    split(parallel, rows, 1, (super::LEAST / (4 * hidden.max(1))).max(1), |rows| {
        for row in rows {
            for start in (0..hidden).step_by(STRIP) {
                let length = (hidden - start).min(STRIP);
                let mut buffer = [[0.0f32; STRIP]; 12];
                let [i, j, f, o, tanh_c, previous_c, dh, dc, di, dj, df, do_] =
                    buffer.each_mut().map(|one| &mut one[..length]);
                for (block, gate) in BLOCKS.into_iter().zip([&mut *i, j, f, o]) {
                    fetch(&task.gates, &[row, block * hidden + start], gate);
                }
                fetch(&task.cells[0], &[row, start], previous_c);
                fetch(&task.cells[1], &[row, start], tanh_c);
                tanh_c.iter_mut().for_each(|one| *one = tanh(*one));
                for (view, into) in task.after.iter().zip([&mut *dh, dc]) {
                    if let Some(view) = view {
                        fetch(view, &[row, start], into);
                    }
                }
                gate_gradients([i, j, f, o, tanh_c, previous_c], [dh, dc], [di, dj, df, do_]);
                put(&Some(task.before), &[row, start], dc);
                for (block, gate) in BLOCKS.into_iter().zip([&*di, dj, df, do_]) {
                    let position = [row, block * hidden + start];
                    put(&Some(task.products), &position, gate);
                    put(&task.sums, &position, gate);
                }
            }
        }
    });
}

/// The part at one position of the first dimension.
pub(super) fn part<'a>(view: &ViewMut<'a>, at: usize) -> ViewMut<'a> {
    view.with_layout(view.layout().at(0, at)).expect("a part of it")
}
