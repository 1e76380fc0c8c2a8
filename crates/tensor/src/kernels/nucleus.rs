//! Sampling from the scores of a vocabulary: the greatest few (top-k), the least set of the greatest that has a probability
//! (top-p), those near the greatest (min-p), and one of what is left.

use super::access::{PositionAccess, PositionAccessMut};
use super::element::Compute;
use super::lines::BUFFER;
use super::order::{Entry, Narrow, Ordered, Overwritten, entries, sort_entries};
use crate::parallel::{Parallel, split};
use crate::{View, ViewMut};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Bytes of scratch for each score.
pub const SCORE_BYTES: usize = size_of::<Narrow>();

/// A thread takes at least this many scores.
const LEAST: usize = 1 << 12;

/// Calls `body` with each row of scores and its entries, in parallel.
fn each_row(
    parallel: &dyn Parallel,
    logits: View<'_>,
    scratch: ViewMut<'_>,
    body: impl Fn(usize, &mut [Narrow]) -> Result<(), Overwritten> + Sync,
) -> Result<(), Overwritten> {
    let (rows, count) = (logits.dims()[0], logits.dims()[1]);
    let overwritten = AtomicBool::new(false);
    split(parallel, rows, 1, LEAST / count.max(1) + 1, |range| {
        for row in range {
            // SAFETY: every row has entries of its own.
            let entries = unsafe { entries::<Narrow>(&scratch, row * count, count) };
            if body(row, entries).is_err() {
                overwritten.store(true, Relaxed);
            }
        }
    });
    if overwritten.into_inner() { Err(Overwritten) } else { Ok(()) }
}

/// Entries of a row of scores; the greatest come first when `descending`.
fn fill(logits: &PositionAccess<'_>, row: usize, entries: &mut [Narrow], descending: bool) {
    let mask = if descending { u64::from(u32::MAX) } else { 0 };
    let mut strip = [0f32; BUFFER];
    for (at, part) in entries.chunks_mut(BUFFER).enumerate() {
        let strip = &mut strip[..part.len()];
        logits.line(&[row, at * BUFFER], strip);
        for (i, entry) in part.iter_mut().enumerate() {
            *entry = Narrow::new(strip[i].key() ^ mask, at * BUFFER + i);
        }
    }
}

/// The number of a row in a tensor that may not be there.
fn number<C: Compute>(tensor: &Option<PositionAccess<'_>>, row: usize) -> Option<C> {
    tensor.as_ref().map(|tensor| tensor.get(&[row]))
}

/// The logits that top-k and top-p leave; the others are negative infinity. `p` and `k` have a number for each row; a `k` that is
/// not above 0 or not below the number of logits keeps all. Scores equal to the k-th are kept. Probabilities are summed from the
/// least on, and those whose sum is at most 1 - p go, but for the last.
///
/// `scratch` has [`SCORE_BYTES`] for each score. `out` may be `logits`.
pub fn filter(
    parallel: &dyn Parallel,
    out: ViewMut<'_>,
    logits: View<'_>,
    p: Option<View<'_>>,
    k: Option<View<'_>>,
    scratch: ViewMut<'_>,
) -> Result<(), Overwritten> {
    let count = logits.dims()[1];
    let (scores, to) = (PositionAccess::new(logits), PositionAccessMut::new(out));
    let (p, k) = (p.map(PositionAccess::new), k.map(PositionAccess::new));
    each_row(parallel, logits, scratch, |row, entries| {
        fill(&scores, row, entries, false);
        let kept = number::<i64>(&k, row).and_then(|k| usize::try_from(k).ok());
        let kept = kept.filter(|k| (1..count).contains(k)).unwrap_or(count);
        let start = sort_entries(|| greatest(entries, kept))?;
        let entries = &mut entries[start..];
        let dropped = match number::<f32>(&p, row) {
            Some(p) => sort_entries(|| tail(entries, 1.0 - p))?,
            None => 0,
        };
        let value = |entry: &Narrow| {
            let index = entry.index().min(count - 1);
            (index, from_key(entry.key()))
        };
        let (nothing, mut first) = ([f32::NEG_INFINITY; BUFFER], 0);
        while first < count {
            let length = BUFFER.min(count - first);
            to.put_line(&[row, first], &nothing[..length]);
            first += length;
        }
        for entry in &entries[dropped..] {
            let (index, value) = value(entry);
            to.set(&[row, index], value);
        }
        Ok(())
    })
}

