//! One run of a model: tensors read and checked, the run submitted, output shapes returned.

use super::dataset::{Dataset, DatasetTensor};
use super::output::{OutputPlaces, check_length};
use super::table::Model;
use crate::data_buffer::Span;
use crate::tensor_desc::Description;
use bytes::Bytes;
use cairn_exec::Target;
use cairn_graph::executable::{RunOutput, RunTensor};
use cairn_graph::offline::{Gears, Port};
use cairn_runtime::Runtime;
use cairn_runtime::error::{Code, Error, Result};
use cairn_runtime::memory::AddressInfo;
use cairn_tensor::DType;
use std::time::Duration;

/// Whether a call waits for its run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// It returns after the submission.
    No,
    /// It waits, at most this long.
    For(Option<Duration>),
}

/// A run of a model on the tensors of two data sets.
pub struct Run<'a> {
    /// The model.
    pub model: &'a Model,
    /// The inputs.
    pub inputs: &'a Dataset,
    /// The outputs.
    pub outputs: &'a Dataset,
}

impl Run<'_> {
    /// Runs on the stream of the target.
    pub fn submit(&self, target: &Target<'_>, wait: Wait) -> Result<()> {
        let (inputs, outputs) = (self.inputs.tensors()?, self.outputs.tensors()?);
        self.check_counts(inputs.len(), outputs.len())?;
        let gear = self.gear()?;
        let tensors = self.tensors(target.runtime, &inputs, gear)?;
        let sizes = self.output_sizes(gear);
        self.check_outputs(&outputs, gear)?;
        let places = OutputPlaces::new(self.model, &outputs, &sizes, wait == Wait::No)?;
        let results = self.model.loaded.run(target, gear, &tensors, &places.requested())?;
        if self.model.is_dynamic {
            self.describe_outputs(&results)?;
        }
        if let Wait::For(limit) = wait {
            target.runtime.synchronize(&target.stream, limit)?;
            places.set_buffers(&outputs, &results)?;
        }
        Ok(())
    }

    /// Fails for a wrong number of buffers. A dynamic-shape model accepts more inputs.
    fn check_counts(&self, inputs: usize, outputs: usize) -> Result<()> {
        let Model { id, described, is_dynamic, .. } = self.model;
        let (want_in, want_out) = (described.inputs.len(), described.outputs.len());
        if *is_dynamic && inputs < want_in {
            return Err(Error::invalid(format!(
                "the data set of inputs has {inputs} buffers, model {id} has {want_in} inputs"
            )));
        }
        let wrong = |what: &str, have: usize, want: usize| {
            Err(Error::new(
                Code::ModelInput,
                format!(
                    "E13025: the data set of {what}s has {have} buffers, model {id} has {want} {what}s"
                ),
            ))
        };
        match () {
            _ if !is_dynamic && inputs != want_in => wrong("input", inputs, want_in),
            _ if outputs != want_out => wrong("output", outputs, want_out),
            _ => Ok(()),
        }
    }

    /// The gear that was set for the inputs.
    fn gear(&self) -> Result<Option<usize>> {
        let gears = &self.model.description().gears;
        let Some(numbers) = self.inputs.gear().filter(|_| *gears != Gears::None) else {
            return Ok(None);
        };
        match gears.find(&numbers) {
            Some(gear) => Ok(Some(gear)),
            None => Err(Error::new(
                Code::ModelGear,
                format!("the gear {numbers:?} of the data set is none of model {}", self.model.id),
            )),
        }
    }

    /// The inputs as the engine expects them.
    fn tensors(
        &self,
        runtime: &Runtime,
        inputs: &[DatasetTensor],
        gear: Option<usize>,
    ) -> Result<Vec<RunTensor>> {
        let ports = &self.model.description().inputs;
        let mut tensors = Vec::with_capacity(ports.len());
        for (at, (port, tensor)) in ports.iter().zip(inputs).enumerate() {
            let span = tensor.buffer.span();
            let plain = RunTensor {
                address: span.address,
                bytes: span.length,
                dtype: None,
                dims: None,
                host: None,
                says_host: false,
            };
            if self.model.is_dynamic {
                let dims = dims(at, port, tensor)?;
                let host = host_bytes(runtime, at, port, span, &dims)?;
                tensors.push(RunTensor { dims: Some(dims), host, ..plain });
                continue;
            }
            if gear.is_none() {
                let want = self.model.described.inputs[at].bytes;
                check_length(|| format!("input {at} ({})", port.name), span.length, want)?;
            }
            tensors.push(plain);
        }
        Ok(tensors)
    }

    /// Fails for output buffers that are too short for the model's sizes.
    fn check_outputs(&self, outputs: &[DatasetTensor], gear: Option<usize>) -> Result<()> {
        if self.model.is_dynamic || gear.is_some() {
            return Ok(());
        }
        for (at, (info, tensor)) in self.model.described.outputs.iter().zip(outputs).enumerate() {
            let Span { address, length } = tensor.buffer.span();
            if address != 0 {
                check_length(|| format!("output {at}"), length, info.bytes)?;
            }
        }
        Ok(())
    }

    /// The bytes of each output, if they are known before the run.
    fn output_sizes(&self, gear: Option<usize>) -> Vec<Option<usize>> {
        let description = self.model.description();
        let of_gear = gear.and_then(|gear| description.output_dims.get(gear));
        (description.outputs.iter().enumerate())
            .map(|(at, port)| {
                let dims = of_gear.and_then(|all| all.get(at)).unwrap_or(&port.dims);
                bytes_of(port.dtype, dims)
            })
            .collect()
    }

    /// Sets the description of each output.
    fn describe_outputs(&self, results: &[RunOutput]) -> Result<()> {
        let ports = &self.model.description().outputs;
        for (at, (port, result)) in ports.iter().zip(results).enumerate() {
            let dims = result.layout.dims().iter().map(|dim| *dim as i64).collect();
            let mut desc = Description::new(result.layout.dtype, dims, port.format);
            desc.storage_format = Some(port.format);
            self.outputs.set_desc(at, Some(desc))?;
        }
        Ok(())
    }
}

