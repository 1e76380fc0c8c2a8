//! Tensors with another layout, as copies: transposed, mirrored, rolled, broadcast, reshaped; and their sizes.

use super::inputs::UnaliasedInput;
use super::joining::plan_copies;
use crate::call::Call;
use crate::error::{Error, Result};
use crate::infer::Infer;
use crate::plan::{Operand, Plan};
use crate::table::ArgSource::{A, Attr, I, No, O};
use crate::table::{AttrDefault, Node, Row, aclnn, node};
use cairn_tensor::kernels::copy::copy;
use cairn_tensor::kernels::map::fill_scalar;
use cairn_tensor::{DType, Dims, Layout, Scalar};

/// The plan that copies a view of an input, of this layout, to an output of its sizes.
pub(super) fn plan_view_copy(
    call: &mut Call<'_>,
    at: usize,
    a: UnaliasedInput,
    layout: Layout,
    out: (usize, Operand),
) -> Result<Plan> {
    call.expect_dims(out.0, &out.1, layout.dims())?;
    call.expect_converts(at, &a, &out.1)?;
    let part = a.with_layout_only(call, layout);
    plan_copies(call, vec![(part, out.1)])
}

/// The same elements in the same order, other sizes. Arguments: a, -, out.
fn reshape(call: &mut Call<'_>) -> Result<Plan> {
    let out = call.output(2)?;
    let a = call.read(0, &[&out])?;
    call.expect_converts(0, &a, &out)?;
    if a.count() != out.count() {
        let (from, to, have, want) = (call.parameter(0), call.parameter(2), a.dims(), out.dims());
        return Err(Error::invalid(format!("{from} {have:?} does not fill {to} {want:?}")));
    }
    if let Some(layout) = a.reshaped(out.dims()) {
        return plan_view_copy(call, 0, a, layout, (2, out));
    }
    if let Some(layout) = out.reshaped(a.dims()) {
        let out = out.with_layout(layout);
        return plan_copies(call, vec![(a, out)]);
    }
    let packed = call.scratch(out.dtype, a.dims());
    call.plan(move |memory| {
        let target = memory.scratch(&packed);
        copy(memory.parallel, target, a.view(memory));
        let layout = target.reshaped(out.dims()).expect("contiguous");
        copy(
            memory.parallel,
            memory.out(&out),
            target.view().with_layout(layout).expect("the same elements"),
        );
        Ok(())
    })
}

fn reshaped_output(call: &Call<'_>) -> Result<Vec<Layout>> {
    let (a, mut sizes) = (call.layout(0)?, call.ints(1)?);
    if a.count() > 0 {
        for (at, size) in sizes.iter_mut().enumerate().filter(|(_, size)| **size == 0) {
            *size = a.dims().get(at).map_or(0, |size| *size as i64);
        }
    }
    let stated =
        sizes.iter().filter(|size| **size >= 0).fold(1i64, |all, one| all.saturating_mul(*one));
    for size in sizes.iter_mut().filter(|size| **size < 0) {
        *size = a.count() as i64 / stated.max(1);
    }
    let dims: Vec<usize> = sizes.iter().map(|size| *size as usize).collect();
    let count = dims.iter().try_fold(1usize, |count, size| count.checked_mul(*size));
    if dims.len() > cairn_tensor::MAX_DIMS || count != Some(a.count()) {
        let (name, have) = (call.parameter(0), a.dims());
        return Err(Error::invalid(format!("{name} {have:?} does not fill {dims:?}")));
    }
    Ok(vec![Layout::contiguous(a.dtype, &dims)])
}

fn squeezed_output(call: &Call<'_>) -> Result<Vec<Layout>> {
    let (a, axes) = (call.layout(0)?, call.ints(1)?);
    let mut removed = Vec::new();
    for axis in &axes {
        removed.push(call.wrap(1, *axis, a.rank())?);
    }
    let keep = |at: &usize| a.dims()[*at] != 1 || !(removed.is_empty() || removed.contains(at));
    let dims: Dims = (0..a.rank()).filter(keep).map(|at| a.dims()[at]).collect();
    Ok(vec![Layout::contiguous(a.dtype, &dims)])
}

fn unsqueezed_output(call: &Call<'_>) -> Result<Vec<Layout>> {
    let (a, axes) = (call.layout(0)?, call.ints(1)?);
    let rank = a.rank() + axes.len();
    if rank > cairn_tensor::MAX_DIMS {
        let name = call.parameter(1);
        return Err(Error::invalid(format!("{name} = {axes:?} gives {rank} dimensions")));
    }
    let mut axes_in_order: Vec<usize> = Vec::new();
    for axis in &axes {
        axes_in_order.push(call.wrap(1, *axis, rank)?);
    }
    axes_in_order.sort_unstable();
    let mut dims = Dims::new(a.dims());
    axes_in_order.into_iter().for_each(|at| dims.insert(at.min(dims.len()), 1));
    Ok(vec![Layout::contiguous(a.dtype, &dims)])
}

