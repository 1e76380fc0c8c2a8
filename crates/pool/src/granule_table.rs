//! A lock-free radix table from granules to numbers.

use crate::tlsf::GRANULE;
use std::alloc::{Layout, alloc_zeroed, handle_alloc_error};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

const LEAF_BITS: u32 = 14;
const MIDDLE_BITS: u32 = 12;
const TOP_BITS: u32 = 13;

type Leaf = Box<[AtomicU64; 1 << LEAF_BITS]>;
type Middle = Box<[OnceLock<Leaf>; 1 << MIDDLE_BITS]>;
type Top = Box<[OnceLock<Middle>; 1 << TOP_BITS]>;

/// A value for each granule of 256 TiB, 0 where none was set. Three loads to read one; readers and
/// writers take no lock. 8 bytes for each granule of every 8 MiB in which a value was ever set, of
/// which untouched pages stay unbacked.
///
/// A value may be stale when it is read: check it under the lock that protects what it refers to.
pub struct GranuleTable {
    top: Top,
}

/// There is no memory for a part of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfMemory {
    /// How long that part is.
    pub bytes: usize,
}

impl std::fmt::Display for OutOfMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes cannot be allocated", self.bytes)
    }
}

impl std::error::Error for OutOfMemory {}

impl Default for GranuleTable {
    fn default() -> Self {
        GranuleTable { top: empty_cells() }
    }
}

impl GranuleTable {
    /// The value at an offset; 0 for an offset that is not a multiple of the granule or beyond the table.
    #[inline]
    pub fn get(&self, offset: u64) -> u64 {
        self.cell(offset).map_or(0, |cell| cell.load(Ordering::Acquire))
    }

    #[inline]
    fn cell(&self, offset: u64) -> Option<&AtomicU64> {
        let granule = offset / GRANULE;
        if !offset.is_multiple_of(GRANULE) || granule >> (LEAF_BITS + MIDDLE_BITS + TOP_BITS) != 0 {
            return None;
        }
        let middle = self.top[(granule >> (LEAF_BITS + MIDDLE_BITS)) as usize].get()?;
        let leaf = middle[(granule >> LEAF_BITS) as usize & ((1 << MIDDLE_BITS) - 1)].get()?;
        Some(&leaf[granule as usize & ((1 << LEAF_BITS) - 1)])
    }

    /// Sets the value at an offset. Fails if there is no memory for that part of the table.
    ///
    /// # Panics
    /// If the offset is not a multiple of the granule or beyond the table.
    pub fn set(&self, offset: u64, value: u64) -> Result<(), OutOfMemory> {
        if let Some(cell) = self.cell(offset) {
            cell.store(value, Ordering::Release);
            return Ok(());
        }
        let granule = offset / GRANULE;
        assert!(
            offset.is_multiple_of(GRANULE) && granule >> (LEAF_BITS + MIDDLE_BITS + TOP_BITS) == 0,
            "offset {offset:#x} is unaligned or beyond the table"
        );
        let middle = &self.top[(granule >> (LEAF_BITS + MIDDLE_BITS)) as usize];
        let middle = get_or_try_init(middle, try_empty_cells)?;
        let leaf = &middle[(granule >> LEAF_BITS) as usize & ((1 << MIDDLE_BITS) - 1)];
        let leaf = get_or_try_init(leaf, zeroed_leaf)?;
        leaf[granule as usize & ((1 << LEAF_BITS) - 1)].store(value, Ordering::Release);
        Ok(())
    }
}

/// What a cell has, or gets now; if another thread is first, its.
fn get_or_try_init<T, E>(cell: &OnceLock<T>, make: impl Fn() -> Result<T, E>) -> Result<&T, E> {
    match cell.get() {
        Some(value) => Ok(value),
        None => {
            let made = make()?;
            Ok(cell.get_or_init(|| made))
        }
    }
}

/// An array of empty cells. The process ends if there is no memory for it.
pub(crate) fn empty_cells<T, const N: usize>() -> Box<[OnceLock<T>; N]> {
    try_empty_cells().unwrap_or_else(|_| handle_alloc_error(Layout::new::<[OnceLock<T>; N]>()))
}

fn try_empty_cells<T, const N: usize>() -> Result<Box<[OnceLock<T>; N]>, OutOfMemory> {
    let mut cells = Vec::new();
    let bytes = N * size_of::<OnceLock<T>>();
    cells.try_reserve_exact(N).map_err(|_| OutOfMemory { bytes })?;
    cells.resize_with(N, OnceLock::new);
    Ok(cells
        .into_boxed_slice()
        .try_into()
        .unwrap_or_else(|_| unreachable!("the slice has N cells")))
}

/// Zeroes, which the system backs when they are touched.
fn zeroed_leaf() -> Result<Leaf, OutOfMemory> {
    let layout = Layout::new::<[AtomicU64; 1 << LEAF_BITS]>();
    // SAFETY: the layout is not empty.
    let leaf = unsafe { alloc_zeroed(layout) };
    if leaf.is_null() {
        return Err(OutOfMemory { bytes: layout.size() });
    }
    // SAFETY: allocated just now, as a box of this type does; all-zero bytes are a valid `AtomicU64`.
    Ok(unsafe { Box::from_raw(leaf.cast()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_where_they_were_put() {
        let table = GranuleTable::default();
        let offsets = [0, 512, (8 << 20) - 512, 8 << 20, 1 << 40, (1 << 48) - 512];
        for (value, &offset) in offsets.iter().enumerate() {
            assert_eq!(table.get(offset), 0);
            table.set(offset, value as u64 + 1).unwrap();
        }
        for (value, &offset) in offsets.iter().enumerate() {
            assert_eq!(table.get(offset), value as u64 + 1);
            assert_eq!(table.get(offset + 1), 0);
        }
        assert_eq!(table.get(1024), 0);
        assert_eq!(table.get(1 << 48), 0);
        assert_eq!(table.get(u64::MAX), 0);
    }
}
