//! The pool under a scheduler that tries many interleavings of threads.
//!
//! `cargo test -p cairn-pool --features shuttle --test models`; `CAIRN_SHUTTLE_ITERATIONS` sets how
//! many interleavings each model gets.

#![cfg(feature = "shuttle")]

#[path = "models/device.rs"]
mod device;
#[path = "models/pool_model.rs"]
mod pool_model;

use cairn_pool::{BlockError, GRANULE, Outcome};
use pool_model::PoolModel;
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::thread;
use std::sync::Arc;

fn explore(model: impl Fn() + Send + Sync + 'static) {
    let asked = std::env::var("CAIRN_SHUTTLE_ITERATIONS").ok().and_then(|v| v.parse().ok());
    let iterations = asked.unwrap_or(1000);
    let model = Arc::new(model);
    let mut config = shuttle::Config::new();
    config.stack_size = 1 << 18;
    let (random, pct) = (model.clone(), model);
    shuttle::Runner::new(RandomScheduler::new(iterations), config.clone()).run(move || random());
    shuttle::Runner::new(PctScheduler::new(3, iterations), config).run(move || pct());
}

/// What one modelled thread does.
type Body = Box<dyn FnOnce(&PoolModel) + Send>;

/// Runs the threads beside a device that lets work end, until all are through; then everything has to
/// come back.
fn run(model: PoolModel, threads: Vec<Body>) {
    let model = Arc::new(model);
    let mut running: Vec<_> = threads
        .into_iter()
        .map(|body| {
            let model = model.clone();
            thread::spawn(move || body(&model))
        })
        .collect();
    running.push(thread::spawn({
        let model = model.clone();
        move || (0..6).for_each(|turn| model.device.advance(turn % device::STREAMS))
    }));
    running.into_iter().for_each(|thread| thread.join().unwrap());
    model.end();
}

#[test]
fn a_block_moves_to_another_stream_only_when_it_may() {
    explore(|| {
        let user = |stream: usize, other: usize| -> Body {
            Box::new(move |model| {
                for turn in 0..3 {
                    let Some(block) = model.take(GRANULE << (turn % 2), stream) else { continue };
                    model.work(&block, stream);
                    model.give(block, if turn == 1 { other } else { stream });
                }
            })
        };
        run(PoolModel::new(3 * GRANULE), vec![user(0, 1), user(1, 0)]);
    });
}

#[test]
fn an_event_hands_memory_on_before_the_work_is_done() {
    explore(|| {
        let giver = |model: &PoolModel| {
            for _ in 0..2 {
                let Some(block) = model.take(2 * GRANULE, 0) else { continue };
                model.work(&block, 0);
                model.give(block, 0);
            }
            model.device.order(2, 0);
        };
        let taker = |model: &PoolModel| {
            model.device.order(1, 0);
            for _ in 0..2 {
                let Some(block) = model.take(GRANULE, 1) else { continue };
                model.work(&block, 1);
                model.give(block, 1);
            }
            model.device.order(2, 1);
            if let Some(block) = model.take(2 * GRANULE, 2) {
                model.work(&block, 2);
                model.give(block, 0);
            }
        };
        run(PoolModel::new(4 * GRANULE), vec![Box::new(giver), Box::new(taker)]);
    });
}

#[test]
fn an_event_may_come_during_a_free() {
    explore(|| {
        let model = PoolModel::new(2 * GRANULE);
        let block = model.take(GRANULE, 0).unwrap();
        model.work(&block, 1);
        let giver = move |model: &PoolModel| {
            model.give(block, 1);
            if let Some(block) = model.take(GRANULE, 2) {
                model.work(&block, 2);
                model.give(block, 2);
            }
        };
        let waiter = |model: &PoolModel| model.device.order(0, 1);
        run(model, vec![Box::new(giver), Box::new(waiter)]);
    });
}

#[test]
fn an_order_may_be_broken_while_memory_moves() {
    explore(|| {
        let model = PoolModel::new(3 * GRANULE);
        let block = model.take(GRANULE, 0).unwrap();
        model.work(&block, 0);
        model.give(block, 0);
        model.device.order(1, 0);
        let heir = |model: &PoolModel| {
            for _ in 0..2 {
                let Some(block) = model.take(GRANULE, 1) else { continue };
                model.work(&block, 1);
                model.give(block, 1);
            }
        };
        let third = |model: &PoolModel| {
            model.device.order(2, 1);
            if let Some(block) = model.take(GRANULE, 2) {
                model.work(&block, 2);
                model.give(block, 1);
            }
        };
        let breaker = |model: &PoolModel| model.device.break_order();
        run(model, vec![Box::new(heir), Box::new(third), Box::new(breaker)]);
    });
}

