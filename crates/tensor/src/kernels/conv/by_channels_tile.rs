//! The innermost loops of convolutions vectorised over output channels, with AVX-512.

use super::is_aligned_f32;
use crate::ViewMut;
use crate::kernels::epilogue::Clipped;
use crate::kernels::strip::store_one;

/// Channels of a vector.
pub const WIDTH: usize = 16;
/// Channels that are summed together, at most.
pub const BLOCK: usize = 2 * WIDTH;
/// Positions that are summed together, at most.
pub const MAX_POSITIONS: usize = 14;

/// The operands of a tile of sums: packed weights by input channel, tap and output channel, and the elements that taps cover.
pub struct Tile<'a> {
    /// The first weight.
    pub weights: *const f32,
    /// Output channels of the packed weights: one vector or two.
    pub padded_channels: usize,
    /// The element that a tap of offset 0 covers at the first position; need not be aligned.
    pub source: *const f32,
    /// Between neighbouring positions: 1 or 2.
    pub step: usize,
    /// Input channels.
    pub inputs: usize,
    /// The distance between input channels.
    pub channel: isize,
    /// The offset of each tap.
    pub offsets: &'a [isize],
    /// What comes after these weights.
    pub ahead: Ahead,
}

/// Weights that are needed next, and asked for meanwhile, a cache line at a time: those of a block are multiplied with many
/// positions, but the first of these would wait for memory.
#[derive(Clone, Copy)]
pub struct Ahead {
    /// The first of them.
    pub first: *const f32,
    /// How many there are.
    pub count: usize,
}

impl Ahead {
    /// The part of them that one of several passes over the weights asks for: where it begins, and the step from product to product.
    fn of_pass(&self, pass: usize, products: usize) -> (*const f32, usize) {
        let start = pass * products * WIDTH;
        match start < self.count {
            true => (self.first.wrapping_add(start), WIDTH),
            false => (self.first, 0),
        }
    }
}

/// Where sums go.
pub struct Target<'a> {
    /// The output.
    pub out: &'a ViewMut<'a>,
    /// The first position of the first channel.
    pub offset: isize,
    /// Channels that are stored.
    pub channels: usize,
    /// What is added to each channel.
    pub bias: Option<[f32; BLOCK]>,
    /// What is computed of results that are stored directly.
    pub clipped: Option<Clipped<'a>>,
}

/// Whether this processor runs these loops.
pub fn runs_here() -> bool {
    #[cfg(target_arch = "x86_64")]
    return crate::kernels::strip::has_avx512();
    #[cfg(not(target_arch = "x86_64"))]
    false
}

