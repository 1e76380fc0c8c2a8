//! Nodes that can be computed while a graph is compiled.

use super::operation::{KnownTensor, Operation};
use crate::failure::{Failure, Result};
use bytes::Bytes;
use cairn_tensor::Layout;
use std::cell::Cell;

/// Results up to this size are always computed when the graph is compiled.
const FOLD_LIMIT: usize = 64 << 10;

/// Results up to this size do not count: they are smaller than what is kept of their node.
const UNCOUNTED: usize = 1 << 10;

/// How many bytes of results a graph may keep. Beyond that they are computed when it is loaded, or in each run: else a
/// short graph that doubles a tensor again and again would take all memory.
#[derive(Debug)]
pub struct FoldBudget(Cell<usize>);

impl FoldBudget {
    /// That of a graph with so many bytes of constants.
    pub fn new(constants: usize) -> FoldBudget {
        FoldBudget(Cell::new(constants.saturating_mul(4).saturating_add(1 << 20)))
    }

    fn take(&self, bytes: usize) -> bool {
        let left = self.0.get().checked_sub(if bytes <= UNCOUNTED { 0 } else { bytes });
        left.inspect(|left| self.0.set(*left)).is_some()
    }
}

/// Whether there are inputs, and the bytes of all of them are known.
pub fn has_known_values(inputs: &[Option<KnownTensor>]) -> bool {
    let mut fed = inputs.iter().flatten().peekable();
    fed.peek().is_some() && fed.all(|tensor| tensor.bytes.is_some())
}

/// Computes a node whose inputs are known, or whose outputs follow from sizes, unless the results would be large: they
/// may be as large as what they are computed from.
pub fn fold(
    operation: &Operation,
    inputs: &[Option<KnownTensor>],
    outputs: &[Layout],
    budget: &FoldBudget,
) -> Result<Option<Vec<Bytes>>> {
    let marks = operation.row.marks;
    let read: usize = inputs.iter().flatten().map(|one| one.layout.bytes()).sum();
    let written: usize = outputs.iter().map(Layout::bytes).sum();
    let from_values = has_known_values(inputs) && written <= FOLD_LIMIT.max(read);
    let from_shapes = marks.from_shapes && written <= FOLD_LIMIT;
    if marks.runs_each_time() || !(from_values || from_shapes) || !budget.take(written) {
        return Ok(None);
    }
    operation.compute(inputs, outputs).map_err(|text| {
        Failure::failed(format!("the node {} ({}): {text}", operation.name, operation.row.name))
    })
}
