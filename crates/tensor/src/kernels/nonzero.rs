//! The positions of elements that are not zero, such as those of a mask.

use super::map::SMALL;
use super::sequence::LayoutPair;
use super::strip::load_one;
use crate::parallel::{Parallel, share};
use crate::{View, ViewMut, with_type_of_size};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The most parts that a tensor is counted in.
const PARTS: usize = 64;

/// The positions of a tensor whose elements are not zero, counted in parts so that each part knows how many come before it.
pub struct NonzeroPositions<'a> {
    mask: View<'a>,
    parts: usize,
    /// How many are before each part; at last how many there are.
    before: [usize; PARTS + 1],
}

impl<'a> NonzeroPositions<'a> {
    /// Counts the elements of `mask` that are not zero.
    pub fn count(parallel: &dyn Parallel, mask: View<'a>) -> NonzeroPositions<'a> {
        let parts = (mask.count() / SMALL).clamp(1, parallel.width().min(PARTS));
        let counts = [const { AtomicUsize::new(0) }; PARTS];
        parallel.run(parts, &|part| {
            let mut count = 0;
            visit(&mask, share(mask.count(), 1, parts, part), |_| count += 1);
            counts[part].store(count, Relaxed);
        });
        let mut before = [0; PARTS + 1];
        for part in 0..parts {
            before[part + 1] = before[part] + counts[part].load(Relaxed);
        }
        NonzeroPositions { mask, parts, before }
    }

    /// How many there are.
    pub fn total(&self) -> usize {
        self.before[self.parts]
    }

    /// Calls `take` with each such position: its number among them, and its number among all positions.
    fn each(&self, parallel: &dyn Parallel, take: impl Fn(usize, usize) + Sync) {
        parallel.run(self.parts, &|part| {
            let (mut next, end) = (self.before[part], self.before[part + 1]);
            visit(&self.mask, share(self.mask.count(), 1, self.parts, part), |at| {
                if next < end {
                    take(next, at);
                }
                next += 1;
            });
        });
    }

    /// `out[k] =` the element of `a` at the k-th such position. `a` has the sizes of the mask, `out` at
    /// least [`NonzeroPositions::total`] elements and the type of `a`.
    pub fn select(&self, parallel: &dyn Parallel, out: ViewMut<'_>, a: View<'_>) {
        assert!(out.rank() == 1 && out.dims()[0] >= self.total() && out.dtype() == a.dtype());
        assert_eq!(a.dims(), self.mask.dims());
        let step = out.strides()[0];
        let lines = LayoutPair::new(a.layout(), a.layout());
        with_type_of_size!(out.item(), T => self.each(parallel, |k, at| {
            let from = lines.offsets(at).0;
            // SAFETY: a position of `a`, and one of the first `total` of `out`.
            unsafe {
                let value = a.first().cast::<T>().offset(from).read_unaligned();
                out.first_mut().cast::<T>().offset(k as isize * step).write_unaligned(value);
            }
        }));
    }

    /// `out` at the k-th such position `= source[k]`. `out` has the sizes of the mask, `source` at least
    /// [`NonzeroPositions::total`] elements in their order, and the type of `out`.
    pub fn fill(&self, parallel: &dyn Parallel, out: ViewMut<'_>, source: View<'_>) {
        assert!(source.count() >= self.total() && out.dtype() == source.dtype());
        assert_eq!(out.dims(), self.mask.dims());
        let (to, from) = (
            LayoutPair::new(out.layout(), out.layout()),
            LayoutPair::new(source.layout(), source.layout()),
        );
        with_type_of_size!(out.item(), T => self.each(parallel, |k, at| {
            // SAFETY: a position of `out`, and one of the source.
            unsafe {
                let value = source.first().cast::<T>().offset(from.offsets(k).0).read_unaligned();
                out.first_mut().cast::<T>().offset(to.offsets(at).0).write_unaligned(value);
            }
        }));
    }

    /// `out[k][d] =` the coordinate in dimension d of the k-th such position. `out` holds integers of
    /// 64 bits and has [`NonzeroPositions::total`] lines.
    pub fn positions(&self, parallel: &dyn Parallel, out: ViewMut<'_>) {
        assert!(out.dims() == [self.total(), self.mask.rank()] && out.item() == 8);
        let (row_stride, column_stride) = (out.strides()[0], out.strides()[1]);
        let dims = self.mask.dims();
        self.each(parallel, |k, at| {
            let mut rest = at;
            for dim in (0..dims.len()).rev() {
                let index = (rest % dims[dim]) as i64;
                rest /= dims[dim];
                // SAFETY: a line and a column of `out`.
                unsafe {
                    let to = out.first_mut().cast::<i64>();
                    to.offset(k as isize * row_stride + dim as isize * column_stride)
                        .write_unaligned(index);
                }
            }
        });
    }
}

/// Calls `found` with the number of each position of `range` whose element is not zero, in order.
fn visit(mask: &View<'_>, range: std::ops::Range<usize>, mut found: impl FnMut(usize)) {
    let item = mask.item() as isize;
    if mask.is_contiguous() && item == 1 {
        for at in range {
            // SAFETY: an element of the mask.
            if unsafe { *mask.first().add(at) } != 0 {
                found(at);
            }
        }
        return;
    }
    let lines = LayoutPair::new(mask.layout(), mask.layout());
    let is_contiguous = mask.is_contiguous();
    for at in range {
        let offset = if is_contiguous { at as isize } else { lines.offsets(at).0 };
        // SAFETY: an element of the mask.
        if unsafe { load_one::<bool>(mask.dtype(), mask.first().offset(offset * item)) } {
            found(at);
        }
    }
}
