//! Where an execution runs, and whose memory it takes.

use cairn_runtime::Runtime;
use cairn_runtime::memory::PoolMaker;
use cairn_runtime::memory::allocator::Allocator;
use cairn_runtime::memory::registry::Domain;
use cairn_runtime::soc;
use cairn_runtime::stream::Stream;
use std::sync::Arc;

/// A stream, and the allocator that an execution there takes its memory from. The allocator is looked up once, when
/// the target is made, and kept alive by it.
#[derive(Clone)]
pub struct Target<'a> {
    /// The runtime.
    pub runtime: &'a Runtime,
    /// The stream.
    pub stream: Arc<Stream>,
    /// The handle by which the user knows the stream, where it is known.
    pub handle: Option<usize>,
    allocator: Arc<dyn Allocator>,
    is_external: bool,
}

impl<'a> Target<'a> {
    /// A stream of the user, by its handle, with what the user registered on that handle in `domain`; without a
    /// registration, with the pool of the device.
    pub fn registered(
        runtime: &'a Runtime,
        stream: Arc<Stream>,
        domain: Domain,
        handle: usize,
    ) -> Target<'a> {
        match runtime.allocators.allocator_for(domain, handle) {
            Some(allocator) => Target::with(runtime, stream, allocator),
            None => Target::built_in(runtime, stream),
        }
        .known_as(handle)
    }

    /// A stream with the pool of its device, whatever is registered.
    pub fn built_in(runtime: &'a Runtime, stream: Arc<Stream>) -> Target<'a> {
        let allocator = PoolMaker::built_in(&runtime.shared, stream.spec.device);
        Target { runtime, stream, handle: None, allocator, is_external: false }
    }

    /// A stream with an allocator of the caller's choice.
    pub fn with(
        runtime: &'a Runtime,
        stream: Arc<Stream>,
        allocator: Arc<dyn Allocator>,
    ) -> Target<'a> {
        Target { runtime, stream, handle: None, allocator, is_external: true }
    }

    /// The same target, whose stream the user knows by this handle.
    pub fn known_as(self, handle: usize) -> Target<'a> {
        Target { handle: Some(handle), ..self }
    }

    /// Where memory is taken from.
    pub fn allocator(&self) -> &Arc<dyn Allocator> {
        &self.allocator
    }

    /// Whether that is a user allocator.
    pub fn is_external(&self) -> bool {
        self.is_external
    }

    /// Bytes to ask that allocator for as the memory of a tensor: its own, and the padding of the SoC.
    pub fn padded_tensor_bytes(&self, bytes: usize) -> u64 {
        soc::padded_tensor_bytes(&self.runtime.shared.config.soc, bytes as u64).unwrap_or(u64::MAX)
    }

    /// The device of the stream.
    pub fn device(&self) -> u32 {
        self.stream.spec.device
    }
}
