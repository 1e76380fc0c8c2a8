//! Graphs: nodes, what feeds them, and what comes out.

use super::{Attr, Attrs, Constant, Desc};
use std::collections::BTreeMap;

/// A node's index in its graph. It stays when other nodes go.
pub type NodeId = usize;

/// An output of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Source {
    /// The node.
    pub node: NodeId,
    /// The index among its outputs.
    pub output: usize,
}

/// One operation of a graph.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Node {
    /// The user's name for it.
    pub name: String,
    /// The IR's name of the operator.
    pub kind: String,
    /// What feeds each input; `None` for an optional one that nothing feeds.
    pub inputs: Vec<Option<Source>>,
    /// What each input is, with the IR's names; as long as `inputs`.
    pub input_descs: Vec<Desc>,
    /// What each output is.
    pub output_descs: Vec<Desc>,
    /// Nodes that run before it although nothing flows between them.
    pub controls: Vec<NodeId>,
    /// Attributes by name.
    pub attrs: Attrs,
    /// Graphs of its own, in the IR's order: those of a branch, a loop or a call.
    pub subgraphs: Vec<Graph>,
}

/// A graph. `nodes` keeps the indices of nodes that were removed.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Graph {
    /// The user's name for it.
    pub name: String,
    nodes: Vec<Option<Node>>,
    /// How many of them are there.
    count: usize,
    outputs: Vec<Source>,
    /// Nodes that run although nobody reads them.
    pub targets: Vec<NodeId>,
    /// Attributes of the graph.
    pub attrs: Attrs,
}

/// Where a graph hands its results out.
pub const NET_OUTPUT: &str = "NetOutput";

/// The type of nodes that compute nothing: they only stand between others by control edges.
pub const NO_OP: &str = "NoOp";

/// The types of nodes through which tensors come in.
pub const DATA: [&str; 2] = ["Data", "RefData"];

/// The types of nodes that hold a constant in the attribute `value`.
pub const CONST: [&str; 2] = ["Const", "Constant"];

impl Graph {
    /// An empty graph.
    pub fn new(name: impl Into<String>) -> Graph {
        Graph { name: name.into(), ..Graph::default() }
    }

    /// Adds a node; names are not compared.
    pub fn add(&mut self, node: Node) -> NodeId {
        self.nodes.push(Some(node));
        self.count += 1;
        self.nodes.len() - 1
    }

    /// The node at an index.
    pub fn node(&self, id: NodeId) -> Option<&Node> {
        self.nodes.get(id)?.as_ref()
    }

    /// The node at an index, to change it.
    pub fn node_mut(&mut self, id: NodeId) -> Option<&mut Node> {
        self.nodes.get_mut(id)?.as_mut()
    }

    /// All nodes with their indices.
    pub fn nodes(&self) -> impl Iterator<Item = (NodeId, &Node)> {
        self.nodes.iter().enumerate().filter_map(|(id, node)| Some((id, node.as_ref()?)))
    }

    /// How many nodes there are.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there is no node.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The node of a name.
    pub fn find(&self, name: &str) -> Option<NodeId> {
        self.nodes().find(|(_, node)| node.name == name).map(|(id, _)| id)
    }

    /// Calls a function with each node, those of nodes' own graphs too.
    pub fn each_node(&mut self, visit: &mut impl FnMut(&mut Node)) {
        for node in self.nodes.iter_mut().flatten() {
            node.subgraphs.iter_mut().for_each(|graph| graph.each_node(visit));
            visit(node);
        }
    }

    /// Calls a function with the tensor of each constant, those of nodes' own graphs too.
    pub fn each_constant(&mut self, visit: &mut impl FnMut(&mut Constant)) {
        for node in self.nodes.iter_mut().flatten() {
            node.subgraphs.iter_mut().for_each(|graph| graph.each_constant(visit));
            if let Some(Attr::Tensor(constant)) = node.attrs.get_mut("value")
                && CONST.contains(&node.kind.as_str())
            {
                visit(constant);
            }
        }
    }

    /// The graphs of its nodes, each before those inside of it.
    pub fn subgraphs(&self) -> impl Iterator<Item = &Graph> {
        let mut pending: Vec<&Graph> = self.own_subgraphs();
        std::iter::from_fn(move || {
            let next = pending.pop()?;
            pending.extend(next.own_subgraphs());
            Some(next)
        })
    }

    /// The graphs of its nodes, the last first.
    fn own_subgraphs(&self) -> Vec<&Graph> {
        let mut graphs: Vec<&Graph> = self.nodes().flat_map(|(_, node)| &node.subgraphs).collect();
        graphs.reverse();
        graphs
    }

    /// The bytes of all constants, without those of nodes' own graphs.
    pub fn constant_bytes(&self) -> usize {
        let constants = self.nodes().map(|(_, node)| match node.attrs.get("value") {
            Some(Attr::Tensor(constant)) => constant.bytes.len(),
            _ => 0,
        });
        constants.sum()
    }

    /// Takes a node out, and every edge from or to it.
    pub fn remove(&mut self, id: NodeId) -> Option<Node> {
        let removed = self.nodes.get_mut(id)?.take()?;
        self.count -= 1;
        for node in self.nodes.iter_mut().flatten() {
            for input in &mut node.inputs {
                input.take_if(|source| source.node == id);
            }
            node.controls.retain(|one| *one != id);
        }
        self.outputs.retain(|source| source.node != id);
        self.targets.retain(|one| *one != id);
        Some(removed)
    }

