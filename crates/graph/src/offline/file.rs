//! Models as bytes: files of ours, of ONNX, and those that cannot run here.

use super::build::{BuildOptions, OfflineModel};
use super::container::{self, Container, ContainerError};
use super::description::{self, Description};
use super::external::{self, WeightFile, WeightFiles, WeightPlacement};
use super::pieces::Pieces;
use super::source::ModelBytes;
use super::weights;
use crate::failure::{Failure, Result, Status};
use crate::ir::Attr;
use crate::{model, onnx};
use bytes::Bytes;
use cairn_runtime::error::Code;
use std::collections::BTreeMap;
use std::path::Path;

/// The attribute of a compiled graph with the name of the SoC it was compiled for.
const SOC_VERSION: &str = "soc_version";

/// How many of the first bytes decide what a model is.
const HEAD: usize = 17;

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
        self.clone().into_file(&WeightPlacement::Inside).0.to_vec()
    }

    /// What a file holds, and those of its weights that are in files of their own.
    pub fn into_file(self, placement: &WeightPlacement) -> (Pieces, Vec<WeightFile>) {
        let OfflineModel { mut graph, description } = self;
        let files = external::take_out(&mut graph, placement);
        let weights = weights::take_out(&mut graph);
        let mut graph_bytes = model::write(&graph);
        drop(graph);
        let described = description::write(&description);
        let head = |graph: usize| {
            let lengths = [
                (container::GRAPH, graph as u64),
                (container::WEIGHTS, weights.length() as u64),
                (container::DESCRIPTION, described.len() as u64),
            ];
            container::head(&description.name, description.is_dynamic(), &lengths)
        };
        let start = head(graph_bytes.len()).len() + graph_bytes.len();
        model::pad(&mut graph_bytes, start, weights::ALIGN);
        let mut file = Pieces::default();
        file.push(head(graph_bytes.len()));
        file.push(graph_bytes);
        file.append(weights);
        file.push(described);
        (file, files)
    }

    /// Reads a model: a file that Cairn built, or a model of ONNX. `folder` is where the file is; files of weights are
    /// looked up there.
    pub fn read(bytes: &dyn ModelBytes, folder: Option<&Path>) -> Result<OfflineModel> {
        OfflineModel::read_with_files(bytes, folder, &BTreeMap::new())
    }

    /// Reads a model, as [`OfflineModel::read`]. `files` has the bytes of files of weights that are not looked up in
    /// the folder, by name.
    pub fn read_with_files(
        bytes: &dyn ModelBytes,
        folder: Option<&Path>,
        files: &BTreeMap<String, Bytes>,
    ) -> Result<OfflineModel> {
        let head = bytes.head(HEAD).map_err(|text| malformed(&text))?;
        if container::has_magic(&head) {
            return read_container(&open(bytes)?, &WeightFiles::new(folder, files));
        }
        if head.starts_with(ARCHIVE) {
            return Err(failure_with_code(
                Code::ModelKernel,
                "the model is an archive (om2) for an NPU, which cannot run here: convert the original model with this toolkit's atc".to_owned(),
            ));
        }
        let is_onnx = head.len() == HEAD && head[0] == 0x08;
        if !is_onnx {
            open(bytes)?;
        }
        let options = onnx::ReadOptions {
            folder: folder.map(Path::to_owned),
            files: files.clone(),
            ..onnx::ReadOptions::default()
        };
        let graph = (bytes.all())
            .and_then(|bytes| onnx::read(bytes, &options))
            .map_err(|text| failure_with_code(Code::ModelParse, text))?;
        OfflineModel::build(graph, &BuildOptions::default())
    }

    /// Whether the bytes are a bundle of several models.
    pub fn is_bundle(bytes: &dyn ModelBytes) -> bool {
        matches!(container::read(bytes), Err(ContainerError::Bundle))
    }

    /// What programs may know of the model in these bytes.
    pub fn read_description(bytes: &dyn ModelBytes, folder: Option<&Path>) -> Result<Description> {
        let head = bytes.head(HEAD).map_err(|text| malformed(&text))?;
        match container::has_magic(&head) {
            true => describe(&open(bytes)?),
            false => OfflineModel::read(bytes, folder).map(|model| model.description),
        }
    }
}

pub(super) fn open(bytes: &dyn ModelBytes) -> Result<Container<'_>> {
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
    let part = container.part(container::DESCRIPTION).map_err(|text| malformed(&text))?;
    description::read(&part).ok_or_else(|| malformed("its description cannot be read"))
}

fn read_container(container: &Container<'_>, files: &WeightFiles<'_>) -> Result<OfflineModel> {
    let description = describe(container)?;
    let graph = container.part(container::GRAPH).and_then(model::read);
    let mut graph = graph.map_err(|text| malformed(&text))?;
    weights::put_back(&mut graph, container)
        .and_then(|()| external::put_back(&mut graph, files))
        .map_err(|text| failure_with_code(Code::ModelWeight, text))?;
    Ok(OfflineModel { graph, description })
}

/// Refuses a file that was compiled for an NPU: its graph is not the one that was compiled.
fn expect_ours(container: &Container<'_>) -> Result<()> {
    if container.is_ours {
        return Ok(());
    }
    let has = |kind: u32| container.range(kind).is_some_and(|part| !part.is_empty());
    let graph = container.part(container::GRAPH).and_then(model::read);
    let soc = graph.as_ref().ok().and_then(|graph| match graph.attrs.get(SOC_VERSION) {
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
