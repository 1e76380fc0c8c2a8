//! Numbers that stand in for a tensor.

use crate::parallel::SingleThread;
use crate::{DType, Layout, Scalar, View, ViewMut};
use std::cell::Cell;

/// A number in memory, to be seen as a tensor of any sizes.
pub struct Constant {
    bytes: [Cell<u8>; 16],
    dtype: DType,
}

/// Sixteen bytes of two halves.
fn joined(low: [u8; 8], high: [u8; 8]) -> [u8; 16] {
    std::array::from_fn(|at| if at < 8 { low[at] } else { high[at - 8] })
}

impl Constant {
    /// A number as it is: real, an integer or a boolean.
    pub fn new(value: Scalar) -> Constant {
        let (bytes, dtype) = match value {
            Scalar::Bool(value) => (joined(i64::from(value).to_ne_bytes(), [0; 8]), DType::Int64),
            Scalar::Int(value, _) => (joined(value.to_ne_bytes(), [0; 8]), DType::Int64),
            Scalar::Float(value, _) => (joined(value.to_ne_bytes(), [0; 8]), DType::Double),
            Scalar::Complex(value, _) => {
                (joined(value.re.to_ne_bytes(), value.im.to_ne_bytes()), DType::Complex128)
            }
        };
        Constant { bytes: bytes.map(Cell::new), dtype }
    }

    /// A number as an element of a type that has arithmetic; wraps and rounds as the type does.
    pub fn of(value: Scalar, dtype: DType) -> Constant {
        let bytes = [const { Cell::new(0) }; 16];
        let scalar = Layout::contiguous(dtype, &[]);
        let target = ViewMut::over(&bytes, scalar).expect("sixteen bytes hold one number");
        super::map::fill_scalar(&SingleThread, target, value);
        Constant { bytes, dtype }
    }

    /// As a tensor of these sizes, every element the number.
    pub fn view(&self, dims: &[usize]) -> View<'_> {
        let scalar = Layout::contiguous(self.dtype, &[]);
        let expanded = scalar.broadcast_to(dims).expect("a single number broadcasts to any sizes");
        View::over(&self.bytes, expanded).expect("sixteen bytes hold one number")
    }
}
