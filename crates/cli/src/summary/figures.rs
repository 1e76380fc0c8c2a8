//! The figures of a record.
//!
//! It is read twice: to find the moment of each device's peak, and to see what was live then.

use std::{cell::RefCell, collections::BTreeMap};

use anyhow::Result;
use cairn_record::{
    Entry, Name, Reader,
    entry::{Change, Frame, Happening, MemoryKind, Owner},
    layout::Header,
    reader::{Damage, Source},
};

use super::{
    communicators::{CommunicatorFigures, Communicators},
    counts::Counts,
};
use crate::{
    blocks::{Block, Blocks, Class, device_of},
    symbols::Symbols,
};

/// Bytes and blocks of one purpose, owner or site.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Share {
    pub bytes: u64,
    pub blocks: u64,
}

/// Who has how much, the most first.
pub type Shares = Vec<(String, Share)>;

/// What was live at a moment, three ways.
#[derive(Default)]
pub struct Breakdown {
    pub by_purpose: Shares,
    pub by_owner: Shares,
    pub by_site: Shares,
}

/// The memory of a device, or of the host (`device` is `None`).
#[derive(Default)]
pub struct Place {
    pub device: Option<u32>,
    /// Bytes that it has; 0 where unknown.
    pub capacity: u64,
    pub peak: u64,
    /// Nanoseconds after the beginning of the record.
    pub peak_ns: u64,
    pub at_peak: Breakdown,
    /// The most that was in use with padding, as `npu-smi` counts it.
    pub used: u64,
    /// The most that was freed and kept intact for tasks.
    pub quarantined: u64,
    pub live_at_end: u64,
    pub at_end: Breakdown,
    live: u64,
    peak_entry: u64,
}

/// What a pool holds against what it has handed out.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reserve {
    pub reserved: u64,
    pub live: u64,
    pub peak_reserved: u64,
    /// Bytes in blocks when the reserve was largest.
    pub live_at_peak_reserved: u64,
    pub peak_live: u64,
}

/// A pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pool {
    /// One of the library, by device and number.
    Own(u32, u32),
    /// A user's, by its object.
    User(usize),
}

/// All that is said of a record.
pub struct Summary {
    pub header: Header,
    /// Nanoseconds between the beginning and the last entry.
    pub duration_ns: u64,
    pub counts: Counts,
    pub places: Vec<Place>,
    pub pools: BTreeMap<Pool, Reserve>,
    pub communicators: Vec<CommunicatorFigures>,
    pub damage: Vec<Damage>,
    /// The record could not grow.
    pub is_cut_short: bool,
}

/// What the first reading keeps.
#[derive(Default)]
struct FirstReading {
    places: BTreeMap<Option<u32>, Place>,
    pools: BTreeMap<Pool, Reserve>,
    /// Which outer blocks a user's pool cuts into blocks.
    user_segments: BTreeMap<usize, Pool>,
    blocks: Blocks,
    counts: Counts,
    communicators: Communicators,
    names: Names,
}

/// How graphs and stacks are called.
#[derive(Default)]
struct Names {
    labels: BTreeMap<u64, String>,
    /// The frame of each stack that says where a call came from.
    stacks: BTreeMap<u32, Frame>,
    symbols: RefCell<Symbols>,
}

/// Reads a record, as often as needed.
pub fn summarize<S: Source>(open: impl Fn() -> Result<Reader<S>>) -> Result<Summary> {
    let mut reader = open()?;
    let header = reader.header().clone();
    let mut first = FirstReading::default();
    let mut last_ns = header.start_ns;
    for entry in reader.by_ref() {
        last_ns = last_ns.max(entry.time_ns);
        first.add(&entry, header.start_ns);
    }
    let FirstReading { mut places, pools, blocks, counts, communicators, names, .. } = first;
    for place in places.values_mut() {
        place.at_end = breakdown(&blocks, place.device, &names);
        place.live_at_end = place.live;
    }
    let last_peak = places.values().map(|place| place.peak_entry).max().unwrap_or(0);
    let mut blocks = Blocks::default();
    for (index, entry) in open()?.take(last_peak as usize).enumerate() {
        blocks.apply(&entry);
        for place in places.values_mut().filter(|place| place.peak_entry == index as u64 + 1) {
            place.at_peak = breakdown(&blocks, place.device, &names);
        }
    }
    Ok(Summary {
        duration_ns: last_ns.saturating_sub(header.start_ns),
        header,
        counts,
        places: places.into_values().collect(),
        pools,
        communicators: communicators.into_figures(),
        damage: reader.damage().to_vec(),
        is_cut_short: reader.is_cut_short(),
    })
}

impl FirstReading {
    fn add(&mut self, entry: &Entry<'_>, start_ns: u64) {
        self.counts.add(entry);
        self.communicators.add(entry);
        match &entry.happening {
            Happening::Usage { device, used, quarantined, capacity } => {
                let place = self.place(Some(*device));
                place.used = place.used.max(*used);
                place.quarantined = place.quarantined.max(*quarantined);
                place.capacity = *capacity;
            }
            Happening::Device { device, change: Change::Created, capacity } => {
                self.place(Some(*device)).capacity = *capacity;
            }
            Happening::Load(plan) => {
                self.names.labels.insert(plan.loaded, plan.label.clone());
            }
            Happening::Stack { number, frames } => {
                if let Some(frame) = innermost_of_program(frames) {
                    self.names.stacks.insert(*number, frame.clone());
                }
            }
            _ => {}
        }
        let effect = self.blocks.apply(entry);
        effect.ended.iter().for_each(|(address, block)| self.end(*address, block));
        if let Some((address, block)) = effect.made {
            self.make(address, &block);
            let index = self.counts.entries;
            let place = self.place(device_of(block.kind));
            if place.live > place.peak {
                place.peak = place.live;
                place.peak_ns = entry.time_ns.saturating_sub(start_ns);
                place.peak_entry = index;
            }
        }
    }

