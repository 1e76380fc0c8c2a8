//! Factors by elimination and by Householder reflections.

use super::{Field, Stack, matrices, work};
use crate::parallel::Parallel;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The row of the greatest element of a column, from the diagonal down.
fn pivot<F: Field>(a: &[F], n: usize, column: usize) -> usize {
    let mut best = column;
    for row in column + 1..n {
        if a[row * n + column].magnitude() > a[best * n + column].magnitude() {
            best = row;
        }
    }
    best
}

fn swap_rows<F: Field>(a: &mut [F], n: usize, one: usize, other: usize) {
    if one != other {
        (0..n).for_each(|at| a.swap(one * n + at, other * n + at));
    }
}

/// `row -= factor * from`, in the columns from `start` on.
fn subtract<F: Field>(a: &mut [F], n: usize, row: usize, from: usize, factor: F, start: usize) {
    for at in start..n {
        a[row * n + at] = a[row * n + at] - factor * a[from * n + at];
    }
}

/// The inverse of each `n` by `n` matrix; `a` is overwritten. A singular one gives infinities and NaN.
pub fn inverse<F: Field>(parallel: &dyn Parallel, a: &Stack<'_, F>, out: &Stack<'_, F>, n: usize) {
    matrices(parallel, a.count, work([2, n, n, n]), |at| {
        // SAFETY: each matrix is visited once.
        let (a, out) = unsafe { (a.matrix(at), out.matrix(at)) };
        out.fill(F::real(0.0));
        (0..n).for_each(|at| out[at * n + at] = F::real(1.0));
        for column in 0..n {
            let best = pivot(a, n, column);
            swap_rows(a, n, column, best);
            swap_rows(out, n, column, best);
            let scale = F::real(1.0) / a[column * n + column];
            for at in 0..n {
                a[column * n + at] = a[column * n + at] * scale;
                out[column * n + at] = out[column * n + at] * scale;
            }
            for row in (0..n).filter(|row| *row != column) {
                let factor = a[row * n + column];
                if factor != F::real(0.0) {
                    subtract(a, n, row, column, factor, column);
                    subtract(out, n, row, column, factor, 0);
                }
            }
        }
    });
}

/// Each determinant; `a` is overwritten.
pub fn determinant<F: Field>(
    parallel: &dyn Parallel,
    a: &Stack<'_, F>,
    out: &Stack<'_, F>,
    n: usize,
) {
    matrices(parallel, a.count, work([1, n, n, n]), |at| {
        // SAFETY: each matrix is visited once.
        let (a, out) = unsafe { (a.matrix(at), out.matrix(at)) };
        let mut product = F::real(1.0);
        for column in 0..n {
            let best = pivot(a, n, column);
            if best != column {
                swap_rows(a, n, column, best);
                product = -product;
            }
            let diagonal = a[column * n + column];
            product = product * diagonal;
            if diagonal.magnitude() == 0.0 {
                break;
            }
            for row in column + 1..n {
                let factor = a[row * n + column] / diagonal;
                subtract(a, n, row, column, factor, column);
            }
        }
        out[0] = product;
    });
}

/// The sign of each determinant (for complex numbers its direction) and the logarithm of its magnitude; `a` is overwritten.
pub fn log_determinant<F: Field>(
    parallel: &dyn Parallel,
    a: &Stack<'_, F>,
    sign: &Stack<'_, F>,
    log: &Stack<'_, f64>,
    n: usize,
) {
    matrices(parallel, a.count, work([1, n, n, n]), |at| {
        // SAFETY: each matrix is visited once.
        let (a, sign, log) = unsafe { (a.matrix(at), sign.matrix(at), log.matrix(at)) };
        let (mut direction, mut sum) = (F::real(1.0), 0.0);
        for column in 0..n {
            let best = pivot(a, n, column);
            if best != column {
                swap_rows(a, n, column, best);
                direction = -direction;
            }
            let diagonal = a[column * n + column];
            let magnitude = diagonal.magnitude();
            sum += magnitude.ln();
            if magnitude == 0.0 {
                direction = F::real(0.0);
                break;
            }
            direction = direction * diagonal / F::real(magnitude);
            for row in column + 1..n {
                let factor = a[row * n + column] / diagonal;
                subtract(a, n, row, column, factor, column);
            }
        }
        sign[0] = direction;
        log[0] = sum;
    });
}

/// The lower factor of each symmetric (Hermitian) matrix, of which the lower half is read, in place. Returns
/// the index of the first matrix that is not positive definite.
pub fn cholesky<F: Field>(parallel: &dyn Parallel, a: &Stack<'_, F>, n: usize) -> Option<usize> {
    let bad = AtomicUsize::new(usize::MAX);
    matrices(parallel, a.count, work([1, n, n, n]) / 3, |at| {
        // SAFETY: each matrix is visited once.
        let a = unsafe { a.matrix(at) };
        for column in 0..n {
            let sum_of_squares: f64 = (0..column).map(|k| a[column * n + k].square()).sum();
            let rest = a[column * n + column].real_value() - sum_of_squares;
            if rest <= 0.0 || rest.is_nan() {
                bad.fetch_min(at, Ordering::Relaxed);
            }
            let diagonal = rest.sqrt();
            a[column * n + column] = F::real(diagonal);
            for row in column + 1..n {
                let mut sum = a[row * n + column];
                for k in 0..column {
                    sum = sum - a[row * n + k] * a[column * n + k].conjugate();
                }
                a[row * n + column] = sum / F::real(diagonal);
            }
            (column + 1..n).for_each(|at| a[column * n + at] = F::real(0.0));
        }
    });
    Some(bad.into_inner()).filter(|at| *at != usize::MAX)
}

