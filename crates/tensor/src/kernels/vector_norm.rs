//! The norm of a tensor taken as one vector.

use super::map::SMALL;
use super::strip::{STRIP, strip, vectorised};
use super::walk::Walk;
use crate::View;
use crate::parallel::{Parallel, share};
use std::sync::atomic::{AtomicU64, Ordering};

/// The most parts a norm is computed in.
const PARTS: usize = 64;

/// (sum |x|^order)^(1/order); the greatest |x| for infinity, the least for minus infinity, the number of
/// elements other than zero for 0. NaN if an element is.
pub fn vector_norm(parallel: &dyn Parallel, a: View<'_>, order: f64) -> f64 {
    let walk = Walk::new([a.layout()]);
    let [stride] = walk.inner_strides();
    let parts = (walk.count() / SMALL).clamp(1, parallel.width().min(PARTS));
    let sums: [AtomicU64; PARTS] = std::array::from_fn(|_| AtomicU64::new(0));
    let neutral = if order == f64::NEG_INFINITY { f64::INFINITY } else { 0.0 };
    let combine = |a: f64, b: f64| match order {
        f64::INFINITY => max_or_nan(a, b),
        f64::NEG_INFINITY => -max_or_nan(-a, -b),
        _ => a + b,
    };
    let work = |part: usize| {
        let mut buffer = [0f64; STRIP];
        let mut float_buffer = [0f32; STRIP];
        let mut sum = neutral;
        walk.runs(share(walk.count(), STRIP, parts, part), STRIP, |[at], length| {
            // SAFETY: walks stay inside their layouts, and nobody writes meanwhile.
            sum = combine(sum, unsafe {
                if order == 2.0 && a.dtype() == crate::DType::Float {
                    sum_of_squares(strip(&a, at, stride, length, true, &mut float_buffer))
                } else {
                    norm_sum(strip(&a, at, stride, length, true, &mut buffer), order)
                }
            });
        });
        sums[part].store(sum.to_bits(), Ordering::Relaxed);
    };
    match parts {
        1 => work(0),
        _ => parallel.run(parts, &work),
    }
    let partials = sums[..parts].iter().map(|sum| f64::from_bits(sum.load(Ordering::Relaxed)));
    let sum = partials.fold(neutral, combine);
    match order {
        2.0 => sum.sqrt(),
        0.0 | 1.0 | f64::INFINITY | f64::NEG_INFINITY => sum,
        _ => sum.powf(1.0 / order),
    }
}

/// The greater; NaN if either is.
fn max_or_nan(a: f64, b: f64) -> f64 {
    if a > b || a.is_nan() { a } else { b }
}

/// The sum of squares, by eight sums side by side.
fn sum_of_squares(x: &[f32]) -> f64 {
    vectorised(|| {
        let mut sums = [0f64; 8];
        let (chunks, rest) = x.as_chunks::<8>();
        for chunk in chunks {
            for (sum, x) in sums.iter_mut().zip(chunk) {
                *sum += f64::from(*x) * f64::from(*x);
            }
        }
        let tail: f64 = rest.iter().map(|x| f64::from(*x) * f64::from(*x)).sum();
        sums.iter().sum::<f64>() + tail
    })
}

/// The sum of powers of magnitudes in a strip, or their extreme.
fn norm_sum(x: &[f64], order: f64) -> f64 {
    let magnitudes = x.iter().map(|x| x.abs());
    match order {
        2.0 => magnitudes.map(|x| x * x).sum(),
        1.0 => magnitudes.sum(),
        0.0 => magnitudes.map(|x| if x == 0.0 { 0.0 } else { x * 0.0 + 1.0 }).sum(),
        f64::INFINITY => magnitudes.fold(0.0, max_or_nan),
        f64::NEG_INFINITY => -magnitudes.fold(f64::NEG_INFINITY, |least, x| max_or_nan(least, -x)),
        _ => magnitudes.map(|x| x.powf(order)).sum(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DType, Layout, parallel::SingleThread};
    use std::cell::Cell;

    #[test]
    fn of_every_order() {
        let values = [3f32, -4.0, 0.0, 12.0];
        let bytes: Vec<Cell<u8>> =
            values.iter().flat_map(|x| x.to_ne_bytes()).map(Cell::new).collect();
        let view = View::over(&bytes, Layout::contiguous(DType::Float, &[4])).unwrap();
        for (order, want) in [
            (2.0, 13.0),
            (1.0, 19.0),
            (0.0, 3.0),
            (f64::INFINITY, 12.0),
            (f64::NEG_INFINITY, 0.0),
            (3.0, (27.0f64 + 64.0 + 1728.0).cbrt()),
        ] {
            let have = vector_norm(&SingleThread, view, order);
            assert!((have - want).abs() < 1e-12, "{order}: {have}, {want}");
        }
        let none = View::over(&bytes, Layout::contiguous(DType::Float, &[0])).unwrap();
        assert_eq!(vector_norm(&SingleThread, none, 2.0), 0.0);
    }
}
