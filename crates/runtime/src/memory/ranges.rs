//! Address to allocation: a flat side table over one reserved address range.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering::*, fence};

use super::tlsf::GRANULE;
use super::word_table::WordTable;

/// The most levels of bits.
const LEVELS: usize = 10;

/// Whether the owner still holds an allocation, or has freed it and its memory waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Held by its owner.
    Live = 1,
    /// Freed, but still mapped and intact.
    Quarantined = 2,
    /// Freed by its owner, and on its way through the layers to the quarantine.
    Leaving = 3,
}

/// An allocation in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allocation {
    /// Offset of its first byte.
    pub start: u64,
    /// Bytes that the user asked for.
    pub size: u64,
    /// Whether it is live.
    pub state: State,
    /// What the owner gave to [`Ranges::insert`].
    pub tag: u32,
}

/// The allocations in one reserved address range, by offset from its base.
///
/// ```text
/// level 2                [ 1 . . . ]                a bit: the word below has a bit
/// level 1      [ 1 . 1 . ]    [ . . . . ] ...
/// level 0  [ . 1 . . ][ . . . . ][ 1 . . 1 ] ...    a bit: an allocation starts at this granule
/// records      |                   |     |          (size, sequence | state | tag) of each granule
/// ```
///
/// `find` looks for the last start at or before its offset, 64 bits at a time: one word when the
/// start is near, at most two for each level (five levels for 512 GiB), then one record. The tables
/// take 1/32 of the range in address space; only pages in use are backed: at most one for each
/// allocation, and one for each 16 MiB in use.
///
/// **Threads.** `find` and `start_free` take no lock and wait for nobody. `insert`, `retire`, `resize` and `remove` must
/// be serialised by the caller: two at once lose entries (but stay memory safe).
///
/// **What a reader may see.** An allocation that is neither inserted nor removed during a `find` is
/// always found, whatever happens around it: its bits stay set, and no start can lie between it and
/// an offset inside it. One that is changed meanwhile is seen as before or after, never as a mix: a
/// record passes through "vacant" before its size is written, each insert has a new sequence
/// number, and a reader accepts a size only if the other word is the same before and after. (The
/// number has 30 bits: a reader that sleeps for exactly 2^30 inserts at one granule could err.) Bytes that pass from
/// one allocation to others, piece by piece, belong to one of them at every moment: a reader that missed all of them
/// sees that the table changed meanwhile, and looks again.
pub struct Ranges {
    records: WordTable,
    bits: WordTable,
    /// Where each level begins in `bits`.
    levels: [usize; LEVELS],
    /// How many levels there are.
    height: usize,
    /// How often the table was changed; counted before the change can be seen.
    changes: AtomicU64,
    /// Starts are multiples of two to this power.
    granule_log2: u32,
}

impl Ranges {
    /// A table for offsets below `range_bytes`. Fails if the kernel refuses the address space.
    pub fn new(range_bytes: u64) -> io::Result<Self> {
        Self::with_granule(range_bytes, GRANULE)
    }

    /// The same for starts that are multiples of `granule`, a power of two.
    pub fn with_granule(range_bytes: u64, granule: u64) -> io::Result<Self> {
        let granules = range_bytes.div_ceil(granule).max(1) as usize;
        let (mut levels, mut height, mut words) = ([0; LEVELS], 0, 0);
        let mut below = granules;
        while height == 0 || below > 1 {
            levels[height] = words;
            below = below.div_ceil(64);
            words += below;
            height += 1;
        }
        Ok(Self {
            records: WordTable::reserve(2 * granules)?,
            bits: WordTable::reserve(words)?,
            levels,
            height,
            changes: AtomicU64::new(0),
            granule_log2: granule.ilog2(),
        })
    }

    fn granule(&self) -> u64 {
        1 << self.granule_log2
    }

    fn granule_of(&self, offset: u64) -> usize {
        (offset >> self.granule_log2) as usize
    }

