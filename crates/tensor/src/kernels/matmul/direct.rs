//! Products of `f32` or `f64` matrices as they are in memory.

use super::{Real, Task};
use crate::parallel::Parallel;
use gemm::Parallelism;

/// Whether all three matrices have the type to compute in, and are aligned to whole elements.
pub fn takes<C: Real>(task: &Task<'_, C>) -> bool {
    [task.out.view(), task.a, task.b]
        .iter()
        .all(|view| view.dtype() == C::DTYPE && view.address() % size_of::<C>() == 0)
}

/// See [`super::matmul`].
pub fn product<C: Real>(parallel: &dyn Parallel, task: &Task<'_, C>) {
    task.for_each_part(parallel, |batch, rows, columns| {
        let [out, a, b] = task.matrices(batch);
        // SAFETY: types and alignment were checked by `takes`; rows and columns are inside the matrices, and the
        // parts of `out` belong to one thread each.
        unsafe {
            multiply(
                (rows.len(), columns.len(), task.k),
                task.out.first_mut().cast::<C>().offset(out.at(rows.start, columns.start)),
                (out.row, out.column),
                task.a.first().cast::<C>().offset(a.at(rows.start, 0)),
                (a.row, a.column),
                task.b.first().cast::<C>().offset(b.at(0, columns.start)),
                (b.row, b.column),
                task.alpha,
                task.beta,
            );
        }
    });
}

/// `out = alpha * (a @ b) + beta * out` on this thread; strides are those of rows and columns.
///
/// # Safety
/// Every element of the three is there, aligned, and nobody else touches those of `out`.
#[allow(clippy::too_many_arguments)]
pub unsafe fn multiply<C: Real>(
    (m, n, k): (usize, usize, usize),
    out: *mut C,
    out_strides: (isize, isize),
    a: *const C,
    a_strides: (isize, isize),
    b: *const C,
    b_strides: (isize, isize),
    alpha: C,
    beta: C,
) {
    // SAFETY: as the caller guarantees.
    unsafe {
        gemm::gemm(
            m,
            n,
            k,
            out,
            out_strides.1,
            out_strides.0,
            beta != C::ZERO,
            a,
            a_strides.1,
            a_strides.0,
            b,
            b_strides.1,
            b_strides.0,
            beta,
            alpha,
            false,
            false,
            false,
            Parallelism::None,
        );
    }
}
