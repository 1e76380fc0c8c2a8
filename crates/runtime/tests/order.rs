//! Orders that no longer hold: after an abort, a forced end, or a wait that timed out. Memory that a stream
//! still uses is not handed to one that was ordered after it and no longer is.
#![cfg(not(feature = "shuttle"))]

use cairn_runtime::event::{Event, Kind, flag};
use cairn_runtime::memory::PoolMaker;
use cairn_runtime::memory::allocator::Block;
use cairn_runtime::memory::pool::StreamPool;
use cairn_runtime::memory::request::Request;
use cairn_runtime::stream::Stream;
use cairn_runtime::task::{Body, Task};
use std::sync::Arc;
use std::time::Duration;

mod support;
use support::*;

const SHORT: Duration = Duration::from_millis(20);

/// A stream that is blocked, and has freed a block that its tasks still use.
struct Fixture {
    gate: Gate,
    blocked: Arc<Stream>,
    block: usize,
    pool: Arc<StreamPool>,
    runtime: TestRuntime,
}

impl Fixture {
    fn new() -> Fixture {
        let runtime = start_runtime(2, |_| ());
        runtime.set_device(0).unwrap();
        let blocked = runtime.new_stream();
        let pool = runtime.shared.memory.create_pool(0, u64::MAX);
        let gate = Gate::default();
        blocked.submit(gate.task()).unwrap();
        let mut fixture = Fixture { gate, blocked, block: 0, pool, runtime };
        fixture.block = fixture.allocate(&fixture.blocked);
        fixture.free(&fixture.blocked);
        fixture
    }

    fn allocate(&self, stream: &Arc<Stream>) -> usize {
        let request = Request::bytes(4 * MIB);
        allocate(&self.runtime.shared.memory, &self.pool, &request, stream).unwrap()
    }

    fn free(&self, stream: &Arc<Stream>) {
        free(&self.runtime.shared.memory, self.block, stream).unwrap();
    }

    /// A new stream that waits for the blocked one.
    fn waiting_stream(&self, limit: Duration) -> Arc<Stream> {
        let stream = self.runtime.new_stream();
        let event = event();
        event.record(&self.blocked).unwrap();
        event.wait(&stream, limit).unwrap();
        stream
    }

    /// Checks that the stream does not get the block.
    fn assert_block_is_not_given_to(self, stream: &Arc<Stream>) {
        stream.submit(Task::bare("nothing", Body::Nothing)).unwrap();
        let block = self.allocate(stream);
        assert_ne!(block, self.block, "the blocked stream still uses it");
        self.gate.open();
        self.runtime.synchronize(&self.blocked, None).unwrap();
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        self.gate.open();
    }
}

fn event() -> Event {
    Event::new(0, Kind::Ex, flag::SYNC).unwrap()
}

fn wait_until_idle(stream: &Arc<Stream>) {
    while !stream.is_idle() {
        std::thread::yield_now();
    }
}

#[test]
fn an_order_that_holds_hands_memory_on() {
    let fixture = Fixture::new();
    let stream = fixture.waiting_stream(Duration::ZERO);
    assert_eq!(fixture.allocate(&stream), fixture.block);
}

#[test]
fn memory_that_had_moved_when_its_stream_was_aborted() {
    let fixture = Fixture::new();
    let stream = fixture.waiting_stream(Duration::ZERO);
    assert_eq!(fixture.allocate(&stream), fixture.block);
    fixture.free(&stream);
    stream.abort();
    fixture.assert_block_is_not_given_to(&stream);
}

#[test]
fn memory_that_had_moved_when_its_stream_was_forced_to_end() {
    let fixture = Fixture::new();
    let stream = fixture.waiting_stream(Duration::ZERO);
    assert_eq!(fixture.allocate(&stream), fixture.block);
    fixture.free(&stream);
    stream.close(false).unwrap();
    wait_until_idle(&stream);
    let third = fixture.runtime.new_stream();
    fixture.assert_block_is_not_given_to(&third);
}

#[test]
fn a_record_after_an_aborted_wait() {
    let fixture = Fixture::new();
    let stream = fixture.waiting_stream(Duration::ZERO);
    let later_event = event();
    later_event.record(&stream).unwrap();
    stream.abort();
    wait_until_idle(&stream);
    assert!(later_event.is_complete().unwrap());
    let third = fixture.runtime.new_stream();
    later_event.wait(&third, Duration::ZERO).unwrap();
    fixture.assert_block_is_not_given_to(&third);
}

#[test]
fn a_wait_for_a_record_whose_own_wait_is_aborted_later() {
    let fixture = Fixture::new();
    let stream = fixture.waiting_stream(Duration::ZERO);
    let later_event = event();
    later_event.record(&stream).unwrap();
    let third = fixture.runtime.new_stream();
    later_event.wait(&third, Duration::ZERO).unwrap();
    stream.abort();
    wait_until_idle(&third);
    fixture.assert_block_is_not_given_to(&third);
}

#[test]
fn a_host_that_synchronizes_an_event_after_a_wait_that_ran_out_of_time() {
    let fixture = Fixture::new();
    let stream = fixture.waiting_stream(SHORT);
    let later_event = event();
    later_event.record(&stream).unwrap();
    assert!(later_event.synchronize(None).unwrap());
    let third = fixture.runtime.new_stream();
    fixture.assert_block_is_not_given_to(&third);
}

#[test]
fn a_host_that_synchronizes_a_stream_whose_wait_ran_out_of_time() {
    let fixture = Fixture::new();
    let stream = fixture.waiting_stream(SHORT);
    assert!(fixture.runtime.synchronize(&stream, None).is_err(), "the wait failed");
    let third = fixture.runtime.new_stream();
    fixture.assert_block_is_not_given_to(&third);
}

#[test]
fn a_device_that_is_reset_and_set_again_while_another_works() {
    let runtime = start_runtime(2, |_| ());
    runtime.set_device(1).unwrap();
    let other = runtime.new_stream();
    let gate = Gate::default();
    other.submit(gate.task()).unwrap();
    for _ in 0..2 {
        runtime.set_device(0).unwrap();
        let stream = runtime.new_stream();
        let allocator = PoolMaker::built_in(&runtime.shared, 0);
        Block::allocate(&allocator, &Request::bytes(MIB).on(&stream)).unwrap().free().unwrap();
        drop((allocator, stream));
        runtime.reset_device(0, false).unwrap();
    }
    gate.open();
}

#[test]
fn a_late_trim_of_a_pool_that_has_ended() {
    let runtime = start_runtime(1, |_| ());
    runtime.set_device(0).unwrap();
    let stream = runtime.new_stream();
    let memory = &runtime.shared.memory;
    let pool = memory.create_pool(0, u64::MAX);
    let block = allocate(memory, &pool, &Request::bytes(4 * MIB), &stream).unwrap();
    free(memory, block, &stream).unwrap();
    memory.end_pool(&pool);
    let allocation = runtime.alloc(0, 4 * MIB);
    stream.submit(fill(allocation, 7)).unwrap();
    runtime.synchronize(&stream, None).unwrap();
    assert_eq!(pool.trim(0), 0);
    assert!(bytes(allocation).iter().all(|&byte| byte == 7));
}
