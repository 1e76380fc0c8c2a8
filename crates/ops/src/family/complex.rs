//! Complex numbers: made of their parts, taken apart, and the functions that formulas of other families share.
//!
//! Elements of type `complex64` and `complex128` compute in themselves, `complex32` in `complex64`. Operators take
//! them where their formulas do ([`Formula::with_complex`]); all others refuse them, since complex numbers have
//! no order.

use super::formula::{ComplexFormula, Formula, Part, complex, number, real};
use crate::call::Call;
use crate::error::Result;
use crate::infer::Infer;
use crate::plan::{Operand, Plan};
use crate::table::ArgSource::{A, Attr, O};
use crate::table::{AttrDefault, Node, Row, aclnn, node};
use cairn_tensor::kernels::math::Real;
use cairn_tensor::kernels::number::Number;
use cairn_tensor::{DType, Layout, broadcast};
use num_complex::Complex;

/// 1 / z, scaled so that parts of any size neither overflow nor vanish.
pub fn reciprocal<T: Part>(z: Complex<T>) -> Complex<T> {
    quotient(Complex::new(T::one(), T::zero()), z)
}

/// x / y, scaled by the larger part of `y`.
pub fn quotient<T: Part>(x: Complex<T>, y: Complex<T>) -> Complex<T> {
    let magnitude = |part: T| if part < T::zero() { -part } else { part };
    if magnitude(y.re) >= magnitude(y.im) {
        if y.re == T::zero() && y.im == T::zero() {
            return Complex::new(x.re / magnitude(y.re), x.im / magnitude(y.im));
        }
        let ratio = y.im / y.re;
        let scale = T::one() / (y.re + y.im * ratio);
        return Complex::new((x.re + x.im * ratio) * scale, (x.im - x.re * ratio) * scale);
    }
    let ratio = y.re / y.im;
    let scale = T::one() / (y.re * ratio + y.im);
    Complex::new((x.re * ratio + x.im) * scale, (x.im * ratio - x.re) * scale)
}

/// z / |z|; 0 for 0.
pub fn sgn<T: Part>(z: Complex<T>) -> Complex<T> {
    let norm = z.norm();
    if norm == T::zero() { z } else { Complex::new(z.re / norm, z.im / norm) }
}

/// Hyperbolic tangent, of large parts too.
pub fn tanh<T: Part>(z: Complex<T>) -> Complex<T> {
    // tanh(x + iy) = (t (1 + u^2) + i u (1 - t^2)) / (1 + t^2 u^2), where t = tanh x and u = tan y.
    let (t, u) = (num_traits::Float::tanh(z.re), num_traits::Float::tan(z.im));
    let denominator = T::one() + t * t * u * u;
    Complex::new(t * (T::one() + u * u) / denominator, u * (T::one() - t * t) / denominator)
}

/// x to the power of y; 1 where `y` is 0, and 0 where `x` is.
pub fn power<T: Part>(x: Complex<T>, y: Complex<T>) -> Complex<T> {
    let zero = Complex::new(T::zero(), T::zero());
    if y == zero {
        return Complex::new(T::one(), T::zero());
    }
    if x == zero {
        return if y.re > T::zero() && y.im == T::zero() { zero } else { (y * x.ln()).exp() };
    }
    (y * x.ln()).exp()
}

/// Both parts from two real tensors.
const JOINED: Formula<2> =
    number!(|x, _y| x).with_complex(complex!(|x, y| Complex::new(x.re, y.re)));
/// From a length and an angle.
const POLAR: Formula<2> = number!(|x, _y| x).with_complex(complex!(|x, y| {
    let (sin, cos) = num_traits::Float::sin_cos(y.re);
    Complex::new(x.re * cos, x.re * sin)
}));
/// The angle from the positive real axis, from -pi to pi.
const ANGLE: Formula<1> = real!(|x| {
    if x.is_nan() {
        x
    } else if x < C::ZERO {
        C::of(std::f64::consts::PI)
    } else {
        C::ZERO
    }
})
.with_complex(complex!(-> real |x| x.arg()));
const REAL: Formula<1> = number!(|x| x).with_complex(complex!(-> real |x| x.re));
const IMAGINARY: Formula<1> =
    number!(|x| x.sub(x)).with_complex(ComplexFormula { ..complex!(-> real |x| x.im) });

