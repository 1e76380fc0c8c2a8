//! Loading and unloading.

use super::source::{ModelSource, compile};
use super::streams::ModelStreams;
use super::table::{self, Model};
use crate::door::{entry, not_null, runtime, write};
use crate::init;
use cairn_exec::Target;
use cairn_graph::ir::{Attr, Graph};
use cairn_graph::offline::{CompiledModel, ModelMemory};
use cairn_runtime::Runtime;
use cairn_runtime::error::{Code, Error, Result};
use cairn_runtime::memory::{AddressInfo, describe};
use std::collections::BTreeMap;
use std::ffi::{CString, c_char, c_void};

/// The attribute of a node with the names of the operators that it was fused from.
pub const ORIGIN_NAMES: &str = "_datadump_original_op_names";

/// Memory of the user.
#[derive(Clone, Copy, Debug, Default)]
pub struct UserMemory {
    /// First byte; 0 for none.
    pub address: usize,
    /// How many.
    pub bytes: usize,
}

/// How a model is loaded.
#[derive(Clone, Copy, Debug, Default)]
pub struct LoadSettings {
    /// For intermediates and workspaces.
    pub work: UserMemory,
    /// For constants.
    pub weights: UserMemory,
    /// The priority of the model's own stream.
    pub priority: u32,
    /// Whether only a model whose sizes are all known is accepted.
    pub only_static: bool,
}

/// Fails before `aclInit`.
pub fn expect_initialised() -> Result<()> {
    match init::is_initialised() {
        true => Ok(()),
        false => Err(Error::new(Code::Uninitialized, "call aclInit before a model is loaded")),
    }
}

/// Loads a model; its id. Waits until its constants are in place.
pub fn load(source: &ModelSource, settings: LoadSettings) -> Result<u32> {
    let runtime = runtime()?;
    let streams = ModelStreams::new(runtime)?;
    let model = source.read()?;
    let compiled = compile(&model)?;
    let origin_names = origin_names(&model.graph);
    drop(model);
    if settings.only_static && compiled.is_dynamic() {
        return Err(Error::new(
            Code::ModelInput,
            "ACL_MDL_WITHOUT_GRAPH_INT32 = 1: only for models whose sizes are all known",
        ));
    }
    let stream = streams.stream(runtime, settings.priority)?;
    let device = stream.spec.device;
    let memory = user_memory(runtime, device, &compiled, settings)?;
    let id = table::next_id();
    let target = Target::built_in(runtime, stream.clone());
    let loaded =
        compiled.load(&target, id, memory).map_err(|failure| load_error(failure.into()))?;
    runtime.synchronize(&stream, None)?;
    table::insert(Model::new(id, device, settings.priority, loaded, streams, origin_names));
    Ok(id)
}

/// The error of a load: out of memory has a code of its own.
fn load_error(error: Error) -> Error {
    let is_memory = error.code == Code::MemoryAllocation;
    Error { code: if is_memory { Code::ModelMemory } else { error.code }, text: error.text }
}

/// Checks the memory of the user. A dynamic-shape model does not use work memory.
fn user_memory(
    runtime: &Runtime,
    device: u32,
    compiled: &CompiledModel,
    settings: LoadSettings,
) -> Result<ModelMemory> {
    let check = |what: &str, memory: UserMemory, want: u64| -> Result<Option<usize>> {
        let UserMemory { address, bytes } = memory;
        if address == 0 {
            return Ok(None);
        }
        if (bytes as u64) < want {
            return Err(Error::new(
                Code::ModelInput,
                format!("E13025: the {what} memory has {bytes} bytes, the model needs {want}"),
            ));
        }
        let info = runtime.shared.memory.enclosing(address);
        match &info {
            AddressInfo::Device(at, Some(block))
                if *at == device
                    && block.live
                    && address as u64 + want <= block.start as u64 + block.bytes =>
            {
                Ok(Some(address))
            }
            _ => Err(Error::new(
                Code::ModelInput,
                format!(
                    "E13025: the {what} memory at {address:#x} is {}: expected {want} bytes of device {device}",
                    describe(address, &runtime.shared.memory.locate(address))
                ),
            )),
        }
    };
    let work = match compiled.is_dynamic() {
        true => None,
        false => check("work", settings.work, compiled.work_bytes())?,
    };
    let weights = check("weight", settings.weights, compiled.weight_bytes())?;
    Ok(ModelMemory { work, weights })
}

/// The results of `aclmdlGetOpAttr`, by node.
fn origin_names(graph: &Graph) -> BTreeMap<String, CString> {
    let text = |names: &[Vec<u8>]| -> Vec<u8> {
        names
            .iter()
            .flat_map(|name| [format!("[{}]", name.len()).as_bytes(), name].concat())
            .filter(|byte| *byte != 0)
            .collect()
    };
    (graph.nodes())
        .filter_map(|(_, node)| match node.attrs.get(ORIGIN_NAMES) {
            Some(Attr::Texts(names)) => {
                Some((node.name.clone(), CString::new(text(names)).unwrap_or_default()))
            }
            _ => None,
        })
        .collect()
}

