//! What an address belongs to.

use super::Memory;
use super::vmm::Place;
use crate::error::Error;

/// What an address belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AddressInfo {
    /// Memory of a device, inside a block if there is one.
    Device(u32, Option<AddressBlock>),
    /// Pinned host memory, inside an allocation if there is one.
    Pinned(Option<AddressBlock>),
    /// Host memory that the user registered, ordinary or pinned.
    Registered(AddressBlock),
    /// An address for virtual memory where nothing is mapped.
    Unmapped,
    /// Anything else: pageable memory, or nothing at all.
    Foreign,
}

/// A block that contains an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressBlock {
    /// Its first byte.
    pub start: usize,
    /// Its length.
    pub bytes: u64,
    /// False once it was freed.
    pub live: bool,
    /// Huge pages were requested for it.
    pub huge: bool,
    /// Whose block it is.
    pub kind: BlockKind,
}

/// Whose block it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockKind {
    /// An allocation of `aclrtMalloc` or similar, or a range that the user registered.
    Allocation,
    /// Memory that a pool has from its device, blocks and holes alike.
    Segment {
        /// The pool's number.
        pool: u32,
    },
    /// A block of a pool.
    Pool {
        /// The pool's number.
        pool: u32,
    },
    /// A piece that `aclrtMapMem` mapped, or neighbouring ones.
    Mapped,
    /// A block of a user allocator.
    External {
        /// The user's object.
        object: usize,
        /// The user's handle of the block.
        block: usize,
    },
}

impl Memory {
    /// The memory that tasks may touch around an address: an allocation, or all that a pool has there, because
    /// blocks of a pool change hands before the tasks of their last owner have run. Takes no lock but for
    /// registered ranges.
    pub fn enclosing(&self, address: usize) -> AddressInfo {
        for (id, arena) in self.devices.iter().enumerate() {
            if let Some(offset) = arena.offset(address) {
                return AddressInfo::Device(id as u32, arena.find(offset));
            }
        }
        if let Some(offset) = self.host.offset(address) {
            return self
                .registered_at(address)
                .unwrap_or(AddressInfo::Pinned(self.host.find(offset)));
        }
        if self.vmm.contains(address) {
            return match self.vmm.run(address) {
                Some((Place::Device(device), block)) => AddressInfo::Device(device, Some(block)),
                Some((Place::Host, block)) => {
                    self.registered_at(address).unwrap_or(AddressInfo::Pinned(Some(block)))
                }
                None => AddressInfo::Unmapped,
            };
        }
        self.registered_at(address).unwrap_or(AddressInfo::Foreign)
    }

    /// Host memory that the user registered, ordinary or pinned.
    fn registered_at(&self, address: usize) -> Option<AddressInfo> {
        let (start, bytes) = self.registered.find(address)?;
        let (bytes, kind) = (bytes as u64, BlockKind::Allocation);
        Some(AddressInfo::Registered(AddressBlock { start, bytes, live: true, huge: false, kind }))
    }

    /// The innermost block around an address: one of a user's allocator, one of a pool, or an
    /// allocation. Takes no lock while no block of a user's allocator is out, but for registered ranges.
    pub fn locate(&self, address: usize) -> AddressInfo {
        let enclosing = self.enclosing(address);
        let AddressInfo::Device(device, Some(block)) = enclosing else { return enclosing };
        if let Some(outstanding_block) = self.outstanding.enclosing(address) {
            let kind = BlockKind::External {
                object: outstanding_block.object,
                block: outstanding_block.block,
            };
            let (start, bytes) = (outstanding_block.address, outstanding_block.bytes as u64);
            return AddressInfo::Device(device, Some(AddressBlock { start, bytes, kind, ..block }));
        }
        if block.kind == BlockKind::Mapped {
            return AddressInfo::Device(device, self.vmm.block(address).or(Some(block)));
        }
        let arena = &self.devices[device as usize];
        AddressInfo::Device(device, arena.pool_block(address, &block).or(Some(block)))
    }
}

/// Describes an address, for error messages.
pub fn describe(address: usize, info: &AddressInfo) -> String {
    let describe_block = |block: &AddressBlock| {
        let AddressBlock { start, bytes, .. } = *block;
        let state = if block.live { "" } else { ", freed" };
        let offset = format!("(offset {}{state})", address.saturating_sub(start));
        match block.kind {
            BlockKind::Allocation => format!("the allocation {start:#x} of {bytes} bytes {offset}"),
            BlockKind::Mapped => format!("the mapped memory {start:#x} of {bytes} bytes {offset}"),
            BlockKind::Segment { pool } => format!("free memory of pool {pool}"),
            BlockKind::Pool { pool } => {
                format!("the block {start:#x} of {bytes} bytes {offset} of pool {pool}")
            }
            BlockKind::External { object, block } => format!(
                "the block {block:#x} of the allocator {object:#x}, {bytes} bytes at {start:#x} {offset},"
            ),
        }
    };
    match info {
        AddressInfo::Device(id, None) => format!("an address of device {id} without an allocation"),
        AddressInfo::Device(id, Some(block)) => format!("{} on device {id}", describe_block(block)),
        AddressInfo::Pinned(None) => {
            "an address of pinned host memory without an allocation".into()
        }
        AddressInfo::Pinned(Some(block)) => {
            format!("{} in pinned host memory", describe_block(block))
        }
        AddressInfo::Registered(block) => {
            format!("the registered host range {:#x} of {} bytes", block.start, block.bytes)
        }
        AddressInfo::Unmapped => "an address for virtual memory where nothing is mapped".into(),
        AddressInfo::Foreign => "host memory that ACL does not know".into(),
    }
}

/// The error of a free at an address that is not the start of such memory.
pub(super) fn wrong_free(address: usize, info: &AddressInfo, expected: &str) -> Error {
    let reason = match info {
        AddressInfo::Device(_, Some(block)) | AddressInfo::Pinned(Some(block)) if !block.live => {
            "it was already freed".to_string()
        }
        _ => format!("it is {}", describe(address, info)),
    };
    Error::refused(format!("{address:#x} is not the start of live {expected}: {reason}"))
}