/// Moves the `kept` greatest entries, and those with the key of the least of them, to the end; where they begin.
fn greatest(entries: &mut [Narrow], kept: usize) -> usize {
    let mut start = entries.len() - kept;
    if start == 0 {
        return 0;
    }
    let key = entries.select_nth_unstable(start).1.key();
    let mut at = start;
    while at > 0 {
        at -= 1;
        if entries[at].key() == key {
            start -= 1;
            entries.swap(at, start);
        }
    }
    start
}

/// Sorts entries and returns how many of the least have together at most the probability `limit`; never all.
fn tail(entries: &mut [Narrow], limit: f32) -> usize {
    entries.sort_unstable();
    let Some(last) = entries.last() else { return 0 };
    let greatest = from_key(last.key());
    let weight = |entry: &Narrow| (from_key(entry.key()) - greatest).exp();
    let sum = entries.iter().map(|entry| f64::from(weight(entry))).sum::<f64>();
    let (mut before, mut dropped) = (0f64, 0);
    for entry in &entries[..entries.len() - 1] {
        before += f64::from(weight(entry)) / sum;
        if before as f32 > limit {
            break;
        }
        dropped += 1;
    }
    dropped
}

/// The number that a key is of.
fn from_key(key: u64) -> f32 {
    const SIGN: u32 = 1 << 31;
    let key = key as u32;
    f32::from_bits(if key & SIGN != 0 { key ^ SIGN } else { !key })
}

/// How one of a vocabulary is drawn.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// The greatest k that counts; a greater one keeps all.
    pub most: usize,
    /// Scores are no probabilities yet.
    pub are_logits: bool,
    /// What is added to the noise.
    pub epsilon: f32,
}

/// The tensors of a draw: scores, noise, `kept` and `packed` have the sizes rows and vocabulary; the others one number a row.
#[derive(Clone, Copy)]
pub struct Draw<'a> {
    /// The scores.
    pub logits: View<'a>,
    /// How many of the greatest are kept.
    pub top_k: View<'a>,
    /// The probability of what is kept of these.
    pub top_p: View<'a>,
    /// The share of the greatest probability that a kept one has at least.
    pub min_p: Option<View<'a>>,
    /// What the probabilities of those that are kept, in their order, are divided by.
    pub noise: Option<View<'a>>,
    /// [`SCORE_BYTES`] for each score.
    pub scratch: ViewMut<'a>,
    /// The number of the one that is drawn: with the greatest quotient.
    pub index: Option<ViewMut<'a>>,
    /// The scores of those that are kept; the others are negative infinity, or 0 for probabilities.
    pub kept: Option<ViewMut<'a>>,
    /// The numbers of those that are kept, and their probabilities; then zeros.
    pub packed: Option<(ViewMut<'a>, ViewMut<'a>)>,
}

