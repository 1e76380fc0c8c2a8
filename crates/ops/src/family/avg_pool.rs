//! Pooling by the average of each window, and the gradient.

use super::plain_pool::global_dims;
use super::resampling::Resampling;
use super::window::{
    PoolOptions, as_5d, channels_last, numbers_by_format, numbers_or, spatial_sizes,
    with_spatial_sizes,
};
use crate::call::Call;
use crate::error::{Error, Result};
use crate::infer::Infer;
use crate::plan::Plan;
use crate::table::ArgSource::{A, Attr, B, I, No, O};
use crate::table::{ArgSource, AttrDefault, Node, Row, aclnn, node};
use cairn_tensor::kernels::taps::{Divisor, Rule, Taps};
use cairn_tensor::{DType, Layout};
use smallvec::SmallVec;

/// The types that averages are taken of.
pub const REALS: &[DType] = &[DType::Float, DType::Float16, DType::Bf16, DType::Double];

/// What sums are divided by.
#[derive(Clone, Copy)]
struct DivisorOptions {
    /// The positions of a window count in the padding too, not only in the input.
    padded: bool,
    /// Unless it is 0, sums are divided by this number instead.
    number: i64,
}

/// The dimensions to pool, of a tensor that [`as_5d`] gave five, and how each is pooled.
type Steps = SmallVec<[(usize, Taps); 3]>;

/// The steps of pooling by windows.
fn steps(
    options: &PoolOptions,
    input: &[usize],
    outputs: &[usize],
    divisor: DivisorOptions,
) -> Steps {
    let spatial = input.len();
    (0..spatial)
        .map(|i| {
            let divisor = match divisor {
                DivisorOptions { number: 0, padded: true } => Divisor::Padded,
                DivisorOptions { number: 0, padded: false } => Divisor::Inside,
                DivisorOptions { number, .. } => {
                    Divisor::Number(if i + 1 == spatial { number } else { 1 })
                }
            };
            let rule = Rule::Windows {
                kernel: options.kernel[i],
                stride: options.stride[i],
                before: options.before[i],
                after: options.after[i],
                dilation: options.dilation[i],
                divisor,
            };
            (5 - spatial + i, Taps { rule, input: input[i], output: outputs[i] })
        })
        .collect()
}

/// The plan of weighted sums along the dimensions that `steps` name. The tensors have `spatial` dimensions besides samples
/// and channels; `last` says that channels are the last.
pub fn plan_weighted_sums(
    call: &mut Call<'_>,
    (x_at, out_at): (usize, usize),
    spatial: usize,
    last: bool,
    steps: &[(usize, Taps)],
    backward: bool,
) -> Result<Plan> {
    let out = call.output(out_at)?;
    let x = call.read(x_at, &[&out])?;
    call.expect_dtype(x_at, &x, REALS)?;
    call.expect_same(out_at, &out, x_at, &x)?;
    let x = x.with_layout(as_5d(call, x_at, &x, spatial, last)?);
    let out = out.with_layout(as_5d(call, out_at, &out, spatial, last)?);
    if out.count() == 0 {
        return call.nothing();
    }
    let resampling: Resampling = call.resampling(&x, steps, backward);
    call.plan(move |memory| {
        resampling.run(memory, memory.out(&out), x.view(memory));
        Ok(())
    })
}

/// Reads kernel, stride, padding, ceil mode, whether the padding counts, and the divisor, from `at` on.
fn windows(call: &Call<'_>, at: usize, spatial: usize) -> Result<(PoolOptions, DivisorOptions)> {
    let mut options = PoolOptions::read(call, at, spatial)?;
    options.ceil = call.flag_or(at + 3, false)?;
    let divisor =
        DivisorOptions { padded: call.flag_or(at + 4, true)?, number: call.int_or(at + 5, 0)? };
    Ok((options, divisor))
}

/// Fails for a precision that the function does not know.
fn expect_precision(call: &Call<'_>, at: usize) -> Result<()> {
    match call.int_or(at, 0)? {
        0..=2 => Ok(()),
        other => {
            let name = call.parameter(at);
            Err(Error::invalid(format!("{name} = {other}: expected 0, 1 or 2")))
        }
    }
}

