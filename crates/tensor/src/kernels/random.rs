//! Tensors of random numbers. Element `i`, counted in the order of the positions and not of memory, is decided
//! by seed, offset and `i` alone: not by strides, not by threads.

use super::element::Compute;
use super::map::SMALL;
use super::math;
use super::philox::{BLOCK, Philox};
use super::strip::{STRIP, store, strip, vectorised};
use super::walk::Walk;
use crate::parallel::{Parallel, split};
use crate::{DType, View, ViewMut};
use std::f32::consts::TAU;

/// Room for a strip that begins in the middle of a block of the generator: whole blocks are generated.
const WINDOW: usize = STRIP + 2 * BLOCK;

/// Fills `out` with what `make` makes of words: `words_each` (1 or 2) for each element. It gets whole blocks: the index of its
/// first element is a multiple of [`BLOCK`].
fn generate<C: Compute + Default>(
    parallel: &dyn Parallel,
    out: ViewMut<'_>,
    philox: Philox,
    words_each: usize,
    make: impl Fn(&[u32], &mut [C]) + Sync,
) {
    let packed = out.packed();
    let walk = Walk::new([&packed, out.layout()]);
    let [_, stride] = walk.inner_strides();
    split(parallel, walk.count(), STRIP, SMALL / 4, |range| {
        vectorised(|| {
            let mut words = [0u32; 2 * WINDOW];
            let mut values = [C::default(); WINDOW];
            walk.runs(range, STRIP, |[index, offset], length| {
                let skip = index as usize % BLOCK;
                let count = (skip + length).next_multiple_of(BLOCK);
                let words = &mut words[..count * words_each];
                philox.fill((index as u64 - skip as u64) * words_each as u64, words);
                make(words, &mut values[..count]);
                // SAFETY: walks stay inside their layouts.
                unsafe {
                    let to = out.first_mut().offset(offset * out.item() as isize);
                    store(out.dtype(), to, stride, &values[skip..skip + length]);
                }
            });
        });
    });
}

/// A real number from 0 to below 1 with this many bits after the point.
#[inline(always)]
fn unit(word: u32, bits: u32) -> f32 {
    (word >> (32 - bits)) as i32 as f32 * (1.0 / (1u32 << bits) as f32)
}

/// Two words as one of 64 bits.
#[inline(always)]
fn two_words(words: &[u32]) -> u64 {
    u64::from(words[0]) | u64::from(words[1]) << 32
}

