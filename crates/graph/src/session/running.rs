//! Runs of a session's graphs: what each way to ask for one allows, over [`LoadedExecutable::run`](crate::executable::LoadedExecutable::run).

use super::engine::Session;
use super::entry::{Entry, Mode};
use super::loaded::{LoadRequest, LoadedGraph};
use super::options::Options;
use super::output::SessionOutput;
use crate::executable::{
    CallersRange, CallersUse, Executable, OutputMemory, RunInput, RunOutput, RunTensor,
    check_output,
};
use crate::failure::{Failure, Result};
use cairn_exec::Target;
use cairn_runtime::memory::registry::Domain;
use cairn_runtime::stream::Stream;
use std::fmt::Arguments;
use std::sync::Arc;

/// How a run is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunMode {
    /// `Session::RunGraph`: host tensors, waits.
    Host,
    /// `Session::RunGraphWithStreamAsync`.
    Stream,
    /// `Session::ExecuteGraphWithStreamAsync`: must be loaded.
    Loaded,
    /// `GeSession::RunGraphWithStreamAsync`.
    StreamV2,
    /// `GeSession::RunGraph`.
    HostV2,
}

impl RunMode {
    fn is_host(self) -> bool {
        matches!(self, RunMode::Host | RunMode::HostV2)
    }
}

/// What device addresses have to be a multiple of in the second version of the interface.
const ALIGN_V2: usize = 32;

impl Session {
    /// A stream of the user, for graphs of this session.
    pub fn stream(&self, handle: usize) -> Result<Arc<Stream>> {
        if handle == 0 {
            return Err(Failure::failed(
                "the stream is null: graphs run on a stream of aclrtCreateStream",
            ));
        }
        let stream = self.runtime.handles.get::<Stream>(handle)?;
        let primary = self.runtime.device(i64::from(self.device))?.primary();
        let context = primary.map_or(0, |primary| primary.handle() as u64);
        if stream.spec.device != self.device || stream.spec.context != context {
            return Err(Failure::failed(format!(
                "stream {handle:#x} belongs to context {:#x} of device {}: expected a stream of the default context of device {}",
                stream.spec.context, stream.spec.device, self.device
            )));
        }
        Ok(stream)
    }

