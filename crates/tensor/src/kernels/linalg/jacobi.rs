//! Singular values by rotations of pairs of columns, until all are orthogonal.

use super::{Field, Stack, matrices, work};
use crate::parallel::Parallel;

/// The most passes over all pairs; matrices of a few hundred columns take about ten.
const MOST_SWEEPS: usize = 60;

/// Singular values and vectors of each matrix with `length >= columns` rows. `w` holds its columns as rows of `length`
/// elements, and has room for `basis` of them: they become the left vectors, those beyond the columns complete the
/// basis. `v` gets the `columns` right vectors as rows, `sigma` the values, the greatest first.
pub fn svd<F: Field>(
    parallel: &dyn Parallel,
    w: &Stack<'_, F>,
    v: &Stack<'_, F>,
    sigma: &Stack<'_, f64>,
    [length, columns, basis]: [usize; 3],
) {
    let work = work([10, length, columns, columns.max(1)]);
    matrices(parallel, w.count, work, |at| {
        // SAFETY: each matrix is visited once.
        let (w, v, sigma) = unsafe { (w.matrix(at), v.matrix(at), sigma.matrix(at)) };
        v.fill(F::real(0.0));
        (0..columns).for_each(|at| v[at * columns + at] = F::real(1.0));
        for _ in 0..MOST_SWEEPS {
            if !sweep(w, v, length, columns) {
                break;
            }
        }
        finish(w, v, sigma, [length, columns, basis]);
    });
}

/// Two rows of `length` elements, of which `one` is before `other`.
fn rows<F>(a: &mut [F], length: usize, one: usize, other: usize) -> (&mut [F], &mut [F]) {
    let (low, high) = a.split_at_mut(other * length);
    (&mut low[one * length..(one + 1) * length], &mut high[..length])
}

/// The sum of the products of the conjugates of `a` with `b`.
fn inner_product<F: Field>(a: &[F], b: &[F]) -> F {
    a.iter().zip(b).fold(F::real(0.0), |sum, (a, b)| sum + a.conjugate() * *b)
}

/// The square of the norm.
fn squared_norm<F: Field>(a: &[F]) -> f64 {
    a.iter().map(|one| one.square()).sum()
}

/// Makes each pair of columns orthogonal; returns whether any was not.
fn sweep<F: Field>(w: &mut [F], v: &mut [F], length: usize, columns: usize) -> bool {
    let mut rotated = false;
    for one in 0..columns {
        for other in one + 1..columns {
            let (a, b) = rows(w, length, one, other);
            let (alpha, beta, gamma) = (squared_norm(a), squared_norm(b), inner_product(a, b));
            let magnitude = gamma.magnitude();
            if magnitude.is_nan()
                || magnitude <= 1e-15 * alpha.sqrt() * beta.sqrt()
                || magnitude == 0.0
            {
                continue;
            }
            rotated = true;
            let zeta = (beta - alpha) / (2.0 * magnitude);
            let tangent = 1f64.copysign(zeta) / (zeta.abs() + (1.0 + zeta * zeta).sqrt());
            let cosine = 1.0 / (1.0 + tangent * tangent).sqrt();
            let sine = cosine * tangent;
            let phase = gamma.conjugate() / F::real(magnitude);
            rotate(a, b, cosine, sine, phase);
            let (a, b) = rows(v, columns, one, other);
            rotate(a, b, cosine, sine, phase);
        }
    }
    rotated
}

/// Rotates a pair; the second is multiplied by `phase` before.
fn rotate<F: Field>(a: &mut [F], b: &mut [F], cosine: f64, sine: f64, phase: F) {
    let (cosine, sine) = (F::real(cosine), F::real(sine));
    for (a, b) in a.iter_mut().zip(b) {
        let (x, y) = (*a, *b * phase);
        *a = cosine * x - sine * y;
        *b = sine * x + cosine * y;
    }
}

/// Norms of the columns in order, the columns scaled to norm 1, and the rest of the basis.
fn finish<F: Field>(
    w: &mut [F],
    v: &mut [F],
    sigma: &mut [f64],
    [length, columns, basis]: [usize; 3],
) {
    for (at, value) in sigma.iter_mut().enumerate().take(columns) {
        *value = squared_norm(&w[at * length..(at + 1) * length]).sqrt();
    }
    for column in 0..columns {
        let mut best = column;
        for at in column + 1..columns {
            if sigma[at] > sigma[best] {
                best = at;
            }
        }
        if best != column {
            sigma.swap(column, best);
            let (a, b) = rows(w, length, column, best);
            a.swap_with_slice(b);
            let (a, b) = rows(v, columns, column, best);
            a.swap_with_slice(b);
        }
    }
    let least = sigma.first().copied().unwrap_or(0.0) * f64::EPSILON * length as f64;
    for at in 0..basis {
        if at < columns && (sigma[at] > least || sigma[at].is_nan()) {
            let scale = F::real(1.0 / sigma[at]);
            w[at * length..(at + 1) * length].iter_mut().for_each(|one| *one = *one * scale);
        } else {
            complete_basis(w, length, at);
        }
    }
}

/// Makes a row of norm 1 that is orthogonal to all rows before it.
fn complete_basis<F: Field>(w: &mut [F], length: usize, at: usize) {
    let (before, row) = w.split_at_mut(at * length);
    let row = &mut row[..length];
    let least_square = 0.5 * (length - at.min(length)) as f64 / length.max(1) as f64;
    for start in 0..length {
        row.fill(F::real(0.0));
        row[start] = F::real(1.0);
        for _ in 0..2 {
            for other in before.chunks_exact(length) {
                let projection = inner_product(other, row);
                row.iter_mut()
                    .zip(other)
                    .for_each(|(one, other)| *one = *one - projection * *other);
            }
        }
        let square_of_norm = squared_norm(row);
        if square_of_norm >= least_square {
            let scale = F::real(1.0 / square_of_norm.sqrt());
            row.iter_mut().for_each(|one| *one = *one * scale);
            return;
        }
    }
}
