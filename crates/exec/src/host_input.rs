//! Inputs that lie on the host: brought to memory of the stream's allocator, before the call.

use crate::execution::Execution;
use crate::target::Target;
use bytes::Bytes;
use cairn_runtime::error::Result;
use cairn_runtime::memory::allocator::Block;
use cairn_runtime::memory::purpose::{Owner, Purpose};
use cairn_runtime::memory::raw::{TaskMemory, Use};
use cairn_runtime::memory::request::Request;
use cairn_runtime::task::{Body, Kernel, Location, Span, Spans, Task};
use std::sync::Arc;

/// The bytes of one input.
pub struct HostInput {
    /// The input's index. Those in a list count on from the list's own.
    pub index: usize,
    /// A copy of the user's bytes.
    pub bytes: Bytes,
}

/// A task that copies bytes of the host to memory of a device that is at least as long. Texts of failures begin with
/// `failure_prefix`, which names the input of a graph that it belongs to.
pub fn upload(
    name: &'static str,
    bytes: &Bytes,
    address: usize,
    device: u32,
    failure_prefix: Option<String>,
) -> Task {
    let target = Span { address, bytes: bytes.len(), location: Location::Device(device) };
    let body = Body::Kernel(Arc::new(Upload { bytes: bytes.clone(), failure_prefix }));
    Task { name, reads: Spans::new(), writes: [target].into_iter().collect(), body }
}

struct Upload {
    bytes: Bytes,
    failure_prefix: Option<String>,
}

impl Kernel for Upload {
    fn argument(&self, _purpose: Use, _index: usize) -> &str {
        "the copy of a host input"
    }

    fn run(&self, task_memory: &TaskMemory<'_>) -> Result<()> {
        task_memory.copy_to_write(0, 0, &self.bytes);
        Ok(())
    }

    fn failure_prefix(&self) -> Option<&str> {
        self.failure_prefix.as_deref()
    }
}

impl Execution {
    /// Takes memory for the workspace and for every host input that the call reads, queues copies and the
    /// call, and gives the memory back: all on this thread, before anything has run. Gives the number of the
    /// call's task on its stream.
    pub fn execute(self: &Arc<Execution>, target: &Target<'_>, hosts: &[HostInput]) -> Result<u64> {
        let (stream, allocator) = (&target.stream, target.allocator());
        let owner = Owner { operator: Some(self.name), ..Owner::default() };
        let mut addresses = self.addresses();
        let mut uploads = Vec::new();
        for host in hosts {
            let mut indices = (0..=host.index).map(|inner| (host.index - inner, inner));
            let Some(argument) = indices.find(|argument| self.touches(*argument)) else { continue };
            let padded = target.padded_tensor_bytes(host.bytes.len());
            let request = Request::bytes(padded).on(stream).purpose(Purpose::HostCopy, owner);
            let block = Block::allocate(allocator, &request)?;
            self.relocate(&mut addresses, argument, block.address());
            uploads.push((block, host.bytes.clone()));
        }
        let workspace = match self.workspace() {
            0 => None,
            bytes => {
                let request = Request::bytes(bytes as u64).on(stream);
                Some(Block::allocate(allocator, &request.purpose(Purpose::Workspace, owner))?)
            }
        };
        let mut submitted = Ok(());
        for (block, bytes) in &uploads {
            let task = upload(self.name, bytes, block.address(), target.device(), None);
            submitted = submitted.and_then(|()| stream.submit(task).map(drop));
        }
        let workspace_address = workspace.as_ref().map_or(0, Block::address);
        let submitted = submitted.and_then(|()| self.submit(stream, &addresses, workspace_address));
        let blocks = uploads.into_iter().map(|(block, _)| block).chain(workspace);
        let freed = blocks.map(Block::free).fold(Ok(()), Result::and);
        submitted.and_then(|seq| freed.map(|()| seq))
    }
}
