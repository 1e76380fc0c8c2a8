//! Elements to positions that indices name.

use super::element::{BoolByte, Compute, Element};
use super::indexed::{BadIndex, Index, IndexedView, with_index};
use super::map::SMALL;
use super::number::Number;
use super::prefetch::Prefetch;
use super::strip::{narrow, vectorised};
use super::walk::Walk;
use crate::parallel::{Parallel, split};
use crate::{DType, View, ViewMut, with_bits};
use half::{bf16, f16};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// What becomes of an element when a value is scattered to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScatterMode {
    /// The value replaces it; of several the last in the order of the indices.
    Replace,
    /// The sum.
    Add,
    /// The product.
    Multiply,
    /// The greater.
    Greatest,
    /// The lesser.
    Least,
}

/// Scatters `values` to their targets. Sizes are those of the targets; `Replace` takes values of the tensor's
/// type, the others of types that [`can_accumulate`] allows (half types are combined in a tensor of `f32`). Values for one element are combined in the order
/// of the indices, however many threads there are. Values whose index is out of range go nowhere, and the first is reported;
/// `index` is the tensor of indices as its caller knows it.
///
/// `tensor` is the one that the targets are in, and shares no memory with values or index.
pub fn scatter(
    parallel: &dyn Parallel,
    tensor: ViewMut<'_>,
    targets: &IndexedView<'_>,
    values: View<'_>,
    mode: ScatterMode,
    index: View<'_>,
) -> Result<(), BadIndex> {
    assert!(values.dims() == targets.dims() && tensor.dtype() == targets.base.dtype());
    let bad = AtomicBool::new(false);
    match mode {
        ScatterMode::Replace => {
            assert!(values.dtype() == tensor.dtype());
            with_bits!(tensor.item(), T => with_index!(targets.index.dtype(), I => {
                each::<I>(parallel, targets, values, &bad, &|to, from| {
                    // SAFETY: both are elements of this size, as `each` guarantees.
                    unsafe { to.cast::<T>().write_unaligned(from.cast::<T>().read_unaligned()) }
                }, size_of::<T>() as isize, size_of::<T>() as isize)
            }));
        }
        ScatterMode::Add => accumulate(
            parallel,
            targets,
            values,
            &bad,
            |x, y| x.add(y),
            |x, y| x.add(y),
            |x, y| x.add(y),
        ),
        ScatterMode::Multiply => accumulate(
            parallel,
            targets,
            values,
            &bad,
            |x, y| x.mul(y),
            |x, y| x.mul(y),
            |x, y| x.mul(y),
        ),
        ScatterMode::Greatest => accumulate(
            parallel,
            targets,
            values,
            &bad,
            |x, y| x.greatest(y),
            |x, y| x.greatest(y),
            |x, y| x.greatest(y),
        ),
        ScatterMode::Least => accumulate(
            parallel,
            targets,
            values,
            &bad,
            |x, y| x.least(y),
            |x, y| x.least(y),
            |x, y| x.least(y),
        ),
    }
    if bad.load(Relaxed) { Err(targets.first_bad_index(index)) } else { Ok(()) }
}

/// Whether values of one type can be combined with elements of another, other than by `Replace`.
pub fn can_accumulate(tensor: DType, values: DType) -> bool {
    match tensor {
        DType::Float16 | DType::Bf16 => false,
        DType::Float if matches!(values, DType::Float16 | DType::Bf16) => true,
        _ => tensor == values && super::element::compute_type(tensor).is_some(),
    }
}

fn accumulate(
    parallel: &dyn Parallel,
    targets: &IndexedView<'_>,
    values: View<'_>,
    bad: &AtomicBool,
    single: impl Fn(f32, f32) -> f32 + Sync,
    double: impl Fn(f64, f64) -> f64 + Sync,
    whole: impl Fn(i64, i64) -> i64 + Sync,
) {
    let (to, from) = (targets.base.dtype(), values.dtype());
    macro_rules! numbers {
        ($T:ty, $V:ty, $C:ty, $f:expr) => {
            with_index!(targets.index.dtype(), I => {
                numbers::<$T, $V, $C, I>(parallel, targets, values, bad, &$f)
            })
        };
    }
    match (to, from) {
        (DType::Float, DType::Float) => numbers!(f32, f32, f32, single),
        (DType::Float, DType::Float16) => numbers!(f32, f16, f32, single),
        (DType::Float, DType::Bf16) => numbers!(f32, bf16, f32, single),
        (DType::Double, DType::Double) => numbers!(f64, f64, f64, double),
        (DType::Int8, DType::Int8) => numbers!(i8, i8, i64, whole),
        (DType::Uint8, DType::Uint8) => numbers!(u8, u8, i64, whole),
        (DType::Int16, DType::Int16) => numbers!(i16, i16, i64, whole),
        (DType::Int32, DType::Int32) => numbers!(i32, i32, i64, whole),
        (DType::Int64, DType::Int64) => numbers!(i64, i64, i64, whole),
        (DType::Bool, DType::Bool) => numbers!(BoolByte, BoolByte, i64, whole),
        _ => unreachable!("{from} can_accumulate {to}"),
    }
}

