//! Losses of rows of scores: cross entropy with classes or with distributions, margins, and their gradients.

use super::inputs::UnaliasedInput;
use super::reduction_plan::{Axes, single_result};
use crate::call::Call;
use crate::error::{Error, Fault, Result};
use crate::infer::Infer;
use crate::plan::{Operand, Plan};
use crate::table::ArgSource::{A, O};
use crate::table::{Node, Row, aclnn, node};
use cairn_tensor::kernels::access::{PositionAccess, PositionAccessMut};
use cairn_tensor::kernels::element::Element;
use cairn_tensor::kernels::entropy::{Classes, class_gradients, class_losses, margin_losses};
use cairn_tensor::kernels::fold;
use cairn_tensor::kernels::map::{fill_scalar, map2};
use cairn_tensor::kernels::number::Number;
use cairn_tensor::kernels::softmax::softmax;
use cairn_tensor::{DType, Layout, Scalar, View, with_real};

const REAL: &[DType] = &[DType::Float, DType::Float16, DType::Bf16];

/// How the losses of rows become the result.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reduction {
    None,
    Mean,
    Sum,
}

/// A reduction by its name or its number.
fn reduction(call: &Call<'_>, at: usize) -> Result<Reduction> {
    let name = call.parameter(at);
    if let crate::argument::Arg::Int(number) = call.arg(at) {
        return match number {
            0 => Ok(Reduction::None),
            1 => Ok(Reduction::Mean),
            2 => Ok(Reduction::Sum),
            other => Err(Error::invalid(format!("{name} = {other}: 0, 1 and 2 are known"))),
        };
    }
    match call.text(at)? {
        "none" => Ok(Reduction::None),
        "mean" | "" => Ok(Reduction::Mean),
        "sum" => Ok(Reduction::Sum),
        other => Err(Error::invalid(format!(
            "{name} = {other:?}: \"none\", \"mean\" and \"sum\" are known"
        ))),
    }
}

/// How many rows and classes scores have.
fn rows(call: &Call<'_>, at: usize, x: &Layout) -> Result<[usize; 2]> {
    call.expect_dtype(at, x, REAL)?;
    match *x.dims() {
        [rows, classes] if classes > 0 => Ok([rows, classes]),
        ref dims => {
            let name = call.parameter(at);
            Err(Error::invalid(format!(
                "{name} has the sizes {dims:?}: expected rows and at least one class"
            )))
        }
    }
}

/// The classes of rows as a call brings them.
#[derive(Clone, Copy)]
struct Targets {
    target: UnaliasedInput,
    weight: Option<UnaliasedInput>,
    ignored: i64,
    smoothing: f64,
    name: &'static str,
    classes: usize,
}

impl Targets {
    /// Indices: target, weight, class that is ignored, smoothing.
    fn new(
        call: &mut Call<'_>,
        indices: [usize; 4],
        [rows, classes]: [usize; 2],
        outs: &[&Operand],
    ) -> Result<Targets> {
        let [target, weight, ignored, smoothing] = indices;
        let name = call.parameter(target);
        let targets = call.read(target, outs)?;
        call.expect_dtype(target, &targets, &[DType::Int64, DType::Int32])?;
        call.expect_dims(target, &targets, &[rows])?;
        let weights = if call.has(weight) { Some(call.read(weight, outs)?) } else { None };
        if let Some(one) = &weights {
            call.expect_dtype(weight, one, REAL)?;
            call.expect_dims(weight, one, &[classes])?;
        }
        let amount = call.float(smoothing)?;
        if !(0.0..=1.0).contains(&amount) {
            let name = call.parameter(smoothing);
            return Err(Error::invalid(format!("{name} = {amount} is not from 0 to 1")));
        }
        let ignored = call.int(ignored)?;
        Ok(Targets { target: targets, weight: weights, ignored, smoothing: amount, name, classes })
    }

    /// The targets as the kernels take them; fails for a class out of range.
    fn classes<'m>(
        &self,
        memory: &crate::plan::Memory<'m>,
    ) -> std::result::Result<Classes<'m>, Fault> {
        let (target, weight) = (self.target.view(memory), self.weight.map(|one| one.view(memory)));
        let classes = Classes { target, weight, ignored: self.ignored, smoothing: self.smoothing };
        classes.check(self.classes).map_err(|(row, class)| {
            let (name, last) = (self.name, self.classes - 1);
            Fault(format!("{name}[{row}] = {class} is outside 0 to {last}"))
        })?;
        Ok(classes)
    }
}

