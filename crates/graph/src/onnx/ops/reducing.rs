//! Operators that reduce axes, and those that run along one.

use super::Converters;
use super::expression::{join, plain, size_at};
use crate::ir::Attrs;
use crate::onnx::builder::Value;
use crate::onnx::conversion::{Conversion, attrs, axis};
use cairn_tensor::DType;

pub const CONVERTERS: Converters = &[
    ("ArgMax", arg_max),
    ("ArgMin", arg_min),
    ("CumProd", cum_prod),
    ("CumSum", cum_sum),
    ("Hardmax", hardmax),
    ("LogSoftmax", log_softmax),
    ("LpNormalization", lp_normalization),
    ("ReduceL1", reduce_l1),
    ("ReduceL2", reduce_l2),
    ("ReduceLogSum", reduce_log_sum),
    ("ReduceLogSumExp", reduce_log_sum_exp),
    ("ReduceMax", reduce_max),
    ("ReduceMean", reduce_mean),
    ("ReduceMin", reduce_min),
    ("ReduceProd", reduce_prod),
    ("ReduceSum", reduce_sum),
    ("ReduceSumSquare", reduce_sum_square),
    ("Softmax", softmax),
    ("TopK", top_k),
];

type Converted = Result<Vec<Value>, String>;

/// Reduces the axes that the node names, in an attribute or as its second input.
fn reduce(node: &mut Conversion<'_>, x: &Value, kind: &str) -> Result<Value, String> {
    let keep = node.int("keepdims", 1) != 0;
    let axes = match node.ints("axes") {
        Some(axes) => Some(node.int_list(&axes)),
        None => node.optional(1),
    };
    if let Some(axes) =
        axes.as_ref().filter(|axes| axes.dims().is_none_or(|dims| dims.contains(&-1)))
    {
        let sizes =
            axes.dims().map_or("no known sizes".into(), |dims| format!("the sizes {dims:?}"));
        return Err(format!(
            "its axes have {sizes}: it must be known whether there are any, because none at all have a meaning of their own"
        ));
    }
    let is_empty = |axes: &Value| axes.dims() == Some(&[0]);
    let axes = match axes.filter(|axes| !is_empty(axes)) {
        Some(axes) => axes,
        None if node.int("noop_with_empty_axes", 0) != 0 => return Ok(x.clone()),
        None => {
            let all: Vec<i64> = (0..node.rank(x)? as i64).collect();
            node.int_list(&all)
        }
    };
    if let Some(value) = reduce_nothing(node, x, &axes, kind, keep)? {
        return Ok(value);
    }
    node.add(kind, &[x, &axes], attrs([("keep_dims", keep.into())]))
}

/// The greatest or least of no elements is the end of the type.
fn reduce_nothing(
    node: &mut Conversion<'_>,
    x: &Value,
    axes: &Value,
    kind: &str,
    keep: bool,
) -> Result<Option<Value>, String> {
    let end = match kind {
        "ReduceMax" => f64::NEG_INFINITY,
        "ReduceMin" => f64::INFINITY,
        _ => return Ok(None),
    };
    let (Some(axes), Some(dims)) = (axes.ints(), x.dims()) else { return Ok(None) };
    let rank = dims.len();
    let axes: Vec<usize> = axes.iter().map(|one| axis(*one, rank)).collect::<Result<_, _>>()?;
    if dims.iter().any(|dim| *dim < 0) || !axes.iter().any(|at| dims[*at] == 0) {
        return Ok(None);
    }
    let left = dims.iter().enumerate().filter_map(|(at, dim)| match axes.contains(&at) {
        true if keep => Some(1),
        true => None,
        false => Some(*dim),
    });
    let left: Vec<i64> = left.collect();
    let end = node.scalar(x.dtype(), end)?;
    let sizes = node.int_list(&left);
    node.add("Fill", &[&sizes, &end], Attrs::new()).map(Some)
}

fn reduce_l1(node: &mut Conversion<'_>) -> Converted {
    let x = node.input(0)?;
    let size = node.add("Abs", &[&x], Attrs::new())?;
    Ok(vec![reduce(node, &size, "ReduceSum")?])
}

fn reduce_l2(node: &mut Conversion<'_>) -> Converted {
    let x = node.input(0)?;
    let square = node.add("Mul", &[&x, &x], Attrs::new())?;
    let total = reduce(node, &square, "ReduceSum")?;
    Ok(vec![node.add("Sqrt", &[&total], Attrs::new())?])
}

fn reduce_log_sum(node: &mut Conversion<'_>) -> Converted {
    let x = node.input(0)?;
    let total = reduce(node, &x, "ReduceSum")?;
    Ok(vec![node.add("Log", &[&total], Attrs::new())?])
}

