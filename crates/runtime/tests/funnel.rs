//! The funnel: a block of whatever kind passes the layers and is emitted as an event.

#![cfg(not(feature = "shuttle"))]

mod support;

use cairn_runtime::error::Result;
use cairn_runtime::memory::allocator::{Allocator, Block, RawBlock};
use cairn_runtime::memory::external::{
    CallbackException, Identity, UserAllocator, UserCall, reason,
};
use cairn_runtime::memory::layer::{Layer, Observer, Spec};
use cairn_runtime::memory::purpose::{Owner, Purpose};
use cairn_runtime::memory::registry::Domain;
use cairn_runtime::memory::request::Request;
use cairn_runtime::memory::{AddressInfo, BlockKind, PoolMaker, describe};
use cairn_runtime::record::event::{Change, MemoryKind};
use cairn_runtime::record::{Event, Kind, Sink, Stamp};
use cairn_runtime::stream::Stream;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use support::*;

/// A layer that counts requests by maker and purpose, and live bytes by maker.
#[derive(Default)]
struct Counter(Mutex<Counts>);

#[derive(Default)]
struct Counts {
    requests: BTreeMap<(String, Purpose), usize>,
    bytes: BTreeMap<String, i64>,
}

impl Counter {
    fn requests(&self, maker: &str, purpose: Purpose) -> usize {
        self.0.lock().unwrap().requests.get(&(maker.into(), purpose)).copied().unwrap_or(0)
    }

    fn live(&self) -> Vec<(String, i64)> {
        let counts = self.0.lock().unwrap();
        let live = counts.bytes.iter().filter(|(_, bytes)| **bytes != 0);
        live.map(|(name, bytes)| (name.clone(), *bytes)).collect()
    }
}

impl Layer for Counter {
    fn name(&self) -> &'static str {
        "counter"
    }

    fn allocate(&self, request: &Request<'_>, below: &dyn Allocator) -> Result<RawBlock> {
        let block = below.allocate(request)?;
        let mut counts = self.0.lock().unwrap();
        *counts.requests.entry((below.name(), request.purpose)).or_default() += 1;
        *counts.bytes.entry(below.name()).or_default() += block.bytes as i64;
        Ok(block)
    }

    fn free(
        &self,
        block: RawBlock,
        stream: Option<&Arc<Stream>>,
        below: &dyn Allocator,
    ) -> Result<()> {
        let bytes = block.bytes as i64;
        *self.0.lock().unwrap().bytes.entry(below.name()).or_default() -= bytes;
        below.free(block, stream)
    }
}

/// A user allocator over one block of device memory, which it hands out whole.
struct UserSlab(usize, Mutex<Vec<Call>>);

/// A call, and why it was made.
type Call = (UserCall, Option<(Purpose, Owner)>);

#[derive(Clone)]
struct SharedSlab(Arc<UserSlab>);

impl UserAllocator for SharedSlab {
    fn identity(&self) -> Identity {
        Identity { object: 0x77, functions: [[1, 0], [2, 0], [0, 0], [4, 0]] }
    }

    fn takes_advice(&self) -> bool {
        false
    }

    fn call(&self, call: UserCall, _: &dyn Fn()) -> std::result::Result<usize, CallbackException> {
        let reason_given = reason().map(|reason| (reason.purpose, reason.owner));
        self.0.1.lock().unwrap().push((call, reason_given));
        Ok(match call {
            UserCall::Alloc(_) | UserCall::Advise(..) => 0xb10c,
            UserCall::Address(_) => self.0.0,
            UserCall::Free(_) => 0,
        })
    }
}

/// A runtime with these layers, and a counting layer over all memory.
fn runtime_with_counter(spec: &str) -> (TestRuntime, Arc<Counter>) {
    let counter = Arc::<Counter>::default();
    let observer = Some(Observer(counter.clone()));
    let runtime = start_runtime(1, |config| {
        config.layer = observer;
        config.memory = Spec::parse(spec).unwrap();
    });
    runtime.set_device(0).unwrap();
    (runtime, counter)
}

