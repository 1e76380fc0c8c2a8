//! Gradients of how much keys matter to queries ([`super::selected_attention::importance`]), and of how far that is from what
//! attention gives the keys.
//!
//! Queries have the sizes queries, heads, features; keys rows, key heads, features; weights queries, heads.

use super::access::{PositionAccess, PositionAccessMut};
use super::matmul::dot_strips;
use super::selected_attention::{Features, MOST_FEATURES, Selected};
use super::strip::vectorised;
use crate::parallel::{Parallel, split};
use crate::{View, ViewMut};

/// What says how much keys matter.
#[derive(Clone, Copy)]
pub struct Index<'a> {
    /// The queries.
    pub query: View<'a>,
    /// The keys.
    pub key: View<'a>,
    /// The weight of each head of a query.
    pub weights: View<'a>,
}

/// Where gradients go.
#[derive(Clone, Copy)]
pub struct IndexGradients<'a> {
    /// Of the queries.
    pub query: ViewMut<'a>,
    /// Of the keys, `f32`, zeros before.
    pub key: ViewMut<'a>,
    /// Of the weights.
    pub weights: ViewMut<'a>,
}

/// Adds the gradients of the keys that queries name, and writes those of the queries from `first` on, as many as `changes` has
/// (queries, key heads, numbers): the gradient of how much the key `rows(query, key head, number)` matters. Threads take heads
/// of keys.
pub fn index_gradients(
    parallel: &dyn Parallel,
    index: &Index<'_>,
    into: &IndexGradients<'_>,
    (first, changes): (usize, View<'_>),
    rows: impl Fn(usize, usize, usize) -> Option<Option<usize>> + Sync,
) {
    let (queries, numbers) = (changes.dims()[0], changes.dims()[2]);
    let (heads, features) = (index.query.dims()[1], index.query.dims()[2]);
    let key_heads = index.key.dims()[1];
    let group = heads / key_heads;
    assert!(features <= MOST_FEATURES);
    let [query, key, weights] = [index.query, index.key, index.weights].map(PositionAccess::new);
    let changes = PositionAccess::new(changes);
    let [to_query, to_key, to_weights] =
        [into.query, into.key, into.weights].map(PositionAccessMut::new);
    let old = to_key.positions();
    split(parallel, key_heads, 1, 1, |range| {
        let [mut asked, mut keys, mut sums, mut added] = [[0f32; MOST_FEATURES]; 4];
        for key_head in range {
            for at in first..first + queries {
                for head in key_head * group..(key_head + 1) * group {
                    query.line(&[at, head, 0], &mut asked[..features]);
                    let weight: f32 = weights.get(&[at, head]);
                    sums[..features].fill(0.0);
                    let mut total = 0f32;
                    for number in 0..numbers {
                        let Some(row) = rows(at, key_head, number) else { break };
                        let change: f32 = changes.get(&[at - first, key_head, number]);
                        let Some(row) = row.filter(|_| change != 0.0) else { continue };
                        key.line(&[row, key_head, 0], &mut keys[..features]);
                        let product = dot_strips(&asked[..features], &keys[..features]);
                        if product <= 0.0 {
                            continue;
                        }
                        total += change * product;
                        let factor = change * weight;
                        old.line(&[row, key_head, 0], &mut added[..features]);
                        vectorised(|| {
                            for i in 0..features {
                                sums[i] += factor * keys[i];
                                added[i] += factor * asked[i];
                            }
                        });
                        to_key.put_line(&[row, key_head, 0], &added[..features]);
                    }
                    to_query.put_line(&[at, head, 0], &sums[..features]);
                    to_weights.set(&[at, head], total);
                }
            }
        }
    });
}

/// The difference between how much keys matter and what attention gives them, over all its heads, for the queries from `first` on:
/// `scores` (queries, 1, numbers) has how much the keys matter, and becomes the gradient of the divergence; `shares` (the same
/// sizes) is overwritten; `losses` gets a number for each query. `stats(query, head)` are the greatest product and the sum of
/// exponentials of the attention, `index_stats(query)` those of the scores, where they are known.
pub fn divergence(
    parallel: &dyn Parallel,
    attention: &Selected<'_>,
    [scores, shares, losses]: [ViewMut<'_>; 3],
    first: usize,
    stats: impl Fn(usize, usize) -> (f32, f32) + Sync,
    index_stats: impl Fn(usize) -> Option<(f32, f32)> + Sync,
    rows: impl Fn(usize, usize, usize) -> Option<Option<usize>> + Sync,
) {
    let (queries, numbers) = (scores.dims()[0], scores.dims()[2]);
    let heads = attention.query.dims()[1];
    let group = heads / attention.key.dims()[1];
    let query = Features::new(attention.query, attention.rotary.map(|(query, _)| query));
    let key = Features::new(attention.key, attention.rotary.map(|(_, key)| key));
    assert!(query.all == key.all && query.all <= MOST_FEATURES);
    let [scores, shares, losses] = [scores, shares, losses].map(PositionAccessMut::new);
    split(parallel, queries, 1, 1, |range| {
        let [mut asked, mut keys] = [[0f32; MOST_FEATURES]; 2];
        for at in range {
            let is_there = |number: usize| rows(first + at, 0, number);
            let count = (0..numbers).take_while(|number| is_there(*number).is_some()).count();
            let row = |number: usize| is_there(number).flatten();
            (0..numbers).for_each(|number| shares.set(&[at, 0, number], 0f32));
            let mut total = 0f64;
            for head in 0..heads {
                query.read(first + at, head, &mut asked);
                let (most, sum) = stats(first + at, head);
                for number in 0..count {
                    let Some(row) = row(number) else { continue };
                    key.read(row, head / group, &mut keys);
                    let product = dot_strips(&asked[..key.all], &keys[..key.all]);
                    let share = (product * attention.scale - most).exp() / sum;
                    let position = [at, 0, number];
                    shares.set(&position, shares.positions().get::<f32>(&position) + share);
                    total += f64::from(share);
                }
            }
            let score = |number: usize| scores.positions().get::<f32>(&[at, 0, number]);
            let (most, sum) = index_stats(first + at).unwrap_or_else(|| {
                let there = || (0..count).filter(|number| row(*number).is_some()).map(score);
                let most = there().fold(f32::NEG_INFINITY, f32::max);
                (most, there().map(|one| (one - most).exp()).sum())
            });
            let mut loss = 0f64;
            for number in 0..numbers {
                let position = [at, 0, number];
                if number >= count || row(number).is_none() {
                    scores.set(&position, 0f32);
                    continue;
                }
                let target = (f64::from(shares.positions().get::<f32>(&position)) / total) as f32;
                let distance = score(number) - most;
                let found = distance.exp() / sum;
                if target > 0.0 {
                    loss += f64::from(target * (target.ln() - distance + sum.ln()));
                }
                scores.set(&position, found - target);
            }
            losses.set(&[at], loss as f32);
        }
    });
}