fn reduce_log_sum_exp(node: &mut Conversion<'_>) -> Converted {
    let x = node.input(0)?;
    Ok(vec![reduce(node, &x, "ReduceLogSumExp")?])
}

/// The greatest of booleans is whether any is true.
fn reduce_max(node: &mut Conversion<'_>) -> Converted {
    let x = node.input(0)?;
    let kind = if x.dtype() == DType::Bool { "ReduceAny" } else { "ReduceMax" };
    Ok(vec![reduce(node, &x, kind)?])
}

fn reduce_mean(node: &mut Conversion<'_>) -> Converted {
    let x = node.input(0)?;
    Ok(vec![reduce(node, &x, "ReduceMean")?])
}

/// The least of booleans is whether all are true.
fn reduce_min(node: &mut Conversion<'_>) -> Converted {
    let x = node.input(0)?;
    let kind = if x.dtype() == DType::Bool { "ReduceAll" } else { "ReduceMin" };
    Ok(vec![reduce(node, &x, kind)?])
}

fn reduce_prod(node: &mut Conversion<'_>) -> Converted {
    let x = node.input(0)?;
    Ok(vec![reduce(node, &x, "ReduceProd")?])
}

fn reduce_sum(node: &mut Conversion<'_>) -> Converted {
    let x = node.input(0)?;
    Ok(vec![reduce(node, &x, "ReduceSum")?])
}

fn reduce_sum_square(node: &mut Conversion<'_>) -> Converted {
    let x = node.input(0)?;
    let square = node.add("Mul", &[&x, &x], Attrs::new())?;
    Ok(vec![reduce(node, &square, "ReduceSum")?])
}

/// The axis along which the operator runs. Before version 13 the dimensions from it on are one.
fn flattened(node: &mut Conversion<'_>, x: &Value) -> Result<(Value, bool), String> {
    let rank = node.rank(x)?;
    let first_axis = axis(node.int("axis", 1), rank.max(1))?;
    if first_axis + 1 == rank {
        return Ok((x.clone(), false));
    }
    let (sizes, rest) = (node.sizes_of(x)?, node.int_list(&[-1]));
    let (start, count) = (node.int_list(&[0]), node.int_list(&[first_axis as i64]));
    let kept = plain(node, "Slice", &[&sizes, &start, &count])?;
    let sizes = join(node, &[kept, rest], 0)?;
    let mut flat = plain(node, "Reshape", &[x, &sizes])?;
    node.learn_dims(&mut flat, &vec![-1; first_axis + 1]);
    Ok((flat, true))
}

