//! A single value with a type.

use crate::DType;
use half::{bf16, f16};
use num_complex::Complex;

/// A number outside of any tensor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scalar {
    /// True or false.
    Bool(bool),
    /// An integer, of this type.
    Int(i64, DType),
    /// A real number, of this type.
    Float(f64, DType),
    /// A complex number, of this type.
    Complex(Complex<f64>, DType),
}

impl Scalar {
    /// The number in the memory layout of `dtype`; `None` when the type has no numbers, or `bytes`
    /// are too few.
    pub fn read(bytes: &[u8], dtype: DType) -> Option<Scalar> {
        macro_rules! number {
            ($type:ty) => {
                <$type>::from_ne_bytes(*bytes.first_chunk()?)
            };
        }
        Some(match dtype {
            DType::Bool => Scalar::Bool(*bytes.first()? != 0),
            DType::Complex32 | DType::Complex64 | DType::Complex128 => {
                let part = dtype.real_part();
                let half = part.size_in_bytes()?;
                let [re, im] =
                    [bytes, bytes.get(half..)?].map(|part_bytes| Scalar::read(part_bytes, part));
                Scalar::Complex(Complex::new(re?.as_f64(), im?.as_f64()), dtype)
            }
            DType::Float => Scalar::Float(f64::from(number!(f32)), dtype),
            DType::Double => Scalar::Float(number!(f64), dtype),
            DType::Float16 => Scalar::Float(f16::from_bits(number!(u16)).to_f64(), dtype),
            DType::Bf16 => Scalar::Float(bf16::from_bits(number!(u16)).to_f64(), dtype),
            DType::Int8 => Scalar::Int(i64::from(number!(i8)), dtype),
            DType::Uint8 => Scalar::Int(i64::from(number!(u8)), dtype),
            DType::Int16 => Scalar::Int(i64::from(number!(i16)), dtype),
            DType::Uint16 => Scalar::Int(i64::from(number!(u16)), dtype),
            DType::Int32 => Scalar::Int(i64::from(number!(i32)), dtype),
            DType::Uint32 => Scalar::Int(i64::from(number!(u32)), dtype),
            DType::Int64 => Scalar::Int(number!(i64), dtype),
            DType::Uint64 => Scalar::Int(number!(u64) as i64, dtype),
            _ => return None,
        })
    }

    /// Its type.
    pub fn dtype(self) -> DType {
        match self {
            Scalar::Bool(_) => DType::Bool,
            Scalar::Int(_, dtype) | Scalar::Float(_, dtype) | Scalar::Complex(_, dtype) => dtype,
        }
    }

    /// As a complex number.
    pub fn as_complex(self) -> Complex<f64> {
        match self {
            Scalar::Complex(value, _) => value,
            other => Complex::new(other.as_f64(), 0.0),
        }
    }

    /// As a real number; of a complex one the real part.
    pub fn as_f64(self) -> f64 {
        match self {
            Scalar::Bool(value) => f64::from(u8::from(value)),
            Scalar::Int(value, _) => value as f64,
            Scalar::Float(value, _) => value,
            Scalar::Complex(value, _) => value.re,
        }
    }

    /// As an integer, its fraction cut off.
    pub fn as_i64(self) -> i64 {
        match self {
            Scalar::Bool(value) => i64::from(value),
            Scalar::Int(value, _) => value,
            Scalar::Float(value, _) => value as i64,
            Scalar::Complex(value, _) => value.re as i64,
        }
    }

    /// Whether it is other than zero.
    pub fn as_bool(self) -> bool {
        match self {
            Scalar::Bool(value) => value,
            Scalar::Int(value, _) => value != 0,
            Scalar::Float(value, _) => value != 0.0,
            Scalar::Complex(value, _) => value.re != 0.0 || value.im != 0.0,
        }
    }
}

impl From<i64> for Scalar {
    fn from(value: i64) -> Scalar {
        Scalar::Int(value, DType::Int64)
    }
}

impl From<f64> for Scalar {
    fn from(value: f64) -> Scalar {
        Scalar::Float(value, DType::Double)
    }
}

impl From<bool> for Scalar {
    fn from(value: bool) -> Scalar {
        Scalar::Bool(value)
    }
}
