//! Pooling by the greatest element of each window, without indices.

use super::max_pool::plan_pool;
use super::window::{
    PoolOptions, as_5d, channels_last, numbers, numbers_by_format, numbers_or, spatial_sizes,
    with_spatial_sizes,
};
use crate::call::Call;
use crate::error::{Error, Result};
use crate::infer::Infer;
use crate::plan::Plan;
use crate::table::ArgSource::{A, Attr, I, No, O};
use crate::table::{ArgSource, AttrDefault, Node, Row, aclnn, node};
use cairn_tensor::kernels::pool::{Windows, max_pool};
use cairn_tensor::{DType, Layout};

/// The types of pooling without indices.
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

/// Pooling of aclnnMaxPool. Arguments: x, kernel, strides, automatic padding, pads, dilations, ceil mode, out.
fn max_pool_plain(call: &mut Call<'_>) -> Result<Plan> {
    let x = call.layout(0)?;
    call.expect_dtype(0, &x, NUMBERS)?;
    as_5d(call, 0, &x, 2, false)?;
    let input = spatial_sizes(x.dims(), 2, false);
    let kernel = numbers(call, 1, 2, 1)?;
    let stride = numbers_or(call, 2, 2, 1, &[1, 1])?;
    let dilation = if call.has(5) { call.ints(5)? } else { Vec::new() };
    if dilation.iter().any(|one| *one != 1) {
        let name = call.parameter(5);
        return Err(Error::invalid(format!("{name} = {dilation:?}: only 1 is supported")));
    }
    let zeros = vec![0; 2];
    let mut options = PoolOptions {
        kernel,
        stride,
        before: zeros.clone(),
        after: zeros,
        dilation: vec![1; 2],
        ceil: call.int(6)? != 0,
    };
    if call.int(3)? != 0 {
        let (name, value) = (call.parameter(3), call.int(3)?);
        return Err(Error::invalid(format!("{name} = {value}: only 0 is supported")));
    }
    let pads = if call.has(4) { call.ints(4)? } else { Vec::new() };
    let name = call.parameter(4);
    let wrong = |why: &str| Err(Error::invalid(format!("{name} = {pads:?} {why}")));
    if pads.iter().any(|one| *one < 0 || *one > i64::from(i32::MAX)) {
        return wrong("has a number out of range");
    }
    let pad: Vec<usize> = pads.iter().map(|one| *one as usize).collect();
    (options.before, options.after) = match pad[..] {
        [] => (vec![0; 2], vec![0; 2]),
        [one] => (vec![one; 2], vec![one; 2]),
        [rows, columns] => (vec![rows, columns], vec![rows, columns]),
        [top, left, bottom, right] => (vec![top, left], vec![bottom, right]),
        _ => return wrong("has no 0, 1, 2 or 4 numbers"),
    };
    let fits = |i: usize| options.before[i] + options.after[i] <= options.kernel[i];
    if !(0..2).all(fits) {
        return wrong("is more than the windows");
    }
    let outputs = options.outputs(call, 0, input)?;
    plan_pool(call, (0, 7), None, 2, false, options.windows(), &outputs)
}

/// Pooling by attributes. Arguments: x, ksize, strides, padding mode, pads (pairs), dilation, ceil mode, data format,
/// global, out, spatial dimensions.
fn max_pool_v3(call: &mut Call<'_>) -> Result<Plan> {
    let (spatial, last, options) = attributes(call)?;
    let x = call.layout(0)?;
    call.expect_dtype(0, &x, NUMBERS)?;
    let outputs = options.outputs(call, 0, spatial_sizes(x.dims(), spatial, last))?;
    plan_pool(call, (0, 9), None, spatial, last, options.windows(), &outputs)
}

/// The spatial dimensions, whether channels are last, and the windows. Arguments as of [`max_pool_v3`].
fn attributes(call: &Call<'_>) -> Result<(usize, bool, PoolOptions)> {
    let spatial = call.int(10)? as usize;
    let last = if call.has(7) { channels_last(call, 7, spatial)? } else { spatial == 3 };
    let x = call.layout(0)?;
    as_5d(call, 0, &x, spatial, last)?;
    let input = spatial_sizes(x.dims(), spatial, last);
    let kernel = numbers_by_format(call, 1, spatial, 1, last)?;
    let stride = numbers_by_format(call, 2, spatial, 1, last)?;
    let dilation = match call.has(5) {
        true => numbers_by_format(call, 5, spatial, 1, last)?,
        false => vec![1; spatial],
    };
    let zeros = vec![0; spatial];
    let ceil = call.has(6) && call.scalar(6)?.as_bool();
    let options =
        PoolOptions { kernel, stride, before: zeros.clone(), after: zeros, dilation, ceil };
    let options = match call.flag_or(8, false)? {
        true => options.global(input),
        false => options.padded(call, 3, 4, input)?,
    };
    Ok((spatial, last, options))
}

