//! Models of ONNX: read into graphs of the graph engine.
//!
//! `wire.rs` has the messages, `tensor.rs` constants, `graph.rs` walks nodes and names, `builder.rs` is the graph that
//! is being made, and `ops/` has a converter for each operator, written against `conversion.rs`.

pub(crate) mod builder;
mod control;
pub(crate) mod conversion;
mod graph;
mod ops;
pub(crate) mod partial;
mod tensor;
#[cfg(test)]
mod tests;
mod unsupported;
mod weight;
mod wire;

use crate::files::OpenFiles;
use crate::ir::{Constant, Graph};
use builder::Budget;
use bytes::Bytes;
use graph::{Model, Opsets, domain};
use prost::Message;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::rc::Rc;
use tensor::ExternalData;

pub use graph::TENSOR_NAME;

/// How a model is read.
#[derive(Clone, Debug, Default)]
pub struct ReadOptions {
    /// The folder of the model, where files with its data are; `None` for a model in memory, whose files are looked
    /// up in the working directory.
    pub folder: Option<PathBuf>,
    /// The bytes of files that are not looked up there, by name.
    pub files: BTreeMap<String, Bytes>,
    /// Sizes that replace those of inputs, by name.
    pub input_dims: BTreeMap<String, Vec<i64>>,
    /// What the model gives in place of its own outputs: names of tensors, or "node:index".
    pub outputs: Vec<String>,
}

/// Reads one tensor as ONNX writes it to a file.
pub fn read_tensor(bytes: Vec<u8>) -> Result<Constant, String> {
    let tensor = wire::TensorProto::decode(Bytes::from(bytes))
        .map_err(|error| format!("The bytes are no tensor of ONNX: {error}."))?;
    tensor::read(&tensor, &ExternalData::default())
        .map_err(|error| format!("The tensor '{}': {error}.", tensor.name))
}

/// The oldest version of ONNX's operators that is read.
const OLDEST_OPSET: i64 = 7;

/// The newest version of which any operator is known; what later ones change is not.
const NEWEST_OPSET: i64 = 28;

/// Reads a model. The text of an error names node, tensor and value; operators that are not supported are all named
/// at once.
pub fn read(bytes: impl Into<Bytes>, options: &ReadOptions) -> Result<Graph, String> {
    let bytes = bytes.into();
    if bytes.is_empty() {
        return Err("The model is empty.".to_owned());
    }
    weight::check(&bytes)?;
    let budget = Rc::new(Budget::new(bytes.len()));
    let model = wire::ModelProto::decode(bytes)
        .map_err(|error| format!("The bytes are no ONNX model: {error}."))?;
    let Some(root) = &model.graph else {
        return Err("The bytes are no ONNX model: they hold no graph.".to_owned());
    };
    let opsets = Opsets::new(&model.opset_import);
    match opsets.version("") {
        Some(version) if version < OLDEST_OPSET => {
            return Err(format!(
                "The model uses version {version} of ONNX's operators; {OLDEST_OPSET} is the oldest that is supported. Convert it with onnx.version_converter."
            ));
        }
        Some(version) if version > NEWEST_OPSET => log::warn!(
            "The model uses version {version} of ONNX's operators; {NEWEST_OPSET} is the newest that is known, and its meaning is taken."
        ),
        _ => {}
    }
    let functions = (model.functions.iter())
        .map(|one| ((domain(&one.domain), one.name.as_str(), one.overload.as_str()), one))
        .collect();
    unsupported::check(root, &functions)?;
    let (folder, files) = (options.folder.clone(), options.files.clone());
    let external = ExternalData { folder, files, opened: OpenFiles::default() };
    let (input_dims, outputs) = (&options.input_dims, &options.outputs);
    let calls = RefCell::default();
    let model = Model { functions, external: &external, input_dims, outputs, budget, calls };
    for name in options.input_dims.keys() {
        if !root.input.iter().any(|input| input.name == *name) {
            let known: Vec<&str> = root.input.iter().map(|input| input.name.as_str()).collect();
            return Err(format!("The model has no input '{name}': it has {}.", known.join(", ")));
        }
    }
    let built = model.root(root, opsets).map_err(|error| format!("The ONNX model: {error}."))?;
    Ok(built.graph)
}
