//! The order in which elementwise kernels visit the elements of several tensors of the same sizes.

use crate::layout::{Dims, Strides};
use crate::{Layout, MAX_DIMS};
use std::ops::Range;

/// A walk over the positions that `N` tensors share, with as few dimensions as their strides allow: the
/// first tensor's smallest stride is innermost, and dimensions whose strides follow from each other in all tensors are merged.
pub struct Walk<const N: usize> {
    dims: Dims,
    strides: [Strides; N],
    count: usize,
}

impl<const N: usize> Walk<N> {
    /// The walk over layouts of the same sizes.
    pub fn new(layouts: [&Layout; N]) -> Walk<N> {
        let dims = layouts[0].dims();
        debug_assert!(layouts.iter().all(|layout| layout.dims() == dims));
        let count = layouts[0].count();
        let strides = layouts[0].strides();
        let same_strides = layouts[1..].iter().all(|layout| layout.strides() == strides);
        if count > 1 && same_strides && layouts[0].is_contiguous() {
            return Walk {
                dims: Dims::filled(1, count),
                strides: [Strides::filled(1, 1); N],
                count,
            };
        }
        let mut order: Dims = (0..dims.len()).filter(|at| dims[*at] != 1).collect();
        let key = |at: usize| {
            layouts.map(|layout| std::cmp::Reverse(layout.strides()[at].unsigned_abs()))
        };
        order.sort_by(|a, b| key(*a).cmp(&key(*b)).then(a.cmp(b)));
        Walk::along(layouts, &order, count)
    }

    /// As [`Walk::new`], with the positions in their own order, the last dimension fastest.
    pub fn in_order(layouts: [&Layout; N]) -> Walk<N> {
        let dims = layouts[0].dims();
        debug_assert!(layouts.iter().all(|layout| layout.dims() == dims));
        let order: Dims = (0..dims.len()).filter(|at| dims[*at] != 1).collect();
        Walk::along(layouts, &order, layouts[0].count())
    }

    /// The walk over dimensions in this order, with neighbours merged where their strides allow it.
    fn along(layouts: [&Layout; N], order: &[usize], count: usize) -> Walk<N> {
        let dims = layouts[0].dims();
        let mut walk = Walk { dims: Dims::default(), strides: [Strides::default(); N], count };
        for at in order.iter().copied() {
            let stride = layouts.map(|layout| layout.strides()[at]);
            let size = dims[at];
            let joins = !walk.dims.is_empty()
                && (0..N).all(|i| {
                    walk.strides[i].last() == Some(&stride[i].wrapping_mul(size as isize))
                });
            if joins {
                let last = walk.dims.len() - 1;
                walk.dims[last] *= size;
                (0..N).for_each(|i| walk.strides[i][last] = stride[i]);
            } else {
                walk.dims.push(size);
                (0..N).for_each(|i| walk.strides[i].push(stride[i]));
            }
        }
        if walk.dims.is_empty() {
            walk.dims.push(1);
            walk.strides.iter_mut().for_each(|strides| strides.push(0));
        }
        walk
    }

    /// How many positions there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The sizes, outermost first, and the strides of each tensor.
    pub fn shape(&self) -> (&[usize], [&[isize]; N]) {
        (&self.dims, std::array::from_fn(|i| &*self.strides[i]))
    }

    /// The length of the innermost dimension.
    pub fn inner(&self) -> usize {
        *self.dims.last().unwrap_or(&1)
    }

    /// The innermost strides.
    pub fn inner_strides(&self) -> [isize; N] {
        std::array::from_fn(|i| *self.strides[i].last().unwrap_or(&0))
    }

    /// The strides of the dimension around the innermost one; 0 without one.
    pub fn outer_strides(&self) -> [isize; N] {
        let outer = self.dims.len().checked_sub(2);
        std::array::from_fn(|i| outer.map_or(0, |at| self.strides[i][at]))
    }

