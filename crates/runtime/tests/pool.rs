//! The pool over a device's memory: what the engine adds to `cairn_pool`.
#![cfg(not(feature = "shuttle"))]

use cairn_runtime::error::Code;
use cairn_runtime::event::{Event, Kind, flag};
use cairn_runtime::memory::PoolMaker;
use cairn_runtime::memory::allocator::Block;
use cairn_runtime::memory::request::Request;
use cairn_runtime::stream::Stream;
use cairn_runtime::task::{Location, Span, Task};

mod support;
use std::sync::Arc;
use std::time::Duration;
use support::*;

fn hold(stream: &Arc<Stream>) -> Gate {
    let gate = Gate::default();
    stream.submit(gate.task()).unwrap();
    gate
}

fn span(block: &Block) -> Span {
    let (address, bytes) = (block.address(), block.bytes() as usize);
    Span { address, bytes, location: Location::Device(0) }
}

#[test]
fn a_block_freed_right_after_its_task_was_submitted_is_intact_when_the_task_runs() {
    let rig = rig(1, |_| ());
    rig.set_device(0).unwrap();
    let stream = rig.new_stream();
    let allocator = PoolMaker::built_in(&rig.shared, 0);
    let out = rig.alloc(0, 64);
    let gate = hold(&stream);
    let mut addresses = Vec::new();
    for value in 0..8 {
        let block = Block::allocate(&allocator, &Request::bytes(MIB).on(&stream)).unwrap();
        addresses.push(block.address());
        stream.submit(fill(span(&block), value)).unwrap();
        let head = Span { bytes: 64, ..span(&block) };
        if value == 5 {
            stream.submit(copy(head, out)).unwrap();
        }
        block.free().unwrap();
    }
    assert!(
        addresses.iter().all(|a| *a == addresses[0]),
        "one block serves the stream: {addresses:x?}"
    );
    gate.open();
    rig.synchronize(&stream, None).unwrap();
    assert_eq!(bytes(out), [5; 64]);
}

#[test]
fn another_stream_gets_memory_when_it_is_done_or_ordered() {
    let rig = rig(2, |_| ());
    rig.set_device(0).unwrap();
    let (a, b, c) = (rig.new_stream(), rig.new_stream(), rig.new_stream());
    let memory = &rig.shared.memory;
    let pool = memory.create_pool(0, u64::MAX);
    let take = |stream| take(memory, &pool, &Request::bytes(4 * MIB), stream).unwrap();
    let gate = hold(&a);
    let first = take(&a);
    give(memory, first, &a).unwrap();
    let second = take(&b);
    assert_ne!(first, second, "stream a is held up");

    let event = Event::new(0, Kind::Ex, flag::SYNC).unwrap();
    event.record(&a).unwrap();
    event.wait(&c, Duration::ZERO).unwrap();
    assert_eq!(take(&c), first, "stream c waits for stream a");
    give(memory, first, &c).unwrap();
    let third = take(&b);
    assert!(third != first && third != second, "stream c is held up by stream a");

    gate.open();
    rig.synchronize(&c, None).unwrap();
    assert_eq!(take(&b), first);
    assert_eq!(pool.figures().reserved, 12 * MIB);
    assert_eq!(give(memory, first + 512, &b).unwrap_err().code, Code::RtParamInvalid);
    for block in [first, second, third] {
        give(memory, block, &b).unwrap();
        assert!(give(memory, block, &b).unwrap_err().text.contains("already freed"));
    }
}

#[test]
fn an_aborted_wait_orders_nothing() {
    let rig = rig(2, |_| ());
    rig.set_device(0).unwrap();
    let (a, b) = (rig.new_stream(), rig.new_stream());
    let memory = &rig.shared.memory;
    let pool = memory.create_pool(0, u64::MAX);
    let take = |stream| take(memory, &pool, &Request::bytes(MIB), stream).unwrap();
    let gate = hold(&a);
    let first = take(&a);
    give(memory, first, &a).unwrap();
    let event = Event::new(0, Kind::Ex, flag::SYNC).unwrap();
    event.record(&a).unwrap();
    event.wait(&b, Duration::ZERO).unwrap();
    b.abort();
    assert_ne!(take(&b), first, "stream b does not wait any more");
    gate.open();
}

