//! The types that elements have in memory, and the few that kernels compute in.

use crate::{DType, Scalar};
use half::{bf16, f16};
use num_complex::Complex;

/// A boolean as a byte in memory: any byte but 0 is true, 1 is written.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct BoolByte(pub u8);

/// A type that kernels compute in: `f32` (also for the half types), `f64`, `i64` (every integer; wraps
/// as the narrow type does when it is stored), `u64` in operators that take wide unsigned integers, `bool`, and `Complex` of `f32` or `f64` in operators that take complex numbers.
pub trait Compute: Element {
    /// A number as this type.
    fn from_scalar(scalar: Scalar) -> Self;
}

/// A type that elements have in memory.
pub trait Element: Copy + Send + Sync + 'static {
    /// The type as a value at run time.
    const DTYPE: DType;
    /// The nearest `f32`.
    fn to_f32(self) -> f32;
    /// The nearest `f64`.
    fn to_f64(self) -> f64;
    /// Cut off towards zero.
    fn to_i64(self) -> i64;
    /// Whether it is not zero.
    fn to_bool(self) -> bool;
    /// Rounded to nearest even.
    fn from_f32(value: f32) -> Self;
    /// Rounded to nearest even.
    fn from_f64(value: f64) -> Self;
    /// Wraps.
    fn from_i64(value: i64) -> Self;
    /// 1 or 0.
    fn from_bool(value: bool) -> Self;
    /// As a complex number.
    #[inline(always)]
    fn to_complex(self) -> Complex<f64> {
        Complex::new(self.to_f64(), 0.0)
    }
    /// The real part; a boolean is true where either part is not zero.
    #[inline(always)]
    fn from_complex(value: Complex<f64>) -> Self {
        Self::from_f64(value.re)
    }
    /// To a compute type. A complex number becomes another complex one, or whether it is not zero.
    fn widen<C: Compute>(self) -> C;
}

macro_rules! widen {
    () => {
        #[inline(always)]
        fn widen<C: Compute>(self) -> C {
            match C::DTYPE {
                DType::Float => C::from_f32(self.to_f32()),
                DType::Double => C::from_f64(self.to_f64()),
                DType::Int64 | DType::Uint64 => C::from_i64(self.to_i64()),
                DType::Complex64 | DType::Complex128 => C::from_complex(self.to_complex()),
                _ => C::from_bool(self.to_bool()),
            }
        }
    };
}

macro_rules! integer {
    ($($type:ty = $dtype:ident),*) => {$(
        impl Element for $type {
            const DTYPE: DType = DType::$dtype;
            widen!();
            #[inline(always)] fn to_f32(self) -> f32 { self as f32 }
            #[inline(always)] fn to_f64(self) -> f64 { self as f64 }
            #[inline(always)] fn to_i64(self) -> i64 { self as i64 }
            #[inline(always)] fn to_bool(self) -> bool { self != 0 }
            #[inline(always)] fn from_f32(value: f32) -> Self { value as i64 as $type }
            #[inline(always)] fn from_f64(value: f64) -> Self { value as i64 as $type }
            #[inline(always)] fn from_i64(value: i64) -> Self { value as $type }
            #[inline(always)] fn from_bool(value: bool) -> Self { value as $type }
        }
    )*};
}

integer!(i8 = Int8, u8 = Uint8, i16 = Int16, u16 = Uint16, i32 = Int32, u32 = Uint32, i64 = Int64);

/// A real number as an unsigned integer: cut off towards zero, a negative one as the signed integer wraps.
#[inline(always)]
fn unsigned(value: f64) -> u64 {
    if value < 0.0 { value as i64 as u64 } else { value as u64 }
}

impl Element for u64 {
    const DTYPE: DType = DType::Uint64;
    widen!();
    #[inline(always)]
    fn to_f32(self) -> f32 {
        self as f32
    }
    #[inline(always)]
    fn to_f64(self) -> f64 {
        self as f64
    }
    #[inline(always)]
    fn to_i64(self) -> i64 {
        self as i64
    }
    #[inline(always)]
    fn to_bool(self) -> bool {
        self != 0
    }
    #[inline(always)]
    fn from_f32(value: f32) -> Self {
        unsigned(value.into())
    }
    #[inline(always)]
    fn from_f64(value: f64) -> Self {
        unsigned(value)
    }
    #[inline(always)]
    fn from_i64(value: i64) -> Self {
        value as u64
    }
    #[inline(always)]
    fn from_bool(value: bool) -> Self {
        value.into()
    }
}

