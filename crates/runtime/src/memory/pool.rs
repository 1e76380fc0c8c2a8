//! Stream-ordered pools over the memory of a device: the built-in one, and those that users make.

use super::allocator::{Allocator, RawBlock};
use super::arena::{Arena, Attempt};
use super::loan::Loan;
use super::ordered::Ordered;
use super::raw::Extent;
use super::request::Request;
use super::{Memory, describe};
use crate::clock::{Clock, Epoch, Progress, StreamIndex};
use crate::error::{Code, Error, Result};
use crate::lock::{Mutex, MutexGuard, Rank};
use crate::shared::Shared;
use crate::stream::Stream;
use crate::sync::Arc;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use cairn_pool::{Figures, Outcome, Owner, Pool, Wrong};
use std::collections::HashMap;
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
    /// Whether the user wants done memory to be used on other streams. It is in any case: it is safe.
    pub opportunistic: AtomicBool,
    /// Whether the user would let streams wait for each other to share memory. They never do.
    pub internal_waits: AtomicBool,
    pool: Pool<Engine, Loan>,
    release_above: AtomicU64,
    /// No more blocks are given.
    closing: AtomicBool,
    /// Nothing is left for the user.
    ended: AtomicBool,
    /// Nothing is left at all, or soon will be.
    gone: AtomicBool,
    /// What was queued when its device ended: until that is done its memory stays where it is.
    last_tails: OnceLock<Clock>,
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

    fn is_ordered(&self, on: StreamIndex, epoch: Epoch) -> bool {
        self.follow_events.load(Ordering::Relaxed) && self.progress.is_ordered(on, epoch)
    }
}

impl StreamPool {
    fn new(memory: &Memory, number: u32, device: u32, most: u64, built_in: bool) -> StreamPool {
        let arena = memory.devices[device as usize].clone();
        let engine =
            Engine { progress: memory.progress.clone(), follow_events: AtomicBool::new(true) };
        StreamPool {
            number,
            device,
            built_in,
            opportunistic: AtomicBool::new(true),
            internal_waits: AtomicBool::new(false),
            pool: Pool::new(engine, Loan::new(arena, number, most), most),
            release_above: AtomicU64::new(u64::MAX),
            closing: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            gone: AtomicBool::new(false),
            last_tails: OnceLock::new(),
        }
    }

    /// What the user calls it, for error texts.
    pub fn name(&self) -> String {
        match self.built_in {
            true => format!("the pool of device {}", self.device),
            false => format!("pool {} of device {}", self.number, self.device),
        }
    }

    /// True once nothing is left of it: its device was reset, or it was destroyed and all is back.
    pub fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    fn arena(&self) -> &Arena {
        &self.loan().arena
    }

    fn loan(&self) -> &Loan {
        self.pool.backing()
    }

    /// Fails once it has ended.
    pub(super) fn check(&self) -> Result<()> {
        match self.has_ended() {
            false => Ok(()),
            true => Err(Error::new(Code::InvalidHandle, format!("{} has ended", self.name()))),
        }
    }

