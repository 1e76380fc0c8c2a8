//! Where the elements of a tensor are: type, sizes, strides and offset, without the memory itself.

use crate::DType;
use std::fmt;
use std::ops::{Deref, DerefMut, Range};

/// The most dimensions a tensor has, as in CANN.
pub const MAX_DIMS: usize = 8;

/// Up to [`MAX_DIMS`] numbers, inline: sizes, strides, positions.
#[derive(Clone, Copy)]
pub struct DimArray<T> {
    length: u8,
    values: [T; MAX_DIMS],
}

/// The sizes of a tensor.
pub type Dims = DimArray<usize>;

/// The strides of a tensor, in elements.
pub type Strides = DimArray<isize>;

impl<T: Copy + Default> DimArray<T> {
    /// A copy of `values`; `None` for more than [`MAX_DIMS`].
    pub fn try_new(values: &[T]) -> Option<DimArray<T>> {
        let mut array = DimArray { length: values.len() as u8, values: [T::default(); MAX_DIMS] };
        array.values.get_mut(..values.len())?.copy_from_slice(values);
        Some(array)
    }

    /// A copy of `values`, which are at most [`MAX_DIMS`].
    pub fn new(values: &[T]) -> DimArray<T> {
        DimArray::try_new(values).expect("at most MAX_DIMS dimensions")
    }

    /// `count` times the same value.
    pub fn filled(count: usize, value: T) -> DimArray<T> {
        assert!(count <= MAX_DIMS);
        DimArray { length: count as u8, values: [value; MAX_DIMS] }
    }

    /// Appends a value; there is room for [`MAX_DIMS`].
    pub fn push(&mut self, value: T) {
        self.values[usize::from(self.length)] = value;
        self.length += 1;
    }

    /// Inserts a value before position `at`.
    pub fn insert(&mut self, at: usize, value: T) {
        let length = self.len();
        self.push(value);
        self.values[at..=length].rotate_right(1);
    }

    /// Takes out the value at a position.
    pub fn remove(&mut self, at: usize) -> T {
        let length = self.len();
        self.values[at..length].rotate_left(1);
        self.length -= 1;
        self.values[length - 1]
    }
}

impl<T: Copy + Default> Default for DimArray<T> {
    fn default() -> Self {
        DimArray { length: 0, values: [T::default(); MAX_DIMS] }
    }
}

impl<T> Deref for DimArray<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.values[..usize::from(self.length)]
    }
}

impl<T> DerefMut for DimArray<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.values[..usize::from(self.length)]
    }
}

impl<T: PartialEq> PartialEq for DimArray<T> {
    fn eq(&self, other: &DimArray<T>) -> bool {
        **self == **other
    }
}

impl<T: Eq> Eq for DimArray<T> {}

impl<T: fmt::Debug> fmt::Debug for DimArray<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: Copy + Default> FromIterator<T> for DimArray<T> {
    /// Panics when there are more than [`MAX_DIMS`].
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Self {
        let mut array = DimArray::default();
        values.into_iter().for_each(|value| array.push(value));
        array
    }
}

/// The strides of a tensor whose elements are contiguous, the last dimension fastest. Those of a tensor that
/// no memory holds (see [`Layout::fits`]) end at the greatest number there is.
pub fn contiguous_strides(dims: &[usize]) -> Strides {
    let mut strides = Strides::filled(dims.len(), 1);
    for at in (1..dims.len()).rev() {
        let size = isize::try_from(dims[at].max(1)).unwrap_or(isize::MAX);
        strides[at - 1] = strides[at].saturating_mul(size);
    }
    strides
}

/// The product of sizes; the greatest number there is where it is more.
fn count(dims: &[usize]) -> usize {
    match dims.contains(&0) {
        true => 0,
        false => dims.iter().copied().fold(1, usize::saturating_mul),
    }
}

