//! A graph of a session that is loaded: an executable with its memory, and what the session's options say of its inputs.

use super::entry::Entry;
use super::options::Options;
use super::variables::{Variable, Variables};
use crate::executable::{Bases, CallersRange, Executable, LoadOptions, LoadedExecutable};
use crate::failure::{Failure, Result};
use cairn_exec::Target;
use cairn_runtime::lock::{Mutex, Rank};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// How a graph is loaded.
pub struct LoadRequest<'a> {
    /// Where, and from whom the memory is taken.
    pub target: &'a Target<'a>,
    /// The variables of the session.
    pub variables: &'a Variables,
    /// Options of the call; those of the graph come before them.
    pub options: &'a Options,
    /// Memory of the caller that the run which loads the graph uses.
    pub in_use: &'a [CallersRange],
}

/// A graph that is loaded.
pub struct LoadedGraph {
    /// What was compiled, with its memory.
    pub loaded: LoadedExecutable,
    /// Inputs that may lie on the host.
    pub host_inputs: BTreeSet<usize>,
    /// The variables it names.
    pub variables: Vec<Arc<Variable>>,
    /// Frozen inputs, whose address stays: index, and the address once it is known.
    frozen: Mutex<BTreeMap<usize, Option<usize>>>,
}

impl LoadedGraph {
    /// Takes memory for a compiled graph and fills it.
    pub fn new(
        entry: &Entry,
        executable: &Arc<Executable>,
        request: &LoadRequest<'_>,
        bases: Bases,
    ) -> Result<LoadedGraph> {
        let options = entry.options.with_defaults(request.options);
        let count = executable.inputs.len();
        let of_graph = |failure: Failure| failure.in_context(&entry.label);
        let host_inputs = options.host_inputs(count).map_err(of_graph)?;
        let frozen = options.frozen_inputs(count).map_err(of_graph)?;
        if let Some(at) = frozen.keys().find(|at| host_inputs.contains(*at)) {
            return Err(Failure::invalid(format!(
                "input {at} of {} is both frozen and on the host: it can be one of them",
                entry.label
            )));
        }
        for at in frozen.keys() {
            let desc = &executable.inputs[*at].1;
            if !desc.is_known() || desc.dims.contains(&0) {
                return Err(Failure::invalid(format!(
                    "input {at} of {} is {desc}: a frozen input has known sizes above 0",
                    entry.label
                )));
            }
        }
        let stream = &request.target.stream;
        let variables = (request.variables)
            .get_or_create(entry.runtime, stream, &executable.variables)
            .map_err(|failure| failure.in_context(&entry.label))?;
        let options =
            LoadOptions { id: entry.id, bases, in_use: request.in_use, ..LoadOptions::default() };
        let loaded = executable.load(request.target, &options)?;
        let frozen = Mutex::new(Rank::Runs, frozen);
        Ok(LoadedGraph { loaded, host_inputs, variables, frozen })
    }

    /// What was compiled.
    pub fn executable(&self) -> &Arc<Executable> {
        &self.loaded.executable
    }

    /// Keeps the address of a frozen input that has none yet: a run with it was submitted.
    pub fn freeze(&self, at: usize, address: usize) {
        if let Some(frozen) = self.frozen.lock().get_mut(&at) {
            frozen.get_or_insert(address);
        }
    }

    /// Fails for an input that is frozen elsewhere.
    pub fn check_frozen(&self, at: usize, address: usize) -> Result<()> {
        let Some(Some(known)) = self.frozen.lock().get(&at).copied() else { return Ok(()) };
        match known == address {
            true => Ok(()),
            false => Err(Failure::invalid(format!(
                "input {at} of {} is frozen at {known:#x} (ge.exec.frozenInputIndexes), and is given at {address:#x}",
                self.executable().label
            ))),
        }
    }
}
