//! Weights in files of their own, in a folder beside the model.

use crate::Problem;
use crate::convert::{create_folder_of, write_file};
use cairn_graph::Failure;
use cairn_graph::offline::{
    ModelFile, OfflineModel, Pieces, WEIGHT_FOLDER, WeightFile, WeightPlacement,
};
use std::path::Path;

/// The attribute of a model that was built in memory: where its weights go when it is saved.
pub const EXTERNAL_WEIGHT: &str = "_cairn_external_weight";

/// Where weights go, by the value of `--external_weight`. `name` is that of the model.
pub fn placement(value: &str, name: &str) -> WeightPlacement {
    match value {
        "1" => WeightPlacement::Separate,
        "2" => WeightPlacement::Combined(format!("{name}_weight_combined")),
        _ => WeightPlacement::Inside,
    }
}

/// Writes weights into the folder beside the file of their model.
pub fn write(flag: &str, model: &Path, files: &[WeightFile]) -> Result<(), Problem> {
    let folder = model.parent().unwrap_or(Path::new("")).join(WEIGHT_FOLDER);
    for file in files {
        let path = folder.join(&file.name);
        create_folder_of(flag, &path)?;
        write_file(flag, &path, &file.content)?;
    }
    Ok(())
}

/// Saves a model that was built in memory; its weights go where its options said. Bytes that are no model file fail, and
/// so does a bundle.
pub fn save_model(path: &Path, bytes: &[u8]) -> cairn_graph::Result<()> {
    let failed = |problem: Problem| Failure::failed(format!("{}: {}", problem.code, problem.text));
    let value = ModelFile::open(&bytes)?.attr(EXTERNAL_WEIGHT).unwrap_or_default();
    let name = path.file_stem().map(|name| name.to_string_lossy().into_owned());
    let (content, files) = match placement(&value, &name.unwrap_or_default()) {
        WeightPlacement::Inside => (Pieces::from(bytes.to_vec()), Vec::new()),
        placement => OfflineModel::read(&bytes, None)?.into_file(&placement),
    };
    write("output", path, &files).map_err(failed)?;
    write_file("output", path, &content).map_err(failed)
}
