//! Tensors made of numbers: sequences, diagonals, triangles, one-hot codes.

use super::inputs::out_of_range;
use crate::argument::Arg;
use crate::call::Call;
use crate::error::{Error, Result};
use crate::infer::Infer;
use crate::plan::{Operand, Plan};
use crate::table::ArgSource::{A, Attr, B, I, O};
use crate::table::{AttrDefault, Node, Row, aclnn, node};
use cairn_tensor::kernels::copy::copy;
use cairn_tensor::kernels::indexed::IndexedView;
use cairn_tensor::kernels::map::fill_scalar;
use cairn_tensor::kernels::scatter::{ScatterMode, scatter};
use cairn_tensor::kernels::sequence::{diagonal, generate, triangle};
use cairn_tensor::{Layout, Scalar};

/// An output in one dimension.
fn flat_output(call: &Call<'_>, at: usize, out: Operand) -> Result<Operand> {
    match out.reshaped(&[out.count()]) {
        Some(flat) => Ok(out.with_layout(flat)),
        None => {
            let (name, dims) = (call.parameter(at), out.dims());
            Err(Error::invalid(format!("{name} {dims:?} must have one dimension")))
        }
    }
}

/// Numbers from a start to an end in steps; `closed` says that the end is one of them.
#[derive(Clone, Copy)]
struct Sequence {
    start: Scalar,
    end: Scalar,
    step: Scalar,
    closed: bool,
}

impl Sequence {
    /// Arguments: start, end, step.
    fn read(call: &Call<'_>, closed: bool) -> Result<Sequence> {
        let (start, end, step) = (call.number(0)?, call.number(1)?, call.number(2)?);
        let finite = [start, end, step].iter().all(|one| one.as_f64().is_finite());
        if !finite || step.as_f64() == 0.0 {
            let (from, to, step) = (start.as_f64(), end.as_f64(), step.as_f64());
            return Err(Error::invalid(format!(
                "no numbers from {from} to {to} in steps of {step}"
            )));
        }
        Ok(Sequence { start, end, step, closed })
    }

    fn is_integer(&self) -> bool {
        let real = |one: &Scalar| matches!(one, Scalar::Float(..));
        ![self.start, self.end, self.step].iter().any(real)
    }

    /// How many there are: exact for 64-bit integers.
    fn count(&self) -> usize {
        if self.is_integer() {
            let [start, end, step] =
                [self.start, self.end, self.step].map(|one| i128::from(one.as_i64()));
            let distance = (end - start) * step.signum();
            let size = step.abs();
            let count = match self.closed {
                true => distance.div_euclid(size) + 1,
                false => (distance + size - 1).div_euclid(size),
            };
            return usize::try_from(count.max(0)).unwrap_or(usize::MAX);
        }
        let length = (self.end.as_f64() - self.start.as_f64()) / self.step.as_f64();
        let count = if self.closed { length.floor() + 1.0 } else { length.ceil() };
        count.max(0.0) as usize
    }
}

/// `out[i] = start + i * step`. Arguments: start, end, step, out, whether the end belongs to it.
fn arange(call: &mut Call<'_>) -> Result<Plan> {
    let sequence = Sequence::read(call, call.flag(4)?)?;
    let out = call.output(3)?;
    call.expect_numbers(3, &out)?;
    let out = flat_output(call, 3, out)?;
    let (have, want) = (out.count(), sequence.count());
    if have.abs_diff(want) > 1 {
        let name = call.parameter(3);
        let (from, to, step) =
            (sequence.start.as_f64(), sequence.end.as_f64(), sequence.step.as_f64());
        return Err(Error::invalid(format!(
            "{name} has {have} elements; from {from} to {to} in steps of {step} there are {want}"
        )));
    }
    let Sequence { start, step, .. } = sequence;
    call.plan(move |memory| {
        let target = memory.out(&out);
        if out.dtype.is_floating() && !sequence.is_integer() {
            let (start, step) = (start.as_f64(), step.as_f64());
            generate(memory.parallel, target, |at| start + step * at as f64);
        } else {
            let (start, step) = (start.as_i64(), step.as_i64());
            generate(memory.parallel, target, |at| {
                start.wrapping_add(step.wrapping_mul(at as i64))
            });
        }
        Ok(())
    })
}

