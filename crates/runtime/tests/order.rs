//! Orders that are broken: by an abort, a forced end, a wait that ran out of time. Memory that somebody
//! still uses is not handed to whoever only seemed to come after.
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

/// Two streams; the first is held up and has freed a block that its tasks still use.
struct Fixture {
    gate: Gate,
    busy: Arc<Stream>,
    block: usize,
    pool: Arc<StreamPool>,
    rig: Rig,
}

impl Fixture {
    fn new() -> Fixture {
        let rig = rig(2, |_| ());
        rig.set_device(0).unwrap();
        let busy = rig.new_stream();
        let pool = rig.shared.memory.create_pool(0, u64::MAX);
        let gate = Gate::default();
        busy.submit(gate.task()).unwrap();
        let mut fixture = Fixture { gate, busy, block: 0, pool, rig };
        fixture.block = fixture.take(&fixture.busy);
        fixture.free(&fixture.busy);
        fixture
    }

    fn take(&self, stream: &Arc<Stream>) -> usize {
        let request = Request::bytes(4 * MIB);
        take(&self.rig.shared.memory, &self.pool, &request, stream).unwrap()
    }

    fn free(&self, stream: &Arc<Stream>) {
        give(&self.rig.shared.memory, self.block, stream).unwrap();
    }

    /// A new stream that waits for the busy one.
    fn waiting(&self, limit: Duration) -> Arc<Stream> {
        let stream = self.rig.new_stream();
        let event = event();
        event.record(&self.busy).unwrap();
        event.wait(&stream, limit).unwrap();
        stream
    }

    fn keeps_its_block_from(self, stream: &Arc<Stream>) {
        stream.submit(Task::bare("nothing", Body::Nothing)).unwrap();
        let got = self.take(stream);
        assert_ne!(got, self.block, "the busy stream still uses it");
        self.gate.open();
        self.rig.synchronize(&self.busy, None).unwrap();
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

fn until_idle(stream: &Arc<Stream>) {
    while !stream.is_idle() {
        std::thread::yield_now();
    }
}

#[test]
fn an_order_that_holds_hands_memory_on() {
    let fixture = Fixture::new();
    let stream = fixture.waiting(Duration::ZERO);
    assert_eq!(fixture.take(&stream), fixture.block);
}

#[test]
fn memory_that_had_moved_when_its_stream_was_aborted() {
    let fixture = Fixture::new();
    let stream = fixture.waiting(Duration::ZERO);
    assert_eq!(fixture.take(&stream), fixture.block);
    fixture.free(&stream);
    stream.abort();
    fixture.keeps_its_block_from(&stream);
}

#[test]
fn memory_that_had_moved_when_its_stream_was_forced_to_end() {
    let fixture = Fixture::new();
    let stream = fixture.waiting(Duration::ZERO);
    assert_eq!(fixture.take(&stream), fixture.block);
    fixture.free(&stream);
    stream.close(false).unwrap();
    until_idle(&stream);
    let third = fixture.rig.new_stream();
    fixture.keeps_its_block_from(&third);
}

#[test]
fn a_record_after_an_aborted_wait() {
    let fixture = Fixture::new();
    let stream = fixture.waiting(Duration::ZERO);
    let after = event();
    after.record(&stream).unwrap();
    stream.abort();
    until_idle(&stream);
    assert!(after.is_complete());
    let third = fixture.rig.new_stream();
    after.wait(&third, Duration::ZERO).unwrap();
    fixture.keeps_its_block_from(&third);
}

#[test]
fn a_wait_for_a_record_whose_own_wait_is_aborted_later() {
    let fixture = Fixture::new();
    let stream = fixture.waiting(Duration::ZERO);
    let after = event();
    after.record(&stream).unwrap();
    let third = fixture.rig.new_stream();
    after.wait(&third, Duration::ZERO).unwrap();
    stream.abort();
    until_idle(&third);
    fixture.keeps_its_block_from(&third);
}

#[test]
fn a_host_that_synchronizes_an_event_after_a_wait_that_ran_out_of_time() {
    let fixture = Fixture::new();
    let stream = fixture.waiting(SHORT);
    let after = event();
    after.record(&stream).unwrap();
    assert!(after.synchronize(None).unwrap());
    let third = fixture.rig.new_stream();
    fixture.keeps_its_block_from(&third);
}

#[test]
fn a_host_that_synchronizes_a_stream_whose_wait_ran_out_of_time() {
    let fixture = Fixture::new();
    let stream = fixture.waiting(SHORT);
    assert!(fixture.rig.synchronize(&stream, None).is_err(), "the wait failed");
    let third = fixture.rig.new_stream();
    fixture.keeps_its_block_from(&third);
}

#[test]
fn a_device_that_is_reset_and_set_again_while_another_works() {
    let rig = rig(2, |_| ());
    rig.set_device(1).unwrap();
    let other = rig.new_stream();
    let gate = Gate::default();
    other.submit(gate.task()).unwrap();
    for _ in 0..2 {
        rig.set_device(0).unwrap();
        let stream = rig.new_stream();
        let allocator = PoolMaker::built_in(&rig.shared, 0);
        Block::allocate(&allocator, &Request::bytes(MIB).on(&stream)).unwrap().free().unwrap();
        drop((allocator, stream));
        rig.reset_device(0, false).unwrap();
    }
    gate.open();
}

#[test]
fn a_late_trim_of_a_pool_that_has_ended() {
    let rig = rig(1, |_| ());
    rig.set_device(0).unwrap();
    let stream = rig.new_stream();
    let memory = &rig.shared.memory;
    let pool = memory.create_pool(0, u64::MAX);
    let block = take(memory, &pool, &Request::bytes(4 * MIB), &stream).unwrap();
    give(memory, block, &stream).unwrap();
    memory.end_pool(&pool);
    let mine = rig.alloc(0, 4 * MIB);
    stream.submit(fill(mine, 7)).unwrap();
    rig.synchronize(&stream, None).unwrap();
    assert_eq!(pool.trim(0), 0);
    assert!(bytes(mine).iter().all(|&byte| byte == 7));
}
