//! Planned nodes on the stream: memory for the outputs of each, its task, and what no later node needs given back.

use super::Run;
use super::memory::ValueMemory;
use super::plans::{HostedValues, Step};
use crate::compile::flow::Origin;
use crate::compile::prepare::ValueId;
use crate::executable::{OutputMemory, shares_input};
use crate::failure::{Failure, Result};
use cairn_exec::upload;
use cairn_runtime::memory::allocator::Block;
use cairn_runtime::memory::purpose::Purpose;
use cairn_runtime::soc;
use smallvec::SmallVec;

impl Run<'_> {
    /// Takes memory for steps and submits them, in order; gives the number of the last task. Memory that is not needed
    /// any more goes back at once.
    pub(super) fn launch(
        &self,
        steps: &[Step],
        hosted: &HostedValues,
        memory: &mut ValueMemory,
    ) -> Result<Option<u64>> {
        let mut last = None;
        for step in steps {
            let launched = self.launch_one(step, hosted, memory);
            last = Some(launched.map_err(|failure| {
                let work = &self.flow.prepared.work_nodes[step.node];
                let (name, kind) = (work.name(), work.kind());
                failure.in_context(format!("{}, node {name} ({kind})", self.label))
            })?);
            self.free_ended(&step.ends, memory)?;
        }
        Ok(last)
    }

    /// Gives back the memory of values that no later node needs.
    pub(super) fn free_ended(&self, ended: &[ValueId], memory: &mut ValueMemory) -> Result<()> {
        for value in ended {
            if let Some(block) = memory.take_block(*value) {
                block.free()?;
            }
        }
        Ok(())
    }

    /// Memory for a value that a node makes: the caller's, where the value is an output and fits there, else a block.
    pub(super) fn take_value_memory(
        &self,
        root: ValueId,
        bytes: usize,
        operator: &'static str,
        memory: &mut ValueMemory,
    ) -> Result<usize> {
        let output = match self.flow.origins[root] {
            Origin::ComputedFor(at) => Some(at),
            _ => None,
        };
        let callers_memory = output.and_then(|at| self.requested.get(at).copied().flatten());
        let callers_memory = callers_memory.filter(|OutputMemory { address, bytes: have }| {
            *have >= bytes
                && !shares_input(self.inputs, *address, bytes)
                && !output.is_some_and(|at| self.overlaps(at, *address, bytes))
        });
        if let Some(OutputMemory { address, .. }) = callers_memory {
            memory.addresses[root] = address;
            return Ok(address);
        }
        let purpose = if output.is_some() { Purpose::Output } else { Purpose::Intermediate };
        let padded = self.source.target.padded_tensor_bytes(bytes);
        Ok(memory.hold(root, self.source.take(purpose, Some(operator), padded)?))
    }

    /// Submits one step; gives the number of its task.
    fn launch_one(
        &self,
        step: &Step,
        hosted: &HostedValues,
        memory: &mut ValueMemory,
    ) -> Result<u64> {
        for (root, bytes) in &step.allocations {
            if memory.addresses[*root] == 0 {
                self.take_value_memory(*root, *bytes, step.execution.name, memory)?;
            }
        }
        let mut addresses: SmallVec<[usize; 6]> = SmallVec::new();
        for (root, byte_offset) in &step.uses {
            addresses.push(self.address(*root, hosted, memory)?.wrapping_add_signed(*byte_offset));
        }
        let workspace = match step.execution.workspace() {
            0 => None,
            bytes => {
                let padded = soc::padded_workspace_bytes(bytes as u64).unwrap_or(u64::MAX);
                Some(self.source.take(Purpose::Workspace, Some(step.execution.name), padded)?)
            }
        };
        let workspace_address = workspace.as_ref().map_or(0, Block::address);
        let stream = &self.source.target.stream;
        let seq = step.execution.submit(stream, &addresses, workspace_address)?;
        if let Some(block) = workspace {
            block.free()?;
        }
        Ok(seq)
    }

    /// Where a value is; brings it to the device if it is on the host.
    pub(super) fn address(
        &self,
        root: ValueId,
        hosted: &HostedValues,
        memory: &mut ValueMemory,
    ) -> Result<usize> {
        if memory.addresses[root] != 0 {
            return Ok(memory.addresses[root]);
        }
        let (bytes, purpose, what) = match self.flow.origins[root] {
            Origin::Constant(start) => return Ok(self.constants + start as usize),
            Origin::Input(at) => match &self.inputs[at].host {
                None => return Ok(self.inputs[at].address),
                Some(bytes) => {
                    let name = &self.flow.prepared.inputs[at].name;
                    (bytes.clone(), Purpose::HostCopy, format!("input {at} (node {name})"))
                }
            },
            Origin::Computed | Origin::ComputedFor(_) => match hosted.get(&root) {
                Some(bytes) => (bytes.clone(), Purpose::Intermediate, format!("value {root}")),
                None => {
                    return Err(Failure::failed(format!(
                        "{}: value {root} has no memory",
                        self.label
                    )));
                }
            },
        };
        let target = self.source.target;
        let block = self.source.take(purpose, None, target.padded_tensor_bytes(bytes.len()))?;
        let prefix = Some(format!("{}, {what}", self.label));
        let (address, device) = (block.address(), target.device());
        target.stream.submit(upload("graph input", &bytes, address, device, prefix))?;
        Ok(memory.hold(root, block))
    }
}
