//! Nodes with graphs of their own: calls become the nodes they call, and branches and loops keep their graphs until it is
//! known whether the whole graph is static.

use super::prepare::{Input, Preparation, Prepared, ValueId, Work, WorkNode, prepare_part};
use super::shapes::{ValueInfo, merge_descs};
use crate::failure::{Failure, Result};
use crate::ir::{Desc, Graph, Node, NodeId, Source};
use cairn_tensor::DType;

/// What decides which graph of a node runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// One graph, once.
    Call,
    /// The first graph if the first input is true, else the second.
    If,
    /// The graph that the first input counts; the last if there is none.
    Case,
    /// The second graph as long as the first says so; what it makes is fed to both again.
    While,
}

impl Control {
    /// What a type of nodes does; `None` for one without graphs.
    pub fn of(kind: &str) -> Option<Control> {
        Some(match kind {
            "PartitionedCall" | "StatefulPartitionedCall" => Control::Call,
            "If" | "StatelessIf" => Control::If,
            "Case" | "StatelessCase" => Control::Case,
            "While" | "StatelessWhile" => Control::While,
            _ => return None,
        })
    }

    /// How many inputs of the node come before those of its graphs.
    pub fn selectors(self) -> usize {
        match self {
            Control::Call | Control::While => 0,
            Control::If | Control::Case => 1,
        }
    }

    /// Which of `count` graphs a value chooses.
    pub fn choose(self, selector: &[u8], dtype: DType, count: usize) -> usize {
        match self {
            Control::Case => {
                let index = i32::from_le_bytes(selector.try_into().unwrap_or([0xff; 4]));
                usize::try_from(index).unwrap_or(usize::MAX).min(count - 1)
            }
            _ => usize::from(!is_true(selector, dtype)),
        }
    }
}

/// Whether a number is not 0.
pub fn is_true(bytes: &[u8], dtype: DType) -> bool {
    let is_float = matches!(dtype, DType::Float | DType::Double | DType::Float16 | DType::Bf16);
    match bytes.split_last() {
        Some((last, rest)) if is_float => rest.iter().any(|byte| *byte != 0) || last & 0x7f != 0,
        _ => bytes.iter().any(|byte| *byte != 0),
    }
}

/// A branch or a loop.
pub struct ControlNode {
    /// The node's name.
    pub name: String,
    /// The name of its type.
    pub kind: &'static str,
    /// What decides which graph runs.
    pub control: Control,
    /// The graphs.
    pub graphs: Vec<ControlledGraph>,
}

/// A graph of a node, and what feeds it.
#[derive(Default)]
pub struct ControlledGraph {
    /// The graph.
    pub prepared: Prepared,
    /// For each of its inputs, which of the node's inputs it is.
    pub feeds: Vec<usize>,
}

/// How often the sizes of a loop are widened before nothing is assumed of them.
const MAX_WIDENINGS: usize = 3;

