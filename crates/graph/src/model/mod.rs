//! Models: graphs as bytes, in the format of the graph engine (`proto/ge_ir.proto`).
//!
//! What a graph has no place for is not kept: symbolic shapes, results of a compilation (streams, offsets,
//! workspaces), and the lists of names that every node carries, which the
//! descriptions repeat.

mod attr;
mod desc;
mod edge;
mod graph;
mod json;
mod number;
mod outputs;
#[cfg(test)]
mod tests;
mod text;
mod weight;
mod wire;

use crate::ir::Graph;
use bytes::Bytes;
use prost::Message;

pub use json::to_json;
pub(crate) use outputs::CONVERTED;
pub use outputs::{OutputType, cast_outputs, choose_outputs};
pub use text::to_text;

/// Reads a model: the first graph in it.
///
/// Every node must have a name of its own, and every input an output that feeds it; cycles are accepted. The text
/// of an error names graph, node and value. Whatever the bytes are, nesting is bounded, and the memory in use
/// at any time is at most a hundred times their length and two MiB; real models take less than ten times it.
pub fn read(bytes: impl Into<Bytes>) -> Result<Graph, String> {
    let bytes = bytes.into();
    if bytes.is_empty() {
        return Err("The model is empty.".to_owned());
    }
    if i32::try_from(bytes.len()).is_err() {
        return Err(format!(
            "The model has {} bytes; the format ends at {}. Keep large constants outside of it.",
            bytes.len(),
            i32::MAX
        ));
    }
    weight::check(&bytes)?;
    let model = wire::ModelDef::decode(bytes)
        .map_err(|error| format!("The bytes are no model of the graph engine: {error}."))?;
    let mut graphs = model.graph.into_iter();
    let Some(root) = graphs.next() else {
        return Err(format!("The model '{}' has no graph.", model.name));
    };
    let mut library: graph::Library = graphs.map(|one| (one.name.clone(), one)).collect();
    let name = root.name.clone();
    graph::read_with(root, &mut library, 0)
        .map_err(|error| format!("The model's graph '{name}': {error}."))
}

/// Writes a model: the graph, and those of its nodes after it.
///
/// Reading it gives the same graph, with these exceptions: indices of removed nodes are not kept;
/// outputs that were named without a node become a node of the type `NetOutput`; where nodes share a name, all
/// but the first get another; an edge from a node that is not there stays in the bytes and cannot be read.
pub fn write(graph: &Graph) -> Vec<u8> {
    use prost::encoding::{WireType, encode_key, encode_varint};
    let mut graphs = Vec::new();
    let root = graph::encode(graph, &mut graphs);
    let head = wire::ModelDef { name: graph.name.clone(), graph: Vec::new() };
    let others = wire::ModelDef { name: String::new(), graph: graphs };
    let mut bytes = Vec::with_capacity(root.len() + head.encoded_len() + others.encoded_len() + 16);
    bytes.extend(head.encode_to_vec());
    encode_key(7, WireType::LengthDelimited, &mut bytes);
    encode_varint(root.len() as u64, &mut bytes);
    bytes.extend(root);
    bytes.extend(others.encode_to_vec());
    bytes
}

/// Appends a field that readers skip, so that what follows `start` bytes, the last of which are the model's, begins on a
/// multiple of `align`.
pub(crate) fn pad(model: &mut Vec<u8>, start: usize, align: usize) {
    /// The number 2047 with a length, which the format has no field for.
    const KEY: [u8; 2] = [0xfa, 0x7f];
    let least = KEY.len() + 1;
    let length = (start + least).next_multiple_of(align) - start - least;
    model.extend(KEY);
    model.push(length as u8);
    model.resize(model.len() + length, 0);
}
