//! Single values out of tensors.

use crate::{Scalar, View};

/// The first element as a number; `None` for a tensor without elements, or of a type that is no number.
pub fn first(view: View<'_>) -> Option<Scalar> {
    let (mut bytes, item) = ([0u8; 16], view.item());
    if view.count() == 0 || item > bytes.len() {
        return None;
    }
    // SAFETY: there is a first element of this many bytes.
    unsafe { std::ptr::copy_nonoverlapping(view.first(), bytes.as_mut_ptr(), item) };
    Scalar::read(&bytes, view.dtype())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DType, Layout};
    use std::cell::Cell;

    #[test]
    fn reads_the_first_element() {
        let bytes: Vec<Cell<u8>> = 7i32.to_ne_bytes().map(Cell::new).to_vec();
        let tensor =
            |dtype, dims: &[usize]| View::over(&bytes, Layout::contiguous(dtype, dims)).unwrap();
        assert_eq!(first(tensor(DType::Int32, &[1])), Some(Scalar::Int(7, DType::Int32)));
        assert_eq!(first(tensor(DType::Bool, &[])), Some(Scalar::Bool(true)));
        assert_eq!(first(tensor(DType::Int32, &[0])), None);
    }
}
