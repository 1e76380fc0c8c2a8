//! Two-level segregated fit, on offsets only.

mod blocks;

use std::collections::BTreeMap;
use std::ops::Range;

/// The unit of every offset and size that a [`Tlsf`] hands out, in bytes.
pub const GRANULE: u64 = 512;

/// Each first-level class (a power of two) has `1 << SPLIT` second-level ones.
const SPLIT: u32 = 5;
const FIRST_LEVELS: usize = 56;
const CLASSES: usize = FIRST_LEVELS << SPLIT;
/// The id of no block.
const NONE: u32 = u32::MAX;
// Values of `Block::prev` that are no id.
const LIVE: u32 = u32::MAX - 1;
const EDGE: u32 = u32::MAX - 2;
const UNUSED: u32 = u32::MAX - 3;

/// The number of a block; reused after the block is gone.
pub type BlockId = u32;

/// A block that somebody holds: `size` is the request rounded up to whole granules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The id that [`Tlsf::free`] takes.
    pub id: BlockId,
    /// Where it begins, in bytes; a multiple of the asked alignment.
    pub offset: u64,
    /// Bytes that belong to the block; a multiple of [`GRANULE`], never zero.
    pub size: u64,
}

/// An allocator of offsets in a set of ranges, which may be added and removed.
///
/// It touches no memory but its own tables. Not synchronised: the caller locks.
///
/// ```text
/// ranges   |: live  | hole | live :|      |: live |    hole     | live :|
/// blocks   #7 #0 <--> #4 <--> #2 #8      #9 #1 <-----> #5 <-----> #3 #6    neighbours by address
/// classes  ...[ 96 KiB.. ]-->#4    ...[ 1 MiB.. ]-->#5                     holes by size, newest first
/// ```
///
/// **Classes.** One class for each size up to 32 KiB (64 granules); above, 32 classes for each
/// power of two, so that the sizes in one class differ by at most 3 %.
///
/// **Fit.** `alloc` returns `None` only when *no* hole can hold the aligned request. It looks at
/// the newest hole of the request's own class (so a block freed is found again by the same size),
/// then takes any hole of the next class up, then any that is large enough to be aligned within.
/// These steps take constant time. Only if all fail, hence before growth or exhaustion, it walks
/// the holes whose classes lie between the request's and that of request plus alignment.
///
/// **Holes** are merged at once: two holes never touch, also where two ranges meet. Padding in front
/// of an aligned block and the rest after it remain holes. A hole carries a `freed_seq`, which a
/// pool uses for the last task that was submitted before the free: the largest of what was merged into it. A live block
/// carries a number of its user's, its `note`.
///
/// **Cost.** 40 bytes for each block or hole, 80 more for each range.
pub struct Tlsf {
    blocks: Vec<Block>,
    /// The first unused entry of `blocks`; its `next` is the second.
    unused: u32,
    /// The newest hole of each class.
    heads: Box<[u32]>,
    /// Which second-level classes have holes, a bit each.
    second_levels: [u32; FIRST_LEVELS],
    /// Which entries of `second_levels` are not 0.
    first_levels: u64,
    /// By their starts, in granules.
    ranges: BTreeMap<u64, Edges>,
    end: u64,
    total: u64,
    live: u64,
    live_blocks: usize,
}

/// Start and size in granules; neighbours by address; neighbours in the list of the class; the `freed_seq`
/// of a hole, or the `note` of a live block. `prev` is also the kind: `LIVE`, `EDGE` (of a range, of
/// size 0), `UNUSED` (an entry without a block), or else a hole. No block has the id `NONE`.
#[derive(Clone, Copy)]
struct Block {
    start: u64,
    size: u64,
    left: u32,
    right: u32,
    prev: u32,
    next: u32,
    note: u64,
}

/// One range: where it ends, in granules, and the blocks that mark its ends.
#[derive(Clone, Copy)]
struct Edges {
    end: u64,
    left: u32,
    right: u32,
}

