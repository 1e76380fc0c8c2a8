//! Elements of one buffer combined with those of another, in place.

use crate::DType;
use half::{bf16, f16};
use std::cell::Cell;

/// How two elements become one. A number that is none makes the result none, but for `Equal`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Combine {
    /// Their sum; integers wrap.
    Sum,
    /// The larger one.
    Max,
    /// The smaller one.
    Min,
    /// 1 if they are equal, else 0.
    Equal,
}

/// Whether [`accumulate`] takes elements of a type.
pub fn is_accumulated(dtype: DType) -> bool {
    let integers = [DType::Int8, DType::Int16, DType::Int32];
    let floats = [DType::Float16, DType::Bf16, DType::Float];
    integers.contains(&dtype) || floats.contains(&dtype)
}

/// `dst = combine(dst, src)` for each element of a type that [`is_accumulated`]; of any other nothing.
pub fn accumulate(dtype: DType, combine: Combine, dst: &[Cell<u8>], src: &[Cell<u8>]) {
    let integers = |x: i64, y: i64| match combine {
        Combine::Sum => x.wrapping_add(y),
        Combine::Max => x.max(y),
        Combine::Min => x.min(y),
        Combine::Equal => i64::from(x == y),
    };
    let floats = |x: f32, y: f32| match combine {
        Combine::Sum => x + y,
        Combine::Equal => f32::from(u8::from(x == y)),
        _ if x.is_nan() || y.is_nan() => f32::NAN,
        Combine::Max => x.max(y),
        Combine::Min => x.min(y),
    };
    match dtype {
        DType::Int8 => each(dst, src, |x, y| {
            (integers(i8::from_le_bytes(x).into(), i8::from_le_bytes(y).into()) as i8).to_le_bytes()
        }),
        DType::Int16 => each(dst, src, |x, y| {
            let value = integers(i16::from_le_bytes(x).into(), i16::from_le_bytes(y).into());
            (value as i16).to_le_bytes()
        }),
        DType::Int32 => each(dst, src, |x, y| {
            let value = integers(i32::from_le_bytes(x).into(), i32::from_le_bytes(y).into());
            (value as i32).to_le_bytes()
        }),
        DType::Float16 => each(dst, src, |x, y| {
            let value = floats(f16::from_le_bytes(x).to_f32(), f16::from_le_bytes(y).to_f32());
            f16::from_f32(value).to_le_bytes()
        }),
        DType::Bf16 => each(dst, src, |x, y| {
            let value = floats(bf16::from_le_bytes(x).to_f32(), bf16::from_le_bytes(y).to_f32());
            bf16::from_f32(value).to_le_bytes()
        }),
        DType::Float => each(dst, src, |x, y| {
            floats(f32::from_le_bytes(x), f32::from_le_bytes(y)).to_le_bytes()
        }),
        _ => {}
    }
}

/// Combines elements of `N` bytes.
fn each<const N: usize>(
    dst: &[Cell<u8>],
    src: &[Cell<u8>],
    combine: impl Fn([u8; N], [u8; N]) -> [u8; N],
) {
    for (dst, src) in dst.chunks_exact(N).zip(src.chunks_exact(N)) {
        let value = combine(
            std::array::from_fn(|at| dst[at].get()),
            std::array::from_fn(|at| src[at].get()),
        );
        dst.iter().zip(value).for_each(|(cell, byte)| cell.set(byte));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn floats(combine: Combine, x: &[f32], y: &[f32]) -> Vec<f32> {
        let cells = |values: &[f32]| -> Vec<Cell<u8>> {
            values.iter().flat_map(|value| value.to_le_bytes()).map(Cell::new).collect()
        };
        let (dst, src) = (cells(x), cells(y));
        accumulate(DType::Float, combine, &dst, &src);
        let bytes: Vec<u8> = dst.iter().map(Cell::get).collect();
        bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
    }

    #[test]
    fn what_is_no_number_stays_none_and_nothing_else_changes() {
        for combine in [Combine::Sum, Combine::Max, Combine::Min] {
            let values = floats(combine, &[f32::NAN, 1.0, 2.0], &[1.0, f32::NAN, 2.0]);
            assert!(values[0].is_nan() && values[1].is_nan() && !values[2].is_nan());
        }
        assert_eq!(floats(Combine::Equal, &[f32::NAN, 1.0], &[f32::NAN, 1.0]), [0.0, 1.0]);
        assert_eq!(floats(Combine::Max, &[-0.5, 3.0], &[0.5, -3.0]), [0.5, 3.0]);
        assert_eq!(floats(Combine::Min, &[-0.5, 3.0], &[0.5, -3.0]), [-0.5, -3.0]);
    }

    #[test]
    fn sums_that_are_too_large_are_infinite() {
        let sums = floats(Combine::Sum, &[f32::MAX, f32::MIN], &[f32::MAX, f32::MIN]);
        assert_eq!(sums, [f32::INFINITY, f32::NEG_INFINITY]);
    }
}
