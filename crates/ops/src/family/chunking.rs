//! Operators that cut tensors into parts: chunks, queries, keys and values.

use crate::call::Call;
use crate::error::{Error, Result};
use crate::plan::Plan;
use crate::table::{Row, aclnn};
use cairn_tensor::kernels::copy::copy;
use cairn_tensor::kernels::map::{fill_scalar, map2};
use cairn_tensor::{DType, Layout, Scalar, Strides};

const TYPES: &[DType] = &[DType::Float, DType::Float16, DType::Bf16];

/// Each tensor cut into chunks along its first dimension, zeros after the last row; row `i` of the output has chunk
/// `i` of every tensor. Arguments: tensors, dimension (0), how many chunks, out.
fn chunk_cat(call: &mut Call<'_>) -> Result<Plan> {
    let out = call.output(3)?;
    let tensors = call.tensors(0)?;
    let (dim, count) = (call.int(1)?, call.int(2)?);
    if dim != 0 {
        let name = call.parameter(1);
        return Err(Error::invalid(format!("{name} = {dim}: expected 0")));
    }
    let Some(chunks) = usize::try_from(count).ok().filter(|count| *count > 0) else {
        let name = call.parameter(2);
        return Err(Error::invalid(format!("{name} = {count}: expected a positive number")));
    };
    call.expect_dtype(3, &out, TYPES)?;
    let mut parts = Vec::new();
    let mut width = 0usize;
    for one in &tensors {
        call.expect_dtype(0, one, TYPES)?;
        if one.rank() == 0 || one.dtype != tensors[0].dtype || call.has_partial_overlap(one, &out) {
            let (name, layout) = (call.parameter(0), one.layout());
            return Err(Error::invalid(format!(
                "{name} has a tensor {layout}: expected dimensions, one type, and memory apart from the output's"
            )));
        }
        let rows = one.dims()[0].div_ceil(chunks);
        let row_length: usize = one.dims()[1..].iter().product();
        parts.push((*one, width, rows));
        width += rows * row_length;
    }
    call.expect_dims(3, &out, &[chunks, width])?;
    call.plan(move |memory| {
        fill_scalar(memory.parallel, memory.out(&out), Scalar::Bool(false));
        let (row_stride, column_stride) = (out.strides()[0], out.strides()[1]);
        for (one, start, rows) in parts.iter().filter(|(one, ..)| one.count() > 0) {
            let strides = cairn_tensor::contiguous_strides(one.dims());
            let strides: Strides = strides.iter().map(|stride| stride * column_stride).collect();
            for chunk in 0..chunks {
                let first = chunk * rows;
                let Some(count_of_chunk) =
                    one.dims()[0].checked_sub(first).map(|left| left.min(*rows))
                else {
                    break;
                };
                let from = one.layout().sliced(0, first, count_of_chunk, 1);
                let offset =
                    out.offset + chunk as isize * row_stride + *start as isize * column_stride;
                let to = Layout::strided(out.dtype, from.dims(), &strides, offset);
                copy(
                    memory.parallel,
                    memory.out(&out.with_layout(to)),
                    memory.view_with_layout(one, from),
                );
            }
        }
        Ok(())
    })
}

/// Queries, keys and values with their biases, the queries divided by the root of a head's length. Arguments: qkv, bias,
/// heads, q, k, v.
fn transform_bias_rescale_qkv(call: &mut Call<'_>) -> Result<Plan> {
    let (qkv, bias) = (call.tensor(0)?, call.tensor(1)?);
    call.expect_dtype(0, &qkv, TYPES)?;
    call.expect_same(1, &bias, 0, &qkv)?;
    let heads = call.int(2)?;
    let sizes = match (qkv.dims(), usize::try_from(heads)) {
        ([b, t, all], Ok(heads)) if heads > 0 && all.is_multiple_of(3 * heads) => {
            [*b, heads, *t, all / 3 / heads]
        }
        (dims, _) => {
            let (name, number) = (call.parameter(0), call.parameter(2));
            return Err(Error::invalid(format!(
                "{name} {dims:?} with {number} = {heads}: expected sizes [b, t, 3 heads n]"
            )));
        }
    };
    let [_, heads, _, features] = sizes;
    call.expect_dims(1, &bias, &[3 * heads * features])?;
    let mut outs = [qkv; 3];
    for (at, out) in outs.iter_mut().enumerate() {
        *out = call.output(3 + at)?;
        call.expect_dims(3 + at, out, &sizes)?;
        call.expect_same(3 + at, out, 0, &qkv)?;
    }
    let is_apart = |one| {
        outs.iter().all(|out| !call.has_partial_overlap(one, out) && out.address != one.address)
    };
    if !is_apart(&qkv) || !is_apart(&bias) {
        return Err(Error::invalid("an input shares memory with an output"));
    }
    call.plan(move |memory| {
        for (which, out) in outs.iter().enumerate() {
            let scale = if which == 0 { 1.0 / (features as f32).sqrt() } else { 1.0 };
            let part = |layout: &Layout, [b, h, t, n]: [isize; 4]| {
                let offset = layout.offset + (which * heads * features) as isize * n;
                Layout::strided(layout.dtype, &sizes, &[b, h * features as isize, t, n], offset)
            };
            let (qkv_strides, bias_stride) = (qkv.strides(), bias.strides()[0]);
            let x = memory.view_with_layout(
                &qkv,
                part(&qkv, [qkv_strides[0], qkv_strides[2], qkv_strides[1], qkv_strides[2]]),
            );
            let b = memory.view_with_layout(&bias, part(&bias, [0, bias_stride, 0, bias_stride]));
            map2(memory.parallel, memory.out(out), x, b, move |x: f32, b: f32| (x + b) * scale);
        }
        Ok(())
    })
}

/// The rows of this family.
pub const ROWS: &[Row] =
    &[aclnn("ChunkCat", chunk_cat), aclnn("TransformBiasRescaleQkv", transform_bias_rescale_qkv)];
