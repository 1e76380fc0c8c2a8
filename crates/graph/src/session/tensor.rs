//! Tensors as they go into a run and come out of it.

use cairn_runtime::memory::supply::Lease;
use cairn_tensor::DType;
use std::sync::Arc;

/// A tensor that goes into a run.
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
    pub host: Option<Arc<[u8]>>,
    /// Whether the caller says that it lies on the host.
    pub says_host: bool,
}

impl RunTensor {
    /// Whether there is no memory.
    pub fn is_empty(&self) -> bool {
        self.address == 0
    }
}

/// Memory that a run made for an output.
pub enum Held {
    /// On the device; goes back to its maker when it is dropped.
    Device(Lease),
    /// On the host.
    Host(Box<[u8]>),
}

impl Held {
    /// The first byte.
    pub fn address(&self) -> usize {
        match self {
            Held::Device(lease) => lease.address(),
            Held::Host(bytes) if bytes.is_empty() => 0,
            Held::Host(bytes) => bytes.as_ptr() as usize,
        }
    }

    /// How many.
    pub fn bytes(&self) -> usize {
        match self {
            Held::Device(lease) => lease.bytes() as usize,
            Held::Host(bytes) => bytes.len(),
        }
    }
}

/// An output of a run.
pub struct Out {
    /// Its first byte.
    pub address: usize,
    /// Bytes of memory: at least those of its elements.
    pub bytes: usize,
    /// The type of its elements.
    pub dtype: DType,
    /// Its sizes.
    pub dims: Vec<i64>,
    /// Its memory, if the caller brought none.
    pub held: Option<Held>,
}
