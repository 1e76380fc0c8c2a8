//! How well two rectangles agree (GIoU, DIoU, CIoU), and the gradients of that by their corners. The formulas are written
//! once, over numbers that may carry their gradients with them.

use super::boxes::{Overlap, Rectangle};
use std::array::from_fn;
use std::f64::consts::PI;
use std::ops::{Add, Div, Mul, Sub};

/// A measure of agreement: the overlap, less a cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Agreement {
    /// GIoU: the cost is the share of the rectangle around both that neither covers.
    Generalized,
    /// DIoU: the cost is the distance of the centres by the diagonal of the rectangle around both, both squared.
    Distance,
    /// CIoU: the cost is that of [`Agreement::Distance`], and one of the difference of the aspect ratios.
    Complete,
}

/// How well a pair agrees.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Agreed<T> {
    /// The measure.
    pub measure: T,
    /// The angle of the second's diagonal less that of the first's; 0 where the measure needs none.
    pub rotation: T,
}

/// The gradients by the corners of two rectangles: x and y of the first corner, then of the other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gradients {
    /// By the corners of the first.
    pub first: [f64; 4],
    /// By the corners of the second.
    pub second: [f64; 4],
}

impl Agreement {
    /// What is added to divisors that might be 0.
    fn epsilon(self) -> f64 {
        if self == Agreement::Generalized { 1e-16 } else { 1e-9 }
    }

    /// How well two rectangles agree.
    pub fn of(self, one: &Rectangle, other: &Rectangle, how: Overlap) -> Agreed<f64> {
        self.compute(corners(one), corners(other), how)
    }

    /// The gradients of the measure. Where two sides coincide, each has half of the gradient.
    pub fn gradients(self, one: &Rectangle, other: &Rectangle, how: Overlap) -> Gradients {
        let variables = |values: [f64; 4], first: usize| {
            from_fn(|i| Dual {
                value: values[i],
                gradients: from_fn(|at| f64::from(u8::from(at == first + i))),
            })
        };
        let agreed = self.compute(variables(corners(one), 0), variables(corners(other), 4), how);
        let gradients = agreed.measure.gradients;
        Gradients { first: from_fn(|i| gradients[i]), second: from_fn(|i| gradients[4 + i]) }
    }

    /// The measure, over numbers or dual numbers.
    fn compute<T: Number>(self, a: [T; 4], b: [T; 4], how: Overlap) -> Agreed<T> {
        let (epsilon, zero) = (T::from(self.epsilon()), T::from(0.0));
        let inner = |i: usize| (a[i + 2].lesser(b[i + 2]) - a[i].greater(b[i])).positive();
        let enclosing = |i: usize| a[i + 2].greater(b[i + 2]) - a[i].lesser(b[i]);
        let sides = |one: &[T; 4]| {
            let extra = if self == Agreement::Generalized { zero } else { epsilon };
            (one[2] - one[0], one[3] - one[1] + extra)
        };
        let area = |one: &[T; 4]| {
            let (width, height) = sides(one);
            width * height
        };
        let common = inner(0) * inner(1);
        let union = area(&a) + area(&b) - common + epsilon;
        let overlap = match how {
            Overlap::OverUnion => common / union,
            Overlap::OverSecond => common / (area(&b) + epsilon),
        };
        if self == Agreement::Generalized {
            let outer = (enclosing(0) * enclosing(1)).magnitude();
            return Agreed { measure: overlap - (outer - union) / outer, rotation: zero };
        }
        let centre_distance = |i: usize| b[i] + b[i + 2] - a[i] - a[i + 2];
        let distance = (centre_distance(0) * centre_distance(0)
            + centre_distance(1) * centre_distance(1))
            / T::from(4.0);
        let diagonal = enclosing(0) * enclosing(0) + enclosing(1) * enclosing(1) + epsilon;
        let distance_iou = overlap - distance / diagonal;
        if self == Agreement::Distance {
            return Agreed { measure: distance_iou, rotation: zero };
        }
        let angle = |one: &[T; 4]| {
            let (width, height) = sides(one);
            (width / height).arc_tangent()
        };
        let rotation = angle(&b) - angle(&a);
        let aspect = T::from(4.0 / (PI * PI)) * rotation * rotation;
        let alpha = aspect / (T::from(1.0) + epsilon - overlap + aspect);
        Agreed { measure: distance_iou - aspect * alpha, rotation }
    }
}

/// Its corners: x and y of the first, then of the other.
fn corners(one: &Rectangle) -> [f64; 4] {
    [one.low[0], one.low[1], one.high[0], one.high[1]]
}

/// What the formulas compute with.
trait Number:
    Copy + From<f64> + Add<Output = Self> + Sub<Output = Self> + Mul<Output = Self> + Div<Output = Self>
{
    fn value(self) -> f64;

    fn arc_tangent(self) -> Self;

    /// The lesser; of equal ones the mean, so that each has half of the gradient.
    fn lesser(self, other: Self) -> Self {
        match self.value().partial_cmp(&other.value()) {
            Some(std::cmp::Ordering::Less) => self,
            Some(std::cmp::Ordering::Greater) => other,
            // Equal, or no number.
            _ => self * Self::from(0.5) + other * Self::from(0.5),
        }
    }

    /// The greater, as [`Number::lesser`].
    fn greater(self, other: Self) -> Self {
        match self.value().partial_cmp(&other.value()) {
            Some(std::cmp::Ordering::Less) => other,
            Some(std::cmp::Ordering::Greater) => self,
            _ => self * Self::from(0.5) + other * Self::from(0.5),
        }
    }

    /// Itself, or 0 if it is less.
    fn positive(self) -> Self {
        if self.value() < 0.0 { Self::from(0.0) } else { self }
    }

    fn magnitude(self) -> Self {
        if self.value() < 0.0 { Self::from(0.0) - self } else { self }
    }
}