/// As [`unit`], of two words.
#[inline(always)]
fn unit_f64(words: &[u32]) -> f64 {
    (two_words(words) >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
}

/// Uniformly from `low` to below `high`, with as many bits as the type of the elements has.
pub fn uniform(parallel: &dyn Parallel, out: ViewMut<'_>, philox: Philox, low: f64, high: f64) {
    let span = high - low;
    let bits = match out.dtype() {
        DType::Double => {
            return generate::<f64>(parallel, out, philox, 2, |words, values| {
                for (value, words) in values.iter_mut().zip(words.chunks_exact(2)) {
                    *value = unit_f64(words) * span + low;
                }
            });
        }
        DType::Float16 => 11,
        DType::Bf16 => 8,
        _ => 24,
    };
    let (low, span) = (low as f32, span as f32);
    generate::<f32>(parallel, out, philox, 1, |words, values| {
        for (value, word) in values.iter_mut().zip(words) {
            *value = unit(*word, bits) * span + low;
        }
    });
}

/// Normally distributed around `mean`.
pub fn normal(
    parallel: &dyn Parallel,
    out: ViewMut<'_>,
    philox: Philox,
    mean: f64,
    deviation: f64,
) {
    if out.dtype() == DType::Double {
        return generate::<f64>(parallel, out, philox, 2, |words, values| {
            for (pair, words) in values.chunks_exact_mut(2).zip(words.chunks_exact(4)) {
                let radius = (-2.0 * (1.0 - unit_f64(&words[..2])).ln()).sqrt() * deviation;
                let (sine, cosine) = (std::f64::consts::TAU * unit_f64(&words[2..])).sin_cos();
                pair[0] = radius * cosine + mean;
                pair[1] = radius * sine + mean;
            }
        });
    }
    let (mean, deviation) = (mean as f32, deviation as f32);
    generate::<f32>(parallel, out, philox, 1, |words, values| {
        let (mut normals, mut padded) = ([0f32; 2 * PAIRS], [0u32; 2 * PAIRS]);
        for (values, words) in values.chunks_mut(2 * PAIRS).zip(words.chunks(2 * PAIRS)) {
            padded[..words.len()].copy_from_slice(words);
            normal_pairs(&padded, &mut normals);
            for (value, drawn) in values.iter_mut().zip(&normals) {
                *value = drawn * deviation + mean;
            }
        }
    });
}

/// With the density `rate * exp(-rate * x)`, for `x` from 0 on. Elements are `f32`, `f16` or `bf16`.
pub fn exponential(parallel: &dyn Parallel, out: ViewMut<'_>, philox: Philox, rate: f64) {
    generate::<f32>(parallel, out, philox, 1, |words, values| {
        for (value, word) in values.iter_mut().zip(words) {
            // From above 0 to below 1, in the middle of 2^31 parts: its logarithm is finite.
            let uniform = ((word >> 1) as f64 + 0.5) * (1.0 / 2_147_483_648.0);
            *value = (-uniform.ln() / rate) as f32;
        }
    });
}

/// Pairs of normal numbers that are made side by side.
const PAIRS: usize = 16;

/// Box-Muller: two words, taken as a radius and an angle, become two normal numbers.
#[inline(always)]
fn normal_pairs(words: &[u32; 2 * PAIRS], values: &mut [f32; 2 * PAIRS]) {
    let (mut radius, mut angle) = ([0f32; PAIRS], [0f32; PAIRS]);
    for at in 0..PAIRS {
        radius[at] = ((words[2 * at] >> 1) as i32 as f32 + 0.5) * (1.0 / 2_147_483_648.0);
        angle[at] = TAU * unit(words[2 * at + 1], 24);
    }
    for value in &mut radius {
        *value = (-2.0 * math::ln(*value)).max(0.0).sqrt();
    }
    let (mut cosines, mut sines) = ([0f32; PAIRS], [0f32; PAIRS]);
    for at in 0..PAIRS {
        cosines[at] = radius[at] * math::cos(angle[at]);
        sines[at] = radius[at] * math::sin(angle[at]);
    }
    for at in 0..PAIRS {
        values[2 * at] = cosines[at];
        values[2 * at + 1] = sines[at];
    }
}

/// Integers, uniformly from `low` on, `count` of them; 0 counts as 2^64.
pub fn integers(parallel: &dyn Parallel, out: ViewMut<'_>, philox: Philox, low: i64, count: u64) {
    if (1..=1 << 32).contains(&count) {
        return generate::<i64>(parallel, out, philox, 1, |words, values| {
            for (value, word) in values.iter_mut().zip(words) {
                *value = low.wrapping_add((u64::from(*word).wrapping_mul(count) >> 32) as i64);
            }
        });
    }
    generate::<i64>(parallel, out, philox, 2, |words, values| {
        for (value, words) in values.iter_mut().zip(words.chunks_exact(2)) {
            let drawn = match count {
                0 => two_words(words),
                _ => ((u128::from(two_words(words)) * u128::from(count)) >> 64) as u64,
            };
            *value = low.wrapping_add(drawn as i64);
        }
    });
}

/// How many of the 2^32 words mean 1 at a probability.
pub fn threshold(probability: f64) -> u64 {
    (probability.clamp(0.0, 1.0) * 4_294_967_296.0).round() as u64
}

/// 1 with a probability, else 0.
pub fn bernoulli(parallel: &dyn Parallel, out: ViewMut<'_>, philox: Philox, probability: f64) {
    let limit = threshold(probability);
    generate::<bool>(parallel, out, philox, 1, |words, values| {
        for (value, word) in values.iter_mut().zip(words) {
            *value = u64::from(*word) < limit;
        }
    });
}

/// 1 with the probability that `probabilities`, of the same sizes, has at the position. `probabilities` is `out` itself or
/// does not overlap it.
pub fn bernoulli_each(
    parallel: &dyn Parallel,
    out: ViewMut<'_>,
    philox: Philox,
    probabilities: View<'_>,
) {
    let packed = out.packed();
    let walk = Walk::new([&packed, out.layout(), probabilities.layout()]);
    let [_, to_stride, stride] = walk.inner_strides();
    split(parallel, walk.count(), STRIP, SMALL / 4, |range| {
        vectorised(|| {
            let mut words = [0u32; WINDOW];
            let mut buffer = [0f64; STRIP];
            let mut values = [false; STRIP];
            walk.runs(range, STRIP, |[index, to, from], length| {
                let skip = index as usize % BLOCK;
                philox.fill(index as u64 - skip as u64, &mut words[..skip + length]);
                // SAFETY: walks stay inside their layouts; nothing is borrowed.
                unsafe {
                    let probabilities =
                        strip(&probabilities, from, stride, length, false, &mut buffer);
                    for ((value, word), p) in
                        values.iter_mut().zip(&words[skip..skip + length]).zip(probabilities)
                    {
                        *value = f64::from(*word) < *p * 4_294_967_296.0;
                    }
                    let to = out.first_mut().offset(to * out.item() as isize);
                    store(out.dtype(), to, to_stride, &values[..length]);
                }
            });
        });
    });
}

/// The numbers below the count of `out` (64-bit integers, one after the other) in random order.
pub fn permutation(out: ViewMut<'_>, philox: Philox) {
    debug_assert!(out.dtype() == DType::Int64 && out.is_contiguous());
    let count = out.count();
    let first = out.first_mut().cast::<i64>();
    let mut words = [0u32; 2 * STRIP];
    // SAFETY: indices are below the count; reads and writes need no alignment.
    unsafe {
        (0..count).for_each(|at| first.add(at).write_unaligned(at as i64));
        for at in 0..count {
            if at % STRIP == 0 {
                vectorised(|| philox.fill(2 * at as u64, &mut words));
            }
            let word = two_words(&words[at % STRIP * 2..]);
            let remaining = (count - at) as u128;
            let other = at + ((u128::from(word) * remaining) >> 64) as usize;
            let (target, source) = (first.add(at), first.add(other));
            let (a, b) = (target.read_unaligned(), source.read_unaligned());
            target.write_unaligned(b);
            source.write_unaligned(a);
        }
    }
}
