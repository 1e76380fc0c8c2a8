//! Layers over memory, in every order and over every source: what they must do alone, in pairs, on
//! streams, with threads, and through the settings of a runtime.

#![cfg(not(feature = "shuttle"))]

#[path = "layers/model.rs"]
mod model;
#[path = "layers/process.rs"]
mod process;
#[path = "layers/sources.rs"]
mod sources;
mod support;

use cairn_runtime::error::Code;
use cairn_runtime::memory::PoolMaker;
use cairn_runtime::memory::allocator::{Allocator, RawBlock};
use cairn_runtime::memory::layer::{CANARY, POISON, Spec, Stack};
use cairn_runtime::memory::request::Request;
use cairn_runtime::record::event::MemoryKind;
use cairn_runtime::stream::Stream;
use cairn_runtime::task::{Location, Span};
use model::{NaiveLayer, Refusal, naive_layers};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use sources::{MockAllocator, OrderedAllocator, USERS_OBJECT, UserSlab};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use support::*;

const LAYERS: [&str; 4] = ["limit:200kib", "guard", "stats", "fault:every=5"];

/// Every layer alone, and every ordered pair, the same one twice too.
fn specs() -> Vec<Spec> {
    let pairs = LAYERS.iter().flat_map(|a| LAYERS.iter().map(move |b| format!("{a},{b}")));
    let all = LAYERS.iter().map(|a| a.to_string()).chain(pairs);
    all.map(|text| Spec::parse(&text).unwrap()).collect()
}

/// A source, and the stream in whose order its blocks are used, if it has one.
struct Fixture<'a> {
    runtime: &'a TestRuntime,
    source: &'a dyn Allocator,
    stream: Option<Arc<Stream>>,
    other: Arc<Stream>,
    /// Its error code when it has no memory.
    out_of_memory_code: Code,
}

impl Fixture<'_> {
    fn fill(&self, block: &RawBlock, value: u8) {
        let task = fill(span(block), value);
        match &self.stream {
            Some(stream) => drop(stream.submit(task).unwrap()),
            None => self.runtime.shared.memory.perform(&task).unwrap(),
        }
    }

    fn contents(&self, block: &RawBlock) -> Vec<u8> {
        self.synchronize();
        bytes(span(block))
    }

    /// Waits for all tasks; freed memory may leave the quarantine then.
    fn synchronize(&self) {
        self.runtime.synchronize(self.stream.as_ref().unwrap_or(&self.other), None).unwrap();
    }

    fn flip(&self, address: usize) {
        let extent = self.source.extent(address, 1).unwrap();
        extent.write(&[!extent.read()[0]]);
    }
}

fn span(block: &RawBlock) -> Span {
    Span { address: block.address, bytes: block.bytes as usize, location: Location::Device(0) }
}

/// Runs a test over each source, and checks that all blocks were freed.
fn over_each_source(test: impl Fn(&Fixture<'_>)) {
    let runtime = start_runtime(1, |_| ());
    runtime.set_device(0).unwrap();
    let (handle, other) = (runtime.create_stream(0, 0).unwrap(), runtime.new_stream());
    let stream = Some(runtime.stream(handle).unwrap());
    let out_of_memory_code = Code::MemoryAllocation;

    let live = runtime.shared.memory.usage(0).live;
    let source = &runtime.shared.memory.maker(MemoryKind::Device(0));
    test(&Fixture {
        runtime: &runtime,
        source,
        stream: None,
        other: other.clone(),
        out_of_memory_code,
    });
    assert_eq!(runtime.shared.memory.usage(0).live, live);

    let on_stream = |source: &dyn Allocator, out_of_memory_code| {
        test(&Fixture {
            runtime: &runtime,
            source,
            stream: stream.clone(),
            other: other.clone(),
            out_of_memory_code,
        });
    };
    let ordered = OrderedAllocator::new(&runtime);
    on_stream(&ordered, out_of_memory_code);
    assert_eq!(ordered.live_blocks(), 0);

    on_stream(&*PoolMaker::built_in(&runtime.shared, 0), out_of_memory_code);
    assert_eq!(runtime.shared.memory.built_in_pool(0).figures().live, 0);

    let user = UserSlab::new(&runtime);
    on_stream(&*user.register(&runtime, handle), Code::GeFailure);
    assert_eq!(user.live_blocks(), 0);
}

/// The sources of stream-ordered memory; the user's allocator is registered on this stream.
fn stream_sources(runtime: &TestRuntime, handle: usize) -> Vec<Arc<dyn Allocator>> {
    let pool = PoolMaker::built_in(&runtime.shared, 0);
    let external = UserSlab::new(runtime).register(runtime, handle);
    vec![Arc::new(OrderedAllocator::new(runtime)), pool, external]
}

#[derive(Clone, Debug)]
enum Op {
    Allocate { bytes: u64, shift: u32 },
    AllocateTooMuch(u64),
    Free(usize),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        6 => (1..40_000u64, 9..14u32).prop_map(|(bytes, shift)| Op::Allocate { bytes, shift }),
        1 => prop_oneof![Just(100 * MIB), Just(u64::MAX)].prop_map(Op::AllocateTooMuch),
        5 => any::<usize>().prop_map(Op::Free),
    ];
    prop::collection::vec(op, 1..40)
}

