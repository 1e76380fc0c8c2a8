//! Models of others into models of ours, under options as `atc` and `aclgrphBuildModel` take them.

use super::aipp::Aipp;
use super::build::{BuildOptions, OfflineModel, describe_inputs};
use super::external::{self, WeightFiles};
use super::gears::{Gears, MAX_GEARS};
use super::options::{OptionError, ShapeOptions};
use crate::failure::Failure;
use crate::ir::{Attr, Graph};
use crate::model::{self, OutputType};
use crate::onnx;
use bytes::Bytes;
use cairn_tensor::{DType, Format};
use std::collections::BTreeMap;
use std::path::Path;

/// What a model was written as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A serialised model of the graph engine (`.air`, `.pb` of its dumps).
    GraphEngine,
    /// A model of ONNX.
    Onnx,
}

/// The options of a conversion as texts; empty ones are not set.
#[derive(Clone, Debug, Default)]
pub struct ConvertOptions {
    /// The name of the model; empty for the one that it has.
    pub name: String,
    /// Which sizes it is built for.
    pub shapes: ShapeOptions,
    /// `input_format`: the format of inputs with as many dimensions as the format has.
    pub input_format: String,
    /// `out_nodes`: "node:0;node:1", or names of tensors of an ONNX model.
    pub out_nodes: String,
    /// `output_type`: "FP32", or "node:0:FP16;node:1:FP32".
    pub output_type: String,
    /// `insert_op_conf`: the file of the configuration of images, for messages.
    pub insert_op_conf: String,
    /// What that file says.
    pub aipp: Aipp,
    /// Attributes of the graph, which tools show.
    pub attrs: Vec<(&'static str, String)>,
}

/// Why a model cannot be converted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConvertError {
    /// The number of the message among those of the tools.
    pub code: &'static str,
    /// A sentence that names the option and its value, or the node at fault.
    pub text: String,
}

/// Numbers of messages.
mod code {
    pub const INVALID_VALUE: &str = "E10001";
    pub const EXCLUSIVE: &str = "E10009";
    pub const NO_SUCH_INPUT: &str = "E10016";
    pub const BATCH_PLACE: &str = "E10018";
    pub const GEAR_COUNT: &str = "E10035";
    pub const GEAR_DIMS: &str = "E10037";
    pub const GEAR_IMAGE: &str = "E10038";
    pub const GEAR_VALUE: &str = "E10039";
    pub const MODEL: &str = "E10041";
    pub const NO_OUTPUT: &str = "E16001";
    pub const NO_OPERATOR: &str = "E16002";
    pub const OTHER: &str = "E19999";
}

impl From<OptionError> for ConvertError {
    fn from(OptionError { code, option, value, reason }: OptionError) -> ConvertError {
        ConvertError { code, text: format!("--{option}={value}: {reason}") }
    }
}

fn wrong(code: &'static str, option: &str, value: &str, reason: impl AsRef<str>) -> ConvertError {
    ConvertError { code, text: format!("--{option}={value}: {}", reason.as_ref()) }
}

impl ConvertOptions {
    /// Reads a model. Sizes of inputs and names of outputs are those of the options; `folder` is where the file is.
    pub fn read(
        &self,
        origin: Origin,
        bytes: Bytes,
        folder: Option<&Path>,
    ) -> Result<Graph, ConvertError> {
        let graph = match origin {
            Origin::Onnx => {
                let options = onnx::ReadOptions {
                    folder: folder.map(Path::to_owned),
                    input_dims: self.shapes.parse()?.input_dims,
                    outputs: self.outputs(),
                    ..onnx::ReadOptions::default()
                };
                onnx::read(bytes, &options).map_err(|text| onnx_error(self, text))?
            }
            Origin::GraphEngine => {
                let unreadable = |text| ConvertError { code: code::MODEL, text };
                let mut graph = model::read(bytes).map_err(unreadable)?;
                let in_memory = BTreeMap::new();
                let files = WeightFiles::new(folder, &in_memory);
                external::put_back(&mut graph, &files).map_err(unreadable)?;
                self.choose_outputs(&mut graph)?;
                graph
            }
        };
        match graph.outputs().is_empty() {
            true => Err(ConvertError {
                code: code::NO_OUTPUT,
                text: format!("the model {} has no output", graph.name),
            }),
            false => Ok(graph),
        }
    }

