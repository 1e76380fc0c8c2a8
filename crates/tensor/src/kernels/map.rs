//! Elementwise kernels: a function of the elements at each position.

use super::element::Compute;
use super::strip::{STRIP, store, strip, vectorised};
use super::walk::Walk;
use crate::team::{Team, split};
use crate::{DType, Scalar, View, ViewMut};
use std::mem::MaybeUninit;

/// Below this many elements a kernel stays on its thread.
pub const SMALL: usize = 32 * 1024;

/// Where a strip of results goes: straight to memory where it can, else through `room`.
///
/// # Safety
/// `length` elements from `offset` on, `stride` apart, belong to the view, and nothing else is borrowed there.
#[inline(always)]
unsafe fn results<R: Compute>(
    out: &ViewMut<'_>,
    offset: isize,
    stride: isize,
    length: usize,
    room: &mut [R; STRIP],
    compute: impl FnOnce(&mut [R]),
) {
    // SAFETY: as the caller vouches.
    let to = unsafe { out.first_mut().offset(offset * out.item() as isize) };
    if stride == 1 && out.dtype() == R::DTYPE && to.cast::<R>().is_aligned() {
        // SAFETY: same type, aligned; writable and nobody else's as the caller vouches.
        return compute(unsafe { std::slice::from_raw_parts_mut(to.cast::<R>(), length) });
    }
    compute(&mut room[..length]);
    // SAFETY: as the caller vouches.
    unsafe { store(out.dtype(), to, stride, &room[..length]) };
}

/// Room for a strip, not cleared.
#[inline(always)]
fn room<C: Compute>(place: &mut MaybeUninit<[C; STRIP]>) -> &mut [C; STRIP] {
    // SAFETY: numbers and truth values are loaded before they are read; all bytes zero are valid for each.
    unsafe {
        if C::DTYPE == DType::Bool {
            place.write(std::mem::zeroed());
        }
        place.assume_init_mut()
    }
}

/// Whether two views have a byte in common.
pub fn overlap(a: &View<'_>, b: &View<'_>) -> bool {
    let range = |view: &View<'_>| {
        let item = view.item() as isize;
        let extent = view.extent().unwrap_or(0..0);
        let first = view.address() as isize;
        first + extent.start * item..first + extent.end * item
    };
    let (a, b) = (range(a), range(b));
    !a.is_empty() && !b.is_empty() && a.start < b.end && b.start < a.end
}

/// Sets every element to the same number.
pub fn fill<R: Compute>(team: &dyn Team, out: ViewMut<'_>, value: R) {
    let walk = Walk::new([out.layout()]);
    let [stride] = walk.inner_strides();
    split(team, walk.count(), STRIP, SMALL, |range| {
        vectorised(|| {
            let mut space = MaybeUninit::uninit();
            let space = room::<R>(&mut space);
            walk.runs(range, STRIP, |[offset], length| {
                // SAFETY: walks stay inside their layouts.
                unsafe { results(&out, offset, stride, length, space, |to| to.fill(value)) };
            });
        });
    });
}

/// `out = f(a)`. Sizes are equal; `a` is `out` itself or apart from it.
pub fn map1<A: Compute, R: Compute>(
    team: &dyn Team,
    out: ViewMut<'_>,
    a: View<'_>,
    f: impl Fn(A) -> R + Sync,
) {
    let walk = Walk::new([out.layout(), a.layout()]);
    let [so, sa] = walk.inner_strides();
    let apart = !overlap(&out, &a);
    split(team, walk.count(), STRIP, SMALL, |range| {
        vectorised(|| {
            let (mut ro, mut ra) = (MaybeUninit::uninit(), MaybeUninit::uninit());
            let (ro, ra) = (room::<R>(&mut ro), room::<A>(&mut ra));
            walk.runs(range, STRIP, |[o, a_at], length| {
                // SAFETY: walks stay inside their layouts; what overlaps is not borrowed.
                unsafe {
                    let x = strip(&a, a_at, sa, length, apart, ra);
                    results(&out, o, so, length, ro, |to| {
                        for (place, x) in to.iter_mut().zip(x) {
                            *place = f(*x);
                        }
                    });
                }
            });
        });
    });
}

