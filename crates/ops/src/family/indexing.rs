//! Elements at positions that indices name.

use super::inputs::{UnaliasedInput, out_of_range};
use crate::call::Call;
use crate::error::{Error, Result};
use crate::infer::Infer;
use crate::plan::{Memory, Operand, Plan, Scratch};
use crate::table::ArgSource::{A, Attr, B, I, No, O, Rest};
use crate::table::{AttrDefault, Node, Row, aclnn, node};
use cairn_tensor::kernels::gather::gather;
use cairn_tensor::kernels::indexed::{Coordinate, INDEX_TYPES, IndexedView, combine};
use cairn_tensor::{DType, Dims, Layout, MAX_DIMS, View, broadcast};

/// The sizes of a tensor whose dimension `dim` is replaced by those of an index.
pub(super) fn replaced_dims(
    call: &Call<'_>,
    a: &Layout,
    dim: usize,
    index: &Layout,
) -> Result<Dims> {
    let mut dims = Dims::new(a.dims());
    if a.rank() > 0 {
        dims.remove(dim);
    }
    if dims.len() + index.rank() > MAX_DIMS {
        let (name, have, with) = (call.name, a.dims(), index.dims());
        return Err(Error::invalid(format!(
            "{name} of {have:?} by {with:?} has too many dimensions"
        )));
    }
    index.dims().iter().enumerate().for_each(|(at, size)| dims.insert(dim + at, *size));
    Ok(dims)
}

/// How many first dimensions a tensor and its index have in common: 0 when argument `at` is absent, counted from the
/// end of the index when it is negative.
fn batches(call: &Call<'_>, at: usize, a: &Layout, dim: usize, index: &Layout) -> Result<usize> {
    let batches = call.int_or(at, 0)?;
    let count = if batches < 0 { batches + index.rank() as i64 } else { batches };
    let max = dim.min(index.rank());
    let count = usize::try_from(count).ok().filter(|count| *count <= max);
    match count {
        Some(count) if a.dims()[..count] == index.dims()[..count] => Ok(count),
        _ => {
            let (name, have, with) = (call.parameter(at), a.dims(), index.dims());
            Err(Error::invalid(format!(
                "{name} = {batches}: {have:?} by {with:?} along dimension {dim} has no such batches"
            )))
        }
    }
}

/// The sizes of what [`gather_v2`] makes, with the dimension and the number of batches.
fn gather_v2_dims(call: &Call<'_>, a: &Layout, index: &Layout) -> Result<(Dims, usize, usize)> {
    let dim = call.wrap(1, call.number(1)?.as_i64(), a.rank())?;
    let batch = batches(call, 5, a, dim, index)?;
    let mut batch_index = *index;
    (0..batch).for_each(|_| batch_index = batch_index.without(0));
    Ok((replaced_dims(call, a, dim, &batch_index)?, dim, batch))
}

/// The slices of a dimension that an index names. Arguments: a, dimension, index, out, whether negative ones count
/// from the end, how many first dimensions are batches.
fn gather_v2(call: &mut Call<'_>) -> Result<Plan> {
    plan_gather(call, false)
}

/// As [`gather_v2`], where argument 6 says whether indices are scattered (0) or close together (1), which changes no result.
fn gather_v3(call: &mut Call<'_>) -> Result<Plan> {
    let mode = call.int(6)?;
    if mode != 0 && mode != 1 {
        let name = call.parameter(6);
        return Err(Error::invalid(format!("{name} = {mode}: expected 0 or 1")));
    }
    gather_v2(call)
}

/// As [`gather_v2`], where an index without dimensions is one with a single element.
fn index_select(call: &mut Call<'_>) -> Result<Plan> {
    plan_gather(call, true)
}

/// [`gather_v2`], or with `is_select` [`index_select`].
fn plan_gather(call: &mut Call<'_>, is_select: bool) -> Result<Plan> {
    let out = call.output(3)?;
    let a = call.read_by_index(0, &[&out])?;
    let index = call.read_index(2, &[&out])?;
    let index = if is_select { index.at_least_1d() } else { index };
    let wraps = call.flag_or(4, false)?;
    call.expect_same(3, &out, 0, &a)?;
    let (dims, dim, batch) = gather_v2_dims(call, &a, &index)?;
    let out = match (a.rank(), index.count()) {
        (0, 1) if out.rank() == 0 => out.with_layout(out.reshaped(&dims).expect("one element")),
        _ => out,
    };
    call.expect_dims(3, &out, &dims)?;
    let name = call.parameter(2);
    call.plan(move |memory| {
        let (a, index) = (a.view(memory), index.view(memory));
        let source = IndexedView::chosen_in_batches(a, dim, index, batch, wraps);
        gather(memory.parallel, memory.out(&out), &source, index)
            .map_err(|bad| out_of_range(name, bad))
    })
}

