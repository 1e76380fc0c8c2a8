//! Pools that stitch: pages really move, tasks find what they were submitted for, and nothing is left behind.
#![cfg(not(feature = "shuttle"))]

use cairn_runtime::error::Code;
use cairn_runtime::memory::pool::StreamPool;
use cairn_runtime::memory::request::Request;
use cairn_runtime::memory::{AddressInfo, BlockKind};
use cairn_runtime::stream::Stream;
use cairn_runtime::task::{Location, Span};

mod support;
use std::sync::Arc;
use support::*;

const KIB: u64 = 1 << 10;

fn span(address: usize, bytes: u64) -> Span {
    Span { address, bytes: bytes as usize, location: Location::Device(0) }
}

/// A runtime with a pool and a stream.
struct Setting {
    runtime: TestRuntime,
    pool: Arc<StreamPool>,
    stream: Arc<Stream>,
}

impl Setting {
    fn new(stitches: bool) -> Setting {
        let runtime = start_runtime(2, |config| config.stitches = stitches);
        runtime.set_device(0).unwrap();
        let (stream, pool) = (runtime.new_stream(), runtime.shared.memory.create_pool(0, u64::MAX));
        Setting { runtime, pool, stream }
    }

    fn take(&self, bytes: u64) -> usize {
        self.take_on(bytes, &self.stream)
    }

    fn take_on(&self, bytes: u64, stream: &Arc<Stream>) -> usize {
        allocate(&self.runtime.shared.memory, &self.pool, &Request::bytes(bytes), stream).unwrap()
    }

    fn free(&self, address: usize) {
        free(&self.runtime.shared.memory, address, &self.stream).unwrap();
    }

    fn fill(&self, address: usize, bytes: u64, value: u8) {
        self.stream.submit(fill(span(address, bytes), value)).unwrap();
    }

    fn synchronize(&self) {
        self.runtime.synchronize(&self.stream, None).unwrap();
    }

    /// Blocks of 1 MiB, filled with their numbers.
    fn fill_blocks(&self, count: u8) -> Vec<usize> {
        let blocks: Vec<usize> = (0..count).map(|_| self.take(MIB)).collect();
        for (&block, value) in blocks.iter().zip(0..) {
            self.fill(block, MIB, value);
        }
        blocks
    }

    /// The same; those with even numbers are freed.
    fn holes(&self, count: u8) -> Vec<usize> {
        let blocks = self.fill_blocks(count);
        blocks.iter().step_by(2).for_each(|&block| self.free(block));
        blocks
    }

    fn check_odd(&self, blocks: &[usize]) {
        for (&block, value) in blocks.iter().zip(0u8..).skip(1).step_by(2) {
            assert!(bytes(span(block, MIB)).iter().all(|&byte| byte == value), "block {value}");
        }
    }
}

#[test]
fn holes_serve_a_large_block_and_their_neighbours_stay() {
    let setting = Setting::new(true);
    let blocks = setting.holes(8);
    setting.synchronize();
    let reserved = setting.pool.figures().reserved;
    let large = setting.take(4 * MIB - 100);
    assert_eq!(setting.pool.figures().reserved, reserved, "no new memory");
    assert_eq!(setting.pool.figures().stitched, 4 * MIB);
    setting.fill(large, 4 * MIB - 100, 77);
    setting.synchronize();
    setting.check_odd(&blocks);
    assert!(bytes(span(large, 4 * MIB - 100)).iter().all(|&byte| byte == 77));

    let memory = &setting.runtime.shared.memory;
    let AddressInfo::Device(0, Some(found)) = memory.locate(large + (3 << 20)) else { panic!() };
    assert_eq!((found.start, found.bytes, found.live), (large, 4 * MIB - 100, true));
    assert!(matches!(found.kind, BlockKind::Pool { .. }));
    assert_eq!(memory.locate(blocks[0]), AddressInfo::Device(0, None), "its pages are elsewhere");

    setting.free(large);
    let again = setting.take(4 * MIB - 100);
    assert_eq!((again, setting.pool.figures().stitched), (large, 4 * MIB), "the range is kept");
    setting.free(again);
    blocks.iter().skip(1).step_by(2).for_each(|&block| setting.free(block));
    setting.synchronize();
    setting.pool.trim(0);
    assert_eq!(setting.pool.figures().reserved, 0);
    assert_eq!(memory.usage(0).pooled, 0);
}