#[test]
fn what_was_ordered_is_owed_when_the_order_is_broken() {
    explore(|| {
        let model = PoolModel::new(GRANULE);
        let block = model.take(GRANULE, 1).unwrap();
        model.work(&block, 0);
        model.give(block, 0);
        model.device.order(1, 0);
        let heir = |model: &PoolModel| {
            for _ in 0..2 {
                if let Some(block) = model.take(GRANULE, 1) {
                    model.give(block, 1);
                }
            }
        };
        let third = |model: &PoolModel| {
            if let Some(block) = model.take(GRANULE, 2) {
                model.give(block, 2);
            }
        };
        let breaker = |model: &PoolModel| {
            model.device.break_order();
            model.device.advance(1);
        };
        run(model, vec![Box::new(heir), Box::new(third), Box::new(breaker)]);
    });
}

#[test]
fn a_recorded_use_is_waited_for() {
    explore(|| {
        let user = |stream: usize, other: usize| -> Body {
            Box::new(move |model| {
                for _ in 0..2 {
                    let Some(block) = model.take(GRANULE, stream) else { continue };
                    model.work(&block, stream);
                    model.share(&block, other);
                    model.give(block, stream);
                }
            })
        };
        run(PoolModel::new(2 * GRANULE), vec![user(0, 2), user(1, 0), user(2, 1)]);
    });
}

#[test]
fn trims_and_figures_come_at_any_time() {
    explore(|| {
        let user = |stream: usize| -> Body {
            Box::new(move |model| {
                for turn in 1..4 {
                    let Some(block) = model.take(turn * GRANULE, stream) else { continue };
                    model.work(&block, stream);
                    model.give(block, stream);
                }
            })
        };
        let keeper = |model: &PoolModel| {
            for keep in [GRANULE, 0, 2 * GRANULE] {
                model.pool.trim(keep);
                let figures = model.pool.figures();
                assert!(figures.reserved <= model.pool.budget(), "{figures:?}");
                assert!(figures.live <= figures.reserved, "{figures:?}");
                assert!(figures.peak >= figures.live, "{figures:?}");
                assert_eq!(figures.taken - figures.freed, figures.blocks, "{figures:?}");
            }
            model.pool.reset_peak();
            model.pool.set_budget(4 * GRANULE);
        };
        run(PoolModel::new(6 * GRANULE), vec![user(0), user(1), Box::new(keeper)]);
    });
}

#[test]
fn a_block_goes_back_once_whoever_tries() {
    explore(|| {
        let model = Arc::new(PoolModel::new(u64::MAX));
        let block = model.take(GRANULE, 0).unwrap();
        let offset = block.offset;
        model.end_use(&block);
        let tries: Vec<_> = (0..3)
            .map(|stream| {
                let model = model.clone();
                thread::spawn(move || model.pool.free(offset, stream))
            })
            .collect();
        let results: Vec<_> = tries.into_iter().map(|thread| thread.join().unwrap()).collect();
        assert_eq!(results.iter().filter(|r| **r == Ok(GRANULE)).count(), 1, "{results:?}");
        assert_eq!(
            results.iter().filter(|r| **r == Err(BlockError::NotLive)).count(),
            2,
            "{results:?}"
        );
        model.end();
    });
}

#[test]
fn two_threads_share_one_stream() {
    explore(|| {
        let user = |model: &PoolModel| {
            for turn in 0..3u64 {
                let Some(block) = model.take((1 + turn % 2) * GRANULE, 0) else { continue };
                model.work(&block, 0);
                model.give(block, 0);
            }
        };
        run(PoolModel::new(4 * GRANULE), vec![Box::new(user), Box::new(user)]);
    });
}

#[test]
fn a_dead_stream_leaves_its_memory_to_all() {
    explore(|| {
        let model = Arc::new(PoolModel::new(2 * GRANULE));
        let block = model.take(2 * GRANULE, 2).unwrap();
        model.work(&block, 2);
        model.give(block, 2);
        model.device.finish_all();
        let heir = {
            let model = model.clone();
            thread::spawn(move || {
                let block = model.take(2 * GRANULE, 0).expect("its work was done");
                model.give(block, 0);
            })
        };
        model.pool.retire(2);
        heir.join().unwrap();
        model.end();
    });
}

#[test]
fn an_outcome_that_waits_says_for_what() {
    explore(|| {
        let model = Arc::new(PoolModel::new(GRANULE));
        let block = model.take(GRANULE, 0).unwrap();
        model.work(&block, 0);
        model.give(block, 0);
        let device = {
            let model = model.clone();
            thread::spawn(move || model.device.advance(0))
        };
        match model.pool.allocate(GRANULE, GRANULE, 1) {
            Outcome::Ready { offset, .. } => {
                model.device.assert_done(0);
                model.pool.free(offset, 1).unwrap();
            }
            Outcome::Wait(clock) => {
                assert_eq!(clock.get(0), 1);
                assert_eq!(clock.epochs().len(), 1);
            }
            other => panic!("{other:?}"),
        }
        device.join().unwrap();
        model.end();
    });
}
