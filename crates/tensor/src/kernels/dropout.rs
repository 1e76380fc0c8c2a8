//! Masks of bits for dropout: element `i` is kept when bit `i % 8` of byte `i / 8` is set.

use super::map::SMALL;
use super::number::Number;
use super::philox::Philox;
use super::random::threshold;
use super::strip::{STRIP, store, strip, vectorised};
use super::walk::Walk;
use crate::parallel::{Parallel, split};
use crate::{View, ViewMut};

/// Bytes of a mask for `count` elements: whole groups of 128 bits.
pub fn mask_bytes(count: usize) -> usize {
    count.div_ceil(128) * 16
}

/// Draws the bits of `count` elements, each set with probability `keep`; further bits of `mask` are 0.
/// `mask` is bytes, one after the other, enough for all.
pub fn draw(parallel: &dyn Parallel, mask: ViewMut<'_>, count: usize, philox: Philox, keep: f64) {
    debug_assert!(mask.is_contiguous() && mask.item() == 1 && mask.count() * 8 >= count);
    const STEP: usize = 64;
    let limit = threshold(keep);
    split(parallel, mask.count(), STEP, SMALL / 32, |range| {
        vectorised(|| {
            let mut words = [0u32; STEP * 8];
            for start in range.clone().step_by(STEP) {
                let length = (range.end - start).min(STEP);
                philox.fill(start as u64 * 8, &mut words);
                for at in 0..length {
                    let mut byte = 0u8;
                    for bit in 0..8 {
                        byte |= u8::from(u64::from(words[at * 8 + bit]) < limit) << bit;
                    }
                    let bits = count.saturating_sub((start + at) * 8).min(8);
                    let byte = byte & ((1u16 << bits) - 1) as u8;
                    // SAFETY: the byte is in the mask.
                    unsafe { mask.first_mut().add(start + at).write(byte) };
                }
            }
        });
    });
}

/// `out = x * scale` where the mask has a bit, else `x * 0` (`multiplies`) or 0 whatever `x` is. `out` and `x` have the same sizes; `x` is `out` itself or
/// does not overlap it. `mask` is bytes, one after the other, enough for all.
pub fn apply<C: Number>(
    parallel: &dyn Parallel,
    out: ViewMut<'_>,
    x: View<'_>,
    mask: View<'_>,
    scale: f64,
    multiplies: bool,
) {
    debug_assert!(mask.is_contiguous() && mask.item() == 1 && mask.count() * 8 >= out.count());
    let packed = out.packed();
    let walk = Walk::new([&packed, out.layout(), x.layout()]);
    let [_, to_stride, stride] = walk.inner_strides();
    let scale = C::from_f64(scale);
    let dropped = |x: C| if multiplies { x.mul(C::ZERO) } else { C::ZERO };
    split(parallel, walk.count(), STRIP, SMALL, |range| {
        vectorised(|| {
            let mut buffer = [C::ZERO; STRIP];
            let mut values = [C::ZERO; STRIP];
            walk.runs(range, STRIP, |[index, to, from], length| {
                let index = index as usize;
                // SAFETY: walks stay inside their layouts, and the mask has a bit for each; nothing is borrowed.
                unsafe {
                    let x = strip(&x, from, stride, length, false, &mut buffer);
                    let bits = mask.first().add(index / 8);
                    if index.is_multiple_of(8) && length.is_multiple_of(8) {
                        let eights = values.chunks_exact_mut(8).zip(x.chunks_exact(8));
                        for (at, (values, x)) in eights.enumerate() {
                            let byte = u32::from(bits.add(at).read());
                            for lane in 0..8 {
                                let is_kept = byte & (1 << lane) != 0;
                                values[lane] =
                                    if is_kept { x[lane].mul(scale) } else { dropped(x[lane]) };
                            }
                        }
                    } else {
                        for (at, (value, x)) in values.iter_mut().zip(x).enumerate() {
                            let bit = index % 8 + at;
                            let is_kept = bits.add(bit / 8).read() >> (bit % 8) & 1 != 0;
                            *value = if is_kept { x.mul(scale) } else { dropped(*x) };
                        }
                    }
                    let to = out.first_mut().offset(to * out.item() as isize);
                    store(out.dtype(), to, to_stride, &values[..length]);
                }
            });
        });
    });
}