#[test]
fn without_stitching_the_pool_grows() {
    let setting = Setting::new(false);
    setting.holes(8);
    setting.synchronize();
    let reserved = setting.pool.figures().reserved;
    setting.take(4 * MIB);
    assert!(setting.pool.figures().reserved > reserved);
    assert_eq!(setting.pool.figures().stitched, 0);
}

#[test]
fn tasks_in_the_queue_find_what_they_were_submitted_for() {
    let setting = Setting::new(true);
    let target = setting.runtime.alloc(0, 5 * 64);
    let gate = Gate::default();
    setting.stream.submit(gate.task()).unwrap();
    let blocks: Vec<usize> = (0..9).map(|_| setting.take(MIB)).collect();
    for (&block, value) in blocks.iter().zip(1..) {
        setting.fill(block, MIB, value);
    }
    for (number, &block) in blocks.iter().step_by(2).enumerate() {
        let to = Span { address: target.address + 64 * number, bytes: 64, ..target };
        setting.stream.submit(copy(span(block + (1 << 19), 64), to)).unwrap();
        setting.free(block);
    }
    let reserved = setting.pool.figures().reserved;
    let large = setting.take(5 * MIB);
    assert_eq!(setting.pool.figures().reserved, reserved, "nobody waited, nothing was added");
    setting.fill(large, 5 * MIB, 99);
    let more = setting.take(64 * KIB);
    gate.open();
    setting.synchronize();
    let expected: Vec<u8> = [1u8, 3, 5, 7, 9].into_iter().flat_map(|value| [value; 64]).collect();
    assert_eq!(bytes(target), expected);
    assert!(bytes(span(large, 5 * MIB)).iter().all(|&byte| byte == 99));
    for (&block, value) in blocks.iter().zip(1u8..).skip(1).step_by(2) {
        assert!(bytes(span(block, MIB)).iter().all(|&byte| byte == value));
    }
    [large, more].into_iter().for_each(|block| setting.free(block));
    blocks.iter().skip(1).step_by(2).for_each(|&block| setting.free(block));
    setting.synchronize();
    setting.pool.trim(0);
    assert_eq!(setting.runtime.shared.memory.usage(0).pooled, 0);
}

#[test]
fn pages_stay_until_the_tasks_before_have_read_them() {
    let setting = Setting::new(true);
    let target = setting.runtime.alloc(0, 5 * 64);
    let blocks = setting.fill_blocks(9);
    setting.synchronize();
    let gate = Gate::default();
    setting.stream.submit(gate.task()).unwrap();
    for (number, &block) in blocks.iter().step_by(2).enumerate() {
        let to = Span { address: target.address + 64 * number, bytes: 64, ..target };
        setting.stream.submit(copy(span(block + (1 << 19), 64), to)).unwrap();
        setting.free(block);
    }
    let large = setting.take(5 * MIB);
    assert_eq!(setting.pool.figures().stitched, 5 * MIB);
    gate.open();
    setting.synchronize();
    let expected: Vec<u8> = (0u8..9).step_by(2).flat_map(|value| [value; 64]).collect();
    assert_eq!(bytes(target), expected, "what was written long before the stitch");
    let moved: Vec<u8> = (0..5).map(|mib| bytes(span(large + (mib << 20), 1))[0]).collect();
    assert!(moved.iter().all(|value| value % 2 == 0) && moved.contains(&8), "{moved:?} moved");
    setting.check_odd(&blocks);
}

