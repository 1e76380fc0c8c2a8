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

/// Runs a model under many interleavings.
fn explore(model: impl Fn() + Send + Sync + 'static) {
    let from_env = std::env::var("CAIRN_SHUTTLE_ITERATIONS").ok().and_then(|v| v.parse().ok());
    let iterations = from_env.unwrap_or(1000);
    let model = Arc::new(model);
    let mut config = shuttle::Config::new();
    config.stack_size = 1 << 18;
    let (random, pct) = (model.clone(), model);
    shuttle::Runner::new(RandomScheduler::new(iterations), config.clone()).run(move || random());
    shuttle::Runner::new(PctScheduler::new(3, iterations), config).run(move || pct());
}

/// What one modelled thread does.
type Body = Box<dyn FnOnce(&PoolModel) + Send>;

/// Runs the threads beside a device that lets tasks finish; when all threads have ended, all memory has to
/// be free again.
fn run(model: PoolModel, threads: Vec<Body>) {
    let model = Arc::new(model);
    let mut handles: Vec<_> = threads
        .into_iter()
        .map(|body| {
            let model = model.clone();
            thread::spawn(move || body(&model))
        })
        .collect();
    handles.push(thread::spawn({
        let model = model.clone();
        move || (0..6).for_each(|round| model.device.advance(round % device::STREAMS))
    }));
    handles.into_iter().for_each(|thread| thread.join().unwrap());
    model.end();
}

#[test]
fn a_block_moves_to_another_stream_only_when_it_may() {
    explore(|| {
        let user = |stream: usize, other: usize| -> Body {
            Box::new(move |model| {
                for round in 0..3 {
                    let Some(block) = model.take(GRANULE << (round % 2), stream) else { continue };
                    model.work(&block, stream);
                    model.free(block, if round == 1 { other } else { stream });
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
                model.free(block, 0);
            }
            model.device.order(2, 0);
        };
        let taker = |model: &PoolModel| {
            model.device.order(1, 0);
            for _ in 0..2 {
                let Some(block) = model.take(GRANULE, 1) else { continue };
                model.work(&block, 1);
                model.free(block, 1);
            }
            model.device.order(2, 1);
            if let Some(block) = model.take(2 * GRANULE, 2) {
                model.work(&block, 2);
                model.free(block, 0);
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
            model.free(block, 1);
            if let Some(block) = model.take(GRANULE, 2) {
                model.work(&block, 2);
                model.free(block, 2);
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
        model.free(block, 0);
        model.device.order(1, 0);
        let successor = |model: &PoolModel| {
            for _ in 0..2 {
                let Some(block) = model.take(GRANULE, 1) else { continue };
                model.work(&block, 1);
                model.free(block, 1);
            }
        };
        let third = |model: &PoolModel| {
            model.device.order(2, 1);
            if let Some(block) = model.take(GRANULE, 2) {
                model.work(&block, 2);
                model.free(block, 1);
            }
        };
        let breaker = |model: &PoolModel| model.device.break_order();
        run(model, vec![Box::new(successor), Box::new(third), Box::new(breaker)]);
    });
}

#[test]
fn what_was_ordered_is_waited_for_when_the_order_is_broken() {
    explore(|| {
        let model = PoolModel::new(GRANULE);
        let block = model.take(GRANULE, 1).unwrap();
        model.work(&block, 0);
        model.free(block, 0);
        model.device.order(1, 0);
        let successor = |model: &PoolModel| {
            for _ in 0..2 {
                if let Some(block) = model.take(GRANULE, 1) {
                    model.free(block, 1);
                }
            }
        };
        let third = |model: &PoolModel| {
            if let Some(block) = model.take(GRANULE, 2) {
                model.free(block, 2);
            }
        };
        let breaker = |model: &PoolModel| {
            model.device.break_order();
            model.device.advance(1);
        };
        run(model, vec![Box::new(successor), Box::new(third), Box::new(breaker)]);
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
                    model.record_work(&block, other);
                    model.free(block, stream);
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
                for round in 1..4 {
                    let Some(block) = model.take(round * GRANULE, stream) else { continue };
                    model.work(&block, stream);
                    model.free(block, stream);
                }
            })
        };
        let trimmer = |model: &PoolModel| {
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
        run(PoolModel::new(6 * GRANULE), vec![user(0), user(1), Box::new(trimmer)]);
    });
}

#[test]
fn a_block_goes_back_once_whoever_tries() {
    explore(|| {
        let model = Arc::new(PoolModel::new(u64::MAX));
        let block = model.take(GRANULE, 0).unwrap();
        let offset = block.offset;
        model.mark_free(&block);
        let threads: Vec<_> = (0..3)
            .map(|stream| {
                let model = model.clone();
                thread::spawn(move || model.pool.free(offset, stream))
            })
            .collect();
        let results: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
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
            for round in 0..3u64 {
                let Some(block) = model.take((1 + round % 2) * GRANULE, 0) else { continue };
                model.work(&block, 0);
                model.free(block, 0);
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
        model.free(block, 2);
        model.device.finish_all();
        let successor = {
            let model = model.clone();
            thread::spawn(move || {
                let block = model.take(2 * GRANULE, 0).expect("its work was done");
                model.free(block, 0);
            })
        };
        model.pool.retire(2);
        successor.join().unwrap();
        model.end();
    });
}

#[test]
fn an_outcome_that_waits_says_for_what() {
    explore(|| {
        let model = Arc::new(PoolModel::new(GRANULE));
        let block = model.take(GRANULE, 0).unwrap();
        model.work(&block, 0);
        model.free(block, 0);
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

/// Two streams leave holes that only together hold what a third wants; tasks still use some of them, others are freed and
/// trimmed meanwhile.
#[test]
fn holes_are_stitched_while_others_free_and_trim() {
    explore(|| {
        let user = |stream: usize| -> Body {
            Box::new(move |model| {
                let blocks: Vec<_> = (0..4).filter_map(|_| model.take(GRANULE, stream)).collect();
                blocks.iter().for_each(|block| model.work(block, stream));
                let mut kept = Vec::new();
                for (number, block) in blocks.into_iter().enumerate() {
                    match number % 2 {
                        0 => model.free(block, stream),
                        _ => kept.push(block),
                    }
                }
                if let Some(block) = model.take(2 * GRANULE, stream) {
                    model.check_queued();
                    model.work(&block, stream);
                    model.free(block, stream);
                }
                kept.into_iter().for_each(|block| model.free(block, stream));
                model.check_queued();
            })
        };
        let taker = |model: &PoolModel| {
            model.pool.trim(2 * GRANULE);
            model.device.order(2, 0);
            if let Some(block) = model.take(3 * GRANULE, 2) {
                model.work(&block, 2);
                model.pool.trim(0);
                model.free(block, 2);
            }
            model.check_queued();
        };
        let model = PoolModel::with_stitching(8 * GRANULE);
        run(model, vec![user(0), user(1), Box::new(taker)]);
    });
}
