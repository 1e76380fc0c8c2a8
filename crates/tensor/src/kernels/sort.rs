//! Sorting, the greatest and least few, and the one in the middle.

use super::map::SMALL;
use super::order::{
    Entry, Ordered, Overwritten, entries, fill_entries, offset_of_nth, sort_entries, with_ordered,
};
use super::strip::store_one;
use crate::parallel::{Parallel, split};
use crate::{View, ViewMut};
use std::sync::atomic::{AtomicBool, Ordering};

/// Which elements of a line are selected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Selection {
    /// The first elements, this many, in order.
    First(usize),
    /// The one with this rank in the order.
    Nth(usize),
    /// The lower of the middle ones; NaN where there is one.
    Median,
    /// The lower of the middle ones of those that are numbers; NaN where there are none.
    NumberMedian,
}

/// Where the selected elements go, and scratch to find them.
#[derive(Clone, Copy)]
pub struct Ranked<'a> {
    /// The elements; the type of the tensor.
    pub values: Option<ViewMut<'a>>,
    /// Their indices in the line; integers.
    pub indices: Option<ViewMut<'a>>,
    /// [`super::order::entry_bytes`] bytes for each element of the tensor.
    pub scratch: ViewMut<'a>,
}

/// Orders the lines of `a` along `dim`. Outputs have the sizes of `a`, but along `dim` as many as are selected; they and
/// the scratch do not overlap `a`. Equal elements keep their order; NaN is the greatest.
#[allow(clippy::too_many_arguments)]
pub fn ordered(
    parallel: &dyn Parallel,
    a: View<'_>,
    dim: usize,
    descending: bool,
    selection: Selection,
    ranked: &Ranked<'_>,
) -> Result<(), Overwritten> {
    if a.count() == 0 {
        return Ok(());
    }
    let length = a.dims().get(dim).map_or(1, |size| *size);
    with_ordered!(a.dtype(), length, T, E => {
        lines::<T, E>(parallel, a, dim, descending, selection, ranked)
    })
}

/// See [`ordered`]; of one type.
fn lines<T: Ordered, E: Entry>(
    parallel: &dyn Parallel,
    a: View<'_>,
    dim: usize,
    descending: bool,
    selection: Selection,
    ranked: &Ranked<'_>,
) -> Result<(), Overwritten> {
    let (length, stride) = match a.rank() {
        0 => (1, 0),
        _ => (a.dims()[dim], a.strides()[dim]),
    };
    let start = starts(&a, dim);
    let values = ranked.values.map(|out| (out, starts(&out, dim), step(&out, dim)));
    let indices = ranked.indices.map(|out| (out, starts(&out, dim), step(&out, dim)));
    let overwritten = AtomicBool::new(false);
    split(parallel, a.count() / length, 1, (SMALL / 8).div_ceil(length), |range| {
        for line in range {
            // SAFETY: every line has its own entries.
            let entries = unsafe { entries::<E>(&ranked.scratch, line * length, length) };
            // SAFETY: the line's first element and its length.
            let first = unsafe { a.first().cast::<T>().offset(start(line)) };
            // SAFETY: as before.
            unsafe { fill_entries(entries, first, stride, descending) };
            let read = |entry: E| {
                // The workspace is the user's, and may change under us.
                let index = entry.index().min(length - 1);
                // SAFETY: inside the line.
                unsafe { first.offset(index as isize * stride).read_unaligned() }
            };
            let chosen = sort_entries(|| choose(entries, selection, |entry| read(entry).is_nan()));
            let Ok(chosen) = chosen else {
                overwritten.store(true, Ordering::Relaxed);
                return;
            };
            if let Some((out, starts, step)) = &values {
                let start = starts(line);
                for (at, entry) in chosen.iter().enumerate() {
                    let value = read(*entry);
                    // SAFETY: inside the line of the output.
                    unsafe {
                        let to = out.first_mut().cast::<T>().offset(start + at as isize * step);
                        to.write_unaligned(value);
                    }
                }
            }
            if let Some((out, starts, step)) = &indices {
                let (start, item) = (starts(line), out.item() as isize);
                for (at, entry) in chosen.iter().enumerate() {
                    // SAFETY: inside the line of the output.
                    unsafe {
                        let to = out.first_mut().offset((start + at as isize * step) * item);
                        store_one(out.dtype(), to, entry.index() as i64);
                    }
                }
            }
        }
    });
    if overwritten.into_inner() { Err(Overwritten) } else { Ok(()) }
}

