//! The blocks of a [`Tlsf`] and the lists of its holes.

use super::{Block, EDGE, LIVE, NONE, SPLIT, Tlsf, UNUSED, class, class_above};

impl Tlsf {
    /// Where an aligned block begins in a hole, if it fits there; with the hole.
    #[inline]
    pub(super) fn fit_in_hole(&self, id: u32, need: u64, align: u64) -> Option<(u32, u64)> {
        let hole = &self.blocks[id as usize];
        let start = (hole.start + align - 1) & !(align - 1);
        (start + need <= hole.start + hole.size).then_some((id, start))
    }

    /// A hole for an aligned block, and where the block begins in it: the search that [`Tlsf`] describes.
    pub(super) fn fit(&self, need: u64, align: u64) -> Option<(u32, u64)> {
        let fit_in_hole = |id: u32| self.fit_in_hole(id, need, align);
        let class_of_need = class(need);
        let newest = self.heads[class_of_need];
        if newest != NONE
            && let Some(found) = fit_in_hole(newest)
        {
            return Some(found);
        }
        if let Some(found) =
            self.class_with_holes(class_above(need)).and_then(|c| fit_in_hole(self.heads[c]))
        {
            return Some(found);
        }
        if align > 1
            && let Some(class) = self.class_with_holes(class_above(need + align - 1))
        {
            return fit_in_hole(self.heads[class]);
        }
        let classes = std::iter::successors(self.class_with_holes(class_of_need), |c| {
            self.class_with_holes(c + 1)
        });
        classes
            .take_while(|&c| c <= class(need + align - 1))
            .flat_map(|c| self.holes_in(c))
            .find_map(fit_in_hole)
    }

    /// The smallest class from `class` on that has a hole.
    #[inline]
    pub(super) fn class_with_holes(&self, class: usize) -> Option<usize> {
        let (first, second) = (class >> SPLIT, class & 31);
        let second_levels = self.second_levels[first] & (!0 << second);
        if second_levels != 0 {
            return Some((first << SPLIT) + second_levels.trailing_zeros() as usize);
        }
        let first_levels = self.first_levels & (!1 << first);
        if first_levels == 0 {
            return None;
        }
        let first = first_levels.trailing_zeros() as usize;
        Some((first << SPLIT) + self.second_levels[first].trailing_zeros() as usize)
    }

    /// The holes of a class, the newest first.
    pub(super) fn holes_in(&self, class: usize) -> impl Iterator<Item = u32> {
        let some = |id: u32| (id != NONE).then_some(id);
        std::iter::successors(some(self.heads[class]), move |&id| {
            some(self.blocks[id as usize].next)
        })
    }

    /// The size of a hole, `None` for anything else: `prev` is also the kind of a block.
    #[inline]
    pub(super) fn hole_size(&self, id: u32) -> Option<u64> {
        let block = &self.blocks[id as usize];
        (block.prev < UNUSED || block.prev == NONE).then_some(block.size)
    }

    /// Raises the `freed_seq` of a hole, its `note`, to this one.
    #[inline]
    pub(super) fn raise(&mut self, id: u32, freed_seq: u64) {
        let note = &mut self.blocks[id as usize].note;
        *note = freed_seq.max(*note);
    }

    /// Makes a block a hole: adds it to the list of its class.
    #[inline]
    pub(super) fn link(&mut self, id: u32) {
        let class = class(self.blocks[id as usize].size);
        let next = std::mem::replace(&mut self.heads[class], id);
        let block = &mut self.blocks[id as usize];
        (block.prev, block.next) = (NONE, next);
        if next != NONE {
            self.blocks[next as usize].prev = id;
        } else {
            self.second_levels[class >> SPLIT] |= 1 << (class & 31);
            self.first_levels |= 1 << (class >> SPLIT);
        }
    }

    /// Removes a hole from the list of its class.
    #[inline]
    pub(super) fn unlink(&mut self, id: u32) {
        let Block { size, prev, next, .. } = self.blocks[id as usize];
        if next != NONE {
            self.blocks[next as usize].prev = prev;
        }
        if prev != NONE {
            self.blocks[prev as usize].next = next;
            return;
        }
        let class = class(size);
        self.heads[class] = next;
        if next == NONE {
            let second_levels = &mut self.second_levels[class >> SPLIT];
            *second_levels &= !(1 << (class & 31));
            if *second_levels == 0 {
                self.first_levels &= !(1 << (class >> SPLIT));
            }
        }
    }

    /// Makes `need` granules from `start` in `hole` a live block; what is left on both sides stays holes.
    #[inline]
    pub(super) fn carve(&mut self, hole: u32, start: u64, need: u64) -> u32 {
        let Block { start: hole_start, size, left, right, note, .. } = self.blocks[hole as usize];
        let (padding, end) = (start - hole_start, start + need);
        let rest = hole_start + size - end;
        if padding == 0 && rest == 0 {
            self.unlink(hole);
            let block = &mut self.blocks[hole as usize];
            (block.prev, block.note) = (LIVE, 0);
            return hole;
        }
        if padding == 0 {
            self.resize(hole, end, rest);
            return self.add_between(left, hole, start, need);
        }
        self.resize(hole, hole_start, padding);
        let id = self.add_between(hole, right, start, need);
        if rest > 0 {
            let rest = self.add_between(id, right, end, rest);
            self.blocks[rest as usize].note = note;
            self.link(rest);
        }
        id
    }

    /// Moves the ends of a hole; it changes lists only if it changes class.
    #[inline]
    pub(super) fn resize(&mut self, id: u32, start: u64, size: u64) {
        let changes_class = class(self.blocks[id as usize].size) != class(size);
        if changes_class {
            self.unlink(id);
        }
        let block = &mut self.blocks[id as usize];
        (block.start, block.size) = (start, size);
        if changes_class {
            self.link(id);
        }
    }

    /// A new live block between two neighbours.
    #[inline]
    pub(super) fn add_between(&mut self, left: u32, right: u32, start: u64, size: u64) -> u32 {
        let id =
            self.new_block(Block { start, size, left, right, prev: LIVE, next: NONE, note: 0 });
        self.join(left, id);
        self.join(id, right);
        id
    }

    /// A new edge without neighbours.
    pub(super) fn new_edge(&mut self, at: u64) -> u32 {
        let (left, right) = (NONE, NONE);
        self.new_block(Block { start: at, size: 0, left, right, prev: EDGE, next: NONE, note: 0 })
    }

    /// Stores a block, in an unused entry if there is one.
    #[inline]
    pub(super) fn new_block(&mut self, block: Block) -> u32 {
        let id = self.unused;
        if id != NONE {
            self.unused = std::mem::replace(&mut self.blocks[id as usize], block).next;
            return id;
        }
        self.blocks.push(block);
        (self.blocks.len() - 1) as u32
    }

    /// Removes a block, so that its neighbours are neighbours of each other.
    #[inline]
    pub(super) fn drop_between(&mut self, left: u32, id: u32, right: u32) {
        self.join(left, right);
        self.drop_block(id);
    }

    /// Marks the entry of a block as unused.
    #[inline]
    pub(super) fn drop_block(&mut self, id: u32) {
        let block = &mut self.blocks[id as usize];
        block.prev = UNUSED;
        block.next = std::mem::replace(&mut self.unused, id);
    }

    /// Makes two blocks neighbours.
    #[inline]
    pub(super) fn join(&mut self, left: u32, right: u32) {
        self.blocks[left as usize].right = right;
        self.blocks[right as usize].left = left;
    }
}
