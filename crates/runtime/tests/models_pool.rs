//! The pool on the engine's own clocks, and the ends of pools, under a scheduler that tries many
//! interleavings: see `models.rs`.

#![cfg(feature = "shuttle")]

use cairn_runtime::clock::Epoch;
use cairn_runtime::config::Config;
use cairn_runtime::event::{Event, Kind, flag};
use cairn_runtime::memory::pool::StreamPool;
use cairn_runtime::shared::Shared;
use cairn_runtime::stream::{ContextFailure, Stream, StreamSpec};
use cairn_runtime::sync::{Arc, thread};
use cairn_runtime::task::{Location, Span, Task};
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use std::time::Duration;

/// The bytes of a block: as many as a pool takes from its device at a time, so a block leaves no rest for others.
const BYTES: u64 = 2 << 20;

/// Runs a model under many interleavings.
fn explore(model: impl Fn() + Send + Sync + 'static) {
    let from_env = std::env::var("CAIRN_SHUTTLE_ITERATIONS").ok().and_then(|v| v.parse().ok());
    let iterations = from_env.unwrap_or(1000);
    let model = std::sync::Arc::new(model);
    let mut config = shuttle::Config::new();
    config.stack_size = 1 << 18;
    let (random, pct) = (model.clone(), model);
    shuttle::Runner::new(RandomScheduler::new(iterations), config.clone()).run(move || random());
    shuttle::Runner::new(PctScheduler::new(3, iterations), config).run(move || pct());
}

/// One engine inside one execution, and a pool of it.
struct Fixture {
    shared: Arc<Shared>,
    context_failure: Arc<ContextFailure>,
    pool: Arc<StreamPool>,
}

impl Fixture {
    fn new() -> Arc<Fixture> {
        let mut config = Config::from_lookup(|_| None, 1 << 30).unwrap();
        config.visible = vec![0];
        config.device_memory = 8 << 20;
        config.budget = 16 << 20;
        let shared = Shared::new(config, 8).unwrap();
        shared.scheduler.start(1).unwrap();
        let pool = shared.memory.create_pool(0, u64::MAX);
        shared.memory.set_release_above(&pool, 0);
        Arc::new(Fixture { shared, context_failure: Arc::default(), pool })
    }

    fn stream(&self) -> Arc<Stream> {
        let context_failure = self.context_failure.clone();
        let spec = StreamSpec { device: 0, context: 1, context_failure, priority: 0, flags: 0 };
        Stream::new(&self.shared, spec).unwrap()
    }

    fn allocate(&self, stream: &Arc<Stream>) -> Option<usize> {
        self.shared.memory.take_from(&self.pool, BYTES, stream).ok()
    }

    fn free(&self, address: usize, stream: &Arc<Stream>) {
        self.shared.memory.give_back(address, stream).unwrap();
    }

    fn fill(&self, address: usize, stream: &Arc<Stream>) -> Epoch {
        let span = Span { address, bytes: 64, location: Location::Device(0) };
        let seq = stream.submit(Task::fill("fill", span, 7)).unwrap();
        Epoch { stream: stream.index, seq }
    }

    fn synchronize(&self, stream: &Arc<Stream>) {
        assert!(stream.synchronize(None).unwrap());
        self.shared.memory.trim_to_thresholds(0);
        assert!(stream.take_failure().is_none());
    }

    fn free_bytes(&self) -> u64 {
        self.shared.memory.info(0).0
    }

    fn end(&self) {
        self.shared.scheduler.stop();
        while Arc::strong_count(&self.shared.scheduler) > 1 {
            thread::yield_now();
        }
    }
}

#[test]
fn an_event_that_comes_during_a_free_hands_nothing_on_too_early() {
    explore(|| {
        let fixture = Fixture::new();
        let (a, b, c) = (fixture.stream(), fixture.stream(), fixture.stream());
        let block = fixture.allocate(&a).unwrap();
        let last_use = fixture.fill(block, &b);
        let waiter = {
            let (a, b) = (a.clone(), b.clone());
            thread::spawn(move || {
                let event = Event::new(0, Kind::Ex, flag::SYNC).unwrap();
                event.record(&b).unwrap();
                event.wait(&a, Duration::ZERO).unwrap();
            })
        };
        fixture.free(block, &b);
        let next_block = fixture.allocate(&c).unwrap();
        let progress = &fixture.shared.progress;
        assert!(
            next_block != block
                || progress.covers(last_use)
                || progress.is_ordered(c.index, last_use),
            "stream c has the block before stream b is done with it"
        );
        fixture.free(next_block, &c);
        waiter.join().unwrap();
        [a, b, c].iter().for_each(|stream| fixture.synchronize(stream));
        fixture.end();
    });
}