fn gather_v2_output(call: &Call<'_>) -> Result<Vec<Layout>> {
    let (a, index) = (call.layout(0)?, call.layout(2)?);
    Ok(vec![Layout::contiguous(a.dtype, &gather_v2_dims(call, &a, &index)?.0)])
}

/// Fails unless an index has the rank of a tensor and is nowhere larger than it but along `dim`.
pub(super) fn expect_within(
    call: &Call<'_>,
    at: usize,
    index: &Layout,
    a: &Layout,
    dim: usize,
) -> Result<()> {
    let fits = index.rank() == a.rank()
        && (0..a.rank()).all(|i| i == dim || index.dims()[i] <= a.dims()[i]);
    if fits || index.count() == 0 {
        return Ok(());
    }
    let (name, have, want) = (call.parameter(at), index.dims(), a.dims());
    Err(Error::invalid(format!("{name} {have:?} does not lie in {want:?} beside dimension {dim}")))
}

/// For each position of an index the element that it names along a dimension. Arguments: a, dimension, index, out.
fn gather_elements(call: &mut Call<'_>) -> Result<Plan> {
    let out = call.output(3)?;
    let a = call.read_by_index(0, &[&out])?.at_least_1d();
    let index = call.read_index(2, &[&out])?;
    call.expect_dims(3, &out, index.dims())?;
    call.expect_same(3, &out, 0, &a)?;
    let (out, index) = (out.at_least_1d(), index.at_least_1d());
    let dim = call.dim(1, a.rank())?;
    expect_within(call, 2, &index, &a, dim)?;
    if out.count() == 0 {
        return call.nothing();
    }
    let name = call.parameter(2);
    call.plan(move |memory| {
        let (a, index) = (a.view(memory), index.view(memory));
        let source = IndexedView::along(a, dim, index, false);
        gather(memory.parallel, memory.out(&out), &source, index)
            .map_err(|bad| out_of_range(name, bad))
    })
}

fn gather_elements_output(call: &Call<'_>) -> Result<Vec<Layout>> {
    Ok(vec![Layout::contiguous(call.layout(0)?.dtype, call.layout(2)?.dims())])
}

/// Elements by their index in the flattened tensor. Arguments: a, index, out.
fn take_flat(call: &mut Call<'_>) -> Result<Plan> {
    let out = call.output(2)?;
    let a = call.read(0, &[&out])?;
    let index = call.read_index(1, &[&out])?;
    call.expect_dims(2, &out, index.dims())?;
    call.expect_same(2, &out, 0, &a)?;
    let name = call.parameter(1);
    let flat_a = call.flat_input(a);
    flat_a.touch_by_index(call);
    call.plan(move |memory| {
        let (view, index) = (flat_a.view(memory), index.view(memory));
        let source = IndexedView::chosen(view, 0, index, true);
        gather(memory.parallel, memory.out(&out), &source, index)
            .map_err(|bad| out_of_range(name, bad))
    })
}

/// The sizes of a tensor whose dimensions `chosen` are replaced by those that their indices broadcast to, and where
/// these are: at the first, or before all where the dimensions do not follow each other.
fn index_by_tensors_dims(a: &Layout, chosen: &[usize], shape: &[usize]) -> Result<(usize, Dims)> {
    let adjacent = chosen.windows(2).all(|two| two[1] == two[0] + 1);
    let first_dim = if adjacent { chosen.first().copied().unwrap_or(0) } else { 0 };
    let mut dims: Dims =
        (0..a.rank()).filter(|dim| !chosen.contains(dim)).map(|dim| a.dims()[dim]).collect();
    if dims.len() + shape.len() > MAX_DIMS {
        return Err(Error::invalid(format!("{dims:?} by {shape:?} has too many dimensions")));
    }
    shape.iter().enumerate().for_each(|(i, size)| dims.insert(first_dim + i, *size));
    Ok((first_dim, dims))
}

