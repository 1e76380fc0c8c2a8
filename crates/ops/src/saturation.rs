//! Results in saturation mode: an infinity becomes the largest finite number of its sign, what is no number becomes zero.
//!
//! One pass over what a kernel wrote, after it ran: kernels themselves compute as always, and cost nothing for the mode that
//! hardly any program uses.

use crate::plan::Use;
use cairn_tensor::{DType, Layout};
use std::cell::Cell;

/// The bits of a floating point type.
#[derive(Clone, Copy)]
struct Float {
    /// Bytes of one number.
    bytes: usize,
    /// The exponent of infinities and of what is no number.
    exponent: u64,
    sign: u64,
}

impl Float {
    /// The numbers that a type consists of; `None` for types without infinities.
    fn of(dtype: DType) -> Option<Float> {
        let (bytes, exponent) = match dtype {
            DType::Float16 | DType::Complex32 => (2, 0x7c00),
            DType::Bf16 => (2, 0x7f80),
            DType::Float | DType::Complex64 => (4, 0x7f80_0000),
            DType::Double | DType::Complex128 => (8, 0x7ff0_0000_0000_0000),
            _ => return None,
        };
        Some(Float { bytes, exponent, sign: 1 << (8 * bytes - 1) })
    }

    /// Saturates one number; true if it changed.
    fn saturate(self, cells: &[Cell<u8>]) -> bool {
        let bits = cells.iter().rev().fold(0u64, |bits, byte| bits << 8 | u64::from(byte.get()));
        if bits & self.exponent != self.exponent {
            return false;
        }
        // The largest finite number comes right before infinity.
        let is_infinite = bits & !self.sign == self.exponent;
        let value = if is_infinite { bits - 1 } else { 0 };
        for (at, byte) in cells.iter().enumerate() {
            byte.set((value >> (8 * at)) as u8);
        }
        true
    }

    fn saturate_all(self, cells: &[Cell<u8>]) -> bool {
        let numbers = cells.chunks_exact(self.bytes);
        numbers.fold(false, |changed, number| self.saturate(number) | changed)
    }
}

/// Saturates what a kernel wrote to a range; true if something changed. Of a range that is written by index every element
/// counts.
pub fn saturate(one: &Use, cells: &[Cell<u8>]) -> bool {
    let Some(float) = Float::of(one.dtype).filter(|_| one.access.writes) else { return false };
    match one.is_dense() {
        true => float.saturate_all(cells),
        false => saturate_elements(float, &one.layout(), cells),
    }
}

/// Saturates elements that lie side by side; true if something changed.
pub fn saturate_all(dtype: DType, cells: &[Cell<u8>]) -> bool {
    Float::of(dtype).is_some_and(|float| float.saturate_all(cells))
}

/// Saturates the elements of a layout.
fn saturate_elements(float: Float, layout: &Layout, cells: &[Cell<u8>]) -> bool {
    let item = layout.item();
    let (dims, strides) = (layout.dims(), layout.strides());
    let mut changed = false;
    for number in 0..layout.count() {
        let (mut rest, mut at) = (number, layout.offset);
        for (size, stride) in dims.iter().zip(strides).rev() {
            at += (rest % size) as isize * *stride;
            rest /= size;
        }
        let first = at as usize * item;
        changed |=
            cells.get(first..first + item).is_some_and(|element| float.saturate_all(element));
    }
    changed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn saturated(dtype: DType, bytes: &[u8]) -> (bool, Vec<u8>) {
        let cells: Vec<Cell<u8>> = bytes.iter().copied().map(Cell::new).collect();
        let changed = Float::of(dtype).unwrap().saturate_all(&cells);
        (changed, cells.iter().map(Cell::get).collect())
    }

    #[test]
    fn infinities_become_the_largest_numbers_and_nan_zero() {
        let floats = [1.5f32, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, f32::MAX, -0.0];
        let bytes: Vec<u8> = floats.iter().flat_map(|value| value.to_le_bytes()).collect();
        let (changed, after) = saturated(DType::Float, &bytes);
        let after: Vec<f32> =
            after.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect();
        assert!(changed);
        assert_eq!(after, [1.5, f32::MAX, f32::MIN, 0.0, f32::MAX, -0.0]);
        assert_eq!(
            saturated(DType::Float16, &[0, 0x7c, 0, 0xfc]),
            (true, vec![0xff, 0x7b, 0xff, 0xfb])
        );
        assert_eq!(
            saturated(DType::Bf16, &[0x80, 0x7f, 0x81, 0xff]),
            (true, vec![0x7f, 0x7f, 0, 0])
        );
        assert_eq!(saturated(DType::Float16, &[0xff, 0x7b]), (false, vec![0xff, 0x7b]));
        let double = f64::NEG_INFINITY.to_le_bytes();
        assert_eq!(saturated(DType::Double, &double), (true, f64::MIN.to_le_bytes().to_vec()));
        assert!(Float::of(DType::Int32).is_none());
    }

    #[test]
    fn only_elements_of_the_layout_change() {
        let layout = Layout::contiguous(DType::Float16, &[2, 1]);
        let every_other = Layout::strided(DType::Float16, &[2], &[2], 0);
        assert_eq!(layout.count(), 2);
        let cells: Vec<Cell<u8>> = [0, 0x7c, 0, 0x7c, 0, 0x7c].map(Cell::new).to_vec();
        let float = Float::of(DType::Float16).unwrap();
        assert!(saturate_elements(float, &every_other, &cells));
        let after: Vec<u8> = cells.iter().map(Cell::get).collect();
        assert_eq!(after, [0xff, 0x7b, 0, 0x7c, 0xff, 0x7b]);
    }
}
