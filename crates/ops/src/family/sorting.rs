//! Sorting, top-k, medians, binary search, and unique values.
//!
//! Keys and indices are in the workspace: for each element of the input 8 bytes where elements have at most four
//! bytes (and the sorted dimension fewer than 2^32 elements), else 16.

use super::masking::{dense, expect_capacity, expect_fits};
use crate::argument::Arg;
use crate::call::Call;
use crate::error::{Error, Fault, Outcome, Result};
use crate::infer::Infer;
use crate::plan::{Memory, Operand, Plan, Scratch};
use crate::table::ArgSource::{A, Attr, B, No, O};
use crate::table::{AttrDefault, Node, Row, aclnn, node};
use cairn_tensor::kernels::constant::Constant;
use cairn_tensor::kernels::copy::copy;
use cairn_tensor::kernels::order::{Overwritten, entry_bytes};
use cairn_tensor::kernels::sort::{Ranked, Selection, ordered, search};
use cairn_tensor::kernels::unique::{UniqueOutputs, unique, unique_slices};
use cairn_tensor::{DType, Dims, Layout, ViewMut};

/// Scratch for the keys of a tensor that is sorted along a dimension of this size.
pub(super) fn key_scratch(call: &mut Call<'_>, a: &Layout, size: usize) -> Scratch {
    let bytes = a.count().saturating_mul(entry_bytes(a.dtype, size));
    call.scratch(DType::Uint8, &[bytes])
}

/// The fault of a sort whose workspace changed while it ran.
pub(super) fn overwritten_workspace(_: Overwritten) -> Fault {
    Fault(
        "its workspace was overwritten while it ran: the memory was in use elsewhere. Keep it until the stream has \
         passed the operator, and do not write it from the host or from another stream meanwhile"
            .into(),
    )
}

/// Arguments: a, how many (all when absent), dimension, descending, values (may be absent), indices (may be absent).
fn sort_along_dim(call: &mut Call<'_>) -> Result<Plan> {
    let values = call.optional_output(4)?;
    let indices = call.optional_output(5)?;
    let outs: Vec<_> = values.iter().chain(&indices).collect();
    let a = call.read(0, &outs)?;
    call.expect_ordered(0, &a)?;
    let (dim, descending) = (call.dim(2, a.rank())?, call.flag(3)?);
    let size_of_dim = a.dims().get(dim).copied().unwrap_or(1);
    let count = if call.has(1) { call.number(1)?.as_i64() } else { size_of_dim as i64 };
    if count < 0 || count > size_of_dim as i64 {
        let name = call.parameter(1);
        return Err(Error::invalid(format!("{name} = {count} is outside 0 to {size_of_dim}")));
    }
    let mut dims = Dims::new(a.dims());
    if let Some(size) = dims.get_mut(dim) {
        *size = count as usize;
    }
    if let Some(values) = &values {
        call.expect_dims(4, values, &dims)?;
        call.expect_same(4, values, 0, &a)?;
    }
    if let Some(indices) = &indices {
        call.expect_dims(5, indices, &dims)?;
        call.expect_index_output(5, indices)?;
    }
    let scratch = key_scratch(call, &a, size_of_dim);
    call.plan(move |memory| {
        let selection = Selection::First(count as usize);
        let a = a.view(memory);
        let (values, indices) =
            (values.map(|out| memory.out(&out)), indices.map(|out| memory.out(&out)));
        let ranked = Ranked { values, indices, scratch: memory.scratch(&scratch) };
        ordered(memory.parallel, a, dim, descending, selection, &ranked)
            .map_err(overwritten_workspace)
    })
}

fn sort_outputs(call: &Call<'_>) -> Result<Vec<Layout>> {
    let a = call.layout(0)?;
    Ok(vec![a.packed(), Layout::contiguous(DType::Int32, a.dims())])
}

fn top_outputs(call: &Call<'_>) -> Result<Vec<Layout>> {
    let a = call.layout(0)?;
    let (count, dim) = (call.number(1)?.as_i64(), call.dim(2, a.rank())?);
    let mut dims = Dims::new(a.dims());
    if let Some(size) = dims.get_mut(dim) {
        *size = count.max(0) as usize;
    }
    let values = Layout::contiguous(a.dtype, &dims);
    Ok(vec![values, values.with_dtype(DType::Int32)])
}

