//! Convolutions.

use super::Converters;
use super::expression::{join, list, plain, size_at, slice};
use super::window::{Window, split_padding, with_channels};
use crate::ir::Attrs;
use crate::onnx::builder::Value;
use crate::onnx::conversion::{Conversion, attrs};
use cairn_tensor::DType;

pub const CONVERTERS: Converters = &[
    ("CausalConvWithState", causal_conv),
    ("Conv", conv),
    ("ConvTranspose", conv_transpose),
    ("DeformConv", deform_conv),
];

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

/// Refuses inputs of types that convolutions are not computed in.
fn check_type(x: &Value) -> Result<(), String> {
    match x.dtype() {
        DType::Float | DType::Float16 | DType::Bf16 => Ok(()),
        dtype => Err(format!(
            "its input is of the type {dtype}: convolutions are computed in float, float16 and bfloat16"
        )),
    }
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

/// Each channel by itself, after the positions that came before; those that come before the next ones go out too.
fn causal_conv(node: &mut Conversion<'_>) -> Result<Vec<Value>, String> {
    let (x, filter) = (node.input(0)?, node.input(1)?);
    let activation = node.text("activation", "none");
    node.expect_text("activation", &activation, &["none", "silu", "swish"])?;
    let (channels, length) = (node.known_dims_at(&filter, 0)?, node.known_dims_at(&filter, 2)?);
    if node.rank(&x)? != 3 {
        return Err(format!("its input has {} dimensions, not 3", node.rank(&x)?));
    }
    let past = match node.optional(3) {
        Some(past) => past,
        None => {
            let sizes = [
                size_at(node, &x, 0)?,
                size_at(node, &x, 1)?,
                node.scalar(DType::Int64, (length - 1) as f64)?,
            ];
            let sizes = list(node, &sizes)?;
            let zero = node.scalar(x.dtype(), 0.0)?;
            let mut zeros = plain(node, "Fill", &[&sizes, &zero])?;
            node.learn_dims(&mut zeros, &[-1, -1, length - 1]);
            zeros
        }
    };
    let all = join(node, &[past, x], 2)?;
    let bias = node.optional(2);
    let mut y = convolve_groups(node, all.clone(), filter, bias.as_ref(), channels)?;
    if activation != "none" {
        y = node.add("Swish", &[&y], attrs([("scale", 1f32.into())]))?;
    }
    let state = match length {
        1 => slice(node, &all, 2, 0, 0)?,
        _ => slice(node, &all, 2, 1 - length, i64::MAX)?,
    };
    Ok(vec![y, state])
}

/// A convolution with the window that the node's attributes state.
pub fn convolve(
    node: &mut Conversion<'_>,
    x: Value,
    filter: Value,
    bias: Option<&Value>,
) -> Result<Value, String> {
    let groups = node.int("group", 1);
    convolve_groups(node, x, filter, bias, groups)
}

/// As [`convolve`], in this many groups.
fn convolve_groups(
    node: &mut Conversion<'_>,
    mut x: Value,
    mut filter: Value,
    bias: Option<&Value>,
    groups: i64,
) -> Result<Value, String> {
    check_type(&x)?;
    let kernel = kernel_of(node, &filter)?;
    let mut window = Window::read(node, &x, kernel)?;
    let is_1d = window.kernel.len() == 1;
    if is_1d {
        (x, filter) = (add_unit_dimension(node, &x)?, add_unit_dimension(node, &filter)?);
        add_unit_dimension_to_window(&mut window);
    }
    let (kind, format) = conv_kind("Conv", &window);
    let attrs = conv_attrs(groups, &window, format);
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

fn conv_attrs(groups: i64, window: &Window, format: &str) -> Attrs {
    attrs([
        ("strides", with_channels(&window.strides).into()),
        ("pads", window.pads_by_dimension().into()),
        ("dilations", with_channels(&window.dilations).into()),
        ("groups", groups.into()),
        ("data_format", format.into()),
    ])
}

/// Padding follows from the sizes of the output, where the node names them.
fn conv_transpose(node: &mut Conversion<'_>) -> Result<Vec<Value>, String> {
    let (mut x, mut filter, bias) = (node.input(0)?, node.input(1)?, node.optional(2));
    check_type(&x)?;
    let kernel = kernel_of(node, &filter)?;
    let rank = kernel.len();
    let x_rank = node.rank(&x)?;
    let channels = node.known_dims_at(&filter, 1)?;
    let groups = node.int("group", 1);
    let mut output_padding = node.ints("output_padding").unwrap_or_else(|| vec![0; rank]);
    let auto_pad = node.text("auto_pad", "NOTSET");
    let is_same = matches!(auto_pad.as_str(), "SAME_UPPER" | "SAME_LOWER");
    let mut window = match is_same {
        true => Window::read_without_padding(node, kernel)?,
        false => Window::read(node, &x, kernel)?,
    };
    if output_padding.len() != rank || x_rank != rank + 2 {
        return Err(format!(
            "output_padding is {output_padding:?}, its input has {x_rank} dimensions"
        ));
    }
    // An output has stride * size + extra positions before padding takes some.
    let extra: Vec<i64> =
        (0..rank).map(|at| output_padding[at] + window.extent(at) - window.strides[at]).collect();
    let output_shape = node.ints("output_shape");
    if let Some(sizes) = &output_shape {
        let Some(first) = sizes.len().checked_sub(rank) else {
            return Err(format!("output_shape is {sizes:?}"));
        };
        for at in 0..rank {
            let uncropped = window.strides[at] * node.known_dims_at(&x, 2 + at)? + extra[at];
            let requested = sizes[first + at];
            window.pads[at] =
                split_padding((uncropped - requested).max(0), auto_pad != "SAME_LOWER");
            output_padding[at] += (requested - uncropped).max(0);
        }
    } else if is_same {
        for at in 0..rank {
            window.pads[at] = split_padding(extra[at].max(0), auto_pad != "SAME_LOWER");
            output_padding[at] += (-extra[at]).max(0);
        }
    }
    // The sizes are those of the input times factors, plus numbers.
    let (mut factors, mut numbers) = (vec![1, 0], vec![0, channels * groups]);
    for (at, added) in output_padding.iter().enumerate().take(rank) {
        let (before, after) = window.pads[at];
        factors.push(window.strides[at]);
        numbers.push(added + window.extent(at) - window.strides[at] - before - after);
    }
    let is_1d = rank == 1;
    if is_1d {
        (x, filter) = (add_unit_dimension(node, &x)?, add_unit_dimension(node, &filter)?);
        add_unit_dimension_to_window(&mut window);
        output_padding.insert(0, 0);
        factors.insert(2, 1);
        numbers.insert(2, 0);
    }
    let (kind, format) = conv_kind("ConvTranspose", &window);
    let mut attrs = conv_attrs(groups, &window, format);
    attrs.insert("output_padding".to_owned(), with_zeros(&output_padding).into());
    let sizes = match node.known_dims(&x, "its input") {
        Ok(dims) => {
            let sizes: Vec<i64> =
                (0..dims.len()).map(|at| factors[at] * dims[at] + numbers[at]).collect();
            node.int_list(&sizes)
        }
        Err(_) => {
            let (factors, numbers) = (node.int_list(&factors), node.int_list(&numbers));
            let sizes = node.sizes_of(&x)?;
            let sizes = plain(node, "Mul", &[&sizes, &factors])?;
            plain(node, "Add", &[&sizes, &numbers])?
        }
    };
    let dims: Vec<i64> = (x.dims().unwrap_or_default().iter().enumerate())
        .map(|(at, dim)| match (at, *dim) {
            (1, _) => numbers[1],
            (_, -1) => -1,
            (at, dim) => factors[at] * dim + numbers[at],
        })
        .collect();
    let inputs = [Some(&sizes), Some(&x), Some(&filter), bias.as_ref()];
    let mut y = node.add_several(&kind, &inputs, attrs, 1)?.remove(0);
    node.learn_dims(&mut y, &dims);
    Ok(vec![if is_1d { remove_unit_dimension(node, &y)? } else { y }])
}

/// Zeros for batch and channels, then the values of the positions.
fn with_zeros(values: &[i64]) -> Vec<i64> {
    [0, 0].iter().chain(values).copied().collect()
}

/// Samples at the positions that offsets move, side by side, and a convolution of them.
fn deform_conv(node: &mut Conversion<'_>) -> Result<Vec<Value>, String> {
    let (x, filter, offset) = (node.input(0)?, node.input(1)?, node.input(2)?);
    let (bias, mask) = (node.optional(3), node.optional(4));
    check_type(&x)?;
    let kernel = kernel_of(node, &filter)?;
    if kernel.len() != 2 {
        return Err(format!("its window has the sizes {kernel:?}: 2 dimensions are supported"));
    }
    let window = Window::read(node, &x, kernel)?;
    // The graph's operator wants all offsets along columns, all along rows, and the factors of the samples.
    let every_second = |node: &mut Conversion<'_>, from: i64| {
        let (from, to) = (node.int_list(&[from]), node.int_list(&[i64::MAX]));
        let (axes, steps) = (node.int_list(&[1]), node.int_list(&[2]));
        let inputs = [Some(&offset), Some(&from), Some(&to), Some(&axes), Some(&steps)];
        Ok::<_, String>(node.add_several("StridedSliceV2", &inputs, Attrs::new(), 1)?.remove(0))
    };
    let (rows, columns) = (every_second(node, 0)?, every_second(node, 1)?);
    let mask = match mask {
        Some(mask) => mask,
        None => {
            let (sizes, one) = (node.sizes_of(&rows)?, node.scalar(rows.dtype(), 1.0)?);
            plain(node, "Fill", &[&sizes, &one])?
        }
    };
    let offsets = join(node, &[columns, rows, mask], 1)?;
    let sampling = attrs([
        ("strides", with_channels(&window.strides).into()),
        ("pads", window.pads_by_dimension().into()),
        ("ksize", window.kernel.clone().into()),
        ("dilations", with_channels(&window.dilations).into()),
        ("deformable_groups", node.int("offset_group", 1).into()),
        ("data_format", "NCHW".into()),
        ("modulated", true.into()),
    ]);
    let samples = node.add("DeformableOffsets", &[&x, &offsets], sampling)?;
    let side_by_side = attrs([
        ("strides", with_channels(&window.kernel).into()),
        ("pads", vec![0i64; 4].into()),
        ("dilations", vec![1i64; 4].into()),
        ("groups", node.int("group", 1).into()),
        ("data_format", "NCHW".into()),
    ]);
    let inputs = [Some(&samples), Some(&filter), bias.as_ref()];
    node.add_several("Conv2D", &inputs, side_by_side, 1)
}
