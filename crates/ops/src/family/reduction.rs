//! Sums, means, products, extremes, indices of extremes, variances, norms.
//!
//! Workspace: a reduction of `n` elements to `k` results is split into `p = min(32, ceil(1024 / k), n / 32768)` parts
//! and needs one accumulator per part and result, `p * k * size` bytes; nothing when `p < 2`.
//! The size is that of the type computed in (4 bytes for `float` and the half types, 8 for `double` and integers,
//! 1 for booleans), 16 with indices, 24 for variances, twice the type's for `LogSumExp`.

use super::formula::{Formula, real};
use super::reduction_complex;
use super::reduction_plan::{Axes, reduced_dims, single_result};
use crate::argument::Arg;
use crate::call::Call;
use crate::error::{Error, Result};
use crate::infer::Infer;
use crate::plan::{Operand, Plan};
use crate::table::ArgSource::{A, Attr, B, I, No, O};
use crate::table::{ArgSource, AttrDefault, Node, Row, aclnn, node};
use cairn_tensor::kernels::element::{Element, is_wide_unsigned};
use cairn_tensor::kernels::fold::{self, Exponentials, Moments};
use cairn_tensor::kernels::map::map2;
use cairn_tensor::kernels::math::Real;
use cairn_tensor::kernels::number::Number;
use cairn_tensor::{DType, Layout, Scalar, with_complex, with_number, with_real};

/// Input, axes and output of a reduction. Arguments: a, dims, keep, noop, out.
fn operands(call: &mut Call<'_>) -> Result<(Operand, Axes, Operand)> {
    let a = call.tensor(0)?;
    expect_arithmetic_dtype(call, 0, &a)?;
    let axes = call.axes(1, a.rank(), call.flag_or(3, false)?)?;
    let out = call.reduced_output(4, a.dims(), &axes, call.flag_or(2, false)?)?;
    expect_arithmetic_dtype(call, 4, &out)?;
    Ok((a, axes, out))
}

fn expect_arithmetic_dtype(call: &Call<'_>, at: usize, operand: &Operand) -> Result<()> {
    const TYPES: &[DType] = &[
        DType::Float,
        DType::Float16,
        DType::Bf16,
        DType::Double,
        DType::Int8,
        DType::Uint8,
        DType::Int16,
        DType::Int32,
        DType::Int64,
        DType::Bool,
    ];
    call.expect_dtype(at, operand, TYPES)
}

fn expect_floating_dtype(call: &Call<'_>, at: usize, operand: &Operand) -> Result<()> {
    let types = &[DType::Float, DType::Float16, DType::Bf16, DType::Double];
    call.expect_dtype(at, operand, types)
}

/// Fails when a non-empty output would be the maximum or minimum of zero elements.
fn expect_elements(call: &Call<'_>, a: &Operand, axes: &Axes, out: &Operand) -> Result<()> {
    let is_empty = a.dims().iter().zip(axes.iter()).any(|(size, axis)| *axis && *size == 0);
    if is_empty && out.count() > 0 {
        let (name, dims) = (call.parameter(0), a.dims());
        return Err(Error::invalid(format!("{name} {dims:?}: cannot reduce an empty dimension")));
    }
    Ok(())
}

/// As [`operands`], with complex tensors viewed as real ones that have a last dimension of size 2; `None` for other types.
fn complex_operands(call: &mut Call<'_>) -> Result<Option<(Operand, Axes, Operand)>> {
    let a = call.tensor(0)?;
    if !a.dtype.is_complex() {
        return Ok(None);
    }
    let mut axes = call.axes(1, a.rank(), call.flag_or(3, false)?)?;
    let out = call.reduced_output(4, a.dims(), &axes, call.flag_or(2, false)?)?;
    call.expect_dtype(4, &out, &[DType::Complex32, DType::Complex64, DType::Complex128])?;
    let (a, out) = (call.view_as_real(0, a)?, call.view_as_real(4, out)?);
    axes.push(false);
    Ok(Some((a, axes, out)))
}

