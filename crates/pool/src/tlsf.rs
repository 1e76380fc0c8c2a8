//! Two-level segregated fit, on offsets only.

/// The unit of every offset and size that a [`Tlsf`] hands out, in bytes.
pub const GRANULE: u64 = 512;

const SPLIT: u32 = 5;
const FIRST: usize = 56;
const CLASSES: usize = FIRST << SPLIT;
const PEEK: usize = 4;
const CHUNK: u32 = 16;
const NONE: u32 = u32::MAX;
const LIVE: u32 = u32::MAX - 1;

/// What [`Tlsf::alloc`] hands out: `size` is the request rounded up to whole granules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Bytes from the start of the managed range; a multiple of the asked alignment.
    pub offset: u64,
    /// Bytes that belong to the block; a multiple of [`GRANULE`], never zero.
    pub size: u64,
}

/// An allocator of offsets in a range `0..len`, which grows at its end and never shrinks.
///
/// It touches no memory but its own tables. Not synchronised: the caller locks.
///
/// ```text
/// range    | live  | hole | live |     hole     | live |   hole (tail)   |--> grow
/// blocks     #0 <--> #4 <--> #2 <-----> #5 <-----> #1 <-----> #3             neighbours by address
/// classes  ...[ 96 KiB.. ]-->#4    ...[ 1 MiB.. ]-->#3-->#5                  holes by size, newest first
/// index    granule of a live start --> #0, #2, #1                            for free(offset)
/// ```
///
/// **Classes.** One class for each size up to 32 KiB (64 granules); above, 32 classes for each
/// power of two, so that the sizes in one class differ by at most 3 %.
///
/// **Fit.** `alloc` returns `None` only when *no* hole can hold the aligned request. It looks at
/// the newest holes of the request's own class (so a block freed is found again by the same size),
/// then takes any hole of the next class up, then any that is large enough to be aligned within.
/// These steps take constant time. Only if all fail, hence before growth or exhaustion, it walks
/// the holes whose classes lie between the request's and that of request plus alignment.
///
/// **Holes** are merged at once: two holes never touch. Padding in front of an aligned block and
/// the rest behind it remain holes.
///
/// **Cost.** 32 bytes for each block or hole; 24 for each 32 MiB of the range; and 4 for each granule
/// of those 32 MiB in which a block ever started, of which untouched pages stay unbacked.
pub struct Tlsf {
    blocks: Vec<Block>,
    spare: u32,
    first: u32,
    last: u32,
    heads: Box<[u32]>,
    seconds: [u32; FIRST],
    firsts: u64,
    index: Vec<Vec<u32>>,
    total: u64,
    live: u64,
    live_blocks: usize,
}

/// Start and size in granules; neighbours by address; neighbours in the list of the class.
/// `prev == LIVE` marks a block that is not a hole. No block has the id `NONE`.
#[derive(Clone, Copy)]
struct Block {
    start: u64,
    size: u64,
    left: u32,
    right: u32,
    prev: u32,
    next: u32,
}

impl Default for Tlsf {
    fn default() -> Self {
        Self::new()
    }
}

impl Tlsf {
    /// An allocator of the empty range.
    pub fn new() -> Self {
        Self {
            blocks: Vec::new(),
            spare: NONE,
            first: NONE,
            last: NONE,
            heads: vec![NONE; CLASSES].into(),
            seconds: [0; FIRST],
            firsts: 0,
            index: Vec::new(),
            total: 0,
            live: 0,
            live_blocks: 0,
        }
    }

