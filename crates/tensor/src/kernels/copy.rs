//! Copies between any two types and strides.

use super::element::{Compute, compute_type};
use super::map::{SMALL, map1};
use crate::team::{Team, split};
use crate::{DType, View, ViewMut};

/// `out = a`, converted where types differ. Sizes are equal; the two are apart, or the same.
pub fn copy(team: &dyn Team, out: ViewMut<'_>, a: View<'_>) {
    if out.dtype() == a.dtype() && out.is_contiguous() && a.is_contiguous() {
        let bytes = out.bytes();
        return split(team, bytes, 4096, SMALL * 4, |range| {
            // SAFETY: both hold so many bytes one after the other.
            unsafe {
                std::ptr::copy(
                    a.first().add(range.start),
                    out.first_mut().add(range.start),
                    range.len(),
                );
            }
        });
    }
    let through = match (compute_type(a.dtype()), compute_type(out.dtype())) {
        (Some(DType::Bool), Some(_)) => DType::Bool,
        (Some(from), Some(_)) => from,
        _ => unreachable!("a copy from {} to {}", a.dtype(), out.dtype()),
    };
    match through {
        DType::Float => same::<f32>(team, out, a),
        DType::Double => same::<f64>(team, out, a),
        DType::Int64 => same::<i64>(team, out, a),
        _ => same::<bool>(team, out, a),
    }
}

fn same<C: Compute>(team: &dyn Team, out: ViewMut<'_>, a: View<'_>) {
    map1::<C, C>(team, out, a, |x| x);
}
