//! What tools show of a model file: any file of the container's form, also one that cannot run here.

use super::container::{self, Container};
use super::description::{self, Description};
use super::external;
use super::file::open;
use super::source::ModelBytes;
use super::weights;
use crate::failure::Result;
use crate::ir::{Attr, Graph};
use crate::model;
use serde_json::Value;

/// A model file, opened to look at it.
pub struct ModelFile<'a> {
    container: Container<'a>,
    graph: std::result::Result<Graph, String>,
}

impl ModelFile<'_> {
    /// Opens the bytes of a file.
    pub fn open(bytes: &dyn ModelBytes) -> Result<ModelFile<'_>> {
        let container = open(bytes)?;
        let graph = container.part(container::GRAPH).and_then(model::read);
        Ok(ModelFile { container, graph })
    }

    /// The graph as JSON, with the names of the format's fields.
    pub fn graph_json(&self) -> std::result::Result<Value, String> {
        model::to_json(&self.container.part(container::GRAPH)?)
    }

    /// Whether Cairn wrote it.
    pub fn is_ours(&self) -> bool {
        self.container.is_ours
    }

    /// The name of the graph.
    pub fn name(&self) -> String {
        self.graph.as_ref().map_or_else(|_| String::new(), |graph| graph.name.clone())
    }

    /// An attribute of the graph that is a text.
    pub fn attr(&self, name: &str) -> Option<String> {
        match self.graph.as_ref().ok()?.attrs.get(name)? {
            Attr::Text(text) => Some(String::from_utf8_lossy(text).into_owned()),
            _ => None,
        }
    }

    /// Whether weights are in files beside it.
    pub fn has_weight_files(&self) -> bool {
        self.graph.as_ref().is_ok_and(external::has_files)
    }

    /// The bytes of the graph.
    pub fn graph_bytes(&self) -> usize {
        self.container.range(container::GRAPH).unwrap_or_default().len()
    }

    /// The bytes of the weights.
    pub fn weight_bytes(&self) -> usize {
        self.container.range(container::WEIGHTS).unwrap_or_default().len()
    }

    /// Inputs, outputs and gears, if Cairn wrote it.
    pub fn description(&self) -> Option<Description> {
        let part = self.container.part(container::DESCRIPTION).ok()?;
        self.is_ours().then(|| description::read(&part))?
    }
}

/// A graph as JSON, without the bytes of large constants.
pub fn graph_json(mut graph: Graph) -> std::result::Result<Value, String> {
    weights::take_out(&mut graph);
    model::to_json(&model::write(&graph))
}
