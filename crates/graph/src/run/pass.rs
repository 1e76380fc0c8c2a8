//! One pass of a static graph's steps, as one task of a stream.

use super::report::PlanReport;
use super::steps;
use crate::compile::operation::run_plan;
use crate::compile::program::{Action, Program, Region, Slice, Step};
use cairn_exec::{Groups, TaskTurns, Workers};
use cairn_ops::{Fault, Group};
use cairn_runtime::clock::Epoch;
use cairn_runtime::error::{Code, Error, Result};
use cairn_runtime::memory::raw::{TaskMemory, Use};
use cairn_runtime::record::Spine;
use cairn_runtime::stream::Stream;
use cairn_runtime::task::{Body, Kernel, Location, Span, Spans, Task};
use smallvec::SmallVec;
use std::cell::Cell;
use std::sync::Arc;

/// The first byte of each region of a pass.
#[derive(Clone, Debug, Default)]
pub struct RegionAddresses {
    /// Const memory.
    pub constants: usize,
    /// Fixed memory.
    pub fixed: usize,
    /// Feature memory.
    pub feature: usize,
    /// The inputs.
    pub inputs: SmallVec<[usize; 8]>,
    /// The outputs.
    pub outputs: SmallVec<[usize; 8]>,
}

/// Which steps of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Those that need constants alone.
    Init,
    /// The others.
    Steps,
}

/// Some steps of a program; a load makes them a [`LoadedPass`].
pub struct Pass {
    program: Arc<Program>,
    part: Part,
    /// What the user calls the graph.
    label: Arc<str>,
    /// Each region that is touched, and whether it is written.
    regions: Vec<(Region, bool)>,
    /// What the user calls each of them.
    names: Vec<String>,
    /// What each step touches, step after step: a slice for each of its uses, and its workspace.
    slices: Vec<RegionSlice>,
    /// Where those of each step begin.
    first_slices: Vec<usize>,
    /// The groups that the steps communicate in.
    groups: Groups,
    /// Which of them each step uses; empty where none communicates.
    step_groups: Vec<SmallVec<[usize; 1]>>,
}

/// The steps of one loaded graph, ready to be submitted any number of times.
pub struct LoadedPass {
    pass: Arc<Pass>,
    report: PlanReport,
}

/// Some bytes of a region, by the region's index among those of the pass.
#[derive(Clone, Copy)]
struct RegionSlice {
    region: usize,
    start: usize,
    end: usize,
}

impl RegionSlice {
    fn of(slice: &Slice, regions: &[(Region, bool)]) -> RegionSlice {
        let index = regions.binary_search_by_key(&slice.region, |(region, _)| *region);
        match (index, slice.bytes) {
            (Ok(region), bytes) if bytes > 0 => {
                RegionSlice { region, start: slice.start, end: slice.start + bytes }
            }
            _ => RegionSlice { region: 0, start: 0, end: 0 },
        }
    }

    fn cells<'a>(&self, regions: &[&'a [Cell<u8>]]) -> &'a [Cell<u8>] {
        match self.end {
            0 => &[],
            end => &regions[self.region][self.start..end],
        }
    }
}

/// What the regions of a pass are at run time.
type Cells<'a> = SmallVec<[&'a [Cell<u8>]; 16]>;

impl Pass {
    /// The steps of one part. `nodes` has the nodes of the inputs, by index, and those that make the outputs.
    pub fn new(
        program: &Arc<Program>,
        part: Part,
        label: Arc<str>,
        nodes: (&[String], &[String]),
    ) -> Arc<Pass> {
        let mut regions: Vec<(Region, bool)> = Vec::new();
        let steps = if part == Part::Init { &program.init } else { &program.steps };
        let mut touch = |slice: &Slice, writes: bool| {
            if slice.bytes == 0 {
                return;
            }
            match regions.iter_mut().find(|(region, _)| *region == slice.region) {
                Some((_, written)) => *written |= writes,
                None => regions.push((slice.region, writes)),
            }
        };
        for step in steps {
            for one in &step.uses {
                touch(&one.slice, one.access.writes);
            }
            touch(&step.workspace, true);
        }
        regions.sort_unstable();
        let slices = (steps.iter())
            .flat_map(|step| step.uses.iter().map(|one| &one.slice).chain([&step.workspace]))
            .map(|slice| RegionSlice::of(slice, &regions))
            .collect();
        let mut first_slices = Vec::with_capacity(steps.len());
        let mut end = 0;
        for step in steps {
            first_slices.push(end);
            end += step.uses.len() + 1;
        }
        let mut groups = Groups::default();
        let uses = |step: &Step| match &step.action {
            Action::One(plan) => plan.groups.clone(),
            _ => SmallVec::new(),
        };
        let mut step_groups: Vec<_> = steps.iter().map(|step| groups.add(&uses(step))).collect();
        if groups.is_empty() {
            step_groups.clear();
        }
        let names = regions.iter().map(|(region, _)| region_name(*region, nodes)).collect();
        Arc::new(Pass {
            program: program.clone(),
            part,
            label,
            regions,
            names,
            slices,
            first_slices,
            groups,
            step_groups,
        })
    }