    /// Fails once it gives no more blocks.
    fn check_open(&self) -> Result<()> {
        match self.closing.load(Ordering::Acquire) {
            false => self.check(),
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

    /// Changes that.
    pub fn set_budget(&self, most: u64) {
        self.loan().set_most(most);
        self.pool.set_budget(most);
    }

    /// Gives free memory back to the device until at most `keep` bytes are left; returns how much.
    pub fn trim(&self, keep: u64) -> u64 {
        self.pool.trim(keep)
    }

    /// Says that work on another stream uses the block at an address.
    pub fn record_use(&self, address: usize, stream: &Stream) -> Result<()> {
        self.check()?;
        let offset = self.arena().offset(address).ok_or(Wrong::Unknown);
        offset
            .and_then(|offset| self.pool.record_use(offset, stream.index))
            .map_err(|wrong| self.wrong(address, wrong))
    }

    /// Whether memory may be reused on another stream because events ordered it; else only when it is
    /// done.
    pub fn follow_events(&self, follow: bool) {
        self.pool.progress().follow_events.store(follow, Ordering::Relaxed);
    }

    /// True if events count.
    pub fn follows_events(&self) -> bool {
        self.pool.progress().follow_events.load(Ordering::Relaxed)
    }

    /// What is free above so many bytes goes back to the device whenever a stream is waited for.
    pub fn release_above(&self) -> u64 {
        self.release_above.load(Ordering::Relaxed)
    }

    fn attempt(&self, request: &Request, stream: &Stream) -> Attempt {
        let Some(whole) = request.whole() else { return Attempt::Exhausted };
        match self.pool.allocate(whole, request.align, stream.index) {
            Outcome::Ready { offset, .. } => {
                Attempt::Taken(self.arena().address(offset + request.front))
            }
            Outcome::Wait(_) => Attempt::Waiting,
            Outcome::Exhausted(_) if self.arena().held().1 > 0 => Attempt::Waiting,
            Outcome::Exhausted(reason) => Attempt::Refused(reason),
            Outcome::OverBudget => Attempt::OverLimit(self.pool.budget()),
        }
    }

    /// Bytes of it, whoever holds them.
    pub(super) fn extent(&self, address: usize, bytes: usize) -> Option<Extent> {
        self.arena().extent(address, bytes)
    }

    /// Gives a block back that begins at `address`, room included.
    pub(super) fn give(&self, address: usize, stream: &Stream) -> Result<()> {
        self.check()?;
        let offset = self.arena().offset(address).ok_or(Wrong::Unknown);
        let freed = offset.and_then(|offset| self.pool.free(offset, stream.index));
        freed.map(|_| ()).map_err(|wrong| self.wrong(address, wrong))
    }

    /// The error of whoever gives something back that is no block.
    pub(super) fn no_block_at(&self, address: usize) -> Error {
        self.wrong(address, Wrong::Unknown)
    }

    /// The error of a user who gives memory of operators back.
    pub(super) fn not_the_users(&self, address: usize) -> Error {
        Error::refused(format!(
            "{address:#x} belongs to {}, from which operators take memory, and is theirs to give back",
            self.name()
        ))
    }

    /// True if only this stream may use the block that begins at `address`.
    pub(super) fn is_of(&self, address: usize, stream: &Stream) -> bool {
        let offset = self.arena().offset(address);
        offset.is_some_and(|offset| self.pool.is_only_of(offset, stream.index))
    }

    fn wrong(&self, address: usize, wrong: Wrong) -> Error {
        let reason = match wrong {
            Wrong::Unknown => "no block begins there",
            Wrong::NotHeld => "it was already freed",
        };
        Error::refused(format!(
            "{address:#x} is not the start of a live block of {}: {reason}",
            self.name()
        ))
    }
}

/// All pools of the process, and which are built in.
pub(super) struct Pools {
    table: Mutex<Table>,
    /// True once any pool has a threshold, or is to end later.
    thresholds: AtomicBool,
    /// Blocks of users' pools that went out through layers, by address, with the pool's number.
    layered: Mutex<HashMap<usize, (u32, RawBlock)>>,
}

#[derive(Default)]
struct Table {
    all: Vec<Option<Arc<StreamPool>>>,
    built_in: Vec<Option<Arc<StreamPool>>>,
}

impl Pools {
    pub fn new(devices: usize) -> Pools {
        let table = Table { all: Vec::new(), built_in: vec![None; devices] };
        Pools {
            table: Mutex::new(Rank::Registry, table),
            thresholds: AtomicBool::new(false),
            layered: Mutex::new(Rank::Registry, HashMap::new()),
        }
    }

    /// The blocks that went out through layers.
    pub fn layered(&self) -> MutexGuard<'_, HashMap<usize, (u32, RawBlock)>> {
        self.layered.lock()
    }

    fn get(&self, number: u32) -> Option<Arc<StreamPool>> {
        self.table.lock().all.get(number as usize - 1).cloned().flatten()
    }

    fn all(&self) -> Vec<Arc<StreamPool>> {
        self.table.lock().all.iter().flatten().cloned().collect()
    }
}

impl Table {
    fn add(&mut self, memory: &Memory, device: u32, most: u64, built_in: bool) -> Arc<StreamPool> {
        let at = self.all.iter().position(Option::is_none).unwrap_or_else(|| {
            self.all.push(None);
            self.all.len() - 1
        });
        let pool = Arc::new(StreamPool::new(memory, at as u32 + 1, device, most, built_in));
        self.all[at] = Some(pool.clone());
        pool
    }
}

/// Stream-ordered memory.
impl Memory {
    /// A new pool that takes at most so many bytes from its device.
    pub fn create_pool(&self, device: u32, most: u64) -> Arc<StreamPool> {
        self.pools.table.lock().add(self, device, most, false)
    }

