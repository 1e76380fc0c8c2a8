//! Images resized by the nearest position, or by interpolation between several; and the gradients.

use super::avg_pool::{REALS, plan_weighted_sums};
use super::window::{as_5d, numbers, spatial_sizes, try_as_5d, with_spatial_sizes};
use crate::call::Call;
use crate::error::{Error, Result};
use crate::infer::Infer;
use crate::plan::Plan;
use crate::table::ArgSource::{A, Attr, B, I, No, O};
use crate::table::{ArgSource, AttrDefault, Bind, Node, Row, aclnn, node};
use cairn_tensor::kernels::taps::{Alignment, Rule, Scaling, Taps};
use cairn_tensor::{DType, Dims, Layout};
use smallvec::SmallVec;

/// Makes the rule of a dimension.
type Kind = fn(Scaling) -> Rule;

const CUBIC_RULE: Kind = |scaling| Rule::Cubic(scaling, -0.75);

/// The dimensions to resize, of a tensor that [`as_5d`] gave five, and how each is resized.
type Steps = SmallVec<[(usize, Taps); 3]>;

/// The steps of a resize, by the rule of each dimension.
fn steps(
    kind: Kind,
    input: &[usize],
    outputs: &[usize],
    scaling: impl Fn(usize) -> Scaling,
) -> Steps {
    let spatial = input.len();
    (0..spatial)
        .map(|i| {
            let taps = Taps { rule: kind(scaling(i)), input: input[i], output: outputs[i] };
            (5 - spatial + i, taps)
        })
        .collect()
}

/// The factor at an argument: none when it is absent or not positive.
fn factor(call: &Call<'_>, at: usize) -> Result<Option<f64>> {
    if !call.has(at) {
        return Ok(None);
    }
    let value = call.float(at)?;
    if !value.is_finite() {
        return Err(Error::invalid(format!("{} = {value} is no scale", call.parameter(at))));
    }
    Ok((value > 0.0).then_some(value))
}

/// The sizes of the output that an argument says, one for each spatial dimension.
fn output_size(call: &Call<'_>, at: usize, spatial: usize) -> Result<Vec<usize>> {
    let outputs = numbers(call, at, spatial, 1)?;
    let values = call.ints(at)?;
    if values.len() != spatial {
        let name = call.parameter(at);
        return Err(Error::invalid(format!("{name} = {values:?}: expected {spatial} numbers")));
    }
    Ok(outputs)
}

/// Fails for a tensor of other than samples, channels and positions, or without positions.
fn expect_images(call: &Call<'_>, at: usize, x: &Layout, spatial: usize) -> Result<()> {
    if x.rank() != spatial + 2 || x.dims()[1..].contains(&0) {
        let (name, dims, rank) = (call.parameter(at), x.dims(), spatial + 2);
        return Err(Error::invalid(format!(
            "{name} has the sizes {dims:?}: expected {rank} dimensions with elements"
        )));
    }
    Ok(())
}

/// How positions of input and output are aligned.
fn alignment(call: &Call<'_>, at: usize) -> Result<Alignment> {
    Ok(match call.flag_or(at, false)? {
        true => Alignment::Corners,
        false => Alignment::Centres,
    })
}

/// Forward. Arguments: x, output size, aligned corners, scales of depth, rows and columns (the last of them for fewer
/// dimensions), out, spatial dimensions.
fn forward(call: &mut Call<'_>, kind: Kind) -> Result<Plan> {
    let (x, spatial) = (call.layout(0)?, call.int(7)? as usize);
    expect_images(call, 0, &x, spatial)?;
    let outputs = output_size(call, 1, spatial)?;
    let out = call.layout(6)?;
    call.expect_dims(6, &out, &with_spatial_sizes(x.dims(), &outputs, false))?;
    let alignment = alignment(call, 2)?;
    let mut factors = [None; 3];
    for (i, slot) in factors.iter_mut().enumerate() {
        *slot = factor(call, 3 + i)?;
    }
    let is_double = x.dtype == DType::Double;
    let scaling = |i: usize| Scaling { alignment, factor: factors[3 - spatial + i], is_double };
    let steps = steps(kind, spatial_sizes(x.dims(), spatial, false), &outputs, scaling);
    match kind(scaling(0)) {
        Rule::Nearest(_) | Rule::NearestCentre(_) => plan_nearest(call, (0, 6), spatial, &steps),
        _ => plan_weighted_sums(call, (0, 6), spatial, false, &steps, false),
    }
}

