//! Copies that transpose, tile by tile, so that both sides use whole cache lines.

use super::map::SMALL;
use super::walk::Walk;
use crate::parallel::{Parallel, split};
use crate::{View, ViewMut};

/// Elements of a side of a tile: a cache line of four-byte ones.
const TILE: usize = 16;

/// Copies `a` to `out` by tiles when the innermost dimensions of the two differ; `false`,
/// with nothing done, when they do not.
pub fn copy_transposed<T: Copy>(
    parallel: &dyn Parallel,
    walk: &Walk<2>,
    out: &ViewMut<'_>,
    a: &View<'_>,
) -> bool {
    let (dims, [to, from]) = walk.shape();
    let Some(row_dim) = dims
        .len()
        .checked_sub(2)
        .and_then(|last| (0..=last).rev().find(|at| from[*at] == 1 && dims[*at] >= TILE))
    else {
        return false;
    };
    let column_dim = dims.len() - 1;
    if to[column_dim] != 1 || dims[column_dim] < TILE {
        return false;
    }
    let (rows, columns) = (dims[row_dim], dims[column_dim]);
    let (pitch_out, pitch_a) = (to[row_dim], from[column_dim]);
    let outer: usize = dims.iter().product::<usize>() / (rows * columns);
    let (tile_rows, tile_columns) = (rows.div_ceil(TILE), columns.div_ceil(TILE));
    split(
        parallel,
        outer * tile_rows * tile_columns,
        tile_columns,
        (SMALL / (TILE * TILE)).max(1),
        |range| {
            for tile in range {
                let (mut rest, row, column) = (
                    tile / (tile_rows * tile_columns),
                    tile / tile_columns % tile_rows * TILE,
                    tile % tile_columns * TILE,
                );
                let (mut to_offset, mut from_offset) = (0isize, 0isize);
                for at in (0..column_dim).rev().filter(|at| *at != row_dim) {
                    let index = (rest % dims[at]) as isize;
                    rest /= dims[at];
                    to_offset += index * to[at];
                    from_offset += index * from[at];
                }
                to_offset += row as isize * pitch_out + column as isize;
                from_offset += column as isize * pitch_a + row as isize;
                let (height, width) = ((rows - row).min(TILE), (columns - column).min(TILE));
                // SAFETY: the tile is inside both layouts.
                unsafe {
                    let to = out.first_mut().cast::<T>().offset(to_offset);
                    let from = a.first().cast::<T>().offset(from_offset);
                    if height == TILE && width == TILE {
                        whole_tile(to, pitch_out, from, pitch_a);
                    } else {
                        part_of_tile(to, pitch_out, from, pitch_a, height, width);
                    }
                }
            }
        },
    );
    true
}

/// `out[r][c] = a[c][r]` for `height` rows and `width` columns of `out`, whose rows are `pitch_out` apart as those of `a`
/// are `pitch_a`.
///
/// # Safety
/// All of them are readable and writable.
pub(crate) unsafe fn transpose(
    out: *mut f32,
    pitch_out: usize,
    a: *const f32,
    pitch_a: usize,
    height: usize,
    width: usize,
) {
    let (pitch_out, pitch_a) = (pitch_out as isize, pitch_a as isize);
    for r in (0..height).step_by(TILE) {
        for c in (0..width).step_by(TILE) {
            let (tile_height, tile_width) = ((height - r).min(TILE), (width - c).min(TILE));
            // SAFETY: as the caller guarantees.
            unsafe {
                let out = out.offset(r as isize * pitch_out + c as isize);
                let a = a.offset(c as isize * pitch_a + r as isize);
                match (tile_height, tile_width) {
                    (TILE, TILE) => whole_tile(out, pitch_out, a, pitch_a),
                    _ => part_of_tile(out, pitch_out, a, pitch_a, tile_height, tile_width),
                }
            }
        }
    }
}

/// `out[r][c] = a[c][r]` for `height` rows and `width` columns of `out`.
///
/// # Safety
/// All of them are readable and writable.
unsafe fn part_of_tile<T: Copy>(
    out: *mut T,
    pitch_out: isize,
    a: *const T,
    pitch_a: isize,
    height: usize,
    width: usize,
) {
    for r in 0..height as isize {
        for c in 0..width as isize {
            // SAFETY: as the caller guarantees.
            unsafe {
                let value = a.offset(c * pitch_a + r).read_unaligned();
                out.offset(r * pitch_out + c).write_unaligned(value);
            }
        }
    }
}

