//! Lines of tokens normalised, rotated and put after each other, and the gradients of that.
//!
//! Tensors have the sizes batches, positions, heads, features, with at most [`LONGEST`] features.

use super::access::{PositionAccess, PositionAccessMut};
use super::rotary::{LONGEST, Rotation};
use super::strip::vectorised;
use crate::parallel::{Parallel, split};
use crate::{View, ViewMut};

/// Parts that the sums of one call are computed in.
pub const PARTS: usize = 8;

/// Lines that are worth a thread of their own.
const LEAST: usize = 64;

/// A rotation with its cosines and sines, a line for each position.
pub type Turn<'a> = (Rotation, View<'a>, View<'a>);

/// How lines are normalised: to the mean 0 and the variance 1, then times a weight and plus a bias.
#[derive(Clone, Copy)]
pub struct LineNorm<'a> {
    /// Weight and bias, a number for each feature.
    pub affine: Option<[View<'a>; 2]>,
    /// What is added to the variance.
    pub epsilon: f32,
    /// Where mean and reciprocal root of each line go: batches, positions, heads.
    pub stats: Option<[ViewMut<'a>; 2]>,
}

/// What the gradients of normalised lines are computed from.
#[derive(Clone, Copy)]
pub struct LineNormGradients<'a> {
    /// The lines before.
    pub x: View<'a>,
    /// The weight.
    pub weight: Option<View<'a>>,
    /// Mean and reciprocal root of each line: batches, positions, heads.
    pub stats: [View<'a>; 2],
    /// `f64`: [`PARTS`], weight and bias, features.
    pub sums: ViewMut<'a>,
    /// Where the gradients of weight and bias go.
    pub affine: [Option<ViewMut<'a>>; 2],
}

/// The cosines and sines of one position.
struct Angles<'a>(Rotation, PositionAccess<'a>, PositionAccess<'a>);

impl<'a> Angles<'a> {
    fn new(turn: Turn<'a>) -> Angles<'a> {
        Angles(turn.0, PositionAccess::new(turn.1), PositionAccess::new(turn.2))
    }
}

/// The position of a line: batch, position, head.
fn position(number: usize, [positions, heads]: [usize; 2]) -> [usize; 3] {
    [number / heads / positions, number / heads % positions, number % heads]
}

/// Writes the lines of `x` to positions of `out` from `start` on.
pub fn join(
    parallel: &dyn Parallel,
    out: ViewMut<'_>,
    x: View<'_>,
    start: usize,
    norm: Option<&LineNorm<'_>>,
    turn: Option<Turn<'_>>,
) {
    let [batches, positions, heads, features] = *x.dims() else {
        unreachable!("lines of four dimensions")
    };
    assert!(features <= LONGEST);
    let (from, to) = (PositionAccess::new(x), PositionAccessMut::new(out));
    let affine = norm.and_then(|norm| norm.affine).map(|both| both.map(PositionAccess::new));
    let stats = norm.and_then(|norm| norm.stats).map(|both| both.map(PositionAccessMut::new));
    let angles = turn.map(Angles::new);
    split(parallel, batches * positions * heads, 1, LEAST, |range| {
        let mut lines = [[0f32; LONGEST]; 6];
        let [line, weight, bias, cos, sin, turned] =
            lines.each_mut().map(|one| &mut one[..features]);
        if let Some([weights, biases]) = &affine {
            weights.line(&[0], weight);
            biases.line(&[0], bias);
        }
        for number in range {
            let at = position(number, [positions, heads]);
            from.line(&[at[0], at[1], at[2], 0], line);
            if let Some(norm) = norm {
                let (mean, root) = vectorised(|| {
                    let (mean, root) = moments(line, norm.epsilon);
                    line.iter_mut().for_each(|x| *x = (*x - mean) * root);
                    if affine.is_some() {
                        for ((x, weight), bias) in line.iter_mut().zip(&*weight).zip(&*bias) {
                            *x = *x * weight + bias;
                        }
                    }
                    (mean, root)
                });
                if let Some([means, roots]) = &stats {
                    means.set(&at, mean);
                    roots.set(&at, root);
                }
            }
            let place = [at[0], start + at[1], at[2], 0];
            match &angles {
                None => to.put_line(&place, line),
                Some(Angles(rotation, cosines, sines)) => {
                    cosines.line(&[start + at[1], 0], cos);
                    sines.line(&[start + at[1], 0], sin);
                    rotation.rotate(line, cos, sin, turned);
                    to.put_line(&place, turned);
                }
            }
        }
    });
}

/// Mean and reciprocal root of the variance plus `epsilon` of a line.
fn moments(line: &[f32], epsilon: f32) -> (f32, f32) {
    let count = line.len().max(1) as f64;
    let mean = line.iter().map(|x| f64::from(*x)).sum::<f64>() / count;
    let variance = line.iter().map(|x| (f64::from(*x) - mean).powi(2)).sum::<f64>() / count;
    (mean as f32, (1.0 / (variance + f64::from(epsilon)).sqrt()) as f32)
}

/// The gradients of what [`join`] reads, from the gradient `grad` of its `out`: those of the lines to `out`.
pub fn join_gradients(
    parallel: &dyn Parallel,
    out: ViewMut<'_>,
    grad: View<'_>,
    start: usize,
    norm: Option<&LineNormGradients<'_>>,
    turn: Option<Turn<'_>>,
) {
    let [batches, positions, heads, features] = *out.dims() else {
        unreachable!("lines of four dimensions")
    };
    assert!(features <= LONGEST);
    let (from, to) = (PositionAccess::new(grad), PositionAccessMut::new(out));
    let angles = turn.map(Angles::new);
    let given = norm.map(|norm| {
        let weight = norm.weight.map(PositionAccess::new);
        (PositionAccess::new(norm.x), weight, norm.stats.map(PositionAccess::new))
    });
    let sums = norm.map(|norm| PositionAccessMut::new(norm.sums));
    let count = batches * positions * heads;
    let part = |part: usize| {
        let mut lines = [[0f32; LONGEST]; 6];
        let [line, weight, cos, sin, turned, x] = lines.each_mut().map(|one| &mut one[..features]);
        let mut totals = [[0f64; LONGEST]; 2];
        weight.fill(1.0);
        if let Some((_, Some(weights), _)) = &given {
            weights.line(&[0], weight);
        }
        for number in count * part / PARTS..count * (part + 1) / PARTS {
            let at = position(number, [positions, heads]);
            from.line(&[at[0], start + at[1], at[2], 0], line);
            if let Some(Angles(rotation, cosines, sines)) = &angles {
                cosines.line(&[start + at[1], 0], cos);
                sines.line(&[start + at[1], 0], sin);
                rotation.rotate_backward(line, cos, sin, turned);
                line.copy_from_slice(turned);
            }
            if let Some((before, _, [means, roots])) = &given {
                before.line(&[at[0], at[1], at[2], 0], x);
                let (mean, root): (f32, f32) = (means.get(&at), roots.get(&at));
                vectorised(|| {
                    x.iter_mut().for_each(|x| *x = (*x - mean) * root);
                    let [by_weight, by_bias] = &mut totals;
                    for i in 0..features {
                        by_weight[i] += f64::from(line[i] * x[i]);
                        by_bias[i] += f64::from(line[i]);
                        line[i] *= weight[i];
                    }
                    let average = |sum: f64| (sum / features as f64) as f32;
                    let own = average(line.iter().map(|x| f64::from(*x)).sum());
                    let along = average(
                        line.iter().zip(&*x).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum(),
                    );
                    for (dx, x) in line.iter_mut().zip(&*x) {
                        *dx = root * (*dx - own - x * along);
                    }
                });
            }
            to.put_line(&[at[0], at[1], at[2], 0], line);
        }
        if let Some(sums) = &sums {
            for (which, totals) in totals.iter().enumerate() {
                sums.put_line(&[part, which, 0], &totals[..features]);
            }
        }
    };
    parallel.run(PARTS, &part);
    let (Some(norm), Some(sums)) = (norm, sums) else { return };
    let sums = sums.positions();
    for (which, out) in norm.affine.iter().enumerate() {
        let Some(out) = out else { continue };
        let to = PositionAccessMut::new(*out);
        for feature in 0..features {
            let sum: f64 = (0..PARTS).map(|part| sums.get::<f64>(&[part, which, feature])).sum();
            to.set(&[feature], sum);
        }
    }
}
