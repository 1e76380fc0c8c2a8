//! Functions of real numbers that compile to vectors: no branches, no tables, no calls in `f32`.
//!
//! The polynomials were fitted for this file; errors stay within three units in the last place. Infinities,
//! NaN, denormal and large numbers come out as in C's mathematics library. `f64` goes to the library.

use super::number::Number;
use std::f32::consts::{LN_2, LOG2_E, LOG10_E};

/// 1.5 * 2^23: adding it rounds a number below 2^22 to an integer, which is then in the lower bits.
const ROUND: f32 = 12_582_912.0;

/// The part of ln 2 whose products with small integers are exact, and the rest.
const LN_2_HIGH: f32 = 0.693_359_4;
const LN_2_LOW: f32 = (std::f64::consts::LN_2 - LN_2_HIGH as f64) as f32;

/// The same for log10 2.
const LOG10_2_HIGH: f32 = 0.301_025_4;
const LOG10_2_LOW: f32 = (std::f64::consts::LOG10_2 - LOG10_2_HIGH as f64) as f32;

/// pi / 2 in three parts.
const HALF_PI: [f32; 3] = {
    let exact = std::f64::consts::FRAC_PI_2;
    let first = exact as f32;
    let second = (exact - first as f64) as f32;
    [first, second, (exact - first as f64 - second as f64) as f32]
};

/// Up to this magnitude [`sin`] and [`cos`] are right; beyond, use the library's.
pub const MAX_ANGLE: f32 = 100_000.0;

#[inline(always)]
fn polynomial<const N: usize>(x: f32, coefficients: [f32; N]) -> f32 {
    let mut sum = coefficients[N - 1];
    for at in (0..N - 1).rev() {
        sum = sum.mul_add(x, coefficients[at]);
    }
    sum
}

/// `x * factor` rounded to the nearest integer, as a float and as an integer. For magnitudes below 2^22.
#[inline(always)]
fn nearest(x: f32, factor: f32) -> (f32, i32) {
    let shifted = x.mul_add(factor, ROUND);
    (shifted - ROUND, (shifted.to_bits() as i32).wrapping_sub(ROUND.to_bits() as i32))
}

/// 2^n for a normal result.
#[inline(always)]
fn power_of_two(n: i32) -> f32 {
    f32::from_bits((n.wrapping_add(127) << 23) as u32)
}

/// `x` times 2^n, in two steps so that the result may be denormal or infinite.
#[inline(always)]
fn scaled(x: f32, n: i32) -> f32 {
    let half = n >> 1;
    x * power_of_two(half) * power_of_two(n - half)
}

/// e^r - 1 for |r| up to ln 2 / 2.
#[inline(always)]
fn expm1_near(r: f32) -> f32 {
    const Q: [f32; 6] =
        [0.5, 0.166_666_67, 0.041_666_25, 0.008_333_269, 0.001_394_731_8, 0.000_199_161_05];
    (r * r).mul_add(polynomial(r, Q), r)
}

/// How often ln 2 fits into x, and the remainder.
#[inline(always)]
fn split_by_ln_2(x: f32) -> (i32, f32) {
    let (multiple, n) = nearest(x, LOG2_E);
    (n, less_ln_2(x, multiple))
}

/// `x - multiple * ln 2`, in two steps so that little is lost.
#[inline(always)]
fn less_ln_2(x: f32, multiple: f32) -> f32 {
    multiple.mul_add(-LN_2_LOW, multiple.mul_add(-LN_2_HIGH, x))
}

/// e^x as 2^n times a factor near 1: n + `BIAS` in the lower bits of a number, and the factor.
#[inline(always)]
fn exp_parts<const BIAS: u32>(x: f32) -> (u32, f32) {
    const Q: [f32; 6] =
        [0.5, 0.166_666_67, 0.041_666_25, 0.008_333_269, 0.001_394_731_8, 0.000_199_161_05];
    let round = ROUND + BIAS as f32;
    let shifted = x.mul_add(LOG2_E, round);
    let r = less_ln_2(x, shifted - round);
    let factor = polynomial(r, Q).mul_add(r, 1.0);
    (shifted.to_bits(), factor.mul_add(r, 1.0))
}

/// e^x.
#[inline(always)]
pub fn exp(x: f32) -> f32 {
    // Two factors whose exponents, each with its bias of 127, are the halves of n + 254, so that the result may be
    // denormal or infinite.
    let (n, factor) = exp_parts::<254>(x.clamp(-105.0, 89.0));
    let half = (n >> 1) << 23;
    factor * f32::from_bits(half) * f32::from_bits((n << 23).wrapping_sub(half))
}