/// As [`part_of_tile`] for a whole tile.
///
/// # Safety
/// All of it is readable and writable.
#[inline(always)]
unsafe fn whole_tile<T: Copy>(out: *mut T, pitch_out: isize, a: *const T, pitch_a: isize) {
    #[cfg(target_arch = "x86_64")]
    if size_of::<T>() == 4 && is_x86_feature_detected!("avx2") {
        for (r, c) in [(0, 0), (8, 0), (0, 8), (8, 8)] {
            // SAFETY: this processor has AVX2; a quarter of the tile, elements of four bytes.
            unsafe {
                eight_by_eight(
                    out.offset(r * pitch_out + c).cast(),
                    pitch_out,
                    a.offset(c * pitch_a + r).cast(),
                    pitch_a,
                );
            }
        }
        return;
    }
    #[cfg(target_arch = "x86_64")]
    if size_of::<T>() == 2 {
        for (r, c) in [(0, 0), (8, 0), (0, 8), (8, 8)] {
            // SAFETY: every x86-64 has SSE2; a quarter of the tile, elements of two bytes.
            unsafe {
                eight_by_eight_u16(
                    out.offset(r * pitch_out + c).cast(),
                    pitch_out,
                    a.offset(c * pitch_a + r).cast(),
                    pitch_a,
                );
            }
        }
        return;
    }
    // SAFETY: as the caller guarantees.
    unsafe { part_of_tile(out, pitch_out, a, pitch_a, TILE, TILE) };
}

/// Eight rows of eight four-byte elements, transposed in registers.
///
/// # Safety
/// All 64 are readable and writable.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn eight_by_eight(out: *mut f32, pitch_out: isize, a: *const f32, pitch_a: isize) {
    use std::arch::x86_64::*;
    let mut row = [_mm256_setzero_ps(); 8];
    for (at, slot) in row.iter_mut().enumerate() {
        // SAFETY: as the caller guarantees.
        *slot = unsafe { _mm256_loadu_ps(a.offset(at as isize * pitch_a)) };
    }
    let pairs: [__m256; 8] = std::array::from_fn(|at| match at % 2 {
        0 => _mm256_unpacklo_ps(row[at], row[at + 1]),
        _ => _mm256_unpackhi_ps(row[at - 1], row[at]),
    });
    let fours: [__m256; 8] = std::array::from_fn(|at| {
        let (half, odd, upper) = (at / 4 * 4, at % 4 / 2, at % 2);
        let (x, y) = (pairs[half + odd], pairs[half + odd + 2]);
        if upper == 0 { _mm256_shuffle_ps::<0x44>(x, y) } else { _mm256_shuffle_ps::<0xee>(x, y) }
    });
    for at in 0..4 {
        // SAFETY: as the caller guarantees.
        unsafe {
            let low = _mm256_permute2f128_ps::<0x20>(fours[at], fours[at + 4]);
            let high = _mm256_permute2f128_ps::<0x31>(fours[at], fours[at + 4]);
            _mm256_storeu_ps(out.offset(at as isize * pitch_out), low);
            _mm256_storeu_ps(out.offset((at as isize + 4) * pitch_out), high);
        }
    }
}

/// Eight rows of eight two-byte elements, transposed in registers.
///
/// # Safety
/// All 64 are readable and writable.
#[cfg(target_arch = "x86_64")]
unsafe fn eight_by_eight_u16(out: *mut u16, pitch_out: isize, a: *const u16, pitch_a: isize) {
    use std::arch::x86_64::*;
    // SAFETY: as the caller guarantees; SSE2 belongs to every x86-64.
    unsafe {
        let row: [__m128i; 8] =
            std::array::from_fn(|at| _mm_loadu_si128(a.offset(at as isize * pitch_a).cast()));
        let twos: [__m128i; 8] = std::array::from_fn(|at| match at % 2 {
            0 => _mm_unpacklo_epi16(row[at], row[at + 1]),
            _ => _mm_unpackhi_epi16(row[at - 1], row[at]),
        });
        let fours: [__m128i; 8] = std::array::from_fn(|at| {
            let (half, upper) = (at / 4 * 4, at % 4 / 2);
            let (x, y) = (twos[half + upper], twos[half + upper + 2]);
            if at % 2 == 0 { _mm_unpacklo_epi32(x, y) } else { _mm_unpackhi_epi32(x, y) }
        });
        for at in 0..4 {
            let low = _mm_unpacklo_epi64(fours[at], fours[at + 4]);
            let high = _mm_unpackhi_epi64(fours[at], fours[at + 4]);
            _mm_storeu_si128(out.offset(2 * at as isize * pitch_out).cast(), low);
            _mm_storeu_si128(out.offset((2 * at as isize + 1) * pitch_out).cast(), high);
        }
    }
}
