//! Views of a tensor through index tensors: what gathers and scatters have in common.

use super::element::Element;
use super::map::SMALL;
use super::strip::load_one;
use crate::parallel::{Parallel, split};
use crate::{DType, Dims, Layout, Strides, View};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// An index out of range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadIndex {
    /// Which of several index tensors.
    pub tensor: usize,
    /// Where in it.
    pub position: Dims,
    /// Its value.
    pub value: i64,
    /// The least and the greatest valid value.
    pub valid: (i64, i64),
}

/// The types that indices have.
pub const INDEX_TYPES: &[DType] = &[DType::Int64, DType::Int32];

/// Elements of a tensor that indices select: there is a *space* of positions with an index at each, and the element of a
/// position is at its offset in `base` plus the index times a stride.
///
/// Whoever reads an index checks it ([`IndexedView::offset`]): values may change under us, and must not lead out
/// of the tensor.
#[derive(Clone, Copy)]
pub struct IndexedView<'a> {
    pub(crate) base: View<'a>,
    pub(crate) index: View<'a>,
    /// The least valid index, and one more than the greatest.
    low: i64,
    high: i64,
    /// What is added to a negative index.
    wrap: i64,
    /// The stride that an index is multiplied by.
    step: i64,
}

impl<'a> IndexedView<'a> {
    /// For each position of `index`, which has the rank of `tensor`: the same position with the coordinate of
    /// `dim` replaced by the index. Other dimensions of `index` are at most as large as the tensor's.
    /// Negative indices count from the end when `wraps`.
    pub fn along(tensor: View<'a>, dim: usize, index: View<'a>, wraps: bool) -> IndexedView<'a> {
        assert_eq!(tensor.rank(), index.rank());
        let mut strides = Strides::new(tensor.strides());
        if tensor.rank() > 0 {
            strides[dim] = 0;
        }
        let fits = |at: usize| at == dim || index.dims()[at] <= tensor.dims()[at];
        assert!((0..tensor.rank()).all(fits), "an index larger than the tensor");
        IndexedView::over(tensor, dim, index.dims(), &strides, index, wraps)
    }

    /// The tensor with `dim` replaced by the dimensions of `index`.
    pub fn chosen(tensor: View<'a>, dim: usize, index: View<'a>, wraps: bool) -> IndexedView<'a> {
        IndexedView::chosen_in_batches(tensor, dim, index, 0, wraps)
    }

    /// As [`IndexedView::chosen`] in each of several tensors side by side: the first `batch` dimensions of `index`, at most
    /// `dim`, are those of the tensor too.
    pub fn chosen_in_batches(
        tensor: View<'a>,
        dim: usize,
        index: View<'a>,
        batch: usize,
        wraps: bool,
    ) -> IndexedView<'a> {
        assert_eq!(tensor.dims()[..batch], index.dims()[..batch]);
        let (mut dims, mut strides) = (Dims::new(tensor.dims()), Strides::new(tensor.strides()));
        if tensor.rank() > 0 {
            dims.remove(dim);
            strides.remove(dim);
        }
        let mut index_strides = Strides::filled(dims.len() + index.rank() - batch, 0);
        index_strides[..batch].copy_from_slice(&index.strides()[..batch]);
        for (at, size) in index.dims()[batch..].iter().enumerate() {
            dims.insert(dim + at, *size);
            strides.insert(dim + at, 0);
            index_strides[dim + at] = index.strides()[batch + at];
        }
        let index_layout = Layout::strided(index.dtype(), &dims, &index_strides, 0);
        let index = index.with_layout(index_layout).expect("the same elements");
        IndexedView::over(tensor, dim, &dims, &strides, index, wraps)
    }

    /// As [`IndexedView::chosen`] for several dimensions at once, which are replaced by the dimensions of `offsets` at `at`:
    /// its elements are offsets from the first element ([`combine`]).
    pub fn combined(
        tensor: View<'a>,
        replaced: &[usize],
        at: usize,
        offsets: View<'a>,
    ) -> IndexedView<'a> {
        let (mut dims, mut strides) = (Dims::default(), Strides::default());
        let (mut low, mut high) = (0i64, 0i64);
        for dim in 0..tensor.rank() {
            let (size, stride) = (tensor.dims()[dim], tensor.strides()[dim]);
            if !replaced.contains(&dim) {
                dims.push(size);
                strides.push(stride);
                continue;
            }
            let reach = (size as i64 - 1).max(0) * stride as i64;
            low += reach.min(0);
            high += reach.max(0);
        }
        let mut index_strides = Strides::filled(dims.len() + offsets.rank(), 0);
        for (i, size) in offsets.dims().iter().enumerate() {
            dims.insert(at + i, *size);
            strides.insert(at + i, 0);
            index_strides[at + i] = offsets.strides()[i];
        }
        let index_layout = Layout::strided(offsets.dtype(), &dims, &index_strides, 0);
        let index = offsets.with_layout(index_layout).expect("the same elements");
        let base = with_space(tensor, &dims, &strides);
        let high = if tensor.count() == 0 { low } else { high + 1 };
        IndexedView { base, index, low, high, wrap: 0, step: 1 }
    }

    /// As [`IndexedView::combined`] for the `replaced` dimensions after the first `batch`, which tensor and offsets have
    /// in common.
    pub fn combined_in_batches(
        tensor: View<'a>,
        batch: usize,
        replaced: usize,
        offsets: View<'a>,
    ) -> IndexedView<'a> {
        assert_eq!(tensor.dims()[..batch], offsets.dims()[..batch]);
        let (mut low, mut high) = (0i64, 0i64);
        for dim in batch..batch + replaced {
            let reach = (tensor.dims()[dim] as i64 - 1).max(0) * tensor.strides()[dim] as i64;
            low += reach.min(0);
            high += reach.max(0);
        }
        let (mut dims, mut strides) = (Dims::default(), Strides::default());
        let mut wide = Strides::new(offsets.strides());
        for dim in 0..offsets.rank() {
            dims.push(offsets.dims()[dim]);
            strides.push(if dim < batch { tensor.strides()[dim] } else { 0 });
        }
        for dim in batch + replaced..tensor.rank() {
            dims.push(tensor.dims()[dim]);
            strides.push(tensor.strides()[dim]);
            wide.push(0);
        }
        let wide = Layout::strided(offsets.dtype(), &dims, &wide, 0);
        let index = offsets.with_layout(wide).expect("the same elements");
        let base = with_space(tensor, &dims, &strides);
        let high = if tensor.count() == 0 { low } else { high + 1 };
        IndexedView { base, index, low, high, wrap: 0, step: 1 }
    }

    /// The view with the space of these sizes and strides, whose indices count in `dim`.
    fn over(
        tensor: View<'a>,
        dim: usize,
        dims: &[usize],
        strides: &[isize],
        index: View<'a>,
        wraps: bool,
    ) -> IndexedView<'a> {
        let size = tensor.dims().get(dim).map_or(1, |size| *size as i64);
        let step = tensor.strides().get(dim).map_or(0, |stride| *stride as i64);
        let base = with_space(tensor, dims, strides);
        IndexedView { base, index, low: 0, high: size, wrap: if wraps { size } else { 0 }, step }
    }

    /// The sizes of the space.
    pub fn dims(&self) -> &[usize] {
        self.base.dims()
    }

    /// The part of the space between two indices of a dimension.
    pub(crate) fn sliced(&self, dim: usize, start: usize, count: usize) -> IndexedView<'a> {
        let part = |view: &View<'a>| {
            view.with_layout(view.layout().sliced(dim, start, count, 1))
                .expect("a part of the space")
        };
        IndexedView { base: part(&self.base), index: part(&self.index), ..*self }
    }

    /// The offset that an index adds to its position in `base`; `None` for one out of range.
    #[inline(always)]
    pub(crate) fn offset(&self, index: i64) -> Option<isize> {
        let index = if index < 0 { index + self.wrap } else { index };
        // One comparison: an index below `low` becomes a large number.
        let inside =
            (index.wrapping_sub(self.low) as u64) < self.high.wrapping_sub(self.low) as u64;
        inside.then(|| (index * self.step) as isize)
    }

    /// Says which index, in the order of `index`, is out of range.
    pub fn first_bad_index(&self, index: View<'_>) -> BadIndex {
        first_bad_index(index, self.high, self.wrap > 0)
    }
}

