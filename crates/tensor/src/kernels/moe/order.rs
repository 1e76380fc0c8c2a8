//! Tokens in the order of their experts.
//!
//! Every token has as many slots as it has experts; slots are counted token by token. The order of slots is that of their
//! experts, and of the slots themselves where experts are equal.

use crate::kernels::access::{PositionAccess, PositionAccessMut};
use crate::kernels::order::{Entry, Narrow, entries, sort_entries};
use crate::{View, ViewMut};
use std::ops::Range;

/// Bytes of scratch for each slot.
pub const SLOT_BYTES: usize = size_of::<Narrow>();

/// Experts in a range of at most this many are counted rather than compared.
const COUNTED: usize = 2048;

/// The key of a slot whose expert is outside of the range that counts: the greatest, which no expert has.
const OUTSIDE: u64 = u32::MAX as u64;

/// Why slots could not be ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrderFault {
    /// The workspace was written by something else meanwhile.
    Overwritten,
    /// The expert of this slot, which is this number, is none of those in the range.
    Expert(usize, i64),
}

/// The slots in the order of their experts.
#[derive(Clone, Copy)]
pub struct ExpertOrder<'a> {
    sorted: &'a [Narrow],
    active: usize,
}

/// The key of an expert: experts of 31 bits and a sign.
fn key(expert: i64) -> Option<u64> {
    i32::try_from(expert).ok().map(|expert| u64::from((expert as u32) ^ 1 << 31))
}

/// Which experts are sorted, and what happens to the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Accepted {
    /// Those in the range; others are an error.
    Only(Range<i64>),
    /// Those in the range; slots of others come last.
    Active(Range<i64>),
}

impl<'a> ExpertOrder<'a> {
    /// Sorts the slots of `experts`, integers of two dimensions, tokens and slots. `scratch` has [`SLOT_BYTES`] for each slot.
    /// One thread does it all.
    pub fn sort(
        scratch: ViewMut<'a>,
        experts: View<'_>,
        accepted: &Accepted,
    ) -> Result<ExpertOrder<'a>, OrderFault> {
        let (tokens, slots) = (experts.dims()[0], experts.dims()[1]);
        let (range, strict) = match accepted {
            Accepted::Only(range) => (range, true),
            Accepted::Active(range) => (range, false),
        };
        let count = tokens * slots;
        // SAFETY: the scratch has an entry for each slot and is handed to this call alone.
        let sorted = unsafe { entries::<Narrow>(&scratch, 0, count) };
        let access = PositionAccess::new(experts);
        let (mut active, mut low, mut high) = (0, u64::MAX, 0);
        for (slot, entry) in sorted.iter_mut().enumerate().take(count) {
            let expert: i64 = access.get(&[slot / slots, slot % slots]);
            let key = key(expert).filter(|key| range.contains(&expert) && *key != OUTSIDE);
            match key {
                None if strict => return Err(OrderFault::Expert(slot, expert)),
                None => {}
                Some(key) => {
                    active += 1;
                    (low, high) = (low.min(key), high.max(key));
                }
            }
            *entry = Narrow::new(key.unwrap_or(OUTSIDE), slot);
        }
        let span = high.saturating_sub(low) as usize + 1;
        if active == count && count > 0 && span <= COUNTED {
            count_in_place(sorted, &access, slots, low);
        } else {
            sort_entries(|| sorted.sort_unstable()).map_err(|_| OrderFault::Overwritten)?;
        }
        Ok(ExpertOrder { sorted, active })
    }

    /// The number of slots.
    pub fn len(&self) -> usize {
        self.sorted.len()
    }

    /// Whether there is no slot.
    pub fn is_empty(&self) -> bool {
        self.sorted.is_empty()
    }

    /// The number of slots whose expert is in the range; they come first.
    pub fn active(&self) -> usize {
        self.active
    }

    /// The slot at a place of the order.
    pub fn slot(&self, place: usize) -> usize {
        // The workspace is the user's, and may change under us.
        self.sorted[place].index().min(self.sorted.len() - 1)
    }

    /// The expert of the slot at a place of the order, which is one of the active.
    pub fn expert(&self, place: usize) -> i64 {
        i64::from((self.sorted[place].key() as u32 ^ 1 << 31) as i32)
    }

    /// The places of an expert's slots.
    pub fn places(&self, expert: i64) -> Range<usize> {
        let Some(key) = key(expert) else { return 0..0 };
        let active = &self.sorted[..self.active];
        let start = active.partition_point(|entry| entry.key() < key);
        let count = active[start..].partition_point(|entry| entry.key() <= key);
        start..start + count
    }

    /// Writes how many slots each expert from `first` on has, or with `cumulative` how many that one and all before it have.
    pub fn count(&self, out: ViewMut<'_>, first: i64, cumulative: bool) {
        let (out, experts) = (PositionAccessMut::new(out), out.dims()[0]);
        let mut before = 0;
        for at in 0..experts {
            let places = self.places(first + at as i64);
            before += places.len() as i64;
            out.set(&[at], if cumulative { before } else { places.len() as i64 });
        }
    }

    /// Writes a pair for each expert that has slots, itself and their number, and zeros in the rows after them.
    pub fn count_pairs(&self, out: ViewMut<'_>) {
        let (out, rows) = (PositionAccessMut::new(out), out.dims()[0]);
        let (mut row, mut place) = (0, 0);
        while place < self.active && row < rows {
            let expert = self.expert(place);
            let end = self.places(expert).end.max(place + 1);
            out.set(&[row, 0], expert);
            out.set(&[row, 1], (end - place) as i64);
            (row, place) = (row + 1, end);
        }
        for row in row..rows {
            out.set(&[row, 0], 0i64);
            out.set(&[row, 1], 0i64);
        }
    }
}

/// Sorts the slots by counting: all their experts are in a small range from the key `low` on.
fn count_in_place(sorted: &mut [Narrow], access: &PositionAccess<'_>, slots: usize, low: u64) {
    let mut next = [0usize; COUNTED + 1];
    let bucket = |slot: usize| {
        let expert: i64 = access.get(&[slot / slots, slot % slots]);
        (key(expert).unwrap_or(low).wrapping_sub(low) as usize).min(COUNTED - 1)
    };
    let count = sorted.len();
    (0..count).for_each(|slot| next[bucket(slot) + 1] += 1);
    (1..next.len()).for_each(|at| next[at] += next[at - 1]);
    for slot in 0..count {
        let at = bucket(slot);
        let place = next[at].min(count - 1);
        next[at] += 1;
        sorted[place] = Narrow::new(low + at as u64, slot);
    }
}
