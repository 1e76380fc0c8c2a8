//! Layers as a process gets them from `CAIRN_MEMORY`: under `aclrtMalloc` and `aclrtFree`.

use crate::sources::MockAllocator;
use crate::support::*;
use cairn_runtime::clock::Progress;
use cairn_runtime::error::Code;
use cairn_runtime::memory::PoolMaker;
use cairn_runtime::memory::allocator::{Allocator, Block};
use cairn_runtime::memory::arena::{Arena, ArenaSpec, Attempt};
use cairn_runtime::memory::budget::Budget;
use cairn_runtime::memory::layer::{CANARY, Spec};
use cairn_runtime::memory::purpose::{Owner, Purpose};
use cairn_runtime::memory::request::Request;
use cairn_runtime::record::event::MemoryKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

fn runtime_with_layers(spec: &str) -> TestRuntime {
    let runtime = start_runtime(1, |config| config.memory = Spec::parse(spec).unwrap());
    runtime.set_device(0).unwrap();
    runtime
}

#[test]
fn malloc_and_free_go_through_the_layers() {
    let runtime = runtime_with_layers("limit:1mib,guard,stats,fault:nth=3");
    let memory = &runtime.shared.memory;
    let block = runtime.alloc(0, 1 << 19);
    let small = runtime.alloc(0, 100);
    assert!(memory.allocate(0, Request::bytes(64)).unwrap_err().text.contains("injected fault"));
    let refused = memory.allocate(0, Request::bytes(1 << 19)).unwrap_err();
    assert_eq!(refused.code, Code::MemoryAllocation);
    assert!(
        refused
            .text
            .contains("asked 524288 bytes of the memory of device 0, live 524388, limit 1048576"),
        "{}",
        refused.text
    );
    let other =
        memory.allocate(1, Request::bytes(1 << 20)).expect("a device has a limit of its own");
    memory.free(other).unwrap();

    let total = memory.statistics(0)[0].total;
    assert_eq!((total.live, total.blocks, total.takes, total.failures), (524_388, 2, 2, 1));
    assert_eq!((total.peak, total.requested, total.largest), (524_388, 524_388, 524_288));
    memory.free(block.address).unwrap();
    let twice = memory.free(block.address).unwrap_err();
    assert!(twice.text.contains("already freed"), "{}", twice.text);
    assert!(memory.free(small.address + 1).is_err());
    assert_eq!(memory.statistics(0)[0].total.gives, 1);

    let extent = memory.extent(small.address + 100, 1).unwrap();
    extent.write(&[!extent.read()[0]]);
    assert_eq!(memory.inspect().len(), 1);
    assert!(memory.report().contains("1 byte after it, the first at offset 100"));
    let error = memory.free(small.address).unwrap_err();
    assert_eq!(error.code, Code::MemoryFree);
    assert!(memory.free(small.address).unwrap_err().text.contains("already freed"));
    assert!(memory.inspect().is_empty());
    assert_eq!(memory.statistics(0)[0].total.live, 0);
    assert_eq!(memory.usage(0).live, 0);
    let report = memory.report();
    assert_eq!(report.lines().count(), 2, "a line for each device that was used: {report}");
    assert!(
        report.starts_with("cairn: stats of device 0: live 0 bytes, blocks 0, peak 524388, largest 524288, taken 2 (524388 bytes), given back 2, failed 1\n"),
        "{report}"
    );
}

#[test]
fn statistics_and_faults_know_purposes_and_operators() {
    let runtime = runtime_with_layers("stats,fault:nth=2:purpose=workspace:operator=sort");
    let (memory, stream) = (&runtime.shared.memory, runtime.new_stream());
    let pool: Arc<dyn Allocator> = PoolMaker::built_in(&runtime.shared, 0);
    let user = runtime.alloc(0, 100);
    let sort = Owner { operator: Some("Sort"), ..Owner::default() };
    let take = |bytes, purpose, owner| {
        Block::allocate(&pool, &Request::bytes(bytes).on(&stream).purpose(purpose, owner))
    };
    let first = take(1000, Purpose::Workspace, sort).unwrap();
    let other = take(500, Purpose::Workspace, Owner::default()).unwrap();
    let copy = take(64, Purpose::HostCopy, sort).unwrap();
    let error = take(2000, Purpose::Workspace, sort).err().expect("the second workspace of Sort");
    assert!(error.text.contains("request 2, of 2000 bytes"), "{}", error.text);
    let statistics = &memory.statistics(0)[0];
    let figures = |purpose| statistics.purposes[&purpose];
    let workspaces = figures(Purpose::Workspace);
    assert_eq!((workspaces.live, workspaces.blocks, workspaces.failures), (1500, 2, 1));
    assert_eq!((figures(Purpose::User).live, figures(Purpose::HostCopy).live), (100, 64));
    [first, other, copy].into_iter().for_each(drop);
    memory.free(user.address).unwrap();
    let statistics = &memory.statistics(0)[0];
    let left: u64 = statistics.purposes.values().map(|figures| figures.live).sum();
    let given_back: u64 = statistics.purposes.values().map(|figures| figures.gives).sum();
    assert_eq!((left, given_back), (0, 4));
    let report = memory.report();
    let line = "cairn: stats of device 0, for workspace: live 0 bytes, blocks 0, peak 1500, largest 1000, taken 2 (1500 bytes), given back 2, failed 1\n";
    assert!(report.contains(line), "{report}");
}

