//! Operators as a program makes them one by one, before they are nodes of a graph.

use super::{Attr, Attrs, Desc, Graph, Node, NodeId, Source};
use cairn_runtime::lock::{Mutex, MutexGuard, Rank};
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// An operator that is not in a graph yet. Links keep the operators that they lead to alive.
pub struct Operator {
    /// The user's name for it.
    pub name: String,
    /// The IR's name of the operator.
    pub kind: String,
    parts: Mutex<Parts>,
}

/// How the IR declares an input or output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// There is one.
    Required,
    /// It may be absent.
    Optional,
    /// There are as many as the program asked for.
    Dynamic,
}

impl Presence {
    /// The IR's word.
    pub fn word(self) -> &'static str {
        match self {
            Presence::Required => "required",
            Presence::Optional => "optional",
            Presence::Dynamic => "dynamic",
        }
    }
}

/// What an operator has so far.
#[derive(Default)]
pub struct Parts {
    /// What the IR declares of inputs, in order.
    pub ir_inputs: Vec<(String, Presence)>,
    /// What the IR declares of outputs, in order.
    pub ir_outputs: Vec<(String, Presence)>,
    /// Inputs; each port of a dynamic input for itself.
    pub inputs: Vec<Port>,
    /// Outputs likewise.
    pub outputs: Vec<Port>,
    /// How many ports each dynamic input has.
    pub dynamic_inputs: BTreeMap<String, usize>,
    /// How many ports each dynamic output has.
    pub dynamic_outputs: BTreeMap<String, usize>,
    /// Attributes of the IR: name, type, default.
    pub ir_attrs: Vec<(String, String, Option<Attr>)>,
    /// Attributes that were set.
    pub attrs: Attrs,
    /// Graphs of its own, by the IR's names in order; `None` for one that was not given.
    pub subgraphs: Vec<(String, Vec<Option<Graph>>)>,
    /// Operators that run before it although it does not read them.
    controls: Vec<Arc<Operator>>,
    /// Whether something reads it or runs after it, or did.
    is_used: bool,
}

/// Why an operator cannot come after another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkError {
    /// There is no such output, or no such input.
    NoPort,
    /// The names of the operators on the cycle that the link would close.
    Cycle(Vec<String>),
}

impl Parts {
    /// What feeds it, and what runs before it.
    fn sources(&self) -> Vec<Arc<Operator>> {
        let fed = self.inputs.iter().filter_map(|port| Some(port.source.as_ref()?.0.clone()));
        fed.chain(self.controls.iter().cloned()).collect()
    }

    fn dynamic_port_counts(&self, is_output: bool) -> &BTreeMap<String, usize> {
        if is_output { &self.dynamic_outputs } else { &self.dynamic_inputs }
    }
}

/// One input or output of an operator.
pub struct Port {
    /// What it is, with its name.
    pub desc: Desc,
    source: Option<(Arc<Operator>, usize)>,
}

impl Port {
    /// A port of this name that nothing feeds.
    pub fn new(name: &str) -> Port {
        let desc = Desc { name: name.into(), ..Desc::default() };
        Port { desc, source: None }
    }
}

