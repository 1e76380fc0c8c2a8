//! What an address is.

use super::Memory;
use crate::error::Error;

/// What an address belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AddressInfo {
    /// Memory of a device, inside a block if there is one.
    Device(u32, Option<AddressBlock>),
    /// Pinned host memory, inside an allocation if there is one.
    Pinned(Option<AddressBlock>),
    /// Host memory that the user registered.
    Registered(AddressBlock),
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
    /// Made with huge pages in mind.
    pub huge: bool,
    /// Whose it is.
    pub part: Part,
}

/// What a block is part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Nothing larger: it is an allocation, or a range that the user registered.
    Whole,
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
    /// A block of a user allocator.
    External {
        /// The user's object.
        object: usize,
        /// The user's word for the block.
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
            return AddressInfo::Pinned(self.host.find(offset));
        }
        match self.registered.find(address) {
            Some((start, bytes)) => {
                let (bytes, part) = (bytes as u64, Part::Whole);
                AddressInfo::Registered(AddressBlock {
                    start,
                    bytes,
                    live: true,
                    huge: false,
                    part,
                })
            }
            None => AddressInfo::Foreign,
        }
    }

    /// The innermost block around an address: one that a user's allocator said it made, one of a pool, or an
    /// allocation. Takes no lock while no block of a user's allocator is out, but for registered ranges.
    pub fn locate(&self, address: usize) -> AddressInfo {
        let around = self.enclosing(address);
        let AddressInfo::Device(device, Some(block)) = around else { return around };
        if let Some(out) = self.outstanding.enclosing(address) {
            let part = Part::External { object: out.object, block: out.block };
            let (start, bytes) = (out.address, out.bytes as u64);
            return AddressInfo::Device(device, Some(AddressBlock { start, bytes, part, ..block }));
        }
        let arena = &self.devices[device as usize];
        AddressInfo::Device(device, arena.pool_block(address, &block).or(Some(block)))
    }
}

/// Says what an address is, for error messages.
pub fn describe(address: usize, info: &AddressInfo) -> String {
    let of = |block: &AddressBlock| {
        let AddressBlock { start, bytes, .. } = *block;
        let state = if block.live { "" } else { ", freed" };
        let offset = format!("(offset {}{state})", address.saturating_sub(start));
        match block.part {
            Part::Whole => format!("the allocation {start:#x} of {bytes} bytes {offset}"),
            Part::Segment { pool } => format!("free memory of pool {pool}"),
            Part::Pool { pool } => {
                format!("the block {start:#x} of {bytes} bytes {offset} of pool {pool}")
            }
            Part::External { object, block } => format!(
                "the block {block:#x} of the allocator {object:#x}, {bytes} bytes at {start:#x} {offset},"
            ),
        }
    };
    match info {
        AddressInfo::Device(id, None) => format!("an address of device {id} without an allocation"),
        AddressInfo::Device(id, Some(block)) => format!("{} on device {id}", of(block)),
        AddressInfo::Pinned(None) => {
            "an address of pinned host memory without an allocation".into()
        }
        AddressInfo::Pinned(Some(block)) => format!("{} in pinned host memory", of(block)),
        AddressInfo::Registered(block) => {
            format!("the registered host range {:#x} of {} bytes", block.start, block.bytes)
        }
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
