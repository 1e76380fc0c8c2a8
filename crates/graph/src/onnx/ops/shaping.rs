//! Operators that arrange elements anew: sizes, order, parts, joins.

use super::Converters;
use super::expression::{diagonals, plain, reshape_by, size_at};
use crate::ir::Attrs;
use crate::onnx::builder::Value;
use crate::onnx::conversion::{Conversion, attrs, axis};
use cairn_tensor::DType;

pub const CONVERTERS: Converters = &[
    ("CenterCropPad", center_crop_pad),
    ("Concat", concat),
    ("DepthToSpace", depth_to_space),
    ("Expand", expand),
    ("Flatten", flatten),
    ("Pad", pad),
    ("Reshape", reshape),
    ("Slice", slice),
    ("SpaceToDepth", space_to_depth),
    ("Split", split),
    ("Squeeze", squeeze),
    ("Tile", tile),
    ("Transpose", transpose),
    ("Trilu", trilu),
    ("Unsqueeze", unsqueeze),
];

type Converted = Result<Vec<Value>, String>;

/// Reshapes to sizes that are known, one of which may be -1.
fn reshape_to(node: &mut Conversion<'_>, x: &Value, dims: &[i64]) -> Result<Value, String> {
    let sizes = node.int_list(dims);
    node.add("Reshape", &[x, &sizes], Attrs::new())
}

/// Transposes by an order of axes.
fn transpose_by(node: &mut Conversion<'_>, x: &Value, order: &[i64]) -> Result<Value, String> {
    let order = node.int_list(order);
    node.add("Transpose", &[x, &order], Attrs::new())
}

fn concat(node: &mut Conversion<'_>) -> Converted {
    let inputs = node.inputs_from(0)?;
    let axis_index = node.int("axis", 1);
    if let [only] = &inputs[..] {
        return Ok(vec![only.clone()]);
    }
    let values: Vec<&Value> = inputs.iter().collect();
    let attrs = attrs([("concat_dim", axis_index.into()), ("N", (inputs.len() as i64).into())]);
    Ok(vec![node.add("ConcatD", &values, attrs)?])
}

/// Blocks of channels become squares of positions.
fn depth_to_space(node: &mut Conversion<'_>) -> Converted {
    let x = node.input(0)?;
    let (block, is_block_first) = (node.int("blocksize", 0), block_mode(node)?);
    let [n, h, w] = positions(node, &x)?;
    let c = node.known_dims_at(&x, 1).ok();
    let square = block.checked_mul(block).filter(|square| *square > 0 && block > 0);
    let Some(square) = square.filter(|square| c.is_none_or(|c| c % square == 0)) else {
        let count = c.map_or("its".to_owned(), |c| c.to_string());
        return Err(format!("{count} channels are no multiple of blocksize {block} squared"));
    };
    let size = node.scalar(DType::Int64, block as f64)?;
    let d = size_at(node, &x, 1)?;
    let square_size = node.scalar(DType::Int64, square as f64)?;
    let d = plain(node, "FloorDiv", &[&d, &square_size])?;
    let (dims, order) = match is_block_first {
        true => ([&n, &size, &size, &d, &h, &w], [0, 3, 4, 1, 5, 2]),
        false => ([&n, &d, &size, &size, &h, &w], [0, 1, 4, 2, 5, 3]),
    };
    let parts = reshape_by_numbers(node, &x, &dims)?;
    let transposed = transpose_by(node, &parts, &order)?;
    let rows = plain(node, "Mul", &[&h, &size])?;
    let columns = plain(node, "Mul", &[&w, &size])?;
    let made = reshape_by_numbers(node, &transposed, &[&n, &d, &rows, &columns])?;
    Ok(vec![with_channels(node, made, c.map_or(-1, |c| c / square))])
}

