//! Elements divided by a power of the squares of neighbouring channels.

use super::access::{PositionAccess, PositionAccessMut};
use super::map::SMALL;
use super::math::Real;
use crate::parallel::{Parallel, split};
use crate::{Dims, View, ViewMut};

/// Positions that are computed at once.
const STRIP: usize = 256;

/// The window of channels, and what becomes of its sum of squares: `(bias + alpha * sum) ^ beta`.
#[derive(Clone, Copy, Debug)]
pub struct LocalNorm<C> {
    /// Channels before an element's own.
    pub below: usize,
    /// Channels after it.
    pub above: usize,
    /// The factor of the sum.
    pub alpha: C,
    /// What is added to it.
    pub bias: C,
    /// The exponent.
    pub beta: C,
}

/// `out = a / (bias + alpha * sum) ^ beta`, the sum over the squares of a window of channels, which are dimension 1, in `C`.
/// There are at least three dimensions. The two share no memory, and have the same sizes.
pub fn local_norm<C: Real>(
    parallel: &dyn Parallel,
    out: ViewMut<'_>,
    a: View<'_>,
    norm: LocalNorm<C>,
) {
    assert!(out.dims() == a.dims() && a.rank() >= 3);
    if out.count() == 0 {
        return;
    }
    let (dims, last) = (Dims::new(a.dims()), a.rank() - 1);
    let (channels, length) = (dims[1], dims[last]);
    let strips = length.div_ceil(STRIP);
    let lines: usize = dims[..last].iter().product();
    let (from, to) = (PositionAccess::new(a), PositionAccessMut::new(out));
    let work = STRIP.min(length) * norm.below.saturating_add(norm.above).min(channels).max(1);
    split(parallel, lines * strips, 1, SMALL.div_ceil(work), |range| {
        let (mut line, mut sums) = ([C::ZERO; STRIP], [C::ZERO; STRIP]);
        for unit in range {
            let (mut position, mut rest) = (Dims::filled(dims.len(), 0), unit / strips);
            for at in (0..last).rev() {
                position[at] = rest % dims[at];
                rest /= dims[at];
            }
            position[last] = unit % strips * STRIP;
            let count = STRIP.min(length - position[last]);
            let (line, sums) = (&mut line[..count], &mut sums[..count]);
            sums.fill(C::ZERO);
            let channel = position[1];
            let first = channel.saturating_sub(norm.below);
            let end = channel.saturating_add(norm.above).saturating_add(1).min(channels);
            for neighbour in first..end {
                position[1] = neighbour;
                from.line::<C>(&position, line);
                sums.iter_mut().zip(&*line).for_each(|(sum, x)| *sum = sum.add(x.mul(*x)));
            }
            position[1] = channel;
            from.line::<C>(&position, line);
            for (x, sum) in line.iter_mut().zip(&*sums) {
                *x = x.div(norm.bias.add(norm.alpha.mul(*sum)).power(norm.beta));
            }
            to.put_line::<C>(&position, line);
        }
    });
}