    /// Adds the allocation of `size` bytes at `offset`, live. Replaces one with the same start.
    ///
    /// # Panics
    /// If `offset` lies outside of the range or is not a multiple of the granule.
    pub fn insert(&self, offset: u64, size: u64, tag: u32) {
        assert!(
            offset.is_multiple_of(self.granule()),
            "allocation at {offset:#x}: not a multiple of {}",
            self.granule()
        );
        let granule = self.granule_of(offset);
        self.count_change();
        let (size_word, meta) = self.record(granule);
        let sequence = (meta.load(Relaxed) >> 34) + 1;
        meta.store(sequence << 34, Relaxed);
        fence(Release);
        size_word.store(size, Relaxed);
        meta.store(sequence << 34 | (State::Live as u64) << 32 | u64::from(tag), Release);

        let mut at = granule;
        for level in 0..self.height {
            let word = self.word(level, at >> 6);
            let old = word.load(Relaxed);
            word.store(old | 1 << (at & 63), Release);
            if old != 0 {
                break;
            }
            at >>= 6;
        }
    }

    /// Starts to free the live allocation that starts at `offset` and has none of the bits `excluded_tag_bits` in its tag:
    /// it is [`State::Leaving`] then. `None` if there is none, or another thread was first. Needs no lock: every free of a
    /// live allocation starts here.
    pub fn start_free(&self, offset: u64, excluded_tag_bits: u32) -> Option<Allocation> {
        let granule = self.start(offset)?;
        let (size_word, meta) = self.record(granule);
        let before = meta.load(Acquire);
        let (live, tag) = (before >> 32 & 3 == State::Live as u64, before as u32);
        if !live || tag & excluded_tag_bits != 0 {
            return None;
        }
        let size = size_word.load(Relaxed);
        let leaving = before & !(3 << 32) | (State::Leaving as u64) << 32;
        let found = Allocation { start: offset, size, state: State::Leaving, tag };
        meta.compare_exchange(before, leaving, AcqRel, Relaxed).is_ok().then_some(found)
    }

    /// Puts the allocation that starts at `offset` into the quarantine: one whose free has started, or one that is live and has
    /// none of the bits `excluded_tag_bits` in its tag. `None` if there is none, or another thread was first.
    pub fn retire(&self, offset: u64, excluded_tag_bits: u32) -> Option<Allocation> {
        let granule = self.start(offset)?;
        let (size_word, meta) = self.record(granule);
        let before = meta.load(Acquire);
        let (state, tag) = (before >> 32 & 3, before as u32);
        let is_leaving = state == State::Leaving as u64;
        if !is_leaving && (state != State::Live as u64 || tag & excluded_tag_bits != 0) {
            return None;
        }
        let size = size_word.load(Relaxed);
        let quarantined = before & !(3 << 32) | (State::Quarantined as u64) << 32;
        let found = Allocation { start: offset, size, state: State::Quarantined, tag };
        if is_leaving {
            // Nobody else changes it: `start_free` takes live ones only, and `retire` is serialised.
            meta.store(quarantined, Release);
            return Some(found);
        }
        meta.compare_exchange(before, quarantined, AcqRel, Relaxed).is_ok().then_some(found)
    }

    /// Changes the size of the allocation that starts at `offset`; false if none does. A reader sees the one or the
    /// other.
    pub fn resize(&self, offset: u64, size: u64) -> bool {
        let Some(granule) = self.start(offset) else { return false };
        self.count_change();
        self.record(granule).0.store(size, Release);
        true
    }

    /// Moves the start of the allocation at `offset` by `bytes`, which is less than its size; false if there is none.
    /// Readers find the rest at every moment.
    ///
    /// # Panics
    /// If `bytes` is not a multiple of the granule.
    pub fn cut_front(&self, offset: u64, bytes: u64) -> bool {
        let Some(found) = self.at(offset) else { return false };
        self.insert(offset + bytes, found.size - bytes, found.tag);
        self.remove(offset);
        true
    }

    /// Removes the allocation that starts at `offset`, and returns it.
    pub fn remove(&self, offset: u64) -> Option<Allocation> {
        let granule = self.start(offset)?;
        let found = self.read(granule)?;
        self.count_change();
        let meta = self.record(granule).1;
        meta.store(meta.load(Relaxed) >> 34 << 34, Release);

        let mut at = granule;
        for level in 0..self.height {
            let word = self.word(level, at >> 6);
            let remaining = word.load(Relaxed) & !(1 << (at & 63));
            word.store(remaining, Release);
            if remaining != 0 {
                break;
            }
            at >>= 6;
        }
        Some(found)
    }

    /// Counts a change that is about to be made; writers are serialised, so nobody else counts now.
    fn count_change(&self) {
        self.changes.store(self.changes.load(Relaxed) + 1, Relaxed);
        fence(Release);
    }