/// Squares of positions become blocks of channels.
fn space_to_depth(node: &mut Conversion<'_>) -> Converted {
    let x = node.input(0)?;
    let (block, is_block_first) = (node.int("blocksize", 0), block_mode(node)?);
    let c = node.known_dims_at(&x, 1)?;
    let divides = |at: usize| match node.known_dims_at(&x, at) {
        Ok(size) => size % block.max(1) == 0,
        Err(_) => true,
    };
    if block <= 0 || !divides(2) || !divides(3) {
        return Err(format!("positions {:?} do not divide into squares of {block}", x.dims()));
    }
    let [n, h, w] = positions(node, &x)?;
    let (size, depth) =
        (node.scalar(DType::Int64, block as f64)?, node.scalar(DType::Int64, c as f64)?);
    let all = node.scalar(DType::Int64, (c * block * block) as f64)?;
    let rows = plain(node, "FloorDiv", &[&h, &size])?;
    let columns = plain(node, "FloorDiv", &[&w, &size])?;
    let parts = reshape_by_numbers(node, &x, &[&n, &depth, &rows, &size, &columns, &size])?;
    let order = if is_block_first { [0, 3, 5, 1, 2, 4] } else { [0, 1, 3, 5, 2, 4] };
    let transposed = transpose_by(node, &parts, &order)?;
    let made = reshape_by_numbers(node, &transposed, &[&n, &all, &rows, &columns])?;
    Ok(vec![with_channels(node, made, c * block * block)])
}

/// Whether the position in a block comes before the depth in the order of channels.
fn block_mode(node: &Conversion<'_>) -> Result<bool, String> {
    let mode = node.text("mode", "DCR");
    node.expect_text("mode", &mode, &["DCR", "CRD"])?;
    Ok(mode == "DCR")
}

/// Batch, height and width of images, as numbers.
fn positions(node: &mut Conversion<'_>, x: &Value) -> Result<[Value; 3], String> {
    match node.rank(x)? {
        4 => Ok([size_at(node, x, 0)?, size_at(node, x, 2)?, size_at(node, x, 3)?]),
        rank => Err(format!("its input has {rank} dimensions, not 4")),
    }
}

fn reshape_by_numbers(
    node: &mut Conversion<'_>,
    x: &Value,
    sizes: &[&Value],
) -> Result<Value, String> {
    let sizes: Vec<Value> = sizes.iter().map(|size| (*size).clone()).collect();
    reshape_by(node, x, &sizes)
}

/// Images that are known to have so many channels.
fn with_channels(node: &mut Conversion<'_>, mut images: Value, channels: i64) -> Value {
    node.learn_dims(&mut images, &[-1, channels, -1, -1]);
    images
}

fn expand(node: &mut Conversion<'_>) -> Converted {
    let (x, sizes) = (node.input(0)?, node.input(1)?);
    let mut expanded = node.add("Expand", &[&x, &sizes], Attrs::new())?;
    if let (Some(rank), Some(&[count])) = (x.rank(), sizes.dims())
        && let Ok(count) = usize::try_from(count)
    {
        node.learn_dims(&mut expanded, &vec![-1; rank.max(count)]);
    }
    Ok(vec![expanded])
}

/// Two dimensions: those before the axis, and the others.
fn flatten(node: &mut Conversion<'_>) -> Converted {
    let x = node.input(0)?;
    let rank = node.rank(&x)?;
    let from = node.int("axis", 1);
    let from = if from < 0 { from + rank as i64 } else { from };
    let Some(from) = usize::try_from(from).ok().filter(|from| *from <= rank) else {
        return Err(format!("axis {from} is outside of {rank} dimensions"));
    };
    let dims = x.dims().unwrap_or_default().to_vec();
    let product = |dims: &[i64]| match dims.iter().all(|dim| *dim >= 0) {
        true => Some(dims.iter().product::<i64>()),
        false => None,
    };
    let sizes = match (product(&dims[..from]), product(&dims[from..])) {
        (Some(rows), Some(columns)) => vec![rows, columns],
        (Some(rows), None) => vec![rows, -1],
        (None, Some(columns)) => vec![-1, columns],
        (None, None) => {
            let merged = flatten_range(node, &x, from, rank)?;
            return Ok(vec![flatten_range(node, &merged, 0, from)?]);
        }
    };
    Ok(vec![reshape_to(node, &x, &sizes)?])
}

