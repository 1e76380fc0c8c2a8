//! Operators before they are in a graph.

use super::abi::*;
use super::declarations;
use super::door::{borrowed, object, owned, plain, release, show, status, text};
use super::value::{attr, desc, show_attr, show_desc};
use cairn_graph::ir::{Attr, Desc, LinkError, Operator, Presence};
use cairn_graph::{Failure, Result, infer_operator};
use cairn_tensor::DType;
use std::ffi::c_void;
use std::sync::Arc;

/// # Safety
/// The handle is null or a live operator.
pub unsafe fn operator<'a>(handle: *const CairnOperator) -> Result<&'a Arc<Operator>> {
    // SAFETY: as the caller vouches.
    unsafe { object(handle, "operator") }
}

/// The failure of an index without an input or output.
fn no_port(operator: &Operator, index: usize, is_output: bool) -> Failure {
    let what = if is_output { "output" } else { "input" };
    let (name, kind) = (&operator.name, &operator.kind);
    Failure::failed(format!("the operator {name} ({kind}) has no {what} {index}"))
}

/// The failure to link two operators.
fn link_failure(what: String, why: LinkError) -> Failure {
    Failure::failed(match why {
        LinkError::NoPort => format!("{what}: there is no such input or output"),
        LinkError::Cycle(names) => {
            format!("{what}: that would close the cycle {}", names.join(" -> "))
        }
    })
}

/// Declares what the table declares of the operator's type; false if there is no such type.
fn fill(operator: &Operator) -> bool {
    let Some(declaration) = declarations::of(&operator.kind) else { return false };
    for (names, is_output) in [(&declaration.inputs, false), (&declaration.outputs, true)] {
        for (name, presence) in names {
            operator.declare(name, is_output, *presence);
        }
    }
    operator.parts().ir_attrs.extend(declaration.attrs.iter().cloned());
    true
}

/// # Safety
/// The function takes the context.
unsafe fn show_ports(
    callback: CairnTextCallback,
    context: *mut c_void,
    declared: Vec<(String, Presence)>,
) {
    for (name, presence) in declared {
        // SAFETY: as the caller vouches.
        unsafe {
            show(callback, context, name.as_bytes());
            show(callback, context, presence.word().as_bytes());
        }
    }
}

/// The IR's name for the type of a value.
fn type_name(attr: &Attr) -> &'static str {
    match attr {
        Attr::Text(_) => "VT_STRING",
        Attr::Int(_) => "VT_INT",
        Attr::Float(_) => "VT_FLOAT",
        Attr::Flag(_) => "VT_BOOL",
        Attr::Bytes(_) | Attr::Expression(_) => "VT_BYTES",
        Attr::Desc(_) => "VT_TENSOR_DESC",
        Attr::Tensor(_) => "VT_TENSOR",
        Attr::Graph(_) => "VT_GRAPH",
        Attr::Named(..) => "VT_NAMED_ATTRS",
        Attr::Type(_) => "VT_DATA_TYPE",
        Attr::Texts(_) => "VT_LIST_STRING",
        Attr::Ints(_) => "VT_LIST_INT",
        Attr::Floats(_) => "VT_LIST_FLOAT",
        Attr::Flags(_) => "VT_LIST_BOOL",
        Attr::ByteLists(_) => "VT_LIST_BYTES",
        Attr::Descs(_) => "VT_LIST_TENSOR_DESC",
        Attr::Tensors(_) => "VT_LIST_TENSOR",
        Attr::Graphs(_) => "VT_LIST_GRAPH",
        Attr::NamedList(_) => "VT_LIST_NAMED_ATTRS",
        Attr::Types(_) => "VT_LIST_DATA_TYPE",
        Attr::IntLists(_) => "VT_LIST_LIST_INT",
        Attr::FloatLists(_) => "VT_LIST_LIST_FLOAT",
    }
}

