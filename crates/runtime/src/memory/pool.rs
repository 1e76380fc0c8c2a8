//! Stream-ordered pools over the memory of a device: the built-in one, and those that users make.

use super::Memory;
use super::arena::{Arena, Attempt};
use super::moves::MoveTask;
use super::pool_blocks::PoolBlocks;
use super::raw::Extent;
use super::request::Request;
use super::segments::Segments;
use crate::clock::{Clock, Epoch, Progress, StreamIndex};
use crate::error::{Code, Error, Result};
use crate::stream::Stream;
use crate::sync::Arc;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::task::{Body, Task};
use cairn_pool::{BlockError, Figures, Outcome, Owner, Pool};
use std::sync::OnceLock;

/// A pool of memory for the streams of one device. Blocks carry no quarantine: they are reused in the
/// order of streams, as `cairn_pool::Pool` says.
pub struct StreamPool {
    /// Its number in this process, from 1.
    pub number: u32,
    /// The device whose memory it has.
    pub device: u32,
    /// True for the one that operators take from; its blocks are not the user's.
    pub built_in: bool,
    /// Whether the user wants memory reused on other streams once its tasks have finished. It always is, which is safe.
    pub opportunistic: AtomicBool,
    /// Whether the user would let streams wait for each other to share memory. They never do.
    pub internal_waits: AtomicBool,
    pool: Pool<Engine, Segments>,
    /// The table of its blocks.
    blocks: Arc<PoolBlocks>,
    /// See [`StreamPool::release_above`].
    pub(super) release_above: AtomicU64,
    /// It was destroyed: it allocates no more blocks.
    pub(super) closing: AtomicBool,
    /// The user can no longer use it.
    pub(super) ended: AtomicBool,
    /// Its memory went back to the device, or is about to.
    pub(super) gone: AtomicBool,
    /// What was queued when its device was closed: its memory stays until that has finished.
    pub(super) last_tails: OnceLock<Clock>,
}

/// The engine's own clocks, as a pool sees them.
struct Engine {
    progress: Arc<Progress>,
    follow_events: AtomicBool,
}

impl cairn_pool::Progress for Engine {
    fn submitted(&self, stream: StreamIndex) -> u64 {
        self.progress.submitted(stream)
    }

    fn finished(&self, stream: StreamIndex) -> u64 {
        self.progress.finished(stream)
    }

    fn is_ordered(&self, stream: StreamIndex, epoch: Epoch) -> bool {
        self.follow_events.load(Ordering::Relaxed) && self.progress.is_ordered(stream, epoch)
    }
}

/// Lets pages move to a new block in the order of its stream. Where that takes no tasks the block has new pages.
#[cold]
fn submit_move(task: Arc<MoveTask>, stream: &Arc<Stream>) {
    if let Err(error) = stream.submit(Task::bare("stitch", Body::Work(task))) {
        log::debug!("pages stay where they are: {}", error.text);
    }
}

impl StreamPool {
    pub(super) fn new(
        memory: &Memory,
        number: u32,
        device: u32,
        max_bytes: u64,
        built_in: bool,
    ) -> StreamPool {
        let arena = memory.devices[device as usize].clone();
        let engine =
            Engine { progress: memory.progress.clone(), follow_events: AtomicBool::new(true) };
        let blocks = arena.blocks().clone();
        let (stack, spine) = (memory.layers.segments().clone(), memory.spine.clone());
        let stitches = memory.stitches;
        let segments = Segments::new(arena, device, number, max_bytes, stitches, stack, spine);
        StreamPool {
            number,
            device,
            built_in,
            opportunistic: AtomicBool::new(true),
            internal_waits: AtomicBool::new(false),
            pool: Pool::new(engine, segments, max_bytes),
            blocks,
            release_above: AtomicU64::new(u64::MAX),
            closing: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            gone: AtomicBool::new(false),
            last_tails: OnceLock::new(),
        }
    }

    /// Its name in error messages.
    pub fn name(&self) -> String {
        match self.built_in {
            true => format!("the pool of device {}", self.device),
            false => format!("pool {} of device {}", self.number, self.device),
        }
    }

    /// True once it cannot be used: its device was reset, or it was destroyed and all blocks are freed.
    pub fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    pub(super) fn arena(&self) -> &Arena {
        &self.segments().arena
    }

    pub(super) fn segments(&self) -> &Segments {
        self.pool.source()
    }

    /// Fails once it has ended.
    pub(super) fn check_not_ended(&self) -> Result<()> {
        match self.has_ended() {
            false => Ok(()),
            true => Err(Error::new(Code::InvalidHandle, format!("{} has ended", self.name()))),
        }
    }

    /// Fails once it is destroyed or has ended.
    pub(super) fn check_open(&self) -> Result<()> {
        match self.closing.load(Ordering::Acquire) {
            false => self.check_not_ended(),
            true => {
                Err(Error::new(Code::InvalidHandle, format!("{} has been destroyed", self.name())))
            }
        }
    }

    /// The figures of the whole pool.
    pub fn figures(&self) -> Figures {
        self.pool.figures()
    }

