//! A node with its operator from the table: inference, planning, and computing on the host.

use crate::ir::{Attr, Desc, Node};
use bytes::Bytes;
use cairn_ops::{
    Arg, Error, Fault, Group, LIST_LENGTHS, Memory, NodeArgs, Overflow, Plan, Tensor, nodes,
};
use cairn_tensor::parallel::{Parallel, SingleThread};
use cairn_tensor::{DType, Layout};
use smallvec::SmallVec;
use std::cell::Cell;

/// An operator with the attributes of one node.
pub struct Operation {
    /// The node's name.
    pub name: String,
    /// The operator.
    pub row: &'static cairn_ops::Node,
    attrs: Vec<(String, Arg)>,
}

/// What is known of an input.
#[derive(Clone, Debug)]
pub struct KnownTensor {
    /// Where its elements lie: one after the other.
    pub layout: Layout,
    /// Its bytes, if they are known already.
    pub bytes: Option<Bytes>,
}

/// Alignment of buffers on the host, and distance of the addresses that stand for tensors in a plan.
const ALIGN: usize = 64;

impl Operation {
    /// The operator of a node; `None` if the table has none of that name.
    pub fn of(node: &Node) -> Option<Operation> {
        let row = *nodes().get(node.kind.as_str())?;
        let mut attrs: Vec<(String, Arg)> = (node.attrs.iter())
            .filter_map(|(name, value)| Some((name.clone(), Attr::argument(value)?)))
            .collect();
        let names = node.input_descs.iter().map(|desc| desc.name.as_str());
        if let Some(lengths) = row.list_lengths(names).filter(|_| !node.input_descs.is_empty()) {
            attrs.push((LIST_LENGTHS.into(), lengths));
        }
        Some(Operation { name: node.name.clone(), row, attrs })
    }

    /// A copy of a tensor as it is.
    pub fn copy(name: String) -> Operation {
        Operation { name, row: cairn_ops::copy(), attrs: Vec::new() }
    }

    /// Pairs of an output and the input that it is written into, in place: the first, or all of a list, or those that the row
    /// names. A row that names some has no lists.
    pub fn in_place(&self, outputs: usize) -> Vec<(usize, usize)> {
        let marks = self.row.marks;
        let count = match self.row.inputs.first() {
            Some(first) if marks.writes_first => {
                if first.ends_with("[]") {
                    outputs
                } else {
                    outputs.min(1)
                }
            }
            _ => 0,
        };
        let named = marks.writes.iter().copied().filter(|(output, _)| *output < outputs);
        (0..count).map(|at| (at, at)).chain(named).collect()
    }

    /// The index of each of the operator's inputs among those of a node, by name where the node names them;
    /// a list takes all of its indices. Nothing follows the last that is fed.
    pub fn arrange(row: &cairn_ops::Node, descs: &[Desc]) -> Vec<Option<usize>> {
        let find = |name: &str| descs.iter().position(|desc| desc.name == name);
        let mut indices = Vec::new();
        for declared in row.inputs {
            let name = declared.trim_end_matches(['?', '[', ']']);
            match declared.ends_with("[]") {
                false => indices.push(find(name)),
                true => {
                    let listed = (0..).map_while(|at| find(&format!("{name}{at}")));
                    indices.extend(listed.map(Some));
                }
            }
        }
        let named = indices.iter().flatten().count() == descs.len();
        match named {
            true => indices,
            false => (0..descs.len()).map(Some).collect(),
        }
    }

    /// The layouts of the outputs.
    pub fn infer(&self, inputs: &[Option<KnownTensor>]) -> Result<Vec<Layout>, Error> {
        let inputs: Vec<Option<Tensor>> = inputs
            .iter()
            .map(|input| {
                let tensor = input.as_ref()?;
                Some(Tensor { layout: tensor.layout, address: 0, constant: tensor.bytes.clone() })
            })
            .collect();
        self.row.infer(&NodeArgs { inputs: &inputs, outputs: &[], attributes: &self.attrs })
    }

    /// Plans the call with addresses that stand for memory yet to come: each input and output its own.
    pub fn plan(&self, inputs: &[Option<KnownTensor>], outputs: &[Layout]) -> Result<Plan, Error> {
        let separate: SmallVec<[usize; 8]> = (0..inputs.len() + outputs.len()).collect();
        self.plan_sharing(inputs, outputs, &separate)
    }

    /// As [`Operation::plan`], where inputs and outputs may share memory: `memory` has a number for each input, then for each
    /// output, and equal numbers are one memory.
    pub fn plan_sharing(
        &self,
        inputs: &[Option<KnownTensor>],
        outputs: &[Layout],
        memory: &[usize],
    ) -> Result<Plan, Error> {
        let mut next = ALIGN;
        let mut addresses: SmallVec<[usize; 8]> = SmallVec::new();
        let mut reserve = |layout: &Layout| {
            let number = memory[addresses.len()];
            let known = memory[..addresses.len()].iter().position(|one| *one == number);
            let address = known.map_or(next, |at| addresses[at]);
            next = next.max((address + layout.bytes()).next_multiple_of(ALIGN) + ALIGN);
            addresses.push(address);
            address
        };
        let mut input_tensors = Vec::new();
        for input in inputs {
            let layout = input
                .as_ref()
                .map_or(Layout::contiguous(DType::Float, &[0]), |tensor| tensor.layout);
            let address = reserve(&layout);
            input_tensors.push(input.as_ref().map(|tensor| Tensor {
                layout,
                address,
                constant: tensor.bytes.clone(),
            }));
        }
        let outputs: Vec<Tensor> =
            outputs.iter().map(|layout| Tensor::new(*layout, reserve(layout))).collect();
        self.row.plan(&NodeArgs {
            inputs: &input_tensors,
            outputs: &outputs,
            attributes: &self.attrs,
        })
    }

