//! Memory of the devices and pinned memory of the host: how it is allocated, what an address is, and when freed
//! memory is reused.
//!
//! Every block is made by the [`funnel`]: a [`request`] passes the layers and reaches a maker.

mod access;
mod advised_pages;
pub mod allocator;
pub mod arena;
mod arena_maker;
pub mod budget;
pub mod callback_lock;
pub mod claims;
pub mod external;
pub mod funnel;
mod ipc_memory;
pub mod layer;
mod locate;
pub mod mapped_file;
mod moved_pages;
mod moves;
pub mod outstanding;
mod persist;
mod physical_maker;
pub mod pool;
mod pool_blocks;
mod pool_handles;
mod pool_maker;
mod pools;
mod pressure;
pub mod process_file;
pub mod protected;
pub mod purpose;
pub mod quarantine;
pub mod ranges;
pub mod raw;
pub mod registered;
pub mod registry;
pub mod relocation;
pub mod request;
mod segments;
mod shared_pages;
pub mod sharing;
mod shortage;
pub mod source;
pub mod system_limits;
pub mod vmm;
mod word_table;
pub mod writers;

pub use arena_maker::ArenaMaker;
pub use cairn_pool::tlsf;
pub use locate::{AddressBlock, AddressInfo, BlockKind, describe};
pub use pool_maker::PoolMaker;

use crate::clock::Progress;
use crate::config::Config;
use crate::error::Result;
use crate::record::Spine;
use crate::record::event::MemoryKind;
use crate::sync::Arc;
use crate::sync::atomic::AtomicU32;
use allocator::Allocator;
use arena::{Arena, ArenaSpec, Usage};
use budget::Budget;
use claims::Claims;
use funnel::LayeredAllocator;
use ipc_memory::IpcMemory;
use layer::{Layers, Statistics};
use outstanding::Outstanding;
use pools::Pools;
use registered::RegisteredRanges;
use sharing::Sharing;
use vmm::VirtualMemory;

/// How far the arenas of devices are shifted against each other, in whole huge pages.
const DEVICE_SKEW: u64 = 10 << 20;
/// How far pinned host memory is shifted against all of them.
const HOST_SKEW: u64 = 340 << 10;

/// All memory of the process that came from ACL.
pub struct Memory {
    devices: Vec<Arc<Arena>>,
    host: Arc<Arena>,
    pools: Pools,
    layers: Layers,
    registered: RegisteredRanges,
    vmm: VirtualMemory,
    sharing: Sharing,
    ipc: IpcMemory,
    outstanding: Arc<Outstanding>,
    peers: Vec<AtomicU32>,
    /// Pools stitch.
    stitches: bool,
    progress: Arc<Progress>,
    spine: Arc<Spine>,
}

impl Memory {
    /// Reserves the address ranges; no byte is in use yet.
    pub fn new(config: &Config, progress: Arc<Progress>, spine: Arc<Spine>) -> Result<Memory> {
        Memory::among_processes(config, progress, spine, None)
    }

    /// The same, of which other processes may have claimed a part.
    pub fn among_processes(
        config: &Config,
        progress: Arc<Progress>,
        spine: Arc<Spine>,
        claims: Option<Claims>,
    ) -> Result<Memory> {
        let budget = Arc::new(Budget::among_processes(config.budget, claims));
        let is_protected = config.memory.is_protected();
        if is_protected {
            protected::watch(&spine);
        }
        let arena = |kind: MemoryKind, capacity: u64, skew: u64| {
            let (progress, budget, spine) = (progress.clone(), budget.clone(), spine.clone());
            let quarantine_limit = config.quarantine;
            let spec = ArenaSpec { kind, capacity, quarantine_limit, skew, is_protected };
            Arena::new(spec, progress, budget, spine).map(Arc::new)
        };
        let devices = (0..config.visible.len() as u32)
            .map(|id| {
                let skew = u64::from(id) * DEVICE_SKEW;
                arena(MemoryKind::Device(id), config.device_memory, skew)
            })
            .collect::<Result<Vec<_>>>()?;
        Ok(Memory {
            layers: Layers::new(&config.memory, devices.len(), config.layer.as_ref(), &spine),
            peers: (0..devices.len()).map(|_| AtomicU32::new(0)).collect(),
            stitches: config.stitches,
            pools: Pools::new(devices.len()),
            devices,
            host: arena(MemoryKind::Pinned, config.budget, HOST_SKEW)?,
            registered: RegisteredRanges::new(spine.clone()),
            vmm: VirtualMemory::new(
                config.visible.len(),
                is_protected,
                config.callback_limits.log,
                progress.clone(),
                budget.clone(),
                spine.clone(),
            ),
            sharing: Sharing::new(budget),
            ipc: IpcMemory::default(),
            outstanding: Arc::default(),
            progress,
            spine,
        })
    }

