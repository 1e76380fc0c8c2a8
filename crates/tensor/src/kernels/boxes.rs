//! Rectangles: how much of them overlaps, and non-maximum suppression.

use super::access::{OffsetAccess, OffsetAccessMut};
use crate::{View, ViewMut};

/// A rectangle by two corners, of which the first is the lesser.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rectangle {
    /// The first corner: x, y.
    pub low: [f64; 2],
    /// The other.
    pub high: [f64; 2],
}

/// How much of two rectangles is common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overlap {
    /// By the area that either covers.
    OverUnion,
    /// By the area of the second.
    OverSecond,
}

impl Rectangle {
    /// By its centre, width and height.
    pub fn from_centre(centre: [f64; 2], size: [f64; 2]) -> Rectangle {
        let corner = |sign: f64| [0, 1].map(|i| centre[i] + sign * size[i] / 2.0);
        Rectangle { low: corner(-1.0), high: corner(1.0) }
    }

    /// Its sides, each `extra` longer.
    fn sides(&self, extra: f64) -> [f64; 2] {
        [0, 1].map(|i| self.high[i] - self.low[i] + extra)
    }

    fn area(&self, extra: f64) -> f64 {
        let [width, height] = self.sides(extra);
        width * height
    }

    /// The area that both cover.
    pub fn common(&self, other: &Rectangle, extra: f64) -> f64 {
        let side = |i: usize| {
            (self.high[i].min(other.high[i]) - self.low[i].max(other.low[i]) + extra).max(0.0)
        };
        side(0) * side(1)
    }

    /// How much of it and another is common; sides are `extra` longer.
    pub fn overlap(&self, other: &Rectangle, how: Overlap, extra: f64) -> f64 {
        let common = self.common(other, extra);
        match how {
            Overlap::OverUnion => common / (self.area(extra) + other.area(extra) - common),
            Overlap::OverSecond => common / other.area(extra),
        }
    }
}

/// Limits of non-maximum suppression in one class.
#[derive(Clone, Copy, Debug)]
pub struct Suppression {
    /// No more than this many.
    pub most: usize,
    /// One that overlaps a kept one by more than this is not.
    pub overlap: f64,
    /// One with no greater score than this is not.
    pub score: f64,
}

/// Non-maximum suppression of rectangles, which suppress others that they overlap by more than the rule says: see
/// [`keep_best`].
pub fn suppress(
    scores: View<'_>,
    rectangle: impl Fn(usize) -> Rectangle,
    rule: Suppression,
    order: ViewMut<'_>,
    kept: ViewMut<'_>,
) -> usize {
    let suppresses = |kept: &Rectangle, here: &Rectangle| {
        here.overlap(kept, Overlap::OverUnion, 0.0) > rule.overlap
    };
    keep_best(scores, (rule.score, rule.most), rectangle, suppresses, order, kept)
}

/// Goes through scores from the greatest down, of equal ones the first first, and writes the numbers of those that are kept
/// to `kept`; returns how many. Only scores above the first of the limits count, and no more are kept than the second
/// says; nor one whose shape a kept one `suppresses`. `order` has as many integers as there are scores; both are
/// contiguous and of 64 bits.
pub fn keep_best<S>(
    scores: View<'_>,
    (least, most): (f64, usize),
    shape: impl Fn(usize) -> S,
    suppresses: impl Fn(&S, &S) -> bool,
    order: ViewMut<'_>,
    kept: ViewMut<'_>,
) -> usize {
    let (scores, count) = (OffsetAccess::<f64>::new(scores), scores.count());
    let (order, kept) = (OffsetAccessMut::<i64>::new(order), OffsetAccessMut::<i64>::new(kept));
    let score = |at: i64| scores.get(at as isize);
    let mut candidates = 0isize;
    for at in 0..count as i64 {
        if score(at) > least {
            order.set(candidates, at);
            candidates += 1;
        }
    }
    sort(candidates, &order, |a, b| score(a) > score(b) || (score(a) == score(b) && a < b));
    let mut kept_count = 0usize;
    for at in 0..candidates {
        if kept_count == most {
            break;
        }
        let candidate = order.get(at);
        let here = shape(candidate as usize);
        let is_suppressed = (0..kept_count as isize)
            .any(|other| suppresses(&shape(kept.get(other) as usize), &here));
        if !is_suppressed {
            kept.set(kept_count as isize, candidate);
            kept_count += 1;
        }
    }
    kept_count
}

/// Heap sort of the first `count` numbers.
fn sort(count: isize, numbers: &OffsetAccessMut<'_, i64>, before: impl Fn(i64, i64) -> bool) {
    let sift_down = |mut at: isize, end: isize| loop {
        let mut child = 2 * at + 1;
        if child >= end {
            return;
        }
        if child + 1 < end && before(numbers.get(child), numbers.get(child + 1)) {
            child += 1;
        }
        let (one, other) = (numbers.get(at), numbers.get(child));
        if !before(one, other) {
            return;
        }
        numbers.set(at, other);
        numbers.set(child, one);
        at = child;
    };
    (0..count / 2).rev().for_each(|at| sift_down(at, count));
    for end in (1..count).rev() {
        let (first, last) = (numbers.get(0), numbers.get(end));
        numbers.set(0, last);
        numbers.set(end, first);
        sift_down(0, end);
    }
}
