//! Graphs and their nodes.

use super::attr;
use super::desc::{self, MissingShape};
use super::edge::Edge;
use super::wire::{AttrDef, AttrMap, GraphDef, ListValue, OpDef, Value};
use crate::compile::control::Control;
use crate::ir::{Attr, DATA, Desc, Graph, NET_OUTPUT, Node, NodeId, Source};
use cairn_tensor::DType;
use prost::Message;
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

/// Attributes in which a node repeats the names of its inputs or outputs: names, and their indices.
const INPUT_NAMES: [&str; 2] = ["_input_name_key", "_input_name_value"];
const OUTPUT_NAMES: [&str; 2] = ["_output_name_key", "_output_name_value"];

/// The attribute of an input or output of a node's graph that says which of the node's it is.
const PARENT_INDEX: &str = "_parent_node_index";

/// The attribute of a graph with the names of its targets; ours, the format has none.
const TARGETS: &str = "_cairn_targets";

/// The graphs of a model after its first, by name: nodes have them.
pub type Library = HashMap<String, GraphDef>;

/// Reads a graph whose nodes have no graphs of their own.
pub fn read(def: GraphDef) -> Result<Graph, String> {
    read_with(def, &mut Library::new(), 0)
}

/// How deep the graphs of nodes may lie in each other.
const MAX_DEPTH: usize = 32;

