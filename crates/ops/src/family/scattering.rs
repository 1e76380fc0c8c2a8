//! Values scattered to positions that indices name.

use super::indexing::{Indices, expect_within, replaced_dims};
use super::inputs::{UnaliasedInput, out_of_range};
use super::scatter_mean::Average;
use crate::argument::{Arg, Tensor};
use crate::call::Call;
use crate::error::{Error, Result};
use crate::infer::Infer;
use crate::plan::{Memory, Operand, Plan, Scratch};
use crate::table::ArgSource::{A, Attr, B, I, No, O};
use crate::table::{ArgSource, AttrDefault, Node, Row, aclnn, node};
use cairn_tensor::kernels::constant::Constant;
use cairn_tensor::kernels::copy::copy;
use cairn_tensor::kernels::element::Compute;
use cairn_tensor::kernels::indexed::IndexedView;
use cairn_tensor::kernels::map::{fill_scalar, map1};
use cairn_tensor::kernels::number::Number;
use cairn_tensor::kernels::scatter::{ScatterMode, can_accumulate_complex, scatter};
use cairn_tensor::{DType, Layout, Scalar, View, ViewMut, with_complex, with_number};
use num_complex::Complex;

/// Where values are scattered to: the output itself, or a copy of it in the workspace, in `f32` where half types are combined.
#[derive(Clone, Copy)]
struct Destination {
    out: Operand,
    buffer: Option<Scratch>,
}

impl Destination {
    fn new(call: &mut Call<'_>, out: Operand, mode: ScatterMode) -> Destination {
        let is_half = matches!(out.dtype, DType::Float16 | DType::Bf16);
        let buffer = (is_half && mode != ScatterMode::Replace)
            .then(|| call.scratch(DType::Float, out.dims()));
        Destination { out, buffer }
    }

    /// As [`Destination::new`] for an output that keeps its elements where no index points.
    fn in_place(call: &mut Call<'_>, out: Operand, mode: ScatterMode) -> Destination {
        let destination = Destination::new(call, out, mode);
        if destination.buffer.is_none() {
            call.touch_by_index(&out);
        }
        destination
    }

    /// [`Destination::new`] where the output starts as a copy of another tensor, else [`Destination::in_place`].
    fn with_origin(
        call: &mut Call<'_>,
        from: &Option<UnaliasedInput>,
        out: Operand,
        mode: ScatterMode,
    ) -> Destination {
        match from {
            Some(_) => Destination::new(call, out, mode),
            None => Destination::in_place(call, out, mode),
        }
    }

    /// Runs `work` on the elements, which are those of `from` before it, or the output's own.
    fn with<'a, R>(
        &self,
        memory: &Memory<'a>,
        from: Option<View<'_>>,
        work: impl FnOnce(ViewMut<'a>) -> R,
    ) -> R {
        let out = memory.out(&self.out);
        let Some(buffer) = &self.buffer else {
            if let Some(from) = from {
                copy(memory.parallel, out, from);
            }
            return work(out);
        };
        let target = memory.scratch(buffer);
        copy(memory.parallel, target, from.unwrap_or(out.view()));
        let result = work(target);
        copy(memory.parallel, out, target.view());
        result
    }
}

/// Values that are scattered: a tensor, or one number.
#[allow(clippy::large_enum_variant)]
enum Values {
    Tensor(UnaliasedInput, Option<Scratch>),
    Number(Scalar),
}

impl Values {
    fn read(call: &mut Call<'_>, at: usize, out: &Operand) -> Result<Values> {
        if matches!(call.arg(at), Arg::Tensor(_) | Arg::Absent) {
            let values = call.read(at, &[out])?;
            call.expect_converts(at, &values, out)?;
            let converted =
                (values.dtype != out.dtype).then(|| call.scratch(out.dtype, values.dims()));
            return Ok(Values::Tensor(values, converted));
        }
        call.expect_complex_arithmetic(0, out.dtype)?;
        factor(call, at, out).map(Values::Number)
    }

    fn layout(&self) -> Option<&Layout> {
        match self {
            Values::Tensor(values, _) => Some(values),
            Values::Number(_) => None,
        }
    }

