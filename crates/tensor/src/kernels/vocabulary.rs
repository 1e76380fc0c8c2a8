//! Rows of scores over a part of a vocabulary: what a loss needs of them, and its backward.

use super::access::{PositionAccess, PositionAccessMut};
use super::fold::shift;
use super::indexed::BadIndex;
use super::math::exp;
use super::strip::{STRIP, vectorised};
use crate::parallel::{Parallel, split};
use crate::{Dims, View, ViewMut};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The tokens of a vocabulary that belong to this part, from the first to the last.
#[derive(Clone, Copy, Debug)]
pub struct VocabularyRange {
    /// The first.
    pub first: i64,
    /// The last.
    pub last: i64,
}

/// What a loss needs of each row.
#[derive(Clone, Copy)]
pub struct RowStats<'v> {
    /// The greatest score.
    pub greatest: ViewMut<'v>,
    /// The sum of the exponentials of all scores less the greatest.
    pub sums: ViewMut<'v>,
    /// The target's score less the greatest; 0 where the target is outside.
    pub predicted: ViewMut<'v>,
    /// A bit for each row whose target is outside, from the lowest of each byte on; those after the last are set.
    pub outside: ViewMut<'v>,
    /// The target's index in this part; 0 where it is outside.
    pub target_indices: ViewMut<'v>,
}

/// Computes what a loss needs of each row of `scores` (rows, vocab_size). A target that is inside and has no score is reported,
/// and counts as one that is outside.
pub fn row_stats(
    parallel: &dyn Parallel,
    scores: View<'_>,
    targets: View<'_>,
    range: VocabularyRange,
    into: RowStats<'_>,
) -> Result<(), BadIndex> {
    let (rows, vocab_size) = (scores.dims()[0], scores.dims()[1]);
    let [greatest, sums, predicted, outside, target_indices] =
        [into.greatest, into.sums, into.predicted, into.outside, into.target_indices]
            .map(PositionAccessMut::new);
    let (scores, targets) = (PositionAccess::new(scores), PositionAccess::new(targets));
    let bad = AtomicUsize::new(usize::MAX);
    split(parallel, rows.div_ceil(8), 1, 1, |bytes| {
        for byte in bytes {
            let mut bits = 0u8;
            for bit in 0..8 {
                let row = byte * 8 + bit;
                if row >= rows {
                    bits |= 1 << bit;
                    continue;
                }
                let (row_greatest, sum) = vectorised(|| greatest_and_sum(&scores, row, vocab_size));
                greatest.set(&[row], row_greatest);
                sums.set(&[row], sum);
                let target: i64 = targets.get(&[row]);
                let inside = (range.first..=range.last).contains(&target);
                let index = usize::try_from(target.wrapping_sub(range.first)).ok();
                let index = index.filter(|index| inside && *index < vocab_size);
                if inside && index.is_none() {
                    bad.fetch_min(row, Relaxed);
                }
                let score: f32 = index.map_or(0.0, |index| scores.get(&[row, index]));
                predicted.set(&[row], if index.is_some() { score - row_greatest } else { 0.0 });
                target_indices.set(&[row], index.unwrap_or(0) as i64);
                bits |= u8::from(index.is_none()) << bit;
            }
            outside.set(&[byte], i64::from(bits));
        }
    });
    match bad.load(Relaxed) {
        usize::MAX => Ok(()),
        row => Err(BadIndex {
            tensor: 0,
            position: Dims::new(&[row]),
            value: targets.get(&[row]),
            valid: (range.first, range.first.saturating_add(vocab_size as i64 - 1)),
        }),
    }
}

/// The greatest score of a row, and the sum of the exponentials of all less that.
#[inline(always)]
fn greatest_and_sum(scores: &PositionAccess<'_>, row: usize, vocab_size: usize) -> (f32, f32) {
    let mut buffer = [0f32; STRIP];
    let mut greatest = f32::NEG_INFINITY;
    for first in (0..vocab_size).step_by(STRIP) {
        let line = &mut buffer[..(vocab_size - first).min(STRIP)];
        scores.line(&[row, first], line);
        greatest = line.iter().fold(greatest, |x, y| if *y > x || y.is_nan() { *y } else { x });
    }
    let (mut sum, shift_by) = (0f32, shift(greatest));
    for first in (0..vocab_size).step_by(STRIP) {
        let line = &mut buffer[..(vocab_size - first).min(STRIP)];
        scores.line(&[row, first], line);
        sum += line.iter().map(|score| exp(score - shift_by)).sum::<f32>();
    }
    (greatest, sum)
}

/// Turns each row of `weights` (rows, vocab_size), the softmax of its scores, into the gradient of the scores: less 1
/// at the target's index where no bit of `outside` is set, times the row's gradient. An index that is no token is
/// reported, and its row left as it is.
pub fn scores_gradient(
    parallel: &dyn Parallel,
    weights: ViewMut<'_>,
    grad: View<'_>,
    outside: View<'_>,
    target_indices: View<'_>,
) -> Result<(), BadIndex> {
    let (rows, vocab_size) = (weights.dims()[0], weights.dims()[1]);
    let weights = PositionAccessMut::new(weights);
    let [grad, outside, target_indices] = [grad, outside, target_indices].map(PositionAccess::new);
    let bad = AtomicUsize::new(usize::MAX);
    split(parallel, rows, 1, 1, |range| {
        let mut buffer = [0f32; STRIP];
        for row in range {
            let target: i64 = target_indices.get(&[row]);
            let Some(index) = usize::try_from(target).ok().filter(|index| *index < vocab_size)
            else {
                bad.fetch_min(row, Relaxed);
                continue;
            };
            let bits: i64 = outside.get(&[row / 8]);
            let (is_inside, factor): (f32, f32) =
                ((1 - (bits >> (row % 8) & 1)) as f32, grad.get(&[row]));
            let weight: f32 = weights.positions().get(&[row, index]);
            weights.set(&[row, index], weight - is_inside);
            for first in (0..vocab_size).step_by(STRIP) {
                let line = &mut buffer[..(vocab_size - first).min(STRIP)];
                weights.positions().line(&[row, first], line);
                line.iter_mut().for_each(|weight| *weight *= factor);
                weights.put_line(&[row, first], line);
            }
        }
    });
    match bad.load(Relaxed) {
        usize::MAX => Ok(()),
        row => Err(BadIndex {
            tensor: 0,
            position: Dims::new(&[row]),
            value: target_indices.get(&[row]),
            valid: (0, vocab_size as i64 - 1),
        }),
    }
}
