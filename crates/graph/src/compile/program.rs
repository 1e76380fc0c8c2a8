//! A static graph as steps over a few regions of memory, all offsets decided.
//!
//! ```text
//!  regions   const | fixed | feature | input 0.. | output 0..
//!  init      steps that need constants alone: run when the graph is loaded, into `fixed`
//!  steps     the rest, in order
//! ```

use super::append::{self, Follower};
use super::arena::{self, Lifetime};
use super::constants::{ConstantLayout, Constants};
use super::flatten::{Jump, Label};
use super::fuse::{self, FusedPlan, FusedStep, SharedMemory};
use super::operation::{KnownTensor, Operation};
use super::prepare::{Prepared, ValueId, Work, WorkNode};
use crate::failure::Failure;
use bytes::Bytes;
use cairn_ops::{AccessMode, Error, Packing, Plan};
use cairn_tensor::{DType, Layout};
use smallvec::SmallVec;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Parts of const and feature memory begin on multiples of this.
pub const ALIGN: u64 = 512;

/// A piece of memory that a graph runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Region {
    /// Constants; written when the graph is loaded.
    Const,
    /// What depends on constants alone; written when the graph is loaded.
    Fixed,
    /// Intermediates and workspaces.
    Feature,
    /// A tensor that comes in.
    Input(usize),
    /// A tensor that goes out.
    Output(usize),
}

/// Bytes of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice {
    /// Which region.
    pub region: Region,
    /// First byte.
    pub start: usize,
    /// How many.
    pub bytes: usize,
}

/// One node, or several fused ones, with their memory.
pub struct Step {
    /// The node's name and its operator's; of several, those of the first and the last.
    pub name: Arc<str>,
    /// What runs.
    pub action: Action,
    /// The memory it touches, in the order of the action.
    pub uses: SmallVec<[MemoryUse; 4]>,
    /// Its workspace.
    pub workspace: Slice,
}

/// Memory that a step touches.
#[derive(Clone, Copy, Debug)]
pub struct MemoryUse {
    /// Where.
    pub slice: Slice,
    /// What is done with it.
    pub access: AccessMode,
}

/// What a step does.
pub enum Action {
    /// One node.
    One(Box<Plan>),
    /// Several nodes, a piece of their elements at a time.
    Fused(FusedPlan),
    /// None: it says which step is next. A switch has the value that chooses as its one use.
    Jump(Jump, DType),
}

/// A static graph, compiled.
pub struct Program {
    /// Run once in every fixed memory.
    pub init: Vec<Step>,
    /// Run each time.
    pub steps: Vec<Step>,
    /// The step of each label, by number: jumps name them.
    pub labels: Vec<usize>,
    /// The constants that a load uploads, and where they go in const memory.
    pub constants: Constants,
    /// Bytes of const memory, with the constants of graphs that share it and were compiled before.
    pub const_bytes: u64,
    /// Bytes of fixed memory.
    pub fixed_bytes: u64,
    /// Bytes of intermediates and workspaces.
    pub feature_bytes: u64,
    /// The least feature memory that any plan needs.
    pub feature_lower_bound: u64,
    /// The layouts of the inputs.
    pub inputs: Vec<Layout>,
    /// The layouts of the outputs.
    pub outputs: Vec<Layout>,
}

/// Where a value's bytes are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Storage {
    /// Not decided.
    Undecided,
    /// In const memory, where steps or outputs need it as it is.
    Constant,
    /// In a region, from this byte on.
    At(Region, u64),
    /// Where another value's are.
    Same(ValueId),
    /// In feature memory, by number of its lifetime.
    Lifetime(usize),
}

/// Why a graph has no program.
pub enum ProgramError {
    /// A node needs values that only a run knows: it is dynamic.
    Values,
    /// It cannot run at all.
    Failed(Failure),
}

impl From<Failure> for ProgramError {
    fn from(failure: Failure) -> ProgramError {
        ProgramError::Failed(failure)
    }
}

type Result<T> = std::result::Result<T, ProgramError>;

