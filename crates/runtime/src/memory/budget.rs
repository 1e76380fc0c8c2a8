//! The bytes that all arenas of the process may hold together.

use crate::sync::atomic::{AtomicU64, Ordering};

/// A shared allowance. Lock-free.
pub struct Budget {
    limit: u64,
    used: AtomicU64,
    waiting: AtomicU64,
}

impl Budget {
    /// An allowance of this many bytes.
    pub fn new(limit: u64) -> Budget {
        Budget { limit, used: AtomicU64::new(0), waiting: AtomicU64::new(0) }
    }

    /// Takes bytes, or leaves everything as it was.
    pub fn take(&self, bytes: u64) -> bool {
        self.used
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |used| {
                used.checked_add(bytes).filter(|&sum| sum <= self.limit)
            })
            .is_ok()
    }

    /// Gives bytes back.
    pub fn give(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Ordering::AcqRel);
    }

    /// Replaces what was taken by what was really granted, which may be a little more.
    pub fn correct(&self, taken: u64, granted: u64) {
        self.used.fetch_add(granted - taken, Ordering::AcqRel);
    }

    /// Bytes that are used now wait in a quarantine.
    pub fn wait(&self, bytes: u64) {
        self.waiting.fetch_add(bytes, Ordering::AcqRel);
    }

    /// Gives bytes back that waited.
    pub fn give_waiting(&self, bytes: u64) {
        self.waiting.fetch_sub(bytes, Ordering::AcqRel);
        self.give(bytes);
    }

    /// Bytes that are left, or would be if all quarantines were empty.
    pub fn left_and_waiting(&self) -> u64 {
        self.left() + self.waiting.load(Ordering::Acquire)
    }

    /// Bytes that are left.
    pub fn left(&self) -> u64 {
        self.limit.saturating_sub(self.used.load(Ordering::Acquire))
    }
}
