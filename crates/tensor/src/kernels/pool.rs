//! The greatest elements of windows, and where they are.

use super::access::{OffsetAccess, OffsetAccessMut, Plain, offsets};
use super::element::Element;
use super::map::SMALL;
use super::number::Number;
use super::pool_lines;
use super::strip::store;
use super::taps::part;
use crate::parallel::{Parallel, split};
use crate::{View, ViewMut, with_element, with_number};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Where the windows of one dimension are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Windows {
    /// `kernel` positions, `dilation` apart, for each output `stride` further; the first begins `before` positions before
    /// the input.
    Sliding {
        /// Positions of a window.
        kernel: usize,
        /// From the start of one window to the start of the next.
        stride: usize,
        /// From the start of the first window to the input.
        before: usize,
        /// From one position of a window to the next.
        dilation: usize,
    },
    /// The input cut into this many parts.
    Parts(usize),
}

/// The positions of one window that are in the input: the first, how many, how far apart.
#[derive(Clone, Copy)]
pub(super) struct Span {
    first: usize,
    count: usize,
    step: usize,
}

impl Span {
    /// All of them.
    pub(super) fn positions(self) -> impl Iterator<Item = usize> {
        (0..self.count).map(move |at| self.first + at * self.step)
    }
}

impl Windows {
    /// The positions of the window of an output.
    #[inline(always)]
    pub(super) fn span(&self, output: usize, input: usize) -> Span {
        match *self {
            Windows::Sliding { kernel, stride, before, dilation } => {
                let start = (output * stride) as i64 - before as i64;
                let skipped =
                    if start < 0 { start.unsigned_abs().div_ceil(dilation as u64) } else { 0 };
                let first = start + (skipped * dilation as u64) as i64;
                let left = (kernel as u64).saturating_sub(skipped);
                let inside = (input as i64 - first).max(0) as u64;
                let count = left.min(inside.div_ceil(dilation as u64));
                Span { first: first.max(0) as usize, count: count as usize, step: dilation }
            }
            Windows::Parts(output_size) => {
                let (start, end) = part(output, input, output_size);
                Span { first: start, count: end - start, step: 1 }
            }
        }
    }
}

/// How many results are computed before they are stored.
const RUN: usize = 64;

/// `out` = the greatest elements of the windows of `a`, NaN above all; `index` = where in the last three dimensions,
/// counted as one, the first of them is (the last NaN). Both have five dimensions, of which the windows are in the last
/// three; `index` has the sizes of `out`. Where a window holds nothing the least value and 0 are written.
pub fn max_pool(
    parallel: &dyn Parallel,
    out: ViewMut<'_>,
    index: Option<ViewMut<'_>>,
    a: View<'_>,
    windows: [Windows; 3],
) {
    assert!(out.rank() == 5 && a.rank() == 5 && out.dims()[..2] == a.dims()[..2]);
    assert!(index.is_none_or(|index| index.dims() == out.dims()));
    if out.count() == 0 || (index.is_none() && pool_lines::max_pool(parallel, out, a, windows)) {
        return;
    }
    with_number!(out.dtype(), C => with_element!(
        a.dtype(),
        T => typed::<T, C>(parallel, out, index, a, windows),
        else unreachable!("elements of type {}", a.dtype())
    ));
}

/// Makes indices that count in the last three dimensions of an input, of these sizes, count in all five; with
/// `by_columns` the last three are counted the first fastest. They are 64-bit integers.
pub fn flatten_indices(
    parallel: &dyn Parallel,
    index: ViewMut<'_>,
    [depth, height, width]: [usize; 3],
    by_columns: bool,
) {
    assert!(index.rank() == 5 && index.item() == size_of::<i64>());
    let (dims, strides) = (index.dims(), index.strides());
    let each: usize = dims[2..].iter().product();
    let cells = OffsetAccessMut::<i64>::new(index);
    let plane = (depth * height * width) as i64;
    split(parallel, dims[..2].iter().product(), 1, SMALL.div_ceil(each.max(1)), |range| {
        for outer in range {
            let [start] = offsets(&dims[..2], [&strides[..2]], outer);
            for inner in 0..each {
                let [offset] = offsets(&dims[2..], [&strides[2..]], inner);
                let mut place = cells.get(start + offset);
                if by_columns {
                    let (w, h) = (place % width as i64, place / width as i64 % height as i64);
                    let d = place / (height * width) as i64;
                    place = d + (h + w * height as i64) * depth as i64;
                }
                cells.set(start + offset, place.wrapping_add(outer as i64 * plane));
            }
        }
    });
}

