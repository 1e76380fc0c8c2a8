//! Users' allocators: how they are called, which blocks are refused, and to whom blocks are freed.

#![cfg(not(feature = "shuttle"))]

mod support;

use cairn_runtime::error::{Code, Error, Result};
use cairn_runtime::host;
use cairn_runtime::memory::PoolMaker;
use cairn_runtime::memory::allocator::{Allocator, Block, RawBlock};
use cairn_runtime::memory::external::{
    BlockInfo, CallbackException, Identity, UserAllocator, UserCall,
};
use cairn_runtime::memory::registry::Domain;
use cairn_runtime::memory::request::Request;
use cairn_runtime::stream::Stream;
use cairn_runtime::task::{Location, Span};
use std::sync::{Arc, Mutex};
use support::*;

type Answer = std::result::Result<usize, CallbackException>;

/// An allocator whose results the test defines, and which records every call.
#[derive(Clone)]
struct Fake {
    object: usize,
    advises: bool,
    calls: Arc<Mutex<Vec<UserCall>>>,
    answer: Arc<dyn Fn(UserCall) -> Answer + Send + Sync>,
}

impl Fake {
    fn new(object: usize, answer: impl Fn(UserCall) -> Answer + Send + Sync + 'static) -> Fake {
        Fake { object, advises: false, calls: Arc::default(), answer: Arc::new(answer) }
    }

    /// Returns the block 7 at this address.
    fn at_address(object: usize, address: usize) -> Fake {
        Fake::new(object, move |request| match request {
            UserCall::Address(_) => Ok(address),
            _ => Ok(7),
        })
    }

    /// A bump allocator: block handles are addresses.
    fn bump(object: usize, memory: Span) -> Fake {
        let next = Mutex::new(memory.address);
        Fake::new(object, move |request| match request {
            UserCall::Alloc(bytes) | UserCall::Advise(bytes, _) => {
                let mut next = next.lock().unwrap();
                let block = *next;
                *next += bytes.next_multiple_of(64);
                Ok(block)
            }
            UserCall::Address(block) => Ok(block),
            UserCall::Free(_) => Ok(0),
        })
    }

    fn take_calls(&self) -> Vec<UserCall> {
        std::mem::take(&mut self.calls.lock().unwrap())
    }
}

impl UserAllocator for Fake {
    fn identity(&self) -> Identity {
        Identity {
            object: self.object,
            functions: [1, 2, usize::from(self.advises), 4].map(|function| [function, 0]),
        }
    }

    fn takes_advice(&self) -> bool {
        self.advises
    }

    fn call(&self, request: UserCall, _: &dyn Fn()) -> Answer {
        assert!(!host::may_help(), "a callback is not marked as one");
        self.calls.lock().unwrap().push(request);
        (self.answer)(request)
    }
}

struct Fixture {
    runtime: TestRuntime,
    handle: usize,
    stream: Arc<Stream>,
}

fn fixture() -> Fixture {
    let runtime = start_runtime(1, |_| {});
    runtime.set_device(0).unwrap();
    let handle = runtime.create_stream(0, 0).unwrap();
    let stream = runtime.stream(handle).unwrap();
    Fixture { runtime, handle, stream }
}

impl Fixture {
    fn register(&self, fake: &Fake) -> Arc<dyn Allocator> {
        self.register_on(self.handle, fake).unwrap();
        self.runtime.allocators.allocator_for(Domain::Acl, self.handle).unwrap()
    }

    fn register_on(&self, handle: usize, fake: &Fake) -> Result<()> {
        let stream = self.runtime.handles.get::<Stream>(handle)?;
        let user = Box::new(fake.clone());
        self.runtime.allocators.register(Domain::Acl, handle, &stream, 0, user)
    }

    fn allocate(&self, allocator: &Arc<dyn Allocator>, bytes: u64) -> Result<Block> {
        Block::allocate(allocator, &Request::bytes(bytes).on(&self.stream))
    }

    /// The error of a request that is refused.
    fn refusal(&self, fake: &Fake, bytes: u64) -> Error {
        let allocator = self.register(fake);
        let error = self.allocate(&allocator, bytes).err().expect("it is refused");
        assert_eq!(error.code, Code::GeFailure, "{error}");
        for name in [format!("{:#x}", fake.object), format!("stream {}", self.stream.index)] {
            assert!(error.text.contains(&name), "{error} does not name {name}");
        }
        error
    }
}

