//! Slices of a tensor, or of each of several side by side, whose coordinates the last dimension of an index holds.

use super::inputs::out_of_range;
use crate::call::Call;
use crate::error::{Error, Result};
use crate::infer::Infer;
use crate::plan::Plan;
use crate::table::ArgSource::{A, Attr, O};
use crate::table::{AttrDefault, Node, node};
use cairn_tensor::kernels::gather::gather;
use cairn_tensor::kernels::indexed::{Coordinate, IndexedView, combine};
use cairn_tensor::{DType, Dims, Layout, MAX_DIMS};
use smallvec::SmallVec;

/// What the sizes of a tensor and its index say: how many first dimensions they have in common, how many coordinates
/// there are, and the sizes of the result.
fn sizes(call: &Call<'_>, x: &Layout, index: &Layout) -> Result<(usize, usize, Dims)> {
    let batches = call.int(4)?;
    let (have, with, name) = (x.dims(), index.dims(), call.parameter(1));
    let Some((count, places)) = with.split_last() else {
        return Err(Error::invalid(format!("{name} has no dimensions, hence no coordinates")));
    };
    let batch = usize::try_from(batches).ok().filter(|batch| *batch <= places.len());
    let batch = batch.filter(|batch| have.get(..*batch) == Some(&with[..*batch]));
    let Some(batch) = batch else {
        let attribute = call.parameter(4);
        return Err(Error::invalid(format!(
            "{attribute} = {batches}: {have:?} and {with:?} have no such first dimensions in common"
        )));
    };
    if *count > have.len() - batch {
        return Err(Error::invalid(format!("{name} {with:?} has no coordinates in {have:?}")));
    }
    let rest = &have[batch + count..];
    if places.len() + rest.len() > MAX_DIMS {
        return Err(Error::invalid(format!("{have:?} by {with:?} has too many dimensions")));
    }
    Ok((batch, *count, places.iter().chain(rest).copied().collect()))
}

/// Arguments: x, index, out, whether negative indices count from the end, how many first dimensions are batches.
fn gather_nd(call: &mut Call<'_>) -> Result<Plan> {
    let out = call.output(2)?;
    let x = call.read_by_index(0, &[&out])?;
    let index = call.read_index(1, &[&out])?;
    call.expect_same(2, &out, 0, &x)?;
    let (batch, count, dims) = sizes(call, &x, &index)?;
    call.expect_dims(2, &out, &dims)?;
    if out.count() == 0 {
        return call.nothing();
    }
    let (wraps, name) = (call.flag(3)?, call.parameter(1));
    let last = index.rank() - 1;
    let offsets = call.scratch(DType::Int64, &index.dims()[..last]);
    call.plan(move |memory| {
        let (x, index) = (x.view(memory), index.view(memory));
        let offsets = memory.scratch(&offsets);
        let coordinates = (0..count).map(|at| Coordinate {
            index: index.with_layout(index.layout().at(last, at)).expect("a column of the index"),
            size: x.dims()[batch + at],
            stride: x.strides()[batch + at],
            wraps,
        });
        let coordinates: SmallVec<[Coordinate<'_>; MAX_DIMS]> = coordinates.collect();
        combine(memory.parallel, offsets, &coordinates).map_err(|bad| out_of_range(name, bad))?;
        let source = IndexedView::combined_in_batches(x, batch, count, offsets.view());
        gather(memory.parallel, memory.out(&out), &source, offsets.view())
            .map_err(|bad| out_of_range(name, bad))
    })
}

fn gather_nd_output(call: &Call<'_>) -> Result<Vec<Layout>> {
    let (x, index) = (call.layout(0)?, call.layout(1)?);
    Ok(vec![Layout::contiguous(x.dtype, &sizes(call, &x, &index)?.2)])
}

/// The operators of this family by IR name.
pub const NODES: &[Node] = &[node(
    "GatherNd",
    &["x", "indices"],
    &["y"],
    Infer::By(gather_nd_output),
    gather_nd,
    &[
        A(0),
        A(1),
        O(0),
        Attr("negative_index_support", AttrDefault::Flag(false)),
        Attr("batch_dims", AttrDefault::Int(0)),
    ],
)];