/// e^x of a number that is not positive; 0 where that is no normal number.
#[inline(always)]
pub fn exp_below(x: f32) -> f32 {
    let (n, factor) = exp_parts::<127>(if x < -88.0 { -88.0 } else { x });
    factor * f32::from_bits(n << 23)
}

/// 2^x.
#[inline(always)]
pub fn exp2(x: f32) -> f32 {
    let x = x.clamp(-151.0, 129.0);
    let (multiple, n) = nearest(x, 1.0);
    scaled(1.0 + expm1_near((x - multiple) * LN_2), n)
}

/// e^x - 1.
#[inline(always)]
pub fn expm1(x: f32) -> f32 {
    let (n, r) = split_by_ln_2(x.clamp(-20.0, 89.0));
    // (e^x - 1) / 2^n
    let quotient = expm1_near(r) + (1.0 - power_of_two((-n).max(-126)));
    let small = x.abs() < 1e-20;
    if small { x } else { scaled(quotient, n) }
}

/// The exponent n of x = m * 2^n with m between the roots of 1/2 and 2, and m - 1. For positive finite x.
#[inline(always)]
fn split(x: f32) -> (f32, f32) {
    let tiny = x < f32::MIN_POSITIVE;
    let x = if tiny { x * 8_388_608.0 } else { x };
    let offset_bits = x.to_bits().wrapping_sub(0x3f35_04f3) as i32;
    let m = f32::from_bits((offset_bits as u32 & 0x007f_ffff).wrapping_add(0x3f35_04f3));
    let n = (offset_bits >> 23) as f32;
    (if tiny { n - 23.0 } else { n }, m - 1.0)
}

/// ln(1 + f) - f, for 1 + f between the roots of 1/2 and 2.
#[inline(always)]
fn log1p_near(f: f32) -> f32 {
    const P: [f32; 9] = [
        0.333_333_1,
        -0.249_999_87,
        0.200_022_27,
        -0.166_692_48,
        0.142_186_52,
        -0.123_843_94,
        0.118_730_61,
        -0.117_895_74,
        0.069_149_03,
    ];
    let square = f * f;
    (square * f).mul_add(polynomial(f, P), -0.5 * square)
}

/// A logarithm of x: `inside` for a positive finite x, else what it is for zero, infinity and others.
#[inline(always)]
fn log_edges(x: f32, inside: f32) -> f32 {
    let inside = if x == f32::INFINITY { x } else { inside };
    let inside = if x == 0.0 { f32::NEG_INFINITY } else { inside };
    if x >= 0.0 { inside } else { f32::NAN }
}

/// The natural logarithm.
#[inline(always)]
pub fn ln(x: f32) -> f32 {
    let (n, f) = split(x);
    let low = n.mul_add(LN_2_LOW, log1p_near(f));
    log_edges(x, n.mul_add(LN_2_HIGH, f + low))
}

/// ln(1 + x).
#[inline(always)]
pub fn ln_1p(x: f32) -> f32 {
    let sum = 1.0 + x;
    let rounding_error = (x - (sum - 1.0)) / sum;
    let is_edge = x == -1.0 || sum == f32::INFINITY || x.abs() < 1e-20;
    let edge = if x.abs() < 1e-20 { x } else { ln(sum) };
    if is_edge { edge } else { ln(sum) + rounding_error }
}

/// The logarithm to base 2.
#[inline(always)]
pub fn log2(x: f32) -> f32 {
    let (n, f) = split(x);
    log_edges(x, (f + log1p_near(f)).mul_add(LOG2_E, n))
}

/// The logarithm to base 10.
#[inline(always)]
pub fn log10(x: f32) -> f32 {
    let (n, f) = split(x);
    let low = n.mul_add(LOG10_2_LOW, (f + log1p_near(f)) * LOG10_E);
    log_edges(x, n.mul_add(LOG10_2_HIGH, low))
}

/// The hyperbolic tangent.
#[inline(always)]
pub fn tanh(x: f32) -> f32 {
    let twice = expm1((2.0 * x.abs()).clamp(0.0, 20.0));
    (twice / (twice + 2.0)).copysign(x)
}

/// 1 / (1 + e^-x).
#[inline(always)]
pub fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + exp(-x))
}

