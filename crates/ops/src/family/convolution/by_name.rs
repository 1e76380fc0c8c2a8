//! Convolutions by IR name.

use super::steps::{ConvolutionPlan, WeightGradientPlan, by_groups, weights_by_groups};
use super::window::{
    ConvolutionTensors, DataFormat, TYPES, Windows, axis_numbers_of_dims, groups, padding_pairs,
};
use crate::call::Call;
use crate::error::{Error, Result};
use crate::plan::Plan;
use cairn_tensor::{DType, Layout};

// Arguments of every function here: up to three inputs, bias, offset_w, strides, pads, dilations, groups, data_format,
// output_padding, offset_x, out, the number of axes, and, for depthwise ones, which argument is the filter or its sizes;
// for some, scale, offset and the mode of padding.
const BIAS: usize = 3;
const OFFSET_W: usize = 4;
const STRIDES: usize = 5;
const PADS: usize = 6;
const DILATIONS: usize = 7;
const GROUPS: usize = 8;
const DATA_FORMAT: usize = 9;
const OUTPUT_PADDING: usize = 10;
const OFFSET_X: usize = 11;
const OUT: usize = 12;
const AXES: usize = 13;
const DEPTHWISE: usize = 14;
const SCALE: usize = 15;
const OFFSET: usize = 16;
const PAD_MODE: usize = 17;

/// Windows and the order of dimensions.
fn windows(call: &Call<'_>) -> Result<(Windows, DataFormat)> {
    let axes = call.int(AXES)? as usize;
    let mut format = DataFormat::read(call, DATA_FORMAT, axes)?;
    format.depthwise = call.has(DEPTHWISE);
    let output_padding = match call.has(OUTPUT_PADDING) {
        true => axis_numbers_of_dims(call, OUTPUT_PADDING, axes, format, (0, 0))?,
        false => [0; 3],
    };
    let windows = Windows {
        axes,
        stride: axis_numbers_of_dims(call, STRIDES, axes, format, (1, 1))?,
        dilation: axis_numbers_of_dims(call, DILATIONS, axes, format, (1, 1))?,
        padding: padding_pairs(call, PADS, axes)?,
        output_padding,
        groups: match format.depthwise {
            true => channels_of_filter(call)?,
            false => groups(call, GROUPS)?,
        },
    };
    if call.has(OFFSET_W) || call.int_or(OFFSET_X, 0)? != 0 {
        let (one, other) = (call.parameter(OFFSET_W), call.parameter(OFFSET_X));
        return Err(Error::invalid(format!(
            "{one} and {other} are of quantized numbers, which are not supported"
        )));
    }
    if let Some(at) = [SCALE, OFFSET].into_iter().find(|at| call.has(*at)) {
        let name = call.parameter(at);
        return Err(Error::invalid(format!(
            "{name} is of quantized numbers, which are not supported"
        )));
    }
    if call.has(PAD_MODE) && call.text(PAD_MODE)? != "SPECIFIC" {
        let (name, mode) = (call.parameter(PAD_MODE), call.text(PAD_MODE)?);
        return Err(Error::invalid(format!("{name} = {mode:?}: only \"SPECIFIC\" is supported")));
    }
    Ok((windows, format))
}

/// The channels of a depthwise filter, each of which is a group.
fn channels_of_filter(call: &Call<'_>) -> Result<usize> {
    let at = call.int(DEPTHWISE)? as usize;
    let dims = match call.layout(at) {
        Ok(layout) if layout.rank() == 4 => layout.dims().to_vec(),
        Ok(layout) if !layout.dtype.is_integer() => {
            let (name, dims) = (call.parameter(at), layout.dims());
            return Err(Error::invalid(format!(
                "{name} has the sizes {dims:?}: expected rows, columns, channels and outputs of each"
            )));
        }
        _ => sizes_of_axes(call, at, 2)?,
    };
    match dims[2] {
        channels @ 1.. => Ok(channels),
        _ => {
            let name = call.parameter(at);
            Err(Error::invalid(format!("{name} {dims:?} has no channels")))
        }
    }
}

/// Sizes that an input or an attribute states: samples, channels and axes.
fn sizes_of_axes(call: &Call<'_>, at: usize, axes: usize) -> Result<Vec<usize>> {
    let dims = call.sizes(at)?;
    if dims.len() == axes + 2 {
        return Ok(dims);
    }
    let (name, rank) = (call.parameter(at), axes + 2);
    Err(Error::invalid(format!("{name} = {dims:?}: expected {rank} sizes")))
}

/// Arguments: x, filter.
pub fn convolution(call: &mut Call<'_>) -> Result<Plan> {
    let (windows, format) = windows(call)?;
    let out = call.output(OUT)?;
    let (x, w) = (call.read(0, &[&out])?, call.read(1, &[&out])?);
    let (x, w) = (x.with_layout(format.image(*x)), w.with_layout(format.weights(*w)));
    let small = out.with_layout(format.image(*out));
    let windows = windows.with_implied_groups(&x, &w);
    let tensors = ConvolutionTensors { large: (0, *x), weights: (1, *w), small: (OUT, *small) };
    windows.check(call, &tensors, false)?;
    let groups = windows.groups;
    let bias = bias(call, small.dims()[1], groups)?;
    let grouped = (
        x.with_layout(by_groups(*x, groups)),
        w.with_layout(weights_by_groups(*w, groups)),
        small.with_layout(by_groups(*small, groups)),
    );
    ConvolutionPlan::forward(call, &windows, grouped, bias).plan(call)
}

