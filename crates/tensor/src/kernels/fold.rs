//! What reductions make of many elements: sums, extremes, moments, argmax.

use super::element::Compute;
use super::halves::{Half, PIECE, Piece};
use super::math::Real;
use super::number::Number;
use super::reduce::Fold;

/// Accumulators side by side.
const LANES: usize = 32;

/// A fold of values that are mapped and then merged, such as a sum of squares.
#[derive(Clone, Copy)]
pub struct Mapped<A, C, M, G> {
    start: C,
    map: M,
    merge: G,
    from: std::marker::PhantomData<fn(A)>,
}

/// `merge` over `map` of every element; `start` changes nothing.
pub fn mapped<A, C, M, G>(start: C, map: M, merge: G) -> Mapped<A, C, M, G>
where
    A: Compute,
    C: Compute,
    M: Fn(A) -> C + Copy + Send + Sync + 'static,
    G: Fn(C, C) -> C + Copy + Send + Sync + 'static,
{
    Mapped { start, map, merge, from: std::marker::PhantomData }
}

impl<A, C, M, G> Fold for Mapped<A, C, M, G>
where
    A: Compute,
    C: Compute,
    M: Fn(A) -> C + Copy + Send + Sync + 'static,
    G: Fn(C, C) -> C + Copy + Send + Sync + 'static,
{
    type In = A;
    type Accumulator = C;

    #[inline(always)]
    fn start(&self) -> C {
        self.start
    }

    #[inline(always)]
    fn step(&self, acc: C, value: A, _at: usize) -> C {
        (self.merge)(acc, (self.map)(value))
    }

    #[inline(always)]
    fn strip(&self, values: &[A], _at: usize) -> C {
        folded(values, self.start, self.map, self.merge)
    }

    #[inline(always)]
    fn halves<H: Half>(&self, values: &[H]) -> Option<C> {
        let map = |x: f32| (self.map)(A::from_f32(x));
        Some(folded_halves(values, self.start, map, self.merge))
    }

    #[inline(always)]
    fn merge(&self, a: C, b: C) -> C {
        (self.merge)(a, b)
    }
}

/// One value of a strip, by many lanes that are merged in pairs.
///
/// The lanes pass through memory before they are merged: otherwise the order of merging decides which of them the
/// compiler puts into one vector, and they are not side by side.
#[inline(always)]
pub(super) fn folded<A: Copy, C: Copy>(
    values: &[A],
    start: C,
    map: impl Fn(A) -> C,
    merge: impl Fn(C, C) -> C,
) -> C {
    let (chunks, rest) = values.as_chunks::<LANES>();
    let mut acc = start;
    if !chunks.is_empty() {
        let mut lanes = [start; LANES];
        for chunk in chunks {
            for (lane, value) in lanes.iter_mut().zip(chunk) {
                *lane = merge(*lane, map(*value));
            }
        }
        acc = merge_in_pairs(lanes, &merge);
    }
    for value in rest {
        acc = merge(acc, map(*value));
    }
    acc
}

/// As [`folded`], of halves: each piece is widened, and its numbers go to the lanes.
#[inline(always)]
fn folded_halves<H: Half, C: Copy>(
    values: &[H],
    start: C,
    map: impl Fn(f32) -> C,
    merge: impl Fn(C, C) -> C,
) -> C {
    let (chunks, rest) = values.as_chunks::<PIECE>();
    let mut lanes = [start; LANES];
    let mut piece = Piece([0.0; PIECE]);
    for chunk in chunks {
        // SAFETY: a piece; reductions run where kernels do.
        unsafe { H::widen_all(chunk.as_ptr(), &mut piece.0) };
        for chunk in piece.0.as_chunks::<LANES>().0 {
            for (lane, value) in lanes.iter_mut().zip(chunk) {
                *lane = merge(*lane, map(*value));
            }
        }
    }
    let piece = &mut piece.0[..rest.len()];
    // SAFETY: as above, of as many.
    unsafe { H::widen_all(rest.as_ptr(), piece) };
    let mut acc = merge_in_pairs(lanes, &merge);
    for value in piece {
        acc = merge(acc, map(*value));
    }
    acc
}

