//! Several elementwise nodes as one step: a piece of the elements goes through all of them before the next
//! piece does, and what lies between them stays in a scratch that fits into the cache.
//!
//! `roots[v]` is the value whose memory the value `v` has: itself, unless `v` is a view or is written in place.

use super::arena::{self, Lifetime};
use super::operation::KnownTensor;
use super::prepare::{Prepared, ValueId, WorkNode};
use cairn_ops::{AccessMode, Fault, Memory, Outcome, Overflow, Plan};
use cairn_tensor::parallel::{Parallel, SingleThread, share};
use cairn_tensor::{Layout, Shared};
use smallvec::SmallVec;
use std::cell::Cell;
use std::collections::{BTreeSet, HashMap};
use std::sync::OnceLock;

/// How many elements a piece has.
const PIECE: usize = 2048;

/// How many threads may work on one step.
const WORKERS: usize = 16;

/// The fewest pieces that are worth a thread.
const MIN_PIECES: usize = 8;

/// Parts of the scratch begin on multiples of this.
const ALIGN: u64 = 64;

/// Several nodes, planned for pieces.
pub struct FusedPlan {
    parts: Vec<Part>,
    /// How many elements each node computes.
    count: usize,
    /// How many threads run it at most.
    workers: usize,
    /// Bytes of scratch of one of them.
    scratch: usize,
}

/// One node of a fused step.
struct Part {
    /// For a whole piece.
    whole: Plan,
    /// For the last piece, where it is shorter.
    rest: Option<Plan>,
    uses: SmallVec<[OperandLocation; 4]>,
}

/// Where a part finds one of its tensors.
#[derive(Clone, Copy)]
enum OperandLocation {
    /// A use of the step that has one element, the same for all pieces.
    One(usize),
    /// The piece's elements of a use of the step, of this many bytes each.
    Piece(usize, usize),
    /// In the scratch, from this byte on, elements of this many bytes.
    Scratch(usize, usize),
}

/// A fused plan, and the values that it touches.
pub struct FusedStep {
    /// What runs.
    pub fused: FusedPlan,
    /// The values it touches, with their bytes, in the order in which it wants them.
    pub uses: Vec<(ValueId, usize, AccessMode)>,
    /// Bytes of scratch.
    pub scratch: usize,
}

fn layout(prepared: &Prepared, value: ValueId) -> Layout {
    prepared.values[value].desc.layout().expect("a static graph knows every size")
}

/// How many elements a node computes, if they can be cut into pieces.
fn elements(prepared: &Prepared, work: &WorkNode) -> Option<usize> {
    let marks = work.table_operation()?.row.marks;
    if !marks.elementwise || marks.writes_first || work.outputs.len() != 1 {
        return None;
    }
    let count = layout(prepared, work.outputs[0]).count();
    let fits = |value: &ValueId| [1, count].contains(&layout(prepared, *value).count());
    (count > 0 && work.inputs.iter().flatten().all(fits)).then_some(count)
}

/// How many of the first nodes can be one step: elementwise ones, or the first alone.
pub fn group_length(prepared: &Prepared, roots: &[ValueId], work_nodes: &[&WorkNode]) -> usize {
    let Some(count) = elements(prepared, work_nodes[0]) else { return 1 };
    let mut produced = BTreeSet::from([roots[work_nodes[0].outputs[0]]]);
    let joining = work_nodes[1..].iter().take_while(|work| {
        let can_join =
            elements(prepared, work) == Some(count) && can_join(prepared, roots, &produced, work);
        if can_join {
            produced.insert(roots[work.outputs[0]]);
        }
        can_join
    });
    1 + joining.count()
}

/// Whether a node may join a group that makes these values: each is fed to it whole or not at all, and it
/// overwrites none of them.
fn can_join(
    prepared: &Prepared,
    roots: &[ValueId],
    produced: &BTreeSet<ValueId>,
    work: &WorkNode,
) -> bool {
    let count = layout(prepared, work.outputs[0]).count();
    let is_fed_whole = |value: &ValueId| {
        !produced.contains(&roots[*value]) || layout(prepared, *value).count() == count
    };
    !produced.contains(&roots[work.outputs[0]]) && work.inputs.iter().flatten().all(is_fed_whole)
}

/// Which values share memory.
pub struct SharedMemory<'a> {
    /// The value whose memory each value has.
    pub roots: &'a [ValueId],
    /// See [`touches`].
    pub touches: &'a [u32],
}