impl Default for Tlsf {
    fn default() -> Self {
        Self::new()
    }
}

impl Tlsf {
    /// An allocator without any range.
    pub fn new() -> Self {
        Self {
            blocks: Vec::new(),
            unused: NONE,
            heads: vec![NONE; CLASSES].into(),
            second_levels: [0; FIRST_LEVELS],
            first_levels: 0,
            ranges: BTreeMap::new(),
            end: 0,
            total: 0,
            live: 0,
            live_blocks: 0,
        }
    }

    /// Adds a new range of whole granules, as a hole with this `freed_seq`.
    ///
    /// # Panics
    /// If the range is not of whole granules, or overlaps one that is there.
    pub fn add(&mut self, range: Range<u64>, freed_seq: u64) {
        if let Some(grant) = self.add_live(range) {
            self.free(grant.id, freed_seq);
        }
    }

    /// Adds a new range as a live block; `None` for an empty range.
    ///
    /// # Panics
    /// As [`Tlsf::add`].
    pub fn add_live(&mut self, range: Range<u64>) -> Option<Grant> {
        assert!(
            range.start.is_multiple_of(GRANULE) && range.end.is_multiple_of(GRANULE),
            "{range:?} is not of whole granules"
        );
        let (start, end) = (range.start / GRANULE, range.end / GRANULE);
        if start >= end {
            return None;
        }
        let before = self.ranges.range(..end).next_back().map(|(&at, &edges)| (at, edges));
        assert!(before.is_none_or(|(_, e)| e.end <= start), "{range:?} overlaps a range");
        let before = before.filter(|(_, edges)| edges.end == start);
        let after = self.ranges.remove(&end);

        let (first, left_edge, left) = match before {
            Some((at, edges)) => {
                let last = self.blocks[edges.right as usize].left;
                self.drop_block(edges.right);
                (at, edges.left, last)
            }
            None => {
                let edge = self.new_edge(start);
                (start, edge, edge)
            }
        };
        let (end, right_edge, right) = match after {
            Some(edges) => {
                let first = self.blocks[edges.left as usize].right;
                self.drop_block(edges.left);
                (edges.end, edges.right, first)
            }
            None => {
                let edge = self.new_edge(end);
                (end, edge, edge)
            }
        };
        self.ranges.insert(first, Edges { end, left: left_edge, right: right_edge });
        self.end = self.end.max(end);
        let size = (range.end - range.start) / GRANULE;
        let id = self.add_between(left, right, start, size);
        self.total += size;
        self.live += size;
        self.live_blocks += 1;
        self.get(id)
    }

    /// Extends the highest range by `bytes`, rounded down to whole granules.
    pub fn grow(&mut self, bytes: u64) {
        let start = self.end * GRANULE;
        let bytes = bytes / GRANULE * GRANULE;
        let end = start.checked_add(bytes).expect("a range fits in 64 bits");
        self.add(start..end, 0);
    }

    /// Takes `size` bytes (rounded up to whole granules, at least one) at a multiple of `align`, a
    /// power of two; less than a granule means a granule. `None` if no hole can hold that.
    pub fn alloc(&mut self, size: u64, align: u64) -> Option<Grant> {
        self.alloc_with(size, align, 0, |_, _| ())
    }

    /// The same; the block carries `note`, and `on_id` gets its id and offset as soon as they are known.
    #[inline]
    pub fn alloc_with(
        &mut self,
        size: u64,
        align: u64,
        note: u64,
        on_id: impl FnOnce(BlockId, u64),
    ) -> Option<Grant> {
        let (need, align) = granules(size, align)?;
        let (hole, start) = self.fit(need, align)?;
        let is_exact = self.blocks[hole as usize].size == need;
        on_id(if is_exact { hole } else { self.next_id() }, start * GRANULE);
        let grant = self.grant(hole, start, need);
        self.blocks[grant.id as usize].note = note;
        Some(grant)
    }

    /// The id of the next new block.
    fn next_id(&self) -> BlockId {
        if self.unused == NONE { self.blocks.len() as u32 } else { self.unused }
    }

