//! What a graph takes memory for, and from whom.

use cairn_exec::Target;
use cairn_runtime::error::Result;
use cairn_runtime::memory::allocator::Block;
use cairn_runtime::memory::request::Request;
use std::cell::Cell;

/// What memory is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
pub enum Class {
    /// Constants, for as long as a graph is loaded.
    Const = 1,
    /// Intermediates and workspaces of a static graph.
    Feature = 2,
    /// What a graph computes once, when it is loaded.
    Fixed = 3,
    /// An intermediate of a dynamic graph.
    Intermediate = 4,
    /// Scratch memory of one operator.
    Workspace = 5,
    /// An output that the caller left empty.
    Output = 6,
    /// The copy of an input that lies on the host.
    HostInput = 7,
}

impl Class {
    /// In the user's words.
    pub fn name(self) -> &'static str {
        match self {
            Class::Const => "const",
            Class::Feature => "feature",
            Class::Fixed => "fixed feature",
            Class::Intermediate => "intermediate",
            Class::Workspace => "workspace",
            Class::Output => "output",
            Class::HostInput => "host input",
        }
    }
}

/// Why the engine calls an allocator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reason {
    /// What the memory is for.
    pub class: Class,
    /// The graph's id.
    pub graph: u32,
    /// The operator, where it is for one.
    pub operator: Option<&'static str>,
}

thread_local! {
    static REASON: Cell<Option<Reason>> = const { Cell::new(None) };
}

/// Why an allocator is being called on this thread; `None` outside such a call.
pub fn reason() -> Option<Reason> {
    REASON.get()
}

/// Where one load or run of a graph takes its memory: from the allocator of its target, with the reason told.
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
        class: Class,
        operator: Option<&'static str>,
        bytes: u64,
        near: Option<usize>,
    ) -> Result<Block> {
        let before = REASON.replace(Some(Reason { class, graph: self.graph, operator }));
        let mut request = Request::bytes(bytes);
        request.near = near;
        let taken = Block::allocate(self.target.allocator(), &request, Some(&self.target.stream));
        REASON.set(before);
        taken
    }

    /// Takes a block.
    pub fn take(&self, class: Class, operator: Option<&'static str>, bytes: u64) -> Result<Block> {
        self.near(class, operator, bytes, None)
    }
}

/// Bytes of room for a tensor of an output or of a dynamic graph: a multiple of 32 and 32 more, never 0.
pub fn room(bytes: usize) -> u64 {
    match bytes {
        0 => 32,
        bytes => (bytes as u64).next_multiple_of(32) + 32,
    }
}

/// Bytes of room for a workspace of a dynamic graph.
pub fn workspace_room(bytes: usize) -> u64 {
    (bytes as u64).next_multiple_of(512)
}
