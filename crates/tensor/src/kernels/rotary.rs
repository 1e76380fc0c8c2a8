//! Rotary position embedding: pairs of elements of the last dimension, rotated.
//!
//! `y = x1 * cos + x2 * sin` along each line, where `x1` is the line (for one rotation in another order), and `x2` has
//! the partner of each element with a sign.

use super::lines::{BUFFER, Lines};
use super::math::Real;
use crate::parallel::Parallel;
use crate::{View, ViewMut};

/// The longest line that is rotated.
pub const LONGEST: usize = BUFFER;

/// Which elements of a line are pairs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rotation {
    /// Those half a line apart.
    Half,
    /// Neighbours.
    Interleave,
    /// Those a quarter apart, in each half.
    Quarter,
    /// Neighbours; those at even indices go to the first half, the others to the second.
    InterleaveHalf,
}

impl Rotation {
    /// The number of elements that a line must be a multiple of.
    pub fn grain(self) -> usize {
        if self == Rotation::Quarter { 4 } else { 2 }
    }

    /// For index `i` of a result of `length`: the index of the element, that of its partner, and whether the partner
    /// changes its sign.
    #[inline(always)]
    fn pair(self, i: usize, length: usize) -> (usize, usize, bool) {
        let half = length / 2;
        match self {
            Rotation::Half if i < half => (i, i + half, true),
            Rotation::Half => (i, i - half, false),
            Rotation::Interleave => (i, i ^ 1, i.is_multiple_of(2)),
            Rotation::Quarter => {
                let (start, quarter) = (i / half * half, half / 2);
                let (at, other, negated) = Rotation::Half.pair(i - start, quarter * 2);
                (start + at, start + other, negated)
            }
            Rotation::InterleaveHalf if i < half => (2 * i, 2 * i + 1, true),
            Rotation::InterleaveHalf => (2 * (i - half) + 1, 2 * (i - half), false),
        }
    }

    /// Rotates a line.
    #[inline(always)]
    pub(crate) fn rotate<C: Real>(self, x: &[C], cos: &[C], sin: &[C], y: &mut [C]) {
        let half = x.len() / 2;
        match self {
            Rotation::Half => {
                let ((x1, x2), (y1, y2)) = (x.split_at(half), y.split_at_mut(half));
                let ((c1, c2), (s1, s2)) = (cos.split_at(half), sin.split_at(half));
                for i in 0..half {
                    y1[i] = x1[i].mul(c1[i]).sub(x2[i].mul(s1[i]));
                    y2[i] = x2[i].mul(c2[i]).add(x1[i].mul(s2[i]));
                }
            }
            Rotation::Quarter => {
                for part in [0..half, half..x.len()] {
                    let part = || part.clone();
                    Rotation::Half.rotate(&x[part()], &cos[part()], &sin[part()], &mut y[part()]);
                }
            }
            _ => {
                for (i, y) in y.iter_mut().enumerate() {
                    let (at, other, negated) = self.pair(i, x.len());
                    let partner = if negated { x[other].neg() } else { x[other] };
                    *y = x[at].mul(cos[i]).add(partner.mul(sin[i]));
                }
            }
        }
    }

    /// The gradient of the line, from that of the result.
    #[inline(always)]
    pub(crate) fn rotate_backward<C: Real>(self, dy: &[C], cos: &[C], sin: &[C], dx: &mut [C]) {
        dx.fill(C::ZERO);
        for i in 0..dy.len() {
            let (at, other, negated) = self.pair(i, dy.len());
            let by_sin = dy[i].mul(sin[i]);
            dx[at] = dx[at].add(dy[i].mul(cos[i]));
            dx[other] = if negated { dx[other].sub(by_sin) } else { dx[other].add(by_sin) };
        }
    }
}