/// The error function: a quotient of polynomials of the square, which is 1 beyond 4.
#[inline(always)]
pub fn erf(x: f32) -> f32 {
    const P: [f32; 7] = [
        std::f32::consts::FRAC_2_SQRT_PI,
        0.185_203_31,
        0.054_316_904,
        0.003_849_612_8,
        0.000_379_608_07,
        4.684_754e-6,
        -1.320_211_6e-8,
    ];
    const Q: [f32; 6] =
        [1.0, 0.497_465_58, 0.113_958_43, 0.015_462_089, 0.001_307_569_1, 6.311_035_4e-5];
    let magnitude = x.abs().clamp(0.0, 4.0);
    let square = magnitude * magnitude;
    let value = magnitude * polynomial(square, P) / polynomial(square, Q);
    (if value > 1.0 { 1.0 } else { value }).copysign(x)
}

/// Quarter turns of an angle, and the remainder.
#[inline(always)]
fn quarter(x: f32) -> (i32, f32) {
    let (multiple, n) = nearest(x, std::f32::consts::FRAC_2_PI);
    let [a, b, c] = HALF_PI;
    (n, multiple.mul_add(-c, multiple.mul_add(-b, multiple.mul_add(-a, x))))
}

/// Sine of n quarter turns and r more.
#[inline(always)]
fn sine(n: i32, r: f32) -> f32 {
    const S: [f32; 4] = [-0.166_666_67, 0.008_333_329, -0.000_198_392_56, 2.717_563_8e-6];
    const C: [f32; 4] = [0.041_666_668, -0.001_388_888_3, 2.479_943_6e-5, -2.720_329e-7];
    let z = r * r;
    let sin = (r * z).mul_add(polynomial(z, S), r);
    let cos = (z * z).mul_add(polynomial(z, C), z.mul_add(-0.5, 1.0));
    let value = if n & 1 == 0 { sin } else { cos };
    f32::from_bits(value.to_bits() ^ (((n & 2) as u32) << 30))
}

/// Sine of an angle of at most [`MAX_ANGLE`].
#[inline(always)]
pub fn sin(x: f32) -> f32 {
    let (n, r) = quarter(x);
    sine(n, r)
}

/// Cosine of an angle of at most [`MAX_ANGLE`].
#[inline(always)]
pub fn cos(x: f32) -> f32 {
    let (n, r) = quarter(x);
    sine(n.wrapping_add(1), r)
}

/// The inverse of the error function.
pub fn erfinv(x: f64) -> f64 {
    if x.abs() >= 1.0 || x.is_nan() {
        return if x.abs() == 1.0 { x * f64::INFINITY } else { f64::NAN };
    }
    let log = (-x * x).ln_1p();
    let a = 2.0 / (std::f64::consts::PI * 0.147) + log / 2.0;
    let mut y = ((a * a - log / 0.147).sqrt() - a).sqrt().copysign(x);
    for _ in 0..3 {
        let error = match x.abs() < 0.5 {
            true => libm::erf(y) - x,
            false => (1.0 - x.abs() - libm::erfc(y.abs())) * x.signum(),
        };
        let derivative = std::f64::consts::FRAC_2_SQRT_PI * (-y * y).exp();
        let step = error / derivative;
        y -= step / (1.0 + y * step);
    }
    y
}

/// The logarithm of the magnitude of the gamma function; infinity at 0, -1, -2, ..
pub fn log_gamma(x: f64) -> f64 {
    libm::lgamma(x)
}

/// The derivative of the logarithm of the gamma function; NaN at -1, -2, .., an infinity at 0.
pub fn digamma(x: f64) -> f64 {
    if x == 0.0 {
        return f64::INFINITY.copysign(-x);
    }
    if x < 0.0 {
        let fraction = x - x.trunc();
        return match fraction == 0.0 {
            true => f64::NAN,
            false => {
                digamma(1.0 - x) - std::f64::consts::PI / (std::f64::consts::PI * fraction).tan()
            }
        };
    }
    let (mut x, mut sum) = (x, 0.0);
    while x < 10.0 {
        sum -= 1.0 / x;
        x += 1.0;
    }
    const TERMS: [f64; 7] = [
        1.0 / 12.0,
        -1.0 / 120.0,
        1.0 / 252.0,
        -1.0 / 240.0,
        1.0 / 132.0,
        -691.0 / 32760.0,
        1.0 / 12.0,
    ];
    let square = 1.0 / (x * x);
    let series = TERMS.iter().rev().fold(0.0, |series, term| (series + term) * square);
    sum + x.ln() - 0.5 / x - series
}

