//! Tensors concatenated, stacked, split and repeated: copies between parts of tensors.

use super::inputs::UnaliasedInput;
use crate::argument::Arg;
use crate::call::Call;
use crate::error::{Error, Result};
use crate::infer::Infer;
use crate::plan::{Operand, Plan};
use crate::table::ArgSource::{A, Attr, No, O, Outs, Rest};
use crate::table::{AttrDefault, Node, Row, aclnn, node};
use cairn_tensor::kernels::copy::copy;
use cairn_tensor::{Dims, Layout, MAX_DIMS, Scalar, promote};

/// A plan of copies from parts of inputs to parts of outputs.
pub(super) fn plan_copies(
    call: &mut Call<'_>,
    parts: Vec<(UnaliasedInput, Operand)>,
) -> Result<Plan> {
    call.plan(move |memory| {
        parts.iter().for_each(|(from, _)| from.prepare(memory));
        for (from, to) in &parts {
            copy(memory.parallel, memory.out(to), from.prepared(memory));
        }
        Ok(())
    })
}

/// Tensors concatenated along a dimension. Arguments: tensors, dimension, out.
fn cat(call: &mut Call<'_>) -> Result<Plan> {
    let (out, dim) = (call.output(2)?, call.int(1)?);
    let tensors = call.tensors(0)?;
    cat_along(call, tensors, dim, out)
}

/// Tensors concatenated along the dimension that the last of them holds; those without dimensions count as lists of one
/// element. Arguments: tensors, none, out.
fn cat_by_last(call: &mut Call<'_>) -> Result<Plan> {
    let (out, dim) = (call.output(2)?, call.pop_number(0)?);
    let as_lists = |one: Operand| match one.rank() {
        0 => one.with_layout(as_list(*one.layout())),
        _ => one,
    };
    let tensors = call.tensors(0)?.into_iter().map(as_lists).collect();
    cat_along(call, tensors, dim, out)
}

/// A tensor without dimensions as a list of one element.
fn as_list(layout: Layout) -> Layout {
    if layout.rank() == 0 { layout.with(0) } else { layout }
}

/// The plan that concatenates tensors along a dimension.
fn cat_along(call: &mut Call<'_>, tensors: Vec<Operand>, dim: i64, out: Operand) -> Result<Plan> {
    let dim = call.wrap(1, dim, out.rank())?;
    if out.rank() == 0 {
        let (name, out) = (call.parameter(0), call.parameter(2));
        return Err(Error::invalid(format!(
            "{out} has no dimensions, along which {name} could be put together"
        )));
    }
    let mut parts = Vec::new();
    let mut start = 0;
    for (at, one) in tensors.into_iter().enumerate() {
        if one.dims() == [0] && out.rank() != 1 {
            continue;
        }
        call.expect_converts(0, &one, &out)?;
        let fits = one.rank() == out.rank()
            && (0..out.rank()).all(|i| i == dim || one.dims()[i] == out.dims()[i]);
        let size = if fits { one.dims().get(dim).copied().unwrap_or(1) } else { 0 };
        if !fits || start + size > out.dims()[dim] {
            let (name, have, name_out, want) =
                (call.parameter(0), one.dims(), call.parameter(2), out.dims());
            return Err(Error::invalid(format!(
                "{name}[{at}] {have:?} does not fit {name_out} {want:?} at {start} of dimension {dim}"
            )));
        }
        let to = out.with_layout(out.sliced(dim, start, size, 1));
        let from = call.unaliased(one, &[&out]);
        parts.push((from, to));
        start += size;
    }
    if out.count() > 0 && start != out.dims()[dim] {
        let (name, want) = (call.parameter(2), out.dims());
        return Err(Error::invalid(format!(
            "{name} {want:?} has room for {} along dimension {dim}, the tensors have {start}",
            want[dim]
        )));
    }
    plan_copies(call, parts)
}

fn cat_output(call: &Call<'_>) -> Result<Vec<Layout>> {
    concatenated_layout(call, layouts(call, 0)?, call.int(1)?)
}

fn cat_by_last_output(call: &Call<'_>) -> Result<Vec<Layout>> {
    let Arg::Tensors(all) = call.arg(0) else {
        return Err(Error::invalid("nothing to put together"));
    };
    let (mut tensors, last) = (layouts(call, 0)?, all.last());
    tensors.pop();
    let value = last.and_then(|one| Scalar::read(one.constant.as_deref()?, one.layout.dtype));
    let Some(dim) = value else {
        let name = call.parameter(0);
        return Err(Error::NeedsValues(format!("the last of {name} must be a constant")));
    };
    concatenated_layout(call, tensors.into_iter().map(as_list).collect(), dim.as_i64())
}

