//! Experts in order, chosen and summed, products of unknown sizes, and sampling, against plain loops.

use cairn_tensor::kernels::copy::copy;
use cairn_tensor::kernels::delta_rule::{self, Sequence, Steps};
use cairn_tensor::kernels::matmul::{largest_scratch, panels, product_within};
use cairn_tensor::kernels::moe::choice::{Choice, Chosen, Norm, Renorm, choose};
use cairn_tensor::kernels::moe::order::{Accepted, ExpertOrder, OrderFault, SLOT_BYTES};
use cairn_tensor::kernels::moe::rows::{RowSource, place};
use cairn_tensor::kernels::nucleus::{SCORE_BYTES, filter};
use cairn_tensor::parallel::{Parallel, SingleThread};
use cairn_tensor::{DType, Layout, Scalar, View, ViewMut};
use proptest::prelude::*;
use std::cell::Cell;

/// Four parts at once, on one thread, the last first.
struct ReverseOrder;

impl Parallel for ReverseOrder {
    fn width(&self) -> usize {
        4
    }

    fn run(&self, parts: usize, body: &(dyn Fn(usize) + Sync)) {
        (0..parts).rev().for_each(body);
    }
}

/// A tensor in memory that is aligned for every type.
struct Stored {
    memory: Vec<Cell<u64>>,
    layout: Layout,
}

impl Stored {
    fn zeros(dtype: DType, dims: &[usize]) -> Stored {
        let layout = Layout::contiguous(dtype, dims);
        Stored { memory: vec![Cell::new(0); layout.bytes().div_ceil(8) + 1], layout }
    }

    fn floats(dtype: DType, dims: &[usize], values: &[f64]) -> Stored {
        let stored = Stored::zeros(dtype, dims);
        let plain: Vec<Cell<u8>> =
            values.iter().flat_map(|x| x.to_ne_bytes()).map(Cell::new).collect();
        let from = View::over(&plain, Layout::contiguous(DType::Double, dims)).unwrap();
        copy(&SingleThread, stored.out(), from);
        stored
    }

    fn bytes(&self) -> &[Cell<u8>] {
        // SAFETY: eight cells of a byte in place of each cell of eight, for as long.
        unsafe { std::slice::from_raw_parts(self.memory.as_ptr().cast(), self.memory.len() * 8) }
    }

    fn view(&self) -> View<'_> {
        View::over(self.bytes(), self.layout).unwrap()
    }

    fn out(&self) -> ViewMut<'_> {
        ViewMut::over(self.bytes(), self.layout).unwrap()
    }

    fn values(&self) -> Vec<f64> {
        let plain = vec![Cell::new(0u8); self.layout.count() * 8];
        let layout = Layout::contiguous(DType::Double, self.layout.dims());
        copy(&SingleThread, ViewMut::over(&plain, layout).unwrap(), self.view());
        let bytes: Vec<u8> = plain.iter().map(Cell::get).collect();
        bytes.chunks_exact(8).map(|one| f64::from_ne_bytes(one.try_into().unwrap())).collect()
    }
}

/// Numbers between -1 and 1 that a seed decides.
fn number(seed: u32, at: usize) -> f64 {
    let mixed = (at as u32).wrapping_add(seed).wrapping_mul(2_654_435_761);
    f64::from((mixed ^ mixed >> 15).wrapping_mul(2_246_822_519) >> 12) / f64::from(1 << 19) - 1.0
}

fn numbers(seed: u32, count: usize) -> Vec<f64> {
    (0..count).map(|at| number(seed, at)).collect()
}

