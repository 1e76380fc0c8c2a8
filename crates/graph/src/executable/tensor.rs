//! Tensors as they go into a run and come out of it.

use bytes::Bytes;
use cairn_runtime::memory::allocator::Block;
use cairn_tensor::{DType, Layout};

/// A tensor as a user of the engine describes it.
#[derive(Clone, Debug)]
pub struct RunTensor {
    /// Its first byte; 0 for none.
    pub address: usize,
    /// Bytes there.
    pub bytes: usize,
    /// The type of its elements, where the caller says.
    pub dtype: Option<DType>,
    /// Its sizes, where the caller says.
    pub dims: Option<Vec<i64>>,
    /// A copy of its bytes, if it lies on the host.
    pub host: Option<Bytes>,
    /// Whether the caller says that it lies on the host.
    pub says_host: bool,
}

impl RunTensor {
    /// Whether there is no memory.
    pub fn is_empty(&self) -> bool {
        self.address == 0
    }
}

/// A tensor that was checked against an input of an executable: see
/// [`Executable::input`](super::Executable::input).
#[derive(Clone, Debug)]
pub struct RunInput {
    /// Its elements, one after the other.
    pub(crate) layout: Layout,
    /// Where it is on the device; 0 for one on the host.
    pub(crate) address: usize,
    /// Its bytes, if it is on the host.
    pub(crate) host: Option<Bytes>,
}

impl RunInput {
    /// Where it is on the device; `None` for one on the host, which each run copies.
    pub fn device_address(&self) -> Option<usize> {
        self.host.is_none().then_some(self.address)
    }

    /// Bytes of its elements.
    pub fn bytes(&self) -> usize {
        self.layout.bytes()
    }
}

/// Memory that the caller has for an output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutputMemory {
    /// First byte, on the device.
    pub address: usize,
    /// How many.
    pub bytes: usize,
}

/// An output of a run.
pub struct RunOutput {
    /// Its elements, one after the other.
    pub layout: Layout,
    /// Where it is.
    pub address: usize,
    /// Its memory, if the caller brought none; goes back to its allocator when it is dropped.
    pub block: Option<Block>,
}