fn numbers<T: Element, V: Element, C: Number + Compute, I: Index>(
    parallel: &dyn Parallel,
    targets: &IndexedView<'_>,
    values: View<'_>,
    bad: &AtomicBool,
    f: &(impl Fn(C, C) -> C + Sync),
) {
    each::<I>(
        parallel,
        targets,
        values,
        bad,
        &|to, from| {
            // SAFETY: elements of these types, as `each` guarantees.
            unsafe {
                let (to, from) = (to.cast::<T>(), from.cast::<V>());
                let result = f(to.read_unaligned().widen(), from.read_unaligned().widen());
                to.write_unaligned(narrow(result));
            }
        },
        size_of::<T>() as isize,
        size_of::<V>() as isize,
    )
}

/// Calls `put` with each element and the value that comes to it. Threads take slices along a
/// dimension that no index moves in, so that no two of them meet; without one, one does it all.
#[inline(always)]
fn each<I: Index>(
    parallel: &dyn Parallel,
    targets: &IndexedView<'_>,
    values: View<'_>,
    bad: &AtomicBool,
    put: &(impl Fn(*mut u8, *const u8) + Sync),
    item: isize,
    value_item: isize,
) {
    let dims = targets.dims();
    let count: usize = dims.iter().product();
    let apart = (0..dims.len()).filter(|at| targets.base.strides()[*at] != 0);
    let Some(dim) = apart.max_by_key(|at| dims[*at]) else {
        return slice::<I>(targets, values, bad, put, item, value_item);
    };
    let least = (SMALL / 2).div_ceil((count / dims[dim].max(1)).max(1));
    let grain = if targets.base.strides()[dim] == 1 { 16 } else { 1 };
    split(parallel, dims[dim], grain, least, |range| {
        let part = targets.sliced(dim, range.start, range.len());
        let values = values.with_layout(values.layout().sliced(dim, range.start, range.len(), 1));
        let values = values.expect("a part of the values");
        slice::<I>(&part, values, bad, put, item, value_item);
    });
}

#[inline(always)]
fn slice<I: Index>(
    targets: &IndexedView<'_>,
    values: View<'_>,
    bad: &AtomicBool,
    put: &impl Fn(*mut u8, *const u8),
    item: isize,
    value_item: isize,
) {
    let walk = Walk::new([targets.index.layout(), targets.base.layout(), values.layout()]);
    let [si, sb, sv] = walk.inner_strides();
    let prefetch = Prefetch::new(targets, item as usize);
    let next = walk.outer_strides()[0];
    vectorised(|| {
        // A copy, which no element that is written can be a part of: its numbers stay in registers.
        let targets = *targets;
        for ([first, to, from], length) in walk.steps(0..walk.count(), usize::MAX) {
            // SAFETY: walks stay inside their layouts, and a checked index inside the tensor.
            unsafe {
                let named = targets.index.first().cast::<I>().offset(first);
                let to = targets.base.first().cast_mut().offset(to * item);
                let from = values.first().offset(from * value_item);
                if si != 0 {
                    for at in 0..length as isize {
                        match targets.offset(named.offset(at * si).read_unaligned().to_i64()) {
                            Some(offset) => put(
                                to.offset((at * sb + offset) * item),
                                from.offset(at * sv * value_item),
                            ),
                            None => bad.store(true, Relaxed),
                        }
                    }
                    continue;
                }
                prefetch.rows::<I>(first, next, to, length);
                let Some(offset) = targets.offset(named.read_unaligned().to_i64()) else {
                    bad.store(true, Relaxed);
                    continue;
                };
                let to = to.offset(offset * item);
                if sb == 1 && sv == 1 {
                    for at in 0..length as isize {
                        put(to.offset(at * item), from.offset(at * value_item));
                    }
                } else {
                    for at in 0..length as isize {
                        put(to.offset(at * sb * item), from.offset(at * sv * value_item));
                    }
                }
            }
        }
    });
}