/// A real number with the functions of analysis: `f32` by this file, `f64` by the library.
pub trait Real: Number {
    /// A constant.
    fn of(value: f64) -> Self;
    /// Quotient.
    fn div(self, other: Self) -> Self;
    /// e^x.
    fn exp(self) -> Self;
    /// e^x of a number that is not positive; in `f32` 0 where that is no normal number.
    fn exp_below(self) -> Self;
    /// 2^x.
    fn exp2(self) -> Self;
    /// e^x - 1, exact near 0.
    fn expm1(self) -> Self;
    /// Natural logarithm.
    fn ln(self) -> Self;
    /// ln(1 + x), exact near 0.
    fn ln_1p(self) -> Self;
    /// Logarithm to base 2.
    fn log2(self) -> Self;
    /// Logarithm to base 10.
    fn log10(self) -> Self;
    /// Square root.
    fn sqrt(self) -> Self;
    /// 1 / (1 + e^-x).
    fn sigmoid(self) -> Self;
    /// Hyperbolic tangent.
    fn tanh(self) -> Self;
    /// Error function.
    fn erf(self) -> Self;
    /// 1 - erf(x), exact for large x.
    fn erfc(self) -> Self;
    /// Inverse of the error function.
    fn erfinv(self) -> Self;
    /// Sine; in `f32` of at most [`MAX_ANGLE`].
    fn sin_near(self) -> Self;
    /// Cosine; in `f32` of at most [`MAX_ANGLE`].
    fn cos_near(self) -> Self;
    /// Sine of any angle.
    fn sin(self) -> Self;
    /// Cosine of any angle.
    fn cos(self) -> Self;
    /// Tangent.
    fn tan(self) -> Self;
    /// Inverse sine.
    fn asin(self) -> Self;
    /// Inverse cosine.
    fn acos(self) -> Self;
    /// Inverse tangent.
    fn atan(self) -> Self;
    /// The angle of the point (other, self).
    fn atan2(self, other: Self) -> Self;
    /// Hyperbolic sine.
    fn sinh(self) -> Self;
    /// Hyperbolic cosine.
    fn cosh(self) -> Self;
    /// Inverse hyperbolic sine.
    fn asinh(self) -> Self;
    /// Inverse hyperbolic cosine.
    fn acosh(self) -> Self;
    /// Inverse hyperbolic tangent.
    fn atanh(self) -> Self;
    /// Rounded down.
    fn floor(self) -> Self;
    /// Rounded up.
    fn ceil(self) -> Self;
    /// Rounded to nearest, halves to even.
    fn round(self) -> Self;
    /// Cut off towards zero.
    fn trunc(self) -> Self;
    /// Neither infinite nor NaN.
    fn is_finite(self) -> bool;
    /// Its sign bit.
    fn is_negative(self) -> bool;
}

macro_rules! real {
    ($type:ident, $($name:ident = $function:expr),*) => {
        impl Real for $type {
            #[inline(always)] fn of(value: f64) -> Self { value as $type }
            #[inline(always)] fn div(self, other: Self) -> Self { self / other }
            $(#[inline(always)] fn $name(self) -> Self { ($function)(self) })*
            #[inline(always)] fn sqrt(self) -> Self { <$type>::sqrt(self) }
            #[inline(always)] fn erfc(self) -> Self { libm::erfc(f64::from(self)) as $type }
            #[inline(always)] fn erfinv(self) -> Self { erfinv(f64::from(self)) as $type }
            #[inline(always)] fn sin(self) -> Self { <$type>::sin(self) }
            #[inline(always)] fn cos(self) -> Self { <$type>::cos(self) }
            #[inline(always)] fn tan(self) -> Self { <$type>::tan(self) }
            #[inline(always)] fn asin(self) -> Self { <$type>::asin(self) }
            #[inline(always)] fn acos(self) -> Self { <$type>::acos(self) }
            #[inline(always)] fn atan(self) -> Self { <$type>::atan(self) }
            #[inline(always)] fn atan2(self, other: Self) -> Self { <$type>::atan2(self, other) }
            #[inline(always)] fn sinh(self) -> Self { <$type>::sinh(self) }
            #[inline(always)] fn cosh(self) -> Self { <$type>::cosh(self) }
            #[inline(always)] fn asinh(self) -> Self { f64::from(self).asinh() as $type }
            #[inline(always)] fn acosh(self) -> Self { f64::from(self).acosh() as $type }
            #[inline(always)] fn atanh(self) -> Self { f64::from(self).atanh() as $type }
            #[inline(always)] fn floor(self) -> Self { <$type>::floor(self) }
            #[inline(always)] fn ceil(self) -> Self { <$type>::ceil(self) }
            #[inline(always)] fn round(self) -> Self { <$type>::round_ties_even(self) }
            #[inline(always)] fn trunc(self) -> Self { <$type>::trunc(self) }
            #[inline(always)] fn is_finite(self) -> bool { <$type>::is_finite(self) }
            #[inline(always)] fn is_negative(self) -> bool { <$type>::is_sign_negative(self) }
        }
    };
}

real!(
    f32,
    exp = exp,
    exp_below = exp_below,
    exp2 = exp2,
    expm1 = expm1,
    ln = ln,
    ln_1p = ln_1p,
    log2 = log2,
    log10 = log10,
    sigmoid = sigmoid,
    tanh = tanh,
    erf = erf,
    sin_near = sin,
    cos_near = cos
);

real!(
    f64,
    exp = f64::exp,
    exp_below = f64::exp,
    exp2 = f64::exp2,
    expm1 = f64::exp_m1,
    ln = f64::ln,
    ln_1p = f64::ln_1p,
    log2 = f64::log2,
    log10 = f64::log10,
    sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp()),
    tanh = f64::tanh,
    erf = libm::erf,
    sin_near = f64::sin,
    cos_near = f64::cos
);