/// Merges the dimensions from one to before another.
fn flatten_range(
    node: &mut Conversion<'_>,
    x: &Value,
    from: usize,
    to: usize,
) -> Result<Value, String> {
    if to == from {
        let axes = attrs([("axes", vec![from as i64].into())]);
        return node.add("Unsqueeze", &[x], axes);
    }
    let ends = attrs([("axis", (from as i64).into()), ("end_axis", (to as i64 - 1).into())]);
    node.add("FlattenV2", &[x], ends)
}

/// Begins and ends are an attribute before version 11, else an input; `axes` (from version 18 on) names which dimensions
/// they are of.
fn pad(node: &mut Conversion<'_>) -> Converted {
    let x = node.input(0)?;
    let mode = node.text("mode", "constant");
    node.expect_text("mode", &mode, &["constant", "reflect", "edge", "wrap"])?;
    let (mut pads, value) = match node.opset < 11 {
        true => {
            let pads = node.ints("pads").ok_or("the attribute pads is missing")?;
            let value = f64::from(node.float("value", 0.0));
            (node.int_list(&pads), Some(node.scalar(x.dtype(), value)?))
        }
        false => (node.input(1)?, node.optional(2)),
    };
    if let Some(axes) = node.optional(3) {
        let rank = node.rank(&x)?;
        let (Some(axes), Some(given_pads)) = (axes.ints(), pads.ints()) else {
            let pads = pads_of_axes(node, &axes, &pads, rank as i64)?;
            let value = match value {
                Some(value) => value,
                None => node.scalar(x.dtype(), 0.0)?,
            };
            return pad_by(node, &x, &pads, &value, &mode).map(|value| vec![value]);
        };
        if given_pads.len() != 2 * axes.len() {
            return Err(format!("{} pads for {} axes", given_pads.len(), axes.len()));
        }
        let mut all = vec![0; 2 * rank];
        for (at, axis_index) in axes.iter().enumerate() {
            let axis_index = axis(*axis_index, rank)?;
            all[axis_index] = given_pads[at];
            all[rank + axis_index] = given_pads[axes.len() + at];
        }
        pads = node.int_list(&all);
    }
    if let Some(all) = pads.ints().filter(|all| all.iter().any(|pad| *pad < 0)) {
        return crop_and_pad(node, &x, &all, value, &mode).map(|value| vec![value]);
    }
    let value = match value {
        Some(value) => value,
        None => node.scalar(x.dtype(), 0.0)?,
    };
    pad_by(node, &x, &pads, &value, &mode).map(|value| vec![value])
}

/// Begins and ends of all dimensions from those of some, which a run names.
fn pads_of_axes(
    node: &mut Conversion<'_>,
    axes: &Value,
    pads: &Value,
    rank: i64,
) -> Result<Value, String> {
    let starts = from_front(node, axes, rank)?;
    let distance = node.int_list(&[rank]);
    let ends = node.add("Add", &[&starts, &distance], Attrs::new())?;
    let join = attrs([("concat_dim", 0i64.into()), ("N", 2i64.into())]);
    let at = node.add("ConcatD", &[&starts, &ends], join)?;
    let none = node.int_list(&vec![0; 2 * rank as usize]);
    let pads = node.cast(pads, DType::Int64)?;
    scatter(node, &none, &at, &pads)
}

fn pad_by(
    node: &mut Conversion<'_>,
    x: &Value,
    pads: &Value,
    value: &Value,
    mode: &str,
) -> Result<Value, String> {
    let mode = if mode == "wrap" { "circular" } else { mode };
    let attrs = attrs([("mode", mode.into()), ("paddings_contiguous", false.into())]);
    let mut padded = node.add("PadV3", &[x, pads, value], attrs)?;
    if let Some(rank) = x.rank() {
        node.learn_dims(&mut padded, &vec![-1; rank]);
    }
    Ok(padded)
}

