//! `aclmdlDataset`: the buffers of a run, with the shapes and the gear that the user set, behind a handle.

use crate::abi::{aclDataBuffer, aclTensorDesc, aclmdlDataset};
use crate::data_buffer::{self, DataBuffer};
use crate::door::{entry, not_null, runtime, value_entry};
use crate::process;
use crate::tensor_desc::{self, Description, TensorDesc};
use cairn_runtime::error::{Error, Result};
use cairn_runtime::handle::HandleObject;
use std::ptr::null_mut;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What a data set handle names.
#[derive(Default)]
pub struct Dataset(Mutex<State>);

#[derive(Default)]
struct State {
    slots: Vec<Slot>,
    /// The values of the gear that was set.
    gear: Option<Vec<i64>>,
}

/// One tensor, by handles: a buffer of the user, and a description that the data set owns.
#[derive(Clone, Copy)]
struct Slot {
    buffer: usize,
    desc: Option<usize>,
}

impl HandleObject for Dataset {
    const KIND: &'static str = "data set";
}

/// A copy of a tensor of a data set.
pub struct DatasetTensor {
    /// The buffer; a run may set its address.
    pub buffer: Arc<DataBuffer>,
    /// The description that was set.
    pub desc: Option<Description>,
}

impl Dataset {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of buffers.
    pub fn len(&self) -> usize {
        self.lock().slots.len()
    }

    /// The values of the gear that was set.
    pub fn gear(&self) -> Option<Vec<i64>> {
        self.lock().gear.clone()
    }

    /// Sets the values of the gear.
    pub fn set_gear(&self, numbers: Vec<i64>) {
        self.lock().gear = Some(numbers);
    }

    fn slot(&self, index: usize) -> Result<Slot> {
        let state = self.lock();
        state.slots.get(index).copied().ok_or_else(|| {
            let count = state.slots.len();
            Error::invalid(format!(
                "index = {index} is out of range: the data set has {count} buffers"
            ))
        })
    }

    /// The buffer of an index; fails if it was destroyed.
    pub fn buffer(&self, index: usize) -> Result<Arc<DataBuffer>> {
        runtime()?.handles.get(self.slot(index)?.buffer).map_err(|error| Error {
            text: format!("buffer {index} of the data set: {}", error.text),
            ..error
        })
    }

    /// Copies of all tensors.
    pub fn tensors(&self) -> Result<Vec<DatasetTensor>> {
        let slots = self.lock().slots.clone();
        let runtime = runtime()?;
        let one = |(at, slot): (usize, &Slot)| {
            let desc = slot.desc.and_then(|desc| runtime.handles.get::<TensorDesc>(desc).ok());
            Ok(DatasetTensor {
                buffer: self.buffer(at)?,
                desc: desc.map(|desc| desc.lock().clone()),
            })
        };
        slots.iter().enumerate().map(one).collect()
    }

    /// Replaces the description of an index, and destroys the previous one.
    pub fn set_desc(&self, index: usize, desc: Option<Description>) -> Result<()> {
        self.slot(index)?;
        let handle =
            desc.map(|desc| desc.into_handle().map(|handle| handle as usize)).transpose()?;
        let previous = match self.lock().slots.get_mut(index) {
            Some(slot) => std::mem::replace(&mut slot.desc, handle),
            None => handle,
        };
        destroy_desc(previous);
        Ok(())
    }
}

fn destroy_desc(handle: Option<usize>) {
    if let (Some(runtime), Some(handle)) = (process::started(), handle) {
        // The user may have destroyed it.
        let _ = runtime.handles.remove::<TensorDesc>(handle);
    }
}

impl Drop for Dataset {
    fn drop(&mut self) {
        let slots = std::mem::take(&mut self.lock().slots);
        slots.iter().for_each(|slot| destroy_desc(slot.desc));
    }
}

/// The data set behind a handle of the user.
pub fn find(handle: *const aclmdlDataset, name: &str) -> Result<Arc<Dataset>> {
    not_null(handle, name)?;
    runtime()?.handles.get(handle as usize)
}

value_entry! {
    /// An empty data set.
    fn aclmdlCreateDataset() -> *mut aclmdlDataset, else null_mut(), {
        Ok(runtime()?.handles.insert(Arc::new(Dataset::default()))? as *mut aclmdlDataset)
    }

    /// The number of buffers.
    fn aclmdlGetDatasetNumBuffers(dataset: *const aclmdlDataset) -> usize, else 0, {
        Ok(find(dataset, "dataset")?.len())
    }

    /// The buffer of an index, as it was added.
    fn aclmdlGetDatasetBuffer(dataset: *const aclmdlDataset, index: usize)
        -> *mut aclDataBuffer, else null_mut(),
    {
        Ok(find(dataset, "dataset")?.slot(index)?.buffer as *mut aclDataBuffer)
    }

    /// The description of an index, or null.
    fn aclmdlGetDatasetTensorDesc(dataset: *const aclmdlDataset, index: usize)
        -> *mut aclTensorDesc, else null_mut(),
    {
        let desc = find(dataset, "dataset")?.slot(index)?.desc;
        Ok(desc.map_or(null_mut(), |desc| desc as *mut aclTensorDesc))
    }
}

entry! {
    /// Destroys a data set, not its buffers.
    fn aclmdlDestroyDataset(dataset: *const aclmdlDataset) {
        not_null(dataset, "dataset")?;
        runtime()?.handles.remove::<Dataset>(dataset as usize)?;
        Ok(())
    }

    /// Adds a buffer.
    fn aclmdlAddDatasetBuffer(dataset: *mut aclmdlDataset, buffer: *mut aclDataBuffer) {
        let dataset = find(dataset, "dataset")?;
        data_buffer::find(buffer, "dataBuffer")?;
        dataset.lock().slots.push(Slot { buffer: buffer as usize, desc: None });
        Ok(())
    }

    /// Sets or removes the description of an index.
    fn aclmdlSetDatasetTensorDesc(
        dataset: *mut aclmdlDataset,
        desc: *mut aclTensorDesc,
        index: usize,
    ) {
        let dataset = find(dataset, "dataset")?;
        let copy = match desc.is_null() {
            true => None,
            false => Some(tensor_desc::find(desc, "tensorDesc")?.lock().clone()),
        };
        dataset.set_desc(index, copy)
    }
}