/// Arguments: x, target, weight or absent, reduction, class that is ignored, smoothing, loss, logarithms of
/// probabilities, and two outputs of a loss that is not computed, as in CANN.
fn cross_entropy(call: &mut Call<'_>) -> Result<Plan> {
    let (loss, logarithms) = (call.output(6)?, call.output(7)?);
    let x = call.tensor(0)?;
    let sizes = rows(call, 0, &x)?;
    let kind = reduction(call, 3)?;
    call.expect_dims(7, &logarithms, &sizes)?;
    call.expect_dtype(7, &logarithms, REAL)?;
    call.expect_dtype(6, &loss, REAL)?;
    let expected = if kind == Reduction::None { sizes[0] } else { 1 };
    let flat_loss =
        loss.reshaped(&[expected]).map(|layout| loss.with_layout(layout)).ok_or_else(|| {
            let (name, dims) = (call.parameter(6), loss.dims());
            Error::invalid(format!(
                "{name} has the sizes {dims:?}: expected {expected} elements in a row"
            ))
        })?;
    let targets = Targets::new(call, [1, 2, 4, 5], sizes, &[&loss, &logarithms])?;
    let x = call.in_place_input(x, &[&logarithms, &loss]);
    let dtype = with_real!(x.layout().dtype, C => C::DTYPE);
    let (log_probabilities, row_losses) =
        (call.scratch(dtype, &sizes), call.scratch(dtype, &[sizes[0]]));
    call.plan_real(move |memory| {
        let classes = targets.classes(memory)?;
        let (log_probabilities, row_losses) = (memory.scratch(&log_probabilities), memory.scratch(&row_losses));
        with_real!(dtype, C => {
            softmax::<C>(memory.parallel, log_probabilities, x.view(memory), 1, true);
            cairn_tensor::kernels::copy::copy(memory.parallel, memory.out(&logarithms), log_probabilities.view());
            class_losses::<C>(memory.parallel, row_losses, log_probabilities.view(), classes);
        });
        let out = memory.out(&flat_loss);
        if kind == Reduction::None {
            cairn_tensor::kernels::copy::copy(memory.parallel, out, row_losses.view());
            return Ok(());
        }
        let cells = PositionAccess::new(row_losses.view());
        let sum: f64 = (0..sizes[0]).map(|row| cells.get::<f64>(&[row])).sum();
        let divisor = if kind == Reduction::Mean { classes.total(sizes[1]) } else { 1.0 };
        fill_scalar(memory.parallel, out, Scalar::from(sum / divisor));
        Ok(())
    })
}

/// Arguments: gradient of the loss, logarithms of probabilities, target, weight or absent, reduction, class that is
/// ignored, smoothing, out.
fn cross_entropy_backward(call: &mut Call<'_>) -> Result<Plan> {
    let out = call.output(7)?;
    let (grad, logarithms) = (call.read(0, &[&out])?, call.tensor(1)?);
    let sizes = rows(call, 1, &logarithms)?;
    let kind = reduction(call, 4)?;
    call.expect_dtype(0, &grad, REAL)?;
    call.expect_dims(7, &out, &sizes)?;
    call.expect_dtype(7, &out, REAL)?;
    let expected = if kind == Reduction::None { sizes[0] } else { 1 };
    let flat_grad =
        grad.reshaped(&[expected]).map(|layout| grad.with_layout(layout)).ok_or_else(|| {
            let (name, dims) = (call.parameter(0), grad.dims());
            Error::invalid(format!(
                "{name} has the sizes {dims:?}: expected {expected} elements in a row"
            ))
        })?;
    let targets = Targets::new(call, [2, 3, 5, 6], sizes, &[&out])?;
    let logarithms = call.in_place_input(logarithms, &[&out]);
    call.plan_real(move |memory| {
        let classes = targets.classes(memory)?;
        let (grad, logarithms) =
            (PositionAccess::new(flat_grad.view(memory)), logarithms.view(memory));
        let divisor = if kind == Reduction::Mean { classes.total(sizes[1]) } else { 1.0 };
        let row_gradient = |row: usize| {
            let at = if kind == Reduction::None { row } else { 0 };
            grad.get::<f64>(&[at]) / divisor
        };
        let out = memory.out(&out);
        with_real!(logarithms.dtype(), C => {
            class_gradients::<C>(memory.parallel, out, logarithms, classes, row_gradient);
        });
        Ok(())
    })
}

/// Cross entropy with distributions, and its gradient at once. Arguments: scores, distributions, loss, gradient.
fn softmax_cross_entropy(call: &mut Call<'_>) -> Result<Plan> {
    let (loss, gradient) = (call.output(2)?, call.output(3)?);
    let (x, labels) = (call.tensor(0)?, call.tensor(1)?);
    let sizes = rows(call, 0, &x)?;
    call.expect_dims(1, &labels, &sizes)?;
    call.expect_dtype(1, &labels, REAL)?;
    call.expect_dims(3, &gradient, &sizes)?;
    call.expect_dtype(3, &gradient, REAL)?;
    call.expect_dims(2, &loss, &sizes[..1])?;
    call.expect_dtype(2, &loss, REAL)?;
    let x = call.in_place_input(x, &[&loss, &gradient]);
    let labels = call.unaliased(labels, &[&loss, &gradient]);
    let dtype = with_real!(x.layout().dtype, C => C::DTYPE);
    let (scratch, products) = (call.scratch(dtype, &sizes), call.scratch(dtype, &sizes));
    let axes = Axes::new(&[false, true]);
    let reduction_plan =
        with_real!(dtype, C => call.plan_reduction(&products, &axes, &fold::sum::<C>()));
    call.plan_real(move |memory| {
        let (scratch, products) = (memory.scratch(&scratch), memory.scratch(&products));
        let (labels, parallel) = (labels.view(memory), memory.parallel);
        with_real!(dtype, C => {
            softmax::<C>(parallel, scratch, x.view(memory), 1, true);
            map2(parallel, products, scratch.view(), labels, |l: C, p: C| l.mul(p).neg());
            reduction_plan.run(memory, products.view(), fold::sum::<C>(), (memory.out(&loss), None), single_result);
            map2(parallel, memory.out(&gradient), scratch.view(), labels, |l: C, p: C| l.exp().sub(p));
        });
        Ok(())
    })
}