/// Draws one of each row. Where top-k or top-p leave some out, the kept are in the order of their scores, the greatest first;
/// else in the order of the vocabulary.
pub fn draw(parallel: &dyn Parallel, rule: &Rule, draw: &Draw<'_>) -> Result<(), Overwritten> {
    let count = draw.logits.dims()[1];
    let scores = PositionAccess::new(draw.logits);
    let (top_k, top_p) = (PositionAccess::new(draw.top_k), PositionAccess::new(draw.top_p));
    let (min_p, noise) = (draw.min_p.map(PositionAccess::new), draw.noise.map(PositionAccess::new));
    let (index, kept) =
        (draw.index.map(PositionAccessMut::new), draw.kept.map(PositionAccessMut::new));
    let packed = draw.packed.map(|(a, b)| (PositionAccessMut::new(a), PositionAccessMut::new(b)));
    each_row(parallel, draw.logits, draw.scratch, |row, entries| {
        fill(&scores, row, entries, true);
        let (k, p) = (top_k.get::<i64>(&[row]), top_p.get::<f32>(&[row]));
        let share = number::<f32>(&min_p, row).unwrap_or(0.0);
        let by_k = usize::try_from(k).ok().filter(|k| (1..=rule.most.min(count)).contains(k));
        let (by_p, only_greatest) = (p < 1.0, share >= 1.0);
        let mut length = count;
        sort_entries(|| match by_k {
            Some(k) => {
                if k < count {
                    entries.select_nth_unstable(k - 1);
                }
                entries[..k].sort_unstable();
                length = k;
            }
            None if by_p || only_greatest => entries.sort_unstable(),
            None => {}
        })?;
        let value = |entry: &Narrow| from_key(entry.key() ^ u64::from(u32::MAX));
        let (greatest, sum) = match rule.are_logits {
            true => {
                let entries = &entries[..length];
                let greatest = entries.iter().map(value).fold(f32::NEG_INFINITY, f32::max);
                let sum = entries.iter().map(|one| f64::from((value(one) - greatest).exp()));
                (greatest, sum.sum::<f64>())
            }
            false => (0.0, 1.0),
        };
        let probability = |entry: &Narrow| match rule.are_logits {
            true => ((f64::from((value(entry) - greatest).exp())) / sum) as f32,
            false => value(entry),
        };
        if by_p {
            length = match p > 0.0 {
                true => prefix(&entries[..length], p, probability),
                false => 1.min(length),
            };
        }
        if only_greatest {
            length = 1.min(length);
        }
        let alone = by_p && p <= 0.0 && rule.are_logits;
        let probability = |entry: &Narrow| if alone { 1.0 } else { probability(entry) };
        let entries = &entries[..length];
        let most = entries.iter().map(probability).fold(f32::NEG_INFINITY, f32::max);
        let threshold = if share > 0.0 && share < 1.0 { most * share } else { f32::NEG_INFINITY };
        if let Some(kept) = &kept {
            let blank = if rule.are_logits { f32::NEG_INFINITY } else { 0.0 };
            (0..count).for_each(|at| kept.set(&[row, at], blank));
        }
        let (mut place, mut best) = (0, None::<(f32, usize)>);
        for entry in entries {
            let chance = probability(entry);
            if chance < threshold {
                continue;
            }
            let number = entry.index().min(count - 1);
            if let Some(kept) = &kept {
                kept.set(&[row, number], value(entry));
            }
            if let Some((numbers, chances)) = &packed {
                numbers.set(&[row, place], number as i64);
                chances.set(&[row, place], chance);
            }
            let quotient = match &noise {
                Some(noise) => chance / (noise.get::<f32>(&[row, place]) + rule.epsilon),
                None => chance,
            };
            if best.is_none_or(|(best, _)| quotient > best) {
                best = Some((quotient, number));
            }
            place += 1;
        }
        if let Some((numbers, chances)) = &packed {
            for place in place..count {
                numbers.set(&[row, place], 0i64);
                chances.set(&[row, place], 0f32);
            }
        }
        if let (Some(index), Some((_, number))) = (&index, best) {
            index.set(&[row], number as i64);
        }
        Ok(())
    })
}

/// How many of the first entries it takes until their probabilities reach `p`.
fn prefix(entries: &[Narrow], p: f32, probability: impl Fn(&Narrow) -> f32) -> usize {
    let mut before = 0f64;
    for (at, entry) in entries.iter().enumerate() {
        if before as f32 >= p {
            return at;
        }
        before += f64::from(probability(entry));
    }
    entries.len()
}