impl Operator {
    /// An operator with nothing registered. Without a name it gets one of its own.
    pub fn new(name: &str, kind: &str) -> Arc<Operator> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let name = match name.is_empty() {
            false => name.to_owned(),
            true => format!("{kind}_{}", NEXT.fetch_add(1, Ordering::Relaxed)),
        };
        let parts = Mutex::new(Rank::Graph, Parts::default());
        Arc::new(Operator { name, kind: kind.into(), parts })
    }

    /// What it has.
    pub fn parts(&self) -> MutexGuard<'_, Parts> {
        self.parts.lock()
    }

    /// Adds an input or output that the IR has, after those it has already.
    pub fn declare(&self, name: &str, is_output: bool, presence: Presence) {
        let mut parts = self.parts();
        let Parts {
            inputs, outputs, ir_inputs, ir_outputs, dynamic_inputs, dynamic_outputs, ..
        } = &mut *parts;
        let (ports, declared, counts) = match is_output {
            true => (outputs, ir_outputs, dynamic_outputs),
            false => (inputs, ir_inputs, dynamic_inputs),
        };
        declared.push((name.into(), presence));
        match presence {
            Presence::Dynamic => drop(counts.insert(name.into(), 0)),
            Presence::Required | Presence::Optional => ports.push(Port::new(name)),
        }
    }

    /// Makes more ports of a dynamic input or output, after those it has and before what the IR declares
    /// after it.
    pub fn grow(&self, name: &str, is_output: bool, count: usize) {
        if !self.parts().dynamic_port_counts(is_output).contains_key(name) {
            self.declare(name, is_output, Presence::Dynamic);
        }
        let mut parts = self.parts();
        let have = parts.dynamic_port_counts(is_output)[name];
        let declared = if is_output { &parts.ir_outputs } else { &parts.ir_inputs };
        let preceding = declared.iter().take_while(|(one, _)| one != name);
        let preceding: usize = preceding
            .map(|(one, presence)| match presence {
                Presence::Dynamic => parts.dynamic_port_counts(is_output)[one],
                Presence::Required | Presence::Optional => 1,
            })
            .sum();
        let (ports, counts) = match is_output {
            true => {
                let Parts { outputs, dynamic_outputs, .. } = &mut *parts;
                (outputs, dynamic_outputs)
            }
            false => {
                let Parts { inputs, dynamic_inputs, .. } = &mut *parts;
                (inputs, dynamic_inputs)
            }
        };
        let at = (preceding + have).min(ports.len());
        ports.splice(at..at, (have..have + count).map(|at| Port::new(&format!("{name}{at}"))));
        counts.insert(name.into(), have + count);
    }

    /// Makes more places for graphs of a name, after those it has; a name is declared by its first.
    pub fn grow_subgraphs(&self, name: &str, count: usize) {
        let mut parts = self.parts();
        let at = parts.subgraphs.iter().position(|(one, _)| one == name).unwrap_or_else(|| {
            parts.subgraphs.push((name.to_owned(), Vec::new()));
            parts.subgraphs.len() - 1
        });
        let graphs = &mut parts.subgraphs[at].1;
        graphs.resize_with(graphs.len() + count, || None);
    }

    /// Gives it a graph of its own; `false` if there is no such place.
    pub fn set_subgraph(&self, name: &str, index: usize, graph: Graph) -> bool {
        let mut parts = self.parts();
        let graphs = parts.subgraphs.iter_mut().find(|(one, _)| one == name);
        match graphs.and_then(|(_, graphs)| graphs.get_mut(index)) {
            Some(place) => {
                *place = Some(graph);
                true
            }
            None => false,
        }
    }

    /// Feeds an input, unless that would close a cycle: operators in a cycle would keep each other alive.
    pub fn link(
        self: &Arc<Operator>,
        input: usize,
        from: &Arc<Operator>,
        output: usize,
    ) -> Result<(), LinkError> {
        self.check_cycle(from)?;
        let desc = from.parts().outputs.get(output).map(|port| port.desc.clone());
        let mut parts = self.parts();
        let (Some(port), Some(desc)) = (parts.inputs.get_mut(input), desc) else {
            return Err(LinkError::NoPort);
        };
        port.desc.copy_type_and_shape_from(desc);
        let previous = port.source.replace((from.clone(), output));
        drop(parts);
        drop(previous);
        from.parts().is_used = true;
        Ok(())
    }

    /// Fails if `from` comes after this operator. Operators are mostly linked before they are used, and
    /// then there is nothing to look at.
    fn check_cycle(self: &Arc<Operator>, from: &Arc<Operator>) -> Result<(), LinkError> {
        if Arc::ptr_eq(self, from) {
            return Err(LinkError::Cycle(vec![self.name.clone(), self.name.clone()]));
        }
        if !self.parts().is_used {
            return Ok(());
        }
        let mut readers: HashMap<*const Operator, Arc<Operator>> = HashMap::new();
        let mut pending = vec![from.clone()];
        while let Some(operator) = pending.pop() {
            if Arc::ptr_eq(&operator, self) {
                let mut names = vec![self.name.clone()];
                let mut current = operator;
                while let Some(reader) = readers.get(&Arc::as_ptr(&current)) {
                    names.push(reader.name.clone());
                    current = reader.clone();
                }
                names.push(self.name.clone());
                return Err(LinkError::Cycle(names));
            }
            let sources = operator.parts().sources();
            for source in sources {
                if !Arc::ptr_eq(&source, from)
                    && let Entry::Vacant(entry) = readers.entry(Arc::as_ptr(&source))
                {
                    entry.insert(operator.clone());
                    pending.push(source);
                }
            }
        }
        Ok(())
    }

    /// What feeds an input.
    pub fn source(&self, input: usize) -> Option<(Arc<Operator>, usize)> {
        self.parts().inputs.get(input)?.source.clone()
    }

    /// Runs it after another, unless that would close a cycle.
    pub fn follow(self: &Arc<Operator>, before: &Arc<Operator>) -> Result<(), LinkError> {
        self.check_cycle(before)?;
        self.parts().controls.push(before.clone());
        before.parts().is_used = true;
        Ok(())
    }

    /// The value that was set, else the IR's default.
    pub fn attr(&self, name: &str) -> Option<Attr> {
        let parts = self.parts();
        let default = || parts.ir_attrs.iter().find(|(one, ..)| one == name)?.2.clone();
        parts.attrs.get(name).cloned().or_else(default)
    }

    /// It as a node that nothing feeds.
    pub fn node(&self) -> Node {
        let parts = self.parts();
        let mut attrs: Attrs = (parts.ir_attrs.iter())
            .filter_map(|(name, _, value)| Some((name.clone(), value.clone()?)))
            .collect();
        attrs.extend(parts.attrs.clone());
        let descs = |ports: &[Port]| ports.iter().map(|port| port.desc.clone()).collect();
        Node {
            name: self.name.clone(),
            kind: self.kind.clone(),
            inputs: vec![None; parts.inputs.len()],
            input_descs: descs(&parts.inputs),
            output_descs: descs(&parts.outputs),
            controls: Vec::new(),
            attrs,
            subgraphs: (parts.subgraphs.iter())
                .flat_map(|(_, graphs)| graphs.iter().flatten().cloned())
                .collect(),
        }
    }
}