/// Rotates the lines of the last dimension; or, `backward`, computes the gradients of the lines from those of the result. All
/// have the same sizes; `out` is `x` itself or overlaps none. Lines are at most [`LONGEST`].
pub fn rotate<C: Real>(
    parallel: &dyn Parallel,
    rotation: Rotation,
    backward: bool,
    out: ViewMut<'_>,
    [x, cos, sin]: [View<'_>; 3],
) {
    let lines = Lines::new([out.view(), x, cos, sin], x.rank() - 1);
    let length = lines.length();
    assert!(length <= LONGEST);
    lines.for_each_range(parallel, |range| {
        let mut buffer = [[C::ZERO; LONGEST]; 4];
        let [x, cos, sin, y] = buffer.each_mut().map(|one| &mut one[..length]);
        lines.each(range, |offsets| {
            lines.load(1, offsets, 0, x);
            lines.load(2, offsets, 0, cos);
            lines.load(3, offsets, 0, sin);
            match backward {
                false => rotation.rotate(x, cos, sin, y),
                true => rotation.rotate_backward(x, cos, sin, y),
            }
            lines.store(&out, 0, offsets, 0, y);
        });
    });
}

/// The gradient of each cosine (`by_cos`) or sine, from the gradient `dy` of the result.
/// All have the same sizes; `out` overlaps none of the others.
pub fn rotated_products<C: Real>(
    parallel: &dyn Parallel,
    rotation: Rotation,
    by_cos: bool,
    out: ViewMut<'_>,
    x: View<'_>,
    dy: View<'_>,
) {
    let lines = Lines::new([out.view(), x, dy], x.rank() - 1);
    let length = lines.length();
    assert!(length <= LONGEST);
    lines.for_each_range(parallel, |range| {
        let mut buffer = [[C::ZERO; LONGEST]; 3];
        let [x, dy, to] = buffer.each_mut().map(|one| &mut one[..length]);
        lines.each(range, |offsets| {
            lines.load(1, offsets, 0, x);
            lines.load(2, offsets, 0, dy);
            for i in 0..length {
                let (at, other, negated) = rotation.pair(i, length);
                to[i] = match (by_cos, negated) {
                    (true, _) => dy[i].mul(x[at]),
                    (false, false) => dy[i].mul(x[other]),
                    (false, true) => dy[i].mul(x[other]).neg(),
                };
            }
            lines.store(&out, 0, offsets, 0, to);
        });
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ALL: [Rotation; 4] =
        [Rotation::Half, Rotation::Interleave, Rotation::Quarter, Rotation::InterleaveHalf];

    proptest! {
        /// The rotation is linear, so its gradient is the transposed matrix.
        #[test]
        fn backward_is_the_transpose(
            which in 0usize..4,
            quarters in 1usize..6,
            seed in prop::collection::vec(-2.0f64..2.0, 96),
        ) {
            let (rotation, length) = (ALL[which], quarters * 4);
            let (cos, sin) = (&seed[..length], &seed[24..24 + length]);
            for from in 0..length {
                let mut unit = vec![0.0; length];
                unit[from] = 1.0;
                let (mut y, mut dx) = (vec![0.0; length], vec![0.0; length]);
                rotation.rotate(&unit, cos, sin, &mut y);
                for to in 0..length {
                    let mut grad = vec![0.0; length];
                    grad[to] = 1.0;
                    rotation.rotate_backward(&grad, cos, sin, &mut dx);
                    prop_assert_eq!(y[to], dx[from]);
                }
            }
        }

        #[test]
        fn fast_paths_follow_the_pairs(
            which in 0usize..4,
            quarters in 1usize..6,
            seed in prop::collection::vec(-2.0f64..2.0, 96),
        ) {
            let (rotation, length) = (ALL[which], quarters * 4);
            let (x, cos, sin) = (&seed[..length], &seed[24..24 + length], &seed[48..48 + length]);
            let mut y = vec![0.0; length];
            rotation.rotate(x, cos, sin, &mut y);
            for i in 0..length {
                let (at, other, negated) = rotation.pair(i, length);
                let partner = if negated { -x[other] } else { x[other] };
                prop_assert!((y[i] - (x[at] * cos[i] + partner * sin[i])).abs() < 1e-12);
            }
        }
    }
}
