//! Grids, boxes and columns of images.

use super::Converters;
use crate::ir::Attrs;
use crate::onnx::builder::Value;
use crate::onnx::conversion::{Conversion, attrs};
use cairn_tensor::DType;

pub const CONVERTERS: Converters = &[
    ("AffineGrid", affine_grid),
    ("BitCast", bit_cast),
    ("GridSample", grid_sample),
    ("MaxRoiPool", max_roi_pool),
    ("MaxUnpool", max_unpool),
    ("NonMaxSuppression", non_max_suppression),
    ("RoiAlign", roi_align),
];

type Converted = Result<Vec<Value>, String>;

fn bit_cast(node: &mut Conversion<'_>) -> Converted {
    let x = node.input(0)?;
    let to = node.dtype("to")?.ok_or("the attribute to is missing")?;
    Ok(vec![node.add("Bitcast", &[&x], attrs([("type", to.into())]))?])
}

/// Positions from -1 to 1 along an axis: of the corners, or of the middles of as many cells.
fn positions(
    node: &mut Conversion<'_>,
    count: &Value,
    align_corners: bool,
    dtype: DType,
) -> Result<Value, String> {
    let (zero, one) = (node.scalar(DType::Int64, 0.0)?, node.scalar(DType::Int64, 1.0)?);
    let steps = node.add("Range", &[&zero, count, &one], Attrs::new())?;
    let (steps, count) = (node.cast(&steps, dtype)?, node.cast(count, dtype)?);
    let (two, unit) = (node.scalar(dtype, 2.0)?, node.scalar(dtype, 1.0)?);
    let doubled = node.add("Mul", &[&steps, &two], Attrs::new())?;
    let (above, below) = match align_corners {
        true => {
            let cells = node.add("Sub", &[&count, &unit], Attrs::new())?;
            (doubled, node.add("Maximum", &[&cells, &unit], Attrs::new())?)
        }
        false => (node.add("Add", &[&doubled, &unit], Attrs::new())?, count),
    };
    let ratio = node.add("RealDiv", &[&above, &below], Attrs::new())?;
    node.add("Sub", &[&ratio, &unit], Attrs::new())
}

/// A grid of positions, moved by a matrix for each image.
fn affine_grid(node: &mut Conversion<'_>) -> Converted {
    let (theta, sizes) = (node.input(0)?, node.input(1)?);
    let align_corners = node.int("align_corners", 0) != 0;
    let spatial = match node.known_dims_at(&sizes, 0)? {
        4 => 2,
        5 => 3,
        other => return Err(format!("size has {other} numbers: expected 4 or 5")),
    };
    let sizes = node.cast(&sizes, DType::Int64)?;
    let dtype = theta.dtype();
    let mut axes = Vec::new();
    for at in 0..spatial {
        let index = node.scalar(DType::Int64, (2 + at) as f64)?;
        let first = node.int_list(&[0]);
        let count = node.add("GatherV2", &[&sizes, &index, &first], Attrs::new())?;
        let line = positions(node, &count, align_corners, dtype)?;
        let others: Vec<i64> = (0..=spatial).filter(|dim| *dim != at + 1).collect();
        axes.push(node.add("Unsqueeze", &[&line], attrs([("axes", others.into())]))?);
    }
    axes.reverse();
    let mut coordinates = Vec::new();
    for row in 0..spatial {
        let entry = |node: &mut Conversion<'_>, column: i64| {
            let starts = node.int_list(&[row, column]);
            let ends = node.int_list(&[row + 1, column + 1]);
            let both = node.int_list(&[1, 2]);
            let inputs = [Some(&theta), Some(&starts), Some(&ends), Some(&both)];
            let entry = node.add_several("StridedSliceV2", &inputs, Attrs::new(), 1)?.remove(0);
            match spatial {
                2 => Ok::<_, String>(entry),
                _ => node.add("Unsqueeze", &[&entry], attrs([("axes", vec![3i64].into())])),
            }
        };
        let mut sum = entry(node, spatial)?;
        for (column, axis) in axes.iter().enumerate() {
            let factor = entry(node, column as i64)?;
            let moved = node.add("Mul", &[&factor, axis], Attrs::new())?;
            sum = node.add("Add", &[&sum, &moved], Attrs::new())?;
        }
        let last = attrs([("axes", vec![spatial + 1].into())]);
        coordinates.push(node.add("Unsqueeze", &[&sum], last)?);
    }
    let parts: Vec<&Value> = coordinates.iter().collect();
    let join = attrs([("concat_dim", (spatial + 1).into()), ("N", spatial.into())]);
    Ok(vec![node.add("ConcatD", &parts, join)?])
}

