//! Normalization, and dropout.

use super::Converters;
use crate::ir::{Attrs, Constant, Desc};
use crate::onnx::builder::Value;
use crate::onnx::conversion::{Conversion, attrs, axis};
use cairn_tensor::DType;

pub const CONVERTERS: Converters = &[
    ("BatchNormalization", batch_normalization),
    ("Dropout", dropout),
    ("GroupNormalization", group_normalization),
    ("InstanceNormalization", instance_normalization),
    ("LayerNormalization", layer_normalization),
    ("MeanVarianceNormalization", mean_variance_normalization),
    ("RMSNormalization", rms_normalization),
];

type Converted = Result<Vec<Value>, String>;

/// Mean and variance over some axes, which stay with size 1.
struct Moments {
    mean: Value,
    variance: Value,
    /// x minus its mean.
    centered: Value,
}

impl Moments {
    fn of(node: &mut Conversion<'_>, x: &Value, axes: &[i64]) -> Result<Moments, String> {
        let axes = node.int_list(axes);
        let keep = || attrs([("keep_dims", true.into())]);
        let mean = node.add("ReduceMean", &[x, &axes], keep())?;
        let centered = node.add("Sub", &[x, &mean], Attrs::new())?;
        let squares = node.add("Mul", &[&centered, &centered], Attrs::new())?;
        let variance = node.add("ReduceMean", &[&squares, &axes], keep())?;
        Ok(Moments { mean, variance, centered })
    }
}

/// 1 / sqrt(variance + epsilon).
fn inverse_deviation(
    node: &mut Conversion<'_>,
    variance: &Value,
    epsilon: f32,
) -> Result<Value, String> {
    let epsilon = node.scalar(variance.dtype(), epsilon.into())?;
    let shifted = node.add("Add", &[variance, &epsilon], Attrs::new())?;
    node.add("Rsqrt", &[&shifted], Attrs::new())
}

/// A value for each channel, so that it broadcasts over positions.
fn by_channel(node: &mut Conversion<'_>, value: &Value, rank: usize) -> Result<Value, String> {
    let axes: Vec<i64> = (1..rank as i64 - 1).collect();
    match axes.is_empty() {
        true => Ok(value.clone()),
        false => node.add("Unsqueeze", &[value], attrs([("axes", axes.into())])),
    }
}

/// x * scale + bias.
fn scale_and_shift(
    node: &mut Conversion<'_>,
    x: &Value,
    scale: &Value,
    bias: Option<&Value>,
) -> Result<Value, String> {
    let scaled = node.add("Mul", &[x, scale], Attrs::new())?;
    match bias {
        Some(bias) => node.add("Add", &[&scaled, bias], Attrs::new()),
        None => Ok(scaled),
    }
}

/// In training the statistics are the batch's, and the running ones move towards them.
fn batch_normalization(node: &mut Conversion<'_>) -> Converted {
    let x = node.input(0)?;
    let (scale, bias, mean, variance) =
        (node.input(1)?, node.input(2)?, node.input(3)?, node.input(4)?);
    let epsilon = node.float("epsilon", 1e-5);
    let is_training = node.int("training_mode", 0) != 0;
    let rank = node.rank(&x)?;
    if !is_training {
        let is_plain = [&scale, &bias, &mean, &variance].iter().all(|one| one.dtype() == x.dtype());
        if rank == 4 && is_plain && x.dtype() == DType::Float {
            let attrs = attrs([("epsilon", epsilon.into())]);
            return Ok(vec![node.add("BNInfer", &[&x, &scale, &bias, &mean, &variance], attrs)?]);
        }
        let variance = node.cast(&variance, x.dtype())?;
        let inverse = inverse_deviation(node, &variance, epsilon)?;
        let scale = node.cast(&scale, x.dtype())?;
        let factor = node.add("Mul", &[&scale, &inverse], Attrs::new())?;
        let mean = node.cast(&mean, x.dtype())?;
        let scaled_mean = node.add("Mul", &[&mean, &factor], Attrs::new())?;
        let bias = node.cast(&bias, x.dtype())?;
        let offset = node.add("Sub", &[&bias, &scaled_mean], Attrs::new())?;
        let (factor, offset) = (by_channel(node, &factor, rank)?, by_channel(node, &offset, rank)?);
        return Ok(vec![scale_and_shift(node, &x, &factor, Some(&offset))?]);
    }
    let momentum = node.float("momentum", 0.9);
    let axes: Vec<i64> = [0].into_iter().chain(2..rank as i64).collect();
    let batch = Moments::of(node, &x, &axes)?;
    let inverse = inverse_deviation(node, &batch.variance, epsilon)?;
    let normal = node.add("Mul", &[&batch.centered, &inverse], Attrs::new())?;
    let (scale, bias) = (by_channel(node, &scale, rank)?, by_channel(node, &bias, rank)?);
    let y = scale_and_shift(node, &normal, &scale, Some(&bias))?;
    let mut update_running = |old: &Value, new: &Value| {
        let flat = node.int_list(&[-1]);
        let new = node.add("Reshape", &[new, &flat], Attrs::new())?;
        let new = node.cast(&new, old.dtype())?;
        let old_weight = node.scalar(old.dtype(), momentum.into())?;
        let new_weight = node.scalar(old.dtype(), f64::from(1.0 - momentum))?;
        let weighted_old = node.add("Mul", &[old, &old_weight], Attrs::new())?;
        let weighted_new = node.add("Mul", &[&new, &new_weight], Attrs::new())?;
        node.add("Add", &[&weighted_old, &weighted_new], Attrs::new())
    };
    let running_mean = update_running(&mean, &batch.mean)?;
    let running_variance = update_running(&variance, &batch.variance)?;
    Ok(vec![y, running_mean, running_variance])
}