    /// The pool that operators of a device take from when nobody registered an allocator.
    pub fn built_in_pool(&self, device: u32) -> Arc<StreamPool> {
        let mut table = self.pools.table.lock();
        if let Some(pool) = &table.built_in[device as usize] {
            return pool.clone();
        }
        let pool = table.add(self, device, u64::MAX, true);
        table.built_in[device as usize] = Some(pool.clone());
        pool
    }

    /// Ends a pool: its memory goes back to the device. The caller has seen to it that no task uses it.
    pub fn end_pool(&self, pool: &StreamPool) {
        pool.ended.store(true, Ordering::Release);
        // Once: afterwards its number may be another's.
        if pool.gone.swap(true, Ordering::AcqRel) {
            return;
        }
        self.write_off(pool);
        pool.loan().close();
        let mut table = self.pools.table.lock();
        let Table { all, built_in } = &mut *table;
        for slot in all.iter_mut().chain(built_in) {
            slot.take_if(|known| std::ptr::eq(&**known, pool));
        }
        drop(table);
        self.show(pool.device);
    }

    /// A pool gives no more blocks, and ends when the last one is back and done with.
    pub fn close_pool(&self, pool: &StreamPool) {
        pool.closing.store(true, Ordering::Release);
        self.set_release_above(pool, 0);
        self.finish_pool(pool);
        let Figures { blocks, live, .. } = pool.figures();
        if blocks > 0 {
            let plural = if blocks == 1 { "" } else { "s" };
            log::info!(
                "{} was destroyed with {blocks} block{plural} ({live} bytes) out: it ends when they are back",
                pool.name()
            );
        }
    }

    /// Ends a pool that is to end, if it can.
    pub(super) fn finish_pool(&self, pool: &StreamPool) {
        let over = match pool.last_tails.get() {
            Some(tails) => self.progress.covers_all(tails),
            None if pool.closing.load(Ordering::Acquire) => {
                pool.trim(0);
                self.show_if_changed(pool);
                pool.loan().close_if_idle()
            }
            None => false,
        };
        if over {
            self.end_pool(pool);
        }
    }

    /// Ends all pools of a device that is being closed. Tasks of other devices may still reach into
    /// their memory: then it goes back when those are done.
    pub(super) fn end_pools(&self, device: u32) {
        let tails = self.progress.tails();
        self.pools.table.lock().built_in[device as usize] = None;
        for pool in self.pools.all().iter().filter(|pool| pool.device == device) {
            let _ = pool.last_tails.set(tails.clone());
            pool.ended.store(true, Ordering::Release);
            if !pool.gone.load(Ordering::Acquire) {
                self.write_off(pool);
            }
            self.pools.thresholds.store(true, Ordering::Relaxed);
            self.finish_pool(pool);
        }
    }

    /// The pool that has the memory at an address.
    pub fn pool_at(&self, address: usize) -> Option<Arc<StreamPool>> {
        let number = self.devices.iter().find_map(|a| a.pool_at(a.offset(address)?))?;
        self.pools.get(number)
    }

    /// Takes a block from a pool for use on `stream`. Waits only when there is no other way.
    pub fn allocate_ordered(
        &self,
        pool: &StreamPool,
        request: &Request,
        stream: &Stream,
    ) -> Result<usize> {
        pool.check_open()?;
        let address = self.persist(pool.arena(), request, |_| pool.attempt(request, stream));
        self.show_if_changed(pool);
        pool.check()?;
        address
    }

