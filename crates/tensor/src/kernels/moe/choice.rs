//! Which experts a token is given to, and with which weights.

use crate::kernels::access::{PositionAccess, PositionAccessMut};
use crate::kernels::order::{Entry, Narrow, Ordered, Overwritten, entries, sort_entries};
use crate::parallel::{Parallel, split};
use crate::{View, ViewMut};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// The most groups that experts are divided into.
pub const MOST_GROUPS: usize = 2048;

/// A thread takes at least this many scores.
const LEAST: usize = 1 << 13;

/// How scores become weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Norm {
    /// They stay as they are.
    None,
    /// Softmax over all experts.
    Softmax,
    /// The logistic function of each.
    Sigmoid,
    /// The square root of the softplus of each.
    RootSoftplus,
}

/// What is done with the weights of the chosen experts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Renorm {
    /// Nothing.
    None,
    /// They are divided by their sum plus this number.
    Sum(f32),
    /// Their softmax.
    Softmax,
}

/// A rule by which experts are chosen.
#[derive(Clone, Copy, Debug)]
pub struct Choice {
    /// How scores become weights.
    pub norm: Norm,
    /// In how many groups experts are divided; 1 for none.
    pub groups: usize,
    /// From how many of the groups experts are chosen.
    pub kept_groups: usize,
    /// A group counts as much as so many of its greatest weights together; at least 1, and no more than a group has.
    pub counted: usize,
    /// What is done with the weights of the chosen.
    pub renorm: Renorm,
    /// What they are multiplied by at last.
    pub scale: f32,
}

/// The tensors of a choice: `scores`, `norm` and scratch have the sizes tokens and experts, `weights` and `experts` tokens and
/// slots.
#[derive(Clone, Copy)]
pub struct Chosen<'a> {
    /// What experts are chosen by.
    pub scores: View<'a>,
    /// What is added to the weights of all experts for the choice, and only for it.
    pub bias: Option<View<'a>>,
    /// Tokens that are given to no expert: instead of their experts, the number of experts is written.
    pub finished: Option<View<'a>>,
    /// Experts by the kind of a token rather than by scores: the kind of each, and a row of experts for each kind. The caller
    /// has checked both.
    pub by_kind: Option<(View<'a>, View<'a>)>,
    /// The weights of the chosen, the greatest first.
    pub weights: ViewMut<'a>,
    /// Their numbers.
    pub experts: ViewMut<'a>,
    /// The weights of all.
    pub norm: Option<ViewMut<'a>>,
    /// `f32`.
    pub scratch: ViewMut<'a>,
    /// 8 bytes for each score.
    pub entries: ViewMut<'a>,
}

/// The weights of a token's scores.
fn normalise(norm: Norm, scores: &mut [f32]) {
    match norm {
        Norm::None => {}
        Norm::Softmax => softmax(scores),
        Norm::Sigmoid => scores.iter_mut().for_each(|x| *x = 1.0 / (1.0 + (-*x).exp())),
        Norm::RootSoftplus => scores.iter_mut().for_each(|x| {
            let softplus = x.max(0.0) + (-x.abs()).exp().ln_1p();
            *x = softplus.sqrt();
        }),
    }
}

/// The softmax of a few numbers.
pub(crate) fn softmax(values: &mut [f32]) {
    let greatest = values.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    values.iter_mut().for_each(|x| *x = (*x - greatest).exp());
    let sum = values.iter().map(|x| f64::from(*x)).sum::<f64>() as f32;
    values.iter_mut().for_each(|x| *x /= sum);
}