/// The k-th smallest element along a dimension. Arguments: a, k (counted from 1; absent for the median), dimension, whether it
/// stays as a dimension of size 1, values, indices, whether NaN is left out.
fn select_nth(call: &mut Call<'_>) -> Result<Plan> {
    let (values, indices) = (call.output(4)?, call.output(5)?);
    let a = call.read(0, &[&values, &indices])?;
    call.expect_numbers(0, &a)?;
    let (dim, keep) = (call.dim(2, a.rank())?, call.flag(3)?);
    let size_of_dim = a.dims().get(dim).copied().unwrap_or(1);
    let selection = if call.has(1) {
        let rank = call.int(1)?;
        if rank < 1 || rank > size_of_dim as i64 {
            let name = call.parameter(1);
            return Err(Error::invalid(format!("{name} = {rank} is outside 1 to {size_of_dim}")));
        }
        Selection::Nth(rank as usize - 1)
    } else if call.flag(6)? {
        Selection::NumberMedian
    } else {
        Selection::Median
    };
    if size_of_dim == 0 {
        let (name, dims) = (call.parameter(0), a.dims());
        return Err(Error::invalid(format!("{name} {dims:?} has nothing along dimension {dim}")));
    }
    let mut dims = Dims::new(a.dims());
    if a.rank() > 0 {
        if keep {
            dims[dim] = 1;
        } else {
            dims.remove(dim);
        }
    }
    call.expect_dims(4, &values, &dims)?;
    call.expect_dims(5, &indices, &dims)?;
    call.expect_same(4, &values, 0, &a)?;
    call.expect_index_output(5, &indices)?;
    let with_reduced_dim = |out: crate::plan::Operand| match keep || a.rank() == 0 {
        true => out,
        false => out.with_layout(out.with(dim)),
    };
    let (values, indices) = (with_reduced_dim(values), with_reduced_dim(indices));
    let scratch = key_scratch(call, &a, size_of_dim);
    call.plan(move |memory| {
        let a = a.view(memory);
        let (values, indices) = (Some(memory.out(&values)), Some(memory.out(&indices)));
        let ranked = Ranked { values, indices, scratch: memory.scratch(&scratch) };
        ordered(memory.parallel, a, dim, false, selection, &ranked).map_err(overwritten_workspace)
    })
}

/// The median of all elements. Arguments: a, out, whether NaN is left out.
fn median(call: &mut Call<'_>) -> Result<Plan> {
    let out = call.output(1)?;
    let a = call.read(0, &[&out])?;
    call.expect_numbers(0, &a)?;
    call.expect_same(1, &out, 0, &a)?;
    if out.count() != 1 || a.count() == 0 {
        let (name, have, from) = (call.parameter(1), out.dims(), a.dims());
        return Err(Error::invalid(format!("{name} {have:?} for the median of {from:?}")));
    }
    let selection = if call.flag(2)? { Selection::NumberMedian } else { Selection::Median };
    let flat_a = call.flat_input(a);
    let scratch = key_scratch(call, &a, a.count());
    let out = out.with_layout(out.reshaped(&[1]).expect("one element"));
    call.plan(move |memory| {
        let a = flat_a.view(memory);
        let values = Some(memory.out(&out));
        let ranked = Ranked { values, indices: None, scratch: memory.scratch(&scratch) };
        ordered(memory.parallel, a, 0, false, selection, &ranked).map_err(overwritten_workspace)
    })
}

/// The indices at which values belong in sorted sequences. Arguments: sequences, values, -, right, sorter, out.
fn search_sorted(call: &mut Call<'_>) -> Result<Plan> {
    let out = call.output(5)?;
    let sequences = call.read_by_index(0, &[&out])?;
    call.expect_numbers(0, &sequences)?;
    call.expect_index_output(5, &out)?;
    let right = match call.arg(3) {
        Arg::Text(side) => side == "right",
        _ => call.flag(3)?,
    };
    let sorter = if call.has(4) { Some(call.read_index(4, &[&out])?) } else { None };
    if let Some(sorter) = &sorter {
        call.expect_dims(4, sorter, sequences.dims())?;
        sorter.touch_by_index(call);
    }
    if let Arg::Scalar(value) = *call.arg(1) {
        if sequences.rank() != 1 || out.count() != 1 {
            let (name, dims) = (call.parameter(0), sequences.dims());
            return Err(Error::invalid(format!("{name} {dims:?} is no sequence for one number")));
        }
        let name = call.parameter(4);
        return call.plan(move |memory| {
            let value = Constant::of(value, sequences.dtype);
            let (sequences, sorter) = (sequences.view(memory), sorter.map(|one| one.view(memory)));
            let values = value.view(out.dims());
            search(memory.parallel, memory.out(&out), sequences, values, sorter, right)
                .map_err(|bad| Fault(format!("{name} has the index {bad}, which no sequence has")))
        });
    }
    let values = call.read(1, &[&out])?;
    call.expect_same(1, &values, 0, &sequences)?;
    call.expect_dims(5, &out, values.dims())?;
    let rank = sequences.rank();
    let same_batches = rank <= 1
        || (values.rank() == rank && sequences.dims()[..rank - 1] == values.dims()[..rank - 1]);
    if !same_batches {
        let (name, have, want) = (call.parameter(1), values.dims(), sequences.dims());
        return Err(Error::invalid(format!("{name} {have:?} has other sequences than {want:?}")));
    }
    let name = call.parameter(4);
    call.plan(move |memory| {
        let (sequences, values) = (sequences.view(memory), values.view(memory));
        let sorter = sorter.map(|one| one.view(memory));
        search(memory.parallel, memory.out(&out), sequences, values, sorter, right)
            .map_err(|bad| Fault(format!("{name} has the index {bad}, which no sequence has")))
    })
}

