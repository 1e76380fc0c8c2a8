//! One run of a dynamic graph: sizes first, then memory and a task for each node.
//!
//! `planning.rs` finds out sizes and computes small values on the host, so that sizes seldom wait for the device;
//! where one depends on what the device computes, `waiting.rs` waits for it. `custom.rs` calls operators that the user
//! registered. `launch.rs` takes memory (`memory.rs`) and submits, `outputs.rs` hands out. What was planned for some
//! sizes is kept (`plans.rs`).

mod control;
mod custom;
mod launch;
mod memory;
mod outputs;
mod planning;
mod plans;
mod waiting;

pub use custom::{CustomCall, CustomTensor};
pub use plans::{HOST_LIMIT, Plans};

use super::memory::MemorySource;
use crate::compile::flow::Flow;
use crate::executable::{OutputMemory, RunInput, RunOutput};
use crate::failure::Result;
use cairn_runtime::stream::Stream;
use memory::ValueMemory;
use std::sync::Arc;

/// A run of a dynamic graph, on tensors that were checked.
pub struct Run<'a> {
    /// The graph.
    pub flow: &'a Flow,
    /// What it is called.
    pub label: &'a str,
    /// Where memory comes from, and the stream.
    pub source: MemorySource<'a>,
    /// Where the constants are.
    pub constants: usize,
    /// The task that brings them, and its stream, where a custom operator may read them itself.
    pub constants_task: Option<&'a (Arc<Stream>, u64)>,
    /// What comes in.
    pub inputs: &'a [RunInput],
    /// Memory of the caller, by output.
    pub requested: &'a [Option<OutputMemory>],
}

impl Run<'_> {
    /// Runs: everything is submitted when it returns. Outputs come in order.
    pub fn run(&self, plans: &Plans) -> Result<Vec<RunOutput>> {
        let key = plans::key(self.inputs);
        let mut memory = ValueMemory::new(self.flow.roots.len());
        let plan = match plans.get(&key) {
            Some(plan) => {
                self.check_outputs(&plan.outputs)?;
                self.launch(&plan.steps, &plan.hosted, &mut memory)?;
                plan
            }
            None => {
                let (plan, is_reusable) = self.plan(&mut memory)?;
                let plan = Arc::new(plan);
                if is_reusable {
                    plans.keep(key, plan.clone());
                }
                plan
            }
        };
        self.outputs(&plan, &mut memory)
    }
}
