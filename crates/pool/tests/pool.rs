//! The stream-ordered pool: against the model, and case by case.
#![cfg(not(feature = "shuttle"))]

mod model;

use cairn_pool::clock::{Clock, Epoch};
use cairn_pool::{BlockError, GRANULE, Outcome, Pool};
use model::{Op, PoolModel, STREAMS, Streams, TestSource};
use proptest::prelude::*;
use std::sync::Arc;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

fn op() -> impl Strategy<Value = Op> {
    let bytes = (0u32..21, any::<u64>()).prop_map(|(log, r)| (1u64 << log) + r % (1 << log));
    let align = prop_oneof![9 => Just(GRANULE), 1 => (9u32..17).prop_map(|log| 1 << log)];
    let stream = 0..STREAMS;
    prop_oneof![
        10 => (bytes, align, stream.clone()).prop_map(|(b, a, s)| Op::Allocate(b, a, s)),
        9 => (any::<usize>(), any::<usize>()).prop_map(|(block, choice)| Op::Free(block, choice)),
        2 => (any::<usize>(), stream.clone()).prop_map(|(block, s)| Op::Use(block, s)),
        4 => stream.clone().prop_map(Op::Submit),
        2 => (stream.clone(), 0u64..5).prop_map(|(s, quarters)| Op::Finish(s, quarters)),
        2 => (stream.clone(), stream).prop_map(|(a, b)| Op::Order(a, b)),
        1 => (0..8 * MIB).prop_map(Op::Trim),
        2 => Just(Op::FinishAll),
    ]
}

proptest! {
    #[test]
    fn agrees_with_the_naive_model(
        ops in prop::collection::vec(op(), 1..400),
        budget in prop_oneof![Just(u64::MAX), 4 * MIB..64 * MIB],
    ) {
        let mut model = PoolModel::new(budget);
        for op in ops {
            model.step_and_check(op);
        }
        model.end();
    }
}

/// 10^7 operations with the same rules; `CAIRN_POOL_OPERATIONS` changes how many.
#[test]
fn ten_million_operations() {
    let count = std::env::var("CAIRN_POOL_OPERATIONS").map_or(10_000_000, |n| n.parse().unwrap());
    let mut seed = 0x9e37_79b9_7f4a_7c15u64;
    let mut random = move || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    };
    let mut model = PoolModel::new(256 * MIB);
    for number in 0..count {
        let (a, b, c) = (random(), random() as usize, random() as usize);
        let stream = b % STREAMS;
        let op = match a % 32 {
            0..10 => {
                let log = 9 + (a >> 8) % 12;
                let align = if (a >> 20).is_multiple_of(16) { 4 * KIB } else { GRANULE };
                Op::Allocate((1 << log) + (a >> 32) % (1 << log), align, stream)
            }
            10..20 => Op::Free(b, c),
            20 => Op::Use(b, c % STREAMS),
            21..27 => Op::Submit(stream),
            27..30 => Op::Finish(stream, c as u64 % 5),
            30 => Op::Order(stream, c % STREAMS),
            _ if (a >> 8).is_multiple_of(64) => Op::Trim((a >> 16) % (128 * MIB)),
            _ => Op::Free(b, c),
        };
        model.step(op);
        if number % 100_000 == 0 {
            model.check_figures();
        }
    }
    assert!(
        model.failed_requests < count / 100,
        "{} requests found nothing",
        model.failed_requests
    );
    model.end();
}

/// The offset of a block, which there must be.
fn ready(outcome: Outcome) -> u64 {
    match outcome {
        Outcome::Ready { offset, .. } => offset,
        other => panic!("{other:?}"),
    }
}

#[test]
fn memory_moves_to_another_stream_when_it_is_done_or_ordered_and_not_before() {
    let streams = Arc::new(Streams::default());
    let pool = Pool::new(streams.clone(), TestSource::default(), u64::MAX);
    let first = ready(pool.allocate(MIB, GRANULE, 0));
    streams.submit(0);
    pool.free(first, 0).unwrap();
    assert_eq!(pool.figures().waiting, MIB);

    let second = ready(pool.allocate(MIB, GRANULE, 1));
    assert_ne!(first, second, "stream 0 may still use it");
    assert_eq!(ready(pool.allocate(MIB, GRANULE, 0)), first, "its own stream may have it at once");
    pool.free(first, 0).unwrap();
    streams.finish(0, 4);
    assert_eq!(pool.figures().waiting, 0);
    assert_eq!(ready(pool.allocate(MIB, GRANULE, 1)), first, "stream 0 has finished");

    pool.free(first, 1).unwrap();
    streams.submit(1);
    pool.free(second, 1).unwrap();
    streams.order(2, 1);
    let third = ready(pool.allocate(MIB, GRANULE, 2));
    assert!(third == first || third == second, "ordered before stream 2");
    assert_eq!(pool.figures().reserved, 2 * MIB);
}

