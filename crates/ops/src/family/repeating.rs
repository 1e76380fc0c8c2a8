//! Each element, or each slice, repeated several times.

use super::inputs::{FlatInput, UnaliasedInput};
use crate::call::Call;
use crate::error::{Error, Fault, Result};
use crate::plan::{Memory, Operand, Plan};
use crate::table::ArgSource::{A, No};
use crate::table::{Row, aclnn};
use cairn_tensor::kernels::copy::copy;
use cairn_tensor::kernels::gather::gather;
use cairn_tensor::kernels::indexed::IndexedView;
use cairn_tensor::kernels::sequence::{repeat_indices, sum_runs};
use cairn_tensor::{DType, Dims, Layout, MAX_DIMS, Strides, View};

/// A tensor whose slices are repeated: those of a dimension, or all elements.
#[derive(Clone, Copy)]
enum Slices {
    Dimension(UnaliasedInput),
    Flat(FlatInput),
}

impl Slices {
    /// Says that values decide which elements are read.
    fn touch_by_index(&self, call: &mut Call<'_>) {
        match self {
            Slices::Dimension(read) => read.touch_by_index(call),
            Slices::Flat(flat) => flat.touch_by_index(call),
        }
    }

    fn view<'a>(&self, memory: &Memory<'a>) -> View<'a> {
        match self {
            Slices::Dimension(read) => read.view(memory),
            Slices::Flat(flat) => flat.view(memory),
        }
    }
}

/// The slices of argument 0, the sizes of the tensor, and the dimension. Arguments as of [`repeat_interleave`].
fn slices(call: &mut Call<'_>, out: &Operand) -> Result<(Slices, Dims, usize)> {
    let a = call.read(0, &[out])?;
    call.expect_same(3, out, 0, &a)?;
    if !call.has(2) {
        return Ok((Slices::Flat(call.flat_input(a)), Dims::new(&[a.count()]), 0));
    }
    let a = a.at_least_1d();
    let dim = call.dim(2, a.rank())?;
    Ok((Slices::Dimension(a), Dims::new(a.dims()), dim))
}

/// Each slice the same number of times. Arguments: a, how often, dimension (all elements when absent), out.
fn repeat_interleave_int(call: &mut Call<'_>) -> Result<Plan> {
    let out = call.output(3)?;
    let (a, mut dims, dim) = slices(call, &out)?;
    let (size, times) = (dims[dim], call.int(1)?);
    let Ok(times) = usize::try_from(times) else {
        let name = call.parameter(1);
        return Err(Error::invalid(format!("{name} = {times} is negative")));
    };
    dims[dim] = size.saturating_mul(times);
    call.expect_dims(3, &out, &dims)?;
    if out.count() == 0 {
        return call.nothing();
    }
    let parts = split_repeats(*out, dim, size, times);
    call.plan(move |memory| {
        let view = a.view(memory);
        for (part, fixed) in &parts {
            let mut from = *view.layout();
            if let Some((other, index)) = fixed {
                from = from.at(*other, *index);
            }
            let along = if fixed.is_some_and(|(other, _)| other < dim) { dim } else { dim + 1 };
            let repeated = from.with(along).broadcast_to(part.dims()).expect("a new size of one");
            let from = view.with_layout(repeated).expect("the same elements");
            copy(memory.parallel, memory.out(&out.with_layout(*part)), from);
        }
        Ok(())
    })
}

/// The output with a dimension for the repeats after `dim`. Where there is no room for one more dimension, a layout for each
/// index of the smallest other dimension, with that dimension and index.
fn split_repeats(
    out: Layout,
    dim: usize,
    size: usize,
    times: usize,
) -> Vec<(Layout, Option<(usize, usize)>)> {
    let split = |out: Layout, dim: usize| {
        let (mut dims, mut strides) = (Dims::new(out.dims()), Strides::new(out.strides()));
        let stride = strides[dim];
        dims[dim] = size;
        strides[dim] = stride * times as isize;
        dims.insert(dim + 1, times);
        strides.insert(dim + 1, stride);
        Layout::strided(out.dtype, &dims, &strides, out.offset)
    };
    if out.rank() < MAX_DIMS {
        return vec![(split(out, dim), None)];
    }
    let others = (0..out.rank()).filter(|other| *other != dim);
    let other = others.min_by_key(|other| out.dims()[*other]).expect("more than one dimension");
    let dim = if other < dim { dim - 1 } else { dim };
    (0..out.dims()[other])
        .map(|index| (split(out.at(other, index), dim), Some((other, index))))
        .collect()
}

