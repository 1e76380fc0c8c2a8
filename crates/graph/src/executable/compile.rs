//! A graph that is compiled: a program or a flow, and what the user may know about it.

use super::tensor::{RunInput, RunTensor};
use crate::compile::constants::{ConstantLayout, Constants};
use crate::compile::described::described;
use crate::compile::flatten::flatten;
use crate::compile::flow::{Flow, flow};
use crate::compile::prepare::{PrepareOptions, prepare};
use crate::compile::program::{Program, ProgramError, program};
use crate::custom::CustomOperators;
use crate::failure::{Failure, Result};
use crate::ir::{Desc, Graph};
use crate::model;
use crate::run::dynamic::Plans;
use crate::run::pass::{Part, Pass};
use cairn_runtime::lock::{Mutex, Rank};
use cairn_tensor::DType;
use serde_json::json;
use std::collections::BTreeSet;
use std::sync::Arc;

/// How a graph is compiled.
#[derive(Clone, Debug)]
pub struct CompileOptions {
    /// Descriptions that replace those of the graph's inputs, by index; empty to keep them.
    pub inputs: Vec<Desc>,
    /// Whether nodes that depend on constants alone are computed now.
    pub folds: bool,
    /// Whether nodes are run together where that saves memory traffic.
    pub fuses: bool,
    /// Whether feature memory may change from run to run.
    pub is_refreshable: bool,
    /// Whether fixed feature memory is separate from the rest.
    pub has_separate_fixed: bool,
    /// Pairs of an input and an output that are one memory.
    pub reuse: Vec<(usize, usize)>,
    /// The operators that the user registered.
    pub custom: Arc<CustomOperators>,
}

impl Default for CompileOptions {
    fn default() -> CompileOptions {
        CompileOptions {
            inputs: Vec::new(),
            folds: true,
            fuses: true,
            is_refreshable: false,
            has_separate_fixed: false,
            reuse: Vec::new(),
            custom: Arc::default(),
        }
    }
}

/// A compiled graph. It holds no memory of a device, knows no session, and serves any number of loads.
pub struct Executable {
    /// What the user calls it, for messages.
    pub label: Arc<str>,
    /// What comes in: name, description.
    pub inputs: Vec<(String, Desc)>,
    /// The variables that it names, which come in after these and are the caller's to keep: name, description.
    pub variables: Vec<(String, Desc)>,
    /// What goes out.
    pub outputs: Vec<Desc>,
    /// The name of the node that computes each of these.
    pub output_nodes: Vec<String>,
    /// How it runs.
    pub kind: Kind,
    /// Whether feature memory may change from run to run.
    pub is_refreshable: bool,
    /// Whether fixed feature memory is separate from the rest.
    pub has_separate_fixed: bool,
    /// Pairs of an input and an output that are one memory.
    pub reuse: Vec<(usize, usize)>,
    /// The constants that its loads upload; the last load takes them.
    pub(crate) constants: Mutex<Constants>,
    /// What was compiled, and how; `None` if it was not kept.
    source: Option<(Graph, PrepareOptions)>,
}

/// How a graph runs.
pub enum Kind {
    /// All sizes are known.
    Static {
        /// The steps.
        program: Arc<Program>,
        /// Those that need constants alone.
        init: Arc<Pass>,
        /// Those of every run.
        steps: Arc<Pass>,
    },
    /// Sizes come with the inputs.
    Dynamic {
        /// The nodes.
        flow: Arc<Flow>,
        /// What was planned so far.
        plans: Plans,
    },
}

/// What 0 bytes of const or feature memory are reported as.
const MIN_REPORTED_BYTES: u64 = 512;

/// How many bytes less than a static graph reads the caller may state for a tensor: programs for CANN, whose memory has
/// padding, rely on it.
const SLACK: usize = 64;

impl Executable {
    /// Compiles a graph, and keeps it. `label` is what the user calls it, for messages.
    pub fn compile(graph: Graph, label: Arc<str>, options: CompileOptions) -> Result<Executable> {
        let CompileOptions { inputs, folds, custom, .. } = options.clone();
        let mut layout = ConstantLayout::default();
        let compiled = Executable::compile_sharing(&graph, label, options, &mut layout)?;
        let source = Some((graph, PrepareOptions { inputs, folds, custom }));
        Ok(Executable { source, ..compiled })
    }

