//! Elements at positions that indices name.

use super::indexed::{BadIndex, Index, IndexedView, with_index};
use super::map::SMALL;
use super::prefetch::Prefetch;
use super::walk::Walk;
use crate::parallel::{Parallel, split};
use crate::{View, ViewMut, with_type_of_size};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// `out = source`, position by position. Sizes and types are those of the source; `out`
/// shares no memory with tensor or index. Elements whose index is out of range are left as they are, and
/// the first of them is reported; `index` is the index tensor in its original layout, for the position in the error.
pub fn gather(
    parallel: &dyn Parallel,
    out: ViewMut<'_>,
    source: &IndexedView<'_>,
    index: View<'_>,
) -> Result<(), BadIndex> {
    assert!(out.dims() == source.dims() && out.dtype() == source.base.dtype());
    let bad = AtomicBool::new(false);
    with_type_of_size!(out.item(), T => with_index!(source.index.dtype(), I => {
        typed::<T, I>(parallel, &out, source, &bad)
    }));
    if bad.load(Relaxed) { Err(source.first_bad_index(index)) } else { Ok(()) }
}

/// See [`gather`]; `T` is as large as an element.
fn typed<T: Copy, I: Index>(
    parallel: &dyn Parallel,
    out: &ViewMut<'_>,
    source: &IndexedView<'_>,
    bad: &AtomicBool,
) {
    let walk = Walk::new([out.layout(), source.base.layout(), source.index.layout()]);
    let [out_stride, base_stride, index_stride] = walk.inner_strides();
    let prefetch = Prefetch::new(source, size_of::<T>());
    let next = walk.outer_strides()[2];
    split(parallel, walk.count(), 64, SMALL / 2, |range| {
        // A copy, which no element that is written can be a part of: its numbers stay in registers.
        let source = *source;
        walk.runs(range, usize::MAX, |[to, from, first_index], length| {
            // SAFETY: walks stay inside their layouts, and a checked index inside the tensor.
            unsafe {
                let to = out.first_mut().cast::<T>().offset(to);
                let from = source.base.first().cast::<T>().offset(from);
                let indices = source.index.first().cast::<I>().offset(first_index);
                if (out_stride, base_stride, index_stride) == (1, 0, 1) {
                    for at in 0..length as isize {
                        match source.offset(indices.offset(at).read_unaligned().to_i64()) {
                            Some(offset) => {
                                let value = from.offset(offset).read_unaligned();
                                to.offset(at).write_unaligned(value);
                            }
                            None => bad.store(true, Relaxed),
                        }
                    }
                    return;
                }
                if index_stride != 0 {
                    for at in 0..length as isize {
                        let index = indices.offset(at * index_stride).read_unaligned().to_i64();
                        let Some(offset) = source.offset(index) else {
                            bad.store(true, Relaxed);
                            continue;
                        };
                        let value = from.offset(at * base_stride + offset).read_unaligned();
                        to.offset(at * out_stride).write_unaligned(value);
                    }
                    return;
                }
                prefetch.rows::<I>(first_index, next, from.cast(), length);
                let Some(offset) = source.offset(indices.read_unaligned().to_i64()) else {
                    bad.store(true, Relaxed);
                    return;
                };
                let from = from.offset(offset);
                if out_stride == 1 && base_stride == 1 {
                    std::ptr::copy_nonoverlapping(
                        from.cast::<u8>(),
                        to.cast::<u8>(),
                        length * size_of::<T>(),
                    );
                } else {
                    for at in 0..length as isize {
                        to.offset(at * out_stride)
                            .write_unaligned(from.offset(at * base_stride).read_unaligned());
                    }
                }
            }
        });
    });
}