/// Plans a group; `None` if one of its nodes cannot be run in pieces after all. A node that is refused when it
/// stands alone is refused here too: in pieces its sizes would not be seen.
pub fn build(
    prepared: &Prepared,
    memory: &SharedMemory,
    work_nodes: &[&WorkNode],
) -> Option<FusedStep> {
    let count = layout(prepared, work_nodes[0].outputs[0]).count();
    let piece = PIECE.min(count);
    let inner = inner_values(memory, work_nodes);
    let lifetimes: Vec<Lifetime> = (inner.iter())
        .map(|(root, (first, last))| {
            let bytes = layout(prepared, *root).item() * piece;
            Lifetime { bytes: bytes as u64, first: *first, last: *last }
        })
        .collect();
    let arena = arena::plan(&lifetimes, ALIGN);
    let starts: HashMap<ValueId, u64> =
        inner.iter().map(|(root, _)| *root).zip(arena.offsets.iter().copied()).collect();
    let mut uses = Uses::default();
    let mut parts = Vec::with_capacity(work_nodes.len());
    for work in work_nodes {
        let whole = plan_piece(prepared, work, count, piece)?;
        (is_whole(prepared, work, count, piece) || can_plan_alone(prepared, work)).then_some(())?;
        let rest = match count % piece {
            0 => None,
            remainder => Some(plan_piece(prepared, work, count, remainder)?),
        };
        let places = (whole.uses.iter())
            .map(|one| {
                // The index of the parameter and the one in its list: together an index among inputs, then outputs.
                let at = one.argument.0 + one.argument.1;
                let value = match at.checked_sub(work.inputs.len()) {
                    None => work.inputs[at].expect("a use of an input that is there"),
                    Some(_) => work.outputs[0],
                };
                locate_operand(
                    prepared,
                    memory.roots,
                    &starts,
                    &mut uses,
                    (value, count),
                    one.access,
                )
            })
            .collect();
        parts.push(Part { whole, rest, uses: places });
    }
    let workers = (count / (PIECE * MIN_PIECES)).clamp(1, WORKERS);
    let scratch = arena.bytes as usize;
    let fused = FusedPlan { parts, count, workers, scratch };
    Some(FusedStep { fused, uses: uses.all, scratch: scratch * workers })
}

/// How often the nodes of a graph that run, and its outputs, touch each value, by root.
pub fn touches(prepared: &Prepared, roots: &[ValueId]) -> Vec<u32> {
    let mut touches = vec![0; roots.len()];
    let work_nodes = prepared.work_nodes.iter().filter(|work| !work.is_view);
    work_nodes.flat_map(touched).for_each(|value| touches[roots[value]] += 1);
    prepared.outputs.iter().for_each(|output| touches[roots[output.value]] += 1);
    touches
}

/// The values that a node touches.
pub fn touched(work: &WorkNode) -> impl Iterator<Item = ValueId> {
    work.inputs.iter().flatten().chain(&work.outputs).copied()
}

/// The values that nobody outside the group sees: from the first part to the last that touches them.
fn inner_values(memory: &SharedMemory, work_nodes: &[&WorkNode]) -> Vec<(ValueId, (usize, usize))> {
    let roots = memory.roots;
    let mut touches: HashMap<ValueId, u32> = HashMap::new();
    for value in work_nodes.iter().flat_map(|work| touched(work)) {
        *touches.entry(roots[value]).or_default() += 1;
    }
    let mut lifetimes: Vec<(ValueId, (usize, usize))> = Vec::new();
    let mut indices: HashMap<ValueId, usize> = HashMap::new();
    for (at, work) in work_nodes.iter().enumerate() {
        let value = work.outputs[0];
        if roots[value] == value && touches.get(&value) == Some(&memory.touches[value]) {
            indices.insert(value, lifetimes.len());
            lifetimes.push((value, (at, at)));
        }
        for input in work.inputs.iter().flatten() {
            if let Some(index) = indices.get(&roots[*input]) {
                lifetimes[*index].1.1 = at;
            }
        }
    }
    lifetimes
}

/// The values that a fused step touches outside its scratch.
#[derive(Default)]
struct Uses {
    all: Vec<(ValueId, usize, AccessMode)>,
    /// The index of each root.
    indices: HashMap<ValueId, usize>,
}

/// Where a node finds a value: in the scratch, or among the uses of the step, to which it is added if it is new.
fn locate_operand(
    prepared: &Prepared,
    roots: &[ValueId],
    starts: &HashMap<ValueId, u64>,
    uses: &mut Uses,
    (value, count): (ValueId, usize),
    access: AccessMode,
) -> OperandLocation {
    let layout = layout(prepared, value);
    if let Some(start) = starts.get(&roots[value]) {
        return OperandLocation::Scratch(*start as usize, layout.item());
    }
    let at = *uses.indices.entry(roots[value]).or_insert(uses.all.len());
    match uses.all.get_mut(at) {
        Some((_, _, modes)) => {
            *modes = AccessMode {
                reads: modes.reads | access.reads,
                writes: modes.writes | access.writes,
            };
        }
        None => uses.all.push((value, layout.bytes(), access)),
    }
    match layout.count() == count {
        true => OperandLocation::Piece(at, layout.item()),
        false => OperandLocation::One(at),
    }
}