/// The plan of outputs that are each a copy of one element.
fn plan_nearest(
    call: &mut Call<'_>,
    (x_at, out_at): (usize, usize),
    spatial: usize,
    steps: &[(usize, Taps)],
) -> Result<Plan> {
    let out = call.output(out_at)?;
    let x = call.read(x_at, &[&out])?;
    call.expect_same(out_at, &out, x_at, &x)?;
    let x = x.with_layout(as_5d(call, x_at, &x, spatial, false)?);
    let out = out.with_layout(as_5d(call, out_at, &out, spatial, false)?);
    let remapping = call.remapping(steps);
    call.plan(move |memory| {
        remapping.run(memory, memory.out(&out), x.view(memory));
        Ok(())
    })
}

/// The gradient. Arguments: dy, output size, input size, aligned corners, three scales, dx, spatial dimensions.
fn backward(call: &mut Call<'_>, kind: Kind) -> Result<Plan> {
    let (dy, dx, spatial) = (call.layout(0)?, call.layout(7)?, call.int(8)? as usize);
    let (outputs, sizes) = (output_size(call, 1, spatial)?, call.sizes(2)?);
    call.expect_dims(7, &dx, &sizes)?;
    expect_images(call, 7, &dx, spatial)?;
    call.expect_dims(0, &dy, &with_spatial_sizes(&sizes, &outputs, false))?;
    let alignment = alignment(call, 3)?;
    let mut factors = [None; 3];
    for (i, slot) in factors.iter_mut().enumerate() {
        *slot = factor(call, 4 + i)?;
    }
    let is_double = dy.dtype == DType::Double;
    let scaling = |i: usize| Scaling { alignment, factor: factors[3 - spatial + i], is_double };
    let steps = steps(kind, spatial_sizes(&sizes, spatial, false), &outputs, scaling);
    plan_weighted_sums(call, (0, 7), spatial, false, &steps, true)
}

macro_rules! binds {
    ($($forward:ident, $backward:ident = $kind:expr;)*) => {$(
        const $forward: Bind = |call| forward(call, $kind);
        const $backward: Bind = |call| backward(call, $kind);
    )*};
}

binds! {
    NEAREST, NEAREST_BACKWARD = Rule::Nearest;
    EXACT, EXACT_BACKWARD = Rule::NearestCentre;
    LINEAR, LINEAR_BACKWARD = Rule::Linear;
    CUBIC, CUBIC_BACKWARD = CUBIC_RULE;
    ANTIALIASED_LINEAR, ANTIALIASED_LINEAR_BACKWARD = Rule::SmoothLinear;
    ANTIALIASED_CUBIC, ANTIALIASED_CUBIC_BACKWARD = Rule::SmoothCubic;
}

