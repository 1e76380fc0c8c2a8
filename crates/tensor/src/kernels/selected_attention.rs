//! Attention of queries to keys that are named one by one, and its gradients; and how much each key matters to a query.
//!
//! Queries have the sizes queries, heads, features; keys and values rows, key heads, features. Several heads of queries share a
//! head of keys.

use super::access::{PositionAccess, PositionAccessMut};
use super::matmul::dot_strips;
use super::strip::vectorised;
use crate::parallel::{Parallel, split};
use crate::{View, ViewMut};

/// Heads that are computed together.
const HEADS: usize = 8;

/// The most features of a query, rotary ones included, and of a value.
pub const MOST_FEATURES: usize = 640;

/// The tensors of selected attention. Rotary features follow the others.
#[derive(Clone, Copy)]
pub struct Selected<'a> {
    /// The queries.
    pub query: View<'a>,
    /// The keys.
    pub key: View<'a>,
    /// The values.
    pub value: View<'a>,
    /// More features of the queries, and of the keys.
    pub rotary: Option<(View<'a>, View<'a>)>,
    /// What products are multiplied by.
    pub scale: f32,
}

/// The features of one query or key, with the rotary ones.
pub(super) struct Features<'a> {
    plain: PositionAccess<'a>,
    rotary: Option<PositionAccess<'a>>,
    count: usize,
    pub(super) all: usize,
}

impl<'a> Features<'a> {
    pub(super) fn new(plain: View<'a>, rotary: Option<View<'a>>) -> Features<'a> {
        let count = plain.dims()[2];
        let all = count + rotary.map_or(0, |one| one.dims()[2]);
        Features {
            plain: PositionAccess::new(plain),
            rotary: rotary.map(PositionAccess::new),
            count,
            all,
        }
    }

    pub(super) fn read(&self, row: usize, head: usize, into: &mut [f32]) {
        self.plain.line(&[row, head, 0], &mut into[..self.count]);
        if let Some(rotary) = &self.rotary {
            rotary.line(&[row, head, 0], &mut into[self.count..self.all]);
        }
    }
}

/// Writes the attention of each query to `out`. `rows(query, key head, number)` names the row of each selected key, from number
/// 0 on until there is none; `Some(None)` is one that is masked. `put_stats` gets the greatest product and the sum of
/// exponentials of a query's head. A query without keys gets zeros.
pub fn attend(
    parallel: &dyn Parallel,
    out: ViewMut<'_>,
    tensors: &Selected<'_>,
    rows: impl Fn(usize, usize, usize) -> Option<Option<usize>> + Sync,
    put_stats: impl Fn(usize, usize, f32, f32) + Sync,
) {
    let (queries, heads) = (tensors.query.dims()[0], tensors.query.dims()[1]);
    let (key_heads, width) = (tensors.key.dims()[1], tensors.value.dims()[2]);
    let group = heads / key_heads;
    let query = Features::new(tensors.query, tensors.rotary.map(|(query, _)| query));
    let key = Features::new(tensors.key, tensors.rotary.map(|(_, key)| key));
    assert!(query.all == key.all && query.all <= MOST_FEATURES && width <= MOST_FEATURES);
    let value = PositionAccess::new(tensors.value);
    let to = PositionAccessMut::new(out);
    let tiles = group.div_ceil(HEADS);
    split(parallel, queries * key_heads * tiles, 1, 1, |range| {
        let mut asked = [[0f32; MOST_FEATURES]; HEADS];
        let mut sums = [[0f32; MOST_FEATURES]; HEADS];
        let (mut keys, mut values) = ([0f32; MOST_FEATURES], [0f32; MOST_FEATURES]);
        for at in range {
            let (number, tile) = (at / tiles, at % tiles);
            let (at, key_head) = (number / key_heads, number % key_heads);
            let first = key_head * group + tile * HEADS;
            let count = HEADS.min(group - tile * HEADS);
            let (mut greatest, mut totals) = ([f32::NEG_INFINITY; HEADS], [0f32; HEADS]);
            for head in 0..count {
                query.read(at, first + head, &mut asked[head]);
                sums[head][..width].fill(0.0);
            }
            let mut number = 0;
            while let Some(row) = rows(at, key_head, number) {
                number += 1;
                let Some(row) = row else { continue };
                key.read(row, key_head, &mut keys);
                value.line(&[row, key_head, 0], &mut values[..width]);
                vectorised(|| {
                    for head in 0..count {
                        let (asked, keys) = (&asked[head][..key.all], &keys[..key.all]);
                        let score = dot_strips(asked, keys) * tensors.scale;
                        let sums = &mut sums[head][..width];
                        if score > greatest[head] {
                            let factor = (greatest[head] - score).exp();
                            sums.iter_mut().for_each(|sum| *sum *= factor);
                            totals[head] *= factor;
                            greatest[head] = score;
                        }
                        let weight = (score - greatest[head]).exp();
                        totals[head] += weight;
                        sums.iter_mut().zip(&values).for_each(|(sum, x)| *sum += weight * x);
                    }
                });
            }
            for head in 0..count {
                let total = if totals[head] > 0.0 { totals[head] } else { 1.0 };
                sums[head][..width].iter_mut().for_each(|sum| *sum /= total);
                to.put_line(&[at, first + head, 0], &sums[head][..width]);
                put_stats(at, first + head, greatest[head], totals[head]);
            }
        }
    });
}

