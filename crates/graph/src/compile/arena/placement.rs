//! Placing blocks one after the other, each into a gap between those that are alive at the same time.

use super::Block;

/// More pairs of blocks that are alive together than this are not written down; the placement is then scanned instead.
const MAX_PAIRS: u64 = 2 << 20;

/// Which gap a block goes into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit {
    /// The lowest that is large enough.
    First,
    /// The smallest that is large enough.
    Best,
}

/// Blocks, which blocks are alive at the same time, and where each lies.
pub struct Placement<'a> {
    blocks: &'a [Block],
    degrees: Vec<u32>,
    interference: Option<Interference>,
    offsets: Vec<u64>,
    /// The place of each block in the order that is being placed.
    turn: Vec<u32>,
    /// What the block that is being placed has to avoid; here to be used again.
    ranges: Vec<(u64, u64)>,
    /// How many blocks were visited so far: what placing costs, the same on every machine.
    pub visits: u64,
}

/// For each block those that are alive with it, one list after the other.
struct Interference {
    /// Where the list of each block begins.
    begins: Vec<u32>,
    others: Vec<u32>,
}

impl Interference {
    fn of(&self, block: usize) -> &[u32] {
        &self.others[self.begins[block] as usize..self.begins[block + 1] as usize]
    }
}

/// A block with its offset, in the order of offsets.
#[derive(Clone, Copy)]
struct PlacedBlock {
    begin: u64,
    end: u64,
    first: usize,
    last: usize,
}