/// Binds a graph all of whose sizes are known. The outputs `copied_outputs` are written by a copy at the end,
/// because they may share memory with inputs. Constants go where `layout` has room.
pub fn program(
    prepared: &Prepared,
    copied_outputs: &BTreeSet<usize>,
    fuses: bool,
    layout: &mut ConstantLayout,
) -> Result<Program> {
    Binder::new(prepared).bind(copied_outputs, fuses, layout)
}

/// Gives every value and every step of a graph its memory.
struct Binder<'a> {
    prepared: &'a Prepared,
    storage: Vec<Storage>,
    lifetimes: Vec<Lifetime>,
    /// Bytes of fixed memory so far.
    fixed: u64,
    /// The step of each label that was met.
    labels: Vec<usize>,
    /// The loops that are open, the innermost last.
    loops: Vec<OpenLoop>,
    /// The values that nodes write in place.
    written: BTreeSet<ValueId>,
}

/// A loop whose end has not come yet.
struct OpenLoop {
    /// Its first step.
    start: usize,
    /// The lifetimes that began before it and are used in it.
    outer: BTreeSet<usize>,
}

/// A step before offsets are known.
struct UnplacedStep {
    name: Arc<str>,
    action: Action,
    /// For each use: the value, bytes from its start, how many, and what is done with them.
    uses: SmallVec<[(ValueId, usize, usize, AccessMode); 4]>,
    workspace: Workspace,
    workspace_bytes: usize,
    /// The use that is packed, and where it begins in const memory.
    packed: Option<(usize, u64)>,
}

/// Where a step's workspace is: nowhere, in feature memory by number of its lifetime, or in fixed memory from this byte on.
#[derive(Clone, Copy)]
enum Workspace {
    None,
    Lifetime(usize),
    Fixed(u64),
}

/// Places a packed constant in const memory: its first byte there.
type PlacePacked<'a> = dyn FnMut(&Bytes, Packing) -> u64 + 'a;

/// The name of a step that computes several nodes.
fn span_name(first: &WorkNode, last: &WorkNode) -> Arc<str> {
    let (first, last) = (first.operation(), last.operation());
    format!("{} ({}) to {} ({})", first.name, first.row.name, last.name, last.row.name).into()
}

fn align_up(bytes: u64) -> u64 {
    bytes.next_multiple_of(ALIGN)
}