    /// A stream of the user with the allocator that is registered on it for graphs; for 0 the session's own stream,
    /// with the pool of the device.
    fn target(&self, handle: usize) -> Result<Target<'static>> {
        Ok(match handle {
            0 => {
                let (handle, stream) = self.own_stream()?;
                Target::built_in(self.runtime, stream).known_as(handle)
            }
            handle => Target::registered(self.runtime, self.stream(handle)?, Domain::Ge, handle),
        })
    }

    /// Loads a graph on a stream; without one, for runs on the host. One that is loaded already stays so, or fails
    /// (`fails_if_loaded`).
    pub fn load(
        &self,
        entry: &Entry,
        handle: usize,
        options: &Options,
        fails_if_loaded: bool,
    ) -> Result<Arc<LoadedGraph>> {
        self.load_on(entry, &self.target(handle)?, options, &[], fails_if_loaded)
    }

    /// As [`Session::load`], on a target. `in_use` is memory of the caller.
    fn load_on(
        &self,
        entry: &Entry,
        target: &Target<'_>,
        options: &Options,
        in_use: &[CallersRange],
        fails_if_loaded: bool,
    ) -> Result<Arc<LoadedGraph>> {
        entry.load(
            &LoadRequest { target, variables: &self.variables, options, in_use },
            fails_if_loaded,
        )
    }

    /// A stream of the session's own, with its handle: for what has no stream of the user.
    fn own_stream(&self) -> Result<(usize, Arc<Stream>)> {
        let known = *self.own_stream.lock();
        if let Ok(stream) = self.runtime.handles.get::<Stream>(known) {
            return Ok((known, stream));
        }
        let handle = self.on_device(|| Ok(self.runtime.create_stream(0, 0)?))?;
        *self.own_stream.lock() = handle;
        Ok((handle, self.runtime.handles.get::<Stream>(handle)?))
    }

    /// Runs a graph.
    pub fn run(
        &self,
        id: u32,
        mode: RunMode,
        handle: usize,
        inputs: &[RunTensor],
        outputs: &[RunTensor],
    ) -> Result<Vec<SessionOutput>> {
        let entry = self.graph(id)?;
        let _running = entry.begin_run()?;
        if mode.is_host() {
            return self.run_on_host(&entry, mode, inputs, outputs);
        }
        self.stream(handle)?;
        if mode == RunMode::Loaded {
            entry.loaded()?;
        } else {
            entry.compile(Vec::new())?;
        }
        let compiled = entry.compiled()?;
        let target = self.target(handle)?;
        let run = SessionRun { session: self, entry: &entry, mode, target: &target };
        run.check_counts(&compiled, inputs, outputs)?;
        entry.set_run_mode(Mode::Stream)?;
        let loaded = match mode {
            RunMode::Loaded => entry.loaded()?,
            _ => {
                let in_use = in_use(inputs, outputs);
                self.load_on(&entry, &target, &Options::default(), &in_use, false)?
            }
        };
        if !compiled.variables.is_empty() {
            self.variables.used_on(handle);
        }
        let results = run.run(&loaded, inputs, outputs);
        let results = results.map_err(|failure| failure.with_label(&entry.label))?;
        let is_exact = !compiled.is_static();
        Ok(results.into_iter().map(|one| SessionOutput::new(one, is_exact)).collect())
    }

    fn run_on_host(
        &self,
        entry: &Entry,
        mode: RunMode,
        inputs: &[RunTensor],
        outputs: &[RunTensor],
    ) -> Result<Vec<SessionOutput>> {
        let compiled = entry.compile(Vec::new())?;
        let target = self.target(0)?;
        let run = SessionRun { session: self, entry, mode, target: &target };
        let callers_outputs = if mode == RunMode::HostV2 { outputs } else { &[] };
        run.check_counts(&compiled, inputs, callers_outputs)?;
        entry.set_run_mode(Mode::Host)?;
        let loaded = self.load_on(entry, &target, &Options::default(), &[], false)?;
        let results =
            run.run(&loaded, inputs, &[]).map_err(|failure| failure.with_label(&entry.label))?;
        self.runtime.synchronize(&target.stream, None)?;
        let on_host = |(at, one): (usize, RunOutput)| {
            let memory = callers_outputs.get(at).filter(|output| !output.is_empty());
            let memory =
                memory.map(|&RunTensor { address, bytes, .. }| OutputMemory { address, bytes });
            if let Some(OutputMemory { bytes, .. }) = memory {
                check_output(&entry.label, at, &one.layout, bytes)?;
            }
            SessionOutput::on_host(one, memory.map(|memory| memory.address), self.runtime)
        };
        results.into_iter().enumerate().map(on_host).collect()
    }
}

/// The device memory of a run's tensors.
fn in_use(inputs: &[RunTensor], outputs: &[RunTensor]) -> Vec<CallersRange> {
    let range = |what, tensor: &RunTensor| {
        let is_there = !tensor.is_empty() && tensor.host.is_none();
        is_there.then_some(CallersRange { what, address: tensor.address, bytes: tensor.bytes })
    };
    let inputs = inputs.iter().enumerate();
    let outputs = outputs.iter().enumerate();
    let inputs = inputs.filter_map(|(at, one)| range(CallersUse::Input(at), one));
    inputs.chain(outputs.filter_map(|(at, one)| range(CallersUse::Output(at), one))).collect()
}

/// One run of a session's graph.
struct SessionRun<'a> {
    session: &'a Session,
    entry: &'a Entry,
    mode: RunMode,
    target: &'a Target<'a>,
}