    /// The allocation that starts at `offset`.
    pub fn at(&self, offset: u64) -> Option<Allocation> {
        self.start(offset).and_then(|granule| self.read(granule))
    }

    /// The allocation that contains `offset`: `start <= offset < start + size`.
    pub fn find(&self, offset: u64) -> Option<Allocation> {
        let granule = self.granule_of(offset);
        if granule >= self.records.len() / 2 {
            return None;
        }
        loop {
            let changes = self.changes.load(Acquire);
            let found = self.nearest(granule).filter(|found| offset - found.start < found.size);
            // An allocation that was here may have been split or merged meanwhile.
            if found.is_some() || self.changes.load(Acquire) == changes {
                return found;
            }
        }
    }

    /// The last allocation that starts up to `granule`. One that is being removed is skipped: the one before may have
    /// grown over it.
    fn nearest(&self, granule: usize) -> Option<Allocation> {
        let mut at = granule;
        loop {
            let start = self.last_start(at)?;
            match self.read(start) {
                Some(found) => return Some(found),
                None => at = start.checked_sub(1)?,
            }
        }
    }

    /// Every allocation, from the last one down. One that comes or goes meanwhile may be missed.
    pub fn all(&self) -> impl Iterator<Item = Allocation> {
        let mut above = self.records.len() / 2;
        std::iter::from_fn(move || {
            loop {
                above = self.last_start(above.checked_sub(1)?)?;
                if let Some(found) = self.read(above) {
                    return Some(found);
                }
            }
        })
    }

    /// The last granule up to `granule` at which an allocation starts.
    fn last_start(&self, granule: usize) -> Option<usize> {
        let mut from = granule;
        loop {
            match self.find_start(from)? {
                Ok(start) => return Some(start),
                Err(first) => from = first.checked_sub(1)?,
            }
        }
    }

    /// The same; an error if a word on the way down is empty, because all that started there has just been removed: the
    /// first granule of that word. An allocation before it may reach over it.
    fn find_start(&self, granule: usize) -> Option<Result<usize, usize>> {
        let (mut at, mut level) = (granule, 0);
        let mut bits = self.word(0, at >> 6).load(Acquire) & (!0 >> (63 - (at & 63)));
        while bits == 0 {
            at >>= 6;
            level += 1;
            if level == self.height {
                return None;
            }
            bits = self.word(level, at >> 6).load(Acquire) & ((1 << (at & 63)) - 1);
        }
        loop {
            let Some(bit) = bits.checked_ilog2() else { return Some(Err(at << (6 * level))) };
            at = at & !63 | bit as usize;
            if level == 0 {
                return Some(Ok(at));
            }
            level -= 1;
            bits = self.word(level, at).load(Acquire);
            at <<= 6;
        }
    }

    /// The allocation that starts at a granule, read without a lock.
    fn read(&self, granule: usize) -> Option<Allocation> {
        let (size_word, meta) = self.record(granule);
        let mut before = meta.load(Acquire);
        loop {
            let state = match before >> 32 & 3 {
                1 => State::Live,
                2 => State::Quarantined,
                3 => State::Leaving,
                _ => return None,
            };
            let size = size_word.load(Relaxed);
            fence(Acquire);
            let after = meta.load(Acquire);
            if before == after {
                return Some(Allocation {
                    start: (granule as u64) << self.granule_log2,
                    size,
                    state,
                    tag: before as u32,
                });
            }
            before = after;
        }
    }

    /// The granule of `offset` if an allocation starts there, for writers.
    fn start(&self, offset: u64) -> Option<usize> {
        let granule = self.granule_of(offset);
        let inside = offset.is_multiple_of(self.granule()) && granule < self.records.len() / 2;
        (inside && self.word(0, granule >> 6).load(Relaxed) & 1 << (granule & 63) != 0)
            .then_some(granule)
    }

    /// The two words of a granule's record: size, and sequence, state and tag.
    fn record(&self, granule: usize) -> (&AtomicU64, &AtomicU64) {
        let pair = &self.records[2 * granule..2 * granule + 2];
        (&pair[0], &pair[1])
    }

