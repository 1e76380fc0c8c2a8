//! Operators that read or write elements by index.

use super::Converters;
use super::expression::{
    counting, element_at, int_scalar, join, list, plain, reshape_by, size_at, slice, slice_by,
    unsqueeze,
};
use crate::ir::Attrs;
use crate::onnx::builder::Value;
use crate::onnx::conversion::{Conversion, attrs, axis};
use cairn_tensor::DType;

pub const CONVERTERS: Converters = &[
    ("Compress", compress),
    ("Gather", gather),
    ("GatherElements", gather_elements),
    ("GatherND", gather_nd),
    ("NonZero", non_zero),
    ("OneHot", one_hot),
    ("Scatter", scatter_elements),
    ("ScatterElements", scatter_elements),
    ("ScatterND", scatter_nd),
    ("TensorScatter", tensor_scatter),
];

type Converted = Result<Vec<Value>, String>;

/// Elements along an axis by indices, which may count from the last.
fn gather_along(
    node: &mut Conversion<'_>,
    x: &Value,
    indices: &Value,
    axis_index: i64,
) -> Result<Value, String> {
    let axis_index = node.int_list(&[axis_index]);
    let attrs = attrs([("negative_index_support", true.into())]);
    node.add("GatherV2", &[x, indices, &axis_index], attrs)
}

fn gather(node: &mut Conversion<'_>) -> Converted {
    let (x, indices) = (node.input(0)?, node.input(1)?);
    let axis_index = node.int("axis", 0);
    Ok(vec![gather_along(node, &x, &indices, axis_index)?])
}

/// Indices that count from the last become such that count from the first.
fn wrap_indices(node: &mut Conversion<'_>, indices: &Value, size: &Value) -> Result<Value, String> {
    let size = node.cast(size, indices.dtype())?;
    let zero = node.scalar(indices.dtype(), 0.0)?;
    let is_negative = node.add("Less", &[indices, &zero], Attrs::new())?;
    let wrapped = node.add("Add", &[indices, &size], Attrs::new())?;
    node.add("SelectV2", &[&is_negative, &wrapped, indices], Attrs::new())
}

/// The size of an axis, as a tensor with one element.
fn size_of(node: &mut Conversion<'_>, x: &Value, axis_index: usize) -> Result<Value, String> {
    if let Ok(size) = node.known_dims_at(x, axis_index) {
        return Ok(node.int_list(&[size]));
    }
    let int64 = DType::Int64 as i64;
    let sizes = node.add("Shape", &[x], attrs([("dtype", int64.into())]))?;
    let (start, length) = (node.int_list(&[axis_index as i64]), node.int_list(&[1]));
    node.add("Slice", &[&sizes, &start, &length], Attrs::new())
}

fn gather_elements(node: &mut Conversion<'_>) -> Converted {
    let (x, indices) = (node.input(0)?, node.input(1)?);
    let axis_index = axis(node.int("axis", 0), node.rank(&x)?)?;
    let size = size_of(node, &x, axis_index)?;
    let indices = wrap_indices(node, &indices, &size)?;
    let attrs = attrs([("dim", (axis_index as i64).into())]);
    Ok(vec![node.add("GatherElements", &[&x, &indices], attrs)?])
}

