//! The sequences that all candidates run: the same slots and sizes in the same order.

/// One replacement: the block in `slot` is freed and one of `bytes` takes its place.
#[derive(Clone, Copy)]
pub struct Step {
    /// Which live block goes.
    pub slot: u32,
    /// The size of the new one.
    pub bytes: u32,
}

/// The shape of a churn: how many blocks live at a time, and between which sizes.
#[derive(Clone, Copy)]
pub struct Shape {
    /// Live blocks.
    pub live: usize,
    /// The smallest size.
    pub smallest: u32,
    /// The largest size.
    pub largest: u32,
}

/// 1,024 live blocks of 512 B to 1 MiB.
pub const CHURN_1K: Shape = Shape { live: 1024, smallest: 512, largest: 1 << 20 };

/// 64 live blocks of 2 KiB to 32 MiB.
pub const CHURN_64L: Shape = Shape { live: 64, smallest: 2 << 10, largest: 32 << 20 };

/// A small generator with a fixed start, so that every run has the same sequence (xorshift64*).
pub struct Random(u64);

impl Random {
    /// The generator of `seed`.
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// The next number.
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        ((u128::from(self.next()) * end as u128) >> 64) as usize
    }

    /// A size whose logarithm is uniform.
    pub fn size(&mut self, shape: Shape) -> u32 {
        let (low, high) = (f64::from(shape.smallest).ln(), f64::from(shape.largest).ln());
        let part = (self.next() >> 11) as f64 / (1u64 << 53) as f64;
        (low + part * (high - low)).exp().round() as u32
    }
}

/// `count` random replacements; whoever runs them starts over at the end.
pub fn replacements(shape: Shape, count: usize, seed: u64) -> Vec<Step> {
    let mut random = Random::new(seed);
    (0..count)
        .map(|_| Step { slot: random.below(shape.live) as u32, bytes: random.size(shape) })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_stay_within_the_shape_and_spread_by_their_logarithm() {
        let steps = replacements(CHURN_1K, 20_000, 1);
        assert!(steps.iter().all(|s| (512..=1 << 20).contains(&s.bytes) && s.slot < 1024));
        // Eleven doublings from 512 B to 1 MiB: each holds an eleventh.
        let below = steps.iter().filter(|s| s.bytes < 1024).count() as f64 / 20_000.0;
        assert!((below - 1.0 / 11.0).abs() < 0.01, "{below}");
    }

    #[test]
    fn a_seed_names_one_sequence() {
        let bytes = |seed| replacements(CHURN_64L, 100, seed).iter().map(|s| s.bytes).sum::<u32>();
        assert_eq!(bytes(3), bytes(3));
        assert_ne!(bytes(3), bytes(4));
    }
}
