//! Blocks: when they were made, when their owner gave them back, when their bytes were free for others.

use std::{
    collections::{BTreeMap, HashMap},
    ops::Range,
};

use cairn_record::{
    Entry, Epoch, Name,
    entry::{Change, Happening, MemoryKind, Owner, Purpose},
    ranges::cut,
};

use super::runs::Runs;
use crate::blocks::{Class, device_of};

/// A block of memory, from the moment it was made.
#[derive(Clone, Debug)]
pub struct BlockLife {
    pub class: Class,
    /// Of a region: the memory that it is a part of.
    pub kind: MemoryKind,
    pub address: usize,
    pub bytes: u64,
    pub purpose: Purpose,
    pub owner: Owner,
    pub call: Name,
    /// The number of its stack; 0 for none.
    pub stack: u32,
    pub stream: Option<u32>,
    pub made_ns: u64,
    /// When its owner gave it back; `None` while it is live.
    pub freed_ns: Option<u64>,
    /// When its bytes could be handed out again: what was queued at the free is done then.
    pub reusable_ns: Option<u64>,
    /// The block that it lies in, by its place in the list.
    pub parent: Option<usize>,
    /// True if blocks were made inside of it.
    pub is_divided: bool,
    /// The last task of its stream when it was freed.
    last_task: Option<Epoch>,
}

impl BlockLife {
    /// True if its owner has it at this time.
    pub fn is_live_at(&self, time_ns: u64) -> bool {
        self.made_ns <= time_ns && self.freed_ns.is_none_or(|freed| freed > time_ns)
    }

    /// The device it is of; `None` for memory of the host.
    pub fn device(&self) -> Option<u32> {
        device_of(self.kind)
    }

    /// True for what is taken from a device or the host, false for a block inside of that.
    pub fn is_outer(&self) -> bool {
        self.class == Class::Outer
    }
}

/// The blocks of a record, in the order in which they were made.
#[derive(Default)]
pub struct Lives {
    blocks: Vec<BlockLife>,
    live: BTreeMap<(Class, usize), usize>,
    /// Freed device memory whose bytes are not reusable yet.
    waiting: BTreeMap<usize, usize>,
    /// What was made inside of the segments of pools.
    children: HashMap<usize, Vec<usize>>,
}

impl Lives {
    /// All blocks.
    pub fn blocks(&self) -> &[BlockLife] {
        &self.blocks
    }

    /// What was live on a device (`None`: on the host) at a time, each block with the bytes that no live block inside of it
    /// has; those without such bytes are left out.
    pub fn shares(&self, device: Option<u32>, time_ns: u64) -> Vec<(&BlockLife, u64)> {
        let is_there = |block: &BlockLife| block.device() == device && block.is_live_at(time_ns);
        let mut own: BTreeMap<usize, u64> = (self.blocks.iter().enumerate())
            .filter(|(_, block)| is_there(block))
            .map(|(index, block)| (index, block.bytes))
            .collect();
        let inside: Vec<usize> = own.keys().copied().collect();
        for index in inside {
            let block = &self.blocks[index];
            if let Some(rest) = block.parent.and_then(|parent| own.get_mut(&parent)) {
                *rest = rest.saturating_sub(block.bytes);
            }
        }
        own.into_iter()
            .filter(|(_, bytes)| *bytes > 0)
            .map(|(index, bytes)| (&self.blocks[index], bytes))
            .collect()
    }