    /// The figures of one stream.
    pub fn figures_of(&self, stream: &Stream) -> Figures {
        self.pool.figures_of(stream.index).unwrap_or_default()
    }

    /// Forgets all peaks.
    pub fn reset_peak(&self) {
        self.pool.reset_peak();
    }

    /// Forgets how much was live.
    pub fn reset_peak_live(&self) {
        self.pool.reset_peak_live();
    }

    /// Forgets how much was reserved.
    pub fn reset_peak_reserved(&self) {
        self.pool.reset_peak_reserved();
    }

    /// Who holds memory of it, the largest first.
    pub fn owners(&self) -> Vec<Owner> {
        self.pool.owners()
    }

    /// The most bytes that it may take from its device.
    pub fn budget(&self) -> u64 {
        self.pool.budget()
    }

    /// Changes the budget.
    pub fn set_budget(&self, bytes: u64) {
        self.segments().set_max_bytes(bytes);
        self.pool.set_budget(bytes);
    }

    /// Gives free memory back to the device until at most `keep` bytes are left; returns how much.
    pub fn trim(&self, keep: u64) -> u64 {
        self.pool.trim(keep)
    }

    /// Records that another stream uses the block at an address.
    pub fn record_use(&self, address: usize, stream: &Stream) -> Result<()> {
        self.check_not_ended()?;
        let offset = self.arena().offset(address).ok_or(BlockError::Unknown);
        offset
            .and_then(|offset| self.pool.record_use(offset, stream.index))
            .map_err(|error| self.block_error(address, error))
    }

    /// Sets whether memory may be reused on another stream because events ordered it; else only when its
    /// tasks have finished.
    pub fn follow_events(&self, follow: bool) {
        self.pool.progress().follow_events.store(follow, Ordering::Relaxed);
    }

    /// True if events count.
    pub fn follows_events(&self) -> bool {
        self.pool.progress().follow_events.load(Ordering::Relaxed)
    }

    /// The bytes above which free memory goes back to the device whenever a stream is synchronized.
    pub fn release_above(&self) -> u64 {
        self.release_above.load(Ordering::Relaxed)
    }

    /// Tries to allocate once.
    pub(super) fn attempt(&self, request: &Request<'_>, stream: &Arc<Stream>) -> Attempt {
        let Some(bytes) = request.padded_bytes() else { return Attempt::Exhausted };
        match self.pool.allocate(bytes, request.align, stream.index) {
            Outcome::Ready { offset, .. } => {
                if let Some(task) = self.segments().moves().task(offset) {
                    submit_move(task, stream);
                }
                let offset = offset + request.front;
                self.blocks.hold(offset, request.bytes);
                Attempt::Taken(self.arena().address(offset))
            }
            Outcome::Wait(_) => Attempt::Waiting,
            Outcome::Exhausted(_) if self.arena().live_and_quarantined().1 > 0 => Attempt::Waiting,
            Outcome::Exhausted(reason) => Attempt::Refused(reason),
            Outcome::OverBudget => Attempt::OverLimit(self.pool.budget()),
        }
    }

    /// Bytes of the device, whoever holds them.
    pub(super) fn extent(&self, address: usize, bytes: usize) -> Option<Extent> {
        self.arena().extent(address, bytes)
    }

    /// Frees the user's block at `address`, which with its padding begins at `start`.
    pub(super) fn free(&self, address: usize, start: usize, stream: &Stream) -> Result<()> {
        self.check_not_ended()?;
        let offset = self.arena().offset(start).ok_or(BlockError::Unknown);
        if let Some(offset) = self.arena().offset(address) {
            self.blocks.free(offset);
        }
        let freed = offset.and_then(|offset| self.pool.free(offset, stream.index));
        freed.map(|_| ()).map_err(|error| self.block_error(address, error))
    }

    /// The user's bytes of the held block at `address`, which with its padding begins at `start`.
    pub(super) fn held_bytes(&self, address: usize, start: usize) -> Option<u64> {
        self.pool.find(self.arena().offset(start)?)?;
        Some(self.blocks.bytes(self.arena().offset(address)?))
    }

    /// The error for a free of something that is no block.
    pub(super) fn no_block_at(&self, address: usize) -> Error {
        self.block_error(address, BlockError::Unknown)
    }

    /// The error for a user's free of memory that operators took.
    pub(super) fn not_user_memory(&self, address: usize) -> Error {
        Error::refused(format!(
            "{address:#x} belongs to {}, from which operators take memory, and is theirs to give back",
            self.name()
        ))
    }

    /// True if only this stream may use the block that begins at `address`.
    pub(super) fn is_only_of(&self, address: usize, stream: &Stream) -> bool {
        let offset = self.arena().offset(address);
        offset.is_some_and(|offset| self.pool.is_only_of(offset, stream.index))
    }

    /// The error for an address where no live block begins.
    fn block_error(&self, address: usize, error: BlockError) -> Error {
        let reason = match error {
            BlockError::Unknown => "no block begins there",
            BlockError::NotLive => "it was already freed",
        };
        Error::refused(format!(
            "{address:#x} is not the start of a live block of {}: {reason}",
            self.name()
        ))
    }
}
