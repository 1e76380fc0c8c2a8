//! One run of a loaded graph: its tensors checked, then submitted as a static or a dynamic one.

use super::compile::{Executable, Kind};
use super::load::{LoadedExecutable, Plans};
use super::tensor::{OutputMemory, RunInput, RunOutput};
use crate::failure::{Failure, Result};
use crate::run::dynamic;
use crate::run::memory::{CallersMemory, MemorySource};
use crate::run::static_run::StaticRun;
use cairn_exec::Target;
use cairn_runtime::memory::{AddressInfo, describe};
use cairn_runtime::record;
use cairn_tensor::Layout;
use std::fmt::Arguments;

impl LoadedExecutable {
    /// Runs: everything is submitted to the target's stream when it returns. `inputs` are those of the graph and
    /// after them its variables, all made by [`Executable::input`]. `outputs` has memory of the caller by output, or
    /// is empty; what has none is taken from the target's allocator, as is all else that the run needs.
    ///
    /// A run whose sizes depend on what the device computes waits for it, in the order of the stream and holding no lock. It
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
        let requested = self.check(target, inputs, outputs)?;
        let _active = self.begin_run()?;
        let mut callers = CallersMemory::of_run(inputs, &requested);
        {
            let state = self.state();
            state.expect_disjoint(&callers)?;
            callers.extend(state.callers_ranges());
        }
        let source = MemorySource { target, graph: self.id, loaded: self.serial, callers };
        match (&executable.kind, &self.plans) {
            (Kind::Static { program, .. }, Plans::Static { init, steps }) => {
                let requested = &requested;
                StaticRun { loaded: self, program, init, steps, source, inputs, requested }.run()
            }
            (Kind::Dynamic { flow, plans }, Plans::Dynamic(report)) => {
                let constants = {
                    let mut state = self.state();
                    // Runs of a flow share no memory that they write.
                    self.order(&mut state, &target.stream, false)?;
                    state.regions(executable).constants
                };
                let (label, spine) = (&executable.label, target.stream.spine());
                if spine.has_listener(record::Kind::Run) {
                    report.emit_load(spine, label, Vec::new);
                    report.emit_run(spine, target.stream.index, None, &[]);
                }
                let constants_task = self.constants_task.as_ref();
                let requested = &requested;
                dynamic::Run { flow, label, source, constants, constants_task, inputs, requested }
                    .run(plans)
            }
            _ => unreachable!("a load makes plans of the executable's kind"),
        }
    }

    /// Checks the numbers of tensors and where they lie. Gives the memory of each output.
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
        executable.check_counts(inputs.len(), executable.variables.len(), outputs.len())?;
        for (at, input) in inputs.iter().enumerate().filter(|(_, input)| input.host.is_none()) {
            self.check_device(
                target,
                format_args!("input {at} ({})", executable.input_name(at)),
                input.address,
                input.layout.bytes(),
            )?;
        }
        let mut requested = Vec::with_capacity(executable.outputs.len());
        for at in 0..executable.outputs.len() {
            let memory = outputs.get(at).copied().flatten();
            if let Some(OutputMemory { address, bytes }) = memory {
                self.check_device(target, format_args!("output {at}"), address, bytes)?;
            }
            requested.push(memory.or_else(|| executable.reused(at, inputs)));
        }
        Ok(requested)
    }

    /// Fails for memory that is not on the device of the load.
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
        let info = target.runtime.shared.memory.enclosing(address);
        match &info {
            AddressInfo::Device(device, _) if *device == self.device => Ok(()),
            _ => self.executable.wrong(format_args!(
                "{what} at {address:#x} is {}: expected memory of device {}",
                describe(address, &target.runtime.shared.memory.locate(address)),
                self.device
            )),
        }
    }
}

impl Executable {
    /// A failure for a wrong argument, with the graph's label.
    pub(crate) fn wrong<T>(&self, text: Arguments<'_>) -> Result<T> {
        Err(Failure::invalid(format!("{text} ({})", self.label)))
    }

    /// Fails for a wrong number of inputs, the last `variables` of which are variables, or of outputs.
    pub(crate) fn check_counts(
        &self,
        inputs: usize,
        variables: usize,
        outputs: usize,
    ) -> Result<()> {
        let want = self.inputs.len() + variables;
        if inputs != want {
            return self.wrong(format_args!("{inputs} inputs were passed, the graph has {want}"));
        }
        let want = self.outputs.len();
        if outputs != 0 && outputs != want {
            return self.wrong(format_args!(
                "{outputs} outputs were passed: expected none, or all {want}"
            ));
        }
        Ok(())
    }

    /// The node of an input or, after these, of a variable.
    pub(crate) fn input_name(&self, at: usize) -> &str {
        self.inputs.iter().chain(&self.variables).nth(at).map_or("", |(name, _)| name)
    }

    /// The memory of the input that the compile options (`reuse`) let this output share.
    fn reused(&self, output: usize, inputs: &[RunInput]) -> Option<OutputMemory> {
        let (input, _) = self.reuse.iter().find(|(_, sharing)| *sharing == output)?;
        let input = &inputs[*input];
        let address = input.device_address()?;
        Some(OutputMemory { address, bytes: input.bytes() })
    }
}

/// Fails for memory of the caller that is too small for its output. `label` is the graph's.
pub(crate) fn check_outputs(
    label: &str,
    layouts: &[Layout],
    memory: &[Option<OutputMemory>],
) -> Result<()> {
    for (at, (layout, memory)) in layouts.iter().zip(memory).enumerate() {
        if let Some(OutputMemory { bytes, .. }) = memory {
            check_output(label, at, layout, *bytes)?;
        }
    }
    Ok(())
}

/// As [`check_outputs`], for one.
pub(crate) fn check_output(label: &str, at: usize, layout: &Layout, have: usize) -> Result<()> {
    let want = layout.bytes();
    match have < want {
        true => Err(Failure::invalid(format!(
            "output {at} is {layout}, {want} bytes; its memory has {have} ({label})"
        ))),
        false => Ok(()),
    }
}

/// Whether memory shares bytes with an input on the device.
pub(crate) fn shares_input(inputs: &[RunInput], address: usize, bytes: usize) -> bool {
    inputs.iter().any(|one| {
        let (start, end) = (one.address, one.address + one.layout.bytes());
        one.host.is_none() && start < address + bytes && address < end
    })
}