/// Reads a graph, and those of its nodes out of a library. Each is a node's once.
pub fn read_with(mut def: GraphDef, library: &mut Library, depth: usize) -> Result<Graph, String> {
    let ops = std::mem::take(&mut def.op);
    let ids = ids(&ops)?;
    let mut edges = Vec::with_capacity(ops.len());
    for op in &ops {
        edges.push(read_edges(op, &ops, &ids).map_err(|error| in_node(&op.name, &error))?);
    }
    let has_net_output = ops.iter().any(|op| op.r#type == NET_OUTPUT);
    let mut outputs = Vec::new();
    for text in def.output.iter().filter(|_| !has_net_output) {
        if let Edge::Data(name, output) = Edge::parse(text)? {
            let source = source(name, output, &ops, &ids)
                .map_err(|error| format!("the output '{text}' of the graph: {error}"))?;
            outputs.push(source);
        }
    }
    let mut graph = Graph::new(def.name);
    graph.attrs = attr::read_all(def.attr)?;
    if let Some(Attr::Texts(names)) = graph.attrs.remove(TARGETS) {
        for name in names {
            let id = std::str::from_utf8(&name).ok().and_then(|name| ids.get(name));
            graph.targets.push(*id.ok_or_else(|| {
                format!("the target '{}' is no node", String::from_utf8_lossy(&name))
            })?);
        }
    }
    drop(ids);
    for (mut op, (inputs, controls)) in ops.into_iter().zip(edges) {
        let names = std::mem::take(&mut op.subgraph_name);
        let mut node = read_node(op, inputs, controls)?;
        node.subgraphs = read_subgraphs(&node, names, library, depth)?;
        graph.add(node);
    }
    graph.set_outputs(outputs);
    Ok(graph)
}

fn in_node(node: &str, error: &str) -> String {
    format!("node '{node}': {error}")
}

/// The id of each node, by its name.
fn ids(ops: &[OpDef]) -> Result<HashMap<&str, NodeId>, String> {
    let mut ids = HashMap::with_capacity(ops.len());
    for (id, op) in ops.iter().enumerate() {
        if let Some(other) = ids.insert(op.name.as_str(), id) {
            return Err(format!(
                "nodes {other} ({}) and {id} ({}) are both named '{}': every node needs a name of its own",
                ops[other].r#type, op.r#type, op.name
            ));
        }
    }
    Ok(ids)
}

type NodeSources = (Vec<Option<Source>>, Vec<NodeId>);

/// What feeds the inputs of a node, and the nodes that run before it.
fn read_edges(
    op: &OpDef,
    ops: &[OpDef],
    ids: &HashMap<&str, NodeId>,
) -> Result<NodeSources, String> {
    let (mut inputs, mut controls) = (Vec::new(), Vec::new());
    for text in &op.input {
        let index = inputs.len();
        match Edge::parse(text).map_err(|error| format!("input {index}: {error}"))? {
            Edge::Unfed => inputs.push(None),
            Edge::Data(name, output) => {
                let source = source(name, output, ops, ids)
                    .map_err(|error| format!("input {index} comes from '{text}': {error}"))?;
                inputs.push(Some(source));
            }
            Edge::Control(name) => {
                let id = ids
                    .get(name)
                    .ok_or_else(|| format!("it runs after '{name}', and there is no such node"))?;
                controls.push(*id);
            }
        }
    }
    Ok((inputs, controls))
}

/// An output by its node's name and its index.
fn source(
    name: &str,
    output: usize,
    ops: &[OpDef],
    ids: &HashMap<&str, NodeId>,
) -> Result<Source, String> {
    let node = *ids.get(name).ok_or_else(|| format!("there is no node '{name}'"))?;
    let count = ops[node].output_desc.len();
    match output < count {
        true => Ok(Source { node, output }),
        false => {
            Err(format!("node '{name}' has {count} outputs, and none with the number {output}"))
        }
    }
}

fn read_node(
    mut op: OpDef,
    mut inputs: Vec<Option<Source>>,
    controls: Vec<NodeId>,
) -> Result<Node, String> {
    let missing_shape = match DATA.contains(&op.r#type.as_str()) {
        true => MissingShape::Scalar,
        false => MissingShape::Unknown,
    };
    let input_names = take_names(&mut op.attr, INPUT_NAMES);
    let output_names = take_names(&mut op.attr, OUTPUT_NAMES);
    let read_descs = |what, defs: Vec<_>, names: HashMap<usize, String>| {
        let mut descs = Vec::with_capacity(defs.len());
        for (at, def) in defs.into_iter().enumerate() {
            let mut desc = desc::read(def, missing_shape)
                .map_err(|error| in_node(&op.name, &format!("{what} {at}: {error}")))?;
            if let Some(name) = names.get(&at).filter(|_| desc.name.is_empty()) {
                desc.name.clone_from(name);
            }
            descs.push(desc);
        }
        Ok::<_, String>(descs)
    };
    let mut input_descs = read_descs("input", op.input_desc, input_names)?;
    let output_descs = read_descs("output", op.output_desc, output_names)?;
    let count = inputs.len().max(input_descs.len());
    inputs.resize(count, None);
    input_descs.resize_with(count, || Desc::unknown(DType::Undefined));
    let attrs = attr::read_all(op.attr).map_err(|error| in_node(&op.name, &error))?;
    Ok(Node {
        name: op.name,
        kind: op.r#type,
        inputs,
        input_descs,
        output_descs,
        controls,
        attrs,
        subgraphs: Vec::new(),
    })
}

/// The graphs of a node. Their inputs are numbered as the node's, after the one that chooses.
fn read_subgraphs(
    node: &Node,
    names: Vec<String>,
    library: &mut Library,
    depth: usize,
) -> Result<Vec<Graph>, String> {
    let mut graphs = Vec::new();
    for name in names.into_iter().filter(|name| !name.is_empty()) {
        let wrong = |text: &str| in_node(&node.name, &format!("its graph '{name}' {text}"));
        if depth >= MAX_DEPTH {
            return Err(wrong(&format!("lies more than {MAX_DEPTH} deep")));
        }
        let def = library
            .remove(&name)
            .ok_or_else(|| wrong("is not in the model, or is another node's too"))?;
        let mut graph = read_with(def, library, depth + 1)
            .map_err(|error| in_node(&node.name, &format!("its graph '{name}': {error}")))?;
        let first = Control::of(&node.kind).map_or(0, Control::selectors) as i64;
        number_by_parent(&mut graph, first);
        graphs.push(graph);
    }
    Ok(graphs)
}

/// Puts inputs and outputs of a node's graph in the order in which the node has them, where the model says it.
fn number_by_parent(graph: &mut Graph, first: i64) {
    let ids: Vec<NodeId> = graph.nodes().map(|(id, _)| id).collect();
    for id in ids {
        let Some(node) = graph.node_mut(id) else { continue };
        if DATA.contains(&node.kind.as_str())
            && let Some(Attr::Int(index)) = node.attrs.remove(PARENT_INDEX)
        {
            node.attrs.insert("index".to_owned(), Attr::Int(index - first));
        }
        if node.kind == NET_OUTPUT {
            let index = |desc: &Desc| desc.attrs.get(PARENT_INDEX).and_then(Attr::int);
            let mut ports: Vec<(Option<i64>, Option<Source>, Desc)> =
                (node.inputs.drain(..).zip(node.input_descs.drain(..)))
                    .map(|(source, desc)| (index(&desc), source, desc))
                    .collect();
            if ports.iter().all(|(index, ..)| index.is_some()) {
                ports.sort_by_key(|(index, ..)| *index);
            }
            for (_, source, mut desc) in ports {
                desc.attrs.remove(PARENT_INDEX);
                node.inputs.push(source);
                node.input_descs.push(desc);
            }
        }
    }
}

/// Takes the two lists of names and indices out: the name of each index.
fn take_names(attrs: &mut AttrMap, [names, indices]: [&str; 2]) -> HashMap<usize, String> {
    let mut list = |name| match attrs.remove(name).and_then(|attr| attr.value) {
        Some(Value::List(list)) => *list,
        _ => ListValue::default(),
    };
    let (names, indices) = (list(names).s, list(indices).i);
    let mut found = HashMap::new();
    for (name, index) in names.into_iter().zip(indices) {
        if let (Ok(name), Ok(index)) = (String::from_utf8(name), usize::try_from(index)) {
            found.insert(index, name);
        }
    }
    found
}

/// The bytes of a graph, node by node; the graphs of its nodes are added to `others`. No more than one node is there as a
/// message at a time.
pub fn encode(graph: &Graph, others: &mut Vec<GraphDef>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let head = GraphDef { name: graph.name.clone(), ..GraphDef::default() };
    bytes.extend(head.encode_to_vec());
    let attr = each_op(graph, &mut |node, mut op| {
        op.subgraph_name = write_subgraphs(node, &op.name, others);
        prost::encoding::message::encode(6, &op, &mut bytes);
    });
    bytes.extend(GraphDef { attr, ..GraphDef::default() }.encode_to_vec());
    bytes
}

/// Adds the graphs of a node and those inside of them to `others`; gives the names of its own.
fn write_subgraphs(node: &Node, name: &str, others: &mut Vec<GraphDef>) -> Vec<String> {
    let first = Control::of(&node.kind).map_or(0, Control::selectors) as i64;
    let mut names = Vec::with_capacity(node.subgraphs.len());
    for (at, subgraph) in node.subgraphs.iter().enumerate() {
        let index = others.len();
        others.push(GraphDef::default());
        let mut numbered = subgraph.clone();
        number_for_parent(&mut numbered, first);
        let mut written = GraphDef::default();
        written.attr = each_op(&numbered, &mut |node, mut op| {
            op.subgraph_name = write_subgraphs(node, &op.name, others);
            written.op.push(op);
        });
        written.name = subgraph_name(&format!("{name}_{at}_"), &subgraph.name, index);
        names.push(written.name.clone());
        others[index] = written;
    }
    names
}

/// The name of a node's graph in a model: no other graph of the model has its index. A name that is such a one already
/// stays.
fn subgraph_name(prefix: &str, name: &str, index: usize) -> String {
    let ending = format!("_{index}");
    let inner = name.strip_prefix(prefix).and_then(|rest| rest.strip_suffix(&ending));
    format!("{prefix}{}{ending}", inner.unwrap_or(name))
}

/// Lets inputs and outputs of a node's graph say which of the node's they are.
fn number_for_parent(graph: &mut Graph, first: i64) {
    for (at, id) in graph.inputs().into_iter().enumerate() {
        if let Some(node) = graph.node_mut(id) {
            let index = node.attrs.get("index").and_then(Attr::int).unwrap_or(at as i64);
            node.attrs.insert(PARENT_INDEX.to_owned(), Attr::Int(index + first));
        }
    }
    let net_output = graph.nodes().find(|(_, node)| node.kind == NET_OUTPUT).map(|(id, _)| id);
    if let Some(node) = net_output.and_then(|id| graph.node_mut(id)) {
        for (at, desc) in node.input_descs.iter_mut().enumerate() {
            desc.attrs.insert(PARENT_INDEX.to_owned(), Attr::Int(at as i64));
        }
    }
}

/// What is written of a graph, without the graphs of its nodes.
pub fn write(graph: &Graph) -> GraphDef {
    let mut op = Vec::with_capacity(graph.len());
    let attr = each_op(graph, &mut |_, one| op.push(one));
    GraphDef { name: graph.name.clone(), output: Vec::new(), op, attr }
}

/// What is written of each node, and of outputs that no node stands for; gives the graph's attributes.
fn each_op(graph: &Graph, visit: &mut dyn FnMut(&Node, OpDef)) -> AttrMap {
    let mut names = Names::new(graph);
    for (id, node) in graph.nodes() {
        visit(node, write_node(id, node, &names));
    }
    let has_net_output = graph.nodes().any(|(_, node)| node.kind == NET_OUTPUT);
    if !has_net_output && !graph.outputs().is_empty() {
        names.add_net_output();
        let node = net_output(graph);
        visit(&node, write_node(NodeId::MAX, &node, &names));
    }
    let mut attr = attr::write_all(&graph.attrs);
    let targets = graph.targets.iter().filter_map(|id| names.get(*id));
    let s: Vec<Vec<u8>> = targets.map(|name| name.as_bytes().to_vec()).collect();
    if !s.is_empty() {
        attr.insert(TARGETS.to_owned(), list(ListValue { s, val_type: 1, ..ListValue::default() }));
    }
    attr
}

/// The names that the nodes of a graph are written under.
struct Names<'a> {
    graph: &'a Graph,
    /// Of nodes whose own name an earlier one has.
    others: HashMap<NodeId, String>,
}

