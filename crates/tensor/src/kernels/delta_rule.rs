//! The gated delta rule: a state of a matrix for each head, which forgets by gates and learns pairs of a key and a value.
//!
//! A step first multiplies the state by its gates, then adds to what it holds for the key a part of what the value differs from
//! it, and answers with what it holds for the query. The rows of a state do not depend on each other: threads take rows, a
//! few at a time, and go through all steps with them.

use super::access::{PositionAccess, PositionAccessMut};
use super::strip::vectorised;
use crate::parallel::{Parallel, split};
use crate::{View, ViewMut};

/// Rows of a state that are computed together.
const ROWS: usize = 8;

/// The longest key.
pub const LONGEST_KEY: usize = 512;

/// Multiply-adds that are worth another thread.
const LEAST: usize = 1 << 16;

/// The tensors of a run. Sizes: `query` and `key` steps, key heads, key; `value` and `out` steps, heads, value; `beta` and
/// `gate` steps, heads; `key_gate` steps, heads, key; states any number, heads, value, key.
#[derive(Clone, Copy)]
pub struct Steps<'a> {
    /// What is asked for.
    pub query: View<'a>,
    /// What is learnt.
    pub key: View<'a>,
    /// What it is learnt for.
    pub value: View<'a>,
    /// How much of it.
    pub beta: View<'a>,
    /// The logarithm of what the state is multiplied by.
    pub gate: Option<View<'a>>,
    /// The same for each element of the key.
    pub key_gate: Option<View<'a>>,
    /// The answers.
    pub out: ViewMut<'a>,
    /// What queries are multiplied by.
    pub scale: f32,
}

/// A sequence of steps: which it has, and the state that it begins with.
#[derive(Clone, Copy, Debug)]
pub struct Sequence {
    /// The first step.
    pub start: usize,
    /// The step after the last.
    pub end: usize,
    /// The number of the state it begins with.
    pub first_state: usize,
}

/// Runs sequences one after the other. `state_after` says where the state after a step (sequence, step) is stored, if it is;
/// states may be stored where sequences begin.
pub fn run(
    parallel: &dyn Parallel,
    steps: &Steps<'_>,
    first_states: View<'_>,
    states: ViewMut<'_>,
    sequences: impl Fn(usize) -> Option<Sequence> + Sync,
    state_after: impl Fn(usize, usize) -> Option<usize> + Sync,
) {
    let (heads, rows) = (steps.value.dims()[1], steps.value.dims()[2]);
    let (key_heads, length) = (steps.key.dims()[1], steps.key.dims()[2]);
    assert!(length <= LONGEST_KEY && heads.is_multiple_of(key_heads));
    let blocks = rows.div_ceil(ROWS);
    let (query, key) = (PositionAccess::new(steps.query), PositionAccess::new(steps.key));
    let (value, beta) = (PositionAccess::new(steps.value), PositionAccess::new(steps.beta));
    let (gate, key_gate) =
        (steps.gate.map(PositionAccess::new), steps.key_gate.map(PositionAccess::new));
    let (out, initial) = (PositionAccessMut::new(steps.out), PositionAccess::new(first_states));
    let states = PositionAccessMut::new(states);
    let work = ROWS * length * steps.value.dims()[0].max(1);
    split(parallel, heads * blocks, 1, LEAST / work.max(1) + 1, |range| {
        let mut state = [[0f32; LONGEST_KEY]; ROWS];
        let (mut keys, mut queries, mut gates) =
            ([0f32; LONGEST_KEY], [0f32; LONGEST_KEY], [0f32; LONGEST_KEY]);
        for at in range {
            let (head, first) = (at / blocks, at % blocks * ROWS);
            let count = ROWS.min(rows - first);
            let key_head = head / (heads / key_heads);
            let mut number = 0;
            while let Some(sequence) = sequences(number) {
                for (row, line) in state[..count].iter_mut().enumerate() {
                    let position = [sequence.first_state, head, first + row, 0];
                    initial.line(&position, &mut line[..length]);
                }
                for step in sequence.start..sequence.end {
                    let (keys, queries) = (&mut keys[..length], &mut queries[..length]);
                    key.line(&[step, key_head, 0], keys);
                    query.line(&[step, key_head, 0], queries);
                    let decay = gate.map_or(1.0, |gate| gate.get::<f32>(&[step, head]).exp());
                    let gates = &mut gates[..length];
                    match &key_gate {
                        Some(one) => {
                            one.line(&[step, head, 0], gates);
                            gates.iter_mut().for_each(|x| *x = x.exp() * decay);
                        }
                        None => gates.fill(decay),
                    }
                    let beta: f32 = beta.get(&[step, head]);
                    for (row, line) in state[..count].iter_mut().enumerate() {
                        let wanted: f32 = value.get(&[step, head, first + row]);
                        let line = &mut line[..length];
                        let answer = vectorised(|| learn(line, keys, queries, gates, wanted, beta));
                        out.set(&[step, head, first + row], answer * steps.scale);
                    }
                    if let Some(to) = state_after(number, step) {
                        for (row, line) in state[..count].iter().enumerate() {
                            states.put_line(&[to, head, first + row, 0], &line[..length]);
                        }
                    }
                }
                number += 1;
            }
        }
    });
}

/// One step of one row of a state: what it answers.
#[inline(always)]
fn learn(
    line: &mut [f32],
    keys: &[f32],
    queries: &[f32],
    gates: &[f32],
    wanted: f32,
    beta: f32,
) -> f32 {
    line.iter_mut().zip(gates).for_each(|(x, gate)| *x *= gate);
    let held = super::matmul::dot_strips(line, keys);
    let change = (wanted - held) * beta;
    line.iter_mut().zip(keys).for_each(|(x, key)| *x += change * key);
    super::matmul::dot_strips(line, queries)
}