#[cfg(test)]
mod tests {
    use super::*;

    /// Every 9,973rd number there is, of either sign, and the edges.
    fn numbers() -> impl Iterator<Item = f32> {
        let edges = [0.0, -0.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, 1.0, -1.0, 0.5, 4.0];
        (0..=u32::MAX).step_by(9973).map(f32::from_bits).chain(edges)
    }

    fn check(name: &str, f: impl Fn(f32) -> f32, exact: impl Fn(f64) -> f64, tolerance: f32) {
        for x in numbers() {
            let (have, want) = (f(x), exact(f64::from(x)) as f32);
            if have == want || (have.is_nan() && want.is_nan()) {
                continue;
            }
            let ulp = (want.abs() * f32::EPSILON).max(1.5e-45);
            let error = (have - want).abs() / ulp;
            assert!(
                error <= tolerance,
                "{name}({x:e}) = {have:e}, {want:e} is right, {error} ulps off"
            );
        }
    }

    #[test]
    fn functions_are_right_everywhere() {
        check("exp", exp, f64::exp, 2.0);
        let in_domain = |x: f32| if x > -87.0 && x <= 0.0 { x } else { -1.0 };
        check(
            "exp_below",
            |x| exp_below(in_domain(x)),
            |x| f64::from(in_domain(x as f32)).exp(),
            2.0,
        );
        assert_eq!([exp_below(-89.0), exp_below(f32::NEG_INFINITY)], [0.0; 2]);
        assert!(exp_below(f32::NAN).is_nan());
        check("exp2", exp2, f64::exp2, 2.0);
        check("expm1", expm1, f64::exp_m1, 3.0);
        check("ln", ln, f64::ln, 2.0);
        check("ln_1p", ln_1p, f64::ln_1p, 2.0);
        check("log2", log2, f64::log2, 3.0);
        check("log10", log10, f64::log10, 3.0);
        check("tanh", tanh, f64::tanh, 3.0);
        check("erf", erf, libm::erf, 3.0);
        let in_range = |x: f32| if x.abs() <= MAX_ANGLE { x } else { 0.5 };
        check("sin", |x| sin(in_range(x)), |x| f64::from(in_range(x as f32)).sin(), 3.0);
        check("cos", |x| cos(in_range(x)), |x| f64::from(in_range(x as f32)).cos(), 3.0);
    }

    #[test]
    fn sigmoid_is_right_to_the_last_denormals() {
        for x in numbers().filter(|x| *x > -87.0 || *x < -110.0) {
            let want = (1.0 / (1.0 + (-f64::from(x)).exp())) as f32;
            assert!((sigmoid(x) - want).abs() <= 3.0 * f32::EPSILON * want, "sigmoid({x:e})");
        }
    }

    #[test]
    fn erfinv_undoes_erf() {
        for at in -999..1000 {
            let x = f64::from(at) / 1000.0;
            assert!((libm::erf(erfinv(x)) - x).abs() < 1e-14, "{x}");
        }
        assert_eq!(erfinv(1.0), f64::INFINITY);
        assert_eq!(erfinv(-1.0), f64::NEG_INFINITY);
        assert!(erfinv(1.5).is_nan());
    }
}
