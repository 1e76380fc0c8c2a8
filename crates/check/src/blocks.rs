//! What memory there is: allocations, and blocks inside of them.

use cairn_record::Site;
use cairn_record::StreamIndex;
use cairn_record::entry::{MemoryKind, Owner, Purpose};
use cairn_record::ranges::cut;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::rc::Rc;

/// How many blocks that were freed are remembered, to explain accesses to them.
const MAX_RETIRED: usize = 1 << 16;

/// A block while it is out, and after.
#[derive(Clone, Debug)]
pub struct Block {
    /// Which memory.
    pub kind: MemoryKind,
    /// First byte.
    pub address: usize,
    /// Bytes.
    pub bytes: u64,
    /// What it is for.
    pub purpose: Purpose,
    /// Whom it is for.
    pub owner: Owner,
    /// The stream it is used on.
    pub stream: Option<StreamIndex>,
    /// Who asked for it.
    pub site: Site,
    /// When.
    pub time_ns: u64,
    /// Who gave back what was there before, if that is still known.
    pub freed_before: Option<Freed>,
}

/// Memory that was given back.
#[derive(Clone, Debug)]
pub struct Freed {
    /// First byte and bytes.
    pub address: usize,
    /// Bytes.
    pub bytes: u64,
    /// Who gave it back.
    pub site: Site,
    /// The thread that did.
    pub thread: u64,
    /// When.
    pub time_ns: u64,
}

impl Block {
    /// What it is, for a line of facts.
    pub fn describe(&self) -> String {
        let mut text = format!("{:#x}+{} of {}", self.address, self.bytes, self.kind);
        text += &format!(", for: {}", self.purpose.name());
        if !self.owner.operator.is_empty() {
            text += &format!(" of {}", self.owner.operator);
        }
        if let Some(graph) = self.owner.graph {
            text += &format!(", graph {graph}");
        }
        text
    }

    /// One past its last byte.
    pub fn end(&self) -> usize {
        self.address.saturating_add(self.bytes as usize)
    }

    /// Whether it shares a byte with these.
    pub fn overlaps(&self, start: usize, end: usize) -> bool {
        self.address < end && start < self.end()
    }
}

/// A block that was given back.
#[derive(Debug)]
pub struct Retired {
    /// The block.
    pub block: Rc<Block>,
    /// Who gave it back.
    pub site: Site,
    /// The thread that did.
    pub thread: u64,
    /// When.
    pub time_ns: u64,
}

/// Blocks of one level, which do not overlap.
#[derive(Default)]
pub struct Blocks {
    live: BTreeMap<usize, Rc<Block>>,
    retired: BTreeMap<usize, Rc<Retired>>,
    order: VecDeque<Rc<Retired>>,
}

impl Blocks {
    /// A block was made. What was retired there is forgotten.
    pub fn insert(&mut self, block: Rc<Block>) {
        self.forget_retired(block.address, block.end());
        self.live.insert(block.address, block);
    }

    /// A block was given back; `None` where none begins there.
    pub fn remove(
        &mut self,
        address: usize,
        site: Site,
        thread: u64,
        time_ns: u64,
    ) -> Option<Rc<Block>> {
        let block = self.live.remove(&address)?;
        let retired = Rc::new(Retired { block: block.clone(), site, thread, time_ns });
        self.order.push_back(retired.clone());
        self.retired.insert(address, retired);
        if self.order.len() > MAX_RETIRED
            && let Some(oldest) = self.order.pop_front()
            && self.retired.get(&oldest.block.address).is_some_and(|it| Rc::ptr_eq(it, &oldest))
        {
            self.retired.remove(&oldest.block.address);
        }
        Some(block)
    }

    /// A part of the memory of blocks was given back, whatever their bounds: what is left of them stays.
    pub fn remove_part(&mut self, part: Range<usize>, site: &Site, thread: u64, time_ns: u64) {
        let touched: Vec<Rc<Block>> = self.overlapping(part.start, part.end).cloned().collect();
        for block in touched {
            self.live.remove(&block.address);
            let of = |range: Range<usize>| {
                let (address, bytes) = (range.start, range.len() as u64);
                Rc::new(Block { address, bytes, ..(*block).clone() })
            };
            let [before, freed, behind] = cut(block.address..block.end(), part.clone());
            for rest in [before, behind].into_iter().filter(|rest| !rest.is_empty()) {
                self.live.insert(rest.start, of(rest));
            }
            self.live.insert(freed.start, of(freed.clone()));
            self.remove(freed.start, site.clone(), thread, time_ns);
        }
    }

    /// Takes the live blocks of which `has_ended` is true: they ended without having been given back.
    pub fn take(&mut self, has_ended: impl Fn(&Block) -> bool) -> Vec<Rc<Block>> {
        self.live.extract_if(.., |_, block| has_ended(block)).map(|(_, block)| block).collect()
    }

    /// Who gave back what was at these bytes.
    pub fn freed(&self, start: usize, end: usize) -> Option<Freed> {
        let retired = self.retired(start, end).next()?;
        let Block { address, bytes, .. } = *retired.block;
        let Retired { ref site, thread, time_ns, .. } = **retired;
        Some(Freed { address, bytes, site: site.clone(), thread, time_ns })
    }

    fn forget_retired(&mut self, start: usize, end: usize) {
        let inside: Vec<usize> = overlapping(&self.retired, start, end, |it| it.block.end())
            .map(|it| it.block.address)
            .collect();
        inside.iter().for_each(|address| _ = self.retired.remove(address));
    }

    /// The live blocks that share a byte with these.
    pub fn overlapping(&self, start: usize, end: usize) -> impl Iterator<Item = &Rc<Block>> {
        overlapping(&self.live, start, end, |block| block.end())
    }

    /// The live block that has this byte.
    pub fn at(&self, address: usize) -> Option<&Rc<Block>> {
        self.overlapping(address, address.saturating_add(1)).next()
    }

    /// The blocks that were given back, have not been made again, and share a byte with these.
    pub fn retired(&self, start: usize, end: usize) -> impl Iterator<Item = &Rc<Retired>> {
        overlapping(&self.retired, start, end, |it| it.block.end())
    }

    /// Every live block, by address.
    pub fn live(&self) -> impl Iterator<Item = &Rc<Block>> {
        self.live.values()
    }
}

/// The values of a map by first byte that share a byte with these; values do not overlap.
fn overlapping<'a, T>(
    map: &'a BTreeMap<usize, T>,
    start: usize,
    end: usize,
    end_of: impl Fn(&T) -> usize + 'a,
) -> impl Iterator<Item = &'a T> {
    let before = map.range(..start).next_back().map(|(_, value)| value);
    let first = before.filter(move |value| end_of(value) > start);
    let rest = (start < end).then(|| map.range(start..end).map(|(_, value)| value));
    first.into_iter().chain(rest.into_iter().flatten())
}