    /// Like [`Tlsf::alloc`], from a hole whose `freed_seq` `fits`; returns that `freed_seq` too. It walks all holes that
    /// are large enough before it returns `None`.
    pub fn alloc_where(
        &mut self,
        size: u64,
        align: u64,
        mut fits: impl FnMut(u64) -> bool,
    ) -> Option<(Grant, u64)> {
        let (need, align) = granules(size, align)?;
        let classes = std::iter::successors(self.class_with_holes(class(need)), |c| {
            self.class_with_holes(c + 1)
        });
        let (hole, start) = classes
            .flat_map(|c| self.holes_in(c))
            .filter(|&id| fits(self.blocks[id as usize].note))
            .find_map(|id| self.fit_in_hole(id, need, align))?;
        let freed_seq = self.blocks[hole as usize].note;
        Some((self.grant(hole, start, need), freed_seq))
    }

    /// Cuts a live block in two; the first keeps the id and has `size` bytes, rounded up to whole
    /// granules. `None`, and nothing is cut, if there is no such block or nothing would be left.
    pub fn split(&mut self, id: BlockId, size: u64) -> Option<Grant> {
        let (need, _) = granules(size, 1)?;
        let &Block { start, size, right, prev, note, .. } = self.blocks.get(id as usize)?;
        if prev != LIVE || need >= size {
            return None;
        }
        self.blocks[id as usize].size = need;
        let rest = self.add_between(id, right, start + need, size - need);
        self.blocks[rest as usize].note = note;
        self.live_blocks += 1;
        self.get(rest)
    }

    /// Makes a part of a hole a live block.
    #[inline]
    fn grant(&mut self, hole: u32, start: u64, need: u64) -> Grant {
        let id = self.carve(hole, start, need);
        self.live += need;
        self.live_blocks += 1;
        Grant { id, offset: start * GRANULE, size: need * GRANULE }
    }

    /// Gives a block back, as a hole with this `freed_seq`, and returns its size; `None` if there is no such
    /// live block.
    pub fn free(&mut self, id: BlockId, freed_seq: u64) -> Option<u64> {
        self.free_block(id, freed_seq).map(|grant| grant.size)
    }

    /// The same; it returns what the block was.
    #[inline(always)]
    pub fn free_block(&mut self, id: BlockId, freed_seq: u64) -> Option<Grant> {
        let &Block { start, size, left, right, prev, .. } = self.blocks.get(id as usize)?;
        if prev != LIVE {
            return None;
        }
        self.live -= size;
        self.live_blocks -= 1;
        match (self.hole_size(left), self.hole_size(right)) {
            (None, None) => {
                self.blocks[id as usize].note = freed_seq;
                self.link(id);
            }
            (Some(before), None) => {
                self.drop_between(left, id, right);
                self.resize(left, start - before, before + size);
                self.raise(left, freed_seq);
            }
            (None, Some(after)) => {
                self.drop_between(left, id, right);
                self.resize(right, start, size + after);
                self.raise(right, freed_seq);
            }
            (Some(before), Some(after)) => {
                let Block { right: beyond, note, .. } = self.blocks[right as usize];
                self.unlink(right);
                self.drop_between(left, id, right);
                self.drop_between(left, right, beyond);
                self.resize(left, start - before, before + size + after);
                self.raise(left, freed_seq.max(note));
            }
        }
        Some(Grant { id, offset: start * GRANULE, size: size * GRANULE })
    }

