//! Stream-ordered pools over the memory of a device: the built-in one, and those that users make.

use super::arena::{Arena, Ask, Attempt};
use super::raw::Extent;
use super::supply::{Block, Supply};
use super::{Memory, describe};
use crate::clock::{Epoch, Progress, StreamIndex};
use crate::error::{Code, Error, Result};
use crate::lock::{Mutex, Rank};
use crate::shared::Shared;
use crate::stream::Stream;
use crate::sync::Arc;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::task::{Place, Span, Task};
use cairn_pool::{Backing, Figures, Outcome, Owner, Pool, Wrong};
use std::ops::Range;

/// What a pool takes from its arena at a time, if there is so much.
const STRIDE: u64 = 2 << 20;

/// A pool of memory for the streams of one device. Blocks carry no quarantine: they are reused in the
/// order of streams, as `cairn_pool::Pool` says.
pub struct StreamPool {
    /// Its number in this process, from 1.
    pub number: u32,
    /// The device whose memory it has.
    pub device: u32,
    pool: Pool<Engine, Loan>,
    release_above: AtomicU64,
    ended: AtomicBool,
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

/// What an arena lends to one pool.
struct Loan {
    arena: Arc<Arena>,
    number: u32,
    changed: AtomicBool,
}

impl Backing for Loan {
    fn extend(&self, bytes: u64) -> std::result::Result<Range<u64>, String> {
        self.changed.store(true, Ordering::Relaxed);
        let generous = bytes.checked_next_multiple_of(STRIDE).unwrap_or(bytes);
        let lent = self.arena.lend(generous, self.number);
        lent.or_else(|_| self.arena.lend(bytes, self.number)).map_err(|attempt| match attempt {
            Attempt::Refused(reason) => reason,
            _ => format!("{} has no {bytes} bytes left", self.arena.name),
        })
    }

    fn release(&self, range: Range<u64>) -> Vec<Range<u64>> {
        self.changed.store(true, Ordering::Relaxed);
        self.arena.take_back(range.clone());
        vec![range]
    }
}

impl StreamPool {
    fn new(memory: &Memory, number: u32, device: u32, most: u64) -> StreamPool {
        let arena = memory.devices[device as usize].clone();
        let engine =
            Engine { progress: memory.progress.clone(), follow_events: AtomicBool::new(true) };
        let loan = Loan { arena, number, changed: AtomicBool::new(false) };
        StreamPool {
            number,
            device,
            pool: Pool::new(engine, loan, most),
            release_above: AtomicU64::new(u64::MAX),
            ended: AtomicBool::new(false),
        }
    }

    fn arena(&self) -> &Arena {
        &self.pool.backing().arena
    }

