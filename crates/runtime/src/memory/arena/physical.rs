//! The bytes of physical memory (`aclrtMallocPhysical`) that an arena accounts for: they have no address in it.
//!
//! ```text
//!  take_physical          retire_physical            release_physical
//!   free ──────> live ─────────────────────> waiting ─────────────────> free
//!                       its owners gave it           no queued task can
//!                       back: figures say free       touch it any more
//! ```

use super::{Arena, Attempt, ReuseCondition};

impl Arena {
    /// Takes bytes for physical memory; the address of a success means nothing.
    pub fn take_physical(&self, bytes: u64) -> Attempt {
        let mut inner = self.inner.lock();
        self.release_quarantined(&mut inner, ReuseCondition::Synchronized, u64::MAX);
        if bytes > self.capacity - inner.live || bytes > self.budget.available() {
            return Attempt::Exhausted;
        }
        if bytes > (self.capacity - inner.live).saturating_sub(inner.waiting())
            || !self.budget.take(bytes)
        {
            return Attempt::Waiting;
        }
        inner.live += bytes;
        inner.physical += bytes;
        inner.raise_peaks();
        self.emit_usage(&inner);
        Attempt::Taken(0)
    }

    /// The owners of physical memory gave it back; queued tasks may still touch it.
    pub fn retire_physical(&self, bytes: u64) {
        let mut inner = self.inner.lock();
        inner.live -= bytes;
        inner.physical -= bytes;
        inner.unmapping += bytes;
        self.budget.add_waiting(bytes);
        self.emit_usage(&inner);
    }

    /// Nothing can touch it any more, and its pages are the machine's again.
    pub fn release_physical(&self, bytes: u64) {
        let mut inner = self.inner.lock();
        inner.unmapping -= bytes;
        self.budget.give_waiting(bytes);
        self.emit_usage(&inner);
    }
}
