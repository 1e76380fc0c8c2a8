//! Memory of devices and pinned memory for `aclrtMalloc`, `aclrtMallocHost` and similar functions: blocks
//! straight from an arena, by address.

use super::Memory;
use super::allocator::{Allocator, RawBlock};
use super::arena::Arena;
use super::funnel::Funnel;
use super::layer::Stack;
use super::locate::{AddressBlock, wrong_free};
use super::raw::Extent;
use super::request::Request;
use crate::error::{Error, Result};
use crate::record::event::MemoryKind;
use crate::record::{Event, Kind};
use crate::stream::Stream;
use crate::sync::Arc;

/// Blocks straight from an arena. They belong to no stream: no task uses a block when it is allocated,
/// and one that is freed goes to the quarantine, and is poisoned when it leaves that.
pub struct ArenaMaker<'a> {
    memory: &'a Memory,
    kind: MemoryKind,
}

impl ArenaMaker<'_> {
    fn arena(&self) -> &Arena {
        match self.kind {
            MemoryKind::Device(device) => &self.memory.devices[device as usize],
            _ => &self.memory.host,
        }
    }

    /// The address of a new block.
    #[inline]
    fn take(&self, request: &Request<'_>) -> Result<usize> {
        let arena = self.arena();
        self.memory
            .retry_allocation(arena, request, |respect_limit| arena.attempt(request, respect_limit))
    }
}

impl Allocator for ArenaMaker<'_> {
    fn name(&self) -> String {
        match self.kind {
            MemoryKind::Device(device) => format!("the memory of device {device}"),
            _ => "pinned host memory".into(),
        }
    }

    #[inline]
    fn allocate(&self, request: &Request<'_>) -> Result<RawBlock> {
        Ok(RawBlock::new(self.take(request)?, request.bytes, 0))
    }

    #[inline]
    fn free(&self, block: RawBlock, _: Option<&Arc<Stream>>) -> Result<()> {
        let arena = self.arena();
        let offset = arena.offset(block.address);
        match offset.is_some_and(|offset| arena.retire(offset, block.poison)) {
            true => Ok(()),
            false => Err(self.memory.wrong_free(block.address, self.kind)),
        }
    }

    fn extent(&self, address: usize, bytes: usize) -> Option<Extent> {
        self.arena().extent(address, bytes)
    }

    fn kind_of(&self, block: &RawBlock) -> Option<(MemoryKind, u64)> {
        Some((self.kind, block.bytes))
    }
}

/// Blocks of arenas by address.
impl Memory {
    /// The memory of a device, or pinned memory, without layers.
    pub fn maker(&self, kind: MemoryKind) -> ArenaMaker<'_> {
        ArenaMaker { memory: self, kind }
    }

    pub(super) fn stack(&self, kind: MemoryKind) -> &Stack {
        match kind {
            MemoryKind::Device(device) => self.layers.device(device),
            _ => self.layers.pinned(),
        }
    }

    /// The address of a new block that passed the layers.
    #[inline]
    fn make(&self, kind: MemoryKind, request: &Request<'_>) -> Result<usize> {
        let maker = self.maker(kind);
        let funnel = Funnel::new(self.stack(kind), &maker, &self.spine);
        match funnel.is_direct(Kind::Alloc) {
            true => maker.take(request),
            false => Ok(funnel.allocate(request)?.address),
        }
    }

    /// Memory of a device. Waits for freed memory only when there is no other way.
    pub fn allocate(&self, device: u32, request: Request<'_>) -> Result<usize> {
        self.make(MemoryKind::Device(device), &request)
    }

    /// Pinned memory of the host.
    pub fn allocate_host(&self, bytes: u64) -> Result<usize> {
        let align = if bytes < 4096 { 512 } else { 4096 };
        self.make(MemoryKind::Pinned, &Request { align, ..Request::bytes(bytes) })
    }

    /// Frees memory of a device that begins at `address`.
    pub fn free(&self, address: usize) -> Result<()> {
        self.close_keys_of(address);
        for arena in &self.devices {
            if let Some(offset) = arena.offset(address) {
                return self.free_offset(arena, offset);
            }
        }
        Err(self.wrong_free(address, MemoryKind::Device(0)))
    }

    /// Frees pinned host memory that begins at `address`; what is registered of it is not any more.
    pub fn free_host(&self, address: usize) -> Result<()> {
        match self.host.offset(address) {
            Some(offset) => {
                if let Some(block) = self.host.find(offset).filter(|block| block.start == address) {
                    self.registered.remove_inside(address..address + block.bytes as usize);
                }
                self.free_offset(&self.host, offset)
            }
            None => Err(self.wrong_free(address, MemoryKind::Pinned)),
        }
    }

    #[inline]
    fn free_offset(&self, arena: &Arena, offset: u64) -> Result<()> {
        let maker = self.maker(arena.kind);
        let is_freed =
            match Funnel::new(self.stack(arena.kind), &maker, &self.spine).is_direct(Kind::Free) {
                true => arena.retire(offset, None),
                false => match arena.start_free(offset) {
                    Some(block) => return self.free_block(&block, arena.kind),
                    None => false,
                },
            };
        match is_freed {
            true => Ok(()),
            false => Err(self.wrong_free(arena.address(offset), arena.kind)),
        }
    }

    /// Frees a block through the layers, after [`Arena::start_free`].
    pub(super) fn free_block(&self, block: &AddressBlock, kind: MemoryKind) -> Result<()> {
        let maker = self.maker(kind);
        let block = RawBlock::new(block.start, block.bytes, 0);
        Funnel::new(self.stack(kind), &maker, &self.spine).free(block, None)
    }

    /// The error for a free of what is not the start of live memory of this kind. It is emitted, too.
    #[cold]
    fn wrong_free(&self, address: usize, kind: MemoryKind) -> Error {
        let error = self.wrong_free_error(address, kind);
        let reason = &error.text;
        self.spine.emit(Kind::WrongFree, || Event::WrongFree { address, reason });
        error
    }

    fn wrong_free_error(&self, address: usize, kind: MemoryKind) -> Error {
        if kind == MemoryKind::Pinned {
            return wrong_free(address, &self.locate(address), "pinned host memory");
        }
        match self.pool_at(address) {
            Some(pool) if pool.built_in => pool.not_user_memory(address),
            Some(pool) => Error::refused(format!(
                "{address:#x} belongs to {}: give it back with aclrtMemPoolFreeAsync",
                pool.name()
            )),
            None => wrong_free(address, &self.enclosing(address), "device memory"),
        }
    }

    /// Bytes of the devices and of pinned memory, whoever holds them: for makers that lie inside.
    pub fn extent(&self, address: usize, bytes: usize) -> Option<Extent> {
        self.arenas().find_map(|arena| arena.extent(address, bytes))
    }
}
