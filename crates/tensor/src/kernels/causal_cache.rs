//! Causal convolutions along sequences that continue what a cache holds of the steps before them, each channel by itself.
//!
//! Steps are rows, channels columns. Of a sequence the cache has a few rows, the last steps before it. A step sees itself and as
//! many steps before it as there are weights less one; the last weight is multiplied with the step itself.

use super::access::{PositionAccess, PositionAccessMut};
use crate::parallel::{Parallel, split};
use crate::{View, ViewMut};

/// Channels that are computed together.
const STRIP: usize = 256;

/// The most weights of a channel.
pub const MOST_TAPS: usize = 8;

/// A thread takes at least this many elements.
const LEAST: usize = 1 << 14;

/// One sequence: where its steps and its cached rows are.
#[derive(Clone, Copy, Debug)]
pub struct CachedSequence {
    /// Its first step.
    pub start: usize,
    /// How many steps it has.
    pub length: usize,
    /// The line of the cache that has the steps before it.
    pub read_line: usize,
    /// The line that gets its last steps.
    pub write_line: usize,
    /// How many rows of the line precede those that the first step sees; `None` where nothing is before it, which counts as 0.
    pub offset: Option<usize>,
    /// The results of this many first steps are 0.
    pub zeros: usize,
}

/// The tensors: `x` and `out` steps by channels, weights taps by channels, cache lines by rows by channels. `out` may be `x`.
#[derive(Clone, Copy)]
pub struct CachedConvolution<'a> {
    /// The steps.
    pub x: View<'a>,
    /// The weights.
    pub weights: View<'a>,
    /// The cache.
    pub cache: ViewMut<'a>,
    /// The results.
    pub out: ViewMut<'a>,
    /// Steps are added to their results.
    pub residual: bool,
}

/// Convolves all sequences, then has their last steps in the cache. `fills` says of a sequence and a number, until there is
/// none, a line of the cache and a step: the line's last rows become what that step sees before itself.
///
/// The caller has checked lines, rows and steps.
pub fn convolve(
    parallel: &dyn Parallel,
    tensors: &CachedConvolution<'_>,
    sequences: impl Fn(usize) -> Option<Option<CachedSequence>> + Sync,
    fills: impl Fn(usize, usize) -> Option<(usize, usize)> + Sync,
) {
    let (steps, channels, taps) =
        (tensors.x.dims()[0], tensors.x.dims()[1], tensors.weights.dims()[0]);
    assert!((1..=MOST_TAPS).contains(&taps));
    let (strips, rows) = (channels.div_ceil(STRIP), tensors.cache.dims()[1]);
    let (x, out) = (PositionAccess::new(tensors.x), PositionAccessMut::new(tensors.out));
    let cache = PositionAccessMut::new(tensors.cache);
    let cached = cache.positions();
    let weights = PositionAccess::new(tensors.weights);
    split(parallel, strips, 1, LEAST / (steps * STRIP).max(1) + 1, |range| {
        let mut window = [[0f32; STRIP]; MOST_TAPS];
        let (mut factors, mut line) = ([[0f32; STRIP]; MOST_TAPS], [0f32; STRIP]);
        for at in range {
            let first = at * STRIP;
            let width = STRIP.min(channels - first);
            let line = &mut line[..width];
            for (tap, factor) in factors[..taps].iter_mut().enumerate() {
                weights.line(&[tap, first], &mut factor[..width]);
            }
            let mut number = 0;
            while let Some(sequence) = sequences(number) {
                let Some(one) = sequence else {
                    number += 1;
                    continue;
                };
                let offset = one.offset.unwrap_or(0);
                // A step of the sequence with those of the cache before it, all that the first one may see included.
                let padded = |row: usize, into: &mut [f32]| {
                    let before = offset + taps - 1;
                    match (row < before, one.offset) {
                        (true, None) => into.fill(0.0),
                        (true, Some(_)) => cached.line(&[one.read_line, row, first], into),
                        (false, _) => x.line(&[one.start + row - before, first], into),
                    }
                };
                for (row, window) in window[..taps - 1].iter_mut().enumerate() {
                    padded(offset + row, &mut window[..width]);
                }
                let mut fill = 0;
                while let Some((target, step)) = fills(number, fill) {
                    for row in 0..taps - 1 {
                        padded(offset + step + row, line);
                        cache.put_line(&[target, rows - (taps - 1) + row, first], line);
                    }
                    fill += 1;
                }
                let total = offset + taps - 1 + one.length;
                let kept = rows.min(total);
                for i in 0..kept {
                    let i = if total < rows { kept - 1 - i } else { i };
                    padded(total - kept + i, line);
                    cache.put_line(&[one.write_line, rows - kept + i, first], line);
                }
                for step in 0..one.length {
                    let last = (step + taps - 1) % taps;
                    x.line(&[one.start + step, first], &mut window[last][..width]);
                    line.fill(0.0);
                    if step >= one.zeros {
                        for (tap, factor) in factors[..taps].iter().enumerate() {
                            let seen = &window[(step + tap) % taps][..width];
                            let pairs = seen.iter().zip(&factor[..width]);
                            line.iter_mut().zip(pairs).for_each(|(sum, (a, b))| *sum += a * b);
                        }
                    }
                    if tensors.residual {
                        line.iter_mut().zip(&window[last]).for_each(|(sum, x)| *sum += x);
                    }
                    out.put_line(&[one.start + step, first], line);
                }
                number += 1;
            }
        }
    });
}