/// Forward. Arguments: x, kernel, stride, padding, ceil mode, whether the padding counts, divisor, precision, out, spatial
/// dimensions.
fn forward(call: &mut Call<'_>) -> Result<Plan> {
    let (x, spatial) = (call.layout(0)?, call.int(9)? as usize);
    expect_precision(call, 7)?;
    as_5d(call, 0, &x, spatial, false)?;
    let (options, divisor) = windows(call, 1, spatial)?;
    let input = spatial_sizes(x.dims(), spatial, false);
    let outputs = options.outputs(call, 0, input)?;
    let out = call.layout(8)?;
    call.expect_dims(8, &out, &with_spatial_sizes(x.dims(), &outputs, false))?;
    plan_weighted_sums(
        call,
        (0, 8),
        spatial,
        false,
        &steps(&options, input, &outputs, divisor),
        false,
    )
}

/// The gradient. Arguments: dy, x, kernel, stride, padding, ceil mode, whether the padding counts, divisor, precision, dx,
/// spatial dimensions.
fn backward(call: &mut Call<'_>) -> Result<Plan> {
    let (x, spatial) = (call.layout(1)?, call.int(10)? as usize);
    expect_precision(call, 8)?;
    as_5d(call, 1, &x, spatial, false)?;
    let (options, divisor) = windows(call, 2, spatial)?;
    let input = spatial_sizes(x.dims(), spatial, false);
    let outputs = options.outputs(call, 1, input)?;
    let (dy, dx) = (call.layout(0)?, call.layout(9)?);
    call.expect_dims(9, &dx, x.dims())?;
    call.expect_dims(0, &dy, &with_spatial_sizes(x.dims(), &outputs, false))?;
    plan_weighted_sums(
        call,
        (0, 9),
        spatial,
        false,
        &steps(&options, input, &outputs, divisor),
        true,
    )
}

/// The steps of adaptive pooling.
fn adaptive_steps(input: &[usize], outputs: &[usize]) -> Steps {
    let spatial = input.len();
    (0..spatial)
        .map(|i| {
            let taps = Taps { rule: Rule::Parts, input: input[i], output: outputs[i] };
            (5 - spatial + i, taps)
        })
        .collect()
}

/// Adaptive pooling. Arguments: x, output sizes, out, spatial dimensions, channels last.
fn adaptive(call: &mut Call<'_>) -> Result<Plan> {
    let (x, spatial, last) =
        (call.layout(0)?, call.int(3)? as usize, has_channels_last(call, 4, 3)?);
    let dims = adaptive_dims(call, &x, spatial, last)?;
    let out = call.layout(2)?;
    call.expect_dims(2, &out, &dims)?;
    let (input, outputs) =
        (spatial_sizes(x.dims(), spatial, last), spatial_sizes(&dims, spatial, last));
    if input.contains(&0) && !outputs.contains(&0) {
        let (name, dims) = (call.parameter(0), x.dims());
        return Err(Error::invalid(format!("{name} {dims:?} has no positions to pool")));
    }
    plan_weighted_sums(call, (0, 2), spatial, last, &adaptive_steps(input, outputs), false)
}

/// Whether the argument at `at`, a data format, puts channels last; no when it is absent.
fn has_channels_last(call: &Call<'_>, at: usize, spatial_at: usize) -> Result<bool> {
    match call.has(at) {
        true => channels_last(call, at, call.int(spatial_at)? as usize),
        false => Ok(false),
    }
}

/// The sizes of an output with the spatial sizes that argument 1 says.
fn adaptive_dims(
    call: &Call<'_>,
    x: &Layout,
    spatial: usize,
    last: bool,
) -> Result<cairn_tensor::Dims> {
    as_5d(call, 0, x, spatial, last)?;
    let input = spatial_sizes(x.dims(), spatial, last);
    let outputs = numbers_or(call, 1, spatial, 0, input)?;
    Ok(with_spatial_sizes(x.dims(), &outputs, last))
}

fn adaptive_output(call: &Call<'_>) -> Result<Vec<Layout>> {
    let (x, spatial, last) =
        (call.layout(0)?, call.int(3)? as usize, has_channels_last(call, 4, 3)?);
    Ok(vec![Layout::contiguous(x.dtype, &adaptive_dims(call, &x, spatial, last)?)])
}

/// The gradient of adaptive pooling. Arguments: dy, x, dx, spatial dimensions, channels last.
fn adaptive_backward(call: &mut Call<'_>) -> Result<Plan> {
    let (dy, x) = (call.layout(0)?, call.layout(1)?);
    let dx = call.layout(2)?;
    call.expect_dims(2, &dx, x.dims())?;
    plan_adaptive_gradient(call, &dy, &dx)
}

