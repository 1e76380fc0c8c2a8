//! Pooling by the greatest element of each window, with its index, and the gradient.
//!
//! Workspace: for a mask the indices it is made of, four bytes for each output; for gradients of half types sums in `f32`.

use super::inputs::out_of_range;
use super::reshaped::ReshapedInput;
use super::window::{
    PoolOptions, as_5d, channels_last, numbers, numbers_or, spatial_sizes, with_spatial_sizes,
};
use crate::call::Call;
use crate::error::{Error, Fault, Result};
use crate::infer::Infer;
use crate::plan::{Operand, Plan, Scratch};
use crate::table::ArgSource::{A, Attr, B, I, No, O};
use crate::table::{ArgSource, AttrDefault, Node, Row, aclnn, node};
use cairn_tensor::kernels::copy::copy;
use cairn_tensor::kernels::indexed::IndexedView;
use cairn_tensor::kernels::map::fill_scalar;
use cairn_tensor::kernels::pool::{Plane, Windows, max_pool, read_mask, write_mask};
use cairn_tensor::kernels::scatter::{ScatterMode, scatter};
use cairn_tensor::{DType, Layout, Scalar};

/// The types that pooling takes.
const REALS: &[DType] = &[DType::Float, DType::Float16, DType::Bf16, DType::Double];

/// The plan of pooling once windows are known. `index` is the output of indices, if there is one.
pub fn plan_pool(
    call: &mut Call<'_>,
    (x_at, out_at): (usize, usize),
    index: Option<(usize, Operand)>,
    spatial: usize,
    last: bool,
    windows: [Windows; 3],
    outputs: &[usize],
) -> Result<Plan> {
    let out = call.output(out_at)?;
    let x = call.read(x_at, &[&out, &index.map_or(out, |(_, index)| index)])?;
    let dims = with_spatial_sizes(x.dims(), outputs, last);
    call.expect_dims(out_at, &out, &dims)?;
    call.expect_same(out_at, &out, x_at, &x)?;
    if let Some((at, index)) = &index {
        call.expect_dims(*at, index, &dims)?;
        call.expect_index_output(*at, index)?;
        let positions = spatial_sizes(x.dims(), spatial, last)
            .iter()
            .try_fold(1usize, |n, d| n.checked_mul(*d));
        if index.dtype == DType::Int32
            && positions.is_none_or(|positions| positions > i32::MAX as usize)
        {
            let (name, dims) = (call.parameter(x_at), x.dims());
            return Err(Error::invalid(format!(
                "{name} {dims:?} has more positions than {} of type int32 can name",
                call.parameter(*at)
            )));
        }
    }
    let x = x.with_layout(as_5d(call, x_at, &x, spatial, last)?);
    let out = out.with_layout(as_5d(call, out_at, &out, spatial, last)?);
    let index = match index {
        Some((at, index)) => Some(index.with_layout(as_5d(call, at, &index, spatial, last)?)),
        None => None,
    };
    call.plan(move |memory| {
        let index = index.map(|index| memory.out(&index));
        max_pool(memory.parallel, memory.out(&out), index, x.view(memory), windows);
        Ok(())
    })
}

/// Pooling with indices. Arguments: x, kernel, stride, padding, dilation, ceil mode, out, indices, spatial dimensions, channels
/// last.
fn with_indices(call: &mut Call<'_>) -> Result<Plan> {
    let spatial = call.int(8)? as usize;
    let last = call.flag_or(9, false)?;
    let x = call.layout(0)?;
    call.expect_dtype(0, &x, REALS)?;
    as_5d(call, 0, &x, spatial, last)?;
    let options = options(call, 1, spatial)?;
    let outputs = options.outputs(call, 0, spatial_sizes(x.dims(), spatial, last))?;
    let index = call.output(7)?;
    plan_pool(call, (0, 6), Some((7, index)), spatial, last, options.windows(), &outputs)
}

