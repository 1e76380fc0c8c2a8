//! Numbers of eight and sixteen bits that stand for real ones, and products of them.

use super::Converters;
use super::convolution::convolve;
use crate::ir::Attrs;
use crate::onnx::builder::Value;
use crate::onnx::conversion::{Conversion, attrs, axis};
use cairn_tensor::DType;

pub const CONVERTERS: Converters = &[
    ("ConvInteger", conv_integer),
    ("DequantizeLinear", dequantize_linear),
    ("DynamicQuantizeLinear", dynamic_quantize_linear),
    ("MatMulInteger", matmul_integer),
    ("QLinearConv", q_linear_conv),
    ("QLinearMatMul", q_linear_matmul),
    ("QuantizeLinear", quantize_linear),
];

type Converted = Result<Vec<Value>, String>;

/// The least and the greatest number of a type.
fn bounds(dtype: DType) -> Result<(f64, f64), String> {
    Ok(match dtype {
        DType::Uint8 => (0.0, 255.0),
        DType::Int8 => (-128.0, 127.0),
        DType::Uint16 => (0.0, 65535.0),
        DType::Int16 => (-32768.0, 32767.0),
        DType::Int32 => (f64::from(i32::MIN), f64::from(i32::MAX)),
        other => return Err(format!("quantization to {other} is not supported")),
    })
}

/// A scale or zero point so that it broadcasts over x: one for all, by axis, or by block of an axis.
fn spread(node: &mut Conversion<'_>, x: &Value, value: &Value) -> Result<Value, String> {
    let rank = node.rank(x)?;
    match value.rank() {
        Some(0) => return Ok(value.clone()),
        Some(1) if node.known_dims_at(value, 0) == Ok(1) || rank == 1 => return Ok(value.clone()),
        _ => {}
    }
    let along = axis(node.int("axis", 1), rank)?;
    if value.rank() == Some(1) {
        let axes: Vec<i64> = (1..(rank - along) as i64).collect();
        return match axes.is_empty() {
            true => Ok(value.clone()),
            false => node.add("Unsqueeze", &[value], attrs([("axes", axes.into())])),
        };
    }
    let block = node.int("block_size", 0);
    if block <= 0 {
        return Err(format!(
            "its scale has {:?} dimensions and block_size is {block}",
            value.rank()
        ));
    }
    let dims = node.known_dims(x, "its input")?;
    let blocks = node.known_dims(value, "its scale")?;
    let mut apart = blocks.clone();
    apart.insert(along + 1, 1);
    let mut repeated = apart.clone();
    repeated[along + 1] = block;
    let mut merged = blocks;
    merged[along] *= block;
    let apart = node.int_list(&apart);
    let value = node.add("Reshape", &[value, &apart], Attrs::new())?;
    let repeated = node.int_list(&repeated);
    let value = node.add("BroadcastTo", &[&value, &repeated], Attrs::new())?;
    let sizes = node.int_list(&merged);
    let value = node.add("Reshape", &[&value, &sizes], Attrs::new())?;
    if merged[along] == dims[along] {
        return Ok(value);
    }
    let (starts, lengths) = (node.int_list(&vec![0; rank]), node.int_list(&dims));
    node.add("Slice", &[&value, &starts, &lengths], Attrs::new())
}

/// Rounds to the nearest number of a type, ties to even.
fn saturate(node: &mut Conversion<'_>, x: &Value, dtype: DType) -> Result<Value, String> {
    let (low, high) = bounds(dtype)?;
    let (low, high) = (node.scalar(x.dtype(), low)?, node.scalar(x.dtype(), high)?);
    let x = node.add("Maximum", &[x, &low], Attrs::new())?;
    let x = node.add("Minimum", &[&x, &high], Attrs::new())?;
    node.cast(&x, dtype)
}

fn quantize_linear(node: &mut Conversion<'_>) -> Converted {
    let (x, scale, zero) = (node.input(0)?, node.input(1)?, node.optional(2));
    let to = match (&zero, node.dtype("output_dtype")?) {
        (Some(zero), _) => zero.dtype(),
        (None, Some(dtype)) => dtype,
        (None, None) => DType::Uint8,
    };
    let precision = match node.dtype("precision")? {
        Some(dtype) => dtype,
        None => scale.dtype(),
    };
    let precision = if precision == DType::Double { DType::Double } else { DType::Float };
    let value = node.cast(&x, precision)?;
    let scale = node.cast(&scale, precision)?;
    let scale = spread(node, &x, &scale)?;
    let ratio = node.add("RealDiv", &[&value, &scale], Attrs::new())?;
    let mut rounded = node.add("Round", &[&ratio], Attrs::new())?;
    if let Some(zero) = zero {
        let zero = node.cast(&zero, precision)?;
        let zero = spread(node, &x, &zero)?;
        rounded = node.add("Add", &[&rounded, &zero], Attrs::new())?;
    }
    Ok(vec![saturate(node, &rounded, to)?])
}