/// Parts of x by the indices of their leading dimensions: each becomes one index into x with those dimensions merged.
fn gather_nd(node: &mut Conversion<'_>) -> Converted {
    let (x, indices) = (node.input(0)?, node.input(1)?);
    let batch = node.int("batch_dims", 0);
    if node.known_dims(&x, "").is_err() || node.known_dims(&indices, "").is_err() {
        return gather_nd_by_run(node, &x, &indices, batch);
    }
    let dims = node.known_dims(&x, "its input")?;
    let index_dims = node.known_dims(&indices, "its indices")?;
    let (Ok(batch), Some(depth)) = (usize::try_from(batch), index_dims.last()) else {
        return Err(format!("batch_dims is {batch}, the indices have the sizes {index_dims:?}"));
    };
    let depth = *depth as usize;
    if batch >= index_dims.len() || batch + depth > dims.len() {
        return Err(format!(
            "indices of the sizes {index_dims:?} with batch_dims {batch} do not fit an input of the sizes {dims:?}"
        ));
    }
    let batches: i64 = dims[..batch].iter().product();
    let indexed_dims = &dims[batch..batch + depth];
    let rest = &dims[batch + depth..];
    let count: i64 = indexed_dims.iter().product();
    let lookups: i64 = index_dims[batch..index_dims.len() - 1].iter().product();
    let sizes = node.int_list(indexed_dims);
    let wrapped = wrap_indices(node, &indices, &sizes)?;
    let strides: Vec<i64> = (0..depth).map(|at| indexed_dims[at + 1..].iter().product()).collect();
    let strides = node.int_list(&strides);
    let strides = node.cast(&strides, wrapped.dtype())?;
    let parts = node.add("Mul", &[&wrapped, &strides], Attrs::new())?;
    let last = node.int_list(&[-1]);
    let linear = node.add("ReduceSum", &[&parts, &last], Attrs::new())?;
    let flat_index = node.int_list(&[batches, lookups]);
    let linear = node.add("Reshape", &[&linear, &flat_index], Attrs::new())?;
    node.reserve(batches, 8)?;
    let first: Vec<i64> = (0..batches).map(|at| at * count).collect();
    let first = node.int_list(&first);
    let first = node.add("Unsqueeze", &[&first], attrs([("axes", vec![1i64].into())]))?;
    let first = node.cast(&first, linear.dtype())?;
    let linear = node.add("Add", &[&linear, &first], Attrs::new())?;
    let mut merged = vec![batches * count];
    merged.extend(rest);
    let merged = node.int_list(&merged);
    let flat = node.add("Reshape", &[&x, &merged], Attrs::new())?;
    let found = gather_along(node, &flat, &linear, 0)?;
    let mut sizes = index_dims[..index_dims.len() - 1].to_vec();
    sizes.extend(rest);
    let sizes = node.int_list(&sizes);
    Ok(vec![node.add("Reshape", &[&found, &sizes], Attrs::new())?])
}

/// The same where a run brings sizes.
fn gather_nd_by_run(
    node: &mut Conversion<'_>,
    x: &Value,
    indices: &Value,
    batch: i64,
) -> Converted {
    let (rank, index_rank) = (node.rank(x)? as i64, node.rank(indices)? as i64);
    let Some(depth) = index_depth(indices).map(|depth| depth as i64) else {
        return Err("the last size of its indices is not known".to_owned());
    };
    if batch < 0 || batch >= index_rank || batch + depth > rank {
        return Err(format!(
            "batch_dims is {batch}: indices of {index_rank} dimensions, the last of {depth}, do not fit an input of {rank}"
        ));
    }
    let one = node.scalar(DType::Int64, 1.0)?;
    let product = |node: &mut Conversion<'_>, range: std::ops::Range<i64>| {
        range.into_iter().try_fold(one.clone(), |all, at| {
            let size = size_at(node, x, at)?;
            plain(node, "Mul", &[&all, &size])
        })
    };
    let (batches, count) = (product(node, 0..batch)?, product(node, batch..batch + depth)?);
    let mut strides = Vec::new();
    for at in 0..depth {
        strides.push(product(node, batch + at + 1..batch + depth)?);
    }
    let (sizes, index_sizes) = (node.sizes_of(x)?, node.sizes_of(indices)?);
    let indices = node.cast(indices, DType::Int64)?;
    let linear = match depth {
        0 => return Err("the last size of its indices is 0".to_owned()),
        _ => {
            let (start, end) = (node.int_list(&[batch]), node.int_list(&[batch + depth]));
            let indexed = slice_by(node, &sizes, 0, [&start, &end])?;
            let wrapped = wrap_indices(node, &indices, &indexed)?;
            let strides = list(node, &strides)?;
            let parts = plain(node, "Mul", &[&wrapped, &strides])?;
            let last = node.int_list(&[-1]);
            plain(node, "ReduceSum", &[&parts, &last])?
        }
    };
    let open = node.scalar(DType::Int64, -1.0)?;
    let linear = reshape_by(node, &linear, &[batches.clone(), open.clone()])?;
    let first = counting(node, &batches)?;
    let first = plain(node, "Mul", &[&first, &count])?;
    let first = unsqueeze(node, &first, &[1])?;
    let linear = plain(node, "Add", &[&linear, &first])?;
    let rest = slice(node, &sizes, 0, batch + depth, i64::MAX)?;
    let all = plain(node, "Mul", &[&batches, &count])?;
    let all = list(node, &[all])?;
    let merged = join(node, &[all, rest.clone()], 0)?;
    let mut flat = plain(node, "Reshape", &[x, &merged])?;
    node.learn_dims(&mut flat, &vec![-1; (rank - batch - depth + 1) as usize]);
    let found = gather_along(node, &flat, &linear, 0)?;
    let kept = slice(node, &index_sizes, 0, 0, -1)?;
    let sizes = join(node, &[kept, rest], 0)?;
    let mut made = plain(node, "Reshape", &[&found, &sizes])?;
    node.learn_dims(&mut made, &vec![-1; (index_rank - 1 + rank - batch - depth) as usize]);
    Ok(vec![made])
}