fn arange_output(call: &Call<'_>) -> Result<Vec<Layout>> {
    let sequence = Sequence::read(call, false)?;
    Ok(vec![Layout::contiguous(sequence.start.dtype(), &[sequence.count()])])
}

/// `out` runs evenly from start to end. Arguments: start, end, steps, out.
fn linspace(call: &mut Call<'_>) -> Result<Plan> {
    plan_spaced(call, None)
}

/// Powers of a base, whose exponents are spaced. Arguments: first, last, count, out, base.
fn logspace(call: &mut Call<'_>) -> Result<Plan> {
    let base = call.float(4)?;
    plan_spaced(call, Some(base))
}

/// Numbers at equal distances, or with a base its powers. Arguments: first, last, count, out.
fn plan_spaced(call: &mut Call<'_>, base: Option<f64>) -> Result<Plan> {
    let (start, end, steps) = (call.number(0)?.as_f64(), call.number(1)?.as_f64(), call.number(2)?);
    let out = call.output(3)?;
    call.expect_numbers(3, &out)?;
    let (out, steps) = (flat_output(call, 3, out)?, steps.as_i64());
    if steps != out.count() as i64 {
        let (name, have, want) = (call.parameter(3), out.count(), call.parameter(2));
        return Err(Error::invalid(format!("{name} has {have} elements, {want} = {steps}")));
    }
    let count = out.count();
    let step = if count > 1 { (end - start) / (count - 1) as f64 } else { 0.0 };
    call.plan(move |memory| {
        generate(memory.parallel, memory.out(&out), |at| {
            let value = match at < count / 2 || count == 1 {
                true => start + step * at as f64,
                false => end - step * (count - 1 - at) as f64,
            };
            base.map_or(value, |base| base.powf(value))
        });
        Ok(())
    })
}

fn linspace_output(call: &Call<'_>) -> Result<Vec<Layout>> {
    let count = call.number(2)?.as_i64().max(0) as usize;
    let dtype = call.number(0)?.dtype();
    let dtype = if dtype.is_floating() { dtype } else { cairn_tensor::DType::Float };
    Ok(vec![Layout::contiguous(dtype, &[count])])
}

/// Ones on the diagonal, else 0. Arguments: rows, columns, out.
fn eye(call: &mut Call<'_>) -> Result<Plan> {
    let (rows, columns, out) = (call.int(0)?, call.int(1)?, call.output(2)?);
    call.expect_numbers(2, &out)?;
    if out.rank() != 2 || out.dims()[0] as i64 != rows || out.dims()[1] as i64 != columns {
        let (name, dims) = (call.parameter(2), out.dims());
        return Err(Error::invalid(format!(
            "{name} has the sizes {dims:?}: expected [{rows}, {columns}]"
        )));
    }
    let ones = out.with_layout(diagonal(&out, 0));
    call.plan(move |memory| {
        fill_scalar(memory.parallel, memory.out(&out), Scalar::Bool(false));
        fill_scalar(memory.parallel, memory.out(&ones), Scalar::Bool(true));
        Ok(())
    })
}

/// As [`eye`]; no columns are as many as there are rows. Arguments: rows, columns, out, sizes of batches (of which there are none),
/// type.
fn eye_by_name(call: &mut Call<'_>) -> Result<Plan> {
    let batches = call.ints(3)?;
    if !batches.is_empty() {
        let name = call.parameter(3);
        return Err(Error::invalid(format!("{name} = {batches:?} is not supported")));
    }
    if call.int(1)? == 0 {
        call.replace(1, Arg::Int(call.int(0)?));
    }
    eye(call)
}

