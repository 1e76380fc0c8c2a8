//! Streams that live for certain: ACL reported their creation, and not yet their end.

use crate::acl::Handle;
use cairn_sync::lock::{Mutex, Rank};
use std::collections::BTreeSet;

static ALIVE: Mutex<BTreeSet<usize>> = Mutex::new(Rank::Handles, BTreeSet::new());

/// A stream was made.
pub fn add(handle: Handle) {
    ALIVE.lock().insert(handle as usize);
}

/// A stream is about to be destroyed.
pub fn remove(handle: Handle) {
    ALIVE.lock().remove(&(handle as usize));
}

/// A device was reset, and which streams went with it is not known: none is certain any more.
pub fn clear() {
    ALIVE.lock().clear();
}

/// True for a stream that was made since the first pool was, and lives.
pub fn has(handle: Handle) -> bool {
    ALIVE.lock().contains(&(handle as usize))
}