impl<'a> Binder<'a> {
    fn new(prepared: &'a Prepared) -> Binder<'a> {
        let storage = vec![Storage::Undecided; prepared.values.len()];
        let (lifetimes, labels, loops) = (Vec::new(), Vec::new(), Vec::new());
        Binder { prepared, storage, lifetimes, fixed: 0, labels, loops, written: BTreeSet::new() }
    }

    fn layout(&self, value: ValueId) -> Layout {
        self.prepared.values[value].desc.layout().expect("a static graph knows every size")
    }

    fn root(&self, mut value: ValueId) -> ValueId {
        while let Storage::Same(of) = self.storage[value] {
            value = of;
        }
        value
    }

    fn bind(
        mut self,
        copied_outputs: &BTreeSet<usize>,
        fuses: bool,
        layout: &mut ConstantLayout,
    ) -> Result<Program> {
        let prepared = self.prepared;
        for (at, input) in prepared.inputs.iter().enumerate() {
            self.storage[input.value] = Storage::At(Region::Input(at), 0);
        }
        for work in &prepared.work_nodes {
            let viewed = work.is_view.then(|| (0, work.inputs[0].expect("a view's input")));
            for (_, of) in work.in_place_outputs() {
                self.written.insert(self.root(of));
            }
            for (output, of) in viewed.into_iter().chain(work.in_place_outputs()) {
                self.storage[work.outputs[output]] = Storage::Same(self.root(of));
            }
        }
        let roots = self.roots();
        let touches = fuse::touches(prepared, &roots);
        let memory = SharedMemory { roots: &roots, touches: &touches };
        self.mark_constants();
        let mut constants = Constants::new();
        let outputs = self.outputs(copied_outputs);
        let work_nodes: Vec<&WorkNode> =
            (prepared.work_nodes.iter()).filter(|work| !work.is_view).collect();
        let (mut init, mut steps) = (Vec::new(), Vec::new());
        let (constant_nodes, others): (Vec<&WorkNode>, Vec<&WorkNode>) =
            work_nodes.into_iter().partition(|work| work.is_constant);
        for work in constant_nodes {
            init.push(self.init_step(work)?);
        }
        let mut rest = &others[..];
        while !rest.is_empty() {
            let count = if fuses { fuse::group_length(prepared, &roots, rest) } else { 1 };
            let (group, following) = rest.split_at(count);
            rest = following;
            if count > 1
                && let Some(step) = self.fused_step(&memory, group, steps.len())
            {
                steps.push(step);
                continue;
            }
            for work in group {
                let at = steps.len();
                steps.push(match &work.work {
                    Work::Jump(jump) => self.jump(jump, work.inputs.first().copied().flatten(), at),
                    _ => {
                        let mut place = |bytes: &Bytes, packing| {
                            layout.place_packed(bytes, Some(packing), &mut constants)
                        };
                        let following = if fuses && count == 1 { following } else { &[] };
                        let (step, appended) =
                            self.step(work, following, &memory, at, &mut place)?;
                        rest = &rest[appended..];
                        step
                    }
                });
            }
        }
        for (output, value) in outputs {
            let at = steps.len();
            steps.push(self.copy(output, value, at)?);
        }
        self.place_constants(init.iter().chain(&steps), layout, &mut constants);
        let const_bytes = layout.bytes();
        let arena = arena::plan(&self.lifetimes, ALIGN);
        let finish = |steps: Vec<UnplacedStep>| {
            steps.into_iter().map(|one| self.finish(one, &arena)).collect()
        };
        let layouts = |values: &mut dyn Iterator<Item = ValueId>| {
            values.map(|value| self.layout(value)).collect()
        };
        Ok(Program {
            init: finish(init),
            steps: finish(steps),
            labels: self.labels.clone(),
            constants,
            const_bytes,
            fixed_bytes: self.fixed,
            feature_bytes: arena.bytes,
            feature_lower_bound: arena.lower_bound,
            inputs: layouts(&mut prepared.inputs.iter().map(|input| input.value)),
            outputs: layouts(&mut prepared.outputs.iter().map(|output| output.value)),
        })
    }

    /// The constants that steps or outputs read, in their order.
    fn constant_roots(&self) -> Vec<ValueId> {
        let prepared = self.prepared;
        let values_read =
            prepared.work_nodes.iter().flat_map(|work| work.inputs.iter().flatten().copied());
        let values_out = prepared.outputs.iter().map(|output| output.value);
        let roots = values_read.chain(values_out).map(|value| self.root(value));
        roots.filter(|root| prepared.values[*root].bytes.is_some()).collect()
    }

    /// Says which values are constants.
    fn mark_constants(&mut self) {
        for root in self.constant_roots() {
            if self.storage[root] == Storage::Undecided {
                self.storage[root] = Storage::Constant;
            }
        }
    }

    /// Places the constants that these steps touch, but for those that they have packed.
    fn place_constants<'s>(
        &mut self,
        steps: impl Iterator<Item = &'s UnplacedStep>,
        layout: &mut ConstantLayout,
        placed: &mut Constants,
    ) {
        let mut is_touched = vec![false; self.storage.len()];
        for step in steps {
            let packed = step.packed.map(|(at, _)| at);
            for (at, (value, ..)) in step.uses.iter().enumerate() {
                if packed != Some(at) && *value < self.storage.len() {
                    is_touched[self.root(*value)] = true;
                }
            }
        }
        for root in self.constant_roots() {
            if let Some(bytes) = &self.prepared.values[root].bytes
                && self.storage[root] == Storage::Constant
                && is_touched[root]
            {
                self.storage[root] = Storage::At(Region::Const, layout.place(bytes, placed));
            }
        }
    }

