//! Who touched which bytes last.
//!
//! ```text
//!  addresses   ──────┬───────────┬───────┬─────────────────────
//!                    │ written A │ w. B  │ written A
//!                    │ read C, D │       │ read C
//!  ──────────────────┴───────────┴───────┴─────────────────────
//! ```
//!
//! A map of intervals that do not overlap. Each has the accesses that a later one can conflict with: the last writes, and
//! the reads since. A write of every byte replaces what was there: whoever is ordered after it is ordered after that too.
//!
//! Its memory is bounded. When the bound is reached, what the program knows to be finished is forgotten, which changes nothing;
//! if that is not enough, all of it, and conflicts with what was forgotten are not reported.

use crate::moment::Touch;
use cairn_record::{Clock, Overlap, StreamIndex};
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::rc::Rc;

/// How many accesses of a kind an interval remembers; the oldest is forgotten first.
const MAX_TOUCHES: usize = 64;

/// Bytes of the host that an interval takes at most, and each access that it remembers.
const INTERVAL_BYTES: usize = 256;
const TOUCH_BYTES: usize = 512;

/// The bound where nothing is known of devices.
const DEFAULT_BYTES: usize = 256 << 20;

/// The accesses of all memory that is watched.
pub struct Shadow {
    intervals: BTreeMap<usize, Interval>,
    /// Accesses in all intervals: one that lies in several counts in each.
    touches: usize,
    max_bytes: usize,
    /// At this size what is finished is forgotten.
    sweep_bytes: usize,
}

impl Default for Shadow {
    fn default() -> Shadow {
        Shadow {
            intervals: BTreeMap::new(),
            touches: 0,
            max_bytes: DEFAULT_BYTES,
            sweep_bytes: DEFAULT_BYTES / 16,
        }
    }
}

#[derive(Clone, Default)]
struct Interval {
    end: usize,
    writes: SmallVec<[Rc<Touch>; 1]>,
    reads: SmallVec<[Rc<Touch>; 2]>,
}

impl Interval {
    fn len(&self) -> usize {
        self.writes.len() + self.reads.len()
    }

    fn add(&mut self, touch: &Rc<Touch>) {
        let list: &mut dyn Touches = match touch.access.mode.writes() {
            true => &mut self.writes,
            false => &mut self.reads,
        };
        let stream = touch.task.epoch.stream;
        if touch.access.is_dense() {
            // A later access of the same stream that touches all of it stands for the earlier ones.
            list.forget(&|earlier| earlier.task.epoch.stream == stream);
        }
        list.push_bounded(touch.clone());
    }

    fn forget(&mut self, is_forgotten: impl Fn(&Touch) -> bool) {
        self.writes.retain(|touch| !is_forgotten(touch));
        self.reads.retain(|touch| !is_forgotten(touch));
    }
}

/// A bounded list of accesses, whatever its inline size.
trait Touches {
    fn forget(&mut self, is_replaced: &dyn Fn(&Touch) -> bool);
    fn push_bounded(&mut self, touch: Rc<Touch>);
}

impl<const N: usize> Touches for SmallVec<[Rc<Touch>; N]>
where
    [Rc<Touch>; N]: smallvec::Array<Item = Rc<Touch>>,
{
    fn forget(&mut self, is_replaced: &dyn Fn(&Touch) -> bool) {
        self.retain(|touch| !is_replaced(touch));
    }

    fn push_bounded(&mut self, touch: Rc<Touch>) {
        if self.len() == MAX_TOUCHES {
            self.remove(0);
        }
        self.push(touch);
    }
}

/// The bytes between the bounds of an access.
fn bounds(touch: &Touch) -> (usize, usize) {
    let (start, end) = touch.access.bounds();
    (start as usize, end as usize)
}

impl Shadow {
    /// From now on it takes at most so many bytes of the host.
    pub fn limit(&mut self, max_bytes: usize) {
        self.max_bytes = max_bytes;
        self.sweep_bytes = self.sweep_bytes.min(max_bytes / 2);
    }

    /// How many bytes of the host it takes, at most.
    pub fn bytes(&self) -> usize {
        self.intervals.len() * INTERVAL_BYTES + self.touches * TOUCH_BYTES
    }

