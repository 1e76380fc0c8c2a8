//! Questions about all elements of two tensors.

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
    let [sa, sb] = walk.inner_strides();
    let same = AtomicBool::new(true);
    split(parallel, walk.count(), STRIP, SMALL, |range| {
        let (mut ra, mut rb) = ([C::default(); STRIP], [C::default(); STRIP]);
        walk.runs(range, STRIP, |[a_at, b_at], length| {
            if !same.load(Ordering::Relaxed) {
                return;
            }
            // SAFETY: walks stay inside their layouts, and nobody writes meanwhile.
            let (x, y) = unsafe {
                (
                    strip(&a, a_at, sa, length, true, &mut ra),
                    strip(&b, b_at, sb, length, true, &mut rb),
                )
            };
            if x != y {
                same.store(false, Ordering::Relaxed);
            }
        });
    });
    same.into_inner()
}