/// As [`operands`], for unsigned integers of more than 8 bits, which callers by IR name may have.
fn unsigned_operands(call: &mut Call<'_>) -> Result<Option<(Operand, Axes, Operand)>> {
    if !call.is_by_name() || !is_wide_unsigned(call.layout(0)?.dtype) {
        return Ok(None);
    }
    let a = call.tensor(0)?;
    let axes = call.axes(1, a.rank(), call.flag_or(3, false)?)?;
    let out = call.reduced_output(4, a.dims(), &axes, call.flag_or(2, false)?)?;
    call.expect_same(4, &out, 0, &a)?;
    Ok(Some((a, axes, out)))
}

/// Sums in the output's type, which the caller chooses.
fn sum(call: &mut Call<'_>) -> Result<Plan> {
    if let Some((a, axes, out)) = unsigned_operands(call)? {
        return call.fold(a, &axes, (out, None), fold::sum::<u64>(), single_result);
    }
    let (a, axes, out) = match complex_operands(call)? {
        Some(operands) => operands,
        None => operands(call)?,
    };
    call.skip_cast_check(4);
    with_number!(out.dtype, C => call.fold(a, &axes, (out, None), fold::sum::<C>(), single_result))
}

/// The product of complex numbers.
fn complex_product(call: &mut Call<'_>) -> Result<Plan> {
    let a = call.tensor(0)?;
    let axes = call.axes(1, a.rank(), call.flag_or(3, false)?)?;
    let out = call.reduced_output(4, a.dims(), &axes, call.flag_or(2, false)?)?;
    call.expect_dtype(4, &out, &[DType::Complex32, DType::Complex64, DType::Complex128])?;
    with_complex!(out.dtype, C => {
        let fold = fold::mapped(C::from_f64(1.0), |x: C| x, |x: C, y: C| x * y);
        call.fold(a, &axes, (out, None), fold, single_result)
    })
}

fn product(call: &mut Call<'_>) -> Result<Plan> {
    if call.layout(0)?.dtype.is_complex() {
        return complex_product(call);
    }
    if let Some((a, axes, out)) = unsigned_operands(call)? {
        return call.fold(a, &axes, (out, None), fold::product::<u64>(), single_result);
    }
    let (a, axes, out) = operands(call)?;
    call.skip_cast_check(4);
    with_number!(out.dtype, C => call.fold(a, &axes, (out, None), fold::product::<C>(), single_result))
}

fn mean(call: &mut Call<'_>) -> Result<Plan> {
    let (a, axes, out) = match complex_operands(call)? {
        Some(operands) => operands,
        None => operands(call)?,
    };
    expect_floating_dtype(call, 4, &out)?;
    let count = reduced_count(&a, &axes) as f64;
    with_real!(out.dtype, C => {
        let count = C::from_f64(count);
        call.fold(a, &axes, (out, None), fold::sum::<C>(), move |acc: C| single_result(acc / count))
    })
}

fn reduced_count(a: &Operand, axes: &Axes) -> usize {
    a.dims().iter().zip(axes.iter()).filter(|(_, axis)| **axis).map(|(size, _)| *size).product()
}

/// Sum ignoring NaN.
fn nansum(call: &mut Call<'_>) -> Result<Plan> {
    let (a, axes, out) = operands(call)?;
    call.skip_cast_check(4);
    with_number!(out.dtype, C => {
        let fold = fold::mapped(C::ZERO, |x: C| if x.is_nan() { C::ZERO } else { x }, C::add);
        call.fold(a, &axes, (out, None), fold, single_result)
    })
}

fn reduce_log_sum(call: &mut Call<'_>) -> Result<Plan> {
    let (a, axes, out) = operands(call)?;
    expect_floating_dtype(call, 4, &out)?;
    with_real!(out.dtype, C => {
        call.fold(a, &axes, (out, None), fold::sum::<C>(), |acc: C| single_result(acc.ln()))
    })
}

