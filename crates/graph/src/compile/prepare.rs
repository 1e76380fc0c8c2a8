//! A graph made ready: checked, in order, its shapes inferred, constants computed, what nobody needs left out.

use super::control::{Control, ControlNode, ControlledGraph};
use super::custom::CustomNode;
use super::flatten::Jump;
use super::fold::{FoldBudget, fold, has_known_values};
use super::operation::{KnownTensor, Operation};
use super::shapes::{DeclaredOutputs, Inference, ValueInfo, infer};
use super::sharing::{mark_views, viewed_input};
use super::variable;
use crate::custom::CustomOperators;
use crate::failure::{Failure, Result};
use crate::ir::{
    Attr, CONST, DATA, Desc, Graph, NET_OUTPUT, NO_OP, Node, NodeId, Source, UNKNOWN_RANK,
};
use bytes::Bytes;
use cairn_tensor::{DType, MAX_DIMS};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// A value's index in [`Prepared::values`].
pub type ValueId = usize;

/// A tensor that comes in.
pub struct Input {
    /// The node's name.
    pub name: String,
    /// What it has to be.
    pub desc: Desc,
    /// The value it becomes.
    pub value: ValueId,
}

/// A tensor that goes out.
pub struct Output {
    /// The name of the node that makes it.
    pub name: String,
    /// What is known of it.
    pub desc: Desc,
    /// The value it is.
    pub value: ValueId,
}

/// Who computes a node.
pub enum Work {
    /// An operator of the table.
    Operation(Operation),
    /// An operator that the program registered. A graph with such a node is dynamic.
    Custom(CustomNode),
    /// Graphs of its own.
    Control(Box<ControlNode>),
    /// Nothing: it says which node is next. Only flattened graphs have these.
    Jump(Jump),
}

/// A node that has to run.
pub struct WorkNode {
    /// Who computes it.
    pub work: Work,
    /// The operator's inputs.
    pub inputs: Vec<Option<ValueId>>,
    /// What it makes.
    pub outputs: Vec<ValueId>,
    /// Whether all it needs is known when the graph is loaded.
    pub is_constant: bool,
    /// Whether it only shows its first input with other sizes.
    pub is_view: bool,
}

impl WorkNode {
    /// The node's name.
    pub fn name(&self) -> &str {
        match &self.work {
            Work::Operation(operation) => &operation.name,
            Work::Custom(custom) => &custom.name,
            Work::Control(control) => &control.name,
            Work::Jump(_) => "",
        }
    }

    /// The name of its operator.
    pub fn kind(&self) -> &'static str {
        match &self.work {
            Work::Operation(operation) => operation.row.name,
            Work::Custom(custom) => custom.kind,
            Work::Control(control) => control.kind,
            Work::Jump(_) => "",
        }
    }

    /// Its operator, if that is one of the table.
    pub fn table_operation(&self) -> Option<&Operation> {
        match &self.work {
            Work::Operation(operation) => Some(operation),
            Work::Custom(_) | Work::Control(_) | Work::Jump(_) => None,
        }
    }

    /// Its operator in a static graph, where all are of the table.
    pub fn operation(&self) -> &Operation {
        self.table_operation().expect("a static graph has no custom operators")
    }
}

/// A graph that is ready to be planned.
#[derive(Default)]
pub struct Prepared {
    /// The graph's name.
    pub name: String,
    /// What comes in, by index; then the variables of the session.
    pub inputs: Vec<Input>,
    /// How many of the inputs, the last ones, are variables.
    pub variables: usize,
    /// What goes out, in order.
    pub outputs: Vec<Output>,
    /// The nodes that run, in an order in which they can.
    pub work_nodes: Vec<WorkNode>,
    /// What is known of each value.
    pub values: Vec<ValueInfo>,
    /// The value that each output of a node is.
    pub value_of: BTreeMap<Source, ValueId>,
    /// Whether every size is known.
    pub is_static: bool,
}