/// Negative pads take elements away.
fn crop_and_pad(
    node: &mut Conversion<'_>,
    x: &Value,
    pads: &[i64],
    value: Option<Value>,
    mode: &str,
) -> Result<Value, String> {
    let rank = node.rank(x)?;
    let dims = node.known_dims(x, "its input")?;
    if pads.len() != 2 * rank {
        return Err(format!("{} pads for {rank} dimensions", pads.len()));
    }
    let taken: Vec<i64> = pads.iter().map(|pad| pad.saturating_neg().max(0)).collect();
    let starts = taken[..rank].to_vec();
    let size = |(at, dim): (usize, &i64)| {
        let size = dim.checked_sub(taken[at])?.checked_sub(taken[rank + at])?;
        (size >= 0).then_some(size)
    };
    let sizes: Option<Vec<i64>> = dims.iter().enumerate().map(size).collect();
    let sizes = sizes.ok_or_else(|| format!("the pads {pads:?} take more than {dims:?} has"))?;
    let (starts, sizes) = (node.int_list(&starts), node.int_list(&sizes));
    let cropped = node.add("Slice", &[x, &starts, &sizes], Attrs::new())?;
    let rest: Vec<i64> = pads.iter().map(|pad| (*pad).max(0)).collect();
    let rest = node.int_list(&rest);
    let value = match value {
        Some(value) => value,
        None => node.scalar(x.dtype(), 0.0)?,
    };
    pad_by(node, &cropped, &rest, &value, mode)
}

/// The middle of each axis, cut or padded with zeros.
fn center_crop_pad(node: &mut Conversion<'_>) -> Converted {
    let x = node.input(0)?;
    let rank = node.rank(&x)?;
    let axes = node.ints("axes").unwrap_or_else(|| (0..rank as i64).collect());
    let targets = node.input(1)?;
    let (Some(targets), Ok(dims)) = (targets.ints(), node.known_dims(&x, "its input")) else {
        return center_by_run(node, &x, &targets, &axes);
    };
    let mut pads = vec![0; 2 * dims.len()];
    for (axis_index, target) in axes.iter().zip(&targets) {
        let axis_index = axis(*axis_index, dims.len())?;
        let missing = target
            .checked_sub(dims[axis_index])
            .ok_or_else(|| format!("its target {target} is no size"))?;
        let before = missing.div_euclid(2);
        let before = if missing < 0 { -((-missing) / 2) } else { before };
        pads[axis_index] = before;
        pads[dims.len() + axis_index] = missing - before;
    }
    let value = node.scalar(x.dtype(), 0.0)?;
    Ok(vec![crop_and_pad(node, &x, &pads, Some(value), "constant")?])
}

/// The same where a run brings the sizes.
fn center_by_run(node: &mut Conversion<'_>, x: &Value, targets: &Value, axes: &[i64]) -> Converted {
    let rank = node.rank(x)? as i64;
    let axes = node.int_list(axes);
    let axes = from_front(node, &axes, rank)?;
    let targets = node.cast(targets, DType::Int64)?;
    let (zero, two) = (node.int_list(&[0]), node.int_list(&[2]));
    let sizes = node.sizes_of(x)?;
    let sizes = node.add("GatherV2", &[&sizes, &axes, &zero], Attrs::new())?;
    let half = |node: &mut Conversion<'_>, more: &Value, less: &Value| {
        let difference = node.add("Sub", &[more, less], Attrs::new())?;
        let difference = node.add("Maximum", &[&difference, &zero], Attrs::new())?;
        let half = node.add("FloorDiv", &[&difference, &two], Attrs::new())?;
        Ok::<_, String>((difference, half))
    };
    let (_, starts) = half(node, &sizes, &targets)?;
    let kept = node.add("Minimum", &[&sizes, &targets], Attrs::new())?;
    let ends = node.add("Add", &[&starts, &kept], Attrs::new())?;
    let inputs = [Some(x), Some(&starts), Some(&ends), Some(&axes)];
    let cropped = node.add_several("StridedSliceV2", &inputs, Attrs::new(), 1)?.remove(0);
    let (missing, before) = half(node, &targets, &sizes)?;
    let after = node.add("Sub", &[&missing, &before], Attrs::new())?;
    let join = attrs([("concat_dim", 0i64.into()), ("N", 2i64.into())]);
    let pads = node.add("ConcatD", &[&before, &after], join)?;
    let pads = pads_of_axes(node, &axes, &pads, rank)?;
    let value = node.scalar(x.dtype(), 0.0)?;
    Ok(vec![pad_by(node, &cropped, &pads, &value, "constant")?])
}

