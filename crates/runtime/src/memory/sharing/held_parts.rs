//! How often each part of a file is held.

use std::collections::BTreeMap;
use std::ops::Range;

/// Ranges that are held, each as often as it was added; split where ranges that overlap begin and end. For locks of the
/// kernel, which do not count: one that is released is gone from all of its bytes.
#[derive(Debug, Default)]
pub struct HeldParts {
    /// Where each part begins: its end, and how often it is held. Parts do not overlap, and neighbours of one count may be
    /// apart.
    parts: BTreeMap<u64, (u64, usize)>,
}

impl HeldParts {
    /// Holds a range once more. The parts of it that nobody held before.
    pub fn add(&mut self, range: Range<u64>) -> Vec<Range<u64>> {
        self.split(range.start);
        self.split(range.end);
        let (mut fresh, mut at) = (Vec::new(), range.start);
        for (&start, (end, count)) in self.parts.range_mut(range.clone()) {
            *count += 1;
            if at < start {
                fresh.push(at..start);
            }
            at = *end;
        }
        if at < range.end {
            fresh.push(at..range.end);
        }
        for part in &fresh {
            self.parts.insert(part.start, (part.end, 1));
        }
        fresh
    }

    /// Holds a range that was added once less. The parts of it that nobody holds any more.
    pub fn remove(&mut self, range: Range<u64>) -> Vec<Range<u64>> {
        self.split(range.start);
        self.split(range.end);
        let mut free: Vec<Range<u64>> = Vec::new();
        for (&start, (end, count)) in self.parts.range_mut(range.clone()) {
            *count -= 1;
            if *count > 0 {
                continue;
            }
            match free.last_mut() {
                Some(last) if last.end == start => last.end = *end,
                _ => free.push(start..*end),
            }
        }
        for part in &free {
            let starts: Vec<u64> =
                self.parts.range(part.clone()).map(|(&start, _)| start).collect();
            starts.iter().for_each(|start| _ = self.parts.remove(start));
        }
        self.join(range.start);
        self.join(range.end);
        free
    }

    /// A part begins at `at`, if one lies around it.
    fn split(&mut self, at: u64) {
        if let Some((_, (end, count))) = self.parts.range_mut(..at).next_back()
            && at < *end
        {
            let rest = (std::mem::replace(end, at), *count);
            self.parts.insert(at, rest);
        }
    }

    /// Makes one of two neighbours that meet at `at`, if both are held as often.
    fn join(&mut self, at: u64) {
        let Some(&(after_end, after_count)) = self.parts.get(&at) else { return };
        if let Some((_, (end, count))) = self.parts.range_mut(..at).next_back()
            && (*end, *count) == (at, after_count)
        {
            *end = after_end;
            self.parts.remove(&at);
        }
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_free_when_all_that_hold_it_let_go() {
        let starts_and_ends = |parts: Vec<Range<u64>>| -> Vec<(u64, u64)> {
            parts.into_iter().map(|part| (part.start, part.end)).collect()
        };
        let mut held = HeldParts::default();
        assert_eq!(starts_and_ends(held.add(0..8)), [(0, 8)]);
        assert_eq!(starts_and_ends(held.add(4..8)), []);
        assert_eq!(starts_and_ends(held.add(6..10)), [(8, 10)]);
        assert_eq!(starts_and_ends(held.remove(0..8)), [(0, 4)]);
        assert_eq!(starts_and_ends(held.remove(6..10)), [(8, 10)]);
        assert_eq!(starts_and_ends(held.add(0..12)), [(0, 4), (8, 12)]);
        assert_eq!(starts_and_ends(held.remove(4..8)), []);
        assert_eq!(starts_and_ends(held.remove(0..12)), [(0, 12)]);
        assert!(held.parts.is_empty());
    }

    #[test]
    fn parts_are_as_a_count_for_each_page_says() {
        const PAGES: usize = 40;
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut random = |below: usize| {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            (state >> 33) as usize % below
        };
        let (mut held, mut counts, mut live) =
            (HeldParts::default(), [0usize; PAGES], Vec::<Range<usize>>::new());
        for step in 0..20_000 {
            // Grows and shrinks by turns, down to nothing now and then.
            let adds = live.is_empty() || random(100) < if step / 50 % 2 == 0 { 70 } else { 20 };
            let (range, parts, edge) = if adds {
                let start = random(PAGES);
                let range = start..start + 1 + random(PAGES - start);
                live.push(range.clone());
                counts[range.clone()].iter_mut().for_each(|count| *count += 1);
                (range.clone(), held.add(range.start as u64..range.end as u64), 1)
            } else {
                let range = live.swap_remove(random(live.len()));
                counts[range.clone()].iter_mut().for_each(|count| *count -= 1);
                (range.clone(), held.remove(range.start as u64..range.end as u64), 0)
            };
            let expected: Vec<u64> =
                range.filter(|&page| counts[page] == edge).map(|page| page as u64).collect();
            assert_eq!(parts.into_iter().flatten().collect::<Vec<_>>(), expected, "step {step}");
            for (page, &count) in counts.iter().enumerate() {
                let page = page as u64;
                let found = held.parts.range(..=page).next_back();
                let found = found.filter(|(_, (end, _))| page < *end).map_or(0, |(_, part)| part.1);
                assert_eq!(found, count, "page {page} in step {step}");
            }
            assert!(!live.is_empty() || held.parts.is_empty());
        }
    }
}
