//! Runs of a graph.

use super::compiled::{Compiled, Kind};
use super::engine::Session;
use super::entry::{Entry, Mode};
use super::loaded::{Loaded, Loading};
use super::options::Options;
use super::tensor::{Held, Out, RunTensor};
use crate::failure::{Failure, Result};
use crate::ir::Desc;
use crate::run::dynamic::{Given, Made, Run, Wanted, shares};
use crate::run::memory::{Class, Taking, room};
use crate::run::named::{Named, copying};
use crate::run::pass::Ranges;
use cairn_exec::Upload;
use cairn_runtime::memory::pool::Pooled;
use cairn_runtime::memory::registry::Domain;
use cairn_runtime::memory::supply::{Lease, Supply};
use cairn_runtime::memory::{Located, describe};
use cairn_runtime::stream::Stream;
use cairn_runtime::task::{Place, Span, Spans, Task};
use cairn_tensor::DType;
use std::fmt::Arguments;
use std::sync::Arc;

/// How a run is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
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

impl How {
    fn is_host(self) -> bool {
        matches!(self, How::Host | How::HostV2)
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
                "stream {handle:#x} belongs to context {:#x} of device {}: a stream of the default context of device {} is wanted",
                stream.spec.context, stream.spec.device, self.device
            )));
        }
        Ok(stream)
    }

    /// Loads a graph on a stream; without one, for runs on the host. `anew`: that it is loaded is a failure.
    pub fn load(
        &self,
        entry: &Entry,
        handle: usize,
        options: &Options,
        anew: bool,
    ) -> Result<Arc<Loaded>> {
        let stream = match handle {
            0 => self.own_stream()?,
            handle => self.stream(handle)?,
        };
        let external = match handle {
            0 => None,
            handle => self.runtime.allocators.allocator_for(Domain::Ge, handle),
        };
        let variables = &self.variables;
        entry.load(&Loading { stream: &stream, external, variables, options }, anew)
    }

    /// A stream of the session's own: for what has no stream of the user.
    fn own_stream(&self) -> Result<Arc<Stream>> {
        let known = *self.own_stream.lock();
        if let Ok(stream) = self.runtime.handles.get::<Stream>(known) {
            return Ok(stream);
        }
        let handle = self.on_device(|| Ok(self.runtime.create_stream(0, 0)?))?;
        *self.own_stream.lock() = handle;
        Ok(self.runtime.handles.get::<Stream>(handle)?)
    }

    /// Runs a graph.
    pub fn run(
        &self,
        id: u32,
        how: How,
        handle: usize,
        inputs: &[RunTensor],
        outputs: &[RunTensor],
    ) -> Result<Vec<Out>> {
        let entry = self.graph(id)?;
        let _running = entry.begin_run()?;
        if how.is_host() {
            return self.run_on_host(&entry, how, inputs, outputs);
        }
        let stream = self.stream(handle)?;
        if how == How::Loaded {
            entry.loaded()?;
        } else {
            entry.compile(Vec::new())?;
        }
        let compiled = entry.compiled()?;
        let external = self.runtime.allocators.allocator_for(Domain::Ge, handle);
        let call = Call { session: self, entry: &entry, how, stream: &stream, external };
        call.check_counts(&compiled, inputs, outputs)?;
        entry.claim(Mode::Stream)?;
        let loaded = match how {
            How::Loaded => entry.loaded()?,
            _ => self.load(&entry, handle, &Options::default(), false)?,
        };
        if !compiled.variables.is_empty() {
            self.variables.used_on(handle);
        }
        call.run(&loaded, inputs, outputs).map_err(|failure| failure.naming(&entry.label))
    }

    fn run_on_host(
        &self,
        entry: &Entry,
        how: How,
        inputs: &[RunTensor],
        outputs: &[RunTensor],
    ) -> Result<Vec<Out>> {
        let compiled = entry.compile(Vec::new())?;
        let stream = self.own_stream()?;
        let call = Call { session: self, entry, how, stream: &stream, external: None };
        let given = if how == How::HostV2 { outputs } else { &[] };
        call.check_counts(&compiled, inputs, given)?;
        entry.claim(Mode::Host)?;
        let loaded = self.load(entry, 0, &Options::default(), false)?;
        let outs =
            call.run(&loaded, inputs, &[]).map_err(|failure| failure.naming(&entry.label))?;
        self.runtime.synchronize(&stream, None)?;
        let mut found = Vec::new();
        for out in outs {
            let bytes = size(out.dtype, &out.dims);
            let copy = self.runtime.read("graph output", out.address, bytes).ok_or_else(|| {
                Failure::failed(format!("no device memory at {:#x}", out.address))
            })?;
            let held = Held::Host(copy.into_boxed_slice());
            found.push(Out { address: held.address(), bytes, held: Some(held), ..out });
        }
        Ok(found)
    }
}