    /// Extends the range by `bytes`, rounded down to whole granules; a hole at the end gets larger.
    ///
    /// # Panics
    /// If the range would not fit in 64 bits.
    pub fn grow(&mut self, bytes: u64) {
        let more = bytes / GRANULE;
        if more == 0 {
            return;
        }
        let start = self.total;
        assert!(
            start + more <= u64::MAX / GRANULE,
            "range of {start} granules cannot grow by {more}"
        );
        self.total += more;
        self.index.resize(self.total.div_ceil(1 << CHUNK) as usize, Vec::new());

        let tail = self.last;
        match self.hole_size(tail) {
            Some(size) => self.resize(tail, start - size, size + more),
            None => {
                let id = self.add_between(tail, NONE, start, more);
                self.link(id);
            }
        }
    }

    /// Takes `size` bytes (rounded up to whole granules, at least one) at a multiple of `align`, a
    /// power of two; less than a granule means a granule. `None` if no hole can hold that.
    pub fn alloc(&mut self, size: u64, align: u64) -> Option<Grant> {
        let (need, align) = granules(size, align)?;
        let (hole, start) = self.fit(need, align)?;
        let id = self.carve(hole, start, need);
        self.set_index(start, id);
        self.live += need;
        self.live_blocks += 1;
        Some(Grant { offset: start * GRANULE, size: need * GRANULE })
    }

    /// Gives a block back and returns its size; `None` if no live block starts at `offset`.
    pub fn free(&mut self, offset: u64) -> Option<u64> {
        let id = self.lookup(offset)?;
        let Block { start, size, left, right, .. } = self.blocks[id as usize];
        self.index[(start >> CHUNK) as usize][start as usize & ((1 << CHUNK) - 1)] = 0;
        self.live -= size;
        self.live_blocks -= 1;
        match (self.hole_size(left), self.hole_size(right)) {
            (None, None) => self.link(id),
            (Some(before), None) => {
                self.drop_between(left, id, right);
                self.resize(left, start - before, before + size);
            }
            (None, Some(after)) => {
                self.drop_between(left, id, right);
                self.resize(right, start, size + after);
            }
            (Some(before), Some(after)) => {
                let beyond = self.blocks[right as usize].right;
                self.unlink(right);
                self.drop_between(left, id, right);
                self.drop_between(left, right, beyond);
                self.resize(left, start - before, before + size + after);
            }
        }
        Some(size * GRANULE)
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
        let from = self.total - self.hole_size(self.last).unwrap_or(0);
        let end = from.next_multiple_of(align) + need;
        if end > u64::MAX / GRANULE { u64::MAX } else { (end - self.total) * GRANULE }
    }

    /// Bytes in the range.
    pub fn len(&self) -> u64 {
        self.total * GRANULE
    }

    /// Whether the range is empty, that is, has never grown.
    pub fn is_empty(&self) -> bool {
        self.total == 0
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
        let Some(first) = self.firsts.checked_ilog2() else {
            return 0;
        };
        let class = (first << SPLIT) + self.seconds[first as usize].ilog2();
        self.list(class as usize).map(|id| self.blocks[id as usize].size).max().unwrap_or(0)
            * GRANULE
    }

    /// The holes as (offset, size) in bytes, by address. Walks all blocks.
    pub fn holes(&self) -> impl Iterator<Item = (u64, u64)> {
        let block = |id: u32| self.blocks.get(id as usize);
        std::iter::successors(block(self.first), move |b| block(b.right))
            .filter(|b| b.prev != LIVE)
            .map(|b| (b.start * GRANULE, b.size * GRANULE))
    }

    /// The size of the live block that starts at `offset`, if one does.
    pub fn size_of(&self, offset: u64) -> Option<u64> {
        self.lookup(offset).map(|id| self.blocks[id as usize].size * GRANULE)
    }

