//! A node whose operator the user registered: what is before it is submitted, then the operator is called. Its outputs
//! come from the same allocator as those of other nodes.

use super::Run;
use super::memory::ValueMemory;
use super::planning::Planning;
use crate::compile::custom::CustomNode;
use crate::compile::flow::Origin;
use crate::compile::operation::KnownTensor;
use crate::compile::prepare::{ValueId, WorkNode};
use crate::failure::{Failure, Result};
use crate::ir::{Attr, Desc};
use cairn_runtime::host;
use cairn_runtime::memory::allocator::Block;
use cairn_runtime::memory::purpose::Purpose;
use cairn_runtime::soc;
use cairn_tensor::{DType, Layout};

/// A tensor that goes into a custom operator, on the device.
#[derive(Clone, Debug, PartialEq)]
pub struct CustomTensor {
    /// The type of its elements; a string is its bytes.
    pub dtype: DType,
    /// Its sizes.
    pub dims: Vec<i64>,
    /// Its first byte.
    pub address: usize,
    /// Bytes of its elements.
    pub bytes: usize,
    /// What is known of its elements; `None` for strings.
    layout: Option<Layout>,
}

/// One call of a custom operator.
pub struct CustomCall<'a> {
    run: &'a Run<'a>,
    work: &'a WorkNode,
    node: &'a CustomNode,
    memory: &'a mut ValueMemory,
    stream: usize,
    inputs: Vec<CustomTensor>,
    /// The outputs that were made so far.
    slots: Vec<Option<OutputSlot>>,
    workspaces: Vec<Block>,
    refusal: Option<String>,
}

/// Where an output of the operator is, and what it is.
#[derive(Clone, Copy)]
struct OutputSlot {
    layout: Layout,
    address: usize,
    /// Bytes that may be used there.
    capacity: usize,
}

impl CustomCall<'_> {
    /// The node's name.
    pub fn node(&self) -> &str {
        &self.node.name
    }

    /// The type of its operator.
    pub fn kind(&self) -> &'static str {
        self.node.kind
    }

    /// The handle of the stream that the operator submits its work to.
    pub fn stream(&self) -> usize {
        self.stream
    }

    /// What is fed, in the declared order.
    pub fn inputs(&self) -> &[CustomTensor] {
        &self.inputs
    }

    /// How many of these belong to each declared input.
    pub fn input_counts(&self) -> &[usize] {
        &self.node.input_counts
    }

    /// What the graph says of each output.
    pub fn outputs(&self) -> &[Desc] {
        &self.node.outputs
    }

    /// How many of these belong to each declared output.
    pub fn output_counts(&self) -> &[usize] {
        &self.node.output_counts
    }

    /// The values of the declared attributes, in order.
    pub fn attrs(&self) -> &[Option<Attr>] {
        &self.node.attrs
    }

    /// Makes an output of this type and these sizes: its memory, until the last node has read it. Made again, it stays
    /// where it is if the memory is large enough.
    pub fn make_output(&mut self, index: usize, desc: &Desc) -> Result<usize> {
        let made = self.try_make_output(index, desc);
        self.keep_refusal(made)
    }

    /// Lets an output be the input that is declared with the same name; gives the input.
    pub fn refer_output(&mut self, output: usize, input: usize) -> Result<&CustomTensor> {
        let checked = match self.node.references.contains(&(output, input)) {
            true => Ok(()),
            false => Err(Failure::invalid(format!(
                "output {output} cannot be input {input}: the two must be declared with one name"
            ))),
        };
        self.keep_refusal(checked)?;
        Ok(&self.inputs[input])
    }

    /// Takes scratch memory, for what the operator submits in this call.
    pub fn workspace(&mut self, bytes: usize) -> Result<usize> {
        let padded = soc::padded_workspace_bytes(bytes as u64).unwrap_or(u64::MAX);
        let taken = self.run.source.take(Purpose::Workspace, Some(self.node.kind), padded);
        let block = self.keep_refusal(taken.map_err(Failure::from))?;
        let address = block.address();
        self.workspaces.push(block);
        Ok(address)
    }

    /// Remembers the text of a refusal: the operator may go on, or fail with no more than a number.
    fn keep_refusal<T>(&mut self, result: Result<T>) -> Result<T> {
        if let Err(failure) = &result {
            self.refusal = Some(failure.text.clone());
        }
        result
    }

    /// As [`CustomCall::make_output`], without remembering a refusal.
    fn try_make_output(&mut self, index: usize, desc: &Desc) -> Result<usize> {
        let count = self.slots.len();
        let Some(previous) = self.slots.get(index).copied() else {
            return Err(Failure::invalid(format!(
                "there is no output {index}: the node has {count}, counted from 0"
            )));
        };
        if self.node.references.iter().any(|(output, _)| *output == index) {
            let name = &self.node.outputs[index].name;
            return Err(Failure::invalid(format!(
                "output {index} is the input {name}, which is declared with the same name: it has memory"
            )));
        }
        if let Some(text) = desc.format.refusal(&format!("output {index}")) {
            return Err(Failure::invalid(text));
        }
        let Some(layout) = desc.layout() else {
            return Err(Failure::invalid(format!(
                "output {index} is {desc}: no memory holds that"
            )));
        };
        let bytes = layout.bytes();
        let (address, capacity) = match previous {
            Some(OutputSlot { address, capacity, .. }) if bytes <= capacity => (address, capacity),
            Some(OutputSlot { capacity, .. }) => {
                return Err(Failure::invalid(format!(
                    "output {index} was made with room for {capacity} bytes, and is now {desc}, {bytes} bytes"
                )));
            }
            None => {
                let root = self.run.flow.roots[self.work.outputs[index]];
                (self.run.take_value_memory(root, bytes, self.node.kind, self.memory)?, bytes)
            }
        };
        self.slots[index] = Some(OutputSlot { layout, address, capacity });
        Ok(address)
    }
}

