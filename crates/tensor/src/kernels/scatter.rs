//! Scatters values to indexed positions.

use super::element::{BoolByte, Compute, Element, complex_type};
use super::indexed::{BadIndex, Index, IndexedView, with_index};
use super::map::SMALL;
use super::number::Number;
use super::prefetch::Prefetch;
use super::strip::{narrow, vectorised};
use super::walk::Walk;
use crate::parallel::{Parallel, split};
use crate::{DType, View, ViewMut, with_type_of_size};
use half::{bf16, f16};
use num_complex::Complex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// What becomes of an element when a value is scattered to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScatterMode {
    /// The value replaces it; if several go to one element, the last in the order of the indices wins.
    Replace,
    /// The sum.
    Add,
    /// The product.
    Multiply,
    /// The greater.
    Max,
    /// The lesser.
    Min,
}

/// Scatters `values` to their targets. Sizes are those of the targets; `Replace` takes values of the tensor's
/// type, the others of types that [`can_accumulate`] allows (half types are combined in a tensor of `f32`). Values for one element are combined in the order
/// of the indices, however many threads there are. Values whose index is out of range are skipped, and the first is reported;
/// `index` is the index tensor in its original layout, for the position in the error.
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
    let is_complex = complex_type(tensor.dtype()).is_some();
    /// The same method for each of the types that elements are combined in.
    macro_rules! accumulate_by {
        ($method:ident) => {
            accumulate(
                parallel,
                targets,
                values,
                &bad,
                |x, y| x.$method(y),
                |x, y| x.$method(y),
                |x, y| x.$method(y),
            )
        };
    }
    match mode {
        ScatterMode::Add if is_complex => {
            accumulate_complex(parallel, targets, values, &bad, |x, y| x + y, |x, y| x + y);
        }
        ScatterMode::Multiply if is_complex => {
            accumulate_complex(parallel, targets, values, &bad, |x, y| x * y, |x, y| x * y);
        }
        ScatterMode::Replace => {
            assert!(values.dtype() == tensor.dtype());
            with_type_of_size!(tensor.item(), T => with_index!(targets.index.dtype(), I => {
                each::<I>(parallel, targets, values, &bad, &|to, from| {
                    // SAFETY: both are elements of this size, as `each` guarantees.
                    unsafe { to.cast::<T>().write_unaligned(from.cast::<T>().read_unaligned()) }
                }, size_of::<T>() as isize, size_of::<T>() as isize)
            }));
        }
        ScatterMode::Add => accumulate_by!(add),
        ScatterMode::Multiply => accumulate_by!(mul),
        ScatterMode::Max => accumulate_by!(greatest),
        ScatterMode::Min => accumulate_by!(least),
    }
    if bad.load(Relaxed) { Err(targets.first_bad_index(index)) } else { Ok(()) }
}

/// Whether values of one type can be combined with elements of another, other than by `Replace`; see also
/// [`can_accumulate_complex`].
pub fn can_accumulate(tensor: DType, values: DType) -> bool {
    match tensor {
        DType::Float16 | DType::Bf16 => false,
        DType::Float if matches!(values, DType::Float16 | DType::Bf16) => true,
        _ => tensor == values && super::element::compute_type(tensor).is_some(),
    }
}

/// Whether complex values of one type can be added to and multiplied with elements of another; they have no order.
pub fn can_accumulate_complex(tensor: DType, values: DType) -> bool {
    tensor == values && matches!(tensor, DType::Complex64 | DType::Complex128)
}

/// As [`accumulate`], of complex numbers.
fn accumulate_complex(
    parallel: &dyn Parallel,
    targets: &IndexedView<'_>,
    values: View<'_>,
    bad: &AtomicBool,
    single: impl Fn(Complex<f32>, Complex<f32>) -> Complex<f32> + Sync,
    double: impl Fn(Complex<f64>, Complex<f64>) -> Complex<f64> + Sync,
) {
    type Single = Complex<f32>;
    type Double = Complex<f64>;
    let (to, from) = (targets.base.dtype(), values.dtype());
    assert!(can_accumulate_complex(to, from), "cannot accumulate {from} into {to}");
    with_index!(targets.index.dtype(), I => match to {
        DType::Complex128 => {
            accumulate_typed::<Double, Double, Double, I>(parallel, targets, values, bad, &double);
        }
        _ => accumulate_typed::<Single, Single, Single, I>(parallel, targets, values, bad, &single),
    });
}

