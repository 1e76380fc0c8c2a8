//! Prefetching of memory at addresses that the hardware prefetcher cannot predict.

use super::indexed::{Index, IndexedView};
use std::ops::Range;

/// How many rows ahead are prefetched.
const ROWS: isize = 6;
/// The most bytes of a row that are prefetched: the hardware predicts the rest.
const MAX_BYTES: usize = 512;
/// Bytes of a cache line.
const LINE: usize = 64;

/// Begins to load the cache line at an address, which need not be one of this process.
#[inline(always)]
pub(super) fn prefetch_line(_address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint, that reads and faults nowhere; every processor of this kind has it.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(_address.cast());
    }
}

/// Prefetches rows that indices name. For single elements it does not pay: loads of many of them are under
/// way at once as it is.
#[derive(Clone)]
pub(super) struct Prefetch<'v, 'a> {
    view: &'v IndexedView<'a>,
    /// The offsets of the index tensor's elements.
    index_extent: Range<isize>,
    /// Bytes of an element.
    item: isize,
}

impl<'v, 'a> Prefetch<'v, 'a> {
    /// For elements of `item` bytes.
    pub fn new(view: &'v IndexedView<'a>, item: usize) -> Prefetch<'v, 'a> {
        let index_extent = view.index.extent().unwrap_or(0..0);
        Prefetch { view, index_extent, item: item as isize }
    }

    /// Prefetches a row of `length` elements from `base` on: the index that names it is a few strides after `offset`.
    #[inline(always)]
    pub fn rows<I: Index>(&self, offset: isize, stride: isize, base: *const u8, length: usize) {
        let ahead = offset + ROWS * stride;
        if !self.index_extent.contains(&ahead) {
            return;
        }
        // SAFETY: between the first and the last element of the index tensor.
        let index = unsafe { self.view.index.first().cast::<I>().offset(ahead).read_unaligned() };
        if let Some(offset) = self.view.offset(index.to_i64()) {
            let first = base.wrapping_offset(offset * self.item);
            let bytes = (length * self.item as usize).min(MAX_BYTES);
            (0..bytes).step_by(LINE).for_each(|at| prefetch_line(first.wrapping_add(at)));
        }
    }
}
