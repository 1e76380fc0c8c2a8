//! Products of small matrices of `f32`, several rows and two vectors of columns in registers at a time.
//!
//! Each sum runs along the depth in order, whatever the vectors of the processor: results do not depend on them.

use super::prefetch::prefetch_line;
use super::vector::{Vector, with_vectors};

/// Elements of a cache line.
const LINE: usize = 16;
/// Columns of a product are a multiple of this.
pub const GRAIN: usize = 16;

/// The left side of a product: where its first element is, and how far apart rows and columns are.
#[derive(Clone, Copy)]
pub struct Left {
    pub first: *const f32,
    pub row: isize,
    pub column: isize,
}

impl Left {
    /// Rows and columns exchanged.
    pub fn transposed(self) -> Left {
        Left { row: self.column, column: self.row, ..self }
    }
}

/// Rows of `f32` that are `pitch` elements apart, without gaps inside.
#[derive(Clone, Copy)]
pub struct Rows<P> {
    pub first: P,
    pub pitch: usize,
}

impl Rows<*const f32> {
    /// As the left side of a product.
    pub fn left(self) -> Left {
        Left { first: self.first, row: self.pitch as isize, column: 1 }
    }
}

/// A product to compute: rows, columns (a multiple of [`GRAIN`]) and depth, and whether it is added to what is there.
#[derive(Clone, Copy)]
pub struct Shape {
    pub rows: usize,
    pub columns: usize,
    pub depth: usize,
    pub add: bool,
}

/// `out = a @ b`, or added to it.
///
/// # Safety
/// The matrices have these sizes, and nobody else touches `out`.
pub unsafe fn product(shape: Shape, a: Left, b: Rows<*const f32>, out: Rows<*mut f32>) {
    // SAFETY: as the caller guarantees.
    unsafe { product_with_prefetch(shape, a, b, out, None) }
}

/// As [`product`]; what is `ahead` in memory, as much as the right side has, is asked for meanwhile.
///
/// # Safety
/// As of [`product`].
pub unsafe fn product_with_prefetch(
    shape: Shape,
    a: Left,
    b: Rows<*const f32>,
    out: Rows<*mut f32>,
    ahead: Option<*const f32>,
) {
    debug_assert!(shape.columns.is_multiple_of(GRAIN));
    let task = &Task { shape, a, b, out, ahead };
    // SAFETY: as the caller guarantees.
    unsafe { with_vectors!(product_by_vectors(task: &Task)) }
}

/// Whether this processor multiplies pairs of `bf16`: see [`product_of_pairs`].
pub fn multiplies_pairs() -> bool {
    #[cfg(target_arch = "x86_64")]
    return crate::kernels::strip::has_avx512() && is_x86_feature_detected!("avx512bf16");
    #[cfg(not(target_arch = "x86_64"))]
    false
}

