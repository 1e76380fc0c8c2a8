//! Single values out of tensors.

use super::element::{Element, Truth, compute_type};
use super::strip::load_one;
use crate::{DType, Scalar, View};

/// The first element as a number; `None` for a tensor without elements, or of a type that is no number.
pub fn first(view: View<'_>) -> Option<Scalar> {
    if view.count() == 0 {
        return None;
    }
    let (dtype, from) = (view.dtype(), view.first());
    // SAFETY: there is a first element.
    Some(unsafe {
        match compute_type(dtype)? {
            DType::Float | DType::Double => Scalar::Float(load_one(dtype, from), dtype),
            DType::Int64 => Scalar::Int(load_one(dtype, from), dtype),
            _ => Scalar::Bool(from.cast::<Truth>().read().to_bool()),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Layout;
    use std::cell::Cell;

    #[test]
    fn reads_the_first_element() {
        let bytes: Vec<Cell<u8>> = 7i32.to_ne_bytes().map(Cell::new).to_vec();
        let one =
            |dtype, dims: &[usize]| View::over(&bytes, Layout::contiguous(dtype, dims)).unwrap();
        assert_eq!(first(one(DType::Int32, &[1])), Some(Scalar::Int(7, DType::Int32)));
        assert_eq!(first(one(DType::Bool, &[])), Some(Scalar::Bool(true)));
        assert_eq!(first(one(DType::Int32, &[0])), None);
    }
}