fn flattened_output(call: &Call<'_>) -> Result<Vec<Layout>> {
    let a = call.layout(0)?;
    let (from, to) = (call.dim(1, a.rank())?, call.dim(3, a.rank())?);
    let mut dims = Dims::default();
    for (at, size) in a.dims().iter().enumerate() {
        if at > from && at <= to {
            let last = dims.len() - 1;
            dims[last] = dims[last].saturating_mul(*size);
        } else {
            dims.push(*size);
        }
    }
    Ok(vec![Layout::contiguous(a.dtype, &dims)])
}

/// Dimensions of size 1 repeated. Arguments: a, sizes (-1 keeps one), out.
fn expand(call: &mut Call<'_>) -> Result<Plan> {
    let out = call.output(2)?;
    let a = call.read(0, &[&out])?;
    let dims = expand_dims(call, &a)?;
    let Some(layout) = a.broadcast_to(&dims) else {
        let (name, have) = (call.parameter(0), a.dims());
        return Err(Error::invalid(format!("{name} {have:?} does not broadcast to {dims:?}")));
    };
    plan_view_copy(call, 0, a, layout, (2, out))
}

/// As [`expand`], where a size of 1 keeps that of the tensor too: both are broadcast.
fn expand_both(call: &mut Call<'_>) -> Result<Plan> {
    let out = call.output(2)?;
    let a = call.read(0, &[&out])?;
    let dims = expand_dims(call, &a)?;
    let both = cairn_tensor::broadcast(a.dims(), &dims).and_then(|dims| a.broadcast_to(&dims));
    let Some(layout) = both else {
        let (name, have) = (call.parameter(0), a.dims());
        return Err(Error::invalid(format!("{name} {have:?} does not broadcast with {dims:?}")));
    };
    plan_view_copy(call, 0, a, layout, (2, out))
}

/// The sizes in argument 1, where -1 keeps a size of the tensor.
fn expand_dims(call: &Call<'_>, a: &Layout) -> Result<Dims> {
    let sizes = call.ints(1)?;
    let added = sizes.len().saturating_sub(a.rank());
    let keep = |at: usize| at.checked_sub(added).and_then(|at| a.dims().get(at)).copied();
    let dims: Option<Vec<usize>> = (sizes.iter().enumerate())
        .map(|(at, size)| if *size == -1 { keep(at) } else { usize::try_from(*size).ok() })
        .collect();
    dims.and_then(|dims| Dims::try_new(&dims))
        .ok_or_else(|| Error::invalid(format!("{} = {sizes:?} are no sizes", call.parameter(1))))
}

fn expand_output(call: &Call<'_>) -> Result<Vec<Layout>> {
    let a = call.layout(0)?;
    let dims = expand_dims(call, &a)?;
    let dims = cairn_tensor::broadcast(a.dims(), &dims).unwrap_or(dims);
    Ok(vec![Layout::contiguous(a.dtype, &dims)])
}

/// Dimensions in another order. Arguments: a, order, out.
fn permute(call: &mut Call<'_>) -> Result<Plan> {
    let out = call.output(2)?;
    let a = call.read(0, &[&out])?;
    let layout = a.permuted(&order(call, &a)?);
    plan_view_copy(call, 0, a, layout, (2, out))
}

/// The order of dimensions in argument 1; fails unless it names each once.
fn order(call: &Call<'_>, a: &Layout) -> Result<Dims> {
    let axes = call.ints(1)?;
    let mut axes_in_order = Dims::default();
    for one in &axes {
        let axis = call.wrap(1, *one, a.rank())?;
        if axes_in_order.contains(&axis) || axes_in_order.len() == a.rank() {
            let name = call.parameter(1);
            return Err(Error::invalid(format!("{name} = {axes:?} names a dimension twice")));
        }
        axes_in_order.push(axis);
    }
    if axes_in_order.len() != a.rank() {
        let (name, rank) = (call.parameter(1), a.rank());
        return Err(Error::invalid(format!("{name} = {axes:?}, but there are {rank} dimensions")));
    }
    Ok(axes_in_order)
}

fn permute_output(call: &Call<'_>) -> Result<Vec<Layout>> {
    let a = call.layout(0)?;
    Ok(vec![a.permuted(&order(call, &a)?).packed()])
}

/// Dimensions mirrored. Arguments: a, dimensions, out.
fn flip(call: &mut Call<'_>) -> Result<Plan> {
    let out = call.output(2)?;
    let a = call.read(0, &[&out])?;
    let mut layout = *a;
    for dim in call.ints(1)? {
        let dim = call.wrap(1, dim, a.rank())?;
        if a.rank() > 0 && a.dims()[dim] > 0 {
            let size = a.dims()[dim];
            layout = layout.sliced(dim, size - 1, size, -1);
        }
    }
    plan_view_copy(call, 0, a, layout, (2, out))
}

