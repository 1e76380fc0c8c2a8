//! Tensors in memory. The one place that turns bytes into elements.

use crate::{DType, Layout};
use std::cell::Cell;
use std::marker::PhantomData;
use std::ops::Deref;

/// A tensor in memory, to read.
///
/// Made only over bytes that hold every element ([`View::over`]), so that a kernel which keeps to sizes and
/// strides stays inside. Several views may share bytes, also with [`ViewMut`]: nobody holds references to
/// elements while somebody else writes them, and no two threads touch an element that one of them writes.
#[derive(Clone, Copy)]
pub struct View<'a> {
    first: *mut u8,
    layout: Layout,
    bytes: PhantomData<&'a [Cell<u8>]>,
}

/// A tensor in memory, to write; reads as a [`View`] does.
#[derive(Clone, Copy)]
pub struct ViewMut<'a>(View<'a>);

// SAFETY: a view is an address and numbers; kernels keep the rule of the type's contract about threads.
unsafe impl Send for View<'_> {}
// SAFETY: as above.
unsafe impl Sync for View<'_> {}

/// Bytes that threads share, to be cut into parts: the rule of [`View`] about threads holds for
/// them too.
#[derive(Clone, Copy)]
pub struct Shared<'a> {
    first: *const Cell<u8>,
    length: usize,
    bytes: PhantomData<&'a [Cell<u8>]>,
}

// SAFETY: an address and a length; kernels keep the rule of the type's contract about threads.
unsafe impl Send for Shared<'_> {}
// SAFETY: as above.
unsafe impl Sync for Shared<'_> {}

impl<'a> Shared<'a> {
    /// All of `bytes`.
    pub fn new(bytes: &'a [Cell<u8>]) -> Shared<'a> {
        Shared { first: bytes.as_ptr(), length: bytes.len(), bytes: PhantomData }
    }

    /// How many bytes there are.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// The bytes from `start` on, as many as `count`.
    ///
    /// # Panics
    /// If they are not all inside.
    pub fn part(&self, start: usize, count: usize) -> &'a [Cell<u8>] {
        // SAFETY: made from a slice of this length that outlives `'a`.
        let all = unsafe { std::slice::from_raw_parts(self.first, self.length) };
        &all[start..start + count]
    }
}

impl<'a> View<'a> {
    /// The tensor with this layout, whose offset counts from the first of `bytes`. `None` when an element
    /// would be outside of them.
    #[inline]
    pub fn over(bytes: &'a [Cell<u8>], layout: Layout) -> Option<View<'a>> {
        View::at(bytes.as_ptr().cast(), bytes.len(), layout)
    }

    /// As [`View::over`], of bytes that nobody writes.
    pub fn of(bytes: &'a [u8], layout: Layout) -> Option<View<'a>> {
        View::at(bytes.as_ptr(), bytes.len(), layout)
    }

    /// The tensor with this layout in `length` bytes from `bytes` on.
    #[inline]
    fn at(bytes: *const u8, length: usize, layout: Layout) -> Option<View<'a>> {
        let item = layout.dtype.size_in_bytes()?;
        let extent = layout.extent()?;
        let first = if extent.is_empty() {
            bytes
        } else {
            let end = usize::try_from(extent.end).ok()?.checked_mul(item)?;
            if extent.start < 0 || end > length {
                return None;
            }
            // SAFETY: the first element is in the extent, which is in the bytes.
            unsafe { bytes.offset(layout.offset * item as isize) }
        };
        let layout = layout.from_offset(0);
        Some(View { first: first.cast_mut(), layout, bytes: PhantomData })
    }

    /// The same elements with another layout: sliced, permuted, broadcast. `None` when the new layout has an
    /// element that this one's extent lacks. The new layout's offset counts from this view's first element.
    pub fn with_layout(&self, layout: Layout) -> Option<View<'a>> {
        let (extent, new_extent) = (self.layout.extent()?, layout.extent()?);
        let inside = new_extent.is_empty()
            || (new_extent.start >= extent.start && new_extent.end <= extent.end);
        if !inside || layout.item() != self.layout.item() {
            return None;
        }
        let offset = if new_extent.is_empty() { 0 } else { layout.offset * layout.item() as isize };
        // SAFETY: the new first element is in the extent of the old elements.
        let first = unsafe { self.first.offset(offset) };
        Some(View { first, layout: layout.from_offset(0), bytes: PhantomData })
    }

    /// Sizes and strides without elements behind them, for tensors that have none. Nobody reads there.
    pub(crate) fn dangling(&self, layout: Layout) -> View<'a> {
        View { first: self.first, layout: layout.from_offset(0), bytes: PhantomData }
    }

    /// The layout; its offset is 0.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The type of the elements.
    pub fn dtype(&self) -> DType {
        self.layout.dtype
    }

    /// The address of the element at position 0, 0, ..; dangling when there is none.
    pub(crate) fn first(&self) -> *const u8 {
        self.first
    }

    /// The address as a number, to compare it with others.
    pub fn address(&self) -> usize {
        self.first as usize
    }
}

impl Deref for View<'_> {
    type Target = Layout;

    fn deref(&self) -> &Layout {
        &self.layout
    }
}

impl<'a> ViewMut<'a> {
    /// As [`View::over`].
    #[inline]
    pub fn over(bytes: &'a [Cell<u8>], layout: Layout) -> Option<ViewMut<'a>> {
        View::over(bytes, layout).map(ViewMut)
    }

    /// As [`View::with_layout`].
    pub fn with_layout(&self, layout: Layout) -> Option<ViewMut<'a>> {
        self.0.with_layout(layout).map(ViewMut)
    }

    /// The same tensor, to read.
    pub fn view(&self) -> View<'a> {
        self.0
    }

    /// As [`View::first`], to write.
    pub(crate) fn first_mut(&self) -> *mut u8 {
        self.0.first
    }
}

impl<'a> Deref for ViewMut<'a> {
    type Target = View<'a>;

    fn deref(&self) -> &View<'a> {
        &self.0
    }
}
