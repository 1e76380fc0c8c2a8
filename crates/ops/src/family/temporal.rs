//! The loss of connectionist temporal classification (CTC), and its gradient.
//!
//! Workspace: the gradient takes, for each batch, two numbers of `f64` for each position of the labels with blanks, and
//! one for each class.

use super::inputs::UnaliasedInput;
use crate::call::Call;
use crate::error::{Error, Fault, Result};
use crate::infer::Infer;
use crate::plan::{Memory, Operand, Plan};
use crate::table::ArgSource::{A, Attr, O};
use crate::table::{ArgSource, AttrDefault, Node, Row, aclnn, node};
use cairn_tensor::kernels::ctc::{Sequences, gradient_scratch, gradients, likelihoods};
use cairn_tensor::{DType, Layout};

const REAL: &[DType] = &[DType::Float, DType::Double, DType::Float16, DType::Bf16];

/// The sequences of a call, checked as far as their lengths go.
struct Batch {
    logarithms: UnaliasedInput,
    targets: UnaliasedInput,
    steps: Vec<usize>,
    labels: Vec<usize>,
    blank: usize,
    /// Tensors have no dimension of batches.
    is_unbatched: bool,
    name: &'static str,
}

impl Batch {
    /// Indices: logarithms of probabilities, targets, lengths of both, blank.
    fn new(call: &mut Call<'_>, indices: [usize; 5], outs: &[&Operand]) -> Result<Batch> {
        let [logarithms, targets, steps, labels, blank] = indices;
        let input = call.read(logarithms, outs)?;
        call.expect_dtype(logarithms, &input, REAL)?;
        let is_unbatched = input.rank() == 2;
        let input = if is_unbatched { input.with_layout(input.with(1)) } else { input };
        let &[max_steps, count, classes] = input.dims() else {
            let (name, dims) = (call.parameter(logarithms), input.dims());
            return Err(Error::invalid(format!(
                "{name} has the sizes {dims:?}: expected steps, batches and classes"
            )));
        };
        let target_input = call.read(targets, outs)?;
        call.expect_dtype(targets, &target_input, &[DType::Int64, DType::Int32, DType::Bool])?;
        let lengths = |at: usize, max: usize| -> Result<Vec<usize>> {
            let values = call.ints(at)?;
            let name = call.parameter(at);
            let sizes: Option<Vec<usize>> = (values.iter())
                .map(|one| usize::try_from(*one).ok().filter(|one| *one <= max))
                .collect();
            match sizes.filter(|sizes| sizes.len() == count) {
                Some(sizes) => Ok(sizes),
                None => Err(Error::invalid(format!(
                    "{name} = {values:?}: expected {count} lengths from 0 to {max}"
                ))),
            }
        };
        let steps = lengths(steps, max_steps)?;
        let max_labels = match *target_input.dims() {
            [rows, width] if rows == count => width,
            [all] => all,
            ref dims => {
                let name = call.parameter(targets);
                return Err(Error::invalid(format!(
                    "{name} has the sizes {dims:?}, {count} batches have others"
                )));
            }
        };
        let labels = lengths(labels, max_labels)?;
        if target_input.rank() == 1 && labels.iter().sum::<usize>() > max_labels {
            let (name, want) = (call.parameter(targets), labels.iter().sum::<usize>());
            return Err(Error::invalid(format!(
                "{name} has {max_labels} labels, {want} are named"
            )));
        }
        let number = call.int(blank)?;
        let Some(blank) = usize::try_from(number).ok().filter(|one| *one < classes) else {
            let name = call.parameter(blank);
            return Err(Error::invalid(format!("{name} = {number} is none of {classes} classes")));
        };
        let name = call.parameter(targets);
        Ok(Batch {
            logarithms: input,
            targets: target_input,
            steps,
            labels,
            blank,
            is_unbatched,
            name,
        })
    }

    /// The most positions of labels with a blank before, between and after them.
    fn width(&self) -> usize {
        2 * self.labels.iter().copied().max().unwrap_or(0) + 1
    }

    /// The sequences as the kernels take them; fails for a label out of range.
    fn sequences<'m>(&'m self, memory: &Memory<'m>) -> std::result::Result<Sequences<'m>, Fault> {
        let sequences = Sequences {
            logarithms: self.logarithms.view(memory),
            targets: self.targets.view(memory),
            steps: &self.steps,
            labels: &self.labels,
            blank: self.blank,
        };
        sequences.check().map_err(|(batch, at, label)| {
            let (name, last) = (self.name, sequences.logarithms.dims()[2] - 1);
            Fault(format!(
                "{name}: label {at} of batch {batch} is {label}, which is outside 0 to {last}"
            ))
        })?;
        Ok(sequences)
    }

    /// The layout of a tensor with the log-likelihoods of prefixes (alpha): batches, steps, positions.
    fn log_alpha_layout(&self, call: &Call<'_>, at: usize, layout: &Layout) -> Result<Layout> {
        call.expect_dtype(at, layout, REAL)?;
        let layout = if self.is_unbatched && layout.rank() == 2 { layout.with(0) } else { *layout };
        let expected = [self.steps.len(), self.logarithms.dims()[0], self.width()];
        match *layout.dims() {
            [batches, steps, width]
                if batches == expected[0] && steps == expected[1] && width >= expected[2] =>
            {
                Ok(layout)
            }
            ref dims => {
                let name = call.parameter(at);
                Err(Error::invalid(format!(
                    "{name} has the sizes {dims:?}: expected {expected:?}, or more positions"
                )))
            }
        }
    }
}

