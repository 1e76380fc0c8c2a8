//! Dense linear algebra on stacks of small matrices: factors, inverses, solutions.
//!
//! Everything is computed in `f64`, or in complex numbers of it, on copies in the workspace; matrices are rows one after
//! the other. The matrices of a stack are computed in parallel, each by one thread.

mod factors;
mod jacobi;

pub use factors::{
    Triangle, cholesky, determinant, inverse, log_determinant, qr, solve_triangular,
};
pub use jacobi::svd;

use crate::kernels::element::Compute;
use crate::parallel::{Parallel, split};
use crate::view::Shared;
use crate::{Layout, ViewMut};
use num_complex::Complex;
use std::cell::Cell;
use std::marker::PhantomData;
use std::ops::{Add, Div, Mul, Neg, Sub};

/// A number of a matrix: `f64` or a complex one.
pub trait Field:
    Compute
    + PartialEq
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
{
    /// A real number.
    fn real(value: f64) -> Self;
    /// With the opposite imaginary part.
    fn conjugate(self) -> Self;
    /// The magnitude.
    fn magnitude(self) -> f64;
    /// The square of [`Field::magnitude`].
    fn square(self) -> f64;
    /// The real part.
    fn real_value(self) -> f64;
}

impl Field for f64 {
    #[inline(always)]
    fn real(value: f64) -> f64 {
        value
    }
    #[inline(always)]
    fn conjugate(self) -> f64 {
        self
    }
    #[inline(always)]
    fn magnitude(self) -> f64 {
        self.abs()
    }
    #[inline(always)]
    fn square(self) -> f64 {
        self * self
    }
    #[inline(always)]
    fn real_value(self) -> f64 {
        self
    }
}

impl Field for Complex<f64> {
    #[inline(always)]
    fn real(value: f64) -> Self {
        Complex::new(value, 0.0)
    }
    #[inline(always)]
    fn conjugate(self) -> Self {
        self.conj()
    }
    #[inline(always)]
    fn magnitude(self) -> f64 {
        self.norm()
    }
    #[inline(always)]
    fn square(self) -> f64 {
        self.norm_sqr()
    }
    #[inline(always)]
    fn real_value(self) -> f64 {
        self.re
    }
}

/// Matrices of the same size, one after the other in the workspace.
#[derive(Clone, Copy)]
pub struct Stack<'a, F> {
    bytes: Shared<'a>,
    cells: &'a [Cell<u8>],
    /// Elements of one matrix.
    each: usize,
    count: usize,
    marker: PhantomData<F>,
}

// SAFETY: an address and a length; `matrices` gives each matrix to one thread, and nothing else reads the stack while
// kernels run on it.
unsafe impl<F> Sync for Stack<'_, F> {}

impl<'a, F: Field> Stack<'a, F> {
    /// `count` matrices of `each` elements. `None` where the bytes are too few or not aligned for them.
    pub fn new(bytes: &'a [Cell<u8>], count: usize, each: usize) -> Option<Stack<'a, F>> {
        let length = count.checked_mul(each)?.checked_mul(size_of::<F>())?;
        let fits = bytes.len() >= length && bytes.as_ptr().cast::<F>().is_aligned();
        fits.then(|| Stack {
            bytes: Shared::new(bytes),
            cells: bytes,
            each,
            count,
            marker: PhantomData,
        })
    }

    /// How many matrices there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// As a tensor of these sizes, which have as many elements.
    ///
    /// # Panics
    /// If they have more.
    pub fn view(&self, dims: &[usize]) -> ViewMut<'a> {
        let layout = Layout::contiguous(F::DTYPE, dims);
        ViewMut::over(self.cells, layout).expect("a stack holds its matrices")
    }

    /// The elements of one matrix.
    ///
    /// # Safety
    /// No other thread has the same one, and this one has it once.
    #[allow(clippy::mut_from_ref)]
    pub(in crate::kernels) unsafe fn matrix(&self, at: usize) -> &'a mut [F] {
        let item = size_of::<F>();
        let bytes = self.bytes.part(at * self.each * item, self.each * item);
        // SAFETY: aligned and long enough, as `new` checked; all bytes are numbers; the caller guarantees the rest.
        unsafe { std::slice::from_raw_parts_mut(bytes.as_ptr().cast_mut().cast::<F>(), self.each) }
    }
}

/// Every element with the opposite imaginary part.
pub fn conjugate<F: Field>(parallel: &dyn Parallel, a: &Stack<'_, F>) {
    matrices(parallel, a.count, a.each, |at| {
        // SAFETY: each matrix is visited once.
        unsafe { a.matrix(at) }.iter_mut().for_each(|one| *one = one.conjugate());
    });
}

/// About as many operations as these factors make; the greatest number there is where they are more.
fn work(factors: [usize; 4]) -> usize {
    factors.into_iter().fold(1, usize::saturating_mul)
}

/// Calls `body` with each index of a stack, in parallel; a matrix takes about `work` operations.
fn matrices(parallel: &dyn Parallel, count: usize, work: usize, body: impl Fn(usize) + Sync) {
    let least = (super::map::SMALL / work.max(1)).max(1);
    split(parallel, count, 1, least, |range| range.for_each(&body));
}