/// How a graph is made ready.
#[derive(Clone, Debug)]
pub struct PrepareOptions {
    /// Descriptions that replace those of the inputs, by index.
    pub inputs: Vec<Desc>,
    /// Whether nodes that depend on constants alone are computed now.
    pub folds: bool,
    /// What the program registered. It goes before the table.
    pub custom: Arc<CustomOperators>,
}

/// Makes a graph ready.
pub fn prepare(graph: &Graph, options: &PrepareOptions) -> Result<Prepared> {
    let mut preparation = Preparation::new(graph, options);
    preparation.add_inputs()?;
    preparation.add_nodes()
}

/// Makes a graph of a node ready, for what feeds it.
pub fn prepare_part(
    graph: &Graph,
    options: &PrepareOptions,
    infos: &[ValueInfo],
) -> Result<ControlledGraph> {
    let mut preparation = Preparation::new(graph, options);
    let feeds = preparation.add_fed_inputs(infos)?;
    Ok(ControlledGraph { prepared: preparation.add_nodes()?, feeds })
}

/// The nodes that outputs and targets need, and those that communicate: other ranks wait for them. A `NetOutput` may be fed by nothing: a framework that knows all its outputs
/// as inputs or views of them leaves it empty.
pub fn live(graph: &Graph) -> Result<BTreeSet<NodeId>> {
    let outputs = graph.outputs();
    let net_output = graph.nodes().find(|(_, node)| node.kind == NET_OUTPUT).map(|(id, _)| id);
    if outputs.is_empty() && graph.targets.is_empty() && net_output.is_none() {
        return Err(Failure::failed(format!(
            "the graph {} has no outputs: name them with SetOutputs, or a NetOutput",
            graph.name
        )));
    }
    let mut live = BTreeSet::new();
    let mut pending: Vec<NodeId> = outputs.iter().map(|source| source.node).collect();
    pending.extend(graph.targets.iter().copied().chain(net_output));
    let always_runs = |node: &Node| {
        cairn_ops::nodes()
            .get(node.kind.as_str())
            .is_some_and(|row| row.marks.communicates || row.marks.stateful)
    };
    pending.extend(graph.nodes().filter(|(_, node)| always_runs(node)).map(|(id, _)| id));
    while let Some(id) = pending.pop() {
        let Some(node) = graph.node(id) else { continue };
        if live.insert(id) {
            pending.extend(node.inputs.iter().flatten().map(|source| source.node));
            pending.extend(&node.controls);
        }
    }
    Ok(live)
}

/// A graph while it is made ready, node by node.
/// A graph while it is made ready.
pub(super) struct Preparation<'a> {
    graph: &'a Graph,
    pub(super) options: &'a PrepareOptions,
    pub(super) prepared: Prepared,
    /// The work node that makes each value.
    producers: HashMap<ValueId, usize>,
    budget: FoldBudget,
}