/// The gradient of adaptive pooling where the sizes of the input are an attribute. Arguments: dy, sizes, dx, spatial
/// dimensions.
fn adaptive_backward_to(call: &mut Call<'_>) -> Result<Plan> {
    let (dy, dx, sizes) = (call.layout(0)?, call.layout(2)?, call.sizes(1)?);
    call.expect_dims(2, &dx, &sizes)?;
    plan_adaptive_gradient(call, &dy, &dx)
}

/// The plan of the gradient of adaptive pooling. Arguments as of [`adaptive_backward`].
fn plan_adaptive_gradient(call: &mut Call<'_>, dy: &Layout, dx: &Layout) -> Result<Plan> {
    let (spatial, last) = (call.int(3)? as usize, has_channels_last(call, 4, 3)?);
    as_5d(call, 0, dy, spatial, last)?;
    as_5d(call, 2, dx, spatial, last)?;
    let (input, outputs) =
        (spatial_sizes(dx.dims(), spatial, last), spatial_sizes(dy.dims(), spatial, last));
    call.expect_dims(0, dy, &with_spatial_sizes(dx.dims(), outputs, last))?;
    plan_weighted_sums(call, (0, 2), spatial, last, &adaptive_steps(input, outputs), true)
}

fn infer_of_sizes(call: &Call<'_>) -> Result<Vec<Layout>> {
    Ok(vec![Layout::contiguous(call.layout(0)?.dtype, &call.sizes(1)?)])
}

/// The average of each channel. Arguments: x, out.
fn global(call: &mut Call<'_>) -> Result<Plan> {
    let (x, out) = (call.tensor(0)?, call.output(1)?);
    call.expect_dtype(0, &x, REALS)?;
    call.expect_dims(1, &out, &global_dims(call, &x)?)?;
    call.expect_same(1, &out, 0, &x)?;
    let (planes, length) = (x.dims()[0] * x.dims()[1], x.dims()[2..].iter().product::<usize>());
    if length == 0 {
        let (name, dims) = (call.parameter(0), x.dims());
        return Err(Error::invalid(format!("{name} {dims:?} has no positions to pool")));
    }
    let x = call.reshaped_input(x, &[planes, length], &[&out]);
    let out = call.reshaped_output(out, &[planes, 1]);
    let taps = Taps { rule: Rule::Parts, input: length, output: 1 };
    let resampling = call.resampling(&x.layout(), &[(1, taps)], false);
    call.plan(move |memory| {
        resampling.run(memory, out.out(memory), x.view(memory));
        out.write_back(memory);
        Ok(())
    })
}

/// The windows of the nodes. Arguments from `at` on: ksize, strides, padding mode, pads (pairs), ceil mode, data format,
/// global, whether the padding does not count, divisor. Of three dimensions it is whether the padding does count.
fn node_windows(
    call: &Call<'_>,
    at: usize,
    spatial: usize,
    dims: &[usize],
) -> Result<(PoolOptions, DivisorOptions, bool)> {
    let last = channels_last(call, at + 5, spatial)?;
    let input = spatial_sizes(dims, spatial, last);
    let kernel = numbers_by_format(call, at, spatial, 1, last)?;
    let stride = numbers_by_format(call, at + 1, spatial, 1, last)?;
    let none = vec![0; spatial];
    let dilation = vec![1; spatial];
    let ceil = call.flag_or(at + 4, false)?;
    let options = PoolOptions { kernel, stride, before: none.clone(), after: none, dilation, ceil };
    let options = match call.flag_or(at + 6, false)? {
        true => options.global(input),
        false => options.padded(call, at + 2, at + 3, input)?,
    };
    let divisor = DivisorOptions {
        padded: call.flag_or(at + 7, true)? == (spatial == 3),
        number: call.int_or(at + 8, 0)?,
    };
    Ok((options, divisor, last))
}

/// Arguments: x, those of [`node_windows`], y, spatial dimensions, factors of elements (absent).
fn node_forward(call: &mut Call<'_>) -> Result<Plan> {
    expect_plain(call)?;
    let (x, spatial) = (call.layout(0)?, call.int(11)? as usize);
    as_5d(call, 0, &x, spatial, false)?;
    let (options, divisor, last) = node_windows(call, 1, spatial, x.dims())?;
    let input = spatial_sizes(x.dims(), spatial, last);
    let outputs = options.outputs(call, 0, input)?;
    let out = call.layout(10)?;
    call.expect_dims(10, &out, &with_spatial_sizes(x.dims(), &outputs, last))?;
    plan_weighted_sums(
        call,
        (0, 10),
        spatial,
        last,
        &steps(&options, input, &outputs, divisor),
        false,
    )
}