impl Drop for Operator {
    /// Drops long chains one by one: recursion would overflow the stack.
    fn drop(&mut self) {
        let take = |parts: &mut Parts| -> Vec<Arc<Operator>> {
            let sources = parts.inputs.drain(..).filter_map(|port| Some(port.source?.0));
            sources.chain(parts.controls.drain(..)).collect()
        };
        let mut pending = take(&mut self.parts());
        while let Some(operator) = pending.pop() {
            if let Some(last) = Arc::into_inner(operator) {
                pending.extend(take(&mut last.parts()));
            }
        }
    }
}

/// The operators that a program names to make a graph of them.
#[derive(Default)]
pub struct GraphOperators {
    /// What comes in, in order.
    pub inputs: Vec<Arc<Operator>>,
    /// What goes out: an operator and its output, or all of them.
    pub outputs: Vec<(Arc<Operator>, Option<usize>)>,
    /// What runs although nobody reads it.
    pub targets: Vec<Arc<Operator>>,
    /// What belongs to the graph besides.
    pub others: Vec<Arc<Operator>>,
}

impl GraphOperators {
    /// An operator of this name that was named or that links lead to.
    pub fn find(&self, name: &str) -> Option<Arc<Operator>> {
        let roots = self.inputs.iter().chain(&self.others).chain(&self.targets);
        let roots = roots.chain(self.outputs.iter().map(|(operator, _)| operator));
        let mut pending: Vec<Arc<Operator>> = roots.cloned().collect();
        let mut visited = HashSet::new();
        while let Some(operator) = pending.pop() {
            if operator.name == name {
                return Some(operator);
            }
            if visited.insert(Arc::as_ptr(&operator)) {
                let parts = operator.parts();
                pending.extend(
                    parts.inputs.iter().filter_map(|port| Some(port.source.as_ref()?.0.clone())),
                );
            }
        }
        None
    }

