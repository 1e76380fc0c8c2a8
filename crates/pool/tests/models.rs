//! The pool under a scheduler that tries many interleavings of threads.
//!
//! `cargo test -p cairn-pool --features shuttle --test models`; `CAIRN_SHUTTLE_ITERATIONS` sets how
//! many interleavings each model gets.

#![cfg(feature = "shuttle")]

#[path = "models/device.rs"]
mod device;
#[path = "models/world.rs"]
mod world;

use cairn_pool::{GRANULE, Outcome, Wrong};
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::thread;
use std::sync::Arc;
use world::World;

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
type Body = Box<dyn FnOnce(&World) + Send>;

/// Runs the threads beside a device that lets work end, until all are through; then everything has to
/// come back.
fn run(world: World, threads: Vec<Body>) {
    let world = Arc::new(world);
    let mut running: Vec<_> = threads
        .into_iter()
        .map(|body| {
            let world = world.clone();
            thread::spawn(move || body(&world))
        })
        .collect();
    running.push(thread::spawn({
        let world = world.clone();
        move || (0..6).for_each(|turn| world.device.advance(turn % device::STREAMS))
    }));
    running.into_iter().for_each(|thread| thread.join().unwrap());
    world.end();
}

#[test]
fn a_block_moves_to_another_stream_only_when_it_may() {
    explore(|| {
        let user = |stream: usize, other: usize| -> Body {
            Box::new(move |world| {
                for turn in 0..3 {
                    let Some(block) = world.take(GRANULE << (turn % 2), stream) else { continue };
                    world.work(&block, stream);
                    world.give(block, if turn == 1 { other } else { stream });
                }
            })
        };
        run(World::new(3 * GRANULE), vec![user(0, 1), user(1, 0)]);
    });
}

#[test]
fn an_event_hands_memory_on_before_the_work_is_done() {
    explore(|| {
        let giver = |world: &World| {
            for _ in 0..2 {
                let Some(block) = world.take(2 * GRANULE, 0) else { continue };
                world.work(&block, 0);
                world.give(block, 0);
            }
            world.device.order(2, 0);
        };
        let taker = |world: &World| {
            world.device.order(1, 0);
            for _ in 0..2 {
                let Some(block) = world.take(GRANULE, 1) else { continue };
                world.work(&block, 1);
                world.give(block, 1);
            }
            world.device.order(2, 1);
            if let Some(block) = world.take(2 * GRANULE, 2) {
                world.work(&block, 2);
                world.give(block, 0);
            }
        };
        run(World::new(4 * GRANULE), vec![Box::new(giver), Box::new(taker)]);
    });
}

#[test]
fn an_event_may_come_during_a_free() {
    explore(|| {
        let world = World::new(2 * GRANULE);
        let block = world.take(GRANULE, 0).unwrap();
        world.work(&block, 1);
        let giver = move |world: &World| {
            world.give(block, 1);
            if let Some(block) = world.take(GRANULE, 2) {
                world.work(&block, 2);
                world.give(block, 2);
            }
        };
        let waiter = |world: &World| world.device.order(0, 1);
        run(world, vec![Box::new(giver), Box::new(waiter)]);
    });
}

#[test]
fn an_order_may_be_broken_while_memory_moves() {
    explore(|| {
        let world = World::new(3 * GRANULE);
        let block = world.take(GRANULE, 0).unwrap();
        world.work(&block, 0);
        world.give(block, 0);
        world.device.order(1, 0);
        let heir = |world: &World| {
            for _ in 0..2 {
                let Some(block) = world.take(GRANULE, 1) else { continue };
                world.work(&block, 1);
                world.give(block, 1);
            }
        };
        let third = |world: &World| {
            world.device.order(2, 1);
            if let Some(block) = world.take(GRANULE, 2) {
                world.work(&block, 2);
                world.give(block, 1);
            }
        };
        let breaker = |world: &World| world.device.break_order();
        run(world, vec![Box::new(heir), Box::new(third), Box::new(breaker)]);
    });
}

#[test]
fn what_was_ordered_is_owed_when_the_order_is_broken() {
    explore(|| {
        let world = World::new(GRANULE);
        let block = world.take(GRANULE, 1).unwrap();
        world.work(&block, 0);
        world.give(block, 0);
        world.device.order(1, 0);
        let heir = |world: &World| {
            for _ in 0..2 {
                if let Some(block) = world.take(GRANULE, 1) {
                    world.give(block, 1);
                }
            }
        };
        let third = |world: &World| {
            if let Some(block) = world.take(GRANULE, 2) {
                world.give(block, 2);
            }
        };
        let breaker = |world: &World| {
            world.device.break_order();
            world.device.advance(1);
        };
        run(world, vec![Box::new(heir), Box::new(third), Box::new(breaker)]);
    });
}

