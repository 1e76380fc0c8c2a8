//! One run of a loaded graph: its tensors checked, then submitted as a static or a dynamic one.

use super::compile::{Executable, Kind};
use super::load::Loaded;
use super::tensor::{OutputMemory, RunInput, RunOutput};
use crate::failure::{Failure, Result};
use crate::run::dynamic;
use crate::run::memory::{CallersMemory, MemorySource};
use crate::run::static_run::StaticRun;
use cairn_exec::Target;
use cairn_runtime::memory::{Located, describe};
use std::fmt::Arguments;

impl Loaded {
    /// Runs: everything is submitted to the target's stream when it returns. `inputs` are those of the graph and
    /// after them its variables, all made by [`Executable::input`]. `outputs` has memory of the caller by output, or
    /// is empty; what has none is taken from the target's allocator, as is all else that the run needs.
    ///
    /// A run whose sizes depend on what the device computes waits for the nodes that compute them, holding no lock. It
    /// fails if a node of its own failed; other failures of the stream are left for synchronize.
    ///
    /// After a failure tasks that were submitted finish, outputs are undefined, and all blocks are back with their
    /// allocator.
    pub fn run(
        &self,
        target: &Target<'_>,
        inputs: &[RunInput],
        outputs: &[Option<OutputMemory>],
    ) -> Result<Vec<RunOutput>> {
        let executable = &self.executable;
        let wanted = self.check(target, inputs, outputs)?;
        let _active = self.begin_run()?;
        let callers = CallersMemory { inputs, outputs: &wanted };
        self.runs().refuse_over(&callers)?;
        let source = MemorySource { target, graph: self.id, callers };
        match &executable.kind {
            Kind::Static { program, steps, .. } => {
                StaticRun { loaded: self, program, steps, source, inputs, wanted: &wanted }.run()
            }
            Kind::Dynamic { flow, plans } => {
                let constants = {
                    let mut runs = self.runs();
                    self.order(&mut runs, &target.stream, false)?;
                    runs.regions(executable).constants
                };
                let label = &executable.label;
                dynamic::Run { flow, label, source, constants, inputs, wanted: &wanted }.run(plans)
            }
        }
    }

    /// Numbers of tensors, and where they lie. Gives the memory of each output.
    fn check(
        &self,
        target: &Target<'_>,
        inputs: &[RunInput],
        outputs: &[Option<OutputMemory>],
    ) -> Result<Vec<Option<OutputMemory>>> {
        let executable = &self.executable;
        if target.device() != self.device {
            return executable.wrong(format_args!(
                "the stream is of device {}, the graph is loaded on device {}",
                target.device(),
                self.device
            ));
        }
        let (have, want) = (inputs.len(), executable.inputs.len() + executable.variables.len());
        if have != want {
            return executable.wrong(format_args!("{have} inputs are given, the graph has {want}"));
        }
        let (have, want) = (outputs.len(), executable.outputs.len());
        if have != 0 && have != want {
            return executable
                .wrong(format_args!("{have} outputs are given: none, or all {want} are wanted"));
        }
        for (at, input) in inputs.iter().enumerate().filter(|(_, input)| input.host.is_none()) {
            self.check_device(
                target,
                format_args!("input {at} ({})", executable.input_name(at)),
                input.address,
                input.layout.bytes(),
            )?;
        }
        let mut wanted = Vec::with_capacity(want);
        for at in 0..want {
            let theirs = outputs.get(at).copied().flatten();
            if let Some(OutputMemory { address, bytes }) = theirs {
                self.check_device(target, format_args!("output {at}"), address, bytes)?;
            }
            wanted.push(theirs.or_else(|| executable.reused(at, inputs)));
        }
        Ok(wanted)
    }

    fn check_device(
        &self,
        target: &Target<'_>,
        what: Arguments<'_>,
        address: usize,
        bytes: usize,
    ) -> Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        let located = target.runtime.shared.memory.enclosing(address);
        match &located {
            Located::Device(device, _) if *device == self.device => Ok(()),
            _ => self.executable.wrong(format_args!(
                "{what} at {address:#x} is {}: expected memory of device {}",
                describe(address, &target.runtime.shared.memory.locate(address)),
                self.device
            )),
        }
    }
}

impl Executable {
    pub(crate) fn wrong<T>(&self, text: Arguments<'_>) -> Result<T> {
        Err(Failure::invalid(format!("{text} ({})", self.label)))
    }

    /// The node of an input or, after these, of a variable.
    pub(crate) fn input_name(&self, at: usize) -> &str {
        self.inputs.iter().chain(&self.variables).nth(at).map_or("", |(name, _)| name)
    }

    /// The memory of the input that an output shares by declaration.
    fn reused(&self, output: usize, inputs: &[RunInput]) -> Option<OutputMemory> {
        let (input, _) = self.reuse.iter().find(|(_, with)| *with == output)?;
        let input = &inputs[*input];
        let address = input.device_address()?;
        Some(OutputMemory { address, bytes: input.bytes() })
    }
}

/// Whether memory shares bytes with an input on the device.
pub(crate) fn shares_input(inputs: &[RunInput], address: usize, bytes: usize) -> bool {
    inputs.iter().any(|one| {
        let (start, end) = (one.address, one.address + one.layout.bytes());
        one.host.is_none() && start < address + bytes && address < end
    })
}