/// Bytes of a tensor; `None` for unknown dimensions.
fn bytes_of(dtype: DType, dims: &[i64]) -> Option<usize> {
    let count = dims
        .iter()
        .try_fold(1usize, |count, dim| count.checked_mul(usize::try_from(*dim).ok()?))?;
    dtype.bytes_of(count)
}

/// The shape of an input of a dynamic-shape model.
fn dims(at: usize, port: &Port, tensor: &DatasetTensor) -> Result<Vec<i64>> {
    let dims = tensor.desc.as_ref().map_or(&port.dims, |desc| &desc.dims);
    match port.accepts(dims) {
        true => Ok(dims.clone()),
        false if tensor.desc.is_none() => Err(Error::invalid(format!(
            "input {at} ({}) has the sizes {dims:?}: set those of this run by aclmdlSetDatasetTensorDesc",
            port.name
        ))),
        false => Err(Error::invalid(format!(
            "input {at} ({}) has the sizes {dims:?}: expected {:?} within the ranges {:?}",
            port.name, port.dims, port.ranges
        ))),
    }
}

/// A copy of an input in host memory; `None` for one in device memory.
fn host_bytes(
    runtime: &Runtime,
    at: usize,
    port: &Port,
    span: Span,
    dims: &[i64],
) -> Result<Option<Bytes>> {
    let Span { address, length } = span;
    let info = runtime.shared.memory.enclosing(address);
    if address == 0 || matches!(info, AddressInfo::Device(..)) {
        return Ok(None);
    }
    let bytes = bytes_of(port.dtype, dims).unwrap_or(0).min(length);
    let what = format!("input {at} ({})", port.name);
    Ok(Some(runtime.copy_from_host(&what, address, bytes)?.into()))
}