    /// Builds a model of a graph whose outputs were chosen when it was read.
    pub fn build(&self, mut graph: Graph) -> Result<OfflineModel, ConvertError> {
        let options = self.shapes.parse()?;
        if !self.aipp.images.is_empty() && matches!(options.gears, Gears::Dims(_)) {
            let reason = "insert_op_conf and dynamic_dims exclude each other";
            return Err(wrong(code::EXCLUSIVE, "dynamic_dims", &self.shapes.dynamic_dims, reason));
        }
        self.check_sizes(&graph, &options)?;
        self.set_formats(&mut graph)?;
        let types = self.output_types()?;
        if !types.is_empty() {
            model::cast_outputs(&mut graph, &types).map_err(|reason| {
                wrong(code::INVALID_VALUE, "output_type", &self.output_type, reason)
            })?;
        }
        if !self.name.is_empty() {
            graph.name.clone_from(&self.name);
        }
        for (name, value) in &self.attrs {
            graph.attrs.insert((*name).to_owned(), Attr::from(value.as_str()));
        }
        let other = |failure: Failure| ConvertError { code: code::OTHER, text: failure.text };
        let mut inputs = describe_inputs(&mut graph, &options).map_err(other)?;
        self.aipp.apply(&mut graph, &mut inputs, &options.gears).map_err(|failure| {
            wrong(code::INVALID_VALUE, "insert_op_conf", &self.insert_op_conf, failure.text)
        })?;
        let (option, value) = self.gear_option(&options.gears);
        let has_gears = options.gears != Gears::None;
        OfflineModel::build_with_inputs(graph, inputs, options.gears).map_err(|failure| {
            match has_gears {
                true => wrong(code::OTHER, option, value, failure.text),
                false => other(failure),
            }
        })
    }

    /// Builds a model of a graph that somebody made, whose outputs the options may choose.
    pub fn build_graph(&self, mut graph: Graph) -> Result<OfflineModel, ConvertError> {
        self.choose_outputs(&mut graph)?;
        self.build(graph)
    }

    fn choose_outputs(&self, graph: &mut Graph) -> Result<(), ConvertError> {
        match self.outputs() {
            outputs if outputs.is_empty() => Ok(()),
            outputs => model::choose_outputs(graph, &outputs)
                .map_err(|reason| wrong(code::INVALID_VALUE, "out_nodes", &self.out_nodes, reason)),
        }
    }

    fn outputs(&self) -> Vec<String> {
        let entries = self.out_nodes.split(';').map(str::trim).filter(|entry| !entry.is_empty());
        entries.map(str::to_owned).collect()
    }

    /// The option that has the gears, and its value.
    fn gear_option(&self, gears: &Gears) -> (&'static str, &str) {
        match gears {
            Gears::Batch(_) => ("dynamic_batch_size", &self.shapes.dynamic_batch_size),
            Gears::ImageSize(_) => ("dynamic_image_size", &self.shapes.dynamic_image_size),
            _ => ("dynamic_dims", &self.shapes.dynamic_dims),
        }
    }

    /// The option that has the sizes of inputs, with its value.
    fn shape_option(&self) -> (&'static str, &str) {
        match self.shapes.input_shape.is_empty() {
            false => ("input_shape", &self.shapes.input_shape),
            true => ("input_shape_range", &self.shapes.input_shape_range),
        }
    }

