//! Which parts of the window tasks may touch: neighbouring pieces as one run.

use super::physical::Place;
use super::window::{WINDOW, Window};
use crate::memory::locate::{AddressBlock, BlockKind};
use crate::memory::ranges::{Allocation, State};
use std::ops::Range;

/// The tag of a run on the host; others are those of devices.
const HOST: u32 = 1 << 16;

fn tag(place: Place) -> u32 {
    match place {
        Place::Device(device) => device,
        Place::Host => HOST,
    }
}

fn offset(address: usize) -> u64 {
    (address - WINDOW.start) as u64
}

impl Window {
    /// The run around an address of the window.
    pub fn run(&self, address: usize) -> Option<(Place, AddressBlock)> {
        let found = self.runs.find(offset(address))?;
        let place = if found.tag == HOST { Place::Host } else { Place::Device(found.tag) };
        let block = AddressBlock {
            start: WINDOW.start + found.start as usize,
            bytes: found.size,
            live: found.state == State::Live,
            huge: true,
            kind: BlockKind::Mapped,
        };
        Some((place, block))
    }

    /// Lets tasks touch a range of a reservation, merged with its neighbours there, which readers find at every moment.
    pub fn show(&self, reservation: &Range<usize>, range: &Range<usize>, place: Place) {
        let is_same = |found: &Allocation| found.tag == tag(place);
        let before = (range.start > reservation.start)
            .then(|| self.runs.find(offset(range.start) - 1))
            .flatten()
            .filter(is_same);
        let after = (range.end < reservation.end)
            .then(|| self.runs.find(offset(range.end)))
            .flatten()
            .filter(is_same);
        let end = after.map_or(offset(range.end), |found| found.start + found.size);
        match before {
            Some(found) => _ = self.runs.resize(found.start, end - found.start),
            None => {
                let start = offset(range.start);
                self.runs.insert(start, end - start, tag(place));
            }
        }
        if let Some(found) = after {
            self.runs.remove(found.start);
        }
    }

    /// From now on no task finds the range; readers find the rest at every moment.
    pub fn hide(&self, range: &Range<usize>) {
        let (start, end) = (offset(range.start), offset(range.end));
        let Some(found) = self.runs.find(start) else { return };
        let run_end = found.start + found.size;
        match (found.start < start, end < run_end) {
            (false, false) => _ = self.runs.remove(found.start),
            (false, true) => _ = self.runs.cut_front(found.start, end - start),
            (true, has_rest) => {
                if has_rest {
                    self.runs.insert(end, run_end - end, found.tag);
                }
                self.runs.resize(found.start, start - found.start);
            }
        }
    }
}
