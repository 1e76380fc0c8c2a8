//! Parts of tensors, as copies.

use super::shaping::plan_view_copy;
use crate::call::Call;
use crate::error::{Error, Result};
use crate::infer::Infer;
use crate::plan::Plan;
use crate::table::ArgSource::{A, Attr, O};
use crate::table::{AttrDefault, Node, Row, aclnn, node};
use cairn_tensor::Layout;

/// Start and count of a slice, clamped as Python does.
fn bounds(size: usize, start: i64, end: i64, step: i64) -> (usize, usize) {
    let size = size as i64;
    let (low, high) = if step > 0 { (0, size) } else { (-1, size - 1) };
    let index = |at: i64| if at < 0 { at.saturating_add(size) } else { at }.clamp(low, high);
    let (start, end) = (index(start), index(end));
    let length = if step > 0 { end - start } else { start - end };
    let step = step.unsigned_abs();
    let count = length.max(0).unsigned_abs().div_ceil(step);
    (if count == 0 { 0 } else { start as usize }, count as usize)
}

/// One dimension, from start to end in steps. Arguments: a, dimension, start, end, step, out.
fn slice_dim(call: &mut Call<'_>) -> Result<Plan> {
    let out = call.output(5)?;
    let a = call.read(0, &[&out])?;
    let (dim, step) = (call.dim(1, a.rank())?, call.int(4)?);
    if step < 1 || a.rank() == 0 {
        let (name, dims) = (call.parameter(4), a.dims());
        return Err(Error::invalid(format!("{name} = {step} slices no {dims:?}")));
    }
    let (start, count) = bounds(a.dims()[dim], call.int(2)?, call.int(3)?, step);
    plan_view_copy(call, 0, a, a.sliced(dim, start, count, step as isize), (5, out))
}

/// Several dimensions. Arguments: a, starts, ends, dimensions (all in order when absent), steps (1 when absent), out.
fn slice_by_lists(call: &mut Call<'_>) -> Result<Plan> {
    let out = call.output(5)?;
    let a = call.read(0, &[&out])?;
    let layout = sliced_layout(call, *a)?;
    plan_view_copy(call, 0, a, layout, (5, out))
}

/// The layout of [`slice_by_lists`].
fn sliced_layout(call: &Call<'_>, a: Layout) -> Result<Layout> {
    let (starts, ends) = (call.ints(1)?, call.ints(2)?);
    let dims = if call.has(3) { call.ints(3)? } else { (0..starts.len() as i64).collect() };
    let steps = if call.has(4) { call.ints(4)? } else { vec![1; starts.len()] };
    slices(call, a, &starts, &ends, &dims, &steps)
}

/// A layout sliced along these dimensions.
fn slices(
    call: &Call<'_>,
    a: Layout,
    starts: &[i64],
    ends: &[i64],
    dims: &[i64],
    steps: &[i64],
) -> Result<Layout> {
    if ends.len() != starts.len() || dims.len() != starts.len() || steps.len() != starts.len() {
        return Err(Error::invalid(format!(
            "starts {starts:?}, ends {ends:?}, dimensions {dims:?} and steps {steps:?} differ in number"
        )));
    }
    let mut layout = a;
    for at in 0..starts.len() {
        let dim = call.wrap(3, dims[at], a.rank())?;
        if steps[at] == 0 || a.rank() == 0 {
            return Err(Error::invalid(format!("a step of {} in {:?}", steps[at], a.dims())));
        }
        let (start, count) = bounds(layout.dims()[dim], starts[at], ends[at], steps[at]);
        layout = layout.sliced(dim, start, count, steps[at] as isize);
    }
    Ok(layout)
}

/// Begin and end for each dimension, with masks of bits that say where begin or end is ignored, where an ellipsis stands,
/// where a dimension is new, and where one is dropped. Arguments: a, begins, ends, steps, the five masks, out,
/// dimensions (all in order when absent; then there are no masks).
fn strided_slice(call: &mut Call<'_>) -> Result<Plan> {
    let out = call.output(9)?;
    let a = call.read(0, &[&out])?;
    let layout = strided_layout(call, *a)?;
    plan_view_copy(call, 0, a, layout, (9, out))
}