/// Elements rolled along dimensions, or along all of them as one. Arguments: a, how far, dimensions, out.
fn roll(call: &mut Call<'_>) -> Result<Plan> {
    let out = call.output(3)?;
    let a = call.read(0, &[&out])?;
    call.expect_dims(3, &out, a.dims())?;
    call.expect_converts(0, &a, &out)?;
    let (shifts, dims) = (call.ints(1)?, call.ints(2)?);
    if out.count() == 0 {
        return call.nothing();
    }
    if dims.is_empty() && shifts.len() == 1 {
        return roll_flat(call, a, out, shifts[0]);
    }
    if shifts.len() != dims.len() {
        let (name, other) = (call.parameter(1), call.parameter(2));
        return Err(Error::invalid(format!("{name} = {shifts:?} but {other} = {dims:?}")));
    }
    let mut offsets = vec![0usize; a.rank()];
    for (shift, dim) in shifts.iter().zip(&dims) {
        let dim = call.wrap(2, *dim, a.rank())?;
        if let Some(&size) = a.dims().get(dim) {
            offsets[dim] = (offsets[dim] + shift.rem_euclid(size as i64) as usize) % size;
        }
    }
    let mut pieces = vec![(*a, *out)];
    for (dim, shift) in offsets.into_iter().enumerate().filter(|(_, shift)| *shift > 0) {
        pieces =
            pieces.into_iter().flat_map(|(from, to)| split_roll(dim, shift, from, to)).collect();
    }
    let parts =
        pieces.into_iter().map(|(from, to)| (a.with_layout(from), out.with_layout(to))).collect();
    plan_copies(call, parts)
}

/// Source and target of the elements that a roll moves on by `shift`, and of those that it moves round to the start.
fn split_roll(dim: usize, shift: usize, from: Layout, to: Layout) -> [(Layout, Layout); 2] {
    let unwrapped = from.dims()[dim] - shift;
    [
        (from.sliced(dim, 0, unwrapped, 1), to.sliced(dim, shift, unwrapped, 1)),
        (from.sliced(dim, unwrapped, shift, 1), to.sliced(dim, 0, shift, 1)),
    ]
}

/// All elements rolled as one dimension; in the workspace where strides do not allow that.
fn roll_flat(call: &mut Call<'_>, a: UnaliasedInput, out: Operand, shift: i64) -> Result<Plan> {
    let shift = shift.rem_euclid(a.count() as i64) as usize;
    let from = call.flat_input(a);
    let flat_out = out.reshaped(&[out.count()]);
    let packed = flat_out.is_none().then(|| call.scratch(out.dtype, out.dims()));
    call.plan(move |memory| {
        let from = from.view(memory);
        let target = match (&flat_out, &packed) {
            (Some(flat_out), _) => memory.out(&out.with_layout(*flat_out)),
            (None, packed) => {
                let packed =
                    memory.scratch(packed.as_ref().expect("scratch where it cannot be flat"));
                packed
                    .with_layout(packed.reshaped(&[packed.count()]).expect("contiguous"))
                    .expect("all of it")
            }
        };
        for (part, to) in split_roll(0, shift, *from.layout(), *target.layout()) {
            let inside = "a part of the elements";
            copy(
                memory.parallel,
                target.with_layout(to).expect(inside),
                from.with_layout(part).expect(inside),
            );
        }
        if let Some(packed) = &packed {
            copy(memory.parallel, memory.out(&out), memory.scratch(packed).view());
        }
        Ok(())
    })
}

/// The sizes, their number, or the number of elements, as numbers. Arguments: a, out, which (0, 1, 2).
fn shape_numbers(call: &mut Call<'_>) -> Result<Plan> {
    let (a, out, which) = (call.layout(0)?, call.output(1)?, call.int(2)?);
    call.expect_dtype(1, &out, &[DType::Int32, DType::Int64])?;
    let numbers: Vec<i64> = match which {
        0 => a.dims().iter().map(|size| *size as i64).collect(),
        1 => vec![a.rank() as i64],
        _ => vec![a.count() as i64],
    };
    if out.count() != numbers.len() {
        let (name, dims, count) = (call.parameter(1), out.dims(), numbers.len());
        return Err(Error::invalid(format!("{name} {dims:?} must have {count} elements")));
    }
    let Some(flat_out) = out.reshaped(&[numbers.len()]) else {
        return Err(Error::invalid(format!("{} must be contiguous", call.parameter(1))));
    };
    let flat_out = out.with_layout(flat_out);
    call.plan(move |memory| {
        for (at, number) in numbers.iter().enumerate() {
            let target = memory.out(&flat_out.with_layout(flat_out.at(0, at)));
            fill_scalar(memory.parallel, target, Scalar::from(*number));
        }
        Ok(())
    })
}

