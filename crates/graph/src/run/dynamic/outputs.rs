//! What a dynamic run hands out: made where it goes, or copied there.

use super::Run;
use super::memory::ValueMemory;
use super::plans::Plan;
use crate::compile::flow::Origin;
use crate::executable::{OutputMemory, RunOutput, check_outputs};
use crate::failure::Result;
use crate::run::graph_kernel::copy_task;
use cairn_runtime::memory::allocator::Block;
use cairn_runtime::memory::purpose::Purpose;
use cairn_runtime::task::{Location, Span};
use cairn_tensor::Layout;

impl Run<'_> {
    /// Fails for memory of the caller that is too small.
    pub(super) fn check_outputs(&self, layouts: &[Layout]) -> Result<()> {
        check_outputs(self.label, layouts, self.requested)
    }

    /// Hands the outputs over; copies those that were not made where they go. What a copy would overwrite
    /// before another has read it is copied elsewhere first.
    pub(super) fn outputs(&self, plan: &Plan, memory: &mut ValueMemory) -> Result<Vec<RunOutput>> {
        self.check_outputs(&plan.outputs)?;
        let mut results = Vec::new();
        let mut copies: Vec<(usize, usize)> = Vec::new();
        let mut temporaries: Vec<Block> = Vec::new();
        for (at, output) in self.flow.prepared.outputs.iter().enumerate() {
            let root = self.flow.roots[output.value];
            let layout = plan.outputs[at];
            let is_made_here = self.flow.origins[root] == Origin::ComputedFor(at);
            let requested = self.requested.get(at).copied().flatten();
            let mut from = self.address(root, &plan.hosted, memory)?;
            if is_made_here
                && (requested.is_none() || requested.is_some_and(|to| to.address == from))
            {
                let block = if requested.is_none() { memory.blocks[root].take() } else { None };
                results.push(RunOutput { layout, address: from, block });
                continue;
            }
            let is_overwritten = (self.requested.iter().flatten()).any(|to| {
                let OutputMemory { address: to, bytes: have } = *to;
                to != from && to < from + layout.bytes() && from < to + have
                    || (to == from && requested.is_some_and(|requested| requested.address != from))
            });
            if is_overwritten {
                let block =
                    self.source.take(Purpose::Intermediate, None, self.padded_bytes(&layout))?;
                self.copy(at, &layout, from, block.address())?;
                from = block.address();
                temporaries.push(block);
            }
            let block = match requested {
                Some(_) => None,
                None => {
                    Some(self.source.take(Purpose::Output, None, self.padded_bytes(&layout))?)
                }
            };
            let to =
                block.as_ref().map_or_else(|| requested.map_or(0, |to| to.address), Block::address);
            copies.push((from, results.len()));
            results.push(RunOutput { layout, address: to, block });
        }
        for (from, at) in copies {
            self.copy(at, &results[at].layout, from, results[at].address)?;
        }
        for block in
            temporaries.into_iter().chain(memory.blocks.iter_mut().filter_map(Option::take))
        {
            block.free()?;
        }
        Ok(results)
    }

    /// Whether memory of an output shares bytes with that of another.
    pub(super) fn overlaps(&self, output: usize, address: usize, bytes: usize) -> bool {
        let others = self.requested.iter().enumerate().filter(|(at, _)| *at != output);
        let mut others = others.filter_map(|(_, requested)| *requested);
        others.any(|OutputMemory { address: other, bytes: have }| {
            address < other + have && other < address + bytes
        })
    }

    /// Bytes of memory for an output.
    fn padded_bytes(&self, layout: &Layout) -> u64 {
        self.source.target.padded_tensor_bytes(layout.bytes())
    }

    /// Copies to the memory of an output, or out of its way.
    fn copy(&self, output: usize, layout: &Layout, from: usize, to: usize) -> Result<()> {
        if layout.bytes() == 0 || from == to {
            return Ok(());
        }
        let location = Location::Device(self.source.target.stream.spec.device);
        let span = |address| Span { address, bytes: layout.bytes(), location };
        let what = format!("output {output} (node {})", self.flow.prepared.outputs[output].name);
        self.source.target.stream.submit(copy_task(span(from), span(to), self.label, &what))?;
        Ok(())
    }
}
