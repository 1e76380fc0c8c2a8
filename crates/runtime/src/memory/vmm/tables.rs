//! What is reserved, what is mapped where, and what was unmapped while tasks were queued.

use super::physical::{Physical, PhysicalBytes, PhysicalParts, Place};
use super::window::{PAGE, WINDOW};
use crate::clock::{Clock, Epoch};
use crate::sync::Arc;
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

const GIB: u64 = 1 << 30;

/// A range of reserved addresses.
#[derive(Debug)]
pub(super) struct Reservation {
    pub bytes: u64,
    /// Its owner gave it back; a piece of it waits for tasks.
    pub is_released: bool,
}

/// Physical memory at an address.
pub(super) struct Piece {
    pub bytes: u64,
    pub physical: Arc<Physical>,
    /// Devices that were given access, a bit each; the owner has it anyway.
    pub devices: u32,
    /// The host was given access.
    pub host: bool,
    /// Tasks may touch it.
    pub is_visible: bool,
}

impl Piece {
    /// True if this place may touch it.
    pub fn has_access(&self, place: Place) -> bool {
        self.is_visible
            && (place == self.physical.spec.place
                || match place {
                    Place::Device(device) => self.devices & 1 << device != 0,
                    Place::Host => self.host,
                })
    }
}

/// What refers to physical memory.
pub(in crate::memory) struct PhysicalEntry {
    physical: Arc<Physical>,
    pub(super) bytes: Arc<PhysicalBytes>,
    /// References of the program: it made, imported or retained it.
    pub(super) holds: u32,
    /// Places where it is mapped.
    pub(super) maps: u32,
    /// The number under which other processes import it.
    pub exported: Option<u64>,
}

impl PhysicalEntry {
    /// One reference of the program.
    pub(super) fn new(physical: &Arc<Physical>, parts: PhysicalParts) -> PhysicalEntry {
        let (physical, bytes) = (physical.clone(), Arc::new(parts.bytes));
        PhysicalEntry { physical, bytes, holds: 1, maps: 0, exported: None }
    }

    /// What its handle knows.
    pub fn physical(&self) -> &Arc<Physical> {
        &self.physical
    }
}

/// A piece that was unmapped while tasks were queued, or while somebody touched it: those see it as before.
pub(super) struct RetiredPiece {
    /// Names it; later ones have greater numbers.
    pub id: u64,
    pub start: usize,
    pub piece: Piece,
    /// The reservation that it was mapped in.
    pub reservation: Range<usize>,
    /// Keeps its bytes.
    pub bytes: Arc<PhysicalBytes>,
    /// The tasks that were submitted before the unmap, as far as they had not finished.
    pub before: Clock,
    pub standing: Standing,
}

/// Whether the bytes of a retired piece are at its addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// They are, and tasks find them there.
    InPlace,
    /// They are, for those who touch them already: the addresses are needed.
    Leaving,
    /// They are not.
    Gone,
}

impl RetiredPiece {
    pub fn range(&self) -> Range<usize> {
        self.start..self.start + self.piece.bytes as usize
    }

    pub fn place(&self) -> Place {
        self.piece.physical.spec.place
    }

    /// True if whoever begins to touch it now may do so at its addresses.
    pub fn is_in_place(&self) -> bool {
        self.standing == Standing::InPlace
    }

    pub fn overlaps(&self, range: &Range<usize>) -> bool {
        let other = self.range();
        other.start < range.end && range.start < other.end
    }
}

/// The tables. Whoever changes them holds their lock.
#[derive(Default)]
pub(super) struct Tables {
    pub reservations: BTreeMap<usize, Reservation>,
    pub pieces: BTreeMap<usize, Piece>,
    pub physicals: HashMap<usize, PhysicalEntry>,
    pub retired: Vec<RetiredPiece>,
    /// How many there have been.
    pub retirements: u64,
    /// Reservations that were released and have not ended.
    pub released: usize,
    /// Maps that the process may have beyond those it had when they were counted last.
    pub maps_left: u64,
    /// Where the search for addresses begins.
    cursor: usize,
}

/// The whole pages of a reservation of this many bytes, and what its address is a multiple of. `None` if they do not fit
/// anywhere.
pub(super) fn shape(bytes: u64) -> Option<(u64, u64)> {
    let align = if bytes >= GIB { GIB } else { PAGE };
    let bytes = bytes.max(1).checked_next_multiple_of(align)?;
    (bytes <= (WINDOW.end - WINDOW.start) as u64).then_some((bytes, align))
}

impl Tables {
    /// The reservation that overlaps a range, the last one if there are several.
    pub fn reservation_in(&self, range: &Range<usize>) -> Option<(usize, &Reservation)> {
        let (&start, reservation) = self.reservations.range(..range.end).next_back()?;
        (start + reservation.bytes as usize > range.start).then_some((start, reservation))
    }

    /// The piece that overlaps a range, the last one if there are several.
    pub fn piece_in(&self, range: &Range<usize>) -> Option<(usize, &Piece)> {
        let (&start, piece) = self.pieces.range(..range.end).next_back()?;
        (start + piece.bytes as usize > range.start).then_some((start, piece))
    }

