//! Graphs: made of operators, read from models, changed node by node.

use super::abi::*;
use super::door::{list, object, owned, plain, release, show, status, text};
use super::node::{NodeObject, node, node_removed};
use super::operator::operator;
use super::value::{attr, show_attr};
use bytes::Bytes;
use cairn_graph::ir::{Graph, GraphOperators, Operator, Source};
use cairn_graph::session::SharedGraph;
use cairn_graph::{Failure, Result, model};
use cairn_runtime::lock::{Mutex, MutexGuard, Rank};
use std::ffi::c_void;
use std::sync::Arc;

/// What a handle of a graph names.
pub struct GraphObject {
    name: String,
    graph: SharedGraph,
    plan: Mutex<OperatorPlan>,
}

/// Operators that were named for the graph; nodes are made of them when they are needed.
#[derive(Default)]
struct OperatorPlan {
    operators: GraphOperators,
    /// Whether they changed since nodes were made of them.
    is_new: bool,
}

impl GraphObject {
    fn new(name: &str) -> Arc<GraphObject> {
        GraphObject::from_graph(Graph::new(name))
    }

    /// From an existing graph.
    pub fn from_graph(graph: Graph) -> Arc<GraphObject> {
        let name = graph.name.clone();
        let graph = Arc::new(Mutex::new(Rank::Graph, graph));
        let plan = Mutex::new(Rank::OperatorPlan, OperatorPlan::default());
        Arc::new(GraphObject { name, graph, plan })
    }

    /// Changes which operators are named; the nodes are built again when they are needed.
    fn change(&self, change: impl FnOnce(&mut GraphOperators)) {
        let mut plan = self.plan.lock();
        change(&mut plan.operators);
        plan.is_new = true;
    }

    /// The graph, with nodes of all operators that were named.
    pub fn shared(&self) -> &SharedGraph {
        let mut plan = self.plan.lock();
        if std::mem::take(&mut plan.is_new) {
            let built = plan.operators.build(&self.name);
            *self.graph.lock() = built;
        }
        &self.graph
    }

    /// The graph, to look at or change.
    pub fn lock(&self) -> MutexGuard<'_, Graph> {
        self.shared().lock()
    }

    /// A copy of the graph.
    pub fn ir(&self) -> Graph {
        self.lock().clone()
    }

    /// Becomes another graph.
    pub fn replace(&self, graph: Graph) {
        let mut plan = self.plan.lock();
        *plan = OperatorPlan::default();
        *self.graph.lock() = graph;
    }
}

/// # Safety
/// The handle is null or a live graph.
pub unsafe fn graph<'a>(handle: *const CairnGraph) -> Result<&'a Arc<GraphObject>> {
    // SAFETY: as the caller vouches.
    unsafe { object(handle, "graph") }
}

/// # Safety
/// `ops` has `count` live operators.
unsafe fn operators(ops: *const *mut CairnOperator, count: usize) -> Result<Vec<Arc<Operator>>> {
    // SAFETY: as the caller vouches.
    unsafe { list(ops, count).iter().map(|op| operator(*op).cloned()).collect() }
}