    /// Takes a live block out of the ranges: its bytes no longer belong to this allocator.
    /// Returns them; `None` if there is no such live block.
    pub fn take_out(&mut self, id: BlockId) -> Option<Range<u64>> {
        let &Block { start, size, left, right, prev, .. } = self.blocks.get(id as usize)?;
        if prev != LIVE {
            return None;
        }
        let (&first, &edges) =
            self.ranges.range(..=start).next_back().expect("every block is in a range");
        self.ranges.remove(&first);
        self.drop_block(id);
        self.live -= size;
        self.live_blocks -= 1;
        self.total -= size;
        if left == edges.left {
            self.drop_block(left);
        } else {
            let edge = self.new_edge(start);
            self.join(left, edge);
            self.ranges.insert(first, Edges { end: start, left: edges.left, right: edge });
        }
        let end = start + size;
        if right == edges.right {
            self.drop_block(right);
        } else {
            let edge = self.new_edge(end);
            self.join(edge, right);
            self.ranges.insert(end, Edges { end: edges.end, left: edge, right: edges.right });
        }
        Some(start * GRANULE..end * GRANULE)
    }

    /// Takes every hole whose `freed_seq` `fits` out of the ranges, as [`Tlsf::take_out`] does a block.
    pub fn take_out_holes(&mut self, fits: impl Fn(u64) -> bool) -> Vec<Range<u64>> {
        let holes: Vec<u32> =
            std::iter::successors(self.class_with_holes(0), |c| self.class_with_holes(c + 1))
                .flat_map(|c| self.holes_in(c))
                .filter(|&id| fits(self.blocks[id as usize].note))
                .collect();
        let mut ranges = Vec::with_capacity(holes.len());
        for hole in holes {
            let Block { start, size, .. } = self.blocks[hole as usize];
            let grant = self.grant(hole, start, size);
            ranges.extend(self.take_out(grant.id));
        }
        ranges
    }

    /// Takes a range out of the ranges, if it lies inside the hole with this id. True if it does.
    pub fn take_out_of(&mut self, hole: BlockId, range: &Range<u64>) -> bool {
        let (start, end) = (range.start / GRANULE, range.end / GRANULE);
        let block = self.blocks.get(hole as usize).filter(|_| self.hole_size(hole).is_some());
        let inside = block.is_some_and(|b| b.start <= start && end <= b.start + b.size);
        if inside {
            let grant = self.grant(hole, start, end - start);
            self.take_out(grant.id);
        }
        inside
    }

    /// Takes a range that lies inside one hole out of the ranges.
    ///
    /// # Panics
    /// If it does not lie inside one hole.
    pub fn take_out_range(&mut self, range: Range<u64>) {
        let (start, end) = (range.start / GRANULE, range.end / GRANULE);
        let left_edge = self.ranges.range(..=start).next_back().map(|(_, edges)| edges.left);
        let mut id = left_edge.unwrap_or_else(|| panic!("{range:?} is in no range"));
        while self.blocks[id as usize].start + self.blocks[id as usize].size <= start {
            id = self.blocks[id as usize].right;
        }
        let block = &self.blocks[id as usize];
        assert!(
            self.hole_size(id).is_some() && block.start <= start && end <= block.start + block.size,
            "{range:?} is not inside a hole"
        );
        let grant = self.grant(id, start, end - start);
        self.take_out(grant.id);
    }

    /// Bytes of the hole that ends at `end`, where a range ends; 0 if there is none.
    pub fn hole_at_end(&self, end: u64) -> u64 {
        let before = self.ranges.range(..end.div_ceil(GRANULE)).next_back();
        let edges = before.map(|(_, edges)| edges).filter(|edges| edges.end * GRANULE == end);
        let hole = edges.and_then(|e| self.hole_size(self.blocks[e.right as usize].left));
        hole.unwrap_or(0) * GRANULE
    }

    /// How many bytes to [`grow`](Self::grow) so that `alloc` of the same arguments succeeds: 0 if
    /// it does now, `u64::MAX` if no growth helps. A hole at the end is taken into account.
    pub fn needed_growth(&self, size: u64, align: u64) -> u64 {
        let Some((need, align)) = granules(size, align) else {
            return u64::MAX;
        };
        if self.fit(need, align).is_some() {
            return 0;
        }
        let from = self.end - self.hole_at_end(self.end()) / GRANULE;
        let end = from.next_multiple_of(align) + need;
        if end > u64::MAX / GRANULE { u64::MAX } else { (end - self.end) * GRANULE }
    }

