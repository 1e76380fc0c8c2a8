//! Looks for a packing below a limit: a tree of decisions, each about the lowest place that is not decided.
//!
//! Any packing can be pushed down until every block lies on the ground or on another, and it can be built from the
//! bottom upwards. So of all blocks that are left, take the lowest offset that one of them can have, and a section in
//! which one can have it. Either one of the blocks of that section lies there (one decision for each), or none does, and
//! the section stays empty up to the next offset that is possible. What is impossible shows early, section by
//! section ([`Packing::may_fit`]). Blocks that fall apart in time are parts that are packed one after the other, and
//! what was found to be impossible is remembered.
//!
//! The ideas are those of M. D. Moffitt, "MiniMalloc" (ASPLOS 2023): sections, canonical solutions, decomposition.

use super::packing::Packing;

/// What a search found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A packing: the least offsets are where the blocks lie.
    Found,
    /// There is none.
    Impossible,
    /// It came to the end of what it may do.
    Undecided,
}

/// Which section is decided first, of those that are the lowest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// That in which the fewest blocks can lie there; of these the fullest.
    Fewest,
    /// That in which the product of both is the least.
    Product,
}

/// The end of a list.
const NONE: u32 = u32::MAX;

/// Blocks that are packed together, as a range in `pool`; some may be placed already.
#[derive(Clone, Copy)]
struct Part {
    begin: u32,
    end: u32,
    /// The part to pack after this one.
    next: u32,
    /// The decision that led to it.
    parent: u32,
}

/// A decision: which of `candidates` lies on the floor of a section, or none of them.
struct Decision {
    part: Part,
    section: u32,
    floor: u32,
    /// Where its candidates begin, and the one to try next.
    candidates: u32,
    candidates_end: u32,
    next: u32,
    key: u64,
    mark: usize,
    parts: u32,
    pool: u32,
}

/// Searches with one order of blocks after the other; what was found to be impossible stays known.
pub struct Search<'a> {
    pub packing: Packing<'a>,
    decisions: Vec<Decision>,
    parts: Vec<Part>,
    pool: Vec<u32>,
    candidates: Vec<u32>,
    impossible: Vec<u64>,
    counts: Vec<i32>,
}

/// How many states are remembered.
const REMEMBERED: usize = 1 << 14;