#[test]
fn without_a_spec_there_is_no_layer() {
    let runtime = runtime_with_layers("");
    let memory = &runtime.shared.memory;
    let block = runtime.alloc(0, 100);
    assert_eq!(memory.usage(0).live, 512, "no room around it");
    memory.free(block.address).unwrap();
    assert!(
        memory.statistics(0).is_empty()
            && memory.inspect().is_empty()
            && memory.report().is_empty()
    );
    let mock = Arc::<MockAllocator>::default();
    for wrapped in [memory.wrap(0, mock.clone()), memory.wrap_external(mock.clone())] {
        Block::allocate(&wrapped, &Request::bytes(100)).unwrap().free().unwrap();
        let request = mock.requests.lock().unwrap().pop().unwrap();
        assert_eq!((request.bytes, request.front, request.back), (100, 0, 0), "as it was asked");
        assert_eq!(mock.poisons.lock().unwrap().pop(), Some(None));
    }
}

#[test]
fn the_padding_of_a_guard_is_refused_to_tasks_and_counts_as_memory() {
    let runtime = runtime_with_layers("guard");
    let block = runtime.alloc(0, 1000);
    assert_eq!(
        runtime.shared.memory.usage(0).live,
        512 + 1000u64.next_multiple_of(512) + CANARY as u64
    );
    let stream = runtime.new_stream();
    for (before, after) in [(0, 1), (1, 0)] {
        let mut span = block;
        span.address -= before;
        span.bytes += before + after;
        stream.submit(fill(span, 1)).unwrap();
        let error = runtime.synchronize(&stream, None).unwrap_err();
        assert_eq!(error.code, Code::RtParamInvalid, "{}", error.text);
    }
    stream.submit(fill(block, 1)).unwrap();
    runtime.synchronize(&stream, None).unwrap();
    runtime.shared.memory.free(block.address).unwrap();
    let too_large = runtime.shared.memory.allocate(0, Request::bytes(64 * MIB)).unwrap_err();
    assert!(
        too_large.text.contains("asked 67108864 bytes and 1024 for layers"),
        "{}",
        too_large.text
    );
}

#[test]
fn a_reset_gives_everything_back_through_the_layers() {
    let runtime = runtime_with_layers("stats,guard,limit:1mib");
    let memory = &runtime.shared.memory;
    let blocks: Vec<_> = (1..=4).map(|n| runtime.alloc(0, n * 1000)).collect();
    let extent = memory.extent(blocks[2].address - 1, 1).unwrap();
    extent.write(&[!extent.read()[0]]);
    runtime.reset_device(0, true).unwrap();
    let total = memory.statistics(0)[0].total;
    assert_eq!((total.live, total.blocks, total.gives, total.peak), (0, 0, 4, 10_000));
    assert_eq!((memory.usage(0).live, memory.usage(0).waiting), (0, 0));
    runtime.set_device(0).unwrap();
    runtime.alloc(0, MIB);
}

#[test]
fn blocks_of_the_pool_that_outlive_their_device_raise_no_alarm() {
    let runtime = runtime_with_layers("stats,guard");
    let memory = &runtime.shared.memory;
    let stream = runtime.new_stream();
    let pool = PoolMaker::built_in(&runtime.shared, 0);
    let take = || Block::allocate(&pool, &Request::bytes(1000).on(&stream)).unwrap();
    let (first, held) = (take(), take());
    runtime.synchronize(&stream, None).unwrap();
    runtime.reset_device(0, true).unwrap();
    runtime.set_device(0).unwrap();
    let large = runtime.alloc(0, 60 * MIB);
    assert!((large.address..large.address + large.bytes).contains(&held.address()));
    memory.perform(&fill(large, 1)).unwrap();
    assert_eq!(memory.inspect(), Vec::<String>::new());
    for held in [first, held] {
        let error = held.free().unwrap_err();
        assert_eq!(error.code, Code::InvalidHandle, "{}", error.text);
    }
    memory.free(large.address).unwrap();
    assert_eq!(memory.statistics(0)[0].total.live, 0);
}

