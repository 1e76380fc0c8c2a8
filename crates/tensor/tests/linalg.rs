//! Factors, inverses and solutions, multiplied out again by plain loops.

use cairn_tensor::kernels::linalg::{
    Field, Stack, Triangle, cholesky, determinant, inverse, log_determinant, qr, solve_triangular,
    svd,
};
use cairn_tensor::parallel::SingleThread;
use num_complex::Complex;
use proptest::prelude::*;
use std::cell::Cell;

type C = Complex<f64>;

/// Numbers of a type from random ones.
trait Random: Field + Default {
    fn of(re: f64, im: f64) -> Self;
}

impl Random for f64 {
    fn of(re: f64, _: f64) -> f64 {
        re
    }
}

impl Random for C {
    fn of(re: f64, im: f64) -> C {
        Complex::new(re, im)
    }
}

/// Numbers from -1 to 1.
fn random<F: Random>(count: usize, seed: u64) -> Vec<F> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1u64 << 53) as f64 * 2.0 - 1.0
    };
    (0..count).map(|_| F::of(next(), next())).collect()
}

/// Memory for a stack, with values in it.
struct StackMemory(Vec<Cell<u128>>);

impl StackMemory {
    fn new<F: Random>(values: &[F]) -> StackMemory {
        let memory = StackMemory(vec![Cell::new(0); size_of_val(values).div_ceil(16) + 1]);
        let first = memory.0.as_ptr().cast::<F>().cast_mut();
        // SAFETY: there is room for them, aligned for every number; nobody else has it.
        unsafe { std::slice::from_raw_parts_mut(first, values.len()) }.copy_from_slice(values);
        memory
    }

    fn stack<F: Field>(&self, count: usize, each: usize) -> Stack<'_, F> {
        // SAFETY: cells of bytes instead of cells of numbers.
        let bytes = unsafe {
            std::slice::from_raw_parts(self.0.as_ptr().cast::<Cell<u8>>(), self.0.len() * 16)
        };
        Stack::new(bytes, count, each).expect("room")
    }

    fn read<F: Random>(&self, count: usize) -> Vec<F> {
        // SAFETY: the numbers lie there.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr().cast::<F>(), count) }.to_vec()
    }
}

fn empty<F: Random>(count: usize) -> StackMemory {
    StackMemory::new(&vec![F::default(); count])
}

fn product<F: Random>(a: &[F], b: &[F], [m, k, n]: [usize; 3]) -> Vec<F> {
    let mut out = vec![F::default(); m * n];
    for i in 0..m {
        for j in 0..n {
            for l in 0..k {
                out[i * n + j] = out[i * n + j] + a[i * k + l] * b[l * n + j];
            }
        }
    }
    out
}

/// The conjugate transpose.
fn adjoint<F: Random>(a: &[F], m: usize, n: usize) -> Vec<F> {
    (0..m * n).map(|at| a[at % m * n + at / m].conjugate()).collect()
}

fn identity<F: Random>(n: usize) -> Vec<F> {
    (0..n * n).map(|at| F::real(f64::from(u8::from(at / n == at % n)))).collect()
}

fn assert_near<F: Random>(a: &[F], b: &[F]) {
    assert_eq!(a.len(), b.len());
    for (at, (a, b)) in a.iter().zip(b).enumerate() {
        let difference = (*a - *b).magnitude();
        assert!(difference <= 1e-8 * (1.0 + b.magnitude()), "element {at} differs by {difference}");
    }
}

