//! The type that a computation with two types has, by PyTorch's rules.

use crate::DType;
use DType::*;

/// The type that holds the values of both: the wider of one kind; floats over integers over
/// booleans; `float16` with `bf16` gives `float`. `None` for types that take no part in arithmetic.
pub fn promote(a: DType, b: DType) -> Option<DType> {
    if a.is_complex() || b.is_complex() {
        return with_complex(a, b);
    }
    if a == b {
        return kind_and_width(a).map(|_| a);
    }
    let ((kind_a, width_a), (kind_b, width_b)) = (kind_and_width(a)?, kind_and_width(b)?);
    Some(match kind_a.cmp(&kind_b) {
        std::cmp::Ordering::Greater => a,
        std::cmp::Ordering::Less => b,
        std::cmp::Ordering::Equal => match (a, b) {
            (Float16, Bf16) | (Bf16, Float16) => Float,
            (Uint8, Int8) | (Int8, Uint8) => Int16,
            (Uint16, Int16 | Int8) | (Int16 | Int8, Uint16) => Int32,
            (Uint32, Int32 | Int16 | Int8) | (Int32 | Int16 | Int8, Uint32) => Int64,
            _ if width_a >= width_b => a,
            _ => b,
        },
    })
}

/// As [`promote`], where at least one type is complex: the real parts promote, and integers take the other type.
fn with_complex(a: DType, b: DType) -> Option<DType> {
    kind_and_width(a.real_part())?;
    kind_and_width(b.real_part())?;
    let is_integral = |dtype: DType| !dtype.is_complex() && !dtype.is_floating();
    if is_integral(a) || is_integral(b) {
        return Some(if is_integral(a) { b } else { a });
    }
    Some(match promote(a.real_part(), b.real_part())? {
        Double => Complex128,
        Float | Bf16 => Complex64,
        _ => Complex32,
    })
}

/// The kind of a type and its width in that kind, as numbers that rise.
fn kind_and_width(dtype: DType) -> Option<(u8, u8)> {
    Some(match dtype {
        Bool => (0, 0),
        Uint8 | Int8 => (1, 1),
        Int16 | Uint16 => (1, 2),
        Int32 | Uint32 => (1, 3),
        Uint64 => (1, 4),
        Int64 => (1, 5),
        Float16 | Bf16 => (2, 1),
        Float => (2, 2),
        Double => (2, 3),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_pytorch_does() {
        for (a, b, both) in [
            (Bool, Uint8, Uint8),
            (Uint8, Int8, Int16),
            (Int8, Int32, Int32),
            (Int64, Float16, Float16),
            (Float16, Bf16, Float),
            (Bf16, Float, Float),
            (Float, Double, Double),
            (Bool, Bool, Bool),
            (Int16, Uint8, Int16),
            (Complex64, Int64, Complex64),
            (Complex64, Double, Complex128),
            (Complex32, Complex64, Complex64),
            (Complex64, Float16, Complex64),
            (Complex32, Bool, Complex32),
        ] {
            assert_eq!(promote(a, b), Some(both), "{a} {b}");
            assert_eq!(promote(b, a), Some(both), "{b} {a}");
        }
        assert_eq!(promote(String, Float), None);
    }
}