#[test]
fn a_stream_moves_the_pages_of_its_own_blocks() {
    let setting = Setting::new(true);
    let streams = [setting.stream.clone(), setting.runtime.new_stream()];
    let gates = [Gate::default(), Gate::default()];
    let targets = [0; 2].map(|_| setting.runtime.alloc(0, 4 * 64));
    for ((stream, gate), target) in streams.iter().zip(&gates).zip(targets) {
        let blocks: Vec<usize> = (0..8).map(|_| setting.take_on(MIB, stream)).collect();
        for (&block, value) in blocks.iter().zip(10..) {
            stream.submit(fill(span(block, MIB), value)).unwrap();
        }
        setting.runtime.synchronize(stream, None).unwrap();
        stream.submit(gate.task()).unwrap();
        for (number, &block) in blocks.iter().step_by(2).enumerate() {
            let to = Span { address: target.address + 64 * number, bytes: 64, ..target };
            stream.submit(copy(span(block + (1 << 19), 64), to)).unwrap();
            free(&setting.runtime.shared.memory, block, stream).unwrap();
        }
    }
    for stream in &streams {
        setting.take_on(4 * MIB, stream);
    }
    assert!(setting.pool.figures().stitched > 7 * MIB, "of both streams");
    for (stream, gate) in streams.iter().zip(&gates) {
        gate.open();
        setting.runtime.synchronize(stream, None).unwrap();
    }
    let expected: Vec<u8> = (10u8..18).step_by(2).flat_map(|value| [value; 64]).collect();
    assert!(targets.iter().all(|&target| bytes(target) == expected));
}

#[test]
fn old_addresses_are_given_back_without_their_pages() {
    let setting = Setting::new(true);
    let (first, second, begun) = (Gate::default(), Gate::default(), Gate::default());
    setting.stream.submit(first.task()).unwrap();
    let blocks = setting.holes(8);
    let last_use = setting.runtime.shared.progress.submitted(setting.stream.index);
    let (inner, waits) = (second.clone(), begun.clone());
    let task = host_task(move || {
        waits.open();
        inner.wait();
        true
    });
    setting.stream.submit(task).unwrap();
    let large = setting.take(4 * MIB);
    assert_eq!(setting.pool.figures().stitched, 4 * MIB);
    first.open();
    begun.wait();
    assert!(setting.runtime.shared.progress.finished(setting.stream.index) >= last_use);
    // Nothing uses the old addresses any more, and the stream has not moved the pages yet.
    setting.pool.trim(u64::MAX);
    let moved: Vec<u8> = (0..4).map(|mib| bytes(span(large + (mib << 20), 1))[0]).collect();
    assert!(moved.iter().all(|value| value % 2 == 0) && moved.contains(&6), "{moved:?} moved");
    // Others have the addresses now: the stream may not take anything away from there.
    let others: Vec<Span> = (0..4).map(|_| setting.runtime.alloc(0, MIB)).collect();
    assert!(others.iter().any(|other| other.address == blocks[0]), "an old address is used again");
    for &other in &others {
        setting.runtime.perform(&fill(other, 33)).unwrap();
    }
    second.open();
    setting.synchronize();
    assert!(others.iter().all(|&other| bytes(other).iter().all(|&byte| byte == 33)));
    setting.check_odd(&blocks);
}

#[test]
fn what_the_host_writes_before_pages_move_stays() {
    let setting = Setting::new(true);
    let gate = Gate::default();
    setting.stream.submit(gate.task()).unwrap();
    let blocks = setting.holes(8);
    let large = setting.take(4 * MIB);
    assert_eq!(setting.pool.figures().stitched, 4 * MIB);
    let part = span(large + (MIB / 2) as usize, MIB);
    setting.runtime.perform(&fill(part, 55)).unwrap();
    let from = setting.runtime.alloc(0, 64);
    setting.runtime.perform(&fill(from, 56)).unwrap();
    let last = span(large + 4 * MIB as usize - 64, 64);
    setting.runtime.perform(&copy(from, last)).unwrap();
    setting.fill(large, 64, 57);
    gate.open();
    setting.synchronize();
    assert!(bytes(part).iter().all(|&byte| byte == 55));
    assert!(bytes(last).iter().all(|&byte| byte == 56));
    assert!(bytes(span(large, 64)).iter().all(|&byte| byte == 57));
    setting.check_odd(&blocks);
    setting.free(large);
    blocks.iter().skip(1).step_by(2).for_each(|&block| setting.free(block));
    setting.synchronize();
    setting.pool.trim(0);
    assert_eq!(setting.runtime.shared.memory.usage(0).pooled, 0);
}

