//! Freed memory that is not pulled away yet.
//!
//! torch_npu frees a block while the kernel that reads it still waits in torch_npu's own queue. So a
//! freed block stays mapped and intact, first freed first out, until the work that was queued here at
//! the free is done and the freeing thread has begun and finished a synchronize since. Under pressure
//! a weaker condition counts: see [`ReuseCondition`].

use crate::clock::{Clock, Progress, QueuedMemory};
use crate::host::Ticket;
use std::collections::VecDeque;

/// A freed block, and what has to happen before it may be reused.
pub struct Entry {
    /// Where it begins in its arena, with the padding in front of the user's bytes.
    pub offset: u64,
    /// Bytes before the user's.
    pub front: u64,
    /// Its granted bytes, all of them.
    pub bytes: u64,
    /// What every byte of the user's becomes when it leaves.
    pub poison: Option<u8>,
    /// The work that was queued when it was freed.
    pub tails: Clock,
    /// The freeing thread's next synchronize.
    pub ticket: Ticket,
}

/// How sure we are that nobody still counts on a freed block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReuseCondition {
    /// Work queued at the free is done, and the freeing thread has synchronized since.
    Synchronized,
    /// Work queued at the free is done, and nothing has reached us for a while: whatever waited in
    /// somebody else's queue would have.
    Quiet,
}

/// Freed blocks of one arena, oldest first.
#[derive(Default)]
pub struct Quarantine {
    entries: VecDeque<Entry>,
    bytes: u64,
}

impl Quarantine {
    /// Bytes that wait.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Blocks that wait.
    pub fn blocks(&self) -> usize {
        self.entries.len()
    }

    /// Adds a block that was just freed.
    pub fn push(&mut self, entry: Entry) {
        self.bytes += entry.bytes;
        self.entries.push_back(entry);
    }

    /// Takes the oldest block if the condition holds for it.
    pub fn pop(&mut self, progress: &Progress, condition: ReuseCondition) -> Option<Entry> {
        let oldest = self.entries.front()?;
        let proven = progress.covers_all(&oldest.tails)
            && (condition == ReuseCondition::Quiet || oldest.ticket.is_satisfied());
        proven.then(|| self.take_oldest()).flatten()
    }

    /// Takes the oldest blocks that no queued task touches, until they are `enough` bytes. For when a
    /// user function holds a stream up, and nothing has reached us for a while. `base` is where
    /// the arena begins.
    pub fn take_untouched(&mut self, held: &QueuedMemory, base: usize, enough: u64) -> Vec<Entry> {
        let (mut taken, mut bytes) = (Vec::new(), 0);
        for _ in 0..self.entries.len() {
            let Some(entry) = self.entries.pop_front() else { break };
            let start = base + entry.offset as usize;
            if bytes < enough && !held.touches(start, start + entry.bytes as usize) {
                bytes += entry.bytes;
                taken.push(entry);
            } else {
                self.entries.push_back(entry);
            }
        }
        self.bytes -= bytes;
        taken
    }

    /// Takes the oldest block without any condition: the device is being closed.
    pub fn take_oldest(&mut self) -> Option<Entry> {
        let entry = self.entries.pop_front()?;
        self.bytes -= entry.bytes;
        Some(entry)
    }
}