plain! {
    /// An empty graph.
    fn CairnGraphNew(name: CairnText) -> *mut CairnGraph, else std::ptr::null_mut(), {
        // SAFETY: the caller's text lives for the call.
        Ok(owned(GraphObject::new(&unsafe { text(name) })))
    }

    /// One more owner.
    fn CairnGraphRetain(handle: *mut CairnGraph) -> *mut CairnGraph, else std::ptr::null_mut(), {
        // SAFETY: the caller's handle is live.
        Ok(owned(unsafe { graph(handle) }?.clone()))
    }

    /// One owner less.
    fn CairnGraphRelease(handle: *mut CairnGraph) {
        // SAFETY: the caller gives its handle up.
        unsafe { release::<Arc<GraphObject>, _>(handle) };
        Ok(())
    }

    /// The name.
    fn CairnGraphName(handle: *const CairnGraph, context: *mut c_void, callback: CairnTextCallback) {
        // SAFETY: the caller's handle is live.
        let name = unsafe { graph(handle) }?.lock().name.clone();
        // SAFETY: the caller's function takes the context.
        unsafe { show(callback, context, name.as_bytes()) };
        Ok(())
    }

    /// Whether it has nodes.
    fn CairnGraphValid(handle: *const CairnGraph) -> bool, else false, {
        // SAFETY: the caller's handle is live.
        Ok(!unsafe { graph(handle) }?.lock().is_empty())
    }

    /// The operator of a name that was named for the graph.
    fn CairnGraphFindOp(handle: *const CairnGraph, name: CairnText) -> *mut CairnOperator, else std::ptr::null_mut(), {
        // SAFETY: the caller's handle is live, and its text lives for the call.
        let (graph, name) = unsafe { (graph(handle)?, text(name)) };
        let plan = graph.plan.lock();
        let found = plan.operators.find(&name);
        Ok(found.map_or(std::ptr::null_mut(), owned))
    }

    /// The names of all nodes.
    fn CairnGraphOpNames(handle: *const CairnGraph, context: *mut c_void, callback: CairnTextCallback) {
        // SAFETY: the caller's handle is live.
        let graph = unsafe { graph(handle) }?.ir();
        for (_, node) in graph.nodes() {
            // SAFETY: the caller's function takes the context.
            unsafe { show(callback, context, node.name.as_bytes()) };
        }
        Ok(())
    }

    /// Shows every node, in order; whoever sees one owns it.
    fn CairnGraphNodes(
        handle: *const CairnGraph,
        context: *mut c_void,
        callback: Option<unsafe extern "C" fn(*mut c_void, *mut CairnNode)>,
    ) {
        // SAFETY: the caller's handle is live.
        let graph = unsafe { graph(handle) }?;
        let order = {
            let graph = graph.lock();
            let unordered = || graph.nodes().map(|(id, _)| id).collect::<Vec<_>>();
            graph.order().unwrap_or_else(|_| unordered())
        };
        for id in order {
            if let Some(callback) = callback {
                // SAFETY: the caller's function takes the context and a node of its own.
                unsafe { callback(context, owned(NodeObject::new(graph, id))) };
            }
        }
        Ok(())
    }

    /// Makes a node of an operator.
    fn CairnGraphAddNode(handle: *mut CairnGraph, op: *const CairnOperator) -> *mut CairnNode, else std::ptr::null_mut(), {
        // SAFETY: the caller's handles are live.
        let (graph, op) = unsafe { (graph(handle)?, operator(op)?) };
        let node = op.node();
        let id = graph.lock().add(node);
        Ok(owned(NodeObject::new(graph, id)))
    }

    /// A copy of a graph of one of its nodes, or of one inside of those.
    fn CairnGraphSubgraph(handle: *const CairnGraph, index: usize) -> *mut CairnGraph, else std::ptr::null_mut(), {
        // SAFETY: the caller's handle is live.
        let graph = unsafe { graph(handle) }?.lock();
        let found = graph.subgraphs().nth(index).cloned();
        Ok(found.map_or(std::ptr::null_mut(), |found| owned(GraphObject::from_graph(found))))
    }

    /// Shows an attribute.
    fn CairnGraphAttr(handle: *const CairnGraph, name: CairnText, context: *mut c_void, callback: CairnValueCallback) -> bool, else false, {
        // SAFETY: the caller's handle is live, and its text lives for the call.
        let (graph, name) = unsafe { (graph(handle)?, text(name)) };
        let Some(value) = graph.lock().attrs.get(&name).cloned() else { return Ok(false) };
        // SAFETY: the caller's function takes the context.
        unsafe { show_attr(callback, context, &value) };
        Ok(true)
    }
}