/// A complex tensor of two real ones. Arguments: first, second, out.
fn from_two(call: &mut Call<'_>, formula: &Formula<2>) -> Result<Plan> {
    let out = call.layout(2)?;
    call.expect_dtype(2, &out, &[DType::Complex32, DType::Complex64, DType::Complex128])?;
    let part = out.dtype.real_part();
    for at in 0..2 {
        let layout = call.layout(at)?;
        call.expect_dtype(at, &layout, &[part])?;
    }
    formula.plan(call)
}

fn join_parts(call: &mut Call<'_>) -> Result<Plan> {
    from_two(call, &JOINED)
}

fn polar(call: &mut Call<'_>) -> Result<Plan> {
    from_two(call, &POLAR)
}

/// A part of complex numbers; the output has its type. Arguments: a, out.
fn part(call: &mut Call<'_>, formula: &Formula<1>) -> Result<Plan> {
    let (a, out) = (call.layout(0)?, call.layout(1)?);
    if a.dtype.is_complex() {
        call.expect_dtype(1, &out, &[a.dtype.real_part()])?;
    }
    formula.plan(call)
}

fn real_part(call: &mut Call<'_>) -> Result<Plan> {
    part(call, &REAL)
}

fn imaginary_part(call: &mut Call<'_>) -> Result<Plan> {
    part(call, &IMAGINARY)
}

/// Complex numbers of the sizes that two tensors broadcast to.
fn join_parts_output(call: &Call<'_>) -> Result<Vec<Layout>> {
    let (x, y) = (call.layout(0)?, call.layout(1)?);
    let dtype = match x.dtype {
        DType::Double => DType::Complex128,
        DType::Float16 => DType::Complex32,
        _ => DType::Complex64,
    };
    let dims = broadcast(x.dims(), y.dims());
    dims.map(|dims| vec![Layout::contiguous(dtype, &dims)]).ok_or_else(|| {
        let (a, b) = (call.parameter(0), call.parameter(1));
        crate::error::Error::invalid(format!("{a} ({x}) and {b} ({y}) do not broadcast together"))
    })
}

/// A part of each number.
fn part_output(call: &Call<'_>) -> Result<Vec<Layout>> {
    let a = call.layout(0)?.packed();
    Ok(vec![a.with_dtype(a.dtype.real_part())])
}

/// An angle of each number: `float` for integers.
fn angle_output(call: &Call<'_>) -> Result<Vec<Layout>> {
    let a = call.layout(0)?.packed();
    let real = a.dtype.real_part();
    Ok(vec![a.with_dtype(if real.is_floating() { real } else { DType::Float })])
}

impl Call<'_> {
    /// A tensor of complex numbers as real ones, with a last dimension for the two parts.
    pub fn view_as_real(&self, at: usize, operand: Operand) -> Result<Operand> {
        match operand.layout().view_as_real() {
            Some(real) => Ok(operand.with_layout(real)),
            None => {
                let (name, layout) = (self.parameter(at), operand.layout());
                Err(crate::error::Error::invalid(format!(
                    "{name} ({layout}) has too many dimensions for complex numbers: at most 7"
                )))
            }
        }
    }
}

/// The rows of this family.
pub const ROWS: &[Row] = &[
    aclnn("Complex", join_parts),
    aclnn("Polar", polar),
    aclnn("AngleV2", |c| ANGLE.plan(c)),
    aclnn("Real", real_part),
];

/// The operators of this family by IR name.
pub const NODES: &[Node] = &[
    node(
        "Complex",
        &["real", "imag"],
        &["out"],
        Infer::By(join_parts_output),
        join_parts,
        &[A(0), A(1), O(0), Attr("Tout", AttrDefault::Int(DType::Complex64 as i64))],
    )
    .elementwise(),
    node(
        "Real",
        &["input"],
        &["output"],
        Infer::By(part_output),
        real_part,
        &[A(0), O(0), Attr("Tout", AttrDefault::Int(DType::Float as i64))],
    )
    .elementwise(),
    node(
        "Imag",
        &["input"],
        &["output"],
        Infer::By(part_output),
        imaginary_part,
        &[A(0), O(0), Attr("Tout", AttrDefault::Int(DType::Float as i64))],
    )
    .elementwise(),
    node("AngleV2", &["x"], &["y"], Infer::By(angle_output), |c| ANGLE.plan(c), &[A(0), O(0)])
        .elementwise(),
];