impl Names<'_> {
    fn new(graph: &Graph) -> Names<'_> {
        let mut visited: HashSet<&str> = HashSet::with_capacity(graph.len());
        let again = graph.nodes().filter(|(_, node)| !visited.insert(&node.name));
        let twice: Vec<NodeId> = again.map(|(id, _)| id).collect();
        let mut names = Names { graph, others: HashMap::new() };
        let mut taken: HashSet<String> = HashSet::new();
        if !twice.is_empty() {
            taken.extend(graph.nodes().map(|(_, node)| node.name.clone()));
        }
        for id in twice {
            let own = graph.node(id).map_or("", |node| &node.name);
            let name = free_name(&format!("{own}_{id}"), &taken);
            taken.insert(name.clone());
            names.others.insert(id, name);
        }
        names
    }

    /// Names the node that stands for outputs, which the graph does not have.
    fn add_net_output(&mut self) {
        let own = self.graph.nodes().map(|(_, node)| node.name.clone());
        let taken: HashSet<String> = own.chain(self.others.values().cloned()).collect();
        self.others.insert(NodeId::MAX, free_name(NET_OUTPUT, &taken));
    }

    fn get(&self, id: NodeId) -> Option<&str> {
        let other = self.others.get(&id).map(String::as_str);
        other.or_else(|| self.graph.node(id).map(|node| node.name.as_str()))
    }
}