/// Windows of PyTorch's arguments: kernel, stride, padding, dilation, ceil mode.
fn options(call: &Call<'_>, at: usize, spatial: usize) -> Result<PoolOptions> {
    let mut options = PoolOptions::read(call, at, spatial)?;
    options.dilation = numbers_or(call, at + 3, spatial, 1, &vec![1; spatial])?;
    options.ceil = call.flag_or(at + 4, false)?;
    Ok(options)
}

/// The windows of a pooling whose indices are a mask, and the sizes of the outputs and of the mask.
fn mask_windows(call: &Call<'_>, at: usize, x: &Layout) -> Result<(Plane, Vec<usize>, [usize; 2])> {
    let options = options(call, at, 2)?;
    if options.dilation != [1, 1] {
        let (name, dilation) = (call.parameter(at + 3), &options.dilation);
        return Err(Error::invalid(format!("{name} = {dilation:?}: a mask takes 1 only")));
    }
    let input = spatial_sizes(x.dims(), 2, false);
    if input.iter().try_fold(1usize, |n, d| n.checked_mul(*d)).is_none_or(|n| n > i32::MAX as usize)
    {
        let (name, dims) = (call.parameter(0), x.dims());
        return Err(Error::invalid(format!(
            "{name} {dims:?} has more positions than a mask can name"
        )));
    }
    let outputs = options.outputs(call, 0, input)?;
    let pair = |list: &[usize]| [list[0], list[1]];
    let plane = Plane {
        input: pair(input),
        kernel: pair(&options.kernel),
        stride: pair(&options.stride),
        before: pair(&options.before),
    };
    let count = outputs[0].saturating_mul(outputs[1]);
    let rows = options.kernel[0].saturating_mul(options.kernel[1]);
    Ok((plane, outputs, [rows, (count.div_ceil(16) + 1).saturating_mul(32)]))
}

/// As [`with_indices`] in two dimensions, where indices are a mask.
fn with_mask(call: &mut Call<'_>) -> Result<Plan> {
    let layout = call.layout(0)?;
    call.expect_dtype(0, &layout, REALS)?;
    as_5d(call, 0, &layout, 2, false)?;
    let (plane, outputs, mask_dims) = mask_windows(call, 1, &layout)?;
    let windows = options(call, 1, 2)?.windows();
    let (out, mask) = (call.output(6)?, call.output(7)?);
    let x = call.read(0, &[&out, &mask])?;
    let dims = with_spatial_sizes(x.dims(), &outputs, false);
    call.expect_dims(6, &out, &dims)?;
    call.expect_same(6, &out, 0, &x)?;
    call.expect_dims(7, &mask, &with_spatial_sizes(x.dims(), &mask_dims, false))?;
    call.expect_dtype(7, &mask, &[DType::Int8, DType::Uint8])?;
    let index = call.scratch(DType::Int32, &dims);
    let x = x.with_layout(as_5d(call, 0, &x, 2, false)?);
    let out = out.with_layout(as_5d(call, 6, &out, 2, false)?);
    let mask = mask.with_layout(as_5d(call, 7, &mask, 2, false)?.without(2));
    let index_layout = as_5d(call, 6, &index, 2, false)?;
    call.plan(move |memory| {
        let indices = memory.scratch(&index).with_layout(index_layout).expect("the same elements");
        max_pool(memory.parallel, memory.out(&out), Some(indices), x.view(memory), windows);
        let flat = indices.view().with_layout(index_layout.without(2)).expect("the same elements");
        write_mask(memory.parallel, memory.out(&mask), flat, plane);
        Ok(())
    })
}

/// Where gradients go: indices that the forward pass saved, or its mask, which is read into indices in the workspace.
enum SavedIndices {
    Index(ReshapedInput, Operand),
    Mask(Operand, Scratch, Plane),
}

