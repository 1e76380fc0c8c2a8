//! Where blocks begin: offset to owner.

use crate::tlsf::GRANULE;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

const LEAF: u32 = 14;
const MIDDLE: u32 = 12;
const TOP: u32 = 13;

type Leaf = Box<[AtomicU64; 1 << LEAF]>;
type Middle = Box<[OnceLock<Leaf>; 1 << MIDDLE]>;
type Top = Box<[OnceLock<Middle>; 1 << TOP]>;

/// A number for each granule of 256 TiB, 0 where none was put. Three loads to read one; readers and
/// writers take no lock. 8 bytes for each granule of every 8 MiB in which a number was ever put, of
/// which untouched pages stay unbacked.
///
/// Whoever reads a number checks it under the lock of what it names: by then it may be out of date.
pub struct Index {
    top: Top,
}

impl Default for Index {
    fn default() -> Self {
        Index { top: unset() }
    }
}

impl Index {
    /// The number at an offset; 0 for an offset inside a granule or beyond the table.
    #[inline]
    pub fn get(&self, offset: u64) -> u64 {
        self.cell(offset).map_or(0, |cell| cell.load(Ordering::Acquire))
    }

    #[inline]
    fn cell(&self, offset: u64) -> Option<&AtomicU64> {
        let granule = offset / GRANULE;
        if !offset.is_multiple_of(GRANULE) || granule >> (LEAF + MIDDLE + TOP) != 0 {
            return None;
        }
        let middle = self.top[(granule >> (LEAF + MIDDLE)) as usize].get()?;
        let leaf = middle[(granule >> LEAF) as usize & ((1 << MIDDLE) - 1)].get()?;
        Some(&leaf[granule as usize & ((1 << LEAF) - 1)])
    }

    /// Puts a number at an offset.
    ///
    /// # Panics
    /// If the offset is inside a granule or beyond the table.
    pub fn set(&self, offset: u64, number: u64) {
        if let Some(cell) = self.cell(offset) {
            cell.store(number, Ordering::Release);
            return;
        }
        let granule = offset / GRANULE;
        assert!(
            offset.is_multiple_of(GRANULE) && granule >> (LEAF + MIDDLE + TOP) == 0,
            "offset {offset:#x} is not one of the index"
        );
        let middle = self.top[(granule >> (LEAF + MIDDLE)) as usize].get_or_init(unset);
        let leaf = middle[(granule >> LEAF) as usize & ((1 << MIDDLE) - 1)].get_or_init(zeroed);
        leaf[granule as usize & ((1 << LEAF) - 1)].store(number, Ordering::Release);
    }
}

/// Places for things that are made when they are needed.
pub(crate) fn unset<T, const N: usize>() -> Box<[OnceLock<T>; N]> {
    let places: Box<[OnceLock<T>]> = (0..N).map(|_| OnceLock::new()).collect();
    places.try_into().unwrap_or_else(|_| unreachable!("of this length"))
}

fn zeroed() -> Leaf {
    let leaf = Leaf::new_zeroed();
    // SAFETY: an atomic number whose bytes are all zero is the number 0.
    unsafe { leaf.assume_init() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_where_they_were_put() {
        let index = Index::default();
        let places = [0, 512, (8 << 20) - 512, 8 << 20, 1 << 40, (1 << 48) - 512];
        for (number, &place) in places.iter().enumerate() {
            assert_eq!(index.get(place), 0);
            index.set(place, number as u64 + 1);
        }
        for (number, &place) in places.iter().enumerate() {
            assert_eq!(index.get(place), number as u64 + 1);
            assert_eq!(index.get(place + 1), 0);
        }
        assert_eq!(index.get(1024), 0);
        assert_eq!(index.get(1 << 48), 0);
        assert_eq!(index.get(u64::MAX), 0);
    }
}
