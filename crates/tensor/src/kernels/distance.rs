//! Distances between rows, and their gradient.

use super::access::{PositionAccess, PositionAccessMut};
use super::lines::BUFFER;
use super::math::Real;
use crate::parallel::{Parallel, split};
use crate::{DType, View, ViewMut};
use half::{bf16, f16};

/// A distance: the p-th root of the sum of p-th powers of differences; with 0 the number of elements that differ, with
/// infinity the greatest difference.
#[derive(Clone, Copy)]
pub struct Distance(pub f64);

impl Distance {
    /// Adds the differences of two strips to the sum, as powers.
    fn add<C: Real>(self, sum: f64, a: &[C], b: &[C]) -> f64 {
        let differences = a.iter().zip(b).map(|(a, b)| a.sub(*b).abs().to_f64());
        match self.0 {
            0.0 => differences.fold(sum, |sum, d| sum + f64::from(u8::from(d != 0.0))),
            1.0 => differences.fold(sum, |sum, d| sum + d),
            2.0 => differences.fold(sum, |sum, d| sum + d * d),
            f64::INFINITY => {
                differences.fold(sum, |sum, d| if d > sum || d.is_nan() { d } else { sum })
            }
            p => differences.fold(sum, |sum, d| sum + d.powf(p)),
        }
    }

    /// The distance, from the sum.
    fn finish(self, sum: f64) -> f64 {
        match self.0 {
            0.0 | 1.0 | f64::INFINITY => sum,
            2.0 => sum.sqrt(),
            p => sum.powf(1.0 / p),
        }
    }

    /// The derivative of a distance by one difference; the distance was rounded to the type `dtype`.
    fn derivative(self, difference: f64, distance: f64, dtype: DType) -> f64 {
        let (p, sign) = (self.0, if difference == 0.0 { 0.0 } else { difference.signum() });
        match p {
            0.0 => 0.0,
            _ if distance == 0.0 => 0.0,
            1.0 => sign,
            2.0 => difference / distance,
            f64::INFINITY => {
                if rounded(difference.abs(), dtype) == distance {
                    sign
                } else {
                    0.0
                }
            }
            p if p < 1.0 && difference == 0.0 => 0.0,
            p => sign * (difference.abs() / distance).powf(p - 1.0),
        }
    }
}

/// A number as a tensor of the type has it.
fn rounded(number: f64, dtype: DType) -> f64 {
    match dtype {
        DType::Float => f64::from(number as f32),
        DType::Float16 => f16::from_f64(number).to_f64(),
        DType::Bf16 => bf16::from_f64(number).to_f64(),
        _ => number,
    }
}

