//! Pages of a pool on their way to new addresses, while tasks use them at the old ones.
//!
//! ```text
//!  stream    ... | tasks that use a hole | move | tasks that use the block ...
//!  addresses       old                           new
//!  the pool      free the hole's blocks ──> stitch: hands out the new address at once
//! ```
//!
//! The move is a task of the stream that gets the block: what it submitted before finds the pages where they were, what it submits
//! later where they are. What the program's threads write to the block before that, outside of tasks, stays: pages no longer move there, and
//! the block has new ones ([`Moves::overtake`]). Whoever gives the old addresses back meanwhile (all tasks that used them are done) moves the pages itself.

use super::arena::Arena;
use crate::error::Result;
use crate::lock::{Mutex, Rank};
use crate::sync::Arc;
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::task::Work;
use std::ops::Range;

/// The moves of one pool that have not been done.
pub(super) struct Moves {
    arena: Arc<Arena>,
    waiting: Mutex<Waiting>,
    /// Moves that are in no stream yet.
    unsubmitted: AtomicUsize,
}

#[derive(Default)]
struct Waiting {
    moves: Vec<Move>,
    next_id: u64,
    /// How many the arena counts.
    counted: usize,
}

/// The pages at `old` go to `new`, as a part of the block that begins at `block`. All moves of a block have one id.
struct Move {
    id: u64,
    old: Range<u64>,
    new: u64,
    block: u64,
    is_submitted: bool,
}

impl Moves {
    /// None, of pages of this arena.
    pub fn new(arena: Arc<Arena>) -> Moves {
        let waiting = Mutex::new(Rank::Moves, Waiting::default());
        Moves { arena, waiting, unsubmitted: AtomicUsize::new(0) }
    }

    /// Moves pieces, side by side, to where a block begins: at once, or if tasks use them when
    /// [`Moves::task`] runs.
    pub fn start(&self, pieces: &[Range<u64>], block: u64, in_use: bool) {
        let mut new = block;
        let mut waiting = self.waiting.lock();
        waiting.next_id += 1;
        for old in pieces {
            let id = waiting.next_id;
            match in_use {
                true => {
                    let old = old.clone();
                    waiting.moves.push(Move { id, old, new, block, is_submitted: false });
                }
                false => self.arena.move_pages(old, new),
            }
            new += old.end - old.start;
        }
        self.count(&mut waiting);
    }

    /// The task that moves the pages of a block that was handed out just now, if it needs one.
    #[inline]
    pub fn task(self: &Arc<Moves>, block: u64) -> Option<Arc<MoveTask>> {
        match self.unsubmitted.load(Ordering::Relaxed) {
            0 => None,
            _ => self.find_task(block),
        }
    }

    #[cold]
    fn find_task(self: &Arc<Moves>, block: u64) -> Option<Arc<MoveTask>> {
        let mut waiting = self.waiting.lock();
        let mut id = None;
        for found in waiting.moves.iter_mut().filter(|m| m.block == block && !m.is_submitted) {
            found.is_submitted = true;
            id = Some(found.id);
        }
        self.count(&mut waiting);
        id.map(|id| Arc::new(MoveTask { moves: self.clone(), id }))
    }

    fn count(&self, waiting: &mut Waiting) {
        let count = waiting.moves.iter().filter(|m| !m.is_submitted).count();
        self.unsubmitted.store(count, Ordering::Relaxed);
        let (before, now) = (waiting.counted, waiting.moves.len());
        waiting.counted = now;
        self.arena.moves.fetch_add(now.wrapping_sub(before), Ordering::SeqCst);
    }

    /// A thread of the program writes there now, outside of tasks: nothing moves onto what it writes.
    pub fn overtake(&self, written: &Range<u64>) {
        let mut waiting = self.waiting.lock();
        waiting.moves.retain(|found| {
            let end = found.new + (found.old.end - found.old.start);
            found.new >= written.end || end <= written.start
        });
        self.count(&mut waiting);
    }

    /// All tasks that used these old addresses are done: what is still there moves now.
    pub fn settle(&self, old: &Range<u64>) {
        self.finish(|found| old.contains(&found.old.start));
    }

    fn finish(&self, is_due: impl Fn(&Move) -> bool) {
        let mut waiting = self.waiting.lock();
        for found in waiting.moves.extract_if(.., |found| is_due(found)) {
            self.arena.move_pages(&found.old, found.new);
        }
        self.count(&mut waiting);
    }
}

impl Drop for Moves {
    fn drop(&mut self) {
        let mut waiting = self.waiting.lock();
        waiting.moves.clear();
        self.count(&mut waiting);
    }
}

/// Moves the pages of one block, in the order of its stream. If it is dropped without having run, they are not moved: they
/// go with their addresses, and the block has new ones.
pub(super) struct MoveTask {
    moves: Arc<Moves>,
    id: u64,
}

impl Work for MoveTask {
    fn run(&self) -> Result<()> {
        self.moves.finish(|found| found.id == self.id);
        Ok(())
    }
}

impl Drop for MoveTask {
    fn drop(&mut self) {
        let mut waiting = self.moves.waiting.lock();
        waiting.moves.retain(|found| found.id != self.id);
        self.moves.count(&mut waiting);
    }
}