/// By factors for each dimension. Arguments: x, factors, mode, out.
fn resize(call: &mut Call<'_>) -> Result<Plan> {
    let (x, out, factors) = (call.layout(0)?, call.layout(3)?, call.floats(1)?);
    expect_images(call, 0, &x, 2)?;
    call.expect_dtype(0, &x, REALS)?;
    let name = call.parameter(1);
    let is_valid = |factor: &f64| *factor > 0.0 && factor.is_finite();
    if factors.len() != 4 || !factors.iter().all(is_valid) || factors[..2] != [1.0, 1.0] {
        return Err(Error::invalid(format!(
            "{name} = {factors:?}: expected four factors, of which the first two are 1"
        )));
    }
    let mut outputs = [0; 2];
    for i in 0..2 {
        // A factor is a number of 32 bits: a product a little below an integer is that number.
        let size = (x.dims()[2 + i] as f64 * factors[2 + i] + 1e-6).floor();
        outputs[i] = size.min(i32::MAX as f64) as usize;
    }
    if outputs.contains(&0) {
        return Err(Error::invalid(format!("{name} = {factors:?} leaves no positions")));
    }
    call.expect_dims(3, &out, &with_spatial_sizes(x.dims(), &outputs, false))?;
    let is_double = x.dtype == DType::Double;
    let mode = call.text(2)?;
    let (kind, alignment): (Kind, Alignment) = match mode {
        "nearest" => (Rule::Nearest, Alignment::Origins),
        "bilinear" => (Rule::Linear, Alignment::Centres),
        other => {
            let name = call.parameter(2);
            return Err(Error::invalid(format!(
                "{name} = {other:?}: expected nearest or bilinear"
            )));
        }
    };
    let is_nearest = mode == "nearest";
    let scaling = |_| Scaling { alignment, factor: None, is_double };
    let steps = steps(kind, spatial_sizes(x.dims(), 2, false), &outputs, scaling);
    match is_nearest {
        true => plan_nearest(call, (0, 3), 2, &steps),
        false => plan_weighted_sums(call, (0, 3), 2, false, &steps, false),
    }
}

macro_rules! rows {
    ($($name:literal, $bind:ident, [$($source:expr),*], $spatial:literal;)*) => {
        &[$(aclnn($name, $bind).with_args(&[$($source,)* I($spatial)]),)* aclnn("Resize", resize)]
    };
}

/// The rows of this family.
pub const ROWS: &[Row] = rows! {
    "UpsampleNearest1d", NEAREST, [A(0), A(1), No, No, No, No, A(2)], 1;
    "UpsampleNearest1dV2", NEAREST, [A(0), A(1), No, No, No, A(2), A(3)], 1;
    "UpsampleNearest2d", NEAREST, [A(0), A(1), No, No, No, No, A(2)], 2;
    "UpsampleNearest2dV2", NEAREST, [A(0), A(1), No, No, A(2), A(3), A(4)], 2;
    "UpsampleNearest3d", NEAREST, [A(0), A(1), No, A(2), A(3), A(4), A(5)], 3;
    "UpsampleNearestExact1d", EXACT, [A(0), A(1), No, No, No, A(2), A(3)], 1;
    "UpsampleNearestExact2d", EXACT, [A(0), A(1), No, No, A(2), A(3), A(4)], 2;
    "UpsampleNearestExact3d", EXACT, [A(0), A(1), No, A(2), A(3), A(4), A(5)], 3;
    "UpsampleLinear1d", LINEAR, [A(0), A(1), A(2), No, No, A(3), A(4)], 1;
    "UpsampleBilinear2d", LINEAR, [A(0), A(1), A(2), No, A(3), A(4), A(5)], 2;
    "UpsampleTrilinear3d", LINEAR, [A(0), A(1), A(2), A(3), A(4), A(5), A(6)], 3;
    "UpsampleBicubic2d", CUBIC, [A(0), A(1), A(2), No, A(3), A(4), A(5)], 2;
    "UpsampleBilinear2dAA", ANTIALIASED_LINEAR, [A(0), A(1), A(2), No, A(3), A(4), A(5)], 2;
    "UpsampleBicubic2dAA", ANTIALIASED_CUBIC, [A(0), A(1), A(2), No, A(3), A(4), A(5)], 2;
    "UpsampleNearest1dBackward", NEAREST_BACKWARD, [A(0), A(1), A(2), No, No, No, A(3), A(4)], 1;
    "UpsampleNearest2dBackward", NEAREST_BACKWARD, [A(0), A(1), A(2), No, No, A(3), A(4), A(5)], 2;
    "UpsampleNearest3dBackward", NEAREST_BACKWARD, [A(0), A(1), A(2), No, A(3), A(4), A(5), A(6)], 3;
    "UpsampleNearestExact1dBackward", EXACT_BACKWARD, [A(0), A(1), A(2), No, No, No, A(3), A(4)], 1;
    "UpsampleNearestExact2dBackward", EXACT_BACKWARD, [A(0), A(1), A(2), No, No, A(3), A(4), A(5)], 2;
    "UpsampleNearestExact3dBackward", EXACT_BACKWARD, [A(0), A(1), A(2), No, A(3), A(4), A(5), A(6)], 3;
    "UpsampleLinear1dBackward", LINEAR_BACKWARD, [A(0), A(1), A(2), A(3), No, No, A(4), A(5)], 1;
    "UpsampleBilinear2dBackward", LINEAR_BACKWARD, [A(0), A(1), A(2), A(3), No, A(4), A(5), A(6)], 2;
    "UpsampleBilinear2dBackwardV2", LINEAR_BACKWARD, [A(0), A(1), A(2), A(3), No, A(4), A(5), A(6)], 2;
    "UpsampleTrilinear3dBackward", LINEAR_BACKWARD, [A(0), A(1), A(2), A(3), A(4), A(5), A(6), A(7)], 3;
    "UpsampleBicubic2dBackward", CUBIC_BACKWARD, [A(0), A(1), A(2), A(3), No, A(4), A(5), A(6)], 2;
    "UpsampleBilinear2dAABackward", ANTIALIASED_LINEAR_BACKWARD, [A(0), A(1), A(2), A(3), No, A(4), A(5), A(6)], 2;
    "UpsampleBicubic2dAAGrad", ANTIALIASED_CUBIC_BACKWARD, [A(0), A(1), A(2), A(3), No, A(4), A(5), A(6)], 2;
};

