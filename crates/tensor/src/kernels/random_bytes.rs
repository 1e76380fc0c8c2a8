//! Random numbers as bytes, each of a block of the generator of its own: what a device draws without an operator.

use super::math;
use super::philox::{BLOCK, Philox};
use crate::DType;
use half::{bf16, f16};
use std::f64::consts::{SQRT_2, TAU};

/// A bound or a parameter of a [`Distribution`], as the type of the elements has it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// Of a floating point type.
    Real(f64),
    /// Of an integer type.
    Whole(i128),
}

impl Number {
    /// The number in the first bytes of `bytes`; `None` for types that are not drawn.
    pub fn decode(dtype: DType, bytes: [u8; 8]) -> Option<Number> {
        let [two, four] = [[bytes[0], bytes[1], 0, 0], [bytes[0], bytes[1], bytes[2], bytes[3]]];
        let half = [two[0], two[1]];
        Some(match dtype {
            DType::Float16 => Number::Real(f16::from_le_bytes(half).to_f64()),
            DType::Bf16 => Number::Real(bf16::from_le_bytes(half).to_f64()),
            DType::Float => Number::Real(f32::from_le_bytes(four).into()),
            DType::Int32 => Number::Whole(i32::from_le_bytes(four).into()),
            DType::Uint32 => Number::Whole(u32::from_le_bytes(four).into()),
            DType::Int64 => Number::Whole(i64::from_le_bytes(bytes).into()),
            DType::Uint64 => Number::Whole(u64::from_le_bytes(bytes).into()),
            _ => return None,
        })
    }

    /// As a real number.
    pub fn real(self) -> f64 {
        match self {
            Number::Real(value) => value,
            Number::Whole(value) => value as f64,
        }
    }
}

/// How random numbers are distributed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Distribution {
    /// From the first number to below the second one; the first one where both are the same.
    Uniform(Number, Number),
    /// Around `mean`; integers are the nearest ones.
    Normal {
        /// The mean.
        mean: f64,
        /// The standard deviation.
        deviation: f64,
    },
    /// As `Normal`, of the numbers that are at most two standard deviations from the mean.
    Truncated {
        /// The mean.
        mean: f64,
        /// The standard deviation of the whole distribution.
        deviation: f64,
    },
}

/// Bytes of an element that can be drawn; `None` for other types.
pub fn element_bytes(dtype: DType) -> Option<usize> {
    Number::decode(dtype, [0; 8]).and_then(|_| dtype.size_in_bytes())
}

/// What a block of the generator is for one number.
#[derive(Clone, Copy)]
struct Draw([u32; BLOCK]);

impl Draw {
    /// Calls `each` with the blocks of the numbers from `first` on.
    fn each(philox: Philox, first: u64, count: usize, mut each: impl FnMut(Draw)) {
        let mut words = [0u32; 64 * BLOCK];
        for start in (0..count).step_by(64) {
            let words = &mut words[..BLOCK * 64.min(count - start)];
            philox.fill((first + start as u64) * BLOCK as u64, words);
            for &draw in words.as_chunks().0 {
                each(Draw(draw));
            }
        }
    }

    fn bits(self, half: usize) -> u64 {
        u64::from(self.0[2 * half]) | u64::from(self.0[2 * half + 1]) << 32
    }

    /// A number above 0 and below 1.
    fn unit(self, half: usize) -> f64 {
        ((self.bits(half) >> 12) as f64 + 0.5) * (1.0 / (1u64 << 52) as f64)
    }

    fn uniform(self, low: Number, high: Number) -> Number {
        match (low, high) {
            (Number::Whole(low), Number::Whole(high)) => {
                let count = high.abs_diff(low);
                Number::Whole(low + ((u128::from(self.bits(0)) * count) >> 64) as i128)
            }
            _ => {
                let (low, high) = (low.real(), high.real());
                Number::Real(low + self.unit(0) * (high - low))
            }
        }
    }

    fn normal(self) -> f64 {
        (-2.0 * self.unit(0).ln()).sqrt() * (TAU * self.unit(1)).cos()
    }

    fn truncated(self) -> f64 {
        SQRT_2 * math::erfinv((2.0 * self.unit(0) - 1.0) * libm::erf(SQRT_2))
    }
}

