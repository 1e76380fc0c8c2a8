//! Pooling over one to three dimensions of positions as ONNX defines it: any padding, dilated windows, and indices of the
//! greatest elements in the whole tensor.

use super::avg_pool::plan_weighted_sums;
use super::window::{PoolOptions, as_5d, numbers, numbers_or, spatial_sizes, with_spatial_sizes};
use crate::call::Call;
use crate::error::{Error, Result};
use crate::infer::Infer;
use crate::plan::Plan;
use crate::table::ArgSource::{A, Attr, No, O};
use crate::table::{ArgSource, AttrDefault, Node, node};
use cairn_tensor::kernels::pool::{flatten_indices, max_pool};
use cairn_tensor::kernels::taps::{Divisor, Rule, Taps};
use cairn_tensor::{DType, Layout};
use smallvec::SmallVec;

/// The types that the greatest are taken of.
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

/// The number of dimensions of positions, and the windows. Arguments: x, then from 2 on: sizes of windows, strides, pads
/// (all in front, then all after), dilations, ceil mode, automatic padding.
fn windows(call: &Call<'_>) -> Result<(usize, PoolOptions)> {
    let x = call.layout(0)?;
    let spatial = x.rank().wrapping_sub(2);
    if !(1..=3).contains(&spatial) || x.dims()[2..].contains(&0) {
        let (name, dims) = (call.parameter(0), x.dims());
        return Err(Error::invalid(format!(
            "{name} {dims:?}: expected 3 to 5 dimensions, with positions to pool"
        )));
    }
    let (kernel, ones) = (numbers(call, 2, spatial, 1)?, vec![1; spatial]);
    let mut options = PoolOptions {
        kernel,
        stride: numbers_or(call, 3, spatial, 1, &ones)?,
        before: vec![0; spatial],
        after: vec![0; spatial],
        dilation: numbers_or(call, 5, spatial, 1, &ones)?,
        ceil: call.flag(6)?,
    };
    let (automatic, pads) = (call.text(7)?, call.ints(4)?);
    let is_lower = match automatic {
        "NOTSET" => {
            if pads.is_empty() {
                return Ok((spatial, options));
            }
            let both = pads.split_at_checked(spatial).filter(|_| pads.len() == 2 * spatial);
            let inside = |one: &i64| (0..=i64::from(i32::MAX)).contains(one);
            let Some((before, after)) = both.filter(|_| pads.iter().all(inside)) else {
                let (name, count) = (call.parameter(4), 2 * spatial);
                return Err(Error::invalid(format!(
                    "{name} = {pads:?}: expected {count} numbers of at least 0"
                )));
            };
            options.before = before.iter().map(|one| *one as usize).collect();
            options.after = after.iter().map(|one| *one as usize).collect();
            return Ok((spatial, options));
        }
        "VALID" => return Ok((spatial, options)),
        "SAME_UPPER" => false,
        "SAME_LOWER" => true,
        other => {
            let name = call.parameter(7);
            return Err(Error::invalid(format!(
                "{name} = {other:?}: expected NOTSET, VALID, SAME_UPPER or SAME_LOWER"
            )));
        }
    };
    for (at, size) in spatial_sizes(x.dims(), spatial, false).iter().enumerate() {
        let span = (options.kernel[at] - 1).saturating_mul(options.dilation[at]).saturating_add(1);
        let last = size.div_ceil(options.stride[at]).saturating_sub(1);
        let end = last.saturating_mul(options.stride[at]).saturating_add(span);
        let total = end.saturating_sub(*size);
        let less = total / 2;
        let before = if is_lower { total - less } else { less };
        (options.before[at], options.after[at]) = (before, total - before);
    }
    options.ceil = false;
    Ok((spatial, options))
}