/// The rule of a node. Arguments from `at` on: aligned corners, centres of pixels, scales.
fn node_steps(
    call: &Call<'_>,
    at: usize,
    linear: bool,
    input: &[usize],
    outputs: &[usize],
    dtype: DType,
) -> Result<Steps> {
    let (corners, centres) = (call.flag_or(at, false)?, call.flag_or(at + 1, false)?);
    let alignment = match (corners, centres) {
        (true, true) => {
            let (a, b) = (call.parameter(at), call.parameter(at + 1));
            return Err(Error::invalid(format!("{a} and {b} cannot both be true")));
        }
        (true, false) => Alignment::Corners,
        (false, true) => Alignment::Centres,
        (false, false) => Alignment::Origins,
    };
    let kind: Kind = match (linear, alignment) {
        (true, _) => Rule::Linear,
        (false, Alignment::Centres) => Rule::NearestCentre,
        (false, _) => Rule::Nearest,
    };
    let factors = if call.has(at + 2) { call.floats(at + 2)? } else { Vec::new() };
    let factor = |i: usize| factors.get(i).copied().filter(|factor| *factor > 0.0);
    let is_double = dtype == DType::Double;
    Ok(steps(kind, input, outputs, |i| Scaling { alignment, factor: factor(i), is_double }))
}

/// Arguments: x, sizes, aligned corners, centres of pixels, scales, y, linear.
fn node_forward(call: &mut Call<'_>) -> Result<Plan> {
    let (x, out, linear) = (call.layout(0)?, call.layout(5)?, call.flag(6)?);
    expect_images(call, 0, &x, 2)?;
    let outputs = output_size(call, 1, 2)?;
    call.expect_dims(5, &out, &with_spatial_sizes(x.dims(), &outputs, false))?;
    let steps = node_steps(call, 2, linear, spatial_sizes(x.dims(), 2, false), &outputs, x.dtype)?;
    match linear {
        true => plan_resize(call, &steps),
        false => plan_nearest(call, (0, 5), 2, &steps),
    }
}