fn eye_output(call: &Call<'_>) -> Result<Vec<Layout>> {
    let (rows, columns) = (call.int(0)?, call.int(1)?);
    let columns = if columns == 0 { rows } else { columns };
    let dims = [rows, columns].map(|size| size.max(0) as usize);
    Ok(vec![Layout::contiguous(call.dtype(4)?, &dims)])
}

fn logspace_output(call: &Call<'_>) -> Result<Vec<Layout>> {
    let count = call.int(2)?.max(0) as usize;
    Ok(vec![Layout::contiguous(call.layout(6)?.dtype, &[count])])
}

/// The same number along the diagonal. Arguments: tensor, value, whether the diagonal of a tall matrix begins again below
/// each square.
fn fill_diagonal(call: &mut Call<'_>) -> Result<Plan> {
    let (out, value, wrap) = (call.inout(0)?, call.scalar(1)?, call.flag(2)?);
    call.expect_numbers(0, &out)?;
    let (rank, dims) = (out.rank(), out.dims());
    if rank < 2 || (rank > 2 && dims.iter().any(|size| *size != dims[0])) {
        let name = call.parameter(0);
        return Err(Error::invalid(format!(
            "{name} {dims:?} has no diagonal: expected two dimensions, or all of one size"
        )));
    }
    let (row_stride, size) = (out.strides()[0], *dims.iter().min().expect("two sizes"));
    let diagonal_stride: isize = out.strides().iter().sum();
    let mut diagonals =
        vec![out.with_layout(Layout::strided(out.dtype, &[size], &[diagonal_stride], out.offset))];
    if wrap && rank == 2 && dims[1] > 0 {
        let period = dims[1] + 1;
        for first_row in (period..dims[0]).step_by(period) {
            let (length, offset) =
                ((dims[0] - first_row).min(dims[1]), first_row as isize * row_stride);
            let diagonal =
                Layout::strided(out.dtype, &[length], &[diagonal_stride], out.offset + offset);
            diagonals.push(out.with_layout(diagonal));
        }
    }
    match &diagonals[..] {
        [diagonal] => call.touches_only(&out, diagonal.layout()),
        _ => call.touch_by_index(&out),
    }
    call.plan(move |memory| {
        for diagonal in &diagonals {
            fill_scalar(memory.parallel, memory.out(diagonal), value);
        }
        Ok(())
    })
}

/// The triangle on one side of a diagonal, 0 on the other. Arguments: a, diagonal, out, whether it is the lower side.
fn triangular(call: &mut Call<'_>) -> Result<Plan> {
    let (a, out) = (call.tensor(0)?, call.output(2)?);
    let (offset, lower) = (call.int(1)?, call.flag(3)?);
    call.expect_dims(2, &out, a.dims())?;
    call.expect_same(2, &out, 0, &a)?;
    if a.rank() < 2 {
        let (name, dims) = (call.parameter(0), a.dims());
        return Err(Error::invalid(format!("{name} {dims:?} must have at least two dimensions")));
    }
    let copied_a = call.has_partial_overlap(&a, &out).then(|| call.scratch(a.dtype, a.dims()));
    call.plan(move |memory| {
        let mut from = memory.view(&a);
        if let Some(scratch) = &copied_a {
            copy(memory.parallel, memory.scratch(scratch), from);
            from = memory.scratch(scratch).view();
        }
        triangle(memory.parallel, memory.out(&out), from, offset, lower);
        Ok(())
    })
}