/// The dimensions where a mask is not 0, one for each index of a list. Without a mask they are the first ones.
fn masked_dims(call: &Call<'_>, at: usize, count: usize, rank: usize) -> Result<Dims> {
    let mask = if call.has(at) { call.ints(at)? } else { Vec::new() };
    let set = mask.iter().enumerate().filter(|(_, one)| **one != 0).map(|(dim, _)| dim);
    let chosen: Vec<usize> = if mask.is_empty() { (0..count).collect() } else { set.collect() };
    if chosen.len() == count && chosen.last().is_none_or(|last| *last < rank) {
        return Ok(chosen.into_iter().collect());
    }
    let name = call.parameter(at);
    Err(Error::invalid(format!("{name} = {mask:?} for {count} indices of {rank} dimensions")))
}

/// What all indices of a list broadcast to. Arguments: the list, by its layouts.
fn broadcast_all(call: &Call<'_>, at: usize, list: &[Layout]) -> Result<Dims> {
    let mut shape = Dims::default();
    for (i, one) in list.iter().enumerate() {
        let Some(broadcast_shape) = broadcast(&shape, one.dims()) else {
            let (name, have) = (call.parameter(at), one.dims());
            return Err(Error::invalid(format!(
                "{name}[{i}] {have:?} does not broadcast with {shape:?}"
            )));
        };
        shape = broadcast_shape;
    }
    Ok(shape)
}

/// Several index tensors of one call, which replace dimensions of a tensor.
pub(super) struct Indices {
    /// A dimension, its size, and its index.
    all: Vec<(usize, usize, UnaliasedInput)>,
    /// What all indices broadcast to.
    shape: Dims,
    /// The dimension of the result where the indices' dimensions begin.
    at_dim: usize,
    /// The offset of each position, where there is not exactly one index.
    offsets: Option<Scratch>,
    name: &'static str,
    /// The sizes of what is indexed.
    pub dims: Dims,
}

impl Indices {
    /// Reads the list at `at`, an entry for each dimension of `a`; one without elements leaves its dimension as it is.
    /// `None` when the indices name no element at all.
    pub fn read(
        call: &mut Call<'_>,
        at: usize,
        a: &Layout,
        outs: &[&Operand],
    ) -> Result<Option<Indices>> {
        let list = call.tensors_or_null(at)?;
        let name = call.parameter(at);
        if list.len() > a.rank() {
            let (count, dims) = (list.len(), a.dims());
            return Err(Error::invalid(format!("{name} has {count} entries for {dims:?}")));
        }
        let any_elements = list.iter().flatten().any(|one| one.count() > 0);
        let is_blank = |one: &Operand| {
            one.dims() == [0]
                && (one.dtype == a.dtype && any_elements || !INDEX_TYPES.contains(&one.dtype))
        };
        let (mut all, mut shape) = (Vec::new(), Dims::default());
        for (dim, one) in list.into_iter().enumerate() {
            let Some(one) = one.filter(|one| !is_blank(one)) else { continue };
            if !INDEX_TYPES.contains(&one.dtype) {
                let have = one.dtype;
                return Err(Error::invalid(format!(
                    "{name}[{dim}] has elements of type {have}: expected int64 or int32 (Nonzero makes them of a mask)"
                )));
            }
            let Some(broadcast_shape) = broadcast(&shape, one.dims()) else {
                let have = one.dims();
                return Err(Error::invalid(format!(
                    "{name}[{dim}] {have:?} does not broadcast with {shape:?}"
                )));
            };
            shape = broadcast_shape;
            all.push((dim, a.dims()[dim], call.unaliased(one, outs)));
        }
        if !all.is_empty() && shape.contains(&0) {
            return Ok(None);
        }
        Indices::new(call, a, all, shape, name).map(Some)
    }