#[test]
fn a_pool_ends_once_and_with_its_last_block() {
    explore(|| {
        let fixture = Fixture::new();
        let before = fixture.free_bytes();
        let (a, b) = (fixture.stream(), fixture.stream());
        let block = fixture.allocate(&a).unwrap();
        let user = {
            let (fixture, a) = (fixture.clone(), a.clone());
            thread::spawn(move || {
                fixture.fill(block, &a);
                fixture.free(block, &a);
                fixture.synchronize(&a);
            })
        };
        let late_user = {
            let (fixture, b) = (fixture.clone(), b.clone());
            thread::spawn(move || {
                if let Some(block) = fixture.allocate(&b) {
                    fixture.fill(block, &b);
                    fixture.free(block, &b);
                }
                fixture.synchronize(&b);
            })
        };
        fixture.shared.memory.close_pool(&fixture.pool);
        assert!(fixture.allocate(&a).is_none(), "it gives no more");
        let other = fixture.shared.memory.create_pool(0, u64::MAX);
        let other_block = fixture.shared.memory.take_from(&other, BYTES, &a).unwrap();
        user.join().unwrap();
        late_user.join().unwrap();
        fixture.synchronize(&a);
        assert!(fixture.pool.has_ended());
        assert_eq!(other.figures().live, BYTES, "the end of one pool is not that of another");
        fixture.fill(other_block, &a);
        fixture.free(other_block, &a);
        fixture.synchronize(&a);
        fixture.shared.memory.end_pool(&other);
        assert_eq!(fixture.free_bytes(), before);
        fixture.end();
    });
}

#[test]
fn a_closed_device_takes_its_pools_with_it() {
    explore(|| {
        let fixture = Fixture::new();
        let before = fixture.free_bytes();
        let (a, b) = (fixture.stream(), fixture.stream());
        let block = fixture.allocate(&a).unwrap();
        let other_stream = {
            let (fixture, b) = (fixture.clone(), b.clone());
            thread::spawn(move || {
                fixture.fill(block, &b);
                fixture.synchronize(&b);
            })
        };
        let allocating_thread = {
            let (fixture, a) = (fixture.clone(), a.clone());
            thread::spawn(move || {
                fixture.allocate(&a);
            })
        };
        other_stream.join().unwrap();
        fixture.shared.memory.clear(0);
        allocating_thread.join().unwrap();
        assert!(fixture.pool.has_ended() && fixture.allocate(&a).is_none());
        assert!(fixture.shared.memory.give_back(block, &a).is_err());
        assert_eq!(fixture.free_bytes(), before);
        let new_pool = fixture.shared.memory.create_pool(0, u64::MAX);
        assert!(fixture.shared.memory.take_from(&new_pool, BYTES, &a).is_ok());
        fixture.end();
    });
}

/// The first byte of a block.
fn byte(address: usize) -> u8 {
    // SAFETY: the test holds the block, and all its tasks are done; device memory is plain memory here.
    unsafe { std::ptr::read_volatile(address as *const u8) }
}

/// Tasks use holes whose pages move into a block, while another thread trims, and takes and frees on a stream of its own.
#[test]
fn pages_move_while_tasks_use_them_and_others_trim() {
    const PIECE: u64 = BYTES / 4;
    explore(|| {
        let fixture = Fixture::new();
        let (a, b) = (fixture.stream(), fixture.stream());
        let take = |bytes, stream: &Arc<Stream>| {
            fixture.shared.memory.take_from(&fixture.pool, bytes, stream).ok()
        };
        let fill = |address, value, stream: &Arc<Stream>| {
            let span = Span { address, bytes: 64, location: Location::Device(0) };
            stream.submit(Task::fill("fill", span, value)).unwrap();
        };
        let copy = |from, to, stream: &Arc<Stream>| {
            let [from, to] = [from, to].map(|address| Span {
                address,
                bytes: 64,
                location: Location::Device(0),
            });
            stream.submit(Task::copy("copy", from, to)).unwrap();
        };
        let blocks: Vec<usize> = (0..4).map(|_| take(PIECE, &a).unwrap()).collect();
        for (&block, value) in blocks.iter().zip(1..) {
            fill(block, value, &a);
        }
        let other = {
            let (fixture, b) = (fixture.clone(), b.clone());
            thread::spawn(move || {
                fixture.pool.trim(0);
                if let Some(block) = fixture.allocate(&b) {
                    fixture.fill(block, &b);
                    fixture.free(block, &b);
                }
                fixture.pool.trim(0);
            })
        };
        copy(blocks[0], blocks[1], &a);
        copy(blocks[2], blocks[3], &a);
        fixture.free(blocks[0], &a);
        fixture.free(blocks[2], &a);
        let large = take(2 * PIECE, &a).unwrap();
        fill(large, 9, &a);
        fill(large + PIECE as usize, 8, &a);
        other.join().unwrap();
        [&a, &b].into_iter().for_each(|stream| fixture.synchronize(stream));
        let found = [blocks[1], blocks[3], large, large + PIECE as usize].map(byte);
        assert_eq!(found, [1, 3, 9, 8]);
        [blocks[1], blocks[3], large].into_iter().for_each(|block| fixture.free(block, &a));
        fixture.synchronize(&a);
        fixture.pool.trim(0);
        assert_eq!(fixture.pool.figures().reserved, 0);
        fixture.end();
    });
}
