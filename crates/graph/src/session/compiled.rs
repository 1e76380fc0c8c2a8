//! A graph that is compiled: a program or a flow, and what the user may know about it.

use super::options::Options;
use crate::compile::described::described;
use crate::compile::flow::{Flow, flow};
use crate::compile::prepare::{Wishes, prepare};
use crate::compile::program::{Program, Refused, program};
use crate::failure::Result;
use crate::ir::{Desc, Graph};
use crate::model;
use crate::run::dynamic::Plans;
use crate::run::pass::{Part, Pass};
use std::collections::BTreeSet;
use std::sync::Arc;

/// A compiled graph. It holds no memory of a device and serves any number of runs.
pub struct Compiled {
    /// What the user calls it, for texts.
    pub label: Arc<str>,
    /// What comes in: name, description.
    pub inputs: Vec<(String, Desc)>,
    /// The variables of the session that come in behind that: name, description.
    pub variables: Vec<(String, Desc)>,
    /// What goes out.
    pub outputs: Vec<Desc>,
    /// The name of the node that makes each of these.
    pub makers: Vec<String>,
    /// How it runs.
    pub kind: Kind,
    /// Whether feature memory may change from run to run.
    pub is_refreshable: bool,
    /// Whether fixed feature memory is apart from the rest.
    pub keeps_fixed_apart: bool,
    /// Pairs of an input and an output that are one memory.
    pub reuse: Vec<(usize, usize)>,
    /// What was compiled, and how.
    source: (Graph, Wishes),
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

/// What 0 bytes of const or feature memory are told as.
const LEAST: u64 = 512;

impl Compiled {
    /// Compiles a graph. `inputs` replaces the descriptions of its inputs, unless it is empty.
    pub fn new(
        graph: Graph,
        label: Arc<str>,
        options: &Options,
        inputs: Vec<Desc>,
    ) -> Result<Compiled> {
        let wishes = Wishes { inputs, folds: options.folds() };
        let prepared = prepare(&graph, &wishes).map_err(|failure| failure.within(&label))?;
        let mut inputs: Vec<(String, Desc)> =
            prepared.inputs.iter().map(|one| (one.name.clone(), one.desc.clone())).collect();
        let variables = inputs.split_off(inputs.len() - prepared.variables);
        let (ins, outs) = (inputs.len(), prepared.outputs.len());
        let reuse = options.reuse(ins, outs).map_err(|failure| failure.within(&label))?;
        options.host_inputs(ins).map_err(|failure| failure.within(&label))?;
        let outputs = prepared.outputs.iter().map(|one| one.desc.clone()).collect();
        let names: Vec<String> = prepared.inputs.iter().map(|one| one.name.clone()).collect();
        let makers: Vec<String> = prepared.outputs.iter().map(|one| one.name.clone()).collect();
        let bound = match prepared.is_static {
            true => {
                let apart: BTreeSet<usize> = reuse.iter().map(|(_, output)| *output).collect();
                match program(&prepared, &apart, options.fuses()) {
                    Ok(program) => Some(Arc::new(program)),
                    Err(Refused::Values) => None,
                    Err(Refused::Failed(failure)) => return Err(failure.within(&label)),
                }
            }
            false => None,
        };
        let kind = match bound {
            Some(program) => {
                let pass = |part| Pass::new(&program, part, label.clone(), (&names, &makers));
                let (init, steps) = (pass(Part::Init), pass(Part::Steps));
                Kind::Static { program, init, steps }
            }
            None => Kind::Dynamic { flow: Arc::new(flow(prepared)), plans: Plans::default() },
        };
        let (is_refreshable, keeps_fixed_apart) =
            (options.is_refreshable(), options.keeps_fixed_apart());
        Ok(Compiled {
            label,
            inputs,
            variables,
            outputs,
            makers,
            kind,
            is_refreshable,
            keeps_fixed_apart,
            reuse,
            source: (graph, wishes),
        })
    }

    /// The bytes of a model of the graph: as it was when it was compiled, with what was inferred.
    pub fn model(&self) -> Result<Vec<u8>> {
        let (graph, wishes) = &self.source;
        let described = prepare(graph, wishes).and_then(|ready| described(graph, &ready));
        Ok(model::write(&described.map_err(|failure| failure.within(&self.label))?))
    }

    /// The nodes that run, in order, as events for `chrome://tracing`. Times are places, not measurements.
    pub fn json(&self) -> String {
        let names: Vec<String> = match &self.kind {
            Kind::Static { program, .. } => program
                .init
                .iter()
                .chain(&program.steps)
                .map(|step| step.name.to_string())
                .collect(),
            Kind::Dynamic { flow, .. } => (flow.prepared.works.iter())
                .map(|work| format!("{} ({})", work.operation.name, work.operation.row.name))
                .collect(),
        };
        let events: Vec<String> = (names.iter().enumerate())
            .map(|(at, name)| {
                let name: String = name.chars().flat_map(char::escape_default).collect();
                format!(
                    "{{\"name\":\"{name}\",\"ph\":\"X\",\"ts\":{at},\"dur\":1,\"pid\":0,\"tid\":0}}"
                )
            })
            .collect();
        format!("{{\"traceEvents\":[{}]}}", events.join(","))
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

    /// Const memory as the user is told.
    pub fn const_size(&self) -> u64 {
        self.const_bytes().max(LEAST)
    }

    /// Refreshable feature memory as the user is told.
    pub fn refreshable_size(&self) -> u64 {
        self.refreshable_bytes().max(LEAST)
    }

    /// All feature memory as the user is told.
    pub fn feature_size(&self) -> u64 {
        (self.refreshable_bytes() + self.fixed_bytes()).max(LEAST)
    }
}
