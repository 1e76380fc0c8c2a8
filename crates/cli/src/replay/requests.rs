//! The requests of a record, as a trace.

use std::collections::{BTreeMap, HashMap, HashSet};

use anyhow::{Context, Result};
use cairn_record::{
    Entry, Reader, StreamIndex,
    entry::{Change, Happening, MemoryKind},
    reader::Source,
    trace::{MAX_STREAM, Trace},
};
use clap::ValueEnum;

use crate::blocks::{Blocks, Class, device_of};

/// Which requests of a record are replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Selection {
    /// Those of the program's allocators if it has any, else regions if there are any, else all
    Auto,
    /// What the engine asked of the program's allocators
    Allocator,
    /// Parts of its memory that the program says it uses: the tensors of torch_npu
    Region,
    /// What the program took from devices, without what its allocators hand out again
    Device,
    /// Blocks of Cairn's own pools: workspaces of operators, memory of graphs, aclrtMemPool
    Pool,
    /// All of these
    All,
}

impl Selection {
    /// What it is, in a few words.
    pub fn describe(self) -> &'static str {
        match self {
            Selection::Auto | Selection::All => {
                "everything that was asked of devices, pools and allocators"
            }
            Selection::Allocator => "what the engine asked of the program's allocators",
            Selection::Region => "what the program says it uses of its memory, such as tensors",
            Selection::Device => "what the program took from devices",
            Selection::Pool => "blocks of Cairn's pools",
        }
    }

    fn takes_regions(self) -> bool {
        matches!(self, Selection::Region | Selection::All)
    }

    fn takes(self, kind: MemoryKind) -> bool {
        match kind {
            MemoryKind::External { .. } => matches!(self, Selection::Allocator | Selection::All),
            MemoryKind::Device(_) => matches!(self, Selection::Device | Selection::All),
            MemoryKind::PoolBlock { .. } => matches!(self, Selection::Pool | Selection::All),
            _ => false,
        }
    }
}

/// The requests of a record.
pub struct Requests {
    /// In the order of time, those of all threads.
    pub trace: Trace,
    /// What was selected; never [`Selection::Auto`].
    pub selection: Selection,
    /// Bytes that the largest device has; 0 if unknown.
    pub capacity: u64,
    /// Whether entries are missing.
    pub is_damaged: bool,
    /// How many requests of every kind the record has, whichever are selected.
    found: BTreeMap<&'static str, usize>,
}

impl Requests {
    /// Why there are none.
    pub fn why_none(&self, asked: Selection) -> String {
        let nothing = match asked.to_possible_value().filter(|_| asked != Selection::Auto) {
            Some(value) => {
                format!("has no requests of the kind `--requests {}`", value.get_name())
            }
            None => "has no requests that can be replayed".into(),
        };
        let kinds: Vec<String> =
            self.found.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
        match kinds.is_empty() {
            true => format!("{nothing}: nobody took memory"),
            false => format!("{nothing}; it has {}", kinds.join(", ")),
        }
    }
}

/// A kind of memory in a report of what a record has; `None` for what is no request.
fn kind_name(kind: MemoryKind) -> Option<&'static str> {
    Some(match kind {
        MemoryKind::Device(_) => "of devices (`device`)",
        MemoryKind::Pinned => "of pinned host memory, which no pool of a device gives",
        MemoryKind::Mapped { .. } => "pieces of virtual memory, which no pool gives",
        MemoryKind::Registered => "of registered host memory, which no pool of a device gives",
        MemoryKind::PoolBlock { .. } => "of Cairn's pools (`pool`)",
        MemoryKind::External { .. } => "of the program's allocators (`allocator`)",
        _ => return None,
    })
}

/// Reads a record, as often as needed.
pub fn read<S: Source>(
    open: impl Fn() -> Result<Reader<S>>,
    selection: Selection,
) -> Result<Requests> {
    let mut reader = open()?;
    let mut first = FirstReading::default();
    for (index, entry) in reader.by_ref().enumerate() {
        first.add(index, &entry);
    }
    let selection = match selection {
        Selection::Auto if first.has_external => Selection::Allocator,
        Selection::Auto if first.has_regions => Selection::Region,
        Selection::Auto => Selection::All,
        chosen => chosen,
    };
    let mut second =
        SecondReading { takes_regions: selection.takes_regions(), ..SecondReading::default() };
    for (index, entry) in open()?.enumerate() {
        let is_chosen = |kind| selection.takes(kind) && !first.segments.contains(&index);
        second.add(&entry, is_chosen)?;
    }
    let is_damaged = !reader.damage().is_empty();
    let FirstReading { capacity, found, .. } = first;
    Ok(Requests { trace: second.trace, selection, capacity, is_damaged, found })
}

