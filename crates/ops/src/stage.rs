//! Elementwise plans as stages of another plan, which computes them of its own results before it stores them.

use crate::error::Outcome;
use crate::plan::{Memory, Plan};
use cairn_tensor::kernels::epilogue::{Epilogue, Function, Pattern, Source, Stage, Stages};
use cairn_tensor::{DType, Layout, View};
use smallvec::SmallVec;

/// What an elementwise plan computes, in `f32`, of tensors without gaps.
pub(crate) struct OfferedStage {
    pub(crate) function: Function,
    pub(crate) inputs: SmallVec<[StageInput; 3]>,
}

/// Where a stage finds an input.
#[derive(Clone, Copy)]
pub(crate) enum StageInput {
    /// A use of the plan that offers it.
    Use(usize, Pattern),
    Number(f32),
}

/// The stages that a plan computes.
#[derive(Clone, Default)]
pub(crate) struct ComputedStages {
    stages: Stages,
    /// The use of each operand.
    slots: Vec<usize>,
}

impl ComputedStages {
    /// Calls `run` with the memory and its epilogue.
    pub(crate) fn with_epilogue(
        &self,
        memory: &Memory<'_>,
        run: impl FnOnce(&Memory<'_>) -> Outcome,
    ) -> Outcome {
        let operands: SmallVec<[View<'_>; 4]> = { self.slots.iter() }
            .map(|slot| {
                let bytes = memory.uses[*slot];
                let layout = Layout::contiguous(DType::Float, &[bytes.len() / size_of::<f32>()]);
                View::over(bytes, layout).expect("as many elements as there are bytes")
            })
            .collect();
        let epilogue = Epilogue::new(&self.stages, &operands);
        run(&Memory { epilogue: Some(&epilogue), ..*memory })
    }
}

impl Plan {
    /// Whether stages can be appended: see [`Plan::append`].
    pub fn takes_stages(&self) -> bool {
        self.takes_stages
    }

    /// From now on it computes `next`, an elementwise plan, of its results before it stores them. `value` says of each use
    /// of `next` whether it is a result: 0 is this plan's own, 1 that of the plan that was appended first. Other uses are
    /// read, and become uses of this plan: the answer has their indices in `next`, in order. `None` if it cannot be done; then
    /// nothing has changed.
    pub fn append(
        &mut self,
        next: &Plan,
        value: impl Fn(usize) -> Option<usize>,
    ) -> Option<Vec<usize>> {
        let offered = next.offered().filter(|_| self.takes_stages)?;
        let is_written = |one: &&crate::plan::Use| one.access.writes;
        let bytes = next.uses.iter().find(is_written)?.bytes;
        if self.uses.iter().filter(is_written).map(|one| one.bytes).ne([bytes]) {
            return None;
        }
        let whole = Pattern { inner: 1, count: bytes / size_of::<f32>() };
        let ComputedStages { stages, mut slots } =
            self.stages.as_deref().cloned().unwrap_or_default();
        let mut added = Vec::new();
        let mut inputs = Vec::new();
        for input in &offered.inputs {
            inputs.push(match *input {
                StageInput::Number(number) => Source::Number(number),
                StageInput::Use(slot, pattern) => match value(slot) {
                    Some(value) if pattern == whole => Source::Value(value),
                    Some(_) => return None,
                    None => {
                        slots.push(self.uses.len() + added.len());
                        added.push(slot);
                        Source::Operand(slots.len() - 1, pattern)
                    }
                },
            });
        }
        let stages = stages.followed_by(Stage { function: offered.function.clone(), inputs })?;
        self.uses.extend(added.iter().map(|slot| next.uses[*slot].clone()));
        self.stages = Some(Box::new(ComputedStages { stages, slots }));
        Some(added)
    }
}