    /// Packs the operand of a step that is a constant, if its plan can take one packed.
    fn pack(&self, step: &mut UnplacedStep, place: &mut PlacePacked<'_>) {
        let Action::One(plan) = &mut step.action else { return };
        let Some(at) = plan.packable() else { return };
        let (value, byte_offset, bytes, _) = step.uses[at];
        let constant = self.prepared.values[self.root(value)].bytes.as_ref();
        let Some(constant) = constant.filter(|constant| {
            byte_offset == 0
                && constant.len() == bytes
                && self.storage[self.root(value)] == Storage::Constant
                && !self.written.contains(&self.root(value))
        }) else {
            return;
        };
        let Some(packing) = plan.pack() else { return };
        step.uses[at].2 = packing.bytes;
        step.workspace_bytes = plan.workspace;
        step.packed = Some((at, place(constant, packing)));
    }

    /// Lets values be made where they go out. What is left is copied: (output, value).
    fn outputs(&mut self, copied_outputs: &BTreeSet<usize>) -> Vec<(usize, ValueId)> {
        let constant_values: BTreeSet<ValueId> = (self.prepared.work_nodes.iter())
            .filter(|work| work.is_constant)
            .flat_map(|work| work.outputs.iter().map(|value| self.root(*value)))
            .collect();
        let mut copied = Vec::new();
        for (at, output) in self.prepared.outputs.iter().enumerate() {
            let root = self.root(output.value);
            match self.storage[root] == Storage::Undecided
                && !copied_outputs.contains(&at)
                && !constant_values.contains(&root)
            {
                true => self.storage[root] = Storage::At(Region::Output(at), 0),
                false => copied.push((at, output.value)),
            }
        }
        copied
    }

    /// A value is touched at a step: it lives until then, and from then if it did not before.
    fn touch(&mut self, value: ValueId, step: usize) {
        let root = self.root(value);
        match self.storage[root] {
            Storage::Undecided => {
                let bytes = self.layout(root).bytes() as u64;
                self.storage[root] = Storage::Lifetime(self.lifetimes.len());
                self.lifetimes.push(Lifetime { bytes, first: step, last: step });
            }
            Storage::Lifetime(lifetime) => {
                self.lifetimes[lifetime].last = step;
                let first = self.lifetimes[lifetime].first;
                for open in self.loops.iter_mut().filter(|open| first < open.start) {
                    open.outer.insert(lifetime);
                }
            }
            _ => {}
        }
    }

    /// Plans an operation on these values.
    fn unplaced_step(
        &self,
        operation: &Operation,
        inputs: &[Option<ValueId>],
        outputs: &[ValueId],
    ) -> Result<UnplacedStep> {
        let name: Arc<str> = format!("{} ({})", operation.name, operation.row.name).into();
        let tensors: Vec<Option<KnownTensor>> = inputs
            .iter()
            .map(|value| value.and_then(|at| self.prepared.values[at].known_tensor()))
            .collect();
        let layouts: Vec<Layout> = outputs.iter().map(|value| self.layout(*value)).collect();
        let fed = inputs.iter().map(|value| value.map_or(usize::MAX, |value| self.root(value)));
        let produced =
            outputs.iter().enumerate().map(|(at, value)| match inputs.contains(&Some(*value)) {
                true => usize::MAX - 1 - at,
                false => self.root(*value),
            });
        let memory: SmallVec<[usize; 8]> = fed.chain(produced).collect();
        let plan =
            operation.plan_sharing(&tensors, &layouts, &memory).map_err(|error| match error {
                Error::NeedsValues(_) => ProgramError::Values,
                error => Failure::failed(format!("the node {name}: {}", error.text())).into(),
            })?;
        let uses = (plan.uses.iter())
            .map(|one| {
                let place = one.argument.0 + one.argument.1;
                let value = match place.checked_sub(inputs.len()) {
                    None => inputs[place].expect("a use of an input that is there"),
                    Some(output) => outputs[output],
                };
                (value, one.byte_offset.unsigned_abs(), one.bytes, one.access)
            })
            .collect();
        let workspace_bytes = plan.workspace;
        let workspace = Workspace::None;
        Ok(UnplacedStep {
            name,
            action: Action::One(Box::new(plan)),
            uses,
            workspace,
            workspace_bytes,
            packed: None,
        })
    }

    /// The value whose memory each value is.
    fn roots(&self) -> Vec<ValueId> {
        (0..self.storage.len()).map(|value| self.root(value)).collect()
    }