/// A size of 0 is that of the input, unless `allowzero` is set.
fn reshape(node: &mut Conversion<'_>) -> Converted {
    let (x, sizes) = (node.input(0)?, node.input(1)?);
    let keeps_zero = node.int("allowzero", 0) != 0;
    let mut reshaped = reshape_as(node, &x, &sizes, keeps_zero)?;
    let listed = match (sizes.partial_ints(), sizes.dims()) {
        (Some(listed), _) => listed,
        (None, Some(&[count])) => vec![None; usize::try_from(count).unwrap_or_default()],
        (None, _) => return Ok(vec![reshaped]),
    };
    let dims: Vec<i64> = (listed.iter().enumerate())
        .map(|(at, size)| match size {
            Some(0) if !keeps_zero => x.dims().and_then(|have| have.get(at)).copied().unwrap_or(-1),
            Some(size) => *size,
            None => -1,
        })
        .collect();
    if sizes.ints().is_some() || sizes.dims().is_some_and(|dims| dims.iter().all(|dim| *dim >= 0)) {
        node.learn_dims(&mut reshaped, &dims);
    }
    Ok(vec![reshaped])
}

fn reshape_as(
    node: &mut Conversion<'_>,
    x: &Value,
    sizes: &Value,
    keeps_zero: bool,
) -> Result<Value, String> {
    let known = sizes.ints();
    if keeps_zero || known.as_ref().is_some_and(|dims| !dims.contains(&0)) {
        return node.add("Reshape", &[x, sizes], Attrs::new());
    }
    if let (Some(mut dims), Some(have)) = (known, x.dims()) {
        let mut is_known = true;
        for (at, dim) in dims.iter_mut().enumerate().filter(|(_, dim)| **dim == 0) {
            *dim = *have.get(at).ok_or_else(|| {
                format!("size {at} is that of the input, which has {} dimensions", have.len())
            })?;
            is_known &= *dim >= 0;
        }
        let open = dims.iter().filter(|dim| **dim < 0).count();
        if is_known || open == 1 {
            return reshape_to(node, x, &dims);
        }
    }
    let Some(count) =
        sizes.dims().and_then(|dims| dims.first().copied()).filter(|count| *count >= 0)
    else {
        return Err("the number of sizes is not known".to_owned());
    };
    let rank = node.rank(x)? as i64;
    let int64 = DType::Int64 as i64;
    let mut have = node.add("Shape", &[x], attrs([("dtype", int64.into())]))?;
    if rank > count {
        let (start, length) = (node.int_list(&[0]), node.int_list(&[count]));
        have = node.add("Slice", &[&have, &start, &length], Attrs::new())?;
    } else if rank < count {
        let ones = node.repeated(1, count - rank)?;
        let join = attrs([("concat_dim", 0i64.into()), ("N", 2i64.into())]);
        have = node.add("ConcatD", &[&have, &ones], join)?;
    }
    let zero = node.scalar(sizes.dtype(), 0.0)?;
    let is_zero = node.add("Equal", &[sizes, &zero], Attrs::new())?;
    let have = node.cast(&have, sizes.dtype())?;
    let chosen = node.add("SelectV2", &[&is_zero, &have, sizes], Attrs::new())?;
    node.add("Reshape", &[x, &chosen], Attrs::new())
}