status! {
    /// Names what comes in.
    fn CairnGraphSetInputs(handle: *mut CairnGraph, ops: *const *mut CairnOperator, count: usize) {
        // SAFETY: the caller's handles are live.
        let (graph, ops) = unsafe { (graph(handle)?, operators(ops, count)?) };
        graph.change(|operators| operators.inputs = ops);
        Ok(())
    }

    /// Names what goes out.
    fn CairnGraphSetOutputs(handle: *mut CairnGraph, ops: *const *mut CairnOperator, outputs: *const i64, count: usize) {
        // SAFETY: the caller's handles are live, and there are as many numbers as operators.
        let (graph, ops, outputs) = unsafe { (graph(handle)?, operators(ops, count)?, list(outputs, count)) };
        let mut named = Vec::new();
        for (op, output) in ops.into_iter().zip(outputs) {
            let count = op.parts().outputs.len();
            if *output >= count as i64 {
                return Err(Failure::failed(format!(
                    "output {output} of {} ({}) is named as output of the graph {}, and it has {count}",
                    op.name, op.kind, graph.name
                )));
            }
            named.push((op, usize::try_from(*output).ok()));
        }
        graph.change(|operators| operators.outputs = named);
        Ok(())
    }

    /// Names what runs although nobody reads it.
    fn CairnGraphSetTargets(handle: *mut CairnGraph, ops: *const *mut CairnOperator, count: usize) {
        // SAFETY: the caller's handles are live.
        let (graph, ops) = unsafe { (graph(handle)?, operators(ops, count)?) };
        graph.change(|operators| operators.targets = ops);
        Ok(())
    }

    /// Adds an operator.
    fn CairnGraphAddOp(handle: *mut CairnGraph, op: *mut CairnOperator) {
        // SAFETY: the caller's handles are live.
        let (graph, op) = unsafe { (graph(handle)?, operator(op)?.clone()) };
        graph.change(|operators| operators.others.push(op));
        Ok(())
    }

    /// Reads a model.
    fn CairnGraphRead(handle: *mut CairnGraph, bytes: *const c_void, size: usize) {
        // SAFETY: the caller's handle is live, and its bytes live for the call.
        let (graph, bytes) = unsafe { (graph(handle)?, list(bytes.cast::<u8>(), size)) };
        if bytes.is_empty() {
            return Err(Failure::failed("a model of no bytes"));
        }
        let read = model::read(Bytes::copy_from_slice(bytes)).map_err(Failure::failed)?;
        graph.replace(read);
        Ok(())
    }

    /// Writes a model.
    fn CairnGraphWrite(handle: *const CairnGraph, context: *mut c_void, callback: CairnTextCallback) {
        // SAFETY: the caller's handle is live.
        let bytes = model::write(&unsafe { graph(handle) }?.ir());
        // SAFETY: the caller's function takes the context.
        unsafe { show(callback, context, &bytes) };
        Ok(())
    }

    /// Shows the graph as text.
    fn CairnGraphText(handle: *const CairnGraph, context: *mut c_void, callback: CairnTextCallback) {
        // SAFETY: the caller's handle is live.
        let shown = model::to_text(unsafe { graph(handle) }?.ir()).map_err(Failure::failed)?;
        // SAFETY: the caller's function takes the context.
        unsafe { show(callback, context, shown.as_bytes()) };
        Ok(())
    }

    /// Becomes a copy of another.
    fn CairnGraphCopy(handle: *mut CairnGraph, from: *const CairnGraph) {
        // SAFETY: the caller's handles are live.
        let (graph, from) = unsafe { (graph(handle)?, graph(from)?.ir()) };
        graph.replace(from);
        Ok(())
    }

    /// Takes a node out.
    fn CairnGraphRemoveNode(handle: *mut CairnGraph, node_handle: *const CairnNode) {
        // SAFETY: the caller's handles are live.
        let (graph, node) = unsafe { (graph(handle)?, node(node_handle)?) };
        let id = node.in_graph(graph)?;
        let removed = graph.lock().remove(id);
        removed.map(drop).ok_or_else(node_removed)
    }

    /// Feeds an input.
    fn CairnGraphAddEdge(handle: *mut CairnGraph, from: *const CairnNode, output: i64, to: *const CairnNode, input: i64) {
        // SAFETY: the caller's handles are live.
        let (graph, from, to) = unsafe { (graph(handle)?, node(from)?, node(to)?) };
        let (from, to) = (from.in_graph(graph)?, to.in_graph(graph)?);
        let mut graph = graph.lock();
        let output_count = graph.node(from).map_or(0, |node| node.output_descs.len());
        let target = graph.node_mut(to);
        let (output, input) = (usize::try_from(output).ok(), usize::try_from(input).ok());
        let (Some(output), Some(input), Some(target)) = (output.filter(|at| *at < output_count), input, target) else {
            return Err(Failure::failed("an edge between ports that do not exist"));
        };
        let name = target.name.clone();
        match target.inputs.get_mut(input) {
            Some(slot @ None) => {
                *slot = Some(Source { node: from, output });
                Ok(())
            }
            Some(_) => Err(Failure::failed(format!("input {input} of {name} is fed already"))),
            None => Err(Failure::failed(format!("the node {name} has no input {input}"))),
        }
    }

    /// Removes an edge that feeds an input, or a control edge.
    fn CairnGraphRemoveEdge(handle: *mut CairnGraph, from: *const CairnNode, output: i64, to: *const CairnNode, input: i64) {
        // SAFETY: the caller's handles are live.
        let (graph, from, to) = unsafe { (graph(handle)?, node(from)?, node(to)?) };
        let (from, to) = (from.in_graph(graph)?, to.in_graph(graph)?);
        let mut graph = graph.lock();
        let target = graph.node_mut(to);
        let Some(target) = target else { return Err(node_removed()) };
        if output < 0 && input < 0 {
            target.controls.retain(|one| *one != from);
            return Ok(());
        }
        let expected = usize::try_from(output).ok().map(|output| Source { node: from, output });
        let slot = usize::try_from(input).ok().and_then(|at| target.inputs.get_mut(at));
        match slot {
            Some(slot) if *slot == expected && expected.is_some() => {
                *slot = None;
                Ok(())
            }
            _ => Err(Failure::failed("there is no such edge")),
        }
    }

    /// Runs one node after another.
    fn CairnGraphAddControl(handle: *mut CairnGraph, from: *const CairnNode, to: *const CairnNode) {
        // SAFETY: the caller's handles are live.
        let (graph, from, to) = unsafe { (graph(handle)?, node(from)?, node(to)?) };
        let (from, to) = (from.in_graph(graph)?, to.in_graph(graph)?);
        let mut graph = graph.lock();
        if graph.node(from).is_none() {
            return Err(node_removed());
        }
        let target = graph.node_mut(to).ok_or_else(node_removed)?;
        if !target.controls.contains(&from) {
            target.controls.push(from);
        }
        Ok(())
    }

    /// Sets an attribute.
    fn CairnGraphSetAttr(handle: *mut CairnGraph, name: CairnText, value: *const CairnValue) {
        // SAFETY: the caller's handle is live, and what it passes lives for the call.
        let (graph, name, value) = unsafe { (graph(handle)?, text(name), value.as_ref()) };
        let value = value.ok_or_else(|| Failure::invalid(format!("the value of {name} is null")))?;
        // SAFETY: as above.
        let value = unsafe { attr(value) }?;
        graph.lock().attrs.insert(name, value);
        Ok(())
    }
}