#[test]
fn a_recorded_use_is_waited_for() {
    explore(|| {
        let user = |stream: usize, other: usize| -> Body {
            Box::new(move |world| {
                for _ in 0..2 {
                    let Some(block) = world.take(GRANULE, stream) else { continue };
                    world.work(&block, stream);
                    world.share(&block, other);
                    world.give(block, stream);
                }
            })
        };
        run(World::new(2 * GRANULE), vec![user(0, 2), user(1, 0), user(2, 1)]);
    });
}

#[test]
fn trims_and_figures_come_at_any_time() {
    explore(|| {
        let user = |stream: usize| -> Body {
            Box::new(move |world| {
                for turn in 1..4 {
                    let Some(block) = world.take(turn * GRANULE, stream) else { continue };
                    world.work(&block, stream);
                    world.give(block, stream);
                }
            })
        };
        let keeper = |world: &World| {
            for keep in [GRANULE, 0, 2 * GRANULE] {
                world.pool.trim(keep);
                let figures = world.pool.figures();
                assert!(figures.reserved <= world.pool.budget(), "{figures:?}");
                assert!(figures.live <= figures.reserved, "{figures:?}");
                assert!(figures.peak >= figures.live, "{figures:?}");
                assert_eq!(figures.taken - figures.freed, figures.blocks, "{figures:?}");
            }
            world.pool.reset_peak();
            world.pool.set_budget(4 * GRANULE);
        };
        run(World::new(6 * GRANULE), vec![user(0), user(1), Box::new(keeper)]);
    });
}

#[test]
fn a_block_goes_back_once_whoever_tries() {
    explore(|| {
        let world = Arc::new(World::new(u64::MAX));
        let block = world.take(GRANULE, 0).unwrap();
        let offset = block.offset;
        world.truth_ends(&block);
        let tries: Vec<_> = (0..3)
            .map(|stream| {
                let world = world.clone();
                thread::spawn(move || world.pool.free(offset, stream))
            })
            .collect();
        let results: Vec<_> = tries.into_iter().map(|thread| thread.join().unwrap()).collect();
        assert_eq!(results.iter().filter(|r| **r == Ok(GRANULE)).count(), 1, "{results:?}");
        assert_eq!(results.iter().filter(|r| **r == Err(Wrong::NotLive)).count(), 2, "{results:?}");
        world.end();
    });
}

#[test]
fn two_threads_share_one_stream() {
    explore(|| {
        let user = |world: &World| {
            for turn in 0..3u64 {
                let Some(block) = world.take((1 + turn % 2) * GRANULE, 0) else { continue };
                world.work(&block, 0);
                world.give(block, 0);
            }
        };
        run(World::new(4 * GRANULE), vec![Box::new(user), Box::new(user)]);
    });
}

#[test]
fn a_dead_stream_leaves_its_memory_to_all() {
    explore(|| {
        let world = Arc::new(World::new(2 * GRANULE));
        let block = world.take(2 * GRANULE, 2).unwrap();
        world.work(&block, 2);
        world.give(block, 2);
        world.device.finish_all();
        let heir = {
            let world = world.clone();
            thread::spawn(move || {
                let block = world.take(2 * GRANULE, 0).expect("its work was done");
                world.give(block, 0);
            })
        };
        world.pool.retire(2);
        heir.join().unwrap();
        world.end();
    });
}

#[test]
fn an_outcome_that_waits_says_for_what() {
    explore(|| {
        let world = Arc::new(World::new(GRANULE));
        let block = world.take(GRANULE, 0).unwrap();
        world.work(&block, 0);
        world.give(block, 0);
        let device = {
            let world = world.clone();
            thread::spawn(move || world.device.advance(0))
        };
        match world.pool.allocate(GRANULE, GRANULE, 1) {
            Outcome::Ready { offset, .. } => {
                world.device.assert_done(0);
                world.pool.free(offset, 1).unwrap();
            }
            Outcome::Wait(clock) => {
                assert_eq!(clock.get(0), 1);
                assert_eq!(clock.marks().len(), 1);
            }
            other => panic!("{other:?}"),
        }
        device.join().unwrap();
        world.end();
    });
}