struct LiveBlock {
    block: RawBlock,
    value: u8,
}

/// Runs the steps over the layers and the model, and compares them.
fn run(fixture: &Fixture<'_>, spec: &Spec, ops: &[Op]) {
    let stack = spec.build();
    let allocator = funnel_over(&stack, fixture.source);
    let mut model = naive_layers(spec);
    let mut held: Vec<LiveBlock> = Vec::new();
    let mut next = 1u8;
    let free = |held: LiveBlock, model: &mut Vec<NaiveLayer>| {
        assert!(fixture.contents(&held.block).iter().all(|&byte| byte == held.value));
        model::free(model, held.block.bytes);
        allocator.free(held.block, fixture.stream.as_ref()).unwrap();
    };
    for op in ops {
        match *op {
            Op::Allocate { bytes, .. } | Op::AllocateTooMuch(bytes) => {
                let align = if let Op::Allocate { shift, .. } = op { 1 << shift } else { 512 };
                let request = Request { align, ..Request::bytes(bytes) };
                let result =
                    allocator.allocate(&Request { stream: fixture.stream.as_ref(), ..request });
                match (result, model::allocate(&mut model, bytes, 4 * MIB)) {
                    (Ok(block), Ok(())) => {
                        assert_eq!((block.address as u64 % align, block.bytes), (0, bytes));
                        let (start, end) = (block.address, block.address + bytes as usize);
                        let is_disjoint = |other: &LiveBlock| {
                            let other = span(&other.block);
                            end <= other.address || other.address + other.bytes <= start
                        };
                        assert!(
                            held.iter().all(is_disjoint),
                            "{start:#x} of {bytes} overlaps another"
                        );
                        fixture.fill(&block, next);
                        held.push(LiveBlock { block, value: next });
                        next = next.wrapping_add(1);
                    }
                    (Err(error), Err(refusal)) => {
                        let is_of_source = refusal == Refusal::Source;
                        let code = if is_of_source {
                            fixture.out_of_memory_code
                        } else {
                            Code::MemoryAllocation
                        };
                        assert_eq!(error.code, code, "{}", error.text);
                        for part in refusal.message_parts(bytes) {
                            assert!(error.text.contains(&part), "{}: {part}", error.text);
                        }
                    }
                    (result, expected) => panic!("{op:?}: {result:?}, expected {expected:?}"),
                }
            }
            Op::Free(index) if !held.is_empty() => {
                free(held.swap_remove(index % held.len()), &mut model);
            }
            Op::Free(_) => {}
        }
        compare(&stack, &model);
    }
    fixture.synchronize();
    assert_eq!(stack.inspect(), Vec::<String>::new());
    held.into_iter().for_each(|held| free(held, &mut model));
    compare(&stack, &model);
    fixture.synchronize();
}

/// Checks the statistics of the layers against the model.
fn compare(stack: &Stack, model: &[NaiveLayer]) {
    let figures = model.iter().filter_map(|layer| match layer {
        NaiveLayer::Stats(figures, _) => Some(*figures),
        _ => None,
    });
    let statistics = stack.statistics();
    assert!(statistics.iter().map(|statistics| statistics.total).eq(figures));
    for statistics in statistics {
        assert!(statistics.allocators.values().all(|figures| *figures == statistics.total));
    }
}