fn grid_sample(node: &mut Conversion<'_>) -> Converted {
    let (x, grid) = (node.input(0)?, node.input(1)?);
    let mode = node.text("mode", "linear");
    node.expect_text("mode", &mode, &["linear", "nearest", "cubic", "bilinear", "bicubic"])?;
    let padding = node.text("padding_mode", "zeros");
    node.expect_text("padding_mode", &padding, &["zeros", "border", "reflection"])?;
    let mode = match mode.as_str() {
        "linear" | "bilinear" => "bilinear",
        "nearest" => "nearest",
        _ => "bicubic",
    };
    let align_corners = node.int("align_corners", 0) != 0;
    let kind = if node.rank(&x)? == 5 { "GridSampler3D" } else { "GridSampler2D" };
    let mut numbers = attrs([
        ("interpolation_mode", mode.into()),
        ("padding_mode", padding.as_str().into()),
        ("align_corners", align_corners.into()),
    ]);
    if kind == "GridSampler3D" {
        numbers.insert("data_format".to_owned(), "NCDHW".into());
    }
    Ok(vec![node.add(kind, &[&x, &grid], numbers)?])
}

/// Elements go back to where a pool found them.
fn max_unpool(node: &mut Conversion<'_>) -> Converted {
    let (x, indices) = (node.input(0)?, node.input(1)?);
    let dims = node.known_dims(&x, "its input")?;
    let kernel = node.ints("kernel_shape").ok_or("the attribute kernel_shape is missing")?;
    let rank = kernel.len();
    let strides = node.ints("strides").unwrap_or_else(|| vec![1; rank]);
    let pads = node.ints("pads").unwrap_or_else(|| vec![0; 2 * rank]);
    if dims.len() != rank + 2 || strides.len() != rank || pads.len() != 2 * rank {
        return Err(format!("kernel_shape is {kernel:?} for an input of the sizes {dims:?}"));
    }
    let mut pooled = dims[..2].to_vec();
    for at in 0..rank {
        let size = (dims[2 + at] - 1) * strides[at] + kernel[at] - pads[at] - pads[rank + at];
        pooled.push(size);
    }
    let requested = node.optional(2);
    let total: i64 = pooled.iter().product();
    let count = node.int_list(&[total]);
    let zero = node.scalar(x.dtype(), 0.0)?;
    let empty = node.add("Fill", &[&count, &zero], Attrs::new())?;
    let flat = node.int_list(&[-1]);
    let values = node.add("Reshape", &[&x, &flat], Attrs::new())?;
    let positions = node.add("Reshape", &[&indices, &flat], Attrs::new())?;
    let attrs = attrs([("axis", 0i64.into()), ("reduction", "none".into())]);
    let filled = node.add("ScatterElements", &[&empty, &positions, &values], attrs)?;
    let dims = node.int_list(&pooled);
    let image = node.add("Reshape", &[&filled, &dims], Attrs::new())?;
    let Some(requested) = requested else { return Ok(vec![image]) };
    let none = node.int_list(&vec![0; pooled.len()]);
    let more = node.add("Sub", &[&requested, &dims], Attrs::new())?;
    let join = crate::onnx::conversion::attrs([("concat_dim", 0i64.into()), ("N", 2i64.into())]);
    let pads = node.add("ConcatD", &[&none, &more], join)?;
    let constant = crate::onnx::conversion::attrs([
        ("mode", "constant".into()),
        ("paddings_contiguous", false.into()),
    ]);
    Ok(vec![node.add("PadV3", &[&image, &pads, &zero], constant)?])
}

