//! Nodes of a graph.

use super::abi::*;
use super::door::{object, owned, plain, release, show, status, text};
use super::graph::GraphObject;
use super::value::{attr, desc, show_attr, show_desc};
use cairn_graph::ir::{Node, NodeId, Source};
use cairn_graph::{Failure, Result};
use std::ffi::c_void;
use std::sync::Arc;

/// What a handle of a node names. It keeps the graph.
pub struct NodeObject {
    graph: Arc<GraphObject>,
    id: NodeId,
}

impl NodeObject {
    /// A node of a graph.
    pub fn new(graph: &Arc<GraphObject>, id: NodeId) -> NodeObject {
        NodeObject { graph: graph.clone(), id }
    }

    /// The index in this graph.
    pub fn in_graph(&self, graph: &Arc<GraphObject>) -> Result<NodeId> {
        match Arc::ptr_eq(&self.graph, graph) {
            true => Ok(self.id),
            false => Err(Failure::failed("the node belongs to another graph")),
        }
    }

    /// Reads the node.
    fn read<T>(&self, callback: impl FnOnce(&Node) -> T) -> Result<T> {
        let graph = self.graph.lock();
        graph.node(self.id).map(callback).ok_or_else(node_removed)
    }

    /// Changes the node.
    fn change<T>(&self, change: impl FnOnce(&mut Node) -> T) -> Result<T> {
        let mut graph = self.graph.lock();
        graph.node_mut(self.id).map(change).ok_or_else(node_removed)
    }

    /// A handle to a node of the same graph.
    fn handle_to(&self, id: NodeId) -> *mut CairnNode {
        owned(NodeObject::new(&self.graph, id))
    }
}

/// The failure of a call on a node that was removed.
pub fn node_removed() -> Failure {
    Failure::failed("the node was taken out of its graph")
}

/// # Safety
/// The handle is null or a live node.
pub unsafe fn node<'a>(handle: *const CairnNode) -> Result<&'a NodeObject> {
    // SAFETY: as the caller vouches.
    unsafe { object(handle, "node") }
}

/// # Safety
/// `out` is null or valid for a write.
unsafe fn write_index(out: *mut usize, value: usize) {
    if !out.is_null() {
        // SAFETY: as the caller vouches.
        unsafe { out.write(value) };
    }
}