    /// Where the highest range ever added ends, in bytes.
    pub fn end(&self) -> u64 {
        self.end * GRANULE
    }

    /// Bytes in all ranges.
    pub fn total(&self) -> u64 {
        self.total * GRANULE
    }

    /// Bytes in live blocks, in whole granules.
    pub fn live_bytes(&self) -> u64 {
        self.live * GRANULE
    }

    /// Number of live blocks.
    pub fn live_blocks(&self) -> usize {
        self.live_blocks
    }

    /// Bytes of the largest hole, exactly. Walks the holes of the largest class that has any.
    pub fn largest_hole(&self) -> u64 {
        let Some(first) = self.first_levels.checked_ilog2() else {
            return 0;
        };
        let class = (first << SPLIT) + self.second_levels[first as usize].ilog2();
        self.holes_in(class as usize).map(|id| self.blocks[id as usize].size).max().unwrap_or(0)
            * GRANULE
    }

    /// The holes as (offset, size, `freed_seq`), by address. Walks all blocks.
    pub fn holes(&self) -> impl Iterator<Item = (u64, u64, u64)> {
        self.blocks_by_address()
            .map(|id| &self.blocks[id as usize])
            .filter(|b| b.prev != LIVE)
            .map(|b| (b.start * GRANULE, b.size * GRANULE, b.note))
    }

    /// The holes as (size, `freed_seq`), in no order. Walks the holes only.
    pub fn holes_unordered(&self) -> impl Iterator<Item = (u64, u64)> {
        std::iter::successors(self.class_with_holes(0), |c| self.class_with_holes(c + 1))
            .flat_map(|c| self.holes_in(c))
            .map(|id| &self.blocks[id as usize])
            .map(|b| (b.size * GRANULE, b.note))
    }

    /// The holes whose `freed_seq` `fits`, in no order, with their ids.
    pub fn holes_where(
        &self,
        fits: impl Fn(u64) -> bool,
    ) -> impl Iterator<Item = (BlockId, Range<u64>)> {
        std::iter::successors(self.class_with_holes(0), |c| self.class_with_holes(c + 1))
            .flat_map(|c| self.holes_in(c))
            .map(|id| (id, &self.blocks[id as usize]))
            .filter(move |(_, b)| fits(b.note))
            .map(|(id, b)| (id, b.start * GRANULE..(b.start + b.size) * GRANULE))
    }

    /// The live blocks, by address. Walks all blocks.
    pub fn live(&self) -> impl Iterator<Item = Grant> {
        self.blocks_by_address().filter_map(|id| self.get(id))
    }

    /// The `freed_seq` of the hole with this id.
    pub fn freed_seq(&self, id: BlockId) -> Option<u64> {
        let block = self.blocks.get(id as usize)?;
        self.hole_size(id).map(|_| block.note)
    }

    /// The live block with this id.
    #[inline]
    pub fn get(&self, id: BlockId) -> Option<Grant> {
        let block = self.blocks.get(id as usize).filter(|b| b.prev == LIVE)?;
        Some(Grant { id, offset: block.start * GRANULE, size: block.size * GRANULE })
    }

    /// The live block with this id, and the number that it carries for its user; 0 at first.
    #[inline]
    pub fn get_mut(&mut self, id: BlockId) -> Option<(Grant, &mut u64)> {
        let block = self.blocks.get_mut(id as usize).filter(|b| b.prev == LIVE)?;
        let grant = Grant { id, offset: block.start * GRANULE, size: block.size * GRANULE };
        Some((grant, &mut block.note))
    }

    /// The ids of blocks and holes, by address.
    fn blocks_by_address(&self) -> impl Iterator<Item = u32> {
        self.ranges.values().flat_map(|edges| {
            let first = self.blocks[edges.left as usize].right;
            std::iter::successors(Some(first), |&id| Some(self.blocks[id as usize].right))
                .take_while(|&id| id != edges.right)
        })
    }
}