/// The factors of each `m` by `n` matrix: `a` becomes the upper one, `q` gets the first `columns` of the unitary one, and
/// `scales` room for `min(m, n)` numbers. `q` is absent where it is not wanted.
pub fn qr<F: Field>(
    parallel: &dyn Parallel,
    a: &Stack<'_, F>,
    scales: &Stack<'_, F>,
    q: Option<&Stack<'_, F>>,
    [m, n, columns]: [usize; 3],
) {
    let reflections = m.min(n);
    matrices(parallel, a.count, work([2, m, n, reflections.max(1)]), |at| {
        // SAFETY: each matrix is visited once.
        let (a, scales) = unsafe { (a.matrix(at), scales.matrix(at)) };
        for (step, scale) in scales.iter_mut().enumerate().take(reflections) {
            *scale = reflect(a, m, n, step);
        }
        if let Some(q) = q {
            // SAFETY: as above.
            let q = unsafe { q.matrix(at) };
            q.fill(F::real(0.0));
            (0..m.min(columns)).for_each(|at| q[at * columns + at] = F::real(1.0));
            for step in (0..reflections).rev() {
                for column in 0..columns {
                    let mut sum = q[step * columns + column];
                    for row in step + 1..m {
                        sum = sum + a[row * n + step].conjugate() * q[row * columns + column];
                    }
                    let sum = scales[step] * sum;
                    q[step * columns + column] = q[step * columns + column] - sum;
                    for row in step + 1..m {
                        let at = row * columns + column;
                        q[at] = q[at] - sum * a[row * n + step];
                    }
                }
            }
        }
        for row in 1..m {
            (0..row.min(n)).for_each(|column| a[row * n + column] = F::real(0.0));
        }
    });
}

/// Makes the elements below a diagonal zero by a Householder reflection `1 - s v v'`, whose `v` takes their place; its
/// first element is 1. Returns `s`.
fn reflect<F: Field>(a: &mut [F], m: usize, n: usize, step: usize) -> F {
    let first = a[step * n + step];
    let is_zero = (step + 1..m).all(|row| a[row * n + step] == F::real(0.0));
    if is_zero && first == F::real(first.real_value()) {
        return F::real(0.0);
    }
    // Squares could overflow or vanish: elements are divided by the greatest first.
    let magnitudes = (step..m).map(|row| a[row * n + step].magnitude());
    let greatest = magnitudes.fold(0.0, f64::max);
    let greatest = if greatest.is_finite() && greatest > 0.0 { greatest } else { 1.0 };
    let scaled_square = |row: usize| (a[row * n + step].magnitude() / greatest).powi(2);
    let length = greatest * (step..m).map(scaled_square).sum::<f64>().sqrt();
    let diagonal = if first.real_value() > 0.0 { -length } else { length };
    let scale = (F::real(diagonal) - first) / F::real(diagonal);
    let factor = F::real(1.0) / (first - F::real(diagonal));
    (step + 1..m).for_each(|row| a[row * n + step] = a[row * n + step] * factor);
    a[step * n + step] = F::real(diagonal);
    for column in step + 1..n {
        let mut sum = a[step * n + column];
        for row in step + 1..m {
            sum = sum + a[row * n + step].conjugate() * a[row * n + column];
        }
        let sum = scale.conjugate() * sum;
        a[step * n + column] = a[step * n + column] - sum;
        for row in step + 1..m {
            a[row * n + column] = a[row * n + column] - sum * a[row * n + step];
        }
    }
    scale
}

/// How a triangular matrix is read.
#[derive(Clone, Copy, Debug)]
pub struct Triangle {
    /// Its upper half is read, else the lower one.
    pub upper: bool,
    /// It is transposed after that.
    pub transposed: bool,
    /// Its elements are conjugated.
    pub conjugated: bool,
    /// Its diagonal is not read, but 1.
    pub unit: bool,
}

/// Solves each triangular system: `x`, of `n` by `columns` elements, holds the right sides and becomes the solutions.
pub fn solve_triangular<F: Field>(
    parallel: &dyn Parallel,
    a: &Stack<'_, F>,
    x: &Stack<'_, F>,
    [n, columns]: [usize; 2],
    kind: Triangle,
) {
    let from_last = kind.upper != kind.transposed;
    matrices(parallel, a.count, work([1, n, n, columns]), |at| {
        // SAFETY: each matrix is visited once.
        let (a, x) = unsafe { (a.matrix(at), x.matrix(at)) };
        let element = |row: usize, column: usize| {
            let one = if kind.transposed { a[column * n + row] } else { a[row * n + column] };
            if kind.conjugated { one.conjugate() } else { one }
        };
        for step in 0..n {
            let row = if from_last { n - 1 - step } else { step };
            let solved = if from_last { row + 1..n } else { 0..row };
            for other in solved {
                subtract(x, columns, row, other, element(row, other), 0);
            }
            if !kind.unit {
                let diagonal = element(row, row);
                for at in 0..columns {
                    x[row * columns + at] = x[row * columns + at] / diagonal;
                }
            }
        }
    });
}
