//! Padding with elements of the tensor: mirrored (reflect, symmetric), the outermost repeated (replicate), or from the other
//! end (circular); and the gradients.

use super::inputs::UnaliasedInput;
use super::window::as_5d;
use crate::call::Call;
use crate::error::{Error, Result};
use crate::infer::Infer;
use crate::plan::{Operand, Plan};
use crate::table::ArgSource::{A, Attr, I, O};
use crate::table::{AttrDefault, Bind, Node, Row, aclnn, node};
use cairn_tensor::kernels::taps::{Edge, Rule, Taps};
use cairn_tensor::{DType, Dims, Layout};
use smallvec::SmallVec;

const REALS: &[DType] = &[DType::Float, DType::Float16, DType::Bf16, DType::Double];

/// Padding before and after each dimension.
type Pairs = SmallVec<[(i64, i64); 8]>;

/// The sizes of a tensor with padding; an error where a dimension gets more padding than the mode can fill (reflect: its
/// size less one; symmetric and circular: its size), or loses more than it has.
fn sizes(
    call: &Call<'_>,
    at: usize,
    dims: &[usize],
    pairs: &[(i64, i64)],
    edge: Edge,
) -> Result<Dims> {
    let mut padded = Dims::new(dims);
    for (dim, (before, after)) in pairs.iter().enumerate() {
        let size = dims[dim] as i64;
        let limit = match edge {
            Edge::Reflect => size - 1,
            Edge::Symmetric | Edge::Circular => size,
            Edge::Replicate => i64::from(i32::MAX),
        };
        let fits = |amount: &i64| *amount >= -size && *amount <= limit.max(0);
        let padded_size = size.saturating_add(*before).saturating_add(*after);
        let is_empty = size == 0 && (*before > 0 || *after > 0);
        if !fits(before) || !fits(after) || padded_size < 0 || is_empty {
            let name = call.parameter(at);
            return Err(Error::invalid(format!(
                "{name} has ({before}, {after}) for a dimension of size {size}: expected {} to {} each",
                -size,
                if size == 0 { 0 } else { limit.max(0) }
            )));
        }
        padded[dim] = padded_size as usize;
    }
    Ok(padded)
}

/// The dimensions that are padded, and how.
fn steps(dims: &[usize], padded: &[usize], pairs: &[(i64, i64)], edge: Edge) -> Vec<(usize, Taps)> {
    { pairs.iter().enumerate() }
        .filter(|(_, pair)| **pair != (0, 0))
        .map(|(dim, (before, _))| {
            let rule = Rule::Padding(*before, edge);
            (dim, Taps { rule, input: dims[dim], output: padded[dim] })
        })
        .collect()
}

/// The plan of a tensor with padding.
pub fn pad_with_edge(
    call: &mut Call<'_>,
    (a_at, pairs_at, out_at): (usize, usize, usize),
    (a, out): (UnaliasedInput, Operand),
    pairs: &[(i64, i64)],
    edge: Edge,
) -> Result<Plan> {
    let padded = sizes(call, pairs_at, a.dims(), pairs, edge)?;
    call.expect_dims(out_at, &out, &padded)?;
    call.expect_same(out_at, &out, a_at, &a)?;
    let remapping = call.remapping(&steps(a.dims(), &padded, pairs, edge));
    call.plan(move |memory| {
        remapping.run(memory, memory.out(&out), a.view(memory));
        Ok(())
    })
}

/// The plan of the gradient of a tensor with padding.
fn plan_gradient(
    call: &mut Call<'_>,
    (dy_at, pairs_at, out_at): (usize, usize, usize),
    pairs: &[(i64, i64)],
    edge: Edge,
) -> Result<Plan> {
    let out = call.output(out_at)?;
    let dy = call.read(dy_at, &[&out])?;
    let padded = sizes(call, pairs_at, out.dims(), pairs, edge)?;
    call.expect_dims(dy_at, &dy, &padded)?;
    call.expect_dtype(dy_at, &dy, REALS)?;
    call.expect_same(out_at, &out, dy_at, &dy)?;
    if out.count() == 0 {
        return call.nothing();
    }
    let resampling = call.resampling(&dy, &steps(out.dims(), &padded, pairs, edge), true);
    call.plan(move |memory| {
        resampling.run(memory, memory.out(&out), dy.view(memory));
        Ok(())
    })
}

