//! Which values use the memory of others: what only shows its input, and what is written in place.

use super::prepare::{Prepared, ValueId, Work, WorkNode};
use std::collections::{BTreeSet, HashMap};

impl WorkNode {
    /// Pairs of an output and the input that it is written into, in place.
    pub fn in_place_outputs(&self) -> Vec<(usize, ValueId)> {
        match &self.work {
            Work::Operation(operation) => (operation.in_place(self.outputs.len()).into_iter())
                .filter_map(|(output, at)| Some((output, self.inputs.get(at).copied().flatten()?)))
                .collect(),
            Work::Custom(custom) => custom.in_place_outputs(&self.inputs),
            Work::Control(_) | Work::Jump(_) => Vec::new(),
        }
    }
}

/// The input that a node only shows with other sizes, if its type stays the same.
pub fn viewed_input(work: &WorkNode, prepared: &Prepared) -> Option<ValueId> {
    let first = work.inputs.first().copied().flatten();
    let operation = work.table_operation()?;
    let input = first.filter(|_| operation.row.marks.view)?;
    let (from, to) = (&prepared.values[input].desc, &prepared.values[work.outputs[0]].desc);
    (from.dtype == to.dtype).then_some(input)
}

/// Marks the nodes that are views. What the graph writes in place is copied instead, so that who looked at it
/// before keeps what was there; but a view through which it is written stays one.
pub fn mark_views(prepared: &mut Prepared) {
    let viewed: Vec<Option<ValueId>> =
        prepared.work_nodes.iter().map(|work| viewed_input(work, prepared)).collect();
    let mut roots: Vec<ValueId> = (0..prepared.values.len()).collect();
    let mut view_nodes: HashMap<ValueId, usize> = HashMap::new();
    for (at, work) in prepared.work_nodes.iter().enumerate() {
        if viewed[at].is_some() {
            view_nodes.insert(work.outputs[0], at);
        }
        let viewed = viewed[at].map(|input| (0, input));
        for (output, input) in viewed.into_iter().chain(work.in_place_outputs()) {
            roots[work.outputs[output]] = roots[input];
        }
    }
    let written_values: Vec<ValueId> = prepared
        .work_nodes
        .iter()
        .flat_map(WorkNode::in_place_outputs)
        .map(|(_, input)| input)
        .collect();
    let written_roots: BTreeSet<ValueId> =
        written_values.iter().map(|value| roots[*value]).collect();
    let mut written_views: BTreeSet<usize> = BTreeSet::new();
    for mut value in written_values {
        while let Some(at) = view_nodes.get(&value) {
            written_views.insert(*at);
            value = viewed[*at].expect("a view's input");
        }
    }
    for (at, work) in prepared.work_nodes.iter_mut().enumerate() {
        let stays =
            || written_views.contains(&at) || !written_roots.contains(&roots[work.outputs[0]]);
        work.is_view = viewed[at].is_some() && stays();
    }
}
