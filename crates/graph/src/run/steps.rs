//! What the steps of a pass touch, for the record.

use crate::compile::program::{Action, Region, Slice, Step};
use cairn_runtime::record::event::{self, StepAccess};
use cairn_runtime::record::{Access, Mode};

/// The steps of a pass, over the regions it touches, which are numbered as they come.
pub fn event_steps(steps: &[Step], regions: &[Region]) -> Vec<event::Step> {
    steps.iter().map(|step| reported_step(step, regions)).collect()
}

fn reported_step(step: &Step, regions: &[Region]) -> event::Step {
    let step_access = |slice: &Slice, access: Access| {
        let region = regions.binary_search(&slice.region).ok().filter(|_| slice.bytes > 0)?;
        Some(StepAccess { region: region as u32, access })
    };
    let range = |slice: &Slice, mode| Access::range(slice.start, slice.bytes as u64, mode);
    let uses = step.uses.iter().enumerate().filter_map(|(at, one)| {
        let access = match &step.action {
            Action::One(plan) => cairn_exec::access(&plan.uses[at], one.slice.start),
            Action::Fused(_) | Action::Jump(..) => range(&one.slice, cairn_exec::mode(one.access)),
        };
        step_access(&one.slice, access)
    });
    let workspace = step_access(&step.workspace, range(&step.workspace, Mode::Write));
    event::Step { node: step.name.to_string(), accesses: uses.chain(workspace).collect() }
}