impl Preparation<'_> {
    /// A node with graphs of its own.
    pub(super) fn add_control_node(
        &mut self,
        id: NodeId,
        node: &Node,
        control: Control,
    ) -> Result<()> {
        let wrong = |text: String| {
            Failure::failed(format!("the node {} ({}): {text}", node.name, node.kind))
        };
        let expected = match control {
            Control::Call => 1..=1,
            Control::If | Control::While => 2..=2,
            Control::Case => 1..=usize::MAX,
        };
        if !expected.contains(&node.subgraphs.len()) {
            return Err(wrong(format!("it has {} graphs", node.subgraphs.len())));
        }
        let mut inputs = Vec::with_capacity(node.inputs.len());
        for (at, source) in node.inputs.iter().enumerate() {
            let source = source.ok_or_else(|| wrong(format!("nothing feeds its input {at}")))?;
            inputs.push(self.fed_value(node, source)?);
        }
        if inputs.len() < control.selectors() {
            return Err(wrong("nothing chooses one of its graphs".to_owned()));
        }
        let chosen = match control {
            Control::Call => Some(0),
            Control::While => None,
            Control::If | Control::Case => {
                let selector = &self.prepared.values[inputs[0]];
                self.known_choice(selector, control, node.subgraphs.len())
            }
        };
        if let Some(chosen) = chosen {
            let graph = &node.subgraphs[chosen];
            let infos = self.infos(&inputs[control.selectors()..]);
            let part = self.part(node, graph, &infos)?;
            let outputs = self.inline(node, part, &inputs[control.selectors()..])?;
            return self.name_outputs(id, node, &outputs);
        }
        match control {
            Control::While => self.add_loop(id, node, inputs),
            _ => self.add_branch(id, node, control, inputs),
        }
    }

    /// The graph that is taken whatever runs bring, if that is known.
    fn known_choice(&self, selector: &ValueInfo, control: Control, count: usize) -> Option<usize> {
        let layout = selector.desc.layout()?;
        if control == Control::If && layout.count() != 1 {
            return Some(usize::from(layout.count() == 0));
        }
        let bytes = selector.bytes.as_deref()?;
        Some(control.choose(bytes, selector.desc.dtype, count))
    }

    /// What is known of these values.
    fn infos(&self, values: &[ValueId]) -> Vec<ValueInfo> {
        values.iter().map(|value| self.prepared.values[*value].clone()).collect()
    }

    /// A graph of a node, made ready for what feeds it.
    fn part(&self, node: &Node, graph: &Graph, infos: &[ValueInfo]) -> Result<ControlledGraph> {
        prepare_part(graph, self.options, infos).map_err(|failure| {
            failure.in_context(format!("the node {} ({})", node.name, node.kind))
        })
    }

    /// The indices of a node's inputs that feed a graph: its variables become inputs of the node.
    fn feed(
        &mut self,
        node: &str,
        part: &mut ControlledGraph,
        first: usize,
        inputs: &mut Vec<ValueId>,
    ) -> Result<()> {
        part.feeds.iter_mut().for_each(|at| *at += first);
        let variables = part.prepared.variables;
        let all = part.prepared.inputs.len();
        for Input { name, desc, .. } in &part.prepared.inputs[all - variables..] {
            let value = self.variable_value(node, name.clone(), desc.clone())?;
            part.feeds.push(inputs.len());
            inputs.push(value);
        }
        Ok(())
    }

    /// Several graphs, one of which runs.
    fn add_branch(
        &mut self,
        id: NodeId,
        node: &Node,
        control: Control,
        mut inputs: Vec<ValueId>,
    ) -> Result<()> {
        let infos = self.infos(&inputs[1..]);
        let mut graphs = Vec::new();
        let mut outputs: Option<Vec<Desc>> = None;
        for graph in &node.subgraphs {
            let mut part = self.part(node, graph, &infos)?;
            let descs: Vec<Desc> =
                part.prepared.outputs.iter().map(|output| output.desc.clone()).collect();
            let types =
                |descs: &[Desc]| -> Vec<DType> { descs.iter().map(|one| one.dtype).collect() };
            outputs = Some(match outputs {
                None => descs,
                Some(previous) if types(&previous) == types(&descs) => {
                    merge_descs(previous, descs).expect("as many outputs")
                }
                Some(previous) => {
                    return Err(Failure::failed(format!(
                        "the node {} ({}): its graphs make {} and {}",
                        node.name,
                        node.kind,
                        list_descs(&previous),
                        list_descs(&descs)
                    )));
                }
            });
            self.feed(&node.name, &mut part, 1, &mut inputs)?;
            self.prepared.is_static &= part.prepared.is_static;
            graphs.push(part);
        }
        self.add_control(id, node, control, inputs, graphs, outputs.unwrap_or_default())
    }

    /// A loop: its sizes are those that stay the same from one time to the next.
    fn add_loop(&mut self, id: NodeId, node: &Node, mut inputs: Vec<ValueId>) -> Result<()> {
        let mut state: Vec<Desc> =
            inputs.iter().map(|value| self.prepared.values[*value].desc.clone()).collect();
        for round in 0.. {
            let infos: Vec<ValueInfo> =
                (state.iter()).map(|desc| ValueInfo { desc: desc.clone(), bytes: None }).collect();
            let mut condition = self.part(node, &node.subgraphs[0], &infos)?;
            let mut body = self.part(node, &node.subgraphs[1], &infos)?;
            let body_outputs: Vec<Desc> =
                body.prepared.outputs.iter().map(|output| output.desc.clone()).collect();
            let fits = |(have, want): (&Desc, &Desc)| have.dtype == want.dtype;
            if body_outputs.len() != state.len()
                || !body_outputs.iter().zip(&state).all(fits)
                || condition.prepared.outputs.len() != 1
            {
                return Err(Failure::failed(format!(
                    "the node {} ({}): its body makes {} of {}, and its condition {} values",
                    node.name,
                    node.kind,
                    list_descs(&body_outputs),
                    list_descs(&state),
                    condition.prepared.outputs.len()
                )));
            }
            let widened = match round < MAX_WIDENINGS {
                true => merge_descs(state.clone(), body_outputs).expect("as many values"),
                false => state.iter().map(|desc| Desc::unknown(desc.dtype)).collect(),
            };
            let dims = |descs: &[Desc]| -> Vec<Vec<i64>> {
                descs.iter().map(|desc| desc.dims.clone()).collect()
            };
            if dims(&widened) == dims(&state) || round > MAX_WIDENINGS {
                self.feed(&node.name, &mut condition, 0, &mut inputs)?;
                self.feed(&node.name, &mut body, 0, &mut inputs)?;
                self.prepared.is_static &= condition.prepared.is_static && body.prepared.is_static;
                let graphs = vec![condition, body];
                return self.add_control(id, node, Control::While, inputs, graphs, state);
            }
            state = widened;
        }
        unreachable!("a loop without assumptions is stable")
    }

    /// Adds a branch or a loop.
    fn add_control(
        &mut self,
        id: NodeId,
        node: &Node,
        control: Control,
        inputs: Vec<ValueId>,
        graphs: Vec<ControlledGraph>,
        outputs: Vec<Desc>,
    ) -> Result<()> {
        let kind = match control {
            Control::Call => "PartitionedCall",
            Control::If => "If",
            Control::Case => "Case",
            Control::While => "While",
        };
        let work = ControlNode { name: node.name.clone(), kind, control, graphs };
        let inputs = inputs.into_iter().map(Some).collect();
        self.add_work(id, Work::Control(Box::new(work)), inputs, outputs, false)
    }

    /// Makes these values the outputs of a node.
    fn name_outputs(&mut self, id: NodeId, node: &Node, outputs: &[ValueId]) -> Result<()> {
        for (output, value) in outputs.iter().enumerate() {
            self.prepared.value_of.insert(Source { node: id, output }, *value);
        }
        match node.output_descs.len() <= outputs.len() {
            true => Ok(()),
            false => Err(Failure::failed(format!(
                "the node {} ({}) has {} outputs, its graph makes {}",
                node.name,
                node.kind,
                node.output_descs.len(),
                outputs.len()
            ))),
        }
    }

    /// Adds the nodes of a graph to this one; gives the values of its outputs.
    fn inline(
        &mut self,
        node: &Node,
        mut part: ControlledGraph,
        inputs: &[ValueId],
    ) -> Result<Vec<ValueId>> {
        let mut all_inputs = inputs.to_vec();
        self.feed(&node.name, &mut part, 0, &mut all_inputs)?;
        let fed: Vec<ValueId> = part.feeds.iter().map(|at| all_inputs[*at]).collect();
        self.prepared.is_static &= part.prepared.is_static;
        Ok(append(&mut self.prepared, part.prepared, &fed, &[]))
    }
}

