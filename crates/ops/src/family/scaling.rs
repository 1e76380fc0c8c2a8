//! Gradient scaling: gradients divided by the scale, and the scale of the next step.

use crate::call::Call;
use crate::error::{Error, Result};
use crate::plan::{Operand, Plan};
use crate::table::{Row, aclnn};
use cairn_tensor::kernels::finite::unscale;
use cairn_tensor::kernels::map::fill_scalar;
use cairn_tensor::kernels::math::Real;
use cairn_tensor::kernels::peek;
use cairn_tensor::{DType, Scalar, with_real};

const FLOATS: &[DType] = &[DType::Float, DType::Float16, DType::Bf16];

/// Fails unless a tensor holds one number.
fn expect_one(call: &Call<'_>, at: usize, operand: &Operand) -> Result<()> {
    if operand.count() == 1 {
        return Ok(());
    }
    let (name, dims) = (call.parameter(at), operand.dims());
    Err(Error::invalid(format!("{name} has the sizes {dims:?}: expected one element")))
}

/// Multiplies every gradient by a factor, and sets a flag when one of them had an element that is not finite.
/// Arguments: gradients, flag, factor.
fn unscale_all(call: &mut Call<'_>) -> Result<Plan> {
    let (grads, found_inf, factor) = (call.inouts(0)?, call.inout(1)?, call.tensor(2)?);
    for grad in &grads {
        call.expect_dtype(0, grad, FLOATS)?;
        call.expect_same(0, grad, 0, &grads[0])?;
    }
    for (at, one) in [(1, &found_inf), (2, &factor)] {
        call.expect_dtype(at, one, &[DType::Float])?;
        expect_one(call, at, one)?;
    }
    call.plan(move |memory| {
        let value = peek::first(memory.view(&factor)).map_or(f64::NAN, Scalar::as_f64);
        let mut has_nonfinite = false;
        for grad in &grads {
            let grad = memory.out(grad);
            has_nonfinite |=
                with_real!(grad.dtype(), C => unscale(memory.parallel, grad, C::of(value)));
        }
        if has_nonfinite {
            fill_scalar(memory.parallel, memory.out(&found_inf), Scalar::from(1.0));
        }
        Ok(())
    })
}

/// The scale of the next step. Arguments: scale, steps without an overflow, whether there was one, growth, backoff,
/// interval, new scale, new number of steps.
fn update(call: &mut Call<'_>) -> Result<Plan> {
    let (scale, steps, found_inf) = (call.tensor(0)?, call.tensor(1)?, call.tensor(2)?);
    let (growth, backoff, interval) = (call.float(3)?, call.float(4)?, call.int(5)?);
    let (new_scale, new_steps) = (call.output(6)?, call.output(7)?);
    for (at, one) in [(0, &scale), (2, &found_inf), (6, &new_scale)] {
        call.expect_dtype(at, one, FLOATS)?;
        call.expect_same(at, one, 0, &scale)?;
    }
    for (at, one) in [(1, &steps), (7, &new_steps)] {
        call.expect_dtype(at, one, &[DType::Int32])?;
    }
    for (at, one) in [(0, &scale), (1, &steps), (2, &found_inf), (6, &new_scale), (7, &new_steps)] {
        expect_one(call, at, one)?;
    }
    if interval < 1 {
        let name = call.parameter(5);
        return Err(Error::invalid(format!("{name} = {interval}: expected at least 1")));
    }
    call.plan(move |memory| {
        let read = |one: &Operand| {
            peek::first(memory.view(one)).expect("one element that is a number, as was checked")
        };
        let (current, count) = (read(&scale).as_f64(), read(&steps).as_i64());
        let overflow = read(&found_inf).as_f64() != 0.0;
        let grows = !overflow && count.wrapping_add(1) == interval;
        let greatest = if scale.dtype == DType::Float16 { 65504.0 } else { f64::from(f32::MAX) };
        let next = match (overflow, grows) {
            (true, _) => current * backoff,
            (_, true) if (current * growth).abs() <= greatest => current * growth,
            _ => current,
        };
        let next_steps = if overflow || grows { 0 } else { count.wrapping_add(1) };
        fill_scalar(memory.parallel, memory.out(&new_scale), Scalar::from(next));
        fill_scalar(memory.parallel, memory.out(&new_steps), Scalar::from(next_steps));
        Ok(())
    })
}

/// The rows of this family.
pub const ROWS: &[Row] =
    &[aclnn("ForeachNonFiniteCheckAndUnscale", unscale_all), aclnn("AmpUpdateScale", update)];