    /// Names what comes out, where no `NetOutput` does.
    pub fn set_outputs(&mut self, outputs: Vec<Source>) {
        self.outputs = outputs;
    }

    /// Hands out another tensor wherever one comes out without `NetOutput`.
    pub fn replace_output(&mut self, old: Source, new: Source) {
        self.outputs.iter_mut().filter(|one| **one == old).for_each(|one| *one = new);
    }

    /// What comes out, in order: the inputs of `NetOutput` if there is one.
    pub fn outputs(&self) -> Vec<Source> {
        match self.nodes().find(|(_, node)| node.kind == NET_OUTPUT) {
            Some((_, node)) => node.inputs.iter().flatten().copied().collect(),
            None => self.outputs.clone(),
        }
    }

    /// The description of each output as the graph states it, if it does.
    pub fn output_descs(&self) -> Vec<Option<Desc>> {
        let net_output = self.nodes().find(|(_, node)| node.kind == NET_OUTPUT);
        (self.outputs().iter().enumerate())
            .map(|(at, source)| match net_output {
                Some((_, node)) => node.input_descs.get(at).cloned(),
                None => self.node(source.node)?.output_descs.get(source.output).cloned(),
            })
            .collect()
    }

    /// The nodes through which tensors come in, in the order of their attribute `index`; those without
    /// one come in the order of their indices.
    pub fn inputs(&self) -> Vec<NodeId> {
        let data = self.nodes().filter(|(_, node)| DATA.contains(&node.kind.as_str()));
        let mut data: Vec<(i64, NodeId)> = data
            .enumerate()
            .map(|(at, (id, node))| {
                (node.attrs.get("index").and_then(Attr::int).unwrap_or(at as i64), id)
            })
            .collect();
        data.sort_unstable();
        data.into_iter().map(|(_, id)| id).collect()
    }

    /// Who reads each output: (reader, index among its inputs).
    pub fn readers(&self) -> BTreeMap<Source, Vec<(NodeId, usize)>> {
        let mut readers: BTreeMap<Source, Vec<(NodeId, usize)>> = BTreeMap::new();
        for (id, node) in self.nodes() {
            for (index, source) in node.inputs.iter().enumerate() {
                if let Some(source) = source {
                    readers.entry(*source).or_default().push((id, index));
                }
            }
        }
        readers
    }

    /// The nodes in an order in which each comes after what it needs, those added first come first; `Err` has
    /// the names of nodes on a cycle.
    pub fn order(&self) -> Result<Vec<NodeId>, Vec<String>> {
        let mut unordered_predecessors: BTreeMap<NodeId, usize> = BTreeMap::new();
        let mut successors: BTreeMap<NodeId, Vec<NodeId>> = BTreeMap::new();
        for (id, node) in self.nodes() {
            let data = node.inputs.iter().flatten().map(|source| source.node);
            let mut predecessors: Vec<NodeId> = data.chain(node.controls.iter().copied()).collect();
            predecessors.sort_unstable();
            predecessors.dedup();
            predecessors.retain(|one| self.node(*one).is_some());
            unordered_predecessors.insert(id, predecessors.len());
            predecessors.into_iter().for_each(|one| successors.entry(one).or_default().push(id));
        }
        let mut ready: std::collections::BTreeSet<NodeId> = unordered_predecessors
            .iter()
            .filter(|(_, count)| **count == 0)
            .map(|(id, _)| *id)
            .collect();
        let mut order = Vec::with_capacity(unordered_predecessors.len());
        while let Some(id) = ready.pop_first() {
            order.push(id);
            unordered_predecessors.remove(&id);
            for next in successors.get(&id).into_iter().flatten() {
                let count =
                    unordered_predecessors.get_mut(next).expect("a successor is not ordered yet");
                *count -= 1;
                if *count == 0 {
                    ready.insert(*next);
                }
            }
        }
        match unordered_predecessors.is_empty() {
            true => Ok(order),
            false => Err(unordered_predecessors
                .keys()
                .map(|id| {
                    self.nodes[*id].as_ref().map_or_else(String::new, |node| node.name.clone())
                })
                .collect()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, from: &[NodeId]) -> Node {
        let inputs: Vec<_> =
            from.iter().map(|node| Some(Source { node: *node, output: 0 })).collect();
        let input_descs = vec![Desc::default(); inputs.len()];
        Node {
            name: name.into(),
            inputs,
            input_descs,
            output_descs: vec![Desc::default()],
            ..Node::default()
        }
    }

    #[test]
    fn order_follows_edges_and_finds_cycles() {
        let mut graph = Graph::new("g");
        let a = graph.add(node("a", &[2]));
        let b = graph.add(node("b", &[0]));
        let c = graph.add(node("c", &[]));
        assert_eq!(graph.order(), Ok(vec![c, a, b]));
        graph.node_mut(c).unwrap().controls.push(b);
        assert_eq!(graph.order().unwrap_err(), ["a", "b", "c"]);
    }

    #[test]
    fn a_node_goes_with_its_edges() {
        let mut graph = Graph::new("g");
        let a = graph.add(node("a", &[]));
        let b = graph.add(node("b", &[a]));
        graph.set_outputs(vec![Source { node: a, output: 0 }, Source { node: b, output: 0 }]);
        graph.remove(a);
        assert_eq!(graph.node(b).unwrap().inputs, [None]);
        assert_eq!(graph.outputs(), [Source { node: b, output: 0 }]);
        assert_eq!((graph.len(), graph.find("a")), (1, None));
    }
}
