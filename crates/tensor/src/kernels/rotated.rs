//! Rectangles that are turned about their centres.

/// A point: x, y.
type Point = [f64; 2];

/// A rectangle by its centre, its sizes and an angle.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RotatedRectangle {
    /// The centre.
    pub centre: Point,
    /// Width and height. One with a negative product covers nothing.
    pub size: [f64; 2],
    /// In radians, from the x axis towards the y axis.
    pub angle: f64,
}

/// An area below which a rectangle covers nothing.
const NOTHING: f64 = 1e-14;

/// A polygon of up to eight corners, which is what a rectangle cut by another has at most.
#[derive(Clone, Copy)]
struct Polygon {
    corners: [Point; 8],
    count: usize,
}

impl Polygon {
    const EMPTY: Polygon = Polygon { corners: [[0.0; 2]; 8], count: 0 };

    fn push(&mut self, corner: Point) {
        // Rounding may add corners that are nearly others; those after the eighth have no area.
        if self.count < self.corners.len() {
            self.corners[self.count] = corner;
            self.count += 1;
        }
    }

    /// What lies on the left of the line from `a` to `b`.
    fn left_of(&self, a: Point, b: Point) -> Polygon {
        let side = |p: Point| cross(a, b, p);
        let mut cut = Polygon::EMPTY;
        for at in 0..self.count {
            let (one, next) = (self.corners[at], self.corners[(at + 1) % self.count]);
            let (here, there) = (side(one), side(next));
            if here >= 0.0 {
                cut.push(one);
            }
            if (here > 0.0 && there < 0.0) || (here < 0.0 && there > 0.0) {
                let part = here / (here - there);
                cut.push([0, 1].map(|i| one[i] + part * (next[i] - one[i])));
            }
        }
        cut
    }

    fn area(&self) -> f64 {
        let first = self.corners[0];
        let triangles = (1..self.count.saturating_sub(1))
            .map(|at| cross(first, self.corners[at], self.corners[at + 1]) / 2.0);
        triangles.sum::<f64>().max(0.0)
    }
}

/// Twice the area of a triangle, positive where `c` is on the left of the line from `a` to `b`.
fn cross(a: Point, b: Point, c: Point) -> f64 {
    (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])
}

impl RotatedRectangle {
    /// The area.
    pub fn area(&self) -> f64 {
        self.size[0] * self.size[1]
    }

    /// The corners, counted from another point, in the direction in which angles grow.
    fn corners(&self, from: Point) -> [Point; 4] {
        let (sin, cos) = self.angle.sin_cos();
        let half = self.size.map(|size| size.abs() / 2.0);
        [(-1.0, -1.0), (1.0, -1.0), (1.0, 1.0), (-1.0, 1.0)].map(|(across, up)| {
            let (x, y) = (across * half[0], up * half[1]);
            [
                self.centre[0] - from[0] + cos * x - sin * y,
                self.centre[1] - from[1] + sin * x + cos * y,
            ]
        })
    }

    /// The area that it and another cover, by the area that either covers. Those that cover nothing overlap nothing.
    pub fn overlap(&self, other: &RotatedRectangle) -> f64 {
        if self.area() < NOTHING || other.area() < NOTHING {
            return 0.0;
        }
        let middle = [0, 1].map(|i| (self.centre[i] + other.centre[i]) / 2.0);
        let mut shared = Polygon::EMPTY;
        self.corners(middle).into_iter().for_each(|corner| shared.push(corner));
        let edges = other.corners(middle);
        for at in 0..4 {
            shared = shared.left_of(edges[at], edges[(at + 1) % 4]);
        }
        let common = shared.area();
        common / (self.area() + other.area() - common)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::f64::consts::{FRAC_PI_2, FRAC_PI_4};

    fn rectangle(x: f64, y: f64, w: f64, h: f64, angle: f64) -> RotatedRectangle {
        RotatedRectangle { centre: [x, y], size: [w, h], angle }
    }

    #[test]
    fn overlaps_that_are_known() {
        let near = |a: RotatedRectangle, b: RotatedRectangle, want: f64| {
            for (one, other) in [(a, b), (b, a)] {
                let have = one.overlap(&other);
                assert!((have - want).abs() < 1e-9, "{one:?} {other:?}: {have}, not {want}");
            }
        };
        let square = rectangle(0.0, 0.0, 2.0, 2.0, 0.0);
        near(square, square, 1.0);
        near(square, rectangle(1.0, 0.0, 2.0, 2.0, 0.0), 1.0 / 3.0);
        near(square, rectangle(5.0, 0.0, 2.0, 2.0, 1.0), 0.0);
        near(square, rectangle(2.0, 0.0, 2.0, 2.0, 0.0), 0.0);
        near(square, rectangle(0.0, 0.0, 2.0, 2.0, FRAC_PI_2), 1.0);
        // A regular octagon.
        let octagon = 8.0 * (2f64.sqrt() - 1.0);
        near(square, rectangle(0.0, 0.0, 2.0, 2.0, FRAC_PI_4), octagon / (8.0 - octagon));
        near(square, rectangle(0.0, 0.0, 1.0, 0.5, 0.3), 0.125);
        // A long one that reaches the square only when it is turned towards the y axis.
        let reaching = rectangle(3.0, 3.0, 10.0, 0.2, FRAC_PI_4);
        assert!(square.overlap(&reaching) > 0.05);
        assert_eq!(square.overlap(&RotatedRectangle { angle: -FRAC_PI_4, ..reaching }), 0.0);
        near(square, rectangle(0.0, 0.0, -2.0, 2.0, 0.0), 0.0);
        near(square, rectangle(0.0, 0.0, -2.0, -2.0, 0.0), 1.0);
        near(square, rectangle(f64::NAN, 0.0, 2.0, 2.0, 0.0), 0.0);
    }

    /// Against points of a grid that lie in both.
    #[test]
    fn overlaps_are_shares_of_a_grid() {
        let inside = |one: &RotatedRectangle, [x, y]: Point| {
            let (sin, cos) = one.angle.sin_cos();
            let (dx, dy) = (x - one.centre[0], y - one.centre[1]);
            let along = [cos * dx + sin * dy, cos * dy - sin * dx];
            (0..2).all(|i| along[i].abs() <= one.size[i] / 2.0)
        };
        for seed in 0..40 {
            let number =
                |at: u32| f64::from((seed * 31 + at).wrapping_mul(2_654_435_761) >> 16) / 65536.0;
            let [a, b] = [0, 10].map(|at| {
                let size = [0.5 + 2.0 * number(at + 2), 0.5 + 2.0 * number(at + 3)];
                let centre = [number(at) - 0.5, number(at + 1) - 0.5];
                RotatedRectangle { centre, size, angle: 7.0 * number(at + 4) - 3.5 }
            });
            let step = 0.01;
            let points = (-300..300).flat_map(|x| {
                (-300..300).map(move |y| [(f64::from(x) + 0.5) * step, (f64::from(y) + 0.5) * step])
            });
            let (mut both, mut either) = (0u32, 0u32);
            for point in points {
                let here = [inside(&a, point), inside(&b, point)];
                both += u32::from(here[0] && here[1]);
                either += u32::from(here[0] || here[1]);
            }
            let want = f64::from(both) / f64::from(either);
            let have = a.overlap(&b);
            assert!((have - want).abs() < 0.02, "{a:?} {b:?}: {have}, not {want}");
        }
    }
}
