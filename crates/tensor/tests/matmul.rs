//! Matrix products against sums in `f64`, over sizes, strides, types and threads.

use cairn_tensor::kernels::copy::copy;
use cairn_tensor::kernels::matmul::{dot, matmul, panels};
use cairn_tensor::parallel::{Parallel, SingleThread};
use cairn_tensor::{DType, Layout, Scalar, View, ViewMut};
use proptest::prelude::*;
use std::cell::Cell;

/// A thread for each part.
struct Threads(usize);

impl Parallel for Threads {
    fn width(&self) -> usize {
        self.0
    }

    fn run(&self, parts: usize, body: &(dyn Fn(usize) + Sync)) {
        std::thread::scope(|scope| {
            (0..parts).for_each(|part| drop(scope.spawn(move || body(part))));
        });
    }
}

/// Bytes of zero.
fn bytes(count: usize) -> Vec<Cell<u8>> {
    vec![Cell::new(0); count]
}

/// Small integers, so that every type holds them and sums stay exact.
fn value(seed: usize, at: usize) -> f64 {
    ((at * 7919 + seed * 104_729) % 13) as f64 - 6.0
}

/// A tensor of these sizes in memory of its own.
struct StoredTensor {
    bytes: Vec<Cell<u8>>,
    layout: Layout,
}

impl StoredTensor {
    /// `rotation` says which dimension is outermost in memory; each dimension has gaps of `step`.
    fn new(
        dtype: DType,
        dims: &[usize],
        rotation: usize,
        step: usize,
        seed: usize,
    ) -> StoredTensor {
        let rank = dims.len();
        let order: Vec<usize> = (0..rank).map(|at| (at + rotation) % rank).collect();
        let padded_dims: Vec<usize> = order.iter().map(|at| dims[*at] * step).collect();
        let inverse: Vec<usize> =
            (0..rank).map(|at| order.iter().position(|one| *one == at).unwrap()).collect();
        let mut layout = Layout::contiguous(dtype, &padded_dims).permuted(&inverse);
        for (at, size) in dims.iter().enumerate() {
            layout = layout.sliced(at, 0, *size, step as isize);
        }
        let item = dtype.size_in_bytes().unwrap();
        let stored =
            StoredTensor { bytes: bytes(padded_dims.iter().product::<usize>() * item), layout };
        stored.fill(|at| value(seed, at));
        stored
    }

    fn view(&self) -> View<'_> {
        View::over(&self.bytes, self.layout).unwrap()
    }

    fn out(&self) -> ViewMut<'_> {
        ViewMut::over(&self.bytes, self.layout).unwrap()
    }

    fn fill(&self, f: impl Fn(usize) -> f64) {
        let plain: Vec<Cell<u8>> =
            (0..self.layout.count()).flat_map(|at| f(at).to_ne_bytes()).map(Cell::new).collect();
        let from = Layout::contiguous(DType::Double, self.layout.dims());
        copy(&SingleThread, self.out(), View::over(&plain, from).unwrap());
    }

    fn values(&self) -> Vec<f64> {
        values(self.view())
    }
}

/// The elements as `f64`.
fn values(view: View<'_>) -> Vec<f64> {
    let plain = bytes(view.count() * 8);
    copy(
        &SingleThread,
        ViewMut::over(&plain, Layout::contiguous(DType::Double, view.dims())).unwrap(),
        view,
    );
    let numbers: Vec<u8> = plain.iter().map(Cell::get).collect();
    numbers.chunks_exact(8).map(|one| f64::from_ne_bytes(one.try_into().unwrap())).collect()
}

/// The product into `out`, with the scratch that it asks for.
fn product(
    parallel: &dyn Parallel,
    out: &StoredTensor,
    a: View<'_>,
    b: View<'_>,
    alpha: f64,
    beta: f64,
) {
    let wanted_panels = panels(&out.layout, a.layout(), b.layout());
    let workspace = wanted_panels.map(|one| {
        let layout = Layout::contiguous(one.dtype(), &one.dims());
        (bytes(layout.bytes()), layout)
    });
    let scratch = workspace.as_ref().map(|(bytes, layout)| ViewMut::over(bytes, *layout).unwrap());
    matmul(parallel, out.out(), a, b, Scalar::from(alpha), Scalar::from(beta), scratch);
}

