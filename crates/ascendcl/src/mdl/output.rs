//! Memory of outputs: the user's, or allocated as by `aclrtMalloc` for a buffer without an address.

use super::dataset::DatasetTensor;
use super::table::Model;
use crate::data_buffer::Span;
use crate::door::runtime;
use crate::memory::allocate_output;
use cairn_graph::executable::{OutputMemory, RunOutput};
use cairn_runtime::error::{Code, Error, Result};
use cairn_runtime::task::{self, Location, Task};

/// How many bytes less than the model writes a buffer may state: memory has padding.
pub const SLACK: usize = 64;

/// Memory allocated for an output. It is freed unless the user gets it.
struct Allocation {
    address: usize,
}

impl Allocation {
    fn new(device: u32, bytes: usize) -> Result<Allocation> {
        allocate_output(device, bytes).map(|address| Allocation { address })
    }

    /// Leaves it to the user.
    fn release(self) -> usize {
        let address = self.address;
        std::mem::forget(self);
        address
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        if let Ok(runtime) = runtime()
            && let Err(error) = runtime.shared.memory.free(self.address)
        {
            log::warn!("memory of an output cannot be freed: {}", error.text);
        }
    }
}

/// Where an output is written.
enum Place {
    /// Memory of the user.
    User(OutputMemory),
    /// Memory allocated before the run, of the largest size that the model knows.
    Allocated(Allocation, usize),
    /// Memory of the run, which is copied after it.
    Run,
}

/// Where the outputs of one run are written.
pub struct OutputPlaces {
    places: Vec<Place>,
    device: u32,
}

impl OutputPlaces {
    /// The memory of each buffer. `sizes` are the bytes of each output, if they are known before the run. With
    /// `is_async` every output needs memory: the call could not return the address.
    pub fn new(
        model: &Model,
        outputs: &[DatasetTensor],
        sizes: &[Option<usize>],
        is_async: bool,
    ) -> Result<OutputPlaces> {
        let mut places = Vec::with_capacity(outputs.len());
        for (at, tensor) in outputs.iter().enumerate() {
            let Span { address, length } = tensor.buffer.span();
            let wanted = sizes.get(at).copied().flatten();
            let largest = model.described.outputs[at].bytes;
            places.push(match address {
                0 if wanted == Some(0) => Place::Run,
                0 if is_async => {
                    return Err(Error::invalid(format!(
                        "output {at} of model {} has no memory: an asynchronous run needs it for every output",
                        model.id
                    )));
                }
                0 if largest > 0 => Place::Allocated(Allocation::new(model.device, largest)?, largest),
                0 => Place::Run,
                _ => {
                    let is_padded = !model.is_dynamic && length.saturating_add(SLACK) >= wanted.unwrap_or(0);
                    let bytes = if is_padded { length.max(wanted.unwrap_or(0)) } else { length };
                    Place::User(OutputMemory { address, bytes })
                }
            });
        }
        Ok(OutputPlaces { places, device: model.device })
    }

    /// The memory that the engine writes to.
    pub fn requested(&self) -> Vec<Option<OutputMemory>> {
        let one = |place: &Place| match place {
            Place::User(memory) => Some(*memory),
            Place::Allocated(memory, bytes) => {
                Some(OutputMemory { address: memory.address, bytes: *bytes })
            }
            Place::Run => None,
        };
        self.places.iter().map(one).collect()
    }

    /// Sets addresses and sizes of allocated memory in the user's buffers, after the run.
    pub fn set_buffers(self, outputs: &[DatasetTensor], results: &[RunOutput]) -> Result<()> {
        for ((place, tensor), result) in self.places.into_iter().zip(outputs).zip(results) {
            match place {
                Place::User(_) => {}
                Place::Allocated(memory, length) => {
                    tensor.buffer.set(Span { address: memory.release(), length });
                }
                Place::Run => {
                    let length = result.layout.bytes();
                    if length == 0 {
                        continue;
                    }
                    let memory = Allocation::new(self.device, length)?;
                    let span = |address| task::Span {
                        address,
                        bytes: length,
                        location: Location::Device(self.device),
                    };
                    let copy =
                        Task::copy("model output", span(result.address), span(memory.address));
                    runtime()?.perform(&copy)?;
                    tensor.buffer.set(Span { address: memory.release(), length });
                }
            }
        }
        Ok(())
    }
}

/// Fails for a buffer that is too short for a model with known sizes; logs one that is longer.
pub fn check_length(what: impl Fn() -> String, have: usize, want: usize) -> Result<()> {
    if have.saturating_add(SLACK) < want {
        let what = what();
        return Err(Error::new(
            Code::ModelInput,
            format!("E13025: the buffer of {what} has {have} bytes, the model needs {want}"),
        ));
    }
    if have > want {
        log::debug!("the buffer of {} has {have} bytes, the model needs {want}", what());
    }
    Ok(())
}
