//! Padding of tensors.

use super::edge_padding::{self, edge, pairs};
use super::inputs::UnaliasedInput;
use crate::call::Call;
use crate::error::{Error, Result};
use crate::infer::Infer;
use crate::plan::{Operand, Plan};
use crate::table::ArgSource::{A, Attr, No, O};
use crate::table::{AttrDefault, Node, Row, aclnn, node};
use cairn_tensor::kernels::copy::copy;
use cairn_tensor::kernels::map::fill_scalar;
use cairn_tensor::{Dims, Layout, Scalar};

/// Padding of one value around a tensor, or a part cut off where it is negative. Arguments: a, padding (before and
/// after, the last dimension first), value, out.
fn constant_pad(call: &mut Call<'_>) -> Result<Plan> {
    let out = call.output(3)?;
    let a = call.read(0, &[&out])?;
    let padding = call.ints(1)?;
    let value = if call.has(2) { call.number(2)? } else { Scalar::from(0) };
    let rank = a.rank();
    if padding.len() % 2 != 0 || padding.len() > 2 * rank {
        let (name, dims) = (call.parameter(1), a.dims());
        return Err(Error::invalid(format!(
            "{name} = {padding:?} are no pairs of padding for {dims:?}"
        )));
    }
    pad_with_value(
        call,
        a,
        out,
        &padding.chunks(2).map(|two| (two[0], two[1])).collect::<Vec<_>>(),
        value,
    )
}

/// As [`constant_pad`], with the first dimension first, or with padding of elements of the tensor (reflect, edge).
/// Arguments: a, paddings, value, out, mode, whether both numbers of a dimension lie side by side.
fn pad(call: &mut Call<'_>) -> Result<Plan> {
    let out = call.output(3)?;
    let a = call.read(0, &[&out])?;
    let mut pairs = pairs(call, 1, a.rank(), call.flag_or(5, true)?)?;
    if let Some(edge) = edge(call, 4)? {
        return edge_padding::pad_with_edge(call, (0, 1, 3), (a, out), &pairs, edge);
    }
    let value = if call.has(2) { call.number(2)? } else { Scalar::from(0) };
    pairs.reverse();
    pad_with_value(call, a, out, &pairs, value)
}

fn constant_pad_output(call: &Call<'_>) -> Result<Vec<Layout>> {
    let a = call.layout(0)?;
    let mut dims = Dims::new(a.dims());
    for (size, (before, after)) in
        dims.iter_mut().zip(pairs(call, 1, a.rank(), call.flag_or(5, true)?)?)
    {
        *size = (*size as i64).saturating_add(before).saturating_add(after).max(0) as usize;
    }
    Ok(vec![Layout::contiguous(a.dtype, &dims)])
}

/// Pads or cuts off before and after each dimension, as `pairs` say from the last dimension on.
fn pad_with_value(
    call: &mut Call<'_>,
    a: UnaliasedInput,
    out: Operand,
    pairs: &[(i64, i64)],
    value: Scalar,
) -> Result<Plan> {
    call.expect_converts(0, &a, &out)?;
    call.expect_complex_arithmetic(3, out.dtype)?;
    let (rank, mut dims) = (a.rank(), Dims::new(a.dims()));
    let (mut from, mut to) = (*a, *out);
    for (at, (before, after)) in pairs.iter().enumerate() {
        let dim = rank - 1 - at;
        let size =
            (dims[dim] as i64).checked_add(*before).and_then(|size| size.checked_add(*after));
        let size = size.unwrap_or(-1);
        if size < 0 || out.rank() != rank {
            let (name, have) = (call.parameter(1), a.dims());
            return Err(Error::invalid(format!("{name} cuts off more than {have:?} has")));
        }
        dims[dim] = size as usize;
    }
    call.expect_dims(3, &out, &dims)?;
    for (at, (before, after)) in pairs.iter().enumerate() {
        let dim = rank - 1 - at;
        let size = a.dims()[dim] as i64;
        let (start, end) =
            (before.saturating_neg().max(0).min(size), (size + after.min(&0)).max(0));
        let count = (end - start).max(0) as usize;
        from = from.sliced(dim, if count == 0 { 0 } else { start as usize }, count, 1);
        let start = if count == 0 { 0 } else { (*before).max(0) as usize };
        to = to.sliced(dim, start, count, 1);
    }
    let (source, target) = (a.with_layout_only(call, from), out.with_layout(to));
    call.plan(move |memory| {
        let view = source.view(memory);
        fill_scalar(memory.parallel, memory.out(&out), value);
        copy(memory.parallel, memory.out(&target), view);
        Ok(())
    })
}

/// The rows of this family.
pub const ROWS: &[Row] = &[aclnn("ConstantPadNd", constant_pad)];

/// The operators of this family by IR name.
pub const NODES: &[Node] = &[
    node(
        "Pad",
        &["x", "paddings"],
        &["y"],
        Infer::By(constant_pad_output),
        pad,
        &[A(0), A(1), No, O(0), No],
    )
    .needs_values(&[1]),
    node(
        "PadV3",
        &["x", "paddings", "constant_values?"],
        &["y"],
        Infer::By(constant_pad_output),
        pad,
        &[
            A(0),
            A(1),
            A(2),
            O(0),
            Attr("mode", AttrDefault::Text("constant")),
            Attr("paddings_contiguous", AttrDefault::Flag(true)),
        ],
    )
    .needs_values(&[1, 2]),
];