/// The sum of so many of the greatest weights of a group. `entries` has one for each weight.
fn greatest_sum(
    values: &[f32],
    counted: usize,
    entries: &mut [Narrow],
) -> Result<f32, Overwritten> {
    let (mut first, mut second) = (f32::NEG_INFINITY, f32::NEG_INFINITY);
    if counted > 2 {
        for (at, (entry, value)) in entries.iter_mut().zip(values).enumerate() {
            *entry = Narrow::new(!value.key() & u64::from(u32::MAX), at);
        }
        let last = values.len() - 1;
        return sort_entries(|| {
            entries.select_nth_unstable(counted - 1);
            entries[..counted].sort_unstable();
            entries[..counted].iter().map(|entry| values[entry.index().min(last)]).sum()
        });
    }
    for value in values {
        if *value > first {
            (first, second) = (*value, first);
        } else if *value > second {
            second = *value;
        }
    }
    Ok(if counted == 2 { first + second } else { first })
}

/// Puts entries of the experts that may be chosen, the greatest first in their order, and returns how many.
fn fill(choice: &Choice, values: &[f32], entries: &mut [Narrow]) -> Result<usize, Overwritten> {
    let entry = |at: usize| Narrow::new(!values[at].key() & u64::from(u32::MAX), at);
    if choice.groups <= 1 {
        (0..values.len()).for_each(|at| entries[at] = entry(at));
        return Ok(values.len());
    }
    let size = values.len() / choice.groups;
    let mut scores = [(0u64, 0usize); MOST_GROUPS];
    let scores = &mut scores[..choice.groups];
    for (group, score) in scores.iter_mut().enumerate() {
        let value = greatest_sum(
            &values[group * size..(group + 1) * size],
            choice.counted,
            &mut entries[..size],
        )?;
        *score = (!value.key() & u64::from(u32::MAX), group);
    }
    scores.sort_unstable();
    let mut count = 0;
    for (_, group) in &scores[..choice.kept_groups] {
        for at in group * size..(group + 1) * size {
            entries[count] = entry(at);
            count += 1;
        }
    }
    Ok(count)
}

/// Chooses experts for every token. Equal weights are chosen from the least number on; NaN counts as the greatest. Fails with a
/// sentence where the workspace cannot be used.
pub fn choose(parallel: &dyn Parallel, choice: &Choice, chosen: &Chosen<'_>) -> Result<(), String> {
    let (tokens, count) = (chosen.scores.dims()[0], chosen.scores.dims()[1]);
    let slots = chosen.weights.dims()[1];
    let scores = PositionAccess::new(chosen.scores);
    let bias = chosen.bias.map(PositionAccess::new);
    let finished = chosen.finished.map(PositionAccess::new);
    let norm = chosen.norm.map(PositionAccessMut::new);
    let by_kind = chosen
        .by_kind
        .map(|(kinds, table)| (PositionAccess::new(kinds), PositionAccess::new(table)));
    let (weights, experts) =
        (PositionAccessMut::new(chosen.weights), PositionAccessMut::new(chosen.experts));
    let address = chosen.scratch.address();
    if tokens > 0 && !address.is_multiple_of(align_of::<f32>()) {
        return Err(format!("the workspace at {address:#x} is not aligned"));
    }
    let overwritten = AtomicBool::new(false);
    split(parallel, tokens, 1, LEAST / count.max(1) + 1, |range| {
        for token in range {
            // SAFETY: every token has a row of the scratch of its own, which is aligned.
            let values = unsafe {
                let first = chosen.scratch.first_mut().cast::<f32>().add(token * count);
                std::slice::from_raw_parts_mut(first, count)
            };
            // SAFETY: every token has entries of its own.
            let all = unsafe { entries::<Narrow>(&chosen.entries, token * count, count) };
            scores.line(&[token, 0], values);
            normalise(choice.norm, values);
            if let Some(norm) = &norm {
                norm.put_line(&[token, 0], values);
            }
            if let Some(bias) = &bias {
                for (at, value) in values.iter_mut().enumerate() {
                    *value += bias.get::<f32>(&[at]);
                }
            }
            let candidates = if by_kind.is_some() { Ok(0) } else { fill(choice, values, all) };
            let sorted = candidates.and_then(|candidates| {
                let all = &mut all[..candidates];
                sort_entries(|| {
                    if slots > 0 && slots < all.len() {
                        all.select_nth_unstable(slots - 1);
                    }
                    if by_kind.is_none() {
                        all[..slots].sort_unstable();
                    }
                })
            });
            if sorted.is_err() {
                overwritten.store(true, Relaxed);
                return;
            }
            // The workspace is the user's, and may change under us.
            let number = |slot: usize| match &by_kind {
                None => all[slot].index().min(count - 1),
                Some((kinds, table)) => {
                    let kind = kinds.get::<i64>(&[token]).max(0) as usize;
                    (table.get::<i64>(&[kind, slot]).max(0) as usize).min(count - 1)
                }
            };
            if bias.is_some() {
                scores.line(&[token, 0], values);
                normalise(choice.norm, values);
            }
            let greatest =
                (0..slots).map(|slot| values[number(slot)]).fold(f32::NEG_INFINITY, f32::max);
            let term = |slot: usize| {
                let value = values[number(slot)];
                if choice.renorm == Renorm::Softmax { (value - greatest).exp() } else { value }
            };
            let sum = || (0..slots).map(|slot| f64::from(term(slot))).sum::<f64>() as f32;
            let divisor = match choice.renorm {
                Renorm::None => 1.0,
                Renorm::Sum(epsilon) => sum() + epsilon,
                Renorm::Softmax => sum(),
            };
            let is_finished = finished.is_some_and(|finished| finished.get::<bool>(&[token]));
            for slot in 0..slots {
                weights.set(&[token, slot], term(slot) / divisor * choice.scale);
                let expert = if is_finished { count } else { number(slot) };
                experts.set(&[token, slot], expert as i64);
            }
        }
    });
    match overwritten.into_inner() {
        true => Err("the workspace was written by something else meanwhile".into()),
        false => Ok(()),
    }
}