/// Multiplies the factors of QR and SVD out again.
fn check_factors<F: Random>(m: usize, n: usize, seed: u64) {
    let a: Vec<F> = random(2 * m * n, seed);
    let matrices = StackMemory::new(&a);
    let (scales, left) = (empty::<F>(2 * m.min(n)), empty::<F>(2 * m * m));
    let q = left.stack::<F>(2, m * m);
    qr(
        &SingleThread,
        &matrices.stack::<F>(2, m * n),
        &scales.stack(2, m.min(n)),
        Some(&q),
        [m, n, m],
    );
    let (q, r) = (left.read::<F>(2 * m * m), matrices.read::<F>(2 * m * n));
    for at in 0..2 {
        let (q, r) = (&q[at * m * m..(at + 1) * m * m], &r[at * m * n..(at + 1) * m * n]);
        assert_near(&product(q, r, [m, m, n]), &a[at * m * n..(at + 1) * m * n]);
        assert_near(&product(&adjoint(q, m, m), q, [m, m, m]), &identity(m));
        assert!((0..m * n).all(|at| at / n <= at % n || r[at].magnitude() == 0.0));
    }

    let (length, shorter) = (m.max(n), m.min(n));
    let columns: Vec<F> = random(length * shorter, seed + 1);
    let mut rows = columns.clone();
    rows.resize(length * length, F::default());
    let (w, v, sigma) =
        (StackMemory::new(&rows), empty::<F>(shorter * shorter), empty::<f64>(shorter));
    let sizes = [length, shorter, length];
    svd(
        &SingleThread,
        &w.stack::<F>(1, length * length),
        &v.stack(1, shorter * shorter),
        &sigma.stack(1, shorter),
        sizes,
    );
    let (w, v, sigma) =
        (w.read::<F>(length * length), v.read::<F>(shorter * shorter), sigma.read::<f64>(shorter));
    assert!(sigma.windows(2).all(|pair| pair[0] >= pair[1]));
    for i in 0..length {
        for j in 0..shorter {
            let mut sum = F::default();
            for l in 0..shorter {
                sum = sum + w[l * length + i] * F::real(sigma[l]) * v[l * shorter + j].conjugate();
            }
            assert_near(&[sum], &[columns[j * length + i]]);
        }
    }
    assert_near(&product(&w, &adjoint(&w, length, length), [length; 3]), &identity(length));
}