fn non_max_suppression(node: &mut Conversion<'_>) -> Converted {
    let (boxes, scores) = (node.input(0)?, node.input(1)?);
    let mut scalar = |at: usize| -> Result<Option<Value>, String> {
        let Some(value) = node.optional(at) else { return Ok(None) };
        let value = match value.dtype() {
            DType::Int64 => node.cast(&value, DType::Int32)?,
            _ => value,
        };
        match value.rank() {
            Some(0) | None => {
                let one = node.int_list(&[1]);
                node.add("Reshape", &[&value, &one], Attrs::new()).map(Some)
            }
            _ => Ok(Some(value)),
        }
    };
    let (count, overlap, score) = (scalar(2)?, scalar(3)?, scalar(4)?);
    let center = node.int("center_point_box", 0);
    let inputs = [Some(&boxes), Some(&scores), count.as_ref(), overlap.as_ref(), score.as_ref()];
    let attrs = attrs([("center_point_box", center.into())]);
    let found = node.add_several("NonMaxSuppressionV6", &inputs, attrs, 1)?.remove(0);
    let int64 = crate::onnx::conversion::attrs([("dst_type", (DType::Int64 as i64).into())]);
    Ok(vec![node.add("Cast", &[&found], int64)?])
}

/// The greatest element of each cell of a region.
fn max_roi_pool(node: &mut Conversion<'_>) -> Converted {
    let (x, rois) = (node.input(0)?, node.input(1)?);
    let shape = node.ints("pooled_shape").unwrap_or_default();
    let &[height, width] = &shape[..] else {
        return Err(format!("pooled_shape = {shape:?}: expected height and width"));
    };
    let scale = node.float("spatial_scale", 1.0);
    let attrs = attrs([
        ("pooled_h", height.into()),
        ("pooled_w", width.into()),
        ("spatial_scale_h", scale.into()),
        ("spatial_scale_w", scale.into()),
    ]);
    Ok(vec![node.add("ROIPooling", &[&x, &rois], attrs)?])
}

/// The batch of each box becomes its first number.
fn roi_align(node: &mut Conversion<'_>) -> Converted {
    let (x, boxes, batches) = (node.input(0)?, node.input(1)?, node.input(2)?);
    let mode = node.text("mode", "avg");
    node.expect_text("mode", &mode, &["avg", "max"])?;
    let default = if node.opset >= 16 { "half_pixel" } else { "output_half_pixel" };
    let transformation = node.text("coordinate_transformation_mode", default);
    let known = ["half_pixel", "output_half_pixel"];
    node.expect_text("coordinate_transformation_mode", &transformation, &known)?;
    let batches = node.cast(&batches, boxes.dtype())?;
    let batches = node.add("Unsqueeze", &[&batches], attrs([("axes", vec![1i64].into())]))?;
    let join = attrs([("concat_dim", 1i64.into()), ("N", 2i64.into())]);
    let rois = node.add("ConcatD", &[&batches, &boxes], join)?;
    let end_mode = if transformation == "half_pixel" { 2i64 } else { 0 };
    let attrs = attrs([
        ("spatial_scale", node.float("spatial_scale", 1.0).into()),
        ("pooled_height", node.int("output_height", 1).into()),
        ("pooled_width", node.int("output_width", 1).into()),
        ("sample_num", node.int("sampling_ratio", 0).into()),
        ("roi_end_mode", end_mode.into()),
        ("pool_mode", mode.as_str().into()),
    ]);
    Ok(vec![node.add("ROIAlign", &[&x, &rois], attrs)?])
}