/// The layout of tensors that are concatenated.
fn concatenated_layout(call: &Call<'_>, all: Vec<Layout>, dim: i64) -> Result<Vec<Layout>> {
    let Some(first) = all.iter().find(|one| one.dims() != [0]).or(all.first()) else {
        return Err(Error::invalid("nothing to put together"));
    };
    if first.rank() == 0 {
        return Err(Error::invalid(
            "tensors without dimensions cannot be put together: stack them",
        ));
    }
    let dim = call.wrap(1, dim, first.rank())?;
    let mut dims = Dims::new(first.dims());
    let mut dtype = first.dtype;
    dims[dim] = 0;
    for one in all.iter().filter(|one| one.rank() == first.rank()) {
        dims[dim] = dims[dim].saturating_add(one.dims()[dim]);
        dtype = promote(dtype, one.dtype).unwrap_or(dtype);
    }
    Ok(vec![Layout::contiguous(dtype, &dims)])
}

/// The layouts of a list of tensors.
pub(super) fn layouts(call: &Call<'_>, at: usize) -> Result<Vec<Layout>> {
    match call.arg(at) {
        Arg::Tensors(all) => Ok(all.iter().map(|one| one.layout).collect()),
        other => Err(Error::invalid(format!(
            "{} is {}: expected a list of tensors",
            call.parameter(at),
            other.kind()
        ))),
    }
}

/// Tensors stacked along a new dimension. Arguments: tensors, dimension, out.
fn stack(call: &mut Call<'_>) -> Result<Plan> {
    let out = call.output(2)?;
    let dim = call.dim(1, out.rank())?;
    let tensors = call.tensors(0)?;
    if out.rank() == 0 || tensors.len() != out.dims()[dim] {
        let (name, want, count) = (call.parameter(2), out.dims(), tensors.len());
        return Err(Error::invalid(format!(
            "{name} {want:?} has no room for {count} tensors along dimension {dim}"
        )));
    }
    let mut parts = Vec::new();
    for (at, one) in tensors.into_iter().enumerate() {
        call.expect_converts(0, &one, &out)?;
        let to = out.with_layout(out.at(dim, at));
        if to.dims() != one.dims() {
            let (name, have, want) = (call.parameter(0), one.dims(), to.dims());
            return Err(Error::invalid(format!(
                "{name}[{at}] has the sizes {have:?}: expected {want:?}"
            )));
        }
        let from = call.unaliased(one, &[&out]);
        parts.push((from, to));
    }
    plan_copies(call, parts)
}

fn stack_output(call: &Call<'_>) -> Result<Vec<Layout>> {
    let all = layouts(call, 0)?;
    let Some(first) = all.first() else {
        return Err(Error::invalid("nothing to put together"));
    };
    let dim = call.dim(1, first.rank() + 1)?;
    let mut dims = Dims::new(first.dims());
    if dims.len() == MAX_DIMS {
        let name = call.parameter(0);
        return Err(Error::invalid(format!("{name} {dims:?} has no room for one dimension more")));
    }
    dims.insert(dim, all.len());
    Ok(vec![Layout::contiguous(first.dtype, &dims)])
}

/// A tensor split into parts. Arguments: a, sizes (not read: the outputs have them), dimension, outs.
fn split_tensor(call: &mut Call<'_>) -> Result<Plan> {
    let (a, outs) = (call.tensor(0)?, call.outputs(3)?);
    let dim = call.wrap(2, call.number(2)?.as_i64(), a.rank())?;
    let mut parts = Vec::new();
    let mut start = 0;
    let all: Vec<&Operand> = outs.iter().collect();
    let from = call.unaliased(a, &all);
    for (at, out) in outs.iter().enumerate() {
        call.expect_converts(3, &a, out)?;
        let size = out.dims().get(dim).copied().unwrap_or(0);
        let end = start + size;
        let fits = a.rank() > 0 && end <= a.dims()[dim] && {
            let mut dims = Dims::new(a.dims());
            dims[dim] = size;
            out.dims() == &*dims
        };
        if !fits {
            let (name, have, from) = (call.parameter(3), out.dims(), a.dims());
            return Err(Error::invalid(format!(
                "{name}[{at}] {have:?} is no part of {from:?} from {start} of dimension {dim} on"
            )));
        }
        parts.push((from.with_layout(from.sliced(dim, start, size, 1)), *out));
        start = end;
    }
    if a.rank() > 0 {
        from.reads_only(call, &from.sliced(dim, 0, start, 1));
    }
    plan_copies(call, parts)
}

