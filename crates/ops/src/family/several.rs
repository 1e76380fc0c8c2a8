//! Functions of several tensors at once, diagonals, products of vectors, and waiting.

use super::elementwise::Typed;
use super::formula::{Formula, promote_all, real, test};
use super::reduction_plan::{Axes, single_result};
use crate::argument::Arg;
use crate::call::Call;
use crate::error::{Error, Result};
use crate::infer::Infer;
use crate::plan::{Operand, Plan};
use crate::table::ArgSource::{A, Attr, O};
use crate::table::{ArgSource, AttrDefault, Node, Row, aclnn, node};
use cairn_tensor::kernels::copy::copy;
use cairn_tensor::kernels::element::{Compute, Element};
use cairn_tensor::kernels::fold;
use cairn_tensor::kernels::map::{fill_scalar, map2, map3};
use cairn_tensor::kernels::math::{self, Real};
use cairn_tensor::kernels::number::Number;
use cairn_tensor::{DType, Dims, Layout, Scalar, View, broadcast, with_number};
use std::time::{Duration, Instant};

const LOG_GAMMA: Formula<1> = real!(|x| C::of(math::log_gamma(x.to_f64())));
const DIGAMMA: Formula<1> = real!(|x| C::of(math::digamma(x.to_f64())));
const SAME_NUMBER: Formula<2> = test!(|x, y; inverts = 0.0| (x == y) == (inverts == C::ZERO));

/// How several tensors are combined, element by element.
#[derive(Clone, Copy)]
enum Combination {
    Sum,
    Max,
    Min,
}

/// Arguments: a list, out.
fn combine(call: &mut Call<'_>, combination: Combination) -> Result<Plan> {
    let (list, out) = (call.tensors(0)?, call.output(1)?);
    let Some(dtype) = promote_all(list.iter().map(|one| one.dtype)) else {
        let name = call.parameter(0);
        return Err(Error::invalid(format!("{name} has no tensors, or some of no numbers")));
    };
    let mut dims = cairn_tensor::Dims::default();
    for one in &list {
        call.expect_arithmetic(0, one.dtype)?;
        dims = broadcast(&dims, one.dims()).ok_or_else(|| {
            let (name, have) = (call.parameter(0), one.dims());
            Error::invalid(format!("{name} has a tensor of the sizes {have:?}, which does not broadcast with the others"))
        })?;
    }
    call.expect_dims(1, &out, &dims)?;
    call.expect_arithmetic(1, out.dtype)?;
    call.expect_castable(1, dtype, &out)?;
    let scratch = with_number!(dtype, C => call.scratch(C::DTYPE, &dims));
    call.plan(move |memory| {
        let scratch = memory.scratch(&scratch);
        let expand = |one: &Operand| -> View<'_> {
            memory.view_with_layout(one, one.broadcast_to(&dims).expect("sizes were checked"))
        };
        with_number!(dtype, C => {
            for (at, one) in list.iter().enumerate() {
                let view = expand(one);
                if at == 0 {
                    copy(memory.parallel, scratch, view);
                    continue;
                }
                match combination {
                    Combination::Sum => map2(memory.parallel, scratch, scratch.view(), view, |a: C, b: C| a.add(b)),
                    Combination::Max => map2(memory.parallel, scratch, scratch.view(), view, |a: C, b: C| a.greatest(b)),
                    Combination::Min => map2(memory.parallel, scratch, scratch.view(), view, |a: C, b: C| a.least(b)),
                }
            }
        });
        copy(memory.parallel, memory.out(&out), scratch.view());
        Ok(())
    })
}

