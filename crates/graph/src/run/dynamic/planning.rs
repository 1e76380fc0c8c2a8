//! Sizes on the host: each node inferred and planned, small ones computed there.

use super::Run;
use super::memory::ValueMemory;
use super::plans::{HOST_LIMIT, HostedValues, Plan, Step};
use crate::compile::flow::Origin;
use crate::compile::operation::{KnownTensor, Operation};
use crate::compile::prepare::{ValueId, Work, WorkNode};
use crate::failure::{Failure, Result};
use cairn_exec::{CallKind, Execution, Outcome, refusal};
use cairn_ops::Error;
use cairn_tensor::Layout;
use smallvec::SmallVec;
use std::collections::HashMap;
use std::sync::Arc;

/// A plan in the making.
pub struct Planning {
    /// What is known of each value so far.
    pub tensors: Vec<Option<KnownTensor>>,
    /// Values that were computed on the host.
    pub hosted: HostedValues,
    /// The nodes that run on the device.
    pub steps: Vec<Step>,
    /// How many of them were launched.
    pub launched: usize,
    /// Whether the plan serves other runs: no size came from the device.
    pub is_reusable: bool,
}

impl Planning {
    /// Forgets the bytes that were known of a value and of those that share its memory: they were overwritten.
    pub fn forget(&mut self, roots: &[ValueId], value: ValueId) {
        let shared = roots.iter().zip(&mut self.tensors).filter(|(root, _)| **root == roots[value]);
        for tensor in shared.filter_map(|(_, tensor)| tensor.as_mut()) {
            tensor.bytes = None;
        }
    }
}

