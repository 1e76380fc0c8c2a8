//! `aclmdlConfigHandle`: how a model is loaded, option by option.

use super::load::{self, LoadSettings, UserMemory};
use super::source::ModelSource;
use crate::abi::*;
use crate::door::{entry, not_null, runtime, string, value_entry, write};
use bytes::Bytes;
use cairn_runtime::error::{Code, Error, Result};
use cairn_runtime::handle::HandleObject;
use cairn_runtime::worker::PRIORITIES;
use std::collections::BTreeMap;
use std::ffi::{c_char, c_void};
use std::path::PathBuf;
use std::ptr::null_mut;
use std::sync::{Arc, Mutex, PoisonError};

/// What a configuration handle names.
#[derive(Default)]
pub struct LoadConfig(Mutex<Options>);

/// The options that were set.
#[derive(Clone, Default)]
struct Options {
    load_type: Option<usize>,
    path: Option<String>,
    weight_path: Option<String>,
    model: UserMemory,
    work: UserMemory,
    weights: UserMemory,
    input_queues: UserMemory,
    output_queues: UserMemory,
    priority: u32,
    without_graph: bool,
    /// Device memory that holds files, by name.
    files: BTreeMap<String, UserMemory>,
}

impl HandleObject for LoadConfig {
    const KIND: &'static str = "configuration of a load";
}

/// The size of external weights is a multiple of this.
const WEIGHT_ALIGN: usize = 32;

