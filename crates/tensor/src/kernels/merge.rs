//! Results of attention over several parts of the keys, merged into the one over all of them.

use super::access::{PositionAccess, PositionAccessMut};
use super::math::exp;
use super::strip::STRIP;
use crate::parallel::{Parallel, split};
use crate::{View, ViewMut};

/// A result over a part of the keys: positions, batches, heads, features; and the greatest score and the sum of
/// exponentials of each, repeated along the last dimension.
#[derive(Clone, Copy)]
pub struct Partial<'v> {
    /// The result.
    pub result: View<'v>,
    /// The greatest scores.
    pub greatest: View<'v>,
    /// The sums.
    pub sums: View<'v>,
}

/// Writes a number to each position of the last dimension.
fn fill_last(view: ViewMut<'_>, at: [usize; 3], value: f32) {
    let out = PositionAccessMut::new(view);
    (0..view.dims()[3]).for_each(|last| out.set(&[at[0], at[1], at[2], last], value));
}

/// Merges two results, with their greatest scores and sums. Outputs do not overlap inputs.
pub fn merge_two(
    parallel: &dyn Parallel,
    [one, other]: [Partial<'_>; 2],
    out: ViewMut<'_>,
    greatest: ViewMut<'_>,
    sums: ViewMut<'_>,
) {
    let [positions, batches, heads, features] = [0, 1, 2, 3].map(|at| out.dims()[at]);
    split(parallel, positions * batches * heads, 1, 64, |range| {
        let (mut first, mut second) = ([0f32; STRIP], [0f32; STRIP]);
        for row in range {
            let at = [row / heads / batches, row / heads % batches, row % heads];
            let position = [at[0], at[1], at[2], 0];
            let [greatest_scores, sum] = [[one.greatest, other.greatest], [one.sums, other.sums]]
                .map(|both| both.map(|view| PositionAccess::new(view).get::<f32>(&position)));
            let greatest_of_both = greatest_scores[0].max(greatest_scores[1]);
            let [x, y] = [0, 1].map(|at| sum[at] * exp(greatest_scores[at] - greatest_of_both));
            fill_last(greatest, at, greatest_of_both);
            fill_last(sums, at, x + y);
            for start in (0..features).step_by(STRIP) {
                let width = (features - start).min(STRIP);
                let position = [at[0], at[1], at[2], start];
                let (first, second) = (&mut first[..width], &mut second[..width]);
                PositionAccess::new(one.result).line(&position, first);
                PositionAccess::new(other.result).line(&position, second);
                for (a, b) in first.iter_mut().zip(&*second) {
                    *a = (*a * x + b * y) / (x + y);
                }
                PositionAccessMut::new(out).put_line(&position, first);
            }
        }
    });
}

/// Merges results (rows, features) by the logarithms of their sums (rows), and the logarithms of all sums if wanted.
/// Outputs do not overlap inputs. A row without any finite logarithm gives zeros.
pub fn merge_by_logarithms(
    parallel: &dyn Parallel,
    logarithms: &[View<'_>],
    results: &[View<'_>],
    out: ViewMut<'_>,
    total: Option<ViewMut<'_>>,
) {
    let (rows, features) = (out.dims()[0], out.dims()[1]);
    split(parallel, rows, 1, 64, |range| {
        let (mut sum, mut line) = ([0f32; STRIP], [0f32; STRIP]);
        for row in range {
            let given = |view: &View<'_>| PositionAccess::new(*view).get::<f32>(&[row]);
            // Attention without keys gives infinity: a part that adds nothing.
            let logarithm_at = |view: &View<'_>| match given(view) {
                f32::INFINITY => f32::NEG_INFINITY,
                logarithm => logarithm,
            };
            let greatest = logarithms.iter().map(logarithm_at).fold(f32::NEG_INFINITY, f32::max);
            let sum_of_exponentials: f32 =
                logarithms.iter().map(|logarithm| exp(logarithm_at(logarithm) - greatest)).sum();
            let is_empty = greatest == f32::NEG_INFINITY;
            let total_logarithm = match is_empty {
                true => logarithms.iter().map(given).fold(greatest, f32::max),
                false => greatest + sum_of_exponentials.ln(),
            };
            if let Some(total) = total {
                PositionAccessMut::new(total).set(&[row], total_logarithm);
            }
            for start in (0..features).step_by(STRIP) {
                let width = (features - start).min(STRIP);
                let (sum, line) = (&mut sum[..width], &mut line[..width]);
                sum.fill(0.0);
                for (result, logarithm) in results.iter().zip(logarithms) {
                    let weight =
                        if is_empty { 0.0 } else { exp(logarithm_at(logarithm) - total_logarithm) };
                    PositionAccess::new(*result).line(&[row, start], line);
                    sum.iter_mut().zip(&*line).for_each(|(sum, value)| *sum += value * weight);
                }
                PositionAccessMut::new(out).put_line(&[row, start], sum);
            }
        }
    });
}