fn log_sum_exp(call: &mut Call<'_>) -> Result<Plan> {
    let (a, axes, out) = operands(call)?;
    expect_floating_dtype(call, 4, &out)?;
    with_real!(out.dtype, C => {
        let finalize = |acc| single_result(Exponentials::<C>::finalize(acc));
        call.fold(a, &axes, (out, None), fold::exponentials::<C>(), finalize)
    })
}

fn amax(call: &mut Call<'_>) -> Result<Plan> {
    if let Some((a, axes, out)) = unsigned_operands(call)? {
        expect_elements(call, &a, &axes, &out)?;
        return call.fold(a, &axes, (out, None), fold::greatest::<u64>(), single_result);
    }
    let (a, axes, out) = operands(call)?;
    call.expect_castable(4, a.dtype, &out)?;
    expect_elements(call, &a, &axes, &out)?;
    with_number!(a.dtype, C => call.fold(a, &axes, (out, None), fold::greatest::<C>(), single_result))
}

fn amin(call: &mut Call<'_>) -> Result<Plan> {
    if let Some((a, axes, out)) = unsigned_operands(call)? {
        expect_elements(call, &a, &axes, &out)?;
        return call.fold(a, &axes, (out, None), fold::least::<u64>(), single_result);
    }
    let (a, axes, out) = operands(call)?;
    call.expect_castable(4, a.dtype, &out)?;
    expect_elements(call, &a, &axes, &out)?;
    with_number!(a.dtype, C => call.fold(a, &axes, (out, None), fold::least::<C>(), single_result))
}

/// As [`operands`], for `any` and `all`, whose input may also be complex.
fn any_all_operands(call: &mut Call<'_>) -> Result<(Operand, Axes, Operand)> {
    let a = call.tensor(0)?;
    if !a.dtype.is_complex() {
        return operands(call);
    }
    let axes = call.axes(1, a.rank(), call.flag_or(3, false)?)?;
    let out = call.reduced_output(4, a.dims(), &axes, call.flag_or(2, false)?)?;
    expect_arithmetic_dtype(call, 4, &out)?;
    Ok((a, axes, out))
}

fn any(call: &mut Call<'_>) -> Result<Plan> {
    let (a, axes, out) = any_all_operands(call)?;
    call.skip_cast_check(4);
    let fold = fold::mapped(false, |x: bool| x, |a, b| a | b);
    call.fold(a, &axes, (out, None), fold, single_result)
}

fn all(call: &mut Call<'_>) -> Result<Plan> {
    let (a, axes, out) = any_all_operands(call)?;
    call.skip_cast_check(4);
    let fold = fold::mapped(true, |x: bool| x, |a, b| a & b);
    call.fold(a, &axes, (out, None), fold, single_result)
}

/// Minimum and maximum. Arguments: a, dims, keep, noop, least, greatest.
fn aminmax(call: &mut Call<'_>) -> Result<Plan> {
    let (a, axes, low) = operands(call)?;
    let high = call.reduced_output(5, a.dims(), &axes, call.flag_or(2, false)?)?;
    expect_elements(call, &a, &axes, &low)?;
    let a = call.in_place_input(a, &[&low, &high]);
    with_number!(a.layout().dtype, C => {
        let (least, greatest) = (fold::least::<C>(), fold::greatest::<C>());
        let reduction_plan = call.plan_reduction(&a.layout(), &axes, &least);
        call.plan(move |memory| {
            let a = a.view(memory);
            reduction_plan.run(memory, a, least, (memory.out(&low), None), single_result);
            reduction_plan.run(memory, a, greatest, (memory.out(&high), None), single_result);
            Ok(())
        })
    })
}