    /// Calls `report` for each earlier access that shares a byte with `touch`, of which at least one writes, in the order of
    /// addresses; an access that lies in several intervals comes several times.
    pub fn conflicts(&self, touch: &Touch, mut report: impl FnMut(&Rc<Touch>)) {
        let (start, end) = bounds(touch);
        let writes = touch.access.mode.writes();
        for interval in self.overlapping(start, end) {
            let reads = interval.reads.iter().filter(|_| writes);
            for earlier in interval.writes.iter().chain(reads) {
                if earlier.access.overlap(&touch.access) == Overlap::Yes {
                    report(earlier);
                }
            }
        }
    }

    /// Calls `report` for each remembered access of these bytes.
    pub fn touches(&self, start: usize, end: usize, mut report: impl FnMut(&Rc<Touch>)) {
        for interval in self.overlapping(start, end) {
            interval.writes.iter().chain(&interval.reads).for_each(&mut report);
        }
    }

    fn overlapping(&self, start: usize, end: usize) -> impl Iterator<Item = &Interval> {
        let before = self.intervals.range(..start).next_back();
        let first = before.filter(|(_, interval)| interval.end > start);
        let rest = (start < end).then(|| self.intervals.range(start..end));
        first.into_iter().chain(rest.into_iter().flatten()).map(|(_, interval)| interval)
    }

    /// Remembers an access. One that may or may not touch its bytes is not remembered. `known` is what the program knows to be
    /// finished.
    pub fn remember(&mut self, touch: &Rc<Touch>, known: &Clock) {
        let (start, end) = bounds(touch);
        if touch.access.indexed || start >= end {
            return;
        }
        if touch.access.mode.writes() && touch.access.is_dense() {
            self.forget(start, end);
            let writes = [touch.clone()].into_iter().collect();
            self.insert(start, Interval { end, writes, reads: SmallVec::new() });
        } else {
            self.add(touch, start, end);
        }
        if self.bytes() > self.sweep_bytes {
            self.sweep(known);
        }
    }

    fn add(&mut self, touch: &Rc<Touch>, start: usize, end: usize) {
        self.split(start);
        self.split(end);
        let mut gaps: SmallVec<[(usize, usize); 4]> = SmallVec::new();
        let mut reached = start;
        for (&from, interval) in self.intervals.range_mut(start..end) {
            if from > reached {
                gaps.push((reached, from));
            }
            self.touches -= interval.len();
            interval.add(touch);
            self.touches += interval.len();
            reached = interval.end;
        }
        if reached < end {
            gaps.push((reached, end));
        }
        for (from, to) in gaps {
            let mut interval = Interval { end: to, ..Interval::default() };
            interval.add(touch);
            self.insert(from, interval);
        }
    }

    /// Forgets what is finished, and everything if that is not enough.
    fn sweep(&mut self, known: &Clock) {
        self.intervals.retain(|_, interval| {
            self.touches -= interval.len();
            interval.forget(|touch| known.covers(touch.task.epoch));
            self.touches += interval.len();
            interval.len() > 0
        });
        if self.bytes() > self.max_bytes / 2 {
            self.intervals.clear();
            self.touches = 0;
        }
        // Twice as much as there is now: sweeping stays cheap.
        self.sweep_bytes = (2 * self.bytes()).max(DEFAULT_BYTES / 16).min(self.max_bytes);
    }

    fn insert(&mut self, from: usize, interval: Interval) {
        self.touches += interval.len();
        self.intervals.insert(from, interval);
    }

    /// Forgets every access of these bytes.
    pub fn forget(&mut self, start: usize, end: usize) {
        self.split(start);
        self.split(end);
        let inside: SmallVec<[usize; 8]> = match start < end {
            true => self.intervals.range(start..end).map(|(from, _)| *from).collect(),
            false => SmallVec::new(),
        };
        for from in inside {
            self.touches -= self.intervals.remove(&from).map_or(0, |interval| interval.len());
        }
    }

    /// Forgets the accesses of these bytes by every stream but one.
    pub fn forget_others(&mut self, start: usize, end: usize, stream: StreamIndex) {
        self.split(start);
        self.split(end);
        if start < end {
            for (_, interval) in self.intervals.range_mut(start..end) {
                self.touches -= interval.len();
                interval.forget(|touch| touch.task.epoch.stream != stream);
                self.touches += interval.len();
            }
        }
    }

    /// Makes an interval end at `at` if one goes across.
    fn split(&mut self, at: usize) {
        let Some((_, interval)) = self.intervals.range_mut(..at).next_back() else { return };
        if interval.end > at {
            let rest = interval.clone();
            interval.end = at;
            self.insert(at, rest);
        }
    }
}

#[cfg(test)]
mod tests;
