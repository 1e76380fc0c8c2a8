//! `aclmdlDesc`: the inputs and outputs of a model, as a copy that outlives it, behind a handle.

use super::source::ModelSource;
use super::table;
use crate::abi::{aclmdlDesc, aclmdlIODims};
use crate::door::{entry, not_null, runtime, value_entry};
use cairn_graph::offline::{Description, Gears, Port};
use cairn_runtime::error::{Code, Error, Result};
use cairn_runtime::handle::HandleObject;
use cairn_tensor::{DType, Format};
use std::collections::BTreeMap;
use std::ffi::{CString, c_char, c_void};
use std::ptr::null_mut;
use std::sync::{Arc, Mutex, PoisonError};

/// The name of the input that selects a gear.
pub const GEAR_INPUT: &str = "ascend_mbatch_shape_data";

/// The longest name that fits `aclmdlIODims`.
const MAX_NAME: usize = crate::abi::ACL_MAX_TENSOR_NAME_LEN as usize - 1;
/// The most dimensions that fit it.
pub const MAX_DIMS: usize = crate::abi::ACL_MAX_DIM_CNT as usize;

/// What a description handle names.
#[derive(Default)]
pub struct ModelDesc(Mutex<Option<Arc<Described>>>);

impl HandleObject for ModelDesc {
    const KIND: &'static str = "model description";
}

/// The content of a description.
pub struct Described {
    /// The model's id; 0 for one that is not loaded.
    pub id: u32,
    /// Inputs; the one that selects a gear is the last.
    pub inputs: Vec<TensorInfo>,
    /// Outputs.
    pub outputs: Vec<TensorInfo>,
    /// The description in the file of the model.
    pub model: Description,
    /// The operators that nodes were fused from.
    pub origin_names: BTreeMap<String, CString>,
}

/// An input or output.
pub struct TensorInfo {
    /// Its name.
    pub name: CString,
    /// The name in `aclmdlIODims` if its own is too long.
    pub short_name: Option<CString>,
    /// The type of its elements.
    pub dtype: DType,
    /// Its format.
    pub format: Format,
    /// Its shape; -1 for a dimension that a gear or a run decides.
    pub dims: Vec<i64>,
    /// Its shape as the user passes it.
    pub fed_dims: Vec<i64>,
    /// The range of each dimension; empty with gears.
    pub ranges: Vec<(i64, i64)>,
    /// Its largest size in bytes; 0 if it is unbounded.
    pub bytes: usize,
}

impl TensorInfo {
    /// The name that fits `aclmdlIODims`.
    pub fn listed_name(&self) -> &CString {
        self.short_name.as_ref().unwrap_or(&self.name)
    }

    /// A shape with this name, for the user.
    pub fn io_dims(&self, dims: &[i64]) -> Result<aclmdlIODims> {
        io_dims(self.listed_name().as_bytes(), dims)
    }
}

/// A shape with a name, for the user.
pub fn io_dims(name: &[u8], dims: &[i64]) -> Result<aclmdlIODims> {
    if dims.len() > MAX_DIMS {
        return Err(Error::new(
            Code::StorageOverLimit,
            format!(
                "the tensor has {} dimensions: aclmdlIODims has room for {MAX_DIMS}",
                dims.len()
            ),
        ));
    }
    let mut filled =
        aclmdlIODims { name: [0; MAX_NAME + 1], dimCount: dims.len(), dims: [0; MAX_DIMS] };
    for (to, from) in filled.name.iter_mut().zip(name.iter().take(MAX_NAME)) {
        *to = *from as c_char;
    }
    filled.dims[..dims.len()].copy_from_slice(dims);
    Ok(filled)
}

impl Described {
    /// The description of a model with this id; 0 if it is not loaded.
    pub fn new(id: u32, model: Description, origin_names: BTreeMap<String, CString>) -> Described {
        let has_gears = model.gears != Gears::None;
        let ranges = |dims: &[i64], ranges: &[(i64, i64)]| -> Vec<(i64, i64)> {
            let range = |(at, dim): (usize, &i64)| {
                ranges.get(at).copied().unwrap_or(if *dim < 0 { (0, -1) } else { (*dim, *dim) })
            };
            if has_gears { Vec::new() } else { dims.iter().enumerate().map(range).collect() }
        };
        let info = |port: &Port| TensorInfo {
            name: c_string(&port.name),
            short_name: None,
            dtype: port.dtype,
            format: port.format,
            dims: shown_dims(port).to_vec(),
            fed_dims: port.fed_dims.clone(),
            ranges: ranges(shown_dims(port), &port.ranges),
            bytes: port.bytes as usize,
        };
        let mut inputs: Vec<TensorInfo> = model.inputs.iter().map(info).collect();
        if has_gears {
            let width = model.gears.width();
            let dims = vec![width as i64];
            inputs.push(TensorInfo {
                name: c_string(GEAR_INPUT),
                short_name: None,
                dtype: DType::Int32,
                format: Format::ND,
                fed_dims: dims.clone(),
                dims,
                ranges: Vec::new(),
                bytes: width * 4,
            });
        }
        let mut outputs: Vec<TensorInfo> = model.outputs.iter().map(info).collect();
        shorten(id, &mut inputs, &mut outputs);
        Described { id, inputs, outputs, model, origin_names }
    }
}