/// As [`plan_weighted_sums`], where the output may have another real type.
fn plan_resize(call: &mut Call<'_>, steps: &[(usize, Taps)]) -> Result<Plan> {
    let out = call.output(5)?;
    let x = call.read(0, &[&out])?;
    call.expect_dtype(0, &x, REALS)?;
    call.expect_dtype(5, &out, REALS)?;
    let x = x.with_layout(as_5d(call, 0, &x, 2, false)?);
    let out = out.with_layout(as_5d(call, 5, &out, 2, false)?);
    let resampling = call.resampling(&x, steps, false);
    call.plan(move |memory| {
        if out.count() > 0 {
            resampling.run(memory, memory.out(&out), x.view(memory));
        }
        Ok(())
    })
}

/// The gradient. Arguments: grads, sizes or the image, aligned corners, centres of pixels, scales, y, linear.
fn node_backward(call: &mut Call<'_>) -> Result<Plan> {
    let (dy, dx, linear) = (call.layout(0)?, call.layout(5)?, call.flag(6)?);
    expect_images(call, 0, &dy, 2)?;
    let dims = image_dims(call)?;
    call.expect_dims(5, &dx, &dims)?;
    expect_images(call, 5, &dx, 2)?;
    let (input, outputs) = (spatial_sizes(&dims, 2, false), spatial_sizes(dy.dims(), 2, false));
    let steps = node_steps(call, 2, linear, input, outputs, dy.dtype)?;
    let out = call.output(5)?;
    let dy = call.read(0, &[&out])?;
    call.expect_dtype(0, &dy, REALS)?;
    call.expect_dtype(5, &out, REALS)?;
    let dy = dy.with_layout(as_5d(call, 0, &dy, 2, false)?);
    let out = out.with_layout(try_as_5d(&out, 2, false).unwrap_or(*out));
    let resampling = call.resampling(&dy, &steps, true);
    call.plan(move |memory| {
        if out.count() > 0 {
            resampling.run(memory, memory.out(&out), dy.view(memory));
        }
        Ok(())
    })
}

/// The sizes of the image that a gradient is of: as the image has them, or with the spatial sizes that a list says.
fn image_dims(call: &Call<'_>) -> Result<Dims> {
    let dy = call.layout(0)?;
    if call.flag(6)? {
        return Ok(Dims::new(call.layout(1)?.dims()));
    }
    as_5d(call, 0, &dy, 2, false)?;
    Ok(with_spatial_sizes(dy.dims(), &output_size(call, 1, 2)?, false))
}

fn node_output(call: &Call<'_>) -> Result<Vec<Layout>> {
    let x = call.layout(0)?;
    as_5d(call, 0, &x, 2, false)?;
    let dtype = if call.flag(6)? && call.has(7) { call.dtype(7)? } else { x.dtype };
    Ok(vec![Layout::contiguous(
        dtype,
        &with_spatial_sizes(x.dims(), &output_size(call, 1, 2)?, false),
    )])
}

fn infer_gradient(call: &Call<'_>) -> Result<Vec<Layout>> {
    let dtype = if call.flag(6)? { call.layout(1)?.dtype } else { call.layout(0)?.dtype };
    Ok(vec![Layout::contiguous(dtype, &image_dims(call)?)])
}

/// The cubic rule of a node. Arguments: .., aligned corners, scales, from 2 on.
fn cubic_steps(call: &Call<'_>, input: &[usize], outputs: &[usize], dtype: DType) -> Result<Steps> {
    let alignment = alignment(call, 2)?;
    let factors = if call.has(3) { call.floats(3)? } else { Vec::new() };
    let factor = |i: usize| factors.get(i).copied().filter(|factor| *factor > 0.0);
    let is_double = dtype == DType::Double;
    Ok(steps(CUBIC_RULE, input, outputs, |i| Scaling { alignment, factor: factor(i), is_double }))
}

/// Arguments: x, sizes, aligned corners, scales, -, y.
fn node_cubic(call: &mut Call<'_>) -> Result<Plan> {
    let (x, out) = (call.layout(0)?, call.layout(5)?);
    expect_images(call, 0, &x, 2)?;
    let outputs = output_size(call, 1, 2)?;
    call.expect_dims(5, &out, &with_spatial_sizes(x.dims(), &outputs, false))?;
    let steps = cubic_steps(call, spatial_sizes(x.dims(), 2, false), &outputs, x.dtype)?;
    plan_weighted_sums(call, (0, 5), 2, false, &steps, false)
}

