//! Layer norm whose result is scaled and shifted once more, by tensors that are the same for all rows of a batch; and
//! the gradients.
//!
//! Workspace: forward, as many numbers of the type computed in as `x` has elements; backward, twice as many, and what
//! the gradients of weights take in [`super::norm`].

use super::inputs::UnaliasedInput;
use super::reduction_plan::{Axes, ReductionPlan, single_result};
use crate::call::Call;
use crate::error::{Error, Result};
use crate::plan::{Memory, Operand, Plan};
use crate::table::ArgSource::A;
use crate::table::{Row, aclnn};
use cairn_tensor::kernels::constant::Constant;
use cairn_tensor::kernels::element::Element;
use cairn_tensor::kernels::fold;
use cairn_tensor::kernels::map::{map1, map2, map3};
use cairn_tensor::kernels::norm::{Affine, Norm, normalise, normalise_backward, parts};
use cairn_tensor::kernels::number::Number;
use cairn_tensor::{DType, Layout, Scalar, View, ViewMut, with_real};

const REAL: &[DType] = &[DType::Float, DType::Float16, DType::Bf16];

/// How many rows `x` has (all dimensions but the last), and how long they are.
fn rows_of(call: &Call<'_>, at: usize, x: &Layout) -> Result<[usize; 2]> {
    call.expect_dtype(at, x, REAL)?;
    match x.dims() {
        [before @ .., length] if !before.is_empty() && *length > 0 => {
            Ok([before.iter().product(), *length])
        }
        dims => {
            let name = call.parameter(at);
            Err(Error::invalid(format!(
                "{name} has the sizes {dims:?}: expected two dimensions or more, the last not empty"
            )))
        }
    }
}

/// The layout of a tensor with the sizes of `x`, but 1 in the last dimension but one, which may be missing.
fn by_batch(call: &Call<'_>, at: usize, one: &Layout, x: &[usize]) -> Result<Layout> {
    let (name, have) = (call.parameter(at), one.dims().to_vec());
    let mut want = x.to_vec();
    want[x.len() - 2] = 1;
    let layout = if one.rank() + 1 == x.len() { one.with(x.len() - 2) } else { *one };
    if layout.dims() == want {
        return Ok(layout);
    }
    Err(Error::invalid(format!("{name} has the sizes {have:?}: expected {want:?}")))
}

/// `scale` or `shift`, broadcast to the sizes of `x`.
fn broadcast_by_batch(
    call: &Call<'_>,
    at: usize,
    one: UnaliasedInput,
    x: &[usize],
) -> Result<UnaliasedInput> {
    call.expect_dtype(at, &one, REAL)?;
    let layout = by_batch(call, at, &one, x)?;
    Ok(one.with_layout(layout.broadcast_to(x).expect("sizes were checked")))
}

/// The elements of a packed tensor, as rows.
fn as_rows<'v>(view: ViewMut<'v>, rows: [usize; 2]) -> ViewMut<'v> {
    view.with_layout(view.reshaped(&rows).expect("it is packed")).expect("the same elements")
}