/// Runs an operator along an axis, which before version 13 is all dimensions from it on.
fn along_axis(
    node: &mut Conversion<'_>,
    run: impl Fn(&mut Conversion<'_>, &Value, i64) -> Result<Value, String>,
) -> Converted {
    let x = node.input(0)?;
    if node.opset >= 13 {
        let axis_index = node.int("axis", -1);
        return Ok(vec![run(node, &x, axis_index)?]);
    }
    let (flat, is_flattened) = flattened(node, &x)?;
    let result = run(node, &flat, -1)?;
    if !is_flattened {
        return Ok(vec![result]);
    }
    let sizes = node.sizes_of(&x)?;
    let mut result = plain(node, "Reshape", &[&result, &sizes])?;
    node.learn_dims(&mut result, x.dims().unwrap_or_default());
    Ok(vec![result])
}

fn softmax(node: &mut Conversion<'_>) -> Converted {
    along_axis(node, |node, x, axis| {
        node.add("SoftmaxV2", &[x], attrs([("axes", vec![axis].into())]))
    })
}

fn log_softmax(node: &mut Conversion<'_>) -> Converted {
    along_axis(node, |node, x, axis| {
        node.add("LogSoftmaxV2", &[x], attrs([("axes", vec![axis].into())]))
    })
}

/// 1 at the first greatest element, 0 elsewhere.
fn hardmax(node: &mut Conversion<'_>) -> Converted {
    along_axis(node, |node, x, axis_index| {
        let rank = node.rank(x)?;
        let from_front = axis(axis_index, rank)? as i64;
        let dimension = node.int_list(&[from_front]);
        let int64 = attrs([("dtype", DType::Int64.into())]);
        let greatest = node.add("ArgMaxV2", &[x, &dimension], int64)?;
        let depth = size_at(node, x, from_front)?;
        let (one, zero) = (node.scalar(x.dtype(), 1.0)?, node.scalar(x.dtype(), 0.0)?);
        let last = attrs([("axis", from_front.into())]);
        node.add("OneHot", &[&greatest, &depth, &one, &zero], last)
    })
}

/// x over its norm along an axis; 0 where the norm is 0.
fn lp_normalization(node: &mut Conversion<'_>) -> Converted {
    let x = node.input(0)?;
    let (axis_index, p) = (node.int("axis", -1), node.int("p", 2));
    let powers = match p {
        1 => node.add("Abs", &[&x], Attrs::new())?,
        2 => node.add("Mul", &[&x, &x], Attrs::new())?,
        _ => return Err(format!("p is {p}: expected 1 or 2")),
    };
    let axes = node.int_list(&[axis_index]);
    let keep = attrs([("keep_dims", true.into())]);
    let mut norm = node.add("ReduceSum", &[&powers, &axes], keep)?;
    if p == 2 {
        norm = node.add("Sqrt", &[&norm], Attrs::new())?;
    }
    let (zero, one) = (node.scalar(x.dtype(), 0.0)?, node.scalar(x.dtype(), 1.0)?);
    let is_zero = node.add("Equal", &[&norm, &zero], Attrs::new())?;
    let divisor = node.add("SelectV2", &[&is_zero, &one, &norm], Attrs::new())?;
    Ok(vec![node.add("RealDiv", &[&x, &divisor], Attrs::new())?])
}

/// The index of the greatest or least element; the last of equal ones is found in the reversed order.
fn arg(node: &mut Conversion<'_>, kind: &str) -> Converted {
    let x = node.input(0)?;
    let rank = node.rank(&x)?;
    let axis_index = axis(node.int("axis", 0), rank)?;
    let keep = node.int("keepdims", 1) != 0;
    let is_last = node.int("select_last_index", 0) != 0;
    let dimension = node.int_list(&[axis_index as i64]);
    let searched = match is_last {
        true => node.add("ReverseV2", &[&x, &dimension], Attrs::new())?,
        false => x.clone(),
    };
    let int64 = attrs([("dtype", DType::Int64.into())]);
    let mut index = node.add(kind, &[&searched, &dimension], int64)?;
    if is_last {
        let last = node.known_dims(&x, "its input")?[axis_index] - 1;
        let last = node.scalar(DType::Int64, last as f64)?;
        index = node.add("Sub", &[&last, &index], Attrs::new())?;
    }
    if keep {
        let axes = attrs([("axes", vec![axis_index as i64].into())]);
        index = node.add("Unsqueeze", &[&index], axes)?;
    }
    Ok(vec![index])
}

fn arg_max(node: &mut Conversion<'_>) -> Converted {
    arg(node, "ArgMaxV2")
}

fn arg_min(node: &mut Conversion<'_>) -> Converted {
    arg(node, "ArgMin")
}

fn cumulative(node: &mut Conversion<'_>, kind: &str) -> Converted {
    let (x, axis_index) = (node.input(0)?, node.input(1)?);
    let exclusive = node.int("exclusive", 0) != 0;
    let reverse = node.int("reverse", 0) != 0;
    let attrs = attrs([("exclusive", exclusive.into()), ("reverse", reverse.into())]);
    Ok(vec![node.add(kind, &[&x, &axis_index], attrs)?])
}

fn cum_sum(node: &mut Conversion<'_>) -> Converted {
    cumulative(node, "Cumsum")
}

fn cum_prod(node: &mut Conversion<'_>) -> Converted {
    cumulative(node, "Cumprod")
}

/// What a cast to a type needs. The type of indices is not known while their number is not.
fn attrs_of_cast(dtype: DType) -> Attrs {
    attrs([("dst_type", (dtype as i64).into())])
}

/// The greatest or least elements with their indices. Before version 10 their number is an attribute.
fn top_k(node: &mut Conversion<'_>) -> Converted {
    let x = node.input(0)?;
    let k = match node.opset < 10 {
        true => {
            let k = node.int("k", 0);
            node.int_list(&[k])
        }
        false => node.input(1)?,
    };
    let axis_index = node.int("axis", -1);
    let largest = node.int("largest", 1) != 0;
    let sorted = node.int("sorted", 1) != 0;
    let attrs =
        attrs([("dim", axis_index.into()), ("largest", largest.into()), ("sorted", sorted.into())]);
    let found = node.add_several("TopKV2", &[Some(&x), Some(&k)], attrs, 2)?;
    let [values, indices] = &found[..] else { return Err("TopKV2 has two outputs".to_owned()) };
    let int64 = attrs_of_cast(DType::Int64);
    let indices = node.add("Cast", &[indices], int64)?;
    Ok(vec![values.clone(), indices])
}