impl<'a> Placement<'a> {
    /// Nothing is placed yet.
    pub fn new(blocks: &'a [Block]) -> Placement<'a> {
        let degrees = degrees(blocks);
        let pairs: u64 = degrees.iter().map(|degree| u64::from(*degree)).sum::<u64>() / 2;
        Placement {
            blocks,
            interference: (pairs <= MAX_PAIRS).then(|| interference(blocks, &degrees)),
            degrees,
            offsets: vec![0; blocks.len()],
            turn: vec![0; blocks.len()],
            ranges: Vec::new(),
            visits: 0,
        }
    }

    /// How many others each block is alive with.
    pub fn degrees(&self) -> &[u32] {
        &self.degrees
    }

    /// Where each block lies.
    pub fn offsets(&self) -> &[u64] {
        &self.offsets
    }

    /// Whether it is known which blocks are alive at the same time, which [`Placement::place_from`] needs.
    pub fn knows_interference(&self) -> bool {
        self.interference.is_some()
    }

    /// Those that are alive with a block; none when that is not known.
    pub fn neighbors(&self, block: u32) -> &[u32] {
        self.interference.as_ref().map_or(&[], |known| known.of(block as usize))
    }

    /// The turn of a block that is placed before `turn` and alive with `block`: `pick` chooses among them.
    pub fn earlier_neighbor(
        &self,
        block: u32,
        turn: usize,
        pick: impl FnOnce(usize) -> usize,
    ) -> usize {
        let Some(interference) = &self.interference else { return 0 };
        let neighbors =
            interference.of(block as usize).iter().map(|other| self.turn[*other as usize] as usize);
        let before = || neighbors.clone().filter(|earlier| *earlier < turn);
        before().nth(pick(before().count())).unwrap_or(0)
    }

    /// Places all blocks in an order, and says where the highest ends.
    pub fn place(&mut self, order: &[u32], fit: Fit) -> u64 {
        if self.interference.is_some() {
            let _ = self.place_from(order, 0, fit, u64::MAX);
            return self.top();
        }
        let mut placed: Vec<PlacedBlock> = Vec::with_capacity(order.len());
        for at in order {
            let block = self.blocks[*at as usize];
            self.visits += placed.len() as u64;
            let neighbors =
                placed.iter().filter(|one| block.first <= one.last && one.first <= block.last);
            let begin = gap(neighbors.map(|one| (one.begin, one.end)), block.bytes, fit);
            let end = begin.saturating_add(block.bytes);
            let index = placed.partition_point(|one| one.begin < begin);
            placed.insert(index, PlacedBlock { begin, end, first: block.first, last: block.last });
            self.offsets[*at as usize] = begin;
        }
        self.top()
    }

    /// Places `order[from..]`, when those before lie already, in the same order. `Err` names the place in the
    /// order of the first block that would end above `limit`; the blocks after it are not placed then.
    pub fn place_from(
        &mut self,
        order: &[u32],
        from: usize,
        fit: Fit,
        limit: u64,
    ) -> Result<(), usize> {
        let Some(interference) = &self.interference else { return Err(from) };
        order.iter().enumerate().skip(from).for_each(|(turn, at)| {
            self.turn[*at as usize] = turn as u32;
        });
        for (turn, at) in order.iter().enumerate().skip(from) {
            let others = interference.of(*at as usize);
            self.ranges.clear();
            for other in others.iter().map(|other| *other as usize) {
                if (self.turn[other] as usize) < turn {
                    let begin = self.offsets[other];
                    self.ranges.push((begin, begin.saturating_add(self.blocks[other].bytes)));
                }
            }
            self.ranges.sort_unstable();
            self.visits += 1 + others.len() as u64 + 2 * self.ranges.len() as u64;
            let bytes = self.blocks[*at as usize].bytes;
            let begin = gap(self.ranges.iter().copied(), bytes, fit);
            if begin.saturating_add(bytes) > limit {
                return Err(turn);
            }
            self.offsets[*at as usize] = begin;
        }
        Ok(())
    }

    fn top(&self) -> u64 {
        let ends = self
            .offsets
            .iter()
            .zip(self.blocks)
            .map(|(begin, one)| begin.saturating_add(one.bytes));
        ends.max().unwrap_or(0)
    }
}

/// Where a block of `bytes` goes among ranges that come by rising begin.
fn gap(ranges: impl Iterator<Item = (u64, u64)>, bytes: u64, fit: Fit) -> u64 {
    let (mut end, mut best) = (0u64, None);
    for (begin, range_end) in ranges {
        let gap = begin.saturating_sub(end);
        if gap >= bytes {
            match fit {
                Fit::First => return end,
                Fit::Best if best.is_none_or(|(least, _)| gap < least) => {
                    best = Some((gap, end));
                }
                Fit::Best => {}
            }
        }
        end = end.max(range_end);
    }
    best.map_or(end, |(_, begin)| begin)
}

/// How many others each block is alive with: all but those that end before it or begin after it.
fn degrees(blocks: &[Block]) -> Vec<u32> {
    let mut begins: Vec<usize> = blocks.iter().map(|one| one.first).collect();
    let mut ends: Vec<usize> = blocks.iter().map(|one| one.last).collect();
    begins.sort_unstable();
    ends.sort_unstable();
    let degree = |one: &Block| {
        let begun = begins.partition_point(|begin| *begin <= one.last);
        let ended = ends.partition_point(|end| *end < one.first);
        (begun - ended - 1) as u32
    };
    blocks.iter().map(degree).collect()
}

/// Which blocks are alive at the same time, by a sweep over the steps that keeps those alive.
fn interference(blocks: &[Block], degrees: &[u32]) -> Interference {
    let mut begins = Vec::with_capacity(blocks.len() + 1);
    begins.push(0u32);
    for degree in degrees {
        begins.push(begins[begins.len() - 1] + degree);
    }
    let mut next: Vec<u32> = begins[..blocks.len()].to_vec();
    let mut others = vec![0u32; begins[blocks.len()] as usize];
    let mut order: Vec<usize> = (0..blocks.len()).collect();
    order.sort_unstable_by_key(|at| (blocks[*at].first, *at));
    let mut alive: Vec<usize> = Vec::new();
    for at in order {
        alive.retain(|other| blocks[*other].overlaps(&blocks[at]));
        for other in &alive {
            for (one, neighbor) in [(at, *other), (*other, at)] {
                others[next[one] as usize] = neighbor as u32;
                next[one] += 1;
            }
        }
        alive.push(at);
    }
    Interference { begins, others }
}
