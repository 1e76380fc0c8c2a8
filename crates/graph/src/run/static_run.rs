//! One run of a static graph: memory first, then everything is submitted under the graph's lock.

use super::graph_kernel::copy_task;
use super::memory::MemorySource;
use super::pass::{LoadedPass, RegionAddresses};
use crate::compile::program::Program;
use crate::executable::{
    LastFeature, LoadedExecutable, OutputMemory, RunInput, RunOutput, check_outputs, shares_input,
};
use crate::failure::Result;
use bytes::Bytes;
use cairn_exec::upload;
use cairn_runtime::memory::allocator::Block;
use cairn_runtime::memory::purpose::Purpose;
use cairn_runtime::soc;
use cairn_runtime::task::{Location, Span};
use std::sync::Arc;

/// A run of a static graph, on tensors that were checked.
pub struct StaticRun<'a> {
    /// The graph and its memory.
    pub loaded: &'a LoadedExecutable,
    /// What it does.
    pub program: &'a Arc<Program>,
    /// The steps that need constants alone.
    pub init: &'a Arc<LoadedPass>,
    /// The steps of every run.
    pub steps: &'a Arc<LoadedPass>,
    /// Where memory comes from, and the stream.
    pub source: MemorySource<'a>,
    /// What comes in.
    pub inputs: &'a [RunInput],
    /// Memory of the caller, by output.
    pub requested: &'a [Option<OutputMemory>],
}

/// What a run takes for itself. It goes back when everything is submitted, or when the run fails.
#[derive(Default)]
struct Scratch {
    /// Copies of inputs on the host: index, memory, bytes.
    uploads: Vec<(usize, Block, Bytes)>,
    /// Outputs whose memory cannot be written while the steps run: index, memory to write instead, address to copy to.
    redirected: Vec<(usize, Block, usize)>,
    /// Feature memory of this run.
    feature: Option<Block>,
}

impl StaticRun<'_> {
    /// Runs. Outputs come in order.
    pub fn run(&self) -> Result<Vec<RunOutput>> {
        check_outputs(&self.loaded.executable.label, &self.program.outputs, self.requested)?;
        let mut addresses = RegionAddresses::default();
        let mut scratch = Scratch::default();
        self.take_inputs(&mut addresses, &mut scratch)?;
        let outputs = self.take_outputs(&mut addresses, &mut scratch)?;
        scratch.feature = self.take_feature()?;
        self.submit(&mut addresses, &scratch)?;
        let Scratch { uploads, redirected, feature } = scratch;
        let blocks = feature.into_iter().chain(uploads.into_iter().map(|(_, block, _)| block));
        for block in blocks.chain(redirected.into_iter().map(|(_, block, _)| block)) {
            block.free()?;
        }
        Ok(outputs)
    }

    fn take_inputs(&self, addresses: &mut RegionAddresses, scratch: &mut Scratch) -> Result<()> {
        for (at, input) in self.inputs.iter().enumerate() {
            addresses.inputs.push(match &input.host {
                None => input.address,
                Some(bytes) => {
                    let padded = self.source.target.padded_tensor_bytes(bytes.len());
                    let block = self.source.take(Purpose::HostCopy, None, padded)?;
                    let address = block.address();
                    scratch.uploads.push((at, block, bytes.clone()));
                    address
                }
            });
        }
        Ok(())
    }

    fn take_outputs(
        &self,
        addresses: &mut RegionAddresses,
        scratch: &mut Scratch,
    ) -> Result<Vec<RunOutput>> {
        let mut results: Vec<RunOutput> = Vec::new();
        for (at, (layout, requested)) in self.program.outputs.iter().zip(self.requested).enumerate()
        {
            let (layout, bytes) = (*layout, layout.bytes());
            let padded = soc::padded(bytes as u64).unwrap_or(u64::MAX);
            let take = || self.source.take(Purpose::Output, None, padded);
            let Some(OutputMemory { address, .. }) = *requested else {
                let block = take()?;
                addresses.outputs.push(block.address());
                results.push(RunOutput { layout, address: block.address(), block: Some(block) });
                continue;
            };
            let is_declared = self.loaded.executable.reuse.iter().any(|(_, output)| *output == at);
            let is_read = !is_declared && shares_input(self.inputs, address, bytes);
            if is_read || overlaps(&results, address, bytes) {
                let block = take()?;
                addresses.outputs.push(block.address());
                scratch.redirected.push((at, block, address));
            } else {
                addresses.outputs.push(address);
            }
            results.push(RunOutput { layout, address, block: None });
        }
        Ok(results)
    }

    /// Feature memory for one run, of a graph that has none of its own: where the last run's was, if the
    /// same allocator gives it.
    fn take_feature(&self) -> Result<Option<Block>> {
        let executable = &self.loaded.executable;
        let (regions, last) = {
            let state = self.loaded.state();
            (state.regions(executable), state.last_feature)
        };
        if regions.feature.is_some() {
            return Ok(None);
        }
        let size = match regions.fixed {
            Some(_) => executable.reported_refreshable_bytes(),
            None if executable.fixed_bytes() > 0 => executable.reported_feature_bytes(),
            None => executable.reported_refreshable_bytes(),
        };
        let allocator = Arc::as_ptr(self.source.target.allocator()).cast::<u8>() as usize;
        let near = last.filter(|last| last.allocator == allocator).map(|last| last.address);
        let block = self.source.take_near(Purpose::Feature, None, size, near)?;
        self.loaded.state().last_feature =
            Some(LastFeature { allocator, address: block.address() });
        Ok(Some(block))
    }

    fn submit(&self, addresses: &mut RegionAddresses, scratch: &Scratch) -> Result<()> {
        let (executable, stream) = (&self.loaded.executable, &self.source.target.stream);
        let location = Location::Device(stream.spec.device);
        let mut state = self.loaded.state();
        let shares_feature = state.shares_feature();
        self.loaded.order(&mut state, stream, shares_feature)?;
        let regions = state.regions(executable);
        let feature = scratch.feature.as_ref().map(Block::address);
        addresses.constants = regions.constants;
        addresses.feature = regions.feature.or(feature).unwrap_or(0);
        let fixed_in_feature = addresses.feature + executable.refreshable_bytes() as usize;
        addresses.fixed = regions.fixed.unwrap_or(fixed_in_feature);
        if regions.fixed.is_none() {
            state.invalidate_fixed();
        }
        for (at, block, bytes) in &scratch.uploads {
            let (label, name) = (&executable.label, executable.input_name(*at));
            let prefix = Some(format!("{label}, input {at} (node {name})"));
            let (address, device) = (block.address(), stream.spec.device);
            stream.submit(upload("graph input", bytes, address, device, prefix))?;
        }
        state.initialise(self.init, stream, addresses.fixed)?;
        self.steps.submit(stream, addresses)?;
        for (at, block, to) in &scratch.redirected {
            let bytes = self.program.outputs[*at].bytes();
            let span = |address| Span { address, bytes, location };
            let what = format!("output {at} (node {})", executable.output_nodes[*at]);
            let copy = copy_task(span(block.address()), span(*to), &executable.label, &what);
            stream.submit(copy)?;
        }
        Ok(())
    }
}

/// Whether memory shares bytes with an output that comes before it.
fn overlaps(before: &[RunOutput], address: usize, bytes: usize) -> bool {
    before
        .iter()
        .any(|one| address < one.address + one.layout.bytes() && one.address < address + bytes)
}