/// Padding of the last dimensions, the last first: two numbers for each. Every one is smaller than its dimension.
fn last_pairs(call: &Call<'_>, at: usize, dims: &[usize], spatial: usize) -> Result<Pairs> {
    let values = call.ints(at)?;
    let name = call.parameter(at);
    if values.len() != 2 * spatial {
        let expected = 2 * spatial;
        return Err(Error::invalid(format!("{name} = {values:?}: expected {expected} numbers")));
    }
    let mut pairs: Pairs = SmallVec::from_elem((0, 0), dims.len());
    for (i, two) in values.chunks(2).enumerate() {
        let dim = dims.len() - 1 - i;
        if two.iter().any(|amount| *amount >= dims[dim] as i64) {
            return Err(Error::invalid(format!(
                "{name} = {values:?} is not smaller than the dimension of size {}",
                dims[dim]
            )));
        }
        pairs[dim] = (two[0], two[1]);
    }
    Ok(pairs)
}

/// Arguments: self, padding, out, spatial dimensions.
fn forward(call: &mut Call<'_>, edge: Edge) -> Result<Plan> {
    let spatial = call.int(3)? as usize;
    let out = call.output(2)?;
    let a = call.read(0, &[&out])?;
    as_5d(call, 0, &a, spatial, false)?;
    let pairs = last_pairs(call, 1, a.dims(), spatial)?;
    pad_with_edge(call, (0, 1, 2), (a, out), &pairs, edge)
}

/// Arguments: dy, self, padding, dx, spatial dimensions.
fn backward(call: &mut Call<'_>, edge: Edge) -> Result<Plan> {
    let (x, dx, spatial) = (call.layout(1)?, call.layout(3)?, call.int(4)? as usize);
    as_5d(call, 1, &x, spatial, false)?;
    call.expect_dims(3, &dx, x.dims())?;
    let pairs = last_pairs(call, 2, x.dims(), spatial)?;
    plan_gradient(call, (0, 2, 3), &pairs, edge)
}

const REFLECT: Bind = |call| forward(call, Edge::Reflect);
const REFLECT_BACKWARD: Bind = |call| backward(call, Edge::Reflect);
const REPLICATE: Bind = |call| forward(call, Edge::Replicate);
const REPLICATE_BACKWARD: Bind = |call| backward(call, Edge::Replicate);
const CIRCULAR: Bind = |call| forward(call, Edge::Circular);
const CIRCULAR_BACKWARD: Bind = |call| backward(call, Edge::Circular);

macro_rules! rows {
    ($($name:literal, $back:literal, $forward:ident, $backward:ident, $spatial:literal;)*) => {
        &[$(
            aclnn($name, $forward).with_args(&[A(0), A(1), A(2), I($spatial)]),
            aclnn($back, $backward).with_args(&[A(0), A(1), A(2), A(3), I($spatial)]),
        )*]
    };
}

/// The rows of this family.
pub const ROWS: &[Row] = rows! {
    "ReflectionPad1d", "ReflectionPad1dBackward", REFLECT, REFLECT_BACKWARD, 1;
    "ReflectionPad2d", "ReflectionPad2dBackward", REFLECT, REFLECT_BACKWARD, 2;
    "ReflectionPad3d", "ReflectionPad3dBackward", REFLECT, REFLECT_BACKWARD, 3;
    "ReplicationPad1d", "ReplicationPad1dBackward", REPLICATE, REPLICATE_BACKWARD, 1;
    "ReplicationPad2d", "ReplicationPad2dBackward", REPLICATE, REPLICATE_BACKWARD, 2;
    "ReplicationPad3d", "ReplicationPad3dBackward", REPLICATE, REPLICATE_BACKWARD, 3;
    "CircularPad2d", "CircularPad2dBackward", CIRCULAR, CIRCULAR_BACKWARD, 2;
    "CircularPad3d", "CircularPad3dBackward", CIRCULAR, CIRCULAR_BACKWARD, 3;
};

/// What a mode puts into the padding; `None` for constants.
pub fn edge(call: &Call<'_>, at: usize) -> Result<Option<Edge>> {
    Ok(Some(match call.text(at)? {
        "" | "constant" => return Ok(None),
        "reflect" | "REFLECT" => Edge::Reflect,
        "symmetric" | "SYMMETRIC" => Edge::Symmetric,
        "edge" => Edge::Replicate,
        "circular" => Edge::Circular,
        other => {
            let name = call.parameter(at);
            return Err(Error::invalid(format!("{name} = {other:?} is not known")));
        }
    }))
}

/// Padding of every dimension, from the first on. `contiguous`: before and after of one dimension after the other;
/// otherwise before of all dimensions, then after of all.
pub fn pairs(call: &Call<'_>, at: usize, rank: usize, contiguous: bool) -> Result<Pairs> {
    let values = call.ints(at)?;
    if values.len() != 2 * rank {
        let name = call.parameter(at);
        return Err(Error::invalid(format!(
            "{name} = {values:?}: expected two numbers for each of {rank} dimensions"
        )));
    }
    Ok((0..rank)
        .map(|dim| match contiguous {
            true => (values[2 * dim], values[2 * dim + 1]),
            false => (values[dim], values[rank + dim]),
        })
        .collect())
}