    fn check_sizes(&self, graph: &Graph, options: &BuildOptions) -> Result<(), ConvertError> {
        let (option, value) = self.shape_option();
        let nodes = graph.inputs().into_iter().filter_map(|id| graph.node(id));
        let mut dims = Vec::new();
        let mut names = Vec::new();
        for node in nodes {
            let desc = node.output_descs.first().or(node.input_descs.first());
            let own = desc.map(|desc| desc.dims.clone()).unwrap_or_default();
            let given = options.input_dims.get(&node.name);
            if let (Some(given), Some(desc)) = (given, desc)
                && desc.has_rank()
                && given.len() != own.len()
            {
                let reason = format!("the input '{}' has the sizes {own:?}", node.name);
                return Err(wrong(code::INVALID_VALUE, option, value, reason));
            }
            dims.push(given.cloned().unwrap_or(own));
            names.push(node.name.as_str());
        }
        for name in options.input_dims.keys() {
            if !names.contains(&name.as_str()) {
                let reason = format!("there is no input '{name}': there are {}", names.join(", "));
                return Err(wrong(code::NO_SUCH_INPUT, option, value, reason));
            }
        }
        let gears = &options.gears;
        let Err(reason) = gears.input_dims(&dims) else { return Ok(()) };
        let values = gears.values();
        let has_unknown = dims.iter().flatten().any(|dim| *dim < 0);
        let are_distinct = (1..values.len()).all(|at| !values[..at].contains(&values[at]));
        let number = match gears {
            _ if values.len() < 2 || values.len() > MAX_GEARS => code::GEAR_COUNT,
            _ if has_unknown && !are_distinct => code::GEAR_VALUE,
            Gears::Batch(_) => code::BATCH_PLACE,
            Gears::ImageSize(_) => code::GEAR_IMAGE,
            _ => code::GEAR_DIMS,
        };
        let (option, value) = self.gear_option(gears);
        Err(wrong(number, option, value, reason))
    }

    /// Gives the format to inputs with as many dimensions as it has letters.
    fn set_formats(&self, graph: &mut Graph) -> Result<(), ConvertError> {
        const KNOWN: [Format; 5] =
            [Format::NCHW, Format::NHWC, Format::ND, Format::NCDHW, Format::NDHWC];
        let name = self.input_format.trim();
        if name.is_empty() {
            return Ok(());
        }
        let Some(format) = KNOWN.into_iter().find(|format| format.name() == Some(name)) else {
            let reason = "expected NCHW, NHWC, NCDHW, NDHWC or ND";
            return Err(wrong(code::INVALID_VALUE, "input_format", name, reason));
        };
        for id in graph.inputs() {
            let node = graph.node_mut(id).expect("an input's node");
            for desc in node.output_descs.iter_mut().chain(&mut node.input_descs) {
                if desc.has_rank() && desc.dims.len() == name.len() && format != Format::ND {
                    (desc.format, desc.origin_format) = (format, format);
                }
            }
        }
        Ok(())
    }

    fn output_types(&self) -> Result<Vec<OutputType>, ConvertError> {
        let mut types = Vec::new();
        for entry in self.output_type.split(';').map(str::trim).filter(|one| !one.is_empty()) {
            let (output, name) = match entry.rsplit_once(':') {
                Some((output, name)) => (Some(output.trim().to_owned()), name),
                None => (None, entry),
            };
            let dtype = output_type(name.trim()).ok_or_else(|| {
                let reason =
                    format!("'{name}' is none of {}", OUTPUT_TYPES.map(|one| one.0).join(", "));
                wrong(code::INVALID_VALUE, "output_type", &self.output_type, reason)
            })?;
            types.push(OutputType { output, dtype });
        }
        Ok(types)
    }
}

const OUTPUT_TYPES: [(&str, DType); 11] = [
    ("FP32", DType::Float),
    ("FP16", DType::Float16),
    ("UINT8", DType::Uint8),
    ("INT8", DType::Int8),
    ("INT16", DType::Int16),
    ("UINT16", DType::Uint16),
    ("INT32", DType::Int32),
    ("UINT32", DType::Uint32),
    ("INT64", DType::Int64),
    ("UINT64", DType::Uint64),
    ("DOUBLE", DType::Double),
];

fn output_type(name: &str) -> Option<DType> {
    OUTPUT_TYPES.iter().find(|(known, _)| *known == name).map(|(_, dtype)| *dtype)
}