/// The product by plain sums.
fn expected(
    (batches, m, n, k): (usize, usize, usize, usize),
    (a, b, c): (&[f64], &[f64], &[f64]),
    alpha: f64,
    beta: f64,
) -> Vec<f64> {
    let mut all = Vec::new();
    for batch in 0..batches {
        for i in 0..m {
            for j in 0..n {
                let sum: f64 =
                    (0..k).map(|x| a[(batch * m + i) * k + x] * b[(batch * k + x) * n + j]).sum();
                let old = if beta == 0.0 { 0.0 } else { beta * c[(batch * m + i) * n + j] };
                all.push(alpha * sum + old);
            }
        }
    }
    all
}

fn types() -> impl Strategy<Value = DType> {
    prop::sample::select(vec![
        DType::Float,
        DType::Double,
        DType::Float16,
        DType::Bf16,
        DType::Int64,
        DType::Int32,
    ])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn as_sums_in_f64(
        (batches, m, n, k) in (0usize..4, 0usize..40, 0usize..40, 0usize..50),
        (dtype, other) in (types(), types()),
        mixed in any::<bool>(),
        rotations in (0usize..3, 0usize..3, 0usize..3),
        steps in (1usize..3, 1usize..3, 1usize..3),
        shared in any::<bool>(),
        (alpha, beta) in (-2i32..3, -2i32..3),
        width in 1usize..4,
    ) {
        let (alpha, beta) = (f64::from(alpha), f64::from(beta));
        let a = StoredTensor::new(dtype, &[batches, m, k], rotations.0, steps.0, 1);
        let other = if mixed { other } else { dtype };
        let right = if shared { 1 } else { batches };
        let b = StoredTensor::new(other, &[right, k, n], rotations.1, steps.1, 2);
        let expanded = b.layout.broadcast_to(&[batches, k, n]).unwrap();
        let b_view = View::over(&b.bytes, expanded).unwrap();
        let is_double = dtype == DType::Double || other == DType::Double;
        let out = StoredTensor::new(if is_double { DType::Double } else { DType::Float }, &[batches, m, n], rotations.2, steps.2, 3);
        let out = if mixed { out } else { StoredTensor::new(dtype, &[batches, m, n], rotations.2, steps.2, 3) };
        let before = out.values();
        if beta == 0.0 && !matches!(out.layout.dtype, DType::Int64 | DType::Int32) {
            out.fill(|_| f64::NAN);
        }
        product(&Threads(width), &out, a.view(), b_view, alpha, beta);
        let want = expected((batches, m, n, k), (&a.values(), &values(b_view), &before), alpha, beta);
        for (have, want) in out.values().iter().zip(&want) {
            let tolerance = match out.layout.dtype {
                DType::Float16 => want.abs() * 1e-3,
                DType::Bf16 => want.abs() * 8e-3,
                _ => 0.0,
            };
            prop_assert!((have - want).abs() <= tolerance, "{have} instead of {want}");
        }
    }

    #[test]
    fn vectors_of_any_length(
        length in 0usize..3000,
        dtype in types(),
        steps in (1usize..3, 1usize..3),
        rows in 1usize..3,
        width in 1usize..4,
    ) {
        let a = StoredTensor::new(dtype, &[rows, length], 0, steps.0, 1);
        let x = StoredTensor::new(dtype, &[length, 1], 0, steps.1, 2);
        let out = StoredTensor::new(DType::Double, &[rows, 1], 0, 1, 3);
        product(&Threads(width), &out, a.view(), x.view(), 1.0, 0.0);
        let want = expected((1, rows, 1, length), (&a.values(), &x.values(), &[]), 1.0, 0.0);
        prop_assert_eq!(out.values(), want.clone());
        let lines = (a.layout.at(0, 0), x.layout.at(1, 0));
        let (first, x) = (View::over(&a.bytes, lines.0).unwrap(), View::over(&x.bytes, lines.1).unwrap());
        prop_assert_eq!(dot::<f64>(&Threads(width), first, x), want[0]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(80))]

    /// Few vectors with a matrix of either order, on either side.
    #[test]
    fn few_vectors(
        (count, rows, k) in (1usize..11, 1usize..700, 1usize..2600),
        dtypes in prop::sample::select(vec![
            [DType::Float; 3],
            [DType::Float16, DType::Float16, DType::Float],
            [DType::Bf16, DType::Bf16, DType::Float],
            [DType::Float, DType::Float16, DType::Float],
        ]),
        (rotation, step) in (0usize..3, 1usize..3),
        is_left in any::<bool>(),
        (alpha, beta) in (-2i32..3, -1i32..2),
        width in 1usize..4,
    ) {
        let (alpha, beta) = (f64::from(alpha), f64::from(beta));
        let (m, n) = if is_left { (rows, count) } else { (count, rows) };
        let [first, second, out] = dtypes;
        let a = StoredTensor::new(first, &[1, m, k], if is_left { rotation } else { 0 }, step, 1);
        let b = StoredTensor::new(second, &[1, k, n], if is_left { 0 } else { rotation }, step, 2);
        let out = StoredTensor::new(out, &[1, m, n], 0, step, 3);
        let before = out.values();
        product(&Threads(width), &out, a.view(), b.view(), alpha, beta);
        let want = expected((1, m, n, k), (&a.values(), &b.values(), &before), alpha, beta);
        prop_assert_eq!(out.values(), want);
    }
}