/// The sizes that two shapes broadcast to, by PyTorch's rule; `None` when they do not.
pub fn broadcast(a: &[usize], b: &[usize]) -> Option<Dims> {
    let rank = a.len().max(b.len());
    let size =
        |dims: &[usize], at: usize| (at + dims.len()).checked_sub(rank).map_or(1, |at| dims[at]);
    let mut dims = Dims::default();
    for at in 0..rank {
        dims.push(match (size(a, at), size(b, at)) {
            (x, y) if x == y => x,
            (1, y) => y,
            (x, 1) => x,
            _ => return None,
        });
    }
    Some(dims)
}

/// Type, sizes, strides and offset of a tensor; strides and offset count elements. The offset is that of
/// the first element from the start of the storage.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Layout {
    /// The type of the elements.
    pub dtype: DType,
    /// Where the element at position 0, 0, .. is.
    pub offset: isize,
    dims: Dims,
    strides: Strides,
}

impl Layout {
    /// Elements one after the other from the start of the storage.
    pub fn contiguous(dtype: DType, dims: &[usize]) -> Layout {
        Layout { dtype, offset: 0, dims: Dims::new(dims), strides: contiguous_strides(dims) }
    }

    /// Any strides; one for each size.
    pub fn strided(dtype: DType, dims: &[usize], strides: &[isize], offset: isize) -> Layout {
        assert_eq!(dims.len(), strides.len());
        Layout { dtype, offset, dims: Dims::new(dims), strides: Strides::new(strides) }
    }

    /// The sizes.
    pub fn dims(&self) -> &[usize] {
        &self.dims
    }

    /// The strides, in elements.
    pub fn strides(&self) -> &[isize] {
        &self.strides
    }

    /// The number of dimensions.
    pub fn rank(&self) -> usize {
        self.dims.len()
    }

    /// The number of elements; the greatest number there is where they are more (see [`Layout::fits`]).
    pub fn count(&self) -> usize {
        count(&self.dims)
    }

    /// Bytes of one element; 0 for a type whose elements have no integral number of bytes.
    pub fn item(&self) -> usize {
        self.dtype.size_in_bytes().unwrap_or(0)
    }

    /// Bytes of all elements when they are contiguous.
    pub fn bytes(&self) -> usize {
        self.count().saturating_mul(self.item())
    }

    /// Whether the bytes of all elements, one after the other, fit the address space, a size of 0 taken as 1.
    pub fn fits(&self) -> bool {
        let sizes = self.dims.iter().map(|size| (*size).max(1));
        let bytes = { sizes }.try_fold(self.item().max(1), usize::checked_mul);
        bytes.is_some_and(|bytes| isize::try_from(bytes).is_ok())
    }

    /// One part of each complex number, as real numbers: 0 the real, 1 the imaginary one.
    pub fn part(&self, which: isize) -> Layout {
        let strides: Strides = self.strides.iter().map(|stride| stride * 2).collect();
        let (dtype, offset) = (self.dtype.real_part(), self.offset * 2 + which);
        Layout { dtype, offset, dims: self.dims, strides }
    }

    /// Complex numbers as real ones, with a last dimension for the two parts; `None` if that is one dimension too many.
    pub fn view_as_real(&self) -> Option<Layout> {
        let mut real = self.part(0);
        if self.rank() == MAX_DIMS {
            return None;
        }
        real.dims.push(2);
        real.strides.push(1);
        Some(real)
    }

    /// Elements are contiguous, the last dimension fastest.
    pub fn is_contiguous(&self) -> bool {
        let mut expected = 1;
        for (size, stride) in self.dims.iter().zip(self.strides.iter()).rev() {
            match *size {
                0 => return true,
                1 => {}
                _ if *stride != expected => return false,
                size => expected = expected.wrapping_mul(size as isize),
            }
        }
        true
    }