/// The gradient. Arguments: dy, x, indices, kernel, stride, padding, dilation, ceil mode, dx, spatial dimensions, indices
/// are a mask, channels last.
fn backward(call: &mut Call<'_>) -> Result<Plan> {
    let x = call.layout(1)?;
    let (spatial, is_mask) = (call.int(9)? as usize, call.flag_or(10, false)?);
    let last = call.flag_or(11, false)?;
    as_5d(call, 1, &x, spatial, last)?;
    let input = spatial_sizes(x.dims(), spatial, last);
    let outputs = match is_mask {
        true => mask_windows(call, 3, &x)?.1,
        false => options(call, 3, spatial)?.outputs(call, 1, input)?,
    };
    plan_gradient(call, spatial, last, &outputs, is_mask)
}

/// The gradient of adaptive pooling. Arguments: dy, x, indices, then as [`backward`] has them.
fn adaptive_backward(call: &mut Call<'_>) -> Result<Plan> {
    let (dy, x) = (call.layout(0)?, call.layout(1)?);
    let spatial = call.int(9)? as usize;
    as_5d(call, 1, &x, spatial, false)?;
    as_5d(call, 0, &dy, spatial, false)?;
    let outputs = spatial_sizes(dy.dims(), spatial, false).to_vec();
    plan_gradient(call, spatial, false, &outputs, false)
}

/// The plan of the gradient once the sizes of the pooled tensor are known. Arguments as of [`backward`].
fn plan_gradient(
    call: &mut Call<'_>,
    spatial: usize,
    last: bool,
    outputs: &[usize],
    is_mask: bool,
) -> Result<Plan> {
    let (x, dx) = (call.layout(1)?, call.output(8)?);
    call.expect_dtype(1, &x, REALS)?;
    call.expect_dims(8, &dx, x.dims())?;
    call.expect_same(8, &dx, 1, &x)?;
    let (dy, saved) = (call.tensor(0)?, call.tensor(2)?);
    let dims = with_spatial_sizes(x.dims(), outputs, last);
    call.expect_dims(0, &dy, &dims)?;
    call.expect_same(0, &dy, 1, &x)?;
    let layout_5d = as_5d(call, 8, &dx, spatial, last)?;
    let planes = layout_5d.dims()[0] * layout_5d.dims()[1];
    let length = layout_5d.dims()[2..].iter().product::<usize>();
    let count = outputs.iter().product::<usize>();
    let dy = dy.with_layout(as_5d(call, 0, &dy, spatial, last)?);
    let dy = call.reshaped_input(dy, &[planes, count], &[&dx]);
    let saved = match is_mask {
        true => {
            let (plane, _, sizes) = mask_windows(call, 3, &x)?;
            call.expect_dims(2, &saved, &with_spatial_sizes(x.dims(), &sizes, false))?;
            call.expect_dtype(2, &saved, &[DType::Int8, DType::Uint8])?;
            let mask = saved.with_layout(as_5d(call, 2, &saved, 2, false)?.without(2));
            let sizes = [layout_5d.dims()[0], layout_5d.dims()[1], outputs[0], outputs[1]];
            SavedIndices::Mask(mask, call.scratch(DType::Int32, &sizes), plane)
        }
        false => {
            call.expect_dims(2, &saved, &dims)?;
            call.expect_dtype(2, &saved, &[DType::Int32, DType::Int64])?;
            let index = saved.with_layout(as_5d(call, 2, &saved, spatial, last)?);
            SavedIndices::Index(call.reshaped_input(index, &[planes, count], &[&dx]), saved)
        }
    };
    let name = call.parameter(2);
    let is_half = matches!(dx.dtype, DType::Float16 | DType::Bf16);
    let dtype = if is_half { DType::Float } else { dx.dtype };
    let flat = layout_5d.reshaped(&[planes, length]).filter(|_| !is_half);
    let buffer = flat.is_none().then(|| call.scratch(dtype, layout_5d.dims()));
    let dx = dx.with_layout(layout_5d);
    call.plan(move |memory| {
        let dy = dy.view(memory);
        let (index, original_index) = match &saved {
            SavedIndices::Index(index, operand) => (index.view(memory), memory.view(operand)),
            SavedIndices::Mask(mask, index, plane) => {
                let index = memory.scratch(index);
                if !read_mask(memory.parallel, index, memory.view(mask), *plane) {
                    return Err(Fault(format!("{name} has no mask of these windows")));
                }
                let layout = index.reshaped(&[planes, count]).expect("contiguous");
                let index = index.view().with_layout(layout).expect("the same elements");
                (index, index)
            }
        };
        let out = buffer.map_or_else(|| memory.out(&dx), |buffer| memory.scratch(&buffer));
        let layout =
            flat.map_or(Layout::contiguous(dtype, &[planes, length]), |flat| flat.from_offset(0));
        let sums = out.with_layout(layout).expect("the same elements");
        fill_scalar(memory.parallel, sums, Scalar::from(0));
        let targets = IndexedView::along(sums.view(), 1, index, false);
        let result = scatter(memory.parallel, sums, &targets, dy, ScatterMode::Add, original_index);
        if buffer.is_some() {
            copy(memory.parallel, memory.out(&dx), out.view());
        }
        result.map_err(|bad| out_of_range(name, bad))
    })
}

