//! Elements one by one, and parts of lines: for kernels whose way through a tensor its values decide.

use super::element::Compute;
use super::lines::put;
use super::reduce::fetch;
use super::strip::{load_one, store_one};
use crate::{View, ViewMut};

/// The elements of a tensor by their positions. Every access is checked against the sizes.
#[derive(Clone, Copy)]
pub struct Positions<'v>(View<'v>);

/// As [`Positions`], to write. No two threads write the same element.
#[derive(Clone, Copy)]
pub struct PositionsMut<'v>(ViewMut<'v>);

/// The offset of a position in bytes, and how many elements follow it in its line.
fn offset_of(view: &View<'_>, position: &[usize]) -> (isize, usize) {
    assert_eq!(position.len(), view.rank(), "a position has an index in each dimension");
    let mut offset = 0;
    for (at, (size, stride)) in position.iter().zip(view.dims().iter().zip(view.strides())) {
        assert!(at < size, "{position:?} lies outside {:?}", view.dims());
        offset += *at as isize * stride;
    }
    let left = match (view.dims().last(), position.last()) {
        (Some(size), Some(at)) => size - at,
        _ => 1,
    };
    (offset * view.item() as isize, left)
}

impl<'v> Positions<'v> {
    /// The elements of a tensor.
    pub fn new(view: View<'v>) -> Positions<'v> {
        Positions(view)
    }

    /// One element.
    pub fn get<C: Compute>(&self, position: &[usize]) -> C {
        let (offset, _) = offset_of(&self.0, position);
        // SAFETY: the position lies inside, as was checked.
        unsafe { load_one(self.0.dtype(), self.0.first().offset(offset)) }
    }

    /// As many elements as `into` has, from a position on along the last dimension.
    pub fn line<C: Compute>(&self, position: &[usize], into: &mut [C]) {
        if into.is_empty() {
            return;
        }
        let (offset, left) = offset_of(&self.0, position);
        assert!(into.len() <= left, "a line ends before {} elements", into.len());
        let stride = self.0.strides().last().copied().unwrap_or(1);
        // SAFETY: inside the line, as was checked.
        unsafe { fetch(self.0.dtype(), self.0.first().offset(offset), stride, into) };
    }
}

impl<'v> PositionsMut<'v> {
    /// The elements of a tensor.
    pub fn new(view: ViewMut<'v>) -> PositionsMut<'v> {
        PositionsMut(view)
    }

    /// To read.
    pub fn positions(&self) -> Positions<'v> {
        Positions(self.0.view())
    }

    /// Writes one element.
    pub fn set<C: Compute>(&self, position: &[usize], value: C) {
        let (offset, _) = offset_of(&self.0, position);
        // SAFETY: the position lies inside, as was checked.
        unsafe { store_one(self.0.dtype(), self.0.first_mut().offset(offset), value) };
    }

    /// Writes elements from a position on along the last dimension.
    pub fn put_line<C: Compute>(&self, position: &[usize], values: &[C]) {
        if values.is_empty() {
            return;
        }
        let (offset, left) = offset_of(&self.0, position);
        assert!(values.len() <= left, "a line ends before {} elements", values.len());
        let stride = self.0.strides().last().copied().unwrap_or(1);
        // SAFETY: inside the line, as was checked.
        unsafe { put(self.0.dtype(), self.0.first_mut().offset(offset), stride, values) };
    }
}