/// A value and its index along one dimension. Arguments: a, dim, keep, values or absent, indices.
fn arg_extreme<const MAX: bool>(call: &mut Call<'_>) -> Result<Plan> {
    let a = call.tensor(0)?;
    expect_arithmetic_dtype(call, 0, &a)?;
    let axes = call.axes(1, a.rank(), false)?;
    let keep = call.flag_or(2, false)?;
    let indices = call.reduced_output(4, a.dims(), &axes, keep)?;
    call.expect_dtype(4, &indices, &[DType::Int64, DType::Int32])?;
    let values = match call.has(3) {
        true => Some(call.reduced_output(3, a.dims(), &axes, keep)?),
        false => None,
    };
    expect_elements(call, &a, &axes, &indices)?;
    with_number!(a.dtype, C => {
        let finalize = |(value, at): (C, i64)| (at, value);
        match MAX {
            true => call.fold(a, &axes, (indices, values), fold::arg_max::<C>(), finalize),
            false => call.fold(a, &axes, (indices, values), fold::arg_min::<C>(), finalize),
        }
    })
}

/// Variance or standard deviation, and the mean. Arguments: a, dims, correction, keep, result, mean or absent.
fn variance<const STD: bool>(call: &mut Call<'_>) -> Result<Plan> {
    let a = call.tensor(0)?;
    if a.dtype.is_complex() {
        return reduction_complex::variance::<STD>(call);
    }
    expect_floating_dtype(call, 0, &a)?;
    let axes = call.axes(1, a.rank(), false)?;
    let correction = match call.has(2) {
        true => call.scalar(2)?.as_f64(),
        false => 1.0,
    };
    let keep = call.flag_or(3, false)?;
    let out = call.reduced_output(4, a.dims(), &axes, keep)?;
    let mean = match call.has(5) {
        true => Some(call.reduced_output(5, a.dims(), &axes, keep)?),
        false => None,
    };
    let finalize = move |acc: Moments| {
        let variance = acc.squares / (acc.count - correction).max(0.0);
        let mean = if acc.count > 0.0 { acc.mean } else { f64::NAN };
        (if STD { variance.sqrt() } else { variance }, mean)
    };
    with_real!(a.dtype, C => call.fold(a, &axes, (out, mean), fold::moments::<C>(), finalize))
}

/// The standard deviation around a given mean, or its reciprocal (rstd). Arguments: a, mean, dims, unbiased, keep, whether to
/// return the reciprocal, epsilon (added to the variance for the reciprocal), correction, out.
fn std_with_mean(call: &mut Call<'_>) -> Result<Plan> {
    let (a, mean) = (call.tensor(0)?, call.tensor(1)?);
    expect_floating_dtype(call, 0, &a)?;
    call.expect_same(1, &mean, 0, &a)?;
    let Some(broadcast) = mean.broadcast_to(a.dims()) else {
        let (name, have, want) = (call.parameter(1), mean.dims(), a.dims());
        return Err(Error::invalid(format!("{name} {have:?} does not broadcast to {want:?}")));
    };
    let mean = mean.with_layout(broadcast);
    let axes = call.axes(2, a.rank(), false)?;
    let out = call.reduced_output(8, a.dims(), &axes, call.flag_or(4, false)?)?;
    call.expect_same(8, &out, 0, &a)?;
    let (invert, epsilon) = (call.flag_or(5, false)?, call.float(6)?);
    let correction = if call.flag_or(3, true)? { call.int_or(7, 1)? } else { 0 };
    let degrees_of_freedom = (reduced_count(&a, &axes) as f64 - correction as f64).max(0.0);
    with_real!(a.dtype, C => {
        let squares = call.scratch(C::DTYPE, a.dims());
        let fold = fold::sum::<C>();
        let reduction_plan = call.plan_reduction(&squares, &axes, &fold);
        let (degrees_of_freedom, epsilon) = (C::from_f64(degrees_of_freedom), C::from_f64(epsilon));
        call.plan(move |memory| {
            let squares = memory.scratch(&squares);
            map2(memory.parallel, squares, memory.view(&a), memory.view(&mean), |x: C, m: C| {
                (x - m) * (x - m)
            });
            reduction_plan.run(memory, squares.view(), fold, (memory.out(&out), None), move |acc: C| {
                let variance = acc / degrees_of_freedom;
                single_result(if invert { C::ONE / (variance + epsilon).sqrt() } else { variance.sqrt() })
            });
            Ok(())
        })
    })
}