impl std::fmt::Debug for Tlsf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let holes: Vec<_> = self.holes().collect();
        f.debug_struct("Tlsf")
            .field("total", &self.total())
            .field("live", &self.live_bytes())
            .field("holes", &holes)
            .finish()
    }
}

/// The class that holds holes of `size` granules.
#[inline]
fn class(size: u64) -> usize {
    let shift = (size | 1 << SPLIT).ilog2() - SPLIT;
    ((shift as usize) << SPLIT) + (size >> shift) as usize
}

/// The first class of which every hole has at least `size` granules.
#[inline]
fn class_above(size: u64) -> usize {
    let shift = (size | 1 << SPLIT).ilog2() - SPLIT;
    class(size + (1 << shift) - 1)
}

/// Size and alignment in whole granules; `None` if the alignment is no power of two.
#[inline]
fn granules(size: u64, align: u64) -> Option<(u64, u64)> {
    align.is_power_of_two().then(|| (size.div_ceil(GRANULE).max(1), align.div_ceil(GRANULE)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MIB: u64 = 1 << 20;

    proptest! {
        #[test]
        fn classes_bound_their_sizes(size in 1u64..1 << 56) {
            prop_assert!(class(size) <= class(size + 1));
            let above = class_above(size);
            prop_assert!(above == class(size) || above == class(size) + 1);
            prop_assert!(class(size - 1) < above);
        }
    }

    #[test]
    fn absurd_requests_are_refused() {
        let mut tlsf = Tlsf::new();
        assert_eq!(tlsf.alloc(1, GRANULE), None);
        tlsf.grow(MIB);
        for size in [u64::MAX, u64::MAX - 1, u64::MAX - GRANULE, 1 << 63, MIB + 1] {
            for align in [GRANULE, 1 << 30, 1 << 63] {
                assert_eq!(tlsf.alloc(size, align), None);
                assert!(tlsf.needed_growth(size, align) > 0);
            }
        }
        assert_eq!(tlsf.needed_growth(u64::MAX, 1 << 63), u64::MAX);
        assert_eq!(tlsf.alloc(GRANULE, 3 * GRANULE), None);
        assert_eq!((tlsf.free(u32::MAX, 0), tlsf.free(1 << 20, 0)), (None, None));
        let smallest = tlsf.alloc(0, 1).unwrap();
        assert_eq!((smallest.offset, smallest.size), (0, GRANULE));
        assert_eq!(tlsf.alloc(MIB - GRANULE, 1).unwrap().offset, GRANULE);
    }

    #[test]
    fn a_hole_of_exactly_the_right_size_is_found_after_smaller_ones() {
        let mut tlsf = Tlsf::new();
        let sizes: Vec<u64> = (0..16).map(|i| MIB + (15 - i) * GRANULE).collect();
        tlsf.grow(sizes.iter().map(|s| s + GRANULE).sum());
        let blocks: Vec<Grant> = sizes
            .iter()
            .map(|&size| {
                let block = tlsf.alloc(size, GRANULE).unwrap();
                tlsf.alloc(GRANULE, GRANULE).unwrap();
                block
            })
            .collect();
        blocks.iter().for_each(|block| assert!(tlsf.free(block.id, 0).is_some()));
        assert_eq!(tlsf.alloc(sizes[0], GRANULE).unwrap().offset, blocks[0].offset);
        assert_eq!(tlsf.alloc(sizes[0], GRANULE), None);
    }

    #[test]
    fn a_large_alignment_leaves_its_padding_free() {
        let mut tlsf = Tlsf::new();
        tlsf.grow(3 << 30);
        tlsf.alloc(GRANULE, GRANULE).unwrap();
        assert_eq!(tlsf.alloc(1 << 30, 1 << 30).unwrap().offset, 1 << 30);
        assert!(tlsf.holes().eq([(GRANULE, (1 << 30) - GRANULE, 0), (2 << 30, 1 << 30, 0)]));
    }
}