    /// Gives a step its workspace in feature memory, and lets its values live.
    fn place(
        &mut self,
        step: &mut UnplacedStep,
        produced: impl Iterator<Item = ValueId>,
        at: usize,
    ) {
        let touched: Vec<ValueId> =
            step.uses.iter().map(|(value, ..)| *value).chain(produced).collect();
        touched.into_iter().for_each(|value| self.touch(value, at));
        if step.workspace_bytes > 0 {
            step.workspace = Workspace::Lifetime(self.lifetimes.len());
            self.lifetimes.push(Lifetime {
                bytes: step.workspace_bytes as u64,
                first: at,
                last: at,
            });
        }
    }

    /// Several nodes as one step.
    fn fused_step(
        &mut self,
        memory: &SharedMemory,
        work_nodes: &[&WorkNode],
        at: usize,
    ) -> Option<UnplacedStep> {
        let FusedStep { fused, uses, scratch } = fuse::build(self.prepared, memory, work_nodes)?;
        let name = span_name(work_nodes[0], work_nodes[work_nodes.len() - 1]);
        let uses =
            uses.into_iter().map(|(value, bytes, access)| (value, 0, bytes, access)).collect();
        let mut step = UnplacedStep {
            name,
            action: Action::Fused(fused),
            uses,
            workspace: Workspace::None,
            workspace_bytes: scratch,
            packed: None,
        };
        self.place(&mut step, std::iter::empty(), at);
        Some(step)
    }

    /// A node as a step, and how many of those that follow it are computed with it.
    fn step(
        &mut self,
        work: &WorkNode,
        following: &[&WorkNode],
        memory: &SharedMemory,
        at: usize,
        place: &mut PlacePacked<'_>,
    ) -> Result<(UnplacedStep, usize)> {
        let mut step = self.unplaced_step(work.operation(), &work.inputs, &work.outputs)?;
        self.pack(&mut step, place);
        let appended = self.append(&mut step, work, following, memory);
        let last = if appended == 0 { work } else { following[appended - 1] };
        self.place(&mut step, last.outputs.iter().copied(), at);
        Ok((step, appended))
    }

    /// Lets a step compute elementwise nodes that follow it; returns how many.
    fn append(
        &self,
        step: &mut UnplacedStep,
        work: &WorkNode,
        following: &[&WorkNode],
        memory: &SharedMemory,
    ) -> usize {
        let Action::One(plan) = &mut step.action else { return 0 };
        if !plan.takes_stages() || work.outputs.len() != 1 {
            return 0;
        }
        let mut made = vec![memory.roots[work.outputs[0]]];
        let mut followers = Vec::new();
        for next in following.iter().take(append::MAX_NODES) {
            if !append::can_follow(memory, &made, next) {
                break;
            }
            let planned = self.unplaced_step(next.operation(), &next.inputs, &next.outputs);
            let Ok(UnplacedStep { action: Action::One(plan), uses, .. }) = planned else { break };
            let values = uses.iter().map(|(value, ..)| *value).collect();
            followers.push(Follower { work: next, plan, values });
            made.push(memory.roots[next.outputs[0]]);
        }
        let Some(appended) = append::append(plan, work, &followers, memory) else { return 0 };
        let last = followers[appended.count - 1].work;
        for one in step.uses.iter_mut().filter(|(.., access)| access.writes) {
            one.0 = last.outputs[0];
        }
        let added = appended.values.iter().zip(&plan.uses[step.uses.len()..]);
        let added: Vec<_> = added.map(|(value, one)| (*value, 0, one.bytes, one.access)).collect();
        step.uses.extend(added);
        step.name = span_name(work, last);
        appended.count
    }