/// The indices of elements that are not 0: a row for each dimension.
fn non_zero(node: &mut Conversion<'_>) -> Converted {
    let x = node.input(0)?;
    Ok(vec![node.add("NonZero", &[&x], attrs([("transpose", true.into())]))?])
}

/// The parts along an axis whose condition is true; without an axis, of all elements.
fn compress(node: &mut Conversion<'_>) -> Converted {
    let (x, condition) = (node.input(0)?, node.input(1)?);
    let (x, axis_index) = match node.has("axis") {
        true => (x, node.int("axis", 0)),
        false => {
            let flat = node.int_list(&[-1]);
            (node.add("Reshape", &[&x, &flat], Attrs::new())?, 0)
        }
    };
    let found = node.add("NonZero", &[&condition], Attrs::new())?;
    let flat = node.int_list(&[-1]);
    let indices = node.add("Reshape", &[&found, &flat], Attrs::new())?;
    Ok(vec![gather_along(node, &x, &indices, axis_index)?])
}

/// The second of `values` where the index is, the first elsewhere: everywhere for an index that is none of the depth's.
fn one_hot(node: &mut Conversion<'_>) -> Converted {
    let (indices, depth, values) = (node.input(0)?, node.input(1)?, node.input(2)?);
    let at = match node.int("axis", -1) {
        -1 => indices.rank().map_or(-1, |rank| rank as i64),
        at => axis(at, node.rank(&indices)? + 1)? as i64,
    };
    let depth = int_scalar(node, &depth)?;
    let indices = node.cast(&indices, DType::Int64)?;
    let indices = wrap_indices(node, &indices, &depth)?;
    let indices = unsqueeze(node, &indices, &[at])?;
    let mut classes = counting(node, &depth)?;
    if let Some(after) = indices.rank().map(|rank| rank - 1 - at as usize)
        && after > 0
    {
        classes = unsqueeze(node, &classes, &(1..=after as i64).collect::<Vec<_>>())?;
    }
    let is_class = plain(node, "Equal", &[&indices, &classes])?;
    let (off, on) = (element_at(node, &values, 0)?, element_at(node, &values, 1)?);
    Ok(vec![plain(node, "SelectV2", &[&is_class, &on, &off])?])
}

