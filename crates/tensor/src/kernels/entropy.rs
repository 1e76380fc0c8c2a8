//! Cross entropy of rows of logarithms of probabilities with classes, and its gradient.

use super::access::{PositionAccess, PositionAccessMut};
use super::lines::BUFFER;
use super::math::Real;
use crate::parallel::{Parallel, split};
use crate::{View, ViewMut};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Classes of rows, and what each counts.
#[derive(Clone, Copy)]
pub struct Classes<'v> {
    /// The class of each row.
    pub target: View<'v>,
    /// The weight of each class; 1 when absent.
    pub weight: Option<View<'v>>,
    /// The class of rows that do not count.
    pub ignored: i64,
    /// The share of a row that all classes have together.
    pub smoothing: f64,
}

impl Classes<'_> {
    /// The class of a row: `None` for one that does not count.
    fn class(&self, row: usize, classes: usize) -> Result<Option<usize>, i64> {
        let class: i64 = PositionAccess::new(self.target).get(&[row]);
        if class == self.ignored {
            return Ok(None);
        }
        match usize::try_from(class) {
            Ok(at) if at < classes => Ok(Some(at)),
            _ => Err(class),
        }
    }

    /// The weight of a class.
    fn weight<C: Real>(&self, class: usize) -> C {
        self.weight.map_or(C::ONE, |weight| PositionAccess::new(weight).get(&[class]))
    }

    /// The weights of classes from `from` on.
    fn weights<C: Real>(&self, from: usize, into: &mut [C]) {
        match self.weight {
            Some(weight) => PositionAccess::new(weight).line(&[from], into),
            None => into.fill(C::ONE),
        }
    }

    /// Fails with the first row whose class is out of range, and that class.
    pub fn check(&self, classes: usize) -> Result<(), (usize, i64)> {
        (0..self.target.count())
            .try_for_each(|row| self.class(row, classes).map(|_| ()).map_err(|class| (row, class)))
    }

    /// The sum of the weights of all rows.
    pub fn total(&self, classes: usize) -> f64 {
        (0..self.target.count())
            .filter_map(|row| self.class(row, classes).ok().flatten())
            .map(|class| self.weight::<f64>(class))
            .sum()
    }
}

/// Rows that one thread takes at least.
fn rows_at_least(length: usize) -> usize {
    (4096 / length.max(1)).max(1)
}

/// The loss of each row into `losses`, one number for each. Classes were checked.
pub fn class_losses<C: Real>(
    parallel: &dyn Parallel,
    losses: ViewMut<'_>,
    logarithms: View<'_>,
    classes: Classes<'_>,
) {
    let [rows, length] = [logarithms.dims()[0], logarithms.dims()[1]];
    let (from, to) = (PositionAccess::new(logarithms), PositionAccessMut::new(losses));
    let smoothing = C::of(classes.smoothing);
    let target_share = C::ONE.sub(smoothing);
    split(parallel, rows, 1, rows_at_least(length), |range| {
        let (mut buffer, mut weights) = ([C::ZERO; BUFFER], [C::ONE; BUFFER]);
        for row in range {
            let Ok(Some(class)) = classes.class(row, length) else {
                to.set(&[row], C::ZERO);
                continue;
            };
            let target_loss = from.get::<C>(&[row, class]).mul(classes.weight(class)).neg();
            let mut loss = target_share.mul(target_loss);
            if classes.smoothing != 0.0 {
                let mut sum = 0.0;
                for start in (0..length).step_by(BUFFER) {
                    let count = BUFFER.min(length - start);
                    from.line(&[row, start], &mut buffer[..count]);
                    classes.weights(start, &mut weights[..count]);
                    let products = buffer[..count].iter().zip(&weights[..count]);
                    sum += products.map(|(x, w)| x.mul(*w).to_f64()).sum::<f64>();
                }
                loss = loss.sub(smoothing.mul(C::of(sum / length as f64)));
            }
            to.set(&[row], loss);
        }
    });
}