/// (x - zero point) * scale.
fn dequantize(
    node: &mut Conversion<'_>,
    x: &Value,
    scale: &Value,
    zero: Option<&Value>,
) -> Result<Value, String> {
    let wide = if scale.dtype() == DType::Double { DType::Double } else { DType::Float };
    let scale = node.cast(scale, wide)?;
    let scale = spread(node, x, &scale)?;
    let mut value = node.cast(x, wide)?;
    if let Some(zero) = zero {
        let zero = node.cast(zero, wide)?;
        let zero = spread(node, x, &zero)?;
        value = node.add("Sub", &[&value, &zero], Attrs::new())?;
    }
    node.add("Mul", &[&value, &scale], Attrs::new())
}

fn dequantize_linear(node: &mut Conversion<'_>) -> Converted {
    let (x, scale, zero) = (node.input(0)?, node.input(1)?, node.optional(2));
    let to = node.dtype("output_dtype")?.unwrap_or(scale.dtype());
    let value = dequantize(node, &x, &scale, zero.as_ref())?;
    Ok(vec![node.cast(&value, to)?])
}

/// Scale and zero point that make the most of 0 to 255, and x in them.
fn dynamic_quantize_linear(node: &mut Conversion<'_>) -> Converted {
    let x = node.input(0)?;
    let axes: Vec<i64> = (0..node.rank(&x)? as i64).collect();
    let axes = node.int_list(&axes);
    let zero = node.scalar(DType::Float, 0.0)?;
    let low = node.add("ReduceMin", &[&x, &axes], Attrs::new())?;
    let low = node.add("Minimum", &[&low, &zero], Attrs::new())?;
    let high = node.add("ReduceMax", &[&x, &axes], Attrs::new())?;
    let high = node.add("Maximum", &[&high, &zero], Attrs::new())?;
    let range = node.add("Sub", &[&high, &low], Attrs::new())?;
    let steps = node.scalar(DType::Float, 255.0)?;
    let scale = node.add("RealDiv", &[&range, &steps], Attrs::new())?;
    let offset = node.add("RealDiv", &[&low, &scale], Attrs::new())?;
    let offset = node.add("Neg", &[&offset], Attrs::new())?;
    let offset = node.add("Maximum", &[&offset, &zero], Attrs::new())?;
    let offset = node.add("Minimum", &[&offset, &steps], Attrs::new())?;
    let offset = node.add("Round", &[&offset], Attrs::new())?;
    let ratio = node.add("RealDiv", &[&x, &scale], Attrs::new())?;
    let ratio = node.add("Round", &[&ratio], Attrs::new())?;
    let moved = node.add("Add", &[&ratio, &offset], Attrs::new())?;
    let y = saturate(node, &moved, DType::Uint8)?;
    let zero_point = node.cast(&offset, DType::Uint8)?;
    Ok(vec![y, scale, zero_point])
}

/// x minus its zero point, as whole numbers; `by_rows` says that one for each row is of the first of two matrices.
fn centered(
    node: &mut Conversion<'_>,
    x: &Value,
    zero: Option<&Value>,
    by_rows: bool,
) -> Result<Value, String> {
    let value = node.cast(x, DType::Int32)?;
    let Some(zero) = zero else { return Ok(value) };
    let mut zero = node.cast(zero, DType::Int32)?;
    if by_rows && zero.rank() == Some(1) && node.known_dims_at(&zero, 0) != Ok(1) {
        zero = node.add("Unsqueeze", &[&zero], attrs([("axes", vec![1i64].into())]))?;
    }
    node.add("Sub", &[&value, &zero], Attrs::new())
}

/// The product of whole numbers, exact as long as it is below 2 to the 53rd.
fn exact_product(node: &mut Conversion<'_>, a: &Value, b: &Value) -> Result<Value, String> {
    let (a, b) = (node.cast(a, DType::Double)?, node.cast(b, DType::Double)?);
    node.add("BatchMatMulV2", &[&a, &b], Attrs::new())
}

