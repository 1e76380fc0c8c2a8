//! How much memory is reserved for what programs hold: recorded programs, a pattern that made other
//! pools grow without bound, and what can be given back.

use super::available::{
    AvailablePeers, IN_RUNTIME, LARGE_PIECES, OFFSET, ORT, POOL, SMALL_PIECES, STANDALONE,
};
use super::measured::{BestFit, CountedAllocator, MeasuredAllocator};
use super::pool::{PAGE, VirtualMemory};
use super::runtime_pool::RuntimePool;
use super::trace::{Event, Trace};
use serde_json::{Value, json};
use std::collections::BTreeSet;

const MIB: u64 = 1 << 20;

/// One trace on all allocators.
pub struct TraceResult {
    /// The program.
    pub trace: String,
    /// Whether it is a training run.
    pub training: bool,
    /// The most bytes it held.
    pub peak_live: u64,
    /// The most bytes that each allocator reserved.
    pub reserved: Vec<(&'static str, u64)>,
}

/// A pattern that makes caching allocators grow: what was live and reserved at its end, on each allocator.
pub struct Growth {
    /// Bytes that are live at the end.
    pub live: u64,
    /// The most bytes that were live.
    pub peak_live: u64,
    /// What each has reserved at the end.
    pub reserved: Vec<(&'static str, u64)>,
    /// What the pool still has reserved after a trim.
    pub reserved_after_trim: u64,
}

/// What a trim gave back halfway through a trace.
pub struct TrimResult {
    /// The program.
    pub trace: String,
    /// Whole pages in which nothing was live.
    pub free: u64,
    /// Bytes returned.
    pub returned: u64,
}

/// Replays one program on every allocator that reports its reserved bytes.
pub fn replay(available: &AvailablePeers, trace: &Trace) -> TraceResult {
    let reserved = allocators(available)
        .into_iter()
        .map(|(name, mut allocator)| {
            run(&mut *allocator, &trace.events);
            let reserved = allocator.peak_reserved();
            run(&mut *allocator, &frees_of_the_rest(&trace.events));
            (name, reserved)
        })
        .collect();
    TraceResult {
        trace: trace.name.clone(),
        training: trace.is_training(),
        peak_live: trace.peak_live,
        reserved,
    }
}

fn allocators(available: &AvailablePeers) -> Vec<(&'static str, Box<dyn MeasuredAllocator>)> {
    let mut all: Vec<(&'static str, Box<dyn MeasuredAllocator>)> =
        vec![(POOL, Box::new(CountedAllocator::pool()))];
    for (name, memory) in [
        (SMALL_PIECES, VirtualMemory::small_pieces()),
        (LARGE_PIECES, VirtualMemory::large_pieces()),
    ] {
        all.push((name, Box::new(CountedAllocator::pool_over(memory))));
    }
    for (name, stitches) in IN_RUNTIME.into_iter().zip([false, true]) {
        let pool = RuntimePool::new(stitches).expect("the engine starts");
        all.push((name, Box::new(CountedAllocator::runtime(pool))));
    }
    if let Some(plugin) = &available.plugin {
        all.push((STANDALONE, Box::new(CountedAllocator::standalone(plugin))));
    }
    #[cfg(feature = "peers")]
    all.push((OFFSET, Box::new(super::measured::Offsets::new())));
    let _ = OFFSET;
    if let Some(ort) = &available.ort {
        all.push((
            ORT,
            Box::new(CountedAllocator::ort(ort.arena().expect("an arena can be created"))),
        ));
    }
    all.push(("best fit (reference)", Box::<BestFit>::default()));
    all
}

/// Frees what a program holds at its end: the next one uses the same pool.
fn frees_of_the_rest(events: &[Event]) -> Vec<Event> {
    let mut held = BTreeSet::new();
    for event in events {
        match *event {
            Event::Take(block, _) => _ = held.insert(block),
            Event::Free(block) => _ = held.remove(&block),
        }
    }
    held.into_iter().map(Event::Free).collect()
}

fn run(allocator: &mut dyn MeasuredAllocator, events: &[Event]) {
    for event in events {
        match *event {
            Event::Take(block, bytes) => allocator.take(block, bytes),
            Event::Free(block) => allocator.free(block),
        }
    }
}

/// A hundred cycles: 91 MiB and 45.5 MiB are taken, then 2 MiB that stay, then both are freed; 66 MiB
/// are held throughout. PyTorch issue 123548 reports 14,060 MiB reserved for 266 MiB live.
pub fn growth(available: &AvailablePeers) -> Growth {
    let mut events = vec![Event::Take(0, 66 * MIB)];
    for cycle in 0..100 {
        let first = 1 + 3 * cycle;
        events.extend([
            Event::Take(first, 91 * MIB),
            Event::Take(first + 1, 91 * MIB / 2),
            Event::Take(first + 2, 2 * MIB),
            Event::Free(first),
            Event::Free(first + 1),
        ]);
    }
    let mut reserved = Vec::new();
    for (name, mut allocator) in allocators(available) {
        run(&mut *allocator, &events);
        reserved.push((name, allocator.reserved()));
        run(&mut *allocator, &frees_of_the_rest(&events));
    }
    let mut pool = CountedAllocator::pool();
    run(&mut pool, &events);
    pool.allocator.trim();
    let live = (66 + 200) * MIB;
    Growth {
        live,
        peak_live: live + 91 * MIB + 91 * MIB / 2,
        reserved,
        reserved_after_trim: pool.reserved(),
    }
}

/// Stops halfway through a trace, and trims.
pub fn trim(trace: &Trace) -> TrimResult {
    let mut pool = CountedAllocator::pool();
    run(&mut pool, &trace.events[..trace.events.len() / 2]);
    let free = free_pages(pool.live_blocks(), pool.reserved());
    let returned = pool.allocator.trim();
    TrimResult { trace: trace.name.clone(), free, returned }
}

/// Bytes in pages below `end` in which no block lies.
fn free_pages(blocks: impl Iterator<Item = (u64, u64)>, end: u64) -> u64 {
    let mut blocks: Vec<(u64, u64)> = blocks.collect();
    blocks.sort_unstable();
    let (mut free, mut from) = (0, 0);
    for (start, bytes) in blocks.into_iter().chain([(end, 0)]) {
        free += (start / PAGE * PAGE).saturating_sub(from);
        from = (start + bytes).next_multiple_of(PAGE);
    }
    free
}

/// The results, for memory.json.
pub fn json(traces: &[TraceResult], growth: &Growth, trims: &[TrimResult]) -> Value {
    let ratios = |reserved: &[(&str, u64)], live: u64| -> Value {
        let each = |(name, bytes): &(&str, u64)| json!({ "allocator": name, "reserved": bytes, "ratio": *bytes as f64 / live as f64 });
        reserved.iter().map(each).collect()
    };
    let traces_json: Vec<Value> = traces
        .iter()
        .map(|result| {
            json!({
                "trace": result.trace, "peak_live": result.peak_live,
                "peak_reserved": ratios(&result.reserved, result.peak_live),
            })
        })
        .collect();
    let trims: Vec<Value> = trims
        .iter()
        .map(|t| json!({ "trace": t.trace, "free": t.free, "returned": t.returned }))
        .collect();
    json!({
        "traces": traces_json,
        "growth": {
            "live": growth.live, "peak_live": growth.peak_live,
            "reserved": ratios(&growth.reserved, growth.live), "after_trim": growth.reserved_after_trim,
        },
        "trim": trims,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_counts_only_when_all_of_it_is_free() {
        let blocks = [(0, 100), (2 * PAGE, PAGE + 1), (6 * PAGE - 1, 2)];
        assert_eq!(free_pages(blocks.into_iter(), 10 * PAGE), (1 + 1 + 3) * PAGE);
    }
}
