//! The different elements, or slices, of a tensor: sorted or as they come, with where they are and how many.

use super::inputs::out_of_range;
use super::masking::{dense, expect_capacity, expect_fits};
use super::sorting::{key_scratch, overwritten_workspace};
use crate::call::Call;
use crate::error::{Error, Result};
use crate::infer::Infer;
use crate::plan::{Operand, Plan};
use crate::table::ArgSource::{A, Attr, O};
use crate::table::{AttrDefault, Node, node};
use cairn_tensor::kernels::copy::copy;
use cairn_tensor::kernels::distinct::Groups;
use cairn_tensor::kernels::gather::gather;
use cairn_tensor::kernels::indexed::IndexedView;
use cairn_tensor::kernels::unique::{UniqueOutputs, unique, unique_slices};
use cairn_tensor::{DType, Dims, Layout};

/// The value of an axis that stands for all elements.
const WHOLE: i64 = 1000;

/// The dimension whose slices are compared; none where elements are.
fn slices_along(call: &Call<'_>, x: &Layout) -> Result<Option<usize>> {
    if call.int(8)? >= WHOLE {
        return Ok(None);
    }
    let dim = call.dim(8, x.rank())?;
    let name = call.parameter(0);
    if x.rank() == 0 {
        return Err(Error::invalid(format!("{name} has no dimensions")));
    }
    if x.count() == 0 && x.dims()[dim] > 0 {
        let dims = x.dims();
        return Err(Error::invalid(format!(
            "{name} {dims:?} has slices of no elements along dimension {dim}, which do not differ"
        )));
    }
    Ok(Some(dim))
}

/// The sizes of the outputs where all elements differ: values, inverse, counts and firsts.
fn largest(call: &Call<'_>, x: &Layout) -> Result<[Dims; 4]> {
    let dim = slices_along(call, x)?;
    let count = Dims::new(&[dim.map_or(x.count(), |dim| x.dims()[dim])]);
    let values = if dim.is_some() { Dims::new(x.dims()) } else { count };
    let whole = if dim.is_some() { count } else { Dims::new(x.dims()) };
    let inverse = if call.flag(5)? { whole } else { Dims::new(&[0]) };
    let counts = if call.flag(6)? { count } else { Dims::new(&[0]) };
    Ok([values, inverse, counts, count])
}