/// Combines values with their targets by the function of the type that elements are combined in.
fn accumulate(
    parallel: &dyn Parallel,
    targets: &IndexedView<'_>,
    values: View<'_>,
    bad: &AtomicBool,
    single: impl Fn(f32, f32) -> f32 + Sync,
    double: impl Fn(f64, f64) -> f64 + Sync,
    integer: impl Fn(i64, i64) -> i64 + Sync,
) {
    let (to, from) = (targets.base.dtype(), values.dtype());
    macro_rules! accumulate_typed {
        ($T:ty, $V:ty, $C:ty, $f:expr) => {
            with_index!(targets.index.dtype(), I => {
                accumulate_typed::<$T, $V, $C, I>(parallel, targets, values, bad, &$f)
            })
        };
    }
    match (to, from) {
        (DType::Float, DType::Float) => accumulate_typed!(f32, f32, f32, single),
        (DType::Float, DType::Float16) => accumulate_typed!(f32, f16, f32, single),
        (DType::Float, DType::Bf16) => accumulate_typed!(f32, bf16, f32, single),
        (DType::Double, DType::Double) => accumulate_typed!(f64, f64, f64, double),
        (DType::Int8, DType::Int8) => accumulate_typed!(i8, i8, i64, integer),
        (DType::Uint8, DType::Uint8) => accumulate_typed!(u8, u8, i64, integer),
        (DType::Int16, DType::Int16) => accumulate_typed!(i16, i16, i64, integer),
        (DType::Int32, DType::Int32) => accumulate_typed!(i32, i32, i64, integer),
        (DType::Int64, DType::Int64) => accumulate_typed!(i64, i64, i64, integer),
        (DType::Bool, DType::Bool) => accumulate_typed!(BoolByte, BoolByte, i64, integer),
        _ => unreachable!("cannot accumulate {from} into {to}: the caller checks `can_accumulate`"),
    }
}

/// See [`accumulate`]; elements `T` and values `V` are combined in `C`.
fn accumulate_typed<T: Element, V: Element, C: Compute, I: Index>(
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

/// Calls `put` with each element and the value for it. The work is split along a
/// dimension that is not indexed, so that no two threads write the same element; if there is none, one thread does it all.
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
    let unindexed = (0..dims.len()).filter(|at| targets.base.strides()[*at] != 0);
    let Some(dim) = unindexed.max_by_key(|at| dims[*at]) else {
        return scatter_part::<I>(targets, values, bad, put, item, value_item);
    };
    let least = (SMALL / 2).div_ceil((count / dims[dim].max(1)).max(1));
    let grain = if targets.base.strides()[dim] == 1 { 16 } else { 1 };
    split(parallel, dims[dim], grain, least, |range| {
        let part = targets.sliced(dim, range.start, range.len());
        let values = values.with_layout(values.layout().sliced(dim, range.start, range.len(), 1));
        let values = values.expect("a part of the values");
        scatter_part::<I>(&part, values, bad, put, item, value_item);
    });
}

/// As [`each`], on one thread.
#[inline(always)]
fn scatter_part<I: Index>(
    targets: &IndexedView<'_>,
    values: View<'_>,
    bad: &AtomicBool,
    put: &impl Fn(*mut u8, *const u8),
    item: isize,
    value_item: isize,
) {
    let walk = Walk::new([targets.index.layout(), targets.base.layout(), values.layout()]);
    let [index_stride, base_stride, value_stride] = walk.inner_strides();
    let prefetch = Prefetch::new(targets, item as usize);
    let next = walk.outer_strides()[0];
    vectorised(|| {
        // A copy, which no element that is written can be a part of: its numbers stay in registers.
        let targets = *targets;
        for ([first, to, from], length) in walk.steps(0..walk.count(), usize::MAX) {
            // SAFETY: walks stay inside their layouts, and a checked index inside the tensor.
            unsafe {
                let index = targets.index.first().cast::<I>().offset(first);
                let to = targets.base.first().cast_mut().offset(to * item);
                let from = values.first().offset(from * value_item);
                if (index_stride, base_stride, value_stride) == (1, 0, 1) {
                    for at in 0..length as isize {
                        match targets.offset(index.offset(at).read_unaligned().to_i64()) {
                            Some(offset) => {
                                put(to.offset(offset * item), from.offset(at * value_item));
                            }
                            None => bad.store(true, Relaxed),
                        }
                    }
                    continue;
                }
                if index_stride != 0 {
                    for at in 0..length as isize {
                        match targets
                            .offset(index.offset(at * index_stride).read_unaligned().to_i64())
                        {
                            Some(offset) => put(
                                to.offset((at * base_stride + offset) * item),
                                from.offset(at * value_stride * value_item),
                            ),
                            None => bad.store(true, Relaxed),
                        }
                    }
                    continue;
                }
                prefetch.rows::<I>(first, next, to, length);
                let Some(offset) = targets.offset(index.read_unaligned().to_i64()) else {
                    bad.store(true, Relaxed);
                    continue;
                };
                let to = to.offset(offset * item);
                if base_stride == 1 && value_stride == 1 {
                    for at in 0..length as isize {
                        put(to.offset(at * item), from.offset(at * value_item));
                    }
                } else {
                    for at in 0..length as isize {
                        put(
                            to.offset(at * base_stride * item),
                            from.offset(at * value_stride * value_item),
                        );
                    }
                }
            }
        }
    });
}
