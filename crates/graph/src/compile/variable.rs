//! `Variable` nodes: which variable of the session they are, and what it is.

use crate::failure::{Failure, Result};
use crate::ir::{Attr, Desc, Graph, Node};

/// The type of nodes that stand for a variable of the session.
const VARIABLE: &str = "Variable";

/// Whether a node stands for a variable.
pub fn is_variable(node: &Node) -> bool {
    node.kind == VARIABLE
}

/// The variable's name in the session: the attribute `shared_name`, or else the node's own name.
pub fn name(node: &Node) -> String {
    match node.attrs.get("shared_name") {
        Some(Attr::Text(name) | Attr::Bytes(name)) if !name.is_empty() => {
            String::from_utf8_lossy(name).into_owned()
        }
        _ => node.name.clone(),
    }
}

/// What the node says of its variable: its output, or its input where only that says anything.
pub fn desc(node: &Node) -> Result<Desc> {
    let has_sizes = |desc: &&Desc| !desc.dims.is_empty() && desc.has_rank();
    let output = node.output_descs.first();
    let desc = output.filter(has_sizes).or(node.input_descs.first().filter(has_sizes)).or(output);
    let desc = desc.cloned().unwrap_or_default();
    match desc.layout() {
        Some(_) => Ok(Desc { name: String::new(), ..desc }),
        None => Err(Failure::failed(format!(
            "the variable {} is {desc}: type and sizes of a variable are known (update_output_desc_y)",
            node.name
        ))),
    }
}

/// The first variable that a graph names.
pub fn first_variable(graph: &Graph) -> Option<String> {
    graph.nodes().find(|(_, node)| is_variable(node)).map(|(_, node)| name(node))
}
