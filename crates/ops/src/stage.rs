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

    /// From now on it computes elementwise plans of its results before it stores them, one after the other: `next` has each, and
    /// what it says of each of its uses. The answer has what uses of this plan it added for others: a plan's index in
    /// `next`, and the use's index in that plan. `None` if it cannot be done; then nothing has changed.
    pub fn append(&mut self, next: &[(&Plan, &[StageUse])]) -> Option<Vec<(usize, usize)>> {
        self.takes_stages.then_some(())?;
        let ComputedStages { mut stages, mut slots } =
            self.stages.as_deref().cloned().unwrap_or_default();
        let bytes = |plan: &Plan| {
            let mut written = plan.uses.iter().filter(|one| one.access.writes);
            written.next().filter(|_| written.next().is_none()).map(|one| one.bytes)
        };
        let own_bytes = bytes(self)?;
        let whole = Pattern { inner: 1, count: own_bytes / size_of::<f32>() };
        let mut added = Vec::new();
        for (number, (plan, uses)) in next.iter().enumerate() {
            let OfferedStage { function, inputs } = plan.offered()?;
            (bytes(plan)? == own_bytes).then_some(())?;
            let mut sources = Vec::with_capacity(inputs.len());
            for input in inputs {
                sources.push(match input {
                    StageInput::Number(number) => Source::Number(number),
                    StageInput::Use(slot, pattern) => match uses[slot] {
                        StageUse::Result(at) if pattern == whole => Source::Value(at),
                        StageUse::Result(_) => return None,
                        StageUse::Other => {
                            slots.push(self.uses.len() + added.len());
                            added.push((number, slot));
                            Source::Operand(slots.len() - 1, pattern)
                        }
                    },
                });
            }
            stages = stages.followed_by(Stage { function, inputs: sources })?;
        }
        self.uses.extend(added.iter().map(|(number, slot)| next[*number].0.uses[*slot].clone()));
        self.stages = Some(Box::new(ComputedStages { stages, slots }));
        Some(added)
    }
}

/// What a use of an elementwise plan is to the plan that it is appended to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StageUse {
    /// A result: the plan's own is 0, that of the plan that was appended first 1.
    Result(usize),
    /// Any other tensor.
    Other,
}
