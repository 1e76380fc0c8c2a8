//! Numbers that take the place of a tensor.

use crate::parallel::Alone;
use crate::{DType, Layout, Scalar, View, ViewMut};
use std::cell::Cell;

/// A number in memory, to be seen as a tensor of any sizes.
pub struct Constant {
    bytes: [Cell<u8>; 8],
    dtype: DType,
}

impl Constant {
    /// A number as it is: real, an integer or a boolean.
    pub fn new(value: Scalar) -> Constant {
        let (bytes, dtype) = match value {
            Scalar::Bool(value) => (i64::from(value).to_ne_bytes(), DType::Int64),
            Scalar::Int(value, _) => (value.to_ne_bytes(), DType::Int64),
            Scalar::Float(value, _) => (value.to_ne_bytes(), DType::Double),
        };
        Constant { bytes: bytes.map(Cell::new), dtype }
    }

    /// A number as an element of a type that has arithmetic; wraps and rounds as the type does.
    pub fn of(value: Scalar, dtype: DType) -> Constant {
        let bytes = [const { Cell::new(0) }; 8];
        let one = Layout::contiguous(dtype, &[]);
        let target = ViewMut::over(&bytes, one).expect("eight bytes hold one number");
        super::map::fill_scalar(&Alone, target, value);
        Constant { bytes, dtype }
    }

    /// As a tensor of these sizes, every element the number.
    pub fn view(&self, dims: &[usize]) -> View<'_> {
        let one = Layout::contiguous(self.dtype, &[]);
        let all = one.broadcast_to(dims).expect("a single number broadcasts to any sizes");
        View::over(&self.bytes, all).expect("eight bytes hold one number")
    }
}
