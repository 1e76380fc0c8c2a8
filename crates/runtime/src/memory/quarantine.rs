//! Freed memory that may not be reused yet.
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
    /// All its bytes, padding included.
    pub bytes: u64,
    /// What the user's bytes are filled with when it leaves.
    pub poison: Option<u8>,
    /// The work that was queued when it was freed.
    pub tails: Clock,
    /// The freeing thread's next synchronize.
    pub ticket: Ticket,
}

/// The condition on which a freed block may be reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReuseCondition {
    /// Work queued at the free is done, and the freeing thread has synchronized since.
    Synchronized,
    /// Work queued at the free is done, and nothing was submitted for a while: whatever was in a
    /// queue of the program would have been.
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
        let is_reusable = progress.covers_all(&oldest.tails)
            && (condition == ReuseCondition::Quiet || oldest.ticket.is_satisfied());
        is_reusable.then(|| self.take_oldest()).flatten()
    }

    /// Takes the oldest blocks that no queued task touches, until they are `enough` bytes. For when a
    /// user function blocks a stream, and nothing was submitted for a while. `base` is where
    /// the arena begins.
    pub fn take_untouched(
        &mut self,
        queued: &QueuedMemory,
        base: usize,
        enough: u64,
    ) -> Vec<Entry> {
        let (mut taken, mut bytes) = (Vec::new(), 0);
        for _ in 0..self.entries.len() {
            let Some(entry) = self.entries.pop_front() else { break };
            let start = base + entry.offset as usize;
            if bytes < enough && !queued.touches(start, start + entry.bytes as usize) {
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