    /// Makes nodes of all operators that links lead to.
    pub fn build(&self, name: &str) -> Graph {
        let mut graph = Graph::new(name);
        let mut ids: HashMap<*const Operator, NodeId> = HashMap::new();
        let mut names: HashSet<String> = HashSet::new();
        let mut added: Vec<Arc<Operator>> = Vec::new();
        let roots = self.inputs.iter().chain(&self.others).chain(&self.targets);
        let roots = roots.chain(self.outputs.iter().map(|(operator, _)| operator));
        for root in roots {
            let mut pending = vec![(root.clone(), false)];
            while let Some((operator, are_sources_added)) = pending.pop() {
                let key = Arc::as_ptr(&operator);
                if are_sources_added {
                    if let Entry::Vacant(entry) = ids.entry(key) {
                        entry.insert(graph.add(unique(operator.node(), &mut names)));
                        added.push(operator);
                    }
                    continue;
                }
                if ids.contains_key(&key)
                    || pending.iter().any(|(one, is_open)| *is_open && Arc::ptr_eq(one, &operator))
                {
                    continue;
                }
                let sources = operator.parts().sources();
                pending.push((operator, true));
                pending.extend(sources.into_iter().rev().map(|one| (one, false)));
            }
        }
        for operator in &added {
            let parts = operator.parts();
            let id = |operator: &Arc<Operator>| ids[&Arc::as_ptr(operator)];
            let inputs = (parts.inputs.iter())
                .map(|port| {
                    port.source
                        .as_ref()
                        .map(|(from, output)| Source { node: id(from), output: *output })
                })
                .collect();
            let controls = parts.controls.iter().map(id).collect();
            let node = graph.node_mut(id(operator)).expect("the node was just added");
            (node.inputs, node.controls) = (inputs, controls);
        }
        let id = |operator: &Arc<Operator>| ids[&Arc::as_ptr(operator)];
        let mut outputs = Vec::new();
        for (operator, output) in &self.outputs {
            let count = operator.parts().outputs.len();
            let all = output.map_or(0..count, |output| output..output + 1);
            outputs.extend(all.map(|output| Source { node: id(operator), output }));
        }
        graph.set_outputs(outputs);
        graph.targets = self.targets.iter().map(id).collect();
        self.number_inputs(&mut graph, &id);
        graph
    }

    /// Gives the inputs their indices, unless each has one of its own.
    fn number_inputs(&self, graph: &mut Graph, id: &dyn Fn(&Arc<Operator>) -> NodeId) {
        let data = graph.inputs();
        let index = |graph: &Graph, id: &NodeId| {
            graph.node(*id).and_then(|node| node.attrs.get("index").and_then(Attr::int))
        };
        let mut indices: Vec<i64> = data.iter().filter_map(|one| index(graph, one)).collect();
        indices.sort_unstable();
        if indices.iter().copied().eq(0..data.len() as i64) {
            return;
        }
        let mut order: Vec<NodeId> =
            self.inputs.iter().map(id).filter(|one| data.contains(one)).collect();
        order.extend(data.iter().filter(|one| !self.inputs.iter().any(|input| id(input) == **one)));
        for (at, one) in order.into_iter().enumerate() {
            if let Some(node) = graph.node_mut(one) {
                node.attrs.insert("index".into(), Attr::Int(at as i64));
            }
        }
    }
}

