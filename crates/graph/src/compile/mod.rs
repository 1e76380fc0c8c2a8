//! From a graph to steps with a plan of their memory.

pub mod append;
pub mod arena;
pub mod constants;
pub mod control;
pub mod custom;
pub mod described;
pub mod flatten;
pub mod flow;
pub mod fold;
pub mod fuse;
pub mod operation;
pub mod prepare;
pub mod program;
pub mod shapes;
pub mod sharing;
pub mod variable;

use crate::failure::{Failure, Result};
use crate::ir::{Desc, Node};
use operation::Operation;
use shapes::{DeclaredOutputs, Inference, ValueInfo, infer};

/// The outputs of a node that stands alone, from the descriptions of its inputs.
pub fn infer_operator(node: &Node) -> Result<Vec<Desc>> {
    let Some(operation) = Operation::of(node) else {
        let (name, kind) = (&node.name, &node.kind);
        return Err(Failure::failed(format!(
            "the operator {name} is a {kind}, which Cairn does not have"
        )));
    };
    let mut inputs: Vec<Option<ValueInfo>> = (Operation::arrange(operation.row, &node.input_descs)
        .into_iter())
    .map(|index| Some(ValueInfo { desc: node.input_descs.get(index?)?.clone(), bytes: None }))
    .collect();
    while !operation.row.has_lists() && inputs.len() > operation.row.inputs.len() {
        inputs.pop();
    }
    Ok(match infer(&operation, &inputs, &DeclaredOutputs { outputs: &node.output_descs })? {
        Inference::Known(layouts) => layouts.iter().map(Desc::from_layout).collect(),
        Inference::Partly(descs) => descs,
    })
}
