//! Products of small matrices of `f32`, several rows and two vectors of columns in registers at a time.
//!
//! Each sum runs along the depth in order, whatever the vectors of the processor: results do not depend on them.

use super::vector::Vector;

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
    debug_assert!(shape.columns.is_multiple_of(GRAIN));
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx512f")]
        unsafe fn with_avx512(shape: Shape, a: Left, b: Rows<*const f32>, out: Rows<*mut f32>) {
            // SAFETY: as the caller guarantees.
            unsafe { product_by_vectors::<std::arch::x86_64::__m512, 12>(shape, a, b, out) }
        }
        #[target_feature(enable = "avx2,fma")]
        unsafe fn with_avx2(shape: Shape, a: Left, b: Rows<*const f32>, out: Rows<*mut f32>) {
            // SAFETY: as the caller guarantees.
            unsafe { product_by_vectors::<std::arch::x86_64::__m256, 6>(shape, a, b, out) }
        }
        if crate::kernels::strip::has_avx512() {
            // SAFETY: this processor has AVX-512; for the matrices the caller guarantees.
            return unsafe { with_avx512(shape, a, b, out) };
        }
        assert!(crate::kernels::strip::runs_here(), "this processor lacks AVX2, FMA or F16C");
        // SAFETY: this processor has AVX2 and FMA; for the matrices the caller guarantees.
        unsafe { with_avx2(shape, a, b, out) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    // SAFETY: as the caller guarantees.
    unsafe {
        product_by_vectors::<[f32; 8], 6>(shape, a, b, out)
    }
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
            unsafe { product_by_vectors::<x86::Pairs, 12>(shape, a, b, out) }
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

/// See [`product`]; `R` rows at a time.
#[inline(always)]
unsafe fn product_by_vectors<V: Vector, const R: usize>(
    shape: Shape,
    a: Left,
    b: Rows<*const f32>,
    out: Rows<*mut f32>,
) {
    let mut column = 0;
    while column < shape.columns {
        // SAFETY: as the caller guarantees; columns are a multiple of a vector.
        unsafe {
            let b = Rows { first: b.first.add(column), ..b };
            let out = Rows { first: out.first.add(column), ..out };
            if shape.columns - column >= 2 * V::COUNT {
                columns::<V, R, 2>(shape, a, b, out);
                column += 2 * V::COUNT;
            } else {
                columns::<V, R, 1>(shape, a, b, out);
                column += V::COUNT;
            }
        }
    }
}

/// `C` vectors of columns of every row.
#[inline(always)]
unsafe fn columns<V: Vector, const R: usize, const C: usize>(
    shape: Shape,
    a: Left,
    b: Rows<*const f32>,
    out: Rows<*mut f32>,
) {
    let mut row = 0;
    while row < shape.rows {
        let rows_left = shape.rows - row;
        // SAFETY: as the caller guarantees.
        unsafe {
            let a = Left { first: a.first.offset(row as isize * a.row), ..a };
            let out = Rows { first: out.first.add(row * out.pitch), ..out };
            row += match rows_left {
                _ if rows_left >= R => block::<V, R, C>(shape, a, b, out),
                4.. => block::<V, 4, C>(shape, a, b, out),
                2.. => block::<V, 2, C>(shape, a, b, out),
                _ => block::<V, 1, C>(shape, a, b, out),
            };
        }
    }
}

/// `R` rows of `C` vectors. Returns `R`, the rows that are done.
#[inline(always)]
unsafe fn block<V: Vector, const R: usize, const C: usize>(
    shape: Shape,
    a: Left,
    b: Rows<*const f32>,
    out: Rows<*mut f32>,
) -> usize {
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
        }
        for (row, sums) in sums.iter().enumerate() {
            for (column, sum) in sums.iter().enumerate() {
                sum.store(out.first.add(row * out.pitch + column * V::COUNT));
            }
        }
    }
    R
}