fn register(runtime: &TestRuntime, handle: usize) -> (SharedSlab, Arc<dyn Allocator>) {
    let slab = runtime.alloc(0, 1 << 20).address;
    let user = SharedSlab(Arc::new(UserSlab(slab, Mutex::default())));
    let stream = runtime.handles.get::<Stream>(handle).unwrap();
    runtime.allocators.register(Domain::Acl, handle, &stream, 0, Box::new(user.clone())).unwrap();
    let found = runtime.allocators.allocator_for(Domain::Acl, handle).unwrap();
    (user, found)
}

const OPERATOR: Owner = Owner { graph: Some(9), loaded: None, operator: Some("Sort") };

#[test]
fn every_kind_of_allocation_passes_a_counting_layer() {
    for spec in ["", "stats,guard"] {
        let (runtime, counter) = runtime_with_counter(spec);
        let memory = &runtime.shared.memory;
        let handle = runtime.create_stream(0, 0).unwrap();
        let stream = runtime.stream(handle).unwrap();

        let device = runtime.alloc(0, 1000).address;
        assert_eq!(counter.requests("the memory of device 0", Purpose::User), 1, "{spec}");
        let pinned = memory.allocate_host(1000).unwrap();
        assert_eq!(counter.requests("pinned host memory", Purpose::User), 1);
        let pool = memory.create_pool(0, u64::MAX);
        let pooled = memory.take_from(&pool, 1000, &stream).unwrap();
        assert_eq!(counter.requests("pool 1 of device 0", Purpose::User), 1);
        assert!(counter.requests("the segments of pool 1", Purpose::PoolSegment) > 0);

        let built_in = PoolMaker::built_in(&runtime.shared, 0);
        let request = Request::bytes(1000).on(&stream).purpose(Purpose::Workspace, OPERATOR);
        let workspace = Block::allocate(&built_in, &request).unwrap();
        assert_eq!(counter.requests("the pool of device 0", Purpose::Workspace), 1);
        assert!(counter.requests("the segments of pool 2", Purpose::PoolSegment) > 0);
        let (user, external) = register(&runtime, handle);
        let request = Request::bytes(1000).on(&stream).purpose(Purpose::Feature, OPERATOR);
        let feature = Block::allocate(&external, &request).unwrap();
        assert_eq!(counter.requests("the user's allocator 0x77", Purpose::Feature), 1);
        let blocks: Vec<_> =
            counter.live().into_iter().filter(|(_, bytes)| *bytes == 1000).collect();
        assert_eq!(blocks.len(), 4, "pinned, both pools, external: {:?}", counter.live());

        feature.free().unwrap();
        workspace.free().unwrap();
        memory.give_back(pooled, &stream).unwrap();
        memory.free_host(pinned).unwrap();
        memory.free(device).unwrap();
        memory.free(user.0.0).unwrap();
        runtime.synchronize(&stream, None).unwrap();
        memory.end_pool(&pool);
        memory.trim_pool(&memory.built_in_pool(0), 0);
        assert_eq!(counter.live(), [], "{spec}: what was made came back the same way");
        let calls = user.0.1.lock().unwrap();
        assert!(
            calls
                .iter()
                .all(|(_, reason_given)| *reason_given == Some((Purpose::Feature, OPERATOR)))
        );
        assert_eq!((calls.len(), reason()), (3, None));
    }
}

#[test]
fn pinned_memory_has_layers_of_its_own_and_no_limit_of_a_device() {
    let (runtime, _) = runtime_with_counter("limit:1mib,stats,guard,fault:nth=3");
    let memory = &runtime.shared.memory;
    let large = memory.allocate_host(4 << 20).expect("a limit of devices does not count it");
    let small = memory.allocate_host(100).unwrap();
    let error = memory.allocate_host(100).unwrap_err();
    assert!(
        error.text.contains("request 3, of 100 bytes from pinned host memory"),
        "{}",
        error.text
    );
    runtime.alloc(0, 100);
    let total = memory.host_statistics()[0].total;
    assert_eq!((total.live, total.blocks, total.failures), ((4 << 20) + 100, 2, 1));
    let beside = memory.extent(small + 100, 1).unwrap();
    beside.write(&[!beside.read()[0]]);
    let found = memory.free_host(small).unwrap_err();
    assert!(found.text.contains("1 byte after it"), "{}", found.text);
    assert!(memory.free_host(small).unwrap_err().text.contains("already freed"));
    memory.free_host(large).unwrap();
    assert!(memory.report().contains("stats of pinned host memory: live 0 bytes"));
}

