//! Checked access to single elements of a tensor, for kernels whose order of access depends on values: by position
//! and converted to the type computed in, or by offset and of the tensor's own type.

use super::element::{BoolByte, Compute};
use super::lines::put;
use super::reduce::fetch;
use super::strip::{load_one, store_one};
use crate::{View, ViewMut};
use half::{bf16, f16};
use std::marker::PhantomData;

/// The elements of a tensor by their positions. Every access is checked against the sizes.
#[derive(Clone, Copy)]
pub struct PositionAccess<'v>(View<'v>);

/// As [`PositionAccess`], to write. No two threads write the same element.
#[derive(Clone, Copy)]
pub struct PositionAccessMut<'v>(ViewMut<'v>);

/// The offset of a position in bytes, and how many elements follow it in its line.
fn offset_of(view: &View<'_>, position: &[usize]) -> (isize, usize) {
    assert_eq!(position.len(), view.rank(), "a position has an index in each dimension");
    let mut offset = 0;
    for (at, (size, stride)) in position.iter().zip(view.dims().iter().zip(view.strides())) {
        assert!(at < size, "{position:?} lies outside {:?}", view.dims());
        offset += *at as isize * stride;
    }
    let remaining = match (view.dims().last(), position.last()) {
        (Some(size), Some(at)) => size - at,
        _ => 1,
    };
    (offset * view.item() as isize, remaining)
}

impl<'v> PositionAccess<'v> {
    /// The elements of a tensor.
    pub fn new(view: View<'v>) -> PositionAccess<'v> {
        PositionAccess(view)
    }

    /// One element.
    pub fn get<C: Compute>(&self, position: &[usize]) -> C {
        let (offset, _) = offset_of(&self.0, position);
        // SAFETY: the position is inside, as was checked.
        unsafe { load_one(self.0.dtype(), self.0.first().offset(offset)) }
    }

    /// As many elements as `into` has, from a position on along the last dimension.
    pub fn line<C: Compute>(&self, position: &[usize], into: &mut [C]) {
        if into.is_empty() {
            return;
        }
        let (offset, remaining) = offset_of(&self.0, position);
        assert!(into.len() <= remaining, "a line ends before {} elements", into.len());
        let stride = self.0.strides().last().copied().unwrap_or(1);
        // SAFETY: inside the line, as was checked.
        unsafe { fetch(self.0.dtype(), self.0.first().offset(offset), stride, into) };
    }
}

impl<'v> PositionAccessMut<'v> {
    /// The elements of a tensor.
    pub fn new(view: ViewMut<'v>) -> PositionAccessMut<'v> {
        PositionAccessMut(view)
    }

    /// The same elements, to read.
    pub fn positions(&self) -> PositionAccess<'v> {
        PositionAccess(self.0.view())
    }

    /// Writes one element.
    pub fn set<C: Compute>(&self, position: &[usize], value: C) {
        let (offset, _) = offset_of(&self.0, position);
        // SAFETY: the position is inside, as was checked.
        unsafe { store_one(self.0.dtype(), self.0.first_mut().offset(offset), value) };
    }

    /// Writes elements from a position on along the last dimension.
    pub fn put_line<C: Compute>(&self, position: &[usize], values: &[C]) {
        if values.is_empty() {
            return;
        }
        let (offset, remaining) = offset_of(&self.0, position);
        assert!(values.len() <= remaining, "a line ends before {} elements", values.len());
        let stride = self.0.strides().last().copied().unwrap_or(1);
        // SAFETY: inside the line, as was checked.
        unsafe { put(self.0.dtype(), self.0.first_mut().offset(offset), stride, values) };
    }
}

/// A type whose every pattern of bits is a value.
pub trait Plain: Copy + Send + Sync + 'static {}

macro_rules! plain {
    ($($type:ty),*) => {$(impl Plain for $type {})*};
}

plain!(u8, u16, u32, u64, u128, i8, i16, i32, i64, f32, f64, f16, bf16, BoolByte);

/// The elements of a tensor, to read one by one. Offsets count elements from the one at position 0, 0, ..
#[derive(Clone, Copy)]
pub struct OffsetAccess<'a, T> {
    view: View<'a>,
    /// The least offset of an element, and one more than the greatest.
    low: isize,
    high: isize,
    kind: PhantomData<T>,
}

/// As [`OffsetAccess`], to write too.
#[derive(Clone, Copy)]
pub struct OffsetAccessMut<'a, T>(OffsetAccess<'a, T>);

impl<'a, T: Plain> OffsetAccess<'a, T> {
    /// The elements of a tensor.
    ///
    /// # Panics
    /// If they have not the size of `T`.
    pub fn new(view: View<'a>) -> OffsetAccess<'a, T> {
        assert_eq!(view.item(), size_of::<T>());
        let extent = view.extent().unwrap_or(0..0);
        OffsetAccess { view, low: extent.start, high: extent.end, kind: PhantomData }
    }

    /// The element at an offset.
    ///
    /// # Panics
    /// If it is outside of the tensor's extent.
    #[inline(always)]
    pub fn get(&self, offset: isize) -> T {
        assert!(offset >= self.low && offset < self.high, "an element of the tensor");
        // SAFETY: inside the extent, as just checked; any bits are a `T`.
        unsafe { self.view.first().cast::<T>().offset(offset).read_unaligned() }
    }
}

impl<'a, T: Plain> OffsetAccessMut<'a, T> {
    /// As [`OffsetAccess::new`].
    pub fn new(view: ViewMut<'a>) -> OffsetAccessMut<'a, T> {
        OffsetAccessMut(OffsetAccess::new(view.view()))
    }

    /// As [`OffsetAccess::get`].
    #[inline(always)]
    pub fn get(&self, offset: isize) -> T {
        self.0.get(offset)
    }

    /// Writes the element at an offset.
    ///
    /// # Panics
    /// As [`OffsetAccess::get`].
    #[inline(always)]
    pub fn set(&self, offset: isize, value: T) {
        let OffsetAccess { low, high, view, .. } = &self.0;
        assert!(offset >= *low && offset < *high, "an element of the tensor");
        // SAFETY: inside the extent, as just checked; made from a view to write.
        unsafe { view.first().cast_mut().cast::<T>().offset(offset).write_unaligned(value) };
    }
}

/// The offset of the `number`-th position of `dims`, the last fastest, under `strides`; and the same under others.
#[inline]
pub(crate) fn offsets<const N: usize>(
    dims: &[usize],
    strides: [&[isize]; N],
    number: usize,
) -> [isize; N] {
    let (mut rest, mut offsets) = (number, [0; N]);
    for at in (0..dims.len()).rev() {
        let index = (rest % dims[at]) as isize;
        rest /= dims[at];
        for (offset, strides) in offsets.iter_mut().zip(strides) {
            *offset += index * strides[at];
        }
    }
    offsets
}
