//! Branches and loops of a dynamic graph: what is before them is submitted, the value that decides is waited for, and the
//! graph that it chooses runs as a graph of its own, in memory from the same place.

use super::Run;
use super::memory::ValueMemory;
use super::planning::Planning;
use crate::compile::control::{Control, ControlNode};
use crate::compile::flow::Branch;
use crate::compile::operation::KnownTensor;
use crate::executable::{RunInput, RunOutput};
use crate::failure::Result;
use crate::run::graph_kernel::copy_task;
use crate::run::memory::MemorySource;
use bytes::Bytes;
use cairn_exec::upload;
use cairn_runtime::memory::purpose::Purpose;
use cairn_runtime::task::{Location, Span};

impl Run<'_> {
    /// Runs the graphs of a node.
    pub(super) fn run_control(
        &self,
        at: usize,
        node: &ControlNode,
        planning: &mut Planning,
        memory: &mut ValueMemory,
    ) -> Result<()> {
        let work = &self.flow.prepared.work_nodes[at];
        let branches = &self.flow.branches[&at];
        self.launch_planned(planning, memory)?;
        let mut inputs = Vec::with_capacity(work.inputs.len());
        for value in work.inputs.iter().flatten() {
            let tensor = planning.tensors[*value].clone().expect("a value of a node before");
            inputs.push(match tensor.bytes {
                Some(bytes) => RunInput { layout: tensor.layout, address: 0, host: Some(bytes) },
                None => {
                    let root = self.flow.roots[*value];
                    let address = self.address(root, &planning.hosted, memory)?;
                    RunInput { layout: tensor.layout, address, host: None }
                }
            });
        }
        let outputs = match node.control {
            Control::While => self.run_loop(node, branches, inputs, work.outputs.len())?,
            control => {
                let selector = &inputs[0];
                let is_single = selector.layout.count() == 1;
                let chosen = match control {
                    Control::If if !is_single => usize::from(selector.layout.count() == 0),
                    _ => {
                        let bytes = self.value_of(&node.name, selector)?;
                        control.choose(&bytes, selector.layout.dtype, branches.len())
                    }
                };
                self.run_branch(node, &branches[chosen], &inputs)?
            }
        };
        for (value, output) in work.outputs.iter().zip(outputs) {
            let root = self.flow.roots[*value];
            planning.tensors[*value] = Some(KnownTensor { layout: output.layout, bytes: None });
            memory.addresses[root] = output.address;
            memory.blocks[root] = output.block;
        }
        self.free_ended(&self.flow.ends[at], memory)
    }

    /// Runs the body as long as the condition says so. The blocks of one time go back before the next begins.
    fn run_loop(
        &self,
        node: &ControlNode,
        branches: &[Branch],
        mut inputs: Vec<RunInput>,
        count: usize,
    ) -> Result<Vec<RunOutput>> {
        let (condition, body) = (&branches[0], &branches[1]);
        let mut state: Option<Vec<RunOutput>> = None;
        loop {
            let condition_outputs = self.run_branch(node, condition, &inputs)?;
            let condition_value = input_of(&condition_outputs[0]);
            let bytes = self.value_of(&node.name, &condition_value)?;
            drop(condition_outputs);
            if Control::If.choose(&bytes, condition_value.layout.dtype, 2) == 1 {
                break;
            }
            let body_outputs = self.run_branch(node, body, &inputs)?;
            for (input, output) in inputs.iter_mut().zip(&body_outputs) {
                *input = input_of(output);
            }
            state = Some(body_outputs);
        }
        match state {
            Some(state) => Ok(state),
            None => inputs[..count].iter().map(|input| self.copy_input(node, input)).collect(),
        }
    }

    /// What a loop that never ran hands out: its input, in memory of its own.
    fn copy_input(&self, node: &ControlNode, input: &RunInput) -> Result<RunOutput> {
        let (target, layout) = (self.source.target, input.layout);
        let padded = target.padded_tensor_bytes(layout.bytes());
        let block = self.source.take(Purpose::Intermediate, Some(node.kind), padded)?;
        let (address, device) = (block.address(), target.device());
        match &input.host {
            Some(bytes) => {
                let prefix = Some(format!("{}, node {}", self.label, node.name));
                target.stream.submit(upload("graph value", bytes, address, device, prefix))?;
            }
            None if layout.bytes() > 0 => {
                let location = Location::Device(device);
                let span = |address| Span { address, bytes: layout.bytes(), location };
                let what = format!("node {}", node.name);
                let copy = copy_task(span(input.address), span(address), self.label, &what);
                target.stream.submit(copy)?;
            }
            None => {}
        }
        Ok(RunOutput { layout, address, block: Some(block) })
    }

    /// Runs one graph of a node.
    fn run_branch(
        &self,
        node: &ControlNode,
        branch: &Branch,
        inputs: &[RunInput],
    ) -> Result<Vec<RunOutput>> {
        let fed: Vec<RunInput> = branch.feeds.iter().map(|at| inputs[*at].clone()).collect();
        let label = format!("{}, node {}", self.label, node.name);
        let requested = vec![None; branch.flow.prepared.outputs.len()];
        let MemorySource { target, graph, loaded, callers } = &self.source;
        let source =
            MemorySource { target, graph: *graph, loaded: *loaded, callers: callers.clone() };
        Run {
            flow: &branch.flow,
            label: &label,
            source,
            constants: self.constants,
            constants_task: self.constants_task,
            inputs: &fed,
            requested: &requested,
        }
        .run(&branch.plans)
    }

    /// The bytes of a value, which the run waits for if the device computes it.
    fn value_of(&self, node: &str, value: &RunInput) -> Result<Bytes> {
        match &value.host {
            Some(bytes) => Ok(bytes.clone()),
            None => self.read_value(node, value.address, value.layout.bytes()),
        }
    }
}

/// An output of one graph as an input of another.
fn input_of(output: &RunOutput) -> RunInput {
    RunInput { layout: output.layout, address: output.address, host: None }
}