impl<'a> Preparation<'a> {
    fn new(graph: &'a Graph, options: &'a PrepareOptions) -> Preparation<'a> {
        let prepared =
            Prepared { name: graph.name.clone(), is_static: true, ..Prepared::default() };
        let budget = FoldBudget::new(graph.constant_bytes());
        Preparation { graph, options, prepared, producers: HashMap::new(), budget }
    }

    /// All nodes that somebody needs, in order.
    fn add_nodes(mut self) -> Result<Prepared> {
        let graph = self.graph;
        let order = graph.order().map_err(|cycle| {
            Failure::failed(format!(
                "the graph {} has a cycle through {}",
                graph.name,
                cycle.join(", ")
            ))
        })?;
        let live = live(graph)?;
        for id in order {
            if live.contains(&id) {
                self.add_node(id, graph.node(id).expect("an ordered node"))?;
            }
        }
        self.add_outputs()
    }

    /// The inputs of a graph that a node has; gives for each which value feeds it. Values that no node of the graph reads
    /// need no input.
    fn add_fed_inputs(&mut self, infos: &[ValueInfo]) -> Result<Vec<usize>> {
        let mut feeds = Vec::new();
        for (at, id) in self.graph.inputs().into_iter().enumerate() {
            let node = self.graph.node(id).expect("an input's node");
            let index = node.attrs.get("index").and_then(Attr::int).unwrap_or(at as i64);
            let Some(info) = usize::try_from(index).ok().and_then(|index| infos.get(index)) else {
                return Err(Failure::failed(format!(
                    "the graph {}: {} is its input {index}, and {} values feed it",
                    self.graph.name,
                    node.name,
                    infos.len()
                )));
            };
            feeds.push(index as usize);
            let (desc, name) = (info.desc.clone(), node.name.clone());
            self.prepared.is_static &= desc.is_known();
            let value = self.add_value(desc.clone(), info.bytes.clone());
            self.prepared.value_of.insert(Source { node: id, output: 0 }, value);
            self.prepared.inputs.push(Input { name, desc, value });
        }
        Ok(feeds)
    }

    /// Adds a value; gives its id.
    fn add_value(&mut self, desc: Desc, bytes: Option<Bytes>) -> ValueId {
        self.prepared.values.push(ValueInfo { desc, bytes });
        self.prepared.values.len() - 1
    }

    /// All inputs, also those that nobody reads: the caller passes them too.
    fn add_inputs(&mut self) -> Result<()> {
        let ids = self.graph.inputs();
        if !self.options.inputs.is_empty() && self.options.inputs.len() != ids.len() {
            let (have, want) = (self.options.inputs.len(), ids.len());
            return Err(Failure::invalid(format!(
                "{have} inputs are described; the graph {} has {want}",
                self.graph.name
            )));
        }
        for (at, id) in ids.into_iter().enumerate() {
            let node = self.graph.node(id).expect("an input's node");
            let index = node.attrs.get("index").and_then(Attr::int).unwrap_or(at as i64);
            if index != at as i64 {
                return Err(Failure::failed(format!(
                    "the inputs of the graph {} are not numbered in order: {} has the index {index}, expected {at}",
                    self.graph.name, node.name
                )));
            }
            let desc = match self.options.inputs.get(at) {
                Some(desc) => desc.clone(),
                None => node
                    .output_descs
                    .first()
                    .or(node.input_descs.first())
                    .cloned()
                    .unwrap_or_default(),
            };
            check(&desc, || format!("the input {at} ({})", node.name))?;
            let value = self.add_value(desc.clone(), None);
            self.prepared.is_static &= desc.is_known();
            self.prepared.value_of.insert(Source { node: id, output: 0 }, value);
            self.prepared.inputs.push(Input { name: node.name.clone(), desc, value });
        }
        Ok(())
    }

    /// Adds a node: as a value if it is known now, else as one that has to run.
    fn add_node(&mut self, id: NodeId, node: &Node) -> Result<()> {
        let kind = node.kind.as_str();
        if DATA.contains(&kind) || [NET_OUTPUT, NO_OP].contains(&kind) {
            return Ok(());
        }
        if CONST.contains(&kind) {
            return self.add_constant(id, node);
        }
        if variable::is_variable(node) {
            return self.add_variable(id, node);
        }
        if let Some(control) = Control::of(kind) {
            return self.add_control_node(id, node, control);
        }
        if let Some((custom, indices)) = CustomNode::of(node, &self.options.custom)? {
            return self.add_custom(id, node, custom, &indices);
        }
        let Some(operation) = Operation::of(node) else {
            return Err(Failure::failed(format!(
                "the node {} is a {kind}: {}",
                node.name,
                cairn_ops::absent(kind)
            )));
        };
        let inputs = self.input_values(node, &operation)?;
        for (_, at) in operation.in_place(node.output_descs.len().max(1)) {
            if let Some(written) = inputs.get(at).copied().flatten() {
                let what =
                    if at == 0 { "its first input".into() } else { format!("its input {at}") };
                self.check_written(node, &what, written)?;
            }
        }
        let infos: Vec<Option<ValueInfo>> =
            inputs.iter().map(|value| value.map(|at| self.prepared.values[at].clone())).collect();
        let declared = DeclaredOutputs { outputs: &node.output_descs };
        let inferred = infer(&operation, &infos, &declared)?;
        let layouts = match inferred {
            Inference::Known(layouts) if !operation.row.marks.sized_by_values => layouts,
            Inference::Known(layouts) => {
                let descs = layouts.iter().map(Desc::of_rank).collect();
                return self.add_work(id, Work::Operation(operation), inputs, descs, false);
            }
            Inference::Partly(descs) => {
                return self.add_work(id, Work::Operation(operation), inputs, descs, false);
            }
        };
        for (at, layout) in layouts.iter().enumerate() {
            let what = || format!("output {at} of the node {} ({kind})", node.name);
            check(&Desc::from_layout(layout), what)?;
        }
        let tensors: Vec<Option<KnownTensor>> =
            infos.iter().map(|info| info.as_ref().and_then(ValueInfo::known_tensor)).collect();
        let descs: Vec<Desc> = layouts.iter().map(Desc::from_layout).collect();
        let marks = operation.row.marks;
        let is_constant =
            self.options.folds && !marks.runs_each_time() && has_known_values(&tensors);
        let folded = match self.options.folds {
            true => fold(&operation, &tensors, &layouts, &self.budget)?,
            false => None,
        };
        if let Some(results) = folded {
            for (output, (desc, bytes)) in descs.into_iter().zip(results).enumerate() {
                let value = self.add_value(desc, Some(bytes));
                self.prepared.value_of.insert(Source { node: id, output }, value);
            }
            return Ok(());
        }
        self.add_work(id, Work::Operation(operation), inputs, descs, is_constant)
    }

    /// A node whose operator the program registered. `indices` are its inputs that are fed, in the declared order.
    fn add_custom(
        &mut self,
        id: NodeId,
        node: &Node,
        custom: CustomNode,
        indices: &[usize],
    ) -> Result<()> {
        let fed = indices.iter().map(|index| node.inputs[*index].expect("an input that is fed"));
        let inputs: Vec<Option<ValueId>> =
            fed.map(|source| self.fed_value(node, source).map(Some)).collect::<Result<_>>()?;
        for (output, value) in custom.in_place_outputs(&inputs) {
            let name = &custom.outputs[output].name;
            self.check_written(node, &format!("its input {name}"), value)?;
        }
        self.prepared.is_static = false;
        let descs = custom.described_outputs();
        self.add_work(id, Work::Custom(custom), inputs, descs, false)
    }

    /// The value of a source that feeds a node.
    pub(super) fn fed_value(&self, node: &Node, source: Source) -> Result<ValueId> {
        self.prepared.value_of.get(&source).copied().ok_or_else(|| {
            let from = self.graph.node(source.node).map_or("a node that is gone", |one| &one.name);
            Failure::failed(format!(
                "the node {} is fed from output {} of {from}, which has no such output",
                node.name, source.output
            ))
        })
    }

    /// What a node writes in place is memory of a run or of the caller: constants are filled once, at load.
    fn check_written(&self, node: &Node, what: &str, mut value: ValueId) -> Result<()> {
        let producer = loop {
            let producer =
                self.producers.get(&value).map(|index| &self.prepared.work_nodes[*index]);
            match producer.and_then(|work| viewed_input(work, &self.prepared)) {
                Some(input) => value = input,
                None => break producer,
            }
        };
        let is_computed_at_load = producer.is_some_and(|work| work.is_constant);
        if self.prepared.values[value].bytes.is_none() && !is_computed_at_load {
            return Ok(());
        }
        let Node { name, kind, .. } = node;
        Err(Failure::failed(format!(
            "the node {name} ({kind}) writes {what} in place, and that is a constant: feed a Variable, a RefData or a Data there"
        )))
    }

    /// Adds a node that has to run, and its outputs.
    pub(super) fn add_work(
        &mut self,
        id: NodeId,
        work: Work,
        inputs: Vec<Option<ValueId>>,
        descs: Vec<Desc>,
        is_constant: bool,
    ) -> Result<()> {
        self.prepared.is_static &= descs.iter().all(Desc::is_known);
        let mut outputs = Vec::new();
        for (output, desc) in descs.into_iter().enumerate() {
            let value = self.add_value(desc, None);
            self.prepared.value_of.insert(Source { node: id, output }, value);
            self.producers.insert(value, self.prepared.work_nodes.len());
            outputs.push(value);
        }
        self.prepared.work_nodes.push(WorkNode {
            work,
            inputs,
            outputs,
            is_constant,
            is_view: false,
        });
        Ok(())
    }

    fn add_constant(&mut self, id: NodeId, node: &Node) -> Result<()> {
        let Some(Attr::Tensor(constant)) = node.attrs.get("value") else {
            let (name, kind) = (&node.name, &node.kind);
            return Err(Failure::failed(format!(
                "the node {name} ({kind}) has no tensor in its attribute value"
            )));
        };
        let what = || format!("the constant {}", node.name);
        if constant.desc.dtype == DType::String && self.feeds_custom_alone(id) {
            let desc = Desc { name: String::new(), ..constant.desc.clone() };
            let value = self.add_value(desc, Some(constant.bytes.clone()));
            self.prepared.value_of.insert(Source { node: id, output: 0 }, value);
            return Ok(());
        }
        check(&constant.desc, what)?;
        let Some(layout) = constant.desc.layout() else {
            return Err(Failure::failed(format!(
                "{} is {}: the sizes of a constant must be known",
                what(),
                constant.desc
            )));
        };
        let (have, want) = (constant.bytes.len(), layout.bytes());
        if have < want {
            return Err(Failure::failed(format!(
                "{} is {}, {want} bytes, and has {have}",
                what(),
                constant.desc
            )));
        }
        let bytes = Some(constant.bytes.slice(..want));
        let value = self.add_value(Desc { name: String::new(), ..constant.desc.clone() }, bytes);
        self.prepared.value_of.insert(Source { node: id, output: 0 }, value);
        Ok(())
    }

    /// Whether all that reads a node are operators of the program's own: these alone take strings, as plain bytes.
    fn feeds_custom_alone(&self, id: NodeId) -> bool {
        let is_read = |node: &Node| node.inputs.iter().flatten().any(|source| source.node == id);
        let mut readers = self.graph.nodes().filter(|(_, node)| is_read(node));
        readers.all(|(_, node)| self.options.custom.get(&node.kind).is_some())
            && !self.graph.outputs().iter().any(|source| source.node == id)
    }

    /// A variable of the session; nodes that name the same one are one value.
    fn add_variable(&mut self, id: NodeId, node: &Node) -> Result<()> {
        let (name, desc) = (variable::name(node), variable::desc(node)?);
        check(&desc, || format!("the variable {name}"))?;
        if node.attrs.contains_key("value") {
            log::warn!(
                "the variable {name} begins as zeros: its attribute value is not read, assign it in a graph"
            );
        }
        let value = self.variable_value(&node.name, name, desc)?;
        self.prepared.value_of.insert(Source { node: id, output: 0 }, value);
        Ok(())
    }

    /// The value of a variable that a node names.
    pub(super) fn variable_value(
        &mut self,
        node: &str,
        name: String,
        desc: Desc,
    ) -> Result<ValueId> {
        let first = self.prepared.inputs.len() - self.prepared.variables;
        let known = self.prepared.inputs[first..].iter().find(|input| input.name == name);
        match known.map(|input| (input.value, &input.desc)) {
            Some((value, known)) if (known.dtype, &known.dims) == (desc.dtype, &desc.dims) => {
                Ok(value)
            }
            Some((_, known)) => Err(Failure::failed(format!(
                "the node {node} names the variable {name}, which is {known}, and says that it is {desc}"
            ))),
            None => {
                let value = self.add_value(desc.clone(), None);
                self.prepared.inputs.push(Input { name, desc, value });
                self.prepared.variables += 1;
                Ok(value)
            }
        }
    }

    /// The values that feed a node, in the operator's order.
    fn input_values(&self, node: &Node, operation: &Operation) -> Result<Vec<Option<ValueId>>> {
        let mut inputs = Vec::new();
        for index in Operation::arrange(operation.row, &node.input_descs) {
            let source = index.and_then(|index| node.inputs.get(index).copied().flatten());
            inputs.push(match source {
                None => None,
                Some(source) => Some(self.fed_value(node, source)?),
            });
        }
        // After lists, how many inputs there are says how long the lists are.
        while !operation.row.has_lists() && inputs.last() == Some(&None) {
            inputs.pop();
        }
        for (at, declared) in operation.row.inputs.iter().enumerate() {
            if declared.ends_with(['?', ']']) {
                break;
            }
            if inputs.get(at).copied().flatten().is_none() {
                return Err(Failure::failed(format!(
                    "nothing feeds the input {declared} of the node {} ({})",
                    node.name, node.kind
                )));
            }
        }
        Ok(inputs)
    }

    /// Adds the graph's outputs, and marks views.
    fn add_outputs(mut self) -> Result<Prepared> {
        let declared = self.graph.output_descs();
        for (at, source) in self.graph.outputs().into_iter().enumerate() {
            let Some(&value) = self.prepared.value_of.get(&source) else {
                let name =
                    self.graph.node(source.node).map_or("a node that is gone", |one| &one.name);
                return Err(Failure::failed(format!(
                    "output {at} of the graph {} is output {} of {name}, which has no such output",
                    self.graph.name, source.output
                )));
            };
            let mut desc = self.prepared.values[value].desc.clone();
            if !desc.is_known()
                && let Some(Some(declaration)) = declared.get(at)
                && declaration.has_rank()
                && !declaration.dims.is_empty()
            {
                desc.dims = declaration.dims.clone();
            }
            let name =
                self.graph.node(source.node).map_or_else(String::new, |one| one.name.clone());
            self.prepared.outputs.push(Output { name, desc, value });
        }
        mark_views(&mut self.prepared);
        Ok(self.prepared)
    }
}

/// Fails on descriptions that no tensor of ours can have.
fn check(desc: &Desc, what: impl Fn() -> String) -> Result<()> {
    if desc.dims.len() > MAX_DIMS {
        let rank = desc.dims.len();
        return Err(Failure::failed(format!(
            "{} has {rank} dimensions, more than {MAX_DIMS}",
            what()
        )));
    }
    if desc.dims.iter().any(|dim| *dim < UNKNOWN_RANK)
        || (desc.dims.contains(&UNKNOWN_RANK) && desc.dims.len() > 1)
    {
        return Err(Failure::failed(format!(
            "{} has the sizes {:?}: -1 stands for an unknown size, and [-2] for an unknown rank",
            what(),
            desc.dims
        )));
    }
    if desc.dtype != DType::Undefined && desc.dtype.size_in_bytes().is_none() {
        return Err(Failure::failed(format!("{} has elements of type {}", what(), desc.dtype)));
    }
    if let Some(text) = desc.format.refusal(&what()) {
        return Err(Failure::failed(text));
    }
    if desc.is_known() && desc.layout().is_none() {
        return Err(Failure::failed(format!("{} is {desc}: no memory holds that", what())));
    }
    Ok(())
}