    /// Computes on the host, now. `Ok(None)` if it reads an input whose bytes are not known.
    pub fn compute(
        &self,
        inputs: &[Option<KnownTensor>],
        outputs: &[Layout],
    ) -> Result<Option<Vec<Bytes>>, String> {
        let plan = self.plan(inputs, outputs).map_err(|error| error.text().to_owned())?;
        let mut buffers: Vec<Buffer> = Vec::new();
        for one in &plan.uses {
            let index = one.argument.0 + one.argument.1;
            let mut buffer = Buffer::new(one.bytes);
            if index < inputs.len() {
                let bytes = inputs[index].as_ref().and_then(|tensor| tensor.bytes.as_deref());
                let Some(bytes) = bytes else { return Ok(None) };
                let from = one.byte_offset.unsigned_abs();
                buffer.bytes_mut().copy_from_slice(&bytes[from..from + one.bytes]);
            }
            buffers.push(buffer);
        }
        let mut workspace = Buffer::new(plan.workspace);
        {
            let cells: Vec<&[Cell<u8>]> = buffers.iter_mut().map(Buffer::cells).collect();
            run_plan(&plan, &cells, workspace.cells(), &[], &SingleThread, Overflow::default())
                .map_err(|fault| fault.0)?;
        }
        let mut results: Vec<Option<Bytes>> = vec![None; outputs.len()];
        for (one, buffer) in plan.uses.iter().zip(buffers) {
            let index = one.argument.0 + one.argument.1;
            if let Some(at) = index.checked_sub(inputs.len())
                && let Some(result) = results.get_mut(at)
            {
                *result = Some(buffer.into_bytes());
            }
        }
        let untouched = |layout: &Layout| vec![0; layout.bytes()].into();
        let results = results.into_iter().zip(outputs);
        Ok(Some(results.map(|(one, layout)| one.unwrap_or_else(|| untouched(layout))).collect()))
    }
}

/// Runs the plan of a node whose sizes were known beforehand. A kernel that decides sizes itself is one of a row that is
/// not marked so; what follows would compute with garbage, and so that is a failure.
pub fn run_plan(
    plan: &Plan,
    uses: &[&[Cell<u8>]],
    workspace: &[Cell<u8>],
    groups: &[&dyn Group],
    parallel: &dyn Parallel,
    overflow: Overflow<'_>,
) -> Result<(), Fault> {
    let decides_sizes = Cell::new(false);
    let sized = |_: (usize, usize), _: &[usize]| decides_sizes.set(true);
    let memory =
        Memory { uses, workspace, parallel, groups, sized: &sized, epilogue: None, overflow };
    plan.run(&memory)?;
    match decides_sizes.get() {
        true => Err(Fault(
            "internal error (please report): its sizes depend on values, and its row is not marked sized_by_values".into(),
        )),
        false => Ok(()),
    }
}

/// Bytes on the host that begin on a multiple of [`ALIGN`].
struct Buffer {
    storage: Vec<u8>,
    start: usize,
    bytes: usize,
}

impl Buffer {
    fn new(bytes: usize) -> Buffer {
        let storage = vec![0; bytes + ALIGN];
        let start = storage.as_ptr().align_offset(ALIGN).min(ALIGN);
        Buffer { storage, start, bytes }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.storage[self.start..self.start + self.bytes]
    }

    /// The bytes, without a copy where they are many.
    fn into_bytes(self) -> Bytes {
        let range = self.start..self.start + self.bytes;
        match self.bytes < ALIGN {
            true => Bytes::copy_from_slice(&self.storage[range]),
            false => Bytes::from(self.storage).slice(range),
        }
    }

    fn cells(&mut self) -> &[Cell<u8>] {
        Cell::from_mut(self.bytes_mut()).as_slice_of_cells()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_decides_sizes_without_the_mark_fails() {
        let marked = nodes()["NonZero"];
        let mut unmarked = *marked;
        unmarked.marks.sized_by_values = false;
        let name = "node".to_owned();
        let operation = Operation { name, row: Box::leak(Box::new(unmarked)), attrs: Vec::new() };
        let layout = Layout::contiguous(DType::Bool, &[3]);
        let inputs = [Some(KnownTensor { layout, bytes: Some(vec![1, 0, 1].into()) })];
        let outputs = operation.infer(&inputs).unwrap();
        let failed = operation.compute(&inputs, &outputs).unwrap_err();
        assert!(failed.contains("please report"), "{failed}");
    }
}