fn shape_output(call: &Call<'_>) -> Result<Vec<Layout>> {
    let rank = call.layout(0)?.rank();
    Ok(vec![Layout::contiguous(call.dtype(3)?, &[rank])])
}

fn single_output(call: &Call<'_>) -> Result<Vec<Layout>> {
    Ok(vec![Layout::contiguous(call.dtype(3)?, &[])])
}

/// The rows of this family.
pub const ROWS: &[Row] =
    &[aclnn("Expand", expand), aclnn("Permute", permute), aclnn("Flip", flip), aclnn("Roll", roll)];

const INT32: AttrDefault = AttrDefault::Int(3);

/// Copies a tensor as it is.
pub const COPY: &Node =
    &node("TensorMove", &["x"], &["y"], Infer::Like(0), reshape, &[A(0), No, O(0)]).elementwise();

/// The operators of this family by IR name.
pub const NODES: &[Node] = &[
    node(
        "Reshape",
        &["x", "shape"],
        &["y"],
        Infer::By(reshaped_output),
        reshape,
        &[
            A(0),
            A(1),
            O(0),
            Attr("axis", AttrDefault::Int(0)),
            Attr("num_axes", AttrDefault::Int(-1)),
        ],
    )
    .needs_values(&[1])
    .view(),
    node(
        "ExpandDims",
        &["x", "axis"],
        &["y"],
        Infer::By(unsqueezed_output),
        reshape,
        &[A(0), A(1), O(0)],
    )
    .needs_values(&[1])
    .view(),
    node(
        "Squeeze",
        &["x"],
        &["y"],
        Infer::By(squeezed_output),
        reshape,
        &[A(0), Attr("axis", AttrDefault::Ints(&[])), O(0)],
    )
    .view(),
    node(
        "Unsqueeze",
        &["x"],
        &["y"],
        Infer::By(unsqueezed_output),
        reshape,
        &[A(0), Attr("axes", AttrDefault::Ints(&[])), O(0)],
    )
    .view(),
    node(
        "FlattenV2",
        &["x"],
        &["y"],
        Infer::By(flattened_output),
        reshape,
        &[A(0), Attr("axis", AttrDefault::Int(1)), O(0), Attr("end_axis", AttrDefault::Int(-1))],
    )
    .view(),
    *COPY,
    node(
        "BroadcastTo",
        &["x", "shape"],
        &["y"],
        Infer::By(expand_output),
        expand,
        &[A(0), A(1), O(0)],
    )
    .needs_values(&[1]),
    node(
        "BroadcastToD",
        &["x"],
        &["y"],
        Infer::By(expand_output),
        expand,
        &[A(0), Attr("shape", AttrDefault::Required), O(0)],
    ),
    node(
        "Expand",
        &["x", "shape"],
        &["y"],
        Infer::By(expand_output),
        expand_both,
        &[A(0), A(1), O(0)],
    )
    .needs_values(&[1]),
    node(
        "Transpose",
        &["x", "perm"],
        &["y"],
        Infer::By(permute_output),
        permute,
        &[A(0), A(1), O(0)],
    )
    .needs_values(&[1]),
    node(
        "TransposeD",
        &["x"],
        &["y"],
        Infer::By(permute_output),
        permute,
        &[A(0), Attr("perm", AttrDefault::Required), O(0)],
    ),
    node(
        "Permute",
        &["x"],
        &["y"],
        Infer::By(permute_output),
        permute,
        &[A(0), Attr("order", AttrDefault::Ints(&[0])), O(0)],
    ),
    node("ReverseV2", &["x", "axis"], &["y"], Infer::Like(0), flip, &[A(0), A(1), O(0)])
        .needs_values(&[1]),
    node(
        "Roll",
        &["x"],
        &["y"],
        Infer::Like(0),
        roll,
        &[A(0), Attr("shifts", AttrDefault::Required), Attr("dims", AttrDefault::Ints(&[])), O(0)],
    ),
    node(
        "Shape",
        &["x"],
        &["y"],
        Infer::By(shape_output),
        shape_numbers,
        &[A(0), O(0), I(0), Attr("dtype", INT32)],
    )
    .from_shapes(),
    node(
        "Rank",
        &["x"],
        &["y"],
        Infer::By(single_output),
        shape_numbers,
        &[A(0), O(0), I(1), I(3)],
    )
    .from_shapes(),
    node(
        "Size",
        &["x"],
        &["y"],
        Infer::By(single_output),
        shape_numbers,
        &[A(0), O(0), I(2), Attr("dtype", INT32)],
    )
    .from_shapes(),
];
