//! Elementwise kernels: a function of the elements at each position.
//!
//! What visits elements is compiled once for the types it computes in; of each function only the loop over a
//! strip is its own.

use super::element::Compute;
use super::elementwise::ElementwiseArgs;
use super::strip::{STRIP, store, strip};
use super::walk::Walk;
use crate::parallel::{Parallel, split};
use crate::{DType, Scalar, View, ViewMut};
use num_complex::Complex;
use std::mem::MaybeUninit;

/// Below this many elements a kernel stays on its thread.
pub const SMALL: usize = 32 * 1024;

/// The most elements that a function gets at once where they need no conversion.
pub const LONG: usize = 4 * STRIP;

/// A function of a strip of one input: writes as many results as there are elements.
pub type UnaryFn<'f, A, R> = dyn Fn(&[A], &mut [R]) + Sync + 'f;

/// A function of strips of two inputs.
pub type BinaryFn<'f, A, B, R> = dyn Fn(&[A], &[B], &mut [R]) + Sync + 'f;

/// A function of strips of three inputs.
pub type TernaryFn<'f, A, B, C, R> = dyn Fn(&[A], &[B], &[C], &mut [R]) + Sync + 'f;

/// Has `compute` write a strip of results: straight to memory where type and stride allow it, else through `buffer`.
///
/// # Safety
/// `length` elements from `offset` on, `stride` apart, belong to the view, and nothing else is borrowed there.
#[inline(always)]
unsafe fn write_results<R: Compute>(
    out: &ViewMut<'_>,
    offset: isize,
    stride: isize,
    length: usize,
    buffer: &mut [R; STRIP],
    compute: impl FnOnce(&mut [R]),
) {
    // SAFETY: as the caller guarantees.
    let to = unsafe { out.first_mut().offset(offset * out.item() as isize) };
    if stride == 1 && out.dtype() == R::DTYPE && to.cast::<R>().is_aligned() {
        // SAFETY: same type, aligned; writable and nobody else's as the caller guarantees.
        return compute(unsafe { std::slice::from_raw_parts_mut(to.cast::<R>(), length) });
    }
    compute(&mut buffer[..length]);
    // SAFETY: as the caller guarantees.
    unsafe { store(out.dtype(), to, stride, &buffer[..length]) };
}

/// Whether results go straight to memory.
#[inline(always)]
fn writes_in_place<R: Compute>(out: &ViewMut<'_>, stride: isize) -> bool {
    stride == 1 && out.dtype() == R::DTYPE && out.first_mut().cast::<R>().is_aligned()
}

/// A buffer for a strip, not cleared.
#[inline(always)]
fn uncleared_buffer<C: Compute, const L: usize>(slot: &mut MaybeUninit<[C; L]>) -> &mut [C; L] {
    // SAFETY: numbers and booleans are loaded before they are read; all bytes zero are valid for each.
    unsafe {
        if C::DTYPE == DType::Bool {
            slot.write(std::mem::zeroed());
        }
        slot.assume_init_mut()
    }
}

/// Whether two views have a byte in common.
pub fn overlap(a: &View<'_>, b: &View<'_>) -> bool {
    let range = |view: &View<'_>| {
        let item = view.item() as isize;
        let extent = view.extent().unwrap_or(0..0);
        let first = view.address() as isize;
        first + extent.start * item..first + extent.end * item
    };
    let (a, b) = (range(a), range(b));
    !a.is_empty() && !b.is_empty() && a.start < b.end && b.start < a.end
}

/// An input of an elementwise kernel, as one thread reads it. The buffer is elsewhere: it is too large to move.
struct Source<'v, C> {
    view: &'v View<'v>,
    stride: isize,
    /// Whether strips may be borrowed from memory: they do not overlap the output.
    borrow: bool,
    /// Whether all positions are one element, of which the buffer is full.
    single: bool,
    buffer: &'v mut [C; LONG],
}

