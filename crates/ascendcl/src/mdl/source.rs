//! Where a model comes from: a file, or memory of the host.

use crate::abi::aclmdlModel;
use crate::door::{not_null, runtime, string};
use bytes::Bytes;
use cairn_graph::offline::{CompiledModel, Description, ModelBytes, OfflineModel};
use cairn_graph::{Failure, open_file};
use cairn_runtime::error::{Code, Error, Result};
use cairn_runtime::memory::raw;
use std::collections::BTreeMap;
use std::ffi::{c_char, c_void};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// The bytes of a model, and the files that it refers to.
pub struct ModelSource {
    bytes: Box<dyn ModelBytes>,
    /// The folder of its files; `None` for the working directory.
    pub folder: Option<PathBuf>,
    /// The bytes of files that the user has in memory, by name.
    pub files: BTreeMap<String, Bytes>,
}

impl ModelSource {
    /// The model in a file.
    pub fn of_file(path: &str) -> Result<ModelSource> {
        let unreadable = |why: String| {
            Error::new(Code::ModelPath, format!("the model {path} cannot be read: {why}"))
        };
        let metadata = std::fs::metadata(path).map_err(|error| unreadable(error.to_string()))?;
        if !metadata.is_file() {
            return Err(unreadable("it is no file".into()));
        }
        let path = Path::new(path);
        let bytes = open_file(path).map_err(|error| unreadable(error.to_string()))?;
        let folder = path.parent().map(Path::to_path_buf);
        Ok(ModelSource { bytes: Box::new(bytes), folder, files: BTreeMap::new() })
    }

    /// The model in host memory, which stays valid until it is read.
    pub fn of_memory(model: *const c_void, bytes: usize) -> Result<ModelSource> {
        not_null(model, "model")?;
        if bytes == 0 {
            return Err(Error::invalid("modelSize = 0: a model has data"));
        }
        raw::expect_readable(model as usize, bytes, "the model")?;
        let bytes = Box::new(HostBytes { address: model as usize, bytes });
        Ok(ModelSource { bytes, folder: None, files: BTreeMap::new() })
    }

    /// A model that `aclgrphBuildModelFromFile` or `aclgrphBuildModelFromData` built: an object that begins
    /// with the address and the number of its bytes (`cpp/ir_build.cpp`).
    pub fn of_object(model: *const aclmdlModel) -> Result<ModelSource> {
        const WORD: usize = size_of::<usize>();
        let head = runtime()?.copy_from_host("model", model as usize, 2 * WORD)?;
        let word = |at: usize| {
            head.get(at * WORD..)
                .and_then(|bytes| bytes.first_chunk())
                .map_or(0, |bytes| usize::from_le_bytes(*bytes))
        };
        ModelSource::of_memory(word(0) as *const c_void, word(1))
    }

    /// The model in the file of a path of the user.
    ///
    /// # Safety
    /// `path` is null or a NUL-terminated string.
    pub unsafe fn of_path(path: *const c_char, name: &str) -> Result<ModelSource> {
        // SAFETY: as the caller vouches.
        ModelSource::of_file(&unsafe { string(path, name) }?)
    }

    /// Reads the model.
    pub fn read(&self) -> Result<OfflineModel> {
        OfflineModel::read_with_files(&*self.bytes, self.folder.as_deref(), &self.files)
            .map_err(model_error)
    }

    /// Its inputs and outputs.
    pub fn describe(&self) -> Result<Description> {
        OfflineModel::read_description(&*self.bytes, self.folder.as_deref()).map_err(model_error)
    }

    /// Whether the bytes are a bundle of several models.
    pub fn is_bundle(&self) -> bool {
        OfflineModel::is_bundle(&*self.bytes)
    }
}

/// Bytes of the program, in host memory. Each part is copied when it is read.
struct HostBytes {
    address: usize,
    bytes: usize,
}

impl ModelBytes for HostBytes {
    fn length(&self) -> usize {
        self.bytes
    }

    fn part(&self, range: Range<usize>) -> std::result::Result<Bytes, String> {
        let copy = runtime().and_then(|runtime| {
            runtime.copy_from_host("the model", self.address + range.start, range.len())
        });
        copy.map(Bytes::from).map_err(|error| error.text)
    }
}

/// Compiles a model.
pub fn compile(model: &OfflineModel) -> Result<CompiledModel> {
    model.compile().map_err(model_error)
}

/// The error of a model that cannot be read or compiled: no argument of the call is wrong.
fn model_error(failure: Failure) -> Error {
    let Error { code, text } = failure.into();
    let code = if code == Code::InvalidParam { Code::ModelGraph } else { code };
    Error { code, text }
}
