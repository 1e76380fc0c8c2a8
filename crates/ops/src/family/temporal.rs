//! The loss of connectionist temporal classification, and its gradient.
//!
//! Workspace: the gradient takes, for each batch, two numbers of `f64` for each position of the labels with blanks, and
//! one for each class.

use super::inputs::UnaliasedInput;
use crate::call::Call;
use crate::error::{Error, Fault, Result};
use crate::plan::{Memory, Operand, Plan};
use crate::table::{Row, aclnn};
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
    single: bool,
    name: &'static str,
}

impl Batch {
    /// Indices: logarithms of probabilities, targets, lengths of both, blank.
    fn new(call: &mut Call<'_>, indices: [usize; 5], outs: &[&Operand]) -> Result<Batch> {
        let [logarithms, targets, steps, labels, blank] = indices;
        let of = call.read(logarithms, outs)?;
        call.expect_dtype(logarithms, &of, REAL)?;
        let single = of.rank() == 2;
        let of = if single { of.with_layout(of.with(1)) } else { of };
        let &[most, count, classes] = of.dims() else {
            let (name, dims) = (call.parameter(logarithms), of.dims());
            return Err(Error::invalid(format!(
                "{name} has the sizes {dims:?}: expected steps, batches and classes"
            )));
        };
        let named = call.read(targets, outs)?;
        call.expect_dtype(targets, &named, &[DType::Int64, DType::Int32, DType::Bool])?;
        let lengths = |at: usize, most: usize| -> Result<Vec<usize>> {
            let values = call.ints(at)?;
            let name = call.parameter(at);
            let sizes: Option<Vec<usize>> = (values.iter())
                .map(|one| usize::try_from(*one).ok().filter(|one| *one <= most))
                .collect();
            match sizes.filter(|sizes| sizes.len() == count) {
                Some(sizes) => Ok(sizes),
                None => Err(Error::invalid(format!(
                    "{name} = {values:?}: expected {count} lengths from 0 to {most}"
                ))),
            }
        };
        let steps = lengths(steps, most)?;
        let most_labels = match *named.dims() {
            [rows, width] if rows == count => width,
            [all] => all,
            ref dims => {
                let name = call.parameter(targets);
                return Err(Error::invalid(format!(
                    "{name} has the sizes {dims:?}, {count} batches have others"
                )));
            }
        };
        let labels = lengths(labels, most_labels)?;
        if named.rank() == 1 && labels.iter().sum::<usize>() > most_labels {
            let (name, want) = (call.parameter(targets), labels.iter().sum::<usize>());
            return Err(Error::invalid(format!(
                "{name} has {most_labels} labels, {want} are named"
            )));
        }
        let number = call.int(blank)?;
        let Some(blank) = usize::try_from(number).ok().filter(|one| *one < classes) else {
            let name = call.parameter(blank);
            return Err(Error::invalid(format!("{name} = {number} is none of {classes} classes")));
        };
        let name = call.parameter(targets);
        Ok(Batch { logarithms: of, targets: named, steps, labels, blank, single, name })
    }

    fn width(&self) -> usize {
        2 * self.labels.iter().copied().max().unwrap_or(0) + 1
    }

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

    /// The layout of a tensor of the likelihoods of beginnings: batches, steps, positions.
    fn beginnings(&self, call: &Call<'_>, at: usize, layout: &Layout) -> Result<Layout> {
        call.expect_dtype(at, layout, REAL)?;
        let layout = if self.single && layout.rank() == 2 { layout.with(0) } else { *layout };
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

/// A number for each batch, as a row.
fn row(call: &Call<'_>, at: usize, layout: &Layout, count: usize) -> Result<Layout> {
    call.expect_dtype(at, layout, REAL)?;
    layout.reshaped(&[count]).ok_or_else(|| {
        let (name, dims) = (call.parameter(at), layout.dims());
        Error::invalid(format!("{name} has the sizes {dims:?}: expected [{count}]"))
    })
}

/// Arguments: logarithms of probabilities, targets, lengths of both, blank, whether an infinite loss is 0, losses,
/// likelihoods of beginnings.
fn loss(call: &mut Call<'_>) -> Result<Plan> {
    let (losses, beginnings) = (call.output(6)?, call.output(7)?);
    let batch = Batch::new(call, [0, 1, 2, 3, 4], &[&losses, &beginnings])?;
    let beginnings = beginnings.with_layout(batch.beginnings(call, 7, &beginnings)?);
    let losses = losses.with_layout(row(call, 6, &losses, batch.steps.len())?);
    let zero = call.flag(5)?;
    call.plan(move |memory| {
        let sequences = batch.sequences(memory)?;
        likelihoods(memory.parallel, sequences, memory.out(&losses), memory.out(&beginnings), zero);
        Ok(())
    })
}

/// Arguments: gradient of the losses, logarithms of probabilities, targets, lengths of both, losses, likelihoods of
/// beginnings, blank, whether an infinite loss is 0, out.
fn backward(call: &mut Call<'_>) -> Result<Plan> {
    let out = call.output(9)?;
    let batch = Batch::new(call, [1, 2, 3, 4, 7], &[&out])?;
    let (grad, losses, beginnings) =
        (call.read(0, &[&out])?, call.read(5, &[&out])?, call.read(6, &[&out])?);
    let count = batch.steps.len();
    let (grad, losses) = (
        grad.with_layout(row(call, 0, &grad, count)?),
        losses.with_layout(row(call, 5, &losses, count)?),
    );
    let beginnings = beginnings.with_layout(batch.beginnings(call, 6, &beginnings)?);
    call.expect_dtype(9, &out, REAL)?;
    let out = if batch.single && out.rank() == 2 { out.with_layout(out.with(1)) } else { out };
    call.expect_dims(9, &out, batch.logarithms.dims())?;
    let zero = call.flag(8)?;
    let width = gradient_scratch(batch.logarithms.dims()[2], beginnings.dims()[2]);
    let scratch = call.scratch(DType::Double, &[count, width]);
    call.plan(move |memory| {
        let sequences = batch.sequences(memory)?;
        gradients(
            memory.parallel,
            sequences,
            memory.out(&out),
            grad.view(memory),
            losses.view(memory),
            beginnings.view(memory),
            memory.scratch(&scratch),
            zero,
        );
        Ok(())
    })
}

/// The rows of this family.
pub const ROWS: &[Row] = &[aclnn("CtcLoss", loss), aclnn("CtcLossBackward", backward)];