    /// Gives the block that begins at `address` back to whichever pool it came from, after what was
    /// submitted to `stream`.
    pub fn free_ordered(&self, address: usize, stream: &Stream) -> Result<()> {
        match self.pool_at(address) {
            Some(pool) => pool.give(address, stream),
            None => {
                let what = describe(address, &self.locate(address));
                Err(Error::refused(format!("{address:#x} belongs to no pool: it is {what}")))
            }
        }
    }

    /// What a pool has free above so many bytes goes back whenever a stream of its device is waited for.
    pub fn set_release_above(&self, pool: &StreamPool, bytes: u64) {
        pool.release_above.store(bytes, Ordering::Relaxed);
        self.pools.thresholds.store(true, Ordering::Relaxed);
    }

    /// Gives free memory of a pool back until at most `keep` bytes are left; returns how much.
    pub fn trim_pool(&self, pool: &StreamPool, keep: u64) -> u64 {
        let bytes = pool.trim(keep);
        self.show_if_changed(pool);
        bytes
    }

    /// A stream of the device was waited for: pools give back what they have above their thresholds,
    /// and end if they were to end.
    pub fn settle_pools(&self, device: u32) {
        if !self.pools.thresholds.load(Ordering::Relaxed) {
            return;
        }
        for pool in &self.pools.all() {
            let above = pool.release_above();
            if pool.device == device && pool.loan().lent() > above {
                self.trim_pool(pool, above);
            }
            self.finish_pool(pool);
        }
    }

    /// Gives everything that pools have free back to their devices; true if there was anything.
    pub(super) fn trim_pools(&self) -> bool {
        let trimmed = |pool: &Arc<StreamPool>| {
            let bytes = self.trim_pool(pool, 0);
            self.finish_pool(pool);
            bytes > 0 || pool.has_ended()
        };
        self.pools.all().iter().filter(|pool| trimmed(pool)).count() > 0
    }

    /// The largest owners of an arena's memory, as a text.
    pub(super) fn owners(&self, arena: &Arena) -> String {
        let usage = arena.usage();
        let mut owners = vec![(usage.live - usage.lent, "aclrtMalloc".to_string())];
        for pool in self.pools.all().iter().filter(|pool| std::ptr::eq(pool.arena(), arena)) {
            let figures = pool.figures();
            let cached = figures.reserved - figures.live;
            owners.push((cached, format!("free inside pool {}", pool.number)));
            owners.extend(pool.owners().iter().map(|owner| {
                let Owner { stream, live, blocks } = *owner;
                (live, format!("stream {stream} in pool {}, {blocks} blocks", pool.number))
            }));
        }
        owners.sort_by_key(|(bytes, _)| std::cmp::Reverse(*bytes));
        let owners = owners.iter().filter(|(bytes, _)| *bytes > 0).take(3);
        owners.map(|(bytes, who)| format!("{bytes} ({who})")).collect::<Vec<_>>().join(", ")
    }

    fn show_if_changed(&self, pool: &StreamPool) {
        if pool.loan().take_change() {
            self.show(pool.device);
        }
    }
}

/// A pool as a allocator of blocks for streams.
pub struct Pooled {
    shared: Arc<Shared>,
    pool: Arc<StreamPool>,
}

impl Pooled {
    /// The built-in pool of a device, under the layers that `CAIRN_MEMORY` asks for.
    pub fn built_in(shared: &Arc<Shared>, device: u32) -> Arc<dyn Allocator> {
        let pool = shared.memory.built_in_pool(device);
        shared.memory.wrap(device, Arc::new(Pooled { shared: shared.clone(), pool }))
    }
}

impl Pooled {
    fn ordered(&self) -> Ordered<'_> {
        Ordered { memory: &self.shared.memory, pool: &self.pool }
    }
}

impl Allocator for Pooled {
    fn name(&self) -> String {
        self.ordered().name()
    }

    fn allocate(&self, request: &Request, stream: Option<&Arc<Stream>>) -> Result<RawBlock> {
        self.ordered().allocate(request, stream)
    }

    fn free(&self, block: RawBlock, stream: Option<&Arc<Stream>>) -> Result<()> {
        self.ordered().free(block, stream)
    }

    fn extent(&self, address: usize, bytes: usize) -> Option<Extent> {
        self.ordered().extent(address, bytes)
    }
}