/// The node, under a name that no other has.
fn unique(mut node: Node, names: &mut HashSet<String>) -> Node {
    if !names.insert(node.name.clone()) {
        let free = (1..).map(|at| format!("{}_{at}", node.name)).find(|name| !names.contains(name));
        let free = free.expect("some number is free");
        log::warn!("two operators are called {}: the second is node {free}", node.name);
        names.insert(free.clone());
        node.name = free;
    }
    node
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operator(name: &str, kind: &str, inputs: &[&str]) -> Arc<Operator> {
        let operator = Operator::new(name, kind);
        operator.parts().inputs = inputs.iter().map(|name| Port::new(name)).collect();
        operator.parts().outputs = vec![Port::new("y")];
        operator
    }

    #[test]
    fn graphs_of_an_operator_are_in_the_order_of_the_ir() {
        let case = operator("case", "Case", &[]);
        case.grow_subgraphs("then", 1);
        case.grow_subgraphs("branches", 0);
        case.grow_subgraphs("branches", 2);
        assert!(case.set_subgraph("branches", 1, Graph::new("b1")));
        assert!(case.set_subgraph("then", 0, Graph::new("t")));
        assert!(!case.set_subgraph("branches", 2, Graph::new("b2")));
        assert!(!case.set_subgraph("else", 0, Graph::new("e")));
        let names: Vec<String> = case.node().subgraphs.into_iter().map(|one| one.name).collect();
        assert_eq!(names, ["t", "b1"]);
    }

    #[test]
    fn links_become_edges_and_inputs_get_indices() {
        let (a, b) = (operator("a", "Data", &[]), operator("b", "Data", &[]));
        for data in [&a, &b] {
            data.parts().attrs.insert("index".into(), Attr::Int(0));
        }
        let add = operator("add", "Add", &["x1", "x2"]);
        assert_eq!((add.link(0, &b, 0), add.link(1, &a, 0)), (Ok(()), Ok(())));
        assert_eq!(add.link(2, &a, 0), Err(LinkError::NoPort));
        assert_eq!(add.link(0, &a, 1), Err(LinkError::NoPort));
        let operators = GraphOperators {
            inputs: vec![a, b],
            outputs: vec![(add, None)],
            ..GraphOperators::default()
        };
        let graph = operators.build("g");
        let names: Vec<&str> =
            graph.inputs().iter().map(|id| graph.node(*id).unwrap().name.as_str()).collect();
        assert_eq!(names, ["a", "b"]);
        let add = graph.find("add").unwrap();
        let fed: Vec<usize> =
            graph.node(add).unwrap().inputs.iter().map(|one| one.unwrap().node).collect();
        assert_eq!(fed, [graph.find("b").unwrap(), graph.find("a").unwrap()]);
        assert_eq!(graph.outputs(), [Source { node: add, output: 0 }]);
    }

    #[test]
    fn a_link_that_would_close_a_cycle_is_refused_and_keeps_nothing() {
        let cycle = |names: &[&str]| {
            Err(LinkError::Cycle(names.iter().map(|name| (*name).to_owned()).collect()))
        };
        let [a, b, c] = ["a", "b", "c"].map(|name| operator(name, "Relu", &["x"]));
        assert_eq!(a.link(0, &a, 0), cycle(&["a", "a"]));
        assert_eq!((b.link(0, &a, 0), c.follow(&b)), (Ok(()), Ok(())));
        assert_eq!(a.link(0, &c, 0), cycle(&["a", "b", "c", "a"]));
        assert_eq!(a.follow(&b), cycle(&["a", "b", "a"]));
        let operators = [&a, &b, &c].map(Arc::downgrade);
        drop((a, b, c));
        assert!(operators.iter().all(|one| one.upgrade().is_none()));
    }

    #[test]
    fn long_chains_are_built_and_dropped() {
        let mut last = operator("x", "Data", &[]);
        for at in 0..100_000 {
            let next = operator(&format!("n{at}"), "Relu", &["x"]);
            assert_eq!(next.link(0, &last, 0), Ok(()));
            last = next;
        }
        let operators =
            GraphOperators { outputs: vec![(last, Some(0))], ..GraphOperators::default() };
        assert_eq!(operators.build("g").len(), 100_001);
    }
}
