//! Memory read and written by sizes, strides and an offset, or as elements of another type; and memory that nothing
//! was written to yet.

use super::joining::plan_copies;
use super::scattering::origin;
use super::shaping::plan_view_copy;
use crate::call::Call;
use crate::error::{Error, Result};
use crate::infer::Infer;
use crate::plan::Plan;
use crate::table::ArgSource::{A, Attr, O};
use crate::table::{AttrDefault, Node, node};
use cairn_tensor::kernels::copy::copy;
use cairn_tensor::kernels::map::fill_scalar;
use cairn_tensor::{DType, Dims, Layout, MAX_DIMS, Scalar};

/// The elements of a contiguous tensor that sizes, strides and an offset name. Arguments from `at` on: those three.
fn strided(call: &Call<'_>, at: usize, tensor_at: usize, tensor: &Layout) -> Result<Layout> {
    let (sizes, steps, offset) =
        (call.sizes(at)?, call.ints(at + 1)?, call.number(at + 2)?.as_i64());
    let names = [0, 1, 2].map(|i| call.parameter(at + i));
    let wrong = |why: String| {
        let [size, stride, start] = names;
        Err(Error::invalid(format!(
            "{size} = {sizes:?}, {stride} = {steps:?}, {start} = {offset}: {why}"
        )))
    };
    if sizes.len() != steps.len() {
        return wrong("expected a stride for each size".into());
    }
    if offset < 0 || steps.iter().any(|step| *step < 0) {
        return wrong("expected no negative number".into());
    }
    let strides: Vec<isize> = steps.iter().map(|step| *step as isize).collect();
    let name = call.parameter(tensor_at);
    if !tensor.is_contiguous() {
        return Err(Error::invalid(format!("{name} must be contiguous")));
    }
    let view_layout = Layout::strided(tensor.dtype, &sizes, &strides, offset as isize);
    if sizes.contains(&0) {
        return Ok(Layout::strided(tensor.dtype, &sizes, &strides, tensor.offset));
    }
    let end = view_layout.extent().map(|extent| extent.end);
    match end.filter(|end| *end <= tensor.count() as isize) {
        Some(_) => Ok(view_layout.from_offset(tensor.offset + offset as isize)),
        None => wrong(format!("{name} {:?} has no such elements", tensor.dims())),
    }
}

/// A copy of what sizes, strides and an offset name. Arguments: x, sizes, strides, offset, y.
fn as_strided(call: &mut Call<'_>) -> Result<Plan> {
    let out = call.output(4)?;
    let x = call.read(0, &[&out])?;
    call.expect_same(4, &out, 0, &x)?;
    let view_layout = strided(call, 1, 0, &x)?;
    plan_view_copy(call, 0, x, view_layout, (4, out))
}

fn as_strided_output(call: &Call<'_>) -> Result<Vec<Layout>> {
    Ok(vec![Layout::contiguous(call.layout(0)?.dtype, &call.sizes(1)?)])
}

/// Copies the elements that one set of sizes, strides and offset names to those that another names. Arguments: dst, its sizes,
/// strides and offset, src, its sizes, strides and offset, the output for dst.
fn view_copy(call: &mut Call<'_>) -> Result<Plan> {
    let (initial, dst) = origin(call, 0, 8)?;
    let src = call.read(4, &[&dst])?;
    call.expect_converts(4, &src, &dst)?;
    let (to, from) = (strided(call, 1, 0, &dst)?, strided(call, 5, 4, &src)?);
    if to.dims() != from.dims() {
        let (one, other) = (call.parameter(1), call.parameter(5));
        let (have, want) = (to.dims(), from.dims());
        return Err(Error::invalid(format!(
            "{one} = {have:?}, {other} = {want:?}: expected the same"
        )));
    }
    if to.repeats() {
        let (name, strides) = (call.parameter(2), to.strides());
        return Err(Error::invalid(format!("{name} = {strides:?} names an element twice")));
    }
    let part = src.with_layout_only(call, from);
    if initial.is_none() {
        call.touches_only(&dst, &to);
    }
    call.plan(move |memory| {
        part.prepare(memory);
        if let Some(initial) = &initial {
            copy(memory.parallel, memory.out(&dst), initial.view(memory));
        }
        copy(memory.parallel, memory.out(&dst.with_layout(to)), part.prepared(memory));
        Ok(())
    })
}

