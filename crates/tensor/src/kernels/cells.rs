//! Single elements of a tensor by their offset, checked against the tensor's extent.

use super::element::BoolByte;
use crate::{View, ViewMut};
use half::{bf16, f16};
use std::marker::PhantomData;

/// A type whose every pattern of bits is a value.
pub trait Plain: Copy + Send + Sync + 'static {}

macro_rules! plain {
    ($($type:ty),*) => {$(impl Plain for $type {})*};
}

plain!(u8, u16, u32, u64, u128, i8, i16, i32, i64, f32, f64, f16, bf16, BoolByte);

/// The elements of a tensor, to read one by one. Offsets count elements from the one at position 0, 0, ..
#[derive(Clone, Copy)]
pub struct Cells<'a, T> {
    view: View<'a>,
    low: isize,
    high: isize,
    kind: PhantomData<T>,
}

/// As [`Cells`], to write too.
#[derive(Clone, Copy)]
pub struct CellsMut<'a, T>(Cells<'a, T>);

impl<'a, T: Plain> Cells<'a, T> {
    /// The elements of a tensor.
    ///
    /// # Panics
    /// If they have not the size of `T`.
    pub fn new(view: View<'a>) -> Cells<'a, T> {
        assert_eq!(view.item(), size_of::<T>());
        let extent = view.extent().unwrap_or(0..0);
        Cells { view, low: extent.start, high: extent.end, kind: PhantomData }
    }

    /// The element at an offset.
    ///
    /// # Panics
    /// If it lies outside of the tensor's extent.
    #[inline(always)]
    pub fn get(&self, offset: isize) -> T {
        assert!(offset >= self.low && offset < self.high, "an element of the tensor");
        // SAFETY: inside the extent, as just checked; any bits are a `T`.
        unsafe { self.view.first().cast::<T>().offset(offset).read_unaligned() }
    }
}

impl<'a, T: Plain> CellsMut<'a, T> {
    /// As [`Cells::new`].
    pub fn new(view: ViewMut<'a>) -> CellsMut<'a, T> {
        CellsMut(Cells::new(view.view()))
    }

    /// As [`Cells::get`].
    #[inline(always)]
    pub fn get(&self, offset: isize) -> T {
        self.0.get(offset)
    }

    /// Writes the element at an offset.
    ///
    /// # Panics
    /// As [`Cells::get`].
    #[inline(always)]
    pub fn set(&self, offset: isize, value: T) {
        let Cells { low, high, view, .. } = &self.0;
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