    fn fit(&self, need: u64, align: u64) -> Option<(u32, u64)> {
        let within = |id: u32| {
            let hole = &self.blocks[id as usize];
            let start = (hole.start + align - 1) & !(align - 1);
            (start + need <= hole.start + hole.size).then_some((id, start))
        };
        let own = class(need);
        if let Some(found) = self.list(own).take(PEEK).find_map(within) {
            return Some(found);
        }
        if let Some(found) = self.holes_from(class_above(need)).and_then(|c| within(self.heads[c]))
        {
            return Some(found);
        }
        if align > 1
            && let Some(roomy) = self.holes_from(class_above(need + align - 1))
        {
            return within(self.heads[roomy]);
        }
        let classes = std::iter::successors(self.holes_from(own), |c| self.holes_from(c + 1));
        classes
            .take_while(|&c| c <= class(need + align - 1))
            .flat_map(|c| self.list(c))
            .find_map(within)
    }

    /// The smallest class from `class` on that has a hole.
    fn holes_from(&self, class: usize) -> Option<usize> {
        let (first, second) = (class >> SPLIT, class & 31);
        let seconds = self.seconds[first] & (!0 << second);
        if seconds != 0 {
            return Some((first << SPLIT) + seconds.trailing_zeros() as usize);
        }
        let firsts = self.firsts & (!1 << first);
        if firsts == 0 {
            return None;
        }
        let first = firsts.trailing_zeros() as usize;
        Some((first << SPLIT) + self.seconds[first].trailing_zeros() as usize)
    }

    fn list(&self, class: usize) -> impl Iterator<Item = u32> {
        let some = |id: u32| (id != NONE).then_some(id);
        std::iter::successors(some(self.heads[class]), move |&id| {
            some(self.blocks[id as usize].next)
        })
    }

    fn hole_size(&self, id: u32) -> Option<u64> {
        self.blocks.get(id as usize).filter(|block| block.prev != LIVE).map(|block| block.size)
    }

    fn link(&mut self, id: u32) {
        let class = class(self.blocks[id as usize].size);
        let next = std::mem::replace(&mut self.heads[class], id);
        let block = &mut self.blocks[id as usize];
        (block.prev, block.next) = (NONE, next);
        if next != NONE {
            self.blocks[next as usize].prev = id;
        } else {
            self.seconds[class >> SPLIT] |= 1 << (class & 31);
            self.firsts |= 1 << (class >> SPLIT);
        }
    }

    fn unlink(&mut self, id: u32) {
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
            let seconds = &mut self.seconds[class >> SPLIT];
            *seconds &= !(1 << (class & 31));
            if *seconds == 0 {
                self.firsts &= !(1 << (class >> SPLIT));
            }
        }
    }

    /// Makes `need` granules from `start` in `hole` a block of their own, and what is left holes.
    fn carve(&mut self, hole: u32, start: u64, need: u64) -> u32 {
        let Block { start: from, size, left, right, .. } = self.blocks[hole as usize];
        let (front, end) = (start - from, start + need);
        let rest = from + size - end;
        if front == 0 && rest == 0 {
            self.unlink(hole);
            self.blocks[hole as usize].prev = LIVE;
            return hole;
        }
        if front == 0 {
            self.resize(hole, end, rest);
            return self.add_between(left, hole, start, need);
        }
        self.resize(hole, from, front);
        let id = self.add_between(hole, right, start, need);
        if rest > 0 {
            let rest = self.add_between(id, right, end, rest);
            self.link(rest);
        }
        id
    }

    /// Moves the ends of a hole; it changes lists only if it changes class.
    fn resize(&mut self, id: u32, start: u64, size: u64) {
        let moves = class(self.blocks[id as usize].size) != class(size);
        if moves {
            self.unlink(id);
        }
        let block = &mut self.blocks[id as usize];
        (block.start, block.size) = (start, size);
        if moves {
            self.link(id);
        }
    }

    /// A new block, not in any list, between two neighbours.
    fn add_between(&mut self, left: u32, right: u32, start: u64, size: u64) -> u32 {
        let block = Block { start, size, left, right, prev: LIVE, next: NONE };
        let id = self.spare;
        let id = if id != NONE {
            self.spare = std::mem::replace(&mut self.blocks[id as usize], block).next;
            id
        } else {
            self.blocks.push(block);
            (self.blocks.len() - 1) as u32
        };
        self.join(left, id);
        self.join(id, right);
        id
    }

    fn drop_between(&mut self, left: u32, id: u32, right: u32) {
        self.join(left, right);
        self.blocks[id as usize].next = std::mem::replace(&mut self.spare, id);
    }

    /// Makes two blocks neighbours; `NONE` stands for the end of the range.
    fn join(&mut self, left: u32, right: u32) {
        match self.blocks.get_mut(left as usize) {
            Some(block) => block.right = right,
            None => self.first = right,
        }
        match self.blocks.get_mut(right as usize) {
            Some(block) => block.left = left,
            None => self.last = left,
        }
    }

    fn set_index(&mut self, start: u64, id: u32) {
        let chunk = &mut self.index[(start >> CHUNK) as usize];
        if chunk.is_empty() {
            *chunk = vec![0; 1 << CHUNK];
        }
        chunk[start as usize & ((1 << CHUNK) - 1)] = id + 1;
    }

    fn lookup(&self, offset: u64) -> Option<u32> {
        if !offset.is_multiple_of(GRANULE) {
            return None;
        }
        let start = offset / GRANULE;
        let chunk = self.index.get((start >> CHUNK) as usize)?;
        chunk.get(start as usize & ((1 << CHUNK) - 1))?.checked_sub(1)
    }
}