/// Fills `out` with numbers of a type that [`element_bytes`] knows, those from number `first` on; of any other type nothing.
pub fn draw(dtype: DType, distribution: Distribution, philox: Philox, first: u64, out: &mut [u8]) {
    let Some(bytes) = element_bytes(dtype) else { return };
    let mut elements = out.chunks_exact_mut(bytes);
    Draw::each(philox, first, elements.len(), |draw| {
        let value = match distribution {
            Distribution::Uniform(low, high) => draw.uniform(low, high),
            Distribution::Normal { mean, deviation } => {
                Number::Real(mean + deviation * draw.normal())
            }
            Distribution::Truncated { mean, deviation } => {
                Number::Real(mean + deviation * draw.truncated())
            }
        };
        let is_uniform = matches!(distribution, Distribution::Uniform(..));
        if let Some(element) = elements.next() {
            element.copy_from_slice(&encoded(dtype, value, is_uniform)[..bytes]);
        }
    });
}

/// Fills `out` with bits, from bit `first` on and the lowest of each byte first, which are 0 with a probability.
pub fn draw_kept_bits(dropped: f64, philox: Philox, first: u64, count: usize, out: &mut [u8]) {
    out[..count.div_ceil(8)].fill(0);
    let mut at = 0;
    Draw::each(philox, first, count, |draw| {
        out[at / 8] |= u8::from(draw.unit(0) > dropped) << (at % 8);
        at += 1;
    });
}