/// Merges the lanes pair by pair.
#[inline(always)]
fn merge_in_pairs<C: Copy>(lanes: [C; LANES], merge: &impl Fn(C, C) -> C) -> C {
    let mut lanes = std::hint::black_box(lanes);
    let mut width = LANES;
    while width > 1 {
        width /= 2;
        for at in 0..width {
            lanes[at] = merge(lanes[at], lanes[at + width]);
        }
    }
    lanes[0]
}

/// The sum.
pub fn sum<C: Number>() -> impl Fold<In = C, Accumulator = C> {
    mapped(C::ZERO, |x: C| x, C::add)
}

/// The product.
pub fn product<C: Number>() -> impl Fold<In = C, Accumulator = C> {
    mapped(C::ONE, |x: C| x, C::mul)
}

/// The greatest; NaN if there is one.
pub fn greatest<C: Number>() -> impl Fold<In = C, Accumulator = C> {
    mapped(C::LEAST, |x: C| x, C::greatest)
}

/// The least; NaN if there is one.
pub fn least<C: Number>() -> impl Fold<In = C, Accumulator = C> {
    mapped(C::GREATEST, |x: C| x, C::least)
}

/// Number, mean, and sum of squared distances from the mean.
#[derive(Clone, Copy, Debug, Default)]
pub struct Moments {
    /// How many.
    pub count: f64,
    /// Their mean.
    pub mean: f64,
    /// The sum of the squares of their distances from the mean.
    pub squares: f64,
}

impl Moments {
    /// Those of both groups together.
    #[inline(always)]
    pub fn with(self, other: Moments) -> Moments {
        let count = self.count + other.count;
        if self.count == 0.0 || other.count == 0.0 {
            return if self.count == 0.0 { other } else { self };
        }
        let difference = other.mean - self.mean;
        let weight = other.count / count;
        Moments {
            count,
            mean: self.mean + difference * weight,
            squares: self.squares + other.squares + difference * difference * self.count * weight,
        }
    }

    /// Those of a strip.
    #[inline(always)]
    pub fn of<C: Real>(values: &[C]) -> Moments {
        if values.is_empty() {
            return Moments::default();
        }
        let count = values.len() as f64;
        let rough_mean = C::from_f64(folded(values, C::ZERO, |x| x, C::add).to_f64() / count);
        let (mut differences, mut squares) = ([C::ZERO; LANES], [C::ZERO; LANES]);
        let (chunks, rest) = values.as_chunks::<LANES>();
        for chunk in chunks {
            for lane in 0..LANES {
                let difference = chunk[lane].sub(rough_mean);
                differences[lane] = differences[lane].add(difference);
                squares[lane] = squares[lane].add(difference.mul(difference));
            }
        }
        for (lane, value) in rest.iter().enumerate() {
            let difference = value.sub(rough_mean);
            differences[lane] = differences[lane].add(difference);
            squares[lane] = squares[lane].add(difference.mul(difference));
        }
        let [difference_sum, squares] =
            [differences, squares].map(|lanes| folded(&lanes, C::ZERO, |x| x, C::add));
        let (difference_sum, squares) = (difference_sum.to_f64(), squares.to_f64());
        Moments {
            count,
            mean: rough_mean.to_f64() + difference_sum / count,
            squares: (squares - difference_sum * difference_sum / count).max(0.0) + squares * 0.0,
        }
    }
}

/// Mean and variance.
#[derive(Clone, Copy)]
pub struct MomentsOf<C>(std::marker::PhantomData<fn(C)>);

/// The moments of elements loaded as `C`.
pub fn moments<C: Real>() -> MomentsOf<C> {
    MomentsOf(std::marker::PhantomData)
}

impl<C: Real> Fold for MomentsOf<C> {
    type In = C;
    type Accumulator = Moments;

    #[inline(always)]
    fn start(&self) -> Moments {
        Moments::default()
    }

    #[inline(always)]
    fn step(&self, acc: Moments, value: C, _at: usize) -> Moments {
        let (value, count) = (value.to_f64(), acc.count + 1.0);
        let difference = value - acc.mean;
        let mean = acc.mean + difference / count;
        Moments { count, mean, squares: acc.squares + difference * (value - mean) }
    }

    #[inline(always)]
    fn strip(&self, values: &[C], _at: usize) -> Moments {
        Moments::of(values)
    }

    #[inline(always)]
    fn merge(&self, a: Moments, b: Moments) -> Moments {
        a.with(b)
    }
}

