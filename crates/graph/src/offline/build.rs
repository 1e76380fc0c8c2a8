//! From a graph to a model: the sizes of its inputs chosen, compiled once to know its outputs.

use super::aipp::Aipp;
use super::description::{Description, Port};
use super::gears::Gears;
use crate::executable::{CompileOptions, ConstantLayout, Executable};
use crate::failure::{Failure, Result};
use crate::ir::{Attr, Desc, Graph, NET_OUTPUT};
use crate::model::CONVERTED;
use crate::onnx::TENSOR_NAME;
use std::collections::BTreeMap;
use std::sync::Arc;

/// How a model is built.
#[derive(Clone, Debug, Default)]
pub struct BuildOptions {
    /// Sizes that replace those of inputs, by name; -1 for one that gears or runs decide.
    pub input_dims: BTreeMap<String, Vec<i64>>,
    /// The least and the greatest of each size of an input, by name, -1 for no bound.
    pub ranges: BTreeMap<String, Vec<(i64, i64)>>,
    /// The sizes that it is built for.
    pub gears: Gears,
    /// The images that it prepares itself. Sizes above are those of the model's own inputs.
    pub aipp: Aipp,
}

/// A graph with what was decided about its inputs: what a file holds.
#[derive(Clone)]
pub struct OfflineModel {
    /// The graph.
    pub graph: Graph,
    /// What programs may know of it.
    pub description: Description,
}

/// A model that is compiled for the sizes it was built for.
pub struct CompiledModel {
    /// What programs may know of it.
    pub description: Description,
    /// One executable, or one for each gear. They share const memory.
    pub executables: Vec<Arc<Executable>>,
    /// The one that runs when no gear was set.
    pub largest: usize,
}

impl OfflineModel {
    /// Builds a model. Its outputs follow from compiling it.
    pub fn build(mut graph: Graph, options: &BuildOptions) -> Result<OfflineModel> {
        let mut inputs = describe_inputs(&mut graph, options)?;
        options.aipp.apply(&mut graph, &mut inputs, &options.gears)?;
        OfflineModel::build_with_inputs(graph, inputs, options.gears.clone())
    }

    /// Builds a model of a graph whose inputs are as they will be fed.
    pub(super) fn build_with_inputs(
        graph: Graph,
        inputs: Vec<Port>,
        gears: Gears,
    ) -> Result<OfflineModel> {
        let name = graph.name.clone();
        let description = Description { name, inputs, gears, ..Description::default() };
        let dims: Vec<Vec<i64>> = description.inputs.iter().map(|port| port.dims.clone()).collect();
        description.gears.input_dims(&dims).map_err(Failure::invalid)?;
        let model = OfflineModel { graph, description };
        let compiled = model.compile()?;
        let OfflineModel { graph, mut description } = model;
        let names = output_names(&graph);
        let outputs = |executable: &Executable| executable.outputs.clone();
        let largest = &compiled.executables[compiled.largest];
        description.outputs = (outputs(largest).iter().zip(&names))
            .map(|(desc, name)| Port::new(name.clone(), desc, open_ranges(desc)))
            .collect();
        if description.gears != Gears::None {
            let dims = |one: &Arc<Executable>| outputs(one).into_iter().map(|desc| desc.dims);
            description.output_dims =
                compiled.executables.iter().map(|one| dims(one).collect()).collect();
            // The largest gear need not have the largest of every tensor.
            let most = |descs: &dyn Fn(&Executable) -> Option<Desc>| {
                let layouts = compiled.executables.iter().filter_map(|one| descs(one)?.layout());
                layouts.map(|layout| layout.bytes() as u64).max()
            };
            for (at, port) in description.outputs.iter_mut().enumerate() {
                port.bytes = most(&|one| one.outputs.get(at).cloned()).unwrap_or(port.bytes);
            }
            for (at, port) in description.inputs.iter_mut().enumerate() {
                let input = |one: &Executable| Some(one.inputs.get(at)?.1.clone());
                port.bytes = most(&input).unwrap_or(port.bytes);
            }
        }
        Ok(OfflineModel { graph, description })
    }

