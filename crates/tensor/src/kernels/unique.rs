//! Elements that differ from those before them, in order or as they come.

use super::copy::copy;
use super::order::{Entry, Ordered, Overwritten, enter, entries, flat, sort_entries, with_ordered};
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
    fn note(out: Option<&ViewMut<'_>>, flat: &dyn Fn(usize) -> isize, at: usize, value: i64) {
        if let Some(out) = out {
            assert!(at < out.count());
            // SAFETY: a position of the output.
            unsafe {
                let to = out.first_mut().offset(flat(at) * out.item() as isize);
                store_one(out.dtype(), to, value);
            }
        }
    }
}

/// The different elements of `a`; how many there are. `sorted`: rising, NaN each for itself at the end, else
/// an element counts when it differs from the one before it. Outputs have room for all of `a`.
///
/// `scratch` is for a sort: [`super::order::entry_bytes`] bytes for each element of `a`.
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
        let at_a = flat(a.layout());
        let read = |index: usize| {
            // SAFETY: a position of the tensor.
            unsafe { a.first().cast::<T>().offset(at_a(index)).read_unaligned() }
        };
        let mut order: Option<&mut [E]> = None;
        if let Some(scratch) = &scratch {
            // SAFETY: the scratch is this kernel's.
            let all = unsafe { entries::<E>(scratch, 0, count) };
            if a.is_contiguous() {
                // SAFETY: as many elements as entries.
                unsafe { enter(all, a.first().cast::<T>(), 1, false) };
            } else {
                for (index, entry) in all.iter_mut().enumerate() {
                    *entry = E::new(read(index).key(), index);
                }
            }
            sort_entries(|| all.sort_unstable())?;
            order = Some(all);
        }
        // The workspace is the user's, and may change under us.
        let index = |at: usize| order.as_ref().map_or(at, |all| all[at].index().min(count - 1));
        let same = |x: usize, y: usize| {
            let (x, y) = (read(x), read(y));
            x.key() == y.key() && !x.is_nan()
        };
        let values = outputs.values.map(|out| (out, flat(out.layout())));
        Ok(emit(count, index, same, outputs, |found, first| {
            let Some((out, flat)) = &values else { return };
            assert!(found < out.count());
            // SAFETY: a position of the values.
            unsafe {
                out.first_mut().cast::<T>().offset(flat(found)).write_unaligned(read(first));
            }
        }))
    })
}

/// Walks elements in an order and emits each that differs from the one before; returns how many there are.
fn emit(
    count: usize,
    index: impl Fn(usize) -> usize,
    same: impl Fn(usize, usize) -> bool,
    outputs: &UniqueOutputs<'_>,
    mut keep: impl FnMut(usize, usize),
) -> usize {
    let at_inverse = outputs.inverse.as_ref().map(|out| flat(out.layout()));
    let at_counts = outputs.counts.as_ref().map(|out| flat(out.layout()));
    let none = |_: usize| 0isize;
    let at_inverse = at_inverse.as_ref().map_or(&none as &dyn Fn(usize) -> isize, |flat| flat);
    let at_counts = at_counts.as_ref().map_or(&none as &dyn Fn(usize) -> isize, |flat| flat);
    let (mut found, mut run) = (0usize, 0i64);
    for at in 0..count {
        let here = index(at);
        if at == 0 || !same(index(at - 1), here) {
            if at > 0 {
                UniqueOutputs::note(outputs.counts.as_ref(), at_counts, found - 1, run);
            }
            keep(found, here);
            found += 1;
            run = 0;
        }
        run += 1;
        UniqueOutputs::note(outputs.inverse.as_ref(), at_inverse, here, found as i64 - 1);
    }
    if count > 0 {
        UniqueOutputs::note(outputs.counts.as_ref(), at_counts, found - 1, run);
    }
    found
}

/// As [`unique`] for the slices of `a` along a dimension, ordered element by element. `scratch` is for a sort: 16
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
        let at = flat(x.layout());
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
        let all = unsafe { entries::<Wide>(scratch, 0, count) };
        all.iter_mut().enumerate().for_each(|(at, entry)| *entry = Wide::new(0, at));
        let place = |entry: &Wide| entry.index().min(count - 1);
        sort_entries(|| {
            all.sort_unstable_by(|x, y| compare(place(x), place(y)).then(x.cmp(y)));
        })?;
        order = Some(all);
    }
    // The workspace is the user's, and may change under us.
    let index = |at: usize| order.as_ref().map_or(at, |all| all[at].index().min(count - 1));
    let same = |x: usize, y: usize| compare(x, y) == Ordering::Equal;
    Ok(emit(count, index, same, outputs, |found, first| {
        let Some(values) = &outputs.values else { return };
        let to: Layout = values.layout().at(dim, found);
        copy(parallel, values.with_layout(to).expect("a slice"), slice(first));
    }))
}