    fn check(&self) -> Result<()> {
        match self.ended.load(Ordering::Acquire) {
            false => Ok(()),
            true => Err(Error::new(
                Code::InvalidHandle,
                format!("pool {} of device {} has ended", self.number, self.device),
            )),
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

    fn attempt(&self, ask: &Ask, stream: &Stream) -> Attempt {
        let Some(whole) = ask.whole() else { return Attempt::Exhausted };
        match self.pool.allocate(whole, ask.align, stream.index) {
            Outcome::Ready { offset, .. } => {
                Attempt::Taken(self.arena().address(offset + ask.front))
            }
            Outcome::Wait(_) => Attempt::Waiting,
            Outcome::Exhausted(_) if self.arena().held().1 > 0 => Attempt::Waiting,
            Outcome::Exhausted(reason) => Attempt::Refused(reason),
            Outcome::OverBudget => {
                let most = self.pool.budget();
                Attempt::Refused(format!("the pool may take at most {most} bytes"))
            }
        }
    }

    /// Gives a block back that begins at `address`, room included.
    fn give(&self, address: usize, stream: &Stream) -> Result<()> {
        self.check()?;
        let offset = self.arena().offset(address).ok_or(Wrong::Unknown);
        let freed = offset.and_then(|offset| self.pool.free(offset, stream.index));
        freed.map(|_| ()).map_err(|wrong| self.wrong(address, wrong))
    }

    fn wrong(&self, address: usize, wrong: Wrong) -> Error {
        let reason = match wrong {
            Wrong::Unknown => "no block begins there",
            Wrong::NotHeld => "it was already freed",
        };
        Error::refused(format!(
            "{address:#x} is not the start of a live block of pool {} of device {}: {reason}",
            self.number, self.device
        ))
    }
}

/// All pools of the process, and which are built in.
pub(super) struct Pools {
    table: Mutex<Table>,
    /// True once any pool has a threshold.
    thresholds: AtomicBool,
}

#[derive(Default)]
struct Table {
    all: Vec<Option<Arc<StreamPool>>>,
    built_in: Vec<Option<Arc<StreamPool>>>,
}

impl Pools {
    pub fn new(devices: usize) -> Pools {
        let table = Table { all: Vec::new(), built_in: vec![None; devices] };
        Pools { table: Mutex::new(Rank::Registry, table), thresholds: AtomicBool::new(false) }
    }

    fn get(&self, number: u32) -> Option<Arc<StreamPool>> {
        self.table.lock().all.get(number as usize - 1).cloned().flatten()
    }

    fn all(&self) -> Vec<Arc<StreamPool>> {
        self.table.lock().all.iter().flatten().cloned().collect()
    }
}

impl Table {
    fn add(&mut self, memory: &Memory, device: u32, most: u64) -> Arc<StreamPool> {
        let at = self.all.iter().position(Option::is_none).unwrap_or_else(|| {
            self.all.push(None);
            self.all.len() - 1
        });
        let pool = Arc::new(StreamPool::new(memory, at as u32 + 1, device, most));
        self.all[at] = Some(pool.clone());
        pool
    }
}

/// Stream-ordered memory.
impl Memory {
    /// A new pool that takes at most so many bytes from its device.
    pub fn create_pool(&self, device: u32, most: u64) -> Arc<StreamPool> {
        self.pools.table.lock().add(self, device, most)
    }

    /// The pool that operators of a device take from when nobody registered an allocator.
    pub fn built_in_pool(&self, device: u32) -> Arc<StreamPool> {
        let mut table = self.pools.table.lock();
        if let Some(pool) = &table.built_in[device as usize] {
            return pool.clone();
        }
        let pool = table.add(self, device, u64::MAX);
        table.built_in[device as usize] = Some(pool.clone());
        pool
    }

    /// Ends a pool: its memory goes back to the device. The caller has seen to it that no task uses it.
    pub fn end_pool(&self, pool: &StreamPool) {
        pool.ended.store(true, Ordering::Release);
        let mut table = self.pools.table.lock();
        if let Some(slot) = table.all.get_mut(pool.number as usize - 1) {
            *slot = None;
        }
        table.built_in.iter_mut().for_each(|slot| {
            slot.take_if(|built_in| built_in.number == pool.number);
        });
        drop(table);
        pool.arena().take_all_back(pool.number);
        self.show(pool.device);
    }

    /// Ends all pools of a device that is being closed.
    pub(super) fn end_pools(&self, device: u32) {
        for pool in self.pools.all().iter().filter(|pool| pool.device == device) {
            self.end_pool(pool);
        }
    }

    /// The pool that has the memory at an address.
    pub fn pool_at(&self, address: usize) -> Option<Arc<StreamPool>> {
        let number = self.devices.iter().find_map(|a| a.pool_at(a.offset(address)?))?;
        self.pools.get(number)
    }

    /// Takes a block from a pool for use on `stream`. Waits only when there is no other way.
    pub fn allocate_ordered(&self, pool: &StreamPool, ask: &Ask, stream: &Stream) -> Result<usize> {
        pool.check()?;
        let address = self.persist(pool.arena(), ask, |_| pool.attempt(ask, stream));
        self.show_if_changed(pool);
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

    /// A stream of the device was waited for: pools give back what they have above their thresholds.
    pub fn settle_pools(&self, device: u32) {
        if !self.pools.thresholds.load(Ordering::Relaxed) {
            return;
        }
        for pool in self.pools.all().iter().filter(|pool| pool.device == device) {
            let above = pool.release_above();
            if above < u64::MAX && pool.figures().reserved > above {
                pool.trim(above);
                self.show_if_changed(pool);
            }
        }
    }

    /// Gives everything that pools have free back to their devices; true if there was anything.
    pub(super) fn trim_pools(&self) -> bool {
        let trimmed = |pool: &Arc<StreamPool>| {
            let bytes = pool.trim(0);
            self.show_if_changed(pool);
            bytes > 0
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
        if pool.pool.backing().changed.swap(false, Ordering::Relaxed) {
            self.show(pool.device);
        }
    }
}

/// A pool as a supply of blocks for streams.
pub struct Pooled {
    shared: Arc<Shared>,
    pool: Arc<StreamPool>,
}

impl Pooled {
    /// The built-in pool of a device, under the layers that `CAIRN_MEMORY` asks for.
    pub fn built_in(shared: &Arc<Shared>, device: u32) -> Arc<dyn Supply> {
        let pool = shared.memory.built_in_pool(device);
        shared.memory.wrap(device, Arc::new(Pooled { shared: shared.clone(), pool }))
    }
}

impl Supply for Pooled {
    fn name(&self) -> String {
        format!("the pool of device {}", self.pool.device)
    }

    fn take(&self, ask: &Ask, stream: Option<&Arc<Stream>>) -> Result<Block> {
        let stream = ordered(stream, &self.name())?;
        let address = self.shared.memory.allocate_ordered(&self.pool, ask, stream)?;
        let token = address - ask.front as usize;
        Ok(Block { address, bytes: ask.bytes, token, poison: None })
    }

    fn give(&self, block: Block, stream: Option<&Arc<Stream>>) -> Result<()> {
        let stream = ordered(stream, &self.name())?;
        if let Some(value) = block.poison {
            let place = Place::Device(self.pool.device);
            let span = Span { address: block.address, bytes: block.bytes as usize, place };
            if let Err(error) = stream.submit(Task::fill("poison", span, value)) {
                log::warn!("{span} is not overwritten before it goes back: {}", error.text);
            }
        }
        self.pool.give(block.token, stream)
    }

    fn extent(&self, address: usize, bytes: usize) -> Option<Extent> {
        self.pool.arena().extent(address, bytes)
    }
}

fn ordered<'a>(stream: Option<&'a Arc<Stream>>, name: &str) -> Result<&'a Arc<Stream>> {
    stream.ok_or_else(|| Error::refused(format!("{name} serves streams, and none was named")))
}