#[test]
fn layers_and_pairs_of_layers_agree_with_a_model() {
    over_each_source(|fixture| {
        for spec in specs() {
            let config = Config { cases: 128, failure_persistence: None, ..Config::default() };
            TestRunner::new(config)
                .run(&ops(), |ops| {
                    run(fixture, &spec, &ops);
                    Ok(())
                })
                .unwrap_or_else(|failure| {
                    panic!("{spec} over {}: {failure}", fixture.source.name())
                });
        }
    });
}

/// Distance of the canaries of each guard from the block, outermost guard first.
fn canaries(spec: &Spec, align: usize) -> impl Iterator<Item = (usize, usize)> {
    let guards = spec.to_string().matches("guard").count();
    (0..guards).map(move |inner| (inner * align, inner * CANARY))
}

#[test]
fn a_write_beside_a_block_is_found_at_every_nesting() {
    let (bytes, align) = (1001, 2048);
    over_each_source(|fixture| {
        for spec in specs() {
            for (front, back) in canaries(&spec, align) {
                for (side, offset) in [
                    ("before", -1 - front as i64),
                    ("before", -(CANARY as i64) - front as i64),
                    ("after", (bytes + back) as i64),
                    ("after", (bytes + back + CANARY - 1) as i64),
                ] {
                    check_damage(fixture, &spec, (bytes as u64, align as u64), side, offset);
                }
            }
        }
    });
}

/// Checks that a changed byte beside a block is reported.
fn check_damage(
    fixture: &Fixture<'_>,
    spec: &Spec,
    (bytes, align): (u64, u64),
    side: &str,
    offset: i64,
) {
    let stack = spec.build();
    let allocator = funnel_over(&stack, fixture.source);
    let request = Request { align, ..Request::bytes(bytes) };
    let block =
        allocator.allocate(&Request { stream: fixture.stream.as_ref(), ..request }).unwrap();
    fixture.synchronize();
    fixture.flip(block.address.wrapping_add_signed(offset as isize));
    let parts = [
        format!("the block {:#x} of {bytes} bytes: 1 byte {side} it", block.address),
        format!("the first at offset {offset}, "),
    ];
    let found = stack.inspect();
    assert_eq!(found.len(), 1, "{spec}: {found:?}");

    let freed = allocator.free(block, fixture.stream.as_ref());
    let error = match &fixture.stream {
        None => freed.unwrap_err(),
        Some(stream) => {
            freed.unwrap();
            fixture.runtime.synchronize(stream, None).unwrap_err()
        }
    };
    assert_eq!((error.code, &error.text), (Code::MemoryFree, &found[0]), "{spec}");
    for part in parts {
        assert!(error.text.contains(&part), "{spec}: {}, not {part}", error.text);
    }
    assert!(stack.inspect().is_empty());
    assert!(stack.statistics().iter().all(|s| (s.total.live, s.total.gives) == (0, 1)));
}

#[test]
fn both_sides_are_named_with_the_bytes_that_were_found() {
    over_each_source(|fixture| {
        let stack = Spec::parse("guard").unwrap().build();
        let allocator = funnel_over(&stack, fixture.source);
        let block = allocator
            .allocate(&Request { stream: fixture.stream.as_ref(), ..Request::bytes(100) })
            .unwrap();
        fixture.synchronize();
        let write =
            |address: usize, text: &[u8]| fixture.source.extent(address, 4).unwrap().write(text);
        write(block.address - 4, &[1, 2, 3, 4]);
        write(block.address + 100, &[5, 6, 7, 8]);
        let found = stack.inspect().remove(0);
        let parts = [
            "4 bytes before it, the first at offset -4, where 01 02 03 04 was found",
            "4 bytes after it, the first at offset 100, where 05 06 07 08 ",
        ];
        assert!(parts.iter().all(|part| found.contains(part)), "{found}");
        drop(allocator.free(block, fixture.stream.as_ref()));
        drop(fixture.runtime.synchronize(fixture.stream.as_ref().unwrap_or(&fixture.other), None));
    });
}