/// The diagonal of a matrix that lies `diagonal_offset` above the main one; empty where it has none.
fn diagonal(layout: &Layout, diagonal_offset: i64) -> Layout {
    let [rows, columns] = [layout.dims()[0] as i64, layout.dims()[1] as i64];
    let (down, right) = (diagonal_offset.saturating_neg().max(0), diagonal_offset.max(0));
    let count = (rows - down).min(columns - right).max(0) as usize;
    let [by_row, by_column] = [layout.strides()[0], layout.strides()[1]];
    let offset = match count {
        0 => layout.offset,
        _ => layout.offset + down as isize * by_row + right as isize * by_column,
    };
    Layout::strided(layout.dtype, &[count], &[by_row + by_column], offset)
}

/// Arguments: matrix, out.
fn trace(call: &mut Call<'_>) -> Result<Plan> {
    let (x, out) = (call.tensor(0)?, call.output(1)?);
    call.expect_complex_arithmetic(0, x.dtype)?;
    call.expect_complex_arithmetic(1, out.dtype)?;
    call.expect_castable(1, x.dtype, &out)?;
    if x.rank() != 2 || out.count() != 1 {
        let (name, dims, to) = (call.parameter(0), x.dims(), out.dims());
        return Err(Error::invalid(format!(
            "{name} {dims:?} is no matrix, or its sum does not fit {to:?}"
        )));
    }
    let main_diagonal = x.with_layout(diagonal(&x, 0));
    let out = out.with_layout(out.reshaped(&[]).unwrap_or(*out.layout()));
    if x.dtype.is_complex() {
        call.expect_same(1, &out, 0, &x)?;
        let (main_diagonal, out) =
            (call.view_as_real(0, main_diagonal)?, call.view_as_real(1, out)?);
        let axes = Axes::new(&[true, false]);
        return with_number!(out.dtype, C => {
            call.fold(main_diagonal, &axes, (out, None), fold::sum::<C>(), single_result)
        });
    }
    with_number!(out.dtype, C => {
        call.fold(main_diagonal, &Axes::new(&[true]), (out, None), fold::sum::<C>(), single_result)
    })
}

/// A vector as the diagonal of a matrix, or the diagonal of a matrix as a vector; with `flattens`, a tensor of any sizes counts
/// as the vector of its elements. Arguments: x, which diagonal, out.
fn diagonals(call: &mut Call<'_>, flattens: bool) -> Result<Plan> {
    let (diagonal_offset, out) = (call.int(1)?, call.output(2)?);
    let x = call.read(0, &[&out])?;
    call.expect_same(2, &out, 0, &x)?;
    if !flattens && x.rank() == 2 {
        let from = x.with_layout(diagonal(&x, diagonal_offset));
        call.expect_dims(2, &out, from.dims())?;
        return call.plan(move |memory| {
            copy(memory.parallel, memory.out(&out), from.view(memory));
            Ok(())
        });
    }
    if !flattens && x.rank() != 1 {
        let (name, dims) = (call.parameter(0), x.dims());
        return Err(Error::invalid(format!(
            "{name} has the sizes {dims:?}: expected 1 or 2 dimensions"
        )));
    }
    let side = usize::try_from(diagonal_offset.unsigned_abs())
        .ok()
        .and_then(|offset| offset.checked_add(x.count()));
    let side = side.unwrap_or(usize::MAX);
    call.expect_dims(2, &out, &[side, side])?;
    let to = out.with_layout(diagonal(&out, diagonal_offset));
    let flat_x = call.flat_input(x);
    call.plan(move |memory| {
        fill_scalar(memory.parallel, memory.out(&out), Scalar::from(0));
        copy(memory.parallel, memory.out(&to), flat_x.view(memory));
        Ok(())
    })
}