/// The sizes that `aclmdlGetInputDims` shows: those of the image if the model prepares one.
fn shown_dims(port: &Port) -> &[i64] {
    port.aipp.as_ref().map_or(&port.dims, |image| &image.image_dims)
}

/// Bytes of a tensor; 0 if they exceed 64 bits.
pub fn bytes_of(dtype: DType, dims: &[i64]) -> usize {
    let count =
        dims.iter().try_fold(1usize, |count, dim| count.checked_mul(usize::try_from(*dim).ok()?));
    count.and_then(|count| dtype.bytes_of(count)).unwrap_or(0)
}

/// A string without NUL.
fn c_string(text: &str) -> CString {
    CString::new(text.replace('\0', "")).unwrap_or_default()
}

/// Sets unique short names for names that are too long for `aclmdlIODims`.
fn shorten(id: u32, inputs: &mut [TensorInfo], outputs: &mut [TensorInfo]) {
    let all = inputs.iter().chain(outputs.iter());
    let mut taken: Vec<CString> = all.map(|one| one.name.clone()).collect();
    for (kind, tensors) in [("input", inputs), ("output", outputs)] {
        for (at, tensor) in tensors.iter_mut().enumerate() {
            if tensor.name.as_bytes().len() <= MAX_NAME {
                continue;
            }
            let base = format!("acl_modelId_{id}_{kind}_{at}");
            let mut names = endings().map(|ending| c_string(&format!("{base}{ending}")));
            let name = names.find(|name| !taken.contains(name)).unwrap_or_default();
            taken.push(name.clone());
            tensor.short_name = Some(name);
        }
    }
}

/// The empty string, then one to three letters.
fn endings() -> impl Iterator<Item = String> {
    let letters = || ('a'..='z').map(String::from);
    let two = letters().flat_map(move |first| letters().map(move |second| first.clone() + &second));
    let three = letters().flat_map(move |first| {
        letters().flat_map(move |second| {
            let start = first.clone() + &second;
            letters().map(move |third| start.clone() + &third)
        })
    });
    std::iter::once(String::new()).chain(letters()).chain(two).chain(three)
}

impl ModelDesc {
    fn set(&self, described: Option<Arc<Described>>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = described;
    }

    /// Its content; fails while it is empty.
    pub fn described(&self) -> Result<Arc<Described>> {
        let described = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        described.ok_or_else(|| Error::invalid("modelDesc is empty: call aclmdlGetDesc first"))
    }
}

/// The description behind a handle of the user.
pub fn find(handle: *const aclmdlDesc) -> Result<Arc<ModelDesc>> {
    not_null(handle, "modelDesc")?;
    runtime()?.handles.get(handle as usize)
}

/// Replaces the content; after a failure the description is empty.
fn fill(handle: *mut aclmdlDesc, describe: impl FnOnce() -> Result<Arc<Described>>) -> Result<()> {
    let desc = find(handle)?;
    desc.set(None);
    desc.set(Some(describe()?));
    Ok(())
}

value_entry! {
    /// An empty description.
    fn aclmdlCreateDesc() -> *mut aclmdlDesc, else null_mut(), {
        Ok(runtime()?.handles.insert(Arc::new(ModelDesc::default()))? as *mut aclmdlDesc)
    }
}

entry! {
    /// Destroys a description.
    fn aclmdlDestroyDesc(desc: *mut aclmdlDesc) {
        not_null(desc, "modelDesc")?;
        runtime()?.handles.remove::<ModelDesc>(desc as usize)?;
        Ok(())
    }

    /// Describes a loaded model.
    fn aclmdlGetDesc(desc: *mut aclmdlDesc, id: u32) {
        fill(desc, || Ok(table::find(id)?.described.clone()))
    }

    /// Describes the model in a file.
    fn aclmdlGetDescFromFile(desc: *mut aclmdlDesc, path: *const c_char) {
        not_null(path, "modelPath")?;
        fill(desc, || {
            // SAFETY: the caller passes a string.
            let source = unsafe { ModelSource::of_path(path, "modelPath") }?;
            Ok(Arc::new(Described::new(0, source.describe()?, BTreeMap::new())))
        })
    }

    /// Describes the model in host memory.
    fn aclmdlGetDescFromMem(desc: *mut aclmdlDesc, model: *const c_void, bytes: usize) {
        not_null(model, "model")?;
        fill(desc, || {
            let source = ModelSource::of_memory(model, bytes)?;
            Ok(Arc::new(Described::new(0, source.describe()?, BTreeMap::new())))
        })
    }
}