/// The layout of [`strided_slice`].
fn strided_layout(call: &Call<'_>, a: Layout) -> Result<Layout> {
    let (begins, ends) = (call.ints(1)?, call.ints(2)?);
    let steps = if call.has(3) { call.ints(3)? } else { vec![1; begins.len()] };
    let mut masks = [0i64; 5];
    for (at, mask) in masks.iter_mut().enumerate() {
        *mask = call.int_or(4 + at, 0)?;
    }
    let [no_begin, no_end, ellipsis, new, shrink] = masks;
    if call.has(10) && masks == [0; 5] {
        return slices(call, a, &begins, &ends, &call.ints(10)?, &steps);
    }
    if ends.len() != begins.len() || steps.len() != begins.len() {
        return Err(Error::invalid(format!(
            "begins {begins:?}, ends {ends:?} and steps {steps:?} differ in number"
        )));
    }
    let bit = |mask: i64, at: usize| at < 63 && mask >> at & 1 == 1;
    let added = (0..begins.len()).filter(|at| bit(new, *at) && !bit(ellipsis, *at)).count();
    let existing = begins.len() - (0..begins.len()).filter(|at| bit(ellipsis, *at)).count() - added;
    let (mut layout, mut dim) = (a, 0);
    for at in 0..begins.len() {
        if bit(ellipsis, at) {
            dim += a.rank().saturating_sub(existing);
            continue;
        }
        if bit(new, at) {
            if layout.rank() == cairn_tensor::MAX_DIMS {
                return Err(Error::invalid(format!("more than {} dimensions", layout.rank())));
            }
            layout = layout.with(dim);
            dim += 1;
            continue;
        }
        if dim >= layout.rank() || steps[at] == 0 {
            let dims = a.dims();
            return Err(Error::invalid(format!("{begins:?} in steps of {steps:?} from {dims:?}")));
        }
        let size = layout.dims()[dim];
        if bit(shrink, at) {
            let begin = if begins[at] < 0 { begins[at] + size as i64 } else { begins[at] };
            if begin < 0 || begin >= size as i64 {
                return Err(Error::invalid(format!(
                    "begin[{at}] = {} is outside {} to {}",
                    begins[at],
                    -(size as i64),
                    size as i64 - 1
                )));
            }
            layout = layout.at(dim, begin as usize);
            continue;
        }
        let is_forward = steps[at] > 0;
        let begin = match bit(no_begin, at) {
            true => {
                if is_forward {
                    0
                } else {
                    i64::MAX
                }
            }
            false => begins[at],
        };
        let end = match bit(no_end, at) {
            true => {
                if is_forward {
                    i64::MAX
                } else {
                    i64::MIN / 2
                }
            }
            false => ends[at],
        };
        let (start, count) = bounds(size, begin, end, steps[at]);
        layout = layout.sliced(dim, start, count, steps[at] as isize);
        dim += 1;
    }
    Ok(layout)
}

fn strided_slice_output(call: &Call<'_>) -> Result<Vec<Layout>> {
    Ok(vec![strided_layout(call, call.layout(0)?)?.packed()])
}

/// A part that begins at these indices and has these sizes (-1: to the end). Arguments: a, begins, sizes, out.
fn slice_by_sizes(call: &mut Call<'_>) -> Result<Plan> {
    let out = call.output(3)?;
    let a = call.read(0, &[&out])?;
    let layout = sizes_layout(call, *a)?;
    plan_view_copy(call, 0, a, layout, (3, out))
}

/// The layout of [`slice_by_sizes`].
fn sizes_layout(call: &Call<'_>, a: Layout) -> Result<Layout> {
    let (begins, sizes) = (call.ints(1)?, call.ints(2)?);
    let mut layout = a;
    let fits = begins.len() == a.rank() && sizes.len() == a.rank();
    for dim in 0..if fits { a.rank() } else { 0 } {
        let size = a.dims()[dim] as i64;
        let count = if sizes[dim] == -1 { size.saturating_sub(begins[dim]) } else { sizes[dim] };
        if begins[dim] < 0 || count < 0 || begins[dim].saturating_add(count) > size {
            return Err(Error::invalid(format!(
                "{sizes:?} from {begins:?} on leave {:?}",
                a.dims()
            )));
        }
        let begin = if count == 0 { 0 } else { begins[dim] as usize };
        layout = layout.sliced(dim, begin, count as usize, 1);
    }
    if !fits {
        return Err(Error::invalid(format!(
            "begins {begins:?} and sizes {sizes:?} for {:?}",
            a.dims()
        )));
    }
    Ok(layout)
}

fn slice_by_sizes_output(call: &Call<'_>) -> Result<Vec<Layout>> {
    Ok(vec![sizes_layout(call, call.layout(0)?)?.packed()])
}

/// The rows of this family.
pub const ROWS: &[Row] = &[
    aclnn("Slice", slice_dim),
    aclnn("SliceV2", slice_by_lists),
    aclnn("StridedSlice", strided_slice),
];

/// The operators of this family by IR name.
pub const NODES: &[Node] = &[
    node(
        "Slice",
        &["x", "offsets", "size"],
        &["y"],
        Infer::By(slice_by_sizes_output),
        slice_by_sizes,
        &[A(0), A(1), A(2), O(0)],
    )
    .needs_values(&[1, 2]),
    node(
        "StridedSlice",
        &["x", "begin", "end", "strides?"],
        &["y"],
        Infer::By(strided_slice_output),
        strided_slice,
        &[
            A(0),
            A(1),
            A(2),
            A(3),
            Attr("begin_mask", AttrDefault::Int(0)),
            Attr("end_mask", AttrDefault::Int(0)),
            Attr("ellipsis_mask", AttrDefault::Int(0)),
            Attr("new_axis_mask", AttrDefault::Int(0)),
            Attr("shrink_axis_mask", AttrDefault::Int(0)),
            O(0),
        ],
    )
    .needs_values(&[1, 2, 3]),
    node(
        "StridedSliceV2",
        &["x", "begin", "end", "axes?", "strides?"],
        &["y"],
        Infer::By(strided_slice_output),
        strided_slice,
        &[
            A(0),
            A(1),
            A(2),
            A(4),
            Attr("begin_mask", AttrDefault::Int(0)),
            Attr("end_mask", AttrDefault::Int(0)),
            Attr("ellipsis_mask", AttrDefault::Int(0)),
            Attr("new_axis_mask", AttrDefault::Int(0)),
            Attr("shrink_axis_mask", AttrDefault::Int(0)),
            O(0),
            A(3),
        ],
    )
    .needs_values(&[1, 2, 3, 4]),
];