/// Arguments: a, mean, dims, unbiased, keep.
fn infer_std_with_mean(call: &Call<'_>) -> Result<Vec<Layout>> {
    let a = call.layout(0)?;
    let axes = call.axes(2, a.rank(), false)?;
    Ok(vec![Layout::contiguous(a.dtype, &reduced_dims(a.dims(), &axes, call.flag_or(4, false)?))])
}

/// A norm. Arguments: a, p (2 when absent), dims, keep, out.
fn norm(call: &mut Call<'_>) -> Result<Plan> {
    let a = call.tensor(0)?;
    if a.dtype.is_complex() {
        return reduction_complex::norm(call);
    }
    expect_arithmetic_dtype(call, 0, &a)?;
    let p = call.scalar_or(1, Scalar::from(2.0))?.as_f64();
    let axes = call.axes(2, a.rank(), false)?;
    let out = call.reduced_output(4, a.dims(), &axes, call.flag_or(3, false)?)?;
    expect_floating_dtype(call, 4, &out)?;
    with_real!(out.dtype, C => {
        let (power, root) = (C::from_f64(p), C::from_f64(1.0 / p));
        if p == 2.0 {
            let squares = fold::mapped(C::ZERO, |x: C| x * x, C::add);
            return call.fold(a, &axes, (out, None), squares, |acc: C| single_result(acc.sqrt()));
        }
        if p == f64::NEG_INFINITY {
            let magnitudes = fold::mapped(C::GREATEST, |x: C| Number::abs(x), C::least);
            return call.fold(a, &axes, (out, None), magnitudes, single_result);
        }
        if p == f64::INFINITY {
            let magnitudes = fold::mapped(C::ZERO, |x: C| Number::abs(x), C::greatest);
            return call.fold(a, &axes, (out, None), magnitudes, single_result);
        }
        let term = move |x: C| match p {
            0.0 => C::from_bool(x != C::ZERO),
            1.0 => Number::abs(x),
            _ => Number::abs(x).powf(power),
        };
        let finalize = move |acc: C| single_result(if p == 0.0 || p == 1.0 { acc } else { acc.powf(root) });
        call.fold(a, &axes, (out, None), fold::mapped(C::ZERO, term, C::add), finalize)
    })
}

const ROOT: Formula<1> = real!(|x; root = 0.5| {
    let one = if root == C::ONE { x } else { x.power(root) };
    if root == C::of(0.5) { x.sqrt() } else { one }
});

/// The power of a norm in two steps at 1; torch_npu passes the greatest and the least `int` for infinities. What is added to it, at
/// `epsilon`, must not count.
fn power_of_step(call: &Call<'_>, epsilon: usize) -> Result<f64> {
    let (p, more) = (call.float(1)?, call.float(epsilon)?);
    if !(0.0..=1.1e-12).contains(&more) {
        let name = call.parameter(epsilon);
        return Err(Error::invalid(format!("{name} = {more}: expected 0 to 1e-12")));
    }
    Ok(match p {
        _ if p >= f64::from(i32::MAX) => f64::INFINITY,
        _ if p <= f64::from(i32::MIN) => f64::NEG_INFINITY,
        _ => p,
    })
}

/// A norm before its root: the sum of powers, or the greatest or least magnitude. Arguments: a, power, dims, keep, out, epsilon.
fn norm_without_root(call: &mut Call<'_>) -> Result<Plan> {
    let (a, p) = (call.tensor(0)?, power_of_step(call, 5)?);
    if p.is_infinite() || p == 0.0 || p == 1.0 {
        call.replace(1, Arg::Float(p));
        return norm(call);
    }
    expect_arithmetic_dtype(call, 0, &a)?;
    let axes = call.axes(2, a.rank(), false)?;
    let out = call.reduced_output(4, a.dims(), &axes, call.flag_or(3, false)?)?;
    expect_floating_dtype(call, 4, &out)?;
    with_real!(out.dtype, C => {
        let power = C::from_f64(p);
        let term = move |x: C| if p == 2.0 { x * x } else { Number::abs(x).powf(power) };
        call.fold(a, &axes, (out, None), fold::mapped(C::ZERO, term, C::add), single_result)
    })
}