/// Packs `rows` lines of `depth` weights, `stride` apart, as `depth` lines of `padded_channels`; what is beyond them is zero.
///
/// # Safety
/// All are there; nobody else touches the packed ones.
pub unsafe fn pack(
    from: *const f32,
    stride: isize,
    rows: usize,
    depth: usize,
    to: *mut f32,
    padded_channels: usize,
) {
    assert!(runs_here(), "this processor lacks AVX-512");
    #[cfg(target_arch = "x86_64")]
    for first in (0..padded_channels).step_by(WIDTH) {
        let rows = rows.saturating_sub(first).min(WIDTH);
        let from = from.wrapping_offset(first as isize * stride);
        // SAFETY: as the caller guarantees; this processor has the features.
        unsafe { avx512::pack(from, stride, rows, depth, to.add(first), padded_channels) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (from, stride, rows, depth, to, padded_channels);
}

impl Tile<'_> {
    /// Computes `count` positions of a line. Of all tiles that are multiplied with these weights, `first_pass` were before.
    ///
    /// # Safety
    /// Weights and covered elements are there, and the positions of these channels belong to the output and to this thread alone.
    pub unsafe fn convolve_line(&self, count: usize, target: &Target<'_>, first_pass: usize) {
        assert!(runs_here(), "this processor lacks AVX-512");
        #[cfg(target_arch = "x86_64")]
        {
            let tiles = count.div_ceil(MAX_POSITIONS);
            for at in 0..tiles {
                let (first, end) = (count * at / tiles, count * (at + 1) / tiles);
                // SAFETY: as the caller guarantees; this processor has the features.
                unsafe { avx512::convolve(self, (first, end - first), target, first_pass + at) };
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = (count, target, first_pass);
    }
}

/// Sums by position and channel.
pub type Sums = [[f32; BLOCK]; WIDTH];

impl Tile<'_> {
    /// Adds the products of up to [`MAX_POSITIONS`] positions to their sums: lines of `width` positions, given the offset of the
    /// first position of each line. Of all tiles that are multiplied with these weights, `pass` were before.
    ///
    /// # Safety
    /// Weights and covered elements are there.
    pub unsafe fn add_lines(&self, width: usize, lines: &[isize], sums: &mut Sums, pass: usize) {
        assert!(runs_here(), "this processor lacks AVX-512");
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as the caller guarantees; this processor has the features.
        unsafe {
            avx512::add_lines(self, width, lines, sums, pass);
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = (width, lines, sums, pass);
    }
}

impl Target<'_> {
    /// Stores the sums of positions at the offsets `to`.
    ///
    /// # Safety
    /// The positions of these channels belong to the output and to this thread alone.
    pub unsafe fn store_scattered(&self, sums: &Sums, to: &[isize]) {
        let (out, stride) = (self.out, self.out.strides()[2]);
        let is_aligned_f32 = is_aligned_f32(out);
        for channel in 0..self.channels {
            let bias = self.bias.map_or(0.0, |bias| bias[channel]);
            for (at, sums) in to.iter().zip(sums) {
                let offset = self.offset + channel as isize * stride + at;
                // SAFETY: as the caller guarantees.
                unsafe {
                    let to = out.first_mut().offset(offset * out.item() as isize);
                    match is_aligned_f32 {
                        true => *to.cast::<f32>() = sums[channel] + bias,
                        false => store_one(out.dtype(), to, sums[channel] + bias),
                    }
                }
            }
        }
    }
}

// Loops over registers are written as they unroll.
#[cfg(target_arch = "x86_64")]
#[allow(clippy::needless_range_loop)]
mod avx512 {
    use super::{BLOCK, MAX_POSITIONS, Sums, Target, Tile, WIDTH};
    use crate::kernels::conv::is_aligned_f32;
    use crate::kernels::epilogue::Clipped;
    use crate::kernels::prefetch::prefetch_line;
    use crate::kernels::strip::store;
    use std::arch::x86_64::{
        __m512, _mm512_add_ps, _mm512_castpd_ps, _mm512_castps_pd, _mm512_fmadd_ps,
        _mm512_loadu_ps, _mm512_mask_storeu_ps, _mm512_maskz_loadu_ps, _mm512_set1_ps,
        _mm512_setzero_ps, _mm512_shuffle_f32x4, _mm512_storeu_ps, _mm512_unpackhi_pd,
        _mm512_unpackhi_ps, _mm512_unpacklo_pd, _mm512_unpacklo_ps,
    };
    use std::mem::MaybeUninit;

    /// Computes a few positions from `first` on, and stores them.
    #[target_feature(enable = "avx512f")]
    pub unsafe fn convolve(
        tile: &Tile<'_>,
        (first, count): (usize, usize),
        target: &Target<'_>,
        pass: usize,
    ) {
        // Not cleared: as many lines are written as are read.
        let mut sums = MaybeUninit::<Sums>::uninit();
        let sums = sums.as_mut_ptr().cast::<[f32; BLOCK]>();
        let source = tile.source.wrapping_add(first * tile.step);
        macro_rules! by_count {
            ($vectors:literal, $step:literal: $($count:literal)*) => {
                match count {
                    $($count => {
                        tile_of::<$count, $vectors, $step>(tile, source, sums, pass);
                        put::<$count>(sums, first, target);
                    })*
                    _ => unreachable!("at most {MAX_POSITIONS} positions"),
                }
            };
        }
        prefetch_target(first, count, target);
        // SAFETY: as the caller guarantees.
        unsafe {
            match (tile.padded_channels / WIDTH, tile.step) {
                (1, 1) => by_count!(1, 1: 1 2 3 4 5 6 7 8 9 10 11 12 13 14),
                (1, _) => by_count!(1, 2: 1 2 3 4 5 6 7 8 9 10 11 12 13 14),
                (_, 1) => by_count!(2, 1: 1 2 3 4 5 6 7 8 9 10 11 12 13 14),
                (_, _) => by_count!(2, 2: 1 2 3 4 5 6 7 8 9 10 11 12 13 14),
            }
        }
    }

    /// Asks for the cache lines that the sums of these positions go to, so that they are there when the products are summed.
    fn prefetch_target(first: usize, count: usize, target: &Target<'_>) {
        let (out, strides) = (target.out, target.out.strides());
        let item = out.item() as isize;
        let last = target.offset + (first + count - 1) as isize * strides[5];
        let mut to = out.first_mut().wrapping_offset(last * item);
        for _ in 0..target.channels {
            prefetch_line(to);
            to = to.wrapping_offset(strides[2] * item);
        }
    }

    /// See [`Tile::add_lines`].
    #[target_feature(enable = "avx512f")]
    pub unsafe fn add_lines(
        tile: &Tile<'_>,
        width: usize,
        lines: &[isize],
        sums: &mut Sums,
        pass: usize,
    ) {
        macro_rules! by_lines {
            ($vectors:literal, $step:literal: $(($lines:literal, $width:literal))*) => {
                match (lines.len(), width) {
                    $(($lines, $width) => lines_of::<$lines, $width, $vectors, $step>(tile, lines, sums, pass),)*
                    _ => unreachable!("at most {MAX_POSITIONS} positions"),
                }
            };
            ($vectors:literal, $step:literal) => {
                by_lines!($vectors, $step:
                    (1, 1) (2, 1) (3, 1) (4, 1) (5, 1) (6, 1) (1, 2) (2, 2) (3, 2) (4, 2) (5, 2) (6, 2) (1, 3) (2, 3) (3, 3) (4, 3)
                    (1, 4) (2, 4) (3, 4) (1, 5) (2, 5) (1, 6) (2, 6) (1, 7) (2, 7) (1, 8) (1, 9) (1, 10) (1, 11))
            };
        }
        // SAFETY: as the caller guarantees.
        unsafe {
            match (tile.padded_channels / WIDTH, tile.step) {
                (1, 1) => by_lines!(1, 1),
                (1, _) => by_lines!(1, 2),
                (_, 1) => by_lines!(2, 1),
                (_, _) => by_lines!(2, 2),
            }
        }
    }

    /// `L` lines of `W` positions and `N` vectors of channels, in registers.
    #[target_feature(enable = "avx512f")]
    unsafe fn lines_of<const L: usize, const W: usize, const N: usize, const STEP: usize>(
        tile: &Tile<'_>,
        lines: &[isize],
        into: &mut Sums,
        pass: usize,
    ) {
        let lines: [isize; L] = lines.try_into().expect("as many lines as the tile has");
        let mut sums = [[[_mm512_setzero_ps(); N]; W]; L];
        for l in 0..L {
            for p in 0..W {
                for n in 0..N {
                    // SAFETY: a line of sums has two vectors.
                    sums[l][p][n] =
                        unsafe { _mm512_loadu_ps(into[l * W + p].as_ptr().add(n * WIDTH)) };
                }
            }
        }
        let (mut weights, mut channel) = (tile.weights, tile.source);
        let (mut ahead, step) = tile.ahead.of_pass(pass, tile.inputs * tile.offsets.len());
        for _ in 0..tile.inputs {
            for offset in tile.offsets {
                let from = channel.wrapping_offset(*offset);
                // SAFETY: as the caller guarantees.
                unsafe {
                    let mut w = [_mm512_setzero_ps(); N];
                    for n in 0..N {
                        w[n] = _mm512_loadu_ps(weights.add(n * WIDTH));
                    }
                    for l in 0..L {
                        let from = from.wrapping_offset(lines[l]);
                        for p in 0..W {
                            let x = _mm512_set1_ps(from.add(p * STEP).read_unaligned());
                            for n in 0..N {
                                sums[l][p][n] = _mm512_fmadd_ps(x, w[n], sums[l][p][n]);
                            }
                        }
                    }
                    weights = weights.add(N * WIDTH);
                    prefetch_line(ahead.cast());
                    ahead = ahead.wrapping_add(step);
                }
            }
            channel = channel.wrapping_offset(tile.channel);
        }
        for l in 0..L {
            for p in 0..W {
                for n in 0..N {
                    // SAFETY: a line of sums has two vectors.
                    unsafe {
                        _mm512_storeu_ps(into[l * W + p].as_mut_ptr().add(n * WIDTH), sums[l][p][n])
                    };
                }
            }
        }
    }

    /// `P` positions and `N` vectors of channels, in registers.
    #[target_feature(enable = "avx512f")]
    unsafe fn tile_of<const P: usize, const N: usize, const STEP: usize>(
        tile: &Tile<'_>,
        source: *const f32,
        into: *mut [f32; BLOCK],
        pass: usize,
    ) {
        let mut sums = [[_mm512_setzero_ps(); N]; P];
        let (mut ahead, step) = tile.ahead.of_pass(pass, tile.inputs * tile.offsets.len());
        let mut weights = tile.weights;
        let mut channel = source;
        for _ in 0..tile.inputs {
            for offset in tile.offsets {
                // SAFETY: as the caller guarantees.
                unsafe {
                    let from = channel.wrapping_offset(*offset);
                    let mut w = [_mm512_setzero_ps(); N];
                    for n in 0..N {
                        w[n] = _mm512_loadu_ps(weights.add(n * WIDTH));
                    }
                    for p in 0..P {
                        let x = _mm512_set1_ps(from.add(p * STEP).read_unaligned());
                        for n in 0..N {
                            sums[p][n] = _mm512_fmadd_ps(x, w[n], sums[p][n]);
                        }
                    }
                    weights = weights.add(N * WIDTH);
                    prefetch_line(ahead.cast());
                    ahead = ahead.wrapping_add(step);
                }
            }
            channel = channel.wrapping_offset(tile.channel);
        }
        for p in 0..P {
            for n in 0..N {
                // SAFETY: there are lines for all positions, of two vectors each.
                unsafe { _mm512_storeu_ps(into.add(p).cast::<f32>().add(n * WIDTH), sums[p][n]) };
            }
        }
    }

    /// Adds the bias to the sums of `P` positions, and stores channel by channel.
    #[target_feature(enable = "avx512f")]
    unsafe fn put<const P: usize>(sums: *const [f32; BLOCK], first: usize, target: &Target<'_>) {
        let (out, strides) = (target.out, target.out.strides());
        let stores_directly = is_aligned_f32(out) && strides[5] == 1;
        let mask = ((1u32 << P) - 1) as u16;
        for from in (0..target.channels).step_by(WIDTH) {
            let mut rows = [_mm512_setzero_ps(); WIDTH];
            // SAFETY: `tile_of` wrote the vector of these channels for each position, and the bias has two.
            unsafe {
                for p in 0..P {
                    rows[p] = _mm512_loadu_ps(sums.add(p).cast::<f32>().add(from));
                }
                if let Some(bias) = &target.bias {
                    let bias = _mm512_loadu_ps(bias.as_ptr().add(from));
                    for p in 0..P {
                        rows[p] = _mm512_add_ps(rows[p], bias);
                    }
                }
            }
            let mut lines = transposed(rows);
            let offset = target.offset + from as isize * strides[2] + first as isize * strides[5];
            if let Some(clipped) = &target.clipped {
                // SAFETY: what is added has the elements that the output has.
                unsafe {
                    clip(clipped, &mut lines, mask, (offset, strides[2]), target.channels - from)
                };
            }
            if stores_directly && target.channels - from >= WIDTH {
                // As below, in as many steps as there are vectors: they stay in registers.
                let mut to = out.first_mut().cast::<f32>().wrapping_offset(offset);
                for at in 0..WIDTH {
                    // SAFETY: the elements belong to the output and to this thread alone.
                    unsafe { _mm512_mask_storeu_ps(to, mask, lines[at]) };
                    to = to.wrapping_offset(strides[2]);
                }
                continue;
            }
            for (at, line) in lines.iter().enumerate().take(target.channels - from) {
                let offset = offset + at as isize * strides[2];
                // SAFETY: the elements belong to the output and to this thread alone.
                unsafe {
                    let to = out.first_mut().offset(offset * out.item() as isize);
                    if stores_directly {
                        _mm512_mask_storeu_ps(to.cast(), mask, *line);
                        continue;
                    }
                    let mut buffer = [0f32; WIDTH];
                    _mm512_storeu_ps(buffer.as_mut_ptr(), *line);
                    store(out.dtype(), to, strides[5], &buffer[..P]);
                }
            }
        }
    }

    /// Adds what is added to lines of results, and keeps them between the bounds: those of some `channels`, which lie `stride`
    /// apart from `offset` on.
    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn clip(
        clipped: &Clipped<'_>,
        lines: &mut [__m512; WIDTH],
        mask: u16,
        (offset, stride): (isize, isize),
        channels: usize,
    ) {
        if clipped.added(offset).is_some() {
            for (at, line) in lines.iter_mut().enumerate().take(channels) {
                if let Some(added) = clipped.added(offset + at as isize * stride) {
                    // SAFETY: as the caller guarantees; only elements of the line are loaded.
                    *line = _mm512_add_ps(*line, unsafe { _mm512_maskz_loadu_ps(mask, added) });
                }
            }
        }
        for line in lines {
            // SAFETY: the processor has these vectors.
            *line = unsafe { clipped.keep(*line) };
        }
    }

    /// See [`super::pack`]: one vector of channels.
    #[target_feature(enable = "avx512f")]
    pub unsafe fn pack(
        from: *const f32,
        stride: isize,
        rows: usize,
        depth: usize,
        to: *mut f32,
        padded_channels: usize,
    ) {
        for start in (0..depth).step_by(WIDTH) {
            let count = (depth - start).min(WIDTH);
            let mask = ((1u32 << count) - 1) as u16;
            let mut lines = [_mm512_setzero_ps(); WIDTH];
            // SAFETY: as the caller guarantees; only elements of the line are loaded.
            unsafe {
                for (row, line) in lines.iter_mut().enumerate().take(rows) {
                    let from = from.wrapping_offset(row as isize * stride).wrapping_add(start);
                    *line = _mm512_maskz_loadu_ps(mask, from);
                }
                for (at, column) in transposed(lines).iter().enumerate().take(count) {
                    _mm512_storeu_ps(to.add((start + at) * padded_channels), *column);
                }
            }
        }
    }

    /// The transpose of a square of vectors.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn transposed(lines: [__m512; WIDTH]) -> [__m512; WIDTH] {
        let zero = _mm512_setzero_ps();
        let (mut fours, mut columns) = ([zero; WIDTH], [zero; WIDTH]);
        let low =
            |a, b| _mm512_castpd_ps(_mm512_unpacklo_pd(_mm512_castps_pd(a), _mm512_castps_pd(b)));
        let high =
            |a, b| _mm512_castpd_ps(_mm512_unpackhi_pd(_mm512_castps_pd(a), _mm512_castps_pd(b)));
        for at in (0..WIDTH).step_by(4) {
            let [a, b, c, d] = [lines[at], lines[at + 1], lines[at + 2], lines[at + 3]];
            let (ab, cd) = (_mm512_unpacklo_ps(a, b), _mm512_unpacklo_ps(c, d));
            let (ab_high, cd_high) = (_mm512_unpackhi_ps(a, b), _mm512_unpackhi_ps(c, d));
            fours[at] = low(ab, cd);
            fours[at + 1] = high(ab, cd);
            fours[at + 2] = low(ab_high, cd_high);
            fours[at + 3] = high(ab_high, cd_high);
        }
        for at in 0..4 {
            let (a, b, c, d) = (fours[at], fours[4 + at], fours[8 + at], fours[12 + at]);
            let even = (_mm512_shuffle_f32x4::<0x88>(a, b), _mm512_shuffle_f32x4::<0x88>(c, d));
            let odd = (_mm512_shuffle_f32x4::<0xdd>(a, b), _mm512_shuffle_f32x4::<0xdd>(c, d));
            columns[at] = _mm512_shuffle_f32x4::<0x88>(even.0, even.1);
            columns[4 + at] = _mm512_shuffle_f32x4::<0x88>(odd.0, odd.1);
            columns[8 + at] = _mm512_shuffle_f32x4::<0xdd>(even.0, even.1);
            columns[12 + at] = _mm512_shuffle_f32x4::<0xdd>(odd.0, odd.1);
        }
        columns
    }
}