impl std::fmt::Debug for Tlsf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let holes: Vec<_> = self.holes().collect();
        f.debug_struct("Tlsf")
            .field("len", &self.len())
            .field("live", &self.live_bytes())
            .field("holes", &holes)
            .finish()
    }
}

/// The class that holds holes of `size` granules.
fn class(size: u64) -> usize {
    let shift = (size | 1 << SPLIT).ilog2() - SPLIT;
    ((shift as usize) << SPLIT) + (size >> shift) as usize
}

/// The first class of which every hole has at least `size` granules.
fn class_above(size: u64) -> usize {
    let shift = (size | 1 << SPLIT).ilog2() - SPLIT;
    class(size + (1 << shift) - 1)
}

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
        assert_eq!((tlsf.free(u64::MAX - 511), tlsf.free(1 << 40)), (None, None));
        assert_eq!(tlsf.alloc(0, 1), Some(Grant { offset: 0, size: GRANULE }));
        assert_eq!(tlsf.alloc(MIB - GRANULE, 1).unwrap().offset, GRANULE);
    }

    #[test]
    fn a_hole_of_exactly_the_right_size_is_found_behind_smaller_ones() {
        let mut tlsf = Tlsf::new();
        let sizes: Vec<u64> = (0..16).map(|i| MIB + (15 - i) * GRANULE).collect();
        tlsf.grow(sizes.iter().map(|s| s + GRANULE).sum());
        let offsets: Vec<u64> = sizes
            .iter()
            .map(|&size| {
                let block = tlsf.alloc(size, GRANULE).unwrap().offset;
                tlsf.alloc(GRANULE, GRANULE).unwrap();
                block
            })
            .collect();
        offsets.iter().for_each(|&offset| assert!(tlsf.free(offset).is_some()));
        assert_eq!(tlsf.alloc(sizes[0], GRANULE).unwrap().offset, offsets[0]);
        assert_eq!(tlsf.alloc(sizes[0], GRANULE), None);
    }

    #[test]
    fn a_large_alignment_leaves_its_padding_free() {
        let mut tlsf = Tlsf::new();
        tlsf.grow(3 << 30);
        tlsf.alloc(GRANULE, GRANULE).unwrap();
        assert_eq!(tlsf.alloc(1 << 30, 1 << 30).unwrap().offset, 1 << 30);
        assert!(tlsf.holes().eq([(GRANULE, (1 << 30) - GRANULE), (2 << 30, 1 << 30)]));
    }
}