#[test]
fn an_aborted_stream_leaves_the_block_with_new_pages() {
    let setting = Setting::new(true);
    let gate = Gate::default();
    setting.stream.submit(gate.task()).unwrap();
    let blocks = setting.holes(8);
    let large = setting.take(4 * MIB);
    assert_eq!(setting.pool.figures().stitched, 4 * MIB);
    setting.stream.abort();
    gate.open();
    let error = setting.runtime.synchronize(&setting.stream, None).unwrap_err();
    assert_eq!(error.code, Code::StreamAbort);
    setting.fill(large, 4 * MIB, 5);
    setting.synchronize();
    setting.pool.trim(u64::MAX);
    assert!(bytes(span(large, 4 * MIB)).iter().all(|&byte| byte == 5));
    setting.free(large);
    blocks.iter().skip(1).step_by(2).for_each(|&block| setting.free(block));
    setting.synchronize();
    setting.pool.trim(0);
    assert_eq!(setting.runtime.shared.memory.usage(0).pooled, 0);
}

#[test]
fn a_pool_that_ends_gives_everything_back() {
    let setting = Setting::new(true);
    let gate = Gate::default();
    setting.stream.submit(gate.task()).unwrap();
    setting.holes(8);
    setting.take(4 * MIB);
    gate.open();
    setting.synchronize();
    let memory = &setting.runtime.shared.memory;
    memory.end_pool(&setting.pool);
    assert_eq!(memory.usage(0).pooled, 0);
    let whole = memory.allocate(0, Request::bytes(60 * MIB)).unwrap();
    memory.free(whole).unwrap();
}

fn maps() -> usize {
    std::fs::read_to_string("/proc/self/maps").unwrap().lines().count()
}

/// 10^6 steps (`CAIRN_TESTS=deep`, else a hundredth) with real memory: contents stay right, and neither memory nor
/// maps nor addresses grow.
#[test]
fn a_million_steps_without_growth() {
    let is_deep = std::env::var("CAIRN_TESTS").is_ok_and(|tests| tests == "deep");
    let count = if is_deep { 1_000_000 } else { 10_000 };
    let setting = Setting::new(true);
    let mut seed = 0x9e37_79b9_7f4a_7c15u64;
    let mut random = move || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    };
    let mut held: Vec<(usize, u64, u8)> = Vec::new();
    let (mut most_maps, mut live) = ([0; 2], 0);
    for step in 0..count {
        let number = random();
        match number % 64 {
            0..28 if live < 40 * MIB => {
                let log = 12 + number / 64 % 10;
                let size = ((1 << log) + random() % (1 << log)).min(60 * MIB - live);
                let block = setting.take(size);
                let value = number as u8;
                setting.fill(block, size, value);
                held.push((block, size, value));
                live += size;
            }
            0..62 if !held.is_empty() => {
                let (block, size, value) = held.swap_remove(random() as usize % held.len());
                if number % 512 < 8 {
                    setting.synchronize();
                    let found = bytes(span(block, size));
                    assert!(found.iter().all(|&byte| byte == value), "step {step}");
                }
                setting.free(block);
                live -= size;
            }
            62 => setting.synchronize(),
            63 if number / 64 % 16 == 0 => _ = setting.pool.trim(random() % (64 * MIB)),
            _ => {}
        }
        if step % 500 == 0 {
            let half = usize::from(step >= count / 2);
            most_maps[half] = most_maps[half].max(maps());
        }
    }
    let figures = setting.pool.figures();
    assert!(figures.stitched > 0 && figures.failed == 0, "{figures:?}");
    assert!(most_maps[1] <= 2 * most_maps[0] + 200, "maps: {most_maps:?}");
    held.iter().for_each(|&(block, ..)| setting.free(block));
    setting.synchronize();
    setting.pool.trim(0);
    assert_eq!(setting.runtime.shared.memory.usage(0).pooled, 0);
}