/// Arguments: x, values, inverse, counts, firsts (the last three may be absent), whether the inverse is wanted, whether
/// counts are, whether values are sorted, dimension, type of indices.
fn distinct(call: &mut Call<'_>) -> Result<Plan> {
    let values = call.output(1)?;
    let mut others: [Option<Operand>; 3] = [None; 3];
    for (at, other) in others.iter_mut().enumerate() {
        *other = call.optional_output(2 + at)?;
    }
    let outs: Vec<&Operand> = std::iter::once(&values).chain(others.iter().flatten()).collect();
    let x = call.read(0, &outs)?;
    call.expect_ordered(0, &x)?;
    call.expect_same(1, &values, 0, &x)?;
    let dim = slices_along(call, &x)?;
    let [_, inverse_dims, counts_dims, count] = largest(call, &x)?;
    expect_capacity(call, 1, &values, 0)?;
    call.touch_by_index(&values);
    let [inverse, counts, firsts] = others;
    for (at, out) in [(2, &inverse), (3, &counts), (4, &firsts)] {
        let Some(out) = out else { continue };
        call.expect_index_output(at, out)?;
        expect_capacity(call, at, out, 0)?;
        if at > 2 {
            call.touch_by_index(out);
        }
    }
    if let Some(inverse) = &inverse {
        call.expect_dims(2, inverse, &inverse_dims)?;
    }
    let slices = count[0];
    let wants_counts = counts_dims[0] > 0;
    let in_order = !call.flag(7)?;
    let sort = match dim {
        None => key_scratch(call, &x, x.count()),
        Some(_) => call.scratch(DType::Uint8, &[slices.saturating_mul(16)]),
    };
    let numbers = [0; 3].map(|_| call.scratch(DType::Int64, &[slices]));
    let renumbered = in_order.then(|| call.scratch(DType::Int64, &[slices]));
    // The elements one after the other: where they are in a line, or copied.
    let line = match dim {
        None => Some(call.flat_input(x)),
        Some(_) => None,
    };
    let places = [1, 3, 4].map(|at| (call.parameter(at), call.caller_index(at)));
    call.plan(move |memory| {
        let from = match &line {
            Some(line) => line.view(memory),
            None => x.view(memory),
        };
        let [numbered, first, sizes] = numbers.map(|one| memory.scratch(&one));
        let outputs = UniqueOutputs { values: None, inverse: Some(numbered), counts: None };
        let sort = Some(memory.scratch(&sort));
        let total = match dim {
            None => unique(from, &outputs, sort),
            Some(dim) => unique_slices(memory.parallel, from, dim, &outputs, sort),
        };
        let total = total.map_err(overwritten_workspace)?;
        let groups = Groups { inverse: numbered, firsts: first, counts: sizes };
        groups
            .count(total, renumbered.map(|one| memory.scratch(&one)))
            .map_err(overwritten_workspace)?;
        let mut dims = Dims::new(from.dims());
        let along = dim.unwrap_or(0);
        dims[along] = total;
        let part = |view: cairn_tensor::ViewMut<'_>| Layout::contiguous(view.dtype(), &[total]);
        let chosen = first.view().with_layout(part(first)).expect("as many as there are");
        expect_fits(places[0].0, &values, dims.iter().product())?;
        let source = IndexedView::chosen(from, along, chosen, false);
        gather(memory.parallel, memory.out(&dense(&values, &dims)), &source, chosen)
            .map_err(|bad| out_of_range(places[0].0, bad))?;
        (memory.sized)(places[0].1, &dims);
        if let Some(inverse) = inverse.filter(|inverse| inverse.count() > 0) {
            copy(memory.parallel, memory.out(&dense(&inverse, &[slices])), numbered.view());
        }
        let counts = counts.map(|counts| (counts, sizes, if wants_counts { total } else { 0 }));
        let firsts = firsts.map(|firsts| (firsts, first, total));
        for (out, (name, index)) in [counts, firsts].into_iter().zip(&places[1..]) {
            let Some((out, numbers, count)) = out else { continue };
            expect_fits(name, &out, count)?;
            let numbers = numbers.view();
            let numbers = numbers.with_layout(numbers.layout().sliced(0, 0, count, 1));
            let numbers = numbers.expect("as many as there are");
            copy(memory.parallel, memory.out(&dense(&out, &[count])), numbers);
            (memory.sized)(*index, &[count]);
        }
        Ok(())
    })
}

fn distinct_outputs(call: &Call<'_>) -> Result<Vec<Layout>> {
    let x = call.layout(0)?;
    let [values, inverse, counts, firsts] = largest(call, &x)?;
    let index = call.dtype(9)?;
    let numbers = [inverse, counts, firsts].map(|dims| Layout::contiguous(index, &dims));
    Ok(std::iter::once(Layout::contiguous(x.dtype, &values)).chain(numbers).collect())
}

/// The operators of this family by IR name.
pub const NODES: &[Node] = &[node(
    "UniqueWithCountsAndSorting",
    &["x"],
    &["y", "indices", "counts", "first_indices"],
    Infer::By(distinct_outputs),
    distinct,
    &[
        A(0),
        O(0),
        O(1),
        O(2),
        O(3),
        Attr("return_inverse", AttrDefault::Flag(false)),
        Attr("return_counts", AttrDefault::Flag(false)),
        Attr("sorted", AttrDefault::Flag(true)),
        Attr("axis", AttrDefault::Int(WHOLE)),
        Attr("out_idx", AttrDefault::Int(DType::Int64 as i64)),
    ],
)
.sized_by_values()];