macro_rules! real {
    ($($type:ty = $dtype:ident, $to32:expr, $to64:expr, $from32:expr, $from64:expr;)*) => {$(
        impl Element for $type {
            const DTYPE: DType = DType::$dtype;
            widen!();
            #[inline(always)] fn to_f32(self) -> f32 { ($to32)(self) }
            #[inline(always)] fn to_f64(self) -> f64 { ($to64)(self) }
            #[inline(always)] fn to_i64(self) -> i64 { self.to_f64() as i64 }
            #[inline(always)] fn to_bool(self) -> bool { self.to_f32() != 0.0 }
            #[inline(always)] fn from_f32(value: f32) -> Self { ($from32)(value) }
            #[inline(always)] fn from_f64(value: f64) -> Self { ($from64)(value) }
            #[inline(always)] fn from_i64(value: i64) -> Self { Self::from_f64(value as f64) }
            #[inline(always)] fn from_bool(value: bool) -> Self { Self::from_f32(value as u8 as f32) }
        }
    )*};
}

#[inline(always)]
fn bf16_to_f32(value: bf16) -> f32 {
    f32::from_bits(u32::from(value.to_bits()) << 16)
}

#[inline(always)]
fn f32_to_bf16(value: f32) -> bf16 {
    let bits = value.to_bits();
    let rounded = (bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) >> 16) as u16;
    bf16::from_bits(if value.is_nan() { 0x7fc0 } else { rounded })
}

real! {
    f32 = Float, |v| v, f64::from, |v| v, |v| v as f32;
    f64 = Double, |v| v as f32, |v| v, f64::from, |v| v;
    f16 = Float16, f16::to_f32, f16::to_f64, f16::from_f32, f16::from_f64;
    bf16 = Bf16, bf16_to_f32, |v| f64::from(bf16_to_f32(v)), f32_to_bf16, |v| f32_to_bf16(v as f32);
}

macro_rules! boolean {
    ($type:ty, |$value:ident| $to:expr, $from:expr) => {
        impl Element for $type {
            const DTYPE: DType = DType::Bool;
            widen!();
            #[inline(always)]
            fn to_f32(self) -> f32 {
                self.to_bool() as u8 as f32
            }
            #[inline(always)]
            fn to_f64(self) -> f64 {
                self.to_bool() as u8 as f64
            }
            #[inline(always)]
            fn to_i64(self) -> i64 {
                self.to_bool() as i64
            }
            #[inline(always)]
            fn to_bool(self) -> bool {
                let $value = self;
                $to
            }
            #[inline(always)]
            fn from_f32(value: f32) -> Self {
                ($from)(value != 0.0)
            }
            #[inline(always)]
            fn from_f64(value: f64) -> Self {
                ($from)(value != 0.0)
            }
            #[inline(always)]
            fn from_i64(value: i64) -> Self {
                ($from)(value != 0)
            }
            #[inline(always)]
            fn from_bool(value: bool) -> Self {
                ($from)(value)
            }
            #[inline(always)]
            fn from_complex(value: Complex<f64>) -> Self {
                ($from)(value.re != 0.0 || value.im != 0.0)
            }
        }
    };
}

boolean!(bool, |v| v, |v| v);
boolean!(BoolByte, |v| v.0 != 0, |v| BoolByte(u8::from(v)));

impl Compute for f32 {
    fn from_scalar(scalar: Scalar) -> f32 {
        scalar.as_f64() as f32
    }
}

impl Compute for f64 {
    fn from_scalar(scalar: Scalar) -> f64 {
        scalar.as_f64()
    }
}

impl Compute for i64 {
    fn from_scalar(scalar: Scalar) -> i64 {
        scalar.as_i64()
    }
}

impl Compute for u64 {
    fn from_scalar(scalar: Scalar) -> u64 {
        scalar.as_i64() as u64
    }
}

impl Compute for bool {
    fn from_scalar(scalar: Scalar) -> bool {
        scalar.as_bool()
    }
}

/// Two halves: a complex number in memory, computed with as `Complex<f32>`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ComplexHalf([f16; 2]);

macro_rules! complex {
    ($($type:ty = $dtype:ident, |$value:ident| $to:expr, $from:expr;)*) => {$(
        impl Element for $type {
            const DTYPE: DType = DType::$dtype;
            #[inline(always)]
            fn widen<C: Compute>(self) -> C {
                match C::DTYPE {
                    DType::Complex64 | DType::Complex128 => C::from_complex(self.to_complex()),
                    DType::Bool => C::from_bool(self.to_bool()),
                    other => unreachable!("{} read as {other}", Self::DTYPE),
                }
            }
            #[inline(always)] fn to_f32(self) -> f32 { self.to_complex().re as f32 }
            #[inline(always)] fn to_f64(self) -> f64 { self.to_complex().re }
            #[inline(always)] fn to_i64(self) -> i64 { self.to_complex().re as i64 }
            #[inline(always)]
            fn to_bool(self) -> bool {
                let value = self.to_complex();
                value.re != 0.0 || value.im != 0.0
            }
            #[inline(always)] fn from_f32(value: f32) -> Self { Self::from_f64(f64::from(value)) }
            #[inline(always)] fn from_f64(value: f64) -> Self { Self::from_complex(Complex::new(value, 0.0)) }
            #[inline(always)] fn from_i64(value: i64) -> Self { Self::from_f64(value as f64) }
            #[inline(always)] fn from_bool(value: bool) -> Self { Self::from_f64(f64::from(u8::from(value))) }
            #[inline(always)] fn to_complex(self) -> Complex<f64> { let $value = self; $to }
            #[inline(always)] fn from_complex(value: Complex<f64>) -> Self { ($from)(value) }
        }
    )*};
}

