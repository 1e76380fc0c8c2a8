//! Operators that a model uses and nobody here converts, all at once.

use super::control;
use super::graph::{Functions, domain};
use super::ops;
use super::wire::{GraphProto, NodeProto};
use std::collections::BTreeMap;

/// How many nodes of one operator are named.
const MAX_NAMED: usize = 5;

/// Fails if a model uses operators that are not supported: the text names each, with its nodes.
pub fn check(graph: &GraphProto, functions: &Functions<'_>) -> Result<(), String> {
    let mut missing = BTreeMap::new();
    collect(&graph.node, functions, &mut missing);
    for function in functions.values() {
        collect(&function.node, functions, &mut missing);
    }
    if missing.is_empty() {
        return Ok(());
    }
    let all: Vec<String> = (missing.iter())
        .map(|(operator, nodes)| {
            let shown: Vec<&str> = nodes.iter().take(MAX_NAMED).map(String::as_str).collect();
            let more = match nodes.len().saturating_sub(MAX_NAMED) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            format!("{operator} (nodes {}{more})", shown.join(", "))
        })
        .collect();
    Err(format!(
        "The ONNX model uses operators that are not supported: {}. docs/onnx.md says what is not read.",
        all.join("; ")
    ))
}

fn collect(
    nodes: &[NodeProto],
    functions: &Functions<'_>,
    missing: &mut BTreeMap<String, Vec<String>>,
) {
    for node in nodes {
        let operator_domain = domain(&node.domain);
        let is_function = functions.contains_key(&(
            operator_domain,
            node.op_type.as_str(),
            node.overload.as_str(),
        ));
        let is_control =
            operator_domain.is_empty() && control::OPERATORS.contains(&node.op_type.as_str());
        if !is_function && !is_control && ops::find(operator_domain, &node.op_type).is_none() {
            let name = match operator_domain {
                "" => node.op_type.clone(),
                operator_domain => format!("{operator_domain}::{}", node.op_type),
            };
            let label = match node.name.as_str() {
                "" => node.output.first().map_or("", String::as_str),
                name => name,
            };
            missing.entry(name).or_default().push(format!("'{label}'"));
        }
        for attribute in &node.attribute {
            if let Some(graph) = &attribute.g {
                collect(&graph.node, functions, missing);
            }
        }
    }
}