#[test]
fn plain_allocations_get_what_pools_have_free() {
    let rig = rig(1, |_| ());
    rig.set_device(0).unwrap();
    let stream = rig.new_stream();
    let memory = &rig.shared.memory;
    let pool = memory.built_in_pool(0);
    let block = take(memory, &pool, &Request::bytes(40 * MIB), &stream).unwrap();
    let kept = take(memory, &pool, &Request::bytes(MIB), &stream).unwrap();
    let error = memory.allocate(0, Request::bytes(40 * MIB)).unwrap_err();
    let owner = format!("41943040 (stream {} in pool", stream.index);
    assert!(!error.text.contains(&owner), "blocks of one stream count together");
    let owner = format!("{} (stream {} in pool", 41 * MIB, stream.index);
    assert!(error.text.contains(&owner), "{}", error.text);
    give(memory, block, &stream).unwrap();
    let plain = memory.allocate(0, Request::bytes(40 * MIB)).unwrap();
    assert!(pool.figures().reserved <= 4 * MIB, "{:?}", pool.figures());
    let error = take(memory, &pool, &Request::bytes(40 * MIB), &stream).unwrap_err();
    for part in ["41943040 (aclrtMalloc)", "out of memory on device 0", "asked 41943040"] {
        assert!(error.text.contains(part), "{}", error.text);
    }
    assert!(memory.free(kept).unwrap_err().text.contains("theirs to give back"));
    let own = memory.create_pool(0, u64::MAX);
    let owned = take(memory, &own, &Request::bytes(MIB), &stream).unwrap();
    assert!(memory.free(owned).unwrap_err().text.contains("aclrtMemPoolFreeAsync"));
    let error = take(memory, &own, &Request::bytes(u64::MAX - 4), &stream).unwrap_err();
    for part in ["18446744073709551611 bytes, -5 as a signed number", "no limit", "ask for less"] {
        assert!(error.text.contains(part), "{}", error.text);
    }
    assert!(!error.text.contains("at most"), "{}", error.text);
    memory.end_pool(&own);
    memory.free(plain).unwrap();
    rig.synchronize(&stream, None).unwrap();
    let again = take(memory, &pool, &Request::bytes(40 * MIB), &stream).unwrap();
    give(memory, again, &stream).unwrap();
}

#[test]
fn an_ordered_allocation_waits_for_what_was_freed_elsewhere_rather_than_fail() {
    let rig = rig(1, |_| ());
    rig.set_device(0).unwrap();
    let (a, b) = (rig.new_stream(), rig.new_stream());
    let memory = &rig.shared.memory;
    let pool = memory.built_in_pool(0);
    let block = take(memory, &pool, &Request::bytes(60 * MIB), &a).unwrap();
    let lot = Span { address: block, bytes: 60 * MIB as usize, location: Location::Device(0) };
    for value in 0..20 {
        a.submit(Task::fill("slow", lot, value)).unwrap();
    }
    give(memory, block, &a).unwrap();
    let again = take(memory, &pool, &Request::bytes(60 * MIB), &b).unwrap();
    assert_eq!(rig.shared.progress.finished(a.index), rig.shared.progress.submitted(a.index));
    give(memory, again, &b).unwrap();
}

#[test]
fn a_threshold_gives_memory_back_at_a_synchronize() {
    let rig = rig(1, |_| ());
    rig.set_device(0).unwrap();
    let stream = rig.new_stream();
    let memory = &rig.shared.memory;
    let pool = memory.create_pool(0, 32 * MIB);
    memory.set_release_above(&pool, 4 * MIB);
    let before = memory.info(0).0;
    let blocks: Vec<_> =
        (0..8).map(|_| take(memory, &pool, &Request::bytes(4 * MIB), &stream).unwrap()).collect();
    let error = take(memory, &pool, &Request::bytes(1), &stream).unwrap_err();
    assert!(error.text.contains("at most 33554432 bytes"), "{}", error.text);
    blocks.iter().for_each(|&block| give(memory, block, &stream).unwrap());
    rig.synchronize(&stream, None).unwrap();
    assert_eq!(pool.figures().reserved, 4 * MIB);
    assert_eq!(memory.info(0).0, before - 4 * MIB);
    memory.end_pool(&pool);
    assert_eq!(memory.info(0).0, before);
    let error = take(memory, &pool, &Request::bytes(1), &stream).unwrap_err();
    assert!(error.text.contains("has ended"), "{}", error.text);
}