/// Arguments: x, scale, shift, weight or absent, bias or absent, epsilon, out, mean or absent, rstd or
/// absent.
fn forward(call: &mut Call<'_>) -> Result<Plan> {
    let out = call.output(6)?;
    let x = call.tensor(0)?;
    let rows = rows_of(call, 0, &x)?;
    call.expect_dims(6, &out, x.dims())?;
    call.expect_dtype(6, &out, REAL)?;
    let (scale, shift) = (call.read(1, &[&out])?, call.read(2, &[&out])?);
    let scale = broadcast_by_batch(call, 1, scale, x.dims())?;
    let shift = broadcast_by_batch(call, 2, shift, x.dims())?;
    let mut affine = [None; 2];
    for (slot, at) in affine.iter_mut().zip([3, 4]) {
        if let Some(one) = call.optional(at)? {
            call.expect_dtype(at, &one, REAL)?;
            *slot = Some(call.by_column(at, one, rows)?);
        }
    }
    let mut saved = [None; 2];
    for (slot, at) in saved.iter_mut().zip([7, 8]) {
        if let Some(one) = call.optional_output(at)? {
            *slot = Some(call.by_row(at, one, rows)?);
        }
    }
    let epsilon = call.float(5)?;
    let dims = x.dims().to_vec();
    let x = call.reshaped_input(x, &rows, &[]);
    let scratch = with_real!(out.dtype, C => call.scratch(C::DTYPE, &dims));
    call.plan_real(move |memory| {
        let scratch = memory.scratch(&scratch);
        let [weight, bias] = affine.map(|one| one.map(|one| memory.view(&one)));
        let [mean, rstd] = saved.map(|one| one.map(|one| memory.out(&one)));
        let (x, affine) = (x.view(memory), Affine { weight, bias });
        let (scale, shift) = (scale.view(memory), shift.view(memory));
        with_real!(scratch.dtype(), C => {
            let rows_out = as_rows(scratch, rows);
            normalise::<C>(memory.parallel, Norm::Layer, rows_out, x, affine, mean, rstd, epsilon);
            map3(memory.parallel, memory.out(&out), scratch.view(), scale, shift, |x: C, a: C, b: C| {
                x.mul(C::ONE.add(a)).add(b)
            });
        });
        Ok(())
    })
}

/// A sum over the rows of each batch, and where it goes.
fn sum_over_rows(
    call: &mut Call<'_>,
    at: usize,
    dims: &[usize],
    from: &Layout,
) -> Result<(Operand, ReductionPlan)> {
    let out = call.output(at)?;
    call.expect_dtype(at, &out, REAL)?;
    let layout = by_batch(call, at, &out, dims)?.without(dims.len() - 2);
    let axes: Axes = (0..dims.len()).map(|dim| dim == dims.len() - 2).collect();
    let dtype = with_real!(from.dtype, C => C::DTYPE);
    let reduction_plan =
        with_real!(dtype, C => call.plan_reduction(from, &axes, &fold::sum::<C>()));
    Ok((out.with_layout(layout), reduction_plan))
}

/// A tensor with the sizes `sizes`, broadcast to `dims`.
fn broadcast<'v>(memory: &Memory<'v>, one: &Operand, sizes: &[usize], dims: &[usize]) -> View<'v> {
    let view = memory.view(one);
    let layout = view.reshaped(sizes).and_then(|layout| layout.broadcast_to(dims));
    view.with_layout(layout.expect("sizes were checked")).expect("the same elements")
}