    pub(super) fn add(&mut self, entry: &Entry<'static>, runs: &Runs) {
        match &entry.happening {
            Happening::Alloc { kind, address, bytes, purpose, owner, stream } => {
                let class = Class::of(*kind);
                let parent = match class {
                    Class::Outer => None,
                    _ => self.enclosing(*address),
                };
                if let Some(parent) = parent {
                    self.adopt(parent);
                }
                if let Some(replaced) = self.live.insert((class, *address), self.blocks.len()) {
                    self.end(replaced, entry.time_ns, None);
                }
                self.blocks.push(BlockLife {
                    class,
                    kind: *kind,
                    address: *address,
                    bytes: *bytes,
                    purpose: *purpose,
                    owner: owner.clone(),
                    call: entry.site.entry.clone(),
                    stack: entry.site.stack,
                    stream: *stream,
                    made_ns: entry.time_ns,
                    freed_ns: None,
                    reusable_ns: None,
                    parent,
                    is_divided: false,
                    last_task: None,
                });
            }
            Happening::Free { kind: MemoryKind::PoolSegment { .. }, address, bytes, .. } => {
                self.end_part(*address..address.saturating_add(*bytes as usize), entry.time_ns);
            }
            Happening::Free { kind, address, stream, .. } => {
                let class = Class::of(*kind);
                let Some(block) = self.live.remove(&(class, *address)) else { return };
                if class == Class::Outer {
                    self.end_inside(block, entry.time_ns);
                }
                if matches!(
                    kind,
                    MemoryKind::Device(_) | MemoryKind::Pinned | MemoryKind::Mapped { .. }
                ) {
                    self.waiting.insert(*address, block);
                }
                let stream = stream.or(self.blocks[block].stream);
                self.end(block, entry.time_ns, stream.and_then(|stream| runs.last_of(stream)));
            }
            Happening::Region { device, address, bytes, domain, change: Change::Created } => {
                self.begin_region(entry, *device, *address, *bytes, domain);
            }
            Happening::Region { address, change: Change::Destroyed, .. } => {
                if let Some(block) = self.live.remove(&(Class::Region, *address)) {
                    self.end(block, entry.time_ns, None);
                }
            }
            Happening::Submit { name, accesses, .. } | Happening::Touch { name, accesses } => {
                let written = accesses.iter().filter(|access| access.mode.writes());
                written.for_each(|access| self.name_region(access.bounds().0 as usize, name));
            }
            Happening::Reusable { address, .. } => {
                if let Some(block) = self.waiting.remove(address) {
                    self.blocks[block].reusable_ns = Some(entry.time_ns);
                }
            }
            Happening::Device { device, change: Change::Destroyed, .. } => {
                let blocks = &self.blocks;
                let is_of = |block: &usize| blocks[*block].device() == Some(*device);
                let ended: Vec<usize> = self.live.values().copied().filter(is_of).collect();
                self.live.retain(|_, block| blocks[*block].device() != Some(*device));
                ended.into_iter().for_each(|block| self.end(block, entry.time_ns, None));
            }
            _ => {}
        }
    }

    /// After the last entry: says when bytes became reusable where a stream decided it.
    pub(super) fn finish(&mut self, runs: &Runs) {
        for block in &mut self.blocks {
            let Some(freed) = block.freed_ns else { continue };
            let is_kept = block.is_outer()
                && matches!(block.kind, MemoryKind::Device(_) | MemoryKind::Pinned);
            if block.reusable_ns.is_some() || is_kept && block.last_task.is_none() {
                continue;
            }
            let task = block.last_task.and_then(|task| runs.get(task));
            let done = task.map_or(Some(freed), |task| task.ended_ns);
            block.reusable_ns = done.map(|done| done.max(freed));
        }
    }

    fn begin_region(
        &mut self,
        entry: &Entry<'static>,
        device: u32,
        address: usize,
        bytes: u64,
        domain: &Name,
    ) {
        let parent = self.enclosing(address);
        if let Some(parent) = parent {
            self.adopt(parent);
        }
        if let Some(replaced) = self.live.insert((Class::Region, address), self.blocks.len()) {
            self.end(replaced, entry.time_ns, None);
        }
        self.blocks.push(BlockLife {
            class: Class::Region,
            kind: parent.map_or(MemoryKind::Device(device), |parent| self.blocks[parent].kind),
            address,
            bytes,
            purpose: Purpose::Region,
            owner: Owner::default(),
            call: domain.clone(),
            stack: entry.site.stack,
            stream: None,
            made_ns: entry.time_ns,
            freed_ns: None,
            reusable_ns: None,
            parent,
            is_divided: false,
            last_task: None,
        });
    }

