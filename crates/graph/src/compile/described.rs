//! A graph with what its compilation found out about every tensor.

use super::prepare::{Prepared, live};
use crate::failure::Result;
use crate::ir::{DATA, Desc, Graph, NET_OUTPUT, NodeId};

/// The graph that was prepared: its inputs and the nodes that its outputs and targets need, with the types and
/// sizes that were inferred.
pub fn described(graph: &Graph, prepared: &Prepared) -> Result<Graph> {
    let live = live(graph)?;
    let is_input = |kind: &str| DATA.contains(&kind);
    let dead: Vec<NodeId> = (graph.nodes())
        .filter(|(id, node)| !live.contains(id) && !is_input(&node.kind) && node.kind != NET_OUTPUT)
        .map(|(id, _)| id)
        .collect();
    let mut described = graph.clone();
    dead.into_iter().for_each(|id| drop(described.remove(id)));
    for (source, value) in &prepared.value_of {
        let Some(node) = described.node_mut(source.node) else { continue };
        if node.output_descs.len() <= source.output {
            node.output_descs.resize_with(source.output + 1, Desc::default);
        }
        copy_inferred(&mut node.output_descs[source.output], &prepared.values[*value].desc);
    }
    let ids: Vec<NodeId> = described.nodes().map(|(id, _)| id).collect();
    for id in ids {
        let node = described.node_mut(id).expect("a node of the graph");
        if is_input(&node.kind) {
            let desc = node.output_descs.first().cloned().unwrap_or_default();
            node.input_descs.iter_mut().for_each(|input| copy_inferred(input, &desc));
        }
        for (at, (source, desc)) in node.inputs.iter().zip(&mut node.input_descs).enumerate() {
            let value = source.as_ref().and_then(|source| prepared.value_of.get(source));
            let Some(value) = value else { continue };
            match prepared.outputs.get(at).filter(|_| node.kind == NET_OUTPUT) {
                Some(output) => copy_inferred(desc, &output.desc),
                None => copy_inferred(desc, &prepared.values[*value].desc),
            }
        }
    }
    Ok(described)
}

/// Copies the type and the sizes that were inferred.
fn copy_inferred(desc: &mut Desc, from: &Desc) {
    desc.dtype = from.dtype;
    desc.dims.clone_from(&from.dims);
    desc.origin_dims.clone_from(&from.dims);
}
