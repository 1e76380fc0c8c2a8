//! One run of a dynamic graph: sizes first, then memory and a task for each node.
//!
//! Nodes whose inputs are known on the host and small are computed there, so that sizes never wait for the
//! device. A size that depends on what the device computes makes the call wait for that node alone. What was
//! planned for some sizes is kept and used again.

use crate::compile::flow::{Flow, Origin};
use crate::compile::operation::{Operation, Seen};
use crate::compile::prepare::{ValueId, Work};
use crate::failure::{Failure, Result};
use crate::run::memory::{Class, Taking, room, workspace_room};
use crate::run::named::{Named, copying};
use cairn_exec::{Execution, Upload};
use cairn_ops::Error;
use cairn_runtime::Runtime;
use cairn_runtime::lock::{Mutex, Rank};
use cairn_runtime::memory::supply::Lease;
use cairn_runtime::task::{Place, Span, Spans, Task};
use cairn_tensor::Layout;
use smallvec::SmallVec;
use std::collections::HashMap;
use std::sync::Arc;

/// Values up to this size are computed and kept on the host where they can be.
const SMALL: usize = 8 << 10;

/// How many plans a graph keeps.
const PLANS: usize = 64;

/// A tensor that comes into a run.
#[derive(Clone, Debug)]
pub struct Given {
    /// Its elements, one after the other.
    pub layout: Layout,
    /// Where it is on the device; 0 for one on the host.
    pub address: usize,
    /// Its bytes, if it is on the host.
    pub host: Option<Arc<[u8]>>,
}

/// An output as the caller left it: address and bytes, or nothing.
pub type Wanted = Option<(usize, usize)>;

/// An output after a run.
pub struct Made {
    /// Its elements, one after the other.
    pub layout: Layout,
    /// Where it is.
    pub address: usize,
    /// Its memory, if the caller brought none.
    pub lease: Option<Lease>,
}

/// Plans by what they were made for.
pub struct Plans(Mutex<HashMap<Key, Arc<Trace>>>);

impl Default for Plans {
    fn default() -> Plans {
        Plans(Mutex::new(Rank::Plans, HashMap::new()))
    }
}

/// What a plan depends on: sizes of the inputs, and the bytes of small ones on the host.
type Key = Vec<(Sizes, Option<Arc<[u8]>>)>;

/// Type and sizes, to compare.
type Sizes = (i32, SmallVec<[usize; 8]>);

/// What a run does, for certain sizes.
pub struct Trace {
    steps: Vec<Step>,
    outputs: Vec<Layout>,
    /// Values that were computed on the host.
    hosted: HashMap<ValueId, Arc<[u8]>>,
}

/// One node, planned for certain sizes.
struct Step {
    work: usize,
    execution: Arc<Execution>,
    /// For each range it touches: the value's root and the bytes in front.
    uses: SmallVec<[(ValueId, isize); 4]>,
    /// What memory it makes: root, bytes.
    makes: SmallVec<[(ValueId, usize); 2]>,
    /// The values whose memory is not needed behind it.
    ends: SmallVec<[ValueId; 3]>,
}

/// An output by its place, and the sizes that its values decided.
type Decided = (usize, Vec<usize>);

/// A run under way.
pub struct Run<'a> {
    /// The runtime.
    pub runtime: &'a Runtime,
    /// The graph.
    pub flow: &'a Flow,
    /// What it is called.
    pub label: &'a str,
    /// Where memory comes from, and the stream.
    pub taking: Taking<'a>,
    /// Where the constants are.
    pub constants: usize,
    /// What comes in.
    pub inputs: &'a [Given],
    /// What goes out, by output.
    pub wanted: &'a [Wanted],
}

/// The memory of a run, by value: where it is, 0 for nowhere yet, and what was taken for it.
struct Memory {
    addresses: Vec<usize>,
    leases: Vec<Option<Lease>>,
}

impl Memory {
    fn new(values: usize) -> Memory {
        let mut leases = Vec::new();
        leases.resize_with(values, || None);
        Memory { addresses: vec![0; values], leases }
    }

    fn hold(&mut self, value: ValueId, lease: Lease) -> usize {
        let address = lease.address();
        self.addresses[value] = address;
        self.leases[value] = Some(lease);
        address
    }
}

struct Planning {
    seen: Vec<Option<Seen>>,
    hosted: HashMap<ValueId, Arc<[u8]>>,
    steps: Vec<Step>,
    launched: usize,
    repeats: bool,
}