/// The gradient. Arguments: grads, the image, aligned corners, scales, -, y.
fn node_cubic_backward(call: &mut Call<'_>) -> Result<Plan> {
    let (dy, image, dx) = (call.layout(0)?, call.layout(1)?, call.layout(5)?);
    expect_images(call, 0, &dy, 2)?;
    expect_images(call, 1, &image, 2)?;
    call.expect_dims(5, &dx, image.dims())?;
    let outputs = spatial_sizes(dy.dims(), 2, false);
    call.expect_dims(0, &dy, &with_spatial_sizes(image.dims(), outputs, false))?;
    let steps = cubic_steps(call, spatial_sizes(image.dims(), 2, false), outputs, dy.dtype)?;
    plan_weighted_sums(call, (0, 5), 2, false, &steps, true)
}

/// The sizes of an image of three dimensions with more or fewer positions: as argument `at` says, or by the factors after it.
fn sizes_or_factors(call: &Call<'_>, at: usize, input: &[usize]) -> Result<Vec<usize>> {
    let has_sizes = call.has(at) && !call.ints(at)?.is_empty();
    let factors = if call.has(at + 1) { call.floats(at + 1)? } else { Vec::new() };
    if has_sizes {
        return output_size(call, at, input.len());
    }
    let (name, sizes) = (call.parameter(at + 1), input.iter().zip(&factors));
    let outputs: Vec<usize> = { sizes }
        .map(|(size, factor)| {
            (*size as f64 * factor).floor().clamp(0.0, f64::from(i32::MAX)) as usize
        })
        .collect();
    match outputs.len() == input.len() && factors.len() == input.len() && !outputs.contains(&0) {
        true => Ok(outputs),
        false => {
            let (other, count) = (call.parameter(at), input.len());
            Err(Error::invalid(format!(
                "{name} = {factors:?} without {other}: expected {count} factors that leave positions"
            )))
        }
    }
}

/// The nearest rule of a node. Argument `at`: factors.
fn nearest_steps(
    call: &Call<'_>,
    at: usize,
    input: &[usize],
    outputs: &[usize],
    dtype: DType,
) -> Result<Steps> {
    let factors = if call.has(at) { call.floats(at)? } else { Vec::new() };
    let factor = |i: usize| factors.get(i).copied().filter(|factor| *factor > 0.0);
    let scaling = |i: usize| Scaling {
        alignment: Alignment::Centres,
        factor: factor(i),
        is_double: dtype == DType::Double,
    };
    Ok(steps(Rule::Nearest, input, outputs, scaling))
}

/// Arguments: x, sizes, factors, y.
fn node_nearest(call: &mut Call<'_>) -> Result<Plan> {
    let (x, out) = (call.layout(0)?, call.layout(3)?);
    expect_images(call, 0, &x, 3)?;
    let input = spatial_sizes(x.dims(), 3, false);
    let outputs = sizes_or_factors(call, 1, input)?;
    call.expect_dims(3, &out, &with_spatial_sizes(x.dims(), &outputs, false))?;
    let steps = nearest_steps(call, 2, input, &outputs, x.dtype)?;
    plan_nearest(call, (0, 3), 3, &steps)
}

fn node_nearest_output(call: &Call<'_>) -> Result<Vec<Layout>> {
    let x = call.layout(0)?;
    expect_images(call, 0, &x, 3)?;
    let outputs = sizes_or_factors(call, 1, spatial_sizes(x.dims(), 3, false))?;
    Ok(vec![Layout::contiguous(x.dtype, &with_spatial_sizes(x.dims(), &outputs, false))])
}