/// Fails where factors of elements are to be read, which are in a format of the device.
fn expect_plain(call: &Call<'_>) -> Result<()> {
    match [12, 13].into_iter().find(|at| call.has(*at)) {
        Some(at) => Err(Error::invalid(format!("{} is not supported", call.parameter(at)))),
        None => Ok(()),
    }
}

fn node_output(call: &Call<'_>) -> Result<Vec<Layout>> {
    expect_plain(call)?;
    let (x, spatial) = (call.layout(0)?, call.int(11)? as usize);
    as_5d(call, 0, &x, spatial, false)?;
    let (options, _, last) = node_windows(call, 1, spatial, x.dims())?;
    let outputs = options.outputs(call, 0, spatial_sizes(x.dims(), spatial, last))?;
    Ok(vec![Layout::contiguous(x.dtype, &with_spatial_sizes(x.dims(), &outputs, last))])
}

/// Arguments: dy, those of [`node_windows`], dx, spatial dimensions, sizes of the input.
fn node_backward(call: &mut Call<'_>) -> Result<Plan> {
    let (dy, dx, spatial) = (call.layout(0)?, call.layout(10)?, call.int(11)? as usize);
    call.expect_dims(10, &dx, &call.sizes(12)?)?;
    as_5d(call, 10, &dx, spatial, false)?;
    let (options, divisor, last) = node_windows(call, 1, spatial, dx.dims())?;
    let input = spatial_sizes(dx.dims(), spatial, last);
    let outputs = options.outputs(call, 10, input)?;
    call.expect_dims(0, &dy, &with_spatial_sizes(dx.dims(), &outputs, last))?;
    plan_weighted_sums(
        call,
        (0, 10),
        spatial,
        last,
        &steps(&options, input, &outputs, divisor),
        true,
    )
}

fn infer_gradient(call: &Call<'_>) -> Result<Vec<Layout>> {
    Ok(vec![Layout::contiguous(call.layout(0)?.dtype, &call.sizes(12)?)])
}