/// The gradient for the rows' scores. `grads` is the gradient of each row's loss. Classes were checked.
pub fn class_gradients<C: Real>(
    parallel: &dyn Parallel,
    out: ViewMut<'_>,
    logarithms: View<'_>,
    classes: Classes<'_>,
    grads: impl Fn(usize) -> f64 + Sync,
) {
    let [rows, length] = [logarithms.dims()[0], logarithms.dims()[1]];
    let (from, to) = (PositionAccess::new(logarithms), PositionAccessMut::new(out));
    let class_share = classes.smoothing / length as f64;
    let mut weights_sum = 0.0;
    for class in 0..if class_share != 0.0 { length } else { 0 } {
        weights_sum += classes.weight::<f64>(class);
    }
    split(parallel, rows, 1, rows_at_least(length), |range| {
        let (mut buffer, mut weights) = ([C::ZERO; BUFFER], [C::ONE; BUFFER]);
        for row in range {
            let class = classes.class(row, length).ok().flatten();
            let grad = if class.is_some() { grads(row) } else { 0.0 };
            let target_grad = class.map_or(0.0, |class| {
                grad * (1.0 - classes.smoothing) * classes.weight::<f64>(class)
            });
            let factor = C::of(target_grad + grad * class_share * weights_sum);
            let class_grad = C::of(grad * class_share);
            for start in (0..length).step_by(BUFFER) {
                let count = BUFFER.min(length - start);
                from.line(&[row, start], &mut buffer[..count]);
                classes.weights(start, &mut weights[..count]);
                for (x, weight) in buffer[..count].iter_mut().zip(&weights[..count]) {
                    *x = x.exp().mul(factor).sub(class_grad.mul(*weight));
                }
                if let Some(class) = class.filter(|class| (start..start + count).contains(class)) {
                    buffer[class - start] = buffer[class - start].sub(C::of(target_grad));
                }
                to.put_line(&[row, start], &buffer[..count]);
            }
        }
    });
}

/// The margin loss of rows with several classes: the classes before the first -1. `is_target` says for each
/// class whether it is one. A class out of range is returned with its row.
pub fn margin_losses<C: Real>(
    parallel: &dyn Parallel,
    losses: ViewMut<'_>,
    is_target: ViewMut<'_>,
    x: View<'_>,
    target: View<'_>,
) -> Result<(), (usize, i64)> {
    let [rows, length] = [x.dims()[0], x.dims()[1]];
    let (values, classes) = (PositionAccess::new(x), PositionAccess::new(target));
    let (losses, marks) = (PositionAccessMut::new(losses), PositionAccessMut::new(is_target));
    let bad = AtomicUsize::new(usize::MAX);
    let targets_of = |row: usize| {
        (0..length).map(move |at| classes.get::<i64>(&[row, at])).take_while(|class| *class != -1)
    };
    split(parallel, rows, 1, rows_at_least(length), |range| {
        for row in range {
            (0..length).for_each(|at| marks.set(&[row, at], C::ZERO));
            if targets_of(row).any(|class| !(0..length as i64).contains(&class)) {
                bad.fetch_min(row, Relaxed);
                continue;
            }
            targets_of(row).for_each(|class| marks.set(&[row, class as usize], C::ONE));
            let mut sum = 0.0;
            for class in targets_of(row) {
                let target_value = values.get::<f64>(&[row, class as usize]);
                for at in 0..length {
                    if marks.positions().get::<f64>(&[row, at]) == 0.0 {
                        let violation = 1.0 - target_value + values.get::<f64>(&[row, at]);
                        sum += if violation > 0.0 || violation.is_nan() { violation } else { 0.0 };
                    }
                }
            }
            losses.set(&[row], C::of(sum / length as f64));
        }
    });
    match bad.into_inner() {
        usize::MAX => Ok(()),
        row => {
            let class = targets_of(row).find(|class| !(0..length as i64).contains(class));
            Err((row, class.unwrap_or(-1)))
        }
    }
}
