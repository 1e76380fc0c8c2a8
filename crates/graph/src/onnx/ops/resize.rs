//! Tensors with more or fewer positions.

use super::Converters;
use crate::ir::{Constant, Desc};
use crate::onnx::builder::Value;
use crate::onnx::conversion::{Conversion, attrs};
use cairn_tensor::DType;

pub const CONVERTERS: Converters = &[("Resize", resize), ("Upsample", upsample)];

type Converted = Result<Vec<Value>, String>;

/// Adds the node by scales alone, as operators before version 11 have it: first positions meet, and the lower of two is
/// the nearest.
fn by_scales(node: &mut Conversion<'_>, scales: &Value) -> Converted {
    let (x, mode) = (node.input(0)?, node.text("mode", "nearest"));
    let mode = if mode == "bilinear" { "linear".to_owned() } else { mode };
    node.expect_text("mode", &mode, &["nearest", "linear"])?;
    let attrs = attrs([
        ("mode", mode.as_str().into()),
        ("coordinate_transformation_mode", "asymmetric".into()),
        ("nearest_mode", "floor".into()),
    ]);
    let mut values = node.add_several("Resize", &[Some(&x), None, Some(scales)], attrs, 1)?;
    values.truncate(1);
    if let (Some(rank), Some(value)) = (x.rank(), values.first_mut()) {
        node.learn_dims(value, &vec![-1; rank]);
    }
    Ok(values)
}

fn upsample(node: &mut Conversion<'_>) -> Converted {
    let scales = match node.floats("scales") {
        Some(scales) => {
            let bytes: Vec<u8> = scales.iter().flat_map(|scale| scale.to_le_bytes()).collect();
            let desc = Desc::new(DType::Float, &[scales.len() as i64]);
            node.constant(Constant { desc, bytes: bytes.into() })
        }
        None => node.input(1)?,
    };
    by_scales(node, &scales)
}

fn resize(node: &mut Conversion<'_>) -> Converted {
    if node.opset < 11 {
        let scales = node.input(1)?;
        return by_scales(node, &scales);
    }
    let x = node.input(0)?;
    let is_there = |value: &Value| !value.dims().is_some_and(|dims| dims.contains(&0));
    let [roi, scales, sizes] = [1, 2, 3].map(|at| node.optional(at).filter(is_there));
    let coordinates = node.text("coordinate_transformation_mode", "half_pixel");
    let (mode, nearest) =
        (node.text("mode", "nearest"), node.text("nearest_mode", "round_prefer_floor"));
    let policy = node.text("keep_aspect_ratio_policy", "stretch");
    let attrs = attrs([
        ("coordinate_transformation_mode", coordinates.as_str().into()),
        ("cubic_coeff_a", node.float("cubic_coeff_a", -0.75).into()),
        ("exclude_outside", node.int("exclude_outside", 0).into()),
        ("extrapolation_value", node.float("extrapolation_value", 0.0).into()),
        ("mode", mode.as_str().into()),
        ("nearest_mode", nearest.as_str().into()),
        ("antialias", node.int("antialias", 0).into()),
        ("axes", node.ints("axes").unwrap_or_default().into()),
        ("keep_aspect_ratio_policy", policy.as_str().into()),
    ]);
    // Only a crop reads its region: others need not wait for its values.
    let roi = roi.filter(|_| coordinates == "tf_crop_and_resize");
    let inputs = [Some(&x), roi.as_ref(), scales.as_ref(), sizes.as_ref()];
    let mut values = node.add_several("Resize", &inputs, attrs, 1)?;
    values.truncate(1);
    if let (Some(rank), Some(value)) = (x.rank(), values.first_mut()) {
        node.learn_dims(value, &vec![-1; rank]);
    }
    Ok(values)
}
