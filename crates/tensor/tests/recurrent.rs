//! Recurrent layers against loops over single elements in `f64`, and gradients against finite differences.

use cairn_tensor::kernels::copy::copy;
use cairn_tensor::kernels::recurrent::{
    Gru, GruGradients, Lstm, LstmGradients, Recurrence, column_sums, gather_bias, gru,
    gru_gradients, lstm, lstm_gradients, mark_by_lengths, mark_by_sizes,
};
use cairn_tensor::parallel::{Parallel, SingleThread};
use cairn_tensor::{DType, Layout, View, ViewMut};
use proptest::prelude::*;
use std::cell::Cell;

/// A thread for each part.
struct Threads(usize);

impl Parallel for Threads {
    fn width(&self) -> usize {
        self.0
    }

    fn run(&self, parts: usize, body: &(dyn Fn(usize) + Sync)) {
        std::thread::scope(|scope| {
            (0..parts).for_each(|part| drop(scope.spawn(move || body(part))));
        });
    }
}

/// A tensor in memory of its own.
struct StoredTensor {
    bytes: Vec<Cell<u8>>,
    layout: Layout,
}

impl StoredTensor {
    fn zeros(dtype: DType, dims: &[usize]) -> StoredTensor {
        let layout = Layout::contiguous(dtype, dims);
        StoredTensor { bytes: vec![Cell::new(0); layout.bytes()], layout }
    }

    fn of(dims: &[usize], values: &[f64]) -> StoredTensor {
        let stored = StoredTensor::zeros(DType::Float, dims);
        for (cells, value) in stored.bytes.chunks_exact(4).zip(values) {
            let bytes = (*value as f32).to_ne_bytes();
            cells.iter().zip(bytes).for_each(|(cell, byte)| cell.set(byte));
        }
        stored
    }

    /// As `of`, in another type and with the last two dimensions swapped in memory.
    fn transposed(dtype: DType, dims: &[usize], values: &[f64]) -> StoredTensor {
        let rank = dims.len();
        let mut other = dims.to_vec();
        other.swap(rank - 2, rank - 1);
        let mut stored = StoredTensor::zeros(dtype, &other);
        stored.layout = stored.layout.transposed(rank - 2, rank - 1);
        copy(&SingleThread, stored.view_mut(), StoredTensor::of(dims, values).view());
        stored
    }

    fn view(&self) -> View<'_> {
        View::over(&self.bytes, self.layout).unwrap()
    }

    fn view_mut(&self) -> ViewMut<'_> {
        ViewMut::over(&self.bytes, self.layout).unwrap()
    }

    fn values(&self) -> Vec<f64> {
        let plain = StoredTensor::zeros(DType::Float, self.layout.dims());
        copy(&SingleThread, plain.view_mut(), self.view());
        let value = |one: &[Cell<u8>]| f32::from_ne_bytes(std::array::from_fn(|at| one[at].get()));
        plain.bytes.chunks_exact(4).map(|one| f64::from(value(one))).collect()
    }
}

/// Numbers between -1 and 1 that `f16` represents exactly.
fn test_values(seed: usize, count: usize) -> Vec<f64> {
    (0..count).map(|at| ((at * 7919 + seed * 104_729) % 129) as f64 / 64.0 - 1.0).collect()
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

fn assert_close(have: &[f64], want: &[f64], tolerance: f64) {
    assert_eq!(have.len(), want.len());
    for (at, (have, want)) in have.iter().zip(want).enumerate() {
        assert!((have - want).abs() <= tolerance * (1.0 + want.abs()), "{at}: {have}, not {want}");
    }
}

#[derive(Clone, Copy, Debug)]
struct Shape {
    steps: usize,
    rows: usize,
    hidden: usize,
    reversed: bool,
    has_lengths: bool,
}

impl Shape {
    fn active(&self, step: usize, row: usize) -> bool {
        !self.has_lengths || step + row < self.steps
    }

    fn flags(&self) -> Vec<f64> {
        let is_active = |at: usize| self.active(at / self.rows, at % self.rows);
        (0..self.steps * self.rows).map(|at| f64::from(u8::from(is_active(at)))).collect()
    }

    fn order(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.steps).collect();
        if self.reversed {
            order.reverse();
        }
        order
    }

    fn recurrence<'a>(&self, active: &'a StoredTensor) -> Recurrence<'a> {
        let Shape { steps, rows, hidden, reversed, has_lengths } = *self;
        Recurrence { steps, rows, hidden, reversed, active: has_lengths.then(|| active.view()) }
    }
}

