//! Convolutions along a sequence that look back and never ahead, each channel by itself; and their gradients.
//!
//! Sequences have the sizes steps, batches, channels; weights taps and channels. The last tap is multiplied with the
//! step itself, the one before it the step before, and so on; what lies before the first step counts as 0. A mask of
//! batches and steps says which results count; the others are 0.

use super::access::{PositionAccess, PositionAccessMut};
use super::lines::BUFFER;
use crate::parallel::{Parallel, split};
use crate::{View, ViewMut};

/// A thread takes at least this many elements.
const LEAST: usize = 1 << 14;

/// Which results count.
#[derive(Clone, Copy)]
struct Mask<'v>(Option<PositionAccess<'v>>);

impl<'v> Mask<'v> {
    fn new(mask: Option<View<'v>>) -> Mask<'v> {
        Mask(mask.map(PositionAccess::new))
    }

    /// Whether the result of a step counts.
    fn counts(&self, batch: usize, step: usize) -> bool {
        self.0.is_none_or(|mask| mask.get::<bool>(&[batch, step]))
    }
}

/// Adds the products of two rows.
fn add_products(sums: &mut [f32], a: &[f32], b: &[f32]) {
    sums.iter_mut().zip(a.iter().zip(b)).for_each(|(sum, (a, b))| *sum += a * b);
}

/// Fills each strip of each row of `out` (steps, batches, channels) with what `make` adds to zeros: it is called with step,
/// batch, first channel and the sums.
fn each_strip(
    parallel: &dyn Parallel,
    out: ViewMut<'_>,
    make: impl Fn(usize, usize, usize, &mut [f32]) + Sync,
) {
    let [steps, batches, channels] = [0, 1, 2].map(|at| out.dims()[at]);
    let to = PositionAccessMut::new(out);
    let least = LEAST / channels.max(1) + 1;
    split(parallel, steps * batches, 1, least, |range| {
        let mut sums = [0f32; BUFFER];
        for at in range {
            let (step, batch) = (at / batches, at % batches);
            for first in (0..channels).step_by(BUFFER) {
                let sums = &mut sums[..BUFFER.min(channels - first)];
                sums.fill(0.0);
                make(step, batch, first, sums);
                to.put_line(&[step, batch, first], sums);
            }
        }
    });
}

/// `out[s, b] = sum of weights[k] * x[s - (taps - 1 - k), b]` where the mask counts, else 0.
pub fn forward(
    parallel: &dyn Parallel,
    out: ViewMut<'_>,
    x: View<'_>,
    weights: View<'_>,
    mask: Option<View<'_>>,
) {
    let taps = weights.dims()[0];
    let (x, weights, mask) =
        (PositionAccess::new(x), PositionAccess::new(weights), Mask::new(mask));
    each_strip(parallel, out, |step, batch, first, sums| {
        if !mask.counts(batch, step) {
            return;
        }
        let (mut a, mut b) = ([0f32; BUFFER], [0f32; BUFFER]);
        let (a, b) = (&mut a[..sums.len()], &mut b[..sums.len()]);
        for tap in (taps - 1).saturating_sub(step)..taps {
            x.line(&[step + tap + 1 - taps, batch, first], a);
            weights.line(&[tap, first], b);
            add_products(sums, a, b);
        }
    });
}

/// The gradient of the sequence from that of the results.
pub fn grad_of_sequence(
    parallel: &dyn Parallel,
    out: ViewMut<'_>,
    grad: View<'_>,
    weights: View<'_>,
    mask: Option<View<'_>>,
) {
    let (steps, taps) = (grad.dims()[0], weights.dims()[0]);
    let (grad, weights, mask) =
        (PositionAccess::new(grad), PositionAccess::new(weights), Mask::new(mask));
    each_strip(parallel, out, |step, batch, first, sums| {
        let (mut a, mut b) = ([0f32; BUFFER], [0f32; BUFFER]);
        let (a, b) = (&mut a[..sums.len()], &mut b[..sums.len()]);
        for tap in 0..taps {
            let result = step + (taps - 1 - tap);
            if result < steps && mask.counts(batch, result) {
                grad.line(&[result, batch, first], a);
                weights.line(&[tap, first], b);
                add_products(sums, a, b);
            }
        }
    });
}

/// The gradient of the weights from that of the results.
pub fn grad_of_weights(
    parallel: &dyn Parallel,
    out: ViewMut<'_>,
    x: View<'_>,
    grad: View<'_>,
    mask: Option<View<'_>>,
) {
    /// Channels that a thread sums at a time.
    const STRIP: usize = 64;
    let [steps, batches, channels] = [0, 1, 2].map(|at| x.dims()[at]);
    let taps = out.dims()[0];
    let (x, grad, mask) = (PositionAccess::new(x), PositionAccess::new(grad), Mask::new(mask));
    let (to, strips) = (PositionAccessMut::new(out), channels.div_ceil(STRIP));
    let least = LEAST / (steps * batches * STRIP).max(1) + 1;
    split(parallel, taps * strips, 1, least, |range| {
        let (mut sums, mut a, mut b) = ([0f64; STRIP], [0f64; STRIP], [0f64; STRIP]);
        for at in range {
            let (tap, first) = (at / strips, at % strips * STRIP);
            let length = STRIP.min(channels - first);
            let (sums, a, b) = (&mut sums[..length], &mut a[..length], &mut b[..length]);
            sums.fill(0.0);
            let distance = taps - 1 - tap;
            for step in distance..steps {
                for batch in (0..batches).filter(|batch| mask.counts(*batch, step)) {
                    x.line(&[step - distance, batch, first], a);
                    grad.line(&[step, batch, first], b);
                    for (sum, (a, b)) in sums.iter_mut().zip(a.iter().zip(b.iter())) {
                        *sum += a * b;
                    }
                }
            }
            to.put_line(&[tap, first], sums);
        }
    });
}