/// Why ONNX's reader failed, with the number that fits, and the option if one is at fault.
fn onnx_error(options: &ConvertOptions, text: String) -> ConvertError {
    let (option, value) = options.shape_option();
    match () {
        _ if text.contains("operators that are not supported") => {
            ConvertError { code: code::NO_OPERATOR, text }
        }
        _ if text.starts_with("The model has no input '") => {
            wrong(code::NO_SUCH_INPUT, option, value, text)
        }
        _ if text.contains("in the model, not [") => {
            wrong(code::INVALID_VALUE, option, value, text)
        }
        _ if text.contains("the output '") && !options.out_nodes.is_empty() => {
            wrong(code::INVALID_VALUE, "out_nodes", &options.out_nodes, text)
        }
        _ => ConvertError { code: code::MODEL, text },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::{Desc, NET_OUTPUT, Node, Source};

    fn graph(dims: &[i64]) -> Graph {
        let mut graph = Graph::new("net");
        let desc = Desc::new(DType::Float, dims);
        let add = |graph: &mut Graph, name: &str, kind: &str, from: Option<usize>| {
            graph.add(Node {
                name: name.into(),
                kind: kind.into(),
                inputs: from.map(|node| Some(Source { node, output: 0 })).into_iter().collect(),
                input_descs: from
                    .map(|_| Desc { name: "x".into(), ..desc.clone() })
                    .into_iter()
                    .collect(),
                output_descs: vec![Desc { name: "y".into(), ..desc.clone() }],
                ..Node::default()
            })
        };
        let data = add(&mut graph, "in", "Data", None);
        let relu = add(&mut graph, "act", "Relu", Some(data));
        add(&mut graph, "out", NET_OUTPUT, Some(relu));
        graph
    }

    fn options(input_shape: &str) -> ConvertOptions {
        let shapes = ShapeOptions { input_shape: input_shape.into(), ..ShapeOptions::default() };
        ConvertOptions { shapes, ..ConvertOptions::default() }
    }

    #[test]
    fn a_graph_becomes_a_model_under_options() {
        let wanted = ConvertOptions {
            name: "renamed".into(),
            input_format: "NCHW".into(),
            output_type: "act:0:FP16".into(),
            attrs: vec![("soc_version", "Ascend310P3".into())],
            ..options("in:1,2,3,4")
        };
        let model = wanted.build(graph(&[-1, 2, 3, 4])).unwrap();
        let description = &model.description;
        assert_eq!(description.name, "renamed");
        let (input, output) = (&description.inputs[0], &description.outputs[0]);
        assert_eq!((input.format, &input.dims[..]), (Format::NCHW, &[1, 2, 3, 4][..]));
        assert_eq!((output.dtype, output.name.as_str()), (DType::Float16, "act:0"));
        assert_eq!(model.graph.attrs["soc_version"], Attr::from("Ascend310P3"));
    }

    #[test]
    fn errors_have_the_number_the_option_and_the_value() {
        let refused = |options: ConvertOptions, dims: &[i64]| {
            let error = options.build(graph(dims)).err().unwrap();
            (error.code, error.text)
        };
        let gears = |batch: &str| {
            let mut options = options("in:-1,4");
            options.shapes.dynamic_batch_size = batch.into();
            options
        };
        for (options, dims, code, part) in [
            (options("other:1"), &[2][..], "E10016", "--input_shape=other:1"),
            (options("in:1"), &[2, 2], "E10001", "[2, 2]"),
            (gears("4"), &[2, 4], "E10035", "--dynamic_batch_size=4"),
            (gears("4,4"), &[2, 4], "E10039", "[4]"),
            (ConvertOptions { input_format: "XY".into(), ..options("") }, &[2], "E10001", "XY"),
            (ConvertOptions { output_type: "FP7".into(), ..options("") }, &[2], "E10001", "FP7"),
            (
                ConvertOptions { output_type: "b:0:FP32".into(), ..options("") },
                &[2],
                "E10001",
                "b:0",
            ),
        ] {
            let (found, text) = refused(options, dims);
            assert!(found == code && text.contains(part), "{found}: {text}");
        }
        let mut misplaced = options("in:2,-1");
        misplaced.shapes.dynamic_batch_size = "1,2".into();
        assert_eq!(refused(misplaced, &[2, 4]).0, "E10018");
        let mut halved = graph(&[-1, 4]);
        let (split, _) = halved.nodes().find(|(_, node)| node.name == "act").unwrap();
        let node = halved.node_mut(split).unwrap();
        node.kind = "SplitD".into();
        node.attrs = [("split_dim", 0i64), ("num_split", 2)]
            .map(|(name, value)| (name.to_owned(), value.into()))
            .into();
        node.output_descs.push(node.output_descs[0].clone());
        let error = gears("2,3").build(halved).err().unwrap();
        let start = "--dynamic_batch_size=2,3: with the gear [3], ";
        assert!(error.text.starts_with(start) && error.text.contains("act"), "{}", error.text);
    }
}