fn search_sorted_output(call: &Call<'_>) -> Result<Vec<Layout>> {
    Ok(vec![Layout::contiguous(call.dtype(2)?, call.layout(1)?.dims())])
}

/// An output whose size the values decide: written directly where it has room for the most there can be, else through the
/// workspace.
#[derive(Clone, Copy)]
struct DynamicOutput {
    out: Operand,
    scratch: Option<Scratch>,
}

impl DynamicOutput {
    fn new(
        call: &mut Call<'_>,
        at: usize,
        out: Operand,
        max_count: usize,
    ) -> Result<DynamicOutput> {
        expect_capacity(call, at, &out, 0)?;
        let scratch = (out.count() < max_count).then(|| call.scratch(out.dtype, &[max_count]));
        Ok(DynamicOutput { out, scratch })
    }

    fn target<'m>(&self, memory: &Memory<'m>, dims: &[usize]) -> ViewMut<'m> {
        match &self.scratch {
            None => memory.out(&dense(&self.out, dims)),
            Some(scratch) => {
                let scratch = memory.scratch(scratch);
                scratch
                    .with_layout(Layout::contiguous(scratch.dtype(), dims))
                    .expect("room for the most")
            }
        }
    }

    /// Copies what was written to the workspace to the output.
    fn finish(&self, memory: &Memory<'_>, name: &str, dims: &[usize]) -> Outcome {
        expect_fits(name, &self.out, dims.iter().product())?;
        if self.scratch.is_some() {
            let out = memory.out(&dense(&self.out, dims));
            copy(memory.parallel, out, self.target(memory, dims).view());
        }
        Ok(())
    }
}

/// The unique values. Arguments: a, sorted, whether the inverse is requested, whether counts are, values, inverse,
/// counts, dimension (all elements when absent).
fn unique_elements(call: &mut Call<'_>) -> Result<Plan> {
    let values = call.output(4)?;
    let inverse = if call.flag(2)? { Some(call.output(5)?) } else { None };
    let counts = if call.flag(3)? { Some(call.output(6)?) } else { None };
    let outs: Vec<_> = [&values].into_iter().chain(&inverse).chain(&counts).collect();
    [Some(&values), counts.as_ref()].into_iter().flatten().for_each(|one| call.touch_by_index(one));
    let a = call.read(0, &outs)?;
    call.expect_numbers(0, &a)?;
    call.expect_same(4, &values, 0, &a)?;
    let of_all_elements = call.int_or(7, 1000)? >= 1000;
    let dim = if of_all_elements { None } else { Some(call.dim(7, a.rank())?) };
    let slices = match dim {
        Some(_) if a.rank() == 0 => {
            return Err(Error::invalid(format!("{} has no dimensions", call.parameter(0))));
        }
        Some(dim) if a.count() == 0 && a.dims()[dim] > 0 => {
            let (name, dims) = (call.parameter(0), a.dims());
            return Err(Error::invalid(format!(
                "{name} {dims:?} has slices of no elements along dimension {dim}, which do not differ"
            )));
        }
        Some(dim) => a.dims()[dim],
        None => a.count(),
    };
    for (at, out) in [(5, &inverse), (6, &counts)] {
        if let Some(out) = out {
            call.expect_index_output(at, out)?;
        }
    }
    if let Some(inverse) = &inverse {
        expect_capacity(call, 5, inverse, slices)?;
    }
    let values = DynamicOutput::new(call, 4, values, a.count())?;
    let counts = match counts {
        Some(counts) => Some(DynamicOutput::new(call, 6, counts, slices)?),
        None => None,
    };
    let names = [call.parameter(4), call.parameter(6)];
    let sort = call.flag(1)?;
    let scratch = sort.then(|| match dim {
        None => key_scratch(call, &a, a.count()),
        Some(_) => call.scratch(DType::Uint8, &[slices.saturating_mul(16)]),
    });
    let (values_index, counts_index) = (call.caller_index(4), call.caller_index(6));
    call.plan(move |memory| {
        let a = a.view(memory);
        let scratch = scratch.as_ref().map(|scratch| memory.scratch(scratch));
        let mut outputs = UniqueOutputs {
            values: None,
            inverse: inverse.map(|out| memory.out(&dense(&out, &[slices]))),
            counts: counts.map(|out| out.target(memory, &[slices])),
        };
        let (total, dims) = match dim {
            None => {
                outputs.values = Some(values.target(memory, &[slices]));
                let total = unique(a, &outputs, scratch).map_err(overwritten_workspace)?;
                (total, Dims::new(&[total]))
            }
            Some(dim) => {
                let total = unique_slices(memory.parallel, a, dim, &outputs, scratch)
                    .map_err(overwritten_workspace)?;
                let mut dims = Dims::new(a.dims());
                dims[dim] = total;
                outputs.values = Some(values.target(memory, &dims));
                unique_slices(memory.parallel, a, dim, &outputs, scratch)
                    .map_err(overwritten_workspace)?;
                (total, dims)
            }
        };
        values.finish(memory, names[0], &dims)?;
        (memory.sized)(values_index, &dims);
        if let Some(counts) = &counts {
            counts.finish(memory, names[1], &[total])?;
            (memory.sized)(counts_index, &[total]);
        }
        Ok(())
    })
}