impl<'a> Search<'a> {
    pub fn new(packing: Packing<'a>) -> Search<'a> {
        let counts = vec![0; packing.problem.sections + 1];
        Search {
            packing,
            decisions: Vec::new(),
            parts: Vec::new(),
            pool: Vec::new(),
            candidates: Vec::new(),
            impossible: vec![0; REMEMBERED],
            counts,
        }
    }

    /// Looks for a packing below `limit`; ends after `max_decisions`, or when the packing's steps reach `max_steps`.
    ///
    /// Of two blocks that can lie at the same place, the one with the lower rank is tried first.
    pub fn run(
        &mut self,
        limit: u32,
        choice: Choice,
        ranks: &[u32],
        max_decisions: u64,
        max_steps: u64,
    ) -> Outcome {
        self.packing.undo(0);
        self.packing.limit = limit;
        self.packing.least.fill(0);
        self.decisions.clear();
        self.parts.clear();
        self.candidates.clear();
        self.pool.clear();
        self.pool.extend(0..self.packing.problem.len() as u32);
        let all = 0..self.packing.problem.sections;
        if !self.packing.may_fit(&self.pool, all) {
            return Outcome::Impossible;
        }
        let everything = Part { begin: 0, end: self.pool.len() as u32, next: NONE, parent: NONE };
        let mut head = self.split(everything, NONE);
        let mut count = 0;
        while head != NONE {
            count += 1;
            if count > max_decisions || self.packing.steps > max_steps {
                return Outcome::Undecided;
            }
            let part = self.parts[head as usize];
            let mut decision = match self.decide(part, choice, ranks) {
                Some(decision) => {
                    self.decisions.push(decision);
                    self.decisions.len() as u32 - 1
                }
                None => part.parent,
            };
            head = loop {
                if decision == NONE {
                    return Outcome::Impossible;
                }
                match self.advance(decision) {
                    Ok(head) => break head,
                    Err(parent) => decision = parent,
                }
            };
        }
        Outcome::Found
    }

    /// What to decide about a part; nothing when it is known to be impossible.
    fn decide(&mut self, part: Part, choice: Choice, ranks: &[u32]) -> Option<Decision> {
        let problem = self.packing.problem;
        let packing = &mut self.packing;
        let blocks = &self.pool[part.begin as usize..part.end as usize];
        packing.steps += blocks.len() as u64;
        let (mut floor, mut key) = (u32::MAX, mix(u64::from(packing.limit)));
        for block in blocks.iter().filter(|block| !packing.is_placed[**block as usize]) {
            let least = packing.least[*block as usize];
            floor = floor.min(least);
            key ^= mix(u64::from(*block) << 32 | u64::from(least));
        }
        if self.impossible[key as usize % REMEMBERED] == key {
            return None;
        }
        let begin = self.candidates.len();
        self.candidates.extend(blocks.iter().copied().filter(|block| {
            !packing.is_placed[*block as usize] && packing.least[*block as usize] == floor
        }));
        let candidates = &self.candidates[begin..];
        let first = candidates.iter().map(|block| problem.range(*block).start).min()?;
        let last = candidates.iter().map(|block| problem.range(*block).end).max()?;
        self.counts[first..=last].fill(0);
        for block in candidates {
            self.counts[problem.begins[*block as usize] as usize] += 1;
            self.counts[problem.ends[*block as usize] as usize] -= 1;
        }
        packing.steps += (candidates.len() + last - first) as u64;
        let (mut count, mut best) = (0, (u64::MAX, u64::MAX, 0));
        for section in first..last {
            count += self.counts[section];
            if count > 0 {
                let (many, room) = (count as u64, packing.limit - floor - packing.totals[section]);
                let room = u64::from(room);
                best = best.min(match choice {
                    Choice::Fewest => (many, room, section),
                    Choice::Product => (many * (1 + room), many, section),
                });
            }
        }
        let section = best.2;
        let mut end = begin;
        for at in begin..self.candidates.len() {
            if problem.covers(self.candidates[at], section) {
                self.candidates.swap(at, end);
                end += 1;
            }
        }
        self.candidates.truncate(end);
        self.candidates[begin..].sort_unstable_by_key(|block| ranks[*block as usize]);
        Some(Decision {
            part,
            section: section as u32,
            floor,
            candidates: begin as u32,
            candidates_end: end as u32,
            next: begin as u32,
            key,
            mark: self.packing.mark(),
            parts: self.parts.len() as u32,
            pool: self.pool.len() as u32,
        })
    }

    /// Tries what is left of a decision, after everything that followed it was undone: the part to go on with,
    /// or, when nothing is left, the decision before.
    fn advance(&mut self, at: u32) -> Result<u32, u32> {
        self.decisions.truncate(at as usize + 1);
        loop {
            let Some(decision) = self.decisions.last_mut() else { return Err(NONE) };
            self.packing.undo(decision.mark);
            self.parts.truncate(decision.parts as usize);
            self.pool.truncate(decision.pool as usize);
            self.candidates.truncate(decision.candidates_end as usize);
            let part = decision.part;
            let next = decision.next;
            decision.next += 1;
            if next < decision.candidates_end {
                let block = self.candidates[next as usize];
                let (changed, is_split) = self.packing.place(block);
                if self.fits(part, changed) {
                    return Ok(if is_split { self.split(part, at) } else { self.shrink(part, at) });
                }
            } else if next == decision.candidates_end {
                let (section, floor) = (decision.section, decision.floor);
                if let Some(changed) = self.leave_empty(part, section as usize, floor)
                    && self.fits(part, changed)
                {
                    return Ok(self.push(Part { parent: at, ..part }));
                }
            } else {
                let key = decision.key;
                self.impossible[key as usize % REMEMBERED] = key;
                self.candidates.truncate(decision.candidates as usize);
                self.decisions.pop();
                return Err(part.parent);
            }
        }
    }

    fn fits(&mut self, part: Part, changed: std::ops::Range<usize>) -> bool {
        self.packing.may_fit(&self.pool[part.begin as usize..part.end as usize], changed)
    }

    /// Nothing of a section lies on its floor: its blocks lie higher. Nothing when that cannot be.
    ///
    /// The lowest block of the section lies on something that is placed, above the floor, or on a block that is not
    /// placed and not of the section.
    fn leave_empty(
        &mut self,
        part: Part,
        section: usize,
        floor: u32,
    ) -> Option<std::ops::Range<usize>> {
        let problem = self.packing.problem;
        let packing = &mut self.packing;
        let blocks = &self.pool[part.begin as usize..part.end as usize];
        let of_section = || blocks.iter().copied().filter(|block| problem.covers(*block, section));
        let mut next = u32::MAX;
        for block in of_section().filter(|block| !packing.is_placed[*block as usize]) {
            let least = packing.least[block as usize];
            if least > floor {
                next = next.min(least);
                continue;
            }
            let neighbors = problem.neighbors(block);
            packing.steps += neighbors.len() as u64;
            for other in neighbors.iter().copied() {
                if !packing.is_placed[other as usize] && !problem.covers(other, section) {
                    next = next.min(packing.least[other as usize] + problem.sizes[other as usize]);
                }
            }
        }
        if next == u32::MAX {
            return None;
        }
        packing.steps += blocks.len() as u64;
        let mut changed = section..section + 1;
        for block in of_section() {
            if !packing.is_placed[block as usize] {
                packing.raise(block, next, &mut changed);
            }
        }
        Some(changed)
    }

    fn push(&mut self, part: Part) -> u32 {
        self.parts.push(part);
        self.parts.len() as u32 - 1
    }

    /// The rest of a part, copied once most of it is placed.
    fn shrink(&mut self, part: Part, parent: u32) -> u32 {
        let range = part.begin as usize..part.end as usize;
        let is_placed = &self.packing.is_placed;
        let left =
            self.pool[range.clone()].iter().filter(|block| !is_placed[**block as usize]).count();
        if left == 0 {
            return part.next;
        }
        if left * 2 > range.len() {
            return self.push(Part { parent, ..part });
        }
        let begin = self.pool.len() as u32;
        for at in range {
            if !is_placed[self.pool[at] as usize] {
                self.pool.push(self.pool[at]);
            }
        }
        self.push(Part { begin, end: self.pool.len() as u32, parent, ..part })
    }

    /// The parts that what is left of a part falls into, the smallest first. A block that is alone is done: it lies
    /// at its least offset.
    fn split(&mut self, part: Part, parent: u32) -> u32 {
        let begin = self.pool.len();
        for at in part.begin as usize..part.end as usize {
            if !self.packing.is_placed[self.pool[at] as usize] {
                self.pool.push(self.pool[at]);
            }
        }
        let problem = self.packing.problem;
        let blocks = &mut self.pool[begin..];
        self.packing.steps += 2 * blocks.len() as u64;
        blocks.sort_unstable_by_key(|block| problem.begins[*block as usize]);
        let first_part = self.parts.len();
        let (mut from, mut end) = (0, 0);
        for at in 0..=blocks.len() {
            let range = blocks.get(at).map(|block| problem.range(*block));
            if range.as_ref().is_none_or(|range| range.start >= end) {
                if at - from > 1 {
                    let (begin, end) = ((begin + from) as u32, (begin + at) as u32);
                    self.parts.push(Part { begin, end, next: NONE, parent });
                }
                from = at;
            }
            end = end.max(range.map_or(0, |range| range.end));
        }
        let parts = &mut self.parts[first_part..];
        parts.sort_by_key(|part| (part.end - part.begin, part.begin));
        let mut next = part.next;
        for (at, one) in parts.iter_mut().enumerate().rev() {
            one.next = next;
            next = (first_part + at) as u32;
        }
        next
    }
}

/// Spreads a number over 64 bits (the finaliser of splitmix64).
pub fn mix(mut value: u64) -> u64 {
    value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}