/// See [`max_pool`]; elements `T` are compared as `C`.
fn typed<T: Element + Plain, C: Number>(
    parallel: &dyn Parallel,
    out: ViewMut<'_>,
    index: Option<ViewMut<'_>>,
    a: View<'_>,
    windows: [Windows; 3],
) {
    let elements = OffsetAccess::<T>::new(a);
    let (dims, strides) = (a.dims(), a.strides());
    let rows = out.dims()[..4].iter().product();
    let width = out.dims()[4];
    let (item, step) = (out.item() as isize, out.strides()[4]);
    split(parallel, rows, 1, (SMALL / 8).div_ceil(width), |range| {
        let (mut values, mut indices) = ([C::LEAST; RUN], [0i64; RUN]);
        for row in range {
            let [to] = offsets(&out.dims()[..4], [&out.strides()[..4]], row);
            let depth = row / out.dims()[3] % out.dims()[2];
            let depth_span = windows[0].span(depth, dims[2]);
            let row_span = windows[1].span(row % out.dims()[3], dims[3]);
            let outer = row / out.dims()[3] / out.dims()[2];
            let [plane] = offsets(&dims[..2], [&strides[..2]], outer);
            for start in (0..width).step_by(RUN) {
                let length = RUN.min(width - start);
                for at in 0..length {
                    let column_span = windows[2].span(start + at, dims[4]);
                    let (mut best, mut best_index, mut is_any) = (C::LEAST, 0, false);
                    for d in 0..depth_span.count {
                        let d = depth_span.first + d * depth_span.step;
                        for h in 0..row_span.count {
                            let h = row_span.first + h * row_span.step;
                            let base = plane + d as isize * strides[2] + h as isize * strides[3];
                            let line = (d * dims[3] + h) * dims[4];
                            for w in 0..column_span.count {
                                let w = column_span.first + w * column_span.step;
                                let x: C = elements.get(base + w as isize * strides[4]).widen();
                                if x > best || x.is_nan() || !is_any {
                                    (best, best_index, is_any) = (x, (line + w) as i64, true);
                                }
                            }
                        }
                    }
                    (values[at], indices[at]) = (best, best_index);
                }
                let offset = to + start as isize * step;
                // SAFETY: a part of a row of `out`.
                unsafe {
                    let first = out.first_mut().offset(offset * item);
                    store(out.dtype(), first, step, &values[..length]);
                }
                if let Some(index) = &index {
                    let [to] = offsets(&index.dims()[..4], [&index.strides()[..4]], row);
                    let offset = (to + start as isize * index.strides()[4]) * index.item() as isize;
                    // SAFETY: a part of a row of `index`, which has the sizes of `out`.
                    unsafe {
                        let first = index.first_mut().offset(offset);
                        store(index.dtype(), first, index.strides()[4], &indices[..length]);
                    }
                }
            }
        }
    });
}

/// The plane that windows slide over, and the windows, for a mask of the greatest elements.
#[derive(Clone, Copy, Debug)]
pub struct Plane {
    /// Rows and columns of the input.
    pub input: [usize; 2],
    /// Rows and columns of the windows.
    pub kernel: [usize; 2],
    /// From one window to the next.
    pub stride: [usize; 2],
    /// From the start of the first window to the input.
    pub before: [usize; 2],
}

