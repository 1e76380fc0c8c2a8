//! Constants outside of the graph: the second part of a file. A constant keeps its description, and says where its
//! bytes are.

use crate::ir::{Attr, Graph};
use std::sync::Arc;

/// The attributes of a constant's description that say where its bytes are. Tools that show models know the first.
const OFFSET: &str = "merged_offset";
const BYTES: &str = "_cairn_weight_bytes";

/// Constants begin on multiples of this.
pub const ALIGN: usize = 64;

/// Constants below this size stay in the graph, where tools show them.
pub const MIN_BYTES: usize = 1024;

/// Takes the bytes of large constants out of a graph.
pub fn take_out(graph: &mut Graph) -> Vec<u8> {
    let mut weights = Vec::new();
    graph.each_constant(&mut |constant| {
        if constant.bytes.len() < MIN_BYTES {
            return;
        }
        weights.resize(weights.len().next_multiple_of(ALIGN), 0);
        let (offset, bytes) = (weights.len() as i64, constant.bytes.len() as i64);
        weights.extend_from_slice(&constant.bytes);
        constant.bytes = Arc::default();
        constant.desc.attrs.insert(OFFSET.to_owned(), Attr::Int(offset));
        constant.desc.attrs.insert(BYTES.to_owned(), Attr::Int(bytes));
    });
    weights
}

/// Gives the constants of a graph their bytes back.
pub fn put_back(graph: &mut Graph, weights: &[u8]) -> Result<(), String> {
    let mut is_inside = true;
    graph.each_constant(&mut |constant| {
        let attrs = &mut constant.desc.attrs;
        let (Some(bytes), Some(offset)) = (attrs.remove(BYTES), attrs.remove(OFFSET)) else {
            return;
        };
        let range = offset.int().zip(bytes.int()).and_then(|(offset, bytes)| {
            let start = usize::try_from(offset).ok()?;
            weights.get(start..start.checked_add(usize::try_from(bytes).ok()?)?)
        });
        match range {
            Some(bytes) => constant.bytes = bytes.into(),
            None => is_inside = false,
        }
    });
    match is_inside {
        true => Ok(()),
        false => {
            Err(format!("a constant lies outside of the {} bytes of its weights", weights.len()))
        }
    }
}
