//! Groups of calls, noted by a thread and made when its outermost group ends.

use crate::error::Result;

/// Begins a group on the calling thread; groups nest.
pub fn start() {
    todo!()
}

/// Ends the innermost group. The outermost makes all that was noted: creations in threads, one each, then operators in the
/// order of the calls, where the sends and receives of one communicator become one batch on the first stream used. Returns
/// the first failure; waits for creations, not for streams. Without a group: code 5.
pub fn end() -> Result<()> {
    todo!()
}

/// Whether the calling thread is inside a group.
pub fn is_active() -> bool {
    todo!()
}

/// Creates a communicator: at once, or when the thread's group ends, on a thread of its own. `creation` makes it and hands
/// it to the program. Code 5 in a group that has operators.
pub fn create(creation: impl FnOnce() -> Result<()> + Send + 'static) -> Result<()> {
    let _ = creation;
    todo!()
}
