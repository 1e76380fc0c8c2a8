//! Elementwise nodes behind a node whose kernel computes them of its results before it stores them.

use super::fuse::{SharedMemory, touched};
use super::prepare::{ValueId, WorkNode};
use cairn_ops::{Plan, StageUse};

/// Nodes that are appended to one, at most.
pub const MAX_NODES: usize = 16;

/// An elementwise node that follows another one.
pub struct Follower<'a> {
    /// The node.
    pub work: &'a WorkNode,
    /// Its plan.
    pub plan: Box<Plan>,
    /// The value of each of the plan's uses.
    pub values: Vec<ValueId>,
}

/// What was appended.
pub struct Appended {
    /// How many of the followers.
    pub count: usize,
    /// The values of the uses that the plan has now besides its own.
    pub values: Vec<ValueId>,
}

/// Whether a node can follow one that makes some of these values, as far as its marks say.
pub fn can_follow(memory: &SharedMemory, made: &[ValueId], work: &WorkNode) -> bool {
    let Some(operation) = work.table_operation() else { return false };
    let marks = operation.row.marks;
    let output = work.outputs.first().copied();
    marks.elementwise
        && !marks.writes_first
        && work.outputs.len() == 1
        && output.is_some_and(|value| memory.roots[value] == value)
        && work.inputs.iter().flatten().any(|value| made.contains(&memory.roots[*value]))
}

/// Appends as many of the followers to the plan of a node as can be: nobody else sees what lies between them.
pub fn append(
    plan: &mut Plan,
    work: &WorkNode,
    followers: &[Follower<'_>],
    memory: &SharedMemory,
) -> Option<Appended> {
    let made: Vec<ValueId> = std::iter::once(work)
        .chain(followers.iter().map(|one| one.work))
        .map(|work| memory.roots[work.outputs[0]])
        .collect();
    let stage_uses: Vec<Vec<StageUse>> = (followers.iter().enumerate())
        .map(|(at, follower)| {
            let stage_use = |value: &ValueId| {
                let result = made[..=at].iter().position(|one| *one == memory.roots[*value]);
                result.map_or(StageUse::Other, StageUse::Result)
            };
            follower.values.iter().map(stage_use).collect()
        })
        .collect();
    for count in (1..=followers.len()).rev() {
        let nodes = || std::iter::once(work).chain(followers[..count].iter().map(|one| one.work));
        let is_inner = |value: &ValueId| {
            let touches = nodes().flat_map(touched).filter(|one| memory.roots[*one] == *value);
            touches.count() == memory.touches[*value] as usize
        };
        if !made[..count].iter().all(is_inner) {
            continue;
        }
        let next: Vec<(&Plan, &[StageUse])> = (followers[..count].iter().zip(&stage_uses))
            .map(|(follower, uses)| (&*follower.plan, &uses[..]))
            .collect();
        if let Some(added) = plan.append(&next) {
            let values = added.iter().map(|(at, slot)| followers[*at].values[*slot]).collect();
            return Some(Appended { count, values });
        }
    }
    None
}