impl Run<'_> {
    /// Plans all nodes, and launches them. Where a size depends on the device, what is planned is launched
    /// first.
    pub(super) fn plan(&self, memory: &mut ValueMemory) -> Result<(Plan, bool)> {
        let prepared = &self.flow.prepared;
        let mut planning = Planning {
            tensors: (prepared.values.iter().zip(&self.flow.origins))
                .map(|(info, origin)| {
                    let is_constant = matches!(origin, Origin::Constant(_));
                    (is_constant || info.bytes.is_some()).then(|| info.known_tensor()).flatten()
                })
                .collect(),
            hosted: HashMap::new(),
            steps: Vec::new(),
            launched: 0,
            is_reusable: true,
        };
        for (input, tensor) in prepared.inputs.iter().zip(self.inputs) {
            let bytes = tensor.host.clone().filter(|bytes| bytes.len() <= HOST_LIMIT);
            planning.tensors[input.value] = Some(KnownTensor { layout: tensor.layout, bytes });
        }
        for work in 0..prepared.work_nodes.len() {
            self.plan_node(work, &mut planning, memory)?;
        }
        let outputs: Vec<Layout> = (prepared.outputs.iter())
            .map(|output| {
                planning.tensors[output.value].as_ref().expect("an output of a node").layout
            })
            .collect();
        if planning.launched == 0 {
            self.check_outputs(&outputs)?;
        }
        self.launch(&planning.steps[planning.launched..], &planning.hosted, memory)?;
        let Planning { steps, hosted, is_reusable, .. } = planning;
        Ok((Plan { steps, outputs, hosted }, is_reusable))
    }

    /// Infers and plans one node, or computes it on the host.
    fn plan_node(
        &self,
        at: usize,
        planning: &mut Planning,
        memory: &mut ValueMemory,
    ) -> Result<()> {
        let prepared = &self.flow.prepared;
        let work = &prepared.work_nodes[at];
        let operation = match &work.work {
            Work::Operation(operation) => operation,
            Work::Custom(custom) => return self.call_custom(at, custom, planning, memory),
            Work::Control(control) => return self.run_control(at, control, planning, memory),
            Work::Jump(_) => return Ok(()),
        };
        let failed = |text: &str| {
            let (name, kind) = (&operation.name, operation.row.name);
            Failure::failed(format!("{}, node {name} ({kind}): {text}", self.label))
        };
        let refused = |error: Error| {
            let code = refusal(CallKind::ByName, operation.row.name, &error).code;
            Failure { code, ..failed(error.text()) }
        };
        let mut inputs = input_tensors(work, planning);
        let layouts = match operation.infer(&inputs) {
            Err(Error::NeedsValues(_)) => {
                self.fetch(at, planning, memory)?;
                inputs = input_tensors(work, planning);
                operation.infer(&inputs)
            }
            inferred => inferred,
        };
        let layouts = layouts.map_err(refused)?;
        if layouts.len() < work.outputs.len() {
            return Err(failed("fewer outputs come out than the graph says"));
        }
        let layouts = &layouts[..work.outputs.len()];
        let bytes: usize = layouts.iter().map(Layout::bytes).sum();
        let marks = operation.row.marks;
        let in_place = work.in_place_outputs();
        let needs_device = marks.sized_by_values || marks.runs_each_time() || !in_place.is_empty();
        if bytes <= HOST_LIMIT && !needs_device && self.is_hosted(operation, &inputs) {
            let computed = operation.compute(&inputs, layouts).map_err(|text| failed(&text))?;
            if let Some(results) = computed {
                for ((value, layout), bytes) in work.outputs.iter().zip(layouts).zip(results) {
                    planning.tensors[*value] =
                        Some(KnownTensor { layout: *layout, bytes: Some(bytes.clone()) });
                    planning.hosted.insert(self.flow.roots[*value], bytes);
                }
                return Ok(());
            }
        }
        for (value, layout) in work.outputs.iter().zip(layouts) {
            planning.tensors[*value] = Some(KnownTensor { layout: *layout, bytes: None });
        }
        for (_, input) in &in_place {
            planning.forget(&self.flow.roots, *input);
        }
        if work.is_view {
            let bytes = inputs[0].as_ref().and_then(|tensor| tensor.bytes.clone());
            planning.tensors[work.outputs[0]].as_mut().expect("the tensor was just set").bytes =
                bytes;
            return Ok(());
        }
        let roots = &self.flow.roots;
        let fed = work.inputs.iter().map(|value| value.map_or(usize::MAX, |value| roots[value]));
        let shared: SmallVec<[usize; 8]> =
            fed.chain(work.outputs.iter().map(|value| roots[*value])).collect();
        let plan = match operation.plan_sharing(&inputs, layouts, &shared) {
            Err(Error::NeedsValues(_)) => {
                self.fetch(at, planning, memory)?;
                inputs = input_tensors(work, planning);
                operation.plan_sharing(&inputs, layouts, &shared)
            }
            planned => planned,
        };
        let plan = plan.map_err(refused)?;
        let uses = (plan.uses.iter())
            .map(|one| {
                let index = one.argument.0 + one.argument.1;
                let value = match index.checked_sub(inputs.len()) {
                    None => work.inputs[index].expect("a use of an input that is there"),
                    Some(output) => work.outputs[output],
                };
                (roots[value], one.byte_offset)
            })
            .collect();
        let is_in_place = |at: usize| in_place.iter().any(|(output, _)| *output == at);
        let allocations: SmallVec<[(ValueId, usize); 2]> = (work.outputs.iter().zip(layouts))
            .enumerate()
            .filter(|(at, _)| !is_in_place(*at))
            .map(|(_, (value, layout))| (roots[*value], layout.bytes()))
            .collect();
        let ends = self.flow.ends[at].iter().copied().collect();
        let outcome: Arc<Outcome> = Arc::default();
        let node = format!("{}, node {}", self.label, operation.name);
        let execution = Execution::watched(operation.row.name, plan, outcome.clone(), Some(node));
        planning.steps.push(Step { node: at, execution, outcome, uses, allocations, ends });
        if marks.sized_by_values {
            for ((index, inner), sizes) in self.decided_sizes(at, planning, memory)? {
                let output = (index + inner).checked_sub(inputs.len());
                if let Some(value) = output.and_then(|output| work.outputs.get(output)) {
                    let tensor =
                        planning.tensors[*value].as_mut().expect("the tensor was just set");
                    tensor.layout = Layout::contiguous(tensor.layout.dtype, &sizes);
                }
            }
        }
        Ok(())
    }

    /// Whether a node is computed on the host: all it is fed is known there and small.
    fn is_hosted(&self, operation: &Operation, inputs: &[Option<KnownTensor>]) -> bool {
        let known = inputs
            .iter()
            .flatten()
            .all(|tensor| tensor.bytes.as_ref().is_some_and(|bytes| bytes.len() <= HOST_LIMIT));
        (known && inputs.iter().flatten().next().is_some()) || operation.row.marks.from_shapes
    }
}

/// What is known of a node's inputs.
fn input_tensors(work: &WorkNode, planning: &Planning) -> Vec<Option<KnownTensor>> {
    work.inputs.iter().map(|value| value.and_then(|at| planning.tensors[at].clone())).collect()
}
