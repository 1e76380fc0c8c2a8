//! Matrix products of any strides: `out = alpha * (a @ b) + beta * out`, batch by batch.
//!
//! Matrices of `f32` or `f64` alone go to `gemm` as they are. Half and mixed types pass through panels of
//! `f32` in the workspace ([`panels`]); few vectors read the other side once, as fast as memory gives
//! it ([`few`]; of other types and strides one at a time, [`vector`]); integers, and reals that are not aligned, take plain loops ([`plain`]). A right side that stays the same for many
//! products is packed once ([`PackedProduct`]).

mod direct;
mod few;
mod grouped;
mod packed;
mod pairs;
mod panels;
mod plain;
mod vector;

pub use grouped::{largest_scratch, product_within, scratch_type};
pub use packed::PackedProduct;
pub use panels::{Panels, panels};
pub use vector::dot;
pub(crate) use vector::dot_strips;

use super::element::{Compute, compute_type};
use super::number::Number;
use crate::parallel::{Parallel, share};
use crate::{DType, Dims, Layout, Scalar, View, ViewMut};

/// Multiply-adds that are worth another thread.
const LEAST: usize = 1 << 19;

/// `out = alpha * (a @ b) + beta * out`.
///
/// The three have the same number of dimensions, at least 2: any batch sizes (those of `out`; broadcast
/// before), then rows and columns. `out` overlaps neither `a` nor `b`, and is not read when `beta` is 0.
/// `scratch` is what [`panels`] asked for these layouts.
pub fn matmul(
    parallel: &dyn Parallel,
    out: ViewMut<'_>,
    a: View<'_>,
    b: View<'_>,
    alpha: Scalar,
    beta: Scalar,
    scratch: Option<ViewMut<'_>>,
) {
    if out.count() == 0 {
        return;
    }
    if let Some([folded_out, folded_a, folded_b]) = folded([out.layout(), a.layout(), b.layout()]) {
        let message = "the same elements";
        let (a, b) =
            (a.with_layout(folded_a).expect(message), b.with_layout(folded_b).expect(message));
        return matmul(
            parallel,
            out.with_layout(folded_out).expect(message),
            a,
            b,
            alpha,
            beta,
            scratch,
        );
    }
    match product_type(a.dtype(), b.dtype()) {
        DType::Float => {
            let task = Task::<f32>::new(out, a, b, alpha, beta);
            match few::takes(&task) {
                true => few::product(parallel, &task),
                false => typed::<f32>(parallel, out, a, b, alpha, beta, scratch),
            }
        }
        DType::Double => typed::<f64>(parallel, out, a, b, alpha, beta, scratch),
        _ => plain::product::<i64>(parallel, &Task::new(out, a, b, alpha, beta)),
    }
}

/// The type that products of these elements are summed in.
fn product_type(a: DType, b: DType) -> DType {
    let kinds = (compute_type(a), compute_type(b));
    match kinds {
        (Some(DType::Double), _) | (_, Some(DType::Double)) => DType::Double,
        (Some(DType::Float), _) | (_, Some(DType::Float)) => DType::Float,
        _ => DType::Int64,
    }
}

/// See [`matmul`]; products are summed in `C`.
fn typed<C: gemm_number::Real>(
    parallel: &dyn Parallel,
    out: ViewMut<'_>,
    a: View<'_>,
    b: View<'_>,
    alpha: Scalar,
    beta: Scalar,
    scratch: Option<ViewMut<'_>>,
) {
    let task = Task::<C>::new(out, a, b, alpha, beta);
    if task.n == 1 || task.m == 1 {
        vector::product(parallel, &task);
    } else if direct::takes(&task) {
        direct::product(parallel, &task);
    } else if let Some(scratch) =
        scratch.filter(|scratch| scratch.address().is_multiple_of(size_of::<C>()))
    {
        panels::product(parallel, &task, scratch);
    } else {
        plain::product(parallel, &task);
    }
}