    fn steps(&self) -> &[Step] {
        match self.part {
            Part::Init => &self.program.init,
            Part::Steps => &self.program.steps,
        }
    }

    /// The address of a region, and its bytes.
    fn range(&self, region: Region, addresses: &RegionAddresses) -> (usize, usize) {
        let program = &self.program;
        match region {
            Region::Const => (addresses.constants, program.const_bytes as usize),
            Region::Fixed => (addresses.fixed, program.fixed_bytes as usize),
            Region::Feature => (addresses.feature, program.feature_bytes as usize),
            Region::Input(at) => (addresses.inputs[at], program.inputs[at].bytes()),
            Region::Output(at) => (addresses.outputs[at], program.outputs[at].bytes()),
        }
    }
}

impl LoadedPass {
    /// The steps for the graph that was loaded under this number.
    pub fn new(pass: &Arc<Pass>, loaded: u64) -> Arc<LoadedPass> {
        Arc::new(LoadedPass { pass: pass.clone(), report: PlanReport::new(loaded) })
    }

    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.pass.steps().is_empty()
    }

    /// Emits the steps, unless all subscribers have them.
    pub fn emit_load(&self, spine: &Spine) {
        let pass = &self.pass;
        self.report.emit_load(spine, &pass.label, || {
            let regions: Vec<Region> = pass.regions.iter().map(|(region, _)| *region).collect();
            steps::event_steps(pass.steps(), &regions)
        });
    }

    /// Submits the steps, on this memory.
    pub fn submit(
        self: &Arc<LoadedPass>,
        stream: &Arc<Stream>,
        addresses: &RegionAddresses,
    ) -> Result<u64> {
        let location = Location::Device(stream.spec.device);
        let (mut reads, mut writes) = (Spans::new(), Spans::new());
        for (region, is_written) in &self.pass.regions {
            let (address, bytes) = self.pass.range(*region, addresses);
            let span = Span { address, bytes, location };
            if *is_written { writes.push(span) } else { reads.push(span) }
        }
        if self.pass.groups.is_empty() {
            let body = Body::Kernel(self.clone());
            return stream.submit(Task { name: "graph", reads, writes, body });
        }
        let turns = self.pass.groups.take_turns(stream, "graph")?;
        let first = writes.len();
        turns.name_memory(stream.spec.device, &mut writes);
        let (turns, _memory) = turns.split();
        let body = Body::Exchange(Arc::new(CommunicatingPass { pass: self.clone(), turns, first }));
        stream.submit(Task { name: "graph", reads, writes, body })
    }
}

/// What the user calls a region.
fn region_name(region: Region, (inputs, outputs): (&[String], &[String])) -> String {
    let node = |names: &[String], at: usize| names.get(at).cloned().unwrap_or_default();
    match region {
        Region::Const => "const memory".into(),
        Region::Fixed => "fixed feature memory".into(),
        Region::Feature => "feature memory".into(),
        Region::Input(at) => format!("input {at} (node {})", node(inputs, at)),
        Region::Output(at) => format!("output {at} (node {})", node(outputs, at)),
    }
}

impl Kernel for LoadedPass {
    fn argument(&self, purpose: Use, index: usize) -> &str {
        let is_write = purpose == Use::Overwrite;
        let named = self.pass.regions.iter().zip(&self.pass.names);
        let mut of_kind = named.filter(|((_, is_written), _)| *is_written == is_write);
        of_kind.nth(index).map_or("memory", |(_, name)| name)
    }