/// The gradient of the scores where weights are the logistic function, divided by the sum of the chosen plus `epsilon` and
/// multiplied by `scale`: from the weights of all experts, the gradient of the chosen ones' and their numbers. Fails with the
/// token, the slot and the number of an expert that is none.
#[allow(clippy::too_many_arguments)]
pub fn sigmoid_gradient(
    parallel: &dyn Parallel,
    out: ViewMut<'_>,
    norm: View<'_>,
    grad: View<'_>,
    experts: View<'_>,
    scale: f32,
    epsilon: f32,
) -> Result<(), (usize, usize, i64)> {
    let (tokens, count, slots) = (norm.dims()[0], norm.dims()[1], grad.dims()[1]);
    let (norm, grad, experts) =
        (PositionAccess::new(norm), PositionAccess::new(grad), PositionAccess::new(experts));
    for token in 0..tokens {
        for slot in 0..slots {
            let expert: i64 = experts.get(&[token, slot]);
            if !(0..count as i64).contains(&expert) {
                return Err((token, slot, expert));
            }
        }
    }
    let to = PositionAccessMut::new(out);
    split(parallel, tokens, 1, LEAST / count.max(1) + 1, |range| {
        for token in range {
            let expert = |slot: usize| (experts.get::<i64>(&[token, slot]) as usize).min(count - 1);
            let weight = |slot: usize| norm.get::<f32>(&[token, expert(slot)]);
            let scaled = |slot: usize| grad.get::<f32>(&[token, slot]) * scale;
            let divisor = (0..slots).map(weight).sum::<f32>() + epsilon;
            let mean = (0..slots).map(|slot| weight(slot) / divisor * scaled(slot)).sum::<f32>();
            for at in 0..count {
                let mut sum = 0f32;
                for slot in (0..slots).filter(|slot| expert(*slot) == at) {
                    sum += (scaled(slot) - mean) / divisor;
                }
                let value: f32 = norm.get(&[token, at]);
                to.set(&[token, at], value * (1.0 - value) * sum);
            }
        }
    });
    Ok(())
}