/// Arguments: x, paddings, y, mode.
fn mirror_pad(call: &mut Call<'_>) -> Result<Plan> {
    let out = call.output(2)?;
    let a = call.read(0, &[&out])?;
    let Some(edge) = edge(call, 3)?.filter(|edge| matches!(edge, Edge::Reflect | Edge::Symmetric))
    else {
        let (name, mode) = (call.parameter(3), call.text(3)?);
        return Err(Error::invalid(format!("{name} = {mode:?}: expected REFLECT or SYMMETRIC")));
    };
    let pairs = pairs(call, 1, a.rank(), true)?;
    pad_with_edge(call, (0, 1, 2), (a, out), &pairs, edge)
}

fn padded_output(call: &Call<'_>) -> Result<Vec<Layout>> {
    let a = call.layout(0)?;
    let pairs = pairs(call, 1, a.rank(), true)?;
    let size = |(size, (before, after)): (&usize, &(i64, i64))| {
        (*size as i64).saturating_add(*before).saturating_add(*after).max(0) as usize
    };
    let dims: Dims = a.dims().iter().zip(&pairs).map(size).collect();
    Ok(vec![Layout::contiguous(a.dtype, &dims)])
}

/// The gradient. Arguments: dy, paddings, dx, mode, paddings_contiguous.
fn node_backward(call: &mut Call<'_>) -> Result<Plan> {
    let dx = call.layout(2)?;
    let pairs = pairs(call, 1, dx.rank(), call.flag_or(4, true)?)?;
    let Some(edge) = edge(call, 3)? else {
        return crop(call, &pairs);
    };
    plan_gradient(call, (0, 1, 2), &pairs, edge)
}

/// The gradient of padding with one value: the inner part.
fn crop(call: &mut Call<'_>, pairs: &[(i64, i64)]) -> Result<Plan> {
    let out = call.output(2)?;
    let dy = call.read(0, &[&out])?;
    call.expect_same(2, &out, 0, &dy)?;
    let mut inner = *dy;
    for (dim, (before, after)) in pairs.iter().enumerate() {
        let size = dy.dims().get(dim).map_or(-1, |size| *size as i64);
        let inner_size = size.saturating_sub(*before).saturating_sub(*after);
        if dy.rank() != out.rank() || *before < 0 || *after < 0 || inner_size < 0 {
            let name = call.parameter(1);
            return Err(Error::invalid(format!(
                "{name} has ({before}, {after}) for a dimension of size {size}: expected numbers of 0 or more that \
                 leave a size of 0 or more"
            )));
        }
        inner = inner.sliced(
            dim,
            if inner_size == 0 { 0 } else { *before as usize },
            inner_size as usize,
            1,
        );
    }
    call.expect_dims(2, &out, inner.dims())?;
    call.plan(move |memory| {
        dy.prepare(memory);
        let from = dy.with_layout(inner).prepared(memory);
        cairn_tensor::kernels::copy::copy(memory.parallel, memory.out(&out), from);
        Ok(())
    })
}

fn unpadded_output(call: &Call<'_>) -> Result<Vec<Layout>> {
    let dy = call.layout(0)?;
    let pairs = pairs(call, 1, dy.rank(), call.flag_or(4, true)?)?;
    let size = |(size, (before, after)): (&usize, &(i64, i64))| {
        (*size as i64).saturating_sub(*before).saturating_sub(*after).max(0) as usize
    };
    let dims: Dims = dy.dims().iter().zip(&pairs).map(size).collect();
    Ok(vec![Layout::contiguous(dy.dtype, &dims)])
}

/// The operators of this family by IR name.
pub const NODES: &[Node] = &[
    node(
        "MirrorPad",
        &["x", "paddings"],
        &["y"],
        Infer::By(padded_output),
        mirror_pad,
        &[A(0), A(1), O(0), Attr("mode", AttrDefault::Required)],
    )
    .needs_values(&[1]),
    node(
        "PadV3Grad",
        &["x", "paddings"],
        &["y"],
        Infer::By(unpadded_output),
        node_backward,
        &[
            A(0),
            A(1),
            O(0),
            Attr("mode", AttrDefault::Text("reflect")),
            Attr("paddings_contiguous", AttrDefault::Flag(true)),
        ],
    )
    .needs_values(&[1]),
];