impl Planning {
    /// What was known of the bytes that a value shares is not true any more.
    fn forget(&mut self, roots: &[ValueId], value: ValueId) {
        let shared = roots.iter().zip(&mut self.seen).filter(|(root, _)| **root == roots[value]);
        for seen in shared.filter_map(|(_, seen)| seen.as_mut()) {
            seen.bytes = None;
        }
    }
}

impl Run<'_> {
    /// Runs: everything is submitted when it returns. Outputs come in order.
    pub fn run(&self, plans: &Plans) -> Result<Vec<Made>> {
        let key: Key = (self.inputs.iter())
            .map(|given| {
                let sizes = (given.layout.dtype.number(), given.layout.dims().into());
                (sizes, given.host.clone().filter(|bytes| bytes.len() <= SMALL))
            })
            .collect();
        let kept = plans.0.lock().get(&key).cloned();
        let mut memory = Memory::new(self.flow.roots.len());
        let trace = match kept {
            Some(trace) => {
                self.check_outputs(&trace.outputs)?;
                self.launch(&trace.steps, &trace.hosted, &mut memory)?;
                trace
            }
            None => {
                let (trace, repeats) = self.plan(&mut memory)?;
                let trace = Arc::new(trace);
                if repeats {
                    let mut plans = plans.0.lock();
                    if plans.len() >= PLANS {
                        plans.clear();
                    }
                    plans.insert(key, trace.clone());
                }
                trace
            }
        };
        self.outputs(&trace, &mut memory)
    }

    /// Plans all nodes, and launches them. Where a size depends on the device, what is planned is launched
    /// first.
    fn plan(&self, memory: &mut Memory) -> Result<(Trace, bool)> {
        let prepared = &self.flow.prepared;
        let mut planning = Planning {
            seen: prepared.values.iter().map(|fact| fact.bytes.as_ref().and(fact.seen())).collect(),
            hosted: HashMap::new(),
            steps: Vec::new(),
            launched: 0,
            repeats: true,
        };
        for (input, given) in prepared.inputs.iter().zip(self.inputs) {
            let bytes = given.host.clone().filter(|bytes| bytes.len() <= SMALL);
            planning.seen[input.value] = Some(Seen { layout: given.layout, bytes });
        }
        for work in 0..prepared.works.len() {
            self.plan_node(work, &mut planning, memory)?;
        }
        let outputs: Vec<Layout> = (prepared.outputs.iter())
            .map(|output| planning.seen[output.value].as_ref().expect("an output of a node").layout)
            .collect();
        if planning.launched == 0 {
            self.check_outputs(&outputs)?;
        }
        self.launch(&planning.steps[planning.launched..], &planning.hosted, memory)?;
        let Planning { steps, hosted, repeats, .. } = planning;
        Ok((Trace { steps, outputs, hosted }, repeats))
    }

    fn check_outputs(&self, layouts: &[Layout]) -> Result<()> {
        for (at, (layout, wanted)) in layouts.iter().zip(self.wanted).enumerate() {
            if let Some((_, have)) = wanted
                && *have < layout.bytes()
            {
                let want = layout.bytes();
                return Err(Failure::invalid(format!(
                    "output {at} of {} is {layout}, {want} bytes; its memory has {have}",
                    self.label
                )));
            }
        }
        Ok(())
    }

    fn plan_node(&self, at: usize, planning: &mut Planning, memory: &mut Memory) -> Result<()> {
        let prepared = &self.flow.prepared;
        let work = &prepared.works[at];
        let operation = &work.operation;
        let told = |text: &str| {
            let (name, kind) = (&operation.name, operation.row.name);
            Failure::failed(format!("{}, node {name} ({kind}): {text}", self.label))
        };
        let mut inputs = seen(work, planning);
        let layouts = match operation.infer(&inputs) {
            Err(Error::Values(_)) => {
                self.fetch(at, planning, memory)?;
                inputs = seen(work, planning);
                operation.infer(&inputs)
            }
            inferred => inferred,
        };
        let layouts = layouts.map_err(|error| told(error.text()))?;
        if layouts.len() < work.outputs.len() {
            return Err(told("fewer outputs come out than the graph says"));
        }
        let layouts = &layouts[..work.outputs.len()];
        let bytes: usize = layouts.iter().map(Layout::bytes).sum();
        let marks = operation.row.marks;
        let stays = marks.sized_by_values || marks.random || work.written().is_some();
        if bytes <= SMALL && !stays && self.is_hosted(operation, &inputs) {
            let computed = operation.compute(&inputs, layouts).map_err(|text| told(&text))?;
            if let Some(results) = computed {
                for ((value, layout), bytes) in work.outputs.iter().zip(layouts).zip(results) {
                    planning.seen[*value] =
                        Some(Seen { layout: *layout, bytes: Some(bytes.clone()) });
                    planning.hosted.insert(self.flow.roots[*value], bytes);
                }
                return Ok(());
            }
        }
        for (value, layout) in work.outputs.iter().zip(layouts) {
            planning.seen[*value] = Some(Seen { layout: *layout, bytes: None });
        }
        if let Some(input) = work.written() {
            planning.forget(&self.flow.roots, input);
        }
        if work.is_view {
            let bytes = inputs[0].as_ref().and_then(|seen| seen.bytes.clone());
            planning.seen[work.outputs[0]].as_mut().expect("just set").bytes = bytes;
            return Ok(());
        }
        let roots = &self.flow.roots;
        let fed = work.inputs.iter().map(|value| value.map_or(usize::MAX, |value| roots[value]));
        let shared: SmallVec<[usize; 8]> =
            fed.chain(work.outputs.iter().map(|value| roots[*value])).collect();
        let plan = match operation.plan_over(&inputs, layouts, &shared) {
            Err(Error::Values(_)) => {
                self.fetch(at, planning, memory)?;
                inputs = seen(work, planning);
                operation.plan_over(&inputs, layouts, &shared)
            }
            planned => planned,
        };
        let plan = plan.map_err(|error| told(error.text()))?;
        let uses = (plan.uses.iter())
            .map(|one| {
                let place = one.argument.0 + one.argument.1;
                let value = match place.checked_sub(inputs.len()) {
                    None => work.inputs[place].expect("a use of an input that is there"),
                    Some(output) => work.outputs[output],
                };
                (roots[value], one.lead)
            })
            .collect();
        let makes: SmallVec<[(ValueId, usize); 2]> = (work.outputs.iter().zip(layouts))
            .skip(usize::from(work.written().is_some()))
            .map(|(value, layout)| (roots[*value], layout.bytes()))
            .collect();
        let decided: Arc<Mutex<Vec<Decided>>> = Arc::new(Mutex::new(Rank::Decided, Vec::new()));
        let sized: Option<cairn_exec::Sized> = operation.row.marks.sized_by_values.then(|| {
            let (heard, inputs) = (decided.clone(), inputs.len());
            let hear: cairn_exec::Sized = Box::new(move |(place, inner), dims: &[usize]| {
                heard.lock().push(((place + inner).saturating_sub(inputs), dims.to_vec()));
            });
            hear
        });
        let node = format!("{}, node {}", self.label, operation.name);
        let execution = Execution::part_of(node, operation.row.name, plan, sized);
        let ends = self.flow.ends[at].iter().copied().collect();
        planning.steps.push(Step { work: at, execution, uses, makes, ends });
        if operation.row.marks.sized_by_values {
            self.settle(at, planning, memory, "its sizes depend on values")?;
            for (output, dims) in decided.lock().iter() {
                if let Some(value) = work.outputs.get(*output) {
                    let seen = planning.seen[*value].as_mut().expect("just set");
                    seen.layout = Layout::contiguous(seen.layout.dtype, dims);
                }
            }
        }
        Ok(())
    }

    /// Whether a node is computed on the host: all it is fed is known there and small.
    fn is_hosted(&self, operation: &Operation, inputs: &[Option<Seen>]) -> bool {
        let known = inputs
            .iter()
            .flatten()
            .all(|seen| seen.bytes.as_ref().is_some_and(|bytes| bytes.len() <= SMALL));
        (known && inputs.iter().flatten().next().is_some()) || operation.row.marks.from_shapes
    }

    /// Launches all that is planned, and waits for it.
    fn settle(
        &self,
        at: usize,
        planning: &mut Planning,
        memory: &mut Memory,
        why: &str,
    ) -> Result<()> {
        let name = &self.flow.prepared.works[at].operation.name;
        log::info!("{} waits for its stream before node {name} goes on: {why}", self.label);
        self.launch(&planning.steps[planning.launched..], &planning.hosted, memory)?;
        planning.launched = planning.steps.len();
        planning.repeats = false;
        self.runtime.synchronize(self.taking.stream, None)?;
        Ok(())
    }

    /// Brings the values that a node must know to the host, where they are small.
    fn fetch(&self, at: usize, planning: &mut Planning, memory: &mut Memory) -> Result<()> {
        self.settle(at, planning, memory, "it needs values that the device computes")?;
        let work = &self.flow.prepared.works[at];
        let needed = |at: &usize| work.operation.row.needs_value_of(*at, work.inputs.len());
        for value in (0..work.inputs.len()).filter(needed).filter_map(|at| work.inputs[at]) {
            let Some(seen) = &mut planning.seen[value] else { continue };
            if seen.bytes.is_some() || seen.layout.bytes() > SMALL {
                continue;
            }
            let address = self.address(self.flow.roots[value], &planning.hosted, memory)?;
            let bytes = seen.layout.bytes();
            let read = self.runtime.read("graph value", address, bytes).ok_or_else(|| {
                Failure::failed(format!("{}: no device memory at {address:#x}", self.label))
            })?;
            seen.bytes = Some(read.into());
        }
        Ok(())
    }

    /// Where a value is; brings it to the device if it is on the host.
    fn address(
        &self,
        root: ValueId,
        hosted: &HashMap<ValueId, Arc<[u8]>>,
        memory: &mut Memory,
    ) -> Result<usize> {
        if memory.addresses[root] != 0 {
            return Ok(memory.addresses[root]);
        }
        let (bytes, class, what) = match self.flow.origins[root] {
            Origin::Constant(start) => return Ok(self.constants + start as usize),
            Origin::Input(at) => match &self.inputs[at].host {
                None => return Ok(self.inputs[at].address),
                Some(bytes) => {
                    let name = &self.flow.prepared.inputs[at].name;
                    (bytes.clone(), Class::HostInput, format!("input {at} (node {name})"))
                }
            },
            Origin::Made | Origin::MadeFor(_) => match hosted.get(&root) {
                Some(bytes) => (bytes.clone(), Class::Intermediate, format!("value {root}")),
                None => {
                    return Err(Failure::failed(format!(
                        "{}: value {root} has no memory",
                        self.label
                    )));
                }
            },
        };
        let lease = self.taking.take(class, None, room(bytes.len()))?;
        let stream = self.taking.stream;
        let place = Place::Device(stream.spec.device);
        let to = Span { address: lease.address(), bytes: bytes.len(), place };
        let body = Named::body(Upload(bytes), self.label, &what);
        let writes = [to].into_iter().collect();
        stream.submit(Task { name: "graph input", reads: Spans::new(), writes, body })?;
        Ok(memory.hold(root, lease))
    }

    fn launch(
        &self,
        steps: &[Step],
        hosted: &HashMap<ValueId, Arc<[u8]>>,
        memory: &mut Memory,
    ) -> Result<()> {
        for step in steps {
            self.launch_one(step, hosted, memory).map_err(|failure| {
                let operation = &self.flow.prepared.works[step.work].operation;
                let (name, kind) = (&operation.name, operation.row.name);
                failure.within(format!("{}, node {name} ({kind})", self.label))
            })?;
            for value in &step.ends {
                memory.addresses[*value] = 0;
                if let Some(lease) = memory.leases[*value].take() {
                    lease.give()?;
                }
            }
        }
        Ok(())
    }

    fn launch_one(
        &self,
        step: &Step,
        hosted: &HashMap<ValueId, Arc<[u8]>>,
        memory: &mut Memory,
    ) -> Result<()> {
        let operator = Some(step.execution.name);
        for (root, bytes) in &step.makes {
            if memory.addresses[*root] != 0 {
                continue;
            }
            let output = match self.flow.origins[*root] {
                Origin::MadeFor(at) => Some(at),
                _ => None,
            };
            let given = output.and_then(|at| self.wanted.get(at).copied().flatten());
            let given = given.filter(|(address, have)| {
                have >= bytes
                    && !shares(self.inputs, *address, *bytes)
                    && !output.is_some_and(|at| self.meets(at, *address, *bytes))
            });
            match given {
                Some((address, _)) => memory.addresses[*root] = address,
                None => {
                    let class = if output.is_some() { Class::Output } else { Class::Intermediate };
                    let lease = self.taking.take(class, operator, room(*bytes))?;
                    memory.hold(*root, lease);
                }
            }
        }
        let mut addresses: SmallVec<[usize; 6]> = SmallVec::new();
        for (root, lead) in &step.uses {
            addresses.push(self.address(*root, hosted, memory)?.wrapping_add_signed(*lead));
        }
        let workspace = match step.execution.workspace() {
            0 => None,
            bytes => Some(self.taking.take(Class::Workspace, operator, workspace_room(bytes))?),
        };
        let at = workspace.as_ref().map_or(0, Lease::address);
        step.execution.submit(self.taking.stream, &addresses, at)?;
        if let Some(lease) = workspace {
            lease.give()?;
        }
        Ok(())
    }

    /// Hands the outputs over; copies those that were not made where they go. What a copy would overwrite
    /// before another has read it is brought to safety first.
    fn outputs(&self, trace: &Trace, memory: &mut Memory) -> Result<Vec<Made>> {
        self.check_outputs(&trace.outputs)?;
        let mut made = Vec::new();
        let mut copies: Vec<(usize, usize)> = Vec::new();
        let mut apart: Vec<Lease> = Vec::new();
        for (at, output) in self.flow.prepared.outputs.iter().enumerate() {
            let root = self.flow.roots[output.value];
            let layout = trace.outputs[at];
            let is_made_here = self.flow.origins[root] == Origin::MadeFor(at);
            let wanted = self.wanted.get(at).copied().flatten();
            let mut from = self.address(root, &trace.hosted, memory)?;
            if is_made_here && (wanted.is_none() || wanted.is_some_and(|(to, _)| to == from)) {
                let lease = if wanted.is_none() { memory.leases[root].take() } else { None };
                made.push(Made { layout, address: from, lease });
                continue;
            }
            let is_overwritten = (self.wanted.iter().flatten()).any(|(to, have)| {
                *to != from && *to < from + layout.bytes() && from < to + have
                    || (*to == from && wanted.is_some_and(|(mine, _)| mine != from))
            });
            if is_overwritten {
                let lease = self.taking.take(Class::Intermediate, None, room(layout.bytes()))?;
                self.copy(at, &layout, from, lease.address())?;
                from = lease.address();
                apart.push(lease);
            }
            let lease = match wanted {
                Some(_) => None,
                None => Some(self.taking.take(Class::Output, None, room(layout.bytes()))?),
            };
            let to = lease.as_ref().map_or_else(|| wanted.map_or(0, |(to, _)| to), Lease::address);
            copies.push((from, made.len()));
            made.push(Made { layout, address: to, lease });
        }
        for (from, at) in copies {
            self.copy(at, &made[at].layout, from, made[at].address)?;
        }
        for lease in apart.into_iter().chain(memory.leases.iter_mut().filter_map(Option::take)) {
            lease.give()?;
        }
        Ok(made)
    }

    /// Whether memory of an output shares bytes with that of another.
    fn meets(&self, output: usize, address: usize, bytes: usize) -> bool {
        let others = self.wanted.iter().enumerate().filter(|(at, _)| *at != output);
        let mut others = others.filter_map(|(_, wanted)| *wanted);
        others.any(|(other, have)| address < other + have && other < address + bytes)
    }

    /// Copies for an output.
    fn copy(&self, output: usize, layout: &Layout, from: usize, to: usize) -> Result<()> {
        if layout.bytes() == 0 || from == to {
            return Ok(());
        }
        let place = Place::Device(self.taking.stream.spec.device);
        let span = |address| Span { address, bytes: layout.bytes(), place };
        let what = format!("output {output} (node {})", self.flow.prepared.outputs[output].name);
        self.taking.stream.submit(copying(span(from), span(to), self.label, &what))?;
        Ok(())
    }
}

/// Whether memory shares bytes with an input on the device.
pub fn shares(inputs: &[Given], address: usize, bytes: usize) -> bool {
    inputs.iter().any(|one| {
        let (start, end) = (one.address, one.address + one.layout.bytes());
        one.host.is_none() && start < address + bytes && address < end
    })
}

/// What is known of a node's inputs.
fn seen(work: &Work, planning: &Planning) -> Vec<Option<Seen>> {
    work.inputs.iter().map(|value| value.and_then(|at| planning.seen[at].clone())).collect()
}
