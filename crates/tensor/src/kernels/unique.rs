//! Distinct elements: of all, sorted, or each that differs from the one before it.

use super::copy::copy;
use super::order::{
    Entry, Ordered, Overwritten, entries, fill_entries, offset_of_nth, sort_entries, with_ordered,
};
use super::strip::store_one;
use crate::parallel::Parallel;
use crate::{Layout, View, ViewMut};
use std::cmp::Ordering;

/// Where the distinct elements, their indices and their counts go.
#[derive(Clone, Copy)]
pub struct UniqueOutputs<'a> {
    /// Each once; the type of the tensor.
    pub values: Option<ViewMut<'a>>,
    /// For each element the number of its value. As many as there are elements, in their order.
    pub inverse: Option<ViewMut<'a>>,
    /// How often each value is there.
    pub counts: Option<ViewMut<'a>>,
}

impl UniqueOutputs<'_> {
    /// Writes a number to the output, if it is there.
    fn write(
        out: Option<&ViewMut<'_>>,
        offset_of_nth: &dyn Fn(usize) -> isize,
        at: usize,
        value: i64,
    ) {
        if let Some(out) = out {
            assert!(at < out.count());
            // SAFETY: a position of the output.
            unsafe {
                let to = out.first_mut().offset(offset_of_nth(at) * out.item() as isize);
                store_one(out.dtype(), to, value);
            }
        }
    }
}

/// The distinct elements of `a`; returns how many there are. With `scratch`, which has [`super::order::entry_bytes`] bytes
/// for each element, they are sorted, each NaN by itself at the end; without, an element counts when it differs from the
/// one before it. Outputs have room for all of `a`.
#[allow(
    clippy::undocumented_unsafe_blocks,
    reason = "clippy sees no comment inside a macro's argument"
)]
pub fn unique(
    a: View<'_>,
    outputs: &UniqueOutputs<'_>,
    scratch: Option<ViewMut<'_>>,
) -> Result<usize, Overwritten> {
    let count = a.count();
    with_ordered!(a.dtype(), count, T, E => {
        let offset_of = offset_of_nth(a.layout());
        let read = |index: usize| {
            // SAFETY: a position of the tensor.
            unsafe { a.first().cast::<T>().offset(offset_of(index)).read_unaligned() }
        };
        let mut order: Option<&mut [E]> = None;
        if let Some(scratch) = &scratch {
            // SAFETY: the scratch is this kernel's.
            let buffer = unsafe { entries::<E>(scratch, 0, count) };
            if a.is_contiguous() {
                // SAFETY: as many elements as entries.
                unsafe { fill_entries(buffer, a.first().cast::<T>(), 1, false) };
            } else {
                for (index, entry) in buffer.iter_mut().enumerate() {
                    *entry = E::new(read(index).key(), index);
                }
            }
            sort_entries(|| buffer.sort_unstable())?;
            order = Some(buffer);
        }
        // The workspace is the user's, and may change under us.
        let index = |at: usize| order.as_ref().map_or(at, |buffer| buffer[at].index().min(count - 1));
        let are_equal = |x: usize, y: usize| {
            let (x, y) = (read(x), read(y));
            x.key() == y.key() && !x.is_nan()
        };
        let values = outputs.values.map(|out| (out, offset_of_nth(out.layout())));
        Ok(emit(count, index, are_equal, outputs, |distinct, first| {
            let Some((out, offset_of_nth)) = &values else { return };
            assert!(distinct < out.count());
            // SAFETY: a position of the values.
            unsafe {
                out.first_mut().cast::<T>().offset(offset_of_nth(distinct)).write_unaligned(read(first));
            }
        }))
    })
}