fn max_pool_v3_output(call: &Call<'_>) -> Result<Vec<Layout>> {
    let (spatial, last, options) = attributes(call)?;
    let x = call.layout(0)?;
    let outputs = options.outputs(call, 0, spatial_sizes(x.dims(), spatial, last))?;
    Ok(vec![Layout::contiguous(x.dtype, &with_spatial_sizes(x.dims(), &outputs, last))])
}

/// The greatest element of each channel. Arguments: x, out.
fn global(call: &mut Call<'_>) -> Result<Plan> {
    let (x, out) = (call.tensor(0)?, call.output(1)?);
    call.expect_dtype(0, &x, NUMBERS)?;
    let dims = global_dims(call, &x)?;
    call.expect_dims(1, &out, &dims)?;
    call.expect_same(1, &out, 0, &x)?;
    let (planes, length) = (x.dims()[0] * x.dims()[1], x.dims()[2..].iter().product::<usize>());
    if length == 0 {
        let (name, dims) = (call.parameter(0), x.dims());
        return Err(Error::invalid(format!("{name} {dims:?} has no positions to pool")));
    }
    let x = call.reshaped_input(x, &[planes, 1, 1, 1, length], &[&out]);
    let out = call.reshaped_output(out, &[planes, 1, 1, 1, 1]);
    let one = Windows::Parts(1);
    call.plan(move |memory| {
        max_pool(memory.parallel, out.out(memory), None, x.view(memory), [one; 3]);
        out.write_back(memory);
        Ok(())
    })
}

/// The sizes of a tensor with one position for each channel.
pub fn global_dims(call: &Call<'_>, x: &Layout) -> Result<cairn_tensor::Dims> {
    if x.rank() < 4 {
        let (name, dims) = (call.parameter(0), x.dims());
        return Err(Error::invalid(format!("{name} {dims:?}: expected at least 4 dimensions")));
    }
    Ok({ x.dims().iter().enumerate() }.map(|(at, size)| if at < 2 { *size } else { 1 }).collect())
}

/// The rows of this family.
pub const ROWS: &[Row] = &[
    aclnn("MaxPool", max_pool_plain),
    aclnn("MaxPoolV3", max_pool_v3).with_args(&[
        A(0),
        A(1),
        A(2),
        No,
        A(3),
        No,
        A(4),
        No,
        No,
        A(5),
        I(2),
    ]),
    aclnn("MaxPool3D", max_pool_v3).with_args(&[
        A(0),
        A(1),
        A(2),
        A(3),
        A(4),
        A(5),
        A(6),
        A(7),
        No,
        A(8),
        I(3),
    ]),
    aclnn("GlobalMaxPool", global),
];

const KSIZE: ArgSource = Attr("ksize", AttrDefault::Required);
const STRIDES: ArgSource = Attr("strides", AttrDefault::Required);

/// The operators of this family by IR name.
pub const NODES: &[Node] = &[
    node(
        "MaxPool",
        &["x"],
        &["y"],
        Infer::By(max_pool_v3_output),
        max_pool_v3,
        &[
            A(0),
            KSIZE,
            STRIDES,
            Attr("padding", AttrDefault::Required),
            No,
            No,
            No,
            Attr("data_format", AttrDefault::Text("NHWC")),
            No,
            O(0),
            I(2),
        ],
    ),
    node(
        "MaxPoolV3",
        &["x"],
        &["y"],
        Infer::By(max_pool_v3_output),
        max_pool_v3,
        &[
            A(0),
            KSIZE,
            STRIDES,
            Attr("padding_mode", AttrDefault::Text("CALCULATED")),
            Attr("pads", AttrDefault::Ints(&[0, 0, 0, 0])),
            No,
            Attr("ceil_mode", AttrDefault::Flag(false)),
            Attr("data_format", AttrDefault::Text("NCHW")),
            Attr("global_pooling", AttrDefault::Flag(false)),
            O(0),
            I(2),
        ],
    ),
    node(
        "MaxPool3D",
        &["x"],
        &["y"],
        Infer::By(max_pool_v3_output),
        max_pool_v3,
        &[
            A(0),
            KSIZE,
            STRIDES,
            Attr("padding", AttrDefault::Required),
            Attr("pads", AttrDefault::Ints(&[0, 0, 0, 0, 0, 0])),
            Attr("dilation", AttrDefault::Ints(&[1, 1, 1, 1, 1])),
            Attr("ceil_mode", AttrDefault::Int(0)),
            Attr("data_format", AttrDefault::Text("NDHWC")),
            No,
            O(0),
            I(3),
        ],
    ),
];
