//! The positions of a convolution's larger side that the same taps reach: what a gradient of its input goes through.

use super::Axis;

/// Positions of the larger side along one axis that the same taps reach.
#[derive(Clone, Copy, Debug)]
pub struct Class {
    /// The first of them.
    pub start: usize,
    /// How many.
    pub positions: usize,
    /// The first tap.
    pub tap: usize,
    /// The distance from one of its taps to the next.
    pub tap_stride: usize,
    /// How the taps lie over the smaller side.
    pub axis: Axis,
}

/// The positions of the larger side, `size` of them with a padding of `before` in front, by their remainder modulo the stride.
/// Those that none of the `taps` reaches are in no class. Stride and dilation are at least 1.
pub fn classes(stride: i64, dilation: i64, before: i64, size: usize, taps: usize) -> Vec<Class> {
    let tap_stride = stride / gcd(stride, dilation);
    let first_tap = |remainder: i64| {
        let limit = (taps as i64).min(tap_stride);
        (0..limit).find(|tap| (remainder + before - tap * dilation).rem_euclid(stride) == 0)
    };
    // A remainder that no tap reaches is left out: there are no more of them than taps.
    let mut remainders: Vec<i64> = (0..(taps as i64).min(tap_stride))
        .map(|tap| (tap * dilation - before).rem_euclid(stride))
        .filter(|remainder| *remainder < size as i64)
        .collect();
    remainders.sort_unstable();
    (remainders.into_iter())
        .filter_map(|remainder| {
            let tap = first_tap(remainder)?;
            let positions = (size as i64 - remainder + stride - 1) / stride;
            let axis = Axis {
                step: 1,
                first: ((remainder + before - tap * dilation) / stride) as isize,
                tap_step: -((tap_stride * dilation / stride) as isize),
                taps: (taps - tap as usize).div_ceil(tap_stride as usize),
            };
            let (start, tap) = (remainder as usize, tap as usize);
            Some(Class {
                start,
                positions: positions as usize,
                tap,
                tap_stride: tap_stride as usize,
                axis,
            })
        })
        .collect()
}

fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { gcd(b, a % b) }
}