/// The root that makes a norm of [`norm_without_root`]. Arguments: x, power, out, epsilon.
fn root_of_norm(call: &mut Call<'_>) -> Result<Plan> {
    let p = power_of_step(call, 3)?;
    let root = if p.is_infinite() || p == 0.0 { 1.0 } else { 1.0 / p };
    call.replace(1, Arg::Float(root));
    ROOT.plan(call)
}

/// The output of a reduction. Arguments: a, dims, keep, noop.
fn infer_reduced(call: &Call<'_>) -> Result<Vec<Layout>> {
    let a = call.layout(0)?;
    let axes = call.axes(1, a.rank(), call.flag_or(3, false)?)?;
    Ok(vec![Layout::contiguous(a.dtype, &reduced_dims(a.dims(), &axes, call.flag_or(2, false)?))])
}

/// As [`infer_reduced`], with the type that argument 5 gives, if any.
fn infer_reduced_as(call: &Call<'_>) -> Result<Vec<Layout>> {
    let outs = infer_reduced(call)?;
    const GE_DT_UNDEFINED: i64 = 28;
    if !call.has(5)
        || call.int(5)? < 0
        || call.dtype(5)? == DType::Undefined
        || call.int(5)? == GE_DT_UNDEFINED
    {
        return Ok(outs);
    }
    let dtype = call.dtype(5)?;
    Ok(outs.into_iter().map(|out| out.with_dtype(dtype)).collect())
}

/// Indices along a dimension. Arguments: a, dim, keep, values, indices, the indices' type.
fn infer_indices_and_values(call: &Call<'_>) -> Result<Vec<Layout>> {
    let a = call.layout(0)?;
    let axes = call.axes(1, a.rank(), false)?;
    let dims = reduced_dims(a.dims(), &axes, call.flag_or(2, false)?);
    Ok(vec![Layout::contiguous(call.dtype(5)?, &dims), Layout::contiguous(a.dtype, &dims)])
}

fn infer_indices(call: &Call<'_>) -> Result<Vec<Layout>> {
    infer_indices_and_values(call).map(|outs| outs[..1].to_vec())
}

/// Arguments: a, dims, correction, keep.
fn infer_variance_and_mean(call: &Call<'_>) -> Result<Vec<Layout>> {
    let a = call.layout(0)?;
    let axes = call.axes(1, a.rank(), false)?;
    Ok(vec![
        Layout::contiguous(a.dtype, &reduced_dims(a.dims(), &axes, call.flag_or(3, false)?));
        2
    ])
}

/// Arguments: a, p, dims, keep.
fn infer_norm(call: &Call<'_>) -> Result<Vec<Layout>> {
    let a = call.layout(0)?;
    let axes = call.axes(2, a.rank(), false)?;
    Ok(vec![Layout::contiguous(a.dtype, &reduced_dims(a.dims(), &axes, call.flag_or(3, false)?))])
}

// How `aclnn` functions pass what [`operands`] reads.
/// a, dims, keep, out.
const PLAIN: &[ArgSource] = &[A(0), A(1), A(2), No, A(3)];
/// a, dims, keep, dtype, out.
const TYPED: &[ArgSource] = &[A(0), A(1), A(2), No, A(4)];
/// a, out: all dimensions are reduced.
const ALL: &[ArgSource] = &[A(0), No, B(false), No, A(1)];
/// a, dims, keep, whether empty dims reduce nothing, out.
const NOOP: &[ArgSource] = &[A(0), A(1), A(2), A(3), A(4)];