impl<'v, C: Compute> Source<'v, C> {
    /// `stride` is the innermost one of a walk over `count` positions.
    #[inline(always)]
    fn new(
        view: &'v View<'v>,
        stride: isize,
        out: &ViewMut<'_>,
        count: usize,
        slot: &'v mut MaybeUninit<[C; LONG]>,
    ) -> Source<'v, C> {
        let buffer = uncleared_buffer(slot);
        let single = view.strides().iter().zip(view.dims()).all(|(s, n)| *s == 0 || *n == 1);
        if single && count > 0 {
            // SAFETY: there is an element, and it is the only one.
            unsafe { strip(view, 0, 0, count.min(LONG), false, buffer) };
        }
        Source { view, stride, borrow: !overlap(out, view), single, buffer }
    }

    /// Whether strips can be read in place, without a load into the buffer.
    #[inline(always)]
    fn needs_no_load(&self) -> bool {
        let is_contiguous = self.borrow && self.stride == 1 && self.view.dtype() == C::DTYPE;
        let aligned = self.view.first().cast::<C>().is_aligned();
        self.single || (is_contiguous && aligned && C::DTYPE != DType::Bool)
    }

    /// The strip of `length` elements from `offset` on.
    ///
    /// # Safety
    /// They belong to the view.
    #[inline(always)]
    unsafe fn strip(&mut self, offset: isize, length: usize) -> &[C] {
        if self.single {
            return &self.buffer[..length];
        }
        // SAFETY: as the caller guarantees; what overlaps the output is not borrowed.
        unsafe { strip(self.view, offset, self.stride, length, self.borrow, self.buffer) }
    }
}

/// Sets every element to the same number.
pub fn fill<R: Compute>(parallel: &dyn Parallel, out: ViewMut<'_>, value: R) {
    let walk = Walk::new([out.layout()]);
    let [stride] = walk.inner_strides();
    split(parallel, walk.count(), STRIP, SMALL, |range| {
        let mut buffer = MaybeUninit::uninit();
        let buffer = uncleared_buffer::<R, STRIP>(&mut buffer);
        walk.runs(range, STRIP, |[offset], length| {
            // SAFETY: walks stay inside their layouts.
            unsafe { write_results(&out, offset, stride, length, buffer, |to| to.fill(value)) };
        });
    });
}

/// `out = f(a)`: [`ElementwiseArgs::map`] over tensors.
pub fn map1<A: Compute, R: Compute>(
    parallel: &dyn Parallel,
    out: ViewMut<'_>,
    a: View<'_>,
    f: impl Fn(A) -> R + Copy + Sync,
) {
    ElementwiseArgs::Tensors(parallel, out, [a]).map(f);
}

/// As [`map1`], with a function of strips: it gets at most `longest` elements ([`LONG`] or less) and writes as many.
#[inline(never)]
pub fn strips1<A: Compute, R: Compute>(
    parallel: &dyn Parallel,
    out: ViewMut<'_>,
    a: View<'_>,
    longest: usize,
    f: &UnaryFn<'_, A, R>,
) {
    let walk = Walk::new([out.layout(), a.layout()]);
    let [out_stride, a_stride] = walk.inner_strides();
    split(parallel, walk.count(), STRIP, SMALL, |range| {
        let mut out_buffer = MaybeUninit::uninit();
        let out_buffer = uncleared_buffer::<R, STRIP>(&mut out_buffer);
        let mut a_buffer = MaybeUninit::uninit();
        let mut a = Source::<A>::new(&a, a_stride, &out, range.len(), &mut a_buffer);
        let needs_no_load = a.needs_no_load() && writes_in_place::<R>(&out, out_stride);
        let longest = if needs_no_load { longest } else { longest.min(STRIP) };
        walk.runs(range, longest, |[out_offset, a_offset], length| {
            // SAFETY: walks stay inside their layouts; what overlaps is not borrowed.
            unsafe {
                let x = a.strip(a_offset, length);
                write_results(&out, out_offset, out_stride, length, out_buffer, |to| f(x, to));
            }
        });
    });
}

/// `out = f(a, b)`.
pub fn map2<A: Compute, B: Compute, R: Compute>(
    parallel: &dyn Parallel,
    out: ViewMut<'_>,
    a: View<'_>,
    b: View<'_>,
    f: impl Fn(A, B) -> R + Copy + Sync,
) {
    ElementwiseArgs::Tensors(parallel, out, [a, b]).map(f);
}

