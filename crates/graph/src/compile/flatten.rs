//! Branches and loops of a static graph as jumps in one list of nodes, which one task runs.
//!
//! ```text
//!  If     switch c -> then, else          While   state = inputs
//!         then:  ..nodes.. out = a                start: ..condition.. leave unless c
//!                goto end                                ..body..      state = what it makes
//!         else:  ..nodes.. out = b                       goto start
//!         end:                                    end:
//! ```

use super::control::{Control, ControlNode, ControlledGraph, append};
use super::operation::Operation;
use super::prepare::{Prepared, ValueId, Work, WorkNode};
use super::sharing::{mark_views, viewed_input};
use cairn_tensor::DType;
use smallvec::SmallVec;
use std::cell::Cell;

/// A place in the list of nodes.
pub type Label = usize;

/// Which node is next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Jump {
    /// The one after a label that the value of the node's input chooses.
    Switch(Control, Vec<Label>),
    /// The one after a label.
    Goto(Label),
    /// The next one: this is the label.
    Here(Label),
    /// The next one, which is the first of a loop.
    LoopStart(Label),
    /// The first one of the loop again.
    LoopEnd(Label),
}

impl Jump {
    /// The label where it goes on; `None` for the next node. `selector` is the value of its input.
    pub fn label(&self, selector: &[Cell<u8>], dtype: DType) -> Option<Label> {
        match self {
            Jump::Here(_) | Jump::LoopStart(_) => None,
            Jump::Goto(label) | Jump::LoopEnd(label) => Some(*label),
            Jump::Switch(control, labels) => {
                let bytes: SmallVec<[u8; 8]> = selector.iter().map(Cell::get).collect();
                Some(labels[control.choose(&bytes, dtype, labels.len())])
            }
        }
    }
}

/// Replaces the branches and loops of a graph whose sizes are all known by jumps.
pub fn flatten(prepared: Prepared) -> Prepared {
    let has_control = |work: &WorkNode| matches!(work.work, Work::Control(_));
    if !prepared.work_nodes.iter().any(has_control) {
        return prepared;
    }
    let mut flat = Flattening { prepared, labels: 0 };
    let nodes = std::mem::take(&mut flat.prepared.work_nodes);
    flat.add_nodes(nodes);
    mark_views(&mut flat.prepared);
    flat.prepared
}

/// A graph while it is flattened.
struct Flattening {
    prepared: Prepared,
    /// How many labels there are.
    labels: usize,
}

impl Flattening {
    /// Adds nodes, branches and loops as jumps.
    fn add_nodes(&mut self, nodes: Vec<WorkNode>) {
        for node in nodes {
            match node.work {
                Work::Control(control) => {
                    let inputs: Vec<ValueId> = node.inputs.into_iter().flatten().collect();
                    match control.control {
                        Control::While => self.add_loop(*control, &inputs, &node.outputs),
                        _ => self.add_branch(*control, &inputs, &node.outputs),
                    }
                }
                _ => self.prepared.work_nodes.push(node),
            }
        }
    }

    /// A new label.
    fn label(&mut self) -> Label {
        self.labels += 1;
        self.labels - 1
    }

    /// Adds a jump.
    fn jump(&mut self, jump: Jump, input: Option<ValueId>) {
        self.prepared.work_nodes.push(WorkNode {
            work: Work::Jump(jump),
            inputs: input.into_iter().map(Some).collect(),
            outputs: Vec::new(),
            is_constant: false,
            is_view: false,
        });
    }

    /// Adds a copy, unless both are one value.
    fn copy(&mut self, name: &str, from: ValueId, to: ValueId) {
        if from != to {
            self.prepared.work_nodes.push(WorkNode {
                work: Work::Operation(Operation::copy(name.to_owned())),
                inputs: vec![Some(from)],
                outputs: vec![to],
                is_constant: false,
                is_view: false,
            });
        }
    }

    /// The nodes of a graph, flattened too; gives the values of its outputs.
    fn part(
        &mut self,
        graph: ControlledGraph,
        inputs: &[ValueId],
        computed: &[ValueId],
    ) -> Vec<ValueId> {
        let fed: Vec<ValueId> = graph.feeds.iter().map(|at| inputs[*at]).collect();
        let outer_nodes = std::mem::take(&mut self.prepared.work_nodes);
        let outputs = append(&mut self.prepared, graph.prepared, &fed, computed);
        let nodes = std::mem::replace(&mut self.prepared.work_nodes, outer_nodes);
        self.add_nodes(nodes);
        outputs
    }

    /// Adds a branch: a switch, and a label for each graph.
    fn add_branch(&mut self, node: ControlNode, inputs: &[ValueId], outputs: &[ValueId]) {
        let labels: Vec<Label> = node.graphs.iter().map(|_| self.label()).collect();
        let end = self.label();
        self.jump(Jump::Switch(node.control, labels.clone()), Some(inputs[0]));
        for (graph, label) in node.graphs.into_iter().zip(labels) {
            self.jump(Jump::Here(label), None);
            let computed = self.part(graph, inputs, outputs);
            for (from, to) in computed.into_iter().zip(outputs) {
                self.copy(&node.name, from, *to);
            }
            self.jump(Jump::Goto(end), None);
        }
        self.jump(Jump::Here(end), None);
    }

    /// The state is in the outputs: the body reads it there, and what it makes goes there.
    fn add_loop(&mut self, node: ControlNode, inputs: &[ValueId], outputs: &[ValueId]) {
        let mut graphs = node.graphs.into_iter();
        let (Some(condition), Some(body)) = (graphs.next(), graphs.next()) else { return };
        for (from, to) in inputs.iter().zip(outputs) {
            self.copy(&node.name, *from, *to);
        }
        let mut state = outputs.to_vec();
        state.extend(&inputs[outputs.len().min(inputs.len())..]);
        let (start, run, end) = (self.label(), self.label(), self.label());
        self.jump(Jump::LoopStart(start), None);
        let condition_outputs = self.part(condition, &state, &[]);
        self.jump(Jump::Switch(Control::If, vec![run, end]), condition_outputs.first().copied());
        self.jump(Jump::Here(run), None);
        let computed = self.part(body, &state, &[]);
        let new_state: Vec<ValueId> = (computed.iter().zip(outputs))
            .map(|(value, state_value)| {
                match value != state_value && self.may_share_memory(*value, outputs) {
                    false => *value,
                    true => {
                        let info = self.prepared.values[*value].clone();
                        self.prepared.values.push(info);
                        let copy = self.prepared.values.len() - 1;
                        self.copy(&node.name, *value, copy);
                        copy
                    }
                }
            })
            .collect();
        for (from, to) in new_state.into_iter().zip(outputs) {
            self.copy(&node.name, from, *to);
        }
        self.jump(Jump::LoopEnd(start), None);
        self.jump(Jump::Here(end), None);
    }

    /// Whether a value may share memory with one of these.
    fn may_share_memory(&self, mut value: ValueId, values: &[ValueId]) -> bool {
        let nodes = &self.prepared.work_nodes;
        loop {
            if values.contains(&value) {
                return true;
            }
            let Some(producer) = nodes.iter().rev().find(|work| work.outputs.contains(&value))
            else {
                return false;
            };
            let in_place = producer.in_place_outputs();
            let written = in_place.iter().find(|(output, _)| producer.outputs[*output] == value);
            match viewed_input(producer, &self.prepared).or(written.map(|(_, input)| *input)) {
                Some(input) => value = input,
                None => return false,
            }
        }
    }
}
