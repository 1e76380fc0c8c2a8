//! Models as bytes: files of ours, of ONNX, and those that cannot run here.

use super::build::{BuildOptions, OfflineModel};
use super::container::{self, Container, ContainerError};
use super::description::{self, Description};
use super::external::{self, WeightFile, WeightFiles, WeightPlacement};
use super::weights;
use crate::failure::{Failure, Result, Status};
use crate::ir::Attr;
use crate::{model, onnx};
use cairn_runtime::error::Code;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// The attribute of a compiled graph with the name of the SoC it was compiled for.
const SOC_VERSION: &str = "soc_version";

/// The first bytes of an archive, which newer model files are.
const ARCHIVE: &[u8] = b"PK\x03\x04";

/// A failure with a code of the ACL domain.
fn failure_with_code(code: Code, text: String) -> Failure {
    Failure { status: Status::Failed, code, text }
}

fn malformed(text: &str) -> Failure {
    failure_with_code(Code::ModelParse, format!("the bytes are no model: {text}"))
}

impl OfflineModel {
    /// The bytes of a file.
    pub fn write(&self) -> Vec<u8> {
        self.write_with_weights(&WeightPlacement::Inside).0
    }

    /// The bytes of a file, and those of its weights that are in files of their own.
    pub fn write_with_weights(&self, placement: &WeightPlacement) -> (Vec<u8>, Vec<WeightFile>) {
        let mut graph = self.graph.clone();
        let files = external::take_out(&mut graph, placement);
        let weights = weights::take_out(&mut graph);
        let description = description::write(&self.description);
        let graph = model::write(&graph);
        let parts = [
            (container::GRAPH, &graph[..]),
            (container::WEIGHTS, &weights[..]),
            (container::DESCRIPTION, &description[..]),
        ];
        let is_dynamic = self.description.is_dynamic();
        (container::write(&self.description.name, is_dynamic, &parts), files)
    }

    /// Reads a model: a file that Cairn built, or a model of ONNX. `folder` is where the file is; files of weights are
    /// looked up there.
    pub fn read(bytes: &[u8], folder: Option<&Path>) -> Result<OfflineModel> {
        OfflineModel::read_with_files(bytes, folder, &BTreeMap::new())
    }

    /// Reads a model, as [`OfflineModel::read`]. `files` has the bytes of files of weights that are not looked up in
    /// the folder, by name.
    pub fn read_with_files(
        bytes: &[u8],
        folder: Option<&Path>,
        files: &BTreeMap<String, Arc<[u8]>>,
    ) -> Result<OfflineModel> {
        if container::has_magic(bytes) {
            let files = WeightFiles { folder, in_memory: files };
            return read_container(&open(bytes)?, &files);
        }
        if bytes.starts_with(ARCHIVE) {
            return Err(failure_with_code(
                Code::ModelKernel,
                "the model is an archive (om2) for an NPU, which cannot run here: convert the original model with this toolkit's atc".to_owned(),
            ));
        }
        let is_onnx = bytes.len() > 16 && bytes[0] == 0x08;
        if !is_onnx {
            open(bytes)?;
        }
        let options = onnx::ReadOptions {
            folder: folder.map(Path::to_owned),
            files: files.clone(),
            ..onnx::ReadOptions::default()
        };
        let graph = onnx::read(bytes.to_vec(), &options)
            .map_err(|text| failure_with_code(Code::ModelParse, text))?;
        OfflineModel::build(graph, &BuildOptions::default())
    }

    /// Whether the bytes are a bundle of several models.
    pub fn is_bundle(bytes: &[u8]) -> bool {
        matches!(container::read(bytes), Err(ContainerError::Bundle))
    }

    /// What programs may know of the model in these bytes.
    pub fn read_description(bytes: &[u8], folder: Option<&Path>) -> Result<Description> {
        match container::has_magic(bytes) {
            true => describe(&open(bytes)?),
            false => OfflineModel::read(bytes, folder).map(|model| model.description),
        }
    }
}

pub(super) fn open(bytes: &[u8]) -> Result<Container<'_>> {
    container::read(bytes).map_err(|error| match error {
        ContainerError::Malformed(text) => malformed(&text),
        ContainerError::Bundle => failure_with_code(
            Code::GeFailure,
            "the file is a bundle of several models: bundles are not supported".to_owned(),
        ),
    })
}

fn describe(container: &Container<'_>) -> Result<Description> {
    expect_ours(container)?;
    let part = container.part(container::DESCRIPTION).unwrap_or_default();
    description::read(part).ok_or_else(|| malformed("its description cannot be read"))
}

fn read_container(container: &Container<'_>, files: &WeightFiles<'_>) -> Result<OfflineModel> {
    let description = describe(container)?;
    let part = container.part(container::GRAPH).unwrap_or_default();
    let mut graph = model::read(part).map_err(|text| malformed(&text))?;
    let stored = container.part(container::WEIGHTS).unwrap_or_default();
    weights::put_back(&mut graph, stored)
        .and_then(|()| external::put_back(&mut graph, files))
        .map_err(|text| failure_with_code(Code::ModelWeight, text))?;
    Ok(OfflineModel { graph, description })
}

/// Refuses a file that was compiled for an NPU: its graph is not the one that was compiled.
fn expect_ours(container: &Container<'_>) -> Result<()> {
    if container.is_ours {
        return Ok(());
    }
    let has = |kind: u32| container.part(kind).is_some_and(|part| !part.is_empty());
    let graph = container.part(container::GRAPH).and_then(|part| model::read(part).ok());
    let soc = graph.as_ref().and_then(|graph| match graph.attrs.get(SOC_VERSION) {
        Some(Attr::Text(name)) => Some(String::from_utf8_lossy(name).into_owned()),
        _ => None,
    });
    let soc = soc.map_or_else(String::new, |name| format!(" (soc {name})"));
    let what = match has(container::TASKS) || has(container::KERNELS) {
        true => "was compiled for an NPU",
        false => "was not built by this toolkit",
    };
    Err(failure_with_code(
        Code::ModelKernel,
        format!(
            "the model {what}{soc} and cannot run here: convert the original model with this toolkit's atc"
        ),
    ))
}