/// Arguments: x, out, what [`windows`] reads, then indices (may be absent), whether they count columns first.
fn greatest(call: &mut Call<'_>) -> Result<Plan> {
    let (spatial, options) = windows(call)?;
    let out = call.output(1)?;
    let index = call.optional_output(8)?;
    let x = call.read(0, &[&out, &index.unwrap_or(out)])?;
    call.expect_dtype(0, &x, NUMBERS)?;
    let outputs = options.outputs(call, 0, spatial_sizes(x.dims(), spatial, false))?;
    let dims = with_spatial_sizes(x.dims(), &outputs, false);
    call.expect_dims(1, &out, &dims)?;
    call.expect_same(1, &out, 0, &x)?;
    let by_columns = match call.int(9)? {
        0 => false,
        1 => true,
        other => {
            let name = call.parameter(9);
            return Err(Error::invalid(format!("{name} = {other}: expected 0 or 1")));
        }
    };
    let index = match index {
        Some(index) => {
            call.expect_dims(8, &index, &dims)?;
            call.expect_dtype(8, &index, &[DType::Int64])?;
            Some(index.with_layout(as_5d(call, 8, &index, spatial, false)?))
        }
        None => None,
    };
    let x = x.with_layout(as_5d(call, 0, &x, spatial, false)?);
    let out = out.with_layout(as_5d(call, 1, &out, spatial, false)?);
    let windows = options.windows();
    call.plan(move |memory| {
        let index = index.map(|index| memory.out(&index));
        let x = x.view(memory);
        max_pool(memory.parallel, memory.out(&out), index, x, windows);
        if let Some(index) = index {
            let sizes = [x.dims()[2], x.dims()[3], x.dims()[4]];
            flatten_indices(memory.parallel, index, sizes, by_columns);
        }
        Ok(())
    })
}

fn greatest_outputs(call: &Call<'_>) -> Result<Vec<Layout>> {
    let values = average_output(call)?;
    let index = Layout::contiguous(DType::Int64, values[0].dims());
    Ok(vec![values[0], index])
}

/// Arguments: x, out, what [`windows`] reads, then whether the padding counts.
fn average(call: &mut Call<'_>) -> Result<Plan> {
    let (spatial, options) = windows(call)?;
    let (x, out) = (call.layout(0)?, call.layout(1)?);
    let input = spatial_sizes(x.dims(), spatial, false);
    let outputs = options.outputs(call, 0, input)?;
    call.expect_dims(1, &out, &with_spatial_sizes(x.dims(), &outputs, false))?;
    let divisor = if call.flag(8)? { Divisor::Padded } else { Divisor::Inside };
    let steps: SmallVec<[(usize, Taps); 3]> = (0..spatial)
        .map(|at| {
            let rule = Rule::Windows {
                kernel: options.kernel[at],
                stride: options.stride[at],
                before: options.before[at],
                after: options.after[at],
                dilation: options.dilation[at],
                divisor,
            };
            (5 - spatial + at, Taps { rule, input: input[at], output: outputs[at] })
        })
        .collect();
    plan_weighted_sums(call, (0, 1), spatial, false, &steps, false)
}

fn average_output(call: &Call<'_>) -> Result<Vec<Layout>> {
    let (spatial, options) = windows(call)?;
    let x = call.layout(0)?;
    let outputs = options.outputs(call, 0, spatial_sizes(x.dims(), spatial, false))?;
    Ok(vec![Layout::contiguous(x.dtype, &with_spatial_sizes(x.dims(), &outputs, false))])
}

const KSIZE: ArgSource = Attr("ksize", AttrDefault::Required);
const STRIDES: ArgSource = Attr("strides", AttrDefault::Ints(&[]));
const PADS: ArgSource = Attr("pads", AttrDefault::Ints(&[]));
const DILATIONS: ArgSource = Attr("dilations", AttrDefault::Ints(&[]));
const CEIL: ArgSource = Attr("ceil_mode", AttrDefault::Flag(false));
const AUTOMATIC: ArgSource = Attr("auto_pad", AttrDefault::Text("NOTSET"));

/// The operators of this family by IR name.
pub const NODES: &[Node] = &[
    node(
        "MaxPoolND",
        &["x"],
        &["y", "indices"],
        Infer::By(greatest_outputs),
        greatest,
        &[
            A(0),
            O(0),
            KSIZE,
            STRIDES,
            PADS,
            DILATIONS,
            CEIL,
            AUTOMATIC,
            O(1),
            Attr("storage_order", AttrDefault::Int(0)),
        ],
    ),
    node(
        "AvgPoolND",
        &["x"],
        &["y"],
        Infer::By(average_output),
        average,
        &[
            A(0),
            O(0),
            KSIZE,
            STRIDES,
            PADS,
            DILATIONS,
            CEIL,
            AUTOMATIC,
            Attr("count_include_pad", AttrDefault::Flag(false)),
            No,
        ],
    ),
];