impl LoadConfig {
    fn change(&self, change: impl FnOnce(&mut Options) -> Result<()>) -> Result<()> {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn options(&self) -> Options {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn find(handle: *const aclmdlConfigHandle) -> Result<Arc<LoadConfig>> {
    not_null(handle, "handle")?;
    runtime()?.handles.get(handle as usize)
}

/// The value of an option, as the user passes it.
struct OptionValue {
    attr: aclmdlConfigAttr,
    value: *const c_void,
    bytes: usize,
}

impl OptionValue {
    /// The value, which has to have the size of its type.
    ///
    /// # Safety
    /// The value points to as many readable bytes as the caller says.
    unsafe fn read<T: Copy>(&self) -> Result<T> {
        let OptionValue { attr, value, bytes } = *self;
        if bytes != size_of::<T>() {
            return Err(Error::invalid(format!(
                "valueSize = {bytes}: the option {attr} has {} bytes",
                size_of::<T>()
            )));
        }
        // SAFETY: as the caller vouches, and the size is that of the type.
        Ok(unsafe { value.cast::<T>().read_unaligned() })
    }

    /// A pointer that is not null.
    ///
    /// # Safety
    /// As [`OptionValue::read`].
    unsafe fn pointer(&self) -> Result<usize> {
        // SAFETY: as the caller vouches.
        match unsafe { self.read::<usize>() }? {
            0 => Err(Error::invalid(format!("the option {} is a null pointer", self.attr))),
            address => Ok(address),
        }
    }

    /// A path.
    ///
    /// # Safety
    /// As [`OptionValue::read`]; the pointer there is null or a NUL-terminated string.
    unsafe fn path(&self) -> Result<String> {
        // SAFETY: as the caller vouches.
        unsafe { string(self.pointer()? as *const c_char, "attrValue") }
    }

    /// 0 or 1.
    fn flag(&self, number: usize) -> Result<bool> {
        match number {
            0 | 1 => Ok(number == 1),
            _ => Err(Error::invalid(format!(
                "the option {} = {number} is neither 0 nor 1",
                self.attr
            ))),
        }
    }
}

/// Sets one option.
///
/// # Safety
/// The value is as [`OptionValue::read`] wants it.
unsafe fn set(options: &mut Options, value: &OptionValue) -> Result<()> {
    let attr = value.attr;
    // SAFETY: as the caller vouches.
    unsafe {
        match attr {
            ACL_MDL_PRIORITY_INT32 => {
                let priority: i32 = value.read()?;
                let known = u32::try_from(priority).ok().filter(|one| (*one as usize) < PRIORITIES);
                options.priority = known.ok_or_else(|| {
                    Error::invalid(format!("the priority {priority} is outside 0 to 7"))
                })?;
            }
            ACL_MDL_LOAD_TYPE_SIZET => {
                let load_type: usize = value.read()?;
                let known = ACL_MDL_LOAD_FROM_FILE as usize..=ACL_MDL_LOAD_FROM_MEM_WITH_Q as usize;
                if !known.contains(&load_type) {
                    return Err(Error::invalid(format!(
                        "the load type {load_type} is outside 1 to 6"
                    )));
                }
                options.load_type = Some(load_type);
            }
            ACL_MDL_PATH_PTR => options.path = Some(value.path()?),
            ACL_MDL_WEIGHT_PATH_PTR => options.weight_path = Some(value.path()?),
            ACL_MDL_MEM_ADDR_PTR => options.model.address = value.pointer()?,
            ACL_MDL_MEM_SIZET => options.model.bytes = value.read()?,
            ACL_MDL_WEIGHT_ADDR_PTR => options.weights.address = value.pointer()?,
            ACL_MDL_WEIGHT_SIZET => options.weights.bytes = value.read()?,
            ACL_MDL_WORKSPACE_ADDR_PTR => options.work.address = value.pointer()?,
            ACL_MDL_WORKSPACE_SIZET => options.work.bytes = value.read()?,
            ACL_MDL_INPUTQ_NUM_SIZET => options.input_queues.bytes = value.read()?,
            ACL_MDL_INPUTQ_ADDR_PTR => options.input_queues.address = value.pointer()?,
            ACL_MDL_OUTPUTQ_NUM_SIZET => options.output_queues.bytes = value.read()?,
            ACL_MDL_OUTPUTQ_ADDR_PTR => options.output_queues.address = value.pointer()?,
            // No effect: runs always use inputs and outputs in place, and there is one kind of memory.
            ACL_MDL_WORKSPACE_MEM_OPTIMIZE => drop(value.flag(value.read()?)?),
            ACL_MDL_MEM_MALLOC_POLICY_SIZET => drop(value.read::<usize>()?),
            ACL_MDL_WITHOUT_GRAPH_INT32 => {
                let number: i32 = value.read()?;
                options.without_graph =
                    value.flag(usize::try_from(number).unwrap_or(usize::MAX))?;
            }
            ACL_MDL_MODEL_DESC_PTR..=ACL_MDL_DYNAMIC_TASK_SIZET
            | ACL_MDL_FIFO_PTR
            | ACL_MDL_FIFO_SIZET
            | ACL_NPU_PERF_MODE => {
                return Err(Error::new(
                    Code::FeatureNotSupport,
                    format!("the option {attr} is for models of another product"),
                ));
            }
            _ => return Err(Error::invalid(format!("attr = {attr} is no option of a load"))),
        }
    }
    Ok(())
}

impl Options {
    /// The model that the options name.
    fn source(&self) -> Result<ModelSource> {
        let missing = |what: &str| Error::invalid(format!("the configuration has no {what}"));
        let load_type =
            self.load_type.ok_or_else(|| missing("load type (ACL_MDL_LOAD_TYPE_SIZET)"))?;
        let is_queued = matches!(
            load_type as u32,
            ACL_MDL_LOAD_FROM_FILE_WITH_Q | ACL_MDL_LOAD_FROM_MEM_WITH_Q
        );
        let is_file = matches!(
            load_type as u32,
            ACL_MDL_LOAD_FROM_FILE
                | ACL_MDL_LOAD_FROM_FILE_WITH_MEM
                | ACL_MDL_LOAD_FROM_FILE_WITH_Q
        );
        if is_file && self.path.is_none() {
            return Err(missing("path (ACL_MDL_PATH_PTR)"));
        }
        if is_file && self.weight_path.is_some() {
            return Err(Error::invalid(
                "ACL_MDL_WEIGHT_PATH_PTR is for models in memory: the files of a model are beside it",
            ));
        }
        if !is_file && (self.model.address == 0 || self.model.bytes == 0) {
            return Err(missing("model in memory (ACL_MDL_MEM_ADDR_PTR and ACL_MDL_MEM_SIZET)"));
        }
        if is_queued {
            for (what, queues) in [("input", self.input_queues), ("output", self.output_queues)] {
                if queues.address == 0 || queues.bytes == 0 {
                    return Err(missing(&format!("{what} queues")));
                }
            }
            load::refuse_queues()?;
        }
        let mut source = match &self.path {
            Some(path) if is_file => ModelSource::of_file(path)?,
            _ => ModelSource::of_memory(self.model.address as *const c_void, self.model.bytes)?,
        };
        match is_file {
            true => source.files = self.read_files()?,
            false => self.name_files(&mut source)?,
        }
        Ok(source)
    }

    /// Says where the files of a model in memory are.
    fn name_files(&self, source: &mut ModelSource) -> Result<()> {
        if let Some(folder) = &self.weight_path {
            source.folder = Some(PathBuf::from(folder));
        }
        source.files = self.read_files()?;
        Ok(())
    }

    /// Copies of the files that the user has in device memory.
    fn read_files(&self) -> Result<BTreeMap<String, Bytes>> {
        let runtime = runtime()?;
        let read = |(name, memory): (&String, &UserMemory)| -> Result<(String, Bytes)> {
            let UserMemory { address, bytes } = *memory;
            let copy = runtime.read("external weights", address, bytes).ok_or_else(|| {
                Error::new(
                    Code::ModelWeight,
                    format!("the weights {name} at {address:#x} are no {bytes} bytes of a device"),
                )
            })?;
            Ok((name.clone(), copy.into()))
        };
        self.files.iter().map(read).collect()
    }

    /// The settings, with memory of the user if the load type says so.
    fn settings(&self) -> LoadSettings {
        let has_memory = matches!(
            self.load_type.unwrap_or_default() as u32,
            ACL_MDL_LOAD_FROM_FILE_WITH_MEM | ACL_MDL_LOAD_FROM_MEM_WITH_MEM
        );
        let (work, weights) = match has_memory {
            true => (self.work, self.weights),
            false => Default::default(),
        };
        LoadSettings { work, weights, priority: self.priority, only_static: self.without_graph }
    }
}

value_entry! {
    /// An empty configuration.
    fn aclmdlCreateConfigHandle() -> *mut aclmdlConfigHandle, else null_mut(), {
        Ok(runtime()?.handles.insert(Arc::new(LoadConfig::default()))? as *mut aclmdlConfigHandle)
    }
}

entry! {
    /// Destroys a configuration.
    fn aclmdlDestroyConfigHandle(handle: *mut aclmdlConfigHandle) {
        not_null(handle, "handle")?;
        runtime()?.handles.remove::<LoadConfig>(handle as usize)?;
        Ok(())
    }

    /// Sets one option.
    fn aclmdlSetConfigOpt(
        handle: *mut aclmdlConfigHandle,
        attr: aclmdlConfigAttr,
        value: *const c_void,
        bytes: usize,
    ) {
        let config = find(handle)?;
        not_null(value, "attrValue")?;
        // SAFETY: the caller passes a value of this many bytes; what it points to is as the option says.
        config.change(|options| unsafe { set(options, &OptionValue { attr, value, bytes }) })
    }

    /// Names device memory that holds a file.
    fn aclmdlSetExternalWeightAddress(
        handle: *mut aclmdlConfigHandle,
        name: *const c_char,
        address: *mut c_void,
        bytes: usize,
    ) {
        let config = find(handle)?;
        // SAFETY: the caller passes a string or null.
        let name = unsafe { string(name, "weightFileName") }?;
        not_null(address, "devPtr")?;
        if name.is_empty() || name.contains('/') {
            return Err(Error::invalid(format!("weightFileName = '{name}' is no name of a file")));
        }
        if bytes == 0 || !bytes.is_multiple_of(WEIGHT_ALIGN) {
            return Err(Error::invalid(format!(
                "size = {bytes}: it is positive and a multiple of {WEIGHT_ALIGN}"
            )));
        }
        let memory = UserMemory { address: address as usize, bytes };
        config.change(|options| {
            options.files.insert(name, memory);
            Ok(())
        })
    }

    /// Loads as configured.
    fn aclmdlLoadWithConfig(handle: *const aclmdlConfigHandle, id: *mut u32) {
        let options = find(handle)?.options();
        not_null(id, "modelId")?;
        load::expect_initialised()?;
        let loaded = load::load(&options.source()?, options.settings())?;
        // SAFETY: not null; the caller passes room for the id.
        unsafe { write(id, "modelId", loaded) }
    }

    /// Loads a model that was built in this process.
    fn aclmdlLoadFromModel(
        model: *const aclmdlModel,
        handle: *const aclmdlConfigHandle,
        id: *mut u32,
    ) {
        not_null(model, "model")?;
        let options = find(handle)?.options();
        not_null(id, "modelId")?;
        load::expect_initialised()?;
        let mut source = ModelSource::of_object(model)?;
        options.name_files(&mut source)?;
        let loaded = load::load(&source, options.settings())?;
        // SAFETY: not null; the caller passes room for the id.
        unsafe { write(id, "modelId", loaded) }
    }
}