impl Run<'_> {
    /// Submits all that is planned, then calls the operator of the node at `at`.
    pub(super) fn call_custom(
        &self,
        at: usize,
        node: &CustomNode,
        planning: &mut Planning,
        memory: &mut ValueMemory,
    ) -> Result<()> {
        self.launch_planned(planning, memory)?;
        let called = self.try_custom(at, node, planning, memory);
        let layouts = called.map_err(|failure| {
            failure.in_context(format!("{}, node {} ({})", self.label, node.name, node.kind))
        })?;
        let work = &self.flow.prepared.work_nodes[at];
        for (_, input) in work.in_place_outputs() {
            planning.forget(&self.flow.roots, input);
        }
        for (value, layout) in work.outputs.iter().zip(layouts) {
            planning.tensors[*value] = layout.map(|layout| KnownTensor { layout, bytes: None });
        }
        self.free_ended(&self.flow.ends[at], memory)
    }

    /// What the outputs are; `None` for one that was not made and that nobody reads.
    fn try_custom(
        &self,
        at: usize,
        node: &CustomNode,
        planning: &Planning,
        memory: &mut ValueMemory,
    ) -> Result<Vec<Option<Layout>>> {
        let work = &self.flow.prepared.work_nodes[at];
        let target = self.source.target;
        let Some(stream) = target.handle else {
            return Err(Failure::failed(
                "its stream has no handle, and a custom operator submits to a stream by its handle",
            ));
        };
        let mut inputs = Vec::with_capacity(work.inputs.len());
        for value in work.inputs.iter().flatten() {
            inputs.push(self.custom_input(*value, planning, memory)?);
        }
        if let Some((stream, seq)) = self.constants_task.filter(|_| !node.needs_values.is_empty()) {
            stream.wait_for_task("graph constants", *seq)?;
        }
        if node.needs_values.iter().any(|input| !self.is_constant(work.inputs[*input])) {
            self.wait_for_values(at, planning)?;
        }
        let slots = vec![None; work.outputs.len()];
        let mut call = CustomCall {
            run: self,
            work,
            node,
            memory,
            stream,
            inputs,
            slots,
            workspaces: Vec::new(),
            refusal: None,
        };
        let previous_context = host::context();
        host::set_context(target.stream.spec.context as usize);
        let executed = node.operator.execute(&mut call);
        host::set_context(previous_context);
        let CustomCall { inputs, slots, workspaces, refusal, .. } = call;
        for block in workspaces {
            block.free()?;
        }
        let with_refusal = |failure: Failure| match &refusal {
            Some(refusal) if !failure.text.contains(refusal) => {
                let text = format!("{}; it was refused before: {refusal}", failure.text);
                Failure { text, ..failure }
            }
            _ => failure,
        };
        executed.map_err(with_refusal)?;
        let mut layouts: Vec<Option<Layout>> =
            slots.iter().map(|slot| slot.map(|slot| slot.layout)).collect();
        for (output, input) in &node.references {
            layouts[*output] = inputs[*input].layout;
        }
        for (output, value) in work.outputs.iter().enumerate() {
            if layouts[output].is_none() && !self.flow.ends[at].contains(&self.flow.roots[*value]) {
                let name = &node.outputs[output].name;
                let count = work.outputs.len();
                return Err(with_refusal(Failure::failed(format!(
                    "it returned without making its output {output} ({name}) of {count}, which is read"
                ))));
            }
        }
        Ok(layouts)
    }

    /// Whether a value lies in const memory, which the load fills.
    fn is_constant(&self, value: Option<ValueId>) -> bool {
        let origin = value.map(|value| self.flow.origins[self.flow.roots[value]]);
        matches!(origin, Some(Origin::Constant(_)))
    }

    /// A tensor as the operator gets it, on the device.
    fn custom_input(
        &self,
        value: ValueId,
        planning: &Planning,
        memory: &mut ValueMemory,
    ) -> Result<CustomTensor> {
        let address = self.address(self.flow.roots[value], &planning.hosted, memory)?;
        if let Some(KnownTensor { layout, .. }) = &planning.tensors[value] {
            let dims = layout.dims().iter().map(|dim| *dim as i64).collect();
            let (dtype, bytes, layout) = (layout.dtype, layout.bytes(), Some(*layout));
            return Ok(CustomTensor { dtype, dims, address, bytes, layout });
        }
        let info = &self.flow.prepared.values[value];
        let bytes = info.bytes.as_ref().map_or(0, |bytes| bytes.len());
        let (dtype, dims) = (info.desc.dtype, info.desc.dims.clone());
        Ok(CustomTensor { dtype, dims, address, bytes, layout: None })
    }
}
