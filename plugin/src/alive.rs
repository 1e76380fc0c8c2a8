//! Streams that certainly exist: ACL reported their creation, and not yet their end.

use crate::acl::Handle;
use cairn_sync::lock::{Mutex, Rank};
use std::collections::BTreeSet;

static ALIVE: Mutex<BTreeSet<usize>> = Mutex::new(Rank::Handles, BTreeSet::new());

/// A stream was created.
pub fn add(handle: Handle) {
    ALIVE.lock().insert(handle as usize);
}

/// A stream is about to be destroyed.
pub fn remove(handle: Handle) {
    ALIVE.lock().remove(&(handle as usize));
}

/// A device was reset; which streams were destroyed with it is not known, so none is certain any more.
pub fn clear() {
    ALIVE.lock().clear();
}

/// True for a stream that was created after the first pool, and was not destroyed.
pub fn has(handle: Handle) -> bool {
    ALIVE.lock().contains(&(handle as usize))
}