#[test]
fn memory_is_poisoned_when_it_leaves_and_not_before() {
    let runtime = start_runtime(1, |_| ());
    runtime.set_device(0).unwrap();
    let stack = Spec::parse("guard,stats").unwrap().build();
    let handle = runtime.create_stream(0, 0).unwrap();
    let (stream, gate) = (runtime.stream(handle).unwrap(), Gate::default());
    let all = |span: Span, value: u8| bytes(span).iter().all(|&byte| byte == value);

    let direct = runtime.shared.memory.maker(MemoryKind::Device(0));
    let allocator = funnel_over(&stack, &direct);
    let block = allocator.allocate(&Request::bytes(5000)).unwrap();
    let (at, copied) = (span(&block), runtime.alloc(0, 5000));
    stream.submit(fill(at, 7)).unwrap();
    stream.submit(gate.task()).unwrap();
    stream.submit(copy(at, copied)).unwrap();
    allocator.free(block, None).unwrap();
    gate.open();
    runtime.synchronize(&stream, None).unwrap();
    assert!(all(copied, 7) && all(at, 7), "the quarantine keeps what is there");
    runtime.shared.memory.empty_quarantines();
    assert!(all(at, POISON));

    for source in stream_sources(&runtime, handle) {
        let (allocator, gate) = (funnel_over(&stack, &*source), Gate::default());
        stream.submit(gate.task()).unwrap();
        let block = allocator.allocate(&Request::bytes(5000).on(&stream)).unwrap();
        let at = span(&block);
        stream.submit(fill(at, 9)).unwrap();
        stream.submit(copy(at, copied)).unwrap();
        allocator.free(block, Some(&stream)).unwrap();
        gate.open();
        runtime.synchronize(&stream, None).unwrap();
        assert!(all(copied, 9) && all(at, POISON), "{}", source.name());
        runtime.shared.memory.perform(&fill(copied, 0)).unwrap();
    }
}

#[test]
fn canaries_wait_for_earlier_work_of_the_stream() {
    let runtime = start_runtime(1, |_| ());
    runtime.set_device(0).unwrap();
    let (stream, gate) = (runtime.new_stream(), Gate::default());
    let ordered = OrderedAllocator::new(&runtime);
    let stack = Spec::parse("guard").unwrap().build();
    let allocator = funnel_over(&stack, &ordered);

    let earlier = ordered.allocate(&Request::bytes(MIB).on(&stream)).unwrap();
    stream.submit(gate.task()).unwrap();
    stream.submit(fill(span(&earlier), 5)).unwrap();
    ordered.free(earlier, Some(&stream)).unwrap();
    let block = allocator.allocate(&Request::bytes(4096).on(&stream)).unwrap();
    assert_eq!(stack.inspect(), Vec::<String>::new(), "no canary stands there yet");
    gate.open();
    allocator.free(block, Some(&stream)).unwrap();
    runtime.synchronize(&stream, None).unwrap();
}

#[test]
fn canaries_that_an_abort_dropped_raise_no_alarm() {
    let runtime = start_runtime(1, |_| ());
    runtime.set_device(0).unwrap();
    let (stream, gate) = (runtime.new_stream(), Gate::default());
    let ordered = OrderedAllocator::new(&runtime);
    let stack = Spec::parse("guard").unwrap().build();
    let allocator = funnel_over(&stack, &ordered);
    stream.submit(gate.task()).unwrap();
    let block = allocator.allocate(&Request::bytes(4096).on(&stream)).unwrap();
    stream.abort();
    gate.open();
    let abort = runtime.synchronize(&stream, None).unwrap_err();
    assert_eq!(abort.code, Code::StreamAbort);
    allocator.free(block, Some(&stream)).unwrap();
    runtime.synchronize(&stream, None).unwrap();
}

