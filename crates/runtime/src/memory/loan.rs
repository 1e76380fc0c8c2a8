//! What an arena lends to one pool.

use super::arena::{Arena, Attempt};
use crate::lock::{Mutex, Rank};
use crate::sync::Arc;
use crate::sync::atomic::{AtomicBool, Ordering};
use cairn_pool::Backing;
use std::ops::Range;

/// What a pool takes from its arena at a time, if there is so much.
const STRIDE: u64 = 2 << 20;

/// The backing of one pool: ranges of an arena, never more than `most` bytes.
///
/// Once closed it lends nothing and gives nothing back: what was lent is the arena's again, and the
/// number of the pool may be another's.
pub(super) struct Loan {
    /// Whose memory it is.
    pub arena: Arc<Arena>,
    number: u32,
    changed: AtomicBool,
    ledger: Mutex<Ledger>,
}

struct Ledger {
    lent: u64,
    most: u64,
    closed: bool,
}

impl Loan {
    /// Nothing yet, for the pool of this number.
    pub fn new(arena: Arc<Arena>, number: u32, most: u64) -> Loan {
        let ledger = Mutex::new(Rank::Loan, Ledger { lent: 0, most, closed: false });
        Loan { arena, number, changed: AtomicBool::new(false), ledger }
    }

    /// Bytes that are lent now.
    pub fn lent(&self) -> u64 {
        self.ledger.lock().lent
    }

    /// Changes the most that may be lent.
    pub fn set_most(&self, most: u64) {
        self.ledger.lock().most = most;
    }

    /// True once for every time that something was lent or given back.
    pub fn take_change(&self) -> bool {
        self.changed.swap(false, Ordering::Relaxed)
    }

    /// Closes if nothing is lent; true if it is closed now.
    pub fn close_if_idle(&self) -> bool {
        let mut ledger = self.ledger.lock();
        ledger.closed |= ledger.lent == 0;
        ledger.closed
    }

    /// Closes and takes everything back, whoever uses it.
    pub fn close(&self) {
        let mut ledger = self.ledger.lock();
        if !std::mem::replace(&mut ledger.closed, true) {
            ledger.lent = 0;
            self.arena.take_all_back(self.number);
        }
    }
}

impl Backing for Loan {
    fn extend(&self, bytes: u64) -> std::result::Result<Range<u64>, String> {
        let mut ledger = self.ledger.lock();
        if ledger.closed {
            return Err("the pool has ended".into());
        }
        let room = ledger.most.saturating_sub(ledger.lent);
        let generous = bytes.checked_next_multiple_of(STRIDE).filter(|&more| more <= room);
        let lent = self.arena.lend(generous.unwrap_or(bytes), self.number);
        let range =
            lent.or_else(|_| self.arena.lend(bytes, self.number)).map_err(
                |attempt| match attempt {
                    Attempt::Refused(reason) => reason,
                    _ => format!("{} has no {bytes} bytes left", self.arena.name),
                },
            )?;
        ledger.lent += range.end - range.start;
        self.changed.store(true, Ordering::Relaxed);
        Ok(range)
    }

    fn release(&self, range: Range<u64>) -> Vec<Range<u64>> {
        let mut ledger = self.ledger.lock();
        if ledger.closed {
            return Vec::new();
        }
        ledger.lent -= range.end - range.start;
        self.arena.take_back(range.clone());
        self.changed.store(true, Ordering::Relaxed);
        vec![range]
    }
}