/// Descriptions for a message.
fn list_descs(descs: &[Desc]) -> String {
    let all: Vec<String> = descs.iter().map(ToString::to_string).collect();
    format!("({})", all.join(", "))
}

/// Appends the nodes of a graph to another, whose values `fed` are its inputs; gives the values of its outputs.
/// `output_values` are values that outputs become where the graph computes them; empty for none.
pub fn append(
    to: &mut Prepared,
    part: Prepared,
    fed: &[ValueId],
    output_values: &[ValueId],
) -> Vec<ValueId> {
    let mut values: Vec<Option<ValueId>> = vec![None; part.values.len()];
    for (input, value) in part.inputs.iter().zip(fed) {
        values[input.value] = Some(*value);
    }
    for (output, value) in part.outputs.iter().zip(output_values) {
        let is_computed = |work: &WorkNode| {
            let is_plain = !work.is_view && work.in_place_outputs().is_empty() && !work.is_constant;
            is_plain && work.outputs.contains(&output.value)
        };
        let count = part.outputs.iter().filter(|one| one.value == output.value).count();
        if count == 1 && part.work_nodes.iter().any(is_computed) {
            values[output.value] = Some(*value);
        }
    }
    let values: Vec<ValueId> = (values.into_iter().zip(part.values))
        .map(|(known, info)| {
            known.unwrap_or_else(|| {
                to.values.push(info);
                to.values.len() - 1
            })
        })
        .collect();
    to.work_nodes.extend(part.work_nodes.into_iter().map(|work| WorkNode {
        inputs: work.inputs.iter().map(|value| value.map(|value| values[value])).collect(),
        outputs: work.outputs.iter().map(|value| values[*value]).collect(),
        ..work
    }));
    part.outputs.iter().map(|output| values[output.value]).collect()
}