fn matmul_integer(node: &mut Conversion<'_>) -> Converted {
    let (a, b) = (node.input(0)?, node.input(1)?);
    let (zero_a, zero_b) = (node.optional(2), node.optional(3));
    let a = centered(node, &a, zero_a.as_ref(), true)?;
    let b = centered(node, &b, zero_b.as_ref(), false)?;
    let product = exact_product(node, &a, &b)?;
    Ok(vec![node.cast(&product, DType::Int32)?])
}

/// The product of quantized matrices, quantized again.
fn q_linear_matmul(node: &mut Conversion<'_>) -> Converted {
    let (a, scale_a, zero_a) = (node.input(0)?, node.input(1)?, node.input(2)?);
    let (b, scale_b, zero_b) = (node.input(3)?, node.input(4)?, node.input(5)?);
    let (scale, zero) = (node.input(6)?, node.input(7)?);
    let a = centered(node, &a, Some(&zero_a), true)?;
    let b = centered(node, &b, Some(&zero_b), false)?;
    let product = exact_product(node, &a, &b)?;
    let wide = |node: &mut Conversion<'_>, value: &Value| node.cast(value, DType::Double);
    let (scale_a, scale_b) = (wide(node, &scale_a)?, wide(node, &scale_b)?);
    let both = node.add("Mul", &[&scale_a, &scale_b], Attrs::new())?;
    let scale = wide(node, &scale)?;
    let factor = node.add("RealDiv", &[&both, &scale], Attrs::new())?;
    let scaled = node.add("Mul", &[&product, &factor], Attrs::new())?;
    let rounded = node.add("Round", &[&scaled], Attrs::new())?;
    let offset = wide(node, &zero)?;
    let moved = node.add("Add", &[&rounded, &offset], Attrs::new())?;
    Ok(vec![saturate(node, &moved, zero.dtype())?])
}

/// x minus its zero point, in `float`, which holds whole numbers up to 2 to the 24th.
fn centered_filter(
    node: &mut Conversion<'_>,
    x: &Value,
    zero: Option<&Value>,
) -> Result<Value, String> {
    let value = node.cast(x, DType::Float)?;
    let Some(zero) = zero else { return Ok(value) };
    let mut zero = node.cast(zero, DType::Float)?;
    if zero.rank() == Some(1) && node.known_dims_at(&zero, 0) != Ok(1) {
        let axes: Vec<i64> = (1..node.rank(x)? as i64).collect();
        zero = node.add("Unsqueeze", &[&zero], attrs([("axes", axes.into())]))?;
    }
    node.add("Sub", &[&value, &zero], Attrs::new())
}

fn conv_integer(node: &mut Conversion<'_>) -> Converted {
    let (x, filter) = (node.input(0)?, node.input(1)?);
    let (zero_x, zero_filter) = (node.optional(2), node.optional(3));
    let x = centered_filter(node, &x, zero_x.as_ref())?;
    let filter = centered_filter(node, &filter, zero_filter.as_ref())?;
    let y = convolve(node, x, filter, None)?;
    Ok(vec![node.cast(&y, DType::Int32)?])
}

/// A convolution of quantized numbers, quantized again.
fn q_linear_conv(node: &mut Conversion<'_>) -> Converted {
    let (x, scale_x, zero_x) = (node.input(0)?, node.input(1)?, node.input(2)?);
    let (filter, scale_filter, zero_filter) = (node.input(3)?, node.input(4)?, node.input(5)?);
    let (scale, zero, bias) = (node.input(6)?, node.input(7)?, node.optional(8));
    let rank = node.rank(&x)?;
    let x = centered_filter(node, &x, Some(&zero_x))?;
    let filter = centered_filter(node, &filter, Some(&zero_filter))?;
    let bias = match bias {
        Some(bias) => Some(node.cast(&bias, DType::Float)?),
        None => None,
    };
    let sums = convolve(node, x, filter, bias.as_ref())?;
    let mut factor = node.add("Mul", &[&scale_x, &scale_filter], Attrs::new())?;
    factor = node.add("RealDiv", &[&factor, &scale], Attrs::new())?;
    if factor.rank() == Some(1) && node.known_dims_at(&factor, 0) != Ok(1) {
        let axes: Vec<i64> = (1..rank as i64 - 1).collect();
        factor = node.add("Unsqueeze", &[&factor], attrs([("axes", axes.into())]))?;
    }
    let scaled = node.add("Mul", &[&sums, &factor], Attrs::new())?;
    let rounded = node.add("Round", &[&scaled], Attrs::new())?;
    let offset = node.cast(&zero, DType::Float)?;
    let moved = node.add("Add", &[&rounded, &offset], Attrs::new())?;
    Ok(vec![saturate(node, &moved, zero.dtype())?])
}
