//! Copies, conversions, and filling with one value.

use super::elementwise::Input;
use crate::call::Call;
use crate::error::{Error, Result};
use crate::infer::Infer;
use crate::plan::Plan;
use crate::table::ArgSource::{A, Attr, F, I, O};
use crate::table::{AttrDefault, Node, Row, aclnn, node};
use cairn_tensor::Layout;
use cairn_tensor::kernels::copy;
use cairn_tensor::kernels::map::fill_scalar;

/// `out = a`, broadcast and converted. Arguments: a, out.
fn plan_copy(call: &mut Call<'_>) -> Result<Plan> {
    let (a, out) = (call.tensor(0)?, call.output(1)?);
    if !call.is_by_name() || !copy::can_convert_unsigned(a.dtype, out.dtype) {
        call.expect_converts(0, &a, &out)?;
    }
    let Some(broadcast) = a.broadcast_to(out.dims()) else {
        let (from, to) = (call.parameter(0), call.parameter(1));
        let (have, want) = (a.dims(), out.dims());
        return Err(Error::invalid(format!("{from} {have:?} does not broadcast to {to} {want:?}")));
    };
    let input = call.without_overlap(Input::Tensor(a.with_layout(broadcast)), &out);
    let plan = call.plan(move |memory| {
        input.prepare(memory);
        input.with(memory, out.dims(), |a| copy::copy(memory.parallel, memory.out(&out), a));
        Ok(())
    });
    plan.map(Plan::light)
}

/// As [`plan_copy`], to the type that the caller asks for, whatever it loses. Arguments: a, out, and by name its type.
fn cast(call: &mut Call<'_>) -> Result<Plan> {
    if call.has(2) {
        let dtype = call.dtype(2)?;
        call.expect_dtype(1, &call.layout(1)?, &[dtype])?;
    }
    call.skip_cast_check(1);
    plan_copy(call)
}

/// Every element the same. Arguments: out, value.
fn fill_inplace(call: &mut Call<'_>) -> Result<Plan> {
    let (out, value) = (call.output(0)?, call.any_scalar(1)?);
    call.expect_complex_arithmetic(0, out.dtype)?;
    if !out.dtype.is_complex() {
        call.expect_real_number(1, value.dtype())?;
    }
    let plan = call.plan(move |memory| {
        fill_scalar(memory.parallel, memory.out(&out), value);
        Ok(())
    });
    plan.map(Plan::light)
}

/// Every element the value of a tensor with one element. Arguments: out, value.
fn fill_by_tensor(call: &mut Call<'_>) -> Result<Plan> {
    let (out, value) = (call.output(0)?, call.tensor(1)?);
    call.skip_cast_check(0);
    call.expect_complex_arithmetic(0, out.dtype)?;
    call.expect_complex_arithmetic(1, value.dtype)?;
    if value.count() != 1 {
        let (name, dims) = (call.parameter(1), value.dims());
        return Err(Error::invalid(format!("{name} has the sizes {dims:?}: expected one element")));
    }
    let broadcast = value.reshaped(&[]).and_then(|one| one.broadcast_to(out.dims()));
    let value = value.with_layout(broadcast.expect("one element broadcasts"));
    let plan = call.plan(move |memory| {
        copy::copy(memory.parallel, memory.out(&out), memory.view(&value));
        Ok(())
    });
    plan.map(Plan::light)
}

fn cast_output(call: &Call<'_>) -> Result<Vec<Layout>> {
    Ok(vec![Layout::contiguous(call.dtype(2)?, call.layout(0)?.dims())])
}

/// The rows of this family.
pub const ROWS: &[Row] = &[
    aclnn("InplaceCopy", cast).with_args(&[A(1), A(0)]),
    aclnn("Cast", cast).with_args(&[A(0), A(2)]),
    aclnn("InplaceZero", fill_inplace).with_args(&[A(0), I(0)]),
    aclnn("InplaceOne", fill_inplace).with_args(&[A(0), F(1.0)]),
    aclnn("InplaceFillScalar", fill_inplace),
    aclnn("InplaceFillTensor", fill_by_tensor),
];

/// The operators of this family by IR name.
pub const NODES: &[Node] = &[
    node("Identity", &["x"], &["y"], Infer::Like(0), plan_copy, &[A(0), O(0)]).elementwise().view(),
    node("Assign", &["ref", "value"], &["ref"], Infer::Like(2), plan_copy, &[A(1), O(0), A(0)])
        .writes_first(),
    node(
        "Cast",
        &["x"],
        &["y"],
        Infer::By(cast_output),
        cast,
        &[A(0), O(0), Attr("dst_type", AttrDefault::Required)],
    )
    .elementwise(),
];