/// A number for each batch, in one dimension.
fn by_batch(call: &Call<'_>, at: usize, layout: &Layout, count: usize) -> Result<Layout> {
    call.expect_dtype(at, layout, REAL)?;
    layout.reshaped(&[count]).ok_or_else(|| {
        let (name, dims) = (call.parameter(at), layout.dims());
        Error::invalid(format!("{name} has the sizes {dims:?}: expected [{count}]"))
    })
}

/// Arguments: logarithms of probabilities, targets, lengths of both, blank, whether an infinite loss is 0, losses,
/// log-likelihoods of prefixes.
fn loss(call: &mut Call<'_>) -> Result<Plan> {
    let (losses, log_alpha) = (call.output(6)?, call.output(7)?);
    let batch = Batch::new(call, [0, 1, 2, 3, 4], &[&losses, &log_alpha])?;
    let log_alpha = log_alpha.with_layout(batch.log_alpha_layout(call, 7, &log_alpha)?);
    let losses = losses.with_layout(by_batch(call, 6, &losses, batch.steps.len())?);
    let zero_infinity = call.flag(5)?;
    call.plan(move |memory| {
        let sequences = batch.sequences(memory)?;
        likelihoods(
            memory.parallel,
            sequences,
            memory.out(&losses),
            memory.out(&log_alpha),
            zero_infinity,
        );
        Ok(())
    })
}

/// Arguments: gradient of the losses, logarithms of probabilities, targets, lengths of both, losses, log-likelihoods
/// of prefixes, blank, whether an infinite loss is 0, out.
fn backward(call: &mut Call<'_>) -> Result<Plan> {
    let out = call.output(9)?;
    let batch = Batch::new(call, [1, 2, 3, 4, 7], &[&out])?;
    let (grad, losses, log_alpha) =
        (call.read(0, &[&out])?, call.read(5, &[&out])?, call.read(6, &[&out])?);
    let count = batch.steps.len();
    let (grad, losses) = (
        grad.with_layout(by_batch(call, 0, &grad, count)?),
        losses.with_layout(by_batch(call, 5, &losses, count)?),
    );
    let log_alpha = log_alpha.with_layout(batch.log_alpha_layout(call, 6, &log_alpha)?);
    call.expect_dtype(9, &out, REAL)?;
    let out =
        if batch.is_unbatched && out.rank() == 2 { out.with_layout(out.with(1)) } else { out };
    call.expect_dims(9, &out, batch.logarithms.dims())?;
    let zero_infinity = call.flag(8)?;
    let width = gradient_scratch(batch.logarithms.dims()[2], log_alpha.dims()[2]);
    let scratch = call.scratch(DType::Double, &[count, width]);
    call.plan(move |memory| {
        let sequences = batch.sequences(memory)?;
        gradients(
            memory.parallel,
            sequences,
            memory.out(&out),
            grad.view(memory),
            losses.view(memory),
            log_alpha.view(memory),
            memory.scratch(&scratch),
            zero_infinity,
        );
        Ok(())
    })
}

/// The rows of this family.
pub const ROWS: &[Row] = &[aclnn("CtcLoss", loss), aclnn("CtcLossBackward", backward)];

/// One number for each batch, and the likelihoods of beginnings of targets up to the longest.
fn infer_losses(call: &Call<'_>) -> Result<Vec<Layout>> {
    let (logarithms, targets) = (call.layout(0)?, call.layout(1)?);
    let &[steps, count, _] = logarithms.dims() else {
        let (name, dims) = (call.parameter(0), logarithms.dims());
        return Err(Error::invalid(format!(
            "{name} has the sizes {dims:?}: expected steps, batches and classes"
        )));
    };
    let longest = match targets.dims() {
        &[_, width] => width,
        _ => call.ints(3)?.into_iter().max().unwrap_or(0).max(0) as usize,
    };
    let width = longest.saturating_mul(2).saturating_add(1);
    let dtype = logarithms.dtype;
    Ok(vec![Layout::contiguous(dtype, &[count]), Layout::contiguous(dtype, &[count, steps, width])])
}

const BLANK: ArgSource = Attr("blank", AttrDefault::Int(0));
const NO_INFINITY: ArgSource = Attr("zero_infinity", AttrDefault::Flag(false));
/// Declared, but without effect: losses are those of each batch.
const REDUCTION: ArgSource = Attr("reduction", AttrDefault::Text("mean"));

/// The operators of this family by IR name.
pub const NODES: &[Node] = &[
    node(
        "CTCLossV2",
        &["log_probs", "targets", "input_lengths", "target_lengths"],
        &["neg_log_likelihood", "log_alpha"],
        Infer::By(infer_losses),
        loss,
        &[A(0), A(1), A(2), A(3), BLANK, NO_INFINITY, O(0), O(1), REDUCTION],
    )
    .needs_values(&[2, 3]),
    node(
        "CTCLossV2Grad",
        &[
            "grad_out",
            "log_probs",
            "targets",
            "input_lengths",
            "target_lengths",
            "neg_log_likelihood",
            "log_alpha",
        ],
        &["grad"],
        Infer::Like(1),
        backward,
        &[A(0), A(1), A(2), A(3), A(4), A(5), A(6), BLANK, NO_INFINITY, O(0), REDUCTION],
    )
    .needs_values(&[3, 4]),
];
