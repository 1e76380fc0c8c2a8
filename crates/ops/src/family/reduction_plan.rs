//! What reductions have in common: the dimensions that are reduced, the sizes of the result, the workspace for partial
//! results.

use crate::call::Call;
use crate::error::{Error, Result};
use crate::plan::{Memory, Operand, Plan, Scratch};
use cairn_tensor::kernels::copy::copy;
use cairn_tensor::kernels::element::Compute;
use cairn_tensor::kernels::reduce::{Fold, ReductionDims, reduce};
use cairn_tensor::{DType, Dims, Layout, View, ViewMut};

/// Whether each dimension of a tensor is reduced.
pub type Axes = cairn_tensor::DimArray<bool>;

/// An input that may be an output itself, element by element; copied to the workspace first where it overlaps one otherwise.
#[derive(Clone, Copy)]
pub struct InPlaceInput {
    operand: Operand,
    copied: Option<Scratch>,
}

impl InPlaceInput {
    /// The layout that the kernel sees.
    pub fn layout(&self) -> Layout {
        self.copied.map_or(*self.operand.layout(), |scratch| *scratch)
    }

    /// The elements; a copy is made here, before anything is written.
    pub fn view<'m>(&self, memory: &Memory<'m>) -> View<'m> {
        let Some(scratch) = &self.copied else {
            return memory.view(&self.operand);
        };
        let copied = memory.scratch(scratch);
        copy(memory.parallel, copied, memory.view(&self.operand));
        copied.view()
    }
}

/// What finalizes a reduction with one output: the accumulator is the result.
pub fn single_result<C: Compute>(acc: C) -> (C, bool) {
    (acc, false)
}

/// A reduction that is planned: how its input is split, and the scratch for partial results.
#[derive(Clone, Copy)]
pub struct ReductionPlan {
    dims: ReductionDims,
    partial: Option<Scratch>,
}

impl ReductionPlan {
    /// Reduces `a`; see [`reduce`].
    pub fn run<F: Fold, R: Compute, S: Compute>(
        &self,
        memory: &Memory<'_>,
        a: View<'_>,
        fold: F,
        outs: (ViewMut<'_>, Option<ViewMut<'_>>),
        finalize: impl Fn(F::Accumulator) -> (R, S) + Sync,
    ) {
        let partial = self.partial.map(|scratch| memory.scratch(&scratch));
        reduce(memory.parallel, a, &self.dims, fold, partial, outs, finalize);
    }

    /// How many elements become one.
    pub fn count(&self) -> usize {
        self.dims.count()
    }
}

impl Call<'_> {
    /// The dimensions that a list names; all of them when it is empty or absent, unless `noop` says that
    /// an empty list names none.
    pub fn axes(&self, at: usize, rank: usize, noop: bool) -> Result<Axes> {
        let dims = if self.has(at) { self.ints(at)? } else { Vec::new() };
        if dims.is_empty() {
            return Ok(Axes::filled(rank, !noop));
        }
        let mut axes = Axes::filled(rank, false);
        for dim in dims {
            let axis_index = self.wrap(at, dim, rank)?;
            match axes.get_mut(axis_index) {
                Some(axis) if *axis => {
                    let name = self.parameter(at);
                    return Err(Error::invalid(format!("{name} names dimension {dim} twice")));
                }
                Some(axis) => *axis = true,
                None => {}
            }
        }
        Ok(axes)
    }

    /// The same input, safe to read while the outputs are written.
    pub fn in_place_input(&mut self, operand: Operand, outs: &[&Operand]) -> InPlaceInput {
        let overlaps = outs.iter().any(|out| self.has_partial_overlap(&operand, out));
        let copied = overlaps.then(|| self.scratch(operand.dtype, operand.dims()));
        InPlaceInput { operand, copied }
    }

    /// The same input, copied to the workspace in any case.
    pub fn copied_input(&mut self, operand: Operand) -> InPlaceInput {
        let copied = Some(self.scratch(operand.dtype, operand.dims()));
        InPlaceInput { operand, copied }
    }

    /// An output of a reduction of `dims`, without the dimensions that are reduced. Where none is left, an output of size [1]
    /// is accepted too.
    pub fn reduced_output(
        &mut self,
        at: usize,
        dims: &[usize],
        axes: &Axes,
        keep: bool,
    ) -> Result<Operand> {
        let out = self.output(at)?;
        let expected = reduced_dims(dims, axes, keep);
        let out = match expected.is_empty() && out.dims() == [1] {
            true => out.with_layout(out.without(0)),
            false => out,
        };
        self.expect_dims(at, &out, &expected)?;
        Ok(match keep {
            true => squeezed(out, axes),
            false => out,
        })
    }

    /// Plans a reduction of a tensor of this layout. It needs [`ReductionDims::partials`] bytes.
    pub fn plan_reduction<F: Fold>(
        &mut self,
        layout: &Layout,
        axes: &Axes,
        _fold: &F,
    ) -> ReductionPlan {
        let dims = ReductionDims::new(layout, axes);
        let bytes = dims.partials::<F>();
        let partial = (bytes > 0).then(|| self.scratch(DType::Uint8, &[bytes]));
        ReductionPlan { dims, partial }
    }

    /// The plan of a whole reduction: every result goes through `finalize` to one or two outputs.
    pub fn fold<F: Fold, R: Compute, S: Compute>(
        &mut self,
        a: Operand,
        axes: &Axes,
        outs: (Operand, Option<Operand>),
        fold: F,
        finalize: impl Fn(F::Accumulator) -> (R, S) + Send + Sync + 'static,
    ) -> Result<Plan> {
        let second = outs.1.unwrap_or(outs.0);
        let a = self.in_place_input(a, &[&outs.0, &second]);
        let reduction_plan = self.plan_reduction(&a.layout(), axes, &fold);
        self.plan(move |memory| {
            let targets = (memory.out(&outs.0), outs.1.map(|out| memory.out(&out)));
            reduction_plan.run(memory, a.view(memory), fold, targets, &finalize);
            Ok(())
        })
    }
}

/// The sizes after a reduction.
pub fn reduced_dims(dims: &[usize], axes: &Axes, keep: bool) -> Dims {
    let sizes = dims.iter().zip(axes.iter());
    match keep {
        true => sizes.map(|(size, axis)| if *axis { 1 } else { *size }).collect(),
        false => sizes.filter(|(_, axis)| !**axis).map(|(size, _)| *size).collect(),
    }
}

/// The tensor without the dimensions of size 1 that a reduction kept.
pub fn squeezed(out: Operand, axes: &Axes) -> Operand {
    let mut layout = *out.layout();
    for at in (0..axes.len()).rev().filter(|at| axes[*at]) {
        layout = layout.without(at);
    }
    out.with_layout(layout)
}