/// The rows of this family.
pub const ROWS: &[Row] = &[
    aclnn("ReduceSum", sum).with_args(TYPED),
    aclnn("ReduceNansum", nansum).with_args(TYPED),
    aclnn("ReduceLogSum", reduce_log_sum).with_args(NOOP),
    aclnn("Mean", mean).with_args(TYPED),
    aclnn("MeanV2", mean).with_args(NOOP),
    aclnn("Prod", product).with_args(&[A(0), No, B(false), No, A(2)]),
    aclnn("ProdDim", product).with_args(TYPED),
    aclnn("Max", amax).with_args(ALL),
    aclnn("MaxV2", amax).with_args(NOOP),
    aclnn("Min", amin).with_args(ALL),
    aclnn("Amax", amax).with_args(PLAIN),
    aclnn("Amin", amin).with_args(PLAIN),
    aclnn("Aminmax", aminmax).with_args(&[A(0), A(1), A(2), No, A(3), A(4)]),
    aclnn("AminmaxDim", aminmax).with_args(&[A(0), A(1), A(2), No, A(3), A(4)]),
    aclnn("AminmaxAll", aminmax).with_args(&[A(0), No, B(false), No, A(1), A(2)]),
    aclnn("Any", any).with_args(PLAIN),
    aclnn("All", all).with_args(PLAIN),
    aclnn("LogSumExp", log_sum_exp).with_args(PLAIN),
    aclnn("MaxDim", arg_extreme::<true>),
    aclnn("MinDim", arg_extreme::<false>),
    aclnn("ArgMax", arg_extreme::<true>).with_args(&[A(0), A(1), A(2), No, A(3)]),
    aclnn("ArgMin", arg_extreme::<false>).with_args(&[A(0), A(1), A(2), No, A(3)]),
    aclnn("Var", variance::<false>),
    aclnn("VarCorrection", variance::<false>),
    aclnn("VarMean", variance::<false>),
    aclnn("Std", variance::<true>),
    aclnn("StdMeanCorrection", variance::<true>),
    aclnn("Norm", norm),
    aclnn("LinalgVectorNorm", norm).with_args(&[A(0), A(1), A(2), A(3), A(5)]),
];

const BY_INPUT: &[ArgSource] = &[A(0), A(1), Attr("keep_dims", AttrDefault::Flag(false)), No, O(0)];
const BY_ATTRIBUTE: &[ArgSource] = &[
    A(0),
    Attr("axes", AttrDefault::Required),
    Attr("keep_dims", AttrDefault::Flag(false)),
    No,
    O(0),
];

macro_rules! reductions {
    ($($name:literal, $attribute:literal, $bind:ident;)*) => {
        &[$(
            node($name, &["x", "axes"], &["y"], Infer::By(infer_reduced), $bind, BY_INPUT).needs_values(&[1]),
            node($attribute, &["x"], &["y"], Infer::By(infer_reduced), $bind, BY_ATTRIBUTE),
        )*]
    };
}

/// The plain reductions by IR name, with their axes as an input and as an attribute.
pub const REDUCTIONS: &[Node] = reductions! {
    "ReduceSum", "ReduceSumD", sum;
    "ReduceProd", "ReduceProdD", product;
    "ReduceMax", "ReduceMaxD", amax;
    "ReduceMin", "ReduceMinD", amin;
    "ReduceAny", "ReduceAnyD", any;
    "ReduceAll", "ReduceAllD", all;
    "ReduceLogSumExp", "ReduceLogSumExpD", log_sum_exp;
    "ReduceLogSum", "ReduceLogSumD", reduce_log_sum;
};

const KEEP: ArgSource = Attr("keep_dims", AttrDefault::Flag(false));
const NOOP_WITH_NONE: ArgSource = Attr("noop_with_empty_axes", AttrDefault::Flag(true));
const WITH_VALUE: &[ArgSource] =
    &[A(0), Attr("dimension", AttrDefault::Required), KEEP, O(1), O(0), I(DType::Int32 as i64)];
const INDEX: &[ArgSource] =
    &[A(0), A(1), B(false), No, O(0), Attr("dtype", AttrDefault::Int(DType::Int64 as i64))];

