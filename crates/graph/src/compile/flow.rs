//! A dynamic graph: what runs in which order, and how long each value is needed. Sizes come at run time.

use super::prepare::{Prepared, ValueId};
use super::program::{ALIGN, is_view};
use std::collections::HashMap;
use std::sync::Arc;

/// A dynamic graph, compiled.
pub struct Flow {
    /// The graph.
    pub prepared: Prepared,
    /// The value whose memory a value is: itself, but for views.
    pub roots: Vec<ValueId>,
    /// The values whose memory is not needed behind a node.
    pub ends: Vec<Vec<ValueId>>,
    /// Which output a value's memory is made for.
    pub made_for: HashMap<ValueId, usize>,
    /// The constants that may be needed on the device, and where they go in const memory.
    pub constants: Vec<(u64, Arc<[u8]>)>,
    /// Where the constants of each value begin.
    pub constant_at: HashMap<ValueId, u64>,
    /// Bytes of const memory.
    pub const_bytes: u64,
}

/// Compiles a graph some of whose sizes are unknown.
pub fn flow(prepared: Prepared) -> Flow {
    let mut roots: Vec<ValueId> = (0..prepared.values.len()).collect();
    for work in prepared.works.iter().filter(|work| is_view(work, &prepared)) {
        roots[work.outputs[0]] = roots[work.inputs[0].expect("a view's input")];
    }
    let mut last: HashMap<ValueId, usize> = HashMap::new();
    for (at, work) in prepared.works.iter().enumerate() {
        for value in work.inputs.iter().flatten().chain(&work.outputs) {
            last.insert(roots[*value], at);
        }
    }
    let inputs: Vec<ValueId> = prepared.inputs.iter().map(|input| input.value).collect();
    let mut made_for = HashMap::new();
    for (at, output) in prepared.outputs.iter().enumerate() {
        let root = roots[output.value];
        last.remove(&root);
        if prepared.values[root].bytes.is_none() && !inputs.contains(&root) {
            made_for.entry(root).or_insert(at);
        }
    }
    let mut ends = vec![Vec::new(); prepared.works.len()];
    for (value, at) in last {
        ends[at].push(value);
    }
    ends.iter_mut().for_each(|values| values.sort_unstable());
    let (mut constants, mut constant_at, mut const_bytes) = (Vec::new(), HashMap::new(), 0);
    let mut known: HashMap<Arc<[u8]>, u64> = HashMap::new();
    let read = prepared.works.iter().flat_map(|work| work.inputs.iter().flatten().copied());
    for value in read.chain(prepared.outputs.iter().map(|output| output.value)) {
        let root = roots[value];
        let Some(bytes) = prepared.values[root].bytes.clone() else { continue };
        let start = *known.entry(bytes.clone()).or_insert_with(|| {
            let start = const_bytes;
            const_bytes = (start + bytes.len() as u64).next_multiple_of(ALIGN);
            constants.push((start, bytes));
            start
        });
        constant_at.insert(root, start);
    }
    Flow { prepared, roots, ends, made_for, constants, constant_at, const_bytes }
}