/// Batches as more rows, where one right side serves them all: the layouts of `out`, `a` and `b`.
fn folded([out, a, b]: [&Layout; 3]) -> Option<[Layout; 3]> {
    let batch = out.rank() - 2;
    let is_shared = (0..batch).all(|at| b.strides()[at] == 0 || out.dims()[at] == 1);
    if batch == 0 || !is_shared {
        return None;
    }
    let rows: usize = out.dims()[..=batch].iter().product();
    let flat = |layout: &Layout| layout.reshaped(&[rows, layout.dims()[batch + 1]]);
    let right = Layout::strided(b.dtype, &b.dims()[batch..], &b.strides()[batch..], b.offset);
    Some([flat(out)?, flat(a)?, right])
}

/// One product: the matrices of each batch, and their sizes and strides.
struct Task<'a, C> {
    out: ViewMut<'a>,
    a: View<'a>,
    b: View<'a>,
    alpha: C,
    beta: C,
    batch: Dims,
    m: usize,
    n: usize,
    k: usize,
}

/// One matrix: the offset of its first element, and the strides of rows and columns, in elements.
#[derive(Clone, Copy)]
struct Matrix {
    offset: isize,
    row: isize,
    column: isize,
}

impl Matrix {
    /// The offset of an element.
    fn at(self, row: usize, column: usize) -> isize {
        self.offset + row as isize * self.row + column as isize * self.column
    }

    fn transposed(self) -> Matrix {
        Matrix { row: self.column, column: self.row, ..self }
    }
}

impl<'a, C: Compute> Task<'a, C> {
    fn new(out: ViewMut<'a>, a: View<'a>, b: View<'a>, alpha: Scalar, beta: Scalar) -> Self {
        let batch = out.rank() - 2;
        let (m, n, k) = (out.dims()[batch], out.dims()[batch + 1], a.dims()[batch + 1]);
        debug_assert!(a.dims()[batch] == m && b.dims()[batch..] == [k, n]);
        let (alpha, beta) = (C::from_scalar(alpha), C::from_scalar(beta));
        Task { out, a, b, alpha, beta, batch: Dims::new(&out.dims()[..batch]), m, n, k }
    }

    fn batches(&self) -> usize {
        self.batch.iter().product()
    }

    /// The matrices of one batch: of `out`, `a` and `b`.
    fn matrices(&self, batch: usize) -> [Matrix; 3] {
        let axis = self.batch.len();
        [self.out.layout(), self.a.layout(), self.b.layout()].map(|layout| {
            let (mut rest, mut offset) = (batch, 0);
            for at in (0..axis).rev() {
                offset += (rest % self.batch[at]) as isize * layout.strides()[at];
                rest /= self.batch[at];
            }
            Matrix { offset, row: layout.strides()[axis], column: layout.strides()[axis + 1] }
        })
    }

    /// Calls `body` with batch, rows and columns of the parts of the product, in parallel.
    fn for_each_part(
        &self,
        parallel: &dyn Parallel,
        body: impl Fn(usize, std::ops::Range<usize>, std::ops::Range<usize>) + Sync,
    ) {
        const GRAIN: usize = 24;
        let batches = self.batches();
        let work = self.m.saturating_mul(self.n).saturating_mul(self.k.max(1));
        let parts = (work.saturating_mul(batches) / LEAST).clamp(1, parallel.width());
        if parts == 1 {
            return (0..batches).for_each(|batch| body(batch, 0..self.m, 0..self.n));
        }
        if batches >= parts * 4 || batches.is_multiple_of(parts) {
            return parallel.run(parts, &|part| {
                share(batches, 1, parts, part).for_each(|batch| body(batch, 0..self.m, 0..self.n));
            });
        }
        let by_rows = self.m >= self.n;
        parallel.run(batches * parts, &|unit| {
            let (batch, part) = (unit / parts, unit % parts);
            let (rows, columns) = match by_rows {
                true => (share(self.m, GRAIN, parts, part), 0..self.n),
                false => (0..self.m, share(self.n, GRAIN, parts, part)),
            };
            if !rows.is_empty() && !columns.is_empty() {
                body(batch, rows, columns);
            }
        });
    }
}

/// The reals that `gemm` multiplies.
mod gemm_number {
    use super::Number;

    /// `f32` or `f64`.
    pub trait Real: Number {}
    impl Real for f32 {}
    impl Real for f64 {}
}
use gemm_number::Real;
