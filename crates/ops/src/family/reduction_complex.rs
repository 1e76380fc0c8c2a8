//! Variances and norms of complex numbers, which are real.
//!
//! Workspace: for a variance the variances of both parts, in `f64`, besides what reductions take.

use super::reduction_plan::{Axes, single_result};
use crate::call::Call;
use crate::error::Result;
use crate::plan::{Operand, Plan};
use cairn_tensor::kernels::element::Element;
use cairn_tensor::kernels::fold::{self, Moments};
use cairn_tensor::kernels::map::map2;
use cairn_tensor::kernels::number::Number;
use cairn_tensor::{DType, Scalar};
use num_complex::Complex;

/// Types of real results; a caller may have made its output of the inputs' type.
const RESULTS: &[DType] = &[
    DType::Float,
    DType::Double,
    DType::Float16,
    DType::Bf16,
    DType::Complex64,
    DType::Complex128,
];

/// The variance (the sum of the variances of both parts) or standard deviation. Arguments: a, dims, correction, keep,
/// result, mean or absent.
pub fn variance<const STD: bool>(call: &mut Call<'_>) -> Result<Plan> {
    let a = call.tensor(0)?;
    let axes: Axes = call.axes(1, a.rank(), false)?;
    let correction = call.scalar_or(2, 1)?.as_f64();
    let keep = call.flag_or(3, false)?;
    let out = call.reduced_output(4, a.dims(), &axes, keep)?;
    call.expect_dtype(4, &out, RESULTS)?;
    let mean = match call.has(5) {
        true => Some(call.reduced_output(5, a.dims(), &axes, keep)?),
        false => None,
    };
    if let Some(mean) = &mean {
        call.expect_same(5, mean, 0, &a)?;
    }
    let outs: Vec<&Operand> = [Some(&out), mean.as_ref()].into_iter().flatten().collect();
    let parts = [0, 1].map(|which| a.with_layout(a.part(which)));
    let parts = parts.map(|part| call.in_place_input(part, &outs));
    let fold = fold::moments::<f64>();
    let plans = parts.map(|part| call.plan_reduction(&part.layout(), &axes, &fold));
    let variances = [0; 2].map(|_| call.scratch(DType::Double, out.dims()));
    call.plan(move |memory| {
        let finalize = |acc: Moments| {
            let variance = acc.squares / (acc.count - correction).max(0.0);
            (variance, if acc.count > 0.0 { acc.mean } else { f64::NAN })
        };
        // What is copied is copied before anything is written.
        let views = parts.map(|part| part.view(memory));
        let variances = variances.map(|one| memory.scratch(&one));
        for which in 0..2 {
            let mean = mean.map(|mean| memory.out(&mean.with_layout(mean.part(which as isize))));
            plans[which].run(memory, views[which], fold, (variances[which], mean), finalize);
        }
        let [real, imaginary] = variances.map(|one| one.view());
        map2(memory.parallel, memory.out(&out), real, imaginary, |x: f64, y: f64| {
            if STD { (x + y).sqrt() } else { x + y }
        });
        Ok(())
    })
}

/// The norm of the magnitudes of complex numbers. Arguments: a, p (2 when absent), dims, keep, out.
pub fn norm(call: &mut Call<'_>) -> Result<Plan> {
    let a = call.tensor(0)?;
    let p = call.scalar_or(1, Scalar::from(2.0))?.as_f64();
    let axes = call.axes(2, a.rank(), false)?;
    let out = call.reduced_output(4, a.dims(), &axes, call.flag_or(3, false)?)?;
    call.expect_dtype(4, &out, RESULTS)?;
    type Z = Complex<f64>;
    if p == 2.0 {
        let squares = fold::mapped(0.0, |z: Z| z.norm_sqr(), |x: f64, y: f64| x + y);
        return call
            .fold(a, &axes, (out, None), squares, move |acc: f64| single_result(acc.sqrt()));
    }
    if p == f64::NEG_INFINITY {
        let magnitudes = fold::mapped(f64::GREATEST, |z: Z| z.norm(), Number::least);
        return call.fold(a, &axes, (out, None), magnitudes, single_result);
    }
    if p == f64::INFINITY {
        let magnitudes = fold::mapped(0.0, |z: Z| z.norm(), Number::greatest);
        return call.fold(a, &axes, (out, None), magnitudes, single_result);
    }
    let term = move |z: Z| match p {
        0.0 => f64::from(u8::from(z.to_bool())),
        1.0 => z.norm(),
        _ => z.norm().powf(p),
    };
    let finalize =
        move |acc: f64| single_result(if p == 0.0 || p == 1.0 { acc } else { acc.powf(1.0 / p) });
    call.fold(a, &axes, (out, None), fold::mapped(0.0, term, |x: f64, y: f64| x + y), finalize)
}
