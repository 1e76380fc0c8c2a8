//! Freed memory that is not pulled away yet.
//!
//! torch_npu frees a block while the kernel that reads it still waits in torch_npu's own queue. So a
//! freed block stays mapped and intact, first freed first out, until the work that was queued here at
//! the free is done and the freeing thread has begun and finished a synchronize since. Under pressure
//! a weaker proof counts: see [`Proof`].

use crate::clock::{Clock, Progress, Queued};
use crate::host::Ticket;
use crate::sync::Arc;
use std::collections::VecDeque;

/// A freed block, and what has to happen before it may be reused.
pub struct Entry {
    /// Where it begins in its arena.
    pub offset: u64,
    /// Its granted bytes.
    pub bytes: u64,
    /// The work that was queued when it was freed.
    pub tails: Clock,
    /// The freeing thread's next synchronize.
    pub ticket: Ticket,
}

/// How sure we are that nobody still counts on a freed block.
#[derive(Clone, Copy)]
pub enum Proof<'a> {
    /// Work queued at the free is done, and the freeing thread has synchronized since.
    Synchronized,
    /// Work queued at the free is done, and nothing has reached us for a while: whatever waited in
    /// somebody else's queue would have.
    Quiet,
    /// No task in these queues, which are all, touches the block, and nothing has reached us for a
    /// while. For when a function of the user holds a stream up.
    Unreferenced(&'a [Arc<dyn Queued>]),
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

    /// Adds a block that was just freed.
    pub fn push(&mut self, entry: Entry) {
        self.bytes += entry.bytes;
        self.entries.push_back(entry);
    }

    /// Takes the oldest block if the proof holds for it; where queued tasks hold blocks back, the
    /// oldest that none of them touches. `base` is where the arena begins.
    pub fn pop(&mut self, progress: &Progress, proof: Proof<'_>, base: usize) -> Option<Entry> {
        let proven = |entry: &Entry| match proof {
            Proof::Synchronized => entry.ticket.honoured() && progress.covers_all(&entry.tails),
            Proof::Quiet => progress.covers_all(&entry.tails),
            Proof::Unreferenced(queues) => {
                let start = base + entry.offset as usize;
                let range = start..start + entry.bytes as usize;
                !queues.iter().any(|queue| queue.touches(&range))
            }
        };
        let candidates = match proof {
            Proof::Unreferenced(_) => self.entries.len(),
            _ => self.entries.len().min(1),
        };
        let at = self.entries.iter().take(candidates).position(proven)?;
        let entry = self.entries.remove(at)?;
        self.bytes -= entry.bytes;
        Some(entry)
    }

    /// Takes the oldest block without any proof: the device is being closed.
    pub fn take_oldest(&mut self) -> Option<Entry> {
        let entry = self.entries.pop_front()?;
        self.bytes -= entry.bytes;
        Some(entry)
    }
}