/// Finds out what is a segment: memory that the program took, and that blocks of its allocators, or regions, lie in.
#[derive(Default)]
struct FirstReading {
    blocks: Blocks,
    /// The entry that made each live block of a device, by address.
    made_by: HashMap<usize, usize>,
    segments: HashSet<usize>,
    has_external: bool,
    has_regions: bool,
    capacity: u64,
    found: BTreeMap<&'static str, usize>,
}

impl FirstReading {
    fn add(&mut self, index: usize, entry: &Entry<'_>) {
        let kind = match &entry.happening {
            Happening::Alloc { kind, .. } => kind_name(*kind),
            Happening::Region { change: Change::Created, .. } => Some("of regions (`region`)"),
            _ => None,
        };
        kind.into_iter().for_each(|kind| *self.found.entry(kind).or_default() += 1);
        match &entry.happening {
            Happening::Alloc { kind: MemoryKind::Device(_), address, .. } => {
                self.made_by.insert(*address, index);
            }
            Happening::Alloc { kind: MemoryKind::External { .. }, address, .. } => {
                self.has_external = true;
                self.add_segment(*address);
            }
            Happening::Region { address, change: Change::Created, .. } => {
                self.has_regions = true;
                self.add_segment(*address);
            }
            Happening::Device { change: Change::Created, capacity, .. } => {
                self.capacity = self.capacity.max(*capacity);
            }
            _ => {}
        }
        self.blocks.apply(entry);
    }

    /// What is at an address lies in memory that is handed out again.
    fn add_segment(&mut self, address: usize) {
        if let Some((first, _)) = self.blocks.enclosing(address)
            && let Some(entry) = self.made_by.get(&first)
        {
            self.segments.insert(*entry);
        }
    }
}

/// A chosen request whose block is live.
#[derive(Clone, Copy)]
struct Taken {
    number: usize,
    bytes: u64,
    stream: u32,
    device: u32,
}

/// Writes the chosen ones down.
#[derive(Default)]
struct SecondReading {
    trace: Trace,
    blocks: Blocks,
    takes_regions: bool,
    live: BTreeMap<(Class, usize), Taken>,
    /// How the trace numbers streams, by device.
    streams: HashMap<(u32, Option<StreamIndex>), u32>,
}

impl SecondReading {
    fn add(&mut self, entry: &Entry<'_>, is_chosen: impl Fn(MemoryKind) -> bool) -> Result<()> {
        let effect = self.blocks.apply(entry);
        let freed_on = match &entry.happening {
            Happening::Free { stream, .. } => *stream,
            _ => None,
        };
        for (address, block) in effect.ended {
            self.free((Class::of(block.kind), address), freed_on)?;
        }
        match &entry.happening {
            Happening::Alloc { kind, address, bytes, stream, .. } if is_chosen(*kind) => {
                if let Some(device) = device_of(*kind) {
                    self.take((Class::of(*kind), *address), device, *bytes, *stream)?;
                }
            }
            Happening::Region { device, address, bytes, change, .. } if self.takes_regions => {
                self.free((Class::Region, *address), None)?;
                if *change == Change::Created {
                    self.take((Class::Region, *address), *device, *bytes, None)?;
                }
            }
            Happening::Device { device, change: Change::Destroyed, .. } => {
                let is_of_device = |taken: &Taken| taken.device == *device;
                let ended: Vec<_> = (self.live.iter())
                    .filter(|(_, taken)| is_of_device(taken))
                    .map(|(key, _)| *key)
                    .collect();
                ended.into_iter().try_for_each(|key| self.free(key, None))?;
            }
            _ => {}
        }
        Ok(())
    }

    fn take(
        &mut self,
        key: (Class, usize),
        device: u32,
        bytes: u64,
        stream: Option<StreamIndex>,
    ) -> Result<()> {
        let stream = self.stream(device, stream)?;
        let number = self.trace.take(bytes, stream, device);
        let number = number.context("more bytes are live than there can be")?;
        self.live.insert(key, Taken { number, bytes, stream, device });
        Ok(())
    }

    /// Ends a block, if it was chosen; on its own stream if none is named.
    fn free(&mut self, key: (Class, usize), on: Option<StreamIndex>) -> Result<()> {
        let Some(Taken { number, bytes, stream, device }) = self.live.remove(&key) else {
            return Ok(());
        };
        let stream = match on {
            Some(_) => self.stream(device, on)?,
            None => stream,
        };
        self.trace.free(number, bytes, stream);
        Ok(())
    }

    /// The number of a stream in the trace.
    fn stream(&mut self, device: u32, stream: Option<StreamIndex>) -> Result<u32> {
        let next = self.streams.len() as u32;
        let number = *self.streams.entry((device, stream)).or_insert(next);
        anyhow::ensure!(number <= MAX_STREAM, "it has more than {} streams", MAX_STREAM + 1);
        Ok(number)
    }
}