    /// The runs of [`Walk::runs`], one by one: for kernels whose bodies are large.
    pub fn steps(&self, range: Range<usize>, longest: usize) -> Steps<'_, N> {
        let mut index = [0usize; MAX_DIMS];
        let mut rest = range.start;
        for at in (0..self.dims.len()).rev() {
            index[at] = rest % self.dims[at].max(1);
            rest /= self.dims[at].max(1);
        }
        let offsets = std::array::from_fn(|i| {
            (0..self.dims.len()).map(|at| index[at] as isize * self.strides[i][at]).sum()
        });
        Steps { walk: self, index, offsets, left: range.len(), longest }
    }

    /// Calls `run` with the offsets (in elements) of the first position and the length of each run along the
    /// innermost dimension, at most `longest`, that make up the positions of `range`.
    #[inline(always)]
    pub fn runs(
        &self,
        range: Range<usize>,
        longest: usize,
        mut run: impl FnMut([isize; N], usize),
    ) {
        if range.is_empty() {
            return;
        }
        let last = self.dims.len() - 1;
        let mut index = [0usize; MAX_DIMS];
        let mut rest = range.start;
        for at in (0..=last).rev() {
            index[at] = rest % self.dims[at];
            rest /= self.dims[at];
        }
        let mut offsets: [isize; N] = std::array::from_fn(|i| {
            (0..=last).map(|at| index[at] as isize * self.strides[i][at]).sum()
        });
        let inner = self.inner_strides();
        let mut left = range.len();
        loop {
            let length = (self.dims[last] - index[last]).min(left).min(longest);
            run(offsets, length);
            left -= length;
            if left == 0 {
                return;
            }
            index[last] += length;
            (0..N).for_each(|i| offsets[i] += length as isize * inner[i]);
            let mut at = last;
            while index[at] == self.dims[at] {
                (0..N).for_each(|i| offsets[i] -= self.dims[at] as isize * self.strides[i][at]);
                index[at] = 0;
                at -= 1;
                index[at] += 1;
                (0..N).for_each(|i| offsets[i] += self.strides[i][at]);
            }
        }
    }
}

/// The runs along the innermost dimension that make up a range of positions: the offsets of the first
/// position, and the length.
pub struct Steps<'w, const N: usize> {
    walk: &'w Walk<N>,
    index: [usize; MAX_DIMS],
    offsets: [isize; N],
    /// Positions that are not visited yet.
    left: usize,
    longest: usize,
}

impl<const N: usize> Iterator for Steps<'_, N> {
    type Item = ([isize; N], usize);

    #[inline(never)]
    fn next(&mut self) -> Option<([isize; N], usize)> {
        if self.left == 0 {
            return None;
        }
        let walk = self.walk;
        let last = walk.dims.len() - 1;
        let length = (walk.dims[last] - self.index[last]).min(self.left).min(self.longest);
        let run = (self.offsets, length);
        self.left -= length;
        if self.left > 0 {
            self.index[last] += length;
            (0..N).for_each(|i| self.offsets[i] += length as isize * walk.strides[i][last]);
            let mut at = last;
            while self.index[at] == walk.dims[at] {
                (0..N).for_each(|i| {
                    self.offsets[i] -= walk.dims[at] as isize * walk.strides[i][at];
                });
                self.index[at] = 0;
                at -= 1;
                self.index[at] += 1;
                (0..N).for_each(|i| self.offsets[i] += walk.strides[i][at]);
            }
        }
        Some(run)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DType;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn visits_every_position_once(
            sizes in prop::collection::vec(0usize..5, 0..5),
            rotation in any::<prop::sample::Index>(),
            cut in any::<prop::sample::Index>(),
            longest in 1usize..7,
        ) {
            let plain = Layout::contiguous(DType::Float, &sizes);
            let mut order: Vec<usize> = (0..sizes.len()).collect();
            if !order.is_empty() {
                order.rotate_left(rotation.index(sizes.len()));
            }
            let inverse: Vec<usize> = (0..sizes.len()).map(|at| order.iter().position(|o| *o == at).unwrap()).collect();
            let permuted_sizes: Vec<usize> = order.iter().map(|at| sizes[*at]).collect();
            let permuted = Layout::contiguous(DType::Float, &permuted_sizes).permuted(&inverse);
            prop_assert_eq!(permuted.dims(), plain.dims());
            let walk = Walk::new([&permuted, &plain]);
            prop_assert_eq!(walk.count(), plain.count());
            let middle = if walk.count() == 0 { 0 } else { cut.index(walk.count()) };
            let mut visited = vec![None; walk.count()];
            for range in [0..middle, middle..walk.count()] {
                let mut steps = walk.steps(range.clone(), longest);
                walk.runs(range, longest, |[a, b], n| {
                    let [da, db] = walk.inner_strides();
                    assert_eq!(steps.next(), Some(([a, b], n)));
                    for i in 0..n as isize {
                        let slot = &mut visited[(b + i * db) as usize];
                        assert!(slot.is_none() && n <= longest);
                        *slot = Some(a + i * da);
                    }
                });
                prop_assert_eq!(steps.next(), None);
            }
            for (at, found) in visited.iter().enumerate() {
                let mut rest = at;
                let mut expected = 0isize;
                for dim in (0..sizes.len()).rev() {
                    expected += (rest % sizes[dim]) as isize * permuted.strides()[dim];
                    rest /= sizes[dim];
                }
                prop_assert_eq!(*found, Some(expected));
            }
        }
    }
}
