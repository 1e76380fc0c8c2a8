//! `Col2Im`: the columns of windows, summed to the image that they were taken from.

use super::Converters;
use super::expression::{
    counting, element_at, int_scalar, list, plain, reshape, reshape_by, size_at, slice_by,
    unsqueeze, with_number,
};
use crate::onnx::builder::Value;
use crate::onnx::conversion::{Conversion, attrs};
use cairn_tensor::DType;

pub const CONVERTERS: Converters = &[("Col2Im", col2im)];

/// One dimension of the image.
struct Axis {
    /// Its size with padding.
    padded: Value,
    block: Value,
    /// How many windows there are.
    windows: Value,
    dilation: i64,
    stride: i64,
}

/// Each element of each column has an index into the padded image, to which it is added.
fn col2im(node: &mut Conversion<'_>) -> Result<Vec<Value>, String> {
    let (x, image, block) = (node.input(0)?, node.input(1)?, node.input(2)?);
    let rank = usize::try_from(node.known_dims_at(&image, 0)?).unwrap_or_default();
    let numbers = |node: &Conversion<'_>, name: &str, count: usize, default: i64, least: i64| {
        let values = node.ints(name).unwrap_or_else(|| vec![default; count]);
        match values.len() == count && values.iter().all(|value| *value >= least) {
            true => Ok(values),
            false => Err(format!("{name} is {values:?} for an image of {rank} dimensions")),
        }
    };
    let dilations = numbers(node, "dilations", rank, 1, 1)?;
    let strides = numbers(node, "strides", rank, 1, 1)?;
    let pads = numbers(node, "pads", 2 * rank, 0, 0)?;
    let (image, block) = (node.cast(&image, DType::Int64)?, node.cast(&block, DType::Int64)?);
    let mut axes = Vec::with_capacity(rank);
    for at in 0..rank {
        let size = element_at(node, &image, at as i64)?;
        let block = element_at(node, &block, at as i64)?;
        let padded = with_number(node, "Add", &size, (pads[at] + pads[rank + at]) as f64)?;
        // (padded - (block - 1) * dilation - 1) / stride + 1
        let less = with_number(node, "Sub", &block, 1.0)?;
        let reach = with_number(node, "Mul", &less, dilations[at] as f64)?;
        let free = plain(node, "Sub", &[&padded, &reach])?;
        let free = with_number(node, "Sub", &free, 1.0)?;
        let steps = with_number(node, "FloorDiv", &free, strides[at] as f64)?;
        let windows = with_number(node, "Add", &steps, 1.0)?;
        axes.push(Axis { padded, block, windows, dilation: dilations[at], stride: strides[at] });
    }
    let (index, elements) = element_indices(node, &axes)?;
    let one = node.scalar(DType::Int64, 1.0)?;
    let open = node.scalar(DType::Int64, -1.0)?;
    let mut area = one;
    for axis in &axes {
        area = plain(node, "Mul", &[&area, &axis.padded])?;
    }
    let columns = reshape_by(node, &x, &[open.clone(), elements])?;
    let sizes = node.sizes_of(&columns)?;
    let mut index = plain(node, "BroadcastTo", &[&index, &sizes])?;
    node.learn_dims(&mut index, &[-1, -1]);
    let rows = size_at(node, &columns, 0)?;
    let sizes = list(node, &[rows, area])?;
    let zero = node.scalar(x.dtype(), 0.0)?;
    let mut empty = plain(node, "Fill", &[&sizes, &zero])?;
    node.learn_dims(&mut empty, &[-1, -1]);
    let sum = attrs([("axis", 1i64.into()), ("reduction", "add".into())]);
    let sums = node.add("ScatterElements", &[&empty, &index, &columns], sum)?;
    let batch = size_at(node, &x, 0)?;
    let mut dims = vec![batch, open];
    dims.extend(axes.iter().map(|axis| axis.padded.clone()));
    let mut made = reshape_by(node, &sums, &dims)?;
    for at in 0..rank {
        if pads[at] + pads[rank + at] == 0 {
            continue;
        }
        let from = node.int_list(&[pads[at]]);
        let size = element_at(node, &image, at as i64)?;
        let to = with_number(node, "Add", &size, pads[at] as f64)?;
        let to = reshape(node, &to, &[1])?;
        made = slice_by(node, &made, 2 + at as i64, [&from, &to])?;
    }
    Ok(vec![made])
}

/// The index in the padded image of each element of a channel's columns, in their order, and their number.
fn element_indices(node: &mut Conversion<'_>, axes: &[Axis]) -> Result<(Value, Value), String> {
    let rank = axes.len();
    let mut stride = node.scalar(DType::Int64, 1.0)?;
    let mut elements = stride.clone();
    let mut sum: Option<Value> = None;
    for (at, axis) in axes.iter().enumerate().rev() {
        let parts = [(&axis.block, axis.dilation, at), (&axis.windows, axis.stride, rank + at)];
        for (count, step, place) in parts {
            elements = plain(node, "Mul", &[&elements, count])?;
            let positions = counting(node, count)?;
            let positions = with_number(node, "Mul", &positions, step as f64)?;
            let positions = plain(node, "Mul", &[&positions, &stride])?;
            let others: Vec<i64> =
                (0..2 * rank as i64).filter(|other| *other != place as i64).collect();
            let positions = unsqueeze(node, &positions, &others)?;
            sum = Some(match sum {
                None => positions,
                Some(sum) => plain(node, "Add", &[&sum, &positions])?,
            });
        }
        stride = plain(node, "Mul", &[&stride, &axis.padded])?;
    }
    let sum = sum.ok_or("its image has no dimensions")?;
    let elements = int_scalar(node, &elements)?;
    Ok((reshape(node, &sum, &[-1])?, elements))
}