    /// The reservations that overlap a range.
    pub fn reservations_in(
        &self,
        range: &Range<usize>,
    ) -> impl Iterator<Item = (usize, &Reservation)> {
        let first = range.start;
        (self.reservations.range(..range.end).rev())
            .map(|(&start, reservation)| (start, reservation))
            .take_while(move |(start, reservation)| start + reservation.bytes as usize > first)
    }

    /// The whole reservation around an address.
    pub fn reservation_range(&self, address: usize) -> Option<Range<usize>> {
        let (start, reservation) = self.reservation_in(&(address..address.checked_add(1)?))?;
        Some(start..start + reservation.bytes as usize)
    }

    /// The pieces that were unmapped after a task was submitted, in the order in which they were: of two at one place it saw the first.
    pub fn retired_for(&self, epoch: Epoch) -> impl Iterator<Item = &RetiredPiece> {
        self.retired.iter().filter(move |piece| piece.before.covers(epoch))
    }

    /// True if a piece that was unmapped still has addresses of the range.
    pub fn is_waiting(&self, range: &Range<usize>) -> bool {
        self.retired.iter().any(|piece| piece.standing != Standing::Gone && piece.overlaps(range))
    }

    /// The next addresses that no reservation has, at or after `from`, or after the last ones where that is `None`. Behind
    /// the last reservation it goes on at the start of the window, once.
    pub fn free_addresses(&self, bytes: u64, align: u64, from: Option<usize>) -> Option<usize> {
        let first = from.unwrap_or(self.cursor).max(WINDOW.start);
        let found = self.free_between(bytes, align, first..WINDOW.end);
        match from {
            Some(_) => found,
            None => found.or_else(|| self.free_between(bytes, align, WINDOW)),
        }
    }

    fn free_between(&self, bytes: u64, align: u64, within: Range<usize>) -> Option<usize> {
        let mut at = within.start.checked_next_multiple_of(align as usize)?;
        loop {
            let range = at..at.checked_add(bytes as usize).filter(|&end| end <= within.end)?;
            let Some((start, reservation)) = self.reservation_in(&range) else { return Some(at) };
            at = (start + reservation.bytes as usize).checked_next_multiple_of(align as usize)?;
        }
    }

    /// Adds a reservation; the next one is looked for after it, a page away.
    pub fn reserve(&mut self, start: usize, bytes: u64) {
        self.reservations.insert(start, Reservation { bytes, is_released: false });
        self.cursor = start + bytes as usize + PAGE as usize;
    }

    /// The reservations that were released and have no piece that waits.
    pub fn take_released(&mut self) -> Vec<(usize, u64)> {
        if self.released == 0 {
            return Vec::new();
        }
        let ended: Vec<_> = (self.reservations.iter())
            .filter(|(start, reservation)| {
                let range = **start..**start + reservation.bytes as usize;
                reservation.is_released && !self.is_waiting(&range)
            })
            .map(|(&start, reservation)| (start, reservation.bytes))
            .collect();
        for (start, _) in &ended {
            self.reservations.remove(start);
        }
        self.released -= ended.len();
        ended
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_aligned_apart_and_found_again() {
        let mut tables = Tables::default();
        let (small, align) = shape(512).unwrap();
        assert_eq!((small, align), (PAGE, PAGE));
        let (large, wide) = shape(3 * GIB + 1).unwrap();
        assert_eq!((large, wide), (4 * GIB, GIB));
        assert_eq!((shape(u64::MAX), shape(9 << 40)), (None, None));
        let first = tables.free_addresses(small, align, None).unwrap();
        tables.reserve(first, small);
        let second = tables.free_addresses(large, wide, None).unwrap();
        assert!((second as u64).is_multiple_of(GIB) && second > first + small as usize);
        tables.reserve(second, large);
        assert_eq!(tables.free_addresses(small, align, Some(first)), Some(first + PAGE as usize));
        assert_eq!(
            tables.free_addresses(8 << 40, GIB, None),
            None,
            "the window is not empty any more"
        );
        tables.reservations.remove(&first);
        tables.reservations.remove(&second);
        assert_eq!(tables.free_addresses(8 << 40, GIB, None), Some(WINDOW.start));
    }

    #[test]
    fn the_reservation_of_a_range_is_found_from_inside_and_across_its_edges() {
        let mut tables = Tables::default();
        let page = PAGE as usize;
        let start = WINDOW.start + 8 * page;
        tables.reserve(start, 2 * PAGE);
        let found = |range: Range<usize>| tables.reservation_in(&range).map(|(start, _)| start);
        assert_eq!(found(start..start + 1), Some(start));
        assert_eq!(found(start + page..start + 9 * page), Some(start));
        assert_eq!(found(start - page..start + 1), Some(start));
        assert_eq!(found(start - page..start), None);
        assert_eq!(found(start + 2 * page..start + 3 * page), None);
    }
}