fn instance_normalization(node: &mut Conversion<'_>) -> Converted {
    let (x, scale, bias) = (node.input(0)?, node.input(1)?, node.input(2)?);
    let epsilon = node.float("epsilon", 1e-5);
    let rank = node.rank(&x)?;
    let axes: Vec<i64> = (2..rank as i64).collect();
    let moments = Moments::of(node, &x, &axes)?;
    let inverse = inverse_deviation(node, &moments.variance, epsilon)?;
    let normal = node.add("Mul", &[&moments.centered, &inverse], Attrs::new())?;
    let (scale, bias) = (by_channel(node, &scale, rank)?, by_channel(node, &bias, rank)?);
    Ok(vec![scale_and_shift(node, &normal, &scale, Some(&bias))?])
}

/// Groups of channels are normalized; scale and bias are by group before version 21, then by channel.
fn group_normalization(node: &mut Conversion<'_>) -> Converted {
    let (x, scale, bias) = (node.input(0)?, node.input(1)?, node.input(2)?);
    let epsilon = node.float("epsilon", 1e-5);
    let groups = node.int("num_groups", 1);
    let rank = node.rank(&x)?;
    let channels = node.known_dims_at(&x, 1)?;
    if groups <= 0 || channels % groups != 0 {
        return Err(format!("num_groups {groups} does not divide {channels} channels"));
    }
    let int64 = DType::Int64 as i64;
    let sizes = node.add("Shape", &[&x], attrs([("dtype", int64.into())]))?;
    let batch = match x.dims().map(|dims| dims[0]) {
        Some(batch) if batch >= 0 => batch,
        _ => 0,
    };
    let grouped = match batch > 0 {
        true => node.int_list(&[batch, groups, -1]),
        false => return Err("the size of the batch is not known".to_owned()),
    };
    let parts = node.add("Reshape", &[&x, &grouped], Attrs::new())?;
    let moments = Moments::of(node, &parts, &[2])?;
    let inverse = inverse_deviation(node, &moments.variance, epsilon)?;
    let mut normal = node.add("Mul", &[&moments.centered, &inverse], Attrs::new())?;
    if node.opset < 21 {
        let with_last_dimension = |node: &mut Conversion<'_>, value: &Value| {
            node.add("Unsqueeze", &[value], attrs([("axes", vec![1i64].into())]))
        };
        let (scale, bias) = (with_last_dimension(node, &scale)?, with_last_dimension(node, &bias)?);
        normal = scale_and_shift(node, &normal, &scale, Some(&bias))?;
        return Ok(vec![node.add("Reshape", &[&normal, &sizes], Attrs::new())?]);
    }
    let normal = node.add("Reshape", &[&normal, &sizes], Attrs::new())?;
    let (scale, bias) = (by_channel(node, &scale, rank)?, by_channel(node, &bias, rank)?);
    Ok(vec![scale_and_shift(node, &normal, &scale, Some(&bias))?])
}

/// The type that statistics are computed in: `float` for narrower ones.
fn stash_type(node: &Conversion<'_>, x: &Value) -> Result<DType, String> {
    match node.dtype("stash_type")?.unwrap_or(DType::Float) {
        _ if x.dtype() == DType::Double => Ok(DType::Double),
        dtype => Ok(dtype),
    }
}

fn layer_normalization(node: &mut Conversion<'_>) -> Converted {
    let (x, scale, bias) = (node.input(0)?, node.input(1)?, node.optional(2));
    let epsilon = node.float("epsilon", 1e-5);
    let rank = node.rank(&x)?;
    let from = axis(node.int("axis", -1), rank)?;
    let normalized = x.dims().unwrap_or_default()[from..].to_vec();
    let fits = |value: &Value| value.dims() == Some(&normalized[..]) && value.dtype() == x.dtype();
    if normalized.iter().all(|dim| *dim >= 0)
        && fits(&scale)
        && bias.as_ref().is_none_or(fits)
        && x.dtype() == DType::Float
    {
        let sizes = node.int_list(&normalized);
        let inputs = [Some(&x), Some(&sizes), Some(&scale), bias.as_ref()];
        return node.add_several("LayerNormV4", &inputs, attrs([("epsilon", epsilon.into())]), 3);
    }
    let compute_type = stash_type(node, &x)?;
    let value = node.cast(&x, compute_type)?;
    let axes: Vec<i64> = (from as i64..rank as i64).collect();
    let moments = Moments::of(node, &value, &axes)?;
    let inverse = inverse_deviation(node, &moments.variance, epsilon)?;
    let normal = node.add("Mul", &[&moments.centered, &inverse], Attrs::new())?;
    let normal = node.cast(&normal, x.dtype())?;
    let y = scale_and_shift(node, &normal, &scale, bias.as_ref())?;
    Ok(vec![y, moments.mean, inverse])
}

