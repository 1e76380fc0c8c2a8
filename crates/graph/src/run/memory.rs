//! Who a graph takes memory from.

use cairn_exec::Target;
use cairn_runtime::error::Result;
use cairn_runtime::memory::allocator::Block;
use cairn_runtime::memory::purpose::{Owner, Purpose};
use cairn_runtime::memory::request::Request;
use cairn_runtime::soc;

/// Where one load or run of a graph takes its memory: from the allocator of its target, with the purpose told.
pub struct MemorySource<'a> {
    /// Where it is used, and who gives it.
    pub target: &'a Target<'a>,
    /// The graph's id.
    pub graph: u32,
}

impl MemorySource<'_> {
    /// Takes a block, at an address if that can be.
    pub fn near(
        &self,
        purpose: Purpose,
        operator: Option<&'static str>,
        bytes: u64,
        near: Option<usize>,
    ) -> Result<Block> {
        let owner = Owner { graph: Some(self.graph), operator };
        let request = Request::bytes(bytes).on(&self.target.stream).purpose(purpose, owner);
        Block::allocate(self.target.allocator(), &Request { near, ..request })
    }

    /// Takes a block.
    pub fn take(
        &self,
        purpose: Purpose,
        operator: Option<&'static str>,
        bytes: u64,
    ) -> Result<Block> {
        self.near(purpose, operator, bytes, None)
    }
}

/// Bytes of room for a tensor of an output or of a dynamic graph, never 0.
pub fn room(bytes: usize) -> u64 {
    soc::padded(bytes as u64).unwrap_or(u64::MAX)
}

/// Bytes of room for a workspace of a dynamic graph.
pub fn workspace_room(bytes: usize) -> u64 {
    (bytes as u64).next_multiple_of(512)
}