/// Bounds are attributes before version 10, else inputs.
fn slice(node: &mut Conversion<'_>) -> Converted {
    let x = node.input(0)?;
    if node.opset < 10 {
        let starts = node.ints("starts").ok_or("the attribute starts is missing")?;
        let ends = node.ints("ends").ok_or("the attribute ends is missing")?;
        let axes = node.ints("axes").unwrap_or_else(|| (0..starts.len() as i64).collect());
        let (starts, ends) = (node.int_list(&starts), node.int_list(&ends));
        let axes = node.int_list(&axes);
        let inputs = [Some(&x), Some(&starts), Some(&ends), Some(&axes)];
        return node.add_several("StridedSliceV2", &inputs, Attrs::new(), 1);
    }
    let (starts, ends) = (node.input(1)?, node.input(2)?);
    let (axes, steps) = (node.optional(3), node.optional(4));
    let starts = first_of_backward(node, &x, starts, axes.as_ref(), steps.as_ref())?;
    let inputs = [Some(&x), Some(&starts), Some(&ends), axes.as_ref(), steps.as_ref()];
    let mut part = node.add_several("StridedSliceV2", &inputs, Attrs::new(), 1)?.remove(0);
    if let Some(dims) = x.dims() {
        // Those of other axes stay.
        let mut dims = dims.to_vec();
        match axes.as_ref().map(Value::ints) {
            Some(Some(axes)) => {
                for one in axes {
                    let at = axis(one, dims.len())?;
                    dims[at] = -1;
                }
            }
            _ => dims.fill(-1),
        }
        node.learn_dims(&mut part, &dims);
    }
    Ok(vec![part])
}

/// The starts of a slice, none before the first element: a slice that goes backward from there has that element.
fn first_of_backward(
    node: &mut Conversion<'_>,
    x: &Value,
    starts: Value,
    axes: Option<&Value>,
    steps: Option<&Value>,
) -> Result<Value, String> {
    let known = |value: &Value, least: i64| {
        value.ints().is_some_and(|values| values.iter().all(|value| *value >= least))
    };
    if known(&starts, -1) || steps.is_none_or(|steps| known(steps, 1)) {
        return Ok(starts);
    }
    let mut sizes = node.sizes_of(x)?;
    if let Some(axes) = axes {
        let rank = node.rank(x)? as i64;
        let axes = from_front(node, axes, rank)?;
        let first = node.int_list(&[0]);
        sizes = plain(node, "GatherV2", &[&sizes, &axes, &first])?;
    } else if let Some(&[count]) = starts.dims() {
        let (first, length) = (node.int_list(&[0]), node.int_list(&[count]));
        sizes = plain(node, "Slice", &[&sizes, &first, &length])?;
    }
    let least = plain(node, "Neg", &[&sizes])?;
    let least = node.cast(&least, starts.dtype())?;
    plain(node, "Maximum", &[&starts, &least])
}

/// Parts of a split that a model need not name.
const MAX_PARTS: usize = 1000;

/// Sizes of the parts are an attribute before version 13, else an input; without them all are equal, but for the last.
fn split(node: &mut Conversion<'_>) -> Converted {
    let x = node.input(0)?;
    let split_axis = node.int("axis", 0);
    let axis_index = match x.rank() {
        None if split_axis >= 0 => split_axis as usize,
        _ => axis(split_axis, node.rank(&x)?)?,
    };
    let count = match node.int("num_outputs", 0) {
        0 => node.output_count(),
        count => usize::try_from(count).unwrap_or(usize::MAX),
    };
    if count > node.output_count().max(MAX_PARTS) {
        return Err(format!("num_outputs is {count}, and it has {}", node.output_count()));
    }
    let parts = match (node.ints("split"), node.optional(1)) {
        (Some(parts), _) => node.int_list(&parts),
        (None, Some(parts)) => parts,
        (None, None) => {
            let Ok(size) = node.known_dims_at(&x, axis_index) else {
                if node.has("num_outputs") {
                    return split_unevenly(node, &x, axis_index, count);
                }
                let equal = attrs([
                    ("split_dim", (axis_index as i64).into()),
                    ("num_split", (count as i64).into()),
                ]);
                return node.add_several("SplitD", &[Some(&x)], equal, count);
            };
            let part = (size + count as i64 - 1) / (count as i64).max(1);
            let sizes: Vec<i64> =
                (0..count as i64).map(|at| (size - at * part).clamp(0, part)).collect();
            node.int_list(&sizes)
        }
    };
    let dim = node.scalar(DType::Int32, axis_index as f64)?;
    let attrs = attrs([("num_split", (count as i64).into())]);
    node.add_several("SplitV", &[Some(&x), Some(&parts), Some(&dim)], attrs, count)
}