/// The distance of two rows of `length` elements; the last index of both positions is overwritten.
fn row_distance<C: Real>(
    distance: Distance,
    x: (PositionAccess<'_>, &mut [usize]),
    y: (PositionAccess<'_>, &mut [usize]),
    length: usize,
) -> f64 {
    let (mut one, mut other) = ([C::ZERO; BUFFER], [C::ZERO; BUFFER]);
    let (last, mut sum) = (x.1.len() - 1, 0.0);
    for from in (0..length).step_by(BUFFER) {
        let count = BUFFER.min(length - from);
        x.1[last] = from;
        y.1[last] = from;
        x.0.line(x.1, &mut one[..count]);
        y.0.line(y.1, &mut other[..count]);
        sum = distance.add(sum, &one[..count], &other[..count]);
    }
    distance.finish(sum)
}

/// `out[b, i, j]` is the distance of rows `x[b, i]` and `y[b, j]`. All have three dimensions.
pub fn pairwise<C: Real>(
    parallel: &dyn Parallel,
    out: ViewMut<'_>,
    x: View<'_>,
    y: View<'_>,
    distance: Distance,
) {
    let [batches, rows, columns] = [0, 1, 2].map(|at| out.dims()[at]);
    let length = x.dims()[2];
    let (one, other, to) =
        (PositionAccess::new(x), PositionAccess::new(y), PositionAccessMut::new(out));
    let least = (4096 / (columns * length).max(1)).max(1);
    split(parallel, batches * rows, 1, least, |range| {
        for at in range {
            let (batch, row) = (at / rows, at % rows);
            for column in 0..columns {
                let (mut a, mut b) = ([batch, row, 0], [batch, column, 0]);
                let value = row_distance::<C>(distance, (one, &mut a), (other, &mut b), length);
                to.set(&[batch, row, column], C::of(value));
            }
        }
    });
}

/// The distances of all pairs of rows of `x`, each pair once, as `torch.pdist` orders them.
pub fn condensed<C: Real>(
    parallel: &dyn Parallel,
    out: ViewMut<'_>,
    x: View<'_>,
    distance: Distance,
) {
    let [rows, length] = [x.dims()[0], x.dims()[1]];
    let (elements, to) = (PositionAccess::new(x), PositionAccessMut::new(out));
    split(parallel, rows, 1, 1, |range| {
        for row in range {
            let start = row * rows - row * (row + 1) / 2;
            for other in row + 1..rows {
                let (mut a, mut b) = ([row, 0], [other, 0]);
                let value =
                    row_distance::<C>(distance, (elements, &mut a), (elements, &mut b), length);
                to.set(&[start + other - row - 1], C::of(value));
            }
        }
    });
}

/// The gradient of [`pairwise`] for `x`. `grad` and `distances` have its result's sizes.
pub fn pairwise_backward<C: Real>(
    parallel: &dyn Parallel,
    out: ViewMut<'_>,
    grad: View<'_>,
    [x, y, distances]: [View<'_>; 3],
    distance: Distance,
) {
    let [batches, rows, length] = [0, 1, 2].map(|at| out.dims()[at]);
    let (columns, dtype) = (y.dims()[1], distances.dtype());
    let (grad, to) = (PositionAccess::new(grad), PositionAccessMut::new(out));
    let (one, other, distances_at) =
        (PositionAccess::new(x), PositionAccess::new(y), PositionAccess::new(distances));
    let least = (4096 / (columns * length).max(1)).max(1);
    split(parallel, batches * rows, 1, least, |range| {
        for at in range {
            let (batch, row) = (at / rows, at % rows);
            for index in 0..length {
                let value = one.get::<f64>(&[batch, row, index]);
                let sum: f64 = (0..columns)
                    .map(|column| {
                        let difference = value - other.get::<f64>(&[batch, column, index]);
                        let distance_of_pair = distances_at.get::<f64>(&[batch, row, column]);
                        grad.get::<f64>(&[batch, row, column])
                            * distance.derivative(difference, distance_of_pair, dtype)
                    })
                    .sum();
                to.set(&[batch, row, index], C::of(sum));
            }
        }
    });
}

/// As [`pairwise_backward`], where `x` and `y` are both expanded to `[rows, columns, elements]`; summed over the columns.
pub fn pairs_backward<C: Real>(
    parallel: &dyn Parallel,
    out: ViewMut<'_>,
    grad: View<'_>,
    [x, y, distances]: [View<'_>; 3],
    distance: Distance,
) {
    let [rows, columns, length] = [0, 1, 2].map(|at| x.dims()[at]);
    let dtype = distances.dtype();
    let (grad, to) = (PositionAccess::new(grad), PositionAccessMut::new(out));
    let (one, other, distances_at) =
        (PositionAccess::new(x), PositionAccess::new(y), PositionAccess::new(distances));
    let least = (4096 / (columns * length).max(1)).max(1);
    split(parallel, rows, 1, least, |range| {
        for row in range {
            for feature in 0..length {
                let grad_of_pair = |column| {
                    let at = [row, column, feature];
                    let difference = one.get::<f64>(&at) - other.get::<f64>(&at);
                    grad.get::<f64>(&at)
                        * distance.derivative(difference, distances_at.get::<f64>(&at), dtype)
                };
                to.set(&[row, feature], C::of((0..columns).map(grad_of_pair).sum()));
            }
        }
    });
}

/// How many elements fall into each of `bins` ranges of the same width from `low` to `high`; the last has its end. The
/// result is in `counts`, one number of `f64` for each bin.
pub fn histogram(counts: ViewMut<'_>, line: View<'_>, low: f64, high: f64) {
    let bins = counts.count();
    let (elements, to) = (PositionAccess::new(line), PositionAccessMut::new(counts));
    (0..bins).for_each(|bin| to.set(&[bin], 0.0));
    for at in 0..line.count() {
        let value = elements.get::<f64>(&[at]);
        if value >= low && value <= high {
            let bin = (((value - low) / (high - low) * bins as f64) as usize).min(bins - 1);
            to.set(&[bin], to.positions().get::<f64>(&[bin]) + 1.0);
        }
    }
}