    /// Compiles the model for the sizes it was built for.
    pub fn compile(&self) -> Result<CompiledModel> {
        let description = self.description.clone();
        let label: Arc<str> = format!("the model {}", description.name).into();
        let mut layout = ConstantLayout::default();
        let mut compile = |inputs: Vec<Desc>| {
            let options =
                CompileOptions { inputs, has_separate_fixed: true, ..CompileOptions::default() };
            Executable::compile_sharing(&self.graph, label.clone(), options, &mut layout)
                .map(Arc::new)
        };
        let described = |dims: Option<&Vec<Vec<i64>>>| -> Vec<Desc> {
            (description.inputs.iter().enumerate())
                .map(|(at, port)| {
                    let dims = dims.map_or(&port.dims, |dims| &dims[at]);
                    Desc { format: port.format, ..Desc::new(port.dtype, dims) }
                })
                .collect()
        };
        let gears = description.input_dims();
        let largest = Gears::largest(&gears);
        let executables = match gears.is_empty() {
            true => vec![compile(described(None))?],
            false => (gears.iter().zip(description.gears.values()))
                .map(|(dims, gear)| {
                    compile(described(Some(dims))).map_err(|failure| Failure {
                        text: format!("with the gear {gear:?}, {}", failure.text),
                        ..failure
                    })
                })
                .collect::<Result<_>>()?,
        };
        Ok(CompiledModel { description, executables, largest })
    }
}

impl CompiledModel {
    /// Bytes of constants, of all gears.
    pub fn weight_bytes(&self) -> u64 {
        let all = self.executables.iter().map(|one| one.reported_const_bytes());
        all.max().unwrap_or_default()
    }

    /// Bytes of intermediates and workspaces, of the gear that wants most; 0 if each run takes its own.
    pub fn work_bytes(&self) -> u64 {
        let known = self.executables.iter().filter(|one| one.is_static());
        known.map(|one| one.reported_refreshable_bytes()).max().unwrap_or_default()
    }

    /// Whether sizes come with each run.
    pub fn is_dynamic(&self) -> bool {
        self.executables.iter().any(|one| !one.is_static())
    }
}

/// The inputs of a graph as the options want them. The graph's own descriptions follow.
pub(super) fn describe_inputs(graph: &mut Graph, options: &BuildOptions) -> Result<Vec<Port>> {
    let mut ports = Vec::new();
    let mut names = Vec::new();
    for id in graph.inputs() {
        let node = graph.node_mut(id).expect("an input's node");
        let name = node.name.clone();
        let desc = node.output_descs.first().or(node.input_descs.first());
        let mut desc = desc.cloned().unwrap_or_default();
        if let Some(dims) = options.input_dims.get(&name) {
            (desc.dims, desc.origin_dims) = (dims.clone(), dims.clone());
        }
        let ranges = match options.ranges.get(&name) {
            None => open_ranges(&desc),
            Some(ranges) => {
                check_ranges(&name, &desc, ranges)?;
                ranges.clone()
            }
        };
        for one in node.output_descs.iter_mut().chain(&mut node.input_descs) {
            one.copy_type_and_shape_from(desc.clone());
        }
        if !desc.has_rank() {
            return Err(Failure::invalid(format!(
                "the number of dimensions of the input {name} is not known: give it sizes"
            )));
        }
        ports.push(Port::new(name.clone(), &desc, ranges));
        names.push(name);
    }
    for name in options.input_dims.keys().chain(options.ranges.keys()) {
        if !names.contains(name) {
            return Err(Failure::invalid(format!(
                "there is no input {name}: the inputs are {}",
                names.join(", ")
            )));
        }
    }
    Ok(ports)
}

fn check_ranges(name: &str, desc: &Desc, ranges: &[(i64, i64)]) -> Result<()> {
    let is_range = |(low, high): &(i64, i64)| *low >= 0 && (*high < 0 || low <= high);
    match ranges.len() == desc.dims.len() && ranges.iter().all(is_range) {
        true => Ok(()),
        false => Err(Failure::invalid(format!(
            "the input {name} has the sizes {:?}: the ranges {ranges:?} do not fit",
            desc.dims
        ))),
    }
}

/// Ranges without a bound for sizes that are not known.
fn open_ranges(desc: &Desc) -> Vec<(i64, i64)> {
    let range = |dim: &i64| if *dim < 0 { (1, -1) } else { (*dim, *dim) };
    if desc.has_rank() { desc.dims.iter().map(range).collect() } else { Vec::new() }
}

/// The names of the outputs: node, index, and the name of the tensor where the model has one.
fn output_names(graph: &Graph) -> Vec<String> {
    let net = graph.nodes().find(|(_, node)| node.kind == NET_OUTPUT).map(|(_, node)| node);
    (graph.outputs().iter().enumerate())
        .map(|(at, source)| {
            let node = graph.node(source.node).map_or("", |node| &node.name);
            let text =
                |name: &str| match net.and_then(|net| net.input_descs.get(at)?.attrs.get(name)) {
                    Some(Attr::Text(text)) => Some(String::from_utf8_lossy(text).into_owned()),
                    _ => None,
                };
            let output = text(CONVERTED).unwrap_or_else(|| format!("{node}:{}", source.output));
            match text(TENSOR_NAME) {
                Some(tensor) => format!("{output}:{tensor}"),
                None => output,
            }
        })
        .collect()
}
