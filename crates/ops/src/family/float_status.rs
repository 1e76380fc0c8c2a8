//! The status of overflows that cores of a device keep. Arithmetic here follows IEEE 754: what overflows is infinite, and nothing
//! is set aside, so that every status is 0.

use crate::call::Call;
use crate::error::{Error, Result};
use crate::infer::Infer;
use crate::plan::Plan;
use crate::table::ArgSource::O;
use crate::table::{Node, node};
use cairn_tensor::kernels::map::fill_scalar;
use cairn_tensor::{DType, Layout, Scalar};

/// Numbers of a status.
const COUNT: usize = 8;

/// Arguments: status.
fn status(call: &mut Call<'_>) -> Result<Plan> {
    let out = call.output(0)?;
    call.expect_dtype(0, &out, &[DType::Float, DType::Float16, DType::Bf16, DType::Int32])?;
    if out.count() != COUNT {
        let (name, dims) = (call.parameter(0), out.dims());
        return Err(Error::invalid(format!("{name} {dims:?}: expected {COUNT} elements")));
    }
    call.plan(move |memory| {
        fill_scalar(memory.parallel, memory.out(&out), Scalar::from(0));
        Ok(())
    })
}

/// Takes nothing and leaves nothing.
fn clear(call: &mut Call<'_>) -> Result<Plan> {
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
    node("NPUAllocFloatStatus", &[], &["data"], Infer::By(infer_real), status, &[O(0)])
        .from_shapes(),
    node("NPUGetFloatStatus", &["addr"], &["data"], Infer::By(infer_real), status, &[O(0)])
        .from_shapes(),
    node("NPUClearFloatStatus", &["addr"], &["data"], Infer::By(infer_real), status, &[O(0)])
        .from_shapes(),
    node("NPUGetFloatStatusV2", &[], &["data"], Infer::By(infer_whole), status, &[O(0)])
        .from_shapes(),
    node("NPUGetFloatDebugStatus", &[], &["data"], Infer::By(infer_whole), status, &[O(0)])
        .from_shapes(),
    node("NPUClearFloatStatusV2", &[], &[], Infer::By(infer_none), clear, &[]).from_shapes(),
    node("NPUClearFloatDebugStatus", &[], &[], Infer::By(infer_none), clear, &[]).from_shapes(),
];