/// The name, or the name with a number that makes it unique.
fn free_name(name: &str, taken: &HashSet<String>) -> String {
    if !taken.contains(name) {
        return name.to_owned();
    }
    let mut numbered = (0..=taken.len()).map(|number| format!("{name}_{number}"));
    numbered.find(|name| !taken.contains(name)).unwrap_or_default()
}

/// The node that stands for outputs that were named without one.
fn net_output(graph: &Graph) -> Node {
    let outputs = graph.outputs();
    let descs = outputs.iter().enumerate().map(|(at, source)| {
        let node = graph.node(source.node);
        let desc = node.and_then(|node| node.output_descs.get(source.output)).cloned();
        Desc { name: format!("input{at}"), ..desc.unwrap_or_default() }
    });
    Node {
        kind: NET_OUTPUT.to_owned(),
        input_descs: descs.collect(),
        inputs: outputs.into_iter().map(Some).collect(),
        ..Node::default()
    }
}

fn write_node(id: NodeId, node: &Node, names: &Names<'_>) -> OpDef {
    let name_of = |id: NodeId| -> Cow<'_, str> {
        names.get(id).map_or_else(|| format!("(node {id}, which is not there)").into(), Cow::from)
    };
    let mut input: Vec<String> = Vec::with_capacity(node.inputs.len() + node.controls.len());
    for source in &node.inputs {
        input.push(match source {
            Some(source) => Edge::Data(&name_of(source.node), source.output).to_string(),
            None => Edge::Unfed.to_string(),
        });
    }
    input.extend(node.controls.iter().map(|id| Edge::Control(&name_of(*id)).to_string()));
    let mut attr = attr::write_all(&node.attrs);
    write_names(&mut attr, INPUT_NAMES, &node.input_descs);
    write_names(&mut attr, OUTPUT_NAMES, &node.output_descs);
    let input_desc = node.input_descs.iter().enumerate().map(|(at, desc)| {
        match node.inputs.get(at).is_some_and(Option::is_some) {
            true => desc::write(desc),
            false => desc::write_unfed(desc),
        }
    });
    OpDef {
        name: name_of(id).into_owned(),
        r#type: node.kind.clone(),
        input,
        attr,
        input_desc: input_desc.collect(),
        output_desc: node.output_descs.iter().map(desc::write).collect(),
        subgraph_name: Vec::new(),
    }
}

fn write_names(attrs: &mut AttrMap, [names, indices]: [&str; 2], descs: &[Desc]) {
    let mut visited = HashSet::with_capacity(descs.len());
    let named = descs.iter().zip(0i64..).filter(|(desc, _)| !desc.name.is_empty());
    let (s, i) = named
        .filter(|(desc, _)| visited.insert(desc.name.as_str()))
        .map(|(desc, at)| (desc.name.clone().into_bytes(), at))
        .unzip();
    attrs.insert(names.to_owned(), list(ListValue { s, ..ListValue::default() }));
    attrs.insert(indices.to_owned(), list(ListValue { i, ..ListValue::default() }));
}

fn list(list: ListValue) -> AttrDef {
    AttrDef { value: Some(Value::List(Box::new(list))) }
}