#[test]
fn a_block_is_asked_for_located_once_and_given_back_once() {
    let fixture = fixture();
    let memory = fixture.runtime.alloc(0, 4096);
    let fake = Fake::bump(0x10, memory);
    let allocator = fixture.register(&fake);
    let block = fixture.allocate(&allocator, 100).unwrap();
    assert_eq!((block.address(), block.bytes()), (memory.address, 100));
    assert_eq!(fake.take_calls(), [UserCall::Alloc(100), UserCall::Address(memory.address)]);
    block.free().unwrap();
    assert_eq!(fake.take_calls(), [UserCall::Free(memory.address)]);
    drop(fixture.allocate(&allocator, 64).unwrap());
    assert_eq!(fake.take_calls().len(), 3, "dropping gives back too");
}

#[test]
fn nothing_is_asked_for_no_bytes() {
    let fixture = fixture();
    let fake = Fake::bump(0x10, fixture.runtime.alloc(0, 4096));
    let allocator = fixture.register(&fake);
    let block = fixture.allocate(&allocator, 0).unwrap();
    assert_eq!((block.address(), block.bytes()), (0, 0));
    block.free().unwrap();
    assert_eq!(fake.take_calls(), []);
}

#[test]
fn room_around_the_bytes_is_asked_for_and_poisoned_in_stream_order() {
    let fixture = fixture();
    let memory = fixture.runtime.alloc(0, 4096);
    let fake = Fake::bump(0x10, memory);
    let allocator = fixture.register(&fake);
    let request = Request { front: 512, back: 64, ..Request::bytes(100) };
    let block = allocator.allocate(&Request { stream: Some(&fixture.stream), ..request }).unwrap();
    assert_eq!((block.address, block.bytes), (memory.address + 512, 100));
    assert_eq!(fake.take_calls()[0], UserCall::Alloc(676));
    let gate = Gate::default();
    fixture.stream.submit(gate.task()).unwrap();
    allocator.free(RawBlock { poison: Some(0xd5), ..block }, Some(&fixture.stream)).unwrap();
    assert_eq!(fake.take_calls(), [UserCall::Free(memory.address)], "the free does not wait");
    let padded = Span { bytes: 700, ..memory };
    assert_eq!(bytes(padded), [0; 700]);
    gate.open();
    assert!(fixture.stream.synchronize(None).unwrap());
    assert_eq!(bytes(Span { bytes: 676, ..memory }), [0xd5; 676]);
    assert_eq!(bytes(padded)[676..], [0; 24]);
}

#[test]
fn advice_goes_to_those_who_take_it() {
    let fixture = fixture();
    let memory = fixture.runtime.alloc(0, 4096);
    let near = Request { near: Some(memory.address + 1024), front: 512, ..Request::bytes(64) };
    for advises in [false, true] {
        let fake = Fake { advises, ..Fake::bump(0x10, memory) };
        let allocator = fixture.register(&fake);
        Block::allocate(&allocator, &Request { stream: Some(&fixture.stream), ..near })
            .unwrap()
            .free()
            .unwrap();
        let expected = match advises {
            true => UserCall::Advise(576, memory.address + 512),
            false => UserCall::Alloc(576),
        };
        assert_eq!(fake.take_calls()[0], expected);
        Block::allocate(&allocator, &Request::bytes(64).on(&fixture.stream))
            .unwrap()
            .free()
            .unwrap();
        assert_eq!(fake.take_calls()[0], UserCall::Alloc(64));
    }
}

#[test]
fn null_and_exceptions_fail_the_call_and_leave_nothing_behind() {
    let fixture = fixture();
    let memory = fixture.runtime.alloc(0, 4096);
    let exception = || Err(CallbackException("out of luck".into()));
    let null = Fake::new(0x10, |_| Ok(0));
    assert!(fixture.refusal(&null, 640).text.contains("alloc(640)"));
    assert_eq!(null.take_calls(), [UserCall::Alloc(640)]);

    let null_address = Fake::at_address(0x11, 0);
    assert!(fixture.refusal(&null_address, 64).text.contains("address is null"));
    assert_eq!(null_address.take_calls()[2], UserCall::Free(7));

    let throws = Fake::new(0x12, move |_| exception());
    assert!(fixture.refusal(&throws, 64).text.contains("alloc(64) of the allocator 0x12"));
    let throws = Fake::new(0x12, move |_| exception());
    assert!(fixture.refusal(&throws, 64).text.contains("threw an exception: out of luck"));

    let throws_at_address = Fake::new(0x13, move |request| match request {
        UserCall::Alloc(_) => Ok(7),
        _ => exception(),
    });
    assert!(fixture.refusal(&throws_at_address, 64).text.contains("getAddrFromBlock(0x7)"));
    assert_eq!(throws_at_address.take_calls().last(), Some(&UserCall::Free(7)));

    let address = memory.address;
    let throws_at_free = Fake::new(0x14, move |request| match request {
        UserCall::Free(_) => exception(),
        UserCall::Address(_) => Ok(address),
        _ => Ok(7),
    });
    let allocator = fixture.register(&throws_at_free);
    for _ in 0..2 {
        let block = fixture.allocate(&allocator, 64).unwrap();
        let error = block.free().unwrap_err();
        assert!(error.code == Code::GeFailure && error.text.contains("free(0x7)"), "{error}");
        assert_eq!(throws_at_free.take_calls().len(), 3);
    }
    for object in 0x10..0x15 {
        assert_eq!(fixture.runtime.allocators.count_of(object).blocks, 0);
    }
}