/// A tensor's first element with the sizes and strides of a space. A space without a tensor has no
/// positions that a good index could name, and counts as empty.
fn with_space<'a>(tensor: View<'a>, dims: &[usize], strides: &[isize]) -> View<'a> {
    let layout = Layout::strided(tensor.dtype(), dims, strides, 0);
    let without_strides =
        || Layout::strided(tensor.dtype(), dims, &Strides::filled(dims.len(), 0), 0);
    match tensor.count() {
        0 => tensor.dangling(without_strides()),
        _ => tensor.with_layout(layout).expect("positions of the tensor itself"),
    }
}

/// The first index, in the order of `index`, that is out of range for `size`.
fn first_bad_index(index: View<'_>, size: i64, wraps: bool) -> BadIndex {
    let valid = (if wraps { -size } else { 0 }, size - 1);
    let mut bad = BadIndex { tensor: 0, position: Dims::filled(index.rank(), 0), value: 0, valid };
    positions(index.dims(), |position| {
        let value = integer_at(&index, position);
        let is_valid = value >= valid.0 && value <= valid.1;
        if !is_valid {
            (bad.position, bad.value) = (*position, value);
        }
        is_valid
    });
    bad
}

/// The value of an integer at a position.
pub fn integer_at(view: &View<'_>, position: &[usize]) -> i64 {
    let offset: isize =
        position.iter().zip(view.strides()).map(|(index, stride)| *index as isize * stride).sum();
    // SAFETY: a position of the view.
    unsafe { load_one(view.dtype(), view.first().offset(offset * view.item() as isize)) }
}

