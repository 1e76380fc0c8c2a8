//! Elements that follow from their positions: ranges, repeated indices, diagonals and triangles.

use super::access::{PositionAccess, PositionAccessMut};
use super::element::Compute;
use super::map::SMALL;
use super::strip::{STRIP, store, vectorised};
use crate::parallel::{Parallel, split};
use crate::{Layout, ViewMut};

/// `out[i] = f(i)` along the one dimension of `out`.
pub fn generate<C: Compute + Default>(
    parallel: &dyn Parallel,
    out: ViewMut<'_>,
    f: impl Fn(usize) -> C + Sync,
) {
    assert_eq!(out.rank(), 1);
    let (count, stride, item) = (out.dims()[0], out.strides()[0], out.item() as isize);
    split(parallel, count, STRIP, SMALL, |range| {
        vectorised(|| {
            let mut buffer = [C::default(); STRIP];
            for start in range.clone().step_by(STRIP) {
                let length = STRIP.min(range.end - start);
                for (at, slot) in buffer[..length].iter_mut().enumerate() {
                    *slot = f(start + at);
                }
                // SAFETY: elements of the one dimension.
                unsafe {
                    let to = out.first_mut().offset(start as isize * stride * item);
                    store(out.dtype(), to, stride, &buffer[..length]);
                }
            }
        });
    });
}

/// Repeats each index as often as its element of `repeats` says (or the only element): `out` becomes `0, 0, 1, ..`.
/// `out` holds 64-bit integers one after the other. `Err` with the sum, or with a negative number of times,
/// when they do not fill `out` exactly; then it holds zeros.
pub fn repeat_indices(out: ViewMut<'_>, repeats: crate::View<'_>, size: usize) -> Result<(), i64> {
    assert!(out.is_contiguous() && out.item() == 8 && repeats.rank() == 1);
    let single = repeats.dims()[0] == 1;
    assert!(single || repeats.dims()[0] == size);
    let times =
        |index: usize| super::indexed::integer_at(&repeats, &[if single { 0 } else { index }]);
    let mut sum = 0i64;
    for index in 0..size {
        let count = times(index);
        sum = if count < 0 { count } else { sum.saturating_add(count) };
        if sum < 0 {
            break;
        }
    }
    let total = out.count();
    super::map::fill(&crate::parallel::SingleThread, out, 0i64);
    if sum != total as i64 {
        return Err(sum);
    }
    let mut next = 0;
    for index in 0..size {
        for _ in 0..times(index).max(0) {
            if next < total {
                // SAFETY: an element of `out`.
                unsafe { out.first_mut().cast::<i64>().add(next).write_unaligned(index as i64) };
            }
            next += 1;
        }
    }
    Ok(())
}

/// Sums of neighbours with the same target: element `[b, i, a]` is added to `[b, targets[i], a]`, where `targets` never
/// falls. Sums are made in `f32`.
pub fn sum_runs(
    parallel: &dyn Parallel,
    out: ViewMut<'_>,
    from: crate::View<'_>,
    targets: crate::View<'_>,
) {
    let (count, size, after) = (out.dims()[1], from.dims()[1], from.dims()[2]);
    let (elements, targets, to) =
        (PositionAccess::new(from), PositionAccess::new(targets), PositionAccessMut::new(out));
    split(parallel, from.dims()[0] * after, 1, (4096 / size.max(1)).max(1), |range| {
        for line in range {
            let (first, last) = (line / after, line % after);
            let mut next = 0;
            for target in 0..count {
                let mut sum = 0.0f32;
                while next < size && targets.get::<i64>(&[next]) == target as i64 {
                    sum += elements.get::<f32>(&[first, next, last]);
                    next += 1;
                }
                to.set(&[first, target, last], sum);
            }
        }
    });
}

/// The diagonal of the last two dimensions that begins `offset` columns to the right of the first element,
/// as a dimension of its own after the others.
pub fn diagonal(matrix: &Layout, offset: i64) -> Layout {
    let rank = matrix.rank();
    let (rows, columns) = (matrix.dims()[rank - 2] as i64, matrix.dims()[rank - 1] as i64);
    let (row, column) = (offset.saturating_neg().max(0), offset.max(0));
    let length = (rows - row).min(columns - column).max(0);
    let (row_stride, column_stride) = (matrix.strides()[rank - 2], matrix.strides()[rank - 1]);
    let mut dims = crate::Dims::new(&matrix.dims()[..rank - 1]);
    let mut strides = crate::Strides::new(&matrix.strides()[..rank - 1]);
    dims[rank - 2] = length as usize;
    strides[rank - 2] = row_stride + column_stride;
    let start =
        if length == 0 { 0 } else { row as isize * row_stride + column as isize * column_stride };
    Layout::strided(matrix.dtype, &dims, &strides, matrix.offset + start)
}