#[test]
fn blocks_have_to_lie_in_live_device_memory_of_the_streams_device() {
    let fixture = fixture();
    let memory = fixture.runtime.alloc(0, 4096);
    let freed = fixture.runtime.alloc(0, 4096);
    fixture.runtime.shared.memory.free(freed.address).unwrap();
    let other = fixture.runtime.alloc(1, 4096);
    let pinned = fixture.runtime.shared.memory.allocate_host(4096).unwrap();
    let pageable = vec![0u8; 8192];
    let cases = [
        (pageable.as_ptr() as usize & !63, "host memory that ACL does not know"),
        (0x40, "host memory that ACL does not know"),
        (pinned, "pinned host memory"),
        (freed.address, "was freed"),
        (other.address, "memory of device 1"),
        (memory.address + (32 << 20), "without an allocation"),
        (memory.address + 4096 - 64, "too short"),
        (memory.address + 16, "not a multiple of 32"),
    ];
    for (address, reason) in cases {
        let fake = Fake::at_address(0x10, address);
        let error = fixture.refusal(&fake, 512);
        assert!(error.text.contains(reason), "{error} lacks {reason}");
        let calls = [UserCall::Alloc(512), UserCall::Address(7), UserCall::Free(7)];
        assert_eq!(fake.take_calls(), calls);
        fixture.runtime.allocators.unregister(Domain::Acl, fixture.handle);
    }
    let valid = Fake::at_address(0x10, memory.address + 32);
    fixture.allocate(&fixture.register(&valid), 4096 - 32).unwrap().free().unwrap();
}

#[test]
fn memory_that_is_out_is_not_taken_again() {
    let fixture = fixture();
    let memory = fixture.runtime.alloc(0, 4096);
    let fake = Fake::at_address(0x10, memory.address + 512);
    let allocator = fixture.register(&fake);
    let block = fixture.allocate(&allocator, 512).unwrap();
    fake.take_calls();
    let error = fixture.allocate(&allocator, 64).err().unwrap();
    assert!(
        error.code == Code::GeFailure && error.text.contains("is already allocated"),
        "{error}"
    );
    assert_eq!(fake.take_calls(), [UserCall::Alloc(64)], "it is neither located nor freed again");

    let other = Fake::at_address(0x20, memory.address + 992);
    fixture.runtime.allocators.unregister(Domain::Acl, fixture.handle);
    let error = fixture.refusal(&other, 64);
    assert!(error.text.contains("shares bytes") && error.text.contains("0x10"), "{error}");
    assert_eq!(other.take_calls().last(), Some(&UserCall::Free(7)));

    block.free().unwrap();
    assert_eq!(fake.take_calls(), [UserCall::Free(7)]);
    fixture.allocate(&allocator, 64).unwrap().free().unwrap();
}

#[test]
fn the_same_allocator_stays_the_same() {
    let fixture = fixture();
    let memory = fixture.runtime.alloc(0, 4096);
    let fake = Fake::at_address(0x10, memory.address);
    let block = fixture.allocate(&fixture.register(&fake), 64).unwrap();
    fixture.runtime.allocators.unregister(Domain::Acl, fixture.handle);
    let allocator = fixture.register(&fake);
    assert!(fixture.allocate(&allocator, 64).is_err(), "its block is still out");
    let other = fixture.runtime.create_stream(0, 0).unwrap();
    fixture.register_on(other, &fake).unwrap();
    let registered = |handle| fixture.runtime.allocators.registration(Domain::Acl, handle).unwrap();
    assert!(Arc::ptr_eq(&registered(fixture.handle).external, &registered(other).external));
    block.free().unwrap();

    let replaced = Fake { advises: true, ..Fake::bump(0x10, memory) };
    fixture.register_on(fixture.handle, &replaced).unwrap();
    assert!(!Arc::ptr_eq(&registered(fixture.handle).external, &registered(other).external));
}

