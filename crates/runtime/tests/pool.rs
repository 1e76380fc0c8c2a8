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

/// Blocks a stream until the gate is opened.
fn block(stream: &Arc<Stream>) -> Gate {
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
    let runtime = start_runtime(1, |_| ());
    runtime.set_device(0).unwrap();
    let stream = runtime.new_stream();
    let allocator = PoolMaker::built_in(&runtime.shared, 0);
    let target = runtime.alloc(0, 64);
    let gate = block(&stream);
    let mut addresses = Vec::new();
    for value in 0..8 {
        let block = Block::allocate(&allocator, &Request::bytes(MIB).on(&stream)).unwrap();
        addresses.push(block.address());
        stream.submit(fill(span(&block), value)).unwrap();
        let head = Span { bytes: 64, ..span(&block) };
        if value == 5 {
            stream.submit(copy(head, target)).unwrap();
        }
        block.free().unwrap();
    }
    assert!(
        addresses.iter().all(|a| *a == addresses[0]),
        "one block serves the stream: {addresses:x?}"
    );
    gate.open();
    runtime.synchronize(&stream, None).unwrap();
    assert_eq!(bytes(target), [5; 64]);
}

#[test]
fn another_stream_gets_memory_when_it_is_done_or_ordered() {
    let runtime = start_runtime(2, |_| ());
    runtime.set_device(0).unwrap();
    let (a, b, c) = (runtime.new_stream(), runtime.new_stream(), runtime.new_stream());
    let memory = &runtime.shared.memory;
    let pool = memory.create_pool(0, u64::MAX);
    let allocate_on = |stream| allocate(memory, &pool, &Request::bytes(4 * MIB), stream).unwrap();
    let gate = block(&a);
    let first = allocate_on(&a);
    free(memory, first, &a).unwrap();
    let second = allocate_on(&b);
    assert_ne!(first, second, "stream a is blocked");

    let event = Event::new(0, Kind::Ex, flag::SYNC).unwrap();
    event.record(&a).unwrap();
    event.wait(&c, Duration::ZERO).unwrap();
    assert_eq!(allocate_on(&c), first, "stream c waits for stream a");
    free(memory, first, &c).unwrap();
    let third = allocate_on(&b);
    assert!(third != first && third != second, "stream c is blocked by stream a");

    gate.open();
    runtime.synchronize(&c, None).unwrap();
    assert_eq!(allocate_on(&b), first);
    assert_eq!(pool.figures().reserved, 12 * MIB);
    assert_eq!(free(memory, first + 512, &b).unwrap_err().code, Code::RtParamInvalid);
    for block in [first, second, third] {
        free(memory, block, &b).unwrap();
        assert!(free(memory, block, &b).unwrap_err().text.contains("already freed"));
    }
}

#[test]
fn an_aborted_wait_orders_nothing() {
    let runtime = start_runtime(2, |_| ());
    runtime.set_device(0).unwrap();
    let (a, b) = (runtime.new_stream(), runtime.new_stream());
    let memory = &runtime.shared.memory;
    let pool = memory.create_pool(0, u64::MAX);
    let allocate_on = |stream| allocate(memory, &pool, &Request::bytes(MIB), stream).unwrap();
    let gate = block(&a);
    let first = allocate_on(&a);
    free(memory, first, &a).unwrap();
    let event = Event::new(0, Kind::Ex, flag::SYNC).unwrap();
    event.record(&a).unwrap();
    event.wait(&b, Duration::ZERO).unwrap();
    b.abort();
    assert_ne!(allocate_on(&b), first, "stream b does not wait any more");
    gate.open();
}