    fn failure_prefix(&self) -> Option<&str> {
        Some(&self.pass.label)
    }

    fn emit_run(&self, spine: &Spine, epoch: Epoch, reads: &[Span], writes: &[Span]) {
        self.emit_load(spine);
        let (mut reads, mut writes) = (reads.iter(), writes.iter());
        let spans = self.pass.regions.iter().map(|(_, is_written)| match is_written {
            true => writes.next(),
            false => reads.next(),
        });
        let regions: SmallVec<[usize; 16]> = spans.flatten().map(|span| span.address).collect();
        self.report.emit_run(spine, epoch.stream, Some(epoch.seq), &regions);
    }

    fn run(&self, task_memory: &TaskMemory<'_>) -> Result<()> {
        self.run_in(task_memory, &[])
    }
}

/// One submit of a pass whose steps communicate.
struct CommunicatingPass {
    pass: Arc<LoadedPass>,
    turns: TaskTurns,
    /// The index of the turns' memory among what the task writes.
    first: usize,
}

impl Kernel for CommunicatingPass {
    fn argument(&self, purpose: Use, index: usize) -> &str {
        self.pass.argument(purpose, index)
    }

    fn failure_prefix(&self) -> Option<&str> {
        self.pass.failure_prefix()
    }

    fn emit_run(&self, spine: &Spine, epoch: Epoch, reads: &[Span], writes: &[Span]) {
        self.pass.emit_run(spine, epoch, reads, &writes[..self.first]);
        self.turns.emit(spine, epoch);
    }

    fn run(&self, task_memory: &TaskMemory<'_>) -> Result<()> {
        self.turns.run(task_memory, self.first, |groups| self.pass.run_in(task_memory, groups))
    }
}

impl LoadedPass {
    /// Runs with these groups, in the order of the pass.
    fn run_in(&self, task_memory: &TaskMemory<'_>, groups: &[&dyn Group]) -> Result<()> {
        let (mut read, mut written) = (0, 0);
        let mut cells = Cells::new();
        for (_, is_written) in &self.pass.regions {
            cells.push(if *is_written {
                task_memory.write(written)
            } else {
                task_memory.read(read)
            });
            written += usize::from(*is_written);
            read += usize::from(!*is_written);
        }
        let scheduler = task_memory.scheduler();
        match self.pass.steps() {
            [_] => self.run_steps(&cells, groups, task_memory),
            _ => scheduler.sharing(|| self.run_steps(&cells, groups, task_memory)),
        }
    }

    /// Runs the steps on the regions' memory.
    fn run_steps(
        &self,
        cells: &Cells<'_>,
        groups: &[&dyn Group],
        task_memory: &TaskMemory<'_>,
    ) -> Result<()> {
        let parallel = Workers(task_memory.scheduler());
        let overflow = cairn_exec::overflow(task_memory);
        let mut uses: SmallVec<[&[Cell<u8>]; 8]> = SmallVec::new();
        let steps = self.pass.steps();
        let mut next = 0;
        while let Some(step) = steps.get(next) {
            let slices = &self.pass.slices[self.pass.first_slices[next]..];
            let (used, rest) = slices.split_at(step.uses.len());
            uses.clear();
            uses.extend(used.iter().map(|slice| slice.cells(cells)));
            let workspace = rest[0].cells(cells);
            let places = self.pass.step_groups.get(next);
            let step_groups: SmallVec<[&dyn Group; 1]> =
                places.into_iter().flatten().map(|place| groups[*place]).collect();
            next += 1;
            let result = match &step.action {
                Action::One(plan) => {
                    run_plan(plan, &uses, workspace, &step_groups, &parallel, overflow)
                }
                Action::Fused(fused) => fused.run(&uses, workspace, &parallel, overflow),
                Action::Jump(jump, dtype) => {
                    let selector = uses.first().copied().unwrap_or_default();
                    if let Some(label) = jump.label(selector, *dtype) {
                        next = self.pass.program.labels[label];
                    }
                    Ok(())
                }
            };
            result.map_err(|Fault(text)| {
                Error::new(Code::OperatorException, format!("node {}: {text}", step.name))
            })?;
        }
        Ok(())
    }
}