impl Number for f64 {
    fn value(self) -> f64 {
        self
    }

    fn arc_tangent(self) -> f64 {
        self.atan()
    }
}

/// A dual number: a value with its gradient by eight others.
#[derive(Clone, Copy)]
struct Dual {
    value: f64,
    gradients: [f64; 8],
}

impl Dual {
    /// A value whose partial derivatives by two numbers are these factors.
    fn with_factors(
        value: f64,
        (one, factor): (Dual, f64),
        (other, other_factor): (Dual, f64),
    ) -> Dual {
        Dual {
            value,
            gradients: from_fn(|i| one.gradients[i] * factor + other.gradients[i] * other_factor),
        }
    }
}

impl From<f64> for Dual {
    fn from(value: f64) -> Dual {
        Dual { value, gradients: [0.0; 8] }
    }
}

impl Add for Dual {
    type Output = Dual;

    fn add(self, other: Dual) -> Dual {
        Dual::with_factors(self.value + other.value, (self, 1.0), (other, 1.0))
    }
}

impl Sub for Dual {
    type Output = Dual;

    fn sub(self, other: Dual) -> Dual {
        Dual::with_factors(self.value - other.value, (self, 1.0), (other, -1.0))
    }
}

impl Mul for Dual {
    type Output = Dual;

    fn mul(self, other: Dual) -> Dual {
        Dual::with_factors(self.value * other.value, (self, other.value), (other, self.value))
    }
}

impl Div for Dual {
    type Output = Dual;

    fn div(self, other: Dual) -> Dual {
        let value = self.value / other.value;
        Dual::with_factors(value, (self, 1.0 / other.value), (other, -value / other.value))
    }
}

impl Number for Dual {
    fn value(self) -> f64 {
        self.value
    }

    fn arc_tangent(self) -> Dual {
        let derivative = 1.0 / (1.0 + self.value * self.value);
        Dual::with_factors(self.value.atan(), (self, derivative), (self, 0.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Agreement; 3] = [Agreement::Generalized, Agreement::Distance, Agreement::Complete];
    const WAYS: [Overlap; 2] = [Overlap::OverUnion, Overlap::OverSecond];

    fn rectangle([a, b, c, d]: [f64; 4]) -> Rectangle {
        Rectangle { low: [a, b], high: [c, d] }
    }

    #[test]
    fn the_same_rectangle_agrees_wholly() {
        let one = rectangle([1.0, 2.0, 4.0, 8.0]);
        for (which, how) in ALL.iter().flat_map(|one| WAYS.map(|how| (one, how))) {
            let agreed = which.of(&one, &one, how);
            assert!((agreed.measure - 1.0).abs() < 1e-8, "{which:?} {how:?}: {agreed:?}");
        }
    }

    #[test]
    fn costs_are_those_of_the_formulas() {
        // Common 2, union 10, around 4 by 3; the centres are (1.5, 1) and (3, 1.5).
        let (one, other) = (rectangle([0.0, 0.0, 3.0, 2.0]), rectangle([2.0, 0.0, 4.0, 3.0]));
        let union = 6.0 + 6.0 - 2.0;
        let expect = |which: Agreement, want: f64| {
            let have = which.of(&one, &other, Overlap::OverUnion).measure;
            assert!((have - want).abs() < 1e-8, "{which:?}: {have} for {want}");
        };
        expect(Agreement::Generalized, 2.0 / union - (12.0 - union) / 12.0);
        let distance_iou = 2.0 / union - (1.5 * 1.5 + 0.5 * 0.5) / (16.0 + 9.0);
        expect(Agreement::Distance, distance_iou);
        let rotation = (2.0f64 / 3.0).atan() - (3.0f64 / 2.0).atan();
        let aspect = 4.0 / (PI * PI) * rotation * rotation;
        expect(Agreement::Complete, distance_iou - aspect * aspect / (1.0 - 2.0 / union + aspect));
        let agreed = Agreement::Complete.of(&one, &other, Overlap::OverUnion);
        assert!((agreed.rotation - rotation).abs() < 1e-8);
    }

    #[test]
    fn gradients_are_those_of_small_steps() {
        let pairs = [
            ([0.0, 0.0, 3.0, 2.0], [2.0, 0.5, 4.0, 3.0]),
            ([0.0, 0.0, 1.0, 1.0], [2.0, 3.0, 4.0, 7.0]),
            ([1.0, 1.0, 2.0, 3.0], [0.0, 0.0, 4.0, 5.0]),
        ];
        for (a, b) in pairs {
            for (which, how) in ALL.iter().flat_map(|one| WAYS.map(|how| (one, how))) {
                let gradients = which.gradients(&rectangle(a), &rectangle(b), how);
                for at in 0..8 {
                    let moved = |step: f64| {
                        let (mut a, mut b) = (a, b);
                        if at < 4 {
                            a[at] += step
                        } else {
                            b[at - 4] += step
                        }
                        which.of(&rectangle(a), &rectangle(b), how).measure
                    };
                    let want = (moved(1e-6) - moved(-1e-6)) / 2e-6;
                    let have = if at < 4 { gradients.first[at] } else { gradients.second[at - 4] };
                    assert!((have - want).abs() < 1e-6, "{which:?} {how:?} {at}: {have}, {want}");
                }
            }
        }
    }
}