/// Each slice as often as a tensor says. Arguments: a, how often, dimension (all elements when absent), out.
fn repeat_interleave(call: &mut Call<'_>) -> Result<Plan> {
    let out = call.output(3)?;
    let (a, mut dims, dim) = slices(call, &out)?;
    a.touch_by_index(call);
    let repeats = call.read_index(1, &[&out])?.at_least_1d();
    let size = dims[dim];
    expect_count(call, &repeats, size)?;
    dims[dim] = out.dims().get(dim).copied().unwrap_or(0);
    call.expect_dims(3, &out, &dims)?;
    let index = call.scratch(DType::Int64, &[dims[dim]]);
    let name = call.parameter(1);
    call.plan(move |memory| {
        let index = memory.scratch(&index);
        repeat_indices(index, repeats.view(memory), size)
            .map_err(|sum| size_fault(name, sum, index.count()))?;
        let source = IndexedView::chosen(a.view(memory), dim, index.view(), false);
        gather(memory.parallel, memory.out(&out), &source, index.view())
            .map_err(|bad| super::inputs::out_of_range(name, bad))
    })
}

/// Fails unless there is one number of repeats, or one for each slice.
fn expect_count(call: &Call<'_>, repeats: &UnaliasedInput, size: usize) -> Result<()> {
    if repeats.rank() == 1 && (repeats.dims()[0] == size || repeats.dims()[0] == 1) {
        return Ok(());
    }
    let (name, have) = (call.parameter(1), repeats.dims());
    Err(Error::invalid(format!("{name} has the sizes {have:?}: expected [{size}]")))
}

/// The fault of repeats that are negative, or do not sum to the output's size.
fn size_fault(name: &str, sum: i64, size: usize) -> Fault {
    match sum < 0 {
        true => Fault(format!("{name} has the negative number {sum}")),
        false => Fault(format!("{name} makes {sum} in all, the output has room for {size}")),
    }
}

/// The indices of a dimension, each as often as a tensor says. Arguments: -, how often, -, out.
fn repeat_interleave_indices(call: &mut Call<'_>) -> Result<Plan> {
    let out = call.output(3)?;
    let repeats = call.read_index(1, &[&out])?.at_least_1d();
    let size = repeats.dims().first().copied().unwrap_or(0);
    expect_count(call, &repeats, size)?;
    call.expect_index_output(3, &out)?;
    let index = call.scratch(DType::Int64, out.dims());
    let name = call.parameter(1);
    call.plan(move |memory| {
        let index = memory.scratch(&index);
        repeat_indices(index, repeats.view(memory), size)
            .map_err(|sum| size_fault(name, sum, index.count()))?;
        copy(memory.parallel, memory.out(&out), index.view());
        Ok(())
    })
}

/// The gradient: the sum over the copies of each slice. The output may have any sizes with as many elements. Arguments:
/// gradient, how often, dimension, out.
fn repeat_interleave_backward(call: &mut Call<'_>) -> Result<Plan> {
    let out = call.output(3)?;
    let a = call.read(0, &[&out])?.at_least_1d();
    call.expect_dtype(0, &a, &[DType::Float, DType::Float16, DType::Bf16])?;
    call.expect_same(3, &out, 0, &a)?;
    let repeats = call.read_index(1, &[&out])?.at_least_1d();
    let dim = call.dim(2, a.rank())?;
    let sizes = |from: &[usize]| from.iter().product::<usize>();
    let (before, size, after) =
        (sizes(&a.dims()[..dim]), a.dims()[dim], sizes(&a.dims()[dim + 1..]));
    let positions = match repeats.dims() {
        [1] => out.count().checked_div(before * after).unwrap_or(0),
        _ => repeats.count(),
    };
    expect_count(call, &repeats, positions)?;
    if out.count() != before * positions * after {
        let (name, dims, have) = (call.parameter(3), out.dims(), out.count());
        return Err(Error::invalid(format!(
            "{name} {dims:?} has {have} elements: expected {before} times {positions} times {after}"
        )));
    }
    let flat_grad = call.flat_input(a);
    let out = call.reshaped_output(out, &[before, positions, after]);
    let index = call.scratch(DType::Int64, &[size]);
    let name = call.parameter(1);
    call.plan(move |memory| {
        let index = memory.scratch(&index);
        repeat_indices(index, repeats.view(memory), positions)
            .map_err(|sum| size_fault(name, sum, size))?;
        let view = flat_grad.view(memory);
        let flat = view.layout().reshaped(&[before, size, after]).expect("one dimension");
        let from = view.with_layout(flat).expect("the same elements");
        let to = out.out(memory);
        sum_runs(memory.parallel, to, from, index.view());
        out.write_back(memory);
        Ok(())
    })
}

/// The rows of this family.
pub const ROWS: &[Row] = &[
    aclnn("RepeatInterleaveInt", repeat_interleave_int).with_args(&[A(0), A(1), No, A(3)]),
    aclnn("RepeatInterleaveIntWithDim", repeat_interleave_int).with_args(&[A(0), A(1), A(2), A(4)]),
    aclnn("RepeatInterleave", repeat_interleave).with_args(&[A(0), A(1), No, A(3)]),
    aclnn("RepeatInterleaveWithDim", repeat_interleave).with_args(&[A(0), A(1), A(2), A(4)]),
    aclnn("RepeatInterleaveTensor", repeat_interleave_indices).with_args(&[No, A(0), No, A(2)]),
    aclnn("RepeatInterleaveGrad", repeat_interleave_backward),
];
