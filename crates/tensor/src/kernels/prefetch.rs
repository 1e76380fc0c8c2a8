//! Memory that a kernel will want soon, at places that no processor foresees.

use super::indexed::{Index, IndexedView};
use std::ops::Range;

/// How many rows ahead.
const ROWS: isize = 6;
/// The most of a row that is asked for: a processor foresees the rest.
const MOST: usize = 512;
const LINE: usize = 64;

/// Begins to load the cache line at an address, which need not be one of this process.
#[inline(always)]
fn line(_address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint, that reads and faults nowhere; every processor of this kind has it.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(_address.cast());
    }
}

/// Asks for rows that indices name, before their turn. For single elements it does not pay: loads of many of them are under
/// way at once as it is.
#[derive(Clone)]
pub(super) struct Prefetch<'v, 'a> {
    view: &'v IndexedView<'a>,
    /// The offsets of the index tensor's elements.
    within: Range<isize>,
    item: isize,
}

impl<'v, 'a> Prefetch<'v, 'a> {
    /// For elements of `item` bytes.
    pub fn new(view: &'v IndexedView<'a>, item: usize) -> Prefetch<'v, 'a> {
        let within = view.index.extent().unwrap_or(0..0);
        Prefetch { view, within, item: item as isize }
    }

    /// The index at an offset, and those that follow it `stride` apart, name rows of `length` elements.
    #[inline(always)]
    pub fn rows<I: Index>(&self, named: isize, stride: isize, base: *const u8, length: usize) {
        let named = named + ROWS * stride;
        if !self.within.contains(&named) {
            return;
        }
        // SAFETY: between the first and the last element of the index tensor.
        let index = unsafe { self.view.index.first().cast::<I>().offset(named).read_unaligned() };
        if let Some(offset) = self.view.offset(index.to_i64()) {
            let first = base.wrapping_offset(offset * self.item);
            let bytes = (length * self.item as usize).min(MOST);
            (0..bytes).step_by(LINE).for_each(|at| line(first.wrapping_add(at)));
        }
    }
}
