//! Tensors with more or fewer positions in any dimension, as ONNX's `Resize` defines it.

use super::inputs::UnaliasedInput;
use crate::call::Call;
use crate::error::{Error, Result};
use crate::infer::Infer;
use crate::plan::{Operand, Plan};
use crate::table::ArgSource::{A, Attr, O};
use crate::table::{AttrDefault, Node, node};
use cairn_tensor::kernels::map::{fill_scalar, map1};
use cairn_tensor::kernels::resize::{Coordinates, Method, NearestMode, Resize};
use cairn_tensor::kernels::taps::{Rule, Taps};
use cairn_tensor::{DType, Dims, Layout, MAX_DIMS, Scalar};
use smallvec::SmallVec;

const TYPES: &[DType] = &[
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

/// The maps of the dimensions, with the dimension of each.
type Steps = SmallVec<[(usize, Taps); MAX_DIMS]>;

/// One of the texts that an attribute may be.
fn choice<T: Copy>(call: &Call<'_>, at: usize, among: &[(&str, T)]) -> Result<T> {
    let text = call.text(at)?;
    let found = among.iter().find(|(name, _)| *name == text);
    found.map(|(_, value)| *value).ok_or_else(|| {
        let names: Vec<&str> = among.iter().map(|(name, _)| *name).collect();
        let (name, names) = (call.parameter(at), names.join(", "));
        Error::invalid(format!("{name} = {text:?}: expected one of {names}"))
    })
}

/// The numbers of an input; none when it is absent or has no elements.
fn numbers(call: &Call<'_>, at: usize) -> Result<Option<Vec<f64>>> {
    if !call.has(at) || call.layout(at)?.count() == 0 {
        return Ok(None);
    }
    Ok(Some(call.values(at)?.into_iter().map(Scalar::as_f64).collect()))
}

/// The dimensions that the other inputs have numbers for: those of an attribute, or all.
fn axes(call: &Call<'_>, at: usize, rank: usize) -> Result<Vec<usize>> {
    let values = call.ints(at)?;
    if values.is_empty() {
        return Ok((0..rank).collect());
    }
    let mut axes = Vec::new();
    for value in &values {
        let axis = call.wrap(at, *value, rank)?;
        if axes.contains(&axis) {
            let name = call.parameter(at);
            return Err(Error::invalid(format!(
                "{name} = {values:?} names dimension {axis} twice"
            )));
        }
        axes.push(axis);
    }
    Ok(axes)
}

fn expect_count(call: &Call<'_>, at: usize, values: &[f64], count: usize) -> Result<()> {
    let good = values.len() == count && values.iter().all(|value| value.is_finite());
    match good {
        true => Ok(()),
        false => {
            let name = call.parameter(at);
            Err(Error::invalid(format!("{name} = {values:?}: expected {count} finite numbers")))
        }
    }
}

/// The outputs for each input of each dimension of `axes`, and how many outputs there are.
fn scaled(call: &Call<'_>, x: &Layout, axes: &[usize]) -> Result<Vec<(f64, usize)>> {
    let (scales, sizes) = (numbers(call, 2)?, numbers(call, 3)?);
    let policy = choice(call, 13, &[("stretch", 0), ("not_larger", -1), ("not_smaller", 1)])?;
    let (at, values) = match (scales, sizes) {
        (Some(scales), None) => (2, scales),
        (None, Some(sizes)) => (3, sizes),
        (scales, _) => {
            let (one, other) = (call.parameter(2), call.parameter(3));
            let both = if scales.is_some() { "both" } else { "none" };
            return Err(Error::invalid(format!("expected either {one} or {other}, got {both}")));
        }
    };
    expect_count(call, at, &values, axes.len())?;
    let wrong = |value: f64| {
        let (name, dims) = (call.parameter(at), x.dims());
        Error::invalid(format!("{name} has {value}, which cannot be for a tensor of {dims:?}"))
    };
    let length = |axis: usize| x.dims()[axis] as f64;
    let count = |value: f64, of: f64| match (0.0..=i64::MAX as f64 / 2.0).contains(&value) {
        true => Ok(value as usize),
        false => Err(wrong(of)),
    };
    let each = axes.iter().zip(&values);
    if at == 2 {
        let one = |(axis, scale): (&usize, &f64)| match *scale > 0.0 {
            true => Ok((*scale, count((scale * length(*axis)).floor(), *scale)?)),
            false => Err(wrong(*scale)),
        };
        return each.map(one).collect();
    }
    let one = |(axis, size): (&usize, &f64)| match (*size, length(*axis)) {
        (0.0, _) => Ok((1.0, 0)),
        (size, length) if size > 0.0 && length > 0.0 => Ok((size / length, count(size, size)?)),
        (size, _) => Err(wrong(size)),
    };
    let stretched: Vec<(f64, usize)> = each.map(one).collect::<Result<_>>()?;
    let scales = stretched.iter().map(|(scale, _)| *scale);
    let scale = match policy {
        0 => return Ok(stretched),
        -1 => scales.fold(f64::INFINITY, f64::min),
        _ => scales.fold(0.0, f64::max),
    };
    axes.iter()
        .map(|axis| Ok((scale, count((scale * length(*axis) + 0.5).floor(), scale)?)))
        .collect()
}

/// The maps of the dimensions, and the sizes they lead to.
fn steps(call: &Call<'_>, x: &Layout) -> Result<(Steps, Dims)> {
    let axes = axes(call, 12, x.rank())?;
    let scaled = scaled(call, x, &axes)?;
    let roi = numbers(call, 1)?;
    let modes = [
        ("half_pixel", Coordinates::HalfPixel),
        ("half_pixel_symmetric", Coordinates::HalfPixelSymmetric),
        ("pytorch_half_pixel", Coordinates::PytorchHalfPixel),
        ("align_corners", Coordinates::AlignCorners),
        ("asymmetric", Coordinates::Asymmetric),
        ("tf_crop_and_resize", Coordinates::Crop(0.0, 1.0)),
    ];
    let coordinates = choice(call, 5, &modes)?;
    let nearest = [
        ("round_prefer_floor", NearestMode::RoundPreferFloor),
        ("round_prefer_ceil", NearestMode::RoundPreferCeil),
        ("floor", NearestMode::Floor),
        ("ceil", NearestMode::Ceil),
    ];
    let methods = [
        ("nearest", Method::Nearest(choice(call, 10, &nearest)?)),
        ("linear", Method::Linear),
        ("cubic", Method::Cubic(call.float(6)?)),
    ];
    let (method, antialias) = (choice(call, 9, &methods)?, call.flag(11)?);
    if antialias && matches!(method, Method::Nearest(_)) {
        let (name, mode) = (call.parameter(11), call.parameter(9));
        return Err(Error::invalid(format!("{name} = 1 is not possible where {mode} is nearest")));
    }
    if let Coordinates::Crop(..) = coordinates {
        let roi = roi.as_deref().unwrap_or_default();
        expect_count(call, 1, roi, 2 * axes.len())?;
    }
    let exclude_outside = call.flag(7)?;
    let (mut dims, mut steps) = (Dims::new(x.dims()), Steps::new());
    for (at, (axis, (scale, output))) in axes.iter().zip(scaled).enumerate() {
        let coordinates = match (coordinates, &roi) {
            (Coordinates::Crop(..), Some(roi)) => Coordinates::Crop(roi[at], roi[axes.len() + at]),
            (other, _) => other,
        };
        let resize = Resize { coordinates, method, scale, antialias, exclude_outside };
        steps.push((*axis, Taps { rule: Rule::Resize(resize), input: dims[*axis], output }));
        dims[*axis] = output;
    }
    Ok((steps, dims))
}

/// The parts of an output whose positions lie outside of the input.
fn outside(out: &Operand, steps: &Steps) -> SmallVec<[Operand; 4]> {
    let mut parts = SmallVec::new();
    for (dim, Taps { rule, input, output }) in steps {
        let Rule::Resize(resize) = rule else { continue };
        let is_outside = |at: &usize| resize.is_outside(*at, *input, *output);
        let before = (0..*output).take_while(is_outside).count();
        let after = (before..*output).rev().take_while(is_outside).count();
        for (start, count) in [(0, before), (output - after, after)] {
            if count > 0 {
                parts.push(out.with_layout(out.sliced(*dim, start, count, 1)));
            }
        }
    }
    parts
}

/// The least and the greatest number of an integer type; `None` for others.
fn limits(dtype: DType) -> Option<(f64, f64)> {
    Some(match dtype {
        DType::Int8 => (i8::MIN.into(), i8::MAX.into()),
        DType::Uint8 => (u8::MIN.into(), u8::MAX.into()),
        DType::Int16 => (i16::MIN.into(), i16::MAX.into()),
        DType::Int32 => (i32::MIN.into(), i32::MAX.into()),
        DType::Int64 => (i64::MIN as f64, i64::MAX as f64),
        _ => return None,
    })
}

/// Arguments: x, region, scales, sizes, out, coordinates, steepness of cubic curves, whether what is outside has no
/// weight, the value outside of a region, method, which is nearest, whether to smooth, axes, whether sizes keep their
/// proportions.
fn resize(call: &mut Call<'_>) -> Result<Plan> {
    let out = call.output(4)?;
    let x = call.read(0, &[&out])?;
    call.expect_same(4, &out, 0, &x)?;
    let (steps, dims) = steps(call, &x)?;
    call.expect_dims(4, &out, &dims)?;
    if out.count() == 0 {
        return call.nothing();
    }
    if x.count() == 0 {
        let (name, have) = (call.parameter(0), x.dims());
        return Err(Error::invalid(format!("{name} {have:?} has no elements to make {dims:?} of")));
    }
    let value = call.float(8)?;
    let value = match limits(out.dtype) {
        Some((low, high)) => {
            Scalar::Int(value.round_ties_even().clamp(low, high) as i64, DType::Int64)
        }
        None => value.into(),
    };
    let outside = outside(&out, &steps);
    let is_nearest = steps.iter().all(|(_, taps)| taps.source(0).is_some());
    if is_nearest {
        let remapping = call.remapping(&steps);
        return call.plan(move |memory| {
            remapping.run(memory, memory.out(&out), x.view(memory));
            outside.iter().for_each(|part| fill_scalar(memory.parallel, memory.out(part), value));
            Ok(())
        });
    }
    call.expect_dtype(0, &x, TYPES)?;
    summed(call, x, out, &steps, outside, value)
}

/// The plan of weighted sums; integers are rounded.
fn summed(
    call: &mut Call<'_>,
    x: UnaliasedInput,
    out: Operand,
    steps: &Steps,
    outside: SmallVec<[Operand; 4]>,
    value: Scalar,
) -> Result<Plan> {
    let limits = limits(out.dtype);
    let dtype = match out.dtype {
        DType::Double | DType::Int32 | DType::Int64 => DType::Double,
        _ => DType::Float,
    };
    let resampling = call.resampling(&x.with_dtype(dtype), steps, false);
    let sums = limits.map(|limits| (limits, call.scratch(dtype, out.dims())));
    call.plan(move |memory| {
        let (x, to) = (x.view(memory), memory.out(&out));
        match &sums {
            None => resampling.run(memory, to, x),
            Some(((low, high), sums)) => {
                let (low, high, sums) = (*low, *high, memory.scratch(sums));
                resampling.run(memory, sums, x);
                let round = move |x: f64| x.round_ties_even().clamp(low, high);
                map1::<f64, f64>(memory.parallel, to, sums.view(), round);
            }
        }
        outside.iter().for_each(|part| fill_scalar(memory.parallel, memory.out(part), value));
        Ok(())
    })
}

fn resize_output(call: &Call<'_>) -> Result<Vec<Layout>> {
    let x = call.layout(0)?;
    Ok(vec![Layout::contiguous(x.dtype, &steps(call, &x)?.1)])
}

/// The operators of this family by IR name.
pub const NODES: &[Node] = &[node(
    "Resize",
    &["x", "roi?", "scales?", "sizes?"],
    &["y"],
    Infer::By(resize_output),
    resize,
    &[
        A(0),
        A(1),
        A(2),
        A(3),
        O(0),
        Attr("coordinate_transformation_mode", AttrDefault::Text("half_pixel")),
        Attr("cubic_coeff_a", AttrDefault::Float(-0.75)),
        Attr("exclude_outside", AttrDefault::Int(0)),
        Attr("extrapolation_value", AttrDefault::Float(0.0)),
        Attr("mode", AttrDefault::Text("nearest")),
        Attr("nearest_mode", AttrDefault::Text("round_prefer_floor")),
        Attr("antialias", AttrDefault::Int(0)),
        Attr("axes", AttrDefault::Ints(&[])),
        Attr("keep_aspect_ratio_policy", AttrDefault::Text("stretch")),
    ],
)
.needs_values(&[1, 2, 3])];