plain! {
    /// Shows the graphs that the IR declares.
    fn CairnOperatorIrGraphs(
        kind: CairnText,
        context: *mut c_void,
        callback: Option<unsafe extern "C" fn(*mut c_void, CairnText, bool)>,
    ) {
        // SAFETY: the caller's text lives for the call.
        let graphs = declarations::of(&unsafe { text(kind) }).map(|one| one.graphs.as_slice());
        for (name, presence) in graphs.unwrap_or_default() {
            if let Some(callback) = callback {
                // SAFETY: the caller's function takes the context; the text is static.
                unsafe { callback(context, borrowed(name.as_bytes()), *presence == Presence::Dynamic) };
            }
        }
        Ok(())
    }

    /// Declares graphs of an operator's own.
    fn CairnOperatorAddSubgraph(op: *mut CairnOperator, name: CairnText) {
        // SAFETY: the caller's handle is live, and its text lives for the call.
        let (op, name) = unsafe { (operator(op)?, text(name)) };
        op.grow_subgraphs(&name, 0);
        Ok(())
    }

    /// Makes places for graphs of an operator's own.
    fn CairnOperatorGrowSubgraph(op: *mut CairnOperator, name: CairnText, count: usize) {
        // SAFETY: the caller's handle is live, and its text lives for the call.
        let (op, name) = unsafe { (operator(op)?, text(name)) };
        op.grow_subgraphs(&name, check_port_count(count)?);
        Ok(())
    }

    /// A new operator.
    fn CairnOperatorNew(name: CairnText, kind: CairnText) -> *mut CairnOperator, else std::ptr::null_mut(), {
        // SAFETY: the caller's texts live for the call.
        let (name, kind) = unsafe { (text(name), text(kind)) };
        Ok(owned(Operator::new(&name, &kind)))
    }

    /// One more owner.
    fn CairnOperatorRetain(op: *mut CairnOperator) -> *mut CairnOperator, else std::ptr::null_mut(), {
        // SAFETY: the caller's handle is live.
        Ok(owned(unsafe { operator(op) }?.clone()))
    }

    /// One owner less.
    fn CairnOperatorRelease(op: *mut CairnOperator) {
        // SAFETY: the caller gives its handle up.
        unsafe { release::<Arc<Operator>, _>(op) };
        Ok(())
    }

    /// The name.
    fn CairnOperatorName(op: *const CairnOperator, context: *mut c_void, callback: CairnTextCallback) {
        // SAFETY: the caller's handle is live, and its function takes the context.
        unsafe { show(callback, context, operator(op)?.name.as_bytes()) };
        Ok(())
    }

    /// The IR's name of the operator.
    fn CairnOperatorType(op: *const CairnOperator, context: *mut c_void, callback: CairnTextCallback) {
        // SAFETY: the caller's handle is live, and its function takes the context.
        unsafe { show(callback, context, operator(op)?.kind.as_bytes()) };
        Ok(())
    }

    /// Adds an input that the IR has.
    fn CairnOperatorAddInput(op: *mut CairnOperator, name: CairnText, kind: CairnInput) {
        // SAFETY: the caller's handle is live, and its text lives for the call.
        let (op, name) = unsafe { (operator(op)?, text(name)) };
        let presence = match kind {
            CAIRN_INPUT_DYNAMIC => Presence::Dynamic,
            CAIRN_INPUT_OPTIONAL => Presence::Optional,
            _ => Presence::Required,
        };
        op.declare(&name, false, presence);
        Ok(())
    }

    /// Adds an output that the IR has.
    fn CairnOperatorAddOutput(op: *mut CairnOperator, name: CairnText, is_dynamic: bool) {
        // SAFETY: the caller's handle is live, and its text lives for the call.
        let (op, name) = unsafe { (operator(op)?, text(name)) };
        op.declare(&name, true, if is_dynamic { Presence::Dynamic } else { Presence::Required });
        Ok(())
    }

    /// Adds an attribute that the IR has.
    fn CairnOperatorAddAttr(op: *mut CairnOperator, name: CairnText, kind: CairnText, value: *const CairnValue) {
        // SAFETY: the caller's handle is live, and what it passes lives for the call.
        let (op, name, kind, value) = unsafe {
            let value = value.as_ref().map(|value| attr(value)).transpose()?;
            (operator(op)?, text(name), text(kind), value)
        };
        op.parts().ir_attrs.push((name, kind, value));
        Ok(())
    }

    /// Fills an operator from the operator table.
    fn CairnOperatorFill(op: *mut CairnOperator) -> bool, else false, {
        // SAFETY: the caller's handle is live.
        Ok(fill(unsafe { operator(op) }?))
    }

    /// Whether there is such an operator.
    fn CairnOperatorExists(kind: CairnText) -> bool, else false, {
        // SAFETY: the caller's text lives for the call.
        Ok(declarations::of(&unsafe { text(kind) }).is_some())
    }

    /// All operators there are, by name.
    fn CairnOperatorTypes(context: *mut c_void, callback: CairnTextCallback) {
        for name in declarations::names() {
            // SAFETY: the caller's function takes the context.
            unsafe { show(callback, context, name.as_bytes()) };
        }
        Ok(())
    }

    /// The number of inputs.
    fn CairnOperatorInputs(op: *const CairnOperator) -> usize, else 0, {
        // SAFETY: the caller's handle is live.
        Ok(unsafe { operator(op) }?.parts().inputs.len())
    }

    /// The number of outputs.
    fn CairnOperatorOutputs(op: *const CairnOperator) -> usize, else 0, {
        // SAFETY: the caller's handle is live.
        Ok(unsafe { operator(op) }?.parts().outputs.len())
    }

    /// How many ports a dynamic input or output has.
    fn CairnOperatorDynamicCount(op: *const CairnOperator, name: CairnText, is_output: bool) -> i64, else -1, {
        // SAFETY: the caller's handle is live, and its text lives for the call.
        let (op, name) = unsafe { (operator(op)?, text(name)) };
        let parts = op.parts();
        let counts = if is_output { &parts.dynamic_outputs } else { &parts.dynamic_inputs };
        Ok(counts.get(&name).map_or(-1, |count| *count as i64))
    }

    /// The index of a name.
    fn CairnOperatorPortIndex(op: *const CairnOperator, name: CairnText, is_output: bool) -> i64, else -1, {
        // SAFETY: the caller's handle is live, and its text lives for the call.
        let (op, name) = unsafe { (operator(op)?, text(name)) };
        let parts = op.parts();
        let ports = if is_output { &parts.outputs } else { &parts.inputs };
        Ok(ports.iter().position(|port| port.desc.name == name).map_or(-1, |at| at as i64))
    }

    /// The name of a port.
    fn CairnOperatorPortName(op: *const CairnOperator, index: usize, is_output: bool, context: *mut c_void, callback: CairnTextCallback) -> bool, else false, {
        // SAFETY: the caller's handle is live.
        let op = unsafe { operator(op) }?;
        let name = {
            let parts = op.parts();
            let ports = if is_output { &parts.outputs } else { &parts.inputs };
            ports.get(index).map(|port| port.desc.name.clone())
        };
        let Some(name) = name else { return Ok(false) };
        // SAFETY: the caller's function takes the context.
        unsafe { show(callback, context, name.as_bytes()) };
        Ok(true)
    }

    /// What feeds an input.
    fn CairnOperatorSource(op: *const CairnOperator, input: usize, output: *mut usize) -> *mut CairnOperator, else std::ptr::null_mut(), {
        // SAFETY: the caller's handle is live.
        let Some((from, at)) = unsafe { operator(op) }?.source(input) else {
            return Ok(std::ptr::null_mut());
        };
        if !output.is_null() {
            // SAFETY: the caller passes null or a pointer to a number.
            unsafe { output.write(at) };
        }
        Ok(owned(from))
    }

    /// Shows a description.
    fn CairnOperatorDesc(op: *const CairnOperator, index: usize, is_output: bool, context: *mut c_void, callback: CairnDescCallback) -> bool, else false, {
        // SAFETY: the caller's handle is live.
        let op = unsafe { operator(op) }?;
        let desc = {
            let parts = op.parts();
            let ports = if is_output { &parts.outputs } else { &parts.inputs };
            ports.get(index).map(|port| port.desc.clone())
        };
        let Some(desc) = desc else { return Ok(false) };
        // SAFETY: the caller's function takes the context.
        unsafe { show_desc(callback, context, &desc) };
        Ok(true)
    }

    /// Shows an attribute.
    fn CairnOperatorAttr(op: *const CairnOperator, name: CairnText, context: *mut c_void, callback: CairnValueCallback) -> bool, else false, {
        // SAFETY: the caller's handle is live, and its text lives for the call.
        let (op, name) = unsafe { (operator(op)?, text(name)) };
        let Some(value) = op.attr(&name) else { return Ok(false) };
        // SAFETY: the caller's function takes the context.
        unsafe { show_attr(callback, context, &value) };
        Ok(true)
    }

    /// Shows an attribute of an input or output.
    fn CairnOperatorPortAttr(op: *const CairnOperator, index: usize, is_output: bool, name: CairnText, context: *mut c_void, callback: CairnValueCallback) -> bool, else false, {
        // SAFETY: the caller's handle is live, and its text lives for the call.
        let (op, name) = unsafe { (operator(op)?, text(name)) };
        let found = {
            let parts = op.parts();
            let ports = if is_output { &parts.outputs } else { &parts.inputs };
            ports.get(index).and_then(|port| port.desc.attrs.get(&name).cloned())
        };
        let Some(value) = found else { return Ok(false) };
        // SAFETY: the caller's function takes the context.
        unsafe { show_attr(callback, context, &value) };
        Ok(true)
    }

    /// Names and types of all attributes.
    fn CairnOperatorAttrs(op: *const CairnOperator, context: *mut c_void, callback: CairnTextCallback) {
        // SAFETY: the caller's handle is live.
        let op = unsafe { operator(op) }?;
        let mut pairs: Vec<(String, String)> = {
            let parts = op.parts();
            let ir = parts.ir_attrs.iter().map(|(name, kind, _)| (name.clone(), kind.clone()));
            ir.collect()
        };
        let set: Vec<(String, String)> =
            op.parts().attrs.iter().map(|(name, value)| (name.clone(), type_name(value).into())).collect();
        pairs.extend(set.into_iter().filter(|(name, _)| !pairs.iter().any(|(one, _)| one == name)).collect::<Vec<_>>());
        for (name, kind) in pairs {
            // SAFETY: the caller's function takes the context.
            unsafe {
                show(callback, context, name.as_bytes());
                show(callback, context, kind.as_bytes());
            }
        }
        Ok(())
    }

    /// Names of the IR's inputs, and whether each must be there.
    fn CairnOperatorIrInputs(op: *const CairnOperator, context: *mut c_void, callback: CairnTextCallback) {
        // SAFETY: the caller's handle is live.
        let declared = unsafe { operator(op) }?.parts().ir_inputs.clone();
        // SAFETY: the caller's function takes the context.
        unsafe { show_ports(callback, context, declared) };
        Ok(())
    }

    /// The same of its outputs.
    fn CairnOperatorIrOutputs(op: *const CairnOperator, context: *mut c_void, callback: CairnTextCallback) {
        // SAFETY: the caller's handle is live.
        let declared = unsafe { operator(op) }?.parts().ir_outputs.clone();
        // SAFETY: the caller's function takes the context.
        unsafe { show_ports(callback, context, declared) };
        Ok(())
    }

    /// Names and types of the IR's attributes.
    fn CairnOperatorIrAttrs(op: *const CairnOperator, context: *mut c_void, callback: CairnTextCallback) {
        // SAFETY: the caller's handle is live.
        let op = unsafe { operator(op) }?;
        let pairs: Vec<(String, String)> =
            op.parts().ir_attrs.iter().map(|(name, kind, _)| (name.clone(), kind.clone())).collect();
        for (name, kind) in pairs {
            // SAFETY: the caller's function takes the context.
            unsafe {
                show(callback, context, name.as_bytes());
                show(callback, context, kind.as_bytes());
            }
        }
        Ok(())
    }
}