/// As [`map2`], with a function of strips.
#[inline(never)]
pub fn strips2<A: Compute, B: Compute, R: Compute>(
    parallel: &dyn Parallel,
    out: ViewMut<'_>,
    a: View<'_>,
    b: View<'_>,
    longest: usize,
    f: &BinaryFn<'_, A, B, R>,
) {
    let walk = Walk::new([out.layout(), a.layout(), b.layout()]);
    let [out_stride, a_stride, b_stride] = walk.inner_strides();
    split(parallel, walk.count(), STRIP, SMALL, |range| {
        let mut out_buffer = MaybeUninit::uninit();
        let out_buffer = uncleared_buffer::<R, STRIP>(&mut out_buffer);
        let mut a_buffer = MaybeUninit::uninit();
        let mut a = Source::<A>::new(&a, a_stride, &out, range.len(), &mut a_buffer);
        let mut b_buffer = MaybeUninit::uninit();
        let mut b = Source::<B>::new(&b, b_stride, &out, range.len(), &mut b_buffer);
        let needs_no_load =
            a.needs_no_load() && b.needs_no_load() && writes_in_place::<R>(&out, out_stride);
        let longest = if needs_no_load { longest } else { longest.min(STRIP) };
        walk.runs(range, longest, |[out_offset, a_offset, b_offset], length| {
            // SAFETY: walks stay inside their layouts; what overlaps is not borrowed.
            unsafe {
                let (x, y) = (a.strip(a_offset, length), b.strip(b_offset, length));
                write_results(&out, out_offset, out_stride, length, out_buffer, |to| f(x, y, to));
            }
        });
    });
}

/// `out = f(a, b, c)`.
pub fn map3<A: Compute, B: Compute, C: Compute, R: Compute>(
    parallel: &dyn Parallel,
    out: ViewMut<'_>,
    a: View<'_>,
    b: View<'_>,
    c: View<'_>,
    f: impl Fn(A, B, C) -> R + Copy + Sync,
) {
    ElementwiseArgs::Tensors(parallel, out, [a, b, c]).map(f);
}

/// As [`map3`], with a function of strips.
#[inline(never)]
pub fn strips3<A: Compute, B: Compute, C: Compute, R: Compute>(
    parallel: &dyn Parallel,
    out: ViewMut<'_>,
    [a, b, c]: [View<'_>; 3],
    longest: usize,
    f: &TernaryFn<'_, A, B, C, R>,
) {
    let walk = Walk::new([out.layout(), a.layout(), b.layout(), c.layout()]);
    let [out_stride, a_stride, b_stride, c_stride] = walk.inner_strides();
    split(parallel, walk.count(), STRIP, SMALL, |range| {
        let mut out_buffer = MaybeUninit::uninit();
        let out_buffer = uncleared_buffer::<R, STRIP>(&mut out_buffer);
        let mut a_buffer = MaybeUninit::uninit();
        let mut a = Source::<A>::new(&a, a_stride, &out, range.len(), &mut a_buffer);
        let mut b_buffer = MaybeUninit::uninit();
        let mut b = Source::<B>::new(&b, b_stride, &out, range.len(), &mut b_buffer);
        let mut c_buffer = MaybeUninit::uninit();
        let mut c = Source::<C>::new(&c, c_stride, &out, range.len(), &mut c_buffer);
        let needs_no_load = a.needs_no_load()
            && b.needs_no_load()
            && c.needs_no_load()
            && writes_in_place::<R>(&out, out_stride);
        let longest = if needs_no_load { longest } else { longest.min(STRIP) };
        walk.runs(range, longest, |[out_offset, a_offset, b_offset, c_offset], length| {
            // SAFETY: walks stay inside their layouts; what overlaps is not borrowed.
            unsafe {
                let (x, y, z) = (
                    a.strip(a_offset, length),
                    b.strip(b_offset, length),
                    c.strip(c_offset, length),
                );
                write_results(&out, out_offset, out_stride, length, out_buffer, |to| {
                    f(x, y, z, to)
                });
            }
        });
    });
}

/// Sets every element to a number, as the type of the tensor has it.
pub fn fill_scalar(parallel: &dyn Parallel, out: ViewMut<'_>, value: Scalar) {
    match super::element::compute_type(out.dtype().real_part()) {
        Some(DType::Double) if out.dtype().is_complex() => {
            fill(parallel, out, Complex::<f64>::from_scalar(value))
        }
        Some(_) if out.dtype().is_complex() => {
            fill(parallel, out, Complex::<f32>::from_scalar(value))
        }
        Some(DType::Float) => fill(parallel, out, f32::from_scalar(value)),
        Some(DType::Double) => fill(parallel, out, f64::from_scalar(value)),
        Some(DType::Int64) => fill(parallel, out, i64::from_scalar(value)),
        _ => fill(parallel, out, bool::from_scalar(value)),
    }
}
