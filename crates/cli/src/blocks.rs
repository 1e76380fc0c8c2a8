//! The blocks that are live at a moment of the record, and which of them lie in which.

use std::{collections::BTreeMap, ops::Range};

use cairn_record::{
    Name,
    entry::{Change, Entry, Happening, MemoryKind, Owner, Purpose},
    ranges::cut,
};

/// A block that is live.
#[derive(Clone, Debug)]
pub struct Block {
    pub kind: MemoryKind,
    pub bytes: u64,
    pub purpose: Purpose,
    pub owner: Owner,
    pub site: Name,
    /// The number of its stack; 0 for none.
    pub stack: u32,
}

/// Which map of addresses a block is in: a segment and its first block begin at one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// What is taken from a device or from the host: device memory, segments of pools, pinned and registered memory.
    Outer,
    /// A block of a pool.
    PoolBlock,
    /// A block of a user allocator.
    External,
    /// A part of its memory of which the program says that it uses it.
    Region,
}

impl Class {
    pub fn of(kind: MemoryKind) -> Class {
        match kind {
            MemoryKind::PoolBlock { .. } => Class::PoolBlock,
            MemoryKind::External { .. } => Class::External,
            _ => Class::Outer,
        }
    }
}

/// The device of a block; `None` for memory of the host.
pub fn device_of(kind: MemoryKind) -> Option<u32> {
    match kind {
        MemoryKind::Device(device)
        | MemoryKind::PoolSegment { device, .. }
        | MemoryKind::PoolBlock { device, .. }
        | MemoryKind::Mapped { device }
        | MemoryKind::External { device, .. } => Some(device),
        MemoryKind::Pinned | MemoryKind::Registered => None,
    }
}

/// A device, or the host, in words.
pub fn device_name(device: Option<u32>) -> String {
    device.map_or("host memory".into(), |device| format!("device {device}"))
}

/// All live blocks.
#[derive(Default)]
pub struct Blocks {
    live: BTreeMap<(Class, usize), Block>,
}

/// What an entry did to blocks, with their addresses.
#[derive(Default)]
pub struct Effect {
    /// The one that is new.
    pub made: Option<(usize, Block)>,
    /// Those that ended; among them one at the address of a new one whose end was not recorded.
    pub ended: Vec<(usize, Block)>,
}

impl Blocks {
    /// Follows an entry.
    pub fn apply(&mut self, entry: &Entry<'_>) -> Effect {
        match &entry.happening {
            Happening::Alloc { kind, address, bytes, purpose, owner, .. } => {
                let block = Block {
                    kind: *kind,
                    bytes: *bytes,
                    purpose: *purpose,
                    owner: owner.clone(),
                    site: entry.site.entry.clone(),
                    stack: entry.site.stack,
                };
                let key = (Class::of(*kind), *address);
                let replaced = self.live.insert(key, block.clone());
                let ended = replaced.into_iter().map(|block| (*address, block)).collect();
                Effect { made: Some((*address, block)), ended }
            }
            Happening::Free { kind: MemoryKind::PoolSegment { .. }, address, bytes, .. } => {
                let part = *address..address.saturating_add(*bytes as usize);
                Effect { made: None, ended: self.end_part(part) }
            }
            Happening::Free { kind, address, .. } => {
                let block = self.live.remove(&(Class::of(*kind), *address));
                Effect {
                    made: None,
                    ended: block.into_iter().map(|block| (*address, block)).collect(),
                }
            }
            Happening::Device { device, change: Change::Destroyed, .. } => {
                let ended = self.take(|_, _, block| device_of(block.kind) == Some(*device));
                Effect { made: None, ended }
            }
            _ => Effect::default(),
        }
    }

    /// A part of the segments of a pool was given back: what is left of them stays, what lay in the part has ended.
    fn end_part(&mut self, part: Range<usize>) -> Vec<(usize, Block)> {
        let mut ended = self.take(|class, at, _| class == Class::PoolBlock && part.contains(&at));
        let touched: Vec<(usize, Block)> = self.take(|class, at, block| {
            let end = at.saturating_add(block.bytes as usize);
            class == Class::Outer && at < part.end && part.start < end
        });
        for (address, block) in touched {
            let end = address.saturating_add(block.bytes as usize);
            let [before, freed, behind] = cut(address..end, part.clone());
            let of = |range: &Range<usize>| Block { bytes: range.len() as u64, ..block.clone() };
            for rest in [before, behind].iter().filter(|rest| !rest.is_empty()) {
                self.live.insert((Class::Outer, rest.start), of(rest));
            }
            ended.push((freed.start, of(&freed)));
        }
        ended
    }

    fn take(&mut self, ends: impl Fn(Class, usize, &Block) -> bool) -> Vec<(usize, Block)> {
        let ended = self.live.extract_if(.., |(class, at), block| ends(*class, *at, block));
        ended.map(|((_, address), block)| (address, block)).collect()
    }

    /// The live block of the outer class that an address lies in.
    pub fn enclosing(&self, address: usize) -> Option<(usize, &Block)> {
        let ((_, first), block) =
            self.live.range((Class::Outer, 0)..=(Class::Outer, address)).next_back()?;
        (address - first < block.bytes as usize).then_some((*first, block))
    }

    /// The live blocks of a device (`None`: of the host), each with the bytes that no block inside of it has.
    pub fn shares(&self, device: Option<u32>) -> Vec<(&Block, u64)> {
        let mut own: BTreeMap<(Class, usize), u64> = BTreeMap::new();
        let of_device = || self.live.iter().filter(|(_, block)| device_of(block.kind) == device);
        for (key, block) in of_device() {
            own.insert(*key, block.bytes);
        }
        for ((class, address), block) in of_device() {
            if *class == Class::Outer {
                continue;
            }
            if let Some((first, _)) = self.enclosing(*address)
                && let Some(rest) = own.get_mut(&(Class::Outer, first))
            {
                *rest = rest.saturating_sub(block.bytes);
            }
        }
        own.into_iter().map(|(key, bytes)| (&self.live[&key], bytes)).collect()
    }
}