    /// The elements of the storage between the first and the last that is used; empty without elements.
    /// `None` when it exceeds the address space.
    #[inline]
    pub fn extent(&self) -> Option<Range<isize>> {
        if self.dims.contains(&0) {
            return Some(self.offset..self.offset);
        }
        let (mut low, mut high) = (self.offset, self.offset);
        for (size, stride) in self.dims.iter().zip(self.strides.iter()) {
            let reach = isize::try_from(size - 1).ok()?.checked_mul(*stride)?;
            match reach < 0 {
                true => low = low.checked_add(reach)?,
                false => high = high.checked_add(reach)?,
            }
        }
        Some(low..high.checked_add(1)?)
    }

    /// The same elements, their storage counted from another start.
    #[inline]
    pub fn from_offset(self, offset: isize) -> Layout {
        Layout { offset, ..self }
    }

    /// The same sizes and strides with another type of the same or another size.
    pub fn with_dtype(self, dtype: DType) -> Layout {
        Layout { dtype, ..self }
    }

    /// Contiguous, with the same sizes and type.
    pub fn packed(&self) -> Layout {
        Layout::contiguous(self.dtype, &self.dims)
    }

    /// Repeats dimensions of size 1, and puts new ones in front; `None` when the sizes do not fit.
    pub fn broadcast_to(&self, dims: &[usize]) -> Option<Layout> {
        let new_dims = dims.len().checked_sub(self.rank())?;
        let mut strides = Strides::filled(dims.len(), 0);
        for (at, (size, stride)) in self.dims.iter().zip(self.strides.iter()).enumerate() {
            match (*size, dims[new_dims + at]) {
                (have, want) if have == want => strides[new_dims + at] = *stride,
                (1, _) => {}
                _ => return None,
            }
        }
        Some(Layout { dims: Dims::try_new(dims)?, strides, ..*self })
    }

    /// The dimensions in another order: `order[i]` becomes dimension i.
    pub fn permuted(&self, order: &[usize]) -> Layout {
        let dims = order.iter().map(|at| self.dims[*at]).collect();
        let strides = order.iter().map(|at| self.strides[*at]).collect();
        Layout { dims, strides, ..*self }
    }

    /// Two dimensions swapped.
    pub fn transposed(mut self, a: usize, b: usize) -> Layout {
        self.dims.swap(a, b);
        self.strides.swap(a, b);
        self
    }

    /// `count` elements of a dimension from `start` on, every `step`-th. Without a second element `step` has no meaning.
    pub fn sliced(mut self, dim: usize, start: usize, count: usize, step: isize) -> Layout {
        let step = if count > 1 { step } else { 1 };
        self.offset += start as isize * self.strides[dim];
        self.dims[dim] = count;
        self.strides[dim] *= step;
        self
    }

    /// The part at one index of a dimension, without that dimension.
    pub fn at(mut self, dim: usize, index: usize) -> Layout {
        self.offset += index as isize * self.strides[dim];
        self.without(dim)
    }

    /// Without a dimension: the part at its first index.
    pub fn without(mut self, dim: usize) -> Layout {
        self.dims.remove(dim);
        self.strides.remove(dim);
        self
    }

    /// With a new dimension of size 1 before dimension `dim`.
    pub fn with(mut self, dim: usize) -> Layout {
        self.dims.insert(dim, 1);
        self.strides.insert(dim, 0);
        self
    }