/// Multiplies inverses, Cholesky factors and triangular solutions out again.
fn check_square<F: Random>(n: usize, columns: usize, seed: u64) {
    let mut a: Vec<F> = random(n * n, seed);
    (0..n).for_each(|at| a[at * n + at] = a[at * n + at] + F::real(2.0));
    let (matrices, out) = (StackMemory::new(&a), empty::<F>(n * n));
    inverse(&SingleThread, &matrices.stack::<F>(1, n * n), &out.stack(1, n * n), n);
    let inverted = out.read::<F>(n * n);
    assert_near(&product(&inverted, &a, [n; 3]), &identity(n));

    // The determinants of a matrix and its inverse cancel out.
    let mut logs = Vec::new();
    for matrix in [&a, &inverted] {
        let (matrices, sign, log) = (StackMemory::new(matrix), empty::<F>(1), empty::<f64>(1));
        let (sign_of, log_of) = (sign.stack::<F>(1, 1), log.stack::<f64>(1, 1));
        log_determinant(&SingleThread, &matrices.stack::<F>(1, n * n), &sign_of, &log_of, n);
        let (sign, log) = (sign.read::<F>(1)[0], log.read::<f64>(1)[0]);
        let (matrices, whole) = (StackMemory::new(matrix), empty::<F>(1));
        determinant(&SingleThread, &matrices.stack::<F>(1, n * n), &whole.stack::<F>(1, 1), n);
        let size = log.exp();
        assert_near(
            &[whole.read::<F>(1)[0] / F::real(size.max(1.0))],
            &[sign * F::real(size.min(1.0))],
        );
        logs.push((sign, log));
    }
    assert_near(&[logs[0].0 * logs[1].0], &[F::real(1.0)]);
    assert!((logs[0].1 + logs[1].1).abs() < 1e-8);

    let mut positive = product(&a, &adjoint(&a, n, n), [n; 3]);
    (0..n).for_each(|at| positive[at * n + at] = positive[at * n + at] + F::real(0.5));
    let matrices = StackMemory::new(&positive);
    assert_eq!(cholesky(&SingleThread, &matrices.stack::<F>(1, n * n), n), None);
    let lower = matrices.read::<F>(n * n);
    assert_near(&product(&lower, &adjoint(&lower, n, n), [n; 3]), &positive);
    (0..n).for_each(|at| positive[at * n + at] = F::real(-1.0));
    let matrices = StackMemory::new(&positive);
    assert_eq!(cholesky(&SingleThread, &matrices.stack::<F>(1, n * n), n), Some(0));

    let right: Vec<F> = random(n * columns, seed + 1);
    for bits in 0..16 {
        let [upper, transposed, conjugated, is_unit] = [1, 2, 4, 8].map(|bit| bits & bit != 0);
        let kind = Triangle { upper, transposed, conjugated, unit: is_unit };
        let (matrices, x) = (StackMemory::new(&a), StackMemory::new(&right));
        solve_triangular(
            &SingleThread,
            &matrices.stack::<F>(1, n * n),
            &x.stack(1, n * columns),
            [n, columns],
            kind,
        );
        let mut half: Vec<F> = (0..n * n)
            .map(|at| match at / n == at % n {
                true if is_unit => F::real(1.0),
                true => a[at],
                false if (at / n < at % n) == upper => a[at],
                false => F::default(),
            })
            .collect();
        if transposed {
            half = adjoint(&half, n, n).into_iter().map(F::conjugate).collect();
        }
        if conjugated {
            half = half.into_iter().map(F::conjugate).collect();
        }
        assert_near(&product(&half, &x.read::<F>(n * columns), [n, n, columns]), &right);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn factors_multiply_to_the_matrix(m in 1usize..7, n in 1usize..7, seed in 1u64..1000) {
        check_factors::<f64>(m, n, seed);
        check_factors::<C>(m, n, seed);
    }

    #[test]
    fn inverses_and_solutions_fulfil_their_equations(n in 1usize..4, columns in 1usize..4, seed in 1u64..1000) {
        check_square::<f64>(n, columns, seed);
        check_square::<C>(n, columns, seed);
    }
}

#[test]
fn singular_values_of_a_matrix_without_full_rank() {
    let column = [1.0, 2.0, 2.0];
    let rows: Vec<f64> =
        column.iter().copied().chain(column.map(|x| 2.0 * x)).chain([0.0; 3]).collect();
    let (w, v, sigma) = (StackMemory::new(&rows), empty::<f64>(4), empty::<f64>(2));
    svd(&SingleThread, &w.stack::<f64>(1, 9), &v.stack(1, 4), &sigma.stack(1, 2), [3, 2, 3]);
    let (w, sigma) = (w.read::<f64>(9), sigma.read::<f64>(2));
    assert_near(&sigma, &[45f64.sqrt(), 0.0]);
    assert_near(&product(&w, &adjoint(&w, 3, 3), [3; 3]), &identity(3));
}

#[test]
fn factors_of_numbers_far_from_one() {
    let (m, n) = (4, 3);
    for scale in [1e-200, 1e-160, 1e160, 1e200] {
        let values: Vec<f64> = random(m * n, 7);
        let scaled: Vec<f64> = values.iter().map(|one| one * scale).collect();
        let (a, scales, q) = (StackMemory::new(&scaled), empty::<f64>(n), empty::<f64>(m * n));
        qr(
            &SingleThread,
            &a.stack::<f64>(1, m * n),
            &scales.stack(1, n),
            Some(&q.stack(1, m * n)),
            [m, n, n],
        );
        let q = q.read::<f64>(m * n);
        let r: Vec<f64> = a.read::<f64>(n * n).iter().map(|one| one / scale).collect();
        assert_near(&product(&q, &r, [m, n, n]), &values);
        assert_near(&product(&adjoint(&q, m, n), &q, [n, m, n]), &identity(n));
    }
}
