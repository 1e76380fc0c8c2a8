//! All pools of the process: made, trimmed, ended.

use super::Memory;
use super::allocator::RawBlock;
use super::arena::Arena;
use super::pool::StreamPool;
use crate::lock::{Mutex, MutexGuard, Rank};
use crate::sync::Arc;
use crate::sync::atomic::{AtomicBool, Ordering};
use cairn_pool::{Figures, Owner};
use std::collections::HashMap;

/// All pools of the process, and which are built in.
pub(super) struct Pools {
    table: Mutex<Table>,
    /// True once any pool has a threshold, or has to be ended later.
    needs_trim: AtomicBool,
    /// Blocks of users' pools that were allocated through layers, by address, with the pool's number.
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
            needs_trim: AtomicBool::new(false),
            layered: Mutex::new(Rank::Registry, HashMap::new()),
        }
    }

    /// Blocks of users' pools that were allocated through layers.
    pub fn layered_blocks(&self) -> MutexGuard<'_, HashMap<usize, (u32, RawBlock)>> {
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
    fn add(
        &mut self,
        memory: &Memory,
        device: u32,
        max_bytes: u64,
        built_in: bool,
    ) -> Arc<StreamPool> {
        let index = self.all.iter().position(Option::is_none).unwrap_or_else(|| {
            self.all.push(None);
            self.all.len() - 1
        });
        let pool = Arc::new(StreamPool::new(memory, index as u32 + 1, device, max_bytes, built_in));
        self.all[index] = Some(pool.clone());
        pool
    }
}

/// Stream-ordered memory.
impl Memory {
    /// A new pool that takes at most this many bytes from its device.
    pub fn create_pool(&self, device: u32, max_bytes: u64) -> Arc<StreamPool> {
        self.pools.table.lock().add(self, device, max_bytes, false)
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

    /// Ends a pool: its memory goes back to the device. The caller makes sure that no task uses it.
    pub fn end_pool(&self, pool: &StreamPool) {
        pool.ended.store(true, Ordering::Release);
        // Only once: afterwards another pool may have its number.
        if pool.gone.swap(true, Ordering::AcqRel) {
            return;
        }
        self.remove_layered(pool);
        pool.segments().close();
        let mut table = self.pools.table.lock();
        let Table { all, built_in } = &mut *table;
        for slot in all.iter_mut().chain(built_in) {
            slot.take_if(|other| std::ptr::eq(&**other, pool));
        }
    }

    /// Closes a pool: it allocates no more blocks, and ends when the last one is freed and its tasks have finished.
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

    /// Ends a pool that was destroyed, or whose device was closed, if no task uses its memory any more.
    pub(super) fn finish_pool(&self, pool: &StreamPool) {
        let can_end = match pool.last_tails.get() {
            Some(tails) => self.progress.covers_all(tails),
            None if pool.closing.load(Ordering::Acquire) => {
                pool.trim(0);
                pool.segments().close_if_idle()
            }
            None => false,
        };
        if can_end {
            self.end_pool(pool);
        }
    }

    /// Ends all pools of a device that is being closed. Queued tasks of other devices may still touch
    /// their memory: then it goes back when those have finished.
    pub(super) fn end_pools(&self, device: u32) {
        let tails = self.progress.tails();
        self.pools.table.lock().built_in[device as usize] = None;
        for pool in self.pools.all().iter().filter(|pool| pool.device == device) {
            let _ = pool.last_tails.set(tails.clone());
            pool.ended.store(true, Ordering::Release);
            if !pool.gone.load(Ordering::Acquire) {
                self.remove_layered(pool);
            }
            self.pools.needs_trim.store(true, Ordering::Relaxed);
            self.finish_pool(pool);
        }
    }

    /// All pools.
    pub fn pools(&self) -> Vec<Arc<StreamPool>> {
        self.pools.all()
    }

    /// The pool that has the memory at an address.
    pub fn pool_at(&self, address: usize) -> Option<Arc<StreamPool>> {
        let number = self.devices.iter().find_map(|a| a.pool_at(a.offset(address)?))?;
        self.pools.get(number)
    }

    /// Sets the bytes above which free memory of a pool goes back whenever a stream of its device is synchronized.
    pub fn set_release_above(&self, pool: &StreamPool, bytes: u64) {
        pool.release_above.store(bytes, Ordering::Relaxed);
        self.pools.needs_trim.store(true, Ordering::Relaxed);
    }

    /// Gives free memory of a pool back until at most `keep` bytes are left; returns how much.
    pub fn trim_pool(&self, pool: &StreamPool, keep: u64) -> u64 {
        pool.trim(keep)
    }

    /// Called after a stream of the device was synchronized: pools give back what they have above their thresholds,
    /// and those that have to end do so.
    pub fn trim_to_thresholds(&self, device: u32) {
        if !self.pools.needs_trim.load(Ordering::Relaxed) {
            return;
        }
        for pool in &self.pools.all() {
            let above = pool.release_above();
            if pool.device == device && pool.segments().bytes() > above {
                self.trim_pool(pool, above);
            }
            self.finish_pool(pool);
        }
    }

    /// Gives everything that pools have free back to their devices.
    pub(super) fn trim_pools(&self) {
        for pool in self.pools.all() {
            self.trim_pool(&pool, 0);
            self.finish_pool(&pool);
        }
    }

    /// The largest owners of an arena's memory, as a string.
    pub(super) fn owners(&self, arena: &Arena) -> String {
        let [(blocks, _), _, (physical, _)] = arena.parts();
        let mut owners = vec![
            (blocks, "aclrtMalloc".to_string()),
            (physical, "aclrtMallocPhysical".to_string()),
        ];
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
        owners.map(|(bytes, owner)| format!("{bytes} ({owner})")).collect::<Vec<_>>().join(", ")
    }
}