/// The bytes of a number in a type: the nearest one, or the nearest one that is not larger.
fn encoded(dtype: DType, value: Number, is_rounded_down: bool) -> [u8; 8] {
    let mut bytes = [0u8; 8];
    let whole = match value {
        Number::Whole(value) => value,
        Number::Real(value) => value.round() as i128,
    };
    let value = value.real();
    /// The next bits of a floating point number of 16 bits downwards.
    fn lower(bits: u16) -> u16 {
        match bits {
            0 | 0x8000 => 0x8001,
            _ if bits >> 15 == 0 => bits - 1,
            _ => bits + 1,
        }
    }
    let halves = |bits: u16, nearest: f64| match is_rounded_down && nearest > value {
        true => lower(bits),
        false => bits,
    };
    match dtype {
        DType::Float16 => {
            let nearest = f16::from_f64(value);
            bytes[..2].copy_from_slice(&halves(nearest.to_bits(), nearest.to_f64()).to_le_bytes());
        }
        DType::Bf16 => {
            let nearest = bf16::from_f64(value);
            bytes[..2].copy_from_slice(&halves(nearest.to_bits(), nearest.to_f64()).to_le_bytes());
        }
        DType::Float => {
            let nearest = value as f32;
            let is_above = is_rounded_down && f64::from(nearest) > value;
            let rounded = if is_above { nearest.next_down() } else { nearest };
            bytes[..4].copy_from_slice(&rounded.to_le_bytes());
        }
        DType::Int32 => {
            let clamped = whole.clamp(i32::MIN.into(), i32::MAX.into()) as i32;
            bytes[..4].copy_from_slice(&clamped.to_le_bytes());
        }
        DType::Uint32 => {
            let clamped = whole.clamp(0, u32::MAX.into()) as u32;
            bytes[..4].copy_from_slice(&clamped.to_le_bytes());
        }
        DType::Int64 => {
            let clamped = whole.clamp(i64::MIN.into(), i64::MAX.into()) as i64;
            bytes.copy_from_slice(&clamped.to_le_bytes());
        }
        _ => bytes.copy_from_slice(&(whole.clamp(0, u64::MAX.into()) as u64).to_le_bytes()),
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    const COUNT: usize = 20_000;

    fn numbers(dtype: DType, distribution: Distribution) -> Vec<Number> {
        let bytes = element_bytes(dtype).unwrap();
        let mut out = vec![0u8; COUNT * bytes];
        draw(dtype, distribution, Philox::new(7, 0), 0, &mut out);
        (out.chunks_exact(bytes))
            .map(|element| {
                let mut eight = [0u8; 8];
                eight[..bytes].copy_from_slice(element);
                Number::decode(dtype, eight).unwrap()
            })
            .collect()
    }

    #[test]
    fn integers_of_64_bits_have_all_their_bits() {
        let range =
            Distribution::Uniform(Number::Whole(i64::MIN.into()), Number::Whole(i64::MAX.into()));
        let drawn = numbers(DType::Int64, range);
        for bit in 0..64 {
            let ones = drawn.iter().filter(|number| match number {
                Number::Whole(value) => (*value as i64) >> bit & 1 == 1,
                Number::Real(_) => false,
            });
            let share = ones.count() as f64 / COUNT as f64;
            assert!((0.48..0.52).contains(&share), "bit {bit}: {share}");
        }
        let unsigned = Distribution::Uniform(Number::Whole(0), Number::Whole(u64::MAX.into()));
        let large = numbers(DType::Uint64, unsigned).into_iter().filter(|n| n.real() > 1.5e19);
        assert!((0.17..0.21).contains(&(large.count() as f64 / COUNT as f64)));
    }

    #[test]
    fn uniform_numbers_stay_below_their_bound_in_each_type() {
        for dtype in [DType::Float16, DType::Bf16, DType::Float] {
            let drawn =
                numbers(dtype, Distribution::Uniform(Number::Real(-1.0), Number::Real(1.0)));
            assert!(drawn.iter().all(|number| (-1.0..1.0).contains(&number.real())), "{dtype:?}");
            let mean = drawn.iter().map(|number| number.real()).sum::<f64>() / COUNT as f64;
            assert!(mean.abs() < 0.02, "{dtype:?}: {mean}");
        }
        let few = numbers(DType::Int32, Distribution::Uniform(Number::Whole(-2), Number::Whole(1)));
        for value in -2..1 {
            let share = few.iter().filter(|number| **number == Number::Whole(value)).count();
            assert!((0.31..0.36).contains(&(share as f64 / COUNT as f64)), "{value}: {share}");
        }
        let one =
            numbers(DType::Float, Distribution::Uniform(Number::Real(3.5), Number::Real(3.5)));
        assert!(one.iter().all(|number| *number == Number::Real(3.5)));
    }

    /// The share of standard normal numbers up to `x`.
    fn share_below(x: f64) -> f64 {
        0.5 * (1.0 + libm::erf(x / SQRT_2))
    }

    #[test]
    fn normal_numbers_have_their_shares_whole_and_truncated() {
        let [whole, truncated] = [
            Distribution::Normal { mean: 10.0, deviation: 2.0 },
            Distribution::Truncated { mean: 10.0, deviation: 2.0 },
        ]
        .map(|distribution| {
            let drawn = numbers(DType::Float, distribution);
            drawn.into_iter().map(|number| (number.real() - 10.0) / 2.0).collect::<Vec<_>>()
        });
        let inside = share_below(2.0) - share_below(-2.0);
        for tenth in -25..=25 {
            let x = f64::from(tenth) / 10.0;
            let share = |drawn: &[f64]| {
                drawn.iter().filter(|value| **value <= x).count() as f64 / COUNT as f64
            };
            assert!((share(&whole) - share_below(x)).abs() < 0.015, "{x}: {}", share(&whole));
            let expected =
                ((share_below(x.clamp(-2.0, 2.0)) - share_below(-2.0)) / inside).clamp(0.0, 1.0);
            assert!((share(&truncated) - expected).abs() < 0.015, "{x}: {}", share(&truncated));
        }
        assert!(truncated.iter().all(|value| value.abs() <= 2.0 + 1e-6));
        assert!(whole.iter().any(|value| value.abs() > 3.0));
    }

    #[test]
    fn numbers_do_not_depend_on_how_many_are_drawn_at_once() {
        let range = Distribution::Uniform(Number::Whole(0), Number::Whole(1 << 30));
        let mut whole = vec![0u8; 400];
        draw(DType::Int32, range, Philox::new(3, 5), 0, &mut whole);
        let mut parts = vec![0u8; 400];
        for (part, first) in parts.chunks_mut(52).zip((0..).step_by(13)) {
            draw(DType::Int32, range, Philox::new(3, 5), first, part);
        }
        assert_eq!(whole, parts);
    }

    #[test]
    fn bits_are_kept_as_often_as_asked() {
        let mut out = vec![0xffu8; COUNT / 8 + 1];
        draw_kept_bits(0.25, Philox::new(1, 0), 0, COUNT - 3, &mut out);
        let ones: u32 = out[..COUNT / 8].iter().map(|byte| byte.count_ones()).sum();
        assert!((0.73..0.77).contains(&(f64::from(ones) / COUNT as f64)), "{ones}");
        assert_eq!((out[COUNT / 8 - 1] >> 5, out[COUNT / 8]), (0, 0xff));
        draw_kept_bits(1.0, Philox::new(1, 0), 0, 64, &mut out);
        assert_eq!(out[..8], [0; 8]);
        draw_kept_bits(0.0, Philox::new(1, 0), 0, 64, &mut out);
        assert_eq!(out[..8], [0xff; 8]);
    }
}
