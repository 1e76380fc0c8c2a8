//! Convolutions at the aclnn door.

use super::steps::{
    BiasGradientPlan, ConvolutionPlan, WeightGradientPlan, by_groups, weights_by_groups,
};
use super::window::{ConvolutionTensors, TYPES, Windows, axis_numbers, groups, read_padding};
use crate::call::Call;
use crate::error::{Error, Result};
use crate::family::inputs::UnaliasedInput;
use crate::plan::{Operand, Plan};
use cairn_tensor::{DType, Layout, promote};

/// Checks `cubeMathType`, by which a caller allows less precision; kernels compute in `f32` anyway. 2 asks for f16, which
/// does not go with bf16.
fn expect_math(call: &Call<'_>, at: usize, inputs: &[&Layout]) -> Result<()> {
    let math = call.int_or(at, 0)?;
    let name = call.parameter(at);
    if !(0..=3).contains(&math) {
        return Err(Error::invalid(format!("{name} = {math} is outside 0 to 3")));
    }
    if math == 2 && inputs.iter().any(|one| one.dtype == DType::Bf16) {
        return Err(Error::invalid(format!("{name} = 2 (f16) does not go with elements of bf16")));
    }
    Ok(())
}

/// Fails unless two tensors promote to the type of the third.
fn expect_promoted(
    call: &Call<'_>,
    a: &Layout,
    b: &Layout,
    (at, out): (usize, &Layout),
) -> Result<()> {
    match promote(a.dtype, b.dtype) {
        Some(dtype) if dtype == out.dtype => Ok(()),
        dtype => {
            let (name, have) = (call.parameter(at), out.dtype);
            let dtype = dtype.map_or("one that both promote to", DType::name);
            Err(Error::invalid(format!("{name} has elements of type {have}: expected {dtype}")))
        }
    }
}

/// A bias, by groups: one number for each output channel.
fn bias(
    call: &mut Call<'_>,
    at: usize,
    (channels, groups): (usize, usize),
    out: &Operand,
) -> Result<Option<UnaliasedInput>> {
    if !call.has(at) {
        return Ok(None);
    }
    let read = call.read(at, &[out])?;
    call.expect_dtype(at, &read, TYPES)?;
    let by_groups = read.reshaped(&[groups, channels / groups.max(1)]);
    match by_groups.filter(|_| read.count() == channels && read.rank() >= 1) {
        Some(layout) => Ok(Some(read.with_layout(layout))),
        None => {
            let (name, dims) = (call.parameter(at), read.dims());
            Err(Error::invalid(format!("{name} {dims:?} is no row of {channels} numbers")))
        }
    }
}