/// Arguments: x, y, dimension, out.
fn cross(call: &mut Call<'_>) -> Result<Plan> {
    let out = call.output(3)?;
    let (x, y) = (call.read(0, &[&out])?, call.read(1, &[&out])?);
    for (at, one) in [(0, *x), (1, *y), (3, *out.layout())] {
        call.expect_arithmetic(at, one.dtype)?;
    }
    let dims = broadcast(x.dims(), y.dims()).unwrap_or_default();
    let dim = call.dim(2, dims.len())?;
    if dims.get(dim) != Some(&3) || x.rank() != y.rank() {
        let (a, b, x, y) = (call.parameter(0), call.parameter(1), x.dims(), y.dims());
        return Err(Error::invalid(format!(
            "{a} {x:?} and {b} {y:?} have no three elements along dimension {dim}"
        )));
    }
    call.expect_dims(3, &out, &dims)?;
    let dtype = promote_all([x.dtype, y.dtype]).unwrap_or(out.dtype);
    call.expect_castable(3, dtype, &out)?;
    let (x, y) = (
        x.with_layout(x.broadcast_to(&dims).expect("as above")),
        y.with_layout(y.broadcast_to(&dims).expect("as above")),
    );
    let slice = out.layout().at(dim, 0);
    let scratch = with_number!(dtype, C => call.scratch(C::DTYPE, slice.dims()));
    call.plan(move |memory| {
        let (x, y, out, scratch) = (x.view(memory), y.view(memory), memory.out(&out), memory.scratch(&scratch));
        let part = |view: &View<'_>, at: usize| view.layout().at(dim, at % 3);
        with_number!(dtype, C => {
            for at in 0..3 {
                let [x1, x2] = [1, 2].map(|step| x.with_layout(part(&x, at + step)).expect("a part of it"));
                let [y1, y2] = [1, 2].map(|step| y.with_layout(part(&y, at + step)).expect("a part of it"));
                map2(memory.parallel, scratch, x1, y2, |a: C, b: C| a.mul(b));
                let slice_out = out.with_layout(out.layout().at(dim, at)).expect("a part of it");
                map3(memory.parallel, slice_out, scratch.view(), x2, y1, |p: C, a: C, b: C| p.sub(a.mul(b)));
            }
        });
        Ok(())
    })
}

/// Whether a number is among the elements of a tensor. Arguments: number, tensor, -, whether the result is inverted, out.
fn is_in(call: &mut Call<'_>) -> Result<Plan> {
    let (number, inverts) = (call.scalar(0)?, call.flag(3)?);
    let (elements, out) = (call.tensor(1)?, call.output(4)?);
    call.expect_arithmetic(1, elements.dtype)?;
    call.expect_dtype(4, &out, &[DType::Bool])?;
    if out.count() != 1 {
        let (name, dims) = (call.parameter(4), out.dims());
        return Err(Error::invalid(format!("{name} has the sizes {dims:?}: expected one element")));
    }
    let dtype = call.promoted(Typed::Tensor(elements.dtype), Typed::Scalar(number))?;
    let matches = call.scratch(DType::Bool, elements.dims());
    let axes = Axes::filled(elements.rank(), true);
    let reduction_plan = call.plan_reduction(&matches, &axes, &fold::sum::<i64>());
    let out = out.with_layout(out.reshaped(&[]).unwrap_or(*out.layout()));
    call.plan(move |memory| {
        let matches = memory.scratch(&matches);
        with_number!(dtype, C => {
            let number = C::from_scalar(number);
            cairn_tensor::kernels::map::map1(memory.parallel, matches, memory.view(&elements), move |x: C| x == number);
        });
        let finalize = |count: i64| ((count > 0) != inverts, false);
        reduction_plan.run(memory, matches.view(), fold::sum::<i64>(), (memory.out(&out), None), finalize);
        Ok(())
    })
}