    /// As [`Indices::read`] for one tensor whose last dimension holds the coordinates in the first dimensions of `a`.
    pub fn read_coordinates(
        call: &mut Call<'_>,
        at: usize,
        a: &Layout,
        outs: &[&Operand],
    ) -> Result<Indices> {
        let index = call.read_index(at, outs)?;
        let name = call.parameter(at);
        let count = index.dims().last().copied().unwrap_or(usize::MAX);
        if count > a.rank() {
            let (have, dims) = (index.dims(), a.dims());
            return Err(Error::invalid(format!("{name} {have:?} has no coordinates in {dims:?}")));
        }
        let last = index.rank() - 1;
        let column = |dim: usize| (dim, a.dims()[dim], index.with_layout(index.at(last, dim)));
        let shape = Dims::new(&index.dims()[..last]);
        Indices::new(call, a, (0..count).map(column).collect(), shape, name)
    }

    fn new(
        call: &mut Call<'_>,
        a: &Layout,
        all: Vec<(usize, usize, UnaliasedInput)>,
        shape: Dims,
        name: &'static str,
    ) -> Result<Indices> {
        let chosen: Dims = all.iter().map(|one| one.0).collect();
        let (at_dim, dims) = index_by_tensors_dims(a, &chosen, &shape)?;
        let offsets = (all.len() != 1).then(|| call.scratch(DType::Int64, &shape));
        Ok(Indices { all, shape, at_dim, offsets, name, dims })
    }

    /// A tensor of the sizes that the list was read for, seen through the indices, and the indices themselves.
    pub fn view<'a>(
        &self,
        memory: &Memory<'a>,
        a: View<'a>,
    ) -> std::result::Result<(IndexedView<'a>, View<'a>), crate::error::Fault> {
        let expand = |one: &UnaliasedInput| {
            let view = one.view(memory);
            let layout = view.broadcast_to(&self.shape).expect("sizes were checked");
            view.with_layout(layout).expect("the same elements")
        };
        let Some(offsets) = &self.offsets else {
            let index = expand(&self.all[0].2);
            return Ok((IndexedView::chosen(a, self.all[0].0, index, true), index));
        };
        let offsets = memory.scratch(offsets);
        let coordinates: Vec<Coordinate<'_>> = (self.all.iter())
            .map(|(dim, size, one)| Coordinate {
                index: expand(one),
                size: *size,
                stride: a.strides()[*dim],
                wraps: true,
            })
            .collect();
        combine(memory.parallel, offsets, &coordinates).map_err(|bad| {
            out_of_range(&format!("{}[{}]", self.name, self.all[bad.tensor].0), bad)
        })?;
        let dims: Vec<usize> = self.all.iter().map(|one| one.0).collect();
        let index = offsets.view();
        Ok((IndexedView::combined(a, &dims, self.at_dim, index), index))
    }

    /// The parameter's name, with the entry that its only index has.
    pub fn name(&self) -> String {
        match &self.all[..] {
            [(dim, ..)] => format!("{}[{dim}]", self.name),
            _ => self.name.into(),
        }
    }
}

/// The elements at the coordinates that several index tensors hold. Arguments: a, indices, out.
fn index_by_tensors(call: &mut Call<'_>) -> Result<Plan> {
    let out = call.output(2)?;
    let a = call.read_by_index(0, &[&out])?;
    call.expect_same(2, &out, 0, &a)?;
    if out.count() == 0 {
        return call.nothing();
    }
    let Some(indices) = Indices::read(call, 1, &a, &[&out])? else {
        let (name, have) = (call.parameter(2), out.dims());
        return Err(Error::invalid(format!("{name} {have:?} has elements, the indices name none")));
    };
    call.expect_dims(2, &out, &indices.dims)?;
    call.plan(move |memory| {
        let a = a.view(memory);
        let (source, index) = indices.view(memory, a)?;
        gather(memory.parallel, memory.out(&out), &source, index)
            .map_err(|bad| out_of_range(&indices.name(), bad))
    })
}

