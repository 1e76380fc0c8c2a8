//! Connectionist temporal classification: the likelihood of a row of labels under a row of distributions, summed over
//! all ways to stretch the labels with blanks; and its gradient.

use super::access::{PositionAccess, PositionAccessMut};
use crate::parallel::{Parallel, split};
use crate::{View, ViewMut};

/// The sequences of a batch. Probabilities have the sizes steps, batches, classes.
#[derive(Clone, Copy)]
pub struct Sequences<'v> {
    /// Logarithms of probabilities.
    pub logarithms: View<'v>,
    /// Labels: a row for each batch, or all one after the other.
    pub targets: View<'v>,
    /// Steps of each batch.
    pub steps: &'v [usize],
    /// Labels of each batch.
    pub labels: &'v [usize],
    /// The class that is the blank.
    pub blank: usize,
}

/// ln(e^a + e^b ..); NaN where one of them is.
fn log_sum_exp(values: &[f64]) -> f64 {
    if values.iter().any(|value| value.is_nan()) {
        return f64::NAN;
    }
    let greatest = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if greatest == f64::NEG_INFINITY {
        return greatest;
    }
    greatest + values.iter().map(|value| (value - greatest).exp()).sum::<f64>().ln()
}

impl Sequences<'_> {
    /// The label at a position of a batch.
    fn label(&self, batch: usize, at: usize) -> i64 {
        let targets = PositionAccess::new(self.targets);
        match self.targets.rank() {
            2 => targets.get(&[batch, at]),
            _ => targets.get(&[self.labels[..batch].iter().sum::<usize>() + at]),
        }
    }

    /// The class at a position of the labels with blanks around each.
    fn class(&self, batch: usize, at: usize) -> usize {
        if at.is_multiple_of(2) { self.blank } else { self.label(batch, at / 2) as usize }
    }

    /// The first label that is no class: its batch, its position and itself.
    pub fn check(&self) -> Result<(), (usize, usize, i64)> {
        let classes = self.logarithms.dims()[2] as i64;
        for batch in 0..self.steps.len() {
            for at in 0..self.labels[batch] {
                let label = self.label(batch, at);
                if !(0..classes).contains(&label) {
                    return Err((batch, at, label));
                }
            }
        }
        Ok(())
    }

    /// The logarithm of the probability of a class.
    fn logarithm(&self, step: usize, batch: usize, class: usize) -> f64 {
        PositionAccess::new(self.logarithms).get(&[step, batch, class])
    }

    /// Whether the position `at` can follow the one two before it: the blank between is skipped.
    fn skips(&self, batch: usize, at: usize) -> bool {
        at >= 2 && at % 2 == 1 && self.class(batch, at) != self.class(batch, at - 2)
    }
}

/// The negative logarithm of each batch's likelihood, and the logarithms of the likelihoods of all beginnings (alpha):
/// batches, steps, positions. Labels were checked.
pub fn likelihoods(
    parallel: &dyn Parallel,
    sequences: Sequences<'_>,
    losses: ViewMut<'_>,
    beginnings: ViewMut<'_>,
    zero_infinity: bool,
) {
    let (losses, alpha) = (PositionAccessMut::new(losses), PositionAccessMut::new(beginnings));
    let [max_steps, width] = [beginnings.dims()[1], beginnings.dims()[2]];
    split(parallel, sequences.steps.len(), 1, 1, |range| {
        for batch in range {
            let (steps, positions) = (sequences.steps[batch], 2 * sequences.labels[batch] + 1);
            let read = |step: usize, at: usize| alpha.positions().get::<f64>(&[batch, step, at]);
            for step in 0..max_steps {
                for at in 0..width {
                    let value = if step >= steps || at >= positions {
                        f64::NEG_INFINITY
                    } else if step == 0 {
                        match at < 2 {
                            true => sequences.logarithm(0, batch, sequences.class(batch, at)),
                            false => f64::NEG_INFINITY,
                        }
                    } else {
                        let from_previous =
                            if at >= 1 { read(step - 1, at - 1) } else { f64::NEG_INFINITY };
                        let from_skip = match sequences.skips(batch, at) {
                            true => read(step - 1, at - 2),
                            false => f64::NEG_INFINITY,
                        };
                        let before = log_sum_exp(&[read(step - 1, at), from_previous, from_skip]);
                        before + sequences.logarithm(step, batch, sequences.class(batch, at))
                    };
                    alpha.set(&[batch, step, at], value);
                }
            }
            let loss = match (steps, positions) {
                (0, 1) => 0.0,
                (0, _) => f64::INFINITY,
                (_, 1) => -read(steps - 1, 0),
                _ => {
                    -log_sum_exp(&[read(steps - 1, positions - 1), read(steps - 1, positions - 2)])
                }
            };
            losses.set(&[batch], if zero_infinity && loss.is_infinite() { 0.0 } else { loss });
        }
    });
}