/// Sums that are rounded, with parts that depend on the number of threads.
#[test]
fn few_vectors_are_the_same_on_any_number_of_threads() {
    for dtype in [DType::Float, DType::Float16, DType::Bf16] {
        for rotation in [0, 2] {
            for count in [1, 3, 8] {
                let (n, k) = (1300, 1100);
                let a = StoredTensor::new(dtype, &[1, count, k], 0, 1, 1);
                let b = StoredTensor::new(dtype, &[1, k, n], rotation, 1, 2);
                a.fill(|at| 1.0 / (at as f64 + 1.5));
                b.fill(|at| (at as f64).sin());
                let results = [1, 2, 5].map(|width| {
                    let out = StoredTensor::new(DType::Float, &[1, count, n], 0, 1, 3);
                    product(&Threads(width), &out, a.view(), b.view(), 1.0, 0.0);
                    out.values()
                });
                assert!(results[0] == results[1] && results[0] == results[2]);
                let want = expected((1, count, n, k), (&a.values(), &b.values(), &[]), 1.0, 0.0);
                for (have, want) in results[0].iter().zip(&want) {
                    assert!((have - want).abs() < 1e-5, "{have} instead of {want}");
                }
            }
        }
    }
}

/// Large enough to be cut among threads, in each way of computing.
#[test]
fn large_products_on_several_threads() {
    for dtype in [DType::Float, DType::Float16, DType::Bf16, DType::Int32] {
        for (batches, m, n, k) in
            [(1, 300, 130, 70), (3, 90, 200, 64), (16, 40, 60, 50), (1, 1, 700, 900)]
        {
            let a = StoredTensor::new(dtype, &[batches, m, k], 0, 1, 1);
            let b = StoredTensor::new(dtype, &[batches, k, n], 0, 1, 2);
            let out_type = if dtype == DType::Int32 { dtype } else { DType::Float };
            let out = StoredTensor::new(out_type, &[batches, m, n], 0, 1, 3);
            product(&Threads(4), &out, a.view(), b.view(), 1.0, 0.0);
            let want = expected((batches, m, n, k), (&a.values(), &b.values(), &[]), 1.0, 0.0);
            assert_eq!(out.values(), want, "{dtype} {batches} {m} {n} {k}");
        }
    }
}