/// Results of a reference layer: output, hidden states, saved activations, final h and c.
type LayerResults = (Vec<f64>, Vec<f64>, [Vec<f64>; 5], Vec<f64>, Vec<f64>);

/// An LSTM with the blocks i, f, j, o. `gates`: [steps, rows, 4 * hidden]; `weights`: [hidden, 4 * hidden].
fn reference_lstm(
    shape: Shape,
    gates: &[f64],
    weights: &[f64],
    h0: &[f64],
    c0: &[f64],
) -> LayerResults {
    let Shape { steps, rows, hidden, .. } = shape;
    let (mut h, mut c) = (h0.to_vec(), c0.to_vec());
    let zeros = vec![0.0; steps * rows * hidden];
    let (mut y, mut hs, mut cs) = (zeros.clone(), zeros.clone(), zeros.clone());
    let mut saved: [Vec<f64>; 4] = std::array::from_fn(|_| zeros.clone());
    for step in shape.order() {
        let (old_h, old_c) = (h.clone(), c.clone());
        for row in 0..rows {
            for at in 0..hidden {
                let gate = |block: usize| {
                    let first = gates[(step * rows + row) * 4 * hidden + block * hidden + at];
                    (0..hidden).fold(first, |sum, k| {
                        sum + old_h[row * hidden + k]
                            * weights[k * 4 * hidden + block * hidden + at]
                    })
                };
                let (i, f, j, o) =
                    (sigmoid(gate(0)), sigmoid(gate(1)), gate(2).tanh(), sigmoid(gate(3)));
                let cell = f * old_c[row * hidden + at] + i * j;
                let index = (step * rows + row) * hidden + at;
                for (saved, value) in saved.iter_mut().zip([i, j, f, o]) {
                    saved[index] = value;
                }
                if shape.active(step, row) {
                    c[row * hidden + at] = cell;
                    h[row * hidden + at] = o * cell.tanh();
                    y[index] = o * cell.tanh();
                }
                hs[index] = h[row * hidden + at];
                cs[index] = c[row * hidden + at];
            }
        }
    }
    let [i, j, f, o] = saved;
    (y, hs, [i, j, f, o, cs], h, c)
}

/// A GRU with the blocks r, z, n. `gates`: [steps, rows, 3 * hidden]; `weights`: [hidden, 3 * hidden]; `bias` of the products of
/// hidden states.
fn reference_gru(
    shape: Shape,
    gates: &[f64],
    weights: &[f64],
    bias: &[f64],
    h0: &[f64],
) -> LayerResults {
    let Shape { steps, rows, hidden, .. } = shape;
    let mut h = h0.to_vec();
    let zeros = vec![0.0; steps * rows * hidden];
    let (mut y, mut hs) = (zeros.clone(), zeros.clone());
    let mut saved: [Vec<f64>; 5] = std::array::from_fn(|_| zeros.clone());
    for step in shape.order() {
        let old = h.clone();
        for row in 0..rows {
            for at in 0..hidden {
                let left = |block: usize| gates[((step * rows + row) * 3 + block) * hidden + at];
                let right = |block: usize| {
                    (0..hidden).fold(bias[block * hidden + at], |sum, k| {
                        sum + old[row * hidden + k] * weights[(k * 3 + block) * hidden + at]
                    })
                };
                let (r, z) = (sigmoid(left(0) + right(0)), sigmoid(left(1) + right(1)));
                let n = (left(2) + r * right(2)).tanh();
                let next = (1.0 - z) * n + z * old[row * hidden + at];
                let index = (step * rows + row) * hidden + at;
                for (saved, value) in saved.iter_mut().zip([r, z, n, right(2)]) {
                    saved[index] = value;
                }
                if shape.active(step, row) {
                    h[row * hidden + at] = next;
                    y[index] = next;
                }
                hs[index] = h[row * hidden + at];
            }
        }
    }
    (y, hs, saved, h, Vec::new())
}

fn shapes() -> impl Strategy<Value = Shape> {
    (
        1usize..5,
        1usize..4,
        prop_oneof![1usize..7, Just(40usize), Just(515)],
        any::<bool>(),
        any::<bool>(),
    )
        .prop_map(|(steps, rows, hidden, reversed, has_lengths)| {
            let hidden = if rows > 2 && hidden > 40 { 5 } else { hidden };
            let rows = rows.min(steps);
            Shape { steps, rows, hidden, reversed, has_lengths }
        })
}