/// The bias, by groups.
fn bias(
    call: &mut Call<'_>,
    channels: usize,
    groups: usize,
) -> Result<Option<crate::family::inputs::UnaliasedInput>> {
    if !call.has(BIAS) {
        return Ok(None);
    }
    let out = call.output(OUT)?;
    let bias = call.read(BIAS, &[&out])?;
    call.expect_dtype(BIAS, &bias, TYPES)?;
    call.expect_dims(BIAS, &bias, &[channels])?;
    let layout = super::window::grouped(*bias, 0, groups);
    Ok(Some(bias.with_layout(layout)))
}

/// From the smaller side to the larger one: `x` and the filter at these indices.
fn transposed_convolution(call: &mut Call<'_>, small_at: usize, weights_at: usize) -> Result<Plan> {
    let (windows, format) = windows(call)?;
    let out = call.output(OUT)?;
    let (x, w) = (call.read(small_at, &[&out])?, call.read(weights_at, &[&out])?);
    let (x, w) = (x.with_layout(format.image(*x)), w.with_layout(format.weights(*w)));
    let large = out.with_layout(format.image(*out));
    call.expect_dims(OUT, &out, &large_sizes(call, &windows, format, small_at, weights_at)?)?;
    let tensors = ConvolutionTensors {
        large: (OUT, *large),
        weights: (weights_at, *w),
        small: (small_at, *x),
    };
    windows.check(call, &tensors, false)?;
    let groups = windows.groups;
    let bias = bias(call, large.dims()[1], groups)?;
    let grouped = (
        x.with_layout(by_groups(*x, groups)),
        w.with_layout(weights_by_groups(*w, groups)),
        large.with_layout(by_groups(*large, groups)),
    );
    ConvolutionPlan::transposed(call, &windows, grouped, bias).plan(call)
}

/// The sizes of the larger side: those that the first input states, or, where they are all 0, those that follow.
fn large_sizes(
    call: &Call<'_>,
    windows: &Windows,
    format: DataFormat,
    small_at: usize,
    weights_at: usize,
) -> Result<Vec<usize>> {
    let dims = sizes_of_axes(call, 0, windows.axes)?;
    if dims.iter().any(|size| *size != 0) {
        return Ok(dims);
    }
    let small = format.image(call.layout(small_at)?);
    let weights = format.weights(call.layout(weights_at)?);
    let dims = windows.other_sizes(call, (small_at, &small), (weights_at, &weights), true)?;
    Ok(format.ordered(dims))
}

/// Arguments: input_size, x, filter.
pub fn transposed(call: &mut Call<'_>) -> Result<Plan> {
    transposed_convolution(call, 1, 2)
}

/// The gradient of the input. Arguments: input_size, filter, out_backprop.
pub fn input_gradient(call: &mut Call<'_>) -> Result<Plan> {
    transposed_convolution(call, 2, 1)
}

/// The gradient of the filter. Arguments: x, filter_size, out_backprop.
pub fn filter_gradient(call: &mut Call<'_>) -> Result<Plan> {
    let (windows, format) = windows(call)?;
    let out = call.output(OUT)?;
    let (x, dy) = (call.read(0, &[&out])?, call.read(2, &[&out])?);
    let (x, dy) = (x.with_layout(format.image(*x)), dy.with_layout(format.image(*dy)));
    call.expect_dims(OUT, &out, &sizes_of_axes(call, 1, windows.axes)?)?;
    let w = out.with_layout(format.weights(*out));
    let tensors = ConvolutionTensors { large: (0, *x), weights: (OUT, *w), small: (2, *dy) };
    windows.check(call, &tensors, false)?;
    let groups = windows.groups;
    let grouped = (
        x.with_layout(by_groups(*x, groups)),
        dy.with_layout(by_groups(*dy, groups)),
        w.with_layout(weights_by_groups(*w, groups)),
    );
    let weight_gradient = WeightGradientPlan::new(call, &windows, grouped);
    call.plan(move |memory| {
        [&x, &dy].into_iter().for_each(|read| read.prepare(memory));
        weight_gradient.run(memory);
        Ok(())
    })
}

/// The output of [`convolution`].
pub fn convolution_output(call: &Call<'_>) -> Result<Vec<Layout>> {
    let (windows, format) = windows(call)?;
    let (x, w) = (format.image(call.layout(0)?), format.weights(call.layout(1)?));
    let windows = windows.with_implied_groups(&x, &w);
    let dims = windows.other_sizes(call, (0, &x), (1, &w), false)?;
    Ok(vec![Layout::contiguous(x.dtype, &format.ordered(dims))])
}

/// The output of [`transposed`].
pub fn transposed_output(call: &Call<'_>) -> Result<Vec<Layout>> {
    let (windows, format) = windows(call)?;
    let dims = large_sizes(call, &windows, format, 1, 2)?;
    Ok(vec![Layout::contiguous(call.layout(1)?.dtype, &dims)])
}

/// The output of [`input_gradient`].
pub fn infer_input_gradient(call: &Call<'_>) -> Result<Vec<Layout>> {
    let (windows, format) = windows(call)?;
    let dims = large_sizes(call, &windows, format, 2, 1)?;
    Ok(vec![Layout::contiguous(call.layout(1)?.dtype, &dims)])
}

/// The output of [`filter_gradient`], which is in `f32` whatever the inputs are.
pub fn infer_filter_gradient(call: &Call<'_>) -> Result<Vec<Layout>> {
    let axes = call.int(AXES)? as usize;
    Ok(vec![Layout::contiguous(DType::Float, &sizes_of_axes(call, 1, axes)?)])
}