/// The rows of this family.
pub const ROWS: &[Row] = &[
    aclnn("AvgPool2d", forward).with_args(&[
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
    aclnn("AvgPool3d", forward).with_args(&[
        A(0),
        A(1),
        A(2),
        A(3),
        A(4),
        A(5),
        A(6),
        No,
        A(7),
        I(3),
    ]),
    aclnn("AvgPool2dBackward", backward).with_args(&[
        A(0),
        A(1),
        A(2),
        A(3),
        A(4),
        A(5),
        A(6),
        A(7),
        A(8),
        A(9),
        I(2),
    ]),
    aclnn("AvgPool3dBackward", backward).with_args(&[
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
    aclnn("AdaptiveAvgPool2d", adaptive).with_args(&[A(0), A(1), A(2), I(2)]),
    aclnn("AdaptiveAvgPool3d", adaptive).with_args(&[A(0), A(1), A(2), I(3)]),
    aclnn("AdaptiveAvgPool2dBackward", adaptive_backward).with_args(&[A(0), A(1), A(2), I(2)]),
    aclnn("AdaptiveAvgPool3dBackward", adaptive_backward).with_args(&[A(0), A(1), A(2), I(3)]),
    aclnn("GlobalAveragePool", global),
];

const KSIZE: ArgSource = Attr("ksize", AttrDefault::Required);
const STRIDES: ArgSource = Attr("strides", AttrDefault::Required);
const PADDING: ArgSource = Attr("padding", AttrDefault::Required);
const MODE: ArgSource = Attr("padding_mode", AttrDefault::Text("CALCULATED"));
const PADS: ArgSource = Attr("pads", AttrDefault::Ints(&[0, 0, 0, 0]));
const PADS_3D: ArgSource = Attr("pads", AttrDefault::Required);
const COUNT_INCLUDE_PAD: ArgSource = Attr("count_include_pad", AttrDefault::Flag(true));
const CEIL: ArgSource = Attr("ceil_mode", AttrDefault::Flag(false));
const GLOBAL: ArgSource = Attr("global_pooling", AttrDefault::Flag(false));
const EXCLUSIVE: ArgSource = Attr("exclusive", AttrDefault::Flag(true));
const DIVISOR: ArgSource = Attr("divisor_override", AttrDefault::Int(0));
const NHWC: ArgSource = Attr("data_format", AttrDefault::Text("NHWC"));
const NCHW: ArgSource = Attr("data_format", AttrDefault::Text("NCHW"));
const NDHWC: ArgSource = Attr("data_format", AttrDefault::Text("NDHWC"));

/// The operators of this family by IR name.
pub const NODES: &[Node] = &[
    node(
        "AvgPool",
        &["x"],
        &["y"],
        Infer::By(node_output),
        node_forward,
        &[A(0), KSIZE, STRIDES, PADDING, No, No, NHWC, No, B(true), I(0), O(0), I(2)],
    ),
    node(
        "AvgPoolV2",
        &["x"],
        &["y"],
        Infer::By(node_output),
        node_forward,
        &[A(0), KSIZE, STRIDES, MODE, PADS, CEIL, NCHW, GLOBAL, EXCLUSIVE, DIVISOR, O(0), I(2)],
    ),
    node(
        "AvgPoolGrad",
        &["orig_input_shape", "input_grad"],
        &["out_grad"],
        Infer::By(infer_gradient),
        node_backward,
        &[A(1), KSIZE, STRIDES, PADDING, No, No, NHWC, No, B(true), I(0), O(0), I(2), A(0)],
    )
    .needs_values(&[0]),
    node(
        "AvgPoolV2Grad",
        &["orig_input_shape", "input_grad"],
        &["out_grad"],
        Infer::By(infer_gradient),
        node_backward,
        &[
            A(1),
            KSIZE,
            STRIDES,
            MODE,
            PADS,
            CEIL,
            NCHW,
            GLOBAL,
            EXCLUSIVE,
            DIVISOR,
            O(0),
            I(2),
            A(0),
        ],
    )
    .needs_values(&[0]),
    node(
        "AvgPool3D",
        &["x"],
        &["y"],
        Infer::By(node_output),
        node_forward,
        &[
            A(0),
            KSIZE,
            STRIDES,
            No,
            PADS_3D,
            CEIL,
            NDHWC,
            No,
            COUNT_INCLUDE_PAD,
            DIVISOR,
            O(0),
            I(3),
        ],
    ),
    node(
        "AvgPool3DD",
        &["x", "filter?", "multiplier?"],
        &["y"],
        Infer::By(node_output),
        node_forward,
        &[
            A(0),
            KSIZE,
            STRIDES,
            No,
            PADS_3D,
            CEIL,
            NDHWC,
            No,
            COUNT_INCLUDE_PAD,
            DIVISOR,
            O(0),
            I(3),
            A(1),
            A(2),
        ],
    ),
    node(
        "AvgPool3DGrad",
        &["orig_input_shape", "grads"],
        &["output"],
        Infer::By(infer_gradient),
        node_backward,
        &[
            A(1),
            KSIZE,
            STRIDES,
            No,
            PADS_3D,
            CEIL,
            NDHWC,
            No,
            COUNT_INCLUDE_PAD,
            DIVISOR,
            O(0),
            I(3),
            A(0),
        ],
    )
    .needs_values(&[0]),
    node(
        "AdaptiveAvgPool2d",
        &["x"],
        &["y"],
        Infer::By(adaptive_output),
        adaptive,
        &[A(0), Attr("output_size", AttrDefault::Required), O(0), I(2)],
    ),
    node(
        "AdaptiveAvgPool2dGrad",
        &["input_grad"],
        &["output_grad"],
        Infer::By(infer_of_sizes),
        adaptive_backward_to,
        &[A(0), Attr("orig_input_shape", AttrDefault::Required), O(0), I(2)],
    ),
    node(
        "AdaptiveAvgPool3d",
        &["x"],
        &["y"],
        Infer::By(adaptive_output),
        adaptive,
        &[A(0), Attr("output_size", AttrDefault::Required), O(0), I(3), NDHWC],
    ),
    node(
        "AdaptiveAvgPool3dGrad",
        &["y_grad", "x"],
        &["x_grad"],
        Infer::Like(1),
        adaptive_backward,
        &[A(0), A(1), O(0), I(3), NDHWC],
    ),
];
