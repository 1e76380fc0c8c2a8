//! What an elementwise function runs over: tensors of any strides, or a few elements that are packed.

use super::element::Compute;
use super::halves::{PIECE, Pointwise, has_one_pass, one_pass};
use super::map::{BinaryFn, LONG, TernaryFn, UnaryFn, strips1, strips2, strips3};
use super::strip::{STRIP, vectorised};
use super::walk::Walk;
use crate::parallel::Parallel;
use crate::{DType, Layout, View, ViewMut};
use std::cell::Cell;

/// Where an elementwise function finds its inputs and puts its results. An input is the output itself or does
/// not overlap it; sizes are equal (broadcast before).
pub enum ElementwiseArgs<'a, const N: usize> {
    /// Tensors, in parallel.
    Tensors(&'a dyn Parallel, ViewMut<'a>, [View<'a>; N]),
    /// A strip of packed elements.
    Strip(Packed<'a, N>),
}

/// Elements one after the other, from the first byte of each slice on: no more than a strip.
pub struct Packed<'a, const N: usize> {
    /// How many.
    pub count: usize,
    /// The results, and their type.
    pub out: (&'a [Cell<u8>], DType),
    /// The inputs, and their types.
    pub inputs: [(&'a [Cell<u8>], DType); N],
}

impl<'a, const N: usize> Packed<'a, N> {
    /// The most elements there are.
    pub const LONGEST: usize = STRIP;

    /// The first element, if the bytes hold `count` aligned elements of this type.
    fn first<C: Compute>(&self, (bytes, dtype): (&'a [Cell<u8>], DType)) -> Option<*mut C> {
        let first = bytes.as_ptr().cast_mut().cast::<C>();
        let fits = self.count <= STRIP && bytes.len() >= self.count * size_of::<C>();
        (dtype == C::DTYPE && fits && first.is_aligned()).then_some(first)
    }

    /// An input as it is, if it has this type and shares no byte with the results.
    fn input<C: Compute>(&self, at: usize) -> Option<&'a [C]> {
        let first = self.first::<C>(self.inputs[at]).filter(|_| C::DTYPE != DType::Bool)?;
        let [bytes, out] = [self.inputs[at].0, self.out.0].map(<[_]>::as_ptr_range);
        let disjoint = bytes.end <= out.start || out.end <= bytes.start;
        // SAFETY: aligned, of this type and long enough, as `first` checked; the results are elsewhere, and a kernel's
        // memory is written by nobody else.
        disjoint.then(|| unsafe { std::slice::from_raw_parts(first, self.count) })
    }

    /// The results as they are, if they have this type.
    #[allow(clippy::mut_from_ref)]
    fn results<R: Compute>(&self) -> Option<&'a mut [R]> {
        let first = self.first::<R>(self.out)?;
        // SAFETY: as in `input`; each caller asks once, and for inputs that do not overlap.
        Some(unsafe { std::slice::from_raw_parts_mut(first, self.count) })
    }

    /// The output and the inputs as tensors.
    fn tensors(&self) -> (ViewMut<'a>, [View<'a>; N]) {
        let message = "packed elements fill their bytes";
        let layout = |dtype| Layout::contiguous(dtype, &[self.count]);
        let out = ViewMut::over(self.out.0, layout(self.out.1)).expect(message);
        (out, self.inputs.map(|(bytes, dtype)| View::over(bytes, layout(dtype)).expect(message)))
    }
}

impl<'a, const N: usize> ElementwiseArgs<'a, N> {
    /// A strip of `f32`. All have the same length, at most [`Packed::LONGEST`].
    pub fn of_strip(inputs: [&'a [f32]; N], out: &'a mut [f32]) -> ElementwiseArgs<'a, N> {
        let (count, first) = (out.len(), out.as_mut_ptr().cast_const());
        assert!(count <= STRIP && inputs.iter().all(|one| one.len() == count), "equal lengths");
        let bytes = |first: *const f32| {
            // SAFETY: `count` elements, which are borrowed as long; inputs are read alone, as every function's are.
            let bytes = unsafe { std::slice::from_raw_parts(first.cast::<Cell<u8>>(), count * 4) };
            (bytes, DType::Float)
        };
        let inputs = inputs.map(|one| bytes(one.as_ptr()));
        ElementwiseArgs::Strip(Packed { count, out: bytes(first), inputs })
    }

    /// Whether results are of a half type, and enough for a piece of them.
    fn is_of_halves(&self) -> bool {
        let (dtype, count) = match self {
            ElementwiseArgs::Tensors(_, out, _) => (out.dtype(), out.count()),
            ElementwiseArgs::Strip(packed) => (packed.out.1, packed.count),
        };
        count >= PIECE && matches!(dtype, DType::Float16 | DType::Bf16)
    }

    /// Calls `run` with the tensors, or with the packed elements as tensors.
    fn with_tensors(&self, run: impl FnOnce(&dyn Parallel, ViewMut<'a>, [View<'a>; N])) {
        match self {
            ElementwiseArgs::Tensors(parallel, out, inputs) => run(*parallel, *out, *inputs),
            ElementwiseArgs::Strip(packed) => {
                let (out, inputs) = packed.tensors();
                run(&crate::parallel::SingleThread, out, inputs);
            }
        }
    }
}

impl ElementwiseArgs<'_, 1> {
    /// `out = f(a)` at each position; half types in one pass.
    pub fn apply<C: Compute, R: Compute>(&self, f: impl Pointwise<C, R, 1>) {
        if const { has_one_pass::<C, R>() } && self.is_of_halves() {
            let mut computed = false;
            self.with_tensors(|parallel, out, [a]| {
                let walk = Walk::new([out.layout(), a.layout()]);
                computed = one_pass(parallel, &walk, out, [a], f);
            });
            if computed {
                return;
            }
        }
        self.map::<C, R>(move |x| f.at([x]));
    }

    /// `out = f(a)` at each position. What `f` needs it holds by value: a number through a reference is read
    /// anew for each element, and keeps the loop from becoming vectors.
    pub fn map<A: Compute, R: Compute>(&self, f: impl Fn(A) -> R + Copy + Sync) {
        #[inline(always)]
        fn each<A: Copy, R>(f: impl Fn(A) -> R, x: &[A], to: &mut [R]) {
            for (slot, x) in to.iter_mut().zip(x) {
                *slot = f(*x);
            }
        }
        self.runs::<A, R>(LONG, &move |x, to| vectorised(move || each(f, x, to)));
    }

    /// As [`ElementwiseArgs::map`], with a function of strips: it gets at most [`STRIP`] elements and writes as many.
    pub fn strips<A: Compute, R: Compute>(&self, f: &UnaryFn<'_, A, R>) {
        self.runs(STRIP, f);
    }

    /// Calls `f` with strips of at most `longest` elements.
    fn runs<A: Compute, R: Compute>(&self, longest: usize, f: &UnaryFn<'_, A, R>) {
        if let ElementwiseArgs::Strip(packed) = self
            && let Some(x) = packed.input(0)
            && let Some(to) = packed.results()
        {
            return f(x, to);
        }
        self.with_tensors(|parallel, out, [a]| strips1::<A, R>(parallel, out, a, longest, f));
    }
}