fn scatter_elements(node: &mut Conversion<'_>) -> Converted {
    let (x, indices, updates) = (node.input(0)?, node.input(1)?, node.input(2)?);
    let axis_index = axis(node.int("axis", 0), node.rank(&x)?)?;
    let reduction = node.text("reduction", "none");
    node.expect_text("reduction", &reduction, &["none", "add", "mul", "max", "min"])?;
    let size = size_of(node, &x, axis_index)?;
    let indices = wrap_indices(node, &indices, &size)?;
    let attrs =
        attrs([("axis", (axis_index as i64).into()), ("reduction", reduction.as_str().into())]);
    Ok(vec![node.add("ScatterElements", &[&x, &indices, &updates], attrs)?])
}

/// Writes into a copy.
fn scatter_nd(node: &mut Conversion<'_>) -> Converted {
    let (x, indices, updates) = (node.input(0)?, node.input(1)?, node.input(2)?);
    let reduction = node.text("reduction", "none");
    node.expect_text("reduction", &reduction, &["none", "add", "mul", "max", "min"])?;
    let kind = match reduction.as_str() {
        "none" => "ScatterNdUpdate",
        "add" => "ScatterNdAdd",
        "mul" => "ScatterNdMul",
        "max" => "ScatterNdMax",
        _ => "ScatterNdMin",
    };
    let depth = match index_depth(&indices) {
        Some(depth) => depth,
        None => return Err("the last size of its indices is not known".to_owned()),
    };
    if depth > node.rank(&x)? {
        return Err(format!("its indices are of {depth} dimensions, it has {}", node.rank(&x)?));
    }
    let sizes = node.sizes_of(&x)?;
    let (start, length) = (node.int_list(&[0]), node.int_list(&[depth as i64]));
    let sizes = node.add("Slice", &[&sizes, &start, &length], Attrs::new())?;
    let indices = wrap_indices(node, &indices, &sizes)?;
    let copy = node.add("TensorMove", &[&x], Attrs::new())?;
    Ok(vec![node.add(kind, &[&copy, &indices, &updates], Attrs::new())?])
}

/// How many dimensions an index of `ScatterND` is of.
fn index_depth(indices: &Value) -> Option<usize> {
    usize::try_from(*indices.dims()?.last()?).ok()
}

/// Writes a run of positions of a cache, from an index of each batch on.
fn tensor_scatter(node: &mut Conversion<'_>) -> Converted {
    let (cache, update) = (node.input(0)?, node.input(1)?);
    let axis_index = axis(node.int("axis", -2), node.rank(&cache)?)?;
    let mode = node.text("mode", "linear");
    node.expect_text("mode", &mode, &["linear", "circular"])?;
    let dims = node.known_dims(&cache, "its cache")?;
    let update_dims = node.known_dims(&update, "its update")?;
    if axis_index == 0 {
        return Err("axis is 0, which is the batch".to_owned());
    }
    let (length, written) = (dims[axis_index], update_dims[axis_index]);
    let offsets = node.counting(0..written)?;
    let starts = match node.optional(2) {
        Some(starts) => node.cast(&starts, DType::Int64)?,
        None => node.repeated(0, dims[0])?,
    };
    let starts = node.add("Unsqueeze", &[&starts], attrs([("axes", vec![1i64].into())]))?;
    let mut positions = node.add("Add", &[&starts, &offsets], Attrs::new())?;
    if mode == "circular" {
        let length = node.int_list(&[length]);
        positions = node.add("FloorMod", &[&positions, &length], Attrs::new())?;
    }
    let mut sizes = vec![1; dims.len()];
    (sizes[0], sizes[axis_index]) = (dims[0], written);
    let sizes = node.int_list(&sizes);
    let positions = node.add("Reshape", &[&positions, &sizes], Attrs::new())?;
    let all = node.int_list(&update_dims);
    let positions = node.add("BroadcastTo", &[&positions, &all], Attrs::new())?;
    let attrs = attrs([("axis", (axis_index as i64).into()), ("reduction", "none".into())]);
    Ok(vec![node.add("ScatterElements", &[&cache, &positions, &update], attrs)?])
}