/// Smaller weights for more of them, so that gates do not saturate.
fn weights(shape: Shape, blocks: usize) -> Vec<f64> {
    let scale = (shape.hidden as f64).sqrt();
    let values = test_values(2, shape.hidden * blocks * shape.hidden);
    values.into_iter().map(|one| one / scale).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn lstm_layers(shape in shapes(), threads in 1usize..3) {
        let Shape { steps, rows, hidden, .. } = shape;
        let gates = test_values(1, steps * rows * 4 * hidden);
        let bias = test_values(9, 4 * hidden);
        let (h0, c0, w) = (test_values(3, rows * hidden), test_values(4, rows * hidden), weights(shape, 4));
        let with_bias: Vec<f64> =
            gates.iter().enumerate().map(|(at, one)| one + bias[at % (4 * hidden)]).collect();
        let (y, hs, saved, h, c) = reference_lstm(shape, &with_bias, &w, &h0, &c0);

        let (dims, gate_dims) = ([steps, rows, hidden], [steps, rows, 4 * hidden]);
        let active = StoredTensor::of(&[steps, rows], &shape.flags());
        let (gates, bias) = (StoredTensor::of(&gate_dims, &gates), StoredTensor::of(&[4 * hidden], &bias));
        let w = StoredTensor::of(&[hidden, 4 * hidden], &w);
        let state = StoredTensor::of(&[2, rows, hidden], &[h0, c0].concat());
        let outs: Vec<StoredTensor> = (0..8).map(|_| StoredTensor::transposed(DType::Float, &dims, &[])).collect();
        let out = |at: usize| Some(outs[at].view_mut());
        lstm(&Threads(threads), &Lstm {
            recurrence: shape.recurrence(&active),
            gates: gates.view_mut(),
            weights: w.view(),
            bias: bias.view(),
            order: [0, 2, 1, 3],
            state: state.view_mut(),
            y: out(0),
            states: [out(1), out(2)],
            saved: [out(3), out(4), out(5), out(6)],
            tanh: out(7),
        });
        assert_close(&outs[0].values(), &y, 1e-4);
        assert_close(&outs[1].values(), &hs, 1e-4);
        assert_close(&outs[2].values(), &saved[4], 1e-4);
        for at in 0..4 {
            assert_close(&outs[3 + at].values(), &saved[at], 1e-4);
        }
        assert_close(&state.values(), &[h, c].concat(), 1e-4);
    }

    #[test]
    fn gru_layers(shape in shapes(), threads in 1usize..3) {
        let Shape { steps, rows, hidden, .. } = shape;
        let gates = test_values(1, steps * rows * 3 * hidden);
        let bias = test_values(9, 3 * hidden);
        let (h0, w) = (test_values(3, rows * hidden), weights(shape, 3));
        let (y, hs, saved, h, _) = reference_gru(shape, &gates, &w, &bias, &h0);

        let (dims, gate_dims) = ([steps, rows, hidden], [steps, rows, 3 * hidden]);
        let active = StoredTensor::of(&[steps, rows], &shape.flags());
        let (gates, w) = (StoredTensor::of(&gate_dims, &gates), StoredTensor::of(&[hidden, 3 * hidden], &w));
        let bias = StoredTensor::of(&[2, 3 * hidden], &[vec![0.0; 3 * hidden], bias].concat());
        let (state, products) =
            (StoredTensor::of(&[rows, hidden], &h0), StoredTensor::zeros(DType::Float, &[rows, 3 * hidden]));
        let outs: Vec<StoredTensor> = (0..6).map(|_| StoredTensor::transposed(DType::Float, &dims, &[])).collect();
        let out = |at: usize| Some(outs[at].view_mut());
        gru(&Threads(threads), &Gru {
            recurrence: shape.recurrence(&active),
            gates: gates.view_mut(),
            products: products.view_mut(),
            weights: w.view(),
            bias: bias.view(),
            order: [0, 1, 2],
            state: state.view_mut(),
            y: out(0),
            states: out(1),
            saved: [out(2), out(3), out(4), out(5)],
        });
        assert_close(&outs[0].values(), &y, 1e-4);
        assert_close(&outs[1].values(), &hs, 1e-4);
        for at in 0..4 {
            assert_close(&outs[2 + at].values(), &saved[at], 1e-4);
        }
        assert_close(&state.values(), &h, 1e-4);
    }

    /// The gradients of the sum of y, weighted, and of the last states, against finite differences of the reference loops.
    #[test]
    fn lstm_gradients_match_finite_differences(mut shape in shapes()) {
        shape.hidden = shape.hidden.min(5);
        let Shape { steps, rows, hidden, .. } = shape;
        let gates = test_values(1, steps * rows * 4 * hidden);
        let (h0, c0, w) = (test_values(3, rows * hidden), test_values(4, rows * hidden), weights(shape, 4));
        let (dy, dh) = (test_values(5, steps * rows * hidden), test_values(6, 2 * rows * hidden));
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let loss = |gates: &[f64], h0: &[f64], c0: &[f64]| {
            let (y, _, _, h, c) = reference_lstm(shape, gates, &w, h0, c0);
            dot(&y, &dy) + dot(&[h, c].concat(), &dh)
        };
        let (_, hs, saved, _, _) = reference_lstm(shape, &gates, &w, &h0, &c0);
        let dims = [steps, rows, hidden];
        let store = |values: &[f64]| StoredTensor::transposed(DType::Float, &dims, values);
        let (saved_tensors, hs) = (saved.each_ref().map(|one| store(one)), store(&hs));
        let first = [&h0, &c0].map(|one| StoredTensor::transposed(DType::Float, &[rows, hidden], one));
        let active = StoredTensor::of(&[steps, rows], &shape.flags());
        let transposed: Vec<f64> =
            (0..w.len()).map(|at| w[(at % hidden) * 4 * hidden + at / hidden]).collect();
        let weights = StoredTensor::of(&[4 * hidden, hidden], &transposed);
        let state = StoredTensor::of(&[2, rows, hidden], &dh);
        let (gate_gradients, before) =
            (StoredTensor::of(&[steps, rows, 4 * hidden], &[]), StoredTensor::of(&dims, &[]));
        let y_gradient = store(&dy);
        lstm_gradients(&SingleThread, &LstmGradients {
            recurrence: shape.recurrence(&active),
            weights: weights.view(),
            order: [0, 2, 1, 3],
            saved: [0, 1, 2, 3].map(|at: usize| saved_tensors[at].view()),
            states: [hs.view(), saved_tensors[4].view()],
            tanh: None,
            first: first.each_ref().map(|one| Some(one.view())),
            y: Some(y_gradient.view()),
            state: state.view_mut(),
            gates: gate_gradients.view_mut(),
            before: before.view_mut(),
        });
        const EPSILON: f64 = 1e-5;
        let finite_difference = |at: usize, which: usize| {
            let loss_at = |by: f64| {
                let (mut gates, mut h0, mut c0) = (gates.clone(), h0.clone(), c0.clone());
                [&mut gates, &mut h0, &mut c0][which][at] += by;
                loss(&gates, &h0, &c0)
            };
            (loss_at(EPSILON) - loss_at(-EPSILON)) / (2.0 * EPSILON)
        };
        let finite_differences = |count: usize, which: usize| -> Vec<f64> {
            (0..count).map(|at| finite_difference(at, which)).collect()
        };
        assert_close(&gate_gradients.values(), &finite_differences(gates.len(), 0), 1e-3);
        let initial_states = [finite_differences(h0.len(), 1), finite_differences(c0.len(), 2)].concat();
        assert_close(&state.values(), &initial_states, 1e-3);
    }

    #[test]
    fn gru_gradients_match_finite_differences(mut shape in shapes()) {
        shape.hidden = shape.hidden.min(5);
        let Shape { steps, rows, hidden, .. } = shape;
        let gates = test_values(1, steps * rows * 3 * hidden);
        let (h0, w, bias) = (test_values(3, rows * hidden), weights(shape, 3), test_values(9, 3 * hidden));
        let (dy, dh) = (test_values(5, steps * rows * hidden), test_values(6, rows * hidden));
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let loss = |gates: &[f64], bias: &[f64], h0: &[f64]| {
            let (y, _, _, h, _) = reference_gru(shape, gates, &w, bias, h0);
            dot(&y, &dy) + dot(&h, &dh)
        };
        let (_, hs, saved, _, _) = reference_gru(shape, &gates, &w, &bias, &h0);
        let dims = [steps, rows, hidden];
        let store = |values: &[f64]| StoredTensor::transposed(DType::Float, &dims, values);
        let (saved_tensors, hs, y_gradient) = (saved.each_ref().map(|one| store(one)), store(&hs), store(&dy));
        let first = StoredTensor::transposed(DType::Float, &[rows, hidden], &h0);
        let active = StoredTensor::of(&[steps, rows], &shape.flags());
        let transposed: Vec<f64> =
            (0..w.len()).map(|at| w[(at % hidden) * 3 * hidden + at / hidden]).collect();
        let weights = StoredTensor::of(&[3 * hidden, hidden], &transposed);
        let state = StoredTensor::of(&[rows, hidden], &dh);
        let gate_dims = [steps, rows, 3 * hidden];
        let (gate_gradients, hidden_gate_gradients) = (StoredTensor::of(&gate_dims, &[]), StoredTensor::of(&gate_dims, &[]));
        let before = StoredTensor::of(&dims, &[]);
        gru_gradients(&SingleThread, &GruGradients {
            recurrence: shape.recurrence(&active),
            weights: weights.view(),
            order: [0, 1, 2],
            saved: [0, 1, 2, 3].map(|at: usize| saved_tensors[at].view()),
            states: hs.view(),
            first: Some(first.view()),
            y: Some(y_gradient.view()),
            state: state.view_mut(),
            gates: [gate_gradients.view_mut(), hidden_gate_gradients.view_mut()],
            before: before.view_mut(),
        });
        const EPSILON: f64 = 1e-5;
        let finite_difference = |at: usize, which: usize| {
            let loss_at = |by: f64| {
                let (mut gates, mut bias, mut h0) = (gates.clone(), bias.clone(), h0.clone());
                [&mut gates, &mut bias, &mut h0][which][at] += by;
                loss(&gates, &bias, &h0)
            };
            (loss_at(EPSILON) - loss_at(-EPSILON)) / (2.0 * EPSILON)
        };
        let finite_differences = |count: usize, which: usize| -> Vec<f64> {
            (0..count).map(|at| finite_difference(at, which)).collect()
        };
        assert_close(&gate_gradients.values(), &finite_differences(gates.len(), 0), 1e-3);
        let sums = StoredTensor::of(&[3 * hidden], &[]);
        let flat = hidden_gate_gradients.layout.reshaped(&[steps * rows, 3 * hidden]).unwrap();
        column_sums(&SingleThread, sums.view_mut(), hidden_gate_gradients.view().with_layout(flat).unwrap());
        assert_close(&sums.values(), &finite_differences(bias.len(), 1), 1e-3);
        assert_close(&state.values(), &finite_differences(h0.len(), 2), 1e-3);
    }
}

