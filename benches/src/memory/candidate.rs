//! The interface that every measured allocator is called through.

/// An allocator under test. Streams are small numbers; an allocator that knows none ignores them.
///
/// Calls are direct (each workload is compiled once per allocator), and no memory is touched.
pub trait Candidate: Send + Sync {
    /// What the allocator needs to free a block.
    type Block: Copy + Send;

    /// Takes `bytes` for work on `stream`.
    ///
    /// # Panics
    /// When there is no memory: a bench that goes on without it measures nothing.
    fn allocate(&self, bytes: usize, stream: usize) -> Self::Block;

    /// Gives a block back. `bytes` is what was asked for.
    fn free(&self, block: Self::Block, bytes: usize, stream: usize);

    /// Called once by a thread other than the one that made the candidate, before its first call.
    fn enter(&self) {}
}

/// A candidate that knows streams.
pub trait StreamOrdered: Candidate {
    /// Says that `stream` uses the block too.
    fn record_use(&self, block: Self::Block, stream: usize);
}

/// What is done with every candidate in turn.
pub trait Visit {
    /// One candidate, made anew for this visit.
    fn visit<C: Candidate + 'static>(&mut self, name: &'static str, candidate: C);
}