/// As [`index_by_tensors`], where a mask names the dimensions of the indices. Arguments: a, indices, mask, out.
fn index_by_mask(call: &mut Call<'_>) -> Result<Plan> {
    let out = call.output(3)?;
    let a = call.read_by_index(0, &[&out])?;
    call.expect_same(3, &out, 0, &a)?;
    let list = call.tensors(1)?;
    let layouts: Vec<Layout> = list.iter().map(|one| *one.layout()).collect();
    let (chosen, shape) =
        (masked_dims(call, 2, list.len(), a.rank())?, broadcast_all(call, 1, &layouts)?);
    call.expect_dims(3, &out, &index_by_tensors_dims(&a, &chosen, &shape)?.1)?;
    if out.count() == 0 {
        return call.nothing();
    }
    let mut all = Vec::new();
    for (one, dim) in list.into_iter().zip(chosen.iter()) {
        call.expect_dtype(1, &one, INDEX_TYPES)?;
        all.push((*dim, a.dims()[*dim], call.unaliased(one, &[&out])));
    }
    let name = call.parameter(1);
    let indices = Indices::new(call, &a, all, shape, name)?;
    call.plan(move |memory| {
        let a = a.view(memory);
        let (source, index) = indices.view(memory, a)?;
        gather(memory.parallel, memory.out(&out), &source, index)
            .map_err(|bad| out_of_range(&indices.name(), bad))
    })
}

fn index_by_mask_output(call: &Call<'_>) -> Result<Vec<Layout>> {
    let a = call.layout(0)?;
    let layouts = super::joining::layouts(call, 1)?;
    let (chosen, shape) =
        (masked_dims(call, 2, layouts.len(), a.rank())?, broadcast_all(call, 1, &layouts)?);
    Ok(vec![Layout::contiguous(a.dtype, &index_by_tensors_dims(&a, &chosen, &shape)?.1)])
}

/// Slices whose coordinates the last dimension of an index holds. Arguments: a, index, out.
fn gather_nd(call: &mut Call<'_>) -> Result<Plan> {
    let out = call.output(2)?;
    let a = call.read_by_index(0, &[&out])?;
    call.expect_same(2, &out, 0, &a)?;
    let indices = Indices::read_coordinates(call, 1, &a, &[&out])?;
    call.expect_dims(2, &out, &indices.dims)?;
    call.plan(move |memory| {
        let a = a.view(memory);
        let (source, index) = indices.view(memory, a)?;
        gather(memory.parallel, memory.out(&out), &source, index)
            .map_err(|bad| out_of_range(&indices.name(), bad))
    })
}

/// The rows of this family.
pub const ROWS: &[Row] = &[
    aclnn("IndexSelect", index_select).with_args(&[A(0), A(1), A(2), A(3)]),
    aclnn("GatherV2", gather_v2).with_args(&[A(0), A(1), A(2), A(3), B(true)]),
    aclnn("GatherV3", gather_v3).with_args(&[A(0), A(1), A(2), A(5), B(false), A(3), A(4)]),
    aclnn("Embedding", gather_v2).with_args(&[A(0), I(0), A(1), A(2)]),
    aclnn("Gather", gather_elements),
    aclnn("GatherNd", gather_nd).with_args(&[A(0), A(1), A(3)]),
    aclnn("Take", take_flat),
    aclnn("Index", index_by_tensors),
];

/// The operators of this family by IR name.
pub const NODES: &[Node] = &[
    node(
        "GatherV2",
        &["x", "indices", "axis"],
        &["y"],
        Infer::By(gather_v2_output),
        gather_v2,
        &[
            A(0),
            A(2),
            A(1),
            O(0),
            Attr("negative_index_support", AttrDefault::Flag(false)),
            Attr("batch_dims", AttrDefault::Int(0)),
            Attr("is_preprocessed", AttrDefault::Flag(false)),
        ],
    )
    .needs_values(&[2]),
    node(
        "Gather",
        &["x", "indices"],
        &["y"],
        Infer::By(gather_v2_output),
        gather_v2,
        &[
            A(0),
            I(0),
            A(1),
            O(0),
            Attr("negative_index_support", AttrDefault::Flag(false)),
            Attr("batch_dims", AttrDefault::Int(0)),
            Attr("validate_indices", AttrDefault::Flag(true)),
            Attr("is_preprocessed", AttrDefault::Flag(false)),
        ],
    ),
    node(
        "IndexByTensor",
        &["x", "indices[]"],
        &["y"],
        Infer::By(index_by_mask_output),
        index_by_mask,
        &[A(0), Rest(1), Attr("indices_mask", AttrDefault::Ints(&[])), O(0)],
    ),
    node(
        "GatherElements",
        &["x", "index"],
        &["y"],
        Infer::By(gather_elements_output),
        gather_elements,
        &[A(0), Attr("dim", AttrDefault::Int(0)), A(1), O(0), No],
    ),
];