#[test]
fn blocks_go_back_to_their_maker_which_outlives_them() {
    let fixture = fixture();
    let memory = fixture.runtime.alloc(0, 4096);
    let (first, second) = (Fake::bump(0x10, memory), Fake::at_address(0x20, memory.address + 2048));
    let block = fixture.allocate(&fixture.register(&first), 64).unwrap();
    let second_block = fixture.allocate(&fixture.register(&second), 64).unwrap();
    fixture.runtime.allocators.unregister(Domain::Acl, fixture.handle);
    assert_eq!(Arc::strong_count(&first.calls), 2, "the block keeps its maker");
    first.take_calls();
    second.take_calls();
    block.free().unwrap();
    second_block.free().unwrap();
    assert_eq!(first.take_calls(), [UserCall::Free(memory.address)]);
    assert_eq!(second.take_calls(), [UserCall::Free(7)]);
    assert_eq!(Arc::strong_count(&first.calls), 1, "and only the block did");
}

#[test]
fn domains_streams_and_null_do_not_see_each_other() {
    let fixture = fixture();
    let fake = Fake::bump(0x10, fixture.runtime.alloc(0, 4096));
    fixture.register(&fake);
    let is_registered =
        |domain, handle| fixture.runtime.allocators.allocator_for(domain, handle).is_some();
    assert!(is_registered(Domain::Acl, fixture.handle));
    assert!(!is_registered(Domain::Ge, fixture.handle));
    let default = fixture.runtime.current_context().unwrap().default_handle();
    fixture.register_on(default, &fake).unwrap();
    assert!(is_registered(Domain::Acl, default));
    assert!(!is_registered(Domain::Acl, 0));
    fixture.runtime.allocators.unregister(Domain::Ge, fixture.handle);
    assert!(is_registered(Domain::Acl, fixture.handle));
}

#[test]
fn registrations_end_with_their_stream() {
    let fixture = fixture();
    let fake = Fake::bump(0x10, fixture.runtime.alloc(0, 4096));
    let allocator = fixture.register(&fake);
    let block = fixture.allocate(&allocator, 64).unwrap();
    drop(allocator);
    fixture.runtime.destroy_stream(fixture.handle, true).unwrap();
    assert!(fixture.runtime.allocators.registration(Domain::Acl, fixture.handle).is_none());
    assert_eq!(fixture.register_on(fixture.handle, &fake).unwrap_err().code, Code::InvalidHandle);
    fake.take_calls();
    drop(block);
    assert_eq!(fake.take_calls().len(), 1, "what was out goes back");

    let explicit = fixture.runtime.create_stream(0, 0).unwrap();
    let default = fixture.runtime.current_context().unwrap().default_handle();
    for handle in [explicit, default] {
        fixture.register_on(handle, &fake).unwrap();
    }
    fixture.runtime.reset_device(0, true).unwrap();
    for handle in [explicit, default] {
        assert!(fixture.runtime.allocators.registration(Domain::Acl, handle).is_none());
    }
    assert_eq!(Arc::strong_count(&fake.calls), 1);
}

#[test]
fn a_device_that_ends_frees_the_addresses_of_blocks_that_are_out() {
    let fixture = fixture();
    let memory = fixture.runtime.alloc(0, 4096);
    let fake = Fake::at_address(0x10, memory.address);
    let block = fixture.allocate(&fixture.register(&fake), 64).unwrap();
    fixture.runtime.reset_device(0, true).unwrap();
    assert_eq!(fixture.runtime.allocators.count_of(0x10).blocks, 0);

    fixture.runtime.set_device(0).unwrap();
    let new_memory = fixture.runtime.alloc(0, 4096);
    let stream = fixture.runtime.new_stream();
    let next = Fake::at_address(0x20, new_memory.address);
    let handle = fixture.runtime.create_stream(0, 0).unwrap();
    fixture.register_on(handle, &next).unwrap();
    let allocator = fixture.runtime.allocators.allocator_for(Domain::Acl, handle).unwrap();
    let new_block = Block::allocate(&allocator, &Request::bytes(64).on(&stream)).unwrap();
    fake.take_calls();
    drop(block);
    assert_eq!(fake.take_calls(), [UserCall::Free(7)], "it goes back all the same");
    new_block.free().unwrap();
}

