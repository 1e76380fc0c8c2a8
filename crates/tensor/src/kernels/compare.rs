//! Comparison of two tensors.

use super::element::Compute;
use super::map::SMALL;
use super::strip::{STRIP, strip};
use super::walk::Walk;
use crate::View;
use crate::parallel::{Parallel, split};
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether two tensors of the same sizes have equal elements, compared in `C`.
pub fn equal<C: Compute + PartialEq + Default>(
    parallel: &dyn Parallel,
    a: View<'_>,
    b: View<'_>,
) -> bool {
    let walk = Walk::new([a.layout(), b.layout()]);
    let [stride_a, stride_b] = walk.inner_strides();
    let same = AtomicBool::new(true);
    split(parallel, walk.count(), STRIP, SMALL, |range| {
        let (mut buffer_a, mut buffer_b) = ([C::default(); STRIP], [C::default(); STRIP]);
        walk.runs(range, STRIP, |[offset_a, offset_b], length| {
            if !same.load(Ordering::Relaxed) {
                return;
            }
            // SAFETY: walks stay inside their layouts, and nobody writes meanwhile.
            let (x, y) = unsafe {
                (
                    strip(&a, offset_a, stride_a, length, true, &mut buffer_a),
                    strip(&b, offset_b, stride_b, length, true, &mut buffer_b),
                )
            };
            if x != y {
                same.store(false, Ordering::Relaxed);
            }
        });
    });
    same.into_inner()
}
