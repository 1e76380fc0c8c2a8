//! Blocks that are exported and freed again and again: what is left of it in the maps of the process.

#![cfg(not(feature = "shuttle"))]

mod support;

use cairn_runtime::memory::relocation::set_fault_watch;
use cairn_runtime::memory::request::{HugePageRequest, Request};
use cairn_runtime::task::{Location, Span};
use support::*;

/// Maps of the process in a range of addresses.
fn maps_in(range: &std::ops::Range<usize>) -> usize {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let start = |line: &str| usize::from_str_radix(line.split('-').next().unwrap(), 16).unwrap();
    maps.lines().filter(|line| range.contains(&start(line))).count()
}

/// Numbers without order, the same in every run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 8) % end
    }
}

/// Blocks of many sizes come and go in any order, most with a key: each keeps what was written to it, and when all are gone
/// the maps are as few as before, however many blocks there were.
#[test]
fn blocks_that_are_exported_and_freed_leave_no_maps() {
    const BLOCKS: usize = 500;
    let is_deep = std::env::var("CAIRN_TESTS").is_ok_and(|depth| depth == "deep");
    let rounds = if is_deep { 200 } else { 6 };
    set_fault_watch(|| ());
    let runtime = start_runtime(1, |_| ());
    runtime.set_device(0).unwrap();
    let (memory, stream) = (&runtime.shared.memory, runtime.new_stream());
    let whole = runtime.alloc(0, 60 * MIB);
    let arena = whole.address..whole.address + whole.bytes;
    memory.free(whole.address).unwrap();
    let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
    let mut most = 0;
    for round in 0..rounds {
        let mut live: Vec<(Span, u8)> = Vec::new();
        for _ in 0..BLOCKS {
            let huge = [HugePageRequest::No, HugePageRequest::Preferred][round % 2];
            let scale = [900, 20_000, 180_000][numbers.below(3) as usize];
            let request = Request { huge, ..Request::bytes(1 + numbers.below(scale)) };
            let (address, bytes) = (memory.allocate(0, request).unwrap(), request.bytes as usize);
            let span = Span { address, bytes, location: Location::Device(0) };
            let value = numbers.below(256) as u8;
            memory.perform(&fill(span, value)).unwrap();
            live.insert(numbers.below(live.len() as u64 + 1) as usize, (span, value));
        }
        for (span, _) in &live {
            let open = || memory.export_memory(span.address, span.bytes as u64, true).unwrap();
            match numbers.below(5) {
                0 => {}
                1 => memory.close_memory(open()).unwrap(),
                _ => _ = open(),
            }
        }
        most = most.max(maps_in(&arena));
        while !live.is_empty() {
            let (span, value) = live.swap_remove(numbers.below(live.len() as u64) as usize);
            let seen = bytes(span);
            assert!(seen.iter().all(|&byte| byte == value), "round {round}: {span}");
            memory.free(span.address).unwrap();
            if live.len().is_multiple_of(64) {
                stream.synchronize(None).unwrap();
            }
        }
        runtime.synchronize(&stream, None).unwrap();
        memory.empty_quarantines();
        let left = maps_in(&arena);
        assert!(left <= 8, "{left} maps without a block, {most} with {BLOCKS}");
    }
}