/// One value at the index of each class, another elsewhere. Arguments: classes, how many, value, value elsewhere,
/// dimension, out.
fn one_hot(call: &mut Call<'_>) -> Result<Plan> {
    let out = call.output(5)?;
    let index = call.read_index(0, &[&out])?;
    let count = call.number(1)?.as_i64();
    let (on, off) = (call.read(2, &[&out])?, call.read(3, &[&out])?);
    let dim = match call.int(4)? {
        -1 => index.rank(),
        dim => call.wrap(4, dim, index.rank() + 1)?,
    };
    let mut dims = cairn_tensor::Dims::new(index.dims());
    if dims.len() >= cairn_tensor::MAX_DIMS || count < 0 {
        let (name, have) = (call.parameter(0), index.dims());
        return Err(Error::invalid(format!("{name} {have:?} has no room for {count} classes")));
    }
    dims.insert(dim, count as usize);
    call.expect_dims(5, &out, &dims)?;
    for (at, one) in [(2, &on), (3, &off)] {
        call.expect_converts(at, one, &out)?;
        if one.count() != 1 {
            let (name, have) = (call.parameter(at), one.dims());
            return Err(Error::invalid(format!("{name} {have:?} must have one element")));
        }
    }
    let on_value = call.scratch(out.dtype, &[]);
    let name = call.parameter(0);
    call.plan(move |memory| {
        let (index, on, off) = (index.view(memory), on.view(memory), off.view(memory));
        let single = |view: cairn_tensor::View<'_>| view.reshaped(&[]).expect("one element");
        let off_layout = single(off).broadcast_to(out.dims()).expect("one element");
        let target = memory.out(&out);
        copy(memory.parallel, target, off.with_layout(off_layout).expect("one element"));
        let on_value = memory.scratch(&on_value);
        copy(memory.parallel, on_value, on.with_layout(single(on)).expect("one element"));
        let class_index = index.with_layout(index.layout().with(dim)).expect("the same elements");
        let values = on_value.broadcast_to(class_index.dims()).expect("one element");
        let values = on_value.view().with_layout(values).expect("one element");
        let targets = IndexedView::along(target.view(), dim, class_index, false);
        scatter(memory.parallel, target, &targets, values, ScatterMode::Replace, index)
            .map_err(|bad| out_of_range(name, bad))
    })
}

fn one_hot_output(call: &Call<'_>) -> Result<Vec<Layout>> {
    let index = call.layout(0)?;
    let mut dims = cairn_tensor::Dims::new(index.dims());
    let dim = match call.int(4)? {
        -1 => index.rank(),
        dim => call.wrap(4, dim, index.rank() + 1)?,
    };
    if dims.len() == cairn_tensor::MAX_DIMS {
        let name = call.parameter(0);
        return Err(Error::invalid(format!("{name} {dims:?} has no room for classes")));
    }
    dims.insert(dim, call.number(1)?.as_i64().max(0) as usize);
    Ok(vec![Layout::contiguous(call.layout(2)?.dtype, &dims)])
}

/// Every element the value of a tensor with one element. Arguments: sizes, value, out.
fn fill(call: &mut Call<'_>) -> Result<Plan> {
    let (sizes, out) = (call.sizes(0)?, call.output(2)?);
    let value = call.read(1, &[&out])?;
    // torch_npu describes one element as a tensor without dimensions.
    if out.rank() > 0 || sizes.iter().product::<usize>() != 1 {
        call.expect_dims(2, &out, &sizes)?;
    }
    call.expect_converts(1, &value, &out)?;
    let Some(broadcast) = value.reshaped(&[]).and_then(|one| one.broadcast_to(out.dims())) else {
        let (name, have) = (call.parameter(1), value.dims());
        return Err(Error::invalid(format!("{name} {have:?} must have one element")));
    };
    call.plan(move |memory| {
        copy(memory.parallel, memory.out(&out), value.with_layout(broadcast).view(memory));
        Ok(())
    })
}

fn fill_output(call: &Call<'_>) -> Result<Vec<Layout>> {
    Ok(vec![Layout::contiguous(call.layout(1)?.dtype, &call.sizes(0)?)])
}

/// The same number everywhere. Arguments: a tensor of the sizes of out, value, out.
fn fill_like(call: &mut Call<'_>) -> Result<Plan> {
    let (like, value, out) = (call.layout(0)?, call.scalar(1)?, call.output(2)?);
    call.expect_dims(2, &out, like.dims())?;
    call.expect_numbers(2, &out)?;
    call.plan(move |memory| {
        fill_scalar(memory.parallel, memory.out(&out), value);
        Ok(())
    })
}

