//! Rows of scores over a part of a vocabulary: what a loss needs of them, and its way back.

use super::fold::shift;
use super::indexed::BadIndex;
use super::math::exp;
use super::positions::{Positions, PositionsMut};
use super::strip::{STRIP, vectorised};
use crate::parallel::{Parallel, split};
use crate::{Dims, View, ViewMut};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Words from the first to the last that belong to this part.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// The first.
    pub first: i64,
    /// The last.
    pub last: i64,
}

/// What is noted of each row.
#[derive(Clone, Copy)]
pub struct Noted<'v> {
    /// The greatest score.
    pub greatest: ViewMut<'v>,
    /// The sum of the exponentials of all scores less the greatest.
    pub sums: ViewMut<'v>,
    /// The target's score less the greatest; 0 where the target lies outside.
    pub predicted: ViewMut<'v>,
    /// A bit for each row whose target lies outside, from the lowest of each byte on; those after the last are set.
    pub outside: ViewMut<'v>,
    /// The target's place in this part; 0 where it lies outside.
    pub places: ViewMut<'v>,
}

/// Notes what a loss needs of each row of `scores` (rows, words). A target that lies inside and has no score is reported,
/// and counts as one that lies outside.
pub fn note_rows(
    parallel: &dyn Parallel,
    scores: View<'_>,
    targets: View<'_>,
    part: Part,
    into: Noted<'_>,
) -> Result<(), BadIndex> {
    let (rows, words) = (scores.dims()[0], scores.dims()[1]);
    let [greatest, sums, predicted, outside, places] =
        [into.greatest, into.sums, into.predicted, into.outside, into.places]
            .map(PositionsMut::new);
    let (scores, targets) = (Positions::new(scores), Positions::new(targets));
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
                let (most, sum) = vectorised(|| summed(&scores, row, words));
                greatest.set(&[row], most);
                sums.set(&[row], sum);
                let target: i64 = targets.get(&[row]);
                let inside = (part.first..=part.last).contains(&target);
                let place = usize::try_from(target.wrapping_sub(part.first)).ok();
                let place = place.filter(|place| inside && *place < words);
                if inside && place.is_none() {
                    bad.fetch_min(row, Relaxed);
                }
                let score: f32 = place.map_or(0.0, |place| scores.get(&[row, place]));
                predicted.set(&[row], if place.is_some() { score - most } else { 0.0 });
                places.set(&[row], place.unwrap_or(0) as i64);
                bits |= u8::from(place.is_none()) << bit;
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
            valid: (part.first, part.first.saturating_add(words as i64 - 1)),
        }),
    }
}

/// The greatest score of a row, and the sum of the exponentials of all less that.
#[inline(always)]
fn summed(scores: &Positions<'_>, row: usize, words: usize) -> (f32, f32) {
    let mut buffer = [0f32; STRIP];
    let mut most = f32::NEG_INFINITY;
    for first in (0..words).step_by(STRIP) {
        let line = &mut buffer[..(words - first).min(STRIP)];
        scores.line(&[row, first], line);
        most = line.iter().fold(most, |x, y| if *y > x || y.is_nan() { *y } else { x });
    }
    let (mut sum, less) = (0f32, shift(most));
    for first in (0..words).step_by(STRIP) {
        let line = &mut buffer[..(words - first).min(STRIP)];
        scores.line(&[row, first], line);
        sum += line.iter().map(|score| exp(score - less)).sum::<f32>();
    }
    (most, sum)
}

/// What comes back to the scores of each row of `weights` (rows, words), in place: less 1 at the target's place where no bit
/// of `outside` is set, times the row's gradient. A place that is no word is reported, and its row left as it is.
pub fn return_rows(
    parallel: &dyn Parallel,
    weights: ViewMut<'_>,
    grad: View<'_>,
    outside: View<'_>,
    places: View<'_>,
) -> Result<(), BadIndex> {
    let (rows, words) = (weights.dims()[0], weights.dims()[1]);
    let weights = PositionsMut::new(weights);
    let [grad, outside, places] = [grad, outside, places].map(Positions::new);
    let bad = AtomicUsize::new(usize::MAX);
    split(parallel, rows, 1, 1, |range| {
        let mut buffer = [0f32; STRIP];
        for row in range {
            let target: i64 = places.get(&[row]);
            let Some(place) = usize::try_from(target).ok().filter(|place| *place < words) else {
                bad.fetch_min(row, Relaxed);
                continue;
            };
            let bits: i64 = outside.get(&[row / 8]);
            let (less, factor): (f32, f32) =
                ((1 - (bits >> (row % 8) & 1)) as f32, grad.get(&[row]));
            let weight: f32 = weights.positions().get(&[row, place]);
            weights.set(&[row, place], weight - less);
            for first in (0..words).step_by(STRIP) {
                let line = &mut buffer[..(words - first).min(STRIP)];
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
            value: places.get(&[row]),
            valid: (0, words as i64 - 1),
        }),
    }
}
