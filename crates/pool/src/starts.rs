//! A hash table: which block of a lane begins at an offset.

use crate::tlsf::{BlockId, GRANULE};

/// Slots that a table begins with.
const MIN_SLOTS: usize = 64;

/// The blocks of one lane by offset: open addressing, at most an eighth full (a wrong guess of the first slot costs more than a miss), 8 bytes a slot.
///
/// A slot has the lower 32 bits of a granule's index, which are its hash key, and the id of the block that begins
/// there. Granules 2 TiB apart have the same key, so [`Starts::find`] lets the caller check the block.
pub(crate) struct Starts {
    slots: Box<[Slot]>,
    count: usize,
    /// Shifts a 32-bit hash to the index of a slot.
    shift: u32,
}

#[derive(Clone, Copy)]
struct Slot {
    granule: u32,
    id: BlockId,
}

/// An empty slot.
const NONE: Slot = Slot { granule: 0, id: BlockId::MAX };

impl Starts {
    /// An empty table.
    pub fn new() -> Starts {
        Starts::with_slots(MIN_SLOTS)
    }

    /// An empty table of this many slots, a power of two.
    fn with_slots(slots: usize) -> Starts {
        let shift = u32::BITS - slots.trailing_zeros();
        Starts { slots: vec![NONE; slots].into(), count: 0, shift }
    }

    /// The block at an offset for which `is_match` is true.
    #[inline]
    pub fn find(&self, offset: u64, is_match: impl Fn(BlockId) -> bool) -> Option<BlockId> {
        let granule = (offset / GRANULE) as u32;
        let mut at = self.home(granule);
        loop {
            let slot = self.slots[at];
            if slot.granule == granule && slot.id != NONE.id && is_match(slot.id) {
                return Some(slot.id);
            }
            if slot.id == NONE.id {
                return None;
            }
            at = self.next_slot(at);
        }
    }

    /// Adds a block that is not there.
    #[inline]
    pub fn add(&mut self, offset: u64, id: BlockId) {
        if self.count * 8 >= self.slots.len() {
            self.enlarge();
        }
        self.count += 1;
        self.put(Slot { granule: (offset / GRANULE) as u32, id });
    }

    /// Stores an entry in the first free slot from its home on.
    #[inline]
    fn put(&mut self, slot: Slot) {
        let mut at = self.home(slot.granule);
        while self.slots[at].id != NONE.id {
            at = self.next_slot(at);
        }
        self.slots[at] = slot;
    }

    #[cold]
    fn enlarge(&mut self) {
        let mut larger = Starts::with_slots(self.slots.len() * 2);
        self.slots.iter().filter(|slot| slot.id != NONE.id).for_each(|&slot| larger.put(slot));
        larger.count = self.count;
        *self = larger;
    }

    /// Removes a block, if it is there.
    #[inline]
    pub fn remove(&mut self, offset: u64, id: BlockId) {
        let mut at = self.home((offset / GRANULE) as u32);
        while self.slots[at].id != id {
            if self.slots[at].id == NONE.id {
                return;
            }
            at = self.next_slot(at);
        }
        self.count -= 1;
        // Entries after the free slot move up into it, unless they would come before their home.
        let mut next = self.next_slot(at);
        while self.slots[next].id != NONE.id {
            let home = self.home(self.slots[next].granule);
            if self.distance(home, next) >= self.distance(at, next) {
                self.slots[at] = self.slots[next];
                at = next;
            }
            next = self.next_slot(next);
        }
        self.slots[at] = NONE;
    }

    /// The slot where the search for a granule begins.
    #[inline]
    fn home(&self, granule: u32) -> usize {
        (granule.wrapping_mul(0x9e37_79b9) >> self.shift) as usize
    }

    #[inline]
    fn next_slot(&self, at: usize) -> usize {
        (at + 1) & (self.slots.len() - 1)
    }

    /// Slots from one to another, going round at the end.
    fn distance(&self, from: usize, to: usize) -> usize {
        to.wrapping_sub(from) & (self.slots.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    proptest! {
        #[test]
        fn knows_what_a_map_knows(ops in prop::collection::vec((0u64..200, 0u64..3, any::<bool>()), 1..600)) {
            let (mut starts, mut model) = (Starts::new(), HashMap::new());
            for (number, (low, high, add)) in ops.into_iter().enumerate() {
                let offset = (low * 65 + (high << 32)) * GRANULE;
                match model.get(&offset).copied() {
                    Some(id) => {
                        starts.remove(offset, id);
                        model.remove(&offset);
                    }
                    None if add => {
                        starts.add(offset, number as BlockId);
                        model.insert(offset, number as BlockId);
                    }
                    None => starts.remove(offset, number as BlockId),
                }
                prop_assert_eq!(starts.count, model.len());
            }
            let offsets = (0..200).flat_map(|low| (0..3).map(move |high| low * 65 + (high << 32)));
            for offset in offsets.map(|granule| granule * GRANULE) {
                let expected = model.get(&offset).copied();
                let is_match = |id| expected == Some(id);
                prop_assert_eq!(starts.find(offset, is_match), expected);
            }
        }
    }
}
