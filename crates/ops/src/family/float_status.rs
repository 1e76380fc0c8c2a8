//! The status of overflows that cores of a device keep: raised where a stream saturates and checks, else 0, as what overflows is
//! infinite and can be seen in the results.

use crate::call::Call;
use crate::error::{Error, Result};
use crate::infer::Infer;
use crate::plan::{Memory, Operand, Plan};
use crate::table::ArgSource::{A, O};
use crate::table::{Node, node};
use cairn_tensor::kernels::map::fill_scalar;
use cairn_tensor::{DType, Layout, Scalar};
use std::sync::atomic::Ordering::Relaxed;

/// Numbers of a status.
const COUNT: usize = 8;

/// The argument at an index is a status, which is written.
fn status(call: &mut Call<'_>, index: usize) -> Result<Operand> {
    let out = call.output(index)?;
    expect_status(call, index, out)
}

fn expect_status(call: &mut Call<'_>, index: usize, out: Operand) -> Result<Operand> {
    call.expect_dtype(index, &out, &[DType::Float, DType::Float16, DType::Bf16, DType::Int32])?;
    if out.count() != COUNT {
        let (name, dims) = (call.parameter(index), out.dims());
        return Err(Error::invalid(format!("{name} {dims:?}: expected {COUNT} elements")));
    }
    Ok(out)
}

/// Writes a status: 1 in its first element if it is raised.
fn write(memory: &Memory<'_>, out: &Operand, is_raised: bool) {
    fill_scalar(memory.parallel, memory.out(out), Scalar::from(0));
    if is_raised {
        let Layout { dtype, offset, .. } = *out.layout();
        let first = out.with_layout(Layout::strided(dtype, &[1], &[1], offset));
        fill_scalar(memory.parallel, memory.out(&first), Scalar::from(1));
    }
}

fn is_raised(memory: &Memory<'_>) -> bool {
    memory.overflow.status.is_some_and(|status| status.load(Relaxed))
}

fn lower(memory: &Memory<'_>) {
    if let Some(status) = memory.overflow.status {
        status.store(false, Relaxed);
    }
}

/// Arguments: a status of zeros.
fn alloc(call: &mut Call<'_>) -> Result<Plan> {
    let out = status(call, 0)?;
    call.plan(move |memory| {
        write(memory, &out, false);
        Ok(())
    })
}

/// Arguments: the status.
fn get(call: &mut Call<'_>) -> Result<Plan> {
    let out = status(call, 0)?;
    call.plan(move |memory| {
        write(memory, &out, is_raised(memory));
        Ok(())
    })
}

/// Arguments: the status, which older chips write to the input, and once more.
fn get_twice(call: &mut Call<'_>) -> Result<Plan> {
    let addr = call.inout(0)?;
    let (addr, data) = (expect_status(call, 0, addr)?, status(call, 1)?);
    call.plan(move |memory| {
        let is_raised = is_raised(memory);
        write(memory, &addr, is_raised);
        write(memory, &data, is_raised);
        Ok(())
    })
}

/// Arguments: a status of zeros. The one of the device is cleared.
fn clear_to(call: &mut Call<'_>) -> Result<Plan> {
    let out = status(call, 0)?;
    call.plan(move |memory| {
        lower(memory);
        write(memory, &out, false);
        Ok(())
    })
}

/// Takes nothing. The status of the device is cleared.
fn clear(call: &mut Call<'_>) -> Result<Plan> {
    call.plan(|memory| {
        lower(memory);
        Ok(())
    })
}

/// The status of debugging, which nothing raises.
fn clear_debug(call: &mut Call<'_>) -> Result<Plan> {
    call.nothing()
}

fn infer_real(_: &Call<'_>) -> Result<Vec<Layout>> {
    Ok(vec![Layout::contiguous(DType::Float, &[COUNT])])
}

fn infer_whole(_: &Call<'_>) -> Result<Vec<Layout>> {
    Ok(vec![Layout::contiguous(DType::Int32, &[COUNT])])
}

fn infer_none(_: &Call<'_>) -> Result<Vec<Layout>> {
    Ok(Vec::new())
}

/// The operators of this family by IR name.
pub const NODES: &[Node] = &[
    node("NPUAllocFloatStatus", &[], &["data"], Infer::By(infer_real), alloc, &[O(0)])
        .from_shapes(),
    node(
        "NPUGetFloatStatus",
        &["addr"],
        &["data"],
        Infer::By(infer_real),
        get_twice,
        &[A(0), O(0)],
    )
    .stateful(),
    node("NPUClearFloatStatus", &["addr"], &["data"], Infer::By(infer_real), clear_to, &[O(0)])
        .from_shapes()
        .stateful(),
    node("NPUGetFloatStatusV2", &[], &["data"], Infer::By(infer_whole), get, &[O(0)])
        .from_shapes()
        .stateful(),
    node("NPUGetFloatDebugStatus", &[], &["data"], Infer::By(infer_whole), alloc, &[O(0)])
        .from_shapes(),
    node("NPUClearFloatStatusV2", &[], &[], Infer::By(infer_none), clear, &[])
        .from_shapes()
        .stateful(),
    node("NPUClearFloatDebugStatus", &[], &[], Infer::By(infer_none), clear_debug, &[])
        .from_shapes(),
];