/// Reshaped, then transposed; or the other way round. Arguments: x, order, sizes, whether it is transposed first, out.
fn confusion_transpose(call: &mut Call<'_>) -> Result<Plan> {
    let (out, x) = (call.output(4)?, call.tensor(0)?);
    call.expect_same(4, &out, 0, &x)?;
    let (order, sizes, first) = (call.ints(1)?, call.sizes(2)?, call.flag(3)?);
    let rank = if first { x.rank() } else { sizes.len() };
    let mut axes = Vec::new();
    for dim in &order {
        axes.push(call.wrap(1, *dim, rank)?);
    }
    let mut sorted = axes.clone();
    sorted.sort_unstable();
    if sorted != (0..rank).collect::<Vec<_>>() {
        let name = call.parameter(1);
        return Err(Error::invalid(format!("{name} = {order:?} is no order of {rank} dimensions")));
    }
    if sizes.iter().product::<usize>() != x.count() {
        let (name, have, count) = (call.parameter(2), sizes, x.count());
        return Err(Error::invalid(format!("{name} = {have:?} has other elements than {count}")));
    }
    if first {
        let permuted = x.with_layout(x.permuted(&axes));
        call.expect_dims(4, &out, &sizes)?;
        let dims = permuted.dims().to_vec();
        let x = call.unaliased(permuted, &[&out]);
        let reshaped_out = call.reshaped_output(out, &dims);
        return call.plan(move |memory| {
            copy(memory.parallel, reshaped_out.out(memory), x.view(memory));
            reshaped_out.write_back(memory);
            Ok(())
        });
    }
    let permuted: Vec<usize> = axes.iter().map(|at| sizes[*at]).collect();
    call.expect_dims(4, &out, &permuted)?;
    let x = call.reshaped_input(x, &sizes, &[&out]);
    call.plan(move |memory| {
        let view = x.view(memory);
        let view = view.with_layout(view.layout().permuted(&axes)).expect("the same elements");
        copy(memory.parallel, memory.out(&out), view);
        Ok(())
    })
}

/// All elements as a matrix. Arguments: x, the first dimension of its columns, out.
fn flatten(call: &mut Call<'_>) -> Result<Plan> {
    let (out, x) = (call.output(2)?, call.read(0, &[])?);
    call.expect_same(2, &out, 0, &x)?;
    let expected = flattened_sizes(call, &x)?;
    call.expect_dims(2, &out, &expected)?;
    let dims = x.dims().to_vec();
    let x = call.tensor(0)?;
    let x = call.unaliased(x, &[&out]);
    let reshaped_out = call.reshaped_output(out, &dims);
    call.plan(move |memory| {
        copy(memory.parallel, reshaped_out.out(memory), x.view(memory));
        reshaped_out.write_back(memory);
        Ok(())
    })
}

/// The two sizes of a tensor that is split at the dimension of argument 1.
fn flattened_sizes(call: &Call<'_>, x: &Layout) -> Result<[usize; 2]> {
    let axis = call.int(1)?;
    let rank = x.rank() as i64;
    if axis < -rank || axis > rank {
        let name = call.parameter(1);
        return Err(Error::invalid(format!("{name} = {axis} is outside {} to {rank}", -rank)));
    }
    let (before, after) = x.dims().split_at(if axis < 0 { axis + rank } else { axis } as usize);
    let product =
        |sizes: &[usize]| sizes.iter().fold(1, |all: usize, size| all.saturating_mul(*size));
    Ok([product(before), product(after)])
}

fn flattened_output(call: &Call<'_>) -> Result<Vec<Layout>> {
    let x = call.layout(0)?;
    Ok(vec![Layout::contiguous(x.dtype, &flattened_sizes(call, &x)?)])
}

/// Waits. Arguments: a list with one number of cycles, of a nanosecond each.
fn wait(call: &mut Call<'_>) -> Result<Plan> {
    let cycles = call.ints(0)?;
    let [count] = cycles[..] else {
        let name = call.parameter(0);
        return Err(Error::invalid(format!("{name} = {cycles:?}: expected one number")));
    };
    if count < 0 {
        let name = call.parameter(0);
        return Err(Error::invalid(format!("{name} = {count} is negative")));
    }
    call.plan(move |_| {
        let start = Instant::now();
        let duration = Duration::from_nanos(count as u64);
        while start.elapsed() < duration {
            std::thread::sleep((duration - start.elapsed()).min(Duration::from_millis(1)));
        }
        Ok(())
    })
}