impl ElementwiseArgs<'_, 2> {
    /// `out = f(a, b)` at each position; half types in one pass.
    pub fn apply<C: Compute, R: Compute>(&self, f: impl Pointwise<C, R, 2>) {
        if const { has_one_pass::<C, R>() } && self.is_of_halves() {
            let mut computed = false;
            self.with_tensors(|parallel, out, [a, b]| {
                let walk = Walk::new([out.layout(), a.layout(), b.layout()]);
                computed = one_pass(parallel, &walk, out, [a, b], f);
            });
            if computed {
                return;
            }
        }
        self.map::<C, C, R>(move |x, y| f.at([x, y]));
    }

    /// `out = f(a, b)` at each position.
    pub fn map<A: Compute, B: Compute, R: Compute>(&self, f: impl Fn(A, B) -> R + Copy + Sync) {
        #[inline(always)]
        fn each<A: Copy, B: Copy, R>(f: impl Fn(A, B) -> R, x: &[A], y: &[B], to: &mut [R]) {
            for ((slot, x), y) in to.iter_mut().zip(x).zip(y) {
                *slot = f(*x, *y);
            }
        }
        self.runs::<A, B, R>(LONG, &move |x, y, to| vectorised(move || each(f, x, y, to)));
    }

    /// Calls `f` with strips of at most `longest` elements.
    fn runs<A: Compute, B: Compute, R: Compute>(&self, longest: usize, f: &BinaryFn<'_, A, B, R>) {
        if let ElementwiseArgs::Strip(packed) = self
            && let (Some(x), Some(y)) = (packed.input(0), packed.input(1))
            && let Some(to) = packed.results()
        {
            return f(x, y, to);
        }
        self.with_tensors(|parallel, out, [a, b]| {
            strips2::<A, B, R>(parallel, out, a, b, longest, f)
        });
    }
}

impl ElementwiseArgs<'_, 3> {
    /// `out = f(a, b, c)` at each position; half types in one pass.
    pub fn apply<C: Compute, R: Compute>(&self, f: impl Pointwise<C, R, 3>) {
        if const { has_one_pass::<C, R>() } && self.is_of_halves() {
            let mut computed = false;
            self.with_tensors(|parallel, out, [a, b, c]| {
                let walk = Walk::new([out.layout(), a.layout(), b.layout(), c.layout()]);
                computed = one_pass(parallel, &walk, out, [a, b, c], f);
            });
            if computed {
                return;
            }
        }
        self.map::<C, C, C, R>(move |x, y, z| f.at([x, y, z]));
    }

    /// `out = f(a, b, c)` at each position.
    pub fn map<A: Compute, B: Compute, C: Compute, R: Compute>(
        &self,
        f: impl Fn(A, B, C) -> R + Copy + Sync,
    ) {
        #[inline(always)]
        fn each<A: Copy, B: Copy, C: Copy, R>(
            f: impl Fn(A, B, C) -> R,
            (x, y, z): (&[A], &[B], &[C]),
            to: &mut [R],
        ) {
            for (((slot, x), y), z) in to.iter_mut().zip(x).zip(y).zip(z) {
                *slot = f(*x, *y, *z);
            }
        }
        self.runs::<A, B, C, R>(LONG, &move |x, y, z, to| {
            vectorised(move || each(f, (x, y, z), to))
        });
    }

    /// Calls `f` with strips of at most `longest` elements.
    fn runs<A: Compute, B: Compute, C: Compute, R: Compute>(
        &self,
        longest: usize,
        f: &TernaryFn<'_, A, B, C, R>,
    ) {
        if let ElementwiseArgs::Strip(packed) = self
            && let (Some(x), Some(y), Some(z)) = (packed.input(0), packed.input(1), packed.input(2))
            && let Some(to) = packed.results()
        {
            return f(x, y, z, to);
        }
        self.with_tensors(|parallel, out, inputs| {
            strips3::<A, B, C, R>(parallel, out, inputs, longest, f)
        });
    }
}
