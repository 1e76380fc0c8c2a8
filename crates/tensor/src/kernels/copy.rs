//! Copies between any two types and strides.

use super::element::{Compute, complex_type, compute_type, is_wide_unsigned};
use super::map::{SMALL, map1};
use super::transpose::copy_transposed;
use super::walk::Walk;
use crate::parallel::{Parallel, split};
use crate::{DType, View, ViewMut};
use num_complex::Complex;

/// Whether [`copy`] can convert from one type to the other: the same type, or two with arithmetic. A complex
/// number becomes a real one by its real part.
pub fn can_convert(from: DType, to: DType) -> bool {
    let computes = |dtype| compute_type(dtype).or(complex_type(dtype)).is_some();
    from == to || (computes(from) && computes(to))
}

/// As [`can_convert`], between unsigned integers of more than 8 bits and other types too.
pub fn can_convert_unsigned(from: DType, to: DType) -> bool {
    let known = |dtype| if is_wide_unsigned(dtype) { DType::Int64 } else { dtype };
    can_convert(known(from), known(to))
}

/// `out = a`, converted where types differ. Sizes are equal; the two are the same or do not overlap.
pub fn copy(parallel: &dyn Parallel, out: ViewMut<'_>, a: View<'_>) {
    if out.dtype() == a.dtype() {
        return copy_bits(parallel, out, a);
    }
    match complex_type(a.dtype()) {
        Some(DType::Complex128) => return convert_via::<Complex<f64>>(parallel, out, a),
        Some(_) => return convert_via::<Complex<f32>>(parallel, out, a),
        None => {}
    }
    let computed = |dtype| match is_wide_unsigned(dtype) {
        true => Some(DType::Uint64),
        false => compute_type(dtype),
    };
    let compute_dtype = match (computed(a.dtype()), computed(out.dtype().real_part())) {
        (Some(DType::Bool), Some(_)) => DType::Bool,
        (Some(from), Some(_)) => from,
        _ => unreachable!("a copy from {} to {}", a.dtype(), out.dtype()),
    };
    match compute_dtype {
        DType::Float => convert_via::<f32>(parallel, out, a),
        DType::Double => convert_via::<f64>(parallel, out, a),
        DType::Int64 => convert_via::<i64>(parallel, out, a),
        DType::Uint64 => convert_via::<u64>(parallel, out, a),
        _ => convert_via::<bool>(parallel, out, a),
    }
}

/// Converts through the compute type `C`.
fn convert_via<C: Compute>(parallel: &dyn Parallel, out: ViewMut<'_>, a: View<'_>) {
    map1::<C, C>(parallel, out, a, |x| x);
}

/// Runs `$body` with `$T` standing for a type as large as elements of `$item` bytes.
#[macro_export]
macro_rules! with_type_of_size {
    ($item:expr, $T:ident => $body:expr) => {
        match $item {
            1 => {
                type $T = u8;
                $body
            }
            2 => {
                type $T = u16;
                $body
            }
            4 => {
                type $T = u32;
                $body
            }
            8 => {
                type $T = u64;
                $body
            }
            16 => {
                type $T = u128;
                $body
            }
            other => unreachable!("elements of {other} bytes"),
        }
    };
}

/// Copies elements of one type from one layout to another, their bits unchanged.
fn copy_bits(parallel: &dyn Parallel, out: ViewMut<'_>, a: View<'_>) {
    let walk = Walk::new([out.layout(), a.layout()]);
    let item = out.item();
    if walk.inner_strides() == [1, 1] {
        let grain = (4096 / item).max(1);
        return split(parallel, walk.count(), grain, SMALL, |range| {
            walk.runs(range, usize::MAX, |[to, from], length| {
                // SAFETY: walks stay inside their layouts.
                unsafe {
                    std::ptr::copy(
                        a.first().offset(from * item as isize),
                        out.first_mut().offset(to * item as isize),
                        length * item,
                    );
                }
            });
        });
    }
    with_type_of_size!(item, T => {
        if !copy_transposed::<T>(parallel, &walk, &out, &a) {
            copy_strided::<T>(parallel, &walk, &out, &a);
        }
    });
}

/// As [`copy_bits`], element by element.
fn copy_strided<T: Copy>(parallel: &dyn Parallel, walk: &Walk<2>, out: &ViewMut<'_>, a: &View<'_>) {
    let [out_stride, a_stride] = walk.inner_strides();
    split(parallel, walk.count(), 64, SMALL, |range| {
        walk.runs(range, usize::MAX, |[to, from], length| {
            // SAFETY: walks stay inside their layouts.
            unsafe {
                let to = out.first_mut().cast::<T>().offset(to);
                let from = a.first().cast::<T>().offset(from);
                if a_stride == 0 {
                    let value = from.read_unaligned();
                    for at in 0..length as isize {
                        to.offset(at * out_stride).write_unaligned(value);
                    }
                } else if out_stride == 1 {
                    for at in 0..length {
                        to.add(at)
                            .write_unaligned(from.offset(at as isize * a_stride).read_unaligned());
                    }
                } else {
                    for at in 0..length as isize {
                        to.offset(at * out_stride)
                            .write_unaligned(from.offset(at * a_stride).read_unaligned());
                    }
                }
            }
        });
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Layout;
    use crate::parallel::SingleThread;
    use proptest::prelude::*;
    use std::cell::Cell;

    fn bytes(count: usize) -> Vec<Cell<u8>> {
        (0..count).map(|at| Cell::new((at * 31 % 251) as u8)).collect()
    }

    proptest! {
        #[test]
        fn moves_every_element_whatever_the_strides(
            sizes in prop::collection::vec(0usize..40, 1..4),
            rotation in 0usize..4,
            flip in any::<bool>(),
            dtype in prop::sample::select(vec![DType::Bool, DType::Float16, DType::Float, DType::Int64, DType::Complex128]),
        ) {
            let mut order: Vec<usize> = (0..sizes.len()).collect();
            order.rotate_left(rotation % sizes.len());
            let permuted: Vec<usize> = order.iter().map(|at| sizes[*at]).collect();
            let mut inverse = vec![0; order.len()];
            order.iter().enumerate().for_each(|(at, from)| inverse[*from] = at);
            let mut from = Layout::contiguous(dtype, &permuted).permuted(&inverse);
            if flip && sizes[0] > 0 {
                from = from.sliced(0, sizes[0] - 1, sizes[0], -1);
            }
            let to = Layout::contiguous(dtype, &sizes);
            let item = to.item();
            let (source, target) = (bytes(to.bytes()), bytes(to.bytes()));
            copy(&SingleThread, ViewMut::over(&target, to).unwrap(), View::over(&source, from).unwrap());
            let mut index = vec![0usize; sizes.len()];
            for at in 0..to.count() {
                let mut rest = at;
                for dim in (0..sizes.len()).rev() {
                    index[dim] = rest % sizes[dim];
                    rest /= sizes[dim];
                }
                let offset: isize = from.offset
                    + index.iter().zip(from.strides()).map(|(p, s)| *p as isize * s).sum::<isize>();
                for byte in 0..item {
                    prop_assert_eq!(target[at * item + byte].get(), source[offset as usize * item + byte].get());
                }
            }
        }
    }
}
