//! Outputs of a session's runs, on the device or on the host.

use crate::executable::RunOutput;
use crate::failure::{Failure, Result};
use cairn_runtime::Runtime;
use cairn_runtime::memory::allocator::Block;
use cairn_runtime::task::{Location, Span, Task};
use cairn_tensor::DType;

/// Memory that a run made for an output.
pub enum OutputBlock {
    /// On the device; goes back to its allocator when it is dropped.
    Device(Block),
    /// On the host.
    Host(Box<[u8]>),
}

impl OutputBlock {
    /// The first byte.
    pub fn address(&self) -> usize {
        match self {
            OutputBlock::Device(block) => block.address(),
            OutputBlock::Host(bytes) if bytes.is_empty() => 0,
            OutputBlock::Host(bytes) => bytes.as_ptr() as usize,
        }
    }

    /// How many.
    pub fn bytes(&self) -> usize {
        match self {
            OutputBlock::Device(block) => block.bytes() as usize,
            OutputBlock::Host(bytes) => bytes.len(),
        }
    }
}

/// An output of a run.
pub struct SessionOutput {
    /// Its first byte.
    pub address: usize,
    /// Bytes of memory: at least those of its elements.
    pub bytes: usize,
    /// The type of its elements.
    pub dtype: DType,
    /// Its sizes.
    pub dims: Vec<i64>,
    /// Its memory, if the caller brought none.
    pub block: Option<OutputBlock>,
}

impl SessionOutput {
    /// An output on the device. `is_exact`: its bytes are those of its elements, whatever its block has.
    pub(super) fn new(output: RunOutput, is_exact: bool) -> SessionOutput {
        let RunOutput { layout, address, block } = output;
        let block_bytes = block.as_ref().filter(|_| !is_exact).map(|block| block.bytes() as usize);
        SessionOutput {
            address,
            bytes: block_bytes.unwrap_or(layout.bytes()),
            dtype: layout.dtype,
            dims: layout.dims().iter().map(|dim| *dim as i64).collect(),
            block: block.map(OutputBlock::Device),
        }
    }

    /// A copy on the host of an output that is computed: in memory of the caller, which is as large, if there is any,
    /// else in memory of its own.
    pub(super) fn on_host(
        output: RunOutput,
        callers_address: Option<usize>,
        runtime: &Runtime,
    ) -> Result<SessionOutput> {
        let bytes = output.layout.bytes();
        let out = SessionOutput { bytes, ..SessionOutput::new(output, true) };
        let Some(address) = callers_address else {
            let copy = runtime.read("graph output", out.address, bytes).ok_or_else(|| {
                Failure::failed(format!("no device memory at {:#x}", out.address))
            })?;
            let block = OutputBlock::Host(copy.into_boxed_slice());
            return Ok(SessionOutput { address: block.address(), block: Some(block), ..out });
        };
        let from = Span { address: out.address, bytes, location: Location::AnyDevice };
        let to = Span { address, bytes, location: Location::Any };
        runtime.perform(&Task::copy("graph output", from, to))?;
        Ok(SessionOutput { address, block: None, ..out })
    }
}