/// The events, as short texts.
#[derive(Default)]
struct EventLog(Mutex<Vec<String>>);

impl Sink for EventLog {
    fn event(&self, _: &Stamp, event: &Event<'_>) {
        let line = match event {
            Event::Alloc { kind, bytes, purpose, owner, stream, .. } => {
                let on_stream = stream.map_or("", |_| " on a stream");
                let of_operator =
                    owner.operator.map_or(String::new(), |name| format!(" of {name}"));
                format!("alloc {bytes} of {kind} for {}{of_operator}{on_stream}", purpose.name())
            }
            Event::Free { kind, bytes, stream, .. } => {
                format!("free {bytes} of {kind}{}", stream.map_or("", |_| " on a stream"))
            }
            Event::Reusable { kind, bytes, .. } => format!("reusable {bytes} of {kind}"),
            Event::Register { object, change, .. } => format!("{change:?} {object:#x}"),
            Event::Submit { task, .. } => format!("submit {}", task.name),
            Event::Callback(call) => format!("{} gave {:x?}", call.request, call.answer),
            Event::Usage { device, used, quarantined, .. } => {
                format!("device {device}: {used} used, {quarantined} quarantined")
            }
            _ => return,
        };
        self.0.lock().unwrap().push(line);
    }
}

impl EventLog {
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

#[test]
fn allocations_are_emitted_after_and_frees_before() {
    let (runtime, _) = runtime_with_counter("");
    let memory = &runtime.shared.memory;
    let handle = runtime.create_stream(0, 0).unwrap();
    let stream = runtime.stream(handle).unwrap();
    let log = Arc::<EventLog>::default();
    let kinds = [Kind::Alloc, Kind::Free, Kind::Reusable, Kind::Register, Kind::Callback];
    let listener = runtime.shared.spine.subscribe(log.clone(), &kinds).unwrap();

    let device = runtime.alloc(0, 1000).address;
    memory.free(device).unwrap();
    assert!(memory.free(device).is_err(), "and no event says so");
    assert_eq!(log.take(), ["alloc 1000 of device 0 for user", "free 1000 of device 0"]);
    runtime.synchronize(&stream, None).unwrap();
    let second = runtime.alloc(0, 1 << 20).address;
    assert_eq!(
        log.take(),
        ["reusable 1000 of device 0", "alloc 1048576 of device 0 for user"],
        "the free is emitted first"
    );
    memory.free(second).unwrap();
    let pinned = memory.allocate_host(64).unwrap();
    memory.free_host(pinned).unwrap();
    log.take();

    let pool = memory.create_pool(0, u64::MAX);
    let pooled = memory.take_from(&pool, 700, &stream).unwrap();
    memory.give_back(pooled, &stream).unwrap();
    assert!(memory.give_back(pooled, &stream).is_err());
    runtime.synchronize(&stream, None).unwrap();
    memory.end_pool(&pool);
    assert_eq!(
        log.take(),
        [
            "alloc 2097152 of a segment of pool 1 of device 0 for pool segment",
            "alloc 700 of pool 1 of device 0 for user on a stream",
            "free 700 of pool 1 of device 0 on a stream",
            "free 2097152 of a segment of pool 1 of device 0",
        ]
    );

    let (user, external) = register(&runtime, handle);
    log.take();
    let request = Request::bytes(96).on(&stream).purpose(Purpose::Workspace, OPERATOR);
    Block::allocate(&external, &request).unwrap().free().unwrap();
    runtime.allocators.unregister(Domain::Acl, handle);
    let address = format!("getAddrFromBlock(0xb10c) gave Some({:x})", user.0.0);
    assert_eq!(
        log.take(),
        [
            "alloc(96) gave Some(b10c)",
            &address,
            "alloc 96 of the user's allocator 0x77 for workspace of Sort on a stream",
            "free 96 of the user's allocator 0x77 on a stream",
            "free(0xb10c) gave Some(0)",
            "Destroyed 0x77",
        ]
    );
    let mut registered = vec![0u8; 64];
    let address = registered.as_mut_ptr() as usize;
    memory.registered().insert(address, 64, false).unwrap();
    memory.registered().remove(address).unwrap();
    let kind = MemoryKind::Registered;
    assert_eq!(log.take(), [format!("alloc 64 of {kind} for user"), format!("free 64 of {kind}")]);
    runtime.shared.spine.listen(listener, &[Kind::Usage, Kind::Register]);
    memory.free(user.0.0).unwrap();
    let emitted = log.take();
    assert!(emitted.len() == 1 && emitted[0].starts_with("device 0: 0 used, "), "{emitted:?}");
    register(&runtime, handle);
    assert!(log.take().contains(&format!("{:?} 0x77", Change::Created)));
}

#[test]
fn the_innermost_block_is_located() {
    let (runtime, _) = runtime_with_counter("");
    let memory = &runtime.shared.memory;
    let handle = runtime.create_stream(0, 0).unwrap();
    let stream = runtime.stream(handle).unwrap();
    let block_at = |address: usize| match memory.locate(address) {
        AddressInfo::Device(0, Some(inside)) => {
            (inside.start, inside.bytes, inside.live, inside.kind)
        }
        other => panic!("{other:?}"),
    };
    let device = runtime.alloc(0, 1000).address;
    assert_eq!(block_at(device + 999), (device, 1000, true, BlockKind::Allocation));

    let pool = memory.create_pool(0, u64::MAX);
    let blocks = [700, 5000].map(|bytes| memory.take_from(&pool, bytes, &stream).unwrap());
    let kind = BlockKind::Pool { pool: 1 };
    assert_eq!(block_at(blocks[0] + 699), (blocks[0], 700, true, kind));
    assert_eq!(block_at(blocks[1]), (blocks[1], 5000, true, kind));
    memory.give_back(blocks[1], &stream).unwrap();
    assert_eq!(block_at(blocks[1] + 4096), (blocks[1], 5000, false, kind));
    let text = describe(blocks[1] + 8, &memory.locate(blocks[1] + 8));
    let block = format!("the block {:#x} of 5000 bytes (offset 8, freed) of pool 1", blocks[1]);
    assert!(text.starts_with(&block), "{text}");
    let AddressInfo::Device(0, Some(enclosing)) = memory.enclosing(blocks[1]) else { panic!() };
    assert!(enclosing.live && enclosing.bytes >= 2 << 20, "tasks may touch all that the pool has");
    assert_eq!(enclosing.kind, BlockKind::Segment { pool: 1 });
    runtime.synchronize(&stream, None).unwrap();
    memory.end_pool(&pool);
    assert!(matches!(memory.locate(blocks[0]), AddressInfo::Device(0, None)));

    let (user, external) = register(&runtime, handle);
    let block = Block::allocate(&external, &Request::bytes(96).on(&stream)).unwrap();
    let kind = BlockKind::External { object: 0x77, block: 0xb10c };
    assert_eq!(block_at(user.0.0 + 95), (user.0.0, 96, true, kind));
    assert_eq!(block_at(user.0.0 + 96), (user.0.0, 1 << 20, true, BlockKind::Allocation));
    block.free().unwrap();
    assert_eq!(block_at(user.0.0), (user.0.0, 1 << 20, true, BlockKind::Allocation));
}

/// A block of a user's allocator is overwritten by a task that comes before its free: after it, the bytes are the
/// user's.
#[test]
fn poison_is_submitted_before_the_free() {
    let runtime = start_runtime(1, |config| config.memory = Spec::parse("guard").unwrap());
    runtime.set_device(0).unwrap();
    let handle = runtime.create_stream(0, 0).unwrap();
    let stream = runtime.stream(handle).unwrap();
    let (_user, external) = register(&runtime, handle);
    let block = Block::allocate(&external, &Request::bytes(96).on(&stream)).unwrap();
    let log = Arc::new(EventLog::default());
    runtime.shared.spine.subscribe(log.clone(), &[Kind::Submit, Kind::Free]).unwrap();
    block.free().unwrap();
    let log = log.take();
    let position = |what: &str| log.iter().position(|line| line.starts_with(what));
    assert!(position("submit").is_some() && position("submit") < position("free"), "{log:?}");
}
