//! Products without `gemm`: integers, and reals that are not aligned to whole elements.

use super::{Matrix, Task};
use crate::kernels::number::Number;
use crate::kernels::strip::{STRIP, load_one, store, strip, vectorised};
use crate::parallel::Parallel;
use std::ops::Range;

/// Rows that share what is loaded of `b`.
const ROWS: usize = 4;

/// See [`super::matmul`].
pub fn product<C: Number>(parallel: &dyn Parallel, task: &Task<'_, C>) {
    task.for_each_part(parallel, |batch, rows, columns| {
        let matrices = task.matrices(batch);
        vectorised(|| {
            for first in rows.clone().step_by(ROWS) {
                let rows = first..(first + ROWS).min(rows.end);
                for start in columns.clone().step_by(STRIP) {
                    let columns = start..(start + STRIP).min(columns.end);
                    block(task, &matrices, rows.clone(), columns);
                }
            }
        });
    });
}

/// A few rows of a strip of columns.
#[inline(always)]
fn block<C: Number>(
    task: &Task<'_, C>,
    [out, a, b]: &[Matrix; 3],
    rows: Range<usize>,
    columns: Range<usize>,
) {
    let mut sums = [[C::ZERO; STRIP]; ROWS];
    let mut buffer = [C::ZERO; STRIP];
    let length = columns.len();
    for at in 0..task.k {
        // SAFETY: rows, columns and `at` are inside the matrices, which nobody writes.
        unsafe {
            let b_row =
                strip(&task.b, b.at(at, columns.start), b.column, length, true, &mut buffer);
            for (row, sums) in rows.clone().zip(&mut sums) {
                let item = task.a.item() as isize;
                let x: C = load_one(task.a.dtype(), task.a.first().offset(a.at(row, at) * item));
                for (sum, y) in sums.iter_mut().zip(b_row) {
                    *sum = sum.add(x.mul(*y));
                }
            }
        }
    }
    for (row, sums) in rows.zip(&mut sums) {
        let sums = &mut sums[..length];
        finish(task, out.at(row, columns.start), out.column, sums);
    }
}

/// Stores `alpha * sums + beta * out`.
#[inline(always)]
pub fn finish<C: Number>(task: &Task<'_, C>, offset: isize, stride: isize, sums: &mut [C]) {
    debug_assert!(sums.len() <= STRIP);
    let mut buffer = [C::ZERO; STRIP];
    if task.alpha != C::ONE {
        sums.iter_mut().for_each(|sum| *sum = task.alpha.mul(*sum));
    }
    // SAFETY: the elements belong to `out`, and to this thread alone.
    unsafe {
        if task.beta != C::ZERO {
            let previous = strip(&task.out, offset, stride, sums.len(), false, &mut buffer);
            for (sum, previous) in sums.iter_mut().zip(previous) {
                *sum = sum.add(task.beta.mul(*previous));
            }
        }
        let to = task.out.first_mut().offset(offset * task.out.item() as isize);
        store(task.out.dtype(), to, stride, sums);
    }
}