/// So many parts of a size that a run brings, all of the same size but for the last.
fn split_unevenly(
    node: &mut Conversion<'_>,
    x: &Value,
    axis_index: usize,
    count: usize,
) -> Converted {
    let size = size_at(node, x, axis_index as i64)?;
    let (more, divisor) = (node.int_list(&[count as i64 - 1]), node.int_list(&[count as i64]));
    let rounded = plain(node, "Add", &[&size, &more])?;
    let part = plain(node, "FloorDiv", &[&rounded, &divisor])?;
    let numbers = node.counting(0..count as i64)?;
    let begins = plain(node, "Mul", &[&numbers, &part])?;
    let left = plain(node, "Sub", &[&size, &begins])?;
    let zero = node.int_list(&[0]);
    let left = plain(node, "Maximum", &[&left, &zero])?;
    let parts = plain(node, "Minimum", &[&left, &part])?;
    let dim = node.scalar(DType::Int32, axis_index as f64)?;
    let attrs = attrs([("num_split", (count as i64).into())]);
    let mut made =
        node.add_several("SplitV", &[Some(x), Some(&parts), Some(&dim)], attrs, count)?;
    if let Some(dims) = x.dims() {
        made.iter_mut().for_each(|one| node.learn_dims(one, dims));
    }
    Ok(made)
}

/// The axes of a node: an attribute, or an input.
enum Axes {
    /// There are none.
    None,
    /// They are known now.
    Known(Vec<i64>),
    /// A run brings them.
    Fed(Value),
}

fn axes_of(node: &Conversion<'_>) -> Axes {
    match (node.ints("axes"), node.optional(1)) {
        (Some(axes), _) => Axes::Known(axes),
        (None, None) => Axes::None,
        (None, Some(axes)) => axes.ints().map_or(Axes::Fed(axes), Axes::Known),
    }
}

/// 1 at the axes that a run names, 0 at the others.
fn axis_mask(node: &mut Conversion<'_>, axes: &Value, rank: i64) -> Result<Value, String> {
    let axes = from_front(node, axes, rank)?;
    let count = node.known_dims_at(&axes, 0)?;
    let zeros = node.int_list(&vec![0; rank as usize]);
    let ones = node.repeated(1, count)?;
    scatter(node, &zeros, &axes, &ones)
}

/// Axes counted from the front.
fn from_front(node: &mut Conversion<'_>, axes: &Value, rank: i64) -> Result<Value, String> {
    let axes = node.cast(axes, DType::Int64)?;
    let rank = node.int_list(&[rank]);
    node.add("FloorMod", &[&axes, &rank], Attrs::new())
}

/// A list with some of its elements replaced.
fn scatter(
    node: &mut Conversion<'_>,
    list: &Value,
    at: &Value,
    elements: &Value,
) -> Result<Value, String> {
    let attrs = attrs([("axis", 0i64.into()), ("reduction", "none".into())]);
    node.add("ScatterElements", &[list, at, elements], attrs)
}