/// Loads and writes the id.
///
/// # Safety
/// `id` is null or points to writable memory.
unsafe fn load_into(
    id: *mut u32,
    source: impl FnOnce() -> Result<ModelSource>,
    settings: LoadSettings,
) -> Result<()> {
    not_null(id, "modelId")?;
    expect_initialised()?;
    let loaded = load(&source()?, settings)?;
    // SAFETY: as the caller vouches.
    unsafe { write(id, "modelId", loaded) }
}

/// The settings of a load into memory of the user.
fn with_memory(
    work: *mut c_void,
    work_bytes: usize,
    weights: *mut c_void,
    weight_bytes: usize,
) -> LoadSettings {
    LoadSettings {
        work: UserMemory { address: work as usize, bytes: work_bytes },
        weights: UserMemory { address: weights as usize, bytes: weight_bytes },
        ..LoadSettings::default()
    }
}

/// The error of a load with queues.
pub fn refuse_queues() -> Result<()> {
    Err(Error::new(
        Code::FeatureNotSupport,
        "queues are not supported: load the model without them",
    ))
}

/// Writes the two sizes of a model.
///
/// # Safety
/// The pointers are null or point to writable memory.
unsafe fn query(
    source: impl FnOnce() -> Result<ModelSource>,
    work: *mut usize,
    weights: *mut usize,
) -> Result<()> {
    not_null(work, "workSize")?;
    not_null(weights, "weightSize")?;
    let compiled = compile(&source()?.read()?)?;
    let work_bytes = if compiled.is_dynamic() { 0 } else { compiled.work_bytes() };
    // SAFETY: as the caller vouches.
    unsafe {
        write(work, "workSize", work_bytes as usize)?;
        write(weights, "weightSize", compiled.weight_bytes() as usize)
    }
}

entry! {
    /// Loads from a file.
    fn aclmdlLoadFromFile(path: *const c_char, id: *mut u32) {
        not_null(path, "modelPath")?;
        // SAFETY: the caller passes a string and room for the id, or null.
        unsafe { load_into(id, || ModelSource::of_path(path, "modelPath"), LoadSettings::default()) }
    }

    /// Loads from a file into memory of the user.
    fn aclmdlLoadFromFileWithMem(
        path: *const c_char,
        id: *mut u32,
        work: *mut c_void,
        work_bytes: usize,
        weights: *mut c_void,
        weight_bytes: usize,
    ) {
        not_null(path, "modelPath")?;
        let settings = with_memory(work, work_bytes, weights, weight_bytes);
        // SAFETY: the caller passes a string and room for the id, or null.
        unsafe { load_into(id, || ModelSource::of_path(path, "modelPath"), settings) }
    }

    /// Queues are not supported.
    fn aclmdlLoadFromFileWithQ(
        path: *const c_char,
        id: *mut u32,
        inputs: *const u32,
        _input_count: usize,
        outputs: *const u32,
        _output_count: usize,
    ) {
        not_null(path, "modelPath")?;
        not_null(id, "modelId")?;
        not_null(inputs, "inputQ")?;
        not_null(outputs, "outputQ")?;
        refuse_queues()
    }

    /// Loads from host memory.
    fn aclmdlLoadFromMem(model: *const c_void, bytes: usize, id: *mut u32) {
        not_null(model, "model")?;
        // SAFETY: the caller passes room for the id, or null.
        unsafe { load_into(id, || ModelSource::of_memory(model, bytes), LoadSettings::default()) }
    }

    /// Loads from host memory into memory of the user.
    fn aclmdlLoadFromMemWithMem(
        model: *const c_void,
        bytes: usize,
        id: *mut u32,
        work: *mut c_void,
        work_bytes: usize,
        weights: *mut c_void,
        weight_bytes: usize,
    ) {
        not_null(model, "model")?;
        let settings = with_memory(work, work_bytes, weights, weight_bytes);
        // SAFETY: the caller passes room for the id, or null.
        unsafe { load_into(id, || ModelSource::of_memory(model, bytes), settings) }
    }

    /// Queues are not supported.
    fn aclmdlLoadFromMemWithQ(
        model: *const c_void,
        bytes: usize,
        id: *mut u32,
        inputs: *const u32,
        _input_count: usize,
        outputs: *const u32,
        _output_count: usize,
    ) {
        not_null(model, "model")?;
        not_null(id, "modelId")?;
        not_null(inputs, "inputQ")?;
        not_null(outputs, "outputQ")?;
        if bytes == 0 {
            return Err(Error::invalid("modelSize = 0: a model has data"));
        }
        refuse_queues()
    }

    /// Unloads a model.
    fn aclmdlUnload(id: u32) {
        table::unload(id)
    }

    /// The sizes of the memory of a model in a file.
    fn aclmdlQuerySize(path: *const c_char, work: *mut usize, weights: *mut usize) {
        not_null(path, "fileName")?;
        // SAFETY: the caller passes a string and room for both sizes, or null.
        unsafe { query(|| ModelSource::of_path(path, "fileName"), work, weights) }
    }

    /// The sizes of the memory of a model in host memory.
    fn aclmdlQuerySizeFromMem(
        model: *const c_void,
        bytes: usize,
        work: *mut usize,
        weights: *mut usize,
    ) {
        not_null(model, "model")?;
        // SAFETY: the caller passes room for both sizes, or null.
        unsafe { query(|| ModelSource::of_memory(model, bytes), work, weights) }
    }
}
