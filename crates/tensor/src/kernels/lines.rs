//! Lines: all elements of several tensors along one dimension, for kernels that look at a line more than once.

use super::element::Compute;
use super::map::{SMALL, overlap};
use super::reduce::fetch;
use super::strip::{store, vectorised};
use super::walk::Walk;
use crate::parallel::{Parallel, split};
use crate::{DType, Layout, View, ViewMut};
use std::ops::Range;

/// Elements that a kernel holds of one line, or of several short ones.
pub(super) const BUFFER: usize = 2048;

/// A buffer of that length. No vector of it lies across two cache lines.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub(super) struct Buffer<C>(pub [C; BUFFER]);

/// The lines of `N` tensors of the same sizes along one dimension. A line is read before it is written, so an
/// input may be the output itself.
pub(super) struct Lines<'v, const N: usize> {
    views: [View<'v>; N],
    /// The first elements of all lines.
    others: Walk<N>,
    /// Elements of a line, and their strides.
    length: usize,
    strides: [isize; N],
    /// Which tensors have no byte in common with any other.
    disjoint: [bool; N],
    /// Neighbouring lines are closer together than the elements of one.
    pub columns: bool,
}

impl<'v, const N: usize> Lines<'v, N> {
    pub fn new(views: [View<'v>; N], dim: usize) -> Lines<'v, N> {
        let views = views.map(|view| match view.rank() {
            0 => view.with_layout(view.layout().with(0)).expect("one element"),
            _ => view,
        });
        let others: [Layout; N] = views.map(|view| view.layout().without(dim));
        let others = Walk::new(std::array::from_fn(|i| &others[i]));
        let strides = views.map(|view| view.strides()[dim]);
        let length = views[0].dims()[dim];
        let line_stride = others.inner_strides()[0].abs();
        let columns =
            length > 1 && others.inner() > 1 && line_stride != 0 && line_stride < strides[0].abs();
        let disjoint =
            std::array::from_fn(|i| (0..N).all(|j| i == j || !overlap(&views[i], &views[j])));
        Lines { views, others, length, strides, disjoint, columns }
    }

    /// The number of elements of a line.
    pub fn length(&self) -> usize {
        self.length
    }

    /// Calls `body` with ranges of lines, in parallel.
    pub fn for_each_range(&self, parallel: &dyn Parallel, body: impl Fn(Range<usize>) + Sync) {
        let grain = if self.columns { 16 } else { 1 };
        let least = (SMALL / 8 / self.length.max(1)).max(grain);
        split(parallel, self.others.count(), grain, least, |range| vectorised(|| body(range)));
    }

    /// Calls `visit` with the offsets of each line of a range.
    #[inline(always)]
    pub fn each(&self, range: Range<usize>, mut visit: impl FnMut([isize; N])) {
        let steps = self.others.inner_strides();
        for (offsets, count) in self.others.steps(range, usize::MAX) {
            for i in 0..count as isize {
                visit(std::array::from_fn(|at| offsets[at] + i * steps[at]));
            }
        }
    }

    /// Calls `visit` with the offsets of the first of at most `most` neighbouring lines, and their number.
    #[inline(always)]
    pub fn groups(
        &self,
        range: Range<usize>,
        most: usize,
        mut visit: impl FnMut([isize; N], usize),
    ) {
        self.others.steps(range, most).for_each(|(offsets, width)| visit(offsets, width));
    }

    /// Loads elements `from..` of the line at `offsets` of one tensor.
    #[inline(always)]
    pub fn load<C: Compute>(&self, which: usize, offsets: [isize; N], from: usize, into: &mut [C]) {
        debug_assert!(from + into.len() <= self.length);
        let (view, stride) = (&self.views[which], self.strides[which]);
        let offset = offsets[which] + from as isize * stride;
        // SAFETY: inside the line, which the walk took from the view.
        unsafe { fetch(view.dtype(), at(view, offset), stride, into) };
    }

    /// As many elements as `buffer` has from `from` on: borrowed from memory where their type and stride allow
    /// it and no other tensor overlaps, else loaded into `buffer`.
    #[inline(always)]
    pub fn line<'s, C: Compute>(
        &'s self,
        which: usize,
        offsets: [isize; N],
        from: usize,
        buffer: &'s mut [C],
    ) -> &'s [C] {
        debug_assert!(from + buffer.len() <= self.length);
        let view = &self.views[which];
        if self.disjoint[which] && self.can_borrow::<C>(which) {
            // SAFETY: inside the line, which the walk took from the view.
            let first = unsafe { at(view, offsets[which] + from as isize) }.cast::<C>();
            if first.is_aligned() {
                // SAFETY: elements of this type, which nobody writes: no other tensor has them.
                return unsafe { std::slice::from_raw_parts(first, buffer.len()) };
            }
        }
        self.load(which, offsets, from, buffer);
        buffer
    }

