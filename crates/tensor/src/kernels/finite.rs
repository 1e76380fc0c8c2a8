//! Multiplication by a factor that also looks for elements which are infinite or NaN.

use super::map::{LONG, strips1};
use super::math::Real;
use super::strip::vectorised;
use crate::ViewMut;
use crate::parallel::Parallel;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// `x = x * factor`. Returns whether an element of `x` was infinite or NaN before.
pub fn unscale<C: Real>(parallel: &dyn Parallel, x: ViewMut<'_>, factor: C) -> bool {
    let any_bad = AtomicBool::new(false);
    strips1::<C, C>(parallel, x, x.view(), LONG, &|from, to| {
        let found_bad = vectorised(|| {
            let mut found_bad = false;
            for (to, from) in to.iter_mut().zip(from) {
                found_bad |= !from.is_finite();
                *to = from.mul(factor);
            }
            found_bad
        });
        if found_bad {
            any_bad.store(true, Relaxed);
        }
    });
    any_bad.load(Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parallel::SingleThread;
    use crate::{DType, Layout};
    use std::cell::Cell;

    #[test]
    fn finds_one_bad_element_among_many() {
        for (at, bad) in [(0, f32::NAN), (4999, f32::INFINITY), (2500, f32::NEG_INFINITY)] {
            for with_bad in [false, true] {
                let mut values = vec![3.0f32; 5000];
                if with_bad {
                    values[at] = bad;
                }
                let bytes: Vec<Cell<u8>> =
                    values.iter().flat_map(|value| value.to_le_bytes()).map(Cell::new).collect();
                let layout = Layout::contiguous(DType::Float, &[5000]);
                let view = ViewMut::over(&bytes, layout).unwrap();
                assert_eq!(unscale::<f32>(&SingleThread, view, 0.5), with_bad);
                let second = [4, 5, 6, 7].map(|byte| bytes[byte].get());
                assert_eq!(f32::from_le_bytes(second), 1.5);
            }
        }
    }
}