    /// Compiles a graph that shares const memory with others, which were compiled before with the same layout and are
    /// loaded into the same memory. The graph is not kept.
    pub fn compile_sharing(
        graph: &Graph,
        label: Arc<str>,
        options: CompileOptions,
        layout: &mut ConstantLayout,
    ) -> Result<Executable> {
        let CompileOptions {
            inputs,
            folds,
            fuses,
            is_refreshable,
            has_separate_fixed,
            reuse,
            custom,
        } = options;
        let options = PrepareOptions { inputs, folds, custom };
        let prepared = prepare(graph, &options).map_err(|failure| failure.in_context(&label))?;
        let mut inputs: Vec<(String, Desc)> =
            prepared.inputs.iter().map(|one| (one.name.clone(), one.desc.clone())).collect();
        let variables = inputs.split_off(inputs.len() - prepared.variables);
        let (ins, outs) = (inputs.len(), prepared.outputs.len());
        if let Some((input, output)) = reuse.iter().find(|(i, o)| *i >= ins || *o >= outs) {
            return Err(Failure::invalid(format!(
                "{label}: output {output} cannot have the memory of input {input}: there are {ins} inputs and {outs} outputs, counted from 0"
            )));
        }
        let outputs = prepared.outputs.iter().map(|one| one.desc.clone()).collect();
        let names: Vec<String> = prepared.inputs.iter().map(|one| one.name.clone()).collect();
        let output_nodes: Vec<String> =
            prepared.outputs.iter().map(|one| one.name.clone()).collect();
        let (mut static_program, mut dynamic) = (None, None);
        match prepared.is_static {
            true => {
                let copied_outputs: BTreeSet<usize> =
                    reuse.iter().map(|(_, output)| *output).collect();
                let flat = flatten(prepared);
                match program(&flat, &copied_outputs, fuses, layout) {
                    Ok(program) => static_program = Some(program),
                    Err(ProgramError::Values) => dynamic = Some(prepare(graph, &options)?),
                    Err(ProgramError::Failed(failure)) => return Err(failure.in_context(&label)),
                }
            }
            false => dynamic = Some(prepared),
        }
        let (kind, constants) = match static_program {
            Some(mut program) => {
                let constants = std::mem::take(&mut program.constants);
                let program = Arc::new(program);
                let pass = |part| Pass::new(&program, part, label.clone(), (&names, &output_nodes));
                let (init, steps) = (pass(Part::Init), pass(Part::Steps));
                (Kind::Static { program, init, steps }, constants)
            }
            None => {
                let mut flow = flow(dynamic.expect("a graph that is not static"), layout);
                let constants = std::mem::take(&mut flow.constants);
                (Kind::Dynamic { flow: Arc::new(flow), plans: Plans::default() }, constants)
            }
        };
        Ok(Executable {
            label,
            inputs,
            variables,
            outputs,
            output_nodes,
            kind,
            is_refreshable,
            has_separate_fixed,
            reuse,
            constants: Mutex::new(Rank::Plans, constants),
            source: None,
        })
    }

    /// Checks a tensor against an input, or after the inputs against a variable. Its type has to be the input's. A
    /// dynamic graph takes its sizes, and wants memory that is as large; `[1]` and no dimensions are the same to it, as
    /// an input was declared. A static graph reads what it was compiled for,
    /// whatever sizes the tensor says, and takes memory that says up to 64 bytes less; what a tensor on the host lacks is
    /// zeros. Where the memory lies, and how much is there, is checked by each run.
    pub fn input(&self, at: usize, tensor: &RunTensor) -> Result<RunInput> {
        let wrong = |text: String| Err(Failure::invalid(format!("{text} ({})", self.label)));
        let Some((name, desc)) = self.inputs.iter().chain(&self.variables).nth(at) else {
            let count = self.inputs.len() + self.variables.len();
            return wrong(format!("there is no input {at}: there are {count}, counted from 0"));
        };
        if let Some(dtype) = tensor.dtype
            && desc.dtype != DType::Undefined
            && dtype != desc.dtype
        {
            return wrong(format!(
                "input {at} ({name}) is of type {dtype}: expected {}",
                desc.dtype
            ));
        }
        let is_static = self.is_static();
        let dims = tensor.dims.as_ref().filter(|_| !is_static).unwrap_or(&desc.dims);
        let is_single = |dims: &[i64]| dims.is_empty() || dims == [1];
        let dims = if is_single(dims) && is_single(&desc.dims) { &desc.dims } else { dims };
        if !desc.accepts(dims) {
            return wrong(format!(
                "input {at} ({name}) has the sizes {dims:?}: expected {:?}",
                desc.dims
            ));
        }
        let dtype = tensor.dtype.unwrap_or(desc.dtype);
        let Some(layout) = Desc::new(dtype, dims).layout() else {
            return wrong(format!(
                "input {at} ({name}) has the sizes {dims:?}: they must be known to run"
            ));
        };
        let want = layout.bytes();
        if tensor.is_empty() && want > 0 {
            return wrong(format!("input {at} ({name}) has no memory"));
        }
        let have = tensor.host.as_ref().map_or(tensor.bytes, |host| host.len().min(tensor.bytes));
        let slack = if is_static { SLACK } else { 0 };
        if have.saturating_add(slack) < want {
            return wrong(format!(
                "input {at} ({name}) is {layout}, {want} bytes; its memory has {have}"
            ));
        }
        Ok(match &tensor.host {
            None => RunInput { layout, address: tensor.address, host: None },
            Some(host) if host.len() == want => {
                RunInput { layout, address: 0, host: Some(host.clone()) }
            }
            Some(host) => {
                let mut bytes = host[..have.min(want)].to_vec();
                bytes.resize(want, 0);
                RunInput { layout, address: 0, host: Some(bytes.into()) }
            }
        })
    }

