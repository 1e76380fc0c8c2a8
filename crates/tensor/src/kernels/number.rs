//! Arithmetic of the types that kernels compute in.

use super::element::Compute;

/// A number that kernels compute with: `f32`, `f64` and `i64`. Integers wrap; minimum and maximum pass
/// NaN on, as PyTorch's do.
pub trait Number: Compute + PartialOrd + Default {
    /// 0.
    const ZERO: Self;
    /// 1.
    const ONE: Self;
    /// The least value: minus infinity for reals.
    const LEAST: Self;
    /// The greatest value: infinity for reals.
    const GREATEST: Self;
    /// Sum.
    fn add(self, other: Self) -> Self;
    /// Difference.
    fn sub(self, other: Self) -> Self;
    /// Product.
    fn mul(self, other: Self) -> Self;
    /// Quotient cut off towards zero; 0 for an integer by zero.
    fn div_trunc(self, other: Self) -> Self;
    /// Quotient rounded down; 0 for an integer by zero.
    fn div_floor(self, other: Self) -> Self;
    /// Remainder of `div_floor`: has the sign of `other`; 0 for an integer by zero.
    fn rem_floor(self, other: Self) -> Self;
    /// Remainder of `div_trunc`: has the sign of `self`; 0 for an integer by zero.
    fn rem_trunc(self, other: Self) -> Self;
    /// Negation.
    fn neg(self) -> Self;
    /// Magnitude.
    fn abs(self) -> Self;
    /// -1, 0 or 1; 0 for NaN.
    fn sign(self) -> Self;
    /// The lesser; NaN if either is; -0 if one is 0 and the other -0.
    fn least(self, other: Self) -> Self;
    /// The greater; NaN if either is; -0 if one is 0 and the other -0.
    fn greatest(self, other: Self) -> Self;
    /// Power; for integers a negative exponent gives 0 but for bases 1 and -1.
    fn power(self, exponent: Self) -> Self;
    /// Not a number.
    fn is_nan(self) -> bool;
}

macro_rules! real {
    ($($type:ident),*) => {$(
        impl Number for $type {
            const ZERO: Self = 0.0;
            const ONE: Self = 1.0;
            const LEAST: Self = <$type>::NEG_INFINITY;
            const GREATEST: Self = <$type>::INFINITY;
            #[inline(always)] fn add(self, other: Self) -> Self { self + other }
            #[inline(always)] fn sub(self, other: Self) -> Self { self - other }
            #[inline(always)] fn mul(self, other: Self) -> Self { self * other }
            #[inline(always)] fn div_trunc(self, other: Self) -> Self { (self / other).trunc() }
            fn div_floor(self, other: Self) -> Self {
                if other == 0.0 {
                    return self / other;
                }
                let remainder = self % other;
                let quotient = (self - remainder) / other;
                let quotient =
                    if remainder != 0.0 && ((other < 0.0) != (remainder < 0.0)) { quotient - 1.0 } else { quotient };
                if quotient == 0.0 {
                    return (0.0 as $type).copysign(self / other);
                }
                let floor = quotient.floor();
                if quotient - floor > 0.5 { floor + 1.0 } else { floor }
            }
            #[inline(always)]
            fn rem_floor(self, other: Self) -> Self {
                let remainder = self % other;
                if remainder != 0.0 && ((other < 0.0) != (remainder < 0.0)) { remainder + other } else { remainder }
            }
            #[inline(always)] fn rem_trunc(self, other: Self) -> Self { self % other }
            #[inline(always)] fn neg(self) -> Self { -self }
            #[inline(always)] fn abs(self) -> Self { <$type>::abs(self) }
            #[inline(always)]
            fn sign(self) -> Self {
                if self > 0.0 { 1.0 } else if self < 0.0 { -1.0 } else { 0.0 }
            }
            #[inline(always)]
            fn least(self, other: Self) -> Self {
                let (first, second) = (if self < other { self } else { other }, if other < self { other } else { self });
                <$type>::from_bits(first.to_bits() | second.to_bits())
            }
            #[inline(always)]
            fn greatest(self, other: Self) -> Self {
                let (first, second) = (if self > other { self } else { other }, if other > self { other } else { self });
                <$type>::from_bits(first.to_bits() | second.to_bits())
            }
            #[inline(always)] fn power(self, exponent: Self) -> Self { self.powf(exponent) }
            #[inline(always)] fn is_nan(self) -> bool { <$type>::is_nan(self) }
        }
    )*};
}

real!(f32, f64);