fn size(dtype: DType, dims: &[i64]) -> usize {
    Desc::new(dtype, dims).layout().map_or(0, |layout| layout.bytes())
}

/// One run.
struct Call<'a> {
    session: &'a Session,
    entry: &'a Entry,
    how: How,
    stream: &'a Arc<Stream>,
    external: Option<Arc<dyn Supply>>,
}

impl Call<'_> {
    fn wrong<T>(&self, text: String) -> Result<T> {
        Err(Failure::invalid(format!("{text} ({})", self.entry.label)))
    }

    /// Numbers of tensors, and outputs that nobody can provide.
    fn check_counts(
        &self,
        compiled: &Compiled,
        inputs: &[RunTensor],
        outputs: &[RunTensor],
    ) -> Result<()> {
        let (have, want) = (inputs.len(), compiled.inputs.len());
        if have != want {
            return self.wrong(format!("{have} inputs are given, the graph has {want}"));
        }
        let (have, want) = (outputs.len(), compiled.outputs.len());
        if have != 0 && have != want {
            return self.wrong(format!("{have} outputs are given: none, or all {want} are wanted"));
        }
        let missing = match outputs.is_empty() {
            true => (want > 0).then_some(0),
            false => outputs.iter().position(RunTensor::is_empty),
        };
        let reused = |at: usize| compiled.reuse.iter().any(|(_, output)| *output == at);
        if let Some(at) = missing
            && self.how == How::Stream
            && compiled.is_static()
            && self.external.is_none()
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
        loaded: &Arc<Loaded>,
        inputs: &[RunTensor],
        outputs: &[RunTensor],
    ) -> Result<Vec<Out>> {
        let compiled = &loaded.compiled;
        let mut given = Vec::new();
        for (at, input) in inputs.iter().enumerate() {
            given.push(self.input(loaded, at, input)?);
        }
        given.extend(loaded.variables.iter().map(|variable| Given {
            layout: variable.layout,
            address: variable.address,
            host: None,
        }));
        let built_in = || Pooled::built_in(&self.session.runtime.shared, self.session.device);
        let supply = self.external.clone().unwrap_or_else(built_in);
        let taking = Taking { supply: &supply, stream: self.stream, graph: self.entry.id };
        let wanted = self.wanted(compiled, &given, outputs)?;
        if !loaded.variables.is_empty() {
            self.session.variables.order(self.stream)?;
        }
        let made = match &compiled.kind {
            Kind::Static { .. } => self.run_static(loaded, &taking, &given, &wanted)?,
            Kind::Dynamic { flow, plans } => {
                let mut runs = loaded.runs();
                loaded.order(&mut runs, self.stream, false)?;
                let constants = runs.ground(compiled).constants;
                drop(runs);
                let run = Run {
                    runtime: self.session.runtime,
                    flow,
                    label: &compiled.label,
                    taking,
                    constants,
                    inputs: &given,
                    wanted: &wanted,
                };
                let exact = |made: Made| {
                    let bytes = made.layout.bytes();
                    Out { bytes, ..out(made) }
                };
                run.run(plans)?.into_iter().map(exact).collect()
            }
        };
        for (at, one) in given.iter().enumerate().filter(|(_, one)| one.host.is_none()) {
            loaded.freeze(at, one.address);
        }
        Ok(made)
    }

    /// Checks an input against what the graph wants.
    fn input(&self, loaded: &Loaded, at: usize, input: &RunTensor) -> Result<Given> {
        let compiled = &loaded.compiled;
        let (name, desc) = &compiled.inputs[at];
        if let Some(dtype) = input.dtype
            && desc.dtype != DType::Undefined
            && dtype != desc.dtype
        {
            return self.wrong(format!(
                "input {at} ({name}) is of type {dtype}, {} is wanted",
                desc.dtype
            ));
        }
        let dims = input.dims.as_ref().unwrap_or(&desc.dims);
        if !desc.admits(dims) {
            return self.wrong(format!(
                "input {at} ({name}) has the sizes {dims:?}, {:?} are wanted",
                desc.dims
            ));
        }
        let dtype = input.dtype.unwrap_or(desc.dtype);
        let Some(layout) = Desc::new(dtype, dims).layout() else {
            return self.wrong(format!(
                "input {at} ({name}) has the sizes {dims:?}: they must be known to run"
            ));
        };
        let want = layout.bytes();
        if input.is_empty() && want > 0 {
            return self.wrong(format!("input {at} ({name}) has no memory"));
        }
        if input.bytes < want {
            return self.wrong(format!(
                "input {at} ({name}) is {layout}, {want} bytes; its memory has {}",
                input.bytes
            ));
        }
        let Some(host) = &input.host else {
            loaded.check_frozen(at, input.address)?;
            self.check_device(format_args!("input {at} ({name})"), input.address, want)?;
            return Ok(Given { layout, address: input.address, host: None });
        };
        let may = self.how.is_host()
            || loaded.host_inputs.contains(&at)
            || (!compiled.is_static() && input.says_host);
        if !may {
            return self.wrong(format!(
                "input {at} ({name}) at {:#x} is host memory: bring it to the device, or name {at} in ge.exec.hostInputIndexes",
                input.address
            ));
        }
        let host = if host.len() == want { host.clone() } else { host[..want].into() };
        Ok(Given { layout, address: 0, host: Some(host) })
    }

    fn check_device(&self, what: Arguments<'_>, address: usize, bytes: usize) -> Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        if matches!(self.how, How::StreamV2 | How::HostV2) && !address.is_multiple_of(ALIGN_V2) {
            return self
                .wrong(format!("{what} at {address:#x} is not aligned to {ALIGN_V2} bytes"));
        }
        let located = self.session.runtime.shared.memory.locate(address);
        match &located {
            Located::Device(device, _) if *device == self.session.device => Ok(()),
            _ => self.wrong(format!(
                "{what} at {address:#x} is {}: memory of device {} is wanted",
                describe(address, &located),
                self.session.device
            )),
        }
    }

    /// What memory each output has.
    fn wanted(
        &self,
        compiled: &Compiled,
        given: &[Given],
        outputs: &[RunTensor],
    ) -> Result<Vec<Wanted>> {
        let mut wanted = Vec::new();
        for at in 0..compiled.outputs.len() {
            let theirs = outputs.get(at).filter(|output| !output.is_empty());
            let Some(output) = theirs else {
                let input = compiled.reuse.iter().find(|(_, output)| *output == at);
                let shared =
                    input.map(|(input, _)| &given[*input]).filter(|input| input.host.is_none());
                wanted.push(shared.map(|input| (input.address, input.layout.bytes())));
                continue;
            };
            if output.host.is_some() {
                return self.wrong(format!("output {at} at {:#x} is host memory", output.address));
            }
            self.check_device(format_args!("output {at}"), output.address, output.bytes)?;
            wanted.push(Some((output.address, output.bytes)));
        }
        Ok(wanted)
    }

    fn run_static(
        &self,
        loaded: &Arc<Loaded>,
        taking: &Taking<'_>,
        given: &[Given],
        wanted: &[Wanted],
    ) -> Result<Vec<Out>> {
        let compiled = &loaded.compiled;
        let Kind::Static { program, steps, .. } = &compiled.kind else {
            unreachable!("a static graph")
        };
        for (at, (layout, wanted)) in program.outputs.iter().zip(wanted).enumerate() {
            if let Some((_, have)) = wanted
                && *have < layout.bytes()
            {
                let want = layout.bytes();
                return self.wrong(format!(
                    "output {at} is {layout}, {want} bytes; its memory has {have}"
                ));
            }
        }
        let mut ranges = Ranges::default();
        let mut uploads: Vec<(usize, Lease, Arc<[u8]>)> = Vec::new();
        for (at, one) in given.iter().enumerate() {
            ranges.inputs.push(match &one.host {
                None => one.address,
                Some(bytes) => {
                    let lease = taking.take(Class::HostInput, None, room(bytes.len()))?;
                    let address = lease.address();
                    uploads.push((at, lease, bytes.clone()));
                    address
                }
            });
        }
        let mut made: Vec<Made> = Vec::new();
        let mut apart: Vec<(usize, Lease, usize)> = Vec::new();
        for (at, (layout, wanted)) in program.outputs.iter().zip(wanted).enumerate() {
            let declared = compiled.reuse.iter().any(|(_, output)| *output == at);
            match wanted {
                None => {
                    let lease = taking.take(Class::Output, None, room(layout.bytes()))?;
                    ranges.outputs.push(lease.address());
                    made.push(Made {
                        layout: *layout,
                        address: lease.address(),
                        lease: Some(lease),
                    });
                }
                Some((address, _))
                    if (!declared && shares(given, *address, layout.bytes()))
                        || meets(&made, *address, layout.bytes()) =>
                {
                    let lease = taking.take(Class::Output, None, room(layout.bytes()))?;
                    ranges.outputs.push(lease.address());
                    apart.push((at, lease, *address));
                    made.push(Made { layout: *layout, address: *address, lease: None });
                }
                Some((address, _)) => {
                    ranges.outputs.push(*address);
                    made.push(Made { layout: *layout, address: *address, lease: None });
                }
            }
        }
        let feature = self.refreshed(loaded, taking)?;
        let place = Place::Device(self.stream.spec.device);
        {
            let mut runs = loaded.runs();
            let shares = runs.shares();
            loaded.order(&mut runs, self.stream, shares)?;
            let ground = runs.ground(compiled);
            ranges.constants = ground.constants;
            ranges.feature = ground.feature.or(feature.as_ref().map(Lease::address)).unwrap_or(0);
            let inside = ranges.feature + compiled.refreshable_bytes() as usize;
            ranges.fixed = ground.fixed.unwrap_or(inside);
            if ground.fixed.is_none() {
                runs.forget_fixed();
            }
            for (at, lease, bytes) in &uploads {
                let to = Span { address: lease.address(), bytes: bytes.len(), place };
                let what = format!("input {at} (node {})", compiled.inputs[*at].0);
                let body = Named::body(Upload(bytes.clone()), &compiled.label, &what);
                let writes: Spans = [to].into_iter().collect();
                self.stream.submit(Task {
                    name: "graph input",
                    reads: Spans::new(),
                    writes,
                    body,
                })?;
            }
            runs.initialise(compiled, self.stream, ranges.fixed)?;
            steps.submit(self.stream, &ranges)?;
            for (at, lease, to) in &apart {
                let bytes = program.outputs[*at].bytes();
                let span = |address| Span { address, bytes, place };
                let what = format!("output {at} (node {})", compiled.makers[*at]);
                let copy = copying(span(lease.address()), span(*to), &compiled.label, &what);
                self.stream.submit(copy)?;
            }
        }
        let leases = feature.into_iter().chain(uploads.into_iter().map(|(_, lease, _)| lease));
        for lease in leases.chain(apart.into_iter().map(|(_, lease, _)| lease)) {
            lease.give()?;
        }
        Ok(made.into_iter().map(out).collect())
    }

    /// Feature memory for one run, of a graph that has none of its own: where the last run's was, if the
    /// same allocator gives it.
    fn refreshed(&self, loaded: &Loaded, taking: &Taking<'_>) -> Result<Option<Lease>> {
        let (ground, last) = {
            let runs = loaded.runs();
            (runs.ground(&loaded.compiled), runs.last_feature)
        };
        if ground.feature.is_some() {
            return Ok(None);
        }
        let compiled = &loaded.compiled;
        let size = match ground.fixed {
            Some(_) => compiled.refreshable_size(),
            None if compiled.fixed_bytes() > 0 => compiled.feature_size(),
            None => compiled.refreshable_size(),
        };
        let maker = Arc::as_ptr(taking.supply).cast::<u8>() as usize;
        let near = last.filter(|(before, _)| *before == maker).map(|(_, address)| address);
        let lease = taking.near(Class::Feature, None, size, near)?;
        loaded.runs().last_feature = Some((maker, lease.address()));
        Ok(Some(lease))
    }
}

/// Whether memory shares bytes with an output that comes before it.
fn meets(before: &[Made], address: usize, bytes: usize) -> bool {
    before
        .iter()
        .any(|one| address < one.address + one.layout.bytes() && one.address < address + bytes)
}

fn out(made: Made) -> Out {
    let dims = made.layout.dims().iter().map(|dim| *dim as i64).collect();
    let bytes = made.lease.as_ref().map_or(made.layout.bytes(), |lease| lease.bytes() as usize);
    let held = made.lease.map(Held::Device);
    Out { address: made.address, bytes, dtype: made.layout.dtype, dims, held }
}