/// Walks elements in an order and emits each that differs from the one before; returns how many there are.
fn emit(
    count: usize,
    index: impl Fn(usize) -> usize,
    are_equal: impl Fn(usize, usize) -> bool,
    outputs: &UniqueOutputs<'_>,
    mut keep: impl FnMut(usize, usize),
) -> usize {
    let inverse_offset = outputs.inverse.as_ref().map(|out| offset_of_nth(out.layout()));
    let counts_offset = outputs.counts.as_ref().map(|out| offset_of_nth(out.layout()));
    let no_offset = |_: usize| 0isize;
    let inverse_offset = inverse_offset
        .as_ref()
        .map_or(&no_offset as &dyn Fn(usize) -> isize, |offset_of_nth| offset_of_nth);
    let counts_offset = counts_offset
        .as_ref()
        .map_or(&no_offset as &dyn Fn(usize) -> isize, |offset_of_nth| offset_of_nth);
    let (mut distinct, mut count_of_value) = (0usize, 0i64);
    for at in 0..count {
        let element = index(at);
        if at == 0 || !are_equal(index(at - 1), element) {
            if at > 0 {
                UniqueOutputs::write(
                    outputs.counts.as_ref(),
                    counts_offset,
                    distinct - 1,
                    count_of_value,
                );
            }
            keep(distinct, element);
            distinct += 1;
            count_of_value = 0;
        }
        count_of_value += 1;
        UniqueOutputs::write(
            outputs.inverse.as_ref(),
            inverse_offset,
            element,
            distinct as i64 - 1,
        );
    }
    if count > 0 {
        UniqueOutputs::write(outputs.counts.as_ref(), counts_offset, distinct - 1, count_of_value);
    }
    distinct
}

/// As [`unique`] for the slices of `a` along a dimension, ordered element by element. `scratch` has 16
/// bytes for each slice. Slices go one after the other to `values`, which has the sizes of `a`, but along `dim`
/// as many as there are (known from a call without `values`).
#[allow(
    clippy::undocumented_unsafe_blocks,
    reason = "clippy sees no comment inside a macro's argument"
)]
pub fn unique_slices(
    parallel: &dyn Parallel,
    a: View<'_>,
    dim: usize,
    outputs: &UniqueOutputs<'_>,
    scratch: Option<ViewMut<'_>>,
) -> Result<usize, Overwritten> {
    use super::order::Wide;
    let count = a.dims()[dim];
    let slice = |at: usize| a.with_layout(a.layout().at(dim, at)).expect("a slice");
    let compare = |x: usize, y: usize| -> Ordering {
        let (x, y) = (slice(x), slice(y));
        let at = offset_of_nth(x.layout());
        with_ordered!(a.dtype(), 1, T, E => {
            let _ = size_of::<E>();
            for index in 0..x.count() {
                // SAFETY: a position that both slices have.
                let (p, q) = unsafe {
                    let offset = at(index);
                    (x.first().cast::<T>().offset(offset), y.first().cast::<T>().offset(offset))
                };
                // SAFETY: as before.
                let (p, q) = unsafe { (p.read_unaligned().key(), q.read_unaligned().key()) };
                if p != q {
                    return p.cmp(&q);
                }
            }
            Ordering::Equal
        })
    };
    let mut order: Option<&mut [Wide]> = None;
    if let Some(scratch) = &scratch {
        // SAFETY: the scratch is this kernel's.
        let buffer = unsafe { entries::<Wide>(scratch, 0, count) };
        buffer.iter_mut().enumerate().for_each(|(at, entry)| *entry = Wide::new(0, at));
        let index_of = |entry: &Wide| entry.index().min(count - 1);
        sort_entries(|| {
            buffer.sort_unstable_by(|x, y| compare(index_of(x), index_of(y)).then(x.cmp(y)));
        })?;
        order = Some(buffer);
    }
    // The workspace is the user's, and may change under us.
    let index = |at: usize| order.as_ref().map_or(at, |buffer| buffer[at].index().min(count - 1));
    let are_equal = |x: usize, y: usize| compare(x, y) == Ordering::Equal;
    Ok(emit(count, index, are_equal, outputs, |distinct, first| {
        let Some(values) = &outputs.values else { return };
        let to: Layout = values.layout().at(dim, distinct);
        copy(parallel, values.with_layout(to).expect("a slice"), slice(first));
    }))
}