/// What the gradients are computed from besides the tensors.
#[derive(Clone, Copy)]
pub struct SelectedGradients<'a> {
    /// The results.
    pub out: View<'a>,
    /// Their gradient.
    pub grad: View<'a>,
    /// The gradient of queries with rotary features, `f32`.
    pub query: ViewMut<'a>,
    /// The gradient of keys with rotary features, `f32`, zeros before.
    pub key: ViewMut<'a>,
    /// The gradient of values, `f32`, zeros before.
    pub value: ViewMut<'a>,
}

/// The gradients of [`attend`]. `stats(query, head)` are the greatest product and the sum of exponentials. Threads take heads of
/// keys.
pub fn gradients(
    parallel: &dyn Parallel,
    tensors: &Selected<'_>,
    given: &SelectedGradients<'_>,
    stats: impl Fn(usize, usize) -> (f32, f32) + Sync,
    rows: impl Fn(usize, usize, usize) -> Option<Option<usize>> + Sync,
) {
    let (queries, heads) = (tensors.query.dims()[0], tensors.query.dims()[1]);
    let (key_heads, width) = (tensors.key.dims()[1], tensors.value.dims()[2]);
    let group = heads / key_heads;
    let query = Features::new(tensors.query, tensors.rotary.map(|(query, _)| query));
    let key = Features::new(tensors.key, tensors.rotary.map(|(_, key)| key));
    let (value, features) = (PositionAccess::new(tensors.value), query.all);
    assert!(features == key.all && features <= MOST_FEATURES && width <= MOST_FEATURES);
    let (out, grad) = (PositionAccess::new(given.out), PositionAccess::new(given.grad));
    let [dq, dk, dv] = [given.query, given.key, given.value].map(PositionAccessMut::new);
    let (old_key, old_value) = (dk.positions(), dv.positions());
    split(parallel, key_heads, 1, 1, |range| {
        let mut lines = [[0f32; MOST_FEATURES]; 9];
        let [asked, keys, values, results, grads, query_grad, key_grad, value_grad, _] = &mut lines;
        for key_head in range {
            for at in 0..queries {
                for head in key_head * group..(key_head + 1) * group {
                    query.read(at, head, asked);
                    out.line(&[at, head, 0], &mut results[..width]);
                    grad.line(&[at, head, 0], &mut grads[..width]);
                    query_grad[..features].fill(0.0);
                    let mean = dot_strips(&results[..width], &grads[..width]);
                    let (most, sum) = stats(at, head);
                    let mut number = 0;
                    while let Some(row) = rows(at, key_head, number) {
                        number += 1;
                        let Some(row) = row else { continue };
                        key.read(row, key_head, keys);
                        value.line(&[row, key_head, 0], &mut values[..width]);
                        let product = dot_strips(&asked[..features], &keys[..features]);
                        let weight = (product * tensors.scale - most).exp() / sum;
                        let change = dot_strips(&grads[..width], &values[..width]) - mean;
                        let factor = weight * change * tensors.scale;
                        old_key.line(&[row, key_head, 0], &mut key_grad[..features]);
                        old_value.line(&[row, key_head, 0], &mut value_grad[..width]);
                        for i in 0..features {
                            query_grad[i] += factor * keys[i];
                            key_grad[i] += factor * asked[i];
                        }
                        for i in 0..width {
                            value_grad[i] += weight * grads[i];
                        }
                        dk.put_line(&[row, key_head, 0], &key_grad[..features]);
                        dv.put_line(&[row, key_head, 0], &value_grad[..width]);
                    }
                    dq.put_line(&[at, head, 0], &query_grad[..features]);
                }
            }
        }
    });
}

/// Fills `scores` (queries, key heads, any number of keys) with the weighted sums over the heads of a group of the products that
/// are positive: `rows(query, key head, number)` is as in [`attend`], from the first key to the last. Returns nothing; keys
/// that are masked get negative infinity.
pub fn importance(
    parallel: &dyn Parallel,
    scores: ViewMut<'_>,
    query: View<'_>,
    key: View<'_>,
    weights: View<'_>,
    rows: impl Fn(usize, usize, usize) -> Option<Option<usize>> + Sync,
) {
    let (queries, heads, features) = (query.dims()[0], query.dims()[1], query.dims()[2]);
    let key_heads = key.dims()[1];
    let group = heads / key_heads;
    assert!(features <= MOST_FEATURES);
    let (query, key, weights) =
        (PositionAccess::new(query), PositionAccess::new(key), PositionAccess::new(weights));
    let to = PositionAccessMut::new(scores);
    let count = scores.dims()[2];
    split(parallel, queries * key_heads, 1, 1, |range| {
        let mut asked = [[0f32; MOST_FEATURES]; HEADS];
        let mut keys = [0f32; MOST_FEATURES];
        for at in range {
            let (at, key_head) = (at / key_heads, at % key_heads);
            let mut first = 0;
            while first < group {
                let together = HEADS.min(group - first);
                let mut factors = [0f32; HEADS];
                for head in 0..together {
                    let number = key_head * group + first + head;
                    query.line(&[at, number, 0], &mut asked[head][..features]);
                    factors[head] = weights.get(&[at, number]);
                }
                for number in 0..count {
                    let row = rows(at, key_head, number).flatten();
                    let position = [at, key_head, number];
                    let Some(row) = row else {
                        to.set(&position, f32::NEG_INFINITY);
                        continue;
                    };
                    key.line(&[row, key_head, 0], &mut keys[..features]);
                    let before: f32 = if first == 0 { 0.0 } else { to.positions().get(&position) };
                    let sum = vectorised(|| {
                        (0..together).fold(before, |sum, head| {
                            let product = dot_strips(&asked[head][..features], &keys[..features]);
                            sum + factors[head] * product.max(0.0)
                        })
                    });
                    to.set(&position, sum);
                }
                first += together;
            }
        }
    });
}