    /// Calls `run` with the values as elements of type `dtype`, with the layout that `layout_of` returns.
    fn with<R>(
        &self,
        memory: &Memory<'_>,
        dtype: DType,
        layout_of: impl Fn(&Layout) -> Layout,
        run: impl FnOnce(View<'_>) -> R,
    ) -> R {
        match self {
            Values::Tensor(values, converted) => {
                let mut view = values.prepared(memory);
                if let Some(scratch) = converted {
                    let target = memory.scratch(scratch);
                    copy(memory.parallel, target, view);
                    view = target.view();
                }
                run(view.with_layout(layout_of(view.layout())).expect("a part of the values"))
            }
            Values::Number(value) => {
                let one = Constant::of(*value, dtype);
                let view = one.view(&[]);
                run(view.with_layout(layout_of(view.layout())).expect("one value"))
            }
        }
    }

    fn prepare(&self, memory: &Memory<'_>) {
        if let Values::Tensor(values, _) = self {
            values.prepare(memory);
        }
    }
}

/// The type of the elements of a [`Destination`].
fn destination_dtype(out: &Operand, mode: ScatterMode) -> DType {
    match out.dtype {
        DType::Float16 | DType::Bf16 if mode != ScatterMode::Replace => DType::Float,
        dtype => dtype,
    }
}

/// A number that elements of a tensor are multiplied with or replaced by; complex where they are.
fn factor(call: &Call<'_>, at: usize, out: &Operand) -> Result<Scalar> {
    match call.arg(at) {
        Arg::Scalar(Scalar::Complex(..)) if out.dtype.is_complex() => call.any_scalar(at),
        _ => call.number(at),
    }
}

/// Fails unless values can be combined with the elements of a tensor in this way.
fn expect_combines(call: &Call<'_>, at: usize, out: &Operand, mode: ScatterMode) -> Result<()> {
    match mode {
        ScatterMode::Replace => Ok(()),
        ScatterMode::Add | ScatterMode::Multiply
            if can_accumulate_complex(out.dtype, out.dtype) =>
        {
            Ok(())
        }
        _ => call.expect_numbers(at, out),
    }
}

/// How values are combined, from a number or a text.
fn mode(call: &Call<'_>, at: usize) -> Result<ScatterMode> {
    match call.arg(at) {
        Arg::Text(text) => match text.as_str() {
            "" | "none" | "update" => Ok(ScatterMode::Replace),
            "add" => Ok(ScatterMode::Add),
            "mul" | "multiply" => Ok(ScatterMode::Multiply),
            "max" => Ok(ScatterMode::Max),
            "min" => Ok(ScatterMode::Min),
            other => {
                Err(Error::invalid(format!("{} = {other:?} is not known", call.parameter(at))))
            }
        },
        _ => match call.int_or(at, 0)? {
            0 => Ok(ScatterMode::Replace),
            1 => Ok(ScatterMode::Add),
            2 => Ok(ScatterMode::Multiply),
            3 => Ok(ScatterMode::Max),
            4 => Ok(ScatterMode::Min),
            other => Err(Error::invalid(format!(
                "{} = {other}: expected 0 (replace), 1 (add), 2 (multiply), 3 (greatest) or 4 (least)",
                call.parameter(at)
            ))),
        },
    }
}

/// The input that an output starts as, unless the two are one.
pub(super) fn origin(
    call: &mut Call<'_>,
    at: usize,
    out_at: usize,
) -> Result<(Option<UnaliasedInput>, Operand)> {
    let out = call.output(out_at)?;
    let a = call.tensor(at)?;
    call.expect_dims(out_at, &out, a.dims())?;
    call.expect_converts(at, &a, &out)?;
    let same = a.address == out.address && *a.layout() == *out.layout();
    if same {
        if a.slot != out.slot {
            call.touch_by_index(&a);
        }
        return Ok((None, call.inout(out_at)?));
    }
    let copied = call.has_partial_overlap(&a, &out);
    let read = if copied { call.unaliased(a, &[&out]) } else { call.unaliased(a, &[]) };
    Ok((Some(read), out))
}

/// Values to the positions that an index names along a dimension. Arguments: a, dimension, index, values, how they are
/// combined, out, whether initial values take part (yes when absent).
fn scatter_elements(call: &mut Call<'_>) -> Result<Plan> {
    let (from, out) = origin(call, 0, 5)?;
    let average = Average::read(call, [4, 6], &out)?;
    let mode = if average.is_some() { ScatterMode::Add } else { mode(call, 4)? };
    let start = match call.flag_or(6, true)? {
        true => None,
        false => identity(mode, destination_dtype(&out, mode)),
    };
    expect_combines(call, 5, &out, mode)?;
    let index = call.read_index(2, &[&out])?.at_least_1d();
    let values = Values::read(call, 3, &out)?;
    let dim = call.dim(1, out.rank())?;
    expect_within(call, 2, &index, &out.at_least_1d(), dim)?;
    if let Some(layout) = values.layout() {
        let fits = index.count() == 0
            || (layout.rank().max(1) == index.rank()
                && (0..layout.rank()).all(|i| index.dims()[i] <= layout.dims()[i]));
        if !fits {
            let (name, have, want) = (call.parameter(3), layout.dims(), index.dims());
            return Err(Error::invalid(format!(
                "{name} {have:?} has fewer elements than {want:?}"
            )));
        }
    }
    let destination = Destination::with_origin(call, &from, out, mode);
    let (name, dtype) = (call.parameter(2), destination_dtype(&out, mode));
    call.plan(move |memory| {
        values.prepare(memory);
        let index = index.view(memory);
        destination.with(memory, from.map(|from| from.view(memory)), |tensor| {
            if index.count() == 0 {
                return Ok(());
            }
            let layout_of = |layout: &Layout| match layout.rank() {
                0 => layout.broadcast_to(index.dims()).expect("one value"),
                _ => (0..layout.rank())
                    .fold(*layout, |part, i| part.sliced(i, 0, index.dims()[i], 1)),
            };
            values.with(memory, dtype, layout_of, |values| {
                let target = at_least_1d(tensor);
                let targets = IndexedView::along(target.view(), dim, index, false);
                if let Some(start) = start {
                    let start = Constant::of(start, target.dtype());
                    let start = start.view(index.dims());
                    scatter(memory.parallel, target, &targets, start, ScatterMode::Replace, index)
                        .map_err(|bad| out_of_range(name, bad))?;
                }
                scatter(memory.parallel, target, &targets, values, mode, index)
                    .map_err(|bad| out_of_range(name, bad))?;
                if let Some(average) = &average {
                    average.divide(memory, target, dim, index);
                }
                Ok(())
            })
        })
    })
}

/// The number of a type that changes nothing when it is combined with another (the identity of the mode); `None` where the
/// other replaces it anyway.
fn identity(mode: ScatterMode, dtype: DType) -> Option<Scalar> {
    let (least, greatest) = match dtype {
        DType::Bool => (0, 1),
        DType::Int8 => (i64::from(i8::MIN), i64::from(i8::MAX)),
        DType::Uint8 => (0, i64::from(u8::MAX)),
        DType::Int16 => (i64::from(i16::MIN), i64::from(i16::MAX)),
        DType::Int32 => (i64::from(i32::MIN), i64::from(i32::MAX)),
        _ => (i64::MIN, i64::MAX),
    };
    Some(match mode {
        ScatterMode::Replace => return None,
        ScatterMode::Add => Scalar::from(0),
        ScatterMode::Multiply => Scalar::from(1),
        ScatterMode::Max if dtype.is_floating() => Scalar::from(f64::NEG_INFINITY),
        ScatterMode::Min if dtype.is_floating() => Scalar::from(f64::INFINITY),
        ScatterMode::Max => Scalar::from(least),
        ScatterMode::Min => Scalar::from(greatest),
    })
}

pub(super) fn at_least_1d(view: ViewMut<'_>) -> ViewMut<'_> {
    match view.rank() {
        0 => view.with_layout(view.layout().with(0)).expect("the same element"),
        _ => view,
    }
}

/// Slices to the positions of a dimension that an index names. Arguments: a, dimension, index, values, a factor for
/// them (1 when absent), out, whether they are added, whether negative indices count from the end.
fn scatter_slices(call: &mut Call<'_>) -> Result<Plan> {
    let (from, out) = origin(call, 0, 5)?;
    let mode = if call.flag(6)? { ScatterMode::Add } else { ScatterMode::Replace };
    let wraps = call.flag(7)?;
    let index = call.read_index(2, &[&out])?.at_least_1d();
    let values = Values::read(call, 3, &out)?;
    let factor = if call.has(4) { factor(call, 4, &out)? } else { Scalar::from(1) };
    expect_combines(call, 5, &out, mode)?;
    let dim = call.dim(1, out.rank())?;
    if index.rank() != 1 {
        let (name, have) = (call.parameter(2), index.dims());
        return Err(Error::invalid(format!("{name} {have:?} must have one dimension")));
    }
    let dims = replaced_dims(call, &out.at_least_1d(), dim, &index)?;
    if let Some(layout) = values.layout() {
        let layout_1d = if layout.rank() == 0 { layout.with(0) } else { *layout };
        if layout_1d.dims() != &*dims {
            let (name, have) = (call.parameter(3), layout.dims());
            return Err(Error::invalid(format!(
                "{name} has the sizes {have:?}: expected {dims:?}"
            )));
        }
    }
    let is_one = match factor {
        Scalar::Complex(value, _) => value == Complex::new(1.0, 0.0),
        real => real.as_f64() == 1.0,
    };
    let destination = Destination::with_origin(call, &from, out, mode);
    let dtype = destination_dtype(&out, mode);
    let scaled = (!is_one).then(|| call.scratch(dtype, &dims));
    let name = call.parameter(2);
    call.plan(move |memory| {
        values.prepare(memory);
        let index = index.view(memory);
        destination.with(memory, from.map(|from| from.view(memory)), |tensor| {
            let layout_of = |layout: &Layout| {
                let layout = if layout.rank() == 0 { layout.with(0) } else { *layout };
                layout.broadcast_to(&dims).expect("sizes were checked")
            };
            values.with(memory, dtype, layout_of, |values| {
                let values = match &scaled {
                    Some(scratch) => {
                        let scaled = memory.scratch(scratch);
                        match dtype.is_complex() {
                            true => with_complex!(dtype, C => {
                                let factor = C::from_scalar(factor);
                                map1::<C, C>(memory.parallel, scaled, values, move |x| x * factor);
                            }),
                            false => with_number!(dtype, C => {
                                let factor = C::from_scalar(factor);
                                map1::<C, C>(memory.parallel, scaled, values, move |x| x.mul(factor));
                            }),
                        }
                        scaled.view()
                    }
                    None => values,
                };
                let target = at_least_1d(tensor);
                let targets = IndexedView::chosen(target.view(), dim, index, wraps);
                scatter(memory.parallel, target, &targets, values, mode, index)
                    .map_err(|bad| out_of_range(name, bad))
            })
        })
    })
}

/// One number at indices of a dimension that are known when the call is planned. Arguments: a, dimension, indices, value, out.
fn index_fill(call: &mut Call<'_>) -> Result<Plan> {
    let (from, out) = origin(call, 0, 4)?;
    let (dim, value) = (call.dim(1, out.rank())?, factor(call, 3, &out)?);
    call.expect_complex_arithmetic(4, out.dtype)?;
    let target = out.at_least_1d();
    let mut indices = Vec::new();
    for index in call.ints(2)? {
        indices.push(call.wrap(2, index, target.dims()[dim])?);
    }
    let slices: Vec<Operand> =
        indices.iter().map(|index| target.with_layout(target.at(dim, *index))).collect();
    if from.is_none() {
        touch_indices(call, &target, dim, indices);
    }
    call.plan(move |memory| {
        if let Some(from) = &from {
            copy(memory.parallel, memory.out(&out), from.view(memory));
        }
        slices.iter().for_each(|slice| fill_scalar(memory.parallel, memory.out(slice), value));
        Ok(())
    })
}

/// Says that of a tensor only these indices of a dimension are touched: exactly where they are evenly apart, else that
/// all between the first and the last may be.
fn touch_indices(call: &mut Call<'_>, target: &Operand, dim: usize, mut indices: Vec<usize>) {
    indices.sort_unstable();
    indices.dedup();
    let [first, .., last] = indices[..] else {
        let first = indices.first().copied().unwrap_or(0);
        return call.touches_only(target, &target.sliced(dim, first, indices.len(), 1));
    };
    let step = indices[1] - first;
    if indices.windows(2).all(|pair| pair[1] - pair[0] == step) {
        return call.touches_only(target, &target.sliced(dim, first, indices.len(), step as isize));
    }
    call.touches_only(target, &target.sliced(dim, first, last - first + 1, 1));
    call.touch_by_index(target);
}

/// Values to the coordinates that several index tensors hold. Arguments: tensor, indices, values, whether they are added.
fn index_put(call: &mut Call<'_>) -> Result<Plan> {
    let out = call.inout(0)?;
    let mode = if call.flag(3)? { ScatterMode::Add } else { ScatterMode::Replace };
    let values = Values::read(call, 2, &out)?;
    match Indices::read(call, 1, &out, &[&out])? {
        Some(indices) => plan_index_put(call, None, out, indices, values, mode),
        None => call.nothing(),
    }
}

/// Slices to the coordinates that the last dimension of an index holds. Arguments: a, index, values, out, how they meet
/// (they replace what is there when it is absent).
fn scatter_nd(call: &mut Call<'_>) -> Result<Plan> {
    let (from, out) = origin(call, 0, 3)?;
    let mode = mode(call, 4)?;
    let values = Values::read(call, 2, &out)?;
    let indices = Indices::read_coordinates(call, 1, &out, &[&out])?;
    plan_index_put(call, from, out, indices, values, mode)
}

/// The tensor at `at` with a dimension of size 1 more.
fn insert_dim(call: &mut Call<'_>, at: usize, dim: usize) -> Result<()> {
    let layout = call.layout(at)?;
    if dim > layout.rank() || layout.rank() >= cairn_tensor::MAX_DIMS {
        let (name, dims) = (call.parameter(at), layout.dims());
        return Err(Error::invalid(format!("{name} {dims:?} has no room for dimension {dim}")));
    }
    if let Arg::Tensor(tensor) = call.arg(at).clone() {
        call.replace(at, Arg::Tensor(Tensor { layout: layout.with(dim), ..tensor }));
    }
    Ok(())
}

/// Slices of the first dimension to the indices that name them. Arguments: a, index, values, out.
fn scatter_update(call: &mut Call<'_>) -> Result<Plan> {
    insert_dim(call, 1, call.layout(1)?.rank())?;
    scatter_nd(call)
}

/// A value to one position of each line along a dimension, which index and values lack. Arguments: a, dimension, index, values, -,
/// out.
fn scatter_one_of_each(call: &mut Call<'_>) -> Result<Plan> {
    let a = call.layout(0)?;
    let dim = call.dim(1, a.rank())?;
    let lines: Vec<usize> = (0..a.rank()).filter(|at| *at != dim).map(|at| a.dims()[at]).collect();
    for at in [2, 3] {
        call.expect_dims(at, &call.layout(at)?, &lines)?;
        insert_dim(call, at, dim)?;
    }
    scatter_elements(call)
}

/// The plan that scatters values by several index tensors.
fn plan_index_put(
    call: &mut Call<'_>,
    from: Option<UnaliasedInput>,
    out: Operand,
    indices: Indices,
    values: Values,
    mode: ScatterMode,
) -> Result<Plan> {
    let layout = *values.layout().expect("a tensor");
    if layout.broadcast_to(&indices.dims).is_none() {
        let (name, have, want) = (call.parameter(2), layout.dims(), indices.dims);
        return Err(Error::invalid(format!("{name} {have:?} does not broadcast to {want:?}")));
    }
    expect_combines(call, 0, &out, mode)?;
    let destination = Destination::with_origin(call, &from, out, mode);
    let dtype = destination_dtype(&out, mode);
    call.plan(move |memory| {
        values.prepare(memory);
        destination.with(memory, from.map(|from| from.view(memory)), |tensor| {
            if indices.dims.contains(&0) {
                return Ok(());
            }
            let (targets, index) = indices.view(memory, tensor.view())?;
            let layout_of =
                |layout: &Layout| layout.broadcast_to(&indices.dims).expect("it was checked");
            values.with(memory, dtype, layout_of, |values| {
                scatter(memory.parallel, tensor, &targets, values, mode, index)
                    .map_err(|bad| out_of_range(&indices.name(), bad))
            })
        })
    })
}

/// Values by their flat index. Arguments: tensor, index, values, whether they
/// are added.
fn put_by_flat_index(call: &mut Call<'_>) -> Result<Plan> {
    let out = call.inout(0)?;
    let index = call.read_index(1, &[&out])?;
    let mode = if call.flag(3)? { ScatterMode::Add } else { ScatterMode::Replace };
    expect_combines(call, 0, &out, mode)?;
    let values = Values::read(call, 2, &out)?;
    let layout = *values.layout().expect("a tensor");
    if layout.count() != index.count() || layout.reshaped(index.dims()).is_none() {
        let (name, have, want) = (call.parameter(2), layout.dims(), index.dims());
        return Err(Error::invalid(format!("{name} has the sizes {have:?}: expected {want:?}")));
    }
    let mut destination = Destination::new(call, out, mode);
    if destination.buffer.is_none() {
        match out.reshaped(&[out.count()]) {
            Some(_) => call.touch_by_index(&out),
            None => destination.buffer = Some(call.scratch(out.dtype, out.dims())),
        }
    }
    let (name, dtype) = (call.parameter(1), destination_dtype(&out, mode));
    call.plan(move |memory| {
        values.prepare(memory);
        let index = index.view(memory);
        destination.with(memory, None, |tensor| {
            let layout_of =
                |layout: &Layout| layout.reshaped(index.dims()).expect("it was checked");
            values.with(memory, dtype, layout_of, |values| {
                let flat = tensor.reshaped(&[tensor.count()]).expect("one dimension");
                let flat = tensor.with_layout(flat).expect("the same elements");
                let targets = IndexedView::chosen(flat.view(), 0, index, true);
                scatter(memory.parallel, flat, &targets, values, mode, index)
                    .map_err(|bad| out_of_range(name, bad))
            })
        })
    })
}

/// How often each number is there, or the sum of its weights. Arguments: a, weights, least length, out.
fn bincount(call: &mut Call<'_>) -> Result<Plan> {
    let out = call.output(3)?;
    let a = call.read(0, &[&out])?;
    call.expect_numbers(3, &out)?;
    if out.rank() != 1 || a.rank() != 1 || !a.dtype.is_integer() {
        let (name, other, a) = (call.parameter(0), call.parameter(3), *a);
        return Err(Error::invalid(format!(
            "{name} ({a}) must be integers in one dimension, and {other} have one"
        )));
    }
    let weights = if call.has(1) { Some(Values::read(call, 1, &out)?) } else { None };
    if let Some(layout) = weights.as_ref().and_then(Values::layout) {
        call.expect_dims(1, layout, a.dims())?;
    }
    let index_i64 = call.scratch(DType::Int64, a.dims());
    let name = call.parameter(0);
    let destination = Destination::new(call, out, ScatterMode::Add);
    let dtype = destination_dtype(&out, ScatterMode::Add);
    call.plan(move |memory| {
        let index = memory.scratch(&index_i64);
        copy(memory.parallel, index, a.view(memory));
        let weights = weights.as_ref().unwrap_or(&Values::Number(Scalar::Int(1, DType::Int64)));
        weights.prepare(memory);
        fill_scalar(memory.parallel, memory.out(&out), Scalar::Bool(false));
        destination.with(memory, None, |tensor| {
            let layout_of =
                |layout: &Layout| layout.broadcast_to(index.dims()).expect("it was checked");
            weights.with(memory, dtype, layout_of, |weights| {
                let targets = IndexedView::chosen(tensor.view(), 0, index.view(), false);
                scatter(memory.parallel, tensor, &targets, weights, ScatterMode::Add, index.view())
                    .map_err(|bad| out_of_range(name, bad))
            })
        })
    })
}

/// The rows of this family.
pub const ROWS: &[Row] = &[
    aclnn("Scatter", scatter_elements),
    aclnn("ScatterValue", scatter_elements),
    aclnn("ScatterReduce", scatter_elements).with_args(&[A(0), A(1), A(2), A(3), A(4), A(6), A(5)]),
    aclnn("InplaceScatterReduce", scatter_elements).with_args(&[
        A(0),
        A(1),
        A(2),
        A(3),
        A(4),
        A(0),
        A(5),
    ]),
    aclnn("InplaceScatter", scatter_elements).with_args(&[A(0), A(1), A(2), A(3), A(4), A(0)]),
    aclnn("InplaceScatterValue", scatter_elements).with_args(&[A(0), A(1), A(2), A(3), A(4), A(0)]),
    aclnn("ScatterAdd", scatter_elements).with_args(&[A(0), A(1), A(2), A(3), I(1), A(4)]),
    aclnn("IndexAdd", scatter_slices).with_args(&[
        A(0),
        A(1),
        A(2),
        A(3),
        A(4),
        A(5),
        B(true),
        B(false),
    ]),
    aclnn("IndexAddV2", scatter_slices).with_args(&[
        A(0),
        A(1),
        A(2),
        A(3),
        A(4),
        A(6),
        B(true),
        B(false),
    ]),
    aclnn("IndexCopy", scatter_slices).with_args(&[
        A(0),
        A(1),
        A(2),
        A(3),
        No,
        A(4),
        B(false),
        B(false),
    ]),
    aclnn("InplaceIndexCopy", scatter_slices).with_args(&[
        A(0),
        A(1),
        A(2),
        A(3),
        No,
        A(0),
        B(false),
        B(false),
    ]),
    aclnn("IndexFill", scatter_slices).with_args(&[
        A(0),
        A(1),
        A(2),
        A(3),
        No,
        A(4),
        B(false),
        B(true),
    ]),
    aclnn("InplaceIndexFill", scatter_slices).with_args(&[
        A(0),
        A(1),
        A(2),
        A(3),
        No,
        A(0),
        B(false),
        B(true),
    ]),
    aclnn("IndexFillTensor", index_fill),
    aclnn("InplaceIndexFillTensor", index_fill).with_args(&[A(0), A(1), A(2), A(3), A(0)]),
    aclnn("IndexPutImpl", index_put),
    aclnn("ScatterNd", scatter_nd),
    aclnn("ScatterNdUpdate", scatter_nd).with_args(&[A(0), A(1), A(2), A(0)]),
    aclnn("InplacePut", put_by_flat_index),
    aclnn("Bincount", bincount),
];

const LOCKING: ArgSource = Attr("use_locking", AttrDefault::Flag(false));

/// The arguments of the operators that combine slices with what is there.
const COMBINED: [&[ArgSource]; 4] = [
    &[A(0), A(1), A(2), O(0), I(1), LOCKING],
    &[A(0), A(1), A(2), O(0), I(2), LOCKING],
    &[A(0), A(1), A(2), O(0), I(3), LOCKING],
    &[A(0), A(1), A(2), O(0), I(4), LOCKING],
];

/// An operator that combines slices with what is at their coordinates.
const fn scatter_nd_by(name: &'static str, arg_sources: &'static [ArgSource]) -> Node {
    let inputs = &["var", "indices", "updates"];
    node(name, inputs, &["var"], Infer::Like(0), scatter_nd, arg_sources).writes_first()
}

/// The operators of this family by IR name.
pub const NODES: &[Node] = &[
    node(
        "ScatterElements",
        &["data", "indices", "updates"],
        &["y"],
        Infer::Like(0),
        scatter_elements,
        &[
            A(0),
            Attr("axis", AttrDefault::Int(0)),
            A(1),
            A(2),
            Attr("reduction", AttrDefault::Text("none")),
            O(0),
        ],
    ),
    node(
        "ScatterNdUpdate",
        &["var", "indices", "updates"],
        &["var"],
        Infer::Like(0),
        scatter_nd,
        &[A(0), A(1), A(2), O(0), No, Attr("use_locking", AttrDefault::Flag(false))],
    )
    .writes_first(),
    scatter_nd_by("ScatterNdAdd", COMBINED[0]),
    scatter_nd_by("ScatterNdMul", COMBINED[1]),
    scatter_nd_by("ScatterNdMax", COMBINED[2]),
    scatter_nd_by("ScatterNdMin", COMBINED[3]),
    node(
        "InplaceIndexAdd",
        &["var", "indices", "updates", "alpha?"],
        &["var"],
        Infer::Like(0),
        scatter_slices,
        &[A(0), Attr("axis", AttrDefault::Required), A(1), A(2), A(3), O(0), B(true), B(false)],
    )
    .writes_first()
    .needs_values(&[3]),
    node(
        "ScatterUpdate",
        &["var", "indices", "updates"],
        &["var"],
        Infer::Like(0),
        scatter_update,
        &[A(0), A(1), A(2), O(0), No, Attr("use_locking", AttrDefault::Flag(false))],
    )
    .writes_first(),
    node(
        "ArgMaxGrad",
        &["var", "indices", "updates"],
        &["y"],
        Infer::Like(0),
        scatter_one_of_each,
        &[A(0), Attr("dimension", AttrDefault::Required), A(1), A(2), I(0), O(0)],
    ),
];