/// x over the root of the mean of its squares, times a scale.
fn rms_normalization(node: &mut Conversion<'_>) -> Converted {
    let (x, scale) = (node.input(0)?, node.input(1)?);
    let epsilon = node.float("epsilon", 1e-5);
    let rank = node.rank(&x)?;
    let from = axis(node.int("axis", -1), rank)?;
    let normalized = x.dims().unwrap_or_default()[from..].to_vec();
    if scale.dims() == Some(&normalized[..])
        && normalized.iter().all(|dim| *dim >= 0)
        && x.dtype() == DType::Float
        && scale.dtype() == DType::Float
    {
        return Ok(vec![node.add(
            "RmsNorm",
            &[&x, &scale],
            attrs([("epsilon", epsilon.into())]),
        )?]);
    }
    let compute_type = stash_type(node, &x)?;
    let value = node.cast(&x, compute_type)?;
    let squares = node.add("Mul", &[&value, &value], Attrs::new())?;
    let axes: Vec<i64> = (from as i64..rank as i64).collect();
    let axes = node.int_list(&axes);
    let means = node.add("ReduceMean", &[&squares, &axes], attrs([("keep_dims", true.into())]))?;
    let inverse = inverse_deviation(node, &means, epsilon)?;
    let normal = node.add("Mul", &[&value, &inverse], Attrs::new())?;
    let normal = node.cast(&normal, scale.dtype())?;
    Ok(vec![node.add("Mul", &[&normal, &scale], Attrs::new())?])
}

/// (x - mean) / (deviation + 1e-9) over axes of batch and positions.
fn mean_variance_normalization(node: &mut Conversion<'_>) -> Converted {
    let x = node.input(0)?;
    let axes = node.ints("axes").unwrap_or_else(|| vec![0, 2, 3]);
    let moments = Moments::of(node, &x, &axes)?;
    let deviation = node.add("Sqrt", &[&moments.variance], Attrs::new())?;
    let epsilon = node.scalar(x.dtype(), 1e-9)?;
    let divisor = node.add("Add", &[&deviation, &epsilon], Attrs::new())?;
    Ok(vec![node.add("RealDiv", &[&moments.centered, &divisor], Attrs::new())?])
}

/// Outside of training nothing is dropped.
fn dropout(node: &mut Conversion<'_>) -> Converted {
    let x = node.input(0)?;
    let is_training = match node.optional(2) {
        None => false,
        Some(flag) => match flag.ints().as_deref() {
            Some([value]) => *value != 0,
            _ => return Err("input 2 (training_mode) is not a constant".to_owned()),
        },
    };
    let ratio = match node.optional(1) {
        None => 0.5,
        Some(ratio) => match ratio.floats().as_deref() {
            Some([ratio]) => *ratio,
            _ if is_training => return Err("input 1 (ratio) is not a constant".to_owned()),
            _ => 0.0,
        },
    };
    let full_mask = |node: &mut Conversion<'_>, x: &Value| {
        let int64 = DType::Int64 as i64;
        let sizes = node.add("Shape", &[x], attrs([("dtype", int64.into())]))?;
        let desc = Desc::new(DType::Bool, &[]);
        let true_value = node.constant(Constant { desc, bytes: vec![1u8].into() });
        node.add("Fill", &[&sizes, &true_value], Attrs::new())
    };
    if !is_training || ratio == 0.0 {
        let mut outputs = vec![x.clone()];
        if node.wants_output(1) {
            outputs.push(full_mask(node, &x)?);
        }
        return Ok(outputs);
    }
    let int64 = DType::Int64 as i64;
    let sizes = node.add("Shape", &[&x], attrs([("dtype", int64.into())]))?;
    let seed = node.int("seed", 0);
    let key = node.uint_list(&[seed as u64]);
    let counter = node.uint_list(&[0, 0]);
    let algorithm = node.scalar(DType::Int32, 1.0)?;
    let uniform = node.add(
        "StatelessRandomUniformV2",
        &[&sizes, &key, &counter, &algorithm],
        attrs([("dtype", DType::Float.into())]),
    )?;
    let threshold = node.scalar(DType::Float, ratio)?;
    let mask = node.add("GreaterEqual", &[&uniform, &threshold], Attrs::new())?;
    let factor = node.scalar(x.dtype(), 1.0 / (1.0 - ratio))?;
    let zero = node.scalar(x.dtype(), 0.0)?;
    let scaled = node.add("Mul", &[&x, &factor], Attrs::new())?;
    let y = node.add("SelectV2", &[&mask, &scaled, &zero], Attrs::new())?;
    Ok(vec![y, mask])
}