    fn word(&self, level: usize, index: usize) -> &AtomicU64 {
        &self.bits[self.levels[level] + index]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;
    use std::sync::atomic::AtomicBool;

    #[derive(Clone, Debug)]
    enum Op {
        Insert(u64, u64, u32),
        Remove(usize),
        Retire(usize),
        Find(u64),
    }

    const RANGE: u64 = 20_000 * GRANULE;

    fn op() -> impl Strategy<Value = Op> {
        prop_oneof![
            3 => (0..RANGE / GRANULE, prop_oneof![1..4096u64, 1..RANGE], any::<u32>())
                .prop_map(|(at, size, tag)| Op::Insert(at * GRANULE, size, tag)),
            2 => any::<usize>().prop_map(Op::Remove),
            1 => any::<usize>().prop_map(Op::Retire),
            5 => (0..RANGE + 4096).prop_map(Op::Find),
        ]
    }

    proptest! {
        #[test]
        fn agrees_with_an_ordered_map(ops in prop::collection::vec(op(), 1..300)) {
            let ranges = Ranges::new(RANGE).unwrap();
            let mut model = BTreeMap::<u64, Allocation>::new();
            let nth = |model: &BTreeMap<u64, Allocation>, n: usize| model.keys().nth(n % model.len().max(1)).copied();
            for op in ops {
                match op {
                    Op::Insert(start, size, tag) => {
                        let before = model.range(..=start).next_back();
                        if before.is_some_and(|(s, f)| start < s + f.size) {
                            continue;
                        }
                        let room = model.range(start..).next().map_or(RANGE, |(&s, _)| s) - start;
                        let size = size.min(room);
                        ranges.insert(start, size, tag);
                        model.insert(start, Allocation { start, size, state: State::Live, tag });
                    }
                    Op::Remove(n) => {
                        if let Some(start) = nth(&model, n) {
                            prop_assert_eq!(ranges.remove(start), model.remove(&start));
                            prop_assert_eq!(ranges.remove(start), None);
                            prop_assert_eq!(ranges.retire(start, 0), None);
                        }
                    }
                    Op::Retire(n) => {
                        if let Some(start) = nth(&model, n) {
                            let expected = model.get_mut(&start).unwrap();
                            let live = expected.state == State::Live;
                            // The free of every other one is started first.
                            if n % 2 == 0 {
                                prop_assert_eq!(ranges.start_free(start, 0).is_some(), live);
                            }
                            expected.state = State::Quarantined;
                            prop_assert_eq!(ranges.retire(start, 0), live.then_some(*expected));
                            prop_assert_eq!(ranges.retire(start, 0), None);
                        }
                    }
                    Op::Find(offset) => {
                        let before = model.range(..=offset).next_back().map(|(_, f)| *f);
                        prop_assert_eq!(ranges.find(offset), before.filter(|f| offset < f.start + f.size));
                    }
                }
            }
            let all: Vec<_> = ranges.all().collect();
            prop_assert_eq!(all, model.values().rev().copied().collect::<Vec<_>>());
            for found in model.values() {
                prop_assert_eq!(ranges.find(found.start + found.size - 1), Some(*found));
                prop_assert_eq!(ranges.remove(found.start), Some(*found));
            }
            prop_assert!(ranges.bits.iter().all(|word| word.load(Relaxed) == 0));
            prop_assert_eq!(ranges.all().count(), 0);
        }
    }

    #[test]
    fn half_a_tebibyte_is_reachable() {
        let ranges = Ranges::new(512 << 30).unwrap();
        let end = 512u64 << 30;
        ranges.insert(0, 300 << 30, 1);
        ranges.insert(end - GRANULE, 1, 2);
        assert_eq!(ranges.find((300 << 30) - 1).unwrap().tag, 1);
        assert_eq!(ranges.find(300 << 30), None);
        assert_eq!(ranges.find(end - GRANULE).unwrap().tag, 2);
        assert_eq!(
            (ranges.find(end - 1), ranges.find(end), ranges.find(u64::MAX)),
            (None, None, None)
        );
        assert!(Ranges::new(1).unwrap().find(0).is_none());
    }

    #[test]
    fn readers_find_stable_blocks_and_whole_records() {
        const SLOT: u64 = 1 << 20;
        const SLOTS: u64 = 4;
        let ranges = Ranges::new(SLOTS * SLOT).unwrap();
        for slot in (0..SLOTS).step_by(2) {
            ranges.insert(slot * SLOT, SLOT, slot as u32);
        }
        let tag_of = |size: u64| (size as u32).wrapping_mul(0x9e37_79b9);
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for reader in 0..3u64 {
                let (ranges, done) = (&ranges, &done);
                scope.spawn(move || {
                    let mut i = reader;
                    while !done.load(Relaxed) {
                        i = i
                            .wrapping_mul(6_364_136_223_846_793_005)
                            .wrapping_add(1_442_695_040_888_963_407);
                        let offset = (i >> 33) % (SLOTS * SLOT);
                        let (slot, found) = (offset / SLOT, ranges.find(offset));
                        if slot % 2 == 0 {
                            assert_eq!(found.unwrap().tag, slot as u32);
                        } else if let Some(found) = found {
                            assert_eq!(found.tag, tag_of(found.size));
                            assert_eq!(found.start / SLOT, slot);
                        }
                    }
                });
            }
            let mut i = 1u64;
            for _ in 0..1_000_000 {
                i = i
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                let (start, size) = (
                    ((i >> 33) % (SLOTS / 2) * 2 + 1) * SLOT,
                    (i >> 20) % 8 * (SLOT / 8) + SLOT / 8,
                );
                match ranges.find(start) {
                    Some(found) if found.state == State::Live => {
                        assert!(ranges.retire(start, 0).is_some())
                    }
                    Some(_) if i >> 62 != 0 => ranges.insert(start, size, tag_of(size)),
                    Some(_) => assert!(ranges.remove(start).is_some()),
                    None => ranges.insert(start, size, tag_of(size)),
                }
            }
            done.store(true, Relaxed);
        });
    }

    #[test]
    fn an_allocation_that_grows_and_shrinks_is_found_at_every_moment() {
        let (ranges, stop) = (Ranges::new(RANGE).unwrap(), AtomicBool::new(false));
        let (first, second, end) = (100 * GRANULE, 9_000 * GRANULE, 9_100 * GRANULE);
        ranges.insert(first, second - first, 7);
        ranges.insert(second, end - second, 7);
        std::thread::scope(|scope| {
            for offset in [first, second - 1, second, second + 70 * GRANULE, end - 1] {
                let (ranges, stop) = (&ranges, &stop);
                scope.spawn(move || {
                    while !stop.load(Relaxed) {
                        let found = ranges.find(offset).map(|found| found.tag);
                        if found != Some(7) {
                            stop.store(true, Relaxed);
                            panic!("{offset:#x}: {found:?}");
                        }
                    }
                });
            }
            for _ in 0..200_000 {
                if stop.load(Relaxed) {
                    break;
                }
                assert!(ranges.resize(first, end - first));
                ranges.remove(second);
                ranges.insert(second, end - second, 7);
                assert!(ranges.resize(first, second - first));
                ranges.insert(second + 60 * GRANULE, end - second - 60 * GRANULE, 7);
                ranges.insert(second + GRANULE, 59 * GRANULE, 7);
                assert!(ranges.resize(second, GRANULE));
                assert!(ranges.resize(second, end - second));
                ranges.remove(second + GRANULE);
                ranges.remove(second + 60 * GRANULE);
            }
            stop.store(true, Relaxed);
        });
    }

    #[test]
    fn an_allocation_whose_start_moves_is_found_at_every_moment() {
        let (ranges, stop) = (Ranges::new(RANGE).unwrap(), AtomicBool::new(false));
        let (first, cut, bytes) = (8_000 * GRANULE, 500 * GRANULE, 600 * GRANULE);
        ranges.insert(first, bytes, 7);
        std::thread::scope(|scope| {
            for offset in [first + cut, first + bytes - 1] {
                let (ranges, stop) = (&ranges, &stop);
                scope.spawn(move || {
                    while !stop.load(Relaxed) {
                        let found = ranges.find(offset).map(|found| found.tag);
                        if found != Some(7) {
                            stop.store(true, Relaxed);
                            panic!("{offset:#x}: {found:?}");
                        }
                    }
                });
            }
            for _ in 0..200_000 {
                if stop.load(Relaxed) {
                    break;
                }
                assert!(ranges.cut_front(first, cut) && !ranges.cut_front(first, cut));
                ranges.insert(first, bytes, 7);
                ranges.remove(first + cut);
            }
            stop.store(true, Relaxed);
        });
    }
}
