//! A dynamic graph: what runs in which order, and how long each value is needed. Sizes come at run time.

use super::constants::{ConstantLayout, Constants};
use super::control::ControlledGraph;
use super::prepare::{Prepared, ValueId, Work};
use crate::run::dynamic::{HOST_LIMIT, Plans};
use bytes::Bytes;
use std::collections::{BTreeMap, HashMap};

/// A dynamic graph, compiled.
pub struct Flow {
    /// The graph.
    pub prepared: Prepared,
    /// The value whose memory each value uses: itself, but for views and for what is written in place.
    pub roots: Vec<ValueId>,
    /// The values whose memory is not needed after a node.
    pub ends: Vec<Vec<ValueId>>,
    /// Where each value comes from; only those of roots are read.
    pub origins: Vec<Origin>,
    /// The constants that may be needed on the device, and where they go in const memory.
    pub constants: Constants,
    /// Bytes of const memory.
    pub const_bytes: u64,
    /// The graphs of each node that has graphs of its own, by the node's index.
    pub branches: BTreeMap<usize, Vec<Branch>>,
}

/// A graph that a node runs.
pub struct Branch {
    /// The graph.
    pub flow: Flow,
    /// What was planned so far.
    pub plans: Plans,
    /// For each of its inputs, which of the node's inputs it is.
    pub feeds: Vec<usize>,
}

impl Flow {
    /// Whether some nodes are operators that the user registered.
    pub fn has_custom_operators(&self) -> bool {
        let mut branches = self.branches.values().flatten();
        self.prepared.work_nodes.iter().any(|work| matches!(work.work, Work::Custom(_)))
            || branches.any(|branch| branch.flow.has_custom_operators())
    }
}

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A node makes it.
    Computed,
    /// A node makes it, in the memory of this output.
    ComputedFor(usize),
    /// It is this input of the graph.
    Input(usize),
    /// It lies in const memory, from this byte on.
    Constant(u64),
}

/// Compiles a graph some of whose sizes are unknown. Constants go where `layout` has room.
pub fn flow(mut prepared: Prepared, layout: &mut ConstantLayout) -> Flow {
    let mut constants = Constants::new();
    let mut branches = BTreeMap::new();
    for (at, work) in prepared.work_nodes.iter_mut().enumerate() {
        if let Work::Control(control) = &mut work.work {
            let graphs = std::mem::take(&mut control.graphs).into_iter();
            let graphs = graphs.map(|ControlledGraph { prepared, feeds }| {
                let mut flow = flow(prepared, layout);
                constants.append(&mut flow.constants);
                Branch { flow, plans: Plans::default(), feeds }
            });
            branches.insert(at, graphs.collect());
        }
    }
    let mut roots: Vec<ValueId> = (0..prepared.values.len()).collect();
    for work in &prepared.work_nodes {
        let viewed = work.inputs.first().copied().flatten().filter(|_| work.is_view);
        for (output, input) in
            viewed.map(|input| (0, input)).into_iter().chain(work.in_place_outputs())
        {
            roots[work.outputs[output]] = roots[input];
        }
    }
    let mut last_use: HashMap<ValueId, usize> = HashMap::new();
    for (at, work) in prepared.work_nodes.iter().enumerate() {
        for value in work.inputs.iter().flatten().chain(&work.outputs) {
            last_use.insert(roots[*value], at);
        }
    }
    let mut origins = vec![Origin::Computed; prepared.values.len()];
    for (at, input) in prepared.inputs.iter().enumerate() {
        origins[input.value] = Origin::Input(at);
    }
    for (at, output) in prepared.outputs.iter().enumerate() {
        let root = roots[output.value];
        last_use.remove(&root);
        if prepared.values[root].bytes.is_none() && origins[root] == Origin::Computed {
            origins[root] = Origin::ComputedFor(at);
        }
    }
    let mut ends = vec![Vec::new(); prepared.work_nodes.len()];
    for (value, at) in last_use {
        ends[at].push(value);
    }
    ends.iter_mut().for_each(|values| values.sort_unstable());
    let values_read =
        prepared.work_nodes.iter().flat_map(|work| work.inputs.iter().flatten().copied());
    for value in values_read.chain(prepared.outputs.iter().map(|output| output.value)) {
        let root = roots[value];
        if let Some(bytes) = &prepared.values[root].bytes {
            origins[root] = Origin::Constant(layout.place(bytes, &mut constants));
        }
    }
    keep_needed_bytes(&mut prepared, &roots);
    let const_bytes = layout.bytes();
    Flow { prepared, roots, ends, origins, constants, const_bytes, branches }
}

/// Keeps copies of the constants that runs look at on the host: small ones, and those whose values a node needs before it
/// runs. The others are on the device alone, once they are loaded.
fn keep_needed_bytes(prepared: &mut Prepared, roots: &[ValueId]) {
    let mut is_needed = vec![false; roots.len()];
    for work in &prepared.work_nodes {
        let count = work.inputs.len();
        for (at, value) in work.inputs.iter().enumerate() {
            let needs = match &work.work {
                Work::Operation(operation) => operation.row.needs_value_of(at, count),
                Work::Custom(_) => true,
                Work::Control(_) | Work::Jump(_) => false,
            };
            if let (Some(value), true) = (value, needs) {
                is_needed[roots[*value]] = true;
            }
        }
    }
    for (info, root) in prepared.values.iter_mut().zip(roots) {
        let kept = info.bytes.take().filter(|one| one.len() <= HOST_LIMIT || is_needed[*root]);
        info.bytes = kept.map(|bytes| Bytes::copy_from_slice(&bytes));
    }
}