complex! {
    Complex<f32> = Complex64, |v| Complex::new(f64::from(v.re), f64::from(v.im)),
        |v: Complex<f64>| Complex::new(v.re as f32, v.im as f32);
    Complex<f64> = Complex128, |v| v, |v| v;
    ComplexHalf = Complex32, |v| Complex::new(v.0[0].to_f64(), v.0[1].to_f64()),
        |v: Complex<f64>| ComplexHalf([f16::from_f64(v.re), f16::from_f64(v.im)]);
}

impl Compute for Complex<f32> {
    fn from_scalar(scalar: Scalar) -> Complex<f32> {
        Element::from_complex(scalar.as_complex())
    }
}

impl Compute for Complex<f64> {
    fn from_scalar(scalar: Scalar) -> Complex<f64> {
        scalar.as_complex()
    }
}

/// Whether elements are unsigned integers of more than 8 bits, which compute in `u64` where an operator takes them.
pub fn is_wide_unsigned(dtype: DType) -> bool {
    matches!(dtype, DType::Uint16 | DType::Uint32 | DType::Uint64)
}

/// The complex type to compute in for elements of a complex type.
pub fn complex_type(dtype: DType) -> Option<DType> {
    match dtype {
        DType::Complex32 | DType::Complex64 => Some(DType::Complex64),
        DType::Complex128 => Some(DType::Complex128),
        _ => None,
    }
}

/// The type to compute in for elements of a type; `None` for a type without arithmetic, or with that of complex
/// numbers: see [`complex_type`].
pub fn compute_type(dtype: DType) -> Option<DType> {
    Some(match dtype {
        DType::Float | DType::Float16 | DType::Bf16 => DType::Float,
        DType::Double => DType::Double,
        DType::Int8 | DType::Uint8 | DType::Int16 | DType::Int32 | DType::Int64 => DType::Int64,
        DType::Bool => DType::Bool,
        _ => return None,
    })
}

/// As [`with_element!`], of complex types too.
#[macro_export]
macro_rules! with_any_element {
    ($dtype:expr, $T:ident => $body:expr, else $other:expr) => {
        match $dtype {
            $crate::DType::Complex32 => {
                type $T = $crate::kernels::element::ComplexHalf;
                $body
            }
            $crate::DType::Complex64 => {
                type $T = num_complex::Complex<f32>;
                $body
            }
            $crate::DType::Complex128 => {
                type $T = num_complex::Complex<f64>;
                $body
            }
            other => $crate::with_element!(other, $T => $body, else $other),
        }
    };
}

/// Runs `$body` with `$C` standing for the complex type to compute in for elements of a complex type.
#[macro_export]
macro_rules! with_complex {
    ($dtype:expr, $C:ident => $body:expr) => {
        match $dtype {
            $crate::DType::Complex128 => {
                type $C = num_complex::Complex<f64>;
                $body
            }
            _ => {
                type $C = num_complex::Complex<f32>;
                $body
            }
        }
    };
}

/// Runs `$body` with `$T` standing for the type in memory of `$dtype`; `$other` for a type that has none.
#[macro_export]
macro_rules! with_element {
    ($dtype:expr, $T:ident => $body:expr, else $other:expr) => {
        match $dtype {
            $crate::DType::Float => {
                type $T = f32;
                $body
            }
            $crate::DType::Double => {
                type $T = f64;
                $body
            }
            $crate::DType::Float16 => {
                type $T = half::f16;
                $body
            }
            $crate::DType::Bf16 => {
                type $T = half::bf16;
                $body
            }
            $crate::DType::Int8 => {
                type $T = i8;
                $body
            }
            $crate::DType::Uint8 => {
                type $T = u8;
                $body
            }
            $crate::DType::Int16 => {
                type $T = i16;
                $body
            }
            $crate::DType::Uint16 => {
                type $T = u16;
                $body
            }
            $crate::DType::Int32 => {
                type $T = i32;
                $body
            }
            $crate::DType::Uint32 => {
                type $T = u32;
                $body
            }
            $crate::DType::Uint64 => {
                type $T = u64;
                $body
            }
            $crate::DType::Int64 => {
                type $T = i64;
                $body
            }
            $crate::DType::Bool => {
                type $T = $crate::kernels::element::BoolByte;
                $body
            }
            _ => $other,
        }
    };
}