/// Arguments: gradient, x, sizes that are normalised, rstd, mean, scale, shift, weight or absent, bias or
/// absent; gradients of x, scale, shift, weight, bias.
fn backward(call: &mut Call<'_>) -> Result<Plan> {
    let dx = call.output(9)?;
    let (dy, x) = (call.read(0, &[&dx])?, call.read(1, &[&dx])?);
    let rows = rows_of(call, 1, &x)?;
    let dims = x.dims().to_vec();
    call.expect_dims(0, &dy, &dims)?;
    call.expect_dtype(0, &dy, REAL)?;
    call.expect_dims(9, &dx, &dims)?;
    call.expect_dtype(9, &dx, REAL)?;
    let sizes = call.ints(2)?;
    if sizes != [rows[1] as i64] {
        let (name, want) = (call.parameter(2), rows[1]);
        return Err(Error::invalid(format!("{name} = {sizes:?}: expected [{want}]")));
    }
    let (rstd, mean) = (call.tensor(3)?, call.tensor(4)?);
    call.by_row(3, rstd, rows)?;
    call.by_row(4, mean, rows)?;
    let scale = call.read(5, &[&dx])?;
    let scale = broadcast_by_batch(call, 5, scale, &dims)?;
    let mut affine = [None; 2];
    for (slot, at) in affine.iter_mut().zip([7, 8]) {
        if let Some(one) = call.optional(at)? {
            call.expect_dtype(at, &one, REAL)?;
            *slot = Some(call.by_column(at, one, rows)?);
        }
    }
    let dtype = with_real!(x.dtype, C => C::DTYPE);
    let (scaled, scratch) = (call.scratch(dtype, &dims), call.scratch(dtype, &dims));
    let scale_grad = sum_over_rows(call, 10, &dims, &scratch)?;
    let shift_grad = sum_over_rows(call, 11, &dims, &scratch)?;
    let mut grads = [None; 2];
    for (slot, at) in grads.iter_mut().zip([12, 13]) {
        let out = call.output(at)?;
        *slot = Some(call.by_column(at, out, rows)?);
    }
    let count = parts(rows[0], rows[1]);
    let sums = call.scratch(dtype, &[2, count, rows[1]]);
    let one_sum = Layout::contiguous(dtype, &[count, rows[1]]);
    let weight_sums = with_real!(dtype, C => call.plan_reduction(&one_sum, &Axes::new(&[true, false]), &fold::sum::<C>()));
    let mut one_per_row = dims.clone();
    *one_per_row.last_mut().expect("two dimensions or more") = 1;
    call.plan_real(move |memory| {
        let parallel = memory.parallel;
        let (scaled, scratch, sums) =
            (memory.scratch(&scaled), memory.scratch(&scratch), memory.scratch(&sums));
        let (dy, x, scale) = (dy.view(memory), x.view(memory), scale.view(memory));
        let (zero, one) = (Constant::new(Scalar::from(0.0)), Constant::new(Scalar::from(1.0)));
        let [weight, bias] = affine;
        let (means, rstds) =
            (broadcast(memory, &mean, &one_per_row, &dims), broadcast(memory, &rstd, &one_per_row, &dims));
        let columns = [rows[1]];
        let weights = weight.map_or(one.view(&dims), |one| broadcast(memory, &one, &columns, &dims));
        let biases = bias.map_or(zero.view(&dims), |one| broadcast(memory, &one, &columns, &dims));
        with_real!(dtype, C => {
            let sum_rows = |(out, reduction_plan): &(Operand, ReductionPlan)| {
                let target = (memory.out(out), None);
                reduction_plan.run(memory, scratch.view(), fold::sum::<C>(), target, single_result);
            };
            map3(parallel, scratch, x, means, rstds, |x: C, m: C, f: C| x.sub(m).mul(f));
            map3(parallel, scratch, scratch.view(), weights, biases, |x: C, w: C, b: C| x.mul(w).add(b));
            map2(parallel, scratch, scratch.view(), dy, |y: C, g: C| y.mul(g));
            sum_rows(&scale_grad);
            map1(parallel, scratch, dy, |g: C| g);
            sum_rows(&shift_grad);
            map2(parallel, scaled, dy, scale, |g: C, s: C| g.mul(C::ONE.add(s)));
            map1(parallel, scratch, x, |x: C| x);
            let by_rows = |one: &Operand| broadcast(memory, one, &[rows[0], 1], &rows);
            let weight = weight.map(|one| memory.view(&one));
            normalise_backward::<C>(
                parallel,
                Norm::Layer,
                Some(as_rows(scaled, rows)),
                as_rows(scaled, rows).view(),
                as_rows(scratch, rows).view(),
                Some(by_rows(&mean)),
                by_rows(&rstd),
                weight,
                sums,
            );
            map1(parallel, memory.out(&dx), scaled.view(), |d: C| d);
            for (which, grad) in grads.iter().enumerate() {
                if let Some(grad) = grad {
                    let part = sums.view().with_layout(sums.layout().at(0, which)).expect("a half of it");
                    weight_sums.run(memory, part, fold::sum::<C>(), (memory.out(grad), None), single_result);
                }
            }
        });
        Ok(())
    })
}

/// The rows of this family.
pub const ROWS: &[Row] = &[
    aclnn("AdaLayerNorm", forward).with_args(&[A(0), A(1), A(2), A(3), A(4), A(5), A(6)]),
    aclnn("AdaLayerNormV2", forward),
    aclnn("AdaLayerNormBackward", backward),
];
