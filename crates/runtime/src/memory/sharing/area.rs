//! Room for lists in a memory file.

/// The least room, in bytes; classes double from there.
const LEAST: u64 = 16;
/// The largest room of one list is this many bytes.
const LARGEST: u64 = 64 << 20;
const CLASSES: usize = (LARGEST / LEAST).ilog2() as usize + 1;
/// All rooms end here.
const END: u64 = 1 << 30;

/// Room for one list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    offset: u64,
    class: usize,
}

impl Place {
    /// Where it begins in the area.
    pub fn offset(self) -> u64 {
        self.offset
    }

    /// The same as a number of 32 bits.
    pub fn number(self) -> u32 {
        (self.offset / LEAST) as u32
    }

    /// The offset of a number.
    pub fn offset_of(number: u32) -> u64 {
        u64::from(number) * LEAST
    }

    /// What it has room for.
    pub fn bytes(self) -> u64 {
        LEAST << self.class
    }
}

/// Rooms of sizes that double, taken and given back. One that was given back serves lists of its size again: the area is as
/// large as the most lists of each size that there ever were at a time.
#[derive(Debug)]
pub struct Area {
    free: [Vec<u64>; CLASSES],
    end: u64,
}

impl Default for Area {
    fn default() -> Area {
        Area { free: std::array::from_fn(|_| Vec::new()), end: 0 }
    }
}

impl Area {
    /// Room for so many bytes; `None` if there is none.
    pub fn take(&mut self, bytes: u64) -> Option<Place> {
        let class = bytes.div_ceil(LEAST).checked_next_power_of_two()?.ilog2() as usize;
        let free = self.free.get_mut(class)?;
        if let Some(offset) = free.pop() {
            return Some(Place { offset, class });
        }
        let offset = self.end;
        self.end = offset.checked_add(LEAST << class).filter(|&end| end <= END)?;
        Some(Place { offset, class })
    }

    /// Gives room back.
    pub fn give(&mut self, place: Option<Place>) {
        if let Some(Place { offset, class }) = place {
            self.free[class].push(offset);
        }
    }
}