/// A tensor with its dimensions in another order.
#[derive(Clone, Copy)]
struct Order(&'static [usize]);

impl Order {
    const SAME: Order = Order(&[]);

    /// The layout in this order; unchanged if it has another rank.
    fn apply(self, layout: &Layout) -> Layout {
        if self.0.is_empty() || layout.rank() != self.0.len() {
            *layout
        } else {
            layout.permuted(self.0)
        }
    }
}

/// Plans a convolution. Indices of input, weight, bias and output; how the dimensions of images and weights are ordered.
fn plan_convolution(
    call: &mut Call<'_>,
    windows: &Windows,
    transposed: bool,
    [input_at, weight_at, bias_at, out_at]: [usize; 4],
    (image_order, weight_order): (Order, Order),
) -> Result<Plan> {
    let out = call.output(out_at)?;
    let (x, w) = (call.read(input_at, &[&out])?, call.read(weight_at, &[&out])?);
    let (x, w) = (x.with_layout(image_order.apply(&x)), w.with_layout(weight_order.apply(&w)));
    let out = out.with_layout(image_order.apply(&out));
    expect_promoted(call, &x, &w, (out_at, &out))?;
    let weights = (weight_at, *w);
    let tensors = match transposed {
        true => ConvolutionTensors { large: (out_at, *out), weights, small: (input_at, *x) },
        false => ConvolutionTensors { large: (input_at, *x), weights, small: (out_at, *out) },
    };
    windows.check(call, &tensors, transposed)?;
    let groups = windows.groups;
    let bias = bias(call, bias_at, (out.dims()[1], groups), &out)?;
    let grouped = (
        x.with_layout(by_groups(*x, groups)),
        w.with_layout(weights_by_groups(*w, groups)),
        out.with_layout(by_groups(*out, groups)),
    );
    let convolution = match transposed {
        true => ConvolutionPlan::transposed(call, windows, grouped, bias),
        false => ConvolutionPlan::forward(call, windows, grouped, bias),
    };
    convolution.plan(call)
}

/// How many axes a tensor has besides samples and channels: 1 to 3.
fn axes(call: &Call<'_>, at: usize) -> Result<usize> {
    let layout = call.layout(at)?;
    match layout.rank() {
        rank @ 3..=5 => Ok(rank - 2),
        rank => {
            let (name, dims) = (call.parameter(at), layout.dims());
            Err(Error::invalid(format!("{name} {dims:?} has {rank} dimensions: expected 3 to 5")))
        }
    }
}

/// What the larger side has beyond the last window: less than a stride or a dilation.
fn read_output_padding(call: &Call<'_>, at: usize, windows: &mut Windows) -> Result<()> {
    windows.output_padding = axis_numbers(call, at, windows.axes, 0, 0)?;
    for axis in 0..3 {
        let limit = windows.stride[axis].max(windows.dilation[axis]);
        if windows.output_padding[axis] >= limit {
            let (name, have) = (call.parameter(at), windows.output_padding);
            let have = &have[3 - windows.axes..];
            return Err(Error::invalid(format!(
                "{name} = {have:?}: expected less than the stride or the dilation, {limit}"
            )));
        }
    }
    Ok(())
}

/// Windows from the arguments stride, padding, dilation, transposed, output padding and groups, at these indices.
fn windows(
    call: &Call<'_>,
    axes: usize,
    [stride, padding, dilation, transposed, output_padding, groups_at]: [usize; 6],
) -> Result<(Windows, bool)> {
    let transposed = call.flag(transposed)?;
    let pairs = axes == 2 || (axes == 1 && !transposed);
    let mut windows = Windows {
        axes,
        stride: axis_numbers(call, stride, axes, 1, 1)?,
        dilation: axis_numbers(call, dilation, axes, 1, 1)?,
        padding: read_padding(call, padding, axes, pairs)?,
        output_padding: [0; 3],
        groups: groups(call, groups_at)?,
    };
    if transposed {
        read_output_padding(call, output_padding, &mut windows)?;
    }
    Ok((windows, transposed))
}

/// Arguments: input, weight, bias, stride, padding, dilation, transposed, output padding, groups, output, math.
pub fn convolution(call: &mut Call<'_>) -> Result<Plan> {
    let axes = axes(call, 0)?;
    let (windows, transposed) = windows(call, axes, [3, 4, 5, 6, 7, 8])?;
    expect_math(call, 10, &[&call.layout(0)?, &call.layout(1)?])?;
    plan_convolution(call, &windows, transposed, [0, 1, 2, 9], (Order::SAME, Order::SAME))
}

/// Arguments: self, weight, kernel size, bias, stride, padding, dilation, out, math.
pub fn depthwise(call: &mut Call<'_>) -> Result<Plan> {
    let (x, weight) = (call.layout(0)?, call.layout(1)?);
    for (at, layout) in [(0, &x), (1, &weight)] {
        if layout.rank() != 4 {
            let (name, dims) = (call.parameter(at), layout.dims());
            return Err(Error::invalid(format!("{name} {dims:?}: expected 4 dimensions")));
        }
    }
    let sizes = call.ints(2)?;
    let taps = &weight.dims()[2..];
    if sizes.len() != 2 || sizes.iter().zip(taps).any(|(size, taps)| *size != *taps as i64) {
        let (name, other) = (call.parameter(2), call.parameter(1));
        return Err(Error::invalid(format!("{name} = {sizes:?}, but {other} has {taps:?}")));
    }
    let (channels, channels_per_group) = (x.dims()[1], weight.dims()[1]);
    if channels_per_group != 1 || channels == 0 || !weight.dims()[0].is_multiple_of(channels) {
        let (name, dims) = (call.parameter(1), weight.dims());
        return Err(Error::invalid(format!(
            "{name} {dims:?} has not one input and a multiple of {channels} outputs"
        )));
    }
    let windows = Windows {
        axes: 2,
        stride: axis_numbers(call, 4, 2, 1, 1)?,
        dilation: axis_numbers(call, 6, 2, 1, 1)?,
        padding: read_padding(call, 5, 2, false)?,
        output_padding: [0; 3],
        groups: channels,
    };
    expect_math(call, 8, &[&x, &weight])?;
    plan_convolution(call, &windows, false, [0, 1, 3, 7], (Order::SAME, Order::SAME))
}

/// Time, samples, channels become samples, channels, time; taps, inputs, outputs become outputs, inputs, taps.
const TIME_FIRST: (Order, Order) = (Order(&[1, 2, 0]), Order(&[2, 1, 0]));

/// Windows of one axis; fails unless the arguments at these indices have three dimensions.
fn time_windows(call: &Call<'_>, indices: &[usize], pad: usize) -> Result<Windows> {
    for at in indices {
        let layout = call.layout(*at)?;
        if layout.rank() != 3 {
            let (name, dims) = (call.parameter(*at), layout.dims());
            return Err(Error::invalid(format!("{name} {dims:?}: expected 3 dimensions")));
        }
    }
    Ok(Windows {
        axes: 1,
        stride: [1; 3],
        dilation: [1; 3],
        padding: read_padding(call, pad, 1, false)?,
        output_padding: [0; 3],
        groups: 1,
    })
}

/// Arguments: self, weight, bias, pad, output, math.
pub fn time_first(call: &mut Call<'_>) -> Result<Plan> {
    let windows = time_windows(call, &[0, 1, 4], 3)?;
    expect_math(call, 5, &[&call.layout(0)?, &call.layout(1)?])?;
    if call.layout(2)?.rank() != 1 {
        let (name, dims) = (call.parameter(2), call.layout(2)?);
        return Err(Error::invalid(format!("{name} ({dims}): expected one dimension")));
    }
    plan_convolution(call, &windows, false, [0, 1, 2, 4], TIME_FIRST)
}

/// The outputs of a backward: indices of the gradients of input, weight and bias, and which are asked for.
struct Grads {
    indices: [usize; 3],
    mask: [bool; 3],
}

/// Gradients. Indices of the output's gradient, input and weight.
fn gradients(
    call: &mut Call<'_>,
    windows: &Windows,
    transposed: bool,
    [grad_at, input_at, weight_at]: [usize; 3],
    grads: &Grads,
    (image_order, weight_order): (Order, Order),
) -> Result<Plan> {
    let mut outs = [None; 3];
    for (at, out) in outs.iter_mut().enumerate().filter(|(at, _)| grads.mask[*at]) {
        *out = Some(call.output(grads.indices[at])?);
    }
    let written: Vec<&Operand> = outs.iter().flatten().collect();
    let dy = call.read(grad_at, &written)?;
    // What no gradient needs is not read.
    let x = grads.mask[1].then(|| call.read(input_at, &written)).transpose()?;
    let w = grads.mask[0].then(|| call.read(weight_at, &written)).transpose()?;
    let dy = dy.with_layout(image_order.apply(&dy));
    let x_layout = image_order.apply(&call.layout(input_at)?);
    let w_layout = weight_order.apply(&call.layout(weight_at)?);
    let (x, w) = (
        x.map(|x| x.with_layout(image_order.apply(&x))),
        w.map(|w| w.with_layout(weight_order.apply(&w))),
    );
    let weights = (weight_at, w_layout);
    let tensors = match transposed {
        true => ConvolutionTensors { large: (grad_at, *dy), weights, small: (input_at, x_layout) },
        false => ConvolutionTensors { large: (input_at, x_layout), weights, small: (grad_at, *dy) },
    };
    windows.check(call, &tensors, transposed)?;
    let [dx, dw, db] = outs;
    let groups = windows.groups;
    let dy_view = dy.with_layout(by_groups(*dy, groups));
    let input_gradient = match (dx, w) {
        (Some(dx), Some(w)) => {
            let (at, dx) = (grads.indices[0], dx.with_layout(image_order.apply(&dx)));
            call.expect_dtype(at, &dx, TYPES)?;
            expect_like(call, at, &dx, &x_layout)?;
            let w = w.with_layout(weights_by_groups(*w, groups));
            let all = (dy_view, w, dx.with_layout(by_groups(*dx, groups)));
            Some(match transposed {
                true => ConvolutionPlan::forward(call, windows, all, None),
                false => ConvolutionPlan::transposed(call, windows, all, None),
            })
        }
        _ => None,
    };
    let weight_gradient = match (dw, x) {
        (Some(dw), Some(x)) => {
            let (at, dw) = (grads.indices[1], dw.with_layout(weight_order.apply(&dw)));
            call.expect_dtype(at, &dw, TYPES)?;
            expect_like(call, at, &dw, &w_layout)?;
            let dw = dw.with_layout(weights_by_groups(*dw, groups));
            let x = x.with_layout(by_groups(*x, groups));
            let (large, small) = if transposed { (dy_view, x) } else { (x, dy_view) };
            Some(WeightGradientPlan::new(call, windows, (large, small, dw)))
        }
        _ => None,
    };
    let bias_gradient = match db {
        None => None,
        Some(db) => {
            call.expect_dtype(grads.indices[2], &db, TYPES)?;
            call.expect_dims(grads.indices[2], &db, &[dy.dims()[1]])?;
            Some(BiasGradientPlan::new(call, dy, db))
        }
    };
    call.plan(move |memory| {
        [Some(dy), x, w].iter().flatten().for_each(|read| read.prepare(memory));
        if let Some(step) = &input_gradient {
            step.run(memory);
        }
        if let Some(step) = &weight_gradient {
            step.run(memory);
        }
        if let Some(step) = &bias_gradient {
            step.run(memory);
        }
        Ok(())
    })
}

/// Fails unless a gradient has the sizes of what it is of.
fn expect_like(call: &Call<'_>, at: usize, grad: &Layout, like: &Layout) -> Result<()> {
    if grad.dims() == like.dims() {
        return Ok(());
    }
    let (name, have, want) = (call.parameter(at), grad.dims(), like.dims());
    Err(Error::invalid(format!("{name} has the sizes {have:?}: expected {want:?}")))
}

/// Arguments: gradient of the output, input, weight, sizes of the bias, stride, padding, dilation, transposed, output padding,
/// groups, mask, math, gradients of input, weight and bias.
pub fn convolution_backward(call: &mut Call<'_>) -> Result<Plan> {
    let axes = axes(call, 1)?;
    let (windows, transposed) = windows(call, axes, [4, 5, 6, 7, 8, 9])?;
    expect_math(call, 11, &[&call.layout(0)?, &call.layout(1)?, &call.layout(2)?])?;
    let mask = call.flags(10)?;
    let Ok(mask) = <[bool; 3]>::try_from(mask.clone()) else {
        let name = call.parameter(10);
        return Err(Error::invalid(format!("{name} = {mask:?} does not have three booleans")));
    };
    if mask[2] && call.has(3) {
        let (have, want) = (call.ints(3)?, call.layout(0)?.dims()[1]);
        if have != [want as i64] {
            let name = call.parameter(3);
            return Err(Error::invalid(format!("{name} = {have:?}: expected [{want}]")));
        }
    }
    let grads = Grads { indices: [12, 13, 14], mask };
    let orders = (Order::SAME, Order::SAME);
    gradients(call, &windows, transposed, [0, 1, 2], &grads, orders)
}

/// Arguments: gradient of the output, input, weight, bias, pad, math, gradients of input, weight and bias.
pub fn time_first_backward(call: &mut Call<'_>) -> Result<Plan> {
    let windows = time_windows(call, &[0, 1, 2], 4)?;
    expect_math(call, 5, &[&call.layout(0)?, &call.layout(1)?, &call.layout(2)?])?;
    let channels = call.layout(2)?.dims()[2];
    call.expect_dims(3, &call.layout(3)?, &[channels])?;
    let grads = Grads { indices: [6, 7, 8], mask: [true; 3] };
    gradients(call, &windows, false, [0, 1, 2], &grads, TIME_FIRST)
}
