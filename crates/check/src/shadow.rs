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

use crate::moment::Touch;
use cairn_record::{Overlap, StreamIndex};
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::rc::Rc;

/// How many accesses of a kind an interval remembers; the oldest is forgotten first.
const MAX_TOUCHES: usize = 8;

/// How many intervals there may be. Beyond that everything is forgotten, and nothing is reported for it.
const MAX_INTERVALS: usize = 4 << 20;

/// The accesses of all memory that is watched.
#[derive(Default)]
pub struct Shadow {
    intervals: BTreeMap<usize, Interval>,
}

#[derive(Clone, Default)]
struct Interval {
    end: usize,
    writes: SmallVec<[Rc<Touch>; 1]>,
    reads: SmallVec<[Rc<Touch>; 2]>,
}

impl Interval {
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

    /// Remembers an access. One that may or may not touch its bytes is not remembered.
    pub fn remember(&mut self, touch: &Rc<Touch>) {
        let (start, end) = bounds(touch);
        if touch.access.indexed || start >= end {
            return;
        }
        if self.intervals.len() > MAX_INTERVALS {
            self.intervals.clear();
        }
        if touch.access.mode.writes() && touch.access.is_dense() {
            self.forget(start, end);
            let writes = [touch.clone()].into_iter().collect();
            self.intervals.insert(start, Interval { end, writes, reads: SmallVec::new() });
            return;
        }
        self.split(start);
        self.split(end);
        let mut gaps = Vec::new();
        let mut reached = start;
        for (&from, interval) in self.intervals.range_mut(start..end) {
            if from > reached {
                gaps.push((reached, from));
            }
            interval.add(touch);
            reached = interval.end;
        }
        if reached < end {
            gaps.push((reached, end));
        }
        for (from, to) in gaps {
            let mut interval = Interval { end: to, ..Interval::default() };
            interval.add(touch);
            self.intervals.insert(from, interval);
        }
    }

    /// Forgets every access of these bytes.
    pub fn forget(&mut self, start: usize, end: usize) {
        self.split(start);
        self.split(end);
        let inside: SmallVec<[usize; 8]> = match start < end {
            true => self.intervals.range(start..end).map(|(from, _)| *from).collect(),
            false => SmallVec::new(),
        };
        inside.iter().for_each(|from| _ = self.intervals.remove(from));
    }

    /// Forgets the accesses of these bytes by every stream but one.
    pub fn forget_others(&mut self, start: usize, end: usize, stream: StreamIndex) {
        self.split(start);
        self.split(end);
        if start < end {
            for (_, interval) in self.intervals.range_mut(start..end) {
                let is_kept = |touch: &mut Rc<Touch>| touch.task.epoch.stream == stream;
                interval.writes.retain(is_kept);
                interval.reads.retain(is_kept);
            }
        }
    }

    /// Makes an interval end at `at` if one goes across.
    fn split(&mut self, at: usize) {
        let Some((_, interval)) = self.intervals.range_mut(..at).next_back() else { return };
        if interval.end > at {
            let rest = interval.clone();
            interval.end = at;
            self.intervals.insert(at, rest);
        }
    }
}

#[cfg(test)]
mod tests;
