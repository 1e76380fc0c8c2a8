//! Convolutions.

use super::Converters;
use super::window::{Window, split_padding, with_channels};
use crate::ir::Attrs;
use crate::onnx::builder::Value;
use crate::onnx::conversion::{Conversion, attrs};

pub const CONVERTERS: Converters = &[("Conv", conv), ("ConvTranspose", conv_transpose)];

/// Adds a dimension of one position before the only one.
fn add_unit_dimension(node: &mut Conversion<'_>, x: &Value) -> Result<Value, String> {
    node.add("Unsqueeze", &[x], attrs([("axes", vec![2i64].into())]))
}

/// A window over one dimension as one over two, the first of which has one position.
fn add_unit_dimension_to_window(window: &mut Window) {
    window.kernel.insert(0, 1);
    window.strides.insert(0, 1);
    window.dilations.insert(0, 1);
    window.pads.insert(0, (0, 0));
}

/// The sizes of a filter after its two dimensions of channels.
fn kernel_of(node: &Conversion<'_>, filter: &Value) -> Result<Vec<i64>, String> {
    let dims = node.known_dims(filter, "its filter")?;
    if !(3..=5).contains(&dims.len()) {
        return Err(format!(
            "its filter has the sizes {dims:?}: 1, 2 or 3 dimensions of positions are supported"
        ));
    }
    if let Some(kernel) = node.ints("kernel_shape")
        && kernel != dims[2..]
    {
        return Err(format!("kernel_shape is {kernel:?}, its filter has the sizes {dims:?}"));
    }
    Ok(dims[2..].to_vec())
}

fn conv(node: &mut Conversion<'_>) -> Result<Vec<Value>, String> {
    let (x, filter, bias) = (node.input(0)?, node.input(1)?, node.optional(2));
    Ok(vec![convolve(node, x, filter, bias.as_ref())?])
}

/// A convolution with the window that the node's attributes state.
pub fn convolve(
    node: &mut Conversion<'_>,
    mut x: Value,
    mut filter: Value,
    bias: Option<&Value>,
) -> Result<Value, String> {
    let kernel = kernel_of(node, &filter)?;
    let mut window = Window::read(node, &x, kernel)?;
    let is_1d = window.kernel.len() == 1;
    if is_1d {
        (x, filter) = (add_unit_dimension(node, &x)?, add_unit_dimension(node, &filter)?);
        add_unit_dimension_to_window(&mut window);
    }
    let (kind, format) = conv_kind("Conv", &window);
    let attrs = conv_attrs(node, &window, format);
    let inputs = [Some(&x), Some(&filter), bias];
    let y = node.add_several(&kind, &inputs, attrs, 1)?.remove(0);
    if is_1d { remove_unit_dimension(node, &y) } else { Ok(y) }
}

/// Removes the dimension of one position.
fn remove_unit_dimension(node: &mut Conversion<'_>, y: &Value) -> Result<Value, String> {
    node.add("Squeeze", &[y], attrs([("axis", vec![2i64].into())]))
}

/// The node for two or three dimensions of positions, and the format of its tensors.
fn conv_kind(name: &str, window: &Window) -> (String, &'static str) {
    let suffix = if name == "Conv" { "" } else { "Transpose" };
    match window.kernel.len() {
        2 => (format!("Conv2D{suffix}"), "NCHW"),
        _ => (format!("Conv3D{suffix}"), "NCDHW"),
    }
}

fn conv_attrs(node: &Conversion<'_>, window: &Window, format: &str) -> Attrs {
    attrs([
        ("strides", with_channels(&window.strides).into()),
        ("pads", window.pads_by_dimension().into()),
        ("dilations", with_channels(&window.dilations).into()),
        ("groups", node.int("group", 1).into()),
        ("data_format", format.into()),
    ])
}

/// Padding follows from the sizes of the output, where the node names them.
fn conv_transpose(node: &mut Conversion<'_>) -> Result<Vec<Value>, String> {
    let (mut x, mut filter, bias) = (node.input(0)?, node.input(1)?, node.optional(2));
    let kernel = kernel_of(node, &filter)?;
    let rank = kernel.len();
    let dims = node.known_dims(&x, "its input")?;
    let channels = node.known_dims_at(&filter, 1)?;
    let groups = node.int("group", 1);
    let mut output_padding = node.ints("output_padding").unwrap_or_else(|| vec![0; rank]);
    let auto_pad = node.text("auto_pad", "NOTSET");
    let mut window = match auto_pad.as_str() {
        "SAME_UPPER" | "SAME_LOWER" => Window::read_without_padding(node, kernel)?,
        _ => Window::read(node, &x, kernel)?,
    };
    if output_padding.len() != rank || dims.len() != rank + 2 {
        return Err(format!(
            "output_padding is {output_padding:?}, its input has the sizes {dims:?}"
        ));
    }
    let uncropped: Vec<i64> = (0..rank)
        .map(|at| window.strides[at] * (dims[2 + at] - 1) + output_padding[at] + window.extent(at))
        .collect();
    let requested = match (node.ints("output_shape"), auto_pad.as_str()) {
        (Some(sizes), _) if sizes.len() >= rank => Some(sizes[sizes.len() - rank..].to_vec()),
        (None, "SAME_UPPER" | "SAME_LOWER") => {
            Some((0..rank).map(|at| dims[2 + at] * window.strides[at]).collect())
        }
        (Some(sizes), _) => return Err(format!("output_shape is {sizes:?}")),
        (None, _) => None,
    };
    if let Some(sizes) = &requested {
        for at in 0..rank {
            let total = (uncropped[at] - sizes[at]).max(0);
            window.pads[at] = split_padding(total, auto_pad != "SAME_LOWER");
        }
    }
    let mut sizes = vec![dims[0], channels * groups];
    for at in 0..rank {
        let (before, after) = window.pads[at];
        let size = uncropped[at] - before - after;
        let extra = requested.as_ref().map_or(0, |sizes| sizes[at] - size);
        output_padding[at] += extra.max(0);
        sizes.push(size + extra.max(0));
    }
    let is_1d = rank == 1;
    if is_1d {
        (x, filter) = (add_unit_dimension(node, &x)?, add_unit_dimension(node, &filter)?);
        add_unit_dimension_to_window(&mut window);
        output_padding.insert(0, 0);
        sizes.insert(2, 1);
    }
    let (kind, format) = conv_kind("ConvTranspose", &window);
    let mut attrs = conv_attrs(node, &window, format);
    attrs.insert("output_padding".to_owned(), with_zeros(&output_padding).into());
    let sizes = node.int_list(&sizes);
    let inputs = [Some(&sizes), Some(&x), Some(&filter), bias.as_ref()];
    let y = node.add_several(&kind, &inputs, attrs, 1)?.remove(0);
    Ok(vec![if is_1d { remove_unit_dimension(node, &y)? } else { y }])
}

/// Zeros for batch and channels, then the values of the positions.
fn with_zeros(values: &[i64]) -> Vec<i64> {
    [0, 0].iter().chain(values).copied().collect()
}