/// Adaptive pooling. Arguments: x, output sizes, out, indices, spatial dimensions.
fn adaptive(call: &mut Call<'_>) -> Result<Plan> {
    let spatial = call.int(4)? as usize;
    let x = call.layout(0)?;
    call.expect_dtype(0, &x, REALS)?;
    let layout_5d = as_5d(call, 0, &x, spatial, false)?;
    let outputs = numbers(call, 1, spatial, 1)?;
    if layout_5d.dims()[1..].contains(&0) {
        let (name, dims) = (call.parameter(0), x.dims());
        return Err(Error::invalid(format!("{name} {dims:?} has no positions to pool")));
    }
    let mut windows = [Windows::Parts(1); 3];
    for (i, output) in outputs.iter().enumerate() {
        windows[3 - spatial + i] = Windows::Parts(*output);
    }
    let index = call.output(3)?;
    plan_pool(call, (0, 2), Some((3, index)), spatial, false, windows, &outputs)
}

/// The rows of this family.
pub const ROWS: &[Row] = &[
    aclnn("MaxPool2dWithIndices", with_indices).with_args(&[
        A(0),
        A(1),
        A(2),
        A(3),
        A(4),
        A(5),
        A(6),
        A(7),
        I(2),
    ]),
    aclnn("MaxPool3dWithArgmax", with_indices).with_args(&[
        A(0),
        A(1),
        A(2),
        A(3),
        A(4),
        A(5),
        A(6),
        A(7),
        I(3),
    ]),
    aclnn("MaxPool2dWithMask", with_mask),
    aclnn("MaxPool2dWithIndicesBackward", backward).with_args(&[
        A(0),
        A(1),
        A(2),
        A(3),
        A(4),
        A(5),
        A(6),
        A(7),
        A(8),
        I(2),
    ]),
    aclnn("MaxPool2dWithMaskBackward", backward).with_args(&[
        A(0),
        A(1),
        A(2),
        A(3),
        A(4),
        A(5),
        A(6),
        A(7),
        A(8),
        I(2),
        B(true),
    ]),
    aclnn("MaxPool3dWithArgmaxBackward", backward).with_args(&[
        A(0),
        A(1),
        A(2),
        A(3),
        A(4),
        A(5),
        A(6),
        A(7),
        A(8),
        I(3),
    ]),
    aclnn("AdaptiveMaxPool2d", adaptive).with_args(&[A(0), A(1), A(2), A(3), I(2)]),
    aclnn("AdaptiveMaxPool3d", adaptive).with_args(&[A(0), A(1), A(2), A(3), I(3)]),
    aclnn("AdaptiveMaxPool2dBackward", adaptive_backward).with_args(&[
        A(0),
        A(1),
        A(2),
        No,
        No,
        No,
        No,
        No,
        A(3),
        I(2),
    ]),
    aclnn("AdaptiveMaxPool3dBackward", adaptive_backward).with_args(&[
        A(0),
        A(1),
        A(2),
        No,
        No,
        No,
        No,
        No,
        A(3),
        I(3),
    ]),
];