/// The rows of this family.
pub const ROWS: &[Row] = &[
    aclnn("AddN", |c| combine(c, Combination::Sum)),
    aclnn("Sum", |c| combine(c, Combination::Sum)),
    aclnn("MaxN", |c| combine(c, Combination::Max)),
    aclnn("MinN", |c| combine(c, Combination::Min)),
    aclnn("Trace", trace),
    aclnn("Diag", |c| diagonals(c, false)),
    aclnn("DiagFlat", |c| diagonals(c, true)),
    aclnn("LinalgCross", cross),
    aclnn("IsInScalarTensor", is_in),
    aclnn("IsInTensorScalar", |c| SAME_NUMBER.plan(c)).with_args(&[A(0), A(1), A(3), A(4)]),
    aclnn("ConfusionTranspose", confusion_transpose),
    aclnn("Flatten", flatten),
    aclnn("Lgamma", |c| LOG_GAMMA.plan(c)),
    aclnn("Digamma", |c| DIGAMMA.plan(c)),
    aclnn("Sleep", wait),
];

/// A tensor as the diagonal of one with twice its dimensions. Arguments: x, which diagonal (of a vector), out.
fn spread_on_diagonal(call: &mut Call<'_>) -> Result<Plan> {
    let x = call.layout(0)?;
    if x.rank() == 1 {
        return diagonals(call, false);
    }
    expect_main_diagonal(call)?;
    let (out, count) = (call.output(2)?, x.count());
    let x = call.read(0, &[&out])?;
    call.expect_same(2, &out, 0, &x)?;
    call.expect_dims(2, &out, &twice(call, &x)?)?;
    let (line, to) = (call.flat_input(x), call.reshaped_output(out, &[count, count]));
    call.plan(move |memory| {
        let out = to.out(memory);
        fill_scalar(memory.parallel, out, Scalar::from(0));
        let line_of_out = out.with_layout(diagonal(out.layout(), 0)).expect("a part of it");
        copy(memory.parallel, line_of_out, line.view(memory));
        to.write_back(memory);
        Ok(())
    })
}

/// The reverse of [`spread_on_diagonal`]. Arguments: x, which diagonal (of a matrix), out.
fn take_diagonal(call: &mut Call<'_>) -> Result<Plan> {
    let x = call.layout(0)?;
    if x.rank() == 2 {
        return diagonals(call, false);
    }
    expect_main_diagonal(call)?;
    let half = halved(call, &x)?;
    let (out, x, count) = (call.output(2)?, call.tensor(0)?, half.iter().product());
    call.expect_same(2, &out, 0, &x)?;
    call.expect_dims(2, &out, &half)?;
    let x = call.reshaped_input(x, &[count, count], &[&out]);
    let to = call.reshaped_output(out, &[count]);
    call.plan(move |memory| {
        let x = x.view(memory);
        let line = x.with_layout(diagonal(x.layout(), 0)).expect("a part of it");
        copy(memory.parallel, to.out(memory), line);
        to.write_back(memory);
        Ok(())
    })
}

/// Fails for another diagonal than the main one, which only matrices have.
fn expect_main_diagonal(call: &Call<'_>) -> Result<()> {
    match call.int(1)? {
        0 => Ok(()),
        other => {
            let (name, dims) = (call.parameter(1), call.layout(0)?);
            Err(Error::invalid(format!("{name} = {other}: {dims} has only a main diagonal")))
        }
    }
}

/// The sizes, and once more the sizes.
fn twice(call: &Call<'_>, x: &Layout) -> Result<Dims> {
    let dims: Vec<usize> = x.dims().iter().chain(x.dims()).copied().collect();
    Dims::try_new(&dims).filter(|_| x.rank() > 0).ok_or_else(|| {
        let (name, have) = (call.parameter(0), x.dims());
        Error::invalid(format!("{name} {have:?}: expected one to four dimensions"))
    })
}

