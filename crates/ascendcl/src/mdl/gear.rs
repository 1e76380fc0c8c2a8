//! Gears: read from a description, and selected for the runs of a data set.

use super::dataset::{self, Dataset};
use super::description::{find, io_dims};
use super::table::{self, Model};
use crate::abi::*;
use crate::door::{entry, not_null, runtime, write};
use cairn_graph::offline::Gears;
use cairn_runtime::error::{Code, Error, Result};
use cairn_runtime::task::{Location, Span, Task};
use std::sync::Arc;

/// The index that stands for all inputs together.
const ALL_INPUTS: usize = usize::MAX;

/// The target of a gear: a model and a data set.
struct Selection {
    model: Arc<Model>,
    dataset: Arc<Dataset>,
    /// The index of the input that selects.
    index: usize,
}

impl Selection {
    fn new(id: u32, dataset: *mut aclmdlDataset, index: usize) -> Result<Selection> {
        let dataset = dataset::find(dataset, "dataset")?;
        dataset.buffer(index)?;
        Ok(Selection { model: table::find(id)?, dataset, index })
    }

    /// Writes the values of a gear into the buffer of its input, and stores them for runs.
    fn set(&self, values: Vec<i64>) -> Result<()> {
        let description = self.model.description();
        let id = self.model.id;
        let Some(gear) = description.gears.find(&values) else {
            return Err(Error::new(
                Code::ModelGear,
                format!(
                    "{values:?} is no gear of model {id}: it has {}",
                    listed(&description.gears)
                ),
            ));
        };
        let last = description.inputs.len();
        if self.index != last {
            return Err(Error::invalid(format!(
                "index = {}: the input that selects a gear of model {id} is {last}",
                self.index
            )));
        }
        let buffer = self.dataset.buffer(self.index)?.span();
        if buffer.address == 0 {
            return Err(Error::invalid(format!("buffer {last} of the data set has no memory")));
        }
        let bytes: Vec<u8> = match buffer.length {
            length if length >= values.len() * 8 => {
                values.iter().flat_map(|number| number.to_le_bytes()).collect()
            }
            length if length >= values.len() * 4 => {
                values.iter().flat_map(|number| (*number as u32).to_le_bytes()).collect()
            }
            length => {
                return Err(Error::new(
                    Code::ModelShape,
                    format!(
                        "buffer {last} of the data set has {length} bytes: a gear takes {}",
                        values.len() * 4
                    ),
                ));
            }
        };
        let span = |address| Span { address, bytes: bytes.len(), location: Location::Any };
        let copy = Task::copy("gear", span(bytes.as_ptr() as usize), span(buffer.address));
        runtime()?.perform(&copy)?;
        self.model.set_gear(gear);
        self.dataset.set_gear(values);
        Ok(())
    }

    /// The values of the gear with these shapes of all inputs, concatenated.
    fn values(&self, sizes: &[i64]) -> Result<Vec<i64>> {
        let inputs = &self.model.description().inputs;
        let known: Vec<i64> = inputs.iter().flat_map(|port| port.dims.iter().copied()).collect();
        let fits = |(known, size): (&i64, &i64)| *known < 0 || known == size;
        if sizes.len() != known.len() || !known.iter().zip(sizes).all(fits) {
            return Err(Error::new(
                Code::ModelShape,
                format!(
                    "the sizes {sizes:?} do not fit the inputs of model {}: {known:?}",
                    self.model.id
                ),
            ));
        }
        let selected = known.iter().zip(sizes).filter(|(known, _)| **known < 0);
        Ok(selected.map(|(_, size)| *size).collect())
    }
}

/// The gears, for messages.
fn listed(gears: &Gears) -> String {
    match gears.values() {
        none if none.is_empty() => "none".to_owned(),
        values => values.iter().map(|gear| format!("{gear:?}")).collect::<Vec<_>>().join(", "),
    }
}

/// A value of a gear.
fn positive(name: &str, number: u64) -> Result<i64> {
    match i64::try_from(number) {
        Ok(number) if number > 0 => Ok(number),
        _ => Err(Error::invalid(format!("{name} = {number} is no size"))),
    }
}