/// Numbers of scratch that the gradient needs for each batch: two rows of likelihoods of ends (beta), and a
/// row of classes.
pub fn gradient_scratch(classes: usize, width: usize) -> usize {
    2 * width + classes
}

/// The gradient for the logarithms of probabilities that a softmax made. `grads` is the gradient of each batch's loss;
/// `scratch` has a row of [`gradient_scratch`] numbers of `f64` for each batch. Labels were checked.
#[allow(clippy::too_many_arguments)]
pub fn gradients(
    parallel: &dyn Parallel,
    sequences: Sequences<'_>,
    out: ViewMut<'_>,
    grads: View<'_>,
    losses: View<'_>,
    beginnings: View<'_>,
    scratch: ViewMut<'_>,
    zero_infinity: bool,
) {
    let [max_steps, _, classes] = [0, 1, 2].map(|at| out.dims()[at]);
    let width = beginnings.dims()[2];
    let (to, alpha, scratch) = (
        PositionAccessMut::new(out),
        PositionAccess::new(beginnings),
        PositionAccessMut::new(scratch),
    );
    split(parallel, sequences.steps.len(), 1, 1, |range| {
        for batch in range {
            let (steps, positions) = (sequences.steps[batch], 2 * sequences.labels[batch] + 1);
            let grad = PositionAccess::new(grads).get::<f64>(&[batch]);
            let loss = PositionAccess::new(losses).get::<f64>(&[batch]);
            let reached = (0..positions).any(|at| {
                steps > 0 && alpha.get::<f64>(&[batch, steps - 1, at]) > f64::NEG_INFINITY
            });
            let is_zero = zero_infinity && (loss.is_infinite() || (loss == 0.0 && !reached));
            for step in (0..max_steps).rev() {
                if step >= steps || is_zero {
                    (0..classes).for_each(|class| to.set(&[step, batch, class], 0.0f64));
                    continue;
                }
                let (beta_row, next_row) = (step % 2 * width, (step + 1) % 2 * width);
                (0..classes)
                    .for_each(|class| scratch.set(&[batch, 2 * width + class], f64::NEG_INFINITY));
                for at in 0..positions {
                    let next_beta = |at: usize| match at < positions {
                        true => scratch.positions().get::<f64>(&[batch, next_row + at]),
                        false => f64::NEG_INFINITY,
                    };
                    let class = sequences.class(batch, at);
                    let after = if step + 1 == steps {
                        if at + 2 >= positions { 0.0 } else { f64::NEG_INFINITY }
                    } else {
                        let after_skip = match at + 2 < positions && sequences.skips(batch, at + 2)
                        {
                            true => next_beta(at + 2),
                            false => f64::NEG_INFINITY,
                        };
                        log_sum_exp(&[next_beta(at), next_beta(at + 1), after_skip])
                    };
                    let beta = after + sequences.logarithm(step, batch, class);
                    scratch.set(&[batch, beta_row + at], beta);
                    let product = alpha.get::<f64>(&[batch, step, at]) + beta;
                    let class_sum = scratch.positions().get::<f64>(&[batch, 2 * width + class]);
                    scratch.set(&[batch, 2 * width + class], log_sum_exp(&[class_sum, product]));
                }
                for class in 0..classes {
                    let logarithm = sequences.logarithm(step, batch, class);
                    let class_sum = scratch.positions().get::<f64>(&[batch, 2 * width + class]);
                    let posterior = (class_sum + loss - logarithm).exp();
                    to.set(&[step, batch, class], (logarithm.exp() - posterior) * grad);
                }
            }
        }
    });
}
