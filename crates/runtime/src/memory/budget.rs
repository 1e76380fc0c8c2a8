//! The bytes that all arenas of the process may hold together.

use super::claims::Claims;
use crate::sync::atomic::{AtomicU64, Ordering};

/// A limit that all arenas share. Lock-free, except each time its use grows by 64 MiB or so: then the claims of other
/// processes are read (`claims.rs`).
pub struct Budget {
    limit: u64,
    used: AtomicU64,
    /// Bytes in quarantines, among `used`.
    waiting: AtomicU64,
    claims: Option<Claims>,
}

impl Budget {
    /// A budget of this many bytes.
    pub fn new(limit: u64) -> Budget {
        Budget { limit, used: AtomicU64::new(0), waiting: AtomicU64::new(0), claims: None }
    }

    /// The same, as far as other processes have not claimed it.
    pub fn among_processes(limit: u64, claims: Option<Claims>) -> Budget {
        Budget { claims, ..Budget::new(limit) }
    }

    /// Takes bytes, or leaves everything as it was.
    pub fn take(&self, bytes: u64) -> bool {
        let taken = self.used.fetch_update(Ordering::SeqCst, Ordering::Acquire, |used| {
            used.checked_add(bytes).filter(|&sum| sum <= self.limit)
        });
        let Ok(before) = taken else { return false };
        let is_claimed = self.claims.as_ref().is_none_or(|claims| claims.cover(before + bytes));
        if !is_claimed {
            self.used.fetch_sub(bytes, Ordering::AcqRel);
        }
        is_claimed
    }

    /// Counts bytes that are in use, whether there is room for them or not: nobody asked before. They are given back as others are.
    pub fn charge(&self, bytes: u64) {
        let used = self.used.fetch_add(bytes, Ordering::SeqCst) + bytes;
        if let Some(claims) = &self.claims {
            claims.set_least(used);
        }
    }

    /// Gives bytes back.
    pub fn give(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Ordering::AcqRel);
        if let Some(claims) = &self.claims {
            claims.shrink(|| self.used.load(Ordering::SeqCst));
        }
    }

    /// Replaces what was taken by what was really granted, which may be a little more.
    pub fn correct(&self, taken: u64, granted: u64) {
        self.used.fetch_add(granted - taken, Ordering::AcqRel);
    }

    /// Counts bytes that are used as quarantined.
    pub fn add_waiting(&self, bytes: u64) {
        self.waiting.fetch_add(bytes, Ordering::AcqRel);
    }

    /// Gives back bytes that were quarantined.
    pub fn give_waiting(&self, bytes: u64) {
        self.waiting.fetch_sub(bytes, Ordering::AcqRel);
        self.give(bytes);
    }

    /// Bytes that are left, or would be if all quarantines were empty. The claims of other processes count
    /// only after they were an obstacle.
    pub fn available(&self) -> u64 {
        let max_claim = self.claims.as_ref().map_or(u64::MAX, Claims::max_claim_if_short);
        self.left_under(max_claim) + self.waiting.load(Ordering::Acquire)
    }

    /// The same, with the claims of all other processes: for figures that a user sees.
    pub fn free(&self) -> u64 {
        let max_claim = self.claims.as_ref().map_or(u64::MAX, Claims::max_claim);
        self.left_under(max_claim) + self.waiting.load(Ordering::Acquire)
    }

    fn left_under(&self, max_claim: u64) -> u64 {
        self.limit.min(max_claim).saturating_sub(self.used.load(Ordering::Acquire))
    }
}