/// Partitions the entries and returns the selected ones, in order.
fn choose<E: Entry>(entries: &mut [E], selection: Selection, is_nan: impl Fn(E) -> bool) -> &[E] {
    let nth = match selection {
        Selection::First(count) => {
            if count == 0 {
                return &[];
            }
            if count < entries.len() {
                entries.select_nth_unstable(count - 1);
            }
            entries[..count].sort_unstable();
            return &entries[..count];
        }
        Selection::Nth(nth) => nth,
        Selection::Median => match entries.iter().filter(|entry| is_nan(**entry)).count() {
            0 => (entries.len() - 1) / 2,
            nans => entries.len() - nans,
        },
        Selection::NumberMedian => {
            let numbers = entries.iter().filter(|entry| !is_nan(**entry)).count();
            numbers.saturating_sub(1) / 2
        }
    };
    entries.select_nth_unstable(nth);
    &entries[nth..=nth]
}

/// The stride of the dimension; 0 for a tensor without dimensions.
fn step(view: &View<'_>, dim: usize) -> isize {
    view.strides().get(dim).copied().unwrap_or(0)
}

/// Where the lines of a tensor along a dimension begin.
fn starts(view: &View<'_>, dim: usize) -> impl Fn(usize) -> isize + use<> {
    offset_of_nth(&if view.rank() == 0 { *view.layout() } else { view.layout().without(dim) })
}

/// Where values would be inserted into sorted lines: `out[i]` is the number of elements of a line that are less than
/// `values[i]`, or not greater when `right`. The lines are the last dimension of `sequences`, sorted, or in the order that
/// `sorter` gives; each row of `values` belongs to its line, or all to the only one.
///
/// An index of `sorter` out of range is returned as `Err`.
#[allow(
    clippy::undocumented_unsafe_blocks,
    reason = "clippy sees no comment inside a macro's argument"
)]
pub fn search(
    parallel: &dyn Parallel,
    out: ViewMut<'_>,
    sequences: View<'_>,
    values: View<'_>,
    sorter: Option<View<'_>>,
    right: bool,
) -> Result<(), i64> {
    let length = *sequences.dims().last().unwrap_or(&1);
    let per_line = values.dims().last().map_or(1, |size| *size).max(1);
    let is_one_line = sequences.rank() <= 1;
    let bad = std::sync::Mutex::new(None);
    let (value_offset, out_offset, sequence_offset) = (
        offset_of_nth(values.layout()),
        offset_of_nth(out.layout()),
        offset_of_nth(sequences.layout()),
    );
    let sorter_offset = sorter.as_ref().map(|view| offset_of_nth(view.layout()));
    with_ordered!(sequences.dtype(), length, T, E => {
        let _ = size_of::<E>();
        split(parallel, values.count(), 64, SMALL / 8, |range| {
            for at in range {
                let line = if is_one_line { 0 } else { at / per_line };
                // SAFETY: positions of each tensor; a sorted index is checked.
                unsafe {
                    let value = values.first().cast::<T>().offset(value_offset(at)).read_unaligned();
                    let (mut low, mut high) = (0, length);
                    while low < high {
                        let middle = low + (high - low) / 2;
                        let mut index = middle;
                        if let (Some(view), Some(offset_of)) = (&sorter, &sorter_offset) {
                            let offset = offset_of(line * length + middle) * view.item() as isize;
                            let sorted_index: i64 =
                                super::strip::load_one(view.dtype(), view.first().offset(offset));
                            if sorted_index < 0 || sorted_index >= length as i64 {
                                *bad.lock().expect("no panic while it is locked") = Some(sorted_index);
                                break;
                            }
                            index = sorted_index as usize;
                        }
                        let other = sequences.first().cast::<T>();
                        let other = other.offset(sequence_offset(line * length + index));
                        let (value, other) = (value.key(), other.read_unaligned().key());
                        if other < value || (right && other == value) {
                            low = middle + 1;
                        } else {
                            high = middle;
                        }
                    }
                    let to = out.first_mut().offset(out_offset(at) * out.item() as isize);
                    store_one(out.dtype(), to, low as i64);
                }
            }
        });
    });
    match bad.into_inner().expect("no panic while it was locked") {
        Some(sorted_index) => Err(sorted_index),
        None => Ok(()),
    }
}