/// The numbers for rows and columns: the middle two of a list with four, or a list with one or two.
fn rows_and_columns(call: &Call<'_>, at: usize, least: i64) -> Result<Vec<usize>> {
    let values = call.ints(at)?;
    let [_, rows, columns, _] = values[..] else {
        return numbers(call, at, 2, least);
    };
    if [rows, columns].iter().any(|one| !(least..=i64::from(i32::MAX)).contains(one)) {
        let name = call.parameter(at);
        return Err(Error::invalid(format!("{name} = {values:?} has a number out of range")));
    }
    Ok(vec![rows as usize, columns as usize])
}

/// The windows of the nodes with indices. Arguments from `at` on: ksize, strides, pads, dilation, ceil mode.
fn node_windows(call: &Call<'_>, at: usize, spatial: usize) -> Result<PoolOptions> {
    let read = |at: usize, least: i64| match spatial {
        2 => rows_and_columns(call, at, least),
        _ => numbers(call, at, spatial, least),
    };
    let (kernel, stride, pads) = (read(at, 1)?, read(at + 1, 1)?, read(at + 2, 0)?);
    if pads.iter().zip(&kernel).any(|(pad, kernel)| *pad > kernel / 2) {
        let (name, kernel_name) = (call.parameter(at + 2), call.parameter(at));
        return Err(Error::invalid(format!(
            "{name} = {pads:?} is more than half of {kernel_name} = {kernel:?}"
        )));
    }
    let (dilation, ceil) = (read(at + 3, 1)?, call.flag_or(at + 4, false)?);
    Ok(PoolOptions { kernel, stride, before: pads.clone(), after: pads, dilation, ceil })
}

/// Arguments: x, ksize, strides, pads, dilation, ceil mode, y, argmax, spatial dimensions, data format, type of indices.
fn node_pool(call: &mut Call<'_>) -> Result<Plan> {
    let spatial = call.int(8)? as usize;
    let last = call.has(9) && channels_last(call, 9, spatial)?;
    let x = call.layout(0)?;
    call.expect_dtype(0, &x, REALS)?;
    as_5d(call, 0, &x, spatial, last)?;
    let options = node_windows(call, 1, spatial)?;
    let outputs = options.outputs(call, 0, spatial_sizes(x.dims(), spatial, last))?;
    let index = call.output(7)?;
    plan_pool(call, (0, 6), Some((7, index)), spatial, last, options.windows(), &outputs)
}

fn node_pool_outputs(call: &Call<'_>) -> Result<Vec<Layout>> {
    let spatial = call.int(8)? as usize;
    let last = call.has(9) && channels_last(call, 9, spatial)?;
    let x = call.layout(0)?;
    as_5d(call, 0, &x, spatial, last)?;
    let options = node_windows(call, 1, spatial)?;
    let outputs = options.outputs(call, 0, spatial_sizes(x.dims(), spatial, last))?;
    let y = Layout::contiguous(x.dtype, &with_spatial_sizes(x.dims(), &outputs, last));
    Ok(vec![y, y.with_dtype(call.dtype(10)?)])
}

/// Arguments: grad, x, argmax, ksize, strides, pads, dilation, ceil mode, y, spatial dimensions, nothing, data format.
fn node_backward(call: &mut Call<'_>) -> Result<Plan> {
    let spatial = call.int(9)? as usize;
    let last = call.has(11) && channels_last(call, 11, spatial)?;
    let x = call.layout(1)?;
    as_5d(call, 1, &x, spatial, last)?;
    let options = node_windows(call, 3, spatial)?;
    let outputs = options.outputs(call, 1, spatial_sizes(x.dims(), spatial, last))?;
    plan_gradient(call, spatial, last, &outputs, false)
}