    /// The same elements in the same order with other sizes, without a copy; `None` where that takes one, or
    /// counts differ.
    pub fn reshaped(&self, dims: &[usize]) -> Option<Layout> {
        if count(dims) != self.count() {
            return None;
        }
        if self.count() == 0 || self.is_contiguous() {
            return Some(Layout { offset: self.offset, ..Layout::contiguous(self.dtype, dims) });
        }
        let old: Vec<(usize, isize)> =
            (self.dims.iter().copied().zip(self.strides.iter().copied()))
                .filter(|(size, _)| *size != 1)
                .collect();
        let mut strides = Strides::filled(dims.len(), 0);
        // Groups of old dimensions and groups of new ones, as short as possible, with the same product of sizes.
        let (mut next, mut from) = (0, 0);
        while from < old.len() {
            let (mut have, mut want) = (old[from].0, 1);
            let (first, mut to) = (next, from + 1);
            while want != have {
                if want < have {
                    want *= *dims.get(next)?;
                    next += 1;
                } else {
                    let (size, stride) = *old.get(to)?;
                    if old[to - 1].1 != stride * size as isize {
                        return None;
                    }
                    have *= size;
                    to += 1;
                }
            }
            let mut stride = old[to - 1].1;
            for at in (first..next).rev() {
                strides[at] = stride;
                stride *= dims[at] as isize;
            }
            from = to;
        }
        Some(Layout { dims: Dims::new(dims), strides, ..*self })
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{:?}", self.dtype, self.dims)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const F: DType = DType::Float;

    #[test]
    fn broadcasting() {
        assert_eq!(broadcast(&[3, 1], &[4]).as_deref(), Some(&[3, 4][..]));
        assert_eq!(broadcast(&[0, 1], &[1, 5]).as_deref(), Some(&[0, 5][..]));
        assert_eq!(broadcast(&[], &[2]).as_deref(), Some(&[2][..]));
        assert_eq!(broadcast(&[3], &[4]), None);
        let expanded = Layout::contiguous(F, &[3, 1]).broadcast_to(&[2, 3, 4]).unwrap();
        assert_eq!(expanded.strides(), [0, 1, 0]);
        assert!(expanded.repeats());
        assert_eq!(Layout::contiguous(F, &[3]).broadcast_to(&[4]), None);
    }

    #[test]
    fn extents() {
        assert_eq!(Layout::contiguous(F, &[2, 3]).extent(), Some(0..6));
        assert_eq!(Layout::strided(F, &[2, 3], &[-10, 2], 12).extent(), Some(2..17));
        assert_eq!(Layout::contiguous(F, &[2, 0]).from_offset(5).extent(), Some(5..5));
        assert_eq!(Layout::strided(F, &[usize::MAX], &[2], 0).extent(), None);
    }

    #[test]
    fn reshaping_without_a_copy() {
        let transposed = Layout::contiguous(F, &[4, 6]).transposed(0, 1);
        assert_eq!(transposed.reshaped(&[24]), None);
        assert_eq!(transposed.reshaped(&[2, 3, 4]).unwrap().strides(), [3, 1, 6]);
        assert_eq!(transposed.reshaped(&[2, 3, 1, 4]).unwrap().strides()[3], 6);
        let part = Layout::contiguous(F, &[4, 6]).sliced(1, 1, 3, 2);
        assert_eq!(part.reshaped(&[12]).unwrap().strides(), [2]);
        assert_eq!(part.sliced(0, 0, 2, 2).reshaped(&[6]), None);
        assert_eq!(Layout::contiguous(F, &[2, 3]).reshaped(&[7]), None);
        assert_eq!(Layout::contiguous(F, &[0, 3]).reshaped(&[5, 0]).unwrap().dims(), [5, 0]);
    }

    #[test]
    fn what_no_memory_holds_does_not_fit() {
        let half = 1 << 32;
        assert!(Layout::contiguous(F, &[half, 1 << 28]).fits());
        assert!(!Layout::contiguous(F, &[half, half, half]).fits());
        assert!(!Layout::contiguous(F, &[0, half, half]).fits());
        assert!(!Layout::contiguous(F, &[usize::MAX, 2]).fits());
        assert!(!Layout::contiguous(F, &[1 << 61]).fits());
    }

    #[test]
    fn arrays_insert_and_remove() {
        let mut array = Dims::new(&[1, 2, 3]);
        array.insert(1, 9);
        assert_eq!(*array, [1, 9, 2, 3]);
        assert_eq!(array.remove(0), 1);
        assert_eq!(*array, [9, 2, 3]);
        assert!(Dims::try_new(&[1; 9]).is_none());
    }
}