    /// A step that says which is next. What a loop uses of the steps before it lives until the loop is left.
    fn jump(&mut self, jump: &Jump, input: Option<ValueId>, at: usize) -> UnplacedStep {
        match jump {
            Jump::Here(label) => self.set_label(*label, at),
            Jump::LoopStart(label) => {
                self.set_label(*label, at);
                self.loops.push(OpenLoop { start: at, outer: BTreeSet::new() });
            }
            Jump::LoopEnd(_) => {
                let ended = self.loops.pop().expect("a loop that was opened");
                for lifetime in ended.outer {
                    self.lifetimes[lifetime].last = at;
                }
            }
            Jump::Switch(..) | Jump::Goto(_) => {}
        }
        let mut uses = SmallVec::new();
        let mut dtype = DType::Bool;
        if let Some(value) = input {
            self.touch(value, at);
            dtype = self.layout(value).dtype;
            let reads = AccessMode { reads: true, writes: false };
            uses.push((value, 0, self.layout(value).bytes(), reads));
        }
        UnplacedStep {
            name: "control flow".into(),
            action: Action::Jump(jump.clone(), dtype),
            uses,
            workspace: Workspace::None,
            workspace_bytes: 0,
            packed: None,
        }
    }

    fn set_label(&mut self, label: Label, at: usize) {
        if self.labels.len() <= label {
            self.labels.resize(label + 1, 0);
        }
        self.labels[label] = at;
    }

    /// A step that runs at load, with its outputs and workspace in fixed memory.
    fn init_step(&mut self, work: &WorkNode) -> Result<UnplacedStep> {
        for value in &work.outputs {
            let root = self.root(*value);
            if self.storage[root] == Storage::Undecided {
                self.storage[root] = Storage::At(Region::Fixed, self.fixed);
                self.fixed += align_up(self.layout(root).bytes() as u64);
            }
        }
        let mut step = self.unplaced_step(work.operation(), &work.inputs, &work.outputs)?;
        if step.workspace_bytes > 0 {
            step.workspace = Workspace::Fixed(self.fixed);
            self.fixed += align_up(step.workspace_bytes as u64);
        }
        Ok(step)
    }

    /// A step that copies a value to an output.
    fn copy(&mut self, output: usize, value: ValueId, at: usize) -> Result<UnplacedStep> {
        let operation = Operation::copy(format!("output {output}"));
        let mut step = self.unplaced_step(&operation, &[Some(value)], &[value])?;
        self.touch(value, at);
        for one in step.uses.iter_mut().filter(|(.., access)| access.writes) {
            // A number beyond all values stands for the output itself.
            one.0 = self.prepared.values.len() + output;
        }
        Ok(step)
    }

    /// Some bytes of a value; see [`Binder::copy`] for numbers beyond all values.
    fn slice(
        &self,
        value: ValueId,
        byte_offset: usize,
        bytes: usize,
        arena: &arena::Arena,
    ) -> Slice {
        if let Some(output) = value.checked_sub(self.prepared.values.len()) {
            return Slice { region: Region::Output(output), start: byte_offset, bytes };
        }
        let (region, start) = match self.storage[self.root(value)] {
            Storage::At(region, start) => (region, start),
            Storage::Lifetime(lifetime) => (Region::Feature, arena.offsets[lifetime]),
            Storage::Undecided | Storage::Constant | Storage::Same(_) => (Region::Feature, 0),
        };
        Slice { region, start: start as usize + byte_offset, bytes }
    }

    /// The step with the offsets of the arena.
    fn finish(&self, step: UnplacedStep, arena: &arena::Arena) -> Step {
        let mut uses: SmallVec<[MemoryUse; 4]> = (step.uses.iter())
            .map(|(value, byte_offset, bytes, access)| MemoryUse {
                slice: self.slice(*value, *byte_offset, *bytes, arena),
                access: *access,
            })
            .collect();
        if let Some((at, start)) = step.packed {
            let slice = &mut uses[at].slice;
            *slice = Slice { region: Region::Const, start: start as usize, ..*slice };
        }
        let bytes = step.workspace_bytes;
        let workspace = match step.workspace {
            Workspace::None => Slice { region: Region::Feature, start: 0, bytes: 0 },
            Workspace::Lifetime(lifetime) => {
                Slice { region: Region::Feature, start: arena.offsets[lifetime] as usize, bytes }
            }
            Workspace::Fixed(start) => {
                Slice { region: Region::Fixed, start: start as usize, bytes }
            }
        };
        Step { name: step.name, action: step.action, uses, workspace }
    }
}