#[test]
fn a_recorded_use_is_waited_for_on_the_own_stream_too() {
    let streams = Arc::new(Streams::default());
    let pool = Pool::new(streams.clone(), TestSource::default(), 2 * MIB);
    let block = ready(pool.allocate(MIB, GRANULE, 0));
    pool.record_use(block, 3).unwrap();
    streams.submit(3);
    pool.free(block, 0).unwrap();
    let other = ready(pool.allocate(MIB, GRANULE, 0));
    assert_ne!(block, other);
    assert_eq!(
        pool.allocate(MIB, GRANULE, 0),
        Outcome::Wait({
            let mut clock = Clock::new();
            clock.raise(Epoch { stream: 3, seq: 1 });
            clock
        })
    );
    streams.finish(3, 4);
    assert_eq!(ready(pool.allocate(MIB, GRANULE, 0)), block);
    assert_eq!(pool.allocate(MIB, GRANULE, 0), Outcome::OverBudget);
    assert_eq!(pool.figures().failed, 2);
    assert_eq!(pool.record_use(77 * GRANULE, 1), Err(BlockError::Unknown));
}

#[test]
fn the_budget_is_hard_and_scattered_free_memory_makes_room() {
    let pool = Pool::new(Arc::new(Streams::default()), TestSource::default(), 4 * MIB);
    let blocks: Vec<u64> = (0..4).map(|_| ready(pool.allocate(MIB, GRANULE, 0))).collect();
    assert_eq!(pool.allocate(1, GRANULE, 1), Outcome::OverBudget);
    pool.free(blocks[0], 0).unwrap();
    pool.free(blocks[2], 0).unwrap();
    let large = ready(pool.allocate(2 * MIB, GRANULE, 1));
    assert!(large >= 4 * MIB, "in one piece, at new addresses");
    assert_eq!(pool.figures().reserved, 4 * MIB);
    assert_eq!(pool.owners()[0].live, 2 * MIB);
}

#[test]
fn the_reason_of_the_source_is_handed_on() {
    let pool = Pool::new(Arc::new(Streams::default()), TestSource::with_limit(MIB), u64::MAX);
    let block = ready(pool.allocate(MIB, GRANULE, 0));
    let Outcome::Exhausted(reason) = pool.allocate(512, GRANULE, 0) else { panic!() };
    assert!(reason.contains("full"), "{reason}");
    pool.free(block, 0).unwrap();
    assert_eq!(ready(pool.allocate(512, GRANULE, 5)), block);
    for absurd in [u64::MAX, u64::MAX - 511, 1 << 63] {
        assert!(!matches!(pool.allocate(absurd, GRANULE, 0), Outcome::Ready { .. }));
    }
}

#[test]
fn peaks_are_exact_for_one_stream_and_can_be_reset() {
    let pool = Pool::new(Arc::new(Streams::default()), TestSource::default(), u64::MAX);
    let a = ready(pool.allocate(3 * MIB + 1, GRANULE, 0));
    let b = ready(pool.allocate(5 * MIB, GRANULE, 0));
    pool.free(a, 0).unwrap();
    let figures = pool.figures();
    assert_eq!((figures.peak, figures.live), (8 * MIB + GRANULE, 5 * MIB));
    pool.reset_peak();
    assert_eq!(pool.figures().peak, 5 * MIB);
    ready(pool.allocate(KIB, GRANULE, 1));
    let figures = pool.figures();
    assert!((5 * MIB + KIB..=7 * MIB + KIB).contains(&figures.peak), "{figures:?}");
    assert_eq!((figures.requested, figures.taken, figures.freed), (5 * MIB + KIB, 3, 1));
    pool.free(b, 0).unwrap();
    pool.retire(0);
    let reserved = pool.figures().reserved;
    ready(pool.allocate(8 * MIB - KIB, GRANULE, 1));
    assert_eq!(pool.figures().reserved, reserved);
}

#[test]
fn holes_of_several_streams_join_up_and_the_rest_stays_where_it_is() {
    let pool = Pool::new(Arc::new(Streams::default()), TestSource::default(), u64::MAX);
    let blocks: Vec<u64> = (0..8).map(|n| ready(pool.allocate(4 * MIB, GRANULE, n % 2))).collect();
    for index in [0, 3, 4, 6] {
        pool.free(blocks[index], index as u32 % 2).unwrap();
    }
    let reserved = pool.figures().reserved;
    assert_eq!(ready(pool.allocate(7 * MIB, GRANULE, 2)), blocks[3]);
    assert_eq!(pool.figures().reserved, reserved);
    let reserved_of = |stream| pool.figures_of(stream).unwrap().reserved;
    assert_eq!((reserved_of(0), reserved_of(1), reserved_of(2)), (12 * MIB, 12 * MIB, 8 * MIB));
    assert_eq!(pool.find(blocks[3]), Some((7 * MIB, 2)));
    assert_eq!(pool.find(blocks[5]), Some((4 * MIB, 1)));
}

#[test]
fn a_block_is_found_whoever_has_the_memory_around_it() {
    let pool = Pool::new(Arc::new(Streams::default()), TestSource::default(), u64::MAX);
    let blocks: Vec<u64> = (0..60).map(|n| ready(pool.allocate(KIB, GRANULE, n % 7))).collect();
    for (stream, &block) in (0..7).cycle().zip(&blocks) {
        assert_eq!(pool.find(block), Some((KIB, stream)));
        assert_eq!(pool.find(block + GRANULE), None);
    }
    for &block in &blocks {
        assert_eq!(pool.free(block, 7), Ok(KIB));
        assert_eq!(pool.free(block, 7), Err(BlockError::NotLive));
        assert_eq!(pool.record_use(block + GRANULE, 7), Err(BlockError::Unknown));
    }
}