#[test]
fn plain_allocations_get_what_pools_have_free() {
    let runtime = start_runtime(1, |_| ());
    runtime.set_device(0).unwrap();
    let stream = runtime.new_stream();
    let memory = &runtime.shared.memory;
    let pool = memory.built_in_pool(0);
    let block = allocate(memory, &pool, &Request::bytes(40 * MIB), &stream).unwrap();
    let small = allocate(memory, &pool, &Request::bytes(MIB), &stream).unwrap();
    let error = memory.allocate(0, Request::bytes(40 * MIB)).unwrap_err();
    let owner = format!("41943040 (stream {} in pool", stream.index);
    assert!(!error.text.contains(&owner), "blocks of one stream count together");
    let owner = format!("{} (stream {} in pool", 41 * MIB, stream.index);
    assert!(error.text.contains(&owner), "{}", error.text);
    free(memory, block, &stream).unwrap();
    let plain = memory.allocate(0, Request::bytes(40 * MIB)).unwrap();
    assert!(pool.figures().reserved <= 4 * MIB, "{:?}", pool.figures());
    let error = allocate(memory, &pool, &Request::bytes(40 * MIB), &stream).unwrap_err();
    for part in ["41943040 (aclrtMalloc)", "out of memory on device 0", "asked 41943040"] {
        assert!(error.text.contains(part), "{}", error.text);
    }
    assert!(memory.free(small).unwrap_err().text.contains("theirs to give back"));
    let user_pool = memory.create_pool(0, u64::MAX);
    let user_block = allocate(memory, &user_pool, &Request::bytes(MIB), &stream).unwrap();
    assert!(memory.free(user_block).unwrap_err().text.contains("aclrtMemPoolFreeAsync"));
    let error = allocate(memory, &user_pool, &Request::bytes(u64::MAX - 4), &stream).unwrap_err();
    for part in ["18446744073709551611 bytes (-5 as a signed number", "no limit", "ask for less"] {
        assert!(error.text.contains(part), "{}", error.text);
    }
    assert!(!error.text.contains("at most"), "{}", error.text);
    memory.end_pool(&user_pool);
    memory.free(plain).unwrap();
    runtime.synchronize(&stream, None).unwrap();
    let block = allocate(memory, &pool, &Request::bytes(40 * MIB), &stream).unwrap();
    free(memory, block, &stream).unwrap();
}

#[test]
fn an_ordered_allocation_waits_for_what_was_freed_elsewhere_rather_than_fail() {
    let runtime = start_runtime(1, |_| ());
    runtime.set_device(0).unwrap();
    let (a, b) = (runtime.new_stream(), runtime.new_stream());
    let memory = &runtime.shared.memory;
    let pool = memory.built_in_pool(0);
    let block = allocate(memory, &pool, &Request::bytes(60 * MIB), &a).unwrap();
    let span_of_block =
        Span { address: block, bytes: 60 * MIB as usize, location: Location::Device(0) };
    for value in 0..20 {
        a.submit(Task::fill("slow", span_of_block, value)).unwrap();
    }
    free(memory, block, &a).unwrap();
    let block = allocate(memory, &pool, &Request::bytes(60 * MIB), &b).unwrap();
    assert_eq!(
        runtime.shared.progress.finished(a.index),
        runtime.shared.progress.submitted(a.index)
    );
    free(memory, block, &b).unwrap();
}

#[test]
fn a_threshold_gives_memory_back_at_a_synchronize() {
    let runtime = start_runtime(1, |_| ());
    runtime.set_device(0).unwrap();
    let stream = runtime.new_stream();
    let memory = &runtime.shared.memory;
    let pool = memory.create_pool(0, 32 * MIB);
    memory.set_release_above(&pool, 4 * MIB);
    let before = memory.info(0).0;
    let blocks: Vec<_> = (0..8)
        .map(|_| allocate(memory, &pool, &Request::bytes(4 * MIB), &stream).unwrap())
        .collect();
    let error = allocate(memory, &pool, &Request::bytes(1), &stream).unwrap_err();
    assert!(error.text.contains("at most 33554432 bytes"), "{}", error.text);
    blocks.iter().for_each(|&block| free(memory, block, &stream).unwrap());
    runtime.synchronize(&stream, None).unwrap();
    assert_eq!(pool.figures().reserved, 4 * MIB);
    assert_eq!(memory.info(0).0, before - 4 * MIB);
    memory.end_pool(&pool);
    assert_eq!(memory.info(0).0, before);
    let error = allocate(memory, &pool, &Request::bytes(1), &stream).unwrap_err();
    assert!(error.text.contains("has ended"), "{}", error.text);
}