    /// The next block lies in this one.
    fn adopt(&mut self, parent: usize) {
        self.blocks[parent].is_divided = true;
        if matches!(self.blocks[parent].kind, MemoryKind::PoolSegment { .. }) {
            self.children.entry(parent).or_default().push(self.blocks.len());
        }
    }

    /// A region is called after the task that first writes to it: the program says nothing of what is in it.
    fn name_region(&mut self, address: usize, task: &Name) {
        let range = (Class::Region, 0)..=(Class::Region, address);
        let Some(((_, first), block)) = self.live.range(range).next_back() else { return };
        let block = &mut self.blocks[*block];
        if address - first < block.bytes as usize && block.owner.operator.is_empty() {
            block.owner.operator = task.clone();
        }
    }

    fn end(&mut self, block: usize, time_ns: u64, last_task: Option<Epoch>) {
        let block = &mut self.blocks[block];
        block.freed_ns = Some(time_ns);
        block.last_task = last_task;
    }

    /// Ends what lies in an outer block, but for blocks of a user's pool, which end by themselves.
    fn end_inside(&mut self, outer: usize, time_ns: u64) {
        let BlockLife { address, bytes, .. } = self.blocks[outer];
        let end = address.saturating_add(bytes as usize);
        let of = |class| self.live.range((class, address)..(class, end));
        let inside = of(Class::PoolBlock).chain(of(Class::Region));
        let inside: Vec<_> = inside.map(|(key, block)| (*key, *block)).collect();
        for (key, block) in inside {
            self.live.remove(&key);
            self.end(block, time_ns, None);
        }
    }

    /// A part of the segments of a pool is given back. They count as if they had been taken in such parts from the beginning.
    fn end_part(&mut self, part: Range<usize>, time_ns: u64) {
        let range = (Class::Outer, 0)..(Class::Outer, part.end);
        let touched: Vec<usize> = (self.live.range(range).rev())
            .map(|(_, block)| *block)
            .take_while(|block| {
                let BlockLife { address, bytes, .. } = self.blocks[*block];
                address.saturating_add(bytes as usize) > part.start
            })
            .collect();
        for index in touched {
            let whole = self.blocks[index].clone();
            let end = whole.address.saturating_add(whole.bytes as usize);
            let [before, freed, behind] = cut(whole.address..end, part.clone());
            self.live.remove(&(Class::Outer, whole.address));
            let mut pieces = Vec::new();
            for (piece, is_freed) in [(before, false), (freed, true), (behind, false)] {
                if piece.is_empty() {
                    continue;
                }
                let at = if pieces.is_empty() { index } else { self.blocks.len() };
                let (address, bytes) = (piece.start, piece.len() as u64);
                let life = BlockLife { address, bytes, is_divided: false, ..whole.clone() };
                match at == index {
                    true => self.blocks[index] = life,
                    false => self.blocks.push(life),
                }
                pieces.push((piece.start, at));
                self.live.insert((Class::Outer, piece.start), at);
                if is_freed {
                    self.end_inside(at, time_ns);
                    self.live.remove(&(Class::Outer, piece.start));
                    self.end(at, time_ns, None);
                }
            }
            self.divide(index, &pieces);
        }
    }

    /// Says of the blocks inside of what was one piece in which of its pieces they begin.
    fn divide(&mut self, whole: usize, pieces: &[(usize, usize)]) {
        for child in self.children.remove(&whole).unwrap_or_default() {
            let address = self.blocks[child].address;
            let piece = pieces.iter().rev().find(|(start, _)| *start <= address);
            let parent = piece.map_or(whole, |(_, index)| *index);
            self.blocks[child].parent = Some(parent);
            self.blocks[parent].is_divided = true;
            self.children.entry(parent).or_default().push(child);
        }
    }

    fn enclosing(&self, address: usize) -> Option<usize> {
        let range = (Class::Outer, 0)..=(Class::Outer, address);
        let ((_, first), block) = self.live.range(range).next_back()?;
        (address - first < self.blocks[*block].bytes as usize).then_some(*block)
    }
}