    fn arenas(&self) -> impl Iterator<Item = &Arena> {
        self.devices.iter().chain([&self.host]).map(|arena| &**arena)
    }

    /// Host ranges that the user registered.
    pub fn registered(&self) -> &RegisteredRanges {
        &self.registered
    }

    /// What processes share.
    pub fn sharing(&self) -> &Sharing {
        &self.sharing
    }

    /// The blocks of users' allocators that Cairn holds.
    pub fn outstanding(&self) -> &Arc<Outstanding> {
        &self.outstanding
    }

    /// Brings up to date what processes hold of each other.
    fn settle_shared(&self) {
        self.vmm.collect_lent();
        self.sharing.settle();
    }

    /// The figures of a device.
    pub fn usage(&self, device: u32) -> Usage {
        self.devices[device as usize].usage()
    }

    /// What the parts of a device's memory have, and the most they ever had: blocks, pools, physical memory.
    pub fn usage_by_part(&self, device: u32) -> [(u64, u64); 3] {
        self.devices[device as usize].parts()
    }

    /// Free and total bytes of a device, quarantined bytes counted as free. Pinned memory of the host is no memory of a device: it does not
    /// count, though both come from one budget.
    pub fn info(&self, device: u32) -> (u64, u64) {
        self.vmm.release_unmapped();
        self.settle_shared();
        let arena = &self.devices[device as usize];
        (arena.free_bytes_beside(self.host.live()), arena.capacity)
    }

    /// An allocator of a device under the layers that `CAIRN_MEMORY` asks for, which all allocators of the
    /// device share.
    pub fn wrap(&self, device: u32, maker: impl Allocator + 'static) -> Arc<dyn Allocator> {
        let stack = self.layers.device(device).clone();
        Arc::new(LayeredAllocator::new(stack, maker, self.spine.clone()))
    }

    /// A user allocator under layers of its own.
    pub fn wrap_external(&self, maker: Arc<dyn Allocator>) -> Arc<dyn Allocator> {
        self.layers.wrap_external(maker)
    }

    /// What the stats layers of a device have counted, outermost first; empty where there are none.
    pub fn statistics(&self, device: u32) -> Vec<Statistics> {
        self.layers.device(device).statistics()
    }

    /// What the stats layers of pinned memory have counted, outermost first.
    pub fn host_statistics(&self) -> Vec<Statistics> {
        self.layers.pinned().statistics()
    }

    /// What layers find wrong with the live blocks: one message for each.
    pub fn inspect(&self) -> Vec<String> {
        self.layers.inspect()
    }

    /// What the layers report when the process ends; empty if they have nothing to report.
    pub fn report(&self) -> String {
        self.layers.report()
    }

    /// Ends every allocation of a device that is being closed. Handles of physical memory that end with it are the caller's to remove.
    pub fn clear(&self, device: u32) -> Vec<usize> {
        self.close_keys_of_device(device);
        self.end_imports(Some(device));
        let arena = &self.devices[device as usize];
        let blocks = arena.start_free_all();
        for block in &blocks {
            if let Err(error) = self.free_block(block, arena.kind) {
                log::error!("the reset of device {device}: {}", error.text);
            }
        }
        for finding in
            self.layers.inspect_before_release(&|address| arena.offset(address).is_some())
        {
            log::error!("the reset of device {device}: {finding}");
        }
        self.end_pools(device);
        let handles = self.clear_physical(device);
        let live = blocks.len() + arena.clear() + handles.len();
        if live > 0 {
            log::info!("device {device} was reset with {live} allocations, which end with it");
        }
        handles
    }

    /// Releases all quarantined memory: nothing can be in flight any more.
    pub fn empty_quarantines(&self) {
        self.vmm.release_unmapped();
        self.arenas().for_each(Arena::empty_quarantine);
    }
}
