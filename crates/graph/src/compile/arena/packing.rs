//! A packing from the bottom upwards: which blocks lie, and how low each of the others can still lie.

use super::problem::Problem;
use std::ops::Range;

/// In the trail: the block was placed.
const PLACED: u32 = u32::MAX;

/// A packing that grows upwards, and shrinks again to any point that it passed.
///
/// Blocks are placed on what lies below them, so the state of what is left to do is one number for each block: the
/// least offset that it can have.
pub struct Packing<'a> {
    pub problem: &'a Problem<'a>,
    /// Every block has to end at or below this.
    pub limit: u32,
    /// The least offset of each block; of those that are placed, their offset.
    pub least: Vec<u32>,
    pub is_placed: Vec<bool>,
    /// The sum of what is not placed, by section.
    pub totals: Vec<u32>,
    /// How many blocks that are not placed are alive in a section and in the next.
    crossings: Vec<u32>,
    /// What changed: a block, and its least offset before.
    trail: Vec<(u32, u32)>,
    /// Here to be used again: blocks by least offset, and how high each section is filled.
    sorted: Vec<(u32, u32)>,
    heights: Vec<u32>,
    /// The work done so far, the same on every machine.
    pub steps: u64,
}

impl<'a> Packing<'a> {
    pub fn new(problem: &'a Problem<'a>) -> Packing<'a> {
        let mut crossings = vec![0; problem.sections];
        for block in 0..problem.len() as u32 {
            let range = problem.range(block);
            crossings[range.start..range.end - 1].iter_mut().for_each(|count| *count += 1);
        }
        Packing {
            problem,
            limit: 0,
            least: vec![0; problem.len()],
            is_placed: vec![false; problem.len()],
            totals: problem.totals(),
            crossings,
            trail: Vec::new(),
            sorted: Vec::new(),
            heights: vec![0; problem.sections],
            steps: 0,
        }
    }

    /// What [`Packing::undo`] takes to come back to this state.
    pub fn mark(&self) -> usize {
        self.trail.len()
    }

    pub fn undo(&mut self, mark: usize) {
        while self.trail.len() > mark {
            let Some((block, before)) = self.trail.pop() else { return };
            if before == PLACED {
                self.is_placed[block as usize] = false;
                self.count(block, true);
            } else {
                self.least[block as usize] = before;
            }
        }
    }

    /// Puts a block down at its least offset. The sections in which something changed are returned, and whether the
    /// blocks that are left fall apart into parts that share no section.
    pub fn place(&mut self, block: u32) -> (Range<usize>, bool) {
        let problem = self.problem;
        let top = self.least[block as usize] + problem.sizes[block as usize];
        self.trail.push((block, PLACED));
        self.is_placed[block as usize] = true;
        let mut changed = problem.range(block);
        let is_split = self.count(block, false);
        let neighbors = problem.neighbors(block);
        self.steps += neighbors.len() as u64;
        for other in neighbors {
            if !self.is_placed[*other as usize] {
                self.raise(*other, top, &mut changed);
            }
        }
        (changed, is_split)
    }

    /// A block cannot lie below an offset; the sections in which it is alive are added to `changed`.
    pub fn raise(&mut self, block: u32, offset: u32, changed: &mut Range<usize>) {
        let least = &mut self.least[block as usize];
        if *least < offset {
            self.trail.push((block, *least));
            *least = offset;
            let range = self.problem.range(block);
            *changed = changed.start.min(range.start)..changed.end.max(range.end);
        }
    }

    /// Adds a block to the sums or takes it away; whether some sections are no longer crossed then.
    fn count(&mut self, block: u32, is_added: bool) -> bool {
        let (range, size) = (self.problem.range(block), self.problem.sizes[block as usize]);
        self.steps += range.len() as u64;
        let crossings = &mut self.crossings[range.start..range.end - 1];
        if is_added {
            self.totals[range].iter_mut().for_each(|total| *total += size);
            crossings.iter_mut().for_each(|count| *count += 1);
            return false;
        }
        self.totals[range].iter_mut().for_each(|total| *total -= size);
        crossings.iter_mut().fold(false, |is_split, count| {
            *count -= 1;
            is_split | (*count == 0)
        })
    }

    /// Whether the blocks of a part can still end below the limit, as far as one section after the other shows:
    /// in each, blocks are stacked by rising least offset, which no packing can do lower.
    pub fn may_fit(&mut self, part: &[u32], changed: Range<usize>) -> bool {
        let problem = self.problem;
        let left = || part.iter().copied().filter(|block| !self.is_placed[*block as usize]);
        let highest = left().map(|block| self.least[block as usize]).max().unwrap_or(0);
        self.steps += part.len() as u64;
        let is_tight = |section: &usize| highest + self.totals[*section] > self.limit;
        let Some(first) = changed.clone().find(is_tight) else { return true };
        let last = changed.rev().find(is_tight).unwrap_or(first);
        self.sorted.clear();
        self.sorted.extend(
            part.iter()
                .filter(|block| !self.is_placed[**block as usize])
                .filter(|block| {
                    problem.begins[**block as usize] as usize <= last
                        && first < problem.ends[**block as usize] as usize
                })
                .map(|block| (self.least[*block as usize], *block)),
        );
        self.sorted.sort_unstable();
        self.heights[first..=last].fill(0);
        for (least, block) in &self.sorted {
            let (range, size) = (problem.range(*block), problem.sizes[*block as usize]);
            let cells = &mut self.heights[range.start.max(first)..range.end.min(last + 1)];
            self.steps += cells.len() as u64 / 4 + 1;
            cells.iter_mut().for_each(|height| *height = (*height).max(*least) + size);
        }
        self.heights[first..=last].iter().all(|height| *height <= self.limit)
    }
}
