//! Products of small matrices of `f32` in cache: the innermost loops.

/// Columns that a tile of sums has.
pub const WIDTH: usize = 16;
/// Rows that a tile of sums has, at most.
const HEIGHT: usize = 6;

/// `c = a @ b`, or `c += a @ b`. The elements of a row are contiguous and need not be aligned.
#[derive(Clone, Copy)]
pub struct Block {
    /// The left side: rows by depth.
    pub a: *const f32,
    /// Between rows of `a`.
    pub lda: usize,
    /// The right side: depth by columns.
    pub b: *const f32,
    /// Between rows of `b`.
    pub ldb: usize,
    /// The sums: rows by columns.
    pub c: *mut f32,
    /// Between rows of `c`.
    pub ldc: usize,
    /// Rows of `a` and `c`.
    pub rows: usize,
    /// Columns of `a`, rows of `b`.
    pub depth: usize,
    /// Columns of `b` and `c`: a multiple of [`WIDTH`].
    pub columns: usize,
    /// Whether products are added to the sums that are there.
    pub adds: bool,
}

impl Block {
    /// Computes it.
    ///
    /// # Safety
    /// All elements are there, those of `c` are of this thread alone, and nobody writes those of `a` and `b`.
    pub unsafe fn multiply(&self) {
        debug_assert!(self.columns.is_multiple_of(WIDTH));
        assert!(crate::kernels::strip::runs_here(), "this processor lacks AVX2, FMA or F16C");
        // SAFETY: as the caller guarantees; this processor has the features.
        unsafe { self.tiles() };
    }

    /// Computes tile by tile.
    #[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2,fma,f16c"))]
    unsafe fn tiles(&self) {
        for column in (0..self.columns).step_by(WIDTH) {
            for row in (0..self.rows).step_by(HEIGHT) {
                // SAFETY: as the caller guarantees.
                unsafe {
                    let a = self.a.wrapping_add(row * self.lda);
                    let b = self.b.wrapping_add(column);
                    let c = self.c.add(row * self.ldc + column);
                    match self.rows - row {
                        1 => self.tile::<1>(a, b, c),
                        2 => self.tile::<2>(a, b, c),
                        3 => self.tile::<3>(a, b, c),
                        4 => self.tile::<4>(a, b, c),
                        5 => self.tile::<5>(a, b, c),
                        _ => self.tile::<HEIGHT>(a, b, c),
                    }
                }
            }
        }
    }

    /// One tile of sums, in registers.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn tile<const ROWS: usize>(&self, a: *const f32, b: *const f32, c: *mut f32) {
        use std::arch::x86_64::{
            _mm256_add_ps, _mm256_fmadd_ps, _mm256_loadu_ps, _mm256_set1_ps, _mm256_setzero_ps,
            _mm256_storeu_ps,
        };
        let mut sums = [[_mm256_setzero_ps(); 2]; ROWS];
        // SAFETY: as the caller of `multiply` guarantees.
        unsafe {
            let mut line = b;
            for at in 0..self.depth {
                let (left, right) = (_mm256_loadu_ps(line), _mm256_loadu_ps(line.add(8)));
                for (row, sums) in sums.iter_mut().enumerate() {
                    let x = _mm256_set1_ps(a.add(row * self.lda + at).read_unaligned());
                    sums[0] = _mm256_fmadd_ps(x, left, sums[0]);
                    sums[1] = _mm256_fmadd_ps(x, right, sums[1]);
                }
                line = line.wrapping_add(self.ldb);
            }
            for (row, sums) in sums.iter().enumerate() {
                for (half, sum) in sums.iter().enumerate() {
                    let to = c.add(row * self.ldc + 8 * half);
                    let sum =
                        if self.adds { _mm256_add_ps(*sum, _mm256_loadu_ps(to)) } else { *sum };
                    _mm256_storeu_ps(to, sum);
                }
            }
        }
    }

    /// One tile of sums.
    #[cfg(not(target_arch = "x86_64"))]
    unsafe fn tile<const ROWS: usize>(&self, a: *const f32, b: *const f32, c: *mut f32) {
        let mut sums = [[0f32; WIDTH]; ROWS];
        // SAFETY: as the caller of `multiply` guarantees.
        unsafe {
            let mut line = b;
            for at in 0..self.depth {
                for (row, sums) in sums.iter_mut().enumerate() {
                    let x = a.add(row * self.lda + at).read_unaligned();
                    for (column, sum) in sums.iter_mut().enumerate() {
                        *sum = x.mul_add(line.add(column).read_unaligned(), *sum);
                    }
                }
                line = line.wrapping_add(self.ldb);
            }
            for (row, sums) in sums.iter().enumerate() {
                for (column, sum) in sums.iter().enumerate() {
                    let to = c.add(row * self.ldc + column);
                    let previous = if self.adds { to.read_unaligned() } else { 0.0 };
                    to.write_unaligned(*sum + previous);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_of_every_height() {
        let number = |at: usize, factor: usize| ((at * factor) % 13) as f32 - 6.0;
        for rows in 1..15 {
            for (depth, columns) in [(0, 16), (1, 16), (7, 32)] {
                let (lda, ldb, ldc) = (depth + 3, columns + 5, columns + 2);
                let a: Vec<f32> = (0..rows * lda).map(|at| number(at, 7)).collect();
                let b: Vec<f32> = (0..depth * ldb).map(|at| number(at, 5)).collect();
                for adds in [false, true] {
                    let mut c = vec![1.0; rows * ldc];
                    let (a_first, b_first, c_first) = (a.as_ptr(), b.as_ptr(), c.as_mut_ptr());
                    let block = Block {
                        a: a_first,
                        lda,
                        b: b_first,
                        ldb,
                        c: c_first,
                        ldc,
                        rows,
                        depth,
                        columns,
                        adds,
                    };
                    // SAFETY: the vectors have all of these elements.
                    unsafe { block.multiply() };
                    for row in 0..rows {
                        for column in 0..ldc {
                            let products =
                                (0..depth).map(|at| a[row * lda + at] * b[at * ldb + column]);
                            let want = match column < columns {
                                true => products.sum::<f32>() + f32::from(u8::from(adds)),
                                false => 1.0,
                            };
                            assert_eq!(c[row * ldc + column], want);
                        }
                    }
                }
            }
        }
    }
}
