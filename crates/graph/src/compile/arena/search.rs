//! Makes a plan smaller: blocks that do not fit below the best plan's top get an earlier turn.

use super::{
    Block,
    placement::{Fit, Placement},
};

/// How many blocks may be visited: some hundred milliseconds.
const MAX_VISITS: u64 = 20_000_000;

/// Replaces `best` and `bytes` when it finds smaller plans; ends at the lower bound, or after [`MAX_VISITS`].
///
/// Blocks are placed in turn below a limit just under the best plan. The first that does not fit moves in front
/// of one that is in its way, and placing goes on from there. Now and then the search begins again at the order
/// of the best plan, with two blocks swapped.
pub fn improve(
    blocks: &[Block],
    placement: &mut Placement,
    start: &[u32],
    lower_bound: u64,
    best: &mut [u64],
    bytes: &mut u64,
) {
    if !placement.knows_interference() || *bytes == u64::MAX {
        return;
    }
    let stop = placement.visits + MAX_VISITS;
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut best_order = start.to_vec();
    let mut order = start.to_vec();
    let (mut from, mut failures) = (0, 0usize);
    while placement.visits < stop && *bytes > lower_bound {
        match placement.place_from(&order, from, Fit::First, *bytes - 1) {
            Ok(()) => {
                best.copy_from_slice(placement.offsets());
                *bytes = top(blocks, best);
                best_order.copy_from_slice(&order);
                (from, failures) = (0, 0);
            }
            Err(turn) => {
                failures += 1;
                if failures.is_multiple_of(4 * order.len().max(64)) {
                    order.copy_from_slice(&best_order);
                    let (one, other) = (random.below(order.len()), random.below(order.len()));
                    order.swap(one, other);
                    from = 0;
                    continue;
                }
                let earlier =
                    placement.earlier_neighbor(order[turn], turn, |count| random.below(count));
                order[earlier..=turn].rotate_right(1);
                from = earlier;
            }
        }
    }
}

/// Where the highest block ends.
fn top(blocks: &[Block], offsets: &[u64]) -> u64 {
    blocks.iter().zip(offsets).map(|(one, begin)| begin + one.bytes).max().unwrap_or(0)
}

/// Numbers that look random and are the same in every run (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as usize % bound.max(1)
    }
}