    /// Whether elements of a line lie in memory as `C`, one after the other.
    fn can_borrow<C: Compute>(&self, which: usize) -> bool {
        let same_type = self.views[which].dtype() == C::DTYPE && C::DTYPE != DType::Bool;
        same_type && self.strides[which] == 1
    }

    /// Writes elements `from..` of a line of the output, which is the tensor `which`: `compute` gets their memory
    /// where its type and stride allow it, else `buffer`, and writes all of it without reading.
    #[inline(always)]
    pub fn write_line<C: Compute, R>(
        &self,
        out: &ViewMut<'_>,
        which: usize,
        offsets: [isize; N],
        from: usize,
        buffer: &mut [C],
        compute: impl FnOnce(&mut [C]) -> R,
    ) -> R {
        debug_assert!(out.address() == self.views[which].address());
        debug_assert!(from + buffer.len() <= self.length);
        if self.can_borrow::<C>(which) {
            // SAFETY: inside the line, and `out` is that view.
            let first = unsafe { at(out, offsets[which] + from as isize) }.cast_mut().cast::<C>();
            if first.is_aligned() {
                // SAFETY: elements of this type; each line is written by one thread, and what was borrowed from
                // other tensors does not overlap it.
                return compute(unsafe { std::slice::from_raw_parts_mut(first, buffer.len()) });
            }
        }
        let result = compute(buffer);
        self.store(out, which, offsets, from, buffer);
        result
    }

    /// Loads the elements at one index of neighbouring lines of one tensor.
    #[inline(always)]
    pub fn load_row<C: Compute>(
        &self,
        which: usize,
        offsets: [isize; N],
        index: usize,
        into: &mut [C],
    ) {
        let (view, stride) = (&self.views[which], self.others.inner_strides()[which]);
        let offset = offsets[which] + index as isize * self.strides[which];
        // SAFETY: as above; the lines are neighbours in one run of the walk.
        unsafe { fetch(view.dtype(), at(view, offset), stride, into) };
    }

    /// Stores elements `from..` of a line of the output, which is the tensor `which`.
    #[inline(always)]
    pub fn store<C: Compute>(
        &self,
        out: &ViewMut<'_>,
        which: usize,
        offsets: [isize; N],
        from: usize,
        values: &[C],
    ) {
        debug_assert!(out.address() == self.views[which].address());
        let stride = self.strides[which];
        let offset = offsets[which] + from as isize * stride;
        // SAFETY: inside the line, and `out` is that view.
        unsafe { put(out.dtype(), at(out, offset).cast_mut(), stride, values) };
    }

    /// Stores elements at one index of neighbouring lines.
    #[inline(always)]
    pub fn store_row<C: Compute>(
        &self,
        out: &ViewMut<'_>,
        which: usize,
        offsets: [isize; N],
        index: usize,
        values: &[C],
    ) {
        let stride = self.others.inner_strides()[which];
        let offset = offsets[which] + index as isize * self.strides[which];
        // SAFETY: as above.
        unsafe { put(out.dtype(), at(out, offset).cast_mut(), stride, values) };
    }
}

/// The address of an element.
///
/// # Safety
/// The element at `offset` belongs to the view.
#[inline(always)]
unsafe fn at(view: &View<'_>, offset: isize) -> *const u8 {
    // SAFETY: as the caller guarantees.
    unsafe { view.first().offset(offset * view.item() as isize) }
}

/// Stores a strip; compiled once for each type.
///
/// # Safety
/// The elements are writable.
#[inline(never)]
pub(super) unsafe fn put<C: Compute>(dtype: DType, to: *mut u8, stride: isize, values: &[C]) {
    // SAFETY: as the caller guarantees.
    vectorised(|| unsafe { store(dtype, to, stride, values) });
}