/// As [`product`], where each element of `a` and `b` is two `bf16`, neighbours along the depth. Each of a pair's two
/// products is added with a rounding of its own, and denormal numbers count as 0.
///
/// # Safety
/// As of [`product`], and [`multiplies_pairs`] holds.
pub unsafe fn product_of_pairs(shape: Shape, a: Left, b: Rows<*const f32>, out: Rows<*mut f32>) {
    debug_assert!(shape.columns.is_multiple_of(GRAIN) && multiplies_pairs());
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx512f,avx512bf16")]
        unsafe fn with_pairs(shape: Shape, a: Left, b: Rows<*const f32>, out: Rows<*mut f32>) {
            // SAFETY: as the caller guarantees.
            unsafe { product_by_vectors::<x86::Pairs>(&Task { shape, a, b, out, ahead: None }) }
        }
        // SAFETY: as the caller guarantees.
        unsafe { with_pairs(shape, a, b, out) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = (shape, a, b, out);
        unreachable!("only x86_64 multiplies pairs of bf16 here");
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use crate::kernels::vector::Vector;
    use std::arch::x86_64::*;

    /// Sums of `f32`, and pairs of `bf16` to multiply.
    #[derive(Clone, Copy)]
    pub struct Pairs(__m512);

    // SAFETY: sixteen; the functions want AVX-512 with BF16.
    unsafe impl Vector for Pairs {
        const COUNT: usize = 16;
        #[inline(always)]
        unsafe fn load(from: *const f32) -> Self {
            // SAFETY: as the caller guarantees.
            Pairs(unsafe { _mm512_loadu_ps(from) })
        }
        #[inline(always)]
        unsafe fn store(self, to: *mut f32) {
            // SAFETY: as the caller guarantees.
            unsafe { _mm512_storeu_ps(to, self.0) }
        }
        #[inline(always)]
        unsafe fn repeated(number: f32) -> Self {
            // SAFETY: as the caller guarantees.
            Pairs(unsafe { _mm512_set1_ps(number) })
        }
        #[inline(always)]
        unsafe fn plus(self, a: Self, b: Self) -> Self {
            // SAFETY: as the caller guarantees; all three have 512 bits.
            Pairs(unsafe {
                let a = std::mem::transmute::<__m512, __m512bh>(a.0);
                let b = std::mem::transmute::<__m512, __m512bh>(b.0);
                _mm512_dpbf16_ps(self.0, a, b)
            })
        }
    }
}

/// A product with its operands.
struct Task {
    shape: Shape,
    a: Left,
    b: Rows<*const f32>,
    out: Rows<*mut f32>,
    /// What is asked for meanwhile.
    ahead: Option<*const f32>,
}

/// See [`product`].
#[inline(always)]
unsafe fn product_by_vectors<V: Vector>(task: &Task) {
    let Task { shape, a, b, out, ahead } = *task;
    let mut column = 0;
    while column < shape.columns {
        // SAFETY: as the caller guarantees; columns are a multiple of a vector.
        unsafe {
            let b = Rows { first: b.first.add(column), ..b };
            let out = Rows { first: out.first.add(column), ..out };
            let task = &Task { shape, a, b, out, ahead };
            // As many rows as leave registers for two vectors of columns and a number.
            let is_wide = shape.columns - column >= 2 * V::COUNT;
            match (V::COUNT, is_wide) {
                (16, true) => columns::<V, 12, 2>(task),
                (16, false) => columns::<V, 12, 1>(task),
                (_, true) => columns::<V, 6, 2>(task),
                (_, false) => columns::<V, 6, 1>(task),
            }
            column += if is_wide { 2 * V::COUNT } else { V::COUNT };
        }
    }
}

/// `C` vectors of columns of every row, `R` rows at a time.
#[inline(always)]
unsafe fn columns<V: Vector, const R: usize, const C: usize>(task: &Task) {
    let Task { shape, a, b, out, ahead } = *task;
    let (mut row, mut lines) = (0, ahead);
    // Two lines of memory for each depth.
    let end = ahead.map(|ahead| ahead.wrapping_add(2 * shape.depth * LINE));
    while row < shape.rows {
        let rows_left = shape.rows - row;
        // SAFETY: as the caller guarantees.
        unsafe {
            let a = Left { first: a.first.offset(row as isize * a.row), ..a };
            let out = Rows { first: out.first.add(row * out.pitch), ..out };
            let task = &Task { shape, a, b, out, ahead: lines };
            row += match rows_left {
                _ if rows_left >= R => block::<V, R, C>(task),
                4.. => block::<V, 4, C>(task),
                2.. => block::<V, 2, C>(task),
                _ => block::<V, 1, C>(task),
            };
        }
        lines = lines
            .map(|lines| lines.wrapping_add(shape.depth * LINE))
            .filter(|lines| Some(*lines) < end);
    }
}

/// `R` rows of `C` vectors. Returns `R`, the rows that are done.
#[inline(always)]
unsafe fn block<V: Vector, const R: usize, const C: usize>(task: &Task) -> usize {
    let Task { shape, a, b, out, ahead } = *task;
    // SAFETY: as the caller guarantees.
    unsafe {
        let mut sums = [[V::repeated(0.0); C]; R];
        if shape.add {
            for (row, sums) in sums.iter_mut().enumerate() {
                for (column, sum) in sums.iter_mut().enumerate() {
                    *sum = V::load(out.first.add(row * out.pitch + column * V::COUNT));
                }
            }
        }
        let (mut left, mut right) = (a.first, b.first);
        let (mut ahead, step) = ahead.map_or((right, 0), |ahead| (ahead, LINE));
        for _ in 0..shape.depth {
            let mut vectors = [V::repeated(0.0); C];
            for (column, vector) in vectors.iter_mut().enumerate() {
                *vector = V::load(right.add(column * V::COUNT));
            }
            for (row, sums) in sums.iter_mut().enumerate() {
                let number = V::repeated(*left.offset(row as isize * a.row));
                for (sum, vector) in sums.iter_mut().zip(vectors) {
                    *sum = sum.plus(number, vector);
                }
            }
            left = left.wrapping_offset(a.column);
            right = right.wrapping_add(b.pitch);
            prefetch_line(ahead.cast());
            ahead = ahead.wrapping_add(step);
        }
        for (row, sums) in sums.iter().enumerate() {
            for (column, sum) in sums.iter().enumerate() {
                sum.store(out.first.add(row * out.pitch + column * V::COUNT));
            }
        }
    }
    R
}