#[test]
fn a_block_is_freed_once_whoever_is_first() {
    let runtime = runtime_with_layers("stats,guard,limit:1mib");
    let memory = &runtime.shared.memory;
    let freed = AtomicU64::new(0);
    for _ in 0..50 {
        let blocks: Vec<_> = (0..8).map(|_| runtime.alloc(0, 700)).collect();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (blocks, freed) = (&blocks, &freed);
                scope.spawn(move || {
                    for index in 0..8 {
                        let block = blocks[(index + thread) % 8];
                        if memory.free(block.address).is_ok() {
                            freed.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                });
            }
        });
    }
    assert_eq!(freed.into_inner(), 400);
    let total = memory.statistics(0)[0].total;
    assert_eq!((total.live, total.takes, total.gives), (0, 400, 400));
    runtime.alloc(0, MIB);
}

#[test]
fn an_allocation_is_started_to_be_freed_once() {
    let arena = Arena::new(
        ArenaSpec {
            kind: MemoryKind::Device(0),
            capacity: 8 * MIB,
            quarantine_limit: MIB,
            skew: 0,
            is_protected: false,
        },
        Arc::new(Progress::new(1)),
        Arc::new(Budget::new(8 * MIB)),
        Arc::default(),
    )
    .unwrap();
    let request = Request { front: 1024, back: 100, ..Request::bytes(1000) };
    let take = || match arena.attempt(&request, true) {
        Attempt::Taken(address) => arena.offset(address).unwrap(),
        _ => panic!("there is room"),
    };
    let (first, second) = (take(), take());
    assert_eq!(arena.start_free(first).map(|inside| inside.bytes), Some(1000));
    assert_eq!(arena.start_free(first), None);
    assert_eq!(arena.find(first).map(|inside| inside.live), Some(false));
    let rest = arena.start_free_all();
    assert_eq!(
        rest.iter().map(|inside| arena.offset(inside.start)).collect::<Vec<_>>(),
        [Some(second)]
    );
    assert_eq!(arena.clear(), 0, "whoever made them leave sees to the rest");
    for offset in [first, second] {
        assert!(arena.find(offset).is_some() && arena.retire(offset, None));
        assert!(!arena.retire(offset, None) && !arena.free(offset));
    }
    assert_eq!((arena.usage().live, arena.usage().waiting), (0, 2 * 2560));
    arena.empty_quarantine();
    assert_eq!((arena.usage().waiting, arena.find(first), arena.find(second)), (0, None, None));
}

#[test]
fn allocators_of_a_device_share_layers_and_each_external_has_its_own() {
    let runtime = runtime_with_layers("stats,limit:1000");
    let memory = &runtime.shared.memory;
    let block = runtime.alloc(0, 600);
    let pool = memory.wrap(0, Arc::<MockAllocator>::default());
    assert!(Block::allocate(&pool, &Request::bytes(401)).is_err());
    let held = Block::allocate(&pool, &Request::bytes(400)).unwrap();
    let statistics = memory.statistics(0).remove(0);
    assert_eq!(
        (statistics.total.live, statistics.total.peak, statistics.total.failures),
        (1000, 1000, 1)
    );
    assert_eq!(statistics.allocators["mock"].live, 400);
    assert_eq!(statistics.allocators["the memory of device 0"].live, 600);
    assert!(memory.report().contains("stats of mock: live 400 bytes, blocks 1"));
    held.free().unwrap();
    memory.free(block.address).unwrap();

    let externals: Vec<_> =
        (0..200).map(|_| memory.wrap_external(Arc::<MockAllocator>::default())).collect();
    for external in &externals {
        drop(Block::allocate(external, &Request::bytes(1000)).unwrap());
    }
    drop(externals);
    drop(memory.wrap_external(Arc::<MockAllocator>::default()));
    let report = memory.report();
    assert!(report.lines().count() < 200, "those that ended are summed up");
    let expected = "stats of released allocators: live 0 bytes, blocks 0, peak 1000, largest 1000, taken 200 (200000 bytes), given back 200, failed 0";
    assert!(report.contains(expected), "{report}");
}
