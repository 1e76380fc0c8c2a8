//! The blocks of a plan as a packing problem: small numbers, and sections of time in place of steps.

use super::{Block, placement::Placement};

/// More pairs of a block and a section than this are not searched.
const MAX_CELLS: u64 = 8 << 20;

/// What a search has to know of the blocks; nothing in here changes while it searches.
///
/// A section is a step at which a set of blocks is alive that no other step's set contains. Blocks that share a step
/// share a section, so the other steps say nothing new. There are at most as many sections as blocks.
pub struct Problem<'a> {
    /// What sizes and offsets are counted in.
    unit: u64,
    pub sizes: Vec<u32>,
    /// The first section of each block.
    pub begins: Vec<u32>,
    /// The section after the last of each block.
    pub ends: Vec<u32>,
    pub sections: usize,
    placement: &'a Placement<'a>,
}

impl<'a> Problem<'a> {
    /// Nothing for blocks that are too large or too many to be searched.
    pub fn new(blocks: &[Block], placement: &'a Placement<'a>, bytes: u64) -> Option<Problem<'a>> {
        let unit = blocks.iter().fold(0, |unit, one| greatest_common_divisor(unit, one.bytes));
        if !placement.knows_interference() || unit == 0 || bytes / unit > u64::from(u32::MAX / 2) {
            return None;
        }
        let steps = section_steps(blocks);
        let section = |step: usize| steps.partition_point(|one| *one < step) as u32;
        let begins: Vec<u32> = blocks.iter().map(|one| section(one.first)).collect();
        let ends: Vec<u32> = blocks.iter().map(|one| section(one.last + 1)).collect();
        let cells: u64 = begins.iter().zip(&ends).map(|(begin, end)| u64::from(end - begin)).sum();
        let sizes = blocks.iter().map(|one| (one.bytes / unit) as u32).collect();
        (cells <= MAX_CELLS).then_some(Problem {
            unit,
            sizes,
            begins,
            ends,
            sections: steps.len(),
            placement,
        })
    }

    /// How many blocks there are.
    pub fn len(&self) -> usize {
        self.sizes.len()
    }

    /// The sections in which a block is alive.
    pub fn range(&self, block: u32) -> std::ops::Range<usize> {
        self.begins[block as usize] as usize..self.ends[block as usize] as usize
    }

    pub fn covers(&self, block: u32, section: usize) -> bool {
        self.range(block).contains(&section)
    }

    /// Those that are alive with a block.
    pub fn neighbors(&self, block: u32) -> &'a [u32] {
        self.placement.neighbors(block)
    }

    /// The sum of all blocks, by section.
    pub fn totals(&self) -> Vec<u32> {
        let mut totals = vec![0; self.sections];
        for block in 0..self.len() as u32 {
            let size = self.sizes[block as usize];
            totals[self.range(block)].iter_mut().for_each(|total| *total += size);
        }
        totals
    }

    /// Whole units in a number of bytes.
    pub fn units(&self, bytes: u64) -> u32 {
        (bytes / self.unit) as u32
    }

    pub fn bytes(&self, units: u32) -> u64 {
        u64::from(units) * self.unit
    }
}

fn greatest_common_divisor(mut one: u64, mut other: u64) -> u64 {
    while other > 0 {
        (one, other) = (other, one % other);
    }
    one
}

/// The steps at which something begins, and something ends before anything else begins.
fn section_steps(blocks: &[Block]) -> Vec<usize> {
    let mut events: Vec<(usize, bool)> =
        blocks.iter().flat_map(|one| [(one.first, false), (one.last, true)]).collect();
    events.sort_unstable();
    let (mut steps, mut begun) = (Vec::new(), None);
    for (step, is_end) in events {
        if is_end {
            steps.extend(begun.take());
        } else {
            begun = Some(step);
        }
    }
    steps
}
