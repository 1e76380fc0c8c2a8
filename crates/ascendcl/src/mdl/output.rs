//! Memory of outputs: the caller's, or as of `aclrtMalloc` where there is none.

use super::dataset::DatasetTensor;
use super::table::Model;
use crate::data_buffer::Span;
use crate::door::runtime;
use crate::memory;
use cairn_graph::executable::{OutputMemory, RunOutput};
use cairn_runtime::error::{Code, Error, Result};
use cairn_runtime::task::{self, Location, Task};

/// By how many bytes a buffer of a model with known sizes may be shorter: memory has padding.
pub const SLACK: usize = 64;

/// Memory that was made for an output, and is freed unless it is handed out.
struct Allocation {
    address: usize,
}

impl Allocation {
    fn new(device: u32, bytes: usize) -> Result<Allocation> {
        memory::allocate_output(device, bytes).map(|address| Allocation { address })
    }

    /// Gives it to the program.
    fn hand_out(self) -> usize {
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
            log::warn!("memory of an output stays: {}", error.text);
        }
    }
}

/// What an output is written to.
enum Place {
    /// Memory of the caller.
    Theirs(OutputMemory),
    /// Memory that was made before the run: the model knows how much there may be.
    Made(Allocation, usize),
    /// The run takes memory, which is copied when it is done.
    Later,
}

/// The memory of the outputs of one run.
pub struct OutputPlaces {
    places: Vec<Place>,
    device: u32,
}

impl OutputPlaces {
    /// The memory of each buffer. `sizes` are the bytes of each output that this run will write, where they are known. With
    /// `is_async` every output needs memory, since nobody would hear of another.
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
                0 if wanted == Some(0) => Place::Later,
                0 if is_async => {
                    return Err(Error::invalid(format!(
                        "output {at} of model {} has no memory: an asynchronous run needs it for every output",
                        model.id
                    )));
                }
                0 if largest > 0 => Place::Made(Allocation::new(model.device, largest)?, largest),
                0 => Place::Later,
                _ => {
                    let is_padded = !model.is_dynamic && length + SLACK >= wanted.unwrap_or(0);
                    let bytes = if is_padded { length.max(wanted.unwrap_or(0)) } else { length };
                    Place::Theirs(OutputMemory { address, bytes })
                }
            });
        }
        Ok(OutputPlaces { places, device: model.device })
    }

    /// What the engine writes to.
    pub fn requested(&self) -> Vec<Option<OutputMemory>> {
        let one = |place: &Place| match place {
            Place::Theirs(memory) => Some(*memory),
            Place::Made(made, bytes) => Some(OutputMemory { address: made.address, bytes: *bytes }),
            Place::Later => None,
        };
        self.places.iter().map(one).collect()
    }

    /// Writes address and size of what was made into the buffers of the caller. The run is done.
    pub fn hand_out(self, outputs: &[DatasetTensor], results: &[RunOutput]) -> Result<()> {
        for ((place, tensor), result) in self.places.into_iter().zip(outputs).zip(results) {
            match place {
                Place::Theirs(_) => {}
                Place::Made(made, length) => {
                    tensor.buffer.set(Span { address: made.hand_out(), length });
                }
                Place::Later => {
                    let length = result.layout.bytes();
                    if length == 0 {
                        continue;
                    }
                    let made = Allocation::new(self.device, length)?;
                    let span = |address| task::Span {
                        address,
                        bytes: length,
                        location: Location::Device(self.device),
                    };
                    let copy = Task::copy("model output", span(result.address), span(made.address));
                    runtime()?.perform(&copy)?;
                    tensor.buffer.set(Span { address: made.hand_out(), length });
                }
            }
        }
        Ok(())
    }
}

/// Fails for a buffer that is too short for a model with known sizes; one that is longer is noted.
pub fn check_length(what: &str, have: usize, want: usize) -> Result<()> {
    if have + SLACK < want {
        return Err(Error::new(
            Code::ModelInput,
            format!("E13025: the buffer of {what} has {have} bytes, the model needs {want}"),
        ));
    }
    if have > want {
        log::debug!("the buffer of {what} has {have} bytes, the model needs {want}");
    }
    Ok(())
}
