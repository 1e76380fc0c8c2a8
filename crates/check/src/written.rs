//! Which bytes of device memory were written since they were allocated.

use std::collections::BTreeMap;

/// How many intervals there may be. Beyond that everything counts as written.
const MAX_INTERVALS: usize = 1 << 18;

/// The bytes that are watched and that nobody wrote yet, as intervals.
#[derive(Default)]
pub struct Written {
    /// First byte to one past the last, of bytes that nobody wrote.
    unwritten: BTreeMap<usize, usize>,
}

impl Written {
    /// Fresh memory: nobody wrote it.
    pub fn allocate(&mut self, start: usize, end: usize) {
        self.write(start, end);
        if self.unwritten.len() >= MAX_INTERVALS {
            self.unwritten.clear();
        }
        if start < end {
            self.unwritten.insert(start, end);
        }
    }

    /// These bytes were written, or are no longer of interest.
    pub fn write(&mut self, start: usize, end: usize) {
        if start >= end {
            return;
        }
        if self.unwritten.len() >= MAX_INTERVALS {
            return self.unwritten.clear();
        }
        let before = self.unwritten.range(..start).next_back().map(|(from, to)| (*from, *to));
        if let Some((from, to)) = before.filter(|(_, to)| *to > start) {
            self.unwritten.insert(from, start);
            if to > end {
                self.unwritten.insert(end, to);
            }
        }
        let inside: Vec<(usize, usize)> =
            self.unwritten.range(start..end).map(|(from, to)| (*from, *to)).collect();
        for (from, to) in inside {
            self.unwritten.remove(&from);
            if to > end {
                self.unwritten.insert(end, to);
            }
        }
    }

    /// The first of these bytes that nobody wrote.
    pub fn first_gap(&self, start: usize, end: usize) -> Option<usize> {
        let before = self.unwritten.range(..=start).next_back();
        if before.is_some_and(|(_, to)| *to > start) && start < end {
            return Some(start);
        }
        let after = (start < end).then(|| self.unwritten.range(start..end).next());
        after.flatten().map(|(from, _)| *from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn agrees_with_a_set_of_bytes(
            steps in proptest::collection::vec((any::<bool>(), 0..40usize, 0..20usize), 0..30),
            start in 0..50usize,
            length in 0..30usize,
        ) {
            let (mut written, mut model) = (Written::default(), [false; 80]);
            for (is_fresh, from, bytes) in steps {
                match is_fresh {
                    true => written.allocate(from, from + bytes),
                    false => written.write(from, from + bytes),
                }
                model[from..from + bytes].fill(is_fresh);
            }
            let gap = (start..start + length).find(|at| model[*at]);
            prop_assert_eq!(written.first_gap(start, start + length), gap);
        }
    }
}