plain! {
    /// A copy of a graph of the node's own.
    fn CairnNodeSubgraph(handle: *const CairnNode, index: usize) -> *mut CairnGraph, else std::ptr::null_mut(), {
        // SAFETY: the caller's handle is live.
        let found = unsafe { node(handle) }?.read(|node| node.subgraphs.get(index).cloned())?;
        Ok(found.map_or(std::ptr::null_mut(), |found| owned(GraphObject::from_graph(found))))
    }

    /// One holder less.
    fn CairnNodeRelease(handle: *mut CairnNode) {
        // SAFETY: the caller gives its handle up.
        unsafe { release::<NodeObject, _>(handle) };
        Ok(())
    }

    /// Whether two handles name one node.
    fn CairnNodeSame(a: *const CairnNode, b: *const CairnNode) -> bool, else false, {
        // SAFETY: the caller's handles are live.
        let (a, b) = unsafe { (node(a)?, node(b)?) };
        Ok(a.id == b.id && Arc::ptr_eq(&a.graph, &b.graph))
    }

    /// The name.
    fn CairnNodeName(handle: *const CairnNode, context: *mut c_void, callback: CairnTextCallback) -> bool, else false, {
        // SAFETY: the caller's handle is live.
        let name = unsafe { node(handle) }?.read(|node| node.name.clone())?;
        // SAFETY: the caller's function takes the context.
        unsafe { show(callback, context, name.as_bytes()) };
        Ok(true)
    }

    /// The IR's name of the operator.
    fn CairnNodeType(handle: *const CairnNode, context: *mut c_void, callback: CairnTextCallback) -> bool, else false, {
        // SAFETY: the caller's handle is live.
        let kind = unsafe { node(handle) }?.read(|node| node.kind.clone())?;
        // SAFETY: the caller's function takes the context.
        unsafe { show(callback, context, kind.as_bytes()) };
        Ok(true)
    }

    /// The number of inputs.
    fn CairnNodeInputs(handle: *const CairnNode) -> usize, else 0, {
        // SAFETY: the caller's handle is live.
        unsafe { node(handle) }?.read(|node| node.inputs.len())
    }

    /// The number of outputs.
    fn CairnNodeOutputs(handle: *const CairnNode) -> usize, else 0, {
        // SAFETY: the caller's handle is live.
        unsafe { node(handle) }?.read(|node| node.output_descs.len())
    }

    /// The index of a name.
    fn CairnNodePortIndex(handle: *const CairnNode, name: CairnText, is_output: bool) -> i64, else -1, {
        // SAFETY: the caller's handle is live, and its text lives for the call.
        let (handle, name) = unsafe { (node(handle)?, text(name)) };
        handle.read(|node| {
            let descs = if is_output { &node.output_descs } else { &node.input_descs };
            descs.iter().position(|desc| desc.name == name).map_or(-1, |at| at as i64)
        })
    }

    /// Shows a description.
    fn CairnNodeDesc(handle: *const CairnNode, index: usize, is_output: bool, context: *mut c_void, callback: CairnDescCallback) -> bool, else false, {
        // SAFETY: the caller's handle is live.
        let found = unsafe { node(handle) }?.read(|node| {
            let descs = if is_output { &node.output_descs } else { &node.input_descs };
            descs.get(index).cloned()
        })?;
        let found = found.ok_or_else(|| {
            let kind = if is_output { "output" } else { "input" };
            Failure::failed(format!("the node has no {kind} {index}"))
        })?;
        // SAFETY: the caller's function takes the context.
        unsafe { show_desc(callback, context, &found) };
        Ok(true)
    }

    /// What feeds an input.
    fn CairnNodeSource(handle: *const CairnNode, input: usize, output: *mut usize) -> *mut CairnNode, else std::ptr::null_mut(), {
        // SAFETY: the caller's handle is live.
        let handle = unsafe { node(handle) }?;
        let source = handle.read(|node| node.inputs.get(input).copied().flatten())?;
        let Some(Source { node, output: at }) = source else { return Ok(std::ptr::null_mut()) };
        // SAFETY: the caller passes null or a pointer to a number.
        unsafe { write_index(output, at) };
        Ok(handle.handle_to(node))
    }

    /// Who reads an output.
    fn CairnNodeReader(handle: *const CairnNode, output: usize, at: usize, input: *mut usize) -> *mut CairnNode, else std::ptr::null_mut(), {
        // SAFETY: the caller's handle is live.
        let handle = unsafe { node(handle) }?;
        let readers = handle.graph.lock().readers();
        let readers = readers.get(&Source { node: handle.id, output });
        let Some((reader, index)) = readers.and_then(|all| all.get(at)).copied() else {
            return Ok(std::ptr::null_mut());
        };
        // SAFETY: the caller passes null or a pointer to a number.
        unsafe { write_index(input, index) };
        Ok(handle.handle_to(reader))
    }

    /// A node that runs before it, or after it, by a control edge.
    fn CairnNodeControl(handle: *const CairnNode, is_after: bool, at: usize) -> *mut CairnNode, else std::ptr::null_mut(), {
        // SAFETY: the caller's handle is live.
        let handle = unsafe { node(handle) }?;
        let found = match is_after {
            false => handle.read(|node| node.controls.get(at).copied())?,
            true => {
                let graph = handle.graph.lock();
                let mut after = graph.nodes().filter(|(_, node)| node.controls.contains(&handle.id));
                after.nth(at).map(|(id, _)| id)
            }
        };
        Ok(found.map_or(std::ptr::null_mut(), |id| handle.handle_to(id)))
    }

    /// Shows an attribute.
    fn CairnNodeAttr(handle: *const CairnNode, name: CairnText, context: *mut c_void, callback: CairnValueCallback) -> bool, else false, {
        // SAFETY: the caller's handle is live, and its text lives for the call.
        let (handle, name) = unsafe { (node(handle)?, text(name)) };
        let Some(value) = handle.read(|node| node.attrs.get(&name).cloned())? else { return Ok(false) };
        // SAFETY: the caller's function takes the context.
        unsafe { show_attr(callback, context, &value) };
        Ok(true)
    }
}

status! {
    /// Changes a description; the name stays.
    fn CairnNodeSetDesc(handle: *const CairnNode, index: usize, is_output: bool, from: *const CairnDesc) {
        // SAFETY: the caller's handle is live, and what it passes lives for the call.
        let (handle, from) = unsafe { (node(handle)?, from.as_ref()) };
        let from = from.ok_or_else(|| Failure::invalid("the description is null"))?;
        // SAFETY: as above.
        let new = unsafe { desc(from) }?;
        let changed = handle.change(|node| {
            let descs = if is_output { &mut node.output_descs } else { &mut node.input_descs };
            descs.get_mut(index).map(|desc| desc.copy_type_and_shape_from(new))
        })?;
        changed.ok_or_else(|| Failure::failed(format!("the node has no input or output {index}")))
    }

    /// Sets an attribute.
    fn CairnNodeSetAttr(handle: *const CairnNode, name: CairnText, value: *const CairnValue) {
        // SAFETY: the caller's handle is live, and what it passes lives for the call.
        let (handle, name, value) = unsafe { (node(handle)?, text(name), value.as_ref()) };
        let value = value.ok_or_else(|| Failure::invalid(format!("the value of {name} is null")))?;
        // SAFETY: as above.
        let value = unsafe { attr(value) }?;
        handle.change(|node| node.attrs.insert(name, value)).map(drop)
    }
}