    /// The bytes of a model of the graph: as it was when it was compiled, with what was inferred.
    pub fn model(&self) -> Result<Vec<u8>> {
        let Some((graph, options)) = &self.source else {
            return Err(Failure::failed(format!("{}: the graph was not kept", self.label)));
        };
        let described = prepare(graph, options).and_then(|ready| described(graph, &ready));
        Ok(model::write(&described.map_err(|failure| failure.in_context(&self.label))?))
    }

    /// The graph as a trace for `chrome://tracing`: its name, and under `otherData` the nodes that run, in order. It has
    /// no events: no run is measured.
    pub fn json(&self) -> String {
        let nodes: Vec<String> = match &self.kind {
            Kind::Static { program, .. } => program
                .init
                .iter()
                .chain(&program.steps)
                .map(|step| step.name.to_string())
                .collect(),
            Kind::Dynamic { flow, .. } => (flow.prepared.work_nodes.iter())
                .map(|work| format!("{} ({})", work.name(), work.kind()))
                .collect(),
        };
        let process =
            json!({"name": "process_name", "ph": "M", "pid": 0, "args": {"name": &*self.label}});
        let other_data =
            json!({"graph": &*self.label, "isStatic": self.is_static(), "nodes": nodes});
        json!({"traceEvents": [process], "otherData": other_data}).to_string()
    }

    /// The constants that a load uploads.
    pub fn constants(&self) -> Constants {
        self.constants.lock().clone()
    }

    /// Whether all sizes are known.
    pub fn is_static(&self) -> bool {
        matches!(self.kind, Kind::Static { .. })
    }

    /// Bytes of const memory.
    pub fn const_bytes(&self) -> u64 {
        match &self.kind {
            Kind::Static { program, .. } => program.const_bytes,
            Kind::Dynamic { flow, .. } => flow.const_bytes,
        }
    }

    /// Bytes of fixed feature memory.
    pub fn fixed_bytes(&self) -> u64 {
        match &self.kind {
            Kind::Static { program, .. } => program.fixed_bytes,
            Kind::Dynamic { .. } => 0,
        }
    }

    /// Bytes of feature memory that is not fixed.
    pub fn refreshable_bytes(&self) -> u64 {
        match &self.kind {
            Kind::Static { program, .. } => program.feature_bytes,
            Kind::Dynamic { .. } => 0,
        }
    }

    /// Bytes of all feature memory.
    pub fn feature_bytes(&self) -> u64 {
        self.refreshable_bytes() + self.fixed_bytes()
    }

    /// Const memory as reported to the user.
    pub fn reported_const_bytes(&self) -> u64 {
        self.const_bytes().max(MIN_REPORTED_BYTES)
    }

    /// Refreshable feature memory as reported to the user.
    pub fn reported_refreshable_bytes(&self) -> u64 {
        self.refreshable_bytes().max(MIN_REPORTED_BYTES)
    }

    /// All feature memory as reported to the user.
    pub fn reported_feature_bytes(&self) -> u64 {
        self.feature_bytes().max(MIN_REPORTED_BYTES)
    }
}