status! {
    /// More ports of a dynamic input.
    fn CairnOperatorGrowInput(op: *mut CairnOperator, name: CairnText, count: usize) {
        // SAFETY: the caller's handle is live, and its text lives for the call.
        let (op, name) = unsafe { (operator(op)?, text(name)) };
        op.grow(&name, false, check_port_count(count)?);
        Ok(())
    }

    /// More ports of a dynamic output.
    fn CairnOperatorGrowOutput(op: *mut CairnOperator, name: CairnText, count: usize) {
        // SAFETY: the caller's handle is live, and its text lives for the call.
        let (op, name) = unsafe { (operator(op)?, text(name)) };
        op.grow(&name, true, check_port_count(count)?);
        Ok(())
    }

    /// Feeds an input.
    fn CairnOperatorLink(op: *mut CairnOperator, input: usize, from: *mut CairnOperator, output: usize) {
        // SAFETY: the caller's handles are live.
        let (op, from) = unsafe { (operator(op)?, operator(from)?) };
        op.link(input, from, output).map_err(|why| {
            let text = format!(
                "output {output} of {} ({}) cannot feed input {input} of {} ({})",
                from.name, from.kind, op.name, op.kind
            );
            link_failure(text, why)
        })
    }

    /// Runs one after the other.
    fn CairnOperatorFollow(op: *mut CairnOperator, before: *mut CairnOperator) {
        // SAFETY: the caller's handles are live.
        let (op, before) = unsafe { (operator(op)?, operator(before)?) };
        op.follow(before).map_err(|why| {
            let text = format!(
                "{} ({}) cannot run after {} ({})",
                op.name, op.kind, before.name, before.kind
            );
            link_failure(text, why)
        })
    }

    /// Changes a description; the name stays.
    fn CairnOperatorSetDesc(op: *mut CairnOperator, index: usize, is_output: bool, from: *const CairnDesc) {
        // SAFETY: the caller's handle is live, and what it passes lives for the call.
        let (op, from) = unsafe { (operator(op)?, from.as_ref()) };
        let from = from.ok_or_else(|| Failure::invalid("the description is null"))?;
        // SAFETY: as above.
        let new = unsafe { desc(from) }?;
        let mut parts = op.parts();
        let ports = if is_output { &mut parts.outputs } else { &mut parts.inputs };
        match ports.get_mut(index) {
            Some(port) => {
                port.desc.copy_type_and_shape_from(new);
                Ok(())
            }
            None => {
                drop(parts);
                Err(no_port(op, index, is_output))
            }
        }
    }

    /// Sets an attribute.
    fn CairnOperatorSetAttr(op: *mut CairnOperator, name: CairnText, value: *const CairnValue) {
        // SAFETY: the caller's handle is live, and what it passes lives for the call.
        let (op, name, value) = unsafe { (operator(op)?, text(name), value.as_ref()) };
        let value = value.ok_or_else(|| Failure::invalid(format!("the value of {name} is null")))?;
        // SAFETY: as above.
        let value = unsafe { attr(value) }?;
        if let (true, Attr::Tensor(constant)) = (name == "value", &value)
            && let Some(port) = op.parts().outputs.first_mut()
        {
            port.desc.copy_type_and_shape_from(constant.desc.clone());
        }
        op.parts().attrs.insert(name, value);
        Ok(())
    }

    /// Sets an attribute of an input or output.
    fn CairnOperatorSetPortAttr(op: *mut CairnOperator, index: usize, is_output: bool, name: CairnText, value: *const CairnValue) {
        // SAFETY: the caller's handle is live, and what it passes lives for the call.
        let (op, name, value) = unsafe { (operator(op)?, text(name), value.as_ref()) };
        let value = value.ok_or_else(|| Failure::invalid(format!("the value of {name} is null")))?;
        // SAFETY: as above.
        let value = unsafe { attr(value) }?;
        let mut parts = op.parts();
        let ports = if is_output { &mut parts.outputs } else { &mut parts.inputs };
        let set = ports.get_mut(index).map(|port| port.desc.attrs.insert(name, value));
        drop(parts);
        set.map(drop).ok_or_else(|| no_port(op, index, is_output))
    }

    /// Gives an operator a graph of its own.
    fn CairnOperatorSetSubgraph(op: *mut CairnOperator, name: CairnText, index: usize, graph: *const CairnGraph) {
        // SAFETY: the caller's handles are live, and its text lives for the call.
        let (op, name, graph) = unsafe { (operator(op)?, text(name), super::graph::graph(graph)?.ir()) };
        match op.set_subgraph(&name, index, graph) {
            true => Ok(()),
            false => Err(Failure::invalid(format!(
                "the operator {} ({}) has no graph '{name}' with the number {index}",
                op.name, op.kind
            ))),
        }
    }

    /// Infers descriptions of outputs from those of inputs.
    fn CairnOperatorInfer(op: *mut CairnOperator) {
        // SAFETY: the caller's handle is live.
        let op = unsafe { operator(op) }?;
        let descs = infer_operator(&op.node())?;
        let mut parts = op.parts();
        for (port, desc) in parts.outputs.iter_mut().zip(descs) {
            let dtype = if desc.dtype == DType::Undefined { port.desc.dtype } else { desc.dtype };
            port.desc.copy_type_and_shape_from(Desc { dtype, ..desc });
        }
        Ok(())
    }
}

/// Fails for more ports than any operator has.
fn check_port_count(count: usize) -> Result<usize> {
    match count <= 1 << 20 {
        true => Ok(count),
        false => Err(Failure::invalid(format!(
            "{count} inputs or outputs are more than an operator has"
        ))),
    }
}