/// The first half of sizes of which the second half is the same.
fn halved(call: &Call<'_>, x: &Layout) -> Result<Dims> {
    let (first, second) = x.dims().split_at(x.rank() / 2);
    if x.rank() > 0 && first == second {
        return Ok(Dims::new(first));
    }
    let (name, have) = (call.parameter(0), x.dims());
    Err(Error::invalid(format!(
        "{name} {have:?}: expected sizes whose second half repeats the first"
    )))
}

fn infer_spread(call: &Call<'_>) -> Result<Vec<Layout>> {
    let x = call.layout(0)?;
    let more = usize::try_from(call.int(1)?.unsigned_abs()).unwrap_or(usize::MAX);
    let dims = match x.dims() {
        &[count] => Dims::new(&[count.saturating_add(more); 2]),
        _ => twice(call, &x)?,
    };
    Ok(vec![Layout::contiguous(x.dtype, &dims)])
}

fn infer_diagonal(call: &Call<'_>) -> Result<Vec<Layout>> {
    let x = call.layout(0)?;
    match x.rank() {
        2 => Ok(vec![diagonal(&x, call.int(1)?).packed()]),
        _ => Ok(vec![Layout::contiguous(x.dtype, &halved(call, &x)?)]),
    }
}

fn infer_trace(call: &Call<'_>) -> Result<Vec<Layout>> {
    let dtype = call.layout(0)?.dtype;
    let whole = !dtype.is_floating() && !dtype.is_complex();
    Ok(vec![Layout::contiguous(if whole { DType::Int64 } else { dtype }, &[])])
}

/// As [`cross`], where -65530 stands for the first dimension with three elements.
fn cross_of_any(call: &mut Call<'_>) -> Result<Plan> {
    if call.int(2)? == -65530 {
        let x = call.layout(0)?;
        let first = x.dims().iter().position(|size| *size == 3).unwrap_or(0);
        call.replace(2, Arg::Int(first as i64));
    }
    cross(call)
}

fn infer_confused(call: &Call<'_>) -> Result<Vec<Layout>> {
    let (x, sizes) = (call.layout(0)?, call.sizes(2)?);
    if call.flag(3)? {
        return Ok(vec![Layout::contiguous(x.dtype, &sizes)]);
    }
    let mut dims = Dims::default();
    for axis in call.ints(1)?.into_iter().take(sizes.len()) {
        dims.push(sizes[call.wrap(1, axis, sizes.len())?]);
    }
    Ok(vec![Layout::contiguous(x.dtype, &dims)])
}

const DIAGONAL: ArgSource = Attr("diagonal", AttrDefault::Int(0));

/// The operators of this family by IR name.
pub const NODES: &[Node] = &[
    node(
        "ConfusionTransposeD",
        &["x"],
        &["y"],
        Infer::By(infer_confused),
        confusion_transpose,
        &[
            A(0),
            Attr("perm", AttrDefault::Required),
            Attr("shape", AttrDefault::Required),
            Attr("transpose_first", AttrDefault::Required),
            O(0),
        ],
    ),
    node(
        "Flatten",
        &["x"],
        &["y"],
        Infer::By(flattened_output),
        flatten,
        &[A(0), Attr("axis", AttrDefault::Int(1)), O(0)],
    )
    .view(),
    node("Trace", &["x"], &["y"], Infer::By(infer_trace), trace, &[A(0), O(0)]),
    node(
        "Diag",
        &["x"],
        &["y"],
        Infer::By(infer_spread),
        spread_on_diagonal,
        &[A(0), DIAGONAL, O(0)],
    ),
    node(
        "DiagPart",
        &["x"],
        &["y"],
        Infer::By(infer_diagonal),
        take_diagonal,
        &[A(0), DIAGONAL, O(0)],
    ),
    node(
        "Cross",
        &["x1", "x2"],
        &["y"],
        Infer::Broadcast(0, 1),
        cross_of_any,
        &[A(0), A(1), Attr("dim", AttrDefault::Int(-65530)), O(0)],
    ),
];
