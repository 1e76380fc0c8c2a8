//! Steps of optimisers as one operator.

use crate::call::Call;
use crate::error::{Error, Result};
use crate::plan::Plan;
use crate::table::{Row, aclnn};
use cairn_tensor::kernels::map::{map2, map3};
use cairn_tensor::kernels::math::Real;
use cairn_tensor::with_real;

/// One step of AdamW on one tensor, in place.
///
/// Arguments: variable, mean of the gradients, mean of their squares, the greatest of the latter (where it
/// is kept), gradient, the number of the step before, rate, beta1, beta2, decay, epsilon, whether to keep
/// the greatest, whether to climb.
fn adamw(call: &mut Call<'_>) -> Result<Plan> {
    let (var, mean, square) = (call.inout(0)?, call.inout(1)?, call.inout(2)?);
    let keep = call.flag(11)?;
    let most = if keep { Some(call.inout(3)?) } else { None };
    let (grad, step) = (call.tensor(4)?, call.parameter_or(5, 0.0)?);
    let [rate, beta1, beta2, decay, epsilon] = [6, 7, 8, 9, 10].map(|at| call.float(at));
    let (rate, beta1, beta2, decay, epsilon) = (rate?, beta1?, beta2?, decay?, epsilon?);
    let climb = call.flag(12)?;
    for (at, one) in [(1, &mean), (2, &square), (4, &grad)] {
        call.expect_dims(at, one, var.dims())?;
    }
    for (at, one) in [(0, &var), (1, &mean), (2, &square), (4, &grad)] {
        if !one.dtype.is_floating() {
            let (name, dtype) = (call.parameter(at), one.dtype);
            return Err(Error::invalid(format!(
                "{name} is of type {dtype}: expected real numbers"
            )));
        }
        call.expect_arithmetic(at, one.dtype)?;
    }
    if let Some(most) = &most {
        call.expect_dims(3, most, var.dims())?;
    }
    call.plan(move |memory| {
        let step = step.value(memory).as_f64() + 1.0;
        let (left1, left2) = (1.0 - beta1.powf(step), 1.0 - beta2.powf(step));
        let parallel = memory.parallel;
        let sign = if climb { -1.0 } else { 1.0 };
        with_real!(var.dtype, C => {
            let of = <C as Real>::of;
            let (b1, b2, c1, c2) = (of(beta1), of(beta2), of((1.0 - beta1) * sign), of(1.0 - beta2));
            let grads = memory.view(&grad);
            map2::<C, C, C>(parallel, memory.out(&mean), memory.view(&mean), grads, move |m, g| b1 * m + c1 * g);
            map2::<C, C, C>(parallel, memory.out(&square), memory.view(&square), grads, move |v, g| b2 * v + c2 * g * g);
            let squares = match &most {
                None => memory.view(&square),
                Some(most) => {
                    let greater = |a: C, b: C| if a > b { a } else { b };
                    map2::<C, C, C>(parallel, memory.out(most), memory.view(most), memory.view(&square), greater);
                    memory.view(most)
                }
            };
            let (shrink, pace) = (of(1.0 - rate * decay), of(rate / left1));
            let (root, epsilon) = (of(left2.sqrt()), of(epsilon));
            map3::<C, C, C, C>(parallel, memory.out(&var), memory.view(&var), memory.view(&mean), squares, move |x, m, v| {
                x * shrink - pace * m / (v.sqrt() / root + epsilon)
            });
        });
        Ok(())
    })
}

/// The rows of this family.
pub const ROWS: &[Row] = &[aclnn("ApplyAdamWV2", adamw)];
