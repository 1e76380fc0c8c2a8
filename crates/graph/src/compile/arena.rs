//! Where intermediates lie: one arena, planned before anything runs.
//!
//! Every tensor between two steps has a lifetime, from the step that writes it to the last that reads it. Lifetimes
//! that share a step lie apart; lifetimes that do not may share bytes.
//!
//! ```text
//! bytes ^
//!       |  +-----+  +--------+      a block is as wide as its lifetime
//!       |  |  b  |  |   d    |      and as high as its bytes
//!       |  +-----+--+-+------+
//!       |  |    a     |  +---+
//!       |  +----------+  | e |
//!       +-------------------------> steps
//! ```

mod exact;
mod packing;
mod placement;
mod problem;
mod search;
#[cfg(test)]
mod tests;
mod tighten;

use placement::{Fit, Placement};

/// How long a tensor lives: from step `first` to step `last`, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetime {
    /// Its size; 0 is allowed and takes no room.
    pub bytes: u64,
    /// The step that writes it.
    pub first: usize,
    /// The last step that reads it; one before `first` counts as `first`.
    pub last: usize,
}

/// Where everything lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arena {
    /// Where each lifetime begins, in the order they were given.
    pub offsets: Vec<u64>,
    /// The size of the arena; `u64::MAX` when the lifetimes do not fit into 64 bits.
    pub bytes: u64,
    /// What no plan can go below: the largest sum of rounded sizes that are alive at one step.
    pub lower_bound: u64,
}

/// A lifetime with its size rounded up.
#[derive(Clone, Copy, Debug)]
struct Block {
    bytes: u64,
    first: usize,
    last: usize,
}

impl Block {
    fn length(&self) -> u64 {
        (self.last - self.first) as u64 + 1
    }

    fn overlaps(&self, other: &Block) -> bool {
        self.first <= other.last && other.first <= self.last
    }
}

/// Places the lifetimes so that any two that share a step lie apart, at multiples of `align`.
///
/// The same lifetimes give the same plan. It is never larger than greedy-by-size (the largest first, each in the
/// first gap or in the smallest): those are candidates, beside other orders. Unless one reaches the lower
/// bound, packings below it are searched for and the best order is improved, both for a bounded number of steps. Plans
/// of real graphs take milliseconds; what is hard to plan takes up to a second.
///
/// # Panics
/// When `align` is 0.
pub fn plan(lifetimes: &[Lifetime], align: u64) -> Arena {
    assert!(align > 0, "blocks need an alignment of at least 1");
    let indices: Vec<usize> = (0..lifetimes.len()).filter(|at| lifetimes[*at].bytes > 0).collect();
    let blocks: Vec<Block> = indices
        .iter()
        .map(|at| {
            let lifetime = lifetimes[*at];
            let bytes = lifetime.bytes.div_ceil(align).saturating_mul(align);
            Block { bytes, first: lifetime.first, last: lifetime.last.max(lifetime.first) }
        })
        .collect();
    let lower_bound = lower_bound(&blocks);
    let mut placement = Placement::new(&blocks);
    let (found, bytes) = best(&blocks, &mut placement, lower_bound);
    let mut offsets = vec![0; lifetimes.len()];
    indices.iter().zip(found).for_each(|(at, offset)| offsets[*at] = offset);
    Arena { offsets, bytes, lower_bound }
}

/// The largest sum of blocks at one step.
fn lower_bound(blocks: &[Block]) -> u64 {
    let mut begins: Vec<(usize, u64)> = blocks.iter().map(|one| (one.first, one.bytes)).collect();
    let mut ends: Vec<(usize, u64)> = blocks.iter().map(|one| (one.last, one.bytes)).collect();
    begins.sort_unstable();
    ends.sort_unstable();
    let (mut alive, mut peak) = (0u128, 0u128);
    let mut ends = ends.into_iter().peekable();
    for (step, bytes) in begins {
        while let Some((_, freed)) = ends.next_if(|(last, _)| *last < step) {
            alive -= u128::from(freed);
        }
        alive += u128::from(bytes);
        peak = peak.max(alive);
    }
    u64::try_from(peak).unwrap_or(u64::MAX)
}

/// How many blocks may be visited before no further order is tried.
const MAX_VISITS: u64 = 60_000_000;

/// How many orders are tried in any case: those of greedy-by-size.
const GREEDY_ORDERS: usize = 2;

/// The offsets of the best plan found, and its size.
fn best(blocks: &[Block], placement: &mut Placement, lower_bound: u64) -> (Vec<u64>, u64) {
    let (mut best, mut bytes, order) = by_order(blocks, placement, lower_bound);
    if bytes <= lower_bound {
        return (best, bytes);
    }
    let (mut packed, mut packed_bytes) = (best.clone(), bytes);
    tighten::tighten(blocks, placement, lower_bound, &mut packed, &mut packed_bytes);
    if packed_bytes > lower_bound {
        search::improve(blocks, placement, &order, lower_bound, &mut best, &mut bytes);
    }
    if packed_bytes < bytes { (packed, packed_bytes) } else { (best, bytes) }
}

/// The offsets of the best plan that places blocks in one of several orders, its size and its order.
fn by_order(
    blocks: &[Block],
    placement: &mut Placement,
    lower_bound: u64,
) -> (Vec<u64>, u64, Vec<u32>) {
    let (mut best, mut bytes, mut best_order) = (vec![0; blocks.len()], u64::MAX, Vec::new());
    if blocks.is_empty() {
        return (best, 0, best_order);
    }
    for (index, (order, fit)) in candidates(blocks, placement).enumerate() {
        if index >= GREEDY_ORDERS && placement.visits > MAX_VISITS {
            break;
        }
        let top = placement.place(&order, fit);
        if top < bytes || best_order.is_empty() {
            bytes = top;
            best.copy_from_slice(placement.offsets());
            best_order = order;
        }
        if bytes <= lower_bound {
            break;
        }
    }
    (best, bytes, best_order)
}

/// Orders to place blocks in, the cheapest and most promising first. Lazy: a later one costs nothing when an
/// earlier one reaches the lower bound.
fn candidates<'a>(
    blocks: &'a [Block],
    placement: &Placement,
) -> impl Iterator<Item = (Vec<u32>, Fit)> + use<'a> {
    use std::cmp::Reverse;
    let degrees = placement.degrees().to_vec();
    let by_size = |one: &Block| Reverse(one.bytes);
    let by_area = |one: &Block| Reverse(u128::from(one.bytes) * u128::from(one.length()));
    (0..8).map(move |index| {
        let mut order: Vec<u32> = (0..blocks.len() as u32).collect();
        let block = |at: &u32| &blocks[*at as usize];
        match index {
            0 | 1 => order.sort_by_key(|at| by_size(block(at))),
            2 => order.sort_by_key(|at| by_area(block(at))),
            3 => order.sort_by_key(|at| (Reverse(block(at).length()), by_size(block(at)))),
            4 => order.sort_by_key(|at| (Reverse(degrees[*at as usize]), by_size(block(at)))),
            5 => order.sort_by_key(|at| (block(at).first, by_size(block(at)))),
            6 => order.sort_by_key(|at| (Reverse(block(at).last), by_size(block(at)))),
            _ => order.sort_by_key(|at| (by_size(block(at)), block(at).first)),
        }
        (order, if matches!(index, 1 | 5) { Fit::Best } else { Fit::First })
    })
}