#[test]
fn nobody_is_called_once_main_has_returned() {
    let fixture = fixture();
    let fake = Fake::bump(0x10, fixture.runtime.alloc(0, 4096));
    let allocator = fixture.register(&fake);
    let block = fixture.allocate(&allocator, 64).unwrap();
    fake.take_calls();
    fixture.runtime.shared.set_exiting();
    assert_eq!(fixture.allocate(&allocator, 64).err().unwrap().code, Code::RtInternal);
    block.free().unwrap();
    assert_eq!(fake.take_calls(), []);
    assert_eq!(fixture.runtime.allocators.count_of(0x10).blocks, 0);
}

#[test]
fn without_a_registration_the_device_serves() {
    let fixture = fixture();
    assert!(fixture.runtime.allocators.allocator_for(Domain::Acl, fixture.handle).is_none());
    let allocator = PoolMaker::built_in(&fixture.runtime.shared, 0);
    let block = fixture.allocate(&allocator, 100).unwrap();
    let span = Span { address: block.address(), bytes: 100, location: Location::Device(0) };
    fixture.stream.submit(fill(span, 9)).unwrap();
    block.free().unwrap();
    assert!(fixture.stream.synchronize(None).unwrap());
    assert_eq!(bytes(span), [9; 100]);
}

#[test]
fn a_block_that_is_out_is_not_freed_because_it_came_through_other_functions_too() {
    let fixture = fixture();
    let memory = fixture.runtime.alloc(0, 4096);
    let first = Fake::at_address(0x10, memory.address);
    let block = fixture.allocate(&fixture.register(&first), 64).unwrap();
    let second = Fake { advises: true, ..first.clone() };
    let error = fixture.allocate(&fixture.register(&second), 64).err().unwrap();
    assert!(error.text.contains("still out"), "{}", error.text);
    block.free().unwrap();
    let frees = first.take_calls().iter().filter(|c| matches!(c, UserCall::Free(7))).count();
    assert_eq!(frees, 1);
}

/// Its blocks report what the test sets.
struct InfoAllocator(Fake, BlockInfo);

impl UserAllocator for InfoAllocator {
    fn identity(&self) -> Identity {
        self.0.identity()
    }

    fn takes_advice(&self) -> bool {
        false
    }

    fn block_info(&self, _: usize) -> Option<BlockInfo> {
        Some(self.1)
    }

    fn call(&self, request: UserCall, on_exit: &dyn Fn()) -> Answer {
        self.0.call(request, on_exit)
    }
}

#[test]
fn a_block_that_reports_too_few_bytes_or_no_reference_is_refused() {
    let fixture = fixture();
    let memory = fixture.runtime.alloc(0, 1 << 20);
    let short = BlockInfo { bytes: 4095, reference_count: 1, object: 71 };
    let unused = BlockInfo { bytes: 4096, reference_count: 0, object: 70 };
    for (info, message) in [(short, "GetSize() says 4095"), (unused, "GetCount() says 0")] {
        let fake = Fake::bump(70 + info.reference_count, memory);
        let user = Box::new(InfoAllocator(fake.clone(), info));
        let registry = &fixture.runtime.allocators;
        registry.register(Domain::Ge, fixture.handle, &fixture.stream, 0, user).unwrap();
        let allocator = registry.allocator_for(Domain::Ge, fixture.handle).unwrap();
        let error = fixture.allocate(&allocator, 4096).err().expect("the block is refused");
        assert!(error.text.contains(message), "{}", error.text);
        let block = memory.address;
        assert_eq!(fake.take_calls(), [UserCall::Alloc(4096), UserCall::Free(block)]);
        assert_eq!(fixture.allocate(&allocator, 4095).is_ok(), info.reference_count > 0);
    }
}

#[test]
fn a_failure_on_a_thread_without_a_device_names_that() {
    let fixture = fixture();
    let fake = Fake::new(8, |request| match request {
        UserCall::Alloc(_) => Ok(0),
        _ => panic!("nothing was given"),
    });
    let allocator = fixture.register(&fake);
    let with_device = fixture.allocate(&allocator, 64).err().expect("null").text;
    assert!(!with_device.contains("no device"), "{with_device}");
    let without_device = std::thread::scope(|scope| {
        let thread = scope.spawn(|| fixture.allocate(&allocator, 64).err().expect("null").text);
        thread.join().unwrap()
    });
    assert!(without_device.contains("this thread has no device"), "{without_device}");
}