/// Whether a node can be planned with its own sizes.
fn can_plan_alone(prepared: &Prepared, work: &WorkNode) -> bool {
    let tensors: Vec<Option<KnownTensor>> = (work.inputs.iter())
        .map(|value| value.and_then(|value| prepared.values[value].known_tensor()))
        .collect();
    work.operation().plan(&tensors, &[layout(prepared, work.outputs[0])]).is_ok()
}

/// Whether the piece is the whole of every tensor, in the tensor's own sizes, and none is a constant: its plan is then the
/// node's own, and the node need not be planned again to be checked.
fn is_whole(prepared: &Prepared, work: &WorkNode, count: usize, piece: usize) -> bool {
    let mut values = work.inputs.iter().flatten().chain(&work.outputs);
    values.all(|value| {
        let layout = layout(prepared, *value);
        prepared.values[*value].bytes.is_none() && piece_layout(layout, count, piece) == layout
    })
}

/// The layout of a piece: of a tensor with one element, that one.
fn piece_layout(layout: Layout, count: usize, piece: usize) -> Layout {
    let elements = if layout.count() == count { piece } else { 1 };
    Layout::contiguous(layout.dtype, &[elements])
}

/// Plans one node for a piece of its elements; `None` if it wants a workspace or is refused.
fn plan_piece(prepared: &Prepared, work: &WorkNode, count: usize, piece: usize) -> Option<Plan> {
    let of_piece = |value| piece_layout(layout(prepared, value), count, piece);
    let inputs: Vec<Option<KnownTensor>> = (work.inputs.iter())
        .map(|value| Some(KnownTensor { layout: of_piece((*value)?), bytes: None }))
        .collect();
    let output = of_piece(work.outputs[0]);
    work.operation().plan(&inputs, &[output]).ok().filter(|plan| plan.workspace == 0)
}

impl FusedPlan {
    /// Runs all parts on all pieces.
    pub fn run(
        &self,
        uses: &[&[Cell<u8>]],
        scratch: &[Cell<u8>],
        parallel: &dyn Parallel,
        overflow: Overflow<'_>,
    ) -> Outcome {
        let uses: SmallVec<[Shared<'_>; 8]> = uses.iter().map(|one| Shared::new(one)).collect();
        let scratch = Shared::new(scratch);
        let piece = PIECE.min(self.count);
        let workers = self.workers.min(parallel.width());
        if workers == 1 {
            return self.run_worker(&uses, scratch, (0, 0..self.count), overflow);
        }
        let failed: OnceLock<Fault> = OnceLock::new();
        parallel.run(workers, &|worker| {
            let range = share(self.count, piece, workers, worker);
            if let Err(fault) = self.run_worker(&uses, scratch, (worker, range), overflow) {
                let _ = failed.set(fault);
            }
        });
        failed.into_inner().map_or(Ok(()), Err)
    }

    /// Runs all parts on the pieces of one worker.
    fn run_worker(
        &self,
        uses: &[Shared<'_>],
        scratch: Shared<'_>,
        (worker, range): (usize, std::ops::Range<usize>),
        overflow: Overflow<'_>,
    ) -> Outcome {
        let piece = PIECE.min(self.count);
        let mut cells: SmallVec<[&[Cell<u8>]; 6]> = SmallVec::new();
        let mut start = range.start;
        while start < range.end {
            let length = piece.min(range.end - start);
            for part in &self.parts {
                cells.clear();
                for (operand, one) in part.uses.iter().zip(&part.whole.uses) {
                    cells.push(match *operand {
                        OperandLocation::One(at) => uses[at].part(0, one.bytes),
                        OperandLocation::Piece(at, item) => {
                            uses[at].part(start * item, length * item)
                        }
                        OperandLocation::Scratch(offset, item) => {
                            scratch.part(worker * self.scratch + offset, length * item)
                        }
                    });
                }
                let plan = if length == piece {
                    &part.whole
                } else {
                    part.rest.as_ref().unwrap_or(&part.whole)
                };
                let memory = Memory {
                    uses: &cells,
                    workspace: &[],
                    parallel: &SingleThread,
                    groups: &[],
                    sized: &|_, _| {},
                    epilogue: None,
                    overflow,
                };
                plan.run(&memory)?;
            }
            start += length;
        }
        Ok(())
    }
}