    fn place(&mut self, device: Option<u32>) -> &mut Place {
        self.places.entry(device).or_insert_with(|| Place { device, ..Place::default() })
    }

    fn make(&mut self, address: usize, block: &Block) {
        if Class::of(block.kind) == Class::Outer {
            self.place(device_of(block.kind)).live += block.bytes;
        }
        match block.kind {
            MemoryKind::PoolSegment { device, pool } => {
                self.pools.entry(Pool::Own(device, pool)).or_default().reserve(block.bytes);
            }
            MemoryKind::PoolBlock { device, pool } => {
                self.pools.entry(Pool::Own(device, pool)).or_default().hand_out(block.bytes);
            }
            MemoryKind::External { object, .. } => {
                let pool = Pool::User(object);
                if let Some((first, segment)) = self.blocks.enclosing(address)
                    && self.user_segments.insert(first, pool).is_none()
                {
                    self.pools.entry(pool).or_default().reserve(segment.bytes);
                }
                self.pools.entry(pool).or_default().hand_out(block.bytes);
            }
            _ => {}
        }
    }

    fn end(&mut self, address: usize, block: &Block) {
        if Class::of(block.kind) == Class::Outer {
            let place = self.place(device_of(block.kind));
            place.live = place.live.saturating_sub(block.bytes);
            if let Some(pool) = self.user_segments.remove(&address) {
                self.pools.entry(pool).or_default().release(block.bytes);
            }
        }
        let pool = match block.kind {
            MemoryKind::PoolSegment { device, pool } => {
                return self.pools.entry(Pool::Own(device, pool)).or_default().release(block.bytes);
            }
            MemoryKind::PoolBlock { device, pool } => Pool::Own(device, pool),
            MemoryKind::External { object, .. } => Pool::User(object),
            _ => return,
        };
        let reserve = self.pools.entry(pool).or_default();
        reserve.live = reserve.live.saturating_sub(block.bytes);
    }
}

impl Reserve {
    fn reserve(&mut self, bytes: u64) {
        self.reserved += bytes;
        if self.reserved > self.peak_reserved {
            self.peak_reserved = self.reserved;
            self.live_at_peak_reserved = self.live;
        }
    }

    fn release(&mut self, bytes: u64) {
        self.reserved = self.reserved.saturating_sub(bytes);
    }

    fn hand_out(&mut self, bytes: u64) {
        self.live += bytes;
        self.peak_live = self.peak_live.max(self.live);
        if self.reserved == self.peak_reserved {
            self.live_at_peak_reserved = self.live_at_peak_reserved.max(self.live);
        }
    }
}

/// The innermost frame that belongs to the program itself: of Python, one that is in no installed package.
fn innermost_of_program(frames: &[Frame]) -> Option<&Frame> {
    let is_of_program = |frame: &&Frame| match frame {
        Frame::Python { file, .. } => {
            !file.contains("/site-packages/")
                && !file.contains("/lib/python3")
                && !file.starts_with('<')
        }
        Frame::Native { .. } => false,
    };
    frames.iter().find(is_of_program).or_else(|| frames.first())
}

impl Names {
    /// The function that the program called, and where from if that is known.
    fn site(&self, block: &Block) -> String {
        let call = site_name(&block.site);
        match self.stacks.get(&block.stack) {
            Some(frame) => {
                format!("{call} from {}", self.symbols.borrow_mut().resolve(frame).shortened())
            }
            None => call,
        }
    }
}

/// What is live now.
fn breakdown(blocks: &Blocks, device: Option<u32>, names: &Names) -> Breakdown {
    let shares = blocks.shares(device);
    let group = |key: &dyn Fn(&Block) -> String| {
        let mut groups: BTreeMap<String, Share> = BTreeMap::new();
        for (block, bytes) in shares.iter().filter(|(_, bytes)| *bytes > 0) {
            let share = groups.entry(key(block)).or_default();
            share.bytes += bytes;
            share.blocks += 1;
        }
        let mut groups: Shares = groups.into_iter().collect();
        groups.sort_by(|a, b| b.1.bytes.cmp(&a.1.bytes).then_with(|| a.0.cmp(&b.0)));
        groups
    };
    Breakdown {
        by_purpose: group(&purpose_name),
        by_owner: group(&|block| owner_name(&block.owner, &names.labels)),
        by_site: group(&|block| names.site(block)),
    }
}

/// What a block is for. Bytes of a segment that are in no block are said to be unused.
fn purpose_name(block: &Block) -> String {
    match block.kind {
        MemoryKind::PoolSegment { .. } => "pool segment, unused".into(),
        _ => block.purpose.name().into(),
    }
}

/// The graph and the operator, as far as they are known.
fn owner_name(owner: &Owner, labels: &BTreeMap<u64, String>) -> String {
    let label =
        owner.loaded.and_then(|loaded| labels.get(&loaded)).filter(|label| !label.is_empty());
    let graph = label.cloned().or_else(|| owner.graph.map(|graph| format!("graph {graph}")));
    match (graph, owner.operator.is_empty()) {
        (Some(graph), true) => graph,
        (Some(graph), false) => format!("{graph}: {}", owner.operator),
        (None, false) => owner.operator.to_string(),
        (None, true) => "the program".into(),
    }
}

/// The function that the program called.
pub fn site_name(site: &Name) -> String {
    if site.is_empty() { "outside of calls".into() } else { site.to_string() }
}