/// Margins between the classes of a row and the others. Arguments: x, target, reduction, out, which classes are targets.
fn multilabel_margin_loss(call: &mut Call<'_>) -> Result<Plan> {
    let (out, is_target) = (call.output(3)?, call.output(4)?);
    let (x, target) = (call.read(0, &[&out, &is_target])?, call.read(1, &[&out, &is_target])?);
    call.expect_dtype(0, &x, &[DType::Float, DType::Float16, DType::Bf16, DType::Double])?;
    call.expect_dtype(1, &target, &[DType::Int64, DType::Int32])?;
    call.expect_dims(1, &target, x.dims())?;
    call.expect_dims(4, &is_target, x.dims())?;
    call.expect_numbers(4, &is_target)?;
    call.expect_numbers(3, &out)?;
    let has_one_row = match x.rank() {
        2 => false,
        1 => true,
        _ => {
            let (name, dims) = (call.parameter(0), x.dims());
            return Err(Error::invalid(format!(
                "{name} has the sizes {dims:?}: expected 1 or 2 dimensions"
            )));
        }
    };
    let as_matrix = |layout: Layout| if has_one_row { layout.with(0) } else { layout };
    let (x, target) = (x.with_layout(as_matrix(*x)), target.with_layout(as_matrix(*target)));
    let is_target = is_target.with_layout(as_matrix(*is_target.layout()));
    let (rows, kind) = (x.dims()[0], reduction(call, 2)?);
    let expected = if kind == Reduction::None && !has_one_row { rows } else { 1 };
    let flat_out =
        out.reshaped(&[expected]).map(|layout| out.with_layout(layout)).ok_or_else(|| {
            let (name, dims) = (call.parameter(3), out.dims());
            Error::invalid(format!(
                "{name} has the sizes {dims:?}: expected {expected} elements in a row"
            ))
        })?;
    let name = call.parameter(1);
    let dtype = with_real!(x.dtype, C => C::DTYPE);
    let row_losses = call.scratch(dtype, &[rows]);
    call.plan_real(move |memory| {
        let (row_losses, is_target) = (memory.scratch(&row_losses), memory.out(&is_target));
        let (x, target): (View<'_>, View<'_>) = (x.view(memory), target.view(memory));
        let result = with_real!(dtype, C => {
            margin_losses::<C>(memory.parallel, row_losses, is_target, x, target)
        });
        result.map_err(|(row, class)| {
            let last = x.dims()[1] as i64 - 1;
            Fault(format!("{name}[{row}] has the class {class}, which is outside -1 to {last}"))
        })?;
        let (cells, out) =
            (PositionAccess::new(row_losses.view()), PositionAccessMut::new(memory.out(&flat_out)));
        if expected == rows && kind == Reduction::None {
            (0..rows).for_each(|row| out.set(&[row], cells.get::<f64>(&[row])));
            return Ok(());
        }
        let sum: f64 = (0..rows).map(|row| cells.get::<f64>(&[row])).sum();
        out.set(&[0], if kind == Reduction::Mean { sum / rows as f64 } else { sum });
        Ok(())
    })
}

/// The rows of this family.
pub const ROWS: &[Row] = &[
    aclnn("CrossEntropyLoss", cross_entropy).with_args(&[
        A(0),
        A(1),
        A(2),
        A(3),
        A(4),
        A(5),
        A(8),
        A(9),
    ]),
    aclnn("CrossEntropyLossGrad", cross_entropy_backward).with_args(&[
        A(0),
        A(1),
        A(2),
        A(3),
        A(6),
        A(7),
        A(8),
        A(10),
    ]),
    aclnn("SoftmaxCrossEntropyWithLogits", softmax_cross_entropy),
    aclnn("MultilabelMarginLoss", multilabel_margin_loss),
];

fn infer_losses_and_gradients(call: &Call<'_>) -> Result<Vec<Layout>> {
    let x = call.layout(0)?.packed();
    Ok(vec![Layout::contiguous(x.dtype, &x.dims()[..x.rank().min(1)]), x])
}

/// The operators of this family by IR name.
pub const NODES: &[Node] = &[node(
    "SoftmaxCrossEntropyWithLogits",
    &["features", "labels"],
    &["loss", "backprop"],
    Infer::By(infer_losses_and_gradients),
    softmax_cross_entropy,
    &[A(0), A(1), O(0), O(1)],
)];
