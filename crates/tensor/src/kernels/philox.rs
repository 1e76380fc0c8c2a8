//! Random words from a counter: Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy
//! as 1, 2, 3", 2011).

/// Words that a seed and an offset decide. Word `i` is the same whichever thread computes it, in whatever order: threads
/// share nothing. Another offset gives words that have nothing to do with these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Philox {
    seed: u64,
    offset: u64,
}

/// The constants of the generator, as the paper has them.
const MULTIPLY: [u32; 2] = [0xD251_1F53, 0xCD9E_8D57];
const WEYL: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];
const ROUNDS: usize = 10;

/// Words that one value of the counter gives.
pub const BLOCK: usize = 4;

/// Values of the counter that are computed side by side.
const LANES: usize = 8;

impl Philox {
    /// The words of a seed at an offset.
    pub fn new(seed: u64, offset: u64) -> Philox {
        Philox { seed, offset }
    }

    /// Fills `words` with those from number `first` on, which is a multiple of [`BLOCK`].
    #[inline(always)]
    pub fn fill(&self, first: u64, words: &mut [u32]) {
        debug_assert!(first.is_multiple_of(BLOCK as u64));
        let mut count = first / BLOCK as u64;
        for chunk in words.chunks_mut(LANES * BLOCK) {
            let blocks = self.blocks(count);
            if chunk.len() == LANES * BLOCK {
                for (lane, to) in chunk.chunks_exact_mut(BLOCK).enumerate() {
                    (0..BLOCK).for_each(|at| to[at] = blocks[at][lane]);
                }
            } else {
                for (at, word) in chunk.iter_mut().enumerate() {
                    *word = blocks[at % BLOCK][at / BLOCK];
                }
            }
            count += LANES as u64;
        }
    }

    /// The words of [`LANES`] values of the counter: first words, second words, ..
    #[inline(always)]
    fn blocks(&self, count: u64) -> [[u32; LANES]; BLOCK] {
        let counts: [u64; LANES] = std::array::from_fn(|lane| count.wrapping_add(lane as u64));
        let counter = [
            counts.map(|count| count as u32),
            counts.map(|count| (count >> 32) as u32),
            [self.offset as u32; LANES],
            [(self.offset >> 32) as u32; LANES],
        ];
        scrambled(counter, [self.seed as u32, (self.seed >> 32) as u32])
    }
}

/// The rounds of the generator.
#[inline(always)]
fn scrambled<const N: usize>(mut words: [[u32; N]; 4], mut key: [u32; 2]) -> [[u32; N]; 4] {
    for round in 0..ROUNDS {
        if round > 0 {
            key = [key[0].wrapping_add(WEYL[0]), key[1].wrapping_add(WEYL[1])];
        }
        let mut next = [[0; N]; 4];
        for at in 0..N {
            let left = u64::from(MULTIPLY[0]) * u64::from(words[0][at]);
            let right = u64::from(MULTIPLY[1]) * u64::from(words[2][at]);
            next[0][at] = (right >> 32) as u32 ^ words[1][at] ^ key[0];
            next[1][at] = right as u32;
            next[2][at] = (left >> 32) as u32 ^ words[3][at] ^ key[1];
            next[3][at] = left as u32;
        }
        words = next;
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The vectors that the authors publish with their library.
    #[test]
    fn published_vectors() {
        for (counter, key, words) in [
            ([0; 4], [0; 2], [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]),
            ([u32::MAX; 4], [u32::MAX; 2], [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]),
            (
                [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344],
                [0xa409_3822, 0x299f_31d0],
                [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1],
            ),
        ] {
            assert_eq!(scrambled(counter.map(|word| [word]), key), words.map(|word| [word]));
        }
    }

    #[test]
    fn a_word_is_the_same_whoever_asks() {
        let philox = Philox::new(u64::MAX - 3, 17 << 32);
        let mut all = [0; 1000];
        philox.fill(0, &mut all);
        for (first, count) in [(0, 1), (4, 31), (8, 33), (512, 488)] {
            let mut part = vec![0; count];
            philox.fill(first as u64, &mut part);
            assert_eq!(part, all[first..first + count]);
        }
        let mut other = [0; 1000];
        Philox::new(u64::MAX - 3, 18 << 32).fill(0, &mut other);
        assert!(all.iter().all(|word| !other.contains(word)));
    }
}