/// Arguments: grads, sizes of the output, factors, y, sizes of the image.
fn node_nearest_backward(call: &mut Call<'_>) -> Result<Plan> {
    let (dy, dx, sizes) = (call.layout(0)?, call.layout(3)?, call.sizes(4)?);
    call.expect_dims(3, &dx, &sizes)?;
    expect_images(call, 3, &dx, 3)?;
    let input = spatial_sizes(&sizes, 3, false);
    let outputs = sizes_or_factors(call, 1, input)?;
    call.expect_dims(0, &dy, &with_spatial_sizes(&sizes, &outputs, false))?;
    let steps = nearest_steps(call, 2, input, &outputs, dy.dtype)?;
    plan_weighted_sums(call, (0, 3), 3, false, &steps, true)
}

fn infer_nearest_gradient(call: &Call<'_>) -> Result<Vec<Layout>> {
    Ok(vec![Layout::contiguous(call.layout(0)?.dtype, &call.sizes(4)?)])
}

fn node_cubic_output(call: &Call<'_>) -> Result<Vec<Layout>> {
    let x = call.layout(0)?;
    as_5d(call, 0, &x, 2, false)?;
    let dims = with_spatial_sizes(x.dims(), &output_size(call, 1, 2)?, false);
    Ok(vec![Layout::contiguous(x.dtype, &dims)])
}

const ALIGN_CORNERS: ArgSource = Attr("align_corners", AttrDefault::Flag(false));
const CENTRES: ArgSource = Attr("half_pixel_centers", AttrDefault::Flag(false));
const SIZES: ArgSource = Attr("output_size", AttrDefault::Ints(&[]));
const SCALES: ArgSource = Attr("scales", AttrDefault::None);

/// The operators of this family by IR name.
pub const NODES: &[Node] = &[
    node(
        "ResizeNearestNeighborV2",
        &["x", "size"],
        &["y"],
        Infer::By(node_output),
        node_forward,
        &[A(0), A(1), ALIGN_CORNERS, CENTRES, SCALES, O(0), B(false)],
    )
    .needs_values(&[1]),
    node(
        "ResizeNearestNeighborV2Grad",
        &["grads", "size"],
        &["y"],
        Infer::By(infer_gradient),
        node_backward,
        &[A(0), A(1), ALIGN_CORNERS, CENTRES, SCALES, O(0), B(false)],
    )
    .needs_values(&[1]),
    node(
        "ResizeBilinearV2",
        &["x", "size"],
        &["y"],
        Infer::By(node_output),
        node_forward,
        &[
            A(0),
            A(1),
            ALIGN_CORNERS,
            CENTRES,
            SCALES,
            O(0),
            B(true),
            Attr("dtype", AttrDefault::Int(0)),
        ],
    )
    .needs_values(&[1]),
    node(
        "ResizeBilinearV2Grad",
        &["grads", "original_image"],
        &["y"],
        Infer::By(infer_gradient),
        node_backward,
        &[A(0), A(1), ALIGN_CORNERS, CENTRES, SCALES, O(0), B(true)],
    ),
    node(
        "ResizeBicubicV2",
        &["x", "size"],
        &["y"],
        Infer::By(node_cubic_output),
        node_cubic,
        &[A(0), A(1), ALIGN_CORNERS, SCALES, No, O(0)],
    )
    .needs_values(&[1]),
    node(
        "ResizeBicubicV2Grad",
        &["grads", "original_image"],
        &["y"],
        Infer::Like(1),
        node_cubic_backward,
        &[A(0), A(1), ALIGN_CORNERS, SCALES, No, O(0)],
    ),
    node(
        "UpsampleNearest3d",
        &["x"],
        &["y"],
        Infer::By(node_nearest_output),
        node_nearest,
        &[A(0), SIZES, SCALES, O(0)],
    ),
    node(
        "UpsampleNearest3dGrad",
        &["grad_output"],
        &["y"],
        Infer::By(infer_nearest_gradient),
        node_nearest_backward,
        &[A(0), SIZES, SCALES, O(0), Attr("input_size", AttrDefault::Required)],
    ),
];
