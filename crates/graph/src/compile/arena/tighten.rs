//! Brings a plan down to the lower bound, or close to it: searches for packings below one limit after the other.

use super::{
    Block,
    exact::{Choice, Outcome, Search, mix},
    packing::Packing,
    placement::Placement,
    problem::Problem,
};

/// How many steps a plan is worth that is [`NEAR`]: some ten milliseconds for a thousand blocks.
const STEPS_NEAR: Budget = Budget { each: 100_000, max: 60_000_000 };

/// How many steps any other plan is worth: less than a second.
const STEPS: Budget = Budget { each: 1_000_000, max: 300_000_000 };

/// A number of steps for each block, and for all of them.
struct Budget {
    each: u64,
    max: u64,
}

impl Budget {
    fn of(&self, blocks: usize) -> u64 {
        (self.each * blocks as u64).min(self.max)
    }
}

/// A plan is near the lower bound when it is at most this many thousandths larger.
const NEAR: u64 = 5;

/// Replaces `best` and `bytes` when it finds smaller plans; ends at the lower bound, or after a number of steps.
///
/// A search that goes well decides once about each block, and one that does not seldom recovers soon. So each gets
/// a small number of decisions, and the next begins anew with another order of blocks. They take turns: one tries
/// the lower bound, the next a limit between it and the best plan, closer to the plan each time that it fails.
pub fn tighten(
    blocks: &[Block],
    placement: &Placement,
    lower_bound: u64,
    best: &mut [u64],
    bytes: &mut u64,
) {
    if *bytes == u64::MAX {
        return;
    }
    let Some(problem) = Problem::new(blocks, placement, *bytes) else { return };
    let mut search = Search::new(Packing::new(&problem));
    let orders = Orders::new(blocks, &problem);
    let (mut least, mut top) = (problem.units(lower_bound), problem.units(*bytes));
    let (mut is_between, mut shift) = (false, 1);
    for run in 0.. {
        let is_near = (*bytes - lower_bound) / NEAR <= lower_bound / 1000;
        let max_steps = if is_near { STEPS_NEAR } else { STEPS }.of(blocks.len());
        if least >= top || search.packing.steps >= max_steps {
            break;
        }
        let limit = if is_between { top - ((top - least) >> shift).max(1) } else { least };
        let choice = CHOICES[run % CHOICES.len()];
        let ranks = orders.ranks(run / CHOICES.len());
        let max_decisions = (blocks.len() as u64 + 64) * (6 + run as u64 / 96) / 4;
        match search.run(limit, choice, &ranks, max_decisions, max_steps) {
            Outcome::Found => {
                let offsets = &search.packing.least;
                let ends = offsets.iter().zip(&problem.sizes).map(|(at, size)| at + size);
                top = ends.max().unwrap_or(0);
                *bytes = problem.bytes(top);
                best.iter_mut().zip(offsets).for_each(|(to, from)| *to = problem.bytes(*from));
                shift = 1;
            }
            Outcome::Impossible => least = limit + 1,
            Outcome::Undecided => {
                shift = if is_between { shift % 4 + 1 } else { shift };
                is_between = !is_between;
            }
        }
    }
}

/// What searches take turns with.
const CHOICES: [Choice; 3] = [Choice::Fewest, Choice::Fewest, Choice::Product];

/// Orders of blocks: the wide, the large, those in full sections first; later ones with noise.
struct Orders {
    /// For each order what each block is ranked by.
    keys: [Vec<(u64, u64)>; ORDERS],
}

const ORDERS: usize = 5;

impl Orders {
    fn new(blocks: &[Block], problem: &Problem) -> Orders {
        let totals = problem.totals();
        let fullest = |block: usize| -> u64 {
            totals[problem.range(block as u32)].iter().copied().max().unwrap_or(0).into()
        };
        let key = |block: usize, order: usize| {
            let size = u64::from(problem.sizes[block]);
            let length = blocks[block].length();
            let area = size.saturating_mul(length);
            match order {
                0 => (length, size),
                1 => (fullest(block), area),
                2 => (fullest(block), length),
                3 => (size, length),
                _ => (area, size),
            }
        };
        Orders {
            keys: std::array::from_fn(|order| {
                (0..blocks.len()).map(|block| key(block, order)).collect()
            }),
        }
    }

    /// The place of each block in an order.
    fn ranks(&self, run: usize) -> Vec<u32> {
        let keys = &self.keys[run % ORDERS];
        let round = (run / ORDERS) as u64;
        let strength = if round == 0 { 0 } else { 8 * (1 + round % 8) };
        let noisy = |block: u32| {
            let noise = mix((run as u64) << 32 | u64::from(block)) % (strength + 1);
            let (first, second) = keys[block as usize];
            let scaled = |value: u64| u128::from(value) * u128::from(128 + noise);
            (scaled(first), scaled(second))
        };
        let mut order: Vec<u32> = (0..keys.len() as u32).collect();
        order.sort_by_cached_key(|block| std::cmp::Reverse(noisy(*block)));
        let mut ranks = vec![0; keys.len()];
        order.iter().enumerate().for_each(|(rank, block)| ranks[*block as usize] = rank as u32);
        ranks
    }
}
