//! Elements that a mask chooses, and where elements are that are not zero. How many they are is known when the
//! kernel runs: outputs have room for all, and their real sizes are reported then.

use super::inputs::UnaliasedInput;
use crate::call::Call;
use crate::error::{Error, Fault, Outcome, Result};
use crate::infer::Infer;
use crate::plan::{Operand, Plan};
use crate::table::ArgSource::{A, Attr, B, O};
use crate::table::{AttrDefault, Node, Row, aclnn, node};
use cairn_tensor::kernels::nonzero::NonzeroPositions;
use cairn_tensor::{DType, Dims, Layout, broadcast};

/// Two tensors with the sizes that both broadcast to.
fn broadcast_both(
    call: &Call<'_>,
    (a_at, a): (usize, UnaliasedInput),
    (b_at, b): (usize, UnaliasedInput),
) -> Result<(UnaliasedInput, UnaliasedInput)> {
    let Some(dims) = broadcast(a.dims(), b.dims()) else {
        let (name, other) = (call.parameter(a_at), call.parameter(b_at));
        let (x, y) = (a.dims(), b.dims());
        return Err(Error::invalid(format!("{name} {x:?} and {other} {y:?} do not broadcast")));
    };
    let expand =
        |one: UnaliasedInput| one.with_layout(one.broadcast_to(&dims).expect("they broadcast"));
    Ok((expand(a), expand(b)))
}

/// A contiguous tensor of these sizes in the memory of one that may be larger.
pub(super) fn dense(out: &Operand, dims: &[usize]) -> Operand {
    out.with_layout(Layout::contiguous(out.dtype, dims).from_offset(out.offset))
}

/// Fails unless an output is contiguous and has at least `count` elements.
pub(super) fn expect_capacity(
    call: &Call<'_>,
    at: usize,
    out: &Operand,
    count: usize,
) -> Result<()> {
    if out.is_contiguous() && out.count() >= count {
        return Ok(());
    }
    let (name, dims, strides) = (call.parameter(at), out.dims(), out.strides());
    Err(Error::invalid(format!(
        "{name} {dims:?} with strides {strides:?} must be contiguous and have room for {count} elements"
    )))
}

/// Fails when values lead to more elements than an output has.
pub(super) fn expect_fits(name: &str, out: &Operand, count: usize) -> Outcome {
    match count <= out.count() {
        true => Ok(()),
        false => {
            let have = out.count();
            Err(Fault(format!("{name} has {have} elements, but {count} are to be written")))
        }
    }
}

/// The elements where a mask is true. Arguments: a, mask, out.
fn masked_select(call: &mut Call<'_>) -> Result<Plan> {
    let out = call.output(2)?;
    call.touch_by_index(&out);
    let (a, mask) = (call.read_by_index(0, &[&out])?, call.read(1, &[&out])?);
    call.expect_same(2, &out, 0, &a)?;
    call.expect_dtype(1, &mask, &[DType::Bool, DType::Uint8])?;
    let (a, mask) = broadcast_both(call, (0, a), (1, mask))?;
    expect_capacity(call, 2, &out, 0)?;
    let (index, name) = (call.caller_index(2), call.parameter(2));
    call.plan(move |memory| {
        let (a, mask) = (a.view(memory), mask.view(memory));
        let nonzero = NonzeroPositions::count(memory.parallel, mask);
        let total = nonzero.total();
        expect_fits(name, &out, total)?;
        nonzero.select(memory.parallel, memory.out(&dense(&out, &[total])), a);
        (memory.sized)(index, &[total]);
        Ok(())
    })
}

/// Elements where a mask is true, taken one after the other from a source. Arguments: tensor, mask, source.
fn masked_scatter(call: &mut Call<'_>) -> Result<Plan> {
    let out = call.inout(0)?;
    call.touch_by_index(&out);
    let (mask, source) = (call.read(1, &[&out])?, call.read_by_index(2, &[&out])?);
    call.expect_same(2, &source, 0, &out)?;
    call.expect_dtype(1, &mask, &[DType::Bool, DType::Uint8])?;
    let Some(broadcast) = mask.broadcast_to(out.dims()) else {
        let (name, have, want) = (call.parameter(1), mask.dims(), out.dims());
        return Err(Error::invalid(format!("{name} {have:?} does not broadcast to {want:?}")));
    };
    let mask = mask.with_layout(broadcast);
    let (name, mask_name) = (call.parameter(2), call.parameter(1));
    call.plan(move |memory| {
        let (mask, source) = (mask.view(memory), source.view(memory));
        let nonzero = NonzeroPositions::count(memory.parallel, mask);
        if nonzero.total() > source.count() {
            let (have, want) = (source.count(), nonzero.total());
            return Err(Fault(format!(
                "{name} has {have} elements, but {mask_name} is true at {want} positions"
            )));
        }
        nonzero.fill(memory.parallel, memory.out(&out), source);
        Ok(())
    })
}

/// Where elements are not zero. Arguments: a, out, whether a row of the output is a dimension (else a position).
fn nonzero(call: &mut Call<'_>) -> Result<Plan> {
    let out = call.output(1)?;
    call.touch_by_index(&out);
    let a = call.read(0, &[&out])?;
    call.expect_numbers(0, &a)?;
    call.expect_dtype(1, &out, &[DType::Int64])?;
    expect_capacity(call, 1, &out, 0)?;
    let (transposed, index, rank, name) =
        (call.flag(2)?, call.caller_index(1), a.rank(), call.parameter(1));
    call.plan(move |memory| {
        let nonzero = NonzeroPositions::count(memory.parallel, a.view(memory));
        let total = nonzero.total();
        expect_fits(name, &out, total * rank)?;
        let dims = if transposed { Dims::new(&[rank, total]) } else { Dims::new(&[total, rank]) };
        let dense = dense(&out, &dims);
        let by_position =
            if transposed { dense.with_layout(dense.transposed(0, 1)) } else { dense };
        nonzero.positions(memory.parallel, memory.out(&by_position));
        (memory.sized)(index, &dims);
        Ok(())
    })
}

fn nonzero_output(call: &Call<'_>) -> Result<Vec<Layout>> {
    let a = call.layout(0)?;
    let dims = match call.flag(2)? {
        true => [a.rank(), a.count()],
        false => [a.count(), a.rank()],
    };
    Ok(vec![Layout::contiguous(DType::Int64, &dims)])
}

fn masked_select_output(call: &Call<'_>) -> Result<Vec<Layout>> {
    let (a, mask) = (call.layout(0)?, call.layout(1)?);
    let dims = broadcast(a.dims(), mask.dims()).unwrap_or(Dims::new(a.dims()));
    Ok(vec![Layout::contiguous(a.dtype, &[dims.iter().product()])])
}

/// The rows of this family.
pub const ROWS: &[Row] = &[
    aclnn("MaskedSelect", masked_select),
    aclnn("InplaceMaskedScatter", masked_scatter),
    aclnn("Nonzero", nonzero).with_args(&[A(0), A(1), B(false)]),
    aclnn("NonzeroV2", nonzero).with_args(&[A(0), A(1), B(true)]),
];

/// The operators of this family by IR name.
pub const NODES: &[Node] = &[
    node(
        "MaskedSelect",
        &["x", "mask"],
        &["y"],
        Infer::By(masked_select_output),
        masked_select,
        &[A(0), A(1), O(0)],
    )
    .sized_by_values(),
    node(
        "NonZero",
        &["x"],
        &["y"],
        Infer::By(nonzero_output),
        nonzero,
        &[A(0), O(0), Attr("transpose", AttrDefault::Flag(false))],
    )
    .sized_by_values(),
];