/// `out = f(a, b)`. Sizes are equal (broadcast before); an input is `out` itself or apart from it.
pub fn map2<A: Compute, B: Compute, R: Compute>(
    team: &dyn Team,
    out: ViewMut<'_>,
    a: View<'_>,
    b: View<'_>,
    f: impl Fn(A, B) -> R + Sync,
) {
    let walk = Walk::new([out.layout(), a.layout(), b.layout()]);
    let [so, sa, sb] = walk.inner_strides();
    let (apart_a, apart_b) = (!overlap(&out, &a), !overlap(&out, &b));
    split(team, walk.count(), STRIP, SMALL, |range| {
        vectorised(|| {
            let (mut ro, mut ra, mut rb) =
                (MaybeUninit::uninit(), MaybeUninit::uninit(), MaybeUninit::uninit());
            let (ro, ra, rb) = (room::<R>(&mut ro), room::<A>(&mut ra), room::<B>(&mut rb));
            walk.runs(range, STRIP, |[o, a_at, b_at], length| {
                // SAFETY: walks stay inside their layouts; what overlaps is not borrowed.
                unsafe {
                    let x = strip(&a, a_at, sa, length, apart_a, ra);
                    let y = strip(&b, b_at, sb, length, apart_b, rb);
                    results(&out, o, so, length, ro, |to| {
                        for ((place, x), y) in to.iter_mut().zip(x).zip(y) {
                            *place = f(*x, *y);
                        }
                    });
                }
            });
        });
    });
}

/// `out = f(a, b, c)`. As [`map2`].
pub fn map3<A: Compute, B: Compute, C: Compute, R: Compute>(
    team: &dyn Team,
    out: ViewMut<'_>,
    a: View<'_>,
    b: View<'_>,
    c: View<'_>,
    f: impl Fn(A, B, C) -> R + Sync,
) {
    let walk = Walk::new([out.layout(), a.layout(), b.layout(), c.layout()]);
    let [so, sa, sb, sc] = walk.inner_strides();
    let apart = [!overlap(&out, &a), !overlap(&out, &b), !overlap(&out, &c)];
    split(team, walk.count(), STRIP, SMALL, |range| {
        vectorised(|| {
            let (mut ro, mut ra) = (MaybeUninit::uninit(), MaybeUninit::uninit());
            let (mut rb, mut rc) = (MaybeUninit::uninit(), MaybeUninit::uninit());
            let (ro, ra) = (room::<R>(&mut ro), room::<A>(&mut ra));
            let (rb, rc) = (room::<B>(&mut rb), room::<C>(&mut rc));
            walk.runs(range, STRIP, |[o, a_at, b_at, c_at], length| {
                // SAFETY: walks stay inside their layouts; what overlaps is not borrowed.
                unsafe {
                    let x = strip(&a, a_at, sa, length, apart[0], ra);
                    let y = strip(&b, b_at, sb, length, apart[1], rb);
                    let z = strip(&c, c_at, sc, length, apart[2], rc);
                    results(&out, o, so, length, ro, |to| {
                        for (((place, x), y), z) in to.iter_mut().zip(x).zip(y).zip(z) {
                            *place = f(*x, *y, *z);
                        }
                    });
                }
            });
        });
    });
}

/// Sets every element to a number, as the type of the tensor has it.
pub fn fill_scalar(team: &dyn Team, out: ViewMut<'_>, value: Scalar) {
    match super::element::compute_type(out.dtype()) {
        Some(DType::Float) => fill(team, out, f32::from_scalar(value)),
        Some(DType::Double) => fill(team, out, f64::from_scalar(value)),
        Some(DType::Int64) => fill(team, out, i64::from_scalar(value)),
        _ => fill(team, out, bool::from_scalar(value)),
    }
}