impl Number for i64 {
    const ZERO: i64 = 0;
    const ONE: i64 = 1;
    const LEAST: i64 = i64::MIN;
    const GREATEST: i64 = i64::MAX;
    #[inline(always)]
    fn add(self, other: i64) -> i64 {
        self.wrapping_add(other)
    }
    #[inline(always)]
    fn sub(self, other: i64) -> i64 {
        self.wrapping_sub(other)
    }
    #[inline(always)]
    fn mul(self, other: i64) -> i64 {
        self.wrapping_mul(other)
    }
    #[inline(always)]
    fn div_trunc(self, other: i64) -> i64 {
        if other == 0 { 0 } else { self.wrapping_div(other) }
    }
    #[inline(always)]
    fn div_floor(self, other: i64) -> i64 {
        if other == 0 {
            return 0;
        }
        let (quotient, remainder) = (self.wrapping_div(other), self.wrapping_rem(other));
        if remainder != 0 && ((remainder < 0) != (other < 0)) { quotient - 1 } else { quotient }
    }
    #[inline(always)]
    fn rem_floor(self, other: i64) -> i64 {
        if other == 0 {
            return 0;
        }
        let remainder = self.wrapping_rem(other);
        if remainder != 0 && ((remainder < 0) != (other < 0)) {
            remainder + other
        } else {
            remainder
        }
    }
    #[inline(always)]
    fn rem_trunc(self, other: i64) -> i64 {
        if other == 0 { 0 } else { self.wrapping_rem(other) }
    }
    #[inline(always)]
    fn neg(self) -> i64 {
        self.wrapping_neg()
    }
    #[inline(always)]
    fn abs(self) -> i64 {
        self.wrapping_abs()
    }
    #[inline(always)]
    fn sign(self) -> i64 {
        self.signum()
    }
    #[inline(always)]
    fn least(self, other: i64) -> i64 {
        self.min(other)
    }
    #[inline(always)]
    fn greatest(self, other: i64) -> i64 {
        self.max(other)
    }
    fn power(self, exponent: i64) -> i64 {
        if exponent < 0 {
            return match self {
                1 => 1,
                -1 => {
                    if exponent % 2 == 0 {
                        1
                    } else {
                        -1
                    }
                }
                _ => 0,
            };
        }
        let (mut base, mut left, mut result) = (self, exponent, 1i64);
        while left > 0 {
            if left & 1 == 1 {
                result = result.wrapping_mul(base);
            }
            base = base.wrapping_mul(base);
            left >>= 1;
        }
        result
    }
    #[inline(always)]
    fn is_nan(self) -> bool {
        false
    }
}

impl Number for u64 {
    const ZERO: u64 = 0;
    const ONE: u64 = 1;
    const LEAST: u64 = u64::MIN;
    const GREATEST: u64 = u64::MAX;
    #[inline(always)]
    fn add(self, other: u64) -> u64 {
        self.wrapping_add(other)
    }
    #[inline(always)]
    fn sub(self, other: u64) -> u64 {
        self.wrapping_sub(other)
    }
    #[inline(always)]
    fn mul(self, other: u64) -> u64 {
        self.wrapping_mul(other)
    }
    #[inline(always)]
    fn div_trunc(self, other: u64) -> u64 {
        self.checked_div(other).unwrap_or(0)
    }
    #[inline(always)]
    fn div_floor(self, other: u64) -> u64 {
        self.checked_div(other).unwrap_or(0)
    }
    #[inline(always)]
    fn rem_floor(self, other: u64) -> u64 {
        self.checked_rem(other).unwrap_or(0)
    }
    #[inline(always)]
    fn rem_trunc(self, other: u64) -> u64 {
        self.checked_rem(other).unwrap_or(0)
    }
    #[inline(always)]
    fn neg(self) -> u64 {
        self.wrapping_neg()
    }
    #[inline(always)]
    fn abs(self) -> u64 {
        self
    }
    #[inline(always)]
    fn sign(self) -> u64 {
        self.min(1)
    }
    #[inline(always)]
    fn least(self, other: u64) -> u64 {
        self.min(other)
    }
    #[inline(always)]
    fn greatest(self, other: u64) -> u64 {
        self.max(other)
    }
    fn power(self, exponent: u64) -> u64 {
        let (mut base, mut left, mut result) = (self, exponent, 1u64);
        while left > 0 {
            if left & 1 == 1 {
                result = result.wrapping_mul(base);
            }
            base = base.wrapping_mul(base);
            left >>= 1;
        }
        result
    }
    #[inline(always)]
    fn is_nan(self) -> bool {
        false
    }
}

/// Runs `$body` with `$C` standing for the number type to compute in for elements of `$dtype`: booleans
/// compute as integers. The type has arithmetic (see [`super::element::compute_type`]).
#[macro_export]
macro_rules! with_number {
    ($dtype:expr, $C:ident => $body:expr) => {
        match $crate::kernels::element::compute_type($dtype) {
            Some($crate::DType::Float) => {
                type $C = f32;
                $body
            }
            Some($crate::DType::Double) => {
                type $C = f64;
                $body
            }
            _ => {
                type $C = i64;
                $body
            }
        }
    };
}

/// As [`with_number!`], for operators whose result is real: integers compute in `f32`.
#[macro_export]
macro_rules! with_real {
    ($dtype:expr, $C:ident => $body:expr) => {
        match $dtype {
            $crate::DType::Double => {
                type $C = f64;
                $body
            }
            _ => {
                type $C = f32;
                $body
            }
        }
    };
}
