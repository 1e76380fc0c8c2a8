//! Constants outside of the graph: the second part of a file. A constant keeps its description, and says where its
//! bytes are.

use super::container::{Container, WEIGHTS};
use super::pieces::Pieces;
use crate::ir::{Attr, Graph};

/// The attributes of a constant's description that say where its bytes are. Tools that show models know the first.
const OFFSET: &str = "merged_offset";
const BYTES: &str = "_cairn_weight_bytes";

/// Constants begin on multiples of this.
pub const ALIGN: usize = 64;

/// Constants below this size stay in the graph, where tools show them.
pub const MIN_BYTES: usize = 1024;

/// Takes the bytes of large constants out of a graph.
pub fn take_out(graph: &mut Graph) -> Pieces {
    let mut weights = Pieces::default();
    graph.each_constant(&mut |constant| {
        if constant.bytes.len() < MIN_BYTES {
            return;
        }
        weights.align(ALIGN);
        let (offset, bytes) = (weights.length() as i64, constant.bytes.len() as i64);
        weights.push(std::mem::take(&mut constant.bytes));
        constant.desc.attrs.insert(OFFSET.to_owned(), Attr::Int(offset));
        constant.desc.attrs.insert(BYTES.to_owned(), Attr::Int(bytes));
    });
    weights
}

/// Gives the constants of a graph their bytes back. No two of them share bytes, so that the constants of a file take no more
/// memory than its weights.
pub fn put_back(graph: &mut Graph, container: &Container<'_>) -> Result<(), String> {
    let mut left = container.range(WEIGHTS).unwrap_or_default().len();
    let mut result = Ok(());
    graph.each_constant(&mut |constant| {
        let attrs = &mut constant.desc.attrs;
        let (Some(bytes), Some(offset)) = (attrs.remove(BYTES), attrs.remove(OFFSET)) else {
            return;
        };
        let range = offset.int().zip(bytes.int()).and_then(|(offset, bytes)| {
            let (start, bytes) = (usize::try_from(offset).ok()?, usize::try_from(bytes).ok()?);
            left = left.checked_sub(bytes)?;
            Some(start..start.checked_add(bytes)?)
        });
        match range.and_then(|range| container.weights(range)) {
            Some(Ok(bytes)) => constant.bytes = bytes,
            Some(Err(text)) => result = Err(text),
            None => result = Err("a constant lies outside of the weights of its file".to_owned()),
        }
    });
    result
}
