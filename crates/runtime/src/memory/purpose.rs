//! What memory is for, and for whom.

/// What a block of memory is for. The numbers 1 to 7 are part of `cairn/reason.h`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
pub enum Purpose {
    /// The program asked for it: `aclrtMalloc` and similar functions.
    #[default]
    User = 0,
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
    HostCopy = 7,
    /// What a pool hands out in blocks.
    PoolSegment = 8,
    /// What a captured graph keeps.
    Capture = 9,
    /// Buffers of collective communication.
    Collective = 10,
    /// A variable of a session of graphs.
    Variable = 11,
}

impl Purpose {
    /// Its name in messages.
    pub fn name(self) -> &'static str {
        match self {
            Purpose::User => "user",
            Purpose::Const => "const",
            Purpose::Feature => "feature",
            Purpose::Fixed => "fixed feature",
            Purpose::Intermediate => "intermediate",
            Purpose::Workspace => "workspace",
            Purpose::Output => "output",
            Purpose::HostCopy => "host input",
            Purpose::PoolSegment => "pool segment",
            Purpose::Capture => "capture",
            Purpose::Collective => "collective",
            Purpose::Variable => "variable",
        }
    }
}

/// Who a block is for, as far as it is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Owner {
    /// The id that the user gave the graph: two sessions may have the same.
    pub graph: Option<u32>,
    /// The loaded graph: [`crate::record::event::StepPlan::loaded`].
    pub loaded: Option<u64>,
    /// The operator, by the name the user knows.
    pub operator: Option<&'static str>,
}