proptest! {
    #[test]
    fn slots_are_in_the_order_of_their_experts(
        tokens in 0usize..40,
        each in 1usize..5,
        experts in 1i64..5000,
        first in 0i64..3,
        seed in any::<u32>(),
    ) {
        let chosen: Vec<f64> = (0..tokens * each)
            .map(|at| ((number(seed, at) + 1.0) / 2.0 * experts as f64).floor())
            .collect();
        let view = Stored::floats(DType::Int32, &[tokens, each], &chosen);
        let scratch = Stored::zeros(DType::Uint8, &[tokens * each * SLOT_BYTES]);
        let active = first..experts.max(first);
        let order =
            ExpertOrder::sort(scratch.out(), view.view(), &Accepted::Active(active.clone())).unwrap();
        let is_active = |slot: &usize| active.contains(&(chosen[*slot] as i64));
        let mut want: Vec<usize> = (0..chosen.len()).filter(is_active).collect();
        want.sort_by_key(|slot| chosen[*slot] as i64);
        let have: Vec<usize> = (0..order.active()).map(|at| order.slot(at)).collect();
        prop_assert_eq!(&have, &want);
        let counts = Stored::zeros(DType::Int64, &[active.clone().count().min(50)]);
        order.count(counts.out(), first, false);
        for (at, count) in counts.values().iter().enumerate() {
            let expert = first + at as i64;
            let want = chosen.iter().filter(|one| **one as i64 == expert).count();
            prop_assert_eq!(*count as usize, want);
        }
        let strict = ExpertOrder::sort(scratch.out(), view.view(), &Accepted::Only(active.clone()));
        match (0..chosen.len()).find(|slot| !is_active(slot)) {
            Some(slot) => prop_assert_eq!(
                strict.err(), Some(OrderFault::Expert(slot, chosen[slot] as i64))
            ),
            None => prop_assert!(strict.is_ok()),
        }
    }

    #[test]
    fn rows_are_placed_where_they_are_named(
        rows in 1usize..30,
        columns in 0usize..40,
        transposed in any::<bool>(),
        seed in any::<u32>(),
    ) {
        let values = numbers(seed, rows * columns);
        let from = Stored::floats(DType::Float16, &[rows, columns], &values);
        let out = Stored::floats(DType::Float16, &[rows, columns], &vec![7.0; rows * columns]);
        let (mut to, mut layout) = (out.out(), out.layout);
        if transposed {
            layout = Layout::contiguous(DType::Float16, &[columns, rows]).transposed(0, 1);
            to = ViewMut::over(out.bytes(), layout).unwrap();
        }
        let source = |row: usize| match (number(seed ^ 1, row) * 8.0) as i64 {
            0 => RowSource::Zeros,
            1 => RowSource::Keep,
            other => RowSource::Row((other.unsigned_abs() as usize) % rows),
        };
        place(&ReverseOrder, to, from.view(), source);
        let packed = Stored::zeros(DType::Float16, &[rows, columns]);
        copy(&SingleThread, packed.out(), View::over(out.bytes(), layout).unwrap());
        let (have, plain) = (packed.values(), from.values());
        for row in 0..rows {
            for column in 0..columns {
                let want = match source(row) {
                    RowSource::Zeros => 0.0,
                    RowSource::Keep => 7.0,
                    RowSource::Row(one) => plain[one * columns + column],
                };
                prop_assert_eq!(have[row * columns + column], want);
            }
        }
    }

    #[test]
    fn the_best_experts_of_the_best_groups_are_chosen(
        tokens in 1usize..6,
        groups in 1usize..5,
        size in 2usize..6,
        counted in 1usize..6,
        seed in any::<u32>(),
    ) {
        let counted = counted.min(size);
        let (count, kept) = (groups * size, groups.div_ceil(2));
        let slots = 1 + seed as usize % (kept * size);
        let scores = numbers(seed, tokens * count);
        let bias = numbers(seed ^ 5, count);
        let [x, biases] = [(&[tokens, count][..], &scores), (&[count][..], &bias)]
            .map(|(dims, values)| Stored::floats(DType::Float, dims, values));
        let (weights, experts) =
            (Stored::zeros(DType::Float, &[tokens, slots]), Stored::zeros(DType::Int32, &[tokens, slots]));
        let norm = Stored::zeros(DType::Float, &[tokens, count]);
        let scratch = Stored::zeros(DType::Float, &[tokens, count]);
        let entries = Stored::zeros(DType::Uint8, &[tokens * count, 8]);
        let choice = Choice {
            norm: Norm::Sigmoid,
            groups,
            kept_groups: kept,
            counted,
            renorm: Renorm::Sum(1e-6),
            scale: 2.0,
        };
        let chosen = Chosen {
            scores: x.view(),
            bias: Some(biases.view()),
            finished: None,
            by_kind: None,
            weights: weights.out(),
            experts: experts.out(),
            norm: Some(norm.out()),
            scratch: scratch.out(),
            entries: entries.out(),
        };
        choose(&ReverseOrder, &choice, &chosen).unwrap();
        for token in 0..tokens {
            let every: Vec<f64> = (0..count)
                .map(|at| 1.0 / (1.0 + (-f64::from(scores[token * count + at] as f32)).exp()))
                .collect();
            let biased: Vec<f64> = (0..count).map(|at| every[at] + bias[at]).collect();
            let score = |group: usize| {
                let mut values = biased[group * size..(group + 1) * size].to_vec();
                values.sort_by(|a, b| b.total_cmp(a));
                values[..counted].iter().sum::<f64>()
            };
            let mut order: Vec<usize> = (0..groups).collect();
            order.sort_by(|a, b| score(*b).total_cmp(&score(*a)));
            let mut candidates: Vec<usize> =
                (0..count).filter(|at| order[..kept].contains(&(at / size))).collect();
            candidates.sort_by(|a, b| biased[*b].total_cmp(&biased[*a]));
            let sum: f64 = candidates[..slots].iter().map(|at| every[*at]).sum::<f64>() + 1e-6;
            for slot in 0..slots {
                let at = token * slots + slot;
                prop_assert_eq!(experts.values()[at] as usize, candidates[slot]);
                let want = every[candidates[slot]] / sum * 2.0;
                prop_assert!((weights.values()[at] - want).abs() < 1e-5);
            }
        }
    }

    #[test]
    fn a_product_fits_the_scratch_of_the_largest(
        m in 1usize..70,
        n in 1usize..70,
        k in 0usize..90,
        seed in any::<u32>(),
    ) {
        let dtype = DType::Float16;
        let count = largest_scratch(dtype, dtype, dtype, [m, n, k]);
        let scratch = Stored::zeros(DType::Float, &[count]);
        let rows = 1 + seed as usize % m;
        let (a, b) = (
            Stored::floats(dtype, &[rows, k], &numbers(seed, rows * k)),
            Stored::floats(dtype, &[k, n], &numbers(seed ^ 9, k * n)),
        );
        let out = Stored::floats(dtype, &[rows, n], &vec![9.0; rows * n]);
        if k > 0 {
            let needed = panels(out.view().layout(), a.view().layout(), b.view().layout());
            let needed = needed.map_or(0, |one| one.dims().iter().product());
            prop_assert!(needed <= count, "{needed} of {count}");
        }
        product_within(&ReverseOrder, out.out(), a.view(), b.view(), Scalar::from(0), Some(scratch.out()));
        let (left, right, have) = (a.values(), b.values(), out.values());
        for row in 0..rows {
            for column in 0..n {
                let want: f64 =
                    (0..k).map(|at| left[row * k + at] * right[at * n + column]).sum();
                prop_assert!((have[row * n + column] - want).abs() < 2e-2);
            }
        }
    }

    #[test]
    fn filters_leave_the_likely(
        count in 1usize..60,
        k in -1i64..70,
        p in 0u32..11,
        seed in any::<u32>(),
    ) {
        let scores: Vec<f64> = (0..count).map(|at| (number(seed, at) * 16.0).round() / 4.0).collect();
        let p = f64::from(p) / 10.0;
        let logits = Stored::floats(DType::Float, &[1, count], &scores);
        let (ps, ks) =
            (Stored::floats(DType::Float, &[1], &[p]), Stored::floats(DType::Int32, &[1], &[k as f64]));
        let out = Stored::zeros(DType::Float, &[1, count]);
        let scratch = Stored::zeros(DType::Uint8, &[count * SCORE_BYTES]);
        filter(&SingleThread, out.out(), logits.view(), Some(ps.view()), Some(ks.view()), scratch.out())
            .unwrap();
        let mut order: Vec<usize> = (0..count).collect();
        order.sort_by(|a, b| scores[*a].total_cmp(&scores[*b]));
        let kept = usize::try_from(k).ok().filter(|k| (1..count).contains(k)).unwrap_or(count);
        let threshold = scores[order[count - kept]];
        let most = scores[order[count - 1]];
        let left: Vec<usize> = order.into_iter().filter(|at| scores[*at] >= threshold).collect();
        let sum: f64 = left.iter().map(|at| (scores[*at] - most).exp()).sum();
        let mut before = 0.0;
        let have = out.values();
        for (place, at) in left.iter().enumerate() {
            before += (scores[*at] - most).exp() / sum;
            let limit = 1.0 - p;
            // Sums close to the limit are decided by rounding.
            if (before - limit).abs() < 1e-5 && place + 1 < left.len() {
                continue;
            }
            let want = if before > limit || place + 1 == left.len() { scores[*at] } else { f64::NEG_INFINITY };
            prop_assert_eq!(have[*at], want);
        }
        for at in (0..count).filter(|at| scores[*at] < threshold) {
            prop_assert_eq!(have[at], f64::NEG_INFINITY);
        }
    }

    #[test]
    fn states_learn_by_the_delta_rule(
        lengths in prop::collection::vec(0usize..4, 1..3),
        key_heads in 1usize..3,
        rows in 1usize..20,
        length in 1usize..12,
        gated in any::<bool>(),
        seed in any::<u32>(),
    ) {
        let (steps, heads, count) = (lengths.iter().sum::<usize>(), 2 * key_heads, lengths.len());
        let make = |salt: u32, dims: &[usize]| {
            Stored::floats(DType::Float, dims, &numbers(seed ^ salt, dims.iter().product()))
        };
        let (query, key) = (make(1, &[steps, key_heads, length]), make(2, &[steps, key_heads, length]));
        let (value, beta) = (make(3, &[steps, heads, rows]), make(4, &[steps, heads]));
        let (gate, key_gate) = (make(5, &[steps, heads]), make(6, &[steps, heads, length]));
        let states = make(7, &[count, heads, rows, length]);
        let out = Stored::zeros(DType::Float, &[steps, heads, rows]);
        let tensors = Steps {
            query: query.view(),
            key: key.view(),
            value: value.view(),
            beta: beta.view(),
            gate: gated.then(|| gate.view()),
            key_gate: gated.then(|| key_gate.view()),
            out: out.out(),
            scale: 0.5,
        };
        let mut state = states.values();
        let starts: Vec<usize> = (0..=count).map(|at| lengths[..at].iter().sum()).collect();
        let sequence = |at: usize| {
            (at < count).then(|| Sequence { start: starts[at], end: starts[at + 1], first_state: at })
        };
        delta_rule::run(&ReverseOrder, &tensors, states.view(), states.out(), sequence, |at, _| Some(at));
        let (q, k, v, b) = (query.values(), key.values(), value.values(), beta.values());
        let (g, gk, have) = (gate.values(), key_gate.values(), out.values());
        for at in 0..count {
            for step in starts[at]..starts[at + 1] {
                for head in 0..heads {
                    let at_key = |i: usize| (step * key_heads + head / 2) * length + i;
                    for row in 0..rows {
                        let line = ((at * heads + head) * rows + row) * length;
                        for i in 0..length {
                            if gated {
                                let gates = g[step * heads + head] + gk[(step * heads + head) * length + i];
                                state[line + i] *= gates.exp();
                            }
                        }
                        let held: f64 = (0..length).map(|i| state[line + i] * k[at_key(i)]).sum();
                        let change = (v[(step * heads + head) * rows + row] - held) * b[step * heads + head];
                        (0..length).for_each(|i| state[line + i] += change * k[at_key(i)]);
                        let want: f64 = (0..length).map(|i| state[line + i] * q[at_key(i)] * 0.5).sum();
                        let one = have[(step * heads + head) * rows + row];
                        prop_assert!((one - want).abs() < 1e-3 * (1.0 + want.abs()), "{one} {want}");
                    }
                }
            }
        }
        for (one, want) in states.values().iter().zip(&state) {
            prop_assert!((one - want).abs() < 1e-3 * (1.0 + want.abs()));
        }
    }
}