/// Calls `visit` with every position of these sizes, the last fastest, until it returns `false`.
pub fn positions(dims: &[usize], mut visit: impl FnMut(&Dims) -> bool) {
    if dims.contains(&0) {
        return;
    }
    let mut position = Dims::filled(dims.len(), 0);
    loop {
        if !visit(&position) {
            return;
        }
        let mut dim = dims.len();
        loop {
            if dim == 0 {
                return;
            }
            dim -= 1;
            position[dim] += 1;
            if position[dim] < dims[dim] {
                break;
            }
            position[dim] = 0;
        }
    }
}

/// Runs `$body` with `$I` standing for the type of indices.
macro_rules! with_index {
    ($dtype:expr, $I:ident => $body:expr) => {
        match $dtype {
            $crate::DType::Int64 => {
                type $I = i64;
                $body
            }
            $crate::DType::Int32 => {
                type $I = i32;
                $body
            }
            other => unreachable!("indices of type {other}"),
        }
    };
}
pub(crate) use with_index;

/// One index tensor of several, with the sizes that all of them broadcast to.
#[derive(Clone, Copy)]
pub struct Coordinate<'a> {
    /// The indices.
    pub index: View<'a>,
    /// The size of the dimension they count in.
    pub size: usize,
    /// The stride of that dimension.
    pub stride: isize,
    /// Negative indices count from the end; otherwise they are out of range.
    pub wraps: bool,
}

/// Combines several index tensors: `offsets` (64-bit integers, contiguous, of their sizes) becomes the offset that the
/// indices at each position lead to.
pub fn combine(
    parallel: &dyn Parallel,
    offsets: crate::ViewMut<'_>,
    coordinates: &[Coordinate<'_>],
) -> Result<(), BadIndex> {
    let bad = AtomicBool::new(false);
    let dims = Dims::new(offsets.dims());
    assert!(offsets.is_contiguous() && offsets.dtype() == DType::Int64);
    if offsets.count() == 0 {
        return Ok(());
    }
    split(parallel, offsets.count(), 64, SMALL, |range| {
        let mut position = Dims::filled(dims.len(), 0);
        let mut rest = range.start;
        for dim in (0..dims.len()).rev() {
            position[dim] = rest % dims[dim];
            rest /= dims[dim];
        }
        for at in range {
            let mut sum = 0i64;
            for coordinate in coordinates {
                let value = integer_at(&coordinate.index, &position);
                let wraps = value < 0 && coordinate.wraps;
                let value = if wraps { value.wrapping_add(coordinate.size as i64) } else { value };
                if value < 0 || value >= coordinate.size as i64 {
                    bad.store(true, Relaxed);
                }
                sum = sum.wrapping_add(value.wrapping_mul(coordinate.stride as i64));
            }
            // SAFETY: an element of the offsets, which are contiguous.
            unsafe { offsets.first_mut().cast::<i64>().add(at).write_unaligned(sum) };
            for dim in (0..dims.len()).rev() {
                position[dim] += 1;
                if position[dim] < dims[dim] {
                    break;
                }
                position[dim] = 0;
            }
        }
    });
    if !bad.load(Relaxed) {
        return Ok(());
    }
    let found = coordinates.iter().enumerate().find_map(|(tensor, coordinate)| {
        let bad = first_bad_index(coordinate.index, coordinate.size as i64, coordinate.wraps);
        let is_valid = bad.value >= bad.valid.0 && bad.value <= bad.valid.1;
        (!is_valid).then_some(BadIndex { tensor, ..bad })
    });
    match found {
        Some(bad) => Err(bad),
        None => Ok(()),
    }
}

/// An index of a type that holds them.
pub(crate) trait Index: Element {}
impl Index for i64 {}
impl Index for i32 {}