/// The rows of this family.
pub const ROWS: &[Row] = &[
    aclnn("Sort", sort_along_dim).with_args(&[A(0), No, A(2), A(3), A(4), A(5)]),
    aclnn("Argsort", sort_along_dim).with_args(&[A(0), No, A(1), A(2), No, A(3)]),
    aclnn("Topk", sort_along_dim).with_args(&[A(0), A(1), A(2), A(3), A(5), A(6)]),
    aclnn("TopkV2", sort_along_dim).with_args(&[A(0), A(1), A(2), A(3), A(6), A(7)]),
    aclnn("Kthvalue", select_nth).with_args(&[A(0), A(1), A(2), A(3), A(4), A(5)]),
    aclnn("MedianDim", select_nth).with_args(&[A(0), No, A(1), A(2), A(3), A(4), B(false)]),
    aclnn("NanMedianDim", select_nth).with_args(&[A(0), No, A(1), A(2), A(3), A(4), B(true)]),
    aclnn("Median", median).with_args(&[A(0), A(1), B(false)]),
    aclnn("NanMedian", median).with_args(&[A(0), A(1), B(true)]),
    aclnn("SearchSorted", search_sorted),
    aclnn("SearchSorteds", search_sorted),
    aclnn("Bucketize", search_sorted).with_args(&[A(1), A(0), A(2), A(3), No, A(4)]),
    aclnn("Unique", unique_elements).with_args(&[A(0), B(true), A(2), B(false), A(3), A(4)]),
    aclnn("Unique2", unique_elements).with_args(&[A(0), B(true), A(2), A(3), A(4), A(5), A(6)]),
    aclnn("UniqueConsecutive", unique_elements).with_args(&[
        A(0),
        B(false),
        A(1),
        A(2),
        A(4),
        A(5),
        A(6),
        A(3),
    ]),
    aclnn("UniqueDim", unique_elements).with_args(&[
        A(0),
        B(true),
        A(2),
        B(true),
        A(4),
        A(5),
        A(6),
        A(3),
    ]),
];

/// The operators of this family by IR name.
pub const NODES: &[Node] = &[
    node(
        "SearchSorted",
        &["sorted_sequence", "values", "sorter?"],
        &["out"],
        Infer::By(search_sorted_output),
        search_sorted,
        &[
            A(0),
            A(1),
            Attr("dtype", AttrDefault::Int(9)),
            Attr("right", AttrDefault::Flag(false)),
            A(2),
            O(0),
        ],
    ),
    node(
        "Sort",
        &["x"],
        &["y1", "y2"],
        Infer::By(sort_outputs),
        sort_along_dim,
        &[
            A(0),
            No,
            Attr("axis", AttrDefault::Int(-1)),
            Attr("descending", AttrDefault::Flag(false)),
            O(0),
            O(1),
            Attr("stable", AttrDefault::Flag(false)),
        ],
    ),
    node(
        "SortV2",
        &["x"],
        &["y"],
        Infer::Like(0),
        sort_along_dim,
        &[
            A(0),
            No,
            Attr("axis", AttrDefault::Int(-1)),
            Attr("descending", AttrDefault::Flag(false)),
            O(0),
            No,
        ],
    ),
    node(
        "TopKV2",
        &["x", "k"],
        &["values", "indices"],
        Infer::By(top_outputs),
        sort_along_dim,
        &[
            A(0),
            A(1),
            Attr("dim", AttrDefault::Int(-1)),
            Attr("largest", AttrDefault::Flag(true)),
            O(0),
            O(1),
            Attr("sorted", AttrDefault::Flag(true)),
        ],
    )
    .needs_values(&[1]),
];