/// The rows of this family.
pub const ROWS: &[Row] = &[
    aclnn("Arange", arange).with_args(&[A(0), A(1), A(2), A(3), B(false)]),
    aclnn("Range", arange).with_args(&[A(0), A(1), A(2), A(3), B(true)]),
    aclnn("Linspace", linspace),
    aclnn("LogSpace", logspace).with_args(&[A(0), A(1), A(2), A(4), A(3)]),
    aclnn("Eye", eye),
    aclnn("InplaceFillDiagonal", fill_diagonal),
    aclnn("Tril", triangular).with_args(&[A(0), A(1), A(2), B(true)]),
    aclnn("Triu", triangular).with_args(&[A(0), A(1), A(2), B(false)]),
    aclnn("InplaceTril", triangular).with_args(&[A(0), A(1), A(0), B(true)]),
    aclnn("InplaceTriu", triangular).with_args(&[A(0), A(1), A(0), B(false)]),
    aclnn("OneHot", one_hot),
];

/// The operators of this family by IR name.
pub const NODES: &[Node] = &[
    node(
        "Range",
        &["start", "limit", "delta"],
        &["y"],
        Infer::By(arange_output),
        arange,
        &[A(0), A(1), A(2), O(0), B(false)],
    )
    .needs_values(&[0, 1, 2]),
    node(
        "LinSpace",
        &["start", "stop", "num"],
        &["output"],
        Infer::By(linspace_output),
        linspace,
        &[A(0), A(1), A(2), O(0)],
    )
    .needs_values(&[0, 1, 2]),
    node("Fill", &["dims", "value"], &["y"], Infer::By(fill_output), fill, &[A(0), A(1), O(0)])
        .needs_values(&[0]),
    node("ZerosLike", &["x"], &["y"], Infer::Like(0), fill_like, &[A(0), I(0), O(0)]).from_shapes(),
    node("OnesLike", &["x"], &["y"], Infer::Like(0), fill_like, &[A(0), I(1), O(0)]).from_shapes(),
    node(
        "Tril",
        &["x"],
        &["y"],
        Infer::Like(0),
        triangular,
        &[A(0), Attr("diagonal", AttrDefault::Int(0)), O(0), B(true)],
    ),
    node(
        "Triu",
        &["x"],
        &["y"],
        Infer::Like(0),
        triangular,
        &[A(0), Attr("diagonal", AttrDefault::Int(0)), O(0), B(false)],
    ),
    node(
        "OneHot",
        &["x", "depth", "on_value", "off_value"],
        &["y"],
        Infer::By(one_hot_output),
        one_hot,
        &[A(0), A(1), A(2), A(3), Attr("axis", AttrDefault::Int(-1)), O(0)],
    )
    .needs_values(&[1]),
    node(
        "OneHotD",
        &["x", "on_value", "off_value"],
        &["y"],
        Infer::By(one_hot_output),
        one_hot,
        &[
            A(0),
            Attr("depth", AttrDefault::Required),
            A(1),
            A(2),
            Attr("axis", AttrDefault::Int(-1)),
            O(0),
        ],
    ),
    node(
        "LogSpaceD",
        &["assist"],
        &["y"],
        Infer::By(logspace_output),
        logspace,
        &[
            Attr("start", AttrDefault::Required),
            Attr("end", AttrDefault::Required),
            Attr("steps", AttrDefault::Int(100)),
            O(0),
            Attr("base", AttrDefault::Float(10.0)),
            Attr("dtype", AttrDefault::Int(1)),
            A(0),
        ],
    )
    .from_shapes(),
    node(
        "Eye",
        &[],
        &["y"],
        Infer::By(eye_output),
        eye_by_name,
        &[
            Attr("num_rows", AttrDefault::Required),
            Attr("num_columns", AttrDefault::Int(0)),
            O(0),
            Attr("batch_shape", AttrDefault::Ints(&[])),
            Attr("dtype", AttrDefault::Int(0)),
        ],
    )
    .from_shapes(),
];