#[test]
fn a_closed_stream_takes_no_canaries_and_keeps_no_block() {
    let runtime = start_runtime(1, |_| ());
    runtime.set_device(0).unwrap();
    for index in 0..3 {
        let handle = runtime.create_stream(0, 0).unwrap();
        let stream = runtime.stream(handle).unwrap();
        let source = stream_sources(&runtime, handle).remove(index);
        let stack = Spec::parse("stats,guard").unwrap().build();
        let allocator = funnel_over(&stack, &*source);
        let block = allocator.allocate(&Request::bytes(100).on(&stream)).unwrap();
        runtime.synchronize(&stream, None).unwrap();
        let after = source.extent(block.address + 100, 1).unwrap();
        stream.close(true).unwrap();
        let refused = allocator.allocate(&Request::bytes(100).on(&stream)).unwrap_err();
        assert_eq!(refused.code, Code::InvalidHandle, "{}", source.name());
        after.write(&[!after.read()[0]]);
        let found = allocator.free(block, Some(&stream)).unwrap_err();
        assert_eq!(found.code, Code::MemoryFree, "{}: {}", source.name(), found.text);
        let total = stack.statistics()[0].total;
        assert_eq!((total.takes, total.gives, total.failures, total.live), (1, 1, 1, 0));
        assert_eq!(runtime.shared.memory.built_in_pool(0).figures().live, 0);
        assert_eq!(runtime.allocators.count_of(USERS_OBJECT).blocks, 0);
    }
}

#[test]
fn canaries_of_external_blocks_are_put_only_on_request() {
    use cairn_runtime::memory::layer::spec::MakerKind;
    for (text, padding) in [("guard", 0), ("guard:external", CANARY as u64)] {
        let mock = MockAllocator::default();
        let stack =
            Stack::new(Spec::parse(text).unwrap().build_over(MakerKind::External).collect());
        let allocator = funnel_over(&stack, &mock);
        let block = allocator.allocate(&Request::bytes(64)).unwrap();
        allocator.free(block, None).unwrap();
        let request = mock.requests.lock().unwrap()[0];
        assert_eq!((request.bytes, request.front, request.back), (64, padding, padding), "{text}");
        assert_eq!(*mock.poisons.lock().unwrap(), [Some(POISON)]);
    }
}

#[test]
fn eight_threads_get_exactly_what_a_limit_allows() {
    const SIZE: u64 = 4096;
    const ALLOWED: u64 = 301;
    over_each_source(|fixture| {
        let text = format!("stats,limit:{},guard", ALLOWED * SIZE + SIZE - 1);
        let stack = Spec::parse(&text).unwrap().build();
        let allocator = funnel_over(&stack, fixture.source);
        let (stream, blocks) = (fixture.stream.as_ref(), Mutex::new(Vec::new()));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let allocated = (0..100).filter_map(|_| {
                        allocator.allocate(&Request { stream, ..Request::bytes(SIZE) }).ok()
                    });
                    let allocated: Vec<_> = allocated.collect();
                    blocks.lock().unwrap().extend(allocated);
                });
            }
        });
        let blocks = blocks.into_inner().unwrap();
        assert_eq!(blocks.len() as u64, ALLOWED);
        let total = stack.statistics()[0].total;
        assert_eq!((total.takes, total.failures), (ALLOWED, 800 - ALLOWED));
        blocks.into_iter().for_each(|block| allocator.free(block, stream).unwrap());
        assert_eq!(stack.statistics()[0].total.live, 0);
    });
}

#[test]
fn a_limit_holds_at_every_moment() {
    const MAX_LIVE: u64 = 64 << 10;
    let mock = MockAllocator::default();
    let stack = Spec::parse("limit:64kib,stats").unwrap().build();
    let allocator = funnel_over(&stack, &mock);
    let live = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for thread in 0..8u64 {
            let (allocator, live) = (&allocator, &live);
            scope.spawn(move || {
                for round in 0..2000 {
                    let bytes = 1 + (round * 7919 + thread * 104_729) % 20_000;
                    let Ok(block) = allocator.allocate(&Request::bytes(bytes)) else {
                        continue;
                    };
                    let now = live.fetch_add(bytes, Ordering::SeqCst) + bytes;
                    assert!(now <= MAX_LIVE, "{now} bytes are out");
                    live.fetch_sub(bytes, Ordering::SeqCst);
                    allocator.free(block, None).unwrap();
                }
            });
        }
    });
    let total = stack.statistics()[0].total;
    assert_eq!((total.live, total.blocks, total.takes), (0, 0, total.gives));
    assert!(total.takes > 0 && total.peak <= MAX_LIVE);
    let block = allocator.allocate(&Request::bytes(MAX_LIVE)).expect("all of it is there again");
    allocator.free(block, None).unwrap();
}