fn squeeze(node: &mut Conversion<'_>) -> Converted {
    let x = node.input(0)?;
    let axes = match axes_of(node) {
        Axes::None => Vec::new(),
        Axes::Known(axes) => axes,
        Axes::Fed(axes) => {
            let rank = node.rank(&x)? as i64;
            let mask = axis_mask(node, &axes, rank)?;
            let zero = node.int_list(&[0]);
            let stays = node.add("Equal", &[&mask, &zero], Attrs::new())?;
            let sizes = node.sizes_of(&x)?;
            let sizes = node.add("MaskedSelect", &[&sizes, &stays], Attrs::new())?;
            return Ok(vec![node.add("Reshape", &[&x, &sizes], Attrs::new())?]);
        }
    };
    Ok(vec![node.add("Squeeze", &[&x], attrs([("axis", axes.into())]))?])
}

fn unsqueeze(node: &mut Conversion<'_>) -> Converted {
    let x = node.input(0)?;
    let axes = match axes_of(node) {
        Axes::None => return Err("the axes are missing".to_owned()),
        Axes::Known(axes) => axes,
        Axes::Fed(axes) => {
            let rank = node.rank(&x)? as i64 + node.known_dims_at(&axes, 0)?;
            let mask = axis_mask(node, &axes, rank)?;
            let (zero, one) = (node.int_list(&[0]), node.int_list(&[1]));
            let others = node.add("Sub", &[&one, &mask], Attrs::new())?;
            let sums = node.add("Cumsum", &[&others, &zero], Attrs::new())?;
            let index = node.add("Sub", &[&sums, &one], Attrs::new())?;
            let index = node.add("Maximum", &[&index, &zero], Attrs::new())?;
            let sizes = node.sizes_of(&x)?;
            let sizes = node.add("GatherV2", &[&sizes, &index, &zero], Attrs::new())?;
            let is_new = node.add("Equal", &[&mask, &one], Attrs::new())?;
            let sizes = node.add("SelectV2", &[&is_new, &one, &sizes], Attrs::new())?;
            return Ok(vec![node.add("Reshape", &[&x, &sizes], Attrs::new())?]);
        }
    };
    let mut axes = match x.rank() {
        None => axes,
        Some(rank) => {
            let rank = rank + axes.len();
            axes.iter()
                .map(|one| axis(*one, rank).map(|one| one as i64))
                .collect::<Result<_, _>>()?
        }
    };
    axes.sort_unstable();
    Ok(vec![node.add("Unsqueeze", &[&x], attrs([("axes", axes.into())]))?])
}

fn tile(node: &mut Conversion<'_>) -> Converted {
    let (x, repeats) = (node.input(0)?, node.input(1)?);
    let mut tiled = node.add("Tile", &[&x, &repeats], Attrs::new())?;
    if let Some(rank) = x.rank() {
        node.learn_dims(&mut tiled, &vec![-1; rank]);
    }
    Ok(vec![tiled])
}

/// Without an order the axes are reversed.
fn transpose(node: &mut Conversion<'_>) -> Converted {
    let x = node.input(0)?;
    let order = match node.ints("perm") {
        Some(order) => order,
        None => (0..node.rank(&x)? as i64).rev().collect(),
    };
    Ok(vec![transpose_by(node, &x, &order)?])
}

/// The part of each matrix on and above, or on and below, a diagonal.
fn trilu(node: &mut Conversion<'_>) -> Converted {
    let x = node.input(0)?;
    let is_upper = node.int("upper", 1) != 0;
    let diagonal = node.optional(1);
    let known = diagonal.as_ref().map_or(Some(vec![0]), Value::ints);
    if let Some([diagonal]) = known.as_deref() {
        let kind = if is_upper { "Triu" } else { "Tril" };
        return Ok(vec![node.add(kind, &[&x], attrs([("diagonal", (*diagonal).into())]))?]);
    }
    let diagonal = node.input(1)?;
    let distance = diagonals(node, &x)?;
    let kind = if is_upper { "GreaterEqual" } else { "LessEqual" };
    let stays = node.add(kind, &[&distance, &diagonal], Attrs::new())?;
    let zero = node.scalar(x.dtype(), 0.0)?;
    Ok(vec![node.add("SelectV2", &[&stays, &x, &zero], Attrs::new())?])
}