fn split_tensor_outputs(call: &Call<'_>) -> Result<Vec<Layout>> {
    let a = call.layout(0)?;
    if a.rank() == 0 {
        let name = call.parameter(0);
        return Err(Error::invalid(format!("{name} has no dimensions and cannot be split")));
    }
    let dim = call.wrap(2, call.number(2)?.as_i64(), a.rank())?;
    let mut sizes = call.ints(1)?;
    let stated: i64 = sizes.iter().filter(|size| **size >= 0).sum();
    let total = a.dims().get(dim).map_or(1, |size| *size as i64);
    sizes.iter_mut().filter(|size| **size < 0).for_each(|size| *size = total - stated);
    let part = |size: &i64| {
        let mut dims = Dims::new(a.dims());
        dims[dim] = (*size).max(0) as usize;
        Layout::contiguous(a.dtype, &dims)
    };
    Ok(sizes.iter().map(part).collect())
}

/// The most outputs that a call may have.
const MAX_OUTPUTS: i64 = 1 << 16;

fn equal_split_outputs(call: &Call<'_>) -> Result<Vec<Layout>> {
    let (a, count) = (call.layout(0)?, call.int(1)?);
    let dim = call.dim(2, a.rank())?;
    let mut dims = Dims::new(a.dims());
    if !(1..=MAX_OUTPUTS).contains(&count)
        || a.rank() == 0
        || !dims[dim].is_multiple_of(count as usize)
    {
        let (name, have) = (call.parameter(0), a.dims());
        return Err(Error::invalid(format!(
            "{name} {have:?} cannot be split into {count} equal parts"
        )));
    }
    dims[dim] /= count as usize;
    Ok(vec![Layout::contiguous(a.dtype, &dims); count as usize])
}

/// The slices at each position of a dimension. Arguments: a, how many, dimension, outs.
fn unpack(call: &mut Call<'_>) -> Result<Plan> {
    let (a, outs) = (call.tensor(0)?, call.outputs(3)?);
    let dim = call.dim(2, a.rank())?;
    if a.rank() == 0 || a.dims()[dim] != outs.len() {
        let (name, have, count) = (call.parameter(0), a.dims(), outs.len());
        return Err(Error::invalid(format!(
            "{name} {have:?} has no {count} slices along dimension {dim}"
        )));
    }
    let all: Vec<&Operand> = outs.iter().collect();
    let from = call.unaliased(a, &all);
    let mut parts = Vec::new();
    for (at, out) in outs.iter().enumerate() {
        let slice = from.at(dim, at);
        call.expect_dims(3, out, slice.dims())?;
        call.expect_converts(0, &a, out)?;
        parts.push((from.with_layout(slice), *out));
    }
    plan_copies(call, parts)
}

fn unpack_outputs(call: &Call<'_>) -> Result<Vec<Layout>> {
    let (a, count) = (call.layout(0)?, call.int(1)?);
    let dim = call.dim(2, a.rank())?;
    if a.rank() == 0 || a.dims()[dim] as i64 != count || count > MAX_OUTPUTS {
        let (name, have) = (call.parameter(0), a.dims());
        return Err(Error::invalid(format!(
            "{name} {have:?} has no {count} slices along dimension {dim}"
        )));
    }
    Ok(vec![a.without(dim).packed(); count as usize])
}

/// The tensor repeated `times[i]` times along each dimension i. Arguments: a, times, out.
fn repeat_tensor(call: &mut Call<'_>) -> Result<Plan> {
    let out = call.output(2)?;
    let a = call.read(0, &[&out])?;
    let times = call.sizes(1)?;
    call.expect_converts(0, &a, &out)?;
    call.expect_dims(2, &out, &repeat_tensor_dims(call, &a, &times)?)?;
    if out.count() == 0 {
        return call.nothing();
    }
    let added = times.len() - a.rank();
    let mut from = *a;
    (0..added).for_each(|_| from = from.with(0));
    let mut pieces = vec![(from, *out)];
    for dim in (0..times.len()).rev() {
        let (count, size) = (times[dim], from.dims()[dim]);
        if count == 1 || size == 1 {
            let expand = |one: Layout| {
                let mut dims = Dims::new(one.dims());
                dims[dim] = dims[dim].max(count);
                one.broadcast_to(&dims).expect("a size of one")
            };
            if size == 1 {
                pieces.iter_mut().for_each(|(from, _)| *from = expand(*from));
            }
            continue;
        }
        let fits = pieces[0].1.rank() < MAX_DIMS;
        if fits {
            for (from, to) in &mut pieces {
                let (stride, mut dims) = (to.strides()[dim], Dims::new(to.dims()));
                let mut strides = cairn_tensor::Strides::new(to.strides());
                dims[dim] = size;
                dims.insert(dim, count);
                strides.insert(dim, stride * size as isize);
                *to = Layout::strided(to.dtype, &dims, &strides, to.offset);
                let mut repeated = Dims::new(from.with(dim).dims());
                repeated[dim] = count;
                *from = from.with(dim).broadcast_to(&repeated).expect("a size of one");
            }
        } else {
            pieces = pieces
                .iter()
                .flat_map(|(from, to)| {
                    let (from, to) = (*from, *to);
                    (0..count).map(move |at| (from, to.sliced(dim, at * size, size, 1)))
                })
                .collect();
        }
    }
    let parts =
        pieces.into_iter().map(|(from, to)| (a.with_layout(from), out.with_layout(to))).collect();
    plan_copies(call, parts)
}