/// An extreme value and the first index it is found at; the first NaN if there is one.
#[derive(Clone, Copy)]
pub struct ArgExtreme<C, const MAX: bool>(std::marker::PhantomData<fn(C)>);

/// The greatest and its index.
pub fn arg_max<C: Number>() -> ArgExtreme<C, true> {
    ArgExtreme(std::marker::PhantomData)
}

/// The least and its index.
pub fn arg_min<C: Number>() -> ArgExtreme<C, false> {
    ArgExtreme(std::marker::PhantomData)
}

impl<C: Number, const MAX: bool> ArgExtreme<C, MAX> {
    /// Whether `a` is the extreme of both; NaN is.
    #[inline(always)]
    fn is_better(a: C, b: C) -> bool {
        (if MAX { a > b } else { a < b }) || (a.is_nan() && !b.is_nan())
    }
}

impl<C: Number, const MAX: bool> Fold for ArgExtreme<C, MAX> {
    type In = C;
    type Accumulator = (C, i64);
    const INDEXED: bool = true;

    #[inline(always)]
    fn start(&self) -> (C, i64) {
        (if MAX { C::LEAST } else { C::GREATEST }, -1)
    }

    #[inline(always)]
    fn step(&self, acc: (C, i64), value: C, at: usize) -> (C, i64) {
        if acc.1 < 0 || Self::is_better(value, acc.0) { (value, at as i64) } else { acc }
    }

    #[inline(always)]
    fn strip(&self, values: &[C], at: usize) -> (C, i64) {
        if values.is_empty() {
            return self.start();
        }
        let best = match MAX {
            true => folded(values, C::LEAST, |x| x, C::greatest),
            false => folded(values, C::GREATEST, |x| x, C::least),
        };
        let position = match best.is_nan() {
            true => values.iter().position(|x| x.is_nan()),
            false => values.iter().position(|x| *x == best),
        };
        (best, (at + position.unwrap_or(0)) as i64)
    }

    #[inline(always)]
    fn merge(&self, a: (C, i64), b: (C, i64)) -> (C, i64) {
        let takes_b = match (a.1 < 0, b.1 < 0) {
            (_, true) => false,
            (true, _) => true,
            _ => Self::is_better(b.0, a.0) || (!Self::is_better(a.0, b.0) && b.1 < a.1),
        };
        if takes_b { b } else { a }
    }
}

/// The logarithm of a sum of exponentials: the greatest element, and the sum of exponentials of elements less that.
#[derive(Clone, Copy)]
pub struct Exponentials<C>(std::marker::PhantomData<fn(C)>);

/// The exponentials of elements loaded as `C`.
pub fn exponentials<C: Real>() -> Exponentials<C> {
    Exponentials(std::marker::PhantomData)
}

/// What is subtracted from exponents whose greatest is `greatest`, so that none overflows; 0 where that is infinite.
#[inline(always)]
pub(super) fn shift<C: Real>(greatest: C) -> C {
    if greatest == C::LEAST || greatest == C::GREATEST { C::ZERO } else { greatest }
}

impl<C: Real> Exponentials<C> {
    /// The logarithm of the sum.
    pub fn finalize(acc: (C, C)) -> C {
        acc.1.ln().add(shift(acc.0))
    }
}

impl<C: Real> Fold for Exponentials<C> {
    type In = C;
    type Accumulator = (C, C);

    #[inline(always)]
    fn start(&self) -> (C, C) {
        (C::LEAST, C::ZERO)
    }

    #[inline(always)]
    fn step(&self, acc: (C, C), value: C, _at: usize) -> (C, C) {
        self.merge(acc, (value, value.sub(shift(value)).exp()))
    }

    #[inline(always)]
    fn strip(&self, values: &[C], _at: usize) -> (C, C) {
        let greatest = folded(values, C::LEAST, |x| x, C::greatest);
        let subtracted = shift(greatest);
        (greatest, folded(values, C::ZERO, |x| x.sub(subtracted).exp(), C::add))
    }

    #[inline(always)]
    fn merge(&self, a: (C, C), b: (C, C)) -> (C, C) {
        let greatest = a.0.greatest(b.0);
        let subtracted = shift(greatest);
        let scaled = |part: (C, C)| {
            if part.1 == C::ZERO {
                C::ZERO
            } else {
                part.1.mul(shift(part.0).sub(subtracted).exp())
            }
        };
        (greatest, scaled(a).add(scaled(b)))
    }
}
