//! Which values are the memory of others: what only shows its input, and what is written in place.

use super::operation::Operation;
use super::prepare::{Prepared, ValueId, WorkNode};
use std::collections::{BTreeSet, HashMap};

/// The input that a node writes in place: its first output is that input.
pub fn written_input(operation: &Operation, inputs: &[Option<ValueId>]) -> Option<ValueId> {
    let first = inputs.first().copied().flatten();
    first.filter(|_| operation.row.marks.writes_first)
}

impl WorkNode {
    /// The input that it writes in place.
    pub fn written_input(&self) -> Option<ValueId> {
        written_input(&self.operation, &self.inputs)
    }
}

/// The input that a node only shows with other sizes, where nothing stands against it.
pub fn viewed_input(work: &WorkNode, prepared: &Prepared) -> Option<ValueId> {
    let first = work.inputs.first().copied().flatten();
    let input = first.filter(|_| work.operation.row.marks.view)?;
    let (from, to) = (&prepared.values[input].desc, &prepared.values[work.outputs[0]].desc);
    (from.dtype == to.dtype).then_some(input)
}

/// Marks the nodes that are views. What the graph writes in place is copied instead, so that who looked at it
/// before keeps what was there; but a view through which it is written stays one.
pub fn mark_views(prepared: &mut Prepared) {
    let viewed: Vec<Option<ValueId>> =
        prepared.work_nodes.iter().map(|work| viewed_input(work, prepared)).collect();
    let mut roots: Vec<ValueId> = (0..prepared.values.len()).collect();
    let mut makers: HashMap<ValueId, usize> = HashMap::new();
    for (at, work) in prepared.work_nodes.iter().enumerate() {
        if viewed[at].is_some() {
            makers.insert(work.outputs[0], at);
        }
        if let Some(input) = viewed[at].or_else(|| work.written_input()) {
            roots[work.outputs[0]] = roots[input];
        }
    }
    let targets: Vec<ValueId> =
        prepared.work_nodes.iter().filter_map(WorkNode::written_input).collect();
    let changed: BTreeSet<ValueId> = targets.iter().map(|value| roots[*value]).collect();
    let mut through: BTreeSet<usize> = BTreeSet::new();
    for mut value in targets {
        while let Some(at) = makers.get(&value) {
            through.insert(*at);
            value = viewed[*at].expect("a view's input");
        }
    }
    for (at, work) in prepared.work_nodes.iter_mut().enumerate() {
        let stays = through.contains(&at) || !changed.contains(&roots[work.outputs[0]]);
        work.is_view = viewed[at].is_some() && stays;
    }
}