impl Plane {
    /// Which position of the window of output (row, column) is the `index`-th of the input, if it is one.
    fn position_of(&self, index: i64, output: [usize; 2]) -> Option<usize> {
        let index = usize::try_from(index).ok()?;
        let at = [index / self.input[1], index % self.input[1]];
        let mut position = [0; 2];
        for i in 0..2 {
            position[i] = (at[i] + self.before[i]).checked_sub(output[i] * self.stride[i])?;
        }
        let inside = position[0] < self.kernel[0] && position[1] < self.kernel[1];
        inside.then(|| position[0] * self.kernel[1] + position[1])
    }

    /// The inverse of [`Plane::position_of`]; `None` where that position is in a border.
    fn index_of(&self, position: usize, output: [usize; 2]) -> Option<i64> {
        let position = [position / self.kernel[1], position % self.kernel[1]];
        let mut at = [0; 2];
        for i in 0..2 {
            at[i] = (output[i] * self.stride[i] + position[i]).checked_sub(self.before[i])?;
            if at[i] >= self.input[i] {
                return None;
            }
        }
        Some((at[0] * self.input[1] + at[1]) as i64)
    }
}

/// Writes indices of greatest elements as a mask: `mask[n, c, k, ..]` has a bit for each output, the lowest of the first
/// byte for the first, which says whether its greatest element is at position `k` of its window. `index` is `[n, c, rows,
/// columns]`, of 32 bits.
pub fn write_mask(parallel: &dyn Parallel, mask: ViewMut<'_>, index: View<'_>, plane: Plane) {
    let indices = OffsetAccess::<i32>::new(index);
    let bits = OffsetAccessMut::<u8>::new(mask);
    let (dims, strides) = (mask.dims(), mask.strides());
    let columns = index.dims()[3];
    let outputs = index.dims()[2] * columns;
    split(parallel, dims[0] * dims[1], 1, (SMALL / 8).div_ceil(outputs.max(1)), |range| {
        for unit in range {
            let [to, from] = offsets(&dims[..2], [&strides[..2], &index.strides()[..2]], unit);
            for position in 0..dims[2] as isize {
                let line = to + position * strides[2];
                (0..dims[3] as isize).for_each(|byte| bits.set(line + byte * strides[3], 0));
            }
            for output in 0..outputs {
                let at = [output / columns, output % columns];
                let offset =
                    at[0] as isize * index.strides()[2] + at[1] as isize * index.strides()[3];
                let Some(position) = plane.position_of(i64::from(indices.get(from + offset)), at)
                else {
                    continue;
                };
                let byte = to + position as isize * strides[2] + (output / 8) as isize * strides[3];
                bits.set(byte, bits.get(byte) | 1 << (output % 8));
            }
        }
    });
}

/// Reads a mask of [`write_mask`] back into indices. Returns whether every output has a bit, of a position in the input.
#[must_use]
pub fn read_mask(
    parallel: &dyn Parallel,
    index: ViewMut<'_>,
    mask: View<'_>,
    plane: Plane,
) -> bool {
    let indices = OffsetAccessMut::<i32>::new(index);
    let bits = OffsetAccess::<u8>::new(mask);
    let (dims, strides) = (mask.dims(), mask.strides());
    let columns = index.dims()[3];
    let outputs = index.dims()[2] * columns;
    let bad = AtomicBool::new(false);
    split(parallel, dims[0] * dims[1], 1, (SMALL / 8).div_ceil(outputs.max(1)), |range| {
        for unit in range {
            let [from, to] = offsets(&dims[..2], [&strides[..2], &index.strides()[..2]], unit);
            for output in 0..outputs {
                let at = [output / columns, output % columns];
                let byte = from + (output / 8) as isize * strides[3];
                let is_set = |position: &usize| {
                    bits.get(byte + *position as isize * strides[2]) >> (output % 8) & 1 == 1
                };
                let found =
                    (0..dims[2]).find(is_set).and_then(|position| plane.index_of(position, at));
                let offset =
                    at[0] as isize * index.strides()[2] + at[1] as isize * index.strides()[3];
                if found.is_none() {
                    bad.store(true, Relaxed);
                }
                indices.set(to + offset, found.unwrap_or(0) as i32);
            }
        }
    });
    !bad.load(Relaxed)
}