#[test]
fn sums_of_columns_spread_over_threads() {
    let values = test_values(1, 1000 * 700);
    let sums = StoredTensor::zeros(DType::Float, &[700]);
    column_sums(&Threads(2), sums.view_mut(), StoredTensor::of(&[1000, 700], &values).view());
    let want: Vec<f64> =
        (0..700).map(|at| (0..1000).map(|row| values[row * 700 + at]).sum()).collect();
    assert_close(&sums.values(), &want, 1e-4);
}

#[test]
fn gather_bias_adds_both_parts() {
    let out = StoredTensor::zeros(DType::Float, &[6]);
    let parts = [
        StoredTensor::of(&[6], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]),
        StoredTensor::of(&[6], &[10.0; 6]),
    ];
    gather_bias(out.view_mut(), &[Some(parts[0].view()), Some(parts[1].view())], (2..4, 0.5));
    assert_eq!(out.values(), [11.0, 12.0, 13.5, 14.5, 15.0, 16.0]);
    gather_bias(out.view_mut(), &[None, None], (0..0, 0.0));
    assert_eq!(out.values(), [0.0; 6]);
}

#[test]
fn active_rows_by_sizes_and_lengths() {
    let ints = |values: &[i64]| {
        let stored = StoredTensor::zeros(DType::Int64, &[values.len()]);
        for (cells, value) in stored.bytes.chunks_exact(8).zip(values) {
            cells.iter().zip(value.to_ne_bytes()).for_each(|(cell, byte)| cell.set(byte));
        }
        stored
    };
    let active = StoredTensor::zeros(DType::Float, &[3, 2]);
    assert_eq!(mark_by_sizes(active.view_mut(), ints(&[2, 2, 1]).view()), Ok(()));
    assert_eq!(active.values(), [1.0, 1.0, 1.0, 1.0, 1.0, 0.0]);
    for (sizes, wrong) in [
        ([3, 2, 1], (0, 3)),
        ([1, 1, 1], (0, 1)),
        ([2, 1, 2], (2, 2)),
        ([2, 1, 0], (2, 0)),
        ([2, -1, 1], (1, -1)),
        ([i64::MAX, 1, 1], (0, i64::MAX)),
    ] {
        assert_eq!(mark_by_sizes(active.view_mut(), ints(&sizes).view()), Err(wrong));
    }
    assert_eq!(mark_by_lengths(active.view_mut(), ints(&[0, 2]).view()), Ok(()));
    assert_eq!(active.values(), [0.0, 1.0, 0.0, 1.0, 0.0, 0.0]);
    assert_eq!(mark_by_lengths(active.view_mut(), ints(&[4, 2]).view()), Err((0, 4)));
    assert_eq!(mark_by_lengths(active.view_mut(), ints(&[1, -1]).view()), Err((1, -1)));
}