fn repeat_tensor_dims(call: &Call<'_>, a: &Layout, times: &[usize]) -> Result<Dims> {
    let Some(added) = times.len().checked_sub(a.rank()) else {
        let (name, dims) = (call.parameter(1), a.dims());
        return Err(Error::invalid(format!("{name} = {times:?} are too few for {dims:?}")));
    };
    let size = |at: usize| at.checked_sub(added).map_or(1, |at| a.dims()[at]);
    let dims: Option<Dims> = (0..times.len())
        .map(|at| times[at].checked_mul(size(at)))
        .collect::<Option<Vec<_>>>()
        .map(|dims| Dims::new(&dims));
    dims.ok_or_else(|| {
        let (name, have) = (call.parameter(1), a.dims());
        Error::invalid(format!("{name} = {times:?} of {have:?} makes more than any memory holds"))
    })
}

fn repeat_tensor_output(call: &Call<'_>) -> Result<Vec<Layout>> {
    let a = call.layout(0)?;
    Ok(vec![Layout::contiguous(a.dtype, &repeat_tensor_dims(call, &a, &call.sizes(1)?)?)])
}

/// The rows of this family.
pub const ROWS: &[Row] = &[
    aclnn("Cat", cat),
    aclnn("Stack", stack),
    aclnn("SplitTensor", split_tensor),
    aclnn("SplitWithSize", split_tensor),
    aclnn("Repeat", repeat_tensor),
];

/// The operators of this family by IR name.
pub const NODES: &[Node] = &[
    node(
        "ConcatD",
        &["x[]"],
        &["y"],
        Infer::By(cat_output),
        cat,
        &[Rest(0), Attr("concat_dim", AttrDefault::Required), O(0), Attr("N", AttrDefault::None)],
    ),
    node(
        "ConcatV2",
        &["x[]", "concat_dim"],
        &["y"],
        Infer::By(cat_by_last_output),
        cat_by_last,
        &[Rest(0), No, O(0), Attr("N", AttrDefault::None)],
    )
    .needs_values(&[1]),
    node(
        "Pack",
        &["x[]"],
        &["y"],
        Infer::By(stack_output),
        stack,
        &[Rest(0), Attr("axis", AttrDefault::Int(0)), O(0), Attr("N", AttrDefault::None)],
    ),
    node(
        "Unpack",
        &["x"],
        &["y[]"],
        Infer::By(unpack_outputs),
        unpack,
        &[A(0), Attr("num", AttrDefault::Required), Attr("axis", AttrDefault::Int(0)), Outs(0)],
    ),
    node(
        "SplitV",
        &["x", "size_splits", "split_dim"],
        &["y[]"],
        Infer::By(split_tensor_outputs),
        split_tensor,
        &[A(0), A(1), A(2), Outs(0), Attr("num_split", AttrDefault::None)],
    )
    .needs_values(&[1, 2]),
    node(
        "SplitD",
        &["x"],
        &["y[]"],
        Infer::By(equal_split_outputs),
        split_tensor,
        &[
            A(0),
            Attr("num_split", AttrDefault::Required),
            Attr("split_dim", AttrDefault::Required),
            Outs(0),
        ],
    ),
    node(
        "Tile",
        &["x", "multiples"],
        &["y"],
        Infer::By(repeat_tensor_output),
        repeat_tensor,
        &[A(0), A(1), O(0)],
    )
    .needs_values(&[1]),
    node(
        "TileD",
        &["x"],
        &["y"],
        Infer::By(repeat_tensor_output),
        repeat_tensor,
        &[A(0), Attr("multiples", AttrDefault::Required), O(0)],
    ),
];