/// The other operators of this family by IR name.
pub const NODES: &[Node] = &[
    node(
        "ReduceMean",
        &["x", "axes"],
        &["y"],
        Infer::By(infer_reduced),
        mean,
        &[A(0), A(1), KEEP, NOOP_WITH_NONE, O(0)],
    )
    .needs_values(&[1]),
    node(
        "ReduceMeanD",
        &["x"],
        &["y"],
        Infer::By(infer_reduced),
        mean,
        &[A(0), Attr("axes", AttrDefault::Required), KEEP, NOOP_WITH_NONE, O(0)],
    ),
    node(
        "ReduceMeanWithCast",
        &["x", "axes"],
        &["y"],
        Infer::By(infer_reduced_as),
        mean,
        &[A(0), A(1), KEEP, NOOP_WITH_NONE, O(0), Attr("dtype", AttrDefault::Int(-1))],
    )
    .needs_values(&[1]),
    node(
        "ArgMaxV2",
        &["x", "dimension"],
        &["y"],
        Infer::By(infer_indices),
        arg_extreme::<true>,
        INDEX,
    )
    .needs_values(&[1]),
    node(
        "ArgMin",
        &["x", "dimension"],
        &["y"],
        Infer::By(infer_indices),
        arg_extreme::<false>,
        INDEX,
    )
    .needs_values(&[1]),
    node(
        "ArgMaxWithValue",
        &["x"],
        &["indice", "values"],
        Infer::By(infer_indices_and_values),
        arg_extreme::<true>,
        WITH_VALUE,
    ),
    node(
        "ArgMinWithValue",
        &["x"],
        &["indice", "values"],
        Infer::By(infer_indices_and_values),
        arg_extreme::<false>,
        WITH_VALUE,
    ),
    node(
        "ReduceStdV2",
        &["x"],
        &["std", "mean"],
        Infer::By(infer_variance_and_mean),
        variance::<true>,
        &[
            A(0),
            Attr("dim", AttrDefault::Ints(&[])),
            Attr("correction", AttrDefault::Int(1)),
            Attr("keepdim", AttrDefault::Flag(false)),
            O(0),
            O(1),
        ],
    ),
    node(
        "ReduceStdWithMean",
        &["x", "mean"],
        &["y"],
        Infer::By(infer_std_with_mean),
        std_with_mean,
        &[
            A(0),
            A(1),
            Attr("dim", AttrDefault::Ints(&[])),
            Attr("unbiased", AttrDefault::Flag(true)),
            Attr("keepdim", AttrDefault::Flag(false)),
            Attr("invert", AttrDefault::Flag(false)),
            Attr("epsilon", AttrDefault::Float(0.001)),
            Attr("correction", AttrDefault::Int(1)),
            O(0),
        ],
    ),
    node(
        "LpNormV2",
        &["x"],
        &["y"],
        Infer::By(infer_norm),
        norm,
        &[
            A(0),
            Attr("p", AttrDefault::Float(2.0)),
            Attr("axes", AttrDefault::Ints(&[])),
            Attr("keepdim", AttrDefault::Flag(false)),
            O(0),
        ],
    ),
    node(
        "LpNormReduceV2",
        &["x"],
        &["y"],
        Infer::By(infer_norm),
        norm_without_root,
        &[
            A(0),
            Attr("p", AttrDefault::Float(2.0)),
            Attr("axes", AttrDefault::Ints(&[])),
            Attr("keepdim", AttrDefault::Flag(false)),
            O(0),
            Attr("epsilon", AttrDefault::Float(1e-12)),
        ],
    ),
    node(
        "LpNormUpdateV2",
        &["x"],
        &["y"],
        Infer::Like(0),
        root_of_norm,
        &[
            A(0),
            Attr("p", AttrDefault::Float(2.0)),
            O(0),
            Attr("epsilon", AttrDefault::Float(1e-12)),
        ],
    )
    .elementwise(),
];
