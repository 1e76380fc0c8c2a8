//! Whether two positions of a layout are the same element.

use crate::{DimArray, Layout};

/// How many combinations of steps are tried before a layout counts as one that repeats. Layouts that come of
/// slicing, permuting and flipping are decided without any.
const MAX_COMBINATIONS: u32 = 10_000;

/// A dimension of more than one position: how far a step goes, without its direction, and how many steps there are.
type Span = (u128, u128);

impl Layout {
    /// Whether two positions share an element: a step of 0, or steps of several dimensions that lead to the same element.
    /// Exact for up to two dimensions and for all layouts whose dimensions nest; elsewhere a layout that is not
    /// decided in `MAX_COMBINATIONS` tries counts as one that repeats.
    pub fn repeats(&self) -> bool {
        if self.is_contiguous() || self.dims().contains(&0) {
            return false;
        }
        let mut spans: DimArray<Span> = (self.dims().iter().zip(self.strides()))
            .filter(|(size, _)| **size > 1)
            .map(|(size, stride)| (stride.unsigned_abs() as u128, *size as u128 - 1))
            .collect();
        spans.sort_unstable();
        if nest(&spans) {
            return false;
        }
        let meets_shorter = |(i, a): (usize, &Span)| spans[..i].iter().any(|b| meet(*a, *b));
        if spans[0].0 == 0 || spans.iter().enumerate().any(meets_shorter) {
            return true;
        }
        spans.len() > 2 && Search { spans: &spans, budget: MAX_COMBINATIONS }.has_repeat()
    }
}

/// Whether each step goes farther than all shorter ones together.
fn nest(spans: &[Span]) -> bool {
    let mut reach = 0;
    spans.iter().all(|(step, steps)| {
        let is_longer = *step > reach;
        reach = reach.saturating_add(step * steps);
        is_longer
    })
}

/// Whether some steps of one dimension go as far as some of another.
fn meet(a: Span, b: Span) -> bool {
    let common = gcd(a.0, b.0);
    b.0 / common <= a.1 && a.0 / common <= b.1
}

/// The greatest common divisor.
fn gcd(mut a: u128, mut b: u128) -> u128 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// Looks for numbers of steps, not all 0, that lead back to the start.
struct Search<'a> {
    spans: &'a [Span],
    budget: u32,
}

impl Search<'_> {
    /// Whether there are such numbers, or the budget was spent before that was known.
    fn has_repeat(&mut self) -> bool {
        (0..self.spans.len()).rev().any(|longest| {
            let (step, steps) = self.spans[longest];
            let reach_below = reach(&self.spans[..longest]);
            (1..=steps.min(reach_below / step))
                .any(|count| self.returns_to_start(longest, step * count))
        })
    }

    /// Whether steps in the dimensions before `end` can make up a distance.
    fn returns_to_start(&mut self, end: usize, distance: u128) -> bool {
        let Some(budget) = self.budget.checked_sub(1) else { return true };
        self.budget = budget;
        let Some(at) = end.checked_sub(1) else { return distance == 0 };
        let (step, steps) = self.spans[at];
        if at == 0 {
            return distance.is_multiple_of(step) && distance / step <= steps;
        }
        let common = self.spans[..end].iter().fold(0, |all, one| gcd(one.0, all));
        let below = reach(&self.spans[..at]);
        if !distance.is_multiple_of(common) || distance > below.saturating_add(step * steps) {
            return false;
        }
        let fewest = distance.saturating_sub(below).div_ceil(step);
        let most = (distance.saturating_add(below) / step).min(steps);
        let backwards = distance < below
            && (1..=steps.min((below - distance) / step))
                .any(|count| self.returns_to_start(at, distance + step * count));
        backwards
            || (fewest..=most)
                .any(|count| self.returns_to_start(at, distance.abs_diff(step * count)))
    }
}

/// The distance of all steps together.
fn reach(spans: &[Span]) -> u128 {
    spans.iter().fold(0, |all, (step, steps)| all.saturating_add(step * steps))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DType;
    use proptest::prelude::*;
    use std::collections::HashSet;

    const F: DType = DType::Float;

    fn strided(dims: &[usize], strides: &[isize]) -> Layout {
        Layout::strided(F, dims, strides, 0)
    }

    #[test]
    fn elements_that_share_memory_are_found() {
        assert!(strided(&[2, 2], &[1, 1]).repeats());
        assert!(strided(&[2, 2], &[1, -1]).repeats());
        assert!(strided(&[3, 5], &[0, 1]).repeats());
        assert!(strided(&[5, 3], &[1, 1]).repeats());
        assert!(strided(&[3, 4], &[3, 2]).repeats());
        assert!(strided(&[2, 2, 2], &[1, 2, 3]).repeats());
        assert!(strided(&[1 << 40, 1 << 40], &[3, 5]).repeats());
        assert!(strided(&[2, 2, 2, 2], &[7, 8, 14, 15]).repeats());
    }

    #[test]
    fn ordinary_layouts_do_not_repeat() {
        let plain = Layout::contiguous(F, &[4, 6, 5]);
        let layouts = [
            plain,
            plain.permuted(&[2, 0, 1]),
            plain.sliced(1, 1, 3, 2).sliced(2, 4, 5, -1),
            plain.sliced(1, 5, 6, -1).transposed(0, 2),
            plain.with(1),
            strided(&[1, 3], &[0, 1]),
            strided(&[0, 3], &[0, 0]),
            strided(&[], &[]),
            strided(&[2, 3], &[3, 2]),
            strided(&[1000, 1000], &[1000, 999]),
            strided(&[usize::MAX / 2], &[1]),
            strided(&[2, 2, 2], &[1, 2, 4]),
        ];
        for layout in layouts {
            assert!(!layout.repeats(), "{layout:?}");
        }
    }

    #[test]
    fn what_takes_too_long_counts_as_repeated() {
        let sizes = [1000; 8];
        let strides: Vec<isize> =
            (0..8).map(|at| 1_000_003 * (1 << 40) + (at * 7919) * at).collect();
        assert!(strided(&sizes, &strides).repeats());
    }

    proptest! {
        #[test]
        fn agrees_with_counting(dims in prop::collection::vec(0usize..5, 0..5), steps in prop::collection::vec(-20isize..20, 5)) {
            let layout = strided(&dims, &steps[..dims.len()]);
            let mut offsets = vec![0isize];
            for (size, step) in dims.iter().zip(&steps) {
                offsets = offsets.iter().flat_map(|at| (0..*size as isize).map(move |i| at + i * step)).collect();
            }
            let distinct: HashSet<isize> = offsets.iter().copied().collect();
            prop_assert_eq!(layout.repeats(), distinct.len() < offsets.len());
        }
    }
}
