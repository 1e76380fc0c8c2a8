//! The innermost loops of the gradients of weights vectorised over output channels, with AVX-512.

use super::by_channels_tile::runs_here;

/// Sums of products of gradients, packed by position and output channel, with the input elements that a few taps read. A tap
/// here is one position of the filter in one input channel; each has a vector of sums over output channels.
pub struct FilterTile<'a> {
    /// The first gradient.
    pub grads: *const f32,
    /// Output channels of the packed gradients: one vector or two.
    pub padded_channels: usize,
    /// The input element that a tap of offset 0 reads at the first position; need not be aligned.
    pub source: *const f32,
    /// The offset of each tap; at most [`FilterTile::MAX_TAPS`].
    pub taps: &'a [isize],
    /// How many samples, and their stride.
    pub samples: (usize, isize),
    /// How many lines, and their stride.
    pub lines: (usize, isize),
    /// How many positions along a line, and their stride.
    pub positions: (usize, isize),
    /// The first sum.
    pub sums: *mut f32,
    /// The distance between the sums of two taps.
    pub stride: usize,
    /// Whether products are added to the sums that are there.
    pub adds: bool,
}

impl FilterTile<'_> {
    /// The most taps that are summed together.
    pub const MAX_TAPS: usize = 14;

    /// Computes the sums.
    ///
    /// # Safety
    /// Gradients and the elements that are read are there, and the sums are of this thread alone.
    pub unsafe fn sum(&self) {
        assert!(runs_here(), "this processor lacks AVX-512");
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as the caller guarantees; this processor has the features.
        unsafe {
            avx512::filter(self);
        }
    }
}

// Loops over registers are written as they unroll.
#[cfg(target_arch = "x86_64")]
#[allow(clippy::needless_range_loop)]
mod avx512 {
    use super::FilterTile;
    use crate::kernels::conv::by_channels_tile::WIDTH;
    use std::arch::x86_64::{
        _mm512_add_ps, _mm512_fmadd_ps, _mm512_loadu_ps, _mm512_set1_ps, _mm512_setzero_ps,
        _mm512_storeu_ps,
    };

    /// See [`FilterTile::sum`].
    #[target_feature(enable = "avx512f")]
    pub unsafe fn filter(tile: &FilterTile<'_>) {
        macro_rules! by_taps {
            ($vectors:literal: $($taps:literal)*) => {
                match tile.taps.len() {
                    $($taps => filter_of::<$taps, $vectors>(tile),)*
                    _ => unreachable!("at most {} taps", FilterTile::MAX_TAPS),
                }
            };
        }
        // SAFETY: as the caller guarantees.
        unsafe {
            match tile.padded_channels / WIDTH {
                1 => by_taps!(1: 1 2 3 4 5 6 7 8 9 10 11 12 13 14),
                _ => by_taps!(2: 1 2 3 4 5 6 7 8 9 10 11 12 13 14),
            }
        }
    }

    /// `P` taps and `N` vectors of channels, in registers.
    #[target_feature(enable = "avx512f")]
    unsafe fn filter_of<const P: usize, const N: usize>(tile: &FilterTile<'_>) {
        let taps: [isize; P] = tile.taps.try_into().expect("as many taps as the tile has");
        let mut sums = [[_mm512_setzero_ps(); N]; P];
        let mut grads = tile.grads;
        for sample in 0..tile.samples.0 as isize {
            for line in 0..tile.lines.0 as isize {
                let offset = sample * tile.samples.1 + line * tile.lines.1;
                let mut from = tile.source.wrapping_offset(offset);
                for _ in 0..tile.positions.0 {
                    // SAFETY: as the caller guarantees.
                    unsafe {
                        let mut y = [_mm512_setzero_ps(); N];
                        for n in 0..N {
                            y[n] = _mm512_loadu_ps(grads.add(n * WIDTH));
                        }
                        for p in 0..P {
                            let x = _mm512_set1_ps(from.wrapping_offset(taps[p]).read_unaligned());
                            for n in 0..N {
                                sums[p][n] = _mm512_fmadd_ps(x, y[n], sums[p][n]);
                            }
                        }
                        grads = grads.add(N * WIDTH);
                    }
                    from = from.wrapping_offset(tile.positions.1);
                }
            }
        }
        for (tap, sums) in sums.iter().enumerate() {
            for n in 0..N {
                // SAFETY: as the caller guarantees.
                unsafe {
                    let to = tile.sums.add(tap * tile.stride + n * WIDTH);
                    let sum = match tile.adds {
                        true => _mm512_add_ps(sums[n], _mm512_loadu_ps(to)),
                        false => sums[n],
                    };
                    _mm512_storeu_ps(to, sum);
                }
            }
        }
    }
}