/// `out = a` on one side of a diagonal, 0 on the other. Keeps what is on or below the diagonal when
/// `lower`, else what is on or above it. Sizes are equal, of at least two dimensions; `a` is `out` or does not overlap it.
pub fn triangle(
    parallel: &dyn Parallel,
    out: ViewMut<'_>,
    a: crate::View<'_>,
    diagonal: i64,
    lower: bool,
) {
    let rank = out.rank();
    let (rows, columns) = (out.dims()[rank - 2], out.dims()[rank - 1]);
    if out.count() == 0 {
        return;
    }
    let same = a.address() == out.address() && a.layout() == out.layout();
    let out_rows = out.layout().without(rank - 1);
    let a_rows = a.layout().without(rank - 1);
    let lines = LayoutPair::new(&out_rows, &a_rows);
    let item = out.item() as isize;
    let (out_stride, a_stride) = (out.strides()[rank - 1] * item, a.strides()[rank - 1] * item);
    let least = SMALL.div_ceil(columns);
    split(parallel, lines.count(), 1, least, |range| {
        for line in range {
            let (to, from) = lines.offsets(line);
            let reach = ((line % rows) as i64 + i64::from(lower)).saturating_add(diagonal);
            let border = reach.clamp(0, columns as i64) as usize;
            let (kept, cleared) =
                if lower { (0..border, border..columns) } else { (border..columns, 0..border) };
            // SAFETY: columns of a line of both.
            unsafe {
                let to = out.first_mut().offset(to * item);
                let from = a.first().offset(from * item);
                if !same {
                    move_run(
                        to.offset(kept.start as isize * out_stride),
                        out_stride,
                        from.offset(kept.start as isize * a_stride),
                        a_stride,
                        kept.len(),
                        item as usize,
                    );
                }
                clear_run(
                    to.offset(cleared.start as isize * out_stride),
                    out_stride,
                    cleared.len(),
                    item as usize,
                );
            }
        }
    });
}

/// Copies a run of elements of `item` bytes, steps in bytes.
///
/// # Safety
/// They are readable and writable, and do not overlap.
unsafe fn move_run(
    to: *mut u8,
    step_to: isize,
    from: *const u8,
    step_from: isize,
    count: usize,
    item: usize,
) {
    // SAFETY: as the caller guarantees.
    unsafe {
        if step_to == item as isize && step_from == item as isize {
            return std::ptr::copy(from, to, count * item);
        }
        for at in 0..count as isize {
            std::ptr::copy(from.offset(at * step_from), to.offset(at * step_to), item);
        }
    }
}

/// Sets a run of elements to 0.
///
/// # Safety
/// They are writable.
unsafe fn clear_run(to: *mut u8, step: isize, count: usize, item: usize) {
    // SAFETY: as the caller guarantees.
    unsafe {
        if step == item as isize {
            return std::ptr::write_bytes(to, 0, count * item);
        }
        for at in 0..count as isize {
            std::ptr::write_bytes(to.offset(at * step), 0, item);
        }
    }
}

/// Two layouts of the same sizes, to find the offsets of a position in both.
pub(crate) struct LayoutPair<'l> {
    a: &'l Layout,
    b: &'l Layout,
}

impl<'l> LayoutPair<'l> {
    pub(crate) fn new(a: &'l Layout, b: &'l Layout) -> LayoutPair<'l> {
        assert_eq!(a.dims(), b.dims());
        LayoutPair { a, b }
    }

    pub(crate) fn count(&self) -> usize {
        self.a.count()
    }

    /// The offsets of the `number`-th position.
    pub(crate) fn offsets(&self, number: usize) -> (isize, isize) {
        let (mut rest, mut a, mut b) = (number, 0, 0);
        for dim in (0..self.a.rank()).rev() {
            let size = self.a.dims()[dim];
            let index = (rest % size) as isize;
            rest /= size;
            a += index * self.a.strides()[dim];
            b += index * self.b.strides()[dim];
        }
        (a, b)
    }
}