entry! {
    /// Selects a batch gear.
    fn aclmdlSetDynamicBatchSize(id: u32, dataset: *mut aclmdlDataset, index: usize, batch: u64) {
        not_null(dataset, "dataset")?;
        let batch = positive("batchSize", batch)?;
        let selection = Selection::new(id, dataset, index)?;
        expect_kind(&selection.model, "batch", |gears| matches!(gears, Gears::Batch(_)))?;
        selection.set(vec![batch])
    }

    /// Selects an image gear.
    fn aclmdlSetDynamicHWSize(
        id: u32,
        dataset: *mut aclmdlDataset,
        index: usize,
        height: u64,
        width: u64,
    ) {
        not_null(dataset, "dataset")?;
        let values = vec![positive("height", height)?, positive("width", width)?];
        let selection = Selection::new(id, dataset, index)?;
        expect_kind(&selection.model, "image size", |gears| matches!(gears, Gears::ImageSize(_)))?;
        selection.set(values)
    }

    /// Selects a dims gear.
    fn aclmdlSetInputDynamicDims(
        id: u32,
        dataset: *mut aclmdlDataset,
        index: usize,
        dims: *const aclmdlIODims,
    ) {
        not_null(dataset, "dataset")?;
        not_null(dims, "dims")?;
        // SAFETY: not null; the caller passes the sizes.
        let dims = unsafe { dims.read_unaligned() };
        let sizes = dims.dims.get(..dims.dimCount).filter(|sizes| !sizes.is_empty());
        let sizes = sizes.ok_or_else(|| {
            Error::invalid(format!("dims->dimCount = {} is outside 1 to {ACL_MAX_DIM_CNT}", dims.dimCount))
        })?;
        let selection = Selection::new(id, dataset, index)?;
        expect_kind(&selection.model, "dims", |gears| matches!(gears, Gears::Dims(_)))?;
        selection.set(selection.values(sizes)?)
    }

    /// The batch gears.
    fn aclmdlGetDynamicBatch(desc: *const aclmdlDesc, batch: *mut aclmdlBatch) {
        let described = find(desc)?.described()?;
        not_null(batch, "batch")?;
        let mut filled = aclmdlBatch { batchCount: 0, batch: [0; ACL_MAX_BATCH_NUM as usize] };
        if let Gears::Batch(sizes) = &described.model.gears {
            filled.batchCount = sizes.len().min(filled.batch.len());
            for (to, size) in filled.batch.iter_mut().zip(sizes) {
                *to = *size as u64;
            }
        }
        // SAFETY: not null; the caller passes room for the gears.
        unsafe { write(batch, "batch", filled) }
    }

    /// The image gears.
    fn aclmdlGetDynamicHW(desc: *const aclmdlDesc, _index: usize, hw: *mut aclmdlHW) {
        let described = find(desc)?.described()?;
        not_null(hw, "hw")?;
        let mut filled = aclmdlHW { hwCount: 0, hw: [[0; 2]; ACL_MAX_HW_NUM as usize] };
        if let Gears::ImageSize(sizes) = &described.model.gears {
            filled.hwCount = sizes.len().min(filled.hw.len());
            for (to, [height, width]) in filled.hw.iter_mut().zip(sizes) {
                *to = [*height as u64, *width as u64];
            }
        }
        // SAFETY: not null; the caller passes room for the gears.
        unsafe { write(hw, "hw", filled) }
    }

    /// The number of dims gears.
    fn aclmdlGetInputDynamicGearCount(desc: *const aclmdlDesc, index: usize, count: *mut usize) {
        let described = find(desc)?.described()?;
        not_null(count, "gearCount")?;
        expect_all(index)?;
        let found = match &described.model.gears {
            Gears::Dims(gears) => gears.len(),
            _ => 0,
        };
        // SAFETY: not null; the caller passes room for the number.
        unsafe { write(count, "gearCount", found) }
    }

    /// The shapes of all inputs in each dims gear.
    fn aclmdlGetInputDynamicDims(
        desc: *const aclmdlDesc,
        index: usize,
        dims: *mut aclmdlIODims,
        room: usize,
    ) {
        let described = find(desc)?.described()?;
        not_null(dims, "dims")?;
        expect_all(index)?;
        let gears = match &described.model.gears {
            Gears::Dims(_) => described.model.input_dims(),
            _ => Vec::new(),
        };
        if room < gears.len() {
            return Err(Error::invalid(format!(
                "gearCount = {room}: the model has {} gears",
                gears.len()
            )));
        }
        for (at, inputs) in gears.iter().enumerate() {
            let filled = io_dims(b"", &inputs.concat())?;
            // SAFETY: the caller passes room for at least as many gears.
            unsafe { write(dims.add(at), "dims", filled) }?;
        }
        Ok(())
    }
}

/// Fails for a model without gears of this kind.
fn expect_kind(model: &Model, kind: &str, is_kind: impl FnOnce(&Gears) -> bool) -> Result<()> {
    let gears = &model.description().gears;
    match is_kind(gears) {
        true => Ok(()),
        false => Err(Error::new(
            Code::ModelGear,
            format!("model {} has no {kind} gears: its gears are {}", model.id, listed(gears)),
        )),
    }
}

/// Fails for the index of one input: dims gears are for all inputs.
fn expect_all(index: usize) -> Result<()> {
    match index {
        ALL_INPUTS => Ok(()),
        _ => Err(Error::invalid(format!("index = {index}: it has to be (size_t)-1"))),
    }
}