/// The sizes of a tensor whose bytes are elements of another type. Smaller elements add a last dimension, larger ones remove
/// it; with `keep`, the last dimension grows or shrinks instead.
fn bitcast_dims(call: &Call<'_>, x: &Layout, dtype: DType, keep: bool) -> Result<Dims> {
    let (from, to) = (x.item(), dtype.size_in_bytes().unwrap_or(0));
    let mut dims = Dims::new(x.dims());
    let wrong = || {
        let (name, have) = (call.parameter(0), x);
        Err(Error::invalid(format!("{name} ({have}) has no bytes for elements of type {dtype}")))
    };
    if from == 0 || to == 0 || (from % to != 0 && to % from != 0) {
        return wrong();
    }
    let (parts, merged) = (from / to, to / from);
    let last = dims.len().wrapping_sub(1);
    match (keep, from.cmp(&to)) {
        (_, std::cmp::Ordering::Equal) => {}
        (false, std::cmp::Ordering::Greater) if dims.len() < MAX_DIMS => dims.push(parts),
        (false, std::cmp::Ordering::Less) if dims.last() == Some(&merged) => {
            dims.remove(last);
        }
        (true, std::cmp::Ordering::Greater) if !dims.is_empty() => {
            match dims[last].checked_mul(parts) {
                Some(size) => dims[last] = size,
                None => return wrong(),
            }
        }
        (true, std::cmp::Ordering::Less) if dims.last().is_some_and(|size| size % merged == 0) => {
            dims[last] /= merged;
        }
        _ => return wrong(),
    }
    Ok(dims)
}

/// The same bytes as elements of another type. Arguments: x, type, whether the number of dimensions stays, y.
fn bitcast(call: &mut Call<'_>) -> Result<Plan> {
    let (out, dtype) = (call.output(3)?, call.dtype(1)?);
    let x = call.read(0, &[&out])?;
    call.expect_dtype(3, &out, &[dtype])?;
    call.expect_dims(3, &out, &bitcast_dims(call, &x, dtype, call.flag_or(2, false)?)?)?;
    for (at, one) in [(0, *x), (3, *out.layout())] {
        if !one.is_contiguous() {
            return Err(Error::invalid(format!("{} must be contiguous", call.parameter(at))));
        }
    }
    let bytes = |one: &Layout| {
        let start = one.offset * one.item() as isize;
        Layout::strided(DType::Uint8, &[one.bytes()], &[1], start)
    };
    let (from, to) = (x.with_layout(bytes(&x)), out.with_layout(bytes(&out)));
    plan_copies(call, vec![(from, to)])
}

fn bitcast_output(call: &Call<'_>) -> Result<Vec<Layout>> {
    let dtype = call.dtype(1)?;
    let dims = bitcast_dims(call, &call.layout(0)?, dtype, call.flag_or(2, false)?)?;
    Ok(vec![Layout::contiguous(dtype, &dims)])
}

/// A tensor of these sizes with zeros, so that every run has the same values. Arguments: sizes, type, y.
fn empty(call: &mut Call<'_>) -> Result<Plan> {
    let (sizes, out) = (call.sizes(0)?, call.output(2)?);
    call.expect_dims(2, &out, &sizes)?;
    call.expect_dtype(2, &out, &[call.dtype(1)?])?;
    call.expect_numbers(2, &out)?;
    call.plan(move |memory| {
        fill_scalar(memory.parallel, memory.out(&out), Scalar::from(0));
        Ok(())
    })
}

fn empty_output(call: &Call<'_>) -> Result<Vec<Layout>> {
    Ok(vec![Layout::contiguous(call.dtype(1)?, &call.sizes(0)?)])
}

/// The operators of this family by IR name.
pub const NODES: &[Node] = &[
    node(
        "AsStrided",
        &["x", "size", "stride", "storage_offset"],
        &["y"],
        Infer::By(as_strided_output),
        as_strided,
        &[A(0), A(1), A(2), A(3), O(0)],
    )
    .needs_values(&[1, 2, 3]),
    node(
        "ViewCopy",
        &[
            "dst",
            "dst_size",
            "dst_stride",
            "dst_storage_offset",
            "src",
            "src_size",
            "src_stride",
            "src_storage_offset",
        ],
        &["dst"],
        Infer::Like(0),
        view_copy,
        &[A(0), A(1), A(2), A(3), A(4), A(5), A(6), A(7), O(0)],
    )
    .needs_values(&[1, 2, 3, 5, 6, 7])
    .writes_first(),
    node(
        "Bitcast",
        &["x"],
        &["y"],
        Infer::By(bitcast_output),
        bitcast,
        &[
            A(0),
            Attr("type", AttrDefault::Required),
            Attr("keep_dim", AttrDefault::Flag(false)),
            O(0),
        ],
    ),
    node(
        "Empty",
        &["shape"],
        &["y"],
        Infer::By(empty_output),
        empty,
        &[A(0), Attr("dtype", AttrDefault::Int(3)), O(0), Attr("init", AttrDefault::Flag(false))],
    )
    .needs_values(&[0]),
];