/// Arguments: x, output sizes, .., .., spatial dimensions, type of indices.
fn adaptive_outputs(call: &Call<'_>) -> Result<Vec<Layout>> {
    let (x, spatial) = (call.layout(0)?, call.int(4)? as usize);
    as_5d(call, 0, &x, spatial, false)?;
    let outputs = numbers(call, 1, spatial, 1)?;
    let y = Layout::contiguous(x.dtype, &with_spatial_sizes(x.dims(), &outputs, false));
    Ok(vec![y, y.with_dtype(call.dtype(5)?)])
}

const KSIZE: ArgSource = Attr("ksize", AttrDefault::Required);
const STRIDES: ArgSource = Attr("strides", AttrDefault::Required);
const PADS: ArgSource = Attr("pads", AttrDefault::Required);
const CEIL: ArgSource = Attr("ceil_mode", AttrDefault::Flag(false));
const INDEX_DTYPE: ArgSource = Attr("dtype", AttrDefault::Int(3));
const FORMAT: ArgSource = Attr("data_format", AttrDefault::Text("NCHW"));
const FORMAT_3D: ArgSource = Attr("data_format", AttrDefault::Text("NCDHW"));
const DILATION: ArgSource = Attr("dilation", AttrDefault::Ints(&[1]));

/// The operators of this family by IR name.
pub const NODES: &[Node] = &[
    node(
        "MaxPoolWithArgmaxV1",
        &["x"],
        &["y", "argmax"],
        Infer::By(node_pool_outputs),
        node_pool,
        &[A(0), KSIZE, STRIDES, PADS, DILATION, CEIL, O(0), O(1), I(2), No, INDEX_DTYPE],
    ),
    node(
        "MaxPoolWithArgmaxV3",
        &["x"],
        &["y", "argmax"],
        Infer::By(node_pool_outputs),
        node_pool,
        &[A(0), KSIZE, STRIDES, PADS, DILATION, CEIL, O(0), O(1), I(2), FORMAT, INDEX_DTYPE],
    ),
    node(
        "MaxPool3DWithArgmaxV2",
        &["x"],
        &["y", "argmax"],
        Infer::By(node_pool_outputs),
        node_pool,
        &[A(0), KSIZE, STRIDES, PADS, DILATION, CEIL, O(0), O(1), I(3), FORMAT_3D, INDEX_DTYPE],
    ),
    node(
        "MaxPoolGradWithArgmaxV1",
        &["x", "grad", "argmax"],
        &["y"],
        Infer::Like(1),
        node_backward,
        &[A(1), A(0), A(2), KSIZE, STRIDES, PADS, DILATION, CEIL, O(0), I(2), No, No, INDEX_DTYPE],
    ),
    node(
        "MaxPoolGradWithArgmaxV3",
        &["x", "grad", "argmax"],
        &["y"],
        Infer::Like(1),
        node_backward,
        &[
            A(1),
            A(0),
            A(2),
            KSIZE,
            STRIDES,
            PADS,
            DILATION,
            CEIL,
            O(0),
            I(2),
            No,
            FORMAT,
            INDEX_DTYPE,
        ],
    ),
    node(
        "MaxPool3DGradWithArgmax",
        &["x", "grad", "argmax"],
        &["y"],
        Infer::Like(1),
        node_backward,
        &[A(1), A(0), A(2), KSIZE, STRIDES, PADS, DILATION, CEIL, O(0), I(3), No, FORMAT_3D],
    ),
    node(
        "AdaptiveMaxPool2d",
        &["x"],
        &["y", "argmax"],
        Infer::By(adaptive_outputs),
        adaptive,
        &[A(0), Attr("output_size", AttrDefault::Required), O(0), O(1), I(2), I(3)],
    ),
    node(
        "AdaptiveMaxPool3d",
        &["x"],
        &["y", "indices"],
        Infer::By(adaptive_outputs),
        adaptive,
        &[
            A(0),
            Attr("output_size", AttrDefault::Required),
            O(0),
            O(1),
            I(3),
            Attr("indices_dtype", AttrDefault::Int(3)),
        ],
    ),
];
