//! Max unpooling: elements go back to the positions that pooling took them from; and the gradient.

use super::avg_pool::REALS;
use super::inputs::out_of_range;
use super::window::{as_5d, numbers, spatial_sizes, with_spatial_sizes};
use crate::call::Call;
use crate::error::{Error, Result};
use crate::plan::Plan;
use crate::table::ArgSource::{A, I, No};
use crate::table::{Row, aclnn};
use cairn_tensor::kernels::gather::gather;
use cairn_tensor::kernels::indexed::IndexedView;
use cairn_tensor::kernels::map::fill_scalar;
use cairn_tensor::kernels::scatter::{ScatterMode, scatter};
use cairn_tensor::{DType, Scalar};

const NUMBERS: &[DType] = &[
    DType::Float,
    DType::Float16,
    DType::Bf16,
    DType::Double,
    DType::Int8,
    DType::Uint8,
    DType::Int16,
    DType::Int32,
    DType::Int64,
];

/// Checks what forward and backward have in common: arguments self, indices, output size, stride, padding from `at` on.
/// Returns the number of planes (samples times channels), and the positions in a plane of the pooled and of the unpooled
/// tensor. Only the gradient in two dimensions (`at` 1) takes an unpooled tensor with fewer positions.
fn sizes(call: &Call<'_>, at: usize, spatial: usize) -> Result<[usize; 3]> {
    let (pooled, index) = (call.layout(at)?, call.layout(at + 1)?);
    call.expect_dims(at + 1, &index, pooled.dims())?;
    call.expect_dtype(at + 1, &index, &[DType::Int64, DType::Int32])?;
    let layout_5d = as_5d(call, at, &pooled, spatial, false)?;
    let outputs = numbers(call, at + 2, spatial, 1)?;
    if call.ints(at + 2)?.len() != spatial {
        let (name, values) = (call.parameter(at + 2), call.ints(at + 2)?);
        return Err(Error::invalid(format!("{name} = {values:?}: expected {spatial} numbers")));
    }
    if spatial == 3 {
        numbers(call, at + 3, spatial, 1)?;
        numbers(call, at + 4, spatial, i64::from(i32::MIN))?;
    }
    let pooled_size = spatial_sizes(pooled.dims(), spatial, false).iter().product::<usize>();
    let least_size = if spatial == 2 && at == 1 { 1 } else { pooled_size };
    let unpooled_size =
        outputs.iter().try_fold(1usize, |n, size| n.checked_mul(*size)).unwrap_or(0);
    if unpooled_size < least_size {
        let (name, dims) = (call.parameter(at + 2), pooled.dims());
        return Err(Error::invalid(format!(
            "{name} = {outputs:?} has fewer positions than {} {dims:?}",
            call.parameter(at)
        )));
    }
    Ok([layout_5d.dims()[0] * layout_5d.dims()[1], pooled_size, unpooled_size])
}

/// Arguments: self, indices, output size, stride, padding, out, spatial dimensions.
fn max_unpool(call: &mut Call<'_>) -> Result<Plan> {
    let spatial = call.int(6)? as usize;
    let [planes, pooled_size, unpooled_size] = sizes(call, 0, spatial)?;
    let (out, x, index) = (call.output(5)?, call.tensor(0)?, call.tensor(1)?);
    call.expect_dtype(0, &x, NUMBERS)?;
    call.expect_same(5, &out, 0, &x)?;
    let outputs = numbers(call, 2, spatial, 1)?;
    call.expect_dims(5, &out, &with_spatial_sizes(x.dims(), &outputs, false))?;
    let x = call.reshaped_input(x, &[planes, pooled_size], &[&out]);
    let original_index = call.unaliased(index, &[&out]);
    let index_by_plane = call.reshaped_input(index, &[planes, pooled_size], &[&out]);
    let out = call.reshaped_output(out, &[planes, unpooled_size]);
    let name = call.parameter(1);
    call.plan(move |memory| {
        let (x, index) = (x.view(memory), index_by_plane.view(memory));
        let original_index = original_index.view(memory);
        let target = out.out(memory);
        fill_scalar(memory.parallel, target, Scalar::from(0));
        let targets = IndexedView::along(target.view(), 1, index, false);
        let result =
            scatter(memory.parallel, target, &targets, x, ScatterMode::Replace, original_index);
        out.write_back(memory);
        result.map_err(|bad| out_of_range(name, bad))
    })
}

/// Arguments: dy, self, indices, output size, stride, padding, out, spatial dimensions.
fn backward(call: &mut Call<'_>) -> Result<Plan> {
    let spatial = call.int(7)? as usize;
    let [planes, pooled_size, unpooled_size] = sizes(call, 1, spatial)?;
    let (dy, out, index) = (call.tensor(0)?, call.output(6)?, call.tensor(2)?);
    let pooled = call.layout(1)?;
    let outputs = numbers(call, 3, spatial, 1)?;
    call.expect_dims(0, &dy, &with_spatial_sizes(pooled.dims(), &outputs, false))?;
    call.expect_dims(6, &out, pooled.dims())?;
    call.expect_dtype(0, &dy, if spatial == 2 { NUMBERS } else { REALS })?;
    call.expect_same(6, &out, 0, &dy)?;
    call.touch_by_index(&dy);
    let dy = call.reshaped_input(dy, &[planes, unpooled_size], &[&out]);
    let original_index = call.unaliased(index, &[&out]);
    let index_by_plane = call.reshaped_input(index, &[planes, pooled_size], &[&out]);
    let out = call.reshaped_output(out, &[planes, pooled_size]);
    let name = call.parameter(2);
    call.plan(move |memory| {
        let (dy, index) = (dy.view(memory), index_by_plane.view(memory));
        let original_index = original_index.view(memory);
        let targets = IndexedView::along(dy, 1, index, false);
        let result = gather(memory.parallel, out.out(memory), &targets, original_index);
        out.write_back(memory);
        result.map_err(|bad| out_of_range(name, bad))
    })
}

/// The rows of this family.
pub const ROWS: &[Row] = &[
    aclnn("MaxUnpool2d", max_unpool).with_args(&[A(0), A(1), A(2), No, No, A(3), I(2)]),
    aclnn("MaxUnpool3d", max_unpool).with_args(&[A(0), A(1), A(2), A(3), A(4), A(5), I(3)]),
    aclnn("MaxUnpool2dBackward", backward).with_args(&[A(0), A(1), A(2), A(3), No, No, A(4), I(2)]),
    aclnn("MaxUnpool3dBackward", backward).with_args(&[
        A(0),
        A(1),
        A(2),
        A(3),
        A(4),
        A(5),
        A(6),
        I(3),
    ]),
];