impl SessionRun<'_> {
    fn wrong<T>(&self, text: Arguments<'_>) -> Result<T> {
        Err(Failure::invalid(format!("{text} ({})", self.entry.label)))
    }

    /// Checks the numbers of tensors, and that each output has memory or an allocator that gives it.
    fn check_counts(
        &self,
        compiled: &Executable,
        inputs: &[RunTensor],
        outputs: &[RunTensor],
    ) -> Result<()> {
        compiled.check_counts(inputs.len(), 0, outputs.len())?;
        let missing = match outputs.is_empty() {
            true => (!compiled.outputs.is_empty()).then_some(0),
            false => outputs.iter().position(RunTensor::is_empty),
        };
        let reused = |at: usize| compiled.reuse.iter().any(|(_, output)| *output == at);
        if let Some(at) = missing
            && self.mode == RunMode::Stream
            && compiled.is_static()
            && !self.target.is_external()
            && !reused(at)
        {
            return Err(Failure::failed(format!(
                "output {at} of {} has no memory, and no allocator is registered on the stream: bring memory for it, or register an allocator with RegisterExternalAllocator",
                self.entry.label
            )));
        }
        Ok(())
    }

    fn run(
        &self,
        graph: &LoadedGraph,
        inputs: &[RunTensor],
        outputs: &[RunTensor],
    ) -> Result<Vec<RunOutput>> {
        let mut run_inputs = Vec::with_capacity(inputs.len() + graph.variables.len());
        for (at, input) in inputs.iter().enumerate() {
            run_inputs.push(self.input(graph, at, input)?);
        }
        run_inputs.extend(graph.variables.iter().map(|variable| variable.input()));
        let requested: Result<Vec<Option<OutputMemory>>> =
            outputs.iter().enumerate().map(|(at, output)| self.output(at, output)).collect();
        let requested = requested?;
        if !graph.variables.is_empty() {
            self.session.variables.order(&self.target.stream)?;
        }
        let results = graph.loaded.run(self.target, &run_inputs, &requested)?;
        for (at, input) in run_inputs.iter().enumerate() {
            if let Some(address) = input.device_address() {
                graph.freeze(at, address);
            }
        }
        Ok(results)
    }

    /// Checks an input against what the graph wants and the options allow.
    fn input(&self, graph: &LoadedGraph, at: usize, tensor: &RunTensor) -> Result<RunInput> {
        let compiled = graph.executable();
        let input = compiled.input(at, tensor)?;
        let name = &compiled.inputs[at].0;
        if let Some(address) = input.device_address() {
            graph.check_frozen(at, address)?;
            self.check_aligned(format_args!("input {at} ({name})"), address, input.bytes())?;
            return Ok(input);
        }
        let is_allowed = self.mode.is_host()
            || graph.host_inputs.contains(&at)
            || (!compiled.is_static() && tensor.says_host);
        match is_allowed {
            true => Ok(input),
            false => self.wrong(format_args!(
                "input {at} ({name}) at {:#x} is host memory: bring it to the device, or name {at} in ge.exec.hostInputIndexes",
                tensor.address
            )),
        }
    }

    fn output(&self, at: usize, tensor: &RunTensor) -> Result<Option<OutputMemory>> {
        let RunTensor { address, bytes, .. } = *tensor;
        if tensor.is_empty() {
            return Ok(None);
        }
        if tensor.host.is_some() {
            return self.wrong(format_args!("output {at} at {address:#x} is host memory"));
        }
        self.check_aligned(format_args!("output {at}"), address, bytes)?;
        Ok(Some(OutputMemory { address, bytes }))
    }

    fn check_aligned(&self, what: Arguments<'_>, address: usize, bytes: usize) -> Result<()> {
        let is_v2 = matches!(self.mode, RunMode::StreamV2 | RunMode::HostV2);
        if is_v2 && bytes > 0 && !address.is_multiple_of(ALIGN_V2) {
            return self
                .wrong(format_args!("{what} at {address:#x} is not aligned to {ALIGN_V2} bytes"));
        }
        Ok(())
    }
}
